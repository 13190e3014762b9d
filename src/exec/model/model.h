/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - what a description of a transformer (uvcc/model.h) says, for those who build by it: the
 * models of that header, and the transformer that trains (transformer.h). */
#ifndef UVCCI_MODEL_H
#define UVCCI_MODEL_H

#include "exec/model/model_scalars.h"

/* The weights of a layer, in their order. */
typedef enum uvcci_tf_slot {
    UVCCI_TF_G1, /* gain and shift of the attention's norm */
    UVCCI_TF_C1,
    UVCCI_TF_WQ,
    UVCCI_TF_BQ,
    UVCCI_TF_WK,
    UVCCI_TF_BK,
    UVCCI_TF_WV,
    UVCCI_TF_BV,
    UVCCI_TF_WO,
    UVCCI_TF_BO,
    UVCCI_TF_G2, /* of the MLP's norm */
    UVCCI_TF_C2,
    UVCCI_TF_W1, /* gated: the gate */
    UVCCI_TF_B1,
    UVCCI_TF_WU, /* gated */
    UVCCI_TF_W2,
    UVCCI_TF_B2,
    UVCCI_TF_SLOTS,
    UVCCI_TF_E = UVCCI_TF_SLOTS, /* outside layers */
    UVCCI_TF_P,
    UVCCI_TF_GE, /* of the embeddings' norm */
    UVCCI_TF_CE,
    UVCCI_TF_GF,
    UVCCI_TF_CF,
    UVCCI_TF_WL,
    UVCCI_TF_WP, /* of the pooler */
    UVCCI_TF_BP,
    UVCCI_TF_WC, /* of the classifier */
    UVCCI_TF_BC,
    UVCCI_TF_ALL_SLOTS,
    UVCCI_TF_NONE = UVCCI_TF_ALL_SLOTS,
} uvcci_tf_slot;

/* The list of weights (uvcc_model_weight_count, uvcc_model_weight_at) of descriptions that
 * uvcc_model_check need not accept: those of the transformer that trains. heads is not 0. */
uint32_t uvcci_model_weights(const uvcc_model_config *m);
int uvcci_model_weight_info(const uvcc_model_config *m, uint32_t i, uvcc_model_weight *out);
/* Number of a weight, or UVCC_NO_TENSOR if the model has none; layer counts for slots of a layer
 * only. */
uint32_t uvcci_model_weight(const uvcc_model_config *m, uint32_t layer, uvcci_tf_slot slot);
/* Slot of weight i, and its layer; UVCCI_TF_NONE if there is none. */
uvcci_tf_slot uvcci_model_slot(const uvcc_model_config *m, uint32_t i, uint32_t *layer);

/* Whether its tensor is PUBLIC: factors of products by public weights. */
bool uvcci_model_is_open(const uvcc_model_config *m, const uvcc_model_weight *w);

/* Whether its input are tokens, of which a table has rows. */
static inline bool uvcci_model_embeds(const uvcc_model_config *m) {
    return m->input == UVCC_MODEL_INPUT_ONE_HOT || m->input == UVCC_MODEL_INPUT_TOKENS;
}

/* From here on an entry's numbers of ops are of inputs and outputs. */
enum { UVCCI_MODEL_OPS_END = 254 * 256 };
static inline uint32_t uvcci_model_head_size(const uvcc_model_config *m) {
    return m->head_size != 0 ? m->head_size : m->width / m->heads;
}

/* Fraction bits of rotary positions' cosines and sines, which have a bit more. */
enum { UVCCI_MODEL_ROTARY_SCALE = 14 };
/* Their table, a row of head size for each token: cosines, then sines. */
void uvcci_model_rotary(const uvcc_model_config *m, int64_t *table);

/* The window of a layer, 0 if it sees all before it. */
static inline uint32_t uvcci_model_window(const uvcc_model_config *m, uint32_t layer) {
    const uint32_t place = layer % (m->window_period != 0 ? m->window_period : 1);
    const bool has = m->window_layers == 0 || (m->window_layers >> place & 1) != 0;
    return has && m->window < m->tokens ? m->window : 0;
}

static inline uint32_t uvcci_model_kv_heads(const uvcc_model_config *m) {
    return m->kv_heads != 0 ? m->kv_heads : m->heads;
}

/* Bits of activations and weights as integers. */
static inline unsigned uvcci_model_value_bits(const uvcc_model_config *m) {
    return m->frac_bits + (m->value_bits != 0 ? m->value_bits : 7u);
}

/* Of scores and of the activation's input. */
static inline unsigned uvcci_model_inner_bits(const uvcc_model_config *m) {
    return m->inner_bits != 0 ? (unsigned)m->frac_bits + m->inner_bits : uvcci_model_value_bits(m);
}

/* Of an index that nobody gave. Training has it at any f: derivatives share it and are steeper. */
enum { UVCCI_MODEL_INDEX_BITS_MAX = 9 };

static inline unsigned uvcci_model_weight_bits(const uvcc_model_config *m) {
    return m->frac_bits + (m->weight_bits != 0 ? m->weight_bits : 4u);
}

#endif
