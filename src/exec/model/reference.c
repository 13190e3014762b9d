/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c - a program in plaintext fixed point: what a secure run must give.
 *
 * Every tensor has memory of its own, so all of them can be looked at after a step; program order
 * and the checks of finish make that equal to the shared buffers of a session. Arithmetic is mod
 * 2^64, then floor shifts: truncations are exact, also those that a session runs stochastically.
 * Nothing here is secret, and nothing is shared with the kernels it is compared with. */
#include "exec/base/bounds.h"
#include "exec/program/program.h"

#include "proto/topology.h"
#include <assert.h>
#include <string.h>
#include <uvcc/compute.h>

struct uvcc_reference {
    uvcc_allocator alloc;
    const uvcc_program *p;
    int64_t **value; /* [tensor] */
    bool *given;     /* [tensor]: has been set */
    bool *outside;   /* [tensor]: a step failed because a value left its bound */
    int64_t *packed; /* a block of both factors of the largest product, transposed if it has to be,
                      * and their product */
    size_t packed_bytes, table_bytes;
    void *table; /* holds value, given and outside */
};

static void *take(uvcc_reference *r, size_t bytes) {
    void *mem = r->alloc.alloc(r->alloc.user, bytes, UVCC_MEM_STATE);
    if (mem != NULL)
        memset(mem, 0, bytes);
    return mem;
}

static size_t tensor_bytes(const uvcc_program *p, uint32_t t) {
    return (size_t)p->tensors[t].elems * sizeof(int64_t);
}

/* Bytes of packed factors that the largest product needs. */
static size_t packed_bytes(const uvcc_program *p) {
    size_t most = 0;
    for (uint32_t e = 0; e < p->entry_count; e++)
        for (uint32_t i = 0; i < p->entries[e].op_count; i++) {
            const uvcc_op_desc *d = &p->entries[e].ops[i].desc;
            if (d->opcode != UVCC_OP_GEMM_SS && d->opcode != UVCC_OP_GEMM_PART)
                continue;
            size_t need =
                tensor_bytes(p, d->in[0]) + tensor_bytes(p, d->in[1]) + tensor_bytes(p, d->out[0]);
            most = need > most ? need : most;
        }
    return most;
}

void uvcc_reference_free(uvcc_reference *r) {
    if (r == NULL)
        return;
    uvcc_allocator al = r->alloc;
    for (uint32_t t = 0; r->value != NULL && t < r->p->tensor_count; t++)
        if (r->value[t] != NULL)
            al.free(al.user, r->value[t], tensor_bytes(r->p, t), UVCC_MEM_STATE);
    if (r->packed != NULL)
        al.free(al.user, r->packed, r->packed_bytes, UVCC_MEM_STATE);
    if (r->table != NULL)
        al.free(al.user, r->table, r->table_bytes, UVCC_MEM_STATE);
    al.free(al.user, r, sizeof *r, UVCC_MEM_STATE);
}

/* All memory at once, so that a step needs none; constants have their values from here on. */
int uvcc_reference_new(uvcc_reference **out, const uvcc_program *p, const uvcc_allocator *al) {
    if (out == NULL || p == NULL || al == NULL || al->alloc == NULL || al->free == NULL)
        return UVCC_ERR_USAGE;
    if (!p->finished)
        return UVCC_ERR_STATE;
    uvcc_reference *r = al->alloc(al->user, sizeof *r, UVCC_MEM_STATE);
    if (r == NULL)
        return UVCC_ERR_NOMEM;
    *r = (uvcc_reference){.alloc = *al, .p = p};
    r->table_bytes = p->tensor_count * (sizeof *r->value + sizeof *r->given + sizeof *r->outside);
    r->packed_bytes = packed_bytes(p);
    bool ok = r->table_bytes == 0 || (r->table = take(r, r->table_bytes)) != NULL;
    if (ok && r->table != NULL) {
        r->value = r->table;
        r->given = (bool *)(r->value + p->tensor_count);
        r->outside = r->given + p->tensor_count;
    }
    ok = ok && (r->packed_bytes == 0 || (r->packed = take(r, r->packed_bytes)) != NULL);
    for (uint32_t t = 0; ok && t < p->tensor_count; t++)
        ok = (r->value[t] = take(r, tensor_bytes(p, t))) != NULL;
    if (!ok) {
        uvcc_reference_free(r);
        return UVCC_ERR_NOMEM;
    }
    for (uint32_t t = 0; t < p->tensor_count; t++)
        if (p->tensors[t].constant != NULL)
            memcpy(r->value[t], p->tensors[t].constant, tensor_bytes(p, t));
    *out = r;
    return 0;
}

int uvcc_reference_set(uvcc_reference *r, uint32_t tensor, const int64_t *v) {
    if (r == NULL || v == NULL || tensor >= r->p->tensor_count)
        return UVCC_ERR_USAGE;
    const uvcci_tensor *t = &r->p->tensors[tensor];
    if (uvcci_first_outside(v, t->elems, t->desc.bits) != t->elems)
        return UVCC_ERR_BOUND;
    memcpy(r->value[tensor], v, tensor_bytes(r->p, tensor));
    r->given[tensor] = true;
    r->outside[tensor] = false;
    return 0;
}

const int64_t *uvcc_reference_get(const uvcc_reference *r, uint32_t tensor) {
    return r != NULL && tensor < r->p->tensor_count ? r->value[tensor] : NULL;
}

/* ---- ops ---- */

static int64_t floor_shift(int64_t v, unsigned shift) {
    assert(shift < 64);
    return v >> shift; /* arithmetic on every compiler this builds with; a test says so */
}

/* What one op works on. */
typedef struct call {
    uvcc_reference *r;
    const uvcci_op *op;
    const uvcc_op_desc *d;
    const uvcc_tensor_desc *desc[UVCC_OP_MAX_IN]; /* of the inputs */
    const int64_t *in[UVCC_OP_MAX_IN];
    int64_t *out[UVCC_OP_MAX_OUT];
    size_t elems; /* of out[0] */
    const uvcci_message *m;
} call;

/* A product; one that leaves the bits that its author knows becomes one that no output has room
 * for. */
static int64_t multiply_known(const call *c, int64_t x, int64_t y) {
    int64_t z;
    const bool over = __builtin_mul_overflow(x, y, &z);
    if ((c->d->flags & UVCC_OP_WITHIN) == 0)
        return z;
    const int64_t limit = (int64_t)(1ull << c->d->constant);
    return over || z >= limit || z <= -limit ? INT64_MAX : z;
}

/* floor(z / 2^shift). finish and the bounds of the inputs see to |z| < 2^62, what a secure
 * truncation asks for (protocols.md 6). */
static void truncate_result(const call *c) {
    if (c->d->shift == 0)
        return;
    const bool known =
        (c->d->flags & UVCC_OP_WITHIN) != 0; /* then it may be INT64_MAX, and stays it */
    assert(known || uvcci_first_outside(c->out[0], c->elems, UVCCI_MAX_BITS) == c->elems);
    for (size_t i = 0; i < c->elems; i++)
        if (!known || c->out[0][i] != INT64_MAX)
            c->out[0][i] = floor_shift(c->out[0][i], c->d->shift);
}

/* One operand of a product: blocks of rows x cols, the block of (group, head) from `at` on. */
typedef struct operand {
    size_t rows, cols, width; /* of a block; of the tensor */
    size_t group, head;       /* from one group or head to the next, in elements */
} operand;

static operand operand_of(const uvcc_op_desc *d, unsigned which, const uvcc_tensor_desc *t) {
    assert(which < 3 && t->cols != 0);
    const size_t heads = d->heads == 0 ? 1 : d->heads, groups = d->heads == 0 ? 1 : d->row_groups;
    operand o = {.width = t->cols, .group = (size_t)t->rows / groups * t->cols};
    if (d->flags & UVCC_OP_STACKED_A << which) {
        o.rows = t->rows / groups / heads;
        o.cols = t->cols;
        o.head = o.rows * o.width;
    } else {
        o.rows = t->rows / groups;
        o.cols = t->cols / heads;
        o.head = o.cols;
    }
    return o;
}

/* A block, row by row, or its transpose (cols x rows) likewise. */
static void take_block(const int64_t *in, const operand *o, bool transposed, int64_t *out) {
    const size_t tile = 16;
    if (!transposed) {
        for (size_t i = 0; i < o->rows; i++)
            memcpy(out + i * o->cols, in + i * o->width, o->cols * sizeof *out);
        return;
    }
    for (size_t i0 = 0; i0 < o->rows; i0 += tile)
        for (size_t j = 0; j < o->cols; j++)
            for (size_t i = i0; i < o->rows && i < i0 + tile; i++)
                out[j * o->rows + i] = in[i * o->width + j];
}

/* z (m x n) = a (m x k) b (k x n) mod 2^64, in panels of b that stay in the cache. */
static void multiply(const int64_t *a, const int64_t *b, uint32_t m, uint32_t n, uint32_t k,
                     uint64_t *z) {
    const uint32_t deep = 64, wide = 256;
    memset(z, 0, (size_t)m * n * sizeof *z);
    for (uint32_t j0 = 0; j0 < n; j0 += wide) {
        const uint32_t width = n - j0 < wide ? n - j0 : wide;
        for (uint32_t l0 = 0; l0 < k; l0 += deep)
            for (uint32_t i = 0; i < m; i++)
                for (uint32_t l = l0; l < k && l < l0 + deep; l++) {
                    const uint64_t x = (uint64_t)a[(size_t)i * k + l];
                    const int64_t *row = b + (size_t)l * n + j0;
                    uint64_t *sum = z + (size_t)i * n + j0;
                    for (uint32_t j = 0; j < width; j++)
                        sum[j] += x * (uint64_t)row[j];
                }
    }
}

/* C[g, h] = op(A[g, h]) op(B[g, h]), to which GEMM_PART adds its third input. */
static void run_gemm(const call *c) {
    assert(c->r->packed != NULL && c->d->in_count >= 2);
    const uvcc_op_desc *d = c->d;
    const bool ta = d->flags & UVCC_OP_TRANS_A, tb = d->flags & UVCC_OP_TRANS_B;
    const operand a = operand_of(d, 0, c->desc[0]), b = operand_of(d, 1, c->desc[1]);
    const operand z = operand_of(d, 2, &c->r->p->tensors[d->out[0]].desc);
    const size_t heads = d->heads == 0 ? 1 : d->heads, groups = d->heads == 0 ? 1 : d->row_groups;
    int64_t *left = c->r->packed, *right = left + a.rows * a.cols;
    uint64_t *sum = (uint64_t *)(right + b.rows * b.cols), *out = (uint64_t *)c->out[0];
    for (size_t i = 0; i < groups * heads; i++) {
        const size_t g = i / heads, h = i % heads, at = g * z.group + h * z.head;
        take_block(c->in[0] + g * a.group + h * a.head, &a, ta, left);
        take_block(c->in[1] + g * b.group + h * b.head, &b, tb, right);
        multiply(left, right, (uint32_t)z.rows, (uint32_t)z.cols, (uint32_t)(ta ? a.rows : a.cols),
                 sum);
        for (size_t r = 0; r < z.rows; r++)
            for (size_t q = 0; q < z.cols; q++) {
                const size_t e = at + r * z.width + q;
                out[e] = sum[r * z.cols + q] + (d->in_count == 3 ? (uint64_t)c->in[2][e] : 0);
            }
    }
    truncate_result(c);
}

/* One element of each operand at a time, at its own place. */
static void run_elements(const call *c) {
    const int64_t *x = c->in[0], *y = c->in[1];
    uint64_t *z = (uint64_t *)c->out[0];
    const size_t cols = c->desc[0]->cols;
    switch (c->d->opcode) {
    case UVCC_OP_ELEM_MUL:
        for (size_t i = 0; i < c->elems; i++)
            z[i] = (uint64_t)multiply_known(c, x[i], y[i]);
        truncate_result(c);
        break;
    case UVCC_OP_BIAS_ADD:
        for (size_t i = 0; i < c->elems; i++)
            z[i] = (uint64_t)x[i] + (uint64_t)y[i % (cols * c->desc[1]->rows)];
        break;
    case UVCC_OP_ADD:
        for (size_t i = 0; i < c->elems; i++)
            z[i] = (uint64_t)x[i] + (uint64_t)y[i];
        break;
    case UVCC_OP_SUB:
        for (size_t i = 0; i < c->elems; i++)
            z[i] = (uint64_t)x[i] - (uint64_t)y[i];
        break;
    case UVCC_OP_SHIFT_LEFT:
        for (size_t i = 0; i < c->elems; i++)
            z[i] = (uint64_t)x[i] << c->d->shift;
        break;
    default:
        assert(c->d->opcode == UVCC_OP_TRUNCATE || c->d->opcode == UVCC_OP_RESHARE);
        memmove(z, x, c->elems * sizeof *z);
        truncate_result(c);
    }
}

/* y is one row, one column or one value for all of x. */
static void run_broadcast(const call *c) {
    assert(c->d->in_count == 2 && c->desc[0]->cols != 0);
    const size_t cols = c->desc[0]->cols, row_cols = c->desc[1]->cols;
    for (size_t i = 0; i < c->elems; i++) {
        const bool row = c->d->opcode == UVCC_OP_COL_MUL;
        const uint64_t x = (uint64_t)c->in[0][i],
                       y = (uint64_t)c->in[1][row ? i % row_cols : i / cols];
        uint64_t z = (uint64_t)multiply_known(c, (int64_t)x, (int64_t)y);
        if (c->d->opcode == UVCC_OP_ROW_ADD)
            z = x + y;
        else if (c->d->opcode == UVCC_OP_ROW_SUB)
            z = x - y;
        else if (c->d->opcode == UVCC_OP_ROW_RSUB)
            z = y - x;
        c->out[0][i] = (int64_t)z;
    }
    if (c->d->opcode == UVCC_OP_ROW_MUL || c->d->opcode == UVCC_OP_COL_MUL)
        truncate_result(c);
}

static void run_mul_part(const call *c) {
    assert(c->d->in_count == 2 && c->desc[0]->cols != 0);
    const size_t cols = c->desc[0]->cols, y_rows = c->desc[1]->rows, y_cols = c->desc[1]->cols;
    for (size_t i = 0; i < c->elems; i++) {
        const size_t row = i / cols % y_rows, col = i % cols % y_cols; /* 0 where there is one */
        if (__builtin_mul_overflow(c->in[0][i], c->in[1][row * y_cols + col], &c->out[0][i]))
            c->out[0][i] = INT64_MAX; /* no output has room for it */
    }
}

static void run_public(const call *c) {
    assert(c->d->in_count == 1);
    const uint64_t constant = (uint64_t)c->d->constant;
    for (size_t i = 0; i < c->elems; i++) {
        uint64_t z = (uint64_t)c->in[0][i];
        if (c->d->opcode == UVCC_OP_SCALE_PUBLIC)
            z *= constant;
        else
            z += constant;
        c->out[0][i] = (int64_t)z;
    }
}

/* Groups of rows that stand one under the other. */
static size_t groups_of(const uvcc_op_desc *d) {
    return d->heads == 0 ? 1 : (size_t)d->heads * d->row_groups;
}

/* A group's rows are the last of a square of the columns; without heads squares stand one under the
 * other. */
static void run_causal_mask(const call *c) {
    const size_t cols = c->desc[0]->cols,
                 rows = c->d->heads == 0 ? cols : c->desc[0]->rows / groups_of(c->d);
    assert(rows <= cols);
    for (size_t i = 0; i < c->elems; i++) {
        const size_t in_square = cols - rows + i / cols % rows;
        const bool far = c->d->window != 0 && i % cols + c->d->window <= in_square;
        c->out[0][i] = i % cols > in_square || far ? c->d->constant : c->in[0][i];
    }
}

/* SLICE_ROWS, PUT_ROWS, ADD_ROWS: element by element of the part. */
static void run_part_of_rows(const call *c) {
    const bool slice = c->d->opcode == UVCC_OP_SLICE_ROWS;
    const uvcc_tensor_desc *out = &c->r->p->tensors[c->d->out[0]].desc;
    const size_t groups = groups_of(c->d), cols = out->cols;
    const size_t part = (slice ? out->rows : c->desc[0]->rows) / groups * cols,
                 all = (slice ? c->desc[0]->rows : out->rows) / groups * cols;
    for (size_t i = 0; !slice && i < c->elems; i++)
        c->out[0][i] = c->d->in_count == 2 ? c->in[1][i] : 0;
    for (size_t i = 0; i < groups * part; i++) {
        const size_t in_all = i / part * all + (size_t)c->d->constant * cols + i % part;
        if (slice)
            c->out[0][i] = c->in[0][in_all];
        else if (c->d->opcode == UVCC_OP_PUT_ROWS)
            c->out[0][in_all] = c->in[0][i];
        else
            c->out[0][in_all] = (int64_t)((uint64_t)c->out[0][in_all] + (uint64_t)c->in[0][i]);
    }
}

static void run_row_dot(const call *c) {
    assert(c->elems == c->desc[0]->rows);
    const size_t cols = c->desc[0]->cols;
    for (size_t i = 0; i < c->elems; i++) {
        uint64_t sum = 0;
        for (size_t j = i * cols; j < (i + 1) * cols; j++)
            sum += (uint64_t)c->in[0][j] * (uint64_t)c->in[1][j];
        c->out[0][i] = (int64_t)(sum * (uint64_t)c->d->constant);
    }
    truncate_result(c);
}

/* z += x. A sum that leaves 64 bits, which only one WITHIN bits of its author's can, becomes one
 * that no output has room for, and stays it. */
static void add_to(int64_t *z, int64_t x) {
    if (*z == INT64_MAX || __builtin_add_overflow(*z, x, z))
        *z = INT64_MAX;
}

/* x a + y b, or what no output has room for. */
static int64_t turned(int64_t x, int64_t a, int64_t y, int64_t b) {
    int64_t first, second, sum;
    if (__builtin_mul_overflow(x, a, &first) || __builtin_mul_overflow(y, b, &second) ||
        __builtin_add_overflow(first, second, &sum))
        return INT64_MAX;
    return sum;
}

/* Rotary positions: as complex numbers, of which the first half of a head has the real parts. */
static void run_rotate(const call *c) {
    const size_t head = c->desc[1]->cols, half = head / 2;
    for (size_t i = 0; i < c->elems; i++) {
        const size_t row = i / c->desc[0]->cols, col = i % c->desc[0]->cols % head;
        const int64_t *angle = c->in[1] + row % c->desc[1]->rows * head + col % half;
        const int64_t *re = c->in[0] + i - (col < half ? 0 : half), *im = re + half;
        c->out[0][i] = col < half ? turned(*re, angle[0], *im, -angle[half])
                                  : turned(*im, angle[0], *re, angle[half]);
    }
}

/* Blocks of a row, one for each column of the output, so as many elements each. */
static void run_row_sum(const call *c) {
    assert(c->elems != 0);
    const size_t width = (size_t)c->desc[0]->rows * c->desc[0]->cols / c->elems;
    for (size_t i = 0; i < c->elems; i++) {
        int64_t sum = 0;
        for (size_t j = i * width; j < (i + 1) * width; j++)
            add_to(&sum, c->in[0][j]);
        c->out[0][i] = sum;
    }
}

static void run_reduce(const call *c) {
    assert(c->elems != 0);
    memset(c->out[0], 0, c->elems * sizeof *c->out[0]);
    const size_t count = (size_t)c->desc[0]->rows * c->desc[0]->cols;
    for (size_t i = 0; i < count; i++)
        add_to(&c->out[0][i % c->elems], c->in[0][i]);
}

/* Each block of columns, as often as the output has columns for all of them. */
static void run_repeat_cols(const call *c) {
    const size_t cols = c->r->p->tensors[c->d->out[0]].desc.cols, from = c->desc[0]->cols;
    const size_t width = (size_t)c->d->constant, times = cols / from;
    for (size_t i = 0; i < c->elems; i++) {
        const size_t row = i / cols, col = i % cols;
        c->out[0][i] = c->in[0][row * from + col / width / times * width + col % width];
    }
}

/* The rows that numbers name: those of a second column in the part of the table from `constant` on.
 * A number that names none is refused by its place; a secure run takes a row of zeros for it. */
static int run_embed(const call *c) {
    char label[UVCCI_LABEL_BYTES];
    const size_t width = c->desc[1]->cols, tables = c->desc[0]->cols,
                 split = (size_t)c->d->constant;
    if (uvcci_is_dealt(c->desc[0]) && !c->r->given[c->d->in[0]])
        return uvcci_fail(c->m, UVCC_ERR_STATE, "%s: %s has not been set",
                          uvcci_op_label(c->op, label), c->desc[0]->name);
    for (size_t i = 0; i < c->elems; i++) {
        uint64_t sum = c->d->in_count == 3 ? (uint64_t)c->in[2][i] : 0;
        for (size_t t = 0; t < tables; t++) {
            const int64_t id = c->in[0][i / width * tables + t];
            const size_t first = t == 0 ? 0 : split;
            const size_t rows = t == 0 && split != 0 ? split : c->desc[1]->rows - first;
            if (id < 0 || (uint64_t)id >= rows)
                return uvcci_fail(c->m, UVCC_ERR_BOUND,
                                  "%s: row %zu, column %zu of %s is %lld, but there are %zu rows",
                                  uvcci_op_label(c->op, label), i / width, t,
                                  c->r->p->tensors[c->d->in[0]].name, (long long)id, rows);
            sum += (uint64_t)c->in[1][(first + (size_t)id) * width + i % width];
        }
        c->out[0][i] = (int64_t)sum;
    }
    return 0;
}

static void run_relu(const call *c) {
    assert(c->d->out_count == 2);
    for (size_t i = 0; i < c->elems; i++) {
        const int64_t x = c->in[0][i];
        c->out[0][i] = x >= 0 ? x : 0;
        c->out[1][i] = x >= 0;
    }
}

static int run_function(const call *c) {
    char label[UVCCI_LABEL_BYTES];
    const uvcc_function *f = &c->r->p->functions[c->d->function]->f;
    int err = uvcc_function_eval(f, c->desc[0]->rows, c->desc[0]->cols, c->in, c->out, NULL,
                                 &c->r->alloc);
    return err == 0 ? 0 : uvcci_fail(c->m, err, "%s: out of memory", uvcci_op_label(c->op, label));
}

/* What sums rows or columns. */
static void run_sums(const call *c) {
    if (c->d->opcode == UVCC_OP_ROW_SUM)
        run_row_sum(c);
    else if (c->d->opcode == UVCC_OP_ROW_DOT)
        run_row_dot(c);
    else
        run_reduce(c);
}

/* What the caller set: an input, or words that were drawn, since there is no seed here. */
static int run_given(const call *c) {
    char label[UVCCI_LABEL_BYTES];
    if (c->r->given[c->d->out[0]])
        return 0;
    return uvcci_fail(c->m, UVCC_ERR_STATE, "%s: its value has not been set",
                      uvcci_op_label(c->op, label));
}

/* The oracle: what an op means in plaintext, apart from the tables that sessions work from. */
static int run_op(const call *c) {
    switch (c->d->opcode) {
    case UVCC_OP_INPUT:
    case UVCC_OP_INPUT_ONE_HOT:
    case UVCC_OP_RANDOM:
        return run_given(c);
    case UVCC_OP_EMBED:
        return run_embed(c);
    case UVCC_OP_OUTPUT:
    case UVCC_OP_OUTPUT_TO:
    case UVCC_OP_SKS_START: /* checks change nothing, and the reference makes no mistakes */
    case UVCC_OP_SKS_GEMM_CHECK:
        return 0;
    case UVCC_OP_GEMM_SS:
    case UVCC_OP_GEMM_PART:
        run_gemm(c);
        return 0;
    case UVCC_OP_ELEM_MUL:
    case UVCC_OP_BIAS_ADD:
    case UVCC_OP_ADD:
    case UVCC_OP_SUB:
    case UVCC_OP_SHIFT_LEFT:
    case UVCC_OP_TRUNCATE:
    case UVCC_OP_RESHARE:
        run_elements(c);
        return 0;
    case UVCC_OP_ROW_ADD:
    case UVCC_OP_ROW_SUB:
    case UVCC_OP_ROW_RSUB:
    case UVCC_OP_ROW_MUL:
    case UVCC_OP_COL_MUL:
        run_broadcast(c);
        return 0;
    case UVCC_OP_SCALE_PUBLIC:
    case UVCC_OP_ADD_PUBLIC:
        run_public(c);
        return 0;
    case UVCC_OP_MUL_PART:
        run_mul_part(c);
        return 0;
    case UVCC_OP_CAUSAL_MASK:
        run_causal_mask(c);
        return 0;
    case UVCC_OP_SLICE_ROWS:
    case UVCC_OP_PUT_ROWS:
    case UVCC_OP_ADD_ROWS:
        run_part_of_rows(c);
        return 0;
    case UVCC_OP_ROW_SUM:
    case UVCC_OP_ROW_DOT:
    case UVCC_OP_REDUCE_BIAS_GRAD:
        run_sums(c);
        return 0;
    case UVCC_OP_ROTATE:
        run_rotate(c);
        return 0;
    case UVCC_OP_REPEAT_COLS:
        run_repeat_cols(c);
        return 0;
    case UVCC_OP_RELU:
        run_relu(c);
        return 0;
    case UVCC_OP_FUNCTION:
        return run_function(c);
    default:
        assert(false); /* the loader knows no other */
        return UVCC_ERR_PROGRAM;
    }
}

/* What an earlier step left outside its bound is not worked on: the bounds above count on it. */
static int check_inputs(const uvcc_reference *r, const uvcci_op *op, const uvcci_message *m) {
    char label[UVCCI_LABEL_BYTES];
    for (uint32_t j = 0; j < op->desc.in_count; j++)
        if (r->outside[op->desc.in[j]])
            return uvcci_fail(m, UVCC_ERR_BOUND,
                              "%s: %s is outside its bits since a step that failed; set it anew",
                              uvcci_op_label(op, label), r->p->tensors[op->desc.in[j]].name);
    return 0;
}

static int check_outputs(uvcc_reference *r, const uvcci_op *op, const uvcci_message *m) {
    char label[UVCCI_LABEL_BYTES];
    int err = 0;
    for (uint32_t j = 0; j < op->desc.out_count; j++) {
        const uvcci_tensor *t = &r->p->tensors[op->desc.out[j]];
        const int64_t *v = r->value[op->desc.out[j]];
        size_t i = uvcci_first_outside(v, t->elems, t->desc.bits);
        r->outside[op->desc.out[j]] = i != t->elems;
        if (i != t->elems && err == 0)
            err =
                uvcci_fail(m, UVCC_ERR_BOUND, "%s: element %zu of %s is %lld, outside its %u bits",
                           uvcci_op_label(op, label), i, t->name, (long long)v[i], t->desc.bits);
    }
    return err;
}

/* An op that is no collective. */
static int step_op(uvcc_reference *r, const uvcci_op *op, const uvcci_message *m) {
    assert(op->desc.in_count <= UVCC_OP_MAX_IN && op->desc.out_count <= UVCC_OP_MAX_OUT);
    call c = {.r = r, .op = op, .d = &op->desc, .m = m};
    for (uint32_t j = 0; j < op->desc.in_count; j++) {
        c.desc[j] = &r->p->tensors[op->desc.in[j]].desc;
        c.in[j] = r->value[op->desc.in[j]];
    }
    for (uint32_t j = 0; j < op->desc.out_count; j++)
        c.out[j] = r->value[op->desc.out[j]];
    if (op->desc.out_count > 0)
        c.elems = (size_t)r->p->tensors[op->desc.out[0]].elems;
    int err = check_inputs(r, op, m);
    if (err == 0)
        err = run_op(&c);
    return err == 0 ? check_outputs(r, op, m) : err;
}

/* ---- workers together ---- */

/* What a SEND_PP left for the neighbour. */
typedef struct letter {
    struct letter *next;
    uint32_t to;
    uint8_t phase;
    uint16_t mb;
    uint64_t elems;
    int64_t values[];
} letter;

/* All workers in one entry. Each works in program order; a SEND_PP leaves a letter and goes on,
 * other collectives wait. */
typedef struct crew {
    uvcc_reference *const *workers;
    uint32_t count, entry;
    uvcci_topology topo;
    uint32_t *at;      /* [worker]: the op it is at */
    uint32_t *members; /* [worker]: of the group at hand */
    letter *letters;
    const uvcci_message *m;
} crew;

static const uvcci_op *op_at(const crew *c, uint32_t worker) {
    assert(worker < c->count);
    const uvcci_entry *e = &c->workers[worker]->p->entries[c->entry];
    return c->at[worker] < e->op_count ? &e->ops[c->at[worker]] : NULL;
}

/* The neighbouring stage to which (send) or from which an op's tensor goes. finish saw that it is
 * there. */
static uint32_t neighbour(const crew *c, uint32_t worker, const uvcc_op_desc *d) {
    const bool up = (d->opcode == UVCC_OP_SEND_PP) == (d->phase == UVCC_FWD);
    return up ? worker + c->topo.tp_ranks : worker - c->topo.tp_ranks;
}

static size_t letter_bytes(uint64_t elems) {
    return sizeof(letter) + (size_t)elems * sizeof(int64_t);
}

static int send_letter(crew *c, uint32_t worker, const uvcc_op_desc *d) {
    const uvcc_reference *r = c->workers[worker];
    const uint64_t elems = r->p->tensors[d->in[0]].elems;
    const uvcc_allocator *al = &c->workers[0]->alloc;
    letter *l = al->alloc(al->user, letter_bytes(elems), UVCC_MEM_STATE);
    if (l == NULL)
        return uvcci_fail(c->m, UVCC_ERR_NOMEM, "out of memory");
    *l = (letter){.next = c->letters,
                  .to = neighbour(c, worker, d),
                  .phase = d->phase,
                  .mb = d->mb,
                  .elems = elems};
    memcpy(l->values, r->value[d->in[0]], (size_t)elems * sizeof(int64_t));
    c->letters = l;
    c->at[worker]++;
    return 1;
}

static void drop_letter(crew *c, letter **at) {
    assert(*at != NULL);
    const uvcc_allocator *al = &c->workers[0]->alloc;
    letter *l = *at;
    *at = l->next;
    al->free(al->user, l, letter_bytes(l->elems), UVCC_MEM_STATE);
}

/* 1 if a letter was there, 0 if not yet. */
static int receive_letter(crew *c, uint32_t worker, const uvcci_op *op) {
    char label[UVCCI_LABEL_BYTES];
    uvcc_reference *r = c->workers[worker];
    letter **at = &c->letters;
    while (*at != NULL &&
           ((*at)->to != worker || (*at)->phase != op->desc.phase || (*at)->mb != op->desc.mb))
        at = &(*at)->next;
    if (*at == NULL)
        return 0;
    if ((*at)->elems != r->p->tensors[op->desc.out[0]].elems)
        return uvcci_fail(c->m, UVCC_ERR_STATE, "%s: the neighbour sent another number of elements",
                          uvcci_op_label(op, label));
    memcpy(r->value[op->desc.out[0]], (*at)->values, (size_t)(*at)->elems * sizeof(int64_t));
    drop_letter(c, at);
    c->at[worker]++;
    int err = check_outputs(r, op, c->m);
    return err == 0 ? 1 : err;
}

/* Members of the group of a worker at a REDUCE_SCATTER or ALL_GATHER, in order. */
static uint32_t group_of(const crew *c, uint32_t worker, const uvcc_op_desc *d) {
    static const uvcci_group kinds[] = {[UVCC_GROUP_TP] = UVCCI_GROUP_TP,
                                        [UVCC_GROUP_PP] = UVCCI_GROUP_PP,
                                        [UVCC_GROUP_DP] = UVCCI_GROUP_DP,
                                        [UVCC_GROUP_STAGE] = UVCCI_GROUP_STAGE};
    uvcci_coord at;
    int n = uvcci_topology_coord(&c->topo, worker, &at);
    assert(n == 0);
    n = uvcci_topology_group(&c->topo, kinds[d->group], at, c->members, c->count);
    assert(n > 0);
    return (uint32_t)n;
}

static void exchange(const crew *c, uint32_t size, bool sum) {
    assert(size >= 1 && size <= c->count);
    for (uint32_t i = 0; i < size; i++) {
        uvcc_reference *r = c->workers[c->members[i]];
        const uint32_t out = op_at(c, c->members[i])->desc.out[0];
        int64_t *z = r->value[out];
        const size_t slice = (size_t)r->p->tensors[out].elems / (sum ? 1 : size);
        if (sum)
            memset(z, 0, slice * sizeof *z);
        for (uint32_t j = 0; j < size; j++) {
            const int64_t *x =
                c->workers[c->members[j]]->value[op_at(c, c->members[j])->desc.in[0]];
            for (size_t k = 0; k < slice; k++)
                if (sum)
                    z[k] = (int64_t)((uint64_t)z[k] + (uint64_t)x[i * slice + k]);
                else
                    z[j * slice + k] = x[k];
        }
    }
}

/* 1 if all members are there and it is done, 0 if not yet. */
static int meet(crew *c, uint32_t worker, const uvcci_op *op) {
    char label[UVCCI_LABEL_BYTES], other[UVCCI_LABEL_BYTES];
    const uvcc_op_desc *d = &op->desc;
    const uint32_t size = group_of(c, worker, d);
    const uint64_t elems = c->workers[worker]->p->tensors[d->in[0]].elems;
    for (uint32_t i = 0; i < size; i++) {
        const uvcci_op *o = op_at(c, c->members[i]);
        if (o == NULL || uvcci_op_key(&o->desc) != uvcci_op_key(d))
            return 0;
        if (o->desc.opcode != d->opcode || o->desc.group != d->group ||
            c->workers[c->members[i]]->p->tensors[o->desc.in[0]].elems != elems)
            return uvcci_fail(c->m, UVCC_ERR_STATE, "%s of worker %u meets %s of worker %u",
                              uvcci_op_label(op, label), worker, uvcci_op_label(o, other),
                              c->members[i]);
        int err = check_inputs(c->workers[c->members[i]], o, c->m);
        if (err != 0)
            return err;
    }
    exchange(c, size, d->opcode == UVCC_OP_REDUCE_SCATTER);
    for (uint32_t i = 0; i < size; i++) {
        int err = check_outputs(c->workers[c->members[i]], op_at(c, c->members[i]), c->m);
        if (err != 0)
            return err;
        c->at[c->members[i]]++;
    }
    return 1;
}

/* One op of a worker: 1, 0 if it must wait, or an error. */
static int advance(crew *c, uint32_t worker) {
    const uvcci_op *op = op_at(c, worker);
    int err = check_inputs(c->workers[worker], op, c->m);
    if (err != 0)
        return err;
    switch (op->desc.opcode) {
    case UVCC_OP_SEND_PP:
        return send_letter(c, worker, &op->desc);
    case UVCC_OP_RECV_PP:
        return receive_letter(c, worker, op);
    case UVCC_OP_REDUCE_SCATTER:
    case UVCC_OP_ALL_GATHER:
        return meet(c, worker, op);
    default:
        c->at[worker]++;
        err = step_op(c->workers[worker], op, c->m);
        return err == 0 ? 1 : err;
    }
}

/* Workers in turn, each as far as it can go, until all are at their ends. */
static int run_crew(crew *c) {
    char label[UVCCI_LABEL_BYTES];
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t w = 0; w < c->count; w++) {
            int rc = 1;
            while (op_at(c, w) != NULL && (rc = advance(c, w)) == 1)
                moved = true;
            if (rc < 0)
                return rc;
        }
    }
    for (uint32_t w = 0; w < c->count; w++)
        if (op_at(c, w) != NULL)
            return uvcci_fail(c->m, UVCC_ERR_STATE, "worker %u waits for another one for ever: %s",
                              w, uvcci_op_label(op_at(c, w), label));
    return 0;
}

static int check_crew(const crew *c) {
    for (uint32_t w = 0; w < c->count; w++) {
        const uvcc_reference *r = c->workers[w];
        if (r == NULL || c->entry >= r->p->entry_count)
            return uvcci_fail(c->m, UVCC_ERR_USAGE, "there is no entry %u", c->entry);
        if (r->p->replicas != c->topo.replicas || r->p->stages != c->topo.stages ||
            r->p->tp_ranks != c->topo.tp_ranks)
            return uvcci_fail(c->m, UVCC_ERR_USAGE, "the workers' programs differ in topology");
    }
    const uvcci_entry *e = &c->workers[0]->p->entries[c->entry];
    if (c->count == 1 && uvcci_collective_count(e) == 0)
        return 0; /* it needs nobody */
    if (uvcci_topology_workers(&c->topo) != c->count)
        return uvcci_fail(c->m, UVCC_ERR_USAGE, "the program is one of %u workers, not of %u",
                          uvcci_topology_workers(&c->topo), c->count);
    return 0;
}

int uvcc_reference_step_group(uvcc_reference *const *workers, uint32_t count, uint32_t entry,
                              char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    if (workers == NULL || count == 0 || workers[0] == NULL)
        return uvcci_fail(&m, UVCC_ERR_USAGE, "there are no workers");
    const uvcc_program *p = workers[0]->p;
    const uvcc_allocator *al = &workers[0]->alloc;
    crew c = {.workers = workers,
              .count = count,
              .entry = entry,
              .topo = {(uint16_t)p->replicas, (uint16_t)p->stages, (uint16_t)p->tp_ranks},
              .m = &m};
    int err = check_crew(&c);
    if (err != 0)
        return err;
    const size_t bytes = 2 * (size_t)count * sizeof(uint32_t);
    c.at = al->alloc(al->user, bytes, UVCC_MEM_STATE);
    if (c.at == NULL)
        return uvcci_fail(&m, UVCC_ERR_NOMEM, "out of memory");
    memset(c.at, 0, bytes);
    c.members = c.at + count;
    err = run_crew(&c);
    while (c.letters != NULL)
        drop_letter(&c, &c.letters);
    al->free(al->user, c.at, bytes, UVCC_MEM_STATE);
    return err == 0 ? uvcci_fail(&m, 0, "%s", "") : err;
}

int uvcc_reference_step(uvcc_reference *r, uint32_t entry, char *message, size_t message_cap) {
    return uvcc_reference_step_group(&r, 1, entry, message, message_cap);
}
