/* SPDX-License-Identifier: Apache-2.0 */
/* bundle_store.c - bundles of finished steps, held for the host until it has had them (see
 * bundle_store.h).
 *
 * A bundle is made when its step ends, with this party's signed root; the peers' AUDITs go in as
 * they come, some of them before the step ends here. With the last one the host is told. A step may
 * start only when the AUDITs of the one before the last are here, so more than two are incomplete
 * never. */
#include "exec/session/bundle_store.h"

#include "proto/bundle.h"
#include <assert.h>

static void drop(uvcc_session *s, uvcci_stored_bundle *k) {
    if (k->bytes != NULL)
        s->alloc.free(s->alloc.user, k->bytes, k->len, UVCC_MEM_STATE);
    s->alloc.free(s->alloc.user, k, sizeof *k, UVCC_MEM_STATE);
}

void uvcci_bundle_store_free(uvcc_session *s) {
    while (s->bundles != NULL) {
        uvcci_stored_bundle *next = s->bundles->next;
        drop(s, s->bundles);
        s->bundles = next;
    }
}

static void drop_told(uvcc_session *s) {
    for (uvcci_stored_bundle **at = &s->bundles; *at != NULL;) {
        uvcci_stored_bundle *k = *at;
        if (!k->told) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        drop(s, k);
    }
}

static uvcci_stored_bundle *find(const uvcc_session *s, uint32_t step) {
    uvcci_stored_bundle *k = s->bundles;
    while (k != NULL && k->step != step)
        k = k->next;
    return k;
}

static uvcci_head head_of(const uvcc_session *s, uint32_t step) {
    const uvcc_config *c = &s->cfg;
    return (uvcci_head){.party = s->party,
                        .topology = {c->place.replicas, c->place.stages, c->place.tp_ranks},
                        .at = {c->place.replica, c->place.stage, c->place.tp_rank},
                        .sid_job = c->identity.sid_job,
                        .step = step,
                        .run = s->run,
                        .first = s->first,
                        .policy_hash = c->identity.policy_hash};
}

static void put_audit(uvcci_stored_bundle *k, const uvcci_audit_msg_t *a) {
    uvcci_bundle_put_audit(k->bytes, k->len, a->party,
                           &(uvcc_signed_root){.root = a->global_root,
                                               .audit_root = a->audit_root,
                                               .before = a->before,
                                               .signature = a->signature});
}

bool uvcci_bundle_store_add(uvcc_session *s, const uvcci_step *st, const uint8_t step_root[32],
                            const uvcci_audit_msg_t *own) {
    assert(st->transcript != NULL && find(s, st->number) == NULL);
    drop_told(s);
    uvcci_stored_bundle *k = s->alloc.alloc(s->alloc.user, sizeof *k, UVCC_MEM_STATE);
    if (k == NULL)
        return false;
    *k = (uvcci_stored_bundle){.step = st->number,
                               .len = uvcci_bundle_bytes(&st->table, st->transcript)};
    k->bytes = s->alloc.alloc(s->alloc.user, k->len, UVCC_MEM_STATE);
    if (k->bytes == NULL) {
        drop(s, k);
        return false;
    }
    uvcci_head h = head_of(s, st->number);
    uvcci_bundle_encode(&h, s->h_program, &st->table, st->transcript, step_root, k->bytes);
    put_audit(k, own);
    uvcci_stored_bundle **tail = &s->bundles;
    while (*tail != NULL)
        tail = &(*tail)->next;
    *tail = k;
    return true;
}

void uvcci_bundle_store_audit(uvcc_session *s, const uvcci_audit_msg_t *a) {
    assert(a->party < UVCC_PARTIES && a->party != s->party);
    uvcci_stored_bundle *k = find(s, a->step);
    if (k == NULL)
        return;
    put_audit(k, a);
    if (!uvcci_bundle_complete(k->bytes, k->len)) /* each AUDIT comes once */
        return;
    uvcci_event_push(s, &(uvcc_event){.kind = UVCC_EVENT_BUNDLE, .run = s->run, .step = a->step});
}

void uvcci_bundle_store_early(uvcc_session *s, uint32_t step) {
    for (uint8_t p = 0; p < UVCC_PARTIES; p++) {
        const uvcci_peer *peer = &s->peer[p];
        if (p != s->party && peer->audit_here[step & 1] && peer->audit[step & 1].step == step &&
            step - s->first < s->roots[p].count)
            uvcci_bundle_store_audit(s, &peer->audit[step & 1]);
    }
}

void uvcci_bundle_store_told(uvcc_session *s, uint32_t step) {
    uvcci_stored_bundle *k = find(s, step);
    if (k != NULL)
        k->told = true;
}

int uvcc_session_bundle(const uvcc_session *s, uint32_t step, const uint8_t **data, size_t *len) {
    if (s == NULL || data == NULL || len == NULL)
        return UVCC_ERR_USAGE;
    const uvcci_stored_bundle *k = find(s, step);
    if (k == NULL)
        return UVCC_ERR_NOT_FOUND;
    *data = k->bytes;
    *len = k->len;
    return 0;
}
