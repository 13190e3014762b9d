/* SPDX-License-Identifier: Apache-2.0 */
/* fixed.h - real numbers at a fixed point, for tables and constants that parties must have in
 * common to the bit. They are made by integers alone, so they are the same on every machine and by
 * every compiler; what long double is and how libm rounds are not.
 *
 * A number stands for v 2^-96, |v| < 2^127: it is below 2^31, and so must results be. Beside each
 * call stands by how many units of 2^-96 at most its result is off, for arguments that are not. */
#ifndef UVCCI_FIXED_H
#define UVCCI_FIXED_H

#include <stdint.h>

__extension__ typedef __int128 uvcci_fixed;

enum { UVCCI_FIXED_WHOLE = 31, UVCCI_FIXED_BITS = 96 };
#define UVCCI_FIXED_ONE ((uvcci_fixed)1 << UVCCI_FIXED_BITS)

/* A fraction by its 96 bits. */
static inline uvcci_fixed uvcci_fixed_words(uint32_t high, uint64_t low) {
    return (uvcci_fixed)high << 64 | (uvcci_fixed)low;
}

#define UVCCI_FIXED_LN2 uvcci_fixed_words(0xb17217f7, 0xd1cf79abc9e3b398)
#define UVCCI_FIXED_PI  (3 * UVCCI_FIXED_ONE + uvcci_fixed_words(0x243f6a88, 0x85a308d313198a2e))
/* 1 / sqrt(2 pi) and sqrt(3) */
#define UVCCI_FIXED_NORMAL uvcci_fixed_words(0x662114cf, 0x50d942343f2cf140)
#define UVCCI_FIXED_ROOT3  (UVCCI_FIXED_ONE + uvcci_fixed_words(0xbb67ae85, 0x84caa73b25742d70))

/* v 2^-bits; bits <= 96, |v| < 2^(31 + bits). Exact. */
static inline uvcci_fixed uvcci_fixed_of(int64_t v, unsigned bits) {
    return v * ((uvcci_fixed)1 << (UVCCI_FIXED_BITS - bits));
}

/* a 2^bits to the nearest integer, ties away from zero; bits <= 95. */
int64_t uvcci_fixed_round(uvcci_fixed a, unsigned bits);

uvcci_fixed uvcci_fixed_mul(uvcci_fixed a, uvcci_fixed b); /* 1/2 */
uvcci_fixed uvcci_fixed_div(uvcci_fixed a, uvcci_fixed b); /* 1/2; b > 0 */
/* 2^2 max(1, 1 / sqrt(a)); a >= 2^-58 */
uvcci_fixed uvcci_fixed_rsqrt(uvcci_fixed a);
uvcci_fixed uvcci_fixed_exp(uvcci_fixed a); /* 2^7; a <= 1 */
uvcci_fixed uvcci_fixed_ln(uvcci_fixed a);  /* 2^6; a > 0 */
/* The normal distribution: its density at a, and how much of it lies above a. */
uvcci_fixed uvcci_fixed_normal(uvcci_fixed a);      /* 2^6; |a| < 2^15 */
uvcci_fixed uvcci_fixed_normal_tail(uvcci_fixed a); /* 2^8; 0 <= a <= 6 */

#endif
