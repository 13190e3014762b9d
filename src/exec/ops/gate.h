/* SPDX-License-Identifier: Apache-2.0 */
/* gate.h - gates on keys that OTHER deals: a value is opened to an edge under a mask, HEAD and TAIL
 * evaluate their keys, and what they hold then is lifted to a replicated sharing. Truncations and
 * RELU are such gates; this is all that they have in common. */
#ifndef UVCCI_GATE_H
#define UVCCI_GATE_H

#include "exec/program/plan_maker.h"
#include "exec/runtime/builder.h"

struct uvcci_deal;

/* What a gate holds between its turns: vectors of the op's length, TENSOR memory. */
typedef struct uvcci_gate {
    uint64_t *value; /* a product before it is opened; what was opened; an exact truncation */
    uint64_t *share; /* what this party sent; its share of the result */
    uint64_t *sign;  /* RELU: its share of the second result */
    uint8_t *bits;   /* comparison: this party's masked bits, then the opened ones */
} uvcci_gate;

/* How one gate differs from another. */
typedef struct uvcci_gate_kind {
    unsigned lifted;      /* vectors that are lifted: the op's outputs */
    uint64_t open_offset; /* is added to what is opened */
    /* Tasks from the opened value, and the opened bit if there is one, to the shares. */
    bool (*evaluate)(uvcci_builder *b, uvcci_gate *g);
    /* The share that becomes output i. */
    const uint64_t *(*share)(const uvcci_instance *r, const uvcci_gate *g, unsigned i);
} uvcci_gate_kind;

/* Rounds: the opening, a comparison bit, the lift of so many vectors. */
void uvcci_gate_plan(uvcci_draft *d, uvcci_protocol open, uvcci_stream_name stream, bool bit,
                     unsigned lifts);
uint32_t uvcci_gate_key_bytes(const uvcci_plan *plan, const uvcci_plan_round *r, uint32_t count,
                              uvcc_role role);

/* Tasks of the turn that opens: of a replicated vector, or of a 3-additive one. */
bool uvcci_gate_open2(uvcci_builder *b, uvcci_gate *g, const uvcc_shares *x);
bool uvcci_gate_open4(uvcci_builder *b, uvcci_gate *g, const uint64_t *x);
/* Any turn after that. */
bool uvcci_gate_build(uvcci_builder *b, uvcci_gate *g, const uvcci_gate_kind *kind);
/* Of an op that is a gate: uvcci_op_way. */
uint64_t uvcci_gate_tensor_bytes(const uvcc_program *p, const uvcci_op *op, const uvcci_plan *plan);
/* Gives back what the gate holds. */
void uvcci_gate_release(uvcc_session *s, const uvcci_instance *r, uvcci_gate *g);

/* Packed comparison bits of a block: this party's masked ones. */
uint8_t *uvcci_gate_bits(const uvcci_gate *g, uint32_t block);

uint32_t uvcci_gate_deal_tasks(const uvcci_instance *r);
int uvcci_gate_deal(uvcc_session *s, const struct uvcci_deal *d, uvcc_task *tasks, uint32_t *count);

#endif
