/* SPDX-License-Identifier: Apache-2.0 */
/* cancel.c - dropping a step that runs: all three agree, the tensors are as before it.
 *
 * A step that a host wants to drop, or of which a peer says so, halts here (nothing of it is
 * computed or sent any more) unless it is finished or this host did not allow it; either way each
 * party says once which: STOPPED or FINISHED. With one FINISHED all go on; with three STOPPED it is
 * dropped: each party waits until its peers have all that it sent of the step, says FLUSHED, and
 * ends the step when both others said so.
 *
 * So a party ends a dropped step only after the other two decided to drop it, and who decided that
 * never finishes it: a third that tells one of them STOPPED and the other FINISHED gets an abort
 * (the FLUSHED of the first is refused by the second), never two outcomes.
 *
 * States of the step: runs -> halted -> runs again, or dropped -> quiet (its jobs are back, what it
 * held of messages is released) -> over (step.c). Votes stand by step mod 8: they come for two
 * steps on either side of the first unfinished one. */
#include "exec/session/cancel.h"

#include "exec/ops/dealing.h"
#include "exec/session/instance.h"

#include "proto/link_session.h"
#include "proto/mutant.h"
#include <assert.h>
#include <string.h>

enum { SLOTS = 8, BEHIND = 2, AHEAD = 2 };
_Static_assert(sizeof((uvcci_cancel *)0)->vote[0] == SLOTS, "by step mod 8");

static uint8_t *vote_at(uvcc_session *s, uint8_t party, uint32_t step) {
    assert(party < UVCC_PARTIES);
    return &s->cancel.vote[party][step % SLOTS];
}

static uint8_t vote_of(const uvcc_session *s, uint8_t party, uint32_t step) {
    assert(party < UVCC_PARTIES);
    return s->cancel.vote[party][step % SLOTS];
}

/* ---- the tensors as they were ---- */

static bool saves(const uvcc_session *s) {
    return s->cfg.resume.cancellable != 0 && !s->cfg.triples.only;
}

/* The op writes the tensor that owns this buffer. */
static bool writes(const uvcc_program *p, const uvcci_entry *e, uint32_t owner) {
    for (uint32_t i = 0; i < e->op_count; i++)
        for (unsigned k = 0; k < UVCC_OP_MAX_OUT; k++) {
            const uint32_t out = e->ops[i].desc.out[k];
            if (out != UVCC_NO_TENSOR && p->tensors[out].buffer == owner)
                return true;
        }
    return false;
}

/* Taken once: a step that is about to start must not fail for want of it. */
int uvcci_cancel_init(uvcc_session *s) {
    uvcci_cancel *c = &s->cancel;
    const uvcc_program *p = s->program;
    if (s->cfg.resume.cancellable == 0)
        return 0;
    for (uint32_t e = 0; e < p->entry_count; e++)
        if (uvcci_collective_count(&p->entries[e]) != 0)
            return uvcci_refuse(s, UVCC_ERR_CONFIG,
                                "resume.cancellable: the program has collectives, and other "
                                "workers would not know that a step is dropped");
    if (!saves(s))
        return 0;
    const size_t bytes = p->tensor_count * sizeof c->saved[0];
    c->saved = s->alloc.alloc(s->alloc.user, bytes, UVCC_MEM_STATE);
    if (c->saved == NULL)
        return UVCC_ERR_NOMEM;
    memset(c->saved, 0, bytes);
    for (uint32_t i = 0; i < p->tensor_count; i++) {
        bool any = false;
        for (uint32_t e = 0; p->tensors[i].desc.lifetime == UVCC_PERSIST && e < p->entry_count; e++)
            any |= p->tensors[i].buffer == i && writes(p, &p->entries[e], i);
        if (!any)
            continue;
        c->saved[i].lo = uvcci_arena_take(&s->tensors, p->tensors[i].elems * 8);
        c->saved[i].hi = uvcci_arena_take(&s->tensors, p->tensors[i].elems * 8);
        if (c->saved[i].lo == NULL || c->saved[i].hi == NULL)
            return UVCC_ERR_NOMEM;
        c->item_cap += 2;
    }
    if (c->item_cap == 0)
        return 0;
    c->items = s->alloc.alloc(s->alloc.user, c->item_cap * sizeof c->items[0], UVCC_MEM_STATE);
    return c->items != NULL ? 0 : UVCC_ERR_NOMEM;
}

void uvcci_cancel_free(uvcc_session *s) {
    uvcci_cancel *c = &s->cancel;
    if (c->saved == NULL)
        return;
    for (uint32_t i = 0; i < s->program->tensor_count; i++) {
        uvcci_arena_give(&s->tensors, c->saved[i].lo, s->program->tensors[i].elems * 8);
        uvcci_arena_give(&s->tensors, c->saved[i].hi, s->program->tensors[i].elems * 8);
    }
    if (c->items != NULL)
        s->alloc.free(s->alloc.user, c->items, c->item_cap * sizeof c->items[0], UVCC_MEM_STATE);
    s->alloc.free(s->alloc.user, c->saved, s->program->tensor_count * sizeof c->saved[0],
                  UVCC_MEM_STATE);
    memset(c, 0, sizeof *c);
}

static void add_copy(uvcci_cancel *c, uint64_t *dst, const uint64_t *src, uint64_t elems) {
    assert(c->task.u.copy.count < c->item_cap && dst != NULL && src != NULL);
    c->items[c->task.u.copy.count++] = (uvcc_copy_item){
        .dst = (uint8_t *)dst, .src = (const uint8_t *)src, .len = (size_t)elems * 8};
}

/* Copies what the step's entry writes, there or back. False: that is nothing. */
static bool start_copy(uvcc_session *s, const uvcci_step *st, bool back) {
    uvcci_cancel *c = &s->cancel;
    assert(!c->job_out);
    c->task = (uvcc_task){.kind = UVCC_TASK_COPY, .u.copy = {.items = c->items}};
    for (uint32_t i = 0; c->saved != NULL && i < s->program->tensor_count; i++) {
        const uvcc_shares *live = &s->buffers[i].shares, *kept = &c->saved[i];
        if (kept->lo == NULL || !writes(s->program, st->entry, i))
            continue;
        add_copy(c, back ? live->lo : kept->lo, back ? kept->lo : live->lo,
                 s->program->tensors[i].elems);
        add_copy(c, back ? live->hi : kept->hi, back ? kept->hi : live->hi,
                 s->program->tensors[i].elems);
    }
    if (c->task.u.copy.count == 0)
        return false;
    c->job_out = true;
    uvcci_jobs_push(&s->jobs, &c->task, 1, UVCCI_JOB_CANCEL, 0, c);
    return true;
}

bool uvcci_cancel_saved(uvcc_session *s, uvcci_step *st) {
    if (!saves(s) || st->saved)
        return true;
    if (st->halted || s->cancel.job_out || uvcci_jobs_full(&s->jobs))
        return false;
    st->saved = !start_copy(s, st, false);
    return st->saved;
}

/* What came while the step halted may be of tensors that the host sets until it starts. */
void uvcci_cancel_job_done(uvcc_session *s) {
    uvcci_step *st = uvcci_step_of(s, s->step);
    assert(s->cancel.job_out);
    s->cancel.job_out = false;
    if (st == NULL || uvcci_failed(s))
        return;
    if (st->running)
        st->restored = true;
    else
        st->saved = !st->halted && s->sets == NULL;
}

/* ---- votes ---- */

static void say(uvcc_session *s, uint8_t dst, uint32_t step, uint8_t vote) {
    const uvcci_cancel_msg m = {.vote = vote, .step = step};
    uint8_t bytes[UVCCI_CANCEL_BYTES];
    uvcc_link_msg *msg;
    int n = uvcci_cancel_encode(&m, bytes, sizeof bytes);
    assert(n == (int)UVCCI_CANCEL_BYTES);
    (void)n;
    if (uvcc_link_msg_new(s->peer[dst].link, UVCC_FRAME_CANCEL, sizeof bytes, &msg) != 0) {
        uvcci_abort(s, UVCC_ABORT_MEMORY, "no room for a CANCEL message");
        return;
    }
    memcpy(uvcc_link_msg_data(msg), bytes, sizeof bytes);
    uvcci_send(s, dst, msg, UVCC_FRAME_CANCEL, sizeof bytes, s->step, 0, 0);
}

static void vote(uvcc_session *s, uint32_t step, uint8_t v) {
    *vote_at(s, s->party, step) = v;
    s->cancel.since = s->now;
    s->cancel.unacked |= v != UVCCI_VOTE_FLUSHED;
    say(s, uvcci_next_party(s), step, v);
    if (!uvcci_failed(s))
        say(s, uvcci_prev_party(s), step, v);
}

/* All is done but the root. */
static bool ops_done(const uvcci_step *st) {
    return st->running && st->instances_done == st->instance_count &&
           st->deals_sent == st->instance_count && st->hashing == 0;
}

static bool may_stop(const uvcc_session *s, const uvcci_step *st) {
    return s->cfg.resume.cancellable != 0 && !ops_done(st);
}

static void stop(uvcc_session *s, uvcci_step *st) {
    assert(!st->halted && st->number == s->step);
    st->halted = true;
    st->saved &= st->running; /* the host may set tensors meanwhile */
    vote(s, st->number, UVCCI_VOTE_STOPPED);
}

int uvcci_cancel_ask(uvcc_session *s, uint32_t step) {
    if (s->cfg.resume.cancellable == 0)
        return uvcci_refuse(s, UVCC_ERR_STATE, "resume.cancellable is not set");
    uvcci_step *st = uvcci_step_of(s, step);
    if (st == NULL)
        return uvcci_refuse(s, UVCC_ERR_STATE, "step %u is over, or not agreed to here", step);
    if (step != s->step)
        return uvcci_refuse(s, UVCC_ERR_AGAIN, "step %u runs before step %u", s->step, step);
    if (vote_of(s, s->party, step) == UVCCI_VOTE_NONE && !ops_done(st))
        stop(s, st);
    return 0;
}

static bool peers_said(const uvcc_session *s, uint32_t step, uint8_t v) {
    return vote_of(s, uvcci_next_party(s), step) == v || vote_of(s, uvcci_prev_party(s), step) == v;
}

/* FLUSHED is of whom all votes had reached, and found STOPPED, this party's too. */
static const char *fault(const uvcc_session *s, uint8_t peer, const uvcci_cancel_msg *m) {
    const uint8_t before = vote_of(s, peer, m->step), own = vote_of(s, s->party, m->step);
    const uvcci_step *st = &s->ctx[m->step & 1];
    const bool halted = st->active && st->number == m->step && st->halted;
    if (m->vote != UVCCI_VOTE_FLUSHED && before != UVCCI_VOTE_NONE)
        return "a peer voted twice on a step";
    if (m->vote == UVCCI_VOTE_FINISHED &&
        (own == UVCCI_VOTE_FLUSHED ||
         vote_of(s, (uint8_t)(3 - s->party - peer), m->step) == UVCCI_VOTE_FLUSHED))
        return "a peer finishes a step that all agreed to drop";
    if (m->vote != UVCCI_VOTE_FLUSHED)
        return NULL;
    if (before != UVCCI_VOTE_STOPPED || m->step != s->step || !halted ||
        (own != UVCCI_VOTE_STOPPED && own != UVCCI_VOTE_FLUSHED) ||
        peers_said(s, m->step, UVCCI_VOTE_FINISHED))
        return "a peer drops a step that another finishes";
    return NULL;
}

void uvcci_cancel_on_message(uvcc_session *s, uint8_t peer, const uint8_t *data, uint32_t len) {
    uvcci_cancel_msg m;
    if (uvcci_cancel_decode(&m, data, len) != 0 || s->cfg.checks.audit_off) {
        uvcci_abort(s, UVCC_ABORT_BATCH, "a CANCEL message is malformed or not wanted");
        return;
    }
    const int64_t ahead = (int64_t)m.step - s->step;
    const char *why = ahead < -BEHIND || ahead > AHEAD || m.step < s->hello.step
                          ? "a peer's CANCEL is for another step"
                          : fault(s, peer, &m);
    if (why != NULL) {
        uvcci_abort(s, UVCC_ABORT_STEP, why);
        return;
    }
    *vote_at(s, peer, m.step) = m.vote;
    if (m.step < s->step && m.vote == UVCCI_VOTE_STOPPED &&
        vote_of(s, s->party, m.step) == UVCCI_VOTE_NONE)
        vote(s, m.step, UVCCI_VOTE_FINISHED);
}

/* ---- going on, or not ---- */

bool uvcci_cancel_parks(uvcci_job_owner owner, void *who) {
    uvcci_instance *r = who;
    if ((owner != UVCCI_JOB_OP && owner != UVCCI_JOB_DEAL) || !r->step->halted)
        return false;
    *(owner == UVCCI_JOB_OP ? &r->parked : &r->deal_parked) = true;
    return true;
}

/* As if nothing had been: what was parked goes its way, everything is looked at again. */
static void go_on(uvcc_session *s, uvcci_step *st) {
    assert(st->halted && !st->dropped);
    st->halted = false;
    for (uint32_t i = 0; i < st->instance_count && !uvcci_failed(s); i++) {
        uvcci_instance *r = &st->instances[i];
        uvcci_instance_wake(r);
        if (r->deal_parked)
            uvcci_deal_job_done(s, r);
        r->deal_parked = false;
        const bool parked = r->parked;
        r->parked = false;
        if (parked && !uvcci_failed(s))
            uvcci_op_job_done(s, r);
    }
}

/* A peer that is gone finished the step: it does not leave one that it agreed to and did not vote
 * on. */
static bool finishes(const uvcc_session *s, uint8_t peer, const uvcci_step *st) {
    const uint8_t v = vote_of(s, peer, st->number);
    return v == UVCCI_VOTE_FINISHED || (v == UVCCI_VOTE_NONE && s->peer[peer].bye && st->agreed);
}

static bool decide(uvcc_session *s, uvcci_step *st) {
    const uint8_t a = uvcci_next_party(s), b = uvcci_prev_party(s);
    assert(st->halted && !st->dropped);
    if (finishes(s, a, st) || finishes(s, b, st)) {
        if (peers_said(s, st->number, UVCCI_VOTE_FLUSHED)) /* one that said BYE to us alone */
            uvcci_abort(s, UVCC_ABORT_STEP, "a peer drops a step that another finishes");
        else
            go_on(s, st);
        return true;
    }
    st->dropped = vote_of(s, a, st->number) != UVCCI_VOTE_NONE &&
                  vote_of(s, b, st->number) != UVCCI_VOTE_NONE;
    return st->dropped;
}

/* Jobs of the step that an executor may still work on. */
static bool jobs_out(const uvcci_step *st) {
    for (uint32_t i = 0; i < st->instance_count; i++) {
        const uvcci_instance *r = &st->instances[i];
        if ((r->job_out && !r->parked) || r->gather_out ||
            (r->deal_out != NULL && !r->deal_done && !r->deal_parked))
            return true;
    }
    return st->hashing != 0;
}

/* What came of the step goes back to the links: a peer may wait for that credit with the rest. */
static bool quieten(uvcc_session *s, uvcci_step *st) {
    if (st->quiet || jobs_out(st) || s->cancel.job_out || uvcci_jobs_full(&s->jobs))
        return false;
    st->quiet = true;
    for (uint32_t i = 0; i < st->instance_count; i++)
        uvcci_instance_release(s, &st->instances[i]);
    if (!st->running || UVCCI_MUTANT(32) || !saves(s) || !start_copy(s, st, true))
        st->restored = true;
    return true;
}

static bool flush(uvcc_session *s, const uvcci_step *st) {
    if (!st->quiet || !st->agreed || vote_of(s, s->party, st->number) != UVCCI_VOTE_STOPPED ||
        !uvcci_link_flushed(s->peer[uvcci_next_party(s)].link, st->number) ||
        !uvcci_link_flushed(s->peer[uvcci_prev_party(s)].link, st->number))
        return false;
    vote(s, st->number, UVCCI_VOTE_FLUSHED);
    return true;
}

bool uvcci_cancel_advance(uvcc_session *s) {
    uvcci_step *st = uvcci_step_of(s, s->step);
    bool any = false;
    if (st == NULL)
        return false;
    if (vote_of(s, s->party, st->number) == UVCCI_VOTE_NONE &&
        peers_said(s, st->number, UVCCI_VOTE_STOPPED)) {
        any = true;
        if (may_stop(s, st))
            stop(s, st);
        else
            vote(s, st->number, UVCCI_VOTE_FINISHED);
    }
    if (!uvcci_failed(s) && st->halted && !st->dropped)
        any |= decide(s, st);
    if (!uvcci_failed(s) && st->dropped) {
        any |= quieten(s, st);
        any |= flush(s, st);
    }
    return any;
}

bool uvcci_cancel_complete(const uvcc_session *s, const uvcci_step *st) {
    return st->restored && st->dropped && vote_of(s, s->party, st->number) == UVCCI_VOTE_FLUSHED &&
           vote_of(s, uvcci_next_party(s), st->number) == UVCCI_VOTE_FLUSHED &&
           vote_of(s, uvcci_prev_party(s), st->number) == UVCCI_VOTE_FLUSHED;
}

bool uvcci_cancel_discards(uvcc_session *s, uint8_t peer, const uvcc_link_rx *m) {
    const uvcci_step *st = uvcci_step_of(s, m->step);
    if (st == NULL || !st->dropped)
        return false;
    if (vote_of(s, peer, m->step) == UVCCI_VOTE_FLUSHED)
        uvcci_abort(s, UVCC_ABORT_STEP, "a peer sends more of a step than all that it sent");
    else
        (void)uvcc_link_accept(s->peer[peer].link, m->token, s->now);
    (void)uvcc_link_release(s->peer[peer].link, m->token, s->now);
    return true;
}

/* A vote reaches its peer while this party is in that step or the next, or its keys would be gone
 * there. */
bool uvcci_cancel_holds(uvcc_session *s, const uvcci_step *st) {
    for (uint8_t p = 0; s->cancel.unacked && p < UVCC_PARTIES; p++)
        if (p != s->party && !s->peer[p].bye &&
            !uvcci_link_kind_acked(s->peer[p].link, UVCC_FRAME_CANCEL))
            return true;
    s->cancel.unacked = false;
    return st->halted;
}

void uvcci_cancel_passed(uvcc_session *s) {
    for (uint8_t p = 0; p < UVCC_PARTIES; p++)
        *vote_at(s, p, s->step + AHEAD) = UVCCI_VOTE_NONE;
}

bool uvcci_cancel_waits(const uvcc_session *s, uint8_t peer, const uvcci_step *st) {
    const uint8_t v = vote_of(s, peer, st->number);
    return st->halted && (st->dropped ? v != UVCCI_VOTE_FLUSHED : v == UVCCI_VOTE_NONE);
}
