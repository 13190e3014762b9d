/* SPDX-License-Identifier: Apache-2.0 */
/* transformer_backward.c - the backward pass as ops, from the saved values of the forward pass.
 *
 * Gradients of weights are summed over microbatches without a truncation. Sums are exact, so how
 * the batch is cut does not show. */
#include "exec/model/transformer.h"

#include <assert.h>
#include <stdio.h>
#include <uvcc/compute.h>

/* ---- gradients of weights ---- */

/* A weight's sum stays to the end of the step, so it has a buffer of its own. */
static uvcci_tf_shelf *leave_shelf_for(uvcci_tf_builder *b, const uvcci_tf_held *h) {
    uvcci_tf_shelf *shelf = b->shelf;
    if (h->sum == UVCC_NO_TENSOR)
        b->shelf = NULL;
    return shelf;
}

/* + a^T g. */
static void add_matrix(uvcci_tf_builder *b, uint32_t layer, uvcci_tf_slot slot, uint32_t a,
                       uint32_t g) {
    uvcci_tf_held *h = uvcci_tf_held_weight(b, layer, slot);
    uvcci_tf_shelf *shelf = leave_shelf_for(b, h);
    h->sum = uvcci_tf_add_product(b, h->sum, a, g, UVCC_OP_TRANS_A, b->c->microbatches,
                                  uvcci_tf_sum_name(b, h));
    b->shelf = shelf;
}

/* + the sums over rows of g: a vector, or rows in turn. */
static void add_rows(uvcci_tf_builder *b, uint32_t layer, uvcci_tf_slot slot, uint32_t g) {
    uvcci_tf_held *h = uvcci_tf_held_weight(b, layer, slot);
    if (h == NULL)
        return;
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, g);
    const unsigned bits = d.bits + uvcci_tf_log2(d.rows / h->part.rows);
    const bool first = h->sum == UVCC_NO_TENSOR;
    uvcci_tf_shelf *shelf = leave_shelf_for(b, h);
    const uint32_t t =
        first ? uvcci_tf_transient(b, uvcci_tf_sum_name(b, h), h->part.rows, h->part.cols,
                                   bits + uvcci_tf_log2(b->c->microbatches), d.scale)
              : uvcci_tf_temporary(b, h->part.rows, h->part.cols, bits, d.scale);
    b->shelf = shelf;
    uvcci_tf_local(b, UVCC_OP_REDUCE_BIAS_GRAD, g, UVCC_NO_TENSOR, t);
    if (first)
        h->sum = t;
    else
        uvcci_tf_local(b, UVCC_OP_ADD, h->sum, t, h->sum);
}

/* ---- parts ---- */

/* A gradient and the weight that it goes back through. */
typedef struct back {
    uint32_t gradient;
    uvcci_tf_slot slot;
} back;

/* sum of g W^T over the list and the ranks, own rows, truncated once. */
static uint32_t through_weights(uvcci_tf_builder *b, const char *name, uint32_t layer,
                                const back *list, unsigned count) {
    char parts[32], own[32];
    uint32_t sum = UVCC_NO_TENSOR;
    snprintf(parts, sizeof parts, "%s.sum", name);
    snprintf(own, sizeof own, "%s.own", name);
    for (unsigned i = 0; i < count; i++)
        sum = uvcci_tf_add_product(b, sum, list[i].gradient,
                                   uvcci_tf_weight_tensor(b, layer, list[i].slot), UVCC_OP_TRANS_B,
                                   count, parts);
    sum = uvcci_tf_reduce(b, sum, UVCC_GROUP_TP, b->c->tensor_ranks, b->own_rows, b->c->dim, own);
    const uint32_t z = uvcci_tf_gradients(b, name, b->own_rows, b->c->dim, 0);
    uvcci_tf_truncate(b, sum, z, b->truncation);
    return z;
}

/* g W^T with this rank's rows of W. */
static uint32_t through_weight(uvcci_tf_builder *b, const char *name, uint32_t layer,
                               uvcci_tf_slot slot, uint32_t g) {
    const uint32_t w = uvcci_tf_weight_tensor(b, layer, slot);
    const uint32_t z =
        uvcci_tf_gradients(b, name, uvcci_tf_desc(b, g)->rows, uvcci_tf_desc(b, w)->rows, 0);
    uvcci_tf_product(b, g, w, z, UVCC_OP_TRANS_B, false);
    return z;
}

static uint32_t times(uvcci_tf_builder *b, const char *name, uvcc_opcode opcode, uint32_t x,
                      uint32_t y, unsigned more) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, x);
    const uint32_t z = uvcci_tf_gradients(b, name, d.rows, d.cols, more);
    uvcci_tf_times(b, opcode, x, y, z, 0, 0);
    return z;
}

/* The mean over each row of g, or of g y. By a power of two it takes one op. */
static uint32_t row_mean(uvcci_tf_builder *b, const char *name, uint32_t g, uint32_t y) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, g);
    unsigned fraction;
    const int64_t c = uvcci_tf_inverse(d.cols, &fraction);
    const uint32_t mean = uvcci_tf_gradients(b, name, d.rows, 1, UVCCI_TF_GRADIENT_MORE);
    if (y != UVCC_NO_TENSOR && c == 1) {
        uvcci_tf_times(b, UVCC_OP_ROW_DOT, g, y, mean, c, fraction);
        return mean;
    }
    const unsigned bits = d.bits + uvcci_tf_log2(d.cols);
    const uint32_t sum = uvcci_tf_temporary(b, d.rows, 1, bits, d.scale);
    const uint32_t scaled =
        uvcci_tf_temporary(b, d.rows, 1, bits + uvcci_tf_log2((uint64_t)c), d.scale + fraction);
    if (y != UVCC_NO_TENSOR)
        uvcci_tf_times(b, UVCC_OP_ROW_DOT, g, y, sum, 1, 0);
    else
        uvcci_tf_local(b, UVCC_OP_ROW_SUM, g, UVCC_NO_TENSOR, sum);
    uvcci_tf_scale(b, sum, scaled, c, fraction);
    uvcci_tf_truncate(b, scaled, mean, b->truncation);
    return mean;
}

/* Back through a norm: with n = normalised x and h = g gain,
 * dx = inverse (h - mean(h n) n), with a layer norm inverse (h - mean(h) - mean(h n) n). */
static uint32_t through_norm(uvcci_tf_builder *b, const uvcci_tf_norm *n, uint32_t layer,
                             uvcci_tf_slot gain, uvcci_tf_slot shift, uint32_t g) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, g), x = *uvcci_tf_desc(b, n->normed);
    const uint32_t gn = uvcci_tf_temporary(b, d.rows, d.cols, d.bits + x.bits, d.scale + x.scale);
    uvcci_tf_times(b, UVCC_OP_ELEM_MUL, g, n->normed, gn, 0, 0);
    add_rows(b, layer, gain, gn);
    add_rows(b, layer, shift, g);
    const uint32_t h = times(b, "DH", UVCC_OP_COL_MUL, g, uvcci_tf_weight_tensor(b, layer, gain),
                             UVCCI_TF_GRADIENT_MORE);
    const uint32_t along = row_mean(b, "DM", h, n->normed);
    const uint32_t t = times(b, "DT", UVCC_OP_ROW_MUL, n->normed, along, UVCCI_TF_GRADIENT_MORE);
    const uint32_t mean =
        uvcci_tf_layer_norm(b->c) ? row_mean(b, "DC", h, UVCC_NO_TENSOR) : UVCC_NO_TENSOR;
    uvcci_tf_local(b, UVCC_OP_SUB, h, t, h);
    if (mean != UVCC_NO_TENSOR)
        uvcci_tf_local(b, UVCC_OP_ROW_SUB, h, mean, h);
    b->gate = h;
    return times(b, "DX", UVCC_OP_ROW_MUL, h, n->inverse, 0);
}

/* ---- layers ---- */

/* Gradient by the MLP's input, own rows, from that by its output, all rows. */
static uint32_t through_mlp(uvcci_tf_builder *b, const uvcci_tf_layer *l, uint32_t layer,
                            uint32_t gz) {
    add_matrix(b, layer, UVCCI_TF_W2, l->g, gz);
    uint32_t ga = through_weight(b, "DG", layer, UVCCI_TF_W2, gz);
    back list[2] = {{0, UVCCI_TF_W1}, {0, UVCCI_TF_WU}};
    const bool gated = b->c->block == UVCC_BLOCK_SWIGLU;
    if (gated) {
        list[1].gradient = times(b, "DU", UVCC_OP_ELEM_MUL, ga, l->act, 0);
        add_matrix(b, layer, UVCCI_TF_WU, l->x2, list[1].gradient);
        ga = times(b, "DA", UVCC_OP_ELEM_MUL, ga, l->up, 0);
    }
    list[0].gradient = times(b, "DH1", UVCC_OP_ELEM_MUL, ga, l->slope, 0);
    add_matrix(b, layer, UVCCI_TF_W1, l->x2, list[0].gradient);
    add_rows(b, layer, UVCCI_TF_B1, list[0].gradient);
    return through_weights(b, "DX2", layer, list, 1 + gated);
}

/* g, own rows: gradient by the layer's output; becomes that by its input. */
static uint32_t layer_backward(uvcci_tf_builder *b, const uvcci_tf_layer *l, uint32_t layer,
                               const char *scope, uint32_t g) {
    uint32_t d[3];
    add_rows(b, layer, UVCCI_TF_B2, g);
    const uint32_t g2 = through_mlp(b, l, layer, uvcci_tf_all_rows(b, "DZ", g));
    uvcci_tf_scope_part(b, scope, layer, "2.");
    const uint32_t x2 = through_norm(b, &l->n2, layer, UVCCI_TF_G2, UVCCI_TF_C2, g2);
    uvcci_tf_scope(b, scope, layer);
    uvcci_tf_local(b, UVCC_OP_ADD, x2, g, x2);
    add_rows(b, layer, UVCCI_TF_BO, x2);
    const uint32_t gy = uvcci_tf_all_rows(b, "DY", x2);
    add_matrix(b, layer, UVCCI_TF_WO, l->o, gy);
    uvcci_tf_through_attention(b, l, through_weight(b, "DO", layer, UVCCI_TF_WO, gy), d);
    const back list[3] = {{d[0], UVCCI_TF_WQ}, {d[1], UVCCI_TF_WK}, {d[2], UVCCI_TF_WV}};
    for (unsigned i = 0; i < 3; i++) {
        add_matrix(b, layer, list[i].slot, l->x1, d[i]);
        add_rows(b, layer, (uvcci_tf_slot)(list[i].slot + 1), d[i]);
    }
    const uint32_t g1 = through_weights(b, "DX1", layer, list, 3);
    uvcci_tf_scope_part(b, scope, layer, "1.");
    const uint32_t x = through_norm(b, &l->n1, layer, UVCCI_TF_G1, UVCCI_TF_C1, g1);
    uvcci_tf_local(b, UVCC_OP_ADD, x, x2, x);
    return x;
}

/* What the forward pass did not keep, once the layer behind is done: a copy of the layer's input
 * waits for that, and the rest for the copy. */
static void compute_again(uvcci_tf_builder *b, uvcci_tf_layer *l, uint32_t layer,
                          const char *scope) {
    uint32_t x = l->x;
    uvcci_tf_scope_part(b, scope, layer, "r.");
    if (b->gate != UVCC_NO_TENSOR) {
        const uvcc_tensor_desc d = *uvcci_tf_desc(b, x);
        x = uvcci_tf_successor(b, "X", b->gate, d.bits, d.scale);
        uvcci_tf_local(b, UVCC_OP_SHIFT_LEFT, l->x, UVCC_NO_TENSOR, x);
    }
    uvcci_tf_recompute(b, l, layer, x);
    uvcci_tf_scope(b, scope, layer);
}

/* ---- ends ---- */

static uint32_t from_logits(uvcci_tf_builder *b, const uvcci_tf_batch *batch) {
    add_matrix(b, 0, UVCCI_TF_WL, batch->last.y, batch->gradient);
    const uint32_t g = through_weight(b, "DF", 0, UVCCI_TF_WL, batch->gradient);
    return through_norm(b, &batch->last, 0, UVCCI_TF_GF, UVCCI_TF_CF, g);
}

static uint32_t receive(uvcci_tf_builder *b) {
    const uint32_t g = uvcci_tf_gradients(b, "DX", b->own_rows, b->c->dim, 0);
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_RECV_PP, .out_count = 1, .out = {g}});
    return g;
}

void uvcci_tf_backward(uvcci_tf_builder *b, uvcci_tf_batch *batch) {
    assert(b->layers != 0 && b->first_layer + b->layers <= b->c->layers);
    char scope[sizeof b->scope];
    snprintf(scope, sizeof scope, "%s", b->scope);
    uvcci_tf_clear_shelves(b);
    uvcci_tf_enter(b, UVCC_BWD, b->mb, UVCCI_TF_BLOCK_IN);
    b->gate = UVCC_NO_TENSOR;
    uint32_t g = b->last_stage ? from_logits(b, batch) : receive(b);
    for (uint32_t l = b->layers; l-- > 0;) {
        const uint32_t layer = b->first_layer + l;
        /* in ascending k: the last layer is the first block */
        uvcci_tf_enter(b, UVCC_BWD, b->mb, uvcci_tf_layer_block(b, b->c->layers - 1 - layer));
        uvcci_tf_scope(b, scope, layer);
        if (b->c->recompute) {
            uvcci_tf_take_shelf(b, b->layer_shelf);
            compute_again(b, &batch->layers[l], layer, scope);
        }
        g = layer_backward(b, &batch->layers[l], layer, scope, g);
        uvcci_tf_take_shelf(b, NULL);
    }
    snprintf(b->scope, sizeof b->scope, "%s", scope);
    uvcci_tf_enter(b, UVCC_BWD, b->mb, UVCCI_TF_BLOCK_OUT);
    if (!b->first_stage) {
        uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_SEND_PP, .in_count = 1, .in = {g}});
        return;
    }
    add_matrix(b, 0, UVCCI_TF_E, batch->tokens, g);
    add_rows(b, 0, UVCCI_TF_P, g);
}
