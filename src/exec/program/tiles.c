/* SPDX-License-Identifier: Apache-2.0 */
/* tiles.c - see tiles.h. */
#include "exec/program/tiles.h"

#include <assert.h>

static uint32_t divided_up(uint32_t n, uint32_t by) {
    return n / by + (n % by != 0);
}

uint32_t uvcci_tile_unit(const uvcc_op_desc *d, const uvcc_tensor_desc *t) {
    return d->heads == 0 ? 1 : t->rows / d->row_groups;
}

/* As many units as the rule of uvcc_op_desc.tile_rows says, where the op says nothing. */
static uint32_t units_by_rule(uint32_t units, uint64_t elems) {
    const uint64_t fit = UVCC_TILE_ELEMS / (elems / units);
    const uint32_t least = divided_up(units, UVCC_TILES_MAX);
    return fit > units ? units : fit > least ? (uint32_t)fit : least;
}

uvcci_tiles uvcci_tiles_of(const uvcc_program *p, const uvcc_op_desc *d) {
    if ((d->flags & UVCC_OP_BEAVER) == 0)
        return (uvcci_tiles){.count = 1};
    const uvcci_tensor *z = &p->tensors[d->out[0]];
    const uint32_t unit = uvcci_tile_unit(d, &z->desc);
    assert(unit != 0 && z->desc.rows % unit == 0);
    const uint32_t rows =
        d->tile_rows != 0 ? d->tile_rows : unit * units_by_rule(z->desc.rows / unit, z->elems);
    return (uvcci_tiles){.rows = rows, .count = divided_up(z->desc.rows, rows)};
}
