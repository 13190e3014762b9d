/* gemm_x86.c - micro-kernels for AVX-512DQ and AVX2. Functions carry their own target, so the file
 * needs no compiler flags; gemm.c asks the CPU at run time. */
#include "gemm_micro.h"

#if UVCCI_GEMM_X86

#include <immintrin.h>

/* Loops over registers must be unrolled at any -O level, or the registers live in memory. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* --- AVX-512DQ: vpmullq is a whole 64-bit product --------------------------------------------- */

enum { Z_MR = 8, Z_REGS = 3, Z_LANES = 8, Z_NR = Z_REGS * Z_LANES };

__attribute__((target("avx512f,avx512dq"))) static void avx512_run(size_t depth, const uint64_t *a,
                                                                   const uint64_t *b, uint64_t *c,
                                                                   size_t ldc, bool accumulate) {
    __m512i acc[Z_MR][Z_REGS];
    UNROLL for (int i = 0; i < Z_MR; i++) {
        UNROLL for (int j = 0; j < Z_REGS; j++) acc[i][j] = _mm512_setzero_si512();
    }
    for (size_t p = 0; p < depth; p++, a += Z_MR, b += Z_NR) {
        __m512i y[Z_REGS];
        UNROLL for (int j = 0; j < Z_REGS; j++) y[j] = _mm512_loadu_si512(b + j * Z_LANES);
        UNROLL for (int i = 0; i < Z_MR; i++) {
            const __m512i x = _mm512_set1_epi64((long long)a[i]);
            UNROLL for (int j = 0; j < Z_REGS; j++) acc[i][j] =
                _mm512_add_epi64(acc[i][j], _mm512_mullo_epi64(x, y[j]));
        }
    }
    UNROLL for (int i = 0; i < Z_MR; i++) {
        UNROLL for (int j = 0; j < Z_REGS; j++) {
            uint64_t *to = c + (size_t)i * ldc + j * Z_LANES;
            if (accumulate)
                acc[i][j] = _mm512_add_epi64(acc[i][j], _mm512_loadu_si512(to));
            _mm512_storeu_si512(to, acc[i][j]);
        }
    }
}

const uvcci_gemm_micro uvcci_gemm_micro_avx512 = {avx512_run, Z_MR, Z_NR};

/* --- AVX2: x y = x0 y0 + 2^32 (x1 y0 + x0 y1); the two sums are kept apart till the end ---------
 */

enum { Y_MR = 2, Y_REGS = 2, Y_LANES = 4, Y_NR = Y_REGS * Y_LANES };

__attribute__((target("avx2"))) static void avx2_run(size_t depth, const uint64_t *a,
                                                     const uint64_t *b, uint64_t *c, size_t ldc,
                                                     bool accumulate) {
    __m256i low[Y_MR][Y_REGS], cross[Y_MR][Y_REGS];
    UNROLL for (int i = 0; i < Y_MR; i++) {
        UNROLL for (int j = 0; j < Y_REGS; j++) low[i][j] = cross[i][j] = _mm256_setzero_si256();
    }
    for (size_t p = 0; p < depth; p++, a += Y_MR, b += Y_NR) {
        __m256i y0[Y_REGS], y1[Y_REGS];
        UNROLL for (int j = 0; j < Y_REGS; j++) {
            y0[j] = _mm256_loadu_si256((const __m256i *)(const void *)(b + j * Y_LANES));
            y1[j] = _mm256_srli_epi64(y0[j], 32);
        }
        UNROLL for (int i = 0; i < Y_MR; i++) {
            const __m256i x0 = _mm256_set1_epi64x((long long)a[i]);
            const __m256i x1 = _mm256_set1_epi32((int)(a[i] >> 32));
            UNROLL for (int j = 0; j < Y_REGS; j++) {
                low[i][j] = _mm256_add_epi64(low[i][j], _mm256_mul_epu32(x0, y0[j]));
                cross[i][j] = _mm256_add_epi64(cross[i][j], _mm256_mul_epu32(x1, y0[j]));
                cross[i][j] = _mm256_add_epi64(cross[i][j], _mm256_mul_epu32(x0, y1[j]));
            }
        }
    }
    UNROLL for (int i = 0; i < Y_MR; i++) {
        UNROLL for (int j = 0; j < Y_REGS; j++) {
            __m256i *to = (__m256i *)(void *)(c + (size_t)i * ldc + j * Y_LANES);
            __m256i sum = _mm256_add_epi64(low[i][j], _mm256_slli_epi64(cross[i][j], 32));
            if (accumulate)
                sum = _mm256_add_epi64(sum, _mm256_loadu_si256(to));
            _mm256_storeu_si256(to, sum);
        }
    }
}

const uvcci_gemm_micro uvcci_gemm_micro_avx2 = {avx2_run, Y_MR, Y_NR};

#endif
