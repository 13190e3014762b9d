/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the options of `uvcc train --model transformer` and `uvcc generate`. */
#ifndef UVCC_TOOLS_LM_OPTIONS_H
#define UVCC_TOOLS_LM_OPTIONS_H

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
    uint32_t replicas, stages, tensor, ahead;
    uint32_t truncation, index, sks, transcript, reveal;
    bool check, sks_override, extend, force;
    uint32_t model; /* the value of --model */
} lm_options;

/* As options_parse(). */
int lm_options_parse(lm_options *out, int argc, char *const *argv, char *message,
                     size_t message_cap);
void lm_options_print_help(FILE *to);

#endif
