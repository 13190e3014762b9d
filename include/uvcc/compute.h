/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/compute.h - compute jobs and executors.
 *
 * A session never computes on large data itself: uvcc_session_poll_job() hands out jobs, an
 * executor runs them and gives one completion each, uvcc_session_complete() takes it. A job is a
 * short list of tasks (<uvcc/task.h>) that run in order (a CUDA executor enqueues them on one
 * stream); different jobs that are out at the same time are independent.
 */
#ifndef UVCC_COMPUTE_H
#define UVCC_COMPUTE_H

#include <uvcc/task.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Where a job runs. */
typedef enum uvcc_plane {
    UVCC_PLANE_COMPUTE = 0, /**< an executor */
    UVCC_PLANE_LOCAL = 1,   /**< the collectives of this party's workers */
} uvcc_plane;

typedef struct uvcc_job {
    uint64_t id;     /**< names the job and its generation */
    uint64_t cookie; /**< of the session, from its config */
    const uvcc_task *tasks;
    uint32_t count;
    uint8_t plane; /**< uvcc_plane */
    /** Which of the jobs that wait to run should be next: the one of least rank, among equals the
     * one that came first (docs/pipeline.md). Any order gives the same results. */
    uint64_t rank;
} uvcc_job;

typedef struct uvcc_completion {
    uint64_t id;
    uint64_t cookie;
    int status; /**< 0 or UVCC_ERR_JOB */
} uvcc_completion;

/* ---- executors on the CPU ---- */

/** Stack that running a job may take, whatever its tasks are, beside what the hooks of the host
 * take. A thread that submits to an INLINE executor, or polls a DEFERRED one, needs that much left;
 * threads of a host may have less by default (musl: 128 KiB). The workers of THREADS have four
 * times as much or the system's default if that is more, for the hooks and what belongs to a thread
 * too. */
#define UVCC_TASK_STACK_BYTES (256u << 10)

typedef enum uvcc_cpu_mode {
    UVCC_CPU_INLINE = 0,   /**< submit runs the job; its completion waits in the queue */
    UVCC_CPU_DEFERRED = 1, /**< submit keeps it; poll runs kept jobs in a seeded shuffled order, and
                                sometimes none, so that completions come late and out of order */
    UVCC_CPU_THREADS = 2,
    /** One compute resource in simulated time, for simulations and measurements of schedules: of
     * the jobs that wait the one of least rank runs, for as long as the `cost` hook says, and its
     * completion comes when `clock` has reached its end. uvcc_cpu_due() says when that is. */
    UVCC_CPU_TIMED = 3,
    /** No CPU at all: jobs go to another executor by the hooks `elsewhere`, so that a host that
     * knows this type has a GPU's jobs run too (<uvcc/gpu.h>). */
    UVCC_CPU_ELSEWHERE = 4,
} uvcc_cpu_mode;

/** Which kernels run the tasks; all of them give the same bytes. backends.def lists them. */
typedef enum uvcc_cpu_backend {
#define UVCC_BACKEND(name, number, text, what) UVCC_BACKEND_##name = (number),
#include <uvcc/backends.def>
#undef UVCC_BACKEND
    UVCC_BACKEND_END
} uvcc_cpu_backend;
/** What a command line calls it, such as "avx2"; NULL for anything else. */
UVCC_API const char *uvcc_cpu_backend_name(uint32_t backend);
/** Whether this CPU has what the back end needs, so that nothing below stands in for it. */
UVCC_API bool uvcc_cpu_backend_is_here(uint32_t backend);

/** What a job costs a TIMED executor. */
typedef struct uvcc_cpu_cost {
    uint64_t duration_ns; /**< 0: it takes nothing from the resource, and is done at once */
    uint64_t rank;        /**< the job's, which the hook may replace */
} uvcc_cpu_cost;

/** Another executor. It wakes the host and times jobs itself: `wake` and `job` of the config are
 * not called. All needed; called from the owner's thread. */
typedef struct uvcc_cpu_elsewhere {
    int (*submit)(void *user, const uvcc_job *job); /**< as uvcc_cpu_submit() */
    int (*poll)(void *user, uvcc_completion *out);  /**< as uvcc_cpu_poll() */
    void (*wait)(void *user);                       /**< as uvcc_cpu_wait() of THREADS */
    void *user;
} uvcc_cpu_elsewhere;

typedef struct uvcc_cpu_config {
    size_t size;
    uvcc_allocator alloc; /**< called from the owner's thread only, in all modes */
    uvcc_cpu_mode mode;
    uint32_t threads;    /**< THREADS: workers; 0: 2 */
    uint32_t queue_jobs; /**< jobs out at a time, 0: 1024; submit says UVCC_ERR_AGAIN beyond */
    uint64_t seed;       /**< DEFERRED: the shuffle */
    /** uvcc_cpu_backend. Where the CPU has less, its best below; uvcc_cpu_backend_is_here() tells.
     * On a CPU with AMX, AUTO and AMX ask Linux to let the process use it (ARCH_REQ_XCOMP_PERM). */
    uint32_t backend;
    /** THREADS: called from a worker after it pushed a completion, to wake the host's loop; may be
     * NULL. Must not call the library. */
    void (*wake)(void *user);
    void *wake_user;
    /** Called by the thread that runs a job right before it runs (`done` false) and right after, so
     * that a host can time jobs; may be NULL. Must not call the library. */
    void (*job)(void *user, const uvcc_job *job, bool done);
    void *job_user;
    /** TIMED: what a job costs, asked once when it is submitted, and the present time. Both needed;
     * must not call the library. */
    void (*cost)(void *user, const uvcc_job *job, uvcc_cpu_cost *cost);
    uint64_t (*clock)(void *user);
    void *timed_user;
    uvcc_cpu_elsewhere elsewhere; /**< ELSEWHERE */
} uvcc_cpu_config;

typedef struct uvcc_cpu uvcc_cpu;
UVCC_API int uvcc_cpu_new(uvcc_cpu **out, const uvcc_cpu_config *cfg) UVCC_MUST_USE;
/** Jobs still out are finished first; their completions are dropped. */
UVCC_API void uvcc_cpu_free(uvcc_cpu *x);
/** The job and all that it points to stay valid until its completion was polled. */
UVCC_API int uvcc_cpu_submit(uvcc_cpu *x, const uvcc_job *job);
/** 1 and the next completion, 0 if none is ready now. */
UVCC_API int uvcc_cpu_poll(uvcc_cpu *x, uvcc_completion *out);
/** Jobs submitted whose completion was not polled yet. */
UVCC_API uint32_t uvcc_cpu_pending(const uvcc_cpu *x);
/** When uvcc_cpu_poll() has something to give: TIMED: the end of the job that runs, UVCC_NEVER
 * while none does; other modes: 0, that is any time now, while jobs are pending. UVCC_NEVER:
 * nothing is pending. */
UVCC_API uint64_t uvcc_cpu_due(const uvcc_cpu *x);
/** THREADS: blocks until a completion is ready or nothing is pending (for hosts without a loop of
 * their own); ELSEWHERE: so does the other executor. TIMED: no more jobs come at the present time,
 * so the next one starts if the resource is free. Other modes: returns at once. */
UVCC_API void uvcc_cpu_wait(uvcc_cpu *x);

#ifdef __cplusplus
}
#endif
#endif
