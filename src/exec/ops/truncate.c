/* SPDX-License-Identifier: Apache-2.0 */
/* truncate.c - floor(x / 2^shift), exactly (by a DPF or a DCF) or stochastically: the op TRUNCATE,
 * and what ends a product with a shift. */
#include "exec/ops/truncate.h"

#include "exec/ops/families.h"
#include "exec/ops/operands.h"
#include "exec/ops/rounding.h"
#include "exec/ops/tasks.h"
#include "exec/program/op_check.h"
#include "exec/program/plan_maker.h"

#include <assert.h>

/* ---- the gate ---- */

static uint8_t gate_of(uint8_t truncation) {
    static const uint8_t gates[] = {[UVCC_TRUNC_EXACT] = UVCC_GATE_TRUNC_ARS,
                                    [UVCC_TRUNC_STOCHASTIC] = UVCC_GATE_TRUNC_SR,
                                    [UVCC_TRUNC_EXACT_DCF] = UVCC_GATE_TRUNC_DCF};
    assert(truncation < sizeof gates);
    return gates[truncation];
}

/* A DPF's bit takes a round to convert, a DCF's is a share at once. What is 3-additive and rounded
 * stochastically is opened by HEAD alone, without keys. */
void uvcci_truncation_plan(uvcci_draft *d, uvcci_protocol open) {
    uvcci_plan *plan = d->plan;
    const uvcc_op_desc *op = &d->op->desc;
    assert(op->shift != 0 && op->shift <= UVCCI_MAX_BITS);
    if (open == UVCCI_PROTO_OPEN4 && uvcci_rounding_plan(d))
        return;
    plan->compact = open == UVCCI_PROTO_OPEN4;
    plan->shift = plan->bits = op->shift;
    plan->gate = gate_of(op->truncation);
    uvcci_gate_plan(d, open, UVCCI_STREAM_TRUNC, plan->gate == UVCC_GATE_TRUNC_ARS, 1);
}

/* Takes the comparison bit off the share; the key streams begin with the DCF's key. */
static bool build_floor(uvcci_builder *b, uvcci_gate *g) {
    uvcci_instance *r = b->r;
    uint32_t n;
    uvcc_fn_args *args = uvcci_bump_take(&r->turn_bump, sizeof *args);
    uvcc_block *k = uvcci_add_op_blocks(b, UVCC_TASK_FN_FLOOR, 0, UVCCI_ROLE_EDGE, &n);
    if (args == NULL)
        return false;
    *args = (uvcc_fn_args){.shift = r->plan->shift};
    if (n != 0)
        uvcci_last_task(b)->u.vec.fn = args;
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_floor(&k[i], g->value, uvcci_key_of(r, 0, k[i].block), g->share);
    }
    return true;
}

/* The opened bit corrects the share; what comes out stands where the opened value stood. */
static void build_correction(uvcci_builder *b, uvcci_gate *g) {
    uvcci_instance *r = b->r;
    const unsigned round = (unsigned)r->plan->bit_round;
    uint32_t n;
    uvcc_block *k = uvcci_add_op_blocks(b, UVCC_TASK_TRUNC_EXACT, 0, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_trunc_exact(&k[i], g->share, uvcci_gate_bits(g, k[i].block),
                              uvcci_rx_at(r, round, 0, UVCCI_FIRST, k[i].block),
                              uvcci_key_of(r, 0, k[i].block), g->value);
    }
}

static bool evaluate(uvcci_builder *b, uvcci_gate *g) {
    uvcci_instance *r = b->r;
    uint32_t n;
    uvcc_block *k = uvcci_add_op_blocks(b, UVCC_TASK_TRUNC, 0, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_trunc(&k[i], g->value, uvcci_key_of(r, 0, k[i].block), g->share);
    }
    if (r->plan->gate == UVCC_GATE_TRUNC_DCF)
        return build_floor(b, g);
    if (r->plan->bit_round >= 0)
        build_correction(b, g);
    return true;
}

static const uint64_t *share(const uvcci_instance *r, const uvcci_gate *g, unsigned i) {
    assert(i == 0);
    return r->plan->gate == UVCC_GATE_TRUNC_ARS ? g->value : g->share;
}

/* |x| < 2^62 is opened as x + 2^62, which is not negative. */
const uvcci_gate_kind uvcci_truncation = {
    .lifted = 1, .open_offset = 1ull << UVCCI_MAX_BITS, .evaluate = evaluate, .share = share};

/* ---- TRUNCATE ---- */

static int check_truncate(const uvcci_op_check *c) {
    const uvcc_tensor_desc *x = c->in[0], *z = c->out[0];
    if (c->d->shift == 0)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s: a truncation by 0 bits; leave the op out",
                          c->label);
    int err = uvcci_want_same_shape(c, z, x);
    if (err == 0)
        err = uvcci_want_scale(c, z, x->scale - c->d->shift);
    if (err == 0)
        err = uvcci_want_bits(c, x->bits, "the truncation");
    return err;
}

static int plan_truncate(uvcci_draft *d) {
    const uvcc_tensor_desc *x = &d->p->tensors[d->op->desc.in[0]].desc;
    const bool additive = x->sharing == UVCC_ADDITIVE;
    if (additive || !uvcci_rounding2_plan(d, x->bits))
        uvcci_truncation_plan(d, additive ? UVCCI_PROTO_OPEN4 : UVCCI_PROTO_OPEN2);
    return 0;
}

static bool build_truncate(uvcci_builder *b) {
    uvcci_gate *g = b->r->state;
    const uvcc_shares x = uvcci_part_of(b, b->r->op->desc.in[0]);
    assert(g != NULL);
    if (b->r->turn != 0)
        return uvcci_gate_build(b, g, &uvcci_truncation);
    return uvcci_ensure_outputs(b) &&
           (b->r->plan->compact ? uvcci_gate_open4(b, g, x.lo) : uvcci_gate_open2(b, g, &x)) &&
           uvcci_end_turn(b);
}

static void release_truncate(uvcc_session *s, uvcci_instance *r) {
    uvcci_gate_release(s, r, r->state);
}

static const uvcci_op_way truncate_way = {.state_bytes = sizeof(uvcci_gate),
                                          .tensor_bytes = uvcci_gate_tensor_bytes,
                                          .key_bytes = uvcci_gate_key_bytes,
                                          .build = build_truncate,
                                          .release = release_truncate,
                                          .deal_tasks = uvcci_gate_deal_tasks,
                                          .deal = uvcci_gate_deal};

static const uvcci_op_class classes[] = {
    {.opcode = UVCC_OP_TRUNCATE,
     .traits = UVCCI_WORKS_IN_PLACE | UVCCI_USES_SHIFT | UVCCI_TRUNCATES,
     .in = {UVCCI_TAKES_BOTH},
     .check = check_truncate,
     .units = uvcci_units_of_elements,
     .plan = plan_truncate,
     .way = &truncate_way},
};
const uvcci_op_family uvcci_ops_truncate = UVCCI_FAMILY(classes);
