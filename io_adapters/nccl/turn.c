/* SPDX-License-Identifier: Apache-2.0 */
/* turn.c - the turn, which one worker 0 of a process has at a time, and the line of those that wait
 * for it; what it is for stands in leader.c.
 *
 * Whoever has it or stands in line is there until uvcci_nccl_turn_give(), which takes the lock
 * here: so the one that is called is not gone meanwhile. An object's lock is taken under the one
 * here, never the other way round. */
#include "io_adapters/nccl/state.h"

static struct {
    pthread_mutex_t lock;
    uvcc_nccl *holder; /* NULL: nobody, and nobody waits */
    uvcc_nccl *first;  /* of the line */
} turn = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Where it stands in line, or where the line ends. */
static uvcc_nccl **find(const uvcc_nccl *n) {
    uvcc_nccl **at = &turn.first;
    while (*at != NULL && *at != n)
        at = &(*at)->behind;
    return at;
}

bool uvcci_nccl_turn_take(uvcc_nccl *n) {
    (void)pthread_mutex_lock(&turn.lock);
    if (turn.holder == NULL) {
        turn.holder = n;
    } else if (turn.holder != n) {
        uvcc_nccl **at = find(n);
        if (*at == NULL) {
            n->behind = NULL;
            *at = n;
        }
    }
    const bool mine = turn.holder == n;
    (void)pthread_mutex_unlock(&turn.lock);
    return mine;
}

bool uvcci_nccl_turn_wanted(void) {
    (void)pthread_mutex_lock(&turn.lock);
    const bool wanted = turn.first != NULL;
    (void)pthread_mutex_unlock(&turn.lock);
    return wanted;
}

void uvcci_nccl_turn_give(uvcc_nccl *n) {
    (void)pthread_mutex_lock(&turn.lock);
    if (turn.holder != n) {
        uvcc_nccl **at = find(n);
        if (*at != NULL)
            *at = n->behind;
    } else {
        uvcc_nccl *next = turn.first;
        turn.holder = next;
        if (next != NULL) {
            turn.first = next->behind;
            (void)pthread_mutex_lock(&next->lock);
            next->called = true;
            (void)pthread_cond_signal(&next->news);
            (void)pthread_mutex_unlock(&next->lock);
        }
    }
    (void)pthread_mutex_unlock(&turn.lock);
}
