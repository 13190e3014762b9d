/* SPDX-License-Identifier: Apache-2.0 */
/* vec.cu - the tasks of blocks: a kernel for each kind. A thread does a unit of work; a block of
 * threads stays within a block of the task, so that roles do not diverge. Expanded keys and tables
 * of AES live in shared memory, as long as the kernel. */
#include "gpu/kinds.h"
#include "gpu/launch.h"
#include "gpu/tables.cuh"

namespace {

enum { THREADS_MAX = 1024, THREADS_FEW = 256, WARP = 32 };

/* Packed values of an element. */
ON_BOTH_CONST unsigned packed_of(unsigned kind) {
    return kind == UVCC_TASK_DEAL ? 2 : 1;
}

struct vec_launch {
    vec_task t;
    uint32_t tiles; /* of a block */
    uvcc_step_keys keys;
};

using expanded = uint32_t[AES_KEY_WORDS];

template <unsigned KIND> __device__ void begin(const vec_launch *l, expanded *key) {
    if (!needs_aes(KIND))
        return;
    fill_tables();
    __syncthreads();
    if (threadIdx.x < STEP_KEYS)
        aes_expand(threadIdx.x < PRG_KEYS ? &l->keys.prg[0][0][0] + 16 * threadIdx.x
                                          : l->keys.dpf[threadIdx.x - PRG_KEYS],
                   key[threadIdx.x]);
    __syncthreads();
}

__device__ vec vec_of(const vec_launch *l, const expanded *key, uint32_t tile) {
    vec c;
    c.t = &l->t;
    c.block = &l->t.blocks[tile / l->tiles];
    c.b = &c.block->at;
    c.key = key;
    c.i = tile % l->tiles * blockDim.x + threadIdx.x;
    c.lane = 0;
    c.lanes = 1;
    return c;
}

template <unsigned KIND>
__global__ void __launch_bounds__(THREADS_MAX) vec_kernel(const __grid_constant__ vec_launch l) {
    __shared__ uint32_t key[needs_aes(KIND) ? STEP_KEYS : 1][AES_KEY_WORDS];
    __shared__ uint64_t staged[packed_of(KIND)][packs(KIND) ? THREADS_MAX : 1];
    begin<KIND>(&l, key);
    for (uint32_t tile = blockIdx.x; tile < l.t.count * l.tiles; tile += gridDim.x) {
        const vec c = vec_of(&l, key, tile);
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

/* A warp for each element: where there are few, each of them long. */
template <unsigned KIND>
__global__ void __launch_bounds__(THREADS_MAX) parts_kernel(const __grid_constant__ vec_launch l) {
    __shared__ uint32_t key[STEP_KEYS][AES_KEY_WORDS];
    begin<KIND>(&l, key);
    for (uint32_t tile = blockIdx.x; tile < l.t.count * l.tiles; tile += gridDim.x) {
        vec c = vec_of(&l, key, tile);
        c.lane = c.i % WARP;
        c.lanes = WARP;
        c.i /= WARP;
        if (c.i >= c.b->count)
            continue;
        uint64_t sum = part_of_unit(KIND, &c);
        for (unsigned d = WARP / 2; d != 0; d /= 2)
            sum += __shfl_xor_sync(~0u, sum, d);
        if (c.lane == 0)
            end_of_unit(KIND, &c, sum);
    }
}

/* Blocks of threads: a multiprocessor holds the tables of one, and a task's block is cut into
 * whole ones. As many threads as let all multiprocessors be through first: each of them does so
 * many rounds, which take as long as threads have to share its shared memory, and some time more. */
unsigned threads_of(bool aes, uint32_t blocks, uint64_t units, unsigned sms) {
    enum { BESIDE = 96 };
    unsigned best = THREADS_FEW;
    uint64_t least = ~(uint64_t)0;
    for (unsigned t = THREADS_FEW; aes && t <= THREADS_MAX; t += WARP) {
        const uint64_t tiles = blocks * ((units + t - 1) / t), rounds = (tiles + sms - 1) / sms;
        if (rounds * (t + BESIDE) < least) {
            least = rounds * (t + BESIDE);
            best = t;
        }
    }
    return best;
}

template <unsigned KIND> cudaError_t run(const vec_launch *l, unsigned sms, uint32_t units,
                                         cudaStream_t s) {
    const bool aes = needs_aes(KIND);
    /* Elements by warps take several times the AES blocks that they take alone. */
    const uint64_t alone = (uint64_t)l->t.count * units;
    const bool parts = has_parts(KIND) && 8 * alone <= (uint64_t)THREADS_MAX * sms;
    const uint64_t work = parts ? (uint64_t)units * WARP : units;
    const unsigned threads = threads_of(aes, l->t.count, work, sms);
    vec_launch mine = *l;
    mine.tiles = (uint32_t)((work + threads - 1) / threads);
    const uint64_t all = (uint64_t)mine.t.count * mine.tiles, most = (uint64_t)sms * (aes ? 1 : 8);
    const unsigned grid = (unsigned)(all < most ? all : most);
    const size_t tables = aes ? AES_SHARED_WORDS * sizeof(uint32_t) : 0;
    if (all == 0)
        return cudaSuccess;
    if constexpr (has_parts(KIND))
        if (parts) {
            parts_kernel<KIND><<<grid, threads, tables, s>>>(mine);
            return cudaGetLastError();
        }
    vec_kernel<KIND><<<grid, threads, tables, s>>>(mine);
    return cudaGetLastError();
}

template <unsigned KIND> cudaError_t prepare(void) {
    const int tables = AES_SHARED_WORDS * sizeof(uint32_t);
    if constexpr (has_parts(KIND)) {
        const cudaError_t e = cudaFuncSetAttribute(
            parts_kernel<KIND>, cudaFuncAttributeMaxDynamicSharedMemorySize, tables);
        if (e != cudaSuccess)
            return e;
    }
    return needs_aes(KIND)
               ? cudaFuncSetAttribute(vec_kernel<KIND>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      tables)
               : cudaSuccess;
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
    if (e == cudaSuccess)                                                                          \
        e = prepare<UVCC_TASK_##NAME>();
    UVCCI_GPU_VEC_KINDS(PREPARE)
#undef PREPARE
    return e;
}
