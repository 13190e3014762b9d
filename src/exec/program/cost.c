/* SPDX-License-Identifier: Apache-2.0 */
/* cost.c - what ops cost: the flows of their plans, counted in bytes of payload, without the lists
 * of TLVs that messages are made from; and the rounds of an entry.
 *
 * What an edge changes is who sends, not how much is sent, so no ids are needed. */
#include "exec/program/op_way.h"
#include "exec/program/plan_make.h"
#include "exec/program/plan_pool.h"

#include <string.h>

/* Payload that a flow carries for one block; 0: nothing is sent. */
static uint64_t block_bytes(const uvcci_plan *plan, const uvcci_plan_round *r,
                            const uvcci_plan_vec *v, const uvcci_flow *flow, uint32_t block) {
    const uint32_t count = uvcci_block_count(r->elems, block);
    if (flow->tlv == UVCC_TLV_DIGEST) /* of an opening: it only checks that */
        return v->protocol == UVCCI_PROTO_DIGEST_ALL ? 32 : 0;
    if (flow->tlv == UVCC_TLV_KEY_CHUNK)
        return uvcci_plan_key_bytes(plan, r, block, (uvcc_role)flow->to);
    if (plan->way->message_words != NULL)
        return 8ull *
               plan->way->message_words(plan, r, (uvcc_role)flow->from, (uvcc_role)flow->to, count);
    return ((uint64_t)count * v->bits + 7) / 8;
}

/* Directions that messages of a part can have: those of a block, turned with its edge. */
static uint32_t directions(const uvcci_plan *plan, const uvcci_plan_round *r, unsigned of_block) {
    const uint32_t blocks = r->blocks < r->part_blocks ? r->blocks : r->part_blocks;
    const uint32_t edges = !plan->per_block_edge ? 1 : blocks < 3 ? blocks : 3;
    return edges * of_block < 6 ? edges * of_block : 6;
}

static void add_round(const uvcci_plan *plan, const uvcci_plan_round *r, uint64_t *bytes,
                      uint32_t *messages) {
    bool sends[9] = {false}; /* from, to */
    unsigned of_block = 0;
    for (unsigned v = 0; v < r->vec_count; v++) {
        unsigned n;
        const uvcci_flow *flows = uvcci_protocol_flows((uvcci_protocol)r->vec[v].protocol, &n);
        for (unsigned i = 0; i < n; i++) {
            const uvcci_flow *f = &flows[i];
            if (f->hop != r->vec[v].hop)
                continue;
            const uint64_t first = block_bytes(plan, r, &r->vec[v], f, 0);
            *bytes += (r->blocks - 1) * first + block_bytes(plan, r, &r->vec[v], f, r->blocks - 1);
            sends[3 * f->from + f->to] |= first != 0 || f->tlv == UVCC_TLV_DIGEST;
        }
    }
    for (unsigned i = 0; i < 9; i++)
        of_block += sends[i];
    *messages += r->parts * directions(plan, r, of_block);
}

/* So many segments of that plan. */
static void add_segments(const uvcci_plan *plan, uint32_t count, uvcc_op_cost *out) {
    uint64_t online = 0, before = 0;
    uint32_t messages = 0;
    for (unsigned i = 0; i < (unsigned)plan->round_count + plan->key_count; i++) {
        const uvcci_plan_round *r = &plan->rounds[i];
        const bool ahead = uvcci_plan_is_keys(plan, r) || r->turn == UVCCI_TURN_TRIPLE;
        add_round(plan, r, ahead ? &before : &online, &messages);
    }
    out->online_bytes += count * online;
    out->preprocessing_bytes += count * before;
    out->messages += count * messages;
}

static uvcc_op_cost cost_of(const uvcci_plan *plan) {
    const uvcci_plan *last = plan->segments.last;
    uvcc_op_cost cost = {.rounds = (uint32_t)plan->turns - plan->silent_turns};
    add_segments(plan, plan->segments.count - (last != NULL), &cost);
    if (last != NULL)
        add_segments(last, 1, &cost);
    return cost;
}

int uvcc_program_cost(const uvcc_program *p, uint32_t entry, uint32_t op, uvcc_op_cost *out) {
    uvcci_plan plan;
    if (p == NULL || out == NULL || !p->finished || entry >= p->entry_count ||
        op >= p->entries[entry].op_count)
        return UVCC_ERR_USAGE;
    const uvcci_entry *e = &p->entries[entry];
    const int err = uvcci_plan_make(&plan, p, e, &e->ops[op], &p->alloc);
    if (err != 0)
        return err;
    *out = cost_of(&plan);
    uvcci_plan_free(&plan, &p->alloc);
    return 0;
}

/* Program order is one that the dependencies allow: an op's depth is known when its turn comes. */
static int longest_chain(const uvcc_program *p, const uvcci_entry *e, const bool *counted,
                         uvcci_plan_pool *pool, uint32_t *depth, uint32_t *rounds) {
    *rounds = 0;
    for (uint32_t i = 0; i < e->op_count; i++) {
        const uvcci_op *op = &e->ops[i];
        if (counted == NULL || counted[i]) {
            const uvcci_plan *plan;
            const int err = uvcci_plan_pool_get(pool, p, e, op, &p->alloc, &plan);
            if (err != 0)
                return err;
            depth[i] += (uint32_t)plan->turns - plan->silent_turns;
        }
        *rounds = depth[i] > *rounds ? depth[i] : *rounds;
        for (uint32_t k = 0; k < op->succ_count; k++) {
            uint32_t *next = &depth[e->succ[op->succ_first + k]];
            *next = depth[i] > *next ? depth[i] : *next;
        }
    }
    return 0;
}

int uvcc_program_rounds(const uvcc_program *p, uint32_t entry, const bool *counted,
                        uint32_t *rounds) {
    if (p == NULL || rounds == NULL || !p->finished || entry >= p->entry_count)
        return UVCC_ERR_USAGE;
    const uvcci_entry *e = &p->entries[entry];
    const size_t bytes = (e->op_count + 1) * sizeof(uint32_t);
    uint32_t *depth = p->alloc.alloc(p->alloc.user, bytes, UVCC_MEM_STATE);
    uvcci_plan_pool pool = {0};
    if (depth == NULL)
        return UVCC_ERR_NOMEM;
    memset(depth, 0, bytes);
    const int err = longest_chain(p, e, counted, &pool, depth, rounds);
    uvcci_plan_pool_free(&pool, &p->alloc);
    p->alloc.free(p->alloc.user, depth, bytes, UVCC_MEM_STATE);
    return err;
}
