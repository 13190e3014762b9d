/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_micro.h - what gemm.c asks of a micro-kernel, and of the kernels for vectors. */
#ifndef UVCCI_GEMM_MICRO_H
#define UVCCI_GEMM_MICRO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* z (rows x cols, rows ldz words apart) = or += x_lo (y_lo + y_hi) + x_hi y_lo. Element (i, p) of x
 * is word i * lane + p * step; y is `depth` rows of `cols` words, ldy words apart. */
typedef struct uvcci_gemm_direct {
    size_t rows, cols, depth;
    const uint64_t *x_lo, *x_hi, *y_lo, *y_hi;
    size_t lane, step, ldy, ldz;
    uint64_t *z;
    bool accumulate;
} uvcci_gemm_direct;

/* One side of a product: the element of lane l (a row of op(x), a column of op(y)) at depth p is
 * src[l * lane + p * step], plus that of `add` where it is given. One of lane and step is 1. With
 * `bytes` 2 or 4 src points at signed integers of so many bytes, and there is no `add`. */
typedef struct uvcci_gemm_side {
    const uint64_t *src, *add;
    size_t lane, step;
    unsigned bytes;
} uvcci_gemm_side;

/* Element i of what src points at; `bytes` is a constant where this is in a loop. */
static inline uint64_t uvcci_gemm_element(const uvcci_gemm_side *s, unsigned bytes, size_t i) {
    if (bytes == 2)
        return (uint64_t)((const int16_t *)(const void *)s->src)[i];
    if (bytes == 4)
        return (uint64_t)((const int32_t *)(const void *)s->src)[i];
    return s->src[i];
}

typedef struct uvcci_gemm_micro {
    /* c (mr x nr, rows ldc words apart) = or += A B over `depth`, at least 1: a holds depth columns
     * of mr words, b depth rows of nr words; with `ends`, those of these words stand behind them.
     */
    void (*run)(size_t depth, const uint64_t *a, const uint64_t *b, uint64_t *c, size_t ldc,
                bool accumulate);
    uint32_t mr, nr;
    /* `depth` rows of nr words of s, from word `at` on, where lanes lie side by side (s.lane is 1);
     * NULL: as any other side. */
    void (*pack_right)(const uvcci_gemm_side *s, size_t at, size_t depth, uint64_t *out);
    /* A part of each word of a panel of a (b if `right`), made once while packing; NULL: `run`
     * needs none. */
    void (*ends)(size_t words, bool right, const uint64_t *panel, uint32_t *out);
    /* z (n words) += v (depth words) times y as it lies: depth rows of n words, ldy words apart ...
     */
    void (*rows)(size_t depth, size_t n, const uint64_t *v, const uint64_t *y, size_t ldy,
                 uint64_t *z);
    /* ... or n rows of depth words. */
    void (*dots)(size_t depth, size_t n, const uint64_t *v, const uint64_t *y, size_t ldy,
                 uint64_t *z);
    /* The same of signed integers of 2 or 4 bytes, ld of them apart; NULL: there are none such. */
    void (*narrow_rows)(size_t depth, size_t n, const uint64_t *v, const void *y, unsigned bytes,
                        size_t ld, uint64_t *z);
    void (*narrow_dots)(size_t depth, size_t n, const uint64_t *v, const void *y, unsigned bytes,
                        size_t ld, uint64_t *z);
    /* The replicated product of matrices as they lie. */
    void (*direct)(const uvcci_gemm_direct *d);
} uvcci_gemm_micro;

/* z (m x n, rows ldz words apart) = or += the sum of the terms' x y; k and the number of terms (1
 * or 2) > 0. scratch: uvcci_gemm_scratch_words() words, 64-byte aligned. */
typedef struct uvcci_gemm_term {
    uvcci_gemm_side x, y;
} uvcci_gemm_term;
void uvcci_gemm_packed(const uvcci_gemm_micro *u, size_t m, size_t n, size_t k,
                       const uvcci_gemm_term *terms, size_t count, uint64_t *z, size_t ldz,
                       bool accumulate, uint64_t *scratch);

static inline size_t uvcci_gemm_min(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline size_t uvcci_gemm_round_up(size_t x, size_t to) {
    return (x + to - 1) / to * to;
}

#if defined(__x86_64__) && defined(__GNUC__)
#define UVCCI_GEMM_X86 1
extern const uvcci_gemm_micro uvcci_gemm_micro_avx2, uvcci_gemm_micro_avx512;
/* Products by AVX512-IFMA, vectors and small ones as uvcci_gemm_micro_avx512. */
extern const uvcci_gemm_micro uvcci_gemm_micro_ifma;
void uvcci_gemm_narrow_rows(size_t depth, size_t n, const uint64_t *v, const void *y,
                            unsigned bytes, size_t ld, uint64_t *z);
void uvcci_gemm_narrow_dots(size_t depth, size_t n, const uint64_t *v, const void *y,
                            unsigned bytes, size_t ld, uint64_t *z);
bool uvcci_gemm_ifma_ready(void); /* whether this CPU has its instructions */
bool uvcci_gemm_ifma_pays(void);  /* and takes less time by them than by vpmullq */
#else
#define UVCCI_GEMM_X86 0
#endif

#endif
