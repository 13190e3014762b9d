/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_blv1.c - the batch codec. First byte even: the rest is a payload for the decoder; what it
 * takes encodes to the same bytes. Odd: the rest describes TLVs for the writer; what it takes
 * decodes. */
#include "common.h"

#include "proto/bytes.h"
#include <uvcc/blv1.h>

enum { TLVS_MAX = 64, BITS_ELEMS_MAX = 4096 };

static void bits_round_trip(const uvcc_tlv *t) {
    static uint64_t elems[BITS_ELEMS_MAX];
    static uint8_t packed[BITS_ELEMS_MAX * 8];
    if (t->count > BITS_ELEMS_MAX)
        return;
    uvcc_bits_unpack(t->data, t->count, t->bits, elems);
    uvcc_bits_pack(elems, t->count, t->bits, packed);
    FUZZ_CHECK(memcmp(packed, t->data, t->data_len) == 0);
}

static void decode(const uint8_t *in, size_t len) {
    const char *why = NULL;
    int64_t count = uvcc_blv1_check(in, len, &why);
    FUZZ_CHECK(count >= 0 || (count == UVCC_ERR_BATCH && why != NULL));
    if (count < 0)
        return;
    uint8_t *out = malloc(len);
    uvcc_blv1_reader r;
    uvcc_blv1_writer w = {0};
    uvcc_tlv t, last = {0};
    int64_t seen = 0;
    FUZZ_CHECK(out != NULL && uvcc_blv1_begin(&w, out, len) == 0);
    uvcc_blv1_reader_init(&r, in, len);
    for (; uvcc_blv1_next(&r, &t) == 1; seen++, last = t) {
        FUZZ_CHECK(t.data_len == 0 || (t.data >= in && t.data + t.data_len <= in + len));
        FUZZ_CHECK(t.data_len == uvcc_tlv_data_bytes(&t));
        FUZZ_CHECK(seen == 0 || uvcc_tlv_compare(&last, &t) < 0);
        FUZZ_CHECK(uvcc_tlv_compare(&t, &t) == 0);
        if (t.type == UVCC_TLV_OPEN_VEC)
            bits_round_trip(&t);
        (void)uvcc_tlv_name(t.type);
        FUZZ_CHECK(uvcc_blv1_put(&w, &t, NULL) == 0);
    }
    FUZZ_CHECK(seen == count);
    FUZZ_CHECK(uvcc_blv1_end(&w) == (ptrdiff_t)len && memcmp(in, out, len) == 0);
    free(out);
}

/* A batch from fields that may be anything. */
static void encode(fuzz_in *in) {
    static uint8_t data[65536];
    static const uint8_t types[] = {
#define UVCC_TLV(name, code) code,
#include <uvcc/tlvs.def>
#undef UVCC_TLV
        0x7F, 0xFF};
    uvcc_tlv tlvs[TLVS_MAX];
    uvcc_blv1_writer w = {0};
    size_t count = 0, bytes = UVCC_BLV1_HEADER_BYTES, room = fuzz_u8(in);
    memset(data, 0, sizeof data);
    while (in->left != 0 && count < TLVS_MAX) {
        uvcc_tlv *t = &tlvs[count++];
        *t = (uvcc_tlv){.type = types[fuzz_u8(in) % sizeof types]};
        uint8_t how = fuzz_u8(in);
        t->id = how & 1 ? fuzz_u64(in) : fuzz_u8(in);
        t->aux = fuzz_u8(in);
        t->round = how & 2 ? fuzz_u16(in) : 0;
        t->bits = how & 4 ? fuzz_u8(in) : t->type == UVCC_TLV_KEY_CHUNK || t->type > 0x50 ? 8 : 64;
        t->first = how & 8 ? fuzz_u32(in) : 0;
        t->count = how & 16 ? fuzz_u32(in) : fuzz_u8(in);
        t->data_len = uvcc_tlv_data_bytes(t);
        if (how & 32)
            t->data_len = fuzz_u16(in);
        if (t->data_len <= sizeof data && (how & 64) == 0)
            t->data = data;
        if (t->count <= 4096)
            bytes += uvcc_tlv_bytes(t);
    }
    if (bytes > 1u << 20)
        return;
    bytes += room & 1 ? room : 0; /* now and then not the exact size */
    uint8_t *out = calloc(1, bytes);
    FUZZ_CHECK(out != NULL && uvcc_blv1_begin(&w, out, bytes) == 0);
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        uint8_t *span = NULL;
        int err = uvcc_blv1_put(&w, &tlvs[i], &span);
        FUZZ_CHECK(err == 0 || err == UVCC_ERR_USAGE || err == UVCC_ERR_LIMIT);
        FUZZ_CHECK(err != 0 || (span >= out && span <= out + bytes));
        all = all && err == 0;
    }
    ptrdiff_t len = uvcc_blv1_end(&w);
    FUZZ_CHECK(len >= (ptrdiff_t)UVCC_BLV1_HEADER_BYTES && (size_t)len <= bytes);
    FUZZ_CHECK(!all || (room & 1) != 0 || (size_t)len == bytes);
    uint8_t *batch = fuzz_copy(out, (size_t)len);
    FUZZ_CHECK(uvcc_blv1_check(batch, (size_t)len, NULL) >= 0);
    decode(batch, (size_t)len);
    free(batch);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    fuzz_in in = {data + 1, size - 1};
    if (data[0] & 1) {
        encode(&in);
        return 0;
    }
    uint8_t *batch = fuzz_copy(in.at, in.left);
    decode(batch, in.left);
    if (in.left >= UVCC_BLV1_HEADER_BYTES) { /* the same with its length made right */
        uvcci_st32(batch + 12, (uint32_t)(in.left - UVCC_BLV1_HEADER_BYTES));
        decode(batch, in.left);
    }
    free(batch);
    return 0;
}
