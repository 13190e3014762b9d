/* SPDX-License-Identifier: Apache-2.0 */
/* link_core.c - the memory and the clock of a link.
 *
 * Invariants: every byte is taken through uvcci_link_alloc and counted; l->now never falls. */
#include "proto/link_core.h"

#include <assert.h>

#define MS UINT64_C(1000000)
/* Caches of an idle link go back after this time. */
#define TRIM_NS (100 * MS)

void uvcci_link_trim_later(uvcc_link *l) {
    l->trim_at = uvcci_later(l->now, TRIM_NS);
}

void *uvcci_link_alloc(uvcc_link *l, size_t bytes, uvcc_mem_class cls) {
    void *p = l->cfg.alloc.alloc(l->cfg.alloc.user, bytes, cls);
    if (p == NULL)
        return NULL;
    l->stats.memory_bytes += bytes;
    if (l->trim_at == UVCC_NEVER)
        uvcci_link_trim_later(l);
    return p;
}

void uvcci_link_give(uvcc_link *l, void *p, size_t bytes, uvcc_mem_class cls) {
    if (p == NULL)
        return;
    assert(l->stats.memory_bytes >= bytes);
    l->stats.memory_bytes -= bytes;
    l->cfg.alloc.free(l->cfg.alloc.user, p, bytes, cls);
}

void uvcci_link_give_sealed(uvcc_link *l, void *p, size_t bytes) {
    const uvcc_allocator *al = &l->cfg.alloc;
    if (p == NULL || al->free_sealed == NULL) {
        uvcci_link_give(l, p, bytes, UVCC_MEM_WIRE);
        return;
    }
    assert(l->stats.memory_bytes >= bytes);
    l->stats.memory_bytes -= bytes;
    al->free_sealed(al->user, p, bytes, UVCC_MEM_WIRE);
}

void uvcci_link_tick(uvcc_link *l, uint64_t now) {
    uint64_t last = l->now - l->skew;
    if (now < last) {
        l->skew += last - now;
        l->stats.clock_back++;
    }
    l->now = uvcci_max64(l->now, uvcci_later(now, l->skew));
}

bool uvcci_link_stepless(uint8_t kind) {
    return kind == UVCC_FRAME_STEP || kind == UVCC_FRAME_AUDIT || kind == UVCC_FRAME_BYE ||
           kind == UVCC_FRAME_CANCEL;
}
