/* Products: every backend against the schoolbook loop, odd shapes, transposes, extreme words. */
#include "support.h"

#include "exec/gemm.h"

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
                                     (uint64_t)1 << 62};
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
    const size_t bytes = uvcci_gemm_scratch_words(m, n, k) * 8;
    uint64_t *p = NULL;
    assert_int_equal(posix_memalign((void **)&p, 64, bytes + 64), 0);
    return p;
}

static void check_shape(uint32_t m, uint32_t n, uint32_t k, bool tx, bool ty, uint64_t *rng) {
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
    for (int b = UVCCI_GEMM_AUTO; b <= UVCCI_GEMM_AVX512; b++) {
        const uvcci_gemm_backend backend = (uvcci_gemm_backend)b;
        memcpy(z, start, (size_t)m * n * 8);
        uvcci_gemm(backend, m, n, k, xl.w, tx, yl.w, ty, z, false, scratch);
        assert_memory_equal(z, plain, (size_t)m * n * 8);
        memcpy(z, start, (size_t)m * n * 8);
        uvcci_gemm(backend, m, n, k, xl.w, tx, yl.w, ty, z, true, scratch);
        for (size_t e = 0; e < (size_t)m * n; e++)
            assert_true(z[e] == start[e] + plain[e]);
        memcpy(z, start, (size_t)m * n * 8);
        uvcci_gemm_rss(backend, m, n, k, xl.w, xh.w, tx, yl.w, yh.w, ty, z, scratch);
        assert_memory_equal(z, rss, (size_t)m * n * 8);
    }
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
        check_shape(sizes[s % N], sizes[s / N % N], sizes[s / N / N], s & 1, s >> 1 & 1, &rng);
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
            check_shape(shapes[s][0], shapes[s][1], shapes[s][2], t & 1, t >> 1, &rng);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_shapes),
        cmocka_unit_test(block_edges),
        cmocka_unit_test(empty_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
