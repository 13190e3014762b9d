/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <uvcc/blv1.h>

#include "proto/bytes.h"
#include "proto/crypto.h"

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

/* Checks a copy at the end of an exactly sized block, so that a sanitizer sees any read past it. */
static int64_t check_exact(const uint8_t *p, size_t n, const char **why) {
    uint8_t *q = malloc(n + 1);
    assert_non_null(q);
    memcpy(q + 1, p, n);
    int64_t got = uvcc_blv1_check(q + 1, n, why);
    free(q);
    return got;
}

/* Reads an accepted batch TLV by TLV and writes it again into `out` of the same size. */
static void copy_batch(const uint8_t *in, size_t len, uint8_t *out) {
    uvcc_blv1_reader r;
    uvcc_blv1_writer w;
    uvcc_tlv t;
    uvcc_blv1_reader_init(&r, in, len);
    assert_int_equal(uvcc_blv1_begin(&w, out, len), 0);
    while (uvcc_blv1_next(&r, &t)) {
        assert_true(t.data >= in && t.data + t.data_len <= in + len);
        assert_int_equal(uvcc_blv1_put(&w, &t, NULL), 0);
    }
    assert_int_equal(uvcc_blv1_end(&w), len);
}

static void assert_round_trip(const uint8_t *in, size_t len) {
    uint8_t *src = malloc(len), *dst = malloc(len);
    assert_non_null(src);
    assert_non_null(dst);
    memcpy(src, in, len);
    memset(dst, 0xEE, len);
    copy_batch(src, len, dst);
    assert_memory_equal(src, dst, len);
    free(src);
    free(dst);
}

static size_t lift_q4096(uint8_t *out, size_t cap) {
    uvcc_blv1_writer w;
    uvcc_tlv t = {.type = UVCC_TLV_LIFT_M_U64VEC,
                  .id = UINT64_C(0x1122334455667788),
                  .aux = 1,
                  .bits = 64,
                  .count = 4096};
    uint8_t *span = NULL;
    assert_int_equal(uvcc_blv1_begin(&w, out, cap), 0);
    assert_int_equal(uvcc_blv1_put(&w, &t, &span), 0);
    for (uint64_t i = 0; i < 4096; i++)
        uvcci_st64(span + 8 * i, i * UINT64_C(0x9E3779B97F4A7C15));
    return (size_t)uvcc_blv1_end(&w);
}

static void accepts_vectors(void **state) {
    (void)state;
    json_t *j = LOAD_VECTORS("blv1.json"), *v;
    size_t i;
    static const int64_t tlvs[] = {1, 1, 3, 3, 4, 1};
    json_array_foreach(json_object_get(j, "vectors"), i, v) {
        uint8_t *p, hash[32], want[32];
        size_t n;
        if (json_object_get(v, "payload") != NULL) {
            n = test_hex(test_str(v, "payload"), &p);
        } else {
            n = test_u64(v, "payload_len");
            p = malloc(n);
            assert_non_null(p);
            assert_int_equal(lift_q4096(p, n), n);
            uint8_t first48[48];
            test_hex_n(test_str(v, "first48"), first48, sizeof first48);
            assert_memory_equal(p, first48, sizeof first48);
        }
        uvcci_sha256_once(p, n, hash);
        test_hex_n(test_str(v, "sha256"), want, 32);
        assert_memory_equal(hash, want, 32);
        const char *why = NULL;
        int64_t got = check_exact(p, n, &why);
        if (got != tlvs[i])
            fail_msg("%s: %d, %s", test_str(v, "name"), (int)got, why == NULL ? "" : why);
        assert_round_trip(p, n);
        free(p);
    }
    assert_int_equal(i, COUNT_OF(tlvs));
    json_decref(j);
}

static void refuses_vectors(void **state) {
    (void)state;
    json_t *j = LOAD_VECTORS("blv1.json"), *v;
    size_t i;
    json_array_foreach(json_object_get(j, "reject"), i, v) {
        uint8_t *p;
        size_t n = test_hex(test_str(v, "payload"), &p);
        const char *why = NULL;
        if (check_exact(p, n, &why) != UVCC_ERR_BATCH)
            fail_msg("%s accepted", test_str(v, "name"));
        assert_non_null(why);
        free(p);
    }
    json_decref(j);
}

static uvcc_tlv tlv_of(const json_t *vectors, size_t which, size_t nth, uint8_t **owner) {
    uvcc_blv1_reader r;
    uvcc_tlv t;
    size_t n = test_hex(test_str(json_array_get(vectors, which), "payload"), owner);
    uvcc_blv1_reader_init(&r, *owner, n);
    for (size_t i = 0; i <= nth; i++)
        assert_int_equal(uvcc_blv1_next(&r, &t), 1);
    return t;
}

static void reads_members(void **state) {
    (void)state;
    json_t *j = LOAD_VECTORS("blv1.json");
    const json_t *v = json_object_get(j, "vectors");
    uint8_t *p;
    uint64_t words[9];

    uvcc_tlv t = tlv_of(v, 0, 0, &p);
    assert_int_equal(t.type, UVCC_TLV_LIFT_M_U64VEC);
    assert_true(t.id == UINT64_C(0x1122334455667788));
    assert_int_equal(t.aux, 1);
    assert_int_equal(t.bits, 64);
    assert_int_equal(t.count, 4);
    assert_int_equal(t.data_len, 32);
    assert_true(uvcci_ld64(t.data + 24) == UINT64_C(0x0123456789ABCDEF));
    free(p);

    t = tlv_of(v, 2, 1, &p);
    assert_int_equal(t.type, UVCC_TLV_LIFT_COMP_U64VEC);
    assert_true(t.id == 6 && t.aux == 0 && t.count == 1);
    free(p);
    t = tlv_of(v, 2, 2, &p);
    assert_int_equal(t.type, UVCC_TLV_LIFT_X_U64VEC);
    free(p);

    t = tlv_of(v, 3, 0, &p);
    assert_int_equal(t.type, UVCC_TLV_OPEN_VEC);
    assert_true(t.id == UINT64_C(0x0102030405060708) && t.round == 0 && t.aux == 0xFF);
    assert_true(t.bits == 64 && t.first == 0 && t.count == 2);
    uvcc_bits_unpack(t.data, t.count, t.bits, words);
    assert_true(words[0] == 1 && words[1] == UINT64_MAX);
    free(p);
    t = tlv_of(v, 3, 1, &p);
    assert_true(t.bits == 18 && t.count == 3 && t.round == 0 && t.aux == 1);
    assert_int_equal(t.data_len, 7);
    uvcc_bits_unpack(t.data, t.count, t.bits, words);
    assert_true(words[0] == 1 && words[1] == 0x3FFFF && words[2] == 0x2AAAA);
    free(p);
    t = tlv_of(v, 3, 2, &p);
    assert_true(t.bits == 1 && t.count == 9 && t.aux == 2 && t.round == 1);
    uvcc_bits_unpack(t.data, t.count, t.bits, words);
    static const uint64_t bits9[] = {1, 0, 1, 1, 0, 0, 1, 0, 1};
    assert_memory_equal(words, bits9, sizeof bits9);
    free(p);

    t = tlv_of(v, 4, 1, &p);
    assert_int_equal(t.type, UVCC_TLV_RESHARE_U64VEC);
    assert_true(t.id == 1 && t.count == 2 && t.bits == 64 && uvcci_ld64(t.data + 8) == 9);
    free(p);
    t = tlv_of(v, 4, 2, &p);
    assert_int_equal(t.type, UVCC_TLV_KEY_CHUNK);
    assert_true(t.id == 0xAABB && t.round == 3 && t.first == 0 && t.count == 9 && t.bits == 8);
    assert_memory_equal(t.data, "key bytes", 9);
    free(p);
    t = tlv_of(v, 4, 3, &p);
    assert_int_equal(t.type, UVCC_TLV_INPUT_U64VEC);
    assert_true(t.id == 5 && t.count == 2 && uvcci_ld64(t.data) == 10);
    free(p);

    t = tlv_of(v, 5, 0, &p);
    assert_true(t.type == 0x7F && t.id == 0 && t.count == 3 && t.bits == 8 && t.data_len == 3);
    assert_int_equal(t.data[2], 3);
    free(p);
    json_decref(j);
}

/* A flipped bit or a cut is refused, or the result is canonical too. */
static void every_flip_and_cut(void **state) {
    (void)state;
    json_t *j = LOAD_VECTORS("blv1.json"), *v;
    size_t i;
    json_array_foreach(json_object_get(j, "vectors"), i, v) {
        if (json_object_get(v, "payload") == NULL)
            continue;
        uint8_t *p;
        size_t n = test_hex(test_str(v, "payload"), &p);
        for (size_t cut = 0; cut < n; cut++) {
            assert_int_equal(check_exact(p, cut, NULL), UVCC_ERR_BATCH);
            /* the same with tlv_bytes made right */
            if (cut >= 16) {
                uint8_t *q = malloc(cut);
                assert_non_null(q);
                memcpy(q, p, cut);
                uvcci_st32(q + 12, (uint32_t)(cut - 16));
                assert_int_equal(check_exact(q, cut, NULL), UVCC_ERR_BATCH);
                free(q);
            }
        }
        for (size_t at = 0; at < n; at++)
            for (int bit = 0; bit < 8; bit++) {
                p[at] ^= (uint8_t)(1 << bit);
                if (check_exact(p, n, NULL) >= 0)
                    assert_round_trip(p, n);
                p[at] ^= (uint8_t)(1 << bit);
            }
        free(p);
    }
    json_decref(j);
}

/* One TLV as raw bytes in a batch. */
static int64_t check_one(uint8_t type, const uint8_t *value, size_t len) {
    size_t padded = (len + 3) & ~(size_t)3;
    uint8_t *p = calloc(1, 20 + padded);
    assert_non_null(p);
    memcpy(p, "BLV1\1", 5);
    uvcci_st32(p + 8, 1);
    uvcci_st32(p + 12, (uint32_t)(4 + padded));
    p[16] = type;
    uvcci_st16(p + 18, (uint16_t)len);
    memcpy(p + 20, value, len);
    int64_t got = check_exact(p, 20 + padded, NULL);
    free(p);
    return got;
}

static void hostile_counts(void **state) {
    (void)state;
    static uint8_t value[65535];
    static const uint32_t counts[] = {0,        1,          2,         4095,       4096,
                                      4097,     8189,       0x1000004, 0x20000001, 0x20000004,
                                      1u << 31, 0xFFFFFFFE, 0xFFFFFFFF};
    static const uint8_t types[] = {0x01, 0x02, 0x03, 0x21, 0x41};
    static const size_t at[] = {8, 8, 8, 8, 12};
    for (size_t k = 0; k < COUNT_OF(types); k++)
        for (size_t c = 0; c < COUNT_OF(counts); c++)
            for (size_t len = 0; len <= 65535; len += len < 64 ? 1 : 4093) {
                memset(value, 0, 20);
                uvcci_st32(value + at[k], counts[c]);
                bool ok = counts[c] >= 1 && counts[c] <= 4096 && len == 16 + 8 * (size_t)counts[c];
                assert_int_equal(check_one(types[k], value, len), ok ? 1 : UVCC_ERR_BATCH);
            }
    memset(value, 0, sizeof value);
    uvcci_st32(value + 8, 4096);
    assert_int_equal(check_one(UVCC_TLV_LIFT_X_U64VEC, value, 16 + 32768), 1);
    uvcci_st32(value + 8, 4097);
    assert_int_equal(check_one(UVCC_TLV_LIFT_X_U64VEC, value, 16 + 32776), UVCC_ERR_BATCH);

    /* OPEN_VEC: count * bits that wraps in 32 bits. */
    memset(value, 0, 20);
    for (unsigned bits = 0; bits < 256; bits++)
        for (size_t c = 0; c < COUNT_OF(counts); c++) {
            value[10] = (uint8_t)bits;
            value[11] = 0xFF;
            uvcci_st32(value + 16, counts[c]);
            uint64_t want = ((uint64_t)counts[c] * bits + 7) / 8;
            bool ok = counts[c] >= 1 && counts[c] <= 4096 && bits >= 1 && bits <= 64;
            size_t len = 20 + (size_t)(ok ? want : (want & 0x7FFF));
            assert_int_equal(check_one(UVCC_TLV_OPEN_VEC, value, len), ok ? 1 : UVCC_ERR_BATCH);
            assert_int_equal(check_one(UVCC_TLV_OPEN_VEC, value, len + 1), UVCC_ERR_BATCH);
            assert_int_equal(check_one(UVCC_TLV_OPEN_VEC, value, len - 1), UVCC_ERR_BATCH);
        }
}

static void hostile_places(void **state) {
    (void)state;
    uint8_t v[64 + 32768] = {0};
    static const uint32_t firsts[] = {0,     1,          4095,       4096,      32767,
                                      32768, 0xFFFFF000, 0xFFFF8000, UINT32_MAX};
    for (size_t i = 0; i < COUNT_OF(firsts); i++) {
        memset(v, 0, 32);
        uvcci_st32(v + 4, firsts[i]);
        uvcci_st32(v + 8, 1);
        assert_int_equal(check_one(0x21, v, 24), firsts[i] % 4096 == 0 ? 1 : UVCC_ERR_BATCH);
        memset(v, 0, 32);
        uvcci_st32(v + 12, firsts[i]);
        assert_int_equal(check_one(0x31, v, 17), firsts[i] % 32768 == 0 ? 1 : UVCC_ERR_BATCH);
    }
    /* The last block's end would be 2^32. */
    memset(v, 0, 32);
    uvcci_st32(v + 12, 0xFFFF8000);
    assert_int_equal(check_one(0x31, v, 16 + 32767), 1);
    assert_int_equal(check_one(0x31, v, 16 + 32768), UVCC_ERR_BATCH);
    uvcci_st32(v + 12, 0);
    assert_int_equal(check_one(0x31, v, 16 + 32768), 1);
    assert_int_equal(check_one(0x31, v, 16 + 32769), UVCC_ERR_BATCH);
    assert_int_equal(check_one(0x31, v, 16), UVCC_ERR_BATCH);

    for (unsigned target = 0; target < 256; target++) {
        memset(v, 0, 32);
        v[10] = 8;
        v[11] = (uint8_t)target;
        uvcci_st32(v + 16, 1);
        bool ok = target < 3 || (target >= 0x10 && target < 0x13) || target == 0xFF;
        assert_int_equal(check_one(0x11, v, 21), ok ? 1 : UVCC_ERR_BATCH);
    }
    for (unsigned what = 0; what < 256; what++) {
        memset(v, 0, 64);
        v[8] = (uint8_t)what;
        assert_int_equal(check_one(0x51, v, 44), what < 4 ? 1 : UVCC_ERR_BATCH);
        assert_int_equal(check_one(0x51, v, 43), UVCC_ERR_BATCH);
        assert_int_equal(check_one(0x51, v, 45), UVCC_ERR_BATCH);
    }
    /* Every reserved byte of every value. */
    static const struct {
        uint8_t type;
        size_t len, count_at, at, n;
    } reserved[] = {{0x01, 24, 8, 13, 3}, {0x02, 24, 8, 13, 3}, {0x03, 24, 8, 13, 3},
                    {0x21, 24, 8, 12, 4}, {0x31, 24, 0, 10, 2}, {0x51, 44, 0, 9, 3}};
    for (size_t i = 0; i < COUNT_OF(reserved); i++)
        for (size_t b = 0; b < reserved[i].n; b++)
            for (unsigned x = 0; x < 256; x++) {
                memset(v, 0, 64);
                if (reserved[i].count_at != 0)
                    v[reserved[i].count_at] = 1;
                v[reserved[i].at + b] = (uint8_t)x;
                assert_int_equal(check_one(reserved[i].type, v, reserved[i].len),
                                 x == 0 ? 1 : UVCC_ERR_BATCH);
            }
    /* Every unused high bit. */
    for (unsigned bits = 1; bits <= 64; bits++)
        for (unsigned count = 1; count <= 8; count++)
            for (unsigned bit = bits * count; bit % 8 != 0; bit++) {
                size_t len = 20 + (bits * count + 7) / 8;
                memset(v, 0, 20);
                memset(v + 20, 0, 64);
                v[10] = (uint8_t)bits;
                v[16] = (uint8_t)count;
                assert_int_equal(check_one(0x11, v, len), 1);
                v[20 + bit / 8] = (uint8_t)(1u << bit % 8);
                assert_int_equal(check_one(0x11, v, len), UVCC_ERR_BATCH);
            }
    /* A value that ends before its head. */
    for (unsigned type = 0; type < 256; type++)
        for (size_t len = 0; len < 20; len++) {
            memset(v, 0, 32);
            bool known = uvcc_tlv_name((uint8_t)type) != NULL;
            if (!known)
                assert_int_equal(check_one((uint8_t)type, v, len), 1);
            else if (len < (type == 0x51 ? 44 : type == 0x11 ? 20 : 16))
                assert_int_equal(check_one((uint8_t)type, v, len), UVCC_ERR_BATCH);
        }
}

static void batch_frame(void **state) {
    (void)state;
    uint8_t empty[16] = "BLV1\1";
    assert_int_equal(check_exact(empty, 16, NULL), 0);
    uvcc_blv1_reader r;
    uvcc_tlv t;
    uvcc_blv1_reader_init(&r, empty, 16);
    assert_int_equal(uvcc_blv1_next(&r, &t), 0);
    static const uint32_t counts[] = {1, 2, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        uvcci_st32(empty + 8, counts[i]);
        assert_int_equal(check_exact(empty, 16, NULL), UVCC_ERR_BATCH);
    }
    /* A TLV that overruns its batch by one, with and without padding. */
    uint8_t b[32] = "BLV1\1";
    uvcci_st32(b + 8, 1);
    b[16] = 0x7F;
    for (unsigned len = 0; len < 16; len++) {
        uvcci_st16(b + 18, (uint16_t)len);
        for (uint32_t room = 0; room <= 16; room++) {
            uvcci_st32(b + 12, room);
            bool ok = room == 4 + (len + 3) / 4 * 4;
            assert_int_equal(check_exact(b, 16 + room, NULL), ok ? 1 : UVCC_ERR_BATCH);
        }
    }
    uvcci_st32(b + 12, 4);
    uvcci_st16(b + 18, 0);
    b[17] = 1;
    assert_int_equal(check_exact(b, 20, NULL), UVCC_ERR_BATCH);
}

/* Ascending TLVs: each differs from the one before in one sort key. */
static const uvcc_tlv ORDERED[] = {
    {.type = 0x00, .bits = 8, .count = 3},
    {.type = 0x01, .id = 1, .aux = 0, .bits = 64, .count = 3},
    {.type = 0x01, .id = 1, .aux = 2, .bits = 64, .count = 1},
    {.type = 0x01, .id = UINT64_MAX, .aux = 0, .bits = 64, .count = 1},
    {.type = 0x02, .id = 1, .aux = 1, .bits = 64, .count = 1},
    {.type = 0x03, .id = 0, .aux = 1, .bits = 64, .count = 2},
    {.type = 0x11, .id = 1, .round = 0, .aux = 0xFF, .bits = 64, .count = 4096},
    {.type = 0x11, .id = 1, .round = 0, .aux = 0xFF, .bits = 18, .first = 4096, .count = 3},
    {.type = 0x11, .id = 1, .round = 1, .aux = 0x10, .bits = 1, .count = 9},
    {.type = 0x11, .id = 1, .round = 256, .aux = 1, .bits = 7, .count = 9},
    {.type = 0x11, .id = 256, .round = 0, .aux = 2, .bits = 33, .count = 5},
    {.type = 0x21, .id = 1, .bits = 64, .count = 1},
    {.type = 0x21, .id = 1, .bits = 64, .first = 8192, .count = 1},
    {.type = 0x21, .id = UINT32_MAX, .bits = 64, .count = 1},
    {.type = 0x31, .id = 7, .round = 2, .bits = 8, .count = 32768},
    {.type = 0x31, .id = 7, .round = 2, .bits = 8, .first = 32768, .count = 5},
    {.type = 0x31, .id = 7, .round = 3, .bits = 8, .count = 1},
    {.type = 0x41, .id = 7, .bits = 64, .count = 1},
    {.type = 0x41, .id = 7, .bits = 64, .first = 4096, .count = 1},
    {.type = 0x51, .id = 7, .aux = 0, .bits = 8, .count = 32},
    {.type = 0x51, .id = 7, .aux = 3, .bits = 8, .count = 32},
    {.type = 0x51, .id = 8, .aux = 0, .bits = 8, .count = 32},
    {.type = 0x7F, .bits = 8, .count = 0},
    {.type = 0xFF, .bits = 8, .count = 65535},
};

static void order(void **state) {
    (void)state;
    enum { N = COUNT_OF(ORDERED), BIG = 1 << 18 };
    uint8_t *out = malloc(BIG);
    assert_non_null(out);
    for (size_t a = 0; a < N; a++)
        for (size_t b = 0; b < N; b++) {
            int c = uvcc_tlv_compare(&ORDERED[a], &ORDERED[b]);
            assert_true(a < b ? c < 0 : a == b ? c == 0 : c > 0);
            uvcc_blv1_writer w;
            assert_int_equal(uvcc_blv1_begin(&w, out, BIG), 0);
            assert_int_equal(uvcc_blv1_put(&w, &ORDERED[a], NULL), 0);
            assert_int_equal(uvcc_blv1_put(&w, &ORDERED[b], NULL), a < b ? 0 : UVCC_ERR_USAGE);
            assert_int_equal(w.count, a < b ? 2 : 1);
        }
    /* Target and bits of OPEN_VEC, count and bytes of any TLV are no keys. */
    uvcc_tlv t = ORDERED[6];
    t.aux = 1;
    t.bits = 5;
    t.count = 2;
    assert_int_equal(uvcc_tlv_compare(&t, &ORDERED[6]), 0);
    free(out);

    /* The decoder refuses the same orders: swap neighbours of a good batch. */
    for (size_t a = 0; a + 1 < N; a++) {
        uvcc_tlv x = ORDERED[a], y = ORDERED[a + 1];
        size_t nx = uvcc_tlv_bytes(&x), ny = uvcc_tlv_bytes(&y), n = 16 + nx + ny;
        uint8_t *good = calloc(1, n), *bad = malloc(n);
        assert_non_null(good);
        assert_non_null(bad);
        uvcc_blv1_writer w;
        assert_int_equal(uvcc_blv1_begin(&w, good, n), 0);
        assert_int_equal(uvcc_blv1_put(&w, &x, NULL), 0);
        assert_int_equal(uvcc_blv1_put(&w, &y, NULL), 0);
        assert_int_equal(uvcc_blv1_end(&w), n);
        assert_int_equal(check_exact(good, n, NULL), 2);
        memcpy(bad, good, 16);
        memcpy(bad + 16, good + 16 + nx, ny);
        memcpy(bad + 16 + ny, good + 16, nx);
        const char *why = NULL;
        assert_int_equal(check_exact(bad, n, &why), UVCC_ERR_BATCH);
        assert_string_equal(why, "TLVs are not in order");
        free(good);
        free(bad);
    }
}

static void writes_all_types(void **state) {
    (void)state;
    size_t n = UVCC_BLV1_HEADER_BYTES;
    for (size_t i = 0; i < COUNT_OF(ORDERED); i++)
        n += uvcc_tlv_bytes(&ORDERED[i]);
    uint8_t *out = malloc(n);
    assert_non_null(out);
    memset(out, 0xEE, n);
    uvcc_blv1_writer w;
    assert_int_equal(uvcc_blv1_begin(&w, out, n), 0);
    uint64_t seed = 7;
    for (size_t i = 0; i < COUNT_OF(ORDERED); i++) {
        const uvcc_tlv *t = &ORDERED[i];
        uint8_t *span = NULL;
        assert_int_equal(uvcc_blv1_put(&w, t, &span), 0);
        assert_true(span > out && span + uvcc_tlv_data_bytes(t) <= out + w.len);
        if (uvcc_tlv_data_bytes(t) != 0) /* the span is left as it is, the padding is not */
            assert_int_equal(*span, 0xEE);
        test_rand_bytes(&seed, span, uvcc_tlv_data_bytes(t));
        if (t->type == UVCC_TLV_OPEN_VEC) {
            uint64_t e[4096];
            for (uint32_t k = 0; k < t->count; k++)
                e[k] = test_rand(&seed);
            uvcc_bits_pack(e, t->count, t->bits, span);
        }
    }
    assert_int_equal(w.len, n);
    uvcc_tlv more = {.type = 0xFF, .bits = 8};
    assert_int_equal(uvcc_blv1_put(&w, &more, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_blv1_end(&w), n);
    assert_int_equal(check_exact(out, n, NULL), COUNT_OF(ORDERED));
    assert_round_trip(out, n);

    uvcc_blv1_reader r;
    uvcc_tlv t;
    uvcc_blv1_reader_init(&r, out, n);
    for (size_t i = 0; i < COUNT_OF(ORDERED); i++) {
        assert_int_equal(uvcc_blv1_next(&r, &t), 1);
        assert_int_equal(t.type, ORDERED[i].type);
        assert_true(t.id == ORDERED[i].id);
        assert_int_equal(t.aux, ORDERED[i].aux);
        assert_int_equal(t.bits, ORDERED[i].bits);
        assert_int_equal(t.round, ORDERED[i].round);
        assert_int_equal(t.first, ORDERED[i].first);
        assert_int_equal(t.count, ORDERED[i].count);
        assert_int_equal(t.data_len, uvcc_tlv_data_bytes(&ORDERED[i]));
    }
    assert_int_equal(uvcc_blv1_next(&r, &t), 0);
    free(out);
}

static void writer_refuses(void **state) {
    (void)state;
    uint8_t out[256], data[64] = {0};
    uvcc_blv1_writer w;
    for (size_t cap = 0; cap < 16; cap++)
        assert_int_equal(uvcc_blv1_begin(&w, out, cap), UVCC_ERR_LIMIT);

    static const uvcc_tlv bad[] = {
        {.type = 0x01, .id = 1, .aux = 3, .bits = 64, .count = 1},
        {.type = 0x01, .id = 1, .bits = 64, .count = 0},
        {.type = 0x01, .id = 1, .bits = 64, .count = 4097},
        {.type = 0x01, .id = 1, .bits = 63, .count = 1},
        {.type = 0x01, .id = 1, .bits = 64, .first = 4096, .count = 1},
        {.type = 0x01, .id = 1, .bits = 64, .round = 1, .count = 1},
        {.type = 0x11, .id = 1, .aux = 3, .bits = 64, .count = 1},
        {.type = 0x11, .id = 1, .bits = 0, .count = 1},
        {.type = 0x11, .id = 1, .bits = 65, .count = 1},
        {.type = 0x11, .id = 1, .bits = 8, .first = 1, .count = 1},
        {.type = 0x21, .id = UINT64_C(1) << 32, .bits = 64, .count = 1},
        {.type = 0x21, .id = 1, .aux = 1, .bits = 64, .count = 1},
        {.type = 0x31, .id = 1, .bits = 8, .count = 0},
        {.type = 0x31, .id = 1, .bits = 8, .count = 32769},
        {.type = 0x31, .id = 1, .bits = 8, .first = 4096, .count = 1},
        {.type = 0x31, .id = 1, .bits = 8, .first = 0xFFFF8000, .count = 32768},
        {.type = 0x41, .id = 1, .bits = 64, .first = 0xFFFFF000, .count = 4096},
        {.type = 0x51, .id = 1, .aux = 4, .bits = 8, .count = 32},
        {.type = 0x51, .id = 1, .bits = 8, .count = 31},
        {.type = 0x51, .id = 1, .bits = 8, .first = 4096, .count = 32},
        {.type = 0x7F, .id = 1, .bits = 8, .count = 1},
        {.type = 0x7F, .bits = 8, .count = 65536},
        {.type = 0x7F, .bits = 64, .count = 1},
    };
    assert_int_equal(uvcc_blv1_begin(&w, out, sizeof out), 0);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        if (uvcc_blv1_put(&w, &bad[i], NULL) != UVCC_ERR_USAGE)
            fail_msg("case %zu", i);
        assert_int_equal(w.len, 16);
        assert_int_equal(w.count, 0);
    }
    uvcc_tlv t = {.type = 0x11, .bits = 3, .count = 3, .data = data, .data_len = 2};
    data[1] = 2; /* bit 9 of 9 */
    assert_int_equal(uvcc_blv1_put(&w, &t, NULL), UVCC_ERR_USAGE);
    data[1] = 1;
    t.data_len = 1;
    assert_int_equal(uvcc_blv1_put(&w, &t, NULL), UVCC_ERR_USAGE);
    t.data_len = 2;
    assert_int_equal(uvcc_blv1_put(&w, &t, NULL), 0);

    /* Every capacity below the needed one is refused, without a byte past it. */
    size_t need = 16 + uvcc_tlv_bytes(&t);
    for (size_t cap = 16; cap <= need; cap++) {
        uint8_t *p = malloc(cap);
        assert_non_null(p);
        assert_int_equal(uvcc_blv1_begin(&w, p, cap), 0);
        assert_int_equal(uvcc_blv1_put(&w, &t, NULL), cap < need ? UVCC_ERR_LIMIT : 0);
        assert_int_equal(uvcc_blv1_end(&w), cap < need ? 16 : need);
        free(p);
    }
}

/* Any width and number of elements against a bit by bit reference; outputs are exactly sized. */
static void bits(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (unsigned width = 1; width <= 64; width++)
        for (size_t n = 0; n <= 140; n += n < 70 ? 1 : 7) {
            size_t bytes = (n * width + 7) / 8;
            uint64_t *in = malloc(n * 8 + 1), *back = malloc(n * 8 + 1);
            uint8_t *packed = malloc(bytes + 1), *want = calloc(1, bytes + 1);
            assert_true(in != NULL && back != NULL && packed != NULL && want != NULL);
            for (size_t i = 0; i < n; i++) {
                in[i] = test_rand(&seed);
                for (unsigned b = 0; b < width; b++) {
                    size_t at = i * width + b;
                    want[at / 8] |= (uint8_t)((in[i] >> b & 1) << at % 8);
                }
            }
            packed[bytes] = 0x77;
            uvcc_bits_pack(in, n, width, packed);
            assert_memory_equal(packed, want, bytes);
            assert_int_equal(packed[bytes], 0x77);
            uint8_t *tight = malloc(bytes == 0 ? 1 : bytes);
            assert_non_null(tight);
            memcpy(tight, packed, bytes);
            uvcc_bits_unpack(tight, n, width, back);
            for (size_t i = 0; i < n; i++)
                assert_true(back[i] == (in[i] & (UINT64_MAX >> (64 - width))));
            free(in);
            free(back);
            free(packed);
            free(want);
            free(tight);
        }
}

/* Random batches of random TLVs, then random damage. */
static void random_batches(void **state) {
    (void)state;
    uint64_t seed = 11;
    unsigned accepted = 0;
    for (int round = 0; round < 3000; round++) {
        uint8_t buf[2048];
        uvcc_blv1_writer w;
        assert_int_equal(uvcc_blv1_begin(&w, buf, sizeof buf), 0);
        memset(buf, 0, sizeof buf);
        for (int k = 0; k < 12; k++) {
            static const uint8_t types[] = {1, 2, 3, 0x11, 0x21, 0x31, 0x41, 0x51, 0x60};
            uvcc_tlv t = {.type = types[test_rand(&seed) % COUNT_OF(types)],
                          .id = test_rand(&seed) % 4,
                          .aux = (uint8_t)(test_rand(&seed) % 3),
                          .bits = 64,
                          .count = 1 + (uint32_t)(test_rand(&seed) % 9)};
            if (t.type == 0x11)
                t.bits = (uint8_t)(1 + test_rand(&seed) % 64);
            if (t.type == 0x21 || t.type == 0x41 || t.type == 0x31)
                t.aux = 0;
            if (t.type >= 0x51 || t.type == 0x31)
                t.bits = 8;
            if (t.type == 0x51)
                t.count = 32;
            (void)uvcc_blv1_put(&w, &t, NULL);
        }
        size_t n = (size_t)uvcc_blv1_end(&w);
        assert_int_equal(check_exact(buf, n, NULL), w.count);
        assert_round_trip(buf, n);
        for (int hit = 0; hit < 8; hit++) {
            buf[test_rand(&seed) % n] = (uint8_t)test_rand(&seed);
            if (check_exact(buf, n, NULL) >= 0) {
                assert_round_trip(buf, n);
                accepted++;
            }
        }
    }
    assert_true(accepted > 100);
}

static void names(void **state) {
    (void)state;
    assert_string_equal(uvcc_tlv_name(0x11), "OPEN_VEC");
    assert_string_equal(uvcc_tlv_name(0x51), "DIGEST");
    assert_null(uvcc_tlv_name(0));
    assert_null(uvcc_tlv_name(0x7F));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_vectors),
        cmocka_unit_test(refuses_vectors),
        cmocka_unit_test(reads_members),
        cmocka_unit_test(every_flip_and_cut),
        cmocka_unit_test(hostile_counts),
        cmocka_unit_test(hostile_places),
        cmocka_unit_test(batch_frame),
        cmocka_unit_test(order),
        cmocka_unit_test(writes_all_types),
        cmocka_unit_test(writer_refuses),
        cmocka_unit_test(bits),
        cmocka_unit_test(random_batches),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
