/* SPDX-License-Identifier: Apache-2.0 */
/* The coin of three parties: its formulas, the order of commitments and shares, selection. */
#include "support.h"

#include "proto/bytes.h"
#include "proto/coin.h"
#include "proto/crypto.h"

enum { STEP = 5, RUN = 2, OP = 0x12345678 };
static const uint8_t sid[32] = {9, 8, 7};

static void make(uvcci_coin c[3], uint64_t seed) {
    for (uint8_t p = 0; p < 3; p++) {
        uint8_t share[32];
        test_rand_bytes(&seed, share, 32);
        uvcci_coin_init(&c[p], sid, STEP, RUN, OP, p, share);
    }
}

static void commit_all(uvcci_coin c[3]) {
    for (uint8_t p = 0; p < 3; p++)
        for (uint8_t q = 0; q < 3; q++)
            if (p != q)
                assert_int_equal(uvcci_coin_on_commit(&c[q], p, c[p].commit[p]), 0);
}

static void formulas(void **state) {
    (void)state;
    uvcci_coin c[3];
    uint8_t roots[3][32], seeds[3][32], want[32], buf[17 + 9 * 32];
    uint64_t rng = 4;
    test_rand_bytes(&rng, roots, sizeof roots);
    make(c, 1);
    for (uint8_t p = 0; p < 3; p++) {
        uint8_t own[12 + 32 + 12 + 1 + 32];
        uvcci_writer w = uvcci_writer_on(own, sizeof own);
        uvcci_put(&w, "UVCC_COIN_V1", 12);
        uvcci_put(&w, sid, 32);
        uvcci_put32(&w, STEP);
        uvcci_put32(&w, RUN);
        uvcci_put32(&w, OP);
        uvcci_put8(&w, p);
        uvcci_put(&w, c[p].share[p], 32);
        uvcci_sha256_once(own, w.len, want);
        assert_memory_equal(uvcci_coin_commit(&c[p]), want, 32);
    }
    commit_all(c);
    for (uint8_t p = 0; p < 3; p++) {
        assert_int_equal(uvcci_coin_seed(&c[p], (const uint8_t *)roots, seeds[p]), UVCC_ERR_STATE);
        assert_memory_equal(uvcci_coin_open(&c[p]), c[p].share[p], 32);
        for (uint8_t q = 0; q < 3; q++)
            if (q != p)
                assert_int_equal(uvcci_coin_on_share(&c[p], q, c[q].share[q]), 0);
        assert_int_equal(uvcci_coin_seed(&c[p], (const uint8_t *)roots, seeds[p]), 0);
    }
    uvcci_writer w = uvcci_writer_on(buf, sizeof buf);
    uvcci_put(&w, "UVCC_COIN_SEED_V1", 17);
    for (unsigned p = 0; p < 3; p++)
        uvcci_put(&w, c[p].commit[p], 32);
    for (unsigned p = 0; p < 3; p++)
        uvcci_put(&w, c[p].share[p], 32);
    uvcci_put(&w, roots, sizeof roots);
    assert_int_equal(w.len, sizeof buf);
    uvcci_sha256_once(buf, w.len, want);
    for (unsigned p = 0; p < 3; p++)
        assert_memory_equal(seeds[p], want, 32);
    roots[2][31] ^= 1;
    assert_int_equal(uvcci_coin_seed(&c[0], (const uint8_t *)roots, seeds[0]), 0);
    assert_memory_not_equal(seeds[0], want, 32);
}

/* Nobody opens, and no share counts, before all three have committed. */
static void order(void **state) {
    (void)state;
    for (unsigned missing = 0; missing < 3; missing++) {
        uvcci_coin c[3];
        make(c, 7 + missing);
        for (uint8_t p = 0; p < 3; p++) /* what party 0 knows */
            if (p != missing && p != 0)
                assert_int_equal(uvcci_coin_on_commit(&c[0], p, c[p].commit[p]), 0);
        if (missing != 0)
            (void)uvcci_coin_commit(&c[0]);
        assert_null(uvcci_coin_open(&c[0]));
        for (uint8_t p = 1; p < 3; p++)
            assert_int_equal(uvcci_coin_on_share(&c[0], p, c[p].share[p]), UVCC_ERR_PROTOCOL);
        if (missing == 0)
            (void)uvcci_coin_commit(&c[0]);
        else
            assert_int_equal(
                uvcci_coin_on_commit(&c[0], (uint8_t)missing, c[missing].commit[missing]), 0);
        assert_non_null(uvcci_coin_open(&c[0]));
        for (uint8_t p = 1; p < 3; p++)
            assert_int_equal(uvcci_coin_on_share(&c[0], p, c[p].share[p]), 0);
    }
}

static void wrong(void **state) {
    (void)state;
    uvcci_coin c[3];
    uint8_t share[32], roots[96] = {0}, seed[32];
    make(c, 3);
    for (uint8_t p = 0; p < 3; p++)
        (void)uvcci_coin_commit(&c[p]);
    commit_all(c);
    assert_int_equal(uvcci_coin_on_commit(&c[0], 1, c[2].commit[2]), UVCC_ERR_PROTOCOL);
    assert_memory_equal(c[0].commit[1], c[1].commit[1], 32);
    for (unsigned bit = 0; bit < 256; bit++) {
        memcpy(share, c[1].share[1], 32);
        share[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(uvcci_coin_on_share(&c[0], 1, share), UVCC_ERR_AUTH);
    }
    /* another's share does not open a commitment, nor does another place's */
    assert_int_equal(uvcci_coin_on_share(&c[0], 1, c[2].share[2]), UVCC_ERR_AUTH);
    uvcci_coin other;
    uvcci_coin_init(&other, sid, STEP, RUN, OP + 1, 1, c[1].share[1]);
    assert_memory_not_equal(other.commit[1], c[1].commit[1], 32);
    uvcci_coin_init(&other, sid, STEP, RUN + 1, OP, 1, c[1].share[1]);
    assert_memory_not_equal(other.commit[1], c[1].commit[1], 32);
    uvcci_coin_init(&other, sid, STEP + 1, RUN, OP, 1, c[1].share[1]);
    assert_memory_not_equal(other.commit[1], c[1].commit[1], 32);
    uvcci_coin_init(&other, sid, STEP, RUN, OP, 2, c[1].share[1]);
    assert_memory_not_equal(other.commit[2], c[1].commit[1], 32);
    (void)uvcci_coin_open(&c[0]);
    assert_int_equal(uvcci_coin_on_share(&c[0], 1, c[1].share[1]), 0);
    assert_int_equal(uvcci_coin_on_share(&c[0], 1, c[1].share[1]), UVCC_ERR_PROTOCOL);
    assert_int_equal(uvcci_coin_seed(&c[0], roots, seed), UVCC_ERR_STATE);
}

/* The selection is a function of the seed, and as frequent as it should be: 100,000 draws stay
 * within five standard deviations. */
static void selection(void **state) {
    (void)state;
    static const uint32_t permille[] = {0, 1, 10, 250, 500, 999, 1000};
    enum { DRAWS = 100000 };
    for (size_t k = 0; k < sizeof permille / sizeof permille[0]; k++) {
        uint64_t rng = 5, hits = 0;
        for (unsigned i = 0; i < DRAWS; i++) {
            uint8_t seed[32];
            test_rand_bytes(&rng, seed, 32);
            const bool hit = uvcci_coin_selects(seed, permille[k]);
            assert_int_equal(hit, uvcci_coin_selects(seed, permille[k]));
            hits += hit;
        }
        const int64_t want = (int64_t)permille[k] * (DRAWS / 1000);
        const int64_t variance = want * (int64_t)(1000 - permille[k]) / 1000;
        const int64_t off = (int64_t)hits - want;
        assert_true(off * off <= 25 * variance);
    }
    uint8_t seed[32] = {0};
    assert_true(uvcci_coin_selects(seed, 1));
    assert_false(uvcci_coin_selects(seed, 0));
    memset(seed + 16, 0xFF, 4);
    assert_false(uvcci_coin_selects(seed, 999));
    assert_true(uvcci_coin_selects(seed, 1000));
    uvcci_st32(seed + 16, 2147483648u); /* the middle */
    assert_false(uvcci_coin_selects(seed, 500));
    assert_true(uvcci_coin_selects(seed, 501));
    uvcci_st32(seed + 16, 2147483647u);
    assert_true(uvcci_coin_selects(seed, 500));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(formulas), cmocka_unit_test(order),
                                       cmocka_unit_test(wrong), cmocka_unit_test(selection)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
