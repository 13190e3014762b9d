/* SPDX-License-Identifier: Apache-2.0 */
/* A function's own time in `uvcc bench --micro` (tools/bench/watch.h): it begins where its op does,
 * also at a party that has no job of it then, and ends where the op is done; sharing its input, and
 * keys that are dealt for it, do not count. */
#include "bench/watch.h"
#include "support.h"

enum { INPUT, FUNCTION, OPS, JOB = 7 };

static void op(watch *w, uvcc_trace_kind kind, uint32_t index, uvcc_trace_work work) {
    const uvcc_op_trace t = {.kind = kind, .op = index, .work = (uint8_t)work, .job = JOB};
    watch_op(w, &t);
}

static void job_of(watch *w, uint32_t index, uvcc_trace_work work) {
    const uvcc_task task = {.kind = UVCC_TASK_COPY};
    const uvcc_job job = {.id = JOB, .tasks = &task, .count = 1};
    op(w, UVCC_TRACE_JOB_OUT, index, work);
    watch_job(w, &job, false);
    watch_job(w, &job, true);
    op(w, UVCC_TRACE_JOB_DONE, index, work);
}

static void test_function(void **state) {
    static const uint8_t family[OPS] = {[INPUT] = FAMILY_OTHER, [FUNCTION] = FAMILY_GELU};
    watch w;
    (void)state;
    watch_begin(&w, family, false);
    op(&w, UVCC_TRACE_BEGIN, FUNCTION, UVCC_TRACE_TURN); /* what is not timed */
    assert_true(w.first == 0);
    for (unsigned round = 0; round < 2; round++) {
        watch_times(&w, true);
        assert_true(w.first == 0 && w.last == 0);
        job_of(&w, FUNCTION, UVCC_TRACE_KEYS);
        op(&w, UVCC_TRACE_BEGIN, INPUT, UVCC_TRACE_TURN);
        job_of(&w, INPUT, UVCC_TRACE_TURN);
        op(&w, UVCC_TRACE_DONE, INPUT, UVCC_TRACE_TURN);
        assert_true(w.first == 0 && w.last == 0);
        op(&w, UVCC_TRACE_BEGIN, FUNCTION, UVCC_TRACE_TURN);
        const double first = w.first;
        assert_true(first > 0 && w.last == 0);
        job_of(&w, FUNCTION, UVCC_TRACE_TURN);
        op(&w, UVCC_TRACE_WAIT, FUNCTION, UVCC_TRACE_TURN);
        op(&w, UVCC_TRACE_RESUME, FUNCTION, UVCC_TRACE_TURN);
        op(&w, UVCC_TRACE_BEGIN, FUNCTION, UVCC_TRACE_TURN); /* another segment */
        assert_true(w.first == first && w.last == 0);
        op(&w, UVCC_TRACE_DONE, FUNCTION, UVCC_TRACE_TURN);
        assert_true(w.first == first && w.last >= first);
    }
    assert_int_equal(w.families[FAMILY_GELU].jobs, 4);
    assert_int_equal(w.families[FAMILY_OTHER].jobs, 2);
    watch_end(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_function)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
