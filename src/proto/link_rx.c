/* SPDX-License-Identifier: Apache-2.0 */
/* link_rx.c - whole frames in: data into messages, control frames to whom they concern, garbage
 * bounded; and whole messages to their owner and back.
 *
 * The cumulative ack passes a message's completing frame at acceptance, the others when they are
 * buffered (link_place). Nothing is believed before its CRC, and on sealed links its seal, was
 * checked; and until then a datagram takes no memory, a byte stream that of one frame. */
#include "proto/link_rx.h"

#include <assert.h>
#include <string.h>

#include "proto/ackmsg.h"
#include "proto/bytes.h"
#include "proto/frame.h"
#include "proto/link_acked.h"
#include "proto/link_assembly.h"
#include "proto/link_core.h"
#include "proto/link_hello.h"
#include "proto/link_keys.h"
#include "proto/link_place.h"
#include "proto/link_pool.h"
#include "proto/link_session.h"
#include "proto/link_window.h"
#include "proto/mutant.h"
#include "proto/pace.h"

/* A frame this far beyond the greatest seq seen is not what a peer usually sends next. */
#define STREAM_RELEASE_BYTES (32u << 10)
#define KEYS_ACK_NS          UINT64_C(200000)
#define NEAR_FRAMES          1024u

#define NEW_FRAME 1

/* ---- suspicion ----
 *
 * Garbage that looks right costs its opening, which proves it wrong. Opens that fail take from a
 * bucket, opens of new frames give back: while no more is forged than is new, nothing is dropped.
 * Data and control frames have one each, so neither starves the other. Half of data's is kept for
 * frames that cheap checks speak for: who cannot see the seqs in use never gets at it. */

enum { SUSPECT_DATA = 0, SUSPECT_CONTROL = 1 };

static uint64_t suspect_interval(const uvcc_link *l) {
    return l->cfg.suspicious_window_ns / l->cfg.suspicious_max;
}

/* False: over the limit, drop the frame. Streams resend nothing and end at the first garbage. */
static bool suspect_allows(uvcc_link *l, int which, bool likely) {
    uint64_t depth = l->cfg.suspicious_window_ns - suspect_interval(l);
    if (uvcci_pace_has(l->rx.suspect[which], likely ? depth : depth / 2, l->now))
        return true;
    l->stats.suspicious_dropped++;
    return false;
}

static void suspect_note(uvcc_link *l, int which, bool bad) {
    if (bad)
        uvcci_pace_spend(&l->rx.suspect[which], suspect_interval(l), l->now);
    else
        uvcci_pace_refund(&l->rx.suspect[which], suspect_interval(l));
}

/* ---- data frames ---- */

static void violate(uvcc_link *l, const char *why) {
    if (l->violation == NULL)
        l->violation = why;
}

/* Of a step before this run's first there is no frame, and no key. */
bool uvcci_rx_piece_key(uvcc_link *l, const uvcc_frame_header *h, uvcci_aead **key) {
    assert(uvcci_frame_is_sealed(h));
    *key = NULL;
    return !uvcci_link_has_key(l, h->step) ||
           (*key = uvcci_link_key_of(l, h->step, h->seq, false)) != NULL;
}

int uvcci_rx_piece_opened(uvcc_link *l, const uvcc_frame_header *h, int err, bool had_key) {
    suspect_note(l, SUSPECT_DATA, err != 0);
    if (err != 0 && had_key)
        uvcci_keys_forged(l, h->step);
    return err;
}

/* The piece may stand in `out` already. */
static int open_piece(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *header,
                      const uint8_t *body, const uint8_t *tag, uint8_t *out) {
    uvcci_aead *key;
    if (!uvcci_rx_piece_key(l, h, &key))
        return UVCC_ERR_NOMEM;
    const int err = key == NULL ? UVCC_ERR_AUTH
                                : uvcci_aead_open(key, h->seq, header, UVCCI_FRAME_BOUND_BYTES,
                                                  body, uvcci_frame_piece(h), tag, out);
    return uvcci_rx_piece_opened(l, h, err, key != NULL);
}

int uvcci_rx_open_begin(uvcc_link *l) {
    uvcci_rx_partial *in = l->rx.in;
    if (!uvcci_rx_piece_key(l, &in->h, &in->key))
        return UVCC_ERR_NOMEM;
    if (in->key != NULL &&
        !uvcci_aead_open_begin(in->key, &in->part, in->h.seq, in->header, UVCCI_FRAME_BOUND_BYTES))
        in->key = NULL;
    return 0;
}

int uvcci_rx_open_end(uvcc_link *l) {
    uvcci_rx_partial *in = l->rx.in;
    if (in->key == NULL)
        return open_piece(l, &in->h, in->header, in->to, in->tag, in->to);
    const int err = uvcci_aead_open_end(in->key, &in->part, in->tag);
    in->key = NULL;
    if (err != 0)
        uvcci_wipe(in->to, uvcci_frame_piece(&in->h));
    return uvcci_rx_piece_opened(l, &in->h, err, true);
}

/* The place for a frame, and its bytes in it. */
static int place_copy(uvcc_link *l, const uvcc_frame_header *h, uvcci_rx_msg *m,
                      const uint8_t *plain) {
    uvcci_place p;
    uint32_t piece = uvcci_frame_piece(h);
    if (!uvcci_place_take(l, h, m, &p))
        return UVCC_ERR_NOMEM;
    if (piece != 0)
        memcpy(p.msg->data + h->offset, plain, piece);
    uvcci_place_commit(l, h, &p);
    return 0;
}

/* Opened right into its place, which is given back if the seal is wrong: for a message that is here
 * already, or one whose bytes came with this frame. */
static int place_open(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *header,
                      const uint8_t *payload, uvcci_rx_msg *m) {
    uvcci_place p;
    if (!uvcci_place_take(l, h, m, &p))
        return UVCC_ERR_NOMEM;
    int err =
        open_piece(l, h, header, payload, payload + uvcci_frame_piece(h), p.msg->data + h->offset);
    if (err != 0) {
        uvcci_place_undo(l, &p);
        return err == UVCC_ERR_NOMEM ? err : UVCC_ERR_FRAME;
    }
    uvcci_place_commit(l, h, &p);
    return 0;
}

/* Opens a frame into `plain`, and takes its place only then. No payload: it is the stream's, whose
 * bytes are in `plain`. */
static int open_then_place(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *header,
                           const uint8_t *payload, uint8_t *plain) {
    const char *why = NULL;
    uvcci_rx_msg *m = uvcci_assembly_find(l, h);
    uvcci_verdict v = uvcci_judge_message(l, h, m, &why);
    if (v == UVCCI_LATER)
        return UVCC_ERR_FRAME;
    int err = payload == NULL
                  ? uvcci_rx_open_end(l)
                  : open_piece(l, h, header, payload, payload + uvcci_frame_piece(h), plain);
    if (err != 0)
        return err == UVCC_ERR_NOMEM ? err : UVCC_ERR_FRAME;
    if (v == UVCCI_TAKE)
        return place_copy(l, h, m, plain);
    violate(l, why);
    return UVCC_ERR_FRAME;
}

/* A sealed frame that is wholly here. A datagram's is opened on the stack, before anything is
 * taken; so is a stream's that claims more than came with it, or is wrong, in memory of a frame. */
static int take_sealed(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *header,
                       const uint8_t *payload, uvcci_rx_msg *m, uvcci_verdict v) {
    uint8_t stack[UVCCI_PACKET_BYTES], *plain = stack;
    uint32_t piece = uvcci_frame_piece(h);
    if (!l->cfg.datagram && v == UVCCI_TAKE && (m != NULL || piece == h->msg_len))
        return place_open(l, h, header, payload, m);
    if (piece > sizeof stack && (plain = uvcci_link_alloc(l, piece, UVCC_MEM_SECRET)) == NULL)
        return UVCC_ERR_NOMEM;
    int err = open_then_place(l, h, header, payload, plain);
    uvcci_wipe(plain, piece);
    if (plain != stack)
        uvcci_link_give(l, plain, piece, UVCC_MEM_SECRET);
    return err;
}

/* A frame that is refused changes nothing. */
static int take_data(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *header,
                     const uint8_t *payload) {
    const char *why = NULL;
    uvcci_rx_msg *m = uvcci_assembly_find(l, h);
    uvcci_verdict v = uvcci_judge_message(l, h, m, &why);
    bool likely = v == UVCCI_TAKE && h->seq <= l->rx.top + NEAR_FRAMES;
    if (l->cfg.datagram && uvcci_frame_is_sealed(h) && v != UVCCI_LATER &&
        !suspect_allows(l, SUSPECT_DATA, likely))
        return UVCC_ERR_LIMIT;
    if (v == UVCCI_LATER && l->cfg.datagram) {
        l->stats.refused++;
        uvcci_ack_within(l, l->cfg.ack_delay_ns); /* we are here, and did not take it */
        return 0;
    }
    if (v == UVCCI_LATER)
        return UVCC_ERR_FRAME;
    if (uvcci_frame_is_sealed(h))
        return take_sealed(l, h, header, payload, m, v);
    return v == UVCCI_WRONG ? UVCC_ERR_FRAME : place_copy(l, h, m, payload);
}

/* ---- control frames ---- */

static bool all_zero(const uint8_t *p, size_t n) {
    uint8_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum |= p[i];
    return sum == 0;
}

static int take_ack(uvcc_link *l, const uint8_t *p, size_t len, const char **why) {
    uvcci_ack a;
    *why = "a malformed ACK";
    if (uvcci_ack_decode(&a, p, len) != 0)
        return UVCC_ERR_FRAME;
    *why = "an ACK of what was never sent";
    if (!uvcci_tx_ack_valid(l, &a))
        return UVCC_ERR_FRAME;
    l->stats.acks_rx++;
    uvcci_tx_ack(l, &a);
    if (UVCCI_MUTANT(17))
        uvcci_ack_within(l, l->cfg.ack_delay_ns);
    return 0;
}

static int take_ping(uvcc_link *l, const uint8_t *p, size_t len, const char **why) {
    *why = "a malformed PING";
    if (len < UVCCI_PING_MIN_BYTES ||
        !all_zero(p + UVCCI_PING_MIN_BYTES, len - UVCCI_PING_MIN_BYTES))
        return UVCC_ERR_FRAME;
    if (len >= l->rx.ping_bytes) { /* a short one does not hide that a long one came */
        l->rx.ping_number = uvcci_ld32(p);
        l->rx.ping_bytes = (uint32_t)len;
    }
    /* PINGs can be replayed: their ACKs keep a distance. */
    uvcci_ack_within(l, l->cfg.ack_delay_ns);
    return 0;
}

/* On a stream a HELLO 3 may come in the same bytes as the HELLO 2 that gives us the keys for it:
 * the last such one is kept until then, unopened, in a buffer of constant size. */
static void hello_keep(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *header,
                       const uint8_t *payload) {
    if (l->hello_early == NULL)
        l->hello_early = uvcci_link_alloc(l, sizeof *l->hello_early, UVCC_MEM_STATE);
    if (l->hello_early == NULL)
        return; /* HELLO repeats */
    assert(h->payload_len <= sizeof l->hello_early->payload);
    memcpy(l->hello_early->header, header, UVCC_FRAME_HEADER_BYTES);
    memcpy(l->hello_early->payload, payload, h->payload_len);
}

/* Control frames are opened into a copy: their owner's bytes are const, and an ACK must not half
 * change the sender before all of it was checked. A HELLO never breaks a stream: the peer may be in
 * another state of the handshake. */
static int take_control(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *header,
                        const uint8_t *payload) {
    bool sealed = uvcci_frame_is_sealed(h), hello = h->kind == UVCC_FRAME_HELLO;
    const uint8_t *p = payload;
    uint8_t stack[UVCCI_ACK_MAX_BYTES], *tmp = stack;
    size_t len = h->msg_len;
    if (hello && !sealed) {
        uvcci_link_hello_take(l, h, payload, false);
        return 0;
    }
    if (hello && l->keys == NULL && len <= UVCCI_HELLO_SEALED_MAX) {
        hello_keep(l, h, header, payload);
        return 0;
    }
    if (hello && len > UVCCI_HELLO_SEALED_MAX) {
        l->stats.refused++;
        return 0;
    }
    if (sealed) {
        if ((l->cfg.datagram || hello) && !suspect_allows(l, SUSPECT_CONTROL, true))
            return hello ? 0 : UVCC_ERR_LIMIT;
        const uint8_t *body = payload + UVCCI_FRAME_NONCE_BYTES;
        size_t body_len = h->payload_len - UVCCI_FRAME_NONCE_BYTES;
        bool is_long = len > sizeof stack;
        int err = uvcci_xaead_open(l->keys->ctl_rx, payload, header, UVCCI_FRAME_BOUND_BYTES, body,
                                   body_len, is_long ? NULL : stack);
        if (err != 0) {
            suspect_note(l, SUSPECT_CONTROL, true);
            uvcci_keys_forged_ctl(l);
            l->stats.refused += hello;
            return hello ? 0 : UVCC_ERR_FRAME;
        }
        if (is_long) {
            tmp = uvcci_link_alloc(l, len, UVCC_MEM_STATE);
            if (tmp == NULL)
                return UVCC_ERR_NOMEM;
            (void)uvcci_xaead_open(l->keys->ctl_rx, payload, header, UVCCI_FRAME_BOUND_BYTES, body,
                                   body_len, tmp);
        }
        p = tmp;
        l->heard = true;
    }
    const char *why = NULL;
    uint64_t counter = l->tx.ack_counter;
    int err = 0;
    if (hello)
        uvcci_link_hello_push(l, p, len, true, false);
    else if (h->kind == UVCC_FRAME_ACK)
        err = take_ack(l, p, len, &why);
    else
        err = take_ping(l, p, len, &why);
    if (tmp != stack)
        uvcci_link_give(l, tmp, len, UVCC_MEM_STATE);
    if (err != 0 && sealed)
        violate(l, why);
    if (l->tx.ack_counter != counter) { /* no replay */
        uvcci_heard(l);
        if (sealed)
            suspect_note(l, SUSPECT_CONTROL, false);
    }
    if (err == 0 && !sealed)
        uvcci_tx_cum(l, h->ack);
    return err;
}

void uvcci_link_take_early(uvcc_link *l) {
    uvcc_frame_header h;
    if (l->hello_early == NULL || l->keys == NULL)
        return;
    uvcci_hello_early e = *l->hello_early;
    uvcci_link_hello_late(l);
    if (uvcc_frame_decode_header(e.header, &h, NULL) == 0)
        (void)take_control(l, &h, e.header, e.payload);
}

/* ---- any frame ---- */

/* Another session's or run's. */
static int frame_stray(uvcc_link *l, uint64_t *stat) {
    ++*stat;
    if (!l->cfg.datagram)
        return 0;
    if (!suspect_allows(l, SUSPECT_DATA, false))
        return UVCC_ERR_LIMIT;
    suspect_note(l, SUSPECT_DATA, true);
    return 0;
}

bool uvcci_rx_foreign_hello(const uvcc_link *l, const uvcc_frame_header *h) {
    return h->kind == UVCC_FRAME_HELLO && !uvcci_frame_is_sealed(h) && h->src == l->cfg.peer &&
           h->dst == l->cfg.me && h->msg_len <= UVCC_HELLO_MAX_BYTES;
}

/* What is not a new frame of this session and run ends here, forged or not. 0, an error, or
 * NEW_FRAME: it is looked at further. payload may be NULL if it was not kept. */
static int frame_known(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *payload) {
    l->stats.frames_rx++;
    switch (uvcci_judge_session(l, h)) {
    case UVCCI_TAKE:
    case UVCCI_WRONG:
        return NEW_FRAME;
    case UVCCI_REPEAT:
        l->stats.duplicates++;
        l->rx.repeats++;
        uvcci_ack_within(l, l->cfg.ack_delay_ns); /* whatever the rate of repetitions is */
        return 0;
    case UVCCI_FOREIGN: /* a peer with another sid_job has another tag: its HELLO says so */
        if (uvcci_rx_foreign_hello(l, h) && payload != NULL)
            uvcci_link_hello_take(l, h, payload, true);
        return frame_stray(l, &l->stats.foreign);
    case UVCCI_STALE:
        return frame_stray(l, &l->stats.stale_run);
    case UVCCI_IGNORE:
        l->stats.refused++;
        return 0;
    default:
        return UVCC_ERR_FRAME;
    }
}

int uvcci_rx_take(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *header,
                  const uint8_t *payload) {
    int err = frame_known(l, h, payload);
    if (err != NEW_FRAME)
        return err;
    return uvcc_frame_kind_class(h->kind) == UVCC_CLASS_CONTROL
               ? take_control(l, h, header, payload)
               : take_data(l, h, header, payload);
}

int uvcci_rx_take_gathered(uvcc_link *l) {
    const uvcci_rx_partial *in = l->rx.in;
    int err = frame_known(l, &in->h, in->to);
    return err != NEW_FRAME ? err : open_then_place(l, &in->h, in->header, NULL, in->to);
}

int uvcci_rx_packet(uvcc_link *l, const uint8_t *data, size_t len) {
    while (len != 0) {
        uvcc_frame_header h;
        const uint8_t *payload = NULL;
        ptrdiff_t n = uvcc_frame_decode(data, len, &h, &payload, NULL);
        int err = n <= 0 ? UVCC_ERR_FRAME : uvcci_rx_take(l, &h, data, payload);
        if (err == UVCC_ERR_FRAME) {
            l->stats.refused++;
            return 0;
        }
        if (err == UVCC_ERR_LIMIT)
            return 0;
        if (err != 0)
            return err;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* ---- the owner's side ---- */

int uvcc_link_poll_message(uvcc_link *l, uvcc_link_rx *out) {
    if (l == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    uvcci_rx_msg *m = l->rx.ready_first;
    if (m == NULL)
        return 0;
    l->rx.ready_first = m->next;
    if (m->next == NULL)
        l->rx.ready_last = NULL;
    m->state = UVCCI_MSG_OFFERED;
    out->token = uvcci_object_token(&m->object);
    out->kind = m->kind;
    out->step = m->step;
    out->op_id = m->op_id;
    out->chunk_cnt = m->chunk_cnt;
    memcpy(out->msg_ids, m->msg_ids, m->chunk_cnt * sizeof m->msg_ids[0]);
    out->data = m->data;
    out->len = m->len;
    return 1;
}

int uvcc_link_accept(uvcc_link *l, uint64_t token, uint64_t now) {
    if (l == NULL)
        return UVCC_ERR_USAGE;
    uvcci_rx_msg *m = uvcci_pool_find(&l->rx.pool, token);
    if (m == NULL || m->state != UVCCI_MSG_OFFERED)
        return UVCC_ERR_USAGE;
    assert(m->got == m->len);
    uvcci_link_tick(l, now);
    m->state = UVCCI_MSG_ACCEPTED;
    l->stats.messages_rx++;
    if (!UVCCI_MUTANT(4))
        uvcci_window_keep(l, m->done_seq);
    if (l->cfg.datagram) /* its frames were told when they came */
        uvcci_ack_within(l, l->cfg.ack_delay_ns);
    else
        uvcci_ack_note(l, UVCC_FRAME_HEADER_BYTES + uvcci_min64(m->len, l->cfg.frame_bytes));
    if (m->cls == UVCC_CLASS_KEYS) /* a dealer may have room for one op's only */
        uvcci_ack_within(l, uvcci_min64(l->cfg.ack_delay_ns, KEYS_ACK_NS));
    return 0;
}

int uvcc_link_release(uvcc_link *l, uint64_t token, uint64_t now) {
    if (l == NULL)
        return UVCC_ERR_USAGE;
    uvcci_rx_msg *m = uvcci_pool_find(&l->rx.pool, token);
    if (m == NULL || (m->state != UVCCI_MSG_OFFERED && m->state != UVCCI_MSG_ACCEPTED))
        return UVCC_ERR_USAGE;
    uvcci_link_tick(l, now);
    int cls = m->cls;
    l->rx.released[cls] += uvcci_msg_cost(m->len);
    assert(l->rx.released[cls] <= l->rx.admitted[cls]);
    uvcci_assembly_free(l, m);
    uint64_t grown = l->rx.released[cls] + uvcci_rx_capacity(l, cls) - l->rx.granted[cls];
    uint64_t enough = uvcci_rx_capacity(l, cls) / 8;
    if (!l->cfg.datagram) /* the sender's room may be far less than ours (STREAM_ACK_BYTES) */
        enough = uvcci_min64(enough, STREAM_RELEASE_BYTES);
    uvcci_ack_within(l, grown >= enough ? 0 : l->cfg.ack_delay_ns);
    return 0;
}

bool uvcc_link_gapless(const uvcc_link *l) {
    if (l == NULL)
        return false;
    return l->rx.top <= l->rx.cum;
}

/* ---- life ---- */

void uvcci_rx_init(uvcc_link *l) {
    l->rx.ack_at = UVCC_NEVER;
}

bool uvcci_rx_quiet(const uvcc_link *l) {
    return l->rx.pool.live == 0 && uvcc_link_gapless(l);
}

void uvcci_rx_trim(uvcc_link *l) {
    uvcci_window_free(l);
    uvcci_assembly_trim(l);
}

void uvcci_rx_free(uvcc_link *l) {
    uvcci_assembly_free_all(l);
    uvcci_rx_trim(l);
}

uint64_t uvcci_rx_bound(const uvcc_link *l) {
    /* Gathered, and opened to be judged. */
    const uint64_t frame =
        l->cfg.datagram ? UVCCI_PACKET_MAX_BYTES : UVCC_CHUNK_BYTES + UVCC_FRAME_SEAL_BYTES;
    return uvcci_assembly_bound(l) + uvcci_window_bound() + 2 * frame + UVCCI_PACKET_MAX_BYTES;
}

void uvcci_rx_digest(const uvcc_link *l, uvcci_sha256 *h) {
    const uvcci_rx_side *r = &l->rx;
    uvcci_digest64(h, r->cum);
    uvcci_digest64(h, r->top);
    uvcci_digest64(h, r->ack_counter);
    for (size_t i = 0; i < 2; i++) {
        uvcci_digest64(h, r->released[i]);
        uvcci_digest64(h, r->admitted[i]);
        uvcci_digest64(h, r->granted[i]);
    }
    for (uint64_t seq = r->cum + 1; seq <= r->top; seq++)
        uvcci_digest64(h, uvcci_window_state(l, seq));
    /* Records stand in no meaningful order: a sum of hashes has none. */
    uint64_t sum = 0;
    uint32_t at = 0;
    for (uvcci_rx_msg *m; (m = uvcci_pool_each(&r->pool, &at)) != NULL;) {
        uint64_t v[] = {(uint64_t)m->step << 32 | m->op_id, (uint64_t)m->len << 32 | m->got,
                        (uint64_t)m->kind << 8 | m->state};
        uint8_t d[32];
        uvcci_sha256_once(v, sizeof v, d);
        sum += uvcci_ld64(d);
    }
    uvcci_digest64(h, sum);
}
