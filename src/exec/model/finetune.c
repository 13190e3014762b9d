/* SPDX-License-Identifier: Apache-2.0 */
/* finetune.c - what can be fine-tuned, and how, with messages that name the field of what is
 * refused; and the weights, of which some are trained. */
#include "exec/model/finetune.h"

#include "exec/model/public_random.h"

#include "proto/crypto.h"
#include "proto/prg.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

int uvcc_finetune_default(uvcc_finetune_config *c, size_t size) {
    uvcc_transformer_config t;
    if (c == NULL || size != sizeof *c)
        return UVCC_ERR_USAGE;
    *c = (uvcc_finetune_config){.size = sizeof *c};
    (void)uvcc_transformer_default(&t, sizeof t);
    (void)uvcc_model_default(&c->model, sizeof c->model);
    c->model.pool = UVCC_MODEL_POOL_FIRST;
    c->model.labels = 2;
    c->microbatches = 1;
    c->rank = 4;
    c->adapted = UVCC_FINETUNE_WQ | UVCC_FINETUNE_WV;
    c->optimizer = t.optimizer;
    c->learning_rate = t.learning_rate;
    c->warmup = t.warmup;
    c->steps = t.steps;
    c->final_rate = t.final_rate;
    c->clip = t.clip;
    c->receiver = UVCC_TO_ALL;
    c->loss = 1;
    return 0;
}

/* ---- options ---- */

static int refuse(const uvcci_message *m, const char *field, const char *rule) {
    return uvcci_fail(m, UVCC_ERR_CONFIG, "%s %s", field, rule);
}

uint32_t uvcc_finetune_rows(const uvcc_finetune_config *c) {
    uint32_t rows = 0, cols;
    return c != NULL && uvcc_model_output(&c->model, &rows, &cols) == 0 ? rows : 0;
}

/* Its losses open to its text_owner, which here is who has the labels. */
uvcc_transformer_config uvcci_ft_training(const uvcc_finetune_config *c) {
    static const uint8_t truncations[] = {[UVCC_MODEL_FAST] = UVCC_TRUNC_STOCHASTIC,
                                          [UVCC_MODEL_EXACT] = UVCC_TRUNC_EXACT,
                                          [UVCC_MODEL_EXACT_DCF] = UVCC_TRUNC_EXACT_DCF};
    return (uvcc_transformer_config){
        .size = sizeof(uvcc_transformer_config),
        .context = c->model.tokens,
        .dim = c->model.width,
        .heads = c->model.heads,
        .layers = c->model.layers,
        .hidden = c->model.ff_width,
        .batch = c->microbatches * c->model.sequences,
        .microbatches = c->microbatches,
        .replicas = 1,
        .stages = 1,
        .tensor_ranks = 1,
        .optimizer = c->optimizer,
        .momentum_shift = c->momentum_shift,
        .variance_shift = c->variance_shift,
        .learning_rate = c->learning_rate,
        .warmup = c->warmup,
        .steps = c->steps,
        .final_rate = c->final_rate,
        .weight_decay = c->weight_decay,
        .epsilon = c->epsilon,
        .clip = c->clip,
        .frac_bits = c->model.frac_bits,
        .gradient_bits = c->gradient_bits,
        .truncation = c->model.mode <= UVCC_MODEL_EXACT_DCF ? truncations[c->model.mode] : 0,
        .exact = c->model.mode != UVCC_MODEL_FAST,
        .text_owner = c->label_owner,
        .loss = c->loss,
    };
}

/* What gives the rows of the loss. */
static int check_rows(const uvcc_finetune_config *c, const uvcci_message *m) {
    const uvcc_model_config *model = &c->model;
    const bool logits = model->head != UVCC_MODEL_HEAD_NONE;
    if (model->labels == 0 && !logits)
        return refuse(m, "labels", "must be 1 or more, or the model have a head");
    if (model->labels == 1)
        return refuse(m, "labels", "must be 2 or more: of one there is nothing to learn");
    if (c->method == UVCC_FINETUNE_HEAD && model->labels == 0)
        return refuse(m, "labels", "must be 2 or more with the method HEAD");
    if (model->logits_last)
        return refuse(m, "logits_last", "must be 0: every token has a loss");
    if (c->microbatches == 0 || c->microbatches > 1u << 12)
        return refuse(m, "microbatches", "must be 1 to 4096");
    const uint64_t rows = (uint64_t)uvcc_finetune_rows(c) * c->microbatches;
    if ((rows & (rows - 1)) != 0 || rows > 1u << 20)
        return uvcci_fail(
            m, UVCC_ERR_CONFIG,
            "sequences: a step has %llu rows with a loss, which must be a power of two, at most "
            "2^20",
            (unsigned long long)rows);
    return 0;
}

/* What a backward pass covers. */
static int check_backward(const uvcc_finetune_config *c, const uvcci_message *m) {
    const uvcc_model_config *model = &c->model;
    if (!uvcci_ft_goes_back(c))
        return 0;
    if (model->plain_norms)
        return refuse(m, "plain_norms", "must be 0 with this method: gains are what it reads");
    if (model->padding && model->sequences > 1)
        return refuse(m, "sequences",
                      "must be 1 with padding: take microbatches, which may be many");
    if (model->padding && model->pool == UVCC_MODEL_POOL_MEAN)
        return refuse(m, "pool", "must be first or tanh with padding and this method");
    if (model->padding && model->pool == UVCC_MODEL_POOL_NONE)
        return refuse(m, "padding", "must be 0 where every token has a loss");
    if (c->method == UVCC_FINETUNE_FULL && model->weights == UVCC_MODEL_PUBLIC_WEIGHTS)
        return refuse(m, "weights", "must be SECRET with the method FULL, which changes them");
    if (c->method != UVCC_FINETUNE_LORA)
        return 0;
    if (c->rank == 0 || c->rank > model->width)
        return uvcci_fail(m, UVCC_ERR_CONFIG, "rank must be 1 to the width, %u", model->width);
    if (c->adapted == 0 || c->adapted > (UVCC_FINETUNE_WQ | UVCC_FINETUNE_WK | UVCC_FINETUNE_WV))
        return refuse(m, "adapted", "must be of WQ, WK and WV");
    return 0;
}

uint32_t uvcci_ft_layer_blocks(const uvcc_finetune_config *c) {
    enum { LAYER_OPS = 240, TILE_OPS = 24, SEQUENCE_OPS = 12, BLOCK_OPS = 256 };
    const uvcc_model_config *m = &c->model;
    const uint32_t rows = uvcci_model_tile_rows(m), tiles = (m->tokens + rows - 1) / rows;
    const uint32_t apart = m->padding && m->sequences > 1 ? m->sequences : 0;
    return (LAYER_OPS + TILE_OPS * tiles + SEQUENCE_OPS * apart) / BLOCK_OPS + 1;
}

static int check_ops(const uvcc_finetune_config *c, const uvcci_message *m) {
    const uint32_t most = (UVCCI_TF_BLOCK_OUT - UVCCI_TF_BLOCK_LAYER) / uvcci_ft_layer_blocks(c);
    if (c->model.layers > most)
        return uvcci_fail(m, UVCC_ERR_CONFIG,
                          "layers must be at most %u: an entry has no numbers for more ops", most);
    return 0;
}

static int check_parties(const uvcc_finetune_config *c, const uvcci_message *m) {
    if (c->text_owner >= UVCC_PARTIES)
        return refuse(m, "text_owner", "must be 0, 1 or 2");
    if (c->label_owner >= UVCC_PARTIES)
        return refuse(m, "label_owner", "must be 0, 1 or 2");
    if (c->receiver >= UVCC_PARTIES && c->receiver != UVCC_TO_ALL)
        return refuse(m, "receiver", "must be 0, 1, 2 or UVCC_TO_ALL");
    if (c->loss > 1)
        return refuse(m, "loss", "must be 0 or 1");
    return 0;
}

int uvcc_finetune_check(const uvcc_finetune_config *c, char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    if (c == NULL || c->size != sizeof *c)
        return uvcci_fail(&m, UVCC_ERR_USAGE, "there are no options, or of another version");
    int err = uvcc_model_check(&c->model, message, message_cap);
    if (err == 0 && c->method > UVCC_FINETUNE_FULL)
        err = refuse(&m, "method", "is unknown");
    if (err == 0 && c->optimizer == UVCC_OPTIMIZER_ADAM_MINI)
        err = refuse(&m, "optimizer", "must be SGD, MOMENTUM or ADAMW");
    if (err == 0 && c->gradient_bits > 16)
        err = refuse(&m, "gradient_bits", "must be at most 16");
    if (err == 0)
        err = check_rows(c, &m);
    if (err == 0)
        err = check_backward(c, &m);
    if (err == 0)
        err = check_ops(c, &m);
    if (err == 0)
        err = check_parties(c, &m);
    const uvcc_transformer_config t =
        err == 0 ? uvcci_ft_training(c) : (uvcc_transformer_config){0};
    if (err == 0)
        err = uvcci_tf_check_optimizer(&t, &m);
    return err == 0 ? uvcci_fail(&m, 0, "%s", "") : err;
}

int64_t uvcc_finetune_rate(const uvcc_finetune_config *c, uint32_t step) {
    if (c == NULL)
        return 0;
    const uvcc_transformer_config t = uvcci_ft_training(c);
    return uvcc_transformer_rate(&t, step);
}

/* ---- weights ---- */

/* Those that may have adapters, in the order of bits of `adapted`. */
static const uvcci_tf_slot adaptable[UVCCI_TF_ADAPTABLE] = {UVCCI_TF_WQ, UVCCI_TF_WK, UVCCI_TF_WV};

/* Adapters of a layer. */
static uint32_t adapters_of(const uvcc_finetune_config *c) {
    uint32_t n = 0;
    for (unsigned i = 0; i < UVCCI_TF_ADAPTABLE && c->method == UVCC_FINETUNE_LORA; i++)
        n += c->adapted >> i & 1u;
    return n;
}

/* Factor i of all adapters. */
static void adapter_at(const uvcc_finetune_config *c, uint32_t i, uvcc_finetune_weight *out) {
    const uint32_t each = adapters_of(c), layer = i / (2 * each);
    uint32_t place = i / 2 % each;
    uvcci_tf_slot slot = UVCCI_TF_NONE;
    for (unsigned s = 0; s < UVCCI_TF_ADAPTABLE && slot == UVCCI_TF_NONE; s++)
        if ((c->adapted >> s & 1) != 0 && place-- == 0)
            slot = adaptable[s];
    uvcc_model_weight w = {.rows = 0};
    (void)uvcci_model_weight_info(&c->model, uvcci_model_weight(&c->model, layer, slot), &w);
    const size_t end = strlen(w.name);
    assert(end + 2 < sizeof w.name);
    (void)snprintf(w.name + end, sizeof w.name - end, ".%c", i % 2 == 0 ? 'A' : 'B');
    if (i % 2 == 0)
        w.cols = c->rank;
    else
        w.rows = c->rank;
    *out = (uvcc_finetune_weight){.about = w, .trained = 1};
}

static bool is_trained(const uvcc_finetune_config *c, uint32_t i) {
    uint32_t layer;
    const uvcci_tf_slot slot = uvcci_model_slot(&c->model, i, &layer);
    return c->method == UVCC_FINETUNE_FULL || slot == UVCCI_TF_WC || slot == UVCCI_TF_BC;
}

int uvcci_ft_weight(const uvcc_finetune_config *c, uint32_t i, uvcc_finetune_weight *out) {
    const uint32_t own = uvcci_model_weights(&c->model);
    if (i >= own + 2 * adapters_of(c) * c->model.layers)
        return UVCC_ERR_NOT_FOUND;
    if (i >= own) {
        adapter_at(c, i - own, out);
        return 0;
    }
    *out = (uvcc_finetune_weight){.trained = is_trained(c, i)};
    const int err = uvcci_model_weight_info(&c->model, i, &out->about);
    out->open = !out->trained && uvcci_model_is_open(&c->model, &out->about);
    return err;
}

uint32_t uvcc_finetune_weight_count(const uvcc_finetune_config *c) {
    if (uvcc_finetune_check(c, NULL, 0) != 0)
        return 0;
    return uvcci_model_weights(&c->model) + 2 * adapters_of(c) * c->model.layers;
}

int uvcc_finetune_weight_at(const uvcc_finetune_config *c, uint32_t i, uvcc_finetune_weight *out) {
    if (out == NULL)
        return UVCC_ERR_USAGE;
    const int err = uvcc_finetune_check(c, NULL, 0);
    return err == 0 ? uvcci_ft_weight(c, i, out) : err;
}

void uvcc_finetune_initial(const uvcc_finetune_config *c, uint64_t seed, uint32_t i, int64_t *out) {
    uvcc_finetune_weight w;
    if (out == NULL || uvcc_finetune_weight_at(c, i, &w) != 0)
        return;
    const size_t count = (size_t)w.about.rows * w.about.cols;
    memset(out, 0, count * sizeof *out);
    const uint32_t own = uvcci_model_weights(&c->model);
    if (i < own || (i - own) % 2 != 0)
        return;
    uvcci_aes key;
    unsigned fraction;
    const int64_t root = uvcci_tf_root_inverse(c->model.width, &fraction);
    uvcci_public_random_key(&key, "uvcc/finetune", seed, i);
    uvcci_public_random_uniform(&key, (root << c->model.frac_bits) >> fraction, out, count);
}
