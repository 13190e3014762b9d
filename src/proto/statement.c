/* SPDX-License-Identifier: Apache-2.0 */
/* statement.c - what a party signs of a step, and the tree over a run's global roots (wire.md 8).
 *
 * A statement has all that tells one signature from another: whose it is, of which job, worker, run
 * and step, and which history it goes on. So none passes for another's, and two of one place with
 * different content prove that their signer told two stories. */
#include "proto/statement.h"

#include "proto/bytes.h"
#include "proto/mutant.h"
#include "proto/transcript.h"
#include <assert.h>
#include <string.h>

static const char label[] = "UVCC_AUDIT_V2";

/* ---- statements ---- */

static bool statement_good(const uvcc_statement *s) {
    const bool views = s->sid_job != NULL && s->root != NULL && s->audit_root != NULL &&
                       s->before != NULL && s->policy_hash != NULL;
    const bool place = s->replica < s->replicas && s->stage < s->stages && s->tp_rank < s->tp_ranks;
    const bool whole = s->scope == UVCC_SCOPE_WORKER ||
                       (s->scope == UVCC_SCOPE_JOB && (s->replica | s->stage | s->tp_rank) == 0);
    return views && place && whole && s->party < UVCC_PARTIES && s->first <= s->step;
}

int uvcc_statement_encode(const uvcc_statement *s, uint8_t out[UVCC_STATEMENT_BYTES]) {
    if (s == NULL || out == NULL || !statement_good(s))
        return UVCC_ERR_USAGE;
    const uint16_t place[6] = {s->replicas, s->stages, s->tp_ranks,
                               s->replica,  s->stage,  s->tp_rank};
    uvcci_writer w = uvcci_writer_on(out, UVCC_STATEMENT_BYTES);
    uvcci_put(&w, label, sizeof label - 1);
    uvcci_put8(&w, s->scope);
    uvcci_put8(&w, s->party);
    uvcci_put(&w, s->sid_job, 32);
    for (unsigned i = 0; i < 6; i++)
        uvcci_put16(&w, place[i]);
    uvcci_put32(&w, s->run);
    uvcci_put32(&w, UVCCI_MUTANT(30) ? 0 : s->step);
    uvcci_put32(&w, s->first);
    uvcci_put(&w, s->root, 32);
    uvcci_put(&w, s->audit_root, 32);
    uvcci_put(&w, s->before, 32);
    uvcci_put(&w, s->policy_hash, 32);
    assert(!w.bad && w.len == UVCC_STATEMENT_BYTES);
    return 0;
}

void uvcci_statement_sign(const uvcc_statement *s, const uint8_t sk[64], uint8_t signature[64]) {
    uint8_t text[UVCC_STATEMENT_BYTES];
    int rc = uvcc_statement_encode(s, text);
    assert(rc == 0);
    (void)rc;
    uvcci_sign(sk, text, sizeof text, signature);
}

int uvcc_statement_check(const uvcc_statement *s, const uint8_t key[32],
                         const uint8_t signature[64]) {
    uint8_t text[UVCC_STATEMENT_BYTES];
    if (key == NULL || signature == NULL || uvcc_statement_encode(s, text) != 0)
        return UVCC_ERR_USAGE;
    return uvcci_sign_verify(key, text, sizeof text, signature) == 0 ? 0 : UVCC_ERR_AUTH;
}

/* ---- the tree over a run's roots ---- */

void uvcc_audit_tree_init(uvcc_audit_tree *t) {
    if (t != NULL)
        memset(t, 0, sizeof *t);
}

/* As one adds to a binary number: node[l] is the root of 2^l roots where bit l of count is set. */
int uvcc_audit_tree_add(uvcc_audit_tree *t, const uint8_t global_root[32]) {
    if (t == NULL || global_root == NULL)
        return UVCC_ERR_USAGE;
    if (t->count == UINT32_MAX)
        return UVCC_ERR_LIMIT;
    uint8_t carry[32];
    unsigned level = 0;
    memcpy(carry, global_root, 32);
    for (; (t->count >> level & 1u) != 0; level++)
        uvcci_merkle_node(t->node[level], carry, carry);
    assert(level < sizeof t->node / sizeof t->node[0]);
    memcpy(t->node[level], carry, 32);
    t->count++;
    return 0;
}

/* The last odd nodes of their levels, from the bottom up. */
int uvcc_audit_tree_root(const uvcc_audit_tree *t, uint8_t root[32]) {
    if (t == NULL || root == NULL)
        return UVCC_ERR_USAGE;
    if (t->count == 0) {
        uvcci_merkle_root(NULL, 0, root);
        return 0;
    }
    bool any = false;
    for (unsigned level = 0; level < 32; level++) {
        if ((t->count >> level & 1u) == 0)
            continue;
        if (any)
            uvcci_merkle_node(t->node[level], root, root);
        else
            memcpy(root, t->node[level], 32);
        any = true;
    }
    return 0;
}
