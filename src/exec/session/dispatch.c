/* dispatch.c - what came to a session goes to where it belongs: HELLOs to the handshake, messages
 * to steps and ops, their hashes to jobs; then steps, deals, triples and ops go on as far as they
 * can. */
#include "exec/session/dispatch.h"

#include "exec/ops/beaver.h"
#include "exec/ops/dealing.h"
#include "exec/session/handshake.h"
#include "exec/session/instance.h"
#include "exec/session/receive.h"
#include "exec/session/step.h"
#include "proto/link_session.h"
#include "proto/mutant.h"
#include <assert.h>

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
        if (uvcci_bye_decode(&reason, m->data, m->len) != 0)
            uvcci_abort(s, UVCC_ABORT_BATCH, "a BYE message is malformed");
        else if (reason == UVCC_ABORT_SKS) /* of a step that may be finished here */
            uvcci_abort_at(s, m->step, reason, "a peer found that the check of a product failed");
        else if (reason != UVCC_ABORT_NONE)
            uvcci_abort(s, UVCC_ABORT_PEER, uvcc_abort_text(reason));
        else if (!s->peer[peer].bye) {
            s->peer[peer].bye = true;
            uvcci_event_push(
                s, &(uvcc_event){
                       .kind = UVCC_EVENT_PEER_BYE, .peer = peer, .run = s->run, .step = s->step});
        }
        break;
    default: /* batches: accepted and released by their op */
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
    while (s->rx_pending != NULL && !uvcci_jobs_full(&s->jobs)) {
        uvcci_rx *rx = s->rx_pending;
        s->rx_pending = rx->next;
        rx->next = s->rx_out;
        s->rx_out = rx;
        uvcci_jobs_push(&s->jobs, &rx->task, 1, UVCCI_JOB_RX, 0, rx);
    }
}

static bool drained(const uvcc_session *s, bool with_bye) {
    for (uint8_t p = 0; p < 3; p++)
        if (p != s->party && s->peer[p].link != NULL && /* a load that failed may have made one */
            (!uvcc_link_drained(s->peer[p].link) || (with_bye && !s->peer[p].bye)))
            return false;
    return true;
}

static void advance_close(uvcc_session *s) {
    if (s->close_deadline == UVCC_NEVER || s->state == UVCCI_SESSION_CLOSED ||
        (s->jobs.out != 0 && !UVCCI_MUTANT(13)))
        return;
    bool quiet = s->state == UVCCI_SESSION_CLOSING
                     ? drained(s, true)
                     : s->state != UVCCI_SESSION_ABORTED || drained(s, false);
    if (!quiet && s->now < s->close_deadline)
        return;
    s->state = UVCCI_SESSION_CLOSED;
    s->close_deadline = UVCC_NEVER;
    uvcci_event_push(s, &(uvcc_event){.kind = UVCC_EVENT_CLOSED, .run = s->run, .step = s->step});
}

/* Each part may make work for those before it: so all go round until none of them moves. */
void uvcci_dispatch(uvcc_session *s) {
    assert(s->jobs.used <= s->jobs.limit && s->event_count <= s->event_cap);
    bool any = s->state >= UVCCI_SESSION_HELLO;
    while (any && !uvcci_failed(s)) {
        any = uvcci_handshake_advance(s);
        if (s->state != UVCCI_SESSION_READY && s->state != UVCCI_SESSION_CLOSING)
            break;
        any |= advance_messages(s);
        if (uvcci_failed(s))
            break;
        advance_rx_jobs(s); /* first: they are what others wait for */
        any |= uvcci_step_advance(s);
        any |= uvcci_deal_advance(s);
        any |= uvcci_beaver_advance(s);
        any |= uvcci_ops_advance(s);
    }
    advance_close(s);
}
