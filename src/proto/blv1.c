/* SPDX-License-Identifier: Apache-2.0 */
/* blv1.c - the BLV1 batch codec (wire.md 3): check, walk, write, and the bit packing of OPEN_VEC.
 *
 * Invariants: nothing is read or written outside the given bytes; a batch that passes the check is
 * canonical, so writing what was read gives the same bytes. Every loop is bounded by the batch. */
#include <assert.h>
#include <stdbool.h>

#include <uvcc/blv1.h>

#include "proto/bytes.h"

static const uint8_t MAGIC[4] = {'B', 'L', 'V', '1'};
enum {
    VERSION = 1,
    TLV_HEADER_BYTES = 4,
    VALUE_HEAD_MAX_BYTES = 20,
    TLV_LEN_MAX = UINT16_MAX,
    DIGEST_BYTES = 32
};
enum { OPEN_TO_ALL = 0xFF, OPEN_TO_PARTY = 0x10 };

/* Bytes of a value before its data. */
static size_t value_head_bytes(uint8_t type) {
    switch (type) {
    case UVCC_TLV_LIFT_M_U64VEC:
    case UVCC_TLV_LIFT_COMP_U64VEC:
    case UVCC_TLV_LIFT_X_U64VEC:
    case UVCC_TLV_RESHARE_U64VEC:
    case UVCC_TLV_KEY_CHUNK:
    case UVCC_TLV_INPUT_U64VEC:
        return 16;
    case UVCC_TLV_OPEN_VEC:
        return 20;
    case UVCC_TLV_DIGEST:
        return 12;
    default:
        return 0;
    }
}

/* Bits of a data element; only OPEN_VEC says its own. */
static unsigned element_bits(const uvcc_tlv *t) {
    switch (t->type) {
    case UVCC_TLV_LIFT_M_U64VEC:
    case UVCC_TLV_LIFT_COMP_U64VEC:
    case UVCC_TLV_LIFT_X_U64VEC:
    case UVCC_TLV_RESHARE_U64VEC:
    case UVCC_TLV_INPUT_U64VEC:
        return 64;
    case UVCC_TLV_OPEN_VEC:
        return t->bits;
    default:
        return 8;
    }
}

size_t uvcc_tlv_data_bytes(const uvcc_tlv *t) {
    if (t == NULL)
        return 0;
    return (size_t)(((uint64_t)t->count * element_bits(t) + 7) / 8);
}

size_t uvcc_tlv_bytes(const uvcc_tlv *t) {
    if (t == NULL)
        return 0;
    size_t value = value_head_bytes(t->type) + uvcc_tlv_data_bytes(t);
    return TLV_HEADER_BYTES + ((value + 3) & ~(size_t)3);
}

/* edge, component, round, gate or what: the third sort key. */
static uint32_t third_key(const uvcc_tlv *t) {
    bool by_round = t->type == UVCC_TLV_OPEN_VEC || t->type == UVCC_TLV_KEY_CHUNK;
    return by_round ? t->round : t->aux;
}

int uvcc_tlv_compare(const uvcc_tlv *a, const uvcc_tlv *b) {
    if (a == NULL || b == NULL)
        return UVCC_ERR_USAGE;
    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    uint32_t ka = third_key(a), kb = third_key(b);
    if (ka != kb)
        return ka < kb ? -1 : 1;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return 0;
}

static const char *span_fault(const uvcc_tlv *t, uint32_t unit) {
    if (t->count < 1 || t->count > unit)
        return "count is out of range";
    if (t->first % unit != 0)
        return "not cut at a multiple of the unit";
    if (t->first > UINT32_MAX - t->count)
        return "first + count wraps";
    return NULL;
}

/* Rules of the members, the same for what is read and what is written. */
static const char *members_fault(const uvcc_tlv *t) {
    switch (t->type) {
    case UVCC_TLV_LIFT_M_U64VEC:
    case UVCC_TLV_LIFT_COMP_U64VEC:
    case UVCC_TLV_LIFT_X_U64VEC:
        if (t->aux >= UVCC_PARTIES)
            return "no such edge or component";
        return span_fault(t, UVCC_BLOCK_ELEMS);
    case UVCC_TLV_OPEN_VEC:
        if (t->bits < 1 || t->bits > 64)
            return "bits are not 1..64";
        if (t->aux >= UVCC_PARTIES && t->aux != OPEN_TO_ALL &&
            (t->aux < OPEN_TO_PARTY || t->aux >= OPEN_TO_PARTY + UVCC_PARTIES))
            return "no such target";
        return span_fault(t, UVCC_BLOCK_ELEMS);
    case UVCC_TLV_RESHARE_U64VEC:
    case UVCC_TLV_INPUT_U64VEC:
        return span_fault(t, UVCC_BLOCK_ELEMS);
    case UVCC_TLV_KEY_CHUNK:
        return span_fault(t, UVCC_KEY_CHUNK_BYTES);
    case UVCC_TLV_DIGEST:
        if (t->aux > 3)
            return "no such digest";
        return t->count == DIGEST_BYTES ? NULL : "a digest has 32 bytes";
    default:
        return t->count <= TLV_LEN_MAX ? NULL : "a value is at most 65535 bytes";
    }
}

/* The bits above the last element of an OPEN_VEC. */
static bool spare_bits_set(const uvcc_tlv *t) {
    unsigned used = (unsigned)((uint64_t)t->count * t->bits % 8);
    return t->type == UVCC_TLV_OPEN_VEC && used != 0 && t->data[t->data_len - 1] >> used != 0;
}

/* Splits a value of `len` >= value_head_bytes bytes into members; reserved bytes that are not 0 are
 * a fault. The count stands as it was sent: nothing has been compared with len yet. */
static const char *value_read(uint8_t type, const uint8_t *v, size_t len, uvcc_tlv *t) {
    size_t head = value_head_bytes(type);
    *t = (uvcc_tlv){.type = type, .bits = 8, .data = v + head, .data_len = len - head};
    t->bits = (uint8_t)element_bits(t);
    uint32_t reserved = 0;
    switch (type) {
    case UVCC_TLV_LIFT_M_U64VEC:
    case UVCC_TLV_LIFT_COMP_U64VEC:
    case UVCC_TLV_LIFT_X_U64VEC:
        t->id = uvcci_ld64(v);
        t->count = uvcci_ld32(v + 8);
        t->aux = v[12];
        reserved = v[13] | uvcci_ld16(v + 14);
        break;
    case UVCC_TLV_OPEN_VEC:
        t->id = uvcci_ld64(v);
        t->round = uvcci_ld16(v + 8);
        t->bits = v[10];
        t->aux = v[11];
        t->first = uvcci_ld32(v + 12);
        t->count = uvcci_ld32(v + 16);
        break;
    case UVCC_TLV_RESHARE_U64VEC:
        t->id = uvcci_ld32(v);
        t->first = uvcci_ld32(v + 4);
        t->count = uvcci_ld32(v + 8);
        reserved = uvcci_ld32(v + 12);
        break;
    case UVCC_TLV_KEY_CHUNK:
        t->id = uvcci_ld64(v);
        t->round = uvcci_ld16(v + 8);
        reserved = uvcci_ld16(v + 10);
        t->first = uvcci_ld32(v + 12);
        t->count = (uint32_t)t->data_len;
        break;
    case UVCC_TLV_INPUT_U64VEC:
        t->id = uvcci_ld64(v);
        t->first = uvcci_ld32(v + 8);
        t->count = uvcci_ld32(v + 12);
        break;
    case UVCC_TLV_DIGEST:
        t->id = uvcci_ld64(v);
        t->aux = v[8];
        reserved = v[9] | uvcci_ld16(v + 10);
        t->count = (uint32_t)t->data_len;
        break;
    default:
        t->count = (uint32_t)len;
        break;
    }
    return reserved == 0 ? NULL : "a reserved field of a value is not 0";
}

/* The mirror of value_read: reserved bytes are zeros, so that a value has one encoding and its
 * digest one value. */
static void value_head_write(const uvcc_tlv *t, uint8_t *v) {
    memset(v, 0, value_head_bytes(t->type));
    switch (t->type) {
    case UVCC_TLV_LIFT_M_U64VEC:
    case UVCC_TLV_LIFT_COMP_U64VEC:
    case UVCC_TLV_LIFT_X_U64VEC:
        uvcci_st64(v, t->id);
        uvcci_st32(v + 8, t->count);
        v[12] = t->aux;
        break;
    case UVCC_TLV_OPEN_VEC:
        uvcci_st64(v, t->id);
        uvcci_st16(v + 8, t->round);
        v[10] = t->bits;
        v[11] = t->aux;
        uvcci_st32(v + 12, t->first);
        uvcci_st32(v + 16, t->count);
        break;
    case UVCC_TLV_RESHARE_U64VEC:
        uvcci_st32(v, (uint32_t)t->id);
        uvcci_st32(v + 4, t->first);
        uvcci_st32(v + 8, t->count);
        break;
    case UVCC_TLV_KEY_CHUNK:
        uvcci_st64(v, t->id);
        uvcci_st16(v + 8, t->round);
        uvcci_st32(v + 12, t->first);
        break;
    case UVCC_TLV_INPUT_U64VEC:
        uvcci_st64(v, t->id);
        uvcci_st32(v + 8, t->first);
        uvcci_st32(v + 12, t->count);
        break;
    case UVCC_TLV_DIGEST:
        uvcci_st64(v, t->id);
        v[8] = t->aux;
        break;
    default:
        break;
    }
}

/* ---- reading ---- */

/* One TLV from the front of `len` bytes; *used gets its bytes. */
static const char *tlv_read(const uint8_t *p, size_t len, uvcc_tlv *t, size_t *used) {
    if (len < TLV_HEADER_BYTES)
        return "tlv_count is more than is there";
    if (p[1] != 0)
        return "no TLV flag is defined";
    size_t value = uvcci_ld16(p + 2);
    size_t whole = TLV_HEADER_BYTES + ((value + 3) & ~(size_t)3);
    if (whole > len)
        return "a TLV overruns its batch";
    if (value < value_head_bytes(p[0]))
        return "a value is shorter than its head";
    const char *fault = value_read(p[0], p + TLV_HEADER_BYTES, value, t);
    if (fault == NULL)
        fault = members_fault(t);
    if (fault != NULL)
        return fault;
    if (t->data_len != uvcc_tlv_data_bytes(t))
        return "count does not match the value's length";
    if (spare_bits_set(t))
        return "unused high bits are not 0";
    for (size_t i = TLV_HEADER_BYTES + value; i < whole; i++)
        if (p[i] != 0)
            return "padding is not 0";
    *used = whole;
    return NULL;
}

/* All rules of a batch, so that readers afterwards need no checks: what they walk over was walked
 * here. The order of TLVs is a rule since a root must not depend on how a peer arranged them. */
static const char *batch_fault(const uint8_t *in, size_t len, uint32_t *count) {
    if (len < UVCC_BLV1_HEADER_BYTES)
        return "shorter than the batch header";
    if (memcmp(in, MAGIC, sizeof MAGIC) != 0)
        return "magic";
    if (in[4] != VERSION)
        return "version";
    if (in[5] != 0 || uvcci_ld16(in + 6) != 0)
        return "a reserved field of the header is not 0";
    if (uvcci_ld32(in + 12) != len - UVCC_BLV1_HEADER_BYTES)
        return "tlv_bytes is not what is there";
    *count = uvcci_ld32(in + 8);

    size_t at = UVCC_BLV1_HEADER_BYTES, used = 0;
    uvcc_tlv prev = {0}, t;
    /* Every turn takes at least a TLV header, so a false count ends with the bytes. */
    for (uint32_t i = 0; i < *count; i++) {
        const char *fault = tlv_read(in + at, len - at, &t, &used);
        if (fault != NULL)
            return fault;
        if (i != 0) {
            int order = uvcc_tlv_compare(&prev, &t);
            if (order >= 0)
                return order == 0 ? "a TLV stands twice" : "TLVs are not in order";
        }
        prev = t;
        at += used;
    }
    return at == len ? NULL : "bytes after the last TLV";
}

int64_t uvcc_blv1_check(const uint8_t *in, size_t len, const char **why) {
    uint32_t count = 0;
    const char *fault = batch_fault(in, len, &count);
    if (fault == NULL)
        return count;
    if (why != NULL)
        *why = fault;
    return UVCC_ERR_BATCH;
}

void uvcc_blv1_reader_init(uvcc_blv1_reader *r, const uint8_t *in, size_t len) {
    if (r == NULL)
        return;
    *r = (uvcc_blv1_reader){.p = in, .len = len, .at = UVCC_BLV1_HEADER_BYTES};
}

int uvcc_blv1_next(uvcc_blv1_reader *r, uvcc_tlv *out) {
    if (r == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    if (r->at >= r->len)
        return 0;
    const uint8_t *p = r->p + r->at;
    size_t value = uvcci_ld16(p + 2);
    (void)value_read(p[0], p + TLV_HEADER_BYTES, value, out);
    r->at += uvcc_tlv_bytes(out);
    return 1;
}

/* ---- writing ---- */

int uvcc_blv1_begin(uvcc_blv1_writer *w, void *out, size_t cap) {
    if (w == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    if (cap < UVCC_BLV1_HEADER_BYTES)
        return UVCC_ERR_LIMIT;
    *w = (uvcc_blv1_writer){.p = out, .cap = cap, .len = UVCC_BLV1_HEADER_BYTES};
    return 0;
}

/* A member that the type lacks, or that is too wide for its field, would not come back. */
static bool comes_back(const uvcc_tlv *t) {
    uint8_t head[VALUE_HEAD_MAX_BYTES];
    uvcc_tlv back;
    value_head_write(t, head);
    (void)value_read(t->type, head, value_head_bytes(t->type), &back);
    return back.id == t->id && back.aux == t->aux && back.round == t->round &&
           back.first == t->first && back.bits == t->bits;
}

/* A TLV that does not fit leaves the writer as it was: nothing is written before its whole length
 * is known to fit. */
int uvcc_blv1_put(uvcc_blv1_writer *w, const uvcc_tlv *t, uint8_t **span) {
    if (w == NULL || t == NULL)
        return UVCC_ERR_USAGE;
    if (members_fault(t) != NULL || !comes_back(t) ||
        (w->count != 0 && uvcc_tlv_compare(&w->last, t) >= 0))
        return UVCC_ERR_USAGE;
    size_t head = value_head_bytes(t->type), data = uvcc_tlv_data_bytes(t);
    if (t->data != NULL && (t->data_len != data || spare_bits_set(t)))
        return UVCC_ERR_USAGE;
    size_t whole = uvcc_tlv_bytes(t);
    /* tlv_bytes is a 32-bit field. */
    if (whole > w->cap - w->len || w->len + whole > UINT32_MAX)
        return UVCC_ERR_LIMIT;

    uint8_t *p = w->p + w->len;
    p[0] = t->type;
    p[1] = 0;
    uvcci_st16(p + 2, (uint16_t)(head + data));
    value_head_write(t, p + TLV_HEADER_BYTES);
    uint8_t *at = p + TLV_HEADER_BYTES + head;
    if (t->data != NULL && data != 0)
        memcpy(at, t->data, data);
    memset(at + data, 0, whole - TLV_HEADER_BYTES - head - data);
    if (span != NULL)
        *span = at;
    w->len += whole;
    w->count++;
    w->last = *t;
    return 0;
}

ptrdiff_t uvcc_blv1_end(uvcc_blv1_writer *w) {
    if (w == NULL)
        return UVCC_ERR_USAGE;
    memcpy(w->p, MAGIC, sizeof MAGIC);
    w->p[4] = VERSION;
    w->p[5] = 0;
    uvcci_st16(w->p + 6, 0);
    uvcci_st32(w->p + 8, w->count);
    uvcci_st32(w->p + 12, (uint32_t)(w->len - UVCC_BLV1_HEADER_BYTES));
    return (ptrdiff_t)w->len;
}

/* ---- bits ---- */

#define PACK_AS(type)                                                                              \
    for (size_t i = 0; i < n; i++) {                                                               \
        type v = (type)in[i];                                                                      \
        memcpy(out + i * sizeof v, &v, sizeof v);                                                  \
    }
#define UNPACK_AS(type)                                                                            \
    for (size_t i = 0; i < n; i++) {                                                               \
        type v;                                                                                    \
        memcpy(&v, in + i * sizeof v, sizeof v);                                                   \
        out[i] = v;                                                                                \
    }

/* One bit: eight elements are a byte, without a chain from one to the next. */
static void pack_1(const uint64_t *in, size_t n, uint8_t *out) {
    for (; n >= 8; n -= 8, in += 8)
        *out++ =
            (uint8_t)((in[0] & 1) | (in[1] & 1) << 1 | (in[2] & 1) << 2 | (in[3] & 1) << 3 |
                      (in[4] & 1) << 4 | (in[5] & 1) << 5 | (in[6] & 1) << 6 | (in[7] & 1) << 7);
    unsigned last = 0;
    for (size_t j = 0; j < n; j++)
        last |= (unsigned)(in[j] & 1) << j;
    if (n != 0)
        *out = (uint8_t)last;
}

static void unpack_1(const uint8_t *in, size_t n, uint64_t *out) {
    for (; n >= 8; n -= 8, out += 8) {
        uint64_t b = *in++;
        for (unsigned j = 0; j < 8; j++)
            out[j] = b >> j & 1;
    }
    for (unsigned j = 0; j < n; j++)
        out[j] = (uint64_t)(*in >> j & 1);
}

/* Any width below 64: a 64-bit word fills up and is stored, the rest of the element begins the
 * next. */
static void pack_any(const uint64_t *in, size_t n, unsigned bits, uint8_t *out) {
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    uint64_t word = 0;
    unsigned fill = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t v = in[i] & mask;
        word |= v << fill;
        fill += bits;
        if (fill >= 64) {
            uvcci_st64(out, word);
            out += 8;
            fill -= 64;
            word = v >> (bits - fill);
        }
    }
    memcpy(out, &word, (fill + 7) / 8);
}

static void unpack_any(const uint8_t *in, size_t n, unsigned bits, uint64_t *out) {
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    size_t left = (size_t)(((uint64_t)n * bits + 7) / 8);
    uint64_t word = 0;
    unsigned have = 0;
    for (size_t i = 0; i < n; i++) {
        if (have >= bits) {
            out[i] = word & mask;
            word >>= bits;
            have -= bits;
            continue;
        }
        uint64_t next = 0;
        size_t take = left < 8 ? left : 8;
        if (take == 8)
            next = uvcci_ld64(in);
        else
            memcpy(&next, in, take);
        in += take;
        left -= take;
        out[i] = (word | next << have) & mask;
        word = next >> (bits - have);
        have += 64 - bits;
    }
}

void uvcc_bits_pack(const uint64_t *in, size_t n, unsigned bits, uint8_t *out) {
    if (in == NULL || out == NULL)
        return;
    assert(bits >= 1 && bits <= 64);
    switch (bits) {
    case 1:
        pack_1(in, n, out);
        break;
    case 8:
        PACK_AS(uint8_t)
        break;
    case 16:
        PACK_AS(uint16_t)
        break;
    case 32:
        PACK_AS(uint32_t)
        break;
    case 64:
        if (n != 0)
            memcpy(out, in, n * sizeof *in);
        break;
    default:
        pack_any(in, n, bits, out);
        break;
    }
}

void uvcc_bits_unpack(const uint8_t *in, size_t n, unsigned bits, uint64_t *out) {
    if (in == NULL || out == NULL)
        return;
    assert(bits >= 1 && bits <= 64);
    switch (bits) {
    case 1:
        unpack_1(in, n, out);
        break;
    case 8:
        UNPACK_AS(uint8_t)
        break;
    case 16:
        UNPACK_AS(uint16_t)
        break;
    case 32:
        UNPACK_AS(uint32_t)
        break;
    case 64:
        if (n != 0)
            memcpy(out, in, n * sizeof *out);
        break;
    default:
        unpack_any(in, n, bits, out);
        break;
    }
}

const char *uvcc_tlv_name(uint8_t type) {
    switch (type) {
#define UVCC_TLV(name, code)                                                                       \
    case (code):                                                                                   \
        return #name;
#include <uvcc/tlvs.def>
#undef UVCC_TLV
    default:
        return NULL;
    }
}
