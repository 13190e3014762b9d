/* SPDX-License-Identifier: Apache-2.0 */
/* test_crc.c - CRC-32 against its definition, and combination against the CRC of the whole. */
#include "support.h"

#include "proto/crc.h"

/* Bit by bit, from the definition. */
static uint32_t slow_crc(const uint8_t *p, size_t n) {
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (unsigned b = 0; b < 8; b++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void known_values(void **state) {
    (void)state;
    assert_int_equal(uvcci_crc32(0, "123456789", 9), 0xcbf43926u);
    assert_int_equal(uvcci_crc32(0, "", 0), 0);
    assert_int_equal(uvcci_crc32(0, NULL, 0), 0);
    assert_int_equal(uvcci_crc32(77, NULL, 0), 77);
}

static void every_length_and_alignment(void **state) {
    (void)state;
    uint64_t seed = 1;
    uint8_t buf[400];
    test_rand_bytes(&seed, buf, sizeof buf);
    for (size_t off = 0; off < 17; off++)
        for (size_t n = 0; n <= 300; n++)
            assert_int_equal(uvcci_crc32(0, buf + off, n), slow_crc(buf + off, n));
}

static void every_split(void **state) {
    (void)state;
    uint64_t seed = 2;
    uint8_t buf[2100];
    test_rand_bytes(&seed, buf, sizeof buf);
    const uint32_t whole = uvcci_crc32(0, buf, sizeof buf);
    for (size_t cut = 0; cut <= sizeof buf; cut++) {
        const uint32_t a = uvcci_crc32(0, buf, cut);
        assert_int_equal(uvcci_crc32(a, buf + cut, sizeof buf - cut), whole);
        const uint32_t b = uvcci_crc32(0, buf + cut, sizeof buf - cut);
        assert_int_equal(uvcci_crc32_combine(a, b, sizeof buf - cut), whole);
    }
}

/* The 60 bytes of a frame header before payloads around powers of two. */
static void header_and_payload(void **state) {
    (void)state;
    enum { HEAD = 60, MAX = 1 << 20 };
    uint64_t seed = 3;
    uint8_t *buf = malloc(HEAD + MAX + 1);
    assert_non_null(buf);
    test_rand_bytes(&seed, buf, HEAD + MAX + 1);
    const uint32_t head = uvcci_crc32(0, buf, HEAD);
    for (size_t n = 1; n <= MAX; n *= 2)
        for (size_t len = n - 1; len <= n + 1; len++)
            assert_int_equal(uvcci_crc32_combine(head, uvcci_crc32(0, buf + HEAD, len), len),
                             uvcci_crc32(0, buf, HEAD + len));
    free(buf);
}

/* Past 2^32 bits, where the powers of x come round again. */
static void longer_than_the_period(void **state) {
    (void)state;
    enum { PIECE = 1 << 20, PIECES = 520 };
    uint64_t seed = 4;
    uint8_t *piece = malloc(PIECE);
    assert_non_null(piece);
    test_rand_bytes(&seed, piece, PIECE);
    const uint32_t head = uvcci_crc32(0, "header", 6);
    uint32_t rest = 0, whole = head;
    for (size_t i = 0; i < PIECES; i++) {
        rest = uvcci_crc32(rest, piece, PIECE);
        whole = uvcci_crc32(whole, piece, PIECE);
    }
    assert_int_equal(uvcci_crc32_combine(head, rest, (uint64_t)PIECE * PIECES), whole);
    free(piece);
}

static void combination_is_associative(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (unsigned i = 0; i < 2000; i++) {
        const uint32_t a = (uint32_t)test_rand(&seed), b = (uint32_t)test_rand(&seed);
        const uint32_t c = (uint32_t)test_rand(&seed);
        const uint64_t len_b = test_rand(&seed) >> (1 + i % 60);
        const uint64_t len_c = test_rand(&seed) >> (1 + i % 53);
        assert_int_equal(uvcci_crc32_combine(uvcci_crc32_combine(a, b, len_b), c, len_c),
                         uvcci_crc32_combine(a, uvcci_crc32_combine(b, c, len_c), len_b + len_c));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(every_length_and_alignment),
        cmocka_unit_test(every_split),
        cmocka_unit_test(header_and_payload),
        cmocka_unit_test(longer_than_the_period),
        cmocka_unit_test(combination_is_associative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
