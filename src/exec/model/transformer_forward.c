/* SPDX-License-Identifier: Apache-2.0 */
/* transformer_forward.c - the forward pass of the transformer that trains, as ops: embeddings,
 * layers, the last norm, logits and losses. */
#include "exec/model/transformer.h"

#include <assert.h>
#include <stdio.h>
#include <uvcc/compute.h>

/* Rows of E by one-hot tokens: exact, so nothing is truncated. */
static uint32_t embed(uvcci_tf_builder *b, uint32_t tokens) {
    const uint32_t x = uvcci_tf_values(b, "X", b->own_rows, b->c->dim);
    uvcci_tf_product(b, tokens, uvcci_tf_weight_tensor(b, 0, UVCCI_TF_E), x, 0, false);
    uvcci_tf_add_weight(b, x, 0, UVCCI_TF_P);
    return x;
}

static uint32_t receive(uvcci_tf_builder *b) {
    const uint32_t x = uvcci_tf_values(b, "X", b->own_rows, b->c->dim);
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_RECV_PP, .out_count = 1, .out = {x}});
    return x;
}

uint32_t uvcci_tf_forward(uvcci_tf_builder *b, uvcci_tf_batch *batch) {
    assert(b->layers != 0 && b->first_layer + b->layers <= b->c->layers);
    static const char *const last[] = {"YF", "NF", "RF"};
    char scope[sizeof b->scope];
    snprintf(scope, sizeof scope, "%s", b->scope);
    uvcci_tf_clear_shelves(b);
    uvcci_tf_enter(b, UVCC_FWD, b->mb, UVCCI_TF_BLOCK_IN);
    uint32_t x = b->first_stage ? embed(b, batch->tokens) : receive(b);
    for (uint32_t l = 0; l < b->layers; l++) {
        const uint32_t layer = b->first_layer + l;
        uvcci_tf_enter(b, UVCC_FWD, b->mb, uvcci_tf_layer_block(b, layer));
        uvcci_tf_scope(b, scope, layer);
        x = uvcci_tf_layer_forward(b, &batch->layers[l], layer, x);
    }
    snprintf(b->scope, sizeof b->scope, "%s", scope);
    uvcci_tf_enter(b, UVCC_FWD, b->mb, UVCCI_TF_BLOCK_OUT);
    if (!b->last_stage) {
        uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_SEND_PP, .in_count = 1, .in = {x}});
        return UVCC_NO_TENSOR;
    }
    batch->last = uvcci_tf_normalise(b, last, x, 0, UVCCI_TF_GF, UVCCI_TF_CF);
    if (b->opens_logits)
        b->truncation = uvcci_tf_exact(b);
    return uvcci_tf_linear(b, "L", batch->last.y, 0, UVCCI_TF_WL, UVCCI_TF_NONE);
}

void uvcci_tf_cross_entropy(uvcci_tf_builder *b, uvcci_tf_batch *batch, uint32_t logits,
                            uint32_t *losses) {
    static const char *const names[] = {"DP", "LOSS"};
    const uvcci_tf_numbers *n = &b->n;
    const uint32_t rows = uvcci_tf_desc(b, logits)->rows, cols = uvcci_tf_desc(b, logits)->cols;
    const uint32_t y = uvcci_tf_transient(b, "YT", rows, cols, n->f + 1u, n->f);
    uvcci_tf_local(b, UVCC_OP_SHIFT_LEFT, batch->targets, UVCC_NO_TENSOR, y);
    const uint32_t in[2] = {logits, y};
    uint32_t out[2] = {0};
    uvcci_tf_function(b, UVCC_NL_CROSS_ENTROPY_GRADIENT,
                      (uvcc_nonlinear_options){.loss = losses != NULL}, in, names, out);
    if (losses != NULL)
        *losses = out[1];
    /* the gradient of the mean: the same integers at a finer scale */
    batch->gradient =
        uvcci_tf_transient(b, "DL", rows, cols, uvcci_tf_desc(b, out[0])->bits, n->gradient_scale);
    uvcci_tf_scale(b, out[0], batch->gradient, 1, n->tokens);
}

/* ---- losses ---- */

void uvcci_tf_add_losses(uvcci_tf_builder *b, uint32_t losses, uint32_t ways, uint32_t times) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, losses);
    const unsigned bits = d.bits + uvcci_tf_log2(d.rows / ways), more = uvcci_tf_log2(times);
    const bool first = b->loss == UVCC_NO_TENSOR;
    const uint32_t sums = uvcci_tf_transient(b, first ? "LOSSES" : "LOSS.mb", ways, 1,
                                             first ? bits + more : bits, d.scale);
    uvcci_tf_local(b, UVCC_OP_REDUCE_BIAS_GRAD, losses, UVCC_NO_TENSOR, sums);
    if (first)
        b->loss = sums;
    else
        uvcci_tf_local(b, UVCC_OP_ADD, b->loss, sums, b->loss);
}

/* Each of the group's workers has a column of as many sums as there are workers. Reducing and
 * gathering it gives all of them the total of each row. What is opened is truncated exactly, and
 * opens to the text's owner only: initial weights are public, so that a loss of theirs confirms a
 * guess of the text. */
void uvcci_tf_open_loss(uvcci_tf_builder *b, uint8_t group, uint32_t ways, uint32_t id) {
    uint32_t sum = b->loss;
    if (ways > 1) {
        const uint32_t slice = uvcci_tf_reduce(b, sum, group, ways, 1, 1, "LOSS.own");
        const uvcc_tensor_desc d = *uvcci_tf_desc(b, slice);
        const uint32_t all = uvcci_tf_transient(b, "LOSS.all", ways, 1, d.bits, d.scale);
        uvcci_tf_gather(b, slice, group, all);
        sum = uvcci_tf_transient(b, "LOSS.sum", 1, 1, d.bits + uvcci_tf_log2(ways), d.scale);
        uvcci_tf_local(b, UVCC_OP_REDUCE_BIAS_GRAD, all, UVCC_NO_TENSOR, sum);
    }
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, sum);
    const uint32_t out =
        uvcci_tf_transient(b, "LOSS.out", 1, 1, d.bits - (d.scale - UVCC_TRANSFORMER_LOSS_BITS),
                           UVCC_TRANSFORMER_LOSS_BITS);
    uvcci_tf_truncate(b, sum, out, uvcci_tf_exact(b));
    uvcci_tf_note(b, uvcc_program_output_to(b->p, id, out, b->c->text_owner));
}
