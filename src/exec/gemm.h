/* gemm.h - matrix products mod 2^64: blocked and packed, AVX-512DQ (vpmullq), AVX2 and portable
 * kernels chosen at run time; all give the same words. */
#ifndef UVCCI_GEMM_H
#define UVCCI_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum uvcci_gemm_backend {
    UVCCI_GEMM_AUTO = 0, UVCCI_GEMM_PORTABLE = 1, UVCCI_GEMM_AVX2 = 2, UVCCI_GEMM_AVX512 = 3,
} uvcci_gemm_backend;

/* Scratch words that a product of this size needs (for packing). */
size_t uvcci_gemm_scratch_words(uint32_t m, uint32_t n, uint32_t k);
uvcci_gemm_backend uvcci_gemm_best(void);

/* z (m x n, row-major) = or += op(x) op(y); op(x) is m x k, stored k x m when trans_x; op(y) is k x n,
 * stored n x k when trans_y. scratch: uvcci_gemm_scratch_words() words, 64-byte aligned. */
void uvcci_gemm(uvcci_gemm_backend b, uint32_t m, uint32_t n, uint32_t k, const uint64_t *x,
                bool trans_x, const uint64_t *y, bool trans_y, uint64_t *z, bool accumulate,
                uint64_t *scratch);
/* The local part of a replicated product: z = x_lo (y_lo + y_hi) + x_hi y_lo. The sum is made while
 * packing, never stored whole. */
void uvcci_gemm_rss(uvcci_gemm_backend b, uint32_t m, uint32_t n, uint32_t k, const uint64_t *x_lo,
                    const uint64_t *x_hi, bool trans_x, const uint64_t *y_lo,
                    const uint64_t *y_hi, bool trans_y, uint64_t *z, uint64_t *scratch);
#endif
