/* op_functions.c - FUNCTION ops in a session: the stages of HEAD and TAIL, and what OTHER deals.
 *
 * Both follow the function's steps in their order. A step that sends is taken up twice: in its
 * stage it masks and fills its round's messages, in the next it finishes from what came. At OTHER
 * the steps are followed once, ahead of time, on masks instead of values. */
#include "build.h"

#include <string.h>

/* ---- what is where ---- */

/* One step under construction. */
typedef struct fn_step {
    uvcci_builder *b;
    uvcc_session *s;
    uvcci_instance *r;
    unsigned i;
    const uvcc_fn_instr *d;
    const uvcci_fn_info *info;
    uint64_t elems; /* of its value */
} fn_step;

static uint64_t elems_of(const uvcci_instance *r, unsigned step) {
    const uvcci_plan *p = r->plan;
    return p->elems / p->fn->step[0].width * p->fn->step[step].width;
}

static uint32_t rows_of(const uvcci_instance *r) {
    return (uint32_t)(r->plan->elems / r->plan->fn->step[0].width);
}

static bool is_table(const uvcci_instance *r, uint8_t step) {
    return step != UVCC_FN_NONE && r->plan->function->steps[step].kind == UVCC_FN_TABLE;
}

/* The arguments of a step's task. */
static uvcc_fn_args *args_of(uvcci_bump *bump, const uvcci_instance *r, unsigned i, uint16_t kind) {
    const uvcc_fn_instr *d = &r->plan->function->steps[i];
    uvcc_fn_args *a = uvcci_bump_take(bump, sizeof *a);
    if (a == NULL)
        return NULL;
    bool scaled = d->kind == UVCC_FN_TABLE && d->shift != 0;
    *a = (uvcc_fn_args){.bits = d->bits,
                        .shift = d->shift,
                        .exchange = d->kind == UVCC_FN_EXCHANGE,
                        .times = d->kind == UVCC_FN_TABLE && d->b != UVCC_FN_NONE && !scaled,
                        .by_table = is_table(r, d->c),
                        .call_key = r->plan->fn->step[i].key,
                        .call_bits = d->kind == UVCC_FN_TABLE_MUL ? d->c : d->a,
                        .first = d->first,
                        .constant = d->constant,
                        .entry_count = d->entry_count,
                        .word_count = d->word_count,
                        .entries = d->entries,
                        .words = d->words};
    if (kind == UVCC_TASK_FN_OPEN_BITS)
        a->bits = (uint8_t)d->word_count;
    else if (kind == UVCC_TASK_FN_SHIFT && d->kind == UVCC_FN_SHIFT)
        a->bits = r->plan->fn->step[d->a].mod;
    return a;
}

/* Blocks of a task of this step; its arguments are the step's. */
static uvcc_block *blocks_of(const fn_step *f, uint16_t kind, unsigned roles, uint32_t *n) {
    uvcc_block *k = uvcci_add_blocks(f->b, kind, (uint16_t)f->i, roles, f->elems, n);
    if (k == NULL)
        return NULL;
    uvcc_fn_args *a = args_of(&f->r->bump, f->r, f->i, kind);
    if (a == NULL) {
        f->b->failed = true;
        *n = 0;
        return NULL;
    }
    f->r->tasks[f->r->task_count - 1].u.vec.fn = a;
    return k;
}

static bool take(const fn_step *f, uint64_t **p) {
    if (*p == NULL)
        *p = uvcci_arena_take(&f->s->tensors, f->elems * 8);
    f->b->failed |= *p == NULL;
    return *p != NULL;
}

static uvcci_fn_value *value_of(const fn_step *f, unsigned step) {
    return &f->r->values[step];
}

/* Both components of what an EXCHANGE or LIFT gives. */
static uvcc_shares *rss_of(const fn_step *f, unsigned step) {
    const uvcc_fn_instr *d = &f->r->plan->function->steps[step];
    return d->io == UVCC_FN_NONE ? &value_of(f, step)->rss
                                 : uvcci_shares_of(f->s, f->r->op->desc.out[d->io]);
}

/* xh of an M value in the blocks where this party has `role`. */
static const uint64_t *masked_of(const fn_step *f, unsigned step, uint8_t role) {
    if (f->r->plan->function->steps[step].kind != UVCC_FN_EXCHANGE)
        return value_of(f, step)->x;
    const uvcc_shares *rss = rss_of(f, step);
    return role == UVCC_HEAD ? rss->hi : rss->lo;
}

/* The round that the step sends, its index, and where this stage fills it. */
static uint8_t *hole_of(const fn_step *f, unsigned nth, uint32_t block) {
    unsigned vec;
    const uvcci_plan_round *round = uvcci_plan_sent_by(f->r->plan, f->i, &vec);
    for (unsigned k = 0; k < UVCCI_TURN_ROUNDS; k++)
        if (f->r->out[k].round == round)
            return f->r->out[k].hole[vec + nth][0][block];
    return NULL;
}

static const uint8_t *came(const fn_step *f, unsigned nth, uint32_t block) {
    unsigned vec;
    const uvcci_plan_round *round = uvcci_plan_sent_by(f->r->plan, f->i, &vec);
    return uvcci_rx_at(f->r, (unsigned)(round - f->r->plan->rounds), vec + nth, 0, block);
}

static uint8_t id_of(const fn_step *f, unsigned nth) {
    unsigned vec;
    return uvcci_plan_sent_by(f->r->plan, f->i, &vec)->vec[vec + nth].id;
}

/* This party's part of a step's material in the key stream of a block: its CW, or (TAIL) its words.
 */
static const uint8_t *material_of(const fn_step *f, unsigned step, const uvcc_block *k,
                                  bool words) {
    const uvcci_plan *p = f->r->plan;
    const uvcci_plan_round *round = uvcci_plan_keys_of(p, step);
    uint32_t cw_at, words_at;
    uvcci_plan_key_at(p, step, k->count, &cw_at, &words_at);
    const uint8_t *stream =
        uvcci_key_of(f->r, (unsigned)(round - p->rounds) - p->round_count, k->block);
    if (words)
        return k->role == UVCC_TAIL ? stream + words_at : NULL;
    return stream + cw_at;
}

/* ---- rounds ---- */

/* Opened bits as they are hashed. */
static uint8_t *packed_at(const fn_step *f, unsigned bits, uint32_t block) {
    uvcci_fn_value *v = value_of(f, f->i);
    if (!uvcci_audit_on(f->s))
        return NULL;
    if (v->packed == NULL)
        v->packed = uvcci_arena_take(&f->s->tensors,
                                     (size_t)uvcci_blocks(f->elems) * UVCC_BLOCK_ELEMS / 8 * bits);
    f->b->failed |= v->packed == NULL;
    return v->packed != NULL ? v->packed + (size_t)block * UVCC_BLOCK_ELEMS / 8 * bits : NULL;
}

static void hash_opened(const fn_step *f, unsigned nth, const uint64_t *words, unsigned bits) {
    const uint8_t *data = bits == 64 ? (const uint8_t *)words : value_of(f, f->i)->packed;
    if (data != NULL)
        uvcci_hash_opened(f->b, id_of(f, nth), f->info->stage, f->elems, data,
                          (size_t)UVCC_BLOCK_ELEMS / 8 * bits, bits);
}

/* This party's part of the mask of an opened or exchanged value. */
static void build_pads(const fn_step *f) {
    uint32_t n;
    uvcci_fn_value *v = value_of(f, f->i);
    if (!f->info->pads || !take(f, &v->p))
        return;
    uvcc_block *k = blocks_of(f, UVCC_TASK_FN_PADS, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++)
        k[i].out[0] = v->p + uvcci_at_block(&k[i]);
}

static void send_open(const fn_step *f) {
    uint32_t n;
    uvcci_fn_value *v = value_of(f, f->i);
    const uvcc_shares *in = uvcci_shares_of(f->s, f->r->op->desc.in[f->d->io]);
    if (!take(f, &v->x))
        return;
    uvcc_block *k = blocks_of(f, UVCC_TASK_FN_OPEN_MASK, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = in->lo + uvcci_at_block(&k[i]);
        k[i].in[1] = in->hi + uvcci_at_block(&k[i]);
        k[i].out[0] = v->x + uvcci_at_block(&k[i]);
        k[i].wire_out[0] = hole_of(f, 0, k[i].block);
    }
}

static void finish_open(const fn_step *f) {
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

static void send_compare(const fn_step *f) {
    uint32_t n;
    uvcci_fn_value *v = value_of(f, f->i);
    if (!take(f, &v->x))
        return;
    uvcc_block *k = blocks_of(f, UVCC_TASK_FN_COMPARE, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = masked_of(f, f->d->a, k[i].role) + uvcci_at_block(&k[i]);
        k[i].key = material_of(f, f->info->key, &k[i], false);
        k[i].out[0] = v->x + uvcci_at_block(&k[i]);
        k[i].wire_out[0] = hole_of(f, 0, k[i].block);
    }
}

static void finish_compare(const fn_step *f) {
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
static bool times(const fn_step *f) {
    return f->d->kind == UVCC_FN_TABLE && f->d->b != UVCC_FN_NONE && f->d->shift == 0;
}

static bool has_bit(const fn_step *f) {
    return f->d->kind == UVCC_FN_TABLE_MUL && f->d->b != UVCC_FN_NONE;
}

static void send_table(const fn_step *f) {
    uint32_t n;
    uvcci_fn_value *v = value_of(f, f->i);
    if (!take(f, &v->opened) || (times(f) && !take(f, &v->times)))
        return;
    uvcc_block *k = blocks_of(f, UVCC_TASK_FN_TABLE, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = masked_of(f, f->d->a, k[i].role) + uvcci_at_block(&k[i]);
        k[i].key = material_of(f, f->info->key, &k[i], false);
        k[i].out[0] = v->opened + uvcci_at_block(&k[i]);
        k[i].wire_out[0] = hole_of(f, 0, k[i].block);
        if (f->d->shift != 0)
            k[i].in[1] = masked_of(f, f->d->b, k[i].role) + uvcci_at_block(&k[i]);
        if (!times(f))
            continue;
        k[i].in[2] = value_of(f, f->d->b)->x + uvcci_at_block(&k[i]);
        k[i].out[1] = v->times + uvcci_at_block(&k[i]);
        k[i].wire_out[1] = hole_of(f, 1, k[i].block);
    }
}

/* The nth opening of a table: this party's part plus what came. */
static void open_table(const fn_step *f, unsigned nth, uint64_t *words) {
    uint32_t n;
    uvcc_block *k = uvcci_add_blocks(f->b, UVCC_TASK_OPEN_FINISH, (uint16_t)f->i, UVCCI_ROLE_EDGE,
                                     f->elems, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = k[i].out[0] = words + uvcci_at_block(&k[i]);
        k[i].wire_in[0] = came(f, nth, k[i].block);
    }
    hash_opened(f, nth, words, 64);
}

static void finish_table(const fn_step *f) {
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
        else if (is_table(f->r, f->d->c))
            k[i].in[1] = value_of(f, f->d->c)->opened + uvcci_at_block(&k[i]);
        else if (f->d->c != UVCC_FN_NONE)
            k[i].in[1] = masked_of(f, f->d->c, k[i].role) + uvcci_at_block(&k[i]);
        if (has_bit(f))
            k[i].in[2] = value_of(f, f->d->b)->x + uvcci_at_block(&k[i]);
        k[i].words[0] = material_of(f, f->i, &k[i], true);
        k[i].out[0] = v->x + uvcci_at_block(&k[i]);
    }
}

static uint8_t lift_of(const fn_step *f) {
    return f->d->kind == UVCC_FN_EXCHANGE ? UVCC_LIFT_EXCHANGE : f->r->plan->lift;
}

static void send_lift(const fn_step *f) {
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
        k[i].wire_out[0] = hole_of(f, 0, k[i].block);
    }
}

static void finish_lift(const fn_step *f) {
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

/* ---- local steps ---- */

static uvcc_task *add_map(const fn_step *f, uint8_t op, uint32_t cols, const uint64_t *x,
                          uint64_t *out) {
    uvcc_task *t = uvcci_add_task(f->b, UVCC_TASK_MAP, 0);
    if (t == NULL)
        return NULL;
    t->u.map.op = op;
    t->u.map.rows = rows_of(f->r);
    t->u.map.cols = cols;
    t->u.map.x.lo = (uint64_t *)(uintptr_t)x;
    t->u.map.out.lo = out;
    return t;
}

static void build_shift(const fn_step *f) {
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

/* The map of a public linear step. */
static uint8_t linear_map(const uvcc_fn_instr *d) {
    static const uint8_t maps[UVCC_FN_KIND_END] = {
        [UVCC_FN_PAIR_DIFF] = UVCC_MAP_PAIR_DIFF, [UVCC_FN_PAIR_SECOND] = UVCC_MAP_PAIR_SECOND,
        [UVCC_FN_QUAD_DIFF] = UVCC_MAP_QUAD_DIFF, [UVCC_FN_QUAD_LAST] = UVCC_MAP_QUAD_LAST,
        [UVCC_FN_SPREAD] = UVCC_MAP_SPREAD,       [UVCC_FN_SUB] = UVCC_MAP_SUB,
        [UVCC_FN_ROW_SUM] = UVCC_MAP_SUM_COLS};
    return maps[d->kind];
}

/* The columns that its map counts: those of its operand, but of its value where that is wider. */
static uint32_t linear_cols(const uvcci_instance *r, unsigned i) {
    const uvcc_fn_instr *d = &r->plan->function->steps[i];
    return r->plan->fn->step[d->kind == UVCC_FN_SPREAD ? i : d->a].width;
}

/* Maps take vectors as a whole, across blocks; the op has one edge. */
static void build_linear(const fn_step *f) {
    uvcci_fn_value *v = value_of(f, f->i);
    const uint8_t op = linear_map(f->d);
    const uint32_t cols = linear_cols(f->r, f->i);
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

static void build_mul(const fn_step *f) {
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
static void build_trunc(const fn_step *f) {
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

static void build_floor(const fn_step *f) {
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

static void build_multiscale(const fn_step *f) {
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

static void build_spline(const fn_step *f) {
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

static void build_best(const fn_step *f) {
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

static void build_index(const fn_step *f) {
    uvcci_fn_value *v = value_of(f, f->i);
    if (!take(f, &v->x))
        return;
    /* HEAD's share is the value; an op whose edges differ by block needs it block by block. */
    uvcc_task *t = add_map(f, UVCC_MAP_INDEX, f->info->width, NULL, v->x);
    if (t != NULL)
        t->u.map.party = (uint8_t)uvcci_role_at(f->s, f->r, 0);
}

static void build_select(const fn_step *f) {
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

static void build_add(const fn_step *f) {
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
        if (f->r->plan->fn->step[f->d->b].value == 'A') {
            k[i].in[1] = value_of(f, f->d->b)->x + uvcci_at_block(&k[i]);
        } else {
            k[i].in[1] = masked_of(f, f->d->b, k[i].role) + uvcci_at_block(&k[i]);
            k[i].in[2] = value_of(f, f->d->b)->p + uvcci_at_block(&k[i]);
        }
    }
}

/* ---- stages ---- */

typedef void (*step_builder)(const fn_step *f);
/* What a step does in its stage, and, where it sends, in the next. */
static const struct {
    step_builder start, finish;
} builders[UVCC_FN_KIND_END] = {
    [UVCC_FN_OPEN] = {send_open, finish_open},
    [UVCC_FN_SHIFT] = {build_shift, NULL},
    [UVCC_FN_PAIR_DIFF] = {build_linear, NULL},
    [UVCC_FN_PAIR_SECOND] = {build_linear, NULL},
    [UVCC_FN_QUAD_DIFF] = {build_linear, NULL},
    [UVCC_FN_QUAD_LAST] = {build_linear, NULL},
    [UVCC_FN_QUAD_BEST] = {build_best, NULL},
    [UVCC_FN_SPREAD] = {build_linear, NULL},
    [UVCC_FN_SUB] = {build_linear, NULL},
    [UVCC_FN_ROW_SUM] = {build_linear, NULL},
    [UVCC_FN_MUL] = {build_mul, NULL},
    [UVCC_FN_TRUNC] = {build_trunc, NULL},
    [UVCC_FN_MULTISCALE] = {build_multiscale, NULL},
    [UVCC_FN_FLOOR] = {build_floor, NULL},
    [UVCC_FN_SPLINE] = {build_spline, NULL},
    [UVCC_FN_COMPARE] = {send_compare, finish_compare},
    [UVCC_FN_TABLE] = {send_table, finish_table},
    [UVCC_FN_TABLE_MUL] = {send_table, finish_table},
    [UVCC_FN_LOW] = {build_shift, NULL},
    [UVCC_FN_SELECT] = {build_select, NULL},
    [UVCC_FN_SELECT_MUL] = {build_select, NULL},
    [UVCC_FN_BITS] = {build_select, NULL},
    [UVCC_FN_ADD] = {build_add, NULL},
    [UVCC_FN_INDEX] = {build_index, NULL},
    [UVCC_FN_EXCHANGE] = {send_lift, finish_lift},
    [UVCC_FN_LIFT] = {send_lift, finish_lift},
};

static void give(uvcc_session *s, uint64_t **p, uint64_t elems) {
    uvcci_arena_give(&s->tensors, *p, elems * 8);
    *p = NULL;
}

static void free_opened(uvcc_session *s, uvcci_instance *r, unsigned step) {
    const uvcc_fn_instr *d = &r->plan->function->steps[step];
    uvcci_fn_value *v = &r->values[step];
    size_t bits = d->kind == UVCC_FN_OPEN ? d->bits : d->word_count;
    size_t bytes = (size_t)uvcci_blocks(elems_of(r, step)) * UVCC_BLOCK_ELEMS / 8 * bits;
    give(s, &v->opened, elems_of(r, step));
    give(s, &v->times, elems_of(r, step));
    uvcci_arena_give(&s->tensors, v->packed, bytes);
    v->packed = NULL;
}

static void free_value(uvcc_session *s, uvcci_instance *r, unsigned step) {
    uvcci_fn_value *v = &r->values[step];
    uint64_t elems = elems_of(r, step);
    free_opened(s, r, step);
    give(s, &v->x, elems);
    give(s, &v->p, elems);
    give(s, &v->rss.lo, elems);
    give(s, &v->rss.hi, elems);
}

void uvcci_function_free(uvcc_session *s, uvcci_instance *r) {
    for (unsigned i = 0; r->values != NULL && i < r->plan->function->step_count; i++)
        free_value(s, r, i);
    r->values = NULL;
}

/* What earlier stages, whose jobs are done, read last. */
static void free_past(uvcc_session *s, uvcci_instance *r) {
    for (unsigned i = 0; i < r->plan->function->step_count; i++) {
        const uvcci_fn_info *info = &r->plan->fn->step[i];
        if (info->sends && info->stage + 1u < r->stage)
            free_opened(s, r, i);
        if (info->last < r->stage && info->stage + 1u < r->stage)
            free_value(s, r, i);
    }
}

bool uvcci_function_build(uvcci_builder *b) {
    uvcc_session *s = b->s;
    uvcci_instance *r = b->r;
    const uvcci_plan *p = r->plan;
    const uvcc_function *fn = p->function;
    if (r->stage == 0) {
        r->values = uvcci_bump_take(&r->bump, fn->step_count * sizeof *r->values);
        for (unsigned i = 0; i < r->op->desc.out_count; i++)
            if (!uvcci_ensure_buffer(s, r->op->desc.out[i]))
                return false;
    }
    if (r->values == NULL)
        return false;
    free_past(s, r);
    if (r->stage == 1 && p->key_count != 0 && !uvcci_build_keys(b))
        return false;
    for (unsigned i = 0; i < fn->step_count && !b->failed; i++) {
        const fn_step f = {.b = b,
                           .s = s,
                           .r = r,
                           .i = i,
                           .d = &fn->steps[i],
                           .info = &p->fn->step[i],
                           .elems = elems_of(r, i)};
        if (f.info->stage == r->stage)
            builders[f.d->kind].start(&f);
        else if (f.info->sends && f.info->stage + 1u == r->stage)
            builders[f.d->kind].finish(&f);
    }
    uvcci_hash_payloads(b);
    uvcci_end_hashes(b);
    return !b->failed;
}

/* ---- dealing ---- */

/* A deal under construction: what OTHER knows of each step's value. */
typedef struct fn_deal {
    uvcc_session *s;
    uvcci_instance *r;
    uint8_t **keys[2]; /* [HEAD, TAIL][blocks of all rounds of keys, one after the other] */
    uint64_t **word;   /* [step]: M: r; B: k; of a step that owns a key: ... */
    uint64_t **sign;   /* ... the leaf's sign */
    uvcc_task *tasks;
    uint32_t count;
    bool failed;
} fn_deal;

static bool signs_wanted(const uvcci_instance *r, unsigned owner) {
    for (unsigned i = 0; i < r->plan->function->step_count; i++)
        if (uvcci_fn_is_table(r->plan->function->steps[i].kind) &&
            r->plan->fn->step[i].key == owner)
            return true;
    return false;
}

static bool owns_key(const uvcci_instance *r, unsigned step) {
    return uvcci_fn_owns_key(r->plan->function, r->plan->fn, step);
}

uint32_t uvcci_function_deal_tasks(const uvcci_instance *r) {
    return 3u * r->plan->function->step_count;
}

/* A task of step i over the blocks that this party deals. */
static uvcc_block *deal_blocks(fn_deal *d, uint16_t kind, unsigned i, uint32_t *n) {
    uvcci_instance *r = d->r;
    const uint64_t elems = elems_of(r, i);
    *n = 0;
    uvcc_block *k = uvcci_bump_take(&r->deal_bump, uvcci_blocks(elems) * sizeof *k);
    uvcc_fn_args *a = args_of(&r->deal_bump, r, i, kind);
    d->failed |= k == NULL || a == NULL;
    if (d->failed)
        return NULL;
    for (uint32_t b = 0; b < uvcci_blocks(elems); b++)
        if (uvcci_role_at(d->s, r, b) == UVCCI_OTHER)
            k[(*n)++] =
                (uvcc_block){.block = b, .count = uvcci_block_count(elems, b), .role = UVCC_OTHER};
    uvcc_task *t = &d->tasks[d->count++];
    *t = (uvcc_task){
        .kind = kind, .ordinal = r->ordinal, .call = (uint16_t)i, .keys = &r->step->keys};
    t->u.vec.blocks = k;
    t->u.vec.count = *n;
    t->u.vec.fn = a;
    return k;
}

/* Where step i's CW (words: TAIL's words) of a block goes. */
static uint8_t *deal_at(const fn_deal *d, unsigned i, const uvcc_block *k, unsigned tail,
                        bool words) {
    const uvcci_plan *p = d->r->plan;
    const uvcci_plan_round *round = uvcci_plan_keys_of(p, i);
    uint32_t at = k->block, cw_at, words_at;
    for (const uvcci_plan_round *q = p->rounds + p->round_count; q != round; q++)
        at += q->blocks;
    uvcci_plan_key_at(p, i, k->count, &cw_at, &words_at);
    return d->keys[tail][at] + (words ? words_at : cw_at);
}

static uint16_t key_task(uint8_t kind) {
    switch (kind) {
    case UVCC_FN_MULTISCALE:
        return UVCC_TASK_FN_DEAL_MULTISCALE;
    case UVCC_FN_FLOOR:
        return UVCC_TASK_FN_DEAL_FLOOR;
    case UVCC_FN_SPLINE:
        return UVCC_TASK_FN_DEAL_SPLINE;
    default:
        return UVCC_TASK_FN_DEAL_KEY;
    }
}

static void deal_key(fn_deal *d, unsigned i, unsigned operand) {
    uint32_t n;
    if (!owns_key(d->r, i))
        return;
    uvcc_block *k = deal_blocks(d, key_task(d->r->plan->function->steps[i].kind), i, &n);
    for (uint32_t j = 0; j < n; j++) {
        k[j].in[0] = d->word[operand] + uvcci_at_block(&k[j]);
        for (unsigned tail = 0; tail < 2; tail++)
            k[j].out_bytes[tail] = deal_at(d, i, &k[j], tail, false);
        if (d->sign[i] != NULL)
            k[j].out[0] = d->sign[i] + uvcci_at_block(&k[j]);
    }
}

static void deal_shift(fn_deal *d, unsigned i, const uvcc_fn_instr *s) {
    uint32_t n;
    uvcc_block *k = deal_blocks(d, UVCC_TASK_FN_SHIFT, i, &n);
    for (uint32_t j = 0; j < n; j++) {
        k[j].in[0] = d->word[s->a] + uvcci_at_block(&k[j]);
        k[j].out[0] = d->word[i] + uvcci_at_block(&k[j]);
    }
}

static void deal_linear(fn_deal *d, unsigned i, const uvcc_fn_instr *s) {
    uvcc_task *t = &d->tasks[d->count++];
    *t = (uvcc_task){.kind = UVCC_TASK_MAP};
    t->u.map.op = linear_map(s);
    t->u.map.rows = rows_of(d->r);
    t->u.map.cols = linear_cols(d->r, i);
    t->u.map.x.lo = d->word[s->a];
    if (s->kind == UVCC_FN_SUB)
        t->u.map.y.lo = d->word[s->b];
    t->u.map.out.lo = d->word[i];
}

static void deal_best(fn_deal *d, unsigned i, const uvcc_fn_instr *s) {
    uint32_t n;
    uvcc_block *k = deal_blocks(d, UVCC_TASK_FN_DEAL_BEST, i, &n);
    for (uint32_t j = 0; j < n; j++) {
        const size_t at = uvcci_at_block(&k[j]) * UVCCI_FN_QUAD_PAIRS;
        k[j].in[0] = d->word[s->a] + at;
        k[j].in[1] = d->word[s->b] + at;
        k[j].out_words = deal_at(d, i, &k[j], 1, true);
    }
}

static void deal_pads(fn_deal *d, unsigned i) {
    uint32_t n;
    uvcc_block *k = deal_blocks(d, UVCC_TASK_FN_PADS, i, &n);
    for (uint32_t j = 0; j < n; j++)
        k[j].out[0] = d->word[i] + uvcci_at_block(&k[j]);
}

static void deal_words(fn_deal *d, unsigned i, uint16_t kind, const uint64_t *x, const uint64_t *y,
                       uint64_t *out) {
    uint32_t n;
    uvcc_block *k = deal_blocks(d, kind, i, &n);
    for (uint32_t j = 0; j < n; j++) {
        k[j].in[0] = x + uvcci_at_block(&k[j]);
        if (y != NULL)
            k[j].in[1] = y + uvcci_at_block(&k[j]);
        if (out != NULL)
            k[j].out[0] = out + uvcci_at_block(&k[j]);
        k[j].out_words = deal_at(d, i, &k[j], 1, true);
    }
}

static void deal_select(fn_deal *d, unsigned i, const uvcc_fn_instr *s) {
    uint32_t n;
    uvcc_block *k = deal_blocks(d, UVCC_TASK_FN_DEAL_SELECT, i, &n);
    for (uint32_t j = 0; j < n; j++) {
        const size_t at = uvcci_at_block(&k[j]);
        k[j].in[0] = d->word[s->a] + at;
        k[j].in[1] = d->word[s->b] + at;
        if (s->kind == UVCC_FN_SELECT_MUL)
            k[j].in[2] = d->word[s->c] + at;
        k[j].out_words = deal_at(d, i, &k[j], 1, true);
    }
}

static void deal_table(fn_deal *d, unsigned i, const uvcc_fn_instr *s) {
    uint32_t n;
    const uint64_t *sign = d->sign[d->r->plan->fn->step[i].key];
    deal_key(d, i, s->a);
    uvcc_block *k = deal_blocks(d, UVCC_TASK_FN_DEAL_SCALAR, i, &n);
    for (uint32_t j = 0; j < n; j++) {
        const size_t at = uvcci_at_block(&k[j]);
        k[j].in[0] = sign + at;
        if (s->shift != 0)
            k[j].in[1] = d->word[s->b] + at;
        if (is_table(d->r, s->c))
            k[j].in[1] = d->sign[d->r->plan->fn->step[s->c].key] + at;
        else if (s->c != UVCC_FN_NONE)
            k[j].in[2] = d->word[s->c] + at;
        if (s->kind == UVCC_FN_TABLE_MUL && s->b != UVCC_FN_NONE)
            k[j].in[3] = d->word[s->b] + at;
        k[j].out_words = deal_at(d, i, &k[j], 1, true);
    }
}

static void deal_step(fn_deal *d, unsigned i) {
    const uvcc_fn_instr *s = &d->r->plan->function->steps[i];
    const uvcci_fn_info *info = &d->r->plan->fn->step[i];
    switch (s->kind) {
    case UVCC_FN_OPEN:
    case UVCC_FN_EXCHANGE:
        if (info->dealer)
            deal_pads(d, i);
        break;
    case UVCC_FN_SHIFT:
    case UVCC_FN_LOW:
        if (info->dealer)
            deal_shift(d, i, s);
        break;
    case UVCC_FN_PAIR_DIFF:
    case UVCC_FN_PAIR_SECOND:
    case UVCC_FN_QUAD_DIFF:
    case UVCC_FN_QUAD_LAST:
    case UVCC_FN_SPREAD:
    case UVCC_FN_SUB:
    case UVCC_FN_ROW_SUM:
        if (info->dealer)
            deal_linear(d, i, s);
        break;
    case UVCC_FN_QUAD_BEST:
        deal_best(d, i, s);
        break;
    case UVCC_FN_MUL:
        deal_words(d, i, UVCC_TASK_FN_DEAL_MUL, d->word[s->a], d->word[s->b], NULL);
        break;
    case UVCC_FN_TRUNC:
    case UVCC_FN_FLOOR:
        deal_key(d, i, s->a); /* of a FLOOR */
        deal_words(d, i, UVCC_TASK_FN_DEAL_TRUNC, d->word[s->a], NULL, NULL);
        break;
    case UVCC_FN_MULTISCALE:
        deal_key(d, i, s->a);
        break;
    case UVCC_FN_SPLINE:
        deal_key(d, i, s->a);
        deal_words(d, i, UVCC_TASK_FN_DEAL_POWERS, d->word[s->a], NULL, NULL);
        break;
    case UVCC_FN_COMPARE:
        deal_key(d, i, s->a);
        deal_words(d, i, UVCC_TASK_FN_DEAL_BITS, d->word[s->a], NULL, d->word[i]);
        break;
    case UVCC_FN_SELECT:
    case UVCC_FN_SELECT_MUL:
        deal_select(d, i, s);
        break;
    case UVCC_FN_TABLE:
    case UVCC_FN_TABLE_MUL:
        deal_table(d, i, s);
        break;
    default:
        break;
    }
}

/* Memory for masks, bits and signs. */
static bool deal_room(fn_deal *d) {
    uvcci_instance *r = d->r;
    const unsigned steps = r->plan->function->step_count;
    d->word = uvcci_bump_take(&r->deal_bump, steps * sizeof *d->word);
    d->sign = uvcci_bump_take(&r->deal_bump, steps * sizeof *d->sign);
    if (d->word == NULL || d->sign == NULL)
        return false;
    uint64_t words = 0;
    for (unsigned i = 0; i < steps; i++) {
        bool signs = owns_key(r, i) && signs_wanted(r, i);
        words += elems_of(r, i) * ((unsigned)r->plan->fn->step[i].dealer + (unsigned)signs);
    }
    r->deal_words_bytes = words * 8;
    r->deal_words = uvcci_arena_take(&d->s->tensors, r->deal_words_bytes);
    if (r->deal_words == NULL)
        return false;
    uint64_t *next = r->deal_words;
    for (unsigned i = 0; i < steps; i++) {
        if (r->plan->fn->step[i].dealer) {
            d->word[i] = next;
            next += elems_of(r, i);
        }
        if (owns_key(r, i) && signs_wanted(r, i)) {
            d->sign[i] = next;
            next += elems_of(r, i);
        }
    }
    return true;
}

int uvcci_function_deal(uvcc_session *s, uvcci_instance *r, uint8_t ***keys, uvcc_task *tasks,
                        uint32_t *count) {
    fn_deal d = {.s = s, .r = r, .keys = {keys[0], keys[1]}, .tasks = tasks};
    if (!deal_room(&d))
        return UVCC_ERR_NOMEM;
    for (unsigned i = 0; i < r->plan->function->step_count && !d.failed; i++)
        deal_step(&d, i);
    *count = d.count;
    return d.failed ? UVCC_ERR_NOMEM : 0;
}
