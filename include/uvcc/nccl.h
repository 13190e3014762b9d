/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/nccl.h - the local plane between devices: what uvcc_collective (<uvcc/collective.h>) is
 * within one process's memory, by NCCL between the memories of CUDA devices. Library uvcc-nccl,
 * which is there only where uvcc was built with NCCL; nothing else of uvcc needs NCCL.
 *
 * One object per worker of a party, in one process or in several, each on a device of its own: NCCL
 * takes no two ranks of a communicator on one device, so workers that name the same device fail,
 * and the reason says which. The parties do not see one another's NCCL: each has communicators of
 * its own.
 *
 * A worker submits its local jobs and polls their completions. Their operands (`in`, `out`) are
 * memory of the worker's device, as uvcc_gpu_allocator() has it for TENSOR, or pinned memory of the
 * host that the device reaches. What wrote them has ended before they are submitted (its completion
 * was polled), and whoever reads them later begins after the completion here: so no stream has to
 * wait for another one.
 *
 * Control: workers tell each other in short messages what they are ready for. The host carries
 * them: the object calls `send`, and the host has the receiver's object hear the bytes by
 * uvcc_nccl_heard(). Between processes uvcc_mpi_note() and uvcc_mpi_on_note() do that
 * (<uvcc/mpi.h>); within one the hook calls uvcc_nccl_heard() itself. Worker 0 tells all others
 * what begins, and in which order: one order of all operations of the party, and each begins when
 * all of its members are ready. So devices wait for nothing but the wire, and members that disagree
 * are found before NCCL hears of it.
 *
 * Parties of one process share its devices, and what one party's streams have on a device may stand
 * before what another's have. All operations of those parties whose worker 0 is an object of this
 * process have one order on all devices, so that parties do not wait for each other for ever: one
 * of them begins operations at a time, and the turn passes on when these are on their devices. A
 * party that fails or goes gives it up. There is no such order between parties whose workers 0 are
 * in different processes: these may share a device from processes of their own, as those of `uvcc
 * party` do, but not have other workers in one process. What else the process has on the devices
 * must end by itself; and memory is asked of CUDA, and given back, while operations are paused
 * (uvcc_nccl_pause()). Communicators give theirs back at their end, which does not pause: a host
 * closes parties when the others have no jobs.
 *
 * Failure: what one worker gives up, all give up. uvcc_nccl_fail(), members that disagree or a
 * worker that is gone end what waits and whatever comes later with UVCC_ERR_JOB, at every worker,
 * with one reason; what has begun comes to its end. An error of NCCL or of a device, or an
 * operation that misses its deadline, ends everything: communicators are aborted, and jobs get
 * UVCC_ERR_JOB when the device has stopped. Nothing hangs.
 *
 * Threads: calls may come from any thread, but for uvcc_nccl_new() and uvcc_nccl_free(). `alloc`,
 * `log`, `send` and `wake` are called by the object's thread too. */
#ifndef UVCC_NCCL_H
#define UVCC_NCCL_H

#include <uvcc/compute.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes of a reason, with its 0. */
#define UVCC_NCCL_WHY_BYTES 160u
/** Most bytes of a control message. */
#define UVCC_NCCL_MESSAGE_BYTES 256u

typedef struct uvcc_nccl_config {
    size_t size; /**< sizeof(uvcc_nccl_config) */
    uvcc_allocator alloc;
    uvcc_logger log; /**< why a call was refused: ERROR; may be empty */
    uint16_t replicas, stages, tp_ranks;
    uint32_t local_rank; /**< of this worker: (r S + s) T + t */
    uint32_t device;     /**< CUDA's number of its device */
    /** For joining, for an operation that was told to begin, and for the others to come to the end:
     * 0: ten minutes. */
    uint64_t deadline_ns;
    uint64_t wait_ns; /**< most that a job waits for other workers, and parties; 0: no limit */
    /** Carries `bytes` (UVCC_NCCL_MESSAGE_BYTES at most, copied or carried before it returns) to
     * worker `to`, whole, once, and in the order of calls. It does not wait, and calls nothing of
     * the library but uvcc_nccl_heard() of another object and uvcc_mpi_note(). What it returns,
     * other than 0, is a failure of this worker. */
    int (*send)(void *user, uint32_t to, const void *bytes, size_t len);
    void *send_user;
    /** Called by the object's thread after there is a completion, or a failure, or when all is
     * over; may be NULL. Must not call the library; uvcc_net_wake() may be it, with a net as
     * `wake_user`. */
    void (*wake)(void *user);
    void *wake_user;
} uvcc_nccl_config;

typedef struct uvcc_nccl uvcc_nccl;

/** Takes the device and returns; the workers join each other meanwhile, and jobs may be submitted.
 * UVCC_ERR_CONFIG: numbers out of range, or no such device; UVCC_ERR_JOB: the device refused;
 * UVCC_ERR_LIMIT: no thread; UVCC_ERR_NOMEM. The log says which. */
UVCC_API int uvcc_nccl_new(uvcc_nccl **out, const uvcc_nccl_config *cfg) UVCC_MUST_USE;
/** This worker submits nothing more. When all workers of the party have said so, and none has jobs,
 * they take their communicators down. A host with several workers in one thread calls this for all
 * of them, then uvcc_nccl_free(). Jobs that others still wait for with this worker are a failure.
 */
UVCC_API void uvcc_nccl_close(uvcc_nccl *n);
/** 1: all workers have closed, and this one's communicators are gone: it sends nothing more, and
 * hears nothing of importance; 0: not yet. A host whose messages come from other threads stops them
 * between this and uvcc_nccl_free(), which does not wait then. */
UVCC_API int uvcc_nccl_over(const uvcc_nccl *n);
/** Closes if uvcc_nccl_close() was not called, and waits until the communicators are gone, until
 * the deadline at most; then they are aborted. Jobs whose completion did not come yet are given up,
 * which is a failure for all. Nothing that was submitted is touched afterwards. The host sees to it
 * that uvcc_nccl_heard() is not called any more. */
UVCC_API void uvcc_nccl_free(uvcc_nccl *n);
/** Bytes that worker `from` sent this one. UVCC_ERR_USAGE: no such worker, or no message of this
 * library's; UVCC_ERR_NOMEM: then it may be offered again, before any other of that worker's. */
UVCC_API int uvcc_nccl_heard(uvcc_nccl *n, uint32_t from, const void *bytes, size_t len);
/** 1: the workers have joined each other; 0: not yet, or not any more. */
UVCC_API int uvcc_nccl_joined(const uvcc_nccl *n);

/** Takes a local job of this worker. It and its memory stay valid until its completion was polled.
 * UVCC_ERR_USAGE: no local job, no such neighbour, an operation of that name is under way, or an
 * operand that the device does not reach; UVCC_ERR_NOMEM. After a failure it takes the job, and its
 * completion says UVCC_ERR_JOB. */
UVCC_API int uvcc_nccl_submit(uvcc_nccl *n, const uvcc_job *job);
/** 1 and the next completion, 0 if there is none now. */
UVCC_API int uvcc_nccl_poll(uvcc_nccl *n, uvcc_completion *out);
/** Jobs whose completion was not polled yet. */
UVCC_API uint32_t uvcc_nccl_pending(const uvcc_nccl *n);

/** This worker gives up: all workers fail. The first failure of all stays the reason. `why` is
 * copied, NULL: "a worker of the party is gone"; `code` is the host's, and what others get from
 * uvcc_nccl_why(). */
UVCC_API void uvcc_nccl_fail(uvcc_nccl *n, uint32_t code, const char *why);
/** Whether there was a failure: 1, and the local rank where it was, its code and its reason
 * (UVCC_NCCL_WHY_BYTES bytes at most); else 0. Pointers may be NULL. A failure without a call of
 * uvcc_nccl_fail() has the code 0. */
UVCC_API int uvcc_nccl_why(const uvcc_nccl *n, uint32_t *rank, uint32_t *code,
                           char why[UVCC_NCCL_WHY_BYTES]);

/** Between the two no party whose worker 0 is an object of this process begins operations, and
 * those that were told to begin have: for calls of CUDA that may wait for several devices, and keep
 * others from launching, as those do that take or give back memory of a device or pinned memory. An
 * operation that is on one of its devices then, and not on another one, would never end, nor would
 * the call. Other parties are not held up, so a process has no two workers of one.
 *
 * The first waits until it may, for parties alone: pauses of several threads, and of one, overlap,
 * and are over with the last of them. Each has its resume, soon; one too many is none. Who is
 * between the two waits for nothing that takes other workers: no joining, no completion, not
 * uvcc_nccl_free(). The first is called with no lock that `send`, `wake`, `alloc` or `log` of an
 * object here takes, and from none of these hooks; so is what calls it, as allocators of executors
 * do through `memory` of uvcc_gpu_config, which is a place for the two. */
UVCC_API void uvcc_nccl_pause(void);
UVCC_API void uvcc_nccl_resume(void);

#ifdef __cplusplus
}
#endif
#endif
