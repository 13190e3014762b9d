/* SPDX-License-Identifier: Apache-2.0 */
/* transformer.c - options of a transformer, the numbers that follow from them, and its programs put
 * together; and which part of the model an op belongs to, for reports.
 *
 * Options are checked here with messages that name them; uvcc_program_finish checks every op again.
 */
#include "exec/model/transformer.h"

#include "exec/model/gumbel.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <uvcc/compute.h>

/* ---- options ---- */

int uvcc_transformer_default(uvcc_transformer_config *c, size_t size) {
    if (c == NULL || size != sizeof *c)
        return UVCC_ERR_USAGE;
    *c = (uvcc_transformer_config){
        .size = sizeof *c,
        .context = 16,
        .dim = 64,
        .heads = 4,
        .layers = 1,
        .block = UVCC_BLOCK_GELU,
        .batch = 32,
        .microbatches = 1,
        .replicas = 1,
        .stages = 1,
        .tensor_ranks = 1,
        .windows = 1,
        .optimizer = UVCC_OPTIMIZER_ADAMW,
        .learning_rate = 0.01,
        .warmup = 20,
        .steps = 300,
        .final_rate = 0.05,
        .clip = 0.0625,
        .frac_bits = 16,
        .truncation = UVCC_TRUNC_EXACT,
        .exact = 1,
        .loss = 1,
    };
    return 0;
}

static double epsilon_of(const uvcc_transformer_config *c) {
    return c->epsilon != 0 ? c->epsilon : 0x1p-14;
}

static uint8_t or_else(uint8_t given, uint8_t otherwise) {
    return given != 0 ? given : otherwise;
}

/* Scale of a gradient as SGD and momentum take it; ADAMW's in units of 16 epsilon; bits of v there;
 * ADAM_MINI's, and bits of its norm. */
enum {
    MEAN_BITS = 26,
    UNIT_BITS = 16,
    VARIANCE_SCALE = 24,
    VARIANCE_RANGE = 13,
    CLIP_FINEST = 12,
    MINI_SCALE = 24,
    NORM_BITS = 6
};

static bool is_adam(const uvcc_transformer_config *c) {
    return c->optimizer == UVCC_OPTIMIZER_ADAMW || c->optimizer == UVCC_OPTIMIZER_ADAM_MINI;
}

/* Ops of a layer in a phase: beside its tiles, and of each. */
enum { WINDOW_MIB_MAX = 1 << 20 };
enum { LAYER_OPS = 200, TILE_OPS = 24, BLOCK_OPS = 256 };

/* Tiles of attention: more of them save more of the square, but each costs ops; so short contexts
 * have few rows in a tile, long ones many tiles. A product on triples opens K and V once, tiles
 * would open parts of them anew: it has one. */
static void cut_attention(const uvcc_transformer_config *c, uvcci_tf_numbers *n) {
    const uint32_t blocks = UVCCI_TF_BLOCK_OUT - UVCCI_TF_BLOCK_LAYER;
    uint32_t rows = c->context / UVCCI_TF_TILES_WANTED;
    if (rows > UVCCI_TF_TILE_ROWS_MAX)
        rows = UVCCI_TF_TILE_ROWS_MAX;
    if (rows < c->context / UVCCI_TF_TILES_MAX)
        rows = c->context / UVCCI_TF_TILES_MAX;
    if (rows < UVCCI_TF_TILE_ROWS_MIN)
        rows = UVCCI_TF_TILE_ROWS_MIN;
    if (rows > c->context || c->products == UVCC_PRODUCTS_BEAVER)
        rows = c->context;
    for (;; rows *= 2) { /* until the ops have numbers */
        n->tiles = c->context / rows;
        n->layer_blocks = (LAYER_OPS + TILE_OPS * n->tiles) / BLOCK_OPS + 1;
        if (n->tiles == 1 || n->layer_blocks * c->layers <= blocks)
            break;
    }
    n->tile_rows = rows;
    if (!c->recompute || c->context <= UVCCI_TF_KEPT_HEADS * n->head_dim)
        return; /* the scores are no more than a few of the tensors that are there at a time */
    n->alive = UVCCI_TF_ALIVE_ROWS / rows < 2 ? 2 : UVCCI_TF_ALIVE_ROWS / rows;
    if (n->alive > n->tiles)
        n->alive = n->tiles;
    assert(n->alive <= UVCCI_TF_ALIVE_MAX);
}

void uvcci_tf_optimizer_numbers(const uvcc_transformer_config *c, uvcci_tf_numbers *n) {
    n->momentum_shift = or_else(c->momentum_shift, 2);
    n->variance_shift = or_else(c->variance_shift, 4);
    n->gradient = n->f + or_else(c->gradient_bits, 6);
    n->gradient_scale = n->f + n->tokens;
    n->update_scale = MEAN_BITS;
    if (is_adam(c))
        n->unit = (uint8_t)(-ilogb(epsilon_of(c)) - 4);
    if (c->optimizer == UVCC_OPTIMIZER_ADAMW)
        n->update_scale = UNIT_BITS + n->unit;
    n->update_bits = n->update_scale + or_else(c->gradient_bits, 6);
    if (c->optimizer == UVCC_OPTIMIZER_ADAM_MINI) {
        n->update_scale = MINI_SCALE;
        n->update_bits = MINI_SCALE + NORM_BITS;
    }
    n->master_scale = n->f + UVCCI_TF_FINE_BITS;
    n->master_bits = n->weight + UVCCI_TF_FINE_BITS;
}

/* All that follows from options that passed the checks of the model and the split. */
uvcci_tf_numbers uvcci_tf_numbers_of(const uvcc_transformer_config *c) {
    uvcci_tf_numbers n = {
        .hidden = uvcci_tf_hidden(c),
        .head_dim = c->dim / c->heads,
        .sequences = c->batch / c->replicas / c->microbatches,
        .rank_heads = c->heads / c->tensor_ranks,
        .rank_dim = c->dim / c->tensor_ranks,
        .f = c->frac_bits,
        .tokens = (uint8_t)uvcci_tf_log2((uint64_t)c->batch * c->context),
    };
    n.rank_hidden = n.hidden / c->tensor_ranks;
    n.value = n.inner = n.f + or_else(c->value_bits, 7);
    n.weight = n.f + or_else(c->weight_bits, 4);
    uvcci_tf_optimizer_numbers(c, &n);
    cut_attention(c, &n);
    return n;
}

static bool power_of_two(uint32_t n) {
    return n != 0 && (n & (n - 1)) == 0;
}

static int refuse(const uvcci_message *m, const char *option, const char *rule) {
    return uvcci_fail(m, UVCC_ERR_CONFIG, "%s %s", option, rule);
}

static int check_model(const uvcc_transformer_config *c, const uvcci_message *m) {
    if (!power_of_two(c->context) || c->context > 1u << 16)
        return refuse(m, "context", "must be a power of two, at most 65536");
    if (c->dim == 0 || c->dim > 1u << 16)
        return refuse(m, "dim", "must be 1 to 65536");
    if (c->heads == 0 || c->heads > UINT16_MAX || c->dim % c->heads != 0)
        return refuse(m, "heads", "must divide dim");
    if (c->layers == 0 || c->layers > UVCC_TRANSFORMER_MAX_LAYERS)
        return refuse(m, "layers", "must be 1 to 200");
    if (c->hidden > 1u << 20)
        return refuse(m, "hidden", "must be at most 2^20");
    if (c->block > UVCC_BLOCK_GPT2)
        return refuse(m, "block", "is unknown");
    if (c->norm > UVCC_NORM_LAYER)
        return refuse(m, "norm", "is unknown");
    return 0;
}

/* Every weight's part must fall into equal slices for the workers that have the same. */
static int check_slices(const uvcc_transformer_config *c, const uvcci_message *m) {
    const uvcc_transformer_worker first = {0, 0, 0};
    uvcc_transformer_weight w;
    uvcc_transformer_part part;
    for (uint32_t i = 0; uvcc_transformer_weight_at(c, i, &w) == 0; i++) {
        const uvcc_transformer_worker at = {first.replica, w.stage, first.tensor_rank};
        const uint32_t ways = c->replicas * (w.cut == UVCC_CUT_NONE ? c->tensor_ranks : 1);
        if (!uvcc_transformer_part_of(c, &at, i, &part))
            continue;
        if (c->optimizer == UVCC_OPTIMIZER_ADAM_MINI && w.blocks != UVCC_BLOCKS_WHOLE &&
            part.rows % ways != 0)
            return uvcci_fail(m, UVCC_ERR_CONFIG,
                              "replicas: %s has %u rows at a worker, which %u workers cannot share "
                              "evenly; this optimizer keeps rows whole",
                              w.name, part.rows, ways);
        if ((uint64_t)part.rows * part.cols % ways != 0)
            return uvcci_fail(
                m, UVCC_ERR_CONFIG,
                "replicas: %s has %u x %u elements at a worker, which %u workers cannot "
                "share evenly",
                w.name, part.rows, part.cols, ways);
    }
    return 0;
}

static int check_split(const uvcc_transformer_config *c, const uvcci_message *m) {
    if (!power_of_two(c->batch) || c->batch > 1u << 20)
        return refuse(m, "batch", "must be a power of two, at most 2^20");
    if (!power_of_two(c->microbatches) || c->microbatches > 1u << 12)
        return refuse(m, "microbatches", "must be a power of two, at most 4096");
    if (!power_of_two(c->replicas) || c->replicas > 1u << 12)
        return refuse(m, "replicas", "must be a power of two, at most 4096");
    if (!power_of_two(c->tensor_ranks) || c->tensor_ranks > 1u << 10)
        return refuse(m, "tensor_ranks", "must be a power of two, at most 1024");
    if (c->stages == 0 || c->stages > 200 || c->layers % c->stages != 0)
        return refuse(m, "stages", "must divide layers");
    if (c->heads % c->tensor_ranks != 0)
        return refuse(m, "tensor_ranks", "must divide heads");
    if (uvcci_tf_hidden(c) % c->tensor_ranks != 0)
        return refuse(m, "tensor_ranks", "must divide hidden");
    if ((uint64_t)c->replicas * c->microbatches * c->tensor_ranks > c->batch)
        return refuse(m, "batch",
                      "must have a sequence for each replica, microbatch and tensor rank at least");
    if (c->replicas * c->tensor_ranks >
        c->batch / c->replicas / c->microbatches / c->tensor_ranks * c->context)
        return refuse(m, "context", "must be longer for so many replicas and tensor_ranks");
    if (c->sks > 1000)
        return refuse(m, "sks", "must be at most 1000");
    if (c->windows % c->tensor_ranks != 0 || c->windows > 1u << 16)
        return refuse(m, "windows", "must be a multiple of tensor_ranks, at most 65536");
    if (c->windows != 0 && c->windows / c->tensor_ranks * c->context < c->tensor_ranks)
        return refuse(m, "context", "must be at least tensor_ranks");
    return check_slices(c, m);
}

static bool within(double v, double low, double high) {
    return v >= low && v <= high; /* false for what is no number */
}

/* Elements: with ADAMW so that the root's table has them. */
static int check_clip(const uvcc_transformer_config *c, const uvcci_message *m) {
    if (!within(c->clip, 0, 32) || (c->clip != 0 && c->clip < ldexp(1, -CLIP_FINEST)))
        return refuse(m, "clip", "must be 0, or 2^-12 to 32");
    if (c->optimizer == UVCC_OPTIMIZER_ADAMW &&
        !within(c->clip, ldexp(1, -CLIP_FINEST), 1024 * epsilon_of(c)))
        return refuse(m, "clip", "must be above 0 and at most 1024 epsilon with this optimizer");
    return 0;
}

/* The whole gradient's norm: the root of its square has a table from 2^-10 on, and the mean square
 * of the smallest block, of dim or hidden weights, must be in that of second moments. */
static int check_norm_clip(const uvcc_transformer_config *c, const uvcci_message *m) {
    const uint32_t hidden = uvcci_tf_hidden(c), least = c->dim < hidden ? c->dim : hidden;
    if (epsilon_of(c) < 0x1p-16)
        return refuse(m, "epsilon", "must be at least 2^-16 with this optimizer");
    if (c->clip != 0 && !within(c->clip, 0x1p-5, 4))
        return refuse(m, "clip", "must be 0, or 2^-5 to 4 with this optimizer");
    if (c->clip > 1024 * epsilon_of(c) * sqrt(least))
        return refuse(
            m, "clip",
            "must be at most 1024 epsilon sqrt(dim), of hidden if that is less, with this "
            "optimizer");
    return 0;
}

int uvcci_tf_check_optimizer(const uvcc_transformer_config *c, const uvcci_message *m) {
    const bool adam = is_adam(c);
    int exponent;
    if (c->optimizer > UVCC_OPTIMIZER_ADAM_MINI)
        return refuse(m, "optimizer", "is unknown");
    if (c->momentum_shift > 8)
        return refuse(m, "momentum_shift", "must be at most 8");
    if (c->variance_shift > 8)
        return refuse(m, "variance_shift", "must be at most 8");
    /* The first moment must not remember for much longer than the second: after large gradients end
     * m / sqrt(v + epsilon^2) would grow, for v forgot them, and leave its declared range of 64. */
    if (adam && or_else(c->momentum_shift, 2) >= or_else(c->variance_shift, 4) + 2)
        return refuse(m, "momentum_shift", "must be below variance_shift + 2 with this optimizer");
    if (!within(c->learning_rate, 0, 3.999))
        return refuse(m, "learning_rate", "must be from 0 to below 4");
    if (!within(c->final_rate, 0, 1))
        return refuse(m, "final_rate", "must be 0 to 1");
    if (c->steps != 0 && c->warmup > c->steps)
        return refuse(m, "warmup", "must be at most steps");
    if (!within(c->weight_decay, 0, 1))
        return refuse(m, "weight_decay", "must be 0 to 1");
    if (adam && (frexp(epsilon_of(c), &exponent) != 0.5 || !within(epsilon_of(c), 0x1p-17, 0x1p-6)))
        return refuse(m, "epsilon", "must be a power of two from 2^-17 to 2^-6");
    return c->optimizer == UVCC_OPTIMIZER_ADAM_MINI ? check_norm_clip(c, m) : check_clip(c, m);
}

static int check_numbers(const uvcc_transformer_config *c, const uvcci_message *m) {
    if (c->frac_bits < 12 || c->frac_bits > 20)
        return refuse(m, "frac_bits", "must be 12 to 20");
    if (c->value_bits > 16)
        return refuse(m, "value_bits", "must be at most 16");
    if (c->gradient_bits > 16)
        return refuse(m, "gradient_bits", "must be at most 16");
    if (c->weight_bits > 16)
        return refuse(m, "weight_bits", "must be at most 16");
    if (c->truncation > UVCC_TRUNC_EXACT_DCF)
        return refuse(m, "truncation", "is unknown");
    if (c->lift > UVCC_LIFT_EXCHANGE)
        return refuse(m, "lift", "is unknown");
    if (c->exact > 1)
        return refuse(m, "exact", "must be 0 or 1");
    if (c->products > UVCC_PRODUCTS_BEAVER)
        return refuse(m, "products", "is unknown");
    if (c->text_owner >= UVCC_PARTIES)
        return refuse(m, "text_owner", "must be 0, 1 or 2");
    if (c->loss > 1)
        return refuse(m, "loss", "must be 0 or 1");
    if (c->recompute > 1)
        return refuse(m, "recompute", "must be 0 or 1");
    if (c->window_mib > WINDOW_MIB_MAX)
        return refuse(m, "window_mib", "must be at most 1048576");
    return 0;
}

static int want(unsigned bits, const char *what, const char *options, const uvcci_message *m) {
    if (bits <= UVCCI_MAX_BITS)
        return 0;
    return uvcci_fail(m, UVCC_ERR_BOUND, "%s need %u bits, more than %u; lower %s", what, bits,
                      UVCCI_MAX_BITS, options);
}

/* Bits of what norms give: x / rms is at most sqrt(dim), its gain a weight, and there may be a
 * shift. */
static unsigned normed_bits(const uvcc_transformer_config *c, const uvcci_tf_numbers *n) {
    return (uvcci_tf_log2(c->dim) + 1) / 2 + 3u + n->weight;
}

static unsigned greater(unsigned a, unsigned b) {
    return a > b ? a : b;
}

/* The widest products; finish checks all. */
static int check_bounds(const uvcc_transformer_config *c, const uvcci_message *m) {
    const uvcci_tf_numbers n = uvcci_tf_numbers_of(c);
    const unsigned normed = normed_bits(c, &n), dim = uvcci_tf_log2(c->dim);
    const unsigned hidden = uvcci_tf_log2(n.hidden), vocab = uvcci_tf_log2(UVCC_TRANSFORMER_VOCAB);
    int err =
        want(n.weight + greater(normed + dim, n.value + greater(dim, hidden)),
             "sums of forward products", "frac_bits, value_bits, weight_bits, dim or hidden", m);
    if (err == 0)
        err = want(greater(normed, n.value) + n.gradient + n.tokens, "sums of weight gradients",
                   "frac_bits, value_bits, gradient_bits, weight_bits, batch or context", m);
    if (err == 0)
        err = want(n.gradient + n.weight + greater(greater(dim, hidden) + 2, vocab),
                   "sums of backward products",
                   "frac_bits, gradient_bits, weight_bits, dim or hidden", m);
    if (err == 0 && c->optimizer == UVCC_OPTIMIZER_MOMENTUM)
        err = want(uvcci_tf_momentum_bits(c, &n) + UVCC_TRANSFORMER_RATE_BITS + 3u,
                   "steps of the optimizer", "momentum_shift, gradient_bits or clip", m);
    if (err == 0 && c->optimizer == UVCC_OPTIMIZER_ADAMW)
        err = want(UNIT_BITS * 2u + 2u * n.unit + n.variance_shift, "squares of gradients",
                   "variance_shift or raise epsilon", m);
    return err;
}

int uvcc_transformer_check(const uvcc_transformer_config *c, char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    if (c == NULL || c->size != sizeof *c)
        return uvcci_fail(&m, UVCC_ERR_USAGE, "there are no options, or of another version");
    int err = check_model(c, &m);
    if (err == 0)
        err = check_split(c, &m);
    if (err == 0)
        err = uvcci_tf_check_optimizer(c, &m);
    if (err == 0)
        err = check_numbers(c, &m);
    if (err == 0)
        err = check_bounds(c, &m);
    return err == 0 ? uvcci_fail(&m, 0, "%s", "") : err;
}

int64_t uvcc_transformer_rate(const uvcc_transformer_config *c, uint32_t step) {
    if (c == NULL)
        return 0;
    double part = 1;
    if (step < c->warmup)
        part = (step + 1.0) / c->warmup;
    else if (c->steps > c->warmup)
        part = step >= c->steps
                   ? c->final_rate
                   : 1 - (1 - c->final_rate) * (step - c->warmup) / ((double)c->steps - c->warmup);
    return (int64_t)floor(ldexp(c->learning_rate * part, UVCC_TRANSFORMER_RATE_BITS) + 0.5);
}

/* ---- tensors that stay ---- */

/* Bits of a gradient after clipping. */
static unsigned clipped_bits(const uvcc_transformer_config *c, const uvcci_tf_numbers *n) {
    if (c->clip == 0)
        return n->update_bits;
    return (unsigned)(n->update_scale + ilogb(c->clip) + 2);
}

unsigned uvcci_tf_momentum_bits(const uvcc_transformer_config *c, const uvcci_tf_numbers *n) {
    const bool adam = c->optimizer == UVCC_OPTIMIZER_ADAMW;
    return clipped_bits(c, n) + (adam ? 1u : n->momentum_shift);
}

static void add_weight(uvcci_tf_builder *b, uint32_t i) {
    assert(i < b->weight_count);
    const uvcci_tf_numbers *n = &b->n;
    uvcci_tf_held *h = &b->weights[i];
    uvcci_tf_note(b, uvcc_transformer_weight_at(b->c, i, &h->about));
    h->held = uvcc_transformer_part_of(b->c, &b->w, i, &h->part);
    h->sum = UVCC_NO_TENSOR;
    if (!h->held)
        return;
    const char *name = h->about.name;
    const bool cut = h->about.cut != UVCC_CUT_NONE;
    h->group = cut ? UVCC_GROUP_DP : UVCC_GROUP_STAGE;
    h->ways = b->c->replicas * (cut ? 1 : b->c->tensor_ranks);
    const bool by_rows = h->part.rows % h->ways == 0;
    const uint32_t rows = by_rows ? h->part.rows / h->ways : 1;
    const uint32_t cols = by_rows ? h->part.cols : h->part.rows * h->part.cols / h->ways;
    h->tensor = uvcci_tf_persist(b, "", name, h->part.rows, h->part.cols, n->weight, n->f);
    uvcci_tf_optimizer_state(b, h, rows, cols);
}

void uvcci_tf_optimizer_state(uvcci_tf_builder *b, uvcci_tf_held *h, uint32_t rows, uint32_t cols) {
    const uvcci_tf_numbers *n = &b->n;
    const char *name = h->about.name;
    h->master = uvcci_tf_persist(b, "M.", name, rows, cols, n->master_bits, n->master_scale);
    if (b->c->optimizer == UVCC_OPTIMIZER_ADAM_MINI) {
        uvcci_tf_mini_state(b, h, rows, cols);
        return;
    }
    if (b->c->optimizer != UVCC_OPTIMIZER_SGD)
        h->momentum = uvcci_tf_persist(b, "V1.", name, rows, cols, uvcci_tf_momentum_bits(b->c, n),
                                       n->update_scale);
    if (b->c->optimizer == UVCC_OPTIMIZER_ADAMW)
        h->variance = uvcci_tf_persist(b, "V2.", name, rows, cols, VARIANCE_SCALE + VARIANCE_RANGE,
                                       VARIANCE_SCALE + 2u * n->unit);
}

/* Integer bits of what noise is multiplied by, and of the product. */
enum { TEMPERATURE_BITS = 4, NOISE_BITS = UVCCI_GUMBEL_RANGE + 4 };

static void add_persistent(uvcci_tf_builder *b) {
    b->rate = uvcci_tf_persist(b, "", "rate", 1, 1, UVCC_TRANSFORMER_RATE_BITS + 2,
                               UVCC_TRANSFORMER_RATE_BITS - (unsigned)b->n.unit);
    b->select = b->temperature = UVCC_NO_TENSOR;
    if (b->c->windows != 0 && b->last_stage) {
        b->select =
            uvcci_tf_persist(b, "", "select", b->c->windows, b->c->windows * b->c->context, 1, 0);
        b->temperature =
            uvcci_tf_persist(b, "", "temperature", 1, 1, b->n.f + TEMPERATURE_BITS, b->n.f);
    }
    for (uint32_t i = 0; i < b->weight_count && b->err == 0; i++)
        add_weight(b, i);
}

/* ---- entries ---- */

static void begin(uvcci_tf_builder *b, const char *name, uint32_t ahead, uint32_t sequences) {
    uvcci_tf_note(b, uvcc_program_entry(b->p, name));
    if (b->err == 0)
        uvcci_tf_note(b, uvcc_program_pipeline(b->p, b->w.stage, b->c->stages, ahead));
    b->truncation = b->c->truncation;
    b->opens_logits = b->derivatives = b->trains = false;
    b->loss = UVCC_NO_TENSOR;
    b->mb = 0;
    b->sequences = sequences;
    b->rows = sequences * b->c->context;
    b->own_rows = b->rows / b->c->tensor_ranks;
}

/* One-hot rows, given to the workers of one stage. */
static uint32_t input(uvcci_tf_builder *b, const char *name, uint32_t id, bool here) {
    if (!here)
        return UVCC_NO_TENSOR;
    const uint32_t t = uvcci_tf_transient(b, name, b->own_rows, UVCC_TRANSFORMER_VOCAB, 1, 0);
    if (b->err == 0)
        uvcci_tf_note(b, uvcc_program_input_mb(b->p, id, t, b->c->text_owner, b->mb));
    return t;
}

static void train_forward(uvcci_tf_builder *b, uint32_t mb) {
    uvcci_tf_batch *batch = &b->batches[mb];
    uint32_t losses = UVCC_NO_TENSOR;
    b->mb = (uint16_t)mb;
    batch->tokens = input(b, "TOKENS", UVCC_TRANSFORMER_IN_TOKENS + mb, b->first_stage);
    batch->targets = input(b, "TARGETS", UVCC_TRANSFORMER_IN_TARGETS + mb, b->last_stage);
    const uint32_t logits = uvcci_tf_forward(b, batch);
    if (!b->last_stage)
        return;
    uvcci_tf_cross_entropy(b, batch, logits, b->c->loss ? &losses : NULL);
    if (b->c->loss)
        uvcci_tf_add_losses(b, losses, b->c->replicas * b->c->tensor_ranks, b->c->microbatches);
}

static void add_train(uvcci_tf_builder *b) {
    const uvcc_transformer_config *c = b->c;
    begin(b, "train", c->ahead, b->n.sequences);
    b->derivatives = !c->recompute;
    b->trains = true;
    for (unsigned backward = 0; backward < 2; backward++)
        for (uint32_t mb = 0; mb < c->microbatches; mb++) {
            snprintf(b->scope, sizeof b->scope, "m%u.", mb);
            b->mb = (uint16_t)mb;
            if (backward)
                uvcci_tf_backward(b, &b->batches[mb]);
            else
                train_forward(b, mb);
        }
    if (c->optimizer == UVCC_OPTIMIZER_ADAM_MINI)
        uvcci_tf_update_mini(b);
    else
        uvcci_tf_update(b);
    if (!b->last_stage || !c->loss)
        return;
    snprintf(b->scope, sizeof b->scope, "u.");
    uvcci_tf_enter_end(b);
    uvcci_tf_open_loss(b, UVCC_GROUP_STAGE, c->replicas * c->tensor_ranks,
                       UVCC_TRANSFORMER_OUT_LOSS);
}

static void add_logits(uvcci_tf_builder *b) {
    uvcci_tf_batch *batch = &b->batches[0];
    begin(b, "logits", 0, b->c->windows);
    snprintf(b->scope, sizeof b->scope, "l.");
    b->opens_logits = true;
    batch->tokens = input(b, "TOKENS", UVCC_TRANSFORMER_IN_WINDOW, b->first_stage);
    const uint32_t logits = uvcci_tf_forward(b, batch);
    if (b->last_stage && b->err == 0)
        uvcci_tf_note(b,
                      uvcc_program_output_to(b->p, UVCC_TRANSFORMER_OUT_LOGITS,
                                             uvcci_tf_all_rows(b, "LA", logits), b->c->text_owner));
}

/* Its ops have indices of their own, so that a stage without inputs cannot take it for "logits". */
static void add_eval(uvcci_tf_builder *b) {
    uvcci_tf_batch *batch = &b->batches[0];
    uint32_t losses;
    begin(b, "eval", 0, b->c->windows);
    snprintf(b->scope, sizeof b->scope, "e.");
    b->first_index = 1;
    batch->tokens = input(b, "TOKENS", UVCC_TRANSFORMER_IN_EVAL_TOKENS, b->first_stage);
    batch->targets = input(b, "TARGETS", UVCC_TRANSFORMER_IN_EVAL_TARGETS, b->last_stage);
    const uint32_t logits = uvcci_tf_forward(b, batch);
    if (b->last_stage) {
        uvcci_tf_cross_entropy(b, batch, logits, &losses);
        uvcci_tf_add_losses(b, losses, b->c->tensor_ranks, 1);
        uvcci_tf_open_loss(b, UVCC_GROUP_TP, b->c->tensor_ranks, UVCC_TRANSFORMER_OUT_EVAL_LOSS);
    }
    b->first_index = 0;
}

/* Gumbel noise that nobody chooses, times the temperature. */
static uint32_t add_noise(uvcci_tf_builder *b, uint32_t rows, uint32_t cols) {
    const unsigned f = b->n.f;
    uvcci_gumbel g;
    const uint32_t words = uvcci_tf_transient(b, "WORDS", rows, cols, UVCCI_GUMBEL_WORD + 2, 0);
    const uint32_t fine = uvcci_tf_transient(
        b, "FINE", rows, cols, UVCCI_GUMBEL_SCALE + UVCCI_GUMBEL_RANGE, UVCCI_GUMBEL_SCALE);
    const uint32_t unit = uvcci_tf_transient(b, "UNIT", rows, cols, f + UVCCI_GUMBEL_RANGE + 1, f);
    const uint32_t noise = uvcci_tf_transient(b, "NOISE", rows, cols, f + NOISE_BITS, f);
    uvcci_gumbel_build(&g);
    const int function = b->err == 0 ? uvcc_program_function(b->p, &g.function) : b->err;
    uvcci_tf_note(b, function);
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_RANDOM,
                                  .out_count = 1,
                                  .out = {words},
                                  .shift = UVCCI_GUMBEL_WORD});
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_FUNCTION,
                                  .in_count = 1,
                                  .in = {words},
                                  .out_count = 1,
                                  .out = {fine},
                                  .function = (uint16_t)(function >= 0 ? function : 0)});
    uvcci_tf_truncate(b, fine, unit, b->truncation);
    uvcci_tf_times(b, UVCC_OP_COL_MUL, unit, b->temperature, noise, 0, 0);
    return noise;
}

/* The place of the greatest sum of logit and noise in one row per window. Every tensor rank has the
 * logits, but there is one draw only. */
static void add_next(uvcci_tf_builder *b) {
    uvcci_tf_batch *batch = &b->batches[0];
    static const char *const place[] = {"PLACE"};
    const uint32_t windows = b->c->windows;
    uint32_t next = 0, all = 0;
    begin(b, "next", 0, windows);
    snprintf(b->scope, sizeof b->scope, "n.");
    b->first_index = 2;
    b->opens_logits = true;
    batch->tokens = input(b, "TOKENS", UVCC_TRANSFORMER_IN_PROMPT, b->first_stage);
    const uint32_t own = uvcci_tf_forward(b, batch);
    if (b->last_stage && b->err == 0)
        all = uvcci_tf_all_rows(b, "LA", own);
    if (b->last_stage && b->err == 0 && b->w.tensor_rank == 0) {
        const uvcc_tensor_desc d = *uvcci_tf_desc(b, all);
        const uint32_t row = uvcci_tf_transient(b, "ROW", windows, d.cols, d.bits, d.scale);
        uvcci_tf_product(b, b->select, all, row, 0, false);
        const uint32_t noise = add_noise(b, windows, d.cols);
        const uint32_t noisy = uvcci_tf_transient(
            b, "NOISY", windows, d.cols,
            (d.bits > b->n.f + NOISE_BITS ? d.bits : b->n.f + NOISE_BITS) + 1u, d.scale);
        uvcci_tf_local(b, UVCC_OP_ADD, row, noise, noisy);
        uvcci_tf_function(b, UVCC_NL_ARGMAX, (uvcc_nonlinear_options){0}, &noisy, place, &next);
        if (b->err == 0)
            uvcci_tf_note(
                b, uvcc_program_output_to(b->p, UVCC_TRANSFORMER_OUT_NEXT, next, b->c->text_owner));
    }
    b->first_index = 0;
}

/* Opens the weights. */
static void add_reveal(uvcci_tf_builder *b) {
    uint32_t block = UVCCI_TF_BLOCK_LAYER;
    begin(b, "reveal", 0, 0);
    for (uint32_t i = 0; i < b->weight_count && b->err == 0; i++) {
        const uvcci_tf_held *h = &b->weights[i];
        if (!h->held)
            continue;
        const uint32_t out = uvcci_tf_revealed(b, h, block++);
        uvcci_tf_note(b, uvcc_program_output(b->p, UVCC_TRANSFORMER_OUT_WEIGHT + i, out));
    }
}

/* ---- the program ---- */

static size_t room_bytes(const uvcci_tf_builder *b) {
    const size_t batches = b->c->microbatches;
    return b->weight_count * sizeof *b->weights + batches * sizeof *b->batches +
           batches * b->layers * sizeof *b->layer_room +
           (1 + UVCCI_TF_ALIVE_MAX) * sizeof *b->layer_shelf;
}

static void lay_out(uvcci_tf_builder *b, void *mem) {
    b->batches = mem;
    b->layer_room = (uvcci_tf_layer *)(b->batches + b->c->microbatches);
    b->weights = (uvcci_tf_held *)(b->layer_room + (size_t)b->c->microbatches * b->layers);
    b->layer_shelf = (uvcci_tf_shelf *)(b->weights + b->weight_count);
    b->tile_shelves = b->layer_shelf + 1;
    for (uint32_t mb = 0; mb < b->c->microbatches; mb++)
        b->batches[mb].layers = b->layer_room + (size_t)mb * b->layers;
}

static void build(uvcci_tf_builder *b) {
    assert(b->p != NULL && b->c->stages >= 1);
    const uvcc_transformer_config *c = b->c;
    uvcci_tf_note(b, uvcc_program_topology(b->p, c->replicas, c->stages, c->tensor_ranks));
    add_persistent(b);
    if (b->err != 0)
        return; /* there are weights that nothing is known of */
    add_train(b);
    if (c->windows != 0) {
        add_logits(b);
        add_eval(b);
        add_next(b);
    }
    add_reveal(b);
}

/* Every worker calls the same emitters, which leave out what its stage and rank have no part in: so
 * the programs of all workers fit together by construction. On an error nothing is left. */
int uvcc_transformer_program(uvcc_program **out, const uvcc_transformer_config *c,
                             const uvcc_transformer_worker *w, const uvcc_allocator *al,
                             char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    if (out == NULL || w == NULL || al == NULL || al->alloc == NULL || al->free == NULL)
        return uvcci_fail(&m, UVCC_ERR_USAGE, "there is no place for the program, or no worker");
    int err = uvcc_transformer_check(c, message, message_cap);
    if (err != 0)
        return err;
    if (w->replica >= c->replicas || w->stage >= c->stages || w->tensor_rank >= c->tensor_ranks)
        return uvcci_fail(&m, UVCC_ERR_USAGE, "there is no worker (%u, %u, %u)", w->replica,
                          w->stage, w->tensor_rank);
    uvcci_tf_builder b = {.c = c,
                          .m = uvcci_tf_model(c),
                          .how = {.truncation = c->truncation,
                                  .lift = c->lift,
                                  .products = c->products,
                                  .exact = c->exact != 0,
                                  .sks = c->sks,
                                  .tensor_ranks = c->tensor_ranks},
                          .prefix = "",
                          .padding = UVCC_NO_TENSOR,
                          .keeps = true,
                          .w = *w,
                          .n = uvcci_tf_numbers_of(c),
                          .al = al};
    b.layers = c->layers / c->stages;
    b.first_layer = w->stage * b.layers;
    b.first_stage = w->stage == 0;
    b.last_stage = w->stage + 1 == c->stages;
    b.weight_count = uvcc_transformer_weight_count(c);
    const size_t bytes = room_bytes(&b);
    void *mem = al->alloc(al->user, bytes, UVCC_MEM_STATE);
    if (mem == NULL)
        return uvcci_fail(&m, UVCC_ERR_NOMEM, "out of memory");
    memset(mem, 0, bytes);
    lay_out(&b, mem);
    err = uvcc_program_new(&b.p, al);
    if (err != 0) {
        uvcci_fail(&m, err, "out of memory");
    } else {
        if (c->window_mib != 0)
            uvcci_tf_note(&b, uvcc_program_window(b.p, (uint64_t)c->window_mib << 20));
        build(&b);
        err = b.err != 0 ? uvcci_fail(&m, b.err, "%s%s%s", b.culprit, b.culprit[0] ? ": " : "",
                                      uvcc_error_text(b.err))
                         : uvcc_program_finish(b.p, message, message_cap);
        if (err != 0)
            uvcc_program_free(b.p);
        else
            *out = b.p;
    }
    al->free(al->user, mem, bytes, UVCC_MEM_STATE);
    return err;
}

/* ---- what an op belongs to ---- */

static void name_pass(const uvcc_transformer_config *c, const uvcc_op_desc *op,
                      char out[UVCC_TRANSFORMER_SECTION_BYTES]) {
    const bool back = op->phase == UVCC_BWD;
    const uvcci_tf_numbers n = uvcci_tf_numbers_of(c);
    const uint32_t block = op->k >> 8, end = UVCCI_TF_BLOCK_LAYER + c->layers * n.layer_blocks;
    const uint32_t place = (block - UVCCI_TF_BLOCK_LAYER) / n.layer_blocks;
    const char *pass = back ? "backward" : "forward";
    if (block == (back ? UVCCI_TF_BLOCK_OUT : UVCCI_TF_BLOCK_IN))
        snprintf(out, UVCC_TRANSFORMER_SECTION_BYTES, "embedding %s", pass);
    else if (block < UVCCI_TF_BLOCK_LAYER || block >= end)
        snprintf(out, UVCC_TRANSFORMER_SECTION_BYTES, "output %s", pass);
    else
        snprintf(out, UVCC_TRANSFORMER_SECTION_BYTES, "layer %u %s",
                 back ? c->layers - 1 - place : place, pass);
}

void uvcc_transformer_section(const uvcc_transformer_config *c, const uvcc_op_desc *op,
                              char out[UVCC_TRANSFORMER_SECTION_BYTES]) {
    if (c == NULL || op == NULL || out == NULL)
        return;
    const bool after = op->phase == UVCC_UPD && op->k >> 8 >= UVCCI_TF_BLOCK_OUT;
    const bool opens = op->opcode == UVCC_OP_OUTPUT || op->opcode == UVCC_OP_OUTPUT_TO;
    const char *name = op->opcode == UVCC_OP_INPUT ? "inputs"
                       : opens || after            ? "opening"
                       : op->opcode == UVCC_OP_SEND_PP || op->opcode == UVCC_OP_RECV_PP
                           ? "between stages"
                       : op->phase == UVCC_UPD ? "update"
                                               : NULL;
    if (name != NULL)
        snprintf(out, UVCC_TRANSFORMER_SECTION_BYTES, "%s", name);
    else
        name_pass(c, op, out);
}
