/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - stages that run the ops of microbatches, tick by tick.
 *
 * A tick: waits that end now end; every stage that does not compute takes the runnable op of least
 * rank; the invariant is checked; the tick passes; what was computed to its end counts from the
 * next tick on, for the other stages too. What can run is kept up to date where something ends, and
 * the check works it out again from the dependencies alone. */
#include "pipeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- load ---- */

static uint64_t mix(uint64_t z) { /* splitmix64 */
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

pipe_time pipe_time_of(const pipe_load *l, const pipe_graph *g, uint32_t stage, uint32_t mb,
                       uint32_t op) {
    const uint64_t one = mix(mix(l->seed) ^ ((uint64_t)stage << 40 | (uint64_t)mb << 16 | op));
    const uint64_t two = mix(one);
    const uint32_t compute =
        l->spread ? 1 + (uint32_t)(one % (2ull * l->op_ticks - 1)) : l->op_ticks;
    const bool waits = l->choice == PIPE_WAITS_RANDOM ? (double)(two >> 11) < l->wait_share * 0x1p53
                                                      : (g->waits >> op & 1) != 0;
    if (!waits || l->wait_factor == 0)
        return (pipe_time){compute, 0, 0};
    return (pipe_time){compute - compute / 2, l->wait_factor * l->op_ticks, compute / 2};
}

/* ---- the bound ---- */

/* Longest paths through one microbatch's ops of a phase: when each is done at the earliest. */
static void earliest(const pipe_run *r, uint32_t stage, uint32_t mb, unsigned phase,
                     uint64_t done[PIPE_OPS_MAX]) {
    const pipe_graph *g = r->graph;
    uint64_t met[PIPE_OPS_MAX] = {0}; /* from when on it holds up nothing: see pipe_graph.preds */
    for (uint32_t i = 0; i < g->ops; i++) {
        uint64_t start = 0;
        if (g->phase[i] != phase)
            continue;
        for (uint32_t j = 0; j < i; j++)
            if ((g->preds[i] >> j & 1) != 0 && met[j] > start)
                start = met[j];
        const pipe_time t = pipe_time_of(&r->load, g, stage, mb, i);
        done[i] = start + t.before + t.wait + t.after;
        met[i] = (g->readers >> i & 1) != 0 ? start + t.before : done[i];
    }
}

static uint64_t greatest(const uint64_t *v, uint32_t n) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < n; i++)
        most = v[i] > most ? v[i] : most;
    return most;
}

/* compute, chain and tail of pipe_result, over all stages and microbatches. */
static void measure_load(const pipe_run *r, pipe_result *out) {
    const pipe_graph *g = r->graph;
    const double n = (double)r->stages * r->microbatches;
    for (uint32_t s = 0; s < r->stages; s++)
        for (uint32_t m = 0; m < r->microbatches; m++) {
            uint64_t fwd[PIPE_OPS_MAX] = {0}, bwd[PIPE_OPS_MAX] = {0}, compute = 0;
            earliest(r, s, m, PIPE_FWD, fwd);
            earliest(r, s, m, PIPE_BWD, bwd);
            for (uint32_t i = 0; i < g->ops; i++) {
                const pipe_time t = pipe_time_of(&r->load, g, s, m, i);
                compute += t.before + t.after;
            }
            const uint64_t turn = fwd[g->send[PIPE_FWD]];
            const uint64_t f = greatest(fwd, g->ops), b = turn + greatest(bwd, g->ops);
            const uint64_t alone = f > b ? f : b;
            out->compute += (double)compute / n;
            out->chain += (double)(turn + bwd[g->send[PIPE_BWD]]) / n;
            out->tail += alone > compute ? (double)(alone - compute) / n : 0;
        }
}

static void bounds(const pipe_run *r, pipe_result *out) {
    const double work = r->microbatches * out->compute;
    const double fill = (r->stages - 1) * out->chain;
    out->bound = work / (work + fill + out->tail);
    out->bound_no_tail = work / (work + fill);
    out->ahead_limit = 1;
    for (uint32_t s = 0; s < r->stages; s++) {
        const uvcc_pipeline at = {s, r->stages, r->microbatches, r->ahead};
        const double limit =
            uvcc_pipeline_window(&at) * out->compute / ((r->stages - s) * out->chain);
        out->ahead_limit = limit < out->ahead_limit ? limit : out->ahead_limit;
    }
}

/* ---- state ---- */

/* Sets of ops of one microbatch in one stage. */
typedef struct pipe_mb {
    uint64_t started, done;
    uint64_t met;     /* done, or read by an op that writes nothing */
    uint64_t came;    /* RECV_PP ops whose neighbour has sent */
    uint64_t ready;   /* not started, and can run but for the limit in flight */
    uint64_t resumed; /* its wait is over, the rest of its compute can run */
    uint64_t bytes;   /* of buffers that live */
} pipe_mb;

typedef struct pipe_wait {
    uint32_t mb, op;
    uint64_t end;
} pipe_wait;

typedef struct pipe_stage {
    uvcc_pipeline at;
    pipe_mb *mb;
    uint32_t window, first, next, flying; /* first: the oldest not done; next: the next to start */
    bool busy, rest;                      /* rest: the part after the wait */
    uint32_t job_mb, job_op;
    uint64_t job_end; /* the first tick after */
    pipe_wait *waits;
    uint32_t wait_count;
    uint64_t bytes;
} pipe_stage;

typedef struct world {
    const pipe_run *r;
    const pipe_graph *g;
    pipe_result *out;
    pipe_stage *stage;
    uint64_t tick, left; /* left: ops to finish */
    size_t doing_cap;
    char *message;
    size_t message_cap;
} world;

static int give_up(const world *w, const char *what, uint32_t s) {
    (void)snprintf(w->message, w->message_cap, "tick %" PRIu64 ", stage %" PRIu32 ": %s", w->tick,
                   s, what);
    return -1;
}

static int no_memory(const world *w) {
    (void)snprintf(w->message, w->message_cap, "out of memory");
    return -1;
}

static pipe_time time_of(const world *w, uint32_t s, uint32_t mb, uint32_t op) {
    return pipe_time_of(&w->r->load, w->g, s, mb, op);
}

static bool is_recv(const pipe_graph *g, uint32_t op) {
    return op == g->recv[PIPE_FWD] || op == g->recv[PIPE_BWD];
}

/* ---- what ends ---- */

static void refresh(const world *w, pipe_mb *m) {
    const pipe_graph *g = w->g;
    uint64_t rest = g->all & ~m->started & ~m->ready;
    while (rest != 0) {
        const uint32_t i = (uint32_t)__builtin_ctzll(rest);
        rest &= rest - 1;
        if ((g->preds[i] & ~m->met) == 0 && (!is_recv(g, i) || (m->came >> i & 1) != 0))
            m->ready |= 1ull << i;
    }
}

static void count_bytes(const world *w, uint32_t s, pipe_mb *m) {
    const pipe_graph *g = w->g;
    pipe_stage *st = &w->stage[s];
    st->bytes -= m->bytes;
    m->bytes = 0;
    for (uint32_t b = 0; b < g->buffers; b++)
        if ((m->started & g->users[b]) != 0 && (m->met & g->users[b]) != g->users[b])
            m->bytes += g->bytes[b];
    st->bytes += m->bytes;
    if (st->bytes > w->out->memory_bytes[s])
        w->out->memory_bytes[s] = st->bytes;
    if (m->bytes > w->out->microbatch_bytes)
        w->out->microbatch_bytes = m->bytes;
}

static void arrive(const world *w, uint32_t s, uint32_t mb, unsigned phase) {
    pipe_mb *m = &w->stage[s].mb[mb];
    m->came |= 1ull << w->g->recv[phase];
    refresh(w, m);
}

/* The op holds up nothing any more. */
static void meet(const world *w, uint32_t s, uint32_t mb, uint32_t op) {
    pipe_mb *m = &w->stage[s].mb[mb];
    m->met |= 1ull << op;
    refresh(w, m);
    count_bytes(w, s, m);
}

static void op_done(world *w, uint32_t s, uint32_t mb, uint32_t op) {
    const pipe_graph *g = w->g;
    pipe_stage *st = &w->stage[s];
    pipe_mb *m = &st->mb[mb];
    m->done |= 1ull << op;
    w->left--;
    meet(w, s, mb, op);
    if (op == g->send[PIPE_FWD] && s + 1 < w->r->stages)
        arrive(w, s + 1, mb, PIPE_FWD);
    else if (op == g->send[PIPE_FWD])
        arrive(w, s, mb, PIPE_BWD); /* the last stage turns around */
    if (op == g->send[PIPE_BWD] && s > 0)
        arrive(w, s - 1, mb, PIPE_BWD);
    if (m->done == g->all)
        st->flying--;
    while (st->first < st->next && st->mb[st->first].done == g->all)
        st->first++;
}

static void slice(const world *w, uint32_t s, uint32_t mb, uint32_t op, bool waits, uint64_t start,
                  uint64_t end) {
    const pipe_slice one = {s, mb, op, waits, start, end};
    if (w->r->slice != NULL)
        w->r->slice(w->r->slice_user, &one);
}

static void end_waits(world *w, uint32_t s) {
    pipe_stage *st = &w->stage[s];
    for (uint32_t i = 0; i < st->wait_count;) {
        const pipe_wait x = st->waits[i];
        if (x.end > w->tick) {
            i++;
            continue;
        }
        st->waits[i] = st->waits[--st->wait_count];
        if (time_of(w, s, x.mb, x.op).after != 0)
            st->mb[x.mb].resumed |= 1ull << x.op;
        else
            op_done(w, s, x.mb, x.op);
    }
}

/* The tick has passed. */
static void end_job(world *w, uint32_t s) {
    pipe_stage *st = &w->stage[s];
    if (!st->busy || st->job_end > w->tick)
        return;
    const uint32_t mb = st->job_mb, op = st->job_op;
    const pipe_time t = time_of(w, s, mb, op);
    st->busy = false;
    if (st->rest || t.wait == 0) {
        op_done(w, s, mb, op);
        return;
    }
    st->waits[st->wait_count++] = (pipe_wait){mb, op, w->tick + t.wait};
    slice(w, s, mb, op, true, w->tick, w->tick + t.wait);
    if ((w->g->readers >> op & 1) != 0)
        meet(w, s, mb, op);
}

/* ---- the choice ---- */

uint64_t pipe_rank_1f1b(void *user, const pipe_graph *g, const uvcc_pipeline *at, uint32_t mb,
                        uint32_t op) {
    (void)user;
    return (uint64_t)uvcc_pipeline_slot(at, g->phase[op], mb) << 16 | g->k[op];
}

static uint64_t rank_of(const world *w, const pipe_stage *st, uint32_t mb, uint32_t op) {
    const pipe_graph *g = w->g;
    if (w->r->rank != NULL)
        return w->r->rank(w->r->rank_user, g, &st->at, mb, op);
    return uvcc_pipeline_rank((g->feeds >> op & 1) != 0, g->phase[op], (uint16_t)mb, g->k[op]);
}

/* Microbatches start in order, as many as may be in flight. */
static bool may_start(const pipe_stage *st, uint32_t mb) {
    return mb < st->next || (mb == st->next && st->flying < st->window);
}

static void start_job(const world *w, uint32_t s, uint32_t mb, uint32_t op) {
    pipe_stage *st = &w->stage[s];
    pipe_mb *m = &st->mb[mb];
    const uint64_t bit = 1ull << op;
    const pipe_time t = time_of(w, s, mb, op);
    st->busy = true;
    st->rest = (m->resumed & bit) != 0;
    st->job_mb = mb;
    st->job_op = op;
    st->job_end = w->tick + (st->rest ? t.after : t.before);
    w->out->busy[s] += st->job_end - w->tick;
    slice(w, s, mb, op, false, w->tick, st->job_end);
    if (mb == st->next) {
        st->next++;
        st->flying++;
        if (st->flying > w->out->in_flight[s])
            w->out->in_flight[s] = st->flying;
    }
    m->ready &= ~bit;
    m->resumed &= ~bit;
    m->started |= bit;
    count_bytes(w, s, m);
}

static void choose(const world *w, uint32_t s) {
    pipe_stage *st = &w->stage[s];
    uint64_t least = UINT64_MAX;
    uint32_t mb = 0, op = 0;
    for (uint32_t i = st->first; i <= st->next && i < w->r->microbatches; i++) {
        uint64_t can = may_start(st, i) ? st->mb[i].ready | st->mb[i].resumed : 0;
        while (can != 0) {
            const uint32_t j = (uint32_t)__builtin_ctzll(can);
            can &= can - 1;
            const uint64_t rank = rank_of(w, st, i, j);
            if (rank < least) {
                least = rank;
                mb = i;
                op = j;
            }
        }
    }
    if (least != UINT64_MAX)
        start_job(w, s, mb, op);
}

/* ---- the invariant ---- */

/* Whether an op can run, from what is done alone. */
static bool can_run(const world *w, uint32_t s, uint32_t mb, uint32_t op) {
    const pipe_graph *g = w->g;
    const pipe_stage *st = &w->stage[s];
    const pipe_mb *m = &st->mb[mb];
    const uint32_t last = w->r->stages - 1;
    const uint64_t bit = 1ull << op;
    if ((m->resumed & bit) != 0)
        return true;
    if ((m->started & bit) != 0)
        return false;
    if (op == g->recv[PIPE_FWD] && s > 0 &&
        (w->stage[s - 1].mb[mb].done >> g->send[PIPE_FWD] & 1) == 0)
        return false;
    if (op == g->recv[PIPE_BWD]) {
        const pipe_mb *from = s == last ? m : &w->stage[s + 1].mb[mb];
        if ((from->done >> g->send[s == last ? PIPE_FWD : PIPE_BWD] & 1) == 0)
            return false;
    }
    for (uint32_t j = 0; j < g->ops; j++) {
        if ((g->preds[op] >> j & 1) == 0 || (m->done >> j & 1) != 0)
            continue;
        bool computes = st->busy && st->job_mb == mb && st->job_op == j;
        if ((g->readers >> j & 1) == 0 || (m->started >> j & 1) == 0 || computes)
            return false;
    }
    return true;
}

static int check(const world *w, uint32_t s) {
    const pipe_stage *st = &w->stage[s];
    uint32_t flying = 0;
    bool first = true; /* that has not started */
    for (uint32_t mb = st->first; mb < w->r->microbatches && first; mb++) {
        const pipe_mb *m = &st->mb[mb];
        first = m->started != 0;
        flying += m->started != 0 && m->done != w->g->all;
        if (st->busy || (!first && flying >= st->window))
            continue;
        for (uint32_t op = 0; op < w->g->ops; op++)
            if (can_run(w, s, mb, op))
                return give_up(w, "compute is idle, and an op in flight can run", s);
    }
    return flying <= st->window ? 0 : give_up(w, "too many microbatches are in flight", s);
}

/* ---- the run ---- */

static int note_doing(world *w) {
    const uint32_t stages = w->r->stages;
    const size_t need = (size_t)(w->tick + 1) * stages;
    if (need > w->doing_cap) {
        const size_t cap = 2 * need + 4096;
        uint8_t *more = realloc(w->out->doing, cap);
        if (more == NULL)
            return no_memory(w);
        w->out->doing = more;
        w->doing_cap = cap;
    }
    for (uint32_t s = 0; s < stages; s++) {
        const pipe_stage *st = &w->stage[s];
        uint8_t what = st->wait_count != 0 ? PIPE_WAITING : PIPE_IDLE;
        if (st->busy)
            what = w->g->phase[st->job_op] == PIPE_FWD ? PIPE_FORWARD : PIPE_BACKWARD;
        w->out->doing[w->tick * stages + s] = what;
    }
    return 0;
}

static int tick(world *w) {
    bool alive = false;
    for (uint32_t s = 0; s < w->r->stages; s++)
        end_waits(w, s);
    if (w->left == 0)
        return 0;
    for (uint32_t s = 0; s < w->r->stages; s++) {
        if (!w->stage[s].busy)
            choose(w, s);
        alive = alive || w->stage[s].busy || w->stage[s].wait_count != 0;
    }
    for (uint32_t s = 0; s < w->r->stages; s++)
        if (check(w, s) != 0)
            return -1;
    if (!alive)
        return give_up(w, "nothing can ever run again", 0);
    if (note_doing(w) != 0)
        return -1;
    w->tick++;
    for (uint32_t s = 0; s < w->r->stages; s++)
        end_job(w, s);
    return 0;
}

static int open_stage(const world *w, uint32_t s) {
    const pipe_run *r = w->r;
    pipe_stage *st = &w->stage[s];
    st->at = (uvcc_pipeline){s, r->stages, r->microbatches, r->ahead};
    st->window = uvcc_pipeline_window(&st->at);
    st->mb = calloc(r->microbatches, sizeof *st->mb);
    st->waits = malloc(((size_t)st->window * w->g->ops + 1) * sizeof *st->waits);
    if (st->window == 0 || st->mb == NULL || st->waits == NULL)
        return no_memory(w);
    for (uint32_t m = 0; m < r->microbatches; m++) {
        if (s == 0)
            st->mb[m].came |= 1ull << w->g->recv[PIPE_FWD];
        refresh(w, &st->mb[m]);
    }
    return 0;
}

int pipe_simulate(const pipe_run *r, pipe_result *out, char *message, size_t cap) {
    world w = {.r = r, .g = r->graph, .out = out, .message = message, .message_cap = cap};
    w.left = (uint64_t)r->stages * r->microbatches * r->graph->ops;
    *out = (pipe_result){0};
    w.stage = calloc(r->stages, sizeof *w.stage);
    int rc = w.stage == NULL ? no_memory(&w) : 0;
    for (uint32_t s = 0; s < r->stages && rc == 0; s++)
        rc = open_stage(&w, s);
    while (rc == 0 && w.left != 0)
        rc = tick(&w);
    for (uint32_t s = 0; w.stage != NULL && s < r->stages; s++) {
        free(w.stage[s].mb);
        free(w.stage[s].waits);
    }
    free(w.stage);
    if (rc != 0) {
        free(out->doing);
        out->doing = NULL;
        return rc;
    }
    out->makespan = w.tick;
    uint64_t busy = 0;
    for (uint32_t s = 0; s < r->stages; s++)
        busy += out->busy[s];
    out->busy_fraction = (double)busy / ((double)out->makespan * r->stages);
    measure_load(r, out);
    bounds(r, out);
    return 0;
}
