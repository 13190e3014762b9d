/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - the shared pipes and the clock of the network in virtual time, see net.h.
 *
 * A packet is an event: first "it reached the pipe", when the queue takes or drops it and thereby
 * knows when it will arrive, then "it arrived". So queues need no events of their own. Ends have
 * one time each at which they want to be woken. */
#include "net.h"
#include "net_flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct queue_entry {
    uint64_t leaves;
    uint32_t bytes;
} queue_entry;

typedef struct pipe_state {
    net_pipe_config c;
    net_pipe_counts n;
    uint64_t rng, free_at, last_arrival;
    uint64_t queue_bytes;
    queue_entry *queue; /* ring */
    size_t first, count, cap;
} pipe_state;

struct net {
    pipe_state pipe[2];
    net_packet **heap;
    size_t heap_count, heap_cap;
    net_flow **flow;
    size_t flow_count;
    uint64_t now, order, noise_ns, rng;
};

/* ---- small things ---- */

void *net_more(void *p, size_t bytes) {
    void *more = realloc(p, bytes);
    if (more == NULL) {
        fprintf(stderr, "net: no memory\n");
        exit(1);
    }
    return more;
}

void *net_alloc(size_t bytes) {
    return memset(net_more(NULL, bytes), 0, bytes);
}

bool net_set_has(const net_set *s, uint64_t i) {
    return i / 64 < s->words && (s->word[i / 64] >> i % 64 & 1) != 0;
}

bool net_set_add(net_set *s, uint64_t i) {
    if (i / 64 >= s->words) {
        size_t words = (size_t)(i / 64 + 1) * 2;
        s->word = net_more(s->word, words * sizeof *s->word);
        memset(s->word + s->words, 0, (words - s->words) * sizeof *s->word);
        s->words = words;
    }
    bool fresh = !net_set_has(s, i);
    s->word[i / 64] |= UINT64_C(1) << i % 64;
    return fresh;
}

static uint64_t draw(uint64_t *rng) { /* splitmix64 */
    uint64_t z = *rng += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static double uniform(uint64_t *rng) {
    return (double)(draw(rng) >> 11) * 0x1p-53;
}

static uint64_t wire_ns(double bytes, double rate) {
    return rate == 0 ? 0 : (uint64_t)(8e9 * bytes / rate + 0.5);
}

/* ---- packets in order of time ---- */

static bool before(const net_packet *a, const net_packet *b) {
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void heap_push(net *n, net_packet *p) {
    if (n->heap_count == n->heap_cap) {
        n->heap_cap = n->heap_cap * 2 + 64;
        n->heap = net_more(n->heap, n->heap_cap * sizeof(net_packet *));
    }
    p->order = n->order++;
    size_t i = n->heap_count++;
    for (; i != 0 && before(p, n->heap[(i - 1) / 2]); i = (i - 1) / 2)
        n->heap[i] = n->heap[(i - 1) / 2];
    n->heap[i] = p;
}

static net_packet *heap_pop(net *n) {
    net_packet *top = n->heap[0], *last = n->heap[--n->heap_count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < n->heap_count; i = child) {
        if (child + 1 < n->heap_count && before(n->heap[child + 1], n->heap[child]))
            child++;
        if (!before(n->heap[child], last))
            break;
        n->heap[i] = n->heap[child];
    }
    n->heap[i] = last;
    return top;
}

/* ---- a pipe ---- */

static void queue_drain(pipe_state *s, uint64_t now) {
    while (s->count != 0 && s->queue[s->first].leaves <= now) {
        s->queue_bytes -= s->queue[s->first].bytes;
        s->first = (s->first + 1) % s->cap;
        s->count--;
    }
}

static void queue_put(pipe_state *s, uint64_t leaves, uint32_t bytes) {
    if (s->count == s->cap) {
        size_t cap = s->cap * 2 + 64;
        queue_entry *q = net_alloc(cap * sizeof *q);
        for (size_t i = 0; i < s->count; i++)
            q[i] = s->queue[(s->first + i) % s->cap];
        free(s->queue);
        s->queue = q;
        s->first = 0;
        s->cap = cap;
    }
    s->queue[(s->first + s->count++) % s->cap] = (queue_entry){leaves, bytes};
    s->queue_bytes += bytes;
    if (s->queue_bytes > s->n.queue_bytes_max)
        s->n.queue_bytes_max = s->queue_bytes;
    if (s->count > s->n.queue_packets_max)
        s->n.queue_packets_max = s->count;
}

/* The queue and the bottleneck's wire: when the packet has left, or 0 if it is dropped. */
static uint64_t queue_pass(pipe_state *s, net_packet *p, uint64_t now) {
    uint32_t bytes = p->len + p->flow->overhead_bytes;
    net_figures *f = p->end == NET_THERE ? &p->flow->f : NULL;
    queue_drain(s, now);
    if ((s->c.queue_bytes != 0 && s->queue_bytes + bytes > s->c.queue_bytes) ||
        (s->c.queue_packets != 0 && s->count + 1 > s->c.queue_packets)) {
        s->n.dropped++;
        if (f != NULL)
            f->dropped++;
        return 0;
    }
    if (p->capable && s->c.mark_bytes != 0 && s->queue_bytes > s->c.mark_bytes) {
        p->ce = true;
        s->n.marked++;
        if (f != NULL)
            f->marked++;
    }
    uint64_t begin = s->free_at > now ? s->free_at : now;
    s->n.sent_bytes += bytes;
    if (s->c.rate != 0) {
        s->free_at = begin + wire_ns(bytes, s->c.rate);
        queue_put(s, s->free_at, bytes);
    } else {
        s->free_at = begin;
    }
    if (f != NULL) {
        f->queued++;
        p->flow->queue_sum += (double)(begin - now);
        if (begin - now > f->queue_ns_max)
            f->queue_ns_max = begin - now;
    }
    return s->free_at;
}

/* True: it will arrive at p->at; false: it is gone. */
static bool pipe_pass(pipe_state *s, net_packet *p, uint64_t now) {
    net_figures *f = p->end == NET_THERE ? &p->flow->f : NULL;
    s->n.entered++;
    if (s->c.path_bytes != 0 && p->len > s->c.path_bytes) {
        s->n.too_long++;
        if (f != NULL)
            f->too_long++;
        return false;
    }
    uint64_t left = queue_pass(s, p, now);
    if (left == 0)
        return false;
    if (s->c.loss != 0 && uniform(&s->rng) < s->c.loss) {
        s->n.lost++;
        if (f != NULL)
            f->lost++;
        return false;
    }
    p->at = left + s->c.delay_ns;
    if (s->c.reorder != 0 && uniform(&s->rng) < s->c.reorder) {
        p->at += (uint64_t)((double)s->c.reorder_ns * (0.5 + 0.5 * uniform(&s->rng)));
    } else if (s->c.jitter_ns != 0) {
        p->at += draw(&s->rng) % (s->c.jitter_ns + 1);
        if (p->at < s->last_arrival)
            p->at = s->last_arrival;
        s->last_arrival = p->at;
    }
    s->n.under_way++;
    return true;
}

/* ---- what flows call ---- */

net_flow *net_add(net *n, uint64_t start_ns) {
    net_flow *flow = net_alloc(sizeof *flow);
    n->flow = net_more(n->flow, (n->flow_count + 1) * sizeof(net_flow *));
    flow->number = (int)n->flow_count;
    n->flow[n->flow_count++] = flow;
    flow->net = n;
    uint64_t at = start_ns > n->now ? start_ns : n->now;
    for (int e = 0; e < 2; e++)
        flow->end[e] = (net_end){.wake_at = at};
    flow->arrived = at;
    return flow;
}

net_flow *net_flow_at(const net *n, int flow) {
    return n->flow[flow];
}

uint8_t *net_send(net_flow *flow, int end, uint32_t len, uint32_t stored, uint64_t now) {
    net_end *e = &flow->end[end];
    net *n = flow->net;
    net_packet *p = net_more(NULL, sizeof *p + stored);
    e->free_at = now + wire_ns(len + flow->overhead_bytes, e->access_rate);
    uint64_t at = e->free_at;
    if (n->noise_ns != 0)
        at += draw(&n->rng) % (n->noise_ns + 1);
    e->last_at = at > e->last_at ? at : e->last_at;
    *p = (net_packet){.at = e->last_at,
                      .flow = flow,
                      .end = (uint8_t)end,
                      .capable = flow->ecn,
                      .len = len,
                      .stored = stored};
    heap_push(n, p);
    if (end == 0) {
        flow->f.wire_packets++;
        flow->f.wire_bytes += len;
    } else {
        flow->f.back_packets++;
        flow->f.back_bytes += len;
    }
    return p->data;
}

void net_arrived(net_flow *flow, bool first, uint32_t bytes, double ideal, uint64_t now) {
    if (!first) {
        flow->f.needless++;
        flow->f.needless_bytes += bytes;
        return;
    }
    flow->f.frames++;
    flow->f.frame_bytes += bytes;
    flow->f.ideal_bytes += ideal;
    if (now - flow->arrived > flow->f.gap_ns)
        flow->f.gap_ns = now - flow->arrived;
    flow->arrived = now;
}

/* ---- the whole ---- */

net *net_new(const net_config *cfg) {
    net *n = net_alloc(sizeof *n);
    n->now = NET_BEGIN;
    uint64_t rng = cfg->seed;
    n->noise_ns = cfg->noise_ns;
    for (int way = 0; way < 2; way++) {
        n->pipe[way].c = cfg->pipe[way];
        n->pipe[way].rng = draw(&rng);
    }
    n->rng = draw(&rng);
    return n;
}

void net_free(net *n) {
    for (size_t i = 0; i < n->flow_count; i++) {
        n->flow[i]->free(n->flow[i]);
        free(n->flow[i]);
    }
    for (size_t i = 0; i < n->heap_count; i++)
        free(n->heap[i]);
    for (int way = 0; way < 2; way++)
        free(n->pipe[way].queue);
    free(n->heap);
    free(n->flow);
    free(n);
}

/* When the end can do something: now, or when its stall is over. */
static uint64_t awake_at(net *n, net_end *e) {
    if (e->stall_ns == 0)
        return n->now;
    while (e->back_at <= n->now) {
        e->stall_at = e->back_at + draw(&n->rng) % (2 * e->stall_every_ns + 1);
        e->back_at = e->stall_at + 1 + draw(&n->rng) % e->stall_ns;
    }
    return e->stall_at <= n->now ? e->back_at : n->now;
}

static void packet_event(net *n) {
    net_packet *p = heap_pop(n);
    pipe_state *s = &n->pipe[p->end];
    if (!p->in_pipe) {
        p->in_pipe = true;
        if (pipe_pass(s, p, n->now))
            heap_push(n, p);
        else
            free(p);
        return;
    }
    int to = 1 - p->end;
    uint64_t at = awake_at(n, &p->flow->end[to]);
    if (at > n->now) {
        p->at = at;
        heap_push(n, p);
        return;
    }
    s->n.under_way--;
    s->n.delivered++;
    if (p->flow->f.error == 0) {
        p->flow->receive(p->flow, to, p, n->now);
        p->flow->turn(p->flow, to, n->now);
    }
    free(p);
}

/* The end that wants to be woken first, if that is before the next packet; *at: then. */
static net_flow *next_wake(const net *n, int *end, uint64_t *at) {
    net_flow *wake = NULL;
    *at = n->heap_count != 0 ? n->heap[0]->at : UVCC_NEVER;
    for (size_t i = 0; i < n->flow_count; i++)
        for (int e = 0; e < 2 && n->flow[i]->f.error == 0; e++)
            if (n->flow[i]->end[e].wake_at < *at) {
                *at = n->flow[i]->end[e].wake_at;
                wake = n->flow[i];
                *end = e;
            }
    return wake;
}

uint64_t net_next(const net *n) {
    int end;
    uint64_t at;
    next_wake(n, &end, &at);
    return at;
}

/* One event; false: none until `until`. */
static bool event(net *n, uint64_t until) {
    int end = 0;
    uint64_t at;
    net_flow *wake = next_wake(n, &end, &at);
    if (at > until) {
        n->now = until;
        return false;
    }
    if (at > n->now)
        n->now = at;
    if (wake == NULL) {
        packet_event(n);
    } else if ((at = awake_at(n, &wake->end[end])) > n->now) {
        wake->end[end].wake_at = at;
    } else {
        wake->f.wakeups++;
        wake->turn(wake, end, n->now);
    }
    return true;
}

void net_run(net *n, uint64_t until) {
    if (until < n->now)
        return;
    while (event(n, until)) {
    }
}

bool net_run_flow(net *n, int flow, uint64_t until) {
    const net_figures *f = &n->flow[flow]->f;
    while (f->finished_ns == 0 && f->error == 0 && n->now < until && event(n, until)) {
    }
    return f->finished_ns != 0;
}

uint64_t net_now(const net *n) {
    return n->now;
}

net_pipe_config *net_pipe(net *n, int way) {
    return &n->pipe[way].c;
}

void net_counts(const net *n, int way, net_pipe_counts *out) {
    *out = n->pipe[way].n;
}

void net_flow_figures(const net *n, int flow, net_figures *out) {
    const net_flow *w = n->flow[flow];
    *out = w->f;
    out->queue_ns = w->f.queued == 0 ? 0 : w->queue_sum / (double)w->f.queued;
    if (w->f.finished_ns == 0 && n->now > w->arrived && n->now - w->arrived > out->gap_ns)
        out->gap_ns = n->now - w->arrived;
}

void net_flow_mark(net *n, int flow) {
    net_flow *w = n->flow[flow];
    w->f = (net_figures){
        .finished_ns = w->f.finished_ns, .error = w->f.error, .error_at = w->f.error_at};
    w->queue_sum = 0;
    if (w->arrived < n->now)
        w->arrived = n->now;
}
