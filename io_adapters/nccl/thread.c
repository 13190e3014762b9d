/* SPDX-License-Identifier: Apache-2.0 */
/* thread.c - the object's thread: hears letters, turns jobs into messages and operations, comes to
 * an end.
 *
 * It sleeps until there is a letter or a job; while something is on the device it looks again and
 * again, without a pause at first.
 *
 * A failure is the word of worker 0, FAIL, behind which no GO comes: jobs that were not told to
 * begin are over, the others end as all of their members do. Only when a device or NCCL fails, or
 * worker 0 does not answer, the device is told to stop.
 *
 * The end: who is closed and has no jobs says BYE; worker 0 answers all with END, and they take
 * their communicators down together. After END no message is on its way to anybody, so objects may
 * go in any order. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "io_adapters/nccl/state.h"

#define NS_PER_S 1000000000u
#define SPINS    4000u      /* looks without a pause, */
#define NAP_NS   5000u      /* then with this one, */
#define JOIN_NS  200000u    /* while workers join, */
#define TICK_NS  100000000u /* while there is only a deadline to look at */

_Static_assert(sizeof(uvcci_nccl_message) <= UVCC_NCCL_MESSAGE_BYTES, "a message fits");
_Static_assert(sizeof(uvcci_nccl_hello) <= UVCC_NCCL_WHY_BYTES, "a greeting fits");
_Static_assert(UVCCI_NCCL_ID_BYTES <= UVCC_NCCL_WHY_BYTES, "an id fits");

uint64_t uvcci_nccl_now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* ---- failure ---- */

/* All fail. What is reported first stays the reason. */
static void failed(uvcc_nccl *n, uint32_t rank, uint32_t code, const char *why, bool broken) {
    if (!n->giving_up) {
        n->giving_up = n->moved = true;
        (void)pthread_mutex_lock(&n->lock);
        n->failed = true;
        n->fail_rank = rank;
        n->fail_code = code;
        (void)snprintf(n->why, sizeof n->why, "%s", why);
        (void)pthread_mutex_unlock(&n->lock);
        uvcci_nccl_drop_waiting(n);
        if (n->cfg.wake != NULL)
            n->cfg.wake(n->cfg.wake_user);
    }
    if (broken && !n->broken && !n->closed) {
        n->broken = n->moved = true;
        n->broken_ns = uvcci_nccl_now();
        n->ops->abort(n->device);
    }
}

void uvcci_nccl_give_up(uvcc_nccl *n, uint32_t code, const char *why, bool broken) {
    uvcci_nccl_message m = {.kind = UVCCI_NCCL_FAIL, .broken = broken, .code = code};
    char first[UVCC_NCCL_WHY_BYTES];
    (void)snprintf(first, sizeof first, "%s", why); /* it may be the object's own */
    if (!n->told || (broken && !n->told_broken)) {
        if (!n->told)
            n->told_ns = uvcci_nccl_now();
        n->told = true;
        n->told_broken = broken;
        memcpy(m.body, first, sizeof first);
        uvcci_nccl_report(n, &m);
    }
    if (broken)
        failed(n, n->place.rank, code, first, true);
}

/* ---- letters ---- */

static void hear(uvcc_nccl *n, const uvcci_nccl_message *m) {
    char why[UVCC_NCCL_WHY_BYTES];
    n->moved = true;
    switch (m->kind) {
    case UVCCI_NCCL_START:
        memcpy(n->id, m->body, sizeof n->id);
        n->joining = true;
        break;
    case UVCCI_NCCL_GO:
        uvcci_nccl_go(n, m->id);
        break;
    case UVCCI_NCCL_FAIL:
        memcpy(why, m->body, sizeof why);
        why[sizeof why - 1] = '\0';
        failed(n, m->rank, m->code, why, m->broken != 0);
        break;
    case UVCCI_NCCL_END:
        n->ended = true;
        break;
    default:
        n->strange = "a message that this version does not know";
    }
}

static void post(uvcc_nccl *n, uint32_t to, const uvcci_nccl_message *m) {
    if (n->cfg.send(n->cfg.send_user, to, m, sizeof *m) != 0)
        n->strange = "a control message could not be sent";
}

void uvcci_nccl_tell(uvcc_nccl *n, uint32_t to, const uvcci_nccl_message *m) {
    if (to == n->place.rank)
        hear(n, m);
    else
        post(n, to, m);
}

void uvcci_nccl_report(uvcc_nccl *n, const uvcci_nccl_message *m) {
    if (n->place.rank == 0)
        uvcci_nccl_lead(n, 0, m);
    else
        post(n, 0, m);
}

static void open_letters(uvcc_nccl *n, uvcci_nccl_letter *l) {
    while (l != NULL) {
        uvcci_nccl_letter *next = l->next;
        if (n->place.rank == 0)
            uvcci_nccl_lead(n, l->from, &l->message);
        else if (l->from == 0)
            hear(n, &l->message);
        else
            n->strange = "a message from a worker that has none to send here";
        n->moved = true;
        uvcci_nccl_give(n, l, sizeof *l);
        l = next;
    }
}

/* ---- turns ---- */

static void greet(uvcc_nccl *n) {
    uvcci_nccl_message m = {.kind = UVCCI_NCCL_HELLO};
    uvcci_nccl_hello h = {.version = UVCCI_NCCL_VERSION,
                          .replicas = n->place.replicas,
                          .stages = n->place.stages,
                          .tp_ranks = n->place.tp_ranks};
    n->ops->name(n->device, h.device);
    memcpy(m.body, &h, sizeof h);
    n->begun_ns = uvcci_nccl_now();
    uvcci_nccl_report(n, &m);
}

/* Of one that is closed: BYE when it has no jobs, and the communicators go when all said so. */
static void come_to_an_end(uvcc_nccl *n) {
    const uvcci_nccl_message bye = {.kind = UVCCI_NCCL_BYE};
    if (n->waiting.first != NULL && !n->told)
        uvcci_nccl_give_up(n, 0, "a worker of the party is gone", false);
    if (!n->said_bye && uvcci_nccl_idle(n) && (n->in || n->giving_up)) {
        n->said_bye = n->moved = true;
        n->begun_ns = uvcci_nccl_now();
        uvcci_nccl_report(n, &bye);
    }
    if (n->ended && !n->closed) {
        n->closed = true;
        uvcci_nccl_lead_no_more(n);
        n->ops->close(n->device, !n->giving_up);
        (void)pthread_mutex_lock(&n->lock);
        n->over = true;
        (void)pthread_mutex_unlock(&n->lock);
        if (n->cfg.wake != NULL)
            n->cfg.wake(n->cfg.wake_user);
    }
}

/* Everything once; false: all is over. */
static bool turn(uvcc_nccl *n) {
    char why[UVCC_NCCL_WHY_BYTES];
    (void)pthread_mutex_lock(&n->lock);
    uvcci_nccl_letter *letters = n->letters;
    n->letters = NULL;
    n->last_letter = &n->letters;
    uvcci_nccl_work *came = n->inbox.first;
    uvcci_nccl_queue_init(&n->inbox);
    const bool closing = n->closing, freeing = n->freeing, fail = n->asked_to_fail && !n->told;
    const uint32_t code = n->fail_code;
    memcpy(why, n->why, sizeof why);
    n->called = false;
    (void)pthread_mutex_unlock(&n->lock);
    open_letters(n, letters);
    if (fail && !n->giving_up)
        uvcci_nccl_give_up(n, code, why, false);
    while (came != NULL) {
        uvcci_nccl_work *w = came;
        came = w->next;
        uvcci_nccl_accept(n, w);
    }
    uvcci_nccl_lead_on(n);
    if (!n->closed)
        uvcci_nccl_progress(n);
    if (n->strange != NULL && !n->told_broken)
        uvcci_nccl_give_up(n, 0, n->strange, true);
    uvcci_nccl_watch(n);
    if (closing)
        come_to_an_end(n);
    const uint64_t patience = n->broken ? uvcci_nccl_grace(n) : n->cfg.deadline_ns;
    return !freeing || !uvcci_nccl_idle(n) ||
           (!n->closed && uvcci_nccl_now() - n->begun_ns < patience);
}

/* Until the host or another worker has something, or it is time to look at the device again. */
static void rest(uvcc_nccl *n, uint32_t *still) {
    *still = n->moved ? 0 : *still + 1;
    n->moved = false;
    const bool on_device =
        n->beginning || n->running.first != NULL || (n->broken && !uvcci_nccl_idle(n));
    if (on_device && *still < SPINS) {
        (void)sched_yield();
        return;
    }
    if (*still == 0)
        return;
    const uint64_t until = uvcci_nccl_now() + (on_device              ? NAP_NS
                                               : n->joining && !n->in ? JOIN_NS
                                                                      : TICK_NS);
    const struct timespec t = {.tv_sec = (time_t)(until / NS_PER_S),
                               .tv_nsec = (long)(until % NS_PER_S)};
    (void)pthread_mutex_lock(&n->lock);
    const bool news = n->letters != NULL || n->inbox.first != NULL || n->called ||
                      (n->asked_to_fail && !n->told && !n->giving_up) ||
                      (n->closing && !n->said_bye && uvcci_nccl_idle(n) && n->in) ||
                      (n->freeing && n->closed);
    if (!news)
        (void)pthread_cond_timedwait(&n->news, &n->lock, &t);
    (void)pthread_mutex_unlock(&n->lock);
}

void *uvcci_nccl_run(void *nccl) {
    uvcc_nccl *n = nccl;
    uint32_t still = 0;
    greet(n);
    while (turn(n))
        rest(n, &still);
    uvcci_nccl_lead_no_more(n);
    if (!n->closed)
        n->ops->close(n->device, false);
    return NULL;
}
