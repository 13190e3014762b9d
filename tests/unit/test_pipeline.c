/* SPDX-License-Identifier: Apache-2.0 */
/* Microbatches: program order against the schedule's vectors, ordinals, what the loader refuses,
 * the limit of microbatches in flight and the memory that it bounds. */
#include "triangle.h"

#include "exec/program/program.h"

enum { MBS_MAX = 64 };

static uint32_t tensor(uvcc_program *p, const char *name, uint32_t mb, uint8_t bits,
                       uint8_t lifetime) {
    char full[32];
    snprintf(full, sizeof full, "%s%u", name, mb);
    return test_tensor(p, full, 4, 3, bits, 0, lifetime);
}

static void add_op(uvcc_program *p, uvcc_op_desc d) {
    assert_true(uvcc_program_op(p, &d) >= 0);
}

typedef struct chain {
    uint32_t w, g; /* the weight; the sum of gradients */
    uint32_t x[MBS_MAX], y[MBS_MAX], d[MBS_MAX];
} chain;

/* Per microbatch: X given by P0 -> Y = X + W (exact on all values), D = Y * W, then G (+)= D; in
 * the end W = W - G. With `forward`, only the first two. */
static uvcc_program *chain_program(test_alloc *mem, chain *c, uint32_t stage, uint32_t stages,
                                   uint32_t mbs, uint32_t ahead, bool forward) {
    const uvcc_allocator al = test_allocator(mem);
    uvcc_program *p = NULL;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    if (stages > 1)
        assert_int_equal(uvcc_program_topology(p, 1, stages, 1), 0);
    c->w = tensor(p, "W", 0, 40, UVCC_PERSIST);
    c->g = tensor(p, "G", 0, 40, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "chain") >= 0);
    assert_int_equal(uvcc_program_pipeline(p, stage, stages, ahead), 0);
    for (uint32_t m = 0; m < mbs; m++) {
        c->x[m] = tensor(p, "X", m, 10, UVCC_TRANSIENT);
        c->y[m] = tensor(p, "Y", m, 20, UVCC_TRANSIENT);
        c->d[m] = tensor(p, "D", m, 30, UVCC_TRANSIENT);
        assert_true(uvcc_program_input_mb(p, 1 + m, c->x[m], 0, (uint16_t)m) >= 0);
    }
    for (uint16_t m = 0; m < mbs; m++) {
        add_op(p, (uvcc_op_desc){.opcode = UVCC_OP_ADD,
                                 .k = 3,
                                 .mb = m,
                                 .in_count = 2,
                                 .in = {c->x[m], c->x[m]},
                                 .out_count = 1,
                                 .out = {c->y[m]}});
        if (forward)
            add_op(p, (uvcc_op_desc){.opcode = UVCC_OP_SHIFT_LEFT,
                                     .k = 5,
                                     .mb = m,
                                     .in_count = 1,
                                     .in = {c->y[m]},
                                     .out_count = 1,
                                     .out = {c->d[m]}});
    }
    for (uint16_t m = 0; m < mbs && !forward; m++) {
        add_op(p, (uvcc_op_desc){.opcode = UVCC_OP_ELEM_MUL,
                                 .phase = UVCC_BWD,
                                 .k = 2,
                                 .mb = m,
                                 .in_count = 2,
                                 .in = {c->y[m], c->x[m]},
                                 .out_count = 1,
                                 .out = {c->d[m]}});
        add_op(p, (uvcc_op_desc){.opcode = m == 0 ? UVCC_OP_SHIFT_LEFT : UVCC_OP_ADD,
                                 .phase = UVCC_BWD,
                                 .k = 4,
                                 .mb = m,
                                 .in_count = m == 0 ? 1 : 2,
                                 .in = {m == 0 ? c->d[m] : c->g, c->d[m]},
                                 .out_count = 1,
                                 .out = {c->g}});
    }
    if (!forward)
        add_op(p, (uvcc_op_desc){.opcode = UVCC_OP_SUB,
                                 .phase = UVCC_UPD,
                                 .in_count = 2,
                                 .in = {c->w, c->g},
                                 .out_count = 1,
                                 .out = {c->w}});
    assert_true(uvcc_program_output(p, 100, c->w) >= 0);
    return p;
}

static void finish(uvcc_program *p) {
    char why[256] = "";
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
}

/* ---- program order ---- */

/* The op at *at is one of the slot; moves on to the next. */
static void expect(const uvcc_program *p, uint32_t *at, uint16_t opcode, uint8_t phase,
                   uint32_t mb) {
    const uvcc_op_desc *d = uvcc_program_op_at(p, 0, (*at)++);
    assert_non_null(d);
    assert_int_equal(d->opcode, opcode);
    assert_int_equal(d->phase, phase);
    assert_int_equal(d->mb, mb);
}

static void expect_slot(const uvcc_program *p, uint32_t *at, char phase, uint32_t mb) {
    if (phase == 'F') {
        expect(p, at, UVCC_OP_INPUT, UVCC_FWD, mb);
        expect(p, at, UVCC_OP_ADD, UVCC_FWD, mb);
    } else {
        expect(p, at, UVCC_OP_ELEM_MUL, UVCC_BWD, mb);
        expect(p, at, mb == 0 ? UVCC_OP_SHIFT_LEFT : UVCC_OP_ADD, UVCC_BWD, mb);
    }
}

static void test_order_of_vectors(void **state) {
    (void)state;
    json_t *v = LOAD_VECTORS("schedule_1f1b.json");
    const char *name;
    json_t *one;
    unsigned cases = 0;
    json_object_foreach(v, name, one) {
        unsigned stages, mbs;
        if (sscanf(name, "S%uM%u", &stages, &mbs) != 2)
            continue;
        const json_t *orders = json_object_get(one, "order_per_stage");
        for (uint32_t s = 0; s < stages; s++) {
            test_alloc mem = {0};
            chain c;
            uvcc_program *p = chain_program(&mem, &c, s, stages, mbs, 0, false);
            finish(p);
            const json_t *order = json_array_get(orders, s);
            uint32_t at = 0;
            for (size_t i = 0; i < json_array_size(order); i++) {
                const char *slot = json_string_value(json_array_get(order, i));
                expect_slot(p, &at, slot[0], (uint32_t)atoi(slot + 1));
            }
            expect(p, &at, UVCC_OP_SUB, UVCC_UPD, 0);
            expect(p, &at, UVCC_OP_OUTPUT, UVCC_UPD, 0);
            assert_int_equal(at, uvcc_program_op_count(p, 0));
            uvcc_program_free(p);
            assert_int_equal(mem.live_blocks, 0);
            cases++;
        }
    }
    assert_true(cases > 4);
    json_decref(v);
}

/* Ahead 1 of one stage: F0 F1 B0 F2 B1 B2. */
static void test_order_ahead(void **state) {
    (void)state;
    static const char order[] = "F0F1B0F2B1B2";
    test_alloc mem = {0};
    chain c;
    uvcc_program *p = chain_program(&mem, &c, 0, 1, 3, 1, false);
    finish(p);
    uint32_t at = 0;
    for (unsigned i = 0; i < 12; i += 2)
        expect_slot(p, &at, order[i], (uint32_t)(order[i + 1] - '0'));
    assert_int_equal(p->entries[0].in_flight, 2);
    uvcc_program_free(p);
}

/* Ordinals go by (phase, mb, k), inputs in block 254 of their microbatch; ops keep their place in
 * `ops`. */
static void test_ordinals(void **state) {
    (void)state;
    test_alloc mem = {0};
    chain c;
    uvcc_program *p = chain_program(&mem, &c, 1, 3, 5, 0, false);
    finish(p);
    const uvcci_entry *e = &p->entries[0];
    for (uint32_t i = 0; i < e->op_count; i++) {
        const uvcci_op *op = &e->ops[e->by_ordinal[i]];
        assert_int_equal(op->ordinal, i);
        if (i == 0)
            continue;
        const uvcc_op_desc *b = &e->ops[e->by_ordinal[i - 1]].desc, *d = &op->desc;
        assert_true(b->phase < d->phase ||
                    (b->phase == d->phase && (b->mb < d->mb || (b->mb == d->mb && b->k < d->k))));
    }
    /* FWD: ADD 3, INPUT 254 << 8 of microbatch 0, then of 1 ... */
    assert_int_equal(e->ops[e->by_ordinal[0]].desc.opcode, UVCC_OP_ADD);
    assert_int_equal(e->ops[e->by_ordinal[1]].desc.opcode, UVCC_OP_INPUT);
    assert_int_equal(e->ops[e->by_ordinal[3]].desc.mb, 1);
    uvcc_program_free(p);
}

/* ---- what is refused ---- */

static void refused(uvcc_program *p, const char *part) {
    char why[256] = "";
    assert_int_equal(uvcc_program_finish(p, why, sizeof why), UVCC_ERR_PROGRAM);
    if (strstr(why, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", why, part);
    uvcc_program_free(p);
}

static void test_refused(void **state) {
    (void)state;
    test_alloc mem = {0};
    chain c;
    uvcc_op_desc more = {.opcode = UVCC_OP_ADD, .in_count = 2, .out_count = 1};

    uvcc_program *p = chain_program(&mem, &c, 0, 1, 1, 0, false);
    more.in[0] = more.in[1] = more.out[0] = c.w;
    more.k = 9;
    more.phase = UVCC_BWD;
    add_op(p, more);
    refused(p, "must rise"); /* after UPD */

    p = chain_program(&mem, &c, 0, 1, 2, 0, true);
    p->user_op_count = 0, p->entries[0].user_count = 0; /* inputs only, then BWD of one alone */
    more = (uvcc_op_desc){.opcode = UVCC_OP_ADD,
                          .phase = UVCC_BWD,
                          .name = "lonely",
                          .mb = 1,
                          .in_count = 2,
                          .in = {c.x[1], c.x[1]},
                          .out_count = 1,
                          .out = {c.y[1]}};
    add_op(p, more);
    refused(p, "microbatch 0 has no BWD op; another one has op lonely");

    p = chain_program(&mem, &c, 0, 1, 2, 0, false);
    assert_true(uvcc_program_input_mb(p, 77, c.w, 0, 3) >= 0);
    refused(p, "microbatch 2 has no FWD op or input");

    p = chain_program(&mem, &c, 0, 1, 2, 0, false);
    assert_int_equal(uvcc_program_pipeline(p, 1, 3, 0), 0);
    refused(p, "entry chain is of 3 stages, the job has 1");

    p = chain_program(&mem, &c, 0, 1, 1, 0, false);
    assert_int_equal(uvcc_program_pipeline(p, 2, 2, 0), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_pipeline(p, 0, 0, 0), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_pipeline(p, 0, 257, 0), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_topology(p, 0, 1, 1), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_topology(p, 1, 257, 1), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_topology(p, 65536, 1, 1), UVCC_ERR_USAGE);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* A tensor of a later slot is not there yet: BWD of microbatch 0 reads Y of microbatch 1. */
static void test_reads_too_early(void **state) {
    (void)state;
    test_alloc mem = {0};
    chain c;
    uvcc_program *p = chain_program(&mem, &c, 0, 1, 2, 0, false);
    p->user_ops[2].desc.in[0] = c.y[1];
    refused(p, "reads Y1, which nothing before it");
    p = chain_program(&mem, &c, 0, 1, 2, 1, false); /* one ahead: then it is */
    p->user_ops[2].desc.in[0] = c.y[1];
    finish(p);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

static void test_hash(void **state) {
    (void)state;
    static const struct {
        uint32_t stage, stages, mbs, ahead;
    } shapes[] = {{0, 1, 1, 0}, {0, 1, 2, 0}, {0, 1, 2, 1}, {0, 2, 2, 0}, {1, 2, 2, 0},
                  {0, 2, 2, 1}, {0, 2, 1, 0}, {1, 2, 1, 0}, {0, 3, 2, 0}};
    enum { N = sizeof shapes / sizeof shapes[0] };
    uint8_t hash[N][32];
    for (unsigned i = 0; i < N; i++) {
        test_alloc mem = {0};
        chain c;
        uvcc_program *p = chain_program(&mem, &c, shapes[i].stage, shapes[i].stages, shapes[i].mbs,
                                        shapes[i].ahead, false);
        finish(p);
        uvcc_program_hash(p, hash[i]);
        uvcc_program_free(p);
        for (unsigned j = 0; j < i; j++)
            assert_memory_not_equal(hash[i], hash[j], 32);
    }
}

/* Ops count where they came, not where they stand in program order: heads of either microbatch's.
 */
static void test_hash_heads(void **state) {
    (void)state;
    uint8_t hash[3][32];
    for (unsigned i = 0; i < 3; i++) {
        test_alloc mem = {0};
        const uvcc_allocator al = test_allocator(&mem);
        uvcc_program *p = NULL;
        assert_int_equal(uvcc_program_new(&p, &al), 0);
        assert_true(uvcc_program_entry(p, "heads") >= 0);
        for (uint16_t m = 0; m < 2; m++) {
            uint32_t x = tensor(p, "X", m, 10, UVCC_TRANSIENT),
                     w = tensor(p, "Y", m, 30, UVCC_PERSIST);
            int z = uvcc_program_tensor(p, &(uvcc_tensor_desc){.name = m == 0 ? "Z0" : "Z1",
                                                               .rows = 4,
                                                               .cols = 4,
                                                               .bits = 50,
                                                               .in_buffer_of = UVCC_NO_TENSOR});
            assert_true(uvcc_program_input_mb(p, m, x, 0, m) >= 0);
            add_op(p, (uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS,
                                     .mb = m,
                                     .flags = UVCC_OP_TRANS_B,
                                     .in_count = 2,
                                     .in = {x, w},
                                     .out_count = 1,
                                     .out = {(uint32_t)z},
                                     .heads = i == m,
                                     .row_groups = i == m});
        }
        finish(p);
        uvcc_program_hash(p, hash[i]);
        uvcc_program_free(p);
    }
    assert_memory_not_equal(hash[0], hash[1], 32);
    assert_memory_not_equal(hash[0], hash[2], 32);
    assert_memory_not_equal(hash[1], hash[2], 32);
}

/* ---- running ---- */

enum { ELEMS = 12 };

static uint16_t stage_at, stages_at; /* of the sessions that are being made */

static void put_stage(uvcc_config *c) {
    c->place.stages = stages_at;
    c->place.stage = stage_at;
}

/* One step over the loopback; W must come out as in the reference. */
static uvcc_session_stats run(const uvcc_program *p, const chain *c, uint32_t mbs,
                              const triangle_options *opt) {
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_reference *ref;
    char why[256];
    assert_int_equal(uvcc_reference_new(&ref, p, &al), 0);
    triangle t;
    triangle_open(&t, p, opt);
    triangle_ready(&t);
    triangle_agree(&t, 0, 0);
    for (uint32_t m = mbs; m-- > 0;) { /* the last one first: order of arrival must not count */
        int64_t v[ELEMS];
        uint64_t rnd = 7 + m;
        for (unsigned i = 0; i < ELEMS; i++)
            v[i] = (int64_t)(test_rand(&rnd) % 2000) - 1000;
        assert_int_equal(uvcc_reference_set(ref, c->x[m], v), 0);
        triangle_input(&t, 0, 0, 1 + m, v);
    }
    if (uvcc_reference_step(ref, 0, why, sizeof why) != 0)
        fail_msg("%s", why);
    triangle_finish(&t, 1);
    for (unsigned i = 0; i < 3; i++)
        assert_memory_equal(uvcc_session_output(t.s[i], 0, 100), uvcc_reference_get(ref, c->w),
                            ELEMS * sizeof(int64_t));
    uvcc_session_stats st;
    uvcc_session_get_stats(t.s[1], &st);
    assert_int_equal(st.transient_bytes, 0);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_reference_free(ref);
    assert_int_equal(mem.live_blocks, 0);
    return st;
}

/* Peak memory stays at the computed bound, and the bound goes with the microbatches in flight. */
static void test_memory(void **state) {
    (void)state;
    const uint64_t tensor_bytes = ELEMS * 16;
    static const struct {
        uint32_t stage, stages, mbs, ahead;
        uint32_t
            live; /* X, Y and D of each in flight, and G: in the place of X 0 if no more X come */
    } cases[] = {{0, 1, 1, 0, 3},  {0, 1, 6, 0, 4},  {0, 1, 6, 1, 7},  {2, 3, 6, 0, 4},
                 {0, 3, 6, 0, 10}, {0, 3, 6, 1, 13}, {0, 1, 6, 40, 18}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (unsigned mode = 0; mode < 2; mode++) {
            test_alloc mem = {0};
            chain c;
            uvcc_program *p = chain_program(&mem, &c, cases[i].stage, cases[i].stages, cases[i].mbs,
                                            cases[i].ahead, false);
            finish(p);
            uint64_t bound;
            stages_at = (uint16_t)cases[i].stages;
            stage_at = (uint16_t)cases[i].stage;
            assert_int_equal(uvcc_program_memory(p, 0, &bound), 0);
            assert_int_equal(bound, cases[i].live * tensor_bytes);
            uvcc_session_stats st =
                run(p, &c, cases[i].mbs,
                    &(triangle_options){.seed = i,
                                        .mode = mode == 0 ? UVCC_CPU_INLINE : UVCC_CPU_DEFERRED,
                                        .tweak = put_stage});
            assert_true(st.transient_peak_bytes <= bound);
            if (cases[i].mbs == 1)
                assert_int_equal(st.transient_peak_bytes, bound);
            uvcc_program_free(p);
            assert_int_equal(mem.live_blocks, 0);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_of_vectors), cmocka_unit_test(test_order_ahead),
        cmocka_unit_test(test_ordinals),         cmocka_unit_test(test_refused),
        cmocka_unit_test(test_reads_too_early),  cmocka_unit_test(test_hash),
        cmocka_unit_test(test_hash_heads),       cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
