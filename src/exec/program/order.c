/* SPDX-License-Identifier: Apache-2.0 */
/* order.c - the tables of an entry: its ops in program order, with the limit of microbatches in
 * flight; liveness.c adds versions, dependencies and lives. */
#include "exec/program/liveness.h"
#include "exec/program/op_class.h"
#include "exec/program/program_impl.h"

#include "proto/sched.h"
#include "proto/sort.h"
#include <assert.h>
#include <string.h>
#include <uvcc/pipeline.h>

/* number: of an output that in the entry, of an input that in the entry or, where one block has not
 * numbers enough for all, in its microbatch. */
static uvcci_op io_op(const uvcc_program *p, const uvcc_io_desc *io, uint32_t index,
                      uint32_t number, bool input) {
    uvcci_op op = {.io = index};
    uvcc_op_desc *d = &op.desc;
    assert(!input || number < UVCCI_IO_PAGE);
    d->mb = input ? io->mb : (uint16_t)(number / UVCCI_IO_PAGE);
    const bool to_one = !input && io->receiver != UVCC_TO_ALL;
    const bool one_hot = input && p->tensors[io->tensor].desc.sharing == UVCC_ONE_HOT;
    d->opcode = one_hot  ? UVCC_OP_INPUT_ONE_HOT
                : input  ? UVCC_OP_INPUT
                : to_one ? UVCC_OP_OUTPUT_TO
                         : UVCC_OP_OUTPUT;
    d->phase = input ? UVCC_FWD : UVCC_UPD;
    d->k = (uint16_t)((to_one ? UVCCI_TO_ONE_BLOCK : UVCCI_IO_BLOCK) << 8 | number % UVCCI_IO_PAGE);
    d->in_count = !input;
    d->out_count = input;
    for (uint32_t i = 0; i < UVCC_OP_MAX_IN; i++)
        d->in[i] = UVCC_NO_TENSOR;
    for (uint32_t i = 0; i < UVCC_OP_MAX_OUT; i++)
        d->out[i] = UVCC_NO_TENSOR;
    *(input ? &d->out[0] : &d->in[0]) = io->tensor;
    memcpy(op.name, p->tensors[io->tensor].name, sizeof op.name);
    return op;
}

/* What the slots are filled from. */
typedef struct filling {
    const uvcc_program *p;
    const uvcci_entry *e;
    uvcci_slot *slots;
    uint32_t *first, *input; /* inputs of microbatch m: input[first[m]] .. input[first[m + 1]] */
    uint32_t at[3];          /* of each phase, the next user op */
    void *mem;
    size_t mem_bytes;
} filling;

/* Inputs by their microbatches, those of one in the order in which they were given. */
static void list_inputs(filling *f) {
    const uvcci_entry *e = f->e;
    for (uint32_t i = 0; i < e->input_count; i++)
        f->first[e->inputs[i].mb + 1]++;
    for (uint32_t mb = 0; mb < e->microbatches; mb++)
        f->first[mb + 1] += f->first[mb];
    for (uint32_t i = e->input_count; i-- != 0;)
        f->input[--f->first[e->inputs[i].mb + 1]] = i;
    /* first[m + 1] is now where m begins */
    memmove(f->first, f->first + 1, e->microbatches * sizeof *f->first);
    f->first[e->microbatches] = e->input_count;
}

static int begin_filling(filling *f, const uvcc_program *p, const uvcci_entry *e) {
    const size_t slots = 2 * (size_t)e->microbatches, firsts = e->microbatches + 1u;
    *f = (filling){.p = p, .e = e};
    f->mem_bytes = (firsts + e->input_count) * sizeof(uint32_t) + slots * sizeof(uvcci_slot);
    f->mem = p->alloc.alloc(p->alloc.user, f->mem_bytes, UVCC_MEM_STATE);
    if (f->mem == NULL)
        return UVCC_ERR_NOMEM;
    memset(f->mem, 0, f->mem_bytes);
    f->first = f->mem;
    f->input = f->first + firsts;
    f->slots = (uvcci_slot *)(f->input + e->input_count);
    list_inputs(f);
    return uvcci_sched_order(e->stage, e->stages, e->microbatches, e->ahead, f->slots, slots);
}

/* The ops of one slot. */
static uvcci_op *put_slot(filling *f, uvcci_slot slot, uvcci_op *op) {
    const uvcc_program *p = f->p;
    const uvcci_entry *e = f->e;
    uint32_t *at = &f->at[slot.phase];
    const uint32_t first = f->first[slot.mb], end = f->first[slot.mb + 1];
    for (uint32_t n = first; slot.phase == UVCC_FWD && n < end; n++) {
        const uint32_t i = f->input[n];
        const bool few = e->input_count <= UVCCI_IO_PAGE;
        *op++ = io_op(p, &e->inputs[i], i, few ? i : n - first, true);
    }
    for (; *at < e->user_count; ++*at) {
        const uvcci_op *user = &p->user_ops[e->user_first + *at];
        if (user->desc.phase != slot.phase || user->desc.mb != slot.mb)
            break;
        *op = *user;
        op++->io = UVCCI_NO_OP;
    }
    return op;
}

/* Ops in program order. User ops stand in the order of (phase, mb, k), so the FWD slots take theirs
 * one behind the other, and so do the BWD slots. */
static int put_ops(const uvcc_program *p, uvcci_entry *e) {
    filling f;
    const int n = begin_filling(&f, p, e);
    if (n < 0)
        return n;
    assert(n == 2 * (int)e->microbatches);
    uint32_t *at = f.at;
    while (at[1] < e->user_count && p->user_ops[e->user_first + at[1]].desc.phase == UVCC_FWD)
        at[1]++;
    uvcci_op *op = e->ops;
    for (int i = 0; i < n; i++)
        op = put_slot(&f, f.slots[i], op);
    for (at[2] = at[1]; at[2] < e->user_count; at[2]++) {
        *op = p->user_ops[e->user_first + at[2]];
        op++->io = UVCCI_NO_OP;
    }
    for (uint32_t i = 0; i < e->output_count; i++)
        *op++ = io_op(p, &e->outputs[i], i, i, false);
    assert(op == e->ops + e->op_count);
    p->alloc.free(p->alloc.user, f.mem, f.mem_bytes, UVCC_MEM_STATE);
    return 0;
}

/* How many microbatches may be in flight, and the BWD ops of each that the next one waits for. */
static void limit_flight(uvcci_entry *e) {
    const uvcc_pipeline at = {e->stage, e->stages, e->microbatches, e->ahead};
    const uint32_t most = uvcc_pipeline_window(&at);
    uint32_t bwd = 0;
    memset(e->bwd_count, 0, e->microbatches * sizeof *e->bwd_count);
    for (uint32_t i = 0; i < e->op_count; i++)
        if (e->ops[i].desc.phase == UVCC_BWD) {
            e->bwd_count[e->ops[i].desc.mb]++;
            bwd++;
        }
    e->in_flight = bwd != 0 && most < e->microbatches ? most : 0;
}

/* A stage may stand before what its neighbour's window holds back, so stages have none. */
static void limit_window(const uvcc_program *p, uvcci_entry *e) {
    e->window = p->window;
    for (uint32_t i = 0; i < e->op_count; i++)
        if (uvcci_op_has(e->ops[i].desc.opcode, UVCCI_MEETS_NEIGHBOUR))
            e->window = UINT64_MAX;
}

/* ---- ranks ---- */

typedef struct ranked {
    uint64_t rank;
    uint32_t op;
    bool feeds;
} ranked;

static int compare_ranks(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Whether a neighbouring stage waits for the op, or for one of its phase and microbatch that needs
 * it. Successors stand behind in program order, so theirs is known. */
static bool feeds(const uvcci_entry *e, const ranked *list, uint32_t i) {
    const uvcci_op *op = &e->ops[i];
    if (uvcci_op_has(op->desc.opcode, UVCCI_FEEDS_NEIGHBOUR))
        return true;
    for (uint32_t k = 0; k < op->succ_count; k++) {
        const uint32_t next = e->succ[op->succ_first + k];
        const uvcc_op_desc *d = &e->ops[next].desc;
        assert(next > i);
        if (d->phase == op->desc.phase && d->mb == op->desc.mb && list[next].feeds)
            return true;
    }
    return false;
}

/* Which op runs first when several can: sessions take ready ops, and their jobs and messages, by
 * it. */
static int rank_ops(const uvcc_program *p, uvcci_entry *e) {
    const size_t bytes = e->op_count * sizeof(ranked);
    if (e->op_count == 0)
        return 0;
    ranked *list = p->alloc.alloc(p->alloc.user, bytes, UVCC_MEM_STATE);
    if (list == NULL)
        return UVCC_ERR_NOMEM;
    for (uint32_t i = e->op_count; i-- != 0;) {
        const uvcc_op_desc *d = &e->ops[i].desc;
        list[i].op = i;
        list[i].feeds = feeds(e, list, i);
        list[i].rank = uvcc_pipeline_rank(list[i].feeds, d->phase, d->mb, d->k);
    }
    uvcci_sort(list, e->op_count, sizeof list[0], compare_ranks);
    for (uint32_t i = 0; i < e->op_count; i++) {
        assert(i == 0 || list[i - 1].rank < list[i].rank);
        e->by_rank[i] = list[i].op;
        e->ops[list[i].op].rank = i;
    }
    p->alloc.free(p->alloc.user, list, bytes, UVCC_MEM_STATE);
    return 0;
}

/* ---- all of them ---- */

/* Most buffers that these ops can touch, one by one. */
static size_t touch_bound(const uvcci_op *ops, uint32_t count) {
    size_t n = 0;
    for (uint32_t i = 0; i < count; i++)
        n += ops[i].desc.in_count + ops[i].desc.out_count;
    return n;
}

/* One block of memory for all tables of the entry, in the order of their alignment; it is freed as
 * one. */
int uvcci_order_entry(uvcc_program *p, uvcci_entry *e, const uvcci_message *m) {
    const uvcc_io_desc *inputs = uvcci_io_from(p->inputs, e->input_first),
                       *outputs = uvcci_io_from(p->outputs, e->output_first);
    const uvcci_op *user = p->user_ops != NULL ? p->user_ops + e->user_first : NULL;
    size_t count = e->input_count + e->user_count + e->output_count;
    size_t edges = uvcci_edge_bound(user, e->user_count) + e->input_count + 2 * e->output_count;
    e->microbatches = uvcci_microbatches_of(p, e);
    const size_t touches = touch_bound(user, e->user_count) + e->input_count + e->output_count;
    size_t bytes = count * (sizeof *e->ops + sizeof *e->by_ordinal + sizeof *e->by_rank) +
                   edges * sizeof *e->succ + touches * sizeof *e->touching +
                   p->tensor_count * (sizeof *e->life + sizeof *e->uses) +
                   (p->tensor_count + 1u) * sizeof *e->touch_from +
                   e->microbatches * sizeof *e->bwd_count;
    e->mem = p->alloc.alloc(p->alloc.user, bytes, UVCC_MEM_STATE);
    if (e->mem == NULL)
        return UVCC_ERR_NOMEM;
    e->mem_bytes = bytes;
    e->ops = e->mem;
    e->life = (uvcc_buffer_life *)(e->ops + count);
    e->uses = (uint32_t *)(e->life + p->tensor_count);
    e->by_ordinal = e->uses + p->tensor_count;
    e->by_rank = e->by_ordinal + count;
    e->bwd_count = e->by_rank + count;
    e->touch_from = e->bwd_count + e->microbatches;
    e->touching = e->touch_from + p->tensor_count + 1;
    e->succ = e->touching + touches;
    e->op_count = (uint32_t)count;
    e->inputs = inputs;
    e->outputs = outputs;
    int err = put_ops(p, e);
    if (err != 0)
        return err;
    for (uint32_t i = 0; i < e->op_count; i++)
        e->ops[i].desc.name = e->ops[i].name[0] != 0 ? e->ops[i].name : NULL;
    limit_flight(e);
    limit_window(p, e);
    err = uvcci_check_sums(p, e, m);
    if (err == 0)
        err = uvcci_program_analyse(p, e, m);
    return err == 0 ? rank_ops(p, e) : err;
}
