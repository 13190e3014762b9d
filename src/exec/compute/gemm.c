/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.c - matrix products mod 2^64: blocking, packing, and the portable micro-kernel.
 *
 * The usual scheme: a KC x NC part of op(y) is packed into panels of nr columns, an MC x KC part of
 * op(x) into panels of mr rows, and a micro-kernel makes one mr x nr tile of z in registers. Panels
 * are padded with zeros, so that only the store of an edge tile is special. A panel of each side
 * fits the first-level cache, the part of op(x) the second. Products with a vector have no use for
 * packing, nor have small replicated ones, which are made in one pass over matrices as they lie;
 * products by AMX are made in gemm_tiled.c.
 *
 * State: none. Words wrap, so no order of summation changes a result. */
#include "exec/compute/gemm.h"

#include <assert.h>
#include <string.h>

#include "exec/compute/gemm_micro.h"
#include "exec/compute/gemm_tiled.h"

/* Every mr divides MAX_MR, which divides MC; every nr divides MAX_NR, which divides NC. */
enum { MC = 192, NC = 768, KC = 256, MAX_MR = 8, MAX_NR = 24 };

/* Products up to this size are made directly: operands stay in the first-level cache. */
enum { DIRECT_MACS = 1 << 16, DIRECT_WORDS = 1 << 12 };

/* --- Backends --------------------------------------------------------------------------------- */

enum { PORTABLE_MR = 4, PORTABLE_NR = 4 };

static void portable_run(size_t depth, const uint64_t *a, const uint64_t *b, uint64_t *c,
                         size_t ldc, bool accumulate) {
    uint64_t acc[PORTABLE_MR][PORTABLE_NR] = {{0}};
    for (size_t p = 0; p < depth; p++, a += PORTABLE_MR, b += PORTABLE_NR)
        for (size_t i = 0; i < PORTABLE_MR; i++)
            for (size_t j = 0; j < PORTABLE_NR; j++)
                acc[i][j] += a[i] * b[j];
    for (size_t i = 0; i < PORTABLE_MR; i++)
        for (size_t j = 0; j < PORTABLE_NR; j++)
            c[i * ldc + j] = acc[i][j] + (accumulate ? c[i * ldc + j] : 0);
}

static void portable_rows(size_t depth, size_t n, const uint64_t *v, const uint64_t *y, size_t ldy,
                          uint64_t *z) {
    for (size_t p = 0; p < depth; p++, y += ldy)
        for (size_t j = 0; j < n; j++)
            z[j] += v[p] * y[j];
}

static void portable_dots(size_t depth, size_t n, const uint64_t *v, const uint64_t *y, size_t ldy,
                          uint64_t *z) {
    for (size_t j = 0; j < n; j++, y += ldy) {
        uint64_t sum = 0;
        for (size_t p = 0; p < depth; p++)
            sum += v[p] * y[p];
        z[j] += sum;
    }
}

static void portable_direct(const uvcci_gemm_direct *d) {
    for (size_t i = 0; i < d->rows; i++) {
        uint64_t *z = d->z + i * d->ldz;
        if (!d->accumulate)
            memset(z, 0, d->cols * sizeof *z);
        for (size_t p = 0; p < d->depth; p++) {
            const uint64_t lo = d->x_lo[i * d->lane + p * d->step];
            const uint64_t hi = d->x_hi[i * d->lane + p * d->step], both = lo + hi;
            const uint64_t *y_lo = d->y_lo + p * d->ldy, *y_hi = d->y_hi + p * d->ldy;
            for (size_t j = 0; j < d->cols; j++)
                z[j] += both * y_lo[j] + lo * y_hi[j];
        }
    }
}

static const uvcci_gemm_micro portable = {portable_run,  PORTABLE_MR,   PORTABLE_NR,
                                          portable_rows, portable_dots, portable_direct};

static uvcci_gemm_backend best_vectors(void) {
#if UVCCI_GEMM_X86
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        return UVCCI_GEMM_AVX512;
    if (__builtin_cpu_supports("avx2"))
        return UVCCI_GEMM_AVX2;
#endif
    return UVCCI_GEMM_PORTABLE;
}

static bool have_amx(void) {
#if UVCCI_GEMM_HAS_AMX
    return best_vectors() == UVCCI_GEMM_AVX512 && uvcci_gemm_amx_ready();
#else
    return false;
#endif
}

uvcci_gemm_backend uvcci_gemm_best(void) {
    return have_amx() ? UVCCI_GEMM_AMX : best_vectors();
}

uvcci_gemm_backend uvcci_gemm_pick(uvcci_gemm_backend best, uint32_t m, uint32_t n, uint32_t k) {
    const double least = 1 << 18, size = (double)m * n * k;
    const double padded = (double)uvcci_gemm_round_up(m, UVCCI_TILE_LANES) *
                          (double)uvcci_gemm_round_up(n, UVCCI_TILE_LANES) *
                          (double)uvcci_gemm_round_up(k, UVCCI_TILE_DEPTH);
    return best == UVCCI_GEMM_AMX && (size < least || padded > 4 * size) ? UVCCI_GEMM_AVX512 : best;
}

static const uvcci_gemm_micro *micro_of(uvcci_gemm_backend b) {
    const uvcci_gemm_backend best = best_vectors();
    if (b == UVCCI_GEMM_AUTO || b > best)
        b = best;
#if UVCCI_GEMM_X86
    if (b == UVCCI_GEMM_AVX512)
        return &uvcci_gemm_micro_avx512;
    if (b == UVCCI_GEMM_AVX2)
        return &uvcci_gemm_micro_avx2;
#endif
    return &portable;
}

/* --- Packing ---------------------------------------------------------------------------------- */

static uvcci_gemm_side side_of(const uint64_t *src, const uint64_t *add, bool lanes_are_rows,
                               size_t cols) {
    return (uvcci_gemm_side){src, add, lanes_are_rows ? cols : 1, lanes_are_rows ? 1 : cols};
}

static inline void pack_panel(uvcci_gemm_side s, size_t at, size_t lanes, size_t depth,
                              size_t width, uint64_t *out, bool add) {
    if (lanes < width)
        memset(out, 0, depth * width * sizeof *out);
    /* The inner loop follows memory. */
    if (s.lane == 1) {
        for (size_t p = 0; p < depth; p++)
            for (size_t l = 0; l < lanes; l++) {
                const size_t i = at + p * s.step + l;
                out[p * width + l] = s.src[i] + (add ? s.add[i] : 0);
            }
        return;
    }
    for (size_t l = 0; l < lanes; l++)
        for (size_t p = 0; p < depth; p++) {
            const size_t i = at + l * s.lane + p * s.step;
            out[p * width + l] = s.src[i] + (add ? s.add[i] : 0);
        }
}

/* Lanes [l0, l0 + lanes), depths [p0, p0 + depth), in panels of `width` lanes. */
static void pack(uvcci_gemm_side s, size_t l0, size_t lanes, size_t p0, size_t depth, size_t width,
                 uint64_t *out) {
    for (size_t l = 0; l < lanes; l += width, out += depth * width) {
        const size_t at = (l0 + l) * s.lane + p0 * s.step, n = uvcci_gemm_min(width, lanes - l);
        if (s.add != NULL)
            pack_panel(s, at, n, depth, width, out, true);
        else
            pack_panel(s, at, n, depth, width, out, false);
    }
}

/* --- Products --------------------------------------------------------------------------------- */

static bool is_small(size_t m, size_t n, size_t k) {
    return (double)m * (double)n * (double)k <= DIRECT_MACS &&
           (double)n * (double)k <= DIRECT_WORDS;
}

size_t uvcci_gemm_scratch_words(uvcci_gemm_backend b, uint32_t m, uint32_t n, uint32_t k) {
    const size_t depth = uvcci_gemm_min(k, KC);
    size_t words = depth * (uvcci_gemm_round_up(uvcci_gemm_min(m, MC), MAX_MR) +
                            uvcci_gemm_round_up(uvcci_gemm_min(n, NC), MAX_NR));
    const size_t transposed = 2 * uvcci_gemm_min((size_t)n * k, DIRECT_WORDS);
    words = transposed > words ? transposed : words;
    if (b != UVCCI_GEMM_AUTO && b != UVCCI_GEMM_AMX)
        return words;
    const size_t tiled = uvcci_gemm_tiled_scratch_words(m, n, k);
    return tiled > words ? tiled : words;
}

static void tiles(const uvcci_gemm_micro *u, size_t rows, size_t cols, size_t depth,
                  const uint64_t *a, const uint64_t *b, uint64_t *z, size_t ldz, bool accumulate) {
    uint64_t edge[MAX_MR * MAX_NR];
    for (size_t j = 0; j < cols; j += u->nr)
        for (size_t i = 0; i < rows; i += u->mr) {
            const uint64_t *pa = a + i * depth, *pb = b + j * depth;
            uint64_t *to = z + i * ldz + j;
            const size_t h = uvcci_gemm_min(u->mr, rows - i), w = uvcci_gemm_min(u->nr, cols - j);
            if (h == u->mr && w == u->nr) {
                u->run(depth, pa, pb, to, ldz, accumulate);
                continue;
            }
            u->run(depth, pa, pb, edge, u->nr, false);
            for (size_t r = 0; r < h; r++)
                for (size_t c = 0; c < w; c++)
                    to[r * ldz + c] = edge[r * u->nr + c] + (accumulate ? to[r * ldz + c] : 0);
        }
}

static void packed(const uvcci_gemm_micro *u, size_t m, size_t n, size_t k, uvcci_gemm_side x,
                   uvcci_gemm_side y, uint64_t *z, size_t ldz, bool accumulate, uint64_t *scratch) {
    uint64_t *a = scratch;
    assert(MC % u->mr == 0 && NC % u->nr == 0 && u->mr <= MAX_MR && u->nr <= MAX_NR);
    uint64_t *b = a + uvcci_gemm_round_up(uvcci_gemm_min(m, MC), MAX_MR) * uvcci_gemm_min(k, KC);
    for (size_t j = 0; j < n; j += NC)
        for (size_t p = 0; p < k; p += KC) {
            const size_t cols = uvcci_gemm_min(NC, n - j), depth = uvcci_gemm_min(KC, k - p);
            pack(y, j, cols, p, depth, u->nr, b);
            for (size_t i = 0; i < m; i += MC) {
                const size_t rows = uvcci_gemm_min(MC, m - i);
                pack(x, i, rows, p, depth, u->mr, a);
                tiles(u, rows, cols, depth, a, b, z + i * ldz + j, ldz, accumulate || p != 0);
            }
        }
}

/* z += v times depths [p, p + depth) of n lanes. */
static void times_vector(const uvcci_gemm_micro *u, size_t n, size_t p, size_t depth,
                         const uint64_t *v, const uint64_t *lanes, uvcci_gemm_side s, uint64_t *z) {
    if (s.step == 1)
        u->dots(depth, n, v, lanes + p, s.lane, z);
    else
        u->rows(depth, n, v, lanes + p * s.step, s.step, z);
}

/* Where m or n is 1 and that side lies word by word, as z does. */
static bool is_vector(size_t m, size_t n, uvcci_gemm_side x, uvcci_gemm_side y, size_t ldz) {
    return (m == 1 && x.step == 1) || (n == 1 && y.step == 1 && ldz == 1);
}

/* z (m x n) = or += x y where is_vector(), second parts added.
 * Where both have a second part, it is the replicated product:
 * v (s + s') + v' s = (v + v') s + v s'. */
static void vector_product(const uvcci_gemm_micro *u, size_t m, size_t n, size_t k,
                           uvcci_gemm_side x, uvcci_gemm_side y, uint64_t *z, bool accumulate,
                           uint64_t *scratch) {
    const bool row = m == 1 && x.step == 1;
    const uvcci_gemm_side v = row ? x : y, s = row ? y : x;
    assert(is_vector(m, n, x, y, row ? n : 1));
    if (!accumulate)
        memset(z, 0, m * n * sizeof *z);
    if (v.add == NULL) {
        times_vector(u, m * n, 0, k, v.src, s.src, s, z);
        if (s.add != NULL)
            times_vector(u, m * n, 0, k, v.src, s.add, s, z);
        return;
    }
    for (size_t p = 0; p < k; p += KC) {
        const size_t depth = uvcci_gemm_min(KC, k - p);
        for (size_t i = 0; i < depth; i++)
            scratch[i] = v.src[p + i] + v.add[p + i];
        times_vector(u, m * n, p, depth, scratch, s.src, s, z);
        if (s.add != NULL)
            times_vector(u, m * n, p, depth, v.src + p, s.add, s, z);
    }
}

static void product(uvcci_gemm_backend b, size_t m, size_t n, size_t k, uvcci_gemm_side x,
                    uvcci_gemm_side y, uint64_t *z, size_t ldz, bool accumulate,
                    uint64_t *scratch) {
    for (size_t i = 0; i < m && k == 0 && !accumulate; i++)
        memset(z + i * ldz, 0, n * sizeof *z);
#if UVCCI_GEMM_HAS_AMX
    if (b == UVCCI_GEMM_AMX && k != 0) {
        uvcci_gemm_tiled(&uvcci_gemm_tile_amx, m, n, k, x, y, z, ldz, accumulate, scratch);
        return;
    }
#endif
    packed(micro_of(b), m, n, k, x, y, z, ldz, accumulate, scratch);
}

/* AMX only where there is AMX. */
static uvcci_gemm_backend resolve(uvcci_gemm_backend b, uint32_t m, uint32_t n, uint32_t k) {
    if (b == UVCCI_GEMM_AUTO && uvcci_gemm_pick(UVCCI_GEMM_AMX, m, n, k) == UVCCI_GEMM_AMX)
        return uvcci_gemm_best();
    return b == UVCCI_GEMM_AMX && !have_amx() ? UVCCI_GEMM_AVX512 : b;
}

void uvcci_gemm(uvcci_gemm_backend b, uint32_t m, uint32_t n, uint32_t k, const uint64_t *x,
                bool trans_x, const uint64_t *y, bool trans_y, uint64_t *z, bool accumulate,
                uint64_t *scratch) {
    const uvcci_gemm_side sx = side_of(x, NULL, !trans_x, trans_x ? m : k);
    const uvcci_gemm_side sy = side_of(y, NULL, trans_y, trans_y ? k : n);
    if (is_vector(m, n, sx, sy, n))
        vector_product(micro_of(b), m, n, k, sx, sy, z, accumulate, scratch);
    else
        product(resolve(b, m, n, k), m, n, k, sx, sy, z, n, accumulate, scratch);
}

/* y lies as it is wanted, or its transpose is made in scratch. */
static void direct_product(const uvcci_gemm_micro *u, const uvcci_gemm_replicated *p,
                           uint64_t *scratch) {
    uvcci_gemm_direct d = {.rows = p->m,
                           .cols = p->n,
                           .depth = p->k,
                           .x_lo = p->x_lo,
                           .x_hi = p->x_hi,
                           .y_lo = p->y_lo,
                           .y_hi = p->y_hi,
                           .lane = p->trans_x ? 1 : p->ldx,
                           .step = p->trans_x ? p->ldx : 1,
                           .ldy = p->ldy,
                           .ldz = p->ldz,
                           .z = p->z,
                           .accumulate = p->accumulate};
    assert(is_small(p->m, p->n, p->k));
    if (p->trans_y) {
        uint64_t *lo = scratch, *hi = lo + (size_t)p->n * p->k;
        pack(side_of(p->y_lo, NULL, true, p->ldy), 0, p->n, 0, p->k, p->n, lo);
        pack(side_of(p->y_hi, NULL, true, p->ldy), 0, p->n, 0, p->k, p->n, hi);
        d.y_lo = lo;
        d.y_hi = hi;
        d.ldy = p->n;
    }
    u->direct(&d);
}

void uvcci_gemm_single(uvcci_gemm_backend b, const uvcci_gemm_replicated *p, uint64_t *scratch) {
    const uvcci_gemm_side x = side_of(p->x_lo, NULL, !p->trans_x, p->ldx);
    const uvcci_gemm_side y = side_of(p->y_lo, p->y_hi, p->trans_y, p->ldy);
    assert(p->ldz >= p->n && p->x_hi == NULL);
    if (is_vector(p->m, p->n, x, y, p->ldz))
        vector_product(micro_of(b), p->m, p->n, p->k, x, y, p->z, p->accumulate, scratch);
    else
        product(resolve(b, p->m, p->n, p->k), p->m, p->n, p->k, x, y, p->z, p->ldz, p->accumulate,
                scratch);
}

void uvcci_gemm_rss(uvcci_gemm_backend b, const uvcci_gemm_replicated *p, uint64_t *scratch) {
    const uvcci_gemm_side x_lo = side_of(p->x_lo, NULL, !p->trans_x, p->ldx);
    const uvcci_gemm_side y_lo = side_of(p->y_lo, NULL, p->trans_y, p->ldy);
    const uvcci_gemm_side y_sum = side_of(p->y_lo, p->y_hi, p->trans_y, p->ldy);
    const size_t m = p->m, n = p->n, k = p->k;
    assert(p->ldz >= n); /* rows that are read may overlap, rows that are written may not */
    assert(p->x_hi != NULL && p->y_hi != NULL && (uintptr_t)scratch % 64 == 0);
    if (is_vector(m, n, x_lo, y_lo, p->ldz)) {
        const uvcci_gemm_side x = side_of(p->x_lo, p->x_hi, !p->trans_x, p->ldx);
        vector_product(micro_of(b), m, n, k, x, y_sum, p->z, p->accumulate, scratch);
        return;
    }
    if (is_small(m, n, k)) {
        direct_product(micro_of(b), p, scratch);
        return;
    }
    const uvcci_gemm_side x_hi = side_of(p->x_hi, NULL, !p->trans_x, p->ldx);
    const uvcci_gemm_backend r = resolve(b, p->m, p->n, p->k);
    product(r, m, n, k, x_lo, y_sum, p->z, p->ldz, p->accumulate, scratch);
    product(r, m, n, k, x_hi, y_lo, p->z, p->ldz, true, scratch);
}
