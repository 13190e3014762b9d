/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_narrow.c - blocking and packing for products by small integers.
 *
 * A DEPTH x NC part of y is looked at for its greatest digit and packed, an MC x DEPTH part of each
 * x is packed once if m is not above MC; both stay in the second-level cache, and all panels of x
 * meet a panel of y while that is in the first. State: none. */
#include "exec/compute/gemm_narrow.h"

#include <assert.h>
#include <stdalign.h>
#include <string.h>

enum { MC = 128, NC = 256, DEPTH = 512, MAX_X = 2 };
enum { LANES = UVCCI_TILE_LANES, STEP = UVCCI_TILE_DEPTH, QUAD = 4 };

static_assert(DEPTH % STEP == 0 && MC % LANES == 0 && NC % LANES == 0, "whole tiles");

/* Lanes [l, l + lanes), depths [p, p + depth). */
typedef struct part {
    size_t l, lanes, p, depth;
} part;

/* ---- packing ---- */

/* All bits that the integers have beside their signs. `bytes` is a constant where this is inlined;
 * the inner loop follows memory. */
static inline __attribute__((always_inline)) uint32_t bits_of(const uvcci_gemm_side *y, part of,
                                                              unsigned bytes) {
    const bool along = y->lane == 1;
    const size_t outer = along ? of.depth : of.lanes, inner = along ? of.lanes : of.depth;
    uint32_t bits = 0;
    for (size_t i = 0; i < outer; i++) {
        const size_t from = along ? (of.p + i) * y->step + of.l : (of.l + i) * y->lane + of.p;
        for (size_t k = 0; k < inner; k++) {
            const int32_t v = (int32_t)uvcci_gemm_element(y, bytes, from + k);
            bits |= (uint32_t)(v ^ (v < 0 ? -1 : 0));
        }
    }
    return bits;
}

/* Two digits hold 15 bits and a sign but for the greatest numbers, three 23. */
static unsigned digits_of(const uvcci_gemm_side *y, part of) {
    const uint32_t bits = y->bytes == 2 ? bits_of(y, of, 2) : bits_of(y, of, 4);
    return bits >> 14 == 0 ? 2 : bits >> 22 == 0 ? 3 : 4;
}

/* Four depths of 16 lanes, zeros where there are none. */
static inline __attribute__((always_inline)) void gather(const uvcci_gemm_side *y, part of,
                                                         unsigned bytes, int32_t *out) {
    if (of.lanes == LANES && of.depth == QUAD && y->lane == 1) {
        for (size_t k = 0; k < QUAD; k++)
            for (size_t c = 0; c < LANES; c++)
                out[k * LANES + c] =
                    (int32_t)uvcci_gemm_element(y, bytes, (of.p + k) * y->step + of.l + c);
        return;
    }
    memset(out, 0, QUAD * LANES * sizeof *out);
    for (size_t k = 0; k < of.depth; k++)
        for (size_t c = 0; c < of.lanes; c++)
            out[k * LANES + c] =
                (int32_t)uvcci_gemm_element(y, bytes, (of.p + k) * y->step + (of.l + c) * y->lane);
}

/* Quads behind the depth of the last step are zeros. */
static void pack_right(const uvcci_gemm_narrow_ops *o, const uvcci_gemm_side *y, part all,
                       unsigned digits, uint8_t *out) {
    alignas(64) int32_t quad[QUAD * LANES];
    const size_t depth = uvcci_gemm_round_up(all.depth, STEP);
    for (size_t l = 0; l < all.lanes; l += LANES)
        for (size_t p = 0; p < depth; p += QUAD) {
            const size_t left = p < all.depth ? all.depth - p : 0;
            const part of = {all.l + l, uvcci_gemm_min(LANES, all.lanes - l), all.p + p,
                             uvcci_gemm_min(QUAD, left)};
            if (y->bytes == 2)
                gather(y, of, 2, quad);
            else
                gather(y, of, 4, quad);
            const size_t step = l / LANES * (depth / STEP) + p / STEP;
            o->right(quad, digits, out + step * digits * UVCCI_TILE_BYTES + p % STEP * LANES);
        }
}

static void pack_left(const uvcci_gemm_narrow_ops *o, const uvcci_gemm_side *x, part all,
                      uint8_t *out) {
    alignas(64) uint64_t words[STEP];
    for (size_t l = 0; l < all.lanes; l += LANES)
        for (size_t p = 0; p < all.depth; p += STEP, out += UVCCI_TILE_STEP)
            for (size_t r = 0; r < LANES; r++) {
                const size_t depth = uvcci_gemm_min(STEP, all.depth - p);
                const size_t at = (all.l + l + r) * x->lane + (all.p + p) * x->step;
                if (l + r < all.lanes && x->step == 1 && depth == STEP) {
                    o->left(x->src + at, out + r * STEP);
                    continue;
                }
                memset(words, 0, sizeof words);
                for (size_t i = 0; l + r < all.lanes && i < depth; i++)
                    words[i] = x->src[at + i * x->step];
                o->left(words, out + r * STEP);
            }
}

/* ---- products ---- */

static size_t left_words(size_t m, size_t k) {
    return MAX_X * uvcci_gemm_round_up(uvcci_gemm_min(m, MC), LANES) *
           uvcci_gemm_round_up(uvcci_gemm_min(k, DEPTH), STEP);
}

size_t uvcci_gemm_narrow_scratch_words(uint32_t m, uint32_t n, uint32_t k) {
    const size_t right = uvcci_gemm_round_up(uvcci_gemm_min(n, NC), LANES) *
                         uvcci_gemm_round_up(uvcci_gemm_min(k, DEPTH), STEP);
    return left_words(m, k) + right * UVCCI_NARROW_DIGITS / sizeof(uint64_t);
}

/* The part of y by the same rows of each x. */
static void tiles(const uvcci_gemm_narrow_ops *o, const uvcci_gemm_narrow_product *p, part y,
                  unsigned digits, size_t row, size_t rows, const uint8_t *a, const uint8_t *b) {
    const size_t steps = uvcci_gemm_round_up(y.depth, STEP) / STEP;
    const size_t panel = steps * UVCCI_TILE_STEP, wide = steps * digits * UVCCI_TILE_BYTES;
    const size_t panels = uvcci_gemm_round_up(rows, LANES) / LANES;
    alignas(64) int32_t sums[UVCCI_TILE_SUMS];
    for (size_t j = 0; j < y.lanes; j += LANES)
        for (size_t c = 0; c < p->count; c++)
            for (size_t i = 0; i < rows; i += LANES) {
                o->multiply(steps, digits, a + (c * panels + i / LANES) * panel,
                            b + j / LANES * wide, sums);
                o->join(sums, uvcci_gemm_min(LANES, rows - i), uvcci_gemm_min(LANES, y.lanes - j),
                        p->z[c] + (row + i) * p->ldz + y.l + j, p->ldz, p->accumulate || y.p != 0);
            }
}

/* What has more digits, by other means. */
static void by_words(const uvcci_gemm_narrow_product *p, part y, uint64_t *scratch) {
    const unsigned bytes = p->y->bytes;
    for (size_t c = 0; c < p->count; c++) {
        uvcci_gemm_term t = {p->x[c], *p->y};
        t.x.src += y.p * t.x.step;
        t.y.src = (const uint64_t *)(const void *)((const uint8_t *)t.y.src +
                                                   (y.p * t.y.step + y.l * t.y.lane) * bytes);
        p->by_words(p->m, y.lanes, y.depth, &t, p->z[c] + y.l, p->ldz, p->accumulate || y.p != 0,
                    scratch);
    }
}

/* One part of y by all rows; *packed: the parts of x that scratch has are of this depth. */
static void multiply_part(const uvcci_gemm_narrow_ops *o, const uvcci_gemm_narrow_product *p,
                          part y, bool *packed, uint64_t *scratch) {
    uint8_t *a = (uint8_t *)scratch, *b = (uint8_t *)(scratch + left_words(p->m, p->k));
    const unsigned digits = digits_of(p->y, y);
    if (digits > UVCCI_NARROW_DIGITS) {
        by_words(p, y, scratch);
        *packed = false;
        return;
    }
    pack_right(o, p->y, y, digits, b);
    for (size_t i = 0; i < p->m; i += MC) {
        const part rows = {i, uvcci_gemm_min(MC, p->m - i), y.p, y.depth};
        const size_t bytes = uvcci_gemm_round_up(rows.lanes, LANES) / LANES *
                             (uvcci_gemm_round_up(y.depth, STEP) / STEP) * UVCCI_TILE_STEP;
        for (size_t c = 0; c < p->count && !(*packed && p->m <= MC); c++)
            pack_left(o, &p->x[c], rows, a + c * bytes);
        *packed = true;
        tiles(o, p, y, digits, i, rows.lanes, a, b);
    }
}

void uvcci_gemm_narrow(const uvcci_gemm_narrow_ops *o, const uvcci_gemm_narrow_product *p,
                       uint64_t *scratch) {
    assert(p->k != 0 && p->count >= 1 && p->count <= MAX_X && (uintptr_t)scratch % 64 == 0);
    assert(p->y->add == NULL && (p->y->bytes == 2 || p->y->bytes == 4));
    o->begin();
    for (size_t d = 0; d < p->k; d += DEPTH) {
        bool packed = false;
        for (size_t j = 0; j < p->n; j += NC) {
            const part y = {j, uvcci_gemm_min(NC, p->n - j), d, uvcci_gemm_min(DEPTH, p->k - d)};
            multiply_part(o, p, y, &packed, scratch);
        }
    }
    o->end();
}
