/* SPDX-License-Identifier: Apache-2.0 */
/* instance.c - the ops of a step as state machines.
 *
 * An instance goes through turns (plan.h), in the way of its plan (op_way.h): no op has a name
 * here. A turn starts when its round has come whole (and its keys), builds one job of several tasks
 * together with the messages that it fills, and ends when the job's completion comes: then leaves
 * are written, the messages go out, the round that it consumed is released. Nothing here looks at a
 * share: tasks do. An op whose job is out, or that waits, holds only INFLIGHT memory. */
#include "exec/session/instance.h"
#include "exec/session/window.h"

#include "exec/ops/dealing.h"
#include "exec/runtime/builder.h"
#include "exec/runtime/names.h"
#include "exec/runtime/op_memory.h"
#include "exec/runtime/prg_check.h"
#include "exec/runtime/trace.h"

#include "proto/bytes.h"
#include "proto/frame.h"
#include "proto/mutant.h"
#include "proto/prg.h"
#include <assert.h>

/* ---- small helpers ---- */

uint8_t uvcci_sent_leaf(uint8_t kind) {
    switch (kind) {
    case UVCC_FRAME_OPEN_BATCH:
        return UVCCI_LEAF_OPEN_SENT;
    case UVCC_FRAME_LIFT_BATCH:
        return UVCCI_LEAF_LIFT_SENT;
    case UVCC_FRAME_RESHARE_BATCH:
    case UVCC_FRAME_INPUT_BATCH:
        return UVCCI_LEAF_SHARE_SENT;
    default:
        return 0;
    }
}

/* The engine of a block of a round's vector. */
static uvcci_engine *engine_at(uvcci_instance *r, const uvcci_plan_round *round, unsigned vec,
                               uint32_t block) {
    return &(*uvcci_engines_of(r, &round->vec[vec]))[round->first_block + block];
}

/* ---- running ---- */

static bool reads_keys(const uvcci_instance *r) {
    return r->plan->key_count != 0 && r->turn == r->plan->key_turn;
}

static const uvcci_op_way *way_of(const uvcci_instance *r) {
    assert(r->plan->way != NULL);
    return r->plan->way;
}

/* What no later turn reads: keys, and what the state holds. */
static void free_scratch(uvcc_session *s, uvcci_instance *r) {
    uvcci_gathered_done(s, r);
    uvcci_arena_give(&s->tensors, r->keys, r->key_bytes);
    r->keys = NULL;
    if (way_of(r)->release != NULL && r->state != NULL)
        way_of(r)->release(s, r);
}

/* What the present turn took goes. */
static void reset_turn(uvcci_instance *r) {
    assert(uvcci_bump_bytes(&r->turn_bump) == 0 ||
           uvcci_bump_bytes(&r->turn_bump) <= uvcci_turn_memory(r->plan, r->turn));
    r->out = NULL;
    r->tasks = NULL;
    uvcci_bump_reset(&r->turn_bump);
}

/* The instance's own memory goes, and the state with it if it stands there. */
static void reset(uvcci_instance *r) {
    assert(uvcci_bump_bytes(&r->bump) <= uvcci_lasting_memory(r->plan));
    reset_turn(r);
    uvcci_bump_reset(&r->bump);
    r->key_at = NULL;
    if (way_of(r)->state_bytes != 0)
        r->state = NULL;
}

/* An op that turned out to have nothing to do. */
static bool skips(const uvcci_instance *r) {
    return way_of(r)->skips != NULL && way_of(r)->skips(r);
}

/* The host gave what the round would make. */
static bool given(const uvcci_instance *r, unsigned round) {
    return way_of(r)->given != NULL && way_of(r)->given(r, round);
}

/* What came for the turn is right. */
static bool take(uvcc_session *s, uvcci_instance *r) {
    return way_of(r)->take == NULL || way_of(r)->take(s, r);
}

/* Whether all rounds that turn `turn` sent (keys: all keys) have come from the peers. */
static bool rounds_came(const uvcci_instance *r, unsigned turn, bool keys) {
    const uvcci_plan *p = r->plan;
    unsigned first = keys ? p->round_count : 0;
    unsigned end = keys ? (unsigned)p->round_count + p->key_count : p->round_count;
    for (unsigned i = first; i < end; i++)
        if ((keys || uvcci_turn_sends(r, i, turn)) && !uvcci_round_came(r, i))
            return false;
    return true;
}

/* Whether the instance waits for the round: it follows the turn that it stands before, or it is of
 * a tile whose C this party sent. */
static bool awaits(const uvcci_instance *r, unsigned round) {
    const uvcci_plan_round *p = &r->plan->rounds[round];
    if (p->turn == UVCCI_TURN_TRIPLE)
        return p->tile >= r->tiles_here && p->tile < r->tiles_made;
    return r->turn != 0 && p->turn + 1u == r->turn;
}

uint32_t uvcci_instance_missing(const uvcc_session *s, const uvcci_instance *r, uint8_t peer) {
    const uvcci_plan *p = r->plan;
    const unsigned side = uvcci_side(s, peer), end = (unsigned)p->round_count + p->key_count;
    uint32_t n = 0;
    if (r->job_out || r->turn == UVCCI_TURN_DONE || uvcci_run_of(r)->preds_left != 0)
        return 0;
    for (unsigned i = 0; i < end; i++) {
        const bool now = i < p->round_count ? awaits(r, i) : reads_keys(r);
        uint64_t missing = now ? r->rounds[i].need[side] & ~r->rounds[i].seen[side] : 0;
        for (; missing != 0; missing &= missing - 1)
            n++;
    }
    return n;
}

void uvcci_round_release(uvcc_session *s, uvcci_instance *r, unsigned round) {
    uvcci_rx **held = &r->rounds[round].held;
    while (*held != NULL) {
        uvcci_rx *rx = *held;
        *held = rx->next;
        (void)uvcc_link_release(s->peer[rx->peer].link, rx->token, s->now);
        uvcci_wipe(&rx->item, sizeof rx->item); /* it held a leaf salt */
        s->alloc.free(s->alloc.user, rx, sizeof *rx, UVCC_MEM_STATE);
    }
}

/* The round of a sequential lift's second hop: it sends what came. */
static bool second_hop(const uvcci_plan_round *round) {
    return round->vec[0].hop != 0;
}

/* Tells the engines of a round's vectors that their local share is out. */
static void engines_sent(uvcci_instance *r, const uvcci_plan_round *round) {
    for (unsigned v = 0; v < round->vec_count; v++)
        for (uint32_t i = 0; i < round->blocks; i++) {
            uvcci_engine *e = engine_at(r, round, v, i);
            if (!second_hop(round)) {
                int rc = uvcci_engine_local(e);
                assert(rc == 0);
                (void)rc;
            }
            (void)uvcci_engine_take_sends(e);
        }
}

/* Every engine has sent and got all. */
static bool engines_done(uvcci_instance *r) {
    for (unsigned i = 0; i < r->plan->round_count; i++)
        for (unsigned v = 0; v < r->plan->rounds[i].vec_count; v++)
            for (uint32_t b = 0; b < r->plan->rounds[i].blocks; b++)
                if (!given(r, i) && !uvcci_engine_done(engine_at(r, &r->plan->rounds[i], v, b)))
                    return false;
    return true;
}

/* The last BWD op of a microbatch is done: another one may start. */
static void let_fly(uvcci_step *st, uint32_t mb) {
    for (uint32_t i = 0; i < st->entry->op_count; i++) {
        const uvcc_op_desc *d = &st->entry->ops[i].desc;
        if (d->mb == mb && uvcci_waits_to_fly(st->entry, d) && --st->ops[i].preds_left == 0)
            uvcci_op_wake(st, i);
    }
}

/* Buffers that the op was the last to use go back. */
static void give_buffers(uvcc_session *s, const uvcci_instance *r) {
    for (uint32_t i = 0; i < r->op->touched_count; i++) {
        uint32_t owner = r->op->touched[i];
        uvcci_buffer *buf = &s->buffers[owner];
        const uvcci_tensor *t = &s->program->tensors[owner];
        assert(buf->uses_left != 0);
        if (--buf->uses_left == 0 && t->desc.lifetime == UVCC_TRANSIENT) {
            const size_t bytes = uvcci_component_bytes(t);
            uvcci_transient_count(s, &buf->shares, -(int64_t)bytes);
            uvcci_arena_give(&s->tensors, buf->shares.lo, bytes);
            uvcci_arena_give(&s->tensors, buf->shares.hi, bytes);
            buf->shares = (uvcc_shares){0};
        }
    }
}

/* Ops that waited for this one, and the microbatch behind its own. */
static void release_followers(const uvcci_instance *r) {
    uvcci_step *st = r->step;
    const uvcc_op_desc *d = &r->op->desc;
    if (d->phase == UVCC_BWD && st->bwd_left != NULL && --st->bwd_left[d->mb] == 0)
        let_fly(st, d->mb + st->entry->in_flight);
    for (uint32_t i = 0; i < r->op->succ_count; i++) {
        const uint32_t next = st->entry->succ[r->op->succ_first + i];
        uvcci_op_run *run = &st->ops[next];
        if (uvcci_run_of(r)->depth > run->depth)
            run->depth = uvcci_run_of(r)->depth;
        assert(run->preds_left != 0);
        if (--run->preds_left == 0)
            uvcci_op_wake(st, next);
    }
}

/* All its segments are done. */
static void op_done(uvcc_session *s, uvcci_instance *r) {
    uvcci_op_run *run = uvcci_run_of(r);
    run->depth += skips(r) ? 0u : (unsigned)r->plan->turns - r->plan->silent_turns;
    if (run->depth > r->step->depth)
        r->step->depth = run->depth;
    if (way_of(r)->done != NULL)
        way_of(r)->done(s, r);
    give_buffers(s, r);
    release_followers(r);
}

static void instance_done(uvcc_session *s, uvcci_instance *r) {
    uvcci_step *st = r->step;
    uvcci_op_run *run = uvcci_run_of(r);
    assert(!r->job_out && !r->gather_out && run->preds_left == 0 && r->turn != UVCCI_TURN_DONE);
    assert(skips(r) || engines_done(r));
    uvcci_trace_op(s, r, UVCC_TRACE_DONE);
    free_scratch(s, r);
    reset(r);
    r->turn = UVCCI_TURN_DONE;
    st->instances_done++;
    assert(st->instances_done <= st->instance_count && run->left != 0);
    if (--run->left == 0)
        op_done(s, r);
    uvcci_window_slide(st);
}

/* Leaves and sends the messages of one round that the turn filled. */
static void send_round(uvcc_session *s, uvcci_instance *r, uvcci_batch_out *out) {
    const uvcci_plan_round *round = out->round;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < out->count; i++) {
        uvcci_tx *tx = &out->tx[i];
        uint32_t row = r->row0 + tx->b;
        uint32_t op_id = r->step->table.rows[row].op_id;
        if (uvcci_audit_on(s)) {
            uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
            uint32_t msg_id = uvcci_msg_id(round->kind, s->sid_sub, op_id, s->party, tx->dst, 0,
                                           uvcci_chunks_of(tx->len));
            size_t n = uvcci_leaf_batch(leaf, uvcci_sent_leaf(round->kind), s->sid_sub, op_id,
                                        s->party, tx->dst, msg_id, tx->digest);
            uvcci_leaf(s, r->step, row, leaf, n);
        }
        uvcc_link_msg *msg = tx->msg;
        tx->msg = NULL;
        uvcci_send(s, tx->dst, msg, round->kind, tx->len, r->step->number, op_id,
                   (uint64_t)r->step->number << 32 | (uint64_t)r->rank << 6 |
                       (uvcci_before_start(r) ? 0 : round->turn));
        if (uvcci_before_start(r))
            s->triple_bytes += tx->len;
        if (uvcci_failed(s))
            return;
        bytes += tx->len;
    }
    uvcci_trace_sent(s, r, uvcci_before_start(r) ? UVCC_TRACE_KEYS : UVCC_TRACE_TURN, bytes);
    engines_sent(r, round);
}

/* The copies of what was opened to all agree. */
static bool openings_agree(const uvcci_instance *r) {
    for (unsigned i = 0; i < r->plan->round_count; i++) {
        const uvcci_instance_round *in = &r->rounds[i];
        if (r->turn != 0 && uvcci_turn_sends(r, i, r->turn - 1u) && in->check != NULL &&
            !uvcci_ct_equal(in->check, in->vec[0].digest[in->check_side], 32))
            return false;
    }
    return true;
}

/* Back from a turn beside the op's own. */
static void step_back(uvcci_instance *r) {
    assert(r->beside && r->leaves == NULL);
    r->turn = r->stands_at;
    r->beside = false;
}

static void next_turn(uvcc_session *s, uvcci_instance *r) {
    if (way_of(r)->sent != NULL)
        way_of(r)->sent(s, r);
    assert(r->beside || uvcci_before_start(r) || r->turn <= r->plan->turns);
    if (!r->beside && r->turn == r->plan->turns) {
        instance_done(s, r);
        return;
    }
    uvcci_trace_op(s, r, UVCC_TRACE_WAIT);
    r->since = s->now;
    if (r->beside)
        step_back(r);
    else
        r->turn = r->turn == UVCCI_TURN_TRIPLE_HERE ? 0 : (uint8_t)(r->turn + 1);
    uvcci_instance_wake(r);
}

/* What follows a turn's job: leaves, messages, the consumed rounds. */
static void turn_done(uvcc_session *s, uvcci_instance *r) {
    if (!openings_agree(r)) {
        uvcci_abort(s, UVCC_ABORT_OPEN_MISMATCH,
                    "the two holders of an opened component sent different values");
        return;
    }
    if (way_of(r)->computed != NULL && !way_of(r)->computed(s, r))
        return;
    if (uvcci_audit_on(s))
        uvcci_leaves_write(s, r, r->leaves);
    r->leaves = NULL;
    for (unsigned k = 0; r->out != NULL && k < UVCCI_TURN_ROUNDS && r->out[k].round != NULL; k++) {
        send_round(s, r, &r->out[k]);
        if (uvcci_failed(s))
            return;
    }
    reset_turn(r);
    for (unsigned i = 0; i < r->plan->round_count; i++)
        if (r->turn != 0 && uvcci_turn_sends(r, i, r->turn - 1u))
            uvcci_round_release(s, r, i);
    for (unsigned i = 0; reads_keys(r) && i < r->plan->key_count; i++)
        uvcci_round_release(s, r, r->plan->round_count + i);
    next_turn(s, r);
}

void uvcci_op_job_done(uvcc_session *s, uvcci_instance *r) {
    assert(r->job_out && r->turn != UVCCI_TURN_DONE);
    r->job_out = false;
    turn_done(s, r);
}

/* Whether the turn may be built now, apart from memory and room in the links. */
static bool turn_ready(const uvcc_session *s, const uvcci_instance *r) {
    if (r->turn != 0 && !rounds_came(r, r->turn - 1u, false))
        return false;
    if (reads_keys(r) && (r->gather_out || !rounds_came(r, 0, true)))
        return false;
    return way_of(r)->ready == NULL || way_of(r)->ready(s, r);
}

/* Messages for all rounds that the turn sends. None are kept if a link has no room for one: it is
 * tried again, however often. */
static int open_rounds(uvcc_session *s, uvcci_instance *r) {
    const uvcci_plan *p = r->plan;
    unsigned n = 0;
    int rc = 0;
    for (unsigned i = 0; i < p->round_count && rc == 0; i++) {
        if (!uvcci_turn_sends(r, i, r->turn))
            continue;
        if (r->out == NULL)
            r->out = uvcci_bump_take(&r->turn_bump, UVCCI_TURN_ROUNDS * sizeof *r->out);
        if (r->out == NULL)
            return UVCC_ERR_NOMEM;
        assert(n < UVCCI_TURN_ROUNDS && r->out[n].round == NULL);
        rc = uvcci_batch_open(s, r, &p->rounds[i], &r->turn_bump, &r->out[n++]);
    }
    for (unsigned k = 0; rc != 0 && k < n; k++)
        uvcci_batch_drop(s, &r->out[k]);
    if (rc != 0)
        reset_turn(r);
    return rc;
}

/* The turn's tasks, in memory of the instance; its state too, if this is where it begins. */
static bool build_turn(uvcc_session *s, uvcci_instance *r) {
    const uvcci_op_way *way = way_of(r);
    uvcci_builder b = {.s = s, .r = r, .task_cap = uvcci_plan_turn_tasks(r->plan, r->turn)};
    r->task_count = 0;
    r->tasks = uvcci_bump_take(&r->turn_bump, b.task_cap * sizeof r->tasks[0]);
    if (way->state_bytes != 0 && r->state == NULL) {
        assert(r->turn == 0);
        r->state = uvcci_bump_take(&r->bump, way->state_bytes);
        if (r->state == NULL)
            return false;
    }
    return r->tasks != NULL && way->build(&b) && !b.failed;
}

/* Where only triples are made, that is all. */
static void made(uvcci_instance *r) {
    r->turn = UVCCI_TURN_DONE;
    r->step->instances_done++;
}

/* Its step has come so far. */
static bool may_go_on(const uvcci_instance *r) {
    return uvcci_before_start(r) || r->step->running;
}

/* The job of the present turn, for which everything is here. */
static void start_turn(uvcc_session *s, uvcci_instance *r) {
    assert(r->beside || uvcci_before_start(r) || r->turn <= r->plan->turns);
    uvcci_trace_op(s, r, r->turn == 0 ? UVCC_TRACE_BEGIN : UVCC_TRACE_RESUME);
    if (!build_turn(s, r)) {
        uvcci_abort(s, UVCC_ABORT_MEMORY, "no memory for a compute job");
    } else if (r->task_count == 0) {
        turn_done(s, r);
    } else if (uvcci_prg_check(s, r, r->tasks, r->task_count)) {
        uvcci_names_job(s, r, r->tasks, r->task_count);
        r->job_out = true;
        uvcci_jobs_push(&s->jobs, r->tasks, r->task_count, UVCCI_JOB_OP, uvcci_job_rank(r), r);
    }
}

/* The turn that the instance is in, for which everything came: its messages are opened (a link
 * without room means later, nothing is kept), then its job is built. False: it was not begun. */
static bool begin_turn(uvcc_session *s, uvcci_instance *r) {
    int rc = open_rounds(s, r);
    if (rc == UVCC_ERR_AGAIN) {
        uvcci_instance_wake(r);
        return false;
    }
    if (rc != 0)
        uvcci_abort(s, UVCC_ABORT_MEMORY, "no memory for a message");
    else
        start_turn(s, r);
    return true;
}

/* A turn beside the op's own, if one can be built: what it is about came, or needs nothing. */
static bool advance_beside(uvcc_session *s, uvcci_instance *r) {
    const uvcci_op_way *way = way_of(r);
    uint32_t tile = 0;
    const uint8_t turn = way->beside != NULL ? way->beside(s, r, &tile) : UVCCI_TURN_DONE;
    if (turn == UVCCI_TURN_NONE || turn == UVCCI_TURN_DONE)
        return false;
    if (uvcci_jobs_full(&s->jobs)) {
        uvcci_instance_wake(r);
        return false;
    }
    r->stands_at = r->turn;
    r->turn = turn;
    r->tile = tile;
    r->beside = true;
    if (begin_turn(s, r))
        return true;
    step_back(r);
    return false;
}

/* Where only triples are made, that is all: once none will be made any more. */
static bool advance_made(uvcc_session *s, uvcci_instance *r) {
    uint32_t tile;
    if (way_of(r)->beside != NULL && way_of(r)->beside(s, r, &tile) != UVCCI_TURN_DONE)
        return advance_beside(s, r);
    made(r);
    return true;
}

/* One turn further of the op's own, if it can go on: what came is checked first. True if its state
 * changed. */
static bool advance_own(uvcc_session *s, uvcci_instance *r) {
    if (!may_go_on(r))
        return false;
    const bool waits = uvcci_run_of(r)->preds_left != 0 || !uvcci_window_has(r);
    if (!waits && skips(r)) {
        if (take(s, r))
            instance_done(s, r);
        return true;
    }
    if ((waits && !uvcci_before_start(r)) || !turn_ready(s, r))
        return false;
    if (uvcci_jobs_full(&s->jobs) && !uvcci_is_collective(r->op->desc.opcode)) {
        uvcci_instance_wake(r);
        return false;
    }
    return take(s, r) ? begin_turn(s, r) : true;
}

static bool instance_advance(uvcc_session *s, uvcci_instance *r) {
    if (r->job_out || r->turn == UVCCI_TURN_DONE)
        return false;
    if (uvcci_before_start(r))
        return advance_own(s, r);
    if (s->cfg.triples.only)
        return advance_made(s, r);
    return advance_own(s, r) || advance_beside(s, r);
}

/* 64 instances, by rank. One that is woken meanwhile is looked at in the next pass. */
static bool word_advance(uvcc_session *s, uvcci_step *st, uint32_t word) {
    bool any = false;
    uint64_t bits = st->ready[word];
    st->ready[word] = 0;
    st->ready_word[word / 64] &= ~(1ull << (word % 64));
    while (bits != 0 && !uvcci_failed(s)) {
        unsigned i = (unsigned)__builtin_ctzll(bits);
        bits &= bits - 1;
        any |= instance_advance(s, &st->instances[st->by_rank[word * 64 + i]]);
    }
    return any;
}

/* A pass over those that were woken, and that are while it comes to them: few of many. */
static bool step_advance(uvcc_session *s, uvcci_step *st) {
    bool any = false;
    for (uint32_t first = 0; first < st->ready_words; first += 64) {
        uint64_t ahead = UINT64_MAX, bits;
        while ((bits = st->ready_word[first / 64] & ahead) != 0) {
            const unsigned i = (unsigned)__builtin_ctzll(bits);
            ahead = i == 63 ? 0 : UINT64_MAX << (i + 1);
            any |= word_advance(s, st, first + i);
        }
    }
    return any;
}

/* The running step, and triples of the one after it: a step that starts wakes all its runs. */
bool uvcci_ops_advance(uvcc_session *s) {
    bool any = false;
    for (uint32_t k = 0; k < 2 && !uvcci_failed(s); k++) {
        uvcci_step *st = uvcci_step_of(s, s->step + k);
        if (st == NULL || !st->agreed || st->halted)
            break;
        any |= step_advance(s, st);
    }
    return any;
}

/* ---- its end ---- */

void uvcci_instance_release(uvcc_session *s, uvcci_instance *r) {
    const unsigned rounds = (unsigned)r->plan->round_count + r->plan->key_count;
    for (unsigned i = 0; i < rounds; i++)
        uvcci_round_release(s, r, i);
}

void uvcci_instance_free(uvcc_session *s, uvcci_instance *r) {
    const unsigned rounds = (unsigned)r->plan->round_count + r->plan->key_count;
    for (unsigned k = 0; r->out != NULL && k < UVCCI_TURN_ROUNDS; k++)
        uvcci_batch_drop(s, &r->out[k]);
    for (unsigned i = 0; r->rounds != NULL && i < rounds; i++)
        uvcci_round_release(s, r, i);
    free_scratch(s, r);
    uvcci_deal_free(s, r);
    uvcci_bump_reset(&r->gather_bump);
    if (way_of(r)->free != NULL)
        way_of(r)->free(s, r);
    reset(r);
}
