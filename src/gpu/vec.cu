/* SPDX-License-Identifier: Apache-2.0 */
/* vec.cu - the tasks of blocks: a kernel for each kind. A thread does a unit of work; a block of
 * threads stays within a block of the task, so that roles do not diverge. Expanded keys and tables
 * of AES live in shared memory, as long as the kernel. */
#include "gpu/kinds.h"
#include "gpu/launch.h"
#include "gpu/tables.cuh"

namespace {

enum { THREADS_MAX = 1024, THREADS_FEW = 256 };

/* Packed values of an element. */
ON_BOTH_CONST unsigned packed_of(unsigned kind) {
    return kind == UVCC_TASK_DEAL ? 2 : 1;
}

struct vec_launch {
    vec_task t;
    uint32_t tiles; /* of a block */
    uvcc_step_keys keys;
};

template <unsigned KIND>
__global__ void __launch_bounds__(THREADS_MAX) vec_kernel(const __grid_constant__ vec_launch l) {
    __shared__ uint32_t key[needs_aes(KIND) ? STEP_KEYS : 1][AES_KEY_WORDS];
    __shared__ uint64_t staged[packed_of(KIND)][packs(KIND) ? THREADS_MAX : 1];
    if (needs_aes(KIND)) {
        fill_tables();
        __syncthreads();
        if (threadIdx.x < STEP_KEYS)
            aes_expand(threadIdx.x < PRG_KEYS ? &l.keys.prg[0][0][0] + 16 * threadIdx.x
                                              : l.keys.dpf[threadIdx.x - PRG_KEYS],
                       key[threadIdx.x]);
        __syncthreads();
    }
    for (uint32_t tile = blockIdx.x; tile < l.t.count * l.tiles; tile += gridDim.x) {
        vec c;
        c.t = &l.t;
        c.block = &l.t.blocks[tile / l.tiles];
        c.b = &c.block->at;
        c.key = key;
        c.i = tile % l.tiles * blockDim.x + threadIdx.x;
        const uint32_t units = units_of(&l.t, c.b);
        packed p = {{0, 0}};
        if (c.i < units)
            p = do_unit(KIND, &c);
        if constexpr (packs(KIND)) {
            const uint32_t first = c.i & ~31u;
            if (first >= (units + 63) / 64 * 64)
                continue;
            for (unsigned which = 0; which < packed_of(KIND); which++) {
                staged[which][threadIdx.x] = p.x[which];
                __syncwarp();
                const packing to = packing_of(&c, which);
                for (unsigned j = threadIdx.x & 31; j < 4 * to.bits; j += 32)
                    pack_byte(&to, c.b->count, first, staged[which] + (threadIdx.x & ~31u), j);
                __syncwarp();
            }
        }
    }
}

template <unsigned KIND> cudaError_t run(const vec_launch *l, unsigned sms, uint32_t units,
                                         cudaStream_t s) {
    const bool aes = needs_aes(KIND);
    /* Few elements are spread over many multiprocessors; many fill the tables of few. */
    const bool few = (uint64_t)l->t.count * units <= (uint64_t)THREADS_MAX * sms;
    const unsigned threads = few || !aes ? THREADS_FEW : THREADS_MAX;
    vec_launch mine = *l;
    mine.tiles = (units + threads - 1) / threads;
    const uint64_t all = (uint64_t)mine.t.count * mine.tiles, most = (uint64_t)sms * (aes ? 1 : 8);
    if (all == 0)
        return cudaSuccess;
    vec_kernel<KIND><<<(unsigned)(all < most ? all : most), threads,
                       aes ? AES_SHARED_WORDS * sizeof(uint32_t) : 0, s>>>(mine);
    return cudaGetLastError();
}

} // namespace

cudaError_t uvcci_gpu_run_vec(const vec_task *t, const uvcc_step_keys *keys, uint32_t units_max,
                              unsigned sms, cudaStream_t s) {
    vec_launch l = {};
    l.t = *t;
    if (keys != NULL)
        l.keys = *keys;
    switch (t->kind) {
#define RUN(NAME)                                                                                  \
    case UVCC_TASK_##NAME:                                                                         \
        return run<UVCC_TASK_##NAME>(&l, sms, units_max, s);
        UVCCI_GPU_VEC_KINDS(RUN)
#undef RUN
    default:
        return cudaErrorInvalidValue;
    }
}

cudaError_t uvcci_gpu_prepare_vec(void) {
    cudaError_t e = cudaSuccess;
#define PREPARE(NAME)                                                                              \
    if (needs_aes(UVCC_TASK_##NAME) && e == cudaSuccess)                                           \
        e = cudaFuncSetAttribute(vec_kernel<UVCC_TASK_##NAME>,                                     \
                                 cudaFuncAttributeMaxDynamicSharedMemorySize,                      \
                                 AES_SHARED_WORDS * sizeof(uint32_t));
    UVCCI_GPU_VEC_KINDS(PREPARE)
#undef PREPARE
    return e;
}
