/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA devices for test_nccl. */
#include "lab.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

const uvcci_nccl_back_end *const lab_back_end = &uvcci_nccl_by_nccl;

static void must(cudaError_t e) {
    if (e == cudaSuccess)
        return;
    (void)fprintf(stderr, "cards.c: %s\n", cudaGetErrorString(e));
    abort();
}

uint32_t lab_devices(const char **why) {
    int count = 0;
    const cudaError_t e = cudaGetDeviceCount(&count);
    *why = e != cudaSuccess ? cudaGetErrorString(e) : "there are fewer than two CUDA devices";
    return e == cudaSuccess && count >= 2 ? (uint32_t)count : 0;
}

void *lab_take(uint32_t device, size_t bytes, bool pinned) {
    void *at = NULL;
    must(cudaSetDevice((int)device));
    must(pinned ? cudaHostAlloc(&at, bytes, cudaHostAllocPortable | cudaHostAllocMapped)
                : cudaMalloc(&at, bytes));
    return at;
}

void lab_give(void *at, bool pinned) {
    must(pinned ? cudaFreeHost(at) : cudaFree(at));
}

void lab_write(void *at, const void *from, size_t bytes) {
    must(cudaMemcpy(at, from, bytes, cudaMemcpyDefault));
}

void lab_read(void *to, const void *at, size_t bytes) {
    must(cudaMemcpy(to, at, bytes, cudaMemcpyDefault));
}

void lab_memory_call(uint32_t device) {
    lab_give(lab_take(device, 1 << 20, false), false);
    lab_give(lab_take(device, 1 << 20, true), true);
}

bool lab_can_break(void) {
    return false;
}

bool lab_break(uint32_t rank, lab_fault fault) {
    (void)rank;
    (void)fault;
    return false;
}

unsigned lab_await_held(void) {
    return 0;
}

void lab_let_begin(void) {}
