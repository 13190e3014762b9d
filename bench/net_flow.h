/* SPDX-License-Identifier: Apache-2.0 */
/* net_flow.h - what net.c and the kinds of flows share; users of net.h need none of it. */
#ifndef UVCC_BENCH_NET_FLOW_H
#define UVCC_BENCH_NET_FLOW_H

#include "net.h"

typedef struct net_packet {
    uint64_t at, order; /* when it is next heard of; among equals the first made goes first */
    struct net_flow *flow;
    uint8_t end;      /* that sent it */
    bool in_pipe;     /* next: the receiver; else the pipe */
    bool capable, ce; /* of ECN */
    uint32_t len;     /* bytes on the wire, overhead left out */
    uint32_t stored;  /* bytes of data[] */
    uint8_t data[];
} net_packet;

typedef struct net_end {
    double access_rate;
    uint64_t free_at, wake_at;
    uint64_t last_at;                  /* when its latest packet reaches the pipe */
    uint64_t stall_ns, stall_every_ns; /* as in net_link_config */
    uint64_t stall_at, back_at;        /* the next or present stall, and its end */
} net_end;

typedef struct net_flow {
    net *net;
    int number;
    net_end end[2];
    uint32_t overhead_bytes;
    bool ecn;
    net_figures f;    /* since the mark */
    uint64_t arrived; /* the last first arrival */
    double queue_sum; /* of waits */
    /* Does what is due at this end, sends, and sets its wake_at. */
    void (*turn)(struct net_flow *flow, int end, uint64_t now);
    /* A packet came to this end; turn() follows. */
    void (*receive)(struct net_flow *flow, int end, const net_packet *p, uint64_t now);
    void (*free)(struct net_flow *flow);
    void *state;
} net_flow;

void *net_alloc(size_t bytes); /* zeros */
void *net_more(void *p, size_t bytes);
net_flow *net_add(net *n, uint64_t start_ns);
net_flow *net_flow_at(const net *n, int flow);
static inline bool net_free_to_send(const net_end *e, uint64_t now) {
    return e->free_at <= now;
}
/* Puts a packet of len bytes on this end's wire; `stored` bytes of data are kept of it. Returns
 * them for the caller to fill in. The wire must be free. */
uint8_t *net_send(net_flow *flow, int end, uint32_t len, uint32_t stored, uint64_t now);
/* A frame or packet of `bytes` arrived on the right: for the first time, or again. */
void net_arrived(net_flow *flow, bool first, uint32_t bytes, double ideal, uint64_t now);

/* A growing set of small numbers. */
typedef struct net_set {
    uint64_t *word;
    size_t words;
} net_set;
bool net_set_add(net_set *s, uint64_t i); /* true: it is new */
bool net_set_has(const net_set *s, uint64_t i);

/* The data frames that came to one end. */
typedef struct net_frames {
    net_set seen;
    uint32_t frame_bytes; /* of the longest frame */
    uint32_t ideal_len; /* the last message's length, and ideal frame bytes for each of its bytes */
    double ideal_ratio;
} net_frames;
/* Counts the frames of a packet in the flow's figures, by their headers. */
void net_frames_count(net_frames *c, const uint8_t *data, size_t len, net_flow *flow, uint64_t now);

/* When the next thing will happen; UVCC_NEVER: nothing will. */
uint64_t net_next(const net *n);

#endif
