/* SPDX-License-Identifier: Apache-2.0 */
/* op_check.h - what the checks of ops share: one op with its tensors at hand, and refusals that
 * read alike whichever family makes them. */
#ifndef UVCCI_OP_CHECK_H
#define UVCCI_OP_CHECK_H

#include "exec/base/message.h"
#include "exec/program/program.h"

/* The one op under check. Its tensors exist, its fields and their sharing are right. */
typedef struct uvcci_op_check {
    const uvcc_program *p;
    const uvcci_entry *e;
    const uvcc_op_desc *d;
    const uvcc_tensor_desc *in[UVCC_OP_MAX_IN], *out[UVCC_OP_MAX_OUT];
    const char *label;
    const uvcci_message *m;
} uvcci_op_check;

/* Each is 0, or an error that the message explains. `scale` is what the op gives; it may be
 * negative. `sum` names what needs so many bits. */
int uvcci_want_shape(const uvcci_op_check *c, const uvcc_tensor_desc *t, uint32_t rows,
                     uint32_t cols);
int uvcci_want_same_shape(const uvcci_op_check *c, const uvcc_tensor_desc *t,
                          const uvcc_tensor_desc *as);
/* t has `cols` columns and so many rows that `rows` is a multiple of them. */
int uvcci_want_repeated_rows(const uvcci_op_check *c, const uvcc_tensor_desc *t, uint32_t rows,
                             uint32_t cols);
int uvcci_want_scale(const uvcci_op_check *c, const uvcc_tensor_desc *t, int scale);
int uvcci_want_bits(const uvcci_op_check *c, unsigned bits, const char *sum);
/* The op's constant is not 0. */
int uvcci_want_nonzero(const uvcci_op_check *c);

static inline bool uvcci_same_shape(const uvcc_tensor_desc *a, const uvcc_tensor_desc *b) {
    return a->rows == b->rows && a->cols == b->cols;
}

/* The smallest k with n <= 2^k. */
static inline unsigned uvcci_ceil_log2(uint64_t n) {
    unsigned bits = 0;
    while (bits < 64 && (1ull << bits) < n)
        bits++;
    return bits;
}

/* The smallest k with |c| <= 2^k. */
static inline unsigned uvcci_constant_bits(int64_t c) {
    return uvcci_ceil_log2(c < 0 ? 0 - (uint64_t)c : (uint64_t)c);
}

#endif
