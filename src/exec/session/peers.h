/* SPDX-License-Identifier: Apache-2.0 */
/* peers.h - what a session knows of its peers beside what they send: when each was last heard, and
 * that one is silent. */
#ifndef UVCCI_PEERS_H
#define UVCCI_PEERS_H

#include "exec/runtime/core.h"

/* A HELLO of the peer came, or the handshake began or ended: it is heard from here on. */
void uvcci_peer_hello(uvcc_session *s, uint8_t peer, bool came);
/* Notes who fell silent or is heard again; aborts the session if one is silent for too long. */
void uvcci_peers_advance(uvcc_session *s);
/* When the next of these is due, by the time inside; UVCC_NEVER. */
uint64_t uvcci_peers_deadline(const uvcc_session *s);
/* Closing: nothing more is to come of the peer, and nothing of ours is to reach it. */
bool uvcci_parted(const uvcc_session *s, uint8_t peer);
/* 1 and the event that the host was not told yet, else 0. */
int uvcci_peers_poll_event(uvcc_session *s, uvcc_event *out);

#endif
