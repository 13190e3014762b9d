/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the options of `uvcc train --model transformer` and `uvcc generate`. */
#ifndef UVCC_TOOLS_LM_OPTIONS_H
#define UVCC_TOOLS_LM_OPTIONS_H

#include <jansson.h>

#include "../flags.h"
#include "../run_options.h"

typedef struct lm_options {
    run_options run;
    const char *text;                                 /* NULL: the built-in corpus */
    const char *plot, *checkpoint, *weights, *record; /* NULL: not given */
    uint32_t layers, dim, heads, hidden, context;
    uint32_t batch, microbatches, steps;
    uint32_t block, optimizer;
    double lr, clip, weight_decay, final_rate;
    uint32_t warmup;
    uint32_t replicas, stages, tensor, ahead, window;
    uint32_t truncation, index, sks, transcript, reveal;
    bool recompute, check, sks_override, extend, force;
    uint32_t model; /* the value of --model */
} lm_options;

/* As options_parse(). */
int lm_options_parse(lm_options *out, int argc, char *const *argv, char *message,
                     size_t message_cap);
void lm_options_print_help(FILE *to);

/* The same of a job between parties: from the members of its "run", named as the options, with what
 * stands beside it. `job` is where the whole stands: "job"; `more`: as flags_take_json(). */
typedef struct lm_split {
    uint32_t replicas, stages, tensor_ranks, microbatches, sks;
} lm_split;
int lm_options_of_job(lm_options *out, const char *job, const json_t *run, const lm_split *split,
                      const char *const *more, char *message, size_t message_cap);
/* A line that names options, in the words of such a job. */
void lm_options_job_words(const char *job, char *message, size_t message_cap);

#endif
