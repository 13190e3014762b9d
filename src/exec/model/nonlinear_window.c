/* SPDX-License-Identifier: Apache-2.0 */
/* nonlinear_window.c - functions that are simple outside a window: SIGN, RELU and CLIP (no table at
 * all), GELU and its like, their derivatives, SIGMOID, TANH (a table beside an asymptote). */
#include "exec/model/nonlinear_impl.h"

#include <assert.h>
#include <math.h>

/* SIGN and RELU. */
static void build_sign(uvcci_nl_builder *b) {
    assert(b->o.exact || b->o.scale >= b->o.index_bits);
    const uvcc_nonlinear_options *o = &b->o;
    const unsigned drop = o->exact ? 0 : o->scale - o->index_bits;
    const uint8_t bits = uvcci_bits_of(uvcci_shifted_bound(uvcci_nl_all_below(o->in_bits), drop));
    const bool relu = b->what == UVCC_NL_RELU;
    const uint8_t x = uvcci_nl_open(b, 0, o->in_bits, relu ? 64 : drop + bits + 1u);
    const uint8_t d = uvcci_nl_compare(b, uvcci_nl_shift(b, x, drop), bits, uvcci_nl_zero, 1);
    if (relu)
        uvcci_nl_lift(b, uvcci_nl_weigh(b, d, x, uvcci_nl_one, 1), 0);
    if (!relu || o->derivative)
        uvcci_nl_lift(b, uvcci_nl_weigh(b, d, UVCC_FN_NONE, uvcci_nl_one, 1), relu);
}

/* CLIP: x ([x >= -limit] - [x >= limit]) + limit ([x >= -limit] + [x >= limit] - 1). */
static void build_clip(uvcci_nl_builder *b) {
    assert(b->o.exact || b->o.scale >= b->o.index_bits);
    static const int64_t inside[2] = {1, -1};
    const uvcc_nonlinear_options *o = &b->o;
    const unsigned drop = o->exact ? 0 : o->scale - o->index_bits;
    const int64_t cells = llround(ldexp(o->limit, (int)(o->scale - drop)));
    const int64_t ends[2] = {-cells, cells}, limit[2] = {cells << drop, cells << drop};
    const uint64_t reach =
        uvcci_shifted_bound(uvcci_nl_all_below(o->in_bits), drop) + (uint64_t)cells;
    const uint8_t x = uvcci_nl_open(b, 0, o->in_bits, 64);
    const uint8_t d =
        uvcci_nl_compare(b, uvcci_nl_shift(b, x, drop), uvcci_bits_of(reach), ends, 2);
    const uint8_t y = uvcci_nl_weigh(b, d, x, inside, 2),
                  at_ends = uvcci_nl_weigh(b, d, UVCC_FN_NONE, limit, 2);
    const uint64_t most =
        (uint64_t)limit[0] + uvcci_nl_all_below(drop); /* a cell is wholly in or out */
    uvcci_nl_lift_known(b, uvcci_nl_add(b, y, at_ends, -limit[0]), 0, uvcci_bits_of(most));
}

/* Where there is no product with x: how much the step at 0 rises by, and from where. */
static int64_t height_of(const uvcci_nl_builder *b, uvcc_nonlinear what) {
    return uvcci_nl_multiplies_x(what) ? 0 : (int64_t)(what == UVCC_NL_TANH ? 2 : 1) << b->o.scale;
}

static int64_t least_of(const uvcci_nl_builder *b, uvcc_nonlinear what) {
    return what == UVCC_NL_TANH ? -(1ll << b->o.scale) : 0;
}

/* Table + x d, or table + a step at 0. */
static uint8_t with_asymptote(uvcci_nl_builder *b, uvcc_nonlinear what, uint8_t t, uint8_t d,
                              uint8_t x) {
    const int64_t height = height_of(b, what);
    if (uvcci_nl_multiplies_x(what))
        return uvcci_nl_add(b, t, uvcci_nl_weigh(b, d, x, uvcci_nl_one, 1), 0);
    return uvcci_nl_add(b, t, uvcci_nl_weigh(b, d, UVCC_FN_NONE, &height, 1), least_of(b, what));
}

/* GELU and its like, derivatives, SIGMOID, TANH: one key for the comparison and all tables. */
typedef struct windows {
    uvcc_nonlinear what[2];
    uvcci_nl_window w[2];
    unsigned count;
    uint8_t bits;
} windows;

static windows windows_of(const uvcci_nl_builder *b, unsigned drop) {
    const uvcc_nonlinear_options *o = &b->o;
    const bool two = uvcci_nl_multiplies_x(b->what) && o->derivative;
    const uint64_t reach = uvcci_shifted_bound(uvcci_nl_all_below(o->in_bits), drop);
    windows v = {{b->what, two ? uvcci_nl_derivative_of(b->what) : b->what}, .count = 1u + two};
    for (unsigned i = 0; i < v.count; i++) {
        const uint32_t half = uvcci_nl_half_window(v.what[i], o->index_bits);
        v.w[i] = (uvcci_nl_window){-(int64_t)half, 2 * half, o->index_bits, o->scale,
                                   .middle = o->exact};
        const uint8_t wanted = uvcci_nl_exact_bits(reach, &v.w[i]);
        v.bits = wanted > v.bits ? wanted : v.bits;
    }
    return v;
}

static void build_fast_window(uvcci_nl_builder *b, const windows *v, uint8_t x, unsigned drop) {
    assert(v->count >= 1 && v->count <= 2);
    const uint8_t index = uvcci_nl_shift(b, x, drop),
                  d = uvcci_nl_compare(b, index, v->bits, uvcci_nl_zero, 1);
    for (unsigned i = 0; i < v->count; i++) {
        const uvcci_nl_curve c = {.what = v->what[i]};
        const uint8_t t = uvcci_nl_table(b, index, UVCC_FN_NONE, v->bits, &v->w[i], &c);
        uvcci_nl_lift(b, with_asymptote(b, v->what[i], t, d, x), (uint8_t)i);
    }
}

/* Table + x [floor >= 0], or + an instruction there: [floor >= 0] is [index >= 1], or [index = 0]
 * where kept. */
static void build_exact_window(uvcci_nl_builder *b, const windows *v, uint8_t x, unsigned drop) {
    assert(drop != 0 && v->count >= 1 && v->count <= 2);
    static const int64_t from[2] = {1, 0}, above[2] = {1, 0}, at_zero[2] = {-1, 1};
    const uvcci_nl_index index = uvcci_nl_exact_shift(b, x, drop);
    const uint8_t d =
        uvcci_nl_compare(b, index.index, v->bits, from, uvcci_nl_multiplies_x(b->what) ? 2 : 1);
    for (unsigned i = 0; i < v->count; i++) {
        const uvcci_nl_curve c = {.what = v->what[i]};
        const int64_t height = height_of(b, v->what[i]), steps[2] = {height, 0};
        uint8_t t = uvcci_nl_exact_table(b, &index, UVCC_FN_NONE, v->bits, &v->w[i], &c, height);
        if (uvcci_nl_multiplies_x(v->what[i])) {
            t = uvcci_nl_add(b, t, uvcci_nl_weigh(b, d, x, above, 2), 0);
            t = uvcci_nl_add(b, t, uvcci_nl_weigh_both(b, d, index.kept, x, at_zero, 2), 0);
        } else {
            t = uvcci_nl_add(
                b, t,
                uvcci_nl_weigh(b, d, UVCC_FN_NONE, steps, uvcci_nl_multiplies_x(b->what) ? 2 : 1),
                least_of(b, v->what[i]));
        }
        uvcci_nl_lift(b, t, (uint8_t)i);
    }
}

static void build_window(uvcci_nl_builder *b) {
    assert(b->o.scale >= b->o.index_bits);
    const uvcc_nonlinear_options *o = &b->o;
    const unsigned drop = o->scale - o->index_bits;
    const windows v = windows_of(b, drop);
    const bool whole = uvcci_nl_multiplies_x(b->what);
    const uint8_t x = uvcci_nl_open(b, 0, o->in_bits, whole ? 64 : drop + v.bits + 1u);
    if (o->exact && drop != 0)
        build_exact_window(b, &v, x, drop);
    else
        build_fast_window(b, &v, x, drop);
}

/* ---- the functions ---- */

enum { LIMIT_BITS_MAX = 60 };

/* At least a cell, and within the bits that a value has. */
static bool limit_fits(const uvcci_nl_builder *b) {
    const uvcc_nonlinear_options *o = &b->o;
    return uvcci_nl_index_fits(b) &&
           o->limit >= ldexp(1, -(int)(o->exact ? o->scale : o->index_bits)) &&
           o->limit <= ldexp(1, LIMIT_BITS_MAX - o->scale);
}

static uint8_t scale_of_bits(const uvcci_nl_builder *b, unsigned output) {
    (void)b;
    (void)output;
    return 0;
}

static uint8_t scale_of_relu(const uvcci_nl_builder *b, unsigned output) {
    return output == 0 ? b->o.scale : 0;
}

const uvcci_nl_family uvcci_nl_sign = {build_sign, uvcci_nl_index_fits, scale_of_bits};
const uvcci_nl_family uvcci_nl_relu = {build_sign, uvcci_nl_index_fits, scale_of_relu};
const uvcci_nl_family uvcci_nl_clip = {build_clip, limit_fits, NULL};
const uvcci_nl_family uvcci_nl_asymptotic = {build_window, uvcci_nl_index_fits, NULL};
