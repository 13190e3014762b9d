/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_tiled.h - products mod 2^64 from signed bytes, for matrix units that multiply tiles of int8.
 *
 * A word is the sum of d_i 2^(8i) with eight signed bytes d_i, its digits: the bytes of
 * (x + 0x8080808080808080) xor 0x8080808080808080. Of the 64 products of two words' digits, the 36
 * with i + j <= 7 count mod 2^64; those of equal s = i + j are summed by the unit as s32 and joined
 * at the end, the sum of s shifted by 8s.
 *
 * A product of digits is at most 2^14 in absolute value. Sums 0..3 must be exact: s + 1 products
 * per depth, so |sum 3| <= 2^16 depth, and a block may be 32767 deep. Sums 4..7 count mod 2^32 only
 * and may wrap.
 *
 * Layout: an operand is packed in panels of 16 lanes, a panel in steps of 64 depths, a step in 8
 * planes, one for each digit, a plane being one tile of 16 rows of 64 bytes. For the left operand
 * row l is lane l and its bytes are depths; for the right one row r holds, for each of its 16
 * lanes, the depths 4r .. 4r + 3 (what TDPBSSD multiplies). */
#ifndef UVCCI_GEMM_TILED_H
#define UVCCI_GEMM_TILED_H

#include "exec/compute/gemm_micro.h"

enum {
    UVCCI_TILE_LANES = 16,
    UVCCI_TILE_DEPTH = 64,
    UVCCI_TILE_BYTES = UVCCI_TILE_LANES * UVCCI_TILE_DEPTH,
    UVCCI_TILE_DIGITS = 8,
    UVCCI_TILE_STEP = UVCCI_TILE_DIGITS * UVCCI_TILE_BYTES,
    UVCCI_TILE_SUMS = UVCCI_TILE_DIGITS * UVCCI_TILE_LANES * UVCCI_TILE_LANES,
};

typedef struct uvcci_gemm_tile_ops {
    /* Around a product: the unit belongs to the host's thread otherwise. */
    void (*begin)(void);
    void (*end)(void);
    /* Digits of 64 words, four runs of 16 that begin `step` words apart, plus those of `add` where
     * it is not NULL: digit d to the 64 bytes at out + d * UVCCI_TILE_BYTES; in the order of the
     * words, or, with `quads`, word c of run k at byte 4 c + k. out is aligned to 64 bytes. */
    void (*split)(const uint64_t *words, const uint64_t *add, size_t step, bool quads,
                  uint8_t *out);
    /* sums[s] (16 x 16) = the sum over steps of the products of digits i and s - i. */
    void (*multiply)(size_t steps, const uint8_t *a, const uint8_t *b, int32_t *sums);
    /* z (rows x cols, at most 16 x 16, rows ldz words apart) = or += the joined sums. */
    void (*join)(const int32_t *sums, size_t rows, size_t cols, uint64_t *z, size_t ldz,
                 bool accumulate);
} uvcci_gemm_tile_ops;

/* Scratch words of a product of this size. */
size_t uvcci_gemm_tiled_scratch_words(uint32_t m, uint32_t n, uint32_t k);
/* z (m x n, rows ldz words apart) = or += the sum of one or two terms' x y; k > 0. Scratch is
 * aligned to 64 bytes. */
void uvcci_gemm_tiled(const uvcci_gemm_tile_ops *o, size_t m, size_t n, size_t k,
                      const uvcci_gemm_term *terms, size_t count, uint64_t *z, size_t ldz,
                      bool accumulate, uint64_t *scratch);

#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__)
#define UVCCI_GEMM_HAS_AMX 1
extern const uvcci_gemm_tile_ops uvcci_gemm_tile_amx;
/* Whether this CPU and kernel let the process use AMX-INT8; asks the kernel for its permission. */
bool uvcci_gemm_amx_ready(void);
/* What uvcci_gemm_tile_amx.split and .join need without the tiles. */
bool uvcci_gemm_vbmi_ready(void);
#else
#define UVCCI_GEMM_HAS_AMX 0
#endif

#endif
