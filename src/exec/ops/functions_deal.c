/* SPDX-License-Identifier: Apache-2.0 */
/* functions_deal.c - what OTHER deals for an instruction of a FUNCTION op: it follows them once,
 * ahead of time, on masks instead of values (uvcci_function_deal in functions.c). An instruction
 * becomes three tasks at most. */
#include "exec/ops/functions_impl.h"

#include <assert.h>
#include <string.h>

/* ---- what is where ---- */

static bool signs_wanted(const uvcci_instance *r, unsigned owner) {
    for (unsigned i = 0; i < r->plan->function->instr_count; i++)
        if ((uvcci_fn_class_of(r->plan->function->instrs[i].kind)->traits & UVCCI_FN_LOOKS_UP) !=
                0 &&
            r->plan->fn->instr[i].key == owner)
            return true;
    return false;
}

static bool owns_key(const uvcci_instance *r, unsigned instr) {
    return uvcci_fn_owns_key(r->plan->function, r->plan->fn, instr);
}

/* Whether OTHER needs the mask of an instruction's value. */
static bool mask_wanted(const uvcci_fn_deal *d, unsigned i) {
    return d->r->plan->fn->instr[i].dealer;
}

/* A task of instruction i over the blocks that this party deals. */
static uvcc_block *deal_blocks(uvcci_fn_deal *d, uint16_t kind, unsigned i, uint32_t *n) {
    uvcci_instance *r = d->r;
    const uint64_t elems = uvcci_fn_elems(r, i);
    assert(kind != 0 && elems != 0);
    *n = 0;
    uvcc_block *k = uvcci_bump_take(&r->deal_bump, uvcci_blocks(elems) * sizeof *k);
    uvcc_fn_args *a = uvcci_fn_args_of(&r->deal_bump, r, i, kind);
    d->failed |= k == NULL || a == NULL;
    if (d->failed)
        return NULL;
    for (uint32_t b = 0; b < uvcci_blocks(elems); b++)
        if (uvcci_role_at(d->s, r, b) == UVCCI_OTHER)
            k[(*n)++] =
                (uvcc_block){.block = b, .count = uvcci_block_count(elems, b), .role = UVCC_OTHER};
    uvcc_task *t = &d->tasks[d->count++];
    *t = (uvcc_task){.kind = kind,
                     .ordinal = r->ordinal,
                     .call = uvcci_fn_call_of(i, kind),
                     .keys = &r->step->keys};
    t->u.vec.blocks = k;
    t->u.vec.count = *n;
    t->u.vec.fn = a;
    return k;
}

/* Where instruction i's CW (words: TAIL's words) of a block goes. */
static uint8_t *deal_at(const uvcci_fn_deal *d, unsigned i, const uvcc_block *k, unsigned tail,
                        bool words) {
    const uvcci_plan *p = d->r->plan;
    const uvcci_plan_round *round = uvcci_plan_keys_of(p, i);
    uint32_t at = k->block, cw_at, words_at;
    assert(round != NULL && tail < 2);
    for (const uvcci_plan_round *q = p->rounds + p->round_count; q != round; q++)
        at += q->blocks;
    uvcci_plan_key_at(p, i, k->count, &cw_at, &words_at);
    assert((words ? words_at : cw_at) != UINT32_MAX);
    return d->keys[tail][at] + (words ? words_at : cw_at);
}

/* The key of an instruction that owns one, for the mask of its operand. */
void uvcci_fn_deal_key(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s) {
    uint32_t n;
    if (!owns_key(d->r, i))
        return;
    assert(d->turns != NULL && d->turns->key_task != 0);
    uvcc_block *k = deal_blocks(d, d->turns->key_task, i, &n);
    for (uint32_t j = 0; j < n; j++) {
        k[j].in[0] = d->word[s->a] + uvcci_at_block(&k[j]);
        for (unsigned tail = 0; tail < 2; tail++)
            k[j].out_bytes[tail] = deal_at(d, i, &k[j], tail, false);
        if (d->sign[i] != NULL)
            k[j].out[0] = d->sign[i] + uvcci_at_block(&k[j]);
    }
}

void uvcci_fn_deal_shift(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s) {
    uint32_t n;
    if (!mask_wanted(d, i))
        return;
    uvcc_block *k = deal_blocks(d, UVCC_TASK_FN_SHIFT, i, &n);
    for (uint32_t j = 0; j < n; j++) {
        k[j].in[0] = d->word[s->a] + uvcci_at_block(&k[j]);
        k[j].out[0] = d->word[i] + uvcci_at_block(&k[j]);
    }
}

void uvcci_fn_deal_linear(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s) {
    if (!mask_wanted(d, i))
        return;
    assert(d->turns != NULL && d->word[s->a] != NULL && d->word[i] != NULL);
    uvcc_task *t = &d->tasks[d->count++];
    *t = (uvcc_task){.kind = UVCC_TASK_MAP};
    t->u.map.op = d->turns->map;
    t->u.map.rows = uvcci_fn_rows(d->r);
    t->u.map.cols = uvcci_fn_linear_cols(d->r, i);
    t->u.map.x.lo = d->word[s->a];
    if (s->kind == UVCC_FN_SUB)
        t->u.map.y.lo = d->word[s->b];
    t->u.map.out.lo = d->word[i];
}

void uvcci_fn_deal_best(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s) {
    uint32_t n;
    uvcc_block *k = deal_blocks(d, UVCC_TASK_FN_DEAL_BEST, i, &n);
    for (uint32_t j = 0; j < n; j++) {
        const size_t at = uvcci_at_block(&k[j]) * UVCCI_FN_QUAD_PAIRS;
        k[j].in[0] = d->word[s->a] + at;
        k[j].in[1] = d->word[s->b] + at;
        k[j].out_words = deal_at(d, i, &k[j], 1, true);
    }
}

/* OPEN and EXCHANGE: the mask is the sum of what HEAD and TAIL draw. */
void uvcci_fn_deal_pads(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s) {
    uint32_t n;
    (void)s;
    if (!mask_wanted(d, i))
        return;
    uvcc_block *k = deal_blocks(d, UVCC_TASK_FN_PADS, i, &n);
    for (uint32_t j = 0; j < n; j++)
        k[j].out[0] = d->word[i] + uvcci_at_block(&k[j]);
}

static void deal_words(uvcci_fn_deal *d, unsigned i, uint16_t kind, const uint64_t *x,
                       const uint64_t *y, uint64_t *out) {
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

void uvcci_fn_deal_select(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s) {
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

void uvcci_fn_deal_table(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s) {
    uint32_t n;
    const uint64_t *sign = d->sign[d->r->plan->fn->instr[i].key];
    uvcci_fn_deal_key(d, i, s);
    uvcc_block *k = deal_blocks(d, UVCC_TASK_FN_DEAL_SCALAR, i, &n);
    for (uint32_t j = 0; j < n; j++) {
        const size_t at = uvcci_at_block(&k[j]);
        k[j].in[0] = sign + at;
        if (s->shift != 0)
            k[j].in[1] = d->word[s->b] + at;
        if (uvcci_fn_is_table_at(d->r, s->c))
            k[j].in[1] = d->sign[d->r->plan->fn->instr[s->c].key] + at;
        else if (s->c != UVCC_FN_NONE)
            k[j].in[2] = d->word[s->c] + at;
        if (s->kind == UVCC_FN_TABLE_MUL && s->b != UVCC_FN_NONE)
            k[j].in[3] = d->word[s->b] + at;
        k[j].out_words = deal_at(d, i, &k[j], 1, true);
    }
}

void uvcci_fn_deal_mul(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s) {
    deal_words(d, i, UVCC_TASK_FN_DEAL_MUL, d->word[s->a], d->word[s->b], NULL);
}

void uvcci_fn_deal_trunc(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s) {
    deal_words(d, i, UVCC_TASK_FN_DEAL_TRUNC, d->word[s->a], NULL, NULL);
}

void uvcci_fn_deal_floor(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s) {
    uvcci_fn_deal_key(d, i, s);
    uvcci_fn_deal_trunc(d, i, s);
}

void uvcci_fn_deal_spline(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s) {
    uvcci_fn_deal_key(d, i, s);
    deal_words(d, i, UVCC_TASK_FN_DEAL_POWERS, d->word[s->a], NULL, NULL);
}

void uvcci_fn_deal_compare(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s) {
    uvcci_fn_deal_key(d, i, s);
    deal_words(d, i, UVCC_TASK_FN_DEAL_BITS, d->word[s->a], NULL, d->word[i]);
}

/* ---- memory ---- */

/* One piece for all instructions, since the deal gives it back as one; who needs a mask or signs is
 * known of the compiled form, so nothing is taken that is not read. */
bool uvcci_fn_deal_room(uvcci_fn_deal *d) {
    uvcci_instance *r = d->r;
    const unsigned instrs = r->plan->function->instr_count;
    d->word = uvcci_bump_take(&r->deal_bump, instrs * sizeof *d->word);
    d->sign = uvcci_bump_take(&r->deal_bump, instrs * sizeof *d->sign);
    if (d->word == NULL || d->sign == NULL)
        return false;
    uint64_t words = 0;
    for (unsigned i = 0; i < instrs; i++) {
        bool signs = owns_key(r, i) && signs_wanted(r, i);
        words += uvcci_fn_elems(r, i) * ((unsigned)r->plan->fn->instr[i].dealer + (unsigned)signs);
    }
    r->deal_words_bytes = words * 8;
    r->deal_words = uvcci_arena_take(&d->s->tensors, r->deal_words_bytes);
    if (r->deal_words == NULL)
        return false;
    uint64_t *next = r->deal_words;
    for (unsigned i = 0; i < instrs; i++) {
        if (r->plan->fn->instr[i].dealer) {
            d->word[i] = next;
            next += uvcci_fn_elems(r, i);
        }
        if (owns_key(r, i) && signs_wanted(r, i)) {
            d->sign[i] = next;
            next += uvcci_fn_elems(r, i);
        }
    }
    assert(next == r->deal_words + words);
    return true;
}
