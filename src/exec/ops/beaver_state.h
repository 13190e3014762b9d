/* SPDX-License-Identifier: Apache-2.0 */
/* beaver_state.h - what a product on a Beaver triple holds, from the opening of its step to the
 * step's end: other products may use what it opened. For beaver.c and triples.c. */
#ifndef UVCCI_BEAVER_STATE_H
#define UVCCI_BEAVER_STATE_H

#include "exec/ops/gate.h"
#include "exec/runtime/core.h"

struct uvcci_stored_triple;

/* Vectors are TENSOR memory. */
typedef struct uvcci_beaver {
    bool admitted; /* its triple may be made now */
    uint64_t triple_id;
    struct uvcci_stored_triple *stored; /* the triple comes from here */
    uvcc_shares mask[2];                /* A and B, while C is made; a component, for the product */
    uvcc_shares c;
    uvcc_shares own[2]; /* X - A, Y - B, where this op opens them; opened, lo is the sum */
    bool opened[2];
    uint32_t reads_left[2];
    uvcc_shares z;   /* the product, where it is truncated then */
    uvcci_gate gate; /* of that truncation */
} uvcci_beaver;

/* NULL: it is no Beaver product, or its step has no memory for it. */
static inline uvcci_beaver *uvcci_beaver_of(const uvcci_instance *r) {
    return r->plan->beaver.on ? r->state : NULL;
}

#endif
