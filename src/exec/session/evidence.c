/* SPDX-License-Identifier: Apache-2.0 */
/* evidence.c - see evidence.h.
 *
 * A session signs its steps in order, each with the root over all that this run has finished, and
 * keeps the same trees of its peers, made of the roots that their AUDITs bring. An AUDIT is
 * verified as a whole when it comes. That of a step may come before that of the step before it,
 * never before that of an earlier one: it waits in its place, and is taken into the tree in turn.
 */
#include "exec/session/evidence.h"

#include "exec/session/bundle_store.h"
#include "exec/session/lineage.h"
#include "proto/statement.h"
#include <string.h>

void uvcci_evidence_begin(uvcc_session *s) {
    s->first = s->step;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        uvcc_audit_tree_init(&s->roots[p]);
}

void uvcci_root_before(const uvcc_session *s, uint8_t out[32]) {
    if (s->roots[s->party].count == 0)
        memcpy(out, s->root_before, 32);
    else
        (void)uvcc_audit_tree_root(&s->roots[s->party], out);
}

/* ---- statements ---- */

/* What an AUDIT of this session's worker states; views into it. */
static uvcc_statement statement_of(const uvcc_session *s, const uvcci_audit_msg_t *a) {
    const uvcc_config *c = &s->cfg;
    return (uvcc_statement){.scope = UVCC_SCOPE_WORKER,
                            .party = a->party,
                            .replicas = c->place.replicas,
                            .stages = c->place.stages,
                            .tp_ranks = c->place.tp_ranks,
                            .replica = c->place.replica,
                            .stage = c->place.stage,
                            .tp_rank = c->place.tp_rank,
                            .run = s->run,
                            .step = a->step,
                            .first = s->first,
                            .sid_job = c->identity.sid_job,
                            .root = a->global_root,
                            .audit_root = a->audit_root,
                            .before = a->before,
                            .policy_hash = c->identity.policy_hash};
}

void uvcci_evidence_sign(uvcc_session *s, uint32_t step, const uint8_t step_root[32],
                         uvcci_audit_msg_t *out) {
    uint8_t replica[32];
    uvcc_audit_tree *tree = &s->roots[s->party];
    assert(step - s->first == tree->count && step >= s->first);
    *out = (uvcci_audit_msg_t){.party = s->party, .step = step};
    uvcci_replica_root(s->sid_rep, step, step_root, 1, replica);
    uvcci_global_root(s->cfg.identity.sid_job, step, replica, 1, out->global_root);
    (void)uvcc_audit_tree_add(tree, out->global_root);
    (void)uvcc_audit_tree_root(tree, out->audit_root);
    memcpy(out->before, s->root_before, 32);
    const uvcc_statement st = statement_of(s, out);
    uvcci_statement_sign(&st, s->sign_sk, out->signature);
}

void uvcci_evidence_send(uvcc_session *s, const uvcci_audit_msg_t *a) {
    uint8_t bytes[UVCCI_AUDIT_BYTES];
    int n = uvcci_audit_encode(a, bytes, sizeof bytes);
    assert(n == (int)sizeof bytes);
    uvcci_send_small(s, uvcci_next_party(s), UVCC_FRAME_AUDIT, bytes, (uint32_t)n);
    uvcci_send_small(s, uvcci_prev_party(s), UVCC_FRAME_AUDIT, bytes, (uint32_t)n);
}

/* ---- the peers' ---- */

/* Without its key a peer's signature cannot be looked at; what it says must hold together. */
static bool verified(const uvcc_session *s, uint8_t peer, const uvcci_audit_msg_t *a) {
    static const uint8_t zero[32];
    const uint8_t *key = s->cfg.identity.peer_sign_key[peer];
    if (a->party != peer || a->step < s->first)
        return false;
    /* A run on what hosts set goes on from nothing. */
    if (uvcci_lineage_is_ours(s->hello.lineage) && memcmp(a->before, zero, 32) != 0)
        return false;
    const uvcc_statement st = statement_of(s, a);
    return memcmp(key, zero, 32) == 0 || uvcc_statement_check(&st, key, a->signature) == 0;
}

/* The next AUDIT of a peer goes into its tree: its audit root is that of the roots that it sent in
 * this run, and the run goes on from one history. False if not. */
static bool take(uvcc_session *s, uint8_t peer, const uvcci_audit_msg_t *a) {
    uvcci_peer *p = &s->peer[peer];
    uint8_t root[32];
    uvcc_audit_tree *tree = &s->roots[peer];
    if (tree->count == 0)
        memcpy(p->root_before, a->before, 32);
    (void)uvcc_audit_tree_add(tree, a->global_root);
    (void)uvcc_audit_tree_root(tree, root);
    if (memcmp(root, a->audit_root, 32) != 0 || memcmp(p->root_before, a->before, 32) != 0)
        return false;
    uvcc_event e = {.kind = UVCC_EVENT_AUDIT, .peer = peer, .run = s->run, .step = a->step};
    memcpy(e.root, a->global_root, 32);
    memcpy(e.audit_root, a->audit_root, 32);
    memcpy(e.signature, a->signature, 64);
    uvcci_event_push(s, &e);
    uvcci_bundle_store_audit(s, a);
    return true;
}

/* What does not fit its time is refused before its signature is looked at; what was taken out of
 * order goes into the tree with the one that it waited for. */
bool uvcci_evidence_on_audit(uvcc_session *s, uint8_t peer, const uint8_t *data, uint32_t len,
                             uint32_t *step) {
    uvcci_audit_msg_t a;
    if (s->cfg.checks.audit_off) { /* no HELLO compares it */
        uvcci_abort_by(s, peer, UVCC_ABORT_AUDIT,
                       "checks.audit_off differs: it is set here, and a peer sent its signed root");
        return false;
    }
    if (uvcci_audit_decode(&a, data, len) != 0) {
        uvcci_abort(s, UVCC_ABORT_BATCH, "an AUDIT message is malformed");
        return false;
    }
    uvcci_peer *p = &s->peer[peer];
    unsigned at = a.step & 1;
    /* A peer may finish the running step before us, and the next if it needs nothing of us there,
     * but none that it could not run for want of our STEP; each step has one AUDIT. */
    const uvcci_step *st = uvcci_step_of(s, a.step);
    bool twice = p->audit_here[at] && p->audit[at].step >= a.step;
    bool early = a.step >= s->step && (a.step - s->step > 1 || st == NULL || !st->sent);
    if (early || a.step + 2 < s->step || twice || !verified(s, peer, &a)) {
        uvcci_abort(s, UVCC_ABORT_AUDIT,
                    "what a peer signed of a step is not right: its key, its policy or "
                    "its step is another");
        return false;
    }
    /* Our STEP went out, so the AUDITs of two steps before and of all earlier ones were here. */
    assert(!p->audit_here[at] || p->audit[at].step - s->first < s->roots[peer].count);
    p->audit_here[at] = true;
    p->audit[at] = a;
    *step = a.step;
    for (unsigned k = 0; k < 2; k++) {
        const uint32_t next = s->first + s->roots[peer].count;
        const uvcci_audit_msg_t *n = &p->audit[next & 1];
        if (!p->audit_here[next & 1] || n->step != next)
            break;
        if (!take(s, peer, n)) {
            uvcci_abort(s, UVCC_ABORT_AUDIT,
                        "a peer's audit root is not that of the roots that it sent in this run");
            return false;
        }
    }
    return true;
}
