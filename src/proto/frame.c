/* SPDX-License-Identifier: Apache-2.0 */
/* frame.c - the FRAME v1 codec (wire.md 2). Stateless.
 *
 * Invariants: nothing is read past the given bytes; nothing is written on refusal; a header that
 * passes has lengths that cannot wrap: offset + piece <= msg_len <= UVCC_MSG_MAX_BYTES, and the
 * piece lies in one chunk. */
#include "proto/frame.h"

#include "proto/bytes.h"
#include "proto/crc.h"

enum {
    AT_VERSION = 4,
    AT_KIND = 5,
    AT_ROUTE = 6,
    AT_FLAGS = 7,
    AT_SID_TAG = 8,
    AT_SEQ = 16,
    AT_STEP = 24,
    AT_OP_ID = 28,
    AT_MSG_ID = 32,
    AT_CHUNK_IDX = 36,
    AT_CHUNK_CNT = 38,
    AT_MSG_LEN = 40,
    AT_OFFSET = 44,
    AT_PAYLOAD_LEN = 48,
    AT_ACK = 52,
    AT_CRC32 = 60,
};
_Static_assert(AT_ACK == UVCCI_FRAME_BOUND_BYTES, "a seal binds the header up to the ack");

static const uint8_t MAGIC[4] = {'U', 'V', 'F', '1'};
enum { VERSION = 1 };
/* A reliable seq is (run << 40) + 1, + 2, ...: its low 40 bits count. */
#define SEQ_COUNTER_MASK ((UINT64_C(1) << 40) - 1)

void uvcc_frame_encode_header(const uvcc_frame_header *h, uint8_t out[UVCC_FRAME_HEADER_BYTES]) {
    if (h == NULL || out == NULL)
        return;
    memcpy(out, MAGIC, sizeof MAGIC);
    out[AT_VERSION] = VERSION;
    out[AT_KIND] = h->kind;
    out[AT_ROUTE] = (uint8_t)(h->src << 4 | (h->dst & 15));
    out[AT_FLAGS] = h->flags;
    uvcci_st64(out + AT_SID_TAG, h->sid_tag);
    uvcci_st64(out + AT_SEQ, h->seq);
    uvcci_st32(out + AT_STEP, h->step);
    uvcci_st32(out + AT_OP_ID, h->op_id);
    uvcci_st32(out + AT_MSG_ID, h->msg_id);
    uvcci_st16(out + AT_CHUNK_IDX, h->chunk_idx);
    uvcci_st16(out + AT_CHUNK_CNT, h->chunk_cnt);
    uvcci_st32(out + AT_MSG_LEN, h->msg_len);
    uvcci_st32(out + AT_OFFSET, h->offset);
    uvcci_st32(out + AT_PAYLOAD_LEN, h->payload_len);
    uvcci_st64(out + AT_ACK, h->ack);
    uvcci_st32(out + AT_CRC32, h->crc32);
}

int uvcc_frame_peek_sid_tag(const uint8_t *bytes, size_t len, uint64_t *out) {
    if (bytes == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    if (bytes == NULL || out == NULL || len < UVCC_FRAME_HEADER_BYTES ||
        memcmp(bytes, MAGIC, sizeof MAGIC) != 0 || bytes[AT_VERSION] != VERSION)
        return UVCC_ERR_FRAME;
    *out = uvcci_ld64(bytes + AT_SID_TAG);
    return 0;
}

/* Where the frame's bytes stand in the message; `piece` is the payload without its seal. */
static const char *place_fault(const uvcc_frame_header *h, uint32_t piece) {
    if (h->msg_len > UVCC_MSG_MAX_BYTES)
        return "msg_len is over the limit";
    if (piece > h->msg_len || h->offset > h->msg_len - piece)
        return "offset + length is past msg_len";
    if (piece == 0 && h->msg_len != 0)
        return "an empty piece of a message that is not empty";
    if (h->chunk_idx != h->offset / UVCC_CHUNK_BYTES)
        return "chunk_idx is not offset >> 20";
    if (h->chunk_cnt != uvcci_chunks_of(h->msg_len))
        return "chunk_cnt does not follow from msg_len";
    if (h->offset % UVCC_CHUNK_BYTES + piece > UVCC_CHUNK_BYTES)
        return "the piece crosses a chunk's end";
    return NULL;
}

static const char *control_fault(const uvcc_frame_header *h, uint32_t piece) {
    if (h->seq != 0)
        return "a seq on a control kind";
    const bool part = piece != h->msg_len;
    if (h->op_id != 0 || (h->msg_id != 0 && !part))
        return "an id on a control kind";
    if (part && (h->kind != UVCC_FRAME_HELLO || (h->flags & UVCC_FRAME_SEALED) != 0))
        return "a control frame is one piece";
    return NULL;
}

static const char *reliable_fault(const uvcc_frame_header *h) {
    if ((h->seq & SEQ_COUNTER_MASK) == 0)
        return "seq 0 on a reliable kind";
    bool no_op = h->kind == UVCC_FRAME_STEP || h->kind == UVCC_FRAME_AUDIT ||
                 h->kind == UVCC_FRAME_BYE || h->kind == UVCC_FRAME_CANCEL;
    if (no_op && h->op_id != 0)
        return "an op_id on a kind without one";
    return NULL;
}

static const char *header_fault(const uvcc_frame_header *h) {
    int cls = uvcc_frame_kind_class(h->kind);
    if (cls < 0)
        return "unassigned kind";
    if (h->src >= UVCC_PARTIES || h->dst >= UVCC_PARTIES)
        return "no such party";
    if (h->src == h->dst)
        return "src equals dst";
    if ((h->flags & ~UVCC_FRAME_SEALED) != 0)
        return "undefined flag";

    uint32_t seal = 0;
    if ((h->flags & UVCC_FRAME_SEALED) != 0)
        seal = cls == UVCC_CLASS_CONTROL ? UVCC_FRAME_CTL_SEAL_BYTES : UVCC_FRAME_SEAL_BYTES;
    if (h->payload_len < seal)
        return "payload_len is shorter than the seal";
    uint32_t piece = h->payload_len - seal;
    const char *fault = place_fault(h, piece);
    if (fault != NULL)
        return fault;
    return cls == UVCC_CLASS_CONTROL ? control_fault(h, piece) : reliable_fault(h);
}

static int refuse(const char **why, const char *text) {
    if (why != NULL)
        *why = text;
    return UVCC_ERR_FRAME;
}

/* Decodes into a local and checks that, so a refused header leaves *out alone; the offsets above
 * stand for this and for encoding alike. */
int uvcc_frame_decode_header(const uint8_t in[UVCC_FRAME_HEADER_BYTES], uvcc_frame_header *out,
                             const char **why) {
    if (in == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    if (memcmp(in, MAGIC, sizeof MAGIC) != 0)
        return refuse(why, "magic");
    if (in[AT_VERSION] != VERSION)
        return refuse(why, "version");
    uvcc_frame_header h = {
        .kind = in[AT_KIND],
        .src = in[AT_ROUTE] >> 4,
        .dst = in[AT_ROUTE] & 15,
        .flags = in[AT_FLAGS],
        .sid_tag = uvcci_ld64(in + AT_SID_TAG),
        .seq = uvcci_ld64(in + AT_SEQ),
        .step = uvcci_ld32(in + AT_STEP),
        .op_id = uvcci_ld32(in + AT_OP_ID),
        .msg_id = uvcci_ld32(in + AT_MSG_ID),
        .chunk_idx = uvcci_ld16(in + AT_CHUNK_IDX),
        .chunk_cnt = uvcci_ld16(in + AT_CHUNK_CNT),
        .msg_len = uvcci_ld32(in + AT_MSG_LEN),
        .offset = uvcci_ld32(in + AT_OFFSET),
        .payload_len = uvcci_ld32(in + AT_PAYLOAD_LEN),
        .ack = uvcci_ld64(in + AT_ACK),
        .crc32 = uvcci_ld32(in + AT_CRC32),
    };
    const char *fault = header_fault(&h);
    if (fault != NULL)
        return refuse(why, fault);
    *out = h;
    return 0;
}

uint32_t uvcc_frame_crc(const uint8_t header[UVCC_FRAME_HEADER_BYTES], const uint8_t *payload,
                        size_t payload_len) {
    if (header == NULL || (payload == NULL && payload_len != 0))
        return 0;
    uint32_t crc = uvcci_crc32(0, header, AT_CRC32);
    return payload_len == 0 ? crc : uvcci_crc32(crc, payload, payload_len);
}

void uvcci_frame_put_ack(uint8_t header[UVCC_FRAME_HEADER_BYTES], uint64_t ack) {
    uvcci_st64(header + AT_ACK, ack);
}

void uvcci_frame_put_crc(uint8_t header[UVCC_FRAME_HEADER_BYTES], uint32_t crc) {
    uvcci_st32(header + AT_CRC32, crc);
}

uint32_t uvcci_frame_payload_len(const uint8_t header[UVCC_FRAME_HEADER_BYTES]) {
    return uvcci_ld32(header + AT_PAYLOAD_LEN);
}

ptrdiff_t uvcc_frame_decode(const uint8_t *in, size_t len, uvcc_frame_header *out,
                            const uint8_t **payload, const char **why) {
    if (len < UVCC_FRAME_HEADER_BYTES)
        return 0;
    uvcc_frame_header h;
    int err = uvcc_frame_decode_header(in, &h, why);
    if (err != 0)
        return err;
    if (h.payload_len > len - UVCC_FRAME_HEADER_BYTES)
        return 0;
    const uint8_t *body = in + UVCC_FRAME_HEADER_BYTES;
    if (uvcc_frame_crc(in, body, h.payload_len) != h.crc32)
        return refuse(why, "CRC");
    *out = h;
    *payload = body;
    return (ptrdiff_t)UVCC_FRAME_HEADER_BYTES + (ptrdiff_t)h.payload_len;
}

const char *uvcc_frame_kind_name(uint8_t kind) {
    switch (kind) {
#define UVCC_KIND(name, code, cls, label)                                                          \
    case (code):                                                                                   \
        return #name;
#include <uvcc/kinds.def>
#undef UVCC_KIND
    default:
        return NULL;
    }
}

int uvcc_frame_kind_class(uint8_t kind) {
    switch (kind) {
#define UVCC_KIND(name, code, cls, label)                                                          \
    case (code):                                                                                   \
        return UVCC_CLASS_##cls;
#include <uvcc/kinds.def>
#undef UVCC_KIND
    default:
        return UVCC_ERR_NOT_FOUND;
    }
}

const char *uvcc_frame_kind_label(uint8_t kind) {
    switch (kind) {
#define UVCC_KIND(name, code, cls, label)                                                          \
    case (code):                                                                                   \
        return label;
#include <uvcc/kinds.def>
#undef UVCC_KIND
    default:
        return NULL;
    }
}
