/* SPDX-License-Identifier: Apache-2.0 */
/* beaver.c - products on Beaver triples (protocols.md 6): E = X - A and F = Y - B are opened to
 * all, Z = C + E B + A F + E F.
 *
 * Turns of such an op: TRIPLE (A and B from PRGs, C = A B natively, its resharing is sent) and
 * TRIPLE_HERE come before the op may start, in program order, as far ahead as the budget allows,
 * also in the step that waits. A triple that the host gave goes in at TRIPLE_HERE. Turn 0 opens
 * the differences of the masks that the op owns, if any; the product turn computes Z, which is
 * final or goes into a truncation. From there it is a gate (gate.h).
 *
 * A mask belongs to a version of a tensor: it is made of words of its owner's ordinal, is opened
 * once, and what was opened stays until the last product that reads the version has used it. */
#include "exec/ops/beaver.h"

#include "exec/ops/beaver_state.h"
#include "exec/ops/multiply.h"
#include "exec/ops/operands.h"
#include "exec/ops/tasks.h"
#include "exec/ops/triples.h"
#include "exec/ops/truncate.h"

#include "proto/mutant.h"
#include <assert.h>
#include <string.h>

static const uvcci_op_way way;

enum { LO = 1, HI = 2 };

/* ---- plan ---- */

/* Only products may have that flag. */
static bool on_triple(const uvcci_op *op) {
    return (op->desc.flags & UVCC_OP_BEAVER) != 0;
}

static bool reads_version(const uvcci_op *op, unsigned i, uint32_t tensor, uint32_t version) {
    return on_triple(op) && op->desc.in[i] == tensor && op->in_version[i] == version;
}

/* Whose mask an operand has. */
static uvcci_plan_mask mask_of(const uvcc_program *p, const uvcci_entry *e, const uvcci_op *op,
                               unsigned operand) {
    const uint32_t tensor = op->desc.in[operand], version = op->in_version[operand];
    uvcci_plan_mask m = {.op = UVCCI_NO_OP, .round = -1, .elems = p->tensors[tensor].elems};
    for (uint32_t i = 0; i < e->op_count; i++)
        for (uint8_t k = 0; k < 2; k++) {
            if (!reads_version(&e->ops[i], k, tensor, version))
                continue;
            if (m.op == UVCCI_NO_OP) {
                m.op = i;
                m.operand = k;
            }
            m.reads++;
        }
    assert(m.op != UVCCI_NO_OP); /* the op itself reads it */
    return m;
}

/* The openings, if this op owns a mask, and the round that makes C. Ids come later: the first is
 * the truncation's. */
static void begin_beaver(uvcci_draft *d) {
    uvcci_plan *plan = d->plan;
    uvcci_plan_beaver *v = &plan->beaver;
    const uint32_t self = (uint32_t)(d->op - d->e->ops);
    assert(self < d->e->op_count && plan->round_count == 0);
    v->on = true;
    for (uint8_t k = 0; k < 2; k++) {
        v->mask[k] = mask_of(d->p, d->e, d->op, k);
        if (v->mask[k].op != self || v->mask[k].operand != k)
            continue;
        v->mask[k].round = (int8_t)plan->round_count;
        uvcci_draft_round(d, d->rounds, &plan->round_count, v->mask[k].elems, 0);
        plan->turns = 1;
    }
    v->product_turn = plan->turns;
    v->triple_round = plan->round_count;
    uvcci_draft_round(d, d->rounds, &plan->round_count, plan->elems, UVCCI_TURN_TRIPLE);
}

static void end_beaver(uvcci_draft *d) {
    static const uvcci_stream_name streams[2] = {UVCCI_STREAM_GEMM_E, UVCCI_STREAM_GEMM_F};
    uvcci_plan_beaver *v = &d->plan->beaver;
    for (uint8_t k = 0; k < 2; k++) {
        if (v->mask[k].round < 0)
            continue;
        uvcci_plan_round *r = &d->rounds[v->mask[k].round];
        assert(r->vec_count == 0);
        uint8_t id = uvcci_draft_id(d, false, streams[k], UVCCI_CALL_TRIPLE, false, r->blocks);
        uvcci_draft_vec(d, r, UVCCI_PROTO_OPEN_ALL, 0, id, 64);
    }
    uvcci_draft_vec(d, &d->rounds[v->triple_round], UVCCI_PROTO_RESHARE, 0, UVCCI_ID_TILE0, 64);
}

/* The opened differences give a replicated product; what is truncated then is truncated as TRUNCATE
 * does it. */
void uvcci_beaver_plan(uvcci_draft *d) {
    uvcci_plan *plan = d->plan;
    plan->way = &way;
    begin_beaver(d);
    if (d->op->desc.shift != 0)
        uvcci_truncation_plan(d, UVCCI_PROTO_OPEN2);
    end_beaver(d);
    for (unsigned k = 0; k < 2; k++) /* masks, also those of operands that others open */
        if (uvcci_blocks(plan->beaver.mask[k].elems) > plan->edge_blocks)
            plan->edge_blocks = uvcci_blocks(plan->beaver.mask[k].elems);
}

/* ---- memory ---- */

static bool take(uvcc_session *s, uvcc_shares *p, unsigned parts, uint64_t elems) {
    if ((parts & LO) != 0 && p->lo == NULL)
        p->lo = uvcci_arena_take(&s->tensors, elems * 8);
    if ((parts & HI) != 0 && p->hi == NULL)
        p->hi = uvcci_arena_take(&s->tensors, elems * 8);
    return ((parts & LO) == 0 || p->lo != NULL) && ((parts & HI) == 0 || p->hi != NULL);
}

static void give(uvcc_session *s, uvcc_shares *p, uint64_t elems) {
    uvcci_arena_give(&s->tensors, p->lo, elems * 8);
    uvcci_arena_give(&s->tensors, p->hi, elems * 8);
    *p = (uvcc_shares){0};
}

static uvcci_beaver *state_of(const uvcci_instance *r) {
    assert(uvcci_beaver_of(r) != NULL);
    return uvcci_beaver_of(r);
}

static void give_masks(uvcc_session *s, uvcci_instance *r) {
    for (unsigned k = 0; k < 2; k++)
        give(s, &state_of(r)->mask[k], r->plan->beaver.mask[k].elems);
}

static uint64_t triple_bytes(const uvcci_instance *r) {
    return 16 * r->plan->elems;
}

/* C is used, or will not be. */
static void give_triple(uvcc_session *s, uvcci_instance *r) {
    uvcci_beaver *v = state_of(r);
    give(s, &v->c, r->plan->elems);
    if (v->admitted) {
        assert(s->triples_ahead >= triple_bytes(r));
        s->triples_ahead -= triple_bytes(r);
    }
    v->admitted = false;
}

/* The state is the step's: what it opened may be used when the op is done. */
static bool open_op(uvcci_step *st, uvcci_instance *r) {
    uvcci_beaver *v = uvcci_bump_take(&st->bump, sizeof *v);
    assert(r->state == NULL);
    if (v == NULL)
        return false;
    for (unsigned k = 0; k < 2; k++)
        if (r->plan->beaver.mask[k].round >= 0)
            v->reads_left[k] = r->plan->beaver.mask[k].reads;
    r->state = v;
    r->turn = UVCCI_TURN_TRIPLE;
    return true;
}

static void number(uvcc_session *s, uvcci_instance *r) {
    state_of(r)->triple_id = uvcci_triple_id(s->sid_sub, r->step->number, r->op_id, 0);
}

/* Vectors of the truncation behind it. */
static void release(uvcc_session *s, uvcci_instance *r) {
    uvcci_gate_release(s, r, &state_of(r)->gate);
}

static void free_op(uvcc_session *s, uvcci_instance *r) {
    uvcci_beaver *v = uvcci_beaver_of(r);
    if (v == NULL) /* the step did not open */
        return;
    give_masks(s, r);
    give_triple(s, r);
    for (unsigned k = 0; k < 2; k++)
        give(s, &v->own[k], r->plan->beaver.mask[k].elems);
    give(s, &v->z, r->plan->elems);
    if (v->stored != NULL)
        uvcci_stored_free(s, v->stored);
    v->stored = NULL;
}

/* ---- masks ---- */

/* Whose mask an operand has. */
static uvcci_instance *owner_of(const uvcci_instance *r, unsigned operand) {
    const uvcci_plan_mask *m = &r->plan->beaver.mask[operand];
    assert(operand < 2 && m->op <= r->index); /* the first that reads the version */
    return &r->step->instances[m->op];
}

/* What everybody knows of an operand: it less its mask. */
static uint64_t *difference(const uvcci_instance *r, unsigned operand) {
    return state_of(owner_of(r, operand))->own[r->plan->beaver.mask[operand].operand].lo;
}

/* The task on the words of an operand's mask: those of its owner. */
static uvcc_block *add_mask(uvcci_builder *b, unsigned operand, uint32_t *n) {
    const uvcci_plan_mask *m = &b->r->plan->beaver.mask[operand];
    const uvcci_instance *owner = owner_of(b->r, operand);
    uvcc_block *k = uvcci_add_blocks(b, m->operand == 0 ? UVCC_TASK_TRIPLE_A : UVCC_TASK_TRIPLE_B,
                                     UVCCI_CALL_TRIPLE, UVCCI_ROLE_ALL, m->elems, n);
    if (k == NULL)
        return NULL;
    uvcc_task *t = uvcci_last_task(b);
    t->ordinal = UVCCI_MUTANT(19) ? 0 : owner->ordinal;
    if (state_of(owner)->stored != NULL)
        t->keys = &state_of(owner)->stored->keys;
    return k;
}

/* Components of an operand's mask (NULL: not that one). */
static void build_mask(uvcci_builder *b, unsigned operand, uint64_t *lo, uint64_t *hi) {
    uint32_t n;
    uvcc_block *k = add_mask(b, operand, &n);
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_mask(&k[i], lo, hi);
    }
}

/* ---- the triple ---- */

static bool build_triple(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    uvcci_beaver *v = state_of(r);
    const unsigned round = r->plan->beaver.triple_round;
    assert(v->admitted && v->stored == NULL);
    uint32_t n;
    for (unsigned k = 0; k < 2; k++) {
        if (!take(b->s, &v->mask[k], LO | HI, r->plan->beaver.mask[k].elems))
            return false;
        build_mask(b, k, v->mask[k].lo, v->mask[k].hi);
    }
    if (!take(b->s, &v->c, LO | HI, r->plan->elems) ||
        !uvcci_build_product(b, &v->mask[0], &v->mask[1], v->c.lo))
        return false;
    uvcc_block *k = uvcci_add_blocks(b, UVCC_TASK_TRIPLE_C, UVCCI_CALL_TRIPLE, UVCCI_ROLE_ALL,
                                     r->plan->elems, &n);
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_reshare(&k[i], v->c.lo, v->c.lo,
                          uvcci_sent_at(r, round, 0, UVCCI_FIRST, k[i].block));
    }
    uvcci_hash_payloads(b);
    uvcci_end_hashes(b);
    return true;
}

static bool build_copies(uvcci_builder *b, const uvcc_copy_item items[2]) {
    uvcc_copy_item *both = uvcci_bump_take(&b->r->bump, 2 * sizeof *both);
    if (both == NULL)
        return false;
    memcpy(both, items, 2 * sizeof *both);
    return uvcci_task_copy(b, both, 2);
}

/* C into the record that the host gets, and its digest. */
static bool build_record(uvcci_builder *b) {
    const uvcci_instance *r = b->r;
    const size_t len = r->plan->elems * 8;
    uint8_t *record = uvcci_triple_record(b->s, r), *c = record + UVCCI_TRIPLE_C_AT;
    const uvcc_copy_item items[2] = {
        {.dst = c, .src = (const uint8_t *)state_of(r)->c.lo, .len = len},
        {.dst = c + len, .src = (const uint8_t *)state_of(r)->c.hi, .len = len}};
    uvcc_hash_item *h = build_copies(b, items) ? uvcci_add_hash(b) : NULL;
    if (h == NULL)
        return false;
    h->data = record;
    h->len = UVCCI_TRIPLE_C_AT + 2 * len;
    h->out = record + h->len;
    uvcci_end_hashes(b);
    return true;
}

static bool build_triple_here(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    uvcci_beaver *v = state_of(r);
    const size_t len = r->plan->elems * 8;
    if (!take(b->s, &v->c, LO | HI, r->plan->elems))
        return false;
    if (v->stored != NULL)
        return build_copies(
            b, (const uvcc_copy_item[2]){
                   {.dst = (uint8_t *)v->c.lo, .src = v->stored->c, .len = len},
                   {.dst = (uint8_t *)v->c.hi, .src = v->stored->c + len, .len = len}});
    uvcci_task_unpack(b, UVCCI_CALL_TRIPLE, r->plan->beaver.triple_round, v->c.hi);
    return b->s->cfg.triples.only ? build_record(b) : true;
}

/* ---- openings and product ---- */

static bool build_open(uvcci_builder *b, unsigned operand) {
    uvcci_instance *r = b->r;
    const uvcci_plan_mask *m = &r->plan->beaver.mask[operand];
    const uvcc_shares *x = uvcci_shares_of(b->s, r->op->desc.in[operand]);
    uvcc_shares *own = &state_of(r)->own[operand];
    const unsigned round = (unsigned)m->round;
    uint32_t n;
    if (!take(b->s, own, LO | HI, m->elems))
        return false;
    uvcc_block *k = add_mask(b, operand, &n);
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_masked(&k[i], x, own, uvcci_sent_at(r, round, 0, UVCCI_FIRST, k[i].block));
    }
    return uvcci_hash_held(b, round, b->s->party, own->hi,
                           uvcci_digest_at(r, round, 0, UVCCI_PREV));
}

static bool build_opens(uvcci_builder *b) {
    for (unsigned k = 0; k < 2; k++)
        if (b->r->plan->beaver.mask[k].round >= 0 && !build_open(b, k))
            return false;
    uvcci_end_hashes(b); /* the payload's hash covers them */
    return uvcci_end_turn(b);
}

/* The sum of the three components: lo gets it, hi the one that came, which is compared. */
static bool build_opened(uvcci_builder *b, unsigned operand) {
    uvcci_instance *r = b->r;
    const uvcci_plan_mask *m = &r->plan->beaver.mask[operand];
    const uvcc_shares *own = &state_of(r)->own[operand];
    const unsigned round = (unsigned)m->round;
    uvcci_task_open_all_finish(b, UVCCI_CALL_TRIPLE, round, own, own->lo);
    uvcci_task_unpack(b, UVCCI_CALL_TRIPLE, round, own->hi);
    return uvcci_hash_opened_to_all(b, round, own->hi, own->lo);
}

/* x = x op y, of one component. */
static bool build_sum(uvcci_builder *b, uint8_t op, const uvcc_tensor_desc *shape, uint64_t *x,
                      uint64_t *y) {
    return uvcci_task_map_words(b, op, shape->rows, shape->cols, x, y, x) != NULL;
}

/* A component of Z. The tasks of products compute x_lo (y_lo + y_hi) + x_hi y_lo: with x = (E, A)
 * and y = (F, B - F) that is E B + A F, with y = (F, B) it is E F more, which component 0 gets. */
static bool build_component(uvcci_builder *b, unsigned part, uint64_t *z) {
    uvcci_instance *r = b->r;
    uvcci_beaver *v = state_of(r);
    const uvcc_op_desc *d = &r->op->desc;
    const uvcci_tensor *ts = b->s->program->tensors;
    const bool first = (b->s->party + part) % UVCC_PARTIES == 0;
    uint64_t *c = part == 0 ? v->c.lo : v->c.hi;
    for (unsigned k = 0; k < 2; k++)
        build_mask(b, k, part == 0 ? v->mask[k].lo : NULL, part == 0 ? NULL : v->mask[k].lo);
    const uvcc_shares x = {difference(r, 0), v->mask[0].lo}, y = {difference(r, 1), v->mask[1].lo};
    return (first || build_sum(b, UVCC_MAP_SUB, &ts[d->in[1]].desc, y.hi, y.lo)) &&
           uvcci_build_product(b, &x, &y, z) &&
           build_sum(b, UVCC_MAP_ADD, &ts[d->out[0]].desc, z, c);
}

static bool build_z(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    uvcci_beaver *v = state_of(r);
    const uint32_t out = r->op->desc.out[0];
    const uvcc_shares *z = &v->z;
    for (unsigned k = 0; k < 2; k++)
        if ((r->plan->beaver.mask[k].round >= 0 && !build_opened(b, k)) ||
            !take(b->s, &v->mask[k], LO, r->plan->beaver.mask[k].elems))
            return false;
    uvcci_end_hashes(b);
    if (!uvcci_ensure_buffer(b->s, out))
        return false;
    if (r->plan->open_round < 0)
        z = uvcci_shares_of(b->s, out);
    else if (!take(b->s, &v->z, LO | HI, r->plan->elems))
        return false;
    if (!build_component(b, 0, z->lo) || !build_component(b, 1, z->hi))
        return false;
    if (r->plan->open_round >= 0 && !uvcci_gate_open2(b, &v->gate, z))
        return false;
    uvcci_hash_payloads(b);
    uvcci_end_hashes(b);
    return true;
}

static bool build(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    uvcci_beaver *v = state_of(r);
    if (r->turn == UVCCI_TURN_TRIPLE)
        return build_triple(b);
    if (r->turn == UVCCI_TURN_TRIPLE_HERE)
        return build_triple_here(b);
    if (r->turn > r->plan->beaver.product_turn)
        return uvcci_gate_build(b, &v->gate, &uvcci_truncation);
    if (r->turn == 0) {
        uvcci_pending_leaf *l = uvcci_add_leaf(b, UVCCI_LEAF_TRIPLE_CONSUMED);
        if (l == NULL)
            return false;
        l->id = v->triple_id;
    }
    return r->turn == r->plan->beaver.product_turn ? build_z(b) : build_opens(b);
}

/* ---- between turns ---- */

static bool ready(const uvcc_session *s, const uvcci_instance *r) {
    (void)s;
    if (uvcci_before_start(r))
        return state_of(r)->admitted;
    if (r->turn != r->plan->beaver.product_turn)
        return true;
    for (unsigned k = 0; k < 2; k++) {
        const uvcci_instance *owner = owner_of(r, k);
        if (owner != r && !state_of(owner)->opened[r->plan->beaver.mask[k].operand])
            return false;
    }
    return true;
}

/* One product less reads what its operands' owners opened. */
static void release_masks(uvcc_session *s, uvcci_instance *r) {
    for (unsigned k = 0; k < 2; k++) {
        const uvcci_plan_mask *m = &r->plan->beaver.mask[k];
        uvcci_beaver *v = state_of(owner_of(r, k));
        assert(v->reads_left[m->operand] != 0);
        if (--v->reads_left[m->operand] == 0)
            give(s, &v->own[m->operand], m->elems);
    }
}

/* What this op opened is there for others too. */
static void publish_masks(uvcc_session *s, uvcci_instance *r) {
    for (unsigned k = 0; k < 2; k++) {
        const uvcci_plan_mask *m = &r->plan->beaver.mask[k];
        if (m->round < 0)
            continue;
        uvcci_arena_give(&s->tensors, state_of(r)->own[k].hi, m->elems * 8);
        state_of(r)->own[k].hi = NULL;
        state_of(r)->opened[k] = true;
    }
    for (uint32_t i = 0; i < r->step->entry->op_count; i++) {
        uvcci_instance *other = &r->step->instances[i];
        if (uvcci_beaver_of(other) != NULL && (owner_of(other, 0) == r || owner_of(other, 1) == r))
            uvcci_instance_wake(other);
    }
}

static void sent(uvcc_session *s, uvcci_instance *r) {
    uvcci_beaver *v = state_of(r);
    if (r->turn == UVCCI_TURN_TRIPLE) {
        give_masks(s, r);
    } else if (r->turn == UVCCI_TURN_TRIPLE_HERE) {
        if (v->stored != NULL)
            uvcci_stored_wipe_c(s, v->stored);
        if (s->cfg.triples.only)
            give_triple(s, r);
    } else if (r->turn == r->plan->beaver.product_turn) {
        give_masks(s, r);
        give_triple(s, r);
        give(s, &v->z, r->plan->elems);
        publish_masks(s, r);
        release_masks(s, r);
    }
}

/* The host gave the triple: nobody makes it. */
static bool given(const uvcci_instance *r, unsigned round) {
    return state_of(r)->stored != NULL && round == r->plan->beaver.triple_round;
}

/* ---- ahead ---- */

/* In program order. The next one is always let in when none is there, so a budget below its size
 * only means one at a time. */
static bool admit(uvcc_session *s, uvcci_step *st) {
    bool any = false;
    for (; st->triple_next < st->entry->op_count; st->triple_next++) {
        uvcci_instance *r = &st->instances[st->triple_next];
        if (uvcci_beaver_of(r) == NULL)
            continue;
        const uint64_t bytes = triple_bytes(r);
        if (s->triples_ahead != 0 && (bytes > s->cfg.limits.triples_ahead_bytes ||
                                      s->triples_ahead > s->cfg.limits.triples_ahead_bytes - bytes))
            break;
        s->triples_ahead += bytes;
        state_of(r)->admitted = true;
        if (state_of(r)->stored != NULL)
            r->turn = UVCCI_TURN_TRIPLE_HERE;
        uvcci_instance_wake(r);
        any = true;
    }
    return any;
}

bool uvcci_beaver_advance(uvcc_session *s) {
    bool any = false;
    for (uint32_t k = 0; k < 2; k++) {
        uvcci_step *st = uvcci_step_of(s, s->step + k);
        if (st == NULL || !st->agreed || st->halted)
            break;
        any |= admit(s, st);
        if (st->triple_next < st->entry->op_count)
            break;
    }
    return any;
}

/* ---- the way ---- */

/* Masks and own differences of both operands, C and the product before it is truncated: what was
 * opened stays for other ops, and triples are made before the op starts. */
static uint64_t tensor_bytes(const uvcc_program *p, const uvcci_op *op, const uvcci_plan *plan) {
    uint64_t bytes = uvcci_gate_tensor_bytes(p, op, plan);
    bytes += 4 * uvcci_arena_rounded(plan->elems * 8);
    for (unsigned k = 0; k < 2; k++)
        bytes += 4 * uvcci_arena_rounded(plan->beaver.mask[k].elems * 8);
    return bytes;
}

static const uvcci_op_way way = {.tensor_bytes = tensor_bytes,
                                 .tensors_stay = true,
                                 .key_bytes = uvcci_gate_key_bytes,
                                 .open = open_op,
                                 .number = number,
                                 .ready = ready,
                                 .build = build,
                                 .sent = sent,
                                 .release = release,
                                 .free = free_op,
                                 .given = given,
                                 .deal_tasks = uvcci_gate_deal_tasks,
                                 .deal = uvcci_gate_deal};
