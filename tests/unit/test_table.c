/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of selected table entries: every backend against the definition, over counts, tiles, scales.
 */
#include "support.h"

#include "exec/compute/table.h"

enum { WORD = 64, ELEMS = 67, WORDS_MAX = 140 }; /* more words than two tiles have */

static const uvcci_gemm_backend backends[] = {UVCCI_GEMM_PORTABLE, UVCCI_GEMM_AVX2,
                                              UVCCI_GEMM_AVX512};

/* What table.h says, entry by entry. */
static uint64_t sum_of(const int64_t *table, const int64_t *scale, const uint64_t *bits,
                       uint32_t words) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < words * WORD; i++) {
        const uint64_t product = (uint64_t)table[i] * (uint64_t)(scale != NULL ? *scale : 0);
        const int64_t entry = scale != NULL ? (int64_t)product >> 30 : table[i];
        if (bits[i / WORD] >> i % WORD & 1)
            sum += (uint64_t)entry;
    }
    return sum;
}

typedef struct operands {
    int64_t table[WORDS_MAX * WORD], scale[ELEMS];
    uint64_t bits[ELEMS * WORDS_MAX];
} operands;

static void check(const operands *o, uint32_t words, uint32_t c, bool scaled) {
    const int64_t *scale = scaled ? o->scale : NULL;
    for (size_t b = 0; b < sizeof backends / sizeof *backends; b++) {
        uint64_t out[ELEMS + 1];
        memset(out, 0xa5, sizeof out); /* what was there does not count; what lies behind stays */
        if (backends[b] > uvcci_gemm_best())
            continue;
        uvcci_table_sum(backends[b], o->table, scale, o->bits, words, c, out);
        for (uint32_t e = 0; e < c; e++)
            assert_int_equal(out[e], sum_of(o->table, scaled ? &o->scale[e] : NULL,
                                            o->bits + (size_t)e * words, words));
        assert_int_equal(out[c], 0xa5a5a5a5a5a5a5a5u);
    }
}

static void test_any_bits(void **state) {
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 63, 64, 65, 128, 129, WORDS_MAX};
    static operands o;
    uint64_t rnd = 7;
    for (size_t i = 0; i < WORDS_MAX * WORD; i++) /* the first ones use all 64 bits */
        o.table[i] = (int64_t)test_rand(&rnd) >> (i < WORD ? 0 : 34);
    for (size_t i = 0; i < ELEMS * WORDS_MAX; i++)
        o.bits[i] = test_rand(&rnd);
    for (size_t e = 0; e < ELEMS; e++)
        o.scale[e] = (int64_t)test_rand(&rnd) >> 20;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint32_t c = 1; c <= ELEMS; c += c < 11 ? 1 : 7) {
            check(&o, sizes[s], c, false);
            check(&o, sizes[s], c, true);
        }
}

/* Entries at the ends of what so many bits hold, with all bits and with some: as many digits as
 * they need are taken, and their sums grow as far as they can. */
static void test_widths(void **state) {
    (void)state;
    static operands o;
    uint64_t rnd = 17;
    for (unsigned bits = 1; bits <= 40; bits++)
        for (unsigned what = 0; what < 3; what++) {
            const int64_t low = -(1ll << bits), high = (1ll << bits) - 1;
            for (size_t i = 0; i < WORDS_MAX * WORD; i++)
                o.table[i] = what == 2 ? (test_rand(&rnd) & 1 ? low : high) : what ? low : high;
            for (size_t i = 0; i < ELEMS * WORDS_MAX; i++)
                o.bits[i] = what == 2 ? test_rand(&rnd) : UINT64_MAX;
            check(&o, 65, ELEMS, false);
        }
}

/* None, all, and single bits: each entry is in the place that its bit has. */
static void test_single_bits(void **state) {
    (void)state;
    static operands o;
    for (size_t i = 0; i < WORDS_MAX * WORD; i++)
        o.table[i] = (int64_t)(i + 1) * (i % 2 == 0 ? 1 : -1);
    for (uint32_t i = 0; i < 40 * WORD; i += 13) {
        memset(o.bits, 0, sizeof o.bits);
        o.bits[i / WORD] = 1ull << i % WORD;
        uint64_t out;
        uvcci_table_sum(UVCCI_GEMM_PORTABLE, o.table, NULL, o.bits, 40, 1, &out);
        assert_int_equal(out, o.table[i]);
        check(&o, 40, 1, false);
    }
    memset(o.bits, 0, sizeof o.bits);
    check(&o, 33, ELEMS, false);
    memset(o.bits, 0xff, sizeof o.bits);
    check(&o, 33, ELEMS, false);
}

/* The products keep their sign, at the ends of what a scale can be. */
static void test_scales(void **state) {
    (void)state;
    static operands o;
    static const int64_t ends[] = {0,         1,         -1,        1ll << 30, -(1ll << 30),
                                   INT64_MAX, INT64_MIN, 123456789, -987654321};
    uint64_t rnd = 99;
    memset(o.bits, 0xff, sizeof o.bits);
    for (size_t i = 0; i < WORDS_MAX * WORD; i++)
        o.table[i] = i % 3 == 0 ? -5 : (int64_t)test_rand(&rnd) >> 30;
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        for (size_t e = 0; e < ELEMS; e++)
            o.scale[e] = ends[(k + e) % (sizeof ends / sizeof *ends)];
        check(&o, 2, ELEMS, true);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_bits),
        cmocka_unit_test(test_widths),
        cmocka_unit_test(test_single_bits),
        cmocka_unit_test(test_scales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
