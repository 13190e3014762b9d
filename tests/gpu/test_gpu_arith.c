/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that GPU kernels are made of, run on the CPU: they give the golden vectors of every
 * task, and on other operands what the portable kernels give. No card is needed. */
#include "support.h"

#include <uvcc/host.h>

#include "host_kernels.h"
#include "vector_test.h"

static int run_job(void *user, const uvcc_job *job, uvcc_completion *done) {
    (void)user;
    *done = (uvcc_completion){job->id, job->cookie, host_kernels_run(job)};
    return 0;
}

static vector_executor on_host(void) {
    vector_executor x = {.run = run_job};
    x.memory = uvcc_host_allocator();
    return x;
}

static void golden_vectors(void **state) {
    const vector_executor x = on_host();
    (void)state;
    vector_test_golden(&x);
}

static void other_operands(void **state) {
    const vector_executor x = on_host();
    (void)state;
    vector_test_random(&x, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_vectors),
        cmocka_unit_test(other_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
