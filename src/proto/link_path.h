/* SPDX-License-Identifier: Apache-2.0 */
/* link_path.h - how long a packet the path carries (datagrams): found by padded PINGs, and lost
 * again when long packets vanish (RFC 8899). Frames are never longer than what every path carries,
 * so that a path which shrinks loses packets, but nothing that was sealed for it. */
#ifndef UVCCI_LINK_PATH_H
#define UVCCI_LINK_PATH_H

#include "proto/link_state.h"

void uvcci_path_init(uvcc_link *l);
/* The size that is sent without asking: no frame is longer. */
uint32_t uvcci_path_base(const uvcc_link *l);
/* The peer answered for the first time: the search begins. */
void uvcci_path_begin(uvcc_link *l);
/* There is data to send: after a long while the path may have grown. */
void uvcci_path_data(uvcc_link *l);
/* path.at has come: the size of the PING to send now, 0 if there is none. */
uint32_t uvcci_path_due(uvcc_link *l);
/* It was sent, under this number; an answer takes `wait` at most. */
void uvcci_path_sent(uvcc_link *l, uint32_t number, uint64_t wait);
/* The peer got the PING of this number last. */
void uvcci_path_answered(uvcc_link *l, uint32_t number);
/* What became of a frame, and that nothing was heard for a timeout. */
void uvcci_path_frame(uvcc_link *l, const uvcci_tx_frame *f, bool received);
void uvcci_path_timeout(uvcc_link *l);

#endif
