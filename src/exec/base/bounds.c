/* SPDX-License-Identifier: Apache-2.0 */
/* bounds.c - values against the bits that are declared for them. */
#include "exec/base/bounds.h"

/* |v| >> bits, without a branch; right for INT64_MIN too. */
static uint64_t excess(int64_t v, unsigned bits) {
    const uint64_t sign = 0 - ((uint64_t)v >> 63);
    return (((uint64_t)v ^ sign) - sign) >> bits;
}

bool uvcci_all_within(const int64_t *v, size_t n, unsigned bits) {
    uint64_t any = 0;
    assert(bits >= 1 && bits <= 63);
    for (size_t i = 0; i < n; i++)
        any |= excess(v[i], bits);
    return any == 0;
}

bool uvcci_all_below(const int64_t *v, size_t n, unsigned bits) {
    uint64_t any = 0;
    assert(bits >= 1 && bits <= 63);
    for (size_t i = 0; i < n; i++)
        any |= (uint64_t)v[i] >> bits;
    return any == 0;
}

size_t uvcci_first_outside(const int64_t *v, size_t n, unsigned bits) {
    size_t i = 0;
    assert(bits >= 1 && bits <= 63);
    while (i < n && excess(v[i], bits) == 0)
        i++;
    return i;
}
