/* SPDX-License-Identifier: Apache-2.0 */
/* state.h - what the parts of uvcc_nccl share: calls of the host (nccl.c), the object's thread
 * (thread.c) with its messages and operations (work.c), what worker 0 does for all (leader.c), and
 * the turn that workers 0 of one process take (turn.c).
 *
 * What `lock` guards stands together; all else belongs to the thread alone, but for `wish`. */
#ifndef UVCCI_NCCL_STATE_H
#define UVCCI_NCCL_STATE_H

#include <pthread.h>
#include <uvcc/collective.h>
#include <uvcc/nccl.h>

#include "io_adapters/nccl/back_end.h"

/* ---- messages: between worker 0 and each of the others ---- */

#define UVCCI_NCCL_VERSION 2u /* of them */

typedef enum uvcci_nccl_kind {
    UVCCI_NCCL_HELLO = 1, /* to 0: numbers and the device's name */
    UVCCI_NCCL_START = 2, /* from 0: join by this id */
    UVCCI_NCCL_READY = 3, /* to 0: job `id` is submitted here */
    UVCCI_NCCL_GO = 4,    /* from 0: job `id` begins, after those of earlier messages */
    UVCCI_NCCL_FAIL = 5,  /* to 0: this worker fails; from 0: all do, nothing more begins */
    UVCCI_NCCL_BYE = 6,   /* to 0: this worker closes and has no jobs */
    UVCCI_NCCL_END = 7,   /* from 0: all have; its last message */
    UVCCI_NCCL_BEGUN = 8, /* to 0: what START or a GO said is done, or on the device's stream */
} uvcci_nccl_kind;

typedef struct uvcci_nccl_message {
    uint8_t kind;
    uint8_t group;  /* READY */
    uint8_t broken; /* FAIL: what has begun will not end by itself */
    uint8_t unused[5];
    uint32_t rank, code; /* FAIL: where it was, the host's code */
    uint64_t id;         /* READY, GO: the worker's own number of the job */
    uvcc_collective_tag tag;
    uint8_t body[UVCC_NCCL_WHY_BYTES]; /* HELLO: a greeting; START: the id; FAIL: the reason */
} uvcci_nccl_message;

typedef struct uvcci_nccl_hello {
    uint16_t version, replicas, stages, tp_ranks;
    uint8_t device[UVCCI_NCCL_NAME_BYTES];
} uvcci_nccl_hello;

/* One that came. */
typedef struct uvcci_nccl_letter {
    struct uvcci_nccl_letter *next;
    uint32_t from;
    uvcci_nccl_message message;
} uvcci_nccl_letter;

/* ---- jobs ---- */

typedef struct uvcci_nccl_work {
    struct uvcci_nccl_work *next;
    struct uvcci_nccl_work *all; /* the next of those that were not polled */
    const uvcc_task *task;
    uvcc_completion done;
    uint64_t id;
    uint64_t since_ns; /* when it was submitted; when it was to begin */
    void *mark;        /* the back end's, of one on its way */
    bool finished;     /* guarded by the lock */
} uvcci_nccl_work;

typedef struct uvcci_nccl_queue {
    uvcci_nccl_work *first, **last;
} uvcci_nccl_queue;

/* ---- worker 0's: operations that were not told to begin ---- */

typedef struct uvcci_nccl_meeting {
    struct uvcci_nccl_meeting *next;
    uvcc_collective_tag tag; /* of who came first */
    uint8_t group;
    bool pair;      /* a SEND with its RECV */
    uint32_t first; /* local rank of the first member; of the sender */
    uint32_t size, here;
    struct {
        bool here;
        uint64_t id;
    } member[];
} uvcci_nccl_meeting;

typedef struct uvcci_nccl_leader {
    uvcci_nccl_meeting *meetings;        /* not all members are ready */
    uvcci_nccl_meeting *due, **last_due; /* all are, in this order */
    uvcci_nccl_hello *hello;             /* [count] */
    bool *greeted, *left;                /* [count]; left: it said BYE */
    uint32_t hello_count, left_count;
    bool failed, broken; /* FAIL was sent; and one that says so of devices */
    bool all_here;       /* START is due or was sent; */
    bool started;        /* it was sent; */
    bool all_in;         /* and all have joined */
    bool asked, holds;   /* it stands in line for the turn or has it; it has it */
    uint32_t to_begin;   /* BEGUNs that are to come */
    uint64_t since_ns;   /* when the last START, GO or BEGUN was */
} uvcci_nccl_leader;

/* ---- the turn ---- */

/* Guarded by the lock of turn.c. */
typedef struct uvcci_nccl_wish {
    struct uvcci_nccl_wish *behind; /* the next in line */
    struct uvcc_nccl *of;           /* a worker 0; NULL: of the host */
} uvcci_nccl_wish;

/* ---- the object ---- */

struct uvcc_nccl {
    uvcc_nccl_config cfg;
    const uvcci_nccl_back_end *ops;
    void *device; /* the back end's state */
    uvcci_nccl_place place;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t news; /* for the thread */

    /* under the lock */
    uvcci_nccl_work *all;
    uvcci_nccl_queue inbox, done;
    uvcci_nccl_letter *letters, **last_letter;
    uint32_t pending;
    uint64_t next_id;
    bool closing, freeing;
    bool asked_to_fail, failed, joined, over;
    bool called; /* it was given the turn */
    uint32_t fail_code, fail_rank;
    char why[UVCC_NCCL_WHY_BYTES];

    uvcci_nccl_wish wish; /* for the turn */

    /* the thread's */
    uvcci_nccl_leader leader;
    uvcci_nccl_queue waiting, going, running; /* not told to begin; told; on their way */
    bool beginning;                           /* the first of `going` is being put on its way */
    bool joining, in;                         /* told to join; has joined */
    uint8_t id[UVCCI_NCCL_ID_BYTES];
    bool giving_up;         /* as `failed` */
    bool broken;            /* the device was told to stop */
    bool told, told_broken; /* FAIL was sent to worker 0; and one that says so of the device */
    bool said_bye, ended, closed;
    bool moved;          /* something happened in this turn */
    const char *strange; /* what came to light where nothing can be done about it */
    uint64_t begun_ns;   /* when the object, then its wait for the end, began */
    uint64_t told_ns, broken_ns;
    uint64_t looked_ns; /* when errors were looked for */
};

/* nccl.c */
int uvcci_nccl_new(uvcc_nccl **out, const uvcc_nccl_config *cfg, const uvcci_nccl_back_end *ops);
void *uvcci_nccl_take(const uvcc_nccl *n, size_t bytes);
void uvcci_nccl_give(const uvcc_nccl *n, void *p, size_t bytes);
void uvcci_nccl_queue_init(uvcci_nccl_queue *q);
void uvcci_nccl_push(uvcci_nccl_queue *q, uvcci_nccl_work *w);
uvcci_nccl_work *uvcci_nccl_pop(uvcci_nccl_queue *q, uvcci_nccl_work **at);
/* How many members the groups of a kind have, and the local rank of one in that of worker `rank`.
 */
uint32_t uvcci_nccl_group_size(const uvcci_nccl_place *p, uint8_t group);
uint32_t uvcci_nccl_member(const uvcci_nccl_place *p, uint32_t rank, uint8_t group, uint32_t index);
/* The other end of a SEND or RECV of worker `rank`: 0, or UVCC_ERR_USAGE if there is none. */
int uvcci_nccl_neighbour(const uvcci_nccl_place *p, uint32_t rank, const uvcc_collective_tag *tag,
                         uint32_t *other);
bool uvcci_nccl_is_pair(const uvcc_collective_tag *tag);

/* thread.c */
void *uvcci_nccl_run(void *nccl);
uint64_t uvcci_nccl_now(void);
/* From worker 0 to a worker, itself too; from a worker to worker 0. */
void uvcci_nccl_tell(uvcc_nccl *n, uint32_t to, const uvcci_nccl_message *m);
void uvcci_nccl_report(uvcc_nccl *n, const uvcci_nccl_message *m);
/* This worker fails: worker 0 hears of it and tells all. broken: what is on devices will not end by
 * itself, and this one's is told to stop. */
void uvcci_nccl_give_up(uvcc_nccl *n, uint32_t code, const char *why, bool broken);

/* work.c */
/* A job that came from the host. */
void uvcci_nccl_accept(uvcc_nccl *n, uvcci_nccl_work *w);
/* Worker 0 says that a job begins. */
void uvcci_nccl_go(uvcc_nccl *n, uint64_t id);
/* After a failure no job that waits will begin. */
void uvcci_nccl_drop_waiting(uvcc_nccl *n);
/* Joins, begins what may, finishes what is over. */
void uvcci_nccl_progress(uvcc_nccl *n);
/* How long it is waited for a device that was told to stop, and for worker 0's answers then. */
uint64_t uvcci_nccl_grace(const uvcc_nccl *n);
/* Fails when something takes too long. */
void uvcci_nccl_watch(uvcc_nccl *n);
bool uvcci_nccl_idle(const uvcc_nccl *n);

/* leader.c: worker 0 */
int uvcci_nccl_leader_init(uvcc_nccl *n);
void uvcci_nccl_leader_free(uvcc_nccl *n);
void uvcci_nccl_lead(uvcc_nccl *n, uint32_t from, const uvcci_nccl_message *m);
/* Tells what is due to begin, when it is this party's turn; passes the turn on. */
void uvcci_nccl_lead_on(uvcc_nccl *n);
/* Of a worker 0 that fails or ends: it gives the turn up, and leaves the line. */
void uvcci_nccl_lead_no_more(uvcc_nccl *n);

/* turn.c: of all workers 0 of the process, and of the host */
/* True: this one has the turn; else it stands in line, and is called when the turn comes. */
bool uvcci_nccl_turn_take(uvcci_nccl_wish *w);
/* Whether somebody stands in line. */
bool uvcci_nccl_turn_wanted(void);
/* Who has the turn gives it to the first in line; who stands in line leaves it. */
void uvcci_nccl_turn_give(uvcci_nccl_wish *w);

#endif
