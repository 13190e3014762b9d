/* SPDX-License-Identifier: Apache-2.0 */
/* waits.c - what a session needs of a peer now, see waits.h. Nothing changes. */
#include "exec/session/waits.h"

#include "exec/session/cancel.h"
#include "exec/session/instance.h"

void uvcci_wait_for(uvcc_peer_info *i, uvcc_wait what, uint32_t step, uint64_t since) {
    i->waits_for = (uint8_t)what;
    i->wait_step = step;
    i->wait_since_ns = since;
}

/* Ops of a running step that need messages of the peer, the most urgent first. */
static void batch_waits(const uvcc_session *s, const uvcci_step *st, uint8_t peer,
                        uvcc_peer_info *i) {
    for (uint32_t k = 0; k < st->instance_count; k++) {
        const uvcci_instance *r = &st->instances[st->by_rank[k]];
        const uint32_t missing = uvcci_instance_missing(s, r, peer);
        if (missing == 0)
            continue;
        if (i->wait_ops++ == 0) {
            uvcci_wait_for(i, UVCC_WAIT_BATCH, st->number,
                           r->since > st->since ? r->since : st->since);
            i->wait_op = r->index;
        }
        i->wait_messages += missing;
    }
}

void uvcci_step_waits(const uvcc_session *s, uint8_t peer, uvcc_peer_info *i) {
    const uvcci_step *st = &s->ctx[s->step & 1];
    const uvcci_peer *p = &s->peer[peer];
    if (!st->active || st->number != s->step)
        return;
    const bool root_here =
        s->cfg.checks.audit_off || st->number - s->hello.step < 2 ||
        (p->audit_here[st->number & 1] && p->audit[st->number & 1].step == st->number - 2);
    const bool asked = st->sent || peer == 0; /* P0 proposes, the others answer */
    if (uvcci_cancel_waits(s, peer, st))
        uvcci_wait_for(i, UVCC_WAIT_CANCEL, st->number, s->cancel.since);
    else if (st->running && !st->halted)
        batch_waits(s, st, peer, i);
    else if (!st->agreed && asked && !p->step_here[st->number & 3])
        uvcci_wait_for(i, UVCC_WAIT_STEP, st->number, st->since);
    else if (!st->sent && !root_here)
        uvcci_wait_for(i, UVCC_WAIT_AUDIT, st->number - 2, st->since);
}
