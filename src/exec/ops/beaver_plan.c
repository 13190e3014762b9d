/* SPDX-License-Identifier: Apache-2.0 */
/* beaver_plan.c - what a product on Beaver triples sends: the openings of the masks that it owns, C
 * of each tile, and what a truncation after it sends. How it runs stands in beaver.c. */
#include "exec/ops/beaver.h"

#include "exec/ops/truncate.h"

#include <assert.h>

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
    const uint32_t buffer = p->tensors[tensor].buffer;
    uvcci_plan_mask m = {.op = UVCCI_NO_OP, .round = -1, .elems = p->tensors[tensor].elems};
    for (uint32_t at = e->touch_from[buffer]; at < e->touch_from[buffer + 1]; at++)
        for (uint8_t k = 0; k < 2; k++) {
            const uint32_t i = e->touching[at];
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

/* A round that makes the C of each tile, in rising order. */
static void triple_rounds(uvcci_draft *d) {
    uvcci_plan *plan = d->plan;
    uvcci_plan_beaver *v = &plan->beaver;
    const uvcc_tensor_desc *z = &d->p->tensors[d->op->desc.out[0]].desc;
    uint32_t first_block = 0;
    v->triple_round = plan->round_count;
    for (uint32_t tile = 0; tile < v->tiles.count; tile++) {
        const uint64_t elems = (uint64_t)uvcci_tile_rows(&v->tiles, z->rows, tile) * z->cols;
        uvcci_plan_round *r =
            uvcci_draft_round(d, d->rounds, &plan->round_count, elems, UVCCI_TURN_TRIPLE);
        r->tile = tile;
        r->first_block = first_block;
        first_block += r->blocks;
    }
}

/* The openings, if this op owns a mask, and the rounds that make C. Ids come later: the first is
 * the truncation's. Several tiles are used after the product turn, one by one; what is truncated
 * waits for all of them in a turn more. */
static void begin_beaver(uvcci_draft *d) {
    uvcci_plan *plan = d->plan;
    uvcci_plan_beaver *v = &plan->beaver;
    const uint32_t self = (uint32_t)(d->op - d->e->ops);
    assert(self < d->e->op_count && plan->round_count == 0);
    v->on = true;
    v->tiles = uvcci_tiles_of(d->p, &d->op->desc);
    for (uint8_t k = 0; k < 2; k++) {
        v->mask[k] = mask_of(d->p, d->e, d->op, k);
        if (v->mask[k].op != self || v->mask[k].operand != k)
            continue;
        v->mask[k].round = (int8_t)plan->round_count;
        uvcci_draft_round(d, d->rounds, &plan->round_count, v->mask[k].elems, 0);
        plan->turns = 1;
    }
    v->product_turn = v->finish_turn = plan->turns;
    triple_rounds(d);
    if (v->tiles.count == 1)
        return;
    v->finish_turn = ++plan->turns;
    plan->silent_turns = 1;
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
    for (uint32_t tile = 0; tile < v->tiles.count && !d->full; tile++)
        uvcci_draft_vec(d, &d->rounds[v->triple_round + tile], UVCCI_PROTO_RESHARE, 0,
                        UVCCI_ID_TILE, 64);
}

/* The opened differences give a replicated product; what is truncated then is truncated as TRUNCATE
 * does it. */
void uvcci_beaver_plan(uvcci_draft *d) {
    uvcci_plan *plan = d->plan;
    plan->way = &uvcci_beaver_way;
    begin_beaver(d);
    if (d->op->desc.shift != 0)
        uvcci_truncation_plan(d, UVCCI_PROTO_OPEN2);
    end_beaver(d);
    for (unsigned k = 0; k < 2; k++) /* masks, also those of operands that others open */
        if (uvcci_blocks(plan->beaver.mask[k].elems) > plan->edge_blocks)
            plan->edge_blocks = uvcci_blocks(plan->beaver.mask[k].elems);
}
