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
    const uint64_t per_block = uvcci_plan_block_bytes_max(plan, r, 0);
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
    uint64_t total = (r->blocks - 1) * per_block;
    total += uvcci_plan_block_bytes_max(plan, r, r->blocks - 1);
    total += parts * (beside + 64);
    if (r->kind == UVCC_FRAME_KEYS_BATCH) {
        plan->key_bytes_max += total;
        plan->cut_bytes += r->blocks * per_block + parts * (beside + 64);
    } else {
        plan->online_bytes_max += total;
    }
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

/* ---- a segment ---- */

/* The tensor whose elements are counted. */
static const uvcci_tensor *vector_of(const uvcc_program *p, const uvcc_op_desc *d) {
    assert(d->in_count + d->out_count != 0); /* no class has neither */
    return &p->tensors[d->out_count != 0 ? d->out[0] : d->in[0]];
}

/* What it takes while it is at work: its part of what it makes, what it works on, its keys, and
 * messages both ways. */
static uint64_t work_bytes(const uvcci_draft *d, const uvcci_segments *cut, uint64_t units) {
    const uvcci_plan *plan = d->plan;
    const uvcc_op_desc *op = &d->op->desc;
    uint64_t bytes = plan->key_bytes_max + 2 * plan->online_bytes_max;
    for (unsigned i = 0; i < op->out_count; i++) {
        const uvcci_tensor *t = &d->p->tensors[op->out[i]];
        if (t->desc.lifetime == UVCC_TRANSIENT)
            bytes +=
                uvcci_component_bytes(t) / 8 / cut->units * units * 8 * uvcci_components(&t->desc);
    }
    if (plan->way->tensor_bytes != NULL && !plan->way->tensors_stay)
        bytes += plan->way->tensor_bytes(d->p, d->op, plan);
    return bytes;
}

/* What the draft's op sends for so many of its units. */
static int draft_units(uvcci_draft *d, const uvcci_op_class *c, const uvcci_segments *cut,
                       uint64_t units) {
    uvcci_plan *plan = d->plan;
    const uvcc_op_desc *op = &d->op->desc;
    memset(plan, 0, sizeof *plan);
    plan->open_round = plan->bit_round = plan->lift_round = -1;
    plan->batches = plan->key_turn = 1;
    plan->segments = *cut;
    plan->units = units;
    plan->elems = vector_of(d->p, op)->elems / cut->units * units;
    plan->lift = op->lift;
    if (plan->lift > UVCC_LIFT_EXCHANGE)
        return UVCC_ERR_PROGRAM;
    plan->blocks = uvcci_blocks(plan->elems);
    plan->tasks_max = 32;
    plan->cls = c;
    plan->way = c->way;
    int rc = c->plan != NULL ? c->plan(d) : 0;
    assert(plan->way != NULL && plan->way->build != NULL);
    if (plan->edge_blocks < plan->blocks)
        plan->edge_blocks = plan->blocks;
    if ((uint64_t)plan->edge_blocks * UVCC_BLOCK_ELEMS >
        UINT32_MAX) /* `first` of a TLV is 32 bits */
        rc = UVCC_ERR_PROGRAM;
    for (unsigned i = 0; rc == 0 && i < plan->round_count; i++)
        rc = cut_round(d, &d->rounds[i]);
    for (unsigned i = 0; rc == 0 && i < plan->key_count; i++)
        rc = cut_round(d, &d->keys[i]);
    plan->work_bytes = work_bytes(d, cut, units);
    return rc == 0 && d->full ? UVCC_ERR_PROGRAM : rc;
}

/* The same from the beginning, in memory of its own. */
static int make_units(uvcci_plan *plan, const uvcci_draft *of, const uvcci_segments *cut,
                      uint64_t units, const uvcc_allocator *al) {
    uvcci_draft d = {.plan = plan, .p = of->p, .e = of->e, .op = of->op};
    int rc = draft_units(&d, uvcci_op_class_of(of->op->desc.opcode), cut, units);
    if (rc == 0)
        rc = settle(&d, plan->function != NULL, al);
    return rc;
}

/* ---- how an op is cut ---- */

static bool sends(const uvcci_plan *plan) {
    return plan->round_count + plan->key_count != 0;
}

/* Elements of a segment end where blocks do. */
static uint64_t rounded(const uvcci_segments *cut, uint64_t units) {
    if (!cut->by_element)
        return units != 0 ? units : 1;
    units -= units % UVCC_BLOCK_ELEMS;
    return units != 0 ? units : UVCC_BLOCK_ELEMS;
}

static bool is_small(const uvcci_plan *plan) {
    return plan->elems <= UVCCI_SEGMENT_ELEMS && plan->cut_bytes <= UVCCI_SEGMENT_KEY_BYTES;
}

/* The units of a segment: as many as the elements say, then halves of that until the keys fit too.
 * UVCC_ERR_PROGRAM: the least segment is too large, or there would be too many. */
static int find_cut(const uvcci_draft *of, const uvcci_op_class *c, uvcci_segments *cut) {
    uvcci_plan plan;
    const uint64_t unit = vector_of(of->p, &of->op->desc)->elems / cut->units;
    const uint64_t least = rounded(cut, 1);
    cut->per = rounded(cut, UVCCI_SEGMENT_ELEMS / unit);
    cut->per = cut->per < cut->units ? cut->per : cut->units;
    for (;;) {
        uvcci_draft d = {.plan = &plan, .p = of->p, .e = of->e, .op = of->op};
        const int rc = draft_units(&d, c, cut, cut->per);
        if (rc == 0 && (is_small(&plan) || cut->per <= least))
            break;
        if (cut->per <= least)
            return rc;
        cut->per = rounded(cut, cut->per / 2);
    }
    const uint64_t count = (cut->units + cut->per - 1) / cut->per;
    if (count * plan.batches > UINT16_MAX + 1ull) /* b is 16 bits */
        return UVCC_ERR_PROGRAM;
    cut->count = (uint32_t)count;
    return 0;
}

/* A plan of the first segment, and of the last one if that is shorter. */
static int make_segments(uvcci_plan *plan, const uvcci_draft *of, uvcci_segments *cut,
                         const uvcc_allocator *al) {
    const uint64_t rest = cut->units - (cut->count - 1) * cut->per;
    int rc = make_units(plan, of, cut, cut->per, al);
    if (rc != 0 || rest == cut->per)
        return rc;
    uvcci_plan *last = al->alloc(al->user, sizeof *last, UVCC_MEM_STATE);
    rc = last != NULL ? make_units(last, of, cut, rest, al) : UVCC_ERR_NOMEM;
    if (rc == 0) {
        plan->segments.last = last;
        return 0;
    }
    if (last != NULL)
        al->free(al->user, last, sizeof *last, UVCC_MEM_STATE);
    uvcci_plan_free(plan, al);
    return rc;
}

/* The class says what is sent; then the rounds are cut into parts and numbered, in their order,
 * since the numbers of batches go over the wire. What is small, or sends nothing, is not cut; what
 * does not fit is refused as a whole. */
int uvcci_plan_make(uvcci_plan *plan, const uvcc_program *p, const uvcci_entry *e,
                    const uvcci_op *op, const uvcc_allocator *al) {
    uvcci_draft d = {.plan = plan, .p = p, .e = e, .op = op};
    const uvcci_op_class *c = uvcci_op_class_of(op->desc.opcode);
    uvcci_segments cut = {.count = 1, .units = 1, .per = 1};
    memset(plan, 0, sizeof *plan);
    if (c == NULL)
        return UVCC_ERR_PROGRAM;
    int rc = draft_units(&d, c, &cut, 1);
    if (rc == 0 && (!sends(plan) || is_small(plan)))
        return settle(&d, plan->function != NULL, al);
    cut.units = c->units != NULL ? c->units(p, &op->desc, &cut.by_element) : 1;
    if (cut.units <= 1)
        return rc == 0 ? settle(&d, plan->function != NULL, al) : rc;
    rc = find_cut(&d, c, &cut);
    return rc == 0 ? make_segments(plan, &d, &cut, al) : rc;
}
