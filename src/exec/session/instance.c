/* ops.c - the ops of a step as state machines.
 *
 * A run walks through turns (session.h). A turn starts when its round has come whole (and its
 * keys), builds one job of several tasks together with the messages that it fills, and ends when
 * the job's completion comes: then leaves are written, the messages go out, the round that it
 * consumed is released. Nothing here looks at a share: tasks do. An op whose job is out, or that
 * waits, holds only INFLIGHT memory. */
#include "exec/runtime/builder.h"

#include "proto/bytes.h"
#include "proto/mutant.h"
#include "proto/prg.h"
#include <assert.h>

typedef uvcci_builder builder;

/* ---- small helpers ---- */

static uint8_t sent_leaf(uint8_t kind) {
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

/* Which of a role's (at most two) incoming buffers a flow uses. */
static unsigned in_slot(const uvcci_flow *f) {
    if (f->protocol == UVCCI_PROTO_CIRCUIT_HEAD)
        return f->from == UVCCI_TAIL ? 1 : 0;
    return f->protocol == UVCCI_PROTO_OPEN4 && f->from == UVCCI_OTHER ? 1 : 0;
}

/* The engine of a vector's block. */
static uvcci_engine *engine_at(uvcci_instance *r, const uvcci_plan_vec *v, uint32_t block) {
    return &(*uvcci_engines_of(r, v))[block];
}

/* ---- running ---- */

static bool reads_keys(const uvcci_instance *r) {
    return r->plan->key_count != 0 && r->turn == r->plan->key_turn;
}

static void free_scratch(uvcc_session *s, uvcci_instance *r) {
    uvcci_arena_give(&s->tensors, r->keys, r->key_bytes);
    r->keys = NULL;
    uvcci_gate_free(s, r);
    uvcci_function_free(s, r);
    uvcci_circuit_free(s, r);
}

/* An op that turned out to have nothing to do. */
static bool skips(const uvcci_instance *r) {
    return r->plan->sks && uvcci_sks_skips(r);
}

/* Whether all rounds that turn `turn` sent (keys: all keys) have come from the peers. */
static bool rounds_came(const uvcci_instance *r, unsigned turn, bool keys) {
    const uvcci_plan *p = r->plan;
    unsigned first = keys ? p->round_count : 0;
    unsigned end = keys ? (unsigned)p->round_count + p->key_count : p->round_count;
    for (unsigned i = first; i < end; i++)
        for (unsigned side = 0; side < 2; side++)
            if ((keys || p->rounds[i].turn == turn) &&
                r->rounds[i].got[side] != r->rounds[i].need[side])
                return false;
    return true;
}

static void release_round(uvcc_session *s, uvcci_instance *r, unsigned round) {
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
            uvcci_engine *e = engine_at(r, &round->vec[v], i);
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
                if (!uvcci_triple_given(r, i) &&
                    !uvcci_engine_done(engine_at(r, &r->plan->rounds[i].vec[v], b)))
                    return false;
    return true;
}

/* The last BWD op of a microbatch is done: another one may start. */
static void let_fly(uvcci_step *st, uint32_t mb) {
    for (uint32_t i = 0; i < st->entry->op_count; i++) {
        const uvcc_op_desc *d = &st->instances[i].op->desc;
        if (d->mb == mb && uvcci_waits_to_fly(st->entry, d) && --st->instances[i].preds_left == 0)
            uvcci_instance_wake(&st->instances[i]);
    }
}

static void instance_done(uvcc_session *s, uvcci_instance *r) {
    uvcci_step *st = r->step;
    assert(skips(r) || engines_done(r));
    r->depth += skips(r) ? 0 : r->plan->turns;
    uvcci_trace_op(s, r, UVCC_TRACE_DONE);
    free_scratch(s, r);
    if (r->plan->sks)
        uvcci_sks_end(s, r);
    uvcci_bump_reset(&r->bump);
    r->turn = UVCCI_TURN_DONE;
    if (r->depth > st->depth)
        st->depth = r->depth;
    st->instances_done++;
    if (r->op->desc.opcode == UVCC_OP_OUTPUT)
        uvcci_event_push(s, &(uvcc_event){.kind = UVCC_EVENT_OUTPUT,
                                          .run = s->run,
                                          .step = st->number,
                                          .id = st->entry->outputs[r->op->io].id});
    for (uint32_t i = 0; i < r->op->touched_count; i++) {
        uint32_t owner = r->op->touched[i];
        uvcci_buffer *buf = &s->buffers[owner];
        const uvcci_tensor *t = &s->program->tensors[owner];
        if (--buf->uses_left == 0 && t->desc.lifetime == UVCC_TRANSIENT) {
            uvcci_transient_count(s, &buf->shares, -(int64_t)(t->elems * 8));
            uvcci_arena_give(&s->tensors, buf->shares.lo, t->elems * 8);
            uvcci_arena_give(&s->tensors, buf->shares.hi, t->elems * 8);
            buf->shares = (uvcc_shares){0};
        }
    }
    const uvcc_op_desc *d = &r->op->desc;
    if (d->phase == UVCC_BWD && st->bwd_left != NULL && --st->bwd_left[d->mb] == 0)
        let_fly(st, d->mb + st->entry->in_flight);
    for (uint32_t i = 0; i < r->op->succ_count; i++) {
        uvcci_instance *next = &st->instances[st->entry->succ[r->op->succ_first + i]];
        if (r->depth > next->depth)
            next->depth = r->depth;
        if (--next->preds_left == 0)
            uvcci_instance_wake(next);
    }
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
            uint16_t chunks = (uint16_t)((tx->len + UVCC_CHUNK_BYTES - 1) / UVCC_CHUNK_BYTES);
            uint32_t msg_id =
                uvcci_msg_id(round->kind, s->sid_sub, op_id, s->party, tx->dst, 0, chunks);
            size_t n = uvcci_leaf_batch(leaf, sent_leaf(round->kind), s->sid_sub, op_id, s->party,
                                        tx->dst, msg_id, tx->digest);
            uvcci_leaf(s, r->step, row, leaf, n);
        }
        uvcc_link_msg *msg = tx->msg;
        tx->msg = NULL;
        uvcci_send(s, tx->dst, msg, round->kind, tx->len, r->step->number, op_id,
                   (uint64_t)r->step->number << 32 | (uint64_t)r->op->rank << 6 |
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
        if (r->plan->rounds[i].turn + 1u == r->turn && in->check != NULL &&
            !uvcci_ct_equal(in->check, in->digest[0][0], 32))
            return false;
    }
    return true;
}

static void next_turn(uvcc_session *s, uvcci_instance *r) {
    if (r->beaver != NULL)
        uvcci_beaver_turn_done(s, r);
    if (r->turn == r->plan->turns) {
        instance_done(s, r);
        return;
    }
    uvcci_trace_op(s, r, UVCC_TRACE_WAIT);
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
    if (r->plan->sks && !uvcci_sks_done(s, r))
        return;
    if (uvcci_audit_on(s))
        uvcci_leaves_write(s, r, r->leaves);
    r->leaves = NULL;
    for (unsigned k = 0; k < UVCCI_TURN_ROUNDS && r->out[k].round != NULL; k++) {
        send_round(s, r, &r->out[k]);
        if (uvcci_failed(s))
            return;
    }
    memset(r->out, 0, sizeof r->out);
    for (unsigned i = 0; i < r->plan->round_count; i++)
        if (r->plan->rounds[i].turn + 1u == r->turn)
            release_round(s, r, i);
    for (unsigned i = 0; reads_keys(r) && i < r->plan->key_count; i++)
        release_round(s, r, r->plan->round_count + i);
    next_turn(s, r);
}

void uvcci_op_job_done(uvcc_session *s, uvcci_instance *r) {
    r->job_out = false;
    turn_done(s, r);
}

/* Whether the turn may be built now, apart from memory and room in the links. */
static bool turn_ready(const uvcc_session *s, const uvcci_instance *r) {
    if (r->turn != 0 && !rounds_came(r, r->turn - 1u, false))
        return false;
    if (reads_keys(r) && !rounds_came(r, 0, true))
        return false;
    if (r->beaver != NULL && !uvcci_beaver_ready(r))
        return false;
    if (r->op->desc.opcode == UVCC_OP_INPUT && r->turn == 0 &&
        uvcci_role_at(s, r, 0) == UVCCI_HEAD && r->step->input[r->op->io] == NULL)
        return false;
    return true;
}

/* Messages for all rounds that the turn sends. */
static int open_rounds(uvcc_session *s, uvcci_instance *r) {
    const uvcci_plan *p = r->plan;
    unsigned n = 0;
    int rc = 0;
    for (unsigned i = 0; i < p->round_count && rc == 0; i++)
        if (p->rounds[i].turn == r->turn)
            rc = uvcci_batch_open(s, r, &p->rounds[i], &r->bump, &r->out[n++]);
    for (unsigned k = 0; rc != 0 && k < n; k++)
        uvcci_batch_drop(s, &r->out[k]);
    return rc;
}

static bool build_turn(builder *b) {
    const uvcci_plan_beaver *v = &b->r->plan->beaver;
    if (v->on && (uvcci_before_start(b->r) || b->r->turn <= v->product_turn))
        return uvcci_beaver_build(b);
    if (b->r->plan->sks)
        return uvcci_sks_build(b);
    if (b->r->plan->function != NULL)
        return uvcci_function_build(b);
    if (uvcci_is_collective(b->r->op->desc.opcode))
        return uvcci_collective_build(b);
    return b->r->plan->keyless ? uvcci_circuit_build(b) : uvcci_gate_build(b);
}

/* Where only triples are made, that is all. */
static void made(uvcci_instance *r) {
    r->turn = UVCCI_TURN_DONE;
    r->step->instances_done++;
}

/* True if the run changed state. */
static bool instance_advance(uvcc_session *s, uvcci_instance *r) {
    if (r->job_out || r->turn == UVCCI_TURN_DONE || (!uvcci_before_start(r) && !r->step->running))
        return false;
    if (s->cfg.triples_only && !uvcci_before_start(r)) {
        made(r);
        return true;
    }
    if (r->preds_left == 0 && skips(r)) {
        if (uvcci_sks_take(s, r))
            instance_done(s, r);
        return true;
    }
    if ((r->preds_left != 0 && !uvcci_before_start(r)) || !turn_ready(s, r))
        return false;
    if (uvcci_jobs_full(&s->jobs) && !uvcci_is_collective(r->op->desc.opcode)) {
        uvcci_instance_wake(r);
        return false;
    }
    if (r->plan->sks && !uvcci_sks_take(s, r))
        return true;
    int rc = open_rounds(s, r);
    if (rc == UVCC_ERR_AGAIN) {
        uvcci_instance_wake(r);
        return false;
    }
    if (rc != 0) {
        uvcci_abort(s, UVCC_ABORT_MEMORY, "no memory for a message");
        return true;
    }
    unsigned steps = r->plan->function != NULL ? r->plan->function->instr_count : 0;
    uvcci_trace_op(s, r, r->turn == 0 ? UVCC_TRACE_BEGIN : UVCC_TRACE_RESUME);
    builder b = {.s = s, .r = r, .task_cap = 32 + 5 * steps};
    r->task_count = 0;
    r->tasks = uvcci_bump_take(&r->bump, b.task_cap * sizeof r->tasks[0]);
    if (r->tasks == NULL || !build_turn(&b) || b.failed) {
        uvcci_abort(s, UVCC_ABORT_MEMORY, "no memory for a compute job");
        return true;
    }
    if (r->task_count == 0) {
        turn_done(s, r);
        return true;
    }
    r->job_out = true;
    uvcci_jobs_push(&s->jobs, r->tasks, r->task_count, UVCCI_JOB_OP, uvcci_job_rank(r), r);
    return true;
}

static bool step_advance(uvcc_session *s, uvcci_step *st) {
    bool any = false;
    for (uint32_t w = 0; w < st->ready_words; w++) {
        uint64_t bits = st->ready[w];
        st->ready[w] &= ~bits;
        while (bits != 0 && !uvcci_failed(s)) {
            unsigned i = (unsigned)__builtin_ctzll(bits);
            bits &= bits - 1;
            any |= instance_advance(s, &st->instances[st->entry->by_rank[w * 64 + i]]);
        }
    }
    return any;
}

/* The running step, and triples of the one after it: a step that starts wakes all its runs. */
bool uvcci_ops_advance(uvcc_session *s) {
    bool any = false;
    for (uint32_t k = 0; k < 2 && !uvcci_failed(s); k++) {
        uvcci_step *st = uvcci_step_of(s, s->step + k);
        if (st == NULL || !st->agreed)
            break;
        any |= step_advance(s, st);
    }
    return any;
}

/* ---- receiving ---- */

uint16_t uvcci_op_receive(uvcc_session *s, uint8_t peer, const uvcc_link_rx *m) {
    uvcci_step *st = uvcci_step_of(s, m->step);
    const uvcci_oprow *row = st != NULL ? uvcci_optable_find(&st->table, m->op_id) : NULL;
    if (row == NULL)
        return UVCC_ABORT_UNKNOWN_OP;
    uvcci_instance *r = &st->instances[st->entry->by_ordinal[row->ordinal]];
    uint32_t part;
    const uvcci_plan_round *round = uvcci_plan_find(r->plan, m->kind, row->b, &part);
    if (round == NULL)
        return UVCC_ABORT_PLAN;
    bool keys = uvcci_plan_is_keys(r->plan, round);
    uvcci_instance_round *in = &r->rounds[round - r->plan->rounds];
    unsigned side = uvcci_side(s, peer);
    uint64_t bit = 1ull << part;
    if (uvcci_triple_given(r, (unsigned)(round - r->plan->rounds)))
        return UVCC_ABORT_TRIPLE;
    if ((in->need[side] & bit) == 0 || (in->seen[side] & bit) != 0 ||
        (r->plan->sks && uvcci_sks_refuses(r, (unsigned)(round - r->plan->rounds))))
        return UVCC_ABORT_PLAN;
    if (uvcc_blv1_check(m->data, m->len, NULL) < 0)
        return UVCC_ABORT_BATCH;

    uvcci_bump scratch;
    uvcci_bump_init(&scratch, &s->alloc);
    uvcci_plan_tlv *list =
        uvcci_bump_take(&scratch, uvcci_plan_tlvs_max(r->plan, round) * sizeof *list);
    uvcci_rx *rx = s->alloc.alloc(s->alloc.user, sizeof *rx, UVCC_MEM_STATE);
    uint16_t reason = UVCC_ABORT_NONE;
    if (list == NULL || rx == NULL) {
        reason = UVCC_ABORT_MEMORY;
    } else {
        size_t bytes;
        uint32_t n = uvcci_plan_list(r->plan, &r->ids, round, part, peer, s->party, list, &bytes);
        uvcc_blv1_reader rd;
        uvcc_tlv t;
        uvcc_blv1_reader_init(&rd, m->data, m->len);
        uint32_t i = 0;
        if (bytes != m->len)
            reason = UVCC_ABORT_PLAN;
        while (reason == UVCC_ABORT_NONE && uvcc_blv1_next(&rd, &t) == 1) {
            const uvcc_tlv *want = &list[i].t;
            if (i == n || t.type != want->type || t.id != want->id || t.aux != want->aux ||
                t.round != want->round || t.bits != want->bits || t.first != want->first ||
                t.count != want->count) {
                reason = UVCC_ABORT_PLAN;
                break;
            }
            const uvcci_flow *f = &uvcci_protocol_flows(
                (uvcci_protocol)round->vec[list[i].vec].protocol, &(unsigned){0})[list[i].flow];
            if (list[i].more) {
                i++;
                continue;
            }
            if (t.type == UVCC_TLV_DIGEST)
                in->digest[list[i].vec][side] = t.data;
            else if (!keys)
                in->at[list[i].vec][in_slot(f)][list[i].block] = t.data;
            /* A digest speaks of the whole stream, so of every block. */
            bool whole = t.type == UVCC_TLV_DIGEST;
            uint32_t first = whole ? 0 : list[i].block;
            uint32_t end = whole ? round->blocks : list[i].block + 1;
            for (uint32_t k = first; !keys && k < end; k++)
                if (uvcci_engine_receive(engine_at(r, &round->vec[list[i].vec], k),
                                         uvcci_role_of(peer, r->ids.edge[k]), f->hop, t.type) != 0)
                    reason = UVCC_ABORT_PLAN;
            i++;
        }
        if (reason == UVCC_ABORT_NONE && i != n)
            reason = UVCC_ABORT_PLAN;
    }
    uvcci_bump_reset(&scratch);
    if (reason != UVCC_ABORT_NONE) {
        if (rx != NULL)
            s->alloc.free(s->alloc.user, rx, sizeof *rx, UVCC_MEM_STATE);
        return reason;
    }
    in->seen[side] |= bit;
    *rx = (uvcci_rx){.run = r,
                     .round = round,
                     .part = part,
                     .b = row->b,
                     .peer = peer,
                     .data = m->data,
                     .len = m->len,
                     .msg_id = m->msg_ids[0],
                     .token = m->token};
    if (keys || !uvcci_audit_on(s)) {
        uvcci_op_rx_hashed(s, rx);
        return UVCC_ABORT_NONE;
    }
    rx->item = (uvcc_hash_item){
        .mode = UVCC_HASH_SALTED, .data = m->data, .len = m->len, .out = rx->digest};
    memcpy(rx->item.key, st->salt[peer], 32);
    rx->task = (uvcc_task){.kind = UVCC_TASK_HASH, .u.hash = {.items = &rx->item, .count = 1}};
    rx->next = NULL;
    uvcci_rx **tail = &s->rx_pending;
    while (*tail != NULL)
        tail = &(*tail)->next;
    *tail = rx;
    return UVCC_ABORT_NONE;
}

void uvcci_op_rx_hashed(uvcc_session *s, uvcci_rx *rx) {
    uvcci_instance *r = rx->run;
    bool keys = uvcci_plan_is_keys(r->plan, rx->round);
    uvcci_instance_round *in = &r->rounds[rx->round - r->plan->rounds];
    unsigned side = uvcci_side(s, rx->peer);
    if (!keys && uvcci_audit_on(s) && !UVCCI_MUTANT(12)) {
        uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
        uint32_t row = r->row0 + rx->b;
        size_t n = uvcci_leaf_batch(leaf, (uint8_t)(sent_leaf(rx->round->kind) + 1), s->sid_sub,
                                    r->step->table.rows[row].op_id, rx->peer, s->party, rx->msg_id,
                                    rx->digest);
        uvcci_leaf(s, r->step, row, leaf, n);
    }
    rx->next = in->held;
    in->held = rx;
    int rc = uvcc_link_accept(s->peer[rx->peer].link, rx->token, s->now);
    assert(rc == 0);
    (void)rc;
    in->got[side] |= 1ull << rx->part;
    uvcci_instance_wake(r);
}

void uvcci_instance_free(uvcc_session *s, uvcci_instance *r) {
    const unsigned rounds = (unsigned)r->plan->round_count + r->plan->key_count;
    for (unsigned k = 0; k < UVCCI_TURN_ROUNDS; k++)
        uvcci_batch_drop(s, &r->out[k]);
    for (unsigned i = 0; r->rounds != NULL && i < rounds; i++)
        release_round(s, r, i);
    free_scratch(s, r);
    uvcci_sks_free(s, r);
    uvcci_deal_free(s, r);
    if (r->beaver != NULL)
        uvcci_beaver_free(s, r);
    uvcci_bump_reset(&r->bump);
}
