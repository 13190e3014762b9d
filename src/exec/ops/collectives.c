/* op_collectives.c - ops that exchange shares with this party's other workers: one job for the
 * local plane, which the host carries to them. Nothing goes to another party, so there are no
 * leaves and no rounds. */
#include "exec/runtime/builder.h"

static uvcc_shares shares_as(uvcc_session *s, uint32_t tensor) {
    uvcc_shares x = *uvcci_shares_of(s, tensor);
    if (s->program->tensors[tensor].desc.sharing == UVCC_ADDITIVE)
        x.hi = NULL;
    return x;
}

bool uvcci_collective_build(uvcci_builder *b) {
    static const struct {
        uint16_t opcode;
        uint8_t op;
    } ops[] = {{UVCC_OP_SEND_PP, UVCC_COLLECTIVE_SEND},
               {UVCC_OP_RECV_PP, UVCC_COLLECTIVE_RECV},
               {UVCC_OP_REDUCE_SCATTER, UVCC_COLLECTIVE_REDUCE_SCATTER},
               {UVCC_OP_ALL_GATHER, UVCC_COLLECTIVE_ALL_GATHER}};
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_tensor *tensors = b->s->program->tensors;
    if (d->out_count != 0 && !uvcci_ensure_buffer(b->s, d->out[0]))
        return false;
    uvcc_task *t = uvcci_add_task(b, UVCC_TASK_COLLECTIVE, 0);
    if (t == NULL)
        return false;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (ops[i].opcode == d->opcode)
            t->u.collective.op = ops[i].op;
    const bool paired = d->opcode == UVCC_OP_SEND_PP || d->opcode == UVCC_OP_RECV_PP;
    t->u.collective.group = paired ? UVCC_GROUP_PP : d->group;
    t->u.collective.phase = d->phase;
    t->u.collective.mb = d->mb;
    t->u.collective.k = d->k;
    t->u.collective.step = b->r->step->number;
    if (d->in_count != 0)
        t->u.collective.in = shares_as(b->s, d->in[0]);
    if (d->out_count != 0)
        t->u.collective.out = shares_as(b->s, d->out[0]);
    const bool by_out = d->opcode == UVCC_OP_RECV_PP || d->opcode == UVCC_OP_ALL_GATHER;
    t->u.collective.elems = tensors[by_out ? d->out[0] : d->in[0]].elems;
    return true;
}
