/* SPDX-License-Identifier: Apache-2.0 */
/* FUNCTION ops in sessions: every kind of step against the plaintext definition, over sizes, lifts,
 * executors and faults. */
#include "triangle.h"

#include "exec/runtime/core.h"
#include "proto/prg.h"
#include <uvcc/loopback.h>

enum { IN_X = 1, IN_Y = 2, OUT_FIRST = 10 };

static uint32_t tensor(uvcc_program *p, const char *name, uint32_t rows, uint32_t cols,
                       uint8_t bits) {
    uvcc_tensor_desc d = {.name = name,
                          .rows = rows,
                          .cols = cols,
                          .bits = bits,
                          .lifetime = UVCC_TRANSIENT,
                          .in_buffer_of = UVCC_NO_TENSOR};
    int rc = uvcc_program_tensor(p, &d);
    assert_true(rc >= 0);
    return (uint32_t)rc;
}

/* One function on one or two inputs of rows x cols, |x| < 2^bits. */
static uvcc_program *program(test_alloc *mem, const uvcc_function *f, uint32_t rows, uint32_t cols,
                             uint8_t bits, uint8_t lift) {
    static const char *const names[] = {"y0", "y1", "y2", "y3"};
    uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    uint8_t in_bits[2] = {bits, bits}, out_bits[4];
    char why[256] = "";
    if (uvcc_function_check(f, cols, in_bits, out_bits, why, sizeof why) != 0)
        fail_msg("%s", why);
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    int index = uvcc_program_function(p, f);
    assert_true(index >= 0);
    uvcc_op_desc d = {.opcode = UVCC_OP_FUNCTION,
                      .function = (uint16_t)index,
                      .in_count = f->inputs,
                      .out_count = f->outputs,
                      .lift = lift};
    d.in[0] = tensor(p, "x", rows, cols, bits);
    if (f->inputs == 2)
        d.in[1] = tensor(p, "y", rows, cols, bits);
    for (uint8_t o = 0; o < f->outputs; o++)
        d.out[o] = tensor(p, names[o], rows, uvcc_function_cols(f, cols, o), out_bits[o]);
    assert_int_equal(uvcc_program_entry(p, "run"), 0);
    for (uint8_t i = 0; i < f->inputs; i++)
        assert_true(uvcc_program_input(p, IN_X + i, d.in[i], i) >= 0);
    assert_true(uvcc_program_op(p, &d) >= 0);
    for (uint8_t o = 0; o < f->outputs; o++)
        assert_true(uvcc_program_output(p, OUT_FIRST + o, d.out[o]) >= 0);
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

typedef struct outcome {
    uint8_t root[3][32];
    uvcc_session_stats stats;
    uint64_t leaves; /* of all parties */
} outcome;

/* Arguments that inputs are to have among the random ones. */
typedef struct edges {
    size_t count;
    int64_t x[512];
} edges;

/* Runs it once among three parties and compares with the definition. */
static outcome run_at(const triangle_options *opt, const uvcc_function *f, uint32_t rows,
                      uint32_t cols, uint8_t bits, uint8_t lift, const edges *at) {
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = program(&mem, f, rows, cols, bits, lift);
    triangle t;
    outcome out;
    const size_t n = (size_t)rows * cols;
    int64_t *x[2], *want[4];
    uint64_t rnd = 1234 + n;
    triangle_open(&t, p, opt);
    triangle_ready(&t);
    triangle_agree(&t, 0, 0);
    for (unsigned i = 0; i < 2; i++) {
        x[i] = malloc(n * sizeof *x[i]);
        for (size_t k = 0; k < n; k++) {
            x[i][k] = (int64_t)(test_rand(&rnd) % ((2ull << bits) - 1)) - (1ll << bits) + 1;
            if (k % 5 == 3) /* small ones and ties too */
                x[i][k] %= 7;
            if (k % 5 == 4 && at->count != 0)
                x[i][k] = at->x[k / 5 % at->count];
        }
        if (i < f->inputs)
            triangle_input(&t, i, 0, IN_X + i, x[i]);
    }
    for (unsigned o = 0; o < f->outputs; o++)
        want[o] = malloc((size_t)rows * uvcc_function_cols(f, cols, (uint8_t)o) * sizeof(int64_t));
    assert_int_equal(uvcc_function_eval(f, rows, cols, (const int64_t *const *)x, want, NULL, &al),
                     0);
    triangle_finish(&t, 1);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned o = 0; o < f->outputs; o++) {
            const int64_t *got = uvcc_session_output(t.s[i], 0, OUT_FIRST + o);
            assert_non_null(got);
            for (size_t k = 0; k < (size_t)rows * uvcc_function_cols(f, cols, (uint8_t)o); k++)
                if (got[k] != want[o][k])
                    fail_msg("%s, output %u, element %zu: %lld, not %lld", f->name, o, k,
                             (long long)got[k], (long long)want[o][k]);
        }
    triangle_close(&t);
    memcpy(out.root, t.root, sizeof out.root);
    out.leaves = 0;
    for (unsigned i = 3; i-- > 0; out.leaves += out.stats.leaves)
        uvcc_session_get_stats(t.s[i], &out.stats);
    free(x[0]);
    free(x[1]);
    for (unsigned o = 0; o < f->outputs; o++)
        free(want[o]);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
    return out;
}

static outcome run(const triangle_options *opt, const uvcc_function *f, uint32_t rows,
                   uint32_t cols, uint8_t bits, uint8_t lift) {
    static const edges none = {0};
    return run_at(opt, f, rows, cols, bits, lift, &none);
}

/* ---- functions that use every kind of step ---- */

#define NO       UVCC_FN_NONE
#define COUNT(a) (uint8_t)(sizeof(a) / sizeof(a)[0])

static const int64_t zero[] = {0}, one[] = {1}, steps3[] = {-100, 5, 900},
                     weights3[] = {3, -7, 1000};
static int32_t entries[300];

static const uvcc_fn_instr relu_steps[] = {
    {.kind = UVCC_FN_OPEN, .bits = 64, .io = 0},
    {.kind = UVCC_FN_COMPARE, .a = 0, .bits = 12, .word_count = 1, .words = zero},
    {.kind = UVCC_FN_SELECT, .a = 1, .b = 0, .word_count = 1, .words = one},
    {.kind = UVCC_FN_BITS, .a = 1, .word_count = 1, .words = one},
    {.kind = UVCC_FN_LIFT, .a = 2, .io = 0},
    {.kind = UVCC_FN_LIFT, .a = 3, .io = 1},
};
static const uvcc_function relu = {"relu", 1, 2, COUNT(relu_steps), relu_steps};

/* Several thresholds, a table on the same key, a sum of all, with the value added and a constant.
 */
static const uvcc_fn_instr mixed_steps[] = {
    {.kind = UVCC_FN_OPEN, .bits = 64, .io = 0},
    {.kind = UVCC_FN_COMPARE, .a = 0, .bits = 13, .word_count = 3, .words = steps3},
    {.kind = UVCC_FN_TABLE,
     .a = 0,
     .b = NO,
     .bits = 13,
     .first = -150,
     .entry_count = 300,
     .entries = entries},
    {.kind = UVCC_FN_SELECT, .a = 1, .b = 0, .word_count = 3, .words = weights3},
    {.kind = UVCC_FN_BITS, .a = 1, .word_count = 3, .words = weights3},
    {.kind = UVCC_FN_ADD, .a = 2, .b = 3, .constant = 41},
    {.kind = UVCC_FN_ADD, .a = 5, .b = 0, .constant = -1},
    {.kind = UVCC_FN_ADD, .a = 4, .b = NO, .constant = 9},
    {.kind = UVCC_FN_LIFT, .a = 6, .io = 0},
    {.kind = UVCC_FN_LIFT, .a = 7, .io = 1},
};
static const uvcc_function mixed = {"mixed", 1, 2, COUNT(mixed_steps), mixed_steps};

/* A short opening, a table times a share of another input's sign, gone on with after an exchange.
 */
static const uvcc_fn_instr chain_steps[] = {
    {.kind = UVCC_FN_OPEN, .bits = 14, .io = 0},
    {.kind = UVCC_FN_OPEN, .bits = 64, .io = 1},
    {.kind = UVCC_FN_COMPARE, .a = 1, .bits = 12, .word_count = 1, .words = zero},
    {.kind = UVCC_FN_SELECT, .a = 2, .b = 1, .word_count = 1, .words = one},
    {.kind = UVCC_FN_EXCHANGE, .a = 3, .io = 1},
    {.kind = UVCC_FN_TABLE,
     .a = 0,
     .b = 3,
     .bits = 13,
     .first = -100,
     .entry_count = 300,
     .entries = entries},
    {.kind = UVCC_FN_COMPARE, .a = 4, .bits = 13, .word_count = 1, .words = steps3 + 2},
    {.kind = UVCC_FN_SELECT, .a = 6, .b = 4, .word_count = 1, .words = weights3},
    {.kind = UVCC_FN_ADD, .a = 5, .b = 7},
    {.kind = UVCC_FN_EXCHANGE, .a = 8, .io = NO},
    {.kind = UVCC_FN_COMPARE, .a = 9, .bits = 40, .word_count = 1, .words = one},
    {.kind = UVCC_FN_SELECT, .a = 10, .b = 9, .word_count = 1, .words = one},
    {.kind = UVCC_FN_LIFT, .a = 11, .io = 0},
};
static const uvcc_function chain = {"chain", 2, 2, COUNT(chain_steps), chain_steps};

/* Three openings in a turn and then a table that opens two vectors: they do not fit into the same
 * round as those three, and stay together in the next. */
static const uvcc_fn_instr crowd_steps[] = {
    {.kind = UVCC_FN_OPEN, .bits = 64, .io = 0},
    {.kind = UVCC_FN_COMPARE, .a = 0, .bits = 13, .word_count = 1, .words = zero},
    {.kind = UVCC_FN_COMPARE, .a = 0, .bits = 14, .word_count = 1, .words = one},
    {.kind = UVCC_FN_COMPARE, .a = 0, .bits = 13, .word_count = 3, .words = steps3},
    {.kind = UVCC_FN_INDEX, .a = 0},
    {.kind = UVCC_FN_TABLE,
     .a = 0,
     .b = 4,
     .bits = 13,
     .first = -150,
     .entry_count = 300,
     .entries = entries},
    {.kind = UVCC_FN_BITS, .a = 1, .word_count = 1, .words = one},
    {.kind = UVCC_FN_BITS, .a = 2, .word_count = 1, .words = weights3},
    {.kind = UVCC_FN_BITS, .a = 3, .word_count = 3, .words = weights3},
    {.kind = UVCC_FN_ADD, .a = 6, .b = 7},
    {.kind = UVCC_FN_ADD, .a = 8, .b = 9},
    {.kind = UVCC_FN_LIFT, .a = 5, .io = 0},
    {.kind = UVCC_FN_LIFT, .a = 10, .io = 1},
};
static const uvcc_function crowd = {"crowd", 1, 2, COUNT(crowd_steps), crowd_steps};

/* Floors: of the value, of a product, of differences; of a floor. Masks do not show. */
static const uvcc_fn_instr floor_steps[] = {
    {.kind = UVCC_FN_OPEN, .bits = 64, .io = 0},
    {.kind = UVCC_FN_FLOOR, .a = 0, .shift = 5},
    {.kind = UVCC_FN_MUL, .a = 0, .b = 0},
    {.kind = UVCC_FN_EXCHANGE, .a = 2, .io = NO},
    {.kind = UVCC_FN_FLOOR, .a = 3, .shift = 13},
    {.kind = UVCC_FN_FLOOR, .a = 3, .shift = 1},
    {.kind = UVCC_FN_ADD, .a = 4, .b = 5},
    {.kind = UVCC_FN_EXCHANGE, .a = 6, .io = 1},
    {.kind = UVCC_FN_FLOOR, .a = 7, .shift = 20},
    {.kind = UVCC_FN_COMPARE, .a = 7, .bits = 24, .word_count = 1, .words = steps3 + 2},
    {.kind = UVCC_FN_SELECT, .a = 9, .b = 7, .word_count = 1, .words = one},
    {.kind = UVCC_FN_LIFT, .a = 1, .io = 0},
    {.kind = UVCC_FN_LIFT, .a = 8, .io = 2},
    {.kind = UVCC_FN_LIFT, .a = 10, .io = 3},
};
static const uvcc_function floors = {"floors", 1, 4, COUNT(floor_steps), floor_steps};

/* docs/recipes/function.md begin */
/* x relu6(x + 3) / 6 for |x| < 16 with F fraction bits; coefficients with G more. */
enum { F = 16, G = 20, THREE = 3 << F };
#define WHOLE ((int64_t)1 << (F + G)) /* 1 as a coefficient of x, which needs F more again */
static const int64_t pieces[] = {
    -THREE, THREE,                         /* knots */
    0,      0,         0,                  /* below -3: 0 */
    0,      WHOLE / 2, ((1 << G) + 3) / 6, /* between: x / 2 + x^2 / 6 */
    0,      WHOLE,     0                   /* from 3 on: x */
};
static const uvcc_fn_instr hard_swish_instrs[] = {
    {.kind = UVCC_FN_OPEN, .bits = 64, .io = 0},
    {.kind = UVCC_FN_SPLINE, .a = 0, .bits = 21, .first = 2, .word_count = 11, .words = pieces},
    {.kind = UVCC_FN_EXCHANGE, .a = 1, .io = UVCC_FN_NONE},
    {.kind = UVCC_FN_FLOOR, .a = 2, .shift = F + G},
    {.kind = UVCC_FN_LIFT, .a = 3, .io = 0},
};
static const uvcc_function hard_swish = {"hard_swish", 1, 1, 5, hard_swish_instrs};
/* docs/recipes/function.md end */

/* Exact indices: a table of floor(x / 32) times one of what lies below, x times a table, x where
 * the floor is 0 or more; twice a remasked value's. Masks do not show here either. */
static const int32_t squares[] = {9, 4, 1, 0, 1, 4, 9, 16},
                     rises[] = {9, -5, -3, -1, 1, 3, 5, 7, -16};
static const int32_t halves[32] = {7, 0, 1, 1, -2, 2, 3, 3, [30] = 15, [31] = 15};
static const int64_t from_two[] = {1, 0}, upper[] = {1, 0}, at_zero[] = {-1, 1};
#define SQUARES(at, bit, times, from, count, values)                                               \
    {                                                                                              \
        .kind = UVCC_FN_TABLE_MUL, .a = (at), .b = (bit), .c = (times), .bits = 9,                 \
        .first = (from), .entry_count = (count), .entries = (values)                               \
    }
static const uvcc_fn_instr exact_steps[] = {
    {.kind = UVCC_FN_OPEN, .bits = 64, .io = 0},
    {.kind = UVCC_FN_SHIFT, .a = 0, .shift = 5},
    {.kind = UVCC_FN_LOW, .a = 0, .bits = 5},
    {.kind = UVCC_FN_COMPARE, .a = 2, .bits = 5, .word_count = 1, .words = zero},
    {.kind = UVCC_FN_TABLE, .a = 2, .b = NO, .bits = 5, .entry_count = 32, .entries = halves},
    SQUARES(1, NO, 4, -2, 8, squares),
    SQUARES(1, 3, 4, -3, 9, rises),
    {.kind = UVCC_FN_ADD, .a = 5, .b = 6},
    SQUARES(1, NO, 0, -2, 8, squares),
    SQUARES(1, 3, 0, -3, 9, rises),
    {.kind = UVCC_FN_ADD, .a = 8, .b = 9},
    {.kind = UVCC_FN_COMPARE, .a = 1, .bits = 9, .word_count = 2, .words = from_two},
    {.kind = UVCC_FN_SELECT, .a = 11, .b = 0, .word_count = 2, .words = upper},
    {.kind = UVCC_FN_SELECT_MUL, .a = 11, .b = 0, .c = 3, .word_count = 2, .words = at_zero},
    {.kind = UVCC_FN_ADD, .a = 12, .b = 13},
    {.kind = UVCC_FN_EXCHANGE, .a = 10, .io = 1},
    {.kind = UVCC_FN_SHIFT, .a = 15, .shift = 11},
    {.kind = UVCC_FN_LOW, .a = 15, .bits = 11},
    {.kind = UVCC_FN_COMPARE, .a = 17, .bits = 11, .word_count = 1, .words = zero},
    {.kind = UVCC_FN_TABLE,
     .a = 16,
     .b = NO,
     .bits = 9,
     .first = -2,
     .entry_count = 8,
     .entries = squares},
    SQUARES(16, 18, NO, -3, 9, rises),
    {.kind = UVCC_FN_ADD, .a = 19, .b = 20},
    {.kind = UVCC_FN_LIFT, .a = 7, .io = 0},
    {.kind = UVCC_FN_LIFT, .a = 14, .io = 2},
    {.kind = UVCC_FN_LIFT, .a = 21, .io = 3},
};
static const uvcc_function exacts = {"exacts", 1, 4, COUNT(exact_steps), exact_steps};

/* Greatest of each row, and its column. */
static uvcc_fn_instr argmax_steps[UVCC_FN_INSTRS_MAX];
static uvcc_function argmax_of(uint32_t cols) {
    uint8_t n = 0, v, j = NO;
    uint8_t bits = 13;
    argmax_steps[n++] = (uvcc_fn_instr){.kind = UVCC_FN_OPEN, .bits = 64, .io = 0};
    v = 0;
    for (uint32_t w = cols; w > 1; w = (w + 1) / 2) {
        bool last = w <= 2;
        uint8_t d = n;
        uvcc_fn_instr level[] = {
            {.kind = UVCC_FN_PAIR_DIFF, .a = v},
            {.kind = UVCC_FN_COMPARE, .a = d, .bits = bits, .word_count = 1, .words = zero},
            {.kind = UVCC_FN_SELECT, .a = d + 1, .b = d, .word_count = 1, .words = one},
            {.kind = UVCC_FN_PAIR_SECOND, .a = v},
            {.kind = UVCC_FN_ADD, .a = d + 2, .b = d + 3},
            {.kind = UVCC_FN_EXCHANGE, .a = d + 4, .io = last ? 0 : NO},
        };
        memcpy(argmax_steps + n, level, sizeof level);
        n = (uint8_t)(n + 6);
        v = d + 5;
        uint8_t e = n;
        static const int64_t minus[] = {-1};
        if (j == NO) {
            uvcc_fn_instr first[] = {
                {.kind = UVCC_FN_INDEX, .a = d},
                {.kind = UVCC_FN_BITS, .a = d + 1, .word_count = 1, .words = minus},
                {.kind = UVCC_FN_ADD, .a = e, .b = e + 1},
                {.kind = UVCC_FN_EXCHANGE, .a = e + 2, .io = last ? 1 : NO},
            };
            memcpy(argmax_steps + n, first, sizeof first);
            n = (uint8_t)(n + 4);
        } else {
            uvcc_fn_instr next[] = {
                {.kind = UVCC_FN_PAIR_DIFF, .a = j},
                {.kind = UVCC_FN_SELECT, .a = d + 1, .b = e, .word_count = 1, .words = one},
                {.kind = UVCC_FN_PAIR_SECOND, .a = j},
                {.kind = UVCC_FN_ADD, .a = e + 1, .b = e + 2},
                {.kind = UVCC_FN_EXCHANGE, .a = e + 3, .io = last ? 1 : NO},
            };
            memcpy(argmax_steps + n, next, sizeof next);
            n = (uint8_t)(n + 5);
        }
        j = (uint8_t)(n - 1);
    }
    return (uvcc_function){"argmax", 1, 2, n, argmax_steps};
}

/* Groups of four, rows, columns and products: of each row, the greatest element, and its product
 * with the row's sum and with the row less it. */
static const uvcc_fn_instr row_steps[] = {
    {.kind = UVCC_FN_OPEN, .bits = 64, .io = 0},
    {.kind = UVCC_FN_QUAD_DIFF, .a = 0},
    {.kind = UVCC_FN_COMPARE, .a = 1, .bits = 13, .word_count = 1, .words = zero},
    {.kind = UVCC_FN_QUAD_BEST, .a = 2, .b = 1},
    {.kind = UVCC_FN_QUAD_LAST, .a = 0},
    {.kind = UVCC_FN_ADD, .a = 3, .b = 4},
    {.kind = UVCC_FN_EXCHANGE, .a = 5, .io = 0},
    {.kind = UVCC_FN_ROW_SUM, .a = 6},
    {.kind = UVCC_FN_SPREAD, .a = 7, .b = 0},
    {.kind = UVCC_FN_SUB, .a = 0, .b = 8},
    {.kind = UVCC_FN_MUL, .a = 9, .b = 0},
    {.kind = UVCC_FN_MUL, .a = 9, .b = 9},
    {.kind = UVCC_FN_LIFT, .a = 10, .io = 1},
    {.kind = UVCC_FN_EXCHANGE, .a = 11, .io = 2},
    {.kind = UVCC_FN_ROW_SUM, .a = 13},
    {.kind = UVCC_FN_MUL, .a = 14, .b = 7},
    {.kind = UVCC_FN_EXCHANGE, .a = 15, .io = NO},
    {.kind = UVCC_FN_FLOOR, .a = 16, .shift = 7},
    {.kind = UVCC_FN_LIFT, .a = 17, .io = 3},
};
static const uvcc_function row_function = {"rows", 1, 4, COUNT(row_steps), row_steps};

static int make_tables(void **state) {
    (void)state;
    for (int i = 0; i < 300; i++)
        entries[i] = i * i * 77 - 100000;
    return 0;
}

/* ---- tests ---- */

static void test_functions(void **state) {
    (void)state;
    static const uint32_t shapes[][2] = {{1, 1}, {3, 5}, {1, 4096}, {5, 1000}, {3, 4097}};
    const uvcc_function *const all[] = {&relu, &mixed, &chain, &exacts, &floors, &crowd};
    for (size_t f = 0; f < sizeof all / sizeof all[0]; f++)
        for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++)
            (void)run(&(triangle_options){.seed = k + 1}, all[f], shapes[k][0], shapes[k][1], 12,
                      k % 2 == 0 ? UVCC_LIFT_PARALLEL : UVCC_LIFT_EXCHANGE);
}

/* Splines of every degree, with as many knots as there can be: at every knot and beside it, at the
 * ends, and anywhere; of an input, of a difference, of an exchanged value; on all three edges. */
static void test_splines(void **state) {
    (void)state;
    enum { BITS = 14, KNOTS = 64, COEFFICIENT = 16 };
    uint64_t rnd = 77;
    for (unsigned d = 0; d <= 3; d++) {
        int64_t w[KNOTS + (KNOTS + 1) * 4], few[3 + 4 * 4];
        edges at = {0};
        for (int64_t i = 0; i < KNOTS; i++) {
            w[i] = (i - KNOTS / 2) * 500 + (int64_t)(test_rand(&rnd) % 250);
            for (int64_t near = w[i] - 1; near <= w[i] + 1; near++)
                if (near > -(1 << BITS) && near < 1 << BITS)
                    at.x[at.count++] = near;
        }
        for (unsigned i = KNOTS; i < sizeof w / sizeof *w; i++)
            w[i] = (int64_t)test_rand(&rnd) >> (63 - COEFFICIENT);
        for (unsigned i = 0; i < sizeof few / sizeof *few; i++)
            few[i] = i < 3 ? (int64_t)i * 100000 - 50000 : (int64_t)i - 9;
        for (int64_t end = -1; end <= 1; end++)
            at.x[at.count++] = end * ((1 << BITS) - 1);
        const uint32_t count = KNOTS + (KNOTS + 1) * (d + 1), less = 3 + 4 * (d + 1);
        const uvcc_fn_instr steps[] = {
            {.kind = UVCC_FN_OPEN, .bits = 64, .io = 0},
            {.kind = UVCC_FN_SPLINE,
             .a = 0,
             .bits = BITS + 2,
             .first = d,
             .word_count = count,
             .words = w},
            {.kind = UVCC_FN_FLOOR, .a = 0, .shift = 1},
            {.kind = UVCC_FN_EXCHANGE, .a = 2, .io = NO},
            {.kind = UVCC_FN_SPLINE,
             .a = 3,
             .bits = 20,
             .first = d,
             .word_count = less,
             .words = few},
            {.kind = UVCC_FN_ADD, .a = 4, .b = 3, .constant = -5},
            {.kind = UVCC_FN_LIFT, .a = 1, .io = 0},
            {.kind = UVCC_FN_LIFT, .a = 5, .io = 1},
        };
        const uvcc_function f = {"splines", 1, 2, COUNT(steps), steps};
        (void)run_at(&(triangle_options){.seed = d}, &f, 3, 4097, BITS, UVCC_LIFT_PARALLEL, &at);
        (void)run_at(&(triangle_options){.seed = d}, &f, 1, 5, BITS, UVCC_LIFT_EXCHANGE, &at);
        const uvcc_fn_instr pairs[] = {
            {.kind = UVCC_FN_OPEN, .bits = 64, .io = 0},
            {.kind = UVCC_FN_PAIR_DIFF, .a = 0},
            {.kind = UVCC_FN_SPLINE,
             .a = 1,
             .bits = BITS + 2,
             .first = d,
             .word_count = count,
             .words = w},
            {.kind = UVCC_FN_LIFT, .a = 2, .io = 0},
        };
        const uvcc_function g = {"of_pairs", 1, 1, COUNT(pairs), pairs};
        (void)run_at(&(triangle_options){.seed = d}, &g, 50, 129, BITS, UVCC_LIFT_PARALLEL, &at);
    }
}

/* The example of the recipe: 3 rounds, 48 B, and within one of the last fraction bit. */
static void test_hard_swish(void **state) {
    (void)state;
    edges at = {0};
    static const int64_t corners[] = {-THREE, 0, THREE, (1 << 20) - 1, 1 - (1 << 20)};
    for (size_t i = 0; i < sizeof corners / sizeof *corners; i++)
        for (int64_t near = corners[i] - 1; near <= corners[i] + 1; near++)
            if (near > -(1 << 20) && near < 1 << 20)
                at.x[at.count++] = near;
    const outcome o =
        run_at(&(triangle_options){.seed = 5}, &hard_swish, 4, 4096, 20, UVCC_LIFT_PARALLEL, &at);
    uvcc_fn_cost cost;
    assert_int_equal(uvcc_function_cost(&hard_swish, 1, &cost), 0);
    assert_int_equal(cost.rounds, 3);
    assert_int_equal(o.stats.rounds, 3 + 2); /* the input and the output */
    assert_true(cost.online_bytes == 48);
    assert_true(cost.key_bytes == 2 * (870 + 881) + (4 + 2) * 8);
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    for (int64_t x = 1 - (1 << 20); x < 1 << 20; x += 37) {
        int64_t y;
        const int64_t *const in[] = {&x};
        int64_t *const out[] = {&y};
        assert_int_equal(uvcc_function_eval(&hard_swish, 1, 1, in, out, NULL, &al), 0);
        const double v = (double)x / (1 << F), relu6 = v < -3 ? 0 : v > 3 ? 6 : v + 3;
        const double off = (double)y / (1 << F) - v * relu6 / 6;
        assert_true(off < 1.0 / (1 << F) && off > -1.0 / (1 << F));
    }
}

static void test_rows(void **state) {
    (void)state;
    static const uint32_t shapes[][2] = {{1, 2}, {7, 3}, {4, 128}, {70, 129}, {2, 4095}};
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        uvcc_function f = argmax_of(shapes[k][1]);
        (void)run(&(triangle_options){.seed = k + 1}, &f, shapes[k][0], shapes[k][1], 12,
                  UVCC_LIFT_PARALLEL);
        (void)run(&(triangle_options){.seed = k + 1}, &row_function, shapes[k][0], shapes[k][1], 6,
                  UVCC_LIFT_PARALLEL);
    }
}

/* Shifts: the result is that of one of the two neighbouring indices, the same at all parties. */
static void test_stochastic_index(void **state) {
    (void)state;
    static const uvcc_fn_instr steps[] = {
        {.kind = UVCC_FN_OPEN, .bits = 64, .io = 0},
        {.kind = UVCC_FN_SHIFT, .a = 0, .shift = 5},
        {.kind = UVCC_FN_TABLE,
         .a = 1,
         .b = NO,
         .bits = 9,
         .first = -150,
         .entry_count = 300,
         .entries = entries},
        {.kind = UVCC_FN_COMPARE, .a = 1, .bits = 9, .word_count = 1, .words = zero},
        {.kind = UVCC_FN_SELECT, .a = 3, .b = 0, .word_count = 1, .words = one},
        {.kind = UVCC_FN_LIFT, .a = 2, .io = 0},
        {.kind = UVCC_FN_LIFT, .a = 4, .io = 1},
    };
    static const uvcc_function f = {"index", 1, 2, COUNT(steps), steps};
    test_alloc mem = {0};
    enum { N = 9000 };
    uvcc_program *p = program(&mem, &f, 1, N, 12, UVCC_LIFT_PARALLEL);
    triangle t;
    triangle_open(&t, p, &(triangle_options){.seed = 3});
    triangle_ready(&t);
    static int64_t x[N];
    uint64_t rnd = 5;
    for (int k = 0; k < N; k++)
        x[k] = (int64_t)(test_rand(&rnd) % 8191) - 4095;
    triangle_agree(&t, 0, 0);
    triangle_input(&t, 0, 0, IN_X, x);
    triangle_finish(&t, 1);
    const int64_t *y = uvcc_session_output(t.s[1], 0, OUT_FIRST);
    const int64_t *z = uvcc_session_output(t.s[1], 0, OUT_FIRST + 1);
    unsigned up = 0;
    for (int k = 0; k < N; k++) {
        int64_t low = x[k] >> 5;
        bool is[2];
        for (int c = 0; c < 2; c++) {
            int64_t i = low + c + 150;
            is[c] =
                y[k] == (i >= 0 && i < 300 ? entries[i] : 0) && z[k] == (low + c >= 0 ? x[k] : 0);
        }
        assert_true(is[0] || is[1]);
        up += is[1] && !is[0];
    }
    assert_true(up > N / 3 && up < 2 * N / 3);
    triangle_free(&t);
    uvcc_program_free(p);
}

/* ---- what OTHER knows ---- */

typedef struct dealer {
    const triangle *t;
    const uvcci_instance *run;
    const uvcc_function *f;
    uvcci_fn_plan plan;
    uint32_t rows;
    uint64_t *r[UVCC_FN_INSTRS_MAX];   /* masks of M values */
    uint64_t *low[UVCC_FN_INSTRS_MAX]; /* of SHIFTs and TRUNCs, as uvcc_function_eval wants them */
} dealer;

static size_t elems_of(const dealer *d, unsigned i) {
    return (size_t)d->rows * d->plan.instr[i].width;
}

/* The sum of both pads of an opened or exchanged value, out of OTHER's keys. */
static void add_pads(const dealer *d, unsigned i, uint64_t *r) {
    const bool opened = d->f->instrs[i].kind == UVCC_FN_OPEN;
    const unsigned tag = opened ? UVCC_TAG_mask : UVCC_TAG_lift;
    const size_t n = elems_of(d, i);
    uint64_t pad[UVCC_BLOCK_ELEMS];
    for (uint32_t b = 0; b < uvcci_blocks(n); b++) {
        const uint8_t edge = d->run->ids.edge[d->plan.one_edge ? 0 : b];
        const uint8_t other = uvcci_party_of(UVCCI_OTHER, edge);
        const uint32_t count = uvcci_block_count(n, b);
        for (unsigned pair = 0; pair < 2; pair++) {
            uvcci_aes key;
            uvcci_aes_init(&key, d->t->s[other]->ctx[0].keys.prg[pair][tag], UVCCI_AES_AUTO);
            uvcci_prg_fill(&key, (uvcci_prg_at){d->run->ordinal, (uint16_t)i, b, opened ? 0 : 2}, 0,
                           pad, count);
            for (uint32_t k = 0; k < count; k++)
                r[b * UVCC_BLOCK_ELEMS + k] += pad[k];
        }
    }
}

/* Column k of a group that begins at column j; beyond the last it is the last. */
static uint64_t column(const uint64_t *row, uint32_t width, uint32_t j, uint32_t k) {
    return row[j + k < width ? j + k : width - 1];
}

static void map_row(const uvcc_fn_instr *s, const uint64_t *x, uint32_t wide, uint32_t width,
                    uint64_t *z) {
    static const uint8_t pairs[6][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
    for (uint32_t j = 0; j < width; j++)
        switch (s->kind) {
        case UVCC_FN_PAIR_DIFF:
            z[j] = x[2 * j] - column(x, wide, 2 * j, 1);
            break;
        case UVCC_FN_PAIR_SECOND:
            z[j] = column(x, wide, 2 * j, 1);
            break;
        case UVCC_FN_QUAD_DIFF:
            z[j] = column(x, wide, j / 6 * 4, pairs[j % 6][0]) -
                   column(x, wide, j / 6 * 4, pairs[j % 6][1]);
            break;
        case UVCC_FN_QUAD_LAST:
            z[j] = column(x, wide, 4 * j, 3);
            break;
        case UVCC_FN_SPREAD:
            z[j] = x[0];
            break;
        default: /* ROW_SUM */
            z[j] = 0;
            for (uint32_t k = 0; k < wide; k++)
                z[j] += x[k];
        }
}

static void find_masks(dealer *d) {
    for (unsigned i = 0; i < d->f->instr_count; i++) {
        const uvcc_fn_instr *s = &d->f->instrs[i];
        const uvcci_fn_info *info = &d->plan.instr[i];
        const uint8_t a = s->kind == UVCC_FN_OPEN ? 0 : s->a;
        const size_t n = elems_of(d, i);
        const uint32_t wide = d->plan.instr[a].width;
        const unsigned bits = uvcc_function_low_bits(s);
        if (bits != 0) {
            d->low[i] = calloc(n, sizeof *d->low[i]);
            for (size_t k = 0; k < n; k++)
                d->low[i][k] = d->r[a][k] & ((1ull << bits) - 1);
        }
        if (info->value != 'M')
            continue;
        uint64_t *r = d->r[i] = calloc(n, sizeof *r);
        if (s->kind == UVCC_FN_OPEN || s->kind == UVCC_FN_EXCHANGE)
            add_pads(d, i, r);
        else if (s->kind == UVCC_FN_SHIFT || s->kind == UVCC_FN_SUB || s->kind == UVCC_FN_LOW)
            for (size_t k = 0; k < n; k++)
                r[k] = s->kind == UVCC_FN_SUB   ? d->r[a][k] - d->r[s->b][k]
                       : s->kind == UVCC_FN_LOW ? d->r[a][k] & ((1ull << s->bits) - 1)
                                                : d->r[a][k] >> s->shift;
        else
            for (uint32_t k = 0; k < d->rows; k++)
                map_row(s, d->r[a] + (size_t)k * wide, wide, info->width,
                        r + (size_t)k * info->width);
    }
}

static void open_dealer(dealer *d, const triangle *t, const uvcc_function *f, uint32_t rows,
                        uint32_t cols) {
    *d = (dealer){.t = t, .run = t->s[0]->ctx[0].instances, .f = f, .rows = rows};
    while (d->run->op->desc.opcode != UVCC_OP_FUNCTION)
        d->run++;
    assert_int_equal(uvcci_fn_compile(f, cols, NULL, &d->plan, NULL, 0), 0);
    for (unsigned i = 0; i < d->run->plan->round_count; i++) /* each block has an edge */
        assert_true(d->run->plan->rounds[i].blocks <= d->run->plan->blocks);
    find_masks(d);
}

static void close_dealer(dealer *d) {
    for (unsigned i = 0; i < d->f->instr_count; i++) {
        free(d->r[i]);
        free(d->low[i]);
    }
}

/* A function in a session equals the definition bit for bit, given the masks' low bits; an exact
 * one without them too. */
static void run_defined(uvcc_nonlinear what, bool exact, uint32_t rows, uint32_t cols) {
    enum { BITS = 22 };
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    const uvcc_nonlinear_options o = {
        .size = sizeof o, .in_bits = BITS, .cols = cols, .derivative = true, .exact = exact};
    const size_t n = (size_t)rows * cols;
    uvcc_nonlinear_fn fn;
    assert_int_equal(uvcc_nonlinear_build(&fn, what, &o, &al), 0);
    const uvcc_function *f = &fn.function;
    uvcc_program *p = program(&mem, f, rows, cols, BITS, UVCC_LIFT_PARALLEL);
    triangle t;
    dealer d;
    triangle_open(&t, p, &(triangle_options){.seed = 7 + (uint64_t)what});
    triangle_ready(&t);
    triangle_agree(&t, 0, 0);
    open_dealer(&d, &t, f, rows, cols);
    int64_t *x = malloc(n * sizeof *x), *want[2];
    uint64_t rnd = (uint64_t)what;
    for (size_t k = 0; k < n; k++) /* small ones too: windows and thresholds lie around 0 */
        x[k] = (int64_t)(test_rand(&rnd) >> (42 + k % 8)) - (1ll << (21 - k % 8));
    for (unsigned i = 0; i < 2; i++)
        want[i] = malloc(n * sizeof *want[i]);
    const int64_t *const in[1] = {x};
    assert_int_equal(
        uvcc_function_eval(f, rows, cols, in, want, (const uint64_t *const *)d.low, &al), 0);
    triangle_input(&t, 0, 0, IN_X, x);
    triangle_finish(&t, 1);
    for (unsigned k = 0; k <= exact; k++) {
        for (uint8_t i = 0; i < f->outputs; i++)
            if (memcmp(uvcc_session_output(t.s[2], 0, OUT_FIRST + i), want[i], n * sizeof *x) != 0)
                fail_msg("%s: output %u differs", f->name, i);
        assert_int_equal(uvcc_function_eval(f, rows, cols, in, want, NULL, &al), 0);
    }
    close_dealer(&d);
    free(x);
    free(want[0]);
    free(want[1]);
    triangle_free(&t);
    uvcc_program_free(p);
    uvcc_nonlinear_free(&fn);
    assert_int_equal(mem.live_blocks, 0);
}

static void test_defined_functions(void **state) {
    (void)state;
    for (unsigned what = 0; what < UVCC_NL_COUNT; what++)
        if (uvcc_nonlinear_at((uvcc_nonlinear)what)->form == UVCC_NL_ELEMENT)
            for (unsigned exact = 0; exact < 2; exact++)
                run_defined((uvcc_nonlinear)what, exact != 0, 1, 5000);
}

static void test_defined_rows(void **state) {
    (void)state;
    static const uint32_t shapes[][2] = {{9, 1}, {40, 128}, {33, 5}, {7, 700}, {2, 4096}};
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++)
        for (unsigned exact = 0; exact < 2; exact++)
            run_defined(UVCC_NL_SOFTMAX, exact != 0, shapes[k][0], shapes[k][1]);
}

/* The same roots whatever the network and the executor do; rounds as the function says. */
static void test_same_roots(void **state) {
    (void)state;
    uvcc_fault_config bad = {.drop = 0.2, .duplicate = 0.1, .reorder = 0.3, .corrupt = 0.01};
    const triangle_options runs[] = {
        {.seed = 9, .mode = UVCC_CPU_DEFERRED, .compute_seed = 1},
        {.seed = 9, .mode = UVCC_CPU_THREADS},
        {.seed = 9, .datagram = true, .faulty = true, .faults = bad, .mode = UVCC_CPU_DEFERRED},
        {.seed = 9, .suites = 1},
    };
    uvcc_fn_cost cost;
    const uvcc_function f = argmax_of(9);
    const outcome want = run(&(triangle_options){.seed = 9}, &f, 700, 9, 12, UVCC_LIFT_PARALLEL);
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        const outcome got = run(&runs[i], &f, 700, 9, 12, UVCC_LIFT_PARALLEL);
        assert_memory_equal(got.root, want.root, sizeof want.root);
    }
    assert_int_equal(uvcc_function_cost(&f, 9, &cost), 0);
    assert_int_equal(want.stats.rounds, cost.rounds + 2); /* the input and the outputs */
    (void)run(&(triangle_options){.seed = 9, .audit_off = true}, &f, 700, 9, 12,
              UVCC_LIFT_PARALLEL);
}

/* Everything that is sent, opened, lifted and dealt stands in the transcripts, at both ends. */
static void test_leaves(void **state) {
    (void)state;
    const outcome o = run(&(triangle_options){.seed = 2}, &relu, 1, 10, 12, UVCC_LIFT_PARALLEL);
    const unsigned begin = 3, input = 2 * 2,
                   opened = 2 * 2 + 2; /* OPEN, COMPARE: each way, and done */
    const unsigned lifts =
        2 * 2 + 2 * 3 * 3; /* two values: two messages; commits and done at each */
    const unsigned keys = 2 + 1 + 1, output = 3 * 2 * 2 + 3;
    assert_int_equal(o.leaves, begin + input + 2 * opened + lifts + keys + 2 * output);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_stochastic_index),
        cmocka_unit_test(test_same_roots),
        cmocka_unit_test(test_defined_functions),
        cmocka_unit_test(test_defined_rows),
        cmocka_unit_test(test_leaves),
        cmocka_unit_test(test_splines),
        cmocka_unit_test(test_hard_swish),
    };
    return cmocka_run_group_tests(tests, make_tables, NULL);
}
