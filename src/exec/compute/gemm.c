/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.c - matrix products mod 2^64: blocking, packing, and the portable micro-kernel.
 *
 * An MC x KC part of op(x) is packed into panels of mr rows, which fit the second-level cache, then
 * one KC deep panel of nr columns of op(y) after the other into one place, which stays in the
 * first, and a micro-kernel makes one mr x nr tile of z in registers: activations are few rows and
 * weights many words, so what is packed of weights never leaves the cache. Panels are padded with
 * zeros, so that only the store of an edge tile is special. Both terms of a replicated product are
 * one product of twice the depth. Products with a vector have no use for packing, nor have small
 * replicated ones, which are made in one pass over matrices as they lie; products by AMX are made
 * in gemm_tiled.c.
 *
 * State: none. Words wrap, so no order of summation changes a result. */
#include "exec/compute/gemm.h"

#include <assert.h>
#include <string.h>

#include "exec/compute/gemm_micro.h"
#include "exec/compute/gemm_narrow.h"
#include "exec/compute/gemm_tiled.h"

/* Every mr divides MAX_MR, which divides MC; no nr is above MAX_NR. */
enum { MC = 192, KC = 128, MAX_MR = 8, MAX_NR = 24, MAX_TERMS = 2 };

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

static const uvcci_gemm_micro portable = {.run = portable_run,
                                          .mr = PORTABLE_MR,
                                          .nr = PORTABLE_NR,
                                          .rows = portable_rows,
                                          .dots = portable_dots,
                                          .direct = portable_direct};

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
        return uvcci_gemm_ifma_pays() ? &uvcci_gemm_micro_ifma : &uvcci_gemm_micro_avx512;
    if (b == UVCCI_GEMM_AVX2)
        return &uvcci_gemm_micro_avx2;
#endif
    return &portable;
}

/* --- Packing ---------------------------------------------------------------------------------- */

static uvcci_gemm_side side_of(const uint64_t *src, const uint64_t *add, bool lanes_are_rows,
                               size_t cols) {
    return (uvcci_gemm_side){src, add, lanes_are_rows ? cols : 1, lanes_are_rows ? 1 : cols, 0};
}

/* `bytes` and `add` are constants where this is inlined. */
static inline __attribute__((always_inline)) void pack_words(const uvcci_gemm_side *s, size_t at,
                                                             size_t lanes, size_t depth,
                                                             size_t width, uint64_t *out,
                                                             unsigned bytes, bool add) {
    if (lanes < width)
        memset(out, 0, depth * width * sizeof *out);
    /* The inner loop follows memory. */
    if (s->lane == 1) {
        for (size_t p = 0; p < depth; p++)
            for (size_t l = 0; l < lanes; l++) {
                const size_t i = at + p * s->step + l;
                out[p * width + l] = uvcci_gemm_element(s, bytes, i) + (add ? s->add[i] : 0);
            }
        return;
    }
    for (size_t l = 0; l < lanes; l++)
        for (size_t p = 0; p < depth; p++) {
            const size_t i = at + l * s->lane + p * s->step;
            out[p * width + l] = uvcci_gemm_element(s, bytes, i) + (add ? s->add[i] : 0);
        }
}

/* Lanes [lane, lane + lanes), depths [p, p + depth), as one panel of `width` lanes. */
static void pack(uvcci_gemm_side s, size_t lane, size_t lanes, size_t p, size_t depth, size_t width,
                 uint64_t *out) {
    const size_t at = lane * s.lane + p * s.step;
    assert(s.bytes == 0 || s.add == NULL);
    if (s.add != NULL)
        pack_words(&s, at, lanes, depth, width, out, 0, true);
    else if (s.bytes == 2)
        pack_words(&s, at, lanes, depth, width, out, 2, false);
    else if (s.bytes == 4)
        pack_words(&s, at, lanes, depth, width, out, 4, false);
    else
        pack_words(&s, at, lanes, depth, width, out, 0, false);
}

/* Words of a panel of `width` lanes, with what the micro-kernel needs beside them: a multiple of 8.
 */
static size_t panel_words(const uvcci_gemm_micro *u, size_t width, size_t depth) {
    const size_t words = width * depth;
    return uvcci_gemm_round_up(words + (u->ends != NULL ? (words + 1) / 2 : 0), 8);
}

/* One panel of `lanes` lanes from `lane` on, padded to mr or nr: depths [p, p + depth) of each
 * term, one behind the other. */
static void pack_terms(const uvcci_gemm_micro *u, const uvcci_gemm_term *terms, size_t count,
                       bool right, size_t lane, size_t lanes, size_t p, size_t depth,
                       uint64_t *out) {
    const size_t width = right ? u->nr : u->mr, words = width * depth;
    for (size_t t = 0; t < count; t++) {
        const uvcci_gemm_side *s = right ? &terms[t].y : &terms[t].x;
        if (right && u->pack_right != NULL && s->lane == 1 && lanes == width && s->bytes == 0)
            u->pack_right(s, lane + p * s->step, depth, out + t * words);
        else
            pack(*s, lane, lanes, p, depth, width, out + t * words);
    }
    if (u->ends != NULL)
        u->ends(count * words, right, out, (uint32_t *)(out + count * words));
}

/* --- Products --------------------------------------------------------------------------------- */

static bool is_small(size_t m, size_t n, size_t k) {
    return (double)m * (double)n * (double)k <= DIRECT_MACS &&
           (double)n * (double)k <= DIRECT_WORDS;
}

size_t uvcci_gemm_scratch_words(uvcci_gemm_backend b, uint32_t m, uint32_t n, uint32_t k) {
    const size_t depth = uvcci_gemm_min((size_t)k * MAX_TERMS, KC);
    const size_t lanes = uvcci_gemm_round_up(uvcci_gemm_min(m, MC), MAX_MR) + MAX_NR;
    size_t words = depth * lanes * 3 / 2 + 8 * (lanes + 1); /* each panel rounded up */
    const size_t transposed = 2 * uvcci_gemm_min((size_t)n * k, DIRECT_WORDS);
    words = transposed > words ? transposed : words;
    if (b != UVCCI_GEMM_AUTO && b != UVCCI_GEMM_AMX)
        return words;
    const size_t tiled = uvcci_gemm_tiled_scratch_words(m, n, k);
    const size_t narrow = uvcci_gemm_narrow_scratch_words(m, n, k);
    words = narrow > words ? narrow : words;
    return tiled > words ? tiled : words;
}

/* A column of tiles: all rows that are packed by one panel of nr columns, of which `cols` count. */
static void tiles(const uvcci_gemm_micro *u, size_t rows, size_t cols, size_t depth,
                  const uint64_t *a, const uint64_t *b, uint64_t *z, size_t ldz, bool accumulate) {
    const size_t panel = panel_words(u, u->mr, depth);
    uint64_t edge[MAX_MR * MAX_NR];
    for (size_t i = 0; i < rows; i += u->mr, a += panel, z += u->mr * ldz) {
        const size_t h = uvcci_gemm_min(u->mr, rows - i);
        if (h == u->mr && cols == u->nr) {
            u->run(depth, a, b, z, ldz, accumulate);
            continue;
        }
        u->run(depth, a, b, edge, u->nr, false);
        for (size_t r = 0; r < h; r++)
            for (size_t c = 0; c < cols; c++)
                z[r * ldz + c] = edge[r * u->nr + c] + (accumulate ? z[r * ldz + c] : 0);
    }
}

void uvcci_gemm_packed(const uvcci_gemm_micro *u, size_t m, size_t n, size_t k,
                       const uvcci_gemm_term *terms, size_t count, uint64_t *z, size_t ldz,
                       bool accumulate, uint64_t *scratch) {
    const size_t step = KC / count;
    assert(MC % u->mr == 0 && u->mr <= MAX_MR && u->nr <= MAX_NR);
    assert(k != 0 && count != 0 && count <= MAX_TERMS && (uintptr_t)scratch % 64 == 0);
    for (size_t i = 0; i < m; i += MC)
        for (size_t p = 0; p < k; p += step) {
            const size_t rows = uvcci_gemm_min(MC, m - i), depth = uvcci_gemm_min(step, k - p);
            const size_t panel = panel_words(u, u->mr, count * depth);
            uint64_t *b = scratch;
            for (size_t r = 0; r < rows; r += u->mr, b += panel)
                pack_terms(u, terms, count, false, i + r, uvcci_gemm_min(u->mr, rows - r), p, depth,
                           b);
            for (size_t j = 0; j < n; j += u->nr) {
                const size_t cols = uvcci_gemm_min(u->nr, n - j);
                pack_terms(u, terms, count, true, j, cols, p, depth, b);
                tiles(u, rows, cols, count * depth, scratch, b, z + i * ldz + j, ldz,
                      accumulate || p != 0);
            }
        }
}

/* The same of narrow integers, on any CPU. */
static inline __attribute__((always_inline)) void times_narrow(size_t n, size_t p, size_t depth,
                                                               const uint64_t *v,
                                                               const uvcci_gemm_side *s,
                                                               unsigned bytes, uint64_t *z) {
    for (size_t j = 0; j < n && s->step == 1; j++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < depth; i++)
            sum += v[i] * uvcci_gemm_element(s, bytes, j * s->lane + p + i);
        z[j] += sum;
    }
    for (size_t i = 0; i < depth && s->step != 1; i++)
        for (size_t j = 0; j < n; j++)
            z[j] += v[i] * uvcci_gemm_element(s, bytes, (p + i) * s->step + j);
}

/* z += v times depths [p, p + depth) of n lanes. */
static void times_vector(const uvcci_gemm_micro *u, size_t n, size_t p, size_t depth,
                         const uint64_t *v, const uint64_t *lanes, uvcci_gemm_side s, uint64_t *z) {
    if (s.bytes != 0 && u->narrow_rows != NULL) {
        const void *y = (const uint8_t *)lanes + p * s.step * s.bytes;
        if (s.step == 1)
            u->narrow_dots(depth, n, v, y, s.bytes, s.lane, z);
        else
            u->narrow_rows(depth, n, v, y, s.bytes, s.step, z);
    } else if (s.bytes == 2)
        times_narrow(n, p, depth, v, &s, 2, z);
    else if (s.bytes == 4)
        times_narrow(n, p, depth, v, &s, 4, z);
    else if (s.step == 1)
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
    if (v.add == NULL && v.bytes == 0) {
        times_vector(u, m * n, 0, k, v.src, s.src, s, z);
        if (s.add != NULL)
            times_vector(u, m * n, 0, k, v.src, s.add, s, z);
        return;
    }
    for (size_t p = 0; p < k; p += KC) {
        const size_t depth = uvcci_gemm_min(KC, k - p);
        for (size_t i = 0; i < depth; i++)
            scratch[i] =
                uvcci_gemm_element(&v, v.bytes, p + i) + (v.add != NULL ? v.add[p + i] : 0);
        times_vector(u, m * n, p, depth, scratch, s.src, s, z);
        if (s.add != NULL && v.add != NULL)
            times_vector(u, m * n, p, depth, v.src + p, s.add, s, z);
    }
}

static void product(uvcci_gemm_backend b, size_t m, size_t n, size_t k,
                    const uvcci_gemm_term *terms, size_t count, uint64_t *z, size_t ldz,
                    bool accumulate, uint64_t *scratch) {
    for (size_t i = 0; i < m && k == 0 && !accumulate; i++)
        memset(z + i * ldz, 0, n * sizeof *z);
    if (k == 0)
        return;
#if UVCCI_GEMM_HAS_AMX
    if (b == UVCCI_GEMM_AMX) {
        uvcci_gemm_tiled(&uvcci_gemm_tile_amx, m, n, k, terms, count, z, ldz, accumulate, scratch);
        return;
    }
#endif
    uvcci_gemm_packed(micro_of(b), m, n, k, terms, count, z, ldz, accumulate, scratch);
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
        product(resolve(b, m, n, k), m, n, k, &(uvcci_gemm_term){sx, sy}, 1, z, n, accumulate,
                scratch);
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
    assert(p->ldz >= p->n && p->x_hi == NULL && p->y_bytes == 0);
    if (is_vector(p->m, p->n, x, y, p->ldz))
        vector_product(micro_of(b), p->m, p->n, p->k, x, y, p->z, p->accumulate, scratch);
    else
        product(resolve(b, p->m, p->n, p->k), p->m, p->n, p->k, &(uvcci_gemm_term){x, y}, 1, p->z,
                p->ldz, p->accumulate, scratch);
}

#if UVCCI_GEMM_HAS_AMX
/* Where AMX has no use for digits. */
static void by_words(size_t m, size_t n, size_t k, const uvcci_gemm_term *term, uint64_t *z,
                     size_t ldz, bool accumulate, uint64_t *scratch) {
    uvcci_gemm_packed(micro_of(UVCCI_GEMM_AVX512), m, n, k, term, 1, z, ldz, accumulate, scratch);
}
#endif

void uvcci_gemm_public(uvcci_gemm_backend b, const uvcci_gemm_replicated *p, uint64_t *z_hi,
                       uint64_t *scratch) {
    const uvcci_gemm_side x[2] = {side_of(p->x_lo, NULL, !p->trans_x, p->ldx),
                                  side_of(p->x_hi, NULL, !p->trans_x, p->ldx)};
    uint64_t *const z[2] = {p->z, z_hi};
    const size_t m = p->m, n = p->n, k = p->k, count = z_hi != NULL ? 2 : 1;
    uvcci_gemm_side y = side_of(p->y_lo, NULL, p->trans_y, p->ldy);
    const uvcci_gemm_backend best = resolve(b, p->m, p->n, p->k);
    assert(p->ldz >= n && p->y_hi == NULL && (count == 1 || p->x_hi != NULL));
    y.bytes = p->y_bytes;
#if UVCCI_GEMM_HAS_AMX
    if (best == UVCCI_GEMM_AMX && y.bytes != 0 && k != 0 && !is_vector(m, n, x[0], y, p->ldz)) {
        const uvcci_gemm_narrow_product t = {m,       n, k, x, &y, z, count, p->ldz, p->accumulate,
                                             by_words};
        uvcci_gemm_narrow(&uvcci_gemm_narrow_amx, &t, scratch);
        return;
    }
#endif
    for (size_t c = 0; c < count; c++)
        if (is_vector(m, n, x[c], y, p->ldz))
            vector_product(micro_of(b), m, n, k, x[c], y, z[c], p->accumulate, scratch);
        else
            product(y.bytes != 0 && best == UVCCI_GEMM_AMX ? UVCCI_GEMM_AVX512 : best, m, n, k,
                    &(uvcci_gemm_term){x[c], y}, 1, z[c], p->ldz, p->accumulate, scratch);
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
    const uvcci_gemm_term terms[] = {{x_lo, y_sum}, {x_hi, y_lo}};
    product(resolve(b, p->m, p->n, p->k), m, n, k, terms, 2, p->z, p->ldz, p->accumulate, scratch);
}
