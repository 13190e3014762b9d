/* SPDX-License-Identifier: Apache-2.0 */
/* store_job.h - a small job whose parties keep what they have in stores: w = w + x in each step,
 * opened to all; with `beaver` x w on a triple too. Its hosts do nothing about restarts but what
 * <uvcc/store.h> shows. */
#ifndef UVCC_TEST_STORE_JOB_H
#define UVCC_TEST_STORE_JOB_H

#include "support.h"

#include <uvcc/loopback.h>
#include <uvcc/store.h>
#include <uvcc/uvcc.h>

enum { JOB_ELEMS = 8, JOB_IN = 1, JOB_OUT = 2, JOB_PRODUCT = 3 };

typedef struct job_options {
    const char *dir; /* party P's store is in DIR/party-P */
    uint32_t steps, every, first, behind;
    bool must_resume, set_aside;
    bool beaver, make; /* make: the triples of these steps, and nothing else */
    bool leave_triples;
    const char *policy;
    uvcc_logger log;
    void (*tweak)(uvcc_config *cfg);
    /* Instead of uvcc_store_offer(). */
    int (*offer)(void *user, uvcc_store *st, uvcc_session *s, const uvcc_config *cfg);
    /* Every event, after the store had it. */
    void (*on_event)(void *user, unsigned party, const uvcc_event *e);
    void *user;
} job_options;

typedef struct job_host {
    const job_options *opt;
    uint8_t party;
    uvcc_program *program;
    uvcc_store *store;
    uvcc_config cfg;
    uvcc_session *session;
    uvcc_cpu *cpu;
    uint32_t run, at;  /* at: the step that this host agrees to next */
    uint32_t finished; /* the first step that is not finished */
    uint32_t begun_at; /* READY's step */
    bool ready, closing, closed, aborted, restarted, given;
    unsigned set;          /* how often it had to set the tensors */
    int event_rc, step_rc; /* the last error of the store */
    int open_rc;
    char why[UVCC_STORE_TEXT_BYTES];
} job_host;

/* What w is before a step. */
int64_t job_value(uint32_t step, uint32_t i);

/* Up to uvcc_store_offer(), whose answer or that of what failed before it comes back, with its text
 * in why; the session is not started. */
int job_open(job_host *h, const job_options *opt, uint8_t party);
/* The same with another session on the store that is open. */
int job_again(job_host *h);
/* All events, then the next step and its input as far as they may be. */
void job_turn(job_host *h, uint64_t now);
void job_free(job_host *h);

/* All three over a loopback network; READY comes in job_drive(). */
typedef struct job {
    job_host host[UVCC_PARTIES];
    uvcc_loopback *net;
} job;
void job_start(job *j, const job_options *opt);
/* Until all have finished `steps` (and have said so), or nothing can happen any more: false. */
bool job_drive(job *j, uint32_t steps);
/* Until all have ended. */
bool job_close(job *j);
/* As processes end that are killed: without a word. */
void job_kill(job *j);

#endif
