/* SPDX-License-Identifier: Apache-2.0 */
/* host_loop.h - the host of all parties of a job in this process: their sessions and executors, a
 * network for every triangle, one virtual clock, and the loop that drives them through their steps.
 * Every command that runs sessions does it with this one; what a command adds are its hooks.
 *
 * Each worker of each party has a thread of its own (parties.h), or all are driven in turns by one:
 * where the network has faults, jobs are shuffled, or sessions are recorded, or traced on the CPU,
 * a run is to be a function of its options down to the order of packets. The hooks of one host
 * never run at the same time, but a hook for one session may run while the others work: it leaves
 * these alone.
 *
 * A perceptron's training is a job of one worker per party, a transformer's of R x S x T. Steps are
 * numbered through: each party agrees to the next one as soon as it may and hands in its inputs.
 * Workers that no collective holds together may be any number of steps apart. */
#ifndef UVCC_TOOLS_HOST_LOOP_H
#define UVCC_TOOLS_HOST_LOOP_H

#include <jansson.h>
#include <pthread.h>
#include <uvcc/uvcc.h>

#include "bundles.h"
#include "card.h"
#include "cards.h"
#include "memory.h"
#include "parties.h"
#include "report.h"
#include "run_options.h"
#include "seeded.h"
#include "trace.h"
#include "uvlog.h"

typedef struct host_party {
    uvcc_session *session;
    uvcc_cpu *cpu;
    uvcc_seeded_random random;
    uvlog *log;             /* NULL: nothing is recorded */
    uint32_t agreed;        /* steps below are agreed to */
    uint32_t given, inputs; /* steps below have their inputs; step `given` has so many of them */
    uint32_t finished;      /* steps below are finished */
    uint32_t checkpointed;  /* the last checkpoint resumes here */
    bool ready, closed;
    bool borrows;             /* party 0's public tensors */
    bool offers;              /* steps or inputs that its session has not taken yet */
    uint8_t step_root[32];    /* of this worker's leaves of the last finished step */
    card *card;               /* --compute gpu: its device; else NULL */
    uvcc_session_stats stats; /* when its last event was heard, or a run ended */
} host_party;

typedef struct host_worker {
    uint32_t replica, stage, tensor_rank;
    uint32_t rank; /* of these, (replica * stages + stage) * tensor_ranks + tensor_rank */
    uvcc_program *program;
    uvcc_loopback *net; /* NULL: parties have threads */
    host_party party[UVCC_PARTIES];
} host_worker;

/* What a command adds. All get `user`; all but entry and program may be NULL. Those that return an
 * int return an exit status, after reporting, where nothing else is said. */
typedef struct host_hooks {
    void *user;
    /* Makes the program of a worker. It is freed with the host, even after an error. */
    int (*program)(void *user, const host_worker *w, uvcc_program **out);
    /* The last word on a session and its executor. */
    void (*configure)(void *user, const host_worker *w, unsigned party, uvcc_config *session,
                      uvcc_cpu_config *executor);
    /* How the profile groups ops. */
    tally_section part;
    /* The entry that a step runs; negative: UVCC_ERR_*. */
    int (*entry)(void *user, const host_worker *w, uint32_t step);
    /* Whether a step may be agreed to while the one before it runs, so that its keys are dealt
     * ahead. NULL: none may. */
    bool (*ahead)(void *user, uint32_t step);
    /* Before the first party agrees to a step. */
    int (*prepare)(void *user, uint32_t step);
    /* The owner's value of an input, rows * cols values that stay until the next call; NULL after
     * an error was reported. */
    const int64_t *(*input)(void *user, const host_worker *w, uint32_t step, uint32_t id);
    /* Every event, before the host itself takes it. */
    int (*event)(void *user, const host_worker *w, unsigned party, const uvcc_event *e);
    /* After events were heard. */
    void (*turned)(void *user);
} host_hooks;

typedef struct host_config {
    const char *command;    /* names the keys that follow from the seed */
    const run_options *run; /* outlives the host */
    uint32_t replicas, stages, tensor_ranks;
    uint32_t threads; /* of each executor; 0: as the library does */
    uint32_t first_step, run_number;
    bool checkpoints;    /* one after every step, which counts as finished with it only */
    bool of_workers;     /* messages and the trace name workers, not parties alone */
    const char *about;   /* what error lines begin with; NULL: nothing */
    const char *smaller; /* what to give if a step is too large */
    const char *record;  /* directory of the logs; NULL: none */
    const char *app; /* what they say of the program, if configure() does not; outlives the host */
    bool force;      /* they may replace others */
    const uvcc_allocator *alloc; /* of all sessions, networks and executors; NULL: the system's */
    host_hooks hooks;
} host_config;

typedef struct host {
    host_config c;
    memory memory;
    uvcc_allocator al;  /* of it */
    struct host_stall { /* see host_loop.c */
        uint64_t failed, progress;
        uint32_t turns;
    } stall;
    host_worker *worker;
    uint32_t workers;
    uvcc_collective *plane[UVCC_PARTIES];
    cards *cards[UVCC_PARTIES]; /* --compute gpu with several workers: what carries it out */
    parties *threads;           /* NULL: one thread drives all */
    pthread_mutex_t lock;       /* of hooks, and of all that follows from events */
    struct host_goal {          /* see host_loop.c */
        bool (*is)(const struct host *h, const host_party *p);
        bool stops, reached;
        int status;
        uint32_t waits; /* times that all parties waited */
    } goal;
    uint32_t until;    /* steps below may be agreed to */
    uint32_t prepared; /* steps below are prepared */
    bool recorded;     /* there is something to keep in the logs */
    int record_lock;   /* of their directory; -1: none */
    bundles *audit;    /* NULL: none are written */
    trace *trace;      /* NULL: none */
    char *policy;      /* the text, with a 0 behind it; NULL: none */
    size_t policy_len;
    session_log log;
} host;

/* Those that return an int return an exit status, after reporting, where nothing else is said;
 * EXIT_INTERRUPTED alone is the caller's to report. host_end() follows in any case. The host stays
 * in its place until then. None of them goes on for ever: parties that wait for each other, and
 * turns without progress in which memory was refused, end in EXIT_FAILED. */
int host_open(host *h, const host_config *c);
/* The handshakes begin: before it shares of a checkpoint are given. */
int host_start(host *h);
/* Drives until all parties are ready. */
int host_ready(host *h);
/* Drives until all parties have finished all steps below `steps`, with bundles and checkpoints.
 * With `stops` an interruption (interrupt.h) ends it between two turns. */
int host_run(host *h, uint32_t steps, bool stops);
/* Ends the sessions in order. */
int host_close(host *h);
/* Writes what is left of bundles and logs, and frees everything. */
int host_end(host *h);

/* The same public value of a PERSIST tensor at the three parties of a worker. */
int host_set_public(host *h, host_worker *w, uint32_t tensor, const int64_t *v);
/* A party's two components of one, at that party. */
int host_set_shares(host *h, host_worker *w, unsigned party, uint32_t tensor, const uint64_t *lo,
                    const uint64_t *hi);
/* All three, which somebody split: each party's two at that party. */
int host_set_components(host *h, host_worker *w, uint32_t tensor,
                        uint64_t *const part[UVCC_PARTIES]);
/* A party's components of a PERSIST tensor between two steps, which are its secret. */
int host_shares(host *h, host_worker *w, unsigned party, uint32_t tensor, uint64_t *lo,
                uint64_t *hi);
/* Until nothing moves: what was set is with the sessions then, and no copy of it. */
int host_settle(host *h);
/* The same where something is out that must end first: it is an error that nothing moves. */
int host_wait(host *h);
/* The present time of a worker's sessions. */
uint64_t host_now(const host *h, const host_worker *w);
/* Steps that all parties have finished. */
uint32_t host_finished(const host *h);
/* A party's global root of the last step over all its workers. */
int host_root(const host *h, unsigned party, uint8_t root[32]);
/* One line on what failed, and why; returns EXIT_FAILED. */
int host_failed(const host *h, const char *what, int rc);

/* Sums over all workers and parties as of their last events; rounds and peaks are the most of one.
 */
typedef struct host_totals {
    uint64_t bytes_online, bytes_preprocessing, messages, retransmissions, rounds, tensor_peak;
    uint64_t transient_peak;
} host_totals;
void host_totals_of(const host *h, host_totals *out);

/* Writes the result as JSON (which it takes; NULL: there was no memory for it), and with --profile
 * and --trace what ops did: tables to `to`, members of the JSON, the trace's file. */
int host_report(host *h, report_json *json, json_t *result, FILE *to);

#endif
