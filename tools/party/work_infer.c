/* SPDX-License-Identifier: Apache-2.0 */
/* work_infer.c - a pretrained transformer between parties: one has the weights, another the input,
 * and the answer opens to whom job.run says. All three have config.json and the numbers of the
 * pass, which make the program. First the owner of the weights gives them, in steps of some each;
 * then comes the step that answers. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../atomic_file.h"
#include "../flags_json.h"
#include "../infer/infer.h"
#include "../report.h"
#include "work.h"
#include "work_util.h"

enum { MESSAGE_BYTES = 512, WEIGHTS_OF_A_STEP = 128, IN_WEIGHT = 100 };

/* job.run */
typedef struct pass_run {
    uint32_t sequences, tokens, gives, mode;
    bool padding, fold;
    uint32_t frac_bits, value_bits, weight_bits, inner_bits;
    uint32_t weights_owner, input_owner;
    const char *to;
} pass_run;

typedef struct infer_data {
    const char *model, *input, *text, *ids;
} infer_data;

typedef struct infer_work {
    work_config c;
    pass_run run;
    infer_options o;
    infer f; /* of it: the checkpoint (its owner's), the input (its owner's), the answer */
    char *model, *input, *output; /* paths; NULL: not given */
    int64_t *weight;              /* room for the largest, and for its real numbers */
    double *real;
} infer_work;

static const char *const gives[] = {"hidden", "logits", "last", "pooled", "labels", NULL};
static const char *const modes[] = {"fast", "exact", "exact-dcf", NULL};

#define AT(member) offsetof(pass_run, member)
static const flag run_members[] = {
    {"sequences", NULL, FLAG_COUNT, AT(sequences), 1, 65536, NULL, NULL},
    {"tokens", NULL, FLAG_COUNT, AT(tokens), 1, 65536, NULL, NULL},
    {"padding", NULL, FLAG_SWITCH, AT(padding), 0, 0, NULL, NULL},
    {"fold", NULL, FLAG_SWITCH, AT(fold), 0, 0, NULL, NULL},
    {"gives", "hidden|logits|last|pooled|labels", FLAG_CHOICE, AT(gives), 0, 0, gives, NULL},
    {"mode", "fast|exact|exact-dcf", FLAG_CHOICE, AT(mode), 0, 0, modes, NULL},
    {"frac-bits", NULL, FLAG_COUNT, AT(frac_bits), 12, 20, NULL, NULL},
    {"value-bits", NULL, FLAG_COUNT, AT(value_bits), 1, 12, NULL, NULL},
    {"weight-bits", NULL, FLAG_COUNT, AT(weight_bits), 1, 16, NULL, NULL},
    {"inner-bits", NULL, FLAG_COUNT, AT(inner_bits), 1, 12, NULL, NULL},
    {"weights-owner", NULL, FLAG_COUNT, AT(weights_owner), 0, UVCC_PARTIES - 1, NULL, NULL},
    {"input-owner", NULL, FLAG_COUNT, AT(input_owner), 0, UVCC_PARTIES - 1, NULL, NULL},
    {"to", "owner|all|0|1|2", FLAG_TEXT, AT(to), 0, 0, NULL, NULL},
};
#undef AT
static const flag data_members[] = {
    {"model", "a directory", FLAG_TEXT, offsetof(infer_data, model), 0, 0, NULL, NULL},
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

static bool has_weights(const infer_work *v) {
    return v->c.party == v->run.weights_owner;
}

static bool has_input(const infer_work *v) {
    return v->c.party == v->run.input_owner;
}

static bool learns(const infer_work *v) {
    return v->o.receiver == UVCC_TO_ALL || v->o.receiver == v->c.party;
}

/* ---- what is told ---- */

static int check_run(const infer_work *v) {
    static const char none[] = "is missing; `uvcc infer` says what a model needs";
    const struct {
        const char *name;
        bool missing;
    } needed[] = {{"model", json_object_get(v->c.run, "model") == NULL},
                  {"tokens", v->run.tokens == 0},
                  {"gives", v->run.gives == GIVES_USUAL},
                  {"value_bits", v->run.value_bits == 0},
                  {"inner_bits", v->run.inner_bits == 0}};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (needed[i].missing)
            return report_error(EXIT_BAD_INPUT, "%s: job.run.%s %s", v->c.file, needed[i].name,
                                none);
    if (v->run.weights_owner == v->run.input_owner)
        return bad(v, "job.run.weights_owner: owns the input too; it can run the model alone");
    if (v->c.replicas * v->c.stages * v->c.tensor_ranks != 1 || v->c.microbatches != 1)
        return bad(v, "job: a job that infers has one worker for each party; replicas, stages, "
                      "tensor_ranks and microbatches are 1");
    if (v->c.sks != 0)
        return bad(v, "job.sks: a job that infers has no checks of its products; give 0");
    return EXIT_DONE;
}

static int read_run(infer_work *v) {
    static const char *const more[] = {"kind", "model", NULL};
    char text[MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    v->run = (pass_run){.sequences = 1,
                        .gives = GIVES_USUAL,
                        .frac_bits = 16,
                        .weight_bits = 4,
                        .weights_owner = 1};
    if (flags_take_json(&run_set, NULL, more, &v->run, v->c.run, "job.run", &m) != 0)
        return bad(v, text);
    const int status = check_run(v);
    if (status != EXIT_DONE)
        return status;
    v->o = (infer_options){.to = v->run.to,
                           .gives = v->run.gives,
                           .mode = v->run.mode,
                           .weights_owner = v->run.weights_owner,
                           .input_owner = v->run.input_owner};
    if (infer_take_receiver(&v->o, &m) == 0)
        return EXIT_DONE;
    flags_json_words("job.run", NULL, &m);
    return bad(v, text);
}

/* The program's description, of job.run alone: the same at all three. */
static int describe(infer_work *v) {
    loaded *l = &v->f.l;
    char text[MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    l->from.config = json_incref(json_object_get(v->c.run, "model"));
    if (description_read(&l->d, l->from.config, "job.run.model", &m) != 0)
        return bad(v, text);
    if (l->d.unknown[0] != '\0')
        return report_error(EXIT_BAD_INPUT,
                            "%s: job.run.model: %s: not known here; take away what changes nothing "
                            "of the forward pass, here and in the model's config.json",
                            v->c.file, l->d.unknown);
    l->pass = (model_pass){.sequences = v->run.sequences,
                           .tokens = v->run.tokens,
                           .frac_bits = v->run.frac_bits,
                           .value_bits = v->run.value_bits,
                           .weight_bits = v->run.weight_bits,
                           .inner_bits = v->run.inner_bits,
                           .padding = v->run.padding,
                           .fold = v->run.fold,
                           .takes = TAKES_TOKENS,
                           .gives = (uint8_t)v->run.gives,
                           .mode = (uint8_t)v->run.mode};
    v->f.p.d = l->d;
    if (description_config(&l->d, &l->pass, &v->f.p.config, l->refused, sizeof l->refused) != 0)
        return report_error(EXIT_BAD_INPUT, "%s: job.run: %s", v->c.file, l->refused);
    v->f.p.shape = v->f.p.config;
    l->w = (weights){.d = &l->d, .shape = v->f.p.shape};
    return EXIT_DONE;
}

/* The checkpoint, which must be the job's. Its bits are looked at once. */
static int read_model(infer_work *v) {
    const model_options asked = {.word = {"infer", v->model},
                                 .sequences = v->run.sequences,
                                 .frac_bits = v->run.frac_bits,
                                 .value_bits = v->run.value_bits,
                                 .weight_bits = v->run.weight_bits,
                                 .inner_bits = v->run.inner_bits,
                                 .mode = v->run.mode,
                                 .takes = TAKES_TOKENS,
                                 .gives = v->run.gives,
                                 .padding = v->run.padding,
                                 .fold = v->run.fold};
    loaded *l = &v->f.l;
    json_t *told = l->from.config;
    l->from.config = NULL;
    const int status = model_load(l, &asked, v->run.tokens);
    const bool same = status == EXIT_DONE && json_equal(told, l->from.config);
    json_decref(told);
    if (status != EXIT_DONE)
        return status;
    if (!same)
        return report_error(
            EXIT_BAD_INPUT,
            "%s: job.run.model: is not what %s says; copy that to all three parties", v->c.file,
            l->from.config_path);
    if (l->all.clipped != 0)
        return report_error(
            EXIT_BAD_INPUT, "%s: job.run.weight_bits: %llu weights leave %u bits; give %u",
            v->c.file, (unsigned long long)l->all.clipped, v->run.weight_bits, l->all.bits);
    uvcc_model_weight w;
    uint64_t most = 0;
    for (uint32_t i = 0; uvcc_model_weight_at(&l->w.shape, i, &w) == 0; i++)
        most = (uint64_t)w.rows * w.cols > most ? (uint64_t)w.rows * w.cols : most;
    v->weight = malloc(most * sizeof *v->weight);
    v->real = malloc(most * sizeof *v->real);
    return v->weight != NULL && v->real != NULL ? EXIT_DONE : no_memory();
}

/* Tokens of the shape that job.run says. */
static int read_input(infer_work *v) {
    char text[MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    model_input *in = &v->f.p.in;
    v->o.tokens = v->run.padding ? v->run.tokens : 0;
    if (infer_read_input(&v->f, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s: data: %s", v->c.file, text);
    if (in->sequences != v->run.sequences || in->tokens != v->run.tokens)
        return report_error(EXIT_BAD_INPUT,
                            "%s: data: has %u sequences of %u tokens, but job.run.sequences is %u "
                            "and job.run.tokens %u; all three parties give the same",
                            v->c.file, in->sequences, in->tokens, v->run.sequences, v->run.tokens);
    if (in->padding != NULL && !v->run.padding)
        return bad(v, "data: has padding; give job.run.padding true at all three parties");
    if (in->padding == NULL && v->run.padding) {
        in->padding = calloc((size_t)in->sequences * in->tokens, sizeof *in->padding);
        if (in->padding == NULL)
            return no_memory();
    }
    v->f.x = plain_input(&v->f.p);
    return v->f.x != NULL ? EXIT_DONE : no_memory();
}

static int path_of(const infer_work *v, const char *name, char **out) {
    *out = name != NULL ? work_path(v->c.dir, name) : NULL;
    return name == NULL || *out != NULL ? EXIT_DONE : no_memory();
}

/* Each party has its own, and no other's. */
static int read_data(infer_work *v) {
    char text[MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    infer_data d = {0};
    if (flags_take_json(&data_set, NULL, NULL, &d, v->c.data, "data", &m) != 0)
        return bad(v, text);
    if ((d.model != NULL) != has_weights(v))
        return bad(v, d.model != NULL ? "data.model: the weights are another party's "
                                        "(job.run.weights_owner); take it away"
                                      : "data.model is missing; name the checkpoint's directory");
    const int given = (d.input != NULL) + (d.text != NULL) + (d.ids != NULL);
    if (given != (int)has_input(v))
        return bad(v, !has_input(v) ? "data: the input is another party's (job.run.input_owner); "
                                      "take it away"
                                    : "data: give one of input, text and ids");
    int status = path_of(v, d.model, &v->model);
    if (status == EXIT_DONE)
        status = path_of(v, d.input, &v->input);
    v->o.model = v->model;
    v->o.input = v->input;
    v->o.text = d.text;
    v->o.ids = d.ids;
    if (status == EXIT_DONE && has_input(v))
        status = read_input(v);
    if (status == EXIT_DONE && has_weights(v))
        status = read_model(v);
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
    v->o.output = v->output;
    return atomic_file_check("output.answer", v->output);
}

static void infer_close(void *work) {
    infer_work *v = work;
    infer_forget(&v->f);
    free(v->model);
    free(v->input);
    free(v->output);
    free(v->weight);
    free(v->real);
    free(v);
}

static int infer_open(void **work, const work_config *c) {
    infer_work *v = calloc(1, sizeof *v);
    if (v == NULL)
        return no_memory();
    v->c = *c;
    v->f.o = &v->o;
    int status = read_run(v);
    if (status == EXIT_DONE)
        status = describe(v);
    if (status == EXIT_DONE)
        status = read_output(v);
    if (status == EXIT_DONE)
        status = read_data(v);
    v->f.p.in.sequences = v->run.sequences; /* of those who have no input too */
    v->f.p.in.tokens = v->run.tokens;
    if (status == EXIT_DONE)
        *work = v;
    else
        infer_close(v);
    return status;
}

/* ---- what is computed ---- */

static uint32_t weight_steps(const infer_work *v) {
    const uint32_t n = uvcc_model_weight_count(&v->f.p.config);
    return (n + WEIGHTS_OF_A_STEP - 1) / WEIGHTS_OF_A_STEP;
}

static void name_entry(uint32_t step, char out[32]) {
    (void)snprintf(out, 32, "weights %u", step);
}

/* An entry for each step that gives weights, and the pass. */
static int add_entries(const infer_work *v, uvcc_program *p, uint32_t *tensors, char *why,
                       size_t cap) {
    const uvcc_model_config *c = &v->f.p.config;
    const uvcc_allocator al = uvcc_host_allocator();
    const uint32_t n = uvcc_model_weight_count(c);
    char name[32];
    int rc = uvcc_model_weights(c, p, "", tensors, why, cap);
    for (uint32_t i = 0; i < n && rc >= 0; i++) {
        if (i % WEIGHTS_OF_A_STEP == 0) {
            name_entry(i / WEIGHTS_OF_A_STEP, name);
            rc = uvcc_program_entry(p, name);
        }
        if (rc >= 0)
            rc = uvcc_program_input(p, IN_WEIGHT + i, tensors[i], (uint8_t)v->run.weights_owner);
    }
    return rc < 0 ? rc
                  : uvcc_model_forward(c, p, tensors, (uint8_t)v->run.input_owner, v->o.receiver,
                                       UVCC_TRANSIENT, &al, why, cap);
}

static int make_program(void *work, const work_worker *w, uvcc_program **out) {
    const infer_work *v = work;
    const uvcc_allocator al = uvcc_host_allocator();
    char why[MESSAGE_BYTES] = "";
    uvcc_program *p = NULL;
    uint32_t *tensors = calloc(uvcc_model_weight_count(&v->f.p.config), sizeof *tensors);
    (void)w;
    int rc = tensors == NULL ? UVCC_ERR_NOMEM : uvcc_program_new(&p, &al);
    if (rc == 0)
        rc = add_entries(v, p, tensors, why, sizeof why);
    if (rc >= 0)
        rc = uvcc_program_finish(p, why, sizeof why);
    free(tensors);
    if (rc >= 0) {
        *out = p;
        return EXIT_DONE;
    }
    uvcc_program_free(p);
    return report_error(EXIT_BAD_INPUT, "%s: job.run: %s", v->c.file,
                        why[0] != '\0' ? why : uvcc_error_text(rc));
}

static uint32_t count_steps(const void *work) {
    return weight_steps(work) + 1;
}

static uint32_t entry_of(const void *work, const work_worker *w, uint32_t step, const char **name,
                         bool *ahead) {
    char entry[32] = "forward";
    const bool gives_weights = step < weight_steps(work);
    if (gives_weights)
        name_entry(step, entry);
    *name = gives_weights ? "weights" : "forward";
    *ahead = true;
    return (uint32_t)uvcc_program_find_entry(w->program, entry);
}

static int first_values(void *work, const work_worker *w, uvcc_session *s) {
    (void)work;
    (void)w;
    (void)s; /* weights come by the first steps */
    return EXIT_DONE;
}

static const int64_t *give_weight(infer_work *v, uint32_t i) {
    uvcc_model_weight of;
    char text[MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    if (uvcc_model_weight_at(&v->f.l.w.shape, i, &of) != 0 ||
        weights_read(&v->f.l.w, i, v->real, &m) != 0) {
        (void)report_error(EXIT_FAILED, "data.model: %s", text);
        return NULL;
    }
    fixed_round(v->real, (uint64_t)of.rows * of.cols, v->run.frac_bits, v->run.weight_bits,
                v->weight);
    return v->weight;
}

static const int64_t *give_input(void *work, const work_worker *w, uint32_t step, uint32_t id) {
    infer_work *v = work;
    (void)w;
    (void)step;
    if (id >= IN_WEIGHT)
        return give_weight(v, id - IN_WEIGHT);
    return id == UVCC_MODEL_IN_PADDING ? v->f.p.in.padding : v->f.x;
}

/* ---- what is opened ---- */

static int finished(void *work, const work_worker *w, uvcc_session *s, uint32_t step,
                    char text[64]) {
    infer_work *v = work;
    (void)w;
    text[0] = '\0';
    if (step < weight_steps(v))
        return EXIT_DONE;
    const int64_t *opened = uvcc_session_output(s, step, UVCC_MODEL_OUT_Y);
    if (!learns(v))
        return opened == NULL ? EXIT_DONE : report_error(EXIT_FAILED, "the answer opened here too");
    if (opened == NULL)
        return report_error(EXIT_FAILED, "the answer is not open");
    const int status = infer_take_answer(&v->f, opened);
    if (status == EXIT_DONE)
        infer_name_first(&v->f, text, 64);
    return status;
}

/* The answer as it was opened. */
static int part(void *work, uint8_t **bytes, size_t *len) {
    const infer_work *v = work;
    const infer_answer *a = &v->f.answer;
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
        status = infer_write(&v->f, a);
    atomic_file_close(a);
    return status;
}

static int merge(void *work, const uint8_t *const *parts, const size_t *len, size_t count,
                 json_t *result) {
    infer_work *v = work;
    (void)parts;
    (void)len;
    (void)count; /* one worker, whose answer is here */
    const bool has = v->f.answer.opened != NULL;
    int bad_memory = json_object_set_new(result, "gives", json_string(gives[v->run.gives]));
    bad_memory |= json_object_set_new(result, "top", has ? infer_tops(&v->f) : json_null());
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
                              .first_values = first_values,
                              .input = give_input,
                              .own_text = true,
                              .finished = finished,
                              .part = part,
                              .merge = merge};
