/* SPDX-License-Identifier: Apache-2.0 */
/* measure.c - see measure.h. */
#include "measure.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/uvcc.h>

#include "host_loop.h"
#include "measure_plan.h"
#include "report.h"

enum { MESSAGE_BYTES = 512 };

typedef struct run {
    const measure_job *job;
    measure_plan plan;
    run_options options;
    host host;
    uint32_t steps;                        /* finished by all */
    unsigned number;                       /* of the entry of the step that is run */
    int64_t *defined[MEASURE_OUTPUTS_MAX]; /* what the function gives */
    uint64_t *low[UVCC_FN_INSTRS_MAX];     /* of the steps of the function that round */
    uvcc_nonlinear_fn fn;                  /* MEASURE_DEFINITION: of the current entry */
} run;

/* ---- sessions ---- */

/* The plan's program, and the plaintext run. */
static int make_program(void *user, const host_worker *w, uvcc_program **out) {
    run *r = user;
    char message[MESSAGE_BYTES] = "";
    (void)w;
    int rc = uvcc_program_new(out, &r->plan.al);
    if (rc >= 0)
        rc = measure_plan_add(&r->plan, *out);
    if (rc >= 0)
        rc = uvcc_program_finish(*out, message, sizeof message);
    if (rc >= 0)
        rc = measure_plan_reference(&r->plan);
    (void)snprintf(r->host.log.line, sizeof r->host.log.line, "%s", message);
    return rc < 0 ? host_failed(&r->host, "the program", rc) : EXIT_DONE;
}

/* The masks that a task of the party that deals reads, of a step that rounds by their low bits. */
static void take_low(const run *r, const uvcc_task *t) {
    const bool reads = t->kind == UVCC_TASK_FN_SHIFT || t->kind == UVCC_TASK_FN_DEAL_TRUNC ||
                       t->kind == UVCC_TASK_FN_DEAL_MULTISCALE;
    if (!reads || t->call >= r->fn.function.instr_count || r->low[t->call] == NULL)
        return;
    const unsigned bits = uvcc_function_low_bits(&r->fn.function.instrs[t->call]);
    for (uint32_t i = 0; i < t->u.vec.count; i++) {
        const uvcc_block *b = &t->u.vec.blocks[i];
        uint64_t *low = r->low[t->call] + (size_t)b->block * UVCC_BLOCK_ELEMS;
        for (uint32_t k = 0; b->role == UVCC_OTHER && k < b->count; k++)
            low[k] = b->in[0][k] & ((1ull << bits) - 1);
    }
}

/* Jobs of different threads deal different elements. */
static void watch(void *user, const uvcc_job *job, bool done) {
    for (uint32_t i = 0; done && i < job->count; i++)
        take_low(user, &job->tasks[i]);
}

static void configure(void *user, const host_worker *w, unsigned party, uvcc_config *session,
                      uvcc_cpu_config *executor) {
    const run *r = user;
    (void)w;
    (void)party;
    (void)session;
    if (r->plan.result.check != MEASURE_DEFINITION)
        return;
    executor->job = watch;
    executor->job_user = user;
}

static int entry_of(void *user, const host_worker *w, uint32_t step) {
    const run *r = user;
    (void)w;
    (void)step;
    return (int)r->number;
}

/* Input i is party i's. */
static const int64_t *give_input(void *user, const host_worker *w, uint32_t step, uint32_t id) {
    const run *r = user;
    (void)w;
    (void)step;
    return r->plan.in[id - measure_id(&r->plan, r->number, 0)];
}

static int start(run *r) {
    r->options = r->job->run;
    r->options.seed = r->options.fault_seed = r->job->seed;
    const host_config c = {.command = "nonlinear",
                           .run = &r->options,
                           .replicas = 1,
                           .stages = 1,
                           .tensor_ranks = 1,
                           .about = r->plan.info->name,
                           .hooks = {.user = r,
                                     .program = make_program,
                                     .configure = configure,
                                     .entry = entry_of,
                                     .input = give_input}};
    const int status = host_open(&r->host, &c);
    return status == EXIT_DONE ? host_start(&r->host) : status;
}

/* One step of an entry with the plan's inputs. */
static int step(run *r, unsigned number) {
    r->number = number;
    const int status = host_run(&r->host, r->steps + 1, true);
    if (status == EXIT_INTERRUPTED)
        return report_error(status, "%s: interrupted", r->plan.info->name);
    r->steps++;
    return status;
}

/* ---- comparing ---- */

static const int64_t *opened(const run *r, unsigned p, unsigned number, unsigned output) {
    return uvcc_session_output(r->host.worker[0].party[p].session, r->steps - 1,
                               measure_id(&r->plan, number, output));
}

/* All parties open the same. */
static bool parties_agree(const run *r, unsigned number) {
    const size_t bytes = measure_plan_elements(&r->plan, number) * sizeof(int64_t);
    bool same = true;
    for (unsigned o = 0; o < r->plan.outputs; o++) {
        for (unsigned p = 1; p < UVCC_PARTIES; p++)
            same = same && memcmp(opened(r, 0, number, o), opened(r, p, number, o), bytes) == 0;
    }
    return same;
}

/* What the function gives with the masks' low bits that the party that deals had. */
static int compare_definition(run *r, unsigned number) {
    measure_plan *plan = &r->plan;
    const measure_shape s = plan->entry[number].shape;
    const size_t count = measure_plan_elements(plan, number);
    const int64_t *const in[] = {plan->in[0]};
    const int rc = uvcc_function_eval(&r->fn.function, s.rows, s.cols, in, r->defined,
                                      (const uint64_t *const *)r->low, &plan->al);
    if (rc != 0)
        return host_failed(&r->host, "the function in plaintext", rc);
    for (size_t i = 0; r->job->what == UVCC_NL_CROSS_ENTROPY_GRADIENT && i < count; i++)
        r->defined[0][i] -= plan->in[1][i];
    for (unsigned o = 0; o < plan->outputs; o++)
        plan->result.secure_equal &=
            memcmp(opened(r, 0, number, o), r->defined[o], count * sizeof *r->defined[o]) == 0;
    return EXIT_DONE;
}

static int compare(run *r, unsigned number) {
    const int64_t *values[MEASURE_OUTPUTS_MAX];
    int status = EXIT_DONE;
    for (unsigned o = 0; o < r->plan.outputs; o++)
        values[o] = opened(r, 0, number, o);
    r->plan.result.secure_equal &= parties_agree(r, number);
    if (r->plan.result.check == MEASURE_REFERENCE)
        status = measure_plan_compare(&r->plan, number, values);
    else if (r->plan.result.check == MEASURE_DEFINITION)
        status = compare_definition(r, number);
    measure_plan_errors(&r->plan, number, values[0]);
    return status;
}

/* ---- a run ---- */

static void free_low(run *r) {
    for (unsigned i = 0; i < UVCC_FN_INSTRS_MAX; i++) {
        free(r->low[i]);
        r->low[i] = NULL;
    }
}

/* The function of an entry, as its op has it, and room for the low bits of its masks: no step that
 * rounds has more columns than the input. */
static int build_function(run *r, unsigned number) {
    if (r->plan.result.check != MEASURE_DEFINITION)
        return EXIT_DONE;
    const bool gradient = r->job->what == UVCC_NL_CROSS_ENTROPY_GRADIENT;
    const uvcc_nonlinear what = gradient ? UVCC_NL_SOFTMAX : r->job->what;
    const uvcc_nonlinear_options o = measure_plan_options(&r->plan, number);
    uvcc_nonlinear_free(&r->fn);
    free_low(r);
    const int rc = uvcc_nonlinear_build(&r->fn, what, &o, &r->plan.al);
    for (unsigned i = 0; rc == 0 && i < r->fn.function.instr_count; i++) {
        if (uvcc_function_low_bits(&r->fn.function.instrs[i]) == 0)
            continue;
        r->low[i] = calloc(r->plan.room, sizeof *r->low[i]);
        if (r->low[i] == NULL)
            return host_failed(&r->host, "the function", UVCC_ERR_NOMEM);
    }
    return rc == 0 ? EXIT_DONE : host_failed(&r->host, "the function", rc);
}

static int make_room(run *r) {
    bool ok = true;
    for (unsigned o = 0; o < r->plan.outputs; o++)
        ok = (r->defined[o] = malloc(r->plan.room * sizeof *r->defined[o])) != NULL && ok;
    return ok ? measure_plan_room(&r->plan) : host_failed(&r->host, "the inputs", UVCC_ERR_NOMEM);
}

/* What the links of all parties carried so far. */
typedef struct traffic {
    uint64_t rounds, online, keys;
} traffic;

static traffic traffic_of(const run *r) {
    host_totals t;
    host_totals_of(&r->host, &t);
    return (traffic){t.rounds, t.bytes_online, t.bytes_preprocessing};
}

/* What a step with the function has more of than one without. */
static uint64_t per_step(const traffic at[3], uint64_t batches, size_t member) {
    uint64_t v[3];
    for (unsigned i = 0; i < 3; i++)
        memcpy(&v[i], (const char *)&at[i] + member, sizeof v[i]);
    return (v[2] - v[1]) / batches - (v[1] - v[0]);
}

static int run_widths(run *r) {
    int status = EXIT_DONE;
    for (unsigned i = MEASURE_WITH + 1; i < r->plan.entries && status == EXIT_DONE; i++) {
        measure_plan_fill(&r->plan, i, 0);
        status = build_function(r, i);
        if (status == EXIT_DONE)
            status = step(r, i);
        if (status == EXIT_DONE)
            status = compare(r, i);
    }
    return status;
}

static int run_batches(run *r, uint64_t batches, uint64_t size, uint64_t *time_ns) {
    int status = build_function(r, MEASURE_WITH);
    for (uint64_t i = 0; i < batches && status == EXIT_DONE; i++) {
        measure_plan_fill(&r->plan, MEASURE_WITH, i);
        const uint64_t from = uvcc_host_now_ns();
        status = step(r, MEASURE_WITH);
        *time_ns += uvcc_host_now_ns() - from;
        if (status == EXIT_DONE)
            status = compare(r, MEASURE_WITH);
        r->job->progress(r->job->user, (i + 1) * size, batches * size);
    }
    return status;
}

static int run_all(run *r) {
    const measure_shape s = r->plan.entry[MEASURE_WITH].shape;
    const uint64_t batches = measure_batches(&r->plan), size = (uint64_t)s.rows * s.cols;
    uint64_t time_ns = 0;
    int status = make_room(r);
    if (status != EXIT_DONE)
        return status;
    traffic at[3] = {{0}}; /* after the handshake, a step without, those with the function */
    measure_plan_fill(&r->plan, MEASURE_WITHOUT, 0);
    for (unsigned i = 0; i < MEASURE_WITHOUT_STEPS && status == EXIT_DONE; i++) {
        status = step(r, MEASURE_WITHOUT);
        at[i] = traffic_of(r);
    }
    if (status == EXIT_DONE)
        status = run_batches(r, batches, size, &time_ns);
    at[2] = traffic_of(r);
    if (status == EXIT_DONE)
        status = run_widths(r);
    measure_result *out = &r->plan.result;
    out->rounds = per_step(at, batches, offsetof(traffic, rounds));
    out->online_bytes = (double)per_step(at, batches, offsetof(traffic, online)) / (double)size;
    out->key_bytes = (double)per_step(at, batches, offsetof(traffic, keys)) / (double)size;
    out->per_s = (double)(batches * size) / ((double)time_ns * 1e-9);
    measure_plan_finish(&r->plan);
    return status;
}

static int end(run *r) {
    uvcc_reference_free(r->plan.reference); /* it reads the host's program */
    r->plan.reference = NULL;
    const int status = host_end(&r->host);
    uvcc_nonlinear_free(&r->fn);
    for (unsigned i = 0; i < MEASURE_OUTPUTS_MAX; i++)
        free(r->defined[i]);
    free_low(r);
    measure_plan_free(&r->plan);
    return status;
}

int measure(const measure_job *job, measure_result *out) {
    run *r = calloc(1, sizeof *r);
    if (r == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    r->job = job;
    measure_plan_of(&r->plan, job);
    int status = start(r);
    if (status == EXIT_DONE)
        status = run_all(r);
    *out = r->plan.result;
    const int ended = end(r);
    free(r);
    return status != EXIT_DONE ? status : ended;
}
