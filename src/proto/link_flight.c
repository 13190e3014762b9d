/* SPDX-License-Identifier: Apache-2.0 */
/* link_flight.c - frames in flight, in a ring of blocks by seq.
 *
 * Invariants: a frame is in `sent` or in a `lost` list or (streams) in neither; cum < every
 * unacknowledged seq < next <= cum + window + 1; a block is there while one of its seqs is above
 * cum.
 */
#include "proto/link_flight.h"

#include <assert.h>
#include <string.h>

#include "proto/link_core.h"
#include "proto/mutant.h"

#define RING_MIN 16u

static uint32_t link_of(uint64_t seq) {
    return (uint32_t)(seq & 0xFFFF) + 1;
}

static void list_append(uvcc_link *l, uvcci_seq_list *list, uint64_t seq, uvcci_tx_frame *f) {
    f->prev = list->last;
    f->next = 0;
    if (list->last != 0)
        uvcci_flight_at(l, uvcci_flight_seq(l, list->last))->next = link_of(seq);
    else
        list->first = link_of(seq);
    list->last = link_of(seq);
}

static void list_remove(uvcc_link *l, uvcci_seq_list *list, uvcci_tx_frame *f) {
    if (f->prev != 0)
        uvcci_flight_at(l, uvcci_flight_seq(l, f->prev))->next = f->next;
    else
        list->first = f->next;
    if (f->next != 0)
        uvcci_flight_at(l, uvcci_flight_seq(l, f->next))->prev = f->prev;
    else
        list->last = f->prev;
}

void uvcci_flight_unlist(uvcc_link *l, uvcci_tx_frame *f) {
    if (f->where == UVCCI_IN_SENT) {
        list_remove(l, &l->tx.sent, f);
        if (!UVCCI_MUTANT(26))
            l->tx.inflight -= uvcci_tx_frame_bytes(f);
    } else if (f->where == UVCCI_IN_LOST) {
        list_remove(l, &l->tx.cls[f->msg->cls].lost, f);
    }
    f->where = UVCCI_NOWHERE;
}

void uvcci_flight_sent(uvcc_link *l, uint64_t seq, uvcci_tx_frame *f) {
    assert(l->cfg.datagram && f->where == UVCCI_NOWHERE);
    list_append(l, &l->tx.sent, seq, f);
    l->tx.inflight += uvcci_tx_frame_bytes(f);
    f->where = UVCCI_IN_SENT;
}

void uvcci_flight_lose(uvcc_link *l, uint64_t seq, uvcci_tx_frame *f) {
    uvcci_flight_unlist(l, f);
    list_append(l, &l->tx.cls[f->msg->cls].lost, seq, f);
    f->where = UVCCI_IN_LOST;
    f->probed = 0;
}

static bool ring_grow(uvcc_link *l) {
    uint32_t cap = l->tx.ring_cap == 0 ? RING_MIN : 2 * l->tx.ring_cap;
    uvcci_tx_block **ring = uvcci_link_alloc(l, cap * sizeof(*ring), UVCC_MEM_STATE);
    if (ring == NULL)
        return false;
    memset(ring, 0, cap * sizeof(*ring));
    uint64_t first = l->tx.cum / UVCCI_BLOCK_FRAMES;
    for (uint32_t i = 0; i < l->tx.ring_cap; i++)
        ring[(first + i) & (cap - 1)] = l->tx.ring[(first + i) & (l->tx.ring_cap - 1)];
    uvcci_link_give(l, l->tx.ring, l->tx.ring_cap * sizeof(*ring), UVCC_MEM_STATE);
    l->tx.ring = ring;
    l->tx.ring_cap = cap;
    return true;
}

uvcci_tx_frame *uvcci_flight_reserve(uvcc_link *l) {
    uint64_t seq = l->tx.next;
    assert(seq > l->tx.cum && seq - l->tx.cum <= l->tx.window);
    while (seq / UVCCI_BLOCK_FRAMES - l->tx.cum / UVCCI_BLOCK_FRAMES >= l->tx.ring_cap)
        if (!ring_grow(l))
            return NULL;
    uvcci_tx_block **slot = uvcci_flight_block(l, seq);
    if (*slot == NULL) {
        uvcci_tx_block *b = uvcci_link_alloc(l, sizeof *b, UVCC_MEM_STATE);
        if (b == NULL)
            return NULL;
        b->received = (UINT64_C(1) << seq % UVCCI_BLOCK_FRAMES) - 1; /* frames before it are gone */
        *slot = b;
    }
    return &(*slot)->frame[seq % UVCCI_BLOCK_FRAMES];
}

void uvcci_flight_pass(uvcc_link *l, uint64_t from, uint64_t seq) {
    assert(from <= seq);
    for (uint64_t b = from / UVCCI_BLOCK_FRAMES; b < seq / UVCCI_BLOCK_FRAMES; b++) {
        uvcci_tx_block **slot = &l->tx.ring[b & (l->tx.ring_cap - 1)];
        uvcci_link_give(l, *slot, sizeof **slot, UVCC_MEM_STATE);
        *slot = NULL;
    }
}

void uvcci_flight_free(uvcc_link *l) {
    for (uint32_t i = 0; i < l->tx.ring_cap; i++)
        uvcci_link_give(l, l->tx.ring[i], sizeof **l->tx.ring, UVCC_MEM_STATE);
    uvcci_link_give(l, l->tx.ring, l->tx.ring_cap * sizeof *l->tx.ring, UVCC_MEM_STATE);
    l->tx.ring = NULL;
    l->tx.ring_cap = 0;
}

uint64_t uvcci_flight_bound(const uvcc_link *l) {
    const uint64_t blocks = l->tx.window / UVCCI_BLOCK_FRAMES + 2;
    return blocks * (sizeof(uvcci_tx_block) + 3 * sizeof(uvcci_tx_block *));
}
