/* SPDX-License-Identifier: Apache-2.0 */
/* measure_real.h - what functions are measured on, and what they give on real numbers.
 *
 * Numbers have MEASURE_SCALE fraction bits. Element functions get a list of inputs: the ends of the
 * range and what lies beyond, the surroundings of 0, of powers of 2 and of the ends of index cells,
 * an even sweep (of the logarithm where errors are relative) and random values. Functions of rows
 * get rows of several kinds: random, narrow, equal, at the ends, with one element above all others.
 */
#ifndef UVCC_TOOLS_MEASURE_REAL_H
#define UVCC_TOOLS_MEASURE_REAL_H

#include <stddef.h>
#include <uvcc/nonlinear.h>

enum { MEASURE_SCALE = 16, MEASURE_INPUTS_MAX = 3 };
#define MEASURE_EPSILON 2.5e-3 /* of the norms */

/* Rows x cols values of the first input; gamma and beta, where a norm has them, are rows of cols.
 */
typedef struct measure_shape {
    uint32_t rows, cols;
} measure_shape;

/* Declared bits of input i: room for values beyond the range, where 25 bits have it. */
uint8_t measure_bits(uvcc_nonlinear what, unsigned i);
measure_shape measure_shape_of(uvcc_nonlinear what, unsigned i, measure_shape x);
uvcc_nonlinear_options measure_options(uvcc_nonlinear what, bool exact, bool plain, uint32_t cols);

/* Inputs of an element function. */
void measure_elements(uvcc_nonlinear what, uint64_t *random, int64_t *x, size_t count);
/* All inputs of a function of rows; in[1] is NULL for a norm without gamma and beta. */
void measure_rows(uvcc_nonlinear what, uint64_t *random, measure_shape s,
                  int64_t *const in[MEASURE_INPUTS_MAX]);

/* The real values of the first output, and what they may be off by: relative where the function's
 * errors are (measure_relative), negative for inputs that the bound does not speak of. */
void measure_real(uvcc_nonlinear what, bool exact, measure_shape s,
                  int64_t *const in[MEASURE_INPUTS_MAX], double *want, double *bound);
bool measure_relative(uvcc_nonlinear what);
/* An element function at x. */
double measure_real_at(uvcc_nonlinear what, double x);

#endif
