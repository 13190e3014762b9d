/* SPDX-License-Identifier: Apache-2.0 */
/* transformer_weights.c - the weights of the whole model in their order, what each worker has of
 * them, their initial values, and which bytes of a text a step learns from.
 *
 * Order: E, P, the layers' in the order of slots, then those of the last norm and WL. */
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

bool uvcci_tf_layer_norm(const uvcc_transformer_config *c) {
    return c->norm == UVCC_NORM_LAYER ||
           (c->norm == UVCC_NORM_OF_BLOCK && c->block == UVCC_BLOCK_GPT2);
}

typedef enum extent { ONE, VOCAB, CONTEXT, DIM, HIDDEN } extent;
enum { MATRIX = 1, BIAS = 2, SHIFT = 4, GATED = 8, DECAYS = 16 };

/* MATRIX: drawn; BIAS, SHIFT, GATED: there only if the block has such. blocks: 0 for vectors. */
typedef struct slot_row {
    const char *name;
    uint8_t rows, cols, cut, flags, blocks;
} slot_row;

static const slot_row slots[UVCCI_TF_ALL_SLOTS] = {
    [UVCCI_TF_G1] = {"G1", ONE, DIM, UVCC_CUT_NONE, 0, UVCC_BLOCKS_WHOLE},
    [UVCCI_TF_C1] = {"C1", ONE, DIM, UVCC_CUT_NONE, SHIFT, UVCC_BLOCKS_WHOLE},
    [UVCCI_TF_WQ] = {"WQ", DIM, DIM, UVCC_CUT_COLS, MATRIX | DECAYS, UVCC_BLOCKS_HEADS},
    [UVCCI_TF_BQ] = {"BQ", ONE, DIM, UVCC_CUT_COLS, BIAS, UVCC_BLOCKS_WHOLE},
    [UVCCI_TF_WK] = {"WK", DIM, DIM, UVCC_CUT_COLS, MATRIX | DECAYS, UVCC_BLOCKS_HEADS},
    [UVCCI_TF_BK] = {"BK", ONE, DIM, UVCC_CUT_COLS, BIAS, UVCC_BLOCKS_WHOLE},
    [UVCCI_TF_WV] = {"WV", DIM, DIM, UVCC_CUT_COLS, MATRIX | DECAYS, UVCC_BLOCKS_COLS},
    [UVCCI_TF_BV] = {"BV", ONE, DIM, UVCC_CUT_COLS, BIAS, UVCC_BLOCKS_WHOLE},
    [UVCCI_TF_WO] = {"WO", DIM, DIM, UVCC_CUT_ROWS, MATRIX | DECAYS, UVCC_BLOCKS_COLS},
    [UVCCI_TF_BO] = {"BO", ONE, DIM, UVCC_CUT_NONE, BIAS, UVCC_BLOCKS_WHOLE},
    [UVCCI_TF_G2] = {"G2", ONE, DIM, UVCC_CUT_NONE, 0, UVCC_BLOCKS_WHOLE},
    [UVCCI_TF_C2] = {"C2", ONE, DIM, UVCC_CUT_NONE, SHIFT, UVCC_BLOCKS_WHOLE},
    [UVCCI_TF_W1] = {"W1", DIM, HIDDEN, UVCC_CUT_COLS, MATRIX | DECAYS, UVCC_BLOCKS_COLS},
    [UVCCI_TF_B1] = {"B1", ONE, HIDDEN, UVCC_CUT_COLS, BIAS, UVCC_BLOCKS_WHOLE},
    [UVCCI_TF_WU] = {"WU", DIM, HIDDEN, UVCC_CUT_COLS, MATRIX | DECAYS | GATED, UVCC_BLOCKS_COLS},
    [UVCCI_TF_W2] = {"W2", HIDDEN, DIM, UVCC_CUT_ROWS, MATRIX | DECAYS, UVCC_BLOCKS_COLS},
    [UVCCI_TF_B2] = {"B2", ONE, DIM, UVCC_CUT_NONE, BIAS, UVCC_BLOCKS_WHOLE},
    [UVCCI_TF_E] = {"E", VOCAB, DIM, UVCC_CUT_NONE, MATRIX, UVCC_BLOCKS_ROWS},
    [UVCCI_TF_P] = {"P", CONTEXT, DIM, UVCC_CUT_NONE, MATRIX, UVCC_BLOCKS_ROWS},
    [UVCCI_TF_GF] = {"GF", ONE, DIM, UVCC_CUT_NONE, 0, UVCC_BLOCKS_WHOLE},
    [UVCCI_TF_CF] = {"CF", ONE, DIM, UVCC_CUT_NONE, SHIFT, UVCC_BLOCKS_WHOLE},
    [UVCCI_TF_WL] = {"WL", DIM, VOCAB, UVCC_CUT_NONE, MATRIX | DECAYS, UVCC_BLOCKS_COLS},
};

static bool present(const uvcc_transformer_config *c, uvcci_tf_slot slot) {
    assert(slot < UVCCI_TF_ALL_SLOTS);
    const unsigned flags = slots[slot].flags;
    const bool gated = c->block == UVCC_BLOCK_SWIGLU;
    return !((flags & BIAS) != 0 && gated) && !((flags & GATED) != 0 && !gated) &&
           !((flags & SHIFT) != 0 && !uvcci_tf_layer_norm(c));
}

/* Slots from `from` to before `to` that the model has. */
static uint32_t count_slots(const uvcc_transformer_config *c, unsigned from, unsigned to) {
    assert(from <= to && to <= UVCCI_TF_ALL_SLOTS);
    uint32_t n = 0;
    for (unsigned s = from; s < to; s++)
        n += present(c, (uvcci_tf_slot)s);
    return n;
}

uint32_t uvcci_tf_weight(const uvcc_transformer_config *c, uint32_t layer, uvcci_tf_slot slot) {
    const uint32_t before = count_slots(c, UVCCI_TF_E, UVCCI_TF_GF);
    const uint32_t each = count_slots(c, 0, UVCCI_TF_SLOTS);
    if (!present(c, slot))
        return UVCC_NO_TENSOR;
    if (slot < UVCCI_TF_SLOTS)
        return before + layer * each + count_slots(c, 0, slot);
    const uint32_t outside = count_slots(c, UVCCI_TF_E, slot);
    return slot < UVCCI_TF_GF ? outside : outside + c->layers * each;
}

uint32_t uvcc_transformer_weight_count(const uvcc_transformer_config *c) {
    if (c == NULL)
        return 0;
    return count_slots(c, UVCCI_TF_E, UVCCI_TF_ALL_SLOTS) +
           c->layers * count_slots(c, 0, UVCCI_TF_SLOTS);
}

/* Slot of weight i, and its layer. */
static uvcci_tf_slot slot_of(const uvcc_transformer_config *c, uint32_t i, uint32_t *layer) {
    const uint32_t before = count_slots(c, UVCCI_TF_E, UVCCI_TF_GF);
    const uint32_t each = count_slots(c, 0, UVCCI_TF_SLOTS);
    const bool inside = i >= before && i - before < c->layers * each;
    *layer = inside ? (i - before) / each : 0;
    for (unsigned s = 0; s < UVCCI_TF_ALL_SLOTS; s++)
        if (uvcci_tf_weight(c, *layer, (uvcci_tf_slot)s) == i)
            return (uvcci_tf_slot)s;
    return UVCCI_TF_ALL_SLOTS;
}

static uint32_t extent_of(const uvcc_transformer_config *c, uint8_t e) {
    switch (e) {
    case VOCAB:
        return UVCC_TRANSFORMER_VOCAB;
    case CONTEXT:
        return c->context;
    case DIM:
        return c->dim;
    case HIDDEN:
        return uvcci_tf_hidden(c);
    default:
        return 1;
    }
}

int uvcc_transformer_weight_at(const uvcc_transformer_config *c, uint32_t i,
                               uvcc_transformer_weight *out) {
    uint32_t layer;
    if (c == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    if (i >= uvcc_transformer_weight_count(c))
        return UVCC_ERR_NOT_FOUND;
    const uvcci_tf_slot slot = slot_of(c, i, &layer);
    const slot_row *row = &slots[slot];
    const uint32_t stage = slot < UVCCI_TF_SLOTS ? layer / (c->layers / c->stages)
                           : slot < UVCCI_TF_GF  ? 0
                                                 : c->stages - 1;
    *out = (uvcc_transformer_weight){
        .rows = extent_of(c, row->rows),
        .cols = extent_of(c, row->cols),
        .stage = stage,
        .cut = row->cut,
        .decays = (row->flags & DECAYS) != 0,
        .blocks = row->blocks,
    };
    if (slot < UVCCI_TF_SLOTS)
        snprintf(out->name, sizeof out->name, "L%u.%s", layer, row->name);
    else
        snprintf(out->name, sizeof out->name, "%s", row->name);
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
    uint32_t layer;
    if (uvcc_transformer_weight_at(c, i, &w) != 0)
        return;
    const uvcci_tf_slot slot = slot_of(c, i, &layer);
    const size_t count = (size_t)w.rows * w.cols;
    const bool gain = slot == UVCCI_TF_G1 || slot == UVCCI_TF_G2 || slot == UVCCI_TF_GF;
    if ((slots[slot].flags & MATRIX) == 0) {
        for (size_t e = 0; e < count; e++)
            out[e] = gain ? 1ll << c->frac_bits : 0;
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
