/* SPDX-License-Identifier: Apache-2.0 */
/* test_jobs.c - the table of jobs (jobs.h): handed out in order, one completion each, generations,
 * the two planes, cancelling; at the end against a model, at random. */
#include "support.h"

#include "exec/runtime/jobs.h"

enum { COOKIE = 77 };

typedef struct fix {
    test_alloc mem;
    uvcc_allocator al;
    uvcci_jobs j;
} fix;

static void open_table(fix *f, uint32_t limit, uint32_t local) {
    memset(f, 0, sizeof *f);
    f->al = test_allocator(&f->mem);
    assert_int_equal(uvcci_jobs_init(&f->j, &f->al, limit, local, COOKIE), 0);
}

static void close_table(fix *f) {
    uvcci_jobs_free(&f->j, &f->al);
    assert_int_equal(f->mem.live_blocks, 0);
}

static const uvcc_task compute = {.kind = UVCC_TASK_COPY};
static const uvcc_task collective = {.kind = UVCC_TASK_COLLECTIVE};

/* The next job out, which must be of `who`. */
static uint64_t hand_out(fix *f, uvcci_job_owner owner, void *who) {
    const uvcc_job *job;
    uvcci_job_owner o;
    void *w;
    assert_int_equal(uvcci_jobs_poll(&f->j, &job, &o, &w), 1);
    assert_int_equal(o, owner);
    assert_ptr_equal(w, who);
    assert_int_equal(job->cookie, COOKIE);
    return job->id;
}

static int take(fix *f, uint64_t id, void **who) {
    uvcci_job_owner o;
    const uvcc_completion c = {.id = id, .cookie = COOKIE};
    return uvcci_jobs_take(&f->j, &c, &o, who);
}

static void in_order(void **state) {
    (void)state;
    fix f;
    open_table(&f, 4, 0);
    int who[4];
    const uvcc_task tasks[2] = {compute, compute};
    uvcci_jobs_push(&f.j, tasks, 2, UVCCI_JOB_DEAL, 0, &who[0]);
    uvcci_jobs_push(&f.j, &compute, 1, UVCCI_JOB_OP, 0, &who[1]);
    uvcci_jobs_push(&f.j, &compute, 1, UVCCI_JOB_RX, 0, &who[2]);
    assert_int_equal(f.j.queued, 3);
    const uvcc_job *job;
    uvcci_job_owner owner;
    void *w;
    assert_int_equal(uvcci_jobs_poll(&f.j, &job, &owner, &w), 1);
    assert_ptr_equal(job->tasks, tasks); /* the owner's, not a copy */
    assert_int_equal(job->count, 2);
    assert_int_equal(job->plane, UVCC_PLANE_COMPUTE);
    assert_int_equal(owner, UVCCI_JOB_DEAL);
    assert_ptr_equal(w, &who[0]);
    uvcci_jobs_push(&f.j, &compute, 1, UVCCI_JOB_SET, 0, &who[3]); /* behind those that wait */
    const uint64_t b = hand_out(&f, UVCCI_JOB_OP, &who[1]);
    const uint64_t c = hand_out(&f, UVCCI_JOB_RX, &who[2]);
    const uint64_t d = hand_out(&f, UVCCI_JOB_SET, &who[3]);
    assert_int_equal(uvcci_jobs_poll(&f.j, &job, &owner, &w), 0);
    assert_int_equal(f.j.out, 4);
    assert_int_equal(f.j.handed, 4);
    /* They may end in any order. */
    const uint64_t ends[] = {c, b, d};
    int *const of[] = {&who[2], &who[1], &who[3]};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(take(&f, ends[i], &w), 1);
        assert_ptr_equal(w, of[i]);
    }
    assert_int_equal(f.j.out, 1);
    assert_int_equal(f.j.stale, 0);
    close_table(&f);
}

static void one_completion(void **state) {
    (void)state;
    fix f;
    open_table(&f, 2, 0);
    int a, b;
    void *who = NULL;
    assert_int_equal(take(&f, 0, &who), 0); /* a slot that is free */
    uvcci_jobs_push(&f.j, &compute, 1, UVCCI_JOB_OP, 0, &a);
    assert_int_equal(take(&f, f.j.slots[0].job.id, &who), 0); /* not handed out yet */
    assert_int_equal(f.j.stale, 2);
    const uint64_t first = hand_out(&f, UVCCI_JOB_OP, &a);
    assert_int_equal(take(&f, first + (1ull << 32), &who), 0); /* another generation */
    assert_int_equal(take(&f, 2, &who), 0);                    /* no such slot */
    assert_int_equal(take(&f, UINT32_MAX, &who), 0);
    assert_int_equal(f.j.out, 1);
    assert_null(who);
    assert_int_equal(take(&f, first, &who), 1);
    assert_ptr_equal(who, &a);
    assert_int_equal(take(&f, first, &who), 0); /* twice */
    /* The slot's next job has another id, so the old one stays stale. */
    uvcci_jobs_push(&f.j, &compute, 1, UVCCI_JOB_OP, 0, &b);
    const uint64_t second = hand_out(&f, UVCCI_JOB_OP, &b);
    assert_int_equal((uint32_t)second, (uint32_t)first);
    assert_int_not_equal(second, first);
    assert_int_equal(take(&f, first, &who), 0);
    assert_int_equal(f.j.stale, 7);
    assert_int_equal(take(&f, second, &who), 1);
    assert_ptr_equal(who, &b);
    assert_int_equal(f.j.out, 0);
    close_table(&f);
}

/* Collectives wait for other workers: they have room of their own and never fill the table. */
static void planes(void **state) {
    (void)state;
    fix f;
    open_table(&f, 2, 2);
    int who;
    void *w;
    uvcci_jobs_push(&f.j, &collective, 1, UVCCI_JOB_OP, 0, &who);
    uvcci_jobs_push(&f.j, &collective, 1, UVCCI_JOB_OP, 0, &who);
    assert_false(uvcci_jobs_full(&f.j));
    uvcci_jobs_push(&f.j, &compute, 1, UVCCI_JOB_OP, 0, &who);
    assert_false(uvcci_jobs_full(&f.j));
    uvcci_jobs_push(&f.j, &compute, 1, UVCCI_JOB_OP, 0, &who);
    assert_true(uvcci_jobs_full(&f.j));
    const uvcc_job *job;
    uvcci_job_owner owner;
    uint64_t ids[4];
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(uvcci_jobs_poll(&f.j, &job, &owner, &w), 1);
        assert_int_equal(job->plane, i < 2 ? UVCC_PLANE_LOCAL : UVCC_PLANE_COMPUTE);
        ids[i] = job->id;
    }
    assert_true(uvcci_jobs_full(&f.j)); /* what is out counts */
    assert_int_equal(take(&f, ids[0], &w), 1);
    assert_true(uvcci_jobs_full(&f.j));
    assert_int_equal(take(&f, ids[3], &w), 1);
    assert_false(uvcci_jobs_full(&f.j));
    close_table(&f);
}

static void cancelling(void **state) {
    (void)state;
    fix f;
    open_table(&f, 3, 1);
    int who[4];
    void *w;
    for (unsigned i = 0; i < 3; i++)
        uvcci_jobs_push(&f.j, &compute, 1, UVCCI_JOB_OP, 0, &who[i]);
    uvcci_jobs_push(&f.j, &collective, 1, UVCCI_JOB_OP, 0, &who[3]);
    const uint64_t out = hand_out(&f, UVCCI_JOB_OP, &who[0]);
    uvcci_jobs_cancel_queued(&f.j);
    const uvcc_job *job;
    uvcci_job_owner owner;
    assert_int_equal(uvcci_jobs_poll(&f.j, &job, &owner, &w), 0);
    assert_int_equal(f.j.queued, 0);
    assert_int_equal(f.j.out, 1); /* an executor has it: its completion still comes */
    assert_int_equal(take(&f, out, &w), 1);
    assert_ptr_equal(w, &who[0]);
    /* All slots are there again. */
    for (unsigned i = 0; i < 3; i++)
        uvcci_jobs_push(&f.j, &compute, 1, UVCCI_JOB_OP, 0, &who[i]);
    uvcci_jobs_push(&f.j, &collective, 1, UVCCI_JOB_OP, 0, &who[3]);
    assert_true(uvcci_jobs_full(&f.j));
    for (unsigned i = 0; i < 4; i++)
        (void)hand_out(&f, UVCCI_JOB_OP, &who[i]);
    close_table(&f);
}

static void no_memory(void **state) {
    (void)state;
    test_alloc mem = {.fail_at = 1};
    const uvcc_allocator al = test_allocator(&mem);
    uvcci_jobs j;
    assert_int_equal(uvcci_jobs_init(&j, &al, 4, 0, 0), UVCC_ERR_NOMEM);
    uvcci_jobs_free(&j, &al); /* may follow */
    assert_int_equal(mem.live_blocks, 0);
}

/* The model: a list of jobs that wait, a set of those that are out. */
static void at_random(void **state) {
    (void)state;
    enum { LIMIT = 5, LOCAL = 2, WHO = 64 };
    uint64_t seed = 9;
    fix f;
    open_table(&f, LIMIT, LOCAL);
    int who[WHO];
    struct {
        void *who;
        uint64_t id;
        bool local;
    } queue[LIMIT + LOCAL], out[LIMIT + LOCAL];
    uint32_t queued = 0, outs = 0, used[2] = {0, 0};
    uint64_t last = UINT64_MAX, stale = 0, pushed = 0;
    for (unsigned turn = 0; turn < 20000; turn++) {
        const uint64_t r = test_rand(&seed);
        const bool local = (r >> 8 & 3) == 0;
        if (r % 3 == 0 && used[local] < (local ? LOCAL : LIMIT)) {
            void *w = &who[pushed++ % WHO];
            uvcci_jobs_push(&f.j, local ? &collective : &compute, 1, UVCCI_JOB_OP, 0, w);
            queue[queued].who = w;
            queue[queued++].local = local;
            used[local]++;
        } else if (r % 3 == 1 && queued != 0) {
            const uint64_t id = hand_out(&f, UVCCI_JOB_OP, queue[0].who);
            for (uint32_t i = 0; i < outs; i++)
                assert_int_not_equal(out[i].id, id);
            out[outs] = queue[0];
            out[outs++].id = id;
            memmove(queue, queue + 1, --queued * sizeof queue[0]);
        } else if (outs != 0) {
            const uint32_t i = (uint32_t)((r >> 16) % outs);
            void *w;
            assert_int_equal(take(&f, out[i].id, &w), 1);
            assert_ptr_equal(w, out[i].who);
            used[out[i].local]--;
            last = out[i].id;
            out[i] = out[--outs];
        } else if (last != UINT64_MAX) {
            void *w;
            assert_int_equal(take(&f, last, &w), 0);
            stale++;
        }
        assert_int_equal(f.j.queued, queued);
        assert_int_equal(f.j.out, outs);
        assert_int_equal(f.j.stale, stale);
        assert_int_equal(uvcci_jobs_full(&f.j), used[0] == LIMIT);
    }
    assert_true(pushed > 5000 && stale > 100);
    close_table(&f);
}

/* The least rank comes out first, equal ranks in the order of pushes, whatever came in between. */
static void test_by_rank(void **state) {
    (void)state;
    enum { JOBS = 64 };
    static const uvcc_task task = {.kind = UVCC_TASK_MAP};
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcci_jobs j;
    struct {
        uint64_t rank;
        uint32_t number;
    } pushed[JOBS], *got;
    uint64_t seed = 11;
    assert_int_equal(uvcci_jobs_init(&j, &al, JOBS, 0, 1), 0);
    for (uint32_t round = 0; round < 20; round++) {
        uint64_t before = 0;
        uint32_t number = 0;
        for (uint32_t i = 0; i < JOBS; i++) {
            pushed[i].rank = test_rand(&seed) % 9;
            pushed[i].number = i;
            uvcci_jobs_push(&j, &task, 1, UVCCI_JOB_OP, pushed[i].rank, &pushed[i]);
        }
        for (uint32_t i = 0; i < JOBS; i++) {
            const uvcc_job *job;
            uvcci_job_owner owner;
            void *who;
            assert_int_equal(uvcci_jobs_poll(&j, &job, &owner, &who), 1);
            got = who;
            assert_true(job->rank == got->rank);
            assert_true(i == 0 || got->rank > before ||
                        (got->rank == before && got->number > number));
            before = got->rank;
            number = got->number;
            assert_int_equal(uvcci_jobs_take(&j, &(uvcc_completion){.id = job->id}, &owner, &who),
                             1);
        }
    }
    uvcci_jobs_free(&j, &al);
    assert_int_equal(mem.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_rank),   cmocka_unit_test(in_order),
        cmocka_unit_test(one_completion), cmocka_unit_test(planes),
        cmocka_unit_test(cancelling),     cmocka_unit_test(no_memory),
        cmocka_unit_test(at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
