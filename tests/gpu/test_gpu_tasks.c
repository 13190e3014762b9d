/* SPDX-License-Identifier: Apache-2.0 */
/* Every task on a card: the golden vectors, other operands beside the portable kernels, with
 * operands in pinned memory; what cannot run fails and says why; completions go to whose cookie
 * they have. Skipped where there is no card. */
#include "card.h"
#include "vector_test.h"

static int run_job(void *user, const uvcc_job *job, uvcc_completion *done) {
    uvcc_gpu *x = user;
    if (uvcc_gpu_submit(x, job) != 0)
        return -1;
    uvcc_gpu_wait(x);
    return uvcc_gpu_poll_of(x, job->cookie, done) == 1 ? 0 : -1;
}

static vector_executor on_card(uvcc_gpu *x) {
    vector_executor v = {.run = run_job, .user = x};
    v.memory = uvcc_gpu_allocator(x);
    return v;
}

static void golden_vectors(void **state) {
    const uvcc_gpu_config cfg = card_config();
    uvcc_gpu *x = card_open(&cfg);
    const vector_executor v = on_card(x);
    (void)state;
    vector_test_golden(&v);
    uvcc_gpu_free(x);
}

static void other_operands(void **state) {
    const uvcc_gpu_config cfg = card_config();
    uvcc_gpu *x = card_open(&cfg);
    const vector_executor v = on_card(x);
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++)
        vector_test_random(&v, seed);
    uvcc_gpu_free(x);
}

/* ---- jobs ---- */

enum { ELEMS = 5000 };

/* Operands of a sum on the device, and where it is to be found. */
typedef struct sum_job {
    uvcc_allocator al;
    uint64_t *x, *y, *z, host[2][ELEMS];
    uvcc_copy_item up[2], down;
    uvcc_task task[3];
    uvcc_job job;
} sum_job;

static void sum_make(sum_job *s, uvcc_gpu *x, uint64_t cookie) {
    *s = (sum_job){.al = uvcc_gpu_allocator(x)};
    uint64_t **all[] = {&s->x, &s->y, &s->z};
    for (unsigned i = 0; i < 3; i++) {
        *all[i] = s->al.alloc(s->al.user, sizeof s->host[0], UVCC_MEM_TENSOR);
        assert_non_null(*all[i]);
    }
    for (unsigned i = 0; i < ELEMS; i++) {
        s->host[0][i] = cookie + i;
        s->host[1][i] = 7u * i;
    }
    s->up[0] = (uvcc_copy_item){(uint8_t *)s->x, (uint8_t *)s->host[0], sizeof s->host[0]};
    s->up[1] = (uvcc_copy_item){(uint8_t *)s->y, (uint8_t *)s->host[1], sizeof s->host[1]};
    s->down = (uvcc_copy_item){(uint8_t *)s->host[0], (uint8_t *)s->z, sizeof s->host[0]};
    s->task[0] = (uvcc_task){.kind = UVCC_TASK_COPY, .u.copy = {.items = s->up, .count = 2}};
    s->task[1] = (uvcc_task){.kind = UVCC_TASK_MAP,
                             .u.map = {.op = UVCC_MAP_ADD,
                                       .rows = 1,
                                       .cols = ELEMS,
                                       .x = {s->x, NULL},
                                       .y = {s->y, NULL},
                                       .out = {s->z, NULL}}};
    s->task[2] = (uvcc_task){.kind = UVCC_TASK_COPY, .u.copy = {.items = &s->down, .count = 1}};
    s->job = (uvcc_job){.id = 3 * cookie, .cookie = cookie, .tasks = s->task, .count = 3};
}

static void sum_free(sum_job *s) {
    s->al.free(s->al.user, s->x, sizeof s->host[0], UVCC_MEM_TENSOR);
    s->al.free(s->al.user, s->y, sizeof s->host[0], UVCC_MEM_TENSOR);
    s->al.free(s->al.user, s->z, sizeof s->host[0], UVCC_MEM_TENSOR);
}

/* Memory of the test goes up and down with the job; completions have the cookie of their job. */
static void jobs_of_several_sessions(void **state) {
    enum { SESSIONS = 7 };
    static sum_job s[SESSIONS];
    const uvcc_gpu_config cfg = card_config();
    uvcc_gpu *x = card_open(&cfg);
    uvcc_completion c;
    (void)state;
    for (unsigned i = 0; i < SESSIONS; i++) {
        sum_make(&s[i], x, 100 + i);
        assert_int_equal(uvcc_gpu_submit(x, &s[i].job), 0);
    }
    for (unsigned i = SESSIONS; i-- != 0;) {
        while (uvcc_gpu_poll_of(x, 100 + i, &c) != 1)
            ; /* it comes: a job that hangs would fail at its deadline */
        assert_int_equal(c.cookie, 100 + i);
        assert_int_equal(c.id, 3 * (100 + i));
        assert_int_equal(c.status, 0);
        for (unsigned k = 0; k < ELEMS; k++)
            assert_int_equal(s[i].host[0][k], 100 + i + 8u * k);
        sum_free(&s[i]);
    }
    assert_int_equal(uvcc_gpu_pending(x), 0);
    assert_int_equal(uvcc_gpu_poll(x, &c), 0);
    assert_string_equal(uvcc_gpu_trouble(x), "");
    uvcc_gpu_free(x);
}

static int status_of(uvcc_gpu *x, const uvcc_job *job) {
    uvcc_completion c;
    assert_int_equal(run_job(x, job, &c), 0);
    return c.status;
}

/* A job that names memory of nobody's is refused before a kernel sees it, and others run on. */
static void a_stray_pointer_is_refused(void **state) {
    static sum_job s;
    static uint64_t stray[ELEMS];
    const uvcc_gpu_config cfg = card_config();
    uvcc_gpu *x = card_open(&cfg);
    (void)state;
    sum_make(&s, x, 1);
    s.task[1].u.map.y.lo = stray;
    assert_int_equal(status_of(x, &s.job), UVCC_ERR_JOB);
    assert_non_null(strstr(uvcc_gpu_trouble(x), "MAP: y"));
    s.task[1].u.map.y.lo = s.y;
    assert_int_equal(status_of(x, &s.job), 0);
    sum_free(&s);
    uvcc_gpu_free(x);
}

static void a_collective_is_refused(void **state) {
    const uvcc_gpu_config cfg = card_config();
    uvcc_gpu *x = card_open(&cfg);
    const uvcc_task t = {.kind = UVCC_TASK_COLLECTIVE};
    const uvcc_job job = {.id = 1, .tasks = &t, .count = 1};
    (void)state;
    assert_int_equal(status_of(x, &job), UVCC_ERR_JOB);
    assert_non_null(strstr(uvcc_gpu_trouble(x), "COLLECTIVE"));
    uvcc_gpu_free(x);
}

static void a_budget_holds(void **state) {
    uvcc_gpu_config cfg = card_config();
    cfg.device_bytes = 256u << 20;
    cfg.pinned_bytes = 64u << 20;
    uvcc_gpu *x = card_open(&cfg);
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    (void)state;
    assert_null(al.alloc(al.user, 300u << 20, UVCC_MEM_TENSOR));
    assert_null(al.alloc(al.user, 100u << 20, UVCC_MEM_WIRE));
    void *p = al.alloc(al.user, 200u << 20, UVCC_MEM_TENSOR);
    assert_non_null(p);
    assert_null(al.alloc(al.user, 200u << 20, UVCC_MEM_TENSOR));
    al.free(al.user, p, 200u << 20, UVCC_MEM_TENSOR);
    void *q = al.alloc(al.user, 200u << 20, UVCC_MEM_TENSOR);
    assert_ptr_equal(p, q);
    al.free(al.user, q, 200u << 20, UVCC_MEM_TENSOR);
    uvcc_gpu_free(x);
}

/* The last: CUDA does not recover from it in this process. */
static void a_lost_device_fails_all_jobs(void **state) {
    static sum_job s;
    uvcc_gpu_config cfg = card_config();
    cfg.trust_pointers = true;
    uvcc_gpu *x = card_open(&cfg);
    (void)state;
    sum_make(&s, x, 1);
    s.task[1].u.map.y.lo = (uint64_t *)(uintptr_t)8;
    assert_int_equal(status_of(x, &s.job), UVCC_ERR_JOB);
    assert_string_not_equal(uvcc_gpu_trouble(x), "");
    s.task[1].u.map.y.lo = s.y;
    assert_int_equal(status_of(x, &s.job), UVCC_ERR_JOB);
    uvcc_gpu_free(x);
}

int main(void) {
    card_needed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_vectors),
        cmocka_unit_test(other_operands),
        cmocka_unit_test(jobs_of_several_sessions),
        cmocka_unit_test(a_stray_pointer_is_refused),
        cmocka_unit_test(a_collective_is_refused),
        cmocka_unit_test(a_budget_holds),
        cmocka_unit_test(a_lost_device_fails_all_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
