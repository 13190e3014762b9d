/* SPDX-License-Identifier: Apache-2.0 */
/* test_session_dcf.c - exact truncation on DCF keys in sessions: every op that truncates gives what
 * it gives by a DPF and in plaintext, for every shift, shape, sharing, lift and edge, in a round
 * less. */
#include "triangle.h"

#include <stdlib.h>

enum { OPS_MAX = 10, FORMS = 2, IN_BITS = 28, IN_SCALE = 31, INPUTS = 6 };
/* Tensors that are given: two matrices, a column, a row, a matrix to multiply with, and what is
 * only truncated, of all 62 bits. */
enum { X, Y, COLUMN, ROW, SQUARE, WIDE };

/* Op number i in both forms, 2 i by a DPF. */
typedef struct pairs {
    uvcc_program *p;
    uint32_t in[INPUTS], count, out[2 * OPS_MAX], op[2 * OPS_MAX];
    uint16_t k;
    uint8_t shift, lift;
} pairs;

static uint32_t put(pairs *b, uvcc_op_desc d) {
    d.k = b->k++;
    assert_true(uvcc_program_op(b->p, &d) >= 0);
    return d.k + INPUTS; /* inputs are ops, and come first */
}

static uint32_t result(pairs *b, uint32_t rows, uint32_t cols, unsigned from) {
    char name[16];
    (void)snprintf(name, sizeof name, "out%u", b->count);
    return test_tensor(b->p, name, rows, cols, 62, (uint8_t)(from - b->shift), UVCC_TRANSIENT);
}

/* The op in both forms; its output is rows x cols. */
static void add_pair(pairs *b, uvcc_op_desc d, uint32_t rows, uint32_t cols, unsigned from) {
    for (unsigned form = 0; form < FORMS; form++) {
        d.truncation = form == 0 ? UVCC_TRUNC_EXACT : UVCC_TRUNC_EXACT_DCF;
        d.shift = b->shift;
        d.lift = b->lift;
        d.out_count = 1;
        d.out[0] = b->out[b->count] = result(b, rows, cols, from);
        b->op[b->count++] = put(b, d);
    }
}

static void add_product(pairs *b, uint16_t opcode, unsigned y, uint8_t flags, uint32_t rows,
                        uint32_t cols) {
    add_pair(b,
             (uvcc_op_desc){.opcode = opcode,
                            .in_count = 2,
                            .in = {b->in[X], b->in[y]},
                            .flags = flags,
                            .constant = opcode == UVCC_OP_ROW_DOT ? -3 : 0},
             rows, cols, 2 * IN_SCALE);
}

/* An additive tensor for each form: it has one use. */
static void add_parts(pairs *b, uint32_t rows, uint32_t cols) {
    for (unsigned form = 0; form < FORMS; form++) {
        const int part =
            uvcc_program_tensor(b->p, &(uvcc_tensor_desc){.name = form == 0 ? "part0" : "part1",
                                                          .rows = rows,
                                                          .cols = cols,
                                                          .bits = 62,
                                                          .scale = 2 * IN_SCALE,
                                                          .lifetime = UVCC_TRANSIENT,
                                                          .in_buffer_of = UVCC_NO_TENSOR,
                                                          .sharing = UVCC_ADDITIVE});
        assert_true(part >= 0);
        (void)put(b, (uvcc_op_desc){.opcode = UVCC_OP_GEMM_PART,
                                    .in_count = 2,
                                    .in = {b->in[X], b->in[SQUARE]},
                                    .out_count = 1,
                                    .out = {(uint32_t)part}});
        b->out[b->count] = result(b, rows, cols, 2 * IN_SCALE);
        b->op[b->count] =
            put(b, (uvcc_op_desc){.opcode = UVCC_OP_TRUNCATE,
                                  .in_count = 1,
                                  .in = {(uint32_t)part},
                                  .out_count = 1,
                                  .out = {b->out[b->count]},
                                  .shift = b->shift,
                                  .truncation = form == 0 ? UVCC_TRUNC_EXACT : UVCC_TRUNC_EXACT_DCF,
                                  .lift = b->lift});
        b->count++;
    }
}

static void make(pairs *b, uint32_t rows, uint32_t cols, const uvcc_allocator *al) {
    const uint32_t shapes[INPUTS][2] = {{rows, cols}, {rows, cols}, {rows, 1},
                                        {1, cols},    {cols, cols}, {rows, cols}};
    static const char *const names[INPUTS] = {"X", "Y", "column", "row", "square", "wide"};
    char why[200] = "";
    assert_int_equal(uvcc_program_new(&b->p, al), 0);
    assert_true(uvcc_program_entry(b->p, "run") >= 0);
    for (uint8_t i = 0; i < INPUTS; i++) {
        b->in[i] = test_tensor(b->p, names[i], shapes[i][0], shapes[i][1], i == WIDE ? 62 : IN_BITS,
                               i == WIDE ? 62 : IN_SCALE, UVCC_TRANSIENT);
        assert_true(uvcc_program_input(b->p, i, b->in[i], i % 3) >= 0);
    }
    add_product(b, UVCC_OP_GEMM_SS, SQUARE, 0, rows, cols);
    add_product(b, UVCC_OP_ELEM_MUL, Y, 0, rows, cols);
    add_product(b, UVCC_OP_ROW_MUL, COLUMN, 0, rows, cols);
    add_product(b, UVCC_OP_COL_MUL, ROW, 0, rows, cols);
    add_product(b, UVCC_OP_ROW_DOT, Y, 0, rows, 1);
    add_product(b, UVCC_OP_GEMM_SS, SQUARE, UVCC_OP_BEAVER, rows, cols);
    add_product(b, UVCC_OP_ROW_DOT, Y, UVCC_OP_BEAVER, rows, 1);
    add_pair(b, (uvcc_op_desc){.opcode = UVCC_OP_TRUNCATE, .in_count = 1, .in = {b->in[WIDE]}},
             rows, cols, 62);
    add_parts(b, rows, cols);
    for (uint32_t i = 0; i < b->count; i++)
        assert_true(uvcc_program_output(b->p, 100 + i, b->out[i]) >= 0);
    if (uvcc_program_finish(b->p, why, sizeof why) != 0)
        fail_msg("%s", why);
}

/* Random, but the least and greatest, those around 0 and the multiples of 2^shift among them. */
static int64_t *values_of(const uvcc_tensor_desc *d, unsigned shift, uint64_t *rng) {
    const size_t n = (size_t)d->rows * d->cols;
    const int64_t most = (INT64_C(1) << d->bits) - 1;
    int64_t *v = malloc(n * sizeof *v);
    assert_non_null(v);
    for (size_t i = 0; i < n; i++) {
        const int64_t random = (int64_t)(test_rand(rng) >> (63 - d->bits)) - most - 1;
        const int64_t multiple = shift < d->bits ? random & -(INT64_C(1) << shift) : 0;
        const int64_t chosen[] = {most, -most, 0, -1, 1, multiple, multiple - 1};
        const size_t which = test_rand(rng) % 14;
        v[i] = which < 7 ? chosen[which] : random;
        v[i] = v[i] < -most ? -most : v[i];
    }
    return v;
}

/* What the second form costs, beside the first. */
static void compare_costs(const pairs *b) {
    const double f = b->shift, levels = f > 7 ? f - 7 : 0;
    const double dpf = 2 * (16 * levels + 16 + (int)((2 * levels + 7) / 8)) + 8;
    const double dcf = 2 * (24 * f + 8 + (int)((2 * f + 7) / 8));
    for (uint32_t i = 0; i < b->count; i += FORMS) {
        const uvcc_tensor_desc *d = uvcc_program_tensor_at(b->p, b->out[i]);
        const double elems = (double)d->rows * d->cols;
        uvcc_op_cost c[FORMS];
        for (unsigned form = 0; form < FORMS; form++) {
            assert_int_equal(uvcc_program_op_at(b->p, 0, b->op[i + form])->out[0],
                             b->out[i + form]);
            assert_int_equal(uvcc_program_cost(b->p, 0, b->op[i + form], &c[form]), 0);
        }
        if (uvcc_program_op_at(b->p, 0, b->op[i])->flags == UVCC_OP_BEAVER)
            continue; /* the first form opens the operands of both */
        assert_int_equal(c[1].rounds, c[0].rounds - 1);
        const double bits = (double)(c[0].online_bytes - c[1].online_bytes);
        assert_true(bits >= elems / 4 && bits < elems / 4 + 2 * (elems / 4096 + 1));
        assert_true((double)c[1].preprocessing_bytes - (double)c[0].preprocessing_bytes ==
                    (dcf - dpf) * elems);
    }
}

static void run(unsigned shift, uint8_t lift, uint32_t rows, uint32_t cols) {
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    pairs b = {.shift = (uint8_t)shift, .lift = lift};
    make(&b, rows, cols, &al);
    compare_costs(&b);
    uvcc_reference *ref;
    assert_int_equal(uvcc_reference_new(&ref, b.p, &al), 0);
    triangle t;
    triangle_open(
        &t, b.p, &(triangle_options){.seed = shift, .mode = UVCC_CPU_DEFERRED, .unverified = true});
    triangle_ready(&t);
    triangle_agree(&t, 0, 0);
    uint64_t rng = shift;
    for (uint8_t i = 0; i < INPUTS; i++) {
        int64_t *v = values_of(uvcc_program_tensor_at(b.p, b.in[i]), shift, &rng);
        triangle_input(&t, i % 3, 0, i, v);
        assert_int_equal(uvcc_reference_set(ref, b.in[i], v), 0);
        free(v);
    }
    char why[200];
    if (uvcc_reference_step(ref, 0, why, sizeof why) != 0)
        fail_msg("%s", why);
    triangle_finish(&t, 1);
    for (uint32_t i = 0; i < b.count; i++) {
        const uvcc_tensor_desc *d = uvcc_program_tensor_at(b.p, b.out[i]);
        const int64_t *want = uvcc_reference_get(ref, b.out[i]);
        const int64_t *got = uvcc_session_output(t.s[i % 3], 0, 100 + i);
        for (size_t e = 0; e < (size_t)d->rows * d->cols; e++)
            if (got[e] != want[e])
                fail_msg("shift %u, op %u, element %zu: %lld, not %lld", shift, i, e,
                         (long long)got[e], (long long)want[e]);
    }
    triangle_close(&t);
    triangle_free(&t);
    uvcc_reference_free(ref);
    uvcc_program_free(b.p);
    assert_int_equal(mem.live_blocks, 0);
}

static void every_shift(void **state) {
    (void)state;
    for (unsigned shift = 1; shift <= 62; shift++)
        run(shift, (uint8_t)(shift % 3), 5, 3);
}

/* Blocks on all three edges, the last of one element. */
static void many_blocks(void **state) {
    (void)state;
    run(16, UVCC_LIFT_PARALLEL, 2049, 2);
    run(9, UVCC_LIFT_EXCHANGE, 8193, 1);
    run(23, UVCC_LIFT_SEQUENTIAL, 1, 7);
}

/* A product alone: what its links carry, and how often they wait. */
static void sends(unsigned truncation, uint64_t rounds, double online, double keys) {
    enum { N = 3 * 4096 };
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p;
    char why[200] = "";
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = test_tensor(p, "X", N, 1, 20, 16, UVCC_PERSIST);
    const uint32_t z = test_tensor(p, "Z", N, 1, 24, 16, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_op(p, &(uvcc_op_desc){.opcode = UVCC_OP_ELEM_MUL,
                                                   .in_count = 2,
                                                   .in = {x, x},
                                                   .out_count = 1,
                                                   .out = {z},
                                                   .shift = 16,
                                                   .truncation = (uint8_t)truncation}) >= 0);
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    triangle t;
    triangle_open(&t, p, &(triangle_options){.seed = 1});
    triangle_ready(&t);
    triangle_agree(&t, 0, 0);
    triangle_finish(&t, 1);
    double bytes[2] = {0};
    for (unsigned i = 0; i < 3; i++) {
        uvcc_session_stats st;
        uvcc_session_get_stats(t.s[i], &st);
        assert_int_equal(st.rounds, rounds);
        bytes[0] += (double)st.bytes_online / N;
        bytes[1] += (double)st.bytes_preprocessing / N;
    }
    /* headers, and the roots of the step */
    if (bytes[0] < online || bytes[0] > online + 1 || bytes[1] < keys || bytes[1] > keys + 1)
        fail_msg("%.2f and %.2f bytes, by the formula %.2f and %.2f", bytes[0], bytes[1], online,
                 keys);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
}

static void a_round_less_for_more_keys(void **state) {
    (void)state;
    sends(UVCC_TRUNC_EXACT, 3, 48.25, 2 * 163 + 8 + 4);
    sends(UVCC_TRUNC_EXACT_DCF, 2, 48, 2 * 396 + 4);
}

int main(void) {
    uvcc_host_keep_memory(); /* each session has several MiB of its own */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shift),
        cmocka_unit_test(many_blocks),
        cmocka_unit_test(a_round_less_for_more_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
