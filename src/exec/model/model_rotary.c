/* SPDX-License-Identifier: Apache-2.0 */
/* model_rotary.c - the table of rotary positions: cosines and sines of angles t theta^(-2j / head
 * size), made by integers, so that all parties have the same (exec/base/fixed.h). */
#include "exec/base/fixed.h"
#include "exec/model/model.h"

#include <assert.h>
#include <math.h>

/* A complex number. */
typedef struct turn {
    uvcci_fixed re, im;
} turn;

static turn times(turn a, turn b) {
    return (turn){uvcci_fixed_mul(a.re, b.re) - uvcci_fixed_mul(a.im, b.im),
                  uvcci_fixed_mul(a.re, b.im) + uvcci_fixed_mul(a.im, b.re)};
}

/* exp(i a) of 0 <= a <= 1, by its series. */
static turn turn_by(uvcci_fixed a) {
    turn sum = {UVCCI_FIXED_ONE, 0};
    uvcci_fixed term = UVCCI_FIXED_ONE;
    assert(a >= 0 && a <= UVCCI_FIXED_ONE);
    for (unsigned n = 1; term != 0; n++) {
        term = uvcci_fixed_mul(term, a) / n;
        const uvcci_fixed signed_term = n % 4 < 2 ? term : -term;
        if (n % 2 == 0)
            sum.re += signed_term;
        else
            sum.im += signed_term;
    }
    return sum;
}

/* A double of 1 to 2^30 is a multiple of 2^-52. */
static uvcci_fixed of_double(double v) {
    const double whole = floor(v);
    return uvcci_fixed_of((int64_t)whole, 0) + uvcci_fixed_of((int64_t)ldexp(v - whole, 52), 52);
}

/* A row is the one before, turned on: a unit of 2^-96 more off for each, of 2^16 rows. */
void uvcci_model_rotary(const uvcc_model_config *m, int64_t *table) {
    const uint32_t head = uvcci_model_head_size(m), half = head / 2;
    const uvcci_fixed ln =
        uvcci_fixed_ln(m->rope_theta != 0 ? of_double(m->rope_theta) : uvcci_fixed_of(10000, 0));
    assert(head % 2 == 0 && half != 0 && m->tokens <= 1u << 16);
    for (uint32_t j = 0; j < half; j++) {
        const uvcci_fixed exponent =
            uvcci_fixed_mul(ln, uvcci_fixed_div(uvcci_fixed_of(2 * j, 0), uvcci_fixed_of(head, 0)));
        const turn each = turn_by(uvcci_fixed_exp(-exponent));
        turn at = {UVCCI_FIXED_ONE, 0};
        for (uint32_t t = 0; t < m->tokens; t++) {
            table[(size_t)t * head + j] = uvcci_fixed_round(at.re, UVCCI_MODEL_ROTARY_SCALE);
            table[(size_t)t * head + half + j] = uvcci_fixed_round(at.im, UVCCI_MODEL_ROTARY_SCALE);
            at = times(at, each);
        }
    }
}
