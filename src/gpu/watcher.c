/* SPDX-License-Identifier: Apache-2.0 */
/* watcher.c - the thread that sees marks and deadlines, and makes completions. It calls no CUDA, so
 * that nothing that happens on a device keeps it. */
#include <sched.h>

#include "gpu/executor.h"

#define NAP_NS   ((uint64_t)20000)      /* between looks at a job that takes long */
#define SLEEP_NS ((uint64_t)100000000)  /* most of it: the launcher may be in CUDA without a job */
#define CALL_NS  ((uint64_t)1000000000) /* what calls without a job have, if a job has less */

/* Takes a lane's job to its end, unless somebody else does. */
static bool claim(uvcc_gpu *x, uvcci_lane *l, int state) {
    (void)pthread_mutex_lock(&x->lock);
    const bool mine = atomic_load(&l->state) == state;
    if (mine)
        atomic_store(&l->state, UVCCI_LANE_ENDING);
    (void)pthread_mutex_unlock(&x->lock);
    return mine;
}

/* Whether something happened. */
static bool look(uvcc_gpu *x, uvcci_lane *l) {
    const int state = atomic_load_explicit(&l->state, memory_order_acquire);
    if (state != UVCCI_LANE_STARTING && state != UVCCI_LANE_RUNNING)
        return false;
    if (state == UVCCI_LANE_RUNNING && uvcci_lane_is_through(l)) {
        if (!claim(x, l, state))
            return false;
        const uvcc_job job = l->job;
        const int status = uvcci_lane_finish(l, true);
        uvcci_gpu_complete(x, l, &job, status, status != 0 ? l->text : "");
        return true;
    }
    /* Read before the clock: the launcher may have refused that job and begun another one. What was
     * seen before it may be long ago, if this thread had no core meanwhile. */
    const uint64_t began = atomic_load(&l->began_ns);
    const bool late = uvcci_gpu_clock_ns() - began >= x->cfg.deadline_ns;
    if (late && atomic_load(&l->state) == state && atomic_load(&l->began_ns) == began &&
        (state != UVCCI_LANE_RUNNING || !uvcci_lane_is_through(l)))
        uvcci_gpu_lose(x, "a job missed its deadline");
    return false;
}

static void look_at_calls(uvcc_gpu *x) {
    const uint64_t most = x->cfg.deadline_ns > CALL_NS ? x->cfg.deadline_ns : CALL_NS;
    const uint64_t since = atomic_load(&x->in_cuda), now = uvcci_gpu_clock_ns();
    /* It is the same stay in CUDA, unless another one began in the same nanosecond. */
    if (since != 0 && now > since && now - since >= most && atomic_load(&x->in_cuda) == since)
        uvcci_gpu_lose(x, "a call of CUDA did not end before the deadline");
}

/* All that is out, but for what the launcher reads until it has read it. What it is about to launch
 * it wipes itself, once CUDA lets it. */
static bool fail_all(uvcc_gpu *x) {
    bool some = false;
    (void)pthread_mutex_lock(&x->lock);
    while (x->reading)
        (void)pthread_cond_wait(&x->news, &x->lock);
    (void)pthread_mutex_unlock(&x->lock);
    for (uint32_t i = 0; i < x->cfg.streams; i++) {
        uvcci_lane *l = &x->lane[i];
        const bool running = claim(x, l, UVCCI_LANE_RUNNING);
        if (running)
            uvcci_lane_wipe(l);
        if (running || claim(x, l, UVCCI_LANE_STARTING)) {
            const uvcc_job job = l->job;
            uvcci_gpu_complete(x, l, &job, UVCC_ERR_JOB, "the device is lost");
            some = true;
        }
    }
    (void)pthread_mutex_lock(&x->lock);
    while (atomic_load(&x->todo_count) != 0) {
        const uvcc_job job = uvcci_gpu_take_job(x);
        (void)pthread_mutex_unlock(&x->lock);
        uvcci_gpu_hook(x, &job, false);
        uvcci_gpu_complete(x, NULL, &job, UVCC_ERR_JOB, "the device is lost");
        (void)pthread_mutex_lock(&x->lock);
        some = true;
    }
    (void)pthread_mutex_unlock(&x->lock);
    return some;
}

static bool nothing_is_out(uvcc_gpu *x) {
    return atomic_load(&x->busy) == 0 && atomic_load(&x->todo_count) == 0;
}

/* Until it is to look again; false: it is to end. */
static bool rest(uvcc_gpu *x, uint64_t quiet_ns) {
    if (atomic_load(&x->stop)) {
        (void)pthread_mutex_lock(&x->lock);
        const bool end = nothing_is_out(x);
        (void)pthread_mutex_unlock(&x->lock);
        if (end)
            return false;
    }
    if (quiet_ns < UVCCI_GPU_SPIN_NS) {
        (void)sched_yield();
        return true;
    }
    (void)pthread_mutex_lock(&x->lock);
    if (atomic_load(&x->busy) != 0)
        uvcci_gpu_wait_for(x, &x->watch, NAP_NS);
    else if (nothing_is_out(x) && !atomic_load(&x->stop))
        uvcci_gpu_wait_for(x, &x->watch, SLEEP_NS);
    (void)pthread_mutex_unlock(&x->lock);
    return true;
}

void *uvcci_gpu_watcher(void *arg) {
    uvcc_gpu *x = arg;
    uint64_t last = uvcci_gpu_clock_ns();
    uint32_t busy = 0;
    for (;;) {
        bool some = false;
        for (uint32_t i = 0; i < x->cfg.streams; i++)
            some |= look(x, &x->lane[i]);
        look_at_calls(x);
        const uint64_t now = uvcci_gpu_clock_ns();
        if (atomic_load(&x->lost))
            some |= fail_all(x);
        const uint32_t was = busy;
        busy = atomic_load(&x->busy);
        if (some || busy > was)
            last = now;
        if (!rest(x, now - last))
            return NULL;
    }
}
