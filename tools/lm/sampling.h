/* SPDX-License-Identifier: Apache-2.0 */
/* sampling.h - sampling text from a model that is kept as shares, whoever runs it: the options, the
 * program's configuration, the shares of all workers' parts put together to those of one worker per
 * party, and what a step is given.
 *
 * A step takes the window of bytes so far from the prompt's owner, and opens to it the place of the
 * greatest sum of logit and noise: with Gumbel noise times the temperature that is a sample of the
 * softmax (E. J. Gumbel, 1954). The parties draw the noise jointly and nobody knows it. Neither
 * logits nor probabilities are opened. */
#ifndef UVCC_TOOLS_LM_SAMPLING_H
#define UVCC_TOOLS_LM_SAMPLING_H

#include <uvcc/transformer.h>
#include <uvcc/uvcc.h>

#include "../flags.h"

typedef struct lm_sampling {
    uint32_t length; /* bytes */
    double temperature;
} lm_sampling;
#define LM_SAMPLING_DEFAULTS                                                                       \
    { .length = 200, .temperature = 0.7 }
#define LM_SAMPLING_FLAGS(AT)                                                                      \
    {"length", "N", FLAG_COUNT, AT(sampling.length), 1, 1000000, NULL, "bytes to sample (200)"}, { \
        "temperature", "X", FLAG_REAL, AT(sampling.temperature), 0, 8, NULL,                       \
            "0: always the likeliest byte; 1: as the model's probabilities say (0.7)"              \
    }

/* Of one worker per party that has the whole of a kept model. */
uvcc_transformer_config lm_sampling_config(const uvcc_transformer_config *kept);
/* The tensor "temperature". */
int64_t lm_sampling_temperature(const uvcc_transformer_config *cfg, double x);
/* The tensor "select", for a text of `len` bytes (1 or more): the row that the next byte follows.
 * `out` has context values. */
void lm_sampling_select(const uvcc_transformer_config *cfg, size_t len, int64_t *out);
/* The prompt's input: the text's last bytes. `out` has context * VOCAB values. */
void lm_sampling_window(const uvcc_transformer_config *cfg, const uint8_t *text, size_t len,
                        int64_t *out);

/* One party's shares of a whole model. */
typedef struct lm_shares {
    const uvcc_transformer_config *cfg; /* as it was trained */
    uint64_t *lo, *hi;                  /* in global order of weights */
    uint64_t *part_lo, *part_hi;        /* room for the largest */
} lm_shares;
/* A worker's checkpoint: an exit status after reporting; *bytes is wiped and free()d. */
typedef int (*lm_share_fn)(void *user, const uvcc_transformer_worker *at, uint8_t **bytes,
                           size_t *len);
/* All workers of replica 0: the others have the same. `where` begins messages. An exit status after
 * reporting; lm_shares_free() follows in any case. */
int lm_shares_gather(lm_shares *to, const uvcc_transformer_config *cfg, unsigned party,
                     const char *where, lm_share_fn load, void *user);
/* Hands them to the session of a worker that has the whole model. An exit status after reporting.
 */
int lm_shares_set(const lm_shares *from, const uvcc_program *p, uvcc_session *s);
/* Wipes them. */
void lm_shares_free(lm_shares *s);

#endif
