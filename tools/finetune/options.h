/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the options of `uvcc train --model DIR`. */
#ifndef UVCC_TOOLS_FINETUNE_OPTIONS_H
#define UVCC_TOOLS_FINETUNE_OPTIONS_H

#include "../flags.h"
#include "../run_options.h"

typedef struct ft_options {
    run_options run;
    const char *model, *data, *out, *plot, *checkpoint; /* the last three NULL: not given */
    uint32_t method, labels, pool, rank, adapt;
    uint32_t tokens, batch, microbatches, steps, held_out;
    uint32_t optimizer;
    double lr, clip, weight_decay, final_rate;
    uint32_t warmup;
    uint32_t mode, frac_bits, value_bits, weight_bits, inner_bits;
    uint32_t text_owner, label_owner, receiver;
    bool public_weights, check, ignore_unknown;
    bool pool_given, label_owner_given;
    bool fold;
} ft_options;

/* Of pool: as uvcc_model_pool. */
enum { FT_POOL_FIRST, FT_POOL_TANH, FT_POOL_MEAN };

/* As options_parse(). */
int ft_options_parse(ft_options *out, int argc, char *const *argv, char *message,
                     size_t message_cap);
void ft_options_print_help(FILE *to);
/* A value of an option that has words, "--method": its word. NULL: it has none. */
const char *ft_options_word(const char *option, uint32_t value);
/* The bits of uvcc_finetune_config.adapted that --adapt says. */
uint8_t ft_options_adapted(const ft_options *o);

#endif
