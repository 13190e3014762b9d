/* SPDX-License-Identifier: Apache-2.0 */
/* waits.h - what a session needs of a peer for its step, and since when: for hosts that ask
 * (uvcc_session_peer_info), and to tell whether a silent peer matters. */
#ifndef UVCCI_WAITS_H
#define UVCCI_WAITS_H

#include "exec/runtime/core.h"

void uvcci_wait_for(uvcc_peer_info *i, uvcc_wait what, uint32_t step, uint64_t since);
/* Of a step that this host asked for and that has not begun, or of its ops; *i is left alone if
 * that is nothing. Times are the session's own. */
void uvcci_step_waits(const uvcc_session *s, uint8_t peer, uvcc_peer_info *i);

#endif
