/* SPDX-License-Identifier: Apache-2.0 */
/* measure_plan.c - see measure_plan.h. */
#include "measure_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

enum { OTHER_WIDTH_ELEMENTS = 2048, MESSAGE_BYTES = 512 };
static const uint32_t other_widths[] = {1, 2, 3, 17, 1000, 4096};
_Static_assert(MEASURE_WITH + 1 + sizeof other_widths / sizeof other_widths[0] <=
                   MEASURE_ENTRIES_MAX,
               "entries");

const char *const measure_checks[] = {"reference", "definition", "bound"};

/* ---- the program ---- */

uint32_t measure_id(const measure_plan *p, unsigned entry, unsigned i) {
    return 10 * (p->base + entry) + i;
}

static size_t elements(measure_shape s) {
    return (size_t)s.rows * s.cols;
}

static uvcc_nonlinear_options options_of(const measure_plan *r, uint32_t cols) {
    return measure_options(r->job->what, r->job->exact, r->job->plain, cols);
}

static int tensor(measure_plan *r, const char *kind, unsigned number, uvcc_tensor_desc d) {
    char name[32];
    (void)snprintf(name, sizeof name, "%s%u", kind, number);
    d.name = name;
    d.lifetime = UVCC_TRANSIENT;
    d.in_buffer_of = UVCC_NO_TENSOR;
    return uvcc_program_tensor(r->program, &d);
}

static int add_inputs(measure_plan *r, unsigned number) {
    measure_entry *e = &r->entry[number];
    for (unsigned i = 0; i < r->inputs; i++) {
        const measure_shape s = measure_shape_of(r->job->what, i, e->shape);
        const int rc = tensor(r, "x", measure_id(r, number, i),
                              (uvcc_tensor_desc){.rows = s.rows,
                                                 .cols = s.cols,
                                                 .bits = measure_bits(r->job->what, i),
                                                 .scale = MEASURE_SCALE});
        if (rc < 0)
            return rc;
        e->in[i] = (uint32_t)rc;
        const int err =
            uvcc_program_input(r->program, measure_id(r, number, i), e->in[i], (uint8_t)i);
        if (err < 0)
            return err;
    }
    return 0;
}

static int add_outputs(measure_plan *r, unsigned number) {
    for (unsigned i = 0; i < r->outputs; i++) {
        const int rc =
            uvcc_program_output(r->program, measure_id(r, number, i), r->entry[number].out[i]);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* What is opened instead: the input and tensors made of it locally, in the outputs' shapes. */
static int add_without(measure_plan *r, const uvcc_tensor_desc *out) {
    measure_entry *e = &r->entry[MEASURE_WITHOUT];
    const bool row = r->info->form == UVCC_NL_ROW;
    e->out[0] = e->in[0];
    for (unsigned i = row ? 0 : 1; i < r->outputs; i++) {
        uvcc_tensor_desc local = out[i];
        local.bits = 63;
        local.scale = MEASURE_SCALE;
        int rc = tensor(r, "local", measure_id(r, MEASURE_WITHOUT, i), local);
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

static int add_with(measure_plan *r, unsigned number, uvcc_tensor_desc *out) {
    measure_entry *e = &r->entry[number];
    const uvcc_nonlinear_options o = options_of(r, e->shape.cols);
    char prefix[16];
    (void)snprintf(prefix, sizeof prefix, "t%u", r->base + number);
    for (unsigned i = 0; i < r->outputs; i++) {
        const int rc = tensor(r, "y", measure_id(r, number, i), out[i]);
        if (rc < 0)
            return rc;
        e->out[i] = (uint32_t)rc;
    }
    uvcc_emit emit = {.program = r->program, .prefix = prefix, .alloc = &r->al};
    return uvcc_emit_nonlinear(&emit, r->job->what, &o, e->in, e->out);
}

static int add_entry(measure_plan *r, unsigned number) {
    measure_entry *e = &r->entry[number];
    char name[16];
    uvcc_tensor_desc in[MEASURE_INPUTS_MAX], out[MEASURE_OUTPUTS_MAX];
    (void)snprintf(name, sizeof name, "entry%u", r->base + number);
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
    rc = number == MEASURE_WITHOUT ? add_without(r, out) : add_with(r, number, out);
    return rc < 0 ? rc : add_outputs(r, number);
}

/* An entry for each shape. */
int measure_plan_add(measure_plan *p, uvcc_program *program) {
    const bool rows = p->info->form != UVCC_NL_ELEMENT;
    const uint64_t whole = (p->job->inputs + MEASURE_COLS - 1) / MEASURE_COLS;
    const uint32_t batch = MEASURE_BATCH / MEASURE_COLS;
    const measure_shape main = {whole < batch ? (uint32_t)whole : batch, MEASURE_COLS};
    int rc = 0;
    p->program = program;
    p->base = uvcc_program_entry_count(program);
    p->entry[MEASURE_WITHOUT].shape = p->entry[MEASURE_WITH].shape = main;
    p->entries = MEASURE_WITH + 1;
    for (unsigned i = 0; rows && i < sizeof other_widths / sizeof other_widths[0]; i++) {
        const uint32_t cols = other_widths[i], fit = OTHER_WIDTH_ELEMENTS / cols;
        p->entry[p->entries++].shape = (measure_shape){fit > 2 ? fit : 2, cols};
    }
    for (unsigned i = 0; i < p->entries && rc >= 0; i++) {
        rc = add_entry(p, i);
        if (elements(p->entry[i].shape) > p->room)
            p->room = elements(p->entry[i].shape);
    }
    return rc < 0 ? rc : 0;
}

int measure_plan_reference(measure_plan *p) {
    return uvcc_reference_new(&p->reference, p->program, &p->al);
}

uvcc_nonlinear_options measure_plan_options(const measure_plan *p, unsigned entry) {
    return options_of(p, p->entry[entry].shape.cols);
}

/* ---- a plan ---- */

/* The norms are several ops, whose truncations have no plaintext twin with the masks' bits. Masks
 * that lie on a card nobody can read here. */
static measure_check check_of(const measure_job *job) {
    if (job->exact)
        return MEASURE_REFERENCE;
    return job->what == UVCC_NL_RMSNORM || job->what == UVCC_NL_LAYERNORM ||
                   job->run.compute == RUN_COMPUTE_GPU
               ? MEASURE_BOUND
               : MEASURE_DEFINITION;
}

void measure_plan_of(measure_plan *p, const measure_job *job) {
    *p = (measure_plan){.job = job,
                        .info = uvcc_nonlinear_at(job->what),
                        .inputs = job->plain ? 1 : uvcc_nonlinear_at(job->what)->inputs,
                        .al = uvcc_host_allocator(),
                        .random = job->seed,
                        .result = {.check = check_of(job), .secure_equal = true}};
}

void measure_plan_free(measure_plan *p) {
    uvcc_reference_free(p->reference);
    for (unsigned i = 0; i < MEASURE_INPUTS_MAX; i++)
        free(p->in[i]);
    free(p->list);
    free(p->want);
    free(p->bound);
    *p = (measure_plan){.job = p->job};
}

static int failed(const measure_plan *p, const char *what, int rc, const char *why) {
    return report_error(EXIT_FAILED, "%s: %s: %s%s%s", p->info->name, what, uvcc_error_text(rc),
                        *why != '\0' ? ": " : "", why);
}

/* ---- inputs ---- */

uint64_t measure_batches(const measure_plan *p) {
    const size_t size = elements(p->entry[MEASURE_WITH].shape);
    return (p->job->inputs + size - 1) / size;
}

int measure_plan_room(measure_plan *p) {
    const uint64_t total = measure_batches(p) * elements(p->entry[MEASURE_WITH].shape);
    bool ok = true;
    p->result.inputs = total;
    for (unsigned i = 0; i < p->inputs; i++)
        ok = (p->in[i] = calloc(p->room, sizeof *p->in[i])) != NULL && ok;
    p->want = malloc(p->room * sizeof *p->want);
    p->bound = malloc(p->room * sizeof *p->bound);
    if (p->info->form == UVCC_NL_ELEMENT) {
        p->list = malloc(total * sizeof *p->list);
        if (p->list != NULL)
            measure_elements(p->job->what, &p->random, p->list, total);
        ok = ok && p->list != NULL;
    }
    ok = ok && p->want != NULL && p->bound != NULL;
    return ok ? EXIT_DONE : failed(p, "the inputs", UVCC_ERR_NOMEM, "");
}

void measure_plan_fill(measure_plan *p, unsigned entry, uint64_t batch) {
    const measure_shape s = p->entry[entry].shape;
    if (p->list != NULL)
        memcpy(p->in[0], p->list + batch * elements(s), elements(s) * sizeof *p->list);
    else
        measure_rows(p->job->what, &p->random, s, p->in);
    if (entry > MEASURE_WITH)
        p->result.inputs += elements(s);
}

/* ---- comparing ---- */

size_t measure_plan_elements(const measure_plan *p, unsigned entry) {
    const measure_shape s = p->entry[entry].shape;
    return p->info->form == UVCC_NL_ROW ? s.rows : elements(s);
}

int measure_plan_compare(measure_plan *p, unsigned entry, const int64_t *const *opened) {
    const measure_entry *e = &p->entry[entry];
    char message[MESSAGE_BYTES] = "";
    int rc = 0;
    for (unsigned i = 0; i < p->inputs && rc == 0; i++)
        rc = uvcc_reference_set(p->reference, e->in[i], p->in[i]);
    if (rc == 0)
        rc = uvcc_reference_step(p->reference, p->base + entry, message, sizeof message);
    if (rc != 0)
        return failed(p, "the plaintext run", rc, message);
    for (unsigned o = 0; o < p->outputs; o++) {
        const int64_t *plain = uvcc_reference_get(p->reference, e->out[o]);
        const size_t bytes = measure_plan_elements(p, entry) * sizeof *plain;
        p->result.secure_equal &= memcmp(opened[o], plain, bytes) == 0;
    }
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

void measure_plan_errors(measure_plan *r, unsigned number, const int64_t *y) {
    const measure_job *job = r->job;
    const measure_entry *e = &r->entry[number];
    const int scale = uvcc_program_tensor_at(r->program, e->out[0])->scale;
    const bool relative = measure_relative(job->what);
    measure_real(job->what, job->exact, e->shape, r->in, r->want, r->bound);
    for (size_t i = 0; i < measure_plan_elements(r, number); i++) {
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

void measure_plan_finish(measure_plan *p) {
    measure_result *out = &p->result;
    out->mean_error = p->counted != 0 ? p->error_sum / (double)p->counted : 0;
    if (out->check == MEASURE_BOUND)
        out->secure_equal &= out->of_bound <= 1;
}
