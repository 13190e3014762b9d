/* SPDX-License-Identifier: Apache-2.0 */
/* executor.c - see <uvcc/gpu.h>.
 *
 * The owner's calls and the executor's thread share `todo`, `done` and the counters, under `lock`;
 * lanes are the thread's alone. Invariants: pending <= queue_jobs, which is the room of both
 * arrays, so no push can fail; every job that was taken makes exactly one completion, also when the
 * device is lost: then `lost` is set, what runs and what waits fails, and nothing is launched any
 * more. */
#include <uvcc/gpu.h>

#include <assert.h>
#include <cuda_runtime_api.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "gpu/lane.h"
#include "gpu/launch.h"
#include "gpu/ring_gemm.h"

enum {
    DEFAULT_STREAMS = 4,
    MAX_STREAMS = 16,
    DEFAULT_JOBS = 1024,
    MAX_JOBS = 1 << 20,
    SPINS = 2000,
    NAP_NS = 5000,
    SMS_LEAST = 1,
    CAPABILITY = 9 /* what kernels are made for */
};
#define DEFAULT_DEADLINE_NS (600 * (uint64_t)1000000000)

struct uvcc_gpu {
    uvcc_gpu_config cfg;
    uvcci_lane_home home;
    uvcci_lane lane[MAX_STREAMS];
    cudaStream_t wiper;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, news; /* for the thread; for uvcc_gpu_wait() */
    uvcc_job *todo;            /* by arrival */
    uvcc_completion *done;     /* by arrival */
    uint32_t todo_count, done_count, pending;
    bool stop, lost;
    char trouble[UVCCI_LANE_TEXT];
};

static uint64_t clock_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* --- Devices ---------------------------------------------------------------------------------- */

static const char *why_not(int device) {
    struct cudaDeviceProp p;
    const cudaError_t e = cudaGetDeviceProperties(&p, device);
    if (e != cudaSuccess)
        return cudaGetErrorString(e);
    return p.major == CAPABILITY
               ? NULL
               : "the device is not of the architecture that the library was built for";
}

uint32_t uvcc_gpu_count(const char **why) {
    int count = 0;
    const char *reason = NULL;
    const cudaError_t e = cudaGetDeviceCount(&count);
    if (e != cudaSuccess)
        reason = cudaGetErrorString(e);
    else if (count == 0)
        reason = "there is no CUDA device";
    else
        reason = why_not(0);
    if (reason != NULL)
        (void)cudaGetLastError();
    if (why != NULL)
        *why = reason;
    return reason == NULL ? (uint32_t)count : 0;
}

/* --- Memory ----------------------------------------------------------------------------------- */

static bool is_lost(uvcc_gpu *x) {
    (void)pthread_mutex_lock(&x->lock);
    const bool lost = x->lost;
    (void)pthread_mutex_unlock(&x->lock);
    return lost;
}

static void *memory_take(void *user, size_t bytes, uvcc_mem_class cls) {
    uvcc_gpu *x = user;
    if (cls == UVCC_MEM_SECRET)
        return x->cfg.alloc.alloc(x->cfg.alloc.user, bytes, cls);
    if (is_lost(x))
        return NULL;
    (void)cudaSetDevice((int)x->cfg.device);
    return uvcci_gpu_pool_take(cls == UVCC_MEM_TENSOR ? &x->home.device : &x->home.pinned, bytes);
}

/* As the host's allocator does: TENSOR and WIRE memory is wiped. A lost device may still write to
 * what it had, so that is nobody's any more. */
static void memory_give(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    uvcc_gpu *x = user;
    if (cls == UVCC_MEM_SECRET) {
        x->cfg.alloc.free(x->cfg.alloc.user, p, bytes, cls);
        return;
    }
    if (p == NULL || is_lost(x))
        return;
    (void)cudaSetDevice((int)x->cfg.device);
    if (cls == UVCC_MEM_TENSOR) {
        (void)cudaMemsetAsync(p, 0, bytes, x->wiper);
        (void)cudaStreamSynchronize(x->wiper);
    } else if (cls == UVCC_MEM_WIRE) {
        memset(p, 0, bytes);
    }
    uvcci_gpu_pool_give(cls == UVCC_MEM_TENSOR ? &x->home.device : &x->home.pinned, p, bytes);
}

uvcc_allocator uvcc_gpu_allocator(uvcc_gpu *x) {
    return x == NULL ? (uvcc_allocator){0}
                     : (uvcc_allocator){.alloc = memory_take, .free = memory_give, .user = x};
}

/* --- The thread ------------------------------------------------------------------------------- */

static void say_trouble(uvcc_gpu *x, const char *text) {
    if (x->trouble[0] == '\0')
        (void)snprintf(x->trouble, sizeof x->trouble, "%s", text);
}

static void push_done(uvcc_gpu *x, const uvcc_job *job, int status, const char *text) {
    if (x->cfg.job != NULL) /* afterwards the job's memory may be gone */
        x->cfg.job(x->cfg.job_user, job, true);
    (void)pthread_mutex_lock(&x->lock);
    assert(x->done_count < x->cfg.queue_jobs);
    if (status != 0)
        say_trouble(x, text);
    x->done[x->done_count++] = (uvcc_completion){job->id, job->cookie, status};
    (void)pthread_cond_broadcast(&x->news);
    (void)pthread_mutex_unlock(&x->lock);
    if (x->cfg.wake != NULL)
        x->cfg.wake(x->cfg.wake_user);
}

/* The job of least rank, of those the first. The lock is held. */
static uvcc_job take_job(uvcc_gpu *x) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < x->todo_count; i++)
        if (x->todo[i].rank < x->todo[best].rank)
            best = i;
    const uvcc_job job = x->todo[best];
    x->todo_count--;
    memmove(x->todo + best, x->todo + best + 1, (x->todo_count - best) * sizeof *x->todo);
    return job;
}

static void lose(uvcc_gpu *x, const char *text) {
    (void)pthread_mutex_lock(&x->lock);
    x->lost = true;
    say_trouble(x, text);
    (void)pthread_mutex_unlock(&x->lock);
}

static void start(uvcc_gpu *x, uvcci_lane *l, const uvcc_job *job) {
    if (x->cfg.job != NULL)
        x->cfg.job(x->cfg.job_user, job, false);
    if (x->lost) {
        push_done(x, job, UVCC_ERR_JOB, "the device is lost");
        return;
    }
    l->began_ns = clock_ns();
    const int e = uvcci_lane_start(l, job);
    if (e == 0)
        return;
    /* An error of a kernel stays; one of the job does not. */
    if (cudaStreamQuery(l->stream) != cudaSuccess)
        lose(x, l->text);
    push_done(x, job, UVCC_ERR_JOB, l->text);
}

/* Whether the lane's job came to an end. */
static bool look(uvcc_gpu *x, uvcci_lane *l) {
    char text[UVCCI_LANE_TEXT] = "";
    if (!l->busy)
        return false;
    const cudaError_t e = x->lost ? cudaErrorUnknown : cudaEventQuery(l->end);
    if (e == cudaErrorNotReady && clock_ns() - l->began_ns < x->cfg.deadline_ns)
        return false;
    const uvcc_job job = l->job;
    if (e == cudaSuccess) {
        uvcci_lane_finish(l);
    } else {
        (void)snprintf(text, sizeof text, "%s",
                       e == cudaErrorNotReady ? "a job missed its deadline"
                                              : cudaGetErrorString(e));
        lose(x, text);
        l->busy = false;
    }
    push_done(x, &job, e == cudaSuccess ? 0 : UVCC_ERR_JOB, text);
    return true;
}

/* Starts what waits, as far as there are lanes; false: it is to stop, and nothing is left. */
static bool feed_lanes(uvcc_gpu *x, uint32_t *running) {
    (void)pthread_mutex_lock(&x->lock);
    while (!x->stop && x->todo_count == 0 && *running == 0)
        (void)pthread_cond_wait(&x->work, &x->lock);
    const bool more = !x->stop || x->todo_count != 0 || *running != 0;
    for (uint32_t i = 0; i < x->cfg.streams; i++) {
        if (x->lane[i].busy || x->todo_count == 0)
            continue;
        const uvcc_job job = take_job(x);
        (void)pthread_mutex_unlock(&x->lock);
        start(x, &x->lane[i], &job);
        *running += x->lane[i].busy;
        (void)pthread_mutex_lock(&x->lock);
    }
    (void)pthread_mutex_unlock(&x->lock);
    return more;
}

static void *thread_main(void *arg) {
    uvcc_gpu *x = arg;
    uint32_t running = 0, idle = 0;
    (void)cudaSetDevice((int)x->cfg.device);
    while (feed_lanes(x, &running)) {
        uint32_t ended = 0;
        for (uint32_t i = 0; i < x->cfg.streams; i++)
            ended += look(x, &x->lane[i]);
        running -= ended;
        idle = ended != 0 ? 0 : idle + 1;
        if (idle > SPINS)
            (void)nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        else if (ended == 0)
            (void)sched_yield();
    }
    return NULL;
}

/* --- The object ------------------------------------------------------------------------------- */

static int config_read(uvcc_gpu_config *cfg, const uvcc_gpu_config *from) {
    if (from->size < offsetof(uvcc_gpu_config, streams) || from->size > sizeof *from)
        return UVCC_ERR_CONFIG;
    *cfg = (uvcc_gpu_config){0};
    memcpy(cfg, from, from->size);
    if (cfg->alloc.alloc == NULL || cfg->alloc.free == NULL)
        return UVCC_ERR_CONFIG;
    if (cfg->streams == 0)
        cfg->streams = DEFAULT_STREAMS;
    if (cfg->queue_jobs == 0)
        cfg->queue_jobs = DEFAULT_JOBS;
    if (cfg->deadline_ns == 0)
        cfg->deadline_ns = DEFAULT_DEADLINE_NS;
    return cfg->streams > MAX_STREAMS || cfg->queue_jobs > MAX_JOBS ||
                   cfg->device >= uvcc_gpu_count(NULL)
               ? UVCC_ERR_CONFIG
               : 0;
}

static void *record_take(uvcc_gpu *x, size_t bytes) {
    return x->cfg.alloc.alloc(x->cfg.alloc.user, bytes, UVCC_MEM_STATE);
}

static void record_give(uvcc_gpu *x, void *p, size_t bytes) {
    if (p != NULL)
        x->cfg.alloc.free(x->cfg.alloc.user, p, bytes, UVCC_MEM_STATE);
}

/* What open_device() and new have made; a lost device keeps what is its own. */
static void close_all(uvcc_gpu *x) {
    const bool give_back = !x->lost;
    (void)cudaSetDevice((int)x->cfg.device);
    for (uint32_t i = 0; i < x->cfg.streams; i++)
        if (x->lane[i].home != NULL)
            uvcci_lane_close(&x->lane[i], give_back);
    if (x->wiper != NULL && give_back)
        (void)cudaStreamDestroy(x->wiper);
    uvcci_gpu_pool_close(&x->home.device, give_back);
    uvcci_gpu_pool_close(&x->home.pinned, give_back);
    record_give(x, x->todo, x->cfg.queue_jobs * sizeof *x->todo);
    record_give(x, x->done, x->cfg.queue_jobs * sizeof *x->done);
    (void)pthread_mutex_destroy(&x->lock);
    (void)pthread_cond_destroy(&x->work);
    (void)pthread_cond_destroy(&x->news);
    const uvcc_gpu_config cfg = x->cfg;
    cfg.alloc.free(cfg.alloc.user, x, sizeof *x, UVCC_MEM_STATE);
}

static int open_device(uvcc_gpu *x) {
    const int device = (int)x->cfg.device;
    int sms = 0, major = 0, minor = 0;
    if (cudaSetDevice((int)x->cfg.device) != cudaSuccess ||
        cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess ||
        uvcci_gpu_prepare_vec() != cudaSuccess || uvcci_gpu_prepare_forms() != cudaSuccess ||
        cudaStreamCreateWithFlags(&x->wiper, cudaStreamNonBlocking) != cudaSuccess)
        return UVCC_ERR_JOB;
    x->home.hopper = uvcci_ring_gemm_built() && major == 9 && minor == 0;
    x->home.sms = sms < SMS_LEAST ? SMS_LEAST : (unsigned)sms;
    int e = 0;
    for (uint32_t i = 0; i < x->cfg.streams && e == 0; i++)
        e = uvcci_lane_open(&x->lane[i], &x->home);
    return e;
}

int uvcc_gpu_new(uvcc_gpu **out, const uvcc_gpu_config *from) {
    uvcc_gpu_config cfg;
    if (out == NULL || from == NULL)
        return UVCC_ERR_USAGE;
    int e = config_read(&cfg, from);
    if (e != 0)
        return e;
    uvcc_gpu *x = cfg.alloc.alloc(cfg.alloc.user, sizeof *x, UVCC_MEM_STATE);
    if (x == NULL)
        return UVCC_ERR_NOMEM;
    *x = (uvcc_gpu){.cfg = cfg};
    x->home.records = cfg.alloc;
    x->home.trust_pointers = cfg.trust_pointers;
    (void)pthread_mutex_init(&x->lock, NULL);
    (void)pthread_cond_init(&x->work, NULL);
    (void)pthread_cond_init(&x->news, NULL);
    uvcci_gpu_pool_init(&x->home.device, &cfg.alloc, false, cfg.device_bytes);
    uvcci_gpu_pool_init(&x->home.pinned, &cfg.alloc, true, cfg.pinned_bytes);
    x->todo = record_take(x, cfg.queue_jobs * sizeof *x->todo);
    x->done = record_take(x, cfg.queue_jobs * sizeof *x->done);
    e = x->todo == NULL || x->done == NULL ? UVCC_ERR_NOMEM : open_device(x);
    if (e == 0 && pthread_create(&x->thread, NULL, thread_main, x) != 0)
        e = UVCC_ERR_NOMEM;
    if (e != 0)
        close_all(x);
    else
        *out = x;
    return e;
}

void uvcc_gpu_free(uvcc_gpu *x) {
    if (x == NULL)
        return;
    (void)pthread_mutex_lock(&x->lock);
    x->stop = true;
    (void)pthread_cond_signal(&x->work);
    (void)pthread_mutex_unlock(&x->lock);
    (void)pthread_join(x->thread, NULL);
    close_all(x);
}

int uvcc_gpu_submit(uvcc_gpu *x, const uvcc_job *job) {
    if (x == NULL || job == NULL)
        return UVCC_ERR_USAGE;
    (void)pthread_mutex_lock(&x->lock);
    const bool full = x->pending == x->cfg.queue_jobs;
    if (!full) {
        x->pending++;
        x->todo[x->todo_count++] = *job;
        (void)pthread_cond_signal(&x->work);
    }
    (void)pthread_mutex_unlock(&x->lock);
    return full ? UVCC_ERR_AGAIN : 0;
}

/* cookie NULL: of any session. */
static int take_done(uvcc_gpu *x, const uint64_t *cookie, uvcc_completion *out) {
    (void)pthread_mutex_lock(&x->lock);
    uint32_t i = 0;
    while (i < x->done_count && cookie != NULL && x->done[i].cookie != *cookie)
        i++;
    const bool some = i < x->done_count;
    if (some) {
        *out = x->done[i];
        x->pending--;
        x->done_count--;
        memmove(x->done + i, x->done + i + 1, (x->done_count - i) * sizeof *x->done);
    }
    (void)pthread_mutex_unlock(&x->lock);
    return some;
}

int uvcc_gpu_poll(uvcc_gpu *x, uvcc_completion *out) {
    return x == NULL || out == NULL ? UVCC_ERR_USAGE : take_done(x, NULL, out);
}

int uvcc_gpu_poll_of(uvcc_gpu *x, uint64_t cookie, uvcc_completion *out) {
    return x == NULL || out == NULL ? UVCC_ERR_USAGE : take_done(x, &cookie, out);
}

uint32_t uvcc_gpu_pending(uvcc_gpu *x) {
    if (x == NULL)
        return 0;
    (void)pthread_mutex_lock(&x->lock);
    const uint32_t n = x->pending;
    (void)pthread_mutex_unlock(&x->lock);
    return n;
}

void uvcc_gpu_wait(uvcc_gpu *x) {
    if (x == NULL)
        return;
    (void)pthread_mutex_lock(&x->lock);
    while (x->pending != 0 && x->done_count == 0)
        (void)pthread_cond_wait(&x->news, &x->lock);
    (void)pthread_mutex_unlock(&x->lock);
}

const char *uvcc_gpu_trouble(uvcc_gpu *x) {
    if (x == NULL)
        return "";
    (void)pthread_mutex_lock(&x->lock);
    const char *text = x->trouble; /* is written once */
    (void)pthread_mutex_unlock(&x->lock);
    return text;
}
