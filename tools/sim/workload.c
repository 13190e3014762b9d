/* SPDX-License-Identifier: Apache-2.0 */
/* workload.c - small random programs, their inputs, and what the plaintext reference makes of them.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/mlp.h>

enum { SCALE = 6, VALUES_MAX = 12, BITS_MAX = 45, ACC_BITS = 36, DIM_MAX = 70 };
enum { RANDOM_BITS = 20, RANDOM_OUTPUT = 300, RANDOMS_MAX = 3 };

typedef struct value {
    uint32_t tensor, rows, cols;
    unsigned bits;
} value;

typedef struct builder {
    uvcc_program *p;
    sim_random r;
    value v[VALUES_MAX];
    unsigned count;
    uint16_t k;
    bool ok, stochastic;
    sim_random checks; /* of products, a stream of their own */
    sim_random functions, randoms;
    uvcc_op_desc check[VALUES_MAX];
    unsigned check_count;
} builder;

size_t sim_elems(const sim_workload *w, uint32_t tensor) {
    const uvcc_tensor_desc *t = uvcc_program_tensor_at(w->program, tensor);
    return (size_t)t->rows * t->cols;
}

static unsigned pick(builder *b, unsigned n) {
    return (unsigned)sim_below(&b->r, n);
}

static uint32_t tensor(builder *b, const char *name, uint32_t rows, uint32_t cols, unsigned bits,
                       unsigned scale, uint8_t lifetime) {
    uvcc_tensor_desc d = {.name = name,
                          .rows = rows,
                          .cols = cols,
                          .bits = (uint8_t)bits,
                          .scale = (uint8_t)scale,
                          .lifetime = lifetime,
                          .in_buffer_of = UVCC_NO_TENSOR};
    int rc = uvcc_program_tensor(b->p, &d);
    b->ok &= rc >= 0;
    return rc >= 0 ? (uint32_t)rc : 0;
}

static value *new_value(builder *b, uint32_t rows, uint32_t cols, unsigned bits) {
    char name[16];
    (void)snprintf(name, sizeof name, "t%u", b->count);
    value *v = &b->v[b->count++];
    *v = (value){.rows = rows, .cols = cols, .bits = bits};
    v->tensor = tensor(b, name, rows, cols, bits, SCALE, UVCC_TRANSIENT);
    return v;
}

static void truncated(builder *b, uvcc_op_desc *d) {
    d->lift = (uint8_t)pick(b, 3);
    d->truncation = b->stochastic && pick(b, 2) == 0 ? UVCC_TRUNC_STOCHASTIC
                    : b->k % 2 == 0                  ? UVCC_TRUNC_EXACT_DCF
                                                     : UVCC_TRUNC_EXACT;
}

/* Half of the products of two secrets, some of them in tiles of one or two rows, or groups of rows,
 * of the result, which has `rows` at most. */
static void on_triple(builder *b, uvcc_op_desc *d, uint32_t rows) {
    const uint32_t unit = d->heads == 0 ? 1 : rows / d->row_groups, n = d->k % 3;
    if ((d->opcode != UVCC_OP_GEMM_SS && d->opcode != UVCC_OP_ELEM_MUL) || pick(b, 2) == 0)
        return;
    d->flags |= UVCC_OP_BEAVER;
    if (n != 0 && rows / unit / n < UVCC_TILES_MAX)
        d->tile_rows = n * unit;
}

static void add_op(builder *b, uint16_t opcode, const value *x, const value *y, uint32_t out,
                   uint8_t shift, uint8_t flags) {
    uvcc_op_desc d = {.opcode = opcode,
                      .k = b->k++,
                      .in_count = y != NULL ? 2 : 1,
                      .out_count = 1,
                      .in = {x->tensor, y != NULL ? y->tensor : UVCC_NO_TENSOR},
                      .out = {out},
                      .shift = shift,
                      .flags = flags};
    on_triple(b, &d, x->rows > x->cols ? x->rows : x->cols);
    if (shift != 0)
        truncated(b, &d);
    b->ok &= uvcc_program_op(b->p, &d) >= 0;
}

static unsigned log2_up(uint32_t n) {
    unsigned bits = 0;
    while ((UINT64_C(1) << bits) < n)
        bits++;
    return bits;
}

/* A product of matrices or of blocks: its shape, and what is summed in an element. */
typedef struct product {
    uint8_t flags;
    uint16_t heads;
    uint32_t groups, rows, cols, depth;
} product;

/* Whether x and y multiply with these flags and blocks (heads 0: none). */
static bool product_fits(const value *x, const value *y, product *p) {
    const uint32_t g = p->heads == 0 ? 1 : p->groups, h = p->heads == 0 ? 1 : p->heads;
    const bool ta = p->flags & UVCC_OP_TRANS_A, tb = p->flags & UVCC_OP_TRANS_B;
    const uint32_t x_across = p->flags & UVCC_OP_STACKED_A ? 1 : h, x_down = g * h / x_across;
    const uint32_t y_across = p->flags & UVCC_OP_STACKED_B ? 1 : h, y_down = g * h / y_across;
    if (x->rows % x_down != 0 || x->cols % x_across != 0 || y->rows % y_down != 0 ||
        y->cols % y_across != 0)
        return false;
    const uint32_t xr = x->rows / x_down, xc = x->cols / x_across;
    const uint32_t yr = y->rows / y_down, yc = y->cols / y_across;
    const uint32_t m = ta ? xc : xr, n = tb ? yr : yc;
    const bool stacked = p->flags & UVCC_OP_STACKED_C;
    p->depth = ta ? xr : xc;
    p->rows = stacked ? g * h * m : g * m;
    p->cols = stacked ? n : h * n;
    return p->depth == (tb ? yc : yr);
}

static void add_product(builder *b, uint16_t opcode, const value *x, const value *y,
                        const product *p, uint32_t sum, uint32_t out, uint8_t shift) {
    uvcc_op_desc d = {.opcode = opcode,
                      .k = b->k++,
                      .in_count = sum == UVCC_NO_TENSOR ? 2 : 3,
                      .out_count = 1,
                      .in = {x->tensor, y->tensor, sum},
                      .out = {out},
                      .shift = shift,
                      .flags = p->flags,
                      .heads = p->heads,
                      .row_groups = p->groups};
    on_triple(b, &d, p->rows);
    if (shift != 0)
        truncated(b, &d);
    b->ok &= uvcc_program_op(b->p, &d) >= 0;
}

/* The product twice into one additive tensor, which is then truncated, or reshared and truncated.
 */
static void add_sum(builder *b, const value *x, const value *y, const product *p, unsigned bits) {
    char name[16];
    (void)snprintf(name, sizeof name, "s%u", b->count);
    uvcc_tensor_desc d = {.name = name,
                          .rows = p->rows,
                          .cols = p->cols,
                          .bits = (uint8_t)(bits + 1),
                          .scale = 2 * SCALE,
                          .lifetime = UVCC_TRANSIENT,
                          .in_buffer_of = UVCC_NO_TENSOR,
                          .sharing = UVCC_ADDITIVE};
    int rc = uvcc_program_tensor(b->p, &d);
    b->ok &= rc >= 0;
    value sum = {.tensor = rc >= 0 ? (uint32_t)rc : 0};
    add_product(b, UVCC_OP_GEMM_PART, x, y, p, UVCC_NO_TENSOR, sum.tensor, 0);
    add_product(b, UVCC_OP_GEMM_PART, x, y, p, sum.tensor, sum.tensor, 0);
    if (pick(b, 2) != 0) {
        (void)snprintf(name, sizeof name, "w%u", b->count);
        value whole = {.tensor =
                           tensor(b, name, p->rows, p->cols, bits + 1, 2 * SCALE, UVCC_TRANSIENT)};
        add_op(b, UVCC_OP_RESHARE, &sum, NULL, whole.tensor, 0, 0);
        sum = whole;
    }
    value *out = new_value(b, p->rows, p->cols, bits - SCALE + 2);
    add_op(b, UVCC_OP_TRUNCATE, &sum, NULL, out->tensor, SCALE, 0);
}

/* The product untruncated, checked, then truncated; the check ends with the step. */
static void add_checked(builder *b, const value *x, const value *y, const value *out, unsigned bits,
                        uint8_t flags) {
    static const uint16_t permille[] = {1000, 500, 0};
    char name[16];
    (void)snprintf(name, sizeof name, "c%u", b->count);
    const value whole = {
        .tensor = tensor(b, name, out->rows, out->cols, bits, 2 * SCALE, UVCC_TRANSIENT)};
    add_op(b, UVCC_OP_GEMM_SS, x, y, whole.tensor, 0, flags);
    uvcc_op_desc op = {.opcode = UVCC_OP_SKS_START,
                       .k = b->k++,
                       .in_count = 3,
                       .in = {x->tensor, y->tensor, whole.tensor},
                       .flags = flags,
                       .constant = permille[sim_below(&b->checks, 3)]};
    b->ok &= uvcc_program_op(b->p, &op) >= 0;
    add_op(b, UVCC_OP_TRUNCATE, &whole, NULL, out->tensor, SCALE, 0);
    op.opcode = UVCC_OP_SKS_GEMM_CHECK;
    op.phase = UVCC_UPD;
    op.k = (uint16_t)b->check_count;
    op.flags = 0;
    op.constant = 0;
    b->check[b->check_count++] = op;
}

static void grow_product(builder *b, const value *x, const value *y) {
    enum { WAYS = 32 };
    const unsigned first = pick(b, WAYS);
    product p = {0};
    if (pick(b, 2) != 0) {
        p.heads = (uint16_t)(1 + pick(b, 2));
        p.groups = 1 + pick(b, 2);
    }
    for (unsigned i = 0; i < WAYS; i++) { /* any way that fits */
        const unsigned way = (first + i) % WAYS;
        p.flags = (uint8_t)(way % 4 | way / 4 * UVCC_OP_STACKED_A);
        if (p.heads == 0)
            p.flags &= UVCC_OP_TRANS_A | UVCC_OP_TRANS_B;
        if (x->tensor == y->tensor || !product_fits(x, y, &p))
            continue;
        const unsigned bits = x->bits + y->bits + log2_up(p.depth);
        if (bits >= BITS_MAX)
            continue;
        if (p.heads == 0 && sim_below(&b->checks, 4) == 0)
            add_checked(b, x, y, new_value(b, p.rows, p.cols, bits - SCALE + 1), bits, p.flags);
        else if (pick(b, 3) == 0)
            add_sum(b, x, y, &p, bits);
        else
            add_product(b, UVCC_OP_GEMM_SS, x, y, &p, UVCC_NO_TENSOR,
                        new_value(b, p.rows, p.cols, bits - SCALE + 1)->tensor, SCALE);
        return;
    }
}

static void grow_relu(builder *b, const value *x) {
    char name[16];
    value *y = new_value(b, x->rows, x->cols, x->bits);
    (void)snprintf(name, sizeof name, "d%u", b->count);
    uvcc_op_desc op = {.opcode = UVCC_OP_RELU,
                       .k = b->k++,
                       .in_count = 1,
                       .out_count = 2,
                       .in = {x->tensor},
                       .out = {y->tensor, tensor(b, name, x->rows, x->cols, 1, 0, UVCC_TRANSIENT)},
                       .lift = (uint8_t)pick(b, 3)};
    if (pick(b, 2) != 0)
        op.flags = UVCC_OP_CIRCUIT;
    b->ok &= uvcc_program_op(b->p, &op) >= 0;
}

/* Functions that grow_function() takes one of, each at most FN_STEPS steps. The first step opens x,
 * the last one lifts the result or exchanges it (`next`); `bits` is what a key compares. */
enum { FN_STEPS = 14 };
static const int32_t fn_entries[] = {5, -77, 1 << 20, 3};
static const int64_t fn_zero[] = {0}, fn_far[] = {-3, 40};

/* A table's value plus x times a bit on one key. */
static uint32_t element_steps(uvcc_fn_instr out[FN_STEPS], uint8_t bits, uint8_t next) {
    const uvcc_fn_instr element[] = {
        {.kind = UVCC_FN_OPEN, .bits = 64},
        {.kind = UVCC_FN_COMPARE, .bits = bits, .word_count = 2, .words = fn_far},
        {.kind = UVCC_FN_TABLE,
         .b = UVCC_FN_NONE,
         .bits = bits,
         .first = -2,
         .entry_count = 4,
         .entries = fn_entries},
        {.kind = UVCC_FN_SELECT, .a = 1, .b = 0, .word_count = 2, .words = fn_far},
        {.kind = UVCC_FN_ADD, .a = 2, .b = 3},
        {.kind = UVCC_FN_ADD, .a = 4, .b = 0},
        {.kind = next, .a = 5},
    };
    memcpy(out, element, sizeof element);
    return sizeof element / sizeof element[0];
}

/* x and what a spline makes of it, scaled back. */
static uint32_t scaled_steps(uvcc_fn_instr out[FN_STEPS], uint8_t bits, uint8_t next) {
    static const int64_t pieces[] = {-3, 40, 0, 1, 5, -1, -9, 2};
    const uvcc_fn_instr scaled[] = {
        {.kind = UVCC_FN_OPEN, .bits = 64},
        {.kind = UVCC_FN_SPLINE, .bits = bits, .first = 1, .word_count = 8, .words = pieces},
        {.kind = UVCC_FN_ADD, .a = 1, .b = 0},
        {.kind = UVCC_FN_EXCHANGE, .a = 2, .io = UVCC_FN_NONE},
        {.kind = UVCC_FN_FLOOR, .a = 3, .shift = 2},
        {.kind = UVCC_FN_ADD, .a = 4, .b = 3},
        {.kind = next, .a = 5},
    };
    memcpy(out, scaled, sizeof scaled);
    return sizeof scaled / sizeof scaled[0];
}

/* Tables of an exact index. */
static uint32_t exact_steps(uvcc_fn_instr out[FN_STEPS], uint8_t bits, uint8_t next) {
    /* what the table rises by, and [index >= 0] by the rounded one */
    static const int32_t rises[] = {5, -82, 77};
    static const int64_t ends[] = {0, 1}, between[] = {1, -1};
    const uvcc_fn_instr exact[] = {
        {.kind = UVCC_FN_OPEN, .bits = 64},
        {.kind = UVCC_FN_SHIFT, .shift = 2},
        {.kind = UVCC_FN_LOW, .bits = 2},
        {.kind = UVCC_FN_COMPARE, .a = 2, .bits = 2, .word_count = 1, .words = fn_zero},
        {.kind = UVCC_FN_TABLE,
         .a = 2,
         .b = UVCC_FN_NONE,
         .bits = 2,
         .entry_count = 4,
         .entries = fn_entries},
        {.kind = UVCC_FN_TABLE_MUL,
         .a = 1,
         .b = UVCC_FN_NONE,
         .c = 4,
         .bits = bits,
         .first = 1,
         .entry_count = 2,
         .entries = fn_entries},
        {.kind = UVCC_FN_TABLE_MUL,
         .a = 1,
         .b = 3,
         .c = 4,
         .bits = bits,
         .first = 0,
         .entry_count = 3,
         .entries = rises},
        {.kind = UVCC_FN_COMPARE, .a = 1, .bits = bits, .word_count = 2, .words = ends},
        {.kind = UVCC_FN_SELECT, .a = 7, .b = 0, .word_count = 2, .words = ends},
        {.kind = UVCC_FN_SELECT_MUL, .a = 7, .b = 0, .c = 3, .word_count = 2, .words = between},
        {.kind = UVCC_FN_ADD, .a = 5, .b = 6},
        {.kind = UVCC_FN_ADD, .a = 8, .b = 9},
        {.kind = UVCC_FN_ADD, .a = 10, .b = 11},
        {.kind = next, .a = 12},
    };
    _Static_assert(sizeof exact / sizeof exact[0] <= FN_STEPS, "FN_STEPS");
    memcpy(out, exact, sizeof exact);
    return sizeof exact / sizeof exact[0];
}

/* For rows of several columns: the greatest. */
static uint32_t pairs_steps(uvcc_fn_instr out[FN_STEPS], uint8_t bits, uint8_t next) {
    static const int64_t one[] = {1};
    const uvcc_fn_instr pairs[] = {
        {.kind = UVCC_FN_OPEN, .bits = 64},
        {.kind = UVCC_FN_PAIR_DIFF},
        {.kind = UVCC_FN_PAIR_SECOND},
        {.kind = UVCC_FN_COMPARE, .a = 1, .bits = bits, .word_count = 1, .words = fn_zero},
        {.kind = UVCC_FN_SELECT, .a = 3, .b = 1, .word_count = 1, .words = one},
        {.kind = UVCC_FN_ADD, .a = 4, .b = 2},
        {.kind = next, .a = 5},
    };
    memcpy(out, pairs, sizeof pairs);
    return sizeof pairs / sizeof pairs[0];
}

/* Two products, one behind the other. */
static uint32_t product_steps(uvcc_fn_instr out[FN_STEPS], uint8_t bits, uint8_t next) {
    const uvcc_fn_instr products[] = {
        {.kind = UVCC_FN_OPEN, .bits = 64},    {.kind = UVCC_FN_MUL},  {.kind = UVCC_FN_MUL},
        {.kind = UVCC_FN_ADD, .a = 1, .b = 2}, {.kind = next, .a = 3},
    };
    (void)bits;
    memcpy(out, products, sizeof products);
    return sizeof products / sizeof products[0];
}

/* The greatest of each four columns. */
static uint32_t quad_steps(uvcc_fn_instr out[FN_STEPS], uint8_t bits, uint8_t next) {
    const uvcc_fn_instr quads[] = {
        {.kind = UVCC_FN_OPEN, .bits = 64},
        {.kind = UVCC_FN_QUAD_DIFF},
        {.kind = UVCC_FN_COMPARE, .a = 1, .bits = bits, .word_count = 1, .words = fn_zero},
        {.kind = UVCC_FN_QUAD_LAST},
        {.kind = UVCC_FN_QUAD_BEST, .a = 2, .b = 1},
        {.kind = UVCC_FN_ADD, .a = 4, .b = 3},
        {.kind = next, .a = 5},
    };
    memcpy(out, quads, sizeof quads);
    return sizeof quads / sizeof quads[0];
}

/* A comparison, a table of several scales and a truncation: stochastic. */
static uint32_t scales_steps(uvcc_fn_instr out[FN_STEPS], uint8_t bits, uint8_t next) {
    enum { FINEST = 2, FIRST = 4, SCALES = 10, WORDS = 9 * FIRST };
    static const int64_t words[WORDS * SCALES] = {3, -1, 4, 1, -5, 9, 2, 6, -5, 3, 5};
    uint8_t scales = 1; /* until the last one has them all: 4 FIRST 2^(FINEST + 2 scales - 2) */
    while (scales < SCALES && 4 + FINEST + 2 * scales - 2 < bits)
        scales++;
    const uvcc_fn_instr steps[] = {
        {.kind = UVCC_FN_OPEN, .bits = 64},
        {.kind = UVCC_FN_COMPARE, .bits = bits, .word_count = 1, .words = fn_zero},
        {.kind = UVCC_FN_MULTISCALE,
         .bits = (uint8_t)(2 * scales + 4),
         .shift = FINEST,
         .first = FIRST,
         .constant = 7,
         .word_count = WORDS * scales,
         .words = words},
        {.kind = UVCC_FN_BITS, .a = 1, .word_count = 1, .words = fn_far},
        {.kind = UVCC_FN_TRUNC, .shift = 2},
        {.kind = UVCC_FN_ADD, .a = 2, .b = 3},
        {.kind = UVCC_FN_ADD, .a = 4, .b = 5},
        {.kind = next, .a = 6},
    };
    memcpy(out, steps, sizeof steps);
    return sizeof steps / sizeof steps[0];
}

typedef uint32_t (*function_steps)(uvcc_fn_instr *, uint8_t, uint8_t);

/* In half of the functions one of the rarer, drawn apart so that the other half stays as it was. */
static function_steps rarer(builder *b, const value *x, function_steps usual) {
    switch (sim_below(&b->functions, 6)) {
    case 0:
        return product_steps;
    case 1:
        return x->cols > 1 ? quad_steps : usual;
    case 2:
        return b->stochastic ? scales_steps : usual;
    default:
        return usual;
    }
}

static void grow_function(builder *b, const value *x) {
    static const function_steps kinds[] = {element_steps, scaled_steps, exact_steps};
    const uint8_t bits = (uint8_t)(x->bits + 1),
                  next = pick(b, 2) != 0 ? UVCC_FN_LIFT : UVCC_FN_EXCHANGE;
    const bool in_pairs = x->cols > 1 && pick(b, 2) != 0;
    uvcc_fn_instr steps[FN_STEPS];
    const uint32_t count = rarer(b, x, in_pairs ? pairs_steps : kinds[b->k % 3])(steps, bits, next);
    const uvcc_function f = {
        .name = "f", .inputs = 1, .outputs = 1, .instr_count = (uint8_t)count, .instrs = steps};
    const uint8_t in_bits = (uint8_t)x->bits;
    uint8_t out_bits;
    if (uvcc_function_check(&f, x->cols, &in_bits, &out_bits, NULL, 0) != 0 || out_bits > BITS_MAX)
        return;
    const value *out = new_value(b, x->rows, uvcc_function_cols(&f, x->cols, 0), out_bits);
    const int index = uvcc_program_function(b->p, &f);
    uvcc_op_desc op = {.opcode = UVCC_OP_FUNCTION,
                       .function = (uint16_t)(index >= 0 ? index : 0),
                       .k = b->k++,
                       .in_count = 1,
                       .out_count = 1,
                       .in = {x->tensor},
                       .out = {out->tensor}};
    b->ok &= index >= 0 && uvcc_program_op(b->p, &op) >= 0;
}

/* An op that does not fit what was drawn is left out: forcing it would make all programs alike. */
static void grow(builder *b) {
    value x = b->v[pick(b, b->count)], y = b->v[pick(b, b->count)], *out;
    unsigned wide = (x.bits > y.bits ? x.bits : y.bits) + 1;
    bool same = x.rows == y.rows && x.cols == y.cols;
    switch (pick(b, 8)) {
    case 0:
    case 1:
        grow_product(b, &x, &y);
        break;
    case 2:
        if (same && x.bits + y.bits < BITS_MAX) {
            out = new_value(b, x.rows, x.cols, x.bits + y.bits - SCALE + 1);
            add_op(b, UVCC_OP_ELEM_MUL, &x, &y, out->tensor, SCALE, 0);
        }
        break;
    case 3:
        if (same && wide < BITS_MAX) {
            out = new_value(b, x.rows, x.cols, wide);
            add_op(b, pick(b, 2) != 0 ? UVCC_OP_ADD : UVCC_OP_SUB, &x, &y, out->tensor, 0, 0);
        }
        break;
    case 4:
        if (x.bits + log2_up(x.rows) < BITS_MAX) {
            out = new_value(b, 1, x.cols, x.bits + log2_up(x.rows));
            add_op(b, UVCC_OP_REDUCE_BIAS_GRAD, &x, NULL, out->tensor, 0, 0);
        }
        break;
    case 5:
        grow_function(b, &x);
        break;
    default:
        grow_relu(b, &x);
        break;
    }
}

/* Words R that nobody chooses, opened, and (x + R) - R: the reference, where R is 0, has x. */
static void add_random(builder *b, const value *x, unsigned i) {
    char name[16];
    value r = *x, y = *x, z = *x;
    r.bits = RANDOM_BITS + 2;
    y.bits = (x->bits > r.bits ? x->bits : r.bits) + 1;
    z.bits = y.bits + 1;
    (void)snprintf(name, sizeof name, "R%u", i);
    r.tensor = tensor(b, name, r.rows, r.cols, r.bits, SCALE, UVCC_TRANSIENT);
    (void)snprintf(name, sizeof name, "xR%u", i);
    y.tensor = tensor(b, name, y.rows, y.cols, y.bits, SCALE, UVCC_TRANSIENT);
    (void)snprintf(name, sizeof name, "xR_R%u", i);
    z.tensor = tensor(b, name, z.rows, z.cols, z.bits, SCALE, UVCC_TRANSIENT);
    const uvcc_op_desc d = {.opcode = UVCC_OP_RANDOM,
                            .k = b->k++,
                            .out_count = 1,
                            .out = {r.tensor},
                            .shift = RANDOM_BITS};
    b->ok &= uvcc_program_op(b->p, &d) >= 0;
    add_op(b, UVCC_OP_ADD, x, &r, y.tensor, 0, 0);
    add_op(b, UVCC_OP_SUB, &y, &r, z.tensor, 0, 0);
    b->ok &= uvcc_program_output(b->p, RANDOM_OUTPUT + i, r.tensor) >= 0;
    b->ok &= uvcc_program_output(b->p, RANDOM_OUTPUT + RANDOMS_MAX + i, z.tensor) >= 0;
}

/* An entry of random ops; a PERSIST sum of one of the inputs carries state from step to step. */
static void random_program(builder *b) {
    uint32_t dim[3] = {1, 1 + pick(b, 4), 1 + pick(b, pick(b, 12) == 0 ? DIM_MAX : 8)};
    b->ok &= uvcc_program_entry(b->p, "run") >= 0;
    for (unsigned i = 0; i < 3; i++) {
        value *v = new_value(b, dim[pick(b, 3)], dim[pick(b, 3)], 8 + pick(b, 5));
        b->ok &= uvcc_program_input(b->p, 1 + i, v->tensor, (uint8_t)pick(b, 3)) >= 0;
    }
    for (unsigned tries = 3 + pick(b, 10); tries > 0 && b->count < VALUES_MAX - 1; tries--)
        grow(b);
    value x = b->v[0];
    if (sim_below(&b->randoms, 3) == 0)
        for (unsigned i = 0, n = 1 + (unsigned)sim_below(&b->randoms, RANDOMS_MAX); i < n; i++)
            add_random(b, &x, i);
    value sum = {.tensor = tensor(b, "sum", x.rows, x.cols, ACC_BITS, SCALE, UVCC_PERSIST)};
    for (unsigned i = 0; i < b->check_count; i++)
        b->ok &= uvcc_program_op(b->p, &b->check[i]) >= 0;
    uvcc_op_desc d = {.opcode = UVCC_OP_ADD,
                      .phase = UVCC_UPD,
                      .k = (uint16_t)b->check_count,
                      .in_count = 2,
                      .out_count = 1,
                      .in = {sum.tensor, x.tensor},
                      .out = {sum.tensor}};
    b->ok &= uvcc_program_op(b->p, &d) >= 0;
    b->ok &= uvcc_program_output(b->p, 99, sum.tensor) >= 0;
    for (unsigned i = 0; i < b->count; i++) {
        const unsigned to = (i + b->count) % 6; /* half of them to one party */
        b->ok &=
            (to < UVCC_PARTIES ? uvcc_program_output_to(b->p, 100 + i, b->v[i].tensor, (uint8_t)to)
                               : uvcc_program_output(b->p, 100 + i, b->v[i].tensor)) >= 0;
    }
}

static void values(sim_random *r, int64_t *v, size_t n, unsigned bits) {
    for (size_t i = 0; i < n; i++)
        v[i] = (int64_t)(sim_next(r) >> (63 - bits)) - (INT64_C(1) << bits);
}

/* A perceptron beside the random programs: long chains of dependent ops, and state over steps. */
static bool draw_mlp(sim_workload *w, builder *b, uint64_t seed, const uvcc_allocator *al,
                     char *why, size_t cap) {
    uvcc_mlp_config c = {.features = 2 + pick(b, 4),
                         .classes = 2 + pick(b, 2),
                         .hidden_count = 1 + pick(b, 2),
                         .hidden = {2 + pick(b, 4), 3},
                         .batch = 2u << pick(b, 2),
                         .lr_shift = 3,
                         .frac_bits = 8,
                         .truncation = b->stochastic ? UVCC_TRUNC_STOCHASTIC : UVCC_TRUNC_EXACT,
                         .lift = (uint8_t)pick(b, 3),
                         .products = (uint8_t)pick(b, 2),
                         .x_owner = (uint8_t)pick(b, 3),
                         .y_owner = (uint8_t)pick(b, 3)};
    if (!b->stochastic && c.features % 2 == 0)
        c.truncation = UVCC_TRUNC_EXACT_DCF;
    if (uvcc_mlp_program(&w->program, &c, al, why, cap) != 0)
        return false;
    for (uint32_t i = 0; i < w->steps; i++)
        w->entry[i] =
            (uint32_t)uvcc_program_find_entry(w->program, i + 1 < w->steps ? "train" : "reveal");
    for (uint32_t l = 0; l < uvcc_mlp_layers(&c); l++) {
        char name[16];
        for (unsigned k = 0; k < 2; k++) { /* the master first */
            (void)snprintf(name, sizeof name, "%sW%u", k == 0 ? "M" : "", l);
            int t = uvcc_program_find(w->program, name);
            if (t < 0)
                return false;
            size_t n = sim_elems(w, (uint32_t)t);
            int64_t *v = malloc(n * sizeof *v);
            if (v == NULL)
                return false;
            w->initial_tensor[w->initial_count] = (uint32_t)t;
            w->initial[w->initial_count++] = v;
            uvcc_mlp_initial_weights(&c, seed, l, v);
            for (size_t i = 0; k == 0 && i < n; i++)
                v[i] *= INT64_C(1) << uvcc_mlp_master_shift(&c);
        }
    }
    return true;
}

/* What the reference takes for words that nobody chooses. */
static bool set_randoms(const uvcc_program *p, uint32_t entry, uvcc_reference *ref) {
    static const int64_t none[DIM_MAX * DIM_MAX];
    for (uint32_t i = 0; i < uvcc_program_op_count(p, entry); i++) {
        const uvcc_op_desc *d = uvcc_program_op_at(p, entry, i);
        if (d->opcode != UVCC_OP_RANDOM)
            continue;
        const uvcc_tensor_desc *t = uvcc_program_tensor_at(p, d->out[0]);
        if ((uint64_t)t->rows * t->cols > sizeof none / sizeof none[0] ||
            uvcc_reference_set(ref, d->out[0], none) != 0)
            return false;
    }
    return true;
}

bool sim_workload_random(const sim_workload *w, uint32_t step, uint32_t k, int64_t *most) {
    const uvcc_io_desc *io = uvcc_program_output_at(w->program, w->entry[step], k);
    *most = 3 * ((INT64_C(1) << RANDOM_BITS) - 1);
    return io->id >= RANDOM_OUTPUT && io->id < RANDOM_OUTPUT + RANDOMS_MAX;
}

/* Inputs of a step, and what the reference makes of them. */
static bool draw_step(sim_workload *w, uvcc_reference *ref, uint32_t step, sim_random *r, char *why,
                      size_t cap) {
    const uvcc_program *p = w->program;
    uint32_t e = w->entry[step], inputs = uvcc_program_input_count(p, e);
    uint32_t outputs = uvcc_program_output_count(p, e);
    w->input[step] = calloc(inputs + 1u, sizeof *w->input[step]);
    w->output[step] = calloc(outputs + 1u, sizeof *w->output[step]);
    if (w->input[step] == NULL || w->output[step] == NULL)
        return false;
    (void)snprintf(why, cap, "the reference does not take what a step begins with");
    for (uint32_t i = 0; i < inputs; i++) {
        const uvcc_io_desc *io = uvcc_program_input_at(p, e, i);
        unsigned bits = uvcc_program_tensor_at(p, io->tensor)->bits;
        size_t n = sim_elems(w, io->tensor);
        int64_t *v = w->input[step][i] = malloc(n * sizeof *v);
        if (v == NULL)
            return false;
        values(r, v, n, bits - 1 < 9 ? bits - 1 : 9);
        if (uvcc_reference_set(ref, io->tensor, v) != 0)
            return false;
    }
    if (!set_randoms(p, e, ref) || uvcc_reference_step(ref, e, why, cap) != 0)
        return false;
    for (uint32_t i = 0; i < outputs; i++) {
        const uvcc_io_desc *io = uvcc_program_output_at(p, e, i);
        size_t bytes = sim_elems(w, io->tensor) * sizeof(int64_t);
        w->output[step][i] = malloc(bytes);
        if (w->output[step][i] == NULL)
            return false;
        memcpy(w->output[step][i], uvcc_reference_get(ref, io->tensor), bytes);
    }
    return true;
}

/* A reference with the tensors of the beginning. */
static uvcc_reference *new_reference(const sim_workload *w) {
    uvcc_allocator al = uvcc_host_allocator();
    uvcc_reference *ref;
    if (uvcc_reference_new(&ref, w->program, &al) != 0)
        return NULL;
    bool ok = true;
    for (uint32_t i = 0; i < w->initial_count; i++)
        ok &= uvcc_reference_set(ref, w->initial_tensor[i], w->initial[i]) == 0;
    if (ok)
        return ref;
    uvcc_reference_free(ref);
    return NULL;
}

bool sim_workload_fits(const sim_workload *w, uint32_t dropped, uint32_t step, uint32_t k,
                       const int64_t *v) {
    const uvcc_program *p = w->program;
    uvcc_reference *ref = new_reference(w);
    char why[200];
    if (ref == NULL)
        abort();
    bool ok = true;
    for (uint32_t i = 0; ok && i <= step; i++) {
        if ((dropped >> i & 1) != 0)
            continue;
        for (uint32_t q = 0; ok && q < uvcc_program_input_count(p, w->entry[i]); q++)
            ok = uvcc_reference_set(ref, uvcc_program_input_at(p, w->entry[i], q)->tensor,
                                    w->input[i][q]) == 0;
        ok = ok && set_randoms(p, w->entry[i], ref) &&
             uvcc_reference_step(ref, w->entry[i], why, sizeof why) == 0;
    }
    const uint32_t t = uvcc_program_output_at(p, w->entry[step], k)->tensor;
    ok = ok && memcmp(v, uvcc_reference_get(ref, t), sim_elems(w, t) * sizeof *v) == 0;
    uvcc_reference_free(ref);
    return ok;
}

/* The reference runs here, once for a seed: every run of it, with whatever faults, is held to that.
 */
bool sim_workload_draw(sim_workload *w, uint64_t seed, char *why, size_t cap) {
    memset(w, 0, sizeof *w);
    (void)snprintf(why, cap, "out of memory");
    uvcc_allocator al = uvcc_host_allocator();
    builder b = {.r = sim_stream(seed, SIM_STREAM_WORKLOAD),
                 .checks = sim_stream(seed, SIM_STREAM_CHECKS),
                 .functions = sim_stream(seed, SIM_STREAM_FUNCTIONS),
                 .randoms = sim_stream(seed, SIM_STREAM_RANDOMS),
                 .ok = true};
    bool mlp = pick(&b, 5) == 0;
    b.stochastic = pick(&b, 5) == 0;
    w->exact = !b.stochastic;
    w->steps = 1 + pick(&b, SIM_STEPS_MAX);
    if (mlp) {
        if (!draw_mlp(w, &b, seed, &al, why, cap))
            return false;
    } else {
        if (uvcc_program_new(&b.p, &al) != 0)
            return false;
        w->program = b.p;
        random_program(&b);
        (void)snprintf(why, cap, "a program call was refused");
        if (!b.ok || uvcc_program_finish(b.p, why, cap) != 0)
            return false;
    }
    uvcc_reference *ref = new_reference(w);
    if (ref == NULL)
        return false;
    bool ok = true;
    sim_random r = sim_stream(seed, SIM_STREAM_VALUES);
    for (uint32_t i = 0; ok && i < w->steps; i++)
        ok = draw_step(w, ref, i, &r, why, cap);
    uvcc_reference_free(ref);
    return ok;
}

void sim_workload_free(sim_workload *w) {
    for (uint32_t s = 0; s < w->steps; s++) {
        for (uint32_t i = 0;
             w->input[s] != NULL && i < uvcc_program_input_count(w->program, w->entry[s]); i++)
            free(w->input[s][i]);
        for (uint32_t i = 0;
             w->output[s] != NULL && i < uvcc_program_output_count(w->program, w->entry[s]); i++)
            free(w->output[s][i]);
        free(w->input[s]);
        free(w->output[s]);
    }
    for (uint32_t i = 0; i < w->initial_count; i++)
        free(w->initial[i]);
    uvcc_program_free(w->program);
    memset(w, 0, sizeof *w);
}
