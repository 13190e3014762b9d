/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory.c - the bound on tensor memory (memory.h): what counts and what does not, exact for
 * chains, and never below what any schedule of random entries takes. */
#include "support.h"

#include "exec/program/memory.h"

enum { P = 7, Q, TENSORS, OPS_MAX = 12 }; /* P and Q are PERSIST, those before TRANSIENT */
#define NONE UVCC_NO_TENSOR

typedef struct sum { /* z = x - y, or x alone */
    uint32_t x, y, z;
} sum;

static void add_tensors(uvcc_program *p, const uint32_t *rows, const uint32_t *host) {
    static const char *const names[TENSORS] = {"A", "B", "C", "D", "E", "F", "G", "P", "Q"};
    for (uint32_t t = 0; t < TENSORS; t++) {
        const uvcc_tensor_desc d = {.name = names[t],
                                    .rows = rows != NULL ? rows[t] : 1,
                                    .cols = 1,
                                    .bits = 40,
                                    .lifetime = t >= P ? UVCC_PERSIST : UVCC_TRANSIENT,
                                    .in_buffer_of = host != NULL ? host[t] : NONE};
        assert_int_equal(uvcc_program_tensor(p, &d), (int)t);
    }
}

static void finish(uvcc_program *p) {
    char message[256];
    if (uvcc_program_finish(p, message, sizeof message) != 0)
        fail_msg("%s", message);
}

static uvcc_program *begin(test_alloc *mem) {
    const uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    return p;
}

static uvcc_program *make(test_alloc *mem, const uint32_t *host, const sum *ops, uint32_t count) {
    uvcc_program *p = begin(mem);
    add_tensors(p, NULL, host);
    assert_int_equal(uvcc_program_entry(p, "go"), 0);
    for (uint32_t i = 0; i < count; i++) {
        const uvcc_op_desc d = {.opcode = ops[i].y == NONE ? UVCC_OP_SHIFT_LEFT : UVCC_OP_SUB,
                                .k = (uint16_t)i,
                                .in_count = ops[i].y == NONE ? 1 : 2,
                                .in = {ops[i].x, ops[i].y},
                                .out_count = 1,
                                .out = {ops[i].z}};
        assert_int_equal(uvcc_program_op(p, &d), (int)i);
    }
    finish(p);
    return p;
}

/* In elements of replicated tensors. */
static uint64_t bound_of(const uvcc_program *p) {
    uint64_t bytes = UINT64_MAX, same = 0;
    assert_int_equal(uvcci_memory_bound(p, &p->entries[0], &bytes), 0);
    assert_int_equal(uvcc_program_memory(p, 0, &same), 0);
    assert_int_equal(bytes, same);
    assert_int_equal(bytes % 8, 0);
    return bytes / 16;
}

static uint64_t bound(const uint32_t *host, const sum *ops, uint32_t count) {
    test_alloc mem = {0};
    uvcc_program *p = make(&mem, host, ops, count);
    const uint64_t n = bound_of(p);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
    return n;
}

enum { A, B, C, D, E, F };

static void what_counts(void **state) {
    (void)state;
    static const sum unread[] = {{P, NONE, A}};
    assert_int_equal(bound(NULL, unread, 1), 1); /* A, though nobody reads it; never B to G, or P */
    static const sum updates[] = {{P, P, P}, {P, P, P}};
    assert_int_equal(bound(NULL, updates, 2), 0);
    /* A chain has two at a time, however long it is. */
    static const sum chain[] = {{P, NONE, A}, {A, NONE, B}, {B, NONE, C},
                                {C, NONE, D}, {D, NONE, E}, {E, NONE, P}};
    assert_int_equal(bound(NULL, chain, 6), 2);
    /* In place it has one. */
    static const sum in_place[] = {{P, NONE, A}, {A, P, A}, {A, NONE, P}};
    assert_int_equal(bound(NULL, in_place, 3), 1);
    static const uint32_t host[TENSORS] = {NONE, A, NONE, NONE, NONE, NONE, NONE, NONE, NONE};
    static const sum view[] = {{P, NONE, A}, {A, P, B}, {B, NONE, P}};
    assert_int_equal(bound(host, view, 3), 1);
    /* What is read again at the end stays. */
    static const sum kept[] = {{P, NONE, A}, {A, NONE, B}, {B, NONE, C}, {C, A, D}};
    assert_int_equal(bound(NULL, kept, 4), 3);
    /* Two chains may run side by side. */
    static const sum two[] = {{P, NONE, A}, {P, NONE, B}, {A, NONE, C}, {B, NONE, D}};
    assert_int_equal(bound(NULL, two, 4), 4);
}

/* Both components of a replicated tensor, the one of an additive one; the largest of a row. */
static void sizes(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = begin(&mem);
    static const struct {
        const char *name;
        uint32_t rows, cols;
        uint8_t sharing, lifetime;
    } t[] = {{"X", 3, 5, UVCC_REPLICATED, UVCC_PERSIST},
             {"W", 5, 7, UVCC_REPLICATED, UVCC_PERSIST},
             {"Z", 3, 7, UVCC_ADDITIVE, UVCC_TRANSIENT},
             {"R", 3, 7, UVCC_REPLICATED, UVCC_TRANSIENT}};
    for (uint32_t i = 0; i < 4; i++) {
        const uvcc_tensor_desc d = {.name = t[i].name,
                                    .rows = t[i].rows,
                                    .cols = t[i].cols,
                                    .bits = i < 2 ? 20 : 45,
                                    .lifetime = t[i].lifetime,
                                    .sharing = t[i].sharing,
                                    .in_buffer_of = NONE};
        assert_int_equal(uvcc_program_tensor(p, &d), (int)i);
    }
    assert_int_equal(uvcc_program_entry(p, "go"), 0);
    const uvcc_op_desc product = {.opcode = UVCC_OP_GEMM_PART,
                                  .k = 0,
                                  .in_count = 2,
                                  .in = {0, 1},
                                  .out_count = 1,
                                  .out = {2}};
    const uvcc_op_desc reshare = {
        .opcode = UVCC_OP_RESHARE, .k = 1, .in_count = 1, .in = {2}, .out_count = 1, .out = {3}};
    assert_int_equal(uvcc_program_op(p, &product), 0);
    assert_int_equal(uvcc_program_op(p, &reshare), 1);
    finish(p);
    uint64_t bytes;
    assert_int_equal(uvcci_memory_bound(p, &p->entries[0], &bytes), 0);
    assert_int_equal(bytes, 21 * 8 + 21 * 16);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* Six microbatches, each with one tensor from its forward to its backward op: as many live as may
 * be in flight. */
static void the_limit_in_flight_counts(void **state) {
    (void)state;
    for (uint32_t ahead = 0; ahead < 8; ahead++) {
        test_alloc mem = {0};
        uvcc_program *p = begin(&mem);
        add_tensors(p, NULL, NULL);
        assert_int_equal(uvcc_program_topology(p, 1, 1, 1), 0);
        assert_int_equal(uvcc_program_entry(p, "go"), 0);
        assert_int_equal(uvcc_program_pipeline(p, 0, 1, ahead), 0);
        for (uint8_t phase = UVCC_FWD; phase <= UVCC_BWD; phase++)
            for (uint16_t mb = 0; mb < 6; mb++) {
                const bool forward = phase == UVCC_FWD;
                const uvcc_op_desc d = {.opcode = forward ? UVCC_OP_SHIFT_LEFT : UVCC_OP_SUB,
                                        .phase = phase,
                                        .mb = mb,
                                        .in_count = forward ? 1 : 2,
                                        .in = {forward ? Q : P, forward ? NONE : mb},
                                        .out_count = 1,
                                        .out = {forward ? mb : P}};
                assert_true(uvcc_program_op(p, &d) >= 0);
            }
        finish(p);
        assert_int_equal(bound_of(p), ahead < 5 ? ahead + 1 : 6);
        uvcc_program_free(p);
        assert_int_equal(mem.live_blocks, 0);
    }
}

/* The most that is live in one schedule: ops start as soon as or later than they may, end whenever
 * they like. */
static uint64_t one_schedule(const uvcc_program *p, uint64_t *seed) {
    const uvcci_entry *e = &p->entries[0];
    uint32_t waits[OPS_MAX], left[TENSORS], out = 0, done = 0;
    bool started[OPS_MAX] = {false}, ended[OPS_MAX] = {false}, live[TENSORS] = {false};
    uint64_t most = 0, now = 0;
    for (uint32_t i = 0; i < e->op_count; i++)
        waits[i] = e->ops[i].pred_count;
    for (uint32_t t = 0; t < TENSORS; t++)
        left[t] = e->uses[t];
    while (done < e->op_count) {
        const uint32_t i = (uint32_t)(test_rand(seed) % e->op_count);
        const uvcci_op *op = &e->ops[i];
        if (!started[i] && waits[i] == 0) {
            started[i] = true;
            out++;
            for (uint32_t k = 0; k < op->touched_count; k++) {
                const uint32_t b = op->touched[k];
                if (live[b] || p->tensors[b].desc.lifetime != UVCC_TRANSIENT)
                    continue;
                live[b] = true;
                now++;
            }
            most = now > most ? now : most;
        } else if (started[i] && !ended[i] && (out > 2 || test_rand(seed) % 3 == 0)) {
            ended[i] = true;
            out--;
            done++;
            for (uint32_t k = 0; k < op->succ_count; k++)
                waits[e->succ[op->succ_first + k]]--;
            for (uint32_t k = 0; k < op->touched_count; k++)
                if (--left[op->touched[k]] == 0 && live[op->touched[k]])
                    now--;
        }
    }
    assert_int_equal(now, 0);
    return most;
}

static void no_schedule_takes_more(void **state) {
    (void)state;
    uint64_t seed = 5;
    unsigned exact = 0;
    enum { ROUNDS = 300 };
    for (unsigned round = 0; round < ROUNDS; round++) {
        test_alloc mem = {0};
        sum ops[OPS_MAX];
        uint32_t there = 1u << P | 1u << Q;
        for (unsigned i = 0; i < OPS_MAX; i++) {
            const uint32_t x = test_rand(&seed) % TENSORS, y = test_rand(&seed) % TENSORS;
            ops[i] = (sum){there >> x & 1 ? x : P, there >> y & 1 ? y : NONE,
                           (uint32_t)(test_rand(&seed) % TENSORS)};
            there |= 1u << ops[i].z;
        }
        uvcc_program *p = make(&mem, NULL, ops, OPS_MAX);
        const uint64_t least = bound_of(p);
        uint64_t most = 0;
        for (unsigned k = 0; k < 60; k++) {
            const uint64_t n = one_schedule(p, &seed);
            most = n > most ? n : most;
        }
        assert_true(most <= least);
        exact += most == least;
        uvcc_program_free(p);
        assert_int_equal(mem.live_blocks, 0);
    }
    assert_true(exact > ROUNDS / 2); /* it is a bound that schedules come near */
}

static void refusals(void **state) {
    (void)state;
    test_alloc mem = {0};
    static const sum chain[] = {{P, NONE, A}, {A, NONE, P}};
    uvcc_program *p = make(&mem, NULL, chain, 2);
    uint64_t bytes;
    assert_int_equal(uvcc_program_memory(p, 0, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_memory(p, 1, &bytes), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_memory(NULL, 0, &bytes), UVCC_ERR_USAGE);
    mem.fail_at = 1;
    assert_int_equal(uvcc_program_memory(p, 0, &bytes), UVCC_ERR_NOMEM);
    uvcc_program_free(p);

    p = begin(&mem);
    add_tensors(p, NULL, NULL);
    assert_int_equal(uvcc_program_memory(p, 0, &bytes), UVCC_ERR_USAGE); /* not finished */
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* Whichever allocation fails, nothing is left and nothing was written. */
static void no_memory(void **state) {
    (void)state;
    test_alloc mem = {0};
    static const sum ops[] = {{P, NONE, A}, {P, NONE, B}, {A, B, C}, {C, A, D}, {D, NONE, P}};
    uvcc_program *p = make(&mem, NULL, ops, 5);
    const size_t live = mem.live_blocks;
    uint64_t bytes = 7;
    int rc = UVCC_ERR_NOMEM;
    size_t fail_at = 0;
    while (rc == UVCC_ERR_NOMEM) {
        assert_int_equal(bytes, 7);
        mem.fail_at = ++fail_at;
        rc = uvcc_program_memory(p, 0, &bytes);
        assert_int_equal(mem.live_blocks, live);
    }
    mem.fail_at = 0;
    assert_int_equal(rc, 0);
    assert_true(fail_at > 4);
    assert_int_equal(bytes / 16, 3);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* ---- bytes of several buffers for one, of one for several ---- */

/* Ops of one input and output each, on column tensors of `rows` rows: out is the sum of groups. */
static void shrink(uvcc_program *p, uint32_t *k, uint32_t x, uint32_t z) {
    const uvcc_op_desc d = {.opcode = UVCC_OP_REDUCE_BIAS_GRAD,
                            .k = (uint16_t)*k,
                            .in_count = 1,
                            .in = {x},
                            .out_count = 1,
                            .out = {z}};
    assert_int_equal(uvcc_program_op(p, &d), (int)*k);
    ++*k;
}

/* P of 12 rows; A, B (6 rows) of it, C (3) of both; then D (12, of P by BIAS_ADD with C): A and B
 * are dead and D stands on both. */
static void bytes_are_handed_on(void **state) {
    (void)state;
    test_alloc mem = {0};
    static const uint32_t rows[TENSORS] = {6, 6, 3, 12, 6, 6, 1, 12, 1};
    enum { G = 6 };
    uvcc_program *p = begin(&mem);
    uint32_t k = 0;
    add_tensors(p, rows, NULL);
    assert_int_equal(uvcc_program_entry(p, "go"), 0);
    shrink(p, &k, P, A);
    shrink(p, &k, P, B);
    const uvcc_op_desc add = {.opcode = UVCC_OP_ADD,
                              .k = (uint16_t)k++,
                              .in_count = 2,
                              .in = {A, B},
                              .out_count = 1,
                              .out = {E}};
    assert_true(uvcc_program_op(p, &add) >= 0); /* A, B, E: 18 */
    shrink(p, &k, E, C);                        /* E, C: 9 */
    const uvcc_op_desc bias = {.opcode = UVCC_OP_BIAS_ADD,
                               .k = (uint16_t)k++,
                               .in_count = 2,
                               .in = {P, C},
                               .out_count = 1,
                               .out = {D}};
    assert_true(uvcc_program_op(p, &bias) >= 0); /* C, D: 15 */
    shrink(p, &k, D, F);                         /* D, F: 18 */
    shrink(p, &k, F, G);
    finish(p);
    assert_int_equal(bound_of(p), 18);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* What ops work on counts from their start to their end, tensors as an arena takes them. */
static void work_of_ops(void **state) {
    (void)state;
    test_alloc mem = {0};
    static const sum ops[] = {{P, NONE, A}, {A, NONE, B}, {P, NONE, C}, {B, C, P}};
    static const uint64_t work[] = {100, 7, 50, 1};
    uvcc_program *p = make(&mem, NULL, ops, 4);
    const uvcci_entry *e = &p->entries[0];
    uint64_t bytes = 0;
    assert_int_equal(uvcci_memory_bound_with(p, e, work, UVCCI_MEMORY_NO_TENSORS, &bytes), 0);
    assert_int_equal(bytes, 150); /* op 2 stands beside ops 0 and 1, which follow each other */
    assert_int_equal(uvcci_memory_bound_with(p, e, work, UVCCI_MEMORY_TENSORS, &bytes), 0);
    /* B is there when A is not needed for op 0 any more: it stands on what that worked on */
    assert_int_equal(bytes, 150 + 2 * 16);
    assert_int_equal(uvcci_memory_bound_with(p, e, NULL, UVCCI_MEMORY_TENSORS_ROUNDED, &bytes), 0);
    assert_int_equal(bytes, 3 * uvcci_buffer_rounded(p, A));
    assert_int_equal(uvcci_buffer_rounded(p, A), 2 * 256);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* Tensors of 2^31 elements: three of them at a time, and nothing wraps. */
static void huge_tensors(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = begin(&mem);
    static const char *const names[] = {"P", "A", "B", "C"};
    for (uint32_t t = 0; t < 4; t++) {
        const uvcc_tensor_desc d = {.name = names[t],
                                    .rows = 1u << 16,
                                    .cols = 1u << 15,
                                    .bits = 30,
                                    .lifetime = t == 0 ? UVCC_PERSIST : UVCC_TRANSIENT,
                                    .in_buffer_of = NONE};
        assert_int_equal(uvcc_program_tensor(p, &d), (int)t);
    }
    assert_int_equal(uvcc_program_entry(p, "go"), 0);
    static const sum ops[] = {{0, 0, 1}, {1, 0, 2}, {1, 2, 3}, {3, 3, 0}};
    for (uint32_t i = 0; i < 4; i++) {
        const uvcc_op_desc d = {.opcode = UVCC_OP_SUB,
                                .k = (uint16_t)i,
                                .in_count = 2,
                                .in = {ops[i].x, ops[i].y},
                                .out_count = 1,
                                .out = {ops[i].z}};
        assert_int_equal(uvcc_program_op(p, &d), (int)i);
    }
    finish(p);
    uvcc_op_cost cost;
    assert_int_equal(bound_of(p), 3ull << 31);
    assert_int_equal(uvcc_program_cost(p, 0, 0, &cost), 0);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* ---- wide programs: what is not known makes the bound larger and never smaller ---- */

/* `chains` chains of three ops side by side, each with two tensors: more than there are tracks for
 * gives what all tensors take, or less where it is known. */
static void wide(void **state) {
    (void)state;
    static const uint32_t counts[] = {10, 4096, 6000};
    for (unsigned c = 0; c < 3; c++) {
        const uint32_t chains = counts[c];
        test_alloc mem = {0};
        uvcc_program *p = begin(&mem);
        char name[24];
        for (uint32_t t = 0; t < 3 * chains + 1; t++) {
            snprintf(name, sizeof name, "t%u", t);
            const uvcc_tensor_desc d = {.name = name,
                                        .rows = 1,
                                        .cols = 1,
                                        .bits = 40,
                                        .lifetime = t == 3 * chains ? UVCC_PERSIST : UVCC_TRANSIENT,
                                        .in_buffer_of = NONE};
            assert_int_equal(uvcc_program_tensor(p, &d), (int)t);
        }
        assert_int_equal(uvcc_program_entry(p, "go"), 0);
        for (uint32_t i = 0; i < 3 * chains; i++) { /* t0 -> t1 -> t2 of each chain */
            const uint32_t chain = i % chains, step = i / chains, t = 3 * chain + step;
            const uvcc_op_desc d = {.opcode = UVCC_OP_SHIFT_LEFT,
                                    .k = (uint16_t)i,
                                    .in_count = 1,
                                    .in = {step == 0 ? 3 * chains : t - 1},
                                    .out_count = 1,
                                    .out = {t}};
            assert_true(uvcc_program_op(p, &d) >= 0);
        }
        finish(p);
        const uint64_t bound = bound_of(p);
        assert_true(bound >= 2 * chains && bound <= 3 * chains);
        if (chains <= 4096)
            assert_int_equal(bound, 2 * chains);
        uvcc_program_free(p);
        assert_int_equal(mem.live_blocks, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_counts),
        cmocka_unit_test(sizes),
        cmocka_unit_test(the_limit_in_flight_counts),
        cmocka_unit_test(no_schedule_takes_more),
        cmocka_unit_test(refusals),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(bytes_are_handed_on),
        cmocka_unit_test(work_of_ops),
        cmocka_unit_test(huge_tensors),
        cmocka_unit_test(wide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
