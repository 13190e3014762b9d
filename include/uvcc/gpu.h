/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/gpu.h - an executor on a CUDA device (libuvcc-gpu; gpu.md).
 *
 * It runs the jobs that sessions hand out (<uvcc/compute.h>) and gives a completion for each, with
 * the same results as the CPU's, bit for bit. One thread of its own calls CUDA, another sees to
 * completions and deadlines and hashes what the CPU is quicker at, a third wipes memory; jobs that
 * are out at the same time run on streams beside each other.
 * One executor may serve several sessions, in one thread or several: unlike other objects its calls
 * may come from any thread, but for uvcc_gpu_new() and uvcc_gpu_free().
 *
 * Sessions that it serves must take their memory from uvcc_gpu_allocator(): TENSOR memory lies on
 * the device, other memory that tasks name is pinned host memory that the device reaches too. What
 * the host itself gives, such as inputs and outputs of a step, may be other memory that the CPU
 * reads and writes, for the operands that gpu.md names; its own memory of a device it may not be:
 * such a job fails, or with trust_pointers is undefined.
 *
 * Errors: a job that cannot run, and every job after the device failed or missed its deadline, ends
 * with UVCC_ERR_JOB; uvcc_gpu_trouble() says why. No call waits for a device that does not answer
 * longer than the deadline. */
#ifndef UVCC_GPU_H
#define UVCC_GPU_H

#include <uvcc/compute.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct uvcc_gpu_config {
    size_t size;
    uvcc_allocator alloc; /**< for SECRET memory and the executor's own records; from any thread */
    uint32_t device;      /**< of those that uvcc_gpu_count() counts, in CUDA's order */
    uint32_t streams;     /**< jobs that run at a time, 1..16; 0: 6 */
    uint32_t queue_jobs;  /**< jobs out at a time, 0: 1024; submit says UVCC_ERR_AGAIN beyond */
    /** Most memory of the device, and most pinned memory, for sessions and for what jobs take
     * beside; 0: no limit. Each stream has 2 MiB and 1 MiB from the beginning, which do not count.
     */
    uint64_t device_bytes, pinned_bytes;
    /** A job that runs longer fails, and the device counts as lost; so it does when a call of CUDA
     * without a job takes longer than that and a second. 0: ten minutes. */
    uint64_t deadline_ns;
    bool trust_pointers; /**< operands are not looked up before kernels see them */
    /** Called from the executor's threads, by one at a time, after a completion came; may be NULL.
     * Must not call the library. */
    void (*wake)(void *user);
    void *wake_user;
    /** As in uvcc_cpu_config: right before a job is launched, and after its last kernel ended; by
     * one thread at a time. */
    void (*job)(void *user, const uvcc_job *job, bool done);
    void *job_user;
    /** NULL, or another executor on the same device, to be freed after this one: y of GEMM,
     * and of MAP where it rotates, may lie in TENSOR memory of it too, as public tensors that a
     * session borrows (uvcc_session_borrow_public). Nothing else may. */
    struct uvcc_gpu *lender;
    /** Called by the executor's thread that launches right before it asks CUDA for memory, and
     * right after, with `done`; may be NULL. What it waits counts as CUDA's time. With several
     * devices in a process it is for uvcc_nccl_pause() and uvcc_nccl_resume() of <uvcc/nccl.h>;
     * uvcc_gpu_new() and uvcc_gpu_free() are the host's to call between them. Must not call this
     * library. With it, pinned memory is pages that are made before it is called: CUDA keeps
     * other threads from their devices while it makes some. */
    void (*memory)(void *user, bool done);
    void *memory_user;
} uvcc_gpu_config;

typedef struct uvcc_gpu uvcc_gpu;

/** Devices that this build's kernels run on; 0 if there are none, and then *why, if why is not
 * NULL, is a sentence that says so. */
UVCC_API uint32_t uvcc_gpu_count(const char **why);
/** UVCC_ERR_CONFIG: no such device, numbers out of range, or a lender on another device;
 * UVCC_ERR_JOB: the device refused to work; UVCC_ERR_NOMEM. */
UVCC_API int uvcc_gpu_new(uvcc_gpu **out, const uvcc_gpu_config *cfg) UVCC_MUST_USE;
/** Jobs still out are finished first; their completions are dropped. All memory of its allocator
 * must be back. If a call of CUDA does not return, the thread that is in it stays behind, and so
 * does what it may touch: memory of `alloc` that is not given back, and must stay valid to the
 * process's end. */
UVCC_API void uvcc_gpu_free(uvcc_gpu *x);
/** Memory for sessions whose jobs it runs. Valid until the executor is freed. */
UVCC_API uvcc_allocator uvcc_gpu_allocator(uvcc_gpu *x);
/** What it has of CUDA now, of the device and of pinned memory: tensors and messages, what came
 * back and is kept, descriptors, scratch. It never becomes less, so at the end it is the most there
 * was; CUDA's own memory is not in it. UVCC_ERR_USAGE: a NULL. */
UVCC_API int uvcc_gpu_memory(uvcc_gpu *x, uint64_t *device_bytes, uint64_t *pinned_bytes);
/** The job and all that it points to stay valid until its completion was polled. */
UVCC_API int uvcc_gpu_submit(uvcc_gpu *x, const uvcc_job *job);
/** 1 and the next completion, 0 if none is ready now. */
UVCC_API int uvcc_gpu_poll(uvcc_gpu *x, uvcc_completion *out);
/** The same, of the session with that cookie only. */
UVCC_API int uvcc_gpu_poll_of(uvcc_gpu *x, uint64_t cookie, uvcc_completion *out);
/** Jobs submitted whose completion was not polled yet. */
UVCC_API uint32_t uvcc_gpu_pending(uvcc_gpu *x);
/** Blocks until a completion is ready or nothing is pending. */
UVCC_API void uvcc_gpu_wait(uvcc_gpu *x);
/** The same, of the session with that cookie only. */
UVCC_API void uvcc_gpu_wait_of(uvcc_gpu *x, uint64_t cookie);
/** What went wrong first, a sentence; "" while nothing did. Valid until the executor is freed. */
UVCC_API const char *uvcc_gpu_trouble(uvcc_gpu *x);

#ifdef __cplusplus
}
#endif
#endif
