/* SPDX-License-Identifier: Apache-2.0 */
/* circuits.c - RELU ops without keys in a session: the rounds of circuit.h, turn by turn.
 *
 * Turn k finishes round k - 1 from what came and sends round k; the call of a task is its round. A
 * block's words live from its first turn to the op's end. */
#include "exec/ops/circuits.h"

#include "exec/ops/operands.h"
#include "exec/ops/tasks.h"

#include <assert.h>

enum { BOTH = UVCC_BOOL_BIT | UVCC_BOOL_PRODUCT, PRODUCT = 0, BIT = 1 /* of the outputs */ };

typedef struct circuit_state {
    uint64_t *words; /* of all blocks, one after the other; TENSOR memory */
} circuit_state;

/* ---- plan ---- */

/* One vector a round; its ids are not sent: the first gives the edges, each gives a round its
 * engines. */
void uvcci_circuit_rounds(uvcci_draft *d) {
    uvcci_plan *plan = d->plan;
    plan->way = &uvcci_circuit_way;
    plan->circuit = uvcci_circuit_plan_of(plan->bits);
    plan->per_block_edge = true;
    for (unsigned round = 0; round < plan->circuit.rounds; round++) {
        bool head = round == 0 || round > plan->circuit.levels;
        uvcci_protocol protocol = head                            ? UVCCI_PROTO_CIRCUIT_HEAD
                                  : round == plan->circuit.levels ? UVCCI_PROTO_CIRCUIT_TOP
                                                                  : UVCCI_PROTO_RESHARE;
        uint8_t id =
            uvcci_draft_id(d, true, UVCCI_STREAM_MASK, (uint16_t)round, round == 0, plan->blocks);
        uvcci_draft_vec(d, uvcci_draft_turn(d), protocol, 0, id, 64);
    }
}

static uint32_t message_words(const uvcci_plan *plan, const uvcci_plan_round *r, uvcc_role from,
                              uvcc_role to, uint32_t count) {
    return uvcci_circuit_message_words(&plan->circuit, BOTH, r->turn, from, to, count);
}

static uint32_t piece_words(const uvcci_plan *plan, const uvcci_plan_round *r, uint32_t count) {
    return uvcci_circuit_piece_words(&plan->circuit, r->turn, count);
}

/* ---- turns ---- */

static size_t block_words(const uvcci_instance *r) {
    return uvcci_circuit_state_words(&r->plan->circuit, UVCC_BLOCK_ELEMS);
}

static circuit_state *state_of(const uvcci_instance *r) {
    assert(r->state != NULL);
    return r->state;
}

static uint64_t *words_of(const uvcci_instance *r, uint32_t block) {
    assert(state_of(r)->words != NULL && block < r->plan->blocks);
    return state_of(r)->words + block * block_words(r);
}

static void release(uvcc_session *s, uvcci_instance *r) {
    uvcci_give_words(s, &state_of(r)->words, r->plan->blocks * block_words(r));
}

/* The blocks of a task of a round, with x and the state. */
static uvcc_block *add_blocks(uvcci_builder *b, uint16_t kind, unsigned round, unsigned want,
                              uint32_t *n) {
    uvcci_instance *r = b->r;
    uvcc_block *k = uvcci_add_op_blocks(b, kind, (uint16_t)round, UVCCI_ROLE_ALL, n);
    if (k == NULL)
        return NULL;
    uvcc_task *t = uvcci_last_task(b);
    const uvcc_shares x = uvcci_part_of(b, r->op->desc.in[0]);
    t->u.vec.shift = (uint8_t)round;
    t->u.vec.gate = (uint8_t)want;
    t->u.vec.gap = uvcci_piece_gap();
    for (uint32_t i = 0; i < *n; i++)
        uvcci_set_circuit(&k[i], &x, words_of(r, k[i].block));
    return k;
}

static uint64_t *out_of(const uvcci_builder *b, unsigned output, bool hi, const uvcc_block *k) {
    const uvcc_shares out = uvcci_part_of(b, b->r->op->desc.out[output]);
    return (hi ? out.hi : out.lo) + uvcci_at_block(k);
}

/* From the product to the bit in a message of the last round. */
static size_t value_bytes(const uvcc_block *k) {
    return (size_t)k->count * 8 + uvcci_piece_gap();
}

static bool in_tree(const uvcci_instance *r, unsigned round) {
    return round >= 1 && round <= r->plan->circuit.levels;
}

static void send_round(uvcci_builder *b, unsigned round) {
    uvcci_instance *r = b->r;
    uint32_t n;
    bool last = round + 1u == r->plan->circuit.rounds;
    uint16_t kind = in_tree(r, round) ? UVCC_TASK_BOOL_MERGE
                    : last            ? UVCC_TASK_BOOL_SELECT_MASK
                                      : UVCC_TASK_BOOL_SHARE;
    uvcc_block *k = add_blocks(b, kind, round, BOTH, &n);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *first = uvcci_sent_at(r, round, 0, UVCCI_FIRST, k[i].block);
        uvcci_set_circuit_sent(&k[i], first, uvcci_sent_at(r, round, 0, UVCCI_SECOND, k[i].block));
        if (!last || k[i].role == UVCC_HEAD)
            continue;
        /* both values in one message; TAIL keeps the lo of its shares, OTHER the hi */
        const bool hi = k[i].role == UVCC_OTHER;
        uvcci_set_circuit_sent(&k[i], first, first + value_bytes(&k[i]));
        uvcci_set_circuit_out(&k[i], out_of(b, PRODUCT, hi, &k[i]), out_of(b, BIT, hi, &k[i]));
    }
}

/* One of the two values of the last round. */
static void finish_value(uvcci_builder *b, unsigned round, unsigned output) {
    uvcci_instance *r = b->r;
    uint32_t n;
    uvcc_block *k = add_blocks(b, UVCC_TASK_BOOL_SELECT_FINISH, round,
                               output == BIT ? UVCC_BOOL_BIT : UVCC_BOOL_PRODUCT, &n);
    for (uint32_t i = 0; i < n; i++) {
        const size_t skip = output == BIT ? value_bytes(&k[i]) : 0;
        const uint8_t *first = uvcci_rx_at(r, round, 0, UVCCI_FIRST, k[i].block) + skip;
        const uint8_t *second = output == PRODUCT ? first + value_bytes(&k[i]) : NULL;
        if (k[i].role == UVCC_HEAD) /* two messages */
            second = uvcci_rx_at(r, round, 0, UVCCI_SECOND, k[i].block) + skip;
        uvcci_set_circuit_came(&k[i], first, second);
        uvcci_set_circuit_out(&k[i], out_of(b, output, false, &k[i]),
                              out_of(b, output, true, &k[i]));
    }
}

static void finish_round(uvcci_builder *b, unsigned round) {
    uvcci_instance *r = b->r;
    uint32_t n;
    if (round + 1u == r->plan->circuit.rounds) {
        finish_value(b, round, BIT);
        finish_value(b, round, PRODUCT);
        return;
    }
    uint16_t kind = in_tree(r, round) ? UVCC_TASK_BOOL_RECEIVE : UVCC_TASK_BOOL_JOIN;
    uvcc_block *k = add_blocks(b, kind, round, 0, &n);
    for (uint32_t i = 0; i < n; i++)
        uvcci_set_circuit_came(&k[i], uvcci_rx_at(r, round, 0, UVCCI_FIRST, k[i].block),
                               uvcci_rx_at(r, round, 0, UVCCI_SECOND, k[i].block));
}

static bool build(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    assert(r->turn <= r->plan->turns && r->plan->turns == r->plan->circuit.rounds);
    if (r->turn != 0)
        finish_round(b, r->turn - 1u);
    else if (!uvcci_take_words(b->s, &state_of(r)->words, r->plan->blocks * block_words(r)) ||
             !uvcci_ensure_outputs(b))
        return false;
    if (r->turn < r->plan->turns)
        send_round(b, r->turn);
    return uvcci_end_turn(b);
}

static uint64_t tensor_bytes(const uvcc_program *p, const uvcci_op *op, const uvcci_plan *plan) {
    (void)p;
    (void)op;
    return uvcci_arena_rounded(plan->blocks *
                               uvcci_circuit_state_words(&plan->circuit, UVCC_BLOCK_ELEMS) * 8);
}

const uvcci_op_way uvcci_circuit_way = {.state_bytes = sizeof(circuit_state),
                                        .tensor_bytes = tensor_bytes,
                                        .message_words = message_words,
                                        .piece_words = piece_words,
                                        .build = build,
                                        .release = release};
