/* SPDX-License-Identifier: Apache-2.0 */
/* link_core.h - what every module of the link stands on: its memory, counted, its clock, and sums
 * of times that cannot wrap. */
#ifndef UVCCI_LINK_CORE_H
#define UVCCI_LINK_CORE_H

#include "proto/link_state.h"

void *uvcci_link_alloc(uvcc_link *l, size_t bytes, uvcc_mem_class cls);
void uvcci_link_give(uvcc_link *l, void *p, size_t bytes, uvcc_mem_class cls);
/* Of WIRE memory whose bytes were all sealed where they stand. */
void uvcci_link_give_sealed(uvcc_link *l, void *p, size_t bytes);
/* Time is `now` or, if the caller's clock stepped back, stands still. */
void uvcci_link_tick(uvcc_link *l, uint64_t now);
/* Caches of an idle link go back this long from now. */
void uvcci_link_trim_later(uvcc_link *l);
bool uvcci_link_stepless(uint8_t kind); /* STEP, AUDIT, BYE */

static inline uint64_t uvcci_later(uint64_t t, uint64_t by) {
    if (by == UVCC_NEVER)
        return UVCC_NEVER;
    return t >= UVCC_NEVER - 1 - by ? UVCC_NEVER - 1 : t + by;
}

static inline uint64_t uvcci_min64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline uint64_t uvcci_max64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* The peer lives: something new of it came, that nobody else can have sent and that is no replay.
 * PINGs are none, so both ends of an idle link ask and hear an answer. */
static inline void uvcci_heard(uvcc_link *l) {
    l->heard_at = l->now;
    l->tx.alive_at = uvcci_later(l->now, l->cfg.keepalive_ns);
}

static inline uint64_t uvcci_msg_cost(uint32_t len) {
    return (uint64_t)len + UVCCI_MSG_OVERHEAD_BYTES;
}

static inline void uvcci_digest64(uvcci_sha256 *h, uint64_t v) {
    uvcci_sha256_update(h, &v, sizeof v);
}

#endif
