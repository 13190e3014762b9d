/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - kernels put on a stream. Each call gives a cudaError_t; what went wrong while a kernel
 * ran comes out of the stream later. Everything that a task names must be where the device reaches
 * it. */
#ifndef UVCCI_GPU_LAUNCH_H
#define UVCCI_GPU_LAUNCH_H

#include <cuda_runtime_api.h>

#include "gpu/digest.h"
#include "gpu/map.h"
#include "gpu/product.h"
#include "gpu/vec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Once for each device, before anything else. */
cudaError_t uvcci_gpu_prepare_vec(void);
cudaError_t uvcci_gpu_prepare_forms(void);
/* units_max: of units_of() of all blocks; keys: NULL where the kind draws nothing. */
cudaError_t uvcci_gpu_run_vec(const vec_task *t, const uvcc_step_keys *keys, uint32_t units_max,
                              unsigned sms, cudaStream_t s);
cudaError_t uvcci_gpu_run_map(const map_task *t, unsigned sms, cudaStream_t s);
/* Scratch with which a GEMM runs on tensor cores; 0: it is too small to gain by them. */
size_t uvcci_gpu_gemm_scratch(const product_task *t);
/* scratch: 256-byte aligned; with too little of it, or none, CUDA cores do it. */
cudaError_t uvcci_gpu_run_gemm(const product_task *t, uint8_t *scratch, size_t bytes, unsigned sms,
                               cudaStream_t s);
cudaError_t uvcci_gpu_run_bits(const bits_task *t, unsigned sms, cudaStream_t s);
/* Digests of all chunks, DIGEST_BYTES each, go where `to` says; the first `ends` items, whose
 * chunks are `near`, end here. */
cudaError_t uvcci_gpu_run_hash(const digest_item *items, uint32_t count, uint32_t ends,
                               uint64_t chunks, const digest_places *to, cudaStream_t s);
/* len_max: of all items; over_bus: an end of them lies in memory of the host. */
cudaError_t uvcci_gpu_run_bytes(const uvcc_copy_item *items, uint32_t count, size_t len_max,
                                bool wipe, bool over_bus, cudaStream_t s);

/* Writes `mark` to memory of the host, after what ran before on the stream is seen there. */
cudaError_t uvcci_gpu_run_mark(uint32_t *to, uint32_t mark, cudaStream_t s);

#ifdef __cplusplus
}
#endif
#endif
