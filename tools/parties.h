/* SPDX-License-Identifier: Apache-2.0 */
/* parties.h - drives the sessions of all three parties in this process, each worker of each party
 * by a thread of its own: what uvcc_loopback_drive_all() does on one thread, without its faults.
 *
 * Bytes are not copied between parties: the receiver's thread feeds its session from the slices of
 * the transmit that the sender's session offers, and then hands them back.
 *
 * Time is virtual. It stands while any party can do something, and goes to the next deadline when
 * all of them wait; what is sent arrives at the same time. So a run that cannot go on is seen as
 * such, however slow the machine is, and nothing in a run depends on a clock. Which worker is ahead
 * of which does depend on the threads; results, transcripts and roots do not (see "Contracts" in
 * docs/architecture.md). */
#ifndef UVCC_TOOLS_PARTIES_H
#define UVCC_TOOLS_PARTIES_H

#include <stdbool.h>
#include <stdint.h>
#include <uvcc/collective.h>
#include <uvcc/compute.h>
#include <uvcc/session.h>

typedef struct parties parties;

typedef struct parties_config {
    uint32_t workers; /* of each party; worker i of the three are a triangle */
    /* By party: where its workers' local jobs go, one worker at a time. NULL: there are none. */
    uvcc_collective *const *planes;
    void *user;
    /* A turn of the host with one worker's session of one party, in its thread, while the others go
     * on: hears events, begins steps. *moved becomes true if the session may have something to do
     * after it. Anything but 0 ends parties_run(), which returns it: more than 0, or UVCC_ERR_*. */
    int (*hear)(void *user, uint32_t worker, unsigned party, bool *moved);
    /* All threads wait, and the clock is about to move; no other thread is in a session. As hear().
     */
    int (*idle)(void *user);
} parties_config;

/* 0 or UVCC_ERR_*. What *c points to outlives the object. */
int parties_new(parties **out, const parties_config *c);
/* Sessions and executors are the caller's, and not used any more. NULL is allowed. */
void parties_free(parties *x);
/* The hook that executors with threads need (wake, wake_user), of a worker's; what `elsewhere` of
 * the party's plane has of that worker's may call it too. */
void parties_configure(parties *x, uint32_t worker, unsigned party, uvcc_cpu_config *executor);
/* What of a session's configuration has its frames sealed and opened by several threads, where
 * there are cores for that. */
void parties_share_frames(parties *x, uvcc_config *session);
/* A worker of a party: all are there before the first run. */
void parties_join(parties *x, uint32_t worker, unsigned party, uvcc_session *s, uvcc_cpu *executor);

/* Until hear() or idle() end it. 0: no party can ever go on; UVCC_ERR_*: a wrong call, or no
 * memory for a thread. Afterwards no thread is left, and no transmit out. */
int parties_run(parties *x);
/* The present time; any thread may ask. */
uint64_t parties_now(const parties *x);

#endif
