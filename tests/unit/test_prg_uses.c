/* SPDX-License-Identifier: Apache-2.0 */
/* Words of key streams that are read twice: what counts as that, and that a session which looks
 * ends before such a job goes out, and says which op, task, block and stream.
 * tests/sim/session_mutants.sh plants bugs in whole sessions. */
#include "triangle.h"

#include "exec/runtime/prg_check.h"
#include <uvcc/prg_uses.h>

static uvcc_step_keys keys;

static uvcc_task random_task(const uvcc_block *b, uint32_t count) {
    return (uvcc_task){.kind = UVCC_TASK_RANDOM,
                       .ordinal = 7,
                       .call = 2,
                       .keys = &keys,
                       .u.vec = {.blocks = b, .count = count}};
}

static void test_places(void **state) {
    (void)state;
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcc_block b[2] = {{.block = 3, .count = 9, .role = UVCC_HEAD},
                       {.block = 4, .count = 1, .role = UVCC_HEAD}};
    uvcc_prg_use u;
    memset(&keys, 1, sizeof keys);
    memset(keys.prg[UVCC_PAIR_NEXT], 2, sizeof keys.prg[0]);
    for (unsigned by_key = 0; by_key < 2; by_key++) {
        uvcc_prg_uses *uses;
        assert_int_equal(uvcc_prg_uses_new(&uses, &al, by_key != 0), 0);
        uvcc_task t = random_task(b, 2);
        assert_int_equal(uvcc_prg_uses_task(uses, &t, &u), 0);
        t.kind = UVCC_TASK_INPUT; /* another lane */
        assert_int_equal(uvcc_prg_uses_task(uses, &t, &u), 0);
        t.kind = UVCC_TASK_RANDOM;
        t.call = 3;
        assert_int_equal(uvcc_prg_uses_task(uses, &t, &u), 0);
        t.ordinal = 8;
        assert_int_equal(uvcc_prg_uses_task(uses, &t, &u), 0);
        t = random_task(b + 1, 1);
        assert_int_equal(uvcc_prg_uses_task(uses, &t, &u), UVCC_ERR_REFUSED);
        assert_true(u.kind == UVCC_TASK_RANDOM && u.ordinal == 7 && u.call == 2 && u.block == 4);
        assert_true(u.count == 1 && u.pair == UVCC_PAIR_PREV && u.lane == 1);
        assert_string_equal(uvcc_prg_tag_name(u.tag), "input");
        t.kind = UVCC_TASK_GEMM; /* reads none */
        assert_int_equal(uvcc_prg_uses_task(uses, &t, &u), 0);
        t.kind = UVCC_TASK_KIND_END;
        assert_int_equal(uvcc_prg_uses_task(uses, &t, &u), UVCC_ERR_USAGE);
        uvcc_prg_uses_free(uses);
    }
    assert_null(uvcc_prg_tag_name(UVCC_TAG_COUNT));
    assert_int_equal(mem.live_blocks, 0);
}

/* One key under two names: told by keys it is one stream. Of other steps: two by keys. */
static void test_streams(void **state) {
    (void)state;
    const uvcc_allocator al = uvcc_host_allocator();
    const uvcc_block b = {.block = 3, .count = 9, .role = UVCC_HEAD};
    uvcc_prg_uses *by_key, *by_place;
    uvcc_prg_use u;
    memset(&keys, 1, sizeof keys);
    const uvcc_task t = random_task(&b, 1);
    assert_int_equal(uvcc_prg_uses_new(&by_key, &al, true), 0);
    assert_int_equal(uvcc_prg_uses_new(&by_place, &al, false), 0);
    assert_int_equal(uvcc_prg_uses_task(by_place, &t, &u), 0);
    assert_int_equal(uvcc_prg_uses_task(by_key, &t, &u), UVCC_ERR_REFUSED);
    memset(keys.prg[UVCC_PAIR_NEXT], 2, sizeof keys.prg[0]);
    memset(keys.prg[UVCC_PAIR_PREV], 3, sizeof keys.prg[0]);
    assert_int_equal(uvcc_prg_uses_task(by_key, &t, &u), 0);
    assert_int_equal(uvcc_prg_uses_task(by_place, &t, &u), UVCC_ERR_REFUSED);
    uvcc_prg_uses_free(by_key);
    uvcc_prg_uses_free(by_place);
}

/* A share of zero is a pad for one end: OPEN4_MASK and RESHARE_MASK read the same words. A mask's
 * words are read by several kinds, by each once. */
static void test_ends(void **state) {
    (void)state;
    const uvcc_allocator al = uvcc_host_allocator();
    const uvcc_block b = {.block = 0, .count = 9, .role = UVCC_TAIL};
    uvcc_prg_uses *uses;
    uvcc_prg_use u;
    uvcc_task t = random_task(&b, 1);
    assert_int_equal(uvcc_prg_uses_new(&uses, &al, false), 0);
    t.kind = UVCC_TASK_RESHARE_MASK;
    assert_int_equal(uvcc_prg_uses_task(uses, &t, &u), 0);
    t.kind = UVCC_TASK_OPEN4_MASK;
    assert_int_equal(uvcc_prg_uses_task(uses, &t, &u), UVCC_ERR_REFUSED);
    assert_string_equal(uvcc_prg_tag_name(u.tag), "zero");
    t.kind = UVCC_TASK_OPEN2_MASK;
    assert_int_equal(uvcc_prg_uses_task(uses, &t, &u), 0);
    t.kind = UVCC_TASK_RELU;
    assert_int_equal(uvcc_prg_uses_task(uses, &t, &u), 0);
    assert_int_equal(uvcc_prg_uses_task(uses, &t, &u), UVCC_ERR_REFUSED);
    assert_string_equal(uvcc_prg_tag_name(u.tag), "mask");
    uvcc_prg_uses_free(uses);
}

/* Instructions of a function share a key and read its roots as often as they like; a kind that does
 * not share it may not come before them or after. */
static void test_shared(void **state) {
    (void)state;
    const uvcc_allocator al = uvcc_host_allocator();
    const uvcc_block b = {.block = 0, .count = 9, .role = UVCC_HEAD};
    const uvcc_fn_args fn = {.call_key = 2, .call_bits = 2};
    static const struct {
        uint16_t shares, alone;
        uvcc_prg_tag tag;
    } cases[] = {
        {UVCC_TASK_FN_COMPARE, UVCC_TASK_LESS_MASK, UVCC_TAG_root},
        {UVCC_TASK_FN_TABLE, UVCC_TASK_FN_FLOOR, UVCC_TAG_root},
        {UVCC_TASK_FN_BITS, UVCC_TASK_TRUNC_EXACT, UVCC_TAG_select},
    };
    for (unsigned i = 0; i < 3; i++)
        for (unsigned first = 0; first < 2; first++) {
            uvcc_prg_uses *uses;
            uvcc_prg_use u;
            uvcc_task t = random_task(&b, 1);
            t.u.vec.fn = &fn;
            assert_int_equal(uvcc_prg_uses_new(&uses, &al, false), 0);
            t.kind = cases[i].alone;
            t.call = 2;
            if (first == 0)
                assert_int_equal(uvcc_prg_uses_task(uses, &t, &u), 0);
            t.kind = cases[i].shares;
            for (t.call = 3; t.call < 6 && first == 1; t.call++)
                assert_int_equal(uvcc_prg_uses_task(uses, &t, &u), 0);
            if (first == 1) {
                t.kind = cases[i].alone;
                t.call = 2;
            }
            assert_int_equal(uvcc_prg_uses_task(uses, &t, &u), UVCC_ERR_REFUSED);
            assert_true(u.tag == cases[i].tag && u.call == 2);
            uvcc_prg_uses_free(uses);
        }
}

/* Many places, each found again; refused memory is said, and nothing of it is lost. */
static void test_growth(void **state) {
    enum { MANY = 5000 };
    (void)state;
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcc_prg_uses *uses;
    uvcc_prg_use u;
    memset(&keys, 1, sizeof keys);
    assert_int_equal(uvcc_prg_uses_new(&uses, &al, false), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        const uvcc_block b = {.block = i, .count = 1, .role = UVCC_HEAD};
        const uvcc_task t = random_task(&b, 1);
        assert_int_equal(uvcc_prg_uses_task(uses, &t, &u), 0);
        assert_true(mem.peak_bytes <= uvcci_prg_check_bound(2 * (i + 1)));
    }
    for (uint32_t i = 0; i < MANY; i++) {
        const uvcc_block b = {.block = i, .count = 1, .role = UVCC_HEAD};
        const uvcc_task t = random_task(&b, 1);
        assert_int_equal(uvcc_prg_uses_task(uses, &t, &u), UVCC_ERR_REFUSED);
        assert_int_equal(u.block, i);
    }
    uvcc_prg_uses_free(uses);
    assert_int_equal(mem.live_blocks, 0);
}

/* ---- in a session ---- */

enum { COLS = UVCC_BLOCK_ELEMS + 5, BITS = 20 };

static uvcc_program *random_program(void) {
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t r = test_tensor(p, "R", 1, COLS, BITS + 2, 0, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_op(p, &(uvcc_op_desc){.name = "words",
                                                   .opcode = UVCC_OP_RANDOM,
                                                   .k = 1,
                                                   .out_count = 1,
                                                   .out = {r},
                                                   .shift = BITS}) >= 0);
    assert_true(uvcc_program_output(p, 1, r) >= 0);
    char why[256] = "";
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

static void looks(uvcc_config *c) {
    c->checks.prg_uses = 1;
}

typedef struct again {
    triangle *t;
    bool on, done, let;
} again;

/* Party 1 builds its job of RANDOM twice, as it seems to the check. */
static void build_again(void *user, unsigned party, const uvcc_job *job, uint32_t task, bool done) {
    again *a = user;
    if (!a->on || a->done || done || party != 1 || job->tasks[task].kind != UVCC_TASK_RANDOM)
        return;
    uvcc_session *s = a->t->s[1];
    for (unsigned i = 0; i < s->ctx[0].entry->op_count; i++)
        if (s->ctx[0].instances[i].tasks == job->tasks) {
            a->let = uvcci_prg_check(s, &s->ctx[0].instances[i], job->tasks, job->count);
            a->done = true;
        }
}

static void test_session(void **state) {
    (void)state;
    uvcc_program *p = random_program();
    for (unsigned on = 0; on < 2; on++) {
        triangle t;
        again a = {.t = &t, .on = on != 0};
        triangle_open(
            &t, p,
            &(triangle_options){
                .seed = 3, .wired = true, .tweak = looks, .on_task = build_again, .user = &a});
        triangle_ready(&t);
        triangle_agree(&t, 0, 0);
        if (!a.on) {
            triangle_finish(&t, 1);
            triangle_agree(&t, 1, 0); /* what was read went with its step */
            triangle_finish(&t, 2);
            triangle_free(&t);
            continue;
        }
        while (triangle_turn(&t))
            ;
        assert_true(a.done && !a.let);
        assert_int_equal(t.aborted[1], UVCC_ABORT_INTERNAL);
        assert_int_equal(t.aborted[0], UVCC_ABORT_PEER);
        assert_int_equal(t.aborted[2], UVCC_ABORT_PEER);
        assert_string_equal(uvcc_session_error_detail(t.s[1]),
                            "PRG words would be read twice: step 0, op words (RANDOM, FWD k 1), "
                            "task RANDOM, block 0 (elements 0 to 4095), stream input with the "
                            "party before, call 0, lane 1");
        triangle_free(&t);
    }
    uvcc_program_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places), cmocka_unit_test(test_streams),
        cmocka_unit_test(test_ends),   cmocka_unit_test(test_shared),
        cmocka_unit_test(test_growth), cmocka_unit_test(test_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
