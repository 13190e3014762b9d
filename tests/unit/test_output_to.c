/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs to one party: who has the value and who has not, what it costs, what is left in the
 * transcript, and that a wrong opening is noticed. That auditors know them is test_audit's. */
#include "triangle.h"

#include "exec/program/plan.h"
#include "proto/bundle.h"
#include "proto/crypto.h"
#include <uvcc/compute.h>
#include <uvcc/frame.h>

enum { ID_X = 1, ID_ALL = 2, ID_TO = 10 /* + receiver */, TENSORS = 5, STEPS = 2 };

static int op_to(uvcc_program *p, uint16_t opcode, uint8_t k, uint8_t block, uint32_t x,
                 uint32_t out) {
    uvcc_op_desc op = {.opcode = opcode,
                       .phase = block != 0 ? UVCC_UPD : UVCC_FWD,
                       .k = (uint16_t)(256 * block + k),
                       .in_count = 2,
                       .out_count = 1,
                       .in = {x, x},
                       .out = {out}};
    return uvcc_program_op(p, &op);
}

/* X of party 0; X + X to all and to each of the parties. */
static uvcc_program *program_of(const uvcc_allocator *al, uint32_t cols) {
    static const char *const names[TENSORS] = {"X", "ALL", "TO0", "TO1", "TO2"};
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, al), 0);
    for (uint32_t i = 0; i < TENSORS; i++) {
        uvcc_tensor_desc d = {.name = names[i],
                              .rows = 1,
                              .cols = cols,
                              .bits = (uint8_t)(i == 0 ? 40 : 41),
                              .lifetime = UVCC_TRANSIENT,
                              .in_buffer_of = UVCC_NO_TENSOR};
        assert_int_equal(uvcc_program_tensor(p, &d), i);
    }
    assert_int_equal(uvcc_program_entry(p, "run"), 0);
    assert_int_equal(uvcc_program_input(p, ID_X, 0, 0), 0);
    for (uint32_t i = 1; i < TENSORS; i++)
        assert_true(op_to(p, UVCC_OP_ADD, (uint8_t)i, 0, 0, i) >= 0);
    /* out of the order of their blocks */
    assert_int_equal(uvcc_program_output_to(p, ID_TO + 2, 4, 2), 0);
    assert_int_equal(uvcc_program_output(p, ID_ALL, 1), 1);
    assert_int_equal(uvcc_program_output_to(p, ID_TO, 2, 0), 2);
    assert_int_equal(uvcc_program_output_to(p, ID_TO + 1, 3, 1), 3);
    assert_int_equal(uvcc_program_finish(p, NULL, 0), 0);
    return p;
}

static int64_t value_of(uint32_t i) {
    return (int64_t)(i * 2654435761u) - (1ll << 31);
}

/* What OUTPUT events said, by party; the leaves of openings of outputs to one. */
typedef struct seen {
    uint32_t events[3];
    uint8_t digest[STEPS][32]; /* of the output to party 1 */
    uint32_t done[3];
} seen;

static void on_event(void *user, unsigned party, const uvcc_session *s, const uvcc_event *e) {
    seen *o = user;
    if (e->kind != UVCC_EVENT_OUTPUT)
        return;
    o->events[party]++;
    assert_true(e->id == ID_ALL || e->id == ID_TO + party);
    assert_non_null(uvcc_session_output(s, e->step, e->id));
}

static void on_bundle(void *user, unsigned party, uint32_t step, const uint8_t *bytes, size_t len) {
    seen *o = user;
    uvcc_bundle b;
    uvcc_leaf_reader at;
    uvcc_leaf l;
    assert_int_equal(uvcc_bundle_decode(&b, bytes, len, NULL), 0);
    uvcc_leaf_reader_init(&at, &b);
    while (uvcc_leaf_next(&at, &l) == 1) {
        uvcci_oprow row;
        uvcci_oprow_get(&row, b.rows + (size_t)l.row * UVCCI_OPROW_BYTES);
        if (l.type != UVCC_LEAF_OPEN_DONE || row.k >> 8 != UVCCI_BLOCK_TO_ONE)
            continue;
        o->done[party]++;
        if (party == 1)
            memcpy(o->digest[step], l.stored + l.stored_len - 32, 32);
    }
}

static void check_values(const triangle *t, uint32_t step, uint32_t cols) {
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t to = 0; to < 4; to++) {
            const int64_t *v = uvcc_session_output(t->s[i], step, to == 3 ? ID_ALL : ID_TO + to);
            if (to != 3 && to != i) {
                assert_null(v);
                continue;
            }
            assert_non_null(v);
            for (uint32_t k = 0; k < cols; k++)
                assert_true(v[k] == 2 * value_of(k));
        }
}

static void run(uint32_t cols, triangle_options opt) {
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = program_of(&al, cols);
    seen o = {0};
    triangle t;
    opt.on_event = on_event;
    opt.on_bundle = opt.audit_off ? NULL : on_bundle;
    opt.user = &o;
    int64_t *v = calloc(cols, sizeof *v);
    for (uint32_t i = 0; i < cols; i++)
        v[i] = value_of(i);
    triangle_open(&t, p, &opt);
    triangle_ready(&t);
    for (uint32_t step = 0; step < STEPS; step++) {
        triangle_agree(&t, step, 0);
        triangle_input(&t, 0, step, ID_X, v);
        triangle_finish(&t, step + 1);
        check_values(&t, step, cols);
    }
    triangle_close(&t);
    const uint32_t segments = (cols + UVCCI_SEGMENT_ELEMS - 1) / UVCCI_SEGMENT_ELEMS;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(o.events[i], 2 * STEPS);
        assert_int_equal(o.done[i], opt.audit_off ? 0 : STEPS * segments);
    }
    if (!opt.audit_off) { /* of equal values: who guesses them cannot confirm it */
        uint8_t plain[32];
        for (uint32_t i = 0; i < cols; i++)
            v[i] = 2 * value_of(i);
        uvcci_sha256_once((const uint8_t *)v, cols * sizeof *v, plain);
        assert_memory_not_equal(o.digest[0], o.digest[1], 32);
        assert_memory_not_equal(o.digest[0], plain, 32);
    }
    triangle_free(&t);
    uvcc_program_free(p);
    free(v);
    assert_int_equal(mem.live_blocks, 0);
}

static void one_has_it(void **state) {
    (void)state;
    run(5, (triangle_options){.seed = 1});
    run(2 * 4096 + 3, (triangle_options){.seed = 2, .mode = UVCC_CPU_DEFERRED, .compute_seed = 4});
    run(257 * 4096, (triangle_options){.seed = 3}); /* two messages */
    run(70, (triangle_options){.seed = 4, .audit_off = true});
    run(4097, (triangle_options){.seed = 5,
                                 .datagram = true,
                                 .faulty = true,
                                 .faults = {.drop = 0.1, .duplicate = 0.1}});
}

/* ---- cost ---- */

static void a_third_of_all(void **state) {
    (void)state;
    enum { COLS = 3 * 4096 };
    uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p = program_of(&al, COLS);
    uint32_t outputs = 0, rounds;
    for (uint32_t i = 0; i < uvcc_program_op_count(p, 0); i++) {
        const uint16_t opcode = uvcc_program_op_at(p, 0, i)->opcode;
        uvcc_op_cost c;
        assert_int_equal(uvcc_program_cost(p, 0, i, &c), 0);
        if (opcode != UVCC_OP_OUTPUT && opcode != UVCC_OP_OUTPUT_TO)
            continue;
        outputs++;
        assert_int_equal(c.rounds, 1);
        assert_int_equal(c.online_bytes, opcode == UVCC_OP_OUTPUT ? 24 * COLS : 8 * COLS);
        assert_int_equal(c.preprocessing_bytes, 0);
        assert_int_equal(c.messages, opcode == UVCC_OP_OUTPUT ? 6 : 2);
    }
    assert_int_equal(outputs, 4);
    assert_int_equal(uvcc_program_rounds(p, 0, NULL, &rounds), 0);
    assert_int_equal(rounds, 2);
    uvcc_program_free(p);
}

/* ---- programs ---- */

static uvcc_program *with_receiver(const uvcc_allocator *al, uint8_t receiver, uint16_t upd_block,
                                   int want) {
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, al), 0);
    uvcc_tensor_desc d = {.name = "X",
                          .rows = 1,
                          .cols = 1,
                          .bits = 3,
                          .lifetime = UVCC_TRANSIENT,
                          .in_buffer_of = UVCC_NO_TENSOR};
    assert_int_equal(uvcc_program_tensor(p, &d), 0);
    d.name = "Y";
    d.bits = 4;
    assert_int_equal(uvcc_program_tensor(p, &d), 1);
    assert_int_equal(uvcc_program_entry(p, "run"), 0);
    assert_int_equal(uvcc_program_input(p, ID_X, 0, 0), 0);
    assert_true(op_to(p, UVCC_OP_ADD, 0, (uint8_t)upd_block, 0, 1) >= 0);
    assert_int_equal(receiver == UVCC_TO_ALL ? uvcc_program_output(p, 2, 1)
                                             : uvcc_program_output_to(p, 2, 1, receiver),
                     0);
    assert_int_equal(uvcc_program_finish(p, NULL, 0), want);
    return p;
}

static void programs(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    static const uint8_t receivers[4] = {0, 1, 2, UVCC_TO_ALL};
    uint8_t hash[4][32];
    uvcc_program *p = NULL;
    for (unsigned i = 0; i < 4; i++) {
        p = with_receiver(&al, receivers[i], 1, 0);
        uvcc_program_hash(p, hash[i]);
        assert_int_equal(uvcc_program_output_at(p, 0, 0)->receiver, receivers[i]);
        for (unsigned k = 0; k < i; k++)
            assert_memory_not_equal(hash[i], hash[k], 32);
        uvcc_program_free(p);
    }
    uvcc_program_free(with_receiver(&al, 1, 255, UVCC_ERR_PROGRAM));
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    assert_int_equal(uvcc_program_entry(p, "run"), 0);
    assert_int_equal(uvcc_program_output_to(p, 1, 0, 3), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_output_to(p, 1, 0, UVCC_TO_ALL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_output_to(NULL, 1, 0, 0), UVCC_ERR_USAGE);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* ---- lies ---- */

enum { RECEIVER = 1, SENDS = 2, HASHES = 0 };

/* The party that spoils what it sends of the output to RECEIVER. */
typedef struct liar {
    unsigned party;
    uint32_t ordinal;
    bool spoilt;
} liar;

static void spoil(void *user, unsigned party, const uvcc_job *job, uint32_t task, bool done) {
    liar *l = user;
    const uvcc_task *t = &job->tasks[task];
    if (!done || party != l->party || l->spoilt || t->ordinal != l->ordinal)
        return;
    if (t->kind == UVCC_TASK_PACK && party == SENDS) {
        t->u.vec.blocks[0].wire_out[0][3] ^= 1;
        l->spoilt = true;
    } else if (t->kind == UVCC_TASK_HASH && party == HASHES && t->u.hash.items[0].prefix_len != 0) {
        t->u.hash.items[0].out[5] ^= 1;
        l->spoilt = true;
    }
}

static void a_wrong_opening_is_noticed(void **state) {
    (void)state;
    static const unsigned liars[] = {SENDS, HASHES};
    static const int64_t x[3] = {1, 2, 3};
    for (unsigned i = 0; i < 2; i++) {
        test_alloc mem = {0};
        uvcc_allocator al = test_allocator(&mem);
        uvcc_program *p = program_of(&al, 3);
        /* input, four sums, the output to all, those to one by their index */
        liar l = {.party = liars[i], .ordinal = 8};
        triangle t;
        triangle_open(&t, p,
                      &(triangle_options){.seed = 3, .wired = true, .on_task = spoil, .user = &l});
        triangle_ready(&t);
        triangle_agree(&t, 0, 0);
        triangle_input(&t, 0, 0, ID_X, x);
        triangle_settle(&t);
        assert_true(l.spoilt);
        assert_int_equal(t.aborted[RECEIVER], UVCC_ABORT_OPEN_MISMATCH);
        assert_int_equal(t.aborted[SENDS], UVCC_ABORT_PEER);
        triangle_free(&t);
        uvcc_program_free(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_has_it),
        cmocka_unit_test(a_third_of_all),
        cmocka_unit_test(programs),
        cmocka_unit_test(a_wrong_opening_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
