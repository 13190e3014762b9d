/* SPDX-License-Identifier: Apache-2.0 */
/* nonlinear_curves.c - the real functions behind tables, at a fixed point: values, and what is left
 * of GELU and its like when their asymptotes are taken off. */
#include "exec/model/nonlinear_impl.h"

#include <assert.h>

/* ---- gates ---- */

/* With s the function that multiplies x in GELU and its like: 1 - s(a) and s'(a), a >= 0. */
typedef struct gate {
    uvcci_fixed tail, slope;
} gate;

static gate logistic_gate(uvcci_fixed a) {
    const uvcci_fixed e = uvcci_fixed_exp(-a), tail = uvcci_fixed_div(e, UVCCI_FIXED_ONE + e);
    return (gate){tail, uvcci_fixed_mul(tail, UVCCI_FIXED_ONE - tail)};
}

static gate normal_gate(uvcci_fixed a) {
    return (gate){uvcci_fixed_normal_tail(a), uvcci_fixed_normal(a)};
}

/* 2 sqrt(2 / pi) (a + 0.044715 a^3) in a logistic gate. */
static gate cubic_gate(uvcci_fixed a) {
    const uvcci_fixed c = 4 * UVCCI_FIXED_NORMAL, k = UVCCI_FIXED_ONE * 44715 / 1000000;
    const uvcci_fixed bend = uvcci_fixed_mul(k, uvcci_fixed_mul(a, a));
    gate g = logistic_gate(uvcci_fixed_mul(c, a + uvcci_fixed_mul(bend, a)));
    g.slope = uvcci_fixed_mul(g.slope, uvcci_fixed_mul(c, UVCCI_FIXED_ONE + 3 * bend));
    return g;
}

static gate double_gate(uvcci_fixed a) {
    return logistic_gate(2 * a);
}

/* ---- what is left without the asymptote: x [x >= 0], or a step at 0 ---- */

static uvcci_fixed rest_of_product(const gate *g, uvcci_fixed a, int sign) {
    (void)sign;
    return -uvcci_fixed_mul(a, g->tail);
}

static uvcci_fixed rest_of_step(const gate *g, uvcci_fixed a, int sign) {
    (void)a;
    return -sign * g->tail;
}

static uvcci_fixed rest_of_double_step(const gate *g, uvcci_fixed a, int sign) {
    (void)a;
    return -2 * sign * g->tail;
}

static uvcci_fixed rest_of_derivative(const gate *g, uvcci_fixed a, int sign) {
    return sign * (uvcci_fixed_mul(a, g->slope) - g->tail);
}

/* ---- curves without asymptotes ---- */

static uvcci_fixed exp_at(const uvcci_nl_curve *c, uvcci_fixed x) {
    (void)c;
    return uvcci_fixed_exp(-x);
}

static uvcci_fixed reciprocal_at(const uvcci_nl_curve *c, uvcci_fixed x) {
    (void)c;
    return uvcci_fixed_div(UVCCI_FIXED_ONE, x);
}

static uvcci_fixed rsqrt_at(const uvcci_nl_curve *c, uvcci_fixed x) {
    return uvcci_fixed_mul(c->gain, uvcci_fixed_rsqrt(x));
}

static uvcci_fixed ln_at(const uvcci_nl_curve *c, uvcci_fixed x) {
    (void)c;
    return uvcci_fixed_ln(x);
}

/* ---- all of them ---- */

static const struct {
    uvcci_fixed (*value)(const uvcci_nl_curve *c, uvcci_fixed x); /* or ... */
    gate (*gate)(uvcci_fixed a);
    uvcci_fixed (*rest)(const gate *g, uvcci_fixed a, int sign); /* at sign a, a >= 0 */
    uvcc_nonlinear derivative; /* of what is x d + a table; SIGN: it is not */
} curves[UVCC_NL_COUNT] = {
    [UVCC_NL_GELU] = {.gate = normal_gate,
                      .rest = rest_of_product,
                      .derivative = UVCC_NL_GELU_DERIVATIVE},
    [UVCC_NL_GELU_TANH] = {.gate = cubic_gate,
                           .rest = rest_of_product,
                           .derivative = UVCC_NL_GELU_TANH_DERIVATIVE},
    [UVCC_NL_SILU] = {.gate = logistic_gate,
                      .rest = rest_of_product,
                      .derivative = UVCC_NL_SILU_DERIVATIVE},
    [UVCC_NL_GELU_DERIVATIVE] = {.gate = normal_gate, .rest = rest_of_derivative},
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

uvcci_fixed uvcci_nl_value_at(const uvcci_nl_curve *c, uvcci_fixed x) {
    const uvcci_fixed a = x >= 0 ? x : -x;
    if (curves[c->what].value != NULL)
        return curves[c->what].value(c, x);
    assert(curves[c->what].gate != NULL && curves[c->what].rest != NULL);
    const gate g = curves[c->what].gate(a);
    return curves[c->what].rest(&g, a, x >= 0 ? 1 : -1);
}

int uvcci_nl_parity(const uvcci_nl_curve *c) {
    if (curves[c->what].gate == NULL)
        return 0;
    return curves[c->what].rest == rest_of_product ? 1 : -1;
}

bool uvcci_nl_multiplies_x(uvcc_nonlinear what) {
    return uvcci_nl_derivative_of(what) != UVCC_NL_SIGN;
}

uvcc_nonlinear uvcci_nl_derivative_of(uvcc_nonlinear what) {
    assert((unsigned)what < UVCC_NL_COUNT);
    return curves[what].derivative;
}

/* By 1/16, from where all of it is below 2^-12 and falls: GELU's at 6, the others' at 16. */
uint32_t uvcci_nl_half_window(uvcc_nonlinear what, unsigned index_bits) {
    const uvcci_nl_curve c = {.what = what};
    const uvcci_fixed enough = uvcci_nl_bound(what) / 2;
    assert(curves[what].gate != NULL && enough > UVCCI_FIXED_ONE >> 12);
    unsigned k = 16 * (curves[what].gate == normal_gate ? 6 : 16);
    for (; k > 0; k--) {
        const uvcci_fixed rest = uvcci_nl_value_at(&c, uvcci_fixed_of(k - 1, 4));
        if (rest >= enough || -rest >= enough)
            break;
    }
    return k << (index_bits - 4);
}
