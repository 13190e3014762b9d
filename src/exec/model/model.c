/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - descriptions of models: which there are, with messages that name the field of those
 * that are refused. */
#include "exec/model/model.h"
#include "exec/program/program.h"

#include <stdio.h>
#include <string.h>

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

/* Cells finer than 32 units are lost in what the products before round. */
uint8_t uvcc_model_index_bits(const uvcc_model_config *c) {
    if (c == NULL || c->index_bits != 0)
        return c != NULL ? c->index_bits : 0;
    const int wanted = c->frac_bits - 5;
    return (uint8_t)(wanted < UVCCI_MODEL_INDEX_BITS_MAX ? wanted : UVCCI_MODEL_INDEX_BITS_MAX);
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
    if (c->plain_norms > 1)
        return refuse(m, "plain_norms", "must be 0 or 1");
    if (c->plain_norms && c->order != UVCC_MODEL_PRE_NORM)
        return refuse(m, "plain_norms", "must be 0 where norms are behind the sums");
    if (!(c->epsilon >= 0 && c->epsilon <= 1)) /* nor what is no number */
        return refuse(m, "epsilon", "must be 0 to 1");
    return check_heads(c, m);
}

static int check_positions(const uvcc_model_config *c, const uvcci_message *m) {
    if (c->positions > UVCC_MODEL_POSITIONS_ROTARY)
        return refuse(m, "positions", "is unknown");
    if (c->positions != UVCC_MODEL_POSITIONS_ROTARY)
        return c->rope_theta == 0 ? 0 : refuse(m, "rope_theta", "is of rotary positions");
    if (c->rope_theta != 0 && !(c->rope_theta > 1 && c->rope_theta <= 0x1p30))
        return refuse(m, "rope_theta", "must be above 1 and at most 2^30, or 0");
    if (uvcci_model_head_size(c) % 2 != 0)
        return refuse(m, "head_size", "must be even for rotary positions");
    return 0;
}

static int check_sight(const uvcc_model_config *c, const uvcci_message *m) {
    if (c->mask > UVCC_MODEL_MASK_WINDOW)
        return refuse(m, "mask", "is unknown");
    if ((c->mask == UVCC_MODEL_MASK_WINDOW) != (c->window != 0))
        return refuse(m, "window", "is of the mask WINDOW, which needs one of 1 or more");
    if (c->mask != UVCC_MODEL_MASK_WINDOW && (c->window_period != 0 || c->window_layers != 0))
        return refuse(m, c->window_period != 0 ? "window_period" : "window_layers",
                      "is of the mask WINDOW");
    if (c->window_period > 64)
        return refuse(m, "window_period", "must be at most 64");
    if (c->window_period < 64 && c->window_layers >> (c->window_period + !c->window_period) != 0)
        return refuse(m, "window_layers", "must be bits below window_period");
    if (c->padding > 1)
        return refuse(m, "padding", "must be 0 or 1");
    if (c->unscaled > 1)
        return refuse(m, "unscaled", "must be 0 or 1");
    return check_positions(c, m);
}

static int check_embeddings(const uvcc_model_config *c, const uvcci_message *m) {
    const bool tokens = uvcci_model_embeds(c);
    if (c->input > UVCC_MODEL_INPUT_TOKENS)
        return refuse(m, "input", "is unknown");
    if (c->head > UVCC_MODEL_HEAD_TIED)
        return refuse(m, "head", "is unknown");
    if ((tokens || c->head != UVCC_MODEL_HEAD_NONE) != (c->vocabulary != 0) ||
        c->vocabulary > 1u << 20)
        return refuse(m, "vocabulary", "is of tokens and heads, which need 1 to 2^20");
    if (c->segments > 1u << 16)
        return refuse(m, "segments", "must be at most 65536");
    if (c->segments != 0 && (!tokens || c->head == UVCC_MODEL_HEAD_TIED))
        return refuse(m, "segments", "is of tokens, without a tied head");
    if (c->embedding_norm > 1)
        return refuse(m, "embedding_norm", "must be 0 or 1");
    return 0;
}

static int check_head(const uvcc_model_config *c, const uvcci_message *m) {
    static const uint32_t mean_most = 4096; /* of which there is a reciprocal */
    const bool head = c->head != UVCC_MODEL_HEAD_NONE;
    if (c->logits_last > 1)
        return refuse(m, "logits_last", "must be 0 or 1");
    if (c->logits_last && (!head || c->padding))
        return refuse(m, "logits_last", "is of a head, without padding");
    if (c->pool > UVCC_MODEL_POOL_MEAN)
        return refuse(m, "pool", "is unknown");
    if (c->pool != UVCC_MODEL_POOL_NONE && head)
        return refuse(m, "pool", "must be none with a head");
    if (c->pool == UVCC_MODEL_POOL_MEAN && c->tokens > mean_most)
        return refuse(m, "tokens", "must be at most 4096 for their mean");
    if (c->labels > 1u << 16)
        return refuse(m, "labels", "must be at most 65536");
    if (c->labels != 0 && head)
        return refuse(m, "labels", "must be 0 with a head");
    return 0;
}

static int check_ends(const uvcc_model_config *c, const uvcci_message *m) {
    int err = check_embeddings(c, m);
    if (err == 0)
        err = check_head(c, m);
    if (err != 0)
        return err;
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
    if (c->index_bits != 0 && (c->index_bits < 4 || c->index_bits > 10))
        return refuse(m, "index_bits", "must be 4 to 10");
    if (c->mode > UVCC_MODEL_EXACT_DCF)
        return refuse(m, "mode", "is unknown");
    if (c->weights > UVCC_MODEL_PUBLIC_WEIGHTS)
        return refuse(m, "weights", "is unknown");
    return 0;
}

/* ---- sizes ---- */

/* Elements of an op: a session cuts larger ones into more messages than can be numbered. Softmax
 * has most of them, exact modes more. */
enum { LOG2_ELEMENTS = 29, LOG2_SCORES_FAST = 27, LOG2_SCORES_EXACT = 25 };
/* No fewer than the ops of a layer of one tile and sequence, of each tile and each sequence more,
 * and of what is around the layers. */
enum { LAYER_OPS = 64, TILE_OPS = 8, SEQUENCE_OPS = 12, OUTER_OPS = 96 };

static uint64_t widest_row(const uvcc_model_config *c) {
    const uint32_t queries = c->heads * uvcci_model_head_size(c);
    const bool words = c->input == UVCC_MODEL_INPUT_ONE_HOT ||
                       (c->head != UVCC_MODEL_HEAD_NONE && !c->logits_last);
    uint32_t most = c->width > c->ff_width ? c->width : c->ff_width;
    most = words && c->vocabulary + c->segments > most ? c->vocabulary + c->segments : most;
    return most > queries ? most : queries;
}

/* Of a tile, in the layer that sees most. */
static uint32_t most_columns(const uvcc_model_config *c) {
    const uint64_t rows = uvcci_model_tile_rows(c);
    uint64_t most = 0;
    for (uint32_t l = 0; l < c->layers && l < 64; l++) { /* all that a pattern has */
        const uint32_t window = uvcci_model_window(c, l);
        const uint64_t cols = window != 0 ? rows + window - 1 : c->tokens;
        most = cols > most ? cols : most;
    }
    return most < c->tokens ? (uint32_t)most : c->tokens;
}

static int check_elements(const uvcc_model_config *c, const uvcci_message *m) {
    const unsigned scores = c->mode == UVCC_MODEL_FAST ? LOG2_SCORES_FAST : LOG2_SCORES_EXACT;
    const uint64_t tile = (uint64_t)uvcci_model_tile_rows(c) * most_columns(c) * c->heads;
    const uint64_t row = c->tokens * widest_row(c);
    const uint64_t at_once = c->padding ? 1 : c->sequences; /* padding: one after the other */
    if (tile > 1ull << scores)
        return uvcci_fail(
            m, UVCC_ERR_CONFIG,
            "tokens must be fewer: %llu scores of a sequence at a time, more than 2^%u",
            (unsigned long long)tile, scores);
    if (tile * at_once > 1ull << scores)
        return uvcci_fail(m, UVCC_ERR_CONFIG,
                          "sequences must be at most %llu: 2^%u scores at a time",
                          (unsigned long long)((1ull << scores) / tile), scores);
    if (row > 1u << LOG2_ELEMENTS)
        return uvcci_fail(m, UVCC_ERR_CONFIG, "tokens must be at most %llu: 2^%u elements",
                          (unsigned long long)((1u << LOG2_ELEMENTS) / widest_row(c)),
                          LOG2_ELEMENTS);
    if (row * c->sequences > 1u << LOG2_ELEMENTS)
        return uvcci_fail(m, UVCC_ERR_CONFIG, "sequences must be at most %llu: 2^%u elements",
                          (unsigned long long)((1u << LOG2_ELEMENTS) / row), LOG2_ELEMENTS);
    return 0;
}

static int check_ops(const uvcc_model_config *c, const uvcci_message *m) {
    const uint32_t rows = uvcci_model_tile_rows(c);
    const uint32_t layer = LAYER_OPS + (c->tokens + rows - 1) / rows * TILE_OPS;
    const uint32_t all = UVCCI_MODEL_OPS_END - OUTER_OPS, most = all / c->layers;
    if (layer > most)
        return uvcci_fail(m, UVCC_ERR_CONFIG,
                          "layers must be at most %u: an entry has no numbers for more ops",
                          all / layer);
    if (c->padding && c->sequences > 1 && layer + c->sequences * SEQUENCE_OPS > most)
        return uvcci_fail(m, UVCC_ERR_CONFIG,
                          "sequences must be at most %u with padding: an entry has no numbers for "
                          "more ops",
                          most > layer + SEQUENCE_OPS ? (most - layer) / SEQUENCE_OPS : 1);
    return 0;
}

/* ---- widths of sums ---- */

/* A sum of products: its bits, and how many values of so many bits are factors of one. */
typedef struct sum_width {
    const char *what;
    unsigned bits, values, weights;
    bool inner; /* the values are the activation's input and so of inner_bits, if that is given */
} sum_width;

/* By how much a field has to fall where each of its bits takes `times` off the sum. */
static unsigned steps(unsigned excess, unsigned times) {
    return (excess + times - 1) / times;
}

/* Refuses what is wider than sums may be, and says to what one field or another must fall. */
static int want(const uvcc_model_config *c, const sum_width *s, const uvcci_message *m) {
    static const unsigned least_frac = 12;
    if (s->bits <= UVCCI_MAX_BITS)
        return 0;
    const unsigned excess = s->bits - UVCCI_MAX_BITS, f = c->frac_bits;
    const bool inner = s->inner && c->inner_bits != 0;
    const unsigned value = (inner ? uvcci_model_inner_bits(c) : uvcci_model_value_bits(c)) - f;
    const unsigned weight = uvcci_model_weight_bits(c) - f;
    const unsigned off[] = {steps(excess, s->values + s->weights),
                            s->values != 0 ? steps(excess, s->values) : value,
                            s->weights != 0 ? steps(excess, s->weights) : weight};
    const struct {
        const char *name;
        unsigned now, least;
    } fields[] = {{"frac_bits", f, least_frac},
                  {inner ? "inner_bits" : "value_bits", value, 1},
                  {"weight_bits", weight, 1}};
    char advice[128] = "";
    for (unsigned i = 0; i < 3; i++)
        if (off[i] + fields[i].least <= fields[i].now) {
            const size_t at = strlen(advice);
            snprintf(advice + at, sizeof advice - at, "%s%s must be at most %u",
                     at != 0 ? ", or " : "", fields[i].name, fields[i].now - off[i]);
        }
    return uvcci_fail(m, UVCC_ERR_BOUND, "%s need %u bits, more than %u; %s", s->what, s->bits,
                      UVCCI_MAX_BITS, advice[0] != 0 ? advice : "several fields must fall");
}

/* Bits of Q K^T / sqrt(head_size) before its truncation. */
static unsigned score_bits(const uvcc_model_config *c) {
    const uint32_t head = uvcci_model_head_size(c);
    unsigned fraction;
    const uint64_t factor = c->unscaled ? 1 : (uint64_t)uvcci_tf_root_inverse(head, &fraction);
    return 2 * uvcci_model_value_bits(c) + uvcci_tf_log2(factor) + uvcci_tf_log2(head);
}

/* Bits that an activation declares: those of its input, of a comparison's part and of a table's. */
static unsigned activated_bits(const uvcc_model_config *c) {
    const unsigned more = c->mode == UVCC_MODEL_FAST ? 1 : 2;
    return uvcci_model_inner_bits(c) + (c->activation == UVCC_NL_RELU ? 0 : more);
}

/* Factors of W2's products: the activation's, or what gates made of them. */
static unsigned unit_bits(const uvcc_model_config *c) {
    return c->ff == UVCC_MODEL_FF_GATED ? uvcci_model_value_bits(c) : activated_bits(c);
}

/* The widest sums, as the ops count them. */
static int check_bounds(const uvcc_model_config *c, const uvcci_message *m) {
    const unsigned value = uvcci_model_value_bits(c), weight = uvcci_model_weight_bits(c);
    const uint32_t queries = c->heads * uvcci_model_head_size(c);
    const uint32_t most = c->width > queries ? c->width : queries;
    const bool gated = c->ff == UVCC_MODEL_FF_GATED;
    const bool rotary = c->positions == UVCC_MODEL_POSITIONS_ROTARY;
    const bool embeds = c->input == UVCC_MODEL_INPUT_ONE_HOT; /* ids name rows, and sum nothing */
    const bool centred = c->norm == UVCC_MODEL_LAYER_NORM;    /* values less their mean */
    const sum_width all[] = {
        {"products with weights", value + weight + uvcci_tf_log2(most), 1, 1, false},
        {"products with E", embeds ? 1 + weight + uvcci_tf_log2(c->vocabulary + c->segments) : 0, 0,
         1, false},
        {"products with W2", unit_bits(c) + weight + uvcci_tf_log2(c->ff_width), 1, 1, !gated},
        {"gated units", gated ? activated_bits(c) + value : 0, 2, 0, false},
        {"squares in norms", 2 * (value + centred) + uvcci_tf_log2(c->width), 2, 0, false},
        {"sums over tokens", value + c->frac_bits + 1u + uvcci_tf_log2(c->tokens), 1, 0, false},
        {"scores", score_bits(c), 2, 0, false},
        {"turned queries and keys", rotary ? value + c->frac_bits + UVCCI_MODEL_ROTARY_SCALE : 0, 1,
         0, false},
    };
    int err = 0;
    for (unsigned i = 0; i < sizeof all / sizeof all[0] && err == 0; i++)
        err = want(c, &all[i], m);
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
    if (err == 0)
        err = check_elements(c, &m);
    if (err == 0)
        err = check_ops(c, &m);
    return err == 0 ? uvcci_fail(&m, 0, "%s", "") : err;
}
