/* SPDX-License-Identifier: Apache-2.0 */
/* handshake.h - the handshake of a session with its two peers. */
#ifndef UVCCI_HANDSHAKE_H
#define UVCCI_HANDSHAKE_H

#include "exec/runtime/core.h"

/* uvcc_session_start() without its recording. */
int uvcci_session_start(uvcc_session *s, uint64_t now);
/* Another stream to p is up: the binding of its channel, 32 bytes, or NULL. */
void uvcci_handshake_channel(uvcc_session *s, uint8_t p, const uint8_t *binding);
/* Takes the HELLOs that came, and goes READY when both peers are agreed with. True if anything
 * changed. */
bool uvcci_handshake_advance(uvcc_session *s);
/* The HELLOs that come to a session which has aborted and waits for its peers' end: only who of
 * them began anew matters now. */
void uvcci_handshake_listen(uvcc_session *s);

#endif
