/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that GPU kernels are made of, run on the CPU: they give the golden vectors of every
 * task, and on other operands what the portable kernels give. No card is needed. */
#include "support.h"

#include <inttypes.h>
#include <uvcc/host.h>

#include "host_kernels.h"
#include "selftest/vectors.h"

static vector_set files;

static int load(void **state) {
    vector_message m;
    (void)state;
    if (vector_set_load(&files, UVCC_VECTORS_DIR "/tasks", &m) != 0)
        fail_msg("%s", m.text);
    return 0;
}

static int unload(void **state) {
    (void)state;
    vector_set_free(&files);
    return 0;
}

static int run_job(void *user, const uvcc_job *job, uvcc_completion *done) {
    (void)user;
    *done = (uvcc_completion){job->id, job->cookie, host_kernels_run(job)};
    return 0;
}

static vector_run *run(const vector_file *f, const vector_executor *x, uint64_t seed) {
    vector_message m;
    vector_run *r = NULL;
    if (vector_run_on(&r, f, x, seed, &m) != 0)
        fail_msg("%s", m.text);
    return r;
}

static void report(int found, const vector_mismatch *x, const vector_message *m) {
    if (found < 0)
        fail_msg("%s", m->text);
    if (found > 0)
        fail_msg("%s (%s %s), unit %u, %s[%zu]: %" PRIx64 ", not %" PRIx64, x->name, x->task,
                 x->role, x->unit, x->operand, x->element, x->got, x->expected);
}

static void golden_vectors(void **state) {
    vector_executor x = {.run = run_job};
    x.memory = uvcc_host_allocator();
    (void)state;
    for (size_t i = 0; i < files.count; i++) {
        vector_mismatch at;
        vector_message m;
        vector_run *r = run(&files.files[i], &x, 0);
        report(vector_run_check(r, &at, &m), &at, &m);
        assert_true(vector_run_results(r) > 100);
        vector_run_free(r);
    }
}

static void other_operands(void **state) {
    vector_executor x = {.run = run_job};
    x.memory = uvcc_host_allocator();
    (void)state;
    for (size_t i = 0; i < files.count; i++) {
        vector_mismatch at;
        vector_message m;
        vector_run *want = NULL, *r = run(&files.files[i], &x, 5);
        if (vector_run_new(&want, &files.files[i], UVCC_BACKEND_PORTABLE, 5, &m) != 0)
            fail_msg("%s", m.text);
        report(vector_run_compare(r, want, &at, &m), &at, &m);
        vector_run_free(r);
        vector_run_free(want);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_vectors),
        cmocka_unit_test(other_operands),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
