/* calls.c - the public input calls. */
#include "session.h"

int uvcc_session_new(uvcc_session **out, const uvcc_config *cfg) {
    return uvcci_session_new(out, cfg);
}

void uvcc_session_free(uvcc_session *s) {
    uvcci_session_free(s);
}

int uvcc_session_load_program(uvcc_session *s, const uvcc_program *p) {
    return uvcci_session_load_program(s, p);
}

int uvcc_session_start(uvcc_session *s, uint64_t now) {
    return uvcci_session_start(s, now);
}

int uvcc_session_feed(uvcc_session *s, uint8_t peer, const uint8_t *data, size_t len, uint64_t now) {
    return uvcci_session_feed(s, peer, data, len, now);
}

int uvcc_session_peer_open(uvcc_session *s, uint8_t peer, uint64_t now) {
    return uvcci_session_peer_open(s, peer, now);
}

int uvcc_session_peer_closed(uvcc_session *s, uint8_t peer, uint64_t now) {
    return uvcci_session_peer_closed(s, peer, now);
}

int uvcc_session_on_timer(uvcc_session *s, uint64_t now) {
    return uvcci_session_on_timer(s, now);
}

int uvcc_session_complete(uvcc_session *s, const uvcc_completion *c, uint64_t now) {
    return uvcci_session_complete(s, c, now);
}

int uvcc_session_poll_transmit(uvcc_session *s, uvcc_transmit *out, uint64_t now) {
    return uvcci_session_poll_transmit(s, out, now);
}

int uvcc_session_transmit_done(uvcc_session *s, uint8_t peer, uint64_t id, size_t bytes, uint64_t now) {
    return uvcci_session_transmit_done(s, peer, id, bytes, now);
}

int uvcc_session_poll_op(uvcc_session *s, const uvcc_job **out) {
    return uvcci_session_poll_op(s, out);
}

int uvcc_session_poll_event(uvcc_session *s, uvcc_event *out) {
    return uvcci_session_poll_event(s, out);
}

int uvcc_session_step(uvcc_session *s, uint32_t step, uint32_t entry, uint64_t now) {
    return uvcci_session_step(s, step, entry, now);
}

int uvcc_session_input(uvcc_session *s, uint32_t step, uint32_t id, const int64_t *v, uint64_t now) {
    return uvcci_session_input(s, step, id, v, now);
}

int uvcc_session_set_public(uvcc_session *s, uint32_t tensor, const int64_t *v) {
    return uvcci_session_set_public(s, tensor, v);
}

int uvcc_session_set_shares(uvcc_session *s, uint32_t tensor, const uint64_t *lo, const uint64_t *hi) {
    return uvcci_session_set_shares(s, tensor, lo, hi);
}

int uvcc_session_resume(uvcc_session *s, const uint8_t *data, size_t len) {
    return uvcci_session_resume(s, data, len);
}

int uvcc_session_close(uvcc_session *s, uint64_t now) {
    return uvcci_session_close(s, now);
}

int uvcc_session_abort(uvcc_session *s, uint16_t reason, uint64_t now) {
    return uvcci_session_abort(s, reason, now);
}

