/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - see trace.h.
 *
 * Two clocks: slices lie at the time of this computer; the sessions' own time (virtual in the
 * loopback network, where compute takes none) stands in their arguments. A worker is a process of
 * the trace; its tracks are those of compute, and above them one for each op that was in flight at
 * the same time, with its waits inside. Executors' threads call too, so everything is under one
 * lock. */
#include "trace.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/host.h>

#include "overlap.h"
#include "report.h"
#include "tally.h"
#include "tracefile.h"

enum { KINDS_MAX = 512, TRACK_COMPUTE = 1, TRACK_OPS = 1000, WORKS = 4 };
static const char *const work_names[WORKS] = {"", " keys", " hash", " gather"};

/* What one kind of op took. */
typedef struct kind {
    const char *name;
    uint64_t count, waits;
    uint64_t compute_ns[WORKS];
    uint64_t wait_ns, wait_virtual_ns;
    uint64_t exchange_ns; /* jobs of the local plane: until the other workers did their part */
    uint64_t bytes[2];    /* online, of keys */
    uint64_t formula[2];  /* the same, as uvcc_program_cost() has it */
} kind;

typedef struct live_op {
    uint32_t step, op, segment, lane;
    uint64_t begin_ns, begin_virtual, wait_ns, wait_virtual, bytes;
} live_op;

typedef struct live_job {
    uint64_t id, out_ns, begin_ns;
    uint32_t step, kind, lane;
    uint8_t work;
    overlap_part part; /* EXCHANGE from the start, else once it runs */
    uint16_t mb, k;
} live_job;

typedef struct worker {
    trace *of;
    uint32_t process;
    const uvcc_program *program;
    live_op *ops;
    live_job *jobs;
    uint32_t op_count, op_cap, job_count, job_cap;
    trace_lanes compute, flight;
    overlap together;
} worker;

struct trace {
    tracefile *file; /* NULL: none */
    uint64_t start_ns;
    pthread_mutex_t lock;
    bool failed; /* memory ran out: what follows is not kept */
    kind kinds[KINDS_MAX];
    uint32_t kind_count;
    tally *ops;
    uint64_t other_bytes[2];
    worker *workers;
    uint32_t worker_count;
};

/* ---- small things ---- */

static uint64_t now_ns(const trace *t) {
    return uvcc_host_now_ns() - t->start_ns;
}

/* Functions by their own names, other ops by their opcode's. */
static const char *name_of(const uvcc_program *p, const uvcc_op_desc *d) {
    const uvcc_function *f =
        d->opcode == UVCC_OP_FUNCTION ? uvcc_program_function_at(p, d->function) : NULL;
    return f != NULL && f->name != NULL && *f->name != '\0' ? f->name : uvcc_opcode_name(d->opcode);
}

static uint32_t kind_of(trace *t, const uvcc_program *p, const uvcc_op_desc *d) {
    const char *name = name_of(p, d);
    for (uint32_t i = 0; i < t->kind_count; i++)
        if (strcmp(t->kinds[i].name, name) == 0)
            return i;
    if (t->kind_count == KINDS_MAX)
        return KINDS_MAX - 1;
    t->kinds[t->kind_count] = (kind){.name = name};
    return t->kind_count++;
}

/* A lane, and its track the first time. UINT32_MAX: there is no memory. */
static uint32_t take_lane(worker *w, trace_lanes *lanes, uint32_t track, const char *name,
                          uint64_t start) {
    const uint32_t before = lanes->count, lane = trace_lanes_take(lanes, start, UINT64_MAX);
    if (lane == before && w->of->file != NULL)
        tracefile_track(w->of->file, w->process, track + lane, name);
    return lane;
}

/* ---- ops ---- */

static live_op *find_op(worker *w, const uvcc_op_trace *e) {
    for (uint32_t i = w->op_count; i-- > 0;)
        if (w->ops[i].op == e->op && w->ops[i].segment == e->segment && w->ops[i].step == e->step)
            return &w->ops[i];
    return NULL;
}

static void op_begins(worker *w, const uvcc_op_trace *e, uint64_t now) {
    live_op *room = tally_room(w->ops, w->op_count, &w->op_cap, sizeof *room);
    if (room != NULL)
        w->ops = room;
    const uint32_t lane =
        room != NULL ? take_lane(w, &w->flight, TRACK_OPS, "ops in flight", now) : UINT32_MAX;
    if (lane == UINT32_MAX) {
        w->of->failed = true;
        return;
    }
    w->ops[w->op_count++] = (live_op){.step = e->step,
                                      .op = e->op,
                                      .segment = e->segment,
                                      .lane = lane,
                                      .begin_ns = now,
                                      .begin_virtual = e->now};
}

static void op_resumes(worker *w, live_op *o, const uvcc_op_trace *e, uint64_t now) {
    trace *t = w->of;
    kind *k = &t->kinds[kind_of(t, w->program, e->desc)];
    char args[96];
    overlap_end(&w->together, OVERLAP_NETWORK, now);
    k->waits++;
    k->wait_ns += now - o->wait_ns;
    k->wait_virtual_ns += e->now - o->wait_virtual;
    if (t->file == NULL)
        return;
    (void)snprintf(args, sizeof args, "\"turn\": %u, \"virtual_us\": %" PRIu64 ".%03u", e->turn,
                   (e->now - o->wait_virtual) / 1000,
                   (unsigned)((e->now - o->wait_virtual) % 1000));
    tracefile_slice(t->file, w->process, TRACK_OPS + o->lane, "wait", o->wait_ns, now, args);
}

static void op_ends(worker *w, live_op *o, const uvcc_op_trace *e, uint64_t now) {
    static const char *const phases[] = {"FWD", "BWD", "UPD"};
    trace *t = w->of;
    const uint32_t k = kind_of(t, w->program, e->desc);
    char args[256];
    if (e->segment == 0) { /* the op counts once */
        t->kinds[k].count++;
        t->failed |= tally_done(t->ops, w->program, e->entry, e->op) != 0;
    }
    trace_lanes_give(&w->flight, o->lane, now);
    if (t->file != NULL) {
        (void)snprintf(args, sizeof args,
                       "\"step\": %" PRIu32 ", \"phase\": \"%s\", \"mb\": %u, \"k\": %u, "
                       "\"bytes\": %" PRIu64 ", \"virtual_start_us\": %" PRIu64
                       ".%03u, \"virtual_us\": %" PRIu64 ".%03u",
                       e->step, e->desc->phase <= UVCC_UPD ? phases[e->desc->phase] : "?",
                       e->desc->mb, e->desc->k, o->bytes, o->begin_virtual / 1000,
                       (unsigned)(o->begin_virtual % 1000), (e->now - o->begin_virtual) / 1000,
                       (unsigned)((e->now - o->begin_virtual) % 1000));
        tracefile_slice(t->file, w->process, TRACK_OPS + o->lane, t->kinds[k].name, o->begin_ns,
                        now, args);
    }
    *o = w->ops[--w->op_count];
}

/* ---- jobs ---- */

static bool is_collective(const uvcc_op_desc *d) {
    return d->opcode == UVCC_OP_SEND_PP || d->opcode == UVCC_OP_RECV_PP ||
           d->opcode == UVCC_OP_REDUCE_SCATTER || d->opcode == UVCC_OP_ALL_GATHER;
}

static void job_comes(worker *w, const uvcc_op_trace *e, uint64_t now) {
    live_job *room = tally_room(w->jobs, w->job_count, &w->job_cap, sizeof *room);
    if (room == NULL) {
        w->of->failed = true;
        return;
    }
    w->jobs = room;
    w->jobs[w->job_count++] =
        (live_job){.id = e->job,
                   .out_ns = now,
                   .step = e->step,
                   .kind = kind_of(w->of, w->program, e->desc),
                   .work = e->work < WORKS ? e->work : 0,
                   .part = is_collective(e->desc) ? OVERLAP_EXCHANGE : OVERLAP_OTHER,
                   .mb = e->desc->mb,
                   .k = e->desc->k};
    if (is_collective(e->desc))
        overlap_begin(&w->together, OVERLAP_EXCHANGE, now);
}

static live_job *find_job(worker *w, uint64_t id) {
    for (uint32_t i = w->job_count; i-- > 0;)
        if (w->jobs[i].id == id)
            return &w->jobs[i];
    return NULL; /* of no op, such as the setting of weights */
}

static void job_ran(worker *w, live_job *j, uint64_t now) {
    trace *t = w->of;
    kind *k = &t->kinds[j->kind];
    char name[96], args[96];
    k->compute_ns[j->work] += now - j->begin_ns;
    overlap_end(&w->together, j->part, now);
    trace_lanes_give(&w->compute, j->lane, now);
    if (t->file != NULL) {
        (void)snprintf(name, sizeof name, "%s%s", k->name, work_names[j->work]);
        (void)snprintf(args, sizeof args,
                       "\"step\": %" PRIu32 ", \"mb\": %u, \"k\": %u, \"part\": \"%s\"", j->step,
                       j->mb, j->k, overlap_name(j->part));
        tracefile_slice(t->file, w->process, TRACK_COMPUTE + j->lane, name, j->begin_ns, now, args);
    }
    *j = w->jobs[--w->job_count];
}

/* A job that no executor ran, since it is of the local plane. */
static void job_exchanged(worker *w, const uvcc_op_trace *e, uint64_t now) {
    live_job *j = find_job(w, e->job);
    if (j == NULL)
        return;
    if (j->part == OVERLAP_EXCHANGE)
        overlap_end(&w->together, OVERLAP_EXCHANGE, now);
    w->of->kinds[j->kind].exchange_ns += now - j->out_ns;
    *j = w->jobs[--w->job_count];
}

/* ---- hooks ---- */

static void op_sends(worker *w, live_op *o, const uvcc_op_trace *e) {
    trace *t = w->of;
    const bool before = e->work == UVCC_TRACE_KEYS;
    t->kinds[kind_of(t, w->program, e->desc)].bytes[before] += e->bytes;
    t->failed |= tally_sent(t->ops, w->program, e->entry, e->op, before, e->bytes) != 0;
    if (o != NULL && !before)
        o->bytes += e->bytes;
}

/* An op that had nothing to do ends without having begun: one that is not known is passed over. */
static void hear(worker *w, const uvcc_op_trace *e) {
    const uint64_t now = now_ns(w->of);
    live_op *o = find_op(w, e);
    switch (e->kind) {
    case UVCC_TRACE_BEGIN:
        op_begins(w, e, now);
        break;
    case UVCC_TRACE_JOB_OUT:
        job_comes(w, e, now);
        break;
    case UVCC_TRACE_SENT:
        op_sends(w, o, e);
        break;
    case UVCC_TRACE_WAIT:
        if (o != NULL) {
            o->wait_ns = now;
            o->wait_virtual = e->now;
            overlap_begin(&w->together, OVERLAP_NETWORK, now);
        }
        break;
    case UVCC_TRACE_RESUME:
        if (o != NULL)
            op_resumes(w, o, e, now);
        break;
    case UVCC_TRACE_DONE:
        if (o != NULL) /* it had something to do */
            op_ends(w, o, e, now);
        break;
    case UVCC_TRACE_JOB_DONE:
        job_exchanged(w, e, now);
        break;
    default:
        break;
    }
}

static void on_op(void *user, const uvcc_op_trace *e) {
    worker *w = user;
    (void)pthread_mutex_lock(&w->of->lock);
    if (!w->of->failed)
        hear(w, e);
    (void)pthread_mutex_unlock(&w->of->lock);
}

static void on_job(void *user, const uvcc_job *job, bool done) {
    worker *w = user;
    trace *t = w->of;
    (void)pthread_mutex_lock(&t->lock);
    live_job *j = t->failed ? NULL : find_job(w, job->id);
    if (j != NULL && done) {
        job_ran(w, j, now_ns(t));
    } else if (j != NULL) {
        j->begin_ns = now_ns(t);
        j->part = overlap_part_of(job);
        overlap_begin(&w->together, j->part, j->begin_ns);
        j->lane = take_lane(w, &w->compute, TRACK_COMPUTE, "compute", j->begin_ns);
        t->failed = j->lane == UINT32_MAX;
    }
    (void)pthread_mutex_unlock(&t->lock);
}

/* ---- life ---- */

trace *trace_new(const char *path, const uvcc_program *program, uint32_t workers, int *status) {
    trace *t = calloc(1, sizeof *t);
    worker *list = calloc(workers, sizeof *list);
    tally *ops = tally_new();
    *status = EXIT_FAILED;
    if (t == NULL || list == NULL || ops == NULL || pthread_mutex_init(&t->lock, NULL) != 0) {
        (void)report_error(EXIT_FAILED, "out of memory");
        tally_free(ops);
        free(t);
        free(list);
        return NULL;
    }
    t->workers = list;
    t->ops = ops;
    t->worker_count = workers;
    t->start_ns = uvcc_host_now_ns();
    for (uint32_t i = 0; i < workers; i++)
        t->workers[i] = (worker){.of = t, .process = i + 1, .program = program};
    *status = EXIT_DONE;
    if (path == NULL)
        return t;
    t->file = tracefile_open(path, status);
    if (t->file != NULL)
        return t;
    trace_free(t);
    return NULL;
}

void trace_hook(trace *t, uint32_t w, const char *name, uvcc_config *session,
                uvcc_cpu_config *executor) {
    if (session != NULL)
        session->trace = (uvcc_tracer){.op = on_op, .user = &t->workers[w]};
    if (executor != NULL) {
        executor->job = on_job;
        executor->job_user = &t->workers[w];
    }
    if (t->file != NULL && name != NULL)
        tracefile_process(t->file, t->workers[w].process, name);
}

void trace_program(trace *t, uint32_t w, const uvcc_program *program) {
    t->workers[w].program = program;
}

void trace_forget(trace *t, uint32_t w) {
    worker *of = &t->workers[w];
    (void)pthread_mutex_lock(&t->lock);
    const uint64_t now = now_ns(t);
    for (uint32_t i = 0; i < of->op_count; i++)
        trace_lanes_give(&of->flight, of->ops[i].lane, now);
    for (uint32_t i = 0; i < of->job_count; i++)
        if (of->jobs[i].begin_ns != 0)
            trace_lanes_give(&of->compute, of->jobs[i].lane, now);
    of->op_count = of->job_count = 0;
    overlap_stop(&of->together, now);
    (void)pthread_mutex_unlock(&t->lock);
}

void trace_name_parts(trace *t, tally_section name, void *user) {
    tally_name_by(t->ops, name, user);
}

void trace_other_bytes(trace *t, uint64_t online, uint64_t preprocessing) {
    uint64_t of_ops[2] = {0};
    for (uint32_t i = 0; i < t->kind_count; i++)
        for (unsigned b = 0; b < 2; b++)
            of_ops[b] += t->kinds[i].bytes[b];
    t->other_bytes[0] = online - of_ops[0];
    t->other_bytes[1] = preprocessing - of_ops[1];
}

int trace_finish(trace *t, FILE *to) {
    if (t->failed)
        return report_error(EXIT_FAILED, "out of memory for the trace");
    return t->file != NULL ? tracefile_finish(t->file, to) : EXIT_DONE;
}

void trace_free(trace *t) {
    if (t == NULL)
        return;
    for (uint32_t i = 0; i < t->worker_count; i++) {
        worker *w = &t->workers[i];
        free(w->ops);
        free(w->jobs);
        trace_lanes_free(&w->compute);
        trace_lanes_free(&w->flight);
    }
    tally_free(t->ops);
    tracefile_close(t->file);
    (void)pthread_mutex_destroy(&t->lock);
    free(t->workers);
    free(t);
}

/* ---- the profile ---- */

static uint64_t compute_of(const kind *k) {
    uint64_t sum = 0;
    for (unsigned w = 0; w < WORKS; w++)
        sum += k->compute_ns[w];
    return sum;
}

static void add_formula(void *user, const uvcc_program *p, const uvcc_op_desc *d,
                        const uint64_t formula[2]) {
    trace *t = user;
    kind *k = &t->kinds[kind_of(t, p, d)];
    k->formula[0] += formula[0];
    k->formula[1] += formula[1];
}

static int find_formulas(trace *t) {
    for (uint32_t i = 0; i < t->kind_count; i++)
        memset(t->kinds[i].formula, 0, sizeof t->kinds[i].formula);
    return tally_formulas(t->ops, add_formula, t);
}

static uint64_t bytes_of(const kind *k) {
    return k->bytes[0] + k->bytes[1];
}

typedef struct totals {
    uint64_t compute_ns, wait_ns, bytes;
} totals;

static totals total(const trace *t) {
    totals x = {.bytes = t->other_bytes[0] + t->other_bytes[1]};
    for (uint32_t i = 0; i < t->kind_count; i++) {
        x.compute_ns += compute_of(&t->kinds[i]);
        x.wait_ns += t->kinds[i].wait_virtual_ns;
        x.bytes += bytes_of(&t->kinds[i]);
    }
    return x;
}

static double share(uint64_t part, uint64_t whole) {
    return whole != 0 ? (double)part / (double)whole : 0;
}

/* Kinds by compute, the most first; the same by name. */
static int compare(const void *a, const void *b) {
    const kind *x = *(const kind *const *)a, *y = *(const kind *const *)b;
    const uint64_t cx = compute_of(x), cy = compute_of(y);
    return cx != cy ? (cx < cy ? 1 : -1) : strcmp(x->name, y->name);
}

static void sorted(const trace *t, const kind *list[KINDS_MAX]) {
    for (uint32_t i = 0; i < t->kind_count; i++)
        list[i] = &t->kinds[i];
    qsort(list, t->kind_count, sizeof *list, compare);
}

static void print_kind(const kind *k, const totals *all, FILE *to) {
    (void)fprintf(to,
                  "%-20.20s %8" PRIu64 "  %8.3f s %5.1f%%  %8.3f s %5.1f%%  %8" PRIu64
                  "  %9.3f  %9.3f  %9.3f  %9.3f  %5.1f%%\n",
                  k->name, k->count, (double)compute_of(k) * 1e-9,
                  100 * share(compute_of(k), all->compute_ns), (double)k->wait_virtual_ns * 1e-9,
                  100 * share(k->wait_virtual_ns, all->wait_ns), k->waits,
                  (double)k->bytes[0] * 1e-6, (double)k->formula[0] * 1e-6,
                  (double)k->bytes[1] * 1e-6, (double)k->formula[1] * 1e-6,
                  100 * share(bytes_of(k), all->bytes));
}

/* Sums over the sessions, and the ratio of all parts to the time. */
typedef struct together {
    uint64_t busy[OVERLAP_PARTS], parts, wall;
} together;

static together total_together(const trace *t) {
    together x = {0};
    for (uint32_t i = 0; i < t->worker_count; i++) {
        const overlap *o = &t->workers[i].together;
        x.wall += o->last - o->first;
        for (unsigned p = 0; p < OVERLAP_PARTS; p++) {
            x.busy[p] += o->busy[p];
            x.parts += o->busy[p];
        }
    }
    return x;
}

static void print_together(const trace *t, FILE *to) {
    const together x = total_together(t);
    const double each = 1e-9 / (t->worker_count != 0 ? t->worker_count : 1);
    (void)fprintf(to, "%-20s %8s    %6s\n", "in one session", "busy", "of all");
    for (unsigned p = 0; p < OVERLAP_PARTS; p++)
        (void)fprintf(to, "%-20s %8.3f s  %5.1f%%\n", overlap_name((overlap_part)p),
                      (double)x.busy[p] * each, 100 * share(x.busy[p], x.wall));
    (void)fprintf(to, "%-20s %8.3f s, the sum of the parts %.3f s: %.2f of them at a time\n", "all",
                  (double)x.wall * each, (double)x.parts * each, share(x.parts, x.wall));
}

static json_t *together_json(const trace *t) {
    const together x = total_together(t);
    json_t *o = json_object();
    bool ok = o != NULL;
    for (unsigned p = 0; ok && p < OVERLAP_PARTS; p++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%s_s", overlap_name((overlap_part)p));
        ok = json_object_set_new(o, name, json_real((double)x.busy[p] * 1e-9)) == 0;
    }
    if (ok && json_object_set_new(o, "sessions_s", json_real((double)x.wall * 1e-9)) == 0 &&
        json_object_set_new(o, "at_the_same_time", json_real(share(x.parts, x.wall))) == 0)
        return o;
    json_decref(o);
    return NULL;
}

int trace_print(trace *t, FILE *to) {
    const kind *list[KINDS_MAX];
    const totals all = total(t);
    if (find_formulas(t) != 0)
        return report_error(EXIT_FAILED, "out of memory");
    sorted(t, list);
    (void)fprintf(to, "%-20s %8s  %17s  %17s  %8s  %9s  %9s  %9s  %9s  %6s\n", "op", "count",
                  "compute", "wait (virtual)", "waits", "MB online", "formula", "MB keys",
                  "formula", "bytes");
    for (uint32_t i = 0; i < t->kind_count; i++)
        print_kind(list[i], &all, to);
    (void)fprintf(to, "%-20s %8s  %17s  %17s  %8s  %9.3f  %9s  %9.3f  %9s  %5.1f%%\n",
                  "steps, roots", "", "", "", "", (double)t->other_bytes[0] * 1e-6, "",
                  (double)t->other_bytes[1] * 1e-6, "",
                  100 * share(t->other_bytes[0] + t->other_bytes[1], all.bytes));
    print_together(t, to);
    return tally_print(t->ops, all.bytes, to) == 0 ? EXIT_DONE
                                                   : report_error(EXIT_FAILED, "out of memory");
}

static json_t *kind_json(const kind *k, const totals *all) {
    return json_pack(
        "{s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:f}",
        "op", k->name, "count", (json_int_t)k->count, "compute_s", (double)compute_of(k) * 1e-9,
        "compute_share", share(compute_of(k), all->compute_ns), "turns_s",
        (double)k->compute_ns[UVCC_TRACE_TURN] * 1e-9, "keys_s",
        (double)(k->compute_ns[UVCC_TRACE_KEYS] + k->compute_ns[UVCC_TRACE_GATHER]) * 1e-9,
        "hashes_s", (double)k->compute_ns[UVCC_TRACE_HASH] * 1e-9, "wait_s",
        (double)k->wait_ns * 1e-9, "wait_virtual_s", (double)k->wait_virtual_ns * 1e-9,
        "exchange_s", (double)k->exchange_ns * 1e-9, "wait_share",
        share(k->wait_virtual_ns, all->wait_ns), "waits", (json_int_t)k->waits, "bytes_online",
        (json_int_t)k->bytes[0], "formula_online_bytes", (json_int_t)k->formula[0],
        "bytes_preprocessing", (json_int_t)k->bytes[1], "formula_key_bytes",
        (json_int_t)k->formula[1], "bytes_share", share(bytes_of(k), all->bytes));
}

static json_t *kinds_json(const trace *t, const totals *all) {
    const kind *list[KINDS_MAX];
    json_t *out = json_array();
    sorted(t, list);
    for (uint32_t i = 0; i < t->kind_count; i++)
        if (json_array_append_new(out, kind_json(list[i], all)) != 0) {
            json_decref(out);
            return NULL;
        }
    return out;
}

json_t *trace_json(trace *t) {
    const totals all = total(t);
    json_t *out = json_object();
    if (find_formulas(t) == 0 && json_object_set_new(out, "ops", kinds_json(t, &all)) == 0 &&
        json_object_set_new(out, "overlap", together_json(t)) == 0 &&
        tally_json(t->ops, all.bytes, out) == 0)
        return out;
    json_decref(out);
    return NULL;
}
