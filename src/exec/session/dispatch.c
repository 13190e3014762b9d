/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch.c - what came to a session goes to where it belongs: HELLOs to the handshake, messages
 * to steps and ops, their hashes to jobs; then steps, deals, triples and ops go on as far as they
 * can. */
#include "exec/session/dispatch.h"

#include "exec/ops/beaver.h"
#include "exec/ops/dealing.h"
#include "exec/session/cancel.h"
#include "exec/session/gathering.h"
#include "exec/session/handshake.h"
#include "exec/session/instance.h"
#include "exec/session/peers.h"
#include "exec/session/receive.h"
#include "exec/session/step.h"
#include "proto/link_session.h"
#include "proto/mutant.h"
#include <assert.h>

static void on_bye(uvcc_session *s, uint8_t peer, const uvcc_link_rx *m) {
    uvcci_peer *p = &s->peer[peer];
    uint16_t reason;
    if (uvcci_bye_decode(&reason, m->data, m->len) != 0) {
        uvcci_abort(s, UVCC_ABORT_BATCH, "a BYE message is malformed");
        return;
    }
    const bool first = !p->bye;
    p->bye = true;
    p->ended |= reason != UVCC_ABORT_NONE;
    if (reason == UVCC_ABORT_SKS) /* of a step that may be finished here */
        uvcci_abort_at(s, m->step, reason, "a peer found that the check of a product failed");
    else if (reason == UVCC_ABORT_RESTARTED) /* maybe of the third party, and news here */
        uvcci_abort_by(s, peer, reason, uvcc_abort_text(reason));
    else if (reason != UVCC_ABORT_NONE)
        uvcci_abort_by(s, peer, UVCC_ABORT_PEER, uvcc_abort_text(reason));
    else if (first)
        uvcci_event_push(
            s, &(uvcc_event){
                   .kind = UVCC_EVENT_PEER_BYE, .peer = peer, .run = s->run, .step = s->step});
}

/* A message that is taken here is accepted (the peer may forget it) and released (its memory goes
 * back) at once; a batch is accepted when its leaf stands, and released by the op that used it. */
static void on_message(uvcc_session *s, uint8_t peer, const uvcc_link_rx *m) {
    static const char *const texts[] = {
        [UVCC_ABORT_BATCH] = "a batch is malformed",
        [UVCC_ABORT_UNKNOWN_OP] = "a message names no op of its step",
        [UVCC_ABORT_PLAN] = "a batch is not what the program says it must be",
        [UVCC_ABORT_MEMORY] = "no memory for a received message",
        [UVCC_ABORT_TRIPLE] = "a peer makes a triple that was given here"};
    uvcc_link *l = s->peer[peer].link;
    assert(peer != s->party && m->chunk_cnt != 0);
    for (uint16_t i = 0; i < m->chunk_cnt; i++)
        if (m->msg_ids[i] !=
            uvcci_msg_id(m->kind, s->sid_sub, m->op_id, peer, s->party, i, m->chunk_cnt)) {
            uvcci_abort(s, UVCC_ABORT_MSG_ID, "a message id is not that of its place");
            return;
        }
    uint16_t reason;
    switch (m->kind) {
    case UVCC_FRAME_STEP:
        uvcci_step_on_step(s, peer, m->data, m->len);
        break;
    case UVCC_FRAME_AUDIT:
        uvcci_step_on_audit(s, peer, m->data, m->len);
        break;
    case UVCC_FRAME_BYE:
        on_bye(s, peer, m);
        break;
    case UVCC_FRAME_CANCEL:
        uvcci_cancel_on_message(s, peer, m->data, m->len);
        break;
    default: /* batches: accepted and released by their op */
        if (uvcci_cancel_discards(s, peer, m))
            return;
        reason = uvcci_op_receive(s, peer, m);
        assert(reason < sizeof texts / sizeof texts[0]);
        if (reason != UVCC_ABORT_NONE)
            uvcci_abort(s, reason, texts[reason]);
        return;
    }
    if (!uvcci_failed(s) || m->kind == UVCC_FRAME_BYE)
        (void)uvcc_link_accept(l, m->token, s->now);
    (void)uvcc_link_release(l, m->token, s->now);
}

static bool advance_messages(uvcc_session *s) {
    bool any = false;
    for (uint8_t p = 0; p < 3; p++) {
        uvcc_link_rx m;
        if (p == s->party)
            continue;
        while (!uvcci_failed(s) && uvcc_link_poll_message(s->peer[p].link, &m) == 1) {
            any = true;
            on_message(s, p, &m);
        }
        const char *why = uvcc_link_violation(s->peer[p].link);
        if (why != NULL)
            uvcci_abort(s, UVCC_ABORT_FRAME, why);
        why = uvcci_link_spent(s->peer[p].link);
        if (why != NULL)
            uvcci_abort(s, UVCC_ABORT_LIMIT, why);
    }
    return any;
}

static void advance_rx_jobs(uvcc_session *s) {
    while (s->rx_pending.first != NULL && !uvcci_jobs_full(&s->jobs)) {
        uvcci_rx *rx = uvcci_rx_queue_take(&s->rx_pending);
        rx->next = s->rx_out;
        s->rx_out = rx;
        uvcci_jobs_push(&s->jobs, &rx->task, 1, UVCCI_JOB_RX, 0, rx);
    }
}

/* What an aborted session still takes: that its peers end too. All else is dropped unaccepted. */
static void take_byes(uvcc_session *s) {
    for (uint8_t p = 0; p < 3; p++) {
        uvcc_link *l = p != s->party ? s->peer[p].link : NULL;
        uvcc_link_rx m;
        uint16_t reason;
        while (l != NULL && uvcc_link_poll_message(l, &m) == 1) {
            if (m.kind == UVCC_FRAME_BYE && uvcci_bye_decode(&reason, m.data, m.len) == 0) {
                s->peer[p].bye = true;
                s->peer[p].ended |= reason != UVCC_ABORT_NONE;
                (void)uvcc_link_accept(l, m.token, s->now);
            }
            (void)uvcc_link_release(l, m.token, s->now);
        }
    }
}

static void advance_close(uvcc_session *s) {
    if (s->close_deadline == UVCC_NEVER || s->state == UVCCI_SESSION_CLOSED ||
        (s->jobs.out != 0 && !UVCCI_MUTANT(13)))
        return;
    bool linked = s->state == UVCCI_SESSION_CLOSING || s->state == UVCCI_SESSION_ABORTED;
    bool quiet =
        !linked || (uvcci_parted(s, uvcci_next_party(s)) && uvcci_parted(s, uvcci_prev_party(s)));
    if (!quiet && s->now < s->close_deadline)
        return;
    s->state = UVCCI_SESSION_CLOSED;
    s->close_deadline = UVCC_NEVER;
    for (uint8_t p = 0; p < UVCC_PARTIES && !UVCCI_MUTANT(50); p++)
        if (s->peer[p].link != NULL)
            uvcci_link_rest(s->peer[p].link);
    uvcci_event_push(s, &(uvcc_event){.kind = UVCC_EVENT_CLOSED, .run = s->run, .step = s->step});
}

/* Each part may make work for those before it: so all go round until none of them moves. */
void uvcci_dispatch(uvcc_session *s) {
    assert(s->jobs.used <= s->jobs.limit && s->event_count <= s->event_cap);
    bool any = s->state >= UVCCI_SESSION_HELLO;
    while (any && !uvcci_failed(s)) {
        any = uvcci_handshake_advance(s);
        if (s->state != UVCCI_SESSION_READY && s->state != UVCCI_SESSION_CLOSING)
            continue; /* a HELLO 3 that came before its keys is in the link now */
        any |= advance_messages(s);
        if (uvcci_failed(s))
            break;
        advance_rx_jobs(s); /* first: they are what others wait for */
        any |= uvcci_cancel_advance(s);
        any |= uvcci_step_advance(s);
        any |= uvcci_deal_advance(s);
        any |= uvcci_beaver_advance(s);
        any |= uvcci_ops_advance(s);
        any |= uvcci_gather_advance(s); /* last: of keys that no turn waits for */
    }
    uvcci_peers_advance(s);
    if (s->state == UVCCI_SESSION_ABORTED) {
        uvcci_handshake_listen(s);
        take_byes(s);
    }
    advance_close(s);
}
