/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - a session takes its program: plans of all ops, capacities that these need, PERSIST
 * tensors, links. */
#include "exec/session/load.h"
#include "exec/program/memory.h"
#include "exec/program/window.h"

#include "exec/runtime/names.h"
#include "exec/session/cancel.h"
#include "exec/session/checkpoint.h"
#include "exec/session/config.h"
#include "proto/bytes.h"
#include "proto/link_session.h"
#include <assert.h>
#include <string.h>

#define KEYS_USUAL (32ull << 20) /* that a peer may send ahead */

typedef struct needs {
    uint64_t online_bytes, key_bytes;               /* of the most in a window; of the largest op */
    uint64_t messages;                              /* in a window */
    uint64_t step_keys, step_messages, step_leaves; /* of the entry that has most */
    uint32_t outputs;
} needs;

static uint64_t at_least(uint64_t value, uint64_t least) {
    return value < least ? least : value;
}

/* What the peers may have sent that is not used: of ops in a window, and of all products on
 * triples, whose C comes before they begin. */
typedef struct in_window {
    needs *n;
    uint64_t bytes, messages;
} in_window;

static void enter_window(void *user, uint32_t op, const uvcci_plan *plan) {
    in_window *w = user;
    (void)op;
    if (!plan->beaver.on) {
        w->bytes += plan->online_bytes_max;
        w->messages += plan->messages_max;
    }
    w->n->online_bytes = w->bytes > w->n->online_bytes ? w->bytes : w->n->online_bytes;
    w->n->messages = w->messages > w->n->messages ? w->messages : w->n->messages;
}

static void leave_window(void *user, uint32_t op, const uvcci_plan *plan) {
    in_window *w = user;
    (void)op;
    if (plan->beaver.on)
        return;
    w->bytes -= plan->online_bytes_max;
    w->messages -= plan->messages_max;
}

/* Every op of every entry is planned here, so that a program which cannot run is refused before
 * anything is agreed, and the links are as large as the program needs. */
static int make_plans(uvcc_session *s, const uvcc_program *p, needs *n) {
    assert(s->plans == NULL && p->entry_count != 0);
    s->plans = s->alloc.alloc(s->alloc.user, p->entry_count * sizeof s->plans[0], UVCC_MEM_STATE);
    if (s->plans == NULL)
        return UVCC_ERR_NOMEM;
    memset(s->plans, 0, p->entry_count * sizeof s->plans[0]);
    for (uint32_t e = 0; e < p->entry_count; e++) {
        const uvcci_entry *entry = &p->entries[e];
        if (entry->op_count == 0)
            return uvcci_refuse(s, UVCC_ERR_PROGRAM, "entry %s has no ops, inputs or outputs",
                                entry->name);
        s->plans[e] =
            s->alloc.alloc(s->alloc.user, entry->op_count * sizeof s->plans[e][0], UVCC_MEM_STATE);
        if (s->plans[e] == NULL)
            return UVCC_ERR_NOMEM;
        memset(s->plans[e], 0, entry->op_count * sizeof s->plans[e][0]);
        for (uint32_t i = 0; i < entry->op_count; i++) {
            int rc = uvcci_plan_pool_get(&s->plan_pool, p, entry, &entry->ops[i], &s->alloc,
                                         &s->plans[e][i]);
            if (rc != 0) {
                char label[128];
                return uvcci_refuse(
                    s, rc, "entry %s, %s: %s", entry->name, uvcci_op_label(&entry->ops[i], label),
                    rc == UVCC_ERR_PROGRAM ? "this version cannot run it, or it is too large"
                                           : "no memory for its plan");
            }
            const uvcci_plan *plan = s->plans[e][i];
            assert(plan->round_count + plan->key_count == 0 || plan->messages_max != 0);
            if (plan->key_bytes_max > n->key_bytes)
                n->key_bytes = plan->key_bytes_max;
        }
        in_window w = {.n = n};
        uint64_t keys = 0, messages = 0, leaves = 0;
        for (uint32_t i = 0; i < entry->op_count; i++) {
            const uvcci_plan *plan = s->plans[e][i];
            if (plan->beaver.on) {
                w.bytes += plan->online_bytes_max;
                w.messages += plan->messages_max;
            }
            keys += UVCCI_PLAN_SUM(plan, key_bytes_max);
            messages += UVCCI_PLAN_SUM(plan, messages_max);
            leaves += (plan->segments.count - 1) * uvcci_plan_leaves_max(plan) +
                      uvcci_plan_leaves_max(uvcci_plan_segment(plan, plan->segments.count - 1));
        }
        n->step_keys = at_least(n->step_keys, keys);
        n->step_messages = at_least(n->step_messages, messages);
        n->step_leaves = at_least(n->step_leaves, leaves);
        uvcci_window_ranges(
            s->plans[e], entry->op_count, entry->window,
            &(uvcci_window_walk){.enter = enter_window, .leave = leave_window, .user = &w});
        if (entry->output_count > n->outputs)
            n->outputs = entry->output_count;
    }
    return 0;
}

/* A configured capacity below what the program needs is refused; 0 takes the usual one. */
static int capacity(uvcc_session *s, const char *name, uint64_t configured, uint64_t needed,
                    uint64_t usual, uint64_t *out) {
    if (configured != 0 && configured < needed)
        return uvcci_refuse(s, UVCC_ERR_LIMIT, "%s is %llu, this program needs at least %llu", name,
                            (unsigned long long)configured, (unsigned long long)needed);
    *out = configured != 0 ? configured : at_least(usual, needed);
    return 0;
}

/* One configuration for both links, but for the peer. A link that a failed load made goes with the
 * session. */
static int make_links(uvcc_session *s, const needs *n) {
    uvcc_link_config c;
    uvcci_config_link(&s->cfg, &c);
    c.alloc = s->alloc;
    c.sid_tag = s->sid_tag;
    /* Two windows of online messages may be outstanding (window.h), one of them not acknowledged;
     * and small ones: those that ops leave room for, and those that are there already. */
    const uint64_t rx = 2 * n->online_bytes + UVCCI_SMALL_ROOM,
                   tx = n->online_bytes + 2 * UVCCI_SMALL_ROOM;
    /* A plan's keys are those of one who deals for all blocks, and on the average each party deals
     * for a third: so much room is enough for two steps, and nobody fills more honestly. */
    const uint64_t keys = at_least(n->step_keys, 65536), ahead = s->cfg.limits.keys_ahead_bytes;
    uint64_t messages = 0;
    int rc = capacity(s, "rx_messages_max", s->cfg.links.rx_messages_max, 2 * n->messages + 64, 0,
                      &messages);
    c.rx_messages_max = rc == 0 ? (uint32_t)messages : 0;
    if (rc == 0)
        rc =
            capacity(s, "rx_online_bytes", s->cfg.links.rx_online_bytes, rx, 0, &c.rx_online_bytes);
    if (rc == 0)
        rc =
            capacity(s, "tx_online_bytes", s->cfg.links.tx_online_bytes, tx, 0, &c.tx_online_bytes);
    if (rc == 0)
        rc = capacity(s, "rx_keys_bytes", s->cfg.links.rx_keys_bytes, n->key_bytes,
                      keys < KEYS_USUAL ? keys : KEYS_USUAL, &c.rx_keys_bytes);
    if (rc == 0)
        rc = capacity(s, "tx_keys_bytes", s->cfg.links.tx_keys_bytes, n->key_bytes,
                      keys < ahead ? keys : ahead, &c.tx_keys_bytes);
    for (uint8_t p = 0; rc == 0 && p < 3; p++) {
        c.peer = p;
        assert(s->peer[p].link == NULL);
        if (p != s->party)
            rc = uvcc_link_new(&s->peer[p].link, &c);
        if (p != s->party && rc == 0)
            uvcci_link_expect(s->peer[p].link, 2 * n->step_messages + 64);
        if (p != s->party && rc == 0)
            uvcci_names_link(s, s->peer[p].link);
    }
    return rc;
}

/* What a session that makes triples runs is another program, so that the handshake fails where not
 * all three do the same. */
static void hash_maker(uvcc_session *s) {
    uint8_t text[15 + 32 + 4];
    uvcci_writer w = uvcci_writer_on(text, sizeof text);
    uvcci_put(&w, "UVCC_TRIPLES_V1", 15);
    uvcci_put(&w, s->h_program, 32);
    uvcci_put32(&w, s->cfg.triples.run);
    assert(!w.bad && w.len == sizeof text);
    uvcci_sha256_once(text, w.len, s->h_program);
}

/* The program's topology, unless it is for any one worker, is that of the configuration, and its
 * entries are for this stage. */
static int check_place(uvcc_session *s, const uvcc_program *p) {
    if (p->replicas * p->stages * p->tp_ranks == 1)
        return 0;
    if (p->replicas != s->cfg.place.replicas || p->stages != s->cfg.place.stages ||
        p->tp_ranks != s->cfg.place.tp_ranks)
        return uvcci_refuse(s, UVCC_ERR_CONFIG,
                            "the program is for %u x %u x %u workers, not %u x %u x %u",
                            p->replicas, p->stages, p->tp_ranks, s->cfg.place.replicas,
                            s->cfg.place.stages, s->cfg.place.tp_ranks);
    for (uint32_t e = 0; e < p->entry_count; e++)
        if (p->entries[e].stages > 1 && p->entries[e].stage != s->cfg.place.stage)
            return uvcci_refuse(s, UVCC_ERR_CONFIG, "entry %s is for stage %u, not %u",
                                p->entries[e].name, p->entries[e].stage, s->cfg.place.stage);
    return 0;
}

/* Room for all collectives of a step at once. */
static int make_local_jobs(uvcc_session *s, const uvcc_program *p) {
    uint32_t most = 0;
    for (uint32_t e = 0; e < p->entry_count; e++) {
        const uint32_t n = uvcci_collective_count(&p->entries[e]);
        most = n > most ? n : most;
    }
    if (most == 0)
        return 0;
    assert(s->jobs.used == 0 && s->jobs.queued == 0);
    uvcci_jobs_free(&s->jobs, &s->alloc); /* empty: nothing runs before a program is loaded */
    return uvcci_jobs_init(&s->jobs, &s->alloc, s->cfg.limits.jobs_max, most, s->cfg.cookie);
}

static bool is_borrowed(const uvcc_session *s, const uvcci_tensor *t) {
    return s->lender != NULL && t->desc.sharing == UVCC_PUBLIC && t->constant == NULL;
}

/* The least TENSOR memory with which every op can run: what persists, and at one time all buffers
 * of one op. More is needed while several are live and for what ops work on; but with less than
 * this no order of the ops gets through. */
static uint64_t tensor_floor(const uvcc_session *s, const uvcc_program *p) {
    uint64_t kept = 0, most = 0;
    for (uint32_t i = 0; i < p->tensor_count; i++)
        if (p->tensors[i].buffer == i && p->tensors[i].desc.lifetime == UVCC_PERSIST &&
            !is_borrowed(s, &p->tensors[i]))
            kept += uvcci_buffer_rounded(p, i);
    for (uint32_t e = 0; e < p->entry_count; e++)
        for (uint32_t i = 0; i < p->entries[e].op_count; i++) {
            const uvcci_op *op = &p->entries[e].ops[i];
            uint64_t bytes = 0;
            for (uint32_t k = 0; k < op->touched_count; k++)
                if (p->tensors[op->touched[k]].desc.lifetime == UVCC_TRANSIENT)
                    bytes += uvcci_buffer_rounded(p, op->touched[k]);
            most = bytes > most ? bytes : most;
        }
    return kept + most;
}

static int check_tensors(uvcc_session *s, const uvcc_program *p) {
    const uint64_t needed = tensor_floor(s, p), limit = s->cfg.limits.tensor_bytes;
    const uint64_t gathered = s->cfg.limits.keys_gathered_bytes;
    if (limit == 0 || (limit >= needed && gathered <= limit - needed))
        return 0;
    return limit < needed
               ? uvcci_refuse(s, UVCC_ERR_LIMIT,
                              "limits.tensor_bytes is %llu, this program needs at least %llu",
                              (unsigned long long)limit, (unsigned long long)needed)
               : uvcci_refuse(s, UVCC_ERR_LIMIT,
                              "limits.keys_gathered_bytes is %llu, and limits.tensor_bytes leaves "
                              "%llu beside what this program needs at least",
                              (unsigned long long)gathered, (unsigned long long)(limit - needed));
}

/* Memory of what persists; public tensors that are borrowed have theirs. */
static int take_tensors(uvcc_session *s, const uvcc_program *p) {
    for (uint32_t i = 0; i < p->tensor_count; i++) {
        const uvcci_tensor *t = &p->tensors[i];
        uvcci_buffer *b = &s->buffers[i];
        if (t->desc.lifetime != UVCC_PERSIST || t->buffer != i)
            continue;
        assert(t->elems != 0);
        if (is_borrowed(s, t)) {
            b->shares.lo = s->lender->buffers[i].shares.lo;
            b->borrowed = true;
            continue;
        }
        b->shares.lo = uvcci_arena_take(&s->tensors, uvcci_component_bytes(t));
        if (uvcci_components(&t->desc) == 2)
            b->shares.hi = uvcci_arena_take(&s->tensors, uvcci_component_bytes(t));
        if (b->shares.lo == NULL || (b->shares.hi == NULL && uvcci_components(&t->desc) == 2))
            return UVCC_ERR_NOMEM;
    }
    return 0;
}

static int check_lender(uvcc_session *s, const uvcc_program *p) {
    uint8_t hash[32];
    if (s->lender == NULL)
        return 0;
    uvcc_program_hash(p, hash);
    return p == s->lender->program || memcmp(hash, s->lender->h_program, 32) == 0
               ? 0
               : uvcci_refuse(s, UVCC_ERR_PROGRAM,
                              "the session whose public tensors it borrows has another program");
}

int uvcci_session_borrow_public(uvcc_session *s, uvcc_session *from) {
    if (s == NULL)
        return UVCC_ERR_USAGE;
    if (from == NULL || from == s)
        return uvcci_refuse(s, UVCC_ERR_USAGE, "there is no other session to borrow from");
    if (s->state != UVCCI_SESSION_NEW || s->program != NULL)
        return uvcci_refuse(s, UVCC_ERR_STATE, "a program was loaded already");
    if (from->state == UVCCI_SESSION_NEW)
        return uvcci_refuse(s, UVCC_ERR_STATE, "the session that lends has no program");
    s->lender = from;
    return 0;
}

/* In the order in which things are needed: the program and its hash, plans, memory that lives as
 * long as the session, then links of the size that the plans ask for. */
int uvcci_session_load_program(uvcc_session *s, const uvcc_program *p) {
    if (s == NULL)
        return UVCC_ERR_USAGE;
    if (p == NULL || !p->finished)
        return uvcci_refuse(s, UVCC_ERR_USAGE,
                            p == NULL ? "there is no program: NULL"
                                      : "the program is not finished");
    if (s->state != UVCCI_SESSION_NEW || s->program != NULL)
        return uvcci_refuse(s, UVCC_ERR_STATE, "a program was loaded already");
    int rc = check_place(s, p);
    if (rc == 0)
        rc = check_lender(s, p);
    if (rc == 0)
        rc = check_tensors(s, p);
    if (rc != 0)
        return rc;
    s->program = p; /* a failed load leaves a session that can only be freed */
    uvcc_program_hash(p, s->h_program);
    if (s->cfg.triples.only)
        hash_maker(s);
    needs n = {0};
    rc = make_plans(s, p, &n);
    if (rc != 0)
        return rc;
    if (s->cfg.limits.leaves_max == UVCCI_LEAVES_USUAL && n.step_leaves + 64 > UVCCI_LEAVES_USUAL)
        s->cfg.limits.leaves_max =
            n.step_leaves + 64 < UINT32_MAX ? (uint32_t)n.step_leaves + 64 : UINT32_MAX;
    s->event_cap = 96 + 2 * n.outputs + UVCCI_MISMATCH_EVENTS;
    s->events = s->alloc.alloc(s->alloc.user, s->event_cap * sizeof s->events[0], UVCC_MEM_STATE);
    s->buffers =
        s->alloc.alloc(s->alloc.user, p->tensor_count * sizeof s->buffers[0], UVCC_MEM_STATE);
    if (s->buffers != NULL)
        memset(s->buffers, 0, p->tensor_count * sizeof s->buffers[0]);
    if (s->events == NULL || s->buffers == NULL)
        return UVCC_ERR_NOMEM;
    rc = take_tensors(s, p);
    if (rc == 0)
        rc = make_local_jobs(s, p);
    if (rc == 0)
        rc = uvcci_checkpoint_init(s);
    if (rc == 0)
        rc = uvcci_cancel_init(s);
    if (rc == 0)
        rc = make_links(s, &n);
    if (rc == 0)
        s->state = UVCCI_SESSION_LOADED;
    return rc;
}
