/* SPDX-License-Identifier: Apache-2.0 */
/* link_tx.h - what goes on the wire next: control frames that are due, frames that were lost, new
 * pieces of messages. */
#ifndef UVCCI_LINK_TX_H
#define UVCCI_LINK_TX_H

#include "proto/link_state.h"

void uvcci_tx_init(uvcc_link *l);
void uvcci_tx_free(uvcc_link *l);
/* The stream is another or none: an outstanding transmit is void. */
void uvcci_tx_stream_reset(uvcc_link *l);
/* When on_timer has something to do. */
uint64_t uvcci_tx_timer_deadline(const uvcc_link *l);
/* When a poll has, beside an ACK, if it can: no transmit is out, nor a rest of one. */
uint64_t uvcci_tx_poll_deadline(const uvcc_link *l);
bool uvcci_tx_can_poll(const uvcc_link *l);
/* Bytes of transmits that were built and not taken. */
size_t uvcci_tx_left(const uvcc_link *l);
/* Gives caches back; nothing may be in flight. */
void uvcci_tx_trim(uvcc_link *l);
uint64_t uvcci_tx_bound(const uvcc_link *l);
void uvcci_tx_digest(const uvcc_link *l, uvcci_sha256 *h);

#endif
