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

/* "rR-sS-tT.step-N". */
void uvcci_store_name(const uvcci_worker *w, uint32_t step, char out[UVCCI_NAME_BYTES]);
/* A worker and a step by such a name. */
bool uvcci_store_parse(const char *name, uvcci_worker *w, uint32_t *step);
/* Calls `each` for every checkpoint's name; what it returns other than 0 ends it. */
int uvcci_store_scan(uvcc_store *st, int (*each)(void *user, const uvcci_worker *at, uint32_t step),
                     void *user);

/* Of marks.c: "N\n" in a file. *any: there is one. */
int uvcci_number_read(uvcc_store *st, const char *name, const char *advice, bool *any,
                      uint32_t *out);
int uvcci_number_write(uvcc_store *st, const char *name, uint32_t v);
/* Of marks.c: what a policy counted. `kept`: there are checkpoints of the worker. */
int uvcci_counts_read(uvcc_store *st, uvcci_worker *w, bool kept, const uvcc_config *cfg);
/* Asks the session, and writes them if they have changed. */
int uvcci_counts_keep(uvcc_store *st, uvcci_worker *w);

#define UVCCI_RUN_FILE     "run"
#define UVCCI_KEY_FILE     "key"
#define UVCCI_LOCK_FILE    "lock"
#define UVCCI_REFUSED_FILE "sks-refused"
#define UVCCI_USED         ".used" /* after a worker's name */

#endif
