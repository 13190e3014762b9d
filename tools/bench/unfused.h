/* SPDX-License-Identifier: Apache-2.0 */
/* unfused.h - an executor that runs each task of a job as a job of its own, one after the other,
 * over another executor: what --disable-fusion measures. */
#ifndef UVCC_TOOLS_BENCH_UNFUSED_H
#define UVCC_TOOLS_BENCH_UNFUSED_H

#include <uvcc/compute.h>

typedef struct unfused unfused;

/* Over `under`, whose hooks stay the caller's; NULL: out of memory. Calls come from one thread. */
unfused *unfused_new(const uvcc_cpu_elsewhere *under);
uvcc_cpu_elsewhere unfused_elsewhere(unfused *x);
/* Jobs of one task that were submitted. */
uint64_t unfused_jobs(const unfused *x);
/* After all completions. NULL: nothing. */
void unfused_free(unfused *x);

#endif
