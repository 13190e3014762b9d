/* SPDX-License-Identifier: Apache-2.0 */
/* Windows at many scales: both shares against the definition, on small rings everywhere, on large
 * ones at random and around the ends of scales and cells; all back ends, and the same bytes from
 * them. */
#include "support.h"

#include "exec/primitives/multiscale.h"
#include "proto/crypto.h"

enum { MAX = 600, DEPTH_MAX = 41, RUNGS_MAX = 18 };

typedef struct fixture {
    uvcci_aes dpf[2];
    uvcci_multiscale s;
    uint32_t c;
    uint64_t x[MAX], r[MAX], xh[MAX], out[2][MAX];
    uint8_t root[2][MAX * 16];
    uint8_t key[MAX * (16 * DEPTH_MAX + 24 * RUNGS_MAX + 10)];
    int64_t words[RUNGS_MAX * 3 * UVCCI_MULTISCALE_WINDOW];
} fixture;

static fixture *new_fixture(uvcci_aes_backend backend, uvcci_multiscale s, uint64_t *rng) {
    fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    for (unsigned k = 0; k < 2; k++) {
        uint8_t key[16];
        test_rand_bytes(rng, key, sizeof key);
        uvcci_aes_init(&f->dpf[k], key, backend);
    }
    test_rand_bytes(rng, f->root, sizeof f->root);
    test_rand_bytes(rng, f->words, sizeof f->words);
    f->s = s;
    return f;
}

/* The bits of a mask that say where x is: (x + r mod 2^n) >> n less 0. */
static int64_t index_at(uint64_t xh, uint64_t r, unsigned n) {
    return (int64_t)((xh >> n << n) - (r >> n << n)) >> n;
}

static uint64_t low(uint64_t x, unsigned n) {
    x &= ((uint64_t)1 << n) - 1;
    return n >= 12 ? x >> (n - 12) : x << (12 - n);
}

static uint64_t definition(const fixture *f, uint64_t xh, uint64_t r) {
    const uvcci_multiscale *s = &f->s;
    for (unsigned k = s->scales; k-- > 0;) {
        const unsigned n = s->shift + 2 * k, window = 3 * s->cells;
        const int64_t i = index_at(xh, r, n);
        if (i < (int64_t)s->cells)
            continue;
        if (i >= 4 * (int64_t)s->cells) {
            assert_int_equal(k, s->scales - 1); /* beyond the multiscale */
            return 0;
        }
        const int64_t *a = f->words + (size_t)k * 3 * window + (size_t)i - s->cells;
        const uint64_t l = low(xh, n) - low(r, n);
        return (uint64_t)a[0] + l * ((uint64_t)a[window] + l * (uint64_t)a[2 * window]);
    }
    return 0;
}

static void check(fixture *f) {
    for (uint32_t i = 0; i < f->c; i++)
        f->xh[i] = f->x[i] + f->r[i];
    memset(f->key, 0, sizeof f->key);
    uvcci_multiscale_gen(f->dpf, &f->s, f->c, f->r, f->root[0], f->root[1], f->key);
    for (unsigned p = 0; p < 2; p++)
        uvcci_multiscale_eval(f->dpf, &f->s, f->c, f->xh, f->root[p], p == 1, f->key, f->words,
                              f->out[p]);
    for (uint32_t i = 0; i < f->c; i++)
        if (f->out[0][i] + f->out[1][i] != definition(f, f->xh[i], f->r[i]))
            fail_msg("depth %u, scales %u, shift %u, cells %u: x %llx, r %llx", f->s.depth,
                     f->s.scales, f->s.shift, f->s.cells, (unsigned long long)f->x[i],
                     (unsigned long long)f->r[i]);
}

/* Every value that the ring has room for, negative ones too, under masks of all kinds. */
static void small_multiscale(void **state) {
    (void)state;
    static const uvcci_multiscale shapes[] = {
        {5, 1, 0, 2}, {7, 2, 0, 2}, {9, 3, 1, 3}, {10, 3, 2, 5}, {11, 2, 0, 12}, {13, 4, 3, 16},
    };
    uint64_t rng = 1;
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        const uvcci_multiscale s = shapes[k];
        const int64_t end = ((int64_t)4 * s.cells - 1) << (s.shift + 2 * (s.scales - 1));
        fixture *f = new_fixture(UVCCI_AES_AUTO, s, &rng);
        for (int64_t x = -((int64_t)1 << (s.depth + s.shift - 1)) + end; x < end; x += MAX) {
            for (f->c = 0; f->c < MAX && x + f->c < end; f->c++) {
                f->x[f->c] = (uint64_t)(x + f->c);
                f->r[f->c] = test_rand(&rng);
            }
            check(f);
        }
        free(f);
    }
}

/* Around the ends of scales and of cells, with masks whose low bits are at an end too. */
static void large_multiscale(void **state) {
    (void)state;
    static const uvcci_multiscale shapes[] = {
        {23, 9, 8, 15}, {25, 9, 29, 16}, {41, 18, 5, 11}, {30, 7, 10, 9}, {12, 1, 20, 7}};
    uint64_t rng = 2;
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        const uvcci_multiscale s = shapes[k];
        const uint64_t most = ((uint64_t)(4 * s.cells - 1) << (s.shift + 2 * (s.scales - 1))) - 1;
        for (unsigned backend = UVCCI_AES_PORTABLE; backend <= UVCCI_AES_VAES; backend++) {
            fixture *f = new_fixture((uvcci_aes_backend)backend, s, &rng);
            for (f->c = 0; f->c < MAX; f->c++) {
                const unsigned n = s.shift + 2 * (unsigned)(test_rand(&rng) % s.scales);
                uint64_t x = (s.cells + test_rand(&rng) % (3 * s.cells)) << n;
                if (f->c % 3 == 0)
                    x += test_rand(&rng) % 3 - 1;
                else if (f->c % 3 == 1)
                    x += test_rand(&rng) >> (64 - n);
                f->x[f->c] = f->c % 7 == 6 ? 0 - x / 2 : x < most ? x : most;
                f->r[f->c] = test_rand(&rng);
                if (f->c % 5 < 2) {
                    const uint64_t ones = ((uint64_t)1 << n) - 1;
                    f->r[f->c] = f->c % 5 == 0 ? f->r[f->c] & ~ones : f->r[f->c] | ones;
                }
            }
            check(f);
            free(f);
        }
    }
}

/* All back ends write the same key and shares; a key has its bytes; blocks do not depend on counts.
 */
static void same_bytes(void **state) {
    (void)state;
    const uvcci_multiscale s = {23, 9, 8, 15};
    fixture *want = NULL;
    for (unsigned backend = UVCCI_AES_PORTABLE; backend <= UVCCI_AES_VAES; backend++) {
        uint64_t rng = 3;
        fixture *f = new_fixture((uvcci_aes_backend)backend, s, &rng);
        f->c = 277;
        for (uint32_t i = 0; i < f->c; i++) {
            f->x[i] = (uint64_t)15 << (8 + i % 17);
            f->r[i] = test_rand(&rng);
        }
        const size_t bytes = uvcci_multiscale_bytes(s.depth, s.scales, f->c);
        assert_int_equal(bytes, 277 * (23 * 16 + 9 * 24 + 6));
        f->key[bytes] = 0;
        check(f);
        assert_int_equal(f->key[bytes], 0);
        if (want == NULL) {
            want = f;
            continue;
        }
        assert_memory_equal(f->key, want->key, bytes);
        for (unsigned p = 0; p < 2; p++)
            assert_memory_equal(f->out[p], want->out[p], f->c * sizeof f->out[p][0]);
        free(f);
    }
    free(want);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_multiscale),
        cmocka_unit_test(large_multiscale),
        cmocka_unit_test(same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
