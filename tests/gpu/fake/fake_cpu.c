/* SPDX-License-Identifier: Apache-2.0 */
/* fake_cpu.c - see fake_cpu.h. */
#include "fake_cpu.h"

#undef uvcc_cpu_submit
#undef uvcc_cpu_poll

#include <stdatomic.h>
#include <uvcc/compute.h>

int fake_cpu_submit(uvcc_cpu *x, const uvcc_job *job);
int fake_cpu_poll(uvcc_cpu *x, uvcc_completion *out);

static atomic_bool fails;
static atomic_uint hashes;

void fake_cpu_fails(bool on) {
    atomic_store(&fails, on);
}

uint32_t fake_cpu_hashes(void) {
    return atomic_load(&hashes);
}

int fake_cpu_submit(uvcc_cpu *x, const uvcc_job *job) {
    for (uint32_t i = 0; i < job->count; i++)
        if (job->tasks[i].kind == UVCC_TASK_HASH)
            atomic_fetch_add(&hashes, job->tasks[i].u.hash.count);
    return uvcc_cpu_submit(x, job);
}

int fake_cpu_poll(uvcc_cpu *x, uvcc_completion *out) {
    const int rc = uvcc_cpu_poll(x, out);
    if (rc == 1 && atomic_load(&fails))
        out->status = UVCC_ERR_JOB;
    return rc;
}
