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

/* The map of an op that has one; one value for all of x is a column's for one long column. */
static bool build_elements(uvcci_builder *b, uint8_t map, const uvcc_shares *x,
                           const uvcc_shares *y, uint64_t *z) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_tensor *in = &b->s->program->tensors[d->in[A]];
    uint32_t rows = in->desc.rows, cols = in->desc.cols;
    if (map == UVCC_MAP_MUL_ROW && b->s->program->tensors[d->in[B]].elems == 1) {
        assert(in->elems <= UINT32_MAX); /* check_col_mul */
        rows = (uint32_t)in->elems;
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
    return c->detail == UVCCI_DETAIL_GEMM ? uvcci_build_gemm(b, x, y, z, false)
                                          : build_elements(b, c->detail, x, y, z);
}
