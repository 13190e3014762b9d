/* op_circuits.c - RELU ops without keys in a session: the rounds of circuit.h, turn by turn.
 *
 * Stage k finishes round k - 1 from what came and sends round k; the call of a task is its round. A
 * block's state lives from its first turn to the run's end. */
#include "exec/runtime/builder.h"

enum { BOTH = UVCC_BOOL_BIT | UVCC_BOOL_PRODUCT, PRODUCT = 0, BIT = 1 /* of the outputs */ };

static size_t state_bytes(const uvcci_instance *r) {
    const uvcci_plan *p = r->plan;
    size_t words = uvcci_circuit_state_words(&p->circuit, UVCC_BLOCK_ELEMS);
    return p->blocks * words * 8;
}

static uint64_t *state_of(const uvcci_instance *r, uint32_t block) {
    return r->circuit +
           (size_t)block * uvcci_circuit_state_words(&r->plan->circuit, UVCC_BLOCK_ELEMS);
}

void uvcci_circuit_free(uvcc_session *s, uvcci_instance *r) {
    if (r->circuit != NULL)
        uvcci_arena_give(&s->tensors, r->circuit, state_bytes(r));
    r->circuit = NULL;
}

/* Bytes between the data of two TLVs of one message. */
static uint8_t gap(void) {
    const uvcc_tlv t = {.type = UVCC_TLV_RESHARE_U64VEC, .bits = 64, .count = UVCC_BLOCK_ELEMS};
    return (uint8_t)(uvcc_tlv_bytes(&t) - uvcc_tlv_data_bytes(&t));
}

/* The blocks of a task of a round, with x and the state. */
static uvcc_block *add_blocks(uvcci_builder *b, uint16_t kind, unsigned round, unsigned want,
                              uint32_t *n) {
    uvcci_instance *r = b->r;
    uvcc_block *k = uvcci_add_blocks(b, kind, (uint16_t)round, UVCCI_ROLE_ALL, r->plan->elems, n);
    if (k == NULL)
        return NULL;
    uvcc_task *t = &r->tasks[r->task_count - 1];
    const uvcc_shares *x = uvcci_shares_of(b->s, r->op->desc.in[0]);
    t->u.vec.shift = (uint8_t)round;
    t->u.vec.gate = (uint8_t)want;
    t->u.vec.gap = gap();
    for (uint32_t i = 0; i < *n; i++) {
        k[i].in[0] = x->lo + uvcci_at_block(&k[i]);
        k[i].in[1] = x->hi + uvcci_at_block(&k[i]);
        k[i].in[2] = k[i].out[0] = state_of(r, k[i].block);
    }
    return k;
}

static uint64_t *out_of(const uvcci_builder *b, unsigned output, bool hi, const uvcc_block *k) {
    const uvcc_shares *out = uvcci_shares_of(b->s, b->r->op->desc.out[output]);
    return (hi ? out->hi : out->lo) + uvcci_at_block(k);
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
        k[i].wire_out[0] = r->out[0].span[0][0][k[i].block];
        k[i].wire_out[1] = r->out[0].span[0][1][k[i].block];
        if (!last || k[i].role == UVCC_HEAD)
            continue;
        k[i].wire_out[1] = k[i].wire_out[0] + (size_t)k[i].count * 8 + gap();
        k[i].out[0] = out_of(b, PRODUCT, k[i].role == UVCC_OTHER, &k[i]);
        k[i].out[1] = out_of(b, BIT, k[i].role == UVCC_OTHER, &k[i]);
    }
}

/* One of the two values of the last round. */
static void finish_value(uvcci_builder *b, unsigned round, unsigned output) {
    uvcci_instance *r = b->r;
    uint32_t n;
    uvcc_block *k = add_blocks(b, UVCC_TASK_BOOL_SELECT_FINISH, round,
                               output == BIT ? UVCC_BOOL_BIT : UVCC_BOOL_PRODUCT, &n);
    for (uint32_t i = 0; i < n; i++) {
        const size_t second = (size_t)k[i].count * 8 + gap();
        const size_t skip = output == BIT ? second : 0;
        k[i].out[0] = out_of(b, output, false, &k[i]);
        k[i].out[1] = out_of(b, output, true, &k[i]);
        k[i].wire_in[0] = uvcci_rx_at(r, round, 0, 0, k[i].block) + skip;
        if (k[i].role == UVCC_HEAD)
            k[i].wire_in[1] = uvcci_rx_at(r, round, 0, 1, k[i].block) + skip;
        else if (output == PRODUCT)
            k[i].wire_in[1] = k[i].wire_in[0] + second;
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
        for (unsigned slot = 0; slot < 2; slot++)
            k[i].wire_in[slot] = uvcci_rx_at(r, round, 0, slot, k[i].block);
}

bool uvcci_circuit_build(uvcci_builder *b) {
    uvcc_session *s = b->s;
    uvcci_instance *r = b->r;
    if (r->turn == 0) {
        r->circuit = uvcci_arena_take(&s->tensors, state_bytes(r));
        if (r->circuit == NULL)
            return false;
        for (unsigned i = 0; i < r->op->desc.out_count; i++)
            if (!uvcci_ensure_buffer(s, r->op->desc.out[i]))
                return false;
    } else {
        finish_round(b, r->turn - 1u);
    }
    if (r->turn < r->plan->turns)
        send_round(b, r->turn);
    uvcci_hash_payloads(b);
    uvcci_end_hashes(b);
    return !b->failed;
}
