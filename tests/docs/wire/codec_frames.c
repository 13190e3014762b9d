/* SPDX-License-Identifier: Apache-2.0 */
/* codec_frames.c - listings of frames and of the batches in them. Frames are made by one end of a
 * link and taken by the other, so what is listed is what goes over the wire. */
#include "frames.h"
#include "proto/ackmsg.h"
#include "proto/bytes.h"
#include "proto/ids.h"
#include "proto/statement.h"
#include "proto/stepmsg.h"
#include "proto/transcript.h"
#include <uvcc/blv1.h>
#include <uvcc/demux.h>

enum { PAYLOAD_MAX = 1024, ELEMS_MAX = 32, ACK_SENT_MAX = 40 };
static const uint64_t soon_ns = 1000000, keepalive_ns = UINT64_C(10000000000);

/* ---- BLV1 batches ---- */

/* What the members of a TLV are called, type by type: NULL where it has none. */
typedef struct tlv_shape {
    uint8_t type;
    const char *id;
    unsigned id_width;
    const char *aux, *round, *first, *data;
} tlv_shape;

static const tlv_shape shapes[] = {
    {UVCC_TLV_LIFT_M_U64VEC, "fss_id", 8, "edge", NULL, NULL, "m"},
    {UVCC_TLV_LIFT_COMP_U64VEC, "fss_id", 8, "component", NULL, NULL, "word"},
    {UVCC_TLV_LIFT_X_U64VEC, "fss_id", 8, "edge", NULL, NULL, "x"},
    {UVCC_TLV_OPEN_VEC, "stream_id", 8, "target", "round", "first", "elements"},
    {UVCC_TLV_RESHARE_U64VEC, "tile_idx", 4, NULL, NULL, "first", "word"},
    {UVCC_TLV_KEY_CHUNK, "fss_id", 8, NULL, "gate", "offset", "bytes"},
    {UVCC_TLV_INPUT_U64VEC, "stream_id", 8, NULL, NULL, "first", "word"},
    {UVCC_TLV_DIGEST, "stream_id", 8, "what", NULL, NULL, "digest"},
};

static const tlv_shape *shape_of(uint8_t type) {
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (shapes[i].type == type)
            return &shapes[i];
    return NULL;
}

/* The values of one TLV, appended to the batch. */
static void tlv_values(listing *l, uvcc_blv1_writer *w) {
    uint64_t words[ELEMS_MAX];
    uint8_t data[ELEMS_MAX * 8];
    uvcc_tlv t = {.type = value_name(l, "tlv", uvcc_tlv_name), .bits = 8};
    const tlv_shape *s = shape_of(t.type);
    listing_must(l, s != NULL, "a TLV of an unknown shape");
    if (!listing_good(l))
        return;
    t.id = value_number(l, s->id, s->id_width == 8 ? UINT64_MAX : UINT32_MAX);
    if (s->aux != NULL)
        t.aux = (uint8_t)value_number(l, s->aux, UINT8_MAX);
    if (s->round != NULL)
        t.round = (uint16_t)value_number(l, s->round, UINT16_MAX);
    if (s->first != NULL)
        t.first = (uint32_t)value_number(l, s->first, UINT32_MAX);
    if (t.type == UVCC_TLV_KEY_CHUNK || t.type == UVCC_TLV_DIGEST) {
        t.count = (uint32_t)value_bytes(l, s->data, data, sizeof data);
    } else {
        t.bits = t.type == UVCC_TLV_OPEN_VEC ? (uint8_t)value_number(l, "bits", 64) : 64;
        t.count = value_numbers(l, s->data, words, ELEMS_MAX);
        if (listing_good(l) && t.bits != 0)
            uvcc_bits_pack(words, t.count, t.bits, data);
        for (uint32_t i = 0; i < t.count && t.bits < 64 && listing_good(l); i++)
            listing_must(l, words[i] >> t.bits == 0, "an element with more bits than that");
    }
    t.data = data;
    t.data_len = uvcc_tlv_data_bytes(&t);
    if (listing_good(l))
        listing_must(l, uvcc_blv1_put(w, &t, NULL) == 0, "the library takes no such TLV here");
}

/* A batch of the TLVs that come next; returns its bytes. */
static size_t batch_values(listing *l, uint8_t out[PAYLOAD_MAX]) {
    uvcc_blv1_writer w;
    assert_int_equal(uvcc_blv1_begin(&w, out, PAYLOAD_MAX), 0);
    while (listing_has(l, "tlv"))
        tlv_values(l, &w);
    ptrdiff_t len = listing_good(l) ? uvcc_blv1_end(&w) : 0;
    listing_must(l, len > 0, "no batch");
    return listing_good(l) ? (size_t)len : 0;
}

/* A TLV's data, element by element where these are words. */
static void tlv_data_fields(listing *l, const tlv_shape *s, const uvcc_tlv *t) {
    if (t->type == UVCC_TLV_KEY_CHUNK || t->type == UVCC_TLV_DIGEST) {
        field_bytes(l, s->data, t->data, t->data_len, "");
        return;
    }
    uint64_t words[ELEMS_MAX];
    listing_must(l, t->count <= ELEMS_MAX, "too many elements");
    if (!listing_good(l))
        return;
    uvcc_bits_unpack(t->data, t->count, t->bits, words);
    if (t->type == UVCC_TLV_OPEN_VEC) {
        char text[160];
        int n = snprintf(text, sizeof text, "packed:");
        for (uint32_t i = 0; i < t->count && (size_t)n < sizeof text; i++)
            n += snprintf(text + n, sizeof text - (size_t)n, " %llu", (unsigned long long)words[i]);
        field_bytes(l, s->data, t->data, t->data_len, text);
        return;
    }
    for (uint32_t i = 0; i < t->count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s %u", s->data, i);
        field_code(l, name, 8, words[i], "");
    }
}

static const char *what_of(const uvcc_tlv *t, char text[64]) {
    static const char *const digests[] = {"a check", "a coin commitment", "a coin share",
                                          "a verdict"};
    if (t->type == UVCC_TLV_DIGEST)
        return t->aux < 4 ? digests[t->aux] : "";
    if (t->type != UVCC_TLV_OPEN_VEC)
        return "";
    if (t->aux == 0xFF)
        return "all parties";
    snprintf(text, 64, t->aux < 3 ? "edge %u" : "party %u", t->aux & 15);
    return text;
}

/* The members in the order in which each type has them. */
static void tlv_fields(listing *l, const uvcc_tlv *t) {
    static const uint8_t zeros[4];
    const tlv_shape *s = shape_of(t->type);
    char text[64];
    size_t len = uvcc_tlv_bytes(t), value_head = 0;
    listing_must(l, s != NULL, "a TLV of an unknown shape");
    if (!listing_good(l))
        return;
    const size_t at = l->block[l->into].at;
    field_title(l, "%s", uvcc_tlv_name(t->type));
    field_code(l, "type", 1, t->type, uvcc_tlv_name(t->type));
    field_number(l, "flags", 1, 0, "");
    value_head = t->type == UVCC_TLV_OPEN_VEC ? 20 : t->type == UVCC_TLV_DIGEST ? 12 : 16;
    field_number(l, "len", 2, value_head + t->data_len, "");
    field_code(l, s->id, s->id_width, t->id, "");
    if (t->type == UVCC_TLV_OPEN_VEC) {
        field_number(l, "round", 2, t->round, "");
        field_number(l, "bits", 1, t->bits, "");
        field_code(l, "target", 1, t->aux, what_of(t, text));
        field_number(l, "first", 4, t->first, "");
        field_number(l, "count", 4, t->count, "");
    } else if (t->type == UVCC_TLV_DIGEST) {
        field_number(l, "what", 1, t->aux, what_of(t, text));
        field_number(l, "zero", 3, 0, "");
    } else if (t->type == UVCC_TLV_KEY_CHUNK) {
        field_number(l, "gate", 2, t->round, "");
        field_number(l, "zero", 2, 0, "");
        field_number(l, "offset", 4, t->first, "");
    } else if (s->first != NULL) {
        field_number(l, "first", 4, t->first, "");
        field_number(l, "count", 4, t->count, "");
        if (s->id_width == 4)
            field_number(l, "zero", 4, 0, "");
    } else {
        field_number(l, "q_count", 4, t->count, "");
        field_number(l, s->aux, 1, t->aux, "");
        field_number(l, "zero", 3, 0, "");
    }
    tlv_data_fields(l, s, t);
    if (listing_good(l) && l->block[l->into].at - at != len)
        field_bytes(l, "padding", zeros, len - (l->block[l->into].at - at), "");
}

/* The fields of a batch; *type is that of its first TLV. */
static void batch_fields(listing *l, const uint8_t *p, size_t len, uint8_t *type) {
    const char *why = "";
    if (!listing_good(l))
        return;
    int64_t count = uvcc_blv1_check(p, len, &why);
    if (count < 0) {
        listing_refuse(l, l->block[l->into].line, "no batch: %s", why);
        return;
    }
    field_text(l, "magic", "BLV1", 4);
    field_number(l, "version", 1, 1, "");
    field_number(l, "flags", 1, 0, "");
    field_number(l, "zero", 2, 0, "");
    field_number(l, "tlv_count", 4, (uint64_t)count, "");
    field_number(l, "tlv_bytes", 4, len - UVCC_BLV1_HEADER_BYTES, "");
    uvcc_blv1_reader r;
    uvcc_tlv t;
    uvcc_blv1_reader_init(&r, p, len);
    for (bool first = true; uvcc_blv1_next(&r, &t) == 1; first = false) {
        if (first)
            *type = t.type;
        tlv_fields(l, &t);
    }
}

void codec_batch(listing *l, listing_seen *seen) {
    uint8_t bytes[PAYLOAD_MAX], type = 0;
    size_t len = batch_values(l, bytes);
    listing_made(l, LISTING_BYTES, bytes, len);
    batch_fields(l, l->block[LISTING_BYTES].bytes, l->block[LISTING_BYTES].len, &type);
    if (!listing_good(l))
        return;
    snprintf(l->subject, sizeof l->subject, "%s", uvcc_tlv_name(type));
    seen->tlv[type] = true;
}

/* ---- STEP, AUDIT, BYE, CANCEL ---- */

static size_t step_values(listing *l, const scene *s, uint8_t out[PAYLOAD_MAX]) {
    uvcci_step_msg m = {.step = s->step};
    uint64_t n[3] = {0};
    value_exactly(l, "lineage", m.lineage, 32);
    value_exactly(l, "h_program", m.h_program, 32);
    value_exactly(l, "h_optable", m.h_optable, 32);
    value_exactly(l, "h_given", m.h_given, 32);
    while (listing_has(l, "shape") && m.shape_count < UVCCI_SHAPES_MAX) {
        listing_must(l, value_numbers(l, "shape", n, 3) == 3, "a shape is id, rows, cols");
        m.shapes[m.shape_count++] =
            (uvcci_shape){.id = (uint32_t)n[0], .rows = (uint32_t)n[1], .cols = (uint32_t)n[2]};
    }
    if (listing_has(l, "shapes")) { /* so many that their hash stands for them */
        m.shape_count = (uint16_t)value_number(l, "shapes", UINT16_MAX);
        value_exactly(l, "h_shapes", m.h_shapes, 32);
    }
    int len = uvcci_step_encode(&m, out, PAYLOAD_MAX);
    listing_must(l, len > 0, "no STEP");
    return listing_good(l) ? (size_t)len : 0;
}

static void step_fields(listing *l, const uint8_t *p, size_t len) {
    uvcci_step_msg m = {.step = 0};
    listing_must(l, uvcci_step_decode(&m, p, len) == 0, "no STEP");
    if (!listing_good(l))
        return;
    field_number(l, "step", 4, m.step, "");
    field_bytes(l, "lineage", m.lineage, 32, "");
    field_bytes(l, "H(program)", m.h_program, 32, "");
    field_bytes(l, "H(op table)", m.h_optable, 32, "");
    field_bytes(l, "H(given)", m.h_given, 32, "");
    field_number(l, "shapes", 2, m.shape_count, "");
    if (m.shape_count > UVCCI_SHAPES_MAX) {
        field_bytes(l, "H(shapes)", m.h_shapes, 32, "");
        return;
    }
    for (unsigned i = 0; i < m.shape_count; i++) {
        field_title(l, "shape %u", i);
        field_number(l, "input id", 4, m.shapes[i].id, "");
        field_number(l, "rows", 4, m.shapes[i].rows, "");
        field_number(l, "cols", 4, m.shapes[i].cols, "");
    }
}

/* Who signs, and what the receiver knows of the statement, are in no byte of the frame: they stand
 * in the values. */
typedef struct signer {
    uint8_t pk[32], sid_job[32], policy_hash[32];
    uvcc_statement known;
} signer;

static uvcc_statement audit_statement(const signer *who, const uvcci_audit_msg_t *m) {
    uvcc_statement st = who->known;
    st.sid_job = who->sid_job;
    st.policy_hash = who->policy_hash;
    st.party = m->party;
    st.step = m->step;
    st.root = m->global_root;
    st.audit_root = m->audit_root;
    st.before = m->before;
    return st;
}

static void known_values(listing *l, const scene *s, signer *who) {
    uint64_t n[3] = {0}, at[3] = {0};
    value_exactly(l, "sid_job", who->sid_job, 32);
    listing_must(l, value_numbers(l, "topology", n, 3) == 3, "R, S and T");
    listing_must(l, value_numbers(l, "place", at, 3) == 3, "r, s and t");
    who->known = (uvcc_statement){.scope = UVCC_SCOPE_WORKER,
                                  .replicas = (uint16_t)n[0],
                                  .stages = (uint16_t)n[1],
                                  .tp_ranks = (uint16_t)n[2],
                                  .replica = (uint16_t)at[0],
                                  .stage = (uint16_t)at[1],
                                  .tp_rank = (uint16_t)at[2],
                                  .run = s->run,
                                  .first = (uint32_t)value_number(l, "first", s->step)};
}

static size_t audit_values(listing *l, const scene *s, signer *who, uint8_t out[PAYLOAD_MAX]) {
    uvcci_audit_msg_t m = {.party = s->src, .step = s->step};
    uint8_t seed[32], sk[64], text[UVCC_STATEMENT_BYTES];
    known_values(l, s, who);
    value_exactly(l, "global_root", m.global_root, 32);
    value_exactly(l, "audit_root", m.audit_root, 32);
    value_exactly(l, "before", m.before, 32);
    value_exactly(l, "policy_hash", who->policy_hash, 32);
    value_exactly(l, "sign_seed", seed, 32);
    uvcci_sign_keypair(seed, who->pk, sk);
    const uvcc_statement st = audit_statement(who, &m);
    listing_must(l, uvcc_statement_encode(&st, text) == 0, "no statement");
    if (!listing_good(l))
        return 0;
    uvcci_statement_sign(&st, sk, m.signature);
    int len = uvcci_audit_encode(&m, out, PAYLOAD_MAX);
    listing_must(l, len > 0, "no AUDIT");
    return listing_good(l) ? (size_t)len : 0;
}

static void audit_fields(listing *l, const signer *who, const uint8_t *p, size_t len) {
    uvcci_audit_msg_t m = {.party = 0};
    listing_must(l, uvcci_audit_decode(&m, p, len) == 0, "no AUDIT");
    if (!listing_good(l))
        return;
    const uvcc_statement st = audit_statement(who, &m);
    listing_must(l, uvcc_statement_check(&st, who->pk, m.signature) == 0, "the signature is wrong");
    field_number(l, "party", 1, m.party, "");
    field_number(l, "step", 4, m.step, "");
    field_bytes(l, "global_root", m.global_root, 32, "");
    field_bytes(l, "audit_root", m.audit_root, 32, "");
    field_bytes(l, "before", m.before, 32, "");
    field_bytes(l, "signature", m.signature, 64, "Ed25519");
}

static void bye_fields(listing *l, const uint8_t *p, size_t len) {
    static const char *const names[] = {
#define UVCC_ABORT(name, code, text) [code] = #name,
#include <uvcc/aborts.def>
#undef UVCC_ABORT
    };
    uint16_t reason = 0;
    listing_must(l, uvcci_bye_decode(&reason, p, len) == 0, "no BYE");
    const bool known = reason < sizeof names / sizeof names[0] && names[reason] != NULL;
    listing_must(l, known, "no such reason");
    field_number(l, "reason", 2, reason, known ? names[reason] : "");
}

static size_t cancel_values(listing *l, uint8_t out[PAYLOAD_MAX]) {
    const uvcci_cancel_msg m = {.vote = (uint8_t)value_number(l, "vote", UVCCI_VOTE_FLUSHED),
                                .step = (uint32_t)value_number(l, "cancelled", UINT32_MAX)};
    int len = uvcci_cancel_encode(&m, out, PAYLOAD_MAX);
    listing_must(l, len > 0, "no CANCEL has these");
    return listing_good(l) ? (size_t)len : 0;
}

static void cancel_fields(listing *l, const uint8_t *p, size_t len) {
    static const char *const names[] = {"", "STOPPED", "FINISHED", "FLUSHED"};
    uvcci_cancel_msg m = {0};
    listing_must(l, uvcci_cancel_decode(&m, p, len) == 0, "no CANCEL");
    if (!listing_good(l))
        return;
    field_number(l, "vote", 1, m.vote, names[m.vote]);
    field_number(l, "cancelled", 4, m.step, "");
}

/* ---- reliable kinds ---- */

static bool is_batch_kind(uint8_t kind) {
    return kind == UVCC_FRAME_OPEN_BATCH || kind == UVCC_FRAME_LIFT_BATCH ||
           kind == UVCC_FRAME_RESHARE_BATCH || kind == UVCC_FRAME_KEYS_BATCH ||
           kind == UVCC_FRAME_INPUT_BATCH;
}

static size_t payload_values(listing *l, const scene *s, uint32_t *op_id, signer *who,
                             uint8_t out[PAYLOAD_MAX]) {
    if (is_batch_kind(s->kind)) {
        *op_id = (uint32_t)value_number(l, "op_id", UINT32_MAX);
        /* A piece is no batch, and links do not ask what a message is. */
        return s->piece == 1 ? batch_values(l, out) : value_bytes(l, "message", out, PAYLOAD_MAX);
    }
    if (s->kind == UVCC_FRAME_STEP)
        return step_values(l, s, out);
    if (s->kind == UVCC_FRAME_AUDIT)
        return audit_values(l, s, who, out);
    if (s->kind == UVCC_FRAME_CANCEL)
        return cancel_values(l, out);
    int len =
        s->kind == UVCC_FRAME_BYE
            ? uvcci_bye_encode((uint16_t)value_number(l, "reason", UINT16_MAX), out, PAYLOAD_MAX)
            : 0;
    listing_must(l, len > 0, "no codec handles this kind");
    return listing_good(l) ? (size_t)len : 0;
}

static void send(listing *l, wire *w, uint32_t op_id, const uint8_t *payload, size_t len) {
    const scene *s = &w->s;
    uvcc_link_msg *m = NULL;
    uint32_t id = uvcci_msg_id(s->kind, s->sid_sub, op_id, s->src, s->dst, 0, 1);
    listing_must(l, uvcc_link_msg_new(w->l[0], s->kind, (uint32_t)len, &m) == 0, "no message");
    if (!listing_good(l))
        return;
    memcpy(uvcc_link_msg_data(m), payload, len);
    listing_must(l, uvcc_link_send(w->l[0], m, s->step, op_id, &id, 0, soon_ns) == 0,
                 "the link does not send this");
}

/* Frames of one message: those before the listed one, and what the receiver has at the end. */
typedef struct delivery {
    packet before[PIECES_MAX - 1];
    uint32_t before_count;
    uint8_t whole[PAYLOAD_MAX];
    size_t len;
} delivery;

/* The receiver's end gets the message's frames, the listing's bytes as the last one: what it takes
 * them for. */
static void receive(listing *l, const scene *s, uint32_t op_id, delivery *d) {
    const listing_block *b = &l->block[LISTING_BYTES];
    const uint32_t id = uvcci_msg_id(s->kind, s->sid_sub, op_id, s->src, s->dst, 0, 1);
    wire w;
    uvcc_link_rx rx = {.len = 0};
    if (wire_new(l, &w, s) && wire_start(l, &w)) {
        for (uint32_t i = 0; i < d->before_count; i++)
            wire_feed(l, &w, 1, d->before[i].bytes, d->before[i].len, soon_ns);
        wire_feed(l, &w, 1, b->bytes, b->len, soon_ns);
        listing_must(l, uvcc_link_poll_message(w.l[1], &rx) == 1, "no message came of it");
    }
    if (listing_good(l)) {
        listing_must(l, rx.kind == s->kind && rx.step == s->step && rx.op_id == op_id,
                     "a message of another kind, step or op came of it");
        listing_must(l, rx.msg_ids[0] == id, "its msg_id is another");
        listing_must(l, rx.len <= PAYLOAD_MAX, "a message as long as that");
    }
    if (listing_good(l)) {
        d->len = rx.len;
        memcpy(d->whole, rx.data, rx.len);
    }
    wire_free(&w);
}

static void payload_fields(listing *l, const scene *s, const signer *who, const uint8_t *p,
                           size_t len) {
    uint8_t type;
    if (is_batch_kind(s->kind))
        batch_fields(l, p, len, &type);
    else if (s->kind == UVCC_FRAME_STEP)
        step_fields(l, p, len);
    else if (s->kind == UVCC_FRAME_AUDIT)
        audit_fields(l, who, p, len);
    else if (s->kind == UVCC_FRAME_CANCEL)
        cancel_fields(l, p, len);
    else
        bye_fields(l, p, len);
}

/* The frames of a message up to the listed one, which is *p. */
static void make_frames(listing *l, const scene *s, uint32_t op_id, const uint8_t *payload,
                        size_t len, delivery *d, packet *p) {
    wire w;
    if (wire_new(l, &w, s) && wire_start(l, &w)) {
        send(l, &w, op_id, payload, len);
        while (d->before_count + 1 < s->piece && listing_good(l))
            d->before[d->before_count++] = wire_poll(l, &w, 0, soon_ns);
        *p = wire_poll(l, &w, 0, soon_ns);
    }
    wire_free(&w);
}

static void reliable(listing *l, const scene *s) {
    static delivery d;
    const listing_block *b = &l->block[LISTING_BYTES];
    uint8_t payload[PAYLOAD_MAX];
    uint32_t op_id = 0;
    signer who;
    packet p = {.len = 0};
    uvcc_frame_header h;
    memset(&d, 0, sizeof d);
    size_t len = payload_values(l, s, &op_id, &who, payload);
    make_frames(l, s, op_id, payload, len, &d, &p);
    listing_made(l, LISTING_BYTES, p.bytes, p.len);
    if (listing_good(l))
        receive(l, s, op_id, &d);
    if (!listing_good(l) || uvcc_frame_decode_header(b->bytes, &h, NULL) != 0) {
        listing_must(l, false, "no frame");
        return;
    }
    len = frame_fields(l, s, &h, d.whole + h.offset);
    if (s->piece == 1)
        payload_fields(l, s, &who, d.whole, len);
    else
        field_bytes(l, "message, from offset on", d.whole + h.offset, len, "");
}

/* ---- ACK and PING ---- */

static uint64_t seq_of_frame(const scene *s, uint64_t n) {
    return ((uint64_t)s->run << 40) + n;
}

/* What the sender of an ACK has had: how many PINGs, which of the other's frames. */
typedef struct had {
    uint64_t pings, frame[ACK_SENT_MAX];
    unsigned count;
} had;

/* The other end sends as many frames as were had; only those come that are in the list. */
static void let_come(listing *l, wire *w, const had *what) {
    uint64_t now = what->pings != 0 ? keepalive_ns : 0;
    if (what->pings != 0) {
        packet p = wire_poll(l, w, 1, now);
        wire_feed(l, w, 0, p.bytes, p.len, now);
    }
    for (uint64_t n = 1, i = 0; i < what->count && n < 1000 && listing_good(l); n++) {
        uvcc_link_msg *m;
        uint32_t id = 1;
        assert_int_equal(uvcc_link_msg_new(w->l[1], UVCC_FRAME_OPEN_BATCH, 4, &m), 0);
        memset(uvcc_link_msg_data(m), 0, 4);
        assert_int_equal(uvcc_link_send(w->l[1], m, w->s.step, (uint32_t)n, &id, n, now), 0);
        packet p = wire_poll(l, w, 1, now);
        if (n != what->frame[i])
            continue;
        i++;
        wire_feed(l, w, 0, p.bytes, p.len, now);
        uvcc_link_rx rx;
        if (uvcc_link_poll_message(w->l[0], &rx) == 1)
            assert_int_equal(uvcc_link_accept(w->l[0], rx.token, now), 0);
    }
}

/* An ACK's payload, and whether the end that it went to believes it. */
static void ack_fields(listing *l, const uint8_t *p, size_t len, const wire *w) {
    const uvcci_tx_side *t = &w->l[1]->tx;
    char name[32], text[64];
    uint64_t cum = t->cum;
    uvcci_ack a;
    listing_must(l, uvcci_ack_decode(&a, p, len) == 0, "no ACK");
    if (!listing_good(l))
        return;
    const uint64_t run = w->s.run;
    field_number(l, "counter", 8, t->ack_counter, "");
    snprintf(text, sizeof text, "run %llu, frame %llu", (unsigned long long)run,
             (unsigned long long)(cum - seq_of_frame(&w->s, 0)));
    field_code(l, "cumulative", 8, cum, text);
    field_number(l, "credit_online", 8, t->cls[UVCC_CLASS_ONLINE].credit, "");
    field_number(l, "credit_keys", 8, t->cls[UVCC_CLASS_KEYS].credit, "");
    field_number(l, "ping_number", 4, a.ping_number, "");
    field_number(l, "repeats", 4, a.repeats, "");
    field_number(l, "ce_packets", 4, a.ce_packets, "");
    field_number(l, "ranges", 2, a.range_cnt, "");
    uint64_t there = t->next - 1 - cum; /* above the cumulative one: what came, and gaps */
    for (uint32_t i = 0; i < a.range_cnt; i++) {
        const uint64_t *end = a.range[i];
        there -= end[1] - end[0] + 1;
        for (unsigned k = 0; k < 2; k++) {
            snprintf(name, sizeof name, "range %u, %s", i, k == 0 ? "first" : "last");
            snprintf(text, sizeof text, "frame %llu",
                     (unsigned long long)(end[k] - seq_of_frame(&w->s, 0)));
            field_code(l, name, 8, end[k], text);
        }
    }
    listing_must(l, t->unreceived == there, "the link counts other frames as received");
}

static void ping_fields(listing *l, const uint8_t *p, size_t len, const wire *w) {
    field_number(l, "number", 4, w->l[1]->rx.ping_number, "");
    field_bytes(l, "zeros", p + 4, len - 4, "");
    listing_must(l, w->l[1]->rx.ping_number != 0, "the link took it for no PING");
}

/* The ends as they are before the frame: an ACK's sender has had what it says. */
static bool control_begin(listing *l, wire *w, const scene *s, const had *what) {
    bool ok = wire_new(l, w, s) && wire_start(l, w);
    if (ok)
        let_come(l, w, what);
    return ok && listing_good(l);
}

/* When the frame is sent: PINGs go out after a silence, ACKs a little after what they are for. */
static uint64_t control_time(const scene *s, const had *what) {
    const bool silence = s->kind == UVCC_FRAME_PING || what->pings != 0;
    return (silence ? keepalive_ns : 0) + (s->kind == UVCC_FRAME_ACK ? soon_ns : 0);
}

/* The other end, in the state in which the frame meets it, gets the listing's bytes. */
static void control_fields(listing *l, const scene *s, const had *what) {
    const listing_block *b = &l->block[LISTING_BYTES];
    wire w = {.l = {NULL}};
    uint8_t plain[PAYLOAD_MAX];
    uvcc_frame_header h = {.kind = 0};
    if (control_begin(l, &w, s, what)) {
        wire_feed(l, &w, 1, b->bytes, b->len, control_time(s, what));
        listing_must(l,
                     uvcc_frame_decode_header(b->bytes, &h, NULL) == 0 && h.msg_len < PAYLOAD_MAX,
                     "no frame");
        if (listing_good(l) && s->suite != 0)
            control_open(l, s, b->bytes, &h, plain);
        else if (listing_good(l))
            memcpy(plain, b->bytes + UVCC_FRAME_HEADER_BYTES, h.msg_len);
        const size_t len = frame_fields(l, s, &h, plain);
        if (s->kind == UVCC_FRAME_ACK)
            ack_fields(l, plain, len, &w);
        else if (listing_good(l))
            ping_fields(l, plain, len, &w);
    }
    wire_free(&w);
}

static void control(listing *l, scene *s) {
    had what = {.count = 0};
    wire w = {.l = {NULL}};
    packet p = {.len = 0};
    if (s->kind == UVCC_FRAME_ACK) {
        s->rx_online = value_number(l, "rx_online_bytes", UINT64_MAX);
        s->rx_keys = value_number(l, "rx_keys_bytes", UINT64_MAX);
        what.pings = value_number(l, "pings", 1);
        what.count = value_numbers(l, "received", what.frame, ACK_SENT_MAX);
    }
    listing_must(l, s->kind == UVCC_FRAME_ACK || s->kind == UVCC_FRAME_PING,
                 "no codec handles this kind");
    if (control_begin(l, &w, s, &what))
        p = wire_poll(l, &w, 0, control_time(s, &what));
    wire_free(&w);
    listing_made(l, LISTING_BYTES, p.bytes, p.len);
    if (listing_good(l))
        control_fields(l, s, &what);
}

void codec_frame(listing *l, listing_seen *seen) {
    scene s;
    scene_values(l, &s);
    if (!listing_good(l))
        return;
    const bool is_control = uvcc_frame_kind_class(s.kind) == UVCC_CLASS_CONTROL;
    if (is_control)
        control(l, &s);
    else
        reliable(l, &s);
    if (!listing_good(l))
        return;
    snprintf(l->subject, sizeof l->subject, "%s", uvcc_frame_kind_name(s.kind));
    seen->kind[s.kind] = true;
    seen->suite[s.suite] = true;
    if (s.suite != 0)
        seen->sealed[is_control] = true;
}

/* ---- the first message of a stream ---- */

void codec_call(listing *l, listing_seen *seen) {
    uint8_t out[UVCC_CALL_BYTES];
    const uint8_t from = (uint8_t)value_number(l, "from", 2);
    const uint8_t to = (uint8_t)value_number(l, "to", 2);
    const uint64_t sid_tag = value_number(l, "sid_tag", UINT64_MAX);
    if (!listing_good(l))
        return;
    uvcc_call c = {.from = from, .to = to, .sid_tag = sid_tag};
    listing_must(l, uvcc_call_encode(out, &c) == 0, "nobody calls so");
    if (!listing_good(l))
        return;
    listing_made(l, LISTING_BYTES, out, sizeof out);
    const listing_block *b = &l->block[LISTING_BYTES];
    listing_must(l, b->len == UVCC_CALL_BYTES && uvcc_call_decode(b->bytes, &c) == 0, "no call");
    if (!listing_good(l))
        return;
    field_text(l, "magic", "UVC1", 4);
    field_number(l, "version", 1, 1, "");
    field_number(l, "from", 1, c.from, "party");
    field_number(l, "to", 1, c.to, "party");
    field_number(l, "zero", 1, 0, "");
    field_code(l, "sid_tag", 8, c.sid_tag, "");
    field_number(l, "zero", 4, 0, "");
    field_code(l, "crc32", 4, uvcci_ld32(field_peek(l, 4)), "of bytes 0..19");
    snprintf(l->subject, sizeof l->subject, "Call");
    seen->call = true;
}
