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
 * A large product is cut into tiles, rows of Z, each with a C of its own. Those of tile 0 come as
 * said; the C of the others are made beside the op's turns, whenever the budget lets the next one
 * in, and after the product turn the tiles are computed one by one, in rising order (TURN_TILE).
 * Each gives its C back, which lets another be made: so the budget, not the product, bounds what
 * is here. Nothing that a party does waits for how far ahead another one is, so they may have
 * different budgets.
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
#include "exec/runtime/names.h"

#include "proto/mutant.h"
#include <assert.h>
#include <string.h>

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

static uvcci_beaver *state_of(const uvcci_instance *r) {
    assert(uvcci_beaver_of(r) != NULL);
    return uvcci_beaver_of(r);
}

static void give_masks(uvcc_session *s, uvcci_instance *r) {
    for (unsigned k = 0; k < 2; k++)
        give(s, &state_of(r)->mask[k], r->plan->beaver.mask[k].elems);
}

static uint64_t triple_bytes(const uvcci_instance *r, uint32_t tile) {
    return 16 * uvcci_tile_elems(r, tile);
}

/* C is used, or will not be. */
static void give_triple(uvcc_session *s, uvcci_instance *r, uint32_t tile) {
    uvcci_tile *t = &state_of(r)->tile[tile];
    give(s, &t->c, uvcci_tile_elems(r, tile));
    if (t->admitted) {
        assert(s->triples_ahead >= triple_bytes(r, tile));
        s->triples_ahead -= triple_bytes(r, tile);
    }
    t->admitted = false;
}

/* The state is the step's: what it opened may be used when the op is done. */
static bool open_op(uvcci_step *st, uvcci_instance *r) {
    uvcci_beaver *v = uvcci_bump_take(&st->bump, sizeof *v);
    assert(r->state == NULL);
    if (v == NULL ||
        (v->tile = uvcci_bump_take(&st->bump, uvcci_tile_count(r) * sizeof *v->tile)) == NULL)
        return false;
    for (unsigned k = 0; k < 2; k++)
        if (r->plan->beaver.mask[k].round >= 0)
            v->reads_left[k] = r->plan->beaver.mask[k].reads;
    r->state = v;
    r->turn = UVCCI_TURN_TRIPLE;
    return true;
}

static void number(uvcc_session *s, uvcci_instance *r) {
    for (uint32_t tile = 0; tile < uvcci_tile_count(r); tile++)
        state_of(r)->tile[tile].triple_id =
            uvcci_triple_id(s->sid_sub, r->step->number, r->op_id, tile);
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
    for (uint32_t tile = 0; tile < uvcci_tile_count(r); tile++) {
        give_triple(s, r, tile);
        if (v->tile[tile].stored != NULL)
            uvcci_stored_free(s, v->tile[tile].stored);
        v->tile[tile].stored = NULL;
    }
    for (unsigned k = 0; k < 2; k++)
        give(s, &v->own[k], r->plan->beaver.mask[k].elems);
    give(s, &v->z, r->plan->elems);
}

/* ---- masks ---- */

/* Whose mask an operand has. */
static uvcci_instance *owner_of(const uvcci_instance *r, unsigned operand) {
    const uvcci_plan_mask *m = &r->plan->beaver.mask[operand];
    assert(operand < 2 && m->op <= r->index); /* the first that reads the version */
    return uvcci_instance_of(r->step, m->op);
}

/* What everybody knows of an operand: it less its mask. */
static uint64_t *difference(const uvcci_instance *r, unsigned operand) {
    return state_of(owner_of(r, operand))->own[r->plan->beaver.mask[operand].operand].lo;
}

/* The task on the words of an operand's mask, those of its owner, but for what lies before and
 * after the blocks of the span. */
static uvcc_block *add_mask(uvcci_builder *b, unsigned operand, uvcci_span span, uint32_t *n) {
    const uvcci_plan_mask *m = &b->r->plan->beaver.mask[operand];
    const uvcci_instance *owner = owner_of(b->r, operand);
    const uint64_t end = uvcci_blocks(span.to) * (uint64_t)UVCC_BLOCK_ELEMS;
    uvcc_block *k = uvcci_add_blocks_from(
        b, m->operand == 0 ? UVCC_TASK_TRIPLE_A : UVCC_TASK_TRIPLE_B, UVCCI_CALL_TRIPLE,
        UVCCI_ROLE_ALL, (uint32_t)(span.from / UVCC_BLOCK_ELEMS), end < m->elems ? end : m->elems,
        n);
    if (k == NULL)
        return NULL;
    uvcc_task *t = uvcci_last_task(b);
    t->ordinal = UVCCI_MUTANT(19) ? 0 : owner->ordinal;
    if (uvcci_stored_of(owner) != NULL)
        t->keys = &uvcci_stored_of(owner)->keys;
    return k;
}

/* Components of an operand's mask (NULL: not that one), as far as the tile reads it. */
static void build_mask(uvcci_builder *b, uint32_t tile, unsigned operand, uint64_t *lo,
                       uint64_t *hi) {
    uint32_t n;
    uvcc_block *k = add_mask(b, operand, uvcci_tile_span(b, tile, operand), &n);
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_mask(&k[i], lo, hi);
    }
}

/* ---- triples ---- */

/* The words of its zero share are named by blocks that go on from tile to tile. */
static bool build_triple(uvcci_builder *b, uint32_t tile) {
    uvcci_instance *r = b->r;
    uvcci_beaver *v = state_of(r);
    uvcci_tile *w = &v->tile[tile];
    const unsigned round = r->plan->beaver.triple_round + tile;
    const uint64_t elems = uvcci_tile_elems(r, tile);
    assert(w->admitted && w->stored == NULL);
    uint32_t n;
    for (unsigned k = 0; k < 2; k++) {
        if (!take(b->s, &v->mask[k], LO | HI, r->plan->beaver.mask[k].elems))
            return false;
        build_mask(b, tile, k, v->mask[k].lo, v->mask[k].hi);
    }
    if (!take(b->s, &w->c, LO | HI, elems) ||
        !uvcci_build_tile(b, tile, &v->mask[0], &v->mask[1], w->c.lo))
        return false;
    uvcc_block *k =
        uvcci_add_blocks(b, UVCC_TASK_TRIPLE_C, UVCCI_CALL_TRIPLE, UVCCI_ROLE_ALL, elems, &n);
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_reshare(&k[i], w->c.lo, w->c.lo,
                          uvcci_sent_at(r, round, 0, UVCCI_FIRST, k[i].block));
        k[i].block += UVCCI_MUTANT(47) ? 0 : r->plan->rounds[round].first_block;
    }
    uvcci_hash_payloads(b);
    uvcci_end_hashes(b);
    return true;
}

static bool build_copies(uvcci_builder *b, const uvcc_copy_item items[2]) {
    uvcc_copy_item *both = uvcci_bump_take(&b->r->turn_bump, 2 * sizeof *both);
    if (both == NULL)
        return false;
    memcpy(both, items, 2 * sizeof *both);
    return uvcci_task_copy(b, both, 2);
}

/* C into the record that the host gets, and its digest. */
static bool build_record(uvcci_builder *b, uint32_t tile) {
    const uvcci_instance *r = b->r;
    const uvcc_shares *from = &state_of(r)->tile[tile].c;
    const size_t len = uvcci_tile_elems(r, tile) * 8;
    uint8_t *record = uvcci_triple_record(b->s, r, tile), *c = record + UVCCI_TRIPLE_C_AT;
    const uvcc_copy_item items[2] = {
        {.dst = c, .src = (const uint8_t *)from->lo, .len = len},
        {.dst = c + len, .src = (const uint8_t *)from->hi, .len = len}};
    uvcc_hash_item *h = build_copies(b, items) ? uvcci_add_hash(b) : NULL;
    if (h == NULL)
        return false;
    h->data = record;
    h->len = UVCCI_TRIPLE_C_AT + 2 * len;
    h->out = record + h->len;
    uvcci_end_hashes(b);
    return true;
}

static bool build_triple_here(uvcci_builder *b, uint32_t tile) {
    uvcci_instance *r = b->r;
    uvcci_tile *w = &state_of(r)->tile[tile];
    const size_t len = uvcci_tile_elems(r, tile) * 8;
    if (!take(b->s, &w->c, LO | HI, uvcci_tile_elems(r, tile)))
        return false;
    if (w->stored != NULL)
        return build_copies(
            b, (const uvcc_copy_item[2]){
                   {.dst = (uint8_t *)w->c.lo, .src = w->stored->c, .len = len},
                   {.dst = (uint8_t *)w->c.hi, .src = w->stored->c + len, .len = len}});
    uvcci_task_unpack(b, UVCCI_CALL_TRIPLE, r->plan->beaver.triple_round + tile, w->c.hi);
    return b->s->cfg.triples.only ? build_record(b, tile) : true;
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
    uvcc_block *k = add_mask(b, operand, (uvcci_span){.to = m->elems}, &n);
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

/* What is opened to all. */
static bool build_all_opened(uvcci_builder *b) {
    for (unsigned k = 0; k < 2; k++)
        if (b->r->plan->beaver.mask[k].round >= 0 && !build_opened(b, k))
            return false;
    uvcci_end_hashes(b);
    return true;
}

/* x = x op y, of one component, where the span is. */
static bool build_sum(uvcci_builder *b, uint8_t op, uint32_t cols, uvcci_span span, uint64_t *x,
                      uint64_t *y) {
    const uint64_t rows = (span.to - span.from) / cols;
    return uvcci_task_map_words(b, op, (uint32_t)rows, cols, x + span.from, y + span.from,
                                x + span.from) != NULL;
}

/* A component of a tile of Z. The tasks of products compute x_lo (y_lo + y_hi) + x_hi y_lo: with
 * x = (E, A) and y = (F, B - F) that is E B + A F, with y = (F, B) it is E F more, which component
 * 0 gets. */
static bool build_component(uvcci_builder *b, uint32_t tile, unsigned part, uint64_t *z) {
    uvcci_instance *r = b->r;
    uvcci_beaver *v = state_of(r);
    const uvcc_op_desc *d = &r->op->desc;
    const uvcci_tensor *ts = b->s->program->tensors;
    const bool first = (b->s->party + part) % UVCC_PARTIES == 0;
    uint64_t *c = part == 0 ? v->tile[tile].c.lo : v->tile[tile].c.hi;
    for (unsigned k = 0; k < 2; k++)
        build_mask(b, tile, k, part == 0 ? v->mask[k].lo : NULL, part == 0 ? NULL : v->mask[k].lo);
    const uvcc_shares x = {difference(r, 0), v->mask[0].lo}, y = {difference(r, 1), v->mask[1].lo};
    const uvcci_span all = {.to = uvcci_tile_elems(r, tile)};
    return (first || build_sum(b, UVCC_MAP_SUB, ts[d->in[1]].desc.cols, uvcci_tile_span(b, tile, 1),
                               y.hi, y.lo)) &&
           uvcci_build_tile(b, tile, &x, &y, z) &&
           build_sum(b, UVCC_MAP_ADD, ts[d->out[0]].desc.cols, all, z, c);
}

/* Where the product goes: it is final, or truncated then. */
static const uvcc_shares *product_of(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    const uint32_t out = r->op->desc.out[0];
    if (!uvcci_ensure_buffer(b->s, out))
        return NULL;
    if (r->plan->open_round < 0)
        return uvcci_shares_of(b->s, out);
    return take(b->s, &state_of(r)->z, LO | HI, r->plan->elems) ? &state_of(r)->z : NULL;
}

static bool build_product(uvcci_builder *b, uint32_t tile) {
    uvcci_instance *r = b->r;
    uvcci_beaver *v = state_of(r);
    const uint64_t at = uvcci_tile_span(b, tile, 2).from;
    for (unsigned k = 0; k < 2; k++)
        if (!take(b->s, &v->mask[k], LO, r->plan->beaver.mask[k].elems))
            return false;
    const uvcc_shares *z = product_of(b);
    return z != NULL && build_component(b, tile, 0, z->lo + at) &&
           build_component(b, tile, 1, z->hi + at);
}

static bool build_finish(uvcci_builder *b) {
    uvcci_beaver *v = state_of(b->r);
    if (b->r->plan->open_round >= 0 && !uvcci_gate_open2(b, &v->gate, &v->z))
        return false;
    uvcci_hash_payloads(b);
    uvcci_end_hashes(b);
    return true;
}

static bool consume(uvcci_builder *b, uint32_t tile) {
    uvcci_pending_leaf *l = uvcci_add_leaf(b, UVCCI_LEAF_TRIPLE_CONSUMED);
    const uvcci_beaver *v = state_of(b->r);
    const uvcci_tile *t = &v->tile[tile];
    if (l == NULL)
        return false;
    l->id = t->triple_id;
    uvcci_names_triple(b->s, b->r, t->triple_id,
                       v->given && t->stored != NULL ? t->stored->info.maker_run : b->s->run);
    return true;
}

static bool build_beside(uvcci_builder *b) {
    const uint32_t tile = b->r->tile;
    if (b->r->turn == UVCCI_TURN_TRIPLE)
        return build_triple(b, tile);
    if (b->r->turn == UVCCI_TURN_TRIPLE_HERE)
        return build_triple_here(b, tile);
    assert(b->r->turn == UVCCI_TURN_TILE && tile == state_of(b->r)->used);
    return consume(b, tile) && build_product(b, tile);
}

static bool build(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    const uvcci_plan_beaver *p = &r->plan->beaver;
    const bool whole = p->tiles.count == 1;
    if (r->turn >= UVCCI_TURN_TILE)
        return build_beside(b);
    if (r->turn > p->finish_turn)
        return uvcci_gate_build(b, &state_of(r)->gate, &uvcci_truncation);
    if (r->turn == 0 && whole && !consume(b, 0))
        return false;
    if (r->turn < p->product_turn)
        return build_opens(b);
    if (r->turn == p->product_turn && !build_all_opened(b))
        return false;
    if (r->turn == p->product_turn && whole && !build_product(b, 0))
        return false;
    return r->turn == p->finish_turn ? build_finish(b) : true;
}

/* ---- between turns ---- */

static bool differences_are_here(const uvcci_instance *r) {
    for (unsigned k = 0; k < 2; k++) {
        const uvcci_instance *owner = owner_of(r, k);
        if (owner != r && !state_of(owner)->opened[r->plan->beaver.mask[k].operand])
            return false;
    }
    return true;
}

static bool ready(const uvcc_session *s, const uvcci_instance *r) {
    const uvcci_plan_beaver *p = &r->plan->beaver;
    (void)s;
    if (uvcci_before_start(r))
        return state_of(r)->admitted != 0;
    if (r->turn == p->product_turn && !differences_are_here(r))
        return false;
    return r->turn != p->finish_turn || p->tiles.count == 1 || state_of(r)->used == p->tiles.count;
}

/* Tiles beyond the first. What came is taken in, what can be used is used, before more is made. */
static uint8_t beside(const uvcc_session *s, const uvcci_instance *r, uint32_t *tile) {
    const uvcci_plan_beaver *p = &r->plan->beaver;
    const uvcci_beaver *v = state_of(r);
    const bool only = s->cfg.triples.only;
    if (p->tiles.count == 1 || (only ? r->tiles_here : v->used) == p->tiles.count)
        return UVCCI_TURN_DONE;
    *tile = r->tiles_here;
    if (*tile < r->tiles_made && uvcci_round_came(r, p->triple_round + *tile))
        return UVCCI_TURN_TRIPLE_HERE;
    *tile = v->used;
    if (r->turn > p->product_turn && *tile < r->tiles_here)
        return UVCCI_TURN_TILE;
    *tile = r->tiles_made;
    return *tile < v->admitted ? UVCCI_TURN_TRIPLE : UVCCI_TURN_NONE;
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

/* The products that have the masks of this one: they read its operands. */
static void wake_readers(const uvcc_session *s, const uvcci_instance *r, uint32_t operand) {
    const uvcci_entry *e = r->step->entry;
    const uint32_t buffer = s->program->tensors[operand].buffer;
    for (uint32_t at = e->touch_from[buffer]; at < e->touch_from[buffer + 1]; at++) {
        uvcci_instance *other = uvcci_instance_of(r->step, e->touching[at]);
        if (uvcci_beaver_of(other) != NULL && (owner_of(other, 0) == r || owner_of(other, 1) == r))
            uvcci_instance_wake(other);
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
    for (unsigned k = 0; k < 2; k++)
        wake_readers(s, r, r->op->desc.in[k]);
}

static void sent_beside(uvcc_session *s, uvcci_instance *r) {
    uvcci_tile *w = &state_of(r)->tile[r->tile];
    if (r->turn != UVCCI_TURN_TRIPLE_HERE)
        give_masks(s, r);
    if (r->turn == UVCCI_TURN_TRIPLE) {
        r->tiles_made++;
        return;
    }
    if (r->turn == UVCCI_TURN_TILE) {
        give_triple(s, r, r->tile);
        state_of(r)->used++;
        return;
    }
    r->tiles_here++;
    if (w->stored != NULL)
        uvcci_stored_wipe_c(s, w->stored);
    if (s->cfg.triples.only)
        give_triple(s, r, r->tile);
}

static void sent(uvcc_session *s, uvcci_instance *r) {
    const uvcci_plan_beaver *p = &r->plan->beaver;
    if (r->turn >= UVCCI_TURN_TILE) {
        sent_beside(s, r);
        return;
    }
    if (r->turn == p->product_turn)
        publish_masks(s, r);
    if (r->turn != p->finish_turn)
        return;
    if (p->tiles.count == 1) {
        give_masks(s, r);
        give_triple(s, r, 0);
    }
    give(s, &state_of(r)->z, r->plan->elems);
    release_masks(s, r);
}

/* The hosts gave the triples: nobody makes them. */
static bool given(const uvcci_instance *r, unsigned round) {
    return state_of(r)->given && r->plan->rounds[round].turn == UVCCI_TURN_TRIPLE;
}

/* ---- ahead ---- */

static bool has_room(const uvcc_session *s, uint64_t bytes) {
    const uint64_t most = s->cfg.limits.triples_ahead_bytes;
    return s->triples_ahead == 0 || (bytes <= most && s->triples_ahead <= most - bytes);
}

/* A given one only goes in. */
static void admit_tile(uvcc_session *s, uvcci_instance *r) {
    uvcci_beaver *v = state_of(r);
    uvcci_tile *w = &v->tile[v->admitted];
    s->triples_ahead += triple_bytes(r, v->admitted);
    w->admitted = true;
    v->admitted++;
    if (w->stored != NULL && r->tiles_made++ == 0)
        r->turn = UVCCI_TURN_TRIPLE_HERE;
    uvcci_instance_wake(r);
}

/* In program order, tile by tile. The next one is always let in when none is there, so a budget
 * below its size only means one at a time. */
static bool admit(uvcc_session *s, uvcci_step *st) {
    bool any = false;
    for (; st->triple_next < st->entry->op_count; st->triple_next++) {
        uvcci_instance *r = uvcci_instance_of(st, st->triple_next);
        uvcci_beaver *v = uvcci_beaver_of(r);
        while (v != NULL && v->admitted < uvcci_tile_count(r)) {
            if (!has_room(s, triple_bytes(r, v->admitted)))
                return any;
            admit_tile(s, r);
            any = true;
        }
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

/* Masks and own differences of both operands, and the product before it is truncated: what was
 * opened stays for other ops, and triples are made before the op starts. C is counted apart, since
 * the budget bounds it. */
static uint64_t tensor_bytes(const uvcc_program *p, const uvcci_op *op, const uvcci_plan *plan) {
    uint64_t bytes = uvcci_gate_tensor_bytes(p, op, plan);
    bytes += 2 * uvcci_arena_rounded(plan->elems * 8);
    for (unsigned k = 0; k < 2; k++)
        bytes += 4 * uvcci_arena_rounded(plan->beaver.mask[k].elems * 8);
    return bytes;
}

const uvcci_op_way uvcci_beaver_way = {.tensor_bytes = tensor_bytes,
                                       .tensors_stay = true,
                                       .key_bytes = uvcci_gate_key_bytes,
                                       .open = open_op,
                                       .number = number,
                                       .beside = beside,
                                       .ready = ready,
                                       .build = build,
                                       .sent = sent,
                                       .release = release,
                                       .free = free_op,
                                       .given = given,
                                       .deal_tasks = uvcci_gate_deal_tasks,
                                       .deal = uvcci_gate_deal};
