/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - a party of a job, without its loop: options, keys, store, TLS, the session and its
 * events. What is computed is in work.c. Each file beside it is the same host in another loop. */
#ifndef EXAMPLE_JOB_H
#define EXAMPLE_JOB_H

#include <stdbool.h>

#include <uvcc/net.h>

typedef struct job job;

/** Options from the command line (job.c: usage()). NULL: it was said what is wrong. */
job *job_open(int argc, char **argv);
/** What the loop watches: uvcc_net_fd() and uvcc_net_deadline(). */
uvcc_net *job_net(const job *j);
/** When the loop woke: all there is to do. False: the job is over, leave the loop. */
bool job_turn(job *j);
/** Without a loop: waits until there is something to do, then the same. */
bool job_wait(job *j);
/** Frees everything; the exit status. */
int job_close(job *j);

#endif
