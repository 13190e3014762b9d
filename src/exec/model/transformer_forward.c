/* SPDX-License-Identifier: Apache-2.0 */
/* transformer_forward.c - the forward pass as ops: embeddings, layers, the last norm, logits and
 * losses.
 *
 * Tensor ranks cut the residual stream by rows, so norms, residuals and the biases of the stream
 * work on own rows; attention and MLP see all rows of the microbatch and this rank's heads and
 * units. */
#include "exec/model/transformer.h"

#include <assert.h>
#include <stdio.h>
#include <uvcc/compute.h>

static void bias(uvcci_tf_builder *b, uint32_t x, uint32_t layer, uvcci_tf_slot slot) {
    const uvcci_tf_held *h = uvcci_tf_held_weight(b, layer, slot);
    if (h != NULL)
        uvcci_tf_local(b, UVCC_OP_BIAS_ADD, x, h->tensor, x);
}

/* x W + bias. */
static uint32_t linear(uvcci_tf_builder *b, const char *name, uint32_t x, uint32_t layer,
                       uvcci_tf_slot weight, uvcci_tf_slot bias_slot) {
    const uint32_t w = uvcci_tf_weight_tensor(b, layer, weight);
    const uint32_t z =
        uvcci_tf_values(b, name, uvcci_tf_desc(b, x)->rows, uvcci_tf_desc(b, w)->cols);
    uvcci_tf_product(b, x, w, z, 0, false);
    bias(b, z, layer, bias_slot);
    return z;
}

/* The same where ranks hold rows of W: the sum of their products, of which each keeps its own rows.
 */
static uint32_t linear_sum(uvcci_tf_builder *b, const char *name, const char *parts, uint32_t x,
                           uint32_t layer, uvcci_tf_slot weight, uvcci_tf_slot bias_slot) {
    const uint32_t w = uvcci_tf_weight_tensor(b, layer, weight), dim = b->c->dim;
    const uint32_t z = uvcci_tf_values(b, name, b->own_rows, dim);
    if (b->c->tensor_ranks == 1) {
        uvcci_tf_product(b, x, w, z, 0, false);
    } else {
        char own[32];
        snprintf(own, sizeof own, "%s.own", parts);
        uint32_t sum = uvcci_tf_add_product(b, UVCC_NO_TENSOR, x, w, 0, 1, parts);
        sum = uvcci_tf_reduce(b, sum, UVCC_GROUP_TP, b->c->tensor_ranks, b->own_rows, dim, own);
        uvcci_tf_truncate(b, sum, z, b->truncation);
    }
    bias(b, z, layer, bias_slot);
    return z;
}

static uvcci_tf_norm norm(uvcci_tf_builder *b, const char *const names[3], uint32_t x,
                          uint32_t layer, uvcci_tf_slot gain, uvcci_tf_slot shift) {
    const bool centred = uvcci_tf_layer_norm(b->c);
    uint32_t in[3] = {x, uvcci_tf_weight_tensor(b, layer, gain), 0}, out[3] = {0};
    if (centred)
        in[2] = uvcci_tf_weight_tensor(b, layer, shift);
    uvcci_tf_function(b, centred ? UVCC_NL_LAYERNORM : UVCC_NL_RMSNORM,
                      (uvcc_nonlinear_options){.saved = true, .epsilon = UVCCI_TF_NORM_EPSILON}, in,
                      names, out);
    return (uvcci_tf_norm){out[0], out[1], out[2]};
}

/* ---- layers ---- */

static uvcc_nonlinear activation_of(const uvcc_transformer_config *c) {
    return c->block == UVCC_BLOCK_SWIGLU ? UVCC_NL_SILU
           : c->block == UVCC_BLOCK_GPT2 ? UVCC_NL_GELU_TANH
                                         : UVCC_NL_GELU;
}

static void mlp(uvcci_tf_builder *b, uvcci_tf_layer *l, uint32_t layer) {
    static const char *const names[] = {"A", "D"};
    uint32_t out[2] = {0};
    const uint32_t h = linear(b, "H", l->x2, layer, UVCCI_TF_W1, UVCCI_TF_B1);
    uvcci_tf_function(b, activation_of(b->c),
                      (uvcc_nonlinear_options){.derivative = b->derivatives}, &h, names, out);
    l->act = l->g = out[0];
    l->slope = out[1];
    if (b->c->block != UVCC_BLOCK_SWIGLU)
        return;
    l->up = linear(b, "U", l->x2, layer, UVCCI_TF_WU, UVCCI_TF_NONE);
    l->g = uvcci_tf_values(b, "G", b->rows, b->n.rank_hidden);
    uvcci_tf_times(b, UVCC_OP_ELEM_MUL, l->act, l->up, l->g, 0, 0);
}

/* Up to the attention: of x, the layer's input in own rows. */
static void project(uvcci_tf_builder *b, uvcci_tf_layer *l, uint32_t layer, uint32_t x) {
    static const char *const names[] = {"Y1", "N1", "R1"};
    l->n1 = norm(b, names, x, layer, UVCCI_TF_G1, UVCCI_TF_C1);
    l->x1 = uvcci_tf_all_rows(b, "X1", l->n1.y);
    l->q = linear(b, "Q", l->x1, layer, UVCCI_TF_WQ, UVCCI_TF_BQ);
    l->k = linear(b, "K", l->x1, layer, UVCCI_TF_WK, UVCCI_TF_BK);
    l->v = linear(b, "V", l->x1, layer, UVCCI_TF_WV, UVCCI_TF_BV);
}

/* From the attention to the MLP's last product; returns the residual stream between. */
static uint32_t combine(uvcci_tf_builder *b, uvcci_tf_layer *l, uint32_t layer, uint32_t x) {
    static const char *const names[] = {"Y2", "N2", "R2"};
    const uint32_t y = linear_sum(b, "Y", "Y.sum", l->o, layer, UVCCI_TF_WO, UVCCI_TF_BO);
    uvcci_tf_local(b, UVCC_OP_ADD, y, x, y);
    l->n2 = norm(b, names, y, layer, UVCCI_TF_G2, UVCCI_TF_C2);
    l->x2 = uvcci_tf_all_rows(b, "X2", l->n2.y);
    mlp(b, l, layer);
    return y;
}

/* x, the layer's input in own rows, becomes its output. */
static uint32_t layer_forward(uvcci_tf_builder *b, uvcci_tf_layer *l, uint32_t layer, uint32_t x) {
    l->x = x;
    project(b, l, layer, x);
    uvcci_tf_attention(b, l);
    const uint32_t y = combine(b, l, layer, x);
    const uint32_t z = linear_sum(b, "Z", "Z.sum", l->g, layer, UVCCI_TF_W2, UVCCI_TF_B2);
    uvcci_tf_local(b, UVCC_OP_ADD, z, y, z);
    return z;
}

void uvcci_tf_recompute(uvcci_tf_builder *b, uvcci_tf_layer *l, uint32_t layer, uint32_t x) {
    b->derivatives = true;
    project(b, l, layer, x);
    combine(b, l, layer, x);
    b->derivatives = false;
}

/* ---- ends ---- */

/* Rows of E by one-hot tokens: exact, so nothing is truncated. */
static uint32_t embed(uvcci_tf_builder *b, uint32_t tokens) {
    const uint32_t x = uvcci_tf_values(b, "X", b->own_rows, b->c->dim);
    uvcci_tf_product(b, tokens, uvcci_tf_weight_tensor(b, 0, UVCCI_TF_E), x, 0, false);
    uvcci_tf_local(b, UVCC_OP_BIAS_ADD, x, uvcci_tf_weight_tensor(b, 0, UVCCI_TF_P), x);
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
        x = layer_forward(b, &batch->layers[l], layer, x);
    }
    snprintf(b->scope, sizeof b->scope, "%s", scope);
    uvcci_tf_enter(b, UVCC_FWD, b->mb, UVCCI_TF_BLOCK_OUT);
    if (!b->last_stage) {
        uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_SEND_PP, .in_count = 1, .in = {x}});
        return UVCC_NO_TENSOR;
    }
    batch->last = norm(b, last, x, 0, UVCCI_TF_GF, UVCCI_TF_CF);
    if (b->opens_logits)
        b->truncation = uvcci_tf_exact(b);
    return linear(b, "L", batch->last.y, 0, UVCCI_TF_WL, UVCCI_TF_NONE);
}

void uvcci_tf_cross_entropy(uvcci_tf_builder *b, uvcci_tf_batch *batch, uint32_t logits,
                            uint32_t *losses) {
    static const char *const names[] = {"DP", "LOSS"};
    const uvcci_tf_numbers *n = &b->n;
    const uint32_t rows = b->own_rows, cols = UVCC_TRANSFORMER_VOCAB;
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
