/* SPDX-License-Identifier: Apache-2.0 */
/* party.h - the process of `uvcc party`: what its workers share, and its life.
 *
 * A process takes a run, begins its workers' sessions and drives them through the steps. When a
 * peer began anew, or stopped, the run is over for all workers, and the process begins another one
 * from the checkpoints that all three parties have. When all steps are done the result is on the
 * disk before any session closes, so that a party whose two peers have closed knows that they have
 * it too. */
#ifndef UVCC_TOOLS_PARTY_PARTY_H
#define UVCC_TOOLS_PARTY_PARTY_H

#include <uvcc/net.h>
#include <uvcc/store.h>
#include <uvcc/uvcc.h>

#include "../bundles.h"
#include "../crew.h"
#include "../report.h"
#include "agree.h"
#include "config.h"
#include "plane.h"
#include "work.h"

/* Start me again: a peer began anew, and this party's workers are several processes. */
enum { EXIT_AGAIN = 75 };

typedef enum party_phase {
    PARTY_RUNNING, /* handshakes and steps */
    PARTY_DONE,    /* the result is on the disk; the sessions close */
    PARTY_ENDING,  /* the run is over before the job is: `status` or another run follows */
} party_phase;

typedef struct party party;
typedef struct clients clients; /* clients.h */

/* One worker: its session, and how far it is. */
typedef struct worker {
    party *party;
    work_worker place; /* with the program */
    uint32_t rank;
    uvcc_config cfg;       /* of the session: secrets are in it */
    uvcc_session *session; /* NULL: between runs */
    uvcc_cpu *cpu;
    card *card; /* whose executor that is; NULL: the CPU's own */
    bool in_net, ready, aborted, closed;
    bool unset; /* the first values are to be set */
    bool bye[UVCC_PARTIES];
    bool last_waits; /* `last`, the checkpoint behind the last step, is to be kept after the result
                      */
    uvcc_event last;
    uint32_t run, first;
    uint32_t agreed;        /* steps below are agreed to */
    uint32_t prepared;      /* steps below have their public values */
    uint32_t given, inputs; /* steps below have their inputs; step `given` has so many of them */
    uint32_t finished;      /* steps below are finished */
    uint8_t step_root[32];  /* of the last finished step */
    char text[64];          /* of it, for the progress */
} worker;

/* What a party's sessions sent, over all runs of this process. */
typedef struct party_totals {
    uint64_t bytes_online, bytes_preprocessing, messages, retransmissions, rounds;
} party_totals;

struct party {
    party_config c;
    party_agree agree;
    bool check_only, progress;
    const char *share_dir; /* weights are split into it, and nothing runs; NULL: not so */
    bool make;             /* triples, of steps from make_first on, and nothing else (make.c) */
    uint32_t make_first;
    const char *json; /* NULL: none */
    report_json *json_file;
    /* keys and files */
    uint8_t sign_seed[32], public_key[UVCC_PARTIES][32];
    uint8_t psk[UVCC_PARTIES][32];
    char *policy; /* the text, with a 0 behind it; NULL: none */
    size_t policy_len;
    char store_dir[PARTY_PATH_BYTES], audit_dir[PARTY_PATH_BYTES];
    /* what is open */
    const work_kind *kind;
    void *work;
    uvcc_store *store;
    uvcc_tls *tls;
    uvcc_net *net;
    plane *plane;     /* of this run; between processes: of this process's only one */
    bundles *audit;   /* of this run; NULL: none */
    clients *clients; /* NULL: the job serves none */
    crew *crew;       /* seals frames beside the process's thread; NULL: nobody does */
    worker *worker;
    uint32_t workers;   /* here */
    int names;          /* a descriptor (names.h); negative: none */
    bool names_lost;    /* one could not be written */
    char log_line[256]; /* the last error of a session or of the net */
    /* where it is */
    party_phase phase;
    bool again; /* ENDING: another run follows */
    bool over;  /* leave the loop, with: */
    int status;
    bool finished;  /* the result is on the disk, */
    bool settled;   /* and both peers have theirs */
    bool gathering; /* other processes of the party have not given their part of it yet */
    bool interrupted;
    uint32_t runs, resets;
    uint32_t steps_here; /* finished steps of worker 0 in this process, for faults */
    uint64_t started_ns, done_ns, end_by_ns, retry_ns, reset_ns;
    uint64_t fault_state;
    party_totals totals; /* of runs that are over */
    bool agreed;         /* on a run, by all processes of the party */
    json_t *result;      /* once it is there */
    uint32_t run, first; /* of this run, once its sessions are ready */
    bool told;           /* it was told of */
    bool introduced;     /* so were the workers, in the first run */
    struct party_trouble {
        char text[512];
        uint64_t said_ns;
    } trouble;
    struct party_wait { /* see waits.c */
        uint64_t progress, since_ns, said_ns;
        char text[1024];
    } wait;
    struct party_refusals { /* see waits.c */
        uint64_t count, said_ns;
        char why[256];
    } refusals;
    struct party_figures { /* see figures.h; page and log NULL: none */
        struct status_page *page;
        struct party_log *log;
        const char *trace_path; /* NULL: none */
        struct trace *trace;
        uint64_t waited_ns[3], step_at_ns, last_step_ns;
    } figures;
    report_pace pace;
    uint32_t shown;
};

/* `uvcc party`. */
int party_main(int argc, char *const *argv);

/* ---- open.c: what a process has before its first run ---- */

/* Keys, files, the kind of work, programs. `asked` is what options say of where jobs run, as
 * config_options() takes it; NULL: nothing. An exit status after reporting. */
typedef struct party_asked {
    uint32_t compute, device;
} party_asked;
int party_open(party *p, const char *path, int64_t rank, const party_asked *asked);
/* The list of names, the store; then TLS, net, listeners. */
int party_open_store(party *p);
int party_connect(party *p);
/* Threads of the crew that it makes. */
unsigned party_seal_threads(const party *p);
int party_open_tls(party *p); /* reads the files of "tls"; nothing without it */
void party_close(party *p);

/* ---- party.c ---- */

/* Runs until the job is over; an exit status. */
int party_run(party *p);
/* Steps of the job; 0: it serves, and has no last one. */
uint32_t party_steps(const party *p);
/* " of 30" for people; "" of a job that serves, which has no last step. */
const char *party_of_steps(const party *p, char out[32]);
/* The run is over: another follows. `why` is one line for people. */
void party_again(party *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The run is over, and the job for this process; returns status, which is not reported yet. */
void party_fail(party *p, int status);
/* The same, for this uvcc_abort_reason, which peers hear; else it follows from the status. */
void party_fail_by(party *p, int status, uint16_t reason);
/* Another process of this party has failed: this one does as it did. True: it is so. */
bool party_plane_failed(party *p);
/* One line about what is tried again, at a limited rate. */
void party_trouble(party *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- worker.c ---- */

int worker_open(worker *w, party *p, uint32_t rank);
void worker_close(worker *w);
/* A run: its session's configuration; *offer becomes what all workers so far could go on from.
 * UVCC_ERR_IO, UVCC_ERR_NOMEM, of the next too: later maybe. */
int worker_begin(worker *w, plane_offer *offer);
/* The result is on the disk: a checkpoint that waited for it may be. */
void worker_keep_last(worker *w);
/* Its session. */
int worker_start(worker *w, const plane_offer *offer);
void worker_end(worker *w);
/* Breaks its connections, which come back. */
void worker_reset(worker *w);
/* Inputs of steps that are agreed to. A session may not take one yet: then it is offered again. */
void worker_give(worker *w, uint64_t now);
/* Agrees to `step`, if it is its turn, and gives inputs. True: it went as far as it may. */
bool worker_step(worker *w, uint32_t step, uint64_t now);
/* Whether the round trips to all its peers have been measured. */
bool worker_trips_known(const worker *w);
/* Says its place, its session and how far away its peers are. */
void worker_introduce(const worker *w);
/* Ends the session's part in the run. */
void worker_abort(worker *w, uint16_t reason, uint64_t now);
void worker_stats(const worker *w, party_totals *sum);

/* ---- places.c ---- */

/* Whether the store, the evidence and the log can be written where they are to be, without making
 * anything. An exit status. */
int party_check_places(const party *p);
/* What to do about an address that cannot be listened at, if that is because somebody else does. */
const char *party_in_use(const char *why);

/* ---- waits.c ---- */

/* Once a second: what is waited for, if nothing moves. */
void party_say_waits(party *p, uint64_t now);
/* Adds to a text what a worker's session needs of its peers now. */
size_t worker_waits(const worker *w, uint64_t now, char *out, size_t cap);
/* What a job that serves needs of a peer while nobody asks: requests, which is nothing to complain
 * of, nor to count as a wait. */
bool party_rests(const party *p, const uvcc_peer_info *info);

/* ---- result.c ---- */

/* The result of an earlier run of this job, from its file in the store: 1 there, 0 not, negative:
 * an exit status after reporting. */
int party_result_read(party *p);
/* Notes in a new store whose job it is. An exit status. */
int party_result_begin(const party *p);
/* All steps are finished: makes the result and puts it on the disk. An exit status. */
int party_result_make(party *p);
int party_result_settle(party *p);
void party_result_show(const party *p, const char *heading);

#endif
