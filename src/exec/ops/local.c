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
#include "exec/program/plan_maker.h"

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

/* Groups of rows, one under the other: the blocks of a stacked operand. Without heads all rows are
 * one. */
static uint64_t groups_of(const uvcc_op_desc *d) {
    return d->heads != 0 ? (uint64_t)d->heads * d->row_groups : 1;
}

static int want_groups(const uvcci_op_check *c, const uvcc_tensor_desc *t) {
    if (t->rows % groups_of(c->d) == 0)
        return 0;
    return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                      "%s: %s is %u x %u; %u groups of rows and %u heads do not divide it",
                      c->label, t->name, t->rows, t->cols, c->d->row_groups, c->d->heads);
}

/* Rows of a block that has a diagonal: with heads those of a group. */
static uint32_t masked_rows(const uvcc_op_desc *d, const uvcc_tensor_desc *x) {
    return d->heads != 0 ? (uint32_t)(x->rows / groups_of(d)) : x->cols;
}

static int check_causal_mask(const uvcci_op_check *c) {
    const uvcc_tensor_desc *x = c->in[0], *z = c->out[0];
    int err = want_groups(c, x);
    if (err == 0 && masked_rows(c->d, x) > x->cols)
        err = uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                         "%s: %s is %u x %u; a group of rows has %u, more than its columns",
                         c->label, x->name, x->rows, x->cols, masked_rows(c->d, x));
    if (err == 0 && x->rows % masked_rows(c->d, x) != 0)
        err = uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                         "%s: %s is %u x %u; its rows must be a multiple of its columns", c->label,
                         x->name, x->rows, x->cols);
    if (err == 0)
        err = uvcci_want_same_shape(c, z, x);
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

/* The table has a row for each of so many rows of x, in turn, and the columns of a head. What comes
 * out is at the scale of both; WITHIN: of the bits that the output declares. */
static int check_rotate(const uvcci_op_check *c) {
    const uvcc_tensor_desc *x = c->in[0], *y = c->in[1], *z = c->out[0];
    if (y->cols % 2 != 0 || x->cols % y->cols != 0 || x->rows % y->rows != 0)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                          "%s: %s is %u x %u, %s %u x %u; its rows and columns, an even number, "
                          "must divide those",
                          c->label, x->name, x->rows, x->cols, y->name, y->rows, y->cols);
    int err = uvcci_want_same_shape(c, z, x);
    if (err == 0)
        err = uvcci_want_scale(c, z, x->scale + y->scale);
    if (err == 0 && (c->d->flags & UVCC_OP_WITHIN) == 0)
        err = uvcci_want_bits(c, x->bits + y->bits + 1u, "bits(X) + bits(table) + 1");
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

/* ---- parts of groups of rows ---- */

/* Scale and sharing, which moving does not change. */
static int want_alike(const uvcci_op_check *c, const uvcc_tensor_desc *x,
                      const uvcc_tensor_desc *y) {
    if (x->sharing != y->sharing)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s: of %s and %s one is additive", c->label,
                          x->name, y->name);
    return uvcci_want_scale(c, y, x->scale);
}

/* `some` has rows from `constant` on of each group of `all`. */
static int check_rows(const uvcci_op_check *c, const uvcc_tensor_desc *all,
                      const uvcc_tensor_desc *some) {
    int err = want_groups(c, all);
    if (err == 0)
        err = want_groups(c, some);
    if (err == 0)
        err = uvcci_want_shape(c, some, some->rows, all->cols);
    if (err == 0)
        err = want_alike(c, all, some);
    const uint64_t groups = groups_of(c->d), rows = all->rows / groups, part = some->rows / groups;
    if (err == 0 && (part > rows || c->d->constant < 0 || (uint64_t)c->d->constant > rows - part))
        err = uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                         "%s: %s has %llu rows a group, not %llu from row %lld on", c->label,
                         all->name, (unsigned long long)rows, (unsigned long long)part,
                         (long long)c->d->constant);
    return err;
}

static int want_bits_of(const uvcci_op_check *c, const uvcc_tensor_desc *x) {
    const uvcc_tensor_desc *z = c->out[0];
    if (z->bits >= x->bits || z->sharing == UVCC_ADDITIVE) /* whose bits sum_max counts */
        return 0;
    return uvcci_fail(c->m, UVCC_ERR_BOUND, "%s: %s declares %u bits, but needs %u", c->label,
                      z->name, z->bits, x->bits);
}

static int check_slice_rows(const uvcci_op_check *c) {
    const int err = check_rows(c, c->in[0], c->out[0]);
    return err == 0 ? want_bits_of(c, c->in[0]) : err;
}

/* The output may stand in the buffer of x, but not in that of y. */
static int check_into_rows(const uvcci_op_check *c) {
    const uvcc_tensor_desc *z = c->out[0];
    if (c->d->in_count < 1 || c->d->in_count > 2)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s has %u inputs; it takes 1 or 2", c->label,
                          c->d->in_count);
    int err = check_rows(c, z, c->in[0]);
    for (uint32_t i = 0; i < c->d->in_count && err == 0; i++)
        err = want_bits_of(c, c->in[i]);
    if (err == 0 && c->d->in_count == 2)
        err = uvcci_want_same_shape(c, c->in[1], z);
    if (err == 0 && c->d->in_count == 2)
        err = want_alike(c, z, c->in[1]);
    if (err == 0 && c->p->tensors[c->d->in[0]].buffer == c->p->tensors[c->d->out[0]].buffer)
        err = uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                         "%s cannot write %s in the buffer of its input %s; give it one of its own",
                         c->label, z->name, c->in[0]->name);
    return err;
}

/* What an additive output can hold; a replicated one is its author's business. */
static uint64_t rows_sum_max(const uvcc_program *p, const uvcc_op_desc *d, bool added) {
    const uvcc_tensor_desc *z = &p->tensors[d->out[0]].desc;
    if (z->sharing != UVCC_ADDITIVE)
        return 1ull << z->bits;
    const uint64_t y = p->tensors[d->in[0]].sum_max,
                   x = d->in_count == 2 ? p->tensors[d->in[1]].sum_max : 0;
    if (!added)
        return x > y ? x : y;
    return x + y < x ? UINT64_MAX : x + y;
}

static uint64_t moved_sum_max(const uvcc_program *p, const uvcc_op_desc *d) {
    return rows_sum_max(p, d, false);
}

static uint64_t added_sum_max(const uvcc_program *p, const uvcc_op_desc *d) {
    return rows_sum_max(p, d, true);
}

/* ---- the turn ---- */

/* The op's map: the class says which. */
static uvcc_task *build_map_of(uvcci_builder *b, uint32_t rows, uint32_t cols, const uvcc_shares *x,
                               const uvcc_shares *y) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_op_class *c = b->r->plan->cls;
    assert(c->opcode == d->opcode && b->r->turn == 0 && d->in_count != 0 && d->out_count == 1);
    uvcc_task *t = uvcci_task_map(b, c->detail, rows, cols, x, y, uvcci_shares_of(b->s, d->out[0]));
    if (t == NULL)
        return NULL;
    t->u.map.shift = d->shift;
    t->u.map.constant = (uint64_t)d->constant;
    return t;
}

/* Over rows x cols of its first input. */
static bool build_map(uvcci_builder *b, uint32_t rows, uint32_t cols) {
    const uvcc_op_desc *d = &b->r->op->desc;
    if (!uvcci_ensure_outputs(b))
        return false;
    assert(b->s->program->tensors[d->in[0]].elems == (uint64_t)rows * cols);
    return build_map_of(b, rows, cols, uvcci_shares_of(b->s, d->in[0]),
                        d->in_count > 1 ? uvcci_shares_of(b->s, d->in[1]) : NULL) != NULL;
}

static bool build_elements(uvcci_builder *b) {
    const uvcc_tensor_desc *x = &b->s->program->tensors[b->r->op->desc.in[0]].desc;
    assert(x->rows != 0 && x->cols != 0);
    return build_map(b, x->rows, x->cols);
}

static bool build_causal_mask(uvcci_builder *b) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcc_tensor_desc *x = &b->s->program->tensors[d->in[0]].desc;
    if (!build_map(b, x->rows, x->cols))
        return false;
    uvcci_last_task(b)->u.map.block = masked_rows(d, x);
    uvcci_last_task(b)->u.map.part = d->window;
    return true;
}

static bool build_rotate(uvcci_builder *b) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcc_tensor_desc *x = &b->s->program->tensors[d->in[0]].desc,
                           *table = &b->s->program->tensors[d->in[1]].desc;
    assert(x->rows % table->rows == 0 && x->cols % table->cols == 0);
    if (!build_map(b, x->rows, x->cols))
        return false;
    uvcci_last_task(b)->u.map.block = table->rows;
    uvcci_last_task(b)->u.map.part = table->cols;
    return true;
}

/* A part of each group of rows, out of a tensor or into one. */
static bool build_rows(uvcci_builder *b) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_tensor *ts = b->s->program->tensors;
    const bool out_of = d->opcode == UVCC_OP_SLICE_ROWS;
    const uvcc_tensor_desc *all = &ts[out_of ? d->in[0] : d->out[0]].desc,
                           *some = &ts[out_of ? d->out[0] : d->in[0]].desc;
    if (!uvcci_ensure_outputs(b))
        return false;
    const uvcc_shares *first = uvcci_shares_of(b->s, d->in[0]), none = {0};
    const uvcc_shares *x = out_of             ? first
                           : d->in_count == 2 ? uvcci_shares_of(b->s, d->in[1])
                                              : &none;
    uvcc_task *t = build_map_of(b, all->rows, all->cols, x, out_of ? NULL : first);
    if (t == NULL)
        return false;
    t->u.map.block = (uint32_t)(all->rows / groups_of(d));
    t->u.map.part = (uint32_t)(some->rows / groups_of(d));
    return true;
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
    uvcc_copy_item *items = uvcci_bump_take(&b->r->turn_bump, blocks * sizeof *items);
    assert(times != 0 && blocks == times * (in->elems / width) && blocks <= UINT32_MAX);
    if (items == NULL)
        return false;
    for (size_t j = 0; j < blocks; j++)
        items[j] = (uvcc_copy_item){.dst = (uint8_t *)(z + j * width),
                                    .src = (const uint8_t *)(x + j / times * width),
                                    .len = width * sizeof *x};
    return uvcci_task_copy(b, items, (uint32_t)blocks);
}

/* Of both components. */
static int plan_repeat_cols(uvcci_draft *d) {
    const uint64_t elems = d->p->tensors[d->op->desc.out[0]].elems;
    d->plan->copies = 2 * (elems / (uint64_t)d->op->desc.constant);
    return 0;
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
static const uvcci_op_way causal_mask = {.build = build_causal_mask};
static const uvcci_op_way rotate = {.build = build_rotate};
static const uvcci_op_way rows = {.build = build_rows};
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
     .traits = UVCCI_WORKS_IN_PLACE | UVCCI_USES_CONSTANT | UVCCI_USES_HEADS,
     .detail = UVCC_MAP_CAUSAL,
     .check = check_causal_mask,
     .way = &causal_mask},
    {.opcode = UVCC_OP_REPEAT_COLS,
     .traits = UVCCI_USES_CONSTANT,
     .check = check_repeat_cols,
     .plan = plan_repeat_cols,
     .way = &repeat_cols},
    {.opcode = UVCC_OP_SLICE_ROWS,
     .traits = UVCCI_USES_CONSTANT | UVCCI_USES_HEADS,
     .detail = UVCC_MAP_SLICE_ROWS,
     .in = {UVCCI_TAKES_BOTH},
     .out = UVCCI_TAKES_BOTH,
     .check = check_slice_rows,
     .sum_max = moved_sum_max,
     .way = &rows},
    {.opcode = UVCC_OP_PUT_ROWS,
     .traits = UVCCI_USES_CONSTANT | UVCCI_USES_HEADS | UVCCI_WORKS_IN_PLACE, /* on x alone */
     .detail = UVCC_MAP_PUT_ROWS,
     .in = {UVCCI_TAKES_BOTH, UVCCI_TAKES_BOTH},
     .out = UVCCI_TAKES_BOTH,
     .check = check_into_rows,
     .sum_max = moved_sum_max,
     .way = &rows},
    {.opcode = UVCC_OP_ADD_ROWS,
     .traits = UVCCI_USES_CONSTANT | UVCCI_USES_HEADS | UVCCI_WORKS_IN_PLACE, /* on x alone */
     .detail = UVCC_MAP_ADD_ROWS,
     .in = {UVCCI_TAKES_BOTH, UVCCI_TAKES_BOTH},
     .out = UVCCI_TAKES_BOTH,
     .check = check_into_rows,
     .sum_max = added_sum_max,
     .way = &rows},
    {.opcode = UVCC_OP_ROTATE,
     .flags = UVCC_OP_WITHIN,
     .detail = UVCC_MAP_ROTATE,
     .in = {UVCCI_TAKES_BOTH, UVCCI_TAKES_PUBLIC},
     .out = UVCCI_TAKES_BOTH,
     .check = check_rotate,
     .way = &rotate},
};
const uvcci_op_family uvcci_ops_local = UVCCI_FAMILY(classes);
