/* SPDX-License-Identifier: Apache-2.0 */
/* One-hot keys: the two holders' shares of every range of points add up to the row, for every point
 * of small domains and for ends and random ones of large, one or many keys, any step between them,
 * on every back end; a share alone does not tell its point. */
#include "support.h"

#include "exec/primitives/one_hot.h"

enum { KEYS = 300, COLS = 6000 };

typedef struct fixture {
    uvcci_aes dpf[2];
    uint64_t points[KEYS], root[2][2 * KEYS];
    uint64_t *keys, *share[2], *row;
    unsigned n;
    uint32_t c;
} fixture;

static void *words(size_t n) {
    void *p = calloc(n, sizeof(uint64_t));
    assert_non_null(p);
    return p;
}

static fixture *new_fixture(uvcci_aes_backend backend, uint64_t *rng) {
    fixture *f = words(sizeof *f / sizeof(uint64_t) + 1);
    for (unsigned k = 0; k < 2; k++) {
        uint8_t key[16];
        test_rand_bytes(rng, key, sizeof key);
        uvcci_aes_init(&f->dpf[k], key, backend);
    }
    f->keys = words((size_t)KEYS * uvcci_one_hot_key_words(UVCCI_ONE_HOT_BITS_MAX));
    f->row = words((size_t)KEYS * COLS);
    for (unsigned p = 0; p < 2; p++)
        f->share[p] = words((size_t)KEYS * COLS);
    test_rand_bytes(rng, f->root, sizeof f->root);
    return f;
}

static void free_fixture(fixture *f) {
    free(f->keys);
    free(f->row);
    free(f->share[0]);
    free(f->share[1]);
    free(f);
}

static void gen(fixture *f, unsigned n, uint32_t c) {
    f->n = n;
    f->c = c;
    uvcci_one_hot_gen(f->dpf, n, c, f->points, f->root[0], f->root[1], f->keys);
}

/* Every step-th key, of cols points from `first` on. */
static void expand(fixture *f, uint32_t step, uint64_t first, uint32_t cols) {
    const uint32_t c = (f->c + step - 1) / step;
    assert_true((size_t)c * cols <= (size_t)KEYS * COLS);
    for (unsigned p = 0; p < 2; p++) {
        const uvcci_one_hot_keys k = {.n = f->n,
                                      .c = c,
                                      .step = step,
                                      .party1 = p == 1,
                                      .keys = f->keys,
                                      .roots = f->root[p]};
        uvcci_one_hot_expand(f->dpf, &k, first, cols, f->share[p]);
    }
    uvcci_one_hot_rows(f->n, c, step, f->points, first, cols, f->row);
}

static void check(fixture *f, uint32_t step, uint64_t first, uint32_t cols) {
    const uint64_t mask = (UINT64_C(1) << f->n) - 1;
    expand(f, step, first, cols);
    for (uint32_t i = 0; i * step < f->c; i++)
        for (uint32_t j = 0; j < cols; j++) {
            const size_t at = (size_t)i * cols + j;
            const uint64_t want = (f->points[(size_t)i * step] & mask) == first + j;
            if (f->row[at] != want || f->share[0][at] + f->share[1][at] != want)
                fail_msg("%u bits, key %u of %u, point %llu from %llu on: %llu and %llu", f->n,
                         i * step, f->c, (unsigned long long)(first + j), (unsigned long long)first,
                         (unsigned long long)f->share[0][at], (unsigned long long)f->share[1][at]);
        }
}

/* All points, all ranges. */
static void small(uvcci_aes_backend backend) {
    uint64_t rng = 3;
    fixture *f = new_fixture(backend, &rng);
    for (unsigned n = 1; n <= 5; n++) {
        for (uint32_t i = 0; i < 1u << n; i++)
            f->points[i] = i;
        gen(f, n, 1u << n);
        for (uint32_t first = 0; first < 1u << n; first++)
            for (uint32_t cols = 1; cols <= (1u << n) - first; cols++)
                check(f, 1, first, cols);
    }
    free_fixture(f);
}

/* Ends of the domain, of ranges and of what is expanded at a time; bits above the domain do not
 * count. */
static void large(uvcci_aes_backend backend) {
    static const unsigned bits[] = {7, 12, 13, 15, 17, 32};
    uint64_t rng = 5;
    fixture *f = new_fixture(backend, &rng);
    for (unsigned k = 0; k < sizeof bits / sizeof *bits; k++) {
        const uint64_t end = UINT64_C(1) << bits[k];
        for (uint32_t i = 0; i < KEYS; i++)
            f->points[i] = test_rand(&rng);
        f->points[0] = 0;
        f->points[1] = f->points[2] = end - 1;
        gen(f, bits[k], k % 2 == 0 ? 3 : KEYS);
        const uint32_t cols = end < 5001 ? (uint32_t)end : 5001;
        check(f, 1, 0, cols);
        check(f, 1, end - cols, cols);
        check(f, 2, end / 3, cols < 100 ? 1 : 77);
        check(f, 1, end - 1, 1);
        const uint64_t at = f->points[0] & (end - 1);
        check(f, 5, at > 4 ? at - 4 : 0, 5);
    }
    free_fixture(f);
}

static void test_small(void **state) {
    (void)state;
    small(UVCCI_AES_PORTABLE);
    small(UVCCI_AES_AUTO);
}

static void test_large(void **state) {
    (void)state;
    large(UVCCI_AES_PORTABLE);
    large(UVCCI_AES_AUTO);
}

/* A holder alone: what it has at the point is a word like any other. */
static void test_shares_hide(void **state) {
    (void)state;
    uint64_t rng = 9;
    fixture *f = new_fixture(UVCCI_AES_AUTO, &rng);
    for (uint32_t i = 0; i < KEYS; i++)
        f->points[i] = 21;
    gen(f, 6, KEYS);
    expand(f, 1, 0, 64);
    for (unsigned p = 0; p < 2; p++) {
        unsigned ones[64] = {0}, first_ones = 0;
        for (uint32_t i = 0; i < KEYS; i++)
            for (unsigned j = 0; j < 64; j++) {
                const uint64_t share = f->share[p][(size_t)i * 64 + j];
                assert_true(share > 1 && share + 1 > 1); /* not 0, 1 or -1 */
                ones[j] += share & 1;
                first_ones += j == 21 ? share >> 63 : 0;
            }
        for (unsigned j = 0; j < 64; j++)
            assert_in_range(ones[j], KEYS / 3, 2 * KEYS / 3);
        assert_in_range(first_ones, KEYS / 3, 2 * KEYS / 3);
    }
    free_fixture(f);
}

static void test_sizes(void **state) {
    (void)state;
    assert_int_equal(uvcci_one_hot_key_words(1), 4);
    assert_int_equal(uvcci_one_hot_key_words(2), 4);
    assert_int_equal(uvcci_one_hot_key_words(3), 7);
    assert_int_equal(uvcci_one_hot_key_words(15), 31);
    assert_int_equal(uvcci_one_hot_key_words(32), 65);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_shares_hide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
