/* SPDX-License-Identifier: Apache-2.0 */
/* The DPF: every point and input on small domains, random ones on large, key sizes, back ends. */
#include "support.h"

#include "exec/primitives/dpf.h"

enum { MAX = 4096, WINDOW_WORDS = 1 << 15 };

typedef struct fixture {
    uvcci_aes dpf[2];
    uint64_t alpha[MAX], x[MAX];
    uint8_t root[2][MAX * 16];
    uint8_t levels[57 * MAX * 16], terminals[MAX * 16], bits[15 * MAX];
    uint8_t share[2][MAX], sign[MAX];
    uint64_t *window[2];
} fixture;

static fixture *new_fixture(uvcci_aes_backend backend, uint64_t *rng) {
    fixture *f = malloc(sizeof *f + 64);
    assert_non_null(f);
    for (unsigned k = 0; k < 2; k++) {
        uint8_t key[16];
        test_rand_bytes(rng, key, sizeof key);
        uvcci_aes_init(&f->dpf[k], key, backend);
    }
    test_rand_bytes(rng, f->root, sizeof f->root);
    for (unsigned p = 0; p < 2; p++) {
        f->window[p] = malloc(WINDOW_WORDS * 8);
        assert_non_null(f->window[p]);
    }
    return f;
}

static void free_fixture(fixture *f) {
    for (unsigned p = 0; p < 2; p++)
        free(f->window[p]);
    free(f);
}

static void gen(fixture *f, unsigned n, uint32_t c) {
    uvcci_dpf_gen(f->dpf, n, c, f->alpha, f->root[0], f->root[1], f->levels, f->terminals, f->bits,
                  f->sign);
}

/* Evaluates x of all points and checks both kinds of result. */
static void check(fixture *f, unsigned n, uint32_t c) {
    for (unsigned p = 0; p < 2; p++)
        uvcci_dpf_prefix(f->dpf, n, c, f->x, f->root[p], p == 1, f->levels, f->terminals, f->bits,
                         f->share[p]);
    for (uint32_t i = 0; i < c; i++) {
        assert_true(f->share[0][i] <= 1 && f->share[1][i] <= 1);
        assert_int_equal(f->share[0][i] ^ f->share[1][i], f->alpha[i] <= f->x[i]);
    }
    for (unsigned p = 0; p < 2; p++)
        uvcci_dpf_point(f->dpf, n, c, f->x, f->root[p], p == 1, f->levels, f->terminals, f->bits,
                        f->share[p]);
    for (uint32_t i = 0; i < c; i++) {
        assert_true(f->share[0][i] <= 1 && f->share[1][i] <= 1);
        assert_int_equal(f->share[0][i] ^ f->share[1][i], f->alpha[i] == f->x[i]);
        if (f->alpha[i] == f->x[i])
            assert_int_equal(f->share[0][i], f->sign[i]);
    }
}

static uvcci_dpf_keys keys_of(const fixture *f, unsigned n, uint32_t c, unsigned p) {
    return (uvcci_dpf_keys){n, c, p == 1, f->root[p], f->levels, f->terminals, f->bits};
}

static unsigned bit_of(const uint64_t *w, uint64_t i) {
    return w[i / 64] >> i % 64 & 1;
}

/* Windows of the keys [at, at + m) from f->x. */
static void check_window(fixture *f, unsigned n, uint32_t c, uint32_t at, uint32_t m,
                         uint32_t len) {
    const uint64_t top = n == 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
    const uint32_t words = uvcci_dpf_window_words(len);
    assert_true(m * words <= WINDOW_WORDS);
    for (unsigned p = 0; p < 2; p++) {
        const uvcci_dpf_keys k = keys_of(f, n, c, p);
        memset(f->window[p], 0xEE, (size_t)m * words * 8);
        uvcci_dpf_window(f->dpf, &k, at, m, f->x + at, len, f->window[p]);
    }
    for (uint32_t i = 0; i < m; i++) {
        const uint64_t *a = f->window[0] + (size_t)i * words;
        const uint64_t *b = f->window[1] + (size_t)i * words;
        const uint64_t hit = (f->alpha[at + i] - f->x[at + i]) & top;
        for (uint32_t j = 0; j < words; j++)
            assert_true((a[j] ^ b[j]) ==
                        (hit / 64 == j && hit < len ? (uint64_t)1 << hit % 64 : 0));
        if (len % 64 != 0)
            assert_true((a[words - 1] | b[words - 1]) >> len % 64 == 0);
        if (hit < len)
            assert_int_equal(bit_of(a, hit), f->sign[at + i]);
    }
}

static void every_point_and_input(void **state) {
    (void)state;
    uint64_t rng = 1;
    fixture *f = new_fixture(UVCCI_AES_AUTO, &rng);
    for (unsigned n = 1; n <= 10; n++) {
        const uint32_t size = 1u << n;
        for (uint32_t i = 0; i < size; i++)
            f->alpha[i] = i;
        gen(f, n, size);
        for (uint32_t d = 0; d < size; d++) { /* every alpha meets every x */
            for (uint32_t i = 0; i < size; i++)
                f->x[i] = (i + d) % size;
            check(f, n, size);
        }
    }
    free_fixture(f);
}

static void large_domains(void **state) {
    (void)state;
    static const uint32_t counts[] = {1, 2, 7, 8, 63, 64, 65, 255, 256, 257, 1000, 4096};
    uint64_t rng = 2;
    fixture *f = new_fixture(UVCCI_AES_AUTO, &rng);
    for (unsigned n = 11; n <= 64; n++) {
        const uint32_t c = counts[n % (sizeof counts / sizeof *counts)];
        const uint64_t top = n == 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
        for (uint32_t i = 0; i < c; i++) {
            f->alpha[i] = i % 16 == 3 ? 0 : i % 16 == 5 ? top : test_rand(&rng) & top;
            const uint64_t near = f->alpha[i] + test_rand(&rng) % 5 - 2;
            f->x[i] = i % 4 == 0 ? f->alpha[i] : (i % 4 == 1 ? near : test_rand(&rng)) & top;
            if (i % 32 == 7) /* shares all but the last bits */
                f->x[i] = f->alpha[i] ^ (uint64_t)1 << test_rand(&rng) % n;
        }
        gen(f, n, c);
        check(f, n, c);
    }
    free_fixture(f);
}

/* A batch is nothing but its elements side by side. */
static void batch_equals_single(void **state) {
    (void)state;
    enum { C = 300, N = 38, L = N - 7, TB = 8 };
    uint64_t rng = 3;
    fixture *f = new_fixture(UVCCI_AES_AUTO, &rng), *g = new_fixture(UVCCI_AES_AUTO, &rng);
    for (uint32_t i = 0; i < C; i++)
        f->alpha[i] = test_rand(&rng) >> (64 - N);
    gen(f, N, C);
    memcpy(g->dpf, f->dpf, sizeof f->dpf);
    for (uint32_t i = 0; i < C; i++) {
        g->alpha[0] = f->alpha[i];
        for (unsigned p = 0; p < 2; p++)
            memcpy(g->root[p], f->root[p] + 16 * i, 16);
        gen(g, N, 1);
        for (unsigned l = 0; l < L; l++)
            assert_memory_equal(g->levels + 16 * l, f->levels + 16 * (l * C + i), 16);
        assert_memory_equal(g->terminals, f->terminals + 16 * i, 16);
        assert_memory_equal(g->bits, f->bits + TB * i, TB);
    }
    free_fixture(f);
    free_fixture(g);
}

/* Every alpha, every start, all lengths that matter. */
static void every_window(void **state) {
    (void)state;
    uint64_t rng = 5;
    fixture *f = new_fixture(UVCCI_AES_AUTO, &rng);
    for (unsigned n = 1; n <= 9; n++) {
        const uint32_t size = 1u << n;
        for (uint32_t i = 0; i < size; i++)
            f->alpha[i] = i;
        gen(f, n, size);
        for (uint32_t d = 0; d < size; d++) {
            for (uint32_t i = 0; i < size; i++)
                f->x[i] = (i + d) % size;
            const uint32_t some = 1 + (uint32_t)(test_rand(&rng) % size);
            check_window(f, n, size, 0, size, size);
            check_window(f, n, size, d, size - d, some);
            if (d % 8 == 0)
                check_window(f, n, size, 0, size, d / 8 + 1);
        }
    }
    free_fixture(f);
}

static void large_windows(void **state) {
    (void)state;
    static const uint32_t lens[] = {1, 63, 64, 65, 127, 128, 129, 1000, 2048, 4097, 65535, 65536};
    enum { C = 70 };
    uint64_t rng = 6;
    fixture *f = new_fixture(UVCCI_AES_AUTO, &rng);
    for (unsigned n = 10; n <= 64; n += n < 20 || n > 60 ? 1 : 7) {
        const uint64_t top = n == 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
        for (unsigned l = 0; l < sizeof lens / sizeof *lens; l++) {
            const uint32_t len = lens[l], m = len > 10000 ? 9 : C - 3;
            if (n < 16 && len > 1u << n)
                continue;
            for (uint32_t i = 0; i < C; i++) {
                f->alpha[i] = i % 16 == 3 ? 0 : i % 16 == 5 ? top : test_rand(&rng) & top;
                f->x[i] = f->alpha[i] - test_rand(&rng) % len; /* not reduced */
                if (i % 4 == 0)
                    f->x[i] = f->alpha[i] - len + i % 3;
                else if (i % 4 == 1)
                    f->x[i] = test_rand(&rng);
            }
            gen(f, n, C);
            check_window(f, n, C, 3, m, len);
        }
    }
    free_fixture(f);
}

/* All terminals are what the evaluations to single points give. */
static void full_domains(void **state) {
    (void)state;
    enum { C = 3 };
    uint64_t rng = 7;
    fixture *f = new_fixture(UVCCI_AES_AUTO, &rng);
    uint64_t *out = malloc(sizeof *out * C << 14);
    assert_non_null(out);
    for (unsigned n = 1; n <= 20; n += n < 16 ? 1 : 4) {
        const uint64_t size = (uint64_t)1 << n;
        for (uint32_t i = 0; i < C; i++)
            f->alpha[i] = test_rand(&rng) % size;
        gen(f, n, C);
        for (unsigned p = 0; p < 2; p++) {
            const uvcci_dpf_keys k = keys_of(f, n, C, p);
            uvcci_dpf_full(f->dpf, &k, out);
            for (uint64_t t = 0; t < 200; t++) {
                for (uint32_t i = 0; i < C; i++)
                    f->x[i] = t == 0 ? f->alpha[i] : test_rand(&rng) % size;
                uvcci_dpf_point(f->dpf, n, C, f->x, f->root[p], p == 1, f->levels, f->terminals,
                                f->bits, f->share[p]);
                for (uint32_t i = 0; i < C; i++)
                    assert_int_equal(bit_of(out + i * ((size + 63) / 64), f->x[i]), f->share[p][i]);
            }
        }
    }
    free(out);
    free_fixture(f);
}

static void backends_agree(void **state) {
    (void)state;
    enum { C = 77, N = 20 };
    uint64_t rng = 4;
    fixture *f = new_fixture(UVCCI_AES_AUTO, &rng);
    rng = 4;
    fixture *g = new_fixture(UVCCI_AES_PORTABLE, &rng);
    for (uint32_t i = 0; i < C; i++) {
        f->alpha[i] = g->alpha[i] = test_rand(&rng) >> (64 - N);
        f->x[i] = g->x[i] = test_rand(&rng) >> (64 - N);
    }
    gen(f, N, C);
    gen(g, N, C);
    assert_memory_equal(f->levels, g->levels, (N - 7) * C * 16);
    assert_memory_equal(f->terminals, g->terminals, C * 16);
    assert_memory_equal(f->bits, g->bits, C * 4);
    check(f, N, C);
    check(g, N, C);
    check_window(f, N, C, 0, C, 1000);
    check_window(g, N, C, 0, C, 1000);
    assert_memory_equal(f->window[1], g->window[1], C * 16 * 8);
    assert_memory_equal(f->sign, g->sign, C);
    free_fixture(f);
    free_fixture(g);
}

static uint8_t *copy_of(const uint8_t *bytes, size_t n) {
    uint8_t *copy = malloc(n + (n == 0));
    assert_non_null(copy);
    return memcpy(copy, bytes, n);
}

/* Every backend makes the same keys and shares, whatever is left over of a group. */
static void backends_agree_on_all_sizes(void **state) {
    (void)state;
    static const uint32_t counts[] = {1, 3, 15, 31, 32, 33, 63, 65, 255, 257};
    uint64_t rng = 10;
    fixture *f = new_fixture(UVCCI_AES_AUTO, &rng);
    fixture *g = new_fixture(UVCCI_AES_PORTABLE, &rng);
    memcpy(g->root, f->root, sizeof f->root);
    for (unsigned n = 1; n <= 64; n++)
        for (unsigned backend = UVCCI_AES_NI; backend <= UVCCI_AES_VAES; backend++) {
            const unsigned depth = uvcci_dpf_levels(n), tb = (2 * depth + 7) / 8;
            const uint32_t c = counts[(n + backend * 7) % (sizeof counts / sizeof *counts)];
            const uint64_t top = ~(uint64_t)0 >> (64 - n);
            for (unsigned k = 0; k < 2; k++) {
                uint8_t key[16];
                test_rand_bytes(&rng, key, sizeof key);
                uvcci_aes_init(&f->dpf[k], key, (uvcci_aes_backend)backend);
                uvcci_aes_init(&g->dpf[k], key, UVCCI_AES_PORTABLE);
            }
            for (uint32_t i = 0; i < c; i++) {
                g->alpha[i] = f->alpha[i] = test_rand(&rng) & top;
                f->x[i] = (i % 3 == 0 ? f->alpha[i] + i % 5 - 2 : test_rand(&rng)) & top;
                g->x[i] = f->x[i];
            }
            memset(f->levels + 16 * depth * c, 0xEE, 64);
            memset(f->terminals + 16 * c, 0xEE, 64);
            memset(f->bits + tb * c, 0xEE, 64);
            gen(f, n, c);
            for (unsigned i = 0; i < 64; i++) {
                assert_int_equal(f->levels[16 * depth * c + i], 0xEE);
                assert_int_equal(f->terminals[16 * c + i], 0xEE);
                assert_int_equal(f->bits[tb * c + i], 0xEE);
            }
            gen(g, n, c);
            assert_memory_equal(f->levels, g->levels, 16 * depth * c);
            assert_memory_equal(f->terminals, g->terminals, 16 * c);
            assert_memory_equal(f->bits, g->bits, tb * c);
            assert_memory_equal(f->sign, g->sign, c);
            check(f, n, c);
            /* Of their very sizes, for what is read beyond an end. */
            uint8_t *levels = copy_of(f->levels, 16 * depth * c);
            uint8_t *terminals = copy_of(f->terminals, 16 * c), *bits = copy_of(f->bits, tb * c);
            for (unsigned p = 0; p < 2; p++) {
                uvcci_dpf_prefix(f->dpf, n, c, f->x, f->root[p], p == 1, levels, terminals, bits,
                                 f->share[p]);
                uvcci_dpf_prefix(g->dpf, n, c, f->x, f->root[p], p == 1, levels, terminals, bits,
                                 g->share[p]);
                assert_memory_equal(f->share[p], g->share[p], c);
            }
            free(levels);
            free(terminals);
            free(bits);
        }
    free_fixture(f);
    free_fixture(g);
}

/* Any number of bits, keys, points and terminals, memory of exactly that size: the same on every
 * back end. */
static void backends_agree_on_anything(void **state) {
    (void)state;
    enum { LESS = 64 };
    uint64_t rng = 12;
    fixture *f = new_fixture(UVCCI_AES_AUTO, &rng);
    for (unsigned round = 0; round < 300; round++) {
        const unsigned n = 1 + (unsigned)(test_rand(&rng) % 64), depth = uvcci_dpf_levels(n);
        const uint32_t c = 1 + (uint32_t)(test_rand(&rng) % (round % 16 == 0 ? 300 : 70));
        const uint32_t at = (uint32_t)(test_rand(&rng) % c);
        const uint32_t m = 1 + (uint32_t)(test_rand(&rng) % (c - at));
        const uint32_t most = n < 14 ? 1u << n : round % 8 == 0 ? 9000 : 1500;
        const uint32_t len = 1 + (uint32_t)(test_rand(&rng) % most);
        const unsigned count = 1 + (unsigned)(test_rand(&rng) % (round % 16 == 0 ? LESS : 5));
        const size_t gap = round % 3 == 0 ? 1 + 2 * (round % 8) : 0; /* odd addresses */
        const size_t window_bytes = (size_t)m * uvcci_dpf_window_words(len) * 8;
        const size_t size[4] = {(size_t)depth * c * 16, (size_t)c * 16,
                                (size_t)(2 * depth + 7) / 8 * c, c};
        assert_true(window_bytes <= WINDOW_WORDS * 8);
        uvcci_aes dpf[2][2]; /* [1]: portable */
        for (unsigned k = 0; k < 2; k++) {
            uint8_t key[16];
            test_rand_bytes(&rng, key, sizeof key);
            uvcci_aes_init(&dpf[0][k], key, round % 4 == 0 ? UVCCI_AES_NI : UVCCI_AES_VAES);
            uvcci_aes_init(&dpf[1][k], key, UVCCI_AES_PORTABLE);
        }
        uint64_t less[LESS];
        for (unsigned j = 0; j < LESS; j++)
            less[j] = test_rand(&rng) >> test_rand(&rng) % 64;
        for (uint32_t i = 0; i < c; i++) {
            f->alpha[i] = test_rand(&rng) >> (64 - n);
            f->x[i] = i % 3 == 0 ? test_rand(&rng) : f->alpha[i] - test_rand(&rng) % len;
        }
        const test_edge alpha = test_edge_copy(f->alpha, c * 8, 0);
        const test_edge x = test_edge_copy(f->x, c * 8, 0);
        const test_edge part = test_edge_copy(f->x + at, m * 8, 0);
        const test_edge root[2] = {test_edge_copy(f->root[0], size[1], gap),
                                   test_edge_copy(f->root[1], size[1], gap)};
        test_edge key[2][4]; /* levels, terminals, control bits, signs */
        for (unsigned b = 0; b < 2; b++) {
            for (unsigned j = 0; j < 4; j++)
                key[b][j] = test_edge_copy(f->levels, size[j], gap);
            uvcci_dpf_gen(dpf[b], n, c, alpha.at, root[0].at, root[1].at, key[b][0].at,
                          key[b][1].at, key[b][2].at, key[b][3].at);
        }
        for (unsigned j = 0; j < 4; j++)
            assert_memory_equal(key[0][j].at, key[1][j].at, size[j]);
        for (unsigned p = 0; p < 2; p++) {
            const uvcci_dpf_keys k = {
                n, c, p == 1, root[p].at, key[0][0].at, key[0][1].at, key[0][2].at};
            const size_t out_size[3] = {window_bytes, c * 8, c};
            test_edge out[2][3];
            for (unsigned b = 0; b < 2; b++) {
                for (unsigned j = 0; j < 3; j++)
                    out[b][j] = test_edge_copy(f->levels, out_size[j], 0);
                uvcci_dpf_window(dpf[b], &k, at, m, part.at, len, out[b][0].at);
                uvcci_dpf_prefixes(dpf[b], &k, x.at, less, count, out[b][1].at);
                uvcci_dpf_prefix(dpf[b], n, c, alpha.at, k.root, k.party1, k.levels, k.terminals,
                                 k.bits, out[b][2].at);
            }
            for (unsigned j = 0; j < 3; j++) {
                assert_memory_equal(out[0][j].at, out[1][j].at, out_size[j]);
                test_edge_free(&out[0][j]);
                test_edge_free(&out[1][j]);
            }
            test_edge_free(&root[p]);
        }
        for (unsigned j = 0; j < 8; j++)
            test_edge_free(&key[j / 4][j % 4]);
        test_edge_free(&alpha);
        test_edge_free(&x);
        test_edge_free(&part);
    }
    free_fixture(f);
}

/* Bits of points choose what a eval reads; where there is no point, what memory held must not. */
static void nothing_left_over_chooses(void **state) {
    (void)state;
#if UVCCI_FSS_X86
    enum { N = 30, C = 3 };
    uint64_t rng = 13;
    fixture *f = new_fixture(UVCCI_AES_AUTO, &rng);
    if (uvcci_fss_is_wide(f->dpf)) {
        uvcci_dpf_eval_state *g = aligned_alloc(64, (sizeof *g + 63) / 64 * 64);
        assert_non_null(g);
        memset(g, 0xFF, sizeof *g);
        for (uint32_t i = 0; i < C; i++)
            f->alpha[i] = f->x[i] = test_rand(&rng) >> (64 - N);
        gen(f, N, C);
        const uvcci_dpf_keys k = keys_of(f, N, C, 0);
        uvcci_dpf_wide_begin(&g->wide, f->dpf);
        uvcci_dpf_wide_keys(&g->wide, &k, 0, C);
        uvcci_dpf_wide_roots(&g->nodes, &k, 0, C);
        uvcci_dpf_wide_eval(f->dpf, g, &k, 0, C, f->x, 0, N - 7);
        for (unsigned b = 7; b < N; b++)
            assert_true(g->wide.right[b][0] >> C == 0);
        free(g);
    }
    free_fixture(f);
#endif
}

static void check_prefixes(fixture *f, unsigned n, uint32_t c, const uint64_t *less,
                           unsigned count) {
    const uint64_t top = ~(uint64_t)0 >> (64 - n);
    for (unsigned p = 0; p < 2; p++) {
        const uvcci_dpf_keys k = keys_of(f, n, c, p);
        uint64_t *x = f->window[0], *out = f->window[1];
        uvcci_dpf_prefixes(f->dpf, &k, f->x, less, count, out);
        for (unsigned j = 0; j < count; j++) {
            for (uint32_t i = 0; i < c; i++)
                x[i] = (f->x[i] - less[j]) & top;
            uvcci_dpf_prefix(f->dpf, n, c, x, f->root[p], p == 1, f->levels, f->terminals, f->bits,
                             f->share[p]);
            for (uint32_t i = 0; i < c; i++)
                assert_int_equal(out[i] >> j & 1, f->share[p][i]);
        }
        for (uint32_t i = 0; count < 64 && i < c; i++)
            assert_true(out[i] >> count == 0);
    }
}

/* Many points of a key, close together or not, are what they are alone. */
static void many_points_of_a_key(void **state) {
    (void)state;
    static const uint32_t counts[] = {1, 31, 33, 255, 257, 300};
    uint64_t rng = 11, less[64];
    fixture *f = new_fixture(UVCCI_AES_AUTO, &rng);
    const uvcci_aes_backend best = f->dpf[0].backend;
    for (unsigned n = 1; n <= 64; n++)
        for (unsigned kind = 0; kind < 5; kind++) {
            static const unsigned sizes[] = {1, 2, 3, 16, 64};
            const unsigned count = sizes[(n + kind) % 5];
            const uint32_t c = counts[n % 6];
            const uint64_t start = test_rand(&rng);
            for (unsigned j = 0; j < count; j++) {
                const uint64_t r = test_rand(&rng);
                less[j] = kind == 0   ? (uint64_t)1 << j % n
                          : kind == 1 ? start
                          : kind == 2 ? start - r % 1000
                          : kind == 3 ? (r % 2 ? 0 - r % 300 : r % 300)
                                      : r;
            }
            for (uint32_t i = 0; i < c; i++) {
                f->alpha[i] = test_rand(&rng) >> (64 - n);
                f->x[i] = i % 4 == 0 ? test_rand(&rng) : f->alpha[i] + less[i % count] + i % 3 - 1;
            }
            const bool portable = kind == 2 && n % 8 == 0;
            for (unsigned k = 0; k < 2; k++)
                f->dpf[k].backend = portable ? UVCCI_AES_PORTABLE : best;
            gen(f, n, c);
            check_prefixes(f, n, c, less, count);
        }
    free_fixture(f);
}

/* What travels is the formula of the protocol, for one element and for many. */
static void layouts(void **state) {
    (void)state;
    uvcc_key_layout k;
    for (uint32_t c = 1; c <= 4096; c = c * 3 + 1) {
        for (unsigned n = 8; n <= 63; n++) {
            const uint32_t dpf = c * (16 * (n - 7) + (2 * (n - 7) + 7) / 8 + 16);
            uvcc_key_layout_of(UVCC_GATE_RELU, false, 0, n, c, UVCC_HEAD, &k);
            assert_int_equal(k.total_bytes, dpf);
            assert_int_equal(k.levels, 0);
            assert_int_equal(k.terminals, c * 16 * (n - 7));
            assert_int_equal(k.bits, k.terminals + 16 * c);
            assert_int_equal(k.words[0], UINT32_MAX);
            assert_int_equal(k.words[1], UINT32_MAX);
            uvcc_key_layout_of(UVCC_GATE_RELU, false, 0, n, c, UVCC_TAIL, &k);
            assert_int_equal(k.total_bytes, dpf + 16 * c);
            assert_int_equal(k.words[0], k.terminals + 16 * c);
            assert_int_equal(k.words[1], k.words[0] + 8 * c);
            assert_int_equal(k.words[2], UINT32_MAX);
            assert_int_equal(k.bits, k.words[1] + 8 * c);

            uvcc_key_layout_of(UVCC_GATE_TRUNC_ARS, true, n, 0, c, UVCC_HEAD, &k);
            assert_int_equal(k.total_bytes, dpf);
            assert_int_equal(k.corr[0], UINT32_MAX);
            uvcc_key_layout_of(UVCC_GATE_TRUNC_ARS, true, n, 0, c, UVCC_TAIL, &k);
            assert_int_equal(k.words[0], k.terminals + 16 * c);
            assert_int_equal(k.words[1], UINT32_MAX);
            assert_int_equal(k.bits, k.words[0] + 8 * c);
            assert_int_equal(k.corr[0], k.bits + c * ((2 * (n - 7) + 7) / 8));
            assert_int_equal(k.corr[1], k.corr[0] + (c * n + 7) / 8);
            assert_int_equal(k.total_bytes, dpf + 8 * c + 2 * ((c * n + 7) / 8));
            assert_int_equal(k.dcf, UINT32_MAX);
            const uint32_t dcf = c * (24 * n + 8 + (2 * n + 7) / 8);
            uvcc_key_layout_of(UVCC_GATE_TRUNC_DCF, true, n, 0, c, UVCC_HEAD, &k);
            assert_int_equal(k.total_bytes, dcf);
            assert_int_equal(k.dcf, 0);
            assert_int_equal(k.corr[0], UINT32_MAX);
            uvcc_key_layout_of(UVCC_GATE_TRUNC_DCF, true, n, 0, c, UVCC_TAIL, &k);
            assert_int_equal(k.dcf, 0);
            assert_true(k.levels == UINT32_MAX && k.words[0] == UINT32_MAX);
            assert_int_equal(k.corr[0], dcf);
            assert_int_equal(k.corr[1], dcf + (c * n + 7) / 8);
            assert_int_equal(k.total_bytes, dcf + 2 * ((c * n + 7) / 8));
            uvcc_key_layout_of(UVCC_GATE_TRUNC_DCF, false, n, 0, c, UVCC_TAIL, &k);
            assert_int_equal(k.words[1], dcf);
            assert_int_equal(k.total_bytes, dcf + 16 * c);
            uvcc_key_layout_of(UVCC_GATE_TRUNC_ARS, false, n, 0, c, UVCC_TAIL, &k);
            assert_int_equal(k.words[2], k.words[1] + 8 * c);
            assert_int_equal(k.bits, k.words[2] + 8 * c);
            assert_int_equal(k.total_bytes, dpf + 24 * c);
        }
        uvcc_key_layout_of(UVCC_GATE_TRUNC_SR, true, 16, 0, c, UVCC_HEAD, &k);
        assert_int_equal(k.total_bytes, 0);
        uvcc_key_layout_of(UVCC_GATE_TRUNC_SR, true, 16, 0, c, UVCC_TAIL, &k);
        assert_int_equal(k.corr[0], 0);
        assert_int_equal(k.total_bytes, 4 * c); /* 4 bytes each at f = 16 */
        uvcc_key_layout_of(UVCC_GATE_TRUNC_SR, false, 16, 0, c, UVCC_TAIL, &k);
        assert_int_equal(k.words[0], UINT32_MAX);
        assert_int_equal(k.words[1], 0);
        assert_int_equal(k.total_bytes, 16 * c);
        uvcc_key_layout_of(UVCC_GATE_NONE, false, 16, 0, c, UVCC_TAIL, &k);
        assert_int_equal(k.total_bytes, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_point_and_input),
        cmocka_unit_test(large_domains),
        cmocka_unit_test(batch_equals_single),
        cmocka_unit_test(backends_agree),
        cmocka_unit_test(every_window),
        cmocka_unit_test(large_windows),
        cmocka_unit_test(full_domains),
        cmocka_unit_test(layouts),
        cmocka_unit_test(backends_agree_on_all_sizes),
        cmocka_unit_test(backends_agree_on_anything),
        cmocka_unit_test(nothing_left_over_chooses),
        cmocka_unit_test(many_points_of_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
