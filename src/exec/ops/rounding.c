/* SPDX-License-Identifier: Apache-2.0 */
/* rounding.c - see rounding.h, and kernels_rounding.c for what is computed.
 *
 * 3-additive values, turn 0: the product, and what HEAD will open; turn 1: HEAD has opened it, and
 * has its components; turn 2: TAIL and OTHER have theirs. Between turns 1 and 2 OTHER's lo holds
 * words of the wrap. Replicated values: HEAD has its components in turn 0, the others in turn 1. */
#include "exec/ops/rounding.h"

#include "exec/ops/multiply.h"
#include "exec/ops/operands.h"
#include "exec/ops/tasks.h"

#include <assert.h>

enum { ROUND_OPEN = 0, ROUND_SEND = 1 };

typedef struct rounding_state {
    uint64_t *product; /* a product before it is truncated, TENSOR memory; TRUNCATE: NULL */
} rounding_state;

static const uvcci_op_way rounding_way, rounding2_way;

/* ---- plan ---- */

static bool wanted(const uvcc_op_desc *d) {
    return d->truncation == UVCC_TRUNC_STOCHASTIC && d->lift == UVCC_LIFT_PARALLEL;
}

/* The ids are not sent: the first gives the edges, each gives a round its engines. */
static void draft_round(uvcci_draft *d, uvcci_protocol protocol) {
    const uint16_t call = d->plan->id_count;
    const uint8_t id =
        uvcci_draft_id(d, true, UVCCI_STREAM_TRUNC, call, call == 0, d->plan->blocks);
    uvcci_draft_vec(d, uvcci_draft_turn(d), protocol, 0, id, 64);
}

static void draft(uvcci_draft *d, const uvcci_op_way *way) {
    assert(d->op->desc.shift >= 1 && d->op->desc.shift <= UVCCI_MAX_BITS);
    d->plan->way = way;
    d->plan->shift = d->op->desc.shift;
    d->plan->per_block_edge = true;
}

bool uvcci_rounding_plan(uvcci_draft *d) {
    if (!wanted(&d->op->desc))
        return false;
    draft(d, &rounding_way);
    draft_round(d, UVCCI_PROTO_SR_OPEN);
    draft_round(d, UVCCI_PROTO_SR_SEND);
    return true;
}

/* |x| + 2^shift must be below 2^62. */
bool uvcci_rounding2_plan(uvcci_draft *d, unsigned bits) {
    if (!wanted(&d->op->desc) || bits >= UVCCI_MAX_BITS || d->op->desc.shift >= UVCCI_MAX_BITS)
        return false;
    draft(d, &rounding2_way);
    draft_round(d, UVCCI_PROTO_SR2);
    return true;
}

static uint32_t words_of_bits(uint32_t count, unsigned bits) {
    return (uint32_t)(((uint64_t)count * bits + 63) / 64);
}

static uint32_t message_words(const uvcci_plan *plan, const uvcci_plan_round *r, uvcc_role from,
                              uvcc_role to, uint32_t count) {
    const bool open = r->turn == ROUND_OPEN;
    if (from == to)
        return 0;
    if (open && to == UVCC_HEAD)
        return count;
    if (open)
        return to == UVCC_OTHER ? words_of_bits(count, plan->shift) : 0;
    if (from == UVCC_HEAD)
        return words_of_bits(count, 1) + (to == UVCC_OTHER ? count : 0);
    return from == UVCC_OTHER && to == UVCC_TAIL ? words_of_bits(count, plan->shift) : 0;
}

static uint32_t message2_words(const uvcci_plan *plan, const uvcci_plan_round *r, uvcc_role from,
                               uvcc_role to, uint32_t count) {
    const bool component = from == UVCC_HEAD && to == UVCC_OTHER;
    (void)r;
    if (from == to || to == UVCC_HEAD)
        return 0;
    return words_of_bits(count, plan->shift) + (component ? count : 0);
}

static uint32_t piece_words(const uvcci_plan *plan, const uvcci_plan_round *r, uint32_t count) {
    (void)plan;
    (void)r;
    return count;
}

static bool is_product(const uvcci_op *op) {
    return uvcci_is_product(op->desc.opcode);
}

static uint64_t tensor_bytes(const uvcc_program *p, const uvcci_op *op, const uvcci_plan *plan) {
    (void)p;
    return is_product(op) ? uvcci_arena_rounded(plan->elems * 8) : 0;
}

/* ---- turns ---- */

static rounding_state *state_of(const uvcci_instance *r) {
    assert(r->state != NULL);
    return r->state;
}

static void release(uvcc_session *s, uvcci_instance *r) {
    uvcci_give_words(s, &state_of(r)->product, r->plan->elems);
}

/* The 3-additive value that is truncated. */
static const uint64_t *value_of(const uvcci_builder *b) {
    const uvcci_instance *r = b->r;
    return is_product(r->op) ? state_of(r)->product : uvcci_part_of(b, r->op->desc.in[0]).lo;
}

static bool open_value(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    uint32_t n;
    if (!uvcci_ensure_outputs(b))
        return false;
    if (is_product(r->op) && (!uvcci_take_words(b->s, &state_of(r)->product, r->plan->elems) ||
                              !uvcci_build_product(b, state_of(r)->product)))
        return false;
    uvcc_block *k = uvcci_add_op_blocks(b, UVCC_TASK_SR_OPEN, 0, UVCCI_ROLE_ALL, &n);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *first = uvcci_sent_at(r, ROUND_OPEN, 0, UVCCI_FIRST, k[i].block);
        uint8_t *second = uvcci_sent_at(r, ROUND_OPEN, 0, UVCCI_SECOND, k[i].block);
        if (k[i].role == UVCC_HEAD)
            uvcci_set_sr_open_head(&k[i], second);
        else
            uvcci_set_sr_open(&k[i], value_of(b), first, second);
    }
    return true;
}

static void send_components(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    const uvcc_shares out = uvcci_part_of(b, r->op->desc.out[0]);
    uint32_t n;
    uvcc_block *k =
        uvcci_add_op_blocks(b, UVCC_TASK_SR_SEND, 0, UVCCI_ROLE_HEAD | UVCCI_ROLE_OTHER, &n);
    if (k != NULL)
        uvcci_last_task(b)->u.vec.gap = uvcci_piece_gap();
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *first = uvcci_rx_at(r, ROUND_OPEN, 0, UVCCI_FIRST, k[i].block);
        const uint8_t *second = uvcci_rx_at(r, ROUND_OPEN, 0, UVCCI_SECOND, k[i].block);
        if (k[i].role == UVCC_HEAD)
            uvcci_set_sr_send_head(&k[i], value_of(b), first, second, &out,
                                   uvcci_sent_at(r, ROUND_SEND, 0, UVCCI_FIRST, k[i].block),
                                   uvcci_sent_at(r, ROUND_SEND, 0, UVCCI_SECOND, k[i].block));
        else
            uvcci_set_sr_send_other(&k[i], first, second, out.lo,
                                    uvcci_sent_at(r, ROUND_SEND, 0, UVCCI_SECOND, k[i].block));
    }
}

static void finish(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    const uvcc_shares out = uvcci_part_of(b, r->op->desc.out[0]);
    uint32_t n;
    uvcc_block *k =
        uvcci_add_op_blocks(b, UVCC_TASK_SR_FINISH, 0, UVCCI_ROLE_TAIL | UVCCI_ROLE_OTHER, &n);
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *first = uvcci_rx_at(r, ROUND_SEND, 0, UVCCI_FIRST, k[i].block);
        const uint8_t *bits = first + (size_t)k[i].count * 8 + uvcci_piece_gap();
        if (k[i].role == UVCC_OTHER)
            uvcci_set_sr_finish_other(&k[i], out.lo, first, bits, &out);
        else
            uvcci_set_sr_finish_tail(&k[i], first,
                                     uvcci_rx_at(r, ROUND_SEND, 0, UVCCI_SECOND, k[i].block), &out);
    }
}

static bool build(uvcci_builder *b) {
    assert(b->r->turn <= b->r->plan->turns && b->r->plan->turns == 2);
    if (b->r->turn == 0) {
        if (!open_value(b))
            return false;
    } else if (b->r->turn == 1) {
        send_components(b);
    } else {
        finish(b);
    }
    return uvcci_end_turn(b);
}

static const uvcci_op_way rounding_way = {.state_bytes = sizeof(rounding_state),
                                          .tensor_bytes = tensor_bytes,
                                          .message_words = message_words,
                                          .piece_words = piece_words,
                                          .build = build,
                                          .release = release};

/* ---- of shares ---- */

static bool send_halves(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    uint32_t n;
    if (!uvcci_ensure_outputs(b))
        return false;
    const uvcc_shares x = uvcci_part_of(b, r->op->desc.in[0]);
    const uvcc_shares out = uvcci_part_of(b, r->op->desc.out[0]);
    uvcc_block *k = uvcci_add_op_blocks(b, UVCC_TASK_SR2_SEND, 0, UVCCI_ROLE_ALL, &n);
    if (k != NULL)
        uvcci_last_task(b)->u.vec.gap = uvcci_piece_gap();
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *first = uvcci_sent_at(r, 0, 0, UVCCI_FIRST, k[i].block);
        uint8_t *second = uvcci_sent_at(r, 0, 0, UVCCI_SECOND, k[i].block);
        const bool head = k[i].role == UVCC_HEAD;
        uvcci_set_sr2_send(&k[i], &x, head ? first : second, head ? second : NULL);
        if (head)
            uvcci_set_sr2_out(&k[i], &out);
    }
    return true;
}

static void join_halves(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    const uvcc_shares x = uvcci_part_of(b, r->op->desc.in[0]);
    const uvcc_shares out = uvcci_part_of(b, r->op->desc.out[0]);
    uint32_t n;
    uvcc_block *k =
        uvcci_add_op_blocks(b, UVCC_TASK_SR2_FINISH, 0, UVCCI_ROLE_TAIL | UVCCI_ROLE_OTHER, &n);
    if (k != NULL)
        uvcci_last_task(b)->u.vec.gap = uvcci_piece_gap();
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_sr2_finish(&k[i], &x, uvcci_rx_at(r, 0, 0, UVCCI_FIRST, k[i].block),
                             uvcci_rx_at(r, 0, 0, UVCCI_SECOND, k[i].block));
        uvcci_set_sr2_out(&k[i], &out);
    }
}

static bool build2(uvcci_builder *b) {
    assert(b->r->turn <= b->r->plan->turns && b->r->plan->turns == 1);
    if (b->r->turn != 0)
        join_halves(b);
    else if (!send_halves(b))
        return false;
    return uvcci_end_turn(b);
}

static const uvcci_op_way rounding2_way = {
    .message_words = message2_words, .piece_words = piece_words, .build = build2};
