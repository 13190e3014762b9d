/* SPDX-License-Identifier: Apache-2.0 */
/* handshake.c - a session's part in the handshake: its start, HELLOs between the links and the
 * state machine of hello.h, keys for the links, READY. */
#include "exec/session/handshake.h"

#include "exec/session/evidence.h"
#include "exec/session/lineage.h"
#include "exec/session/peers.h"

#include "proto/crypto.h"
#include "proto/ids.h"
#include "proto/link_session.h"
#include "proto/mutant.h"
#include "proto/pace.h"
#include <assert.h>
#include <string.h>

/* Mismatches of a peer that are told at once; then one each time that so many HELLO repetitions
 * take. */
enum { TOLD_AT_ONCE = 8, TOLD_REPEATS = 16 };

/* Secrets are copied into the handshake's configuration and wiped from here; the state machine
 * keeps its own until it is done. */
int uvcci_session_start(uvcc_session *s, uint64_t now) {
    if (s == NULL)
        return UVCC_ERR_USAGE;
    if (s->state != UVCCI_SESSION_LOADED)
        return uvcci_refuse(s, UVCC_ERR_STATE,
                            s->state == UVCCI_SESSION_NEW ? "no program is loaded"
                                                          : "the session was started already");
    uvcci_hello_config c = {.party = s->party,
                            .suites = s->cfg.links.suites,
                            .r = s->cfg.place.replicas,
                            .s = s->cfg.place.stages,
                            .t = s->cfg.place.tp_ranks,
                            .replica = s->cfg.place.replica,
                            .stage = s->cfg.place.stage,
                            .tp = s->cfg.place.tp_rank,
                            .offer = {s->loaded},
                            .offer_count = 1,
                            .next_run = s->cfg.resume.next_run,
                            .repeat_ns = s->cfg.links.hello_repeat_ns};
    if (s->offer_count != 0) {
        memcpy(c.offer, s->offer, sizeof c.offer);
        c.offer_count = (uint8_t)s->offer_count;
    }
    memcpy(c.sid_job, s->cfg.identity.sid_job, 32);
    memcpy(c.sid_sub, s->sid_sub, 32);
    memcpy(c.h_program, s->h_program, 32);
    memcpy(c.policy, s->cfg.identity.policy_hash, 32);
    memcpy(c.part, s->cfg.agree.part, sizeof c.part);
    int rc = s->cfg.random.fill(s->cfg.random.user, c.n, 32) != 0 ? UVCC_ERR_RANDOM : 0;
    if (s->cfg.identity.exchange_x25519) {
        c.exchange = UVCCI_EXCHANGE_X25519;
        memcpy(c.sign_sk, s->sign_sk, 64);
        memcpy(c.identity, s->cfg.identity.peer_sign_key, sizeof c.identity);
        memcpy(c.identity[s->party], s->sign_pk, 32);
        if (rc == 0 && s->cfg.random.fill(s->cfg.random.user, c.ephemeral, 32) != 0)
            rc = UVCC_ERR_RANDOM;
    } else {
        memcpy(c.secret, s->cfg.identity.pair_secret, sizeof c.secret);
    }
    c.kem = (uint16_t)s->cfg.identity.kem;
    for (uint8_t p = 0; p <= s->party && c.kem != UVCC_KEM_NONE && rc == 0; p++)
        if (s->cfg.random.fill(s->cfg.random.user, c.kem_seed[p], 32) != 0)
            rc = UVCC_ERR_RANDOM;
    s->now = now < UVCC_NEVER / 2 ? now : UVCC_NEVER / 2; /* where time ends: set_now() */
    if (rc == 0)
        rc = uvcci_hello_init(&s->hello, &c, s->now);
    uvcci_wipe(&c, sizeof c);
    for (uint8_t p = 0; p < 3; p++)
        uvcci_peer_hello(s, p, false);
    s->state_at = s->now;
    if (rc == 0) {
        s->state = UVCCI_SESSION_HELLO;
        uvcci_wipe(s->cfg.identity.pair_secret, sizeof s->cfg.identity.pair_secret);
    }
    return rc;
}

/* The handshake begins again, before any session went ready: links lose what it agreed on. */
static void hello_again(uvcc_session *s) {
    assert(s->state == UVCCI_SESSION_HELLO);
    uvcci_hello_again(&s->hello, s->now);
    for (uint8_t p = 0; p < 3; p++) {
        if (p == s->party)
            continue;
        int rc = uvcc_link_reset(s->peer[p].link);
        assert(rc == 0); /* links start when it is done, and nothing is sent before */
        (void)rc;
        s->peer[p].keyed = s->hello_waits[p] = false;
    }
}

/* A link gets its keys as soon as the handshake vouches for them, and so does the session: the
 * PRK, of which all steps' keys could be derived, is gone then. */
static bool key_link(uvcc_session *s, uint8_t p) {
    uvcc_link *l = s->peer[p].link;
    if (s->peer[p].keyed || !uvcci_hello_keyed(&s->hello, p))
        return false;
    assert(l != NULL);
    s->peer[p].keyed = true;
    s->run = s->hello.run;
    s->step = s->hello.step;
    int rc = uvcc_link_set_run(l, s->run);
    rc = rc == 0 ? uvcc_link_set_step(l, s->step) : rc;
    rc = rc == 0 ? uvcc_link_set_keys(l, s->hello.suite, s->hello.peer[p].prk) : rc;
    if (rc != 0)
        uvcci_abort(s, rc == UVCC_ERR_NOMEM ? UVCC_ABORT_MEMORY : UVCC_ABORT_CRYPTO,
                    "a link could not be keyed");
    uvcci_link_take_early(l);
    uvcci_derive_chain(s->hello.peer[p].prk, s->step, s->run, s->chain[uvcci_side(s, p)]);
    uvcci_hello_forget(&s->hello, p);
    return true;
}

/* A HELLO in the name of p does not fit: the host hears of it once per field, until that changes,
 * and never so often that who forges HELLOs could fill its log or its events. What is not told for
 * that reason is told when it comes again. */
static void tell_mismatch(uvcc_session *s, uint8_t p) {
    uvcci_mismatches *m = &s->mismatches;
    const uint16_t bit = (uint16_t)(1u << s->hello.field);
    const uint64_t each = TOLD_REPEATS * s->hello.cfg.repeat_ns;
    if ((m->told[p] & bit) != 0 || m->queued == UVCCI_MISMATCH_EVENTS ||
        !uvcci_pace_has(m->pace[p], (TOLD_AT_ONCE - 1) * each, s->now))
        return;
    uvcci_pace_spend(&m->pace[p], each, s->now);
    m->told[p] |= bit;
    m->queued++;
    const bool job = s->hello.field == UVCCI_FIELD_JOB;
    const char *name = job ? s->agree_text[s->hello.part] : uvcci_hello_field_name(s->hello.field);
    uvcci_log(s, UVCC_LOG_WARN,
              "party %u: a HELLO of party %u differs from ours in %s; it is ignored", s->party, p,
              name);
    uvcci_event_push(s, &(uvcc_event){.kind = UVCC_EVENT_MISMATCH,
                                      .peer = p,
                                      .run = s->run,
                                      .step = s->step,
                                      .id = s->hello.part,
                                      .text = name});
}

/* Another channel than before may be wrong in its own right, and is told again. */
void uvcci_handshake_channel(uvcc_session *s, uint8_t p, const uint8_t *binding) {
    uvcci_hello_channel(&s->hello, p, binding);
    s->mismatches.told[p] &= (uint16_t) ~(1u << UVCCI_FIELD_CHANNEL);
}

/* A HELLO of p was right, so what was wrong with the others may be told again. */
static void fits(uvcc_session *s, uint8_t p) {
    const uvcci_hello_peer *peer = &s->hello.peer[p];
    if (peer->state >= UVCCI_HELLO_WAIT3)
        s->mismatches.told[p] = 0;
    else if (peer->hello1[0] != 0)
        s->mismatches.told[p] &= 1u << UVCCI_FIELD_IDENTITY | 1u << UVCCI_FIELD_SECRET;
}

_Static_assert((unsigned)UVCC_AGREE_MAX == UVCCI_AGREE_PARTS, "HELLO 1 has all of them");
_Static_assert(UVCCI_HELLO1_MAX <= UVCC_HELLO_MAX_BYTES && UVCCI_HELLO2_MAX <= UVCC_HELLO_MAX_BYTES,
               "links carry every HELLO");

/* The HELLOs that came from p. Nothing unsigned ends the handshake: what does not fit is told, and
 * what is not authentic is counted; both are forgotten, for anybody may have sent them. */
static bool take_hellos(uvcc_session *s, uint8_t p) {
    bool any = false, sealed, foreign;
    uint8_t payload[UVCC_HELLO_MAX_BYTES];
    size_t n;
    while ((n = uvcci_link_poll_hello(s->peer[p].link, payload, &sealed, &foreign)) != 0) {
        any = true;
        if (s->state == UVCCI_SESSION_HELLO && !foreign)
            uvcci_peer_hello(s, p, true);
        uint64_t ignored = s->hello.ignored;
        int rc = foreign ? uvcci_hello_foreign(&s->hello, p, payload, n)
                         : uvcci_hello_input(&s->hello, p, payload, n, sealed, s->now);
        if (rc == UVCC_ERR_PROTOCOL || (UVCCI_MUTANT(24) && rc == UVCC_ERR_MISMATCH)) {
            uvcci_log(s, UVCC_LOG_ERROR, "party %u: party %u signed an impossible %s", s->party, p,
                      uvcci_hello_field_name(s->hello.field));
            uvcci_abort(s, UVCC_ABORT_HELLO, uvcci_hello_field_name(s->hello.field));
            return true;
        }
        if (rc == UVCC_ERR_MISMATCH)
            tell_mismatch(s, p);
        else if (rc == 0 && s->hello.ignored == ignored)
            fits(s, p);
        s->stats.frames_refused += rc == UVCC_ERR_AUTH || rc == UVCC_ERR_MISMATCH;
    }
    if (uvcc_link_heard(s->peer[p].link))
        uvcci_hello_peer_passed(&s->hello, p);
    return any;
}

/* HELLOs in, keys to the links that the state machine vouches for, READY once both peers are done,
 * and a peer's restart told once; a handshake that cannot end begins again. */
bool uvcci_handshake_advance(uvcc_session *s) {
    bool any = false;
    for (uint8_t p = 0; p < 3 && !uvcci_failed(s); p++)
        any |= p != s->party && take_hellos(s, p);
    if (uvcci_failed(s))
        return true;
    if (uvcci_hello_stale(&s->hello)) {
        hello_again(s);
        any = true;
    }
    for (uint8_t p = 0; p < 3 && !uvcci_failed(s); p++)
        if (p != s->party)
            any |= key_link(s, p);
    if (s->state == UVCCI_SESSION_HELLO && uvcci_hello_done(&s->hello)) {
        assert(s->peer[uvcci_next_party(s)].keyed && s->peer[uvcci_prev_party(s)].keyed);
        s->state = UVCCI_SESSION_READY;
        uvcci_lineage_ready(s);
        s->chain_step = s->step;
        uvcci_evidence_begin(s);
        uvcci_derive_chain(s->k_own_prk, s->step, s->run, s->chain[UVCC_PAIR_OWN]);
        uvcci_wipe(s->k_own_prk, sizeof s->k_own_prk);
        for (uint8_t p = 0; p < 3; p++) {
            uvcci_peer_hello(s, p, false);
            if (p != s->party && uvcc_link_start(s->peer[p].link, s->now) != 0)
                uvcci_abort(s, UVCC_ABORT_MEMORY, "a link could not start");
        }
        uvcc_event e = {.kind = UVCC_EVENT_READY, .run = s->run, .step = s->step};
        memcpy(e.root, s->hello.lineage, 32);
        uvcci_event_push(s, &e);
        any = true;
    }
    for (uint8_t p = 0; p < 3; p++)
        if (uvcci_hello_done(&s->hello) && uvcci_hello_restarted(&s->hello, p) &&
            !s->peer[p].restarted) {
            s->peer[p].restarted = true;
            uvcci_event_push(s, &(uvcc_event){.kind = UVCC_EVENT_PEER_RESTARTED,
                                              .peer = p,
                                              .run = s->run,
                                              .step = s->step});
        }
    return any;
}

/* Who began anew has no keys of this run, so it can neither take our BYE nor acknowledge it. The
 * host has heard of the end and is told nothing more. */
void uvcci_handshake_listen(uvcc_session *s) {
    uint8_t payload[UVCC_HELLO_MAX_BYTES];
    bool sealed, foreign;
    size_t n;
    for (uint8_t p = 0; p < UVCC_PARTIES && uvcci_hello_done(&s->hello); p++) {
        if (p == s->party)
            continue;
        while ((n = uvcci_link_poll_hello(s->peer[p].link, payload, &sealed, &foreign)) != 0)
            if (!foreign)
                (void)uvcci_hello_input(&s->hello, p, payload, n, sealed, s->now);
        s->peer[p].restarted |= uvcci_hello_restarted(&s->hello, p);
    }
}
