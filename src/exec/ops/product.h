/* product.h - what products of two secrets share, however they are made. */
#ifndef UVCCI_PRODUCT_H
#define UVCCI_PRODUCT_H

#include "exec/runtime/builder.h"

/* What the op computes, of any shares of its operands: 3-additive, into z. False: no memory. */
bool uvcci_build_product(uvcci_builder *b, const uvcc_shares *x, const uvcc_shares *y, uint64_t *z);

#endif
