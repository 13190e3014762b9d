/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.c - see sessions.h.
 *
 * The host loop of all commands drives the sessions; their executors are TIMED, so every worker of
 * every party has one compute resource. Turns of ops in the forward and backward pass cost time,
 * and so do messages; keys dealt ahead, the update and what the parties do before a step are free.
 * The weights are zeros: what a schedule does depends on no value. */
#include "sessions.h"

#include <stdlib.h>
#include <string.h>

#include "../host_loop.h"

#define TICK_NS 1000u

/* One party's worker: what its executor asks, and what its tracer heard. */
typedef struct seat {
    const sessions_run *r;
    const host_worker *w;
    uvcc_pipeline at;
    uint64_t job; /* that was handed out last */
    bool costs;   /* it is a turn of a pass */
    uint8_t phase;
    uint16_t mb, k;
    uint64_t busy_ns, first_ns, last_ns;
    uint64_t jobs;
} seat;

typedef struct measured {
    const sessions_run *r;
    uvcc_transformer_config cfg;
    run_options run;
    host host;
    seat *seats; /* [worker][party] */
    int64_t *rows;
    uint8_t *bytes;
} measured;

/* ---- what a job costs ---- */

static void hear(void *user, const uvcc_op_trace *t) {
    seat *s = user;
    const bool pass = t->work == UVCC_TRACE_TURN && t->desc->phase != UVCC_UPD &&
                      t->desc->opcode != UVCC_OP_INPUT;
    if (t->kind == UVCC_TRACE_JOB_OUT) {
        s->job = t->job;
        s->costs = pass;
        s->phase = t->desc->phase;
        s->mb = t->desc->mb;
        s->k = t->desc->k;
    } else if (pass && t->kind == UVCC_TRACE_DONE && t->now > s->last_ns) {
        s->last_ns = t->now;
    }
}

static uint64_t now_of(void *user) {
    const seat *s = user;
    return uvcc_loopback_now(s->w->net);
}

/* The job was handed out right before, so what the tracer heard last is of it. */
static void cost_of(void *user, const uvcc_job *job, uvcc_cpu_cost *cost) {
    seat *s = user;
    if (job->id != s->job || !s->costs)
        return;
    cost->duration_ns = (uint64_t)s->r->turn_ticks * TICK_NS;
    if (s->r->order == SESSIONS_1F1B)
        cost->rank = (uint64_t)uvcc_pipeline_slot(&s->at, s->phase, s->mb) << 16 | s->k;
    else if (s->r->order == SESSIONS_ARRIVAL)
        cost->rank = 0;
    if (s->jobs == 0)
        s->first_ns = now_of(s);
    s->jobs++;
    s->busy_ns += cost->duration_ns;
}

/* ---- hooks of the host loop ---- */

static int make_program(void *user, const host_worker *w, uvcc_program **out) {
    const measured *m = user;
    const uvcc_allocator al = uvcc_host_allocator();
    const uvcc_transformer_worker at = {w->replica, w->stage, w->tensor_rank};
    char message[256] = "";
    if (uvcc_transformer_program(out, &m->cfg, &at, &al, message, sizeof message) == 0)
        return EXIT_DONE;
    return report_error(EXIT_BAD_INPUT,
                        "%s; give fewer --microbatches or a smaller --dim, --heads or --context",
                        message[0] != 0 ? message : "the program of a stage is too large");
}

static void configure(void *user, const host_worker *w, unsigned party, uvcc_config *cfg,
                      uvcc_cpu_config *cpu) {
    measured *m = user;
    seat *s = &m->seats[w->rank * UVCC_PARTIES + party];
    *s = (seat){.r = m->r, .w = w, .job = UINT64_MAX};
    s->at = (uvcc_pipeline){w->stage, m->r->stages, m->r->microbatches, m->r->ahead};
    cfg->checks.audit_off = true;
    cfg->trace = (uvcc_tracer){hear, s};
    cpu->mode = UVCC_CPU_TIMED;
    cpu->cost = cost_of;
    cpu->clock = now_of;
    cpu->timed_user = s;
}

static int entry_of(void *user, const host_worker *w, uint32_t step) {
    (void)user;
    (void)step;
    return uvcc_program_find_entry(w->program, "train");
}

/* Tokens and targets: a microbatch's rows, any will do. */
static const int64_t *give_input(void *user, const host_worker *w, uint32_t step, uint32_t id) {
    measured *m = user;
    const uvcc_transformer_worker at = {w->replica, w->stage, w->tensor_rank};
    uint32_t first, count;
    (void)step;
    uvcc_transformer_rows(&m->cfg, &at, id & 0xfff, &first, &count);
    for (uint32_t i = 0; i < count; i++)
        m->bytes[i] = (uint8_t)(first + i);
    uvcc_transformer_one_hot(m->bytes, count, m->rows);
    return m->rows;
}

/* ---- a step ---- */

static int set_up(measured *m) {
    const sessions_run *r = m->r;
    const size_t rows = (size_t)r->sizes.context * r->sizes.batch;
    char message[256];
    int rc = uvcc_transformer_default(&m->cfg, sizeof m->cfg);
    if (rc != 0)
        return report_error(EXIT_FAILED, "%s", uvcc_error_text(rc));
    m->cfg.context = r->sizes.context;
    m->cfg.dim = r->sizes.dim;
    m->cfg.heads = r->sizes.heads;
    m->cfg.hidden = r->sizes.hidden;
    m->cfg.layers = m->cfg.stages = r->stages;
    m->cfg.microbatches = r->microbatches;
    m->cfg.batch = r->sizes.batch * r->microbatches;
    m->cfg.ahead = r->ahead;
    m->cfg.replicas = m->cfg.tensor_ranks = 1;
    m->cfg.windows = 0;
    m->cfg.optimizer = UVCC_OPTIMIZER_SGD;
    m->cfg.clip = 0;
    if (uvcc_transformer_check(&m->cfg, message, sizeof message) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    m->run.seed = r->seed;
    m->run.parties = RUN_PARTIES_TURNS; /* for the sake of the network's time */
    m->run.faults.delay_ns =
        r->link_ticks != 0 ? (uint64_t)r->link_ticks * TICK_NS : 1; /* 0 is the network's default */
    m->seats = calloc((size_t)r->stages * UVCC_PARTIES, sizeof *m->seats);
    m->rows = calloc(rows, UVCC_TRANSFORMER_VOCAB * sizeof *m->rows);
    m->bytes = calloc(rows, 1);
    return m->seats == NULL || m->rows == NULL || m->bytes == NULL
               ? report_error(EXIT_FAILED, "out of memory")
               : EXIT_DONE;
}

static int run_step(measured *m) {
    const host_config c = {.command = "pipeline",
                           .run = &m->run,
                           .replicas = 1,
                           .stages = m->r->stages,
                           .tensor_ranks = 1,
                           .of_workers = true,
                           .smaller =
                               "fewer --microbatches or a smaller --dim, --heads or --context",
                           .hooks = {.user = m,
                                     .program = make_program,
                                     .configure = configure,
                                     .entry = entry_of,
                                     .input = give_input}};
    int status = host_open(&m->host, &c);
    if (status == EXIT_DONE)
        status = host_start(&m->host);
    if (status == EXIT_DONE)
        status = host_ready(&m->host);
    return status == EXIT_DONE ? host_run(&m->host, 1, false) : status;
}

static void add_up(const measured *m, sessions_result *out) {
    uint64_t first = UINT64_MAX, last = 0, busy = 0, most = 0;
    const uint32_t seats = m->r->stages * UVCC_PARTIES;
    host_totals totals;
    *out = (sessions_result){0};
    for (uint32_t i = 0; i < seats; i++) {
        const seat *s = &m->seats[i];
        first = s->first_ns < first ? s->first_ns : first;
        last = s->last_ns > last ? s->last_ns : last;
        most = s->busy_ns > most ? s->busy_ns : most;
        busy += s->busy_ns;
        out->jobs += s->jobs;
    }
    out->makespan = (last - first) / TICK_NS;
    out->compute = most / TICK_NS;
    out->busy_fraction = (double)busy / ((double)(last - first) * seats);
    host_totals_of(&m->host, &totals);
    out->bytes = totals.bytes_online + totals.bytes_preprocessing;
}

int sessions_measure(const sessions_run *r, sessions_result *out) {
    measured *m = calloc(1, sizeof *m);
    if (m == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    m->r = r;
    int status = set_up(m);
    if (status == EXIT_DONE) {
        status = run_step(m);
        if (status == EXIT_DONE)
            add_up(m, out);
        if (status == EXIT_DONE)
            status = host_close(&m->host);
        const int end = host_end(&m->host);
        status = status == EXIT_DONE ? end : status;
    }
    free(m->seats);
    free(m->rows);
    free(m->bytes);
    free(m);
    return status;
}
