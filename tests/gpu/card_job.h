/* SPDX-License-Identifier: Apache-2.0 */
/* card_job.h - jobs on a card, for tests: one job and its end, and a sum on the device whose
 * operands come from the test's own memory. */
#ifndef UVCC_TESTS_GPU_CARD_JOB_H
#define UVCC_TESTS_GPU_CARD_JOB_H

#include "card.h"

static inline int card_run(void *user, const uvcc_job *job, uvcc_completion *done) {
    uvcc_gpu *x = user;
    if (uvcc_gpu_submit(x, job) != 0)
        return -1;
    uvcc_gpu_wait_of(x, job->cookie);
    return uvcc_gpu_poll_of(x, job->cookie, done) == 1 ? 0 : -1;
}

static inline int card_status(uvcc_gpu *x, const uvcc_job *job) {
    uvcc_completion c;
    assert_int_equal(card_run(x, job, &c), 0);
    return c.status;
}

enum { ELEMS = 5000 };

/* Operands of a sum on the device, and where it is to be found. */
typedef struct sum_job {
    uvcc_allocator al;
    uint64_t *x, *y, *z, host[2][ELEMS];
    uvcc_copy_item up[2], down;
    uvcc_task task[3];
    uvcc_job job;
} sum_job;

static inline void sum_make(sum_job *s, uvcc_gpu *x, uint64_t cookie) {
    *s = (sum_job){.al = uvcc_gpu_allocator(x)};
    uint64_t **all[] = {&s->x, &s->y, &s->z};
    for (unsigned i = 0; i < 3; i++) {
        *all[i] = s->al.alloc(s->al.user, sizeof s->host[0], UVCC_MEM_TENSOR);
        assert_non_null(*all[i]);
    }
    for (unsigned i = 0; i < ELEMS; i++) {
        s->host[0][i] = cookie + i;
        s->host[1][i] = 7u * i;
    }
    s->up[0] = (uvcc_copy_item){(uint8_t *)s->x, (uint8_t *)s->host[0], sizeof s->host[0]};
    s->up[1] = (uvcc_copy_item){(uint8_t *)s->y, (uint8_t *)s->host[1], sizeof s->host[1]};
    s->down = (uvcc_copy_item){(uint8_t *)s->host[0], (uint8_t *)s->z, sizeof s->host[0]};
    s->task[0] = (uvcc_task){.kind = UVCC_TASK_COPY, .u.copy = {.items = s->up, .count = 2}};
    s->task[1] = (uvcc_task){.kind = UVCC_TASK_MAP,
                             .u.map = {.op = UVCC_MAP_ADD,
                                       .rows = 1,
                                       .cols = ELEMS,
                                       .x = {s->x, NULL},
                                       .y = {s->y, NULL},
                                       .out = {s->z, NULL}}};
    s->task[2] = (uvcc_task){.kind = UVCC_TASK_COPY, .u.copy = {.items = &s->down, .count = 1}};
    s->job = (uvcc_job){.id = 3 * cookie, .cookie = cookie, .tasks = s->task, .count = 3};
}

static inline void sum_free(sum_job *s) {
    s->al.free(s->al.user, s->x, sizeof s->host[0], UVCC_MEM_TENSOR);
    s->al.free(s->al.user, s->y, sizeof s->host[0], UVCC_MEM_TENSOR);
    s->al.free(s->al.user, s->z, sizeof s->host[0], UVCC_MEM_TENSOR);
}

#endif
