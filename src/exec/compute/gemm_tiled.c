/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_tiled.c - blocking and packing for products of digits.
 *
 * A DEPTH x NC part of y is packed into panels of 16 lanes, an MC x DEPTH part of x likewise; each
 * pair of panels gives 16 x 16 words. A panel of either side (128 KiB) and the part of x stay in
 * the second-level cache; the wide part of y makes the packing of x cheap, the deep block the
 * joining.
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

enum { MC = 128, NC = 512, DEPTH = 1024 };
enum { LANES = UVCCI_TILE_LANES, STEP = UVCCI_TILE_DEPTH, QUAD = 4 };

static_assert(DEPTH % STEP == 0 && MC % LANES == 0 && NC % LANES == 0, "whole tiles");
static_assert(DEPTH * 4 * (1 << 14) <= INT32_MAX, "sum 3 is exact");
static_assert(UVCCI_TILE_DIGITS == sizeof(uint64_t), "an operand packs into as many words");

/* --- Packing ---------------------------------------------------------------------------------- */

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

static void pack_left(const uvcci_gemm_tile_ops *o, uvcci_gemm_side s, size_t at, size_t lanes,
                      size_t depth, uint8_t *out) {
    alignas(64) uint64_t words[LANES * STEP];
    if (s.add != NULL)
        gather(s, at, lanes, depth, true, STEP, 1, words);
    else
        gather(s, at, lanes, depth, false, STEP, 1, words);
    for (size_t l = 0; l < LANES; l++)
        o->split(words + l * STEP, false, out + l * STEP);
}

static void pack_right(const uvcci_gemm_tile_ops *o, uvcci_gemm_side s, size_t at, size_t lanes,
                       size_t depth, uint8_t *out) {
    alignas(64) uint64_t words[LANES * STEP];
    if (s.add != NULL)
        gather(s, at, lanes, depth, true, 1, LANES, words);
    else
        gather(s, at, lanes, depth, false, 1, LANES, words);
    for (size_t p = 0; p < STEP; p += QUAD)
        o->split(words + p * LANES, true, out + p * LANES);
}

/* Lanes [l0, l0 + lanes), depths [p0, p0 + depth). */
static void pack(const uvcci_gemm_tile_ops *o, uvcci_gemm_side s, bool right, size_t l0,
                 size_t lanes, size_t p0, size_t depth, uint8_t *out) {
    for (size_t l = 0; l < lanes; l += LANES)
        for (size_t p = 0; p < depth; p += STEP, out += UVCCI_TILE_STEP) {
            const size_t at = (l0 + l) * s.lane + (p0 + p) * s.step;
            const size_t w = uvcci_gemm_min(LANES, lanes - l), d = uvcci_gemm_min(STEP, depth - p);
            (right ? pack_right : pack_left)(o, s, at, w, d, out);
        }
}

/* --- Products --------------------------------------------------------------------------------- */

static size_t packed_words(size_t lanes, size_t max_lanes, size_t depth) {
    return uvcci_gemm_round_up(uvcci_gemm_min(lanes, max_lanes), LANES) *
           uvcci_gemm_round_up(uvcci_gemm_min(depth, DEPTH), STEP);
}

size_t uvcci_gemm_tiled_scratch_words(uint32_t m, uint32_t n, uint32_t k) {
    return packed_words(m, MC, k) + packed_words(n, NC, k);
}

static void tiles(const uvcci_gemm_tile_ops *o, size_t rows, size_t cols, size_t depth,
                  const uint8_t *a, const uint8_t *b, uint64_t *z, size_t ldz, bool accumulate) {
    const size_t steps = uvcci_gemm_round_up(depth, STEP) / STEP, panel = steps * UVCCI_TILE_STEP;
    alignas(64) int32_t sums[UVCCI_TILE_SUMS];
    for (size_t j = 0; j < cols; j += LANES)
        for (size_t i = 0; i < rows; i += LANES) {
            o->multiply(steps, a + i / LANES * panel, b + j / LANES * panel, sums);
            o->join(sums, uvcci_gemm_min(LANES, rows - i), uvcci_gemm_min(LANES, cols - j),
                    z + i * ldz + j, ldz, accumulate);
        }
}

void uvcci_gemm_tiled(const uvcci_gemm_tile_ops *o, size_t m, size_t n, size_t k, uvcci_gemm_side x,
                      uvcci_gemm_side y, uint64_t *z, size_t ldz, bool accumulate,
                      uint64_t *scratch) {
    uint8_t *a = (uint8_t *)scratch, *b = (uint8_t *)(scratch + packed_words(m, MC, k));
    assert(k != 0 && (uintptr_t)scratch % 64 == 0);
    o->begin();
    for (size_t j = 0; j < n; j += NC)
        for (size_t p = 0; p < k; p += DEPTH) {
            const size_t cols = uvcci_gemm_min(NC, n - j), depth = uvcci_gemm_min(DEPTH, k - p);
            pack(o, y, true, j, cols, p, depth, b);
            for (size_t i = 0; i < m; i += MC) {
                const size_t rows = uvcci_gemm_min(MC, m - i);
                pack(o, x, false, i, rows, p, depth, a);
                tiles(o, rows, cols, depth, a, b, z + i * ldz + j, ldz, accumulate || p != 0);
            }
        }
    o->end();
}
