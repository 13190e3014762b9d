/* SPDX-License-Identifier: Apache-2.0 */
/* pace.h - a token bucket in one number: `full_at` is when it will be full again, so 0 is a full
 * one. It holds depth / interval + 1 tokens and gains one every interval. Pure arithmetic of the
 * caller's clock; times near the end of the clock stand still there. */
#ifndef UVCCI_PACE_H
#define UVCCI_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* The earliest time at which there is a token. */
static inline uint64_t uvcci_pace_at(uint64_t full_at, uint64_t depth) {
    return full_at > depth ? full_at - depth : 0;
}
static inline bool uvcci_pace_has(uint64_t full_at, uint64_t depth, uint64_t now) {
    return uvcci_pace_at(full_at, depth) <= now;
}
static inline void uvcci_pace_spend(uint64_t *full_at, uint64_t interval, uint64_t now) {
    uint64_t from = *full_at > now ? *full_at : now;
    *full_at = from > UINT64_MAX - 1 - interval ? UINT64_MAX - 1 : from + interval;
}
static inline void uvcci_pace_refund(uint64_t *full_at, uint64_t interval) {
    *full_at -= *full_at < interval ? *full_at : interval;
}

#endif
