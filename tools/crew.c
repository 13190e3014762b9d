/* SPDX-License-Identifier: Apache-2.0 */
/* crew.c - see crew.h.
 *
 * What is asked for stands in one of the crew's places until all of it is done; threads take its
 * pieces from there by one exchange of its state, so that none waits for another's, nor for a lock:
 * of four workers' frames a piece takes some twenty microseconds, and threads that seal them are
 * many. Whoever takes the last piece takes the place from the list, before that piece is done:
 * until then who asked is in the call, and the place has nobody else's work. */
#define _GNU_SOURCE
#include "crew.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/host.h>

#include "cores.h"

#define PAUSES      32u          /* between two looks at the clock */
#define FRAME_BYTES (128u << 10) /* of those that are sealed and opened side by side, */
#define FRAMES      8u           /* as many in a transmit */
#define PLACES      64u          /* a bit each of what follows */
#define MOST_PIECES 0xffffu      /* in a place; 16 bits of its state */
#define NS_PER_S    1000000000u

/* The state: which work of this place it is (32 bits), how many pieces it has, how many were taken.
 */
typedef struct place {
    _Alignas(64) _Atomic uint64_t state;
    void (*item)(void *arg, uint32_t i);
    void *arg;
    uint32_t from; /* added to the number of a piece */
    _Alignas(64) atomic_uint done;
} place;

typedef struct hand {
    struct crew *crew;
    pthread_t thread;
    unsigned first; /* the place it looks at first: not all the same */
} hand;

struct crew {
    place at[PLACES];
    _Alignas(64) _Atomic uint64_t open; /* places with pieces that nobody took */
    _Alignas(64) _Atomic uint64_t idle; /* places that are nobody's */
    atomic_bool over;
    atomic_uint asleep; /* changes under the lock */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    unsigned threads;
    hand hand[];
};

static uint32_t count_of(uint64_t state) {
    return (uint32_t)(state >> 16) & MOST_PIECES;
}

static uint32_t taken_of(uint64_t state) {
    return (uint32_t)state & MOST_PIECES;
}

/* A piece of what stands there; false: it has no more. */
static bool take(crew *c, unsigned n, uint32_t *i) {
    place *p = &c->at[n];
    uint64_t state = atomic_load(&p->state);
    do {
        if (taken_of(state) == count_of(state))
            return false;
    } while (!atomic_compare_exchange_weak(&p->state, &state, state + 1));
    *i = taken_of(state);
    if (*i + 1 == count_of(state))
        (void)atomic_fetch_and(&c->open, ~(UINT64_C(1) << n));
    return true;
}

static void work_on(crew *c, unsigned n) {
    uint32_t i;
    while (take(c, n, &i)) {
        place *p = &c->at[n];
        p->item(p->arg, p->from + i);
        (void)atomic_fetch_add(&p->done, 1);
    }
}

/* True: there was something. */
static bool help(crew *c, unsigned first) {
    uint64_t open = atomic_load(&c->open);
    if (open == 0)
        return false;
    const uint64_t later = open >> first << first;
    work_on(c, (unsigned)__builtin_ctzll(later != 0 ? later : open));
    return true;
}

static void relax(void) {
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

/* A place of nobody's, as a number; PLACES: none. */
static unsigned take_place(crew *c) {
    uint64_t idle = atomic_load(&c->idle);
    do {
        if (idle == 0)
            return PLACES;
    } while (!atomic_compare_exchange_weak(&c->idle, &idle, idle & (idle - 1)));
    return (unsigned)__builtin_ctzll(idle);
}

static void run_some(crew *c, void (*item)(void *arg, uint32_t i), void *arg, uint32_t from,
                     uint32_t count) {
    const unsigned n = count > 1 && c->threads != 0 ? take_place(c) : PLACES;
    if (n == PLACES) {
        for (uint32_t i = 0; i < count; i++)
            item(arg, from + i);
        return;
    }
    place *p = &c->at[n];
    p->item = item;
    p->arg = arg;
    p->from = from;
    atomic_store(&p->done, 0);
    /* In this order: whoever takes the last piece closes what is open by then. */
    (void)atomic_fetch_or(&c->open, UINT64_C(1) << n);
    atomic_store(&p->state, ((atomic_load(&p->state) >> 32) + 1) << 32 | (uint64_t)count << 16);
    if (atomic_load(&c->asleep) != 0) {
        (void)pthread_mutex_lock(&c->lock);
        (void)pthread_cond_broadcast(&c->wake);
        (void)pthread_mutex_unlock(&c->lock);
    }
    work_on(c, n);
    for (unsigned looks = 0; atomic_load(&p->done) != count; looks++)
        if (looks < PAUSES)
            relax();
        else
            (void)sched_yield();
    (void)atomic_fetch_or(&c->idle, UINT64_C(1) << n);
}

static void run(void *user, void (*item)(void *arg, uint32_t i), void *arg, uint32_t count) {
    for (uint32_t from = 0, some; from < count; from += some) {
        some = count - from < MOST_PIECES ? count - from : MOST_PIECES;
        run_some(user, item, arg, from, some);
    }
}

/* False: nothing came for a while. */
static bool asked_soon(crew *c) {
    const uint64_t from = uvcc_host_now_ns();
    while (atomic_load(&c->open) == 0 && !atomic_load(&c->over)) {
        if (uvcc_host_now_ns() - from >= CREW_LOOK_NS)
            return false;
        for (unsigned i = 0; i < PAUSES && atomic_load(&c->open) == 0; i++)
            relax();
        (void)sched_yield();
    }
    return true;
}

/* Who asks opens a place and then looks who sleeps; who goes to sleep says so and then looks for a
 * place that is open. So one of them sees the other. */
static void sleep_until_asked(crew *c) {
    (void)pthread_mutex_lock(&c->lock);
    (void)atomic_fetch_add(&c->asleep, 1);
    while (atomic_load(&c->open) == 0 && !atomic_load(&c->over))
        (void)pthread_cond_wait(&c->wake, &c->lock);
    (void)atomic_fetch_sub(&c->asleep, 1);
    (void)pthread_mutex_unlock(&c->lock);
}

static void *helper(void *arg) {
    const hand *me = arg;
    crew *c = me->crew;
    while (!atomic_load(&c->over)) {
        while (help(c, me->first))
            continue;
        if (!asked_soon(c))
            sleep_until_asked(c);
    }
    return NULL;
}

int crew_new(crew **out, unsigned threads) {
    const size_t bytes = sizeof(crew) + threads * sizeof(hand);
    crew *c = aligned_alloc(_Alignof(crew),
                            (bytes + _Alignof(crew) - 1) / _Alignof(crew) * _Alignof(crew));
    if (c == NULL)
        return UVCC_ERR_NOMEM;
    memset(c, 0, bytes);
    atomic_store(&c->idle, UINT64_MAX);
    bool ok = pthread_mutex_init(&c->lock, NULL) == 0 && pthread_cond_init(&c->wake, NULL) == 0;
    for (; ok && c->threads < threads; c->threads += ok) {
        hand *h = &c->hand[c->threads];
        *h = (hand){.crew = c, .first = c->threads % PLACES};
        ok = pthread_create(&h->thread, NULL, helper, h) == 0;
    }
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
    atomic_store(&c->over, true);
    (void)pthread_cond_broadcast(&c->wake);
    (void)pthread_mutex_unlock(&c->lock);
    for (unsigned i = 0; i < c->threads; i++)
        (void)pthread_join(c->hand[i].thread, NULL);
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

static bool some_ready(struct pollfd *watched, nfds_t count, uint64_t wait_ns) {
    const struct timespec t = {.tv_sec = (time_t)(wait_ns / NS_PER_S),
                               .tv_nsec = (long)(wait_ns % NS_PER_S)};
    return ppoll(watched, count, &t, NULL) > 0;
}

void crew_poll(const crew *c, struct pollfd *watched, nfds_t count, uint64_t wait_ns) {
    const uint64_t look = c == NULL ? 0 : wait_ns < CREW_LOOK_NS ? wait_ns : CREW_LOOK_NS;
    const uint64_t from = look != 0 ? uvcc_host_now_ns() : 0;
    uint64_t passed = 0;
    for (; passed < look; passed = uvcc_host_now_ns() - from) {
        if (some_ready(watched, count, 0))
            return;
        (void)sched_yield();
    }
    (void)some_ready(watched, count, passed < wait_ns ? wait_ns - passed : 0);
}
