/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c - silence of peers (config.links.silence_ns, silence_abort_ns), and their end.
 *
 * A peer is heard by what its link says of it (uvcc_link_stats.heard_ns), and before READY by its
 * HELLOs, of which nothing proves that they are its own. It is watched while something is to come
 * of it: in the handshake until its part of it is done, then until its BYE, and after that while a
 * step that has begun needs it still.
 *
 * Time in which this host stood still is nobody's silence: what came meanwhile was not fed yet. So
 * that this can be told, the session wants to be called every quarter of the least wait, and begins
 * all waits anew when it was not for two of these.
 *
 * What the host is told is the present state of each peer, so two events at most wait for it
 * however often a peer comes and goes: they stand outside the queue. */
#include "exec/session/peers.h"

#include "exec/session/waits.h"

#include "proto/mutant.h"
#include <assert.h>

/* HELLOs are repeated after up to 32 times hello_repeat_ns; two of them make a gap. */
enum { HELLO_GAP = 64 };

static bool handshaking(const uvcc_session *s) {
    return s->state == UVCCI_SESSION_HELLO;
}

static bool watched(const uvcc_session *s, uint8_t p) {
    if (p == s->party)
        return false;
    if (handshaking(s))
        return s->hello.peer[p].state != UVCCI_HELLO_DONE;
    if (s->state != UVCCI_SESSION_READY || !s->peer[p].bye)
        return s->state == UVCCI_SESSION_READY;
    uvcc_peer_info needed = {.waits_for = UVCC_WAIT_NONE}; /* its BYE came too early */
    uvcci_step_waits(s, p, &needed);
    return needed.waits_for != UVCC_WAIT_NONE;
}

static uint64_t heard_at(const uvcc_session *s, uint8_t p) {
    uvcc_link_stats l;
    uvcc_link_get_stats(s->peer[p].link, &l);
    const uint64_t at = s->peer[p].hello_at;
    return l.heard_ns != UVCC_NEVER && l.heard_ns > at ? l.heard_ns : at;
}

static uint64_t after(uint64_t t, uint64_t by) {
    return by < UVCC_NEVER - 1 - t ? t + by : UVCC_NEVER - 1;
}

/* The end of a wait that began when the peer was last heard; NEVER if there is none. */
static uint64_t wait_end(const uvcc_session *s, uint8_t p, uint64_t wait) {
    if (wait == 0)
        return UVCC_NEVER;
    const uint64_t gap = HELLO_GAP * s->cfg.links.hello_repeat_ns, heard = heard_at(s, p);
    if (handshaking(s) && s->peer[p].hello_came && wait < gap)
        wait = gap;
    return after(heard > s->awake_at ? heard : s->awake_at, wait);
}

/* 0: nobody is watched. */
static uint64_t tick_ns(const uvcc_session *s) {
    const uvcc_config_links *c = &s->cfg.links;
    return (c->silence_ns != 0 ? c->silence_ns : c->silence_abort_ns) / 4;
}

void uvcci_peer_hello(uvcc_session *s, uint8_t peer, bool came) {
    assert(peer < UVCC_PARTIES);
    s->peer[peer].hello_at = s->now;
    s->peer[peer].hello_came |= came;
}

static void advance_one(uvcc_session *s, uint8_t p) {
    static const char *const text[] = {"party 0 is silent", "party 1 is silent",
                                       "party 2 is silent"};
    const uvcc_config_links *c = &s->cfg.links;
    uvcci_peer *peer = &s->peer[p];
    if (!watched(s, p) || (peer->silent && heard_at(s, p) > peer->silent_since))
        peer->silent = false;
    if (!watched(s, p))
        return;
    if (!peer->silent && s->now >= wait_end(s, p, c->silence_ns)) {
        peer->silent = true;
        peer->silent_since = heard_at(s, p);
        uvcci_log(s, UVCC_LOG_WARN, "party %u: %s", s->party, text[p]);
    }
    if (s->now >= wait_end(s, p, c->silence_abort_ns))
        uvcci_abort_by(s, p, UVCC_ABORT_SILENCE, text[p]);
}

void uvcci_peers_advance(uvcc_session *s) {
    const uint64_t tick = tick_ns(s);
    if (tick == 0)
        return;
    if (s->now - s->called_at > 2 * tick)
        s->awake_at = s->now;
    s->called_at = s->now;
    for (uint8_t p = 0; p < UVCC_PARTIES && !uvcci_failed(s); p++)
        advance_one(s, p);
}

uint64_t uvcci_peers_deadline(const uvcc_session *s) {
    const uvcc_config_links *c = &s->cfg.links;
    const uint64_t tick = tick_ns(s);
    uint64_t at = UVCC_NEVER;
    for (uint8_t p = 0; p < UVCC_PARTIES && tick != 0; p++) {
        if (!watched(s, p))
            continue;
        const bool silent = s->peer[p].silent && !UVCCI_MUTANT(28);
        const uint64_t due[] = {silent ? UVCC_NEVER : wait_end(s, p, c->silence_ns),
                                wait_end(s, p, c->silence_abort_ns), after(s->called_at, tick)};
        for (unsigned i = 0; i < 3; i++)
            at = due[i] < at ? due[i] : at;
    }
    return at;
}

int uvcci_peers_poll_event(uvcc_session *s, uvcc_event *out) {
    for (uint8_t p = 0; p < UVCC_PARTIES && !uvcci_failed(s); p++) {
        uvcci_peer *peer = &s->peer[p];
        if (peer->silent == peer->silent_told)
            continue;
        peer->silent_told = peer->silent;
        *out = (uvcc_event){.kind = peer->silent ? UVCC_EVENT_PEER_SILENT : UVCC_EVENT_PEER_HEARD,
                            .peer = p,
                            .run = s->run,
                            .step = s->step};
        if (peer->silent)
            out->since_ns = uvcci_host_time(s, peer->silent_since);
        return 1;
    }
    return 0;
}

/* ---- the end ---- */

/* A peer that aborted takes nothing but the acknowledgement of its BYE. One that closed its stream
 * after its BYE is gone; if it was the network that closed it, the peer may miss our BYE, and waits
 * out its time. */
bool uvcci_parted(const uvcc_session *s, uint8_t p) {
    const uvcci_peer *peer = &s->peer[p];
    uvcc_link_stats l;
    if (peer->link == NULL) /* a load that failed may have made one */
        return true;
    if (peer->restarted) /* it has no keys of this run any more */
        return true;
    if (s->state == UVCCI_SESSION_CLOSING && !(peer->bye && uvcc_link_gapless(peer->link)))
        return false; /* its BYE may overtake what it sent before */
    if (uvcc_link_settled(peer->link))
        return true;
    uvcc_link_get_stats(peer->link, &l);
    return (peer->bye && !s->cfg.links.datagram && !l.stream_up) || (peer->ended && !l.ack_due);
}
