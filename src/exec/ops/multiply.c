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

/* The map of an op that has one, on rows of its first input; one value for all of x is a column's
 * for one long column. */
static bool build_elements(uvcci_builder *b, uint8_t map, uint32_t rows, const uvcc_shares *x,
                           const uvcc_shares *y, uint64_t *z) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_tensor *in = &b->s->program->tensors[d->in[A]];
    uint32_t cols = in->desc.cols;
    if (map == UVCC_MAP_MUL_ROW && b->s->program->tensors[d->in[B]].elems == 1) {
        assert(in->elems <= UINT32_MAX); /* check_col_mul */
        rows *= cols;
        cols = 1;
    }
    uvcc_task *t = uvcci_task_map(b, map, rows, cols, x, y, &(uvcc_shares){.lo = z});
    if (t == NULL)
        return false;
    t->u.map.constant = (uint64_t)d->constant;
    return true;
}

bool uvcci_build_product(uvcci_builder *b, const uvcc_shares *x, const uvcc_shares *y,
                         uint64_t *z) {
    const uvcci_op_class *c = b->r->plan->cls;
    assert((c->traits & UVCCI_IS_PRODUCT) != 0 && z != NULL);
    if (c->detail == UVCCI_DETAIL_GEMM)
        return uvcci_build_gemm(b, x, y, z, false);
    const uint32_t in = b->r->op->desc.in[A];
    return build_elements(b, c->detail, b->s->program->tensors[in].desc.rows, x, y, z);
}

bool uvcci_build_mul_part(uvcci_builder *b, const uvcc_shares *x, const uvcc_shares *y,
                          uint64_t *z) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_tensor *ts = b->s->program->tensors;
    const uvcc_tensor_desc *of_x = &ts[d->in[A]].desc, *of_y = &ts[d->in[B]].desc;
    const bool column = of_y->rows == of_x->rows && of_y->cols == 1;
    const uint8_t map = ts[d->in[A]].elems == ts[d->in[B]].elems ? UVCC_MAP_MUL
                        : column                                 ? UVCC_MAP_MUL_COL
                                                                 : UVCC_MAP_MUL_ROW;
    assert(z != NULL && d->constant == 0);
    return build_elements(b, map, of_x->rows, x, y, z);
}

/* ---- tiles ---- */

static const uvcci_tensor *operand_of(const uvcci_builder *b, unsigned operand) {
    const uvcc_op_desc *d = &b->r->op->desc;
    assert(operand <= C);
    return &b->s->program->tensors[operand == C ? d->out[0] : d->in[operand]];
}

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

static uvcc_shares shares_from(const uvcc_shares *x, uint64_t at) {
    return (uvcc_shares){.lo = x->lo + at, .hi = x->hi + at};
}

/* Fewer groups of rows, or fewer rows: of a transposed operand those are columns as it lies. */
static bool build_gemm_tile(uvcci_builder *b, uint32_t tile, const uvcc_shares *x,
                            const uvcc_shares *y, uint64_t *z) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const bool columns = d->heads == 0 && !has_rows(b, A);
    const uvcc_shares from = shares_from(x, columns ? first_row(b, tile) : 0);
    if (!uvcci_build_gemm(b, columns ? &from : x, y, z, false))
        return false;
    uvcc_task *t = uvcci_last_task(b);
    if (d->heads != 0) {
        t->u.gemm.groups = rows_of(b, tile) / uvcci_tile_unit(d, &operand_of(b, C)->desc);
        return true;
    }
    t->u.gemm.m = rows_of(b, tile);
    if (!columns)
        return true;
    t->u.gemm.groups = t->u.gemm.heads = 1;
    t->u.gemm.lx.ld = operand_of(b, A)->desc.cols;
    t->u.gemm.ly.ld = operand_of(b, B)->desc.cols;
    t->u.gemm.lz.ld = operand_of(b, C)->desc.cols;
    return true;
}

bool uvcci_build_tile(uvcci_builder *b, uint32_t tile, const uvcc_shares *x, const uvcc_shares *y,
                      uint64_t *z) {
    const uint8_t detail = b->r->plan->cls->detail;
    const uvcc_shares xs = shares_from(x, uvcci_tile_span(b, tile, A).from);
    const uvcc_shares ys = shares_from(y, uvcci_tile_span(b, tile, B).from);
    if (b->r->plan->beaver.tiles.count == 1)
        return uvcci_build_product(b, x, y, z);
    return detail == UVCCI_DETAIL_GEMM ? build_gemm_tile(b, tile, &xs, &ys, z)
                                       : build_elements(b, detail, rows_of(b, tile), &xs, &ys, z);
}
