/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - the public calls of a session (uvcc/session.h) without their recording; calls.c has
 * the calls themselves. Those on tensors stand in checkpoint.h, on triples in triples.h, on the
 * program and the handshake in load.h and handshake.h. */
#ifndef UVCCI_SESSION_H
#define UVCCI_SESSION_H

#include "exec/runtime/core.h"

int uvcci_session_new(uvcc_session **out, const uvcc_config *cfg);
void uvcci_session_free(uvcc_session *s);
int uvcci_session_feed(uvcc_session *s, uint8_t peer, const uint8_t *data, size_t len,
                       uint64_t now);
/* Whether they may be fed: nothing of them was, if not. */
int uvcci_session_check_slices(uvcc_session *s, uint8_t peer, const uvcc_slice *slices,
                               uint32_t count);
int uvcci_session_feed_slices(uvcc_session *s, uint8_t peer, const uvcc_slice *slices,
                              uint32_t count, uint64_t now);
int uvcci_session_rx_filled(uvcc_session *s, uint8_t peer, size_t n, uint64_t now);
/* The bytes that uvcc_session_rx_buffer() offered last for this peer, if that still holds. */
size_t uvcci_session_offered(const uvcc_session *s, uint8_t peer, const uint8_t **at);
int uvcci_session_feed_ecn(uvcc_session *s, uint8_t peer, const uint8_t *data, size_t len, bool ce,
                           uint64_t now);
/* binding: 32 bytes, or NULL */
int uvcci_session_peer_open_bound(uvcc_session *s, uint8_t peer, const uint8_t *binding,
                                  uint64_t now);
int uvcci_session_peer_closed(uvcc_session *s, uint8_t peer, uint64_t now);
int uvcci_session_on_timer(uvcc_session *s, uint64_t now);
int uvcci_session_complete(uvcc_session *s, const uvcc_completion *c, uint64_t now);
int uvcci_session_poll_transmit(uvcc_session *s, uvcc_transmit *out, uint64_t now);
int uvcci_session_transmit_done(uvcc_session *s, uint8_t peer, uint64_t id, size_t bytes,
                                uint64_t now);
int uvcci_session_poll_job(uvcc_session *s, const uvcc_job **out);
int uvcci_session_poll_event(uvcc_session *s, uvcc_event *out);
int uvcci_session_step(uvcc_session *s, uint32_t step, uint32_t entry, uint64_t now);
int uvcci_session_input(uvcc_session *s, uint32_t step, uint32_t id, const int64_t *v,
                        uint64_t now);
int uvcci_session_cancel(uvcc_session *s, uint32_t step, uint64_t now);
int uvcci_session_close(uvcc_session *s, uint64_t now);
int uvcci_session_abort(uvcc_session *s, uint16_t reason, uint64_t now);

#endif
