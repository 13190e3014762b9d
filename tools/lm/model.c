/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - see model.h. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

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

int lm_model_init(lm_model *m, const uvcc_transformer_config *cfg, uint64_t seed) {
    m->cfg = cfg;
    m->weights = calloc((size_t)uvcc_transformer_parameters(cfg), sizeof *m->weights);
    if (m->weights == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    for (uint32_t i = 0; i < uvcc_transformer_weight_count(cfg); i++)
        uvcc_transformer_initial(cfg, seed, i, m->weights + lm_model_offset(cfg, i));
    return EXIT_DONE;
}

/* Calls with every tensor of a worker's initial state. */
typedef int (*state_fn)(void *user, uint32_t tensor, const int64_t *v);
static int each_state(const lm_model *m, const uvcc_transformer_worker *at, const uvcc_program *p,
                      state_fn fn, void *user) {
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

struct target {
    job *j;
    host_worker *w;
};
static int set_session(void *user, uint32_t tensor, const int64_t *v) {
    struct target *t = user;
    return host_set_public(&t->j->host, t->w, tensor, v);
}

int lm_model_set(const lm_model *m, job *j) {
    int status = EXIT_DONE;
    for (uint32_t i = 0; i < j->host.workers && status == EXIT_DONE; i++) {
        host_worker *w = &j->host.worker[i];
        const uvcc_transformer_worker at = job_place(w);
        status = each_state(m, &at, w->program, set_session, &(struct target){j, w});
    }
    return status;
}

int lm_model_gather(lm_model *m, const job *j) {
    for (uint32_t i = 0; i < uvcc_transformer_weight_count(m->cfg); i++) {
        bool found = false;
        for (uint32_t k = 0; k < j->host.workers; k++) {
            const host_worker *w = &j->host.worker[k];
            const uvcc_transformer_worker at = job_place(w);
            const int64_t *part = job_output(j, w, UVCC_TRANSFORMER_OUT_WEIGHT + i);
            if (part == NULL)
                continue;
            uvcc_transformer_put(m->cfg, &at, i, part, m->weights + lm_model_offset(m->cfg, i));
            found = true;
        }
        if (!found)
            return report_error(EXIT_FAILED, "weight %u is not open", i);
    }
    return EXIT_DONE;
}

void lm_model_free(lm_model *m) {
    free(m->weights);
    m->weights = NULL;
}

void lm_fill_rows(const uvcc_transformer_config *cfg, uint64_t seed, uint32_t step,
                  const lm_text *text, bool next, uint32_t first, uint32_t count, int64_t *out) {
    for (uint32_t row = first; row < first + count; row++) {
        uint64_t at = uvcc_transformer_sequence(cfg, seed, step, row / cfg->context, text->len);
        uvcc_transformer_one_hot(text->bytes + at + row % cfg->context + next, 1, out);
        out += UVCC_TRANSFORMER_VOCAB;
    }
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
        const bool next = in->id >= UVCC_TRANSFORMER_IN_TARGETS;
        uint32_t first, count;
        uvcc_transformer_rows(
            p->cfg, &at, in->id - (next ? UVCC_TRANSFORMER_IN_TARGETS : UVCC_TRANSFORMER_IN_TOKENS),
            &first, &count);
        lm_fill_rows(p->cfg, o->run.seed, step, text, next, first, count, p->input);
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
    p.input = malloc((size_t)cfg->batch * cfg->context * UVCC_TRANSFORMER_VOCAB * sizeof *p.input);
    if (p.input == NULL)
        rc = UVCC_ERR_NOMEM;
    if (rc == 0)
        status = each_state(&first, &at, p.program, set_reference, p.reference);
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
