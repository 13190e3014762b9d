/* SPDX-License-Identifier: Apache-2.0 */
/* finetune.h - what the files of fine-tuning (uvcc/finetune.h) share. */
#ifndef UVCCI_FINETUNE_H
#define UVCCI_FINETUNE_H

#include "exec/model/transformer.h"

#include <uvcc/finetune.h>

/* The options of the training in the words of transformer.h: one worker. */
uvcc_transformer_config uvcci_ft_training(const uvcc_finetune_config *c);
/* uvcc_finetune_weight_at of a config that was checked. */
int uvcci_ft_weight(const uvcc_finetune_config *c, uint32_t i, uvcc_finetune_weight *out);
/* Whether there is a backward pass. */
static inline bool uvcci_ft_goes_back(const uvcc_finetune_config *c) {
    return c->method != UVCC_FINETUNE_HEAD;
}
/* Blocks of op numbers that a layer takes in a phase, and those that there are. */
uint32_t uvcci_ft_layer_blocks(const uvcc_finetune_config *c);

/* Backward from the gradient by logits. hidden: what the layers and the last norm gave; pooled: of
 * a pool. */
typedef struct uvcci_ft_batch {
    uvcci_tf_batch tf;
    uvcci_tf_norm first; /* of the embeddings */
    uint32_t padding, hidden, pooled;
} uvcci_ft_batch;
void uvcci_ft_backward(uvcci_tf_builder *b, const uvcc_finetune_config *c, uvcci_ft_batch *batch);

#endif
