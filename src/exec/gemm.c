/* gemm.c - matrix products mod 2^64: blocking, packing, and the portable micro-kernel.
 *
 * The usual scheme: a KC x NC part of op(y) is packed into panels of nr columns, an MC x KC part of
 * op(x) into panels of mr rows, and a micro-kernel makes one mr x nr tile of z in registers. Panels
 * are padded with zeros, so that only the store of an edge tile is special. A panel of each side
 * fits the first-level cache, the part of op(x) the second.
 *
 * State: none. Words wrap, so no order of summation changes a result. */
#include "gemm.h"

#include <string.h>

#include "gemm_micro.h"

/* Every mr divides MAX_MR, which divides MC; every nr divides MAX_NR, which divides NC. */
enum { MC = 192, NC = 768, KC = 256, MAX_MR = 8, MAX_NR = 24 };

static inline size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline size_t round_up(size_t x, size_t to) {
    return (x + to - 1) / to * to;
}

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

static const uvcci_gemm_micro portable = {portable_run, PORTABLE_MR, PORTABLE_NR};

uvcci_gemm_backend uvcci_gemm_best(void) {
#if UVCCI_GEMM_X86
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        return UVCCI_GEMM_AVX512;
    if (__builtin_cpu_supports("avx2"))
        return UVCCI_GEMM_AVX2;
#endif
    return UVCCI_GEMM_PORTABLE;
}

static const uvcci_gemm_micro *micro_of(uvcci_gemm_backend b) {
    const uvcci_gemm_backend best = uvcci_gemm_best();
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

/* One side of a product: the element of lane l (a row of op(x), a column of op(y)) at depth p is
 * src[l * lane + p * step], plus that of `add` where it is given. */
typedef struct side {
    const uint64_t *src, *add;
    size_t lane, step;
} side;

static side side_of(const uint64_t *src, const uint64_t *add, bool lanes_are_rows, size_t cols) {
    return (side){src, add, lanes_are_rows ? cols : 1, lanes_are_rows ? 1 : cols};
}

static inline void pack_panel(side s, size_t at, size_t lanes, size_t depth, size_t width,
                              uint64_t *out, bool add) {
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
static void pack(side s, size_t l0, size_t lanes, size_t p0, size_t depth, size_t width,
                 uint64_t *out) {
    for (size_t l = 0; l < lanes; l += width, out += depth * width) {
        const size_t at = (l0 + l) * s.lane + p0 * s.step, n = min_size(width, lanes - l);
        if (s.add != NULL)
            pack_panel(s, at, n, depth, width, out, true);
        else
            pack_panel(s, at, n, depth, width, out, false);
    }
}

/* --- Products --------------------------------------------------------------------------------- */

size_t uvcci_gemm_scratch_words(uint32_t m, uint32_t n, uint32_t k) {
    const size_t depth = min_size(k, KC);
    return depth * (round_up(min_size(m, MC), MAX_MR) + round_up(min_size(n, NC), MAX_NR));
}

static void tiles(const uvcci_gemm_micro *u, size_t rows, size_t cols, size_t depth,
                  const uint64_t *a, const uint64_t *b, uint64_t *z, size_t ldz, bool accumulate) {
    uint64_t edge[MAX_MR * MAX_NR];
    for (size_t j = 0; j < cols; j += u->nr)
        for (size_t i = 0; i < rows; i += u->mr) {
            const uint64_t *pa = a + i * depth, *pb = b + j * depth;
            uint64_t *to = z + i * ldz + j;
            const size_t h = min_size(u->mr, rows - i), w = min_size(u->nr, cols - j);
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

static void product(const uvcci_gemm_micro *u, size_t m, size_t n, size_t k, side x, side y,
                    uint64_t *z, bool accumulate, uint64_t *scratch) {
    uint64_t *a = scratch, *b = scratch + round_up(min_size(m, MC), MAX_MR) * min_size(k, KC);
    if (k == 0 && !accumulate)
        memset(z, 0, m * n * sizeof *z);
    for (size_t j = 0; j < n; j += NC)
        for (size_t p = 0; p < k; p += KC) {
            const size_t cols = min_size(NC, n - j), depth = min_size(KC, k - p);
            pack(y, j, cols, p, depth, u->nr, b);
            for (size_t i = 0; i < m; i += MC) {
                const size_t rows = min_size(MC, m - i);
                pack(x, i, rows, p, depth, u->mr, a);
                tiles(u, rows, cols, depth, a, b, z + i * n + j, n, accumulate || p != 0);
            }
        }
}

void uvcci_gemm(uvcci_gemm_backend b, uint32_t m, uint32_t n, uint32_t k, const uint64_t *x,
                bool trans_x, const uint64_t *y, bool trans_y, uint64_t *z, bool accumulate,
                uint64_t *scratch) {
    product(micro_of(b), m, n, k, side_of(x, NULL, !trans_x, trans_x ? m : k),
            side_of(y, NULL, trans_y, trans_y ? k : n), z, accumulate, scratch);
}

void uvcci_gemm_rss(uvcci_gemm_backend b, uint32_t m, uint32_t n, uint32_t k, const uint64_t *x_lo,
                    const uint64_t *x_hi, bool trans_x, const uint64_t *y_lo, const uint64_t *y_hi,
                    bool trans_y, uint64_t *z, uint64_t *scratch) {
    const uvcci_gemm_micro *u = micro_of(b);
    const size_t x_cols = trans_x ? m : k, y_cols = trans_y ? k : n;
    product(u, m, n, k, side_of(x_lo, NULL, !trans_x, x_cols), side_of(y_lo, y_hi, trans_y, y_cols),
            z, false, scratch);
    product(u, m, n, k, side_of(x_hi, NULL, !trans_x, x_cols), side_of(y_lo, NULL, trans_y, y_cols),
            z, true, scratch);
}
