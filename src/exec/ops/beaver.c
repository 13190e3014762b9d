/* op_beaver.c - products on Beaver triples (protocols.md 6): E = X - A and F = Y - B are opened to
 * all, Z = C + E B + A F + E F.
 *
 * Stages of such an op: TRIPLE (A and B from PRGs, C = A B natively, its resharing is sent) and
 * TRIPLE_HERE come before the op may start, in program order, as far ahead as the budget allows,
 * also in the step that waits. A triple that the host gave goes in at TRIPLE_HERE. Stage 0 opens
 * the differences of the masks that the op owns, if any; the product turn computes Z, which is
 * final or goes into a truncation. From there op_gates.c has it.
 *
 * A mask belongs to a version of a tensor: it is made of words of its owner's ordinal, is opened
 * once, and what was opened stays until the last product that reads the version has used it. */
#include "exec/ops/beaver.h"

#include "exec/ops/triples.h"
#include "exec/runtime/builder.h"

#include "proto/mutant.h"
#include <string.h>

typedef uvcci_builder builder;

enum { LO = 1, HI = 2 };

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

static void give_masks(uvcc_session *s, uvcci_instance *r) {
    for (unsigned k = 0; k < 2; k++)
        give(s, &r->beaver->mask[k], r->plan->beaver.mask[k].elems);
}

static uint64_t triple_bytes(const uvcci_instance *r) {
    return 16 * r->plan->elems;
}

/* C is used, or will not be. */
static void give_triple(uvcc_session *s, uvcci_instance *r) {
    uvcci_beaver *v = r->beaver;
    give(s, &v->c, r->plan->elems);
    if (v->admitted)
        s->triples_ahead -= triple_bytes(r);
    v->admitted = false;
}

bool uvcci_beaver_init(uvcci_step *st, uvcci_instance *r) {
    if (!r->plan->beaver.on)
        return true;
    r->beaver = uvcci_bump_take(&st->bump, sizeof *r->beaver);
    if (r->beaver == NULL)
        return false;
    for (unsigned k = 0; k < 2; k++)
        if (r->plan->beaver.mask[k].round >= 0)
            r->beaver->reads_left[k] = r->plan->beaver.mask[k].reads;
    r->turn = UVCCI_TURN_TRIPLE;
    return true;
}

void uvcci_beaver_free(uvcc_session *s, uvcci_instance *r) {
    uvcci_beaver *v = r->beaver;
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
    return &r->step->instances[r->plan->beaver.mask[operand].op];
}

/* What everybody knows of an operand: it less its mask. */
static uint64_t *difference(const uvcci_instance *r, unsigned operand) {
    return owner_of(r, operand)->beaver->own[r->plan->beaver.mask[operand].operand].lo;
}

/* The task on the words of an operand's mask: those of its owner. */
static uvcc_block *add_mask(builder *b, unsigned operand, uint32_t *n) {
    const uvcci_plan_mask *m = &b->r->plan->beaver.mask[operand];
    const uvcci_instance *owner = owner_of(b->r, operand);
    uvcc_block *k = uvcci_add_blocks(b, m->operand == 0 ? UVCC_TASK_TRIPLE_A : UVCC_TASK_TRIPLE_B,
                                     UVCCI_CALL_TRIPLE, UVCCI_ROLE_ALL, m->elems, n);
    if (k == NULL)
        return NULL;
    uvcc_task *t = &b->r->tasks[b->r->task_count - 1];
    t->ordinal = UVCCI_MUTANT(19) ? 0 : owner->ordinal;
    if (owner->beaver->stored != NULL)
        t->keys = &owner->beaver->stored->keys;
    return k;
}

/* Components of an operand's mask (NULL: not that one). */
static void build_mask(builder *b, unsigned operand, uint64_t *lo, uint64_t *hi) {
    uint32_t n;
    uvcc_block *k = add_mask(b, operand, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].out[0] = lo != NULL ? lo + uvcci_at_block(&k[i]) : NULL;
        k[i].out[1] = hi != NULL ? hi + uvcci_at_block(&k[i]) : NULL;
    }
}

/* ---- the triple ---- */

static bool build_triple(builder *b) {
    uvcci_instance *r = b->r;
    uvcci_beaver *v = r->beaver;
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
        k[i].in[0] = k[i].out[0] = v->c.lo + uvcci_at_block(&k[i]);
        k[i].wire_out[0] = r->out[0].span[0][0][k[i].block];
    }
    uvcci_hash_payloads(b);
    uvcci_end_hashes(b);
    return true;
}

static bool build_copies(builder *b, const uvcc_copy_item items[2]) {
    uvcc_copy_item *kept = uvcci_bump_take(&b->r->bump, 2 * sizeof *kept);
    uvcc_task *t = kept != NULL ? uvcci_add_task(b, UVCC_TASK_COPY, 0) : NULL;
    if (t == NULL)
        return false;
    memcpy(kept, items, 2 * sizeof *kept);
    t->u.copy.items = kept;
    t->u.copy.count = 2;
    return true;
}

/* C into the record that the host gets, and its digest. */
static bool build_record(builder *b) {
    const uvcci_instance *r = b->r;
    const size_t len = r->plan->elems * 8;
    uint8_t *record = uvcci_triple_record(b->s, r), *c = record + UVCCI_TRIPLE_C_AT;
    const uvcc_copy_item items[2] = {
        {.dst = c, .src = (const uint8_t *)r->beaver->c.lo, .len = len},
        {.dst = c + len, .src = (const uint8_t *)r->beaver->c.hi, .len = len}};
    uvcc_hash_item *h = build_copies(b, items) ? uvcci_add_hash(b) : NULL;
    if (h == NULL)
        return false;
    h->data = record;
    h->len = UVCCI_TRIPLE_C_AT + 2 * len;
    h->out = record + h->len;
    uvcci_end_hashes(b);
    return true;
}

static bool build_triple_here(builder *b) {
    uvcci_instance *r = b->r;
    uvcci_beaver *v = r->beaver;
    const size_t len = r->plan->elems * 8;
    uint32_t n;
    if (!take(b->s, &v->c, LO | HI, r->plan->elems))
        return false;
    if (v->stored != NULL)
        return build_copies(
            b, (const uvcc_copy_item[2]){
                   {.dst = (uint8_t *)v->c.lo, .src = v->stored->c, .len = len},
                   {.dst = (uint8_t *)v->c.hi, .src = v->stored->c + len, .len = len}});
    uvcc_block *k = uvcci_add_blocks(b, UVCC_TASK_UNPACK, UVCCI_CALL_TRIPLE, UVCCI_ROLE_ALL,
                                     r->plan->elems, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].wire_in[0] = uvcci_rx_at(r, r->plan->beaver.triple_round, 0, 0, k[i].block);
        k[i].out[0] = v->c.hi + uvcci_at_block(&k[i]);
    }
    return b->s->cfg.triples_only ? build_record(b) : true;
}

/* ---- openings and product ---- */

/* The messages of a round that this turn sends. */
static uvcci_batch_out *out_of(uvcci_instance *r, unsigned round) {
    for (unsigned k = 0; k < UVCCI_TURN_ROUNDS; k++)
        if (r->out[k].round == &r->plan->rounds[round])
            return &r->out[k];
    return NULL;
}

static bool build_open(builder *b, unsigned operand) {
    uvcci_instance *r = b->r;
    const uvcci_plan_mask *m = &r->plan->beaver.mask[operand];
    const uvcc_shares *x = uvcci_shares_of(b->s, r->op->desc.in[operand]);
    uvcc_shares *own = &r->beaver->own[operand];
    const uvcci_batch_out *out = out_of(r, (unsigned)m->round);
    uint32_t n;
    if (!take(b->s, own, LO | HI, m->elems))
        return false;
    uvcc_block *k = add_mask(b, operand, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = x->lo + uvcci_at_block(&k[i]);
        k[i].in[1] = x->hi + uvcci_at_block(&k[i]);
        k[i].out[0] = own->lo + uvcci_at_block(&k[i]);
        k[i].out[1] = own->hi + uvcci_at_block(&k[i]);
        k[i].wire_out[0] = out->span[0][0][k[i].block];
    }
    return uvcci_hash_held(b, (unsigned)m->round, b->s->party, own->hi, out->digest[0][1]);
}

static bool build_opens(builder *b) {
    for (unsigned k = 0; k < 2; k++)
        if (b->r->plan->beaver.mask[k].round >= 0 && !build_open(b, k))
            return false;
    uvcci_end_hashes(b); /* the payload's hash covers them */
    uvcci_hash_payloads(b);
    uvcci_end_hashes(b);
    return true;
}

/* The sum of the three components: lo gets it, hi the one that came, which is compared. */
static bool build_opened(builder *b, unsigned operand) {
    uvcci_instance *r = b->r;
    const uvcci_plan_mask *m = &r->plan->beaver.mask[operand];
    const uvcc_shares *own = &r->beaver->own[operand];
    uint32_t n;
    uvcc_block *k = uvcci_add_blocks(b, UVCC_TASK_OPEN_ALL_FINISH, UVCCI_CALL_TRIPLE,
                                     UVCCI_ROLE_ALL, m->elems, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = k[i].out[0] = own->lo + uvcci_at_block(&k[i]);
        k[i].in[1] = own->hi + uvcci_at_block(&k[i]);
        k[i].wire_in[0] = uvcci_rx_at(r, (unsigned)m->round, 0, 0, k[i].block);
    }
    k = uvcci_add_blocks(b, UVCC_TASK_UNPACK, UVCCI_CALL_TRIPLE, UVCCI_ROLE_ALL, m->elems, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].wire_in[0] = uvcci_rx_at(r, (unsigned)m->round, 0, 0, k[i].block);
        k[i].out[0] = own->hi + uvcci_at_block(&k[i]);
    }
    return uvcci_hash_opened_to_all(b, (unsigned)m->round, own->hi, own->lo);
}

static bool build_sum(builder *b, uint8_t op, const uvcc_tensor_desc *shape, uint64_t *x,
                      uint64_t *y) {
    uvcc_task *t = uvcci_add_task(b, UVCC_TASK_MAP, 0);
    if (t == NULL)
        return false;
    t->u.map.op = op;
    t->u.map.party = b->s->party;
    t->u.map.rows = shape->rows;
    t->u.map.cols = shape->cols;
    t->u.map.x.lo = t->u.map.out.lo = x;
    t->u.map.y.lo = y;
    return true;
}

/* A component of Z. The tasks of products compute x_lo (y_lo + y_hi) + x_hi y_lo: with x = (E, A)
 * and y = (F, B - F) that is E B + A F, with y = (F, B) it is E F more, which component 0 gets. */
static bool build_component(builder *b, unsigned part, uint64_t *z) {
    uvcci_instance *r = b->r;
    uvcci_beaver *v = r->beaver;
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

static bool build_z(builder *b) {
    uvcci_instance *r = b->r;
    uvcci_beaver *v = r->beaver;
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
    if (r->plan->open_round >= 0 && !uvcci_build_open2(b, z))
        return false;
    uvcci_hash_payloads(b);
    uvcci_end_hashes(b);
    return true;
}

bool uvcci_beaver_build(builder *b) {
    uvcci_instance *r = b->r;
    if (r->turn == UVCCI_TURN_TRIPLE)
        return build_triple(b);
    if (r->turn == UVCCI_TURN_TRIPLE_HERE)
        return build_triple_here(b);
    if (r->turn == 0) {
        uvcci_pending_leaf *l = uvcci_add_leaf(b, UVCCI_LEAF_TRIPLE_CONSUMED);
        if (l == NULL)
            return false;
        l->id = r->beaver->triple_id;
    }
    return r->turn == r->plan->beaver.product_turn ? build_z(b) : build_opens(b);
}

/* ---- between turns ---- */

bool uvcci_beaver_ready(const uvcci_instance *r) {
    if (uvcci_before_start(r))
        return r->beaver->admitted;
    if (r->turn != r->plan->beaver.product_turn)
        return true;
    for (unsigned k = 0; k < 2; k++) {
        const uvcci_instance *owner = owner_of(r, k);
        if (owner != r && !owner->beaver->opened[r->plan->beaver.mask[k].operand])
            return false;
    }
    return true;
}

/* One product less reads what its operands' owners opened. */
static void release_masks(uvcc_session *s, uvcci_instance *r) {
    for (unsigned k = 0; k < 2; k++) {
        const uvcci_plan_mask *m = &r->plan->beaver.mask[k];
        uvcci_beaver *v = owner_of(r, k)->beaver;
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
        uvcci_arena_give(&s->tensors, r->beaver->own[k].hi, m->elems * 8);
        r->beaver->own[k].hi = NULL;
        r->beaver->opened[k] = true;
    }
    for (uint32_t i = 0; i < r->step->entry->op_count; i++) {
        uvcci_instance *other = &r->step->instances[i];
        if (other->beaver != NULL && (owner_of(other, 0) == r || owner_of(other, 1) == r))
            uvcci_instance_wake(other);
    }
}

void uvcci_beaver_turn_done(uvcc_session *s, uvcci_instance *r) {
    uvcci_beaver *v = r->beaver;
    if (r->turn == UVCCI_TURN_TRIPLE) {
        give_masks(s, r);
    } else if (r->turn == UVCCI_TURN_TRIPLE_HERE) {
        if (v->stored != NULL)
            uvcci_stored_wipe_c(s, v->stored);
        if (s->cfg.triples_only)
            give_triple(s, r);
    } else if (r->turn == r->plan->beaver.product_turn) {
        give_masks(s, r);
        give_triple(s, r);
        give(s, &v->z, r->plan->elems);
        publish_masks(s, r);
        release_masks(s, r);
    }
}

/* ---- ahead ---- */

/* In program order. The next one is always let in when none is there, so a budget below its size
 * only means one at a time. */
static bool admit(uvcc_session *s, uvcci_step *st) {
    bool any = false;
    for (; st->triple_next < st->entry->op_count; st->triple_next++) {
        uvcci_instance *r = &st->instances[st->triple_next];
        if (r->beaver == NULL)
            continue;
        const uint64_t bytes = triple_bytes(r);
        if (s->triples_ahead != 0 && (bytes > s->cfg.triples_ahead_bytes ||
                                      s->triples_ahead > s->cfg.triples_ahead_bytes - bytes))
            break;
        s->triples_ahead += bytes;
        r->beaver->admitted = true;
        if (r->beaver->stored != NULL)
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
        if (st == NULL || !st->agreed)
            break;
        any |= admit(s, st);
        if (st->triple_next < st->entry->op_count)
            break;
    }
    return any;
}
