/* SPDX-License-Identifier: Apache-2.0 */
/* The language of kernels in C++, on a device that is one thread of the host: its threads are run
 * in turn, from where they wait for each other to where they do so again. It stops a test where
 * CUDA would have no defined result: threads of a warp that do not meet, addresses that are not
 * aligned, shared memory or threads beyond what the kernel was prepared for. */
#ifndef UVCC_TESTS_GPU_DEVICE_H
#define UVCC_TESTS_GPU_DEVICE_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <tuple>

using std::min;

#define __CUDACC__
#define __CUDA_ARCH__ 900
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline
#define __noinline__    __attribute__((noinline))
#define __align__(n)    __attribute__((aligned(n)))

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct alignas(16) int4 {
    int32_t x, y, z, w;
};
struct alignas(16) ulonglong2 {
    unsigned long long x, y;
};
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

/* --- Threads that wait for each other --------------------------------------------------------- */

/* What the lanes of a warp bring to where they meet; all of it, when they have. */
const uint64_t *emulated_warp(unsigned where, uint32_t mask, uint64_t mine);
bool emulated_block(bool mine);
/* Copies to shared memory that are there when they are waited for, and not before. */
void __pipeline_memcpy_async(void *to, const void *from, size_t bytes);
void __pipeline_commit();
void __pipeline_wait_prior(unsigned groups);
/* What the kernel that runs has: it is what nobody wrote when a block begins. */
void emulated_share(void *at, size_t bytes);
void emulated_bounds(unsigned threads, unsigned blocks = 1);

template <class T> T emulated_lane(unsigned where, uint32_t mask, T x, unsigned lane) {
    static_assert(sizeof x <= 8, "a word");
    uint64_t word = 0;
    memcpy(&word, &x, sizeof x);
    word = emulated_warp(where, mask, word)[lane % 32];
    memcpy(&x, &word, sizeof x);
    return x;
}
template <class T> T __shfl_sync(uint32_t mask, T x, unsigned from) {
    return emulated_lane(1, mask, x, from);
}
template <class T> T __shfl_xor_sync(uint32_t mask, T x, unsigned by) {
    return emulated_lane(2, mask, x, threadIdx.x % 32 ^ by);
}
template <class T> T __shfl_down_sync(uint32_t mask, T x, unsigned by) {
    const unsigned lane = threadIdx.x % 32;
    return emulated_lane(3, mask, x, lane + by < 32 ? lane + by : lane);
}
inline uint32_t __reduce_max_sync(uint32_t mask, uint32_t x) {
    const uint64_t *all = emulated_warp(4, mask, x);
    return (uint32_t)*std::max_element(all, all + 32);
}
inline void __syncwarp() {
    (void)emulated_warp(5, ~0u, 0);
}
inline void __syncthreads() {
    (void)emulated_block(true);
}
inline int __syncthreads_and(int x) {
    return emulated_block(x != 0);
}

/* --- Instructions ----------------------------------------------------------------------------- */

inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
    return {x, y, z, w};
}
inline int __popc(uint32_t x) {
    return __builtin_popcount(x);
}
inline int __ffs(int x) {
    return __builtin_ffs(x);
}
inline int __popcll(uint64_t x) {
    return __builtin_popcountll(x);
}
inline uint32_t __funnelshift_l(uint32_t lo, uint32_t hi, unsigned by) {
    return (uint32_t)(((uint64_t)hi << 32 | lo) << (by & 31) >> 32);
}
inline uint32_t __funnelshift_r(uint32_t lo, uint32_t hi, unsigned by) {
    return (uint32_t)(((uint64_t)hi << 32 | lo) >> (by & 31));
}
inline uint32_t __funnelshift_rc(uint32_t lo, uint32_t hi, unsigned by) {
    return (uint32_t)(((uint64_t)hi << 32 | lo) >> min(by, 32u));
}
inline uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t which) {
    const uint64_t all = (uint64_t)y << 32 | x;
    const auto byte = [=](unsigned k) {
        return (uint32_t)(all >> 8 * (which >> 4 * k & 7) & 0xff) << 8 * k;
    };
    return byte(0) | byte(1) | byte(2) | byte(3); /* shifts where `which` is known */
}
inline uint32_t __dp4a(uint32_t x, uint32_t y, uint32_t sum) {
    const auto product = [=](unsigned k) { return (x >> k & 0xff) * (y >> k & 0xff); };
    return sum + product(0) + product(8) + product(16) + product(24);
}
/* Ones in common of 16 rows and 8 columns of 128 bits, of which lanes have the words, and the sums,
 * that mma.m16n8k128 has there. */
inline void emulated_ones(uint32_t *sum, uint32_t row, uint32_t later, uint32_t column) {
    uint64_t rows[32], columns[32];
    memcpy(rows, emulated_warp(6, ~0u, (uint64_t)later << 32 | row), sizeof rows);
    memcpy(columns, emulated_warp(7, ~0u, column), sizeof columns);
    const unsigned lane = threadIdx.x % 32;
    for (unsigned k = 0; k < 16; k++) {
        const uint64_t of = rows[lane / 4 * 4 + k % 4] >> 32 * (k / 8);
        const uint64_t with = columns[4 * (lane % 4 * 2 + k / 4 % 2) + k % 4];
        sum[k / 4] += (uint32_t)__builtin_popcount((uint32_t)(of & with));
    }
}
inline void atomicAdd(unsigned long long *to, unsigned long long x) {
    *to += x;
}

/* --- Launches --------------------------------------------------------------------------------- */

/* A grid of threads that all call `thread` with `args`. */
void emulated_run(const void *kernel, dim3 grid, dim3 block, size_t shared,
                  void (*thread)(const void *args), const void *args);
void emulated_allow(const void *kernel, size_t shared);

enum emulated_attribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
template <class K>
cudaError_t cudaFuncSetAttribute(K *kernel, emulated_attribute which, int value) {
    (void)which;
    emulated_allow((const void *)kernel, (size_t)value);
    return cudaSuccess;
}

template <class... P> struct emulated_launch {
    void (*kernel)(P...);
    dim3 grid, block;
    size_t shared;

    static void thread(const void *args) {
        const auto *call = static_cast<const std::tuple<void (*)(P...), P...> *>(args);
        std::apply([](auto f, const auto &...p) { f(p...); }, *call);
    }
    void operator()(P... p) const {
        const std::tuple<void (*)(P...), P...> call(kernel, p...);
        static_assert(sizeof call <= 4096, "what a kernel may take");
        emulated_run((const void *)kernel, grid, block, shared, thread, &call);
    }
};
template <class... P>
emulated_launch<P...> emulate(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                              cudaStream_t) {
    return {kernel, grid, block, shared};
}

#endif
