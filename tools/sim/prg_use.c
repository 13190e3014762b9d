/* SPDX-License-Identifier: Apache-2.0 */
/* prg_use.c - every job of a run is looked at before it runs: that no word of a key stream is read
 * for two ends (<uvcc/prg_uses.h>), and that digests of secrets are salted. */
#include "world.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/host.h>

/* Streams go by their keys, so over restarts too. */
static void inspect_words(sim_party *p, const uvcc_task *t) {
    uvcc_prg_uses **uses = &p->w->uses[p->index];
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_prg_use u;
    if (*uses == NULL && uvcc_prg_uses_new(uses, &al, true) != 0)
        abort();
    const int rc = uvcc_prg_uses_task(*uses, t, &u);
    if (rc == UVCC_ERR_REFUSED)
        sim_fail(p->w,
                 "a PRG word is used twice: party %u, tag %s, lane %u, ordinal %u, call %u, "
                 "block %u, task %u",
                 p->index, uvcc_prg_tag_name(u.tag), u.lane, u.ordinal, u.call, u.block, u.kind);
    else if (rc != 0)
        abort();
}

static bool has_label(const uvcc_hash_item *it, const char *label) {
    const size_t len = strlen(label);
    return it->prefix_len >= len && memcmp(it->prefix, label, len) == 0;
}

/* Without salt: a checkpoint's digest, which stays at home; the two copies of an opened component
 * that are compared; public values; and what is opened to all. */
static bool may_be_plain(const uvcc_job *job, const uvcc_hash_item *it, bool *leaf) {
    *leaf = false;
    if (has_label(it, "UVCC_CHECK_V2") || has_label(it, "UVCC_PUBLIC_V1"))
        return true;
    *leaf = true;
    for (uint32_t i = 0; i < job->count; i++) {
        const uvcc_task *t = &job->tasks[i];
        if (t->kind == UVCC_TASK_OPEN_ALL_FINISH && t->u.vec.count != 0 &&
            (const uint8_t *)t->u.vec.blocks[0].out[0] == it->data)
            return true;
    }
    *leaf = false; /* last: what is still to be computed may lie where a checkpoint was */
    return it->len >= 4 && memcmp(it->data, "UVCK", 4) == 0;
}

/* The first job of a checked product makes a triple and has commitments, but no lift. */
static bool starts_check(const uvcc_job *job) {
    bool triple = false, commits = false;
    for (uint32_t i = 0; i < job->count; i++) {
        const uvcc_task *t = &job->tasks[i];
        triple |= t->kind == UVCC_TASK_TRIPLE_C;
        commits |= t->kind == UVCC_TASK_HASH && has_label(&t->u.hash.items[0], "COMMIT");
    }
    return triple && commits;
}

static void inspect_hash(sim_party *p, const uvcc_job *job, const uvcc_task *t) {
    static const uint8_t zero[32];
    for (uint32_t i = 0; i < t->u.hash.count; i++) {
        const uvcc_hash_item *it = &t->u.hash.items[i];
        bool leaf = true;
        if (it->mode != UVCC_HASH_HMAC ? !may_be_plain(job, it, &leaf)
                                       : memcmp(it->key, zero, 32) == 0)
            sim_fail(p->w, "party %u: a digest of secrets has no salt", p->index);
        const bool verdict = has_label(it, "SKS");
        p->hash_items += leaf && !verdict;
        p->verdict_items += verdict;
        p->commit_items += has_label(it, "COMMIT") && !starts_check(job);
    }
}

/* The job of a Beaver product itself takes masks one component at a time. Its op has a leaf without
 * a digest. */
static bool consumes_triple(const uvcc_job *job) {
    for (uint32_t i = 0; i < job->count; i++) {
        const uvcc_task *t = &job->tasks[i];
        if ((t->kind == UVCC_TASK_TRIPLE_A || t->kind == UVCC_TASK_TRIPLE_B) &&
            t->u.vec.blocks[0].out[1] == NULL)
            return true;
    }
    return false;
}

void sim_inspect(sim_party *p, const uvcc_job *job) {
    p->coins += starts_check(job);
    p->hash_items += consumes_triple(job);
    for (uint32_t i = 0; i < job->count; i++) {
        const uvcc_task *t = &job->tasks[i];
        assert(t->kind < UVCC_TASK_KIND_END);
        if (t->kind == UVCC_TASK_HASH)
            inspect_hash(p, job, t);
        inspect_words(p, t);
    }
}
