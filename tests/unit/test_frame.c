/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <uvcc/frame.h>

#include "proto/bytes.h"

/* A copy at the end of an exactly sized block, so that a sanitizer sees any read past it. */
static uint8_t *exact(const uint8_t *p, size_t n) {
    uint8_t *q = malloc(n == 0 ? 1 : n);
    assert_non_null(q);
    if (n != 0)
        memcpy(q, p, n);
    return n == 0 ? q + 1 : q;
}
static void exact_free(uint8_t *q, size_t n) {
    free(n == 0 ? q - 1 : q);
}

static ptrdiff_t decode_exact(const uint8_t *p, size_t n, uvcc_frame_header *h, const char **why) {
    uint8_t *q = exact(p, n);
    const uint8_t *payload = NULL;
    ptrdiff_t got = uvcc_frame_decode(q, n, h, &payload, why);
    if (got > 0) {
        assert_true((size_t)got <= n);
        assert_ptr_equal(payload, q + UVCC_FRAME_HEADER_BYTES);
    } else {
        assert_null(payload);
    }
    exact_free(q, n);
    return got;
}

/* The frame of vector v, built from the described payload where only the header is given. */
static size_t vector_frame(const json_t *v, uint8_t **out) {
    if (json_object_get(v, "frame") != NULL)
        return test_hex(test_str(v, "frame"), out);
    uint8_t header[UVCC_FRAME_HEADER_BYTES];
    test_hex_n(test_str(v, "header"), header, sizeof header);
    uint32_t offset = uvcci_ld32(header + 44), n = uvcci_ld32(header + 48);
    *out = malloc(sizeof header + n);
    assert_non_null(*out);
    memcpy(*out, header, sizeof header);
    for (uint32_t i = 0; i < n; i++)
        (*out)[sizeof header + i] = (uint8_t)(31 * (offset + i) + 7);
    return sizeof header + n;
}

static void fix_crc(uint8_t *frame, size_t len) {
    uvcci_st32(frame + 60, uvcc_frame_crc(frame, frame + 64, len - 64));
}

static void accepts_vectors(void **state) {
    (void)state;
    json_t *j = LOAD_VECTORS("frame.json"), *v;
    size_t i;
    assert_int_equal(test_u64(j, "header_bytes"), UVCC_FRAME_HEADER_BYTES);
    json_array_foreach(json_object_get(j, "vectors"), i, v) {
        uint8_t *f;
        size_t n = vector_frame(v, &f);
        uvcc_frame_header h;
        const char *why = NULL;
        if (decode_exact(f, n, &h, &why) != (ptrdiff_t)n)
            fail_msg("%s refused: %s", test_str(v, "name"), why);
        assert_int_equal(h.crc32, test_hex64(test_str(v, "crc32")));
        uint8_t again[UVCC_FRAME_HEADER_BYTES];
        uvcc_frame_encode_header(&h, again);
        assert_memory_equal(again, f, sizeof again);
        free(f);
    }
    json_decref(j);
}

static void reads_fields(void **state) {
    (void)state;
    json_t *j = LOAD_VECTORS("frame.json");
    uint8_t *f;
    size_t n = vector_frame(json_array_get(json_object_get(j, "vectors"), 2), &f);
    uvcc_frame_header h;
    assert_int_equal(decode_exact(f, n, &h, NULL), n);
    assert_int_equal(h.kind, UVCC_FRAME_LIFT_BATCH);
    assert_int_equal(h.src, 1);
    assert_int_equal(h.dst, 2);
    assert_int_equal(h.flags, 0);
    assert_true(h.sid_tag == UINT64_C(0x0ed63c5610e1107b));
    assert_true(h.seq == 8);
    assert_int_equal(h.step, 3);
    assert_int_equal(h.op_id, 0x11223344);
    assert_int_equal(h.msg_id, 0xed23ad38);
    assert_int_equal(h.chunk_idx, 0);
    assert_int_equal(h.chunk_cnt, 1);
    assert_int_equal(h.msg_len, 0x44);
    assert_int_equal(h.offset, 0x28);
    assert_int_equal(h.payload_len, 0x1c);
    assert_true(h.ack == 0x63);
    free(f);
    json_decref(j);
}

static void refuses_vectors(void **state) {
    (void)state;
    json_t *j = LOAD_VECTORS("frame.json"), *v;
    size_t i;
    json_array_foreach(json_object_get(j, "reject"), i, v) {
        const char *name = test_str(v, "name"), *why = NULL;
        uint8_t *f;
        size_t n = vector_frame(v, &f);
        uvcc_frame_header h, before;
        memset(&h, 0xA5, sizeof h);
        before = h;
        ptrdiff_t got = decode_exact(f, n, &h, &why);
        if (strcmp(name, "ack_on_self_sid") == 0) {
            /* Whose sid it is only a session knows: to the codec this frame is good. */
            assert_int_equal(got, n);
            assert_true(h.sid_tag == 0);
        } else {
            if (got != UVCC_ERR_FRAME)
                fail_msg("%s: %td instead of a refusal", name, got);
            assert_non_null(why);
            assert_memory_equal(&h, &before, sizeof h);
        }
        free(f);
    }
    json_decref(j);
}

/* Any cut of a frame asks for more; bytes that follow a frame do not matter. */
static void every_split(void **state) {
    (void)state;
    json_t *j = LOAD_VECTORS("frame.json"), *v;
    size_t i;
    json_array_foreach(json_object_get(j, "vectors"), i, v) {
        uint8_t *f;
        size_t n = vector_frame(v, &f);
        uvcc_frame_header h;
        size_t stride = n > 4096 ? 4099 : 1;
        for (size_t cut = 0; cut < n; cut += cut < 128 ? 1 : stride)
            assert_int_equal(decode_exact(f, cut, &h, NULL), 0);
        assert_int_equal(decode_exact(f, n - 1, &h, NULL), 0);
        uint8_t *two = malloc(2 * n);
        assert_non_null(two);
        memcpy(two, f, n);
        memcpy(two + n, f, n);
        for (size_t len = n; len <= 2 * n; len += len < n + 128 ? 1 : stride)
            assert_int_equal(decode_exact(two, len, &h, NULL), n);
        free(two);
        free(f);
    }
    json_decref(j);
}

/* A flipped bit is refused, or makes the frame longer than what is there; never accepted. */
static void every_bit_flip(void **state) {
    (void)state;
    json_t *j = LOAD_VECTORS("frame.json"), *v;
    size_t i;
    json_array_foreach(json_object_get(j, "vectors"), i, v) {
        uint8_t *f;
        size_t n = vector_frame(v, &f);
        uvcc_frame_header h;
        const uint8_t *payload;
        /* A flip in a chunk of 1 MiB costs a CRC of it: all header bits, and some of the payload.
         */
        size_t stride = n > 4096 ? 99991 : 1;
        for (size_t at = 0; at < n; at += at < 128 ? 1 : stride) {
            for (int bit = 0; bit < 8; bit++) {
                f[at] ^= (uint8_t)(1 << bit);
                ptrdiff_t got = uvcc_frame_decode(f, n, &h, &payload, NULL);
                assert_true(got == UVCC_ERR_FRAME || (got == 0 && at >= 48 && at < 52));
                f[at] ^= (uint8_t)(1 << bit);
            }
        }
        free(f);
    }
    json_decref(j);
}

/* A changed field with the CRC made right: what is accepted encodes to the same bytes, and the
 * fields that have one right value are refused whatever else they hold. */
static void flips_with_good_crc(void **state) {
    (void)state;
    json_t *j = LOAD_VECTORS("frame.json");
    uint8_t *f;
    size_t n = vector_frame(json_array_get(json_object_get(j, "vectors"), 0), &f);
    for (size_t at = 0; at < 60; at++) {
        for (int bit = 0; bit < 8; bit++) {
            uint8_t g[256];
            memcpy(g, f, n);
            g[at] ^= (uint8_t)(1 << bit);
            fix_crc(g, n);
            uvcc_frame_header h;
            ptrdiff_t got = decode_exact(g, n, &h, NULL);
            bool fixed = at < 5 || (at >= 36 && at < 40) || (at >= 44 && at < 52);
            if (fixed)
                assert_true(got == UVCC_ERR_FRAME);
            if (got > 0) {
                uint8_t again[64];
                uvcc_frame_encode_header(&h, again);
                assert_memory_equal(again, g, 64);
            }
        }
    }
    free(f);
    json_decref(j);
}

static uvcc_frame_header whole(uint8_t kind, uint32_t msg_len) {
    uvcc_frame_header h = {.kind = kind,
                           .src = 0,
                           .dst = 1,
                           .seq = 1,
                           .chunk_cnt = 1,
                           .msg_len = msg_len,
                           .payload_len = msg_len};
    if (uvcc_frame_kind_class(kind) == UVCC_CLASS_CONTROL)
        h.seq = 0;
    return h;
}

static int check(const uvcc_frame_header *h) {
    uint8_t b[UVCC_FRAME_HEADER_BYTES];
    uvcc_frame_encode_header(h, b);
    uint8_t *q = exact(b, sizeof b);
    uvcc_frame_header out;
    int err = uvcc_frame_decode_header(q, &out, NULL);
    if (err == 0) {
        assert_int_equal(out.payload_len, h->payload_len);
        assert_int_equal(out.offset, h->offset);
    }
    exact_free(q, sizeof b);
    return err;
}
#define GOOD(h) assert_int_equal(check(h), 0)
#define BAD(h)  assert_int_equal(check(h), UVCC_ERR_FRAME)

static void kinds(void **state) {
    (void)state;
    for (unsigned k = 0; k < 256; k++) {
        uvcc_frame_header h = whole((uint8_t)k, 5);
        bool known = k >= 0x60 && k <= 0x6B;
        assert_int_equal(check(&h), known ? 0 : UVCC_ERR_FRAME);
        assert_int_equal(uvcc_frame_kind_name((uint8_t)k) != NULL, known);
        assert_int_equal(uvcc_frame_kind_label((uint8_t)k) != NULL, known);
        int cls = uvcc_frame_kind_class((uint8_t)k);
        if (!known) {
            assert_int_equal(cls, UVCC_ERR_NOT_FOUND);
            continue;
        }
        bool control = k == 0x60 || k == 0x61 || k == 0x63;
        assert_int_equal(cls, control     ? UVCC_CLASS_CONTROL
                              : k == 0x68 ? UVCC_CLASS_KEYS
                                          : UVCC_CLASS_ONLINE);
        assert_int_equal(uvcc_frame_kind_label((uint8_t)k)[0] == '\0', control);
        h.seq = control ? 1 : 0;
        BAD(&h);
    }
    assert_string_equal(uvcc_frame_kind_name(UVCC_FRAME_OPEN_BATCH), "OPEN_BATCH");
    assert_string_equal(uvcc_frame_kind_label(UVCC_FRAME_KEYS_BATCH), "UVCC_MSGID_KEYSBATCH_V1");
}

static void routes_and_flags(void **state) {
    (void)state;
    for (unsigned src = 0; src < 16; src++)
        for (unsigned dst = 0; dst < 16; dst++) {
            uvcc_frame_header h = whole(UVCC_FRAME_STEP, 9);
            h.src = (uint8_t)src;
            h.dst = (uint8_t)dst;
            assert_int_equal(check(&h) == 0, src < 3 && dst < 3 && src != dst);
        }
    for (unsigned flags = 0; flags < 256; flags++) {
        uvcc_frame_header h = whole(UVCC_FRAME_STEP, 9);
        h.flags = (uint8_t)flags;
        h.payload_len += flags == UVCC_FRAME_SEALED ? UVCC_FRAME_SEAL_BYTES : 0;
        assert_int_equal(check(&h) == 0, flags <= UVCC_FRAME_SEALED);
    }
}

static void seqs(void **state) {
    (void)state;
    uvcc_frame_header h = whole(UVCC_FRAME_OPEN_BATCH, 9);
    static const uint64_t good[] = {1, (UINT64_C(1) << 40) - 1, (UINT64_C(1) << 40) + 1,
                                    UINT64_MAX};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        h.seq = good[i];
        GOOD(&h);
    }
    /* The counter of a run begins at 1. */
    h.seq = 0;
    BAD(&h);
    h.seq = UINT64_C(7) << 40;
    BAD(&h);
    h = whole(UVCC_FRAME_PING, 9);
    h.seq = UINT64_C(7) << 40;
    BAD(&h);
}

static void op_ids(void **state) {
    (void)state;
    for (unsigned k = 0x60; k <= 0x6B; k++) {
        uvcc_frame_header h = whole((uint8_t)k, 9);
        h.op_id = 1;
        bool batch = k >= 0x65 && k != UVCC_FRAME_AUDIT && k != UVCC_FRAME_CANCEL;
        assert_int_equal(check(&h) == 0, batch);
        h.op_id = 0;
        h.msg_id = 1;
        assert_int_equal(check(&h) == 0, uvcc_frame_kind_class((uint8_t)k) != UVCC_CLASS_CONTROL);
    }
}

static void chunk_arithmetic(void **state) {
    (void)state;
    const uint32_t C = UVCC_CHUNK_BYTES;
    uvcc_frame_header h = whole(UVCC_FRAME_KEYS_BATCH, 2 * C + 5);
    h.chunk_cnt = 3;

    /* Every chunk whole; the last is short. */
    for (uint16_t c = 0; c < 3; c++) {
        h.chunk_idx = c;
        h.offset = c * C;
        h.payload_len = c < 2 ? C : 5;
        GOOD(&h);
        h.payload_len++; /* crosses the chunk's or the message's end */
        BAD(&h);
        h.payload_len--;
        h.offset++;
        BAD(&h);
        h.payload_len--;
        GOOD(&h); /* a piece that is not at the chunk's begin */
        h.offset = c * C;
        h.payload_len = 1;
        GOOD(&h);
        h.payload_len = 0;
        BAD(&h);
    }
    h.payload_len = 1;
    h.offset = 2 * C;
    static const uint16_t idx[] = {0, 1, 3, 4, 0x8002, UINT16_MAX};
    for (size_t i = 0; i < 6; i++) {
        h.chunk_idx = idx[i];
        BAD(&h);
    }
    h.chunk_idx = 2;
    static const uint16_t cnt[] = {0, 1, 2, 4, 0x8003, UINT16_MAX};
    for (size_t i = 0; i < 6; i++) {
        h.chunk_cnt = cnt[i];
        BAD(&h);
    }
    h.chunk_cnt = 3;
    GOOD(&h);

    /* chunk_idx << 20 overflows 32 bits while each field alone is legal. */
    h = whole(UVCC_FRAME_KEYS_BATCH, 5);
    h.chunk_idx = 0x1000;
    BAD(&h);

    h = whole(UVCC_FRAME_KEYS_BATCH, C);
    GOOD(&h);
    h = whole(UVCC_FRAME_KEYS_BATCH, C + 1);
    h.chunk_cnt = 2;
    h.payload_len = C;
    GOOD(&h);
    h.chunk_cnt = 1;
    BAD(&h);
}

static void message_limits(void **state) {
    (void)state;
    uvcc_frame_header h = whole(UVCC_FRAME_KEYS_BATCH, UVCC_MSG_MAX_BYTES);
    h.chunk_cnt = UVCC_MSG_MAX_CHUNKS;
    h.payload_len = 100;
    GOOD(&h);
    h.chunk_idx = UVCC_MSG_MAX_CHUNKS - 1;
    h.offset = UVCC_MSG_MAX_BYTES - 100;
    GOOD(&h);
    h.msg_len++;
    h.chunk_cnt++;
    BAD(&h);
    h.msg_len = UINT32_MAX;
    h.chunk_cnt = 4096;
    BAD(&h);
    h.chunk_cnt = 0; /* ceil without care for the carry gives 0 */
    BAD(&h);

    /* An empty message is one empty piece. */
    h = whole(UVCC_FRAME_OPEN_BATCH, 0);
    GOOD(&h);
    h.chunk_cnt = 0;
    BAD(&h);
    h.chunk_cnt = 1;
    h.offset = 1;
    BAD(&h);
    h.offset = UVCC_CHUNK_BYTES;
    h.chunk_idx = 1;
    BAD(&h);
}

static void length_extremes(void **state) {
    (void)state;
    static const uint32_t extreme[] = {0,          1,          67,         69,         15,
                                       16,         17,         39,         40,         1u << 20,
                                       0x7FFFFFFF, 0x80000000, 0xFFFFFFBB, 0xFFFFFFF0, UINT32_MAX};
    enum { N = sizeof extreme / sizeof *extreme };
    for (size_t sealed = 0; sealed < 2; sealed++)
        for (size_t a = 0; a < N; a++)
            for (size_t b = 0; b < N; b++)
                for (size_t c = 0; c < N; c++) {
                    uvcc_frame_header h = whole(UVCC_FRAME_OPEN_BATCH, 0);
                    h.flags = (uint8_t)sealed;
                    h.msg_len = extreme[a];
                    h.offset = extreme[b];
                    h.payload_len = extreme[c];
                    h.chunk_idx = (uint16_t)(h.offset >> 20);
                    uint64_t chunks = ((uint64_t)h.msg_len + (1u << 20) - 1) >> 20;
                    h.chunk_cnt = (uint16_t)(chunks == 0 ? 1 : chunks);
                    int64_t piece = (int64_t)h.payload_len - (sealed ? 16 : 0);
                    bool ok = piece >= 0 && h.msg_len <= UVCC_MSG_MAX_BYTES &&
                              (uint64_t)h.offset + (uint64_t)piece <= h.msg_len &&
                              (piece > 0 || h.msg_len == 0) &&
                              h.offset % (1u << 20) + (uint64_t)piece <= 1u << 20;
                    assert_int_equal(check(&h) == 0, ok);
                }
}

static void sealed_lengths(void **state) {
    (void)state;
    uvcc_frame_header h = whole(UVCC_FRAME_OPEN_BATCH, 68);
    h.flags = UVCC_FRAME_SEALED;
    GOOD(&h); /* a piece of 52 bytes */
    h.payload_len = 68 + 16;
    GOOD(&h);
    h.payload_len = 68 + 17;
    BAD(&h);
    h.payload_len = 16;
    BAD(&h);
    h.payload_len = 15;
    BAD(&h);
    h.msg_len = 0;
    h.payload_len = 16;
    GOOD(&h);

    h = whole(UVCC_FRAME_KEYS_BATCH, UVCC_CHUNK_BYTES);
    h.flags = UVCC_FRAME_SEALED;
    h.payload_len = UVCC_CHUNK_BYTES + 16;
    GOOD(&h);

    h = whole(UVCC_FRAME_HELLO, 33);
    h.flags = UVCC_FRAME_SEALED;
    h.payload_len = 33 + 40;
    GOOD(&h);
    h.payload_len = 33 + 39; /* a control frame is whole */
    BAD(&h);
    h.payload_len = 33 + 16;
    BAD(&h);
    h.ack = 77; /* ignored */
    h.payload_len = 33 + 40;
    GOOD(&h);

    /* A HELLO may be cut while it is not sealed; then it has an id. */
    h = whole(UVCC_FRAME_HELLO, 1724);
    h.msg_id = 7;
    BAD(&h);
    h.payload_len = 1168;
    GOOD(&h);
    h.offset = 1724 - 1168;
    GOOD(&h);
    h.offset++;
    BAD(&h);
    h.offset = 1168;
    h.payload_len = 0;
    BAD(&h);
    h.payload_len = 1;
    h.op_id = 1;
    BAD(&h);
    h.op_id = 0;
    h.flags = UVCC_FRAME_SEALED;
    h.payload_len = 41;
    BAD(&h);
    h.flags = 0;
    for (unsigned i = 0; i < 2; i++) {
        h.kind = i == 0 ? UVCC_FRAME_PING : UVCC_FRAME_ACK;
        h.payload_len = 1168;
        h.offset = 0;
        BAD(&h);
    }
}

static void sealed_vectors(void **state) {
    (void)state;
    json_t *j = LOAD_VECTORS("prg.json"), *v;
    size_t i;
    json_array_foreach(json_object_get(j, "sealed"), i, v) {
        uint8_t *f;
        size_t n = vector_frame(v, &f);
        uvcc_frame_header h;
        assert_int_equal(decode_exact(f, n, &h, NULL), n);
        assert_int_equal(h.flags, UVCC_FRAME_SEALED);
        assert_int_equal(h.payload_len, h.msg_len + UVCC_FRAME_SEAL_BYTES);
        free(f);
    }
    json_decref(j);
}

/* Random headers: whatever is accepted encodes to the same bytes. */
static void random_round_trip(void **state) {
    (void)state;
    uint64_t seed = 1;
    unsigned accepted = 0;
    for (int i = 0; i < 200000; i++) {
        uvcc_frame_header h =
            whole((uint8_t)(0x5F + test_rand(&seed) % 13), (uint32_t)(test_rand(&seed) % 3000000));
        h.chunk_cnt = (uint16_t)(test_rand(&seed) % 4);
        h.chunk_idx = (uint16_t)(test_rand(&seed) % 3);
        h.offset = h.chunk_idx * UVCC_CHUNK_BYTES + (uint32_t)(test_rand(&seed) % 1000);
        h.payload_len = (uint32_t)(test_rand(&seed) % 2000);
        h.sid_tag = test_rand(&seed);
        h.ack = test_rand(&seed);
        h.step = (uint32_t)test_rand(&seed);
        h.msg_id = (uint32_t)test_rand(&seed);
        h.crc32 = (uint32_t)test_rand(&seed);
        uint8_t b[64], again[64];
        uvcc_frame_encode_header(&h, b);
        uvcc_frame_header out;
        if (uvcc_frame_decode_header(b, &out, NULL) != 0)
            continue;
        accepted++;
        uvcc_frame_encode_header(&out, again);
        assert_memory_equal(b, again, sizeof b);
    }
    assert_true(accepted > 1000);
}

/* The tag is told of a frame's beginning alone, and of nothing else. */
static void test_peek(void **state) {
    (void)state;
    const uvcc_frame_header h = {.kind = UVCC_FRAME_PING, .sid_tag = 0x0123456789abcdefull};
    uint8_t b[UVCC_FRAME_HEADER_BYTES + 1] = {0};
    uint64_t tag = 7;
    uvcc_frame_encode_header(&h, b);
    assert_int_equal(uvcc_frame_peek_sid_tag(b, sizeof b, &tag), 0);
    assert_true(tag == h.sid_tag);
    tag = 7;
    assert_int_equal(uvcc_frame_peek_sid_tag(b, UVCC_FRAME_HEADER_BYTES - 1, &tag), UVCC_ERR_FRAME);
    assert_int_equal(uvcc_frame_peek_sid_tag(NULL, sizeof b, &tag), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_frame_peek_sid_tag(b, sizeof b, NULL), UVCC_ERR_USAGE);
    for (unsigned i = 0; i < 5; i++) { /* magic, version */
        b[i] ^= 1;
        assert_int_equal(uvcc_frame_peek_sid_tag(b, sizeof b, &tag), UVCC_ERR_FRAME);
        b[i] ^= 1;
    }
    assert_int_equal(tag, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peek),
        cmocka_unit_test(accepts_vectors),
        cmocka_unit_test(reads_fields),
        cmocka_unit_test(refuses_vectors),
        cmocka_unit_test(every_split),
        cmocka_unit_test(every_bit_flip),
        cmocka_unit_test(flips_with_good_crc),
        cmocka_unit_test(kinds),
        cmocka_unit_test(routes_and_flags),
        cmocka_unit_test(seqs),
        cmocka_unit_test(op_ids),
        cmocka_unit_test(chunk_arithmetic),
        cmocka_unit_test(message_limits),
        cmocka_unit_test(length_extremes),
        cmocka_unit_test(sealed_lengths),
        cmocka_unit_test(sealed_vectors),
        cmocka_unit_test(random_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
