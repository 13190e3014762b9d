/* SPDX-License-Identifier: Apache-2.0 */
/* link_rx.h - whole frames in, and the owner's side of whole messages. */
#ifndef UVCCI_LINK_RX_H
#define UVCCI_LINK_RX_H

#include "proto/link_state.h"

void uvcci_rx_init(uvcc_link *l);
void uvcci_rx_free(uvcc_link *l);
/* A packet: frames, one after the other. 0 or UVCC_ERR_NOMEM. */
int uvcci_rx_packet(uvcc_link *l, const uint8_t *data, size_t len);
/* A frame whose CRC is right. 0: taken or dropped without harm; UVCC_ERR_FRAME: refused;
 * UVCC_ERR_LIMIT: over suspicious_max (datagrams); UVCC_ERR_NOMEM: as if lost. */
int uvcci_rx_take(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *header,
                  const uint8_t *payload);
/* An unsealed HELLO from the peer to us; asked where its tag is another session's. */
bool uvcci_rx_foreign_hello(const uvcc_link *l, const uvcc_frame_header *h);
/* The key of a sealed data frame; NULL: there is none. False: no memory. */
bool uvcci_rx_piece_key(uvcc_link *l, const uvcc_frame_header *h, uvcci_aead **key);
/* What opening its piece said, which it gives back: to count what is forged. */
int uvcci_rx_piece_opened(uvcc_link *l, const uvcc_frame_header *h, int err, bool had_key);
/* The sealed piece of a stream's data frame, l->rx.in, is opened where it goes: as it comes, which
 * begins when its header is here, and ends when it is whole. */
int uvcci_rx_open_begin(uvcc_link *l);
int uvcci_rx_open_end(uvcc_link *l);
/* As uvcci_rx_take(), for that frame where its bytes are in a buffer of ours. */
int uvcci_rx_take_gathered(uvcc_link *l);
/* Nothing is being received, and nothing is with the owner. */
bool uvcci_rx_quiet(const uvcc_link *l);
void uvcci_rx_trim(uvcc_link *l);
uint64_t uvcci_rx_bound(const uvcc_link *l);
void uvcci_rx_digest(const uvcc_link *l, uvcci_sha256 *h);

#endif
