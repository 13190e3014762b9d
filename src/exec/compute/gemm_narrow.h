/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_narrow.h - products mod 2^64 by a matrix of small integers, for matrix units that multiply
 * tiles of int8: words have eight signed digits to base 256 (gemm_tiled.h), the integers of a block
 * as many as the greatest needs, two or three. So 15 or 21 products of tiles count instead of 36.
 *
 * Layout: the left operand's panels as in gemm_tiled.h; a step of the right one's has as many
 * planes as the block has digits, in which row r has of each of its 16 lanes the depths 4r .. 4r
 * + 3. The integers are public: how many digits they have, code may branch on. */
#ifndef UVCCI_GEMM_NARROW_H
#define UVCCI_GEMM_NARROW_H

#include "exec/compute/gemm_tiled.h"

enum { UVCCI_NARROW_DIGITS = 3 };

typedef struct uvcci_gemm_narrow_ops {
    /* As in uvcci_gemm_tile_ops. */
    void (*begin)(void);
    void (*end)(void);
    void (*join)(const int32_t *sums, size_t rows, size_t cols, uint64_t *z, size_t ldz,
                 bool accumulate);
    /* Digits of 64 words in their order, digit d to the 64 bytes at out + d * UVCCI_TILE_BYTES. */
    void (*left)(const uint64_t *words, uint8_t *out);
    /* So many digits of 4 runs of 16 integers: digit d of integer c of run k to the byte 4 c + k at
     * out + d * UVCCI_TILE_BYTES. */
    void (*right)(const int32_t *y, unsigned digits, uint8_t *out);
    /* sums[s] (16 x 16) = the sum over steps of the products of digits s - j of a and j of b, of
     * which there are two or three. */
    void (*multiply)(size_t steps, unsigned digits, const uint8_t *a, const uint8_t *b,
                     int32_t *sums);
} uvcci_gemm_narrow_ops;

/* z[i] (m x n, rows ldz words apart) = or += x[i] y, of one or two x of the same layout; y is
 * narrow, and k > 0. `by_words` multiplies what has more digits: z (m x n) = or += term->x term->y.
 */
typedef struct uvcci_gemm_narrow_product {
    size_t m, n, k;
    const uvcci_gemm_side *x;
    const uvcci_gemm_side *y;
    uint64_t *const *z;
    size_t count, ldz;
    bool accumulate;
    void (*by_words)(size_t m, size_t n, size_t k, const uvcci_gemm_term *term, uint64_t *z,
                     size_t ldz, bool accumulate, uint64_t *scratch);
} uvcci_gemm_narrow_product;

/* Scratch words of a product of this size, aligned to 64 bytes; by_words() has its own count. */
size_t uvcci_gemm_narrow_scratch_words(uint32_t m, uint32_t n, uint32_t k);
void uvcci_gemm_narrow(const uvcci_gemm_narrow_ops *o, const uvcci_gemm_narrow_product *p,
                       uint64_t *scratch);

#if UVCCI_GEMM_HAS_AMX
extern const uvcci_gemm_narrow_ops uvcci_gemm_narrow_amx; /* where uvcci_gemm_amx_ready() */
#endif

#endif
