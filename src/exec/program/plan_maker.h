/* SPDX-License-Identifier: Apache-2.0 */
/* plan_maker.h - a plan in the making: what the classes of ops add their rounds, vectors and ids
 * with. What does not fit is noted in the draft and refused at the end, so these cannot fail. */
#ifndef UVCCI_PLAN_MAKER_H
#define UVCCI_PLAN_MAKER_H

#include "exec/program/plan.h"

/* A plan in the making. */
typedef struct uvcci_draft {
    uvcci_plan *plan;
    const uvcc_program *p;
    const uvcci_entry *e;
    const uvcci_op *op;
    uvcci_plan_round rounds[UVCCI_PLAN_ROUNDS + UVCC_TILES_MAX], keys[UVCCI_PLAN_ROUNDS];
    uvcci_plan_id id[UVCCI_PLAN_IDS];
    uint16_t bases[256]; /* batches so far, by kind */
    uvcci_fn_plan fn;    /* plan->fn of a FUNCTION, until the plan has memory of its own */
    bool full;           /* it did not fit into these */
} uvcci_draft;

/* Which frame kind carries the TLVs of a protocol. */
uint8_t uvcci_plan_kind(uint8_t protocol);
/* The protocol of a lift of the op. */
uint8_t uvcci_plan_lift_protocol(uint8_t lift);
/* A round of `elems` elements that `turn` sends, at the end of a list: d->rounds or d->keys. */
uvcci_plan_round *uvcci_draft_round(uvcci_draft *d, uvcci_plan_round *list, uint8_t *count,
                                    uint64_t elems, uint8_t turn);
/* The round of a turn more, of the op's length. */
uvcci_plan_round *uvcci_draft_turn(uvcci_draft *d);
uint8_t uvcci_draft_id(uvcci_draft *d, bool fss, uvcci_stream_name stream, uint16_t call,
                       bool per_block, uint32_t blocks);
uvcci_plan_vec *uvcci_draft_vec(uvcci_draft *d, uvcci_plan_round *r, uvcci_protocol protocol,
                                uint8_t hop, uint8_t id, uint8_t bits);
/* A turn more that sends one vector of the op's length which is not opened to an edge. */
void uvcci_draft_vector(uvcci_draft *d, uvcci_protocol protocol, uvcci_stream_name stream);

/* uvcci_op_class.units of an op that works element by element. */
uint64_t uvcci_units_of_elements(const uvcc_program *p, const uvcc_op_desc *d, bool *by_element);

/* plan_function.c: compiles the op's function into *fn and plans what it sends. */
int uvcci_plan_function(uvcci_draft *d, const uvcc_program *p, const uvcci_op *op,
                        uvcci_fn_plan *fn);

#endif
