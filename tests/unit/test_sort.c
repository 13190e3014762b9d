/* SPDX-License-Identifier: Apache-2.0 */
/* The sort gives the elements it was given, the least first, whatever their size, number and order;
 * elements that compare equal end in the same order every time. */
#include "support.h"

#include "proto/sort.h"
#include <stdbool.h>

enum { MOST = 300, WIDEST = 150 };

/* Elements of `bytes`, the first of which count; the others say which element it was. */
static int by_first_byte(const void *a, const void *b) {
    return *(const uint8_t *)a - *(const uint8_t *)b;
}

/* kind: 0 random, 1 ascending, 2 descending, 3 all alike, 4 few values. */
static uint8_t first_byte(unsigned kind, size_t i, size_t count, uint64_t *rng) {
    const uint64_t r = test_rand(rng);
    const size_t place = count == 0 ? 0 : i * 255 / count;
    return (uint8_t)(kind == 0   ? r
                     : kind == 1 ? place
                     : kind == 2 ? 255 - place
                     : kind == 3 ? 7
                                 : r % 3);
}

static void check_sorted(size_t count, size_t bytes, unsigned kind, uint64_t *rng) {
    uint8_t list[MOST * WIDEST], again[MOST * WIDEST];
    bool seen[MOST] = {false};
    for (size_t i = 0; i < count; i++) {
        memset(list + i * bytes, (int)(i & 0xff), bytes);
        if (bytes > 2)
            list[i * bytes + 1] = (uint8_t)(i >> 8);
        list[i * bytes] = first_byte(kind, i, count, rng);
    }
    uint8_t first[MOST];
    for (size_t i = 0; i < count; i++)
        first[i] = list[i * bytes];
    memcpy(again, list, count * bytes);
    uvcci_sort(list, count, bytes, by_first_byte);
    uvcci_sort(again, count, bytes, by_first_byte);
    assert_true(memcmp(list, again, count * bytes) == 0);
    for (size_t i = 1; i < count; i++)
        assert_true(list[(i - 1) * bytes] <= list[i * bytes]);
    for (size_t i = 0; i < count && bytes > 2; i++) { /* each once, and whole */
        const uint8_t *e = list + i * bytes;
        const size_t was = e[2] | (size_t)e[1] << 8;
        assert_true(was < count && !seen[was] && e[0] == first[was]);
        seen[was] = true;
        for (size_t k = 3; k < bytes; k++)
            assert_int_equal(e[k], e[2]);
    }
}

static void sorts_every_size(void **state) {
    (void)state;
    static const size_t widths[] = {1, 3, 8, 40, 63, 64, 65, 128, WIDEST};
    uint64_t rng = 1;
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
        for (size_t count = 0; count <= MOST; count += count < 20 ? 1 : 35)
            for (unsigned kind = 0; kind < 5; kind++)
                check_sorted(count, widths[w], kind, &rng);
}

/* Comparisons stay below 2 n log2 n, also where a quicksort would need the square. */
static size_t compared;

static int counting(const void *a, const void *b) {
    compared++;
    return uvcci_compare_u64(a, b);
}

static void needs_few_comparisons(void **state) {
    (void)state;
    enum { COUNT = 4096, LOG2 = 12 };
    static uint64_t list[COUNT];
    uint64_t rng = 2;
    for (unsigned kind = 0; kind < 5; kind++) {
        for (size_t i = 0; i < COUNT; i++)
            list[i] = (uint64_t)first_byte(kind, i, COUNT, &rng) << 56 | (kind == 0 ? i : 0);
        compared = 0;
        uvcci_sort(list, COUNT, sizeof list[0], counting);
        assert_true(compared <= 2 * COUNT * LOG2);
        for (size_t i = 1; i < COUNT; i++)
            assert_true(list[i - 1] <= list[i]);
    }
}

static void compares_words(void **state) {
    (void)state;
    static const uint64_t words[] = {0, 1, 1ull << 31, 1ull << 32, 1ull << 63, UINT64_MAX};
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            assert_int_equal(uvcci_compare_u64(&words[i], &words[k]), i < k ? -1 : i > k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorts_every_size),
        cmocka_unit_test(needs_few_comparisons),
        cmocka_unit_test(compares_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
