/* SPDX-License-Identifier: Apache-2.0 */
/* link_send.h - messages out, from their buffer to their last acknowledgement: limits, order,
 * credit.
 *
 * A message waits in its class's queue, is begun when the whole of it fits the credit, is cut into
 * frames one by one (link_tx), and goes back to the allocator when all frames are acknowledged. */
#ifndef UVCCI_LINK_SEND_H
#define UVCCI_LINK_SEND_H

#include "proto/link_state.h"

/* The message of this class whose next piece is to go, NULL if there is none or it must wait. */
uvcc_link_msg *uvcci_send_next(const uvcci_tx_class *c);
/* Takes its credit and the top of the class's stack of begun ones. */
void uvcci_send_begin(uvcc_link *l, uvcc_link_msg *m);
/* `len` more bytes of a message went into a frame. */
static inline void uvcci_send_moved(uvcc_link *l, uint32_t len) {
    l->stats.queued_bytes -= len;
    l->stats.unacked_bytes += len;
}
/* A class can send nothing until the peer grants more credit. */
bool uvcci_send_blocked(const uvcc_link *l);
/* All of it is acknowledged: its memory goes back, as soon as no transmit points there. */
void uvcci_send_done(uvcc_link *l, uvcc_link_msg *m);
/* The transmit is over: what was done meanwhile goes back. */
void uvcci_zombies_free(uvcc_link *l);
/* The transmit ahead is the one that is out from here on, or gone. */
void uvcci_zombies_come(uvcc_link *l);
/* The run has no seq left for a piece of m: the last ones are for STEP, AUDIT and BYE, so that the
 * peer can be told. From then on the link is spent. */
bool uvcci_send_spent(uvcc_link *l, const uvcc_link_msg *m);
/* The oldest step of which a message is not wholly cut, and so not sealed; at most `step`. */
uint32_t uvcci_send_oldest_step(const uvcc_link *l, uint32_t step);
void uvcci_send_free_all(uvcc_link *l);

#endif
