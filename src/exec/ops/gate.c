/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c - see gate.h. Turns: the op opens; the bit is compared, opened; HEAD and TAIL have their
 * shares, and lift them (a sequential lift takes two turns); what was lifted is here. */
#include "exec/ops/gate.h"

#include "exec/ops/dealing.h"
#include "exec/ops/operands.h"
#include "exec/ops/tasks.h"

#include <assert.h>

/* ---- plan ---- */

/* The order of ids and rounds is what everybody derives from the program: it goes over the wire.
 * The first id is that of the edges. */
void uvcci_gate_plan(uvcci_draft *d, uvcci_protocol open, uvcci_stream_name stream, bool bit,
                     unsigned lifts) {
    uvcci_plan *plan = d->plan;
    uint32_t blocks = plan->blocks;
    assert(lifts == 1 || lifts == 2);
    plan->per_block_edge = true;
    uvcci_draft_id(d, true, stream, 0, true, blocks); /* UVCCI_ID_FSS0 */
    plan->open_round = (int8_t)plan->round_count;
    const uint8_t id = uvcci_draft_id(d, false, stream, 0, true, blocks);
    uvcci_draft_vec(d, uvcci_draft_turn(d), open, 0, id, 64);
    if (bit) {
        plan->bit_round = (int8_t)plan->round_count;
        const uint8_t bit_id = uvcci_draft_id(d, false, UVCCI_STREAM_BIT, 0, true, blocks);
        uvcci_draft_vec(d, uvcci_draft_turn(d), UVCCI_PROTO_OPEN2, 0, bit_id, 1);
    }
    uvcci_protocol lift = (uvcci_protocol)uvcci_plan_lift_protocol(plan->lift);
    plan->lift_round = (int8_t)plan->round_count;
    uint8_t second = lifts == 2 ? uvcci_draft_id(d, true, stream, 1, true, blocks) : UVCCI_ID_FSS0;
    for (uint8_t hop = 0; hop < uvcci_protocol_hops(lift); hop++) {
        uvcci_plan_round *r = uvcci_draft_turn(d);
        for (unsigned i = 0; i < lifts; i++)
            uvcci_draft_vec(d, r, lift, hop, i == 0 ? UVCCI_ID_FSS0 : second, 64);
    }
    uvcci_plan_round *keys = uvcci_draft_round(d, d->keys, &plan->key_count, plan->elems, 0);
    uvcci_draft_vec(d, keys, UVCCI_PROTO_KEYS, 0, UVCCI_ID_FSS0, 8);
    plan->key_turn = (uint8_t)(d->rounds[plan->open_round].turn + 1);
}

uint32_t uvcci_gate_key_bytes(const uvcci_plan *plan, const uvcci_plan_round *r, uint32_t count,
                              uvcc_role role) {
    uvcc_key_layout l;
    (void)r;
    assert(plan->bits != 0);
    uvcc_key_layout_of((uvcc_gate)plan->gate, plan->compact, plan->shift, plan->bits, count, role,
                       &l);
    return l.total_bytes;
}

/* ---- memory ---- */

enum { BITS_STRIDE = UVCC_BLOCK_ELEMS / 8 };

static size_t bits_of(const uvcci_plan *plan) {
    return (size_t)plan->blocks * BITS_STRIDE * 2;
}

static size_t bits_bytes(const uvcci_instance *r) {
    return bits_of(r->plan);
}

uint64_t uvcci_gate_tensor_bytes(const uvcc_program *p, const uvcci_op *op,
                                 const uvcci_plan *plan) {
    (void)p;
    (void)op;
    return 3 * uvcci_arena_rounded(plan->elems * 8) + uvcci_arena_rounded(bits_of(plan));
}

uint8_t *uvcci_gate_bits(const uvcci_gate *g, uint32_t block) {
    assert(g->bits != NULL);
    return g->bits + (size_t)block * BITS_STRIDE;
}

/* Opened bits stand behind this party's masked ones. */
static uint8_t *opened_bits(const uvcci_instance *r, const uvcci_gate *g, uint32_t block) {
    return uvcci_gate_bits(g, r->plan->blocks + block);
}

void uvcci_gate_release(uvcc_session *s, const uvcci_instance *r, uvcci_gate *g) {
    uvcci_give_words(s, &g->value, r->plan->elems);
    uvcci_give_words(s, &g->share, r->plan->elems);
    uvcci_give_words(s, &g->sign, r->plan->elems);
    uvcci_arena_give(&s->tensors, g->bits, bits_bytes(r));
    g->bits = NULL;
}

/* ---- the opening ---- */

static unsigned open_round(const uvcci_instance *r) {
    assert(r->plan->open_round >= 0);
    return (unsigned)r->plan->open_round;
}

bool uvcci_gate_open2(uvcci_builder *b, uvcci_gate *g, const uvcc_shares *x) {
    uvcci_instance *r = b->r;
    uint32_t n;
    assert(x->lo != NULL && x->hi != NULL);
    if (!uvcci_take_words(b->s, &g->value, r->plan->elems) ||
        !uvcci_take_words(b->s, &g->share, r->plan->elems))
        return false;
    uvcc_block *k = uvcci_add_op_blocks(b, UVCC_TASK_OPEN2_MASK, 0, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *sent = uvcci_sent_at(r, open_round(r), 0, UVCCI_FIRST, k[i].block);
        uvcci_set_open2_mask(&k[i], x, g->share, sent);
    }
    return true;
}

bool uvcci_gate_open4(uvcci_builder *b, uvcci_gate *g, const uint64_t *x) {
    uvcci_instance *r = b->r;
    uint32_t n;
    assert(x != NULL);
    if (!uvcci_take_words(b->s, &g->value, r->plan->elems) ||
        !uvcci_take_words(b->s, &g->share, r->plan->elems))
        return false;
    uvcc_block *k = uvcci_add_op_blocks(b, UVCC_TASK_OPEN4_MASK, 0, UVCCI_ROLE_ALL, &n);
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_open4_mask(&k[i], x, g->share,
                             uvcci_sent_at(r, open_round(r), 0, UVCCI_FIRST, k[i].block),
                             uvcci_sent_at(r, open_round(r), 0, UVCCI_SECOND, k[i].block));
    }
    return true;
}

/* The opened value of every block, into g->value. */
static void finish_open(uvcci_builder *b, uvcci_gate *g, const uvcci_gate_kind *kind) {
    uvcci_instance *r = b->r;
    const unsigned round = open_round(r);
    uint32_t n;
    uvcc_block *k = uvcci_add_op_blocks(b, UVCC_TASK_OPEN_FINISH, 0, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_open_finish(&k[i], g->share, uvcci_rx_at(r, round, 0, UVCCI_FIRST, k[i].block),
                              uvcci_rx_at(r, round, 0, UVCCI_SECOND, k[i].block), g->value);
    }
    if (n != 0 && !b->failed)
        uvcci_last_task(b)->u.vec.constant = kind->open_offset;
    const uvcci_plan_round *open = &r->plan->rounds[round];
    uvcci_hash_opened(b, open->vec[0].id, open->turn, r->plan->elems, (const uint8_t *)g->value,
                      UVCC_BLOCK_ELEMS * 8, 64);
}

/* ---- the comparison bit ---- */

/* HEAD and TAIL compare on their DPF keys; each sends its share of the bit, masked. */
static bool build_bit(uvcci_builder *b, uvcci_gate *g, const uvcci_gate_kind *kind) {
    uvcci_instance *r = b->r;
    const unsigned round = (unsigned)r->plan->bit_round;
    uint32_t n;
    if (!uvcci_build_keys(b))
        return false;
    finish_open(b, g, kind);
    assert(g->bits == NULL);
    g->bits = uvcci_arena_take(&b->s->tensors, bits_bytes(r));
    if (g->bits == NULL)
        return false;
    uvcc_block *k = uvcci_add_op_blocks(b, UVCC_TASK_LESS_MASK, 0, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_less_mask(&k[i], g->value, uvcci_key_of(r, 0, k[i].block),
                            uvcci_gate_bits(g, k[i].block),
                            uvcci_sent_at(r, round, 0, UVCCI_FIRST, k[i].block));
    }
    return uvcci_end_turn(b);
}

static void finish_bit(uvcci_builder *b, uvcci_gate *g) {
    uvcci_instance *r = b->r;
    const unsigned round = (unsigned)r->plan->bit_round;
    uint32_t n;
    uvcc_block *k = uvcci_add_op_blocks(b, UVCC_TASK_OPEN_BITS, 0, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_open_bits(&k[i], uvcci_gate_bits(g, k[i].block),
                            uvcci_rx_at(r, round, 0, UVCCI_FIRST, k[i].block),
                            opened_bits(r, g, k[i].block));
    }
    const uvcci_plan_round *bit = &r->plan->rounds[round];
    uvcci_hash_opened(b, bit->vec[0].id, bit->turn, r->plan->elems, opened_bits(r, g, 0),
                      BITS_STRIDE, 1);
}

/* ---- the lift ---- */

/* LIFT_MASK of one vector; `came`: the round whose bytes a second hop works on, or -1. */
static void mask_lift(uvcci_builder *b, unsigned round, unsigned vec, unsigned roles,
                      const uint64_t *share, int came) {
    uvcci_instance *r = b->r;
    const uvcc_shares out = uvcci_part_of(b, r->op->desc.out[vec]);
    uint32_t n;
    assert(share != NULL);
    uvcc_block *k = uvcci_add_op_blocks(b, UVCC_TASK_LIFT_MASK, (uint16_t)vec, roles, &n);
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *hop =
            came >= 0 ? uvcci_rx_at(r, (unsigned)came, vec, UVCCI_FIRST, k[i].block) : NULL;
        uvcci_set_lift_mask(&k[i], share, &out, hop,
                            uvcci_sent_at(r, round, vec, UVCCI_FIRST, k[i].block));
    }
}

/* From the last opening to the first message of the lift: where there is no bit to open, the keys
 * come in here. */
static bool build_lift(uvcci_builder *b, uvcci_gate *g, const uvcci_gate_kind *kind) {
    uvcci_instance *r = b->r;
    const uvcci_plan *p = r->plan;
    if (p->bit_round >= 0)
        finish_bit(b, g);
    else if (uvcci_build_keys(b))
        finish_open(b, g, kind);
    else
        return false;
    if (!kind->evaluate(b, g))
        return false;
    const unsigned roles = p->lift == UVCC_LIFT_SEQUENTIAL ? UVCCI_ROLE_HEAD : UVCCI_ROLE_EDGE;
    for (unsigned v = 0; v < kind->lifted; v++)
        mask_lift(b, (unsigned)p->lift_round, v, roles, kind->share(r, g, v), -1);
    return uvcci_end_turn(b);
}

/* The second hop of a sequential lift: TAIL sends on what came from HEAD. */
static bool build_second_hop(uvcci_builder *b, uvcci_gate *g, const uvcci_gate_kind *kind) {
    const uvcci_plan *p = b->r->plan;
    assert(p->lift == UVCC_LIFT_SEQUENTIAL);
    for (unsigned v = 0; v < kind->lifted; v++)
        mask_lift(b, p->lift_round + 1u, v, UVCCI_ROLE_TAIL, kind->share(b->r, g, v),
                  p->lift_round);
    return uvcci_end_turn(b);
}

static bool finish_lift(uvcci_builder *b, const uvcci_gate_kind *kind) {
    static const unsigned receivers[] = {[UVCC_LIFT_PARALLEL] = UVCCI_ROLE_TAIL | UVCCI_ROLE_OTHER,
                                         [UVCC_LIFT_SEQUENTIAL] = UVCCI_ROLE_OTHER,
                                         [UVCC_LIFT_EXCHANGE] = UVCCI_ROLE_ALL};
    uvcci_instance *r = b->r;
    const uvcci_plan *p = r->plan;
    const unsigned last = (unsigned)p->lift_round + (p->lift == UVCC_LIFT_SEQUENTIAL ? 1u : 0u);
    assert(p->lift <= UVCC_LIFT_EXCHANGE && last < p->round_count);
    for (unsigned v = 0; v < kind->lifted; v++) {
        const uvcc_shares out = uvcci_part_of(b, r->op->desc.out[v]);
        uint32_t n;
        uvcc_block *k =
            uvcci_add_op_blocks(b, UVCC_TASK_LIFT_FINISH, (uint16_t)v, receivers[p->lift], &n);
        for (uint32_t i = 0; i < n; i++)
            uvcci_set_lift_finish(&k[i], uvcci_rx_at(r, last, v, UVCCI_FIRST, k[i].block), &out);
        uvcci_hash_lifted(b, p->rounds[p->lift_round].vec[v].id, p->elems, &out);
    }
    uvcci_end_hashes(b);
    return true;
}

/* Whether the present turn sends that round of the plan (-1: there is none). */
static bool sends(const uvcci_instance *r, int round) {
    return round >= 0 && r->plan->rounds[round].turn == r->turn;
}

bool uvcci_gate_build(uvcci_builder *b, uvcci_gate *g, const uvcci_gate_kind *kind) {
    const uvcci_instance *r = b->r;
    assert(g != NULL && kind->lifted == r->op->desc.out_count);
    assert(r->turn > r->plan->rounds[open_round(r)].turn && r->turn <= r->plan->turns);
    if (uvcci_finishes(r))
        return finish_lift(b, kind);
    if (sends(r, r->plan->bit_round))
        return build_bit(b, g, kind);
    return sends(r, r->plan->lift_round) ? build_lift(b, g, kind) : build_second_hop(b, g, kind);
}

/* ---- dealing: whole key streams in one task ---- */

uint32_t uvcci_gate_deal_tasks(const uvcci_instance *r) {
    (void)r;
    return 1;
}

int uvcci_gate_deal(uvcc_session *s, const uvcci_deal *d, uvcc_task *tasks, uint32_t *count) {
    uvcci_instance *r = d->r;
    const uvcci_plan *plan = r->plan;
    assert(plan->key_count == 1);
    uvcc_block *blocks = uvcci_bump_take(&r->deal_bump, plan->blocks * sizeof *blocks);
    if (blocks == NULL)
        return UVCC_ERR_NOMEM;
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->blocks; i++) {
        if (uvcci_role_at(s, r, i) != UVCCI_OTHER)
            continue;
        blocks[n] = (uvcc_block){
            .block = i, .count = uvcci_block_count(plan->elems, i), .role = UVCC_OTHER};
        uvcci_set_deal(&blocks[n++], uvcci_deal_stream(s, d, 0, i, UVCC_HEAD),
                       uvcci_deal_stream(s, d, 0, i, UVCC_TAIL));
    }
    *tasks = (uvcc_task){.kind = UVCC_TASK_DEAL, .ordinal = r->ordinal, .keys = &r->step->keys};
    tasks->u.vec.blocks = blocks;
    tasks->u.vec.count = n;
    tasks->u.vec.shift = plan->shift;
    tasks->u.vec.bits = plan->bits;
    tasks->u.vec.gate = plan->gate;
    tasks->u.vec.compact = plan->compact;
    *count = 1;
    return 0;
}
