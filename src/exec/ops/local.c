/* SPDX-License-Identifier: Apache-2.0 */
/* local.c - ops that a party does alone, component by component: sums, public constants, shifts,
 * copies. They send nothing, so they have one turn, which is one map, or copies.
 *
 * Sums, shifts and factors may be additive: a party's summand is its first component of a
 * replicated input (each component is first at one party), or all that it has of an additive one.
 */
#include "exec/ops/families.h"
#include "exec/ops/tasks.h"
#include "exec/program/op_check.h"

#include <assert.h>

/* ---- what they ask of their tensors ---- */

/* One bit more than the wider input. With a shift the second input counts 2^-shift of its value:
 * its integer stands at a scale finer by that. `second` is what the check of its shape said. */
static int check_sum(const uvcci_op_check *c, int second) {
    const uvcc_tensor_desc *a = c->in[0], *b = c->in[1], *z = c->out[0];
    int err = second;
    if (err == 0)
        err = uvcci_want_same_shape(c, z, a);
    if (err == 0)
        err = uvcci_want_scale(c, b, a->scale - c->d->shift);
    if (err == 0)
        err = uvcci_want_scale(c, z, a->scale);
    if (err == 0)
        err = uvcci_want_bits(c, a->bits > b->bits ? a->bits : b->bits, "the wider input");
    return err;
}

static int check_sum_of_elements(const uvcci_op_check *c) {
    return check_sum(c, uvcci_want_same_shape(c, c->in[1], c->in[0]));
}

static int check_sum_with_rows(const uvcci_op_check *c) {
    return check_sum(c, uvcci_want_repeated_rows(c, c->in[1], c->in[0]->rows, c->in[0]->cols));
}

static int check_sum_with_column(const uvcci_op_check *c) {
    return check_sum(c, uvcci_want_shape(c, c->in[1], c->in[0]->rows, 1));
}

/* WITHIN: the sum stays within the bits that the output declares, as its author knows. */
static int check_reduction(const uvcci_op_check *c, int shape, uint32_t summed, const char *sum) {
    int err = shape;
    if (err == 0)
        err = uvcci_want_scale(c, c->out[0], c->in[0]->scale);
    if (err == 0 && (c->d->flags & UVCC_OP_WITHIN) == 0)
        err = uvcci_want_bits(c, c->in[0]->bits + uvcci_ceil_log2(summed), sum);
    return err;
}

static int check_sum_of_rows(const uvcci_op_check *c) {
    const uvcc_tensor_desc *x = c->in[0], *z = c->out[0];
    return check_reduction(c, uvcci_want_repeated_rows(c, z, x->rows, x->cols), x->rows / z->rows,
                           "bits + log2(rows)");
}

static int check_row_sum(const uvcci_op_check *c) {
    const uvcc_tensor_desc *x = c->in[0], *z = c->out[0];
    const bool blocks = z->rows == x->rows && x->cols % z->cols == 0;
    return check_reduction(c, blocks ? 0 : uvcci_want_shape(c, z, x->rows, 1), x->cols / z->cols,
                           "bits + log2(cols)");
}

static int check_scale_public(const uvcci_op_check *c) {
    const uvcc_tensor_desc *x = c->in[0], *z = c->out[0];
    int err = uvcci_want_nonzero(c);
    if (err == 0)
        err = uvcci_want_same_shape(c, z, x);
    if (err == 0)
        err = uvcci_want_scale(c, z, x->scale + c->d->shift);
    if (err == 0)
        err = uvcci_want_bits(c, x->bits + uvcci_constant_bits(c->d->constant),
                              "bits + log2(constant)");
    return err;
}

static int check_add_public(const uvcci_op_check *c) {
    const uvcc_tensor_desc *x = c->in[0], *z = c->out[0];
    const unsigned bits = uvcci_constant_bits(c->d->constant);
    int err = uvcci_want_same_shape(c, z, x);
    if (err == 0)
        err = uvcci_want_scale(c, z, x->scale);
    if (err == 0)
        err =
            uvcci_want_bits(c, x->bits > bits ? x->bits : bits, "the wider of input and constant");
    return err;
}

static int check_causal_mask(const uvcci_op_check *c) {
    const uvcc_tensor_desc *x = c->in[0], *z = c->out[0];
    if (x->rows % x->cols != 0)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                          "%s: %s is %u x %u; its rows must be a multiple of its columns", c->label,
                          x->name, x->rows, x->cols);
    int err = uvcci_want_same_shape(c, z, x);
    if (err == 0)
        err = uvcci_want_scale(c, z, x->scale);
    const int64_t limit = (int64_t)((1ull << z->bits) - 1);
    if (err == 0 && (c->d->constant > limit || c->d->constant < -limit))
        err = uvcci_fail(c->m, UVCC_ERR_BOUND, "%s: the constant %lld is outside the %u bits of %s",
                         c->label, (long long)c->d->constant, z->bits, z->name);
    return err;
}

static int check_shift_left(const uvcci_op_check *c) {
    const uvcc_tensor_desc *x = c->in[0], *z = c->out[0];
    int err = uvcci_want_same_shape(c, z, x);
    if (err == 0)
        err = uvcci_want_scale(c, z, x->scale + c->d->shift);
    if (err == 0)
        err = uvcci_want_bits(c, x->bits + c->d->shift, "bits + shift");
    return err;
}

/* Blocks of `constant` columns make up the input, and whole rows of the input's length the output.
 */
static int check_repeat_cols(const uvcci_op_check *c) {
    const uvcc_tensor_desc *x = c->in[0], *z = c->out[0];
    if (c->d->constant < 1 || c->d->constant > x->cols || x->cols % c->d->constant != 0)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                          "%s: %s is %u x %u; blocks of %lld columns do not divide it", c->label,
                          x->name, x->rows, x->cols, (long long)c->d->constant);
    if (z->rows != x->rows || z->cols % x->cols != 0)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                          "%s: %s is %u x %u, but must have %u rows and a multiple of %u columns",
                          c->label, z->name, z->rows, z->cols, x->rows, x->cols);
    int err = uvcci_want_scale(c, z, x->scale);
    if (err == 0 && z->bits < x->bits)
        err = uvcci_fail(c->m, UVCC_ERR_BOUND, "%s: %s declares %u bits, but needs %u", c->label,
                         z->name, z->bits, x->bits);
    return err;
}

/* ---- the turn ---- */

/* The op's map over rows x cols of its first input: the class says which. */
static bool build_map(uvcci_builder *b, uint32_t rows, uint32_t cols) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_op_class *c = b->r->plan->cls;
    assert(c->opcode == d->opcode && b->r->turn == 0 && d->in_count != 0 && d->out_count == 1);
    if (!uvcci_ensure_outputs(b))
        return false;
    assert(b->s->program->tensors[d->in[0]].elems == (uint64_t)rows * cols);
    uvcc_task *t = uvcci_task_map(b, c->detail, rows, cols, uvcci_shares_of(b->s, d->in[0]),
                                  d->in_count > 1 ? uvcci_shares_of(b->s, d->in[1]) : NULL,
                                  uvcci_shares_of(b->s, d->out[0]));
    if (t == NULL)
        return false;
    t->u.map.shift = d->shift;
    t->u.map.constant = (uint64_t)d->constant;
    return true;
}

static bool build_elements(uvcci_builder *b) {
    const uvcc_tensor_desc *x = &b->s->program->tensors[b->r->op->desc.in[0]].desc;
    assert(x->rows != 0 && x->cols != 0);
    return build_map(b, x->rows, x->cols);
}

/* A few rows in turn for all of x are one long row: the second input, or the output. */
static bool build_repeated_rows(uvcci_builder *b) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_tensor *tensors = b->s->program->tensors;
    const uvcc_tensor_desc *x = &tensors[d->in[0]].desc;
    const uint32_t turns = tensors[d->in_count > 1 ? d->in[1] : d->out[0]].desc.rows;
    assert(turns != 0 && x->rows % turns == 0);
    return build_map(b, x->rows / turns, x->cols * turns);
}

/* Blocks of columns are rows of a longer tensor of fewer columns. */
static bool build_row_blocks(uvcci_builder *b) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_tensor *x = &b->s->program->tensors[d->in[0]],
                       *z = &b->s->program->tensors[d->out[0]];
    assert(z->elems <= UINT32_MAX && x->elems % z->elems == 0);
    return build_map(b, (uint32_t)z->elems, (uint32_t)(x->elems / z->elems));
}

/* One component: block j of an output's row is block j / times of the input's. */
static bool copy_repeated(uvcci_builder *b, const uint64_t *x, uint64_t *z) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_tensor *in = &b->s->program->tensors[d->in[0]],
                       *out = &b->s->program->tensors[d->out[0]];
    const size_t width = (size_t)d->constant, blocks = out->elems / width;
    const size_t times = out->desc.cols / in->desc.cols;
    uvcc_copy_item *items = uvcci_bump_take(&b->r->bump, blocks * sizeof *items);
    assert(times != 0 && blocks == times * (in->elems / width) && blocks <= UINT32_MAX);
    if (items == NULL)
        return false;
    for (size_t j = 0; j < blocks; j++)
        items[j] = (uvcc_copy_item){.dst = (uint8_t *)(z + j * width),
                                    .src = (const uint8_t *)(x + j / times * width),
                                    .len = width * sizeof *x};
    return uvcci_task_copy(b, items, (uint32_t)blocks);
}

/* Rows need not be looked at: `times` divides the blocks of each. */
static bool build_repeat_cols(uvcci_builder *b) {
    const uvcc_op_desc *d = &b->r->op->desc;
    if (!uvcci_ensure_outputs(b))
        return false;
    const uvcc_shares *x = uvcci_shares_of(b->s, d->in[0]), *z = uvcci_shares_of(b->s, d->out[0]);
    return copy_repeated(b, x->lo, z->lo) && copy_repeated(b, x->hi, z->hi);
}

/* ---- the family ---- */

static const uvcci_op_way elements = {.build = build_elements};
static const uvcci_op_way repeated_rows = {.build = build_repeated_rows};
static const uvcci_op_way row_blocks = {.build = build_row_blocks};
static const uvcci_op_way repeat_cols = {.build = build_repeat_cols};

static const uvcci_op_class classes[] = {
    {.opcode = UVCC_OP_BIAS_ADD,
     .traits = UVCCI_WORKS_IN_PLACE,
     .detail = UVCC_MAP_ADD_ROW,
     .check = check_sum_with_rows,
     .way = &repeated_rows},
    {.opcode = UVCC_OP_REDUCE_BIAS_GRAD,
     .flags = UVCC_OP_WITHIN,
     .detail = UVCC_MAP_SUM_ROWS,
     .in = {UVCCI_TAKES_BOTH},
     .out = UVCCI_TAKES_BOTH,
     .check = check_sum_of_rows,
     .way = &repeated_rows},
    {.opcode = UVCC_OP_ADD,
     .traits = UVCCI_WORKS_IN_PLACE | UVCCI_USES_SHIFT,
     .detail = UVCC_MAP_ADD,
     .in = {UVCCI_TAKES_BOTH, UVCCI_TAKES_BOTH},
     .out = UVCCI_TAKES_BOTH,
     .check = check_sum_of_elements,
     .way = &elements},
    {.opcode = UVCC_OP_SUB,
     .traits = UVCCI_WORKS_IN_PLACE | UVCCI_USES_SHIFT,
     .detail = UVCC_MAP_SUB,
     .in = {UVCCI_TAKES_BOTH, UVCCI_TAKES_BOTH},
     .out = UVCCI_TAKES_BOTH,
     .check = check_sum_of_elements,
     .way = &elements},
    {.opcode = UVCC_OP_SHIFT_LEFT,
     .traits = UVCCI_WORKS_IN_PLACE | UVCCI_USES_SHIFT,
     .detail = UVCC_MAP_SHL,
     .in = {UVCCI_TAKES_BOTH},
     .out = UVCCI_TAKES_BOTH,
     .check = check_shift_left,
     .way = &elements},
    {.opcode = UVCC_OP_ROW_SUM,
     .flags = UVCC_OP_WITHIN,
     .detail = UVCC_MAP_SUM_COLS,
     .in = {UVCCI_TAKES_BOTH},
     .out = UVCCI_TAKES_BOTH,
     .check = check_row_sum,
     .way = &row_blocks},
    {.opcode = UVCC_OP_ROW_ADD,
     .traits = UVCCI_WORKS_IN_PLACE,
     .detail = UVCC_MAP_ADD_COL,
     .check = check_sum_with_column,
     .way = &elements},
    {.opcode = UVCC_OP_ROW_SUB,
     .traits = UVCCI_WORKS_IN_PLACE,
     .detail = UVCC_MAP_SUB_COL,
     .check = check_sum_with_column,
     .way = &elements},
    {.opcode = UVCC_OP_ROW_RSUB,
     .traits = UVCCI_WORKS_IN_PLACE,
     .detail = UVCC_MAP_RSUB_COL,
     .check = check_sum_with_column,
     .way = &elements},
    {.opcode = UVCC_OP_SCALE_PUBLIC,
     .traits = UVCCI_WORKS_IN_PLACE | UVCCI_USES_SHIFT | UVCCI_USES_CONSTANT,
     .detail = UVCC_MAP_SCALE,
     .in = {UVCCI_TAKES_BOTH},
     .out = UVCCI_TAKES_BOTH,
     .check = check_scale_public,
     .way = &elements},
    {.opcode = UVCC_OP_ADD_PUBLIC,
     .traits = UVCCI_WORKS_IN_PLACE | UVCCI_USES_CONSTANT,
     .detail = UVCC_MAP_ADD_PUBLIC,
     .check = check_add_public,
     .way = &elements},
    {.opcode = UVCC_OP_CAUSAL_MASK,
     .traits = UVCCI_WORKS_IN_PLACE | UVCCI_USES_CONSTANT,
     .detail = UVCC_MAP_CAUSAL,
     .check = check_causal_mask,
     .way = &elements},
    {.opcode = UVCC_OP_REPEAT_COLS,
     .traits = UVCCI_USES_CONSTANT,
     .check = check_repeat_cols,
     .way = &repeat_cols},
};
const uvcci_op_family uvcci_ops_local = UVCCI_FAMILY(classes);
