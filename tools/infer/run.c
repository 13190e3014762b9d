/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - the three parties of `uvcc infer`: the weights' owner gives each weight as shares, one
 * after the other, so that only one is there in plaintext at a time; then one step, in which the
 * input's owner gives the input and the answer opens to whom it is for. */
#include "infer.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "../interrupt.h"

/* Weights that were set, and are still with the sessions in two places. */
#define STAGED_BYTES ((uint64_t)4 << 20)

static uint64_t now_ns(void) {
    return uvcc_host_now_ns();
}

/* ---- the program ---- */

/* The input stays, so that its shares can be looked at. */
static int view_program(const infer *f, uvcc_program **out, const uvcc_allocator *al, char *why,
                        size_t cap) {
    uint32_t *tensors = calloc(uvcc_model_weight_count(&f->p.config), sizeof *tensors);
    int rc = tensors == NULL ? UVCC_ERR_NOMEM : uvcc_program_new(out, al);
    if (rc == 0)
        rc = uvcc_model_weights(&f->p.config, *out, "", tensors, why, cap);
    if (rc >= 0)
        rc = uvcc_model_forward(&f->p.config, *out, tensors, (uint8_t)f->o->input_owner,
                                f->o->receiver, UVCC_PERSIST, al, why, cap);
    if (rc >= 0)
        rc = uvcc_program_finish(*out, why, cap);
    free(tensors);
    return rc < 0 ? rc : 0;
}

static int program_of(const infer *f, uvcc_program **out) {
    const uvcc_allocator al = uvcc_host_allocator();
    char why[MODEL_MESSAGE_BYTES] = "";
    const int rc = f->o->view ? view_program(f, out, &al, why, sizeof why)
                              : uvcc_model_program(out, &f->p.config, (uint8_t)f->o->input_owner,
                                                   f->o->receiver, &al, why, sizeof why);
    return rc == 0 ? EXIT_DONE
                   : report_error(EXIT_BAD_INPUT, "%s: %s", f->o->model,
                                  why[0] != '\0' ? why : uvcc_error_text(rc));
}

static int make_program(void *user, const host_worker *w, uvcc_program **out) {
    (void)w;
    return program_of(user, out);
}

/* ---- the step ---- */

static int entry_of(void *user, const host_worker *w, uint32_t step) {
    (void)user;
    (void)step;
    return uvcc_program_find_entry(w->program, "forward");
}

static const int64_t *give_input(void *user, const host_worker *w, uint32_t step, uint32_t id) {
    const infer *f = user;
    (void)w;
    (void)step;
    return id == UVCC_MODEL_IN_PADDING ? f->p.in.padding : f->x;
}

/* ---- the weights ---- */

/* Room for the largest: its values, real ones and then integers, and two components. */
typedef struct share_room {
    int64_t *value;
    uint64_t *part[2];
} share_room;

static void room_free(share_room *r, uint64_t most) {
    for (unsigned i = 0; i < 2; i++) {
        if (r->part[i] != NULL)
            sodium_memzero(r->part[i], most * 8);
        free(r->part[i]);
    }
    free(r->value);
}

static int room_make(share_room *r, uint64_t most, bool split) {
    *r = (share_room){.value = malloc(most * 8)};
    bool ok = r->value != NULL;
    for (unsigned i = 0; i < 2 && split; i++)
        ok = (r->part[i] = malloc(most * 8)) != NULL && ok;
    return ok ? EXIT_DONE : report_error(EXIT_FAILED, "out of memory");
}

/* What is missing to the value takes the place of the component that nobody needs any more. */
static void next_component(const share_room *r, unsigned old, uint64_t n) {
    uint64_t *to = r->part[old];
    const uint64_t *other = r->part[1 - old];
    for (uint64_t i = 0; i < n; i++)
        to[i] = (uint64_t)r->value[i] - to[i] - other[i];
}

/* Components 0 and 1 are random, 2 is what is missing. Party after party, so that two are there at
 * a time: 0 1, then 2 in the place of 0, then 0 in the place of 1. */
static int give_shares(infer *f, uint32_t tensor, uint64_t n, const share_room *r) {
    host_worker *w = &f->host.worker[0];
    for (unsigned i = 0; i < 2; i++)
        if (f->split.fill(f->split.user, r->part[i], n * 8) != 0)
            return report_error(EXIT_FAILED, "no random bytes for the weights' shares");
    int status = host_set_shares(&f->host, w, 0, tensor, r->part[0], r->part[1]);
    if (status == EXIT_DONE) {
        next_component(r, 0, n);
        status = host_set_shares(&f->host, w, 1, tensor, r->part[1], r->part[0]);
    }
    if (status == EXIT_DONE) {
        next_component(r, 1, n);
        status = host_set_shares(&f->host, w, 2, tensor, r->part[0], r->part[1]);
    }
    return status;
}

static int give_weight(infer *f, uint32_t i, const uvcc_model_weight *of, const share_room *r) {
    host_worker *w = &f->host.worker[0];
    char message[MODEL_MESSAGE_BYTES] = "";
    const flag_message m = {message, sizeof message};
    const uint64_t n = (uint64_t)of->rows * of->cols;
    double *real = (double *)(void *)r->value;
    const int tensor = uvcc_program_find(w->program, of->name);
    if (tensor < 0)
        return host_failed(&f->host, of->name, tensor);
    if (weights_read(&f->l.w, i, real, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    if (i == f->seen_weight && n > 1)
        memcpy(f->seen_real, real, sizeof f->seen_real);
    fixed_round(real, n, f->p.config.frac_bits, f->p.config.weight_bits, r->value);
    return f->o->public_weights ? host_set_public(&f->host, w, (uint32_t)tensor, r->value)
                                : give_shares(f, (uint32_t)tensor, n, r);
}

static int give_weights(infer *f) {
    uvcc_model_weight of;
    share_room room;
    report_pace pace;
    uint64_t most = 0, staged = 0;
    for (uint32_t i = 0; uvcc_model_weight_at(&f->l.w.shape, i, &of) == 0; i++)
        most = (uint64_t)of.rows * of.cols > most ? (uint64_t)of.rows * of.cols : most;
    int status = room_make(&room, most, !f->o->public_weights);
    f->split = uvcc_seeded(&f->seeded, f->o->run.seed, INFER_SPLIT_STREAM);
    report_pace_start(&pace, f->o->run.progress);
    for (uint32_t i = 0; status == EXIT_DONE && uvcc_model_weight_at(&f->l.w.shape, i, &of) == 0;
         i++) {
        if (report_pace_due(&pace, i == 0))
            report_line(false, "weight %u/%u  %s  %s", i + 1, f->l.w.count, of.name,
                        report_pace_left(&pace, i, f->l.w.count));
        if (interrupted()) {
            status = EXIT_INTERRUPTED;
            break;
        }
        status = give_weight(f, i, &of, &room);
        staged += (uint64_t)of.rows * of.cols * 8;
        if (status == EXIT_DONE && staged >= STAGED_BYTES) {
            status = host_settle(&f->host);
            staged = 0;
        }
    }
    report_line_clear();
    room_free(&room, most);
    return status == EXIT_DONE ? host_settle(&f->host) : status;
}

/* ---- what came of it ---- */

int infer_take_answer(infer *f, const int64_t *opened) {
    infer_answer *a = &f->answer;
    plain_output(&f->p, &a->rows, &a->cols);
    const size_t n = a->rows * a->cols;
    free(a->opened);
    free(a->y);
    a->opened = malloc(n * sizeof *a->opened);
    a->y = malloc(n * sizeof *a->y);
    if (a->opened == NULL || a->y == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    memcpy(a->opened, opened, n * sizeof *opened);
    for (size_t i = 0; i < n; i++)
        a->y[i] = plain_opened(&f->p, opened[i]);
    return EXIT_DONE;
}

static int take_answers(infer *f) {
    infer_answer *a = &f->answer;
    int status = EXIT_DONE;
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
        const int64_t *v =
            uvcc_session_output(f->host.worker[0].party[p].session, 0, UVCC_MODEL_OUT_Y);
        a->learns[p] = v != NULL;
        if (v != NULL && a->opened == NULL)
            status = infer_take_answer(f, v);
        else if (v != NULL && memcmp(a->opened, v, a->rows * a->cols * sizeof *v) != 0)
            status = report_error(EXIT_FAILED, "the parties opened different answers");
    }
    if (status == EXIT_DONE && a->opened == NULL)
        status = host_failed(&f->host, "the answer is not open", UVCC_ERR_STATE);
    return status;
}

/* The beginning of both components that each party has of a tensor. */
static int look(infer *f, const char *name, size_t at, bool of_weights) {
    host_worker *w = &f->host.worker[0];
    const int t = uvcc_program_find(w->program, name);
    const uvcc_tensor_desc *d = t < 0 ? NULL : uvcc_program_tensor_at(w->program, (uint32_t)t);
    if (d == NULL)
        return host_failed(&f->host, name, t);
    const size_t n = (size_t)d->rows * d->cols, bytes = n * 8 - at * 8;
    const size_t shown = bytes < INFER_SEEN_BYTES ? bytes : INFER_SEEN_BYTES;
    uint64_t *part[2] = {malloc(n * 8), malloc(n * 8)};
    int status =
        part[0] != NULL && part[1] != NULL ? EXIT_DONE : report_error(EXIT_FAILED, "out of memory");
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
        status = host_shares(&f->host, w, p, (uint32_t)t, part[0], part[1]);
        for (unsigned i = 0; i < 2 && status == EXIT_DONE; i++)
            memcpy(of_weights ? f->seen[p].weights[i] : f->seen[p].input[i], part[i] + at, shown);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (part[i] != NULL)
            sodium_memzero(part[i], n * 8);
        free(part[i]);
    }
    return status;
}

static int look_at_shares(infer *f) {
    uvcc_model_weight w;
    (void)uvcc_model_weight_at(&f->l.w.shape, f->seen_weight, &w);
    const int status = look(f, "X", f->seen_at, false);
    return status == EXIT_DONE && !f->o->public_weights ? look(f, w.name, 0, true) : status;
}

/* ---- from begin to end ---- */

static int open_host(infer *f) {
    const infer_options *o = f->o;
    const host_config c = {
        .command = "infer",
        .run = &o->run,
        .replicas = 1,
        .stages = 1,
        .tensor_ranks = 1,
        .threads = o->threads,
        .smaller = "fewer tokens or sequences",
        .hooks = {.user = f, .program = make_program, .entry = entry_of, .input = give_input}};
    f->x = plain_input(&f->p);
    if (f->x == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    return host_open(&f->host, &c);
}

int infer_begin(infer *f) {
    int status = open_host(f);
    if (status == EXIT_DONE)
        status = host_start(&f->host);
    if (status == EXIT_DONE)
        status = host_ready(&f->host);
    const uint64_t begun = now_ns();
    if (status == EXIT_DONE)
        status = give_weights(f);
    f->shares_s = (double)(now_ns() - begun) * 1e-9;
    return status;
}

int infer_run(infer *f) {
    int status = infer_begin(f);
    const uint64_t begun = now_ns();
    if (status == EXIT_DONE)
        status = host_run(&f->host, 1, true);
    f->pass_s = (double)(now_ns() - begun) * 1e-9;
    if (status == EXIT_DONE)
        status = take_answers(f);
    if (status == EXIT_DONE && f->o->view)
        status = look_at_shares(f);
    if (status == EXIT_DONE)
        status = host_close(&f->host);
    if (status == EXIT_DONE)
        host_totals_of(&f->host, &f->totals);
    return status == EXIT_INTERRUPTED ? report_error(status, "interrupted; nothing is kept")
                                      : status;
}

void infer_forget(infer *f) {
    plain_free(&f->p);
    model_unload(&f->l);
    free(f->x);
    free(f->answer.opened);
    free(f->answer.y);
}
