/* SPDX-License-Identifier: Apache-2.0 */
/* functions.h - FUNCTION ops in a session: what their instances hold, their turns, what is dealt.
 */
#ifndef UVCCI_FUNCTIONS_H
#define UVCCI_FUNCTIONS_H

#include "exec/runtime/builder.h"

/* What an instruction of a function made at this party: vectors of its width, in TENSOR memory. */
typedef struct uvcci_fn_value {
    uint64_t *x;      /* M: xh (not of EXCHANGE); B: the word of bits; A: the share */
    uint64_t *p;      /* M: this party's part of the mask */
    uint64_t *opened; /* TABLE: vh */
    uint64_t *times;  /* TABLE: bh */
    uvcc_shares rss;  /* EXCHANGE without an output tensor */
    uint8_t *packed;  /* opened bits as they are hashed */
} uvcci_fn_value;

typedef struct uvcci_fn_state {
    uvcci_fn_value *values; /* [instruction], in the instance's memory; NULL before turn 0 */
    uvcc_shares out[UVCC_OP_MAX_OUT]; /* where its part of them goes */
} uvcci_fn_state;

static inline uvcci_fn_state *uvcci_fn_state_of(const uvcci_instance *r) {
    return r->state;
}

/* The present turn. False: no memory. */
bool uvcci_function_build(uvcci_builder *b);
void uvcci_function_free(uvcc_session *s, uvcci_instance *r);
/* Tasks of a deal: `tasks` has room for uvcci_function_deal_tasks(). keys[k]: where the streams for
 * HEAD (0) and TAIL (1) go, for all blocks of all rounds of keys; NULL where this party deals none.
 */
uint32_t uvcci_function_deal_tasks(const uvcci_instance *r);
int uvcci_function_deal(uvcc_session *s, uvcci_instance *r, uint8_t ***keys, uvcc_task *tasks,
                        uint32_t *count);

#endif
