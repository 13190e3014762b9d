/* SPDX-License-Identifier: Apache-2.0 */
/* world.c - one run: three or six parties until all have closed, and the runs of a seed.
 *
 * First with the faults of the plan (safety), then, from calm_at_ns on, without any (liveness: all
 * steps finish and all sessions close within a bound of simulated time). The checkers never stop.
 * Every input of a party is followed by settling, which takes events, goes on with the work, takes
 * jobs and moves transmits. */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/loopback.h>

#define CLOCK_START  (UINT64_C(86400) * SIM_S)
#define LIVENESS_NS  (60 * SIM_S)
#define TOLD_NS      (5 * SIM_S)
#define QUIET_AFTER  (3 * SIM_S)
#define SEARCH_TIME  (20 * SIM_S) /* a path's packets are searched for, three probes a size */
#define QUIET_NS     (25 * SIM_S)
#define KEEPALIVE_NS (10 * SIM_S)
#define QUIET_TIMES  2u /* jobs that were late have made caches grow */
#define QUIET_SLACK  (256u << 10)
#define INPUTS_MAX   1500000u

/* ---- small things ---- */

uint64_t sim_hash(const void *data, size_t len, uint64_t seed) {
    const uint8_t *p = data;
    uint64_t h = sim_mix(seed + len + UINT64_C(0x9E3779B97F4A7C15));
    for (; len >= 8; p += 8, len -= 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        h = (h ^ v) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 29;
    }
    for (; len > 0; p++, len--)
        h = (h ^ *p) * UINT64_C(0x100000001B3);
    return sim_mix(h);
}

void sim_fail(sim_world *w, const char *format, ...) {
    if (w->out->failed)
        return;
    w->out->failed = true;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(w->out->why, sizeof w->out->why, format, args);
    va_end(args);
}

void sim_trace(sim_world *w, uint64_t a, uint64_t b, uint64_t c) {
    w->trace = sim_mix(w->trace ^ sim_mix(a + sim_mix(b + sim_mix(c + sim_now(w)))));
}

bool sim_strikes(sim_world *w, sim_fault f) {
    bool hit = sim_hit(&w->r[f], w->plan->rate[f]) && sim_on(w, f);
    w->out->injected += hit;
    return hit;
}

bool sim_was_on(const sim_world *w, sim_fault f) {
    return (w->plan->faults & SIM_BIT(f)) != 0;
}

/* A time up to `most`, short ones as likely as long ones. */
uint64_t sim_some_time(sim_random *r, uint64_t least, uint64_t most) {
    unsigned octaves = 0;
    while (least << octaves < most)
        octaves++;
    uint64_t base = least << sim_below(r, octaves + 1u);
    return base + sim_below(r, base);
}

/* ---- the loop ---- */

/* Bytes from a peer. Every second piece of a stream goes straight into place, as far as there is
 * one, as a host with sockets would read it. */
static int feed(sim_party *p, uint8_t peer, const uint8_t *data, size_t len) {
    uint8_t *to;
    size_t room = 0;
    const bool odd = p->frames_in++ % 2 != 0;
    if (odd && !p->w->plan->datagram && len != 0 &&
        uvcc_session_rx_buffer(p->s, peer, &to, &room) == 1) {
        const size_t n = room < len ? room : len;
        memcpy(to, data, n);
        const int rc = uvcc_session_rx_filled(p->s, peer, n, sim_look(p));
        if (rc != 0 || n == len)
            return rc;
        data += n;
        len -= n;
    }
    return uvcc_session_feed(p->s, peer, data, len, sim_look(p));
}

/* Each event is an input of its own and settled before the next one: what fails then is this one's.
 */
static bool deliver(sim_world *w) {
    uvcc_loopback_event ev;
    bool any = false;
    while (!w->out->failed && uvcc_loopback_poll(w->net, &ev) == 1) {
        any = true;
        sim_party *p = &w->party[ev.to];
        uint8_t peer = (uint8_t)(ev.from % 3);
        if (ev.from / 3 != ev.to / 3)
            continue;
        int rc = 0;
        if (ev.kind != UVCC_LOOPBACK_DATA) {
            p->up[peer] = ev.kind == UVCC_LOOPBACK_OPENED;
            p->missed[peer] = false;
            p->relayed[peer] = false;
            p->streams[peer] += p->up[peer];
            sim_wire_reset(w, ev.to, ev.from);
            p->slot[peer].out = false;
        }
        if (p->s == NULL) {
            p->missed[peer] |= ev.kind == UVCC_LOOPBACK_DATA;
            continue;
        }
        sim_before_input(p);
        if (ev.kind == UVCC_LOOPBACK_OPENED) {
            p->reopened++;
            rc = sim_stream_open(p, peer);
        } else if (ev.kind == UVCC_LOOPBACK_CLOSED) {
            rc = uvcc_session_peer_closed(p->s, peer, sim_look(p));
        } else {
            rc = feed(p, peer, ev.data, ev.len);
            if (rc == UVCC_ERR_STREAM_BROKEN) {
                if (w->plan->datagram ||
                    (!sim_was_on(w, SIM_CORRUPT) && !sim_was_on(w, SIM_TRUNCATE) &&
                     !sim_was_on(w, SIM_HOSTILE) && !sim_was_on(w, SIM_ALLOC)))
                    sim_fail(w, "party %u breaks a stream that nobody harmed", p->index);
                (void)uvcc_loopback_disconnect(w->net, ev.from, ev.to);
                rc = 0;
            }
        }
        if (rc != 0)
            sim_fail(w, "party %u: an input from the network says %d", p->index, rc);
        sim_settle(p);
    }
    return any;
}

/* Deaths first: what would come to a party that is dead by now must not be heard. */
static bool party_pass(sim_party *p) {
    sim_world *w = p->w;
    uint64_t now = sim_now(w);
    if (p->dies_at <= now) {
        p->dies_at = UVCC_NEVER;
        sim_die(p);
    }
    if (p->renews && p->closed && p->dies_at == UVCC_NEVER)
        sim_renew(p);
    if (p->rebuild_at <= now) {
        (void)sim_build(p);
        return true;
    }
    if (p->s == NULL)
        return false;
    bool any = sim_jobs_due(p);
    if (any)
        sim_settle(p);
    if (p->s != NULL && p->wake <= now) {
        sim_before_input(p);
        p->timers++;
        int rc = uvcc_session_on_timer(p->s, sim_look(p));
        if (rc != 0)
            sim_fail(w, "party %u: on_timer says %d", p->index, rc);
        sim_settle(p);
        sim_arm(p, true);
        any = true;
    }
    any |= sim_wire_flush(p);
    for (uint32_t q = 0; q < 3; q++) {
        uint32_t to = 3u * p->triangle + q;
        if (w->pipe[p->node][to].drop_at > now)
            continue;
        w->pipe[p->node][to].drop_at = UVCC_NEVER;
        (void)uvcc_loopback_disconnect(w->net, p->node, to);
        any = true;
    }
    if (sim_transmit(p)) {
        sim_settle(p);
        any = true;
    }
    return any;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t next_time(const sim_world *w) {
    uint64_t now = sim_now(w), next = uvcc_loopback_next(w->net);
    next = least(next, least(w->kill_at, least(w->next_clock, least(w->next_cut, w->uncut_at))));
    next = least(next, least(w->next_path, sim_parcels_next(w)));
    if (!w->calm)
        next = least(next, w->plan->calm_at_ns);
    for (uint32_t i = 0; i < w->nodes; i++) {
        const sim_party *p = &w->party[i];
        next = least(next, p->rebuild_at);
        next = least(next, p->dies_at);
        if (p->s == NULL)
            continue;
        next = least(next, least(p->wake, sim_jobs_next(p)));
        for (unsigned q = 0; q < 3; q++) {
            if (p->slot[q].out && p->slot[q].due > now)
                next = least(next, p->slot[q].due);
            next = least(next, w->pipe[i][3u * p->triangle + q].drop_at);
        }
    }
    return next;
}

/* All that happens now, then the clock moves. */
static void turn(sim_world *w) {
    bool moved = true;
    while (moved && !w->out->failed) {
        sim_script(w);
        moved = sim_parcels_due(w);
        moved |= deliver(w);
        for (uint32_t i = 0; i < w->nodes && !w->out->failed; i++)
            moved |= party_pass(&w->party[i]);
        w->out->turns++;
    }
    sim_check_path(w);
    uint64_t next = next_time(w);
    if (next == UVCC_NEVER)
        next = sim_now(w) + SIM_S;
    uvcc_loopback_advance(w->net, next > sim_now(w) ? next : sim_now(w) + 1000);
    uint64_t inputs = 0;
    for (uint32_t i = 0; i < w->nodes; i++)
        inputs += w->party[i].inputs;
    if (inputs > INPUTS_MAX)
        sim_fail(w, "the run takes too many steps");
}

static bool triangle_finished(const sim_world *w, uint32_t triangle) {
    for (uint32_t i = 3 * triangle; i < 3 * triangle + 3; i++)
        if (w->party[i].s == NULL || w->party[i].finished < w->work->steps ||
            w->party[i].rebuild_at != UVCC_NEVER || w->party[i].job_count != 0 ||
            w->party[i].dies_at != UVCC_NEVER || w->party[i].aborted)
            return false;
    return true;
}

static bool all_finished(const sim_world *w) {
    if (w->again != NULL && w->life + 1 < w->again->lives)
        return false;
    for (uint32_t t = 0; t < w->nodes / 3; t++)
        if (!triangle_finished(w, t))
            return false;
    return true;
}

static bool all_closed(const sim_world *w) {
    for (uint32_t i = 0; i < w->nodes; i++)
        if (!w->party[i].closed || w->party[i].renews)
            return false;
    return true;
}

static void run_for(sim_world *w, uint64_t ns) {
    uint64_t end = sim_now(w) + ns;
    while (!w->out->failed && sim_now(w) < end)
        turn(w);
}

/* What a run took for a while it has given back: it holds about what one without faults holds. */
static void check_quiet_memory(sim_world *w) {
    for (uint32_t i = 0; i < 3; i++) {
        uvcc_session_stats st;
        uvcc_session_get_stats(w->party[i].s, &st);
        w->record->memory_quiet[i] = st.memory_bytes;
        if (w->clean != NULL && w->out->restarts == 0 && w->clean->memory_quiet[i] != 0 &&
            st.memory_bytes > QUIET_TIMES * w->clean->memory_quiet[i] + QUIET_SLACK)
            sim_fail(w, "party %u holds %llu bytes with nothing left to do, usually %llu", i,
                     (unsigned long long)st.memory_bytes,
                     (unsigned long long)w->clean->memory_quiet[i]);
    }
}

/* With nothing to send there is no traffic but keep-alives. */
static void check_quiet(sim_world *w) {
    uint64_t before[SIM_NODES][SIM_NODES];
    uint64_t every = w->plan->keepalive_ns != 0 ? w->plan->keepalive_ns : KEEPALIVE_NS;
    if (w->plan->silence_ns != 0 && w->plan->silence_ns / 4 < every)
        every = w->plan->silence_ns / 4;
    run_for(w, (w->plan->faults & SIM_BIT(SIM_PATH)) != 0 ? SEARCH_TIME : QUIET_AFTER);
    for (uint32_t a = 0; a < w->nodes; a++)
        for (uint32_t b = 0; b < w->nodes; b++)
            before[a][b] = w->pipe[a][b].frames;
    run_for(w, QUIET_NS);
    for (uint32_t a = 0; a < w->nodes; a++)
        for (uint32_t b = 0; b < w->nodes; b++)
            if (w->pipe[a][b].frames - before[a][b] >
                2 * (QUIET_NS / every + (every != UVCC_NEVER)))
                sim_fail(w, "%llu frames from %u to %u with nothing to send",
                         (unsigned long long)(w->pipe[a][b].frames - before[a][b]), a, b);
    check_quiet_memory(w);
}

static void close_triangle(sim_world *w, uint32_t triangle) {
    for (uint32_t i = 3 * triangle; i < 3 * triangle + 3; i++) {
        sim_party *p = &w->party[i];
        if (p->s == NULL || p->closing || p->closed)
            continue;
        sim_before_input(p);
        int rc = uvcc_session_close(p->s, sim_look(p));
        if (rc != 0)
            sim_fail(w, "party %u: close says %d", p->index, rc);
        p->closing = true;
        p->close_at = w->calm ? sim_now(w) : 0;
        sim_settle(p);
    }
}

/* Parties that nobody told of an abort learn of it by their hosts. */
static void abort_rest(sim_world *w, uint32_t triangle) {
    bool ready = false;
    sim_party *const first = &w->party[3 * triangle];
    for (uint32_t i = 0; i < 3; i++)
        ready |= first[i].aborted && first[i].ready;
    for (uint32_t i = 0; i < 3; i++) {
        sim_party *p = &first[i];
        if (p->s == NULL || p->aborted || p->closed)
            continue;
        if (ready && p->ready && !sim_was_on(w, SIM_CLOCK_BACK) && !sim_was_on(w, SIM_ALLOC) &&
            !w->lonely)
            sim_fail(w, "party %u was not told of an abort", p->index);
        (void)uvcc_session_abort(p->s, UVCC_ABORT_HOST, sim_look(p));
        sim_settle(p);
    }
}

/* After an abort in one triangle; the other one goes on to its own end. */
static void end_triangle(sim_world *w, uint32_t triangle) {
    if (w->aborts[triangle] == 0 && triangle_finished(w, triangle))
        close_triangle(w, triangle);
    if (w->aborts[triangle] != 0 && w->calm &&
        sim_now(w) > w->plan->calm_at_ns + TOLD_NS + w->back_ns)
        abort_rest(w, triangle);
}

static void run(sim_world *w) {
    bool finished = false;
    uint64_t limit = w->plan->calm_at_ns + LIVENESS_NS;
    while (!w->out->failed && !all_closed(w)) {
        turn(w);
        uint64_t now = sim_now(w);
        if (!finished && w->out->aborts == 0 && all_finished(w)) {
            finished = true;
            if (w->calm && w->back_ns == 0 && w->plan->seed % 4 == 0)
                check_quiet(w);
            if (limit < sim_now(w) + LIVENESS_NS) /* the wait just now was ours */
                limit = sim_now(w) + LIVENESS_NS;
            w->kill_at = UVCC_NEVER;
            for (uint32_t t = 0; t < w->nodes / 3; t++)
                close_triangle(w, t);
        }
        for (uint32_t t = 0; t < w->nodes / 3 && w->out->aborts != 0; t++)
            end_triangle(w, t);
        if (now > limit + w->back_ns)
            sim_fail(
                w,
                "not done %llu s after the faults ended: finished %u %u %u of %u, ready %d %d %d, "
                "closed %d %d %d",
                (unsigned long long)(LIVENESS_NS / SIM_S), w->party[0].finished,
                w->party[1].finished, w->party[2].finished, w->work->steps, w->party[0].ready,
                w->party[1].ready, w->party[2].ready, w->party[0].closed, w->party[1].closed,
                w->party[2].closed);
    }
}

/* ---- the end ---- */

/* The digest of a run is taken while its sessions are there; after a failure nothing is checked
 * that would only hide it. */
static void finish(sim_world *w) {
    uvcc_loopback_stats n;
    uvcc_loopback_get_stats(w->net, &n);
    w->out->injected += n.dropped + n.duplicated + n.reordered + n.corrupted + n.truncated +
                        n.stalls + n.disconnects;
    w->out->virtual_ns = sim_now(w);
    if (!w->out->failed)
        sim_check_spurious(w);
    for (uint32_t i = 0; i < w->nodes; i++) {
        sim_party *p = &w->party[i];
        if (p->s != NULL && !w->out->failed) {
            uint8_t d[32];
            uvcc_session_digest(p->s, d);
            sim_trace(w, 50 + i, sim_hash(d, 32, 0), 0);
            sim_check_end(p);
            sim_check_work(p);
        }
        if (p->triangle == 0 && p->s != NULL) {
            uvcc_session_stats st;
            uvcc_session_get_stats(p->s, &st);
            w->record->memory_peak[i] = st.memory_peak_bytes;
            w->record->allocs[i] = p->mem.calls;
        }
        if (w->out->failed) { /* its memory is evidence of nothing any more */
            sim_jobs_drop(p);
            uvcc_session_free(p->s);
            p->s = NULL;
        } else if (p->s != NULL) {
            sim_bury(p);
        }
        sim_forget(p, NULL);
        free(p->jobs);
        free(p->late);
    }
    w->out->digest = w->trace;
    uvcc_loopback_free(w->net);
    sim_wire_free(w);
}

/* For all parties of all runs: inline executors keep nothing. */
static uvcc_cpu *shared_cpu(void) {
    static uvcc_cpu *cpu;
    if (cpu == NULL) {
        uvcc_cpu_config x = {.size = sizeof x, .alloc = uvcc_host_allocator()};
        if (uvcc_cpu_new(&cpu, &x) != 0)
            abort();
    }
    return cpu;
}

/* What is drawn here comes from the stream of its fault, so that leaving a fault out changes no
 * other. */
static void simulate(const sim_plan *plan, const sim_workload *work, const sim_record *clean,
                     const sim_record *again, sim_record *record, sim_outcome *out, bool verbose) {
    sim_world *w = calloc(1, sizeof *w);
    if (w == NULL)
        abort();
    *w = (sim_world){.plan = plan,
                     .work = work,
                     .clean = clean,
                     .record = record,
                     .again = again,
                     .out = out,
                     .verbose = verbose,
                     .faults = plan->faults,
                     .nodes = 3 * plan->triangles,
                     .compute = sim_stream(plan->seed, SIM_STREAM_COMPUTE),
                     .lone = sim_stream(plan->seed, SIM_STREAM_LONE)};
    uvcc_allocator al = uvcc_host_allocator();
    if (uvcc_loopback_new(&w->net, &al, w->nodes, plan->datagram, plan->seed) != 0 ||
        uvcc_loopback_set_all_faults(w->net, &plan->link) != 0)
        abort();
    for (unsigned f = 0; f < SIM_FAULTS; f++)
        w->r[f] = sim_stream(plan->seed, f);
    for (unsigned a = 0; a < SIM_NODES * SIM_NODES; a++)
        w->pipe[a / SIM_NODES][a % SIM_NODES].drop_at = UVCC_NEVER;
    w->kill_at = w->next_clock = w->next_cut = w->uncut_at = UVCC_NEVER;
    w->next_path = sim_on(w, SIM_PATH) ? plan->path_at_ns : UVCC_NEVER;
    w->cut_to = 1;
    if (sim_on(w, SIM_RESTART))
        sim_first_death(w);
    if (sim_on(w, SIM_CLOCK_AHEAD) || sim_on(w, SIM_CLOCK_STOP) || sim_on(w, SIM_CLOCK_BACK))
        w->next_clock = sim_some_time(&w->compute, SIM_MS, 100 * SIM_MS);
    if (sim_on(w, SIM_CUT))
        w->next_cut = sim_some_time(&w->r[SIM_CUT], SIM_MS, SIM_S);
    for (uint32_t i = 0; i < w->nodes; i++) {
        sim_party *p = &w->party[i];
        *p = (sim_party){.w = w,
                         .node = (uint8_t)i,
                         .index = (uint8_t)(i % 3),
                         .triangle = (uint8_t)(i / 3),
                         .cpu = shared_cpu(),
                         .skew = CLOCK_START + i * 1000003u,
                         .wake = UVCC_NEVER,
                         .rebuild_at = UVCC_NEVER,
                         .dies_at = UVCC_NEVER,
                         .greatest_run = UINT32_MAX,
                         .used_run = UINT32_MAX};
        if (sim_on(w, SIM_ALLOC) && i == plan->alloc_party)
            p->mem.fail_at = plan->alloc_at != 0
                                 ? plan->alloc_at
                                 : 1 + (uint64_t)(plan->alloc_place * (double)clean->allocs[i]);
    }
    for (uint32_t i = 0; i < w->nodes && !out->failed; i++)
        (void)sim_build(&w->party[i]);
    run(w);
    finish(w);
    free(w);
}

/* The restarts of a run once more, without faults: the runs that went ready everywhere, one after
 * the other, from the last that began anew. */
static void lives_that_count(sim_record *r) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->lives; i++) {
        if (r->life[i].ready < 3)
            continue;
        if (r->life[i].base == 0)
            n = 0;
        r->life[n++] = r->life[i];
    }
    r->lives = n;
}

static void compare_roots(const sim_record *a, const sim_record *b, uint32_t steps,
                          sim_outcome *out) {
    for (unsigned p = 0; p < 3; p++)
        for (uint32_t i = 0; i < steps && !out->failed; i++) {
            if (a->output_hash[p][i] == b->output_hash[p][i] &&
                memcmp(a->root[p][i], b->root[p][i], 32) == 0)
                continue;
            out->failed = true;
            (void)snprintf(out->why, sizeof out->why,
                           "party %u: the root or the outputs of step %u are not those of the same "
                           "runs without faults",
                           p, i);
        }
}

static void prefix_why(sim_outcome *out, const char *prefix) {
    char why[sizeof out->why];
    memcpy(why, out->why, sizeof why);
    (void)snprintf(out->why, sizeof out->why, "%s: %.180s", prefix, why);
}

/* First without faults: what a run is compared with, and a bug that needs no fault is told as such.
 */
void sim_seed(const sim_plan *plan, sim_outcome *out, bool verbose) {
    *out = (sim_outcome){.faults = plan->faults};
    sim_workload work;
    if (!sim_workload_draw(&work, plan->seed, out->why, sizeof out->why)) {
        out->failed = true;
        sim_workload_free(&work);
        return;
    }
    out->why[0] = '\0';
    sim_plan still = *plan;
    still.faults = 0;
    still.link = (uvcc_fault_config){0};
    still.calm_at_ns = 1;
    static sim_record clean; /* of the last seed: a sweep has many runs of one */
    static uint64_t clean_seed, clean_digest;
    static bool have_clean;
    sim_record *record = calloc(2, sizeof *record), *again = record + 1;
    if (record == NULL)
        abort();
    if (!have_clean || clean_seed != plan->seed) {
        memset(&clean, 0, sizeof clean);
        simulate(&still, &work, NULL, NULL, &clean, out, false);
        clean_digest = out->digest;
        clean_seed = plan->seed;
        have_clean = !out->failed;
    }
    memcpy(out->allocs, clean.allocs, sizeof out->allocs);
    sim_triples(plan->seed, out);
    if (out->failed) {
        prefix_why(out, "without faults");
    } else {
        out->messages = out->turns = 0;
        simulate(plan, &work, &clean, NULL, record, out, verbose);
        out->digest = sim_mix(out->digest ^ clean_digest);
    }
    lives_that_count(record);
    if (!out->failed && out->restarts != 0 && out->aborts == 0 && out->dropped == 0 &&
        record->lives != 0) {
        sim_outcome o = {.faults = 0};
        still.triangles = 1;
        simulate(&still, &work, NULL, record, again, &o, false);
        if (o.failed) {
            out->failed = true;
            memcpy(out->why, o.why, sizeof out->why);
            prefix_why(out, "the same runs without faults");
        } else {
            compare_roots(record, again, work.steps, out);
        }
    }
    sim_workload_free(&work);
    free(record);
}
