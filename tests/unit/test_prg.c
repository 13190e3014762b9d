/* SPDX-License-Identifier: Apache-2.0 */
/* test_prg.c - PRG streams against prg.json; a word does not depend on how its stream is cut. */
#include "support.h"

#include "proto/prg.h"

static const uvcci_aes_backend backends[] = {UVCCI_AES_PORTABLE, UVCCI_AES_NI, UVCCI_AES_VAES};
#define BACKENDS (sizeof backends / sizeof backends[0])

/* The key of (tag, step, run) as the vectors give it. */
static void key_of(const json_t *all, const json_t *stream, uint8_t key[16]) {
    size_t i;
    json_t *k;
    json_array_foreach(json_object_get(all, "keys"), i, k) {
        if (strcmp(test_str(k, "tag"), test_str(stream, "tag")) == 0 &&
            test_u64(k, "step") == test_u64(stream, "step") &&
            test_u64(k, "run") == test_u64(stream, "run")) {
            test_hex_n(test_str(k, "key"), key, 16);
            return;
        }
    }
    fail_msg("no key for tag %s", test_str(stream, "tag"));
}

static void check_stream(const json_t *all, const json_t *s, uint8_t lane, uint64_t first) {
    const json_t *words = json_object_get(s, "words");
    const size_t n = json_array_size(words);
    const uvcci_prg_at at = {.ordinal = (uint32_t)test_u64(s, "ordinal"),
                             .call = (uint16_t)test_u64(s, "call"),
                             .block = (uint32_t)test_u64(s, "block"),
                             .lane = lane};
    uint8_t key[16];
    key_of(all, s, key);
    assert_true(n > 0);
    for (size_t b = 0; b < BACKENDS; b++) {
        uvcci_aes a;
        uvcci_aes_init(&a, key, backends[b]);
        for (size_t from = 0; from < n; from++)
            for (size_t count = 0; count <= n - from; count++) {
                uint64_t got[16] = {0};
                assert_true(count < 16);
                uvcci_prg_fill(&a, at, first + from, got, count);
                for (size_t i = 0; i < count; i++)
                    assert_int_equal(
                        got[i], test_hex64(json_string_value(json_array_get(words, from + i))));
                assert_int_equal(got[count], 0);
            }
    }
}

static void vectors(void **state) {
    (void)state;
    json_t *all = LOAD_VECTORS("prg.json"), *s;
    const json_t *streams = json_object_get(all, "streams"), *lanes = json_object_get(all, "lanes");
    size_t i;
    assert_true(json_array_size(streams) > 0);
    json_array_foreach(streams, i, s) check_stream(all, s, 0, test_u64(s, "first_word"));
    check_stream(all, lanes, (uint8_t)test_u64(lanes, "lane"), 0);
    json_decref(all);
}

static const uvcci_prg_at place = {
    .ordinal = 0x01020304, .call = 0x0506, .block = 0x0708090a, .lane = 0xfe};

/* Word by word, from the definition of a counter block. */
static uint64_t slow_word(const uvcci_aes *a, uvcci_prg_at at, uint64_t index) {
    uint8_t block[16];
    uint64_t half[2];
    const uint64_t counter = index / 2;
    memcpy(block, &at.ordinal, 4);
    memcpy(block + 4, &at.call, 2);
    memcpy(block + 6, &at.block, 4);
    memcpy(block + 10, &counter, 5);
    block[15] = at.lane;
    uvcci_aes_ecb(a, block, (uint8_t *)half, 1);
    return half[index % 2];
}

static void check_range(const uvcci_aes *a, uint64_t first, size_t count, uint64_t *seed) {
    enum { MAX = 1600 };
    static uint64_t filled[MAX];
    assert_true(count < MAX);
    const uint64_t behind = filled[count] = test_rand(seed);
    uvcci_prg_fill(a, place, first, filled, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(filled[i], slow_word(a, place, first + i));
    assert_int_equal(filled[count], behind);
}

/* Odd and even beginnings, short counts and longer ones. */
static void ranges(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (size_t b = 0; b < BACKENDS; b++) {
        uint8_t key[16];
        uvcci_aes a;
        test_rand_bytes(&seed, key, 16);
        uvcci_aes_init(&a, key, backends[b]);
        for (size_t count = 0; count <= 70; count++)
            for (uint64_t first = 0; first < 4; first++)
                check_range(&a, first, count, &seed);
        for (size_t count = 509; count <= 515; count++)
            for (uint64_t first = 6; first < 8; first++) {
                check_range(&a, first, count, &seed);
                check_range(&a, first, count + 512, &seed);
            }
    }
}

/* The last words of a lane: 2^40 blocks hold 2^41 words. */
static void end_of_a_lane(void **state) {
    (void)state;
    const uint8_t key[16] = {7};
    uint64_t seed = 2;
    const uint64_t end = (uint64_t)1 << 41;
    for (size_t b = 0; b < BACKENDS; b++) {
        uvcci_aes a;
        uvcci_aes_init(&a, key, backends[b]);
        for (size_t count = 0; count < 40; count++)
            check_range(&a, end - count, count, &seed);
        check_range(&a, end - 600, 600, &seed);
    }
}

static void any_cut_gives_the_same_words(void **state) {
    (void)state;
    enum { N = 1500 };
    static uint64_t whole[N], pieces[N];
    const uint8_t key[16] = {9};
    uint64_t seed = 3;
    uvcci_aes a;
    uvcci_aes_init(&a, key, UVCCI_AES_AUTO);
    uvcci_prg_fill(&a, place, 5, whole, N);
    for (unsigned round = 0; round < 50; round++) {
        memset(pieces, 0, sizeof pieces);
        for (size_t at = 0; at < N;) {
            size_t n = test_rand(&seed) % (round * 20 + 2);
            if (n > N - at)
                n = N - at;
            uvcci_prg_fill(&a, place, 5 + at, pieces + at, n);
            at += n;
        }
        assert_memory_equal(pieces, whole, sizeof whole);
    }
}

static void every_part_of_a_place_counts(void **state) {
    (void)state;
    const uint8_t key[16] = {11};
    uvcci_aes a;
    uvcci_aes_init(&a, key, UVCCI_AES_AUTO);
    uint64_t word[5];
    uvcci_prg_at at[5] = {place, place, place, place, place};
    at[1].ordinal++;
    at[2].call++;
    at[3].block++;
    at[4].lane++;
    for (size_t i = 0; i < 5; i++) {
        uvcci_prg_fill(&a, at[i], 0, &word[i], 1);
        for (size_t j = 0; j < i; j++)
            assert_true(word[i] != word[j]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(ranges),
        cmocka_unit_test(end_of_a_lane),
        cmocka_unit_test(any_cut_gives_the_same_words),
        cmocka_unit_test(every_part_of_a_place_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
