/* SPDX-License-Identifier: Apache-2.0 */
/* Keys dealt ahead: by OTHER alone, in the order of the ops whatever order jobs end in, before
 * their step runs, as many bytes as the plans say; and where a stream of them goes. */
#include "triangle.h"

#include "exec/ops/dealing.h"
#include "exec/program/plan.h"

enum { IN_X = 1, OUT_Y = 10, OUT_D = 11, COUNT = 20000, OPS = 6 };

/* Three ops with keys, of several blocks each: TRUNCATE, RELU, ELEM_MUL. */
static uvcc_program *program(test_alloc *mem) {
    const uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    char why[256] = "";
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = test_tensor(p, "x", 1, COUNT, 20, 8, UVCC_TRANSIENT);
    const uint32_t t = test_tensor(p, "t", 1, COUNT, 20, 4, UVCC_TRANSIENT);
    const uint32_t r = test_tensor(p, "r", 1, COUNT, 20, 4, UVCC_TRANSIENT);
    const uint32_t d = test_tensor(p, "d", 1, COUNT, 1, 0, UVCC_TRANSIENT);
    const uint32_t y = test_tensor(p, "y", 1, COUNT, 40, 6, UVCC_TRANSIENT);
    const uvcc_op_desc ops[] = {
        {.opcode = UVCC_OP_TRUNCATE,
         .in_count = 1,
         .out_count = 1,
         .in = {x},
         .out = {t},
         .shift = 4},
        {.opcode = UVCC_OP_RELU, .k = 1, .in_count = 1, .out_count = 2, .in = {t}, .out = {r, d}},
        {.opcode = UVCC_OP_ELEM_MUL,
         .k = 2,
         .in_count = 2,
         .out_count = 1,
         .in = {r, t},
         .out = {y},
         .shift = 2}};
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, IN_X, x, 0) >= 0);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        assert_true(uvcc_program_op(p, &ops[i]) >= 0);
    assert_true(uvcc_program_output(p, OUT_Y, y) >= 0);
    assert_true(uvcc_program_output(p, OUT_D, d) >= 0);
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

/* What the tracers heard, by party. */
static struct {
    uint32_t sent, op[8], step[8];
    uint64_t bytes[8];
} heard[3];

static void on_trace(void *user, const uvcc_op_trace *t) {
    const unsigned party = (unsigned)(uintptr_t)user;
    if (t->kind != UVCC_TRACE_SENT || t->work != UVCC_TRACE_KEYS)
        return;
    const uint32_t n = heard[party].sent++;
    assert_true(n < 8);
    heard[party].op[n] = t->op;
    heard[party].step[n] = t->step;
    heard[party].bytes[n] = t->bytes;
}

static void listen(uvcc_config *cfg) {
    cfg->trace.op = on_trace;
    cfg->trace.user = (void *)(uintptr_t)cfg->identity.party;
}

static const uvcci_step *step_of(const triangle *t, unsigned party, uint32_t step) {
    const uvcci_step *st = &t->s[party]->ctx[step & 1];
    return st->active && st->number == step ? st : NULL;
}

/* Far more than dealing takes; sessions that wait keep their links alive, so there is no end. */
static void turn(triangle *t) {
    for (unsigned i = 0; i < 500; i++)
        (void)triangle_turn(t);
}

static uint64_t planned_bytes(const uvcc_session *s, const uvcci_instance *r) {
    uint64_t sum = 0;
    for (unsigned g = 0; g < r->plan->key_count; g++) {
        const uvcci_plan_round *round = &r->plan->rounds[r->plan->round_count + g];
        uvcci_plan_tlv *list = malloc(uvcci_plan_tlvs_max(r->plan, round) * sizeof *list);
        for (uint32_t part = 0; part < round->parts; part++)
            for (uint8_t dst = 0; dst < 3; dst++) {
                size_t bytes;
                if (dst != s->party &&
                    uvcci_plan_list(r->plan, &r->ids, round, part, s->party, dst, list, &bytes))
                    sum += bytes;
            }
        free(list);
    }
    return sum;
}

static void run(uint64_t seed, uvcc_cpu_mode mode) {
    test_alloc mem = {0};
    uvcc_program *p = program(&mem);
    const triangle_options opt = {
        .seed = seed, .compute_seed = seed, .mode = mode, .tweak = listen};
    int64_t *x = calloc(COUNT, sizeof *x);
    uint64_t planned[3][OPS] = {{0}};
    triangle t;
    memset(heard, 0, sizeof heard);
    triangle_open(&t, p, &opt);
    triangle_ready(&t);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(uvcc_session_step(t.s[i], 0, 0, 0), 0);
        const uvcci_step *st = step_of(&t, i, 0);
        assert_non_null(st);
        assert_int_equal(st->entry->op_count, OPS);
        for (uint32_t k = 0; k < OPS; k++)
            planned[i][k] = planned_bytes(t.s[i], &st->instances[k]);
    }
    turn(&t); /* without its input no op can start, so this is all dealing */
    for (unsigned i = 0; i < 3; i++) {
        const uvcci_step *st = step_of(&t, i, 0);
        uint32_t n = 0;
        assert_int_equal(st->instances_done, 0);
        assert_int_equal(st->deals_sent, OPS);
        for (uint32_t k = 0; k < OPS; k++) {
            assert_true(st->instances[k].deal_done);
            assert_null(st->instances[k].deal_buf);
            assert_null(st->instances[k].deal_out);
            if (planned[i][k] == 0)
                continue;
            assert_true(n < heard[i].sent);
            assert_int_equal(heard[i].op[n], k); /* in the order of the ops */
            assert_int_equal(heard[i].bytes[n++], planned[i][k]);
        }
        assert_int_equal(n, heard[i].sent);
        assert_true(n != 0);
    }
    assert_int_equal(uvcc_session_input(t.s[0], 0, IN_X, x, 0), 0);
    triangle_finish(&t, 1);
    triangle_close(&t);
    free(x);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

static void test_order_and_bytes(void **state) {
    (void)state;
    run(1, UVCC_CPU_INLINE);
    for (uint64_t seed = 2; seed < 8; seed++)
        run(seed, UVCC_CPU_DEFERRED);
}

/* The keys of the next step go out while this one waits. */
static void test_ahead(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = program(&mem);
    const triangle_options opt = {.seed = 5, .tweak = listen};
    triangle t;
    memset(heard, 0, sizeof heard);
    triangle_open(&t, p, &opt);
    triangle_ready(&t);
    for (uint32_t step = 0; step < 2; step++)
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(uvcc_session_step(t.s[i], step, 0, 0), 0);
    turn(&t);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(t.finished[i], 0);
        assert_false(step_of(&t, i, 1)->running);
        assert_int_equal(step_of(&t, i, 1)->deals_sent, OPS);
        for (uint32_t n = 1; n < heard[i].sent; n++)
            assert_true(heard[i].step[n] >= heard[i].step[n - 1]);
        assert_int_equal(heard[i].step[heard[i].sent - 1], 1);
    }
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* A stream is for HEAD or TAIL of a block whose OTHER this party is; streams do not overlap. */
static void test_streams(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = program(&mem);
    triangle t;
    triangle_open(&t, p, NULL);
    triangle_ready(&t);
    assert_int_equal(uvcc_session_step(t.s[0], 0, 0, 0), 0);
    uvcci_instance *r = &step_of(&t, 0, 0)->instances[2]; /* RELU */
    uvcci_bump bump;
    uint8_t buf[1];
    uvcci_bump_init(&bump, &t.s[0]->alloc);
    uvcci_deal d = {.r = r, .dst = {1, 2}};
    for (unsigned k = 0; k < 2; k++) {
        d.at[k] = uvcci_key_table(r, &bump);
        d.total[k] = uvcci_key_offsets(r, 0, d.dst[k], &bump, k == 0 ? 0 : d.total[0], d.at[k]);
    }
    r->deal_buf = buf; /* only addresses are looked at */
    r->deal_bytes = d.total[0] + d.total[1];
    uint64_t sum = 0;
    unsigned dealt = 0;
    for (uint32_t b = 0; b < r->plan->blocks; b++) {
        uint8_t *head = uvcci_deal_stream(t.s[0], &d, 0, b, UVCC_HEAD);
        uint8_t *tail = uvcci_deal_stream(t.s[0], &d, 0, b, UVCC_TAIL);
        assert_int_equal(head != NULL, uvcci_role_at(t.s[0], r, b) == UVCCI_OTHER);
        assert_int_equal(tail != NULL, head != NULL);
        if (head == NULL)
            continue;
        dealt++;
        /* what goes to one party stands together */
        const bool to_next = uvcci_party_of(UVCCI_HEAD, r->ids.edge[b]) == d.dst[0];
        assert_int_equal((size_t)(head - buf) < d.total[0], to_next);
        const uvcci_plan_round *round = uvcci_keys_round(r, 0);
        sum += uvcci_plan_key_bytes(r->plan, round, b, UVCC_HEAD);
        sum += uvcci_plan_key_bytes(r->plan, round, b, UVCC_TAIL);
    }
    assert_true(dealt != 0 && dealt != r->plan->blocks);
    assert_int_equal(sum, r->deal_bytes);
    r->deal_buf = NULL;
    uvcci_bump_reset(&bump);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_bytes),
        cmocka_unit_test(test_ahead),
        cmocka_unit_test(test_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
