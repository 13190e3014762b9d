/* SPDX-License-Identifier: Apache-2.0 */
/* A device that fails: CUDA does not recover from it in a process, so this is one of its own. All
 * jobs fail, none hangs, and the executor can be freed. Skipped where there is no card. */
#include "card_job.h"

static void all_jobs_fail(void **state) {
    static sum_job s, late;
    uvcc_gpu_config cfg = card_config();
    cfg.trust_pointers = true;
    uvcc_gpu *x = card_open(&cfg);
    (void)state;
    sum_make(&s, x, 1);
    sum_make(&late, x, 2);
    s.task[1].u.map.y.lo = (uint64_t *)(uintptr_t)8;
    assert_int_equal(card_status(x, &s.job), UVCC_ERR_JOB);
    assert_string_not_equal(uvcc_gpu_trouble(x), "");
    assert_int_equal(card_status(x, &late.job), UVCC_ERR_JOB);
    sum_free(&s);
    sum_free(&late);
    uvcc_gpu_free(x);
}

int main(void) {
    card_needed();
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_jobs_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
