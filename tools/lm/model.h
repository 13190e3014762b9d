/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - a language model as its jobs have it, whoever runs them: the options as the program's
 * configuration, a worker's program and first state, the rows of its inputs, the whole model's
 * weights, the loss. */
#ifndef UVCC_TOOLS_LM_MODEL_H
#define UVCC_TOOLS_LM_MODEL_H

#include <uvcc/transformer.h>

#include "options.h"
#include "text.h"

typedef struct lm_model {
    const uvcc_transformer_config *cfg;
    int64_t *weights; /* in global order */
} lm_model;

/* An exit status, with one line in message. */
int lm_model_config(uvcc_transformer_config *cfg, const lm_options *o, char *message,
                    size_t message_cap);
int lm_model_program(const uvcc_transformer_config *cfg, const uvcc_transformer_worker *at,
                     uvcc_program **out, char *message, size_t message_cap);

/* These return an exit status after reporting. Room for weights, all 0: */
int lm_model_room(lm_model *m, const uvcc_transformer_config *cfg);
/* The initial weights: */
int lm_model_init(lm_model *m, const uvcc_transformer_config *cfg, uint64_t seed);
/* Calls with every tensor of a worker's initial state, until it returns something else than
 * EXIT_DONE. */
typedef int (*lm_state_fn)(void *user, uint32_t tensor, const int64_t *v);
int lm_model_each_state(const lm_model *m, const uvcc_transformer_worker *at, const uvcc_program *p,
                        lm_state_fn fn, void *user);
/* The same training in plaintext fixed point on one worker; *equal: its weights are m's. */
int lm_model_check(const lm_model *m, const lm_options *o, const uvcc_transformer_config *cfg,
                   const lm_text *text, bool *equal);
/* As --weights has them, into the file that the option names; `option` as in atomic_file.h. */
int lm_model_write(const lm_model *m, const char *option, const char *path);
/* A worker's part of weight i goes to its place. */
void lm_model_put(lm_model *m, const uvcc_transformer_worker *at, uint32_t i, const int64_t *part);
/* Where weight i begins among the weights. */
size_t lm_model_offset(const uvcc_transformer_config *cfg, uint32_t i);
void lm_model_free(lm_model *m);

/* The rows of input `id` of "train" of a worker: one-hot vectors of the sequences' bytes, or of
 * those that follow them. `out` has room for lm_input_room() elements. */
void lm_fill_input(const uvcc_transformer_config *cfg, uint64_t seed, uint32_t step,
                   const uvcc_transformer_worker *at, const lm_text *text, uint32_t id,
                   int64_t *out);
size_t lm_input_room(const uvcc_transformer_config *cfg);
/* What "train" opens, in nats per byte. */
double lm_loss(const uvcc_transformer_config *cfg, int64_t sum);
/* False of a sum that no model's values within their bounds have: it is of words that wrapped. */
bool lm_loss_possible(double loss);
/* Mean of the last tenth of a list, rounded up; NAN of none. */
double lm_final_loss(const double *loss, uint32_t count);

#endif
