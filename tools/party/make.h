/* SPDX-License-Identifier: Apache-2.0 */
/* make.h - `uvcc triples make`: three processes like those of `uvcc party`, with the same files,
 * that fill their stores with the triples of some of the job's steps. */
#ifndef UVCC_TOOLS_PARTY_MAKE_H
#define UVCC_TOOLS_PARTY_MAKE_H

#include <stdbool.h>
#include <stdint.h>
#include <uvcc/session.h>

#include "config.h"

typedef struct make_options {
    const char *config;
    int64_t worker;      /* negative: not given */
    bool all;            /* all steps of the job from `first` on; else: */
    uint32_t first, end; /* first <= step < end */
    bool progress;
} make_options;

/* An exit status. */
int make_triples(const make_options *o);
/* Where a party's configuration has its store (with a rank, and several workers: the worker's), and
 * whose it is; an exit status, after reporting. */
int make_find_store(const char *config, int64_t rank, char dir[PARTY_PATH_BYTES],
                    uint32_t *party_index);

/* Of a process that makes triples: what its sessions do differently. */
struct party;
void make_configure(const struct party *p, uvcc_config *cfg);

#endif
