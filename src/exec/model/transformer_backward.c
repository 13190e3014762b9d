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

/* + a^T g, one of `times` such products in all. */
static void add_to(uvcci_tf_builder *b, uvcci_tf_held *h, uint32_t a, uint32_t g, uint32_t times) {
    uvcci_tf_shelf *shelf = leave_shelf_for(b, h);
    h->sum = uvcci_tf_add_product(b, h->sum, a, g, UVCC_OP_TRANS_A, times, uvcci_tf_sum_name(b, h));
    b->shelf = shelf;
}

void uvcci_tf_add_matrix(uvcci_tf_builder *b, uint32_t layer, uvcci_tf_slot slot, uint32_t a,
                         uint32_t g) {
    uvcci_tf_held *h = uvcci_tf_held_weight(b, layer, slot);
    if (h != NULL && !h->frozen)
        add_to(b, h, a, g, b->c->microbatches * (h->uses != 0 ? h->uses : 1));
}

void uvcci_tf_add_rows(uvcci_tf_builder *b, uint32_t layer, uvcci_tf_slot slot, uint32_t g) {
    uvcci_tf_held *h = uvcci_tf_held_weight(b, layer, slot);
    if (h == NULL || h->frozen)
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

/* A gradient and the weight that it goes back through; `low`: that by what the weight's adapter has
 * between its factors, or UVCC_NO_TENSOR. */
typedef struct back {
    uint32_t gradient;
    uvcci_tf_slot slot;
    uint32_t low;
} back;

/* + what goes back through adapters: their sum, truncated once. */
static void through_adapters(uvcci_tf_builder *b, uint32_t layer, const back *list, unsigned count,
                             uint32_t z) {
    uint32_t sum = UVCC_NO_TENSOR;
    for (unsigned i = 0; i < count; i++)
        if (list[i].low != UVCC_NO_TENSOR)
            sum = uvcci_tf_add_product(b, sum, list[i].low,
                                       uvcci_tf_adapter(b, layer, list[i].slot)->tensor,
                                       UVCC_OP_TRANS_B, count, "DLX.sum");
    if (sum == UVCC_NO_TENSOR)
        return;
    const uint32_t part = uvcci_tf_gradients(b, "DLX", b->own_rows, b->m.width, 0);
    uvcci_tf_truncate(b, sum, part, b->truncation);
    uvcci_tf_local(b, UVCC_OP_ADD, z, part, z);
}

/* Gradients of the adapter of a weight, whose product's is g; returns that between its factors. */
static uint32_t through_adapter(uvcci_tf_builder *b, const uvcci_tf_layer *l, uint32_t layer,
                                uvcci_tf_slot slot, uint32_t g) {
    char name[16];
    uvcci_tf_held *down = uvcci_tf_adapter(b, layer, slot), *up = down + 1;
    if (down == NULL)
        return UVCC_NO_TENSOR;
    snprintf(name, sizeof name, "DL%u", slot);
    add_to(b, up, l->low[uvcci_tf_adaptable(slot)], g, b->c->microbatches);
    const uint32_t low = uvcci_tf_gradients(b, name, b->rows, down->part.cols, 0);
    uvcci_tf_product(b, g, up->tensor, low, UVCC_OP_TRANS_B, false);
    add_to(b, down, l->x1, low, b->c->microbatches);
    return low;
}

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
    sum = uvcci_tf_reduce(b, sum, UVCC_GROUP_TP, b->how.tensor_ranks, b->own_rows, b->m.width, own);
    const uint32_t z = uvcci_tf_gradients(b, name, b->own_rows, b->m.width, 0);
    uvcci_tf_truncate(b, sum, z, b->truncation);
    through_adapters(b, layer, list, count, z);
    return z;
}

uint32_t uvcci_tf_through_weight(uvcci_tf_builder *b, const char *name, uint32_t layer,
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

void uvcci_tf_divide(uvcci_tf_builder *b, uint32_t x, uint32_t n, uint32_t z) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, x);
    unsigned fraction;
    const int64_t c = uvcci_tf_inverse(n, &fraction);
    const uint32_t scaled = uvcci_tf_temporary(
        b, d.rows, d.cols, d.bits + uvcci_tf_log2((uint64_t)c), d.scale + fraction);
    uvcci_tf_scale(b, x, scaled, c, fraction);
    uvcci_tf_truncate(b, scaled, z, b->truncation);
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
    if (y != UVCC_NO_TENSOR)
        uvcci_tf_times(b, UVCC_OP_ROW_DOT, g, y, sum, 1, 0);
    else
        uvcci_tf_local(b, UVCC_OP_ROW_SUM, g, UVCC_NO_TENSOR, sum);
    uvcci_tf_divide(b, sum, d.cols, mean);
    return mean;
}

/* With n = normalised x and h = g gain, dx = inverse (h - mean(h n) n), with a layer norm
 * inverse (h - mean(h) - mean(h n) n). */
uint32_t uvcci_tf_through_norm(uvcci_tf_builder *b, const uvcci_tf_norm *n, uint32_t layer,
                               uvcci_tf_slot gain, uvcci_tf_slot shift, uint32_t g) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, g), x = *uvcci_tf_desc(b, n->normed);
    if (!uvcci_tf_held_weight(b, layer, gain)->frozen) {
        const uint32_t gn =
            uvcci_tf_temporary(b, d.rows, d.cols, d.bits + x.bits, d.scale + x.scale);
        uvcci_tf_times(b, UVCC_OP_ELEM_MUL, g, n->normed, gn, 0, 0);
        uvcci_tf_add_rows(b, layer, gain, gn);
    }
    uvcci_tf_add_rows(b, layer, shift, g);
    const uint32_t h = times(b, "DH", UVCC_OP_COL_MUL, g, uvcci_tf_weight_tensor(b, layer, gain),
                             UVCCI_TF_GRADIENT_MORE);
    const uint32_t along = row_mean(b, "DM", h, n->normed);
    const uint32_t t = times(b, "DT", UVCC_OP_ROW_MUL, n->normed, along, UVCCI_TF_GRADIENT_MORE);
    const uint32_t mean =
        b->m.norm == UVCC_MODEL_LAYER_NORM ? row_mean(b, "DC", h, UVCC_NO_TENSOR) : UVCC_NO_TENSOR;
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
    uvcci_tf_add_matrix(b, layer, UVCCI_TF_W2, l->g, gz);
    uint32_t ga = uvcci_tf_through_weight(b, "DG", layer, UVCCI_TF_W2, gz);
    back list[2] = {{0, UVCCI_TF_W1, UVCC_NO_TENSOR}, {0, UVCCI_TF_WU, UVCC_NO_TENSOR}};
    const bool gated = b->m.ff == UVCC_MODEL_FF_GATED;
    if (gated) {
        list[1].gradient = times(b, "DU", UVCC_OP_ELEM_MUL, ga, l->act, 0);
        uvcci_tf_add_matrix(b, layer, UVCCI_TF_WU, l->x2, list[1].gradient);
        ga = times(b, "DA", UVCC_OP_ELEM_MUL, ga, l->up, 0);
    }
    list[0].gradient = times(b, "DH1", UVCC_OP_ELEM_MUL, ga, l->slope, 0);
    uvcci_tf_add_matrix(b, layer, UVCCI_TF_W1, l->x2, list[0].gradient);
    uvcci_tf_add_rows(b, layer, UVCCI_TF_B1, list[0].gradient);
    return through_weights(b, "DX2", layer, list, 1 + gated);
}

/* From the gradient of the sum behind the MLP, own rows, to that by the MLP's input. */
static uint32_t mlp_backward(uvcci_tf_builder *b, const uvcci_tf_layer *l, uint32_t layer,
                             uint32_t g) {
    uvcci_tf_add_rows(b, layer, UVCCI_TF_B2, g);
    return through_mlp(b, l, layer, uvcci_tf_all_rows(b, "DZ", g));
}

/* The same of the attention: to that by what Q, K and V are made of. UVCC_NO_TENSOR where nobody
 * reads it. */
static uint32_t attention_backward(uvcci_tf_builder *b, const uvcci_tf_layer *l, uint32_t layer,
                                   uint32_t g) {
    uint32_t d[3];
    uvcci_tf_add_rows(b, layer, UVCCI_TF_BO, g);
    const uint32_t gy = uvcci_tf_all_rows(b, "DY", g);
    uvcci_tf_add_matrix(b, layer, UVCCI_TF_WO, l->o, gy);
    uvcci_tf_through_attention(b, l, uvcci_tf_through_weight(b, "DO", layer, UVCCI_TF_WO, gy), d);
    uvcci_tf_through_heads(b, d);
    back list[3] = {{d[0], UVCCI_TF_WQ, 0}, {d[1], UVCCI_TF_WK, 0}, {d[2], UVCCI_TF_WV, 0}};
    if (uvcci_tf_desc(b, d[1])->bits > uvcci_tf_desc(b, d[0])->bits) {
        const back narrow = list[0]; /* the first of a sum's products says its bits */
        list[0] = list[1];
        list[1] = narrow;
    }
    for (unsigned i = 0; i < 3; i++) {
        const uint32_t by = list[i].gradient;
        uvcci_tf_add_matrix(b, layer, list[i].slot, l->x1, by);
        uvcci_tf_add_rows(b, layer, (uvcci_tf_slot)(list[i].slot + 1), by);
        list[i].low = through_adapter(b, l, layer, list[i].slot, by);
    }
    return b->ends_here ? UVCC_NO_TENSOR : through_weights(b, "DX1", layer, list, 3);
}

static uint32_t second_norm_backward(uvcci_tf_builder *b, const uvcci_tf_layer *l, uint32_t layer,
                                     const char *scope, uint32_t g) {
    uvcci_tf_scope_part(b, scope, layer, "2.");
    const uint32_t x = uvcci_tf_through_norm(b, &l->n2, layer, UVCCI_TF_G2, UVCCI_TF_C2, g);
    uvcci_tf_scope(b, scope, layer);
    return x;
}

static uint32_t first_norm_backward(uvcci_tf_builder *b, const uvcci_tf_layer *l, uint32_t layer,
                                    const char *scope, uint32_t g) {
    uvcci_tf_scope_part(b, scope, layer, "1.");
    const uint32_t x = uvcci_tf_through_norm(b, &l->n1, layer, UVCCI_TF_G1, UVCCI_TF_C1, g);
    uvcci_tf_scope(b, scope, layer);
    return x;
}

static uint32_t post_norm_backward(uvcci_tf_builder *b, const uvcci_tf_layer *l, uint32_t layer,
                                   const char *scope, uint32_t g) {
    const uint32_t g2 = second_norm_backward(b, l, layer, scope, g);
    const uint32_t y = mlp_backward(b, l, layer, g2);
    uvcci_tf_local(b, UVCC_OP_ADD, y, g2, y);
    const uint32_t g1 = first_norm_backward(b, l, layer, scope, y);
    const uint32_t x = attention_backward(b, l, layer, g1);
    if (x != UVCC_NO_TENSOR)
        uvcci_tf_local(b, UVCC_OP_ADD, x, g1, x);
    return x;
}

uint32_t uvcci_tf_layer_backward(uvcci_tf_builder *b, const uvcci_tf_layer *l, uint32_t layer,
                                 const char *scope, uint32_t g) {
    if (b->m.order == UVCC_MODEL_POST_NORM)
        return post_norm_backward(b, l, layer, scope, g);
    const uint32_t x2 = second_norm_backward(b, l, layer, scope, mlp_backward(b, l, layer, g));
    uvcci_tf_local(b, UVCC_OP_ADD, x2, g, x2);
    const uint32_t g1 = attention_backward(b, l, layer, x2);
    if (g1 == UVCC_NO_TENSOR)
        return g1;
    const uint32_t x = first_norm_backward(b, l, layer, scope, g1);
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
    uvcci_tf_add_matrix(b, 0, UVCCI_TF_WL, batch->last.y, batch->gradient);
    const uint32_t g = uvcci_tf_through_weight(b, "DF", 0, UVCCI_TF_WL, batch->gradient);
    return uvcci_tf_through_norm(b, &batch->last, 0, UVCCI_TF_GF, UVCCI_TF_CF, g);
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
        g = uvcci_tf_layer_backward(b, &batch->layers[l], layer, scope, g);
        uvcci_tf_take_shelf(b, NULL);
    }
    snprintf(b->scope, sizeof b->scope, "%s", scope);
    uvcci_tf_enter(b, UVCC_BWD, b->mb, UVCCI_TF_BLOCK_OUT);
    if (!b->first_stage) {
        uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_SEND_PP, .in_count = 1, .in = {g}});
        return;
    }
    uvcci_tf_add_matrix(b, 0, UVCCI_TF_E, batch->tokens, g);
    uvcci_tf_add_rows(b, 0, UVCCI_TF_P, g);
}
