/* SPDX-License-Identifier: Apache-2.0 */
/* work_serve.c - clients served by a perceptron whose weights one party gives. Step 0 shares the
 * weights; then a step chooses what is served next (serve_offer.h), and a step serves each of the
 * chosen requests, until somebody ends it. Which entry a step runs follows from what the steps
 * before opened, so all three know it. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/host.h>

#include "../files.h"
#include "../flags_json.h"
#include "../perceptron_flags.h"
#include "../report.h"
#include "../serving.h"
#include "serve_queue.h"
#include "work.h"
#include "work_util.h"

#define MESSAGE_BYTES 512u
#define STEPS         INT32_MAX /* of one run; then another one begins */

typedef enum entry { WEIGHTS, CHOOSE, SERVE } entry;
static const char *const entry_names[] = {"weights", "choose", "serve"};

typedef struct serve {
    work_config c;
    serving_model model;
    serving_program at;
    serve_queue *queue;
    int64_t *weight;      /* serving_weights(); NULL: another party gives them */
    entry next[4];        /* of the step before, of the next one, by their last bits */
    uint64_t *lo, *hi;    /* a request or an answer, whole rows of the model */
    bool reading, read;   /* the shares of an answer are to come; are in lo and hi */
    uint32_t turn;        /* choices of this run so far: the same at all three */
    uint32_t chosen_left; /* requests that are still to be served */
    int64_t offer[SERVE_WORDS];
} serve;

#define AT(member) offsetof(serving_model, member)
static const flag run_members[] = {
    {"features", NULL, FLAG_COUNT, AT(features), 1, CSV_COLUMNS_MAX - 1, NULL, NULL},
    {"classes", NULL, FLAG_COUNT, AT(classes), 1, CSV_LABEL_MAX + 1, NULL, NULL},
    {"hidden", NULL, FLAG_LIST, AT(hidden), 1, PERCEPTRON_UNITS_MAX, NULL, NULL},
    {"frac-bits", NULL, FLAG_COUNT, AT(frac_bits), 4, 24, NULL, NULL},
    {"rows", NULL, FLAG_COUNT, AT(rows), 1, SERVING_ROWS_MAX, NULL, NULL},
    {"compare", "fss|circuit", FLAG_CHOICE, AT(compare), 0, 0, perceptron_compares, NULL},
    {"products", "native|beaver", FLAG_CHOICE, AT(products), 0, 0, run_products, NULL},
    {"weights-owner", NULL, FLAG_COUNT, AT(weights_owner), 0, UVCC_PARTIES - 1, NULL, NULL},
};
#undef AT
static const char *const other_run_members[] = {"kind", NULL};
static const flag_set run_set = {.flags = run_members,
                                 .count = sizeof run_members / sizeof run_members[0]};

/* ---- what is told ---- */

static int bad(const serve *v, const char *why) {
    return report_error(EXIT_BAD_INPUT, "%s: %s", v->c.file, why);
}

static int read_run(serve *v) {
    char text[MESSAGE_BYTES];
    const flag_message to = {text, sizeof text};
    v->model = (serving_model){.hidden = {1, {64}}, .frac_bits = 16, .rows = 16};
    if (flags_take_json(&run_set, NULL, other_run_members, &v->model, v->c.run, "job.run", &to) !=
        0)
        return bad(v, text);
    if (v->model.features == 0 || v->model.classes == 0)
        return bad(v, v->model.features == 0
                          ? "job.run.features is missing; give the numbers of a client's row"
                          : "job.run.classes is missing; give the numbers that a row gets back");
    if (v->c.replicas * v->c.stages * v->c.tensor_ranks != 1 || v->c.microbatches != 1)
        return bad(v, "job: a job that serves has one worker for each party; replicas, stages, "
                      "tensor_ranks and microbatches are 1");
    if (v->c.sks != 0)
        return bad(v, "job.sks: a job that serves has no checks of its products; give 0");
    return EXIT_DONE;
}

/* As `output.weights` of an mlp has them: 8 bytes each, little-endian. */
static int take_weights(serve *v, const char *path, const uint8_t *bytes, size_t len) {
    const uint64_t n = serving_weights(&v->model);
    const int64_t limit = INT64_C(1) << (v->model.frac_bits + SERVING_WEIGHT_BITS);
    if (len != 8 * n)
        return report_error(EXIT_BAD_INPUT,
                            "%s: data.weights: %s has %zu bytes, but the weights of features, "
                            "hidden and classes in job.run are %llu numbers of 8 bytes",
                            v->c.file, path, len, (unsigned long long)n);
    v->weight = malloc(n * sizeof *v->weight);
    if (v->weight == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    for (uint64_t i = 0; i < n; i++) {
        uint64_t word = 0;
        for (unsigned k = 0; k < 8; k++)
            word |= (uint64_t)bytes[8 * i + k] << (8 * k);
        v->weight[i] = (int64_t)word;
        if (v->weight[i] <= -limit || v->weight[i] >= limit)
            return report_error(EXIT_BAD_INPUT,
                                "%s: data.weights: number %llu of %s is not below %u; is "
                                "job.run.frac_bits that of the training?",
                                v->c.file, (unsigned long long)i, path, 1u << SERVING_WEIGHT_BITS);
    }
    return EXIT_DONE;
}

static int read_data(serve *v) {
    static const char *const members[] = {"weights", NULL};
    char text[MESSAGE_BYTES];
    const flag_message to = {text, sizeof text};
    const char *name = NULL;
    uint8_t *bytes = NULL;
    size_t len = 0;
    if (v->c.party != v->model.weights_owner)
        return v->c.data == NULL
                   ? EXIT_DONE
                   : bad(v, "data: the weights are another party's (job.run.weights_owner); take "
                            "it away");
    if (flags_json_only(v->c.data, "data", members, &to) != 0 ||
        flags_json_text(v->c.data, "data", "weights", &name, &to) != 0)
        return bad(v, text);
    if (name == NULL)
        return bad(v, "data.weights is missing; name the file that output.weights of an mlp job "
                      "made");
    char *path = work_path(v->c.dir, name);
    int status = path != NULL ? file_read(path, EXIT_BAD_INPUT, &bytes, &len)
                              : report_error(EXIT_FAILED, "out of memory");
    if (status == EXIT_DONE)
        status = take_weights(v, path, bytes, len);
    if (bytes != NULL)
        sodium_memzero(bytes, len);
    free(bytes);
    free(path);
    return status;
}

static bool takes(const void *user, const uvcc_request_shape *s) {
    return serving_takes(user, s);
}

static int make_room(serve *v) {
    const uint32_t wide =
        v->model.features > v->model.classes ? v->model.features : v->model.classes;
    const size_t n = (size_t)v->model.rows * wide;
    v->lo = calloc(n, sizeof *v->lo);
    v->hi = calloc(n, sizeof *v->hi);
    v->queue = serve_queue_new(takes, &v->model);
    return v->lo != NULL && v->hi != NULL && v->queue != NULL
               ? EXIT_DONE
               : report_error(EXIT_FAILED, "out of memory");
}

static void wipe(void *words, size_t bytes) {
    if (words != NULL)
        sodium_memzero(words, bytes);
    free(words);
}

static void serve_close(void *work) {
    serve *v = work;
    const uint32_t wide =
        v->model.features > v->model.classes ? v->model.features : v->model.classes;
    const size_t bytes = (size_t)v->model.rows * wide * sizeof *v->lo;
    wipe(v->weight, serving_weights(&v->model) * sizeof *v->weight);
    wipe(v->lo, bytes);
    wipe(v->hi, bytes);
    serve_queue_free(v->queue);
    free(v);
}

static int serve_open(void **work, const work_config *c) {
    serve *v = calloc(1, sizeof *v);
    if (v == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    v->c = *c;
    for (unsigned i = 0; i < 4; i++) /* what runs as long as nothing else is chosen */
        v->next[i] = i == 0 ? WEIGHTS : i == 2 ? SERVE : CHOOSE;
    int status = read_run(v);
    if (status == EXIT_DONE && c->output != NULL)
        status = bad(v, "output: a job that serves writes none; take it away");
    if (status == EXIT_DONE)
        status = read_data(v);
    if (status == EXIT_DONE)
        status = make_room(v);
    if (status == EXIT_DONE)
        *work = v;
    else
        serve_close(v);
    return status;
}

/* ---- what is computed ---- */

static int serve_program(void *work, const work_worker *w, uvcc_program **out) {
    serve *v = work;
    char text[MESSAGE_BYTES] = "";
    const flag_message to = {text, sizeof text};
    (void)w;
    const int rc = serving_make(&v->model, SERVE_WORDS, SERVE_WORD_BITS, out, &v->at, &to);
    return rc == 0 ? EXIT_DONE
                   : report_error(EXIT_BAD_INPUT,
                                  "%s: job.run: the numbers do not fit (%s); give a smaller "
                                  "frac_bits, features or hidden",
                                  v->c.file, text);
}

static uint32_t serve_steps(const void *work) {
    (void)work;
    return STEPS;
}

static entry entry_of(const serve *v, uint32_t step) {
    return step == 0 ? WEIGHTS : v->next[step % 4];
}

static uint32_t serve_entry(const void *work, const work_worker *w, uint32_t step,
                            const char **name, bool *ahead) {
    const serve *v = work;
    const entry e = entry_of(v, step);
    (void)w;
    *name = entry_names[e];
    *ahead = false;
    return e == WEIGHTS  ? v->at.weights_entry
           : e == CHOOSE ? v->at.choose_entry
                         : v->at.serve_entry;
}

/* The weights are an input of step 0. */
static int serve_first_values(void *work, const work_worker *w, uvcc_session *s) {
    (void)work;
    (void)w;
    (void)s;
    return EXIT_DONE;
}

static int later_or(const char *what, int rc) {
    if (rc == 0)
        return EXIT_DONE;
    return rc == UVCC_ERR_AGAIN || rc == UVCC_ERR_NOMEM
               ? WORK_LATER
               : report_error(EXIT_FAILED, "%s: %s", what, uvcc_error_text(rc));
}

/* What the last step computed goes to its client. */
static int answer(serve *v, uvcc_session *s) {
    const uvcc_service_job *job = serve_queue_now(v->queue);
    int rc = 0;
    if (!v->reading)
        return EXIT_DONE;
    if (!v->read)
        rc = uvcc_session_shares(s, v->at.answer, v->lo, v->hi);
    v->read = rc == 0;
    if (rc == 0)
        rc = serve_queue_answer(v->queue, v->lo, v->hi,
                                job != NULL ? (size_t)job->shape.in_rows * v->model.classes : 0);
    v->reading = rc != 0;
    v->read = v->read && rc != 0;
    return later_or("an answer", rc);
}

/* Rows that a client does not ask for are zeros. */
static int ask(serve *v, uvcc_session *s) {
    const uvcc_service_job *job = serve_queue_now(v->queue);
    const size_t all = (size_t)v->model.rows * v->model.features;
    if (job == NULL)
        return report_error(EXIT_FAILED, "a step serves a request that is not here");
    const size_t given = (size_t)job->shape.in_rows * v->model.features;
    memset(v->lo, 0, all * sizeof *v->lo);
    memset(v->hi, 0, all * sizeof *v->hi);
    memcpy(v->lo, job->lo, given * sizeof *v->lo);
    memcpy(v->hi, job->hi, given * sizeof *v->hi);
    return later_or("a request", uvcc_session_set_shares(s, v->at.asked, v->lo, v->hi));
}

static int serve_prepare(void *work, const work_worker *w, uvcc_session *s, uint32_t step) {
    serve *v = work;
    (void)w;
    if (step == 0) { /* of a new run */
        v->reading = v->read = false;
        v->chosen_left = v->turn = 0;
        serve_queue_run(v->queue);
        return EXIT_DONE;
    }
    const int status = answer(v, s);
    return status == EXIT_DONE && entry_of(v, step) == SERVE ? ask(v, s) : status;
}

/* A party offers when it has something new, or when another one has: its offer is open already. */
static bool serve_ready(void *work, const work_worker *w, uvcc_session *s, uint32_t step) {
    serve *v = work;
    (void)w;
    if (entry_of(v, step) != CHOOSE)
        return true;
    for (uint32_t p = 0; p < UVCC_PARTIES; p++)
        if (p != v->c.party && uvcc_session_output(s, step, SERVING_OUT_OFFER + p) != NULL)
            return true;
    return serve_queue_wants(v->queue, uvcc_host_now_ns());
}

/* W0, b0, W1, ... lie one behind the other. */
static const int64_t *weights_of(const serve *v, uint32_t number) {
    const int64_t *at = v->weight;
    for (uint32_t l = 0; l < serving_layers(&v->model); l++) {
        uint32_t in, out;
        serving_shape(&v->model, l, &in, &out);
        if (number == 2 * l)
            return at;
        at += (size_t)in * out;
        if (number == 2 * l + 1)
            return at;
        at += out;
    }
    return NULL;
}

static const int64_t *serve_input(void *work, const work_worker *w, uint32_t step, uint32_t id) {
    serve *v = work;
    (void)w;
    if (entry_of(v, step) == WEIGHTS)
        return weights_of(v, id - SERVING_IN_WEIGHT);
    serve_queue_offer(v->queue, v->turn, uvcc_host_now_ns(), v->offer);
    return v->offer;
}

static int chosen(serve *v, uvcc_session *s, uint32_t step) {
    const int64_t *offer[UVCC_PARTIES];
    for (uint32_t p = 0; p < UVCC_PARTIES; p++)
        if ((offer[p] = uvcc_session_output(s, step, SERVING_OUT_OFFER + p)) == NULL)
            return report_error(EXIT_FAILED, "the offers are not open");
    serve_queue_chosen(v->queue, offer, v->turn++, uvcc_host_now_ns(), &v->chosen_left);
    return EXIT_DONE;
}

static int serve_finished(void *work, const work_worker *w, uvcc_session *s, uint32_t step,
                          char text[64]) {
    serve *v = work;
    const entry e = entry_of(v, step);
    serve_counts n;
    int status = EXIT_DONE;
    (void)w;
    if (e == CHOOSE) {
        status = chosen(v, s, step);
    } else if (e == SERVE) {
        v->reading = true;
        v->chosen_left--;
    }
    v->next[(step + 1) % 4] = v->chosen_left != 0 ? SERVE : CHOOSE;
    serve_queue_counts(v->queue, &n);
    (void)snprintf(text, 64, "%llu served", (unsigned long long)n.served + v->reading);
    return status;
}

static serve_queue *queue_of(void *work) {
    return ((serve *)work)->queue;
}

const work_kind work_serve = {.name = "serve",
                              .open = serve_open,
                              .close = serve_close,
                              .program = serve_program,
                              .steps = serve_steps,
                              .entry = serve_entry,
                              .prepare = serve_prepare,
                              .first_values = serve_first_values,
                              .ready = serve_ready,
                              .input = serve_input,
                              .finished = serve_finished,
                              .queue = queue_of};
