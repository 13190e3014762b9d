/* SPDX-License-Identifier: Apache-2.0 */
/* fixed.c - see fixed.h. Series end where their terms are 0; each term is off by at most two units
 * (a product, a quotient, and what the term before was off, made smaller), and no argument here
 * needs more terms than TERMS. None of it sees a secret. */
#include "exec/base/fixed.h"

#include <assert.h>

__extension__ typedef unsigned __int128 word;

enum { TERMS = 256 };

static word magnitude(uvcci_fixed a) {
    return a < 0 ? -(word)a : (word)a;
}

static uvcci_fixed with_sign(word m, uvcci_fixed sign) {
    assert(m >> 127 == 0);
    return sign < 0 ? -(uvcci_fixed)m : (uvcci_fixed)m;
}

int64_t uvcci_fixed_round(uvcci_fixed a, unsigned bits) {
    assert(bits < UVCCI_FIXED_BITS);
    const unsigned drop = UVCCI_FIXED_BITS - bits;
    const word m = (magnitude(a) + ((word)1 << (drop - 1))) >> drop;
    assert(m <= INT64_MAX);
    return (int64_t)with_sign(m, a);
}

/* Of the 256 bits of the product of two 127-bit numbers, those from 2^-96 on. */
uvcci_fixed uvcci_fixed_mul(uvcci_fixed a, uvcci_fixed b) {
    const word x = magnitude(a), y = magnitude(b);
    const uint64_t x0 = (uint64_t)x, x1 = (uint64_t)(x >> 64);
    const uint64_t y0 = (uint64_t)y, y1 = (uint64_t)(y >> 64);
    const word left = (word)x0 * y1, right = (word)x1 * y0;
    const word low = ((word)x0 * y0 >> 64) + (uint64_t)left + (uint64_t)right;
    const word high = (word)x1 * y1 + (left >> 64) + (right >> 64) + (low >> 64);
    assert(high >> 95 == 0);
    return with_sign((high << 32) + (((uint64_t)low >> 32) + ((low >> 31) & 1)), a ^ b);
}

/* As many digits at a time as there is room for above the divisor. */
uvcci_fixed uvcci_fixed_div(uvcci_fixed a, uvcci_fixed b) {
    assert(b > 0);
    const word by = (word)b;
    const unsigned room = b >> 64 != 0 ? (unsigned)__builtin_clzll((uint64_t)(b >> 64)) : 64;
    word q = magnitude(a) / by, rest = magnitude(a) - q * by;
    for (unsigned done = 0, n; done < UVCCI_FIXED_BITS; done += n) {
        n = UVCCI_FIXED_BITS - done < room ? UVCCI_FIXED_BITS - done : room;
        const word digits = (rest << n) / by;
        assert(q >> (127 - n) == 0);
        rest = (rest << n) - digits * by;
        q = q << n | digits;
    }
    return with_sign(q + (rest >= by - rest), a);
}

/* With a = m 4^k, m from 1 to 4, Newton's iteration for 1 / sqrt(m), from a line that is off by a
 * sixth at most: after i steps by (3/2)^(2^i - 1) 6^-(2^i). */
uvcci_fixed uvcci_fixed_rsqrt(uvcci_fixed a) {
    enum { STEPS = 6 };
    assert(a > 0);
    int k = 0;
    for (; a >= 4 * UVCCI_FIXED_ONE; k++)
        a >>= 2;
    for (; a < UVCCI_FIXED_ONE; k--)
        a <<= 2;
    uvcci_fixed y = UVCCI_FIXED_ONE * 37 / 32 - a * 11 / 64;
    for (unsigned i = 0; i < STEPS; i++) {
        const uvcci_fixed off = UVCCI_FIXED_ONE - uvcci_fixed_mul(a, uvcci_fixed_mul(y, y));
        y += uvcci_fixed_mul(y, off) / 2;
    }
    assert(k > -UVCCI_FIXED_WHOLE);
    return k >= 0 ? y >> k : y << -k;
}

/* exp(a) = 2^k times what it gives, from 0.7 to 1.42. */
static uvcci_fixed reduced_exp(uvcci_fixed a, int *k) {
    const uvcci_fixed ln2 = UVCCI_FIXED_LN2;
    *k = (int)((2 * a + (a < 0 ? -ln2 : ln2)) / (2 * ln2));
    const uvcci_fixed r = a - *k * ln2;
    uvcci_fixed term = UVCCI_FIXED_ONE, sum = term;
    for (int n = 1; n < TERMS && term != 0; n++) {
        term = uvcci_fixed_mul(term, r) / n;
        sum += term;
    }
    assert(term == 0);
    return sum;
}

static uvcci_fixed down(uvcci_fixed a, int by) {
    assert(a >= 0 && by >= 0);
    return by < 127 ? a >> by : 0;
}

uvcci_fixed uvcci_fixed_exp(uvcci_fixed a) {
    assert(a <= UVCCI_FIXED_ONE);
    int k;
    const uvcci_fixed e = reduced_exp(a, &k);
    return k > 0 ? e << k : down(e, -k);
}

/* a = m 2^k, m from 2/3 to 4/3; ln m = 2 artanh((m - 1) / (m + 1)). */
uvcci_fixed uvcci_fixed_ln(uvcci_fixed a) {
    assert(a > 0);
    const uvcci_fixed one = UVCCI_FIXED_ONE;
    int k = 0;
    for (; a < one - one / 3; k--)
        a <<= 1;
    int by = 0;
    while (down(a, by) > one + one / 3)
        by++;
    a >>= by;
    const uvcci_fixed z = uvcci_fixed_div(a - one, a + one), square = uvcci_fixed_mul(z, z);
    uvcci_fixed power = z, sum = z;
    for (int n = 3; n < 2 * TERMS && power != 0; n += 2) {
        power = uvcci_fixed_mul(power, square);
        sum += power / n;
    }
    assert(power == 0);
    return 2 * sum + (k + by) * UVCCI_FIXED_LN2;
}

uvcci_fixed uvcci_fixed_normal(uvcci_fixed a) {
    return uvcci_fixed_mul(uvcci_fixed_exp(-uvcci_fixed_mul(a, a) / 2), UVCCI_FIXED_NORMAL);
}

/* 1/2 less density times a + a^3 / 3 + a^5 / (3 5) + ..: no term is negative, so none is larger
 * than the sum, and the density's power of 2 is taken off the sum before that is rounded. */
uvcci_fixed uvcci_fixed_normal_tail(uvcci_fixed a) {
    assert(a >= 0 && a <= 6 * UVCCI_FIXED_ONE);
    const uvcci_fixed square = uvcci_fixed_mul(a, a);
    uvcci_fixed term = a, sum = a;
    int k;
    for (int n = 3; n < 2 * TERMS && term != 0; n += 2) {
        term = uvcci_fixed_mul(term, square) / n;
        sum += term;
    }
    assert(term == 0);
    const uvcci_fixed density = uvcci_fixed_mul(reduced_exp(-square / 2, &k), UVCCI_FIXED_NORMAL);
    return UVCCI_FIXED_ONE / 2 - uvcci_fixed_mul(density, down(sum, -k));
}
