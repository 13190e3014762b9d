/* SPDX-License-Identifier: Apache-2.0 */
/* functions.c - FUNCTION ops in a session: the turns of HEAD and TAIL, the table of what is done
 * for each kind of instruction, and OTHER's deal, whose parts stand in functions_deal.c.
 *
 * HEAD and TAIL follow the function's instructions in their order. An instruction that sends is
 * taken up twice: in its turn it masks and fills its round's messages, in the next it finishes from
 * what came. */
#include "exec/ops/functions_impl.h"

#include <assert.h>
#include <string.h>

/* ---- what is where ---- */

/* Blocks of a task of this instruction; its arguments are the instruction's. */
static uvcc_block *blocks_of(const uvcci_fn_build *f, uint16_t kind, unsigned roles, uint32_t *n) {
    uvcc_block *k = uvcci_add_blocks(f->b, kind, uvcci_fn_call_of(f->i, kind), roles, f->elems, n);
    if (k == NULL)
        return NULL;
    uvcc_fn_args *a = uvcci_fn_args_of(&f->r->turn_bump, f->r, f->i, kind);
    if (a == NULL) {
        f->b->failed = true;
        *n = 0;
        return NULL;
    }
    f->r->tasks[f->r->task_count - 1].u.vec.fn = a;
    return k;
}

static bool take(const uvcci_fn_build *f, uint64_t **p) {
    if (*p == NULL)
        *p = uvcci_arena_take(&f->s->tensors, f->elems * 8);
    f->b->failed |= *p == NULL;
    return *p != NULL;
}

static uvcci_fn_value *value_of(const uvcci_fn_build *f, unsigned instr) {
    assert(instr < f->r->plan->function->instr_count && uvcci_fn_state_of(f->r)->values != NULL);
    return &uvcci_fn_state_of(f->r)->values[instr];
}

/* Both components of what an EXCHANGE or LIFT gives. */
static uvcc_shares *rss_of(const uvcci_fn_build *f, unsigned instr) {
    const uvcc_fn_instr *d = &f->r->plan->function->instrs[instr];
    return d->io == UVCC_FN_NONE ? &value_of(f, instr)->rss : &uvcci_fn_state_of(f->r)->out[d->io];
}

/* xh of an M value in the blocks where this party has `role`. */
static const uint64_t *masked_of(const uvcci_fn_build *f, unsigned instr, uint8_t role) {
    if (f->r->plan->function->instrs[instr].kind != UVCC_FN_EXCHANGE)
        return value_of(f, instr)->x;
    const uvcc_shares *rss = rss_of(f, instr);
    assert(rss->lo != NULL && rss->hi != NULL && role != UVCC_OTHER);
    return role == UVCC_HEAD ? rss->hi : rss->lo;
}

/* The round that the instruction sends, its index, and where this turn fills it. */
static uint8_t *span_of(const uvcci_fn_build *f, unsigned nth, uint32_t block) {
    unsigned vec;
    const uvcci_plan_round *round = uvcci_plan_sent_by(f->r->plan, f->i, &vec);
    assert(round != NULL && vec + nth < round->vec_count && round->turn == f->r->turn);
    for (unsigned k = 0; f->r->out != NULL && k < UVCCI_TURN_ROUNDS; k++)
        if (f->r->out[k].round == round)
            return f->r->out[k].span[vec + nth][0][block];
    return NULL;
}

static const uint8_t *came(const uvcci_fn_build *f, unsigned nth, uint32_t block) {
    unsigned vec;
    const uvcci_plan_round *round = uvcci_plan_sent_by(f->r->plan, f->i, &vec);
    assert(round != NULL && vec + nth < round->vec_count && round->turn + 1u == f->r->turn);
    return uvcci_rx_at(f->r, (unsigned)(round - f->r->plan->rounds), vec + nth, 0, block);
}

static uint8_t id_of(const uvcci_fn_build *f, unsigned nth) {
    unsigned vec;
    const uvcci_plan_round *round = uvcci_plan_sent_by(f->r->plan, f->i, &vec);
    assert(round != NULL && round->vec[vec + nth].instr == f->i);
    return round->vec[vec + nth].id;
}

/* This party's part of an instruction's material in the key stream of a block: its CW, or (TAIL)
 * its words.
 */
static const uint8_t *material_of(const uvcci_fn_build *f, unsigned instr, const uvcc_block *k,
                                  bool words) {
    const uvcci_plan *p = f->r->plan;
    const uvcci_plan_round *round = uvcci_plan_keys_of(p, instr);
    uint32_t cw_at, words_at;
    assert(round != NULL && k->role != UVCC_OTHER);
    uvcci_plan_key_at(p, instr, k->count, &cw_at, &words_at);
    const uint8_t *stream =
        uvcci_key_of(f->r, (unsigned)(round - p->rounds) - p->round_count, k->block);
    if (words)
        return k->role == UVCC_TAIL ? stream + words_at : NULL;
    return stream + cw_at;
}

/* ---- rounds ---- */

/* Opened bits as they are hashed. */
static uint8_t *packed_at(const uvcci_fn_build *f, unsigned bits, uint32_t block) {
    uvcci_fn_value *v = value_of(f, f->i);
    if (!uvcci_audit_on(f->s))
        return NULL;
    if (v->packed == NULL)
        v->packed = uvcci_arena_take(&f->s->tensors,
                                     (size_t)uvcci_blocks(f->elems) * UVCC_BLOCK_ELEMS / 8 * bits);
    f->b->failed |= v->packed == NULL;
    return v->packed != NULL ? v->packed + (size_t)block * UVCC_BLOCK_ELEMS / 8 * bits : NULL;
}

static void hash_opened(const uvcci_fn_build *f, unsigned nth, const uint64_t *words,
                        unsigned bits) {
    const uint8_t *data = bits == 64 ? (const uint8_t *)words : value_of(f, f->i)->packed;
    if (data != NULL)
        uvcci_hash_opened(f->b, id_of(f, nth), f->info->turn, f->elems, data,
                          (size_t)UVCC_BLOCK_ELEMS / 8 * bits, bits);
}

/* This party's part of the mask of an opened or exchanged value. */
static void build_pads(const uvcci_fn_build *f) {
    uint32_t n;
    uvcci_fn_value *v = value_of(f, f->i);
    if (!f->info->pads || !take(f, &v->p))
        return;
    uvcc_block *k = blocks_of(f, UVCC_TASK_FN_PADS, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++)
        k[i].out[0] = v->p + uvcci_at_block(&k[i]);
}

static void send_open(const uvcci_fn_build *f) {
    uint32_t n;
    uvcci_fn_value *v = value_of(f, f->i);
    const uvcc_shares in = uvcci_part_of(f->b, f->r->op->desc.in[f->d->io]);
    if (!take(f, &v->x))
        return;
    uvcc_block *k = blocks_of(f, UVCC_TASK_FN_OPEN_MASK, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = in.lo + uvcci_at_block(&k[i]);
        k[i].in[1] = in.hi + uvcci_at_block(&k[i]);
        k[i].out[0] = v->x + uvcci_at_block(&k[i]);
        k[i].wire_out[0] = span_of(f, 0, k[i].block);
    }
}

static void finish_open(const uvcci_fn_build *f) {
    uint32_t n;
    uvcci_fn_value *v = value_of(f, f->i);
    uvcc_block *k = blocks_of(f, UVCC_TASK_FN_OPEN_FINISH, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = k[i].out[0] = v->x + uvcci_at_block(&k[i]);
        k[i].wire_in[0] = came(f, 0, k[i].block);
        if (f->d->bits != 64)
            k[i].out_bits = packed_at(f, f->d->bits, k[i].block);
    }
    hash_opened(f, 0, v->x, f->d->bits);
    build_pads(f);
}

static void send_compare(const uvcci_fn_build *f) {
    uint32_t n;
    uvcci_fn_value *v = value_of(f, f->i);
    if (!take(f, &v->x))
        return;
    uvcc_block *k = blocks_of(f, UVCC_TASK_FN_COMPARE, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = masked_of(f, f->d->a, k[i].role) + uvcci_at_block(&k[i]);
        k[i].key = material_of(f, f->info->key, &k[i], false);
        k[i].out[0] = v->x + uvcci_at_block(&k[i]);
        k[i].wire_out[0] = span_of(f, 0, k[i].block);
    }
}

static void finish_compare(const uvcci_fn_build *f) {
    uint32_t n;
    uvcci_fn_value *v = value_of(f, f->i);
    uvcc_block *k = blocks_of(f, UVCC_TASK_FN_OPEN_BITS, UVCCI_ROLE_EDGE, &n);
    unsigned bits = f->d->word_count;
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = k[i].out[0] = v->x + uvcci_at_block(&k[i]);
        k[i].wire_in[0] = came(f, 0, k[i].block);
        if (bits != 64)
            k[i].out_bits = packed_at(f, bits, k[i].block);
    }
    hash_opened(f, 0, v->x, bits);
}

/* A TABLE times an A value, which is opened with it. */
static bool times(const uvcci_fn_build *f) {
    return f->d->kind == UVCC_FN_TABLE && f->d->b != UVCC_FN_NONE && f->d->shift == 0;
}

static bool has_bit(const uvcci_fn_build *f) {
    return f->d->kind == UVCC_FN_TABLE_MUL && f->d->b != UVCC_FN_NONE;
}

static void send_table(const uvcci_fn_build *f) {
    uint32_t n;
    uvcci_fn_value *v = value_of(f, f->i);
    if (!take(f, &v->opened) || (times(f) && !take(f, &v->times)))
        return;
    uvcc_block *k = blocks_of(f, UVCC_TASK_FN_TABLE, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = masked_of(f, f->d->a, k[i].role) + uvcci_at_block(&k[i]);
        k[i].key = material_of(f, f->info->key, &k[i], false);
        k[i].out[0] = v->opened + uvcci_at_block(&k[i]);
        k[i].wire_out[0] = span_of(f, 0, k[i].block);
        if (f->d->shift != 0)
            k[i].in[1] = masked_of(f, f->d->b, k[i].role) + uvcci_at_block(&k[i]);
        if (!times(f))
            continue;
        k[i].in[2] = value_of(f, f->d->b)->x + uvcci_at_block(&k[i]);
        k[i].out[1] = v->times + uvcci_at_block(&k[i]);
        k[i].wire_out[1] = span_of(f, 1, k[i].block);
    }
}

/* The nth opening of a table: this party's part plus what came. */
static void open_table(const uvcci_fn_build *f, unsigned nth, uint64_t *words) {
    uint32_t n;
    uvcc_block *k = uvcci_add_blocks(f->b, UVCC_TASK_OPEN_FINISH, (uint16_t)f->i, UVCCI_ROLE_EDGE,
                                     f->elems, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = k[i].out[0] = words + uvcci_at_block(&k[i]);
        k[i].wire_in[0] = came(f, nth, k[i].block);
    }
    hash_opened(f, nth, words, 64);
}

static void finish_table(const uvcci_fn_build *f) {
    uint32_t n;
    uvcci_fn_value *v = value_of(f, f->i);
    if (!take(f, &v->x))
        return;
    open_table(f, 0, v->opened);
    if (times(f))
        open_table(f, 1, v->times);
    uvcc_block *k = blocks_of(f, UVCC_TASK_FN_SCALAR, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = v->opened + uvcci_at_block(&k[i]);
        if (times(f))
            k[i].in[1] = v->times + uvcci_at_block(&k[i]);
        else if (uvcci_fn_is_table_at(f->r, f->d->c))
            k[i].in[1] = value_of(f, f->d->c)->opened + uvcci_at_block(&k[i]);
        else if (f->d->c != UVCC_FN_NONE)
            k[i].in[1] = masked_of(f, f->d->c, k[i].role) + uvcci_at_block(&k[i]);
        if (has_bit(f))
            k[i].in[2] = value_of(f, f->d->b)->x + uvcci_at_block(&k[i]);
        k[i].words[0] = material_of(f, f->i, &k[i], true);
        k[i].out[0] = v->x + uvcci_at_block(&k[i]);
    }
}

static uint8_t lift_of(const uvcci_fn_build *f) {
    return f->d->kind == UVCC_FN_EXCHANGE ? UVCC_LIFT_EXCHANGE : f->r->plan->lift;
}

static void send_lift(const uvcci_fn_build *f) {
    uint32_t n;
    uvcc_shares *out = rss_of(f, f->i);
    if (out == &value_of(f, f->i)->rss && (!take(f, &out->lo) || !take(f, &out->hi)))
        return;
    uvcc_block *k = blocks_of(f, UVCC_TASK_LIFT_MASK, UVCCI_ROLE_EDGE, &n);
    if (n != 0)
        f->r->tasks[f->r->task_count - 1].u.vec.lift = lift_of(f);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = value_of(f, f->d->a)->x + uvcci_at_block(&k[i]);
        k[i].out[0] = out->lo + uvcci_at_block(&k[i]);
        k[i].out[1] = out->hi + uvcci_at_block(&k[i]);
        k[i].wire_out[0] = span_of(f, 0, k[i].block);
    }
}

static void finish_lift(const uvcci_fn_build *f) {
    uint32_t n;
    const uvcc_shares *out = rss_of(f, f->i);
    unsigned roles =
        lift_of(f) == UVCC_LIFT_EXCHANGE ? UVCCI_ROLE_ALL : UVCCI_ROLE_TAIL | UVCCI_ROLE_OTHER;
    uvcc_block *k = blocks_of(f, UVCC_TASK_LIFT_FINISH, roles, &n);
    if (n != 0)
        f->r->tasks[f->r->task_count - 1].u.vec.lift = lift_of(f);
    for (uint32_t i = 0; i < n; i++) {
        k[i].out[0] = out->lo + uvcci_at_block(&k[i]);
        k[i].out[1] = out->hi + uvcci_at_block(&k[i]);
        k[i].wire_in[0] = came(f, 0, k[i].block);
    }
    uvcci_hash_lifted(f->b, id_of(f, 0), f->elems, out);
    if (f->d->kind == UVCC_FN_EXCHANGE)
        build_pads(f);
}

/* ---- local instructions ---- */

static uvcc_task *add_map(const uvcci_fn_build *f, uint8_t op, uint32_t cols, const uint64_t *x,
                          uint64_t *out) {
    uvcc_task *t = uvcci_add_task(f->b, UVCC_TASK_MAP, 0);
    if (t == NULL)
        return NULL;
    t->u.map.op = op;
    t->u.map.rows = uvcci_fn_rows(f->r);
    t->u.map.cols = cols;
    t->u.map.x.lo = (uint64_t *)(uintptr_t)x;
    t->u.map.out.lo = out;
    return t;
}

static void build_shift(const uvcci_fn_build *f) {
    uint32_t n;
    uvcci_fn_value *v = value_of(f, f->i);
    if (!take(f, &v->x))
        return;
    uvcc_block *k = blocks_of(f, UVCC_TASK_FN_SHIFT, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = masked_of(f, f->d->a, k[i].role) + uvcci_at_block(&k[i]);
        k[i].out[0] = v->x + uvcci_at_block(&k[i]);
    }
}

/* Maps take vectors as a whole, across blocks; the op has one edge. */
static void build_linear(const uvcci_fn_build *f) {
    uvcci_fn_value *v = value_of(f, f->i);
    const uint8_t op = uvcci_fn_turns_of(f->d->kind)->map;
    const uint32_t cols = uvcci_fn_linear_cols(f->r, f->i);
    const uint8_t role = (uint8_t)uvcci_role_at(f->s, f->r, 0);
    const bool two = f->d->kind == UVCC_FN_SUB;
    uvcc_task *t;
    if (role == UVCC_OTHER || !take(f, &v->x))
        return;
    t = add_map(f, op, cols, masked_of(f, f->d->a, role), v->x);
    if (t != NULL && two)
        t->u.map.y.lo = (uint64_t *)(uintptr_t)masked_of(f, f->d->b, role);
    if (!f->info->pads || !take(f, &v->p))
        return;
    t = add_map(f, op, cols, value_of(f, f->d->a)->p, v->p);
    if (t != NULL && two)
        t->u.map.y.lo = value_of(f, f->d->b)->p;
}

static void build_mul(const uvcci_fn_build *f) {
    uint32_t n;
    uvcci_fn_value *v = value_of(f, f->i);
    if (!take(f, &v->x))
        return;
    uvcc_block *k = blocks_of(f, UVCC_TASK_FN_MUL, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t operand[2] = {f->d->a, f->d->b};
        for (unsigned o = 0; o < 2; o++) {
            k[i].in[2 * o] = masked_of(f, operand[o], k[i].role) + uvcci_at_block(&k[i]);
            k[i].in[2 * o + 1] = value_of(f, operand[o])->p + uvcci_at_block(&k[i]);
        }
        k[i].words[0] = material_of(f, f->i, &k[i], true);
        k[i].out[0] = v->x + uvcci_at_block(&k[i]);
    }
}

/* TRUNC, and what FLOOR begins with. */
static void build_trunc(const uvcci_fn_build *f) {
    uint32_t n;
    uvcci_fn_value *v = value_of(f, f->i);
    if (!take(f, &v->x))
        return;
    uvcc_block *k = blocks_of(f, UVCC_TASK_FN_TRUNC, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = masked_of(f, f->d->a, k[i].role) + uvcci_at_block(&k[i]);
        k[i].words[0] = material_of(f, f->i, &k[i], true);
        k[i].out[0] = v->x + uvcci_at_block(&k[i]);
    }
}

static void build_floor(const uvcci_fn_build *f) {
    uint32_t n;
    build_trunc(f);
    if (f->b->failed)
        return;
    uvcc_block *k = blocks_of(f, UVCC_TASK_FN_FLOOR, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = masked_of(f, f->d->a, k[i].role) + uvcci_at_block(&k[i]);
        k[i].in[1] = k[i].out[0] = value_of(f, f->i)->x + uvcci_at_block(&k[i]);
        k[i].key = material_of(f, f->i, &k[i], false);
    }
}

static void build_multiscale(const uvcci_fn_build *f) {
    uint32_t n;
    uvcci_fn_value *v = value_of(f, f->i);
    if (!take(f, &v->x))
        return;
    uvcc_block *k = blocks_of(f, UVCC_TASK_FN_MULTISCALE, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = masked_of(f, f->d->a, k[i].role) + uvcci_at_block(&k[i]);
        k[i].key = material_of(f, f->i, &k[i], false);
        k[i].out[0] = v->x + uvcci_at_block(&k[i]);
    }
}

static void build_spline(const uvcci_fn_build *f) {
    uint32_t n;
    uvcci_fn_value *v = value_of(f, f->i);
    if (!take(f, &v->x))
        return;
    uvcc_block *k = blocks_of(f, UVCC_TASK_FN_SPLINE, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = masked_of(f, f->d->a, k[i].role) + uvcci_at_block(&k[i]);
        if (f->d->first != 0)
            k[i].in[1] = value_of(f, f->d->a)->p + uvcci_at_block(&k[i]);
        k[i].key = material_of(f, f->i, &k[i], false);
        k[i].words[0] = material_of(f, f->i, &k[i], true);
        k[i].out[0] = v->x + uvcci_at_block(&k[i]);
    }
}

static void build_best(const uvcci_fn_build *f) {
    uint32_t n;
    uvcci_fn_value *v = value_of(f, f->i);
    if (!take(f, &v->x))
        return;
    uvcc_block *k = blocks_of(f, UVCC_TASK_FN_BEST, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        const size_t at = uvcci_at_block(&k[i]) * UVCCI_FN_QUAD_PAIRS;
        k[i].in[0] = masked_of(f, f->d->b, k[i].role) + at;
        k[i].in[1] = value_of(f, f->d->b)->p + at;
        k[i].in[2] = value_of(f, f->d->a)->x + at;
        k[i].words[0] = material_of(f, f->i, &k[i], true);
        k[i].out[0] = v->x + uvcci_at_block(&k[i]);
    }
}

static void build_index(const uvcci_fn_build *f) {
    uvcci_fn_value *v = value_of(f, f->i);
    if (!take(f, &v->x))
        return;
    /* HEAD's share is the value; an op whose edges differ by block needs it block by block. */
    uvcc_task *t = add_map(f, UVCC_MAP_INDEX, f->info->width, NULL, v->x);
    if (t != NULL)
        t->u.map.party = (uint8_t)uvcci_role_at(f->s, f->r, 0);
}

static void build_select(const uvcci_fn_build *f) {
    uint32_t n;
    uvcci_fn_value *v = value_of(f, f->i);
    if (!take(f, &v->x))
        return;
    const bool select = f->d->kind != UVCC_FN_BITS;
    uvcc_block *k =
        blocks_of(f, select ? UVCC_TASK_FN_SELECT : UVCC_TASK_FN_BITS, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        if (select) {
            k[i].in[0] = masked_of(f, f->d->b, k[i].role) + uvcci_at_block(&k[i]);
            k[i].in[1] = value_of(f, f->d->b)->p + uvcci_at_block(&k[i]);
            k[i].words[1] = material_of(f, f->i, &k[i], true);
        }
        if (f->d->kind == UVCC_FN_SELECT_MUL)
            k[i].in[3] = value_of(f, f->d->c)->x + uvcci_at_block(&k[i]);
        k[i].in[2] = value_of(f, f->d->a)->x + uvcci_at_block(&k[i]);
        k[i].words[0] = material_of(f, f->d->a, &k[i], true);
        k[i].out[0] = v->x + uvcci_at_block(&k[i]);
    }
}

static void build_add(const uvcci_fn_build *f) {
    uint32_t n;
    uvcci_fn_value *v = value_of(f, f->i);
    if (!take(f, &v->x))
        return;
    uvcc_block *k = blocks_of(f, UVCC_TASK_FN_ADD, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = value_of(f, f->d->a)->x + uvcci_at_block(&k[i]);
        k[i].out[0] = v->x + uvcci_at_block(&k[i]);
        if (f->d->b == UVCC_FN_NONE)
            continue;
        if (f->r->plan->fn->instr[f->d->b].value == 'A') {
            k[i].in[1] = value_of(f, f->d->b)->x + uvcci_at_block(&k[i]);
        } else {
            k[i].in[1] = masked_of(f, f->d->b, k[i].role) + uvcci_at_block(&k[i]);
            k[i].in[2] = value_of(f, f->d->b)->p + uvcci_at_block(&k[i]);
        }
    }
}

/* ---- kinds ---- */

static const uvcci_fn_turns kinds[] = {
    [UVCC_FN_OPEN] = {.start = send_open, .finish = finish_open, .deal = uvcci_fn_deal_pads},
    [UVCC_FN_SHIFT] = {.start = build_shift, .deal = uvcci_fn_deal_shift},
    [UVCC_FN_PAIR_DIFF] = {.start = build_linear,
                           .deal = uvcci_fn_deal_linear,
                           .map = UVCC_MAP_PAIR_DIFF},
    [UVCC_FN_PAIR_SECOND] = {.start = build_linear,
                             .deal = uvcci_fn_deal_linear,
                             .map = UVCC_MAP_PAIR_SECOND},
    [UVCC_FN_COMPARE] = {.start = send_compare,
                         .finish = finish_compare,
                         .deal = uvcci_fn_deal_compare,
                         .key_task = UVCC_TASK_FN_DEAL_KEY},
    [UVCC_FN_TABLE] = {.start = send_table,
                       .finish = finish_table,
                       .deal = uvcci_fn_deal_table,
                       .key_task = UVCC_TASK_FN_DEAL_KEY},
    [UVCC_FN_SELECT] = {.start = build_select, .deal = uvcci_fn_deal_select},
    [UVCC_FN_BITS] = {.start = build_select},
    [UVCC_FN_ADD] = {.start = build_add},
    [UVCC_FN_INDEX] = {.start = build_index},
    [UVCC_FN_EXCHANGE] = {.start = send_lift, .finish = finish_lift, .deal = uvcci_fn_deal_pads},
    [UVCC_FN_LIFT] = {.start = send_lift, .finish = finish_lift},
    [UVCC_FN_QUAD_DIFF] = {.start = build_linear,
                           .deal = uvcci_fn_deal_linear,
                           .map = UVCC_MAP_QUAD_DIFF},
    [UVCC_FN_QUAD_LAST] = {.start = build_linear,
                           .deal = uvcci_fn_deal_linear,
                           .map = UVCC_MAP_QUAD_LAST},
    [UVCC_FN_QUAD_BEST] = {.start = build_best, .deal = uvcci_fn_deal_best},
    [UVCC_FN_SPREAD] = {.start = build_linear,
                        .deal = uvcci_fn_deal_linear,
                        .map = UVCC_MAP_SPREAD},
    [UVCC_FN_SUB] = {.start = build_linear, .deal = uvcci_fn_deal_linear, .map = UVCC_MAP_SUB},
    [UVCC_FN_ROW_SUM] = {.start = build_linear,
                         .deal = uvcci_fn_deal_linear,
                         .map = UVCC_MAP_SUM_COLS},
    [UVCC_FN_MUL] = {.start = build_mul, .deal = uvcci_fn_deal_mul},
    [UVCC_FN_TRUNC] = {.start = build_trunc, .deal = uvcci_fn_deal_trunc},
    [UVCC_FN_MULTISCALE] = {.start = build_multiscale,
                            .deal = uvcci_fn_deal_key,
                            .key_task = UVCC_TASK_FN_DEAL_MULTISCALE},
    [UVCC_FN_FLOOR] = {.start = build_floor,
                       .deal = uvcci_fn_deal_floor,
                       .key_task = UVCC_TASK_FN_DEAL_FLOOR},
    [UVCC_FN_SPLINE] = {.start = build_spline,
                        .deal = uvcci_fn_deal_spline,
                        .key_task = UVCC_TASK_FN_DEAL_SPLINE},
    [UVCC_FN_LOW] = {.start = build_shift, .deal = uvcci_fn_deal_shift},
    [UVCC_FN_TABLE_MUL] = {.start = send_table,
                           .finish = finish_table,
                           .deal = uvcci_fn_deal_table,
                           .key_task = UVCC_TASK_FN_DEAL_KEY},
    [UVCC_FN_SELECT_MUL] = {.start = build_select, .deal = uvcci_fn_deal_select},
};
_Static_assert(sizeof kinds / sizeof *kinds == UVCC_FN_KIND_END, "a row for every kind");

const uvcci_fn_turns *uvcci_fn_turns_of(uint8_t kind) {
    assert(kind < UVCC_FN_KIND_END && kinds[kind].start != NULL);
    assert((uvcci_fn_class_of(kind)->sends != NULL) == (kinds[kind].finish != NULL));
    assert((uvcci_fn_class_of(kind)->key_bytes != NULL) == (kinds[kind].key_task != 0));
    return &kinds[kind];
}

/* ---- turns ---- */

static void give(uvcc_session *s, uint64_t **p, uint64_t elems) {
    uvcci_arena_give(&s->tensors, *p, elems * 8);
    *p = NULL;
}

static void free_opened(uvcc_session *s, uvcci_instance *r, unsigned instr) {
    const uvcc_fn_instr *d = &r->plan->function->instrs[instr];
    uvcci_fn_value *v = &uvcci_fn_state_of(r)->values[instr];
    size_t bits = d->kind == UVCC_FN_OPEN ? d->bits : d->word_count;
    size_t bytes = (size_t)uvcci_blocks(uvcci_fn_elems(r, instr)) * UVCC_BLOCK_ELEMS / 8 * bits;
    give(s, &v->opened, uvcci_fn_elems(r, instr));
    give(s, &v->times, uvcci_fn_elems(r, instr));
    uvcci_arena_give(&s->tensors, v->packed, bytes);
    v->packed = NULL;
}

static void free_value(uvcc_session *s, uvcci_instance *r, unsigned instr) {
    uvcci_fn_value *v = &uvcci_fn_state_of(r)->values[instr];
    uint64_t elems = uvcci_fn_elems(r, instr);
    free_opened(s, r, instr);
    give(s, &v->x, elems);
    give(s, &v->p, elems);
    give(s, &v->rss.lo, elems);
    give(s, &v->rss.hi, elems);
}

void uvcci_function_free(uvcc_session *s, uvcci_instance *r) {
    for (unsigned i = 0; uvcci_fn_state_of(r)->values != NULL && i < r->plan->function->instr_count;
         i++)
        free_value(s, r, i);
    uvcci_fn_state_of(r)->values = NULL;
}

/* What earlier turns, whose jobs are done, read last. */
static void free_past(uvcc_session *s, uvcci_instance *r) {
    for (unsigned i = 0; i < r->plan->function->instr_count; i++) {
        const uvcci_fn_info *info = &r->plan->fn->instr[i];
        if (info->sends && info->turn + 1u < r->turn)
            free_opened(s, r, i);
        if (info->last < r->turn && info->turn + 1u < r->turn)
            free_value(s, r, i);
    }
}

/* The present turn: instructions in their order, those that begin in it and those whose round came
 * back; what a later one of the same turn reads is made by an earlier task. */
bool uvcci_function_build(uvcci_builder *b) {
    uvcc_session *s = b->s;
    uvcci_instance *r = b->r;
    const uvcci_plan *p = r->plan;
    const uvcc_function *fn = p->function;
    assert(fn != NULL && p->fn != NULL && r->turn <= p->turns);
    if (r->turn == 0) {
        uvcci_fn_state_of(r)->values =
            uvcci_bump_take(&r->bump, fn->instr_count * sizeof *uvcci_fn_state_of(r)->values);
        if (!uvcci_ensure_outputs(b))
            return false;
        for (unsigned i = 0; i < r->op->desc.out_count; i++)
            uvcci_fn_state_of(r)->out[i] = uvcci_part_of(b, r->op->desc.out[i]);
    }
    if (uvcci_fn_state_of(r)->values == NULL)
        return false;
    free_past(s, r);
    if (r->turn == 1 && p->key_count != 0 && !uvcci_build_keys(b))
        return false;
    for (unsigned i = 0; i < fn->instr_count && !b->failed; i++) {
        const uvcci_fn_build f = {.b = b,
                                  .s = s,
                                  .r = r,
                                  .i = i,
                                  .d = &fn->instrs[i],
                                  .info = &p->fn->instr[i],
                                  .elems = uvcci_fn_elems(r, i)};
        if (f.info->turn == r->turn)
            uvcci_fn_turns_of(f.d->kind)->start(&f);
        else if (f.info->sends && f.info->turn + 1u == r->turn)
            uvcci_fn_turns_of(f.d->kind)->finish(&f);
    }
    uvcci_hash_payloads(b);
    uvcci_end_hashes(b);
    return !b->failed;
}

/* ---- the deal ---- */

enum { INSTR_DEAL_TASKS = 3 }; /* that an instruction becomes at most */

uint32_t uvcci_function_deal_tasks(const uvcci_instance *r) {
    return (uint32_t)INSTR_DEAL_TASKS * r->plan->function->instr_count;
}

/* The parts ask for the row of the instruction at hand in d, since the table is above them. */
static void deal_instr(uvcci_fn_deal *d, unsigned i) {
    const uvcc_fn_instr *s = &d->r->plan->function->instrs[i];
    d->turns = uvcci_fn_turns_of(s->kind);
    if (d->turns->deal != NULL)
        d->turns->deal(d, i, s);
    assert(d->count <= INSTR_DEAL_TASKS * (i + 1));
}

int uvcci_function_deal(uvcc_session *s, uvcci_instance *r, uint8_t ***keys, uvcc_task *tasks,
                        uint32_t *count) {
    uvcci_fn_deal d = {.s = s, .r = r, .keys = {keys[0], keys[1]}, .tasks = tasks};
    if (!uvcci_fn_deal_room(&d))
        return UVCC_ERR_NOMEM;
    for (unsigned i = 0; i < r->plan->function->instr_count && !d.failed; i++)
        deal_instr(&d, i);
    *count = d.count;
    return d.failed ? UVCC_ERR_NOMEM : 0;
}
