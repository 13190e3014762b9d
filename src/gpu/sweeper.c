/* SPDX-License-Identifier: Apache-2.0 */
/* sweeper.c - the thread that wipes pinned memory which came back: messages of a step are as many
 * bytes as its keys, and whoever gives them back has better things to do. It calls no CUDA, so it
 * wipes what a lost device leaves, too. */
#include <string.h>

#include "gpu/executor.h"

bool uvcci_gpu_await_swept(uvcc_gpu *x) {
    (void)pthread_mutex_lock(&x->lock);
    const bool some = x->sweeping || atomic_load(&x->sweep_count) != 0;
    while (x->sweeping || atomic_load(&x->sweep_count) != 0)
        (void)pthread_cond_wait(&x->news, &x->lock);
    (void)pthread_mutex_unlock(&x->lock);
    return some;
}

/* The next one, or what says that there is none: `at` NULL, at the end. */
static uvcci_gpu_wipe next(uvcc_gpu *x) {
    uvcci_gpu_wipe it = {NULL, 0};
    (void)pthread_mutex_lock(&x->lock);
    if (x->sweeping && atomic_load(&x->sweep_count) == 0)
        (void)pthread_cond_broadcast(&x->news);
    x->sweeping = false;
    while (atomic_load(&x->sweep_count) == 0 && !x->swept)
        (void)pthread_cond_wait(&x->dirt, &x->lock);
    if (atomic_load(&x->sweep_count) != 0) {
        it = x->sweep[atomic_fetch_sub(&x->sweep_count, 1) - 1];
        x->sweeping = true;
    }
    (void)pthread_mutex_unlock(&x->lock);
    return it;
}

void *uvcci_gpu_sweeper(void *arg) {
    uvcc_gpu *x = arg;
    for (uvcci_gpu_wipe it = next(x); it.at != NULL; it = next(x)) {
        memset(it.at, 0, it.bytes);
        uvcci_gpu_pool_give(&x->home.pinned, it.at, it.bytes);
    }
    return NULL;
}
