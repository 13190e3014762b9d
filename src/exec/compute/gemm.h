/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.h - matrix products mod 2^64: blocked and packed, AMX-INT8 (digits; of small public integers
 * fewer, gemm_narrow.h), AVX512-IFMA (52 bits
 * and 12), AVX-512DQ (vpmullq), AVX2 and portable kernels chosen at run time; all give the same
 * words. Products with a vector (m or n is 1) read the matrix as it lies, on every backend; AMX and
 * IFMA have no kernels of their own for them. */
#ifndef UVCCI_GEMM_H
#define UVCCI_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum uvcci_gemm_backend {
    UVCCI_GEMM_AUTO = 0,
    UVCCI_GEMM_PORTABLE = 1,
    UVCCI_GEMM_AVX2 = 2,
    UVCCI_GEMM_AVX512 = 3,
    UVCCI_GEMM_AMX = 4,
} uvcci_gemm_backend;

/* The best backend of this CPU. Asks the kernel for AMX where the CPU has it, so the process may
 * use it from then on. */
uvcci_gemm_backend uvcci_gemm_best(void);
/* What AUTO takes for a product where `best` is the best backend: `best`, but AVX-512 instead of
 * AMX for products that are small, or that padding to tiles (16 x 64 by 64 x 16) would make more
 * than 4 times as large. */
uvcci_gemm_backend uvcci_gemm_pick(uvcci_gemm_backend best, uint32_t m, uint32_t n, uint32_t k);
/* Scratch words that a product of this size needs (for packing); AUTO: on any backend. */
size_t uvcci_gemm_scratch_words(uvcci_gemm_backend b, uint32_t m, uint32_t n, uint32_t k);

/* z (m x n, row-major) = or += op(x) op(y); op(x) is m x k, stored k x m when trans_x; op(y) is k x
 * n, stored n x k when trans_y. A backend that the CPU lacks falls back to the best there is.
 * scratch: uvcci_gemm_scratch_words() words, 64-byte aligned. */
void uvcci_gemm(uvcci_gemm_backend b, uint32_t m, uint32_t n, uint32_t k, const uint64_t *x,
                bool trans_x, const uint64_t *y, bool trans_y, uint64_t *z, bool accumulate,
                uint64_t *scratch);
/* The local part of a replicated product: z = or += op(x_lo) op(y_lo + y_hi) + op(x_hi) op(y_lo),
 * rows of the stored matrices ld words apart. */
typedef struct uvcci_gemm_replicated {
    uint32_t m, n, k;
    bool trans_x, trans_y, accumulate;
    const uint64_t *x_lo, *x_hi, *y_lo, *y_hi;
    uint64_t *z;
    size_t ldx, ldy, ldz;
    unsigned y_bytes; /* 2 or 4: y_lo points at signed integers of so many bytes; 0: at words */
} uvcci_gemm_replicated;
/* The sum is made while packing, never stored whole. Small products are not packed: those of AMX
 * too are made with vectors then. scratch as above. */
void uvcci_gemm_rss(uvcci_gemm_backend b, const uvcci_gemm_replicated *p, uint64_t *scratch);
/* z = or += x_lo (y_lo + y_hi) of the same layouts; x_hi is NULL, and y_hi may be: then there is
 * nothing to add. */
void uvcci_gemm_single(uvcci_gemm_backend b, const uvcci_gemm_replicated *p, uint64_t *scratch);
/* z = or += x_lo y_lo and, unless z_hi is NULL, z_hi = or += x_hi y_lo, of the same layouts; y_hi
 * is NULL, and y_lo is public, and may be narrow. */
void uvcci_gemm_public(uvcci_gemm_backend b, const uvcci_gemm_replicated *p, uint64_t *z_hi,
                       uint64_t *scratch);
#endif
