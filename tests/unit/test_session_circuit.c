/* SPDX-License-Identifier: Apache-2.0 */
/* RELU ops without keys in sessions: against plaintext over sizes, bits and edge values, the same
 * roots over faults and executors, rounds, bytes, what a batch must be. */
#include "triangle.h"

#include "exec/program/plan.h"
#include "exec/program/plan_make.h"
#include "exec/runtime/core.h"
#include <uvcc/loopback.h>

enum { IN_X = 1, OUT_Y = 10, OUT_D = 11, ROUNDS_MAX = 8 };

static uint32_t tensor(uvcc_program *p, const char *name, uint32_t cols, uint8_t bits) {
    return test_tensor(p, name, 1, cols, bits, 0, UVCC_TRANSIENT);
}

/* One RELU of n values, |x| < 2^bits. */
static uvcc_program *program(test_alloc *mem, uint32_t n, uint8_t bits) {
    uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    char why[256] = "";
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    uint32_t x = tensor(p, "x", n, bits), y = tensor(p, "y", n, bits), d = tensor(p, "d", n, 1);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, IN_X, x, 2) >= 0);
    uvcc_op_desc op = {.opcode = UVCC_OP_RELU,
                       .flags = UVCC_OP_CIRCUIT,
                       .in_count = 1,
                       .out_count = 2,
                       .in = {x},
                       .out = {y, d}};
    assert_true(uvcc_program_op(p, &op) >= 0);
    assert_true(uvcc_program_output(p, OUT_Y, y) >= 0);
    assert_true(uvcc_program_output(p, OUT_D, d) >= 0);
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

/* Ends, zero, small ones, all over. */
static void fill(uint64_t seed, int64_t *x, uint32_t n, unsigned bits) {
    const int64_t top = (int64_t)((1ull << bits) - 1);
    const int64_t special[] = {0, -1, top, -top, 1, top / 2, -top / 2};
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t r = test_rand(&seed);
        x[i] = r % 16 < 7 ? special[r % 16]
                          : (int64_t)(test_rand(&seed) % (2 * (uint64_t)top + 1)) - top;
    }
}

typedef struct outcome {
    uint8_t root[3][32];
    uvcc_session_stats stats[3];
} outcome;

static outcome run(const triangle_options *opt, uint32_t n, uint8_t bits, uint32_t steps) {
    test_alloc mem = {0};
    uvcc_program *p = program(&mem, n, bits);
    triangle t;
    outcome out;
    int64_t *x = malloc(n * sizeof *x);
    triangle_open(&t, p, opt);
    triangle_ready(&t);
    for (uint32_t step = 0; step < steps; step++) {
        fill(n + bits + step, x, n, bits);
        triangle_agree(&t, step, 0);
        triangle_input(&t, 2, step, IN_X, x);
        triangle_finish(&t, step + 1);
        for (unsigned i = 0; i < 3; i++) {
            const int64_t *y = uvcc_session_output(t.s[i], step, OUT_Y);
            const int64_t *d = uvcc_session_output(t.s[i], step, OUT_D);
            for (uint32_t k = 0; k < n; k++)
                if (d[k] != (x[k] >= 0) || y[k] != (x[k] >= 0 ? x[k] : 0))
                    fail_msg("%u of %u, %u bits: %lld -> %lld, %lld", k, n, bits, (long long)x[k],
                             (long long)y[k], (long long)d[k]);
        }
    }
    triangle_close(&t);
    memcpy(out.root, t.root, sizeof out.root);
    for (unsigned i = 0; i < 3; i++) {
        uvcc_session_get_stats(t.s[i], &out.stats[i]);
        assert_int_equal(out.stats[i].bytes_preprocessing, 0);
        /* the input and the outputs */
        assert_int_equal(out.stats[i].rounds, (uvcci_circuit_plan_of(bits).rounds + 2) * steps);
    }
    free(x);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
    return out;
}

static void test_sizes(void **state) {
    (void)state;
    static const uint32_t sizes[] = {1, 63, 64, 65, 2500, 4095, 4096, 4097, 20000};
    static const uint8_t bits[] = {31, 4, 17, 61};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
        for (size_t b = 0; b < sizeof bits; b++)
            (void)run(&(triangle_options){.seed = k + 1}, sizes[k], bits[b], 1);
}

static void test_bits(void **state) {
    (void)state;
    for (uint8_t bits = 1; bits <= 61; bits++)
        (void)run(&(triangle_options){.seed = bits}, 130, bits, 1);
}

static void test_same_roots(void **state) {
    (void)state;
    uvcc_fault_config bad = {
        .drop = 0.2, .duplicate = 0.1, .reorder = 0.3, .corrupt = 0.01, .truncate = 0.01};
    uvcc_fault_config rough = {.split = 0.5, .coalesce = 0.2, .partial = 0.3, .disconnect = 0.01};
    const triangle_options runs[] = {
        {.seed = 9, .mode = UVCC_CPU_DEFERRED, .compute_seed = 1},
        {.seed = 9, .mode = UVCC_CPU_THREADS},
        {.seed = 9, .datagram = true},
        {.seed = 9, .datagram = true, .faulty = true, .faults = bad, .mode = UVCC_CPU_DEFERRED},
        {.seed = 9, .faulty = true, .faults = rough},
        {.seed = 9, .suites = 1},
    };
    const outcome want = run(&(triangle_options){.seed = 9}, 9000, 31, 2);
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        const outcome got = run(&runs[i], 9000, 31, 2);
        assert_memory_equal(got.root, want.root, sizeof want.root);
        assert_int_equal(got.stats[0].bytes_online, want.stats[0].bytes_online);
        assert_int_equal(got.stats[0].leaves, want.stats[0].leaves);
    }
    const outcome other = run(&(triangle_options){.seed = 10}, 9000, 31, 2);
    assert_memory_not_equal(other.root, want.root, sizeof want.root);
    (void)run(&(triangle_options){.seed = 9, .audit_off = true}, 9000, 31, 1);
}

/* ---- plans ---- */

/* What src sends to dst in a round: words, checked to be canonical, in pieces, within the bounds.
 */
static uint32_t planned_words(const uvcci_plan *plan, const uvcci_plan_ids *ids,
                              const uvcci_plan_round *r, uint8_t src, uint8_t dst) {
    uint32_t words = 0;
    uvcci_plan_tlv list[4096];
    for (uint32_t part = 0; part < r->parts; part++) {
        size_t bytes;
        assert_true(uvcci_plan_tlvs_max(plan, r) <= 4096);
        const uint32_t n = uvcci_plan_list(plan, ids, r, part, src, dst, list, &bytes);
        assert_true(n <= uvcci_plan_tlvs_max(plan, r));
        assert_true(bytes <= UVCC_PART_BYTES);
        assert_int_equal(n != 0, uvcci_plan_any(plan, ids, r, part, src, dst));
        uint8_t *batch = malloc(bytes);
        memset(batch, 0, bytes);
        uvcc_blv1_writer w;
        assert_int_equal(uvcc_blv1_begin(&w, batch, bytes), 0);
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(uvcc_blv1_put(&w, &list[i].t, NULL), 0);
            assert_int_equal(list[i].more, list[i].t.first != 0);
            if (list[i].more) {
                assert_int_equal(list[i].block, list[i - 1].block);
                assert_int_equal(list[i].t.first, list[i - 1].t.first + UVCC_BLOCK_ELEMS);
            }
            words += list[i].t.count;
        }
        assert_int_equal(uvcc_blv1_end(&w), bytes);
        assert_int_equal(uvcc_blv1_check(batch, bytes, NULL), n);
        free(batch);
    }
    return words;
}

static void check_plan(uint32_t n, uint8_t bits) {
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = program(&mem, n, bits);
    uvcci_plan plan;
    const uvcci_entry *e = &p->entries[0];
    const uvcci_op *op = NULL;
    for (uint32_t i = 0; i < e->op_count; i++)
        if (e->ops[i].desc.opcode == UVCC_OP_RELU)
            op = &e->ops[i];
    assert_int_equal(uvcci_plan_make(&plan, p, e, op, &al), 0);
    const uvcci_circuit_plan shape = uvcci_circuit_plan_of(bits);
    assert_int_equal(plan.key_count, 0);
    assert_int_equal(plan.turns, shape.rounds);
    assert_int_equal(plan.round_count, shape.rounds);
    const uint8_t sid[32] = {7};
    uint64_t *id[ROUNDS_MAX], *cells = malloc(ROUNDS_MAX * plan.blocks * sizeof *cells);
    uvcci_plan_ids ids = {.id = id, .edge = malloc(plan.edge_blocks)};
    assert_true(plan.id_count <= ROUNDS_MAX);
    for (unsigned k = 0; k < plan.id_count; k++)
        id[k] = cells + k * plan.blocks;
    uvcci_plan_ids_fill(&plan, sid, 3, 99, &ids);
    unsigned edges[3] = {0};
    for (uint32_t b = 0; b < plan.blocks; b++)
        edges[ids.edge[b]]++;
    assert_true(plan.blocks < 20 || (edges[0] != 0 && edges[1] != 0 && edges[2] != 0));
    for (unsigned k = 0; k < plan.round_count; k++) {
        assert_int_equal(plan.rounds[k].kind, UVCC_FRAME_RESHARE_BATCH);
        uint32_t got = 0, want = 0;
        for (uint8_t i = 0; i < 9; i++) {
            if (i / 3 != i % 3)
                got += planned_words(&plan, &ids, &plan.rounds[k], i / 3, i % 3);
            for (uint32_t b = 0; b < plan.blocks; b++)
                want += uvcci_circuit_message_words(&shape, UVCC_BOOL_BIT | UVCC_BOOL_PRODUCT, k,
                                                    (uvcc_role)(i / 3), (uvcc_role)(i % 3),
                                                    uvcci_block_count(n, b));
        }
        assert_int_equal(got, want);
    }
    free(cells);
    free(ids.edge);
    uvcci_plan_free(&plan, &al);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

static void test_plans(void **state) {
    (void)state;
    for (uint8_t bits = 1; bits <= 61; bits += 3)
        check_plan(9000, bits);
    check_plan(1, 31);
    check_plan(1000000, 61); /* rounds in several parts */
}

/* Rounds of several parts in a session. */
static void test_large(void **state) {
    (void)state;
    (void)run(&(triangle_options){.seed = 4}, 700000, 61, 1);
}

/* ---- pads: every round has a call of its own, which no other round of the op uses ---- */

static void check_task(const uvcc_task *t, unsigned *seen) {
    const uvcci_circuit_plan shape = uvcci_circuit_plan_of(31);
    if (t->kind < UVCC_TASK_BOOL_SHARE || t->kind > UVCC_TASK_BOOL_SELECT_FINISH)
        return;
    switch (t->kind) {
    case UVCC_TASK_BOOL_SHARE:
    case UVCC_TASK_BOOL_JOIN:
        assert_int_equal(t->call, 0);
        break;
    case UVCC_TASK_BOOL_MERGE:
    case UVCC_TASK_BOOL_RECEIVE:
        assert_int_equal(t->call, t->u.vec.shift);
        assert_in_range(t->call, 1, shape.levels);
        break;
    default:
        assert_int_equal(t->call, shape.levels + 1);
        break;
    }
    if (t->kind == UVCC_TASK_BOOL_SHARE || t->kind == UVCC_TASK_BOOL_MERGE ||
        t->kind == UVCC_TASK_BOOL_SELECT_MASK)
        assert_int_equal(seen[t->call]++, 0);
}

static void look_at_task(void *user, unsigned party, const uvcc_job *job, uint32_t task,
                         bool done) {
    unsigned(*seen)[ROUNDS_MAX] = user;
    if (!done)
        check_task(&job->tasks[task], seen[party]);
}

static void test_calls(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = program(&mem, 100, 31);
    unsigned seen[3][ROUNDS_MAX] = {{0}};
    triangle t;
    int64_t x[100];
    fill(1, x, 100, 31);
    triangle_open(
        &t, p,
        &(triangle_options){.seed = 8, .wired = true, .on_task = look_at_task, .user = seen});
    triangle_settle(&t);
    triangle_agree(&t, 0, 0);
    triangle_input(&t, 2, 0, IN_X, x);
    triangle_settle(&t);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(t.finished[i], 1);
        for (unsigned k = 0; k < ROUNDS_MAX; k++)
            assert_int_equal(seen[i][k], k < uvcci_circuit_plan_of(31).rounds);
    }
    triangle_free(&t);
    uvcc_program_free(p);
}

/* An abort in any state leaves no memory behind. */
static void test_aborts(void **state) {
    (void)state;
    static int64_t x[5000];
    fill(1, x, 5000, 31);
    for (unsigned turns = 0;; turns++) {
        test_alloc mem = {0};
        uvcc_program *p = program(&mem, 5000, 31);
        triangle t;
        triangle_open(&t, p, &(triangle_options){.seed = 3, .mode = UVCC_CPU_DEFERRED});
        triangle_ready(&t);
        triangle_agree(&t, 0, 0);
        triangle_input(&t, 2, 0, IN_X, x);
        for (unsigned k = 0; k < turns && t.finished[0] == 0; k++)
            (void)triangle_turn(&t);
        const bool finished = t.finished[0] != 0;
        assert_int_equal(uvcc_session_abort(t.s[0], UVCC_ABORT_MEMORY, 0), 0);
        triangle_free(&t);
        uvcc_program_free(p);
        assert_int_equal(mem.live_blocks, 0);
        if (finished)
            break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans), cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_bits),  cmocka_unit_test(test_same_roots),
        cmocka_unit_test(test_large), cmocka_unit_test(test_aborts),
        cmocka_unit_test(test_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
