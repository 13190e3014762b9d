/* SPDX-License-Identifier: Apache-2.0 */
/* link_cc.h - congestion control of a datagram link: tells its controller (cc.h) what happens to
 * frames, and the sender when it may send. On streams every call does nothing, and every question
 * is answered with yes. */
#ifndef UVCCI_LINK_CC_H
#define UVCCI_LINK_CC_H

#include "proto/link_state.h"

/* 0, UVCC_ERR_NOMEM. Datagram links only. */
int uvcci_link_cc_new(uvcc_link *l);
/* The clock is known: the controller begins. */
void uvcci_link_cc_start(uvcc_link *l);
void uvcci_link_cc_free(uvcc_link *l);

/* ---- what the sender asks ---- */

/* May a packet with data go now? If its time has not come, uvcci_link_cc_deadline() says when. Ask
 * only if there is something to send. */
bool uvcci_link_cc_open(uvcc_link *l);
/* May one more frame go into this packet? */
bool uvcci_link_cc_room(const uvcc_link *l);
/* There is nothing to send, or it may not begin: the path is not what limits us. */
void uvcci_link_cc_idle(uvcc_link *l);
/* The time of the next packet if pacing holds it back, else UVCC_NEVER. */
uint64_t uvcci_link_cc_deadline(const uvcc_link *l);

/* Its part of the statistics. */
void uvcci_link_cc_stats(const uvcc_link *l, uvcc_link_stats *out);

/* ---- what it tells ---- */

/* The frame goes out; it is not in the list of sent ones yet. */
void uvcci_link_cc_sent(uvcc_link *l, uvcci_tx_frame *f);
/* An ACK tells that it is there; it is in its list still. */
void uvcci_link_cc_acked(uvcc_link *l, const uvcci_tx_frame *f);
/* All frames of an ACK were told; then losses are looked for; then the ACK is done. */
void uvcci_link_cc_ack_rtt(uvcc_link *l);
void uvcci_link_cc_ack_done(uvcc_link *l);
/* It is lost, by what others tell, not by silence; it is in the list of sent ones still. */
void uvcci_link_cc_lost(uvcc_link *l, const uvcci_tx_frame *f);
/* Silence: so many frames may go out now, whatever the window is. sent_ns: when the oldest one in
 * flight was sent. */
void uvcci_link_cc_timeout(uvcc_link *l, uint32_t frames, uint64_t sent_ns);
/* So many bytes of frames were told as lost and were not. */
void uvcci_link_cc_spurious(uvcc_link *l, uint64_t bytes);
/* The peer counts so many marked packets. */
void uvcci_link_cc_marks(uvcc_link *l, uint32_t ce_packets);

#endif
