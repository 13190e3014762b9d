/* SPDX-License-Identifier: Apache-2.0 */
/* multiply.h - the local part of a product of two secrets, however the product is made: what one
 * party computes of its own shares, 3-additive. */
#ifndef UVCCI_MULTIPLY_H
#define UVCCI_MULTIPLY_H

#include "exec/runtime/builder.h"

enum { UVCCI_DETAIL_GEMM = 255 }; /* of a product's class; others name their map */

/* What the instance's part of the product is, into z. False: no memory. */
bool uvcci_build_product(uvcci_builder *b, uint64_t *z);
/* x y by elements, y of the shape of x, or a column, a row or one value for all of it. */
bool uvcci_build_mul_part(uvcci_builder *b, const uvcc_shares *x, const uvcc_shares *y,
                          uint64_t *z);
/* Elements of an operand (0, 1) that a tile of a product on triples reads, or of the result (2)
 * that it is: whole rows, all of an operand that every row of the result depends on. */
typedef struct uvcci_span {
    uint64_t from, to;
} uvcci_span;
uvcci_span uvcci_tile_span(const uvcci_builder *b, uint32_t tile, unsigned operand);
/* The product's rows of that tile, into z; x and y are the whole operands, read where the spans
 * are. */
bool uvcci_build_tile(uvcci_builder *b, uint32_t tile, const uvcc_shares *x, const uvcc_shares *y,
                      uint64_t *z);
/* z = or += the op's product of matrices, or its products of blocks. */
bool uvcci_build_gemm(uvcci_builder *b, const uvcc_shares *xs, const uvcc_shares *ys, uint64_t *z,
                      bool accumulate);

#endif
