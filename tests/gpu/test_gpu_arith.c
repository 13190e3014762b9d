/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that GPU kernels are made of, run on the CPU: they give the golden vectors of every
 * task, and on other operands what the portable kernels give. No card is needed. */
#include "support.h"

#include <uvcc/host.h>

#include "host_kernels.h"
#include "in_place.h"
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

/* And of executors on the CPU. */
static int run_on_cpu(void *user, const uvcc_job *job, uvcc_completion *done) {
    uvcc_cpu *x = user;
    if (uvcc_cpu_submit(x, job) != 0)
        return -1;
    return uvcc_cpu_poll(x, done) == 1 ? 0 : -1;
}

static void maps_in_place(void **state) {
    const vector_executor host = on_host();
    uvcc_cpu_config cfg = {.size = sizeof cfg, .mode = UVCC_CPU_INLINE};
    vector_executor cpu = {.run = run_on_cpu};
    (void)state;
    in_place_maps(&host);
    cfg.alloc = cpu.memory = uvcc_host_allocator();
    for (cfg.backend = UVCC_BACKEND_AUTO; cfg.backend <= UVCC_BACKEND_PORTABLE; cfg.backend++) {
        uvcc_cpu *x = NULL;
        assert_int_equal(uvcc_cpu_new(&x, &cfg), 0);
        cpu.user = x;
        in_place_maps(&cpu);
        uvcc_cpu_free(x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_vectors),
        cmocka_unit_test(other_operands),
        cmocka_unit_test(maps_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
