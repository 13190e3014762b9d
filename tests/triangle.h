/* triangle.h - three sessions over a loopback network, for tests: made, driven, ended in one place.
 */
#ifndef UVCC_TEST_TRIANGLE_H
#define UVCC_TEST_TRIANGLE_H

#include "support.h"
#include <uvcc/audit.h>
#include <uvcc/loopback.h>
#include <uvcc/uvcc.h>

typedef struct triangle_options {
    uint64_t seed;
    bool datagram, audit_off;
    uint8_t suites;
    uvcc_cpu_mode mode;
    uint64_t compute_seed;
    uvcc_fault_config faults;
    bool faulty;
    void (*tweak)(uvcc_config *cfg); /* last word on each session's config */
    bool unverified;                 /* bundles are made and not looked at */
    /* Every bundle, when it is complete; may be NULL. */
    void (*on_bundle)(void *user, unsigned party, uint32_t step, const uint8_t *bytes, size_t len);
    /* Every event, before it is taken; may be NULL. */
    void (*on_event)(void *user, unsigned party, const uvcc_session *s, const uvcc_event *e);
    void *user;
} triangle_options;

typedef struct triangle {
    triangle_options opt;
    test_alloc mem;
    uvcc_loopback *net;
    uvcc_session *s[3];
    uvcc_cpu *cpu[3];
    uvcc_seeded_random rnd[3];
    /* what events said */
    bool ready[3], closed[3];
    uint16_t aborted[3];
    const char *abort_text[3];
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
} triangle;

/* Sessions with the program loaded; triangle_start() starts their handshake. */
void triangle_make(triangle *t, const uvcc_program *p, const triangle_options *opt);
void triangle_start(triangle *t);
/* Both: started, not driven yet. */
void triangle_open(triangle *t, const uvcc_program *p, const triangle_options *opt);
/* All events that wait. */
void triangle_events(triangle *t);
/* One turn of the network and all events; false when nothing can happen any more. */
bool triangle_turn(triangle *t);
/* Drives until all are READY, all have finished `steps` steps, or all are CLOSED. Fails the test on
 * an abort or when the run gets stuck. */
void triangle_ready(triangle *t);
void triangle_finish(triangle *t, uint32_t steps);
void triangle_close(triangle *t);
/* Frees everything and checks that no memory is left. */
void triangle_free(triangle *t);

#endif
