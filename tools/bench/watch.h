/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - what one party's executor does: jobs by the op that they are of, their time, and the
 * AES calls of their keys. Hooks of a session and of its executor write it. */
#ifndef UVCC_TOOLS_BENCH_WATCH_H
#define UVCC_TOOLS_BENCH_WATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <uvcc/session.h>

typedef enum watch_family {
#define UVCC_FAMILY(NAME, name, what) FAMILY_##NAME,
#include "families.def"
#undef UVCC_FAMILY
    FAMILIES
} watch_family;
extern const char *const watch_family_names[FAMILIES];

enum { WATCH_SLOTS = 1024, WATCH_KINDS = UVCC_TASK_KIND_END };

typedef struct watch_time {
    double seconds; /* of jobs: of the processor, or of a device between launch and end */
    uint64_t jobs;
} watch_time;

typedef struct watch {
    const uint8_t *family; /* of the ops of entry 0 */
    bool device;           /* jobs end in another thread than they began in: by the wall's time */
    pthread_mutex_t lock;  /* of what follows: executors have threads */
    bool counts, times;    /* AES calls; jobs */
    double aes;
    watch_time families[FAMILIES], kinds[WATCH_KINDS]; /* kinds: by a job's first task */
    /* The wall's time where the first op of another family than FAMILY_OTHER began since jobs are
     * timed, and where the last was done; 0: there was none. */
    double first, last;
    struct {
        uint64_t id;
        uint8_t family;
        double from;
    } job[WATCH_SLOTS];
} watch;

void watch_begin(watch *w, const uint8_t *family, bool device);
void watch_end(watch *w);
/* Hooks of session and executor, whose user is the watch. */
void watch_op(void *user, const uvcc_op_trace *t);
void watch_job(void *user, const uvcc_job *job, bool done);
/* Whether AES calls are counted, and jobs that begin are timed, from now on. */
void watch_counts(watch *w, bool on);
void watch_times(watch *w, bool on);

/* The families of the ops of entry 0, as many as it has, and how many calls of each there are;
 * `norm`: that of the program's norms. NULL: out of memory. */
uint8_t *watch_families(const uvcc_program *p, watch_family norm, uint64_t calls[FAMILIES]);

#endif
