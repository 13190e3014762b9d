/* SPDX-License-Identifier: Apache-2.0 */
/* net.h - a network in virtual time whose flows share a bottleneck, for benchmarks and tests of
 * what links do to each other and to strangers.
 *
 * Topology: each flow has two ends. The ends on the left send data over one shared pipe, what
 * answers comes back over the other:
 *
 *     left 0 --access--\                                    /-- right 0
 *     left 1 --access---> [queue] bottleneck, delay, loss -----> right 1
 *                                  pipe NET_THERE
 *
 * and NET_BACK the same from right to left. An access wire sends one packet at a time, and its end
 * waits while it is busy, as a socket that blocks does: nothing is dropped there. A pipe is a
 * drop-tail queue before a wire of a given rate, then a delay, then losses by chance.
 *
 * Everything is a function of the configurations and net_config.seed. Time is in nanoseconds and
 * begins at NET_BEGIN. Bytes are those of datagrams (a link's frames), and a flow's overhead_bytes
 * for each packet if it says so. Memory comes from malloc; without any the process ends.
 *
 *     net *n = net_new(&(net_config){.seed = 1, .pipe = {{.rate = 100e6, .delay_ns = 20 * NET_MS,
 *                                    .queue_bytes = 500000}, {.delay_ns = 20 * NET_MS}}});
 *     int a = net_add_link(n, &(net_link_config){.access_rate = 1e9, .message_bytes = 1 << 20});
 *     int b = net_add_reno(n, &(net_reno_config){.access_rate = 1e9});
 *     net_run(n, 10 * NET_S);
 *     net_figures f;
 *     net_flow_figures(n, a, &f);
 *     net_free(n);
 *
 * To be compiled with net.c, net_link.c and net_reno.c; uses <uvcc/link.h> only. */
#ifndef UVCC_BENCH_NET_H
#define UVCC_BENCH_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uvcc/link.h>

#define NET_MS    UINT64_C(1000000)
#define NET_S     UINT64_C(1000000000)
#define NET_BEGIN UINT64_C(1000000)

/** The longest data frame of a datagram link; longer packets hold several (wire.md). */
#define NET_FRAME_BYTES 1232u

enum { NET_THERE = 0, NET_BACK = 1 };

/** One direction of what the flows share. All of it may be changed while it runs (net_pipe()); what
 * is in the queue or under way keeps the times that it has. */
typedef struct net_pipe_config {
    double rate;            /**< bit/s; 0: no bottleneck */
    uint64_t delay_ns;      /**< propagation, one way */
    uint64_t queue_bytes;   /**< what waits and what is being sent; 0: no limit */
    uint32_t queue_packets; /**< the same in packets; 0: no limit */
    double loss;            /**< probability, after the queue */
    uint64_t jitter_ns;     /**< up to so much more delay, drawn for each packet; order is kept */
    double reorder;      /**< probability that a packet takes a detour, and others overtake it: */
    uint64_t reorder_ns; /**< up to so much longer than the others, at least half of it */
    uint32_t path_bytes; /**< longer packets (overhead left out) vanish; 0: none do */
    uint64_t mark_bytes; /**< packets of capable flows that find more than this in the queue get
                              CE; 0: never */
} net_pipe_config;

typedef struct net_config {
    uint64_t seed;
    uint64_t noise_ns; /**< each packet comes up to so much later to its pipe, flows keep their
                          order: so that flows are not in step as only machines without noise are */
    net_pipe_config pipe[2];
} net_config;

/** What happened in a pipe, in packets of all flows. entered = delivered + dropped + lost +
 * too_long + under_way. */
typedef struct net_pipe_counts {
    uint64_t entered, delivered, dropped, lost, too_long, under_way;
    uint64_t marked;
    uint64_t queue_bytes_max, queue_packets_max;
    uint64_t sent_bytes; /**< what left the queue or will, overhead included */
} net_pipe_counts;

/** A pair of links on datagrams. The left end sends messages as fast as its link takes them, the
 * right end takes them. Zeros mean the defaults in brackets. */
typedef struct net_link_config {
    double access_rate;      /**< bit/s of each end [no limit] */
    uint32_t overhead_bytes; /**< of each packet, for the wires' time and byte limits of queues
                                  only (28: UDP and IPv4) [0] */
    uint64_t start_ns;       /**< when it begins [NET_BEGIN] */
    uint32_t message_bytes;  /**< [1 MiB] */
    uint64_t messages;       /**< how many [as many as there is time for] */
    uint64_t message_gap_ns; /**< from one message's handing over to the next at least [0] */
    uint64_t job_ns;   /**< a message is accepted so long after it came out of the link, as by a
                            hash job; jobs run side by side [0: at once] */
    uint64_t timer_ns; /**< the host's timers are late, to the next multiple of this [exact] */
    uint64_t stall_ns; /**< the hosts do nothing for up to so long, at times drawn, about */
    uint64_t
        stall_every_ns; /**< every so often, as on a busy machine; what comes waits [0: never] */
    uint32_t datagram_bytes; /**< uvcc_link_config.datagram_bytes of both ends */
    uint8_t suite;           /**< 0: unsealed, else uvcc_link_set_keys */
    bool ecn;                /**< its packets may be marked */
    /** May change the config of an end (0 left, 1 right) before the link is made. */
    void (*tune)(uvcc_link_config *cfg, int end, void *user);
    void *user;
    /** Feeds a packet, for links that are told of CE [uvcc_link_feed; ce is not told]. */
    int (*feed)(uvcc_link *l, const uint8_t *data, size_t len, bool ce, uint64_t now);
} net_link_config;

/** A NewReno flow with always something to send, in packets of 1,500 bytes: slow start from 10
 * packets, congestion avoidance, fast recovery with selective acknowledgements (RFC 6582, RFC 9002
 * 7.3), loss by 3 packets or 9/8 of a round trip (RFC 9002 6.1), timeouts (RFC 6298, 200 ms at
 * least). It does not pace. Every packet is acknowledged by one of 64 bytes. */
typedef struct net_reno_config {
    double access_rate;
    uint64_t start_ns;
    bool ecn; /**< CE counts as a loss, once per round trip */
} net_reno_config;

/** Of one flow, since the last net_flow_mark() or its beginning. "Frame bytes" are whole frames
 * with header and seal, of data (not ACK, PING, HELLO); of a NewReno flow its packets of 1,500
 * bytes. */
typedef struct net_figures {
    uint64_t frames, frame_bytes; /**< that arrived for the first time */
    double ideal_bytes; /**< the same, had messages been cut into frames as long as may be: what the
                           wire must carry at least */
    uint64_t needless;  /**< copies that arrived of frames that had arrived before */
    uint64_t needless_bytes;
    uint64_t wire_packets, wire_bytes; /**< sent from left to right, overhead left out */
    uint64_t back_packets, back_bytes; /**< sent from right to left */
    uint64_t dropped, lost, too_long;  /**< left to right: by the queue, by chance, by length */
    uint64_t marked;
    uint64_t queued;          /**< packets that entered the queue */
    double queue_ns;          /**< mean wait in the queue */
    uint64_t queue_ns_max;    /**< greatest */
    uint64_t messages;        /**< accepted */
    uint64_t message_payload; /**< their bytes */
    uint64_t gap_ns;          /**< longest time without a frame's first arrival */
    uint64_t wakeups;         /**< of both hosts */
    uint64_t past_deadlines;  /**< the deadline had passed, and neither timer nor poll helped */
    uint64_t finished_ns;     /**< when all messages were acknowledged; 0: not yet */
    int error;                /**< of a call that may not fail; the flow stands still then */
    const char *error_at;     /**< which; a link's violation is one */
} net_figures;

typedef struct net net;

net *net_new(const net_config *cfg);
void net_free(net *n);
/** Adds a flow; returns its number. At any time. */
int net_add_link(net *n, const net_link_config *cfg);
int net_add_reno(net *n, const net_reno_config *cfg);
/** Runs until the time `until`. */
void net_run(net *n, uint64_t until);
/** Runs until this link flow has finished (or failed), at most until `until`; true if it has. */
bool net_run_flow(net *n, int flow, uint64_t until);
uint64_t net_now(const net *n);
net_pipe_config *net_pipe(net *n, int way);
void net_counts(const net *n, int way, net_pipe_counts *out);
void net_flow_figures(const net *n, int flow, net_figures *out);
void net_flow_mark(net *n, int flow);
/** A link of a flow, for its stats: end 0 sends. NULL: a NewReno flow, or it did not begin. */
uvcc_link *net_flow_link(net *n, int flow, int end);
/** Congestion window of a NewReno flow in bytes. */
double net_reno_window(const net *n, int flow);
/** Frame bytes that a message of len bytes takes at least in frames of up to frame_bytes. */
uint64_t net_ideal_bytes(uint32_t len, uint32_t frame_bytes, bool sealed);

#endif
