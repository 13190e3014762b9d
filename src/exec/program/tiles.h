/* SPDX-License-Identifier: Apache-2.0 */
/* tiles.h - how a product on Beaver triples is cut: into tiles, whole rows of its result in rising
 * order, each on a triple of its own. A function of the op and its shapes alone, so that it is the
 * same at all parties whatever memory they have. */
#ifndef UVCCI_TILES_H
#define UVCCI_TILES_H

#include "exec/program/program.h"

typedef struct uvcci_tiles {
    uint32_t rows;  /* of the result, in each but the last */
    uint32_t count; /* 1 of whatever is no product on triples */
} uvcci_tiles;

/* Rows of an operand's tensor, or of the result's, that belong to one group of rows: no tile ends
 * within. 1 without heads. */
uint32_t uvcci_tile_unit(const uvcc_op_desc *d, const uvcc_tensor_desc *t);
/* The op's tensors are in the program, and its heads divide them. */
uvcci_tiles uvcci_tiles_of(const uvcc_program *p, const uvcc_op_desc *d);

/* The rows of tile `tile` of a result of `rows` rows. */
static inline uint32_t uvcci_tile_first(const uvcci_tiles *t, uint32_t tile) {
    return tile * t->rows;
}
static inline uint32_t uvcci_tile_rows(const uvcci_tiles *t, uint32_t rows, uint32_t tile) {
    const uint32_t left = rows - uvcci_tile_first(t, tile);
    return left < t->rows ? left : t->rows;
}

#endif
