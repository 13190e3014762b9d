/* SPDX-License-Identifier: Apache-2.0 */
/* Functions as programs see them: what the checks refuse, what is opened and dealt in which round,
 * costs, and the plaintext definition of every instruction against formulas. */
#include "support.h"

#include "exec/ops/functions_impl.h"
#include "exec/program/fn_class.h"
#include <uvcc/compute.h>
#include <uvcc/program.h>

enum { NONE = UVCC_FN_NONE, LEVELS = 7 };

static const int64_t none_of[1] = {0}, once[1] = {1}, twice[1] = {2};

#define FUNCTION(steps_of, n_in, n_out)                                                            \
    {                                                                                              \
        .name = "t", .inputs = (n_in), .outputs = (n_out),                                         \
        .instr_count = sizeof(steps_of) / sizeof(steps_of)[0], .instrs = (steps_of)                \
    }

static const uvcc_fn_instr relu_steps[] = {
    {.kind = UVCC_FN_OPEN, .bits = 64},
    {.kind = UVCC_FN_COMPARE, .a = 0, .bits = 20, .word_count = 1, .words = none_of},
    {.kind = UVCC_FN_SELECT, .a = 1, .b = 0, .word_count = 1, .words = once},
    {.kind = UVCC_FN_BITS, .a = 1, .word_count = 1, .words = once},
    {.kind = UVCC_FN_LIFT, .a = 2, .io = 0},
    {.kind = UVCC_FN_LIFT, .a = 3, .io = 1},
};
static const uvcc_function relu = FUNCTION(relu_steps, 1, 2);

/* Maximum of a row by pairs: second + [first >= second] (first - second), level by level. */
static uvcc_function max_of_row(uvcc_fn_instr steps[6 * LEVELS + 1], unsigned levels) {
    uint8_t n = 0, x = 0;
    steps[n++] = (uvcc_fn_instr){.kind = UVCC_FN_OPEN, .bits = 64};
    for (unsigned l = 1; l <= levels; l++) {
        const uint8_t diff = n;
        steps[n++] = (uvcc_fn_instr){.kind = UVCC_FN_PAIR_DIFF, .a = x};
        steps[n++] = (uvcc_fn_instr){.kind = UVCC_FN_PAIR_SECOND, .a = x};
        steps[n++] = (uvcc_fn_instr){
            .kind = UVCC_FN_COMPARE, .a = diff, .bits = 40, .word_count = 1, .words = none_of};
        steps[n++] = (uvcc_fn_instr){
            .kind = UVCC_FN_SELECT, .a = diff + 2, .b = diff, .word_count = 1, .words = once};
        steps[n++] = (uvcc_fn_instr){.kind = UVCC_FN_ADD, .a = diff + 3, .b = diff + 1};
        x = n;
        steps[n++] =
            (uvcc_fn_instr){.kind = UVCC_FN_EXCHANGE, .a = diff + 4, .io = l == levels ? 0 : NONE};
    }
    return (uvcc_function){
        .name = "max", .inputs = 1, .outputs = 1, .instr_count = n, .instrs = steps};
}

static uvcci_fn_plan compiled(const uvcc_function *f, uint32_t cols, const uint8_t *in_bits) {
    uvcci_fn_plan plan;
    char message[256];
    if (uvcci_fn_compile(f, cols, in_bits, &plan, message, sizeof message) != 0)
        fail_msg("%s", message);
    assert_string_equal(message, "");
    return plan;
}

/* ---- the tables of kinds ---- */

/* Whoever adds a kind adds its rows: class, turns, and (run here) the plaintext's. */
static void test_every_kind(void **state) {
    (void)state;
    for (unsigned kind = UVCC_FN_OPEN; kind < UVCC_FN_KIND_END; kind++) {
        const uvcci_fn_class *class = uvcci_fn_class_of((uint8_t)kind);
        assert_non_null(class);
        assert_string_equal(uvcci_fn_kind_name((uint8_t)kind), class->name);
        assert_non_null(class->compile);
        for (unsigned other = UVCC_FN_OPEN; other < kind; other++)
            assert_string_not_equal(uvcci_fn_kind_name((uint8_t)other), class->name);
        const uvcci_fn_turns *turns = uvcci_fn_turns_of((uint8_t)kind);
        assert_non_null(turns->start);
        assert_int_equal(turns->finish != NULL, class->sends != NULL);
        assert_int_equal(turns->key_task != 0, class->key_bytes != NULL);
        /* what is dealt: a mask that was drawn, a public map of one, a key, words */
        const bool deals = class->value == 'M' || class->value == 'B' || class->key_bytes != NULL;
        assert_true(turns->deal != NULL || !deals);
    }
    const uint8_t no_kinds[] = {0, UVCC_FN_KIND_END, 255};
    for (unsigned i = 0; i < sizeof no_kinds; i++) {
        assert_null(uvcci_fn_class_of(no_kinds[i]));
        assert_string_equal(uvcci_fn_kind_name(no_kinds[i]), "?");
    }
}

/* Of what a kind sends cost and plan know from its class alone. */
static void test_vectors(void **state) {
    (void)state;
    uvcci_fn_vector v[UVCCI_FN_VECTORS_MAX];
    const uvcc_fn_instr open = {.kind = UVCC_FN_OPEN, .bits = 17};
    assert_int_equal(uvcci_fn_class_of(UVCC_FN_OPEN)->sends(&open, 0, v), 1);
    assert_int_equal(v[0].bits, 17);
    uvcc_fn_instr table = {.kind = UVCC_FN_TABLE, .a = 1, .b = NONE};
    assert_int_equal(uvcci_fn_class_of(UVCC_FN_TABLE)->sends(&table, 0, v), 1);
    table.b = 0;
    assert_int_equal(uvcci_fn_class_of(UVCC_FN_TABLE)->sends(&table, 0, v), 2);
    assert_int_equal(v[0].bits + v[1].bits, 128);
    table.shift = 4; /* b is what the index was shifted from: opened already */
    assert_int_equal(uvcci_fn_class_of(UVCC_FN_TABLE)->sends(&table, 0, v), 1);
    const uvcc_fn_instr lift = {.kind = UVCC_FN_LIFT};
    assert_int_equal(uvcci_fn_class_of(UVCC_FN_LIFT)->sends(&lift, 77, v), 1);
    assert_int_equal(v[0].protocol, 77); /* that of the op's lifts */
    assert_true(v[0].fss);
}

/* ---- compiled form ---- */

static void test_relu_plan(void **state) {
    (void)state;
    const uint8_t in_bits[1] = {20};
    uint8_t out_bits[2];
    const uvcci_fn_plan plan = compiled(&relu, 5, in_bits);
    static const uint8_t stage[] = {0, 1, 2, 2, 2, 2}, last[] = {2, 2, 2, 2, 3, 3};
    static const char value[] = {'M', 'B', 'A', 'A', 0, 0};
    assert_int_equal(plan.rounds, 3);
    assert_false(plan.one_edge);
    for (unsigned i = 0; i < 6; i++) {
        const uvcci_fn_info *s = &plan.instr[i];
        assert_int_equal(s->value, value[i]);
        assert_int_equal(s->turn, stage[i]);
        assert_int_equal(s->last, last[i]);
        assert_int_equal(s->sends, i == 0 || i == 1 || i >= 4);
        assert_int_equal(s->width, 5);
        assert_int_equal(s->words, i == 1 || i == 2 ? 1 : 0);
        assert_int_equal(s->key, i == 1 ? 1 : NONE);
        assert_int_equal(s->dealer, i <= 1);
        assert_int_equal(s->pads, i == 0);
    }
    assert_int_equal(plan.instr[0].mod, 64);
    assert_true(plan.instr[0].bound == (1u << 20) - 1 && plan.instr[2].bound == (1u << 20) - 1);
    assert_int_equal(uvcc_function_check(&relu, 5, in_bits, out_bits, NULL, 0), 0);
    assert_int_equal(out_bits[0], 20);
    assert_int_equal(out_bits[1], 1);
    assert_true(compiled(&relu, 5, NULL).instr[2].bound == UINT64_MAX);
}

static void test_max_plan(void **state) {
    (void)state;
    const uint8_t in_bits[1] = {30};
    uvcc_fn_instr steps[6 * LEVELS + 1];
    uvcc_function f = max_of_row(steps, LEVELS);
    uvcci_fn_plan plan = compiled(&f, 128, in_bits);
    assert_int_equal(plan.rounds, 15);
    assert_true(plan.one_edge);
    for (unsigned l = 0, i = 1; l < LEVELS; l++, i += 6) {
        assert_int_equal(plan.instr[i].width, 64u >> l);
        assert_int_equal(plan.instr[i].turn, 2 * l + 1);
        assert_int_equal(plan.instr[i].last, 2 * l + 2); /* SELECT reads it after COMPARE */
        assert_true(plan.instr[i].dealer && plan.instr[i].pads);
        assert_true(!plan.instr[i + 1].dealer && plan.instr[i + 1].pads);
        assert_int_equal(plan.instr[i + 5].turn, 2 * l + 2);
        assert_true(plan.instr[i].bound == 2 * ((1ull << 30) - 1));
        assert_true(plan.instr[i + 5].bound == (1ull << 30) - 1); /* a maximum is one of the two */
        /* the pairs of the next level read it, and need what they are made of */
        assert_int_equal(plan.instr[i + 5].dealer, l + 1 < LEVELS);
        assert_int_equal(plan.instr[i + 5].pads, l + 1 < LEVELS);
    }
    assert_int_equal(uvcc_function_cols(&f, 128, 0), 1);
    assert_int_equal(uvcc_function_cols(&f, 128, 1), 0);
    assert_int_equal(uvcc_function_cols(&f, 128, NONE), 0);
    assert_int_equal(uvcc_function_cols(&f, 0, 0), 0);

    steps[5].constant = 1;
    assert_true(compiled(&f, 128, in_bits).instr[6].bound == 3 * ((1ull << 30) - 1) + 1);
    steps[5].constant = 0;
    steps[4].words = twice;
    assert_true(compiled(&f, 128, in_bits).instr[6].bound == 5 * ((1ull << 30) - 1));
    steps[4].words = once;
    f = max_of_row(steps, 3); /* odd widths: 5, 3, 2, 1 */
    plan = compiled(&f, 5, in_bits);
    assert_int_equal(plan.instr[1].width, 3);
    assert_int_equal(plan.instr[7].width, 2);
    assert_int_equal(plan.instr[13].width, 1);
    assert_int_equal(uvcc_function_cols(&f, 9, 0), 2);
}

/* The difference of one pair and the second of another: no maximum. */
static void test_two_pairs(void **state) {
    (void)state;
    static const uvcc_fn_instr steps[] = {
        {.kind = UVCC_FN_OPEN, .bits = 64},
        {.kind = UVCC_FN_OPEN, .io = 1, .bits = 64},
        {.kind = UVCC_FN_PAIR_DIFF, .a = 0},
        {.kind = UVCC_FN_PAIR_SECOND, .a = 1},
        {.kind = UVCC_FN_COMPARE, .a = 2, .bits = 40, .word_count = 1, .words = none_of},
        {.kind = UVCC_FN_SELECT, .a = 4, .b = 2, .word_count = 1, .words = once},
        {.kind = UVCC_FN_ADD, .a = 5, .b = 3},
        {.kind = UVCC_FN_LIFT, .a = 6, .io = 0},
    };
    const uvcc_function f = FUNCTION(steps, 2, 1);
    const uint8_t in_bits[2] = {10, 10};
    assert_true(compiled(&f, 4, in_bits).instr[6].bound == 3 * 1023);
}

static const int32_t ramp[16] = {0, -3, 5, 7, 9, 11, -13, 15, 17, 19, 21, 23, 25, 27, 29, 1 << 30};
static const int64_t factors[8] = {1 << 30, -(1 << 28), 1 << 26, 77, 1 << 20, 12345, -999, 3};

/* Keys that are shared, masks and words. */
static void test_masks(void **state) {
    (void)state;
    static const uvcc_fn_instr steps[] = {
        /*  0 */ {.kind = UVCC_FN_OPEN, .bits = 24},
        /*  1 */ {.kind = UVCC_FN_SHIFT, .a = 0, .shift = 8},
        /*  2 */ {.kind = UVCC_FN_COMPARE, .a = 1, .bits = 15, .word_count = 1, .words = none_of},
        /*  3 */
        {.kind = UVCC_FN_TABLE, .a = 1, .b = NONE, .bits = 15, .entry_count = 16, .entries = ramp},
        /*  4 */
        {.kind = UVCC_FN_TABLE, .a = 1, .b = NONE, .bits = 14, .entry_count = 16, .entries = ramp},
        /*  5 */ {.kind = UVCC_FN_SHIFT, .a = 0, .shift = 8},
        /*  6 */
        {.kind = UVCC_FN_TABLE, .a = 5, .b = 3, .bits = 15, .entry_count = 16, .entries = ramp},
        /*  7 */
        {.kind = UVCC_FN_TABLE,
         .a = 5,
         .b = 0,
         .bits = 15,
         .shift = 8,
         .entry_count = 16,
         .entries = ramp,
         .constant = 20,
         .word_count = 8,
         .words = factors},
        /*  8 */ {.kind = UVCC_FN_LIFT, .a = 6, .io = 0},
        /*  9 */ {.kind = UVCC_FN_OPEN, .io = 1, .bits = 64},
        /* 10 */ {.kind = UVCC_FN_ADD, .a = 7, .b = 9},
        /* 11 */ {.kind = UVCC_FN_BITS, .a = 2, .word_count = 1, .words = once},
        /* 12 */ {.kind = UVCC_FN_EXCHANGE, .a = 10, .io = 1},
    };
    const uvcc_function f = FUNCTION(steps, 2, 2);
    const uint8_t in_bits[2] = {20, 30};
    const uvcci_fn_plan plan = compiled(&f, 3, in_bits);
    const uvcci_fn_info *s = plan.instr;
    assert_int_equal(plan.rounds, 4); /* OPEN, table, table times it, LIFT */
    assert_int_equal(s[1].mod, 16);
    assert_true(s[1].bound == 1 << 12);
    assert_int_equal(s[2].key, 2);
    assert_int_equal(s[3].key, 2);
    assert_int_equal(s[4].key, 4);
    assert_int_equal(s[6].key, 6);
    assert_int_equal(s[7].key, 6);
    assert_int_equal(s[3].words, 2);
    assert_int_equal(s[6].words, 4);
    assert_int_equal(s[7].words, 2);
    assert_int_equal(s[6].turn, 2);
    assert_int_equal(s[0].last, 1);
    assert_int_equal(s[5].last, 2);
    assert_true(s[0].dealer && !s[0].pads && s[1].dealer && !s[1].pads);
    assert_true(!s[9].dealer && s[9].pads); /* only ADD reads it */
    assert_false(s[2].dealer);              /* BITS needs its words only */
    assert_true(!s[12].dealer && !s[12].pads);
    assert_true(s[3].bound == 1 << 30 && s[6].bound == 1ull << 60);
    uint8_t out_bits[2];
    assert_int_equal(uvcc_function_check(&f, 3, in_bits, out_bits, NULL, 0), 0);
    assert_int_equal(out_bits[0], 61);
}

/* ---- refusals ---- */

typedef struct draft {
    uvcc_fn_instr s[13];
    uvcc_function f;
    uint8_t in_bits[6];
    uint32_t cols;
} draft;

static const int64_t pair_words[2] = {0, 5};

static void start(draft *d) {
    const uvcc_fn_instr s[13] = {
        {.kind = UVCC_FN_OPEN, .bits = 64},
        {.kind = UVCC_FN_SHIFT, .a = 0, .shift = 4},
        {.kind = UVCC_FN_TABLE,
         .a = 1,
         .b = NONE,
         .bits = 10,
         .first = -8,
         .entry_count = 16,
         .entries = ramp},
        {.kind = UVCC_FN_COMPARE, .a = 0, .bits = 20, .word_count = 2, .words = pair_words},
        {.kind = UVCC_FN_SELECT, .a = 3, .b = 0, .word_count = 2, .words = pair_words},
        {.kind = UVCC_FN_ADD, .a = 4, .b = 2, .constant = 7},
        {.kind = UVCC_FN_EXCHANGE, .a = 5, .io = NONE},
        {.kind = UVCC_FN_PAIR_DIFF, .a = 6},
        {.kind = UVCC_FN_OPEN, .io = 1, .bits = 12},
        {.kind = UVCC_FN_INDEX, .a = 0},
        {.kind = UVCC_FN_LIFT, .a = 9, .io = 0},
        {.kind = UVCC_FN_BITS, .a = 3, .word_count = 2, .words = pair_words},
        {.kind = UVCC_FN_LIFT, .a = 11, .io = 1},
    };
    memset(d, 0, sizeof *d);
    memcpy(d->s, s, sizeof s);
    d->f =
        (uvcc_function){.name = "t", .inputs = 2, .outputs = 2, .instr_count = 13, .instrs = d->s};
    memset(d->in_bits, 12, sizeof d->in_bits);
    d->cols = 6;
}

static void check_refused(const draft *d, int error, const char *want) {
    char message[256] = "";
    const int err = uvcc_function_check(&d->f, d->cols, d->in_bits, NULL, message, sizeof message);
    assert_string_equal(message, want);
    assert_int_equal(err, error);
}

#define REFUSED(error, message, ...)                                                               \
    do {                                                                                           \
        start(&d);                                                                                 \
        __VA_ARGS__;                                                                               \
        check_refused(&d, UVCC_ERR_##error, message);                                              \
    } while (0)
#define AT(step, what) "function t, instruction " step ": " what

static void test_refused_heads(void **state) {
    (void)state;
    draft d;
    start(&d);
    assert_int_equal(uvcc_function_check(&d.f, d.cols, d.in_bits, NULL, NULL, 0), 0);
    assert_int_equal(uvcc_function_check(&d.f, d.cols, NULL, NULL, NULL, 0), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_function_check(NULL, 1, d.in_bits, NULL, NULL, 0), UVCC_ERR_USAGE);
    REFUSED(USAGE, "there is no function, or its inputs have no columns", d.cols = 0);
    REFUSED(USAGE, "there is no function, or its inputs have no columns", d.f.instrs = NULL);
    REFUSED(LIMIT, "function t has 193 instructions; at most 192 are possible",
            d.f.instr_count = 193);
    REFUSED(PROGRAM, "function t has 0 inputs and 2 outputs; 1 to 6 and 1 to 4 are possible",
            d.f.inputs = 0);
    REFUSED(PROGRAM, "function t has 7 inputs and 2 outputs; 1 to 6 and 1 to 4 are possible",
            d.f.inputs = 7);
    REFUSED(PROGRAM, "function t has 2 inputs and 0 outputs; 1 to 6 and 1 to 4 are possible",
            d.f.outputs = 0);
    REFUSED(PROGRAM,
            "function (no name) has 2 inputs and 5 outputs; 1 to 6 and 1 to 4 are possible",
            (d.f.outputs = 5, d.f.name = NULL));
    REFUSED(PROGRAM, "function t: input 1 declares 64 bits; 1 to 63 are possible",
            d.in_bits[1] = 64);
    REFUSED(PROGRAM, "function t: input 0 declares 0 bits; 1 to 63 are possible", d.in_bits[0] = 0);
    REFUSED(PROGRAM, "function t: no instruction opens input 2", d.f.inputs = 3);
    REFUSED(PROGRAM, "function t: no instruction writes output 2", d.f.outputs = 3);
}

static void test_refused_operands(void **state) {
    (void)state;
    draft d;
    REFUSED(PROGRAM, AT("1 (?)", "kind 0 is unknown"), d.s[1].kind = 0);
    REFUSED(PROGRAM, AT("1 (?)", "kind 99 is unknown"), d.s[1].kind = 99);
    REFUSED(PROGRAM,
            AT("1 (SHIFT)", "operand a is instruction 1; it must be an earlier instruction"),
            d.s[1].a = 1);
    REFUSED(PROGRAM,
            AT("12 (LIFT)", "operand a is instruction 255; it must be an earlier instruction"),
            d.s[12].a = NONE);
    REFUSED(PROGRAM,
            AT("4 (SELECT)", "operand b is instruction 255; it must be an earlier instruction"),
            d.s[4].b = NONE);
    REFUSED(PROGRAM,
            AT("3 (COMPARE)",
               "operand a is instruction 2 (TABLE), its value is additive; it must be masked"),
            d.s[3].a = 2);
    REFUSED(
        PROGRAM,
        AT("4 (SELECT)", "operand a is instruction 0 (OPEN), its value is masked; it must be bits"),
        d.s[4].a = 0);
    REFUSED(PROGRAM,
            AT("5 (ADD)", "operand b is instruction 3 (COMPARE), its value is bits; it must be "
                          "additive or masked"),
            d.s[5].b = 3);
    REFUSED(PROGRAM,
            AT("9 (INDEX)", "operand a is instruction 3 (COMPARE), its value is bits; it must be "
                            "masked or additive"),
            d.s[9].a = 3);
    REFUSED(
        PROGRAM,
        AT("11 (BITS)", "operand a is instruction 10 (LIFT), its value is none; it must be bits"),
        d.s[11].a = 10);
    REFUSED(PROGRAM,
            AT("12 (LIFT)",
               "operand a is instruction 6 (EXCHANGE), its value is masked; it must be "
               "additive"),
            d.s[12].a = 6);
    REFUSED(PROGRAM,
            AT("2 (TABLE)",
               "operand b is instruction 0 (OPEN), its value is masked; it must be additive"),
            d.s[2].b = 0);
    REFUSED(PROGRAM,
            AT("7 (PAIR_DIFF)",
               "operand a is instruction 1 (SHIFT), which only COMPARE and tables can "
               "read"),
            d.s[7].a = 1);
    REFUSED(PROGRAM, AT("9 (ADD)", "operand a has 6 columns, b 3; they must be equal"),
            (d.s[9].kind = UVCC_FN_ADD, d.s[9].a = 5, d.s[9].b = 7));
}

static void test_refused_masked(void **state) {
    (void)state;
    draft d;
    REFUSED(PROGRAM, AT("0 (OPEN)", "there is no input 2"), d.s[0].io = 2);
    REFUSED(PROGRAM, AT("0 (OPEN)", "0 bits; 1 to 64 are possible"), d.s[0].bits = 0);
    REFUSED(PROGRAM, AT("0 (OPEN)", "65 bits; 1 to 64 are possible"), d.s[0].bits = 65);
    REFUSED(PROGRAM, AT("1 (SHIFT)", "a shift by 0; its operand has 64 bits opened"),
            d.s[1].shift = 0);
    REFUSED(PROGRAM, AT("1 (SHIFT)", "a shift by 64; its operand has 64 bits opened"),
            d.s[1].shift = 64);
    REFUSED(PROGRAM, AT("2 (TABLE)", "operand a has 9 bits opened; 10 are needed"),
            d.s[0].bits = 13);
    REFUSED(PROGRAM, AT("3 (COMPARE)", "operand a has 20 bits opened; 21 are needed"),
            d.s[0].bits = 20);
    REFUSED(PROGRAM, AT("4 (SELECT)", "operand b has 63 bits opened; 64 are needed"),
            d.s[0].bits = 63);
    REFUSED(PROGRAM, AT("5 (ADD)", "operand b has 12 bits opened; 64 are needed"),
            (d.s[0].io = 1, d.s[0].bits = 64, d.s[1].a = 0, d.s[3].a = 0,
             d.s[2] = (uvcc_fn_instr){.kind = UVCC_FN_OPEN, .bits = 12}));
}

static void test_refused_compare(void **state) {
    (void)state;
    static const int64_t far[2] = {0, INT64_MIN};
    draft d;
    REFUSED(PROGRAM, AT("3 (COMPARE)", "0 bits; 1 to 63 are possible"), d.s[3].bits = 0);
    REFUSED(PROGRAM, AT("3 (COMPARE)", "64 bits; 1 to 63 are possible"), d.s[3].bits = 64);
    REFUSED(PROGRAM, AT("3 (COMPARE)", "0 words; it takes 1 to 64"), d.s[3].word_count = 0);
    REFUSED(PROGRAM, AT("3 (COMPARE)", "65 words; it takes 1 to 64"), d.s[3].word_count = 65);
    REFUSED(PROGRAM, AT("3 (COMPARE)", "its words are missing"), d.s[3].words = NULL);
    /* |x| <= 4095, so |x - 5| <= 4100 */
    REFUSED(BOUND, AT("3 (COMPARE)", "its operand needs 13 bits, but 12 are declared"),
            d.s[3].bits = 12);
    REFUSED(BOUND, AT("3 (COMPARE)", "its operand needs 64 bits, but 63 are declared"),
            (d.s[3].bits = 63, d.s[3].words = far));
    REFUSED(PROGRAM, AT("4 (SELECT)", "1 words; it takes 2"), d.s[4].word_count = 1);
    REFUSED(PROGRAM, AT("11 (BITS)", "3 words; it takes 2"), d.s[11].word_count = 3);
    REFUSED(PROGRAM, AT("11 (BITS)", "its words are missing"), d.s[11].words = NULL);
    start(&d); /* the closest that fits */
    d.s[3].words = none_of;
    d.s[3].word_count = d.s[4].word_count = d.s[11].word_count = 1;
    d.s[3].bits = 12;
    assert_int_equal(uvcc_function_check(&d.f, d.cols, d.in_bits, NULL, NULL, 0), 0);
}

static void test_refused_tables(void **state) {
    (void)state;
    /* times 2^4, or times an entry, they have more than 63 bits */
    static const int64_t wide[8] = {0, 0, 0, 0, 1ll << 59, 0, 0, 0};
    static const int64_t high[8] = {1ll << 33, 0, 0, 0, 1, 0, 0, 0};
    draft d;
    REFUSED(PROGRAM, AT("2 (TABLE)", "0 bits; 1 to 63 are possible"), d.s[2].bits = 0);
    REFUSED(PROGRAM, AT("2 (TABLE)", "0 entries; 1 to 1024 are possible"), d.s[2].entry_count = 0);
    REFUSED(PROGRAM, AT("2 (TABLE)", "1025 entries; 1 to 1024 are possible"),
            d.s[2].entry_count = 1025);
    REFUSED(PROGRAM, AT("2 (TABLE)", "65537 entries; 1 to 65536 are possible"),
            (d.s[2].bits = 20, d.s[2].entry_count = 65537));
    REFUSED(PROGRAM, AT("2 (TABLE)", "its entries are missing"), d.s[2].entries = NULL);
    /* |x| <= 256 after the shift; the window is -8 .. 7 */
    REFUSED(BOUND, AT("2 (TABLE)", "its operand needs 9 bits, but 8 are declared"),
            d.s[2].bits = 8);
    REFUSED(BOUND, AT("2 (TABLE)", "its operand needs 11 bits, but 10 are declared"),
            d.s[2].first = -768);
    REFUSED(BOUND, AT("2 (TABLE)", "its operand needs 11 bits, but 10 are declared"),
            d.s[2].first = 753);
    start(&d); /* one less on either side fits */
    d.s[2].first = -767;
    assert_int_equal(uvcc_function_check(&d.f, d.cols, d.in_bits, NULL, NULL, 0), 0);
    d.s[2].first = 752;
    assert_int_equal(uvcc_function_check(&d.f, d.cols, d.in_bits, NULL, NULL, 0), 0);

#define FACTORS                                                                                    \
    d.s[2].b = 0, d.s[2].shift = 4, d.s[2].word_count = 8, d.s[2].words = factors,                 \
    d.s[2].constant = 20
    REFUSED(PROGRAM, AT("2 (TABLE)", "operand a must be the SHIFT of operand b by 5"),
            (FACTORS, d.s[2].shift = 5));
    REFUSED(PROGRAM, AT("2 (TABLE)", "operand a must be the SHIFT of operand b by 4"),
            (FACTORS, d.s[2].a = 0, d.s[2].bits = 14));
    REFUSED(PROGRAM, AT("2 (TABLE)", "operand a must be the SHIFT of operand b by 4"),
            (FACTORS, d.s[2].b = 1));
    REFUSED(PROGRAM,
            AT("2 (TABLE)", "operand b is instruction 255; it must be an earlier instruction"),
            (FACTORS, d.s[2].b = NONE));
    REFUSED(PROGRAM, AT("2 (TABLE)", "7 words; it takes 8"), (FACTORS, d.s[2].word_count = 7));
    REFUSED(PROGRAM, AT("2 (TABLE)", "its constant is a shift; 0 to 63 are possible"),
            (FACTORS, d.s[2].constant = 64));
    REFUSED(PROGRAM, AT("2 (TABLE)", "its constant is a shift; 0 to 63 are possible"),
            (FACTORS, d.s[2].constant = -1));
    REFUSED(BOUND, AT("2 (TABLE)", "its factors do not fit in 64 bits"),
            (FACTORS, d.s[2].words = wide));
    REFUSED(BOUND, AT("2 (TABLE)", "its factors do not fit in 64 bits"),
            (FACTORS, d.s[2].words = high));
    start(&d);
    FACTORS;
    assert_int_equal(uvcc_function_check(&d.f, d.cols, d.in_bits, NULL, NULL, 0), 0);
}

static void test_refused_outputs(void **state) {
    (void)state;
    static const int64_t large[2] = {1ll << 51, 1};
    draft d;
    REFUSED(PROGRAM, AT("10 (LIFT)", "there is no output 2"), d.s[10].io = 2);
    REFUSED(PROGRAM, AT("10 (LIFT)", "there is no output 255"), d.s[10].io = NONE);
    REFUSED(PROGRAM, AT("6 (EXCHANGE)", "there is no output 2"), d.s[6].io = 2);
    REFUSED(PROGRAM, AT("10 (LIFT)", "output 0 is written by an earlier instruction"),
            d.s[6].io = 0);
    REFUSED(BOUND, AT("10 (LIFT)", "output 0 needs 63 bits; at most 62 are possible"),
            (d.s[4].words = large, d.s[10].a = 4));
    start(&d);
    d.s[4].words = large;
    d.s[10].a = 4;
    d.in_bits[0] = 11;
    uint8_t out_bits[2];
    assert_int_equal(uvcc_function_check(&d.f, d.cols, d.in_bits, out_bits, NULL, 0), 0);
    assert_int_equal(out_bits[0], 62);
    assert_int_equal(out_bits[1], 3);
}

/* Bits that EXCHANGE and LIFT declare narrow the bound, and the plaintext checks them. */
static void test_declared_bits(void **state) {
    (void)state;
    draft d;
    uint8_t out_bits[2];
    REFUSED(PROGRAM, AT("10 (LIFT)", "it declares 63 bits; at most 62 are possible"),
            d.s[10].bits = 63);
    static const int64_t one[1] = {1};
    uvcc_fn_instr s[] = {
        {.kind = UVCC_FN_OPEN, .bits = 64},
        {.kind = UVCC_FN_COMPARE, .bits = 21, .word_count = 1, .words = one},
        {.kind = UVCC_FN_SELECT, .a = 1, .b = 0, .word_count = 1, .words = one},
        {.kind = UVCC_FN_EXCHANGE, .a = 2, .bits = 10, .io = NONE},
        {.kind = UVCC_FN_COMPARE, .a = 3, .bits = 11, .word_count = 1, .words = one},
        {.kind = UVCC_FN_SELECT, .a = 4, .b = 3, .word_count = 1, .words = one},
        {.kind = UVCC_FN_LIFT, .a = 5, .bits = 60},
    };
    const uvcc_function f = {"declared", 1, 1, 7, s};
    const uint8_t in_bits[1] = {20};
    assert_int_equal(uvcc_function_check(&f, 1, in_bits, out_bits, NULL, 0), 0);
    assert_int_equal(out_bits[0], 10); /* not 20, and a wider declaration changes nothing */
    s[6].bits = 4;
    assert_int_equal(uvcc_function_check(&f, 1, in_bits, out_bits, NULL, 0), 0);
    assert_int_equal(out_bits[0], 4);
    s[3].bits = 0; /* 11 bits are too few without it */
    assert_int_equal(uvcc_function_check(&f, 1, in_bits, out_bits, NULL, 0), UVCC_ERR_BOUND);
    s[3].bits = 10;
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    const int64_t given[] = {15, 16, 1023, 1024, -5};
    const int want[] = {0, UVCC_ERR_BOUND, UVCC_ERR_BOUND, UVCC_ERR_BOUND, 0};
    for (size_t i = 0; i < 5; i++) {
        const int64_t *const in[1] = {&given[i]};
        int64_t y, *const out[1] = {&y};
        assert_int_equal(uvcc_function_eval(&f, 1, 1, in, out, NULL, &al), want[i]);
    }
    assert_int_equal(mem.live_blocks, 0);
}

/* ---- plaintext ---- */

enum { ROWS = 3 };

static void eval(const uvcc_function *f, uint32_t rows, uint32_t cols, const int64_t *x,
                 const int64_t *y, int64_t *z, int64_t *z2, const uint64_t *const *low) {
    test_alloc counts = {0};
    const uvcc_allocator al = test_allocator(&counts);
    const int64_t *in[2] = {x, y};
    int64_t *out[2] = {z, z2};
    assert_int_equal(uvcc_function_eval(f, rows, cols, in, out, low, &al), 0);
    assert_int_equal(counts.live_blocks, 0);
}

static void test_eval_relu(void **state) {
    (void)state;
    enum { N = 5000 }; /* several batches */
    int64_t *x = malloc(3 * N * sizeof *x), *y = x + N, *d = y + N;
    uint64_t seed = 1;
    for (unsigned i = 0; i < N; i++)
        x[i] = (int64_t)(test_rand(&seed) % 2000001) - 1000000;
    x[0] = 0;
    eval(&relu, N / 5, 5, x, NULL, y, d, NULL);
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(y[i], x[i] >= 0 ? x[i] : 0);
        assert_int_equal(d[i], x[i] >= 0);
    }
    free(x);
}

static void test_eval_max(void **state) {
    (void)state;
    static const uint32_t widths[] = {1, 2, 3, 5, 6, 7, 64, 100, 128};
    uint64_t seed = 2;
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        const uint32_t cols = widths[w];
        uvcc_fn_instr steps[6 * LEVELS + 1];
        unsigned levels = 1;
        while (1u << levels < cols)
            levels++;
        const uvcc_function f = max_of_row(steps, levels);
        int64_t x[ROWS * 128], z[ROWS];
        for (uint32_t i = 0; i < ROWS * cols; i++)
            x[i] = (int64_t)(test_rand(&seed) % 2001) - 1000;
        eval(&f, ROWS, cols, x, NULL, z, NULL, NULL);
        for (uint32_t r = 0; r < ROWS; r++) {
            int64_t most = x[r * cols];
            for (uint32_t j = 1; j < cols; j++)
                most = x[r * cols + j] > most ? x[r * cols + j] : most;
            assert_int_equal(z[r], most);
        }
    }
}

static void test_eval_bits(void **state) {
    (void)state;
    static const int64_t knots[3] = {-2, 0, 7}, slopes[3] = {10, -100, 1000};
    static const uvcc_fn_instr steps[] = {
        {.kind = UVCC_FN_OPEN, .bits = 64},
        {.kind = UVCC_FN_COMPARE, .a = 0, .bits = 20, .word_count = 3, .words = knots},
        {.kind = UVCC_FN_OPEN, .io = 1, .bits = 64},
        {.kind = UVCC_FN_SELECT, .a = 1, .b = 2, .word_count = 3, .words = slopes},
        {.kind = UVCC_FN_BITS, .a = 1, .word_count = 3, .words = slopes},
        {.kind = UVCC_FN_LIFT, .a = 3, .io = 0},
        {.kind = UVCC_FN_LIFT, .a = 4, .io = 1},
    };
    const uvcc_function f = FUNCTION(steps, 2, 2);
    static const int64_t x[6] = {-3, -2, -1, 0, 6, 7}, y[6] = {2, 3, 5, 7, -11, 13};
    static const int64_t sums[6] = {0, 10, 10, -90, -90, 910};
    int64_t z[6], b[6];
    eval(&f, 2, 3, x, y, z, b, NULL);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(b[i], sums[i]);
        assert_int_equal(z[i], sums[i] * y[i]);
    }
}

static void test_eval_table(void **state) {
    (void)state;
    static const uvcc_fn_instr steps[] = {
        {.kind = UVCC_FN_OPEN, .bits = 64},
        {.kind = UVCC_FN_TABLE,
         .a = 0,
         .b = NONE,
         .bits = 20,
         .first = -3,
         .entry_count = 16,
         .entries = ramp,
         .constant = 9,
         .word_count = 1,
         .words = once}, /* both unused */
        {.kind = UVCC_FN_ADD, .a = 1, .b = 0, .constant = 100},
        {.kind = UVCC_FN_TABLE,
         .a = 0,
         .b = 2,
         .bits = 20,
         .first = -4,
         .entry_count = 10,
         .entries = ramp},
        {.kind = UVCC_FN_INDEX, .a = 3},
        {.kind = UVCC_FN_ADD, .a = 4, .b = 3},
        {.kind = UVCC_FN_LIFT, .a = 1, .io = 0},
        {.kind = UVCC_FN_LIFT, .a = 5, .io = 1},
    };
    const uvcc_function f = FUNCTION(steps, 1, 2);
    int64_t x[24], z[24], times[24];
    for (int i = 0; i < 24; i++)
        x[i] = i - 8;
    eval(&f, 3, 8, x, NULL, z, times, NULL);
    for (int i = 0; i < 24; i++) {
        const int64_t t = x[i] >= -3 && x[i] < 13 ? ramp[x[i] + 3] : 0;
        const int64_t t2 = x[i] >= -4 && x[i] < 6 ? ramp[x[i] + 4] : 0;
        assert_int_equal(z[i], t);
        assert_int_equal(times[i], t2 * (t + x[i] + 100) + 2 * (i % 8) + 1);
    }
}

static int64_t slow_floor(int64_t v, unsigned shift) { /* floor(v / 2^shift) without >> */
    const int64_t d = (int64_t)1 << shift;
    return v / d - (v % d < 0);
}

static int64_t slow_factor(const int64_t *c, int64_t l, unsigned s) {
    const int64_t z2 = c[2] + slow_floor(l * c[3], s);
    const int64_t z1 = c[1] + slow_floor(l * z2, s);
    return c[0] + slow_floor(l * z1, s);
}

/* Fast mode: floors of x + r_low, and the factor that makes up for what they leave out. */
static void test_eval_shift(void **state) {
    (void)state;
    static const uvcc_fn_instr steps[] = {
        {.kind = UVCC_FN_OPEN, .bits = 64},
        {.kind = UVCC_FN_SHIFT, .a = 0, .shift = 6},
        {.kind = UVCC_FN_COMPARE, .a = 1, .bits = 20, .word_count = 1, .words = none_of},
        {.kind = UVCC_FN_TABLE,
         .a = 1,
         .b = 0,
         .bits = 20,
         .shift = 6,
         .first = -8,
         .entry_count = 16,
         .entries = ramp,
         .constant = 7,
         .word_count = 8,
         .words = factors},
        {.kind = UVCC_FN_BITS, .a = 2, .word_count = 1, .words = once},
        {.kind = UVCC_FN_LIFT, .a = 3, .io = 0},
        {.kind = UVCC_FN_LIFT, .a = 4, .io = 1},
    };
    const uvcc_function f = FUNCTION(steps, 1, 2);
    enum { R = 700, C = 3, N = R * C }; /* more than a batch */
    int64_t *x = malloc(3 * N * sizeof *x), *z = x + N, *d = z + N;
    uint64_t *r_low = malloc(N * sizeof *r_low), seed = 3;
    for (unsigned i = 0; i < N; i++) {
        x[i] = (int64_t)(test_rand(&seed) % 1401) - 700;
        r_low[i] = test_rand(&seed) % 64;
    }
    const uint64_t *low[7] = {[1] = r_low};
    for (int fast = 0; fast < 2; fast++) {
        eval(&f, R, C, x, NULL, z, d, fast ? low : NULL);
        for (unsigned i = 0; i < N; i++) {
            const int64_t r = fast ? (int64_t)r_low[i] : 0, at = slow_floor(x[i] + r, 6);
            const int64_t entry = at >= -8 && at < 8 ? ramp[at + 8] : 0;
            const int64_t lo = x[i] + r - 64 * at;
            assert_int_equal(z[i], slow_floor(entry * slow_factor(factors, lo, 6), 30) *
                                       slow_floor(slow_factor(factors + 4, r, 6), 7));
            assert_int_equal(d[i], at >= 0);
        }
    }
    free(x);
    free(r_low);
}

static void test_eval_pairs(void **state) {
    (void)state;
    static const uvcc_fn_instr steps[] = {
        {.kind = UVCC_FN_OPEN, .bits = 64},
        {.kind = UVCC_FN_PAIR_DIFF, .a = 0},
        {.kind = UVCC_FN_PAIR_SECOND, .a = 0},
        {.kind = UVCC_FN_INDEX, .a = 1},
        {.kind = UVCC_FN_ADD, .a = 3, .b = 1},
        {.kind = UVCC_FN_ADD, .a = 3, .b = NONE, .constant = -5},
        {.kind = UVCC_FN_ADD, .a = 5, .b = 2},
        {.kind = UVCC_FN_EXCHANGE, .a = 4, .io = 0},
        {.kind = UVCC_FN_LIFT, .a = 6, .io = 1},
    };
    const uvcc_function f = FUNCTION(steps, 1, 2);
    static const int64_t x[10] = {1, 2, 30, 40, 500, -6, 7, 8, -90, 11};
    static const int64_t diff[6] = {1 - 1, 3 - 10, 5, 1 - 13, 3 + 98, 5};
    static const int64_t second[6] = {1 - 5 + 2, 3 - 5 + 40, 500, -4 + 7, -2 - 90, 11};
    int64_t z[6], s[6];
    eval(&f, 2, 5, x, NULL, z, s, NULL);
    assert_memory_equal(z, diff, sizeof z);
    assert_memory_equal(s, second, sizeof s);
}

/* ---- groups of four, rows and products ---- */

/* The greatest of each group of four by values shifted by 2, times the sum of them, truncated. */
static const uvcc_fn_instr quads[] = {
    /*  0 */ {.kind = UVCC_FN_OPEN, .bits = 64},
    /*  1 */ {.kind = UVCC_FN_QUAD_DIFF, .a = 0},
    /*  2 */ {.kind = UVCC_FN_SHIFT, .a = 0, .shift = 2},
    /*  3 */ {.kind = UVCC_FN_QUAD_DIFF, .a = 2},
    /*  4 */ {.kind = UVCC_FN_COMPARE, .a = 3, .bits = 10, .word_count = 1, .words = none_of},
    /*  5 */ {.kind = UVCC_FN_QUAD_BEST, .a = 4, .b = 1},
    /*  6 */ {.kind = UVCC_FN_QUAD_LAST, .a = 0},
    /*  7 */ {.kind = UVCC_FN_ADD, .a = 5, .b = 6},
    /*  8 */ {.kind = UVCC_FN_EXCHANGE, .a = 7, .io = 0},
    /*  9 */ {.kind = UVCC_FN_ROW_SUM, .a = 8},
    /* 10 */ {.kind = UVCC_FN_SPREAD, .a = 9, .b = 8},
    /* 11 */ {.kind = UVCC_FN_SUB, .a = 10, .b = 8},
    /* 12 */ {.kind = UVCC_FN_MUL, .a = 11, .b = 8},
    /* 13 */ {.kind = UVCC_FN_EXCHANGE, .a = 12, .io = NONE},
    /* 14 */ {.kind = UVCC_FN_TRUNC, .a = 13, .shift = 3},
    /* 15 */ {.kind = UVCC_FN_LIFT, .a = 14, .io = 1},
};
enum { QUAD_STEPS = sizeof quads / sizeof quads[0] };

static void test_quads_plan(void **state) {
    (void)state;
    const uint8_t in_bits[1] = {8};
    const uvcc_function f = FUNCTION(quads, 1, 2);
    const uvcci_fn_plan plan = compiled(&f, 9, in_bits);
    const uvcci_fn_info *s = plan.instr;
    static const uint8_t width[] = {9, 18, 9, 18, 18, 3, 3, 3, 3, 1, 3, 3, 3, 3, 3, 3};
    static const uint8_t stage[] = {0, 1, 1, 1, 1, 2, 1, 2, 2, 3, 3, 3, 3, 3, 4, 4};
    static const char value[] = "MMMMBAAAMMMMAMA";
    for (unsigned i = 0; i < QUAD_STEPS; i++) {
        assert_int_equal(s[i].width, width[i]);
        assert_int_equal(s[i].turn, stage[i]);
        if (i != 6 && i != 15)
            assert_int_equal(s[i].value, value[i]);
        assert_int_equal(s[i].index, i == 2 || i == 3);
        assert_int_equal(s[i].words, i == 4    ? 1
                                     : i == 5  ? UVCCI_FN_BEST_WORDS
                                     : i == 12 ? 1
                                     : i == 14 ? 2
                                               : 0);
    }
    assert_int_equal(plan.rounds, 5);
    assert_true(plan.one_edge);
    assert_true(s[1].dealer && s[1].pads && s[3].dealer && !s[3].pads && s[4].dealer);
    assert_true(s[0].dealer && s[0].pads && !s[2].pads);
    assert_true(s[8].dealer && s[8].pads && s[9].dealer && s[9].pads);
    assert_true(s[13].dealer && !s[13].pads);
    assert_true(s[1].bound == 510 && s[3].bound == 128 && s[5].bound == 510);
    assert_true(s[7].bound == 255); /* one of the four */
    assert_true(s[9].bound == 765 && s[11].bound == 1020 && s[12].bound == 1020 * 255);
    assert_true(s[14].bound == 1020 * 255 / 8 + 1);
    assert_int_equal(uvcc_function_cols(&f, 9, 0), 3);
    uvcc_fn_cost cost;
    assert_int_equal(uvcc_function_cost(&f, 8, &cost), 0);
    assert_true(cost.online_bytes == 16 + 12 / 8.0 / 4 + 3 * 16 / 4.0);
    assert_true(cost.key_bytes ==
                12 / 8.0 * (2 * uvcci_cw_bytes(10, 1) + 8) + (42 + 1 + 2) * 8 / 4.0);
}

static void test_eval_quads(void **state) {
    (void)state;
    const uvcc_function f = FUNCTION(quads, 1, 2);
    static const uint32_t widths[] = {1, 2, 4, 5, 7, 64};
    uint64_t seed = 3;
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        const uint32_t cols = widths[w], n = (cols + 3) / 4;
        int64_t x[ROWS * 64], best[ROWS * 16], p[ROWS * 16];
        uint64_t two[ROWS * 64], three[ROWS * 16];
        const uint64_t *low[QUAD_STEPS] = {[2] = two, [14] = three};
        for (uint32_t i = 0; i < ROWS * cols; i++) {
            x[i] = (int64_t)(test_rand(&seed) % 511) - 255;
            two[i] = test_rand(&seed) % 4;
            three[i % (ROWS * n)] = test_rand(&seed) % 8;
        }
        eval(&f, ROWS, cols, x, NULL, best, p, low);
        for (uint32_t r = 0; r < ROWS; r++) {
            int64_t sum = 0;
            for (uint32_t q = 0; q < n; q++) {
                uint32_t at = 4 * q;
                for (uint32_t j = at; j < 4 * q + 4 && j < cols; j++) /* the first of equal ones */
                    if ((x[r * cols + j] + (int64_t)two[r * cols + j]) >> 2 >
                        (x[r * cols + at] + (int64_t)two[r * cols + at]) >> 2)
                        at = j;
                assert_int_equal(best[r * n + q], x[r * cols + at]);
                sum += best[r * n + q];
            }
            for (uint32_t q = r * n; q < (r + 1) * n; q++)
                assert_int_equal(p[q], ((sum - best[q]) * best[q] + (int64_t)three[q]) >> 3);
        }
    }
}

static void test_refused_quads(void **state) {
    (void)state;
    static const struct {
        unsigned step;
        int error;
        const char *want;
        uvcc_fn_instr is;
    } cases[] = {
        {4,
         UVCC_ERR_PROGRAM,
         "function t, instruction 5 (QUAD_BEST): operand a must be a COMPARE of a QUAD_DIFF by one "
         "word, "
         "b "
         "a QUAD_DIFF",
         {.kind = UVCC_FN_COMPARE, .a = 3, .bits = 10, .word_count = 2, .words = pair_words}},
        {5,
         UVCC_ERR_PROGRAM,
         "function t, instruction 5 (QUAD_BEST): operand b is instruction 3 (QUAD_DIFF), which "
         "only COMPARE and "
         "tables can read",
         {.kind = UVCC_FN_QUAD_BEST, .a = 4, .b = 3}},
        {6,
         UVCC_ERR_PROGRAM,
         "function t, instruction 6 (QUAD_LAST): operand a is instruction 2 (SHIFT), which only "
         "COMPARE and "
         "tables can read",
         {.kind = UVCC_FN_QUAD_LAST, .a = 2}},
        {10,
         UVCC_ERR_PROGRAM,
         "function t, instruction 10 (SPREAD): operand a has 3 columns; it must have one",
         {.kind = UVCC_FN_SPREAD, .a = 8, .b = 8}},
        {11,
         UVCC_ERR_PROGRAM,
         "function t, instruction 11 (SUB): operand a has 1 columns, b 3; they must be equal",
         {.kind = UVCC_FN_SUB, .a = 9, .b = 8}},
        {0,
         UVCC_ERR_PROGRAM,
         "function t, instruction 5 (QUAD_BEST): operand b has 40 bits opened; 64 are needed",
         {.kind = UVCC_FN_OPEN, .bits = 40}},
        {14,
         UVCC_ERR_PROGRAM,
         "function t, instruction 14 (TRUNC): a shift by 0; 1 to 62 are possible",
         {.kind = UVCC_FN_TRUNC, .a = 13}},
        {14,
         UVCC_ERR_PROGRAM,
         "function t, instruction 14 (TRUNC): a shift by 63; 1 to 62 are possible",
         {.kind = UVCC_FN_TRUNC, .a = 13, .shift = 63}},
    };
    const uint8_t in_bits[1] = {8};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uvcc_fn_instr steps[QUAD_STEPS];
        uvcc_function f = {"t", 1, 2, QUAD_STEPS, steps};
        char message[256] = "";
        memcpy(steps, quads, sizeof steps);
        steps[cases[i].step] = cases[i].is;
        const int err = uvcc_function_check(&f, 9, in_bits, NULL, message, sizeof message);
        assert_string_equal(message, cases[i].want);
        assert_int_equal(err, cases[i].error);
    }
    /* what is truncated must have 62 bits */
    uvcc_fn_instr steps[QUAD_STEPS];
    uvcc_function f = {"t", 1, 2, QUAD_STEPS, steps};
    char message[256] = "";
    const uint8_t wide[1] = {31};
    memcpy(steps, quads, sizeof steps);
    steps[4].bits = 40;
    assert_int_equal(uvcc_function_check(&f, 9, wide, NULL, message, sizeof message),
                     UVCC_ERR_BOUND);
    assert_string_equal(message,
                        "function t, instruction 14 (TRUNC): its operand needs 64 bits; at most 62 "
                        "are possible");
}

/* ---- multiscales ---- */

enum { MULTISCALE_WORDS = 9 * 3 * 2 };
static int64_t multiscale_words[MULTISCALE_WORDS];
static const uvcc_fn_instr multiscale_steps[] = {
    {.kind = UVCC_FN_OPEN, .bits = 64},
    {.kind = UVCC_FN_MULTISCALE,
     .a = 0,
     .bits = 8,
     .shift = 2,
     .first = 3,
     .constant = 5,
     .word_count = MULTISCALE_WORDS,
     .words = multiscale_words},
    {.kind = UVCC_FN_LIFT, .a = 1, .io = 0},
};

/* Cells of 4 from 12 on, of 16 from 48 on; below there is the constant. */
static void test_multiscale(void **state) {
    (void)state;
    const uvcc_function f = FUNCTION(multiscale_steps, 1, 1);
    const uint8_t in_bits[1] = {7};
    for (unsigned i = 0; i < MULTISCALE_WORDS; i++)
        multiscale_words[i] = (int64_t)i * i - 1000;
    const uvcci_fn_plan plan = compiled(&f, 3, in_bits);
    assert_int_equal(plan.rounds, 2);
    assert_false(plan.one_edge);
    assert_true(plan.instr[1].value == 'A' && !plan.instr[1].sends && plan.instr[1].key == 1);
    assert_true(plan.instr[0].dealer && !plan.instr[0].pads);
    assert_int_equal(plan.instr[1].words, 0);
    uvcc_fn_cost cost;
    assert_int_equal(uvcc_function_cost(&f, 3, &cost), 0);
    assert_true(cost.online_bytes == 32 && cost.key_bytes == 2 * (8 * 16 + 2 * 24 + 2));
    uint64_t most = 0;
    for (int64_t x = -127; x <= 127; x++)
        for (uint64_t r = 0; r < 16; r++) {
            const uint64_t *low[3] = {[1] = &r};
            const int64_t coarse = (x + (int64_t)r) >> 4,
                          fine = ((x + (int64_t)r) >> 2) - (int64_t)(r >> 2);
            int64_t y, want = 5;
            eval(&f, 1, 1, &x, NULL, &y, NULL, low);
            if (coarse >= 3 || fine >= 3) {
                const bool high = coarse >= 3;
                const int64_t s = high ? 16 : 4, index = high ? coarse : fine;
                const int64_t l =
                    (((x + (int64_t)r) & (s - 1)) - ((int64_t)r & (s - 1))) * (4096 / s);
                const int64_t *w = multiscale_words + (high ? 27 : 0) + index - 3;
                want += w[0] + l * (w[9] + l * w[18]);
                assert_int_equal(s * (4096 * index + l), 4096 * x * s / s);
            }
            assert_int_equal(y, want);
            most = (uint64_t)llabs(y) > most ? (uint64_t)llabs(y) : most;
        }
    assert_true(plan.instr[1].bound >= most);
}

static void test_low_bits(void **state) {
    (void)state;
    static const unsigned of_quads[] = {[2] = 2, [14] = 3, [15] = 0};
    for (unsigned i = 0; i < QUAD_STEPS; i++)
        assert_int_equal(uvcc_function_low_bits(&quads[i]), of_quads[i]);
    assert_int_equal(uvcc_function_low_bits(&multiscale_steps[1]), 2 + 2); /* of its second scale */
    assert_int_equal(uvcc_function_low_bits(&multiscale_steps[0]), 0);
    assert_int_equal(uvcc_function_low_bits(NULL), 0);
    assert_int_equal(
        uvcc_function_low_bits(&(uvcc_fn_instr){.kind = UVCC_FN_MULTISCALE, .first = 3}), 0);
    const uvcc_fn_instr far = {
        .kind = UVCC_FN_MULTISCALE, .first = (int64_t)1 << 32, .word_count = 27};
    assert_int_equal(uvcc_function_low_bits(&far), 0); /* 0 cells, if cut to 32 bits */
}

static void test_refused_multiscale(void **state) {
    (void)state;
    static const struct {
        uvcc_fn_instr step;
        int error;
        const char *want;
    } cases[] = {
        {{.bits = 8, .shift = 2, .first = 1, .word_count = 9},
         UVCC_ERR_PROGRAM,
         "its first cell is 1; 2 to 16 are possible"},
        {{.bits = 8, .shift = 2, .first = 17, .word_count = 153},
         UVCC_ERR_PROGRAM,
         "its first cell is 17; 2 to 16 are possible"},
        {{.bits = 8, .shift = 2, .first = 3, .word_count = 53},
         UVCC_ERR_PROGRAM,
         "53 words; it takes 27 for each of 1 to 32 scales"},
        {{.bits = 8, .shift = 2, .first = 3, .word_count = 0},
         UVCC_ERR_PROGRAM,
         "0 words; it takes 27 for each of 1 to 32 scales"},
        {{.bits = 0, .shift = 2, .first = 3, .word_count = 54},
         UVCC_ERR_PROGRAM,
         "0 bits; 1 to 63 are possible"},
        {{.bits = 2, .shift = 2, .first = 3, .word_count = 54},
         UVCC_ERR_PROGRAM,
         "2 bits are too few for 2 scales"},
        {{.bits = 60, .shift = 5, .first = 3, .word_count = 54},
         UVCC_ERR_PROGRAM,
         "operand a has 64 bits opened; 65 are needed"},
        {{.bits = 8, .shift = 2, .first = 3, .word_count = 27},
         UVCC_ERR_BOUND,
         "its operand has indices up to 33 at the last scale; 11 are possible"},
        {{.bits = 6, .shift = 2, .first = 3, .word_count = 54},
         UVCC_ERR_BOUND,
         "6 bits are too few for 2 scales"},
    };
    const uint8_t in_bits[1] = {7};
    uvcc_fn_instr steps[3];
    uvcc_function f = {"t", 1, 1, 3, steps};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char message[256] = "", want[256];
        memcpy(steps, multiscale_steps, sizeof steps);
        steps[1] = cases[i].step;
        steps[1].kind = UVCC_FN_MULTISCALE;
        steps[1].words = multiscale_words;
        snprintf(want, sizeof want, "function t, instruction 1 (MULTISCALE): %s", cases[i].want);
        const int err = uvcc_function_check(&f, 9, in_bits, NULL, message, sizeof message);
        assert_string_equal(message, want);
        assert_int_equal(err, cases[i].error);
    }
}

/* A product of 63 bits twice has no bound that 64 bits hold, so it has no index either. */
static void test_multiscale_of_anything(void **state) {
    (void)state;
    const uint8_t in_bits[1] = {63};
    const uvcc_fn_instr steps[] = {
        {.kind = UVCC_FN_OPEN, .bits = 64},
        {.kind = UVCC_FN_MUL, .a = 0, .b = 0},
        {.kind = UVCC_FN_EXCHANGE, .a = 1, .io = UVCC_FN_NONE},
        {.kind = UVCC_FN_MULTISCALE,
         .a = 2,
         .bits = 8,
         .shift = 2,
         .first = 3,
         .word_count = MULTISCALE_WORDS,
         .words = multiscale_words},
        {.kind = UVCC_FN_LIFT, .a = 3, .io = 0},
    };
    const uvcc_function f = FUNCTION(steps, 1, 1);
    char message[256] = "";
    assert_int_equal(uvcc_function_check(&f, 1, in_bits, NULL, message, sizeof message),
                     UVCC_ERR_BOUND);
    assert_string_equal(message,
                        "function t, instruction 3 (MULTISCALE): its operand has indices up to "
                        "18446744073709551615 at the last scale; 11 are possible");
}

/* ---- floors ---- */

static const uvcc_fn_instr floor_steps[] = {
    {.kind = UVCC_FN_OPEN, .bits = 64},          {.kind = UVCC_FN_FLOOR, .a = 0, .shift = 5},
    {.kind = UVCC_FN_TRUNC, .a = 0, .shift = 5}, {.kind = UVCC_FN_LIFT, .a = 1, .io = 0},
    {.kind = UVCC_FN_LIFT, .a = 2, .io = 1},
};

static void test_floor(void **state) {
    (void)state;
    const uvcc_function f = FUNCTION(floor_steps, 1, 2);
    const uint8_t in_bits[1] = {62};
    const uvcci_fn_plan plan = compiled(&f, 3, in_bits);
    assert_int_equal(plan.rounds, 2);
    assert_false(plan.one_edge);
    assert_true(plan.instr[1].value == 'A' && !plan.instr[1].sends);
    assert_int_equal(plan.instr[1].key, 1);
    assert_int_equal(plan.instr[1].words, 2);
    assert_int_equal(plan.instr[2].key, NONE); /* a TRUNC has none */
    assert_true(plan.instr[0].dealer && !plan.instr[0].pads);
    assert_true(plan.instr[1].bound == 1ull << 57);
    uvcc_fn_cost cost;
    assert_int_equal(uvcc_function_cost(&f, 3, &cost), 0);
    assert_true(cost.online_bytes == 16 + 2 * 16);
    assert_true(cost.key_bytes ==
                2 * (24 * 5 + 2 + 8) + 16 + 16); /* the key twice, words for TAIL */
    assert_int_equal(uvcc_function_low_bits(&floor_steps[1]), 0);

    uint64_t seed = 4;
    for (unsigned k = 0; k < 200; k++) { /* no low bits change it, but they do change a TRUNC */
        const int64_t ends[4] = {(1ll << 62) - 1, -(1ll << 62) + 1, -1, 0};
        const int64_t x = k < 4 ? ends[k] : (int64_t)test_rand(&seed) >> (2 + k % 60);
        const uint64_t r = test_rand(&seed) % 32, *low[5] = {[1] = &r, [2] = &r};
        int64_t y, z;
        eval(&f, 1, 1, &x, NULL, &y, &z, low);
        assert_true(y == x >> 5 && z == (x + (int64_t)r) >> 5);
    }
}

static void test_refused_floors(void **state) {
    (void)state;
    static const struct {
        unsigned bits, shift, in_bits;
        int error;
        const char *want;
    } cases[] = {
        {64, 0, 20, UVCC_ERR_PROGRAM, "a shift by 0; 1 to 62 are possible"},
        {64, 63, 20, UVCC_ERR_PROGRAM, "a shift by 63; 1 to 62 are possible"},
        {63, 5, 20, UVCC_ERR_PROGRAM, "operand a has 63 bits opened; 64 are needed"},
        {64, 5, 63, UVCC_ERR_BOUND, "its operand needs 63 bits; at most 62 are possible"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uvcc_fn_instr steps[5];
        const uvcc_function f = FUNCTION(steps, 1, 2);
        const uint8_t in_bits[1] = {(uint8_t)cases[i].in_bits};
        char message[256] = "", want[256];
        memcpy(steps, floor_steps, sizeof steps);
        steps[0].bits = (uint8_t)cases[i].bits;
        steps[1].shift = (uint8_t)cases[i].shift;
        snprintf(want, sizeof want, "function t, instruction 1 (FLOOR): %s", cases[i].want);
        assert_int_equal(uvcc_function_check(&f, 3, in_bits, NULL, message, sizeof message),
                         cases[i].error);
        assert_string_equal(message, want);
    }
}

/* ---- exact indices ---- */

/* floor(x / 32) by the rounded index and what the masks carry: a table of it, of what lies below
 * it, of their product; times an input; and [floor >= 0]. */
static const int32_t squares[] = {9, 4, 1, 0, 1, 4, 9, 16},
                     rises[] = {9, -5, -3, -1, 1, 3, 5, 7, -16};
static const int32_t halves[32] = {0, 0, 1, 1, 2, 2, 3, 3, [30] = 15, [31] = 15};
static const int64_t from_two[2] = {1, 0}, upper[2] = {1, 0}, at_zero[2] = {-1, 1};
static const uvcc_fn_instr exact_steps[] = {
    {.kind = UVCC_FN_OPEN, .bits = 64, .io = 0},
    {.kind = UVCC_FN_SHIFT, .a = 0, .shift = 5},
    {.kind = UVCC_FN_LOW, .a = 0, .bits = 5},
    {.kind = UVCC_FN_COMPARE, .a = 2, .bits = 5, .word_count = 1, .words = none_of},
    {.kind = UVCC_FN_TABLE, .a = 2, .b = NONE, .bits = 5, .entry_count = 32, .entries = halves},
    {.kind = UVCC_FN_TABLE_MUL,
     .a = 1,
     .b = NONE,
     .c = 4,
     .bits = 8,
     .first = -2,
     .entry_count = 8,
     .entries = squares},
    {.kind = UVCC_FN_TABLE_MUL,
     .a = 1,
     .b = 3,
     .c = 4,
     .bits = 8,
     .first = -3,
     .entry_count = 9,
     .entries = rises},
    {.kind = UVCC_FN_ADD, .a = 5, .b = 6},
    {.kind = UVCC_FN_COMPARE, .a = 1, .bits = 8, .word_count = 2, .words = from_two},
    {.kind = UVCC_FN_SELECT, .a = 8, .b = 0, .word_count = 2, .words = upper},
    {.kind = UVCC_FN_SELECT_MUL, .a = 8, .b = 0, .c = 3, .word_count = 2, .words = at_zero},
    {.kind = UVCC_FN_ADD, .a = 9, .b = 10},
    {.kind = UVCC_FN_LIFT, .a = 7, .io = 0},
    {.kind = UVCC_FN_LIFT, .a = 11, .io = 1},
};
enum { EXACT_STEPS = sizeof exact_steps / sizeof exact_steps[0] };

static void test_exact_index(void **state) {
    (void)state;
    const uvcc_function f = FUNCTION(exact_steps, 1, 2);
    const uint8_t in_bits[1] = {11};
    const uvcci_fn_plan plan = compiled(&f, 3, in_bits);
    assert_int_equal(plan.rounds, 3); /* OPEN, all that look up or compare, LIFT */
    assert_true(plan.instr[2].index && plan.instr[2].value == 'M' && plan.instr[2].dealer);
    assert_true(plan.instr[2].bound == 31 && plan.instr[2].mod == 64);
    assert_int_equal(plan.instr[4].key, 3); /* on LOW's key */
    assert_int_equal(plan.instr[6].key, 5);
    assert_int_equal(plan.instr[8].key, 5);
    assert_int_equal(plan.instr[5].words, 4);
    assert_int_equal(plan.instr[6].words, 8);
    assert_int_equal(plan.instr[10].words, 8);
    assert_int_equal(plan.instr[3].last, 2); /* when the round that TABLE_MUL sends in is over */
    assert_true(plan.instr[3].dealer && plan.instr[0].dealer && plan.instr[0].pads);
    assert_true(plan.instr[6].bound == 16 * 15);
    assert_int_equal(uvcc_function_low_bits(&exact_steps[2]), 5);
    uvcc_fn_cost cost;
    assert_int_equal(uvcc_function_cost(&f, 3, &cost), 0);
    assert_true(cost.online_bytes == 16 + 0.25 + 3 * 16 + 0.5 + 2 * 16);
    assert_true(cost.key_bytes == 2 * (16 + (16 + 16 + 1)) + 8.0 * (1 + 2 + 4 + 8 + 2 + 2 + 8));
    for (int64_t x = -2047; x < 2048; x++)
        for (uint64_t r = 0; r < 32; r++) { /* whatever the mask's low bits are */
            const uint64_t *low[EXACT_STEPS] = {[1] = &r, [2] = &r};
            const int64_t floor = x >> 5, at = floor + 3;
            int64_t y, z;
            eval(&f, 1, 1, &x, NULL, &y, &z, r == 0 ? NULL : low);
            assert_true(y == (at >= 0 && at < 8 ? squares[at] * (int64_t)halves[x & 31] : 0));
            assert_true(z == (x >= 0 ? x : 0));
        }
}

/* A list with one instruction of it changed. */
static void test_refused_exact_steps(void **state) {
    (void)state;
    const struct {
        unsigned step;
        uvcc_fn_instr as;
        int error;
        const char *want;
    } cases[] = {
        {2, {.kind = UVCC_FN_LOW}, UVCC_ERR_PROGRAM, "(LOW): 0 bits; 1 to 62 are possible"},
        {2,
         {.kind = UVCC_FN_LOW, .bits = 63},
         UVCC_ERR_PROGRAM,
         "(LOW): 63 bits; 1 to 62 are possible"},
        {5,
         {.kind = UVCC_FN_TABLE_MUL, .a = 1, .b = NONE, .c = NONE},
         UVCC_ERR_PROGRAM,
         "(TABLE_MUL): it has neither operand b nor c; give a TABLE"},
        {5,
         {.kind = UVCC_FN_TABLE_MUL, .a = 1, .b = NONE, .c = 3},
         UVCC_ERR_PROGRAM,
         "(TABLE_MUL): operand c is instruction 3 (COMPARE), its value is bits; it must be masked "
         "or "
         "additive"},
        {5,
         {.kind = UVCC_FN_TABLE_MUL, .a = 1, .b = NONE, .c = 5},
         UVCC_ERR_PROGRAM,
         "(TABLE_MUL): operand c is instruction 5; it must be an earlier instruction"},
        {9,
         {.kind = UVCC_FN_TABLE_MUL,
          .a = 1,
          .b = 8,
          .c = NONE,
          .bits = 8,
          .entry_count = 1,
          .entries = squares},
         UVCC_ERR_PROGRAM,
         "(TABLE_MUL): operand b has 2 bits; it must have one"},
        {8,
         {.kind = UVCC_FN_TABLE_MUL,
          .a = 1,
          .b = NONE,
          .c = 7,
          .bits = 8,
          .entry_count = 1,
          .entries = squares},
         UVCC_ERR_PROGRAM,
         "(TABLE_MUL): operand c must be a masked value or a TABLE without operand b"},
        {10,
         {.kind = UVCC_FN_SELECT_MUL, .a = 3, .b = 0, .c = 8, .word_count = 1, .words = once},
         UVCC_ERR_PROGRAM,
         "(SELECT_MUL): operand c has 2 bits; it must have one"},
        {10,
         {.kind = UVCC_FN_SELECT_MUL, .a = 8, .b = 0, .c = 7, .word_count = 2, .words = upper},
         UVCC_ERR_PROGRAM,
         "(SELECT_MUL): operand c is instruction 7 (ADD), its value is additive; it must be bits"},
        {10,
         {.kind = UVCC_FN_SELECT_MUL, .a = 8, .b = 0, .c = 3, .word_count = 1, .words = upper},
         UVCC_ERR_PROGRAM,
         "(SELECT_MUL): 1 words; it takes 2"},
        {9,
         {.kind = UVCC_FN_MUL, .a = 2, .b = 0},
         UVCC_ERR_PROGRAM,
         "(MUL): operand a is instruction 2 (LOW), which only COMPARE and tables can read"},
        {4, /* not whole: an argument could be meant by another */
         {.kind = UVCC_FN_TABLE,
          .a = 2,
          .b = NONE,
          .bits = 5,
          .entry_count = 31,
          .entries = halves},
         UVCC_ERR_BOUND,
         "(TABLE): its operand needs 6 bits, but 5 are declared"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uvcc_fn_instr steps[EXACT_STEPS];
        const uvcc_function f = FUNCTION(steps, 1, 2);
        const uint8_t in_bits[1] = {11};
        char message[256] = "", want[256];
        memcpy(steps, exact_steps, sizeof steps);
        steps[cases[i].step] = cases[i].as;
        snprintf(want, sizeof want, "function t, instruction %u %s", cases[i].step, cases[i].want);
        assert_int_equal(uvcc_function_check(&f, 3, in_bits, NULL, message, sizeof message),
                         cases[i].error);
        assert_string_equal(message, want);
    }
    /* a table that was opened in an earlier round */
    uvcc_fn_instr steps[EXACT_STEPS + 3];
    const uvcc_function f = FUNCTION(steps, 1, 2);
    char message[256] = "";
    memcpy(steps, exact_steps, sizeof exact_steps);
    steps[14] = (uvcc_fn_instr){.kind = UVCC_FN_EXCHANGE, .a = 7, .io = NONE};
    steps[15] = (uvcc_fn_instr){.kind = UVCC_FN_TABLE_MUL,
                                .a = 14,
                                .b = NONE,
                                .c = 4,
                                .bits = 20,
                                .entry_count = 8,
                                .entries = squares};
    steps[16] = (uvcc_fn_instr){.kind = UVCC_FN_ADD, .a = 15, .b = NONE};
    assert_int_equal(uvcc_function_check(&f, 3, (uint8_t[]){11}, NULL, message, sizeof message),
                     UVCC_ERR_PROGRAM);
    assert_string_equal(message,
                        "function t, instruction 15 (TABLE_MUL): operand c is opened in round 1, "
                        "this in round 3");
}

/* ---- splines ---- */

/* |x| cut at 100, less 50 above 10, in pieces of degree 1. */
static const int64_t spline_words[] = {-100, 0, 11, 100, 100, 0, 0, -1, 0, 1, -50, 1, 50, 0};
enum { SPLINE_WORDS = sizeof spline_words / sizeof spline_words[0] };
static const uvcc_fn_instr spline_steps[] = {
    {.kind = UVCC_FN_OPEN, .bits = 64},
    {.kind = UVCC_FN_SPLINE,
     .a = 0,
     .bits = 9,
     .first = 1,
     .word_count = SPLINE_WORDS,
     .words = spline_words},
    {.kind = UVCC_FN_LIFT, .a = 1, .io = 0},
};

static void test_spline(void **state) {
    (void)state;
    const uvcc_function f = FUNCTION(spline_steps, 1, 1);
    const uint8_t in_bits[1] = {8};
    uint8_t out_bits[1];
    const uvcci_fn_plan plan = compiled(&f, 3, in_bits);
    assert_int_equal(plan.rounds, 2);
    assert_false(plan.one_edge);
    assert_true(plan.instr[1].value == 'A' && !plan.instr[1].sends);
    assert_int_equal(plan.instr[1].key, 1);
    assert_int_equal(plan.instr[1].words, 2);
    assert_true(plan.instr[0].dealer && plan.instr[0].pads);
    assert_true(plan.instr[1].bound == 100); /* of each piece where it is, not of its terms */
    assert_int_equal(uvcc_function_check(&f, 3, in_bits, out_bits, NULL, 0), 0);
    assert_int_equal(out_bits[0], 7);
    uvcc_fn_cost cost;
    assert_int_equal(uvcc_function_cost(&f, 3, &cost), 0);
    assert_true(cost.online_bytes == 32);
    assert_true(cost.key_bytes == 2 * (9 * (16 + 16) + 16 + 3) + 2 * 8);
    assert_int_equal(uvcc_function_low_bits(&spline_steps[1]), 0);
    for (int64_t x = -255; x <= 255; x++) {
        const int64_t want = x < -100 || x >= 100 ? x < 0 ? 100 : 50 : x < 11 ? llabs(x) : x - 50;
        int64_t y;
        eval(&f, 1, 1, &x, NULL, &y, NULL, NULL);
        assert_int_equal(y, want);
    }
}

/* What each degree costs and needs. */
static void test_spline_degrees(void **state) {
    (void)state;
    static const uint32_t words[4] = {1, 2, 4, 6};
    for (unsigned d = 0; d <= 3; d++)
        for (unsigned k = 1; k <= 64; k += 21) {
            uvcc_fn_instr steps[3];
            const uvcc_function f = FUNCTION(steps, 1, 1);
            const uint8_t in_bits[1] = {50};
            uvcc_fn_cost cost;
            int64_t w[64 + 65 * 4] = {0};
            for (unsigned i = 0; i < k; i++)
                w[i] = i;
            memcpy(steps, spline_steps, sizeof steps);
            steps[1].bits = 51;
            steps[1].first = d;
            steps[1].words = w;
            steps[1].word_count = k + (k + 1) * (d + 1);
            const uvcci_fn_plan plan = compiled(&f, 1, in_bits);
            assert_int_equal(plan.instr[1].words, words[d]);
            assert_int_equal(plan.instr[0].pads, d != 0); /* constants do not need the mask */
            assert_int_equal(uvcc_function_cost(&f, 1, &cost), 0);
            assert_true(cost.key_bytes ==
                        2 * (51 * (16 + 8 * (d + 1)) + 8 * (d + 1) + 13) + 8 * words[d]);
        }
}

static void test_refused_splines(void **state) {
    (void)state;
    static const int64_t falling[] = {-100, 11, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const int64_t equal[] = {-100, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const int64_t steep[] = {0, 0, -(1ll << 54), 0, 1ll << 54};
    static const struct {
        uvcc_fn_instr step;
        const int64_t *words;
        uint8_t opened;
        int error;
        const char *want;
    } cases[] = {
        {{.bits = 0}, NULL, 64, UVCC_ERR_PROGRAM, "0 bits; 1 to 63 are possible"},
        {{.bits = 64}, NULL, 64, UVCC_ERR_PROGRAM, "64 bits; 1 to 63 are possible"},
        {{.first = -1}, NULL, 64, UVCC_ERR_PROGRAM, "its degree is -1; 0 to 3 are possible"},
        {{.first = 4}, NULL, 64, UVCC_ERR_PROGRAM, "its degree is 4; 0 to 3 are possible"},
        {{.word_count = 13},
         NULL,
         64,
         UVCC_ERR_PROGRAM,
         "13 words; of degree 1 it takes 2, and 3 for each of 1 to 64 knots"},
        {{.word_count = 2},
         NULL,
         64,
         UVCC_ERR_PROGRAM,
         "2 words; of degree 1 it takes 2, and 3 for each of 1 to 64 knots"},
        {{.word_count = 65 * 3 + 2},
         NULL,
         64,
         UVCC_ERR_PROGRAM,
         "197 words; of degree 1 it takes 2, and 3 for each of 1 to 64 knots"},
        {{0}, falling, 64, UVCC_ERR_PROGRAM, "knot 1 is 11, knot 2 is 0; they must rise"},
        {{0}, equal, 64, UVCC_ERR_PROGRAM, "knot 1 is 0, knot 2 is 0; they must rise"},
        {{0}, NULL, 63, UVCC_ERR_PROGRAM, "operand a has 63 bits opened; 64 are needed"},
        {{.bits = 8}, NULL, 64, UVCC_ERR_BOUND, "its operand needs 9 bits, but 8 are declared"},
    };
    const uint8_t in_bits[1] = {8};
    uvcc_fn_instr steps[3];
    const uvcc_function f = FUNCTION(steps, 1, 1);
    char message[256], want[256];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memcpy(steps, spline_steps, sizeof steps);
        steps[0].bits = cases[i].opened;
        if (cases[i].step.bits != 0 || i == 0)
            steps[1].bits = cases[i].step.bits;
        if (cases[i].step.first != 0)
            steps[1].first = cases[i].step.first;
        if (cases[i].step.word_count != 0)
            steps[1].word_count = cases[i].step.word_count;
        if (cases[i].words != NULL)
            steps[1].words = cases[i].words;
        snprintf(want, sizeof want, "function t, instruction 1 (SPLINE): %s", cases[i].want);
        const int err = uvcc_function_check(&f, 9, in_bits, NULL, message, sizeof message);
        assert_string_equal(message, want);
        assert_int_equal(err, cases[i].error);
    }
    memcpy(steps, spline_steps, sizeof steps);
    steps[1].words = NULL;
    assert_int_equal(uvcc_function_check(&f, 9, in_bits, NULL, message, sizeof message),
                     UVCC_ERR_PROGRAM);
    assert_string_equal(message, "function t, instruction 1 (SPLINE): its words are missing");
    memcpy(steps, spline_steps, sizeof steps); /* 62 bits are possible, 63 not */
    steps[1].word_count = 5;
    steps[1].words = steep;
    assert_int_equal(uvcc_function_check(&f, 9, in_bits, NULL, message, sizeof message), 0);
    steps[1].bits = 10;
    const uint8_t wide[1] = {9};
    assert_int_equal(uvcc_function_check(&f, 9, wide, NULL, message, sizeof message),
                     UVCC_ERR_BOUND);
    assert_string_equal(
        message,
        "function t, instruction 2 (LIFT): output 0 needs 63 bits; at most 62 are possible");
}

static void test_eval_misuse(void **state) {
    (void)state;
    test_alloc counts = {.fail_at = 1};
    const uvcc_allocator al = test_allocator(&counts);
    int64_t x[2] = {1, 2}, z[2], d[2];
    const int64_t *in[1] = {x};
    int64_t *out[2] = {z, d};
    uvcc_function f = relu;
    assert_int_equal(uvcc_function_eval(&f, 1, 2, in, out, NULL, &al), UVCC_ERR_NOMEM);
    assert_int_equal(uvcc_function_eval(&f, 0, 2, in, out, NULL, &al), 0);
    assert_int_equal(uvcc_function_eval(&f, 1, 0, in, out, NULL, &al), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_function_eval(&f, 1, 2, NULL, out, NULL, &al), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_function_eval(&f, 1, 2, in, NULL, NULL, &al), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_function_eval(&f, 1, 2, in, out, NULL, NULL), UVCC_ERR_USAGE);
    f.inputs = 2;
    assert_int_equal(uvcc_function_eval(&f, 1, 2, in, out, NULL, &al), UVCC_ERR_PROGRAM);
    assert_int_equal(counts.live_blocks, 0);
}

/* ---- cost ---- */

static void test_cost(void **state) {
    (void)state;
    uvcc_fn_cost cost;
    assert_int_equal(uvcc_function_cost(&relu, 9, &cost), 0);
    assert_int_equal(cost.rounds, 3);
    assert_true(cost.online_bytes == 16 + 0.25 + 32);
    assert_true(cost.key_bytes == 2 * (16 * 13 + 16 + 4) + 16); /* CW(20) twice, k and kr */

    uvcc_fn_instr steps[6 * LEVELS + 1];
    uvcc_function f = max_of_row(steps, LEVELS);
    assert_int_equal(uvcc_function_cost(&f, 128, &cost), 0);
    const double pairs = 127 / 128.0;
    assert_int_equal(cost.rounds, 15);
    assert_true(cost.online_bytes == 16 + pairs * 16.25);
    assert_true(cost.key_bytes == pairs * (2 * (16 * 33 + 16 + 9) + 16));

    static const uvcc_fn_instr tables[] = {
        {.kind = UVCC_FN_OPEN, .bits = 20},
        {.kind = UVCC_FN_TABLE, .a = 0, .b = NONE, .bits = 7, .entry_count = 4, .entries = ramp},
        {.kind = UVCC_FN_TABLE, .a = 0, .b = 1, .bits = 7, .entry_count = 4, .entries = ramp},
        {.kind = UVCC_FN_LIFT, .a = 2, .io = 0},
    };
    const uvcc_function two = FUNCTION(tables, 1, 1);
    assert_int_equal(uvcc_function_cost(&two, 1, &cost), 0);
    assert_int_equal(cost.rounds, 4);
    assert_true(cost.online_bytes == 5 + 16 + 32 + 16);
    assert_true(cost.key_bytes == 2 * 16 + 16 + 32); /* one key, two tables */
    assert_int_equal(uvcc_function_cost(&two, 1, NULL), UVCC_ERR_USAGE);
    f.outputs = 2;
    assert_int_equal(uvcc_function_cost(&f, 1, &cost), UVCC_ERR_PROGRAM);
}

/* ---- in programs ---- */

enum { X, Y, D, TENSORS };

/* Runs function 0 on X: Y and D are 2 x 3 as X. */
typedef struct run {
    uvcc_tensor_desc t[TENSORS];
    uvcc_op_desc op;
    const uvcc_function *f[2];
    unsigned functions;
} run;

static run base_run(void) {
    run r = {.op = {.opcode = UVCC_OP_FUNCTION,
                    .k = 1,
                    .in_count = 1,
                    .in = {X},
                    .out_count = 2,
                    .out = {Y, D}},
             .f = {&relu, &relu},
             .functions = 1};
    static const char *const names[TENSORS] = {"X", "Y", "D"};
    for (unsigned i = 0; i < TENSORS; i++)
        r.t[i] = (uvcc_tensor_desc){.name = names[i],
                                    .rows = 2,
                                    .cols = 3,
                                    .bits = i == D ? 1 : 20,
                                    .lifetime = UVCC_TRANSIENT,
                                    .in_buffer_of = UVCC_NO_TENSOR};
    return r;
}

static int build(uvcc_program **p, const run *r, const uvcc_allocator *al, char message[512]) {
    *p = NULL;
    int err = uvcc_program_new(p, al);
    for (unsigned i = 0; i < TENSORS && err >= 0; i++)
        err = uvcc_program_tensor(*p, &r->t[i]);
    for (unsigned i = 0; i < r->functions && err >= 0; i++)
        err = uvcc_program_function(*p, r->f[i]);
    if (err >= 0)
        err = uvcc_program_entry(*p, "run");
    if (err >= 0)
        err = uvcc_program_input(*p, 1, X, 0);
    if (err >= 0)
        err = uvcc_program_op(*p, &r->op);
    if (err >= 0)
        err = uvcc_program_output(*p, 2, Y);
    return err < 0 ? err : uvcc_program_finish(*p, message, 512);
}

static void hash_of(const run *r, uint8_t out[32]) {
    test_alloc counts = {0};
    const uvcc_allocator al = test_allocator(&counts);
    uvcc_program *p;
    char message[512];
    if (build(&p, r, &al, message) != 0)
        fail_msg("%s", message);
    uvcc_program_hash(p, out);
    uvcc_program_free(p);
    assert_int_equal(counts.live_blocks, 0);
}

static void test_program(void **state) {
    (void)state;
    test_alloc counts = {0};
    const uvcc_allocator al = test_allocator(&counts);
    uvcc_fn_instr steps[8];
    int64_t words[1] = {1};
    int32_t entries[16];
    char name[8] = "late";
    memcpy(steps, relu_steps, sizeof relu_steps);
    memcpy(entries, ramp, sizeof entries);
    steps[2].words = words;
    steps[6] = (uvcc_fn_instr){.kind = UVCC_FN_TABLE,
                               .a = 0,
                               .b = NONE,
                               .bits = 30,
                               .entry_count = 16,
                               .entries = entries};
    steps[6].constant = 9;
    steps[6].word_count = 1;
    steps[6].words = words;
    steps[7] = (uvcc_fn_instr){.kind = UVCC_FN_LIFT, .a = 6, .io = 2};
    uvcc_function f = {.name = name, .inputs = 1, .outputs = 3, .instr_count = 8, .instrs = steps};

    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    assert_int_equal(uvcc_program_function(p, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_function(NULL, &f), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_function(p, &f), 0);
    memset(steps, 0, sizeof steps); /* the program has its own copies */
    memset(words, 0, sizeof words);
    memset(entries, 0, sizeof entries);
    memset(name, 'z', 4);
    for (int i = 1; i < 256; i++)
        assert_int_equal(uvcc_program_function(p, &relu), i);
    assert_int_equal(uvcc_program_function(p, &relu), UVCC_ERR_LIMIT);
    const uvcc_function *copy = uvcc_program_function_at(p, 0);
    assert_string_equal(copy->name, "late");
    assert_int_equal(copy->instr_count, 8);
    assert_int_equal(copy->instrs[2].words[0], 1);
    assert_memory_equal(copy->instrs[6].entries, ramp, sizeof ramp);
    assert_int_equal(copy->instrs[6].io, NONE); /* not used: canonical */
    assert_int_equal(copy->instrs[6].constant, 0);
    assert_int_equal(copy->instrs[6].word_count, 0);
    assert_null(uvcc_program_function_at(p, 256));
    uvcc_program_free(p);
    assert_int_equal(counts.live_blocks, 0);
}

static void test_program_misuse(void **state) {
    (void)state;
    test_alloc counts = {0};
    const uvcc_allocator al = test_allocator(&counts);
    run r = base_run();
    uvcc_program *p;
    char message[512], long_name[65];
    assert_int_equal(build(&p, &r, &al, message), 0);
    assert_int_equal(uvcc_program_function(p, &relu), UVCC_ERR_STATE);
    uvcc_program_free(p);

    uvcc_fn_instr step = {.kind = UVCC_FN_COMPARE, .word_count = 1, .words = once};
    uvcc_function f = {.inputs = 1, .outputs = 1, .instr_count = 1, .instrs = &step};
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    assert_int_equal(uvcc_program_function(p, &f), 0);
    assert_null(uvcc_program_function_at(p, 0)->name);
    step.word_count = 65;
    assert_int_equal(uvcc_program_function(p, &f), UVCC_ERR_LIMIT);
    step = (uvcc_fn_instr){.kind = UVCC_FN_SPLINE, .word_count = 4097, .words = once};
    assert_int_equal(uvcc_program_function(p, &f), UVCC_ERR_LIMIT);
    step = (uvcc_fn_instr){.kind = UVCC_FN_SPLINE, .word_count = 5};
    assert_int_equal(uvcc_program_function(p, &f), UVCC_ERR_USAGE);
    step = (uvcc_fn_instr){.kind = UVCC_FN_BITS, .word_count = 1};
    assert_int_equal(uvcc_program_function(p, &f), UVCC_ERR_USAGE);
    step = (uvcc_fn_instr){.kind = UVCC_FN_TABLE, .entry_count = 1};
    assert_int_equal(uvcc_program_function(p, &f), UVCC_ERR_USAGE);
    step = (uvcc_fn_instr){.kind = UVCC_FN_TABLE, .entry_count = 65537, .entries = ramp};
    assert_int_equal(uvcc_program_function(p, &f), UVCC_ERR_LIMIT);
    f.instrs = NULL;
    assert_int_equal(uvcc_program_function(p, &f), UVCC_ERR_USAGE);
    f = relu;
    f.instr_count = 193;
    assert_int_equal(uvcc_program_function(p, &f), UVCC_ERR_LIMIT);
    memset(long_name, 'n', sizeof long_name);
    long_name[64] = 0;
    f = relu;
    f.name = long_name;
    assert_int_equal(uvcc_program_function(p, &f), UVCC_ERR_USAGE);
    long_name[63] = 0;
    assert_int_equal(uvcc_program_function(p, &f), 1);
    uvcc_program_free(p);
    assert_int_equal(counts.live_blocks, 0);
}

static void test_program_refused(void **state) {
    (void)state;
#define OP "op (FUNCTION, FWD k 1)"
#define OP_REFUSED(error, want, ...)                                                               \
    do {                                                                                           \
        test_alloc counts = {0};                                                                   \
        const uvcc_allocator al = test_allocator(&counts);                                         \
        uvcc_program *p;                                                                           \
        char message[512] = "";                                                                    \
        run r = base_run();                                                                        \
        __VA_ARGS__;                                                                               \
        const int err = build(&p, &r, &al, message);                                               \
        assert_string_equal(message, want);                                                        \
        assert_int_equal(err, UVCC_ERR_##error);                                                   \
        uvcc_program_free(p);                                                                      \
        assert_int_equal(counts.live_blocks, 0);                                                   \
    } while (0)
    uvcc_function f = relu;
    f.outputs = 3;
    OP_REFUSED(PROGRAM, OP " runs function 1, which does not exist", r.op.function = 1);
    OP_REFUSED(PROGRAM, OP " runs function 0, which does not exist", r.functions = 0);
    OP_REFUSED(PROGRAM, "op (RELU, FWD k 1): a function is not for this opcode",
               (r.op.opcode = UVCC_OP_RELU, r.op.function = 1, r.functions = 2));
    OP_REFUSED(PROGRAM, OP ": a shift by 1 bits is not possible here", r.op.shift = 1);
    OP_REFUSED(PROGRAM, OP ": flags 0x1 are not for this opcode", r.op.flags = 1);
    OP_REFUSED(PROGRAM, OP ": a function lifts in one round; no sequential lift here",
               r.op.lift = UVCC_LIFT_SEQUENTIAL);
    OP_REFUSED(PROGRAM, OP " has 2 inputs and 2 outputs; function t takes 1 and 2",
               r.op.in_count = 2);
    OP_REFUSED(PROGRAM, OP " has 1 inputs and 1 outputs; function t takes 1 and 2",
               r.op.out_count = 1);
    OP_REFUSED(PROGRAM, OP ": D is 3 x 3, but must be 2 x 3", r.t[D].rows = 3);
    OP_REFUSED(PROGRAM, OP ": Y is 2 x 4, but must be 2 x 3", r.t[Y].cols = 4);
    OP_REFUSED(
        BOUND,
        OP ": function t, instruction 1 (COMPARE): its operand needs 21 bits, but 20 are declared",
        r.t[X].bits = 21);
    OP_REFUSED(BOUND, OP ": Y declares 19 bits, but needs 20", r.t[Y].bits = 19);
    OP_REFUSED(PROGRAM, OP " cannot write Y in the buffer of its input X; give it one of its own",
               r.t[Y].in_buffer_of = X);
    /* what 8 MiB do not hold for a block */
    static const int64_t cubes[9] = {0};
    static const uvcc_fn_instr heavy_steps[] = {
        {.kind = UVCC_FN_OPEN, .bits = 64},
        {.kind = UVCC_FN_FLOOR, .a = 0, .shift = 5},
        {.kind = UVCC_FN_SPLINE, .a = 0, .bits = 62, .first = 3, .word_count = 9, .words = cubes},
        {.kind = UVCC_FN_LIFT, .a = 1, .io = 0},
        {.kind = UVCC_FN_LIFT, .a = 2, .io = 1},
    };
    const uvcc_function heavy = FUNCTION(heavy_steps, 1, 2);
    OP_REFUSED(PROGRAM,
               OP ": function t has 3218 B of keys for an element of width 3, most in instruction "
                  "2 (SPLINE): "
                  "more than a message holds for 2700 elements",
               (r.f[0] = &heavy, r.t[X].rows = r.t[Y].rows = r.t[D].rows = 900, r.t[Y].bits = 16));
    /* a function that no op runs is checked too */
    OP_REFUSED(PROGRAM, "function t: no instruction writes output 2",
               (r.functions = 2, r.f[1] = &f));
    static const uvcc_fn_instr two[] = {
        {.kind = UVCC_FN_OPEN, .bits = 64},
        {.kind = UVCC_FN_OPEN, .bits = 64, .io = 1},
        {.kind = UVCC_FN_INDEX, .a = 0},
        {.kind = UVCC_FN_LIFT, .a = 2, .io = 0},
    };
    const uvcc_function pair = FUNCTION(two, 2, 1);
    OP_REFUSED(
        PROGRAM, OP ": D is 2 x 4, but must be 2 x 3",
        (r.f[0] = &pair, r.op.in_count = 2, r.op.in[1] = D, r.op.out_count = 1, r.t[D].cols = 4));
}

static void test_program_hash(void **state) {
    (void)state;
    enum { MAX = 40 };
    uint8_t hash[MAX][32], same[32];
    unsigned n = 0;
    run r = base_run();
    uvcc_fn_instr s[6];
    uvcc_function f = relu;
    f.instrs = s;
    hash_of(&r, hash[n++]);
    test_hex_n("ec0059e2415ba3fbd11e6f4356240e860fe420d7c24bc235c052e1aeb0893181", same, 32);
    assert_memory_equal(hash[0], same, 32);

    r.f[0] = &f; /* a name, or what a kind does not use, does not count */
    f.name = "other";
    memcpy(s, relu_steps, sizeof s);
    s[0].a = s[3].b = s[4].b = 7;
    s[0].words = none_of;
    s[4].constant = s[2].first = 3;
    hash_of(&r, same);
    assert_memory_equal(same, hash[0], 32);

    /* programs without functions hash as they did before there were functions */
    r = base_run();
    r.functions = 0;
    r.op.opcode = UVCC_OP_RELU;
    hash_of(&r, hash[n]);
    test_hex_n("134cc1676277ddf2c8c67e4e116a2e1685b7e977c4c758a757e780bbce02d380", same, 32);
    assert_memory_equal(hash[n++], same, 32);

#define DIFFERS(...)                                                                               \
    do {                                                                                           \
        r = base_run();                                                                            \
        f = relu;                                                                                  \
        f.instrs = s;                                                                              \
        memcpy(s, relu_steps, sizeof s);                                                           \
        r.f[0] = &f;                                                                               \
        __VA_ARGS__;                                                                               \
        assert_true(n < MAX);                                                                      \
        hash_of(&r, hash[n++]);                                                                    \
    } while (0)
    DIFFERS(r.functions = 2);
    DIFFERS((r.functions = 2, r.op.function = 1));
    DIFFERS((r.functions = 1, r.op.opcode = UVCC_OP_RELU));
    DIFFERS(s[1].bits = 21);
    DIFFERS((s[1].bits = 21, s[1].words = once));
    DIFFERS((s[4].io = 1, s[5].io = 0, r.t[D].bits = 20));
    DIFFERS((s[5].a = 2, r.t[D].bits = 20));
    DIFFERS(
        s[3] =
            (uvcc_fn_instr){.kind = UVCC_FN_SELECT, .a = 1, .b = 0, .word_count = 1, .words = once};
        r.t[D].bits = 20);
#define TABLE(...)                                                                                 \
    (r.t[D].bits = 40,                                                                             \
     s[3] = (uvcc_fn_instr){.kind = UVCC_FN_TABLE, .a = 0, .bits = 30, .b = NONE, __VA_ARGS__})
    DIFFERS(TABLE(.entry_count = 4, .entries = ramp));
    DIFFERS(TABLE(.entry_count = 5, .entries = ramp));
    DIFFERS(TABLE(.entry_count = 4, .entries = ramp, .first = 1));
    DIFFERS(TABLE(.entry_count = 4, .entries = ramp, .first = -1));
    DIFFERS(TABLE(.entry_count = 4, .entries = ramp + 1));
    for (unsigned c = 0; c < 2; c++) {
        DIFFERS(TABLE(.entry_count = 4, .entries = ramp), s[3].kind = UVCC_FN_TABLE_MUL, s[3].b = 1,
                s[3].c = c == 0 ? 0 : NONE);
    }
    for (int64_t c = 0; c < 2; c++)
        DIFFERS(s[3] = (uvcc_fn_instr){.kind = UVCC_FN_ADD, .a = 2, .b = NONE, .constant = c},
                r.t[D].bits = 21);
    DIFFERS(s[3] = (uvcc_fn_instr){.kind = UVCC_FN_ADD, .a = 2, .b = 0}, r.t[D].bits = 21);
    for (uint8_t shift = 1; shift <= 2; shift++)
        DIFFERS(s[3] = (uvcc_fn_instr){.kind = UVCC_FN_FLOOR, .a = 0, .shift = shift},
                r.t[D].bits = 20);
    static const int64_t pieces[3][5] = {{1, 2, 3, 4, 5}, {1, 2, 3, 4, 6}, {0, 2, 3, 4, 5}};
#define SPLINE(degree, of)                                                                         \
    DIFFERS(s[3] = (uvcc_fn_instr){.kind = UVCC_FN_SPLINE,                                         \
                                   .a = 0,                                                         \
                                   .bits = 21,                                                     \
                                   .first = (degree),                                              \
                                   .word_count = 5,                                                \
                                   .words = (of)},                                                 \
            r.t[D].bits = 40)
    SPLINE(0, pieces[0]);
    SPLINE(1, pieces[0]);
    SPLINE(1, pieces[1]);
    SPLINE(1, pieces[2]);
    for (unsigned i = 0; i < n; i++)
        for (unsigned j = 0; j < i; j++)
            if (memcmp(hash[i], hash[j], 32) == 0)
                fail_msg("hashes %u and %u are equal", i, j);
}

static void test_program_runs(void **state) {
    (void)state;
    test_alloc counts = {0};
    const uvcc_allocator al = test_allocator(&counts);
    static const int64_t x[6] = {-7, 0, 1, -1, 123456, -99};
    static const int64_t y[6] = {0, 0, 1, 0, 123456, 0}, d[6] = {0, 1, 1, 0, 1, 0};
    run r = base_run();
    uvcc_program *p;
    uvcc_reference *ref;
    char message[512];
    assert_int_equal(build(&p, &r, &al, message), 0);
    assert_int_equal(uvcc_reference_new(&ref, p, &al), 0);
    assert_int_equal(uvcc_reference_set(ref, X, x), 0);
    counts.fail_at = 1; /* before any op */
    assert_int_equal(uvcc_reference_step(ref, 0, message, sizeof message), UVCC_ERR_NOMEM);
    assert_string_equal(message, "out of memory");
    counts.fail_at = 2;
    assert_int_equal(uvcc_reference_step(ref, 0, message, sizeof message), UVCC_ERR_NOMEM);
    assert_string_equal(message, OP ": out of memory");
    assert_int_equal(uvcc_reference_step(ref, 0, message, sizeof message), 0);
    assert_memory_equal(uvcc_reference_get(ref, Y), y, sizeof y);
    assert_memory_equal(uvcc_reference_get(ref, D), d, sizeof d);
    uvcc_reference_free(ref);
    uvcc_program_free(p);
    assert_int_equal(counts.live_blocks, 0);
}

static void test_program_no_memory(void **state) {
    (void)state;
    const run r = base_run();
    char message[512];
    for (size_t i = 1;; i++) {
        test_alloc counts = {.fail_at = i};
        const uvcc_allocator al = test_allocator(&counts);
        uvcc_program *p;
        const int err = build(&p, &r, &al, message);
        uvcc_program_free(p);
        assert_int_equal(counts.live_blocks, 0);
        if (err == 0)
            break;
        assert_int_equal(err, UVCC_ERR_NOMEM);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_relu_plan),
        cmocka_unit_test(test_max_plan),
        cmocka_unit_test(test_two_pairs),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_refused_heads),
        cmocka_unit_test(test_refused_operands),
        cmocka_unit_test(test_refused_masked),
        cmocka_unit_test(test_refused_compare),
        cmocka_unit_test(test_refused_tables),
        cmocka_unit_test(test_refused_outputs),
        cmocka_unit_test(test_declared_bits),
        cmocka_unit_test(test_eval_relu),
        cmocka_unit_test(test_eval_max),
        cmocka_unit_test(test_eval_bits),
        cmocka_unit_test(test_eval_table),
        cmocka_unit_test(test_eval_shift),
        cmocka_unit_test(test_eval_pairs),
        cmocka_unit_test(test_quads_plan),
        cmocka_unit_test(test_eval_quads),
        cmocka_unit_test(test_refused_quads),
        cmocka_unit_test(test_multiscale),
        cmocka_unit_test(test_low_bits),
        cmocka_unit_test(test_refused_multiscale),
        cmocka_unit_test(test_multiscale_of_anything),
        cmocka_unit_test(test_floor),
        cmocka_unit_test(test_refused_floors),
        cmocka_unit_test(test_spline),
        cmocka_unit_test(test_exact_index),
        cmocka_unit_test(test_refused_exact_steps),
        cmocka_unit_test(test_spline_degrees),
        cmocka_unit_test(test_refused_splines),
        cmocka_unit_test(test_eval_misuse),
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_program),
        cmocka_unit_test(test_program_misuse),
        cmocka_unit_test(test_program_refused),
        cmocka_unit_test(test_program_hash),
        cmocka_unit_test(test_program_runs),
        cmocka_unit_test(test_program_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
