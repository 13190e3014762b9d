/* SPDX-License-Identifier: Apache-2.0 */
/* Products: every backend against the schoolbook loop, odd shapes, transposes, extreme words. Tiles
 * of bytes are emulated as well, so that all around them is tested on any CPU. */
#include "support.h"

#include <stdbool.h>

#include "exec/compute/gemm.h"
#include "exec/compute/gemm_narrow.h"
#if UVCCI_GEMM_HAS_AMX
#include <cpuid.h>
#endif

/* --- Tile operations without a matrix unit ---------------------------------------------------- */

static union {
    uint8_t byte[16][64];
    int8_t digit[16][64];
    uint32_t word[16][16];
} tile[8];
static bool configured;

static void emulated_begin(void) {
    assert_false(configured);
    configured = true;
}

static void emulated_end(void) {
    assert_true(configured);
    configured = false;
}

/* What TDPBSSD does. */
static void emulated_madd(unsigned sum, unsigned a, unsigned b) {
    for (unsigned i = 0; i < 16; i++)
        for (unsigned k = 0; k < 16; k++)
            for (unsigned j = 0; j < 16; j++) {
                int add = 0;
                for (unsigned e = 0; e < 4; e++)
                    add += tile[a].digit[i][4 * k + e] * tile[b].digit[k][4 * j + e];
                tile[sum].word[i][j] += (uint32_t)add;
            }
}

#define TILE_FN
#define TILE_ZERO(t)         memset(&tile[t], 0, sizeof tile[t])
#define TILE_LOAD(t, from)   memcpy(&tile[t], from, sizeof tile[t])
#define TILE_MADD(sum, a, b) emulated_madd(sum, a, b)
#define TILE_STORE(t, to)    memcpy(to, &tile[t], sizeof tile[t])
#include "exec/compute/gemm_narrow_steps.h"
#include "exec/compute/gemm_tile_steps.h"

static void emulated_narrow(size_t steps, unsigned digits, const uint8_t *a, const uint8_t *b,
                            int32_t *sums) {
    assert_true(configured);
    assert_in_range(digits, 2, UVCCI_NARROW_DIGITS);
    if (digits == 2)
        narrow_by_two(steps, a, b, sums);
    else
        narrow_by_three(steps, a, b, sums);
}

static void emulated_multiply(size_t steps, const uint8_t *a, const uint8_t *b, int32_t *sums) {
    assert_true(configured);
    multiply(steps, a, b, sums);
}

/* Signed digits one by one, low first, each with its borrow. */
static void plain_split(const uint64_t *words, const uint64_t *add, size_t step, bool quads,
                        uint8_t *out) {
    for (unsigned i = 0; i < 64; i++) {
        const size_t at = i / 16 * step + i % 16;
        uint64_t x = words[at] + (add != NULL ? add[at] : 0);
        for (unsigned d = 0; d < 8; d++) {
            const int digit = (int)(x & 0xff) - (x & 0x80 ? 256 : 0);
            out[d * UVCCI_TILE_BYTES + (quads ? i % 16 * 4 + i / 16 : i)] = (uint8_t)digit;
            x = (x - (uint64_t)(int64_t)digit) >> 8;
        }
    }
}

static void plain_join(const int32_t *sums, size_t rows, size_t cols, uint64_t *z, size_t ldz,
                       bool accumulate) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            uint64_t w = accumulate ? z[i * ldz + j] : 0;
            for (unsigned s = 0; s < 8; s++)
                w += (uint64_t)(int64_t)sums[(s * 16 + i) * 16 + j] << 8 * s;
            z[i * ldz + j] = w;
        }
}

/* The sets of operations that this CPU can run: all emulated; emulated tiles with the packing of
 * AMX; AMX. */
static uvcci_gemm_tile_ops tile_sets[3] = {
    {emulated_begin, emulated_end, plain_split, emulated_multiply, plain_join}};
static unsigned tile_set_count = 1;

static void add_tile_sets(void) {
#if UVCCI_GEMM_HAS_AMX
    if (uvcci_gemm_vbmi_ready()) {
        tile_sets[tile_set_count] = tile_sets[0];
        tile_sets[tile_set_count].split = uvcci_gemm_tile_amx.split;
        tile_sets[tile_set_count++].join = uvcci_gemm_tile_amx.join;
    }
    if (uvcci_gemm_amx_ready())
        tile_sets[tile_set_count++] = uvcci_gemm_tile_amx;
#endif
}

/* --- Shapes ----------------------------------------------------------------------------------- */

typedef struct matrix {
    uint64_t *w;
    bool trans; /* stored transposed */
    uint32_t rows, cols;
} matrix;

static uint64_t extreme(uint64_t *rng) {
    static const uint64_t words[] = {0,
                                     1,
                                     UINT64_MAX,
                                     (uint64_t)1 << 63,
                                     INT64_MAX,
                                     UINT32_MAX,
                                     (uint64_t)1 << 32,
                                     (uint64_t)UINT32_MAX << 32,
                                     (uint64_t)1 << 62,
                                     0x8080808080808080,      /* as digits: */
                                     0x7f7f7f7f7f7f7f7f,      /* all 127 */
                                     0x7f7f7f7f7f7f7f80,      /* all -128 */
                                     ((uint64_t)1 << 52) - 1, /* as halves of 52 and 12 bits */
                                     (uint64_t)1 << 52};
    const uint64_t r = test_rand(rng);
    return r % 3 == 0 ? words[r / 3 % (sizeof words / sizeof *words)] : test_rand(rng);
}

static matrix new_matrix(uint32_t rows, uint32_t cols, bool trans, uint64_t *rng) {
    matrix a = {malloc((size_t)rows * cols * 8 + 8), trans, rows, cols};
    assert_non_null(a.w);
    for (size_t i = 0; i < (size_t)rows * cols; i++)
        a.w[i] = extreme(rng);
    return a;
}

static uint64_t at(const matrix *a, uint32_t i, uint32_t j) {
    return a->trans ? a->w[(size_t)j * a->rows + i] : a->w[(size_t)i * a->cols + j];
}

static uint64_t dot(const matrix *x, const matrix *y, uint32_t i, uint32_t j) {
    uint64_t sum = 0;
    for (uint32_t p = 0; p < x->cols; p++)
        sum += at(x, i, p) * at(y, p, j);
    return sum;
}

/* Scratch of exactly the promised size, so that a sanitizer sees any word beyond. */
static uint64_t *new_scratch(uint32_t m, uint32_t n, uint32_t k) {
    const size_t bytes = uvcci_gemm_scratch_words(UVCCI_GEMM_AUTO, m, n, k) * 8;
    uint64_t *p = NULL;
    assert_int_equal(posix_memalign((void **)&p, 64, bytes + 64), 0);
    return p;
}

static uvcci_gemm_side side_of(const matrix *a, const uint64_t *add, bool lanes_are_rows) {
    const size_t cols = a->trans ? a->rows : a->cols;
    const bool along = lanes_are_rows != a->trans;
    return (uvcci_gemm_side){a->w, add, along ? cols : 1, along ? 1 : cols, 0};
}

typedef struct product {
    matrix xl, xh, yl, yh;
    uint64_t *plain, *rss, *start; /* what is right; what z holds before */
    uint64_t *z;
} product;

static void check_tiled(const uvcci_gemm_tile_ops *o, const product *q) {
    const uint32_t m = q->xl.rows, n = q->yl.cols, k = q->xl.cols;
    const size_t bytes = (size_t)m * n * 8;
    uint64_t *scratch = NULL;
    assert_int_equal(
        posix_memalign((void **)&scratch, 64, uvcci_gemm_tiled_scratch_words(m, n, k) * 8), 0);
    const uvcci_gemm_side xl = side_of(&q->xl, NULL, true), xh = side_of(&q->xh, NULL, true);
    const uvcci_gemm_side yl = side_of(&q->yl, NULL, false);
    const uvcci_gemm_side sum = side_of(&q->yl, q->yh.w, false);
    const uvcci_gemm_term one = {xl, yl}, terms[] = {{xl, sum}, {xh, yl}};

    memcpy(q->z, q->start, bytes);
    uvcci_gemm_tiled(o, m, n, k, &one, 1, q->z, n, false, scratch);
    assert_memory_equal(q->z, q->plain, bytes);
    memcpy(q->z, q->start, bytes);
    uvcci_gemm_tiled(o, m, n, k, &one, 1, q->z, n, true, scratch);
    for (size_t e = 0; e < (size_t)m * n; e++)
        assert_true(q->z[e] == q->start[e] + q->plain[e]);
    memcpy(q->z, q->start, bytes);
    uvcci_gemm_tiled(o, m, n, k, terms, 2, q->z, n, false, scratch);
    assert_memory_equal(q->z, q->rss, bytes);
    memcpy(q->z, q->start, bytes);
    uvcci_gemm_tiled(o, m, n, k, terms, 2, q->z, n, true, scratch);
    for (size_t e = 0; e < (size_t)m * n; e++)
        assert_true(q->z[e] == q->start[e] + q->rss[e]);
    assert_false(configured);
    free(scratch);
}

#if UVCCI_GEMM_X86
/* Which of the two AVX512 takes depends on who made the CPU, so each is asked for here. */
static void check_micro(const uvcci_gemm_micro *u, const product *q) {
    const uint32_t m = q->xl.rows, n = q->yl.cols, k = q->xl.cols;
    const size_t bytes = (size_t)m * n * 8;
    uint64_t *scratch = new_scratch(m, n, k);
    const uvcci_gemm_side y = side_of(&q->yl, NULL, false);
    const uvcci_gemm_term terms[] = {{side_of(&q->xl, NULL, true), side_of(&q->yl, q->yh.w, false)},
                                     {side_of(&q->xh, NULL, true), y}};

    memcpy(q->z, q->start, bytes);
    uvcci_gemm_packed(u, m, n, k, &(uvcci_gemm_term){terms[0].x, y}, 1, q->z, n, false, scratch);
    assert_memory_equal(q->z, q->plain, bytes);
    memcpy(q->z, q->start, bytes);
    uvcci_gemm_packed(u, m, n, k, terms, 2, q->z, n, true, scratch);
    for (size_t e = 0; e < (size_t)m * n; e++)
        assert_true(q->z[e] == q->start[e] + q->rss[e]);
    free(scratch);
}

static void check_micros(const product *q) {
    if (uvcci_gemm_best() >= UVCCI_GEMM_AVX512)
        check_micro(&uvcci_gemm_micro_avx512, q);
    if (uvcci_gemm_ifma_ready())
        check_micro(&uvcci_gemm_micro_ifma, q);
}
#else
static void check_micros(const product *q) {
    (void)q;
}
#endif

/* A copy with rows `gap` words longer, which hold other words. */
static uint64_t *with_gaps(const uint64_t *src, size_t rows, size_t cols, size_t gap) {
    uint64_t *out = malloc((rows * (cols + gap) + 1) * sizeof *out);
    assert_non_null(out);
    memset(out, 0x5a, rows * (cols + gap) * sizeof *out);
    for (size_t i = 0; i < rows; i++)
        memcpy(out + i * (cols + gap), src + i * cols, cols * sizeof *out);
    return out;
}

/* The same product of blocks of wider matrices; what lies between their rows stays. */
static void check_gaps(uvcci_gemm_backend b, uvcci_gemm_replicated p, const uint64_t *want,
                       uint64_t *scratch) {
    enum { GAP_X = 3, GAP_Y = 5, GAP_Z = 2 };
    const size_t x_rows = p.trans_x ? p.k : p.m, x_cols = p.ldx;
    const size_t y_rows = p.trans_y ? p.n : p.k, y_cols = p.ldy, ldz = p.n + (size_t)GAP_Z;
    uint64_t *x_lo = with_gaps(p.x_lo, x_rows, x_cols, GAP_X);
    uint64_t *x_hi = with_gaps(p.x_hi, x_rows, x_cols, GAP_X);
    uint64_t *y_lo = with_gaps(p.y_lo, y_rows, y_cols, GAP_Y);
    uint64_t *y_hi = with_gaps(p.y_hi, y_rows, y_cols, GAP_Y);
    uint64_t *z = with_gaps(p.z, p.m, p.n, GAP_Z), *start = with_gaps(p.z, p.m, p.n, GAP_Z);
    p.x_lo = x_lo;
    p.x_hi = x_hi;
    p.y_lo = y_lo;
    p.y_hi = y_hi;
    p.z = z;
    p.ldx += GAP_X;
    p.ldy += GAP_Y;
    p.ldz = ldz;
    for (int accumulate = 1; accumulate >= 0; accumulate--) {
        p.accumulate = accumulate;
        uvcci_gemm_rss(b, &p, scratch);
        for (size_t i = 0; i < p.m; i++)
            for (size_t j = 0; j < ldz; j++) {
                const uint64_t before = start[i * ldz + j];
                const uint64_t right =
                    j < p.n ? want[i * p.n + j] + (accumulate ? before : 0) : before;
                assert_true(z[i * ldz + j] == right);
            }
    }
    uint64_t *all[] = {x_lo, x_hi, y_lo, y_hi, z, start};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* Emulation is slow: only where `emulate`. */
static void check_shape(uint32_t m, uint32_t n, uint32_t k, bool tx, bool ty, bool emulate,
                        uint64_t *rng) {
    matrix xl = new_matrix(m, k, tx, rng), xh = new_matrix(m, k, tx, rng);
    matrix yl = new_matrix(k, n, ty, rng), yh = new_matrix(k, n, ty, rng);
    uint64_t *plain = malloc((size_t)m * n * 8), *rss = malloc((size_t)m * n * 8);
    uint64_t *z = malloc((size_t)m * n * 8), *start = malloc((size_t)m * n * 8);
    uint64_t *scratch = new_scratch(m, n, k);
    for (uint32_t i = 0; i < m; i++)
        for (uint32_t j = 0; j < n; j++) {
            const size_t e = (size_t)i * n + j;
            plain[e] = dot(&xl, &yl, i, j);
            rss[e] = plain[e] + dot(&xl, &yh, i, j) + dot(&xh, &yl, i, j);
            start[e] = test_rand(rng);
        }
    for (int b = UVCCI_GEMM_AUTO; b <= UVCCI_GEMM_AMX; b++) {
        const uvcci_gemm_backend backend = (uvcci_gemm_backend)b;
        memcpy(z, start, (size_t)m * n * 8);
        uvcci_gemm(backend, m, n, k, xl.w, tx, yl.w, ty, z, false, scratch);
        assert_memory_equal(z, plain, (size_t)m * n * 8);
        memcpy(z, start, (size_t)m * n * 8);
        uvcci_gemm(backend, m, n, k, xl.w, tx, yl.w, ty, z, true, scratch);
        for (size_t e = 0; e < (size_t)m * n; e++)
            assert_true(z[e] == start[e] + plain[e]);
        memcpy(z, start, (size_t)m * n * 8);
        uvcci_gemm_replicated p = {m, n, k, tx, ty, false, xl.w, xh.w, yl.w, yh.w, z, 0, 0, n, 0};
        p.ldx = tx ? m : k;
        p.ldy = ty ? k : n;
        uvcci_gemm_rss(backend, &p, scratch);
        assert_memory_equal(z, rss, (size_t)m * n * 8);
        memcpy(z, start, (size_t)m * n * 8);
        p.accumulate = true;
        uvcci_gemm_rss(backend, &p, scratch);
        for (size_t e = 0; e < (size_t)m * n; e++)
            assert_true(z[e] == start[e] + rss[e]);
        if ((m + n + k + (uint32_t)b) % 5 == 0) /* each backend has its share of shapes */
            check_gaps(backend, p, rss, scratch);
    }
    const product q = {xl, xh, yl, yh, plain, rss, start, z};
    check_micros(&q);
    for (unsigned t = 0; t < tile_set_count; t++)
        if (emulate || tile_sets[t].multiply != emulated_multiply)
            check_tiled(&tile_sets[t], &q);
    uint64_t *all[] = {xl.w, xh.w, yl.w, yh.w, plain, rss, z, start, scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void small_shapes(void **state) {
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 7, 8, 9, 23, 24, 25, 33};
    enum { N = sizeof sizes / sizeof *sizes };
    uint64_t rng = 1;
    for (unsigned s = 0; s < N * N * N; s++)
        check_shape(sizes[s % N], sizes[s / N % N], sizes[s / N / N], s & 1, s >> 1 & 1, s % 9 == 0,
                    &rng);
}

/* Around the sizes of the blocks. */
static void block_edges(void **state) {
    (void)state;
    static const uint32_t shapes[][3] = {{191, 5, 255}, {192, 24, 256}, {193, 25, 257},
                                         {5, 767, 3},   {3, 768, 258},  {9, 770, 17},
                                         {385, 30, 30}, {1, 1, 1030},   {1, 1600, 1},
                                         {400, 1, 513}, {64, 10, 128},  {128, 128, 64}};
    uint64_t rng = 2;
    for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (unsigned t = 0; t < 4; t++)
            check_shape(shapes[s][0], shapes[s][1], shapes[s][2], t & 1, t >> 1, false, &rng);
}

/* Around the sizes of tiles and of their blocks. */
static void tile_edges(void **state) {
    (void)state;
    static const uint32_t shapes[][3] = {
        {1, 1, 1},     {1, 40, 70},    {40, 1, 70},    {16, 16, 64}, {17, 65, 129}, {15, 17, 63},
        {127, 3, 65},  {129, 17, 130}, {18, 513, 3},   {2, 530, 70}, {3, 18, 1023}, {2, 2, 1025},
        {20, 5, 2100}, {33, 47, 192},  {130, 257, 66}, {4, 18, 257}};
    uint64_t rng = 3;
    for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (unsigned t = s % 2; t < 4; t += 2)
            check_shape(shapes[s][0], shapes[s][1], shapes[s][2], t & 1, t >> 1, true, &rng);
}

/* One word everywhere: the sums of digits grow as far as they can. */
static void constant_operands(void **state) {
    (void)state;
    static const uint64_t words[] = {0,
                                     UINT64_MAX,
                                     (uint64_t)1 << 63,
                                     INT64_MAX,
                                     0x8080808080808080,
                                     0x7f7f7f7f7f7f7f7f,
                                     0x7f7f7f7f7f7f7f80,
                                     ((uint64_t)1 << 52) - 1};
    enum { N = sizeof words / sizeof *words, M = 3, K = 1100 };
    uint64_t x[M * K], y[K * M], z[M * M], right[M * M];
    product q = {{x, false, M, K},
                 {x, false, M, K},
                 {y, false, K, M},
                 {y, false, K, M},
                 right,
                 right,
                 right,
                 z};
    for (unsigned c = 0; c < N * N; c++) {
        if (c % N < c / N)
            continue;
        for (unsigned i = 0; i < M * K; i++) {
            x[i] = words[c % N];
            y[i] = words[c / N];
        }
        uint64_t rss[M * M];
        for (unsigned i = 0; i < M * M; i++) {
            right[i] = x[0] * y[0] * K;
            rss[i] = 3 * right[i];
        }
        q.rss = rss;
        for (unsigned t = 0; t < tile_set_count; t++)
            check_tiled(&tile_sets[t], &q);
        check_micros(&q);
    }
}

/* A vector on either side, in all layouts, around the widths of registers. */
static void vectors(void **state) {
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 17, 64, 255, 256, 257, 515};
    enum { N = sizeof sizes / sizeof *sizes };
    uint64_t rng = 4;
    for (unsigned s = 0; s < N * N; s++)
        for (unsigned t = 0; t < 4; t++) {
            check_shape(1, sizes[s % N], sizes[s / N], t & 1, t >> 1, false, &rng);
            check_shape(sizes[s % N], 1, sizes[s / N], t & 1, t >> 1, false, &rng);
        }
}

static void pick(void **state) {
    (void)state;
    assert_int_equal(uvcci_gemm_pick(UVCCI_GEMM_AMX, 128, 768, 768), UVCCI_GEMM_AMX);
    assert_int_equal(uvcci_gemm_pick(UVCCI_GEMM_AMX, 4, 1024, 1024), UVCCI_GEMM_AMX);
    assert_int_equal(uvcci_gemm_pick(UVCCI_GEMM_AMX, 3, 1024, 1024), UVCCI_GEMM_AVX512);
    assert_int_equal(uvcci_gemm_pick(UVCCI_GEMM_AMX, 1024, 1024, 15), UVCCI_GEMM_AVX512);
    assert_int_equal(uvcci_gemm_pick(UVCCI_GEMM_AMX, 16, 16, 64), UVCCI_GEMM_AVX512);
    assert_int_equal(uvcci_gemm_pick(UVCCI_GEMM_AMX, UINT32_MAX, UINT32_MAX, UINT32_MAX),
                     UVCCI_GEMM_AMX);
    for (int b = UVCCI_GEMM_PORTABLE; b <= UVCCI_GEMM_AVX512; b++)
        assert_int_equal(uvcci_gemm_pick((uvcci_gemm_backend)b, 128, 768, 768), b);
}

/* Scratch for any backend does for each. */
static void scratch_sizes(void **state) {
    (void)state;
    static const uint32_t sizes[] = {0, 1, 16, 100, 1000, 5000, UINT32_MAX};
    enum { N = sizeof sizes / sizeof *sizes };
    for (unsigned s = 0; s < N * N * N; s++) {
        const uint32_t m = sizes[s % N], n = sizes[s / N % N], k = sizes[s / N / N];
        const size_t any = uvcci_gemm_scratch_words(UVCCI_GEMM_AUTO, m, n, k);
        assert_true(any >= uvcci_gemm_tiled_scratch_words(m, n, k));
        for (int b = UVCCI_GEMM_PORTABLE; b <= UVCCI_GEMM_AMX; b++)
            assert_true(any >= uvcci_gemm_scratch_words((uvcci_gemm_backend)b, m, n, k));
    }
}

static void empty_depth(void **state) {
    (void)state;
    uint64_t z[6] = {1, 2, 3, 4, 5, 6}, one = 1, scratch[1];
    uvcci_gemm(UVCCI_GEMM_AUTO, 2, 3, 0, &one, false, &one, false, z, true, scratch);
    assert_int_equal(z[5], 6);
    uvcci_gemm(UVCCI_GEMM_AUTO, 2, 3, 0, &one, false, &one, false, z, false, scratch);
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(z[i], 0);
}

static const char *why_no_amx(void) {
#if UVCCI_GEMM_HAS_AMX
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 24 & d >> 25 & 1))
        return "the CPU has no AMX-INT8";
    return uvcci_gemm_vbmi_ready() ? "the kernel does not permit tiles"
                                   : "the CPU has no AVX-512 VBMI";
#else
    return "not built: no x86-64 Linux";
#endif
}

static void print_backends(void) {
    static const char *const names[] = {"", "portable", "avx2", "avx512", "amx"};
    const uvcci_gemm_backend best = uvcci_gemm_best();
    printf("tested:");
    for (int b = UVCCI_GEMM_PORTABLE; b <= (int)best; b++)
        printf(" %s", names[b]);
#if UVCCI_GEMM_X86
    printf(uvcci_gemm_ifma_ready() ? " avx512ifma" : "");
#endif
    printf(tile_set_count > 1 ? " emulated-tiles emulated-tiles+vbmi" : " emulated-tiles");
    printf("; skipped:");
    for (int b = (int)best + 1; b <= UVCCI_GEMM_AMX; b++)
        printf(" %s (%s)", names[b], b == UVCCI_GEMM_AMX ? why_no_amx() : "the CPU lacks it");
    printf(best == UVCCI_GEMM_AMX ? " none\n" : "\n");
    fflush(stdout);
}

/* --- By small integers ------------------------------------------------------------------------ */

static void plain_left(const uint64_t *words, uint8_t *out) {
    for (unsigned i = 0; i < 64; i++) {
        uint64_t x = words[i];
        for (unsigned d = 0; d < 8; d++) {
            const int digit = (int)(x & 0xff) - (x & 0x80 ? 256 : 0);
            out[d * UVCCI_TILE_BYTES + i] = (uint8_t)digit;
            x = (x - (uint64_t)(int64_t)digit) >> 8;
        }
    }
}

static void plain_right(const int32_t *y, unsigned digits, uint8_t *out) {
    for (unsigned i = 0; i < 64; i++) {
        int64_t x = y[i];
        for (unsigned d = 0; d < digits; d++) {
            const int digit = (int)(x & 0xff) - (x & 0x80 ? 256 : 0);
            out[d * UVCCI_TILE_BYTES + i % 16 * 4 + i / 16] = (uint8_t)digit;
            x = (x - digit) / 256;
        }
        assert_int_equal(x, 0);
    }
}

/* By words, an element after the other. */
static void plain_words(size_t m, size_t n, size_t k, const uvcci_gemm_term *t, uint64_t *z,
                        size_t ldz, bool accumulate, uint64_t *scratch) {
    (void)scratch;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            uint64_t sum = accumulate ? z[i * ldz + j] : 0;
            for (size_t p = 0; p < k; p++)
                sum += t->x.src[i * t->x.lane + p * t->x.step] *
                       uvcci_gemm_element(&t->y, t->y.bytes, j * t->y.lane + p * t->y.step);
            z[i * ldz + j] = sum;
        }
}

/* On any CPU, and by AMX where it is. */
static uvcci_gemm_narrow_ops narrow_sets[2] = {
    {emulated_begin, emulated_end, plain_join, plain_left, plain_right, emulated_narrow}};

/* Numbers of at most so many bits, the greatest among them; few numbers of more in the last
 * columns, so that a part of the matrix has more digits than the others. */
static int64_t small_number(uint64_t *rng, unsigned bits, bool wide) {
    const int64_t most = ((int64_t)1 << bits) - 1;
    const uint64_t r = test_rand(rng);
    if (wide)
        return r % 5 == 0 ? INT32_MIN + (int64_t)bits : INT32_MAX;
    return r % 7 == 0 ? most : r % 7 == 1 ? -most - (bits < 31) : (int64_t)(r >> 8) % (most + 1);
}

static void narrow_product(uint64_t *rng, unsigned set, uint32_t m, uint32_t n, uint32_t k,
                           unsigned bytes, unsigned bits) {
    const bool tx = test_rand(rng) % 2 == 0, ty = test_rand(rng) % 2 == 0;
    const bool more = test_rand(rng) % 2 == 0, wide = bytes == 4 && test_rand(rng) % 3 == 0;
    const matrix x[2] = {new_matrix(m, k, tx, rng), new_matrix(m, k, tx, rng)};
    const matrix y = new_matrix(k, n, ty, rng);
    const size_t count = 1 + test_rand(rng) % 2, words = (size_t)m * n;
    int16_t *two = malloc((size_t)k * n * sizeof *two);
    int32_t *four = malloc((size_t)k * n * sizeof *four);
    uint64_t *z[2] = {malloc(8 * words), malloc(8 * words)}, *scratch = new_scratch(m, n, k);
    assert_true(two != NULL && four != NULL && z[0] != NULL && z[1] != NULL);
    for (size_t i = 0; i < (size_t)k * n; i++) {
        const size_t column = ty ? i / k : i % n;
        y.w[i] = (uint64_t)small_number(rng, bits, wide && column + 3 > n);
        two[i] = (int16_t)y.w[i];
        four[i] = (int32_t)y.w[i];
    }
    for (size_t i = 0; i < words; i++)
        z[0][i] = z[1][i] = i;
    uvcci_gemm_side xs[2], ys = side_of(&y, NULL, false);
    ys.src =
        bytes == 2 ? (const uint64_t *)(const void *)two : (const uint64_t *)(const void *)four;
    ys.bytes = bytes;
    for (unsigned c = 0; c < 2; c++)
        xs[c] = side_of(&x[c], NULL, true);
    const uvcci_gemm_narrow_product p = {m, n, k, xs, &ys, z, count, n, more, plain_words};
    if (set < 2) {
        uvcci_gemm_narrow(&narrow_sets[set], &p, scratch);
    } else {
        const uvcci_gemm_replicated r = {m,    n,          k,          tx,     ty,
                                         more, x[0].w,     x[1].w,     ys.src, NULL,
                                         z[0], tx ? m : k, ty ? k : n, n,      bytes};
        uvcci_gemm_public((uvcci_gemm_backend)(set - 2), &r, count == 2 ? z[1] : NULL, scratch);
    }
    for (unsigned c = 0; c < 2; c++)
        for (uint32_t e = 0; e < words; e++) {
            const uint64_t was = c < count && !more ? 0 : e;
            const uint64_t want = was + (c < count ? dot(&x[c], &y, e / n, e % n) : 0);
            if (z[c][e] != want)
                fail_msg("set %u: %u x %u x %u, %u bytes, %u bits, z %u, %u", set, m, n, k, bytes,
                         bits, c, e);
        }
    free(x[0].w);
    free(x[1].w);
    free(y.w);
    free(two);
    free(four);
    free(z[0]);
    free(z[1]);
    free(scratch);
}

/* Any shape, about the sizes of tiles and of blocks, on every backend and by emulated tiles. */
static void small_integers(void **state) {
    (void)state;
    static const uint32_t shapes[][3] = {
        {1, 1, 1},     {2, 3, 5},     {16, 16, 64},  {17, 15, 63},   {1, 40, 130}, {33, 1, 20},
        {15, 257, 65}, {129, 17, 70}, {18, 33, 513}, {130, 270, 30}, {5, 16, 1030}};
    static const unsigned kinds[][2] = {{2, 8}, {2, 14}, {2, 15}, {4, 14}, {4, 22}, {4, 31}};
    uint64_t rng = 17;
    unsigned sets = 1;
#if UVCCI_GEMM_HAS_AMX
    if (uvcci_gemm_amx_ready())
        narrow_sets[sets++] = uvcci_gemm_narrow_amx;
#endif
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++)
            for (unsigned set = 0; set < 2 + UVCCI_GEMM_AMX + 1; set++)
                if (set < sets || set >= 2)
                    narrow_product(&rng, set, shapes[i][0], shapes[i][1], shapes[i][2],
                                   kinds[kind][0], kinds[kind][1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_shapes),      cmocka_unit_test(block_edges),
        cmocka_unit_test(tile_edges),        cmocka_unit_test(vectors),
        cmocka_unit_test(constant_operands), cmocka_unit_test(pick),
        cmocka_unit_test(scratch_sizes),     cmocka_unit_test(empty_depth),
        cmocka_unit_test(small_integers),
    };
    add_tile_sets();
    print_backends();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
