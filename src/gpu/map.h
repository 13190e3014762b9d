/* SPDX-License-Identifier: Apache-2.0 */
/* map.h - the task MAP (compute.md, section 9): what an element of the result is. */
#ifndef UVCCI_GPU_MAP_H
#define UVCCI_GPU_MAP_H

#include "gpu/arith.h"

typedef struct map_task {
    uint8_t op, shift, party;
    uint32_t rows, cols, block, part;
    uvcc_shares x, y, out;
    uint64_t constant;
} map_task;

/* One component of the operands. */
typedef struct map_part {
    const uint64_t *x, *y;
    uint64_t *out;
    bool first; /* it is component 0 */
} map_part;

ON_BOTH map_part map_part_of(const map_task *t, unsigned k) {
    map_part p;
    p.x = k == 0 ? t->x.lo : t->x.hi;
    p.y = k == 0 ? t->y.lo : t->y.hi;
    p.out = k == 0 ? t->out.lo : t->out.hi;
    p.first = (t->party + k) % UVCC_PARTIES == 0;
    return p;
}

/* Ops whose result is of both components together, in out.lo. */
ON_BOTH bool map_is_product(unsigned op) {
    return op == UVCC_MAP_MUL || op == UVCC_MAP_MUL_COL || op == UVCC_MAP_MUL_ROW ||
           op == UVCC_MAP_DOT_ROWS;
}
/* Ops whose elements are sums of a row or a column. */
ON_BOTH bool map_is_sum(unsigned op) {
    return op == UVCC_MAP_SUM_ROWS || op == UVCC_MAP_SUM_COLS || op == UVCC_MAP_DOT_ROWS;
}
/* Whether component k of the result is made. */
ON_BOTH bool map_makes(const map_task *t, unsigned k) {
    return k == 0 ? t->out.lo != NULL : t->out.hi != NULL && !map_is_product(t->op);
}

ON_BOTH uint64_t map_elems(const map_task *t) {
    const uint64_t rows = t->rows, cols = t->cols;
    switch (t->op) {
    case UVCC_MAP_SUM_ROWS:
        return cols;
    case UVCC_MAP_SUM_COLS:
    case UVCC_MAP_DOT_ROWS:
        return rows;
    case UVCC_MAP_PAIR_DIFF:
    case UVCC_MAP_PAIR_SECOND:
        return rows * ((cols + 1) / 2);
    case UVCC_MAP_QUAD_DIFF:
        return rows * ((cols + 3) / 4) * 6;
    case UVCC_MAP_QUAD_LAST:
        return rows * ((cols + 3) / 4);
    case UVCC_MAP_SLICE_ROWS:
        return t->block == 0 ? 0 : rows / t->block * t->part * cols;
    default:
        return rows * cols;
    }
}

/* A third of x_i y_k. */
ON_BOTH uint64_t map_product(const map_task *t, uint64_t i, uint64_t k) {
    return t->x.lo[i] * (t->y.lo[k] + t->y.hi[k]) + t->x.hi[i] * t->y.lo[k];
}

/* The addends begin, begin + step .. of element e of a sum. */
ON_BOTH uint64_t map_sum(const map_task *t, const map_part *p, uint64_t e, uint64_t begin,
                         uint64_t step) {
    const uint64_t cols = t->cols, count = t->op == UVCC_MAP_SUM_ROWS ? t->rows : cols;
    uint64_t sum = 0;
    for (uint64_t j = begin; j < count; j += step)
        sum += t->op == UVCC_MAP_SUM_ROWS   ? p->x[j * cols + e]
               : t->op == UVCC_MAP_SUM_COLS ? p->x[e * cols + j]
                                            : map_product(t, e * cols + j, e * cols + j);
    return t->op == UVCC_MAP_DOT_ROWS ? t->constant * sum : sum;
}

/* Column k of a group of columns of a row; beyond the last it is the last. */
ON_BOTH uint64_t map_column(const map_task *t, const uint64_t *row, uint64_t k) {
    return row[k < t->cols ? k : t->cols - 1];
}
/* Element e of groups of `width` columns, `each` results a group. */
ON_BOTH uint64_t map_group(const map_task *t, const map_part *p, uint64_t e) {
    const bool quad = t->op == UVCC_MAP_QUAD_DIFF || t->op == UVCC_MAP_QUAD_LAST;
    const uint64_t width = quad ? 4 : 2, each = t->op == UVCC_MAP_QUAD_DIFF ? 6 : 1;
    const uint64_t groups = (t->cols + width - 1) / width, group = e / each % groups;
    const uint64_t *row = p->x + e / each / groups * t->cols;
    const unsigned pair = (unsigned)(e % each);
    const unsigned a = pair < 3 ? 0 : pair < 5 ? 1 : 2;
    const unsigned b = pair < 3 ? pair + 1 : pair < 5 ? pair - 1 : 3;
    switch (t->op) {
    case UVCC_MAP_PAIR_DIFF:
        return map_column(t, row, 2 * group) - map_column(t, row, 2 * group + 1);
    case UVCC_MAP_PAIR_SECOND:
        return map_column(t, row, 2 * group + 1);
    case UVCC_MAP_QUAD_LAST:
        return map_column(t, row, 4 * group + 3);
    default:
        return map_column(t, row, 4 * group + a) - map_column(t, row, 4 * group + b);
    }
}

/* Element e of ops on parts of blocks of rows. */
ON_BOTH uint64_t map_rows(const map_task *t, const map_part *p, uint64_t e) {
    const uint64_t cols = t->cols, len = t->part * cols, at = t->constant * cols;
    const uint64_t block = t->block * cols;
    if (t->op == UVCC_MAP_SLICE_ROWS)
        return p->x[e / len * block + at + e % len];
    const uint64_t inner = e % block, x = p->x == NULL ? 0 : p->x[e];
    if (inner < at || inner - at >= len)
        return x;
    const uint64_t y = p->y[e / block * len + inner - at];
    return t->op == UVCC_MAP_PUT_ROWS ? y : x + y;
}

/* Element e of ROTATE: y.lo has the cosines and behind them the sines of a row. */
ON_BOTH uint64_t map_rotated(const map_task *t, const map_part *p, uint64_t e) {
    const uint64_t half = t->part / 2, j = e % t->cols % t->part, k = j % half;
    const uint64_t *turn = t->y.lo + e / t->cols % t->block * t->part;
    return j < half ? p->x[e] * turn[k] - p->x[e + half] * turn[k + half]
                    : p->x[e] * turn[k] + p->x[e - half] * turn[k + half];
}

/* Element e of an op that is no sum. */
ON_BOTH uint64_t map_element(const map_task *t, const map_part *p, uint64_t e) {
    const uint64_t i = e / t->cols, j = e % t->cols, fill = p->first ? t->constant : 0;
    switch (t->op) {
    case UVCC_MAP_ADD:
        return p->x[e] + p->y[e];
    case UVCC_MAP_SUB:
        return p->x[e] - p->y[e];
    case UVCC_MAP_ADD_ROW:
        return p->x[e] + p->y[j];
    case UVCC_MAP_COPY:
        return p->x[e];
    case UVCC_MAP_SHL:
        return p->x[e] << t->shift;
    case UVCC_MAP_SCALE:
        return p->x[e] * t->constant;
    case UVCC_MAP_ADD_PUBLIC:
        return p->x[e] + fill;
    case UVCC_MAP_ADD_COL:
        return p->x[e] + p->y[i];
    case UVCC_MAP_SUB_COL:
        return p->x[e] - p->y[i];
    case UVCC_MAP_RSUB_COL:
        return p->y[i] - p->x[e];
    case UVCC_MAP_SPREAD:
        return p->x[i];
    case UVCC_MAP_MUL:
        return map_product(t, e, e);
    case UVCC_MAP_MUL_COL:
        return map_product(t, e, i);
    case UVCC_MAP_MUL_ROW:
        return map_product(t, e, j);
    case UVCC_MAP_PUBLIC:
        return p->first ? t->x.lo[e] : 0;
    case UVCC_MAP_INDEX:
        return p->first ? 2 * j + 1 : 0;
    case UVCC_MAP_CAUSAL: {
        const uint64_t block = t->block != 0 ? t->block : t->cols;
        const uint64_t end = i % block + t->cols - block + 1;
        const uint64_t first = t->part != 0 && end > t->part ? end - t->part : 0;
        return j >= end || j < first ? fill : p->x[e];
    }
    case UVCC_MAP_ROTATE:
        return map_rotated(t, p, e);
    case UVCC_MAP_SLICE_ROWS:
    case UVCC_MAP_PUT_ROWS:
    case UVCC_MAP_ADD_ROWS:
        return map_rows(t, p, e);
    default:
        return map_group(t, p, e);
    }
}

#endif
