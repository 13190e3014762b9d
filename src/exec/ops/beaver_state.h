/* SPDX-License-Identifier: Apache-2.0 */
/* beaver_state.h - what a product on Beaver triples holds, from the opening of its step to the
 * step's end: other products may use what it opened. For beaver.c and triples.c. */
#ifndef UVCCI_BEAVER_STATE_H
#define UVCCI_BEAVER_STATE_H

#include "exec/ops/gate.h"
#include "exec/runtime/core.h"

struct uvcci_stored_triple;

/* The triple of one tile. Vectors are TENSOR memory. */
typedef struct uvcci_tile {
    bool admitted; /* it may be made now; its bytes are counted as made ahead until it is used */
    uint64_t triple_id;
    struct uvcci_stored_triple *stored; /* it comes from here: all tiles of a product, or none */
    uvcc_shares c;
} uvcci_tile;

typedef struct uvcci_beaver {
    uvcci_tile *tile;    /* [tiles] */
    uint32_t admitted;   /* tiles, */
    uint32_t used;       /* and of several those whose part of the product is there */
    bool given;          /* the stored triples are used, as all three agreed */
    uvcc_shares mask[2]; /* A and B, while C is made; a component, for the product */
    uvcc_shares own[2];  /* X - A, Y - B, where this op opens them; opened, lo is the sum */
    bool opened[2];
    uint32_t reads_left[2];
    uvcc_shares z;   /* the product, where it is truncated then */
    uvcci_gate gate; /* of that truncation */
} uvcci_beaver;

/* NULL: it is no Beaver product, or its step has no memory for it. */
static inline uvcci_beaver *uvcci_beaver_of(const uvcci_instance *r) {
    return r->plan->beaver.on ? r->state : NULL;
}

/* Tiles of a Beaver product, and the elements of one. */
static inline uint32_t uvcci_tile_count(const uvcci_instance *r) {
    return r->plan->beaver.tiles.count;
}
static inline uint64_t uvcci_tile_elems(const uvcci_instance *r, uint32_t tile) {
    assert(tile < r->plan->beaver.tiles.count);
    return r->plan->rounds[r->plan->beaver.triple_round + tile].elems;
}

/* What the host gave for the product: of tile 0, whose maker is that of all. NULL: nothing. */
static inline struct uvcci_stored_triple *uvcci_stored_of(const uvcci_instance *r) {
    return uvcci_beaver_of(r)->tile[0].stored;
}

#endif
