/* SPDX-License-Identifier: Apache-2.0 */
/* executor.c - see <uvcc/gpu.h> and executor.h: devices, memory, the owner's calls. */
#include "gpu/executor.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "gpu/arch.h"
#include "gpu/launch.h"
#include "gpu/ring_gemm.h"

enum {
    DEFAULT_STREAMS = 6, /* two may gather keys, beside the turns */
    DEFAULT_JOBS = 1024,
    MAX_JOBS = 1 << 20,
    SMS_LEAST = 1,
    KEPT_BYTES = 256 << 20,  /* of copies of messages, at most, */
    KEPT_PART = 32,          /* and of what the executor may take of the device */
    MARK_BYTES = 64,         /* a mark is alone in its line */
    SHARED_LEAST = 154 << 10 /* shared memory of FN_TABLE's kernel, which has the most */
};
#define SECOND_NS           ((uint64_t)1000000000)
#define DEFAULT_DEADLINE_NS (600 * SECOND_NS)
#define LOOK_NS             ((uint64_t)50000) /* how long uvcc_gpu_wait() looks before it sleeps */

uint64_t uvcci_gpu_clock_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

void uvcci_gpu_wait_for(uvcc_gpu *x, pthread_cond_t *c, uint64_t ns) {
    const uint64_t at = uvcci_gpu_clock_ns() + ns;
    const struct timespec t = {.tv_sec = (time_t)(at / SECOND_NS),
                               .tv_nsec = (long)(at % SECOND_NS)};
    (void)pthread_cond_timedwait(c, &x->lock, &t);
}

/* --- Devices ---------------------------------------------------------------------------------- */

static const char *why_not(int device) {
    int major = 0, minor = 0, shared = 0;
    cudaError_t e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (e != cudaSuccess)
        return cudaGetErrorString(e);
    if (!uvcci_gpu_arch_runs(UVCC_GPU_ARCHS, major, minor))
        return "the device is not of an architecture that the library was built for "
               "(" UVCC_GPU_ARCHS ")";
    return shared < SHARED_LEAST ? "the device has too little shared memory for tables of AES"
                                 : NULL;
}

/* Devices that can be used, in CUDA's order; *ordinal is CUDA's number of the one at `index`. */
static uint32_t find_devices(uint32_t index, int *ordinal, const char **why) {
    int count = 0;
    uint32_t usable = 0;
    const cudaError_t e = cudaGetDeviceCount(&count);
    const char *reason = e != cudaSuccess ? cudaGetErrorString(e) : "there is no CUDA device";
    for (int i = 0; e == cudaSuccess && i < count; i++) {
        const char *not = why_not(i);
        if (not == NULL && usable++ == index && ordinal != NULL)
            *ordinal = i;
        if (not != NULL)
            reason = not ;
    }
    if (usable == 0)
        (void)cudaGetLastError();
    if (why != NULL)
        *why = usable == 0 ? reason : NULL;
    return usable;
}

uint32_t uvcc_gpu_count(const char **why) {
    return find_devices(0, NULL, why);
}

/* --- Memory ----------------------------------------------------------------------------------- */

/* For records of lanes and pools. A thread that CUDA let go after the executor was freed gets none,
 * and gives none back: the host's allocator may be gone. */
static void *record_take(void *user, size_t bytes, uvcc_mem_class cls) {
    uvcc_gpu *x = user;
    return atomic_load(&x->lost) ? NULL : x->cfg.alloc.alloc(x->cfg.alloc.user, bytes, cls);
}

static void record_give(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    uvcc_gpu *x = user;
    if (p != NULL && (x->closing || !atomic_load(&x->lost)))
        x->cfg.alloc.free(x->cfg.alloc.user, p, bytes, cls);
}

/* Has the launcher take memory from CUDA, or what the sweeper has wiped. */
static void *ask_for_memory(uvcc_gpu *x, uvcci_gpu_pool *pool, size_t bytes) {
    (void)pthread_mutex_lock(&x->lock);
    while (atomic_load(&x->grow) != UVCCI_GPU_GROW_NONE && !atomic_load(&x->lost))
        (void)pthread_cond_wait(&x->news, &x->lock);
    void *grown = NULL;
    if (!atomic_load(&x->lost)) {
        x->grow_pool = pool;
        x->grow_bytes = bytes;
        atomic_store(&x->grow, UVCCI_GPU_GROW_WANTED);
        (void)pthread_cond_signal(&x->work);
        while (atomic_load(&x->grow) == UVCCI_GPU_GROW_WANTED && !atomic_load(&x->lost))
            (void)pthread_cond_wait(&x->news, &x->lock);
        grown = atomic_load(&x->grow) == UVCCI_GPU_GROW_DONE ? x->grown : NULL;
        atomic_store(&x->grow, UVCCI_GPU_GROW_NONE);
        (void)pthread_cond_broadcast(&x->news);
    }
    (void)pthread_mutex_unlock(&x->lock);
    return grown;
}

static void *memory_take(void *user, size_t bytes, uvcc_mem_class cls) {
    uvcc_gpu *x = user;
    if (cls == UVCC_MEM_SECRET)
        return x->cfg.alloc.alloc(x->cfg.alloc.user, bytes, cls);
    uvcci_gpu_pool *pool = cls == UVCC_MEM_TENSOR ? &x->home.device : &x->home.pinned;
    if (atomic_load(&x->lost))
        return NULL;
    void *p = uvcci_gpu_pool_take(pool, bytes);
    if (p == NULL && pool == &x->home.pinned)
        p = uvcci_gpu_claim(x, bytes);
    return p != NULL ? p : ask_for_memory(x, pool, bytes);
}

/* Has the sweeper wipe pinned memory before it is anybody's again. */
static bool hand_over(uvcc_gpu *x, void *p, size_t bytes) {
    if (bytes < UVCCI_GPU_SWEEP_LEAST)
        return false;
    (void)pthread_mutex_lock(&x->lock);
    const bool room = x->handed - x->swept < UVCCI_GPU_WIPES && !atomic_load(&x->lost);
    if (room) {
        x->sweep[x->handed++ % UVCCI_GPU_WIPES] = (uvcci_gpu_wipe){p, bytes};
        (void)pthread_cond_signal(&x->dirt);
    }
    (void)pthread_mutex_unlock(&x->lock);
    return room;
}

static void memory_give(void *user, void *p, size_t bytes, uvcc_mem_class cls);

/* What was kept of messages that lay there. */
static void give_copies(uvcc_gpu *x, const void *p, size_t bytes) {
    uvcci_kept_copy c;
    while (uvcci_kept_take(&x->home.kept, p, bytes, &c))
        memory_give(x, c.block, c.room, UVCC_MEM_TENSOR);
}

/* As the host's allocator does: TENSOR and WIRE memory is wiped. A lost device may still write to
 * what it had, so that is nobody's any more. */
static void memory_give(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    uvcc_gpu *x = user;
    if (cls == UVCC_MEM_SECRET) {
        x->cfg.alloc.free(x->cfg.alloc.user, p, bytes, cls);
        return;
    }
    if (p != NULL && cls == UVCC_MEM_WIRE && bytes > x->home.stage_least)
        give_copies(x, p, bytes);
    if (p == NULL || (cls == UVCC_MEM_WIRE && hand_over(x, p, bytes)))
        return;
    if (cls == UVCC_MEM_WIRE)
        memset(p, 0, bytes);
    if (atomic_load(&x->lost))
        return;
    if (cls == UVCC_MEM_TENSOR && bytes != 0) {
        (void)pthread_mutex_lock(&x->lock);
        while (atomic_load(&x->wipe_count) == UVCCI_GPU_WIPES && !atomic_load(&x->lost))
            (void)pthread_cond_wait(&x->news, &x->lock);
        if (!atomic_load(&x->lost))
            x->wipe[atomic_fetch_add(&x->wipe_count, 1)] = (uvcci_gpu_wipe){p, bytes};
        (void)pthread_cond_signal(&x->work);
        (void)pthread_mutex_unlock(&x->lock);
    }
    uvcci_gpu_pool_give(cls == UVCC_MEM_TENSOR ? &x->home.device : &x->home.pinned, p, bytes);
}

uvcc_allocator uvcc_gpu_allocator(uvcc_gpu *x) {
    return x == NULL ? (uvcc_allocator){0}
                     : (uvcc_allocator){.alloc = memory_take, .free = memory_give, .user = x};
}

int uvcc_gpu_memory(uvcc_gpu *x, uint64_t *device_bytes, uint64_t *pinned_bytes) {
    if (x == NULL || device_bytes == NULL || pinned_bytes == NULL)
        return UVCC_ERR_USAGE;
    const uint64_t rooms = (uint64_t)x->cfg.streams * UVCCI_LANE_FIRST_ROOM;
    *device_bytes = uvcci_gpu_pool_held(&x->home.device) + rooms * UVCCI_LANE_DEVICE_ROOMS;
    *pinned_bytes = uvcci_gpu_pool_held(&x->home.pinned) + rooms * UVCCI_LANE_HOST_ROOMS;
    return 0;
}

/* --- What both threads do --------------------------------------------------------------------- */

void uvcci_gpu_lose(uvcc_gpu *x, const char *text) {
    (void)pthread_mutex_lock(&x->lock);
    if (!atomic_load(&x->lost) && x->trouble[0] == '\0')
        (void)snprintf(x->trouble, sizeof x->trouble, "%s", text);
    atomic_store(&x->lost, true);
    (void)pthread_cond_broadcast(&x->news);
    (void)pthread_cond_broadcast(&x->work);
    (void)pthread_cond_broadcast(&x->watch);
    (void)pthread_mutex_unlock(&x->lock);
}

uvcc_job uvcci_gpu_take_job(uvcc_gpu *x) {
    const uint32_t count = atomic_load(&x->todo_count);
    uint32_t best = 0;
    assert(count != 0);
    for (uint32_t i = 1; i < count; i++)
        if (x->todo[i].rank < x->todo[best].rank)
            best = i;
    const uvcc_job job = x->todo[best];
    memmove(x->todo + best, x->todo + best + 1, (count - 1 - best) * sizeof *x->todo);
    atomic_store(&x->todo_count, count - 1);
    return job;
}

void uvcci_gpu_hook(uvcc_gpu *x, const uvcc_job *job, bool done) {
    if (x->cfg.job == NULL)
        return;
    (void)pthread_mutex_lock(&x->hooks);
    x->cfg.job(x->cfg.job_user, job, done);
    (void)pthread_mutex_unlock(&x->hooks);
}

void uvcci_gpu_complete(uvcc_gpu *x, uvcci_lane *l, const uvcc_job *job, int status,
                        const char *text) {
    uvcci_gpu_hook(x, job, true); /* afterwards the job's memory may be gone */
    (void)pthread_mutex_lock(&x->lock);
    assert(atomic_load(&x->done_count) < x->cfg.queue_jobs);
    if (status != 0 && x->trouble[0] == '\0')
        (void)snprintf(x->trouble, sizeof x->trouble, "%s", text);
    x->done[atomic_load(&x->done_count)] = (uvcc_completion){job->id, job->cookie, status};
    atomic_fetch_add(&x->done_count, 1);
    if (l != NULL) {
        atomic_store(&l->state, UVCCI_LANE_FREE);
        atomic_fetch_sub(&x->busy, 1);
        (void)pthread_cond_signal(&x->work);
    }
    (void)pthread_cond_broadcast(&x->news);
    (void)pthread_mutex_unlock(&x->lock);
    if (x->cfg.wake != NULL) {
        (void)pthread_mutex_lock(&x->hooks);
        x->cfg.wake(x->cfg.wake_user);
        (void)pthread_mutex_unlock(&x->hooks);
    }
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
    return cfg->streams > UVCCI_GPU_STREAMS_MOST || cfg->queue_jobs > MAX_JOBS ? UVCC_ERR_CONFIG
                                                                               : 0;
}

static void *own_take(const uvcc_gpu *x, size_t bytes) {
    return x->cfg.alloc.alloc(x->cfg.alloc.user, bytes, UVCC_MEM_STATE);
}

static void own_give(const uvcc_gpu *x, void *p, size_t bytes) {
    if (p != NULL)
        x->cfg.alloc.free(x->cfg.alloc.user, p, bytes, UVCC_MEM_STATE);
}

/* What open_device() and new have made; a lost device keeps what is its own. */
static void close_all(uvcc_gpu *x) {
    const bool give_back = !atomic_load(&x->lost);
    x->closing = true;
    if (give_back)
        (void)cudaSetDevice(x->ordinal);
    for (uint32_t i = 0; i < x->cfg.streams; i++)
        if (x->lane[i].home != NULL)
            uvcci_lane_close(&x->lane[i], give_back);
    for (uint32_t i = 0; give_back && i < atomic_load(&x->home.kept.count); i++)
        (void)cudaMemset(x->home.kept.copy[i].block, 0, x->home.kept.copy[i].room);
    uvcci_kept_close(&x->home.kept);
    if (x->wiped != NULL && give_back)
        (void)cudaEventDestroy(x->wiped);
    if (x->wiper != NULL && give_back)
        (void)cudaStreamDestroy(x->wiper);
    if (x->marks != NULL && give_back)
        (void)cudaFreeHost(x->marks);
    uvcci_gpu_pool_close(&x->home.device, give_back);
    uvcci_gpu_pool_close(&x->home.pinned, give_back);
    uvcc_cpu_free(x->home.cpu);
    own_give(x, x->todo, x->cfg.queue_jobs * sizeof *x->todo);
    own_give(x, x->done, x->cfg.queue_jobs * sizeof *x->done);
    own_give(x, x->cookies, x->cfg.queue_jobs * sizeof *x->cookies);
    (void)pthread_mutex_destroy(&x->lock);
    (void)pthread_mutex_destroy(&x->hooks);
    (void)pthread_cond_destroy(&x->work);
    (void)pthread_cond_destroy(&x->watch);
    (void)pthread_cond_destroy(&x->dirt);
    (void)pthread_cond_destroy(&x->news);
    const uvcc_gpu_config cfg = x->cfg;
    cfg.alloc.free(cfg.alloc.user, x, sizeof *x, UVCC_MEM_STATE);
}

/* Whether ring_gemm.h can run: its instructions, and the driver's maps for the copy engine. */
static bool is_hopper(int device) {
    int major = 0, minor = 0;
    void *encode = NULL;
    enum cudaDriverEntryPointQueryResult how;
    return uvcci_ring_gemm_built() &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
               cudaSuccess &&
           cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) ==
               cudaSuccess &&
           major == 9 && minor == 0 &&
           cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000,
                                            cudaEnableDefault, &how) == cudaSuccess &&
           encode != NULL;
}

static int open_device(uvcc_gpu *x) {
    int sms = 0, e = 0;
    if (cudaSetDevice(x->ordinal) != cudaSuccess ||
        cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, x->ordinal) != cudaSuccess ||
        uvcci_gpu_prepare_vec() != cudaSuccess || uvcci_gpu_prepare_forms() != cudaSuccess ||
        cudaStreamCreateWithFlags(&x->wiper, cudaStreamNonBlocking) != cudaSuccess ||
        cudaEventCreateWithFlags(&x->wiped, cudaEventDisableTiming) != cudaSuccess ||
        cudaHostAlloc((void **)&x->marks, UVCCI_GPU_STREAMS_MOST * MARK_BYTES,
                      cudaHostAllocMapped) != cudaSuccess)
        return UVCC_ERR_JOB;
    memset(x->marks, 0, UVCCI_GPU_STREAMS_MOST * MARK_BYTES);
    x->home.hopper = is_hopper(x->ordinal);
    (void)cudaGetLastError();
    x->home.sms = sms < SMS_LEAST ? SMS_LEAST : (unsigned)sms;
    for (uint32_t i = 0; i < x->cfg.streams && e == 0; i++)
        e = uvcci_lane_open(&x->lane[i], &x->home, x->marks + i * MARK_BYTES, i);
    return e;
}

static void open_locks(uvcc_gpu *x) {
    pthread_condattr_t a;
    pthread_cond_t *all[] = {&x->work, &x->watch, &x->dirt, &x->news};
    (void)pthread_condattr_init(&a);
    (void)pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
        (void)pthread_cond_init(all[i], &a);
    (void)pthread_condattr_destroy(&a);
    (void)pthread_mutex_init(&x->lock, NULL);
    (void)pthread_mutex_init(&x->hooks, NULL);
}

static void signal_all(uvcc_gpu *x) {
    (void)pthread_mutex_lock(&x->lock);
    atomic_store(&x->stop, true);
    (void)pthread_cond_broadcast(&x->work);
    (void)pthread_cond_broadcast(&x->watch);
    (void)pthread_mutex_unlock(&x->lock);
}

/* All that came back is wiped. */
static void end_sweeper(uvcc_gpu *x) {
    (void)pthread_mutex_lock(&x->lock);
    x->sweeps_last = true;
    (void)pthread_cond_signal(&x->dirt);
    (void)pthread_mutex_unlock(&x->lock);
    (void)pthread_join(x->sweeper, NULL);
}

static int start_threads(uvcc_gpu *x) {
    if (pthread_create(&x->sweeper, NULL, uvcci_gpu_sweeper, x) != 0)
        return UVCC_ERR_NOMEM;
    const bool watched = pthread_create(&x->watcher, NULL, uvcci_gpu_watcher, x) == 0;
    if (watched && pthread_create(&x->launcher, NULL, uvcci_gpu_launcher, x) == 0)
        return 0;
    signal_all(x);
    if (watched)
        (void)pthread_join(x->watcher, NULL);
    end_sweeper(x);
    return UVCC_ERR_NOMEM;
}

/* The launcher is made last: what it needs of CUDA is there, and no other thread calls it. */
int uvcc_gpu_new(uvcc_gpu **out, const uvcc_gpu_config *from) {
    uvcc_gpu_config cfg;
    int ordinal = 0;
    if (out == NULL || from == NULL)
        return UVCC_ERR_USAGE;
    int e = config_read(&cfg, from);
    if (e == 0 && cfg.device >= find_devices(cfg.device, &ordinal, NULL))
        e = UVCC_ERR_CONFIG;
    if (e == 0 && cfg.lender != NULL && cfg.lender->ordinal != ordinal)
        e = UVCC_ERR_CONFIG;
    if (e != 0)
        return e;
    uvcc_gpu *x = cfg.alloc.alloc(cfg.alloc.user, sizeof *x, UVCC_MEM_STATE);
    if (x == NULL)
        return UVCC_ERR_NOMEM;
    memset(x, 0, sizeof *x);
    x->cfg = cfg;
    x->ordinal = ordinal;
    x->home.records = (uvcc_allocator){.alloc = record_take, .free = record_give, .user = x};
    x->home.trust_pointers = cfg.trust_pointers;
    x->home.lent = cfg.lender != NULL ? &cfg.lender->home.device : NULL;
    x->home.stage_least = UVCCI_LANE_STAGE_LEAST;
    const uint64_t part = cfg.device_bytes / KEPT_PART;
    uvcci_kept_init(&x->home.kept, part != 0 && part < KEPT_BYTES ? part : KEPT_BYTES);
    x->home.outgrown = uvcci_gpu_outgrown;
    x->home.user = x;
    open_locks(x);
    uvcci_gpu_pool_init(&x->home.device, &x->home.records, false, cfg.device_bytes);
    uvcci_gpu_pool_init(&x->home.pinned, &x->home.records, true, cfg.pinned_bytes);
    x->home.device.hook = x->home.pinned.hook = cfg.memory;
    x->home.device.hook_user = x->home.pinned.hook_user = cfg.memory_user;
    x->todo = own_take(x, cfg.queue_jobs * sizeof *x->todo);
    x->done = own_take(x, cfg.queue_jobs * sizeof *x->done);
    x->cookies = own_take(x, cfg.queue_jobs * sizeof *x->cookies);
    e = x->todo == NULL || x->done == NULL || x->cookies == NULL ? UVCC_ERR_NOMEM : open_device(x);
    const uvcc_cpu_config cpu = {.size = sizeof cpu, .alloc = cfg.alloc, .queue_jobs = 1};
    if (e == 0)
        e = uvcc_cpu_new(&x->home.cpu, &cpu);
    if (e == 0)
        e = start_threads(x);
    if (e != 0)
        close_all(x);
    else
        *out = x;
    return e;
}

/* Whether the launcher came to its end: it has until a deadline, or a second if the device is
 * lost. */
static bool launcher_ends(uvcc_gpu *x) {
    (void)pthread_mutex_lock(&x->lock);
    const uint64_t from = uvcci_gpu_clock_ns();
    uint64_t most = x->cfg.deadline_ns;
    while (!x->launcher_ended && uvcci_gpu_clock_ns() - from < most) {
        if (atomic_load(&x->lost) || most < SECOND_NS)
            most = SECOND_NS;
        uvcci_gpu_wait_for(x, &x->news, SECOND_NS / 10);
    }
    const bool ended = x->launcher_ended;
    atomic_store(&x->lost, atomic_load(&x->lost) || !ended);
    (void)pthread_mutex_unlock(&x->lock);
    return ended;
}

void uvcc_gpu_free(uvcc_gpu *x) {
    if (x == NULL)
        return;
    signal_all(x);
    (void)pthread_join(x->watcher, NULL);
    const bool ends = launcher_ends(x); /* it may wait for the sweeper */
    end_sweeper(x);
    if (ends) {
        (void)pthread_join(x->launcher, NULL);
        close_all(x);
    } else { /* CUDA has it: what it may touch stays */
        (void)pthread_detach(x->launcher);
    }
}

int uvcc_gpu_submit(uvcc_gpu *x, const uvcc_job *job) {
    if (x == NULL || job == NULL)
        return UVCC_ERR_USAGE;
    (void)pthread_mutex_lock(&x->lock);
    const bool full = x->pending == x->cfg.queue_jobs;
    if (!full) {
        x->cookies[x->pending++] = job->cookie;
        x->todo[atomic_load(&x->todo_count)] = *job;
        atomic_fetch_add(&x->todo_count, 1);
        (void)pthread_cond_signal(&x->work);
        (void)pthread_cond_signal(&x->watch);
    }
    (void)pthread_mutex_unlock(&x->lock);
    return full ? UVCC_ERR_AGAIN : 0;
}

/* The first of a cookie, or of any if that is NULL; done_count if there is none. The lock is held.
 */
static uint32_t find_done(const uvcc_gpu *x, const uint64_t *cookie) {
    uint32_t i = 0;
    while (i < x->done_count && cookie != NULL && x->done[i].cookie != *cookie)
        i++;
    return i;
}

/* Whether something of a cookie is out. The lock is held. */
static bool is_out(const uvcc_gpu *x, const uint64_t *cookie) {
    bool out = cookie == NULL && x->pending != 0;
    for (uint32_t i = 0; cookie != NULL && i < x->pending && !out; i++)
        out = x->cookies[i] == *cookie;
    return out;
}

static void forget_cookie(uvcc_gpu *x, uint64_t cookie) {
    uint32_t i = 0;
    while (x->cookies[i] != cookie)
        i++;
    assert(i < x->pending);
    x->cookies[i] = x->cookies[--x->pending];
}

static int take_done(uvcc_gpu *x, const uint64_t *cookie, uvcc_completion *out) {
    if (atomic_load_explicit(&x->done_count, memory_order_relaxed) == 0)
        return 0;
    (void)pthread_mutex_lock(&x->lock);
    const uint32_t i = find_done(x, cookie), count = x->done_count;
    if (i < count) {
        *out = x->done[i];
        forget_cookie(x, out->cookie);
        memmove(x->done + i, x->done + i + 1, (count - 1 - i) * sizeof *x->done);
        atomic_store(&x->done_count, count - 1);
    }
    (void)pthread_mutex_unlock(&x->lock);
    return i < count;
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

/* Most jobs are short: a look costs less than sleep and waking. */
static void wait_for_done(uvcc_gpu *x, const uint64_t *cookie) {
    const uint64_t from = uvcci_gpu_clock_ns();
    while (atomic_load(&x->done_count) == 0 && uvcci_gpu_clock_ns() - from < LOOK_NS)
        (void)sched_yield();
    (void)pthread_mutex_lock(&x->lock);
    while (is_out(x, cookie) && find_done(x, cookie) == x->done_count)
        (void)pthread_cond_wait(&x->news, &x->lock);
    (void)pthread_mutex_unlock(&x->lock);
}

void uvcc_gpu_wait(uvcc_gpu *x) {
    if (x != NULL)
        wait_for_done(x, NULL);
}

void uvcc_gpu_wait_of(uvcc_gpu *x, uint64_t cookie) {
    if (x != NULL)
        wait_for_done(x, &cookie);
}

/* The text is written once, and said to nobody before. */
const char *uvcc_gpu_trouble(uvcc_gpu *x) {
    if (x == NULL)
        return "";
    (void)pthread_mutex_lock(&x->lock);
    const char *text = x->trouble[0] != '\0' ? x->trouble : "";
    (void)pthread_mutex_unlock(&x->lock);
    return text;
}
