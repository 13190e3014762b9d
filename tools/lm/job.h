/* job.h - a whole job in one process: three parties of R x S x T workers, every triangle on a
 * network of its own, all on one virtual clock. Runs one step after the other on all workers. */
#ifndef UVCC_TOOLS_LM_JOB_H
#define UVCC_TOOLS_LM_JOB_H

#include <signal.h>
#include <uvcc/transformer.h>
#include <uvcc/uvcc.h>

#include "../seeded.h"
#include "../trace.h"
#include "options.h"

enum { JOB_PARTIES = UVCC_PARTIES };

typedef struct job_party {
    uvcc_session *session;
    uvcc_cpu *cpu;
    uvcc_seeded_random random;
    uint32_t finished; /* steps */
    bool ready, closed, checkpoint;
    uint8_t step_root[32]; /* of the last step */
} job_party;

typedef struct job_worker {
    uvcc_transformer_worker at;
    uvcc_program *program;
    uvcc_loopback *net;
    job_party party[JOB_PARTIES];
} job_worker;

typedef struct job_hooks {
    void *user;
    /* Party p's value of an input, rows * cols values that stay until the call returns; NULL after
     * an error was reported. Called for the inputs that the party owns. */
    const int64_t *(*input)(void *user, const job_worker *w, uint32_t id);
    /* Every event; may be NULL. An exit status. */
    int (*event)(void *user, const job_worker *w, unsigned party, const uvcc_event *e);
    /* The check of a product failed in this step; may be NULL. */
    void (*refused)(void *user, uint32_t step);
    /* Something other than sessions waits to be done before a step counts as finished; may be NULL.
     */
    bool (*waits)(void *user);
} job_hooks;

/* A step that no session runs again unless an operator says so. */
typedef struct job_refusal {
    bool refused;
    uint32_t step;
} job_refusal;

typedef struct job {
    const lm_options *o;
    const uvcc_transformer_config *cfg;
    const char *command; /* names the keys that follow from the seed */
    uvcc_allocator al;
    job_worker *worker;
    uint32_t workers;
    uvcc_collective *plane[JOB_PARTIES];
    uint32_t step; /* the next one */
    job_hooks hooks;
    job_refusal sks;
    trace *trace; /* with --trace or --profile */
    session_log log;
} job;

/* These return an exit status after reporting. `first_step`, `run`: 0 for a new job. */
int job_open(job *j, uint32_t first_step, uint32_t run);
/* The handshakes of all triangles. Shares of a checkpoint are given before, public values after it.
 */
int job_start(job *j, const volatile sig_atomic_t *stop);
/* Agrees to a step of the entry, gives the inputs, drives until all workers have finished it. Stops
 * with EXIT_INTERRUPTED between turns once *stop is not 0 (stop may be NULL). */
int job_step(job *j, const char *entry, const volatile sig_atomic_t *stop);
/* Ends the sessions in order. */
int job_close(job *j);
void job_free(job *j);

/* The same public value of a PERSIST tensor at the three parties of a worker. An exit status. */
int job_set_public(job *j, job_worker *w, uint32_t tensor, const int64_t *v);
/* An output of the step that was run last, at party 0; NULL if the worker has none. */
const int64_t *job_output(const job *j, const job_worker *w, uint32_t id);

/* A party's global root of the last step over all its workers. */
int job_root(const job *j, unsigned party, uint8_t root[32]);

/* Sums over all workers and parties. */
typedef struct job_totals {
    uint64_t bytes_online, bytes_preprocessing, messages, retransmissions, rounds, tensor_peak;
    uint64_t transient_peak; /* of one worker, as tensor_peak */
} job_totals;
void job_totals_of(const job *j, job_totals *out);

/* What the TRANSIENT buffers of one worker can need at most, of the worker that needs the most: in
 * the entries that are run, and with `mb` not NULL as a share of each microbatch in flight. 0: not
 * known, since a program is too large to tell. */
uint64_t job_transient_bound(const job *j, uint64_t *mb);

#endif
