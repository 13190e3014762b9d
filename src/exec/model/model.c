/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - descriptions of models: which there are, with messages that name the field of those
 * that are refused; their programs, costs and plaintext twins. What a layer is in ops stands in
 * transformer_layer.c, shared with the transformer that trains. */
#include "exec/model/model.h"

#include "exec/program/program.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <uvcc/compute.h>

/* ---- descriptions ---- */

int uvcc_model_default(uvcc_model_config *c, size_t size) {
    if (c == NULL || size != sizeof *c)
        return UVCC_ERR_USAGE;
    *c = (uvcc_model_config){
        .size = sizeof *c,
        .layers = 1,
        .width = 768,
        .heads = 12,
        .ff_width = 3072,
        .activation = UVCC_NL_GELU,
        .biases = 1,
        .sequences = 1,
        .tokens = 128,
        .frac_bits = 16,
    };
    return 0;
}

static int refuse(const uvcci_message *m, const char *field, const char *rule) {
    return uvcci_fail(m, UVCC_ERR_CONFIG, "%s %s", field, rule);
}

static int check_heads(const uvcc_model_config *c, const uvcci_message *m) {
    if (c->heads == 0 || c->heads > UINT16_MAX)
        return refuse(m, "heads", "must be 1 to 65535");
    if (c->head_size == 0 && c->width % c->heads != 0)
        return refuse(m, "heads", "must divide width, or head_size be given");
    if (c->head_size > 1u << 16 || (uint64_t)c->heads * uvcci_model_head_size(c) > 1u << 16)
        return refuse(m, "head_size", "must be at most 65536, times heads too");
    if (c->heads % uvcci_model_kv_heads(c) != 0)
        return refuse(m, "kv_heads", "must divide heads");
    return 0;
}

static int check_layers(const uvcc_model_config *c, const uvcci_message *m) {
    if (c->layers == 0 || c->layers > UVCC_MODEL_MAX_LAYERS)
        return refuse(m, "layers", "must be 1 to 200");
    if (c->width == 0 || c->width > 1u << 16)
        return refuse(m, "width", "must be 1 to 65536");
    if (c->ff_width == 0 || c->ff_width > 1u << 20)
        return refuse(m, "ff_width", "must be 1 to 2^20");
    if (c->ff > UVCC_MODEL_FF_GATED)
        return refuse(m, "ff", "is unknown");
    if (c->activation != UVCC_NL_GELU && c->activation != UVCC_NL_GELU_TANH &&
        c->activation != UVCC_NL_RELU && c->activation != UVCC_NL_SILU)
        return refuse(m, "activation", "must be GELU, GELU_TANH, RELU or SILU");
    if (c->norm > UVCC_MODEL_RMS_NORM)
        return refuse(m, "norm", "is unknown");
    if (c->order > UVCC_MODEL_PRE_NORM)
        return refuse(m, "order", "is unknown");
    if (c->last_norm > 1)
        return refuse(m, "last_norm", "must be 0 or 1");
    if (c->biases > 1)
        return refuse(m, "biases", "must be 0 or 1");
    if (!(c->epsilon >= 0 && c->epsilon <= 1)) /* nor what is no number */
        return refuse(m, "epsilon", "must be 0 to 1");
    return check_heads(c, m);
}

static int check_sight(const uvcc_model_config *c, const uvcci_message *m) {
    if (c->mask > UVCC_MODEL_MASK_WINDOW)
        return refuse(m, "mask", "is unknown");
    if ((c->mask == UVCC_MODEL_MASK_WINDOW) != (c->window != 0))
        return refuse(m, "window", "is of the mask WINDOW, which needs one of 1 or more");
    if (c->mask == UVCC_MODEL_MASK_WINDOW && c->window < c->tokens)
        return refuse(m, "window", "must have all tokens: shorter ones are not there yet");
    if (c->padding > 1)
        return refuse(m, "padding", "must be 0 or 1");
    if (c->positions > UVCC_MODEL_POSITIONS_ROTARY)
        return refuse(m, "positions", "is unknown");
    if (c->positions == UVCC_MODEL_POSITIONS_ROTARY)
        return refuse(m, "positions", "must be none or learned: rotary ones are not there yet");
    return 0;
}

static int check_ends(const uvcc_model_config *c, const uvcci_message *m) {
    if (c->vocabulary != 0)
        return refuse(m, "vocabulary", "must be 0: embeddings are not there yet");
    if (c->head > UVCC_MODEL_HEAD_TIED)
        return refuse(m, "head", "is unknown");
    if (c->head != UVCC_MODEL_HEAD_NONE)
        return refuse(m, "head", "must be none: logits are not there yet");
    if (c->sequences == 0 || c->sequences > 1u << 16)
        return refuse(m, "sequences", "must be 1 to 65536");
    if (c->tokens == 0 || c->tokens > 1u << 16)
        return refuse(m, "tokens", "must be 1 to 65536");
    if ((uint64_t)c->sequences * c->tokens * c->heads > INT32_MAX)
        return refuse(m, "sequences", "times tokens times heads must be below 2^31");
    return 0;
}

static int check_numbers(const uvcc_model_config *c, const uvcci_message *m) {
    if (c->frac_bits < 12 || c->frac_bits > 20)
        return refuse(m, "frac_bits", "must be 12 to 20");
    if (c->value_bits > 12)
        return refuse(m, "value_bits", "must be at most 12");
    if (c->weight_bits > 16)
        return refuse(m, "weight_bits", "must be at most 16");
    if (uvcci_model_inner_bits(c) > uvcci_model_value_bits(c))
        return refuse(m, "inner_bits", "must be at most value_bits");
    if (c->mode > UVCC_MODEL_EXACT_DCF)
        return refuse(m, "mode", "is unknown");
    if (c->weights > UVCC_MODEL_PUBLIC_WEIGHTS)
        return refuse(m, "weights", "is unknown");
    if (c->weights == UVCC_MODEL_PUBLIC_WEIGHTS)
        return refuse(m, "weights", "must be secret: products with public ones are not there yet");
    return 0;
}

static unsigned log2_of(uint64_t n) {
    unsigned bits = 0;
    while (bits < 63 && (1ull << bits) < n)
        bits++;
    return bits;
}

static int want(unsigned bits, const char *what, const char *fields, const uvcci_message *m) {
    if (bits <= UVCCI_MAX_BITS)
        return 0;
    return uvcci_fail(m, UVCC_ERR_BOUND, "%s need %u bits, more than %u; lower %s", what, bits,
                      UVCCI_MAX_BITS, fields);
}

/* The widest sums; finish checks all. */
static int check_bounds(const uvcc_model_config *c, const uvcci_message *m) {
    const unsigned value = uvcci_model_value_bits(c), weight = uvcci_model_weight_bits(c);
    const uint32_t queries = c->heads * uvcci_model_head_size(c);
    uint32_t most = c->width > c->ff_width ? c->width : c->ff_width;
    most = most > queries ? most : queries;
    int err = want(value + weight + log2_of(most), "products with weights",
                   "frac_bits, value_bits, weight_bits, width or ff_width", m);
    if (err == 0) /* a layer norm's are of values less their mean */
        err = want(2 * (value + (c->norm == UVCC_MODEL_LAYER_NORM)) + log2_of(c->width),
                   "squares in norms", "frac_bits, value_bits or width", m);
    if (err == 0)
        err = want(value + c->frac_bits + 1u + log2_of(c->tokens), "sums over tokens",
                   "frac_bits, value_bits or tokens", m);
    return err;
}

int uvcc_model_check(const uvcc_model_config *c, char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    if (c == NULL || c->size != sizeof *c)
        return uvcci_fail(&m, UVCC_ERR_USAGE, "there is no description, or of another version");
    int err = check_layers(c, &m);
    if (err == 0)
        err = check_sight(c, &m);
    if (err == 0)
        err = check_ends(c, &m);
    if (err == 0)
        err = check_numbers(c, &m);
    if (err == 0)
        err = check_bounds(c, &m);
    return err == 0 ? uvcci_fail(&m, 0, "%s", "") : err;
}

/* ---- programs ---- */

/* What opens: y, in mode FAST truncated once more, exactly, for what was rounded stochastically
 * would tell more than itself. */
static int opened(const uvcc_model_config *c, uvcc_program *p, uint16_t k, uint32_t y) {
    if (c->mode != UVCC_MODEL_FAST)
        return (int)y;
    uvcc_tensor_desc d = *uvcc_program_tensor_at(p, y);
    d.name = "Y";
    d.bits -= UVCC_MODEL_OPEN_SHIFT;
    d.scale -= UVCC_MODEL_OPEN_SHIFT;
    d.in_buffer_of = UVCC_NO_TENSOR;
    const int out = uvcc_program_tensor(p, &d);
    if (out < 0)
        return out;
    const uvcc_op_desc op = {.name = "Y",
                             .opcode = UVCC_OP_TRUNCATE,
                             .k = k,
                             .in_count = 1,
                             .in = {y},
                             .out_count = 1,
                             .out = {(uint32_t)out},
                             .shift = UVCC_MODEL_OPEN_SHIFT,
                             .truncation = UVCC_TRUNC_EXACT};
    const int err = uvcc_program_op(p, &op);
    return err < 0 ? err : out;
}

static int add_input(uvcc_program *p, const char *name, uvcc_tensor_desc d, uint32_t id,
                     uint8_t owner) {
    d.name = name;
    const int t = uvcc_program_tensor(p, &d);
    const int err = t < 0 ? t : uvcc_program_input(p, id, (uint32_t)t, owner);
    return err < 0 ? err : t;
}

/* The entry "forward"; weights: room for their tensors. */
static int add_forward(const uvcc_model_config *c, uvcc_program *p, uint8_t owner, uint8_t receiver,
                       uint32_t *weights, const uvcc_allocator *al, const uvcci_message *m) {
    uvcc_tensor_desc x, pad;
    uvcc_emit e = {.program = p, .phase = UVCC_FWD, .prefix = "", .alloc = al};
    uint32_t y = 0;
    int padding = (int)UVCC_NO_TENSOR;
    int err = uvcc_model_weights(c, p, "", weights, m->text, m->cap);
    if (err < 0)
        return err;
    (void)uvcc_model_inputs(c, &x, &pad);
    err = uvcc_program_entry(p, "forward");
    const int in = err < 0 ? err : add_input(p, "X", x, UVCC_MODEL_IN_X, owner);
    if (in >= 0 && c->padding)
        padding = add_input(p, "PADDING", pad, UVCC_MODEL_IN_PADDING, owner);
    if (in < 0 || (c->padding && padding < 0))
        return uvcci_fail(m, in < 0 ? in : padding, "X or PADDING: %s",
                          uvcc_error_text(in < 0 ? in : padding));
    err = uvcc_model_emit(c, &e, weights, (uint32_t)in, (uint32_t)padding, &y, m->text, m->cap);
    if (err < 0)
        return err;
    const int out = opened(c, p, e.k, y);
    err = out < 0 ? out
          : receiver == UVCC_TO_ALL
              ? uvcc_program_output(p, UVCC_MODEL_OUT_Y, (uint32_t)out)
              : uvcc_program_output_to(p, UVCC_MODEL_OUT_Y, (uint32_t)out, receiver);
    return err < 0 ? uvcci_fail(m, err, "Y: %s", uvcc_error_text(err)) : 0;
}

int uvcc_model_program(uvcc_program **out, const uvcc_model_config *c, uint8_t owner,
                       uint8_t receiver, const uvcc_allocator *al, char *message,
                       size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    uvcc_program *p = NULL;
    if (out == NULL || al == NULL || al->alloc == NULL || al->free == NULL)
        return uvcci_fail(&m, UVCC_ERR_USAGE, "there is no place for the program");
    if (owner >= UVCC_PARTIES || (receiver >= UVCC_PARTIES && receiver != UVCC_TO_ALL))
        return uvcci_fail(&m, UVCC_ERR_USAGE, "owner or receiver is no party");
    int err = uvcc_model_check(c, message, message_cap);
    if (err != 0)
        return err;
    const size_t bytes = uvcc_model_weight_count(c) * sizeof(uint32_t);
    uint32_t *weights = al->alloc(al->user, bytes, UVCC_MEM_STATE);
    err = weights == NULL ? UVCC_ERR_NOMEM : uvcc_program_new(&p, al);
    if (err != 0)
        (void)uvcci_fail(&m, err, "out of memory");
    if (err == 0)
        err = add_forward(c, p, owner, receiver, weights, al, &m);
    if (err == 0)
        err = uvcc_program_finish(p, message, message_cap);
    if (weights != NULL)
        al->free(al->user, weights, bytes, UVCC_MEM_STATE);
    if (err == 0)
        *out = p;
    else
        uvcc_program_free(p);
    return err;
}

/* ---- costs ---- */

static int add_up(const uvcc_program *p, uvcc_model_costs *sum) {
    int err = uvcc_program_rounds(p, 0, NULL, &sum->rounds);
    if (err == 0)
        err = uvcc_program_memory(p, 0, &sum->transient_bytes);
    for (uint32_t i = 0; i < uvcc_program_op_count(p, 0) && err == 0; i++) {
        uvcc_op_cost one;
        err = uvcc_program_cost(p, 0, i, &one);
        if (err != 0)
            break;
        sum->online_bytes += one.online_bytes;
        sum->key_bytes += one.preprocessing_bytes;
    }
    return err;
}

int uvcc_model_cost(const uvcc_model_config *c, const uvcc_allocator *al, uvcc_model_costs *out,
                    char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    uvcc_program *p;
    if (out == NULL)
        return uvcci_fail(&m, UVCC_ERR_USAGE, "there is no place for the costs");
    int err = uvcc_model_program(&p, c, 0, UVCC_TO_ALL, al, message, message_cap);
    if (err != 0)
        return err;
    uvcc_model_costs sum = {.weight_bytes = uvcc_model_parameters(c) * 2 * sizeof(uint64_t)};
    err = add_up(p, &sum);
    uvcc_program_free(p);
    if (err != 0)
        return uvcci_fail(&m, err, "%s", uvcc_error_text(err));
    *out = sum;
    return 0;
}

/* ---- the plaintext twin ---- */

static int set_named(uvcc_reference *r, const uvcc_program *p, const char *name, const int64_t *v,
                     const uvcci_message *m) {
    const int t = uvcc_program_find(p, name);
    const int err = t < 0 ? t : uvcc_reference_set(r, (uint32_t)t, v);
    return err == 0 ? 0 : uvcci_fail(m, err, "%s: %s", name, uvcc_error_text(err));
}

static int run_reference(const uvcc_model_config *c, uvcc_reference *r, const uvcc_program *p,
                         const int64_t *weights, const int64_t *x, const int64_t *padding,
                         int64_t *y, const uvcci_message *m) {
    uvcc_model_weight w;
    int err = set_named(r, p, "X", x, m);
    if (err == 0 && c->padding)
        err = set_named(r, p, "PADDING", padding, m);
    for (uint32_t i = 0; err == 0 && uvcc_model_weight_at(c, i, &w) == 0; i++) {
        err = set_named(r, p, w.name, weights, m);
        weights += (size_t)w.rows * w.cols;
    }
    if (err == 0)
        err = uvcc_reference_step(r, 0, m->text, m->cap);
    if (err != 0)
        return err;
    const uvcc_io_desc *io = uvcc_program_output_at(p, 0, 0);
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, io->tensor);
    memcpy(y, uvcc_reference_get(r, io->tensor), (size_t)d->rows * d->cols * sizeof *y);
    return 0;
}

int uvcc_model_reference(const uvcc_model_config *c, const uvcc_allocator *al,
                         const int64_t *weights, const int64_t *x, const int64_t *padding,
                         int64_t *y, char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    uvcc_program *p;
    uvcc_reference *r;
    if (c == NULL || weights == NULL || x == NULL || y == NULL ||
        (padding != NULL) != (c->padding != 0))
        return uvcci_fail(&m, UVCC_ERR_USAGE, "a value is missing, or padding that nobody reads");
    int err = uvcc_model_program(&p, c, 0, UVCC_TO_ALL, al, message, message_cap);
    if (err != 0)
        return err;
    err = uvcc_reference_new(&r, p, al);
    if (err == 0) {
        err = run_reference(c, r, p, weights, x, padding, y, &m);
        uvcc_reference_free(r);
    } else {
        (void)uvcci_fail(&m, err, "out of memory");
    }
    uvcc_program_free(p);
    return err;
}
