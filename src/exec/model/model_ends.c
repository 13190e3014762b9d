/* SPDX-License-Identifier: Apache-2.0 */
/* model_ends.c - what stands before and behind a model's layers: embeddings of tokens, and
 * logits, pooled rows and labels. */
#include "exec/model/model_ends.h"

#include <assert.h>

/* Rows of E that ids name: the segments' are below the words'. */
static void embed_ids(uvcci_tf_builder *b, uint32_t ids, uint32_t table, uint32_t x) {
    uvcc_tensor_desc d = *uvcci_tf_desc(b, x);
    const bool segments = b->m.segments != 0;
    d.bits = (uint8_t)(uvcci_tf_desc(b, table)->bits + segments);
    d.sharing = UVCC_ADDITIVE;
    d.in_buffer_of = UVCC_NO_TENSOR;
    const uint32_t part = uvcci_tf_tensor(b, "XE.part", d);
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_EMBED,
                                  .in_count = 2,
                                  .in = {ids, table},
                                  .out_count = 1,
                                  .out = {part},
                                  .constant = segments ? b->m.vocabulary : 0});
    uvcci_tf_local(b, UVCC_OP_RESHARE, part, UVCC_NO_TENSOR, x);
}

/* Exact: rows of E, so nothing is truncated. */
uint32_t uvcci_model_embed(uvcci_tf_builder *b, uint32_t tokens) {
    const uint32_t x = uvcci_tf_values(b, "XE", b->rows, b->m.width);
    const uint32_t table = uvcci_tf_weight_tensor(b, 0, UVCCI_TF_E);
    assert(uvcci_model_embeds(&b->m));
    if (b->m.input == UVCC_MODEL_INPUT_TOKENS)
        embed_ids(b, tokens, table, x);
    else
        uvcci_tf_product(b, tokens, table, x, 0, false);
    return x;
}

void uvcci_model_rows_op(uvcci_tf_builder *b, uvcc_opcode opcode, uint32_t x, uint32_t whole,
                         uint32_t first, uint32_t z) {
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = (uint16_t)opcode,
                                  .in_count = whole == UVCC_NO_TENSOR ? 1 : 2,
                                  .in = {x, whole},
                                  .out_count = 1,
                                  .out = {z},
                                  .constant = first,
                                  .heads = 1,
                                  .row_groups = b->sequences});
}

uint32_t uvcci_model_rows_of(uvcci_tf_builder *b, uint32_t x, uint32_t first, uint32_t rows) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, x);
    const uint32_t z = uvcci_tf_temporary(b, b->sequences * rows, d.cols, d.bits, d.scale);
    uvcci_model_rows_op(b, UVCC_OP_SLICE_ROWS, x, UVCC_NO_TENSOR, first, z);
    return z;
}

/* ---- means ---- */

/* Of each sequence's rows: one half to the other, again and again, what is left of an odd number to
 * the first. All of it is local, for any number of sequences. */
static uint32_t sum_of_rows(uvcci_tf_builder *b, uint32_t x) {
    for (uint32_t rows = b->m.tokens; rows > 1 && b->err == 0; rows /= 2) {
        const uvcc_tensor_desc d = *uvcci_tf_desc(b, x);
        const uint32_t half = rows / 2, above = uvcci_model_rows_of(b, x, 0, half),
                       below = uvcci_model_rows_of(b, x, half, half);
        const uint32_t z = uvcci_tf_temporary(b, b->sequences * half, d.cols, d.bits + 2u, d.scale);
        uvcci_tf_local(b, UVCC_OP_ADD, above, below, z);
        if (rows % 2 != 0)
            uvcci_model_rows_op(b, UVCC_OP_ADD_ROWS, uvcci_model_rows_of(b, x, rows - 1, 1), z, 0,
                                z);
        x = z;
    }
    return x;
}

static uint32_t mean_of_all(uvcci_tf_builder *b, uint32_t x) {
    unsigned fraction;
    const int64_t factor = uvcci_tf_inverse(b->m.tokens, &fraction);
    const uint32_t sum = sum_of_rows(b, x),
                   z = uvcci_tf_values(b, "MEAN", b->sequences, b->m.width);
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, sum);
    const uint32_t finer = uvcci_tf_temporary(
        b, d.rows, d.cols, d.bits + uvcci_tf_log2((uint64_t)factor) + 1u, d.scale + fraction);
    uvcci_tf_scale(b, sum, finer, factor, fraction);
    uvcci_tf_truncate(b, finer, z, b->truncation);
    return z;
}

/* 1 where there is a token. */
static uint32_t tokens_of(uvcci_tf_builder *b, uint32_t padding) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, padding);
    const uint32_t z = uvcci_tf_temporary(b, d.rows, d.cols, 2, 0);
    uvcci_tf_scale(b, padding, z, -1, 0);
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_ADD_PUBLIC,
                                  .in_count = 1,
                                  .in = {z},
                                  .out_count = 1,
                                  .out = {z},
                                  .constant = 1});
    return z;
}

/* Sums over real tokens times 1 / their number, which nobody sees either. */
static uint32_t mean_of_tokens(uvcci_tf_builder *b, uint32_t x, uint32_t padding) {
    static const char *const names[] = {"TOKENS.inverse"};
    const unsigned log = uvcci_tf_log2(b->m.tokens), f = b->n.f;
    const uint32_t real = tokens_of(b, padding), width = b->m.width;
    const uint32_t sum = uvcci_tf_temporary(b, b->sequences, width, b->n.value + log, f);
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS,
                                  .in_count = 2,
                                  .in = {real, x},
                                  .out_count = 1,
                                  .out = {sum},
                                  .heads = 1,
                                  .row_groups = b->sequences});
    const uint32_t count = uvcci_tf_temporary(b, b->sequences, 1, log + 2, 0);
    const uint32_t finer = uvcci_tf_temporary(b, b->sequences, 1, log + 2 + f, f);
    uvcci_tf_local(b, UVCC_OP_ROW_SUM, real, UVCC_NO_TENSOR, count);
    uvcci_tf_local(b, UVCC_OP_SHIFT_LEFT, count, UVCC_NO_TENSOR, finer);
    uint32_t inverse = 0;
    uvcci_tf_function(b, UVCC_NL_RECIPROCAL, (uvcc_nonlinear_options){0}, &finer, names, &inverse);
    const uint32_t z = uvcci_tf_values(b, "MEAN", b->sequences, width);
    uvcci_tf_times_within(b, UVCC_OP_ROW_MUL, sum, inverse, z,
                          b->n.value + uvcci_tf_desc(b, inverse)->scale + 1u);
    return z;
}

/* ---- heads ---- */

uint32_t uvcci_model_pooled(uvcci_tf_builder *b, uint32_t x, uint32_t padding) {
    static const char *const names[] = {"POOLED"};
    if (b->m.pool == UVCC_MODEL_POOL_MEAN)
        return padding != UVCC_NO_TENSOR ? mean_of_tokens(b, x, padding) : mean_of_all(b, x);
    const uint32_t first = uvcci_model_rows_of(b, x, 0, 1);
    if (b->m.pool == UVCC_MODEL_POOL_FIRST)
        return first;
    const uint32_t h = uvcci_tf_linear(b, "POOL", first, 0, UVCCI_TF_WP, UVCCI_TF_BP);
    uint32_t z = 0;
    uvcci_tf_function(b, UVCC_NL_TANH, (uvcc_nonlinear_options){0}, &h, names, &z);
    return z;
}

static uint32_t logits(uvcci_tf_builder *b, uint32_t x) {
    if (b->m.logits_last)
        x = uvcci_model_rows_of(b, x, b->m.tokens - 1, 1);
    if (b->m.head == UVCC_MODEL_HEAD_OWN)
        return uvcci_tf_linear(b, "L", x, 0, UVCCI_TF_WL, UVCCI_TF_NONE);
    const uint32_t z = uvcci_tf_values(b, "L", uvcci_tf_desc(b, x)->rows, b->m.vocabulary);
    uvcci_tf_product(b, x, uvcci_tf_weight_tensor(b, 0, UVCCI_TF_E), z, UVCC_OP_TRANS_B, false);
    return z;
}

uint32_t uvcci_model_head(uvcci_tf_builder *b, uint32_t x, uint32_t padding) {
    if (b->m.head != UVCC_MODEL_HEAD_NONE)
        return logits(b, x);
    if (b->m.pool != UVCC_MODEL_POOL_NONE)
        x = uvcci_model_pooled(b, x, padding);
    return b->m.labels != 0 ? uvcci_tf_linear(b, "LABELS", x, 0, UVCCI_TF_WC, UVCCI_TF_BC) : x;
}
