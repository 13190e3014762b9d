/* SPDX-License-Identifier: Apache-2.0 */
/* work_infer.c - a pretrained transformer between parties: one has the weights, another the input,
 * and the answer opens to whom job.run says. All three have config.json and the numbers of the
 * pass, which make the program. First the owner of the weights gives them, in steps of some each;
 * then comes the step that answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../atomic_file.h"
#include "../flags_json.h"
#include "../report.h"
#include "pass.h"
#include "work.h"
#include "work_util.h"

enum { MESSAGE_BYTES = 512 };

typedef struct infer_data {
    const char *model, *shares, *input, *text, *ids;
} infer_data;

typedef struct infer_work {
    work_config c;
    pass v;
    char *input, *output; /* paths; NULL: not given */
} infer_work;

static const flag run_members[] = {
    PASS_FLAGS,
    PASS_FLAG("input-owner", NULL, FLAG_COUNT, input_owner, 0, UVCC_PARTIES - 1, NULL),
    PASS_FLAG("to", "owner|all|0|1|2", FLAG_TEXT, to, 0, 0, NULL),
};
static const flag data_members[] = {
    {"model", "a directory", FLAG_TEXT, offsetof(infer_data, model), 0, 0, NULL, NULL},
    {"shares", "a file", FLAG_TEXT, offsetof(infer_data, shares), 0, 0, NULL, NULL},
    {"input", "a file", FLAG_TEXT, offsetof(infer_data, input), 0, 0, NULL, NULL},
    {"text", "a text", FLAG_TEXT, offsetof(infer_data, text), 0, 0, NULL, NULL},
    {"ids", "tokens", FLAG_TEXT, offsetof(infer_data, ids), 0, 0, NULL, NULL},
};
static const flag_set run_set = {.flags = run_members,
                                 .count = sizeof run_members / sizeof run_members[0]};
static const flag_set data_set = {.flags = data_members,
                                  .count = sizeof data_members / sizeof data_members[0]};

static int bad(const infer_work *v, const char *why) {
    return report_error(EXIT_BAD_INPUT, "%s: %s", v->c.file, why);
}

static int no_memory(void) {
    return report_error(EXIT_FAILED, "out of memory");
}

static bool has_input(const infer_work *v) {
    return v->c.party == v->v.run.input_owner;
}

static bool learns(const infer_work *v) {
    return v->v.o.receiver == UVCC_TO_ALL || v->v.o.receiver == v->c.party;
}

/* ---- what is told ---- */

/* Public tables are the input's owner's to look into. */
static int read_run(infer_work *v) {
    const int status = pass_read_run(&v->v, v->c.file, "job.run", v->c.run, &run_set);
    if (status != EXIT_DONE)
        return status;
    v->v.run.pass.takes = pass_is_public(&v->v) ? TAKES_HIDDEN : TAKES_TOKENS;
    if (!pass_is_public(&v->v) && v->v.run.weights_owner == v->v.run.input_owner)
        return bad(v, "job.run.weights_owner: owns the input too; it can run the model alone");
    return work_alone(&v->c, "infers");
}

static int read_input(infer_work *v) {
    char place[MESSAGE_BYTES];
    (void)snprintf(place, sizeof place, "%s: data", v->c.file);
    const int status = pass_read_input(&v->v, place);
    if (status == EXIT_DONE && v->v.f.p.in.sequences != v->v.run.pass.sequences)
        return report_error(EXIT_BAD_INPUT,
                            "%s: has %u sequences, but job.run.sequences is %u; all three parties "
                            "give the same",
                            place, v->v.f.p.in.sequences, v->v.run.pass.sequences);
    return status;
}

/* Each party has its own, and no other's. */
static int read_data(infer_work *v) {
    char text[MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    infer_data d = {0};
    if (flags_take_json(&data_set, NULL, NULL, &d, v->c.data, "data", &m) != 0)
        return bad(v, text);
    const int given = (d.input != NULL) + (d.text != NULL) + (d.ids != NULL);
    if (given != (int)has_input(v))
        return bad(v, !has_input(v) ? "data: the input is another party's (job.run.input_owner); "
                                      "take it away"
                                    : "data: give one of input, text and ids");
    int status = pass_read_weights(&v->v, &v->c, d.model, d.shares);
    if (status == EXIT_DONE)
        status = work_take_path(&v->c, d.input, &v->input);
    v->v.o.model = v->v.model;
    v->v.o.input = v->input;
    v->v.o.text = d.text;
    v->v.o.ids = d.ids;
    if (status == EXIT_DONE && has_input(v))
        status = read_input(v);
    return status;
}

static int read_output(infer_work *v) {
    static const char *const members[] = {"answer", NULL};
    const int status = work_output(&v->c, members, "answer", &v->output);
    if (status != EXIT_DONE || v->output == NULL)
        return status;
    if (!learns(v))
        return bad(v, "output.answer: the answer opens to another party alone (job.run.to); leave "
                      "it out");
    v->v.o.output = v->output;
    return atomic_file_check("output.answer", v->output);
}

static void infer_close(void *work) {
    infer_work *v = work;
    pass_free(&v->v);
    free(v->input);
    free(v->output);
    free(v);
}

static int infer_open(void **work, const work_config *c) {
    infer_work *v = calloc(1, sizeof *v);
    if (v == NULL)
        return no_memory();
    v->c = *c;
    int status = read_run(v);
    if (status == EXIT_DONE)
        status = pass_describe(&v->v);
    if (status == EXIT_DONE)
        status = read_output(v);
    if (status == EXIT_DONE)
        status = read_data(v);
    if (status == EXIT_DONE)
        *work = v;
    else
        infer_close(v);
    return status;
}

/* ---- what is computed ---- */

/* Entries for the steps that give weights, and the pass; or the pass a layer at a time. */
static int add_entries(const pass *v, uvcc_program *p, uint32_t *tensors, char *why, size_t cap) {
    const uvcc_model_config *c = &v->f.p.config;
    const uvcc_allocator al = uvcc_host_allocator();
    const uint8_t owner = (uint8_t)v->run.input_owner, to = v->o.receiver;
    if (pass_streams(v))
        return uvcc_model_forward_streamed(c, p, owner, to, tensors, &al, why, cap);
    const int rc = pass_add_weights(v, p, tensors, why, cap);
    return rc != 0 ? rc
                   : uvcc_model_forward(c, p, tensors, owner, to, UVCC_TRANSIENT, &al, why, cap);
}

static int make_program(void *work, const work_worker *w, uvcc_program **out) {
    infer_work *v = work;
    (void)w;
    return pass_program(&v->v, out, add_entries);
}

static uint32_t weight_steps(const infer_work *v) {
    return pass_weight_steps(&v->v);
}

static uint32_t count_steps(const void *work) {
    const infer_work *v = work;
    return pass_streams(&v->v) ? pass_streamed_steps(&v->v) : weight_steps(v) + 1;
}

/* What is set before a step is not there while the one before it runs. */
static uint32_t entry_of(const void *work, const work_worker *w, uint32_t step, const char **name,
                         bool *ahead) {
    const infer_work *v = work;
    const bool gives_weights = step < weight_steps(v);
    if (pass_streams(&v->v)) {
        *name = pass_streamed_entry(&v->v, step);
        *ahead = false;
        return (uint32_t)uvcc_program_find_entry(w->program, *name);
    }
    *name = gives_weights ? "weights" : "forward";
    *ahead = true;
    return gives_weights ? pass_weight_entry(w->program, step)
                         : (uint32_t)uvcc_program_find_entry(w->program, "forward");
}

static int prepare(void *work, const work_worker *w, uvcc_session *s, uint32_t step) {
    infer_work *v = work;
    return pass_streams(&v->v) ? pass_set_streamed(&v->v, w, s, step) : EXIT_DONE;
}

/* Secret weights come by the first steps. */
static int first_values(void *work, const work_worker *w, uvcc_session *s) {
    infer_work *v = work;
    return pass_set_weights(&v->v, w, s);
}

static uint64_t agree(const void *work, const char **name) {
    const infer_work *v = work;
    return pass_agree(&v->v, name);
}

static int share(void *work, const char *dir) {
    infer_work *v = work;
    return pass_share(&v->v, &v->c, dir);
}

static const int64_t *give_input(void *work, const work_worker *w, uint32_t step, uint32_t id) {
    infer_work *v = work;
    (void)w;
    (void)step;
    if (id >= PASS_IN_WEIGHT)
        return pass_weight(&v->v, id);
    return id == UVCC_MODEL_IN_PADDING ? v->v.f.p.in.padding : v->v.f.x;
}

/* ---- what is opened ---- */

static int finished(void *work, const work_worker *w, uvcc_session *s, uint32_t step,
                    char text[64]) {
    infer_work *v = work;
    (void)w;
    text[0] = '\0';
    if (step + 1 < count_steps(v))
        return EXIT_DONE;
    const int64_t *opened = uvcc_session_output(s, step, UVCC_MODEL_OUT_Y);
    if (!learns(v))
        return opened == NULL ? EXIT_DONE : report_error(EXIT_FAILED, "the answer opened here too");
    if (opened == NULL)
        return report_error(EXIT_FAILED, "the answer is not open");
    const int status = infer_take_answer(&v->v.f, opened);
    if (status == EXIT_DONE)
        infer_name_first(&v->v.f, text, 64);
    return status;
}

/* The answer as it was opened. */
static int part(void *work, uint8_t **bytes, size_t *len) {
    const infer_work *v = work;
    const infer_answer *a = &v->v.f.answer;
    work_bytes out = {0};
    for (size_t i = 0; a->opened != NULL && i < a->rows * a->cols; i++)
        work_put_u64(&out, (uint64_t)a->opened[i]);
    *bytes = out.at;
    *len = out.len;
    return out.failed ? no_memory() : EXIT_DONE;
}

static int write_answer(const infer_work *v) {
    int status = EXIT_DONE;
    atomic_file *a = atomic_file_open_own("output.answer", v->output, &status);
    if (a != NULL)
        status = infer_write(&v->v.f, a);
    atomic_file_close(a);
    return status;
}

static int merge(void *work, const uint8_t *const *parts, const size_t *len, size_t count,
                 json_t *result) {
    infer_work *v = work;
    (void)parts;
    (void)len;
    (void)count; /* one worker, whose answer is here */
    const bool has = v->v.f.answer.opened != NULL;
    int bad_memory =
        json_object_set_new(result, "gives", json_string(model_gives_names[v->v.run.pass.gives]));
    bad_memory |= json_object_set_new(result, "top", has ? infer_tops(&v->v.f) : json_null());
    if (bad_memory != 0)
        return no_memory();
    return has && v->output != NULL ? write_answer(v) : EXIT_DONE;
}

const work_kind work_infer = {.name = "infer",
                              .open = infer_open,
                              .close = infer_close,
                              .program = make_program,
                              .steps = count_steps,
                              .entry = entry_of,
                              .prepare = prepare,
                              .first_values = first_values,
                              .input = give_input,
                              .own_text = true,
                              .finished = finished,
                              .part = part,
                              .merge = merge,
                              .agree = agree,
                              .share = share};
