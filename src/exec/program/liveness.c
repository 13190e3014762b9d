/* SPDX-License-Identifier: Apache-2.0 */
/* liveness.c - what an entry's ops depend on, and how long its buffers live.
 *
 * One walk in program order. For every tensor it keeps the number and the writer of its newest
 * version, for every buffer the last op that wrote anything in it and the readers since then. A
 * tensor can be read as long as the last writer of its buffer is its own last writer. */
#include "exec/program/liveness.h"

#include "exec/program/op_class.h"

#include "proto/sort.h"
#include <assert.h>
#include <string.h>

typedef struct edge {
    uint32_t from, to;
} edge;

typedef struct reader { /* a list per buffer */
    uint32_t op, next;
} reader;

typedef struct walk {
    uint32_t *version; /* [tensor] */
    uint32_t *writer;  /* [tensor]: of the newest version, or UVCCI_NO_OP */
    uint32_t *holder;  /* [buffer]: last op that wrote in it */
    uint32_t *readers; /* [buffer]: head of the list of readers since then */
    uint32_t *stamp;   /* [op]: the op it last got an edge to, so that no edge comes twice */
    reader *nodes;
    edge *edges;
    uint64_t *keys; /* [op]: for the sort into ordinals */
    uint32_t node_count, edge_count, edge_max;
    void *mem;
    size_t mem_bytes;
} walk;

/* Each read makes at most an edge from its writer and one to the next writer of its buffer; each
 * write one from the writer before; an op that follows another one from that. */
uint32_t uvcci_edge_bound(const uvcci_op *ops, uint32_t count) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++)
        n += 2u * ops[i].desc.in_count + ops[i].desc.out_count +
             (uvcci_op_class_of(ops[i].desc.opcode)->follows != NULL);
    return n;
}

static int walk_init(walk *w, const uvcc_program *p, const uvcci_entry *e) {
    size_t tensors = p->tensor_count, edges = uvcci_edge_bound(e->ops, e->op_count);
    size_t words = 1 + 4 * tensors + e->op_count + (2 + 2) * edges; /* of an empty entry too */
    w->mem_bytes = e->op_count * sizeof *w->keys + words * sizeof(uint32_t);
    w->mem = p->alloc.alloc(p->alloc.user, w->mem_bytes, UVCC_MEM_STATE);
    if (w->mem == NULL)
        return UVCC_ERR_NOMEM;
    w->keys = w->mem;
    w->edges = (edge *)(w->keys + e->op_count);
    w->nodes = (reader *)(w->edges + edges);
    w->version = (uint32_t *)(w->nodes + edges);
    w->writer = w->version + tensors;
    w->holder = w->writer + tensors;
    w->readers = w->holder + tensors;
    w->stamp = w->readers + tensors;
    for (size_t t = 0; t < tensors; t++) {
        w->version[t] = 0;
        w->writer[t] = w->holder[t] = w->readers[t] = UVCCI_NO_OP;
    }
    for (uint32_t i = 0; i < e->op_count; i++)
        w->stamp[i] = UVCCI_NO_OP;
    w->node_count = w->edge_count = 0;
    w->edge_max = (uint32_t)edges;
    return 0;
}

static void depend(walk *w, uvcci_entry *e, uint32_t from, uint32_t to) {
    if (from == UVCCI_NO_OP || from == to || w->stamp[from] == to)
        return;
    assert(from < to && w->edge_count < w->edge_max); /* what comes first waits for nobody behind */
    w->stamp[from] = to;
    w->edges[w->edge_count++] = (edge){from, to};
    e->ops[to].pred_count++;
    e->ops[from].succ_count++;
}

/* Counts op i as a user of the buffer; true the first time. */
static bool touch(uvcci_entry *e, uint32_t i, uint32_t buffer) {
    uvcci_op *op = &e->ops[i];
    for (uint32_t j = 0; j < op->touched_count; j++)
        if (op->touched[j] == buffer)
            return false;
    assert(op->touched_count < UVCC_OP_MAX_IN + UVCC_OP_MAX_OUT);
    op->touched[op->touched_count++] = buffer;
    e->uses[buffer]++;
    return true;
}

/* What op i reads must have been written, and its buffer not have been written over since: that is
 * the only place where the sharing of buffers can go wrong. */
static int read_inputs(walk *w, const uvcc_program *p, uvcci_entry *e, uint32_t i,
                       const uvcci_message *m) {
    uvcci_op *op = &e->ops[i];
    char label[UVCCI_LABEL_BYTES], other[UVCCI_LABEL_BYTES];
    for (uint32_t j = 0; j < op->desc.in_count; j++) {
        uint32_t t = op->desc.in[j];
        const uvcci_tensor *x = &p->tensors[t];
        uint32_t b = x->buffer;
        if (x->desc.lifetime == UVCC_TRANSIENT && w->version[t] == 0)
            return uvcci_fail(m, UVCC_ERR_PROGRAM,
                              "%s reads %s, which nothing before it in entry %s writes; write it "
                              "first, or make it PERSIST",
                              uvcci_op_label(op, label), x->name, e->name);
        if (w->holder[b] != w->writer[t])
            return uvcci_fail(m, UVCC_ERR_PROGRAM,
                              "%s reads %s after %s overwrote its buffer; give the two tensors "
                              "buffers of their own",
                              uvcci_op_label(op, label), x->name,
                              uvcci_op_label(&e->ops[w->holder[b]], other));
        op->in_version[j] = w->version[t];
        depend(w, e, w->writer[t], i);
        if (touch(e, i, b)) {
            e->life[b].reads++;
            e->life[b].last_read = i;
            assert(w->node_count < w->edge_max);
            w->nodes[w->node_count] = (reader){i, w->readers[b]};
            w->readers[b] = w->node_count++;
        }
    }
    return 0;
}

/* An op that waits for what its partner did names tensors, but does not read them. */
static bool waits_for_partner(walk *w, uvcci_entry *e, uint32_t i) {
    uvcci_op *op = &e->ops[i];
    const uvcci_op_class *c = uvcci_op_class_of(op->desc.opcode);
    const uint32_t partner = c->partner != NULL ? c->partner(e, i) : UVCCI_NO_OP;
    if (partner == UVCCI_NO_OP)
        return false;
    assert(partner < i); /* earlier ops only: dependencies have no circle */
    op->partner = partner;
    e->ops[partner].partner = i;
    memcpy(op->in_version, e->ops[partner].in_version, sizeof op->in_version);
    depend(w, e, partner, i);
    return true;
}

static void write_outputs(walk *w, const uvcc_program *p, uvcci_entry *e, uint32_t i) {
    uvcci_op *op = &e->ops[i];
    for (uint32_t j = 0; j < op->desc.out_count; j++) {
        uint32_t t = op->desc.out[j], b = p->tensors[t].buffer;
        if (w->holder[b] != i) { /* else a second view in one buffer */
            depend(w, e, w->holder[b], i);
            for (uint32_t n = w->readers[b]; n != UVCCI_NO_OP; n = w->nodes[n].next)
                depend(w, e, w->nodes[n].op, i);
            w->readers[b] = UVCCI_NO_OP;
            w->holder[b] = i;
            if (e->life[b].first_write == UVCCI_NO_OP)
                e->life[b].first_write = i;
            touch(e, i, b);
        }
        w->writer[t] = i;
        op->out_version[j] = ++w->version[t];
    }
}

/* Waits for an earlier op that no tensor names. */
static void follow(walk *w, uvcci_entry *e, uint32_t i) {
    const uvcci_op_class *c = uvcci_op_class_of(e->ops[i].desc.opcode);
    if (c->follows != NULL)
        depend(w, e, c->follows(e, i), i);
}

static int check_partners(const uvcci_entry *e, const uvcci_message *m) {
    int err = 0;
    for (uint32_t i = 0; i < e->op_count && err == 0; i++) {
        const uvcci_op_class *c = uvcci_op_class_of(e->ops[i].desc.opcode);
        if (c->check_partner != NULL)
            err = c->check_partner(e, i, m);
    }
    return err;
}

/* Successor lists out of the edges: counts are known, so each op's list starts where the last
 * ended.
 */
static void list_successors(walk *w, uvcci_entry *e) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < e->op_count; i++) {
        e->ops[i].succ_first = at;
        at += e->ops[i].succ_count;
        w->stamp[i] = e->ops[i].succ_first;
    }
    assert(at == w->edge_count);
    for (uint32_t n = 0; n < w->edge_count; n++)
        e->succ[w->stamp[w->edges[n].from]++] = w->edges[n].to;
}

/* By (phase, mb, k), which no two ops share: below the key, of 34 bits, stands the op's index. */
enum { INDEX_BITS = 30 };
_Static_assert(UVCCI_MAX_OPS <= 1u << INDEX_BITS, "a number for each");
static void number_ops(walk *w, uvcci_entry *e) {
    for (uint32_t i = 0; i < e->op_count; i++)
        w->keys[i] = uvcci_op_key(&e->ops[i].desc) << INDEX_BITS | i;
    uvcci_sort(w->keys, e->op_count, sizeof w->keys[0], uvcci_compare_u64);
    for (uint32_t i = 0; i < e->op_count; i++) {
        assert(i == 0 || w->keys[i - 1] >> INDEX_BITS < w->keys[i] >> INDEX_BITS);
        e->by_ordinal[i] = (uint32_t)(w->keys[i] & ((1u << INDEX_BITS) - 1));
        e->ops[e->by_ordinal[i]].ordinal = i;
    }
}

uint32_t uvcci_ordinal_from(const uvcci_entry *e, uint64_t key) {
    uint32_t first = 0, end = e->op_count;
    while (first < end) {
        const uint32_t at = first + (end - first) / 2;
        if (uvcci_op_key(&e->ops[e->by_ordinal[at]].desc) < key)
            first = at + 1;
        else
            end = at;
    }
    return first;
}

/* Ops by the buffers that they touch: how many touch each is known. */
static void list_touching(const uvcc_program *p, uvcci_entry *e) {
    uint32_t at = 0;
    for (uint32_t b = 0; b < p->tensor_count; b++) {
        e->touch_from[b] = at;
        at += e->uses[b];
    }
    e->touch_from[p->tensor_count] = at;
    for (uint32_t i = 0; i < e->op_count; i++)
        for (uint32_t k = 0; k < e->ops[i].touched_count; k++)
            e->touching[e->touch_from[e->ops[i].touched[k]]++] = i;
    for (uint32_t b = p->tensor_count; b-- != 0;) /* each was moved to where the next one begins */
        e->touch_from[b] -= e->uses[b];
}

/* The one walk: first what sorts by keys alone, last the lists whose lengths the walk counts. */
int uvcci_program_analyse(const uvcc_program *p, uvcci_entry *e, const uvcci_message *m) {
    walk w;
    int err = walk_init(&w, p, e);
    if (err != 0)
        return err;
    number_ops(&w, e);
    for (uint32_t t = 0; t < p->tensor_count; t++) {
        e->life[t] = (uvcc_buffer_life){UVCCI_NO_OP, UVCCI_NO_OP, 0};
        e->uses[t] = 0;
    }
    for (uint32_t i = 0; i < e->op_count && err == 0; i++) {
        e->ops[i].partner = UVCCI_NO_OP;
        const uvcci_op_class *c = uvcci_op_class_of(e->ops[i].desc.opcode);
        if (!waits_for_partner(&w, e, i))
            err = read_inputs(&w, p, e, i, m);
        if (err == 0 && c->check_versions != NULL)
            err = c->check_versions(e, i, w.writer, m);
        follow(&w, e, i);
        if (err == 0)
            write_outputs(&w, p, e, i);
    }
    if (err == 0)
        err = check_partners(e, m);
    if (err == 0) {
        list_successors(&w, e);
        list_touching(p, e);
    }
    p->alloc.free(p->alloc.user, w.mem, w.mem_bytes, UVCC_MEM_STATE);
    return err;
}
