/* SPDX-License-Identifier: Apache-2.0 */
/* host_kernels.c - see host_kernels.h. What a warp does together, packing, is done for 32 elements
 * in turn. */
#include "host_kernels.h"

#include <string.h>

#include "gpu/describe.h"
#include "gpu/kinds.h"

enum { WARP = 32 };

static void expand_keys(const uvcc_step_keys *from, uint32_t (*to)[AES_KEY_WORDS]) {
    for (unsigned pair = 0; pair < 3; pair++)
        for (unsigned tag = 0; tag < UVCC_TAG_COUNT; tag++)
            aes_expand(from->prg[pair][tag], to[pair * UVCC_TAG_COUNT + tag]);
}

/* As threads do it that share a unit, so many as there may be, in turn. */
static packed by_parts(const vec *unit) {
    const packed none = {{0, 0}};
    vec c = *unit;
    uint64_t sum = 0;
    c.lanes = 1u << c.i % 6;
    for (c.lane = 0; c.lane < c.lanes; c.lane++)
        sum += part_of_unit(c.t->kind, &c);
    end_of_unit(c.t->kind, &c, sum);
    return none;
}

static void run_warp(const vec *block, uint32_t first, uint32_t units) {
    uint64_t x[2][WARP] = {{0}};
    vec c = *block;
    for (unsigned k = 0; k < WARP && first + k < units; k++) {
        c.i = first + k;
        c.tables = c.i % 2 == 0 ? AES_FOUR : AES_TWO;
        const packed p = has_parts(c.t->kind) ? by_parts(&c) : do_unit(c.t->kind, &c);
        x[0][k] = p.x[0];
        x[1][k] = p.x[1];
    }
    for (unsigned which = 0; packs(c.t->kind) && which < 2; which++) {
        const packing to = packing_of(&c, which);
        for (unsigned lane = 0; lane < WARP; lane++)
            pack_part(&to, c.b->count, first, x[which], lane);
    }
}

void host_kernels_vec(const vec_task *t, const uvcc_step_keys *from) {
    uint32_t keys[PRG_KEYS][AES_KEY_WORDS] = {{0}}, tree[2][AES_KEY_WORDS] = {{0}};
    if (from != NULL) {
        expand_keys(from, keys);
        aes_expand_tree(from->dpf, tree);
    }
    for (uint32_t b = 0; b < t->count; b++) {
        vec c = {.t = t, .block = &t->blocks[b], .b = &t->blocks[b].at, .lanes = 1};
        c.key = (const uint32_t(*)[AES_KEY_WORDS])keys;
        c.tree = (const uint32_t(*)[AES_KEY_WORDS])tree;
        const uint32_t units = units_of(t, c.b);
        for (uint32_t i = 0; i < (units + 63) / 64 * 64; i += WARP)
            run_warp(&c, i, units);
    }
}

void host_kernels_map(const map_task *t) {
    for (unsigned k = 0; k < 2; k++) {
        const map_part p = map_part_of(t, k);
        for (uint64_t e = 0; map_makes(t, k) && e < map_elems(t); e++)
            p.out[e] = map_is_sum(t->op) ? map_sum(t, &p, e, 0, 1) : map_element(t, &p, e);
    }
}

void host_kernels_gemm(const product_task *t) {
    for (uint64_t which = 0; which < product_blocks(t); which++) {
        const product_task b = product_block(t, which);
        for (uint32_t i = 0; i < b.m; i++)
            for (uint32_t j = 0; j < b.n; j++)
                product_store(&b, i, j, product_at(&b, i, j));
    }
}

static void sum_bits(const bits_task *t, const uint32_t *key, const uint64_t *x, uint64_t *out) {
    for (uint32_t a = 0; a < 64; a++)
        for (uint32_t j = 0; j < t->cols; j++) {
            uint64_t sum = 0;
            for (uint32_t i = 0; i < t->rows; i++)
                sum += bits_operand(t, x, i, j) & (0 - bit_of(bits_word(t, key, i), a));
            out[(size_t)a * t->cols + j] = sum;
        }
}

void host_kernels_bits(const bits_task *t) {
    uint32_t key[AES_KEY_WORDS];
    aes_expand(t->key, key);
    if (t->x.lo != NULL)
        sum_bits(t, key, t->x.lo, t->out.lo);
    if (t->x.hi != NULL)
        sum_bits(t, key, t->x.hi, t->out.hi);
}

void host_kernels_hash(const digest_item *items, uint32_t count, uint32_t ends, uint64_t chunks,
                       const digest_places *to) {
    for (uint64_t k = 0; k < chunks; k++)
        digest_chunk(items, count, k,
                     k < to->split ? to->near + DIGEST_BYTES * k
                                   : to->far + DIGEST_BYTES * (k - to->split));
    for (uint32_t i = 0; i < ends; i++)
        digest_item_end(&items[i], to->near);
}

void host_kernels_bytes(const uvcc_copy_item *items, uint32_t count, bool wipe) {
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].len != 0 && !wipe)
            memcpy(items[i].dst, items[i].src, items[i].len);
        else if (items[i].len != 0)
            memset(items[i].dst, 0, items[i].len);
    }
}
