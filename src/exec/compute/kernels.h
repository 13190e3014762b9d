/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h - the CPU's implementation of every task of <uvcc/task.h>, single-threaded. */
#ifndef UVCCI_KERNELS_H
#define UVCCI_KERNELS_H

#include "exec/compute/gemm.h"
#include "proto/aes.h"
#include <uvcc/compute.h>

/* A worker's scratch memory and choice of kernels; packing memory grows on demand. */
typedef struct uvcci_cpu_worker {
    uvcc_allocator alloc;
    uvcci_gemm_backend gemm;
    bool gemm_by_shape; /* gemm is the best there is, and each product may take another */
    uvcci_aes_backend aes;
    uint64_t *scratch; /* gemm packing */
    size_t scratch_words;
    uint8_t *block_scratch; /* block tasks: fixed size, made at init */
} uvcci_cpu_worker;

/* backend as in uvcc_cpu_config. */
int uvcci_cpu_worker_init(uvcci_cpu_worker *w, const uvcc_allocator *al, uint32_t backend);
/* Takes all the memory that any job can need, so that running never calls the allocator: a thread
 * must not, because the hook belongs to the owner. UVCC_ERR_NOMEM: nothing has changed. */
int uvcci_cpu_worker_reserve(uvcci_cpu_worker *w);
void uvcci_cpu_worker_free(uvcci_cpu_worker *w); /* wipes scratch */
/* Runs all tasks of a job in order. 0 or UVCC_ERR_JOB (out of scratch memory, unknown kind). */
int uvcci_cpu_run(uvcci_cpu_worker *w, const uvcc_job *job);
#endif
