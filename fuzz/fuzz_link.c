/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_link.c - two links joined by a pipe whose faults the fuzzer chooses packet by packet:
 * deliver, drop, duplicate, reorder, reflect, flip, change a header field under a right CRC (sealed
 * links), cut, join, partial transmits, timers, clocks, reconnections, failing memory and random
 * bytes.
 *
 * Checks at every action: what is delivered was sent, once, byte for byte; memory at its bound and
 * exactly accounted; no violation among honest peers; what one input makes a link send is bounded.
 * When the faults end, everything arrives and is acknowledged within a stated time, and then there
 * is quiet but for keep-alive. */
#include "common.h"

#include "proto/bytes.h"
#include <uvcc/frame.h>
#include <uvcc/link.h>

enum {
    ACTIONS_MAX = 300,
    MESSAGES_MAX = 48,
    BYTES_MAX = 300000, /* sent by one node */
    HELD_MAX = 16,
    PIPE_MAX = 64,
    PACKET_MAX = 70000,
    DRAIN_MAX = 4000,
};

typedef struct packet {
    uint8_t *data;
    size_t len;
    bool changed; /* at most one byte per packet: what a CRC is sure to see */
} packet;

typedef struct message {
    uint8_t kind;
    uint32_t len, step;
    bool delivered;
} message;

typedef struct node {
    uvcc_link *l;
    fuzz_mem mem;
    fuzz_rng rng;
    uint64_t clock; /* added to the world's time */
    uint32_t step;
    message out[MESSAGES_MAX];
    uint32_t sent, delivered;
    uint64_t sent_bytes;
    uint64_t token[HELD_MAX];
    bool accepted[HELD_MAX];
    uint32_t held;
    packet pipe[PIPE_MAX]; /* to this node, oldest first */
    uint32_t piped;
} node;

typedef struct world {
    node n[2];
    uint64_t now;
    bool datagram, up, hold;
    bool calm;  /* no more faults: a full pipe makes the sender wait */
    bool dirty; /* bytes were changed; a stream does not do that, so it must begin anew to go on */
    bool tight; /* receivers with room for two messages in reassembly */
    uint8_t suite, partial;
    uint64_t packets;
    uint32_t offers; /* of places */
} world;

static uint64_t clock_of(const world *w, int i) {
    return w->now + w->n[i].clock;
}
static bool faulty(const node *n) {
    return n->mem.failed + n->rng.failed != 0;
}

static uint8_t content(int from, uint32_t op_id, uint32_t at) {
    return (uint8_t)(((uint32_t)from * 77 + op_id * 13 + at) ^ at >> 7);
}

/* ---- the pipe ---- */

static void pipe_remove(node *n, uint32_t k) {
    free(n->pipe[k].data);
    n->piped--;
    memmove(&n->pipe[k], &n->pipe[k + 1], (n->piped - k) * sizeof n->pipe[0]);
}

static void pipe_clear(node *n) {
    while (n->piped != 0)
        pipe_remove(n, n->piped - 1);
}

static void pipe_add(node *n, const uint8_t *data, size_t len) {
    if (n->piped == PIPE_MAX)
        return; /* a packet too many is lost */
    n->pipe[n->piped++] = (packet){.data = fuzz_copy(data, len), .len = len};
}

static void stream_up(world *w, bool up) {
    for (int i = 0; i < 2; i++) {
        pipe_clear(&w->n[i]);
        uvcc_link_stream_closed(w->n[i].l, clock_of(w, i));
        if (up)
            uvcc_link_stream_opened(w->n[i].l, clock_of(w, i));
    }
    w->up = up;
}

/* ---- a link's life ---- */

static void check(const world *w) {
    for (int i = 0; i < 2; i++) {
        uvcc_link_stats s;
        uvcc_link_get_stats(w->n[i].l, &s);
        FUZZ_CHECK(s.memory_bytes == w->n[i].mem.live_bytes);
        FUZZ_CHECK(w->n[i].mem.peak_bytes <= uvcc_link_memory_bound(w->n[i].l));
        FUZZ_CHECK(uvcc_link_violation(w->n[i].l) == NULL);
    }
}

static void drain(world *w, int i) {
    static uint8_t buf[2 << 20];
    node *n = &w->n[i], *to = &w->n[1 - i];
    uvcc_transmit t;
    uint32_t sent = 0;
    while (((w->datagram && !w->calm) || to->piped < PIPE_MAX) &&
           uvcc_link_poll_transmit(n->l, &t, clock_of(w, i)) == 1) {
        size_t len = 0;
        for (uint32_t k = 0; k < t.slice_count; k++) {
            FUZZ_CHECK(len + t.slices[k].len <= sizeof buf);
            memcpy(buf + len, t.slices[k].data, t.slices[k].len);
            len += t.slices[k].len;
        }
        FUZZ_CHECK(len == t.total && len != 0 && t.peer == (i == 0 ? 2 : 0));
        if (!w->datagram && w->partial != 0)
            len = 1 + (len - 1) * w->partial / 256;
        w->partial = 0;
        if (w->datagram || w->up)
            pipe_add(to, buf, len);
        FUZZ_CHECK(uvcc_link_transmit_done(n->l, t.id, len, clock_of(w, i)) == 0);
        FUZZ_CHECK(++sent < DRAIN_MAX); /* no storm */
    }
    w->packets += sent;
}

static void flush(world *w, int i) {
    node *n = &w->n[i];
    drain(w, i);
    for (int k = 0; k < 3 && uvcc_link_next_deadline(n->l) <= clock_of(w, i); k++) {
        uvcc_link_on_timer(n->l, clock_of(w, i));
        drain(w, i);
    }
    FUZZ_CHECK(uvcc_link_next_deadline(n->l) > clock_of(w, i) || faulty(n) ||
               w->n[1 - i].piped == PIPE_MAX);
}

static void settle(world *w, int i, uint32_t k) {
    node *n = &w->n[i];
    if (!n->accepted[k]) {
        FUZZ_CHECK(uvcc_link_accept(n->l, n->token[k], clock_of(w, i)) == 0);
        n->accepted[k] = true;
        if (w->hold)
            return;
    }
    FUZZ_CHECK(uvcc_link_release(n->l, n->token[k], clock_of(w, i)) == 0);
    n->held--;
    n->token[k] = n->token[n->held];
    n->accepted[k] = n->accepted[n->held];
}

static void take(world *w, int i) {
    node *n = &w->n[i], *from = &w->n[1 - i];
    uvcc_link_rx rx;
    while (n->held < HELD_MAX && uvcc_link_poll_message(n->l, &rx) == 1) {
        FUZZ_CHECK(rx.op_id >= 1 && rx.op_id <= from->sent);
        message *m = &from->out[rx.op_id - 1];
        FUZZ_CHECK(!m->delivered && rx.kind == m->kind && rx.len == m->len && rx.step == m->step);
        m->delivered = true;
        n->delivered++;
        for (uint32_t k = 0; k < rx.len; k++)
            FUZZ_CHECK(rx.data[k] == content(1 - i, rx.op_id, k));
        for (uint32_t c = 0; c < rx.chunk_cnt; c++)
            FUZZ_CHECK(rx.msg_ids[c] == rx.op_id * 100 + c);
        memset(rx.data, 0xEE, rx.len);
        n->token[n->held] = rx.token;
        n->accepted[n->held++] = false;
        if (!w->hold)
            settle(w, i, n->held - 1);
    }
    uint8_t hello[UVCC_HELLO_MAX_BYTES];
    bool sealed;
    while (uvcc_link_poll_hello(n->l, hello, &sealed) != 0) {
    }
}

/* Bytes to a link: of a stream, every second time that it offers a place, into that. */
static int hand(world *w, int i, const uint8_t *data, size_t len) {
    uint8_t *to;
    size_t room = 0;
    if (!w->datagram && uvcc_link_rx_buffer(w->n[i].l, &to, &room) == 1 && ++w->offers % 2 != 0) {
        const size_t n = room < len ? room : len;
        memcpy(to, data, n);
        FUZZ_CHECK(uvcc_link_rx_filled(w->n[i].l, room + 1, clock_of(w, i)) == UVCC_ERR_USAGE);
        int err = uvcc_link_rx_filled(w->n[i].l, n, clock_of(w, i));
        if (err != 0 || n == len)
            return err;
        data += n;
        len -= n;
    }
    uint8_t *copy = fuzz_copy(data, len);
    const uvcc_slice all = {.data = copy, .len = len};
    int err = w->datagram ? uvcc_link_feed(w->n[i].l, copy, len, clock_of(w, i))
                          : uvcc_link_feed_slices(w->n[i].l, &all, 1, clock_of(w, i));
    free(copy);
    return err;
}

/* Bytes to a node, in at most one piece and a rest. False: the stream broke and is new. */
static bool give(world *w, int i, const uint8_t *data, size_t len, size_t first) {
    node *n = &w->n[i];
    if (w->datagram || first > len)
        first = len;
    for (size_t at = 0;; at = first, first = len) {
        int err = hand(w, i, data + at, first - at);
        FUZZ_CHECK(err == 0 || (err == UVCC_ERR_STREAM_BROKEN && !w->datagram) ||
                   (err == UVCC_ERR_NOMEM && n->mem.failed != 0));
        take(w, i);
        if (err != 0 && !w->datagram) {
            stream_up(w, true);
            return false;
        }
        if (first == len)
            return true;
    }
}

static void deliver(world *w, int i, uint32_t k, size_t first) {
    node *n = &w->n[i];
    if (n->piped == 0)
        return;
    k = w->datagram ? k % n->piped : 0;
    packet p = n->pipe[k];
    n->pipe[k].data = NULL;
    pipe_remove(n, k);
    (void)give(w, i, p.data, p.len, first);
    free(p.data);
}

static void send_message(world *w, int i, uint8_t what, uint8_t size, uint8_t order) {
    static const uint8_t kinds[] = {UVCC_FRAME_OPEN_BATCH, UVCC_FRAME_LIFT_BATCH,
                                    UVCC_FRAME_RESHARE_BATCH, UVCC_FRAME_KEYS_BATCH,
                                    UVCC_FRAME_INPUT_BATCH};
    static const uint32_t scale[] = {1, 1, 16, 256};
    node *n = &w->n[i];
    uvcc_link_msg *m;
    uint32_t len = (uint32_t)size * scale[what >> 6], ids[UVCC_MSG_MAX_CHUNKS];
    uint8_t kind = kinds[(what & 7) % sizeof kinds];
    if (n->sent == MESSAGES_MAX || n->sent_bytes + len > BYTES_MAX)
        return;
    bool room = uvcc_link_writable(n->l, kind, len);
    int err = uvcc_link_msg_new(n->l, kind, len, &m);
    FUZZ_CHECK(room == (err != UVCC_ERR_AGAIN && err != UVCC_ERR_LIMIT));
    FUZZ_CHECK(err == 0 || !room || (err == UVCC_ERR_NOMEM && n->mem.failed != 0));
    if (err != 0)
        return;
    uint32_t op_id = n->sent + 1, ahead = w->n[1 - i].step > n->step ? w->n[1 - i].step : n->step;
    for (uint32_t k = 0; k < len; k++)
        uvcc_link_msg_data(m)[k] = content(i, op_id, k);
    for (uint32_t c = 0; c < UVCC_MSG_MAX_CHUNKS; c++)
        ids[c] = op_id * 100 + c;
    FUZZ_CHECK(uvcc_link_send(n->l, m, ahead, op_id, ids, order, clock_of(w, i)) == 0);
    n->out[n->sent++] = (message){.kind = kind, .len = len, .step = ahead};
    n->sent_bytes += len;
}

/* A step ends at a node when all that its peer sent for it has come. */
static void step_up(world *w, int i) {
    node *n = &w->n[i], *from = &w->n[1 - i];
    for (uint32_t k = 0; k < from->sent; k++)
        if (from->out[k].step == n->step && !from->out[k].delivered)
            return;
    for (uint32_t k = 0; k < n->held; k++)
        if (!n->accepted[k])
            return;
    if (n->step > from->step || n->step == UINT32_MAX - 1)
        return;
    n->step++;
    FUZZ_CHECK(uvcc_link_set_step(n->l, n->step) == 0);
}

/* ---- what the pipe does to a packet ---- */

/* The k-th frame of a packet: its place. 0 and *len 0 if the packet is no row of frames any more.
 */
static size_t frame_at(const packet *p, uint32_t k, size_t *len) {
    size_t at = 0, n = 0;
    for (uint32_t i = 0; i <= k; i++) {
        at += n;
        if (p->len - at < UVCC_FRAME_HEADER_BYTES)
            break;
        n = UVCC_FRAME_HEADER_BYTES + (size_t)uvcci_ld32(p->data + at + 48);
        if (n > p->len - at)
            break;
        if (i == k) {
            *len = n;
            return at;
        }
    }
    *len = 0;
    return 0;
}

static void mutate(world *w, int i, fuzz_in *in) {
    node *n = &w->n[i];
    uint8_t how = fuzz_u8(in), where = fuzz_u8(in), value = fuzz_u8(in);
    if (n->piped == 0)
        return;
    w->dirty = true;
    packet *p = &n->pipe[(how >> 4) % n->piped];
    size_t len, at = frame_at(p, how >> 3 & 1, &len);
    switch (how & 7) {
    case 0:
    case 1: /* one byte */
        if (!p->changed && p->len != 0)
            p->data[((size_t)where << 8 | value) % p->len] ^= (uint8_t)(1u << (how >> 5 & 7));
        p->changed = true;
        break;
    case 2: /* a header's byte, under a right CRC: seals must see it */
        if (len == 0 || w->suite == 0 || p->changed)
            break;
        p->data[at + where % 60] ^= value;
        uvcci_st32(p->data + at + 60,
                   uvcc_frame_crc(p->data + at, p->data + at + UVCC_FRAME_HEADER_BYTES,
                                  len - UVCC_FRAME_HEADER_BYTES));
        break;
    case 3: /* a payload's byte, likewise */
        if (len <= UVCC_FRAME_HEADER_BYTES || w->suite == 0 || p->changed)
            break;
        p->data[at + UVCC_FRAME_HEADER_BYTES + ((size_t)where << 8 | value) % (len - 64)] ^= 1;
        uvcci_st32(p->data + at + 60,
                   uvcc_frame_crc(p->data + at, p->data + at + UVCC_FRAME_HEADER_BYTES,
                                  len - UVCC_FRAME_HEADER_BYTES));
        break;
    case 4: /* cut */
        if (w->datagram)
            p->len = p->len * where / 256;
        break;
    case 5: /* joined with the next one */
        if (p + 1 < n->pipe + n->piped && p->len + p[1].len <= 65507) {
            uint8_t *both = malloc(p->len + p[1].len + 1);
            FUZZ_CHECK(both != NULL);
            memcpy(both, p->data, p->len);
            memcpy(both + p->len, p[1].data, p[1].len);
            free(p->data);
            p->data = both;
            p->len += p[1].len;
            p->changed = p->changed || p[1].changed;
            pipe_remove(n, (uint32_t)(p + 1 - n->pipe));
        }
        break;
    case 6: /* one of its frames now, all of it later */
        if (w->datagram && len != 0)
            (void)give(w, i, p->data + at, len, len);
        break;
    default: /* reflected to its sender */
        if (w->datagram)
            (void)give(w, 1 - i, p->data, p->len, p->len);
        break;
    }
}

/* ---- the program ---- */

static bool begin(world *w, fuzz_in *in) {
    uint8_t how = fuzz_u8(in), sizes = fuzz_u8(in);
    w->datagram = how & 1;
    w->suite = (how >> 1) % 3;
    w->tight = sizes & 64;
    w->now = 1000 * FUZZ_MS;
    for (int i = 0; i < 2; i++) {
        node *n = &w->n[i];
        uvcc_link_config cfg;
        uvcc_link_config_default(&cfg);
        n->rng.state = (uint64_t)i + 1;
        n->step = how & 16 ? UINT32_MAX - 2 : 5;
        cfg.alloc = fuzz_allocator(&n->mem);
        cfg.random = fuzz_random(&n->rng);
        cfg.me = (uint8_t)(i == 0 ? 0 : 2);
        cfg.peer = (uint8_t)(i == 0 ? 2 : 0);
        cfg.datagram = w->datagram;
        cfg.sid_tag = 0x1122334455667788u;
        static const uint32_t frames[] = {0, 256, 1000, 9000};
        cfg.frame_bytes = frames[sizes & 3];
        cfg.parallel.run = fuzz_backwards;
        cfg.transmit_frames = i == 0 ? 4 : 0;
        cfg.datagram_bytes = sizes & 4 ? 9000 : sizes & 3 ? 256 + 100 * (sizes & 3u) : 0;
        cfg.rx_online_bytes = sizes & 8 ? 66000 : 0;
        cfg.rx_keys_bytes = sizes & 16 ? 66000 : 0;
        cfg.tx_online_bytes = cfg.tx_keys_bytes = sizes & 32 ? 70000 : 0;
        cfg.rx_messages_max = w->tight ? 2 : 0;
        cfg.keepalive_ns = sizes & 128 ? UVCC_NEVER : 0;
        FUZZ_CHECK(uvcc_link_new(&n->l, &cfg) == 0);
        FUZZ_CHECK(uvcc_link_set_run(n->l, how & 8 ? (1u << 24) - 1 : 3) == 0);
        FUZZ_CHECK(uvcc_link_set_step(n->l, n->step) == 0);
        uint8_t prk[32];
        memset(prk, 0x42, sizeof prk);
        if (w->suite != 0)
            FUZZ_CHECK(uvcc_link_set_keys(n->l, w->suite, prk) == 0);
        FUZZ_CHECK(uvcc_link_start(n->l, w->now) == 0);
    }
    if (!w->datagram)
        stream_up(w, true);
    return (how & 32) != 0; /* ends with the check of quiet */
}

static void action(world *w, fuzz_in *in) {
    uint8_t op = fuzz_u8(in), what;
    int i = op >> 4 & 1;
    node *n = &w->n[i];
    uint64_t t;
    switch (op & 15) {
    case 0:
    case 1:
        what = fuzz_u8(in);
        send_message(w, i, what, fuzz_u8(in), op >> 5);
        break;
    case 2:
        deliver(w, i, op >> 5, SIZE_MAX);
        break;
    case 3: /* in two pieces */
        deliver(w, i, op >> 5, fuzz_u16(in));
        break;
    case 4: /* all that is under way */
        for (uint32_t k = n->piped; k != 0 && n->piped != 0; k--)
            deliver(w, i, op & 32 ? k - 1 : 0, SIZE_MAX);
        break;
    case 5: /* lost */
        if (n->piped != 0 && w->datagram)
            pipe_remove(n, (op >> 5) % n->piped);
        break;
    case 6: /* twice, or many times */
        if (n->piped != 0 && w->datagram) {
            packet p = n->pipe[(op >> 6) % n->piped];
            uint8_t *copy = fuzz_copy(p.data, p.len);
            for (int k = op & 32 ? 100 : 1; k != 0; k--)
                (void)give(w, i, copy, p.len, p.len);
            free(copy);
        }
        break;
    case 7:
        mutate(w, i, in);
        break;
    case 8: /* to the next deadline */
        t = uvcc_link_next_deadline(n->l);
        if (t != UVCC_NEVER && t > clock_of(w, i))
            w->now += t - clock_of(w, i);
        break;
    case 9:
        w->now += (uint64_t)fuzz_u8(in) << (10 + (op >> 5) * 3);
        break;
    case 10: /* a clock steps, back as well */
        t = (uint64_t)fuzz_u8(in) << (10 + (op >> 5) * 4);
        if (op & 64)
            n->clock += t;
        else
            n->clock -= n->clock < t ? n->clock : t;
        break;
    case 11:
        if (!w->datagram)
            stream_up(w, op >> 5 != 0);
        break;
    case 12:
        what = fuzz_u8(in);
        if (op & 32)
            n->rng.fail_in = 1 + (what & 7);
        else
            n->mem.fail_in = 1 + (what & 31);
        break;
    case 13:
        if (n->held != 0)
            settle(w, i, (op >> 5) % n->held);
        break;
    case 14:
        step_up(w, i);
        break;
    default:
        w->hold = op & 32;
        w->partial = fuzz_u8(in);
        break;
    }
    take(w, i);
    if ((op & 15) != 15) {
        flush(w, i);
        flush(w, 1 - i);
    }
    check(w);
}

static bool done(const world *w) {
    for (int i = 0; i < 2; i++)
        if (w->n[i].delivered != w->n[1 - i].sent || w->n[i].held != 0 ||
            !uvcc_link_drained(w->n[i].l))
            return false;
    return true;
}

/* Time goes on without faults until `until`, or until everything is done. */
static void run_calm(world *w, uint64_t until, bool to_end) {
    for (uint32_t turns = 0; w->now < until && (to_end || !done(w)); turns++) {
        uint64_t next = UVCC_NEVER;
        FUZZ_CHECK(turns < 100000);
        for (int i = 0; i < 2; i++) {
            while (w->n[i].held != 0)
                settle(w, i, 0);
            take(w, i);
            flush(w, i);
        }
        if (w->n[0].piped + w->n[1].piped != 0) {
            for (int i = 0; i < 2; i++)
                for (uint32_t k = w->n[i].piped; k != 0 && w->n[i].piped != 0; k--)
                    deliver(w, i, 0, SIZE_MAX);
            w->now += FUZZ_MS;
            continue;
        }
        for (int i = 0; i < 2; i++) {
            uint64_t t = uvcc_link_next_deadline(w->n[i].l);
            if (t != UVCC_NEVER && t - w->n[i].clock < next)
                next = t > clock_of(w, i) ? t - w->n[i].clock : w->now;
        }
        w->now = next < until ? next : until;
    }
    check(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_in in = {data, size};
    world w = {0};
    bool quiet = begin(&w, &in);
    for (int i = 0; i < ACTIONS_MAX && in.left != 0; i++)
        action(&w, &in);
    w.hold = false;
    w.calm = true;
    for (int i = 0; i < 2; i++)
        w.n[i].mem.fail_in = w.n[i].rng.fail_in = 0;
    if (!w.datagram && (!w.up || w.dirty))
        stream_up(&w, true);
    /* A table of two messages refuses frames of the third; each timeout tries two frames again. */
    run_calm(&w, w.now + (w.tight ? 3000 : 60) * 1000 * FUZZ_MS, false);
    FUZZ_CHECK(done(&w));
    if (quiet) {
        run_calm(&w, w.now + 2000 * FUZZ_MS, true); /* caches go back, the last acks go out */
        uint64_t before = w.packets;
        run_calm(&w, w.now + 100000 * FUZZ_MS, true);
        FUZZ_CHECK(w.packets - before <= 60);
    }
    for (int i = 0; i < 2; i++) {
        pipe_clear(&w.n[i]);
        uvcc_link_free(w.n[i].l);
        FUZZ_CHECK(w.n[i].mem.live_bytes == 0 && w.n[i].mem.live_blocks == 0);
    }
    return 0;
}
