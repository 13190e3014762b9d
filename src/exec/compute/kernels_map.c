/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_map.c - the task MAP: element-wise work on shares. Most operations work on each component
 * by itself, the same way; products and public values look at both. */
#include "exec/compute/kernels_impl.h"

#include <assert.h>

#include "exec/primitives/function_layout.h"

/* One component of a task's operands and result; handed on by value, since a result could be where
 * a size lies, for all the compiler knows, if that had an address. */
typedef struct part {
    const uvcc_task *t;
    size_t rows, cols;
    unsigned index; /* which of the three components this is */
    const uint64_t *x, *y;
    uint64_t *z;
} part;

/* A public constant is in component 0. */
static uint64_t fill_of(part p) {
    return p.index == 0 ? p.t->u.map.constant : 0;
}

/* --- Components ------------------------------------------------------------------------------- */

static void add(part p) {
    for (size_t i = 0; i < p.rows * p.cols; i++)
        p.z[i] = p.x[i] + p.y[i];
}

static void sub(part p) {
    for (size_t i = 0; i < p.rows * p.cols; i++)
        p.z[i] = p.x[i] - p.y[i];
}

static void copy(part p) {
    memmove(p.z, p.x, p.rows * p.cols * sizeof *p.z);
}

static void shift_left(part p) {
    const unsigned shift = p.t->u.map.shift;
    for (size_t i = 0; i < p.rows * p.cols; i++)
        p.z[i] = p.x[i] << shift;
}

static void scale(part p) {
    const uint64_t constant = p.t->u.map.constant;
    for (size_t i = 0; i < p.rows * p.cols; i++)
        p.z[i] = constant * p.x[i];
}

static void add_public(part p) {
    const uint64_t fill = fill_of(p);
    for (size_t i = 0; i < p.rows * p.cols; i++)
        p.z[i] = p.x[i] + fill;
}

/* The last rows of a square: row i of a block of n stands in row cols - n + i. A window leaves the
 * last elements up to the diagonal. */
static void causal(part p) {
    const size_t block = p.t->u.map.block != 0 ? p.t->u.map.block : p.cols;
    const size_t window = p.t->u.map.part != 0 ? p.t->u.map.part : SIZE_MAX;
    const uint64_t *x = p.x, fill = fill_of(p);
    uint64_t *z = p.z;
    for (size_t i = 0; i < p.rows; i++, x += p.cols, z += p.cols) {
        const size_t end = i % block + p.cols - block + 1, first = end > window ? end - window : 0;
        for (size_t j = 0; j < p.cols; j++)
            z[j] = j >= end || j < first ? fill : x[j];
    }
}

/* Columns j and j + half of a head are a pair, turned by the angle whose cosine and sine stand in
 * columns j and j + half of the token's row of the table. */
static void rotate(part p) {
    const size_t tokens = p.t->u.map.block, head = p.t->u.map.part, half = head / 2;
    const uint64_t *table = p.t->u.map.y.lo;
    assert(tokens != 0 && half != 0 && p.cols % head == 0);
    for (size_t i = 0; i < p.rows; i++)
        for (size_t h = 0; h < p.cols; h += head) {
            const uint64_t *x = p.x + i * p.cols + h, *turn = table + i % tokens * head;
            uint64_t *z = p.z + i * p.cols + h;
            for (size_t j = 0; j < half; j++) {
                z[j] = x[j] * turn[j] - x[j + half] * turn[j + half];
                z[j + half] = x[j + half] * turn[j] + x[j] * turn[j + half];
            }
        }
}

/* A part of each block of rows, in words: where it begins in the block, how long both are. */
typedef struct range {
    size_t blocks, block, at, len;
} range;

static range range_of(part p) {
    const size_t block = p.t->u.map.block;
    assert(block != 0 && p.rows % block == 0 &&
           p.t->u.map.constant + p.t->u.map.part <= p.t->u.map.block);
    return (range){p.rows / block, block * p.cols, (size_t)p.t->u.map.constant * p.cols,
                   p.t->u.map.part * p.cols};
}

static void slice_rows(part p) {
    const range r = range_of(p);
    for (size_t g = 0; g < r.blocks; g++)
        memcpy(p.z + g * r.len, p.x + g * r.block + r.at, r.len * sizeof *p.z);
}

/* What surrounds the part. */
static void take_whole(part p) {
    if (p.x == NULL)
        memset(p.z, 0, p.rows * p.cols * sizeof *p.z);
    else
        copy(p);
}

static void put_rows(part p) {
    const range r = range_of(p);
    take_whole(p);
    for (size_t g = 0; g < r.blocks; g++)
        memcpy(p.z + g * r.block + r.at, p.y + g * r.len, r.len * sizeof *p.z);
}

static void add_rows(part p) {
    const range r = range_of(p);
    take_whole(p);
    for (size_t g = 0; g < r.blocks; g++)
        for (size_t i = 0; i < r.len; i++)
            p.z[g * r.block + r.at + i] += p.y[g * r.len + i];
}

static void add_row(part p) {
    const uint64_t *x = p.x, *y = p.y;
    uint64_t *z = p.z;
    for (size_t i = 0; i < p.rows; i++, x += p.cols, z += p.cols)
        for (size_t j = 0; j < p.cols; j++)
            z[j] = x[j] + y[j];
}

static void sum_rows(part p) {
    const uint64_t *x = p.x;
    uint64_t *z = p.z;
    memset(z, 0, p.cols * sizeof *z);
    for (size_t i = 0; i < p.rows; i++, x += p.cols)
        for (size_t j = 0; j < p.cols; j++)
            z[j] += x[j];
}

/* z = sign_x x + sign_y y with a column y. */
static void with_column(part p, uint64_t sign_x, uint64_t sign_y) {
    const uint64_t *x = p.x;
    uint64_t *z = p.z;
    for (size_t i = 0; i < p.rows; i++, x += p.cols, z += p.cols) {
        const uint64_t y = sign_y * p.y[i];
        for (size_t j = 0; j < p.cols; j++)
            z[j] = sign_x * x[j] + y;
    }
}

static void add_column(part p) {
    with_column(p, 1, 1);
}

static void sub_column(part p) {
    with_column(p, 1, UINT64_MAX);
}

static void column_less(part p) {
    with_column(p, UINT64_MAX, 1);
}

static void sum_columns(part p) {
    const uint64_t *x = p.x;
    for (size_t i = 0; i < p.rows; i++, x += p.cols) {
        uint64_t sum = 0;
        for (size_t j = 0; j < p.cols; j++)
            sum += x[j];
        p.z[i] = sum;
    }
}

/* The second of a pair of columns; the last of an odd number is paired with itself. */
static inline uint64_t second_of(const uint64_t *x, size_t j, size_t cols) {
    return x[j + 1 < cols ? j + 1 : j];
}

static void pair_diff(part p) {
    const uint64_t *x = p.x;
    uint64_t *z = p.z;
    for (size_t i = 0; i < p.rows; i++, x += p.cols)
        for (size_t j = 0; j < p.cols; j += 2)
            *z++ = x[j] - second_of(x, j, p.cols);
}

static void pair_second(part p) {
    const uint64_t *x = p.x;
    uint64_t *z = p.z;
    for (size_t i = 0; i < p.rows; i++, x += p.cols)
        for (size_t j = 0; j < p.cols; j += 2)
            *z++ = second_of(x, j, p.cols);
}

/* Columns beyond the last are the last. */
static void quad_diff(part p) {
    const uint64_t *x = p.x;
    uint64_t *z = p.z;
    for (size_t i = 0; i < p.rows; i++, x += p.cols)
        for (size_t j = 0; j < p.cols; j += 4) {
            uint64_t of[4];
            for (size_t k = 0; k < 4; k++)
                of[k] = x[j + k < p.cols ? j + k : p.cols - 1];
            for (unsigned k = 0; k < UVCCI_FN_QUAD_PAIRS; k++)
                *z++ = of[uvcci_fn_quad[k][0]] - of[uvcci_fn_quad[k][1]];
        }
}

static void quad_last(part p) {
    const uint64_t *x = p.x;
    uint64_t *z = p.z;
    for (size_t i = 0; i < p.rows; i++, x += p.cols)
        for (size_t j = 0; j < p.cols; j += 4)
            *z++ = x[j + 3 < p.cols ? j + 3 : p.cols - 1];
}

static void spread(part p) {
    uint64_t *z = p.z;
    for (size_t i = 0; i < p.rows; i++)
        for (size_t j = 0; j < p.cols; j++)
            *z++ = p.x[i];
}

/* --- Products --------------------------------------------------------------------------------- */

/* Element i of x times element k of y, a third of it. */
static inline uint64_t mul_at(const uvcc_shares *x, const uvcc_shares *y, size_t i, size_t k) {
    return x->lo[i] * (y->lo[k] + y->hi[k]) + x->hi[i] * y->lo[k];
}

static void mul(const uvcc_task *t) {
    const uvcc_shares *x = &t->u.map.x, *y = &t->u.map.y;
    const size_t n = (size_t)t->u.map.rows * t->u.map.cols;
    uint64_t *z = t->u.map.out.lo;
    for (size_t i = 0; i < n; i++)
        z[i] = mul_at(x, y, i, i);
}

static void mul_column(const uvcc_task *t) {
    const uvcc_shares *x = &t->u.map.x, *y = &t->u.map.y;
    const size_t rows = t->u.map.rows, cols = t->u.map.cols;
    uint64_t *z = t->u.map.out.lo;
    for (size_t i = 0, at = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++, at++)
            z[at] = mul_at(x, y, at, i);
}

static void mul_row(const uvcc_task *t) {
    const uvcc_shares *x = &t->u.map.x, *y = &t->u.map.y;
    const size_t rows = t->u.map.rows, cols = t->u.map.cols;
    uint64_t *z = t->u.map.out.lo;
    for (size_t i = 0, at = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++, at++)
            z[at] = mul_at(x, y, at, j);
}

static void dot_rows(const uvcc_task *t) {
    const uvcc_shares *x = &t->u.map.x, *y = &t->u.map.y;
    const size_t rows = t->u.map.rows, cols = t->u.map.cols;
    for (size_t i = 0, at = 0; i < rows; i++) {
        uint64_t sum = 0;
        for (size_t j = 0; j < cols; j++, at++)
            sum += mul_at(x, y, at, at);
        t->u.map.out.lo[i] = t->u.map.constant * sum;
    }
}

/* --- Public values: component 0 has them, the others are 0 ------------------------------------ */

/* This party's component 0; the other one, if it is asked for, becomes 0. NULL: not here. */
static uint64_t *public_part(const uvcc_task *t) {
    uint64_t *const out_of[2] = {t->u.map.out.lo, t->u.map.out.hi}, *first = NULL;
    const size_t n = (size_t)t->u.map.rows * t->u.map.cols;
    for (unsigned i = 0; i < 2; i++) {
        if (out_of[i] == NULL)
            continue;
        if ((t->u.map.party + i) % UVCC_PARTIES == 0)
            first = out_of[i];
        else
            memset(out_of[i], 0, n * sizeof *out_of[i]);
    }
    return first;
}

static void public_value(const uvcc_task *t) {
    uint64_t *z = public_part(t);
    if (z != NULL)
        memmove(z, t->u.map.x.lo, (size_t)t->u.map.rows * t->u.map.cols * sizeof *z);
}

static void public_index(const uvcc_task *t) {
    const size_t cols = t->u.map.cols, n = t->u.map.rows * cols;
    uint64_t *z = public_part(t);
    for (size_t j = 0; z != NULL && j < n; j++)
        z[j] = 2 * (j % cols) + 1;
}

/* --- The operations --------------------------------------------------------------------------- */

static const struct {
    void (*component)(part p); /* of each component, or ... */
    void (*whole)(const uvcc_task *t);
} maps[] = {
    [UVCC_MAP_ADD] = {.component = add},
    [UVCC_MAP_SUB] = {.component = sub},
    [UVCC_MAP_ADD_ROW] = {.component = add_row},
    [UVCC_MAP_SUM_ROWS] = {.component = sum_rows},
    [UVCC_MAP_MUL] = {.whole = mul},
    [UVCC_MAP_COPY] = {.component = copy},
    [UVCC_MAP_SHL] = {.component = shift_left},
    [UVCC_MAP_PUBLIC] = {.whole = public_value},
    [UVCC_MAP_PAIR_DIFF] = {.component = pair_diff},
    [UVCC_MAP_PAIR_SECOND] = {.component = pair_second},
    [UVCC_MAP_INDEX] = {.whole = public_index},
    [UVCC_MAP_ADD_COL] = {.component = add_column},
    [UVCC_MAP_SUB_COL] = {.component = sub_column},
    [UVCC_MAP_RSUB_COL] = {.component = column_less},
    [UVCC_MAP_SUM_COLS] = {.component = sum_columns},
    [UVCC_MAP_MUL_COL] = {.whole = mul_column},
    [UVCC_MAP_MUL_ROW] = {.whole = mul_row},
    [UVCC_MAP_DOT_ROWS] = {.whole = dot_rows},
    [UVCC_MAP_SCALE] = {.component = scale},
    [UVCC_MAP_ADD_PUBLIC] = {.component = add_public},
    [UVCC_MAP_CAUSAL] = {.component = causal},
    [UVCC_MAP_QUAD_DIFF] = {.component = quad_diff},
    [UVCC_MAP_QUAD_LAST] = {.component = quad_last},
    [UVCC_MAP_SPREAD] = {.component = spread},
    [UVCC_MAP_SLICE_ROWS] = {.component = slice_rows},
    [UVCC_MAP_PUT_ROWS] = {.component = put_rows},
    [UVCC_MAP_ADD_ROWS] = {.component = add_rows},
    [UVCC_MAP_ROTATE] = {.component = rotate},
};

static int map(uvcci_cpu_worker *w, const uvcc_task *t) {
    const uvcc_shares *x = &t->u.map.x, *y = &t->u.map.y, *z = &t->u.map.out;
    const unsigned op = t->u.map.op, lo = t->u.map.party;
    (void)w;
    if (op >= sizeof maps / sizeof *maps)
        return UVCC_ERR_JOB;
    assert((maps[op].component != NULL) != (maps[op].whole != NULL));
    if (maps[op].whole != NULL) {
        maps[op].whole(t);
        return 0;
    }
    part p = {.t = t, .rows = t->u.map.rows, .cols = t->u.map.cols};
    const struct {
        const uint64_t *x, *y;
        uint64_t *z;
    } both[2] = {{x->lo, y->lo, z->lo}, {x->hi, y->hi, z->hi}};
    for (unsigned i = 0; i < 2; i++) {
        if (i == 1 && z->hi == NULL)
            break; /* 3-additive values have one component */
        p.index = (lo + i) % UVCC_PARTIES;
        p.x = both[i].x;
        p.y = both[i].y;
        p.z = both[i].z;
        maps[op].component(p);
    }
    return 0;
}

const uvcci_kernel uvcci_kernels_map[UVCC_TASK_KIND_END] = {
    [UVCC_TASK_MAP] = {.task = map},
};
