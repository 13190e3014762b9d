/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.c - see jobs.h. An id is generation << 32 | slot. */
#include "exec/runtime/jobs.h"
#include "proto/mutant.h"

#include <assert.h>
#include <string.h>

int uvcci_jobs_init(uvcci_jobs *j, const uvcc_allocator *al, uint32_t limit, uint32_t local,
                    uint64_t cookie) {
    const uint32_t cap = limit + local;
    assert(limit != 0 && cap >= limit);
    memset(j, 0, sizeof *j);
    j->slots = al->alloc(al->user, cap * sizeof j->slots[0], UVCC_MEM_STATE);
    if (j->slots == NULL)
        return UVCC_ERR_NOMEM;
    memset(j->slots, 0, cap * sizeof j->slots[0]);
    j->cap = cap;
    j->limit = limit;
    j->cookie = cookie;
    for (uint32_t i = 0; i < cap; i++)
        j->slots[i].next = i + 1 < cap ? i + 2 : 0;
    j->free_head = 1;
    return 0;
}

void uvcci_jobs_free(uvcci_jobs *j, const uvcc_allocator *al) {
    if (j->slots != NULL)
        al->free(al->user, j->slots, j->cap * sizeof j->slots[0], UVCC_MEM_STATE);
    memset(j, 0, sizeof *j);
}

bool uvcci_jobs_full(const uvcci_jobs *j) {
    return j->used == j->limit;
}

static void release(uvcci_jobs *j, uvcci_job_slot *s) {
    assert(s->state != 0);
    s->state = 0;
    s->generation++;
    j->used -= s->job.plane == UVCC_PLANE_COMPUTE;
    s->next = j->free_head;
    j->free_head = (uint32_t)(s - j->slots) + 1;
}

/* Behind all that are of its rank or less. Most jobs come in order, so the tail is tried first. */
static void enqueue(uvcci_jobs *j, uint32_t i) {
    uint32_t *at = &j->queue_head;
    if (j->queue_tail != 0 && j->slots[j->queue_tail - 1].job.rank <= j->slots[i].job.rank)
        at = &j->slots[j->queue_tail - 1].next;
    while (*at != 0 && j->slots[*at - 1].job.rank <= j->slots[i].job.rank)
        at = &j->slots[*at - 1].next;
    j->slots[i].next = *at;
    *at = i + 1;
    if (j->slots[i].next == 0)
        j->queue_tail = i + 1;
    j->queued++;
}

void uvcci_jobs_push(uvcci_jobs *j, const uvcc_task *tasks, uint32_t count, uvcci_job_owner owner,
                     uint64_t rank, void *who) {
    assert(j->free_head != 0 && tasks != NULL && count != 0);
    uint32_t i = j->free_head - 1;
    uvcci_job_slot *s = &j->slots[i];
    j->free_head = s->next;
    s->job = (uvcc_job){.id = (uint64_t)s->generation << 32 | i,
                        .cookie = j->cookie,
                        .tasks = tasks,
                        .count = count,
                        .rank = rank,
                        .plane = tasks[0].kind == UVCC_TASK_COLLECTIVE ? UVCC_PLANE_LOCAL
                                                                       : UVCC_PLANE_COMPUTE};
    j->used += s->job.plane == UVCC_PLANE_COMPUTE;
    assert(s->state == 0 && j->used <= j->limit);
    s->state = 1;
    s->owner = (uint8_t)owner;
    s->who = who;
    enqueue(j, i);
}

int uvcci_jobs_poll(uvcci_jobs *j, const uvcc_job **out, uvcci_job_owner *owner, void **who) {
    if (j->queue_head == 0)
        return 0;
    uvcci_job_slot *s = &j->slots[j->queue_head - 1];
    assert(s->state == 1 && j->queued != 0);
    j->queue_head = s->next;
    if (j->queue_head == 0)
        j->queue_tail = 0;
    s->state = 2;
    j->queued--;
    j->out++;
    j->handed++;
    *out = &s->job;
    *owner = (uvcci_job_owner)s->owner;
    *who = s->who;
    return 1;
}

void *uvcci_jobs_owner(const uvcci_jobs *j, uint64_t id, uvcci_job_owner owner) {
    const uint32_t i = (uint32_t)id;
    if (i >= j->cap || j->slots[i].state != 2 || j->slots[i].job.id != id ||
        j->slots[i].owner != owner)
        return NULL;
    return j->slots[i].who;
}

int uvcci_jobs_take(uvcci_jobs *j, const uvcc_completion *c, uvcci_job_owner *owner, void **who) {
    uint32_t i = (uint32_t)c->id;
    if (i >= j->cap || j->slots[i].state != 2 ||
        (j->slots[i].job.id != c->id && !UVCCI_MUTANT(3))) {
        j->stale++;
        return 0;
    }
    *owner = (uvcci_job_owner)j->slots[i].owner;
    *who = j->slots[i].who;
    assert(j->out != 0);
    j->out--;
    release(j, &j->slots[i]);
    return 1;
}

void uvcci_jobs_cancel_queued(uvcci_jobs *j) {
    while (j->queue_head != 0) {
        uvcci_job_slot *s = &j->slots[j->queue_head - 1];
        j->queue_head = s->next;
        j->queued--;
        release(j, s);
    }
    j->queue_tail = 0;
    assert(j->queued == 0);
}
