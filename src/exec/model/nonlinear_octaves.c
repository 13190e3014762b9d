/* SPDX-License-Identifier: Apache-2.0 */
/* nonlinear_octaves.c - RECIPROCAL, RSQRT and LN: by octaves, either exactly (normalise, look up
 * the mantissa, weigh by the group) or along a multi-scale table. */
#include "exec/model/nonlinear_impl.h"

#include <assert.h>

enum { LN_SCALE_MAX = 30 };
enum { RECIPROCAL_LOW = 5, RSQRT_LOW = 12, LN_LOW = 1, MARGIN_BITS = 6, LEAD = 9, LEAD_BITS = 3 };

uvcci_nl_octaves uvcci_nl_octaves_from(unsigned scale, unsigned below, unsigned step,
                                       unsigned groups, unsigned entry_scale) {
    assert(scale >= below && step >= 1 && groups >= 1);
    uvcci_nl_octaves v = {scale - below, step, groups, 0, below, (uint8_t)entry_scale};
    v.top = v.low + step * (groups - 1);
    return v;
}

/* The range begins at c 2^-5 or c 2^-12 and ends above 2^12; that of ln is from c / 2 to above
 * 2^16. */
static uvcci_nl_octaves octaves_of(const uvcci_nl_builder *b) {
    const struct {
        unsigned below, step, groups, entry_scale;
    } of[UVCC_NL_COUNT] = {[UVCC_NL_RECIPROCAL] = {RECIPROCAL_LOW, 1, 17, 16},
                           [UVCC_NL_RSQRT] = {RSQRT_LOW, 2, 12, 17},
                           [UVCC_NL_LN] = {LN_LOW, 1, 17, b->o.scale}};
    assert(of[b->what].groups != 0);
    return uvcci_nl_octaves_from(b->o.scale, of[b->what].below, of[b->what].step,
                                 of[b->what].groups, of[b->what].entry_scale);
}

unsigned uvcci_nl_octaves_scale(const uvcci_nl_octaves *v) {
    return v->entry_scale + v->groups - 1 - v->below / v->step;
}

/* c 2^e, rounded up; large e leave nothing to round, and no room for more bits. */
static int64_t lead(unsigned e) {
    if (e >= LEAD_BITS)
        return (int64_t)LEAD << (e - LEAD_BITS);
    return (((int64_t)LEAD << e) + (1 << LEAD_BITS) - 1) >> LEAD_BITS;
}

/* Bit k says x >= start of group k, the last one x >= end of the range; weights telescope. Below
 * the range the value is the start of the top group with group 0, above it is the end - 1 with the
 * last group. */
static normal normalise(uvcci_nl_builder *b, uint8_t x, const uvcci_nl_octaves *v, unsigned drop) {
    assert(v->groups < UVCCI_NL_WORDS_MAX && drop <= v->low);
    const unsigned n = v->groups, end = v->top + v->step;
    int64_t from[UVCCI_NL_WORDS_MAX], move[UVCCI_NL_WORDS_MAX], clamp[UVCCI_NL_WORDS_MAX] = {0};
    for (unsigned k = 0; k <= n; k++) {
        from[k] = lead(v->low + v->step * k - drop);
        const int64_t here = k < n ? 1ll << (v->step * (n - 1 - k)) : 0;
        move[k] = here - (k == 0 ? 0 : 1ll << (v->step * (n - k)));
    }
    clamp[0] = -lead(v->top);
    clamp[n] = lead(end) - 1;
    const uint64_t reach = uvcci_shifted_bound(b->bound[x], drop) + (uint64_t)from[n];
    const uint8_t d =
        uvcci_nl_compare(b, uvcci_nl_shift(b, x, drop), uvcci_bits_of(reach), from, n + 1);
    const uint8_t moved = uvcci_nl_weigh(b, d, x, move, n + 1);
    return (normal){
        d, uvcci_nl_add(b, moved, uvcci_nl_weigh(b, d, UVCC_FN_NONE, clamp, n + 1), lead(v->top))};
}

/* What the result needs of its group k: 2^(groups - 1 - k), or for ln the logarithm of the value
 * over its mantissa, with ln_scale fraction bits (0: no ln). */
static int64_t group_value(const uvcci_nl_octaves *v, unsigned ln_scale, unsigned k) {
    assert(k < v->groups);
    if (ln_scale != 0)
        return uvcci_fixed_round(((int)k - (int)v->below) * UVCCI_FIXED_LN2, ln_scale);
    return 1ll << (v->groups - 1 - k);
}

static uint8_t of_group(uvcci_nl_builder *b, const normal *n, const uvcci_nl_octaves *v,
                        unsigned ln_scale) {
    int64_t rise[UVCCI_NL_WORDS_MAX] = {0};
    for (unsigned k = 1; k < v->groups; k++)
        rise[k] = group_value(v, ln_scale, k) - group_value(v, ln_scale, k - 1);
    return uvcci_nl_add(b, uvcci_nl_weigh(b, n->group, UVCC_FN_NONE, rise, v->groups + 1),
                        UVCC_FN_NONE, group_value(v, ln_scale, 0));
}

/* Mantissas. Fast mode compares rounded values and rounds again, so it goes over the ends a little.
 */
static uvcci_nl_window mantissas(unsigned index_bits, const uvcci_nl_octaves *v, bool fast) {
    const int64_t first = lead(index_bits), last = first << v->step;
    const int64_t below = fast ? (first >> MARGIN_BITS) + 2 : 0;
    const uint32_t count = (uint32_t)(last - first + below + fast);
    return (uvcci_nl_window){first - below, count, (uint8_t)index_bits, v->entry_scale,
                             .middle = !fast};
}

/* Of the value in the top group; over its end is still below 2^(top + step + 1). */
static unsigned mantissa_bits(const uvcci_nl_octaves *v) {
    return v->top + v->step + 1;
}

/* ---- multi-scale tables ---- */

/* Ranges: from 15/256 to 15360, from 11/16384 to 11264, from 11/32 to 90112. The cells are so many
 * that a parabola over two of them is off by about half of what the bound allows, the fraction bits
 * so many that rounded coefficients are off by less than a tenth of it where values are small. */
static const uvcci_nl_slope reciprocal_slope = {15, 8, 9, 50, 27},
                            rsqrt_slope = {11, 14, 12, 47, 22};
const uvcci_nl_slope uvcci_nl_ln_slope = {11, 5, 9, 44, 0};
/* From 15/32 on, where sums of exps are: there is a greatest one, less than exp(-1/2) is not. */
const uvcci_nl_slope uvcci_nl_sum_slope = {15, 5, 9, 50, 27};

/* a 2^by; of what is shifted out below, the rest is the floor. */
static uvcci_fixed scaled(uvcci_fixed a, int by) {
    assert(a > 0 && a >> (by > 0 ? 126 - by : 126) == 0);
    return by >= 0 ? a << by : a >> -by;
}

/* The parabola through three Chebyshev points of a cell and the halves beside it, in l that is -L,
 * 0, L at their ends and the middle, L = 2^UVCCI_MULTISCALE_BITS; what rounding takes from its
 * curve the constant makes up for on average. The points are at the middle and h = sqrt(3) / 2
 * beside it, so the curve is (y2 + y0 - 2 y1) / (2 h^2 L^2). */
static void parabola(const uvcci_nl_curve *c, const uvcci_nl_slope *s, unsigned index, int cell,
                     int64_t out[3]) {
    enum { REACH = UVCCI_MULTISCALE_BITS };
    uvcci_fixed y[3];
    for (int i = -1; i <= 1; i++)
        y[i + 1] = uvcci_nl_value_at(
            c, scaled(uvcci_fixed_of(index, 0) + i * UVCCI_FIXED_ROOT3 / 2, cell));
    const uvcci_fixed bend = y[2] + y[0] - 2 * y[1];
    out[2] = uvcci_fixed_round(2 * bend / 3, s->fine - 2 * REACH);
    out[1] = uvcci_fixed_round(uvcci_fixed_div(y[2] - y[0], UVCCI_FIXED_ROOT3), s->fine - REACH);
    out[0] = uvcci_fixed_round(y[1] + bend / 3 - uvcci_fixed_of(out[2], s->fine - 2 * REACH + 1),
                               s->fine);
}

/* The value at cells 2^e. */
static int64_t slope_value(const uvcci_nl_slope *s, const uvcci_nl_curve *c, int e) {
    return uvcci_fixed_round(uvcci_nl_value_at(c, scaled(uvcci_fixed_of(s->cells, 0), e)), s->fine);
}

/* Puts the coefficients, less `base`. Octaves beyond the range have the value of its end. */
static const int64_t *put_slope(uvcci_nl_builder *b, const uvcci_nl_slope *s,
                                const uvcci_nl_curve *c, unsigned scales, int64_t base,
                                uint64_t *most) {
    assert(scales >= 1 && s->cells <= UVCCI_MULTISCALE_CELLS_MAX);
    const unsigned cells = UVCCI_MULTISCALE_SPAN * s->cells;
    const int64_t end =
        slope_value(s, c, (int)(UVCCI_MULTISCALE_STEP * s->scales) - (int)s->finest) - base;
    const int64_t *first = NULL;
    *most = 0;
    for (unsigned k = 0; k < scales; k++) {
        int64_t w[UVCCI_MULTISCALE_WORDS][UVCCI_MULTISCALE_WINDOW] = {{0}};
        for (unsigned i = 0; i < cells; i++) {
            int64_t of[UVCCI_MULTISCALE_WORDS] = {end + base, 0, 0};
            uint64_t sum = uvcci_magnitude(base);
            if (k < s->scales)
                parabola(c, s, s->cells + i, (int)(UVCCI_MULTISCALE_STEP * k) - (int)s->finest, of);
            of[0] -= base;
            for (unsigned j = 0; j < UVCCI_MULTISCALE_WORDS; j++) {
                w[j][i] = of[j];
                sum += uvcci_magnitude(of[j]) << j * UVCCI_MULTISCALE_BITS;
            }
            *most = sum > *most ? sum : *most;
        }
        for (unsigned j = 0; j < UVCCI_MULTISCALE_WORDS; j++) {
            const int64_t *at = uvcci_nl_put_words(b, w[j], cells);
            first = first == NULL ? at : first;
        }
    }
    return first;
}

/* The most that an index of the M instruction x is, with the last scale's cells 2^width wide. */
static uint64_t indices_at(const uvcci_nl_builder *b, uint8_t x, unsigned width) {
    return uvcci_shifted_bound(b->bound[x], width) + 1;
}

/* The scales are as many as the operand's bound needs; what a cell's parabola can be is far more
 * than what the curve is, so the exchange says what is known of it. */
uint8_t uvcci_nl_along(uvcci_nl_builder *b, const uvcci_nl_slope *s, const uvcci_nl_curve *c,
                       uint8_t x, unsigned scale, unsigned out_scale) {
    assert(scale >= s->finest && out_scale <= s->fine);
    const unsigned shift = scale - s->finest;
    unsigned last = 0, top = 1; /* halvings to the last scale, bits of its indices */
    while (indices_at(b, x, shift + last) >= 4 * s->cells)
        last += UVCCI_MULTISCALE_STEP;
    while (1ull << top < indices_at(b, x, shift + last) + 4 * s->cells)
        top++;
    const unsigned scales = last / UVCCI_MULTISCALE_STEP + 1;
    const int64_t base = slope_value(s, c, -(int)s->finest);
    uint64_t most;
    const int64_t *words = put_slope(b, s, c, scales, base, &most);
    const uint8_t y =
        uvcci_nl_put(b,
                     (uvcc_fn_instr){.kind = UVCC_FN_MULTISCALE,
                                     .a = x,
                                     .b = UVCC_FN_NONE,
                                     .bits = (uint8_t)(last + top),
                                     .shift = (uint8_t)shift,
                                     .io = UVCC_FN_NONE,
                                     .first = s->cells,
                                     .constant = base,
                                     .word_count = UVCCI_MULTISCALE_WORDS * UVCCI_MULTISCALE_SPAN *
                                                   s->cells * scales,
                                     .words = words},
                     most);
    const int64_t end =
        slope_value(s, c, (int)(UVCCI_MULTISCALE_STEP * s->scales) - (int)s->finest);
    const uint64_t far =
        uvcci_magnitude(base) > uvcci_magnitude(end) ? uvcci_magnitude(base) : uvcci_magnitude(end);
    /* a cell goes on below the range by its width, in which no curve here grows by more than that
     */
    const uint8_t known = uvcci_bits_of(far + far / (s->cells - 1));
    return uvcci_nl_truncate(b, uvcci_nl_exchange(b, y, known), s->fine - out_scale);
}

/* ---- building ---- */

uvcci_nl_located uvcci_nl_locate(uvcci_nl_builder *b, uint8_t x, const uvcci_nl_octaves *v,
                                 unsigned index_bits) {
    const normal n = normalise(b, x, v, 0);
    const uint8_t value = uvcci_nl_exchange(b, n.value, mantissa_bits(v));
    return (uvcci_nl_located){n, uvcci_nl_exact_shift(b, value, v->top - index_bits), index_bits};
}

uint8_t uvcci_nl_looked_up(uvcci_nl_builder *b, const uvcci_nl_located *l,
                           const uvcci_nl_octaves *v, const uvcci_nl_curve *c, unsigned ln_scale) {
    const uvcci_nl_window w = mantissas(l->index_bits, v, false);
    const uint8_t bits = uvcci_nl_exact_bits(b->bound[l->index.index], &w);
    const uint8_t group = of_group(b, &l->n, v, ln_scale);
    if (ln_scale != 0)
        return uvcci_nl_add(b, uvcci_nl_exact_table(b, &l->index, UVCC_FN_NONE, bits, &w, c, 0),
                            group, 0);
    return uvcci_nl_exact_table(b, &l->index, uvcci_nl_exchange(b, group, v->groups), bits, &w, c,
                                0);
}

unsigned uvcci_nl_octaves_bits(const uvcci_nl_octaves *v, unsigned ln_scale) {
    return ln_scale != 0 ? ln_scale + 4 : v->entry_scale + v->groups - 1;
}

static void build_exact_octaves(uvcci_nl_builder *b, uint8_t x) {
    const uvcci_nl_octaves v = octaves_of(b);
    const uvcci_nl_curve c = {b->what, b->gain};
    const unsigned ln_scale = b->what == UVCC_NL_LN ? b->o.scale : 0;
    const uvcci_nl_located l = uvcci_nl_locate(b, x, &v, b->o.index_bits);
    uvcci_nl_lift_known(b, uvcci_nl_looked_up(b, &l, &v, &c, ln_scale), 0,
                        uvcci_nl_octaves_bits(&v, ln_scale));
}

/* What has too few fraction bits for a multiscale. */
static void build_coarse_octaves(uvcci_nl_builder *b, uint8_t x) {
    const uvcci_nl_octaves v = octaves_of(b);
    const uvcci_nl_window w = mantissas(b->o.index_bits, &v, true);
    const uvcci_nl_curve c = {b->what, b->gain};
    const bool is_ln = b->what == UVCC_NL_LN;
    const normal n = normalise(b, x, &v, v.low > MARGIN_BITS ? v.low - MARGIN_BITS : 0);
    const uint8_t group = of_group(b, &n, &v, is_ln ? b->o.scale : 0);
    const uint8_t value = uvcci_nl_exchange(b, n.value, mantissa_bits(&v));
    const uint8_t index = uvcci_nl_shift(b, value, v.top - b->o.index_bits);
    const uint8_t bits = uvcci_nl_table_bits(b->bound[index], &w);
    if (is_ln)
        uvcci_nl_lift(
            b, uvcci_nl_add(b, uvcci_nl_table(b, index, UVCC_FN_NONE, bits, &w, &c), group, 0), 0);
    else
        uvcci_nl_lift(b, uvcci_nl_table(b, index, group, bits, &w, &c), 0);
}

static void build_octaves(uvcci_nl_builder *b, const uvcci_nl_slope *s) {
    const uvcci_nl_curve c = {b->what, b->gain};
    const uint8_t x = uvcci_nl_open(b, 0, b->o.in_bits, 64);
    if (b->o.exact)
        build_exact_octaves(b, x);
    else if (b->o.scale >= s->finest)
        uvcci_nl_lift(
            b, uvcci_nl_along(b, s, &c, x, b->o.scale, s->scale != 0 ? s->scale : b->o.scale), 0);
    else
        build_coarse_octaves(b, x);
}

static void build_reciprocal(uvcci_nl_builder *b) {
    build_octaves(b, &reciprocal_slope);
}

static void build_rsqrt(uvcci_nl_builder *b) {
    build_octaves(b, &rsqrt_slope);
}

static void build_ln(uvcci_nl_builder *b) {
    build_octaves(b, &uvcci_nl_ln_slope);
}

/* ---- the functions ---- */

static bool reciprocal_fits(const uvcci_nl_builder *b) {
    return b->o.index_bits >= 4 && b->o.index_bits <= 15 && b->o.scale >= RECIPROCAL_LOW;
}

static bool rsqrt_fits(const uvcci_nl_builder *b) {
    return b->o.index_bits >= 4 && b->o.index_bits <= 14 && b->o.scale >= RSQRT_LOW && b->gain != 0;
}

static bool ln_fits(const uvcci_nl_builder *b) {
    return b->o.index_bits >= 4 && b->o.index_bits <= 15 && b->o.scale >= MARGIN_BITS &&
           b->o.scale <= LN_SCALE_MAX;
}

static uint8_t scale_of_product(const uvcci_nl_builder *b, unsigned output) {
    const uvcci_nl_octaves v = octaves_of(b);
    (void)output;
    return (uint8_t)uvcci_nl_octaves_scale(&v);
}

const uvcci_nl_family uvcci_nl_reciprocal = {build_reciprocal, reciprocal_fits, scale_of_product};
const uvcci_nl_family uvcci_nl_rsqrt = {build_rsqrt, rsqrt_fits, scale_of_product};
const uvcci_nl_family uvcci_nl_ln = {build_ln, ln_fits, NULL};
