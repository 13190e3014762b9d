/* SPDX-License-Identifier: Apache-2.0 */
/* nonlinear_rows.c - functions of rows: MAX and ARGMAX by trees of comparisons, SOFTMAX. */
#include "exec/model/nonlinear_impl.h"

#include <assert.h>

static unsigned levels_of(uint32_t cols) {
    assert(cols != 0);
    unsigned levels = 1;
    while (levels < 32 && 1ull << levels < cols)
        levels++;
    return levels;
}

/* second + d (first - second) of adjacent pairs: one of the two, so their bound is its. */
static uint8_t winner(uvcci_nl_builder *b, uint8_t d, uint8_t diff, uint8_t value) {
    const uint8_t second = uvcci_nl_one_operand(b, UVCC_FN_PAIR_SECOND, value, b->bound[value]);
    const uint8_t one_of_two =
        uvcci_nl_add(b, uvcci_nl_weigh(b, d, diff, uvcci_nl_one, 1), second, 0);
    b->bound[one_of_two] = b->bound[value];
    return one_of_two;
}

static uint8_t pair_diff(uvcci_nl_builder *b, uint8_t value) {
    return uvcci_nl_one_operand(b, UVCC_FN_PAIR_DIFF, value, 2 * b->bound[value]);
}

/* One of the columns of each pair that is the greater, or falls short of it by less than 2^drop. */
static uint8_t pair_best(uvcci_nl_builder *b, uint8_t value, unsigned drop) {
    const uint8_t diff = pair_diff(b, value), index = uvcci_nl_shift(b, diff, drop);
    return winner(b, uvcci_nl_compare(b, index, uvcci_bits_of(b->bound[index]), uvcci_nl_zero, 1),
                  diff, value);
}

/* The same of groups of four, all pairs of which are compared; less than 2 2^drop. Values are
 * shifted before they are compared: the bits of a group then contradict each other no more than
 * integers do.
 */
static uint8_t quad_best(uvcci_nl_builder *b, uint8_t value, unsigned drop) {
    const uint8_t diff = uvcci_nl_one_operand(b, UVCC_FN_QUAD_DIFF, value, 2 * b->bound[value]);
    const uint8_t short_value = uvcci_nl_shift(b, value, drop);
    const uint8_t index = drop == 0 ? diff
                                    : uvcci_nl_one_operand(b, UVCC_FN_QUAD_DIFF, short_value,
                                                           2 * b->bound[short_value]);
    const uint8_t d = uvcci_nl_compare(b, index, uvcci_bits_of(b->bound[index]), uvcci_nl_zero, 1);
    const uint8_t best = uvcci_nl_two_operands(b, UVCC_FN_QUAD_BEST, d, diff, b->bound[diff]);
    const uint8_t last = uvcci_nl_one_operand(b, UVCC_FN_QUAD_LAST, value, b->bound[value]);
    const uint8_t one_of_four = uvcci_nl_add(b, best, last, 0);
    b->bound[one_of_four] = b->bound[value];
    return one_of_four;
}

/* An element of each row of the M instruction x that falls short of the greatest by less than
 * *slack (0: it is the greatest): by a tree of groups of four, where one level of pairs comes first
 * if need be, since that level has the most comparisons. */
static uint8_t row_best(uvcci_nl_builder *b, uint8_t x, unsigned drop, uint64_t *slack) {
    unsigned levels = levels_of(b->o.cols);
    uint8_t best = x;
    *slack = 0;
    for (uint8_t value = x; levels != 0;) {
        const unsigned of = levels % 2 != 0 ? 1 : 2;
        best = of == 1 ? pair_best(b, value, drop) : quad_best(b, value, drop);
        *slack += drop != 0 ? (uint64_t)of << drop : 0;
        levels -= of;
        if (levels != 0)
            value = uvcci_nl_exchange(b, best, 0);
    }
    return best;
}

static void build_shallow_max(uvcci_nl_builder *b) {
    uint64_t slack;
    uvcci_nl_lift(b, row_best(b, uvcci_nl_open(b, 0, b->o.in_bits, 64), 0, &slack), 0);
}

/* Fraction bits of exp's index and of its dealt factor, of 1 / sum, and of what is compared to find
 * the greatest element. A product of exp and 1 / sum is a probability. */
enum { SOFTMAX_INDEX = 4, SOFTMAX_DEALT = 16, INVERSE_SCALE = 27, COARSE_BITS = 5 };
enum { SOFTMAX_SCALE = UVCCI_NL_EXP_SCALE + SOFTMAX_DEALT + INVERSE_SCALE };
_Static_assert(UVCCI_NL_EXP_SCALE + SOFTMAX_DEALT == UVCC_NL_SOFTMAX_EXP_SCALE, "of exp(m - x)");

/* How far m is above what it would be, where rows are to be rounded anew: two cells of exp, so that
 * a row's greatest element stays below it. */
static int64_t headroom(const uvcc_nonlinear_options *o) {
    return o->headroom ? 1ll << (o->scale - UVCC_NL_HEADROOM_BITS) : 0;
}

/* m, in the column that `saved` and `loss` both have. */
static uint8_t exchange_top(uvcci_nl_builder *b, uint8_t top) {
    return uvcci_nl_exchange_to(b, top, b->o.loss || b->o.saved ? 1 : UVCC_FN_NONE, 0);
}

static uint8_t exchange_inverse(uvcci_nl_builder *b, uint8_t inverse, unsigned known) {
    return uvcci_nl_exchange_to(b, inverse, b->o.saved ? 2 : UVCC_FN_NONE, known);
}

/* Of ln(sum of exp). */
static unsigned loss_scale(const uvcc_nonlinear_options *o) {
    return o->scale > UVCCI_NL_EXP_SCALE ? o->scale : UVCCI_NL_EXP_SCALE;
}

/* An element or bound of each row, in all its columns, less x. */
static uint8_t below_top(uvcci_nl_builder *b, uint8_t top, uint8_t x) {
    const uint8_t tops = uvcci_nl_two_operands(b, UVCC_FN_SPREAD, top, x, b->bound[top]);
    return uvcci_nl_two_operands(b, UVCC_FN_SUB, tops, x,
                                 uvcci_sat_add(b->bound[tops], b->bound[x]));
}

static uint8_t row_sum(uvcci_nl_builder *b, uint8_t e) {
    return uvcci_nl_one_operand(b, UVCC_FN_ROW_SUM, e, uvcci_sat_mul(b->bound[e], b->o.cols));
}

/* e times the column `inverse`; known: bits of it. */
static uint8_t times_inverse(uvcci_nl_builder *b, uint8_t e, uint8_t inverse, unsigned known) {
    const uint8_t inverses =
        uvcci_nl_two_operands(b, UVCC_FN_SPREAD, inverse, e, b->bound[inverse]);
    return uvcci_nl_exchange(b, uvcci_nl_two_operands(b, UVCC_FN_MUL, e, inverses, UINT64_MAX),
                             known);
}

/* exp(m - x) / sum of exp(m - x), m a little above the greatest x: what it is exactly cancels. */
static void build_fast_softmax(uvcci_nl_builder *b) {
    assert(b->o.scale > SOFTMAX_INDEX && b->o.cols != 0);
    const uvcc_nonlinear_options *o = &b->o;
    const unsigned drop = o->scale > COARSE_BITS ? o->scale - COARSE_BITS : 0;
    uint64_t slack;
    const uint8_t x = uvcci_nl_open(b, 0, o->in_bits, 64);
    const uint8_t best = row_best(b, x, drop, &slack);
    const uint8_t top =
        exchange_top(b, uvcci_nl_add(b, best, UVCC_FN_NONE, (int64_t)slack + headroom(o)));
    const uint8_t t = below_top(b, top, x);
    const uint8_t e = uvcci_nl_exchange(b, uvcci_nl_exp_of(b, t, SOFTMAX_INDEX, SOFTMAX_DEALT), 0);
    const uint8_t sum = row_sum(b, e);
    const unsigned scale = UVCCI_NL_EXP_SCALE + SOFTMAX_DEALT;
    const uvcci_nl_curve inverse_curve = {UVCC_NL_RECIPROCAL, UVCCI_FIXED_ONE},
                         ln_curve = {UVCC_NL_LN, UVCCI_FIXED_ONE};
    if (o->loss)
        uvcci_nl_lift(
            b, uvcci_nl_along(b, &uvcci_nl_ln_slope, &ln_curve, sum, scale, loss_scale(o)), 2);
    const uint8_t inverse = exchange_inverse(
        b, uvcci_nl_along(b, &uvcci_nl_sum_slope, &inverse_curve, sum, scale, INVERSE_SCALE), 0);
    const uint8_t p = times_inverse(b, e, inverse, SOFTMAX_SCALE + 1);
    uvcci_nl_lift_known(b, uvcci_nl_truncate(b, p, SOFTMAX_SCALE - o->out_scale), 0,
                        o->out_scale + 1u);
}

/* With m the greatest x, one exp is 1 and their sum from 1 to the number of columns. Entries of 1 /
 * sum have 16 bits, or as many as leave the products below 2^62. */
static uvcci_nl_octaves sum_octaves(const uvcci_nl_builder *b, unsigned scale,
                                    unsigned entry_scale) {
    unsigned above = 0; /* octaves from 1 on */
    while (1u << above < b->o.cols)
        above++;
    if (entry_scale == 0)
        entry_scale = above <= 12 ? 16 : 28 - above;
    return uvcci_nl_octaves_from(scale, 1, 1, above + 1, entry_scale);
}

static void build_exact_softmax(uvcci_nl_builder *b) {
    assert(b->o.scale > SOFTMAX_INDEX && b->o.cols != 0);
    const uvcc_nonlinear_options *o = &b->o;
    const unsigned scale = UVCCI_NL_EXP_SCALE + SOFTMAX_DEALT;
    const uvcci_nl_octaves v = sum_octaves(b, scale, 0), ln = sum_octaves(b, scale, loss_scale(o));
    const uvcci_nl_curve inverse_curve = {UVCC_NL_RECIPROCAL, UVCCI_FIXED_ONE},
                         ln_curve = {UVCC_NL_LN, UVCCI_FIXED_ONE};
    const unsigned fraction = scale + uvcci_nl_octaves_scale(&v);
    uint64_t slack;
    const uint8_t x = uvcci_nl_open(b, 0, o->in_bits, 64);
    uint8_t best = row_best(b, x, 0, &slack);
    if (o->headroom)
        best = uvcci_nl_add(b, best, UVCC_FN_NONE, headroom(o));
    const uint8_t top = exchange_top(b, best);
    const uint8_t t = below_top(b, top, x);
    const uint8_t e =
        uvcci_nl_exchange(b, uvcci_nl_exact_exp_of(b, t, SOFTMAX_INDEX, SOFTMAX_DEALT), scale + 1);
    const uvcci_nl_located l =
        uvcci_nl_locate(b, row_sum(b, e), &v, uvcc_nonlinear_at(UVCC_NL_RECIPROCAL)->index_bits);
    if (o->loss)
        uvcci_nl_lift_known(b, uvcci_nl_looked_up(b, &l, &ln, &ln_curve, loss_scale(o)), 2,
                            uvcci_nl_octaves_bits(&ln, loss_scale(o)));
    const uint8_t inverse = exchange_inverse(b, uvcci_nl_looked_up(b, &l, &v, &inverse_curve, 0),
                                             uvcci_nl_octaves_bits(&v, 0));
    const uint8_t p = times_inverse(b, e, inverse, fraction + 1);
    uvcci_nl_lift_known(b, uvcci_nl_truncate_exactly(b, p, fraction - o->out_scale), 0,
                        o->out_scale + 1u);
}

/* MAX and ARGMAX: a tree; ties go to the first of a pair, so to the lowest index. */
static void build_tree(uvcci_nl_builder *b) {
    static const int64_t minus_one[1] = {-1};
    const bool arg = b->what == UVCC_NL_ARGMAX;
    const unsigned levels = levels_of(b->o.cols);
    uint8_t value = uvcci_nl_open(b, 0, b->o.in_bits, 64), index = UVCC_FN_NONE;
    for (unsigned l = 0; l < levels; l++) {
        const bool last = l + 1 == levels;
        const uint8_t diff = pair_diff(b, value);
        const uint8_t d =
            uvcci_nl_compare(b, diff, uvcci_bits_of(b->bound[diff]), uvcci_nl_zero, 1);
        if (arg) {
            if (l == 0) {
                const uint64_t most = 2ull * (b->o.cols / 2 + b->o.cols % 2) - 1;
                const uint8_t odd = uvcci_nl_one_operand(b, UVCC_FN_INDEX, diff, most);
                index = uvcci_nl_add(b, odd, uvcci_nl_weigh(b, d, UVCC_FN_NONE, minus_one, 1), 0);
            } else {
                index = winner(b, d, pair_diff(b, index), index);
            }
            if (!last)
                index = uvcci_nl_exchange(b, index, 0);
        }
        if (!last)
            value = uvcci_nl_exchange(b, winner(b, d, diff, value), 0);
        else if (!arg)
            index = winner(b, d, diff, value);
    }
    uvcci_nl_lift(b, index, 0);
}

static void build_max(uvcci_nl_builder *b) {
    if (b->o.shallow)
        build_shallow_max(b);
    else
        build_tree(b);
}

static void build_softmax(uvcci_nl_builder *b) {
    if (b->o.exact)
        build_exact_softmax(b);
    else
        build_fast_softmax(b);
}

/* ---- the functions ---- */

static bool softmax_fits(const uvcci_nl_builder *b) {
    return b->o.scale > SOFTMAX_INDEX && b->o.scale <= SOFTMAX_INDEX + (b->o.exact ? 16 : 26) &&
           uvcci_nl_columns_fit(b) && !(b->o.saved && b->o.loss);
}

static uint8_t scale_of_index(const uvcci_nl_builder *b, unsigned output) {
    (void)b;
    (void)output;
    return 0;
}

static uint8_t scale_of_inverse(const uvcci_nl_builder *b) {
    const uvcci_nl_octaves v = sum_octaves(b, UVCC_NL_SOFTMAX_EXP_SCALE, 0);
    return b->o.exact ? (uint8_t)uvcci_nl_octaves_scale(&v) : INVERSE_SCALE;
}

/* Probabilities; then the greatest element, and ln(sum of exp) or 1 / sum. */
static uint8_t scale_of_softmax(const uvcci_nl_builder *b, unsigned output) {
    assert(output < UVCCI_NL_OUT_MAX);
    if (output != 2)
        return output == 0 ? b->o.out_scale : b->o.scale;
    return b->o.saved ? scale_of_inverse(b) : (uint8_t)loss_scale(&b->o);
}

const uvcci_nl_family uvcci_nl_max = {build_max, uvcci_nl_columns_fit, NULL};
const uvcci_nl_family uvcci_nl_argmax = {build_tree, uvcci_nl_columns_fit, scale_of_index};
const uvcci_nl_family uvcci_nl_softmax = {build_softmax, softmax_fits, scale_of_softmax};
