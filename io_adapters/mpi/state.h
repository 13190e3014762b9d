/* SPDX-License-Identifier: Apache-2.0 */
/* state.h - what the parts of uvcc_mpi share: calls of the host (mpi.c), the object's thread
 * (thread.c) with its messages (control.c), its operations (work.c) and its agreements (agree.c).
 *
 * What `lock` guards stands together; all else belongs to the thread alone. */
#ifndef UVCCI_MPI_STATE_H
#define UVCCI_MPI_STATE_H

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <uvcc/collective.h>
#include <uvcc/mpi.h>

#define UVCCI_MPI_BODY 16384u /* bytes of a control message's body */

/* ---- control messages: over one communicator, in order between any two ---- */

typedef enum uvcci_mpi_kind {
    UVCCI_MPI_TOKEN = 1,  /* leader of a group: it has begun `tag` */
    UVCCI_MPI_SENT = 2,   /* to a neighbouring stage: `tag` goes over the wire of its direction */
    UVCCI_MPI_FAIL = 3,   /* it has failed, and begins nothing any more; body: the reason */
    UVCCI_MPI_BYE = 4,    /* it is being freed, has no jobs, and begins nothing any more */
    UVCCI_MPI_PART = 5,   /* to rank 0: a piece of what it brings to an agreement */
    UVCCI_MPI_RESULT = 6, /* from rank 0: a piece of what came of it */
    UVCCI_MPI_END = 7,    /* its last message */
    UVCCI_MPI_NOTE = 8,   /* the host's; body: its bytes */
} uvcci_mpi_kind;

typedef struct uvcci_mpi_head {
    uint8_t kind;
    uint8_t group;          /* TOKEN */
    uint8_t ask;            /* PART, RESULT: uvcci_mpi_ask */
    uint32_t index;         /* SENT: MPI's tag of the message; FAIL: where it was */
    uint32_t code;          /* FAIL */
    uint64_t total, offset; /* PART, RESULT */
    uvcc_collective_tag tag;
} uvcci_mpi_head;

typedef struct uvcci_mpi_message {
    uvcci_mpi_head head;
    uint8_t body[UVCCI_MPI_BODY];
} uvcci_mpi_message;

/* A message on its way. */
typedef struct uvcci_mpi_out {
    struct uvcci_mpi_out *next;
    MPI_Request request;
    size_t bytes; /* of this record */
    bool piece;   /* of an agreement: the next one waits for it */
    uvcci_mpi_head head;
    uint8_t body[];
} uvcci_mpi_out;

/* A note of the host's, on its way out or in. */
typedef struct uvcci_mpi_note_record {
    struct uvcci_mpi_note_record *next;
    uint32_t rank; /* to; from */
    size_t len;
    uint8_t bytes[];
} uvcci_mpi_note_record;

typedef struct uvcci_mpi_notes {
    uvcci_mpi_note_record *first, **last;
} uvcci_mpi_notes;

/* ---- operations ---- */

typedef struct uvcci_mpi_work {
    struct uvcci_mpi_work *next;
    struct uvcci_mpi_work *all; /* host: the next of those that were not polled */
    const uvcc_task *task;      /* NULL: nobody's, after a failure */
    uvcc_completion done;
    MPI_Request request[2];
    uint64_t *scratch; /* of nobody's */
    size_t scratch_bytes;
    bool finished; /* guarded by the lock */
} uvcci_mpi_work;

typedef struct uvcci_mpi_queue {
    uvcci_mpi_work *first, **last;
} uvcci_mpi_queue;

/* An operation that another process has begun, and this one has not. */
typedef struct uvcci_mpi_begun {
    struct uvcci_mpi_begun *next;
    uvcc_collective_tag tag;
    uint32_t index;
} uvcci_mpi_begun;

typedef struct uvcci_mpi_begun_queue {
    uvcci_mpi_begun *first, **last;
} uvcci_mpi_begun_queue;

typedef struct uvcci_mpi_team {
    MPI_Comm comm;
    int rank, members;
    uvcc_collective_order *order;
    uvcci_mpi_begun_queue begun; /* tokens */
} uvcci_mpi_team;

/* From the neighbouring stage on one side, and to the one on the other. */
typedef struct uvcci_mpi_wire {
    MPI_Comm comm;               /* ranks are stages */
    uint32_t next;               /* MPI's tag of the next message */
    uvcci_mpi_begun_queue begun; /* on their way here */
} uvcci_mpi_wire;

/* ---- agreements ---- */

typedef enum uvcci_mpi_ask {
    UVCCI_MPI_BARRIER = 1,
    UVCCI_MPI_MAX = 2,
    UVCCI_MPI_COMMON = 3,
    UVCCI_MPI_GATHER = 4,
} uvcci_mpi_ask;

typedef struct uvcci_mpi_bytes {
    uint8_t *at;
    size_t len, have;
    uint8_t ask; /* 0: nothing came yet */
} uvcci_mpi_bytes;

/* ---- the object ---- */

typedef enum uvcci_mpi_call_state {
    UVCCI_MPI_NO_CALL = 0,
    UVCCI_MPI_CALLED = 1,
    UVCCI_MPI_ANSWERED = 2,
} uvcci_mpi_call_state;

struct uvcc_mpi {
    uvcc_mpi_config cfg;
    uint32_t rank, count, replica, stage, tp_rank;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t host, work; /* for the host: the thread is ready, a call is answered */

    /* the host's */
    uvcci_mpi_work *all;

    /* under the lock */
    uvcci_mpi_queue inbox, done;
    uint32_t pending;
    int ready; /* 1: not yet; 0 or an error of uvcc_mpi_new() */
    char refusal[128];
    bool closing;
    bool asked_to_fail, failed;
    uint32_t fail_code, fail_rank;
    char why[UVCC_MPI_WHY_BYTES];
    uvcci_mpi_notes notes_out;
    uvcc_mpi_reader reader; /* of notes */
    bool noting;            /* the hook is being called */
    uvcci_mpi_call_state call;
    uint8_t ask;
    uvcci_mpi_bytes given; /* the host's */
    int answer;
    uvcci_mpi_bytes result;    /* to the host */
    uvcci_mpi_bytes *gathered; /* [count], at rank 0, to the host */

    /* the thread's */
    bool initialised; /* MPI, by this object */
    MPI_Comm control;
    uvcci_mpi_message message; /* that comes next */
    MPI_Request incoming;
    uvcci_mpi_out *out;
    uvcci_mpi_team team[4]; /* uvcc_group */
    uvcci_mpi_wire wire[2]; /* uvcc_phase: UVCC_FWD, UVCC_BWD */
    uvcci_mpi_queue waiting, running;
    bool giving_up; /* as `failed` */
    bool left;      /* BYE or FAIL was sent */
    bool ended;     /* END was sent */
    bool *quiet;    /* [count]: it said BYE or FAIL */
    uint32_t quiet_count, end_count;
    bool moved; /* something happened in this turn */
    uvcci_mpi_notes notes_in;
    bool asking;
    size_t sent;            /* of an agreement's bytes */
    bool sent_all;          /* none is left to send */
    bool answering;         /* rank 0: all parts were there */
    uvcci_mpi_bytes reply;  /* at rank 0, to all; elsewhere what comes of it */
    uvcci_mpi_bytes *parts; /* [count], at rank 0 */
};

/* mpi.c */
void *uvcci_mpi_take(const uvcc_mpi *m, size_t bytes, uvcc_mem_class cls);
void uvcci_mpi_give(const uvcc_mpi *m, void *p, size_t bytes, uvcc_mem_class cls);
void uvcci_mpi_bytes_free(const uvcc_mpi *m, uvcci_mpi_bytes *b);
void uvcci_mpi_queue_init(uvcci_mpi_queue *q);
void uvcci_mpi_push(uvcci_mpi_queue *q, uvcci_mpi_work *w);
uvcci_mpi_work *uvcci_mpi_pop(uvcci_mpi_queue *q, uvcci_mpi_work **at);
/* A neighbour of this stage: 0 and its local rank, or UVCC_ERR_USAGE. */
int uvcci_mpi_neighbour(const uvcc_mpi *m, const uvcc_task *t, uint32_t *rank);
/* Local rank of a member of a group of this worker's. */
uint32_t uvcci_mpi_member(const uvcc_mpi *m, uvcc_group group, uint32_t index);

/* thread.c */
void *uvcci_mpi_run(void *mpi);
/* Fails, once: jobs that wait are done, everybody hears of it. */
void uvcci_mpi_give_up(uvcc_mpi *m, uint32_t rank, uint32_t code, const char *why);
/* Without this the processes cannot go on together: ends them all. */
void uvcci_mpi_abort(const uvcc_mpi *m, const char *why);
/* Memory without which they cannot go on: never NULL. */
void *uvcci_mpi_need(const uvcc_mpi *m, size_t bytes, uvcc_mem_class cls);
bool uvcci_mpi_all_quiet(const uvcc_mpi *m);

/* control.c */
void uvcci_mpi_send(uvcc_mpi *m, uint32_t to, const uvcci_mpi_head *head, const void *body,
                    size_t len);
void uvcci_mpi_send_all(uvcc_mpi *m, const uvcci_mpi_head *head, const void *body, size_t len);
/* Notes of the host's, out and in. */
void uvcci_mpi_carry_notes(uvcc_mpi *m);
void uvcci_mpi_drop_notes(uvcc_mpi *m);
void uvcci_mpi_listen(uvcc_mpi *m);
void uvcci_mpi_hear(uvcc_mpi *m);
void uvcci_mpi_flush(uvcc_mpi *m);
bool uvcci_mpi_pieces_out(const uvcc_mpi *m);

/* work.c */
/* A job that came from the host, and what others have begun. */
void uvcci_mpi_accept(uvcc_mpi *m, uvcci_mpi_work *w);
void uvcci_mpi_token(uvcc_mpi *m, const uvcci_mpi_head *head);
void uvcci_mpi_sent(uvcc_mpi *m, const uvcci_mpi_head *head);
/* Somebody left: what waits for it waits in vain. */
void uvcci_mpi_someone_left(uvcc_mpi *m);
/* Begins what can begin, and finishes what is finished. */
void uvcci_mpi_progress(uvcc_mpi *m);
/* After a failure, when nobody looks at values any more: takes part in what others have begun. */
void uvcci_mpi_follow(uvcc_mpi *m);
/* Others have begun what this process has not. */
bool uvcci_mpi_behind(const uvcc_mpi *m);
/* Nothing waits, runs, or is on its way. */
bool uvcci_mpi_idle(const uvcc_mpi *m);

/* agree.c */
void uvcci_mpi_agree(uvcc_mpi *m);
void uvcci_mpi_part(uvcc_mpi *m, uint32_t from, const uvcci_mpi_message *msg, size_t len);
void uvcci_mpi_result(uvcc_mpi *m, const uvcci_mpi_message *msg, size_t len);

#endif
