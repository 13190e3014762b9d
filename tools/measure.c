/* SPDX-License-Identifier: Apache-2.0 */
/* measure.c - see measure.h.
 *
 * The program has an entry that only takes and opens tensors of the same shapes, one that runs the
 * function on batches, and for functions of rows one for each of some other widths. A step of the
 * first is subtracted from each step of the second. */
#include "measure.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/uvcc.h>

#include "host_loop.h"
#include "measure_real.h"
#include "report.h"

enum {
    OUTPUTS_MAX = 2,
    OTHER_WIDTH_ELEMENTS = 2048,
    ENTRY_WITHOUT = 0,
    ENTRY_WITH = 1,
    ENTRIES_MAX = 8,
    MESSAGE_BYTES = 512,
};
static const uint32_t other_widths[] = {1, 2, 3, 17, 1000, 4096};
_Static_assert(ENTRY_WITH + 1 + sizeof other_widths / sizeof other_widths[0] <= ENTRIES_MAX,
               "entries");

const char *const measure_checks[] = {"reference", "definition", "bound"};

typedef struct entry {
    measure_shape shape;
    uint32_t in[MEASURE_INPUTS_MAX], out[OUTPUTS_MAX];
} entry;

typedef struct run {
    const measure_job *job;
    const uvcc_nonlinear_info *info;
    run_options options;
    uvcc_allocator al;
    uvcc_program *program; /* the host's */
    uvcc_reference *reference;
    host host;
    entry entry[ENTRIES_MAX];
    unsigned entries, inputs, outputs;
    uint32_t steps;  /* finished by all */
    unsigned number; /* of the entry of the step that is run */
    uint64_t random;
    size_t room;                       /* elements of the largest shape */
    int64_t *list;                     /* all inputs of an element function */
    int64_t *in[MEASURE_INPUTS_MAX];   /* of a step */
    int64_t *defined[OUTPUTS_MAX];     /* what the function gives */
    uint64_t *low[UVCC_FN_INSTRS_MAX]; /* of the steps of the function that round */
    double *want, *bound;
    uvcc_nonlinear_fn fn; /* MEASURE_DEFINITION: of the current entry */
    uint64_t counted;     /* errors */
    double error_sum;
    measure_result result;
} run;

/* ---- the program ---- */

static size_t elements(measure_shape s) {
    return (size_t)s.rows * s.cols;
}

static uvcc_nonlinear_options options_of(const run *r, uint32_t cols) {
    return measure_options(r->job->what, r->job->exact, r->job->plain, cols);
}

static int tensor(run *r, const char *kind, unsigned number, uvcc_tensor_desc d) {
    char name[32];
    (void)snprintf(name, sizeof name, "%s%u", kind, number);
    d.name = name;
    d.lifetime = UVCC_TRANSIENT;
    d.in_buffer_of = UVCC_NO_TENSOR;
    return uvcc_program_tensor(r->program, &d);
}

static int add_inputs(run *r, unsigned number) {
    entry *e = &r->entry[number];
    for (unsigned i = 0; i < r->inputs; i++) {
        const measure_shape s = measure_shape_of(r->job->what, i, e->shape);
        const int rc = tensor(r, "x", 10 * number + i,
                              (uvcc_tensor_desc){.rows = s.rows,
                                                 .cols = s.cols,
                                                 .bits = measure_bits(r->job->what, i),
                                                 .scale = MEASURE_SCALE});
        if (rc < 0)
            return rc;
        e->in[i] = (uint32_t)rc;
        const int err = uvcc_program_input(r->program, 10 * number + i, e->in[i], (uint8_t)i);
        if (err < 0)
            return err;
    }
    return 0;
}

static int add_outputs(run *r, unsigned number) {
    for (unsigned i = 0; i < r->outputs; i++) {
        const int rc = uvcc_program_output(r->program, 10 * number + i, r->entry[number].out[i]);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* What is opened instead: the input and tensors made of it locally, in the outputs' shapes. */
static int add_without(run *r, const uvcc_tensor_desc *out) {
    entry *e = &r->entry[ENTRY_WITHOUT];
    const bool row = r->info->form == UVCC_NL_ROW;
    e->out[0] = e->in[0];
    for (unsigned i = row ? 0 : 1; i < r->outputs; i++) {
        uvcc_tensor_desc local = out[i];
        local.bits = 63;
        local.scale = MEASURE_SCALE;
        int rc = tensor(r, "local", i, local);
        e->out[i] = (uint32_t)rc;
        if (rc >= 0)
            rc = uvcc_program_op(r->program, &(uvcc_op_desc){
                                                 .opcode = row ? UVCC_OP_ROW_SUM : UVCC_OP_ADD,
                                                 .k = (uint16_t)i,
                                                 .in_count = row ? 1 : 2,
                                                 .out_count = 1,
                                                 .in = {e->in[0], row ? 0 : e->in[0]},
                                                 .out = {e->out[i]},
                                             });
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int add_with(run *r, unsigned number, uvcc_tensor_desc *out) {
    entry *e = &r->entry[number];
    const uvcc_nonlinear_options o = options_of(r, e->shape.cols);
    char prefix[16];
    (void)snprintf(prefix, sizeof prefix, "t%u", number);
    for (unsigned i = 0; i < r->outputs; i++) {
        const int rc = tensor(r, "y", 10 * number + i, out[i]);
        if (rc < 0)
            return rc;
        e->out[i] = (uint32_t)rc;
    }
    uvcc_emit emit = {.program = r->program, .prefix = prefix, .alloc = &r->al};
    return uvcc_emit_nonlinear(&emit, r->job->what, &o, e->in, e->out);
}

static int add_entry(run *r, unsigned number) {
    entry *e = &r->entry[number];
    char name[16];
    uvcc_tensor_desc in[MEASURE_INPUTS_MAX], out[OUTPUTS_MAX];
    (void)snprintf(name, sizeof name, "entry%u", number);
    int rc = uvcc_program_entry(r->program, name);
    if (rc >= 0)
        rc = add_inputs(r, number);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < r->inputs; i++)
        in[i] = *uvcc_program_tensor_at(r->program, e->in[i]);
    const uvcc_nonlinear_options o = options_of(r, e->shape.cols);
    rc = uvcc_nonlinear_output(r->job->what, &o, in, out);
    if (rc < 0)
        return rc;
    r->outputs = (unsigned)rc;
    rc = number == ENTRY_WITHOUT ? add_without(r, out) : add_with(r, number, out);
    return rc < 0 ? rc : add_outputs(r, number);
}

/* An entry for each shape, and the plaintext run. */
static int make_program(void *user, const host_worker *w, uvcc_program **out) {
    run *r = user;
    const bool rows = r->info->form != UVCC_NL_ELEMENT;
    const uint64_t whole = (r->job->inputs + MEASURE_COLS - 1) / MEASURE_COLS;
    const uint32_t batch = MEASURE_BATCH / MEASURE_COLS;
    const measure_shape main = {whole < batch ? (uint32_t)whole : batch, MEASURE_COLS};
    char message[MESSAGE_BYTES] = "";
    (void)w;
    r->entry[ENTRY_WITHOUT].shape = r->entry[ENTRY_WITH].shape = main;
    r->entries = ENTRY_WITH + 1;
    for (unsigned i = 0; rows && i < sizeof other_widths / sizeof other_widths[0]; i++) {
        const uint32_t cols = other_widths[i], fit = OTHER_WIDTH_ELEMENTS / cols;
        r->entry[r->entries++].shape = (measure_shape){fit > 2 ? fit : 2, cols};
    }
    int rc = uvcc_program_new(out, &r->al);
    r->program = *out;
    for (unsigned i = 0; i < r->entries && rc >= 0; i++) {
        rc = add_entry(r, i);
        if (elements(r->entry[i].shape) > r->room)
            r->room = elements(r->entry[i].shape);
    }
    if (rc >= 0)
        rc = uvcc_program_finish(r->program, message, sizeof message);
    if (rc >= 0)
        rc = uvcc_reference_new(&r->reference, r->program, &r->al);
    (void)snprintf(r->host.log.line, sizeof r->host.log.line, "%s", message);
    return rc < 0 ? host_failed(&r->host, "the program", rc) : EXIT_DONE;
}

/* ---- sessions ---- */

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
    if (r->result.check != MEASURE_DEFINITION)
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

/* Input i is party i's: see add_inputs(). */
static const int64_t *give_input(void *user, const host_worker *w, uint32_t step, uint32_t id) {
    const run *r = user;
    (void)w;
    (void)step;
    return r->in[id - 10 * r->number];
}

static int start(run *r) {
    r->options =
        (run_options){.seed = r->job->seed, .fault_seed = r->job->seed, .compute = r->job->compute};
    const host_config c = {.command = "nonlinear",
                           .run = &r->options,
                           .replicas = 1,
                           .stages = 1,
                           .tensor_ranks = 1,
                           .about = r->info->name,
                           .hooks = {.user = r,
                                     .program = make_program,
                                     .configure = configure,
                                     .entry = entry_of,
                                     .input = give_input}};
    const int status = host_open(&r->host, &c);
    return status == EXIT_DONE ? host_start(&r->host) : status;
}

/* One step of an entry with r->in. */
static int step(run *r, unsigned number) {
    r->number = number;
    const int status = host_run(&r->host, r->steps + 1, true);
    if (status == EXIT_INTERRUPTED)
        return report_error(status, "%s: interrupted", r->info->name);
    r->steps++;
    return status;
}

/* ---- comparing ---- */

static const int64_t *opened(const run *r, unsigned p, unsigned number, unsigned output) {
    return uvcc_session_output(r->host.worker[0].party[p].session, r->steps - 1,
                               10 * number + output);
}

static size_t output_elements(const run *r, unsigned number) {
    const measure_shape s = r->entry[number].shape;
    return r->info->form == UVCC_NL_ROW ? s.rows : elements(s);
}

/* All parties open the same. */
static bool parties_agree(const run *r, unsigned number) {
    const size_t bytes = output_elements(r, number) * sizeof(int64_t);
    bool same = true;
    for (unsigned o = 0; o < r->outputs; o++) {
        for (unsigned p = 1; p < UVCC_PARTIES; p++)
            same = same && memcmp(opened(r, 0, number, o), opened(r, p, number, o), bytes) == 0;
    }
    return same;
}

static int compare_reference(run *r, unsigned number) {
    const entry *e = &r->entry[number];
    char message[MESSAGE_BYTES] = "";
    int rc = 0;
    for (unsigned i = 0; i < r->inputs && rc == 0; i++)
        rc = uvcc_reference_set(r->reference, e->in[i], r->in[i]);
    if (rc == 0)
        rc = uvcc_reference_step(r->reference, number, message, sizeof message);
    if (rc != 0) {
        (void)snprintf(r->host.log.line, sizeof r->host.log.line, "%s", message);
        return host_failed(&r->host, "the plaintext run", rc);
    }
    for (unsigned o = 0; o < r->outputs; o++) {
        const int64_t *plain = uvcc_reference_get(r->reference, e->out[o]);
        const size_t bytes = output_elements(r, number) * sizeof *plain;
        r->result.secure_equal &= memcmp(opened(r, 0, number, o), plain, bytes) == 0;
    }
    return EXIT_DONE;
}

/* What the function gives with the masks' low bits that the party that deals had. */
static int compare_definition(run *r, unsigned number) {
    const measure_shape s = r->entry[number].shape;
    const size_t count = output_elements(r, number);
    const int64_t *const in[] = {r->in[0]};
    const int rc = uvcc_function_eval(&r->fn.function, s.rows, s.cols, in, r->defined,
                                      (const uint64_t *const *)r->low, &r->al);
    if (rc != 0)
        return host_failed(&r->host, "the function in plaintext", rc);
    for (size_t i = 0; r->job->what == UVCC_NL_CROSS_ENTROPY_GRADIENT && i < count; i++)
        r->defined[0][i] -= r->in[1][i];
    for (unsigned o = 0; o < r->outputs; o++)
        r->result.secure_equal &=
            memcmp(opened(r, 0, number, o), r->defined[o], count * sizeof *r->defined[o]) == 0;
    return EXIT_DONE;
}

static void plot_point(measure_plot *p, double x, double y, double error) {
    const double at =
        p->log ? log(x / p->from) / log(p->to / p->from) : (x - p->from) / (p->to - p->from);
    if (!(at >= 0 && at < 1))
        return;
    struct measure_column *c = &p->column[(unsigned)(at * MEASURE_COLUMNS)];
    if (!c->used) {
        c->x = x;
        c->y = y;
    }
    c->used = true;
    c->error = error > c->error ? error : c->error;
}

static void note_errors(run *r, unsigned number) {
    const measure_job *job = r->job;
    const entry *e = &r->entry[number];
    const int64_t *y = opened(r, 0, number, 0);
    const int scale = uvcc_program_tensor_at(r->program, e->out[0])->scale;
    const bool relative = measure_relative(job->what);
    measure_real(job->what, job->exact, e->shape, r->in, r->want, r->bound);
    for (size_t i = 0; i < output_elements(r, number); i++) {
        if (r->bound[i] < 0)
            continue;
        const double have = ldexp((double)y[i], -scale), want = r->want[i];
        const double error = fabs(have - want) / (relative ? fabs(want) : 1);
        const double part = error == 0 ? 0 : error / r->bound[i];
        measure_result *out = &r->result;
        out->max_error = error > out->max_error ? error : out->max_error;
        out->of_bound = part > out->of_bound ? part : out->of_bound;
        r->error_sum += error;
        r->counted++;
        if (job->plot != NULL)
            plot_point(job->plot,
                       r->info->form == UVCC_NL_ELEMENT ? ldexp((double)r->in[0][i], -MEASURE_SCALE)
                                                        : want,
                       have, error);
    }
}

static int compare(run *r, unsigned number) {
    int status = EXIT_DONE;
    r->result.secure_equal &= parties_agree(r, number);
    if (r->result.check == MEASURE_REFERENCE)
        status = compare_reference(r, number);
    else if (r->result.check == MEASURE_DEFINITION)
        status = compare_definition(r, number);
    note_errors(r, number);
    return status;
}

/* ---- a run ---- */

/* The norms are several ops, whose truncations have no plaintext twin with the masks' bits. */
static measure_check check_of(const measure_job *job) {
    if (job->exact)
        return MEASURE_REFERENCE;
    return job->what == UVCC_NL_RMSNORM || job->what == UVCC_NL_LAYERNORM ? MEASURE_BOUND
                                                                          : MEASURE_DEFINITION;
}

static void free_low(run *r) {
    for (unsigned i = 0; i < UVCC_FN_INSTRS_MAX; i++) {
        free(r->low[i]);
        r->low[i] = NULL;
    }
}

/* The function of an entry, as its op has it, and room for the low bits of its masks: no step that
 * rounds has more columns than the input. */
static int build_function(run *r, unsigned number) {
    if (r->result.check != MEASURE_DEFINITION)
        return EXIT_DONE;
    const bool gradient = r->job->what == UVCC_NL_CROSS_ENTROPY_GRADIENT;
    const uvcc_nonlinear what = gradient ? UVCC_NL_SOFTMAX : r->job->what;
    const uvcc_nonlinear_options o = options_of(r, r->entry[number].shape.cols);
    uvcc_nonlinear_free(&r->fn);
    free_low(r);
    const int rc = uvcc_nonlinear_build(&r->fn, what, &o, &r->al);
    for (unsigned i = 0; rc == 0 && i < r->fn.function.instr_count; i++) {
        if (uvcc_function_low_bits(&r->fn.function.instrs[i]) == 0)
            continue;
        r->low[i] = calloc(r->room, sizeof *r->low[i]);
        if (r->low[i] == NULL)
            return host_failed(&r->host, "the function", UVCC_ERR_NOMEM);
    }
    return rc == 0 ? EXIT_DONE : host_failed(&r->host, "the function", rc);
}

static int make_room(run *r, uint64_t total) {
    bool ok = true;
    for (unsigned i = 0; i < r->inputs; i++)
        ok = (r->in[i] = calloc(r->room, sizeof *r->in[i])) != NULL && ok;
    for (unsigned o = 0; o < r->outputs; o++)
        ok = (r->defined[o] = malloc(r->room * sizeof *r->defined[o])) != NULL && ok;
    r->want = malloc(r->room * sizeof *r->want);
    r->bound = malloc(r->room * sizeof *r->bound);
    if (r->info->form == UVCC_NL_ELEMENT) {
        r->list = malloc(total * sizeof *r->list);
        if (r->list != NULL)
            measure_elements(r->job->what, &r->random, r->list, total);
        ok = ok && r->list != NULL;
    }
    ok = ok && r->want != NULL && r->bound != NULL;
    return ok ? EXIT_DONE : host_failed(&r->host, "the inputs", UVCC_ERR_NOMEM);
}

static void fill(run *r, unsigned number, uint64_t batch) {
    const measure_shape s = r->entry[number].shape;
    if (r->list != NULL)
        memcpy(r->in[0], r->list + batch * elements(s), elements(s) * sizeof *r->list);
    else
        measure_rows(r->job->what, &r->random, s, r->in);
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
    for (unsigned i = ENTRY_WITH + 1; i < r->entries && status == EXIT_DONE; i++) {
        fill(r, i, 0);
        status = build_function(r, i);
        if (status == EXIT_DONE)
            status = step(r, i);
        if (status == EXIT_DONE)
            status = compare(r, i);
        r->result.inputs += elements(r->entry[i].shape);
    }
    return status;
}

static int run_batches(run *r, uint64_t batches, uint64_t *time_ns) {
    const size_t size = elements(r->entry[ENTRY_WITH].shape);
    int status = build_function(r, ENTRY_WITH);
    for (uint64_t i = 0; i < batches && status == EXIT_DONE; i++) {
        fill(r, ENTRY_WITH, i);
        const uint64_t from = uvcc_host_now_ns();
        status = step(r, ENTRY_WITH);
        *time_ns += uvcc_host_now_ns() - from;
        if (status == EXIT_DONE)
            status = compare(r, ENTRY_WITH);
        r->job->progress(r->job->user, (i + 1) * size, batches * size);
    }
    return status;
}

/* Two steps without the function first: the first one carries what only a first step does. */
static int run_all(run *r) {
    const size_t size = elements(r->entry[ENTRY_WITH].shape);
    const uint64_t batches = (r->job->inputs + size - 1) / size;
    uint64_t time_ns = 0;
    int status = make_room(r, batches * size);
    if (status != EXIT_DONE)
        return status;
    r->result.inputs = batches * size;
    traffic at[3] = {{0}}; /* after the handshake, a step without, those with the function */
    fill(r, ENTRY_WITHOUT, 0);
    for (unsigned i = 0; i < 2 && status == EXIT_DONE; i++) {
        status = step(r, ENTRY_WITHOUT);
        at[i] = traffic_of(r);
    }
    if (status == EXIT_DONE)
        status = run_batches(r, batches, &time_ns);
    at[2] = traffic_of(r);
    if (status == EXIT_DONE)
        status = run_widths(r);
    measure_result *out = &r->result;
    const double count = (double)(batches * size);
    out->rounds = per_step(at, batches, offsetof(traffic, rounds));
    out->online_bytes = (double)per_step(at, batches, offsetof(traffic, online)) / (double)size;
    out->key_bytes = (double)per_step(at, batches, offsetof(traffic, keys)) / (double)size;
    out->per_s = count / ((double)time_ns * 1e-9);
    out->mean_error = r->counted != 0 ? r->error_sum / (double)r->counted : 0;
    if (out->check == MEASURE_BOUND)
        out->secure_equal &= out->of_bound <= 1;
    return status;
}

static int end(run *r) {
    uvcc_reference_free(r->reference);
    const int status = host_end(&r->host);
    uvcc_nonlinear_free(&r->fn);
    for (unsigned i = 0; i < MEASURE_INPUTS_MAX; i++)
        free(r->in[i]);
    for (unsigned i = 0; i < OUTPUTS_MAX; i++)
        free(r->defined[i]);
    free_low(r);
    free(r->list);
    free(r->want);
    free(r->bound);
    return status;
}

int measure(const measure_job *job, measure_result *out) {
    run *r = calloc(1, sizeof *r);
    if (r == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    *r = (run){.job = job,
               .info = uvcc_nonlinear_at(job->what),
               .inputs = job->plain ? 1 : uvcc_nonlinear_at(job->what)->inputs,
               .al = uvcc_host_allocator(),
               .random = job->seed,
               .result = {.check = check_of(job), .secure_equal = true}};
    int status = start(r);
    if (status == EXIT_DONE)
        status = run_all(r);
    *out = r->result;
    const int ended = end(r);
    free(r);
    return status != EXIT_DONE ? status : ended;
}
