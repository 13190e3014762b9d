/* SPDX-License-Identifier: Apache-2.0 */
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

/* What a function (of BLOCKs SOFTMAX) is without its tables. */
typedef struct uvcci_nl_shape {
    uint8_t outputs;
    uint8_t bits[UVCCI_NL_OUT_MAX], scale[UVCCI_NL_OUT_MAX]; /* of outputs */
} uvcci_nl_shape;
int uvcci_nonlinear_shape(uvcc_nonlinear what, const uvcc_nonlinear_options *options,
                          uvcci_nl_shape *out);
/* uvcc_nonlinear_output() for a program that is being built, which remembers what it learnt (NULL:
 * for none). */
int uvcci_nonlinear_output_in(uvcc_program *p, uvcc_nonlinear what,
                              const uvcc_nonlinear_options *options, const uvcc_tensor_desc *in,
                              uvcc_tensor_desc *out);

/* What a causal mask fills in above the diagonal of x: so far below any element that its exp is 0.
 * bits: of the masked tensor. */
int64_t uvcci_nonlinear_mask(const uvcc_tensor_desc *x, uint8_t *bits);

#endif
