/* seeded.h - keys of simulated parties that follow from a seed, so that a run can be repeated. */
#ifndef UVCC_TOOLS_SEEDED_H
#define UVCC_TOOLS_SEEDED_H

#include <uvcc/uvcc.h>

#include "bundles.h"

/* sid_job, sign_seed, peer_sign_key and pair_secret of party p in a run of `command`. */
void seeded_identity(uvcc_config *cfg, const char *command, uint64_t seed, unsigned p);

/* The same identities for the bundles of all three parties. */
void seeded_bundles(bundles_config *c, const char *command, uint64_t seed);

#endif
