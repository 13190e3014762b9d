/* SPDX-License-Identifier: Apache-2.0 */
/* spline.h - piecewise polynomials with public knots (UVCC_FN_SPLINE): their words, value and
 * bound, and how HEAD and TAIL evaluate one on a DCF key.
 *
 * x = xh - r, m = bits, b = bit m of r, l = [z mod 2^m < r mod 2^m] with z = xh - knot. Then [x >=
 * knot] is 1 - b XOR l, or not that where bit m of z is 1. A DCF for alpha = r mod 2^m with the
 * payload (2b - 1) r^j gives shares of l (2b - 1) r^j, and u_j = (1 - b) r^j is dealt: the sum is
 * (1 - b XOR l) r^j. With shares v_j of r^j for the other sign and for the piece below all knots,
 * [x >= knot] Q(x) is linear in what is shared, as the coefficients of r^j in Q(xh - r) are public
 * to the edge. */
#ifndef UVCCI_SPLINE_H
#define UVCCI_SPLINE_H

#include <stddef.h>
#include <stdint.h>

enum { UVCCI_SPLINE_DEGREE_MAX = 3, UVCCI_SPLINE_KNOTS_MAX = 64 };
enum { UVCCI_SPLINE_POWERS_MAX = UVCCI_SPLINE_DEGREE_MAX + 1 };

/* words: the knots, rising, then degree + 1 coefficients, lowest first, for each of knots + 1
 * pieces; the first piece lies below all knots, a knot belongs to the piece above it. */
typedef struct uvcci_spline {
    unsigned degree, knots;
    const int64_t *words;
} uvcci_spline;

static inline uint32_t uvcci_spline_words(unsigned degree, unsigned knots) {
    return degree + 1 + knots * (degree + 2);
}
/* degree at most UVCCI_SPLINE_DEGREE_MAX; knots 0 if there are too few words. */
static inline uvcci_spline uvcci_spline_of(unsigned degree, uint32_t word_count,
                                           const int64_t *words) {
    const uint32_t more = word_count > degree ? word_count - degree - 1 : 0;
    return (uvcci_spline){degree, more / (degree + 2), words};
}
/* Words that OTHER deals for an element: u_0 .. u_d, then r^2 .. r^d. */
static inline uint32_t uvcci_spline_dealt(unsigned degree) {
    return degree + 1 + (degree > 1 ? degree - 1 : 0);
}

/* The coefficients of a piece. */
static inline const int64_t *uvcci_spline_piece(const uvcci_spline *s, unsigned piece) {
    return s->words + s->knots + (uint64_t)piece * (s->degree + 1);
}

/* The value at x mod 2^64. */
uint64_t uvcci_spline_value(const uvcci_spline *s, int64_t x);
/* No |value| at an integer |x| <= most exceeds it, of the values in Z; UINT64_MAX: none is known.
 */
uint64_t uvcci_spline_bound(const uvcci_spline *s, uint64_t most);

/* What a party of the edge has of n elements. */
typedef struct uvcci_spline_shares {
    uint32_t n;
    unsigned bits;
    uint64_t one;                                   /* share of 1: 1 at HEAD, 0 at TAIL */
    const uint64_t *xh;                             /* public to the edge */
    const uint64_t *power[UVCCI_SPLINE_POWERS_MAX]; /* [1 .. degree]: shares of r^j */
    const uint64_t *dealt[UVCCI_SPLINE_POWERS_MAX]; /* [0 .. degree]: shares of u_j */
} uvcci_spline_shares;
/* sum = the share of the first piece's polynomial. */
void uvcci_spline_begin(const uvcci_spline *s, const uvcci_spline_shares *e, uint64_t *sum);
/* sum += the share of [x >= knot] (the piece above less the piece below). dcf: degree + 1 words for
 * each element, the shares of (2b - 1) r^j [xh - knot mod 2^bits < r mod 2^bits]. */
void uvcci_spline_add(const uvcci_spline *s, unsigned knot, const uvcci_spline_shares *e,
                      const uint64_t *dcf, uint64_t *sum);

#endif
