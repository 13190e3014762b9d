/* SPDX-License-Identifier: Apache-2.0 */
/* data.h - rows of tokens and what is to be learned of them, as --data has them. */
#ifndef UVCC_TOOLS_FINETUNE_DATA_H
#define UVCC_TOOLS_FINETUNE_DATA_H

#include "../model/input.h"
#include "options.h"

typedef struct ft_data {
    uint32_t rows, tokens; /* tokens: that go in, of each row */
    bool labelled;
    uint32_t labels;  /* one more than the greatest */
    int64_t *target;  /* rows, or rows x tokens: a label, or the next token */
    model_input in;   /* after ft_data_read() */
    uint32_t *order;  /* of an epoch */
    uint32_t epoch;   /* whose order it is */
    uint32_t learned; /* rows that are learned from: the first */
} ft_data;

/* What the file is, before the checkpoint is read for it. All return 0, or -1 and a line. */
int ft_data_look(ft_data *d, const ft_options *o, const flag_message *m);
/* The rows, for the model. */
int ft_data_read(ft_data *d, const ft_options *o, const weights *w, const flag_message *m);
/* The row that comes as number `n` of all that are learned from: each epoch has all of them once,
 * in an order that follows from the seed. */
uint32_t ft_data_row(ft_data *d, uint64_t seed, uint64_t n);
void ft_data_free(ft_data *d);

#endif
