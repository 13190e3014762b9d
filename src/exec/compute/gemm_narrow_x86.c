/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_narrow_x86.c - a vector times a matrix of small integers as it lies, by AVX-512: what is
 * read takes the time, so integers become words on their way. */
#include "exec/compute/gemm_micro.h"

#if UVCCI_GEMM_X86

#include "exec/compute/sum512.h"

#define AVX512 __attribute__((target("avx512f,avx512dq")))
enum { LANES = 8, ROWS = 4 };

/* Integers from number `at` on, `bytes` a constant where this is inlined. */
AVX512 static inline __attribute__((always_inline)) __m512i words_at(const void *y, unsigned bytes,
                                                                     size_t at) {
    const uint8_t *from = (const uint8_t *)y + at * bytes;
    return bytes == 2
               ? _mm512_cvtepi16_epi64(_mm_loadu_si128((const __m128i *)(const void *)from))
               : _mm512_cvtepi32_epi64(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

static inline uint64_t word_at(const void *y, unsigned bytes, size_t at) {
    return bytes == 2 ? (uint64_t)((const int16_t *)y)[at] : (uint64_t)((const int32_t *)y)[at];
}

/* z += v y over `depth` rows, a constant where this is inlined, from row `at` on. */
AVX512 static inline __attribute__((always_inline)) void add_rows(int depth, size_t n,
                                                                  const uint64_t *v, const void *y,
                                                                  unsigned bytes, size_t at,
                                                                  size_t ld, uint64_t *z) {
    size_t j = 0;
    for (; j + LANES <= n; j += LANES) {
        __m512i sum = _mm512_loadu_si512(z + j);
        for (int p = 0; p < depth; p++)
            sum = _mm512_add_epi64(sum,
                                   _mm512_mullo_epi64(words_at(y, bytes, at + (size_t)p * ld + j),
                                                      _mm512_set1_epi64((long long)v[p])));
        _mm512_storeu_si512(z + j, sum);
    }
    for (; j < n; j++)
        for (int p = 0; p < depth; p++)
            z[j] += v[p] * word_at(y, bytes, at + (size_t)p * ld + j);
}

AVX512 static inline __attribute__((always_inline)) void add_all_rows(size_t depth, size_t n,
                                                                      const uint64_t *v,
                                                                      const void *y, unsigned bytes,
                                                                      size_t ld, uint64_t *z) {
    size_t p = 0;
    for (; p + ROWS <= depth; p += ROWS)
        add_rows(ROWS, n, v + p, y, bytes, p * ld, ld, z);
    for (; p < depth; p++)
        add_rows(1, n, v + p, y, bytes, p * ld, ld, z);
}

AVX512 static inline __attribute__((always_inline)) void add_dots(size_t depth, size_t n,
                                                                  const uint64_t *v, const void *y,
                                                                  unsigned bytes, size_t ld,
                                                                  uint64_t *z) {
    for (size_t j = 0; j < n; j++) {
        __m512i sums = _mm512_setzero_si512();
        size_t p = 0;
        for (; p + LANES <= depth; p += LANES)
            sums = _mm512_add_epi64(sums, _mm512_mullo_epi64(_mm512_loadu_si512(v + p),
                                                             words_at(y, bytes, j * ld + p)));
        uint64_t sum = uvcci_sum512(sums);
        for (; p < depth; p++)
            sum += v[p] * word_at(y, bytes, j * ld + p);
        z[j] += sum;
    }
}

AVX512 void uvcci_gemm_narrow_rows(size_t depth, size_t n, const uint64_t *v, const void *y,
                                   unsigned bytes, size_t ld, uint64_t *z) {
    if (bytes == 2)
        add_all_rows(depth, n, v, y, 2, ld, z);
    else
        add_all_rows(depth, n, v, y, 4, ld, z);
}

AVX512 void uvcci_gemm_narrow_dots(size_t depth, size_t n, const uint64_t *v, const void *y,
                                   unsigned bytes, size_t ld, uint64_t *z) {
    if (bytes == 2)
        add_dots(depth, n, v, y, 2, ld, z);
    else
        add_dots(depth, n, v, y, 4, ld, z);
}

#endif
