/* options.h - the options of `uvcc train --model transformer` and `uvcc generate`. */
#ifndef UVCC_TOOLS_LM_OPTIONS_H
#define UVCC_TOOLS_LM_OPTIONS_H

#include <uvcc/loopback.h>

#include "../flags.h"

typedef struct lm_options {
    const char *text; /* NULL: the built-in corpus */
    const char *json, *audit, *plot, *trace, *checkpoint, *weights;
    uint32_t layers, dim, heads, hidden, context;
    uint32_t batch, microbatches, steps;
    uint32_t block, optimizer, products;
    double lr, clip, weight_decay, final_rate;
    uint32_t warmup;
    uint32_t replicas, stages, tensor, ahead;
    uint32_t truncation, index, sks, transcript, reveal;
    uint32_t compute;
    uint64_t seed, compute_seed, fault_seed;
    uvcc_fault_config faults; /* drop, duplicate, reorder, corrupt */
    bool check, sks_override, profile, progress, help;
    uint32_t model; /* the value of --model */
} lm_options;

/* As options_parse(). */
int lm_options_parse(lm_options *out, int argc, char *const *argv, char *message,
                     size_t message_cap);
void lm_options_print_help(FILE *to);

#endif
