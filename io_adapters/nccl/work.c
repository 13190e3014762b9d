/* SPDX-License-Identifier: Apache-2.0 */
/* work.c - jobs: announced to worker 0 when they come, put on the device in the order of its GOs,
 * finished when the device has. */
#include <string.h>

#include "io_adapters/nccl/state.h"

#define ERRORS_NS 1000000u     /* between looks at errors that come by themselves */
#define GRACE_NS  10000000000u /* for a device that was told to stop, and for worker 0's answer */

bool uvcci_nccl_idle(const uvcc_nccl *n) {
    return n->waiting.first == NULL && n->going.first == NULL && n->running.first == NULL;
}

static void finish(uvcc_nccl *n, uvcci_nccl_work *w, int status) {
    w->done.status = status;
    (void)pthread_mutex_lock(&n->lock);
    w->finished = true;
    uvcci_nccl_push(&n->done, w);
    (void)pthread_mutex_unlock(&n->lock);
    n->moved = true;
    if (n->cfg.wake != NULL)
        n->cfg.wake(n->cfg.wake_user);
}

void uvcci_nccl_drop_waiting(uvcc_nccl *n) {
    while (n->waiting.first != NULL)
        finish(n, uvcci_nccl_pop(&n->waiting, &n->waiting.first), UVCC_ERR_JOB);
}

/* ---- from the host, and from worker 0 ---- */

void uvcci_nccl_accept(uvcc_nccl *n, uvcci_nccl_work *w) {
    uvcci_nccl_message m = {.kind = UVCCI_NCCL_READY, .id = w->id};
    n->moved = true;
    if (n->giving_up) {
        finish(n, w, UVCC_ERR_JOB);
        return;
    }
    m.tag = uvcc_collective_tag_of(w->task);
    m.group = w->task->u.collective.group;
    uvcci_nccl_push(&n->waiting, w);
    uvcci_nccl_report(n, &m);
}

void uvcci_nccl_go(uvcc_nccl *n, uint64_t id) {
    uvcci_nccl_work **at = &n->waiting.first;
    while (*at != NULL && (*at)->id != id)
        at = &(*at)->next;
    if (*at == NULL) {
        if (!n->giving_up)
            n->strange = "a job that is not here was to begin";
        return;
    }
    uvcci_nccl_work *w = uvcci_nccl_pop(&n->waiting, at);
    w->since_ns = uvcci_nccl_now();
    uvcci_nccl_push(&n->going, w);
}

/* ---- on the device ---- */

static void report_begun(uvcc_nccl *n) {
    const uvcci_nccl_message m = {.kind = UVCCI_NCCL_BEGUN};
    uvcci_nccl_report(n, &m);
}

static void join(uvcc_nccl *n) {
    if (n->giving_up) { /* others may not come any more; what was to begin never will */
        uvcci_nccl_give_up(n, 0, "a worker of the party is gone", true);
        return;
    }
    const int rc = n->ops->join(n->device, n->id);
    if (rc < 0)
        uvcci_nccl_give_up(n, 0, n->ops->trouble(n->device), true);
    if (rc != 1)
        return;
    n->in = n->moved = true;
    (void)pthread_mutex_lock(&n->lock);
    n->joined = true;
    (void)pthread_mutex_unlock(&n->lock);
    if (n->cfg.wake != NULL)
        n->cfg.wake(n->cfg.wake_user);
    report_begun(n);
}

static uvcci_nccl_op describe(const uvcc_nccl *n, const uvcc_task *t) {
    const uvcc_collective_tag tag = uvcc_collective_tag_of(t);
    uvcci_nccl_op op = {.op = tag.op,
                        .group = t->u.collective.group,
                        .elems = tag.elems,
                        .in = t->u.collective.in,
                        .out = t->u.collective.out};
    if (uvcci_nccl_is_pair(&tag))
        (void)uvcci_nccl_neighbour(&n->place, n->place.rank, &tag, &op.peer);
    if (tag.additive)
        op.in.hi = op.out.hi = NULL;
    return op;
}

static void begin(uvcc_nccl *n) {
    while (n->going.first != NULL && !n->broken) {
        uvcci_nccl_work *w = n->going.first;
        int rc = 1;
        if (!n->beginning) {
            const uvcci_nccl_op op = describe(n, w->task);
            rc = n->ops->begin(n->device, &op);
            n->beginning = true;
        }
        if (rc >= 0)
            rc = n->ops->begun(n->device, &w->mark);
        if (rc < 0)
            uvcci_nccl_give_up(n, 0, n->ops->trouble(n->device), true);
        if (rc != 1)
            return;
        n->beginning = false;
        n->moved = true;
        uvcci_nccl_push(&n->running, uvcci_nccl_pop(&n->going, &n->going.first));
        report_begun(n);
    }
}

/* They end in the order in which they began. */
static void end_running(uvcc_nccl *n) {
    while (n->running.first != NULL && !n->broken) {
        const int rc = n->ops->over(n->device, n->running.first->mark);
        if (rc < 0)
            uvcci_nccl_give_up(n, 0, n->ops->trouble(n->device), true);
        if (rc != 1)
            return;
        finish(n, uvcci_nccl_pop(&n->running, &n->running.first), 0);
    }
}

/* A device that does not even stop is left to the process's end. */
static void end_broken(uvcc_nccl *n) {
    if (uvcci_nccl_idle(n) ||
        (n->ops->stopped(n->device) == 0 && uvcci_nccl_now() - n->broken_ns < uvcci_nccl_grace(n)))
        return;
    n->beginning = false;
    while (n->running.first != NULL) {
        n->ops->drop_mark(n->device, n->running.first->mark);
        finish(n, uvcci_nccl_pop(&n->running, &n->running.first), UVCC_ERR_JOB);
    }
    while (n->going.first != NULL)
        finish(n, uvcci_nccl_pop(&n->going, &n->going.first), UVCC_ERR_JOB);
}

void uvcci_nccl_progress(uvcc_nccl *n) {
    if ((n->joining || n->giving_up) && !n->in && !n->broken)
        join(n);
    if (n->in && !n->broken) {
        begin(n);
        end_running(n);
    }
    if (n->broken)
        end_broken(n);
}

/* ---- time ---- */

uint64_t uvcci_nccl_grace(const uvcc_nccl *n) {
    return n->cfg.deadline_ns < GRACE_NS ? n->cfg.deadline_ns : GRACE_NS;
}

/* Worker 0 does not answer: what was reported is this worker's own end. */
static void unanswered(uvcc_nccl *n) {
    char why[UVCC_NCCL_WHY_BYTES];
    (void)pthread_mutex_lock(&n->lock);
    const uint32_t code = n->fail_code;
    memcpy(why, n->why, sizeof why);
    (void)pthread_mutex_unlock(&n->lock);
    uvcci_nccl_give_up(n, code, *why != '\0' ? why : "worker 0 does not answer", true);
}

void uvcci_nccl_watch(uvcc_nccl *n) {
    const uint64_t now = uvcci_nccl_now(), limit = n->cfg.deadline_ns;
    const uvcci_nccl_work *w = n->running.first != NULL ? n->running.first : n->going.first;
    if (n->broken || n->closed)
        return;
    if (n->told && !n->giving_up && now - n->told_ns > uvcci_nccl_grace(n)) {
        unanswered(n);
    } else if (!n->in && !n->giving_up && now - n->begun_ns > limit) {
        uvcci_nccl_give_up(n, 0, "the workers of the party did not join each other in time", true);
    } else if (w != NULL && now - w->since_ns > limit) {
        uvcci_nccl_give_up(n, 0, "an operation missed its deadline", true);
    } else if (n->leader.to_begin != 0 && now - n->leader.since_ns > limit) {
        uvcci_nccl_give_up(n, 0, "a worker did not begin an operation in time", true);
    } else if (n->waiting.first != NULL && n->cfg.wait_ns != 0 && !n->told &&
               now - n->waiting.first->since_ns > n->cfg.wait_ns) {
        uvcci_nccl_give_up(n, 0, "a job waited for other workers for too long", false);
    } else if (w != NULL && now - n->looked_ns > ERRORS_NS) {
        n->looked_ns = now;
        if (n->ops->check(n->device) != 0)
            uvcci_nccl_give_up(n, 0, n->ops->trouble(n->device), true);
    }
}
