/* SPDX-License-Identifier: Apache-2.0 */
/* executor.h - what the owner's calls and the three threads of an executor share.
 *
 * The launcher calls CUDA, and may have to wait there for as long as CUDA likes. The watcher sees
 * marks and deadlines and makes completions; it never calls CUDA. The sweeper does not, nor do
 * owners' threads: what they need of it the launcher does.
 *
 * Invariants, under `lock`: pending <= queue_jobs, which is the room of todo, done and cookies, so
 * no push can fail. Each job that was taken makes one completion: the launcher's, if it refused the
 * job before the device was lost; else the watcher's. A job that the launcher reads (`reading`) is
 * completed by nobody else, and it calls no CUDA meanwhile; so a job that is given back is not read
 * any more. When the device is lost the launcher ends as soon as CUDA lets it; if it never does,
 * uvcc_gpu_free() leaves it, and all that it may touch, to the process's end. */
#ifndef UVCCI_GPU_EXECUTOR_H
#define UVCCI_GPU_EXECUTOR_H

#include <pthread.h>
#include <uvcc/gpu.h>

#include "gpu/lane.h"

enum {
    UVCCI_GPU_STREAMS_MOST = 16,
    UVCCI_GPU_WIPES = 1024,
    UVCCI_GPU_SWEEP_LEAST = 16 << 10 /* who gives back less pinned memory wipes it himself */
};

/* Threads look again and again for that long after something happened, then sleep. */
#define UVCCI_GPU_SPIN_NS ((uint64_t)200000)

/* Memory that came back. */
typedef struct uvcci_gpu_wipe {
    void *at;
    size_t bytes;
} uvcci_gpu_wipe;

/* A thread that wants a pool to grow. */
typedef enum uvcci_gpu_growing {
    UVCCI_GPU_GROW_NONE,
    UVCCI_GPU_GROW_WANTED,
    UVCCI_GPU_GROW_DONE,
    UVCCI_GPU_GROW_FAILED,
} uvcci_gpu_growing;

struct uvcc_gpu {
    uvcc_gpu_config cfg;
    int ordinal; /* CUDA's number of the device */
    uvcci_lane_home home;
    uvcci_lane lane[UVCCI_GPU_STREAMS_MOST];
    uint8_t *marks;
    cudaStream_t wiper;
    cudaEvent_t wiped; /* after the last wipe; lanes wait for it */
    uint64_t wipes;    /* how often it was recorded */
    pthread_t launcher, watcher, sweeper;
    pthread_mutex_t lock, hooks;
    pthread_cond_t work, watch, dirt; /* for the launcher; the watcher; the sweeper */
    pthread_cond_t news;              /* for everybody else */
    uvcc_job *todo;                   /* by arrival */
    uvcc_completion *done;            /* by arrival */
    uint64_t *cookies;                /* of all that is pending */
    uint32_t pending;
    uvcci_gpu_wipe wipe[UVCCI_GPU_WIPES]; /* of the device: before the next job is launched */
    /* Pinned memory that came back, and is nobody's until the sweeper has wiped it, or somebody
     * claims it (0 bytes are left then): a ring, and how much was ever handed over, was wiped, and
     * is waited for. */
    uvcci_gpu_wipe sweep[UVCCI_GPU_WIPES];
    uint64_t handed, swept, awaited;
    bool sweeps_last; /* the sweeper is to end when there is no more */
    uvcci_gpu_pool *grow_pool;
    size_t grow_bytes;
    void *grown; /* the block that was asked for */
    /* Changed under the lock, and looked at without it too. */
    _Atomic uint32_t todo_count, done_count, wipe_count;
    _Atomic uint32_t busy; /* lanes that are not free */
    _Atomic int grow;      /* uvcci_gpu_growing */
    _Atomic bool stop, lost;
    _Atomic uint64_t in_cuda; /* since when the launcher is there; 0: it is not */
    bool reading, launcher_ended, closing;
    char trouble[UVCCI_LANE_TEXT];
};

uint64_t uvcci_gpu_clock_ns(void);
/* Waits for a condition, at most that long. The lock is held. */
void uvcci_gpu_wait_for(uvcc_gpu *x, pthread_cond_t *c, uint64_t ns);
/* The device is lost, if it is not already; text says why. */
void uvcci_gpu_lose(uvcc_gpu *x, const char *text);
/* The job of least rank, of those the first. The lock is held, and there is one. */
uvcc_job uvcci_gpu_take_job(uvcc_gpu *x);
void uvcci_gpu_hook(uvcc_gpu *x, const uvcc_job *job, bool done);
/* The one completion of a job; of that lane, which is ENDING, or NULL: it had none. */
void uvcci_gpu_complete(uvcc_gpu *x, uvcci_lane *l, const uvcc_job *job, int status,
                        const char *text);
/* The launcher's: memory of the device that a lane does not use any more. */
void uvcci_gpu_outgrown(void *x, void *at, size_t bytes);
/* The launcher's: of the pinned memory that has come back so many pieces more are wiped, and can be
 * taken. Gives how often some had come back, and whether some still waits. */
uint64_t uvcci_gpu_await_swept(uvcc_gpu *x, uint64_t most, bool *more);
/* Pinned memory that waits to be wiped, wiped here and now; NULL: none of that size does. */
void *uvcci_gpu_claim(uvcc_gpu *x, size_t bytes);
/* The threads. */
void *uvcci_gpu_launcher(void *x);
void *uvcci_gpu_watcher(void *x);
void *uvcci_gpu_sweeper(void *x);

#endif
