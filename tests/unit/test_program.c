/* SPDX-License-Identifier: Apache-2.0 */
/* test_program.c - building programs, what is refused, hashes, order. */
#include "support.h"

#include <uvcc/program.h>

#include "exec/program/plan.h"
#include "exec/program/plan_make.h"
#include "exec/program/program.h"

static uvcc_program *new_program(test_alloc *counts) {
    const uvcc_allocator al = test_allocator(counts);
    uvcc_program *p = NULL;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    return p;
}

/* ---- a small program to vary ---- */

enum { A, B, C, D, E, M, TENSORS }; /* tensors */

typedef struct small {
    uvcc_tensor_desc t[TENSORS];
    uvcc_op_desc op[5];
    uint32_t ops, inputs, outputs;
    struct {
        uint32_t id, tensor;
        uint8_t owner;
    } in[3], out[2];
    const char *entry, *second; /* second: an entry with the same ops, or NULL */
    bool second_differs;
} small;

static uvcc_tensor_desc matrix(const char *name, uint32_t rows, uint32_t cols, uint8_t bits,
                               uint8_t scale, uint8_t lifetime) {
    return (uvcc_tensor_desc){name,  rows,     cols,           bits,
                              scale, lifetime, UVCC_NO_TENSOR, UVCC_REPLICATED};
}

/* C = A B >> 8; C += bias M (in place); D, E = relu C; M = M - M. */
static small base(void) {
    return (small){
        .t = {matrix("A", 4, 3, 20, 8, UVCC_TRANSIENT), matrix("B", 3, 5, 20, 8, UVCC_TRANSIENT),
              matrix("C", 4, 5, 20, 8, UVCC_TRANSIENT), matrix("D", 4, 5, 20, 8, UVCC_TRANSIENT),
              matrix("E", 4, 5, 1, 0, UVCC_TRANSIENT), matrix("M", 1, 5, 20, 8, UVCC_PERSIST)},
        .op = {{.name = "product",
                .opcode = UVCC_OP_GEMM_SS,
                .k = 0,
                .in_count = 2,
                .in = {A, B},
                .out_count = 1,
                .out = {C},
                .shift = 8},
               {.name = "bias",
                .opcode = UVCC_OP_BIAS_ADD,
                .k = 1,
                .in_count = 2,
                .in = {C, M},
                .out_count = 1,
                .out = {C}},
               {.name = "relu",
                .opcode = UVCC_OP_RELU,
                .k = 2,
                .in_count = 1,
                .in = {C},
                .out_count = 2,
                .out = {D, E}},
               {.name = "update",
                .opcode = UVCC_OP_SUB,
                .phase = UVCC_UPD,
                .k = 0,
                .in_count = 2,
                .in = {M, M},
                .out_count = 1,
                .out = {M}},
               {.opcode = UVCC_OP_REDUCE_BIAS_GRAD,
                .phase = UVCC_UPD,
                .k = 253 << 8,
                .in_count = 1,
                .in = {D},
                .out_count = 1,
                .out = {M}}},
        .ops = 5,
        .inputs = 2,
        .in = {{7, A, 0}, {8, B, 1}},
        .outputs = 1,
        .out = {{9, D, 0}},
        .entry = "go",
    };
}

static int build_small(uvcc_program *p, const small *s, char *message, size_t cap) {
    int err = 0;
    for (uint32_t i = 0; i < TENSORS && err >= 0; i++)
        err = uvcc_program_tensor(p, &s->t[i]);
    for (uint32_t e = 0; e < (s->second ? 2 : 1) && err >= 0; e++) {
        err = uvcc_program_entry(p, e == 0 ? s->entry : s->second);
        for (uint32_t i = 0; i < s->inputs && err >= 0; i++)
            err = uvcc_program_input(p, s->in[i].id + (e && s->second_differs), s->in[i].tensor,
                                     s->in[i].owner);
        for (uint32_t i = 0; i < s->ops && err >= 0; i++)
            err = uvcc_program_op(p, &s->op[i]);
        for (uint32_t i = 0; i < s->outputs && err >= 0; i++)
            err = uvcc_program_output(p, s->out[i].id, s->out[i].tensor);
    }
    return err < 0 ? err : uvcc_program_finish(p, message, cap);
}

static void test_small(void **state) {
    (void)state;
    test_alloc counts = {0};
    uvcc_program *p = new_program(&counts);
    small s = base();
    s.second = "again";
    s.second_differs = true;
    char message[256] = "x";
    assert_int_equal(uvcc_program_op_count(p, 0), 0);
    assert_int_equal(build_small(p, &s, message, sizeof message), 0);
    assert_string_equal(message, "");
    assert_int_equal(uvcc_program_tensor_count(p), TENSORS);
    assert_string_equal(uvcc_program_tensor_at(p, B)->name, "B");
    assert_null(uvcc_program_tensor_at(p, TENSORS));
    assert_int_equal(uvcc_program_find(p, "E"), E);
    assert_int_equal(uvcc_program_find(p, "none"), UVCC_ERR_NOT_FOUND);
    assert_int_equal(uvcc_program_entry_count(p), 2);
    assert_int_equal(uvcc_program_find_entry(p, "again"), 1);
    assert_int_equal(uvcc_program_find_entry(p, "never"), UVCC_ERR_NOT_FOUND);
    assert_string_equal(uvcc_program_entry_name(p, 0), "go");
    assert_null(uvcc_program_entry_name(p, 2));
    assert_int_equal(uvcc_program_input_count(p, 1), 2);
    assert_int_equal(uvcc_program_input_at(p, 1, 0)->id, 8);
    assert_null(uvcc_program_input_at(p, 1, 2));
    assert_int_equal(uvcc_program_output_count(p, 0), 1);
    assert_int_equal(uvcc_program_output_at(p, 0, 0)->tensor, D);
    assert_null(uvcc_program_output_at(p, 2, 0));
    assert_string_equal(uvcc_opcode_name(UVCC_OP_RELU), "RELU");
    assert_string_equal(uvcc_opcode_name(999), "UNKNOWN");

    /* program order: inputs, ops, outputs; ordinals: inputs after the FWD ops, the output after
     * the UPD ops, those of block 253 too */
    static const uint16_t codes[] = {
        UVCC_OP_INPUT, UVCC_OP_INPUT, UVCC_OP_GEMM_SS,          UVCC_OP_BIAS_ADD,
        UVCC_OP_RELU,  UVCC_OP_SUB,   UVCC_OP_REDUCE_BIAS_GRAD, UVCC_OP_OUTPUT};
    static const uint32_t ordinals[] = {3, 4, 0, 1, 2, 5, 6, 7};
    assert_int_equal(uvcc_program_op_count(p, 0), 8);
    for (uint32_t i = 0; i < 8; i++) {
        const uvcci_op *op = &p->entries[0].ops[i];
        assert_int_equal(uvcc_program_op_at(p, 0, i)->opcode, codes[i]);
        assert_int_equal(op->ordinal, ordinals[i]);
        assert_int_equal(p->entries[0].by_ordinal[op->ordinal], i);
    }
    assert_null(uvcc_program_op_at(p, 0, 8));
    const uvcci_op *ops = p->entries[0].ops;
    assert_int_equal(ops[1].desc.k, 254 << 8 | 1);
    assert_int_equal(ops[1].io, 1);
    assert_int_equal(ops[2].pred_count, 2);
    assert_string_equal(ops[2].desc.name, "product");
    assert_null(ops[6].desc.name);
    /* M: version 0 is read by the bias and by its own update, then overwritten twice */
    assert_int_equal(ops[3].in_version[1], 0);
    assert_int_equal(ops[5].in_version[0], 0);
    assert_int_equal(ops[5].out_version[0], 1);
    assert_int_equal(ops[5].pred_count, 1); /* the bias has to have read M */
    assert_int_equal(ops[6].out_version[0], 2);
    assert_int_equal(ops[6].pred_count, 2); /* D, and the older M */
    assert_int_equal(p->entries[0].uses[M], 3);
    assert_int_equal(p->entries[0].uses[C], 3);

    assert_int_equal(uvcc_program_finish(p, message, sizeof message), UVCC_ERR_STATE);
    assert_int_equal(uvcc_program_tensor(p, &s.t[0]), UVCC_ERR_STATE);
    assert_int_equal(uvcc_program_entry(p, "late"), UVCC_ERR_STATE);
    assert_int_equal(uvcc_program_op(p, &s.op[0]), UVCC_ERR_STATE);
    assert_int_equal(uvcc_program_input(p, 1, A, 0), UVCC_ERR_STATE);
    assert_int_equal(uvcc_program_output(p, 1, A), UVCC_ERR_STATE);
    uvcc_program_free(p);
    assert_int_equal(counts.live_blocks, 0);
}

static void hash_of(const small *s, uint8_t out[32]) {
    test_alloc counts = {0};
    uvcc_program *p = new_program(&counts);
    char message[256];
    if (build_small(p, s, message, sizeof message) != 0)
        fail_msg("%s", message);
    uvcc_program_hash(p, out);
    uvcc_program_free(p);
}

/* ---- errors ---- */

static void refused(const small *s, int error, const char *part) {
    test_alloc counts = {0};
    uvcc_program *p = new_program(&counts);
    char message[256] = "";
    const int err = build_small(p, s, message, sizeof message);
    if (err != error || strstr(message, part) == NULL)
        fail_msg("%d '%s', not %d '%s'", err, message, error, part);
    assert_int_equal(uvcc_program_op_count(p, 0), 0);
    /* the line is cut to fit, and may be left away */
    char tight[8];
    memset(tight, 'x', sizeof tight);
    assert_int_equal(uvcc_program_finish(p, tight, 5), error);
    assert_memory_equal(tight, message, 4);
    assert_memory_equal(tight + 4, "\0xxx", 4);
    assert_int_equal(uvcc_program_finish(p, NULL, 0), error);
    uvcc_program_free(p);
    assert_int_equal(counts.live_blocks, 0);
}

#define REFUSED(error, part, ...)                                                                  \
    do {                                                                                           \
        small s = base();                                                                          \
        __VA_ARGS__;                                                                               \
        refused(&s, error, part);                                                                  \
    } while (0)
#define WRONG(part, ...) REFUSED(UVCC_ERR_PROGRAM, part, __VA_ARGS__)
#define BOUND(part, ...) REFUSED(UVCC_ERR_BOUND, part, __VA_ARGS__)

static void test_bad_tensors(void **state) {
    (void)state;
    WRONG("two tensors are called A", s.t[D].name = "A");
    WRONG("tensor A is 0 x 3", s.t[A].rows = 0);
    WRONG("2^40 elements", s.t[A].rows = s.t[A].cols = 1u << 31);
    WRONG("tensor B declares 0 bits", s.t[B].bits = 0);
    WRONG("tensor B declares 64 bits", s.t[B].bits = 64);
    WRONG("tensor C has scale 63", s.t[C].scale = 63);
    WRONG("unknown lifetime 2", s.t[C].lifetime = 2);
    WRONG("tensor B lies in the buffer of tensor 1", s.t[B].in_buffer_of = B);
    WRONG("tensor B lies in the buffer of tensor 99", s.t[B].in_buffer_of = 99);
    WRONG("tensor M shares a buffer with E", s.t[M].in_buffer_of = E);
    WRONG("tensor D (4 x 5) is larger than the buffer of A", s.t[D].in_buffer_of = A);
}

static void test_bad_ops(void **state) {
    (void)state;
    WRONG("opcode 77 is unknown", s.op[0].opcode = 77);
    WRONG("use uvcc_program_input", s.op[0].opcode = UVCC_OP_INPUT);
    WRONG("op relu (RELU, FWD k 2) has 1 inputs and 1 outputs; it takes 1 and 2",
          s.op[2].out_count = 1);
    WRONG("unknown phase 3", s.op[4].phase = 3);
    WRONG("block 254", s.op[4].k = 254 << 8);
    WRONG("op relu (RELU, FWD k 1) does not come after op bias (BIAS_ADD, FWD k 1)", s.op[2].k = 1);
    WRONG("op update (SUB, FWD k 0) does not come after", s.op[3].phase = UVCC_FWD);
    WRONG("does not come after", s.op[0].phase = UVCC_BWD);
    WRONG("op product (GEMM_SS, FWD k 0) reads tensor 99", s.op[0].in[1] = 99);
    WRONG("writes tensor 6, which does not exist", s.op[0].out[0] = TENSORS);
    WRONG("flags 0x4", s.op[0].flags = 4);
    WRONG("flags 0x1 are not for this opcode", s.op[1].flags = 1);
    WRONG("flags 0x4 are not for this opcode", s.op[1].flags = UVCC_OP_CIRCUIT);
    WRONG("flags 0x1 are not for this opcode", s.op[2].flags = UVCC_OP_TRANS_A);
    WRONG("flags 0x8 are not for this opcode", s.op[2].flags = 8);
    WRONG("shift by 1 bits", s.op[2].shift = 1);
    WRONG("shift by 63 bits", s.op[0].shift = 63);
    WRONG("unknown truncation 3", s.op[0].truncation = 3);
    WRONG("op bias (BIAS_ADD, FWD k 1) truncates nothing",
          s.op[1].truncation = UVCC_TRUNC_EXACT_DCF);
    WRONG("op relu (RELU, FWD k 2) truncates nothing", s.op[2].truncation = UVCC_TRUNC_EXACT_DCF);
    WRONG("op product (GEMM_SS, FWD k 0) truncates nothing",
          (s.op[0].truncation = UVCC_TRUNC_EXACT_DCF, s.op[0].shift = 0));
    WRONG("unknown lift 3", s.op[0].lift = 3);
    WRONG("op product (GEMM_SS, FWD k 0): op(A) has 4 columns", s.op[0].flags = UVCC_OP_TRANS_A);
    WRONG("op(B) 5 rows", s.op[0].flags = UVCC_OP_TRANS_B);
    WRONG("op(A) has 3 columns and op(B) 2 rows", s.t[B].rows = 2);
    WRONG("op product (GEMM_SS, FWD k 0): C is 5 x 4, but must be 4 x 5",
          (s.t[C].rows = 5, s.t[C].cols = 4));
    WRONG("op product (GEMM_SS, FWD k 0): C has scale 8, but must have 9", s.op[0].shift = 7);
    WRONG("C has scale 8, but must have -1", (s.op[0].shift = 9, s.t[A].scale = 0));
    BOUND("op product (GEMM_SS, FWD k 0): bits(A) + bits(B) + log2(K) needs 63 bits",
          s.t[A].bits = 41);
    WRONG("op bias (BIAS_ADD, FWD k 1): M is 3 x 5, but must have 5 columns and rows that divide 4",
          s.t[M].rows = 3);
    WRONG("op bias (BIAS_ADD, FWD k 1): M has scale 7, but must have 8", s.t[M].scale = 7);
    WRONG("op relu (RELU, FWD k 2): D is 4 x 6", s.t[D].cols = 6);
    WRONG("op relu (RELU, FWD k 2): E has scale 8, but must have 0", s.t[E].scale = 8);
    WRONG("E holds 0 or 1", s.t[E].bits = 2);
    BOUND("op relu (RELU, FWD k 2): the comparison needs 63 bits",
          (s.t[C].bits = 63, s.op[1] = s.op[2], s.ops = 2));
    BOUND("op bias (BIAS_ADD, FWD k 1): the wider input needs 63 bits", s.t[M].bits = 63);
    BOUND("bits + log2(rows) needs 63 bits", s.t[D].bits = 61);
    WRONG("M is 1 x 5, but must have 4 columns and rows that divide 3",
          (s.op[4].in[0] = A, s.t[A].rows = 3, s.t[A].cols = 4, s.op[0].flags = UVCC_OP_TRANS_A));
}

static uvcc_op_desc shift_op(uvcc_opcode code, uint8_t shift) {
    return (uvcc_op_desc){.name = "shift",
                          .opcode = (uint16_t)code,
                          .in_count = 1,
                          .in = {C},
                          .out_count = 1,
                          .out = {D},
                          .k = 2,
                          .shift = shift};
}

static void test_bad_elements(void **state) {
    (void)state;
    WRONG("a truncation by 0 bits", s.op[2] = shift_op(UVCC_OP_TRUNCATE, 0));
    WRONG("D has scale 8, but must have 5", s.op[2] = shift_op(UVCC_OP_TRUNCATE, 3));
    WRONG("D has scale 8, but must have 11", s.op[2] = shift_op(UVCC_OP_SHIFT_LEFT, 3));
    WRONG("D is 4 x 6", (s.op[2] = shift_op(UVCC_OP_SHIFT_LEFT, 0), s.t[D].cols = 6));
    BOUND("the truncation needs 63 bits",
          (s.op[1] = shift_op(UVCC_OP_TRUNCATE, 3), s.t[D].scale = 5, s.t[C].bits = 63));
    BOUND("bits + shift needs 63 bits",
          (s.op[1] = shift_op(UVCC_OP_SHIFT_LEFT, 43), s.t[D].scale = 51));
    const uvcc_op_desc mul = {.name = "mul",
                              .opcode = UVCC_OP_ELEM_MUL,
                              .in_count = 2,
                              .in = {C, C},
                              .out_count = 1,
                              .out = {D},
                              .k = 2,
                              .shift = 8};
    WRONG("op mul (ELEM_MUL, FWD k 2): E has scale 0, but must have 8",
          (s.op[2] = mul, s.op[2].out[0] = E));
    WRONG("D is 4 x 6", (s.op[2] = mul, s.t[D].cols = 6));
    WRONG("A is 4 x 3, but must be 4 x 5", (s.op[2] = mul, s.op[2].in[1] = A));
    BOUND("bits(A) + bits(B) needs 64 bits", (s.op[1] = mul, s.op[1].k = 1, s.t[C].bits = 32));
    /* a SUB with a shift: the second input's scale is lower by it */
    WRONG("C has scale 8, but must have 5",
          (s.op[2] = mul, s.op[2].opcode = UVCC_OP_SUB, s.op[2].shift = 3));
}

/* The base's product and bias, then D = op(C, E) with a column E. */
static small row_base(uvcc_opcode code, uint8_t in_count) {
    small s = base();
    s.t[E] = matrix("E", 4, 1, 20, 8, UVCC_TRANSIENT);
    s.inputs = s.ops = 3;
    s.in[2].id = 1;
    s.in[2].tensor = E;
    s.op[2] = (uvcc_op_desc){.name = "rows",
                             .opcode = (uint16_t)code,
                             .k = 2,
                             .in_count = in_count,
                             .in = {C, E},
                             .out_count = 1,
                             .out = {D}};
    return s;
}

/* z[i] = 3 sum_j C[i][j]^2 >> 8. */
static small dot_base(void) {
    small s = row_base(UVCC_OP_ROW_DOT, 2);
    s.op[2].in[1] = C;
    s.op[2].constant = 3;
    s.op[2].shift = 8;
    s.t[D].cols = 1;
    return s;
}

static small constant_base(uvcc_opcode code, int64_t constant) {
    small s = row_base(code, 1);
    s.op[2].constant = constant;
    return s;
}

/* On a C of 4 x 2: two blocks. */
static small mask_base(void) {
    small s = constant_base(UVCC_OP_CAUSAL_MASK, -(1 << 19));
    s.t[B].cols = s.t[C].cols = s.t[D].cols = s.t[M].cols = 2;
    return s;
}

static void test_bad_rows(void **state) {
    (void)state;
    WRONG("op rows (ROW_SUM, FWD k 2): D is 3 x 1, but must be 4 x 1",
          (s = row_base(UVCC_OP_ROW_SUM, 1), s.t[D].rows = 3, s.t[D].cols = 1));
    WRONG("D has scale 9, but must have 8",
          (s = row_base(UVCC_OP_ROW_SUM, 1), s.t[D].cols = 1, s.t[D].scale = 9));
    WRONG("op rows (ROW_SUM, FWD k 2): D is 4 x 2, but must be 4 x 1", /* blocks of 2 1/2 */
          (s = row_base(UVCC_OP_ROW_SUM, 1), s.t[D].cols = 2));
    BOUND("op rows (ROW_SUM, FWD k 2): bits + log2(cols) needs 63 bits",
          (s = row_base(UVCC_OP_ROW_SUM, 1), s.t[D].cols = 1, s.t[C].bits = 60));
    static const uvcc_opcode column[] = {UVCC_OP_ROW_ADD, UVCC_OP_ROW_SUB, UVCC_OP_ROW_RSUB,
                                         UVCC_OP_ROW_MUL};
    for (size_t i = 0; i < sizeof column / sizeof column[0]; i++) {
        WRONG("): M is 1 x 5, but must be 4 x 1", (s = row_base(column[i], 2), s.op[2].in[1] = M));
        WRONG("): D is 4 x 6", (s = row_base(column[i], 2), s.t[D].cols = 6));
        WRONG("): a constant is not for this opcode",
              (s = row_base(column[i], 2), s.op[2].constant = 1));
    }
    WRONG("op rows (ROW_ADD, FWD k 2): E has scale 7, but must have 8",
          (s = row_base(UVCC_OP_ROW_ADD, 2), s.t[E].scale = 7));
    WRONG("shift by 1 bits", (s = row_base(UVCC_OP_ROW_RSUB, 2), s.op[2].shift = 1));
    BOUND("op rows (ROW_RSUB, FWD k 2): the wider input needs 63 bits",
          (s = row_base(UVCC_OP_ROW_RSUB, 2), s.t[E].bits = 63));
    WRONG("op rows (ROW_MUL, FWD k 2): D has scale 8, but must have 10",
          (s = row_base(UVCC_OP_ROW_MUL, 2), s.op[2].shift = 6));
    BOUND("op rows (ROW_MUL, FWD k 2): bits(A) + bits(B) needs 63 bits",
          (s = row_base(UVCC_OP_ROW_MUL, 2), s.op[2].shift = 8, s.t[E].bits = 43));
    small within = row_base(UVCC_OP_ROW_MUL, 2); /* more bits than the products have */
    uint8_t hash[2][32];
    within.op[2].shift = 8;
    within.t[E].bits = 43;
    within.op[2].flags = UVCC_OP_WITHIN;
    within.op[2].constant = 62;
    hash_of(&within, hash[0]); /* fails if it is refused */
    within.op[2].constant = 61;
    hash_of(&within, hash[1]);
    assert_memory_not_equal(hash[0], hash[1], 32);
    WRONG("op rows (ROW_MUL, FWD k 2): products within 63 bits, shifted by 8; 1 to 62",
          (s = within, s.op[2].constant = 63));
    WRONG("products within 0 bits, shifted by 8", (s = within, s.op[2].constant = 0));
    WRONG("products within 61 bits, shifted by 0; 1 to 62 and a shift are possible",
          (s = within, s.op[2].shift = 0, s.t[D].scale = 16));
    WRONG("flags 0x80 are not for this opcode",
          (s = row_base(UVCC_OP_ROW_ADD, 2), s.op[2].flags = UVCC_OP_WITHIN));
    WRONG("op rows (COL_MUL, FWD k 2): E is 4 x 1, but must be 1 x 5",
          s = row_base(UVCC_OP_COL_MUL, 2));
    BOUND(
        "op rows (COL_MUL, FWD k 2): bits(A) + bits(B) needs 63 bits",
        (s = row_base(UVCC_OP_COL_MUL, 2), s.op[2].shift = 8, s.op[2].in[1] = M, s.t[M].bits = 43));
    WRONG("op rows (ROW_DOT, FWD k 2): E is 4 x 1, but must be 4 x 5",
          (s = dot_base(), s.op[2].in[1] = E));
    WRONG("op rows (ROW_DOT, FWD k 2): D is 4 x 5, but must be 4 x 1",
          (s = dot_base(), s.t[D].cols = 5));
    WRONG("(ROW_DOT, FWD k 2): its constant is 0", (s = dot_base(), s.op[2].constant = 0));
    WRONG("D has scale 8, which leaves -1 fraction bits for the constant",
          (s = dot_base(), s.op[2].shift = 7));
    WRONG("D has scale 62, which leaves 63 fraction bits for the constant",
          (s = dot_base(), s.op[2].shift = 17, s.t[D].scale = 62));
    /* 2 * 20 bits, 3 of 5 columns, and 2^19 < c <= 2^20 */
    BOUND("bits(A) + bits(B) + log2(cols) + log2(constant) needs 63 bits",
          (s = dot_base(), s.op[2].constant = -(1 << 20)));
}

/* C, additive, = A B, += A B, both in one buffer; D = C >> 8. */
static small part_base(void) {
    small s = base();
    s.t[C].sharing = UVCC_ADDITIVE;
    s.t[C].bits = 43; /* 3 2^40, twice */
    s.t[C].scale = 16;
    s.op[0].opcode = s.op[1].opcode = UVCC_OP_GEMM_PART;
    s.op[0].shift = 0;
    s.op[1].name = "add";
    s.op[1].in_count = 3;
    s.op[1].in[0] = A;
    s.op[1].in[1] = B;
    s.op[1].in[2] = C;
    s.op[2] = (uvcc_op_desc){.name = "end",
                             .opcode = UVCC_OP_TRUNCATE,
                             .k = 2,
                             .in_count = 1,
                             .in = {C},
                             .out_count = 1,
                             .out = {D},
                             .shift = 8};
    s.ops = 3;
    return s;
}

static small reshare_base(void) {
    small s = part_base();
    s.op[2].opcode = UVCC_OP_RESHARE;
    s.op[2].shift = 0;
    s.t[D].scale = 16;
    return s;
}

static void test_bad_parts(void **state) {
    (void)state;
    uint8_t hash[32];
    small good = part_base();
    hash_of(&good, hash);
    good = reshare_base();
    hash_of(&good, hash);
    WRONG("tensor C has the unknown sharing 4", s.t[C].sharing = 4);
    WRONG("tensor C is additive and PERSIST", (s = part_base(), s.t[C].lifetime = UVCC_PERSIST));
    WRONG("tensor D shares a buffer with C, but one is replicated and the other additive",
          (s = part_base(), s.t[D].in_buffer_of = C));
    WRONG("op product (GEMM_PART, FWD k 0) has 1 inputs; it takes 2 or 3",
          (s = part_base(), s.op[0].in_count = 1));
    WRONG("op add (GEMM_PART, FWD k 1) has 4 inputs",
          (s = part_base(), s.op[1].in_count = 4, s.op[1].in[3] = A));
    WRONG("op product (GEMM_PART, FWD k 0) writes C, which must be additive",
          (s = part_base(), s.t[C].sharing = UVCC_REPLICATED));
    WRONG("op product (GEMM_SS, FWD k 0) writes C, which must be replicated",
          s.t[C].sharing = UVCC_ADDITIVE);
    WRONG("op add (GEMM_PART, FWD k 1) reads D as additive, but it is replicated",
          (s = part_base(), s.op[1].in[2] = D));
    WRONG("op add (GEMM_PART, FWD k 1) cannot read C, which is additive",
          (s = part_base(), s.op[1].in[0] = C));
    WRONG("op end (SHIFT_LEFT, FWD k 2) cannot read C, which is additive; RESHARE or TRUNCATE it",
          (s = part_base(), s.op[2].opcode = UVCC_OP_SHIFT_LEFT));
    WRONG("op end (RELU, FWD k 2) cannot read C",
          (s = part_base(), s.op[2].opcode = UVCC_OP_RELU, s.op[2].shift = 0, s.op[2].out_count = 2,
           s.op[2].out[1] = E));
    WRONG("op end (TRUNCATE, FWD k 2) writes D, which must be replicated",
          (s = part_base(), s.t[D].sharing = UVCC_ADDITIVE, s.outputs = 0));
    WRONG("op end (RESHARE, FWD k 2) writes D, which must be replicated",
          (s = reshare_base(), s.t[D].sharing = UVCC_ADDITIVE, s.outputs = 0));
    WRONG("op end (RESHARE, FWD k 2) reads A as additive", (s = reshare_base(), s.op[2].in[0] = A));
    WRONG("op end (RESHARE, FWD k 2): D has scale 15", (s = reshare_base(), s.t[D].scale = 15));
    WRONG("op end (RESHARE, FWD k 2): D is 4 x 6", (s = reshare_base(), s.t[D].cols = 6));
    WRONG("op product (GEMM_PART, FWD k 0): a shift by 1 bits",
          (s = part_base(), s.op[0].shift = 1));
    WRONG("op product (GEMM_PART, FWD k 0): C is 4 x 6, but must be 4 x 5",
          (s = part_base(), s.t[C].cols = 6));
    WRONG("op product (GEMM_PART, FWD k 0): C has scale 15", (s = part_base(), s.t[C].scale = 15));
    const uvcc_tensor_desc other = {.name = "E",
                                    .rows = 4,
                                    .cols = 5,
                                    .bits = 50,
                                    .scale = 16,
                                    .in_buffer_of = UVCC_NO_TENSOR,
                                    .lifetime = UVCC_TRANSIENT,
                                    .sharing = UVCC_ADDITIVE};
    WRONG("op add (GEMM_PART, FWD k 1): E is 5 x 4, but must be 4 x 5",
          (s = part_base(), s.t[E] = other, s.t[E].rows = 5, s.t[E].cols = 4, s.op[1].in[2] = E));
    WRONG("op add (GEMM_PART, FWD k 1): E has scale 17, but must have 16",
          (s = part_base(), s.t[E] = other, s.t[E].scale = 17, s.op[1].in[2] = E));
    WRONG("op add (GEMM_PART, FWD k 1) reads E, which nothing before it",
          (s = part_base(), s.t[E] = other, s.op[1].in[2] = E));
    WRONG("entry go: output 9 is C, which is additive", (s = part_base(), s.out[0].tensor = C));
    WRONG("entry go: input 1 is C, which is additive",
          (s = part_base(), s.inputs = 3, s.in[2].id = 1, s.in[2].tensor = C));
}

/* C, additive, = A A by elements; E, additive, = C + C; D = E >> 8. */
static small mul_part_base(void) {
    small s = part_base();
    s.t[C].rows = s.t[A].rows;
    s.t[C].cols = s.t[A].cols;
    s.t[C].bits = 40;
    s.op[0].opcode = UVCC_OP_MUL_PART;
    s.op[0].in[1] = A;
    s.t[E] = s.t[C];
    s.t[E].name = "E";
    s.t[E].bits = 41;
    s.op[1].opcode = UVCC_OP_ADD;
    s.op[1].in_count = 2;
    s.op[1].in[0] = s.op[1].in[1] = C;
    s.op[1].out[0] = E;
    s.op[2].in[0] = E;
    s.t[D].rows = s.t[C].rows;
    s.t[D].cols = s.t[C].cols;
    return s;
}

static void test_bad_mul_parts(void **state) {
    (void)state;
    uint8_t hash[32], within[32];
    small good = mul_part_base();
    hash_of(&good, hash);
    good.op[0].flags = UVCC_OP_WITHIN;
    hash_of(&good, within);
    assert_memory_not_equal(hash, within, sizeof hash);
    WRONG("op product (MUL_PART, FWD k 0) writes C, which must be additive",
          (s = mul_part_base(), s.t[C].sharing = UVCC_REPLICATED));
    WRONG("op product (MUL_PART, FWD k 0): a shift by 1 bits",
          (s = mul_part_base(), s.op[0].shift = 1));
    WRONG("op product (MUL_PART, FWD k 0): a constant is not for this opcode",
          (s = mul_part_base(), s.op[0].constant = 40));
    WRONG("op product (MUL_PART, FWD k 0): C has scale 17, but must have 16",
          (s = mul_part_base(), s.t[C].scale = 17));
    WRONG("op product (MUL_PART, FWD k 0): B is", (s = mul_part_base(), s.op[0].in[1] = B));
    WRONG("op product (MUL_PART, FWD k 0): C is", (s = mul_part_base(), s.t[C].cols++));
    BOUND("op product (MUL_PART, FWD k 0): bits(A) + bits(B) needs 64 bits",
          (s = mul_part_base(), s.t[A].bits = 32, s.t[C].bits = 62));
    BOUND("op product (MUL_PART, FWD k 0): C declares 39 bits; the sum of the products in it needs "
          "40",
          (s = mul_part_base(), s.t[C].bits = 39));
    good.t[A].bits = 32; /* the author knows better */
    hash_of(&good, hash);
    WRONG("op add (ADD, FWD k 1) cannot read C, which is additive; RESHARE or TRUNCATE it first",
          (s = mul_part_base(), s.t[E].sharing = UVCC_REPLICATED));
}

static void test_sums_in_bounds(void **state) {
    (void)state;
    BOUND("op product (GEMM_PART, FWD k 0): bits(A) + bits(B) + log2(K) needs 63 bits",
          (s = part_base(), s.t[A].bits = 41, s.t[C].bits = 63));
    BOUND("op product (GEMM_PART, FWD k 0): C declares 41 bits; the sum of the products in it "
          "needs 42",
          (s = part_base(), s.t[C].bits = 41));
    BOUND("op add (GEMM_PART, FWD k 1): C declares 42 bits; the sum of the products in it needs 43",
          (s = part_base(), s.t[C].bits = 42));
    BOUND("op end (TRUNCATE, FWD k 2): the truncation needs 63 bits",
          (s = part_base(), s.t[C].bits = 63));
    /* 4 2^40 fill 42 bits, and five of them 43 */
    uint8_t hash[32];
    small s = part_base();
    s.t[A].cols = s.t[B].rows = 4;
    s.t[C].bits = 43;
    hash_of(&s, hash);
    s.t[C].bits = 42;
    refused(&s, UVCC_ERR_BOUND, "needs 43");
    s.op[1].k = 2; /* anew, not on top */
    s.op[1].in_count = 2;
    s.op[2].k = 3;
    hash_of(&s, hash);
}

/* Two groups of rows and three heads: A 8 x 6 packed, B 12 x 2 stacked, C 8 x 6 packed, of blocks
 * of 4 x 2 times 2 x 2. */
static small heads_base(void) {
    small s = base();
    s.t[A] = matrix("A", 8, 6, 20, 8, UVCC_TRANSIENT);
    s.t[B] = matrix("B", 12, 2, 20, 8, UVCC_TRANSIENT);
    s.t[C] = matrix("C", 8, 6, 20, 8, UVCC_TRANSIENT);
    s.op[0].flags = UVCC_OP_STACKED_B;
    s.op[0].heads = 3;
    s.op[0].row_groups = 2;
    s.ops = 1;
    s.out[0].tensor = C;
    return s;
}

static void test_bad_heads(void **state) {
    (void)state;
    uint8_t hash[32];
    small good = heads_base();
    hash_of(&good, hash);
    good.op[0].opcode = UVCC_OP_GEMM_PART;
    good.op[0].shift = 0;
    refused(&good, UVCC_ERR_PROGRAM, "writes C, which must be additive");
    WRONG("op bias (BIAS_ADD, FWD k 1): heads and row groups are not for this opcode",
          s.op[1].heads = s.op[1].row_groups = 1);
    WRONG("op update (SUB, UPD k 0): heads and row groups are not", s.op[3].row_groups = 1);
    WRONG("op product (GEMM_SS, FWD k 0): 3 heads and 0 row groups",
          (s = heads_base(), s.op[0].row_groups = 0));
    WRONG("0 heads and 2 row groups", (s = heads_base(), s.op[0].heads = 0, s.op[0].flags = 0));
    WRONG("op product (GEMM_SS, FWD k 0): flags 0x8 are not", s.op[0].flags = UVCC_OP_STACKED_A);
    WRONG("flags 0x14 are not", (s = heads_base(), s.op[0].flags |= UVCC_OP_CIRCUIT));
    WRONG("op product (GEMM_SS, FWD k 0): A is 8 x 7, packed; 2 groups of rows and 3 heads do not",
          (s = heads_base(), s.t[A].cols = 7));
    WRONG("A is 9 x 6, packed", (s = heads_base(), s.t[A].rows = 9));
    WRONG("B is 14 x 2, stacked", (s = heads_base(), s.t[B].rows = 14));
    WRONG("C is 7 x 6, packed", (s = heads_base(), s.t[C].rows = 7));
    WRONG("op(A) has 2 columns and op(B) 4 rows", (s = heads_base(), s.t[B].rows = 24));
    WRONG("op(A) has 4 columns and op(B) 2 rows",
          (s = heads_base(), s.op[0].flags |= UVCC_OP_TRANS_A));
    WRONG("a block of C is 4 x 4, but must be 4 x 2", (s = heads_base(), s.t[C].cols = 12));
    WRONG("a block of C is 1 x 6, but must be 4 x 2",
          (s = heads_base(), s.t[C].rows = 6, s.op[0].flags |= UVCC_OP_STACKED_C));
    /* the depth is that of a block: 2 */
    BOUND("bits(A) + bits(B) + log2(K) needs 63 bits", (s = heads_base(), s.t[A].bits = 42));
    good = heads_base();
    good.t[A].bits = 41;
    hash_of(&good, hash);
}

static void test_bad_constants(void **state) {
    (void)state;
    WRONG("op product (GEMM_SS, FWD k 0): a constant is not for this opcode", s.op[0].constant = 1);
    WRONG("op (REDUCE_BIAS_GRAD, UPD k 64768): a constant is not", s.op[4].constant = 1);
    WRONG("op rows (SCALE_PUBLIC, FWD k 2): its constant is 0",
          s = constant_base(UVCC_OP_SCALE_PUBLIC, 0));
    WRONG("op rows (SCALE_PUBLIC, FWD k 2): D has scale 8, but must have 11",
          (s = constant_base(UVCC_OP_SCALE_PUBLIC, 5), s.op[2].shift = 3));
    BOUND("op rows (SCALE_PUBLIC, FWD k 2): bits + log2(constant) needs 63 bits",
          s = constant_base(UVCC_OP_SCALE_PUBLIC, (1ll << 42) + 1));
    BOUND("bits + log2(constant) needs 83 bits",
          s = constant_base(UVCC_OP_SCALE_PUBLIC, INT64_MIN));
    WRONG("D is 4 x 6", (s = constant_base(UVCC_OP_SCALE_PUBLIC, 1), s.t[D].cols = 6));
    WRONG("op rows (ADD_PUBLIC, FWD k 2): D has scale 9, but must have 8",
          (s = constant_base(UVCC_OP_ADD_PUBLIC, 1), s.t[D].scale = 9));
    WRONG("shift by 3 bits", (s = constant_base(UVCC_OP_ADD_PUBLIC, 1), s.op[2].shift = 3));
    BOUND("op rows (ADD_PUBLIC, FWD k 2): the wider of input and constant needs 63 bits",
          s = constant_base(UVCC_OP_ADD_PUBLIC, -(1ll << 62) - 1));
    BOUND(
        "the wider of input and constant needs 63 bits",
        (s = constant_base(UVCC_OP_ADD_PUBLIC, 1), s.t[C].bits = 63, s.op[1] = s.op[2], s.ops = 2));
    WRONG("op rows (CAUSAL_MASK, FWD k 2): C is 4 x 5; its rows must be a multiple of its columns",
          s = constant_base(UVCC_OP_CAUSAL_MASK, 1));
    WRONG("D is 4 x 3, but must be 4 x 2", (s = mask_base(), s.t[D].cols = 3));
    WRONG("D has scale 9", (s = mask_base(), s.t[D].scale = 9));
    BOUND("op rows (CAUSAL_MASK, FWD k 2): the constant -524288 is outside the 19 bits of D",
          (s = mask_base(), s.t[D].bits = 19));
    BOUND("the constant 1048576 is outside the 20 bits of D",
          (s = mask_base(), s.op[2].constant = 1 << 20));
}

/* D, two rows of C of 4 x 5 from row 1 on. */
static small slice_base(void) {
    small s = constant_base(UVCC_OP_SLICE_ROWS, 1);
    s.t[D].rows = 2;
    return s;
}

/* E, two rows, into D: C with them from row 1 on. */
static small put_base(uvcc_opcode code) {
    small s = row_base(code, 2);
    s.t[E] = matrix("E", 2, 5, 20, 8, UVCC_PERSIST);
    s.op[2].in[0] = E;
    s.op[2].in[1] = C;
    s.op[2].constant = 1;
    return s;
}

/* Which rows, and of what groups, is part of the program. */
static void test_rows_of_groups(void **state) {
    (void)state;
    uint8_t whole[32], group[32], first[32], added[32], put[32];
    small s = slice_base();
    hash_of(&s, whole);
    s.op[2].heads = 1;
    s.op[2].row_groups = 2;
    hash_of(&s, group);
    s.op[2].constant = 0;
    hash_of(&s, first);
    assert_memory_not_equal(whole, group, 32);
    assert_memory_not_equal(group, first, 32);
    s = put_base(UVCC_OP_ADD_ROWS);
    hash_of(&s, added);
    s = put_base(UVCC_OP_PUT_ROWS);
    hash_of(&s, put);
    assert_memory_not_equal(added, put, 32);
    s.op[2].out[0] = s.out[0].tensor = C; /* over x */
    hash_of(&s, put);
    s = put_base(UVCC_OP_PUT_ROWS);
    s.op[2].in_count = 1; /* into zeros */
    hash_of(&s, whole);
    assert_memory_not_equal(whole, put, 32);
}

static void test_bad_rows_of_groups(void **state) {
    (void)state;
    WRONG(
        "op rows (SLICE_ROWS, FWD k 2): C is 4 x 5; 3 groups of rows and 1 heads do not divide it",
        (s = slice_base(), s.op[2].heads = 1, s.op[2].row_groups = 3));
    WRONG("D is 1 x 5; 1 groups of rows and 2 heads",
          (s = slice_base(), s.t[D].rows = 1, s.op[2].heads = 2, s.op[2].row_groups = 1));
    WRONG("D is 2 x 4, but must be 2 x 5", (s = slice_base(), s.t[D].cols = 4));
    WRONG("D has scale 9, but must have 8", (s = slice_base(), s.t[D].scale = 9));
    WRONG("C has 4 rows a group, not 2 from row 3 on", (s = slice_base(), s.op[2].constant = 3));
    WRONG("not 2 from row -1 on", (s = slice_base(), s.op[2].constant = -1));
    WRONG("C has 4 rows a group, not 5 from row 0 on",
          (s = slice_base(), s.t[D].rows = 5, s.op[2].constant = 0));
    BOUND("D declares 19 bits, but needs 20", (s = slice_base(), s.t[D].bits = 19));
    WRONG("cannot write D in the buffer of its input C",
          (s = slice_base(), s.t[D].in_buffer_of = C));
    WRONG("op rows (SLICE_ROWS, FWD k 2): of C and D one is additive",
          (s = slice_base(), s.t[D].sharing = UVCC_ADDITIVE, s.out[0].tensor = C));
    WRONG("D has 4 rows a group, not 2 from row 3 on",
          (s = put_base(UVCC_OP_PUT_ROWS), s.op[2].constant = 3));
    WRONG("C is 4 x 5, but must be 3 x 5",
          (s = put_base(UVCC_OP_ADD_ROWS), s.t[D].rows = 3, s.op[2].constant = 0));
    WRONG("(PUT_ROWS, FWD k 2) has 3 inputs; it takes 1 or 2",
          (s = put_base(UVCC_OP_PUT_ROWS), s.op[2].in_count = 3, s.op[2].in[2] = C));
    WRONG("(ADD_ROWS, FWD k 2) has 1 inputs",
          (s = put_base(UVCC_OP_ADD_ROWS), s.op[2].in_count = 1));
    BOUND("D declares 19 bits, but needs 20", (s = put_base(UVCC_OP_ADD_ROWS), s.t[D].bits = 19));
    WRONG("cannot write D in the buffer of its input E; give it one of its own",
          (s = put_base(UVCC_OP_ADD_ROWS), s.t[E].rows = 4, s.op[2].constant = 0,
           s.t[E].lifetime = UVCC_TRANSIENT, s.t[E].in_buffer_of = D));
    WRONG(
        "op rows (CAUSAL_MASK, FWD k 2): C is 4 x 2; a group of rows has 4, more than its columns",
        (s = mask_base(), s.op[2].heads = 1, s.op[2].row_groups = 1));
    WRONG("C is 4 x 2; 3 groups of rows and 1 heads do not divide it",
          (s = mask_base(), s.op[2].heads = 1, s.op[2].row_groups = 3));
}

static small repeat_base(void) {
    return constant_base(UVCC_OP_REPEAT_COLS, 5); /* of a C of 4 x 5: one block */
}

/* How often, and in blocks of what width, is part of the program. */
static void test_repeats(void **state) {
    (void)state;
    uint8_t once[32], thrice[32], single[32];
    small s = repeat_base();
    hash_of(&s, once);
    s.t[D].cols = 15;
    hash_of(&s, thrice);
    s.op[2].constant = 1;
    hash_of(&s, single);
    assert_memory_not_equal(once, thrice, 32);
    assert_memory_not_equal(thrice, single, 32);
}

static void test_bad_repeats(void **state) {
    (void)state;
    WRONG("op rows (REPEAT_COLS, FWD k 2): C is 4 x 5; blocks of 2 columns do not divide it",
          (s = repeat_base(), s.op[2].constant = 2));
    WRONG("blocks of 0 columns do not divide it", (s = repeat_base(), s.op[2].constant = 0));
    WRONG("blocks of -5 columns do not divide it", (s = repeat_base(), s.op[2].constant = -5));
    WRONG("blocks of 10 columns do not divide it",
          (s = repeat_base(), s.t[D].cols = 10, s.op[2].constant = 10));
    WRONG("op rows (REPEAT_COLS, FWD k 2): D is 4 x 6, but must have 4 rows and a multiple of 5 "
          "columns",
          (s = repeat_base(), s.t[D].cols = 6));
    WRONG("D is 3 x 5, but must have 4 rows", (s = repeat_base(), s.t[D].rows = 3));
    WRONG("D has scale 9, but must have 8", (s = repeat_base(), s.t[D].scale = 9));
    BOUND("op rows (REPEAT_COLS, FWD k 2): D declares 19 bits, but needs 20",
          (s = repeat_base(), s.t[D].bits = 19));
    WRONG("a shift by 1 bits is not possible here", (s = repeat_base(), s.op[2].shift = 1));
    WRONG("op rows (REPEAT_COLS, FWD k 2) cannot write D in the buffer of its input C",
          (s = repeat_base(), s.t[D].in_buffer_of = C));
}

/* What may overwrite its first input. */
static void test_rows_in_place(void **state) {
    (void)state;
    static const uvcc_opcode codes[] = {UVCC_OP_ROW_ADD, UVCC_OP_ROW_SUB,      UVCC_OP_ROW_RSUB,
                                        UVCC_OP_ROW_MUL, UVCC_OP_SCALE_PUBLIC, UVCC_OP_ADD_PUBLIC};
    uint8_t hash[32];
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        small s = row_base(codes[i], i < 4 ? 2 : 1);
        s.op[2].constant = i < 4 ? 0 : -7;
        s.op[2].shift = codes[i] == UVCC_OP_ROW_MUL ? 8 : 0;
        s.op[2].out[0] = s.out[0].tensor = C;
        hash_of(&s, hash);
    }
    small s = row_base(UVCC_OP_COL_MUL, 2);
    s.op[2].in[1] = M;
    s.op[2].shift = 8;
    s.op[2].out[0] = s.out[0].tensor = C;
    hash_of(&s, hash);
    s = mask_base();
    s.op[2].out[0] = s.out[0].tensor = C;
    hash_of(&s, hash);
}

static void test_bad_buffers(void **state) {
    (void)state;
    WRONG("op rows (ROW_SUM, FWD k 2) cannot write D in the buffer of its input C",
          (s = row_base(UVCC_OP_ROW_SUM, 1), s.t[D].cols = 1, s.t[D].in_buffer_of = C));
    WRONG("op rows (ROW_DOT, FWD k 2) cannot write D in the buffer of its input C",
          (s = dot_base(), s.t[D].in_buffer_of = C));
    WRONG("op rows (ROW_ADD, FWD k 2) cannot write D in the buffer of its input E",
          (s = row_base(UVCC_OP_ROW_ADD, 2), s.t[E].in_buffer_of = D));
    WRONG("op product (GEMM_SS, FWD k 0) cannot write C in the buffer of its input B",
          (s.t[B].rows = 4, s.t[A].cols = 4, s.t[C].in_buffer_of = B));
    WRONG("op relu (RELU, FWD k 2) cannot write D in the buffer of its input C",
          s.t[D].in_buffer_of = C);
    WRONG("op relu (RELU, FWD k 2) writes D and E in one buffer", s.t[E].in_buffer_of = D);
    /* BIAS_ADD works in place, but not over its one row */
    WRONG("op bias (BIAS_ADD, FWD k 2) cannot write D in the buffer of its input E",
          s.t[E] = matrix("E", 1, 5, 20, 8, UVCC_TRANSIENT);
          s.t[E].in_buffer_of = D; s.op[2] = s.op[1]; s.op[2].k = 2; s.op[2].in[1] = E;
          s.op[2].out[0] = D; s.op[1].opcode = UVCC_OP_REDUCE_BIAS_GRAD; s.op[1].in_count = 1;
          s.op[1].out[0] = E);
    WRONG("op relu (RELU, FWD k 2) reads C, which nothing before it in entry go writes",
          (s.op[0] = s.op[2], s.op[0].k = 2, s.ops = 1));
    WRONG("op D (OUTPUT, UPD k 65024) reads D, which nothing before it", s.ops = 2);
    /* C in the buffer of B is fine for a new op, but then B is gone */
    WRONG("op relu (RELU, FWD k 2) reads B after op bias (BIAS_ADD, FWD k 1) overwrote its buffer",
          s.t[C].in_buffer_of = B;
          s.t[C].rows = 3; s.t[D].rows = s.t[E].rows = 3;
          s.op[0] = (uvcc_op_desc){.name = "copy",
                                   .opcode = UVCC_OP_SHIFT_LEFT,
                                   .in_count = 1,
                                   .in = {B},
                                   .out_count = 1,
                                   .out = {C}};
          s.op[2].in[0] = B);
}

static void test_bad_entries(void **state) {
    (void)state;
    WRONG("input 8 (B) comes twice", s.in[0].id = 8);
    WRONG("input 8 (A) comes twice", s.in[1].tensor = A);
    WRONG("output 10 (D) comes twice", (s.outputs = 2, s.out[1].id = 10, s.out[1].tensor = D));
    WRONG("entry go: input 7 is tensor 50", s.in[0].tensor = 50);
    WRONG("entry go: output 9 is tensor 50", s.out[0].tensor = 50);
    WRONG("two entries are called go", (s.second = "go", s.second_differs = true));
    WRONG("entries go and other have inputs of the same ids and shapes", s.second = "other");
    test_alloc counts = {0};
    uvcc_program *p = new_program(&counts);
    char message[64];
    assert_int_equal(uvcc_program_finish(p, message, sizeof message), UVCC_ERR_PROGRAM);
    assert_string_equal(message, "the program has no entry");
    uvcc_program_free(p);
}

/* A stage in the middle of a pipeline is given nothing: its entries are told apart by their ops. */
static void test_entries_without_inputs(void **state) {
    (void)state;
    for (uint16_t second_k = 0; second_k < 2; second_k++) {
        test_alloc counts = {0};
        char message[128] = "";
        uvcc_program *p = new_program(&counts);
        const uvcc_tensor_desc w = matrix("W", 2, 2, 20, 8, UVCC_PERSIST);
        const uvcc_tensor_desc z = matrix("Z", 2, 2, 20, 8, UVCC_TRANSIENT);
        assert_int_equal(uvcc_program_tensor(p, &w), 0);
        assert_int_equal(uvcc_program_tensor(p, &z), 1);
        uvcc_op_desc op = {.opcode = UVCC_OP_SHIFT_LEFT, .in_count = 1, .out_count = 1, .out = {1}};
        assert_int_equal(uvcc_program_entry(p, "go"), 0);
        assert_int_equal(uvcc_program_op(p, &op), 0);
        assert_int_equal(uvcc_program_entry(p, "other"), 1);
        op.k = second_k;
        assert_int_equal(uvcc_program_op(p, &op), 0);
        const int err = uvcc_program_finish(p, message, sizeof message);
        assert_int_equal(err, second_k == 0 ? UVCC_ERR_PROGRAM : 0);
        assert_string_equal(message, second_k != 0 ? ""
                                                   : "entries go and other have inputs of the same "
                                                     "ids and shapes; a step could not tell them "
                                                     "apart");
        uvcc_program_free(p);
        assert_int_equal(counts.live_blocks, 0);
    }
}

static void test_bad_calls(void **state) {
    (void)state;
    test_alloc counts = {0};
    const uvcc_allocator al = test_allocator(&counts), none = {0};
    uvcc_program *p = new_program(&counts), *q = NULL;
    char long_name[65];
    memset(long_name, 'n', 64);
    long_name[64] = 0;
    assert_int_equal(uvcc_program_new(NULL, &al), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_new(&q, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_new(&q, &none), UVCC_ERR_USAGE);
    small s = base();
    assert_int_equal(uvcc_program_op(p, &s.op[0]), UVCC_ERR_STATE); /* no entry yet */
    assert_int_equal(uvcc_program_input(p, 1, A, 0), UVCC_ERR_STATE);
    assert_int_equal(uvcc_program_output(p, 1, A), UVCC_ERR_STATE);
    s.t[A].name = long_name;
    assert_int_equal(uvcc_program_tensor(p, &s.t[A]), UVCC_ERR_USAGE);
    s.t[A].name = long_name + 1; /* 63 bytes */
    assert_int_equal(uvcc_program_tensor(p, &s.t[A]), 0);
    s.t[A].name = "";
    assert_int_equal(uvcc_program_tensor(p, &s.t[A]), UVCC_ERR_USAGE);
    s.t[A].name = NULL;
    assert_int_equal(uvcc_program_tensor(p, &s.t[A]), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_tensor(p, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_entry(p, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_entry(p, ""), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_entry(p, long_name), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_entry(p, "go"), 0);
    assert_int_equal(uvcc_program_op(p, NULL), UVCC_ERR_USAGE);
    s.op[0].in_count = UVCC_OP_MAX_IN + 1;
    assert_int_equal(uvcc_program_op(p, &s.op[0]), UVCC_ERR_USAGE);
    s.op[0].in_count = 2;
    s.op[0].out_count = UVCC_OP_MAX_OUT + 1;
    assert_int_equal(uvcc_program_op(p, &s.op[0]), UVCC_ERR_USAGE);
    s.op[0].out_count = 1;
    s.op[0].name = long_name;
    assert_int_equal(uvcc_program_op(p, &s.op[0]), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_input(p, 1, A, 3), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_finish(NULL, NULL, 0), UVCC_ERR_USAGE);
    uvcc_program_free(p);
    uvcc_program_free(NULL);
    assert_int_equal(counts.live_blocks, 0);
}

/* Counts stand where the limits are, as if so much had been added. */
static void test_limits(void **state) {
    (void)state;
    test_alloc counts = {0};
    uvcc_program *p = new_program(&counts);
    const uvcc_tensor_desc t = matrix("t", 1, 1, 20, 8, UVCC_PERSIST);
    const uvcc_op_desc d = {
        .opcode = UVCC_OP_ADD, .in_count = 2, .in = {0, 0}, .out_count = 1, .out = {0}};
    assert_int_equal(uvcc_program_tensor(p, &t), 0);
    p->tensor_count = UVCCI_MAX_TENSORS;
    assert_int_equal(uvcc_program_tensor(p, &t), UVCC_ERR_LIMIT);
    p->tensor_count = 1;
    uvcc_program_entry(p, "e0");
    uvcci_entry *e = &p->entries[0];
    e->input_count = UVCCI_MAX_INPUTS;
    assert_int_equal(uvcc_program_input(p, 1, 0, 0), UVCC_ERR_LIMIT);
    e->input_count = 0;
    e->user_count = UVCCI_MAX_OPS;
    assert_int_equal(uvcc_program_op(p, &d), UVCC_ERR_LIMIT);
    assert_int_equal(uvcc_program_input(p, 1, 0, 0), UVCC_ERR_LIMIT);
    assert_int_equal(uvcc_program_output(p, 1, 0), UVCC_ERR_LIMIT);
    e->user_count = UVCCI_MAX_OPS - 1;
    assert_int_equal(uvcc_program_output(p, 1, 0), 0);
    assert_int_equal(uvcc_program_output(p, 2, 0), UVCC_ERR_LIMIT);
    e->user_count = 0;
    uvcc_program_free(p);

    p = new_program(&counts);
    for (uint32_t i = 0; i <= UVCCI_MAX_ENTRIES; i++)
        assert_int_equal(uvcc_program_entry(p, "e"),
                         i < UVCCI_MAX_ENTRIES ? (int)i : UVCC_ERR_LIMIT);
    uvcc_program_free(p);
    assert_int_equal(counts.live_blocks, 0);
}

/* ---- more than 16 bits of k have numbers for ---- */

/* Tensors t0, t1, .., each an input (of microbatch i mod mbs) and an output; every third opens to
 * party 2. */
static uvcc_program *with_io(test_alloc *counts, uint32_t inputs, uint16_t mbs, uint32_t outputs) {
    uvcc_program *p = new_program(counts);
    const uint32_t most = inputs > outputs ? inputs : outputs;
    char name[16];
    for (uint32_t i = 0; i < most; i++) {
        snprintf(name, sizeof name, "t%u", i);
        const uvcc_tensor_desc t = matrix(name, 1, 1, 20, 8, UVCC_PERSIST);
        assert_int_equal(uvcc_program_tensor(p, &t), (int)i);
    }
    assert_int_equal(uvcc_program_entry(p, "go"), 0);
    for (uint32_t i = 0; i < inputs; i++)
        assert_int_equal(uvcc_program_input_mb(p, i, i, 0, (uint16_t)(i % mbs)), (int)i);
    for (uint32_t i = 0; i < outputs; i++)
        assert_int_equal(
            i % 3 == 2 ? uvcc_program_output_to(p, i, i, 2) : uvcc_program_output(p, i, i), (int)i);
    return p;
}

static const uvcc_op_desc *io_op_of(const uvcc_program *p, bool output, uint32_t io) {
    for (uint32_t i = 0; i < p->entries[0].op_count; i++) {
        const uvcci_op *op = &p->entries[0].ops[i];
        if (op->io == io && (op->desc.opcode != UVCC_OP_INPUT) == output)
            return &op->desc;
    }
    fail();
    return NULL;
}

/* Outputs go on in the next page of UPD; inputs count on in the entry while one block has room for
 * all of it, and in their microbatch beyond. */
static void test_many_io(void **state) {
    (void)state;
    test_alloc counts = {0};
    uvcc_program *p = with_io(&counts, 256, 2, 600);
    char message[256] = "";
    if (uvcc_program_finish(p, message, sizeof message) != 0)
        fail_msg("%s", message);
    for (uint32_t i = 0; i < 600; i++) {
        const uvcc_op_desc *d = io_op_of(p, true, i);
        assert_int_equal(d->phase, UVCC_UPD);
        assert_int_equal(d->mb, i / 256);
        assert_int_equal(d->k, (i % 3 == 2 ? 255u : 254u) << 8 | i % 256);
    }
    assert_int_equal(io_op_of(p, false, 255)->k, 254 << 8 | 255);
    assert_int_equal(p->entries[0].microbatches, 2);
    uvcc_program_free(p);

    p = with_io(&counts, 3 * 256, 3, 1);
    if (uvcc_program_finish(p, message, sizeof message) != 0)
        fail_msg("%s", message);
    for (uint32_t i = 0; i < 3 * 256; i++) {
        const uvcc_op_desc *d = io_op_of(p, false, i);
        assert_int_equal(d->mb, i % 3);
        assert_int_equal(d->k, 254u << 8 | i / 3);
    }
    const uvcci_entry *e = &p->entries[0]; /* slot by slot, each in the order of the calls */
    for (uint32_t i = 0; i < 3 * 256; i++)
        assert_int_equal(e->ops[i].io, i / 256 + 3 * (i % 256));
    uvcc_program_free(p);

    p = with_io(&counts, 257, 1, 1);
    assert_int_equal(uvcc_program_finish(p, message, sizeof message), UVCC_ERR_PROGRAM);
    assert_non_null(strstr(message, "microbatch 0 has more than 256 inputs"));
    uvcc_program_free(p);
    assert_int_equal(counts.live_blocks, 0);
}

/* An op of UPD in another page is another program, also where nothing else says microbatches. */
static void test_pages(void **state) {
    (void)state;
    test_alloc counts = {0};
    uint8_t hash[2][32];
    char message[256] = "";
    for (uint16_t page = 0; page < 2; page++) {
        small s = base();
        s.op[4].mb = page;
        uvcc_program *p = new_program(&counts);
        if (build_small(p, &s, message, sizeof message) != 0)
            fail_msg("%s", message);
        assert_int_equal(p->entries[0].microbatches, 1);
        uvcc_program_hash(p, hash[page]);
        uvcc_program_free(p);
    }
    assert_memory_not_equal(hash[0], hash[1], 32);
    small s = base();
    s.op[3].mb = 1; /* and the next has page 0 */
    uvcc_program *p = new_program(&counts);
    assert_int_equal(build_small(p, &s, message, sizeof message), UVCC_ERR_PROGRAM);
    assert_non_null(strstr(message, "must rise"));
    uvcc_program_free(p);
    assert_int_equal(counts.live_blocks, 0);
}

/* ---- hash ---- */

static void test_hash(void **state) {
    (void)state;
    enum { MAX = 56 };
    uint8_t hash[MAX][32], same[32];
    unsigned n = 0;
    small s = base();
    hash_of(&s, hash[n++]);
    /* pinned: peers compare it, so what a program hashes to must not change */
    char hex[65];
    for (unsigned i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", hash[0][i]);
    assert_string_equal(hex, "4910605c0a34a16d97fe0ee5f54710d251e8aa09acc4fcf852fc2dbf51c57f24");

    s = base(); /* the same calls; names and unused places do not count */
    s.t[A].name = "other";
    s.op[0].name = NULL;
    s.entry = "gone";
    s.op[0].in[4] = 3;
    s.op[0].out[2] = 1;
    hash_of(&s, same);
    assert_memory_equal(same, hash[0], 32);

#define DIFFERS(...)                                                                               \
    do {                                                                                           \
        s = base();                                                                                \
        __VA_ARGS__;                                                                               \
        assert_true(n < MAX);                                                                      \
        hash_of(&s, hash[n++]);                                                                    \
    } while (0)
    DIFFERS(s.t[A].rows = s.t[C].rows = s.t[D].rows = s.t[E].rows = 6);
    DIFFERS(s.t[A].cols = s.t[B].rows = 7);
    DIFFERS(s.t[A].bits = 21);
    DIFFERS((s.t[A].scale = 9, s.t[B].scale = 7));
    DIFFERS(s.t[D].lifetime = UVCC_PERSIST);
    DIFFERS((s.t[D].in_buffer_of = A, s.t[A].cols = 5, s.t[B].rows = 5));
    DIFFERS((s.t[A].cols = 5, s.t[B].rows = 5));
    DIFFERS(s.op[3].opcode = UVCC_OP_ADD);
    DIFFERS(s.op[2].phase = UVCC_BWD);
    DIFFERS(s.op[2].k = 3);
    DIFFERS(s.op[2].k = 258);
    DIFFERS((s.t[A].cols = s.t[B].rows = 5, s.t[A].rows = 5, s.t[B].cols = 5, s.t[M].cols = 5,
             s.t[C].rows = s.t[D].rows = s.t[E].rows = 5));
    DIFFERS((s.t[A].cols = s.t[B].rows = 5, s.t[A].rows = 5, s.t[B].cols = 5, s.t[M].cols = 5,
             s.t[C].rows = s.t[D].rows = s.t[E].rows = 5, s.op[0].flags = UVCC_OP_TRANS_A));
    DIFFERS((s.t[A].cols = s.t[B].rows = 5, s.t[A].rows = 5, s.t[B].cols = 5, s.t[M].cols = 5,
             s.t[C].rows = s.t[D].rows = s.t[E].rows = 5, s.op[0].in[1] = A));
    DIFFERS((s.op[0].shift = 7, s.t[B].scale = 7));
    DIFFERS(s.op[0].truncation = UVCC_TRUNC_STOCHASTIC);
    DIFFERS(s.op[0].truncation = UVCC_TRUNC_EXACT_DCF);
    DIFFERS(s.op[0].lift = 1);
    DIFFERS(s.op[3].out[0] = M; s.op[1].out[0] = D; s.op[2].in[0] = D; s.op[2].out[0] = C);
    DIFFERS(s.ops = 4);
    DIFFERS(s.in[0].id = 6);
    DIFFERS(s.in[0].owner = 2);
    DIFFERS((s.in[0].id = 8, s.in[1].id = 7));
    DIFFERS((s.in[0].tensor = B, s.in[1].tensor = A));
    DIFFERS((s.inputs = 3, s.in[2].id = 1, s.in[2].tensor = E));
    DIFFERS(s.out[0].id = 10);
    DIFFERS(s.out[0].tensor = C);
    DIFFERS(s.outputs = 0);
    DIFFERS((s.second = "two", s.second_differs = true));
    DIFFERS(s = constant_base(UVCC_OP_SCALE_PUBLIC, 1));
    DIFFERS(s = constant_base(UVCC_OP_SCALE_PUBLIC, -1));
    DIFFERS(s = constant_base(UVCC_OP_ADD_PUBLIC, 1));
    DIFFERS(s = constant_base(UVCC_OP_ADD_PUBLIC, 1ll << 40));
    DIFFERS(s = dot_base());
    DIFFERS((s = dot_base(), s.op[2].constant = 4));
    DIFFERS(s = mask_base());
    DIFFERS((s = mask_base(), s.op[2].constant = 0));
    DIFFERS(s = part_base());
    DIFFERS((s = part_base(), s.op[1].in_count = 2));
    DIFFERS(s = reshare_base());
    DIFFERS((s.t[E] = part_base().t[C], s.t[E].name = "E", s.ops = 1, s.out[0].tensor = C));
    DIFFERS((s.t[E] = part_base().t[C], s.t[E].name = "E", s.ops = 1, s.out[0].tensor = C,
             s.t[E].sharing = UVCC_REPLICATED));
    DIFFERS(s = heads_base());
    DIFFERS((s = heads_base(), s.op[0].flags = 0, s.t[B].rows = 4, s.t[B].cols = 6));
    DIFFERS((s = heads_base(), s.op[0].heads = 2, s.op[0].row_groups = 3, s.t[A].rows = 6,
             s.t[C].rows = 6, s.t[B].rows = 18, s.t[C].cols = 4));
    DIFFERS((s = heads_base(), s.op[0].heads = 0, s.op[0].row_groups = 0, s.op[0].flags = 0,
             s.t[B].rows = 6, s.t[C].cols = 2));
    DIFFERS((s = heads_base(), s.op[0].heads = 1, s.op[0].row_groups = 1, s.op[0].flags = 0,
             s.t[B].rows = 6, s.t[C].cols = 2));
    for (unsigned i = 0; i < n; i++)
        for (unsigned j = 0; j < i; j++)
            if (memcmp(hash[i], hash[j], 32) == 0)
                fail_msg("hashes %u and %u are equal", i, j);
}

/* Each op's blocks count, wherever the order of microbatches puts it among the inputs. */
static void test_hash_of_microbatches(void **state) {
    (void)state;
    uint8_t hash[5][32];
    for (uint8_t which = 0; which < 5; which++) {
        test_alloc counts = {0};
        uvcc_program *p = new_program(&counts);
        char name[4], message[200];
        assert_int_equal(uvcc_program_entry(p, "run"), 0);
        for (uint16_t mb = 0; mb < 2; mb++) {
            snprintf(name, sizeof name, "x%u", mb);
            const uvcc_tensor_desc x = matrix(name, 4, 4, 20, 0, UVCC_TRANSIENT);
            const int in = uvcc_program_tensor(p, &x);
            assert_true(in >= 0 && uvcc_program_input_mb(p, mb, (uint32_t)in, 0, mb) >= 0);
        }
        for (uint16_t mb = 0; mb < 2; mb++) { /* x x^T, or of 1 or 4 blocks: 4 x 4 */
            const uint16_t blocks = which == 0              ? 0
                                    : (which - 1) / 2 == mb ? 1 + (which - 1) % 2
                                                            : 0;
            snprintf(name, sizeof name, "z%u", mb);
            const uvcc_tensor_desc z = matrix(name, 4, 4, 60, 0, UVCC_TRANSIENT);
            const int out = uvcc_program_tensor(p, &z);
            assert_true(out >= 0);
            assert_true(uvcc_program_op(p, &(uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS,
                                                           .mb = mb,
                                                           .in_count = 2,
                                                           .in = {mb, mb},
                                                           .out_count = 1,
                                                           .out = {(uint32_t)out},
                                                           .flags = UVCC_OP_TRANS_B,
                                                           .heads = blocks,
                                                           .row_groups = blocks}) >= 0);
        }
        if (uvcc_program_finish(p, message, sizeof message) != 0)
            fail_msg("%s", message);
        uvcc_program_hash(p, hash[which]);
        uvcc_program_free(p);
        for (unsigned other = 0; other < which; other++)
            assert_memory_not_equal(hash[other], hash[which], 32);
    }
}

/* ---- memory ---- */

/* The loader takes a check that no SKS_START belongs to, as a reader; planning refuses it. Opcodes
 * that are not offered do not load: those of the pinned block were once. */
static void test_no_plan(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    uvcc_tensor_desc d = {.name = "A",
                          .rows = 1,
                          .cols = 1,
                          .bits = 8,
                          .lifetime = UVCC_PERSIST,
                          .in_buffer_of = UVCC_NO_TENSOR};
    assert_int_equal(uvcc_program_tensor(p, &d), 0);
    assert_int_equal(uvcc_program_entry(p, "run"), 0);
    uvcc_op_desc check = {.opcode = UVCC_OP_SKS_GEMM_CHECK, .k = 1, .in_count = 3};
    assert_int_equal(uvcc_program_op(p, &check), 0);
    assert_int_equal(uvcc_program_finish(p, NULL, 0), 0);
    uvcci_plan plan;
    assert_int_equal(uvcci_plan_make(&plan, p, &p->entries[0], &p->entries[0].ops[0], &al),
                     UVCC_ERR_PROGRAM);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
    static const uint16_t gone[] = {34, 35, 37, 38, 40, 41, 42, 43, 44, 45};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
        WRONG("is unknown; see opcodes.def", s.op[4].opcode = gone[i]);
}

static void test_no_memory(void **state) {
    (void)state;
    const small s = base();
    unsigned retried = 0;
    for (size_t i = 1;; i++) {
        test_alloc counts = {.fail_at = i};
        const uvcc_allocator al = test_allocator(&counts);
        uvcc_program *p = NULL;
        int err = uvcc_program_new(&p, &al);
        if (err == 0)
            err = build_small(p, &s, NULL, 0);
        const bool done = err == 0;
        if (!done) {
            assert_int_equal(err, UVCC_ERR_NOMEM);
            /* a finish that found no memory can be tried again */
            if (p != NULL && p->entry_count == 1 && p->entries[0].output_count == 1) {
                assert_int_equal(uvcc_program_finish(p, NULL, 0), 0);
                retried++;
            }
        }
        uvcc_program_free(p);
        assert_int_equal(counts.live_blocks, 0);
        if (done)
            break;
    }
    assert_int_equal(retried, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),          cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_bad_ops),        cmocka_unit_test(test_bad_elements),
        cmocka_unit_test(test_bad_rows),       cmocka_unit_test(test_bad_parts),
        cmocka_unit_test(test_bad_mul_parts),  cmocka_unit_test(test_sums_in_bounds),
        cmocka_unit_test(test_bad_heads),      cmocka_unit_test(test_bad_constants),
        cmocka_unit_test(test_repeats),        cmocka_unit_test(test_bad_repeats),
        cmocka_unit_test(test_rows_of_groups), cmocka_unit_test(test_bad_rows_of_groups),
        cmocka_unit_test(test_rows_in_place),  cmocka_unit_test(test_bad_buffers),
        cmocka_unit_test(test_bad_entries),    cmocka_unit_test(test_entries_without_inputs),
        cmocka_unit_test(test_bad_calls),      cmocka_unit_test(test_limits),
        cmocka_unit_test(test_many_io),        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_hash),           cmocka_unit_test(test_hash_of_microbatches),
        cmocka_unit_test(test_no_plan),        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
