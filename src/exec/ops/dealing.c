/* SPDX-License-Identifier: Apache-2.0 */
/* dealing.c - keys dealt ahead: this party is OTHER on some blocks of a gate and sends their key
 * streams to HEAD and TAIL, in schedule order, as soon as the step is agreed and the links have
 * room. One op's deal is one job: generate, copy into the key_chunks of the messages, hash. */
#include "exec/ops/dealing.h"

#include "exec/runtime/builder.h"
#include "exec/runtime/names.h"
#include "exec/runtime/op_memory.h"
#include "exec/runtime/prg_check.h"
#include "exec/runtime/trace.h"

#include "proto/link_session.h"
#include <assert.h>
#include <string.h>
#include <uvcc/frame.h>
#include <uvcc/link.h>

static bool deals_here(const uvcc_session *s, const uvcci_instance *r) {
    if (r->plan->key_count == 0 || s->cfg.triples.only)
        return false;
    for (uint32_t i = 0; i < r->plan->blocks; i++)
        if (uvcci_role_of(s->party, r->ids.edge[i]) == UVCCI_OTHER)
            return true;
    return false;
}

/* HEAD's keys are the beginning of TAIL's, and nobody hashes what a receiver gets where it is made:
 * so each block's keys are made once, and copied to both. */
static bool makes_once(const uvcc_session *s, const uvcci_instance *r) {
    return s->cfg.checks.audit_off && r->plan->way->head_begins_tail;
}

/* Where each block's stream for TAIL is made. */
static size_t place_once(const uvcc_session *s, const uvcci_instance *r, size_t **at) {
    size_t total = 0;
    for (unsigned g = 0; g < r->plan->key_count; g++) {
        const uvcci_plan_round *round = uvcci_keys_round(r, g);
        for (uint32_t i = 0; i < round->blocks; i++) {
            if (uvcci_role_of(s->party, r->ids.edge[i]) != UVCCI_OTHER)
                continue;
            at[g][i] = total;
            total += uvcci_plan_key_bytes(r->plan, round, i, UVCC_TAIL);
        }
    }
    return total;
}

/* Where in memory each stream is made: each receiver's in the order in which it hashes them. */
static int deal_place(const uvcc_session *s, uvcci_deal *d) {
    uvcci_instance *r = d->r;
    for (unsigned k = 0; k < 2; k++) {
        d->at[k] = uvcci_key_table(r, &r->deal_bump);
        if (d->at[k] == NULL)
            return UVCC_ERR_NOMEM;
        if (makes_once(s, r))
            d->total[k] = place_once(s, r, d->at[k]);
        else
            d->total[k] = uvcci_key_offsets(r, s->party, d->dst[k], &r->deal_bump,
                                            k == 0 ? 0 : d->total[0], d->at[k]);
        if (d->total[k] == SIZE_MAX)
            return UVCC_ERR_NOMEM;
    }
    r->deal_bytes = makes_once(s, r) ? d->total[0] : d->total[0] + d->total[1];
    return 0;
}

/* Messages for all rounds of keys, and memory to make the streams in. */
static int deal_open(uvcc_session *s, uvcci_deal *d) {
    uvcci_instance *r = d->r;
    uvcci_bump *bump = &r->deal_bump;
    r->deal_out = uvcci_bump_take(bump, r->plan->key_count * sizeof *r->deal_out);
    if (r->deal_out == NULL)
        return UVCC_ERR_NOMEM;
    for (unsigned g = 0; g < r->plan->key_count; g++) {
        int rc = uvcci_batch_open(s, r, uvcci_keys_round(r, g), bump, &r->deal_out[g]);
        if (rc != 0)
            return rc;
        d->key_chunks += r->deal_out[g].key_chunk_count;
    }
    const int rc = deal_place(s, d);
    if (rc != 0)
        return rc;
    assert(r->deal_buf == NULL);
    r->deal_buf = uvcci_arena_take(&s->tensors, r->deal_bytes);
    return r->deal_buf != NULL ? 0 : UVCC_ERR_NOMEM;
}

uint8_t *uvcci_deal_stream(const uvcc_session *s, const uvcci_deal *d, unsigned group,
                           uint32_t block, uvcc_role role) {
    const uvcci_instance *r = d->r;
    uint8_t edge = r->ids.edge[block];
    assert(role != UVCC_OTHER && group < r->plan->key_count);
    if (uvcci_role_of(s->party, edge) != UVCCI_OTHER)
        return NULL;
    unsigned k = uvcci_party_of((uvcci_role)role, edge) == d->dst[0] ? 0 : 1;
    assert(d->at[k][group][block] <= r->deal_bytes); /* a stream may be empty */
    return r->deal_buf + d->at[k][group][block];
}

/* The first chunk that goes to d->dst[k], from the i-th on; NULL: there is none. */
static const uvcci_key_chunk *chunk_for(const uvcci_deal *d, unsigned g, unsigned k, uint32_t *i) {
    const uvcci_batch_out *out = &d->r->deal_out[g];
    while (*i < out->key_chunk_count && out->key_chunks[*i].dst != d->dst[k])
        ++*i;
    return *i < out->key_chunk_count ? &out->key_chunks[*i] : NULL;
}

static bool comes_first(const uvcci_key_chunk *a, const uvcci_key_chunk *b) {
    if (a == NULL || b == NULL)
        return a != NULL;
    return a->block != b->block ? a->block < b->block : a->offset <= b->offset;
}

/* Chunks of both receivers go in the order of their places in the streams: what was made once is in
 * the cache when it is copied again. */
static void deal_copies(const uvcci_deal *d, uvcc_copy_item *copies) {
    uint32_t n = 0;
    for (unsigned g = 0; g < d->r->plan->key_count; g++) {
        uint32_t at[2] = {0, 0};
        const uvcci_key_chunk *next[2];
        for (;;) {
            for (unsigned k = 0; k < 2; k++)
                next[k] = chunk_for(d, g, k, &at[k]);
            const unsigned k = comes_first(next[0], next[1]) ? 0 : 1;
            const uvcci_key_chunk *b = next[k];
            if (b == NULL)
                break;
            at[k]++;
            copies[n++] =
                (uvcc_copy_item){.dst = b->at,
                                 .src = d->r->deal_buf + d->at[k][g][b->block] + b->offset,
                                 .len = b->len};
        }
    }
    assert(n == d->key_chunks);
}

/* KEYS_DONE for each receiver. */
static int deal_hashes(uvcc_session *s, const uvcci_deal *d, uvcc_task *t, uint32_t *count) {
    uvcci_instance *r = d->r;
    uvcc_hash_item *items = uvcci_bump_take(&r->deal_bump, 2 * sizeof *items);
    if (items == NULL)
        return UVCC_ERR_NOMEM;
    uint32_t n = 0;
    for (unsigned k = 0; k < 2; k++) {
        if (d->total[k] == 0)
            continue;
        uvcci_pending_leaf *l =
            uvcci_leaf_later(&r->deal_bump, &r->deal_leaves, UVCCI_LEAF_KEYS_DONE);
        if (l == NULL)
            return UVCC_ERR_NOMEM;
        l->src = s->party;
        l->dst = d->dst[k];
        items[n] = (uvcc_hash_item){.mode = UVCC_HASH_HMAC,
                                    .data = r->deal_buf + (k == 0 ? 0 : d->total[0]),
                                    .len = d->total[k],
                                    .out = l->digest};
        memcpy(items[n].key, r->step->salt[d->dst[k]], 32);
        n++;
    }
    if (n != 0)
        t[(*count)++] = (uvcc_task){.kind = UVCC_TASK_HASH, .u.hash = {.items = items, .count = n}};
    return 0;
}

/* Builds the deal's tasks. 0, UVCC_ERR_AGAIN or UVCC_ERR_NOMEM. */
static int deal_build(uvcc_session *s, uvcci_instance *r, uvcc_task **tasks, uint32_t *count) {
    const uvcci_op_way *way = r->plan->way;
    uvcci_deal d = {.r = r, .dst = {uvcci_next_party(s), uvcci_prev_party(s)}};
    int rc = deal_open(s, &d);
    if (rc != 0)
        return rc;
    uint32_t most = 2 + way->deal_tasks(r); /* and the copies, and the digests */
    uvcc_copy_item *copies = uvcci_bump_take(&r->deal_bump, (d.key_chunks + 1u) * sizeof *copies);
    uvcc_task *t = *tasks = uvcci_bump_take(&r->deal_bump, most * sizeof *t);
    if (copies == NULL || t == NULL)
        return UVCC_ERR_NOMEM;
    *count = 0;
    rc = way->deal(s, &d, t, count);
    assert(rc != 0 || *count + 2 <= most);
    if (rc != 0)
        return rc;
    deal_copies(&d, copies);
    t[(*count)++] =
        (uvcc_task){.kind = UVCC_TASK_COPY, .u.copy = {.items = copies, .count = d.key_chunks}};
    return s->cfg.checks.audit_off ? 0 : deal_hashes(s, &d, t, count);
}

/* What the job worked on: the keys stand in their messages. */
static void free_streams(uvcc_session *s, uvcci_instance *r) {
    uvcci_arena_give(&s->tensors, r->deal_buf, r->deal_bytes);
    uvcci_arena_give(&s->tensors, r->deal_words, r->deal_words_bytes);
    r->deal_buf = NULL;
    r->deal_words = NULL;
    assert(s->dealing >= r->deal_taken);
    s->dealing -= r->deal_taken;
    r->deal_taken = 0;
}

void uvcci_deal_free(uvcc_session *s, uvcci_instance *r) {
    free_streams(s, r);
    for (unsigned g = 0; r->deal_out != NULL && g < r->plan->key_count; g++)
        uvcci_batch_drop(s, &r->deal_out[g]);
    r->deal_leaves = NULL;
    r->deal_out = NULL;
    assert(uvcci_bump_bytes(&r->deal_bump) <= uvcci_deal_memory(r->plan));
    uvcci_bump_reset(&r->deal_bump);
}

/* Sends one op's keys; its job is done. */
static void deal_send(uvcc_session *s, uvcci_instance *r) {
    uvcci_step *st = r->step;
    uint64_t bytes = 0;
    if (!s->cfg.checks.audit_off)
        uvcci_leaves_write(s, r, r->deal_leaves);
    for (unsigned g = 0; g < r->plan->key_count; g++)
        for (uint32_t i = 0; r->deal_out != NULL && i < r->deal_out[g].count; i++) {
            uvcci_tx *tx = &r->deal_out[g].tx[i];
            uvcc_link_msg *msg = tx->msg;
            tx->msg = NULL;
            uvcci_send(s, tx->dst, msg, UVCC_FRAME_KEYS_BATCH, tx->len, st->number,
                       st->table.rows[r->row0 + tx->b].op_id,
                       (uint64_t)st->number << 32 | (uint64_t)(r - st->instances) << 6);
            if (uvcci_failed(s))
                return;
            bytes += tx->len;
        }
    uvcci_trace_sent(s, r, UVCC_TRACE_KEYS, bytes);
    uvcci_deal_free(s, r);
    st->deals_sent++;
}

/* Keys go out in schedule order whatever order their jobs end in: keys of later ops must not use up
 * the credit that an earlier op's keys need. */
static void send_in_order(uvcc_session *s) {
    for (uint32_t k = 0; k < 2; k++) {
        uvcci_step *st = uvcci_step_of(s, s->step + k);
        if (st == NULL)
            return;
        while (st->deals_sent < st->instance_count && st->instances[st->deals_sent].deal_done) {
            deal_send(s, &st->instances[st->deals_sent]);
            if (uvcci_failed(s))
                return;
        }
        if (st->deals_sent < st->instance_count)
            return;
    }
}

void uvcci_deal_ready(uvcc_session *s) {
    send_in_order(s);
}

void uvcci_deal_job_done(uvcc_session *s, uvcci_instance *r) {
    assert(!r->deal_done && r->deal_out != NULL);
    r->deal_done = true;
    free_streams(s, r);
    send_in_order(s);
}

/* What one link must have room for before the keys of an op are made, about: they all get their
 * messages at once, and a try in vain allocates and wipes as many as fit. */
static uint32_t keys_wanted(const uvcc_session *s, const uvcci_instance *r) {
    uint64_t mine = 0;
    for (uint32_t i = 0; i < r->plan->blocks; i++)
        mine += uvcci_role_of(s->party, r->ids.edge[i]) == UVCCI_OTHER;
    assert(r->plan->blocks != 0 && mine <= r->plan->blocks);
    uint64_t bytes = r->plan->key_bytes_max / r->plan->blocks * mine;
    bytes -= bytes > 64 ? 64 : 0; /* it counts 64 beside a message, and so does the link */
    return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

uint64_t uvcci_deal_takes(const uvcci_plan *plan) {
    const uint64_t words = plan->way->deal_words != NULL ? plan->way->deal_words(plan) : 0;
    return uvcci_arena_rounded(2 * plan->key_bytes_max) + uvcci_arena_rounded(words * 8);
}

uint64_t uvcci_deal_room(const uvcc_session *s) {
    return 2 * uvcci_link_config_of(s->peer[uvcci_next_party(s)].link)->tx_keys_bytes;
}

/* Starts deals of one step in program order until room runs out. */
static bool deal_step(uvcc_session *s, uvcci_step *st) {
    bool any = false;
    while (st->deal_next < st->instance_count && !uvcci_failed(s)) {
        uvcci_instance *r = &st->instances[st->deal_next];
        if (!deals_here(s, r)) {
            r->deal_done = true; /* nothing to send, in its turn */
            st->deal_next++;
            any = true;
            continue;
        }
        const uint32_t wanted = keys_wanted(s, r);
        const uint64_t takes = uvcci_deal_takes(r->plan);
        if (uvcci_jobs_full(&s->jobs) ||
            (s->dealing != 0 && s->dealing + takes > uvcci_deal_room(s)) ||
            !uvcc_link_writable(s->peer[uvcci_next_party(s)].link, UVCC_FRAME_KEYS_BATCH, wanted) ||
            !uvcc_link_writable(s->peer[uvcci_prev_party(s)].link, UVCC_FRAME_KEYS_BATCH, wanted))
            return any;
        uvcc_task *tasks;
        uint32_t count;
        int rc = deal_build(s, r, &tasks, &count);
        if (rc == UVCC_ERR_AGAIN) {
            uvcci_deal_free(s, r);
            return any;
        }
        if (rc != 0) {
            uvcci_abort(s, UVCC_ABORT_MEMORY, "no memory to deal keys");
            return true;
        }
        if (!uvcci_prg_check(s, r, tasks, count))
            return true;
        uvcci_names_job(s, r, tasks, count);
        st->deal_next++;
        r->deal_taken = takes;
        s->dealing += takes;
        uvcci_jobs_push(&s->jobs, tasks, count, UVCCI_JOB_DEAL, uvcci_job_rank(r), r);
        any = true;
    }
    return any;
}

bool uvcci_deal_advance(uvcc_session *s) {
    bool any = false;
    for (uint32_t k = 0; k < 2 && !uvcci_failed(s); k++) { /* the running step first */
        uvcci_step *st = uvcci_step_of(s, s->step + k);
        if (st == NULL || !st->agreed || st->halted)
            break;
        any |= deal_step(s, st);
        if (st->deal_next < st->instance_count)
            break; /* in schedule order */
    }
    if (any && !uvcci_failed(s))
        send_in_order(s);
    return any;
}
