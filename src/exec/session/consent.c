/* SPDX-License-Identifier: Apache-2.0 */
/* consent.c - see consent.h. A limit is a line of the policy that counts; they are numbered in the
 * order of the text. */
#include "exec/session/consent.h"

#include <assert.h>
#include <string.h>

static bool zero32(const uint8_t b[32]) {
    static const uint8_t zero[32];
    return memcmp(b, zero, 32) == 0;
}

void uvcci_consent_hash(const uvcc_config *c, uint8_t out[32]) {
    if (c->consent.policy != NULL && c->consent.policy_len <= UVCC_POLICY_BYTES_MAX &&
        zero32(c->identity.policy_hash))
        uvcc_policy_hash(c->consent.policy, c->consent.policy_len, out);
    else
        memcpy(out, c->identity.policy_hash, 32);
}

/* The text is copied: what the AUDITs sign is what is asked from here on, whatever the host does
 * with its own. */
int uvcci_consent_take(uvcc_session *s) {
    uvcc_config_consent *in = &s->cfg.consent;
    uvcci_consent *c = &s->consent;
    uint8_t hash[32];
    char why[160];
    if (in->policy == NULL) {
        if (in->policy_len == 0 && in->used_count == 0)
            return 0;
        return uvcci_refuse(s, UVCC_ERR_CONFIG, "consent has no policy, but what belongs to one");
    }
    if (uvcc_policy_check(in->policy, in->policy_len, why, sizeof why) != 0)
        return uvcci_refuse(s, UVCC_ERR_CONFIG, "consent.policy: %s", why);
    uvcc_policy_hash(in->policy, in->policy_len, hash);
    if (!zero32(s->cfg.identity.policy_hash) && memcmp(s->cfg.identity.policy_hash, hash, 32) != 0)
        return uvcci_refuse(s, UVCC_ERR_CONFIG,
                            "identity.policy_hash is not that of consent.policy");
    memcpy(s->cfg.identity.policy_hash, hash, 32);
    memcpy(c->text, in->policy, in->policy_len);
    c->len = in->policy_len;
    uvcc_policy_rule r;
    for (size_t at = 0; uvcc_policy_next(c->text, c->len, &at, &r) == 1;)
        c->limits += r.kind == UVCC_POLICY_STEPS || r.kind == UVCC_POLICY_INPUT;
    if (in->used_count != 0 && (in->used == NULL || in->used_count != c->limits))
        return uvcci_refuse(s, UVCC_ERR_CONFIG, "consent.used has %u counts, the policy %u limits",
                            in->used_count, c->limits);
    for (uint32_t i = 0; i < in->used_count; i++)
        c->used[i] = in->used[i];
    in->policy = NULL; /* the host's; they may go */
    in->used = NULL;
    return 0;
}

int uvcci_consent_program(uvcc_session *s, const uvcc_program *p) {
    char why[256];
    if (s == NULL || s->consent.len == 0 || s->program != NULL || p == NULL || !p->finished)
        return 0;
    if (s->cfg.resume.checkpoint_every != 0) {
        uvcc_policy_rule r;
        for (size_t at = 0; uvcc_policy_next(s->consent.text, s->consent.len, &at, &r) == 1;)
            if (r.kind == UVCC_POLICY_CHECKPOINTS)
                return uvcci_refuse(s, UVCC_ERR_REFUSED, "the policy does not allow checkpoints");
    }
    const int rc = uvcc_policy_program(s->consent.text, s->consent.len, p, why, sizeof why);
    return rc == 0 ? 0 : uvcci_refuse(s, UVCC_ERR_REFUSED, "%s", why);
}

static bool counts(const uvcc_policy_rule *r, const uvcci_use *u) {
    return r->kind == u->kind && (r->any || strcmp(r->entry, u->entry->name) == 0) &&
           (u->kind == UVCC_POLICY_STEPS || (u->id >= r->first && u->id <= r->last));
}

/* Of every limit of the use, the line and how often it was used; false at the end. */
static bool next_limit(uvcci_consent *c, const uvcci_use *u, size_t *at, uint32_t *limit,
                       uvcc_policy_rule *r, uint64_t **used) {
    while (u->entry != NULL && uvcc_policy_next(c->text, c->len, at, r) == 1) {
        if (r->kind != UVCC_POLICY_STEPS && r->kind != UVCC_POLICY_INPUT)
            continue;
        assert(*limit < c->limits);
        *used = &c->used[(*limit)++];
        if (counts(r, u))
            return true;
    }
    return false;
}

static int allow(uvcc_session *s, const uvcci_use *u) {
    uvcc_policy_rule r;
    size_t at = 0;
    uint32_t limit = 0;
    for (uint64_t *used; next_limit(&s->consent, u, &at, &limit, &r, &used);) {
        if (*used < r.limit)
            continue;
        if (u->kind == UVCC_POLICY_STEPS)
            return uvcci_refuse(s, UVCC_ERR_REFUSED,
                                "the policy's line %u allows no further step of entry %s", r.line,
                                u->entry->name);
        return uvcci_refuse(s, UVCC_ERR_REFUSED,
                            "the policy's line %u does not allow input %u of entry %s again",
                            r.line, u->id, u->entry->name);
    }
    return 0;
}

int uvcci_consent_step(uvcc_session *s, uint32_t entry, uvcci_use *u) {
    *u = (uvcci_use){.kind = UVCC_POLICY_STEPS};
    if (s == NULL || s->consent.len == 0 || s->program == NULL || entry >= s->program->entry_count)
        return 0;
    u->entry = &s->program->entries[entry];
    return allow(s, u);
}

int uvcci_consent_input(uvcc_session *s, uint32_t step, uint32_t id, uvcci_use *u) {
    *u = (uvcci_use){.kind = UVCC_POLICY_INPUT, .id = id};
    if (s == NULL || s->consent.len == 0 || s->program == NULL)
        return 0;
    const uvcci_step *st = uvcci_step_of(s, step);
    if (st == NULL)
        return 0;
    u->entry = st->entry;
    return allow(s, u);
}

void uvcci_consent_count(uvcc_session *s, const uvcci_use *u) {
    uvcc_policy_rule r;
    size_t at = 0;
    uint32_t limit = 0;
    if (u->entry == NULL)
        return;
    for (uint64_t *used; next_limit(&s->consent, u, &at, &limit, &r, &used);)
        *used += *used != UINT64_MAX;
}

int uvcc_session_policy_used(const uvcc_session *s, uint64_t *out, uint32_t cap) {
    if (s == NULL || (out == NULL && cap != 0))
        return UVCC_ERR_USAGE;
    for (uint32_t i = 0; i < s->consent.limits && i < cap; i++)
        out[i] = s->consent.used[i];
    return (int)s->consent.limits;
}
