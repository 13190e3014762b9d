/* SPDX-License-Identifier: Apache-2.0 */
/* transformer_mini.c - Adam-mini (Zhang et al. 2024, arXiv:2406.16793, algorithm 3) and clipping by
 * the norm of the whole gradient.
 *
 * A block of weights (uvcc_transformer_blocks) has one second moment, so one root; what is left for
 * each weight is a product with it. Three sums are truncated once for each weight: its gradient,
 * its first moment with the clipping's factor, its step with the rate, the root and the decay; then
 * the forward weight is rounded. All else is of blocks.
 *
 * Squares are declared by the norm of the whole gradient, below 2^NORM_BITS, not by elements: no
 * element's square and no sum of some of them is greater. Their sums stay additive until nothing is
 * left to be added, over workers too. */
#include "exec/model/transformer.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <uvcc/compute.h>

/* Fraction bits of first moments, of second ones and means of squares, of the clipping's factor; of
 * rate times root, and where weights decay, so of what they decay by; bits of masters and steps by
 * that scale. */
enum { FIRST = 28, SECOND = 40, FACTOR = 16, STEP = 14, STEP_DECAYS = 26, DECAY = 24 };
/* The gradient's norm is below 2^6; squares stand at twice the gradients' scale. */
enum { NORM_BITS = 6, NORM_SCALE = 24 };
/* Fraction bits that a weight decay is taken with, and the most of what a mean of a number of
 * elements that is no power of two is taken of. */
enum { DECAY_FRACTION = 16, ANY_MEAN = 34 };

static const char *const first_moment[] = {"MK", "MA"}, *const second_moment[] = {"VK", "VA"};

typedef uvcci_tf_slice slice;

/* ---- state ---- */

/* Integer bits of an element after clipping. */
static int range_of(const uvcc_transformer_config *c) {
    return c->clip > 0 ? ilogb(c->clip) + 2 : NORM_BITS;
}

/* Elements of a block, at all workers together. */
static uint32_t block_elems(const uvcci_tf_builder *b, const uvcci_tf_held *h) {
    switch (h->about.blocks) {
    case UVCC_BLOCKS_ROWS:
        return h->about.cols;
    case UVCC_BLOCKS_COLS:
        return h->about.rows;
    case UVCC_BLOCKS_HEADS:
        return h->about.rows * b->n.head_dim;
    default:
        return h->about.rows * h->about.cols;
    }
}

/* Bits of a second moment: the mean over a block is at most the whole's square over the block's
 * elements; one bit more is for what roundings add. */
static unsigned second_bits(const uvcci_tf_builder *b, const uvcci_tf_held *h) {
    enum { LEAST = 8 };
    const int norm = b->c->clip > 0 ? ilogb(b->c->clip) + 1 : NORM_BITS;
    const int bits = SECOND + 2 * norm + 1 - ilogb(block_elems(b, h));
    return bits > LEAST ? (unsigned)bits : LEAST;
}

/* Rows and columns of the second moments of the weight's part. */
static void block_shape(const uvcci_tf_builder *b, const uvcci_tf_held *h, uint32_t *rows,
                        uint32_t *cols) {
    const uint8_t blocks = h->about.blocks;
    *rows = blocks == UVCC_BLOCKS_ROWS ? h->part.rows / h->ways : 1;
    *cols = blocks == UVCC_BLOCKS_COLS    ? h->part.cols
            : blocks == UVCC_BLOCKS_HEADS ? b->n.rank_heads
                                          : 1;
}

void uvcci_tf_mini_state(uvcci_tf_builder *b, uvcci_tf_held *h, uint32_t rows, uint32_t cols) {
    uint32_t block_rows, block_cols;
    assert(h->held && b->c->optimizer == UVCC_OPTIMIZER_ADAM_MINI);
    block_shape(b, h, &block_rows, &block_cols);
    h->momentum = uvcci_tf_persist(b, "V1.", h->about.name, rows, cols,
                                   (unsigned)(FIRST + range_of(b->c)), FIRST);
    h->variance = uvcci_tf_persist(b, "V2.", h->about.name, block_rows, block_cols,
                                   second_bits(b, h), SECOND);
}

/* ---- ops ---- */

static const uvcc_tensor_desc *desc(const slice *s, uint32_t t) {
    return uvcci_tf_desc(s->b, t);
}

/* x y by elements, which its author knows to stay within the bits. */
static uint32_t mul_part(uvcci_tf_builder *b, const char *name, uint32_t x, uint32_t y,
                         unsigned bits) {
    const uvcc_tensor_desc dx = *uvcci_tf_desc(b, x), dy = *uvcci_tf_desc(b, y);
    const uint32_t z =
        uvcci_tf_additive(b, name, dx.rows, dx.cols, bits, (unsigned)dx.scale + (unsigned)dy.scale);
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_MUL_PART,
                                  .in_count = 2,
                                  .in = {x, y},
                                  .out_count = 1,
                                  .out = {z},
                                  .flags = UVCC_OP_WITHIN});
    return z;
}

/* Sums of squares, of rows x cols of them: over rows or over columns. */
static uint32_t sums(uvcci_tf_builder *b, const char *name, uvcc_opcode opcode, uint32_t x,
                     uint32_t rows, uint32_t cols) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, x);
    const uint32_t z = uvcci_tf_additive(b, name, rows, cols, d.bits, d.scale);
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = (uint16_t)opcode,
                                  .in_count = 1,
                                  .in = {x},
                                  .out_count = 1,
                                  .out = {z},
                                  .flags = UVCC_OP_WITHIN});
    return z;
}

/* A row of sums over a group's workers, at all of them. */
static uint32_t over_group(uvcci_tf_builder *b, uint32_t x, uint8_t group, uint32_t ways,
                           const char *gathered, const char *name) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, x);
    if (ways == 1)
        return x;
    assert(d.rows == 1);
    const uint32_t all = uvcci_tf_additive(b, gathered, ways, d.cols, d.bits, d.scale);
    uvcci_tf_gather(b, x, group, all);
    return sums(b, name, UVCC_OP_REDUCE_BIAS_GRAD, all, 1, d.cols);
}

static uint32_t add_public(uvcci_tf_builder *b, const char *name, uint32_t x, int64_t constant) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, x);
    const uint32_t z = uvcci_tf_transient(b, name, d.rows, d.cols, d.bits + 1u, d.scale);
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_ADD_PUBLIC,
                                  .in_count = 1,
                                  .in = {x},
                                  .out_count = 1,
                                  .out = {z},
                                  .constant = constant});
    return z;
}

/* ---- the gradient, and its squares ---- */

static void begin_weight(uvcci_tf_builder *b, const uvcci_tf_held *h) {
    snprintf(b->scope, sizeof b->scope, "u.%s.", h->about.name);
}

/* This worker's part of the sums of each block. */
static uint32_t squares_of(const slice *s, uint32_t g) {
    uvcci_tf_builder *b = s->b;
    uint32_t rows, cols;
    block_shape(b, s->h, &rows, &cols);
    uint32_t squares = mul_part(b, "GG", g, g, 2 * (NORM_SCALE + NORM_BITS));
    if (s->h->about.blocks == UVCC_BLOCKS_COLS || s->h->about.blocks == UVCC_BLOCKS_HEADS)
        squares = sums(b, "GR", UVCC_OP_REDUCE_BIAS_GRAD, squares, 1, s->cols);
    if (s->h->about.blocks != UVCC_BLOCKS_COLS)
        squares = sums(b, "GB", UVCC_OP_ROW_SUM, squares, rows, cols);
    return squares;
}

static void measure(uvcci_tf_builder *b, uvcci_tf_held *h) {
    const slice s = uvcci_tf_slice_of(b, h);
    h->gradient = uvcci_tf_mean_gradient(&s);
    h->squares = squares_of(&s, h->gradient);
}

/* ---- clipping ---- */

/* The sum of all squares of this worker's slices. */
static uint32_t sum_of_squares(uvcci_tf_builder *b) {
    uint32_t sum = UVCC_NO_TENSOR;
    for (uint32_t i = 0; i < b->weight_count; i++) {
        const uvcci_tf_held *h = &b->weights[i];
        if (!h->held)
            continue;
        begin_weight(b, h);
        const uvcc_tensor_desc d = *uvcci_tf_desc(b, h->squares);
        uint32_t own = h->squares;
        if (d.rows > 1 || d.cols > 1)
            own =
                sums(b, "NW", d.cols == 1 ? UVCC_OP_REDUCE_BIAS_GRAD : UVCC_OP_ROW_SUM, own, 1, 1);
        if (sum == UVCC_NO_TENSOR) {
            sum = own;
            continue;
        }
        const uint32_t more = uvcci_tf_additive(b, "NA", 1, 1, d.bits, d.scale);
        uvcci_tf_local(b, UVCC_OP_ADD, sum, own, more);
        sum = more;
    }
    return sum;
}

/* max(x, c) of one value. */
static uint32_t at_least(uvcci_tf_builder *b, uint32_t x, int64_t c) {
    const uint32_t over = add_public(b, "NO", x, -c);
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, over);
    const uint32_t positive = uvcci_tf_transient(b, "NM", 1, 1, d.bits, d.scale);
    const uint32_t sign = uvcci_tf_transient(b, "ND", 1, 1, 1, 0);
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_RELU,
                                  .in_count = 1,
                                  .in = {over},
                                  .out_count = 2,
                                  .out = {positive, sign},
                                  .lift = b->c->lift});
    return add_public(b, "NX", positive, c);
}

/* Fraction bits of the factor's square: as many as leave a clipped mean of squares, below 2 clip^2,
 * in 61 bits next to it. At the greatest norm, 2^6, it has 8 bits. */
static unsigned square_fraction(double clip) {
    int e; /* clip <= 2^e */
    if (frexp(clip, &e) == 0.5)
        e--;
    return (unsigned)(61 - 1 - (int)SECOND - 2 * e);
}

/* clip / max(norm, clip), and its square. */
static void find_factor(uvcci_tf_builder *b, uint32_t sum) {
    static const char *const names[] = {"NI"};
    const double clip = b->c->clip;
    uint32_t inverse;
    snprintf(b->scope, sizeof b->scope, "u.");
    uvcci_tf_enter(b, UVCC_UPD, 0, UVCCI_TF_BLOCK_NORM);
    sum = over_group(b, sum, UVCC_GROUP_STAGE, b->c->replicas * b->c->tensor_ranks, "NS", "NT");
    sum = over_group(b, sum, UVCC_GROUP_PP, b->c->stages, "NP", "NQ");
    const uint32_t norm = uvcci_tf_transient(b, "NN", 1, 1, NORM_SCALE + 2 * NORM_BITS, NORM_SCALE);
    uvcci_tf_truncate(b, sum, norm, b->truncation);
    const uint32_t most = at_least(b, norm, llround(ldexp(clip * clip, NORM_SCALE)));
    uvcci_tf_function(b, UVCC_NL_RSQRT, (uvcc_nonlinear_options){0}, &most, names, &inverse);
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, inverse);
    const int64_t factor = llround(ldexp(clip, FACTOR));
    const uint32_t part = uvcci_tf_transient(
        b, "NC", 1, 1, d.bits + uvcci_tf_log2((uint64_t)factor), d.scale + (unsigned)FACTOR);
    uvcci_tf_scale(b, inverse, part, factor, FACTOR);
    b->factor = uvcci_tf_transient(b, "CF", 1, 1, FACTOR + 1, FACTOR);
    uvcci_tf_truncate(b, part, b->factor, b->truncation);
    const unsigned fraction = square_fraction(clip);
    b->factor_squared = uvcci_tf_transient(b, "CS", 1, 1, fraction + 1, fraction);
    uvcci_tf_times(b, UVCC_OP_ELEM_MUL, b->factor, b->factor, b->factor_squared, 0, 0);
}

/* ---- moments ---- */

/* Sums over those workers that have parts of the block: a row is at one, a column that ranks cut
 * off at a rank's replicas. */
static uint32_t whole_squares(const slice *s) {
    const uint32_t replicas = s->b->c->replicas;
    if (s->h->about.blocks == UVCC_BLOCKS_ROWS)
        return s->h->squares;
    if (s->h->about.blocks != UVCC_BLOCKS_WHOLE && s->h->about.cut == UVCC_CUT_COLS)
        return over_group(s->b, s->h->squares, UVCC_GROUP_DP, replicas, "GS", "GT");
    return over_group(s->b, s->h->squares, UVCC_GROUP_STAGE, replicas * s->b->c->tensor_ranks, "GS",
                      "GT");
}

/* The means of squares: the sums truncated so far that their scale, after c 2^-e next to 1 / n, is
 * the moments', or where c is not 1 above it, as far as there are bits. */
static uint32_t mean_square(const slice *s) {
    uvcci_tf_builder *b = s->b;
    unsigned e;
    const uint32_t n = block_elems(b, s->h), squares = whole_squares(s);
    const unsigned range = (unsigned)NORM_BITS * 2u;
    const int64_t c = uvcci_tf_inverse(n, &e);
    const unsigned fine = uvcci_tf_log2((uint64_t)c), most = UVCCI_MAX_BITS - e;
    const unsigned scale = c == 1 ? SECOND - e : most < ANY_MEAN ? most : ANY_MEAN;
    const uint32_t sum = uvcci_tf_transient(b, "QS", s->rows, s->cols, scale + range, scale);
    uvcci_tf_truncate(b, squares, sum, b->truncation);
    const uint32_t mean =
        uvcci_tf_transient(b, "QM", s->rows, s->cols, scale + range + fine, scale + e);
    uvcci_tf_scale(b, sum, mean, c, e);
    if (scale + e == SECOND)
        return mean;
    const uint32_t q = uvcci_tf_transient(b, "Q", s->rows, s->cols, SECOND + range, SECOND);
    uvcci_tf_truncate(b, mean, q, b->truncation);
    return q;
}

/* Second moments, and rate / sqrt(v + epsilon^2) of each: in units in which epsilon is 2^-4, the
 * root's argument is finer by 2 unit, and the rate makes good for the root. */
static uint32_t root_of(const slice *s, unsigned scale) {
    static const char *const names[] = {"RS"};
    uvcci_tf_builder *b = s->b;
    const unsigned unit = b->n.unit;
    uint32_t square = mean_square(s), root;
    if (b->c->clip > 0) {
        const uvcc_tensor_desc d = *desc(s, s->h->variance);
        const uint32_t clipped = uvcci_tf_transient(b, "QC", s->rows, s->cols, d.bits, d.scale);
        uvcci_tf_times_within(b, UVCC_OP_COL_MUL, square, b->factor_squared, clipped,
                              UVCCI_MAX_BITS);
        square = clipped;
    }
    uvcci_tf_decay(s, second_moment, s->h->variance, square, b->n.variance_shift, true);
    const uint32_t v = add_public(b, "VE", s->h->variance, 1ll << (SECOND - 2 * (unit + 4)));
    uvcci_tf_function(b, UVCC_NL_RSQRT, (uvcc_nonlinear_options){.raise = (uint8_t)(2 * unit)}, &v,
                      names, &root);
    const uint32_t step = uvcci_tf_transient(b, "RR", s->rows, s->cols, scale + unit + 7u, scale);
    uvcci_tf_times(b, UVCC_OP_COL_MUL, root, b->rate, step, 0, 0);
    return step;
}

/* One value for each column, of one for each head. */
static uint32_t for_columns(const slice *s, uint32_t of_heads) {
    const uvcc_tensor_desc d = *desc(s, of_heads);
    if (s->h->about.blocks != UVCC_BLOCKS_HEADS)
        return of_heads;
    const uint32_t z = uvcci_tf_transient(s->b, "RC", 1, s->cols, d.bits, d.scale);
    uvcci_tf_op(s->b, (uvcc_op_desc){.opcode = UVCC_OP_REPEAT_COLS,
                                     .in_count = 1,
                                     .in = {of_heads},
                                     .out_count = 1,
                                     .out = {z},
                                     .constant = 1});
    return z;
}

/* m = (1 - 2^-a) m + 2^-a g, g times the clipping's factor in the same truncation. */
static void follow_gradient(const slice *s) {
    uvcci_tf_builder *b = s->b;
    const uvcc_tensor_desc dm = *desc(s, s->h->momentum), dg = *desc(s, s->h->gradient);
    const unsigned a = b->n.momentum_shift, scale = dg.scale + FACTOR + a;
    if (b->c->clip == 0) {
        const uint32_t fine = uvcci_tf_transient(b, "GF", s->rows, s->cols, dm.bits, dm.scale);
        uvcci_tf_local(b, UVCC_OP_SHIFT_LEFT, s->h->gradient, UVCC_NO_TENSOR, fine);
        uvcci_tf_decay(s, first_moment, s->h->momentum, fine, a, true);
        return;
    }
    const unsigned fraction = scale - dm.scale, bits = dm.bits + fraction;
    const uint32_t clipped = mul_part(b, "GC", s->h->gradient, b->factor, bits - a);
    const uint32_t added = uvcci_tf_additive(b, first_moment[1], s->rows, s->cols, bits - a, scale);
    const uint32_t kept = uvcci_tf_additive(b, first_moment[0], s->rows, s->cols, bits, scale);
    uvcci_tf_scale(b, clipped, added, 1, a);
    uvcci_tf_scale(b, s->h->momentum, kept, ((1ll << a) - 1) << (fraction - a), fraction);
    uvcci_tf_local(b, UVCC_OP_ADD, kept, added, kept);
    uvcci_tf_truncate(b, kept, s->h->momentum, b->truncation);
}

/* ---- the step ---- */

/* rate (m / root + decay w), in one truncation. */
static uint32_t step_of(const slice *s, uint32_t root) {
    uvcci_tf_builder *b = s->b;
    const uvcc_tensor_desc d = *desc(s, s->h->master), dr = *desc(s, root);
    const uint32_t step = uvcci_tf_transient(b, "ST", s->rows, s->cols, d.bits, d.scale);
    const uint16_t by = dr.rows == s->rows && dr.cols == 1 ? UVCC_OP_ROW_MUL : UVCC_OP_COL_MUL;
    if (b->decay == UVCC_NO_TENSOR || !s->h->about.decays) {
        uvcci_tf_times_within(b, by, s->h->momentum, root, step, UVCCI_MAX_BITS);
        return step;
    }
    const uint32_t sum = mul_part(b, "SM", s->h->momentum, root, UVCCI_MAX_BITS);
    const uint32_t decay = mul_part(b, "SW", s->h->master, b->decay, UVCCI_MAX_BITS);
    uvcci_tf_local(b, UVCC_OP_ADD, sum, decay, sum);
    uvcci_tf_truncate(b, sum, step, b->truncation);
    return step;
}

static void update_weight(uvcci_tf_builder *b, const uvcci_tf_held *h) {
    const slice s = uvcci_tf_slice_of(b, h);
    slice blocks = s;
    block_shape(b, h, &blocks.rows, &blocks.cols);
    const bool decays = b->decay != UVCC_NO_TENSOR && h->about.decays;
    const uint32_t root = for_columns(&s, root_of(&blocks, decays ? STEP_DECAYS : STEP));
    follow_gradient(&s);
    uvcci_tf_local(b, UVCC_OP_SUB, h->master, step_of(&s, root), h->master);
    uvcci_tf_from_master(b, h, h->tensor, b->truncation);
}

/* rate times decay, one value for all weights. */
static void find_decay(uvcci_tf_builder *b) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, b->rate);
    const int64_t factor = llround(ldexp(b->c->weight_decay, DECAY_FRACTION));
    b->decay = UVCC_NO_TENSOR;
    if (factor == 0)
        return;
    snprintf(b->scope, sizeof b->scope, "u.");
    const uint32_t product =
        uvcci_tf_transient(b, "DP", 1, 1, d.bits + uvcci_tf_log2((uint64_t)factor),
                           (unsigned)d.scale + DECAY_FRACTION + b->n.unit);
    b->decay = uvcci_tf_transient(b, "DR", 1, 1, d.bits, DECAY);
    uvcci_tf_scale(b, b->rate, product, factor, DECAY_FRACTION + b->n.unit);
    uvcci_tf_truncate(b, product, b->decay, b->truncation);
}

/* With clipping every gradient waits for the norm of all; without it each is used up at once. */
void uvcci_tf_update_mini(uvcci_tf_builder *b) {
    assert(b->weights != NULL && b->c->optimizer == UVCC_OPTIMIZER_ADAM_MINI);
    const bool clips = b->c->clip > 0;
    uvcci_tf_enter(b, UVCC_UPD, 0, UVCCI_TF_BLOCK_LAYER);
    find_decay(b);
    for (uint32_t i = 0; i < b->weight_count; i++) {
        if (!b->weights[i].held)
            continue;
        begin_weight(b, &b->weights[i]);
        measure(b, &b->weights[i]);
        if (!clips)
            update_weight(b, &b->weights[i]);
    }
    if (!clips)
        return;
    const uint32_t sum = sum_of_squares(b);
    if (uvcci_tf_block(b) >= UVCCI_TF_BLOCK_NORM)
        uvcci_tf_note(b, UVCC_ERR_LIMIT);
    find_factor(b, sum);
    for (uint32_t i = 0; i < b->weight_count; i++) {
        if (!b->weights[i].held)
            continue;
        begin_weight(b, &b->weights[i]);
        update_weight(b, &b->weights[i]);
    }
}
