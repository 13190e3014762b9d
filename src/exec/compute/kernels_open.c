/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_open.c - tasks of inputs, openings, reshares and triples: pads added, parts put on the
 * wire, what came put together. See kernels.c for chunks and invariants. */
#include "exec/compute/kernels_impl.h"

#include <assert.h>

/* HEAD owns the input: what it keeps are two pads, what it sends to both is the rest. */
static void input(const chunk *c) {
    assert(c->b->out[0] != NULL && c->b->out[1] != NULL);
    if (c->b->role == UVCC_TAIL) {
        prg(c, UVCC_PAIR_PREV, UVCC_TAG_input, 0, c->first, out(c, 0), c->n);
        memcpy(out(c, 1), wire_in(c, 0), (size_t)c->n * 8);
        return;
    }
    if (c->b->role == UVCC_OTHER) {
        memcpy(out(c, 0), wire_in(c, 0), (size_t)c->n * 8);
        prg(c, UVCC_PAIR_NEXT, UVCC_TAG_input, 0, c->first, out(c, 1), c->n);
        return;
    }
    const uint64_t *lo = pad(c, 0, UVCC_PAIR_PREV, UVCC_TAG_input, 0);
    const uint64_t *hi = pad(c, 1, UVCC_PAIR_NEXT, UVCC_TAG_input, 0);
    const uint64_t *x = in(c, 0);
    uint64_t *out_lo = out(c, 0), *out_hi = out(c, 1);
    uint8_t *to0 = wire_out(c, 0), *to1 = wire_out(c, 1);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t rest = x[i] - lo[i] - hi[i];
        put(to0, i, rest);
        put(to1, i, rest);
        out_lo[i] = lo[i];
        out_hi[i] = hi[i];
    }
}

/* A product's part on its way to HEAD and TAIL; they scale their masks by 2^f, OTHER adds the low
 * bits. */
static void open4_mask(const chunk *c) {
    assert(c->b->in[0] != NULL && c->b->wire_out[0] != NULL);
    const uint64_t *next = pad(c, 0, UVCC_PAIR_NEXT, UVCC_TAG_zero, 0);
    const uint64_t *prev = pad(c, 1, UVCC_PAIR_PREV, UVCC_TAG_zero, 0);
    const uint64_t *z = in(c, 0);
    const unsigned f = c->t->u.vec.shift;
    uint8_t *to0 = wire_out(c, 0);
    if (c->b->role == UVCC_OTHER) {
        const uint64_t *low = pad(c, 2, UVCC_PAIR_OWN, UVCC_TAG_own, 0);
        const uint64_t mask = low_bits(f);
        uint8_t *to1 = wire_out(c, 1);
        for (uint32_t i = 0; i < c->n; i++) {
            const uint64_t x = z[i] + next[i] - prev[i] + (low[i] & mask);
            put(to0, i, x);
            put(to1, i, x);
        }
        return;
    }
    const uint64_t *p = pad(c, 2, pair_other(c), UVCC_TAG_trunc, 0);
    uint64_t *kept = out(c, 0);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t x = z[i] + next[i] - prev[i] + (p[i] << f);
        kept[i] = x;
        put(to0, i, x);
    }
}

static void open2_mask(const chunk *c) {
    assert(c->b->role == UVCC_OTHER || (c->b->in[0] != NULL && c->b->in[1] != NULL &&
                                        c->b->out[0] != NULL && c->b->wire_out[0] != NULL));
    if (c->b->role == UVCC_OTHER)
        return;
    const bool head = c->b->role == UVCC_HEAD;
    const uint64_t *p = pad(c, 0, pair_other(c), UVCC_TAG_mask, 0);
    const uint64_t *mine = in(c, head ? 0 : 1), *common = in(c, head ? 1 : 0);
    uint64_t *kept = out(c, 0);
    uint8_t *to = wire_out(c, 0);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t x = mine[i] + p[i];
        kept[i] = x + common[i];
        put(to, i, x);
    }
}

static void open_finish(const chunk *c) {
    assert(c->b->role == UVCC_OTHER ||
           (c->b->in[0] != NULL && c->b->out[0] != NULL && c->b->wire_in[0] != NULL));
    if (c->b->role == UVCC_OTHER)
        return;
    const uint64_t *kept = in(c, 0), add = c->t->u.vec.constant;
    const uint8_t *from0 = wire_in(c, 0);
    uint64_t *to = out(c, 0);
    if (c->b->wire_in[1] == NULL) {
        for (uint32_t i = 0; i < c->n; i++)
            to[i] = kept[i] + get(from0, i) + add;
        return;
    }
    const uint8_t *from1 = wire_in(c, 1);
    for (uint32_t i = 0; i < c->n; i++)
        to[i] = kept[i] + get(from0, i) + get(from1, i) + add;
}

static void open_all_finish(const chunk *c) {
    assert(c->b->in[0] != NULL && c->b->in[1] != NULL && c->b->out[0] != NULL &&
           c->b->wire_in[0] != NULL);
    const uint64_t *lo = in(c, 0), *hi = in(c, 1);
    const uint8_t *from = wire_in(c, 0);
    uint64_t *to = out(c, 0);
    for (uint32_t i = 0; i < c->n; i++)
        to[i] = lo[i] + hi[i] + get(from, i);
}

/* Of a product that is kept, or of a triple: zero shares have a lane each. */
static void reshare_mask(const chunk *c) {
    assert(c->b->in[0] != NULL && c->b->out[0] != NULL && c->b->wire_out[0] != NULL);
    const uint8_t lane = c->t->kind == UVCC_TASK_TRIPLE_C ? 1 : 0;
    const uint64_t *next = pad(c, 0, UVCC_PAIR_NEXT, UVCC_TAG_zero, lane);
    const uint64_t *prev = pad(c, 1, UVCC_PAIR_PREV, UVCC_TAG_zero, lane);
    const uint64_t *z = in(c, 0);
    uint64_t *lo = out(c, 0);
    uint8_t *to = wire_out(c, 0);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t t = z[i] + next[i] - prev[i];
        lo[i] = t;
        put(to, i, t);
    }
}

/* The mask of a tensor, or the tensor less its mask. */
static void triple_mask(const chunk *c) {
    static const unsigned pairs[2] = {UVCC_PAIR_PREV, UVCC_PAIR_NEXT};
    const uvcc_prg_tag tag = c->t->kind == UVCC_TASK_TRIPLE_A ? UVCC_TAG_tripleA : UVCC_TAG_tripleB;
    for (unsigned k = 0; k < 2; k++) {
        if (c->b->out[k] == NULL)
            continue;
        uint64_t *to = out(c, k);
        if (c->b->in[0] == NULL) {
            prg(c, pairs[k], tag, 0, c->first, to, c->n);
            continue;
        }
        const uint64_t *mask = pad(c, k, pairs[k], tag, 0), *x = in(c, k);
        for (uint32_t i = 0; i < c->n; i++)
            to[i] = x[i] - mask[i];
    }
    if (c->b->wire_out[0] != NULL)
        memcpy(wire_out(c, 0), out(c, 0), (size_t)c->n * 8);
}

static void unpack(const chunk *c) {
    assert(c->b->wire_in[0] != NULL && c->b->out[0] != NULL);
    memcpy(out(c, 0), wire_in(c, 0), (size_t)c->n * 8);
}

static void pack(const chunk *c) {
    assert(c->b->in[0] != NULL && c->b->wire_out[0] != NULL);
    memcpy(wire_out(c, 0), in(c, 0), (size_t)c->n * 8);
}

/* Each component is a pad of the two that hold it, its lowest bits. */
static void random_words(const chunk *c) {
    assert(c->b->out[0] != NULL && c->b->out[1] != NULL);
    const uint64_t mask = low_bits(c->t->u.vec.bits);
    for (unsigned k = 0; k < 2; k++) {
        const uint64_t *word =
            pad(c, k, k == 0 ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT, UVCC_TAG_input, 1);
        uint64_t *to = out(c, k);
        for (uint32_t i = 0; i < c->n; i++)
            to[i] = word[i] & mask;
    }
}

static bool random_is_sane(const uvcc_task *t) {
    return t->u.vec.bits >= 1 && t->u.vec.bits <= 62;
}

static bool open4_is_sane(const uvcc_task *t) {
    return t->u.vec.shift >= 1 && t->u.vec.shift <= 62;
}

const uvcci_kernel uvcci_kernels_open[UVCC_TASK_KIND_END] = {
    [UVCC_TASK_INPUT] = {.run = input},
    [UVCC_TASK_OPEN4_MASK] = {.run = open4_mask, .sane = open4_is_sane},
    [UVCC_TASK_OPEN2_MASK] = {.run = open2_mask},
    [UVCC_TASK_OPEN_FINISH] = {.run = open_finish},
    [UVCC_TASK_OPEN_ALL_FINISH] = {.run = open_all_finish},
    [UVCC_TASK_RESHARE_MASK] = {.run = reshare_mask},
    [UVCC_TASK_UNPACK] = {.run = unpack},
    [UVCC_TASK_PACK] = {.run = pack},
    [UVCC_TASK_TRIPLE_A] = {.run = triple_mask},
    [UVCC_TASK_TRIPLE_B] = {.run = triple_mask},
    [UVCC_TASK_TRIPLE_C] = {.run = reshare_mask},
    [UVCC_TASK_RANDOM] = {.run = random_words, .sane = random_is_sane},
};
