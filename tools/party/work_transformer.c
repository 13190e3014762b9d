/* SPDX-License-Identifier: Apache-2.0 */
/* work_transformer.c - training a language model between parties, as `uvcc train --model
 * transformer` does it in one process: the same options, the same rows, the same weights.
 *
 * The text is its owner's file; its length is public, since where a step's sequences begin follows
 * from it. A step opens the sum of its losses to the owner. The last step opens the weights to all,
 * unless job.run.reveal is false: then the parties' checkpoints are all that is left of them. */
#include "work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../atomic_file.h"
#include "../flags_json.h"
#include "../report.h"
#include "work_lm.h"
#include "work_util.h"

#define MESSAGE_BYTES 512u

typedef struct training {
    work_lm lm;
    uint8_t party;
    lm_text text;     /* of its owner; empty at the others */
    int64_t *input;   /* of one worker; its owner's */
    lm_model initial; /* while first values are set; else none */
    double *loss;     /* of every step, NAN where it is not known; its owner's */
    char *weights;    /* output.weights; NULL: not given */
    work_bytes parts; /* the weights' parts that workers here opened: see keep_weights() */
} training;

static uvcc_transformer_worker place_of(const work_worker *w) {
    return (uvcc_transformer_worker){w->replica, w->stage, w->tensor_rank};
}

static int no_memory(void) {
    return report_error(EXIT_FAILED, "out of memory");
}

/* ---- what the job says ---- */

static bool is_owner(const training *t) {
    return t->party == t->lm.cfg.text_owner;
}

static int refuse_text(const training *t) {
    return report_error(EXIT_BAD_INPUT,
                        "data.text: the text is party %u's (job.run.text_owner); this is party %u, "
                        "leave it out",
                        t->lm.cfg.text_owner, t->party);
}

/* Only the owner can say how long the text is, and the others must know. */
static int check_length(const training *t, const char *path) {
    if (!t->lm.text_bytes_given)
        return report_error(EXIT_BAD_INPUT,
                            "job.run.text_bytes: it is missing; write %zu, the length of %s, at "
                            "all three parties",
                            t->text.len, path);
    if (t->lm.text_bytes != t->text.len)
        return report_error(EXIT_BAD_INPUT,
                            "job.run.text_bytes: is %llu, but %s has %zu bytes; write %zu at all "
                            "three parties",
                            (unsigned long long)t->lm.text_bytes, path, t->text.len, t->text.len);
    return EXIT_DONE;
}

static int read_text(training *t, const work_config *c) {
    static const char *const members[] = {"text", NULL};
    char text[MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    const char *name;
    if (flags_json_only(c->data, "data", members, &m) != 0 ||
        flags_json_text(c->data, "data", "text", &name, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    if (!is_owner(t) && name != NULL)
        return refuse_text(t);
    if (!is_owner(t))
        return t->lm.text_bytes_given
                   ? EXIT_DONE
                   : report_error(EXIT_BAD_INPUT,
                                  "job.run.text_bytes: it is missing; write the length of the "
                                  "text, which party %u has, at all three parties",
                                  t->lm.cfg.text_owner);
    if (name == NULL)
        return report_error(EXIT_BAD_INPUT,
                            "data.text: it is missing; party %u has the text: name its file",
                            t->party);
    char *path = work_path(c->dir, name);
    if (path == NULL)
        return no_memory();
    int status = lm_text_read(&t->text, "data.text", path, (size_t)t->lm.cfg.context + 1);
    if (status == EXIT_DONE)
        status = check_length(t, path);
    free(path);
    return status;
}

static int take_output(training *t, const work_config *c) {
    static const char *const members[] = {"weights", NULL};
    const int status = work_output(c, members, "weights", &t->weights);
    if (status != EXIT_DONE || t->weights == NULL)
        return status;
    if (t->lm.o.reveal != 0)
        return report_error(EXIT_BAD_INPUT, "output.weights: the job opens none "
                                            "(job.run.reveal is false); leave it out");
    return atomic_file_check("output.weights", t->weights);
}

static void close_training(void *work) {
    training *t = work;
    if (t == NULL)
        return;
    lm_text_free(&t->text);
    lm_model_free(&t->initial);
    free(t->input);
    free(t->loss);
    free(t->weights);
    free(t->parts.at);
    free(t);
}

static int open_training(void **work, const work_config *c) {
    training *t = calloc(1, sizeof *t);
    *work = t;
    if (t == NULL)
        return no_memory();
    t->party = c->party;
    const lm_split split = {c->replicas, c->stages, c->tensor_ranks, c->microbatches, c->sks};
    int status = work_lm_read("job", c->run, &split, &t->lm);
    if (status == EXIT_DONE)
        status = read_text(t, c);
    if (status == EXIT_DONE)
        status = take_output(t, c);
    if (status == EXIT_DONE && is_owner(t)) {
        t->input = malloc(lm_input_room(&t->lm.cfg) * sizeof *t->input);
        t->loss = malloc(t->lm.o.steps * sizeof *t->loss);
        if (t->input == NULL || t->loss == NULL)
            status = no_memory();
        for (uint32_t i = 0; status == EXIT_DONE && i < t->lm.o.steps; i++)
            t->loss[i] = NAN;
    }
    if (status == EXIT_DONE)
        return status;
    close_training(t);
    *work = NULL;
    return status;
}

/* ---- programs and steps ---- */

static int make_program(void *work, const work_worker *w, uvcc_program **out) {
    const training *t = work;
    const uvcc_transformer_worker at = place_of(w);
    return work_lm_program("job", &t->lm.cfg, &at, out);
}

static uint32_t count_steps(const void *work) {
    const training *t = work;
    return t->lm.o.steps + (t->lm.o.reveal == 0 ? 1 : 0);
}

/* Between two steps of training the rate is set, which must wait for the first one's end. */
static uint32_t entry_of(const void *work, const work_worker *w, uint32_t step, const char **name,
                         bool *ahead) {
    const training *t = work;
    *name = step < t->lm.o.steps ? "train" : "reveal";
    *ahead = false;
    return (uint32_t)uvcc_program_find_entry(w->program, *name);
}

static int prepare(void *work, const work_worker *w, uvcc_session *s, uint32_t step) {
    const training *t = work;
    if (step >= t->lm.o.steps)
        return EXIT_DONE;
    const int64_t rate = uvcc_transformer_rate(&t->lm.cfg, step);
    return work_lm_set(s, (uint32_t)uvcc_program_find(w->program, "rate"), "the learning rate",
                       &rate);
}

static int set_state(void *user, uint32_t tensor, const int64_t *v) {
    return work_lm_set(user, tensor, "the initial weights", v);
}

/* The whole model is made once for all workers that begin together. */
static int first_values(void *work, const work_worker *w, uvcc_session *s) {
    training *t = work;
    const uvcc_transformer_worker at = place_of(w);
    int status = t->initial.weights != NULL
                     ? EXIT_DONE
                     : lm_model_init(&t->initial, &t->lm.cfg, t->lm.o.run.seed);
    return status == EXIT_DONE ? lm_model_each_state(&t->initial, &at, w->program, set_state, s)
                               : status;
}

static const int64_t *give_input(void *work, const work_worker *w, uint32_t step, uint32_t id) {
    training *t = work;
    const uvcc_transformer_worker at = place_of(w);
    lm_fill_input(&t->lm.cfg, t->lm.o.run.seed, step, &at, &t->text, id, t->input);
    return t->input;
}

/* ---- what is opened ---- */

/* Replicas open the same, and tensor ranks the same of what is not cut: each value goes into the
 * parts once, under [weight, stage, rank, count]. */
static int keep_weights(training *t, const work_worker *w, const uvcc_session *s, uint32_t step) {
    const uvcc_transformer_worker at = place_of(w);
    for (uint32_t i = 0; w->replica == 0 && i < uvcc_transformer_weight_count(&t->lm.cfg); i++) {
        uvcc_transformer_weight weight;
        uvcc_transformer_part part;
        if (uvcc_transformer_weight_at(&t->lm.cfg, i, &weight) != 0 || weight.stage != w->stage ||
            !uvcc_transformer_part_of(&t->lm.cfg, &at, i, &part) ||
            (weight.cut == UVCC_CUT_NONE && w->tensor_rank != 0))
            continue;
        const int64_t *v = uvcc_session_output(s, step, UVCC_TRANSFORMER_OUT_WEIGHT + i);
        const uint64_t n = (uint64_t)part.rows * part.cols;
        if (v == NULL)
            return report_error(EXIT_FAILED, "weight %s is not open", weight.name);
        work_put_u64(&t->parts, i);
        work_put_u64(&t->parts, w->stage);
        work_put_u64(&t->parts, w->tensor_rank);
        work_put_u64(&t->parts, n);
        for (uint64_t k = 0; k < n; k++)
            work_put_u64(&t->parts, (uint64_t)v[k]);
    }
    return t->parts.failed ? no_memory() : EXIT_DONE;
}

static int finished(void *work, const work_worker *w, uvcc_session *s, uint32_t step,
                    char text[64]) {
    training *t = work;
    text[0] = '\0';
    lm_model_free(&t->initial);
    if (step >= t->lm.o.steps)
        return keep_weights(t, w, s, step);
    const int64_t *sum =
        t->loss != NULL ? uvcc_session_output(s, step, UVCC_TRANSFORMER_OUT_LOSS) : NULL;
    if (sum != NULL) {
        t->loss[step] = lm_loss(&t->lm.cfg, *sum);
        (void)snprintf(text, 64, "loss %.4f%s", t->loss[step],
                       lm_loss_possible(t->loss[step]) ? "" : ": values left their bounds");
    }
    return EXIT_DONE;
}

/* ---- the result ---- */

/* The losses that are known here, [first, count, values], then the weights' parts. */
static int part(void *work, uint8_t **bytes, size_t *len) {
    const training *t = work;
    work_bytes out = {0};
    uint32_t first = t->lm.o.steps;
    while (t->loss != NULL && first > 0 && !isnan(t->loss[first - 1]))
        first--;
    work_put_u64(&out, first);
    work_put_u64(&out, t->lm.o.steps - first);
    work_put(&out, t->loss != NULL ? t->loss + first : NULL,
             (t->lm.o.steps - first) * sizeof *t->loss);
    work_put(&out, t->parts.at, t->parts.len);
    *bytes = out.at;
    *len = out.len;
    if (!out.failed)
        return EXIT_DONE;
    free(out.at);
    return no_memory();
}

typedef struct merged {
    const training *t;
    lm_model model;
    bool *seen;            /* by weight and tensor rank */
    uint64_t have;         /* weights' elements */
    const uint8_t *losses; /* as part() has them, of the process that knows most; NULL: none */
    uint64_t first;
} merged;

static bool take_weight(merged *m, work_reader *r) {
    uint64_t i, stage, rank, n;
    uvcc_transformer_part p;
    const uvcc_transformer_config *cfg = &m->t->lm.cfg;
    if (!work_get_u64(r, &i) || !work_get_u64(r, &stage) || !work_get_u64(r, &rank) ||
        !work_get_u64(r, &n) || i >= uvcc_transformer_weight_count(cfg) || stage >= cfg->stages ||
        rank >= cfg->tensor_ranks)
        return false;
    const uvcc_transformer_worker at = {0, (uint32_t)stage, (uint32_t)rank};
    const uint8_t *from = work_get(r, n, sizeof(int64_t));
    if (from == NULL || !uvcc_transformer_part_of(cfg, &at, (uint32_t)i, &p) ||
        n != (uint64_t)p.rows * p.cols)
        return false;
    int64_t *v = malloc(n * sizeof *v);
    if (v == NULL)
        return false;
    memcpy(v, from, n * sizeof *v); /* the bytes of a little-endian machine */
    lm_model_put(&m->model, &at, (uint32_t)i, v);
    free(v);
    bool *seen = &m->seen[i * cfg->tensor_ranks + rank];
    m->have += *seen ? 0 : n;
    *seen = true;
    return true;
}

static bool take_part(merged *m, const uint8_t *bytes, size_t len) {
    work_reader r = {bytes, len};
    uint64_t first, count;
    if (!work_get_u64(&r, &first) || !work_get_u64(&r, &count) || first > m->t->lm.o.steps ||
        count != m->t->lm.o.steps - first)
        return false;
    const uint8_t *losses = work_get(&r, count, sizeof(double));
    if (losses == NULL)
        return false;
    if (count != 0 && (m->losses == NULL || first < m->first)) {
        m->losses = losses;
        m->first = first;
    }
    while (r.len != 0)
        if (!take_weight(m, &r))
            return false;
    return true;
}

/* As `uvcc train` has them. A party that is not told the losses says null. */
static int put_losses(const merged *m, json_t *result) {
    const uint32_t steps = m->t->lm.o.steps,
                   count = m->losses != NULL ? steps - (uint32_t)m->first : 0;
    double *loss = malloc((count + 1) * sizeof *loss);
    json_t *list = m->losses != NULL ? json_array() : json_null();
    int bad = loss == NULL || list == NULL;
    if (count != 0 && bad == 0)
        memcpy(loss, m->losses, count * sizeof *loss);
    for (uint32_t i = 0; i < count && bad == 0; i++)
        bad |= json_array_append_new(list, json_real(loss[i]));
    bad |= json_object_set_new(result, "loss", list);
    if (bad == 0)
        bad |= json_object_set_new(result, "first_step",
                                   m->losses != NULL ? json_integer((json_int_t)m->first)
                                                     : json_null());
    if (bad == 0)
        bad |= json_object_set_new(
            result, "final_loss", count != 0 ? json_real(lm_final_loss(loss, count)) : json_null());
    free(loss);
    return bad == 0 ? EXIT_DONE : no_memory();
}

static int put_result(const merged *m, json_t *result) {
    const training *t = m->t;
    const uint64_t parameters = uvcc_transformer_parameters(&t->lm.cfg);
    uint8_t hash[32];
    if (t->lm.o.reveal == 0 && m->have != parameters)
        return report_error(EXIT_FAILED, "of %llu weights %llu are open",
                            (unsigned long long)parameters, (unsigned long long)m->have);
    uvcc_transformer_weights_hash(&t->lm.cfg, m->model.weights, hash);
    int bad = json_object_set_new(result, "parameters", json_integer((json_int_t)parameters));
    bad |= json_object_set_new(result, "steps", json_integer(t->lm.o.steps));
    bad |= json_object_set_new(result, "weights_sha256",
                               t->lm.o.reveal == 0 ? report_hex(hash, sizeof hash) : json_null());
    if (bad != 0)
        return no_memory();
    const int status = put_losses(m, result);
    if (status != EXIT_DONE || t->weights == NULL)
        return status;
    return lm_model_write(&m->model, "output.weights", t->weights);
}

static int merge(void *work, const uint8_t *const *parts, const size_t *len, size_t count,
                 json_t *result) {
    merged m = {.t = work};
    int status = lm_model_room(&m.model, &m.t->lm.cfg);
    m.seen = calloc((size_t)uvcc_transformer_weight_count(&m.t->lm.cfg) * m.t->lm.cfg.tensor_ranks,
                    sizeof *m.seen);
    if (m.seen == NULL)
        status = no_memory();
    for (size_t i = 0; i < count && status == EXIT_DONE; i++)
        if (!take_part(&m, parts[i], len[i]))
            status =
                report_error(EXIT_FAILED, "the result of process %zu of this party is not one", i);
    if (status == EXIT_DONE)
        status = put_result(&m, result);
    free(m.seen);
    lm_model_free(&m.model);
    return status;
}

const work_kind work_transformer = {.name = "transformer",
                                    .open = open_training,
                                    .close = close_training,
                                    .program = make_program,
                                    .steps = count_steps,
                                    .entry = entry_of,
                                    .prepare = prepare,
                                    .first_values = first_values,
                                    .input = give_input,
                                    .own_text = true,
                                    .finished = finished,
                                    .part = part,
                                    .merge = merge};
