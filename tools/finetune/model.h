/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - a checkpoint as fine-tuning has it: the configuration of its program, and all weights
 * as fixed-point integers. */
#ifndef UVCC_TOOLS_FINETUNE_MODEL_H
#define UVCC_TOOLS_FINETUNE_MODEL_H

#include <uvcc/finetune.h>

#include "../model/model.h"
#include "data.h"

typedef struct ft_model {
    loaded from; /* its weights are of the checkpoint's own list */
    uvcc_finetune_config cfg;
    uint32_t count; /* of weights, uvcc_finetune_weight_at */
    uvcc_finetune_weight *weight;
    uint32_t kept;   /* of these the checkpoint has so many: the first */
    size_t *at;      /* where each begins in values; [count] is the end */
    int64_t *values; /* initial ones, then those of trained weights as they were opened */
    uint64_t elements, trained;
} ft_model;

/* An exit status after reporting. Reads data, too, of which d was looked at. */
int ft_model_load(ft_model *out, ft_data *d, const ft_options *o);
/* Whether all know the initial values: of a public checkpoint, and of what is new. */
bool ft_model_known(const ft_model *m, uint32_t i);
/* SHA-256 of the trained weights in their order, row by row, each value an LE64. */
void ft_model_hash(const ft_model *m, uint8_t out[32]);
/* The trained weights as a safetensors file. An exit status after reporting. */
int ft_model_write(const ft_model *m, const char *path);
void ft_model_free(ft_model *m);

/* Rows of an input of the program: `row` says which of the data's come. */
typedef uint32_t (*ft_row_fn)(void *user, uint32_t i);
void ft_model_input(const ft_model *m, const ft_data *d, uint32_t id, ft_row_fn row, void *user,
                    int64_t *out);
/* Elements of the largest input. */
size_t ft_model_room(const ft_model *m);

#endif
