/* SPDX-License-Identifier: Apache-2.0 */
/* io.c - INPUT, RANDOM, OUTPUT, OUTPUT_TO: a party's tensor or what nobody chooses becomes shares,
 * a shared tensor is opened to all or to one party. */
#include "exec/ops/families.h"
#include "exec/ops/operands.h"
#include "exec/ops/tasks.h"
#include "exec/program/op_check.h"
#include "exec/program/plan_maker.h"
#include "proto/mutant.h"

#include <assert.h>

enum { ROUND = 0 }; /* the one of either op */

/* ---- INPUT: the owner, HEAD, sends the third component to both others ---- */

static int plan_input(uvcci_draft *d) {
    d->plan->fixed_edge = d->e->inputs[d->op->io].owner;
    uvcci_draft_vector(d, UVCCI_PROTO_INPUT, UVCCI_STREAM_INPUT);
    return 0;
}

static void share_input(uvcci_builder *b, const uvcc_shares *out) {
    const uint64_t *value = uvcci_staged(b->r);
    uint32_t n;
    uvcc_block *k = uvcci_add_op_blocks(b, UVCC_TASK_INPUT, 0, UVCCI_ROLE_HEAD, &n);
    assert(n == 0 || value != NULL);
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_input_shared(&k[i], value, out,
                               uvcci_sent_at(b->r, ROUND, 0, UVCCI_FIRST, k[i].block),
                               uvcci_sent_at(b->r, ROUND, 0, UVCCI_SECOND, k[i].block));
    }
}

static void take_input(uvcci_builder *b, const uvcc_shares *out) {
    uint32_t n;
    uvcc_block *k =
        uvcci_add_op_blocks(b, UVCC_TASK_INPUT, 0, UVCCI_ROLE_TAIL | UVCCI_ROLE_OTHER, &n);
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_input_taken(&k[i], uvcci_rx_at(b->r, ROUND, 0, UVCCI_FIRST, k[i].block), out);
    }
}

static bool build_input(uvcci_builder *b) {
    if (!uvcci_ensure_outputs(b))
        return false;
    const uvcc_shares out = uvcci_part_of(b, b->r->op->desc.out[0]);
    assert(b->r->turn <= 1);
    if (b->r->turn == 0)
        share_input(b, &out);
    else
        take_input(b, &out);
    return uvcci_end_turn(b);
}

/* ---- RANDOM: each component is of the pair that holds it; nobody holds the third ---- */

static int check_random(const uvcci_op_check *c) {
    if (c->d->shift == 0)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s: words of 0 bits; shift says how many",
                          c->label);
    const unsigned bits = c->d->shift + 2u; /* of a sum of three */
    const int err = uvcci_want_bits(c, bits, "a sum of three words");
    if (err == 0 && c->out[0]->bits < bits)
        return uvcci_fail(c->m, UVCC_ERR_BOUND, "%s: %s declares %u bits, but needs %u", c->label,
                          c->out[0]->name, c->out[0]->bits, bits);
    return err;
}

static int plan_random(uvcci_draft *d) {
    d->plan->bits = d->op->desc.shift;
    return 0;
}

static bool build_random(uvcci_builder *b) {
    if (!uvcci_ensure_outputs(b))
        return false;
    const uvcc_shares *out = uvcci_shares_of(b->s, b->r->op->desc.out[0]);
    uint32_t n;
    uvcc_block *k = uvcci_add_op_blocks(b, UVCC_TASK_RANDOM, 0, UVCCI_ROLE_ALL, &n);
    if (UVCCI_MUTANT(37) && !b->failed)
        b->r->tasks[b->r->task_count - 1].ordinal = 0;
    for (uint32_t i = 0; i < n; i++)
        uvcci_set_mask(&k[i], out->lo, out->hi);
    return !b->failed;
}

/* ---- OUTPUT ---- */

typedef struct output_state {
    uint64_t *lacked; /* the component that came, to compare with what its other holder hashed */
} output_state;

static output_state *output_of(const uvcci_instance *r) {
    assert(r->state != NULL);
    return r->state;
}

/* Where the segment's part of the opened value goes. */
static uint64_t *value_of(const uvcci_instance *r) {
    assert(r->step->output[r->op->io] != NULL);
    return (uint64_t *)r->step->output[r->op->io] + r->first;
}

static int plan_output(uvcci_draft *d) {
    uvcci_draft_vector(d, UVCCI_PROTO_OPEN_ALL, UVCCI_STREAM_OUT);
    return 0;
}

static bool open_output(uvcci_builder *b, const uvcc_shares *x) {
    uvcci_task_pack(b, ROUND, x->lo);
    if (!uvcci_hash_held(b, ROUND, b->s->party, x->hi, uvcci_digest_at(b->r, ROUND, 0, UVCCI_PREV)))
        return false;
    uvcci_end_hashes(b); /* the payload's hash covers it */
    return uvcci_end_turn(b);
}

static bool finish_output(uvcci_builder *b, const uvcc_shares *x) {
    uvcci_instance *r = b->r;
    output_state *o = output_of(r);
    uint64_t *value = value_of(r);
    if (!uvcci_take_words(b->s, &o->lacked, r->plan->elems))
        return false;
    uvcci_task_unpack(b, 0, ROUND, o->lacked);
    uvcci_task_open_all_finish(b, 0, ROUND, x, value);
    if (!uvcci_hash_opened_to_all(b, ROUND, o->lacked, value))
        return false;
    uvcci_end_hashes(b);
    return true;
}

static bool build_output(uvcci_builder *b) {
    const uvcc_shares x = uvcci_part_of(b, b->r->op->desc.in[0]);
    assert(b->r->turn <= 1 && x.lo != NULL && x.hi != NULL);
    return b->r->turn == 0 ? open_output(b, &x) : finish_output(b, &x);
}

/* ---- OUTPUT_TO: HEAD, the receiver, gets the component that it lacks ---- */

static int plan_output_to(uvcci_draft *d) {
    d->plan->fixed_edge = d->e->outputs[d->op->io].receiver;
    uvcci_draft_vector(d, UVCCI_PROTO_OPEN_ONE, UVCCI_STREAM_OUT);
    return 0;
}

/* TAIL has it as its second component and sends it; OTHER has it as its first and hashes it. */
static bool send_to_one(uvcci_builder *b, const uvcc_shares *x) {
    const uvcci_role role = uvcci_role_at(b->s, b->r, 0);
    uint32_t n;
    uvcc_block *k = uvcci_add_op_blocks(b, UVCC_TASK_PACK, 0, UVCCI_ROLE_TAIL, &n);
    for (uint32_t i = 0; i < n; i++)
        uvcci_set_pack(&k[i], x->hi, uvcci_sent_at(b->r, ROUND, 0, UVCCI_FIRST, k[i].block));
    if (role == UVCCI_OTHER &&
        !uvcci_hash_held(b, ROUND, b->s->party, x->lo, uvcci_digest_at(b->r, ROUND, 0, UVCCI_NEXT)))
        return false;
    uvcci_end_hashes(b); /* the payload's hash covers it */
    return uvcci_end_turn(b);
}

static bool receive_one(uvcci_builder *b, const uvcc_shares *x) {
    uvcci_instance *r = b->r;
    output_state *o = output_of(r);
    uint64_t *value = value_of(r);
    uint32_t n;
    if (!uvcci_take_words(b->s, &o->lacked, r->plan->elems))
        return false;
    uvcc_block *k = uvcci_add_op_blocks(b, UVCC_TASK_UNPACK, 0, UVCCI_ROLE_HEAD, &n);
    for (uint32_t i = 0; i < n; i++)
        uvcci_set_unpack(&k[i], uvcci_rx_at(r, ROUND, 0, UVCCI_FIRST, k[i].block), o->lacked);
    k = uvcci_add_op_blocks(b, UVCC_TASK_OPEN_ALL_FINISH, 0, UVCCI_ROLE_HEAD, &n);
    for (uint32_t i = 0; i < n; i++)
        uvcci_set_open_all_finish(&k[i], x, uvcci_rx_at(r, ROUND, 0, UVCCI_FIRST, k[i].block),
                                  value);
    if (!uvcci_hash_opened_to_one(b, ROUND, o->lacked, value))
        return false;
    uvcci_end_hashes(b);
    return !b->failed;
}

static bool build_output_to(uvcci_builder *b) {
    const uvcc_shares x = uvcci_part_of(b, b->r->op->desc.in[0]);
    assert(b->r->turn <= 1 && x.lo != NULL && x.hi != NULL);
    if (b->r->turn == 0)
        return send_to_one(b, &x);
    return uvcci_role_at(b->s, b->r, 0) != UVCCI_HEAD || receive_one(b, &x);
}

static void release_output(uvcc_session *s, uvcci_instance *r) {
    uvcci_give_words(s, &output_of(r)->lacked, r->plan->elems);
}

static void output_done(uvcc_session *s, uvcci_instance *r) {
    assert(r->op->io < r->step->entry->output_count);
    const uvcc_io_desc *io = &r->step->entry->outputs[r->op->io];
    if (uvcci_opens_to(io, s->party))
        uvcci_event_push(s, &(uvcc_event){.kind = UVCC_EVENT_OUTPUT,
                                          .run = s->run,
                                          .step = r->step->number,
                                          .id = io->id});
}

/* ---- the family ---- */

static uint64_t output_bytes(const uvcc_program *p, const uvcci_op *op, const uvcci_plan *plan) {
    (void)p;
    (void)op;
    return uvcci_arena_rounded(plan->elems * 8);
}

static const uvcci_op_way input_way = {.ready = uvcci_input_ready, .build = build_input};
static const uvcci_op_way random_way = {.build = build_random};
static const uvcci_op_way output_way = {.state_bytes = sizeof(output_state),
                                        .tensor_bytes = output_bytes,
                                        .build = build_output,
                                        .release = release_output,
                                        .done = output_done};
static const uvcci_op_way output_to_way = {.state_bytes = sizeof(output_state),
                                           .tensor_bytes = output_bytes,
                                           .build = build_output_to,
                                           .release = release_output,
                                           .done = output_done};

static const uvcci_op_class classes[] = {
    {.opcode = UVCC_OP_INPUT,
     .traits = UVCCI_IS_INPUT | UVCCI_PLANS_BY_ENTRY,
     .units = uvcci_units_of_elements,
     .plan = plan_input,
     .way = &input_way},
    {.opcode = UVCC_OP_RANDOM,
     .traits = UVCCI_USES_SHIFT,
     .check = check_random,
     .plan = plan_random,
     .way = &random_way},
    {.opcode = UVCC_OP_OUTPUT,
     .traits = UVCCI_IS_OUTPUT,
     .units = uvcci_units_of_elements,
     .plan = plan_output,
     .way = &output_way},
    {.opcode = UVCC_OP_OUTPUT_TO,
     .traits = UVCCI_IS_OUTPUT | UVCCI_PLANS_BY_ENTRY,
     .units = uvcci_units_of_elements,
     .plan = plan_output_to,
     .way = &output_to_way},
};
const uvcci_op_family uvcci_ops_io = UVCCI_FAMILY(classes);
