/* SPDX-License-Identifier: Apache-2.0 */
/* finetune_backward.c - the backward pass of a described model: heads and pools, the layers of
 * transformer_backward.c, embeddings. */
#include "exec/model/finetune.h"
#include "exec/model/model_ends.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <uvcc/compute.h>

/* ---- pools ---- */

/* The gradient by a sequence's first row to all of its rows. */
static uint32_t to_first_row(uvcci_tf_builder *b, uint32_t g) {
    const uint32_t z = uvcci_tf_gradients(b, "DFIRST", b->rows, b->m.width, 0);
    uvcci_model_rows_op(b, UVCC_OP_PUT_ROWS, g, UVCC_NO_TENSOR, 0, z);
    return z;
}

/* That by the mean: each row has a part of it. Rows that have it are copied to those behind, twice
 * as many each time. */
static uint32_t to_all_rows(uvcci_tf_builder *b, uint32_t g) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, g);
    const uint32_t part = uvcci_tf_gradients(b, "DMEAN", d.rows, d.cols, 0);
    uvcci_tf_divide(b, g, b->m.tokens, part);
    const uint32_t z = to_first_row(b, part);
    for (uint32_t have = 1; have < b->m.tokens;) {
        const uint32_t left = b->m.tokens - have, more = left < have ? left : have;
        uvcci_model_rows_op(b, UVCC_OP_PUT_ROWS, uvcci_model_rows_of(b, z, 0, more), z, have, z);
        have += more;
    }
    return z;
}

/* tanh' = 1 - tanh^2. */
static uint32_t tanh_slope(uvcci_tf_builder *b, uint32_t z) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, z);
    const unsigned f = b->n.f;
    const uint32_t square = uvcci_tf_transient(b, "ZZ", d.rows, d.cols, f + 1, f);
    const uint32_t minus = uvcci_tf_transient(b, "ZM", d.rows, d.cols, f + 1, f);
    const uint32_t slope = uvcci_tf_transient(b, "ZD", d.rows, d.cols, f + 2, f);
    uvcci_tf_times_within(b, UVCC_OP_ELEM_MUL, z, z, square, 2u * d.scale + 1u);
    uvcci_tf_scale(b, square, minus, -1, 0);
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_ADD_PUBLIC,
                                  .in_count = 1,
                                  .in = {minus},
                                  .out_count = 1,
                                  .out = {slope},
                                  .constant = 1ll << f});
    return slope;
}

static uint32_t through_pool(uvcci_tf_builder *b, const uvcci_ft_batch *batch, uint32_t g) {
    if (b->m.pool == UVCC_MODEL_POOL_NONE)
        return g;
    if (b->m.pool == UVCC_MODEL_POOL_MEAN)
        return to_all_rows(b, g);
    if (b->m.pool == UVCC_MODEL_POOL_FIRST)
        return to_first_row(b, g);
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, g);
    const uint32_t h = uvcci_tf_gradients(b, "DTANH", d.rows, d.cols, 0);
    uvcci_tf_times(b, UVCC_OP_ELEM_MUL, g, tanh_slope(b, batch->pooled), h, 0, 0);
    uvcci_tf_add_matrix(b, 0, UVCCI_TF_WP, uvcci_model_rows_of(b, batch->hidden, 0, 1), h);
    uvcci_tf_add_rows(b, 0, UVCCI_TF_BP, h);
    return to_first_row(b, uvcci_tf_through_weight(b, "DP1", 0, UVCCI_TF_WP, h));
}

/* ---- heads ---- */

/* Logits by the embeddings: L = y E^T. */
static uint32_t through_tied(uvcci_tf_builder *b, const uvcci_ft_batch *batch, uint32_t g) {
    uvcci_tf_add_matrix(b, 0, UVCCI_TF_E, g, batch->hidden);
    const uint32_t z = uvcci_tf_gradients(b, "DF", uvcci_tf_desc(b, g)->rows, b->m.width, 0);
    uvcci_tf_product(b, g, uvcci_tf_weight_tensor(b, 0, UVCCI_TF_E), z, 0, false);
    return z;
}

/* From the gradient by what the head gave to that by hidden states; UVCC_NO_TENSOR where only the
 * classifier is trained. */
static uint32_t through_head(uvcci_tf_builder *b, const uvcc_finetune_config *c,
                             const uvcci_ft_batch *batch) {
    const uint32_t g = batch->tf.gradient;
    if (b->m.head == UVCC_MODEL_HEAD_TIED)
        return through_tied(b, batch, g);
    if (b->m.head == UVCC_MODEL_HEAD_OWN) {
        uvcci_tf_add_matrix(b, 0, UVCCI_TF_WL, batch->hidden, g);
        return uvcci_tf_through_weight(b, "DF", 0, UVCCI_TF_WL, g);
    }
    uvcci_tf_add_matrix(b, 0, UVCCI_TF_WC, batch->pooled, g);
    uvcci_tf_add_rows(b, 0, UVCCI_TF_BC, g);
    if (!uvcci_ft_goes_back(c))
        return UVCC_NO_TENSOR;
    return through_pool(b, batch, uvcci_tf_through_weight(b, "DPOOL", 0, UVCCI_TF_WC, g));
}

/* ---- embeddings ---- */

/* Their product with one-hot rows is not truncated, so the gradient stands at a scale coarser by f
 * than that of the tied head, to which it is brought. */
static void to_embeddings(uvcci_tf_builder *b, const uvcci_ft_batch *batch, uint32_t g) {
    uint32_t fine = g;
    if (b->m.embedding_norm)
        g = fine = uvcci_tf_through_norm(b, &batch->first, 0, UVCCI_TF_GE, UVCCI_TF_CE, g);
    uvcci_tf_add_rows(b, 0, UVCCI_TF_P, g);
    if (b->m.input != UVCC_MODEL_INPUT_ONE_HOT)
        return;
    if (b->m.head == UVCC_MODEL_HEAD_TIED) {
        const uvcc_tensor_desc d = *uvcci_tf_desc(b, g);
        fine = uvcci_tf_transient(b, "DE", d.rows, d.cols, d.bits + (unsigned)b->n.f,
                                  d.scale + (unsigned)b->n.f);
        uvcci_tf_local(b, UVCC_OP_SHIFT_LEFT, g, UVCC_NO_TENSOR, fine);
    }
    uvcci_tf_add_matrix(b, 0, UVCCI_TF_E, batch->tf.tokens, fine);
}

/* ---- all of it ---- */

void uvcci_ft_backward(uvcci_tf_builder *b, const uvcc_finetune_config *c, uvcci_ft_batch *batch) {
    char scope[sizeof b->scope];
    assert(b->m.layers != 0);
    snprintf(scope, sizeof scope, "%s", b->scope);
    uvcci_tf_enter(b, UVCC_BWD, b->mb, UVCCI_TF_BLOCK_IN);
    uint32_t g = through_head(b, c, batch);
    if (g == UVCC_NO_TENSOR)
        return;
    if (b->m.last_norm) {
        snprintf(b->scope, sizeof b->scope, "%.32sF.", scope);
        g = uvcci_tf_through_norm(b, &batch->tf.last, 0, UVCCI_TF_GF, UVCCI_TF_CF, g);
    }
    const bool full = c->method == UVCC_FINETUNE_FULL;
    for (uint32_t l = b->m.layers; l-- > 0 && b->err == 0;) {
        uvcci_tf_enter(b, UVCC_BWD, b->mb, uvcci_tf_layer_block(b, b->m.layers - 1 - l));
        uvcci_tf_scope(b, scope, l);
        b->window = uvcci_model_window(&b->m, l);
        b->ends_here = l == 0 && !full;
        g = uvcci_tf_layer_backward(b, &batch->tf.layers[l], l, scope, g);
    }
    b->ends_here = false;
    snprintf(b->scope, sizeof b->scope, "%.32sE.", scope);
    uvcci_tf_enter(b, UVCC_BWD, b->mb, UVCCI_TF_BLOCK_OUT);
    if (full && b->err == 0)
        to_embeddings(b, batch, g);
}
