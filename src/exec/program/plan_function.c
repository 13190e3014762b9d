/* SPDX-License-Identifier: Apache-2.0 */
/* plan_function.c - the plan of a FUNCTION op: the vectors that its instructions send, in rounds of
 * their turn and length, and where each instruction's material lies in the key streams. */
#include "exec/program/fn_class.h"
#include "exec/program/plan_maker.h"

#include <assert.h>

enum { INSTR_TASKS = 5 }; /* of an instruction in one turn, at most */

/* ---- keys of functions: a round per width of what they work on ---- */

static bool owns_key(const uvcci_plan *plan, unsigned instr) {
    return uvcci_fn_owns_key(plan->function, plan->fn, instr);
}

static bool has_material(const uvcci_plan *plan, unsigned instr) {
    return owns_key(plan, instr) || plan->fn->instr[instr].words != 0;
}

void uvcci_plan_key_at(const uvcci_plan *plan, unsigned instr, uint32_t count, uint32_t *cw,
                       uint32_t *words) {
    uint32_t cw_at = 0, words_at = 0;
    assert(plan->function != NULL && instr < plan->function->instr_count);
    *cw = *words = UINT32_MAX;
    for (unsigned i = 0; i < plan->function->instr_count; i++) {
        if (plan->fn->instr[i].width != plan->fn->instr[instr].width)
            continue;
        if (i == instr && owns_key(plan, i))
            *cw = cw_at;
        if (i == instr && plan->fn->instr[i].words != 0)
            *words = words_at;
        if (owns_key(plan, i))
            cw_at += uvcci_fn_key_bytes(&plan->function->instrs[i], count);
        words_at += plan->fn->instr[i].words * 8 * count;
    }
    if (*words != UINT32_MAX)
        *words += cw_at;
}

const uvcci_plan_round *uvcci_plan_keys_of(const uvcci_plan *plan, unsigned instr) {
    for (unsigned i = 0; i < plan->key_count; i++) {
        const uvcci_plan_round *r = &plan->rounds[plan->round_count + i];
        assert(r->vec_count == 1 && r->vec[0].protocol == UVCCI_PROTO_KEYS);
        if (plan->fn->instr[r->vec[0].instr].width == plan->fn->instr[instr].width)
            return r;
    }
    return NULL;
}

const uvcci_plan_round *uvcci_plan_sent_by(const uvcci_plan *plan, unsigned instr, unsigned *vec) {
    for (unsigned i = 0; i < plan->round_count; i++)
        for (*vec = 0; *vec < plan->rounds[i].vec_count; (*vec)++)
            if (plan->rounds[i].vec[*vec].instr == instr)
                return &plan->rounds[i];
    return NULL;
}

uint32_t uvcci_plan_turn_tasks(const uvcci_plan *plan, unsigned turn) {
    const unsigned instrs = plan->function != NULL ? plan->function->instr_count : 0;
    uint32_t tasks = plan->tasks_max;
    for (unsigned i = 0; i < instrs; i++) {
        const uvcci_fn_info *info = &plan->fn->instr[i];
        if (info->turn == turn || (info->sends && info->turn + 1u == turn))
            tasks += INSTR_TASKS;
    }
    return tasks;
}

/* ---- rounds ---- */

/* The round of this turn that takes so many vectors of such a protocol and length: those of an
 * instruction go together. */
static uvcci_plan_round *round_for(uvcci_draft *d, uint8_t turn, uvcci_protocol protocol,
                                   uint64_t elems, unsigned vectors) {
    uvcci_plan *plan = d->plan;
    unsigned in_turn = 0;
    for (unsigned i = 0; i < plan->round_count; i++) {
        uvcci_plan_round *r = &d->rounds[i];
        if (r->turn != turn)
            continue;
        in_turn++;
        if (r->elems == elems && r->vec_count + vectors <= UVCCI_PLAN_VECS &&
            uvcci_plan_kind(r->vec[0].protocol) == uvcci_plan_kind((uint8_t)protocol))
            return r;
    }
    d->full |= in_turn == UVCCI_TURN_ROUNDS;
    return uvcci_draft_round(d, d->rounds, &plan->round_count, elems, turn);
}

/* An instruction's vectors, in the order in which its class has them. */
static void plan_instr(uvcci_draft *d, unsigned i, uint64_t elems) {
    const uvcc_fn_instr *s = &d->plan->function->instrs[i];
    const uvcci_fn_class *class = uvcci_fn_class_of(s->kind);
    uvcci_fn_vector v[UVCCI_FN_VECTORS_MAX];
    assert(class != NULL && class->sends != NULL);
    const unsigned n = class->sends(s, uvcci_plan_lift_protocol(d->plan->lift), v);
    assert(n >= 1 && n <= UVCCI_FN_VECTORS_MAX);
    uvcci_plan_round *r =
        round_for(d, d->plan->fn->instr[i].turn, (uvcci_protocol)v[0].protocol, elems, n);
    for (unsigned k = 0; k < n; k++) {
        assert(uvcci_plan_kind(v[k].protocol) == uvcci_plan_kind(v[0].protocol));
        const uint8_t id = uvcci_draft_id(d, v[k].fss, (uvcci_stream_name)v[k].stream, (uint16_t)i,
                                          true, uvcci_blocks(elems));
        uvcci_draft_vec(d, r, (uvcci_protocol)v[k].protocol, 0, id, v[k].bits)->instr = (uint8_t)i;
    }
}

/* A round of keys per width, in the order in which the widths come. */
static void plan_instr_keys(uvcci_draft *d, unsigned i, uint64_t elems) {
    uvcci_plan *plan = d->plan;
    if (!has_material(plan, i))
        return;
    for (unsigned k = 0; k < plan->key_count; k++)
        if (d->keys[k].elems == elems)
            return;
    uvcci_plan_round *r = uvcci_draft_round(d, d->keys, &plan->key_count, elems, 0);
    uint8_t id = uvcci_draft_id(d, true, UVCCI_STREAM_MASK, (uint16_t)i, true, uvcci_blocks(elems));
    uvcci_draft_vec(d, r, UVCCI_PROTO_KEYS, 0, id, 8)->instr = (uint8_t)i;
}

/* Of a segment that is cut between elements a row is one element: no instruction looks further. */
int uvcci_plan_function(uvcci_draft *d, const uvcc_program *p, const uvcci_op *op,
                        uvcci_fn_plan *fn) {
    uvcci_plan *plan = d->plan;
    const uint32_t cols = plan->segments.by_element ? 1 : p->tensors[op->desc.in[0]].desc.cols;
    plan->function = &p->functions[op->desc.function]->f;
    plan->fn = fn;
    plan->gate = UVCC_GATE_FUNCTION;
    int rc = uvcci_fn_compile(plan->function, cols, NULL, fn, NULL, 0);
    if (rc != 0)
        return UVCC_ERR_PROGRAM;
    const uint64_t units = plan->segments.units; /* of in[0], which may be wider than out[0] */
    plan->elems = p->tensors[op->desc.in[0]].elems / units * plan->units;
    const uint64_t rows = plan->elems / cols;
    plan->blocks = uvcci_blocks(plan->elems);
    for (unsigned i = 0; i < plan->function->instr_count; i++) {
        /* groups of four have more columns */
        const uint32_t blocks = uvcci_blocks(rows * fn->instr[i].width);
        plan->blocks = blocks > plan->blocks ? blocks : plan->blocks;
    }
    plan->per_block_edge = !fn->one_edge;
    plan->one_edge = fn->one_edge;
    plan->turns = fn->rounds;
    uvcci_draft_id(d, true, UVCCI_STREAM_MASK, 0, true, plan->blocks); /* UVCCI_ID_FSS0 */
    for (uint8_t turn = 0; turn < fn->rounds; turn++)
        for (unsigned i = 0; i < plan->function->instr_count; i++)
            if (fn->instr[i].sends && fn->instr[i].turn == turn)
                plan_instr(d, i, rows * fn->instr[i].width);
    for (unsigned i = 0; i < plan->function->instr_count; i++)
        plan_instr_keys(d, i, rows * fn->instr[i].width);
    return 0;
}
