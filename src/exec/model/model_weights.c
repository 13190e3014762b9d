/* SPDX-License-Identifier: Apache-2.0 */
/* model_weights.c - the weights of a model in their order, which follows from its description.
 *
 * Order: E, P and the embeddings' norm, the layers' in the order of slots, then those of the last
 * norm, WL, the pooler and the classifier. */
#include "exec/model/model.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

typedef enum extent {
    ONE,
    VOCABULARY,
    WORDS, /* and segments */
    TOKENS,
    WIDTH,
    QUERIES,
    KEYS,
    UNITS,
    LABELS
} extent;
/* Which models have a weight. */
typedef enum presence {
    ALWAYS,
    GAINED,
    SHIFTED,
    BIASED,
    GATED,
    EMBEDDED,
    POSITIONED,
    NORMED_LAST,
    SHIFTED_LAST,
    NORMED_FIRST,
    SHIFTED_FIRST,
    HEADED,
    POOLED,
    LABELLED
} presence;

typedef struct slot_row {
    const char *name;
    uint8_t rows, cols, kind, presence;
} slot_row;

static const slot_row slots[UVCCI_TF_ALL_SLOTS] = {
    [UVCCI_TF_G1] = {"G1", ONE, WIDTH, UVCC_MODEL_WEIGHT_GAIN, GAINED},
    [UVCCI_TF_C1] = {"C1", ONE, WIDTH, UVCC_MODEL_WEIGHT_SHIFT, SHIFTED},
    [UVCCI_TF_WQ] = {"WQ", WIDTH, QUERIES, UVCC_MODEL_WEIGHT_MATRIX, ALWAYS},
    [UVCCI_TF_BQ] = {"BQ", ONE, QUERIES, UVCC_MODEL_WEIGHT_BIAS, BIASED},
    [UVCCI_TF_WK] = {"WK", WIDTH, KEYS, UVCC_MODEL_WEIGHT_MATRIX, ALWAYS},
    [UVCCI_TF_BK] = {"BK", ONE, KEYS, UVCC_MODEL_WEIGHT_BIAS, BIASED},
    [UVCCI_TF_WV] = {"WV", WIDTH, KEYS, UVCC_MODEL_WEIGHT_MATRIX, ALWAYS},
    [UVCCI_TF_BV] = {"BV", ONE, KEYS, UVCC_MODEL_WEIGHT_BIAS, BIASED},
    [UVCCI_TF_WO] = {"WO", QUERIES, WIDTH, UVCC_MODEL_WEIGHT_MATRIX, ALWAYS},
    [UVCCI_TF_BO] = {"BO", ONE, WIDTH, UVCC_MODEL_WEIGHT_BIAS, BIASED},
    [UVCCI_TF_G2] = {"G2", ONE, WIDTH, UVCC_MODEL_WEIGHT_GAIN, GAINED},
    [UVCCI_TF_C2] = {"C2", ONE, WIDTH, UVCC_MODEL_WEIGHT_SHIFT, SHIFTED},
    [UVCCI_TF_W1] = {"W1", WIDTH, UNITS, UVCC_MODEL_WEIGHT_MATRIX, ALWAYS},
    [UVCCI_TF_B1] = {"B1", ONE, UNITS, UVCC_MODEL_WEIGHT_BIAS, BIASED},
    [UVCCI_TF_WU] = {"WU", WIDTH, UNITS, UVCC_MODEL_WEIGHT_MATRIX, GATED},
    [UVCCI_TF_W2] = {"W2", UNITS, WIDTH, UVCC_MODEL_WEIGHT_MATRIX, ALWAYS},
    [UVCCI_TF_B2] = {"B2", ONE, WIDTH, UVCC_MODEL_WEIGHT_BIAS, BIASED},
    [UVCCI_TF_E] = {"E", WORDS, WIDTH, UVCC_MODEL_WEIGHT_TABLE, EMBEDDED},
    [UVCCI_TF_P] = {"P", TOKENS, WIDTH, UVCC_MODEL_WEIGHT_TABLE, POSITIONED},
    [UVCCI_TF_GE] = {"GE", ONE, WIDTH, UVCC_MODEL_WEIGHT_GAIN, NORMED_FIRST},
    [UVCCI_TF_CE] = {"CE", ONE, WIDTH, UVCC_MODEL_WEIGHT_SHIFT, SHIFTED_FIRST},
    [UVCCI_TF_GF] = {"GF", ONE, WIDTH, UVCC_MODEL_WEIGHT_GAIN, NORMED_LAST},
    [UVCCI_TF_CF] = {"CF", ONE, WIDTH, UVCC_MODEL_WEIGHT_SHIFT, SHIFTED_LAST},
    [UVCCI_TF_WL] = {"WL", WIDTH, VOCABULARY, UVCC_MODEL_WEIGHT_MATRIX, HEADED},
    [UVCCI_TF_WP] = {"WP", WIDTH, WIDTH, UVCC_MODEL_WEIGHT_MATRIX, POOLED},
    [UVCCI_TF_BP] = {"BP", ONE, WIDTH, UVCC_MODEL_WEIGHT_BIAS, POOLED},
    [UVCCI_TF_WC] = {"WC", WIDTH, LABELS, UVCC_MODEL_WEIGHT_MATRIX, LABELLED},
    [UVCCI_TF_BC] = {"BC", ONE, LABELS, UVCC_MODEL_WEIGHT_BIAS, LABELLED},
};

/* A row for each presence. */
static bool present(const uvcc_model_config *m, unsigned slot) {
    assert(slot < UVCCI_TF_ALL_SLOTS);
    switch (slots[slot].presence) {
    case GAINED:
        return !m->plain_norms;
    case SHIFTED:
        return !m->plain_norms && m->norm == UVCC_MODEL_LAYER_NORM;
    case BIASED:
        return m->biases != 0;
    case GATED:
        return m->ff == UVCC_MODEL_FF_GATED;
    case EMBEDDED:
        return uvcci_model_embeds(m) || m->head == UVCC_MODEL_HEAD_TIED;
    case POSITIONED:
        return m->positions == UVCC_MODEL_POSITIONS_LEARNED;
    case NORMED_LAST:
        return m->last_norm != 0;
    case SHIFTED_LAST:
        return m->last_norm != 0 && m->norm == UVCC_MODEL_LAYER_NORM;
    case NORMED_FIRST:
        return m->embedding_norm != 0;
    case SHIFTED_FIRST:
        return m->embedding_norm != 0 && m->norm == UVCC_MODEL_LAYER_NORM;
    case HEADED:
        return m->head == UVCC_MODEL_HEAD_OWN;
    case POOLED:
        return m->pool == UVCC_MODEL_POOL_TANH;
    case LABELLED:
        return m->labels != 0;
    default:
        return true;
    }
}

/* Slots from `from` to before `to` that the model has. */
static uint32_t count_slots(const uvcc_model_config *m, unsigned from, unsigned to) {
    assert(from <= to && to <= UVCCI_TF_ALL_SLOTS);
    uint32_t n = 0;
    for (unsigned s = from; s < to; s++)
        n += present(m, s);
    return n;
}

uint32_t uvcci_model_weight(const uvcc_model_config *m, uint32_t layer, uvcci_tf_slot slot) {
    if (slot >= UVCCI_TF_ALL_SLOTS || !present(m, slot))
        return UVCC_NO_TENSOR;
    const uint32_t before = count_slots(m, UVCCI_TF_E, UVCCI_TF_GF);
    const uint32_t each = count_slots(m, 0, UVCCI_TF_SLOTS);
    if (slot < UVCCI_TF_SLOTS)
        return before + layer * each + count_slots(m, 0, slot);
    const uint32_t outside = count_slots(m, UVCCI_TF_E, slot);
    return slot < UVCCI_TF_GF ? outside : outside + m->layers * each;
}

uvcci_tf_slot uvcci_model_slot(const uvcc_model_config *m, uint32_t i, uint32_t *layer) {
    const uint32_t before = count_slots(m, UVCCI_TF_E, UVCCI_TF_GF);
    const uint32_t each = count_slots(m, 0, UVCCI_TF_SLOTS);
    const bool inside = i >= before && i - before < m->layers * each;
    *layer = inside ? (i - before) / each : 0;
    for (unsigned s = 0; s < UVCCI_TF_ALL_SLOTS; s++)
        if (uvcci_model_weight(m, *layer, (uvcci_tf_slot)s) == i)
            return (uvcci_tf_slot)s;
    return UVCCI_TF_NONE;
}

static uint32_t extent_of(const uvcc_model_config *m, uint8_t e) {
    switch (e) {
    case VOCABULARY:
        return m->vocabulary;
    case WORDS:
        return m->vocabulary + m->segments;
    case LABELS:
        return m->labels;
    case TOKENS:
        return m->tokens;
    case WIDTH:
        return m->width;
    case QUERIES:
        return m->heads * uvcci_model_head_size(m);
    case KEYS:
        return uvcci_model_kv_heads(m) * uvcci_model_head_size(m);
    case UNITS:
        return m->ff_width;
    default:
        return 1;
    }
}

uint32_t uvcci_model_weights(const uvcc_model_config *m) {
    return count_slots(m, UVCCI_TF_E, UVCCI_TF_ALL_SLOTS) +
           m->layers * count_slots(m, 0, UVCCI_TF_SLOTS);
}

int uvcci_model_weight_info(const uvcc_model_config *m, uint32_t i, uvcc_model_weight *out) {
    uint32_t layer;
    assert(m->heads != 0);
    const uvcci_tf_slot slot = uvcci_model_slot(m, i, &layer);
    if (slot == UVCCI_TF_NONE)
        return UVCC_ERR_NOT_FOUND;
    const slot_row *row = &slots[slot];
    const bool inside = slot < UVCCI_TF_SLOTS;
    *out = (uvcc_model_weight){
        .rows = extent_of(m, row->rows),
        .cols = extent_of(m, row->cols),
        .layer = inside ? layer : UVCC_MODEL_NO_LAYER,
        .bits = (uint8_t)uvcci_model_weight_bits(m),
        .scale = m->frac_bits,
        .kind = row->kind,
    };
    if (inside)
        snprintf(out->name, sizeof out->name, "L%u.%s", layer, row->name);
    else
        snprintf(out->name, sizeof out->name, "%s", row->name);
    return 0;
}

bool uvcci_model_is_open(const uvcc_model_config *m, const uvcc_model_weight *w) {
    const bool factor = w->kind == UVCC_MODEL_WEIGHT_MATRIX || strcmp(w->name, "E") == 0;
    return m->weights == UVCC_MODEL_PUBLIC_WEIGHTS && factor;
}

uint32_t uvcc_model_weight_count(const uvcc_model_config *m) {
    return uvcc_model_check(m, NULL, 0) == 0 ? uvcci_model_weights(m) : 0;
}

int uvcc_model_weight_at(const uvcc_model_config *m, uint32_t i, uvcc_model_weight *out) {
    const int err = out != NULL ? uvcc_model_check(m, NULL, 0) : UVCC_ERR_USAGE;
    return err == 0 ? uvcci_model_weight_info(m, i, out) : err;
}

uint64_t uvcc_model_parameters(const uvcc_model_config *m) {
    uvcc_model_weight w;
    uint64_t n = 0;
    const uint32_t count = uvcc_model_weight_count(m);
    for (uint32_t i = 0; i < count && uvcci_model_weight_info(m, i, &w) == 0; i++)
        n += (uint64_t)w.rows * w.cols;
    return n;
}
