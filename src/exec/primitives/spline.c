/* SPDX-License-Identifier: Apache-2.0 */
/* spline.c - see spline.h.
 *
 * State: none. Knots, coefficients and xh are public; the shares only ever become operands. */
#include "exec/primitives/spline.h"

#include <assert.h>
#include <stdbool.h>

enum { POWERS = UVCCI_SPLINE_POWERS_MAX };

uint64_t uvcci_spline_value(const uvcci_spline *s, int64_t x) {
    unsigned piece = 0;
    assert(s->degree < POWERS && s->knots <= UVCCI_SPLINE_KNOTS_MAX);
    while (piece < s->knots && x >= s->words[piece])
        piece++;
    const int64_t *c = uvcci_spline_piece(s, piece);
    uint64_t y = (uint64_t)c[s->degree];
    for (unsigned j = s->degree; j-- > 0;)
        y = (uint64_t)c[j] + (uint64_t)x * y;
    return y;
}

/* ---- bounds ---- */

__extension__ typedef __int128 wide;

/* Sums and products that remember whether one of them did not fit. */
static wide add(bool *fits, wide x, wide y) {
    wide z;
    *fits &= !__builtin_add_overflow(x, y, &z);
    return z;
}

static wide mul(bool *fits, wide x, wide y) {
    wide z;
    *fits &= !__builtin_mul_overflow(x, y, &z);
    return z;
}

/* The most that |polynomial| is from lo to hi: a polynomial lies between the least and the greatest
 * of its Bernstein coefficients on the interval; these are those of degree 3, three times as large.
 */
static uint64_t piece_bound(const int64_t *c, unsigned degree, wide lo, wide hi) {
    wide a[POWERS] = {0}, b[POWERS], t[POWERS]; /* in powers of x - lo, times those of hi - lo */
    wide most = 0, power = 1;
    bool fits = true;
    assert(degree < POWERS && lo <= hi);
    while (degree > 0 && c[degree] == 0)
        degree--;
    for (unsigned j = 0; j <= degree; j++)
        a[j] = c[j];
    for (unsigned k = 0; k < degree; k++)
        for (unsigned j = degree; j-- > k;)
            a[j] = add(&fits, a[j], mul(&fits, lo, a[j + 1]));
    for (unsigned j = 0; j < POWERS; j++) {
        t[j] = mul(&fits, a[j], power);
        power = j < degree ? mul(&fits, power, hi - lo) : 0;
    }
    b[0] = mul(&fits, 3, t[0]);
    b[1] = add(&fits, b[0], t[1]);
    b[2] = add(&fits, add(&fits, b[1], t[1]), t[2]);
    b[3] = mul(&fits, 3, add(&fits, add(&fits, t[0], t[1]), add(&fits, t[2], t[3])));
    for (unsigned j = 0; j < POWERS && fits; j++) {
        const wide size = b[j] < 0 ? mul(&fits, b[j], -1) : b[j];
        most = size > most ? size : most;
    }
    most = fits ? add(&fits, most, 2) / 3 : 0;
    return fits && most < UINT64_MAX ? (uint64_t)most : UINT64_MAX;
}

uint64_t uvcci_spline_bound(const uvcci_spline *s, uint64_t most) {
    uint64_t bound = 0;
    const wide last = most < INT64_MAX ? (wide)most : INT64_MAX;
    const wide first = most <= INT64_MAX ? -last : INT64_MIN;
    for (unsigned i = 0; i <= s->knots; i++) {
        wide lo = first, hi = last;
        if (i != 0 && s->words[i - 1] > lo)
            lo = s->words[i - 1];
        if (i != s->knots && (wide)s->words[i] - 1 < hi)
            hi = (wide)s->words[i] - 1;
        if (lo > hi)
            continue;
        const uint64_t here = piece_bound(uvcci_spline_piece(s, i), s->degree, lo, hi);
        bound = here > bound ? here : bound;
    }
    return bound;
}

/* ---- shares ---- */

/* x or -x where the mask is set. */
static inline uint64_t negate(uint64_t x, uint64_t mask) {
    return (x ^ mask) - mask;
}

/* The coefficients of r^j in c_0 + c_1 (x - r) + .. + c_d (x - r)^d. */
static inline void in_powers_of_r(const uint64_t c[POWERS], unsigned degree, uint64_t x,
                                  uint64_t to[POWERS]) {
    for (unsigned j = 0; j <= degree; j++)
        to[j] = c[j];
    for (unsigned k = 0; k < degree; k++)
        for (unsigned j = degree; j-- > k;)
            to[j] += x * to[j + 1];
    for (unsigned j = 1; j <= degree; j += 2)
        to[j] = 0 - to[j];
}

void uvcci_spline_begin(const uvcci_spline *s, const uvcci_spline_shares *e, uint64_t *sum) {
    assert(s->degree < POWERS && e->one <= 1 && e->bits < 64);
    const int64_t *piece = uvcci_spline_piece(s, 0);
    uint64_t c[POWERS], q[POWERS];
    for (unsigned j = 0; j <= s->degree; j++)
        c[j] = (uint64_t)piece[j];
    for (uint32_t i = 0; i < e->n; i++) {
        in_powers_of_r(c, s->degree, e->xh[i], q);
        sum[i] = q[0] * e->one;
        for (unsigned j = 1; j <= s->degree; j++)
            sum[i] += q[j] * e->power[j][i];
    }
}

void uvcci_spline_add(const uvcci_spline *s, unsigned knot, const uvcci_spline_shares *e,
                      const uint64_t *dcf, uint64_t *sum) {
    assert(knot < s->knots && s->degree < POWERS);
    const int64_t *below = uvcci_spline_piece(s, knot), *above = uvcci_spline_piece(s, knot + 1);
    const unsigned w = s->degree + 1;
    uint64_t c[POWERS], q[POWERS];
    for (unsigned j = 0; j < w; j++)
        c[j] = (uint64_t)above[j] - (uint64_t)below[j];
    for (uint32_t i = 0; i < e->n; i++) {
        const uint64_t z = e->xh[i] - (uint64_t)s->words[knot], other = 0 - (z >> e->bits & 1);
        in_powers_of_r(c, s->degree, e->xh[i], q);
        for (unsigned j = 0; j < w; j++) {
            const uint64_t whole = j == 0 ? e->one : e->power[j][i];
            const uint64_t part = e->dealt[j][i] + dcf[(size_t)i * w + j];
            sum[i] += q[j] * (negate(part, other) + (whole & other));
        }
    }
}
