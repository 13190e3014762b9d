/* SPDX-License-Identifier: Apache-2.0 */
/* gumbel.c - see gumbel.h.
 *
 * x = r_0 + r_1 + r_2 with r_c uniform on [0, N), N = 2^20: u = x mod N is uniform whatever two of
 * them are. The noise is G(u) = -ln(-ln(1 - (u + 1/2) / N)), so its N values are the quantiles of
 * the Gumbel distribution at the middles of N equal parts. G rises without end where u falls to 0,
 * which is the tail that samples come from, so a spline has knots there by thirds of octaves, down
 * to single words; towards N it has a few, by halves of octaves. */
#include "exec/model/gumbel.h"

#include "exec/base/fixed.h"

#include <assert.h>
#include <string.h>

enum {
    N = 1 << UVCCI_GUMBEL_WORD,
    DEGREE = 2,
    FINE = UVCCI_GUMBEL_SCALE, /* of all coefficients, u an integer */
    POINT_BITS = 24,           /* fraction bits of the points of parabolas */
};
_Static_assert(FINE + (int)UVCCI_GUMBEL_RANGE <= 61, "what is truncated is below 2^62");

/* x mod N for 0 <= x < 3 N, as a polynomial of degree 1 for each piece. */
static const int64_t modulo[] = {N, 2 * N, 0, 1, -N, 1, -2 * N, 1};

/* G at a word. */
static int64_t point(int64_t u) {
    const uvcci_fixed above = UVCCI_FIXED_ONE - uvcci_fixed_of(2 * u + 1, UVCCI_GUMBEL_WORD + 1);
    return uvcci_fixed_round(-uvcci_fixed_ln(-uvcci_fixed_ln(above)), POINT_BITS);
}

static void set_knots(int64_t *to) {
    unsigned n = 0;
    to[n++] = 3;
    to[n++] = 6;
    for (unsigned j = 0; j < 16; j++) { /* octaves from 8 on */
        to[n++] = 8ll << j;
        to[n++] = 10ll << j;
        to[n++] = 13ll << j;
    }
    to[n++] = N / 2;
    for (unsigned j = 18; j >= 14; j--) {
        to[n++] = N - (3ll << (j - 1));
        to[n++] = N - (1ll << j);
    }
    for (unsigned j = 13; j >= 11; j--)
        to[n++] = N - (1ll << j);
    assert(n == UVCCI_GUMBEL_KNOTS);
}

static int64_t halved(int64_t a, int64_t by) { /* a / by to the nearest, by even */
    const int64_t up = a >= 0 ? by / 2 : -(by / 2);
    return (a + up) / by;
}

/* The parabola through the points at m - h, m and m + h of the words first..last: all of them where
 * there are three, else about the zeros of a Chebyshev polynomial. All of it is integers, so that
 * parties have the same words. c_0 + c_1 u + c_2 u^2 counts mod 2^64: near N the terms, unlike
 * their sum, are larger. */
static void set_piece(int64_t *c, int64_t first, int64_t last) {
    const int64_t m = (first + last + 1) / 2;
    const int64_t h =
        last - first <= 2 ? 1 : uvcci_fixed_round((last - first) * UVCCI_FIXED_ROOT3 / 4, 0);
    const int64_t low = point(m - h), at = point(m), high = point(m + h);
    const int64_t unit = 1ll << (FINE - POINT_BITS);
    const uint64_t square = (uint64_t)halved((high - 2 * at + low) * unit, 2 * h * h);
    const uint64_t slope = (uint64_t)halved((high - low) * unit, 2 * h), u = (uint64_t)m;
    c[0] = (int64_t)((uint64_t)at * (uint64_t)unit - slope * u + square * u * u);
    c[1] = (int64_t)(slope - 2 * square * u);
    c[2] = (int64_t)square;
}

static void set_words(uvcci_gumbel *g) {
    int64_t *knots = g->words, *pieces = g->words + UVCCI_GUMBEL_KNOTS;
    set_knots(knots);
    for (unsigned i = 0; i <= UVCCI_GUMBEL_KNOTS; i++)
        set_piece(pieces + (size_t)(DEGREE + 1) * i, i == 0 ? 0 : knots[i - 1],
                  (i == UVCCI_GUMBEL_KNOTS ? N : knots[i]) - 1);
}

/* Two splines, each on what one exchange masks anew: the first takes off what x wraps, so that the
 * second has to know one period of G only. Its value needs no more than 61 bits, its terms do. */
void uvcci_gumbel_build(uvcci_gumbel *g) {
    enum { NONE = UVCC_FN_NONE };
    assert(g != NULL);
    memset(g, 0, sizeof *g);
    set_words(g);
    const uvcc_fn_instr steps[] = {
        {.kind = UVCC_FN_OPEN, .a = NONE, .b = NONE, .bits = 64, .io = 0},
        {.kind = UVCC_FN_SPLINE,
         .a = 0,
         .b = NONE,
         .io = NONE,
         .bits = UVCCI_GUMBEL_WORD + 3,
         .first = 1,
         .words = modulo,
         .word_count = sizeof modulo / sizeof modulo[0]},
        {.kind = UVCC_FN_EXCHANGE, .a = 1, .b = NONE, .io = NONE, .bits = UVCCI_GUMBEL_WORD},
        {.kind = UVCC_FN_SPLINE,
         .a = 2,
         .b = NONE,
         .io = NONE,
         .bits = UVCCI_GUMBEL_WORD + 1,
         .first = DEGREE,
         .words = g->words,
         .word_count = sizeof g->words / sizeof g->words[0]},
        {.kind = UVCC_FN_LIFT, .a = 3, .b = NONE, .io = 0, .bits = FINE + (int)UVCCI_GUMBEL_RANGE},
    };
    _Static_assert(sizeof steps == sizeof g->instrs, "as many as there is room for");
    memcpy(g->instrs, steps, sizeof steps);
    g->function = (uvcc_function){.name = "gumbel",
                                  .inputs = 1,
                                  .outputs = 1,
                                  .instr_count = UVCCI_GUMBEL_INSTRS,
                                  .instrs = g->instrs};
}
