/* SPDX-License-Identifier: Apache-2.0 */
/* relu.c - RELU: (x) -> (d x, d) with d = [x >= 0], by a gate on DPF keys, or by a circuit without
 * keys (circuits.c). */
#include "exec/ops/circuits.h"
#include "exec/ops/families.h"
#include "exec/ops/gate.h"
#include "exec/ops/operands.h"
#include "exec/ops/tasks.h"
#include "exec/program/op_check.h"
#include "exec/program/plan_maker.h"

#include <assert.h>

enum { PRODUCT = 0, SIGN = 1 }; /* outputs */

static int check(const uvcci_op_check *c) {
    const uvcc_tensor_desc *x = c->in[0], *y = c->out[PRODUCT], *d = c->out[SIGN];
    int err = uvcci_want_same_shape(c, y, x);
    if (err == 0)
        err = uvcci_want_same_shape(c, d, x);
    if (err == 0)
        err = uvcci_want_scale(c, y, x->scale);
    if (err == 0)
        err = uvcci_want_scale(c, d, 0);
    if (err == 0 && d->bits != 1)
        err = uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s: %s holds 0 or 1 and must declare 1 bit",
                         c->label, d->name);
    if (err == 0)
        err = uvcci_want_bits(c, x->bits, "the comparison");
    return err;
}

/* |x| < 2^bits: x has bits + 1 bits, of which `bits` are compared. */
static int plan(uvcci_draft *d) {
    d->plan->bits = d->p->tensors[d->op->desc.in[0]].desc.bits;
    assert(d->plan->bits >= 1 && d->plan->bits <= UVCCI_MAX_BITS);
    if ((d->op->desc.flags & UVCC_OP_CIRCUIT) != 0) {
        uvcci_circuit_rounds(d);
        return 0;
    }
    d->plan->gate = UVCC_GATE_RELU;
    uvcci_gate_plan(d, UVCCI_PROTO_OPEN2, UVCCI_STREAM_MASK, true, 2);
    return 0;
}

/* ---- the gate ---- */

/* Shares of both outputs, from the opened value and the opened bit. */
static bool evaluate(uvcci_builder *b, uvcci_gate *g) {
    uvcci_instance *r = b->r;
    const unsigned round = (unsigned)r->plan->bit_round;
    uint32_t n;
    if (!uvcci_take_words(b->s, &g->sign, r->plan->elems))
        return false;
    uvcc_block *k = uvcci_add_op_blocks(b, UVCC_TASK_RELU, 0, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_relu(&k[i], g->value, uvcci_gate_bits(g, k[i].block),
                       uvcci_rx_at(r, round, 0, UVCCI_FIRST, k[i].block),
                       uvcci_key_of(r, 0, k[i].block), g->share, g->sign);
    }
    return true;
}

static const uint64_t *share(const uvcci_instance *r, const uvcci_gate *g, unsigned i) {
    (void)r;
    assert(i <= SIGN);
    return i == PRODUCT ? g->share : g->sign;
}

static const uvcci_gate_kind kind = {.lifted = 2, .evaluate = evaluate, .share = share};

static bool build(uvcci_builder *b) {
    uvcci_gate *g = b->r->state;
    assert(g != NULL);
    if (b->r->turn != 0)
        return uvcci_gate_build(b, g, &kind);
    const uvcc_shares x = uvcci_part_of(b, b->r->op->desc.in[0]);
    return uvcci_ensure_outputs(b) && uvcci_gate_open2(b, g, &x) && uvcci_end_turn(b);
}

static void release(uvcc_session *s, uvcci_instance *r) {
    uvcci_gate_release(s, r, r->state);
}

/* ---- the family ---- */

static const uvcci_op_way way = {.state_bytes = sizeof(uvcci_gate),
                                 .tensor_bytes = uvcci_gate_tensor_bytes,
                                 .key_bytes = uvcci_gate_key_bytes,
                                 .build = build,
                                 .release = release,
                                 .deal_tasks = uvcci_gate_deal_tasks,
                                 .deal = uvcci_gate_deal};

static const uvcci_op_class classes[] = {
    {.opcode = UVCC_OP_RELU,
     .flags = UVCC_OP_CIRCUIT,
     .check = check,
     .units = uvcci_units_of_elements,
     .plan = plan,
     .way = &way},
};
const uvcci_op_family uvcci_ops_relu = UVCCI_FAMILY(classes);
