/* SPDX-License-Identifier: Apache-2.0 */
/* op_check.c - see op_check.h. */
#include "exec/program/op_check.h"

#include <assert.h>

int uvcci_want_shape(const uvcci_op_check *c, const uvcc_tensor_desc *t, uint32_t rows,
                     uint32_t cols) {
    assert(t != NULL);
    if (t->rows == rows && t->cols == cols)
        return 0;
    return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s: %s is %u x %u, but must be %u x %u", c->label,
                      t->name, t->rows, t->cols, rows, cols);
}

int uvcci_want_same_shape(const uvcci_op_check *c, const uvcc_tensor_desc *t,
                          const uvcc_tensor_desc *as) {
    assert(as != NULL);
    return uvcci_want_shape(c, t, as->rows, as->cols);
}

int uvcci_want_repeated_rows(const uvcci_op_check *c, const uvcc_tensor_desc *t, uint32_t rows,
                             uint32_t cols) {
    assert(t != NULL && t->rows != 0); /* tensors were checked before ops */
    if (t->cols == cols && rows % t->rows == 0)
        return 0;
    return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                      "%s: %s is %u x %u, but must have %u columns and rows that divide %u",
                      c->label, t->name, t->rows, t->cols, cols, rows);
}

int uvcci_want_scale(const uvcci_op_check *c, const uvcc_tensor_desc *t, int scale) {
    assert(t != NULL);
    if (t->scale == scale)
        return 0;
    return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s: %s has scale %u, but must have %d", c->label,
                      t->name, t->scale, scale);
}

int uvcci_want_bits(const uvcci_op_check *c, unsigned bits, const char *sum) {
    assert(sum != NULL);
    if (bits <= UVCCI_MAX_BITS)
        return 0;
    return uvcci_fail(c->m, UVCC_ERR_BOUND,
                      "%s: %s needs %u bits, more than %u; declare fewer bits for its inputs",
                      c->label, sum, bits, UVCCI_MAX_BITS);
}

int uvcci_want_nonzero(const uvcci_op_check *c) {
    if (c->d->constant != 0)
        return 0;
    return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s: its constant is 0, and so would be its output",
                      c->label);
}
