/* SPDX-License-Identifier: Apache-2.0 */
/* The call that begins a stream, and the table from sid_tags to sessions: uvcc/demux.h. */
#include "support.h"

#include <uvcc/demux.h>
#include <uvcc/frame.h>
#include <uvcc/host.h>

/* docs/wire/call.md's bytes are this one's. */
static const uvcc_call call = {.from = 2, .to = 0, .sid_tag = 0x8877665544332211u};

static void test_the_call_is_one_encoding(void **state) {
    (void)state;
    uint8_t bytes[UVCC_CALL_BYTES], other[UVCC_CALL_BYTES];
    uvcc_call back = {0};
    assert_int_equal(uvcc_call_encode(bytes, &call), 0);
    assert_int_equal(uvcc_call_decode(bytes, &back), 0);
    assert_int_equal(back.from, call.from);
    assert_int_equal(back.to, call.to);
    assert_true(back.sid_tag == call.sid_tag);
    assert_memory_equal(bytes, "UVC1\x01\x02\x00\x00\x11\x22\x33\x44\x55\x66\x77\x88\0\0\0\0", 20);
    for (unsigned bit = 0; bit < 8 * UVCC_CALL_BYTES; bit++) {
        memcpy(other, bytes, sizeof other);
        other[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(uvcc_call_decode(other, &back), UVCC_ERR_FRAME);
    }
}

/* A listener hangs up on what is no call as soon as that shows. */
static void test_what_may_become_a_call(void **state) {
    (void)state;
    uint8_t bytes[UVCC_CALL_BYTES];
    assert_int_equal(uvcc_call_encode(bytes, &call), 0);
    for (size_t n = 0; n <= sizeof bytes; n++)
        assert_int_equal(uvcc_call_may_be(bytes, n), 0);
    for (size_t at = 0; at < 5; at++) {
        uint8_t other[UVCC_CALL_BYTES];
        memcpy(other, bytes, sizeof other);
        other[at] ^= 0x20;
        for (size_t n = 0; n <= sizeof other; n++)
            assert_int_equal(uvcc_call_may_be(other, n), n > at ? UVCC_ERR_FRAME : 0);
    }
}

static void test_calls_that_cannot_be(void **state) {
    (void)state;
    uint8_t bytes[UVCC_CALL_BYTES];
    assert_int_equal(uvcc_call_encode(bytes, &(uvcc_call){.from = 1, .to = 1, .sid_tag = 1}),
                     UVCC_ERR_USAGE);
    assert_int_equal(uvcc_call_encode(bytes, &(uvcc_call){.from = 3, .to = 1, .sid_tag = 1}),
                     UVCC_ERR_USAGE);
    assert_int_equal(uvcc_call_encode(bytes, &(uvcc_call){.from = 1, .to = 3, .sid_tag = 1}),
                     UVCC_ERR_USAGE);
    assert_int_equal(uvcc_call_encode(bytes, &(uvcc_call){.from = 1, .to = 0, .sid_tag = 0}),
                     UVCC_ERR_USAGE);
}

/* Against a plain array, with tags that crowd each other. */
static void test_the_table_against_an_array(void **state) {
    (void)state;
    enum { TAGS = 96 };
    static uint64_t tag[TAGS];
    static int thing[TAGS];
    bool in[TAGS] = {false};
    uint32_t count = 0;
    uint64_t dice = 7;
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_demux *d = NULL;
    assert_int_equal(uvcc_demux_new(&d, &al), 0);
    for (unsigned i = 0; i < TAGS; i++)
        tag[i] = i % 3 == 0 ? i + 1 : (uint64_t)(i + 1) << (i % 3 == 1 ? 32 : 60) | (i + 1);
    for (unsigned turn = 0; turn < 20000; turn++) {
        dice = dice * 6364136223846793005u + 1442695040888963407u;
        const unsigned i = (unsigned)(dice >> 33) % TAGS;
        if ((dice >> 62) != 0 && turn / 500 % 2 == 0) {
            assert_int_equal(uvcc_demux_add(d, tag[i], &thing[i]), in[i] ? UVCC_ERR_STATE : 0);
            count += !in[i];
            in[i] = true;
        } else {
            assert_int_equal(uvcc_demux_remove(d, tag[i]), in[i] ? 0 : UVCC_ERR_NOT_FOUND);
            count -= in[i];
            in[i] = false;
        }
        assert_int_equal(uvcc_demux_count(d), count);
        if (turn % 16 == 0)
            for (unsigned k = 0; k < TAGS; k++)
                assert_ptr_equal(uvcc_demux_find(d, tag[k]), in[k] ? (void *)&thing[k] : NULL);
    }
    uvcc_demux_free(d);
}

static void test_packets(void **state) {
    (void)state;
    uint8_t bytes[UVCC_FRAME_HEADER_BYTES] = {'U', 'V', 'F', '1', 1};
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_demux *d = NULL;
    int mine = 0;
    assert_int_equal(uvcc_demux_new(&d, &al), 0);
    bytes[8] = 5;
    assert_null(uvcc_demux_packet(d, bytes, sizeof bytes));
    assert_int_equal(uvcc_demux_add(d, 5, &mine), 0);
    assert_ptr_equal(uvcc_demux_packet(d, bytes, sizeof bytes), &mine);
    assert_null(uvcc_demux_packet(d, bytes, sizeof bytes - 1));
    bytes[0] = 'u';
    assert_null(uvcc_demux_packet(d, bytes, sizeof bytes));
    assert_int_equal(uvcc_demux_add(d, 0, &mine), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_demux_add(d, 1, NULL), UVCC_ERR_USAGE);
    uvcc_demux_free(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_call_is_one_encoding),
        cmocka_unit_test(test_what_may_become_a_call),
        cmocka_unit_test(test_calls_that_cannot_be),
        cmocka_unit_test(test_the_table_against_an_array),
        cmocka_unit_test(test_packets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
