/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace.c - what a session tells its tracer: the life of every op, its jobs and its bytes. */
#include "triangle.h"
#include <uvcc/mlp.h>

enum { STEPS = 2, OPS_MAX = 256, JOBS_MAX = 256 };

/* What has been heard of one op in one step. */
typedef struct life {
    bool begun, waits, done, keys_out;
    bool busy; /* a job of a turn is out */
    uint8_t turn;
} life;

typedef struct ear {
    const uvcc_program *program;
    life op[STEPS][OPS_MAX];
    uint64_t out[JOBS_MAX]; /* ids of jobs that are out */
    uint32_t out_op[JOBS_MAX];
    unsigned out_count;
    uint64_t bytes[2]; /* by uvcc_trace_work: online, keys */
    uint64_t jobs, waits, events, last;
} ear;

static ear ears[3];

static void job_out(ear *e, life *l, const uvcc_op_trace *t) {
    assert_true(e->out_count < JOBS_MAX);
    e->out[e->out_count] = t->job;
    e->out_op[e->out_count++] = t->op;
    e->jobs++;
    if (t->work == UVCC_TRACE_TURN) {
        assert_true(l->begun && !l->waits && !l->done && !l->busy);
        assert_int_equal(t->turn, l->turn);
        l->busy = true;
    } else if (t->work == UVCC_TRACE_KEYS) {
        assert_false(l->keys_out);
        l->keys_out = true;
    } else {
        assert_int_equal(t->work, UVCC_TRACE_HASH);
        assert_false(l->done);
    }
}

static void job_done(ear *e, life *l, const uvcc_op_trace *t) {
    unsigned i = 0;
    while (i < e->out_count && e->out[i] != t->job)
        i++;
    assert_true(i < e->out_count);
    assert_int_equal(e->out_op[i], t->op);
    e->out[i] = e->out[--e->out_count];
    e->out_op[i] = e->out_op[e->out_count];
    if (t->work == UVCC_TRACE_TURN)
        l->busy = false;
}

/* Ops that it depends on are done: whoever begins has nobody before it that is not. */
static void check_before(const ear *e, const uvcc_op_trace *t) {
    for (uint32_t i = 0; i < uvcc_program_op_count(e->program, t->entry); i++) {
        uint32_t followers[OPS_MAX];
        const int n = uvcc_program_followers(e->program, t->entry, i, followers, OPS_MAX);
        for (int f = 0; f < n; f++)
            assert_true(followers[f] != t->op || e->op[t->step][i].done);
    }
}

static void hear(void *user, const uvcc_op_trace *t) {
    ear *e = user;
    assert_true(t->step < STEPS && t->op < OPS_MAX);
    life *l = &e->op[t->step][t->op];
    assert_ptr_equal(t->desc, uvcc_program_op_at(e->program, t->entry, t->op));
    assert_true(t->now >= e->last);
    e->last = t->now;
    e->events++;
    switch (t->kind) {
    case UVCC_TRACE_BEGIN:
        assert_false(l->begun);
        assert_int_equal(t->turn, 0);
        check_before(e, t);
        l->begun = true;
        break;
    case UVCC_TRACE_JOB_OUT:
        job_out(e, l, t);
        break;
    case UVCC_TRACE_JOB_DONE:
        job_done(e, l, t);
        break;
    case UVCC_TRACE_SENT:
        assert_true(t->bytes > 0 && t->work <= UVCC_TRACE_KEYS);
        assert_true(t->work == UVCC_TRACE_KEYS ? l->keys_out : l->begun && !l->waits && !l->done);
        e->bytes[t->work] += t->bytes;
        break;
    case UVCC_TRACE_WAIT:
        assert_true(l->begun && !l->busy && !l->waits && !l->done);
        assert_int_equal(t->turn, l->turn);
        l->waits = true;
        e->waits++;
        break;
    case UVCC_TRACE_RESUME:
        assert_true(l->waits);
        l->waits = false;
        assert_int_equal(t->turn, ++l->turn);
        break;
    case UVCC_TRACE_DONE:
        assert_true(l->begun && !l->busy && !l->waits && !l->done);
        l->done = true;
        break;
    default:
        fail_msg("kind %d", (int)t->kind);
    }
}

static void listen(uvcc_config *c) {
    c->trace = (uvcc_tracer){.op = hear, .user = &ears[c->identity.party]};
}

static const uvcc_mlp_config shape = {.features = 5,
                                      .classes = 3,
                                      .hidden_count = 1,
                                      .hidden = {4},
                                      .batch = 4,
                                      .lr_shift = 2,
                                      .frac_bits = 12,
                                      .y_owner = 1};

static void train_step(triangle *t, uint32_t step) {
    int64_t x[4 * 5], y[4 * 3];
    for (unsigned i = 0; i < 20; i++)
        x[i] = (int64_t)(i * 331 % 4096) - 2048;
    for (unsigned i = 0; i < 12; i++)
        y[i] = i % 3 == 0 ? 4096 : 0;
    triangle_agree(t, step, 0);
    triangle_input(t, 0, step, UVCC_MLP_IN_X, x);
    triangle_input(t, 1, step, UVCC_MLP_IN_Y, y);
    triangle_finish(t, step + 1);
}

/* Trains for STEPS steps; roots of the last one and the statistics at the end. */
static void run(triangle_options opt, uint8_t root[3][32], uvcc_session_stats stats[3]) {
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p;
    char message[256] = "";
    assert_int_equal(uvcc_mlp_program(&p, &shape, &al, message, sizeof message), 0);
    assert_true(uvcc_program_op_count(p, 0) <= OPS_MAX);
    memset(ears, 0, sizeof ears);
    for (unsigned i = 0; i < 3; i++)
        ears[i].program = p;
    triangle t;
    triangle_open(&t, p, &opt);
    triangle_ready(&t);
    for (uint32_t step = 0; step < STEPS; step++)
        train_step(&t, step);
    triangle_close(&t);
    memcpy(root, t.root, sizeof t.root);
    for (unsigned i = 0; i < 3; i++)
        uvcc_session_get_stats(t.s[i], &stats[i]);
    for (unsigned i = 0; opt.tweak != NULL && i < 3; i++)
        for (uint32_t k = 0; k < uvcc_program_op_count(p, 0); k++)
            for (uint32_t step = 0; step < STEPS; step++)
                assert_true(ears[i].op[step][k].done);
    triangle_free(&t);
    uvcc_program_free(p);
}

/* Every op lives as the header says, whenever jobs run and whatever the network does. */
static void ops_live_in_order(void **state) {
    (void)state;
    const triangle_options options[] = {
        {.seed = 1, .tweak = listen},
        {.seed = 1, .tweak = listen, .mode = UVCC_CPU_DEFERRED, .compute_seed = 3},
        {.seed = 1, .tweak = listen, .mode = UVCC_CPU_THREADS},
        {.seed = 1, .tweak = listen, .audit_off = true},
        {.seed = 1,
         .tweak = listen,
         .datagram = true,
         .faulty = true,
         .faults = {.drop = 0.2, .reorder = 0.2, .duplicate = 0.1}},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        uint8_t root[3][32];
        uvcc_session_stats stats[3];
        run(options[i], root, stats);
        for (unsigned p = 0; p < 3; p++) {
            const ear *e = &ears[p];
            assert_int_equal(e->out_count, 0);
            assert_true(e->waits > 0);
            assert_int_equal(e->jobs + 1, stats[p].jobs); /* one sets the weights */
            /* All that is sent for ops; the rest is agreement, roots and the end. */
            assert_int_equal(e->bytes[UVCC_TRACE_KEYS], stats[p].bytes_preprocessing);
            assert_true(e->bytes[UVCC_TRACE_TURN] < stats[p].bytes_online);
            assert_true(e->bytes[UVCC_TRACE_TURN] + 2000 > stats[p].bytes_online);
        }
    }
}

/* A tracer changes nothing. */
static void listening_changes_nothing(void **state) {
    (void)state;
    uint8_t with[3][32], without[3][32];
    uvcc_session_stats stats[3], bare[3];
    run((triangle_options){.seed = 2, .tweak = listen}, with, stats);
    assert_true(ears[0].events > 0);
    run((triangle_options){.seed = 2}, without, bare);
    assert_int_equal(ears[0].events, 0);
    assert_memory_equal(with, without, sizeof with);
    assert_memory_equal(stats, bare, sizeof stats);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_live_in_order),
        cmocka_unit_test(listening_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
