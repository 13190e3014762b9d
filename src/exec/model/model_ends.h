/* SPDX-License-Identifier: Apache-2.0 */
/* model_ends.h - what stands before and behind a model's layers. */
#ifndef UVCCI_MODEL_ENDS_H
#define UVCCI_MODEL_ENDS_H

#include "exec/model/transformer.h"

/* Hidden states of one-hot tokens (uvcc_model_inputs), without positions. */
uint32_t uvcci_model_embed(uvcci_tf_builder *b, uint32_t tokens);
/* What the description's head, pool and labels make of hidden states; x where there are none.
 * padding: as the caller gave it, 0 and 1, or UVCC_NO_TENSOR. */
uint32_t uvcci_model_head(uvcci_tf_builder *b, uint32_t x, uint32_t padding);

#endif
