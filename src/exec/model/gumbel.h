/* SPDX-License-Identifier: Apache-2.0 */
/* gumbel.h - noise for sampling that no party chooses, as one function: Gumbel noise of the uniform
 * word that the op RANDOM leaves (docs/transformer.md, "Noise"). */
#ifndef UVCCI_GUMBEL_H
#define UVCCI_GUMBEL_H

#include <uvcc/function.h>

/* The function takes a RANDOM of words of UVCCI_GUMBEL_WORD bits. Its values have
 * UVCCI_GUMBEL_SCALE fraction bits and are below 2^UVCCI_GUMBEL_RANGE. It does not truncate: with
 * FLOOR's, the keys of 4096 elements would not fit in a message. */
enum {
    UVCCI_GUMBEL_WORD = 20,
    UVCCI_GUMBEL_RANGE = 4,
    UVCCI_GUMBEL_SCALE = 57,
    UVCCI_GUMBEL_KNOTS = 64,
    UVCCI_GUMBEL_INSTRS = 5,
};

typedef struct uvcci_gumbel {
    uvcc_function function; /* points into the rest: valid where it stands only */
    uvcc_fn_instr instrs[UVCCI_GUMBEL_INSTRS];
    int64_t words[UVCCI_GUMBEL_KNOTS + 3 * (UVCCI_GUMBEL_KNOTS + 1)];
} uvcci_gumbel;

void uvcci_gumbel_build(uvcci_gumbel *g);

#endif
