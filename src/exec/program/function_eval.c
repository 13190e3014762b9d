/* SPDX-License-Identifier: Apache-2.0 */
/* function_eval.c - functions in plaintext, as <uvcc/function.h> defines each kind: the oracle that
 * secure runs are compared with. It takes widths from the compiled form, and nothing else that
 * sessions use: the table of kinds here is its own. */
#include "exec/program/function.h"

#include <assert.h>
#include <string.h>

/* Rows that are evaluated together: enough elements to keep the instructions' overhead small. */
enum { BATCH_ELEMS = 1024 };

typedef struct evaluation {
    const uvcc_function *f;
    uvcci_fn_plan plan;
    const int64_t *const *in;
    int64_t *const *out;
    const uint64_t *const *low;
    size_t first, rows;                /* the batch */
    size_t offset[UVCC_FN_INSTRS_MAX]; /* of an instruction's values in `values` */
    uint64_t *values;
} evaluation;

static int64_t floor_shift(uint64_t v, unsigned shift) {
    return (int64_t)v >> shift; /* arithmetic on every compiler this builds with */
}

/* z(c, l) of UVCC_FN_TABLE. */
static uint64_t factor(const int64_t *c, uint64_t l, unsigned s) {
    uint64_t z = (uint64_t)c[3];
    for (unsigned j = 3; j-- > 0;)
        z = (uint64_t)c[j] + (uint64_t)floor_shift(l * z, s);
    return z;
}

static uint64_t entry_at(const uvcc_fn_instr *s, uint64_t x) {
    const uint64_t mask = (1ull << s->bits) - 1;
    const bool whole = s->first == 0 && s->entry_count == mask + 1;
    const uint64_t i = whole ? x & mask : x - (uint64_t)s->first;
    return i < s->entry_count ? (uint64_t)(int64_t)s->entries[i] : 0;
}

static uint64_t weigh(const uvcc_fn_instr *s, uint64_t bits) {
    uint64_t sum = 0;
    for (uint32_t j = 0; j < s->word_count; j++)
        sum += bits >> j & 1 ? (uint64_t)s->words[j] : 0;
    return sum;
}

/* An instruction at work: its operands' values, NULL where it has none, and its own. */
typedef struct call {
    const evaluation *e;
    const uvcc_fn_instr *s; /* canonical */
    const uint64_t *x, *y, *w;
    const uint64_t *low; /* r_low of its elements, or NULL: all 0 */
    uint64_t *z;
    uint32_t width; /* of its value */
    size_t n;
} call;

/* r_low of an instruction's elements in this batch. */
static const uint64_t *low_of(const evaluation *e, unsigned instr) {
    return e->low != NULL && e->low[instr] != NULL
               ? e->low[instr] + e->first * e->plan.instr[instr].width
               : NULL;
}

static uint64_t r_low(const uint64_t *low, size_t i) {
    return low != NULL ? low[i] : 0;
}

static uint32_t width_of_x(const call *k) {
    return k->e->plan.instr[k->s->a].width;
}

/* ---- kinds ---- */

static int eval_open(const call *k) {
    memcpy(k->z, k->e->in[k->s->io] + k->e->first * k->width, k->n * sizeof *k->z);
    return 0;
}

/* SHIFT and TRUNC. */
static int eval_shift(const call *k) {
    for (size_t i = 0; i < k->n; i++)
        k->z[i] = (uint64_t)floor_shift(k->x[i] + r_low(k->low, i), k->s->shift);
    return 0;
}

/* Whatever the masks are. */
static int eval_floor(const call *k) {
    for (size_t i = 0; i < k->n; i++)
        k->z[i] = (uint64_t)floor_shift(k->x[i], k->s->shift);
    return 0;
}

static int eval_low(const call *k) {
    const uint64_t mask = (1ull << k->s->bits) - 1;
    for (size_t i = 0; i < k->n; i++) {
        const uint64_t r = r_low(k->low, i);
        k->z[i] = ((k->x[i] + r) & mask) - r;
    }
    return 0;
}

/* The second of a pair of columns; the last column of an odd width is paired with itself. */
static uint64_t second_of(const uint64_t *row, uint32_t wide, uint32_t j) {
    return row[2 * j + 1 < wide ? 2 * j + 1 : 2 * j];
}

static int eval_pair_diff(const call *k) {
    const uint32_t wide = width_of_x(k);
    for (size_t r = 0; r < k->e->rows; r++)
        for (uint32_t j = 0; j < k->width; j++) {
            const uint64_t *row = k->x + r * wide;
            k->z[r * k->width + j] = row[2 * j] - second_of(row, wide, j);
        }
    return 0;
}

static int eval_pair_second(const call *k) {
    const uint32_t wide = width_of_x(k);
    for (size_t r = 0; r < k->e->rows; r++)
        for (uint32_t j = 0; j < k->width; j++)
            k->z[r * k->width + j] = second_of(k->x + r * wide, wide, j);
    return 0;
}

/* Column j of a row, or the last one. */
static uint64_t column(const uint64_t *row, uint32_t wide, uint32_t j) {
    return row[j < wide ? j : wide - 1];
}

static int eval_quad_diff(const call *k) {
    const uint32_t wide = width_of_x(k);
    const uint64_t *row = k->x;
    uint64_t *z = k->z;
    for (size_t r = 0; r < k->e->rows; r++, row += wide)
        for (uint32_t j = 0; j < wide; j += 4)
            for (unsigned p = 0; p < UVCCI_FN_QUAD_PAIRS; p++)
                *z++ = column(row, wide, j + uvcci_fn_quad[p][0]) -
                       column(row, wide, j + uvcci_fn_quad[p][1]);
    assert(z == k->z + k->n);
    return 0;
}

static int eval_quad_last(const call *k) {
    const uint32_t wide = width_of_x(k);
    const uint64_t *row = k->x;
    uint64_t *z = k->z;
    for (size_t r = 0; r < k->e->rows; r++, row += wide)
        for (uint32_t j = 0; j < wide; j += 4)
            *z++ = column(row, wide, j + 3);
    assert(z == k->z + k->n);
    return 0;
}

static int eval_best(const call *k) {
    const uint64_t *x = k->x, *y = k->y;
    for (size_t i = 0; i < k->n; i++, x += UVCCI_FN_QUAD_PAIRS, y += UVCCI_FN_QUAD_PAIRS) {
        k->z[i] = 0;
        for (unsigned o = 0; o < UVCCI_FN_QUAD_OTHERS; o++) {
            const uvcci_fn_candidate *c = &uvcci_fn_candidates[o];
            bool best = true;
            for (unsigned j = 0; j < UVCCI_FN_QUAD_OTHERS; j++)
                best &= (x[c->pair[j]] & 1) != c->lost[j];
            k->z[i] += best ? y[c->less_last] : 0;
        }
    }
    return 0;
}

static int eval_row_sum(const call *k) {
    const uint32_t wide = width_of_x(k);
    for (size_t r = 0; r < k->e->rows; r++) {
        k->z[r] = 0;
        for (uint32_t j = 0; j < wide; j++)
            k->z[r] += k->x[r * wide + j];
    }
    return 0;
}

static int eval_spread(const call *k) {
    for (size_t r = 0; r < k->e->rows; r++)
        for (uint32_t j = 0; j < k->width; j++)
            k->z[r * k->width + j] = k->x[r];
    return 0;
}

static int eval_sub(const call *k) {
    for (size_t i = 0; i < k->n; i++)
        k->z[i] = k->x[i] - k->y[i];
    return 0;
}

static int eval_mul(const call *k) {
    for (size_t i = 0; i < k->n; i++)
        k->z[i] = k->x[i] * k->y[i];
    return 0;
}

static int eval_compare(const call *k) {
    for (size_t i = 0; i < k->n; i++) {
        k->z[i] = 0;
        for (uint32_t j = 0; j < k->s->word_count; j++)
            k->z[i] |= (uint64_t)((int64_t)k->x[i] >= k->s->words[j]) << j;
    }
    return 0;
}

/* With a shift, r_low is that of the SHIFT that x comes from. */
static int eval_table(const call *k) {
    const uvcc_fn_instr *s = k->s;
    const uint64_t *low = low_of(k->e, s->a);
    for (size_t i = 0; i < k->n; i++) {
        const uint64_t entry = entry_at(s, k->x[i]);
        if (s->shift == 0) {
            k->z[i] = k->y != NULL ? entry * k->y[i] : entry;
            continue;
        }
        const uint64_t r = r_low(low, i);
        const uint64_t lo = (k->y[i] + r) & ((1ull << s->shift) - 1);
        k->z[i] = (uint64_t)floor_shift(entry * factor(s->words, lo, s->shift), 30) *
                  (uint64_t)floor_shift(factor(s->words + 4, r, s->shift), (unsigned)s->constant);
    }
    return 0;
}

static int eval_table_mul(const call *k) {
    for (size_t i = 0; i < k->n; i++) {
        const bool on = k->y == NULL || (k->y[i] & 1) != 0;
        const uint64_t entry = on ? entry_at(k->s, k->x[i]) : 0;
        k->z[i] = k->w != NULL ? entry * k->w[i] : entry;
    }
    return 0;
}

/* low: r_low of the last scale. */
static int eval_multiscale(const call *k) {
    const uvcc_fn_instr *s = k->s;
    const uvcci_multiscale l = uvcci_fn_multiscale(s->bits, s->shift, s->first, s->word_count);
    const size_t cells = UVCCI_MULTISCALE_SPAN * (size_t)l.cells;
    for (size_t i = 0; i < k->n; i++) {
        const uint64_t r = r_low(k->low, i), xh = k->x[i] + r;
        k->z[i] = (uint64_t)s->constant;
        for (unsigned scale = l.scales; scale-- > 0;) {
            const unsigned shift = uvcci_multiscale_bits(&l, scale);
            const int64_t index = floor_shift(xh, shift) - floor_shift(r, shift);
            if (index < (int64_t)l.cells)
                continue;
            const uint64_t at = (uint64_t)index - l.cells;
            const int64_t *w = s->words + (size_t)scale * UVCCI_MULTISCALE_WORDS * cells + at;
            const uint64_t d = uvcci_multiscale_low(xh, shift) - uvcci_multiscale_low(r, shift);
            if (at < cells)
                k->z[i] += (uint64_t)w[0] + d * ((uint64_t)w[cells] + d * (uint64_t)w[2 * cells]);
            break;
        }
    }
    return 0;
}

static int eval_spline(const call *k) {
    const uvcci_spline p = uvcci_spline_of((unsigned)k->s->first, k->s->word_count, k->s->words);
    for (size_t i = 0; i < k->n; i++)
        k->z[i] = uvcci_spline_value(&p, (int64_t)k->x[i]);
    return 0;
}

static int eval_select(const call *k) {
    for (size_t i = 0; i < k->n; i++)
        k->z[i] = k->y[i] * weigh(k->s, k->x[i]);
    return 0;
}

static int eval_select_mul(const call *k) {
    for (size_t i = 0; i < k->n; i++)
        k->z[i] = k->y[i] * weigh(k->s, k->x[i]) * (k->w[i] & 1);
    return 0;
}

static int eval_bits(const call *k) {
    for (size_t i = 0; i < k->n; i++)
        k->z[i] = weigh(k->s, k->x[i]);
    return 0;
}

static int eval_add(const call *k) {
    for (size_t i = 0; i < k->n; i++)
        k->z[i] = k->x[i] + (k->y != NULL ? k->y[i] : 0) + (uint64_t)k->s->constant;
    return 0;
}

static int eval_index(const call *k) {
    for (size_t i = 0; i < k->n; i++)
        k->z[i] = 2 * (i % k->width) + 1;
    return 0;
}

/* EXCHANGE and LIFT: what the author declares of the value is checked here, and only here. */
static int eval_lifted(const call *k) {
    const evaluation *e = k->e;
    const uint64_t bound = (1ull << k->s->bits) - 1;
    for (size_t i = 0; i < k->n && k->s->bits != 0; i++)
        if (k->x[i] + bound > 2 * bound)
            return UVCC_ERR_BOUND;
    memcpy(k->z, k->x, k->n * sizeof *k->z);
    if (k->s->io != UVCC_FN_NONE)
        memcpy(e->out[k->s->io] + e->first * (k->n / e->rows), k->x, k->n * sizeof *k->z);
    return 0;
}

/* ---- the list ---- */

typedef int (*eval_fn)(const call *k);
static const eval_fn evals[] = {
    [UVCC_FN_OPEN] = eval_open,
    [UVCC_FN_SHIFT] = eval_shift,
    [UVCC_FN_PAIR_DIFF] = eval_pair_diff,
    [UVCC_FN_PAIR_SECOND] = eval_pair_second,
    [UVCC_FN_COMPARE] = eval_compare,
    [UVCC_FN_TABLE] = eval_table,
    [UVCC_FN_SELECT] = eval_select,
    [UVCC_FN_BITS] = eval_bits,
    [UVCC_FN_ADD] = eval_add,
    [UVCC_FN_INDEX] = eval_index,
    [UVCC_FN_EXCHANGE] = eval_lifted,
    [UVCC_FN_LIFT] = eval_lifted,
    [UVCC_FN_QUAD_DIFF] = eval_quad_diff,
    [UVCC_FN_QUAD_LAST] = eval_quad_last,
    [UVCC_FN_QUAD_BEST] = eval_best,
    [UVCC_FN_SPREAD] = eval_spread,
    [UVCC_FN_SUB] = eval_sub,
    [UVCC_FN_ROW_SUM] = eval_row_sum,
    [UVCC_FN_MUL] = eval_mul,
    [UVCC_FN_TRUNC] = eval_shift,
    [UVCC_FN_MULTISCALE] = eval_multiscale,
    [UVCC_FN_FLOOR] = eval_floor,
    [UVCC_FN_SPLINE] = eval_spline,
    [UVCC_FN_LOW] = eval_low,
    [UVCC_FN_TABLE_MUL] = eval_table_mul,
    [UVCC_FN_SELECT_MUL] = eval_select_mul,
};
_Static_assert(sizeof evals / sizeof *evals == UVCC_FN_KIND_END, "a row for every kind");

static const uint64_t *values_of(const evaluation *e, uint8_t instr) {
    assert(instr == UVCC_FN_NONE || instr < e->f->instr_count);
    return instr != UVCC_FN_NONE ? e->values + e->offset[instr] : NULL;
}

static int eval_instr(const evaluation *e, unsigned index) {
    const uvcc_fn_instr s = uvcci_fn_canonical(&e->f->instrs[index]);
    const uint32_t width = e->plan.instr[index].width;
    const call k = {.e = e,
                    .s = &s,
                    .x = values_of(e, s.a),
                    .y = values_of(e, s.b),
                    .w = values_of(e, s.c),
                    .low = low_of(e, index),
                    .z = e->values + e->offset[index],
                    .width = width,
                    .n = e->rows * width};
    assert(s.kind < UVCC_FN_KIND_END && evals[s.kind] != NULL && k.n != 0);
    return evals[s.kind](&k);
}

/* Some rows at a time, so that the values of all instructions stay in a cache. */
int uvcc_function_eval(const uvcc_function *f, uint32_t rows, uint32_t cols,
                       const int64_t *const *in, int64_t *const *out, const uint64_t *const *low,
                       const uvcc_allocator *al) {
    evaluation e = {.f = f, .in = in, .out = out, .low = low};
    if (in == NULL || out == NULL || al == NULL || al->alloc == NULL || al->free == NULL)
        return UVCC_ERR_USAGE;
    int err = uvcci_fn_compile(f, cols, NULL, &e.plan, NULL, 0);
    if (err != 0 || rows == 0)
        return err;
    const size_t batch = cols < BATCH_ELEMS ? BATCH_ELEMS / cols : 1;
    const size_t most = batch < rows ? batch : rows;
    size_t elems = 0;
    for (unsigned i = 0; i < f->instr_count; i++) {
        e.offset[i] = elems;
        elems += most * e.plan.instr[i].width;
    }
    e.values = al->alloc(al->user, elems * sizeof *e.values, UVCC_MEM_STATE);
    if (e.values == NULL)
        return UVCC_ERR_NOMEM;
    for (; e.first < rows && err == 0; e.first += e.rows) {
        assert(most != 0);
        e.rows = rows - e.first < most ? rows - e.first : most;
        for (unsigned i = 0; i < f->instr_count && err == 0; i++)
            err = eval_instr(&e, i);
    }
    al->free(al->user, e.values, elems * sizeof *e.values, UVCC_MEM_STATE);
    return err;
}
