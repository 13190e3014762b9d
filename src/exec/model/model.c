/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - descriptions of models: which there are, with messages that name the field of those
 * that are refused. */
#include "exec/model/model.h"

#include "exec/program/program.h"

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
