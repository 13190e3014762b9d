/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_narrow_amx.c - AMX-INT8 tiles, and AVX-512 for what goes into them, of gemm_narrow.h; what
 * is alike, and whether a CPU has them, is gemm_amx.c's. */
#include "exec/compute/gemm_narrow.h"

#if UVCCI_GEMM_HAS_AMX

#include <immintrin.h>

#define AMX    __attribute__((target("amx-tile,amx-int8")))
#define AVX512 __attribute__((target("avx512f,avx512bw")))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

#define TILE_FN              AMX
#define TILE_ZERO(t)         _tile_zero(t)
#define TILE_LOAD(t, from)   _tile_loadd(t, from, 64)
#define TILE_MADD(sum, a, b) _tile_dpbssd(sum, a, b)
#define TILE_STORE(t, to)    _tile_stored(t, to, 64)
#include "exec/compute/gemm_narrow_steps.h"

static void begin(void) {
    uvcci_gemm_tile_amx.begin();
}

static void end(void) {
    uvcci_gemm_tile_amx.end();
}

static void join(const int32_t *sums, size_t rows, size_t cols, uint64_t *z, size_t ldz,
                 bool accumulate) {
    uvcci_gemm_tile_amx.join(sums, rows, cols, z, ldz, accumulate);
}

/* Some compilers do not know that tile loads and stores touch memory. */
AMX static void multiply(size_t steps, unsigned digits, const uint8_t *a, const uint8_t *b,
                         int32_t *sums) {
    __asm__ volatile("" ::: "memory");
    if (digits == 2)
        narrow_by_two(steps, a, b, sums);
    else
        narrow_by_three(steps, a, b, sums);
    __asm__ volatile("" ::: "memory");
}

AVX512 static void left(const uint64_t *words, uint8_t *out) {
    const __m512i bias = _mm512_set1_epi8((char)0x80);
    UNROLL for (int i = 0; i < 8; i++) {
        __m512i w = _mm512_loadu_si512(words + 8 * i);
        w = _mm512_xor_si512(_mm512_add_epi64(w, bias), bias);
        UNROLL for (int d = 0; d < 8; d++) {
            _mm_storel_epi64((__m128i *)(void *)(out + d * UVCCI_TILE_BYTES + 8 * i),
                             _mm512_cvtepi64_epi8(w));
            w = _mm512_srli_epi64(w, 8);
        }
    }
}

AVX512 static void right(const int32_t *y, unsigned digits, uint8_t *out) {
    const __m512i bias = _mm512_set1_epi8((char)0x80), low = _mm512_set1_epi32(0xff);
    __m512i v[4];
    UNROLL for (int k = 0; k < 4; k++) v[k] =
        _mm512_xor_si512(_mm512_add_epi32(_mm512_loadu_si512(y + 16 * k), bias), bias);
    for (unsigned d = 0; d < digits; d++) {
        __m512i all = _mm512_and_si512(v[0], low);
        UNROLL for (int k = 1; k < 4; k++) all =
            _mm512_or_si512(all, _mm512_slli_epi32(_mm512_and_si512(v[k], low), 8 * (unsigned)k));
        _mm512_storeu_si512(out + d * UVCCI_TILE_BYTES, all);
        UNROLL for (int k = 0; k < 4; k++) v[k] = _mm512_srli_epi32(v[k], 8);
    }
}

const uvcci_gemm_narrow_ops uvcci_gemm_narrow_amx = {begin, end, join, left, right, multiply};

#endif
