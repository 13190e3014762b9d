/* SPDX-License-Identifier: Apache-2.0 */
/* The DCF: every point and input on small domains with payloads of every width, large ones at
 * random and around alpha; keys of a part of a block; back ends; the size of keys. */
#include "support.h"

#include "exec/primitives/dcf.h"

enum { MAX = 600, WORDS = UVCCI_DCF_WORDS_MAX };

typedef struct fixture {
    uvcci_aes dpf[2];
    unsigned n, w;
    uint32_t c;
    uint64_t alpha[MAX], x[MAX], beta[MAX * WORDS], out[2][MAX * WORDS];
    uint8_t root[2][MAX * 16], *key;
} fixture;

static fixture *new_fixture(uvcci_aes_backend backend, unsigned n, unsigned w, uint32_t c,
                            uint64_t *rng) {
    fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    for (unsigned k = 0; k < 2; k++) {
        uint8_t key[16];
        test_rand_bytes(rng, key, sizeof key);
        uvcci_aes_init(&f->dpf[k], key, backend);
    }
    assert_true(c <= MAX);
    f->n = n;
    f->w = w;
    f->c = c;
    f->key = malloc(uvcci_dcf_bytes(n, w, c));
    assert_non_null(f->key);
    test_rand_bytes(rng, f->root, sizeof f->root);
    test_rand_bytes(rng, f->beta, sizeof f->beta);
    return f;
}

static void free_fixture(fixture *f) {
    free(f->key);
    free(f);
}

static void gen(fixture *f) {
    memset(f->key, 0xEE, uvcci_dcf_bytes(f->n, f->w, f->c));
    uvcci_dcf_gen(f->dpf, f->n, f->w, f->c, f->alpha, f->beta, f->root[0], f->root[1], f->key);
}

static uvcci_dcf_keys keys_of(const fixture *f, unsigned p) {
    return (uvcci_dcf_keys){f->n, f->w, f->c, p == 1, f->root[p], f->key};
}

/* The keys [at, at + m). */
static void check_part(fixture *f, uint32_t at, uint32_t m) {
    for (unsigned p = 0; p < 2; p++) {
        const uvcci_dcf_keys k = keys_of(f, p);
        memset(f->out[p], 0xEE, sizeof f->out[p]);
        uvcci_dcf_eval(f->dpf, &k, at, m, f->x + at, f->out[p]);
    }
    for (uint32_t i = 0; i < m; i++)
        for (unsigned j = 0; j < f->w; j++) {
            const uint64_t want =
                f->x[at + i] < f->alpha[at + i] ? f->beta[(at + i) * f->w + j] : 0;
            assert_true(f->out[0][i * f->w + j] + f->out[1][i * f->w + j] == want);
        }
}

static void every_comparison(void **state) {
    (void)state;
    uint64_t rng = 8;
    for (unsigned n = 1; n <= 8; n++)
        for (unsigned w = 1; w <= WORDS; w++) {
            const uint32_t size = 1u << n;
            fixture *f = new_fixture(UVCCI_AES_AUTO, n, w, size, &rng);
            for (uint32_t i = 0; i < size; i++)
                f->alpha[i] = i;
            gen(f);
            for (uint32_t shift = 0; shift < size; shift += n < 7 ? 1 : 5) {
                for (uint32_t i = 0; i < size; i++)
                    f->x[i] = (i + shift) % size;
                check_part(f, 0, size);
            }
            free_fixture(f);
        }
}

/* Ends of the domain, neighbours of alpha, anything. */
static void fill(fixture *f, uint64_t *rng) {
    const uint64_t top = f->n == 64 ? ~(uint64_t)0 : ((uint64_t)1 << f->n) - 1;
    for (uint32_t i = 0; i < f->c; i++) {
        f->alpha[i] = i % 16 == 3 ? 0 : i % 16 == 5 ? top : test_rand(rng) & top;
        const uint64_t near = f->alpha[i] + test_rand(rng) % 5 - 2;
        f->x[i] = i % 4 == 0 ? f->alpha[i] : (i % 4 == 1 ? near : test_rand(rng)) & top;
    }
}

static void large_comparisons(void **state) {
    (void)state;
    uint64_t rng = 9;
    for (unsigned n = 9; n <= 64; n += 5)
        for (unsigned w = 1; w <= WORDS; w++) {
            const uint32_t c = n % 3 == 0 ? 1 : 150 + 3 * n;
            fixture *f = new_fixture(UVCCI_AES_AUTO, n, w, c, &rng);
            fill(f, &rng);
            gen(f);
            check_part(f, 0, c);
            /* the same key and the same shares without the CPU's AES */
            fixture *g = malloc(sizeof *g);
            assert_non_null(g);
            memcpy(g, f, sizeof *g);
            g->key = malloc(uvcci_dcf_bytes(n, w, c));
            assert_non_null(g->key);
            for (unsigned k = 0; k < 2; k++)
                g->dpf[k].backend = UVCCI_AES_PORTABLE;
            gen(g);
            assert_memory_equal(g->key, f->key, uvcci_dcf_bytes(n, w, c));
            check_part(g, 0, c);
            assert_memory_equal(g->out, f->out, 8 * w * c);
            free_fixture(f);
            free_fixture(g);
        }
}

/* Any number of bits, words, keys and points, memory of exactly that size: the same on every back
 * end. */
static void backends_agree(void **state) {
    (void)state;
    uint64_t rng = 12;
    for (unsigned round = 0; round < 400; round++) {
        const unsigned n = 1 + (unsigned)(test_rand(&rng) % 64), w = 1 + round % WORDS;
        const uint32_t c = 1 + (uint32_t)(test_rand(&rng) % (round % 16 == 0 ? 300 : 40));
        const uint32_t at = (uint32_t)(test_rand(&rng) % c);
        const uint32_t m = 1 + (uint32_t)(test_rand(&rng) % (c - at));
        const size_t key_bytes = uvcci_dcf_bytes(n, w, c), out_bytes = (size_t)m * w * 8;
        const size_t gap = round % 3 == 0 ? 1 + 2 * (round % 8) : 0; /* odd addresses */
        fixture *f = new_fixture(round % 5 == 4 ? UVCCI_AES_NI : UVCCI_AES_VAES, n, w, c, &rng);
        fill(f, &rng);
        const test_edge alpha = test_edge_copy(f->alpha, c * 8, 0);
        const test_edge beta = test_edge_copy(f->beta, (size_t)c * w * 8, 0);
        const test_edge x = test_edge_copy(f->x + at, m * 8, 0);
        const test_edge root[2] = {test_edge_copy(f->root[0], c * 16, gap),
                                   test_edge_copy(f->root[1], c * 16, gap)};
        test_edge key[2], out[2][2]; /* [portable] */
        for (unsigned b = 0; b < 2; b++) {
            for (unsigned k = 0; b == 1 && k < 2; k++)
                f->dpf[k].backend = UVCCI_AES_PORTABLE;
            key[b] = test_edge_copy(f->key, key_bytes, gap);
            uvcci_dcf_gen(f->dpf, n, w, c, alpha.at, beta.at, root[0].at, root[1].at, key[b].at);
            for (unsigned p = 0; p < 2; p++) {
                const uvcci_dcf_keys k = {n, w, c, p == 1, root[p].at, key[b].at};
                out[b][p] = test_edge_copy(f->out[p], out_bytes, 0);
                uvcci_dcf_eval(f->dpf, &k, at, m, x.at, out[b][p].at);
            }
        }
        assert_memory_equal(key[0].at, key[1].at, key_bytes);
        for (unsigned p = 0; p < 2; p++) {
            assert_memory_equal(out[0][p].at, out[1][p].at, out_bytes);
            test_edge_free(&root[p]);
            test_edge_free(&key[p]);
            test_edge_free(&out[0][p]);
            test_edge_free(&out[1][p]);
        }
        test_edge_free(&alpha);
        test_edge_free(&beta);
        test_edge_free(&x);
        free_fixture(f);
    }
}

/* Any part of the keys gives what all of them give. */
static void parts(void **state) {
    (void)state;
    uint64_t rng = 10;
    static const uint32_t part[][2] = {{0, 1},    {1, 1},   {255, 2}, {256, 256},
                                       {37, 500}, {599, 1}, {600, 0}, {0, 600}};
    fixture *f = new_fixture(UVCCI_AES_AUTO, 33, 3, MAX, &rng);
    fill(f, &rng);
    gen(f);
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        check_part(f, part[i][0], part[i][1]);
    free_fixture(f);
}

/* One key at many points; each alone looks like any other. */
static void many_points(void **state) {
    (void)state;
    uint64_t rng = 11;
    enum { N = 20 };
    fixture *f = new_fixture(UVCCI_AES_AUTO, N, WORDS, 64, &rng);
    fill(f, &rng);
    gen(f);
    for (unsigned k = 0; k < 50; k++) {
        for (uint32_t i = 0; i < f->c; i++)
            f->x[i] = (f->alpha[i] + k - 25) & ((1u << N) - 1);
        check_part(f, 0, f->c);
    }
    free_fixture(f);
}

/* 24 n + ceil(2n / 8) + 8 for one word, and 8 (n + 1) for each more. */
static void sizes(void **state) {
    (void)state;
    for (unsigned n = 1; n <= 64; n++)
        for (unsigned w = 1; w <= WORDS; w++)
            assert_int_equal(uvcci_dcf_bytes(n, w, 7),
                             7 * (24 * n + (2 * n + 7) / 8 + 8 + (w - 1) * 8 * (n + 1)));
    assert_int_equal(uvcci_dcf_bytes(16, 1, 1) + 16, 412); /* with the root */
    assert_int_equal(uvcci_dcf_bytes(64, 1, 1) + 16, 1576);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_comparison), cmocka_unit_test(large_comparisons),
        cmocka_unit_test(backends_agree),   cmocka_unit_test(parts),
        cmocka_unit_test(many_points),      cmocka_unit_test(sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
