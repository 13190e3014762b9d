/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.h - `uvcc pipeline`: the pinned transformer block in a pipeline of stages, in simulated
 * time. Time runs in ticks; a tick of a stage's compute belongs to one op. */
#ifndef UVCC_TOOLS_PIPELINE_H
#define UVCC_TOOLS_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>
#include <uvcc/pipeline.h>
#include <uvcc/program.h>

enum { PIPE_OPS_MAX = 64, PIPE_BUFFERS_MAX = 64, PIPE_STAGES_MAX = 256 };
enum { PIPE_FWD = UVCC_FWD, PIPE_BWD = UVCC_BWD, PIPE_PHASES = 2 };

/* What one microbatch does in one stage. Sets of ops are bit masks by index; ops stand in program
 * order. */
typedef struct pipe_graph {
    uint32_t ops;
    uint16_t k[PIPE_OPS_MAX];
    uint8_t phase[PIPE_OPS_MAX];
    char name[PIPE_OPS_MAX][32];
    uint64_t preds[PIPE_OPS_MAX]; /* must be done before, or, if they write nothing, have read */
    uint64_t all, feeds;          /* feeds: see uvcc_pipeline_rank() */
    uint64_t readers;             /* write nothing: a check, a send */
    uint64_t waits;               /* in a session: send messages and wait for those of the peers */
    uint32_t recv[PIPE_PHASES], send[PIPE_PHASES]; /* ops that begin and end a phase */
    uint32_t buffers;                              /* that a microbatch has for itself */
    uint64_t users[PIPE_BUFFERS_MAX];              /* ops that read or write in it */
    uint64_t bytes[PIPE_BUFFERS_MAX];              /* both components of the shares */
} pipe_graph;

typedef struct pipe_sizes {
    uint32_t dim, hidden, heads, context, batch;
} pipe_sizes;

/* ---- block.c: the block's ops in program order, and the graph with the sizes ---- */

typedef struct pipe_block_op {
    uint16_t k;
    const char *opcode, *name, *in, *out; /* tensors, separated by blanks */
    uint8_t flags;                        /* uvcc_op_flags */
} pipe_block_op;

/* NULL behind the last. */
const pipe_block_op *pipe_block_at(uint32_t i);
void pipe_block_graph(pipe_graph *g, const pipe_sizes *s);

/* ---- load: what an op takes ---- */

typedef enum pipe_choice {
    PIPE_WAITS_BLOCK = 0, /* the ops that wait in a session */
    PIPE_WAITS_RANDOM = 1 /* each op of each microbatch, with probability wait_share */
} pipe_choice;

typedef struct pipe_load {
    uint32_t op_ticks;    /* compute of an op: its mean */
    uint32_t wait_factor; /* a wait takes so many times op_ticks */
    double wait_share;
    uint32_t choice; /* pipe_choice */
    bool spread;     /* compute is uniform in 1 .. 2 op_ticks - 1, else all equal */
    uint64_t seed;
} pipe_load;

/* An op computes `before`, waits, and computes `after`. */
typedef struct pipe_time {
    uint32_t before, wait, after;
} pipe_time;
pipe_time pipe_time_of(const pipe_load *l, const pipe_graph *g, uint32_t stage, uint32_t mb,
                       uint32_t op);

/* ---- the simulation ---- */

/* The least rank of what can run is next; UINT64_MAX: not now. NULL stands for
 * uvcc_pipeline_rank(). */
typedef uint64_t pipe_rank(void *user, const pipe_graph *g, const uvcc_pipeline *at, uint32_t mb,
                           uint32_t op);
/* The plain 1F1B order: by slot, then k. */
pipe_rank pipe_rank_1f1b;

/* What a stage spent a tick on. */
typedef enum pipe_doing {
    PIPE_IDLE = 0,    /* nothing is in flight that could go on without another stage */
    PIPE_WAITING = 1, /* ops in flight wait for links, none can run */
    PIPE_FORWARD = 2,
    PIPE_BACKWARD = 3
} pipe_doing;

/* Compute (`waits` false) or wait of an op, from tick `start` up to, not with, `end`. */
typedef struct pipe_slice {
    uint32_t stage, mb, op;
    bool waits;
    uint64_t start, end;
} pipe_slice;

typedef struct pipe_run {
    const pipe_graph *graph;
    pipe_load load;
    uint32_t stages, microbatches, ahead;
    pipe_rank *rank;
    void *rank_user;
    void (*slice)(void *user, const pipe_slice *s); /* may be NULL */
    void *slice_user;
} pipe_run;

typedef struct pipe_result {
    uint64_t makespan;
    uint64_t busy[PIPE_STAGES_MAX];         /* ticks of compute */
    uint32_t in_flight[PIPE_STAGES_MAX];    /* most microbatches */
    uint64_t memory_bytes[PIPE_STAGES_MAX]; /* most, of buffers that live at one time */
    uint64_t microbatch_bytes;              /* most that one microbatch had in one stage */
    double busy_fraction;                   /* of all stages, over the step */
    /* Means over stages and microbatches: compute; the longest paths from RECV_PP to SEND_PP of
     * both phases together; what is left bare of one microbatch alone in a stage. docs/pipeline.md
     */
    double compute, chain, tail;
    double bound, bound_no_tail, ahead_limit;
    uint8_t *doing; /* pipe_doing of [tick][stage]; free() it */
} pipe_result;

/* 0, or -1 and one line: no memory, or the invariant is broken. It is checked at every tick: a
 * stage that does not compute has nothing in flight that can run. */
int pipe_simulate(const pipe_run *r, pipe_result *out, char *message, size_t cap);

/* ---- the command ---- */

/* The words after `uvcc pipeline`; returns the exit status. */
int pipeline_main(int argc, char *const *argv);

#endif
