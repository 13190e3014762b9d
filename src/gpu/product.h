/* SPDX-License-Identifier: Apache-2.0 */
/* product.h - the task GEMM: where the blocks of its products are, and an element of one. */
#ifndef UVCCI_GPU_PRODUCT_H
#define UVCCI_GPU_PRODUCT_H

#include "gpu/arith.h"

/* GEMM's operands with the layouts filled in: strides in words of an element (i, l) of op(x), (l,
 * j) of op(y), (i, j) of z. x[1] NULL: it is x[0] (y[0] + y[1]), of which y[1] may be NULL too. */
typedef struct product_task {
    uint32_t m, n, k, groups, heads;
    bool accumulate;
    const uint64_t *x[2], *y[2]; /* lo, hi */
    uint64_t *z;
    uint64_t x_row, x_col, y_row, y_col, z_row;
    uvcc_gemm_layout lx, ly, lz;
} product_task;

/* One product of the task. */
ON_BOTH product_task product_block(const product_task *t, uint32_t group, uint32_t head) {
    product_task b = *t;
    for (unsigned c = 0; c < 2; c++) {
        if (t->x[c] != NULL)
            b.x[c] += group * t->lx.group + head * t->lx.head;
        if (t->y[c] != NULL)
            b.y[c] += group * t->ly.group + head * t->ly.head;
    }
    b.z += group * t->lz.group + head * t->lz.head;
    return b;
}
ON_BOTH void product_store(const product_task *b, uint32_t i, uint32_t j, uint64_t sum) {
    uint64_t *z = b->z + i * b->z_row + j;
    *z = b->accumulate ? *z + sum : sum;
}
ON_BOTH uint64_t product_at(const product_task *b, uint32_t i, uint32_t j) {
    uint64_t sum = 0;
    for (uint32_t l = 0; l < b->k; l++) {
        const uint64_t x = i * b->x_row + l * b->x_col, y = l * b->y_row + j * b->y_col;
        sum += b->x[0][x] * b->y[0][y];
        if (b->y[1] != NULL)
            sum += b->x[0][x] * b->y[1][y];
        if (b->x[1] != NULL)
            sum += b->x[1][x] * b->y[0][y];
    }
    return sum;
}

/* --- BIT_SUMS --------------------------------------------------------------------------------- */

typedef struct bits_task {
    uint32_t rows, cols, ordinal;
    uint16_t call;
    bool trans;
    uint8_t lane, key[16];
    uvcc_shares x, out;
} bits_task;

ON_BOTH uint64_t bits_word(const bits_task *t, const uint32_t *key, uint64_t i) {
    prg_at at;
    at.ordinal = t->ordinal;
    at.call = t->call;
    at.block = 0;
    at.lane = t->lane;
    return prg_word(key, AES_TWO, at, i);
}
ON_BOTH uint64_t bits_operand(const bits_task *t, const uint64_t *x, uint64_t i, uint64_t j) {
    return x[t->trans ? j * t->rows + i : i * t->cols + j];
}

#endif
