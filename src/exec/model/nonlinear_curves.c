/* SPDX-License-Identifier: Apache-2.0 */
/* nonlinear_curves.c - the real functions behind tables, in long double: values, and what is left
 * of GELU and its like when their asymptotes are taken off. */
#include "exec/model/nonlinear_impl.h"

#include <assert.h>
#include <math.h>

/* ---- gates ---- */

/* With s the function that multiplies x in GELU and its like: 1 - s(a) and s'(a), a >= 0. */
typedef struct gate {
    long double tail, slope;
} gate;

static gate logistic_gate(long double a) {
    const long double tail = 1 / (1 + expl(a));
    return (gate){tail, tail * (1 - tail)};
}

static gate erf_gate(long double a) {
    const long double pi = acosl(-1);
    return (gate){erfcl(a / sqrtl(2)) / 2, expl(-a * a / 2) / sqrtl(2 * pi)};
}

static gate cubic_gate(long double a) {
    const long double pi = acosl(-1), c = 2 * sqrtl(2 / pi), k = 0.044715L;
    gate g = logistic_gate(c * (a + k * a * a * a));
    g.slope *= c * (1 + 3 * k * a * a);
    return g;
}

static gate double_gate(long double a) {
    return logistic_gate(2 * a);
}

/* ---- what is left without the asymptote: x [x >= 0], or a step at 0 ---- */

static long double rest_of_product(const gate *g, long double a, long double sign) {
    (void)sign;
    return -a * g->tail;
}

static long double rest_of_step(const gate *g, long double a, long double sign) {
    (void)a;
    return -sign * g->tail;
}

static long double rest_of_double_step(const gate *g, long double a, long double sign) {
    (void)a;
    return -2 * sign * g->tail;
}

static long double rest_of_derivative(const gate *g, long double a, long double sign) {
    return sign * (a * g->slope - g->tail);
}

/* ---- curves without asymptotes ---- */

static long double exp_at(const uvcci_nl_curve *c, long double x) {
    (void)c;
    return expl(-x);
}

static long double reciprocal_at(const uvcci_nl_curve *c, long double x) {
    (void)c;
    return 1 / x;
}

static long double rsqrt_at(const uvcci_nl_curve *c, long double x) {
    return c->gain / sqrtl(x);
}

static long double ln_at(const uvcci_nl_curve *c, long double x) {
    (void)c;
    return logl(x);
}

/* ---- all of them ---- */

static const struct {
    long double (*value)(const uvcci_nl_curve *c, long double x); /* or ... */
    gate (*gate)(long double a);
    long double (*rest)(const gate *g, long double a, long double sign); /* at sign a, a >= 0 */
    uvcc_nonlinear derivative; /* of what is x d + a table; SIGN: it is not */
} curves[UVCC_NL_COUNT] = {
    [UVCC_NL_GELU] = {.gate = erf_gate,
                      .rest = rest_of_product,
                      .derivative = UVCC_NL_GELU_DERIVATIVE},
    [UVCC_NL_GELU_TANH] = {.gate = cubic_gate,
                           .rest = rest_of_product,
                           .derivative = UVCC_NL_GELU_TANH_DERIVATIVE},
    [UVCC_NL_SILU] = {.gate = logistic_gate,
                      .rest = rest_of_product,
                      .derivative = UVCC_NL_SILU_DERIVATIVE},
    [UVCC_NL_GELU_DERIVATIVE] = {.gate = erf_gate, .rest = rest_of_derivative},
    [UVCC_NL_GELU_TANH_DERIVATIVE] = {.gate = cubic_gate, .rest = rest_of_derivative},
    [UVCC_NL_SILU_DERIVATIVE] = {.gate = logistic_gate, .rest = rest_of_derivative},
    [UVCC_NL_SIGMOID] = {.gate = logistic_gate, .rest = rest_of_step},
    [UVCC_NL_TANH] = {.gate = double_gate, .rest = rest_of_double_step},
    [UVCC_NL_EXP] = {.value = exp_at},
    [UVCC_NL_RECIPROCAL] = {.value = reciprocal_at},
    [UVCC_NL_RSQRT] = {.value = rsqrt_at},
    [UVCC_NL_LN] = {.value = ln_at},
};
_Static_assert(UVCC_NL_SIGN == 0, "no derivative is 0");

long double uvcci_nl_value_at(const uvcci_nl_curve *c, long double x) {
    const long double a = fabsl(x), sign = x >= 0 ? 1 : -1;
    if (curves[c->what].value != NULL)
        return curves[c->what].value(c, x);
    assert(curves[c->what].gate != NULL && curves[c->what].rest != NULL);
    const gate g = curves[c->what].gate(a);
    return curves[c->what].rest(&g, a, sign);
}

bool uvcci_nl_multiplies_x(uvcc_nonlinear what) {
    return uvcci_nl_derivative_of(what) != UVCC_NL_SIGN;
}

uvcc_nonlinear uvcci_nl_derivative_of(uvcc_nonlinear what) {
    assert((unsigned)what < UVCC_NL_COUNT);
    return curves[what].derivative;
}

uint32_t uvcci_nl_half_window(uvcc_nonlinear what, unsigned index_bits) {
    const uvcci_nl_curve c = {what, 1};
    assert(curves[what].gate != NULL);
    const long double enough = uvcc_nonlinear_at(what)->bound / 2;
    unsigned k = 16 * 64;
    while (k > 0 && fabsl(uvcci_nl_value_at(&c, (long double)(k - 1) / 16)) < enough)
        k--;
    return k << (index_bits - 4);
}
