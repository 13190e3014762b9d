/* SPDX-License-Identifier: Apache-2.0 */
/* acks.h - one link that sends, and an authenticated peer whose acknowledgements are a program of
 * inputs: any cumulative ack, any ranges, any counter, credit and counts, sealed with the right
 * keys, between sends, timers, idle times in which caches are trimmed, transmits that are held, and
 * streams that come back. fuzz_link_acks.c reads the program from the fuzzer, test_link_acks.c from
 * seeded random bytes.
 *
 * Properties: an ACK that is wrong is named as a violation or ignored, one that is right is no
 * violation; memory at its bound and exactly accounted; one seq seals one string of bytes; a link
 * is drained only when the cumulative ack covers all that was sent, and then all memory comes back;
 * what one ACK makes it send is bounded; its deadline is in the future unless a poll gives
 * something. */
#ifndef UVCC_FUZZ_ACKS_H
#define UVCC_FUZZ_ACKS_H

#include "frames.h"

#include "proto/ackmsg.h"
#include "proto/link_state.h"

/* An honest peer gets all that a link has within that time, whatever it was told before. */
#define ACKS_DRAIN_NS (5000 * FUZZ_MS)

enum {
    ACKS_ACTIONS_MAX = 400,
    ACKS_SEQS = 16384,       /* a link that sent so many frames gets no more messages */
    ACKS_PARSE = 256 * 1024, /* more than any frame of this link */
};

typedef struct acks_world {
    fuzz_link f;
    bool up, held; /* held: a transmit is out */
    uvcc_transmit tx;
    uint64_t counter;  /* the greatest of a valid ACK */
    uint64_t top;      /* the greatest seq that was seen */
    uint64_t idle;     /* memory of the link when it has nothing to do */
    uint32_t messages; /* given to the link */
    uint64_t bytes;    /* of them */
    bool mute;         /* the counter is at its end: no ACK counts any more */
    uint64_t frames;   /* data frames since the last input */
    uint64_t part_len; /* streams: of a frame that is not whole */
    uint64_t was[ACKS_SEQS];
    uint8_t part[ACKS_PARSE];
} acks_world;

static inline uint64_t acks_base(const acks_world *w) {
    return (uint64_t)w->f.run << 40;
}

/* ---- what the link sends ---- */

static inline uint64_t acks_hash(uint64_t h, const uint8_t *p, size_t len) {
    for (size_t i = 0; i < len; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001B3);
    return h;
}

/* A frame that goes again is the same but for the ack of an unsealed one: two strings of bytes
 * under one seq would be two under one nonce. */
static inline void acks_frame(acks_world *w, const uint8_t *p, size_t len) {
    uvcc_frame_header h;
    const uint8_t *payload;
    FUZZ_CHECK(uvcc_frame_decode(p, len, &h, &payload, NULL) == (ptrdiff_t)len);
    FUZZ_CHECK((h.kind == UVCC_FRAME_HELLO || w->f.suite == 0) ==
               ((h.flags & UVCC_FRAME_SEALED) == 0));
    if (h.seq == 0)
        return;
    uint64_t at = h.seq - acks_base(w);
    uint64_t hash = acks_hash(acks_hash(7, p, 52), payload, h.payload_len) | 1;
    FUZZ_CHECK(at != 0 && at < ACKS_SEQS && h.seq < w->f.l->tx.next);
    FUZZ_CHECK(w->was[at] == 0 || w->was[at] == hash);
    w->was[at] = hash;
    w->frames++;
    if (h.seq > w->top)
        w->top = h.seq;
}

static inline void acks_parse(acks_world *w, const uint8_t *p, size_t len) {
    FUZZ_CHECK(len <= ACKS_PARSE - w->part_len);
    memcpy(w->part + w->part_len, p, len);
    w->part_len += len;
    size_t at = 0;
    while (w->part_len - at >= UVCC_FRAME_HEADER_BYTES) {
        size_t n = UVCC_FRAME_HEADER_BYTES + uvcci_ld32(w->part + at + 48);
        if (n > w->part_len - at)
            break;
        acks_frame(w, w->part + at, n);
        at += n;
    }
    memmove(w->part, w->part + at, w->part_len - at);
    w->part_len -= at;
}

/* The transmit that is out goes: all of it, a part of a stream's, or nothing. */
static inline void acks_sent(acks_world *w, uint8_t partial) {
    size_t n = w->tx.total;
    if (!w->held)
        return;
    if (partial != 0)
        n = w->f.datagram ? 0 : n * partial / 256;
    size_t left = n;
    for (uint32_t i = 0; i < w->tx.slice_count && left != 0; i++) {
        size_t part = w->tx.slices[i].len < left ? w->tx.slices[i].len : left;
        acks_parse(w, w->tx.slices[i].data, part);
        left -= part;
    }
    FUZZ_CHECK(!w->f.datagram || w->part_len == 0); /* a packet holds whole frames */
    FUZZ_CHECK(uvcc_link_transmit_done(w->f.l, w->tx.id, n, w->f.now) == 0);
    w->held = false;
}

static inline bool acks_poll(acks_world *w) {
    if (w->held || uvcc_link_poll_transmit(w->f.l, &w->tx, w->f.now) != 1)
        return false;
    w->held = true;
    return true;
}

/* All that it has to send now. */
static inline void acks_drain(acks_world *w, uint8_t partial) {
    w->frames = 0;
    acks_sent(w, partial);
    for (uint32_t n = 0; acks_poll(w); n++) {
        acks_sent(w, n == 0 ? partial : 0);
        FUZZ_CHECK(n < 20000); /* no storm */
    }
    FUZZ_CHECK(w->frames <= 2 * (uint64_t)ACKS_SEQS);
}

/* ---- what must hold ---- */

static inline void acks_check(acks_world *w) {
    const uvcc_link *l = w->f.l;
    fuzz_link_check(&w->f);
    FUZZ_CHECK(l->tx.cum < l->tx.next && w->top < l->tx.next);
    if (uvcc_link_drained(l))
        FUZZ_CHECK(l->tx.cum == l->tx.next - 1 && l->tx.unreceived == 0);
}

/* Timers that are due fire; then nothing is due, whether a transmit is out or not. */
static inline void acks_timers(acks_world *w) {
    for (int i = 0; i < 4 && uvcc_link_next_deadline(w->f.l) <= w->f.now; i++) {
        uvcc_link_on_timer(w->f.l, w->f.now);
        if (!w->held)
            acks_drain(w, 0);
    }
    FUZZ_CHECK(uvcc_link_next_deadline(w->f.l) > w->f.now);
}

/* ---- what the peer sends ---- */

static inline void acks_reopen(acks_world *w, bool up) {
    uvcc_link_stream_closed(w->f.l, w->f.now);
    if (!w->f.datagram) {
        w->held = false;
        w->part_len = 0;
        w->up = up;
    }
    if (up)
        uvcc_link_stream_opened(w->f.l, w->f.now);
}

/* A control frame of the peer; the key is the link's own, however it was derived. */
static inline int acks_control(acks_world *w, uint8_t kind, const uint8_t *p, uint32_t len,
                               uint64_t ack) {
    static uint8_t frame[UVCCI_PACKET_MAX_BYTES + 200];
    bool sealed = w->f.suite != 0;
    uvcc_frame_header h = {.kind = kind,
                           .src = FUZZ_PEER,
                           .dst = FUZZ_ME,
                           .flags = sealed ? UVCC_FRAME_SEALED : 0,
                           .sid_tag = FUZZ_SID,
                           .step = w->f.step,
                           .chunk_cnt = 1,
                           .msg_len = len,
                           .payload_len = len + (sealed ? UVCC_FRAME_CTL_SEAL_BYTES : 0),
                           .ack = sealed ? 0 : ack};
    uint8_t *body = frame + UVCC_FRAME_HEADER_BYTES;
    uvcc_frame_encode_header(&h, frame);
    if (sealed) {
        memset(body, (int)(w->counter & 0xFF), 24);
        FUZZ_CHECK(uvcci_xaead_seal(w->f.l->keys->ctl_rx, body, frame, 52, p, len, body + 24) == 0);
    } else if (len != 0) {
        memcpy(body, p, len);
    }
    uvcci_st32(frame + 60, uvcc_frame_crc(frame, body, h.payload_len));
    uint8_t *copy = fuzz_copy(frame, UVCC_FRAME_HEADER_BYTES + h.payload_len);
    int err = uvcc_link_feed(w->f.l, copy, UVCC_FRAME_HEADER_BYTES + h.payload_len, w->f.now);
    free(copy);
    FUZZ_CHECK(err == 0 || (err == UVCC_ERR_STREAM_BROKEN && !w->f.datagram) ||
               (err == UVCC_ERR_NOMEM && w->f.mem.failed != 0));
    if (err != 0 && !w->f.datagram)
        acks_reopen(w, true);
    return err;
}

/* By wire.md 3: of seqs that were sent, ranges in order that do not touch what is told already. */
static inline bool acks_right(const acks_world *w, const uvcci_ack *a) {
    uint64_t next = w->f.l->tx.next, above = a->cum;
    if (a->cum < acks_base(w) || a->cum >= next)
        return false;
    for (uint32_t i = 0; i < a->range_cnt; i++) {
        if (a->range[i][0] <= above || a->range[i][1] < a->range[i][0] || a->range[i][1] >= next)
            return false;
        above = a->range[i][1];
    }
    return true;
}

/* The peer says it; the link's judgement is compared with ours. */
static inline void acks_tell(acks_world *w, const uvcci_ack *a) {
    uvcc_link *l = w->f.l;
    uint8_t p[UVCCI_ACK_MAX_BYTES], was[32], is[32];
    size_t len = uvcci_ack_encode(a, p);
    bool right = acks_right(w, a), before = uvcc_link_violation(l) != NULL;
    /* A digest walks over the window, and says whether a peer was heard. */
    bool near = l->tx.next - l->tx.cum < 1000 && (uvcc_link_heard(l) || w->f.suite == 0);
    bool stale = a->counter <= l->tx.ack_counter;
    uint64_t memory = w->f.mem.failed;
    if (near)
        uvcc_link_digest(l, was);
    (void)acks_control(w, UVCC_FRAME_ACK, p, (uint32_t)len, acks_base(w));
    if (near)
        uvcc_link_digest(l, is);
    bool named = uvcc_link_violation(l) != NULL;
    if (right)
        FUZZ_CHECK(named == before);
    bool same = near && memcmp(was, is, 32) == 0;
    if (near && w->f.datagram &&
        (!right || stale)) /* a stream begins anew, and what was out goes */
        FUZZ_CHECK(same || (named && !before));
    if (!right && w->f.mem.failed == memory)
        FUZZ_CHECK(named || !near || same || !w->f.datagram);
    if (right && a->counter > w->counter) {
        w->counter = a->counter;
        w->mute = a->counter == UINT64_MAX;
    }
}

static inline uint64_t acks_cum(acks_world *w, fuzz_in *in, uint8_t how) {
    const uvcci_tx_side *t = &w->f.l->tx;
    uint64_t span = t->next - t->cum;
    switch (how & 7) {
    case 0:
    case 1:
        return t->cum;
    case 2:
        return t->cum + fuzz_u8(in) % span;
    case 3:
        return t->next - 1;
    case 4: /* told before */
        return t->cum - fuzz_u8(in) % (t->cum - acks_base(w) + 1);
    case 5:
        return t->next + fuzz_u8(in);
    case 6:
        return t->cum ^ UINT64_C(1) << 40;
    default:
        return (fuzz_u8(in) & 7) != 0 ? t->cum + fuzz_u16(in) % span : fuzz_u64(in);
    }
}

static inline void acks_ranges(acks_world *w, fuzz_in *in, uint8_t how, uvcci_ack *a) {
    uint64_t next = w->f.l->tx.next, at = a->cum + 1;
    uint32_t n = 0;
    switch (how & 7) {
    case 0:
        break;
    case 1: /* all of the window */
        a->range[n][0] = at;
        a->range[n++][1] = next - 1;
        break;
    case 2: /* all but the oldest */
        a->range[n][0] = at + 1;
        a->range[n++][1] = next - 1;
        break;
    case 3: /* every other one, from the first or the second on */
        for (at += how >> 4 & 1; at < next && n < 32; at += 2, n++)
            a->range[n][0] = a->range[n][1] = at;
        break;
    case 4: /* two that touch */
        a->range[n][0] = at;
        a->range[n++][1] = at + (next - at) / 2;
        a->range[n][0] = at + (next - at) / 2 + 1;
        a->range[n++][1] = next - 1;
        break;
    case 5:
    case 6: /* by the input: gaps, touching, overlaps, beyond the end */
        for (uint32_t want = 1 + (how >> 4); n < want; n++) {
            uint8_t r = fuzz_u8(in);
            a->range[n][0] = at + (r >> 5);
            a->range[n][1] =
                a->range[n][0] + (r & 31) - ((how & 8) != 0 && (r & 31) == 31 ? 40 : 0);
            at = a->range[n][1] + ((how & 8) != 0 ? 0 : 1);
        }
        break;
    default:
        for (uint32_t want = how >> 4; n < want; n++) {
            a->range[n][0] = fuzz_u64(in);
            a->range[n][1] = (how & 8) != 0 ? fuzz_u64(in) : a->range[n][0];
        }
        break;
    }
    if ((how & 8) != 0 && n > 1 && (how & 7) < 5) { /* in the wrong order */
        uint64_t t[2] = {a->range[0][0], a->range[0][1]};
        memcpy(a->range[0], a->range[n - 1], sizeof t);
        memcpy(a->range[n - 1], t, sizeof t);
    }
    a->range_cnt = n;
}

/* One ACK out of the input. Three bytes say which. */
static inline void acks_ack(acks_world *w, fuzz_in *in) {
    uint8_t how = fuzz_u8(in), ranges = fuzz_u8(in), rest = fuzz_u8(in);
    uvcci_ack a = {.credit = {UINT64_C(1) << 24, UINT64_C(1) << 24}};
    a.cum = acks_cum(w, in, how);
    acks_ranges(w, in, ranges, &a);
    a.counter = w->counter + 1;
    if (w->counter == UINT64_MAX)
        a.counter = UINT64_MAX;
    switch (rest & 7) {
    case 0:
        a.counter = w->counter;
        break;
    case 1:
        a.counter = w->counter - fuzz_u8(in) % (w->counter + (w->counter != UINT64_MAX));
        break;
    case 2:
        if (w->counter < UINT64_MAX / 2)
            a.counter = w->counter + 1 + fuzz_u32(in);
        break;
    default:
        break;
    }
    if ((how & 0x80) != 0)
        a.credit[rest >> 3 & 1] = (how & 0x40) != 0 ? fuzz_u64(in) : 0;
    a.ping_number = (how & 0x20) != 0 ? w->f.l->tx.pings : 0;
    if ((how & 0x10) != 0) { /* PINGs that were never sent, repeats and marks that never were */
        a.ping_number += fuzz_u8(in);
        a.repeats = fuzz_u32(in);
        a.ce_packets = fuzz_u16(in);
    }
    if ((rest & 0xF0) == 0xF0)
        a.counter = fuzz_u64(in);
    acks_tell(w, &a);
    if ((rest & 0xC0) == 0x40) /* once more */
        acks_tell(w, &a);
}

/* ---- what its owner does ---- */

static inline void acks_send(acks_world *w, fuzz_in *in) {
    static const uint8_t kinds[] = {UVCC_FRAME_OPEN_BATCH, UVCC_FRAME_KEYS_BATCH, UVCC_FRAME_STEP,
                                    UVCC_FRAME_AUDIT};
    static const uint32_t lens[] = {0, 1, 40, 130, 600, 2500, 9000, 30000};
    uint8_t what = fuzz_u8(in);
    uint8_t kind = kinds[what & 3];
    uint32_t len = (what & 3) < 2 ? lens[what >> 2 & 7] : what >> 2;
    uint32_t ids[UVCC_MSG_MAX_CHUNKS] = {7, 8, 9};
    uvcc_link_msg *m;
    for (unsigned n = 0; n < 1u + (what >> 5); n++) {
        if (w->f.l->tx.next - acks_base(w) + w->bytes / 128 + 300 > ACKS_SEQS ||
            uvcc_link_msg_new(w->f.l, kind, len, &m) != 0)
            return;
        memset(uvcc_link_msg_data(m), (int)w->messages, len);
        FUZZ_CHECK(uvcc_link_send(w->f.l, m, w->f.step, (what & 3) < 2 ? 1 + w->messages : 0, ids,
                                  w->messages, w->f.now) == 0);
        w->messages++;
        w->bytes += len;
    }
}

static inline void acks_action(acks_world *w, fuzz_in *in) {
    static const uint64_t times[] = {1000,     300000,    1100000,   5000000,
                                     60000000, 101000000, 350000000, 3000000000};
    uint8_t op = fuzz_u8(in);
    uint8_t zeros[2000] = {0};
    uint64_t t;
    switch (op & 15) {
    case 0:
    case 1:
    case 2:
        acks_send(w, in);
        acks_drain(w, 0);
        break;
    case 3:
    case 4:
    case 5:
    case 6:
        acks_ack(w, in);
        break;
    case 7: /* and what it makes the link send */
        acks_ack(w, in);
        acks_drain(w, op >> 4);
        break;
    case 8: /* time passes, and every timer fires */
        t = w->f.now + times[op >> 5];
        for (int i = 0; i < 2000 && uvcc_link_next_deadline(w->f.l) <= t && (op & 16) == 0; i++) {
            uint64_t d = uvcc_link_next_deadline(w->f.l);
            w->f.now = d > w->f.now ? d : w->f.now;
            acks_timers(w);
        }
        w->f.now = t;
        acks_timers(w);
        break;
    case 9: /* it stays out; what is freed meanwhile must not be what it points to */
        (void)acks_poll(w);
        if (w->held)
            acks_timers(w);
        break;
    case 10:
        acks_sent(w, op & 16 ? op : 0);
        break;
    case 11:
        if (!w->f.datagram)
            acks_reopen(w, (op & 16) == 0);
        break;
    case 12:
        (void)acks_control(w, UVCC_FRAME_PING, zeros, 4 + (uint32_t)(op >> 4) * 100,
                           acks_base(w) + (op & 128 ? fuzz_u8(in) : 0));
        break;
    case 13: /* memory that is not there for once */
        w->f.mem.fail_in = 1 + (op >> 4);
        break;
    case 14: /* fed while a transmit is out */
        (void)acks_poll(w);
        acks_ack(w, in);
        break;
    default:
        if (!w->f.datagram && !w->up)
            acks_reopen(w, true);
        acks_drain(w, op & 0xF0);
        break;
    }
    acks_check(w);
}

/* An honest peer at last: all is acknowledged, all memory comes back. */
static inline void acks_finish(acks_world *w) {
    uvcc_link *l = w->f.l;
    w->f.mem.fail_in = 0;
    if (!w->f.datagram && !w->up)
        acks_reopen(w, true);
    for (uint64_t end = w->f.now + ACKS_DRAIN_NS; w->f.now < end && !w->mute;) {
        acks_drain(w, 0);
        if (l->tx.fatal != 0 || (uvcc_link_drained(l) && l->tx.cum == l->tx.next - 1))
            break;
        uvcci_ack a = {.counter = ++w->counter,
                       .cum = l->tx.next - 1,
                       .credit = {UINT64_C(1) << 30, UINT64_C(1) << 30}};
        acks_tell(w, &a);
        acks_check(w);
        uint64_t due = uvcc_link_next_deadline(l), now = w->f.now;
        w->f.now = due > now + 20 * FUZZ_MS ? now + 20 * FUZZ_MS
                   : due > now + FUZZ_MS    ? due
                                            : now + FUZZ_MS;
        acks_timers(w);
    }
    if (w->mute || l->tx.fatal != 0)
        return;
    FUZZ_CHECK(uvcc_link_drained(l) && l->tx.unreceived == 0);
    for (int i = 0; i < 1000 && w->f.mem.live_bytes > w->idle; i++) { /* the path is probed */
        w->f.now += 110 * FUZZ_MS;
        acks_timers(w);
        acks_drain(w, 0);
    }
    fuzz_link_check(&w->f);
    FUZZ_CHECK(w->f.mem.live_bytes <= w->idle);
}

/* A whole run. False: the config was refused. */
static inline bool acks_run(const uint8_t *data, size_t size) {
    static acks_world w;
    fuzz_in in = {data, size};
    memset(&w, 0, sizeof w);
    uint8_t how[2] = {fuzz_u8(&in), fuzz_u8(&in)};
    how[0] &= (uint8_t) ~(16u | 64u); /* an ordinary step; started */
    how[1] |= 128;                    /* no keep-alive: it would hold caches */
    fuzz_in start = {how, sizeof how};
    if (!fuzz_link_begin(&w.f, &start))
        return false;
    w.up = true;
    acks_drain(&w, 0);
    for (int i = 0; i < 3; i++) {
        w.f.now += 110 * FUZZ_MS;
        acks_timers(&w);
        acks_drain(&w, 0);
    }
    w.idle = w.f.mem.live_bytes;
    for (int i = 0; i < ACKS_ACTIONS_MAX && in.left != 0; i++)
        acks_action(&w, &in);
    acks_finish(&w);
    fuzz_link_end(&w.f);
    return true;
}

#endif
