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

/* Entries of a tile stay in the first-level cache as digits, in the second as words. */
enum { SCALE_BITS = 30, WORD = 64, TILE_WORDS = 64 };

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

/* --- AVX512-VNNI: entries as a few signed bytes -------------------------------------------------
 *
 * An entry is the sum of d_i 2^(8i) with signed bytes d_i, its digits (gemm_tiled.h), of which the
 * entries of a function at a fixed point have two or three. The bits become bytes, and one
 * vpdpbusd adds up a digit of 64 entries. A sum of digits over a tile is below 2^15. */

#define VNNI __attribute__((target("avx512f,avx512dq,avx512bw,avx512vnni")))
enum { DIGITS = 4, LEAST_ELEMS = 32 }; /* with fewer the digits of the table would cost more */

typedef struct digits {
    _Alignas(64) int8_t of[TILE_WORDS][DIGITS][WORD]; /* of a word the first `count` */
    unsigned count;
} digits;

static bool have_vnni(void) {
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni");
}

/* How many digits all entries have: a number in [-2^n, 2^n) has (n + 2) / 8 rounded up. */
AVX512 static unsigned digits_needed(const int64_t *table, uint32_t words) {
    __m512i any = _mm512_setzero_si512();
    for (uint32_t i = 0; i < words * WORD; i += Z_LANES) {
        const __m512i x = _mm512_loadu_si512(table + i);
        any = _mm512_or_si512(any, _mm512_xor_si512(x, _mm512_srai_epi64(x, 63)));
    }
    unsigned count = 1;
    while (count <= DIGITS &&
           _mm512_test_epi64_mask(any, _mm512_set1_epi64((long long)(~0ull << (8 * count - 2)))) !=
               0)
        count++;
    return count;
}

AVX512 static void split_digits(const int64_t *table, uint32_t words, digits *d) {
    const __m512i middle = _mm512_set1_epi8((char)0x80);
    for (uint32_t w = 0; w < words; w++)
        for (unsigned v = 0; v < WORD; v += Z_LANES) {
            __m512i x = _mm512_loadu_si512(table + w * WORD + v);
            x = _mm512_xor_si512(_mm512_add_epi64(x, middle), middle);
            for (unsigned i = 0; i < d->count; i++, x = _mm512_srli_epi64(x, 8))
                _mm_storel_epi64((__m128i *)(void *)(d->of[w][i] + v), _mm512_cvtepi64_epi8(x));
        }
}

VNNI INLINE __m512i both_halves(__m512i x) {
    return _mm512_add_epi64(_mm512_cvtepi32_epi64(_mm512_castsi512_si256(x)),
                            _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(x, 1)));
}

/* count and elems are constants where this is inlined. */
VNNI INLINE void vnni_group(const digits *d, unsigned count, const selection *s, uint32_t at,
                            unsigned elems, uint64_t *out) {
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i sum[Z_ELEMS][DIGITS];
    UNROLL for (unsigned e = 0; e < elems; e++) {
        UNROLL for (unsigned i = 0; i < count; i++) sum[e][i] = _mm512_setzero_si512();
    }
    for (uint32_t w = 0; w < s->words; w++) {
        __m512i digit[DIGITS];
        UNROLL for (unsigned i = 0; i < count; i++) digit[i] = _mm512_load_si512(d->of[w][i]);
        UNROLL for (unsigned e = 0; e < elems; e++) {
            const __m512i bit = _mm512_maskz_mov_epi8(bits_of(s, at + e)[w], ones);
            UNROLL for (unsigned i = 0; i < count; i++) sum[e][i] =
                _mm512_dpbusd_epi32(sum[e][i], bit, digit[i]);
        }
    }
    UNROLL for (unsigned e = 0; e < elems; e++) {
        __m512i all = _mm512_setzero_si512();
        UNROLL for (unsigned i = 0; i < count; i += 2) {
            const __m512i two =
                i + 1 == count ? sum[e][i]
                               : _mm512_add_epi32(sum[e][i], _mm512_slli_epi32(sum[e][i + 1], 8));
            all = _mm512_add_epi64(all, _mm512_slli_epi64(both_halves(two), 8 * i));
        }
        out[at + e] += uvcci_sum512(all);
    }
}

VNNI INLINE void vnni_all(const digits *d, unsigned count, const selection *s, uint32_t c,
                          uint64_t *out) {
    uint32_t e = 0;
    for (; e + Z_ELEMS <= c; e += Z_ELEMS)
        vnni_group(d, count, s, e, Z_ELEMS, out);
    for (; e < c; e++)
        vnni_group(d, count, s, e, 1, out);
}

VNNI static void vnni_sum(const digits *d, const selection *s, uint32_t c, uint64_t *out) {
    switch (d->count) {
    case 1:
        vnni_all(d, 1, s, c, out);
        break;
    case 2:
        vnni_all(d, 2, s, c, out);
        break;
    case 3:
        vnni_all(d, 3, s, c, out);
        break;
    default:
        vnni_all(d, DIGITS, s, c, out);
    }
}

/* The table is public, so what its entries need may choose the way. */
static void wide_sum(const int64_t *table, const int64_t *scale, const selection *s, uint32_t c,
                     uint64_t *out) {
    digits d;
    if (scale == NULL && c >= LEAST_ELEMS && have_vnni() &&
        (d.count = digits_needed(table, s->words)) <= DIGITS) {
        split_digits(table, s->words, &d);
        vnni_sum(&d, s, c, out);
    } else {
        avx512_sum(table, scale, s, c, out);
    }
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
        wide_sum(table, scale, s, c, out);
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
