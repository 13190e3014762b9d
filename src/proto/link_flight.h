/* SPDX-License-Identifier: Apache-2.0 */
/* link_flight.h - frames in flight: each from its first transmission to its acknowledgement, found
 * by its seq and listed as sent (datagrams) or lost. */
#ifndef UVCCI_LINK_FLIGHT_H
#define UVCCI_LINK_FLIGHT_H

#include "proto/link_state.h"

static inline uvcci_tx_block **uvcci_flight_block(const uvcc_link *l, uint64_t seq) {
    return &l->tx.ring[(seq / UVCCI_BLOCK_FRAMES) & (l->tx.ring_cap - 1)];
}
static inline uvcci_tx_frame *uvcci_flight_at(const uvcc_link *l, uint64_t seq) {
    return &(*uvcci_flight_block(l, seq))->frame[seq % UVCCI_BLOCK_FRAMES];
}
/* The seq behind a link of a list. Links are 16 bits wide: seqs in flight lie within 2^16 of each
 * other. */
static inline uint64_t uvcci_flight_seq(const uvcc_link *l, uint32_t link) {
    uint64_t base = l->tx.cum + 1;
    return base + (uint16_t)(link - 1 - (uint32_t)base);
}

/* A place for the frame l->tx.next, which it does not advance; NULL without memory. */
uvcci_tx_frame *uvcci_flight_reserve(uvcc_link *l);
/* The frame was just sent (datagrams): it is the last of the list. */
void uvcci_flight_sent(uvcc_link *l, uint64_t seq, uvcci_tx_frame *f);
/* It must go again. */
void uvcci_flight_lose(uvcc_link *l, uint64_t seq, uvcci_tx_frame *f);
/* It is in no list any more. */
void uvcci_flight_unlist(uvcc_link *l, uvcci_tx_frame *f);
/* All seqs up to `seq` are acknowledged: the blocks since that of `from` go back. */
void uvcci_flight_pass(uvcc_link *l, uint64_t from, uint64_t seq);
void uvcci_flight_free(uvcc_link *l);
uint64_t uvcci_flight_bound(const uvcc_link *l);

#endif
