/* SPDX-License-Identifier: Apache-2.0 */
/* crew.c - see crew.h.
 *
 * What is asked for stands in a list until its last piece was taken, and in the memory of who asked
 * until its last piece is done: whoever took a piece counts it there, and then leaves it alone. */
#include "crew.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <uvcc/host.h>

#include "cores.h"

#define FRAME_BYTES (128u << 10) /* of those that are sealed and opened side by side, */
#define FRAMES      8u           /* as many in a transmit */

typedef struct work {
    void (*item)(void *arg, uint32_t i);
    void *arg;
    uint32_t taken, count;
    atomic_uint done;
    struct work *next;
} work;

struct crew {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    work *first; /* under the lock */
    bool over;
    unsigned asleep, threads;
    atomic_uint changes; /* grows when there is more to do, or nothing any more */
    pthread_t thread[];
};

/* A piece of `own`, or of any. */
static work *take(crew *c, work *own, uint32_t *i) {
    (void)pthread_mutex_lock(&c->lock);
    work **at = &c->first;
    while (*at != NULL && own != NULL && *at != own)
        at = &(*at)->next;
    work *w = *at;
    if (w != NULL) {
        *i = w->taken++;
        if (w->taken == w->count)
            *at = w->next;
    }
    (void)pthread_mutex_unlock(&c->lock);
    return w;
}

static void help(crew *c, work *own) {
    uint32_t i;
    for (work *w; (w = take(c, own, &i)) != NULL;) {
        w->item(w->arg, i);
        atomic_fetch_add(&w->done, 1);
    }
}

static void run(void *user, void (*item)(void *arg, uint32_t i), void *arg, uint32_t count) {
    crew *c = user;
    work w = {.item = item, .arg = arg, .count = count};
    if (count == 0)
        return;
    (void)pthread_mutex_lock(&c->lock);
    w.next = c->first;
    c->first = &w;
    atomic_fetch_add(&c->changes, 1);
    if (c->asleep != 0)
        (void)pthread_cond_broadcast(&c->wake);
    (void)pthread_mutex_unlock(&c->lock);
    help(c, &w);
    while (atomic_load(&w.done) != count)
        (void)sched_yield();
}

/* False: nothing changed for a while. */
static bool changed_soon(crew *c, unsigned seen) {
    const uint64_t from = uvcc_host_now_ns();
    while (atomic_load(&c->changes) == seen) {
        if (uvcc_host_now_ns() - from >= CREW_LOOK_NS)
            return false;
        (void)sched_yield();
    }
    return true;
}

static bool sleep_until_asked(crew *c) {
    (void)pthread_mutex_lock(&c->lock);
    c->asleep++;
    while (c->first == NULL && !c->over)
        (void)pthread_cond_wait(&c->wake, &c->lock);
    c->asleep--;
    const bool over = c->over;
    (void)pthread_mutex_unlock(&c->lock);
    return !over;
}

static void *helper(void *arg) {
    crew *c = arg;
    do {
        unsigned seen;
        do {
            seen = atomic_load(&c->changes);
            help(c, NULL);
        } while (changed_soon(c, seen));
    } while (sleep_until_asked(c));
    return NULL;
}

int crew_new(crew **out, unsigned threads) {
    crew *c = calloc(1, sizeof *c + threads * sizeof c->thread[0]);
    if (c == NULL)
        return UVCC_ERR_NOMEM;
    bool ok = pthread_mutex_init(&c->lock, NULL) == 0 && pthread_cond_init(&c->wake, NULL) == 0;
    for (; ok && c->threads < threads; c->threads += ok)
        ok = pthread_create(&c->thread[c->threads], NULL, helper, c) == 0;
    if (!ok) {
        crew_free(c);
        return UVCC_ERR_NOMEM;
    }
    *out = c;
    return 0;
}

void crew_free(crew *c) {
    if (c == NULL)
        return;
    (void)pthread_mutex_lock(&c->lock);
    c->over = true;
    atomic_fetch_add(&c->changes, 1);
    (void)pthread_cond_broadcast(&c->wake);
    (void)pthread_mutex_unlock(&c->lock);
    for (unsigned i = 0; i < c->threads; i++)
        (void)pthread_join(c->thread[i], NULL);
    (void)pthread_cond_destroy(&c->wake);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
}

uvcc_parallel crew_parallel(crew *c) {
    return (uvcc_parallel){.run = run, .user = c};
}

unsigned crew_threads_of(long cores, uint32_t workers) {
    const long spare = cores / 2 - 2 * (long)workers, most = CREW_HELPERS * (long)workers;
    if (cores < CREW_CORES * (long)workers || spare <= 0)
        return 0;
    return (unsigned)(spare < most ? spare : most);
}

unsigned crew_threads(uint32_t workers) {
    return crew_threads_of(cores_usable(), workers);
}

void crew_share_frames(crew *c, uvcc_config *session) {
    if (c == NULL)
        return;
    session->threads.parallel = crew_parallel(c);
    session->links.frame_bytes = FRAME_BYTES;
    session->links.transmit_frames = FRAMES;
}

void crew_share_net(crew *c, uvcc_net_config *net) {
    if (c == NULL)
        return;
    net->parallel = crew_parallel(c);
    net->look_ns = CREW_LOOK_NS;
}
