/* SPDX-License-Identifier: Apache-2.0 */
/* sim.h - `uvcc sim`: whole triangles under a virtual clock with faults of every kind, one run per
 * seed, and what its files share.
 *
 * A run is a pure function of (seed, faults left out): plan.c draws what will happen, workload.c
 * the programs and what they must give, world.c drives the parties of party.c, whose sessions begin
 * and end in life.c, script.c troubles them, compute.c runs their jobs, which prg_use.c looks at,
 * wire.c carries and mutates their bytes, triples.c has a job of its own, check.c looks at the end
 * of it, main.c runs many seeds and reports. Every concern has a random stream of its own, so that
 * leaving one fault out changes no other draw. */
#ifndef UVCC_TOOLS_SIM_H
#define UVCC_TOOLS_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uvcc/loopback.h>
#include <uvcc/uvcc.h>

/* The words after `uvcc sim`; returns the exit status. */
int sim_main(int argc, char *const *argv);

/* SIM_FAULT(name, word): the classes of faults, by which a failure is minimised. */
#define SIM_FAULT_LIST(F)                                                                          \
    F(DROP, "drop")                                                                                \
    F(DUPLICATE, "duplicate")                                                                      \
    F(REORDER, "reorder")                                                                          \
    F(CORRUPT, "corrupt")                                                                          \
    F(TRUNCATE, "truncate")                                                                        \
    F(SPLIT, "split")                                                                              \
    F(COALESCE, "coalesce")                                                                        \
    F(JITTER, "jitter")                                                                            \
    F(BANDWIDTH, "bandwidth")                                                                      \
    F(STALL, "stall")                                                                              \
    F(DISCONNECT, "disconnect")                                                                    \
    F(PARTIAL, "partial")                                                                          \
    F(CUT, "cut")                                                                                  \
    F(TX_HELD, "tx-held")                                                                          \
    F(CLOCK_AHEAD, "clock-ahead")                                                                  \
    F(CLOCK_STOP, "clock-stop")                                                                    \
    F(CLOCK_BACK, "clock-back")                                                                    \
    F(TIMER_LATE, "timer-late")                                                                    \
    F(TIMER_EARLY, "timer-early")                                                                  \
    F(JOB_LATE, "job-late")                                                                        \
    F(JOB_SHUFFLE, "job-shuffle")                                                                  \
    F(JOB_TWICE, "job-twice")                                                                      \
    F(JOB_STALE, "job-stale")                                                                      \
    F(JOB_LOST, "job-lost")                                                                        \
    F(JOB_FAIL, "job-fail")                                                                        \
    F(ALLOC, "alloc")                                                                              \
    F(RESTART, "restart")                                                                          \
    F(SAME_RANDOM, "same-random")                                                                  \
    F(HOSTILE, "hostile")                                                                          \
    F(PATH, "path")                                                                                \
    F(BOTTLENECK, "bottleneck")                                                                    \
    F(ACKS, "acks")                                                                                \
    F(ACCEPT, "accept")                                                                            \
    F(CANCEL, "cancel")

typedef enum sim_fault {
#define SIM_ENUM(name, word) SIM_##name,
    SIM_FAULT_LIST(SIM_ENUM)
#undef SIM_ENUM
        SIM_FAULTS
} sim_fault;
extern const char *const sim_fault_words[SIM_FAULTS];
#define SIM_BIT(f)      (UINT64_C(1) << (f))
#define SIM_LINK_FAULTS (SIM_BIT(SIM_CUT + 1) - 1)
/* What may be on beside a fault whose times and counts are judged. */
#define SIM_ALONE_FAULTS                                                                           \
    (SIM_BIT(SIM_JOB_LATE) | SIM_BIT(SIM_JOB_SHUFFLE) | SIM_BIT(SIM_JOB_TWICE) |                   \
     SIM_BIT(SIM_JOB_STALE))

/* ---- random streams ---- */

typedef struct sim_random {
    uint64_t state;
} sim_random;
/* Streams that belong to no class of faults. */
enum {
    SIM_STREAM_PLAN = 100,
    SIM_STREAM_WORKLOAD,
    SIM_STREAM_VALUES,
    SIM_STREAM_COMPUTE,
    SIM_STREAM_CHECKS,
    SIM_STREAM_FUNCTIONS,
    SIM_STREAM_RANDOMS,
    SIM_STREAM_LONE,
    SIM_STREAM_TRIPLES
};
sim_random sim_stream(uint64_t seed, unsigned concern);
uint64_t sim_next(sim_random *r);
/* Uniform below n (n > 0). */
uint64_t sim_below(sim_random *r, uint64_t n);
bool sim_hit(sim_random *r, double rate);
uint64_t sim_mix(uint64_t z);

/* ---- plan ---- */

#define SIM_MS UINT64_C(1000000)
#define SIM_S  UINT64_C(1000000000)

typedef struct sim_plan {
    uint64_t seed;
    uint64_t faults; /* bits of the classes that are on */
    double rate[SIM_FAULTS];
    uint32_t triangles;
    bool datagram, exchange, audit_off, ahead, untidy;
    uint8_t suites;
    uint32_t frame_bytes, datagram_bytes;
    bool small_credit;
    bool keeps; /* hosts keep checkpoints, and agree to no step before that of the one before */
    uint32_t first_step, next_run;
    uint64_t rto_initial_ns, rto_max_ns, keepalive_ns;
    uint64_t calm_at_ns; /* when faults end */
    uvcc_fault_config link;
    uint8_t hostile_party, alloc_party;
    double alloc_place; /* which call fails, as a part of those of a run without faults */
    uint64_t alloc_at;  /* or exactly this one; 0: by alloc_place */
    uint8_t acks_party;
    uint64_t silence_ns, close_ns; /* as in the config */
    uint32_t congestion;           /* the controllers, two bits a party */
    uint64_t rate_bytes_per_s;
    uint64_t path_at_ns, path_again_ns;    /* when longer packets vanish; when some do no more */
    uint32_t path_bytes, path_again_bytes; /* 0: none do */
    uint64_t bottleneck_bps, bottleneck_bytes; /* of a party's way out: its rate, its queue */
} sim_plan;

/* `without`: classes that are left out. */
void sim_plan_draw(sim_plan *p, uint64_t seed, uint64_t without);

/* ---- workload ---- */

enum { SIM_STEPS_MAX = 4 };

typedef struct sim_workload sim_workload;
struct sim_workload {
    uvcc_program *program;
    bool exact; /* no stochastic truncation: results equal the reference */
    uint32_t steps;
    uint32_t entry[SIM_STEPS_MAX];
    int64_t **input[SIM_STEPS_MAX];  /* [step][input of the entry] */
    int64_t **output[SIM_STEPS_MAX]; /* what the reference says */
    /* PERSIST tensors given before the first step */
    uint32_t initial_count;
    uint32_t initial_tensor[64];
    int64_t *initial[64];
};

/* What the reference says of the outputs of `step` where those in `dropped` (bit i: step i) were
 * left out; true if `v` is that of output k. */
/* Whether output k is of words that nobody chooses: the reference has 0 for them. *most is what
 * they are at most. */
bool sim_workload_random(const sim_workload *w, uint32_t step, uint32_t k, int64_t *most);
bool sim_workload_fits(const sim_workload *w, uint32_t dropped, uint32_t step, uint32_t k,
                       const int64_t *v);
/* False after writing why. */
bool sim_workload_draw(sim_workload *w, uint64_t seed, char *why, size_t cap);
void sim_workload_free(sim_workload *w);
size_t sim_elems(const sim_workload *w, uint32_t tensor);

/* ---- a run ---- */

typedef struct sim_outcome {
    bool failed;
    char why[240];
    uint64_t faults; /* classes that were on */
    uint64_t digest;
    uint64_t messages, injected, restarts, aborts, dropped, turns, virtual_ns;
    uint64_t allocs[3];
    /* worst ratios seen, for setting the bounds */
    double memory_ratio, frames_ratio, input_frames, needless;
} sim_outcome;

/* One seed: the run without faults, then the one with them. */
void sim_seed(const sim_plan *plan, sim_outcome *out, bool verbose);
/* triples.c: of every few seeds, a job of its own whose stores keep triples over restarts. */
void sim_triples(uint64_t seed, sim_outcome *out);

#endif
