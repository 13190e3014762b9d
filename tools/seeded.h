/* SPDX-License-Identifier: Apache-2.0 */
/* seeded.h - what the commands that run simulated parties do alike: keys that follow from a seed,
 * so that a run can be repeated; their sessions' and network's configuration. */
#ifndef UVCC_TOOLS_SEEDED_H
#define UVCC_TOOLS_SEEDED_H

#include <pthread.h>
#include <uvcc/loopback.h>
#include <uvcc/uvcc.h>

#include "bundles.h"

/* sid_job, sign_seed, peer_sign_key and pair_secret of party p in a run of `command`. */
void seeded_identity(uvcc_config *cfg, const char *command, uint64_t seed, unsigned p);

/* The sessions' last error, for the message of the call that failed or of the event that follows.
 */
typedef struct session_log {
    char line[256];
    pthread_mutex_t *lock; /* of the line, where sessions have threads; NULL: none is needed */
} session_log;

/* Allocator, party, identity and log of party p's session, which talks over a network with these
 * faults (NULL: none): byte streams if there are none. No keep-alives, so that a run that cannot go
 * on is seen as such. */
void seeded_session(uvcc_config *cfg, const uvcc_allocator *al, const char *command, uint64_t seed,
                    unsigned p, const uvcc_fault_config *faults, session_log *log);
/* That network. 0 or UVCC_ERR_*. */
int seeded_network(uvcc_loopback **out, const uvcc_allocator *al, const uvcc_fault_config *faults,
                   uint64_t seed);

/* The same identities for the bundles of all three parties. */
void seeded_bundles(bundles_config *c, const char *command, uint64_t seed);

#endif
