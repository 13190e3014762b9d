/* nonlinear.h - what building functions and emitting them share. */
#ifndef UVCCI_NONLINEAR_H
#define UVCCI_NONLINEAR_H

#include <uvcc/nonlinear.h>

#define UVCCI_NL_SCALE_MAX 48u
#define UVCCI_NL_BITS_MAX  61u
#define UVCCI_NL_OUT_MAX   3u

/* Options with their defaults filled in. */
int uvcci_nonlinear_options(uvcc_nonlinear what, const uvcc_nonlinear_options *given,
                            uvcc_nonlinear_options *out);

/* What a function (no BLOCK, nothing composed) is without its tables. */
typedef struct uvcci_nl_shape {
    uint8_t inputs, outputs;
    uint8_t bits[UVCCI_NL_OUT_MAX], scale[UVCCI_NL_OUT_MAX]; /* of outputs */
} uvcci_nl_shape;
int uvcci_nonlinear_shape(uvcc_nonlinear what, const uvcc_nonlinear_options *options,
                          uvcci_nl_shape *out);

/* EXP and its like: in exact mode a composition. */
bool uvcci_nonlinear_composed(uvcc_nonlinear what);
/* Bits of an input's exact index (options complete). */
unsigned uvcci_nonlinear_index_bits(const uvcc_nonlinear_options *o);
/* x d + table, and so with x as an input beside the index. */
bool uvcci_nonlinear_multiplies_x(uvcc_nonlinear what);

#endif
