/* SPDX-License-Identifier: Apache-2.0 */
/* transformer_weights.c - the weights of the whole model in their order, what each worker has of
 * them, their initial values, and which bytes of a text a step learns from.
 * Which weights there are, and their order, follows from the model's description (model_weights.c).
 */
#include "exec/model/public_random.h"
#include "exec/model/transformer.h"

#include "proto/bytes.h"
#include "proto/crypto.h"
#include "proto/prg.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the list ---- */

uint32_t uvcci_tf_hidden(const uvcc_transformer_config *c) {
    if (c->hidden != 0)
        return c->hidden;
    if (c->block == UVCC_BLOCK_SWIGLU)
        return (uint32_t)((((uint64_t)c->dim * 8 + 2) / 3 + 7) / 8 * 8);
    return 4 * c->dim;
}

static bool has_layer_norm(const uvcc_transformer_config *c) {
    return c->norm == UVCC_NORM_LAYER ||
           (c->norm == UVCC_NORM_OF_BLOCK && c->block == UVCC_BLOCK_GPT2);
}

/* As the model that it is; but derivatives share the activation's index, and are steeper. */
uvcc_model_config uvcci_tf_model(const uvcc_transformer_config *c) {
    static const uint8_t activations[] = {[UVCC_BLOCK_GELU] = UVCC_NL_GELU,
                                          [UVCC_BLOCK_SWIGLU] = UVCC_NL_SILU,
                                          [UVCC_BLOCK_GPT2] = UVCC_NL_GELU_TANH};
    const bool gated = c->block == UVCC_BLOCK_SWIGLU;
    return (uvcc_model_config){
        .size = sizeof(uvcc_model_config),
        .layers = c->layers,
        .width = c->dim,
        .heads = c->heads,
        .ff_width = uvcci_tf_hidden(c),
        .ff = gated ? UVCC_MODEL_FF_GATED : UVCC_MODEL_FF_PLAIN,
        .activation = c->block <= UVCC_BLOCK_GPT2 ? activations[c->block] : 0,
        .norm = has_layer_norm(c) ? UVCC_MODEL_LAYER_NORM : UVCC_MODEL_RMS_NORM,
        .order = UVCC_MODEL_PRE_NORM,
        .last_norm = 1,
        .biases = !gated,
        .mask = UVCC_MODEL_MASK_CAUSAL,
        .positions = UVCC_MODEL_POSITIONS_LEARNED,
        .input = UVCC_MODEL_INPUT_ONE_HOT,
        .head = UVCC_MODEL_HEAD_OWN,
        .vocabulary = UVCC_TRANSFORMER_VOCAB,
        .epsilon = UVCCI_TF_NORM_EPSILON,
        .tokens = c->context,
        .frac_bits = c->frac_bits,
        .value_bits = c->value_bits,
        .weight_bits = c->weight_bits,
        .index_bits = UVCCI_MODEL_INDEX_BITS_MAX,
    };
}

/* How ranks cut a weight, and how its optimizer takes it. */
typedef struct slot_row {
    uint8_t cut, blocks;
    bool decays;
} slot_row;

static const slot_row slots[UVCCI_TF_ALL_SLOTS] = {
    [UVCCI_TF_WQ] = {UVCC_CUT_COLS, UVCC_BLOCKS_HEADS, true},
    [UVCCI_TF_BQ] = {UVCC_CUT_COLS, UVCC_BLOCKS_WHOLE, false},
    [UVCCI_TF_WK] = {UVCC_CUT_COLS, UVCC_BLOCKS_HEADS, true},
    [UVCCI_TF_BK] = {UVCC_CUT_COLS, UVCC_BLOCKS_WHOLE, false},
    [UVCCI_TF_WV] = {UVCC_CUT_COLS, UVCC_BLOCKS_COLS, true},
    [UVCCI_TF_BV] = {UVCC_CUT_COLS, UVCC_BLOCKS_WHOLE, false},
    [UVCCI_TF_WO] = {UVCC_CUT_ROWS, UVCC_BLOCKS_COLS, true},
    [UVCCI_TF_W1] = {UVCC_CUT_COLS, UVCC_BLOCKS_COLS, true},
    [UVCCI_TF_B1] = {UVCC_CUT_COLS, UVCC_BLOCKS_WHOLE, false},
    [UVCCI_TF_WU] = {UVCC_CUT_COLS, UVCC_BLOCKS_COLS, true},
    [UVCCI_TF_W2] = {UVCC_CUT_ROWS, UVCC_BLOCKS_COLS, true},
    [UVCCI_TF_E] = {UVCC_CUT_NONE, UVCC_BLOCKS_ROWS, false},
    [UVCCI_TF_P] = {UVCC_CUT_NONE, UVCC_BLOCKS_ROWS, false},
    [UVCCI_TF_WL] = {UVCC_CUT_NONE, UVCC_BLOCKS_COLS, true},
    /* all others are whole at each rank: 0 */
};

uint32_t uvcc_transformer_weight_count(const uvcc_transformer_config *c) {
    if (c == NULL)
        return 0;
    const uvcc_model_config m = uvcci_tf_model(c);
    return uvcci_model_weights(&m);
}

int uvcc_transformer_weight_at(const uvcc_transformer_config *c, uint32_t i,
                               uvcc_transformer_weight *out) {
    uvcc_model_weight w;
    uint32_t layer;
    if (c == NULL || out == NULL || c->heads == 0)
        return UVCC_ERR_USAGE;
    const uvcc_model_config m = uvcci_tf_model(c);
    const int err = uvcci_model_weight_info(&m, i, &w);
    if (err != 0)
        return err;
    const uvcci_tf_slot slot = uvcci_model_slot(&m, i, &layer);
    const slot_row *row = &slots[slot];
    *out = (uvcc_transformer_weight){
        .rows = w.rows,
        .cols = w.cols,
        .stage = slot < UVCCI_TF_SLOTS ? layer / (c->layers / c->stages)
                 : slot < UVCCI_TF_GF  ? 0
                                       : c->stages - 1,
        .cut = row->cut,
        .decays = row->decays,
        .blocks = row->blocks,
    };
    memcpy(out->name, w.name, sizeof out->name);
    return 0;
}

uint64_t uvcc_transformer_parameters(const uvcc_transformer_config *c) {
    uvcc_transformer_weight w;
    uint64_t n = 0;
    for (uint32_t i = 0; uvcc_transformer_weight_at(c, i, &w) == 0; i++)
        n += (uint64_t)w.rows * w.cols;
    return n;
}

/* ---- parts ---- */

bool uvcc_transformer_part_of(const uvcc_transformer_config *c, const uvcc_transformer_worker *at,
                              uint32_t i, uvcc_transformer_part *out) {
    if (at == NULL || out == NULL)
        return false;
    uvcc_transformer_weight w;
    if (uvcc_transformer_weight_at(c, i, &w) != 0 || at->stage != w.stage)
        return false;
    *out = (uvcc_transformer_part){.rows = w.rows, .cols = w.cols};
    if (w.cut == UVCC_CUT_COLS) {
        out->cols = w.cols / c->tensor_ranks;
        out->col = at->tensor_rank * out->cols;
    } else if (w.cut == UVCC_CUT_ROWS) {
        out->rows = w.rows / c->tensor_ranks;
        out->row = at->tensor_rank * out->rows;
    }
    return true;
}

/* Row r of a part within the whole. */
static size_t part_row(const uvcc_transformer_weight *w, const uvcc_transformer_part *p,
                       uint32_t r) {
    return (size_t)(p->row + r) * w->cols + p->col;
}

void uvcc_transformer_take(const uvcc_transformer_config *c, const uvcc_transformer_worker *at,
                           uint32_t i, const int64_t *whole, int64_t *part) {
    if (at == NULL || whole == NULL || part == NULL)
        return;
    uvcc_transformer_weight w;
    uvcc_transformer_part p;
    if (uvcc_transformer_weight_at(c, i, &w) != 0 || !uvcc_transformer_part_of(c, at, i, &p))
        return;
    for (uint32_t r = 0; r < p.rows; r++)
        memcpy(part + (size_t)r * p.cols, whole + part_row(&w, &p, r), p.cols * sizeof *part);
}

void uvcc_transformer_put(const uvcc_transformer_config *c, const uvcc_transformer_worker *at,
                          uint32_t i, const int64_t *part, int64_t *whole) {
    if (at == NULL || part == NULL || whole == NULL)
        return;
    uvcc_transformer_weight w;
    uvcc_transformer_part p;
    if (uvcc_transformer_weight_at(c, i, &w) != 0 || !uvcc_transformer_part_of(c, at, i, &p))
        return;
    for (uint32_t r = 0; r < p.rows; r++)
        memcpy(whole + part_row(&w, &p, r), part + (size_t)r * p.cols, p.cols * sizeof *part);
}

/* ---- values ---- */

/* Weights are drawn evenly from [-L, L], L = 2^f times this. */
static double spread_of(uvcci_tf_slot slot, const uvcc_transformer_weight *w) {
    if (slot == UVCCI_TF_E)
        return 0.5;
    if (slot == UVCCI_TF_P)
        return 0.25;
    return sqrt(6.0 / ((double)w->rows + w->cols));
}

void uvcc_transformer_initial(const uvcc_transformer_config *c, uint64_t seed, uint32_t i,
                              int64_t *out) {
    if (out == NULL)
        return;
    uvcc_transformer_weight w;
    uvcc_model_weight about;
    uint32_t layer;
    if (uvcc_transformer_weight_at(c, i, &w) != 0)
        return;
    const uvcc_model_config m = uvcci_tf_model(c);
    (void)uvcci_model_weight_info(&m, i, &about);
    const uvcci_tf_slot slot = uvcci_model_slot(&m, i, &layer);
    const size_t count = (size_t)w.rows * w.cols;
    if (about.kind != UVCC_MODEL_WEIGHT_MATRIX && about.kind != UVCC_MODEL_WEIGHT_TABLE) {
        for (size_t e = 0; e < count; e++)
            out[e] = about.kind == UVCC_MODEL_WEIGHT_GAIN ? 1ll << c->frac_bits : 0;
        return;
    }
    uvcci_aes key;
    uvcci_public_random_key(&key, "uvcc/transformer", seed, i);
    uvcci_public_random_uniform(&key, (int64_t)floor(ldexp(spread_of(slot, &w), c->frac_bits)), out,
                                count);
}

void uvcc_transformer_weights_hash(const uvcc_transformer_config *c, const int64_t *weights,
                                   uint8_t out[32]) {
    if (weights == NULL || out == NULL)
        return;
    uvcci_sha256 h;
    uint8_t word[8];
    uvcci_sha256_init(&h);
    for (uint64_t n = uvcc_transformer_parameters(c); n != 0; n--) {
        uvcci_st64(word, (uint64_t)*weights++);
        uvcci_sha256_update(&h, word, sizeof word);
    }
    uvcci_sha256_final(&h, out);
}

/* Which slice of its part a worker owns, of how many. */
static uint32_t owned_slice(const uvcc_transformer_config *c, const uvcc_transformer_worker *at,
                            uint8_t cut, uint32_t *ways) {
    if (cut != UVCC_CUT_NONE) {
        *ways = c->replicas;
        return at->replica;
    }
    *ways = c->replicas * c->tensor_ranks;
    return at->replica * c->tensor_ranks + at->tensor_rank;
}

static void shift_slice(const uvcc_transformer_config *c, const uvcc_transformer_worker *at,
                        const uvcc_transformer_weight *w, const uvcc_transformer_part *p,
                        int64_t *values) {
    uint32_t ways;
    const uint32_t slice = owned_slice(c, at, w->cut, &ways);
    const size_t count = (size_t)p->rows * p->cols / ways;
    for (size_t e = 0; e < count; e++)
        values[e] = values[slice * count + e] * (1ll << UVCCI_TF_FINE_BITS);
}

int uvcc_transformer_state(const uvcc_transformer_config *c, const uvcc_transformer_worker *at,
                           const uvcc_program *p, uint32_t i, const int64_t *weights,
                           uint32_t *tensor, int64_t *values) {
    uvcc_transformer_weight w;
    uvcc_transformer_part part;
    char name[UVCCI_NAME_BYTES];
    if (c == NULL || at == NULL || p == NULL || weights == NULL || tensor == NULL)
        return UVCC_ERR_USAGE;
    for (uint32_t k = 0; uvcc_transformer_weight_at(c, k, &w) == 0; k++) {
        if (uvcc_transformer_part_of(c, at, k, &part)) {
            if (i < 2) {
                snprintf(name, sizeof name, "%s%s", i == 0 ? "" : "M.", w.name);
                const int found = uvcc_program_find(p, name);
                if (found < 0)
                    return UVCC_ERR_USAGE;
                *tensor = (uint32_t)found;
                if (values != NULL)
                    uvcc_transformer_take(c, at, k, weights, values);
                if (values != NULL && i == 1)
                    shift_slice(c, at, &w, &part, values);
                return 0;
            }
            i -= 2;
        }
        weights += (size_t)w.rows * w.cols;
    }
    return UVCC_ERR_NOT_FOUND;
}

/* ---- text ---- */

uint64_t uvcc_transformer_sequence(const uvcc_transformer_config *c, uint64_t seed, uint32_t step,
                                   uint32_t i, uint64_t bytes) {
    if (c == NULL)
        return 0;
    uvcci_aes key;
    uint64_t word;
    uvcci_public_random_key(&key, "uvcc/text", seed, step);
    uvcci_prg_fill(&key, (uvcci_prg_at){0}, i, &word, 1);
    return uvcci_mul_high(word, bytes - c->context);
}

void uvcc_transformer_one_hot(const uint8_t *bytes, uint32_t rows, int64_t *out) {
    if (bytes == NULL || out == NULL)
        return;
    memset(out, 0, (size_t)rows * UVCC_TRANSFORMER_VOCAB * sizeof *out);
    for (uint32_t r = 0; r < rows; r++)
        out[(size_t)r * UVCC_TRANSFORMER_VOCAB + bytes[r]] = 1;
}

void uvcc_transformer_rows(const uvcc_transformer_config *c, const uvcc_transformer_worker *w,
                           uint32_t mb, uint32_t *first, uint32_t *count) {
    if (c == NULL || w == NULL || first == NULL || count == NULL)
        return;
    const uint32_t sequences = c->batch / c->replicas / c->microbatches;
    const uint32_t own = sequences / c->tensor_ranks;
    *count = own * c->context;
    *first = ((w->replica * c->microbatches + mb) * sequences + w->tensor_rank * own) * c->context;
}

void uvcc_transformer_window_rows(const uvcc_transformer_config *c,
                                  const uvcc_transformer_worker *w, uint32_t *first,
                                  uint32_t *count) {
    if (c == NULL || w == NULL || first == NULL || count == NULL)
        return;
    *count = c->windows / c->tensor_ranks * c->context;
    *first = w->tensor_rank * *count;
}
