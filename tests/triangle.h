/* SPDX-License-Identifier: Apache-2.0 */
/* triangle.h - three sessions and what joins them, for tests: made, driven, ended in one place.
 * What joins them is a loopback network, or wires (see `wired`), where a test can look between a
 * job's tasks and touch what is there. A test that calls sessions itself is about those calls. */
#ifndef UVCC_TEST_TRIANGLE_H
#define UVCC_TEST_TRIANGLE_H

#include "stays.h"
#include "support.h"
#include <uvcc/audit.h>
#include <uvcc/loopback.h>
#include <uvcc/uvcc.h>

typedef struct triangle triangle;

typedef struct triangle_options {
    uint64_t seed;
    bool datagram, audit_off;
    bool borrow;          /* parties 1 and 2 read party 0's public tensors */
    uvcc_session *lender; /* all three read those of this one, which lives longer; may be NULL */
    uint8_t suites;
    uvcc_cpu_mode mode;
    uint64_t compute_seed;
    uvcc_fault_config faults;
    bool faulty;
    void (*tweak)(uvcc_config *cfg); /* last word on each session's config */
    /* Another executor than the CPU's, and its memory; may be NULL. */
    void (*place)(unsigned party, uvcc_config *cfg, uvcc_cpu_config *x);
    bool unverified; /* bundles are made and not looked at */
    /* Perfect wires instead of the network: what a session sends is at its peer at once, time
     * stands still, and a turn in which nothing happens ends it. Jobs run when they are handed out,
     * and one task after the other if there is an on_task, which is called before and after (done)
     * each. */
    bool wired;
    /* Wired: bytes that have a place in a message are a call of their own, and go straight in; or a
     * transmit's slices are one call. */
    enum { TRIANGLE_FED, TRIANGLE_FED_APART, TRIANGLE_IN_PLACE, TRIANGLE_SLICES } placing;
    bool ticks; /* wired: but time goes on, by 1 ms a turn, and no turn is the last */
    void (*on_task)(void *user, unsigned party, const uvcc_job *job, uint32_t task, bool done);
    /* ... and this before a party sends what its jobs made; may be NULL. */
    void (*on_send)(void *user, unsigned party);
    /* Wired: what a party sends, before its peer has it; may be NULL. */
    void (*on_transmit)(void *user, unsigned party, const uvcc_transmit *tx);
    /* Every bundle, when it is complete; may be NULL. */
    void (*on_bundle)(void *user, unsigned party, uint32_t step, const uint8_t *bytes, size_t len);
    /* Every event, before it is taken; may be NULL. */
    void (*on_event)(void *user, unsigned party, const uvcc_session *s, const uvcc_event *e);
    /* Of triangle_run(): all are closed and nothing is freed yet; may be NULL. */
    void (*on_end)(const triangle *t);
    void *user;
} triangle_options;

struct triangle {
    triangle_options opt;
    test_alloc mem;
    stays_watch stays;
    uint64_t wire_ns; /* with ticks */
    uvcc_loopback *net;
    uvcc_session *s[3];
    uvcc_cpu *cpu[3];
    uvcc_seeded_random rnd[3];
    /* what events said */
    bool ready[3], closed[3];
    uint16_t aborted[3];
    const char *abort_text[3];
    const char *mismatch[3][3]; /* what the last MISMATCH named, by party and peer */
    uint32_t aborted_step[3];
    uint32_t started[3], finished[3]; /* number of steps */
    uint8_t root[3][32];              /* of the last finished step */
    uint32_t audits[3];
    uint32_t bundles[3];
    uvcc_audit_keys keys;
    struct {
        uint8_t *bytes;
        size_t len;
        uint32_t step;
    } bundle[3][4]; /* of step m at m mod 4, until those of all three are there: then they must
                       verify */
};

/* Bytes that went into place since the last time that this was asked. */
size_t triangle_in_place(void);
/* The config of one party without peers, for tests of what a session refuses before it has any. */
uvcc_config triangle_config_alone(test_alloc *mem, uint64_t *random);
/* Sessions with the program loaded; triangle_start() starts their handshake. */
void triangle_make(triangle *t, const uvcc_program *p, const triangle_options *opt);
void triangle_start(triangle *t);
/* Both: started, not driven yet. */
void triangle_open(triangle *t, const uvcc_program *p, const triangle_options *opt);
/* All events that wait. */
void triangle_events(triangle *t);
/* One turn of the network or wires and all events; false when nothing can happen any more. */
bool triangle_turn(triangle *t);
/* The same with what the driver returns, for tests in which it may fail. */
int triangle_drive(triangle *t);
/* Drives until nothing can happen any more. */
void triangle_settle(triangle *t);
uint64_t triangle_now(const triangle *t);
/* All parties agree to a step; one gives its input. Both must be taken. */
void triangle_agree(triangle *t, uint32_t step, uint32_t entry);
void triangle_input(triangle *t, unsigned party, uint32_t step, uint32_t id, const int64_t *v);
/* All inputs of entry 0, as the seed says, |v| <= most; the plaintext twin gets them too. */
void triangle_give_inputs(triangle *t, const uvcc_program *p, uvcc_reference *ref, uint32_t step,
                          unsigned most);
/* The twin makes the step; what every party has of its outputs to all is the same. */
void triangle_check_outputs(const triangle *t, const uvcc_program *p, uvcc_reference *ref,
                            uint32_t step);
/* The same public value at all parties. */
void triangle_set_public(triangle *t, uint32_t tensor, const int64_t *v);
/* Drives until all are READY, all have finished `steps` steps, or all are CLOSED. Fails the test on
 * an abort or when the run gets stuck. */
void triangle_ready(triangle *t);
void triangle_finish(triangle *t, uint32_t steps);
void triangle_close(triangle *t);
/* Frees everything and checks that no memory is left. */
void triangle_free(triangle *t);

/* How a whole run ended. */
typedef struct triangle_outcome {
    uint8_t root[32];         /* party 0's */
    uvcc_session_stats stats; /* of party 0 */
} triangle_outcome;
/* Two steps of a program, which it frees, with inputs as triangle_give_inputs() has them: every
 * party's outputs are the twin's. */
triangle_outcome triangle_run(uvcc_program *p, const uvcc_allocator *al,
                              const triangle_options *opt, unsigned most);

#endif
