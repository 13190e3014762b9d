/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - see model.h. */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/uvcc.h>

#include "../atomic_file.h"
#include "../report.h"

#define MESSAGE_BYTES 512u

/* Options are in the user's units; the sizes among each other are the library's to check. */
int lm_model_config(uvcc_transformer_config *cfg, const lm_options *o, char *message,
                    size_t message_cap) {
    int rc = uvcc_transformer_default(cfg, sizeof *cfg);
    if (rc != 0)
        return EXIT_FAILED;
    cfg->layers = o->layers;
    cfg->dim = o->dim;
    cfg->heads = o->heads;
    cfg->hidden = o->hidden;
    cfg->context = o->context;
    cfg->block = (uint8_t)o->block;
    cfg->batch = o->batch;
    cfg->microbatches = o->microbatches;
    cfg->replicas = o->replicas;
    cfg->stages = o->stages;
    cfg->tensor_ranks = o->tensor;
    cfg->ahead = o->ahead;
    cfg->recompute = o->recompute;
    cfg->window_mib = o->window;
    cfg->windows = o->tensor; /* the fewest: for uvcc generate, and a step of "eval" */
    cfg->optimizer = (uint8_t)o->optimizer;
    cfg->learning_rate = o->lr;
    cfg->warmup = o->warmup < o->steps ? o->warmup : o->steps;
    cfg->final_rate = o->final_rate;
    cfg->steps = o->steps;
    cfg->clip = o->clip;
    cfg->weight_decay = o->weight_decay;
    cfg->truncation = (uint8_t)o->truncation;
    cfg->exact = (uint8_t)o->index;
    cfg->products = (uint8_t)o->run.products;
    cfg->loss = 1;
    cfg->sks = (uint16_t)o->sks;
    rc = uvcc_transformer_check(cfg, message, message_cap);
    return rc == 0 ? EXIT_DONE : EXIT_BAD_INPUT;
}

size_t lm_model_offset(const uvcc_transformer_config *cfg, uint32_t i) {
    uvcc_transformer_weight w;
    size_t at = 0;
    for (uint32_t k = 0; k < i && uvcc_transformer_weight_at(cfg, k, &w) == 0; k++)
        at += (size_t)w.rows * w.cols;
    return at;
}

int lm_model_program(const uvcc_transformer_config *cfg, const uvcc_transformer_worker *at,
                     uvcc_program **out, char *message, size_t message_cap) {
    const uvcc_allocator al = uvcc_host_allocator();
    char why[MESSAGE_BYTES] = "";
    int rc = uvcc_transformer_program(out, cfg, at, &al, why, sizeof why);
    if (rc == 0)
        return EXIT_DONE;
    if (rc == UVCC_ERR_LIMIT)
        (void)snprintf(message, message_cap,
                       "the program of a worker is too large; give fewer --layers or "
                       "--microbatches, or more --stages");
    else
        (void)snprintf(message, message_cap, "the program cannot be made: %s", why);
    return rc == UVCC_ERR_NOMEM ? EXIT_FAILED : EXIT_BAD_INPUT;
}

int lm_model_room(lm_model *m, const uvcc_transformer_config *cfg) {
    m->cfg = cfg;
    m->weights = calloc((size_t)uvcc_transformer_parameters(cfg), sizeof *m->weights);
    return m->weights != NULL ? EXIT_DONE : report_error(EXIT_FAILED, "out of memory");
}

int lm_model_init(lm_model *m, const uvcc_transformer_config *cfg, uint64_t seed) {
    const int status = lm_model_room(m, cfg);
    if (status != EXIT_DONE)
        return status;
    for (uint32_t i = 0; i < uvcc_transformer_weight_count(cfg); i++)
        uvcc_transformer_initial(cfg, seed, i, m->weights + lm_model_offset(cfg, i));
    return EXIT_DONE;
}

int lm_model_each_state(const lm_model *m, const uvcc_transformer_worker *at, const uvcc_program *p,
                        lm_state_fn fn, void *user) {
    uint32_t tensor;
    int status = EXIT_DONE;
    size_t room = 1;
    for (uint32_t i = 0; i < uvcc_program_tensor_count(p); i++) {
        const uvcc_tensor_desc *t = uvcc_program_tensor_at(p, i);
        if (t->lifetime == UVCC_PERSIST && (size_t)t->rows * t->cols > room)
            room = (size_t)t->rows * t->cols;
    }
    int64_t *v = malloc(room * sizeof *v);
    if (v == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    for (uint32_t i = 0; status == EXIT_DONE; i++) {
        if (uvcc_transformer_state(m->cfg, at, p, i, m->weights, &tensor, v) != 0)
            break;
        status = fn(user, tensor, v);
    }
    free(v);
    return status;
}

void lm_model_put(lm_model *m, const uvcc_transformer_worker *at, uint32_t i, const int64_t *part) {
    uvcc_transformer_put(m->cfg, at, i, part, m->weights + lm_model_offset(m->cfg, i));
}

int lm_model_write(const lm_model *m, const char *option, const char *path) {
    const size_t n = (size_t)uvcc_transformer_parameters(m->cfg);
    int status;
    atomic_file *out = atomic_file_open_own(option, path, &status);
    if (out == NULL)
        return status;
    for (size_t i = 0; i < 8 * n; i++)
        (void)fputc((int)((uint64_t)m->weights[i / 8] >> (8 * (i % 8)) & 0xFF),
                    atomic_file_stream(out));
    status = atomic_file_finish(out);
    atomic_file_close(out);
    return status;
}

void lm_model_free(lm_model *m) {
    free(m->weights);
    m->weights = NULL;
}

/* ---- steps ---- */

size_t lm_input_room(const uvcc_transformer_config *cfg) {
    return (size_t)cfg->batch * cfg->context * UVCC_TRANSFORMER_VOCAB;
}

void lm_fill_input(const uvcc_transformer_config *cfg, uint64_t seed, uint32_t step,
                   const uvcc_transformer_worker *at, const lm_text *text, uint32_t id,
                   int64_t *out) {
    const bool next = id >= UVCC_TRANSFORMER_IN_TARGETS;
    const uint32_t mb = id - (next ? UVCC_TRANSFORMER_IN_TARGETS : UVCC_TRANSFORMER_IN_TOKENS);
    uint32_t first, count;
    uvcc_transformer_rows(cfg, at, mb, &first, &count);
    for (uint32_t row = first; row < first + count; row++) {
        uint64_t from = uvcc_transformer_sequence(cfg, seed, step, row / cfg->context, text->len);
        uvcc_transformer_one_hot(text->bytes + from + row % cfg->context + next, 1, out);
        out += UVCC_TRANSFORMER_VOCAB;
    }
}

double lm_loss(const uvcc_transformer_config *cfg, int64_t sum) {
    return ldexp((double)sum, -(int)UVCC_TRANSFORMER_LOSS_BITS) / cfg->batch / cfg->context;
}

bool lm_loss_possible(double loss) {
    enum { ROUNDING_PARTS = 100, MOST = 64 }; /* of a nat below 0; nats */
    return loss >= -1.0 / ROUNDING_PARTS && loss <= MOST;
}

double lm_final_loss(const double *loss, uint32_t count) {
    const uint32_t n = (count + 9) / 10;
    double sum = 0;
    for (uint32_t i = count - n; i < count; i++)
        sum += loss[i];
    return n != 0 ? sum / n : NAN;
}

/* ---- the plaintext run ---- */

typedef struct plain {
    const uvcc_transformer_config *cfg;
    uvcc_program *program;
    uvcc_reference *reference;
    int64_t *input;
    char message[MESSAGE_BYTES];
} plain;

static int set_reference(void *user, uint32_t tensor, const int64_t *v) {
    int rc = uvcc_reference_set(user, tensor, v);
    return rc == 0 ? EXIT_DONE
                   : report_error(EXIT_FAILED, "the plaintext run: %s", uvcc_error_text(rc));
}

static int plain_step(plain *p, const char *entry, const lm_options *o, const lm_text *text,
                      uint32_t step) {
    const uvcc_transformer_worker at = {0};
    const uint32_t e = (uint32_t)uvcc_program_find_entry(p->program, entry);
    for (uint32_t i = 0; i < uvcc_program_input_count(p->program, e); i++) {
        const uvcc_io_desc *in = uvcc_program_input_at(p->program, e, i);
        lm_fill_input(p->cfg, o->run.seed, step, &at, text, in->id, p->input);
        int rc = uvcc_reference_set(p->reference, in->tensor, p->input);
        if (rc != 0)
            return rc;
    }
    const int64_t rate = uvcc_transformer_rate(p->cfg, step);
    int rc =
        uvcc_reference_set(p->reference, (uint32_t)uvcc_program_find(p->program, "rate"), &rate);
    return rc != 0 ? rc : uvcc_reference_step(p->reference, e, p->message, sizeof p->message);
}

static bool same_weights(const plain *p, const lm_model *m) {
    const uint32_t e = (uint32_t)uvcc_program_find_entry(p->program, "reveal");
    for (uint32_t i = 0; i < uvcc_program_output_count(p->program, e); i++) {
        const uvcc_io_desc *out = uvcc_program_output_at(p->program, e, i);
        const uvcc_tensor_desc *t = uvcc_program_tensor_at(p->program, out->tensor);
        if (memcmp(uvcc_reference_get(p->reference, out->tensor),
                   m->weights + lm_model_offset(m->cfg, out->id - UVCC_TRANSFORMER_OUT_WEIGHT),
                   (size_t)t->rows * t->cols * sizeof(int64_t)) != 0)
            return false;
    }
    return true;
}

static int plain_train(plain *p, const lm_options *o, const lm_text *text) {
    int rc = 0;
    for (uint32_t step = 0; step < o->steps && rc == 0; step++)
        rc = plain_step(p, "train", o, text, step);
    return rc == 0 ? plain_step(p, "reveal", o, text, o->steps) : rc;
}

/* On one worker with one microbatch: the weights must not depend on how the work was split. */
int lm_model_check(const lm_model *m, const lm_options *o, const uvcc_transformer_config *cfg,
                   const lm_text *text, bool *equal) {
    const uvcc_allocator al = uvcc_host_allocator();
    const uvcc_transformer_worker at = {0};
    uvcc_transformer_config one = *cfg;
    one.replicas = one.stages = one.tensor_ranks = one.microbatches = 1;
    one.products = UVCC_PRODUCTS_NATIVE;
    plain p = {.cfg = &one};
    lm_model first = {0};
    int status = lm_model_init(&first, &one, o->run.seed);
    int rc = status != EXIT_DONE ? UVCC_ERR_NOMEM
                                 : uvcc_transformer_program(&p.program, &one, &at, &al, p.message,
                                                            sizeof p.message);
    if (rc == 0)
        rc = uvcc_reference_new(&p.reference, p.program, &al);
    p.input = malloc(lm_input_room(cfg) * sizeof *p.input);
    if (p.input == NULL)
        rc = UVCC_ERR_NOMEM;
    if (rc == 0)
        status = lm_model_each_state(&first, &at, p.program, set_reference, p.reference);
    if (rc == 0 && status == EXIT_DONE)
        rc = plain_train(&p, o, text);
    if (rc == 0 && status == EXIT_DONE)
        *equal = same_weights(&p, m);
    if (rc != 0)
        status = report_error(EXIT_FAILED, "the plaintext run: %s%s%s", uvcc_error_text(rc),
                              p.message[0] != '\0' ? ": " : "", p.message);
    free(p.input);
    lm_model_free(&first);
    uvcc_reference_free(p.reference);
    uvcc_program_free(p.program);
    return status;
}
