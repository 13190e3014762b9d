/* SPDX-License-Identifier: Apache-2.0 */
/* model_emit.c - a model's weights as tensors and its forward pass as ops, in the words of
 * transformer.h: this file is what a description is to them, and checks what the caller brings. */
#include "exec/model/model_ends.h"
#include "exec/model/nonlinear.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <uvcc/compute.h>

enum { PREFIX_BYTES = 20 };

static bool is_prefix(const char *prefix) {
    return prefix != NULL && strnlen(prefix, PREFIX_BYTES + 1) <= PREFIX_BYTES;
}

/* ---- tensors ---- */

static uvcc_tensor_desc hidden_states(const uvcc_model_config *c) {
    return (uvcc_tensor_desc){.rows = c->sequences * c->tokens,
                              .cols = c->width,
                              .bits = (uint8_t)uvcci_model_value_bits(c),
                              .scale = c->frac_bits,
                              .lifetime = UVCC_TRANSIENT,
                              .in_buffer_of = UVCC_NO_TENSOR};
}

int uvcc_model_inputs(const uvcc_model_config *c, uvcc_tensor_desc *x, uvcc_tensor_desc *padding) {
    if (c == NULL || x == NULL || uvcc_model_check(c, NULL, 0) != 0)
        return UVCC_ERR_USAGE;
    *x = hidden_states(c);
    if (c->input == UVCC_MODEL_INPUT_ONE_HOT) {
        x->cols = c->vocabulary + c->segments;
        x->bits = 1;
        x->scale = 0;
    } else if (c->input == UVCC_MODEL_INPUT_TOKENS) {
        const unsigned bits =
            uvcci_tf_log2(c->vocabulary > c->segments ? c->vocabulary : c->segments);
        x->cols = c->segments != 0 ? 2 : 1;
        x->bits = (uint8_t)(bits != 0 ? bits : 1);
        x->scale = 0;
        x->sharing = UVCC_ONE_HOT;
    }
    if (padding != NULL)
        *padding = (uvcc_tensor_desc){.rows = c->sequences,
                                      .cols = c->tokens,
                                      .bits = 1,
                                      .lifetime = UVCC_TRANSIENT,
                                      .in_buffer_of = UVCC_NO_TENSOR};
    return 0;
}

int uvcc_model_output(const uvcc_model_config *c, uint32_t *rows, uint32_t *cols) {
    if (c == NULL || rows == NULL || cols == NULL || uvcc_model_check(c, NULL, 0) != 0)
        return UVCC_ERR_USAGE;
    const bool each = !c->logits_last && c->pool == UVCC_MODEL_POOL_NONE;
    *rows = c->sequences * (each ? c->tokens : 1);
    *cols = c->head != UVCC_MODEL_HEAD_NONE ? c->vocabulary : c->labels != 0 ? c->labels : c->width;
    return 0;
}

/* Public weights, too, have shares but for those that are factors of products. */
int uvcc_model_weights(const uvcc_model_config *c, uvcc_program *p, const char *prefix,
                       uint32_t *tensors, char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    uvcc_model_weight w;
    if (c == NULL || p == NULL || tensors == NULL || !is_prefix(prefix))
        return uvcci_fail(&m, UVCC_ERR_USAGE, "there is no program, prefix or place for tensors");
    const int err = uvcc_model_check(c, message, message_cap);
    if (err != 0)
        return err;
    for (uint32_t i = 0; uvcc_model_weight_at(c, i, &w) == 0; i++) {
        char name[UVCCI_NAME_BYTES];
        const bool open = uvcci_model_is_open(c, &w);
        snprintf(name, sizeof name, "%s%s", prefix, w.name);
        if (uvcc_program_find(p, name) >= 0)
            return uvcci_fail(&m, UVCC_ERR_CONFIG, "%s: the program has a tensor of that name",
                              name);
        const uvcc_tensor_desc d = {.name = name,
                                    .rows = w.rows,
                                    .cols = w.cols,
                                    .bits = w.bits,
                                    .scale = w.scale,
                                    .lifetime = UVCC_PERSIST,
                                    .in_buffer_of = UVCC_NO_TENSOR,
                                    .sharing = open ? UVCC_PUBLIC : UVCC_REPLICATED};
        const int t = uvcc_program_tensor(p, &d);
        if (t < 0)
            return uvcci_fail(&m, t, "%s: %s", name, uvcc_error_text(t));
        tensors[i] = (uint32_t)t;
    }
    return 0;
}

/* ---- what the caller brings ---- */

static int check_tensor(const uvcc_program *p, uint32_t tensor, const char *name,
                        const uvcc_tensor_desc *want, const uvcci_message *m) {
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, tensor);
    if (d == NULL)
        return uvcci_fail(m, UVCC_ERR_USAGE, "%s: there is no such tensor", name);
    if (d->rows != want->rows || d->cols != want->cols || d->scale != want->scale)
        return uvcci_fail(m, UVCC_ERR_USAGE, "%s is %u x %u at scale %u, but must be %u x %u at %u",
                          name, d->rows, d->cols, d->scale, want->rows, want->cols, want->scale);
    if (d->bits > want->bits)
        return uvcci_fail(m, UVCC_ERR_BOUND, "%s declares %u bits, more than %u", name, d->bits,
                          want->bits);
    if (d->sharing != want->sharing)
        return uvcci_fail(m, UVCC_ERR_USAGE, "%s must be %s", name,
                          want->sharing == UVCC_PUBLIC    ? "public"
                          : want->sharing == UVCC_ONE_HOT ? "one-hot"
                                                          : "replicated");
    return 0;
}

/* x: `in` says what it is. */
static int check_tensors(const uvcc_model_config *c, const uvcc_program *p, const uint32_t *weights,
                         uint32_t x, const uvcc_tensor_desc *in, uint32_t padding,
                         const uvcci_message *m) {
    uvcc_tensor_desc given, pad;
    uvcc_model_weight w;
    int err = uvcc_model_inputs(c, &given, &pad);
    if (err == 0)
        err = check_tensor(p, x, "x", in != NULL ? in : &given, m);
    if (err == 0 && (c->padding != 0) != (padding != UVCC_NO_TENSOR))
        err = uvcci_fail(m, UVCC_ERR_USAGE, "padding: the model %s",
                         c->padding != 0 ? "needs the tensor" : "has none");
    if (err == 0 && c->padding != 0)
        err = check_tensor(p, padding, "padding", &pad, m);
    for (uint32_t i = 0; err == 0 && uvcc_model_weight_at(c, i, &w) == 0; i++) {
        const uvcc_tensor_desc want = {.rows = w.rows,
                                       .cols = w.cols,
                                       .bits = w.bits,
                                       .scale = w.scale,
                                       .sharing = uvcci_model_is_open(c, &w) ? UVCC_PUBLIC
                                                                             : UVCC_REPLICATED};
        err = check_tensor(p, weights[i], w.name, &want, m);
    }
    return err;
}

/* ---- the builder of a model ---- */

static uvcci_tf_numbers numbers_of(const uvcc_model_config *c) {
    uvcci_tf_numbers n = {
        .hidden = c->ff_width,
        .head_dim = uvcci_model_head_size(c),
        .sequences = c->sequences,
        .rank_heads = c->heads,
        .rank_hidden = c->ff_width,
        .f = c->frac_bits,
        .value = (uint8_t)uvcci_model_value_bits(c),
        .inner = (uint8_t)uvcci_model_inner_bits(c),
        .weight = (uint8_t)uvcci_model_weight_bits(c),
    };
    n.rank_dim = n.rank_heads * n.head_dim;
    n.tile_rows = uvcci_model_tile_rows(c);
    n.tiles = (c->tokens + n.tile_rows - 1) / n.tile_rows;
    assert(n.tiles >= 1 && n.tiles <= UVCCI_TF_TILES_MAX);
    return n;
}

/* A window is a matter of layers: to the builder the mask is causal then. */
uvcci_tf_builder uvcci_model_builder(const uvcc_model_config *c, const uvcc_emit *e,
                                     const uint32_t *weights) {
    static const uint8_t truncations[] = {[UVCC_MODEL_FAST] = UVCC_TRUNC_STOCHASTIC,
                                          [UVCC_MODEL_EXACT] = UVCC_TRUNC_EXACT,
                                          [UVCC_MODEL_EXACT_DCF] = UVCC_TRUNC_EXACT_DCF};
    uvcci_tf_builder b = {
        .m = *c,
        .how = {.truncation = truncations[c->mode],
                .exact = c->mode != UVCC_MODEL_FAST,
                .tensor_ranks = 1},
        .given = weights,
        .prefix = e->prefix,
        .padding = UVCC_NO_TENSOR,
        .n = numbers_of(c),
        .p = e->program,
        .al = e->alloc,
        .phase = e->phase,
        .truncation = truncations[c->mode],
        .mb = e->mb,
        .k = e->k,
        .k_end = UVCCI_MODEL_OPS_END,
        .sequences = c->sequences,
        .rows = c->sequences * c->tokens,
        .own_rows = c->sequences * c->tokens,
        .temporaries = e->temporaries,
    };
    if (b.m.mask == UVCC_MODEL_MASK_WINDOW) /* layers have the window */
        b.m.mask = UVCC_MODEL_MASK_CAUSAL;
    snprintf(b.scope, sizeof b.scope, "%s", e->prefix);
    return b;
}

void uvcci_model_take_padding(uvcci_tf_builder *b, uint32_t padding) {
    const bool causal = b->m.mask == UVCC_MODEL_MASK_CAUSAL;
    const unsigned score = b->n.inner + causal; /* bits; they count twice: above, and below */
    uint8_t bits;
    if (padding == UVCC_NO_TENSOR)
        return;
    const uvcc_tensor_desc twice = {.bits = (uint8_t)(score + 1), .scale = b->n.f};
    const int64_t far = uvcci_nonlinear_mask(&twice, &bits);
    const unsigned room = uvcci_tf_log2((uint64_t)-far + (1ull << score));
    b->padding = uvcci_tf_transient(b, "PAD", b->sequences, b->m.tokens, room, b->n.f);
    uvcci_tf_scale(b, padding, b->padding, far, b->n.f);
}

/* Turned the other way. */
static void turn_table(int64_t *table, uint32_t rows, uint32_t head) {
    for (size_t i = 0; i < (size_t)rows * head; i++)
        table[i] = i % head >= head / 2 ? -table[i] : table[i];
}

void uvcci_model_take_rotary(uvcci_tf_builder *b) {
    const uint32_t head = b->n.head_dim;
    if (b->m.positions != UVCC_MODEL_POSITIONS_ROTARY || b->err != 0)
        return;
    const size_t bytes = (size_t)b->m.tokens * head * sizeof(int64_t);
    int64_t *table = b->al->alloc(b->al->user, bytes, UVCC_MEM_STATE);
    if (table == NULL) {
        uvcci_tf_note(b, UVCC_ERR_NOMEM);
        return;
    }
    const uvcc_tensor_desc d = {.rows = b->m.tokens,
                                .cols = head,
                                .bits = UVCCI_MODEL_ROTARY_SCALE + 1,
                                .scale = UVCCI_MODEL_ROTARY_SCALE};
    uvcci_model_rotary(&b->m, table);
    b->rotary = uvcci_tf_constant(b, "ROTARY", d, table);
    if (b->keeps) { /* who goes back */
        turn_table(table, d.rows, head);
        b->unrotary = uvcci_tf_constant(b, "ROTARY.back", d, table);
    }
    b->al->free(b->al->user, table, bytes, UVCC_MEM_STATE);
}

static int end(uvcci_tf_builder *b, uvcc_emit *e, const uvcci_message *m) {
    e->k = (uint16_t)(b->k < UINT16_MAX ? b->k : UINT16_MAX);
    e->temporaries = b->temporaries;
    if (b->err == 0)
        return uvcci_fail(m, 0, "%s", "");
    if (b->err == UVCC_ERR_LIMIT && b->k >= UVCCI_MODEL_OPS_END)
        return uvcci_fail(m, b->err, "layers: an entry has no numbers for so many ops");
    return uvcci_fail(m, b->err, "%s%s%s", b->culprit, b->culprit[0] ? ": " : "",
                      uvcc_error_text(b->err));
}

/* ---- the forward pass ---- */

static uint32_t layer(uvcci_tf_builder *b, uint32_t number, uint32_t x) {
    uvcci_tf_layer l = {.x = x};
    char scope[sizeof b->scope];
    snprintf(scope, sizeof scope, "%s", b->scope);
    uvcci_tf_scope(b, scope, number);
    b->window = uvcci_model_window(&b->m, number);
    const uint32_t y = uvcci_tf_layer_forward(b, &l, number, x);
    snprintf(b->scope, sizeof b->scope, "%s", scope);
    return y;
}

uint32_t uvcci_model_add_positions(uvcci_tf_builder *b, uint32_t x) {
    const uint32_t p = uvcci_tf_weight_tensor(b, 0, UVCCI_TF_P);
    if (p == UVCC_NO_TENSOR)
        return x;
    const uint32_t z = uvcci_tf_values(b, "XP", b->rows, b->m.width);
    uvcci_tf_local(b, UVCC_OP_BIAS_ADD, x, p, z);
    return z;
}

static int check_call(const uvcc_model_config *c, const uvcc_emit *e, const uint32_t *weights,
                      const uint32_t *out, const uvcci_message *m) {
    if (c == NULL || e == NULL || e->program == NULL || e->alloc == NULL || !is_prefix(e->prefix) ||
        weights == NULL || out == NULL)
        return uvcci_fail(m, UVCC_ERR_USAGE, "there is no program, prefix, allocator or weight");
    return uvcc_model_check(c, m->text, m->cap);
}

/* What stands before the layers. */
static uint32_t begin(uvcci_tf_builder *b, uint32_t x) {
    static const char *const first[] = {"XN", "NE", "RE"};
    if (uvcci_model_embeds(&b->m))
        x = uvcci_model_embed(b, x);
    x = uvcci_model_add_positions(b, x);
    return b->m.embedding_norm ? uvcci_tf_normalise(b, first, x, 0, UVCCI_TF_GE, UVCCI_TF_CE).y : x;
}

/* And behind them. */
static uint32_t finish(uvcci_tf_builder *b, uint32_t x, uint32_t padding) {
    static const char *const last[] = {"YF", "NF", "RF"};
    if (b->m.last_norm)
        x = uvcci_tf_normalise(b, last, x, 0, UVCCI_TF_GF, UVCCI_TF_CF).y;
    return uvcci_model_head(b, x, padding);
}

int uvcc_model_emit(const uvcc_model_config *c, uvcc_emit *e, const uint32_t *weights, uint32_t x,
                    uint32_t padding, uint32_t *out, char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    int err = check_call(c, e, weights, out, &m);
    if (err == 0)
        err = check_tensors(c, e->program, weights, x, NULL, padding, &m);
    if (err != 0)
        return err;
    uvcci_tf_builder b = uvcci_model_builder(c, e, weights);
    uvcci_model_take_padding(&b, padding);
    uvcci_model_take_rotary(&b);
    x = begin(&b, x);
    for (uint32_t l = 0; l < c->layers && b.err == 0; l++)
        x = layer(&b, l, x);
    *out = finish(&b, x, padding);
    return end(&b, e, &m);
}

int uvcci_model_emit_begin(const uvcc_model_config *c, uvcc_emit *e, const uint32_t *weights,
                           uint32_t x, uint32_t *out, const uvcci_message *m) {
    uvcci_tf_builder b = uvcci_model_builder(c, e, weights);
    *out = begin(&b, x);
    return end(&b, e, m);
}

int uvcci_model_emit_finish(const uvcc_model_config *c, uvcc_emit *e, const uint32_t *weights,
                            uint32_t x, uint32_t padding, uint32_t *out, const uvcci_message *m) {
    uvcci_tf_builder b = uvcci_model_builder(c, e, weights);
    *out = finish(&b, x, padding);
    return end(&b, e, m);
}

int uvcc_model_emit_layer(const uvcc_model_config *c, uvcc_emit *e, uint32_t number,
                          const uint32_t *weights, uint32_t x, uint32_t padding, uint32_t *out,
                          char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    int err = check_call(c, e, weights, out, &m);
    if (err == 0 && number >= c->layers)
        err = uvcci_fail(&m, UVCC_ERR_USAGE, "layer: there is no layer %u", number);
    if (err != 0)
        return err;
    const uvcc_tensor_desc in = hidden_states(c);
    err = check_tensors(c, e->program, weights, x, &in, padding, &m);
    if (err != 0)
        return err;
    uvcci_tf_builder b = uvcci_model_builder(c, e, weights);
    char scope[sizeof b.scope];
    snprintf(scope, sizeof scope, "%s", b.scope);
    uvcci_tf_scope(&b, scope, number); /* the mask, too, is this layer's */
    uvcci_model_take_padding(&b, padding);
    uvcci_model_take_rotary(&b);
    snprintf(b.scope, sizeof b.scope, "%s", scope);
    *out = layer(&b, number, x);
    return end(&b, e, &m);
}
