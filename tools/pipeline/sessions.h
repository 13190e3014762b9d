/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.h - a pipeline of real sessions, measured: transformers of one layer a stage on three
 * parties, in simulated time. */
#ifndef UVCC_TOOLS_PIPELINE_SESSIONS_H
#define UVCC_TOOLS_PIPELINE_SESSIONS_H

#include <uvcc/transformer.h>

#include "pipeline.h"

/* Which of the jobs that wait a worker's compute takes next. */
typedef enum sessions_order {
    SESSIONS_RANK = 0,    /* as sessions rank them: uvcc_pipeline_rank() */
    SESSIONS_1F1B = 1,    /* by slot of the 1F1B order, then k */
    SESSIONS_ARRIVAL = 2, /* as they come */
} sessions_order;

typedef struct sessions_run {
    pipe_sizes sizes; /* batch: sequences of a microbatch */
    uint32_t stages, microbatches, ahead;
    uint32_t turn_ticks, link_ticks; /* compute of a turn of an op; a message's way */
    uint32_t order;                  /* sessions_order */
    uint64_t seed;
} sessions_run;

typedef struct sessions_result {
    uint64_t makespan;    /* ticks, of forward and backward passes */
    uint64_t compute;     /* of the worker that has most to do, in ticks */
    double busy_fraction; /* of all workers, over the step */
    uint64_t bytes, jobs; /* that sessions sent, keys too; that took time */
} sessions_result;

/* Runs one step. An exit status, after reporting. */
int sessions_measure(const sessions_run *r, sessions_result *out);

#endif
