/* SPDX-License-Identifier: Apache-2.0 */
/* bounds.h - arithmetic of bounds on magnitudes that stops at UINT64_MAX, which means: no bound. */
#ifndef UVCCI_BOUNDS_H
#define UVCCI_BOUNDS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline uint64_t uvcci_sat_add(uint64_t x, uint64_t y) {
    uint64_t z;
    return __builtin_add_overflow(x, y, &z) ? UINT64_MAX : z;
}

static inline uint64_t uvcci_sat_mul(uint64_t x, uint64_t y) {
    uint64_t z;
    return __builtin_mul_overflow(x, y, &z) ? UINT64_MAX : z;
}

static inline uint64_t uvcci_magnitude(int64_t v) {
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

/* Smallest n >= 1 with bound < 2^n (64 where there is none). */
static inline uint8_t uvcci_bits_of(uint64_t bound) {
    uint8_t n = 1;
    while (n < 64 && bound >> n != 0)
        n++;
    return n;
}

/* Of floor(v / 2^shift), |v| <= x. shift < 64. */
static inline uint64_t uvcci_shifted_bound(uint64_t x, unsigned shift) {
    assert(shift < 64);
    if (x == UINT64_MAX)
        return x;
    return (x >> shift) + ((x & ((1ull << shift) - 1)) != 0);
}

/* Whether all |v[i]| < 2^bits (1..63). Values are secrets: only the answer depends on them. */
bool uvcci_all_within(const int64_t *v, size_t n, unsigned bits);
/* Whether all 0 <= v[i] < 2^bits, likewise. */
bool uvcci_all_below(const int64_t *v, size_t n, unsigned bits);
/* The first that is not within, where the answer was no. Which one it is, a refusal tells its own
 * host. */
size_t uvcci_first_outside(const int64_t *v, size_t n, unsigned bits);

#endif
