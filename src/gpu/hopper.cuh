/* SPDX-License-Identifier: Apache-2.0 */
/* hopper.cuh - instructions of Hopper that kernels share: barriers in shared memory, the copy
 * engine. */
#ifndef UVCCI_GPU_HOPPER_CUH
#define UVCCI_GPU_HOPPER_CUH

#include <stdint.h>

/* Of the devices that a build compiles for, sm_90a alone has these instructions: what uses them
 * fails the launch on the others, where nobody calls it, rather than leave results as they were. */
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HAS_HOPPER 1
#else
#define HAS_HOPPER 0
#endif

__device__ __forceinline__ uint32_t shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}
__device__ __forceinline__ void barrier_init(uint64_t *b, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(arrivals));
}
/* Barriers count from here on, for other blocks of the cluster and the copy engine too. */
__device__ __forceinline__ void barriers_made(void) {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_expect(uint64_t *b, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)),
                 "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint64_t *b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
#define BARRIER_WAIT(name, how)                                                                    \
    __device__ __forceinline__ void name(uint64_t *b, uint32_t parity) {                           \
        asm volatile("{\n"                                                                         \
                     ".reg .pred done;\n"                                                          \
                     "again:\n"                                                                    \
                     "mbarrier.try_wait.parity" how ".shared::cta.b64 done, [%0], %1;\n"           \
                     "@done bra over;\n"                                                           \
                     "bra again;\n"                                                                \
                     "over:\n"                                                                     \
                     "}" ::"r"(shared_address(b)),                                                 \
                     "r"(parity)                                                                   \
                     : "memory");                                                                  \
    }
BARRIER_WAIT(barrier_wait, "")
/* Where other blocks of the cluster arrive too. */
BARRIER_WAIT(barrier_wait_cluster, ".acquire.cluster")
#undef BARRIER_WAIT

#endif
