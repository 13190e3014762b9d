/* SPDX-License-Identifier: Apache-2.0 */
/* collectives.c - ops that exchange shares with this party's other workers: SEND_PP and RECV_PP
 * with the neighbouring stages, REDUCE_SCATTER and ALL_GATHER in a group. Each is one job for the
 * local plane, which the host carries to them. Nothing goes to another party, so there are no
 * leaves and no rounds. */
#include "exec/ops/families.h"
#include "exec/program/op_check.h"
#include "exec/program/op_way.h"
#include "exec/runtime/builder.h"

#include <assert.h>
#include <stddef.h>

/* ---- what they ask of their places and tensors ---- */

/* There must be a neighbour on that side, and one op of either kind in a slot. */
static int check_neighbour(const uvcci_op_check *c) {
    const bool send = c->d->in_count != 0, fwd = c->d->phase == UVCC_FWD;
    const int bad = UVCC_ERR_PROGRAM;
    assert(c->d->in_count + c->d->out_count == 1);
    if (c->d->phase == UVCC_UPD)
        return uvcci_fail(c->m, bad, "%s: stages exchange tensors in FWD and BWD only", c->label);
    if (send == fwd ? c->e->stage + 1 == c->e->stages : c->e->stage == 0)
        return uvcci_fail(c->m, bad, "%s: stage %u of %u has no neighbour on that side", c->label,
                          c->e->stage, c->e->stages);
    /* those of its slot stand right before it: (phase, mb, k) rises */
    _Static_assert(offsetof(uvcci_op, desc) == 0, "an op is where its description is");
    const uvcci_op *first = &c->p->user_ops[c->e->user_first];
    for (const uvcci_op *o = (const uvcci_op *)(const void *)c->d; o != first; o--) {
        const uvcc_op_desc *before = &o[-1].desc;
        if (before->phase != c->d->phase || before->mb != c->d->mb)
            break;
        if (before->opcode == c->d->opcode)
            return uvcci_fail(c->m, bad, "%s: a microbatch's phase has one op of this kind",
                              c->label);
    }
    return 0;
}

/* The gradient of an activation that this stage sends comes after it left: its buffer is not needed
 * before that. */
static uint32_t follows_sent_activation(const uvcci_entry *e, uint32_t op) {
    const uvcc_op_desc *d = &e->ops[op].desc;
    const uint64_t slot = (uint64_t)d->mb << 16; /* of FWD */
    if (d->phase != UVCC_BWD)
        return UVCCI_NO_OP;
    for (uint32_t at = uvcci_ordinal_from(e, slot); at < e->op_count; at++) {
        const uint32_t i = e->by_ordinal[at];
        if (uvcci_op_key(&e->ops[i].desc) >> 16 != slot >> 16)
            break;
        if (e->ops[i].desc.opcode == UVCC_OP_SEND_PP)
            return i;
    }
    return UVCCI_NO_OP;
}

/* The whole has as many elements as the group's slices together. */
static int check_group(const uvcci_op_check *c, bool sum) {
    const uvcc_tensor_desc *x = c->in[0], *z = c->out[0];
    const uvcc_tensor_desc *whole = sum ? x : z, *slice = sum ? z : x;
    const uint32_t size = uvcci_group_size(c->p, c->d->group);
    const unsigned bits = x->bits + (sum ? uvcci_ceil_log2(size) : 0);
    assert(size != 0); /* fields are checked before */
    if ((uint64_t)slice->rows * slice->cols * size != (uint64_t)whole->rows * whole->cols)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                          "%s: %s is %u x %u; %u slices of %s, %u x %u, do not make that", c->label,
                          whole->name, whole->rows, whole->cols, size, slice->name, slice->rows,
                          slice->cols);
    if (x->sharing != z->sharing)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s: %s and %s are not shared in the same way",
                          c->label, x->name, z->name);
    int err = uvcci_want_scale(c, z, x->scale);
    if (err == 0)
        err = uvcci_want_bits(c, bits, "bits + log2(group)");
    if (err == 0 && z->bits < bits)
        err = uvcci_fail(c->m, UVCC_ERR_BOUND, "%s: %s declares %u bits, but needs %u", c->label,
                         z->name, z->bits, bits);
    return err;
}

static int check_reduce_scatter(const uvcci_op_check *c) {
    return check_group(c, true);
}

static int check_all_gather(const uvcci_op_check *c) {
    return check_group(c, false);
}

/* ---- the turn ---- */

static uvcc_shares shares_as(uvcc_session *s, uint32_t tensor) {
    uvcc_shares x = *uvcci_shares_of(s, tensor);
    if (s->program->tensors[tensor].desc.sharing == UVCC_ADDITIVE)
        x.hi = NULL;
    return x;
}

/* One task; it names the op by where it stands in the job, so that all members mean the same. */
static bool build(uvcci_builder *b) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_op_class *c = b->r->plan->cls;
    assert(c->opcode == d->opcode && b->r->turn == 0 && b->r->plan->turns == 0);
    if (!uvcci_ensure_outputs(b))
        return false;
    uvcc_task *t = uvcci_add_task(b, UVCC_TASK_COLLECTIVE, 0);
    if (t == NULL)
        return false;
    t->u.collective.op = c->detail;
    t->u.collective.group = (c->traits & UVCCI_USES_GROUP) != 0 ? d->group : UVCC_GROUP_PP;
    t->u.collective.phase = d->phase;
    t->u.collective.mb = d->mb;
    t->u.collective.k = d->k;
    t->u.collective.step = b->r->step->number;
    if (d->in_count != 0)
        t->u.collective.in = shares_as(b->s, d->in[0]);
    if (d->out_count != 0)
        t->u.collective.out = shares_as(b->s, d->out[0]);
    const bool by_out = d->in_count == 0 || c->detail == UVCC_COLLECTIVE_ALL_GATHER;
    t->u.collective.elems = b->s->program->tensors[by_out ? d->out[0] : d->in[0]].elems;
    return true;
}

/* ---- the family ---- */

static const uvcci_op_way way = {.build = build};

static const uvcci_op_class classes[] = {
    {.opcode = UVCC_OP_SEND_PP,
     .traits = UVCCI_IS_COLLECTIVE | UVCCI_FEEDS_NEIGHBOUR | UVCCI_MEETS_NEIGHBOUR,
     .detail = UVCC_COLLECTIVE_SEND,
     .check = check_neighbour,
     .way = &way},
    {.opcode = UVCC_OP_RECV_PP,
     .traits = UVCCI_IS_COLLECTIVE | UVCCI_MEETS_NEIGHBOUR,
     .detail = UVCC_COLLECTIVE_RECV,
     .check = check_neighbour,
     .follows = follows_sent_activation,
     .way = &way},
    {.opcode = UVCC_OP_REDUCE_SCATTER,
     .traits = UVCCI_IS_COLLECTIVE | UVCCI_USES_GROUP,
     .detail = UVCC_COLLECTIVE_REDUCE_SCATTER,
     .in = {UVCCI_TAKES_BOTH},
     .out = UVCCI_TAKES_BOTH,
     .check = check_reduce_scatter,
     .way = &way},
    {.opcode = UVCC_OP_ALL_GATHER,
     .traits = UVCCI_IS_COLLECTIVE | UVCCI_USES_GROUP,
     .detail = UVCC_COLLECTIVE_ALL_GATHER,
     .in = {UVCCI_TAKES_BOTH},
     .out = UVCCI_TAKES_BOTH,
     .check = check_all_gather,
     .way = &way},
};
const uvcci_op_family uvcci_ops_collectives = UVCCI_FAMILY(classes);
