/* SPDX-License-Identifier: Apache-2.0 */
/* world.h - three parties in one process, a net each, for tests of adapters: what they compute,
 * over which transport, through a proxy that can do to streams what networks do. */
#ifndef UVCC_TEST_IO_WORLD_H
#define UVCC_TEST_IO_WORLD_H

#include "support.h"
#include <uvcc/mlp.h>
#include <uvcc/net.h>
#include <uvcc/store.h>
#include <uvcc/uvcc.h>

/* ---- transports: a row each ---- */

typedef struct transport {
    const char *name;
    const char *listen; /* %s: a directory, %u: the party; ports are 0 */
    bool datagram;
    bool tls;
    uint32_t library; /* of TLS */
    uint32_t backend;
} transport;
/* NULL: there is none of that name. */
const transport *transport_named(const char *name);
/* NULL, or why it cannot be tested here. */
const char *transport_missing(const transport *t);

/* ---- what is computed ---- */

typedef struct job {
    uvcc_program *program;
    uvcc_mlp_config mlp; /* features 0: relu(XW) */
    uint32_t rows, inner, cols;
    uint32_t steps; /* the last one opens what is compared */
} job;
/* relu(XW) of integers that everybody can compute. */
void job_relu(job *j, uint32_t rows, uint32_t inner, uint32_t cols);
/* `train` steps of a small MLP, then its weights are opened. */
void job_mlp(job *j, uint32_t train);
void job_free(job *j);
/* What each party should see at the end: FNV-1a of the outputs, of a run over loopback. */
uint64_t job_hash(const job *j);

/* ---- hosts ---- */

#define WORKERS_MAX 8u

typedef struct world world;
typedef struct host {
    world *w;
    const job *job;
    uvcc_session *s;
    uvcc_cpu *cpu;
    uvcc_store *store;                  /* NULL: nothing is kept */
    void (*heard)(const uvcc_event *e); /* every event; may be NULL */
    uint8_t party;
    unsigned worker;
    uint32_t next; /* step to agree to */
    bool ready, offered, closed, added;
    bool done;      /* the last step has finished */
    bool restarted; /* it ended since a peer began anew */
    uint16_t aborted;
    uint32_t finished;
    uint64_t hash;
} host;

struct world {
    const transport *t;
    char dir[64];
    uvcc_net_config net_cfg; /* may be changed before world_open() */
    void (*tweak)(uvcc_config *cfg);
    bool proxied;
    bool threads; /* executors */
    uvcc_net *net[UVCC_PARTIES];
    uvcc_tls *tls[UVCC_PARTIES];
    struct proxy *proxy;
    char address[UVCC_PARTIES][UVCC_NET_ADDRESS_BYTES];           /* where they listen */
    char via[UVCC_PARTIES][UVCC_PARTIES][UVCC_NET_ADDRESS_BYTES]; /* where [a] calls [b] */
    bool paused[UVCC_PARTIES];                                    /* their hosts do not turn */
    host hosts[WORKERS_MAX][UVCC_PARTIES];
    unsigned workers;
    bool proxy_has_more;
    uint32_t gate;       /* no step from this one on is agreed to yet; 0: none waits */
    uint64_t generation; /* goes into keys: another one for each session after the first */
    uint64_t turns[UVCC_PARTIES], busy[UVCC_PARTIES]; /* turns made, and those that said 1 */

    unsigned log_lines, log_errors;
    char last_log[256];
};

/* Zeros and defaults; then world_open(). */
void world_init(world *w, const transport *t);
void world_open(world *w);
/* One party's net, which listens at w->address[p]. */
void world_open_one(world *w, unsigned party);
/* Three sessions of one more worker. */
void world_add(world *w, const job *j);
/* A session for a place, started; and into its net. */
void host_start(world *w, unsigned worker, unsigned party, const job *j, uint64_t run);
void host_add(host *h);
void host_drop(host *h);
/* Agrees to the next step, if it may. */
void host_offer(host *h, uint64_t now);
/* Waits until descriptors or deadlines say that something is to do; then a turn of everybody. */
void world_turn(world *w);
/* Turns until done() or for ever so long, which fails the test. */
void world_until(world *w, bool (*done)(world *w));
bool all_closed(world *w);
bool all_ready(world *w);
/* All have finished the first step: w->gate = 1 holds them there. */
bool first_step_done(world *w);
/* A party's sessions go on in a new net, which listens where the old one did. */
void world_move(world *w, unsigned party);
/* All parties of all workers saw what job_hash() says, nothing was aborted. */
void world_check(world *w);
void world_close(world *w);
/* What everybody waits for, to stderr. */
void world_tell(const world *w);
/* The three run a job over the transport to its end. */
void world_run(world *w, const job *j);

/* A socket of nobody's that calls a party; -1: refused. */
int stranger_dial(const world *w, unsigned party);

/* ---- the proxy ---- */

typedef struct proxy proxy;
typedef struct proxy_rules {
    size_t piece;    /* so many bytes at once at most, a random number of them; 0: all */
    bool swallow;    /* takes everything, forwards nothing, ends nothing */
    bool hold;       /* takes nothing */
    int64_t cut_in;  /* the next connections end after so many bytes of the one who dials, */
    int64_t cut_out; /* or of the one who was dialled; -1: not */
    bool quiet_end;  /* they end by FIN and not by RST */
} proxy_rules;
proxy *proxy_new(uint64_t seed);
void proxy_free(proxy *p);
proxy_rules *proxy_rule(proxy *p);
/* Listens for `to`; where: out. */
void proxy_route(proxy *p, const char *to, const char *dir, char out[UVCC_NET_ADDRESS_BYTES]);
int proxy_fd(const proxy *p);
/* Moves what can be moved; true: there is more already. */
bool proxy_turn(proxy *p);
/* Ends a random connection; false: there is none. */
bool proxy_reset(proxy *p);
/* From now on the connections that are there swallow. */
void proxy_swallow_all(proxy *p);
unsigned proxy_connections(const proxy *p);
uint64_t proxy_resets(const proxy *p);
/* Connections that ended by cut_in or cut_out. */
uint64_t proxy_cuts(const proxy *p);

#endif
