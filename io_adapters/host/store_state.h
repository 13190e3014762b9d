/* SPDX-License-Identifier: Apache-2.0 */
/* store_state.h - what a store knows: the directory that it has locked, its key, and of each worker
 * what is kept and what its session still waits for. */
#ifndef UVCC_IO_HOST_STORE_STATE_H
#define UVCC_IO_HOST_STORE_STATE_H

#include "fs.h"

#include <uvcc/policy.h>
#include <uvcc/store.h>

#define UVCCI_RUN_LAST   ((1u << 24) - 1) /* wire.md 5 */
#define UVCCI_NAME_BYTES 128u

/* A checkpoint that has its name. */
typedef struct uvcci_kept {
    uint32_t step, run;
    uint8_t lineage[32];
    bool read; /* run and lineage are known */
    bool ours; /* of the history that the session goes on with */
    bool bad;
} uvcci_kept;

/* Triples of one maker. */
typedef struct uvcci_triple_set {
    uint32_t run;  /* its run */
    uint32_t next; /* those of steps below are used */
    bool marked;   /* `next` is known */
    bool copied;   /* the mark is from before the store's last run: put back from a copy */
} uvcci_triple_set;

typedef struct uvcci_worker {
    struct uvcci_worker *next;
    uint16_t replica, stage, tp_rank;
    bool configured;
    uint32_t run; /* that it was configured with */
    uint32_t every, next_step;
    /* The session that was offered last, and where it stands. */
    uvcc_session *session;
    bool ready, anew;
    uint32_t first;             /* READY's step */
    uint32_t over;              /* steps below are */
    uint8_t loaded_lineage[32]; /* of the newest checkpoint that it was given; zeros: none */
    uint32_t loaded_step;
    uint8_t lineage[32]; /* READY's */
    /* What has to be done before the next step is agreed to. */
    bool unresumed; /* tensors of `first` are to be set */
    bool unwritten; /* the last checkpoint is not on the disk */
    bool any_written;
    uint32_t written; /* the last that is, of this session */
    uvcci_kept *kept;
    uint32_t kept_count, kept_room;
    /* Triples: made by the session, and those that it takes. */
    bool maker, made_unwritten;
    uint32_t made; /* those of steps below are on the disk, of this session */
    uvcci_triple_set *sets;
    uint32_t set_count;
    bool any_given, given_marked; /* the session holds those of `given`, and they count as used */
    uint32_t given, given_run;
    /* The policy and its counts. */
    bool has_policy, uncounted;
    uint32_t limits;
    uint8_t policy_hash[32];
    uint64_t used[UVCC_POLICY_LIMITS_MAX];
} uvcci_worker;

struct uvcc_store {
    uvcc_store_config cfg;
    uvcci_dir dir;
    char *path; /* the directory's */
    size_t path_bytes;
    int lock;
    uint8_t *key;
    bool any_run, unwritten_run;
    uint32_t run;      /* the greatest that is on the disk */
    uint32_t seen_run; /* the greatest that was heard of */
    bool taken;        /* a run since the store was opened */
    uint32_t current;  /* that run */
    uvcci_worker *workers;
    char text[UVCC_STORE_TEXT_BYTES];
};

uvcci_says uvcci_store_says(uvcc_store *st);
void uvcci_store_warn(const uvcc_store *st, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A list in STATE memory, `count` of its `room` in use, with room for one more: it may have moved.
 * NULL: no memory, and it is as it was. */
void *uvcci_store_list_room(const uvcc_allocator *al, void *list, uint32_t count, uint32_t *room,
                            size_t size);

/* "rR-sS-tT.step-N". */
void uvcci_store_name(const uvcci_worker *w, uint32_t step, char out[UVCCI_NAME_BYTES]);
/* A worker and a step by such a name. */
bool uvcci_store_parse(const char *name, uvcci_worker *w, uint32_t *step);
/* Names: "rR-sS-tT", and where it ends; a number without leading zeros after `before`. NULL: it is
 * not there. */
const char *uvcci_store_parse_worker(const char *name, uvcci_worker *w);
const char *uvcci_number_after(const char *at, const char *before, uint64_t most, uint64_t *out);
/* Calls `each` for every name in the directory; what it returns other than 0 ends it. */
int uvcci_store_names(uvcc_store *st, int (*each)(void *user, const char *name), void *user);
/* Calls `each` for every checkpoint's name; what it returns other than 0 ends it. */
int uvcci_store_scan(uvcc_store *st, int (*each)(void *user, const uvcci_worker *at, uint32_t step),
                     void *user);

/* Of marks.c: "N\n" in a file, or "N N\n", count of them, at most UVCCI_NUMBERS_MAX. *any: there
 * are some. */
#define UVCCI_NUMBERS_MAX 2u
int uvcci_numbers_read(uvcc_store *st, const char *name, const char *advice, bool *any,
                       uint32_t *out, unsigned count);
int uvcci_numbers_write(uvcc_store *st, const char *name, const uint32_t *v, unsigned count);
/* Of marks.c: what a policy counted. `kept`: there are checkpoints of the worker. */
int uvcci_counts_read(uvcc_store *st, uvcci_worker *w, bool kept, const uvcc_config *cfg);
/* Asks the session, and writes them if they have changed. */
int uvcci_counts_keep(uvcc_store *st, uvcci_worker *w);

/* Of triples.c. Names: "rR-sS-tT.triples-RUN-STEP", and the mark "rR-sS-tT.triples-RUN.used". */
bool uvcci_triples_parse(const char *name, uvcci_worker *w, uint32_t *run, uint32_t *step);
bool uvcci_triples_parse_mark(const char *name, uvcci_worker *w, uint32_t *run);
/* What is there for the worker, whose session is new; what was used goes. */
int uvcci_triples_begin(uvcc_store *st, uvcci_worker *w);
void uvcci_triples_forget(uvcc_store *st, uvcci_worker *w);
/* Gives the session those of a step, if there are any, after they were marked as used. */
int uvcci_triples_give(uvcc_store *st, uvcci_worker *w, uint32_t step);
/* Before the store's run becomes `run`: every mark says so. */
int uvcci_triples_stamp(uvcc_store *st, uint32_t run);
/* Writes what the session made. */
int uvcci_triples_write(uvcc_store *st, uvcci_worker *w);

#define UVCCI_RUN_FILE     "run"
#define UVCCI_KEY_FILE     "key"
#define UVCCI_LOCK_FILE    "lock"
#define UVCCI_REFUSED_FILE "sks-refused"
#define UVCCI_USED         ".used" /* after a worker's name */

#endif
