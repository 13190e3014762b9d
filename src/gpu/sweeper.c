/* SPDX-License-Identifier: Apache-2.0 */
/* sweeper.c - the thread that wipes pinned memory which came back: messages of a step are as many
 * bytes as its keys, and whoever gives them back has better things to do. It calls no CUDA, so it
 * wipes what a lost device leaves, too. */
#include <string.h>

#include "gpu/executor.h"

uint64_t uvcci_gpu_await_swept(uvcc_gpu *x, uint64_t most, bool *more) {
    (void)pthread_mutex_lock(&x->lock);
    const uint64_t left = x->handed - x->swept;
    x->awaited = x->swept + (left < most ? left : most);
    while (x->swept < x->awaited)
        (void)pthread_cond_wait(&x->news, &x->lock);
    const uint64_t so_far = x->handed;
    *more = x->swept != so_far;
    (void)pthread_mutex_unlock(&x->lock);
    return so_far;
}

/* Not the first, which the sweeper may be wiping; of the others the last, which the cache may have.
 */
void *uvcci_gpu_claim(uvcc_gpu *x, size_t bytes) {
    uvcci_gpu_wipe it = {NULL, 0};
    (void)pthread_mutex_lock(&x->lock);
    for (uint64_t i = x->handed; it.at == NULL && i > x->swept + 1; i--) {
        uvcci_gpu_wipe *w = &x->sweep[(i - 1) % UVCCI_GPU_WIPES];
        if (w->bytes == 0 || !uvcci_gpu_pool_alike(w->bytes, bytes))
            continue;
        it = *w;
        w->bytes = 0;
    }
    (void)pthread_mutex_unlock(&x->lock);
    if (it.at != NULL)
        memset(it.at, 0, it.bytes);
    return it.at;
}

/* The next one, or what says that there is none: `at` NULL, at the end. By arrival, so that nobody
 * waits for more than there was. */
static uvcci_gpu_wipe next(uvcc_gpu *x) {
    uvcci_gpu_wipe it = {NULL, 0};
    (void)pthread_mutex_lock(&x->lock);
    while (x->swept == x->handed && !x->sweeps_last)
        (void)pthread_cond_wait(&x->dirt, &x->lock);
    if (x->swept != x->handed)
        it = x->sweep[x->swept % UVCCI_GPU_WIPES];
    (void)pthread_mutex_unlock(&x->lock);
    return it;
}

static void has_wiped(uvcc_gpu *x) {
    (void)pthread_mutex_lock(&x->lock);
    if (++x->swept == x->awaited)
        (void)pthread_cond_broadcast(&x->news);
    (void)pthread_mutex_unlock(&x->lock);
}

void *uvcci_gpu_sweeper(void *arg) {
    uvcc_gpu *x = arg;
    for (uvcci_gpu_wipe it = next(x); it.at != NULL; it = next(x)) {
        if (it.bytes != 0) { /* nobody has claimed it */
            memset(it.at, 0, it.bytes);
            uvcci_gpu_pool_give(&x->home.pinned, it.at, it.bytes);
        }
        has_wiped(x);
    }
    return NULL;
}
