/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_tiled.c - blocking and packing for products of digits.
 *
 * A DEPTH x NC part of y is packed into panels of 16 lanes, an MC x DEPTH part of x likewise, and
 * both stay in the second-level cache; each pair of panels gives 16 x 16 words. Two terms are one
 * product of twice the depth: panels have the steps of the first and then those of the second, so
 * words are joined once for both. Where m is not above MC, x is packed once for all of a depth.
 *
 * Why digits and not residues: with 18 coprime moduli of 8 bits a product takes 18 tile products
 * instead of 36. But a packed word then takes 18 bytes instead of 8; to convert it takes 12 times
 * as long (1.7 ns instead of 0.15, vectorised, one core), to join a result 6 times (2.2 ns instead
 * of 0.34); and the planes share no loads, so tiles wait for the second-level cache. At 2.3 TMAC/s
 * of int8, half of the tile work of a product of 1024^3 is 8.4 ms, and blocks of this size cost 6.9
 * ms more around it. Residues win where a block of y takes tens of MiB for each worker, and on
 * GPUs.
 *
 * State: none. */
#include "exec/compute/gemm_tiled.h"

#include <assert.h>
#include <stdalign.h>
#include <string.h>

enum { MC = 128, NC = 64, DEPTH = 768, MAX_TERMS = 2 };
enum { LANES = UVCCI_TILE_LANES, STEP = UVCCI_TILE_DEPTH, QUAD = 4, LINE = 8 };

static_assert(DEPTH % (MAX_TERMS * STEP) == 0 && MC % LANES == 0 && NC % LANES == 0, "whole tiles");
static_assert(DEPTH * 4 * (1 << 14) <= INT32_MAX, "sum 3 is exact");
static_assert(UVCCI_TILE_DIGITS == sizeof(uint64_t), "an operand packs into as many words");

/* --- Packing ---------------------------------------------------------------------------------- */

/* How a block is packed: bytes from a panel to the next one, and from a term to the next one within
 * a panel. */
typedef struct shape {
    size_t panel, term;
} shape;

/* One step of a panel as words, padded with zeros: lane l, depth p at out[l * to_lane + p *
 * to_step]. */
static inline void gather(uvcci_gemm_side s, size_t at, size_t lanes, size_t depth, bool add,
                          size_t to_lane, size_t to_step, uint64_t *out) {
    if (lanes < LANES || depth < STEP)
        memset(out, 0, LANES * STEP * sizeof *out);
    /* The inner loop follows memory. */
    if (s.lane == 1) {
        for (size_t p = 0; p < depth; p++)
            for (size_t l = 0; l < lanes; l++) {
                const size_t i = at + p * s.step + l;
                out[l * to_lane + p * to_step] = s.src[i] + (add ? s.add[i] : 0);
            }
        return;
    }
    for (size_t l = 0; l < lanes; l++)
        for (size_t p = 0; p < depth; p++) {
            const size_t i = at + l * s.lane + p;
            out[l * to_lane + p * to_step] = s.src[i] + (add ? s.add[i] : 0);
        }
}

/* One step of a panel on any side, by way of words that lie as they are split. */
static void pack_step(const uvcci_gemm_tile_ops *o, uvcci_gemm_side s, bool right, size_t at,
                      size_t lanes, size_t depth, uint8_t *out) {
    alignas(64) uint64_t words[LANES * STEP];
    const size_t to_lane = right ? 1 : STEP, to_step = right ? LANES : 1;
    if (s.add != NULL)
        gather(s, at, lanes, depth, true, to_lane, to_step, words);
    else
        gather(s, at, lanes, depth, false, to_lane, to_step, words);
    for (size_t i = 0; i < STEP / QUAD; i++)
        o->split(words + i * STEP, NULL, LANES, right, out + i * STEP);
}

/* Whole panels and whole steps of a right side whose lanes lie side by side: four rows after the
 * other, all along the block, for all terms while they are in the cache. Rows of weights are far
 * apart, where no prefetcher finds the next ones. */
static void pack_rows(const uvcci_gemm_tile_ops *o, const uvcci_gemm_term *terms, size_t count,
                      size_t at, size_t lanes, size_t depth, shape to, uint8_t *out) {
    for (size_t p = 0; p < depth; p += QUAD)
        for (size_t l = 0; l < lanes; l += LANES)
            for (size_t t = 0; t < count; t++) {
                const uvcci_gemm_side *s = &terms[t].y;
                const size_t from = at + p * s->step + l;
                for (size_t r = QUAD; r < 2 * QUAD && p + r < depth; r++) {
                    __builtin_prefetch(s->src + from + r * s->step);
                    __builtin_prefetch(s->src + from + r * s->step + LINE);
                    if (s->add != NULL) {
                        __builtin_prefetch(s->add + from + r * s->step);
                        __builtin_prefetch(s->add + from + r * s->step + LINE);
                    }
                }
                o->split(s->src + from, s->add != NULL ? s->add + from : NULL, s->step, true,
                         out + l / LANES * to.panel + t * to.term + p / STEP * UVCCI_TILE_STEP +
                             p % STEP * LANES);
            }
}

/* A whole step of a left panel whose lanes lie word by word. */
static void pack_lanes(const uvcci_gemm_tile_ops *o, uvcci_gemm_side s, size_t at, uint8_t *out) {
    for (size_t l = 0; l < LANES; l++, at += s.lane)
        o->split(s.src + at, s.add != NULL ? s.add + at : NULL, LANES, false, out + l * STEP);
}

/* Lanes [l0, l0 + lanes), depths [p0, p0 + depth) of all terms. */
static void pack(const uvcci_gemm_tile_ops *o, const uvcci_gemm_term *terms, size_t count,
                 bool right, size_t l0, size_t lanes, size_t p0, size_t depth, shape to,
                 uint8_t *out) {
    size_t done_lanes = 0, done_depth = 0;
    if (right && terms[0].y.lane == 1 && terms[count - 1].y.lane == 1 &&
        terms[0].y.step == terms[count - 1].y.step) {
        done_lanes = lanes / LANES * LANES;
        done_depth = depth / STEP * STEP;
        pack_rows(o, terms, count, l0 + p0 * terms[0].y.step, done_lanes, done_depth, to, out);
    }
    for (size_t t = 0; t < count; t++)
        for (size_t l = 0; l < lanes; l += LANES)
            for (size_t p = l < done_lanes ? done_depth : 0; p < depth; p += STEP) {
                const uvcci_gemm_side s = right ? terms[t].y : terms[t].x;
                const size_t at = (l0 + l) * s.lane + (p0 + p) * s.step;
                const size_t w = uvcci_gemm_min(LANES, lanes - l);
                const size_t d = uvcci_gemm_min(STEP, depth - p);
                uint8_t *step =
                    out + l / LANES * to.panel + t * to.term + p / STEP * UVCCI_TILE_STEP;
                if (!right && s.step == 1 && w == LANES && d == STEP)
                    pack_lanes(o, s, at, step);
                else
                    pack_step(o, s, right, at, w, d, step);
            }
}

/* --- Products --------------------------------------------------------------------------------- */

/* Of one term or two. */
static size_t packed_words(size_t lanes, size_t max_lanes, size_t depth) {
    return uvcci_gemm_round_up(uvcci_gemm_min(lanes, max_lanes), LANES) * MAX_TERMS *
           uvcci_gemm_round_up(uvcci_gemm_min(depth, DEPTH / MAX_TERMS), STEP);
}

size_t uvcci_gemm_tiled_scratch_words(uint32_t m, uint32_t n, uint32_t k) {
    return packed_words(m, MC, k) + packed_words(n, NC, k);
}

static void tiles(const uvcci_gemm_tile_ops *o, size_t rows, size_t cols, size_t panel,
                  const uint8_t *a, const uint8_t *b, uint64_t *z, size_t ldz, bool accumulate) {
    alignas(64) int32_t sums[UVCCI_TILE_SUMS];
    for (size_t j = 0; j < cols; j += LANES)
        for (size_t i = 0; i < rows; i += LANES) {
            o->multiply(panel / UVCCI_TILE_STEP, a + i / LANES * panel, b + j / LANES * panel,
                        sums);
            o->join(sums, uvcci_gemm_min(LANES, rows - i), uvcci_gemm_min(LANES, cols - j),
                    z + i * ldz + j, ldz, accumulate);
        }
}

void uvcci_gemm_tiled(const uvcci_gemm_tile_ops *o, size_t m, size_t n, size_t k,
                      const uvcci_gemm_term *terms, size_t count, uint64_t *z, size_t ldz,
                      bool accumulate, uint64_t *scratch) {
    uint8_t *a = (uint8_t *)scratch, *b = (uint8_t *)(scratch + packed_words(m, MC, k));
    assert(k != 0 && (uintptr_t)scratch % 64 == 0);
    assert(count != 0 && count <= MAX_TERMS);
    o->begin();
    for (size_t p = 0; p < k; p += DEPTH / count) {
        const size_t depth = uvcci_gemm_min(DEPTH / count, k - p);
        const size_t term = uvcci_gemm_round_up(depth, STEP) * UVCCI_TILE_STEP / STEP;
        const shape to = {.panel = count * term, .term = term};
        for (size_t j = 0; j < n; j += NC) {
            const size_t cols = uvcci_gemm_min(NC, n - j);
            pack(o, terms, count, true, j, cols, p, depth, to, b);
            for (size_t i = 0; i < m; i += MC) {
                const size_t rows = uvcci_gemm_min(MC, m - i);
                if (j == 0 || m > MC)
                    pack(o, terms, count, false, i, rows, p, depth, to, a);
                tiles(o, rows, cols, to.panel, a, b, z + i * ldz + j, ldz, accumulate || p != 0);
            }
        }
    }
    o->end();
}
