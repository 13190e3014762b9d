/* SPDX-License-Identifier: Apache-2.0 */
/* ACK payloads: bytes by hand, round trips with every number of ranges, and every wrong length. */
#include "support.h"

#include <uvcc/types.h>

#include "proto/ackmsg.h"
#include "proto/bytes.h"

static uvcci_ack sample(uint32_t ranges) {
    uvcci_ack a;
    uint64_t seed = 90 + ranges;
    test_rand_bytes(&seed, &a, sizeof a);
    a.range_cnt = ranges;
    return a;
}

static void layout(void **state) {
    (void)state;
    uvcci_ack a = {.counter = 0x0102030405060708,
                   .cum = 0x1112131415161718,
                   .credit = {0x2122232425262728, 0x3132333435363738},
                   .ping_number = 0x41424344,
                   .repeats = 0x71727374,
                   .ce_packets = 0x81828384,
                   .range_cnt = 1,
                   .range = {{0x5152535455565758, 0x6162636465666768}}};
    static const char want[] = "0807060504030201" /* counter */
                               "1817161514131211" /* cum */
                               "2827262524232221" /* credit: online */
                               "3837363534333231" /* credit: keys */
                               "44434241"         /* ping_number */
                               "74737271"         /* repeats */
                               "84838281"         /* ce_packets */
                               "0100"             /* ranges */
                               "5857565554535251"
                               "6867666564636261";
    uint8_t got[UVCCI_ACK_MAX_BYTES], bytes[sizeof want / 2];
    test_hex_n(want, bytes, sizeof bytes);
    assert_int_equal(uvcci_ack_encode(&a, got), sizeof bytes);
    assert_memory_equal(got, bytes, sizeof bytes);
    assert_int_equal(sizeof bytes, UVCCI_ACK_MIN_BYTES + UVCCI_ACK_RANGE_BYTES);
}

static void round_trips(void **state) {
    (void)state;
    for (uint32_t n = 0; n <= UVCCI_ACK_RANGES_MAX; n++) {
        uvcci_ack a = sample(n), b = sample(0);
        uint8_t bytes[UVCCI_ACK_MAX_BYTES], again[UVCCI_ACK_MAX_BYTES];
        size_t len = uvcci_ack_encode(&a, bytes);
        assert_int_equal(len, UVCCI_ACK_MIN_BYTES + n * UVCCI_ACK_RANGE_BYTES);
        assert_int_equal(uvcci_ack_decode(&b, bytes, len), 0);
        assert_int_equal(b.counter, a.counter);
        assert_int_equal(b.cum, a.cum);
        assert_int_equal(b.credit[0], a.credit[0]);
        assert_int_equal(b.credit[1], a.credit[1]);
        assert_int_equal(b.ping_number, a.ping_number);
        assert_int_equal(b.repeats, a.repeats);
        assert_int_equal(b.ce_packets, a.ce_packets);
        assert_int_equal(b.range_cnt, n);
        assert_memory_equal(b.range, a.range, n * sizeof a.range[0]);
        assert_int_equal(uvcci_ack_encode(&b, again), len);
        assert_memory_equal(again, bytes, len);
    }
}

/* A length that is not that of the ranges, and more ranges than any ACK has; nothing past the given
 * bytes is read. */
static void refuses(void **state) {
    (void)state;
    uvcci_ack a = sample(3), b = sample(0), was = b;
    uint8_t bytes[UVCCI_ACK_MAX_BYTES + UVCCI_ACK_RANGE_BYTES] = {0};
    size_t whole = uvcci_ack_encode(&a, bytes);
    for (size_t len = 0; len <= sizeof bytes; len++) {
        if (len == whole)
            continue;
        test_edge e = test_edge_copy(bytes, len, 0);
        assert_int_equal(uvcci_ack_decode(&b, e.at, len), UVCC_ERR_FRAME);
        test_edge_free(&e);
    }
    uvcci_st16(bytes + 36, UVCCI_ACK_RANGES_MAX + 1);
    assert_int_equal(uvcci_ack_decode(&b, bytes, sizeof bytes), UVCC_ERR_FRAME);
    assert_memory_equal(&b, &was, sizeof b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout),
        cmocka_unit_test(round_trips),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
