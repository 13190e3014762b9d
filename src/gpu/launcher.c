/* SPDX-License-Identifier: Apache-2.0 */
/* launcher.c - the thread that calls CUDA: it starts jobs by rank as lanes are free, wipes memory
 * that came back, has pools grow, and asks streams whether a kernel failed. After each stay in CUDA
 * it looks whether the device was lost meanwhile, and ends if it was. */
#include <sched.h>

#include "gpu/executor.h"

/* A device that fails says so within that time. */
#define ASK_NS ((uint64_t)1000000)

static void enter_cuda(uvcc_gpu *x) {
    atomic_store(&x->in_cuda, uvcci_gpu_clock_ns());
}

static void leave_cuda(uvcc_gpu *x) {
    atomic_store(&x->in_cuda, 0);
}

static void zero(uvcc_gpu *x, void *at, size_t bytes) {
    (void)cudaMemsetAsync(at, 0, bytes, x->wiper);
}

/* What came back is queued to be zeroed, and lanes wait for that. */
static void wipe(uvcc_gpu *x) {
    uvcci_gpu_wipe some[64];
    const uint32_t most = sizeof some / sizeof some[0];
    uint32_t count = 0;
    (void)pthread_mutex_lock(&x->lock);
    for (; count < most && atomic_load(&x->wipe_count) != 0; count++)
        some[count] = x->wipe[atomic_fetch_sub(&x->wipe_count, 1) - 1];
    (void)pthread_mutex_unlock(&x->lock);
    enter_cuda(x);
    for (uint32_t i = 0; i < count; i++)
        zero(x, some[i].at, some[i].bytes);
    (void)cudaEventRecord(x->wiped, x->wiper);
    x->wipes++;
    leave_cuda(x);
    (void)pthread_mutex_lock(&x->lock);
    (void)pthread_cond_broadcast(&x->news);
    (void)pthread_mutex_unlock(&x->lock);
}

/* --- Jobs ------------------------------------------------------------------------------------- */

/* The two ends of a stretch in which the job is read. false: the device is lost. */
static bool begin_reading(uvcc_gpu *x) {
    (void)pthread_mutex_lock(&x->lock);
    x->reading = !atomic_load(&x->lost);
    const bool may = x->reading;
    (void)pthread_mutex_unlock(&x->lock);
    return may;
}

static bool end_reading(uvcc_gpu *x) {
    (void)pthread_mutex_lock(&x->lock);
    const bool lost = atomic_load(&x->lost);
    x->reading = false;
    if (lost)
        (void)pthread_cond_broadcast(&x->news);
    (void)pthread_mutex_unlock(&x->lock);
    return !lost;
}

/* From where it is to a state, unless the device was lost. */
static bool move_on(uvcc_gpu *x, uvcci_lane *l, uvcci_lane_state state) {
    (void)pthread_mutex_lock(&x->lock);
    const bool may = !atomic_load(&x->lost);
    if (may)
        atomic_store(&l->state, state);
    (void)pthread_mutex_unlock(&x->lock);
    return may;
}

/* False: the watcher completes the job. */
static bool refuse(uvcc_gpu *x, uvcci_lane *l) {
    if (!move_on(x, l, UVCCI_LANE_ENDING))
        return false;
    const uvcc_job job = l->job;
    (void)uvcci_lane_finish(l, false);
    uvcci_gpu_complete(x, l, &job, UVCC_ERR_JOB, l->text);
    return true;
}

/* Lets what was wiped be zero before the lane's kernels run. */
static int launch(uvcc_gpu *x, uvcci_lane *l) {
    enter_cuda(x);
    if (l->wipes_seen != x->wipes)
        (void)cudaStreamWaitEvent(l->stream, x->wiped, 0);
    l->wipes_seen = x->wipes;
    const int e = uvcci_lane_launch(l);
    /* An error of a kernel stays; one of the job does not. */
    if (e != 0 && cudaStreamQuery(l->stream) != cudaSuccess)
        uvcci_gpu_lose(x, l->text);
    leave_cuda(x);
    return e;
}

/* The lane has a job, and is reading it. False: the device was lost meanwhile. */
static bool begin(uvcc_gpu *x, uvcci_lane *l) {
    uvcci_gpu_hook(x, &l->job, false);
    int e = uvcci_lane_measure(l);
    if (e == 0 && uvcci_lane_must_grow(l)) {
        if (!end_reading(x))
            return false;
        bool more;
        if (uvcci_lane_wants_pinned(l))
            (void)uvcci_gpu_await_swept(x, UINT64_MAX, &more);
        enter_cuda(x);
        e = uvcci_lane_grow(l);
        leave_cuda(x);
        if (!begin_reading(x))
            return false;
    }
    if (e == 0)
        e = uvcci_lane_write(l);
    if (!end_reading(x))
        return false;
    while (e == 0 && atomic_load(&x->wipe_count) != 0 && !atomic_load(&x->lost))
        wipe(x); /* what the lane took came back meanwhile, maybe: it is zeroed before it is used */
    if (e == 0)
        e = launch(x, l);
    return e != 0 ? refuse(x, l) : move_on(x, l, UVCCI_LANE_RUNNING);
}

/* Of a job that the watcher completes, or has, the secrets are this thread's until it is on the
 * stream. */
static void start(uvcc_gpu *x, uvcci_lane *l) {
    if (!begin(x, l))
        uvcci_lane_wipe(l);
}

/* A free lane with the next job, or NULL. */
static uvcci_lane *next(uvcc_gpu *x) {
    uvcci_lane *l = NULL;
    (void)pthread_mutex_lock(&x->lock);
    /* A job may have memory that came back: it is wiped before. */
    const bool may = atomic_load(&x->todo_count) != 0 && atomic_load(&x->wipe_count) == 0 &&
                     !atomic_load(&x->lost);
    for (uint32_t i = 0; may && i < x->cfg.streams && l == NULL; i++)
        if (atomic_load(&x->lane[i].state) == UVCCI_LANE_FREE)
            l = &x->lane[i];
    if (l != NULL) {
        l->job = uvcci_gpu_take_job(x);
        atomic_store(&l->began_ns, uvcci_gpu_clock_ns());
        atomic_store(&l->state, UVCCI_LANE_STARTING);
        x->reading = true;
        if (atomic_fetch_add(&x->busy, 1) == 0)
            (void)pthread_cond_signal(&x->watch);
    }
    (void)pthread_mutex_unlock(&x->lock);
    return l;
}

/* --- Memory ----------------------------------------------------------------------------------- */

/* Residues of shares and digests go when nothing runs. */
static void wipe_scratch(uvcc_gpu *x) {
    enter_cuda(x);
    bool some = false;
    for (uint32_t i = 0; i < UVCCI_LANE_DIRTY * x->cfg.streams; i++) {
        size_t bytes = 0;
        uint8_t *at =
            uvcci_lane_dirty(&x->lane[i / UVCCI_LANE_DIRTY], i % UVCCI_LANE_DIRTY, &bytes);
        if (at != NULL)
            zero(x, at, bytes);
        some |= at != NULL;
    }
    if (some) {
        (void)cudaEventRecord(x->wiped, x->wiper);
        x->wipes++;
    }
    leave_cuda(x);
}

void uvcci_gpu_outgrown(void *user, void *at, size_t bytes) {
    uvcc_gpu *x = user;
    zero(x, at, bytes);
    (void)cudaEventRecord(x->wiped, x->wiper);
    x->wipes++;
    uvcci_gpu_pool_give(&x->home.device, at, bytes);
}

/* A block for who asked: one that came back, or what CUDA gives. Others may be quicker to take
 * either; as long as they give some back, or some waits to be wiped, there is more to be had. */
static void *find_block(uvcc_gpu *x, uvcci_gpu_pool *pool, size_t bytes) {
    enum { DEVICE_LEFT = 256 << 20, TRIES = 64 };
    const bool pinned = pool == &x->home.pinned;
    uint64_t came = 0;
    bool more = false;
    void *p = NULL;
    for (unsigned i = 0; i < TRIES && p == NULL && !atomic_load(&x->lost); i++) {
        const uint64_t before = came;
        came = pinned ? uvcci_gpu_await_swept(x, 1, &more) : 0;
        p = uvcci_gpu_pool_take(pool, bytes);
        if (p == NULL && pinned)
            p = uvcci_gpu_claim(x, bytes);
        if (p != NULL)
            break;
        enter_cuda(x);
        const bool grown = uvcci_gpu_pool_grow(pool, bytes, DEVICE_LEFT);
        leave_cuda(x);
        if (grown)
            p = uvcci_gpu_pool_take(pool, bytes);
        else if (i != 0 && came == before && !more)
            break;
    }
    return p;
}

static void grow(uvcc_gpu *x) {
    (void)pthread_mutex_lock(&x->lock);
    uvcci_gpu_pool *pool = x->grow_pool;
    const size_t bytes = x->grow_bytes;
    (void)pthread_mutex_unlock(&x->lock);
    void *p = find_block(x, pool, bytes);
    (void)pthread_mutex_lock(&x->lock);
    x->grown = p;
    atomic_store(&x->grow, p != NULL ? UVCCI_GPU_GROW_DONE : UVCCI_GPU_GROW_FAILED);
    (void)pthread_cond_broadcast(&x->news);
    (void)pthread_mutex_unlock(&x->lock);
}

/* --- The thread ------------------------------------------------------------------------------- */

/* A kernel that failed leaves no mark: its stream knows. */
static void ask_streams(uvcc_gpu *x) {
    for (uint32_t i = 0; i < x->cfg.streams; i++) {
        if (atomic_load(&x->lane[i].state) != UVCCI_LANE_RUNNING)
            continue;
        enter_cuda(x);
        const cudaError_t e = cudaStreamQuery(x->lane[i].stream);
        leave_cuda(x);
        if (e != cudaSuccess && e != cudaErrorNotReady)
            uvcci_gpu_lose(x, cudaGetErrorString(e));
    }
}

static bool has_work(uvcc_gpu *x) {
    return atomic_load(&x->grow) == UVCCI_GPU_GROW_WANTED || atomic_load(&x->wipe_count) != 0 ||
           (atomic_load(&x->todo_count) != 0 && atomic_load(&x->busy) < x->cfg.streams);
}

static bool work(uvcc_gpu *x) {
    if (!has_work(x))
        return false;
    if (atomic_load(&x->grow) == UVCCI_GPU_GROW_WANTED)
        grow(x);
    while (atomic_load(&x->wipe_count) != 0 && !atomic_load(&x->lost))
        wipe(x);
    uvcci_lane *l = atomic_load(&x->lost) ? NULL : next(x);
    if (l != NULL)
        start(x, l);
    return true;
}

/* Until there may be work. */
static void rest(uvcc_gpu *x, uint64_t quiet_ns) {
    if (quiet_ns < UVCCI_GPU_SPIN_NS) {
        (void)sched_yield();
        return;
    }
    const bool running = atomic_load(&x->busy) != 0;
    if (!running)
        wipe_scratch(x);
    (void)pthread_mutex_lock(&x->lock);
    if (!has_work(x) && !atomic_load(&x->stop) && !atomic_load(&x->lost)) {
        if (running || atomic_load(&x->busy) != 0)
            uvcci_gpu_wait_for(x, &x->work, ASK_NS);
        else
            (void)pthread_cond_wait(&x->work, &x->lock);
    } else if (!has_work(x) && running) { /* it is to end when what runs has */
        uvcci_gpu_wait_for(x, &x->work, ASK_NS);
    }
    (void)pthread_mutex_unlock(&x->lock);
}

/* It ends when it is told to and nothing runs any more, or as soon as the device is lost. */
void *uvcci_gpu_launcher(void *arg) {
    uvcc_gpu *x = arg;
    uint64_t last = uvcci_gpu_clock_ns(), asked = last;
    uint32_t busy = 0;
    (void)cudaSetDevice(x->ordinal);
    while (!atomic_load(&x->lost)) {
        const bool some = work(x);
        const uint64_t now = uvcci_gpu_clock_ns();
        const uint32_t was = busy;
        busy = atomic_load(&x->busy);
        if (some || busy < was)
            last = now;
        if (now - asked >= ASK_NS) {
            ask_streams(x);
            asked = uvcci_gpu_clock_ns();
        }
        if (some)
            continue;
        if (atomic_load(&x->stop) && atomic_load(&x->busy) == 0 && !has_work(x))
            break;
        rest(x, now - last);
    }
    if (!atomic_load(&x->lost))
        wipe_scratch(x);
    (void)pthread_mutex_lock(&x->lock);
    x->launcher_ended = true;
    (void)pthread_cond_broadcast(&x->news);
    (void)pthread_mutex_unlock(&x->lock);
    return NULL;
}
