/* SPDX-License-Identifier: Apache-2.0 */
/* The root of a large transcript, by jobs: the same as at once, for every number of leaves; whole
 * sessions with it; failures on the way. */
#include "triangle.h"

#include "exec/session/root.h"

enum { COLS = 4, IN_X = 1, OUT_X = 2 };

static uvcc_program *sum_program(test_alloc *mem) {
    uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    char why[256] = "";
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = test_tensor(p, "x", 1, COLS, 20, 10, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "one") >= 0);
    assert_true(uvcc_program_input(p, IN_X, x, 1) >= 0);
    assert_true(uvcc_program_output(p, OUT_X, x) >= 0);
    assert_int_equal(uvcc_program_finish(p, why, sizeof why), 0);
    return p;
}

/* Leaves of all lengths, in no order. */
static uvcci_transcript *transcript(const uvcc_allocator *al, uint32_t n) {
    uvcci_transcript *t;
    uint64_t rnd = n;
    assert_int_equal(uvcci_transcript_new(&t, al, n), 0);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
        test_rand_bytes(&rnd, leaf, sizeof leaf);
        const size_t len = 1 + test_rand(&rnd) % UVCCI_LEAF_MAX_BYTES;
        assert_int_equal(
            uvcci_transcript_add(t, (uint32_t)(test_rand(&rnd) % (n / 3 + 1)), leaf, len), 0);
    }
    return t;
}

/* Runs all jobs of the session; those that are out at the same time in any order. Their number. */
static unsigned run_jobs(triangle *t) {
    const uvcc_job *job;
    uvcc_completion c;
    unsigned n = 0;
    while (uvcc_session_poll_job(t->s[0], &job) == 1) {
        assert_int_equal(uvcc_cpu_submit(t->cpu[0], job), 0);
        n++;
    }
    while (uvcc_cpu_pending(t->cpu[0]) != 0)
        if (uvcc_cpu_poll(t->cpu[0], &c) == 1)
            assert_int_equal(uvcc_session_complete(t->s[0], &c, 0), 0);
    return n;
}

static void few_jobs(uvcc_config *c) {
    c->limits.jobs_max = 4;
}

static void begin(triangle *t, test_alloc *mem, uvcc_program **p, bool few) {
    *p = sum_program(mem);
    triangle_make(
        t, *p,
        &(triangle_options){.seed = 5, .mode = UVCC_CPU_DEFERRED, .tweak = few ? few_jobs : NULL});
}

static void test_every_number_of_leaves(void **state) {
    (void)state;
    static const uint32_t counts[] = {1,    2,    3,    5,    7,    1023, 1024,  1025, 1026,
                                      1500, 2047, 2048, 2049, 3000, 4097, 20001, 33793};
    test_alloc mem = {0};
    uvcc_program *p;
    triangle t;
    for (unsigned few = 0; few < 2; few++) {
        begin(&t, &mem, &p, few != 0);
        for (unsigned k = 0; k < sizeof counts / sizeof counts[0]; k++) {
            uvcc_session *s = t.s[0];
            uvcci_step st = {.transcript = transcript(&s->alloc, counts[k])};
            uvcci_transcript *other = transcript(&s->alloc, counts[k]);
            uint8_t root[32];
            unsigned jobs = 0;
            int rc;
            assert_int_equal(uvcci_transcript_root(other, root), 0);
            while ((rc = uvcci_root_advance(s, &st)) == 0) {
                const unsigned n = run_jobs(&t);
                assert_true(n != 0 && n <= (few != 0 ? 4 : UVCCI_ROOT_LANES));
                jobs += n;
            }
            assert_int_equal(rc, 1);
            assert_int_equal(jobs, (counts[k] + UVCCI_ROOT_SLICE - 1) / UVCCI_ROOT_SLICE);
            assert_memory_equal(st.step_root, root, 32);
            assert_null(st.root);
            for (uint32_t i = 0; i < counts[k]; i++) { /* in order, for the bundle */
                uint32_t row[2];
                const uint8_t *leaf[2];
                size_t len[2];
                assert_int_equal(
                    uvcci_transcript_leaf(st.transcript, i, &row[0], &leaf[0], &len[0]), 0);
                assert_int_equal(uvcci_transcript_leaf(other, i, &row[1], &leaf[1], &len[1]), 0);
                assert_true(row[0] == row[1] && len[0] == len[1]);
                assert_memory_equal(leaf[0], leaf[1], len[0]);
            }
            uvcci_transcript_free(st.transcript);
            uvcci_transcript_free(other);
        }
        triangle_free(&t);
        uvcc_program_free(p);
    }
    assert_int_equal(mem.live_blocks, 0);
}

/* Each allocation fails once: the root is refused and nothing is left, or it comes with fewer jobs
 * at a time. */
static void test_no_memory(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p;
    triangle t;
    begin(&t, &mem, &p, false);
    uvcc_session *s = t.s[0];
    unsigned refused = 0, fewer = 0;
    for (size_t fail = 1; fail <= 8; fail++) {
        uvcci_step st = {.transcript = transcript(&s->alloc, 5000)};
        t.mem.fail_at = fail;
        int rc = uvcci_root_advance(s, &st);
        t.mem.fail_at = 0;
        refused += rc == UVCC_ERR_NOMEM;
        if (rc == UVCC_ERR_NOMEM)
            assert_null(st.root);
        for (; rc == 0; rc = uvcci_root_advance(s, &st))
            fewer += run_jobs(&t) == 4;
        assert_true(rc == 1 || rc == UVCC_ERR_NOMEM);
        uvcci_transcript_free(st.transcript);
    }
    assert_int_equal(refused, 4); /* sorting, the root, its slices' roots, the first lane */
    assert_int_equal(fewer, 4);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

static void one_step(triangle *t, uint32_t step) {
    const int64_t x[COLS] = {5, -6, 7, -8};
    triangle_agree(t, step, 0);
    triangle_input(t, 1, step, IN_X, x);
}

/* Sessions of which party 0 and 2 hash by jobs and party 1 at once have the roots of sessions that
 * all hash at once, and AUDITs and bundles that verify. */
static void test_sessions(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = sum_program(&mem);
    uint8_t root[2][3][32];
    for (unsigned by_jobs = 0; by_jobs < 2; by_jobs++) {
        triangle t;
        uvcc_session_stats st[3];
        triangle_open(&t, p, &(triangle_options){.seed = 6, .mode = UVCC_CPU_DEFERRED});
        for (unsigned i = 0; i < 3 && by_jobs != 0; i += 2)
            t.s[i]->root_inline = 0;
        triangle_ready(&t);
        for (uint32_t step = 0; step < 3; step++) {
            one_step(&t, step);
            triangle_finish(&t, step + 1);
        }
        while (t.audits[0] + t.audits[1] + t.audits[2] < 18 ||
               t.bundles[0] + t.bundles[1] + t.bundles[2] < 9)
            assert_true(triangle_turn(&t));
        memcpy(root[by_jobs], t.root, sizeof t.root);
        for (unsigned i = 0; i < 3; i++)
            uvcc_session_get_stats(t.s[i], &st[i]);
        if (by_jobs != 0) /* three more, of equal work */
            assert_int_equal(st[0].jobs, st[2].jobs);
        triangle_close(&t);
        triangle_free(&t);
    }
    assert_memory_equal(root[0], root[1], sizeof root[0]);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* The job fails, or the session is aborted while it is out: no root, and CLOSED waits for it. */
static void test_ends_on_the_way(void **state) {
    (void)state;
    for (unsigned fails = 0; fails < 2; fails++) {
        test_alloc mem = {0};
        uvcc_program *p = sum_program(&mem);
        triangle t;
        triangle_open(&t, p, &(triangle_options){.seed = 8, .mode = UVCC_CPU_INLINE});
        t.s[0]->root_inline = 0;
        triangle_ready(&t);
        one_step(&t, 0);
        while (t.s[0]->ctx[0].root == NULL) { /* all that is done before it, by hand */
            const uvcc_job *job;
            uvcc_completion c;
            uvcc_loopback_event ev;
            uvcc_transmit tx;
            const uint64_t now = triangle_now(&t);
            for (unsigned i = 0; i < 3; i++) {
                while (t.s[0]->ctx[0].root == NULL && uvcc_session_poll_job(t.s[i], &job) == 1) {
                    assert_int_equal(uvcc_cpu_submit(t.cpu[i], job), 0);
                    assert_int_equal(uvcc_cpu_poll(t.cpu[i], &c), 1);
                    assert_int_equal(uvcc_session_complete(t.s[i], &c, now), 0);
                }
                while (uvcc_session_poll_transmit(t.s[i], &tx, now) == 1)
                    assert_int_equal(
                        uvcc_session_transmit_done(
                            t.s[i], tx.peer, tx.id,
                            uvcc_loopback_send(t.net, i, tx.peer, tx.slices, tx.slice_count), now),
                        0);
                if (uvcc_session_next_deadline(t.s[i]) <= now)
                    assert_int_equal(uvcc_session_on_timer(t.s[i], now), 0);
            }
            uvcc_loopback_advance(t.net, uvcc_loopback_next(t.net) != UVCC_NEVER
                                             ? uvcc_loopback_next(t.net)
                                             : now + 1000000);
            while (uvcc_loopback_poll(t.net, &ev) == 1)
                assert_int_equal(uvcc_session_feed(t.s[ev.to], (uint8_t)ev.from, ev.data, ev.len,
                                                   triangle_now(&t)),
                                 0);
        }
        const uvcc_job *job;
        assert_int_equal(uvcc_session_poll_job(t.s[0], &job), 1);
        assert_int_equal(job->tasks[0].kind, UVCC_TASK_HASH);
        const uint64_t now = triangle_now(&t);
        uvcc_completion c = {.id = job->id, .cookie = job->cookie};
        triangle_events(&t);
        assert_int_equal(t.finished[0], 0);
        if (fails != 0) {
            c.status = UVCC_ERR_JOB;
            assert_int_equal(uvcc_session_complete(t.s[0], &c, now), 0);
            triangle_events(&t);
            assert_int_equal(t.aborted[0], UVCC_ABORT_JOB);
        } else {
            assert_int_equal(uvcc_session_abort(t.s[0], UVCC_ABORT_HOST, now), 0);
            assert_int_equal(uvcc_session_close(t.s[0], now), 0);
            assert_int_equal(uvcc_session_on_timer(t.s[0], now + 100000000000ull), 0);
            triangle_events(&t);
            assert_false(t.closed[0]);
            assert_int_equal(uvcc_session_complete(t.s[0], &c, now), 0);
            triangle_events(&t);
            assert_true(t.closed[0]);
        }
        assert_int_equal(t.finished[0], 0);
        triangle_free(&t);
        uvcc_program_free(p);
        assert_int_equal(mem.live_blocks, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_number_of_leaves),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_ends_on_the_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
