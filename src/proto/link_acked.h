/* SPDX-License-Identifier: Apache-2.0 */
/* link_acked.h - what acknowledgements and silence tell a sender: which frames are there, which are
 * lost, which may be forgotten, how long the round trip is. */
#ifndef UVCCI_LINK_ACKED_H
#define UVCCI_LINK_ACKED_H

#include "proto/ackmsg.h"
#include "proto/link_state.h"

/* May the peer acknowledge up to seq? Ask before uvcci_tx_cum and uvcci_tx_ack. */
bool uvcci_tx_cum_valid(const uvcc_link *l, uint64_t seq);
bool uvcci_tx_ack_valid(const uvcc_link *l, const uvcci_ack *a);
/* The peer has every seq up to this one; or what an ACK says. */
void uvcci_tx_cum(uvcc_link *l, uint64_t seq);
void uvcci_tx_ack(uvcc_link *l, const uvcci_ack *a);

/* The wait before silence is taken for loss. */
uint64_t uvcci_tx_rto(const uvcc_link *l);
/* Sets the timer by the oldest frame in flight. */
void uvcci_tx_rto_arm(uvcc_link *l);
/* PINGs while there is something to wait for and nothing in flight that would be answered: credit,
 * or the acceptance of frames that came. */
void uvcci_tx_ping_arm(uvcc_link *l);
void uvcci_acked_init(uvcc_link *l);
void uvcci_tx_on_timer(uvcc_link *l);

#endif
