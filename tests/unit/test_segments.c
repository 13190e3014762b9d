/* SPDX-License-Identifier: Apache-2.0 */
/* Large ops, which are cut into segments: how, results of every kind of them beside the plaintext
 * twin, in every window. */
#include "triangle.h"

#include "exec/program/plan_make.h"
#include "exec/program/window.h"
#include "exec/session/instance.h"
#include <uvcc/nonlinear.h>

enum { IN = 1, OUT = 100, TO_ONE = 200, BITS = 5, SCALE = 4, MOST = 31, WIDE = 18 };

/* ---- programs ---- */

typedef struct maker {
    uvcc_program *p;
    uint8_t bits; /* of inputs, half of them fraction bits if they are WIDE */
    uint32_t inputs, outputs;
    uint16_t k;
} maker;

static maker begin(test_alloc *mem, uint64_t window) {
    const uvcc_allocator al = test_allocator(mem);
    maker m = {.bits = BITS};
    assert_int_equal(uvcc_program_new(&m.p, &al), 0);
    assert_int_equal(uvcc_program_entry(m.p, "run"), 0);
    if (window != 0)
        assert_int_equal(uvcc_program_window(m.p, window), 0);
    return m;
}

static uint32_t tensor(maker *m, uint32_t rows, uint32_t cols, uint8_t bits, uint8_t scale,
                       uint8_t sharing) {
    static unsigned n;
    char name[16];
    snprintf(name, sizeof name, "t%u", n++);
    const int rc = uvcc_program_tensor(m->p, &(uvcc_tensor_desc){.name = name,
                                                                 .rows = rows,
                                                                 .cols = cols,
                                                                 .bits = bits,
                                                                 .scale = scale,
                                                                 .sharing = sharing,
                                                                 .lifetime = UVCC_TRANSIENT,
                                                                 .in_buffer_of = UVCC_NO_TENSOR});
    assert_true(rc >= 0);
    return (uint32_t)rc;
}

static uint8_t scale_of(const maker *m) {
    return m->bits == WIDE ? WIDE / 2 : SCALE;
}

static uint32_t input(maker *m, uint32_t rows, uint32_t cols) {
    const uint32_t t = tensor(m, rows, cols, m->bits, scale_of(m), UVCC_REPLICATED);
    assert_true(uvcc_program_input(m->p, IN + m->inputs, t, (uint8_t)(m->inputs % 3)) >= 0);
    m->inputs++;
    return t;
}

static void output(maker *m, uint32_t t) {
    assert_true(uvcc_program_output(m->p, OUT + m->outputs++, t) >= 0);
}

static void op(maker *m, uvcc_op_desc d, uint32_t a, uint32_t b, uint32_t out) {
    d.k = m->k++;
    d.in_count = b != UVCC_NO_TENSOR ? 2 : 1;
    d.out_count = 1;
    d.in[0] = a;
    d.in[1] = b;
    d.out[0] = out;
    assert_true(uvcc_program_op(m->p, &d) >= 0);
}

/* A product of rows x cols, which is opened at the end. */
static void product(maker *m, uvcc_op_desc d, uint32_t a, uint32_t b, uint32_t rows,
                    uint32_t cols) {
    const uint8_t scale = (uint8_t)(2 * scale_of(m) - d.shift);
    const uint32_t z = tensor(m, rows, cols, 40, scale, UVCC_REPLICATED);
    op(m, d, a, b, z);
    output(m, z);
}

static uvcc_program *finish(maker *m) {
    char why[256] = "";
    if (uvcc_program_finish(m->p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return m->p;
}

/* Products of elements and of rows: cut between elements, between rows. */
static uvcc_program *elements(test_alloc *mem, uint64_t window) {
    maker m = begin(mem, window);
    const uint32_t flat = input(&m, 1, 530001), flat2 = input(&m, 1, 530001),
                   x = input(&m, 1030, 520), y = input(&m, 1030, 520), column = input(&m, 1030, 1),
                   row = input(&m, 1, 520), one = input(&m, 1, 1), tall = input(&m, 530001, 1);
    uvcc_op_desc d = {.opcode = UVCC_OP_ELEM_MUL};
    product(&m, d, flat, flat2, 1, 530001);
    product(&m, d, x, y, 1030, 520);
    d.opcode = UVCC_OP_COL_MUL;
    product(&m, d, flat, flat2, 1, 530001);
    product(&m, d, flat, one, 1, 530001);
    product(&m, d, x, row, 1030, 520);
    d.opcode = UVCC_OP_ROW_MUL;
    product(&m, d, x, column, 1030, 520);
    d.opcode = UVCC_OP_ROW_DOT;
    d.constant = 3;
    product(&m, d, tall, tall, 530001, 1);
    assert_true(uvcc_program_output_to(m.p, TO_ONE, x, 2) >= 0);
    return finish(&m);
}

/* Products of matrices: cut between rows, wherever these lie. */
static uvcc_program *matrices(test_alloc *mem, uint64_t window) {
    maker m = begin(mem, window);
    const uint32_t a = input(&m, 1100, 3), b = input(&m, 3, 500), at = input(&m, 3, 1100),
                   bt = input(&m, 500, 3);
    /* two groups of rows, three heads: blocks of 300 rows */
    const uint32_t q = input(&m, 2 * 300, 3 * 2), k = input(&m, 2 * 300, 3 * 2),
                   w = input(&m, 2 * 3 * 300, 4), wt = input(&m, 2 * 3 * 4, 300),
                   v = input(&m, 2 * 4, 3 * 300);
    uvcc_op_desc d = {.opcode = UVCC_OP_GEMM_SS};
    product(&m, d, a, b, 1100, 500);
    d.flags = UVCC_OP_TRANS_A;
    product(&m, d, at, b, 1100, 500);
    d.flags = UVCC_OP_TRANS_B;
    product(&m, d, a, bt, 1100, 500);
    d.flags = UVCC_OP_TRANS_A | UVCC_OP_TRANS_B;
    product(&m, d, at, bt, 1100, 500);
    d = (uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS, .heads = 3, .row_groups = 2};
    d.flags = UVCC_OP_TRANS_B | UVCC_OP_STACKED_C;
    product(&m, d, q, k, 2 * 3 * 300, 300);
    d.flags = UVCC_OP_STACKED_A;
    product(&m, d, w, v, 2 * 300, 3 * 300);
    d.flags = UVCC_OP_STACKED_A | UVCC_OP_TRANS_A;
    product(&m, d, wt, v, 2 * 300, 3 * 300);
    d.flags = UVCC_OP_STACKED_A | UVCC_OP_STACKED_C;
    product(&m, d, w, v, 2 * 3 * 300, 300);
    /* additive: reshared, truncated */
    const uint32_t sum = tensor(&m, 1100, 500, 20, 2 * SCALE, UVCC_ADDITIVE);
    d = (uvcc_op_desc){.opcode = UVCC_OP_GEMM_PART};
    op(&m, d, a, b, sum);
    d.opcode = UVCC_OP_RESHARE;
    product(&m, d, sum, UVCC_NO_TENSOR, 1100, 500);
    return finish(&m);
}

/* One function of a tensor, whose result is opened. */
static void function(maker *m, uvcc_nonlinear what, uint32_t x) {
    const uvcc_allocator al = uvcc_host_allocator();
    const uvcc_tensor_desc d = *uvcc_program_tensor_at(m->p, x);
    const uvcc_nonlinear_options options = {.size = sizeof options,
                                            .in_bits = d.bits,
                                            .scale = d.scale,
                                            .index_bits = SCALE,
                                            .cols = d.cols,
                                            .exact = true};
    uvcc_nonlinear_fn f;
    uvcc_tensor_desc out[UVCC_OP_MAX_OUT];
    assert_int_equal(uvcc_nonlinear_build(&f, what, &options, &al), 0);
    assert_int_equal(uvcc_nonlinear_output(what, &options, &d, out), 1);
    const uint32_t y = tensor(m, out[0].rows, out[0].cols, out[0].bits, out[0].scale, 0);
    const int index = uvcc_program_function(m->p, &f.function);
    assert_true(index >= 0);
    op(m, (uvcc_op_desc){.opcode = UVCC_OP_FUNCTION, .function = (uint16_t)index}, x,
       UVCC_NO_TENSOR, y);
    output(m, y);
    uvcc_nonlinear_free(&f);
}

static void relu(maker *m, uint32_t x, uint8_t flags) {
    const uvcc_tensor_desc d = *uvcc_program_tensor_at(m->p, x);
    uvcc_op_desc o = {.opcode = UVCC_OP_RELU, .flags = flags, .k = m->k++};
    o.in_count = 1;
    o.out_count = 2;
    o.in[0] = x;
    o.out[0] = tensor(m, d.rows, d.cols, d.bits, d.scale, UVCC_REPLICATED);
    o.out[1] = tensor(m, d.rows, d.cols, 1, 0, UVCC_REPLICATED);
    assert_true(uvcc_program_op(m->p, &o) >= 0);
    output(m, o.out[0]);
    output(m, o.out[1]);
}

/* What keys cut: exact truncations, ReLU, functions of elements and of rows; and ReLU without keys.
 */
static uvcc_program *with_keys(test_alloc *mem, uint64_t window) {
    maker m = begin(mem, window);
    m.bits = WIDE;
    const uint32_t x = input(&m, 300, 701), y = input(&m, 300, 701), wide = input(&m, 1, 530001),
                   rows = input(&m, 4001, 32);
    uvcc_op_desc d = {.opcode = UVCC_OP_ELEM_MUL, .shift = WIDE};
    product(&m, d, x, y, 300, 701);
    d.truncation = UVCC_TRUNC_EXACT_DCF;
    d.lift = UVCC_LIFT_SEQUENTIAL;
    product(&m, d, x, y, 300, 701);
    const uint32_t z = tensor(&m, 300, 701, 40, WIDE, UVCC_REPLICATED);
    op(&m, (uvcc_op_desc){.opcode = UVCC_OP_ELEM_MUL}, x, y, z);
    d = (uvcc_op_desc){.opcode = UVCC_OP_TRUNCATE, .shift = WIDE};
    product(&m, d, z, UVCC_NO_TENSOR, 300, 701);
    relu(&m, x, 0);
    relu(&m, wide, UVCC_OP_CIRCUIT);
    function(&m, UVCC_NL_SIGN, x);
    function(&m, UVCC_NL_MAX, rows);
    return finish(&m);
}

/* ---- sessions ---- */

static void count_words(uvcc_config *c) {
    c->checks.prg_uses = 1;
}

/* However wide the window is and whatever runs the jobs: the twin's results, no word of a key
 * stream twice; what the window does not say, the root does not depend on. */
static void test_results(uvcc_program *(*make)(test_alloc *mem, uint64_t window)) {
    const triangle_options runs[] = {
        {.seed = 1, .tweak = count_words},
        {.seed = 1, .mode = UVCC_CPU_THREADS},
        {.seed = 1, .mode = UVCC_CPU_DEFERRED, .compute_seed = 5},
    };
    const uint64_t windows[] = {0, 1, 24u << 20};
    const size_t some = SANITIZED ? 2 : 3; /* of both */
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uint64_t peak = UINT64_MAX;
    for (size_t w = 0; w < some; w++) {
        triangle_outcome want = {0};
        for (size_t i = 0; i < (w == 0 ? some : 1); i++) {
            const triangle_outcome got = triangle_run(make(&mem, windows[w]), &al, &runs[i], MOST);
            if (i == 0)
                want = got;
            assert_memory_equal(got.root, want.root, sizeof want.root);
        }
        if (windows[w] == 1) /* one by one: the least memory */
            assert_true(want.stats.tensor_peak_bytes < peak);
        peak = want.stats.tensor_peak_bytes;
    }
    assert_int_equal(mem.live_blocks, 0);
}

/* ---- how an op is cut ---- */

/* Segments of the op that makes the result of an entry's last product, and units of each. */
static void check_cut(uvcc_op_desc d, uint32_t rows, uint32_t cols, uint32_t count, uint64_t per) {
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    maker m = begin(&mem, 0);
    m.bits = WIDE;
    const uint32_t x = input(&m, rows, cols);
    const bool gemm = d.opcode == UVCC_OP_GEMM_SS;
    const uint32_t y = gemm ? input(&m, cols, cols) : x;
    product(&m, d, x, y, rows, cols);
    uvcc_program *p = finish(&m);
    const uvcci_entry *e = &p->entries[0];
    uvcci_plan plan;
    uint64_t units = 0, elems = 0;
    const uvcci_op *op = e->ops;
    while (op->desc.opcode != d.opcode)
        op++;
    assert_int_equal(uvcci_plan_make(&plan, p, e, op, &al), 0);
    if (plan.segments.count != count || (count != 1 && plan.segments.per != per))
        fail_msg("%u x %u: %u segments of %llu units", rows, cols, plan.segments.count,
                 (unsigned long long)plan.segments.per);
    for (uint32_t i = 0; i < plan.segments.count; i++) {
        const uvcci_plan *s = uvcci_plan_segment(&plan, i);
        units += s->units;
        elems += s->elems;
        assert_true(count == 1 || s->elems <= UVCCI_SEGMENT_ELEMS || s->units == 1);
        assert_true(count == 1 || s->cut_bytes <= UVCCI_SEGMENT_KEY_BYTES ||
                    s->units <= UVCC_BLOCK_ELEMS);
        assert_true(i + 1 == plan.segments.count || s->units == plan.segments.per);
    }
    assert_int_equal(units, plan.segments.units);
    assert_int_equal(elems, (uint64_t)rows * cols);
    uvcci_plan_free(&plan, &al);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

static void test_cut(void **state) {
    (void)state;
    const uvcc_op_desc elements = {.opcode = UVCC_OP_ELEM_MUL}, rows = {.opcode = UVCC_OP_GEMM_SS};
    uvcc_op_desc keys = {.opcode = UVCC_OP_ELEM_MUL, .shift = WIDE};
    const uint32_t most = UVCCI_SEGMENT_ELEMS;
    check_cut(elements, 1, most, 1, 0);
    check_cut(elements, 1, most + 1, 2, most);
    check_cut(elements, most, 1, 1, 0);
    check_cut(elements, 3, most, 3, most);
    check_cut(elements, 1, 1u << 26, 128, most);
    check_cut(elements, 1u << 15, 1u << 16, 4096, most); /* 2^31 */
    check_cut(rows, 1024, 512, 1, 0);
    check_cut(rows, 1025, 512, 2, 1024);
    check_cut(rows, 2, 300000, 2, 1);        /* a row is more than half of it */
    check_cut(rows, 3, 600000, 3, 1);        /* or more than all */
    keys.truncation = UVCC_TRUNC_STOCHASTIC; /* none */
    check_cut(keys, 1, most, 1, 0);
    keys.truncation = UVCC_TRUNC_EXACT;
    check_cut(keys, 1, 1u << 17, 1, 0);
    check_cut(keys, 1, 1u << 18, 2, 1u << 17);
    check_cut(keys, 1, 1u << 20, 8, 1u << 17);
}

/* ---- vectors of an independent program ---- */

static uint16_t opcode_called(const char *name) {
    for (uint16_t i = 0; i < 256; i++)
        if (uvcc_opcode_name(i) != NULL && strcmp(uvcc_opcode_name(i), name) == 0)
            return i;
    fail_msg("no opcode %s", name);
    return 0;
}

/* An entry whose first op of its kind is that of the vector. */
static uvcc_program *vector_program(test_alloc *mem, const json_t *o) {
    const uint32_t rows = (uint32_t)test_u64(o, "rows"), cols = (uint32_t)test_u64(o, "cols");
    uvcc_op_desc d = {.opcode = opcode_called(test_str(o, "op")),
                      .shift = (uint8_t)test_u64(o, "shift"),
                      .truncation = (uint8_t)test_u64(o, "truncation")};
    const bool gemm = d.opcode == UVCC_OP_GEMM_SS;
    maker m = begin(mem, 1);
    m.bits = WIDE;
    const uint32_t x = input(&m, rows, gemm ? 1 : cols);
    const uint32_t long_x = tensor(&m, rows, cols, 61, 62, UVCC_REPLICATED);
    if (d.opcode == UVCC_OP_OUTPUT)
        output(&m, x);
    else if (d.opcode == UVCC_OP_OUTPUT_TO)
        assert_true(uvcc_program_output_to(m.p, TO_ONE, x, 2) >= 0);
    else if (d.opcode == UVCC_OP_TRUNCATE && uvcc_program_input(m.p, IN + 1, long_x, 0) >= 0)
        op(&m, d, long_x, UVCC_NO_TENSOR, tensor(&m, rows, cols, 61, 62 - d.shift, 0));
    else if (d.opcode != UVCC_OP_INPUT)
        op(&m, d, x, gemm ? input(&m, 1, cols) : x,
           tensor(&m, rows, cols, 40, (uint8_t)(2 * scale_of(&m) - d.shift), UVCC_REPLICATED));
    return finish(&m);
}

static void check_vector(const json_t *o) {
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = vector_program(&mem, o);
    const uvcci_entry *e = &p->entries[0];
    const json_t *end = json_object_get(o, "last");
    const uvcci_op *op = e->ops;
    uvcci_plan plan;
    while (op->desc.opcode != opcode_called(test_str(o, "op")))
        op++;
    assert_int_equal(uvcci_plan_make(&plan, p, e, op, &al), 0);
    const uint32_t last = (uint32_t)test_u64(end, "ordinal");
    const uvcci_plan *s = uvcci_plan_segment(&plan, last);
    assert_int_equal(plan.segments.count, test_u64(o, "count"));
    assert_int_equal(plan.segments.count, last + 1);
    assert_int_equal(plan.batches, test_u64(o, "batches"));
    assert_int_equal(s->elems, test_u64(end, "elements"));
    assert_int_equal(s->batches, test_u64(end, "batches"));
    assert_int_equal((uint64_t)last * plan.batches, test_u64(end, "first_b"));
    if (last != 0) {
        assert_int_equal(plan.segments.per, test_u64(o, "units"));
        assert_int_equal(last * plan.segments.per, test_u64(end, "first_unit"));
        assert_int_equal(s->units, test_u64(end, "units"));
    }
    uvcci_plan_free(&plan, &al);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

static void test_vectors(void **state) {
    (void)state;
    json_t *v = LOAD_VECTORS("segments.json"), *o;
    size_t i;
    json_array_foreach(json_object_get(v, "cases"), i, o) check_vector(o);
    assert_true(i > 20);
    json_decref(v);
}

/* ---- windows ---- */

/* What stands more than two windows behind in program order comes later in the order of messages:
 * else a slow party's credit may be full of what it cannot use yet. */
static void check_order(const uvcci_step *st) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < st->instance_count; i++)
        most = st->instances[i].plan->work_bytes > most ? st->instances[i].plan->work_bytes : most;
    for (uint32_t i = 0; i < st->instance_count; i++) {
        uint64_t between = 0;
        for (uint32_t k = i + 1; k < st->instance_count; k++) {
            between += st->instances[k].plan->work_bytes;
            if (between > 2 * (st->entry->window + most))
                assert_true(st->instances[i].rank < st->instances[k].rank);
        }
    }
}

/* The rule of window.h, looked at whenever a session stands still. */
static void hold_window(void *user, unsigned party, const uvcc_job *job, uint32_t task, bool done) {
    const triangle *t = user;
    const uvcc_session *s = t->s[party];
    const uvcci_step *st = &s->ctx[s->step & 1];
    uint32_t first = UINT32_MAX, last = 0;
    uint64_t bytes = 0;
    (void)job;
    if (task != 0 || done || !st->running)
        return;
    for (uint32_t i = 0; i < st->instance_count; i++) {
        const uvcci_instance *r = &st->instances[i];
        if (r->turn != UVCCI_TURN_DONE && first == UINT32_MAX)
            first = i;
        if (r->turn != UVCCI_TURN_DONE && (r->turn != 0 || r->job_out))
            last = i;
    }
    for (uint32_t i = first; i <= last; i++)
        bytes += st->instances[i].plan->work_bytes;
    assert_true(last <= first || bytes <= st->entry->window);
    check_order(st);
}

static void test_window(void **state) {
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        test_alloc mem = {0};
        const uvcc_allocator al = test_allocator(&mem);
        triangle_options opt = {.seed = 3, .wired = true, .ticks = true, .on_task = hold_window};
        uvcc_program *p = elements(&mem, i == 0 ? 1 : 40u << 20);
        uvcc_reference *ref;
        triangle t;
        opt.user = &t;
        assert_int_equal(uvcc_reference_new(&ref, p, &al), 0);
        triangle_open(&t, p, &opt);
        triangle_ready(&t);
        triangle_agree(&t, 0, 0);
        triangle_give_inputs(&t, p, ref, 0, MOST);
        triangle_finish(&t, 1);
        triangle_check_outputs(&t, p, ref, 0);
        triangle_close(&t);
        triangle_free(&t);
        uvcc_reference_free(ref);
        uvcc_program_free(p);
    }
}

/* Of the whole program, before it is finished; it is part of the hash. */
static void test_window_call(void **state) {
    (void)state;
    test_alloc mem = {0};
    uint8_t usual[32], other[32], said[32];
    maker m = begin(&mem, 0);
    assert_int_equal(uvcc_program_window(m.p, 0), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_window(NULL, 1), UVCC_ERR_USAGE);
    output(&m, input(&m, 1, 1));
    finish(&m);
    assert_int_equal(uvcc_program_window(m.p, 1), UVCC_ERR_STATE);
    uvcc_program_hash(m.p, usual);
    uvcc_program_free(m.p);
    m = begin(&mem, UVCC_WINDOW_BYTES);
    output(&m, input(&m, 1, 1));
    uvcc_program_hash(finish(&m), said);
    uvcc_program_free(m.p);
    m = begin(&mem, UVCC_WINDOW_BYTES - 1);
    output(&m, input(&m, 1, 1));
    uvcc_program_hash(finish(&m), other);
    uvcc_program_free(m.p);
    assert_memory_equal(usual, said, 32);
    assert_memory_not_equal(usual, other, 32);
}

static void test_elements(void **state) {
    (void)state;
    test_results(elements);
}

static void test_matrices(void **state) {
    (void)state;
    test_results(matrices);
}

static void test_keys(void **state) {
    (void)state;
    test_results(with_keys);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut),      cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_window),   cmocka_unit_test(test_window_call),
        cmocka_unit_test(test_elements), cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
