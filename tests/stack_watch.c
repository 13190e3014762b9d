/* SPDX-License-Identifier: Apache-2.0 */
/* stack_watch.c - no job takes more stack than uvcc/compute.h says. Linked into a test with
 * --wrap=uvcci_cpu_run, it runs each job on a thread of its own whose stack was painted, and looks
 * how deep the paint is gone. Sanitizers make frames larger, so with them it only runs the jobs. */
#include "support.h"

#include <pthread.h>
#include <uvcc/compute.h>

#include "exec/compute/kernels.h"

enum { STACK_BYTES = 2 * UVCC_TASK_STACK_BYTES, PAINT = 0xA5 };

int __real_uvcci_cpu_run(uvcci_cpu_worker *w, const uvcc_job *job);
int __wrap_uvcci_cpu_run(uvcci_cpu_worker *w, const uvcc_job *job);

#if SANITIZED
int __wrap_uvcci_cpu_run(uvcci_cpu_worker *w, const uvcc_job *job) {
    return __real_uvcci_cpu_run(w, job);
}
#else
typedef struct call {
    uvcci_cpu_worker *w;
    const uvcc_job *job;
    int status;
} call;

static void *run(void *arg) {
    call *c = arg;
    c->status = __real_uvcci_cpu_run(c->w, c->job);
    return NULL;
}

int __wrap_uvcci_cpu_run(uvcci_cpu_worker *w, const uvcc_job *job) {
    uint8_t *stack = aligned_alloc(1u << 16, STACK_BYTES);
    call c = {.w = w, .job = job};
    pthread_attr_t attr;
    pthread_t thread;
    assert_non_null(stack);
    memset(stack, PAINT, STACK_BYTES);
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstack(&attr, stack, STACK_BYTES), 0);
    assert_int_equal(pthread_create(&thread, &attr, run, &c), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pthread_attr_destroy(&attr), 0);
    size_t clean =
        0; /* the stack grows down; at its top stands what the C library keeps of a thread */
    while (clean < STACK_BYTES && stack[clean] == PAINT)
        clean++;
    if (STACK_BYTES - clean > UVCC_TASK_STACK_BYTES)
        fail_msg("a job, with task %u first, takes %zu bytes of stack",
                 job->count > 0 ? job->tasks[0].kind : 0, STACK_BYTES - clean);
    free(stack);
    return c.status;
}
#endif
