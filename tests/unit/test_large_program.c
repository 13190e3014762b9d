/* SPDX-License-Identifier: Apache-2.0 */
/* test_large_program.c - programs as large as models are: a training step of 48 layers and 64
 * microbatches, built, looked at and loaded in bounded memory, and a step of it opened; and a step
 * of more inputs, outputs and ops of UPD than one block or page has numbers for, run. */
#include "triangle.h"

#include <inttypes.h>
#include <uvcc/transformer.h>

#include "exec/program/plan_make.h"
#include "exec/program/plan_pool.h"
#include "exec/runtime/core.h"
#include "exec/session/step.h"

enum { MOST_BYTES = 500000000, MOST_OF_INSTANCE = 700 };

/* ---- 48 layers, 64 microbatches ---- */

static uvcc_transformer_config deep(uint32_t layers, uint32_t microbatches) {
    uvcc_transformer_config c;
    assert_int_equal(uvcc_transformer_default(&c, sizeof c), 0);
    c.layers = layers;
    c.microbatches = microbatches;
    c.batch = microbatches;
    c.dim = 32;
    return c;
}

static uvcc_program *build(const uvcc_transformer_config *c, test_alloc *mem) {
    const uvcc_transformer_worker w = {0, 0, 0};
    const uvcc_allocator al = test_allocator(mem);
    uvcc_program *p = NULL;
    char message[256];
    if (uvcc_transformer_program(&p, c, &w, &al, message, sizeof message) != 0)
        fail_msg("%s", message);
    return p;
}

static void it_builds_and_loads(void **state) {
    (void)state;
    test_alloc mem = {0};
    uint64_t random = 1, bytes = 0;
    const uvcc_transformer_config c = deep(48, 64);
    uvcc_program *p = build(&c, &mem);
    print_message("built in %zu MB, %zu MB stay\n", mem.peak_bytes >> 20, mem.live_bytes >> 20);
    assert_true(mem.peak_bytes < MOST_BYTES);
    const uint32_t train = (uint32_t)uvcc_program_find_entry(p, "train"),
                   reveal = (uint32_t)uvcc_program_find_entry(p, "reveal");
    assert_true(uvcc_program_tensor_count(p) > 150000);
    assert_true(uvcc_program_op_count(p, train) > 250000);
    assert_int_equal(uvcc_program_input_count(p, train), 2 * 64);
    assert_int_equal(uvcc_program_output_count(p, reveal), uvcc_transformer_weight_count(&c));

    mem.peak_bytes = mem.live_bytes;
    assert_int_equal(uvcc_program_memory(p, train, &bytes), 0);
    assert_true(bytes > 0 && mem.peak_bytes < MOST_BYTES);

    /* plans by the session: as many as there are forms of ops */
    uvcc_config cfg = triangle_config_alone(&mem, &random);
    uvcc_session *s = NULL;
    mem.peak_bytes = mem.live_bytes;
    assert_int_equal(uvcc_session_new(&s, &cfg), 0);
    assert_int_equal(uvcc_session_load_program(s, p), 0);
    print_message("with a session %zu MB\n", mem.peak_bytes >> 20);
    assert_true(s->plan_pool.count < 500);
    assert_true(mem.peak_bytes < MOST_BYTES);

    /* a step, all tables of its instances: two are open at a time */
    const size_t before = mem.live_bytes;
    assert_int_equal(uvcci_step_open(s, 0, train), 0);
    const size_t each = (mem.live_bytes - before) / s->ctx[0].instance_count;
    print_message("%" PRIu32 " instances of %zu bytes\n", s->ctx[0].instance_count, each);
    assert_true(s->ctx[0].instance_count > 250000 && each <= MOST_OF_INSTANCE);
    uvcci_step_free(s, &s->ctx[0]);
    assert_true(s->cfg.limits.leaves_max > 1u << 22); /* it has more than are usual */
    uvcc_session_free(s);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* Four times the microbatches take the same at a time, four times the window more. */
static void the_bound_goes_with_the_window(void **state) {
    (void)state;
    uint64_t of[3] = {0};
    static const uint32_t ahead[] = {0, 0, 3}, microbatches[] = {8, 32, 32};
    for (unsigned i = 0; i < 3; i++) {
        test_alloc mem = {0};
        uvcc_transformer_config c = deep(6, microbatches[i]);
        c.batch = 4 * c.microbatches;
        c.optimizer = UVCC_OPTIMIZER_SGD;
        c.ahead = ahead[i];
        c.clip = 0;
        c.loss = 0; /* what only a loss waits for may wait until the end of the step */
        uvcc_program *p = build(&c, &mem);
        assert_int_equal(uvcc_program_memory(p, 0, &of[i]), 0);
        uvcc_program_free(p);
        assert_int_equal(mem.live_blocks, 0);
    }
    print_message("%" PRIu64 " %" PRIu64 " %" PRIu64 " KiB\n", of[0] >> 10, of[1] >> 10,
                  of[2] >> 10);
    assert_int_equal(of[1], of[0]);
    assert_true(of[2] > of[1] && of[2] <= 4 * of[1]);
}

/* ---- a plan of the pool is the op's own ---- */

static void assert_same_plan(const uvcci_plan *a, const uvcci_plan *b) {
    assert_ptr_equal(a->cls, b->cls);
    assert_ptr_equal(a->way, b->way);
    assert_ptr_equal(a->function, b->function);
    assert_int_equal(a->elems, b->elems);
    assert_int_equal(a->edge_blocks, b->edge_blocks);
    assert_int_equal(a->fixed_edge, b->fixed_edge);
    assert_int_equal(a->tasks_max, b->tasks_max);
    assert_int_equal(a->gate, b->gate);
    assert_int_equal(a->shift, b->shift);
    assert_int_equal(a->bits, b->bits);
    assert_int_equal(a->lift, b->lift);
    assert_int_equal(a->turns, b->turns);
    assert_int_equal(a->beaver.on, b->beaver.on);
    for (unsigned k = 0; k < 2; k++)
        assert_int_equal(a->beaver.mask[k].op, b->beaver.mask[k].op);
    assert_int_equal(a->round_count, b->round_count);
    assert_int_equal(a->key_count, b->key_count);
    assert_int_equal(a->id_count, b->id_count);
    assert_int_equal(a->batches, b->batches);
    assert_int_equal(a->online_bytes_max, b->online_bytes_max);
    assert_int_equal(a->key_bytes_max, b->key_bytes_max);
    assert_int_equal(a->cut_bytes, b->cut_bytes);
    assert_int_equal(a->messages_max, b->messages_max);
    for (unsigned i = 0; i < (unsigned)a->round_count + a->key_count; i++) {
        const uvcci_plan_round *x = &a->rounds[i], *y = &b->rounds[i];
        assert_int_equal(x->kind, y->kind);
        assert_int_equal(x->elems, y->elems);
        assert_int_equal(x->parts, y->parts);
        assert_int_equal(x->b_base, y->b_base);
        assert_int_equal(x->vec_count, y->vec_count);
        for (unsigned v = 0; v < x->vec_count; v++)
            assert_int_equal(x->vec[v].bits, y->vec[v].bits);
    }
}

static void pooled_plans(void **state) {
    (void)state;
    static const uvcc_products products[] = {UVCC_PRODUCTS_NATIVE, UVCC_PRODUCTS_BEAVER};
    for (unsigned i = 0; i < 4; i++) {
        test_alloc mem = {0};
        uvcc_transformer_config c = deep(2, 2);
        c.products = products[i % 2];
        c.truncation = i < 2 ? UVCC_TRUNC_EXACT : UVCC_TRUNC_STOCHASTIC;
        c.exact = i < 2;
        c.sks = i == 0 ? 500 : 0;
        uvcc_program *p = build(&c, &mem);
        const uvcc_allocator al = test_allocator(&mem);
        uvcci_plan_pool pool = {0};
        for (uint32_t e = 0; e < p->entry_count; e++)
            for (uint32_t k = 0; k < p->entries[e].op_count; k++) {
                const uvcci_entry *entry = &p->entries[e];
                const uvcci_plan *pooled = NULL;
                uvcci_plan own;
                assert_int_equal(uvcci_plan_pool_get(&pool, p, entry, &entry->ops[k], &al, &pooled),
                                 0);
                assert_int_equal(uvcci_plan_make(&own, p, entry, &entry->ops[k], &al), 0);
                assert_same_plan(pooled, &own);
                uvcci_plan_free(&own, &al);
            }
        assert_true(pool.count != 0);
        uvcci_plan_pool_free(&pool, &al);
        uvcc_program_free(p);
        assert_int_equal(mem.live_blocks, 0);
    }
}

/* Whichever allocation of the pool fails, it can be freed. */
static void pool_without_memory(void **state) {
    (void)state;
    test_alloc mem = {0};
    const uvcc_transformer_config c = deep(1, 1);
    uvcc_program *p = build(&c, &mem);
    const uvcc_allocator al = test_allocator(&mem);
    const size_t live = mem.live_blocks;
    int rc = UVCC_ERR_NOMEM;
    for (size_t fail_at = 1; rc != 0; fail_at++) {
        uvcci_plan_pool pool = {0};
        const uvcci_plan *plan;
        mem.fail_at = fail_at;
        rc = 0;
        for (uint32_t k = 0; k < p->entries[0].op_count && rc == 0; k++)
            rc = uvcci_plan_pool_get(&pool, p, &p->entries[0], &p->entries[0].ops[k], &al, &plan);
        assert_true(rc == 0 || rc == UVCC_ERR_NOMEM);
        uvcci_plan_pool_free(&pool, &al);
        assert_int_equal(mem.live_blocks, live);
    }
    mem.fail_at = 0;
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* ---- more of everything than one block of k has numbers for ---- */

enum { INPUTS = 300, MBS = 2 };

static int64_t value_of(uint32_t i) {
    return (int64_t)i * 7 - 900;
}

/* SUM = all inputs, added up in UPD on two pages; every input is opened again, every third to party
 * 2 alone. */
static uvcc_program *many(test_alloc *mem) {
    const uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    char name[16], message[256];
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    for (uint32_t i = 0; i < INPUTS; i++) {
        snprintf(name, sizeof name, "t%u", i);
        (void)test_tensor(p, name, 1, 1, 20, 0, UVCC_TRANSIENT);
    }
    const uint32_t sum = test_tensor(p, "SUM", 1, 1, 40, 0, UVCC_PERSIST);
    assert_int_equal(uvcc_program_entry(p, "go"), 0);
    for (uint32_t i = 0; i < INPUTS; i++)
        assert_true(uvcc_program_input_mb(p, i, i, (uint8_t)(i % 3), (uint16_t)(i % MBS)) >= 0);
    for (uint32_t i = 0; i < INPUTS; i++) {
        const uvcc_op_desc add = {.opcode = UVCC_OP_ADD,
                                  .phase = UVCC_UPD,
                                  .mb = (uint16_t)(i / 200),
                                  .k = (uint16_t)(i % 200),
                                  .in_count = 2,
                                  .in = {sum, i},
                                  .out_count = 1,
                                  .out = {sum}};
        assert_true(uvcc_program_op(p, &add) >= 0);
    }
    assert_true(uvcc_program_output(p, INPUTS, sum) >= 0);
    for (uint32_t i = 0; i < INPUTS; i++)
        assert_true(
            (i % 3 == 2 ? uvcc_program_output_to(p, i, i, 2) : uvcc_program_output(p, i, i)) >= 0);
    if (uvcc_program_finish(p, message, sizeof message) != 0)
        fail_msg("%s", message);
    return p;
}

static void they_run(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = many(&mem);
    triangle t;
    triangle_open(&t, p, &(triangle_options){.seed = 3, .datagram = true});
    triangle_ready(&t);
    for (uint32_t step = 0; step < 2; step++) {
        triangle_agree(&t, step, 0);
        for (uint32_t i = 0; i < INPUTS; i++) {
            const int64_t v = value_of(i);
            triangle_input(&t, i % 3, step, i, &v);
        }
        triangle_finish(&t, step + 1);
        int64_t sum = 0;
        for (uint32_t i = 0; i < INPUTS; i++) {
            sum += value_of(i) * (step + 1);
            for (unsigned party = 0; party < 3; party++) {
                const int64_t *v = uvcc_session_output(t.s[party], step, i);
                assert_true((v != NULL) == (i % 3 != 2 || party == 2));
                if (v != NULL)
                    assert_int_equal(*v, value_of(i));
            }
        }
        assert_int_equal(*uvcc_session_output(t.s[1], step, INPUTS), sum);
    }
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_builds_and_loads),
        cmocka_unit_test(the_bound_goes_with_the_window),
        cmocka_unit_test(pooled_plans),
        cmocka_unit_test(pool_without_memory),
        cmocka_unit_test(they_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
