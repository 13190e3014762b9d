/* SPDX-License-Identifier: Apache-2.0 */
/* turn.c - the turn, which one worker 0 of a process has at a time, or a host that pauses them all,
 * and the line of those that wait for it; what it is for stands in leader.c.
 *
 * Whoever has it or stands in line is there until uvcci_nccl_turn_give(), which takes the lock
 * here: so the one that is called is not gone meanwhile. An object's lock is taken under the one
 * here, never the other way round. */
#include "io_adapters/nccl/state.h"

static struct {
    pthread_mutex_t lock;
    pthread_cond_t paused;
    uvcci_nccl_wish *holder; /* NULL: nobody, and nobody waits */
    uvcci_nccl_wish *first;  /* of the line */
} turn = {.lock = PTHREAD_MUTEX_INITIALIZER, .paused = PTHREAD_COND_INITIALIZER};

/* Where it stands in line, or where the line ends. */
static uvcci_nccl_wish **find(const uvcci_nccl_wish *w) {
    uvcci_nccl_wish **at = &turn.first;
    while (*at != NULL && *at != w)
        at = &(*at)->behind;
    return at;
}

/* The lock is held. */
static bool take(uvcci_nccl_wish *w) {
    if (turn.holder == NULL) {
        turn.holder = w;
    } else if (turn.holder != w) {
        uvcci_nccl_wish **at = find(w);
        if (*at == NULL) {
            w->behind = NULL;
            *at = w;
        }
    }
    return turn.holder == w;
}

/* The lock is held. */
static void call(const uvcci_nccl_wish *w) {
    uvcc_nccl *n = w->of;
    if (n == NULL) {
        (void)pthread_cond_broadcast(&turn.paused);
        return;
    }
    (void)pthread_mutex_lock(&n->lock);
    n->called = true;
    (void)pthread_cond_signal(&n->news);
    (void)pthread_mutex_unlock(&n->lock);
}

bool uvcci_nccl_turn_take(uvcci_nccl_wish *w) {
    (void)pthread_mutex_lock(&turn.lock);
    const bool mine = take(w);
    (void)pthread_mutex_unlock(&turn.lock);
    return mine;
}

bool uvcci_nccl_turn_wanted(void) {
    (void)pthread_mutex_lock(&turn.lock);
    const bool wanted = turn.first != NULL;
    (void)pthread_mutex_unlock(&turn.lock);
    return wanted;
}

/* The lock is held. */
static void give(const uvcci_nccl_wish *w) {
    if (turn.holder != w) {
        uvcci_nccl_wish **at = find(w);
        if (*at != NULL)
            *at = w->behind;
    } else {
        turn.holder = turn.first;
        if (turn.holder != NULL) {
            turn.first = turn.holder->behind;
            call(turn.holder);
        }
    }
}

void uvcci_nccl_turn_give(uvcci_nccl_wish *w) {
    (void)pthread_mutex_lock(&turn.lock);
    give(w);
    (void)pthread_mutex_unlock(&turn.lock);
}

/* ---- hosts ---- */

static uvcci_nccl_wish pause_wish;     /* of all threads that pause */
static unsigned waiting, between_both; /* so many; under the lock */

/* Pauses share the turn: who is between the two may wait for a thread that pauses itself. */
void uvcc_nccl_pause(void) {
    (void)pthread_mutex_lock(&turn.lock);
    waiting++;
    while (!take(&pause_wish))
        (void)pthread_cond_wait(&turn.paused, &turn.lock);
    waiting--;
    between_both++;
    (void)pthread_mutex_unlock(&turn.lock);
}

/* Who waits has it already when another one had: they are not sent back into the line. */
void uvcc_nccl_resume(void) {
    (void)pthread_mutex_lock(&turn.lock);
    if (between_both != 0 && --between_both == 0 && waiting == 0)
        give(&pause_wish);
    (void)pthread_mutex_unlock(&turn.lock);
}
