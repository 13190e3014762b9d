/* SPDX-License-Identifier: Apache-2.0 */
/* real.h - the forward pass of a model in double precision, from the formulas of its description;
 * and how far values reach on the way, by the names that the tensors of the fixed-point pass have.
 */
#ifndef UVCC_TOOLS_MODEL_REAL_H
#define UVCC_TOOLS_MODEL_REAL_H

#include "description.h"

/* Of one tensor of the pass. */
typedef struct range {
    char name[32];
    double most; /* of |value| */
    bool inner;  /* it has inner_bits; else value_bits */
} range;

typedef struct ranges {
    range *at;
    size_t count, room;
    /* of what norms divide by the root of: variance or mean square, with epsilon */
    double least_square, most_square;
} ranges;

typedef struct real_pass {
    const model_description *d;
    const uvcc_model_config *shape; /* of the weights' list; its tokens are the most there may be */
    const double *weights;          /* all, one after the other */
    uint32_t sequences, tokens;
    const int64_t *ids, *types; /* where the model takes tokens; types NULL: all are 0 */
    const int64_t *padding;     /* sequences * tokens, 1: no token; NULL: all are some */
} real_pass;

/* Rows and columns of what comes out. */
void real_output(const real_pass *p, size_t *rows, size_t *cols);
/* x, sequences * tokens rows of width (NULL where the model takes tokens), becomes y. 0, or -1
 * without memory. */
int real_forward(const real_pass *p, const double *x, double *y, ranges *r);
/* The norm over rows that BERT has on its embeddings, in place. */
void real_norm(const model_description *d, double *x, size_t rows, const double *gain,
               const double *shift);
void ranges_free(ranges *r);
/* The least bits under which |value| < 2^bits, of all or of the inner ones; *who: the tensor that
 * needs them. At least 1. */
unsigned ranges_bits(const ranges *r, bool inner, const range **who);

#endif
