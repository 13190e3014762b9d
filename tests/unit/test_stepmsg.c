/* SPDX-License-Identifier: Apache-2.0 */
/* STEP, AUDIT and BYE payloads: round trips, every wrong length, too many shapes, hashes of shapes.
 */
#include "support.h"

#include "proto/bytes.h"
#include "proto/crypto.h"
#include "proto/stepmsg.h"

static uvcci_step_msg sample_step(uint16_t shapes) {
    uvcci_step_msg m;
    uint64_t seed = 40 + shapes;
    memset(&m, 0, sizeof m);
    m.step = (uint32_t)test_rand(&seed);
    test_rand_bytes(&seed, m.h_program, 32);
    test_rand_bytes(&seed, m.h_optable, 32);
    test_rand_bytes(&seed, m.lineage, 32);
    test_rand_bytes(&seed, m.h_given, 32);
    test_rand_bytes(&seed, m.h_shapes, 32);
    m.shape_count = shapes;
    for (unsigned i = 0; i < shapes && i < UVCCI_SHAPES_MAX; i++)
        m.shapes[i] = (uvcci_shape){(uint32_t)test_rand(&seed), (uint32_t)test_rand(&seed),
                                    (uint32_t)test_rand(&seed)};
    return m;
}

static void check_same_step(const uvcci_step_msg *a, const uvcci_step_msg *b) {
    assert_int_equal(a->step, b->step);
    assert_memory_equal(a->lineage, b->lineage, 32);
    assert_memory_equal(a->h_program, b->h_program, 32);
    assert_memory_equal(a->h_optable, b->h_optable, 32);
    assert_memory_equal(a->h_given, b->h_given, 32);
    assert_int_equal(a->shape_count, b->shape_count);
    if (a->shape_count > UVCCI_SHAPES_MAX)
        assert_memory_equal(a->h_shapes, b->h_shapes, 32);
    else
        assert_memory_equal(a->shapes, b->shapes, a->shape_count * sizeof a->shapes[0]);
}

/* Copies of exactly n bytes, so that a sanitizer sees any read past the end. */
static int decode_step(uvcci_step_msg *m, const uint8_t *in, size_t n) {
    uint8_t *exact = malloc(n != 0 ? n : 1);
    assert_non_null(exact);
    memcpy(exact, in, n);
    int rc = uvcci_step_decode(m, exact, n);
    free(exact);
    return rc;
}

static void step_round_trips(void **state) {
    (void)state;
    uint8_t buf[UVCCI_STEP_MAX_BYTES + 1];
    for (uint16_t shapes = 0; shapes <= UVCCI_SHAPES_MAX; shapes++) {
        uvcci_step_msg m = sample_step(shapes), got;
        int len = uvcci_step_encode(&m, buf, sizeof buf);
        assert_int_equal(len, 134 + 12 * shapes);
        assert_int_equal(decode_step(&got, buf, (size_t)len), 0);
        check_same_step(&m, &got);
    }
    static const uint16_t many[] = {65, 128, 4096, 65535}; /* their hash instead of them */
    for (size_t i = 0; i < sizeof many / sizeof many[0]; i++) {
        uvcci_step_msg m = sample_step(many[i]), got;
        assert_int_equal(uvcci_step_encode(&m, buf, sizeof buf), 134 + 32);
        assert_int_equal(uvcci_ld16(buf + 132), many[i]);
        assert_memory_equal(buf + 134, m.h_shapes, 32);
        assert_int_equal(decode_step(&got, buf, 134 + 32), 0);
        check_same_step(&m, &got);
    }
}

/* Layout of wire.md 2, byte for byte. */
static void step_layout(void **state) {
    (void)state;
    uint8_t buf[UVCCI_STEP_MAX_BYTES];
    static const uint8_t tail[] = {1, 0, 0x44, 0x33, 0x22, 0x11, 5, 0, 0, 0, 7, 0, 0, 0};
    uvcci_step_msg m = sample_step(1);
    m.step = 0x01020304;
    m.shapes[0] = (uvcci_shape){0x11223344, 5, 7};
    assert_int_equal(uvcci_step_encode(&m, buf, sizeof buf), 146);
    assert_memory_equal(buf, "\x04\x03\x02\x01", 4);
    assert_memory_equal(buf + 4, m.lineage, 32);
    assert_memory_equal(buf + 36, m.h_program, 32);
    assert_memory_equal(buf + 68, m.h_optable, 32);
    assert_memory_equal(buf + 100, m.h_given, 32);
    assert_memory_equal(buf + 132, tail, sizeof tail);
}

static void step_of_another_length_is_refused(void **state) {
    (void)state;
    uint8_t buf[UVCCI_STEP_MAX_BYTES + 13] = {0};
    static const uint16_t counts[] = {0, 1, 2, 63, 64, 65, 65535};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        uvcci_step_msg m = sample_step(counts[c]), got = sample_step(3), before = got;
        int len = uvcci_step_encode(&m, buf, sizeof buf);
        assert_true(len > 0);
        for (size_t n = 0; n < sizeof buf; n++)
            if (n != (size_t)len)
                assert_int_equal(decode_step(&got, buf, n), UVCC_ERR_BATCH);
        check_same_step(&got, &before);
        for (size_t cap = 0; cap < (size_t)len; cap++)
            assert_int_equal(uvcci_step_encode(&m, buf, cap), UVCC_ERR_USAGE);
    }
}

/* A list of more than 64 is refused though its length fits the count. */
static void step_with_too_many_shapes_is_refused(void **state) {
    (void)state;
    uvcci_step_msg m = sample_step(64), got;
    size_t cap = 134 + 12 * (size_t)65535;
    uint8_t *buf = calloc(1, cap);
    assert_non_null(buf);
    assert_true(uvcci_step_encode(&m, buf, cap) > 0);
    for (unsigned n = 65; n <= 65535; n += n < 70 ? 1 : 5039) {
        uvcci_st16(buf + 132, (uint16_t)n);
        assert_int_equal(uvcci_step_decode(&got, buf, 134 + 12 * (size_t)n), UVCC_ERR_BATCH);
    }
    free(buf);
}

static void shapes_hash_is_over_the_encoding(void **state) {
    (void)state;
    uint8_t buf[UVCCI_STEP_MAX_BYTES], want[32], got[32];
    uvcci_sha256 h;
    for (uint16_t n = 0; n <= UVCCI_SHAPES_MAX; n++) {
        uvcci_step_msg m = sample_step(n);
        int len = uvcci_step_encode(&m, buf, sizeof buf);
        uvcci_sha256_once(buf + 132, (size_t)len - 132, want);
        uvcci_shapes_begin(&h, n);
        for (uint16_t i = 0; i < n; i++)
            uvcci_shapes_put(&h, &m.shapes[i]);
        uvcci_sha256_final(&h, got);
        assert_memory_equal(got, want, 32);
    }
}

static void audit_codec(void **state) {
    (void)state;
    uint8_t buf[UVCCI_AUDIT_BYTES + 8] = {0};
    uvcci_audit_msg_t m, got, before;
    uint64_t seed = 5;
    for (uint8_t party = 0; party < 3; party++) {
        memset(&m, 0, sizeof m);
        m.party = party;
        m.step = 0x0A0B0C0D;
        test_rand_bytes(&seed, m.global_root, 32);
        test_rand_bytes(&seed, m.audit_root, 32);
        test_rand_bytes(&seed, m.before, 32);
        test_rand_bytes(&seed, m.signature, 64);
        assert_int_equal(uvcci_audit_encode(&m, buf, UVCCI_AUDIT_BYTES), 165);
        assert_int_equal(buf[0], party);
        assert_memory_equal(buf + 1, "\x0D\x0C\x0B\x0A", 4);
        assert_memory_equal(buf + 5, m.global_root, 32);
        assert_memory_equal(buf + 37, m.audit_root, 32);
        assert_memory_equal(buf + 69, m.before, 32);
        assert_memory_equal(buf + 101, m.signature, 64);
        memset(&got, 0, sizeof got);
        assert_int_equal(uvcci_audit_decode(&got, buf, UVCCI_AUDIT_BYTES), 0);
        assert_memory_equal(&got, &m, sizeof m);
        before = got;
        for (size_t n = 0; n <= sizeof buf; n++)
            if (n != UVCCI_AUDIT_BYTES)
                assert_int_equal(uvcci_audit_decode(&got, buf, n), UVCC_ERR_BATCH);
        for (size_t cap = 0; cap < UVCCI_AUDIT_BYTES; cap++)
            assert_int_equal(uvcci_audit_encode(&m, buf, cap), UVCC_ERR_USAGE);
        for (unsigned other = 3; other < 256; other++) {
            buf[0] = (uint8_t)other;
            assert_int_equal(uvcci_audit_decode(&got, buf, UVCCI_AUDIT_BYTES), UVCC_ERR_BATCH);
        }
        assert_memory_equal(&got, &before, sizeof got);
    }
    m.party = 3;
    assert_int_equal(uvcci_audit_encode(&m, buf, sizeof buf), UVCC_ERR_USAGE);
}

static void bye_codec(void **state) {
    (void)state;
    uint8_t buf[4] = {0};
    for (unsigned reason = 0; reason < 65536; reason++) {
        uint16_t got = 0;
        assert_int_equal(uvcci_bye_encode((uint16_t)reason, buf, 2), 2);
        assert_int_equal(buf[0] | buf[1] << 8, reason);
        assert_int_equal(uvcci_bye_decode(&got, buf, 2), 0);
        assert_int_equal(got, reason);
    }
    uint16_t got = 7;
    for (size_t n = 0; n <= sizeof buf; n++)
        if (n != 2)
            assert_int_equal(uvcci_bye_decode(&got, buf, n), UVCC_ERR_BATCH);
    assert_int_equal(got, 7);
    assert_int_equal(uvcci_bye_encode(1, buf, 1), UVCC_ERR_USAGE);
    assert_int_equal(uvcci_bye_encode(1, buf, 0), UVCC_ERR_USAGE);
}

static void cancel_codec(void **state) {
    (void)state;
    uint8_t buf[8];
    for (unsigned vote = 0; vote < 256; vote++) {
        const uvcci_cancel_msg m = {.vote = (uint8_t)vote, .step = 0x0A0B0C0D};
        uvcci_cancel_msg got = {.step = 7};
        const bool good = vote >= 1 && vote <= 3;
        assert_int_equal(uvcci_cancel_encode(&m, buf, sizeof buf), good ? 5 : UVCC_ERR_USAGE);
        if (good)
            assert_memory_equal(buf + 1, "\x0D\x0C\x0B\x0A", 4);
        buf[0] = (uint8_t)vote;
        assert_int_equal(uvcci_cancel_decode(&got, buf, 5), good ? 0 : UVCC_ERR_BATCH);
        assert_int_equal(got.step, good ? m.step : 7);
        for (size_t n = 0; n <= sizeof buf; n++)
            if (n != 5)
                assert_int_equal(uvcci_cancel_decode(&got, buf, n), UVCC_ERR_BATCH);
        for (size_t cap = 0; cap < 5; cap++)
            assert_int_equal(uvcci_cancel_encode(&m, buf, cap), UVCC_ERR_USAGE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_round_trips),
        cmocka_unit_test(step_layout),
        cmocka_unit_test(step_of_another_length_is_refused),
        cmocka_unit_test(step_with_too_many_shapes_is_refused),
        cmocka_unit_test(shapes_hash_is_over_the_encoding),
        cmocka_unit_test(audit_codec),
        cmocka_unit_test(bye_codec),
        cmocka_unit_test(cancel_codec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
