/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_link_hostile.c - one link and a peer that sends what it likes: raw bytes, or frames of the
 * grammar in frames.h, with the right keys too. Between them the link's own life goes on: sends,
 * timers, partial transmits, reconnections, jumps of the clock, hooks that fail.
 *
 * Checks: memory at its bound and exactly accounted; a refused frame changes no state; each message
 * is delivered once and only from bytes that frames carried; what is sent in answer to one input is
 * bounded; the deadline is in the future once nothing waits. */
#include "frames.h"

#include "proto/link_state.h"

enum { ACTIONS_MAX = 400, HELD_MAX = 32, SENT_MAX = 40, DIGEST_MAX = 1000 };

typedef struct world {
    fuzz_link f;
    uint64_t token[HELD_MAX];
    bool accepted[HELD_MAX];
    size_t held;
    uint32_t sent; /* messages of ours */
    uint64_t sent_bytes;
    bool wild; /* raw bytes came: what is delivered may be anything */
} world;

/* All that it has to send; the transmit may end before its end. */
static void drain(world *w, uint8_t partial) {
    fuzz_link *f = &w->f;
    uvcc_transmit t, none;
    uint64_t bytes = 0, most = 100000 + 3 * (w->sent_bytes + 200 * (uint64_t)w->sent);
    for (uint32_t n = 0; uvcc_link_poll_transmit(f->l, &t, f->now) == 1; n++) {
        size_t total = 0, done;
        FUZZ_CHECK(uvcc_link_poll_transmit(f->l, &none, f->now) == 0);
        for (uint32_t i = 0; i < t.slice_count; i++) {
            FUZZ_CHECK(t.slices[i].len != 0 && t.slices[i].data != NULL);
            total += t.slices[i].len;
        }
        FUZZ_CHECK(total == t.total && total != 0 && t.peer == FUZZ_PEER);
        FUZZ_CHECK(!f->datagram || total <= 65507);
        done = partial == 0 || f->datagram ? total : 1 + total * partial / 256;
        if (f->datagram && partial == 255)
            done = 0;
        FUZZ_CHECK(uvcc_link_transmit_done(f->l, t.id, total + 1, f->now) == UVCC_ERR_USAGE);
        FUZZ_CHECK(uvcc_link_transmit_done(f->l, t.id + 1, total, f->now) == UVCC_ERR_USAGE);
        FUZZ_CHECK(uvcc_link_transmit_done(f->l, t.id, done, f->now) == 0);
        bytes += done;
        FUZZ_CHECK(bytes <= most && n < 20000); /* no storm */
        partial = (uint8_t)(partial > 200 ? 0 : partial / 2);
    }
}

static void flush(world *w, uint8_t partial) {
    fuzz_link *f = &w->f;
    drain(w, partial);
    for (int i = 0; i < 4 && uvcc_link_next_deadline(f->l) <= f->now; i++) {
        uvcc_link_on_timer(f->l, f->now);
        drain(w, 0);
    }
    FUZZ_CHECK(uvcc_link_next_deadline(f->l) > f->now || f->mem.failed + f->rng.failed != 0);
}

static void settle(world *w, size_t at, bool refuse) {
    fuzz_link *f = &w->f;
    if (!w->accepted[at] && !refuse) {
        FUZZ_CHECK(uvcc_link_accept(f->l, w->token[at], f->now) == 0);
        FUZZ_CHECK(uvcc_link_accept(f->l, w->token[at], f->now) == UVCC_ERR_USAGE);
        w->accepted[at] = true;
        return;
    }
    FUZZ_CHECK(uvcc_link_release(f->l, w->token[at], f->now) == 0);
    FUZZ_CHECK(uvcc_link_release(f->l, w->token[at], f->now) == UVCC_ERR_USAGE);
    w->held--;
    w->token[at] = w->token[w->held];
    w->accepted[at] = w->accepted[w->held];
}

static void take(world *w) {
    fuzz_link *f = &w->f;
    uvcc_link_rx rx;
    uint8_t hello[UVCC_HELLO_MAX_BYTES];
    bool sealed;
    while (uvcc_link_poll_message(f->l, &rx) == 1) {
        FUZZ_CHECK((uintptr_t)rx.data % 64 == 0 && rx.len <= UVCC_MSG_MAX_BYTES);
        FUZZ_CHECK(rx.chunk_cnt == fuzz_chunks(rx.len));
        FUZZ_CHECK(uvcc_frame_kind_class(rx.kind) != UVCC_CLASS_CONTROL);
        for (size_t i = 0; i < w->held; i++)
            FUZZ_CHECK(w->token[i] != rx.token);
        for (uint32_t i = 0; i < rx.len && !w->wild; i++)
            FUZZ_CHECK((rx.data[i] & 0x7F) == (fuzz_content(rx.op_id, i, 0) & 0x7F));
        memset(rx.data, 0xEE, rx.len); /* ours, and writable */
        if (w->held == HELD_MAX) {
            settle(w, 0, false);
            if (w->held == HELD_MAX)
                settle(w, 0, false);
        }
        w->token[w->held] = rx.token;
        w->accepted[w->held++] = false;
    }
    while (uvcc_link_poll_hello(f->l, hello, &sealed) != 0)
        FUZZ_CHECK(!sealed || f->suite != 0);
}

static void reopen(world *w) {
    uvcc_link_stream_closed(w->f.l, w->f.now);
    uvcc_link_stream_opened(w->f.l, w->f.now);
}

static void feed(world *w, const uint8_t *data, size_t len) {
    fuzz_link *f = &w->f;
    uint8_t *copy = fuzz_copy(data, len);
    int err = uvcc_link_feed(f->l, copy, len, f->now);
    free(copy);
    FUZZ_CHECK(err == 0 || (err == UVCC_ERR_STREAM_BROKEN && !f->datagram) ||
               (err == UVCC_ERR_NOMEM && f->mem.failed != 0));
    if (err != 0 && !f->datagram) {
        FUZZ_CHECK(uvcc_link_feed(f->l, data, 1, f->now) == UVCC_ERR_STREAM_BROKEN);
        reopen(w);
    }
}

/* One packet of one frame: if it was refused, nothing has changed. */
static void feed_judged(world *w, const uint8_t *data, size_t len) {
    fuzz_link *f = &w->f;
    uvcc_link_stats before, after;
    uint8_t was[32], is[32];
    if (f->l->rx.top - f->l->rx.cum > DIGEST_MAX) { /* a digest walks over that window */
        feed(w, data, len);
        return;
    }
    bool violated = uvcc_link_violation(f->l) != NULL, heard = uvcc_link_heard(f->l);
    uvcc_link_get_stats(f->l, &before);
    uvcc_link_digest(f->l, was);
    feed(w, data, len);
    uvcc_link_get_stats(f->l, &after);
    uvcc_link_digest(f->l, is);
    if (after.refused + after.foreign + after.stale_run !=
            before.refused + before.foreign + before.stale_run &&
        violated == (uvcc_link_violation(f->l) != NULL) && heard == uvcc_link_heard(f->l))
        FUZZ_CHECK(memcmp(was, is, sizeof was) == 0);
}

static void send_message(world *w, fuzz_in *in) {
    fuzz_link *f = &w->f;
    static const uint8_t kinds[] = {UVCC_FRAME_STEP,
                                    UVCC_FRAME_OPEN_BATCH,
                                    UVCC_FRAME_KEYS_BATCH,
                                    UVCC_FRAME_AUDIT,
                                    UVCC_FRAME_BYE,
                                    UVCC_FRAME_ACK,
                                    0};
    static const uint32_t lens[] = {0, 10, 70, 1500, 9000, 70000, UVCC_MSG_MAX_BYTES, UINT32_MAX};
    uint8_t what = fuzz_u8(in), more = fuzz_u8(in);
    uint8_t kind = kinds[what % sizeof kinds];
    uint32_t len = lens[more & 7];
    uvcc_link_msg *m;
    if (w->sent == SENT_MAX)
        return;
    int err = uvcc_link_msg_new(f->l, kind, len, &m);
    if (err != 0)
        return;
    memset(uvcc_link_msg_data(m), 0x33, len);
    uint32_t ids[UVCC_MSG_MAX_CHUNKS] = {7, 8, 9, 10, 11, 12, 13, 14, 15};
    if (more & 128 || uvcc_link_send(f->l, m, f->step + (what >> 7), what >> 4, ids,
                                     (uint64_t)(more >> 3 & 3), f->now) != 0) {
        uvcc_link_msg_drop(f->l, m);
        return;
    }
    w->sent++;
    w->sent_bytes += len;
}

static void action(world *w, fuzz_in *in) {
    static uint8_t frame[2 * FUZZ_FRAME_BYTES];
    fuzz_link *f = &w->f;
    uint8_t op = fuzz_u8(in);
    const uint8_t *p;
    size_t n, got;
    uint64_t t;
    switch (op & 15) {
    case 0:
    case 1:
    case 2:
    case 3:
        n = fuzz_frame(f, in, frame);
        if (op & 16) { /* another one behind it, and both cut short */
            n += fuzz_frame(f, in, frame + n);
            n -= (op & 32) != 0 ? fuzz_u8(in) % n : 0;
            feed(w, frame, n);
        } else if (f->datagram && (op & 64) != 0) {
            feed_judged(w, frame, n);
        } else if (!f->datagram && (op & 128) != 0) {
            got = fuzz_u16(in) % (n + 1);
            feed(w, frame, got);
            feed(w, frame + got, n - got);
        } else {
            feed(w, frame, n);
            if (op & 32) /* once more */
                feed(w, frame, n);
        }
        break;
    case 4:
        p = fuzz_take(in, op & 128 ? fuzz_u16(in) : op >> 4, &got);
        w->wild = true;
        feed(w, p, got);
        break;
    case 5:
        send_message(w, in);
        break;
    case 6:
        t = uvcc_link_next_deadline(f->l);
        if (t != UVCC_NEVER && t > f->now)
            f->now = t;
        uvcc_link_on_timer(f->l, f->now);
        break;
    case 7: /* any time forward, up to hours */
        t = (uint64_t)fuzz_u16(in) << (op >> 4) * 2;
        f->now += t;
        uvcc_link_on_timer(f->l, f->now);
        break;
    case 8: /* back */
        t = (uint64_t)fuzz_u16(in) << (op >> 4) * 2;
        f->now = f->now > t ? f->now - t : 0;
        uvcc_link_on_timer(f->l, f->now);
        break;
    case 9:
        if (op & 16)
            reopen(w);
        else if (op & 32)
            uvcc_link_stream_closed(f->l, f->now);
        else
            uvcc_link_stream_opened(f->l, f->now);
        break;
    case 10:
        f->mem.fail_in = 1 + (op >> 4);
        break;
    case 11:
        f->rng.fail_in = 1 + (uint32_t)(op >> 4);
        break;
    case 12:
        if (f->step < UINT32_MAX && (op & 16) != 0 && uvcc_link_set_step(f->l, f->step + 1) == 0)
            f->step++;
        if (op & 32)
            (void)uvcc_link_start(f->l, f->now);
        if (op & 64 && f->suite == 0)
            (void)uvcc_link_reset(f->l);
        break;
    case 13:
        p = fuzz_take(in, op >> 4, &got);
        (void)uvcc_link_send_hello(f->l, p, got, op & 16);
        break;
    case 14:
        if (w->held != 0)
            settle(w, (op >> 5) % w->held, op & 16);
        break;
    default:
        flush(w, fuzz_u8(in));
        break;
    }
    take(w);
    if ((op & 15) < 4 && (op & 16) == 0)
        flush(w, 0);
    fuzz_link_check(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_in in = {data, size};
    world w = {0};
    if (!fuzz_link_begin(&w.f, &in))
        return 0;
    for (int i = 0; i < ACTIONS_MAX && in.left != 0; i++)
        action(&w, &in);
    w.f.mem.fail_in = w.f.rng.fail_in = 0;
    flush(&w, 0);
    fuzz_link_end(&w.f);
    return 0;
}
