/* SPDX-License-Identifier: Apache-2.0 */
/* plain.h - a model's pass in plaintext: in double precision, with how far values reach, and the
 * fixed-point twin, which a secure run in an exact mode equals to the bit. */
#ifndef UVCC_TOOLS_MODEL_PLAIN_H
#define UVCC_TOOLS_MODEL_PLAIN_H

#include "input.h"
#include "real.h"

/* How far values are from what they should be. */
typedef struct distance {
    double most, square_sum;
    uint64_t count;
} distance;

typedef struct plain_pass {
    model_description d;
    uvcc_model_config config; /* of the fixed-point pass */
    uvcc_model_config shape;  /* of the list of weights */
    char refused[256];        /* "": there is a fixed-point pass */
    double *weights;          /* all, one after the other */
    int64_t *fixed;
    model_input in;
    double *y;  /* in double precision */
    int64_t *z; /* what the twin gives */
    ranges r;
} plain_pass;

void plain_free(plain_pass *p);
/* The list of weights is that of w->shape; the bits are those of p->config. `twin`: as integers
 * too. 0, or -1 and a line. */
int plain_weights(plain_pass *p, const weights *w, bool twin, const flag_message *m);
/* Whether the model takes tokens; else rows of embeddings. */
bool plain_takes_tokens(const plain_pass *p);
/* Rows and columns of what comes out. */
void plain_output(const plain_pass *p, size_t *rows, size_t *cols);
/* What goes in as integers, as uvcc_model_inputs() says. NULL: out of memory. */
int64_t *plain_input(const plain_pass *p);
/* The pass in double precision, into p->y and p->r: an exit status after reporting. */
int plain_real(plain_pass *p);
/* The twin, into p->z and as real numbers into *out, which is the caller's to free(): an exit
 * status after reporting. A value that leaves its bits is named by p->refused. */
int plain_twin(plain_pass *p, double **out);
/* Integers that come out of a pass as real numbers. */
double plain_opened(const plain_pass *p, int64_t v);
/* Of what comes out; rows of tokens that are none mean nothing. */
distance plain_distance(const plain_pass *p, const double *a, const double *b);
double plain_rms(const distance *d);
/* That the pass has. */
unsigned plain_value_bits(const plain_pass *p);
unsigned plain_inner_bits(const plain_pass *p);
/* The least that hold all values of the pass in double precision, or the inner ones. */
unsigned plain_bits(const plain_pass *p, bool inner, const range **who);

#endif
