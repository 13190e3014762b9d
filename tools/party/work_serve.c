/* SPDX-License-Identifier: Apache-2.0 */
/* work_serve.c - clients served by a model (served.h). The first steps share its weights, if they
 * are secret; then a step chooses what is served next (serve_offer.h), and a step, or one for each
 * layer, serves each of the chosen requests, until somebody ends it. Which entry a step runs
 * follows from what the steps before opened, so all three know it. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/client.h>
#include <uvcc/host.h>

#include "../report.h"
#include "serve_queue.h"
#include "served.h"
#include "work.h"

enum { LEFT = 3 };      /* tensors of a request and its answer */
#define STEPS INT32_MAX /* of one run; then another one begins */

typedef enum entry { WEIGHTS, CHOOSE, SERVE } entry;
static const char *const entry_names[] = {"weights", "choose", "serve"};

/* A step that chooses, and how many steps behind it serve what was chosen. */
typedef struct chosen_at {
    uint32_t step, serving;
} chosen_at;

typedef struct serve {
    work_config c;
    const served_kind *kind;
    void *served;
    serving_form form;
    serving_program at;
    serve_queue *queue;
    chosen_at choice[2]; /* the last one, and that before it */
    uint64_t *lo, *hi;   /* a request or an answer, as many rows as the program takes */
    bool reading, read;  /* the shares of an answer are to come; are in lo and hi */
    uint32_t left;       /* tensors in which the last request is still */
    bool trims;          /* what the session keeps for reuse has something of it */
    uint32_t turn;       /* choices of this run so far: the same at all three */
    int64_t offer[SERVE_WORDS];
} serve;

/* ---- what is told ---- */

static uint32_t differs(const void *user, const uvcc_request_shape *s) {
    return serving_differs(user, s);
}

/* Words of a component of a whole request's values, keys, or answer, whichever has most. */
static size_t room_of(const serve *v) {
    const uvcc_request_shape s = serving_request(&v->form, v->form.units);
    const size_t in = (size_t)serving_values(&s), keys = (size_t)serving_key_words(&s);
    const size_t out = (size_t)s.out_rows * s.out_cols, most = in > out ? in : out;
    return keys > most ? keys : most;
}

static int make_room(serve *v) {
    v->lo = calloc(room_of(v), sizeof *v->lo);
    v->hi = calloc(room_of(v), sizeof *v->hi);
    v->queue = serve_queue_new(differs, &v->form);
    return v->lo != NULL && v->hi != NULL && v->queue != NULL
               ? EXIT_DONE
               : report_error(EXIT_FAILED, "out of memory");
}

static void wipe(const serve *v) {
    const size_t bytes = room_of(v) * sizeof *v->lo;
    if (v->lo != NULL)
        sodium_memzero(v->lo, bytes);
    if (v->hi != NULL)
        sodium_memzero(v->hi, bytes);
}

static void serve_close(void *work) {
    serve *v = work;
    wipe(v);
    free(v->lo);
    free(v->hi);
    serve_queue_free(v->queue);
    if (v->served != NULL)
        v->kind->close(v->served);
    free(v);
}

/* Steps of a request. */
static uint32_t parts_of(const serve *v) {
    return v->kind->parts != NULL ? v->kind->parts(v->served) : 1;
}

/* What runs as long as nothing else is chosen: weights, a choice, and what it may choose. */
static void begin_steps(serve *v) {
    const uint32_t weights = v->kind->weight_steps(v->served);
    v->choice[0] = v->choice[1] = (chosen_at){.step = weights, .serving = parts_of(v)};
}

static int serve_open(void **work, const work_config *c) {
    serve *v = calloc(1, sizeof *v);
    if (v == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    v->c = *c;
    v->kind = json_object_get(c->run, "model") != NULL ? &served_transformer : &served_perceptron;
    int status =
        c->output == NULL
            ? v->kind->open(&v->served, c, &v->form)
            : report_error(EXIT_BAD_INPUT,
                           "%s: output: a job that serves writes none; take it away", c->file);
    if (status == EXIT_DONE)
        status = make_room(v);
    if (status == EXIT_DONE) {
        begin_steps(v);
        *work = v;
    } else {
        serve_close(v);
    }
    return status;
}

/* ---- what is computed ---- */

static int serve_program(void *work, const work_worker *w, uvcc_program **out) {
    serve *v = work;
    (void)w;
    return v->kind->program(v->served, out, &v->at);
}

static uint32_t serve_steps(const void *work) {
    (void)work;
    return STEPS;
}

/* Of a step that is not far behind the last one: what it does, and of a request that part. */
static entry entry_of(const serve *v, uint32_t step, uint32_t *part) {
    const uint32_t weights = v->kind->weight_steps(v->served);
    const chosen_at *c = &v->choice[step <= v->choice[0].step];
    *part = 0;
    if (step <= weights)
        return step < weights ? WEIGHTS : CHOOSE;
    if (step <= c->step || step - c->step > c->serving)
        return CHOOSE;
    *part = (step - c->step - 1) % parts_of(v);
    return SERVE;
}

static uint32_t part_entry(const serve *v, const uvcc_program *p, uint32_t part,
                           const char **name) {
    if (parts_of(v) == 1)
        return v->at.serve_entry;
    *name = v->kind->part_entry(v->served, part);
    return (uint32_t)uvcc_program_find_entry(p, *name);
}

static uint32_t serve_entry(const void *work, const work_worker *w, uint32_t step,
                            const char **name, bool *ahead) {
    const serve *v = work;
    uint32_t part;
    const entry e = entry_of(v, step, &part);
    *name = entry_names[e];
    *ahead = false;
    return e == WEIGHTS  ? v->kind->weight_entry(v->served, w->program, step)
           : e == CHOOSE ? v->at.choose_entry
                         : part_entry(v, w->program, part, name);
}

/* Secret weights are inputs of the first steps. */
static int serve_first_values(void *work, const work_worker *w, uvcc_session *s) {
    serve *v = work;
    return v->kind->first_values(v->served, w, s);
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
        rc =
            serve_queue_answer(v->queue, v->lo, v->hi,
                               job != NULL ? (size_t)job->shape.out_rows * job->shape.out_cols : 0);
    v->reading = rc != 0;
    v->read = v->read && rc != 0;
    if (rc == 0) {
        wipe(v);
        v->left = LEFT;
    }
    return later_or("an answer", rc);
}

/* Nothing is served next, so what was asked and answered last would stay for as long as nobody
 * asks: zeros take its place. */
static int forget(serve *v, uvcc_session *s) {
    const uint32_t tensor[LEFT] = {v->at.asked, v->at.padding, v->at.answer};
    int rc = 0;
    wipe(v);
    while (v->left != 0 && rc == 0) {
        if (tensor[v->left - 1] != UVCC_NO_TENSOR)
            rc = uvcc_session_set_shares(s, tensor[v->left - 1], v->lo, v->hi);
        v->left -= rc == 0;
        v->trims = true;
    }
    return later_or("a request that is over", rc);
}

/* Columns of a request as the values of a tensor; rows that a client does not ask for are zeros. */
static int set_columns(serve *v, uvcc_session *s, uint32_t tensor, uint32_t first, uint32_t cols) {
    const uvcc_service_job *job = serve_queue_now(v->queue);
    const size_t rows = (size_t)v->form.units * v->form.in_rows;
    memset(v->lo, 0, rows * cols * sizeof *v->lo);
    memset(v->hi, 0, rows * cols * sizeof *v->hi);
    for (size_t r = 0; r < job->shape.in_rows; r++) {
        const size_t from = r * job->shape.in_cols + first;
        memcpy(v->lo + r * cols, job->lo + from, cols * sizeof *v->lo);
        memcpy(v->hi + r * cols, job->hi + from, cols * sizeof *v->hi);
    }
    return uvcc_session_set_shares(s, tensor, v->lo, v->hi);
}

/* Keys of a request as a one-hot tensor: keys, then their roots. Where there are none, zeros stand
 * for rows of zeros. */
static int set_keys(serve *v, uvcc_session *s, uint32_t tensor) {
    const uvcc_service_job *job = serve_queue_now(v->queue);
    const uvcc_request_shape whole = serving_request(&v->form, v->form.units);
    const size_t row_words =
        (size_t)whole.key_cols * uvcc_client_key_words(whole.key_bits); /* without roots */
    const size_t keys = job->shape.in_rows * row_words, roots_at = whole.in_rows * row_words;
    const size_t roots = (size_t)serving_key_words(&job->shape) - keys;
    const size_t all = (size_t)serving_key_words(&whole);
    memset(v->lo, 0, all * sizeof *v->lo);
    memset(v->hi, 0, all * sizeof *v->hi);
    memcpy(v->lo, job->keys_lo, keys * sizeof *v->lo);
    memcpy(v->hi, job->keys_hi, keys * sizeof *v->hi);
    memcpy(v->lo + roots_at, job->keys_lo + keys, roots * sizeof *v->lo);
    memcpy(v->hi + roots_at, job->keys_hi + keys, roots * sizeof *v->hi);
    return uvcc_session_set_shares(s, tensor, v->lo, v->hi);
}

static int ask(serve *v, uvcc_session *s) {
    const bool padding = v->at.padding != UVCC_NO_TENSOR;
    const uint32_t cols = v->form.in_cols - padding;
    if (serve_queue_now(v->queue) == NULL)
        return report_error(EXIT_FAILED, "a step serves a request that is not here");
    int rc = v->form.key_cols != 0 ? set_keys(v, s, v->at.asked)
                                   : set_columns(v, s, v->at.asked, 0, cols);
    if (rc == 0 && padding)
        rc = set_columns(v, s, v->at.padding, cols, 1);
    wipe(v);
    return later_or("a request", rc);
}

static uint64_t serve_agree(const void *work, const char **name) {
    const serve *v = work;
    return v->kind->agree != NULL ? v->kind->agree(v->served, name) : 0;
}

static int serve_share(void *work, const char *dir) {
    serve *v = work;
    return v->kind->share != NULL
               ? v->kind->share(v->served, dir)
               : report_error(EXIT_BAD_INPUT,
                              "%s: --share: a perceptron's weights come with each run", v->c.file);
}

static int serve_prepare(void *work, const work_worker *w, uvcc_session *s, uint32_t step) {
    serve *v = work;
    uint32_t part;
    if (step == 0) { /* of a new run */
        v->reading = v->read = v->trims = false;
        v->left = 0;
        v->turn = 0;
        serve_queue_run(v->queue);
        return EXIT_DONE;
    }
    const int status = answer(v, s);
    if (status != EXIT_DONE)
        return status;
    if (entry_of(v, step, &part) != SERVE)
        return forget(v, s);
    if (part == 0)
        return ask(v, s);
    return v->kind->before_part(v->served, w, s, part);
}

/* A party offers when it has something new, or when another one has: its offer is open already. */
static bool serve_ready(void *work, const work_worker *w, uvcc_session *s, uint32_t step) {
    serve *v = work;
    uint32_t part;
    (void)w;
    if (entry_of(v, step, &part) != CHOOSE)
        return true;
    for (uint32_t p = 0; p < UVCC_PARTIES; p++)
        if (p != v->c.party && uvcc_session_output(s, step, SERVING_OUT_OFFER + p) != NULL)
            return true;
    if (serve_queue_wants(v->queue, uvcc_host_now_ns()))
        return true;
    if (v->trims)
        uvcc_session_trim(s);
    v->trims = false;
    return false;
}

static const int64_t *serve_input(void *work, const work_worker *w, uint32_t step, uint32_t id) {
    serve *v = work;
    uint32_t part;
    (void)w;
    if (entry_of(v, step, &part) == WEIGHTS)
        return v->kind->weight(v->served, id);
    serve_queue_offer(v->queue, v->turn, uvcc_host_now_ns(), v->offer);
    return v->offer;
}

static int chosen(serve *v, uvcc_session *s, uint32_t step) {
    const int64_t *offer[UVCC_PARTIES];
    for (uint32_t p = 0; p < UVCC_PARTIES; p++)
        if ((offer[p] = uvcc_session_output(s, step, SERVING_OUT_OFFER + p)) == NULL)
            return report_error(EXIT_FAILED, "the offers are not open");
    uint32_t requests = 0;
    serve_queue_chosen(v->queue, offer, v->turn++, uvcc_host_now_ns(), &requests);
    v->choice[1] = v->choice[0];
    v->choice[0] = (chosen_at){.step = step, .serving = requests * parts_of(v)};
    return EXIT_DONE;
}

static int serve_finished(void *work, const work_worker *w, uvcc_session *s, uint32_t step,
                          char text[64]) {
    serve *v = work;
    uint32_t part;
    const entry e = entry_of(v, step, &part);
    serve_counts n;
    int status = EXIT_DONE;
    (void)w;
    if (e == CHOOSE)
        status = chosen(v, s, step);
    else if (e == SERVE)
        v->reading = part + 1 == parts_of(v);
    serve_queue_counts(v->queue, &n);
    (void)snprintf(text, 64, "%llu served", (unsigned long long)n.served + v->reading);
    return status;
}

static serve_queue *queue_of(void *work) {
    return ((serve *)work)->queue;
}

static uint64_t request_bytes(const void *work) {
    const serve *v = work;
    return serving_bytes(&v->form);
}

static uint32_t first_steps(const void *work) {
    const serve *v = work;
    return v->kind->weight_steps(v->served) + 1 + parts_of(v); /* a choice, and what was chosen */
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
                              .queue = queue_of,
                              .agree = serve_agree,
                              .share = serve_share,
                              .request_bytes = request_bytes,
                              .first_steps = first_steps};
