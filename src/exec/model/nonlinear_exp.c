/* SPDX-License-Identifier: Apache-2.0 */
/* nonlinear_exp.c - EXP: exp(-t), t >= 0, for softmax too. */
#include "exec/model/nonlinear_impl.h"

#include <assert.h>

enum { EXP_WINDOW = 13, ENTRY_SCALE = 24, DROPPED = 30, DEALT_SCALE = 30 };
enum { HALF_UNIT = 1 << (DROPPED - ENTRY_SCALE - 1) };

/* exp(c v) on [0, 1] as a cubic in v: its Taylor polynomial at 1/2 (error (c/2)^4 / 24). */
static void exp_cubic(uvcci_fixed c, unsigned scale, int64_t out[4]) {
    const uvcci_fixed e = uvcci_fixed_exp(c / 2), c2 = uvcci_fixed_mul(c, c),
                      c3 = uvcci_fixed_mul(c2, c);
    const uvcci_fixed coefficient[4] = {UVCCI_FIXED_ONE - c / 2 + c2 / 8 - c3 / 48,
                                        c - c2 / 2 + c3 / 8, c2 / 2 - c3 / 4, c3 / 6};
    for (unsigned i = 0; i < 4; i++)
        out[i] = uvcci_fixed_round(uvcci_fixed_mul(e, coefficient[i]), scale);
}

static uvcci_nl_window exp_window(unsigned index_bits) {
    assert(index_bits <= 12);
    const uint32_t count = (EXP_WINDOW << index_bits) + 1;
    return (uvcci_nl_window){0, count, (uint8_t)index_bits, ENTRY_SCALE, .raise = HALF_UNIT};
}

static uvcci_nl_window exact_exp_window(unsigned index_bits) {
    const uint32_t count = (EXP_WINDOW << index_bits) + 1;
    return (uvcci_nl_window){0, count, (uint8_t)index_bits, UVCCI_NL_EXP_SCALE, .raise = 0};
}

/* Bits of the key of EXP for |t| <= reach. */
static uint8_t exp_bits(const uvcci_nl_builder *b, const uvcci_nl_window *w, uint64_t reach) {
    assert(b->o.scale >= w->index_bits);
    return uvcci_nl_table_bits(uvcci_shifted_bound(reach, b->o.scale - w->index_bits), w);
}

/* One table whose entry is multiplied by two cubics, of what the shift of the index leaves out and
 * of what it takes of the mask; HEAD and TAIL know the first, OTHER the second. */
uint8_t uvcci_nl_exp_of(uvcci_nl_builder *b, uint8_t x, unsigned index_bits, unsigned dealt_scale) {
    assert(b->o.scale > index_bits && dealt_scale <= UVCCI_NL_EXP_SCALE);
    const unsigned drop = b->o.scale - index_bits;
    const uvcci_fixed cell = uvcci_fixed_of(1, index_bits);
    const uvcci_nl_window w = exp_window(index_bits);
    const uvcci_nl_curve c = {.what = UVCC_NL_EXP};
    const uint8_t bits = exp_bits(b, &w, b->bound[x]);
    int64_t factors[8];
    uint64_t most;
    exp_cubic(-cell, ENTRY_SCALE, factors);
    exp_cubic(cell, DEALT_SCALE, factors + 4);
    /* rounds the dealt factor to the nearest */
    factors[4] += 1ll << (DEALT_SCALE - dealt_scale - 1);
    const uint8_t index = uvcci_nl_shift(b, x, drop);
    const int32_t *entries = uvcci_nl_put_entries(b, &w, &c, &most);
    const uint64_t inner = uvcci_shifted_bound(most * uvcci_nl_sum_of(factors, 4), DROPPED);
    const uint64_t outer =
        uvcci_shifted_bound(uvcci_nl_sum_of(factors + 4, 4), DEALT_SCALE - dealt_scale);
    return uvcci_nl_put(b,
                        (uvcc_fn_instr){.kind = UVCC_FN_TABLE,
                                        .a = index,
                                        .b = x,
                                        .bits = bits,
                                        .shift = (uint8_t)drop,
                                        .io = UVCC_FN_NONE,
                                        .constant = DEALT_SCALE - dealt_scale,
                                        .entry_count = w.count,
                                        .word_count = 8,
                                        .entries = entries,
                                        .words = uvcci_nl_put_words(b, factors, 8)},
                        inner * outer);
}

uint8_t uvcci_nl_exact_exp_of(uvcci_nl_builder *b, uint8_t x, unsigned index_bits,
                              unsigned low_scale) {
    assert(b->o.scale > index_bits);
    const unsigned drop = b->o.scale - index_bits;
    const uvcci_nl_window high = exact_exp_window(index_bits);
    const uvcci_nl_window low = {0, 1u << drop, b->o.scale, (uint8_t)low_scale, .raise = 0};
    const uvcci_nl_curve c = {.what = UVCC_NL_EXP};
    const uvcci_nl_index index = uvcci_nl_exact_shift(b, x, drop);
    const uint8_t bits = uvcci_nl_exact_bits(uvcci_shifted_bound(b->bound[x], drop), &high);
    const uint8_t factor = uvcci_nl_table(b, index.low, UVCC_FN_NONE, (uint8_t)drop, &low, &c);
    return uvcci_nl_exact_table(b, &index, factor, bits, &high, &c, 0);
}

static void build_exp(uvcci_nl_builder *b) {
    const unsigned drop = b->o.scale - b->o.index_bits;
    const unsigned second = b->o.out_scale - UVCCI_NL_EXP_SCALE; /* bits of the second factor */
    const uvcci_nl_window fast = exp_window(b->o.index_bits),
                          exact = exact_exp_window(b->o.index_bits);
    if (b->o.exact) {
        const uint64_t reach = uvcci_shifted_bound(uvcci_nl_all_below(b->o.in_bits), drop);
        const uint8_t x =
            uvcci_nl_open(b, 0, b->o.in_bits, drop + uvcci_nl_exact_bits(reach, &exact));
        uvcci_nl_lift_known(b, uvcci_nl_exact_exp_of(b, x, b->o.index_bits, second), 0,
                            b->o.out_scale + 1u);
        return;
    }
    const uint8_t bits = exp_bits(b, &fast, uvcci_nl_all_below(b->o.in_bits));
    uvcci_nl_lift(
        b,
        uvcci_nl_exp_of(b, uvcci_nl_open(b, 0, b->o.in_bits, drop + bits), b->o.index_bits, second),
        0);
}

/* Bits below the index of EXP have a table of their own in exact mode, which bounds them. */
static bool exp_fits(const uvcci_nl_builder *b) {
    const unsigned index = b->o.index_bits, drop = b->o.scale - index;
    return index >= 4 && index <= 12 && index < b->o.scale && drop <= (b->o.exact ? 16u : 30u) &&
           b->o.out_scale > UVCCI_NL_EXP_SCALE && b->o.out_scale <= UVCC_NL_EXP_OUT_SCALE;
}

static uint8_t exp_scale(const uvcci_nl_builder *b, unsigned output) {
    (void)output;
    return b->o.out_scale;
}

const uvcci_nl_family uvcci_nl_exp = {build_exp, exp_fits, exp_scale};
