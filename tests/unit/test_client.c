/* SPDX-License-Identifier: Apache-2.0 */
/* test_client.c - what a client gives the parties for its numbers (uvcc/client.h): the words of an
 * independent program, client_keys.json; both holders of a pair come to the row of the number, for
 * any number; what one party has of two pairs does not, and does not depend on the number but by
 * words that are drawn or masked by what is drawn. */
#include "support.h"

#include <uvcc/client.h>

#include "exec/primitives/one_hot.h"
#include "proto/bytes.h"
#include "proto/ids.h"

#include <stdlib.h>

enum { N_MAX = 8, WORDS_MAX = N_MAX * (2 * 30 + 5 + 2) };

typedef struct dealt {
    uint64_t words[3][2][WORDS_MAX];
    uint64_t *at[3][2];
    uvcci_aes dpf[2];
} dealt;

static void open_dealt(dealt *d, const uint8_t sid_job[32]) {
    uint8_t key[2][16];
    for (unsigned i = 0; i < 6; i++)
        d->at[i / 2][i % 2] = d->words[i / 2][i % 2];
    uvcci_client_dpf(sid_job, key);
    for (unsigned i = 0; i < 2; i++)
        uvcci_aes_init(&d->dpf[i], key[i], UVCCI_AES_AUTO);
}

/* What party p makes of its component, 0 or 1, at points from `first` on. */
static void expand(const dealt *d, unsigned p, unsigned component, unsigned bits, uint32_t n,
                   uint64_t first, uint32_t cols, uint64_t *out) {
    const uint64_t *keys = d->words[p][component];
    const uvcci_one_hot_keys k = {.n = bits,
                                  .c = n,
                                  .step = 1,
                                  .party1 = component == 0,
                                  .keys = keys,
                                  .roots = keys + (size_t)n * uvcc_client_key_words(bits)};
    uvcci_one_hot_expand(d->dpf, &k, first, cols, out);
}

/* Bytes that were drawn, one after the other; none are left over. */
typedef struct script {
    uint8_t *bytes;
    size_t len, at;
} script;
static int read_script(void *user, void *out, size_t n) {
    script *s = user;
    if (n > s->len - s->at)
        return -1;
    memcpy(out, s->bytes + s->at, n);
    s->at += n;
    return 0;
}

static void check_words(const json_t *hex, const uint64_t *got) {
    uint8_t *want;
    const size_t n = test_hex(json_string_value(hex), &want);
    for (size_t i = 0; i < n / 8; i++)
        assert_true(got[i] == uvcci_ld64(want + 8 * i));
    free(want);
}

static void check_case(const json_t *c) {
    const unsigned bits = (unsigned)test_u64(c, "bits");
    const json_t *numbers = json_object_get(c, "numbers"), *points = json_object_get(c, "points");
    const uint32_t n = (uint32_t)json_array_size(numbers);
    int64_t id[N_MAX];
    uint8_t sid_job[32], *keys, dpf[2][16];
    script s = {0};
    dealt d;
    for (uint32_t i = 0; i < n; i++)
        id[i] = json_integer_value(json_array_get(numbers, i));
    test_hex_n(test_str(c, "sid_job"), sid_job, 32);
    s.len = test_hex(test_str(c, "random"), &s.bytes);
    open_dealt(&d, sid_job);
    uvcci_client_dpf(sid_job, dpf);
    assert_int_equal(test_hex(test_str(c, "tree_keys"), &keys), 32);
    assert_memory_equal(dpf, keys, 32);
    free(keys);
    const uvcc_random random = {read_script, &s};
    assert_int_equal(uvcc_client_deal(sid_job, bits, id, n, &random, d.at), 0);
    assert_int_equal(s.at, s.len);
    free(s.bytes);
    for (unsigned p = 0; p < 3; p++)
        for (unsigned i = 0; i < 2; i++)
            check_words(json_array_get(json_array_get(json_object_get(c, "share"), p), i),
                        d.words[p][i]);
    for (unsigned pair = 0; pair < 3; pair++)
        for (unsigned place = 0; place < 2; place++) {
            const unsigned p = place == 0 ? (pair + 2) % 3 : pair;
            const json_t *rows =
                json_array_get(json_array_get(json_object_get(c, "rows"), pair), place);
            uint64_t got[N_MAX * 8], column[N_MAX];
            const size_t cols = json_array_size(points);
            for (size_t j = 0; j < cols; j++) {
                const uint64_t x = (uint64_t)json_integer_value(json_array_get(points, j));
                expand(&d, p, place == 0, bits, n, x, 1, column);
                for (uint32_t i = 0; i < n; i++)
                    got[i * cols + j] = column[i];
            }
            check_words(rows, got);
        }
}

static void test_vectors(void **state) {
    (void)state;
    json_t *v = LOAD_VECTORS("client_keys.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(v, "keys"), i, c) check_case(c);
    assert_int_equal(i, 7);
    json_decref(v);
}

/* Both holders' shares of every pair add up to the row; a party's own two are of two pairs, and add
 * up to nothing of the kind. */
static void test_rows(void **state) {
    (void)state;
    enum { COLS = 1 << 10 };
    static uint64_t row[2][N_MAX * COLS];
    uint64_t rng = 5;
    const uvcc_random random = test_random(&rng);
    const uint8_t sid_job[32] = {1};
    static dealt d;
    for (unsigned bits = 1; bits <= 32; bits++) {
        const uint64_t end = UINT64_C(1) << bits;
        const uint32_t cols = end < COLS ? (uint32_t)end : COLS;
        int64_t id[N_MAX];
        for (unsigned i = 0; i < N_MAX; i++)
            id[i] = (int64_t)(i == 0 ? 0 : i == 1 ? end - 1 : test_rand(&rng) % end);
        open_dealt(&d, sid_job);
        assert_int_equal(uvcc_client_deal(sid_job, bits, id, N_MAX, &random, d.at), 0);
        const size_t keys = (size_t)N_MAX * uvcc_client_key_words(bits);
        for (unsigned c = 0; c < 3; c++) {
            const unsigned before = (c + 2) % 3, after = (c + 1) % 3;
            assert_memory_equal(d.words[c][0], d.words[before][1], 8 * keys);
            assert_memory_not_equal(d.words[c][0], d.words[after][0], 8 * keys);
            for (unsigned i = 0; i < N_MAX; i++) {
                const uint64_t at = (uint64_t)id[i] / cols * cols;
                expand(&d, c, 0, bits, N_MAX, at, cols, row[0]);
                expand(&d, before, 1, bits, N_MAX, at, cols, row[1]);
                unsigned wrong = 0;
                for (uint32_t j = 0; j < cols; j++)
                    wrong +=
                        row[0][i * cols + j] + row[1][i * cols + j] != (at + j == (uint64_t)id[i]);
                expand(&d, c, 1, bits, N_MAX, at, cols, row[1]);
                for (uint32_t j = 0; j < cols; j++)
                    wrong += row[0][i * cols + j] + row[1][i * cols + j] <= 1;
                assert_int_equal(wrong, 0);
            }
        }
    }
}

/* All roots are drawn, each for itself: no two of a request's are alike. */
static void test_roots(void **state) {
    (void)state;
    uint64_t rng = 6, seen[6 * N_MAX][2];
    const uvcc_random random = test_random(&rng);
    const uint8_t sid_job[32] = {1};
    const int64_t id[N_MAX] = {3, 3, 3, 3, 3, 3, 3, 3};
    static dealt d;
    open_dealt(&d, sid_job);
    assert_int_equal(uvcc_client_deal(sid_job, 9, id, N_MAX, &random, d.at), 0);
    unsigned n = 0;
    for (unsigned i = 0; i < 6; i++)
        for (unsigned k = 0; k < N_MAX; k++, n++) {
            memcpy(seen[n],
                   d.words[i / 2][i % 2] + (size_t)N_MAX * uvcc_client_key_words(9) + 2 * k, 16);
            for (unsigned m = 0; m < n; m++)
                assert_memory_not_equal(seen[m], seen[n], 16);
        }
}

static int fail_after(void *user, void *out, size_t n) {
    unsigned *left = user;
    memset(out, 0x5a, n);
    return (*left)-- == 0 ? -1 : 0;
}

static bool all_zero(const dealt *d, size_t words) {
    uint64_t any = 0;
    for (unsigned i = 0; i < 6; i++)
        for (size_t k = 0; k < words; k++)
            any |= d->words[i / 2][i % 2][k];
    return any == 0;
}

static void test_refusals(void **state) {
    (void)state;
    static dealt d;
    uint64_t rng = 7;
    const uvcc_random random = test_random(&rng);
    const uint8_t sid_job[32] = {1}, none[32] = {0};
    const int64_t id[2] = {1, 7}, large[2] = {1, 8}, less[2] = {-1, 7};
    const size_t words = 2 * (uvcc_client_key_words(3) + 2);
    open_dealt(&d, sid_job);
    assert_int_equal(uvcc_client_key_words(0), 0);
    assert_int_equal(uvcc_client_key_words(2), 4);
    assert_int_equal(uvcc_client_key_words(3), 7);
    assert_int_equal(uvcc_client_key_words(15), 31);
    assert_int_equal(uvcc_client_key_words(33), 0);
    assert_int_equal(uvcc_client_deal(sid_job, 0, id, 2, &random, d.at), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_client_deal(sid_job, 33, id, 2, &random, d.at), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_client_deal(none, 3, id, 2, &random, d.at), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_client_deal(sid_job, 3, id, SIZE_MAX / 8, &random, d.at), UVCC_ERR_LIMIT);
    memset(d.words, 1, sizeof d.words);
    assert_int_equal(uvcc_client_deal(sid_job, 3, large, 2, &random, d.at), UVCC_ERR_BOUND);
    assert_true(all_zero(&d, words));
    assert_int_equal(uvcc_client_deal(sid_job, 3, less, 2, &random, d.at), UVCC_ERR_BOUND);
    for (unsigned k = 0; k < 6; k++) {
        unsigned left = k;
        const uvcc_random fails = {fail_after, &left};
        memset(d.words, 1, sizeof d.words);
        assert_int_equal(uvcc_client_deal(sid_job, 3, id, 2, &fails, d.at), UVCC_ERR_RANDOM);
        assert_true(all_zero(&d, words));
    }
    d.at[2][1] = NULL;
    assert_int_equal(uvcc_client_deal(sid_job, 3, id, 2, &random, d.at), UVCC_ERR_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_roots),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
