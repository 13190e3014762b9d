/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - sums of selected table entries.
 *
 * State: none. The table and the scale are public, the bits are secret: they become masks, and
 * every entry is loaded whatever they are. Elements are taken a few at a time, so that an entry is
 * loaded once for all of them. */
#include "exec/compute/table.h"

#include <assert.h>
#include <string.h>

#include "exec/compute/gemm_micro.h"

#define INLINE static inline __attribute__((always_inline))

/* Entries of a tile stay in the first-level cache. */
enum { SCALE_BITS = 30, WORD = 64, TILE_WORDS = 32 };

/* Words of bits of some elements, `stride` apart; one tile of them is worked on. */
typedef struct selection {
    const uint64_t *bits;
    uint32_t stride, words;
} selection;

INLINE const uint64_t *bits_of(const selection *s, uint32_t e) {
    return s->bits + (size_t)e * s->stride;
}

INLINE const int64_t *scale_of(const int64_t *scale, uint32_t e) {
    return scale == NULL ? NULL : scale + e;
}

/* --- Portable --------------------------------------------------------------------------------- */

static uint64_t portable_one(const int64_t *table, const int64_t *scale, const uint64_t *bits,
                             uint32_t words) {
    uint64_t sum = 0;
    for (uint32_t w = 0; w < words; w++, table += WORD)
        for (unsigned i = 0; i < WORD; i++) {
            uint64_t x = (uint64_t)table[i];
            if (scale != NULL)
                x = (uint64_t)((int64_t)(x * (uint64_t)*scale) >> SCALE_BITS);
            sum += x & (0 - (bits[w] >> i & 1));
        }
    return sum;
}

static void portable_sum(const int64_t *table, const int64_t *scale, const selection *s, uint32_t c,
                         uint64_t *out) {
    for (uint32_t e = 0; e < c; e++)
        out[e] += portable_one(table, scale_of(scale, e), bits_of(s, e), s->words);
}

#if UVCCI_GEMM_X86

#include "exec/compute/sum512.h"

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* --- AVX-512 ---------------------------------------------------------------------------------- */

#define AVX512 __attribute__((target("avx512f,avx512dq")))
enum { Z_LANES = 8, Z_ELEMS = 4 };

AVX512 INLINE void avx512_group(const int64_t *table, const int64_t *scale, const selection *s,
                                uint32_t at, unsigned elems, uint64_t *out) {
    __m512i acc[Z_ELEMS], z[Z_ELEMS];
    UNROLL for (unsigned e = 0; e < elems; e++) {
        acc[e] = _mm512_setzero_si512();
        z[e] = _mm512_set1_epi64(scale == NULL ? 0 : scale[at + e]);
    }
    for (uint32_t w = 0; w < s->words; w++, table += WORD) {
        uint64_t mask[Z_ELEMS];
        UNROLL for (unsigned e = 0; e < elems; e++) mask[e] = bits_of(s, at + e)[w];
        UNROLL for (unsigned v = 0; v < WORD / Z_LANES; v++) {
            const __m512i x = _mm512_loadu_si512(table + v * Z_LANES);
            UNROLL for (unsigned e = 0; e < elems; e++) {
                const __mmask8 k = (__mmask8)(mask[e] >> v * Z_LANES);
                const __m512i y =
                    scale == NULL ? x : _mm512_srai_epi64(_mm512_mullo_epi64(x, z[e]), SCALE_BITS);
                acc[e] = _mm512_mask_add_epi64(acc[e], k, acc[e], y);
            }
        }
    }
    UNROLL for (unsigned e = 0; e < elems; e++) out[at + e] += uvcci_sum512(acc[e]);
}

AVX512 static void avx512_sum(const int64_t *table, const int64_t *scale, const selection *s,
                              uint32_t c, uint64_t *out) {
    uint32_t e = 0;
    for (; e + Z_ELEMS <= c; e += Z_ELEMS)
        if (scale == NULL) /* without a multiplication in the loop */
            avx512_group(table, NULL, s, e, Z_ELEMS, out);
        else
            avx512_group(table, scale, s, e, Z_ELEMS, out);
    for (; e < c; e++)
        avx512_group(table, scale, s, e, 1, out);
}

/* --- AVX2 ------------------------------------------------------------------------------------- */

#define AVX2 __attribute__((target("avx2")))
enum { Y_LANES = 4 };

/* x z >> SCALE_BITS, signed. */
AVX2 INLINE __m256i avx2_scaled(__m256i x, __m256i z) {
    const __m256i cross = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(x, 32), z),
                                           _mm256_mul_epu32(x, _mm256_srli_epi64(z, 32)));
    const __m256i product = _mm256_add_epi64(_mm256_mul_epu32(x, z), _mm256_slli_epi64(cross, 32));
    const __m256i top = _mm256_set1_epi64x((long long)((uint64_t)1 << (63 - SCALE_BITS)));
    return _mm256_sub_epi64(_mm256_xor_si256(_mm256_srli_epi64(product, SCALE_BITS), top), top);
}

AVX2 INLINE uint64_t avx2_one(const int64_t *table, const int64_t *scale, const uint64_t *bits,
                              uint32_t words) {
    const __m256i lane_bit = _mm256_setr_epi64x(1, 2, 4, 8);
    const __m256i z = _mm256_set1_epi64x(scale == NULL ? 0 : *scale);
    __m256i acc[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (uint32_t w = 0; w < words; w++, table += WORD) {
        UNROLL for (unsigned v = 0; v < WORD / Y_LANES; v++) {
            __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(table + v * Y_LANES));
            if (scale != NULL)
                x = avx2_scaled(x, z);
            const __m256i here = _mm256_set1_epi64x((long long)(bits[w] >> v * Y_LANES));
            const __m256i mask = _mm256_cmpeq_epi64(_mm256_and_si256(here, lane_bit), lane_bit);
            acc[v % 2] = _mm256_add_epi64(acc[v % 2], _mm256_and_si256(x, mask));
        }
    }
    uint64_t lane[Y_LANES];
    _mm256_storeu_si256((__m256i *)(void *)lane, _mm256_add_epi64(acc[0], acc[1]));
    return lane[0] + lane[1] + lane[2] + lane[3];
}

AVX2 static void avx2_sum(const int64_t *table, const int64_t *scale, const selection *s,
                          uint32_t c, uint64_t *out) {
    for (uint32_t e = 0; e < c; e++)
        out[e] += scale == NULL ? avx2_one(table, NULL, bits_of(s, e), s->words)
                                : avx2_one(table, scale + e, bits_of(s, e), s->words);
}

#endif

static void sum_tile(uvcci_gemm_backend b, const int64_t *table, const int64_t *scale,
                     const selection *s, uint32_t c, uint64_t *out) {
#if UVCCI_GEMM_X86
    if (b >= UVCCI_GEMM_AVX512) {
        avx512_sum(table, scale, s, c, out);
        return;
    }
    if (b == UVCCI_GEMM_AVX2) {
        avx2_sum(table, scale, s, c, out);
        return;
    }
#else
    (void)b;
#endif
    portable_sum(table, scale, s, c, out);
}

void uvcci_table_sum(uvcci_gemm_backend b, const int64_t *table, const int64_t *scale,
                     const uint64_t *bits, uint32_t words, uint32_t c, uint64_t *out) {
    assert(words >= 1 && table != NULL && bits != NULL);
    memset(out, 0, c * sizeof *out);
    for (uint32_t w = 0; w < words; w += TILE_WORDS) {
        const selection s = {bits + w, words, words - w < TILE_WORDS ? words - w : TILE_WORDS};
        sum_tile(b, table + (size_t)w * WORD, scale, &s, c, out);
    }
}
