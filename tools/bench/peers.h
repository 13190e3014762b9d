/* SPDX-License-Identifier: Apache-2.0 */
/* peers.h - one party of --job: the net to the processes of the two others, and numbers that the
 * three tell each other, by a small program of their own whose inputs open to all. The keys of both
 * sessions follow from nothing secret: what is measured is random, or known to all three. */
#ifndef UVCC_TOOLS_BENCH_PEERS_H
#define UVCC_TOOLS_BENCH_PEERS_H

#include <stdbool.h>
#include <uvcc/compute.h>
#include <uvcc/session.h>

#include "job.h"

typedef struct peers peers;

enum { PEERS_NUMBERS = 256, PEERS_NUMBER_BITS = 60 };

/* Those that return an int return an exit status, after reporting; what the two hooks return ends
 * the wait, as does a peer that is away for longer than the job's wait_s. */

/* Listens, calls, and goes on when all three are there. A peer that is connected and says nothing
 * for wait_s is as one that is away: two that wait for each other's work say that they are there.
 */
int peers_open(peers **out, const bench_job *j, unsigned party);
/* Sessions of this process come to an end; `well`: of the others too, which it waits for. NULL is
 * allowed. */
void peers_close(peers *x, bool well);
/* After the caller's executors, whose threads may wake the net. NULL is allowed. */
void peers_free(peers *x);
/* Does work that takes long in another thread, so that the others hear of this party while it
 * lasts: its status, or of what ended the wait. Then too it has come to its end, which it does
 * sooner if it looks at peers_given_up(). */
int peers_meanwhile(peers *x, int (*work)(void *user), void *user);
bool peers_given_up(const peers *x); /* false if x is NULL */
/* The hook that an executor needs. It has threads, so that this one is there for the others. */
void peers_configure(peers *x, uvcc_cpu_config *executor);
/* A session's frames are sealed by threads that help, where there are cores. */
void peers_share_frames(peers *x, uvcc_config *session);
uint64_t peers_now(void);

/* A line on a peer that is not there now, or says nothing; "" if there is none, or x is NULL. */
#define PEERS_TEXT_BYTES 640u
void peers_away(const peers *x, char out[PEERS_TEXT_BYTES]);

/* The session that is measured, after its start. Its events go to `event`; anything but EXIT_DONE
 * ends peers_run(). */
typedef struct peers_hooks {
    int (*event)(void *user, const uvcc_event *e);
    /* Looked at after each turn: what peers_run() waits for. */
    bool (*reached)(void *user);
    void *user;
} peers_hooks;
int peers_join(peers *x, uvcc_session *s, uvcc_cpu *executor, const peers_hooks *hooks);
int peers_run(peers *x);
/* Until no party computes, sends, or has anything on its way: none can go on without its host. All
 * three call it. */
int peers_settle(peers *x);
/* All three call it, each with numbers of its own below 2^PEERS_NUMBER_BITS; all get all. */
int peers_exchange(peers *x, const uint64_t own[PEERS_NUMBERS],
                   uint64_t out[UVCC_PARTIES][PEERS_NUMBERS]);

#endif
