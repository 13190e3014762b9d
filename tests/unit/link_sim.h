/* SPDX-License-Identifier: Apache-2.0 */
/* link_sim.h - two links in virtual time, joined by a seeded pipe with faults (datagrams) or by
 * byte streams that are cut anew at random. Checks at every step what must always hold: memory
 * within the bound and exactly accounted, nothing delivered twice or changed, deadlines in the
 * future. */
#ifndef UVCC_TEST_LINK_SIM_H
#define UVCC_TEST_LINK_SIM_H

#include "support.h"

#include <uvcc/frame.h>
#include <uvcc/link.h>

#define SIM_MS UINT64_C(1000000)

typedef struct sim_packet {
    struct sim_packet *next;
    uint64_t at;
    size_t len;
    uint8_t data[];
} sim_packet;

typedef struct sim_message {
    uint8_t kind;
    uint32_t len, step, op_id;
    uint64_t order;
    uint32_t delivered;
} sim_message;

typedef struct sim_held {
    uint64_t token;
    bool accepted;
} sim_held;

typedef struct sim_node {
    uvcc_link *link;
    test_alloc mem;
    uint64_t seed;
    sim_packet *inbox; /* by arrival */
    sim_message *out;  /* what it sends; out_at: not handed to the link yet */
    size_t out_cnt, out_at, delivered;
    sim_held held[64];
    size_t held_cnt;
    uint64_t last_arrival, wire_free;
} sim_node;

typedef struct sim_world {
    sim_node node[2];
    uint64_t now, rng;
    bool datagram, up;
    uint8_t suite;
    uint32_t run, step;
    /* faults, in 1/1000 */
    uint32_t drop, dup, reorder, corrupt, truncate, hold;
    bool drop_acks, cut_wire;
    uint64_t delay_ns, jitter_ns, ns_per_byte;
    uint64_t packets, dropped, data_sent;
    uint32_t path_bytes;                          /* longer packets vanish; 0: none does */
    uint64_t close_after, closed_at, close_grows; /* streams end after that many bytes */
} sim_world;

static inline uint64_t sim_rand(sim_world *w) {
    return test_rand(&w->rng);
}
static inline bool sim_chance(sim_world *w, uint32_t thousandths) {
    return thousandths != 0 && sim_rand(w) % 1000 < thousandths;
}

/* Byte i of message op_id of a node: cheap and different everywhere. */
static inline void sim_fill(uint8_t *p, uint32_t len, uint32_t node, uint32_t op_id) {
    uint64_t s = (uint64_t)node << 32 | op_id, v = 0;
    for (uint32_t i = 0; i < len; i++) {
        if (i % 8 == 0)
            v = test_rand(&s);
        p[i] = (uint8_t)(v >> (i % 8 * 8));
    }
}

static inline uint32_t sim_msg_id(uint32_t op_id, uint32_t chunk) {
    return op_id * 31 + chunk + 7;
}

static inline void sim_check(sim_world *w) {
    for (int i = 0; i < 2; i++) {
        uvcc_link_stats s;
        if (w->node[i].link == NULL)
            continue;
        uvcc_link_get_stats(w->node[i].link, &s);
        assert_int_equal(s.memory_bytes, w->node[i].mem.live_bytes);
        assert_true(w->node[i].mem.peak_bytes <= uvcc_link_memory_bound(w->node[i].link));
        assert_null(uvcc_link_violation(w->node[i].link));
    }
}

static inline void sim_config(sim_world *w, int i, uvcc_link_config *cfg) {
    uvcc_link_config_default(cfg);
    cfg->alloc = test_allocator(&w->node[i].mem);
    cfg->random = test_random(&w->node[i].seed);
    cfg->me = (uint8_t)(i == 0 ? 0 : 2);
    cfg->peer = (uint8_t)(i == 0 ? 2 : 0);
    cfg->datagram = w->datagram;
    cfg->sid_tag = 0x1122334455667788u;
}

static inline void sim_keys(sim_world *w, int i) {
    assert_int_equal(uvcc_link_set_run(w->node[i].link, w->run), 0);
    assert_int_equal(uvcc_link_set_step(w->node[i].link, w->step), 0);
    if (w->suite != 0) {
        uint8_t prk[32];
        memset(prk, 0x42, sizeof prk);
        assert_int_equal(uvcc_link_set_keys(w->node[i].link, w->suite, prk), 0);
    }
}

static inline void sim_init(sim_world *w, uint64_t seed, bool datagram, uint8_t suite) {
    memset(w, 0, sizeof *w);
    w->rng = seed;
    w->datagram = datagram;
    w->suite = suite;
    w->run = 3;
    w->step = 5;
    w->now = 1000 * SIM_MS;
    w->delay_ns = SIM_MS;
    w->node[0].seed = seed * 2 + 1;
    w->node[1].seed = seed * 2 + 2;
}

static inline void sim_open(sim_world *w) {
    w->up = true;
    for (int i = 0; i < 2; i++)
        uvcc_link_stream_opened(w->node[i].link, w->now);
}

/* change: may alter the configs before the links are made. */
static inline void sim_start(sim_world *w, void (*change)(int i, uvcc_link_config *cfg)) {
    for (int i = 0; i < 2; i++) {
        uvcc_link_config cfg;
        sim_config(w, i, &cfg);
        if (change != NULL)
            change(i, &cfg);
        assert_int_equal(uvcc_link_new(&w->node[i].link, &cfg), 0);
        sim_keys(w, i);
        assert_int_equal(uvcc_link_start(w->node[i].link, w->now), 0);
    }
    if (!w->datagram)
        sim_open(w);
}

static inline void sim_drop_inbox(sim_node *n) {
    while (n->inbox != NULL) {
        sim_packet *p = n->inbox;
        n->inbox = p->next;
        free(p);
    }
}

/* Streams: both ends lose the connection and all bytes under way. */
static inline void sim_close(sim_world *w) {
    w->up = false;
    for (int i = 0; i < 2; i++) {
        uvcc_link_stream_closed(w->node[i].link, w->now);
        sim_drop_inbox(&w->node[i]);
    }
}

static inline void sim_end(sim_world *w) {
    for (int i = 0; i < 2; i++) {
        uvcc_link_free(w->node[i].link);
        assert_int_equal(w->node[i].mem.live_bytes, 0);
        assert_int_equal(w->node[i].mem.live_blocks, 0);
        sim_drop_inbox(&w->node[i]);
        free(w->node[i].out);
    }
}

static inline void sim_queue(sim_world *w, int i, uint8_t kind, uint32_t len, uint64_t order) {
    sim_node *n = &w->node[i];
    if (n->out_cnt % 1024 == 0) {
        sim_message *more = realloc(n->out, (n->out_cnt + 1024) * sizeof *more);
        assert_non_null(more);
        n->out = more;
    }
    n->out[n->out_cnt] = (sim_message){.kind = kind,
                                       .len = len,
                                       .step = w->step,
                                       .op_id = (uint32_t)n->out_cnt + 1,
                                       .order = order};
    n->out_cnt++;
}

/* Hands queued messages to the link while it takes them. */
static inline void sim_offer(sim_world *w, int i) {
    sim_node *n = &w->node[i];
    while (n->out_at < n->out_cnt) {
        sim_message *m = &n->out[n->out_at];
        uvcc_link_msg *msg;
        bool writable = uvcc_link_writable(n->link, m->kind, m->len);
        int err = uvcc_link_msg_new(n->link, m->kind, m->len, &msg);
        assert_int_equal(writable, err != UVCC_ERR_AGAIN && err != UVCC_ERR_LIMIT);
        if (err == UVCC_ERR_AGAIN || err == UVCC_ERR_NOMEM)
            return;
        assert_int_equal(err, 0);
        sim_fill(uvcc_link_msg_data(msg), m->len, (uint32_t)i, m->op_id);
        uint32_t ids[UVCC_MSG_MAX_CHUNKS];
        for (uint32_t c = 0; c < UVCC_MSG_MAX_CHUNKS; c++)
            ids[c] = sim_msg_id(m->op_id, c);
        assert_int_equal(uvcc_link_send(n->link, msg, m->step, m->op_id, ids, m->order, w->now), 0);
        n->out_at++;
    }
}

static inline void sim_insert(sim_node *to, uint64_t at, const uint8_t *data, size_t len) {
    sim_packet *p = malloc(sizeof *p + len);
    assert_non_null(p);
    p->at = at;
    p->len = len;
    memcpy(p->data, data, len);
    sim_packet **q = &to->inbox;
    while (*q != NULL && (*q)->at <= at)
        q = &(*q)->next;
    p->next = *q;
    *q = p;
}

static inline void sim_packet_out(sim_world *w, int i, uint8_t *data, size_t len) {
    sim_node *to = &w->node[1 - i];
    uint64_t sent = w->now;
    if (w->ns_per_byte != 0) {
        if (w->node[i].wire_free < w->now)
            w->node[i].wire_free = w->now;
        w->node[i].wire_free += len * w->ns_per_byte;
        sent = w->node[i].wire_free;
    }
    w->packets++;
    w->data_sent += len;
    if (!w->datagram) {
        if (!w->cut_wire)
            sim_insert(to, sent + w->delay_ns, data, len);
        return;
    }
    if (w->cut_wire || sim_chance(w, w->drop) || (w->path_bytes != 0 && len > w->path_bytes) ||
        (w->drop_acks && len > 5 && data[5] == UVCC_FRAME_ACK)) {
        w->dropped++;
        return;
    }
    if (sim_chance(w, w->corrupt))
        data[sim_rand(w) % len] ^= (uint8_t)(1u << sim_rand(w) % 8);
    if (sim_chance(w, w->truncate))
        len = sim_rand(w) % (len + 1);
    uint64_t at = sent + w->delay_ns;
    if (sim_chance(w, w->reorder))
        at += sim_rand(w) % (w->jitter_ns + 1);
    sim_insert(to, at, data, len);
    if (sim_chance(w, w->dup))
        sim_insert(to, at + sim_rand(w) % (w->jitter_ns + 1), data, len);
}

/* Sends all that a link has to send. */
static inline void sim_drain(sim_world *w, int i) {
    static uint8_t buf[2 << 20];
    sim_node *n = &w->node[i];
    uvcc_transmit t;
    int rc;
    for (uint32_t rounds = 0; (rc = uvcc_link_poll_transmit(n->link, &t, w->now)) == 1; rounds++) {
        size_t len = 0, bytes = t.total;
        uvcc_transmit none;
        assert_int_equal(uvcc_link_poll_transmit(n->link, &none, w->now), 0);
        for (uint32_t s = 0; s < t.slice_count; s++) {
            assert_true(len + t.slices[s].len <= sizeof buf && t.slices[s].len != 0);
            memcpy(buf + len, t.slices[s].data, t.slices[s].len);
            len += t.slices[s].len;
        }
        assert_int_equal(len, t.total);
        if (!w->datagram && sim_chance(w, w->reorder))
            bytes = sim_rand(w) % (t.total + 1);
        if (w->close_after != 0) {
            uint64_t left = w->closed_at + w->close_after - w->data_sent;
            bytes = bytes < left ? bytes : left; /* cut in mid-frame */
        }
        if (bytes != 0)
            sim_packet_out(w, i, buf, bytes);
        if (bytes == 0 && w->close_after != 0)
            return;
        assert_int_equal(uvcc_link_transmit_done(n->link, t.id, bytes, w->now), 0);
        assert_true(rounds < 200000);
    }
    assert_int_equal(rc, 0);
}

/* The same, and timers: afterwards the deadline is in the future. */
static inline void sim_flush(sim_world *w, int i) {
    sim_drain(w, i);
    if (uvcc_link_next_deadline(w->node[i].link) <= w->now) {
        uvcc_link_on_timer(w->node[i].link, w->now);
        sim_drain(w, i);
    }
    assert_true(uvcc_link_next_deadline(w->node[i].link) > w->now);
}

static inline void sim_settle(sim_world *w, int i, size_t at) {
    sim_node *n = &w->node[i];
    sim_held *h = &n->held[at];
    if (!h->accepted) {
        assert_int_equal(uvcc_link_accept(n->link, h->token, w->now), 0);
        h->accepted = true;
        if (sim_chance(w, w->hold))
            return;
    }
    assert_int_equal(uvcc_link_release(n->link, h->token, w->now), 0);
    assert_int_equal(uvcc_link_release(n->link, h->token, w->now), UVCC_ERR_USAGE);
    *h = n->held[--n->held_cnt];
}

/* Takes and checks what became whole. */
static inline void sim_take(sim_world *w, int i) {
    sim_node *n = &w->node[i], *from = &w->node[1 - i];
    uvcc_link_rx rx;
    while (uvcc_link_poll_message(n->link, &rx) == 1) {
        assert_true(rx.op_id >= 1 && rx.op_id <= from->out_at);
        sim_message *m = &from->out[rx.op_id - 1];
        assert_int_equal(m->delivered, 0);
        m->delivered++;
        n->delivered++;
        assert_int_equal(rx.kind, m->kind);
        assert_int_equal(rx.len, m->len);
        assert_int_equal(rx.step, m->step);
        assert_int_equal((uintptr_t)rx.data % 64, 0);
        for (uint32_t c = 0; c < rx.chunk_cnt; c++)
            assert_int_equal(rx.msg_ids[c], sim_msg_id(m->op_id, c));
        uint64_t s = (uint64_t)(1 - i) << 32 | m->op_id, v = 0;
        for (uint32_t k = 0; k < rx.len; k++) {
            if (k % 8 == 0)
                v = test_rand(&s);
            if (rx.data[k] != (uint8_t)(v >> (k % 8 * 8)))
                fail_msg("message %u: byte %u of %u differs", m->op_id, k, rx.len);
        }
        memset(rx.data, 0xEE, rx.len); /* writable */
        n->held[n->held_cnt++] = (sim_held){.token = rx.token};
        if (!sim_chance(w, w->hold) || n->held_cnt == 64)
            sim_settle(w, i, sim_rand(w) % n->held_cnt);
    }
    while (n->held_cnt != 0 && !sim_chance(w, w->hold))
        sim_settle(w, i, sim_rand(w) % n->held_cnt);
}

/* Streams: a new connection, at once. */
static inline void sim_reconnect(sim_world *w) {
    sim_close(w);
    sim_open(w);
    w->closed_at = w->data_sent;
    w->close_after += w->close_grows;
}

static inline void sim_deliver(sim_world *w, int i) {
    sim_node *n = &w->node[i];
    sim_packet *p = n->inbox;
    n->inbox = p->next;
    size_t at = 0;
    do {
        size_t len = p->len - at;
        if (!w->datagram && len > 1 && w->jitter_ns != 0 && sim_chance(w, 700))
            len = 1 + sim_rand(w) % (sim_chance(w, 500) && len > 200 ? 200 : len);
        uint8_t *copy = malloc(len + 1); /* so that a sanitizer sees reads past the end */
        memcpy(copy, p->data + at, len);
        int err = uvcc_link_feed(n->link, copy, len, w->now);
        free(copy);
        if (err != 0 && err != UVCC_ERR_NOMEM)
            fail_msg("feed: %d", err);
        if (err != 0 && !w->datagram) {
            free(p);
            sim_reconnect(w);
            return;
        }
        at += len;
        if (at != p->len)
            sim_take(w, i);
    } while (at != p->len);
    free(p);
}

/* One event. False: nothing will ever happen, or nothing until `until`. */
static inline bool sim_step(sim_world *w, uint64_t until) {
    uint64_t t = UVCC_NEVER;
    for (int i = 0; i < 2; i++) {
        sim_offer(w, i);
        sim_flush(w, i);
    }
    for (int i = 0; i < 2; i++) {
        sim_node *n = &w->node[i];
        uint64_t d = uvcc_link_next_deadline(n->link);
        t = d < t ? d : t;
        if (n->inbox != NULL && n->inbox->at < t)
            t = n->inbox->at;
        if (n->held_cnt != 0 && w->now + SIM_MS / 4 < t)
            t = w->now + SIM_MS / 4;
    }
    if (t > until) {
        w->now = until;
        return false;
    }
    if (t > w->now)
        w->now = t;
    for (int i = 0; i < 2; i++) {
        sim_node *n = &w->node[i];
        if (n->inbox != NULL && n->inbox->at <= w->now)
            sim_deliver(w, i);
        sim_take(w, i);
    }
    if (w->close_after != 0 && w->data_sent - w->closed_at >= w->close_after)
        sim_reconnect(w);
    sim_check(w);
    return true;
}

static inline void sim_run_for(sim_world *w, uint64_t ns) {
    uint64_t until = w->now + ns;
    while (sim_step(w, until)) {
    }
}

static inline bool sim_all_done(const sim_world *w) {
    for (int i = 0; i < 2; i++) {
        const sim_node *n = &w->node[i];
        if (n->delivered != w->node[1 - i].out_cnt || !uvcc_link_drained(n->link) ||
            n->held_cnt != 0)
            return false;
    }
    return true;
}

/* Runs until everything was delivered and acknowledged; fails after `most_ns` of virtual time. */
static inline void sim_run(sim_world *w, uint64_t most_ns) {
    uint64_t until = w->now + most_ns;
    while (!sim_all_done(w))
        if (!sim_step(w, until))
            fail_msg("not done after %llu ms: delivered %zu of %zu and %zu of %zu",
                     (unsigned long long)(most_ns / SIM_MS), w->node[1].delivered,
                     w->node[0].out_cnt, w->node[0].delivered, w->node[1].out_cnt);
}

#endif
