/* SPDX-License-Identifier: Apache-2.0 */
/* Instances of ops as state machines: what must be over before a turn starts, what an instance
 * holds when, what it gives back; the owner's wait for an input; a full table of jobs; which salts
 * its commitments have. */
#include "triangle.h"

#include "exec/runtime/core.h"
#include "proto/bytes.h"
#include "proto/crypto.h"
#include "proto/link_session.h"

enum {
    IN_X = 1,
    IN_W = 2,
    OUT_S = 10,
    OUT_D = 11,
    COUNT = 9000,
    OPS_MAX = 16,
    BESIDE = 6,
    TURNS = 300
};

/* Every way of running an op but functions and checks: inputs, a product with a truncation, RELU by
 * keys and by a circuit, a local sum, a reshared product, outputs. */
static uvcc_program *program(test_alloc *mem) {
    const uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    char why[256] = "";
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = test_tensor(p, "x", 1, COUNT, 20, 8, UVCC_TRANSIENT);
    const uint32_t w = test_tensor(p, "w", 1, COUNT, 20, 8, UVCC_TRANSIENT);
    const uint32_t t = test_tensor(p, "t", 1, COUNT, 40, 8, UVCC_TRANSIENT);
    const uint32_t r = test_tensor(p, "r", 1, COUNT, 40, 8, UVCC_TRANSIENT);
    const uint32_t d = test_tensor(p, "d", 1, COUNT, 1, 0, UVCC_TRANSIENT);
    const uint32_t c = test_tensor(p, "c", 1, COUNT, 20, 8, UVCC_TRANSIENT);
    const uint32_t e = test_tensor(p, "e", 1, COUNT, 1, 0, UVCC_TRANSIENT);
    const uint32_t q = test_tensor(p, "q", 1, COUNT, 21, 8, UVCC_TRANSIENT);
    const uint32_t s = test_tensor(p, "s", 1, COUNT, 41, 8, UVCC_TRANSIENT);
    const uvcc_op_desc ops[] = {
        {.opcode = UVCC_OP_ELEM_MUL, .in = {x, w}, .out = {t}, .shift = 8},
        {.opcode = UVCC_OP_RELU, .in = {t}, .out = {r, d}},
        {.opcode = UVCC_OP_RELU, .in = {x}, .out = {c, e}, .flags = UVCC_OP_CIRCUIT},
        {.opcode = UVCC_OP_ELEM_MUL, .in = {c, e}, .out = {q}},
        {.opcode = UVCC_OP_ADD, .in = {r, q}, .out = {s}}};
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, IN_X, x, 0) >= 0);
    assert_true(uvcc_program_input(p, IN_W, w, 1) >= 0);
    for (uint16_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        uvcc_op_desc op = ops[i];
        op.k = i;
        op.out_count = op.opcode == UVCC_OP_RELU ? 2 : 1;
        op.in_count = op.opcode == UVCC_OP_RELU ? 1 : 2;
        assert_true(uvcc_program_op(p, &op) >= 0);
    }
    for (uint16_t i = 0; i < BESIDE; i++) { /* as many that do not wait for one another */
        char name[8];
        snprintf(name, sizeof name, "v%u", i);
        const uvcc_op_desc op = {.opcode = UVCC_OP_ELEM_MUL,
                                 .k = (uint16_t)(100 + i),
                                 .in_count = 2,
                                 .out_count = 1,
                                 .in = {x, w},
                                 .out = {test_tensor(p, name, 1, COUNT, 40, 16, UVCC_TRANSIENT)}};
        assert_true(uvcc_program_op(p, &op) >= 0);
    }
    assert_true(uvcc_program_output(p, OUT_S, s) >= 0);
    assert_true(uvcc_program_output(p, OUT_D, d) >= 0);
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

static uvcci_step *step_of(triangle *t, unsigned party, uint32_t step) {
    uvcci_step *st = &t->s[party]->ctx[step & 1];
    return st->active && st->number == step ? st : NULL;
}

static bool fresh(const uvcci_instance *r) {
    return r->turn == 0 && !r->job_out;
}

/* One instance, whenever the session stands still. */
static void check_instance(const uvcci_step *st, const uvcci_instance *r) {
    const uvcci_op_way *way = r->plan->way;
    const bool done = r->turn == UVCCI_TURN_DONE;
    assert_true(done || r->turn <= r->plan->turns);
    assert_true(!r->job_out || (!done && r->task_count != 0));
    if (!fresh(r))
        assert_int_equal(uvcci_run_of(r)->preds_left, 0);
    for (uint32_t k = 0; !done && k < r->op->succ_count; k++)
        assert_true(fresh(uvcci_instance_of(st, st->entry->succ[r->op->succ_first + k])));
    if (fresh(r) || done)
        assert_null(r->state);
    else
        assert_int_equal(r->state != NULL, way->state_bytes != 0);
    if (done)
        assert_null(r->keys);
    if (!r->job_out) { /* what a turn took, and what it sends, goes when its job is done */
        assert_null(r->out);
        assert_int_equal(uvcci_bump_bytes(&r->turn_bump), 0);
    }
}

/* Jobs that are out, by party, and the most there were at one time at one party. */
static int out[3], out_most;

static void count_jobs(void *user, const uvcc_op_trace *t) {
    int *n = &out[(uintptr_t)user];
    *n += t->kind == UVCC_TRACE_JOB_OUT;
    *n -= t->kind == UVCC_TRACE_JOB_DONE;
    assert_true(*n >= 0);
    out_most = *n > out_most ? *n : out_most;
}

/* The key of the trees is the step's: protocols.md, section 8. */
static void check_tree_key(const uvcc_session *s, const uvcci_step *st) {
    uint8_t text[64], want[32];
    uvcci_writer w = uvcci_writer_on(text, sizeof text);
    uvcci_put(&w, "UVCC_DPF_V1", 11);
    uvcci_put(&w, s->sid_sub, 32);
    uvcci_put32(&w, st->number);
    uvcci_sha256_once(text, w.len, want);
    assert_int_equal(sizeof st->keys.dpf, 32);
    assert_memory_equal(st->keys.dpf, want, 32);
}

static void check_step(triangle *t, uint8_t turn[3][OPS_MAX]) {
    for (unsigned i = 0; i < 3; i++) {
        const uvcci_step *st = step_of(t, i, 0);
        uint32_t done = 0;
        if (st == NULL)
            continue;
        check_tree_key(t->s[i], st);
        for (uint32_t k = 0; k < st->entry->op_count; k++) {
            const uvcci_instance *r = &st->instances[k];
            check_instance(st, r);
            assert_true(r->turn >= turn[i][k]);
            turn[i][k] = r->turn;
            done += r->turn == UVCCI_TURN_DONE;
        }
        assert_int_equal(st->instances_done, done);
    }
}

static void give_inputs(triangle *t, const int64_t *x) {
    assert_int_equal(uvcc_session_input(t->s[0], 0, IN_X, x, 0), 0);
    assert_int_equal(uvcc_session_input(t->s[1], 0, IN_W, x, 0), 0);
}

static void run(const triangle_options *opt, uint8_t root[3][32]) {
    test_alloc mem = {0};
    uvcc_program *p = program(&mem);
    uint8_t turn[3][OPS_MAX] = {{0}};
    int64_t *x = malloc(COUNT * sizeof *x);
    triangle t;
    for (int64_t k = 0; k < COUNT; k++)
        x[k] = 1000 - k;
    triangle_open(&t, p, opt);
    triangle_ready(&t);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(uvcc_session_step(t.s[i], 0, 0, 0), 0);
    give_inputs(&t, x);
    while (t.finished[0] + t.finished[1] + t.finished[2] != 3) {
        assert_true(triangle_turn(&t));
        check_step(&t, turn);
    }
    for (unsigned i = 0; i < 3; i++) {
        const int64_t *d = uvcc_session_output(t.s[i], 0, OUT_D);
        for (uint32_t k = 0; k < COUNT; k++) /* the product is a square */
            assert_int_equal(d[k], 1);
        assert_int_equal(t.s[i]->tensors.used_bytes, 0); /* no tensor persists here */
    }
    if (root != NULL)
        memcpy(root, t.root, sizeof t.root);
    triangle_close(&t);
    free(x);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

static void test_turns(void **state) {
    (void)state;
    run(&(triangle_options){.seed = 1}, NULL);
    for (uint64_t seed = 2; seed < 8; seed++)
        run(&(triangle_options){.seed = seed, .compute_seed = seed, .mode = UVCC_CPU_DEFERRED},
            NULL);
}

static void many_jobs(uvcc_config *cfg) {
    cfg->trace.op = count_jobs;
    cfg->trace.user = (void *)(uintptr_t)cfg->identity.party;
}

static void few_jobs(uvcc_config *cfg) {
    many_jobs(cfg);
    cfg->limits.jobs_max = 4; /* no session takes fewer */
}

/* Where the table of jobs is full an instance waits, and is looked at again. */
static void test_few_jobs(void **state) {
    (void)state;
    uint8_t root[2][3][32];
    out_most = 0;
    run(&(triangle_options){.seed = 3, .mode = UVCC_CPU_DEFERRED, .tweak = many_jobs}, root[0]);
    assert_true(out_most > 4);
    out_most = 0;
    run(&(triangle_options){.seed = 3, .mode = UVCC_CPU_DEFERRED, .tweak = few_jobs}, root[1]);
    assert_in_range(out_most, 2, 4);
    assert_memory_equal(root[0], root[1], sizeof root[0]);
}

/* The owner's turn 0 waits for its host; the others have nothing to do in theirs. */
static void test_input(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = program(&mem);
    int64_t *x = calloc(COUNT, sizeof *x);
    triangle t;
    triangle_open(&t, p, NULL);
    triangle_ready(&t);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(uvcc_session_step(t.s[i], 0, 0, 0), 0);
    for (unsigned turns = 0; turns < TURNS; turns++)
        (void)triangle_turn(&t);
    for (unsigned i = 0; i < 3; i++) {
        const uvcci_step *st = step_of(&t, i, 0);
        assert_true(st->running);
        for (unsigned k = 0; k < 2; k++) {
            const uvcci_instance *r = &st->instances[k];
            assert_int_equal(r->op->desc.opcode, UVCC_OP_INPUT);
            assert_false(r->job_out);
            assert_int_equal(r->turn, st->entry->inputs[k].owner == i ? 0 : 1);
            assert_null(r->rounds[0].held);
        }
        assert_int_equal(st->instances_done, 0);
    }
    give_inputs(&t, x);
    assert_int_equal(uvcc_session_input(t.s[0], 0, IN_X, x, 0), UVCC_ERR_STATE); /* once */
    triangle_finish(&t, 1);
    triangle_close(&t);
    free(x);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* Ops wait for room in a link, and leave that of messages that cannot wait: STEP, AUDIT, CANCEL. */
static void test_room(void **state) {
    (void)state;
    enum { OF_OPS = 6 * COUNT, BESIDE_RECORD = 100 };
    test_alloc mem = {0};
    uvcc_program *p = program(&mem);
    int64_t *x = calloc(COUNT, sizeof *x);
    uvcc_link_msg *m;
    triangle t;
    triangle_open(&t, p, NULL);
    triangle_ready(&t);
    uvcc_link *link = t.s[1]->peer[2].link;
    const uint64_t all = uvcci_link_config_of(link)->tx_online_bytes;
    const uint64_t len = all - UVCCI_SMALL_ROOM - OF_OPS - BESIDE_RECORD; /* ops send 8 COUNT */
    assert_int_equal(uvcc_link_msg_new(link, UVCC_FRAME_OPEN_BATCH, (uint32_t)len, &m), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(uvcc_session_step(t.s[i], 0, 0, 0), 0);
    give_inputs(&t, x);
    for (unsigned turns = 0; turns < TURNS; turns++) {
        (void)triangle_turn(&t);
        assert_true(uvcc_link_writable(link, UVCC_FRAME_STEP, UVCCI_SMALL_ROOM - BESIDE_RECORD));
    }
    assert_int_equal(t.finished[1], 0);
    uvcc_link_msg_drop(link, m);
    triangle_finish(&t, 1);
    triangle_close(&t);
    free(x);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* What a turn lists is no more than the bound says, also where it is not blocks that it lists. */
static void test_lists(void **state) {
    (void)state;
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p;
    char why[256] = "";
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = test_tensor(p, "x", 1, COUNT, 20, 8, UVCC_TRANSIENT);
    const uint32_t z = test_tensor(p, "z", 1, 3 * COUNT, 20, 8, UVCC_TRANSIENT);
    const uvcc_op_desc op = {.opcode = UVCC_OP_REPEAT_COLS,
                             .in_count = 1,
                             .out_count = 1,
                             .in = {x},
                             .out = {z},
                             .constant = 1};
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, IN_X, x, 0) >= 0);
    assert_true(uvcc_program_op(p, &op) >= 0);
    assert_true(uvcc_program_output(p, OUT_S, z) >= 0);
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    triangle_run(p, &al, &(triangle_options){.seed = 1}, 1000);
    assert_int_equal(mem.live_blocks, 0);
}

/* ---- salts of commitments ---- */

enum { SALTS_MAX = 1000 };

typedef struct salts {
    struct {
        uint8_t key[32];
        unsigned parties; /* bit p: party p hashed under it */
    } at[SALTS_MAX];
    unsigned count;
} salts;

/* A component's commitment is an HMAC with a label of its own. */
static void note_salts(void *user, unsigned party, const uvcc_job *job, uint32_t task, bool done) {
    salts *all = user;
    const uvcc_task *t = &job->tasks[task];
    for (uint32_t k = 0; done && t->kind == UVCC_TASK_HASH && k < t->u.hash.count; k++) {
        const uvcc_hash_item *it = &t->u.hash.items[k];
        if (it->prefix_len != 6 || memcmp(it->prefix, "COMMIT", 6) != 0)
            continue;
        unsigned i = 0;
        while (i < all->count && memcmp(all->at[i].key, it->key, 32) != 0)
            i++;
        assert_true(i < SALTS_MAX);
        memcpy(all->at[i].key, it->key, 32);
        all->count += i == all->count;
        assert_int_equal(all->at[i].parties >> party & 1, 0); /* it hashed with that before */
        all->at[i].parties |= 1u << party;
    }
}

/* A salt that came twice, in two ops, calls, blocks or steps, would show which components are
 * equal. Each is of the two that hold the component. */
static void test_salts(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = program(&mem);
    salts *all = calloc(1, sizeof *all);
    int64_t *x = calloc(COUNT, sizeof *x);
    unsigned first = 0;
    triangle t;
    triangle_open(
        &t, p, &(triangle_options){.seed = 1, .wired = true, .on_task = note_salts, .user = all});
    triangle_settle(&t);
    for (uint32_t step = 0; step < 2; step++) {
        triangle_agree(&t, step, 0);
        triangle_input(&t, 0, step, IN_X, x);
        triangle_input(&t, 1, step, IN_W, x);
        triangle_settle(&t);
        first = step == 0 ? all->count : first;
    }
    assert_int_equal(t.finished[0], 2);
    for (unsigned i = 0; i < all->count; i++)
        assert_true(all->at[i].parties == 3 || all->at[i].parties == 5 || all->at[i].parties == 6);
    /* three components of each of the three blocks of what two lifts give */
    assert_true(first >= 2 * 3 * 3 && first % 9 == 0);
    assert_int_equal(all->count, 2 * first);
    free(all);
    free(x);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns), cmocka_unit_test(test_few_jobs), cmocka_unit_test(test_input),
        cmocka_unit_test(test_room),  cmocka_unit_test(test_lists),    cmocka_unit_test(test_salts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
