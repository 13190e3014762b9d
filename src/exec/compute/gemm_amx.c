/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_amx.c - AMX-INT8 tiles, and AVX-512 VBMI for what goes in and comes out of them. Functions
 * carry their own target, so the file needs no compiler flags.
 *
 * Tile registers belong to the kernel's lazily granted state: a process asks for them once
 * (ARCH_REQ_XCOMP_PERM), and a thread that leaves them configured pays for them at every context
 * switch. So they are configured around each product and released after it, which also clears them.
 */
#define _DEFAULT_SOURCE /* syscall */
#include "exec/compute/gemm_tiled.h"

#if UVCCI_GEMM_HAS_AMX

#include <assert.h>
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AMX  __attribute__((target("amx-tile,amx-int8")))
#define VBMI __attribute__((target("avx512f,avx512bw,avx512vbmi")))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* --- Whether ---------------------------------------------------------------------------------- */

bool uvcci_gemm_vbmi_ready(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vbmi");
}

/* The order matters: VBMI says that leaf 7 exists and that xgetbv may be asked. */
bool uvcci_gemm_amx_ready(void) {
    enum { AMX_TILE = 1 << 24, AMX_INT8 = 1 << 25, TILE_STATE = 3 << 17 };
    enum { REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    if (!uvcci_gemm_vbmi_ready())
        return false;
    unsigned a, b, c, d;
    __cpuid_count(7, 0, a, b, c, d);
    if ((d & (AMX_TILE | AMX_INT8)) != (AMX_TILE | AMX_INT8))
        return false;
    unsigned enabled, high;
    __asm__("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
    return (enabled & TILE_STATE) == TILE_STATE &&
           syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XTILEDATA) == 0;
}

/* --- Tiles ------------------------------------------------------------------------------------ */

/* Palette 1: all eight tiles of 16 rows of 64 bytes. */
static const struct {
    uint8_t palette, start_row, zero[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
static_assert(sizeof tile_config == 64, "what ldtilecfg reads");

AMX static void begin(void) {
    _tile_loadconfig(&tile_config);
}

AMX static void end(void) {
    _tile_release();
}

#define TILE_FN              AMX
#define TILE_ZERO(t)         _tile_zero(t)
#define TILE_LOAD(t, from)   _tile_loadd(t, from, 64)
#define TILE_MADD(sum, a, b) _tile_dpbssd(sum, a, b)
#define TILE_STORE(t, to)    _tile_stored(t, to, 64)
#include "exec/compute/gemm_tile_steps.h"

/* Some compilers do not know that tile loads and stores touch memory. */
AMX static void multiply_amx(size_t steps, const uint8_t *a, const uint8_t *b, int32_t *sums) {
    __asm__ volatile("" ::: "memory");
    multiply(steps, a, b, sums);
    __asm__ volatile("" ::: "memory");
}

/* --- Into digits ------------------------------------------------------------------------------ */

/* Byte 8 i + j of the result is byte 8 j + i. */
VBMI static inline __m512i transpose_bytes(__m512i v) {
    const __m512i at = _mm512_set_epi64(0x3f372f271f170f07, 0x3e362e261e160e06, 0x3d352d251d150d05,
                                        0x3c342c241c140c04, 0x3b332b231b130b03, 0x3a322a221a120a02,
                                        0x3931292119110901, 0x3830282018100800);
    return _mm512_permutexvar_epi8(at, v);
}

/* Byte 4 c + k of the result is byte 16 k + c. */
VBMI static inline __m512i quads_of(__m512i v) {
    const __m512i at = _mm512_set_epi64(0x3f2f1f0f3e2e1e0e, 0x3d2d1d0d3c2c1c0c, 0x3b2b1b0b3a2a1a0a,
                                        0x3929190938281808, 0x3727170736261606, 0x3525150534241404,
                                        0x3323130332221202, 0x3121110130201000);
    return _mm512_permutexvar_epi8(at, v);
}

/* Eight words of 8 digits become eight runs of 8 bytes in each register; a transpose of registers
 * brings the runs of a digit together. */
VBMI static void split(const uint64_t *words, const uint64_t *add, size_t step, bool quads,
                       uint8_t *out) {
    const __m512i bias = _mm512_set1_epi8((char)0x80);
    __m512i v[8], t[8], digit[8];
    UNROLL for (int i = 0; i < 8; i++) {
        const size_t at = (size_t)(i / 2) * step + (size_t)(i % 2) * 8;
        __m512i w = _mm512_loadu_si512(words + at);
        if (add != NULL)
            w = _mm512_add_epi64(w, _mm512_loadu_si512(add + at));
        v[i] = transpose_bytes(_mm512_xor_si512(_mm512_add_epi64(w, bias), bias));
    }
    UNROLL for (int i = 0; i < 4; i++) {
        t[i] = _mm512_unpacklo_epi64(v[2 * i], v[2 * i + 1]);
        t[4 + i] = _mm512_unpackhi_epi64(v[2 * i], v[2 * i + 1]);
    }
    UNROLL for (int odd = 0; odd < 2; odd++) {
        const __m512i *u = t + 4 * odd;
        const __m512i a = _mm512_shuffle_i64x2(u[0], u[1], 0x88);
        const __m512i b = _mm512_shuffle_i64x2(u[2], u[3], 0x88);
        const __m512i c = _mm512_shuffle_i64x2(u[0], u[1], 0xdd);
        const __m512i d = _mm512_shuffle_i64x2(u[2], u[3], 0xdd);
        digit[odd] = _mm512_shuffle_i64x2(a, b, 0x88);
        digit[4 + odd] = _mm512_shuffle_i64x2(a, b, 0xdd);
        digit[2 + odd] = _mm512_shuffle_i64x2(c, d, 0x88);
        digit[6 + odd] = _mm512_shuffle_i64x2(c, d, 0xdd);
    }
    UNROLL for (int i = 0; i < 8; i++)
        _mm512_storeu_si512(out + i * UVCCI_TILE_BYTES, quads ? quads_of(digit[i]) : digit[i]);
}

/* --- Out of sums ------------------------------------------------------------------------------ */

VBMI static inline __m512i wide(const int32_t *p) {
    return _mm512_cvtepi32_epi64(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

/* Sums 0..3 of eight columns, as words. */
VBMI static inline __m512i join_low(const int32_t *p) {
    enum { SUM = UVCCI_TILE_LANES * UVCCI_TILE_LANES };
    __m512i w = _mm512_slli_epi64(wide(p + 3 * SUM), 8);
    w = _mm512_slli_epi64(_mm512_add_epi64(w, wide(p + 2 * SUM)), 8);
    w = _mm512_slli_epi64(_mm512_add_epi64(w, wide(p + SUM)), 8);
    return _mm512_add_epi64(w, wide(p));
}

/* Sums 4..7 of sixteen columns: the upper halves. */
VBMI static inline __m512i join_high(const int32_t *p) {
    enum { SUM = UVCCI_TILE_LANES * UVCCI_TILE_LANES };
    __m512i w = _mm512_slli_epi32(_mm512_loadu_si512(p + 7 * SUM), 8);
    w = _mm512_slli_epi32(_mm512_add_epi32(w, _mm512_loadu_si512(p + 6 * SUM)), 8);
    w = _mm512_slli_epi32(_mm512_add_epi32(w, _mm512_loadu_si512(p + 5 * SUM)), 8);
    return _mm512_add_epi32(w, _mm512_loadu_si512(p + 4 * SUM));
}

VBMI static inline void put(__m512i low, __m256i high, __mmask8 which, uint64_t *z,
                            bool accumulate) {
    __m512i w = _mm512_add_epi64(low, _mm512_slli_epi64(_mm512_cvtepu32_epi64(high), 32));
    if (accumulate)
        w = _mm512_add_epi64(w, _mm512_maskz_loadu_epi64(which, z));
    _mm512_mask_storeu_epi64(z, which, w);
}

VBMI static void join(const int32_t *sums, size_t rows, size_t cols, uint64_t *z, size_t ldz,
                      bool accumulate) {
    const unsigned mask = (1u << cols) - 1;
    for (size_t r = 0; r < rows; r++, sums += UVCCI_TILE_LANES, z += ldz) {
        const __m512i high = join_high(sums);
        put(join_low(sums), _mm512_castsi512_si256(high), (__mmask8)mask, z, accumulate);
        if (cols > 8)
            put(join_low(sums + 8), _mm512_extracti64x4_epi64(high, 1), (__mmask8)(mask >> 8),
                z + 8, accumulate);
    }
}

const uvcci_gemm_tile_ops uvcci_gemm_tile_amx = {begin, end, split, multiply_amx, join};

#endif
