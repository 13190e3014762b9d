/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - the whole model's weights, and the options as the program's configuration. */
#ifndef UVCC_TOOLS_LM_MODEL_H
#define UVCC_TOOLS_LM_MODEL_H

#include "job.h"
#include "text.h"

typedef struct lm_model {
    const uvcc_transformer_config *cfg;
    int64_t *weights; /* in global order */
} lm_model;

/* An exit status, with one line in message. */
int lm_model_config(uvcc_transformer_config *cfg, const lm_options *o, char *message,
                    size_t message_cap);

/* These return an exit status after reporting. The initial weights: */
int lm_model_init(lm_model *m, const uvcc_transformer_config *cfg, uint64_t seed);
/* ... as public values of every worker. */
int lm_model_set(const lm_model *m, job *j);
/* The weights that the last step opened. */
int lm_model_gather(lm_model *m, const job *j);
/* The same training in plaintext fixed point on one worker; *equal: its weights are m's. */
int lm_model_check(const lm_model *m, const lm_options *o, const uvcc_transformer_config *cfg,
                   const lm_text *text, bool *equal);
/* Where weight i begins among the weights. */
size_t lm_model_offset(const uvcc_transformer_config *cfg, uint32_t i);
void lm_model_free(lm_model *m);

/* rows [first, first + count) of a step's input: one-hot vectors of the sequences' bytes, or, with
 * `next`, of those that follow them. */
void lm_fill_rows(const uvcc_transformer_config *cfg, uint64_t seed, uint32_t step,
                  const lm_text *text, bool next, uint32_t first, uint32_t count, int64_t *out);

#endif
