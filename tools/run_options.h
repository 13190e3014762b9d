/* SPDX-License-Identifier: Apache-2.0 */
/* run_options.h - the options of a run of simulated parties, alike in all commands that have one.
 */
#ifndef UVCC_TOOLS_RUN_OPTIONS_H
#define UVCC_TOOLS_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <uvcc/loopback.h>

#include "flags.h"

/* Beside the modes of uvcc_cpu_config that a command line has. */
enum { RUN_COMPUTE_GPU = 3 };
/* Who drives the sessions of the three parties. */
typedef enum run_parties { RUN_PARTIES_THREADS = 0, RUN_PARTIES_TURNS = 1 } run_parties;

typedef struct run_options {
    const char *json, *audit, *trace, *policy; /* NULL: not given */
    uint32_t products;                         /* uvcc_products */
    uint32_t compute;                          /* uvcc_cpu_mode, or RUN_COMPUTE_GPU */
    uint32_t device;                           /* of RUN_COMPUTE_GPU; CARD_BY_RANK: not given */
    uint64_t device_bytes;                     /* that a session may take of it; 0: no limit */
    uint64_t device_keys;                      /* of these for keys ahead of use */
    uint32_t backend;                          /* uvcc_cpu_backend, of the CPU's modes */
    uint32_t parties;                          /* run_parties */
    uint64_t seed, compute_seed, fault_seed;
    uvcc_fault_config faults; /* drop, duplicate, reorder, corrupt */
    bool profile, progress, help;
} run_options;

/* Whether packets are lost, doubled, reordered or changed. */
bool run_options_calm(const run_options *o);
/* What the environment says of compute, device, device_bytes and device_keys where the options did
 * not: `said` is whether --compute was given, `workers` how many each party has in this process. 0,
 * or -1 and one line in the message. */
int run_options_compute(run_options *o, bool said, uint32_t workers, const flag_message *m);
/* Does that, and refuses options of these that do nothing beside the others; as
 * flags_refuse_idle(). */
int run_options_check(run_options *o, uint32_t workers, const flag_set *set, int argc,
                      char *const *argv, const flag_message *m);

#endif
