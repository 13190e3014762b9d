/* SPDX-License-Identifier: Apache-2.0 */
/* transformer_layer.c - a layer as ops, by its description (uvcc/model.h): for the transformer that
 * trains and for models that are run.
 *
 * Tensor ranks, which only training has, cut the residual stream by rows, so norms, residuals and
 * the biases of the stream work on own rows; attention and MLP see all rows of the microbatch and
 * this rank's heads and units. */
#include "exec/model/nonlinear.h"
#include "exec/model/transformer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <uvcc/compute.h>

void uvcci_tf_add_weight(uvcci_tf_builder *b, uint32_t x, uint32_t layer, uvcci_tf_slot slot) {
    const uint32_t y = uvcci_tf_weight_tensor(b, layer, slot);
    if (y != UVCC_NO_TENSOR)
        uvcci_tf_local(b, UVCC_OP_BIAS_ADD, x, y, x);
}

/* z += (x A) B by the weight's adapter, if it has one. */
static void adapt(uvcci_tf_builder *b, const char *name, uint32_t x, uint32_t layer,
                  uvcci_tf_slot weight, uint32_t z) {
    const uvcci_tf_held *down = uvcci_tf_adapter(b, layer, weight);
    if (down == NULL)
        return;
    char low[24], part[24];
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, z);
    snprintf(low, sizeof low, "%s.low", name);
    snprintf(part, sizeof part, "%s.part", name);
    const uint32_t l = uvcci_tf_values(b, low, d.rows, down->part.cols);
    const uint32_t y = uvcci_tf_transient(b, part, d.rows, d.cols, d.bits, d.scale);
    uvcci_tf_product(b, x, down[0].tensor, l, 0, false);
    uvcci_tf_product(b, l, down[1].tensor, y, 0, false);
    uvcci_tf_local(b, UVCC_OP_ADD, z, y, z);
    b->low[uvcci_tf_adaptable(weight)] = l;
}

/* x W + bias, of so many bits. */
static uint32_t linear_of_bits(uvcci_tf_builder *b, const char *name, uint32_t x, uint32_t layer,
                               uvcci_tf_slot weight, uvcci_tf_slot bias_slot, unsigned bits) {
    const uint32_t w = uvcci_tf_weight_tensor(b, layer, weight);
    const uint32_t z = uvcci_tf_transient(b, name, uvcci_tf_desc(b, x)->rows,
                                          uvcci_tf_desc(b, w)->cols, bits, b->n.f);
    uvcci_tf_product(b, x, w, z, 0, false);
    adapt(b, name, x, layer, weight, z);
    uvcci_tf_add_weight(b, z, layer, bias_slot);
    return z;
}

uint32_t uvcci_tf_linear(uvcci_tf_builder *b, const char *name, uint32_t x, uint32_t layer,
                         uvcci_tf_slot weight, uvcci_tf_slot bias_slot) {
    return linear_of_bits(b, name, x, layer, weight, bias_slot, b->n.value);
}

/* The same where ranks hold rows of W: the sum of their products, of which each keeps its own rows.
 */
static uint32_t linear_sum(uvcci_tf_builder *b, const char *name, const char *parts, uint32_t x,
                           uint32_t layer, uvcci_tf_slot weight, uvcci_tf_slot bias_slot) {
    const uint32_t w = uvcci_tf_weight_tensor(b, layer, weight), width = b->m.width;
    const uint32_t z = uvcci_tf_values(b, name, b->own_rows, width);
    if (b->how.tensor_ranks == 1) {
        uvcci_tf_product(b, x, w, z, 0, false);
    } else {
        char own[32];
        snprintf(own, sizeof own, "%s.own", parts);
        uint32_t sum = uvcci_tf_add_product(b, UVCC_NO_TENSOR, x, w, 0, 1, parts);
        sum = uvcci_tf_reduce(b, sum, UVCC_GROUP_TP, b->how.tensor_ranks, b->own_rows, width, own);
        uvcci_tf_truncate(b, sum, z, b->truncation);
    }
    uvcci_tf_add_weight(b, z, layer, bias_slot);
    return z;
}

/* Tensors of what a backward pass reads beside what the norm gives. */
static void keep_norm(uvcci_tf_builder *b, uvcc_nonlinear what, uvcc_nonlinear_options o,
                      const uint32_t *in, const char *const names[3], uint32_t out[3]) {
    uvcc_tensor_desc x[3], d[UVCC_OP_MAX_OUT];
    o.size = sizeof o;
    o.exact = b->how.exact;
    o.dcf = b->how.truncation == UVCC_TRUNC_EXACT_DCF;
    for (unsigned i = 0; i < 3; i++)
        x[i] = *uvcci_tf_desc(b, in[i]);
    if (b->err == 0)
        uvcci_tf_note(b, uvcci_nonlinear_output_in(b->p, what, &o, x, d));
    for (unsigned i = 1; i < 3 && b->err == 0; i++)
        out[i] = uvcci_tf_tensor(b, names[i], d[i]);
}

uvcci_tf_norm uvcci_tf_normalise(uvcci_tf_builder *b, const char *const names[3], uint32_t x,
                                 uint32_t layer, uvcci_tf_slot gain, uvcci_tf_slot shift) {
    const bool centred = b->m.norm == UVCC_MODEL_LAYER_NORM;
    const uvcc_nonlinear what = centred ? UVCC_NL_LAYERNORM : UVCC_NL_RMSNORM;
    const uint32_t gains = uvcci_tf_weight_tensor(b, layer, gain);
    const uvcc_nonlinear_options o = {
        .saved = b->keeps, .epsilon = b->m.epsilon, .plain = gains == UVCC_NO_TENSOR};
    uint32_t in[3] = {x, gains, 0}, out[3] = {0};
    assert(!o.plain || !b->keeps); /* a backward pass has gains */
    if (centred)
        in[2] = uvcci_tf_weight_tensor(b, layer, shift);
    if (b->keeps && b->m.order == UVCC_MODEL_PRE_NORM && !b->m.embedding_norm) {
        uvcci_tf_function(b, what, o, in, names, out);
    } else { /* what comes out may be the residual stream, and has its bits */
        const uvcc_tensor_desc d = *uvcci_tf_desc(b, x);
        out[0] = uvcci_tf_values(b, names[0], d.rows, d.cols);
        if (b->keeps)
            keep_norm(b, what, o, in, names, out);
        uvcci_tf_emit(b, what, o, in, out);
    }
    return (uvcci_tf_norm){out[0], out[1], out[2]};
}

/* ---- attention ---- */

/* A head of keys or values for each of the queries, where there are fewer. */
static uint32_t repeat_heads(uvcci_tf_builder *b, const char *name, uint32_t x) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, x);
    if (uvcci_model_kv_heads(&b->m) == b->m.heads)
        return x;
    const uint32_t z = uvcci_tf_transient(b, name, d.rows, b->n.rank_dim, d.bits, d.scale);
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_REPEAT_COLS,
                                  .in_count = 1,
                                  .in = {x},
                                  .out_count = 1,
                                  .out = {z},
                                  .constant = b->n.head_dim});
    return z;
}

/* Rows from `first` on of one group: of x (SLICE_ROWS), or of z that x takes (PUT_ROWS). */
static void rows_op(uvcci_tf_builder *b, uvcc_opcode opcode, uint32_t x, uint32_t first, uint32_t z,
                    bool more) {
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = (uint16_t)opcode,
                                  .in_count = more ? 2 : 1,
                                  .in = {x, z},
                                  .out_count = 1,
                                  .out = {z},
                                  .constant = first});
}

static uint32_t rows_from(uvcci_tf_builder *b, const char *name, uint32_t x, uint32_t first,
                          uint32_t rows) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, x);
    const uint32_t z = uvcci_tf_transient(b, name, rows, d.cols, d.bits, d.scale);
    rows_op(b, UVCC_OP_SLICE_ROWS, x, first, z, false);
    return z;
}

/* Attention of sequence `s` alone, whose padding is a row of its own; its rows go into `out`. */
static void attend_in_sequence(uvcci_tf_builder *b, const uvcci_tf_layer *l, uint32_t s,
                               uint32_t out) {
    const uint32_t tokens = b->m.tokens, sequences = b->sequences, rows = b->rows, all = b->padding;
    char scope[sizeof b->scope];
    snprintf(scope, sizeof scope, "%s", b->scope);
    snprintf(b->scope + strlen(scope), sizeof b->scope - strlen(scope), "s%u.", s);
    uvcci_tf_layer one = {0};
    one.q = rows_from(b, "Q", l->q, s * tokens, tokens);
    one.k = rows_from(b, "K", l->k, s * tokens, tokens);
    one.v = rows_from(b, "V", l->v, s * tokens, tokens);
    b->padding = rows_from(b, "PAD", all, s, 1);
    b->sequences = 1;
    b->rows = tokens;
    uvcci_tf_attention(b, &one);
    rows_op(b, UVCC_OP_PUT_ROWS, one.o, s * tokens, out, s != 0);
    b->sequences = sequences;
    b->rows = rows;
    b->padding = all;
    snprintf(b->scope, sizeof b->scope, "%s", scope);
}

static void attend(uvcci_tf_builder *b, uvcci_tf_layer *l) {
    if (b->padding == UVCC_NO_TENSOR || b->sequences == 1) {
        uvcci_tf_attention(b, l);
        return;
    }
    const uint32_t out = uvcci_tf_values(b, "O", b->rows, b->n.rank_dim);
    for (uint32_t s = 0; s < b->sequences && b->err == 0; s++)
        attend_in_sequence(b, l, s, out);
    l->o = out;
}

/* Columns of heads turned as the positions say, of so many bits: WITHIN, since what is turned is no
 * longer than it was, whatever bits a sum declares. */
static uint32_t turn(uvcci_tf_builder *b, const char *name, uint32_t x, unsigned bits) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, x), table = *uvcci_tf_desc(b, b->rotary);
    const uint32_t z = uvcci_tf_tensor(b, name,
                                       (uvcc_tensor_desc){.rows = d.rows,
                                                          .cols = d.cols,
                                                          .bits = (uint8_t)bits,
                                                          .scale = d.scale + table.scale,
                                                          .lifetime = UVCC_TRANSIENT,
                                                          .sharing = d.sharing});
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_ROTATE,
                                  .in_count = 2,
                                  .in = {x, b->rotary},
                                  .out_count = 1,
                                  .out = {z},
                                  .flags = UVCC_OP_WITHIN});
    return z;
}

/* Queries or keys; names: of them, and of what is on the way to rotary ones. Those of no bias are
 * turned before the product's one truncation, so they take no more rounds than others. */
static uint32_t heads_of(uvcci_tf_builder *b, const char *const names[3], uint32_t x,
                         uint32_t layer, uvcci_tf_slot weight, uvcci_tf_slot bias) {
    const uvcci_tf_numbers *n = &b->n;
    if (b->m.positions != UVCC_MODEL_POSITIONS_ROTARY)
        return uvcci_tf_linear(b, names[0], x, layer, weight, bias);
    const bool whole = uvcci_tf_weight_tensor(b, layer, bias) == UVCC_NO_TENSOR &&
                       uvcci_tf_adapter(b, layer, weight) == NULL;
    const uint32_t y =
        whole ? uvcci_tf_add_product(b, UVCC_NO_TENSOR, x, uvcci_tf_weight_tensor(b, layer, weight),
                                     0, 1, names[1])
              : uvcci_tf_linear(b, names[1], x, layer, weight, bias);
    const unsigned more = UVCCI_MODEL_ROTARY_SCALE + (whole ? n->f : 0u);
    const uint32_t z = turn(b, names[2], y, n->value + more);
    const uint32_t out = uvcci_tf_values(b, names[0], b->rows, uvcci_tf_desc(b, z)->cols);
    uvcci_tf_truncate(b, z, out, b->truncation);
    return out;
}

/* Up to the attention: of x in own rows. */
static void project(uvcci_tf_builder *b, uvcci_tf_layer *l, uint32_t layer, uint32_t x) {
    static const char *const q[] = {"Q", "Q.plain", "Q.turned"};
    static const char *const k[] = {"K", "K.plain", "K.turned"};
    l->x1 = uvcci_tf_all_rows(b, "X1", x);
    b->low = l->low;
    l->q = heads_of(b, q, l->x1, layer, UVCCI_TF_WQ, UVCCI_TF_BQ);
    l->k = heads_of(b, k, l->x1, layer, UVCCI_TF_WK, UVCCI_TF_BK);
    l->v = uvcci_tf_linear(b, "V", l->x1, layer, UVCCI_TF_WV, UVCCI_TF_BV);
    l->k = repeat_heads(b, "KH", l->k);
    l->v = repeat_heads(b, "VH", l->v);
}

/* ---- the MLP ---- */

/* Of l->x2, up to its last product. */
static void mlp(uvcci_tf_builder *b, uvcci_tf_layer *l, uint32_t layer) {
    static const char *const names[] = {"A", "D"};
    uint32_t out[2] = {0};
    const uint32_t h = linear_of_bits(b, "H", l->x2, layer, UVCCI_TF_W1, UVCCI_TF_B1, b->n.inner);
    uvcc_nonlinear_options o = {.derivative = b->derivatives};
    if (b->m.activation != UVCC_NL_RELU)
        o.index_bits = uvcc_model_index_bits(&b->m);
    uvcci_tf_function(b, (uvcc_nonlinear)b->m.activation, o, &h, names, out);
    l->act = l->g = out[0];
    l->slope = out[1];
    if (b->m.ff != UVCC_MODEL_FF_GATED)
        return;
    l->up = uvcci_tf_linear(b, "U", l->x2, layer, UVCCI_TF_WU, UVCCI_TF_NONE);
    l->g = uvcci_tf_values(b, "G", b->rows, b->n.rank_hidden);
    uvcci_tf_times(b, UVCC_OP_ELEM_MUL, l->act, l->up, l->g, 0, 0);
}

/* ---- layers ---- */

static uvcci_tf_norm first_norm(uvcci_tf_builder *b, uint32_t layer, uint32_t x) {
    static const char *const names[] = {"Y1", "N1", "R1"};
    return uvcci_tf_normalise(b, names, x, layer, UVCCI_TF_G1, UVCCI_TF_C1);
}

static uvcci_tf_norm second_norm(uvcci_tf_builder *b, uint32_t layer, uint32_t x) {
    static const char *const names[] = {"Y2", "N2", "R2"};
    return uvcci_tf_normalise(b, names, x, layer, UVCCI_TF_G2, UVCCI_TF_C2);
}

/* x + attention's output WO. */
static uint32_t add_attention(uvcci_tf_builder *b, const uvcci_tf_layer *l, uint32_t layer,
                              uint32_t x) {
    const uint32_t y = linear_sum(b, "Y", "Y.sum", l->o, layer, UVCCI_TF_WO, UVCCI_TF_BO);
    uvcci_tf_local(b, UVCC_OP_ADD, y, x, y);
    return y;
}

static uint32_t add_mlp(uvcci_tf_builder *b, const uvcci_tf_layer *l, uint32_t layer, uint32_t y) {
    const uint32_t z = linear_sum(b, "Z", "Z.sum", l->g, layer, UVCCI_TF_W2, UVCCI_TF_B2);
    uvcci_tf_local(b, UVCC_OP_ADD, z, y, z);
    return z;
}

/* Norms behind the sums: what they give is the residual stream. */
static uint32_t post_norm_forward(uvcci_tf_builder *b, uvcci_tf_layer *l, uint32_t layer,
                                  uint32_t x) {
    project(b, l, layer, x);
    attend(b, l);
    l->n1 = first_norm(b, layer, add_attention(b, l, layer, x));
    l->x2 = uvcci_tf_all_rows(b, "X2", l->n1.y);
    mlp(b, l, layer);
    l->n2 = second_norm(b, layer, add_mlp(b, l, layer, l->n1.y));
    return l->n2.y;
}

/* Norms before: up to the attention. */
static void pre_norm_project(uvcci_tf_builder *b, uvcci_tf_layer *l, uint32_t layer, uint32_t x) {
    l->n1 = first_norm(b, layer, x);
    project(b, l, layer, l->n1.y);
}

/* From the attention to the MLP's last product; returns the residual stream between. */
static uint32_t pre_norm_combine(uvcci_tf_builder *b, uvcci_tf_layer *l, uint32_t layer,
                                 uint32_t x) {
    const uint32_t y = add_attention(b, l, layer, x);
    l->n2 = second_norm(b, layer, y);
    l->x2 = uvcci_tf_all_rows(b, "X2", l->n2.y);
    mlp(b, l, layer);
    return y;
}

uint32_t uvcci_tf_layer_forward(uvcci_tf_builder *b, uvcci_tf_layer *l, uint32_t layer,
                                uint32_t x) {
    l->x = x;
    if (b->m.order == UVCC_MODEL_POST_NORM)
        return post_norm_forward(b, l, layer, x);
    pre_norm_project(b, l, layer, x);
    attend(b, l);
    return add_mlp(b, l, layer, pre_norm_combine(b, l, layer, x));
}

void uvcci_tf_recompute(uvcci_tf_builder *b, uvcci_tf_layer *l, uint32_t layer, uint32_t x) {
    assert(b->m.order == UVCC_MODEL_PRE_NORM); /* what trains */
    b->derivatives = true;
    pre_norm_project(b, l, layer, x);
    pre_norm_combine(b, l, layer, x);
    b->derivatives = false;
}
