/* SPDX-License-Identifier: Apache-2.0 */
/* root.h - the root of a step's transcript, by jobs where it is large: millions of hashes do not
 * belong on the thread of the host's loop. */
#ifndef UVCCI_ROOT_H
#define UVCCI_ROOT_H

#include "exec/runtime/core.h"

/* A transcript of at most so many leaves is hashed at once, in about a millisecond. */
#define UVCCI_ROOT_INLINE 4096u
/* Leaves of one job, a power of two: their subtree is whole in the tree of all. */
#define UVCCI_ROOT_SLICE 1024u
/* Jobs of a root that are out at a time, at most. */
#define UVCCI_ROOT_LANES 8u

/* Goes on with the root of a step whose transcript is complete, begins it if need be. 1: it is
 * in st->step_root; 0: jobs are out, or none is free; UVCC_ERR_NOMEM. */
int uvcci_root_advance(uvcc_session *s, uvcci_step *st);
/* A job of it, pushed with owner UVCCI_JOB_ROOT and `who`, is done. */
void uvcci_root_job_done(void *who);
/* Most memory that the root of so many leaves takes beside their transcript. */
uint64_t uvcci_root_bound(uint64_t leaves);
void uvcci_root_free(uvcc_session *s, uvcci_step *st);

#endif
