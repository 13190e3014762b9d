/* SPDX-License-Identifier: Apache-2.0 */
/* model_ends.h - what stands before and behind a model's layers. */
#ifndef UVCCI_MODEL_ENDS_H
#define UVCCI_MODEL_ENDS_H

#include "exec/model/transformer.h"

/* uvcc_model_emit() of what stands before the layers alone, from x to hidden states; and of what
 * stands behind them. What they are given was checked. */
int uvcci_model_emit_begin(const uvcc_model_config *c, uvcc_emit *e, const uint32_t *weights,
                           uint32_t x, uint32_t *out, const uvcci_message *m);
int uvcci_model_emit_finish(const uvcc_model_config *c, uvcc_emit *e, const uint32_t *weights,
                            uint32_t x, uint32_t padding, uint32_t *out, const uvcci_message *m);
/* One worker, nothing kept for a backward pass; names, and ops' numbers, go on from those of e. */
uvcci_tf_builder uvcci_model_builder(const uvcc_model_config *c, const uvcc_emit *e,
                                     const uint32_t *weights);
/* Where there is no token, what takes a score below all others; else 0. Its bits are those of a
 * score with it. */
void uvcci_model_take_padding(uvcci_tf_builder *b, uint32_t padding);
/* The table of rotary positions, a constant that all layers have in common, if the model has them.
 */
void uvcci_model_take_rotary(uvcci_tf_builder *b);
/* x with learned positions, if the model has them. */
uint32_t uvcci_model_add_positions(uvcci_tf_builder *b, uint32_t x);
/* Hidden states of one-hot tokens (uvcc_model_inputs), without positions. */
uint32_t uvcci_model_embed(uvcci_tf_builder *b, uint32_t tokens);
/* Rows from `first` on of each sequence. */
uint32_t uvcci_model_rows_of(uvcci_tf_builder *b, uint32_t x, uint32_t first, uint32_t rows);
/* x with y for, or with y added to, the rows from `first` on of each sequence (UVCC_OP_PUT_ROWS,
 * UVCC_OP_ADD_ROWS), in z; x UVCC_NO_TENSOR: zeros. */
void uvcci_model_rows_op(uvcci_tf_builder *b, uvcc_opcode opcode, uint32_t y, uint32_t x,
                         uint32_t first, uint32_t z);
/* What the description's pool makes of hidden states; it has one. */
uint32_t uvcci_model_pooled(uvcci_tf_builder *b, uint32_t x, uint32_t padding);
/* What the description's head, pool and labels make of hidden states; x where there are none.
 * padding: as the caller gave it, 0 and 1, or UVCC_NO_TENSOR. */
uint32_t uvcci_model_head(uvcci_tf_builder *b, uint32_t x, uint32_t padding);

#endif
