/* SPDX-License-Identifier: Apache-2.0 */
/* A job that outlives its deadline fails, and so does all that comes after it: its kernels may
 * still write. Skipped where there is no card. */
#include "card_job.h"

/* Long: a thousand million multiplications for each of many elements, on one nanosecond. */
static void a_job_past_its_deadline_fails(void **state) {
    enum { SIDE = 8192 };
    uvcc_gpu_config cfg = card_config();
    cfg.deadline_ns = 1;
    uvcc_gpu *x = card_open(&cfg);
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    uint64_t *p = al.alloc(al.user, (size_t)SIDE * SIDE * 8, UVCC_MEM_TENSOR);
    uint64_t *z = al.alloc(al.user, (size_t)SIDE * SIDE * 8, UVCC_MEM_TENSOR);
    const uvcc_task t = {
        .kind = UVCC_TASK_GEMM,
        .u.gemm = {.m = SIDE, .n = SIDE, .k = SIDE, .x = {p, p}, .y = {p, p}, .z = z}};
    const uvcc_job job = {.id = 1, .tasks = &t, .count = 1};
    (void)state;
    assert_true(p != NULL && z != NULL);
    assert_int_equal(card_status(x, &job), UVCC_ERR_JOB);
    assert_non_null(strstr(uvcc_gpu_trouble(x), "deadline"));
    assert_int_equal(card_status(x, &job), UVCC_ERR_JOB);
    al.free(al.user, p, (size_t)SIDE * SIDE * 8, UVCC_MEM_TENSOR);
    al.free(al.user, z, (size_t)SIDE * SIDE * 8, UVCC_MEM_TENSOR);
    uvcc_gpu_free(x);
}

int main(void) {
    card_needed();
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_job_past_its_deadline_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
