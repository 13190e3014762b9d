/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.h - how much of what a session does happens at the same time: for each part of its work
 * how long some of it was under way, beside the time from the first to the last of all parts. */
#ifndef UVCC_TOOLS_OVERLAP_H
#define UVCC_TOOLS_OVERLAP_H

#include <stdint.h>
#include <uvcc/compute.h>

typedef enum overlap_part {
    OVERLAP_FSS,      /* keys of functions, made and evaluated */
    OVERLAP_GEMM,     /* matrix products */
    OVERLAP_PACKING,  /* what is masked and packed for messages, and taken out of them */
    OVERLAP_HASHING,  /* of messages */
    OVERLAP_OTHER,    /* jobs of none of these */
    OVERLAP_EXCHANGE, /* collectives of the party's workers */
    OVERLAP_NETWORK,  /* ops that wait for messages of the peers */
    OVERLAP_PARTS
} overlap_part;

/* Of one session; all 0 at first. Times are of any one clock. */
typedef struct overlap {
    uint32_t now[OVERLAP_PARTS]; /* under way */
    uint64_t since[OVERLAP_PARTS], busy[OVERLAP_PARTS];
    uint64_t first, last;
} overlap;

/* The part of a job is that of its tasks which comes first above. */
overlap_part overlap_part_of(const uvcc_job *job);
const char *overlap_name(overlap_part part);
void overlap_begin(overlap *o, overlap_part part, uint64_t now);
void overlap_end(overlap *o, overlap_part part, uint64_t now);
/* Whatever is under way ends. */
void overlap_stop(overlap *o, uint64_t now);

#endif
