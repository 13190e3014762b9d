/* SPDX-License-Identifier: Apache-2.0 */
/* The local plane: what each collective gives, how disagreements end, and one order at all ranks.
 */
#include "support.h"

#include <uvcc/collective.h>
#include <uvcc/program.h>

/* ---- within one process ---- */

enum { R = 2, S = 2, T = 2, RANKS = R * S * T, WHOLE = 24 };

/* One rank's operation with memory of its own. */
typedef struct operation {
    uint64_t in[2][WHOLE], out[2][WHOLE];
    uvcc_task task;
    uvcc_job job;
} operation;

static uvcc_collective *make(test_alloc *mem) {
    uvcc_collective *c = NULL;
    uvcc_collective_config cfg = {.size = sizeof cfg,
                                  .alloc = test_allocator(mem),
                                  .replicas = R,
                                  .stages = S,
                                  .tp_ranks = T};
    assert_int_equal(uvcc_collective_new(&c, &cfg), 0);
    return c;
}

static uint64_t word(uint32_t rank, unsigned component, uint32_t i) {
    uint64_t seed = rank * 1000u + component * 100u + i;
    return test_rand(&seed);
}

static void operation_init(operation *o, uint32_t rank, uint8_t op, uint8_t group, uint64_t elems,
                           bool additive) {
    memset(o, 0, sizeof *o);
    for (unsigned c = 0; c < 2; c++)
        for (uint32_t i = 0; i < WHOLE; i++) {
            o->in[c][i] = word(rank, c, i);
            o->out[c][i] = 0xEEEE;
        }
    o->task.kind = UVCC_TASK_COLLECTIVE;
    o->task.u.collective.op = op;
    o->task.u.collective.group = group;
    o->task.u.collective.mb = 3;
    o->task.u.collective.k = 5;
    o->task.u.collective.step = 7;
    o->task.u.collective.elems = elems;
    o->task.u.collective.in = (uvcc_shares){o->in[0], additive ? NULL : o->in[1]};
    o->task.u.collective.out = (uvcc_shares){o->out[0], additive ? NULL : o->out[1]};
    o->job = (uvcc_job){
        .id = 50 + rank, .cookie = 9, .tasks = &o->task, .count = 1, .plane = UVCC_PLANE_LOCAL};
}

/* All ranks of the group of rank 0 .. RANKS submit in an order of `seed`; every completion comes
 * once. */
static void run(uvcc_collective *c, operation *ops, const uint32_t *ranks, uint32_t count,
                uint64_t seed, int status) {
    uint32_t order[RANKS], done = 0;
    memcpy(order, ranks, count * sizeof order[0]);
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = (uint32_t)(test_rand(&seed) % i), x = order[i - 1];
        order[i - 1] = order[j];
        order[j] = x;
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(uvcc_collective_submit(c, order[i], &ops[order[i]].job), 0);
        assert_int_equal(uvcc_collective_pending(c, order[i]), 1);
    }
    for (uint32_t i = 0; i < count; i++) {
        uvcc_completion d;
        assert_int_equal(uvcc_collective_poll(c, ranks[i], &d), 1);
        assert_int_equal(d.id, 50 + ranks[i]);
        assert_int_equal(d.cookie, 9);
        assert_int_equal(d.status, status);
        assert_int_equal(uvcc_collective_poll(c, ranks[i], &d), 0);
        assert_int_equal(uvcc_collective_pending(c, ranks[i]), 0);
        done++;
    }
    assert_int_equal(done, count);
}

/* Groups of rank 5 = (1, 0, 1). */
static const struct {
    uint8_t group;
    uint32_t count, ranks[RANKS];
} groups[] = {{UVCC_GROUP_TP, 2, {4, 5}},
              {UVCC_GROUP_PP, 2, {5, 7}},
              {UVCC_GROUP_DP, 2, {1, 5}},
              {UVCC_GROUP_STAGE, 4, {0, 1, 4, 5}}};

static void test_reduce_scatter(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_collective *c = make(&mem);
    for (unsigned g = 0; g < 4; g++)
        for (unsigned seed = 0; seed < 12; seed++) {
            const bool additive = seed % 2 != 0;
            const uint32_t slice = WHOLE / groups[g].count;
            static operation ops[RANKS];
            for (uint32_t r = 0; r < RANKS; r++)
                operation_init(&ops[r], r, UVCC_COLLECTIVE_REDUCE_SCATTER, groups[g].group, WHOLE,
                               additive);
            run(c, ops, groups[g].ranks, groups[g].count, seed, 0);
            for (uint32_t i = 0; i < groups[g].count; i++)
                for (unsigned k = 0; k < 2; k++)
                    for (uint32_t e = 0; e < WHOLE; e++) {
                        uint64_t want = 0;
                        for (uint32_t j = 0; j < groups[g].count; j++)
                            want += word(groups[g].ranks[j], k, i * slice + e);
                        if (e >= slice || (additive && k == 1))
                            want = 0xEEEE; /* not touched */
                        assert_int_equal(ops[groups[g].ranks[i]].out[k][e], want);
                    }
        }
    assert_null(uvcc_collective_why(c));
    uvcc_collective_free(c);
    assert_int_equal(mem.live_blocks, 0);
}

static void test_all_gather(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_collective *c = make(&mem);
    for (unsigned g = 0; g < 4; g++)
        for (unsigned seed = 0; seed < 12; seed++) {
            const bool additive = seed % 2 != 0;
            const uint32_t slice = WHOLE / groups[g].count;
            static operation ops[RANKS];
            for (uint32_t r = 0; r < RANKS; r++)
                operation_init(&ops[r], r, UVCC_COLLECTIVE_ALL_GATHER, groups[g].group, WHOLE,
                               additive);
            run(c, ops, groups[g].ranks, groups[g].count, seed, 0);
            for (uint32_t i = 0; i < groups[g].count; i++)
                for (unsigned k = 0; k < 2; k++)
                    for (uint32_t e = 0; e < WHOLE; e++)
                        assert_int_equal(ops[groups[g].ranks[i]].out[k][e],
                                         additive && k == 1
                                             ? 0xEEEE
                                             : word(groups[g].ranks[e / slice], k, e % slice));
        }
    uvcc_collective_free(c);
    assert_int_equal(mem.live_blocks, 0);
}

/* Forward from 5 to 7, backward from 7 to 5; the two, and two microbatches, never mix. The ends
 * have k of their own. */
static void test_neighbours(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_collective *c = make(&mem);
    for (unsigned turn = 0; turn < 24; turn++) {
        static operation ops[2][2][2]; /* [phase][mb][sender, receiver] */
        const uint32_t rank[2][2] = {{5, 7}, {7, 5}};
        for (unsigned phase = 0; phase < 2; phase++)
            for (unsigned mb = 0; mb < 2; mb++)
                for (unsigned k = 0; k < 2; k++) {
                    operation *o = &ops[phase][mb][k];
                    operation_init(o, rank[phase][k] + 20 * mb,
                                   k == 0 ? UVCC_COLLECTIVE_SEND : UVCC_COLLECTIVE_RECV,
                                   UVCC_GROUP_PP, WHOLE, false);
                    o->task.u.collective.phase = (uint8_t)phase;
                    o->task.u.collective.mb = (uint16_t)mb;
                    o->task.u.collective.k = (uint16_t)(100 * k);
                }
        uint64_t seed = turn;
        unsigned left = 0xff;
        while (left != 0) {
            unsigned i = (unsigned)(test_rand(&seed) % 8);
            if ((left >> i & 1) == 0)
                continue;
            left &= ~(1u << i);
            assert_int_equal(uvcc_collective_submit(c, rank[i & 1][i >> 1 & 1],
                                                    &ops[i & 1][i >> 2][i >> 1 & 1].job),
                             0);
        }
        for (unsigned k = 0; k < 2; k++) {
            uvcc_completion d;
            for (unsigned n = 0; n < 4; n++) {
                assert_int_equal(uvcc_collective_poll(c, rank[0][k], &d), 1);
                assert_int_equal(d.status, 0);
            }
            assert_int_equal(uvcc_collective_poll(c, rank[0][k], &d), 0);
        }
        for (unsigned phase = 0; phase < 2; phase++)
            for (unsigned mb = 0; mb < 2; mb++)
                assert_memory_equal(ops[phase][mb][1].out, ops[phase][mb][0].in,
                                    sizeof ops[0][0][0].in);
    }
    uvcc_collective_free(c);
    assert_int_equal(mem.live_blocks, 0);
}

static void test_disagreement(void **state) {
    (void)state;
    static const struct {
        uint8_t op;
        uint64_t elems;
        bool additive;
        const char *why;
    } wrong[] = {{UVCC_COLLECTIVE_ALL_GATHER, WHOLE, false,
                  "members of a group are at different operations"},
                 {UVCC_COLLECTIVE_REDUCE_SCATTER, 20, false,
                  "members of a group have tensors of different sizes"},
                 {UVCC_COLLECTIVE_REDUCE_SCATTER, WHOLE, true,
                  "members of a group share their tensors in different ways"}};
    static operation ops[RANKS];
    for (unsigned i = 0; i < 3; i++)
        for (unsigned seed = 0; seed < 8; seed++) {
            test_alloc mem = {0};
            uvcc_collective *c = make(&mem);
            for (uint32_t r = 0; r < RANKS; r++)
                operation_init(&ops[r], r, UVCC_COLLECTIVE_REDUCE_SCATTER, UVCC_GROUP_STAGE, WHOLE,
                               false);
            operation_init(&ops[4], 4, wrong[i].op, UVCC_GROUP_STAGE, wrong[i].elems,
                           wrong[i].additive);
            run(c, ops, groups[3].ranks, 4, seed, UVCC_ERR_JOB);
            assert_string_equal(uvcc_collective_why(c), wrong[i].why);
            for (uint32_t r = 0; r < RANKS; r++) /* another meeting is none the worse for it */
                operation_init(&ops[r], r, UVCC_COLLECTIVE_REDUCE_SCATTER, UVCC_GROUP_TP, WHOLE,
                               false);
            run(c, ops, groups[0].ranks, 2, seed, 0);
            uvcc_collective_free(c);
            assert_int_equal(mem.live_blocks, 0);
        }
}

static void test_failure(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_collective *c = make(&mem);
    static operation ops[RANKS];
    for (uint32_t r = 0; r < RANKS; r++)
        operation_init(&ops[r], r, UVCC_COLLECTIVE_REDUCE_SCATTER, UVCC_GROUP_TP, WHOLE, false);
    uvcc_completion d;
    assert_int_equal(uvcc_collective_submit(c, 4, &ops[4].job), 0);
    assert_int_equal(uvcc_collective_poll(c, 4, &d), 0);
    assert_int_equal(uvcc_collective_submit(c, 4, &ops[4].job), UVCC_ERR_USAGE); /* twice */
    uvcc_collective_fail(c);
    assert_int_equal(uvcc_collective_poll(c, 4, &d), 1);
    assert_int_equal(d.status, UVCC_ERR_JOB);
    assert_int_equal(uvcc_collective_submit(c, 5, &ops[5].job), 0);
    assert_int_equal(uvcc_collective_poll(c, 5, &d), 1);
    assert_int_equal(d.status, UVCC_ERR_JOB);
    assert_string_equal(uvcc_collective_why(c), "a worker of the party is gone");

    /* no neighbour: stage 0 sends no gradients */
    operation_init(&ops[5], 5, UVCC_COLLECTIVE_SEND, UVCC_GROUP_PP, WHOLE, false);
    ops[5].task.u.collective.phase = UVCC_BWD;
    assert_int_equal(uvcc_collective_submit(c, 5, &ops[5].job), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_collective_submit(c, RANKS, &ops[5].job), UVCC_ERR_USAGE);
    ops[0].job.plane = UVCC_PLANE_COMPUTE;
    assert_int_equal(uvcc_collective_submit(c, 0, &ops[0].job), UVCC_ERR_USAGE);
    uvcc_collective_free(c); /* with a member waiting in vain */
    assert_int_equal(mem.live_blocks, 0);
}

static void test_no_memory(void **state) {
    (void)state;
    for (size_t at = 1;; at++) {
        test_alloc mem = {.fail_at = at};
        uvcc_collective *c = NULL;
        static operation ops[2];
        uvcc_collective_config cfg = {.size = sizeof cfg,
                                      .alloc = test_allocator(&mem),
                                      .replicas = 1,
                                      .stages = 1,
                                      .tp_ranks = 2};
        int rc = uvcc_collective_new(&c, &cfg);
        for (uint32_t r = 0; r < 2 && c != NULL; r++) {
            operation_init(&ops[r], r, UVCC_COLLECTIVE_ALL_GATHER, UVCC_GROUP_TP, WHOLE, false);
            int err = uvcc_collective_submit(c, r, &ops[r].job);
            assert_true(err == 0 || err == UVCC_ERR_NOMEM);
            if (err != 0) { /* nothing has changed: again */
                rc = err;
                assert_int_equal(uvcc_collective_submit(c, r, &ops[r].job), 0);
            }
        }
        uvcc_completion d;
        for (uint32_t r = 0; r < 2 && c != NULL; r++)
            assert_int_equal(uvcc_collective_poll(c, r, &d), 1);
        uvcc_collective_free(c);
        assert_int_equal(mem.live_blocks, 0);
        if (rc == 0)
            break;
        assert_int_equal(rc, UVCC_ERR_NOMEM);
    }
}

/* ---- one order for all ranks ---- */

enum { MEMBERS = 4, OPS = 12 };

static uvcc_collective_tag tag_of(unsigned i) {
    return (uvcc_collective_tag){.step = 1 + i / 8,
                                 .phase = i & 1,
                                 .mb = (uint16_t)(i >> 1 & 1),
                                 .k = (uint16_t)(i >> 2 & 1),
                                 .op = UVCC_COLLECTIVE_ALL_GATHER,
                                 .elems = 10 + i};
}

static unsigned number_of(const uvcc_collective_tag *t) {
    return (t->step - 1) * 8 + t->phase + 2u * t->mb + 4u * t->k;
}

/* Ranks are ready in orders of their own, tokens take their time: all issue all, in one order. */
static void shuffled(uint64_t seed) {
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_collective_order *o[MEMBERS];
    uvcc_collective_tag token[OPS]; /* as the leader sent them */
    uint32_t tokens = 0, got[MEMBERS] = {0};
    unsigned issued[MEMBERS][OPS], count[MEMBERS] = {0}, ready[MEMBERS] = {0};
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(uvcc_collective_order_new(&o[i], &al, i), 0);
    unsigned total = 0;
    for (unsigned turn = 0; total < MEMBERS * OPS; turn++) {
        assert_true(turn < 100000); /* else they wait for one another */
        uint32_t i = (uint32_t)(test_rand(&seed) % MEMBERS);
        unsigned n = (unsigned)(test_rand(&seed) % OPS);
        if (i != 0 && got[i] < tokens && test_rand(&seed) % 3 == 0) {
            assert_int_equal(uvcc_collective_order_token(o[i], &token[got[i]++]), 0);
        } else if ((ready[i] >> n & 1) == 0) {
            ready[i] |= 1u << n;
            uvcc_collective_tag t = tag_of(n);
            assert_int_equal(uvcc_collective_order_submit(o[i], &t, 100 * i + n), 0);
        }
        uvcc_collective_action a;
        if (test_rand(&seed) % 2 == 0 || uvcc_collective_order_poll(o[i], &a) == 0)
            continue;
        n = number_of(&a.tag);
        if (a.kind == UVCC_COLLECTIVE_TOKEN) {
            assert_int_equal(i, 0);
            token[tokens++] = a.tag;
            continue;
        }
        assert_int_equal(a.id, 100 * i + n);
        issued[i][count[i]++] = n;
        total++;
    }
    for (uint32_t i = 1; i < MEMBERS; i++)
        assert_memory_equal(issued[i], issued[0], sizeof issued[0]);
    for (uint32_t i = 0; i < MEMBERS; i++)
        uvcc_collective_order_free(o[i]);
    assert_int_equal(mem.live_blocks, 0);
}

static void test_one_order(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++)
        shuffled(seed);
}

static void test_order_refuses(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_collective_tag a = tag_of(0), other = tag_of(0);
    uvcc_collective_action act;
    for (unsigned what = 0; what < 3; what++)
        for (unsigned first = 0; first < 2; first++) {
            uvcc_collective_order *o;
            assert_int_equal(uvcc_collective_order_new(&o, &al, 1), 0);
            other = a;
            other.elems += what == 0;
            other.op = what == 1 ? UVCC_COLLECTIVE_REDUCE_SCATTER : other.op;
            other.additive = what == 2;
            if (first == 0) {
                assert_int_equal(uvcc_collective_order_token(o, &a), 0);
                assert_int_equal(uvcc_collective_order_token(o, &a), UVCC_ERR_STATE);
                assert_int_equal(uvcc_collective_order_submit(o, &other, 1), UVCC_ERR_MISMATCH);
            } else {
                assert_int_equal(uvcc_collective_order_submit(o, &a, 1), 0);
                assert_int_equal(uvcc_collective_order_submit(o, &a, 2), UVCC_ERR_STATE);
                assert_int_equal(uvcc_collective_order_token(o, &other), UVCC_ERR_MISMATCH);
            }
            assert_int_equal(uvcc_collective_order_poll(o, &act), 0);
            uvcc_collective_order_free(o);
        }
    uvcc_collective_order *o;
    assert_int_equal(uvcc_collective_order_new(&o, &al, 0), 0);
    assert_int_equal(uvcc_collective_order_token(o, &a), UVCC_ERR_USAGE);
    mem.fail_at = 1;
    assert_int_equal(uvcc_collective_order_submit(o, &a, 1), UVCC_ERR_NOMEM);
    assert_int_equal(uvcc_collective_order_submit(o, &a, 1), 0);
    uvcc_collective_order_free(o);
    assert_int_equal(mem.live_blocks, 0);
}

/* ---- carried out elsewhere ---- */

/* Keeps jobs, and gives completions in the order in which they came. */
typedef struct far {
    uint32_t rank[RANKS];
    const uvcc_job *job[RANKS];
    uint32_t count, refuse_at; /* the job that is refused, from 1 on; 0: none */
    unsigned waits;
    int status;
} far;

static int far_submit(void *user, uint32_t rank, const uvcc_job *job) {
    far *f = user;
    assert_true(f->count < RANKS);
    if (f->refuse_at == f->count + 1)
        return UVCC_ERR_USAGE;
    f->rank[f->count] = rank;
    f->job[f->count++] = job;
    return 0;
}

static int far_poll(void *user, uint32_t rank, uvcc_completion *out) {
    far *f = user;
    for (uint32_t i = 0; i < f->count; i++)
        if (f->job[i] != NULL && f->rank[i] == rank) {
            *out = (uvcc_completion){f->job[i]->id, f->job[i]->cookie, f->status};
            f->job[i] = NULL;
            return 1;
        }
    return 0;
}

static void far_wait(void *user) {
    far *f = user;
    f->waits++;
}

static uvcc_collective *make_far(test_alloc *mem, far *f) {
    uvcc_collective *c = NULL;
    uvcc_collective_config cfg = {.size = sizeof cfg,
                                  .alloc = test_allocator(mem),
                                  .replicas = R,
                                  .stages = S,
                                  .tp_ranks = T,
                                  .elsewhere = {far_submit, NULL, far_wait, f}};
    assert_int_equal(uvcc_collective_new(&c, &cfg), UVCC_ERR_USAGE);
    cfg.elsewhere.poll = far_poll;
    assert_int_equal(uvcc_collective_new(&c, &cfg), 0);
    return c;
}

/* Jobs go on when all members are there, not one before; operands are not touched here. */
static void test_elsewhere(void **state) {
    (void)state;
    test_alloc mem = {0};
    far f = {0};
    uvcc_collective *c = make_far(&mem, &f);
    operation *o = calloc(RANKS, sizeof *o);
    uvcc_completion d;
    assert_non_null(o);
    for (uint32_t i = 0; i < 2; i++) /* TP: ranks 0 and 1 */
        operation_init(&o[i], i, UVCC_COLLECTIVE_ALL_GATHER, UVCC_GROUP_TP, 6, false);
    assert_int_equal(uvcc_collective_submit(c, 1, &o[1].job), 0);
    uvcc_collective_wait(c);
    assert_int_equal(f.count + f.waits + uvcc_collective_running(c), 0);
    assert_int_equal(uvcc_collective_submit(c, 0, &o[0].job), 0);
    assert_int_equal(f.count, 2);
    assert_int_equal(uvcc_collective_running(c), 2);
    uvcc_collective_wait(c);
    assert_int_equal(f.waits, 1);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ptr_equal(f.job[i], &o[f.rank[i]].job);
        assert_int_equal(uvcc_collective_pending(c, i), 1);
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(uvcc_collective_poll(c, i, &d), 1);
        assert_int_equal(d.id, 50 + i);
        assert_int_equal(d.cookie, 9);
        assert_int_equal(d.status, 0);
        assert_int_equal(uvcc_collective_poll(c, i, &d), 0);
        assert_int_equal(uvcc_collective_pending(c, i), 0);
        assert_int_equal(o[i].out[0][0], 0xEEEE);
    }
    assert_int_equal(uvcc_collective_running(c), 0);
    assert_null(uvcc_collective_why(c));
    uvcc_collective_free(c);
    free(o);
    assert_int_equal(mem.live_blocks, 0);
}

/* A member's job is refused, or fails: all members that are not elsewhere fail, and all later. */
static void test_elsewhere_fails(void **state) {
    (void)state;
    operation *o = calloc(RANKS, sizeof *o);
    assert_non_null(o);
    for (uint32_t at = 0; at <= 4; at++) { /* STAGE: ranks 0, 1, 4, 5; at 0 an operation fails */
        static const uint32_t ranks[] = {0, 1, 4, 5};
        test_alloc mem = {0};
        far f = {.refuse_at = at, .status = UVCC_ERR_JOB};
        uvcc_collective *c = make_far(&mem, &f);
        uvcc_completion d;
        for (uint32_t i = 0; i < 4; i++) {
            operation_init(&o[i], ranks[i], UVCC_COLLECTIVE_REDUCE_SCATTER, UVCC_GROUP_STAGE, 8,
                           true);
            assert_int_equal(uvcc_collective_submit(c, ranks[i], &o[i].job), 0);
        }
        assert_int_equal(f.count, at == 0 ? 4 : at - 1);
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(uvcc_collective_poll(c, ranks[i], &d), 1);
            assert_int_equal(d.id, 50 + ranks[i]);
            assert_int_equal(d.status, UVCC_ERR_JOB);
            assert_int_equal(uvcc_collective_poll(c, ranks[i], &d), 0);
        }
        assert_int_equal(uvcc_collective_running(c), 0);
        assert_non_null(
            strstr(uvcc_collective_why(c), at == 0 ? "failed where" : "was refused by"));
        uvcc_collective_free(c);
        assert_int_equal(mem.live_blocks, 0);
    }
    free(o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elsewhere),      cmocka_unit_test(test_elsewhere_fails),
        cmocka_unit_test(test_reduce_scatter), cmocka_unit_test(test_all_gather),
        cmocka_unit_test(test_neighbours),     cmocka_unit_test(test_disagreement),
        cmocka_unit_test(test_failure),        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_one_order),      cmocka_unit_test(test_order_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
