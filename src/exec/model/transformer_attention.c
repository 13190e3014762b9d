/* SPDX-License-Identifier: Apache-2.0 */
/* transformer_attention.c - attention as ops, forward and backward.
 *
 * Without a causal mask there is one tile, of all rows and columns. With one, a row of scores has
 * as many elements as the row's place and those before it. So the rows of every sequence are cut
 * into tiles, and a tile works on the columns up to its last row's only: scores, softmax and their
 * gradients are computed, opened and dealt keys for about half of the square. In a layer of a
 * window, which only described models have, a tile's columns begin with the first that its first
 * row sees. Sums over all rows
 * (gradients by K and V) add up over tiles before their one truncation, so the tiles do not show in
 * exact results.
 *
 * The last tile comes first: it is the largest. In long contexts whose activations are not kept the
 * tiles take turns in a few sets of buffers, which makes each wait for one before; scores and
 * probabilities are then never there as a whole, in the backward pass neither, which makes them
 * again out of the greatest element and the sum of each row: two columns that are kept. */
#include "exec/model/nonlinear.h"
#include "exec/model/transformer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <uvcc/compute.h>

/* ---- tiles ---- */

typedef struct tile {
    uint32_t number, first, rows; /* rows first.. of each sequence */
    uint32_t from, cols;          /* columns from.., which its rows see, to its last row's */
    char scope[40];               /* around it */
    uvcci_tf_shelf *shelf;
} tile;

/* Names and, where tiles take turns, buffers from here on are the tile's. */
static tile begin_tile(uvcci_tf_builder *b, uint32_t number) {
    const uint32_t first = number * b->n.tile_rows, left = b->m.tokens - first;
    const uint32_t rows = left < b->n.tile_rows ? left : b->n.tile_rows;
    const uint32_t before = b->window == 0 || b->window > first ? first : b->window - 1;
    tile t = {number, first, rows, first - before, before + rows, "", b->shelf};
    assert(number < b->n.tiles && b->n.alive <= UVCCI_TF_ALIVE_MAX);
    snprintf(t.scope, sizeof t.scope, "%s", b->scope);
    const size_t len = strlen(b->scope);
    snprintf(b->scope + len, sizeof b->scope - len, "%c%u.", b->phase == UVCC_BWD ? 'b' : 't',
             number);
    if (b->n.alive != 0)
        uvcci_tf_take_shelf(b, &b->tile_shelves[number % b->n.alive]);
    return t;
}

static void end_tile(uvcci_tf_builder *b, const tile *t) {
    snprintf(b->scope, sizeof b->scope, "%s", t->scope);
    b->shelf = t->shelf;
}

/* An op on parts of all sequences' rows. */
static void rows_op(uvcci_tf_builder *b, uvcc_opcode opcode, uint32_t part, uint32_t whole,
                    uint32_t first, uint32_t out) {
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = (uint16_t)opcode,
                                  .in_count = whole == UVCC_NO_TENSOR ? 1 : 2,
                                  .in = {part, whole},
                                  .out_count = 1,
                                  .out = {out},
                                  .constant = first,
                                  .heads = 1,
                                  .row_groups = b->sequences});
}

/* Rows first .. first + rows - 1 of every sequence. */
static uint32_t rows_of(uvcci_tf_builder *b, const char *name, uint32_t x, uint32_t first,
                        uint32_t rows) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, x);
    if (b->n.tiles == 1)
        return x;
    const uint32_t z = uvcci_tf_transient(b, name, b->sequences * rows, d.cols, d.bits, d.scale);
    rows_op(b, UVCC_OP_SLICE_ROWS, x, UVCC_NO_TENSOR, first, z);
    return z;
}

/* ---- products that tiles have parts of ---- */

/* Each tile puts its rows into `sum`, or adds to the rows that it sees; then it is truncated to
 * `out`. A single tile makes `out` at once. */
typedef struct product {
    const char *part; /* name of a tile's */
    uint32_t sum, out;
    bool adds, any;
} product;

static product begin_product(uvcci_tf_builder *b, const char *const names[2], uint32_t out,
                             unsigned bits, unsigned scale, bool adds) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, out);
    product p = {.part = names[1], .out = out, .adds = adds};
    if (b->n.tiles > 1)
        p.sum = uvcci_tf_additive(b, names[0], d.rows, d.cols, bits + uvcci_tf_log2(b->m.tokens),
                                  scale);
    return p;
}

/* a y for every head: rows of the tile, or all rows up to its last. */
static void add_part(uvcci_tf_builder *b, product *p, const tile *t, uint32_t a, uint32_t y,
                     uint8_t flags) {
    if (b->n.tiles == 1) {
        uvcci_tf_product(b, a, y, p->out, flags, true);
        return;
    }
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, p->sum);
    const uint32_t part = uvcci_tf_additive(
        b, p->part, b->sequences * (p->adds ? t->cols : t->rows), d.cols, d.bits, d.scale);
    uvcci_tf_part(b, a, y, part, flags);
    rows_op(b, p->adds && p->any ? UVCC_OP_ADD_ROWS : UVCC_OP_PUT_ROWS, part,
            p->any ? p->sum : UVCC_NO_TENSOR, p->adds ? t->from : t->first, p->sum);
    p->any = true;
}

static void end_product(uvcci_tf_builder *b, const product *p) {
    if (b->n.tiles > 1)
        uvcci_tf_truncate(b, p->sum, p->out, b->truncation);
}

/* ---- forward ---- */

/* x / sqrt(head_dim), at a finer scale; x where scores are not scaled. */
static uint32_t over_root(uvcci_tf_builder *b, const char *name, uint32_t x) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, x);
    unsigned fraction;
    if (b->m.unscaled)
        return x;
    const int64_t factor = uvcci_tf_root_inverse(b->n.head_dim, &fraction);
    const uint32_t z = uvcci_tf_transient(
        b, name, d.rows, d.cols, d.bits + uvcci_tf_log2((uint64_t)factor), d.scale + fraction);
    uvcci_tf_scale(b, x, z, factor, fraction);
    return z;
}

/* What is above the diagonal of a tile's last columns goes far down, in the buffer of the scores.
 */
static uint32_t mask_causally(uvcci_tf_builder *b, uint32_t scores) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, scores);
    uint8_t bits;
    const int64_t far = uvcci_nonlinear_mask(&d, &bits);
    const uint32_t z = uvcci_tf_successor(b, "SM", scores, bits, d.scale);
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_CAUSAL_MASK,
                                  .in_count = 1,
                                  .in = {scores},
                                  .out_count = 1,
                                  .out = {z},
                                  .constant = far,
                                  .heads = (uint16_t)b->n.rank_heads,
                                  .row_groups = b->sequences,
                                  .window = b->window});
    return z;
}

/* The same for columns of no token: what is added there leaves them below all others. One sequence.
 */
static uint32_t mask_padding(uvcci_tf_builder *b, uint32_t scores) {
    const uvcc_tensor_desc far = *uvcci_tf_desc(b, b->padding); /* whose bits the sum has */
    const uint32_t z = uvcci_tf_successor(b, "SP", scores, far.bits, far.scale);
    uvcci_tf_local(b, UVCC_OP_BIAS_ADD, scores, b->padding, z);
    return z;
}

/* Of a tile; q over sqrt(head_dim). */
static uint32_t masked_scores(uvcci_tf_builder *b, const tile *t, uint32_t q, uint32_t k) {
    const uint32_t rows = b->sequences * b->n.rank_heads * t->rows;
    const uint32_t s = uvcci_tf_transient(b, "S", rows, t->cols, b->n.inner, b->n.f);
    uvcci_tf_product(b, q, k, s, UVCC_OP_TRANS_B | UVCC_OP_STACKED_C, true);
    const uint32_t masked = b->m.mask == UVCC_MODEL_MASK_CAUSAL ? mask_causally(b, s) : s;
    return b->padding != UVCC_NO_TENSOR ? mask_padding(b, masked) : masked;
}

/* Scores that are computed again come out the same only where nothing is rounded at random. */
static bool same_again(const uvcci_tf_ways *how) {
    return how->exact && how->truncation != UVCC_TRUNC_STOCHASTIC;
}

/* The columns that make a tile's probabilities again. They stay, so they have buffers of their own.
 */
static void keep_columns(uvcci_tf_builder *b, uvcci_tf_layer *l, const tile *t,
                         const uvcc_tensor_desc shape[3]) {
    uvcci_tf_shelf *shelf = b->shelf;
    b->shelf = NULL;
    l->top[t->number] =
        uvcci_tf_transient(b, "PM", shape[1].rows, 1, shape[1].bits, shape[1].scale);
    l->inverse[t->number] =
        uvcci_tf_transient(b, "PR", shape[2].rows, 1, shape[2].bits, shape[2].scale);
    b->shelf = shelf;
}

/* Probabilities from scores. */
static uint32_t softmax(uvcci_tf_builder *b, uvcci_tf_layer *l, const tile *t, uint32_t scores) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, scores);
    uvcc_nonlinear_options o = {.size = sizeof o, .exact = b->how.exact};
    uvcc_tensor_desc shape[3] = {0};
    uint32_t out[3] = {uvcci_tf_transient(b, "P", d.rows, d.cols, b->n.f + 1u, b->n.f)};
    if (b->trains && b->n.alive != 0) {
        o.saved = true;
        o.headroom = !same_again(&b->how);
        uvcci_tf_note(b, uvcci_nonlinear_output_in(b->p, UVCC_NL_SOFTMAX, &o, &d, shape));
        keep_columns(b, l, t, shape);
        out[1] = l->top[t->number];
        out[2] = l->inverse[t->number];
    }
    uvcci_tf_emit(b, UVCC_NL_SOFTMAX, o, &scores, out);
    return out[0];
}

/* The same out of the columns: exp(m - x) / sum as the function has it, in the buffers of scores
 * and probabilities. m is at most 2^-3 above a score that the mask left, so the difference has one
 * bit more than masked scores. */
static uint32_t softmax_again(uvcci_tf_builder *b, const uvcci_tf_layer *l, const tile *t,
                              uint32_t scores) {
    static const char *const names[] = {"PE"};
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, scores);
    const uint32_t below = uvcci_tf_successor(b, "T", scores, d.bits + 1u, d.scale);
    const uint32_t inverse = l->inverse[t->number];
    const uint8_t truncation = b->truncation;
    uint32_t e = 0;
    uvcci_tf_local(b, UVCC_OP_ROW_RSUB, scores, l->top[t->number], below);
    uvcci_tf_function(b, UVCC_NL_EXP,
                      (uvcc_nonlinear_options){.out_scale = UVCC_NL_SOFTMAX_EXP_SCALE}, &below,
                      names, &e);
    const uint32_t p = uvcci_tf_successor(b, "P", e, b->n.f + 1u, b->n.f);
    b->truncation = b->how.exact ? uvcci_tf_exact(b) : UVCC_TRUNC_STOCHASTIC;
    uvcci_tf_times_within(b, UVCC_OP_ROW_MUL, e, inverse, p,
                          uvcci_tf_desc(b, e)->scale + uvcci_tf_desc(b, inverse)->scale + 1u);
    b->truncation = truncation;
    return p;
}

void uvcci_tf_attention(uvcci_tf_builder *b, uvcci_tf_layer *l) {
    static const char *const names[2] = {"O.sum", "O.part"};
    const uvcci_tf_numbers *n = &b->n;
    const uint32_t q = over_root(b, "QS", l->q);
    l->o = uvcci_tf_values(b, "O", b->rows, n->rank_dim);
    product o = begin_product(b, names, l->o, n->f + 1u + uvcci_tf_desc(b, l->v)->bits,
                              n->f + uvcci_tf_desc(b, l->v)->scale, false);
    for (uint32_t i = n->tiles; i-- > 0;) {
        const tile t = begin_tile(b, i);
        const uint32_t qt = rows_of(b, "QT", q, t.first, t.rows);
        const uint32_t scores = masked_scores(b, &t, qt, rows_of(b, "KT", l->k, t.from, t.cols));
        l->p[i] = softmax(b, l, &t, scores);
        add_part(b, &o, &t, l->p[i], rows_of(b, "VT", l->v, t.from, t.cols), UVCC_OP_STACKED_A);
        end_tile(b, &t);
    }
    end_product(b, &o);
}

/* ---- backward ---- */

/* The other factor of the scores in a product that gives a gradient. Over sqrt(head_dim) it is free
 * of charge for powers of 4. */
static uint32_t factor_of_scores(uvcci_tf_builder *b, const char *name, uint32_t x) {
    unsigned fraction;
    return uvcci_tf_root_inverse(b->n.head_dim, &fraction) == 1 ? over_root(b, name, x) : x;
}

/* A gradient by Q or K, which is at first one by it over sqrt(head_dim) unless that is a power
 * of 2. */
typedef struct from_scores {
    const char *finer; /* name of what is truncated to the result then */
    uint32_t result;
    product p;
} from_scores;

/* names: the result, the sum over tiles, a tile's part, what is finer than the result. */
static from_scores begin_from_scores(uvcci_tf_builder *b, const char *const names[4], uint32_t x,
                                     bool adds) {
    const uvcci_tf_numbers *n = &b->n;
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, x);
    unsigned fraction;
    from_scores f = {names[3], uvcci_tf_gradients(b, names[0], d.rows, d.cols, 0), {0}};
    uint32_t out = f.result;
    if (uvcci_tf_root_inverse(n->head_dim, &fraction) != 1)
        out = uvcci_tf_temporary(b, d.rows, d.cols,
                                 n->gradient + (uvcci_tf_log2(n->head_dim) + 1) / 2,
                                 n->gradient_scale);
    f.p = begin_product(b, names + 1, out, n->gradient + UVCCI_TF_GRADIENT_MORE + d.bits,
                        n->gradient_scale + d.scale, adds);
    return f;
}

static uint32_t end_from_scores(uvcci_tf_builder *b, const from_scores *f) {
    end_product(b, &f->p);
    if (f->p.out != f->result)
        uvcci_tf_truncate(b, over_root(b, f->finer, f->p.out), f->result, b->truncation);
    return f->result;
}

/* What the tiles of a backward pass read and make. */
typedef struct backward {
    const uvcci_tf_layer *l;
    uint32_t go, q;        /* gradient by the output; Q over sqrt(head_dim), if P was not kept */
    uint32_t for_q, for_k; /* factors of the gradients by Q and K */
    from_scores dq, dk;
    product dv;
} backward;

/* The softmax: p (gp - the row's p gp). */
static void through_softmax(uvcci_tf_builder *b, uint32_t p, uint32_t gp) {
    const uint32_t dot =
        uvcci_tf_gradients(b, "DD", uvcci_tf_desc(b, p)->rows, 1, UVCCI_TF_GRADIENT_MORE);
    uvcci_tf_times(b, UVCC_OP_ROW_DOT, gp, p, dot, 1, 0);
    uvcci_tf_local(b, UVCC_OP_ROW_SUB, gp, dot, gp);
    uvcci_tf_times(b, UVCC_OP_ELEM_MUL, gp, p, gp, 0, 0);
}

static void through_tile(uvcci_tf_builder *b, backward *w, uint32_t number) {
    const tile t = begin_tile(b, number);
    const uvcci_tf_layer *l = w->l;
    uint32_t p = l->p[number];
    if (b->n.alive != 0)
        p = softmax_again(b, l, &t,
                          masked_scores(b, &t, rows_of(b, "QT", w->q, t.first, t.rows),
                                        rows_of(b, "KT", l->k, t.from, t.cols)));
    const uint32_t go = rows_of(b, "DOT", w->go, t.first, t.rows);
    const uint32_t g =
        uvcci_tf_gradients(b, "DS", uvcci_tf_desc(b, p)->rows, t.cols, UVCCI_TF_GRADIENT_MORE);
    uvcci_tf_product(b, go, rows_of(b, "VT", l->v, t.from, t.cols), g,
                     UVCC_OP_TRANS_B | UVCC_OP_STACKED_C, true);
    add_part(b, &w->dv, &t, p, go, UVCC_OP_TRANS_A | UVCC_OP_STACKED_A);
    through_softmax(b, p, g);
    add_part(b, &w->dq.p, &t, g, rows_of(b, "KF", w->for_q, t.from, t.cols), UVCC_OP_STACKED_A);
    add_part(b, &w->dk.p, &t, g, rows_of(b, "QF", w->for_k, t.first, t.rows),
             UVCC_OP_TRANS_A | UVCC_OP_STACKED_A);
    end_tile(b, &t);
}

void uvcci_tf_through_attention(uvcci_tf_builder *b, const uvcci_tf_layer *l, uint32_t go,
                                uint32_t out[3]) {
    static const char *const dv[2] = {"DV.sum", "DV.part"};
    static const char *const dq[4] = {"DQ", "DQ.sum", "DQ.part", "DQ.finer"};
    static const char *const dk[4] = {"DK", "DK.sum", "DK.part", "DK.finer"};
    const uvcci_tf_numbers *n = &b->n;
    backward w = {.l = l, .go = go};
    w.for_q = factor_of_scores(b, "SK", l->k);
    w.for_k = factor_of_scores(b, "SQ", l->q);
    if (b->n.alive != 0)
        w.q = w.for_k != l->q ? w.for_k : over_root(b, "SQ", l->q);
    w.dq = begin_from_scores(b, dq, w.for_q, false);
    w.dk = begin_from_scores(b, dk, w.for_k, true);
    out[2] = uvcci_tf_gradients(b, "DV", b->rows, n->rank_dim, 0);
    w.dv = begin_product(b, dv, out[2], n->f + 1u + n->gradient, n->f + n->gradient_scale, true);
    for (uint32_t i = n->tiles; i-- > 0;)
        through_tile(b, &w, i);
    end_product(b, &w.dv);
    out[0] = end_from_scores(b, &w.dq);
    out[1] = end_from_scores(b, &w.dk);
}

/* ---- heads ---- */

/* Each head of keys or values is that of several queries: their gradients add up, in a product with
 * a public matrix of 0 and 1. */
static uint32_t fold_heads(uvcci_tf_builder *b, const char *name, uint32_t g) {
    const uint32_t head = b->n.head_dim, kv_heads = uvcci_model_kv_heads(&b->m);
    const uint32_t rows = b->n.rank_dim, cols = kv_heads * head, each = b->m.heads / kv_heads;
    const size_t bytes = (size_t)rows * cols * sizeof(int64_t);
    if (each == 1 || b->err != 0)
        return g;
    int64_t *m = b->al->alloc(b->al->user, bytes, UVCC_MEM_STATE);
    if (m == NULL) {
        uvcci_tf_note(b, UVCC_ERR_NOMEM);
        return g;
    }
    memset(m, 0, bytes);
    for (uint32_t r = 0; r < rows; r++)
        m[(size_t)r * cols + r / head / each * head + r % head] = 1;
    const uint32_t fold =
        uvcci_tf_constant(b, "FOLD", (uvcc_tensor_desc){.rows = rows, .cols = cols, .bits = 1}, m);
    b->al->free(b->al->user, m, bytes, UVCC_MEM_STATE);
    const unsigned more = uvcci_tf_log2(rows) + 1;
    const uint32_t z = uvcci_tf_gradients(b, name, b->rows, cols, more);
    uvcci_tf_product(b, g, fold, z, 0, false);
    return z;
}

/* The transpose of a turn is the turn back. */
static uint32_t turn_back(uvcci_tf_builder *b, const char *const names[2], uint32_t g) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, g), table = *uvcci_tf_desc(b, b->unrotary);
    if (b->m.positions != UVCC_MODEL_POSITIONS_ROTARY)
        return g;
    const unsigned bits = d.bits + table.scale + 1u;
    const uint32_t turned =
        uvcci_tf_transient(b, names[0], d.rows, d.cols, bits, d.scale + (unsigned)table.scale);
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_ROTATE,
                                  .in_count = 2,
                                  .in = {g, b->unrotary},
                                  .out_count = 1,
                                  .out = {turned},
                                  .flags = UVCC_OP_WITHIN});
    const uint32_t z = uvcci_tf_transient(b, names[1], d.rows, d.cols, d.bits, d.scale);
    uvcci_tf_truncate(b, turned, z, b->truncation);
    return z;
}

void uvcci_tf_through_heads(uvcci_tf_builder *b, uint32_t d[3]) {
    static const char *const q[2] = {"DQ.turned", "DQ.plain"};
    static const char *const k[2] = {"DK.turned", "DK.plain"};
    d[1] = fold_heads(b, "DK.heads", d[1]);
    d[2] = fold_heads(b, "DV.heads", d[2]);
    d[0] = turn_back(b, q, d[0]);
    d[1] = turn_back(b, k, d[1]);
}
