/* SPDX-License-Identifier: Apache-2.0 */
/* plan_make.c - see plan_make.h. */
#include "exec/program/plan_make.h"

#include "exec/program/op_class.h"
#include "exec/program/op_way.h"
#include "exec/program/plan_maker.h"

#include <assert.h>
#include <string.h>
#include <uvcc/frame.h>

/* Fixes kind, parts and batch numbers of a round. */
static int cut_round(uvcci_draft *d, uvcci_plan_round *r) {
    uvcci_plan *plan = d->plan;
    r->kind = uvcci_plan_kind(r->vec[0].protocol);
    uint64_t per_block = uvcci_plan_block_bytes_max(plan, r);
    const uint64_t beside =
        UVCC_BLV1_HEADER_BYTES + (uint64_t)r->vec_count * UVCCI_DIGEST_TLV_BYTES;
    r->part_blocks = (uint32_t)uvcci_plan_part_room(per_block, r->vec_count);
    assert(r->vec_count != 0 && r->blocks != 0);
    if (r->part_blocks == 0)
        return UVCC_ERR_PROGRAM;
    uint32_t parts = (r->blocks + r->part_blocks - 1) / r->part_blocks;
    if (parts > UVCCI_PLAN_PARTS)
        return UVCC_ERR_PROGRAM;
    r->parts = (uint16_t)parts;
    r->b_base = d->bases[r->kind];
    d->bases[r->kind] = (uint16_t)(d->bases[r->kind] + parts);
    if (d->bases[r->kind] > plan->batches)
        plan->batches = d->bases[r->kind];
    uint64_t total = r->blocks * per_block;
    total += parts * (beside + 64);
    if (r->kind == UVCC_FRAME_KEYS_BATCH)
        plan->key_bytes_max += total;
    else
        plan->online_bytes_max += total;
    plan->messages_max += parts;
    return 0;
}

/* Copies the draft's tables into memory of the plan's own. */
static int settle(const uvcci_draft *d, bool function, const uvcc_allocator *al) {
    uvcci_plan *plan = d->plan;
    size_t n = (size_t)plan->round_count + plan->key_count;
    size_t fn_bytes = function ? sizeof *plan->fn : 0;
    plan->mem_bytes = fn_bytes + n * sizeof *plan->rounds + plan->id_count * sizeof *plan->id;
    if (plan->mem_bytes == 0)
        return 0;
    uint8_t *mem = al->alloc(al->user, plan->mem_bytes, UVCC_MEM_STATE);
    if (mem == NULL)
        return UVCC_ERR_NOMEM;
    plan->mem = mem;
    plan->rounds = (uvcci_plan_round *)(void *)(mem + fn_bytes);
    memcpy(plan->rounds, d->rounds, plan->round_count * sizeof *plan->rounds);
    memcpy(plan->rounds + plan->round_count, d->keys, plan->key_count * sizeof *plan->rounds);
    plan->id = (uvcci_plan_id *)(void *)(plan->rounds + n);
    memcpy(plan->id, d->id, plan->id_count * sizeof *plan->id);
    if (function) {
        uvcci_fn_plan *fn = (uvcci_fn_plan *)(void *)mem;
        memcpy(fn, plan->fn, sizeof *fn);
        plan->fn = fn;
    }
    return 0;
}

/* The class says what is sent; then the rounds are cut into parts and numbered, in their order,
 * since the numbers of batches go over the wire. What does not fit is refused as a whole. */
int uvcci_plan_make(uvcci_plan *plan, const uvcc_program *p, const uvcci_entry *e,
                    const uvcci_op *op, const uvcc_allocator *al) {
    uvcci_draft d = {.plan = plan, .p = p, .e = e, .op = op};
    const uvcci_op_class *c = uvcci_op_class_of(op->desc.opcode);
    memset(plan, 0, sizeof *plan);
    plan->open_round = plan->bit_round = plan->lift_round = -1;
    plan->batches = plan->key_turn = 1;
    if (c == NULL)
        return UVCC_ERR_PROGRAM;
    assert(op->desc.in_count + op->desc.out_count != 0); /* no class has neither */
    uint32_t tensor = op->desc.out_count != 0 ? op->desc.out[0] : op->desc.in[0];
    plan->elems = p->tensors[tensor].elems;
    plan->lift = op->desc.lift;
    if (plan->lift > UVCC_LIFT_EXCHANGE)
        return UVCC_ERR_PROGRAM;
    plan->blocks = uvcci_blocks(plan->elems);
    plan->tasks_max = 32;
    plan->cls = c;
    plan->way = c->way;
    int rc = c->plan != NULL ? c->plan(&d) : 0;
    assert(plan->way != NULL && plan->way->build != NULL);
    if (plan->edge_blocks < plan->blocks)
        plan->edge_blocks = plan->blocks;
    if ((uint64_t)plan->edge_blocks * UVCC_BLOCK_ELEMS >
        UINT32_MAX) /* `first` of a TLV is 32 bits */
        rc = UVCC_ERR_PROGRAM;
    for (unsigned i = 0; rc == 0 && i < plan->round_count; i++)
        rc = cut_round(&d, &d.rounds[i]);
    for (unsigned i = 0; rc == 0 && i < plan->key_count; i++)
        rc = cut_round(&d, &d.keys[i]);
    if (rc == 0 && d.full)
        rc = UVCC_ERR_PROGRAM;
    if (rc == 0)
        rc = settle(&d, plan->function != NULL, al);
    return rc;
}
