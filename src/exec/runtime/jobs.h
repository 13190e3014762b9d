/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.h - the table of compute jobs of a session: slots with generations, a queue by rank of those
 * to hand out, exactly one terminal completion each. A completion with another generation is stale.
 */
#ifndef UVCCI_JOBS_H
#define UVCCI_JOBS_H

#include "exec/base/arena.h"
#include <uvcc/compute.h>

typedef enum uvcci_job_owner {
    UVCCI_JOB_OP = 1,   /* a turn of an op */
    UVCCI_JOB_DEAL = 2, /* keys of an op */
    UVCCI_JOB_RX = 3,   /* the hash of a received message */
    UVCCI_JOB_SET = 4,  /* a host's value into PERSIST tensors */
    UVCCI_JOB_CHECKPOINT = 5,
    UVCCI_JOB_ROOT = 6,   /* a slice of a large transcript's tree */
    UVCCI_JOB_CANCEL = 7, /* what a step overwrites, saved or put back */
    UVCCI_JOB_GATHER = 8, /* keys of an op, ahead of its turns */
} uvcci_job_owner;

typedef struct uvcci_job_slot {
    uvcc_job job;
    uint8_t state; /* 0 free, 1 queued, 2 out */
    uint8_t owner; /* uvcci_job_owner */
    uint32_t generation;
    uint32_t next; /* in the queue or the free list; index + 1 */
    void *who;
} uvcci_job_slot;

typedef struct uvcci_jobs {
    uvcci_job_slot *slots;
    uint32_t cap, free_head, queue_head, queue_tail, out, queued;
    uint32_t limit, used; /* slots for the compute plane, and those that it uses */
    uint64_t cookie, handed, stale;
} uvcci_jobs;

/* cap jobs of the compute plane, and `local` more of the local plane: those wait for other workers
 * and must not keep this one from computing. */
int uvcci_jobs_init(uvcci_jobs *j, const uvcc_allocator *al, uint32_t cap, uint32_t local,
                    uint64_t cookie);
void uvcci_jobs_free(uvcci_jobs *j, const uvcc_allocator *al);
/* No room for one more job of the compute plane. */
bool uvcci_jobs_full(const uvcci_jobs *j);
/* The tasks stay the owner's and must outlive the job; a collective's is of the local plane. The
 * table must not be full. */
void uvcci_jobs_push(uvcci_jobs *j, const uvcc_task *tasks, uint32_t count, uvcci_job_owner owner,
                     uint64_t rank, void *who);
/* 1 and the job of least rank with its owner, or 0. Jobs of one rank come in the order of pushes.
 */
int uvcci_jobs_poll(uvcci_jobs *j, const uvcc_job **out, uvcci_job_owner *owner, void **who);
/* Who owns a job that is out; NULL: it is not, or has another owner. */
void *uvcci_jobs_owner(const uvcci_jobs *j, uint64_t id, uvcci_job_owner owner);
/* Takes a completion: 1 with its owner, 0 if it is stale. */
int uvcci_jobs_take(uvcci_jobs *j, const uvcc_completion *c, uvcci_job_owner *owner, void **who);
/* Drops the jobs that were not handed out yet. */
void uvcci_jobs_cancel_queued(uvcci_jobs *j);

#endif
