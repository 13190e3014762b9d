/* SPDX-License-Identifier: Apache-2.0 */
/* link_tx.c - frames out: control frames, cutting, sealing, retransmission; one transmit at a time.
 *
 * A frame lives from its first transmission to the cumulative ack (link_flight); its header is
 * written anew for each transmission, its payload and tag are sealed once.
 *
 * Invariants: at most one transmit is outstanding, and one more of a sealed stream is built ahead
 * of it; nothing that either points to is freed before its transmit_done; a control frame goes
 * before the data frames of its transmit. */
#include "proto/link_tx.h"

#include <assert.h>
#include <string.h>

#include "proto/ackmsg.h"
#include "proto/bytes.h"
#include "proto/crc.h"
#include "proto/frame.h"
#include "proto/link_acked.h"
#include "proto/link_cc.h"
#include "proto/link_core.h"
#include "proto/link_flight.h"
#include "proto/link_hello.h"
#include "proto/link_keys.h"
#include "proto/link_path.h"
#include "proto/link_pool.h"
#include "proto/link_queue.h"
#include "proto/link_scratch.h"
#include "proto/link_seal.h"
#include "proto/link_send.h"
#include "proto/link_window.h"
#include "proto/mutant.h"

#define SCRATCH_BYTES (15u << 10)
#define RETRY_NS      UINT64_C(1000000)
#define FIRST_BYTES   4096u

/* A stream's transmit is closed when it holds this much: it bounds what an urgent message waits
 * for. A stream that takes one at once takes more in a call, at less cost; not of what is sealed,
 * since the peer would wait for the sealing of all of it. */
#define TRANSMIT_MIN_BYTES (256u << 10)
#define TRANSMIT_MAX_BYTES (1024u << 10)
#define TRANSMIT_NS        UINT64_C(1000000)

/* ---- control frames ---- */

/* Of a control frame's message what is in the frame: all of it but in HELLO. */
typedef struct control_part {
    uint32_t msg_id, msg_len, offset;
} control_part;

/* Writes one control frame. A sealed one gets a random nonce, an unsealed one carries our
 * cumulative ack: its header is then the only news that a peer without keys has. 0, UVCC_ERR_LIMIT
 * if it does not fit this packet, or an error of the random hook. */
static int emit_part(uvcc_link *l, uint8_t kind, const control_part *part, const uint8_t *payload,
                     size_t len, bool sealed) {
    uvcci_scratch *s = l->tx.scratch;
    size_t body = len + (sealed ? UVCC_FRAME_CTL_SEAL_BYTES : 0);
    size_t total = UVCC_FRAME_HEADER_BYTES + body;
    if (total > s->cap - s->used || s->count == UVCCI_SCRATCH_SLICES ||
        (l->cfg.datagram && s->total != 0 && s->total + total > l->tx.path.packet))
        return UVCC_ERR_LIMIT;
    uint8_t nonce[UVCCI_FRAME_NONCE_BYTES];
    if (sealed && l->cfg.random.fill(l->cfg.random.user, nonce, sizeof nonce) != 0)
        return UVCC_ERR_RANDOM;
    uint8_t *p = uvcci_scratch_put(s, total), *at = p + UVCC_FRAME_HEADER_BYTES;
    bool ack = !sealed && l->have_run && kind != UVCC_FRAME_HELLO;
    uvcc_frame_header h = {
        .kind = kind,
        .src = l->cfg.me,
        .dst = l->cfg.peer,
        .flags = sealed ? UVCC_FRAME_SEALED : 0,
        .sid_tag = l->cfg.sid_tag,
        .step = l->step,
        .msg_id = part->msg_id,
        .chunk_cnt = 1,
        .msg_len = part->msg_len,
        .offset = part->offset,
        .payload_len = (uint32_t)body,
        .ack = ack ? l->rx.cum : 0,
    };
    uvcc_frame_encode_header(&h, p);
    if (sealed) {
        memcpy(at, nonce, sizeof nonce);
        if (l->names.control != NULL)
            l->names.control(l->names.user, l, l->keys->ctl_name, nonce);
        int err = uvcci_xaead_seal(l->keys->ctl_tx, nonce, p, UVCCI_FRAME_BOUND_BYTES, payload, len,
                                   at + sizeof nonce);
        assert(err == 0);
        (void)err;
    } else {
        memcpy(at, payload, len);
    }
    uvcci_frame_put_crc(p, uvcc_frame_crc(p, at, body));
    l->stats.frames_tx++;
    return 0;
}

static int emit_control(uvcc_link *l, uint8_t kind, const uint8_t *payload, size_t len,
                        bool sealed) {
    return emit_part(l, kind, &(control_part){.msg_len = (uint32_t)len}, payload, len, sealed);
}

static int emit_ack(uvcc_link *l) {
    uint8_t payload[UVCCI_ACK_MAX_BYTES];
    uvcci_ack ack;
    uint32_t ranges = UVCCI_ACK_RANGES_MAX;
    size_t fixed = UVCC_FRAME_HEADER_BYTES + UVCC_FRAME_CTL_SEAL_BYTES + UVCCI_ACK_MIN_BYTES;
    if (l->cfg.datagram && l->tx.scratch->total + fixed > l->tx.path.packet)
        return UVCC_ERR_LIMIT;
    size_t room = l->cfg.datagram ? l->tx.path.packet - l->tx.scratch->total - fixed : SIZE_MAX;
    if (room / UVCCI_ACK_RANGE_BYTES < ranges)
        ranges = (uint32_t)(room / UVCCI_ACK_RANGE_BYTES);
    uvcci_window_ack(l, &ack, ranges);
    size_t len = uvcci_ack_encode(&ack, payload);
    int err = emit_control(l, UVCC_FRAME_ACK, payload, len, l->keys != NULL);
    if (err != 0) {
        l->rx.ack_at = l->now;
        return err;
    }
    l->tx.scratch->has_ack = true;
    l->stats.acks_tx++;
    return 0;
}

/* A PING of len bytes: its number, never 0, and zeros. */
static int emit_numbered(uvcc_link *l, uint8_t *payload, size_t len) {
    uint32_t number = l->tx.pings == UINT32_MAX ? 1 : l->tx.pings + 1;
    memset(payload, 0, len);
    uvcci_st32(payload, number);
    int err = emit_control(l, UVCC_FRAME_PING, payload, len, l->keys != NULL);
    if (err != 0)
        return err;
    l->tx.pings = number;
    l->stats.pings_tx++;
    return 0;
}

static int emit_ping(uvcc_link *l) {
    uint8_t payload[UVCCI_PING_MIN_BYTES];
    return emit_numbered(l, payload, sizeof payload);
}

/* A PING padded to the size that the path is asked for, alone in its packet. */
static int emit_probe(uvcc_link *l) {
    uint32_t bytes = uvcci_path_due(l);
    if (bytes == 0)
        return 0;
    size_t head = UVCC_FRAME_HEADER_BYTES + (l->keys != NULL ? UVCC_FRAME_CTL_SEAL_BYTES : 0);
    if (!uvcci_scratch_reserve(l, uvcci_max64(SCRATCH_BYTES, 2 * (uint64_t)UVCCI_PACKET_MAX_BYTES)))
        return UVCC_ERR_NOMEM;
    uint8_t *payload = l->tx.scratch->bytes + UVCCI_PACKET_MAX_BYTES;
    int err = emit_numbered(l, payload, bytes - head);
    if (err == 0)
        uvcci_path_sent(l, l->tx.pings, uvcci_tx_rto(l));
    return err;
}

/* The HELLO that waits: whole, or in pieces that every path carries, and the rest of one whose
 * first pieces are out. */
static int emit_hello(uvcc_link *l) {
    uvcci_hello_out *o = l->hello_out;
    const uint32_t packet = l->cfg.datagram ? uvcci_path_base(l) : UVCCI_PACKET_BYTES;
    const uint32_t max = packet - UVCC_FRAME_HEADER_BYTES;
    if (o->sealed || o->len <= max) {
        int err = emit_control(l, UVCC_FRAME_HELLO, o->payload, o->len, o->sealed);
        if (err == 0)
            uvcci_link_hello_drop(l);
        return err;
    }
    while (o->cut < o->len) {
        const uint32_t left = (uint32_t)o->len - o->cut, len = left < max ? left : max;
        const control_part part = {.msg_id = o->msg_id, .msg_len = o->len, .offset = o->cut};
        int err = emit_part(l, UVCC_FRAME_HELLO, &part, o->payload + o->cut, len, false);
        if (err != 0)
            return err;
        o->cut = (uint16_t)(o->cut + len);
    }
    uvcci_link_hello_drop(l);
    return 0;
}

/* HELLO, ACK and PING that are due. What does not fit this packet waits for the next. */
static int emit_controls(uvcc_link *l) {
    int err = 0;
    if (l->hello_out != NULL)
        err = emit_hello(l);
    if (err != 0 || !l->started)
        return err;
    if (l->rx.ack_at <= l->now)
        err = emit_ack(l);
    if (err == 0 && l->tx.ping_at <= l->now) {
        err = emit_ping(l);
        if (err == 0) {
            l->tx.ping_at = uvcci_later(l->now, l->tx.ping_wait);
            l->tx.ping_wait = uvcci_min64(2 * l->tx.ping_wait, l->cfg.rto_max_ns);
        }
    }
    if (err == 0 && l->tx.alive_at <= l->now) {
        err = emit_ping(l);
        if (err == 0)
            l->tx.alive_at = uvcci_later(l->now, l->cfg.keepalive_ns);
    }
    return err;
}

/* ---- data frames ---- */

static uint32_t seal_bytes(const uvcc_link *l) {
    return l->keys != NULL ? UVCC_FRAME_SEAL_BYTES : 0;
}

static uint32_t payload_max(const uvcc_link *l) {
    uint32_t frame = l->cfg.datagram ? uvcci_path_base(l) : l->cfg.frame_bytes;
    return frame - UVCC_FRAME_HEADER_BYTES - seal_bytes(l);
}

static void data_header(const uvcc_link *l, const uvcc_link_msg *m, const uvcci_tx_frame *f,
                        uint64_t seq, uint64_t ack, uint8_t out[UVCC_FRAME_HEADER_BYTES]) {
    uint32_t chunk = f->offset / UVCC_CHUNK_BYTES;
    uvcc_frame_header h = {
        .kind = m->kind,
        .src = l->cfg.me,
        .dst = l->cfg.peer,
        .flags = l->keys != NULL ? UVCC_FRAME_SEALED : 0,
        .sid_tag = l->cfg.sid_tag,
        .seq = seq,
        .step = m->step,
        .op_id = m->op_id,
        .msg_id = m->msg_ids[chunk],
        .chunk_idx = (uint16_t)chunk,
        .chunk_cnt = (uint16_t)(m->len == 0 ? 1 : (m->len - 1) / UVCC_CHUNK_BYTES + 1),
        .msg_len = m->len,
        .offset = f->offset,
        .payload_len = f->len + seal_bytes(l),
        .ack = ack,
        .crc32 = f->crc,
    };
    uvcc_frame_encode_header(&h, out);
}

/* Gives the place of the tag. */
static uint8_t *put_frame_body(uvcc_link *l, uvcci_tx_frame *f) {
    uvcci_scratch *s = l->tx.scratch;
    uint8_t *tag = NULL;
    uvcci_scratch_slice(s, f->msg->data + f->offset, f->len);
    if (l->keys != NULL)
        tag = memcpy(uvcci_scratch_put(s, UVCCI_TAG_BYTES), f->tag, UVCCI_TAG_BYTES);
    l->stats.frames_tx++;
    if (!l->cfg.datagram)
        return tag;
    uvcci_link_cc_sent(l, f);
    f->sent_ns = l->now;
    f->xmit = l->tx.xmit++;
    if (l->tx.sent.first == 0) /* RFC 6298 5.1: what is sent later does not put silence off */
        l->tx.rto_base = l->now;
    return tag;
}

/* First transmission: seals the piece where it stands. The frame's fields are set but tag and crc.
 */
static int emit_first(uvcc_link *l, uint64_t seq, uvcci_tx_frame *f) {
    uvcci_seal s = {.seq = seq, .frame = f, .data = f->msg->data + f->offset};
    if (l->keys != NULL && (s.key = uvcci_link_key_of(l, f->msg->step, seq, true)) == NULL)
        return UVCC_ERR_CRYPTO;
    f->ack = l->keys != NULL ? 0 : l->rx.cum;
    s.header = uvcci_scratch_put(l->tx.scratch, UVCC_FRAME_HEADER_BYTES);
    data_header(l, f->msg, f, seq, f->ack, s.header);
    const bool waits = uvcci_seal_may_wait(l, &s);
    int err = waits ? 0 : uvcci_seal_now(&s);
    s.tag = put_frame_body(l, f);
    if (waits)
        err = uvcci_seal_later(l, &s);
    if (err != 0)
        l->tx.fatal = err; /* the piece is lost */
    return err;
}

/* Later ones change the ack alone; the CRC of the difference, moved past the payload, corrects the
 * CRC without reading the payload again. */
static void emit_again(uvcc_link *l, uint64_t seq, uvcci_tx_frame *f) {
    uint8_t *header = uvcci_scratch_put(l->tx.scratch, UVCC_FRAME_HEADER_BYTES);
    data_header(l, f->msg, f, seq, f->ack, header);
    if (l->keys == NULL && f->ack != l->rx.cum) {
        uint32_t old = uvcc_frame_crc(header, NULL, 0);
        f->ack = l->rx.cum;
        uvcci_frame_put_ack(header, f->ack);
        f->crc = uvcci_crc32_combine(old ^ uvcc_frame_crc(header, NULL, 0), f->crc, f->len);
        uvcci_frame_put_crc(header, f->crc);
    }
    f->resent = 1;
    l->stats.retransmissions++;
    (void)put_frame_body(l, f);
    uvcci_flight_unlist(l, f);
    if (l->cfg.datagram)
        uvcci_flight_sent(l, seq, f);
}

/* Where the frames of a transmit are sealed and opened side by side, a message of less than a
 * transmit is cut into as many; see uvcci_link_expect(). The first one is short: the peer has no
 * place for its piece, nor for the others', before it opened that. */
static uint32_t piece_max(const uvcc_link *l, const uvcc_link_msg *m) {
    const uint32_t max = payload_max(l), least = (max + 1) / 2;
    if (l->cfg.datagram || l->keys == NULL || l->cfg.transmit_frames == 1)
        return max;
    if (m->cut == 0 && m->len > least)
        return least < FIRST_BYTES ? least : FIRST_BYTES;
    const uint32_t share = (m->len / l->cfg.transmit_frames + 64) / 64 * 64;
    return share < least ? least : share < max ? share : max;
}

/* Bytes of the next piece of m that go into a packet with `room` left, or -1: it waits for the
 * next. */
static int64_t piece_bytes(const uvcc_link *l, const uvcc_link_msg *m, size_t room) {
    uint32_t max = piece_max(l, m), left = m->len - m->cut;
    uint32_t chunk = UVCC_CHUNK_BYTES - m->cut % UVCC_CHUNK_BYTES;
    uint32_t want = left < chunk ? left : chunk;
    size_t head = UVCC_FRAME_HEADER_BYTES + seal_bytes(l);
    if (want > max)
        want = max;
    if (room >= head + want)
        return want;
    /* A message that needs several frames anyway may fill the packet up. */
    if (m->len > max && room >= head + max / 2)
        return (int64_t)(room - head);
    return -1;
}

static int cut(uvcc_link *l, uvcc_link_msg *m, uint32_t len) {
    uint64_t seq = l->tx.next;
    assert(len <= m->len - m->cut && (len != 0 || m->len == 0));
    uvcci_tx_frame *f = uvcci_flight_reserve(l);
    if (f == NULL)
        return UVCC_ERR_NOMEM;
    f->msg = m;
    f->offset = m->cut;
    f->len = len;
    f->where = UVCCI_NOWHERE;
    f->resent = f->probed = f->big = 0;
    f->crc = 0;
    int err = emit_first(l, seq, f);
    if (err != 0)
        return err;
    if (l->tx.cls[m->cls].begun != m)
        uvcci_send_begin(l, m);
    l->tx.next++;
    l->tx.unreceived++;
    if (l->cfg.datagram)
        uvcci_flight_sent(l, seq, f);
    m->frames++;
    m->cut += len;
    uvcci_send_moved(l, len);
    if (m->cut == m->len)
        l->tx.cls[m->cls].begun = m->next;
    return 0;
}

static uvcc_link_msg *new_next(const uvcc_link *l, const uvcci_tx_class *c) {
    return l->tx.next - l->tx.cum > l->tx.window ? NULL : uvcci_send_next(c);
}

/* After many timeouts with nothing received what goes first takes turns, by timeouts: a peer that
 * has no room for messages that are in flight may wait for the rest of those that it began to take,
 * in new frames or in the other class. */
static bool turn_of_new(const uvcc_link *l) {
    return l->tx.path.timeouts >= UVCCI_TURN_TIMEOUTS && (l->tx.path.timeouts & 1) != 0;
}

static bool turn_of_keys(const uvcc_link *l) {
    return l->tx.path.timeouts >= UVCCI_TURN_TIMEOUTS && (l->tx.path.timeouts & 2) != 0;
}

/* Lost frames, then new ones, of one class. 1: the class has no more; 0: the packet is full. */
static int emit_class(uvcc_link *l, uvcci_tx_class *c) {
    for (;;) {
        size_t room = uvcci_scratch_room(l);
        if (room == 0 || !uvcci_link_cc_room(l))
            return 0;
        uvcc_link_msg *m = new_next(l, c);
        if (c->lost.first != 0 && !(m != NULL && turn_of_new(l))) {
            uint64_t seq = uvcci_flight_seq(l, c->lost.first);
            uvcci_tx_frame *f = uvcci_flight_at(l, seq);
            if (room < UVCC_FRAME_HEADER_BYTES + f->len + seal_bytes(l) &&
                l->tx.scratch->total != 0)
                return 0;
            emit_again(l, seq, f);
            continue;
        }
        if (m == NULL || uvcci_send_spent(l, m))
            return 1;
        int64_t len = piece_bytes(l, m, room);
        if (len < 0)
            return 0;
        int err = cut(l, m, (uint32_t)len);
        if (err != 0)
            return err;
    }
}

static bool data_waits(const uvcc_link *l) {
    for (size_t i = 0; i < 2; i++) {
        const uvcci_tx_class *c = &l->tx.cls[i];
        if (c->lost.first != 0 || new_next(l, c) != NULL)
            return true;
    }
    return false;
}

static int emit_data(uvcc_link *l) {
    int more = data_waits(l);
    if (more == 0) {
        uvcci_link_cc_idle(l);
    } else if (uvcci_link_cc_open(l)) {
        const int first = turn_of_keys(l) ? UVCC_CLASS_KEYS : UVCC_CLASS_ONLINE;
        more = emit_class(l, &l->tx.cls[first]);
        if (more == 1)
            more = emit_class(l, &l->tx.cls[1 - first]);
    }
    if (l->cfg.datagram)
        uvcci_tx_rto_arm(l);
    uvcci_tx_ping_arm(l);
    return more < 0 ? more : 0;
}

/* The frames since transmission `first` stand in one packet: is it one that not every path
 * carries? They are the last of the list. */
static void mark_packet(uvcc_link *l, uint32_t first) {
    bool big = l->tx.scratch->total > uvcci_path_base(l);
    if (!l->cfg.datagram)
        return;
    for (uint32_t at = l->tx.sent.last; at != 0;) {
        uvcci_tx_frame *f = uvcci_flight_at(l, uvcci_flight_seq(l, at));
        if ((int32_t)(f->xmit - first) < 0)
            return;
        f->big = big;
        at = f->prev;
    }
}

/* ---- the caller's side ---- */

static int build(uvcc_link *l) {
    if (l->started)
        uvcci_path_data(l); /* a search that begins now has its probe in this packet */
    if (l->tx.path.at <= l->now && l->started) {
        int err = emit_probe(l);
        if (err != 0 || l->tx.path.probe != 0)
            return err;
    }
    if (!uvcci_scratch_reserve(l, SCRATCH_BYTES))
        return UVCC_ERR_NOMEM;
    int err = emit_controls(l);
    if (err == UVCC_ERR_LIMIT)
        return 0;
    if (err != 0)
        return err;
    if (!l->started || l->tx.resume_at != UVCC_NEVER)
        return 0;
    uint32_t first = l->tx.xmit;
    err = emit_data(l);
    mark_packet(l, first);
    if (uvcci_seal_rest(l) != 0)
        err = l->tx.fatal = UVCC_ERR_CRYPTO;
    return err;
}

/* Something may be there to send: saves an idle link the scratch buffer. */
static bool pending(const uvcc_link *l) {
    if (l->hello_out != NULL)
        return true;
    if (!l->started)
        return false;
    if (l->rx.ack_at <= l->now || l->tx.ping_at <= l->now || l->tx.alive_at <= l->now ||
        l->tx.path.at <= l->now)
        return true;
    for (size_t i = 0; i < 2; i++) {
        const uvcci_tx_class *c = &l->tx.cls[i];
        if (c->lost.first != 0 || c->begun != NULL || uvcci_link_queue_peek(c) != NULL)
            return true;
    }
    return false;
}

/* What waits goes out the first time, so that it is of no message that an ACK can end by right. */
static bool may_seal_ahead(const uvcc_link *l) {
    return !l->cfg.datagram && l->keys != NULL && l->started && l->tx.resume_at == UVCC_NEVER &&
           uvcci_scratch_left(l->tx.ahead) == 0 && l->tx.cls[0].lost.first == 0 &&
           l->tx.cls[1].lost.first == 0 && data_waits(l);
}

/* The transmit after the one that is out: the peer opens that one meanwhile. */
static void seal_ahead(uvcc_link *l) {
    uvcci_scratch *out = l->tx.scratch;
    l->tx.scratch = l->tx.ahead;
    const int err = build(l);
    if (err != 0)
        l->tx.retry_at = uvcci_later(l->now, RETRY_NS);
    l->tx.ahead = l->tx.scratch;
    l->tx.scratch = out;
}

static void take_ahead(uvcc_link *l) {
    uvcci_scratch *taken = l->tx.scratch;
    l->tx.scratch = l->tx.ahead;
    l->tx.ahead = taken;
    uvcci_zombies_come(l);
    l->tx.retry_at = UVCC_NEVER;
    l->tx.offered_at = l->now;
    l->tx.offered_bytes = l->tx.scratch->total;
}

/* A stream's transmit that was taken in part is offered again as it is: what is built anew would be
 * frames in the middle of a frame. Memory that is not there is asked for again after RETRY_NS. */
int uvcc_link_poll_transmit(uvcc_link *l, uvcc_transmit *out, uint64_t now) {
    if (l == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    uvcci_link_tick(l, now);
    if (l->tx.fatal != 0)
        return l->tx.fatal;
    if (!l->cfg.datagram && !l->stream_up)
        return 0;
    if (l->tx.outstanding) {
        if (may_seal_ahead(l))
            seal_ahead(l);
        return l->tx.fatal;
    }
    if (uvcci_scratch_left(l->tx.scratch) == 0 && uvcci_scratch_left(l->tx.ahead) != 0) {
        take_ahead(l);
    } else if (uvcci_scratch_left(l->tx.scratch) == 0) {
        l->tx.retry_at = UVCC_NEVER;
        if (!pending(l)) {
            uvcci_link_cc_idle(l);
            return 0;
        }
        int err = build(l);
        if (l->tx.fatal != 0)
            return l->tx.fatal;
        if (err != 0)
            l->tx.retry_at = uvcci_later(l->now, RETRY_NS);
        if (uvcci_scratch_left(l->tx.scratch) == 0)
            return 0;
        l->tx.offered_at = l->now;
        l->tx.offered_bytes = l->tx.scratch->total;
    }
    uvcci_scratch *s = l->tx.scratch;
    assert(s->first < s->count);
    l->tx.outstanding = true;
    *out = (uvcc_transmit){
        .id = ++l->tx.transmit_id,
        .peer = l->cfg.peer,
        .slice_count = s->count - s->first,
        .slices = s->slices + s->first,
        .total = s->total,
    };
    return 1;
}

/* The last of a stream's transmit has gone. */
static void size_next(uvcc_link *l) {
    const bool fast = l->now - l->tx.offered_at <= TRANSMIT_NS;
    if (!fast || l->keys != NULL)
        l->tx.transmit_max = TRANSMIT_MIN_BYTES;
    else if (l->tx.offered_bytes >= l->tx.transmit_max && l->tx.transmit_max < TRANSMIT_MAX_BYTES)
        l->tx.transmit_max *= 2;
}

int uvcc_link_transmit_done(uvcc_link *l, uint64_t id, size_t bytes, uint64_t now) {
    if (l == NULL)
        return UVCC_ERR_USAGE;
    uvcci_scratch *s = l->tx.scratch;
    if (!l->tx.outstanding || id != l->tx.transmit_id || bytes > s->total ||
        (l->cfg.datagram && bytes != 0 && bytes != s->total))
        return UVCC_ERR_USAGE;
    uvcci_link_tick(l, now);
    l->tx.outstanding = false;
    l->stats.bytes_tx += bytes;
    if (l->cfg.datagram) {
        if (bytes == 0 && s->has_ack) /* what it told is news still */
            l->rx.ack_at = uvcci_min64(l->rx.ack_at, uvcci_later(l->now, l->cfg.ack_delay_ns));
        s->total = 0;
    } else {
        uvcci_scratch_advance(s, bytes);
        if (s->total == 0)
            size_next(l);
    }
    if (s->total == 0)
        uvcci_zombies_free(l);
    return 0;
}

/* ---- streams, time, life ---- */

static void forget_built(uvcc_link *l) {
    if (l->tx.scratch != NULL)
        l->tx.scratch->total = 0;
    if (l->tx.ahead != NULL)
        l->tx.ahead->total = 0;
    uvcci_zombies_come(l);
    uvcci_zombies_free(l);
}

void uvcci_tx_stream_reset(uvcc_link *l) {
    l->tx.outstanding = false;
    l->tx.transmit_max = TRANSMIT_MIN_BYTES;
    l->tx.resume_at = UVCC_NEVER;
    forget_built(l);
}

uint64_t uvcci_tx_timer_deadline(const uvcc_link *l) {
    uint64_t t = uvcci_min64(uvcci_min64(l->tx.rto_at, l->tx.loss_at), l->tx.maybe_at);
    return uvcci_min64(t, l->tx.resume_at);
}

uint64_t uvcci_tx_poll_deadline(const uvcc_link *l) {
    uint64_t t = uvcci_min64(uvcci_min64(l->tx.ping_at, l->tx.alive_at), l->tx.path.at);
    return uvcci_min64(t, uvcci_link_cc_deadline(l));
}

bool uvcci_tx_can_poll(const uvcc_link *l) {
    return l->tx.fatal == 0 && !l->tx.outstanding && uvcci_scratch_left(l->tx.scratch) == 0;
}

size_t uvcci_tx_left(const uvcc_link *l) {
    return uvcci_scratch_left(l->tx.scratch) + uvcci_scratch_left(l->tx.ahead);
}

void uvcci_tx_init(uvcc_link *l) {
    l->tx.transmit_max = TRANSMIT_MIN_BYTES;
    uvcci_acked_init(l);
    uvcci_path_init(l);
    l->tx.ping_at = l->tx.alive_at = l->tx.retry_at = UVCC_NEVER;
    l->tx.window = UVCCI_WINDOW;
}

/* A frame of a message of several has half of what the least packet carries, or more
 * (piece_bytes()), but for the last, and the first (piece_max()). The frames of all messages that
 * the limits let in are few beside those that may be in flight: twice as many, so that what follows
 * a lost frame goes on until it came again. */
void uvcci_link_expect(uvcc_link *l, uint64_t tx_messages) {
    const uint32_t frame = l->cfg.datagram ? UVCCI_PACKET_BYTES : l->cfg.frame_bytes;
    const uint64_t payload = frame - UVCC_FRAME_HEADER_BYTES - UVCC_FRAME_SEAL_BYTES;
    const uint64_t bytes = l->cfg.tx_online_bytes + l->cfg.tx_keys_bytes;
    const uint64_t frames = bytes / (payload / 2) + 2 * tx_messages + UVCCI_BLOCK_FRAMES;
    assert(l->tx.next <= l->tx.cum + 1);
    l->tx.window = (uint32_t)uvcci_min64(frames, UVCCI_WINDOW);
}

static void caches_free(uvcc_link *l) {
    uvcci_flight_free(l);
    if (uvcci_tx_left(l) == 0)
        uvcci_scratch_free(l);
    uvcci_pool_trim(l, &l->tx.pool);
}

void uvcci_tx_trim(uvcc_link *l) {
    assert(l->tx.pool.live == 0 && !l->tx.outstanding);
    caches_free(l);
}

void uvcci_tx_free(uvcc_link *l) {
    uvcci_send_free_all(l);
    l->tx.outstanding = false;
    l->tx.zombies = l->tx.zombies_ahead = NULL; /* went with all messages */
    forget_built(l);
    caches_free(l);
}

uint64_t uvcci_tx_bound(const uvcc_link *l) {
    uint64_t limit = l->cfg.tx_online_bytes + l->cfg.tx_keys_bytes;
    return uvcci_pool_bound(limit / UVCCI_MSG_OVERHEAD_BYTES) + uvcci_flight_bound(l) +
           2 * (sizeof(uvcci_scratch) + SCRATCH_BYTES) + 2 * UVCCI_PACKET_MAX_BYTES;
}

void uvcci_tx_digest(const uvcc_link *l, uvcci_sha256 *h) {
    const uvcci_tx_side *t = &l->tx;
    uvcci_digest64(h, t->cum);
    uvcci_digest64(h, t->next);
    uvcci_digest64(h, t->undone);
    uvcci_digest64(h, t->ack_counter);
    for (size_t i = 0; i < 2; i++) {
        uvcci_digest64(h, t->cls[i].held);
        uvcci_digest64(h, t->cls[i].credit);
        uvcci_digest64(h, t->cls[i].begun_bytes);
    }
    for (uint64_t seq = t->cum + 1; seq < t->next; seq++) {
        const uvcci_tx_block *b = *uvcci_flight_block(l, seq);
        const uvcci_tx_frame *f = &b->frame[seq % UVCCI_BLOCK_FRAMES];
        if ((b->received >> seq % UVCCI_BLOCK_FRAMES & 1) != 0)
            continue;
        uvcci_digest64(h, seq);
        uvcci_digest64(h, (uint64_t)f->offset << 32 | f->len);
        uvcci_digest64(h, (uint64_t)f->msg->kind << 32 | f->msg->op_id);
    }
}
