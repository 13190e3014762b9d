/* SPDX-License-Identifier: Apache-2.0 */
/* net_link.c - flows of the network in virtual time that are pairs of links, see net.h.
 *
 * Each end is a host: it feeds what comes, takes messages, runs their jobs, sends while its wire is
 * free, and sleeps until the link's deadline. The frames that arrive are counted from the packets
 * themselves, not from what the links say of them. */
#include "net_flow.h"

#include <stdlib.h>
#include <string.h>

#include <uvcc/host.h>

#define SEQ_MASK ((UINT64_C(1) << 40) - 1)
#define SPINS    8
#define STUCK_NS 1000u

typedef struct job {
    uint64_t token, due;
    uint32_t len;
} job;

typedef struct link_flow {
    net_link_config c;
    uvcc_link *link[2];
    uvcc_seeded_random random[2];
    uint64_t sent, next_send;
    job *jobs; /* ring, in the order in which they end */
    size_t job_first, job_count, job_cap;
    net_frames came;
} link_flow;

uint64_t net_ideal_bytes(uint32_t len, uint32_t frame_bytes, bool sealed) {
    uint32_t head = UVCC_FRAME_HEADER_BYTES + (sealed ? UVCC_FRAME_SEAL_BYTES : 0);
    uint32_t room = frame_bytes - head;
    uint64_t frames = len == 0 ? 1 : 0;
    for (uint32_t left = len; left != 0;) {
        uint32_t chunk = left < UVCC_CHUNK_BYTES ? left : UVCC_CHUNK_BYTES;
        frames += (chunk + room - 1) / room;
        left -= chunk;
    }
    return len + frames * head;
}

/* True if the call did not fail; else the flow stands still. */
static bool fine(net_flow *flow, int err, const char *at) {
    if (err >= 0)
        return true;
    if (flow->f.error == 0) {
        flow->f.error = err;
        flow->f.error_at = at;
    }
    return false;
}

/* ---- the frames that arrive ---- */

static double ideal_share(net_frames *c, const uvcc_frame_header *h, uint32_t payload) {
    bool sealed = (h->flags & UVCC_FRAME_SEALED) != 0;
    if (h->msg_len == 0)
        return UVCC_FRAME_HEADER_BYTES + (sealed ? UVCC_FRAME_SEAL_BYTES : 0);
    if (c->ideal_ratio == 0 || c->ideal_len != h->msg_len) {
        c->ideal_len = h->msg_len;
        c->ideal_ratio = (double)net_ideal_bytes(h->msg_len, c->frame_bytes, sealed) / h->msg_len;
    }
    return payload * c->ideal_ratio;
}

void net_frames_count(net_frames *c, const uint8_t *data, size_t len, net_flow *flow,
                      uint64_t now) {
    for (size_t at = 0; len - at >= UVCC_FRAME_HEADER_BYTES;) {
        uvcc_frame_header h;
        if (uvcc_frame_decode_header(data + at, &h, NULL) != 0)
            return;
        uint32_t bytes = UVCC_FRAME_HEADER_BYTES + h.payload_len;
        if (bytes > len - at)
            return;
        at += bytes;
        if (uvcc_frame_kind_class(h.kind) == UVCC_CLASS_CONTROL)
            continue;
        uint32_t seal = (h.flags & UVCC_FRAME_SEALED) != 0 ? UVCC_FRAME_SEAL_BYTES : 0;
        bool first = net_set_add(&c->seen, h.seq & SEQ_MASK);
        net_arrived(flow, first, bytes, ideal_share(c, &h, h.payload_len - seal), now);
    }
}

/* ---- the host's loop ---- */

static void offer(net_flow *flow, uint64_t now) {
    link_flow *s = flow->state;
    while ((s->c.messages == 0 || s->sent < s->c.messages) && now >= s->next_send &&
           uvcc_link_writable(s->link[0], UVCC_FRAME_OPEN_BATCH, s->c.message_bytes)) {
        uvcc_link_msg *m;
        if (!fine(flow,
                  uvcc_link_msg_new(s->link[0], UVCC_FRAME_OPEN_BATCH, s->c.message_bytes, &m),
                  "msg_new"))
            return;
        memset(uvcc_link_msg_data(m), (int)(s->sent & 0xFF), s->c.message_bytes);
        s->sent++;
        uint32_t id = (uint32_t)s->sent, ids[UVCC_MSG_MAX_CHUNKS];
        for (uint32_t i = 0; i < UVCC_MSG_MAX_CHUNKS; i++)
            ids[i] = id * UVCC_MSG_MAX_CHUNKS + i;
        if (!fine(flow, uvcc_link_send(s->link[0], m, 0, id, ids, s->sent, now), "send"))
            return;
        s->next_send = now + s->c.message_gap_ns;
    }
}

static void job_put(link_flow *s, job j) {
    if (s->job_count == s->job_cap) {
        size_t cap = s->job_cap * 2 + 64;
        job *more = net_alloc(cap * sizeof *more);
        for (size_t i = 0; i < s->job_count; i++)
            more[i] = s->jobs[(s->job_first + i) % s->job_cap];
        free(s->jobs);
        s->jobs = more;
        s->job_first = 0;
        s->job_cap = cap;
    }
    s->jobs[(s->job_first + s->job_count++) % s->job_cap] = j;
}

static void take(net_flow *flow, uint64_t now) {
    link_flow *s = flow->state;
    uvcc_link_rx rx;
    while (uvcc_link_poll_message(s->link[1], &rx) == 1)
        job_put(s, (job){.token = rx.token, .due = now + s->c.job_ns, .len = rx.len});
    while (s->job_count != 0 && s->jobs[s->job_first].due <= now) {
        job j = s->jobs[s->job_first];
        s->job_first = (s->job_first + 1) % s->job_cap;
        s->job_count--;
        if (!fine(flow, uvcc_link_accept(s->link[1], j.token, now), "accept") ||
            !fine(flow, uvcc_link_release(s->link[1], j.token, now), "release"))
            return;
        flow->f.messages++;
        flow->f.message_payload += j.len;
    }
}

/* Sends while there is something and the wire is free; true if there may be more. */
static bool transmit(net_flow *flow, int end, uint64_t now) {
    link_flow *s = flow->state;
    uvcc_transmit t;
    while (net_free_to_send(&flow->end[end], now)) {
        int rc = uvcc_link_poll_transmit(s->link[end], &t, now);
        if (!fine(flow, rc, "poll_transmit") || rc == 0)
            return false;
        uint8_t *to = net_send(flow, end, (uint32_t)t.total, (uint32_t)t.total, now);
        for (uint32_t i = 0; i < t.slice_count; i++) {
            memcpy(to, t.slices[i].data, t.slices[i].len);
            to += t.slices[i].len;
        }
        if (!fine(flow, uvcc_link_transmit_done(s->link[end], t.id, t.total, now), "transmit_done"))
            return false;
    }
    return true;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t timer(const link_flow *s, uint64_t at) {
    if (s->c.timer_ns == 0 || at == UVCC_NEVER)
        return at;
    return (at + s->c.timer_ns - 1) / s->c.timer_ns * s->c.timer_ns;
}

static bool begin(net_flow *flow, uint64_t now) {
    link_flow *s = flow->state;
    static const uint8_t prk[32] = {1, 2, 3};
    for (int e = 0; e < 2; e++) {
        uvcc_link_config cfg;
        uvcc_link_config_default(&cfg);
        cfg.alloc = uvcc_host_allocator();
        cfg.random = uvcc_seeded(&s->random[e], 1, (uint32_t)e);
        cfg.me = (uint8_t)e;
        cfg.peer = (uint8_t)(1 - e);
        cfg.datagram = true;
        cfg.sid_tag = 7;
        cfg.datagram_bytes = s->c.datagram_bytes;
        cfg.keepalive_ns = UVCC_NEVER;
        if (s->c.tune != NULL)
            s->c.tune(&cfg, e, s->c.user);
        uvcc_link **l = &s->link[e];
        if (!fine(flow, uvcc_link_new(l, &cfg), "link_new") ||
            !fine(flow, uvcc_link_set_run(*l, 1), "set_run") ||
            (s->c.suite != 0 && !fine(flow, uvcc_link_set_keys(*l, s->c.suite, prk), "set_keys")) ||
            !fine(flow, uvcc_link_start(*l, now), "start"))
            return false;
    }
    return true;
}

static void turn(net_flow *flow, int end, uint64_t now) {
    link_flow *s = flow->state;
    net_end *e = &flow->end[end];
    e->wake_at = UVCC_NEVER;
    if (s->link[1] == NULL && !begin(flow, now))
        return;
    uvcc_link *l = s->link[end];
    bool more = false;
    for (int i = 0; i < SPINS && flow->f.error == 0; i++) {
        if (end == 0)
            offer(flow, now);
        else
            take(flow, now);
        if (uvcc_link_next_deadline(l) <= now)
            uvcc_link_on_timer(l, now);
        more = transmit(flow, end, now);
        if (more || uvcc_link_next_deadline(l) > now)
            break;
    }
    uint64_t wake = uvcc_link_next_deadline(l);
    if (more) {
        wake = wake <= now ? e->free_at : least(wake, e->free_at);
    } else if (wake <= now) {
        flow->f.past_deadlines++;
        wake = now + STUCK_NS;
    } else {
        wake = timer(s, wake);
    }
    bool all = s->c.messages != 0 && s->sent == s->c.messages;
    if (end == 0 && !all && s->next_send > now)
        wake = least(wake, s->next_send);
    if (end == 1 && s->job_count != 0)
        wake = least(wake, s->jobs[s->job_first].due);
    if (end == 0 && all && flow->f.finished_ns == 0 && uvcc_link_drained(l))
        flow->f.finished_ns = now;
    e->wake_at = wake;
}

static void receive(net_flow *flow, int end, const net_packet *p, uint64_t now) {
    link_flow *s = flow->state;
    if (s->link[end] == NULL)
        return;
    if (end == 1)
        net_frames_count(&s->came, p->data, p->stored, flow, now);
    int err = s->c.feed != NULL ? s->c.feed(s->link[end], p->data, p->stored, p->ce, now)
                                : uvcc_link_feed(s->link[end], p->data, p->stored, now);
    if (err != UVCC_ERR_NOMEM)
        fine(flow, err, "feed");
    const char *why = uvcc_link_violation(s->link[end]);
    if (why != NULL)
        fine(flow, UVCC_ERR_PROTOCOL, why);
}

static void link_flow_free(net_flow *flow) {
    link_flow *s = flow->state;
    for (int e = 0; e < 2; e++)
        if (s->link[e] != NULL)
            uvcc_link_free(s->link[e]);
    free(s->jobs);
    free(s->came.seen.word);
    free(s);
}

uvcc_link *net_flow_link(net *n, int flow, int end) {
    const net_flow *f = net_flow_at(n, flow);
    return f->turn == turn ? ((const link_flow *)f->state)->link[end] : NULL;
}

int net_add_link(net *n, const net_link_config *cfg) {
    link_flow *s = net_alloc(sizeof *s);
    s->c = *cfg;
    if (s->c.message_bytes == 0)
        s->c.message_bytes = 1u << 20;
    s->came.frame_bytes = cfg->datagram_bytes != 0 && cfg->datagram_bytes < NET_FRAME_BYTES
                              ? cfg->datagram_bytes
                              : NET_FRAME_BYTES;
    net_flow *flow = net_add(n, cfg->start_ns);
    flow->overhead_bytes = cfg->overhead_bytes;
    flow->ecn = cfg->ecn;
    for (int e = 0; e < 2; e++) {
        flow->end[e].access_rate = cfg->access_rate;
        flow->end[e].stall_ns = cfg->stall_ns;
        flow->end[e].stall_every_ns = cfg->stall_every_ns;
    }
    flow->turn = turn;
    flow->receive = receive;
    flow->free = link_flow_free;
    flow->state = s;
    return flow->number;
}
