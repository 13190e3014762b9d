/* SPDX-License-Identifier: Apache-2.0 */
/* test_overlap.c - how much of a session's work happens at the same time (tools/overlap.h): what is
 * under way counts once, parts count each, and a job is the first of its tasks' parts. */
#include "support.h"

#include "overlap.h"

static overlap_part part_of(const uvcc_task_kind *kinds, uint32_t count) {
    uvcc_task tasks[4] = {0};
    for (uint32_t i = 0; i < count; i++)
        tasks[i].kind = kinds[i];
    return overlap_part_of(&(uvcc_job){.tasks = tasks, .count = count});
}

static void parts_of_jobs(void **state) {
    (void)state;
    static const struct {
        uvcc_task_kind kinds[4];
        uint32_t count;
        overlap_part part;
    } jobs[] = {
        {{UVCC_TASK_MAP, UVCC_TASK_WIPE}, 2, OVERLAP_OTHER},
        {{UVCC_TASK_HASH}, 1, OVERLAP_HASHING},
        {{UVCC_TASK_COPY, UVCC_TASK_OPEN2_MASK, UVCC_TASK_HASH}, 3, OVERLAP_PACKING},
        {{UVCC_TASK_GEMM, UVCC_TASK_SR_OPEN, UVCC_TASK_HASH}, 3, OVERLAP_GEMM},
        {{UVCC_TASK_FN_OPEN_FINISH, UVCC_TASK_FN_TABLE, UVCC_TASK_GEMM}, 3, OVERLAP_FSS},
        {{UVCC_TASK_ONE_HOT_ROWS}, 1, OVERLAP_FSS},
        {{UVCC_TASK_COLLECTIVE}, 1, OVERLAP_EXCHANGE},
    };
    for (unsigned i = 0; i < sizeof jobs / sizeof jobs[0]; i++)
        assert_int_equal(part_of(jobs[i].kinds, jobs[i].count), jobs[i].part);
}

/* Two products from 10 to 30, one function from 20 to 50, a wait from 60 to 100: 90 from the first
 * to the last, 20 + 30 + 40 in parts. */
static void times(void **state) {
    (void)state;
    overlap o = {0};
    overlap_begin(&o, OVERLAP_GEMM, 10);
    overlap_begin(&o, OVERLAP_GEMM, 15);
    overlap_begin(&o, OVERLAP_FSS, 20);
    overlap_end(&o, OVERLAP_GEMM, 25);
    overlap_end(&o, OVERLAP_GEMM, 30);
    overlap_end(&o, OVERLAP_FSS, 50);
    overlap_begin(&o, OVERLAP_NETWORK, 60);
    overlap_begin(&o, OVERLAP_NETWORK, 70);
    overlap_stop(&o, 100);
    assert_int_equal(o.busy[OVERLAP_GEMM], 20);
    assert_int_equal(o.busy[OVERLAP_FSS], 30);
    assert_int_equal(o.busy[OVERLAP_NETWORK], 40);
    assert_int_equal(o.last - o.first, 90);
    for (unsigned p = 0; p < OVERLAP_PARTS; p++) {
        assert_int_equal(o.now[p], 0);
        assert_non_null(overlap_name((overlap_part)p));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_jobs),
        cmocka_unit_test(times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
