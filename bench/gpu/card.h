/* SPDX-License-Identifier: Apache-2.0 */
/* card.h - what benchmarks of a card's executor share: the executor, its memory, jobs that are
 * timed from uvcc_gpu_submit() to the completion. */
#ifndef UVCC_BENCH_GPU_CARD_H
#define UVCC_BENCH_GPU_CARD_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <uvcc/gpu.h>

static uvcc_gpu *gpu;
static uvcc_allocator memory;

static inline double seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void must(bool ok, const char *what) {
    if (ok)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, uvcc_gpu_trouble(gpu));
    exit(1);
}

static inline void *take(size_t bytes, uvcc_mem_class cls) {
    void *p = memory.alloc(memory.user, bytes, cls);
    must(p != NULL, "no memory");
    return p;
}

static inline int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds that the job takes, `runs` times after `warm` that are not counted, sorted. */
static inline void time_job(const uvcc_job *job, int warm, int runs, double *took) {
    for (int i = -warm; i < runs; i++) {
        uvcc_completion c;
        const double from = seconds();
        must(uvcc_gpu_submit(gpu, job) == 0, "submit");
        uvcc_gpu_wait(gpu);
        must(uvcc_gpu_poll(gpu, &c) == 1 && c.status == 0, "a job");
        if (i >= 0)
            took[i] = seconds() - from;
    }
    qsort(took, (size_t)runs, sizeof *took, by_size);
}

#endif
