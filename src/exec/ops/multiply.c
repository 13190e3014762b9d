/* SPDX-License-Identifier: Apache-2.0 */
/* multiply.c - see multiply.h. */
#include "exec/ops/multiply.h"

#include "exec/ops/tasks.h"
#include "exec/program/op_class.h"

#include <assert.h>

enum { A = 0, B = 1, C = 2 };

static uvcc_gemm_layout layout_of(const uvcc_op_desc *d, unsigned operand,
                                  const uvcc_tensor_desc *t) {
    const uint64_t rows = uvcci_gemm_rows(d, operand, t), cols = uvcci_gemm_cols(d, operand, t);
    const bool stacked = (d->flags & UVCC_OP_STACKED_A << operand) != 0;
    assert(d->heads != 0 && d->row_groups != 0);
    return (uvcc_gemm_layout){.ld = t->cols,
                              .group = t->rows / d->row_groups * (uint64_t)t->cols,
                              .head = stacked ? rows * t->cols : cols};
}

bool uvcci_build_gemm(uvcci_builder *b, const uvcc_shares *xs, const uvcc_shares *ys, uint64_t *z,
                      bool accumulate) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_tensor *ts = b->s->program->tensors;
    const uvcc_tensor_desc *x = &ts[d->in[A]].desc, *y = &ts[d->in[B]].desc,
                           *out = &ts[d->out[0]].desc;
    uvcc_task *t = uvcci_add_task(b, UVCC_TASK_GEMM, 0);
    assert(z != NULL);
    if (t == NULL)
        return false;
    t->u.gemm.m = (uint32_t)uvcci_gemm_rows(d, C, out);
    t->u.gemm.n = (uint32_t)uvcci_gemm_cols(d, C, out);
    t->u.gemm.k = (uint32_t)uvcci_gemm_depth(d, x);
    t->u.gemm.trans_x = (d->flags & UVCC_OP_TRANS_A) != 0;
    t->u.gemm.trans_y = (d->flags & UVCC_OP_TRANS_B) != 0;
    t->u.gemm.accumulate = accumulate;
    t->u.gemm.y_bytes = ts[d->in[B]].width < 8 ? ts[d->in[B]].width : 0;
    t->u.gemm.x = *xs;
    t->u.gemm.y = *ys;
    t->u.gemm.z = z;
    if (d->heads == 0)
        return true;
    t->u.gemm.groups = d->row_groups;
    t->u.gemm.heads = d->heads;
    t->u.gemm.lx = layout_of(d, A, x);
    t->u.gemm.ly = layout_of(d, B, y);
    t->u.gemm.lz = layout_of(d, C, out);
    return true;
}

static bool build_map(uvcci_builder *b, uint8_t map, uint64_t rows, uint64_t cols,
                      const uvcc_shares *x, const uvcc_shares *y, uint64_t *z) {
    assert(rows <= UINT32_MAX && cols <= UINT32_MAX); /* check_col_mul */
    uvcc_task *t =
        uvcci_task_map(b, map, (uint32_t)rows, (uint32_t)cols, x, y, &(uvcc_shares){.lo = z});
    if (t == NULL)
        return false;
    t->u.map.constant = (uint64_t)b->r->op->desc.constant;
    return true;
}

/* The map of an op that has one. */
static bool build_elements(uvcci_builder *b, uint64_t rows, uint64_t cols, const uvcc_shares *x,
                           const uvcc_shares *y, uint64_t *z) {
    return build_map(b, b->r->plan->cls->detail, rows, cols, x, y, z);
}

static const uvcci_tensor *operand_of(const uvcci_builder *b, unsigned operand) {
    const uvcc_op_desc *d = &b->r->op->desc;
    assert(operand <= C);
    return &b->s->program->tensors[operand == C ? d->out[0] : d->in[operand]];
}

static uvcc_shares shares_from(const uvcc_shares *x, uint64_t at) {
    return (uvcc_shares){.lo = x->lo + at, .hi = x->hi + at};
}

bool uvcci_build_mul_part(uvcci_builder *b, const uvcc_shares *x, const uvcc_shares *y,
                          uint64_t *z) {
    const uvcci_tensor *tx = operand_of(b, A), *ty = operand_of(b, B);
    const bool column = ty->desc.rows == tx->desc.rows && ty->desc.cols == 1;
    const uint8_t map = tx->elems == ty->elems ? UVCC_MAP_MUL
                        : column               ? UVCC_MAP_MUL_COL
                                               : UVCC_MAP_MUL_ROW;
    const bool one = map == UVCC_MAP_MUL_ROW && ty->elems == 1; /* a column's, of one long column */
    assert(z != NULL && b->r->op->desc.constant == 0);
    return build_map(b, map, one ? tx->elems : tx->desc.rows, one ? 1 : tx->desc.cols, x, y, z);
}

/* ---- some rows of a product of matrices ---- */

/* Rows of the result that one task makes: of `groups` groups of rows from `group` on, in each
 * `heads` heads from `head` on, in each block `rows` rows from `row` on. */
typedef struct run {
    uint64_t at; /* row of the result */
    uint32_t groups, heads, rows;
    uint64_t group, head, row;
} run;

/* The first rows of what is wanted that are alike: whole groups, then whole heads of a group where
 * the result has them one below the other, then rows. */
static run first_run(const uvcc_op_desc *d, const uvcc_tensor_desc *out, uint64_t at,
                     uint64_t wanted) {
    const bool stacked = (d->flags & UVCC_OP_STACKED_C) != 0;
    const uint64_t block = uvcci_gemm_rows(d, C, out), group = out->rows / d->row_groups;
    const uint64_t in = at % group, left = wanted < group - in ? wanted : group - in;
    run r = {.at = at, .groups = 1, .group = at / group};
    r.row = in % block;
    r.head = in / block; /* 0 where heads stand side by side: a block is as high as its group */
    assert(wanted != 0 && (stacked || block == group));
    if (in == 0 && wanted >= group) {
        r.groups = (uint32_t)(wanted / group);
        r.heads = d->heads;
        r.rows = (uint32_t)block;
    } else if (!stacked) {
        r.heads = d->heads;
        r.rows = (uint32_t)left;
    } else if (r.row == 0 && left >= block) {
        r.heads = (uint32_t)(left / block);
        r.rows = (uint32_t)block;
    } else {
        r.heads = 1;
        r.rows = (uint32_t)(left < block - r.row ? left : block - r.row);
    }
    return r;
}

static uint64_t rows_in(const run *r, bool stacked) {
    return (uint64_t)r->groups * (stacked ? r->heads : 1u) * r->rows;
}

/* z: where row `at` of the result goes. */
static bool build_run(uvcci_builder *b, const run *r, const uvcc_shares *x, const uvcc_shares *y,
                      uint64_t *z) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcc_gemm_layout lx = layout_of(d, A, &operand_of(b, A)->desc);
    const uvcc_gemm_layout ly = layout_of(d, B, &operand_of(b, B)->desc);
    const bool columns = (d->flags & UVCC_OP_TRANS_A) != 0; /* rows of the result are A's */
    const uvcc_shares xs =
        shares_from(x, r->group * lx.group + r->head * lx.head + r->row * (columns ? 1 : lx.ld));
    const uvcc_shares ys = shares_from(y, r->group * ly.group + r->head * ly.head);
    if (!uvcci_build_gemm(b, &xs, &ys, z, false))
        return false;
    uvcc_task *t = uvcci_last_task(b);
    t->u.gemm.m = r->rows;
    t->u.gemm.groups = r->groups;
    t->u.gemm.heads = r->heads;
    return true;
}

/* Of a transposed operand, rows of the result are columns as it lies. */
static bool build_plain_rows(uvcci_builder *b, uint64_t first, uint32_t rows, const uvcc_shares *x,
                             const uvcc_shares *y, uint64_t *z) {
    const bool columns = (b->r->op->desc.flags & UVCC_OP_TRANS_A) != 0;
    const uint64_t ld = operand_of(b, A)->desc.cols;
    const uvcc_shares xs = shares_from(x, columns ? first : first * ld);
    if (!uvcci_build_gemm(b, &xs, y, z, false))
        return false;
    uvcc_task *t = uvcci_last_task(b);
    t->u.gemm.m = rows;
    if (!columns)
        return true;
    t->u.gemm.groups = t->u.gemm.heads = 1;
    t->u.gemm.lx.ld = ld;
    t->u.gemm.ly.ld = operand_of(b, B)->desc.cols;
    t->u.gemm.lz.ld = operand_of(b, C)->desc.cols;
    return true;
}

/* So many rows of the result from `first` on, into z; x and y are the whole operands. */
static bool build_gemm_rows(uvcci_builder *b, uint64_t first, uint64_t rows, const uvcc_shares *x,
                            const uvcc_shares *y, uint64_t *z) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcc_tensor_desc *out = &operand_of(b, C)->desc;
    const bool stacked = (d->flags & UVCC_OP_STACKED_C) != 0;
    if (rows == out->rows)
        return uvcci_build_gemm(b, x, y, z, false);
    if (d->heads == 0)
        return build_plain_rows(b, first, (uint32_t)rows, x, y, z);
    for (uint64_t done = 0; done < rows;) {
        const run r = first_run(d, out, first + done, rows - done);
        if (!build_run(b, &r, x, y, z + done * out->cols))
            return false;
        done += rows_in(&r, stacked);
    }
    return true;
}

/* ---- the whole, or a segment ---- */

static bool is_gemm(const uvcci_builder *b) {
    return b->r->plan->cls->detail == UVCCI_DETAIL_GEMM;
}

/* Whether every row of the result reads all of the second operand. */
static bool reads_all(const uvcci_builder *b) {
    return b->r->plan->cls->detail == UVCC_MAP_MUL_ROW &&
           operand_of(b, A)->elems != operand_of(b, B)->elems;
}

/* One value for all of x is a column's for one long column. */
static void count_one_value(const uvcci_builder *b, uint64_t *rows, uint64_t *cols) {
    if (!reads_all(b) || operand_of(b, B)->elems != 1)
        return;
    *rows *= *cols;
    *cols = 1;
}

static bool build_segment(uvcci_builder *b, uint64_t *z) {
    const uvcci_plan *plan = b->r->plan;
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_tensor *ta = operand_of(b, A);
    const bool all = reads_all(b);
    const uvcc_shares x = uvcci_part_of(b, d->in[A]);
    const uvcc_shares y = all ? *uvcci_shares_of(b->s, d->in[B]) : uvcci_part_of(b, d->in[B]);
    uint64_t rows = plan->segments.by_element   ? 1
                    : plan->segments.units != 1 ? plan->units
                                                : ta->desc.rows;
    uint64_t cols = plan->segments.by_element ? plan->units : ta->desc.cols;
    count_one_value(b, &rows, &cols);
    return build_elements(b, rows, cols, &x, &y, z);
}

bool uvcci_build_product(uvcci_builder *b, uint64_t *z) {
    const uvcci_plan *plan = b->r->plan;
    const uvcc_op_desc *d = &b->r->op->desc;
    assert((plan->cls->traits & UVCCI_IS_PRODUCT) != 0 && z != NULL);
    if (!is_gemm(b))
        return build_segment(b, z);
    const uvcc_shares *x = uvcci_shares_of(b->s, d->in[A]), *y = uvcci_shares_of(b->s, d->in[B]);
    if (plan->segments.units == 1)
        return uvcci_build_gemm(b, x, y, z, false);
    return build_gemm_rows(b, b->r->first, plan->units, x, y, z);
}

/* ---- tiles ---- */

static uint32_t first_row(const uvcci_builder *b, uint32_t tile) {
    return uvcci_tile_first(&b->r->plan->beaver.tiles, tile);
}

static uint32_t rows_of(const uvcci_builder *b, uint32_t tile) {
    return uvcci_tile_rows(&b->r->plan->beaver.tiles, operand_of(b, C)->desc.rows, tile);
}

/* Whether each row of the result (with heads, each group of rows) reads rows of its own of the
 * operand. */
static bool has_rows(const uvcci_builder *b, unsigned operand) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uint8_t detail = b->r->plan->cls->detail;
    if (detail == UVCCI_DETAIL_GEMM)
        return d->heads != 0 || operand == C || (operand == A && (d->flags & UVCC_OP_TRANS_A) == 0);
    return detail != UVCC_MAP_MUL_ROW || operand != B;
}

uvcci_span uvcci_tile_span(const uvcci_builder *b, uint32_t tile, unsigned operand) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_tensor *t = operand_of(b, operand);
    if (!has_rows(b, operand))
        return (uvcci_span){.to = t->elems};
    const uint32_t unit = uvcci_tile_unit(d, &operand_of(b, C)->desc);
    const uint64_t stride = (uint64_t)uvcci_tile_unit(d, &t->desc) * t->desc.cols;
    const uint64_t first = first_row(b, tile) / unit, n = rows_of(b, tile) / unit;
    assert((first + n) * stride <= t->elems);
    return (uvcci_span){.from = first * stride, .to = (first + n) * stride};
}

bool uvcci_build_tile(uvcci_builder *b, uint32_t tile, const uvcc_shares *x, const uvcc_shares *y,
                      uint64_t *z) {
    if (is_gemm(b))
        return build_gemm_rows(b, first_row(b, tile), rows_of(b, tile), x, y, z);
    const uvcc_shares xs = shares_from(x, uvcci_tile_span(b, tile, A).from);
    const uvcc_shares ys = shares_from(y, uvcci_tile_span(b, tile, B).from);
    uint64_t rows = rows_of(b, tile), cols = operand_of(b, A)->desc.cols;
    count_one_value(b, &rows, &cols);
    return build_elements(b, rows, cols, &xs, &ys, z);
}
