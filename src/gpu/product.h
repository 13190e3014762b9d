/* SPDX-License-Identifier: Apache-2.0 */
/* product.h - the task GEMM: where the blocks of its products are, and an element of one. */
#ifndef UVCCI_GPU_PRODUCT_H
#define UVCCI_GPU_PRODUCT_H

#include "gpu/arith.h"

/* GEMM's operands with the layouts filled in: strides in elements of (i, l) of op(x), (l, j) of
 * op(y), (i, j) of z. x[1] NULL: it is x[0] (y[0] + y[1]), of which y[1] may be NULL too. With two
 * `products` of a public y each component of x has its own, x[0] y[0] and x[1] y[0]. */
typedef struct product_task {
    uint32_t m, n, k, groups, heads;
    bool accumulate;
    uint8_t products;     /* 1 or 2 */
    uint8_t y_bytes;      /* of an element of y[0]: 2, 4 or 8 */
    const uint64_t *x[2]; /* lo, hi */
    const void *y[2];
    uint64_t *z[2];
    uint64_t x_row, x_col, y_row, y_col, z_row;
    uvcc_gemm_layout lx, ly, lz;
} product_task;

/* Products of blocks in the task. */
ON_BOTH uint64_t product_blocks(const product_task *t) {
    return (uint64_t)t->groups * t->heads * t->products;
}
/* One of them; of two products of x and y first those of all blocks of x[0]. */
ON_BOTH product_task product_block(const product_task *t, uint64_t which) {
    const uint64_t each = (uint64_t)t->groups * t->heads;
    const bool second = which >= each;
    const uint64_t block = second ? which - each : which;
    const uint64_t group = block / t->heads, head = block % t->heads;
    product_task b = *t;
    if (t->products == 2) {
        b.x[0] = t->x[second];
        b.x[1] = NULL;
        b.z[0] = t->z[second];
    }
    for (unsigned c = 0; c < 2; c++) {
        if (b.x[c] != NULL)
            b.x[c] += group * t->lx.group + head * t->lx.head;
        if (b.y[c] != NULL)
            b.y[c] =
                (const uint8_t *)b.y[c] + (group * t->ly.group + head * t->ly.head) * t->y_bytes;
    }
    b.z[0] += group * t->lz.group + head * t->lz.head;
    b.products = 1;
    return b;
}
/* Element `at` of y[0]: a word, or a signed integer. */
ON_BOTH uint64_t product_y(const product_task *b, uint64_t at) {
    if (b->y_bytes == 2)
        return (uint64_t)(int64_t)((const int16_t *)b->y[0])[at];
    if (b->y_bytes == 4)
        return (uint64_t)(int64_t)((const int32_t *)b->y[0])[at];
    return ((const uint64_t *)b->y[0])[at];
}
ON_BOTH uint64_t product_y_hi(const product_task *b, uint64_t at) {
    return b->y[1] != NULL ? ((const uint64_t *)b->y[1])[at] : 0;
}
ON_BOTH void product_store(const product_task *b, uint32_t i, uint32_t j, uint64_t sum) {
    uint64_t *z = b->z[0] + i * b->z_row + j;
    *z = b->accumulate ? *z + sum : sum;
}
ON_BOTH uint64_t product_at(const product_task *b, uint32_t i, uint32_t j) {
    uint64_t sum = 0;
    for (uint32_t l = 0; l < b->k; l++) {
        const uint64_t x = i * b->x_row + l * b->x_col, y = l * b->y_row + j * b->y_col;
        const uint64_t lo = product_y(b, y);
        sum += b->x[0][x] * (lo + product_y_hi(b, y));
        if (b->x[1] != NULL)
            sum += b->x[1][x] * lo;
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
