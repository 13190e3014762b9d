/* SPDX-License-Identifier: Apache-2.0 */
/* host_kernels.h - the arithmetic of GPU kernels, one element after the other on the CPU. */
#ifndef UVCC_TESTS_GPU_HOST_KERNELS_H
#define UVCC_TESTS_GPU_HOST_KERNELS_H

#include <uvcc/compute.h>

#include "gpu/describe.h"

/* Runs a job by what is below; its status (host_jobs.c). */
int host_kernels_run(const uvcc_job *job);
/* What kernels take: in C (host_kernels.c), or as they are launched (emulated/). */
void host_kernels_vec(const vec_task *t, const uvcc_step_keys *keys);
void host_kernels_map(const map_task *t);
void host_kernels_gemm(const product_task *t);
void host_kernels_bits(const bits_task *t);
void host_kernels_hash(const digest_item *items, uint32_t count, uint32_t ends, uint64_t chunks,
                       const digest_places *to);
void host_kernels_bytes(const uvcc_copy_item *items, uint32_t count, bool wipe);

#endif
