/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_x86.c - micro-kernels and kernels for vectors, AVX-512DQ, AVX512-IFMA and AVX2. Functions
 * carry their own target, so the file needs no compiler flags; gemm.c asks the CPU at run time. */
#include "exec/compute/gemm_micro.h"

#if UVCCI_GEMM_X86

#include "exec/compute/sum512.h"

/* Loops over registers must be unrolled at any -O level, or the registers live in memory. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* --- AVX-512DQ: vpmullq is a whole 64-bit product --------------------------------------------- */

enum { Z_MR = 8, Z_REGS = 3, Z_LANES = 8, Z_NR = Z_REGS * Z_LANES };

/* The loop over the depth runs at least once: where it might not, gcc 12 stores the sums in every
 * round, and the stores take longer than the products. */
__attribute__((target("avx512f,avx512dq"))) static void avx512_run(size_t depth, const uint64_t *a,
                                                                   const uint64_t *b, uint64_t *c,
                                                                   size_t ldc, bool accumulate) {
    __m512i acc[Z_MR][Z_REGS];
    UNROLL for (int i = 0; i < Z_MR; i++) {
        UNROLL for (int j = 0; j < Z_REGS; j++) acc[i][j] = _mm512_setzero_si512();
    }
    do {
        __m512i y[Z_REGS];
        UNROLL for (int j = 0; j < Z_REGS; j++) y[j] = _mm512_loadu_si512(b + j * Z_LANES);
        UNROLL for (int i = 0; i < Z_MR; i++) {
            const __m512i x = _mm512_set1_epi64((long long)a[i]);
            UNROLL for (int j = 0; j < Z_REGS; j++) acc[i][j] =
                _mm512_add_epi64(acc[i][j], _mm512_mullo_epi64(x, y[j]));
        }
        a += Z_MR;
        b += Z_NR;
    } while (--depth != 0);
    UNROLL for (int i = 0; i < Z_MR; i++) {
        UNROLL for (int j = 0; j < Z_REGS; j++) {
            uint64_t *to = c + (size_t)i * ldc + j * Z_LANES;
            if (accumulate)
                acc[i][j] = _mm512_add_epi64(acc[i][j], _mm512_loadu_si512(to));
            _mm512_storeu_si512(to, acc[i][j]);
        }
    }
}

#define AVX512 __attribute__((target("avx512f,avx512dq")))

/* z (n words) += v y over `depth` rows; depth is a constant where this is inlined. */
AVX512 static inline __attribute__((always_inline)) void avx512_add_rows(int depth, size_t n,
                                                                         const uint64_t *v,
                                                                         const uint64_t *y,
                                                                         size_t ldy, uint64_t *z) {
    for (size_t j = 0; j < n; j += Z_LANES) {
        const __mmask8 which = (__mmask8)(n - j < Z_LANES ? (1u << (n - j)) - 1 : 0xff);
        __m512i sum = _mm512_maskz_loadu_epi64(which, z + j);
        UNROLL for (int p = 0; p < depth; p++) {
            const __m512i row = _mm512_maskz_loadu_epi64(which, y + (size_t)p * ldy + j);
            sum =
                _mm512_add_epi64(sum, _mm512_mullo_epi64(row, _mm512_set1_epi64((long long)v[p])));
        }
        _mm512_mask_storeu_epi64(z + j, which, sum);
    }
}

AVX512 static void avx512_rows(size_t depth, size_t n, const uint64_t *v, const uint64_t *y,
                               size_t ldy, uint64_t *z) {
    enum { ROWS = 8 };
    size_t p = 0;
    for (; p + ROWS <= depth; p += ROWS)
        avx512_add_rows(ROWS, n, v + p, y + p * ldy, ldy, z);
    for (; p < depth; p++)
        avx512_add_rows(1, n, v + p, y + p * ldy, ldy, z);
}

AVX512 static void avx512_dots(size_t depth, size_t n, const uint64_t *v, const uint64_t *y,
                               size_t ldy, uint64_t *z) {
    for (size_t j = 0; j < n; j++, y += ldy) {
        __m512i sum = _mm512_setzero_si512();
        size_t p = 0;
        for (; p + Z_LANES <= depth; p += Z_LANES)
            sum = _mm512_add_epi64(
                sum, _mm512_mullo_epi64(_mm512_loadu_si512(v + p), _mm512_loadu_si512(y + p)));
        const __mmask8 left = (__mmask8)((1u << (depth - p)) - 1);
        sum = _mm512_add_epi64(sum, _mm512_mullo_epi64(_mm512_maskz_loadu_epi64(left, v + p),
                                                       _mm512_maskz_loadu_epi64(left, y + p)));
        z[j] += uvcci_sum512(sum);
    }
}

enum { Z_DIRECT_ROWS = 4, Z_DIRECT_REGS = 2, Z_DIRECT_COLS = Z_DIRECT_REGS * Z_LANES };

/* `rows` rows from i0 on, a constant where this is inlined, and up to 16 columns from j0 on. Few
 * instances: compilers with sanitizers take minutes for more. */
AVX512 static inline __attribute__((always_inline)) void
avx512_direct_tile(const uvcci_gemm_direct *d, size_t i0, size_t j0, int rows) {
    const size_t left = uvcci_gemm_min(d->cols - j0, Z_DIRECT_COLS);
    const uint32_t lanes = (1u << left) - 1;
    const __mmask8 which[Z_DIRECT_REGS] = {(__mmask8)lanes, (__mmask8)(lanes >> Z_LANES)};
    __m512i acc[Z_DIRECT_ROWS][Z_DIRECT_REGS];
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < Z_DIRECT_REGS; j++) acc[i][j] = _mm512_setzero_si512();
    }
    const uint64_t *x_lo = d->x_lo + i0 * d->lane, *x_hi = d->x_hi + i0 * d->lane;
    const uint64_t *y_lo = d->y_lo + j0, *y_hi = d->y_hi + j0;
    for (size_t p = 0; p < d->depth; p++) {
        __m512i lo[Z_DIRECT_REGS], hi[Z_DIRECT_REGS];
        UNROLL for (int j = 0; j < Z_DIRECT_REGS; j++) {
            lo[j] = _mm512_maskz_loadu_epi64(which[j], y_lo + p * d->ldy + j * Z_LANES);
            hi[j] = _mm512_maskz_loadu_epi64(which[j], y_hi + p * d->ldy + j * Z_LANES);
        }
        UNROLL for (int i = 0; i < rows; i++) {
            const size_t at = (size_t)i * d->lane + p * d->step;
            const __m512i x = _mm512_set1_epi64((long long)x_lo[at]);
            const __m512i both = _mm512_add_epi64(x, _mm512_set1_epi64((long long)x_hi[at]));
            UNROLL for (int j = 0; j < Z_DIRECT_REGS; j++) acc[i][j] =
                _mm512_add_epi64(acc[i][j], _mm512_add_epi64(_mm512_mullo_epi64(both, lo[j]),
                                                             _mm512_mullo_epi64(x, hi[j])));
        }
    }
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < Z_DIRECT_REGS; j++) {
            uint64_t *to = d->z + (i0 + (size_t)i) * d->ldz + j0 + (size_t)j * Z_LANES;
            if (d->accumulate)
                acc[i][j] = _mm512_add_epi64(acc[i][j], _mm512_maskz_loadu_epi64(which[j], to));
            _mm512_mask_storeu_epi64(to, which[j], acc[i][j]);
        }
    }
}

AVX512 static void avx512_direct(const uvcci_gemm_direct *d) {
    for (size_t j = 0; j < d->cols; j += Z_DIRECT_COLS) {
        size_t i = 0;
        for (; i + Z_DIRECT_ROWS <= d->rows; i += Z_DIRECT_ROWS)
            avx512_direct_tile(d, i, j, Z_DIRECT_ROWS);
        for (; i < d->rows; i++)
            avx512_direct_tile(d, i, j, 1);
    }
}

/* Rows of weights lie on pages of their own, where no prefetcher follows: few instructions for each
 * let the CPU ask for many at a time. */
AVX512 static inline __attribute__((always_inline)) void
pack_rows(int regs, const uvcci_gemm_side *s, size_t at, size_t depth, uint64_t *out) {
    const uint64_t *src = s->src + at;
    if (s->add == NULL) {
        for (size_t p = 0; p < depth; p++, src += s->step, out += regs * Z_LANES)
            UNROLL for (int j = 0; j < regs; j++)
                _mm512_storeu_si512(out + j * Z_LANES, _mm512_loadu_si512(src + j * Z_LANES));
        return;
    }
    const uint64_t *add = s->add + at;
    for (size_t p = 0; p < depth; p++, src += s->step, add += s->step, out += regs * Z_LANES)
        UNROLL for (int j = 0; j < regs; j++) _mm512_storeu_si512(
            out + j * Z_LANES, _mm512_add_epi64(_mm512_loadu_si512(src + j * Z_LANES),
                                                _mm512_loadu_si512(add + j * Z_LANES)));
}

AVX512 static void avx512_pack_right(const uvcci_gemm_side *s, size_t at, size_t depth,
                                     uint64_t *out) {
    pack_rows(Z_REGS, s, at, depth, out);
}

const uvcci_gemm_micro uvcci_gemm_micro_avx512 = {.run = avx512_run,
                                                  .mr = Z_MR,
                                                  .nr = Z_NR,
                                                  .pack_right = avx512_pack_right,
                                                  .rows = avx512_rows,
                                                  .dots = avx512_dots,
                                                  .narrow_rows = uvcci_gemm_narrow_rows,
                                                  .narrow_dots = uvcci_gemm_narrow_dots,
                                                  .direct = avx512_direct};

/* --- AVX512-IFMA: x = x0 + 2^52 x1, so x y = x0 y0 + 2^52 (x0 y1 + x1 y0) mod 2^64 -------------
 *
 * vpmadd52 multiplies the low 52 bits of words as they are, and adds one half of the product each
 * time, so x0 y0 takes two instructions. Of the rest 12 bits count: vpdpwssd adds up both of its
 * products for 16 columns at once, from 16 bits of either end of a word. Five instructions for 16
 * columns instead of eight micro-operations of Intel's vpmullq and vpaddq. All sums may wrap. */

enum { F_MR = 4, F_REGS = 2, F_NR = F_REGS * Z_LANES };

#define IFMA __attribute__((target("avx512f,avx512dq,avx512bw,avx512ifma,avx512vnni")))

/* 16 bits from below and the 12 from above, of which a product by vpdpwssd takes each with the
 * other side's other: so they change places on the right. */
IFMA static void ifma_ends(size_t words, bool right, const uint64_t *panel, uint32_t *out) {
    for (size_t i = 0; i < words; i += Z_LANES) {
        const __mmask8 k = words - i < Z_LANES ? (__mmask8)((1u << (words - i)) - 1) : 0xff;
        const __m512i w = _mm512_maskz_loadu_epi64(k, panel + i), high = _mm512_srli_epi64(w, 52);
        const __m512i pair =
            right ? _mm512_or_si512(_mm512_slli_epi64(w, 16), high)
                  : _mm512_mask_blend_epi16(0x11111111, _mm512_slli_epi64(high, 16), w);
        _mm512_mask_cvtepi64_storeu_epi32(out + i, k, pair);
    }
}

/* A tile of four rows by 16 columns: three sums of each word, two of 64 bits and one of 32, live in
 * 20 registers over the whole depth and meet at its end. What is there of c comes to the cache
 * meanwhile. */
IFMA static void ifma_run(size_t depth, const uint64_t *a, const uint64_t *b, uint64_t *c,
                          size_t ldc, bool accumulate) {
    const uint32_t *a_ends = (const uint32_t *)(a + depth * F_MR);
    const uint32_t *b_ends = (const uint32_t *)(b + depth * F_NR);
    __m512i low[F_MR][F_REGS], high[F_MR][F_REGS], cross[F_MR];
    UNROLL for (int i = 0; i < F_MR; i++) {
        cross[i] = _mm512_setzero_si512();
        UNROLL for (int j = 0; j < F_REGS; j++) {
            low[i][j] = high[i][j] = _mm512_setzero_si512();
            __builtin_prefetch(c + (size_t)i * ldc + j * Z_LANES, 1);
        }
    }
    for (size_t p = 0; p < depth; p++) {
        const __m512i ends = _mm512_loadu_si512(b_ends);
        __m512i y[F_REGS];
        UNROLL for (int j = 0; j < F_REGS; j++) y[j] = _mm512_loadu_si512(b + j * Z_LANES);
        UNROLL for (int i = 0; i < F_MR; i++) {
            const __m512i x = _mm512_set1_epi64((long long)a[i]);
            UNROLL for (int j = 0; j < F_REGS; j++) {
                low[i][j] = _mm512_madd52lo_epu64(low[i][j], x, y[j]);
                high[i][j] = _mm512_madd52hi_epu64(high[i][j], x, y[j]);
            }
            cross[i] = _mm512_dpwssd_epi32(cross[i], _mm512_set1_epi32((int)a_ends[i]), ends);
            /* The sums stay where they are: gcc 12 would move them, a quarter more instructions. */
            __asm__ volatile(""
                             : "+v"(low[i][0]), "+v"(low[i][1]), "+v"(high[i][0]), "+v"(high[i][1]),
                               "+v"(cross[i]));
        }
        a += F_MR;
        a_ends += F_MR;
        b += F_NR;
        b_ends += F_NR;
    }
    UNROLL for (int i = 0; i < F_MR; i++) {
        const __m512i both[F_REGS] = {
            _mm512_cvtepu32_epi64(_mm512_castsi512_si256(cross[i])),
            _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(cross[i], 1))};
        UNROLL for (int j = 0; j < F_REGS; j++) {
            uint64_t *to = c + (size_t)i * ldc + j * Z_LANES;
            const __m512i top = _mm512_slli_epi64(_mm512_add_epi64(high[i][j], both[j]), 52);
            __m512i sum = _mm512_add_epi64(low[i][j], top);
            if (accumulate)
                sum = _mm512_add_epi64(sum, _mm512_loadu_si512(to));
            _mm512_storeu_si512(to, sum);
        }
    }
}

AVX512 static void ifma_pack_right(const uvcci_gemm_side *s, size_t at, size_t depth,
                                   uint64_t *out) {
    pack_rows(F_REGS, s, at, depth, out);
}

const uvcci_gemm_micro uvcci_gemm_micro_ifma = {.run = ifma_run,
                                                .mr = F_MR,
                                                .nr = F_NR,
                                                .pack_right = ifma_pack_right,
                                                .ends = ifma_ends,
                                                .rows = avx512_rows,
                                                .dots = avx512_dots,
                                                .narrow_rows = uvcci_gemm_narrow_rows,
                                                .narrow_dots = uvcci_gemm_narrow_dots,
                                                .direct = avx512_direct};

bool uvcci_gemm_ifma_ready(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512ifma") &&
           __builtin_cpu_supports("avx512vnni");
}

/* AMD's vpmullq is one micro-operation, Intel's three. */
bool uvcci_gemm_ifma_pays(void) {
    return __builtin_cpu_is("intel") && uvcci_gemm_ifma_ready();
}

/* --- AVX2: x y = x0 y0 + 2^32 (x1 y0 + x0 y1); the two sums are kept apart till the end ---------
 */

enum { Y_MR = 2, Y_REGS = 2, Y_LANES = 4, Y_NR = Y_REGS * Y_LANES };

/* AVX2 has no 64-bit product, so each takes three of 32 bits. The two sums of a tile live in
 * registers over the whole depth, and meet once at its end. */
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

#define AVX2 __attribute__((target("avx2")))

AVX2 static inline __m256i y_load(const uint64_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

AVX2 static inline __m256i y_mul(__m256i a, __m256i b) {
    const __m256i cross = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), b),
                                           _mm256_mul_epu32(a, _mm256_srli_epi64(b, 32)));
    return _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64(cross, 32));
}

AVX2 static inline __attribute__((always_inline)) void
avx2_add_rows(int depth, size_t n, const uint64_t *v, const uint64_t *y, size_t ldy, uint64_t *z) {
    size_t j = 0;
    for (; j + Y_LANES <= n; j += Y_LANES) {
        __m256i sum = y_load(z + j);
        UNROLL for (int p = 0; p < depth; p++) {
            const __m256i x = _mm256_set1_epi64x((long long)v[p]);
            sum = _mm256_add_epi64(sum, y_mul(x, y_load(y + (size_t)p * ldy + j)));
        }
        _mm256_storeu_si256((__m256i *)(void *)(z + j), sum);
    }
    for (; j < n; j++)
        for (int p = 0; p < depth; p++)
            z[j] += v[p] * y[(size_t)p * ldy + j];
}

AVX2 static void avx2_rows(size_t depth, size_t n, const uint64_t *v, const uint64_t *y, size_t ldy,
                           uint64_t *z) {
    enum { ROWS = 4 };
    size_t p = 0;
    for (; p + ROWS <= depth; p += ROWS)
        avx2_add_rows(ROWS, n, v + p, y + p * ldy, ldy, z);
    for (; p < depth; p++)
        avx2_add_rows(1, n, v + p, y + p * ldy, ldy, z);
}

AVX2 static void avx2_dots(size_t depth, size_t n, const uint64_t *v, const uint64_t *y, size_t ldy,
                           uint64_t *z) {
    for (size_t j = 0; j < n; j++, y += ldy) {
        __m256i sums = _mm256_setzero_si256();
        size_t p = 0;
        for (; p + Y_LANES <= depth; p += Y_LANES)
            sums = _mm256_add_epi64(sums, y_mul(y_load(v + p), y_load(y + p)));
        uint64_t of[Y_LANES];
        _mm256_storeu_si256((__m256i *)(void *)of, sums);
        for (; p < depth; p++)
            of[0] += v[p] * y[p];
        z[j] += of[0] + of[1] + of[2] + of[3];
    }
}

enum { Y_DIRECT_ROWS = 2, Y_DIRECT_REGS = 2, Y_DIRECT_COLS = Y_DIRECT_REGS * Y_LANES };

/* As avx512_direct_tile; lanes that count are negative in a mask. */
AVX2 static inline __attribute__((always_inline)) void
avx2_direct_tile(const uvcci_gemm_direct *d, size_t i0, size_t j0, int rows) {
    const __m256i left = _mm256_set1_epi64x((long long)(d->cols - j0));
    const __m256i which[Y_DIRECT_REGS] = {_mm256_cmpgt_epi64(left, _mm256_setr_epi64x(0, 1, 2, 3)),
                                          _mm256_cmpgt_epi64(left, _mm256_setr_epi64x(4, 5, 6, 7))};
    __m256i low[Y_DIRECT_ROWS][Y_DIRECT_REGS], cross[Y_DIRECT_ROWS][Y_DIRECT_REGS];
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < Y_DIRECT_REGS; j++) low[i][j] = cross[i][j] =
            _mm256_setzero_si256();
    }
    for (size_t p = 0; p < 2 * d->depth; p++) { /* for each depth: (lo + hi) of x by lo, lo by hi */
        const size_t depth = p / 2;
        const uint64_t *y = (p % 2 == 0 ? d->y_lo : d->y_hi) + depth * d->ldy + j0;
        __m256i y0[Y_DIRECT_REGS], y1[Y_DIRECT_REGS];
        UNROLL for (int j = 0; j < Y_DIRECT_REGS; j++) {
            y0[j] =
                _mm256_maskload_epi64((const long long *)(const void *)(y + j * Y_LANES), which[j]);
            y1[j] = _mm256_srli_epi64(y0[j], 32);
        }
        UNROLL for (int i = 0; i < rows; i++) {
            const size_t at = (i0 + (size_t)i) * d->lane + depth * d->step;
            const uint64_t x = d->x_lo[at] + (p % 2 == 0 ? d->x_hi[at] : 0);
            const __m256i x0 = _mm256_set1_epi64x((long long)x);
            const __m256i x1 = _mm256_set1_epi32((int)(x >> 32));
            UNROLL for (int j = 0; j < Y_DIRECT_REGS; j++) {
                low[i][j] = _mm256_add_epi64(low[i][j], _mm256_mul_epu32(x0, y0[j]));
                cross[i][j] = _mm256_add_epi64(cross[i][j], _mm256_mul_epu32(x1, y0[j]));
                cross[i][j] = _mm256_add_epi64(cross[i][j], _mm256_mul_epu32(x0, y1[j]));
            }
        }
    }
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < Y_DIRECT_REGS; j++) {
            long long *to =
                (long long *)(void *)(d->z + (i0 + (size_t)i) * d->ldz + j0 + (size_t)j * Y_LANES);
            __m256i sum = _mm256_add_epi64(low[i][j], _mm256_slli_epi64(cross[i][j], 32));
            if (d->accumulate)
                sum = _mm256_add_epi64(sum, _mm256_maskload_epi64(to, which[j]));
            _mm256_maskstore_epi64(to, which[j], sum);
        }
    }
}

AVX2 static void avx2_direct(const uvcci_gemm_direct *d) {
    for (size_t j = 0; j < d->cols; j += Y_DIRECT_COLS) {
        size_t i = 0;
        for (; i + Y_DIRECT_ROWS <= d->rows; i += Y_DIRECT_ROWS)
            avx2_direct_tile(d, i, j, Y_DIRECT_ROWS);
        for (; i < d->rows; i++)
            avx2_direct_tile(d, i, j, 1);
    }
}

const uvcci_gemm_micro uvcci_gemm_micro_avx2 = {.run = avx2_run,
                                                .mr = Y_MR,
                                                .nr = Y_NR,
                                                .rows = avx2_rows,
                                                .dots = avx2_dots,
                                                .direct = avx2_direct};

#endif
