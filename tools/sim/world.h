/* SPDX-License-Identifier: Apache-2.0 */
/* world.h - a run under way: sessions, clocks, jobs and pipes of one seed. */
#ifndef UVCC_TOOLS_SIM_WORLD_H
#define UVCC_TOOLS_SIM_WORLD_H

#include "sim.h"
#include <uvcc/loopback.h>
#include <uvcc/prg_uses.h>

enum { SIM_NODES = 6, SIM_HISTORY = 16, SIM_HELLOS = 4, SIM_LIVES_MAX = 8, SIM_KEPT = 8 };

/* One run (in the sense of HELLO) that went ready at all parties. */
typedef struct sim_life {
    uint32_t run, base;  /* base: the workload's step where it resumed */
    uint32_t random[3];  /* what the parties' random streams were named by */
    uint32_t ready;      /* parties */
    uint8_t lineage[32]; /* of the tensors there */
} sim_life;

/* What the parties of a run finished with, to be compared with another run. */
typedef struct sim_record {
    sim_life life[SIM_LIVES_MAX];
    uint32_t lives;
    bool have[3][SIM_STEPS_MAX];
    uint8_t root[3][SIM_STEPS_MAX][32];
    uint64_t output_hash[3][SIM_STEPS_MAX], common_hash[3][SIM_STEPS_MAX];
    uint64_t frames[3], allocs[3], memory_peak[3], messages;
    uint64_t memory_quiet[3]; /* with nothing left to do */
} sim_record;

/* An allocator that counts and can fail one call. */
typedef struct sim_memory {
    uint64_t live_blocks, live_bytes, calls, fail_at;
    bool failed;
    bool lately; /* failed since the last input */
} sim_memory;

typedef struct sim_held_job {
    const uvcc_job *job;
    uint64_t due, since;
    bool ran, fail, lost, receives; /* receives: it hashes one received message */
} sim_held_job;

typedef struct sim_late {
    uvcc_completion c;
    uint64_t due;
} sim_late;

typedef struct sim_slot { /* an outstanding transmit */
    bool out;
    uvcc_transmit tx;
    uint64_t due, hash;
} sim_slot;

typedef struct sim_bytes {
    uint8_t *data;
    size_t len, cap;
} sim_bytes;

/* A packet, or a frame of a stream, that waits on its way out. */
typedef struct sim_parcel {
    uint64_t due;
    uint32_t from, to, epoch;
    uint8_t *data;
    size_t len;
} sim_parcel;

/* One direction between two nodes. */
typedef struct sim_pipe {
    uint32_t epoch;                      /* of the stream: what waited for an earlier one is gone */
    uint64_t top_seq, lost_seq, lost_at; /* first sent in a packet that the path did not carry */

    sim_bytes part;  /* of the frame that is being written */
    sim_bytes queue; /* mutated bytes that the stream did not take yet */
    sim_bytes old[SIM_HISTORY];
    sim_bytes hello1[SIM_HELLOS]; /* the last different ones: of sessions that are gone, too */
    uint32_t hellos;
    uint64_t drop_at;    /* when the stream ends because it lost bytes */
    uint64_t frames;     /* written */
    uint64_t seen_kinds; /* kinds written in the present step and run */
    uint32_t seen_step;
} sim_pipe;

typedef struct sim_checkpoint {
    uint32_t step, run;
    uint8_t lineage[32];
    bool durable;  /* else it dies with the party */
    uint8_t *data; /* NULL: none */
    size_t len;
} sim_checkpoint;

typedef struct sim_world sim_world;

typedef struct sim_party {
    sim_world *w;
    uint8_t node, index, triangle;
    uvcc_session *s; /* NULL: dead */
    uvcc_cpu *cpu;
    uvcc_seeded_random random;
    sim_memory mem;
    /* the clock: global time plus skew, or standing */
    uint64_t skew, stands_at, stands_until, latest;
    bool loses;    /* after standing it goes on where it stood */
    uint64_t wake; /* global; UVCC_NEVER */
    /* work */
    sim_held_job *jobs;
    uint32_t job_count, job_cap;
    sim_late *late;
    uint32_t late_count, late_cap;
    uint64_t handed, completed, stale; /* of this session */
    uint64_t refused;                  /* frames, before READY: they came before their keys */
    uint64_t hash_items, commit_items, verdict_items, coins;
    sim_slot slot[3];
    bool up[3];
    uint32_t streams[3]; /* so far, the same at both ends */
    bool relayed[3];     /* the present one goes over two channels */
    bool missed[3];      /* bytes came over that stream while there was no session */
    /* what the host knows */
    bool ready, closing, closed, aborted, resumed;
    bool renews;                      /* a peer began anew: so will this party, once CLOSED */
    uint32_t agreed, finished, given; /* steps of the workload; given: bit per step */
    uint32_t base;                    /* first step of this session */
    uint32_t initial_set;             /* tensors that were given their first values */
    uint8_t lineage[32], loaded[32];  /* agreed on, and of the tensors that are set */
    uint32_t dropped;                 /* bit i: step i was, in the history that goes on */
    uint32_t greatest_run, used_run;  /* heard of, given as next_run; UINT32_MAX: none yet */
    uint32_t random_name;
    sim_checkpoint kept[SIM_KEPT];
    bool past_first; /* all three have a checkpoint, so none begins anew */
    uint64_t rebuild_at;
    /* counts */
    uint64_t inputs, frames_in, frames_since, frames_most, timers, reopened;
    uint64_t dies_at;  /* in a restart */
    bool silent[3];    /* as the events said */
    uint64_t close_at; /* of a close in the calm; 0: none */
    uint64_t closed_at;
} sim_party;

struct sim_world {
    const sim_plan *plan;
    const sim_workload *work;
    const sim_record *clean; /* NULL in the run without faults */
    sim_record *record;
    const sim_record *again; /* whose restarts are repeated, without faults; NULL: none */
    uint32_t life;           /* of `again` */
    sim_outcome *out;
    bool verbose, calm;
    uint64_t faults; /* classes that are on now */
    uvcc_loopback *net;
    uint32_t nodes;
    sim_party party[SIM_NODES];
    sim_pipe pipe[SIM_NODES][SIM_NODES];
    sim_random r[SIM_FAULTS], compute;
    uvcc_prg_uses *uses[UVCC_PARTIES]; /* of both triangles; NULL: nothing was read yet */
    sim_parcel *parcels;
    uint32_t parcel_count, parcel_cap;
    uint32_t path_bytes; /* longer packets vanish; 0: none do */
    uint64_t next_path, uplink_free[SIM_NODES];
    bool vanished;      /* the packet whose frames are looked at */
    sim_random lone;    /* of deaths that others live on through, */
    bool lonely;        /* of which there was one */
    bool kill_alone;    /* the next one is one of these, */
    uint32_t kill_step; /* when this step of the workload begins; 0: at kill_at */
    uint64_t kill_at, back_ns;
    uint8_t kill_party;
    uint64_t next_clock, next_cut, uncut_at;
    uint32_t cut_from, cut_to;
    uint32_t aborts[2];             /* by triangle */
    uint8_t fate[2][SIM_STEPS_MAX]; /* by triangle: how a step ended at the first that said so */
    uint64_t trace;
};

static inline uint64_t sim_now(const sim_world *w) {
    return uvcc_loopback_now(w->net);
}
static inline bool sim_on(const sim_world *w, sim_fault f) {
    return (w->faults & SIM_BIT(f)) != 0;
}
/* Whether a fault happens now; draws in any case. Counts it. */
bool sim_strikes(sim_world *w, sim_fault f);
void sim_fail(sim_world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_trace(sim_world *w, uint64_t a, uint64_t b, uint64_t c);
uint64_t sim_hash(const void *data, size_t len, uint64_t seed);

/* Whether the class is among the plan's; a time up to `most`, short ones as likely as long ones. */
bool sim_was_on(const sim_world *w, sim_fault f);
uint64_t sim_some_time(sim_random *r, uint64_t least, uint64_t most);

/* How long data may wait that the path stopped carrying, where nothing else delays it. */
#define SIM_PATH_NS (2 * SIM_S)
bool sim_path_judged(const sim_world *w);

/* party.c */
uint64_t sim_local(const sim_party *p);
/* The same, when the host looks at it: what it has seen is what deadlines are measured by. */
uint64_t sim_look(sim_party *p);
void sim_arm(sim_party *p, bool fired);
bool sim_transmit(sim_party *p); /* true if anything moved */
/* Gives tensors their first values, as far as they are taken now. */
int sim_set_initial(sim_party *p);
/* Whether the host may ask to drop a step. */
bool sim_cancels(const sim_party *p);
/* After an input: events, the host's part, jobs, transmits. */
void sim_settle(sim_party *p);
void sim_before_input(sim_party *p);
/* A stream is up: tells the session, with its channel's binding in every second plan. */
int sim_stream_open(sim_party *p, uint8_t peer);
/* Checkpoints of steps before that are on the disk now. */
void sim_make_durable(sim_party *p, uint32_t before);
/* Of that step and, if not NULL, lineage: that of the latest run. NULL: none. */
sim_checkpoint *sim_kept_at(sim_party *p, uint32_t step, const uint8_t *lineage);
/* All but that one; NULL: all. */
void sim_forget(sim_party *p, const sim_checkpoint *but);
void sim_drop(sim_checkpoint *c);

/* life.c */
/* A session that goes on from what is kept, or begins. False if memory was refused: try again. */
bool sim_build(sim_party *p);
void sim_die(sim_party *p);
/* A session that was CLOSED because a peer began anew: the next one comes soon. */
void sim_renew(sim_party *p);
void sim_bury(sim_party *p); /* frees the session, and checks that nothing is left of it */

/* script.c */
void sim_script(sim_world *w);
void sim_first_death(sim_world *w);
/* A party began that step of the workload. */
void sim_step_begun(sim_world *w, uint32_t step);

/* check.c */
void sim_check_held(sim_party *p);
void sim_check_path(sim_world *w);
void sim_check_spurious(sim_world *w);
void sim_check_statement(sim_party *p, const uvcc_event *e);
void sim_check_end(sim_party *p);
void sim_check_work(sim_party *p);

/* prg_use.c */
void sim_inspect(sim_party *p, const uvcc_job *job);

/* compute.c */
void sim_jobs_take(sim_party *p);
bool sim_jobs_due(sim_party *p); /* true if any completion went in */
uint64_t sim_jobs_next(const sim_party *p);
void sim_jobs_calm(sim_party *p); /* what is lost comes back */
void sim_jobs_drop(sim_party *p); /* the session is gone */

/* wire.c */
/* Bytes of a transmit that the network took; 0 if it takes none now. */
size_t sim_wire_send(sim_party *p, uint8_t peer, const uvcc_transmit *tx);
bool sim_wire_flush(sim_party *p);  /* hostile bytes that wait; true if any went */
bool sim_parcels_due(sim_world *w); /* true if any went */
uint64_t sim_parcels_next(const sim_world *w);
void sim_wire_forget(sim_party *p); /* the session is gone */
void sim_wire_reset(sim_world *w, uint32_t a, uint32_t b);
void sim_wire_free(sim_world *w);

#endif
