/* SPDX-License-Identifier: Apache-2.0 */
/* fixed.h - weights as fixed-point integers: rounded to the nearest (to the even one of two), and
 * held within their declared bits. */
#ifndef UVCC_TOOLS_MODEL_FIXED_H
#define UVCC_TOOLS_MODEL_FIXED_H

#include "weights.h"

enum { FIXED_BITS_MOST = 40 }; /* all that weights of a checkpoint can need */

/* Of one weight, or of all. */
typedef struct fixed_stats {
    double most;      /* of |w| */
    unsigned bits;    /* the least under which no rounded one leaves |w| < 2^bits; at least 1 */
    uint64_t clipped; /* that leave `bits` of the call */
} fixed_stats;

/* Adds count values to *s; fixed_stats at first: {0}. */
void fixed_note(fixed_stats *s, const double *v, uint64_t count, unsigned frac_bits, unsigned bits);
/* Values that leave their bits become the nearest that does not. out: of its own, or v's memory, if
 * that came from malloc(). */
void fixed_round(const double *v, uint64_t count, unsigned frac_bits, unsigned bits, int64_t *out);
double fixed_real(int64_t v, unsigned frac_bits);

#endif
