/* SPDX-License-Identifier: Apache-2.0 */
/* link_window.h - the seqs that came: which are new, which the peer may forget, what an ACK says of
 * them and when it is due. */
#ifndef UVCCI_LINK_WINDOW_H
#define UVCCI_LINK_WINDOW_H

#include "proto/ackmsg.h"
#include "proto/link_state.h"

/* An ACK is to go in `delay` at the latest. */
void uvcci_ack_within(uvcc_link *l, uint64_t delay);
/* Something of this many bytes wants an ACK: soon, or now if much came. */
void uvcci_ack_note(uvcc_link *l, uint64_t bytes);
/* What the next ACK says, with at most max_ranges ranges; it will be sent. */
void uvcci_window_ack(uvcc_link *l, uvcci_ack *out, uint32_t max_ranges);

/* True if a seq above the cumulative one came before. */
bool uvcci_window_seen(const uvcc_link *l, uint64_t seq);
/* Room for seq, which lies within UVCCI_WINDOW of the cumulative one; false without memory. */
bool uvcci_window_reserve(uvcc_link *l, uint64_t seq);
/* It came: ranges tell so from now on. */
void uvcci_window_see(uvcc_link *l, uint64_t seq);
/* It is kept, whatever happens, and so is what it completed: the cumulative ack may pass it. */
void uvcci_window_keep(uvcc_link *l, uint64_t seq);
/* Bit 0: may be acknowledged; bit 1: seen. For digests. */
uint32_t uvcci_window_state(const uvcc_link *l, uint64_t seq);
void uvcci_window_free(uvcc_link *l);
uint64_t uvcci_window_bound(void);

/* Bytes of messages that this end takes in a class. */
uint64_t uvcci_rx_capacity(const uvcc_link *l, int cls);

#endif
