/* SPDX-License-Identifier: Apache-2.0 */
/* make_tasks_forms.c - vectors of tasks that do not work on blocks (docs/compute.md, section 9):
 * maps, matrix products, sums by bits, digests, copies. */
#include "make_tasks.h"

#include <stdio.h>
#include <string.h>
#include <uvcc/task.h>

/* ---- maps ---- */

typedef enum map_shape { SAME, ROW, COL, PAIRS, QUADS, SIXES, PART, TABLE, NONE } map_shape;

typedef struct map_kind {
    const char *op;
    map_shape x, y, out;
    bool three, is_public, constant, party;
} map_kind;

/* What a case does beside its op. */
typedef struct map_way {
    const char *name;
    uint32_t rows, cols;
    int party;
    bool lo_only, in_x, in_y;
    uint32_t block, part; /* rows of a block, and of a part of it */
    int first;            /* row of the part */
    bool alone;           /* without x */
} map_way;

static size_t elems(map_shape s, const map_way *w) {
    const uint32_t rows = w->rows, cols = w->cols;
    switch (s) {
    case SAME:
        return (size_t)rows * cols;
    case ROW:
        return cols;
    case COL:
        return rows;
    case PAIRS:
        return (size_t)rows * ((cols + 1) / 2);
    case QUADS:
        return (size_t)rows * ((cols + 3) / 4);
    case SIXES:
        return (size_t)rows * ((cols + 3) / 4) * 6;
    case TABLE:
        return (size_t)w->block * w->part;
    case PART:
        return (size_t)rows / w->block * w->part * cols;
    default:
        return 0;
    }
}

static void operand(maker_case *c, const char *lo, const char *hi, map_shape s, const map_way *w,
                    bool both) {
    const size_t n = elems(s, w);
    if (n == 0)
        return;
    maker_with(c, lo, FIXED(8 * n));
    if (both)
        maker_with(c, hi, FIXED(8 * n));
}

static void map(maker *m, const map_kind *k, const map_way *w) {
    char size[32];
    (void)snprintf(size, sizeof size, "%ux%u", w->rows, w->cols);
    const maker_label name = maker_join(k->op, size, w->name);
    maker_case c = maker_begin(m, "MAP", name.text, NULL, NULL);
    const size_t n = elems(k->out, w);
    const bool both = k->three || (!w->lo_only && !k->is_public);
    maker_arg(&c, "op", json_string(k->op));
    maker_arg(&c, "rows", json_integer(w->rows));
    maker_arg(&c, "cols", json_integer(w->cols));
    maker_arg(&c, "party", json_integer(w->party));
    if (strcmp(k->op, "SHL") == 0)
        maker_arg(&c, "shift", json_integer(13));
    if (w->block != 0)
        maker_arg(&c, "block", json_integer(w->block));
    if (w->part != 0)
        maker_arg(&c, "part", json_integer(w->part));
    if (k->constant)
        maker_arg(&c, "constant",
                  json_integer(w->part != 0 && !k->party ? w->first : -0x123456789ABCDEF));
    operand(&c, "x.lo", "x.hi", w->alone ? NONE : k->x, w, both);
    operand(&c, "y.lo", "y.hi", k->y, w, both && k->y != TABLE);
    if (w->in_x || w->in_y) {
        maker_same(&c, "out.lo", w->in_x ? "x.lo" : "y.lo");
        if (both)
            maker_same(&c, "out.hi", w->in_x ? "x.hi" : "y.hi");
    }
    maker_gives(&c, "out.lo", FIXED(8 * n));
    if (!k->three && !w->lo_only)
        maker_gives(&c, "out.hi", FIXED(8 * n));
}

/* Every op in some shapes; what depends on the party once more as another, what may lack hi
 * without. */
static void maps(maker *m) {
    static const map_kind kinds[] = {{"ADD", SAME, SAME, SAME, false, false, false, false},
                                     {"SUB", SAME, SAME, SAME, false, false, false, false},
                                     {"ADD_ROW", SAME, ROW, SAME, false, false, false, false},
                                     {"SUM_ROWS", SAME, NONE, ROW, false, false, false, false},
                                     {"MUL", SAME, SAME, SAME, true, false, false, false},
                                     {"COPY", SAME, NONE, SAME, false, false, false, false},
                                     {"SHL", SAME, NONE, SAME, false, false, false, false},
                                     {"PUBLIC", SAME, NONE, SAME, false, true, false, true},
                                     {"PAIR_DIFF", SAME, NONE, PAIRS, false, false, false, false},
                                     {"PAIR_SECOND", SAME, NONE, PAIRS, false, false, false, false},
                                     {"INDEX", NONE, NONE, SAME, false, true, false, true},
                                     {"ADD_COL", SAME, COL, SAME, false, false, false, false},
                                     {"SUB_COL", SAME, COL, SAME, false, false, false, false},
                                     {"RSUB_COL", SAME, COL, SAME, false, false, false, false},
                                     {"SUM_COLS", SAME, NONE, COL, false, false, false, false},
                                     {"MUL_COL", SAME, COL, SAME, true, false, false, false},
                                     {"MUL_ROW", SAME, ROW, SAME, true, false, false, false},
                                     {"DOT_ROWS", SAME, SAME, COL, true, false, true, false},
                                     {"SCALE", SAME, NONE, SAME, false, false, true, false},
                                     {"ADD_PUBLIC", SAME, NONE, SAME, false, false, true, true},
                                     {"CAUSAL", SAME, NONE, SAME, false, false, true, true},
                                     {"QUAD_DIFF", SAME, NONE, SIXES, false, false, false, false},
                                     {"QUAD_LAST", SAME, NONE, QUADS, false, false, false, false},
                                     {"SPREAD", COL, NONE, SAME, false, false, false, false}};
    static const char *const in_x[] = {"ADD",   "SUB",        "ADD_ROW", "COPY",
                                       "SHL",   "ADD_COL",    "SUB_COL", "RSUB_COL",
                                       "SCALE", "ADD_PUBLIC", "CAUSAL"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const map_kind *k = &kinds[i];
        const map_way ways[] = {{"", 5, 7, 1, .lo_only = false},
                                {"", 1, 1, 0, .lo_only = false},
                                {"", 9, 4, 2, .lo_only = false},
                                {"", 65, 66, 0, .lo_only = false}};
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++)
            map(m, k, &ways[w]);
        if (k->party)
            map(m, k, &(map_way){"party 2", 5, 7, 2, .lo_only = false});
        if (!k->three)
            map(m, k, &(map_way){"lo only", 3, 5, 0, .lo_only = true});
        for (size_t x = 0; x < sizeof in_x / sizeof in_x[0]; x++)
            if (strcmp(in_x[x], k->op) == 0)
                map(m, k, &(map_way){"in x", 4, 6, 1, .in_x = true});
    }
    map(m, &kinds[0], &(map_way){"in y", 4, 6, 1, .in_y = true});
    map(m, &kinds[1], &(map_way){"in y", 4, 6, 1, .in_y = true});
    map(m, &kinds[7], &(map_way){"in x", 4, 6, 0, .lo_only = true, .in_x = true});
    maker_case c = maker_begin(m, "MAP", "refused, no such op", NULL, NULL);
    maker_arg(&c, "op", json_string("none"));
    maker_arg(&c, "rows", json_integer(1));
    maker_arg(&c, "cols", json_integer(1));
    maker_fails(&c);
}

/* Maps on blocks of rows: the last rows of squares, and parts of blocks. */
static void block_maps(maker *m) {
    static const map_kind causal = {"CAUSAL", SAME, NONE, SAME, false, false, true, true};
    static const map_kind kinds[] = {{"SLICE_ROWS", SAME, NONE, PART, false, false, true, false},
                                     {"PUT_ROWS", SAME, PART, SAME, false, false, true, false},
                                     {"ADD_ROWS", SAME, PART, SAME, false, false, true, false}};
    map(m, &causal, &(map_way){"blocks of 3", 6, 5, 1, .block = 3});
    map(m, &causal, &(map_way){"blocks of 2", 8, 66, 0, .block = 2});
    map(m, &causal, &(map_way){"a block", 4, 6, 2, .block = 4, .in_x = true});
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const map_kind *k = &kinds[i];
        map(m, k, &(map_way){"rows 1 and 2 of 3", 6, 5, 0, .block = 3, .part = 2, .first = 1});
        map(m, k, &(map_way){"row 0 of 5", 65, 7, 0, .block = 5, .part = 1});
        map(m, k, &(map_way){"all", 4, 3, 0, .block = 2, .part = 2});
        map(m, k,
            &(map_way){"lo only", 6, 4, 0, .lo_only = true, .block = 6, .part = 3, .first = 3});
        if (i != 0)
            map(m, k, &(map_way){"in x", 6, 4, 0, .in_x = true, .block = 3, .part = 1, .first = 2});
    }
    map(m, &kinds[1],
        &(map_way){"into zeros", 6, 4, 0, .block = 3, .part = 1, .first = 1, .alone = true});
}

/* ---- matrix products ---- */

typedef struct product {
    const char *name;
    uint32_t m, n, k;
    bool trans_x, trans_y, accumulate;
} product;

static void gemm_args(maker_case *c, const product *p) {
    maker_arg(c, "m", json_integer(p->m));
    maker_arg(c, "n", json_integer(p->n));
    maker_arg(c, "k", json_integer(p->k));
    maker_arg(c, "trans_x", json_boolean(p->trans_x));
    maker_arg(c, "trans_y", json_boolean(p->trans_y));
    maker_arg(c, "accumulate", json_boolean(p->accumulate));
}

static void gemm_operands(maker_case *c, size_t x, size_t y, size_t z, bool before) {
    maker_with(c, "x.lo", FIXED(8 * x));
    maker_with(c, "x.hi", FIXED(8 * x));
    maker_with(c, "y.lo", FIXED(8 * y));
    maker_with(c, "y.hi", FIXED(8 * y));
    if (before)
        maker_with(c, "z", FIXED(8 * z));
    maker_gives(c, "z", FIXED(8 * z));
}

static void gemm(maker *m, const product *p) {
    maker_case c = maker_begin(m, "GEMM", p->name, NULL, NULL);
    gemm_args(&c, p);
    gemm_operands(&c, (size_t)p->m * p->k, (size_t)p->k * p->n, (size_t)p->m * p->n, p->accumulate);
}

static json_t *layout(unsigned ld, unsigned group, unsigned head) {
    return json_pack("[iii]", (int)ld, (int)group, (int)head);
}

/* By a public y: one component of each. By both of y: the sum of them. */
static void single_product(maker *m, const product *p, bool both) {
    maker_case c = maker_begin(m, "GEMM", p->name, NULL, NULL);
    const size_t z = (size_t)8 * p->m * p->n;
    gemm_args(&c, p);
    maker_with(&c, "x.lo", FIXED((size_t)8 * p->m * p->k));
    maker_with(&c, "y.lo", FIXED((size_t)8 * p->k * p->n));
    if (both)
        maker_with(&c, "y.hi", FIXED((size_t)8 * p->k * p->n));
    if (p->accumulate)
        maker_with(&c, "z", FIXED(z));
    maker_gives(&c, "z", FIXED(z));
}

/* By a public y of signed integers: of one component of x, or of both. */
static void narrow_product(maker *m, const product *p, unsigned y_bytes, bool both) {
    char name[64];
    (void)snprintf(name, sizeof name, "%u bytes of y, %s%s", y_bytes, p->name, both ? ", two" : "");
    maker_case c = maker_begin(m, "GEMM", name, NULL, NULL);
    const size_t x = (size_t)8 * p->m * p->k, z = (size_t)8 * p->m * p->n;
    gemm_args(&c, p);
    maker_arg(&c, "y_bytes", json_integer(y_bytes));
    maker_with(&c, "x.lo", FIXED(x));
    if (both)
        maker_with(&c, "x.hi", FIXED(x));
    maker_with(&c, "y.lo", FIXED((size_t)y_bytes * p->k * p->n));
    if (p->accumulate)
        maker_with(&c, "z", FIXED(z));
    if (p->accumulate && both)
        maker_with(&c, "z_hi", FIXED(z));
    maker_gives(&c, "z", FIXED(z));
    if (both)
        maker_gives(&c, "z_hi", FIXED(z));
}

/* What is of a public y alone, with another one. */
static void refused_product(maker *m, const char *name, int y_bytes, bool y_hi, bool second) {
    maker_case c = maker_begin(m, "GEMM", name, NULL, NULL);
    gemm_args(&c, &(product){name, 2, 2, 2, false, false, false});
    if (y_bytes != 0)
        maker_arg(&c, "y_bytes", json_integer(y_bytes));
    maker_with(&c, "x.lo", FIXED(32));
    if (y_hi)
        maker_with(&c, "x.hi", FIXED(32));
    maker_with(&c, "y.lo", FIXED(32));
    if (y_hi)
        maker_with(&c, "y.hi", FIXED(32));
    if (second)
        maker_with(&c, "z_hi", FIXED(32));
    maker_with(&c, "z", FIXED(32));
    maker_fails(&c);
}

/* As grouped(), of both components. */
static void grouped_narrow(maker *m, const product *p, unsigned y_bytes) {
    enum { GROUPS = 2, HEADS = 3 };
    const unsigned rows_y = p->trans_y ? p->n : p->k, cols_y = p->trans_y ? p->k : p->n;
    const unsigned ld_x = p->k * HEADS + 3, ld_y = cols_y * HEADS + 1, ld_z = p->n * HEADS + 1;
    maker_case c = maker_begin(m, "GEMM", p->name, NULL, NULL);
    gemm_args(&c, p);
    maker_arg(&c, "y_bytes", json_integer(y_bytes));
    maker_arg(&c, "groups", json_integer(GROUPS));
    maker_arg(&c, "heads", json_integer(HEADS));
    maker_arg(&c, "lx", layout(ld_x, ld_x * p->m, p->k));
    maker_arg(&c, "ly", layout(ld_y, ld_y * rows_y, cols_y));
    maker_arg(&c, "lz", layout(ld_z, ld_z * p->m, p->n));
    maker_with(&c, "x.lo", FIXED((size_t)8 * ld_x * p->m * GROUPS));
    maker_with(&c, "x.hi", FIXED((size_t)8 * ld_x * p->m * GROUPS));
    maker_with(&c, "y.lo", FIXED((size_t)y_bytes * ld_y * rows_y * GROUPS));
    maker_with(&c, "z", FIXED((size_t)8 * ld_z * p->m * GROUPS));
    maker_with(&c, "z_hi", FIXED((size_t)8 * ld_z * p->m * GROUPS));
    maker_gives(&c, "z", FIXED((size_t)8 * ld_z * p->m * GROUPS));
    maker_gives(&c, "z_hi", FIXED((size_t)8 * ld_z * p->m * GROUPS));
}

static void narrow_products(maker *m) {
    static const product all[] = {{"3x5x7", 3, 5, 7, false, false, false},
                                  {"3x5x7 x' y' more", 3, 5, 7, true, true, true},
                                  {"row 1x33x9", 1, 33, 9, false, false, true},
                                  {"row 1x33x9 y'", 1, 33, 9, false, true, false},
                                  {"column 33x1x9", 33, 1, 9, false, false, false},
                                  {"4x70x140 x'", 4, 70, 140, true, false, false},
                                  {"33x49x300", 33, 49, 300, false, false, true},
                                  {"70x40x130 y'", 70, 40, 130, false, true, false}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        narrow_product(m, &all[i], 2, i % 2 == 0);
        narrow_product(m, &all[i], 4, i % 2 != 0);
        narrow_product(m, &all[i], i % 2 == 0 ? 4 : 2, true);
    }
    grouped_narrow(m, &(product){"2 bytes of y, heads 4x3x5", 4, 3, 5, false, false, false}, 2);
    grouped_narrow(m, &(product){"4 bytes of y, heads 4x3x5 y'", 4, 3, 5, false, true, true}, 4);
    refused_product(m, "refused, 3 bytes of y", 3, false, false);
    refused_product(m, "refused, 8 bytes of y", 8, false, false);
    refused_product(m, "refused, narrow shares", 2, true, false);
    refused_product(m, "refused, two products of shares", 0, true, true);
    refused_product(m, "refused, two products of one x", 0, false, true);
}

/* Heads beside one another in rows with gaps, groups below one another. */
static void grouped(maker *m, const product *p, unsigned groups, unsigned heads) {
    const unsigned rows_x = p->trans_x ? p->k : p->m, cols_x = p->trans_x ? p->m : p->k;
    const unsigned rows_y = p->trans_y ? p->n : p->k, cols_y = p->trans_y ? p->k : p->n;
    const unsigned ld_x = cols_x * heads + 3, ld_y = cols_y * heads, ld_z = p->n * heads + 1;
    maker_case c = maker_begin(m, "GEMM", p->name, NULL, NULL);
    gemm_args(&c, p);
    maker_arg(&c, "groups", json_integer(groups));
    maker_arg(&c, "heads", json_integer(heads));
    maker_arg(&c, "lx", layout(ld_x, ld_x * rows_x, cols_x));
    maker_arg(&c, "ly", layout(ld_y, ld_y * rows_y, cols_y));
    maker_arg(&c, "lz", layout(ld_z, ld_z * p->m, p->n));
    gemm_operands(&c, (size_t)ld_x * rows_x * groups, (size_t)ld_y * rows_y * groups,
                  (size_t)ld_z * p->m * groups, true);
}

static void products(maker *m) {
    static const product all[] = {{"1x1x1", 1, 1, 1, false, false, false},
                                  {"3x5x7", 3, 5, 7, false, false, false},
                                  {"3x5x7 x'", 3, 5, 7, true, false, false},
                                  {"3x5x7 y'", 3, 5, 7, false, true, false},
                                  {"3x5x7 x' y' more", 3, 5, 7, true, true, true},
                                  {"row 1x33x9", 1, 33, 9, false, false, false},
                                  {"row 1x33x9 y'", 1, 33, 9, false, true, true},
                                  {"column 33x1x9", 33, 1, 9, false, false, false},
                                  {"33x17x65", 33, 17, 65, false, false, false},
                                  {"64x64x64 more", 64, 64, 64, false, true, true},
                                  {"65x66x129 x'", 65, 66, 129, true, false, false},
                                  {"17x40x300", 17, 40, 300, false, false, false}};
    static const product blocks[] = {{"heads 4x3x5", 4, 3, 5, false, false, false},
                                     {"heads 4x3x5 y' more", 4, 3, 5, false, true, true},
                                     {"heads 17x16x64 x'", 17, 16, 64, true, false, false}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        gemm(m, &all[i]);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        grouped(m, &blocks[i], 2, 3);
}

/* ---- sums by bits ---- */

static void bit_sums(maker *m, const char *name, uint32_t rows, uint32_t cols, bool trans,
                     bool both, int lane) {
    maker_case c = maker_begin(m, "BIT_SUMS", name, NULL, NULL);
    const size_t x = (size_t)8 * rows * cols, out = (size_t)8 * 64 * cols;
    maker_arg(&c, "rows", json_integer(rows));
    maker_arg(&c, "cols", json_integer(cols));
    maker_arg(&c, "trans", json_boolean(trans));
    maker_arg(&c, "lane", json_integer(lane));
    maker_arg(&c, "key", json_string("000102030405060708090a0b0c0d0e0f"));
    maker_with(&c, "x.lo", FIXED(x));
    maker_gives(&c, "out.lo", FIXED(out));
    if (!both)
        return;
    maker_with(&c, "x.hi", FIXED(x));
    maker_gives(&c, "out.hi", FIXED(out));
}

/* ---- bytes ---- */

static void digests(maker *m) {
    static const size_t lengths[] = {0, 1, 55, 56, 64, 65, 1000, 4096, 4097, 70000, 36864};
    static const size_t prefixes[] = {0, 13, 32};
    static const char *const names[] = {"plain", "hmac", "tree"};
    for (unsigned mode = 0; mode < 3; mode++) {
        maker_case c = maker_begin(m, "HASH", names[mode], NULL, NULL);
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            if (i != 0)
                maker_next_unit(&c);
            maker_unit(&c, "mode", json_integer(mode));
            maker_unit(&c, "prefix",
                       json_pack("{sIsI}", "seed", (json_int_t)(1000 + i), "bytes",
                                 (json_int_t)prefixes[i % 3]));
            maker_unit(
                &c, "key",
                json_pack("{sIsI}", "seed", (json_int_t)(2000 + i), "bytes", (json_int_t)32));
            maker_with(&c, "data", FIXED(lengths[i]));
            maker_gives(&c, "digest", FIXED(32));
        }
    }
}

static void bytes(maker *m) {
    static const size_t lengths[] = {0, 1, 16, 65, 5000};
    maker_case c = maker_begin(m, "COPY", "", NULL, NULL),
               w = maker_begin(m, "WIPE", "", NULL, NULL);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        if (i != 0) {
            maker_next_unit(&c);
            maker_next_unit(&w);
        }
        maker_with(&c, "src", FIXED(lengths[i]));
        maker_gives(&c, "dst", FIXED(lengths[i]));
        maker_with(&w, "dst", FIXED(lengths[i]));
        maker_gives(&w, "dst", FIXED(lengths[i]));
    }
}

/* ---- collectives ---- */

typedef struct collective {
    const char *name;
    uvcc_collective_op
        op; /* SEND: of the first unit, the second receives; backwards the other way */
    uvcc_group group;
    unsigned members, elems;
    bool backwards, both;
} collective;

static void join(maker *m, const collective *k) {
    maker_case c = maker_begin(m, "COLLECTIVE", k->name, NULL, NULL);
    const bool sends = k->op == UVCC_COLLECTIVE_SEND;
    const size_t all = (size_t)8 * k->elems, part = all / k->members;
    maker_arg(&c, "group", json_integer(k->group));
    maker_arg(&c, "phase", json_integer(k->backwards ? 1 : 0));
    maker_arg(&c, "elems", json_integer(k->elems));
    for (unsigned i = 0; i < k->members; i++) {
        const bool gives = !sends || (i == 0) == k->backwards, takes = !sends || !gives;
        const size_t in = k->op == UVCC_COLLECTIVE_ALL_GATHER ? part : all;
        const size_t out = k->op == UVCC_COLLECTIVE_REDUCE_SCATTER ? part : all;
        if (i != 0)
            maker_next_unit(&c);
        maker_unit(&c, "op", json_integer(sends && gives ? UVCC_COLLECTIVE_RECV : k->op));
        for (unsigned hi = 0; hi < (k->both ? 2u : 1u); hi++) {
            if (takes)
                maker_with(&c, hi != 0 ? "in.hi" : "in.lo", FIXED(in));
            if (gives)
                maker_gives(&c, hi != 0 ? "out.hi" : "out.lo", FIXED(out));
        }
    }
}

static void collectives(maker *m) {
    static const collective all[] = {
        {"send", UVCC_COLLECTIVE_SEND, UVCC_GROUP_PP, 2, 7, false, true},
        {"send back lo", UVCC_COLLECTIVE_SEND, UVCC_GROUP_PP, 2, 65, true, false},
        {"reduce scatter", UVCC_COLLECTIVE_REDUCE_SCATTER, UVCC_GROUP_TP, 3, 12, false, true},
        {"reduce scatter lo", UVCC_COLLECTIVE_REDUCE_SCATTER, UVCC_GROUP_DP, 4, 68, false, false},
        {"all gather", UVCC_COLLECTIVE_ALL_GATHER, UVCC_GROUP_TP, 4, 8, false, true},
        {"all gather lo", UVCC_COLLECTIVE_ALL_GATHER, UVCC_GROUP_STAGE, 2, 130, false, false}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        join(m, &all[i]);
    maker_case c = maker_begin(m, "COLLECTIVE", "refused, not for executors", NULL, NULL);
    maker_arg(&c, "op", json_integer(UVCC_COLLECTIVE_ALL_GATHER));
    maker_fails(&c);
}

/* What came later, last: the vectors before it stay what they are. */
static void later(maker *m) {
    static const map_kind causal = {"CAUSAL", SAME, NONE, SAME, false, false, true, true};
    static const map_kind rotate = {"ROTATE", SAME, TABLE, SAME, false, false, false, false};
    static const product open[] = {{"public 1x1x1", 1, 1, 1, false, false, false},
                                   {"public row 1x33x9", 1, 33, 9, false, false, false},
                                   {"public column 33x1x9", 33, 1, 9, false, false, true},
                                   {"public 3x5x7 x' y' more", 3, 5, 7, true, true, true},
                                   {"public 17x40x300", 17, 40, 300, false, false, false},
                                   {"public 65x66x129 y'", 65, 66, 129, false, true, false}};
    static const product sums[] = {{"sum of y 1x1x1", 1, 1, 1, false, false, false},
                                   {"sum of y row 1x33x9", 1, 33, 9, false, false, true},
                                   {"sum of y column 33x1x9", 33, 1, 9, false, false, false},
                                   {"sum of y 3x5x7 x' y' more", 3, 5, 7, true, true, true},
                                   {"sum of y 17x40x300", 17, 40, 300, false, false, false}};
    map(m, &causal, &(map_way){"a window of 2", 6, 5, 1, .block = 3, .part = 2});
    map(m, &causal, &(map_way){"a window of 1", 7, 7, 0, .block = 7, .part = 1, .in_x = true});
    map(m, &causal, &(map_way){"a window of all", 8, 66, 0, .block = 2, .part = 66});
    map(m, &rotate, &(map_way){"tokens 1 head 2", 3, 2, 0, .block = 1, .part = 2});
    map(m, &rotate, &(map_way){"tokens 3 heads 6", 6, 12, 1, .block = 3, .part = 6});
    map(m, &rotate, &(map_way){"tokens 5 head 64", 5, 64, 0, .block = 5, .part = 64});
    map(m, &rotate, &(map_way){"lo only", 4, 8, 0, .lo_only = true, .block = 2, .part = 4});
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
        single_product(m, &open[i], false);
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
        single_product(m, &sums[i], true);
    narrow_products(m);
}

void make_forms(maker *m) {
    maps(m);
    products(m);
    bit_sums(m, "1x1", 1, 1, false, true, 0);
    bit_sums(m, "5x7", 5, 7, false, true, 1);
    bit_sums(m, "70x33 x'", 70, 33, true, true, 0);
    bit_sums(m, "513x3 lo", 513, 3, false, false, 1);
    maker_case c = maker_begin(m, "BIT_SUMS", "refused, no rows", NULL, NULL);
    maker_arg(&c, "cols", json_integer(4));
    maker_fails(&c);
    digests(m);
    bytes(m);
    collectives(m);
    block_maps(m);
    later(m);
}
