/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/net.h - sessions over the network: TCP, Unix sockets, TLS and UDP, on epoll or io_uring.
 * Linux; library uvcc-io.
 *
 * A net carries the bytes of any number of sessions (and of bare links), dials and listens,
 * reconnects, runs their jobs, keeps their deadlines, and hands events to the host. It is one file
 * descriptor to whatever loop the host has:
 *
 *     watch uvcc_net_fd(net) for reading, and arm a timer for uvcc_net_deadline(net);
 *     when either comes: uvcc_net_turn(net);
 *
 * or, without a loop: while (!done) uvcc_net_wait(net, until_ns). examples/loops has it for poll,
 * libuv, libevent, GLib and asyncio.
 *
 * Who dials: of two parties the one of the higher index, to the address that its host gave; the
 * other listens. The first message of a connection, the call (<uvcc/demux.h>), says which session
 * is meant, so one listener serves all workers of a party. Packets carry it themselves.
 *
 * A connection that came up ends when the system says so. Where something between the machines
 * answers for a peer that it does not reach, the system never does: so a peer that the session
 * calls silent (config.links.silence_ns) is called anew by the end that dials, until it is heard.
 *
 * Threads: everything of one net is called by one thread at a time; uvcc_net_wake() by any. Nothing
 * here blocks but uvcc_net_wait(), and uvcc_net_add*() and uvcc_net_set_peer() where an address is
 * a name that must be looked up. Signals: SIGPIPE is never raised; EINTR is handled. After a fork
 * only one of the two processes may go on with a net, and the other must not free it: open sockets
 * are close-on-exec. */
#ifndef UVCC_NET_H
#define UVCC_NET_H

#include <stdbool.h>
#include <uvcc/compute.h>
#include <uvcc/link.h>
#include <uvcc/session.h>
#include <uvcc/tls.h>
#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct uvcc_net uvcc_net;

/** AUTO: epoll, which every Linux has. */
enum { UVCC_NET_AUTO = 0, UVCC_NET_EPOLL = 1, UVCC_NET_URING = 2 };
UVCC_API const char *uvcc_net_backend_name(uint32_t backend);
/** 0, or UVCC_ERR_NOT_FOUND and in *why (static; may be NULL) what is missing: it is not built in,
 * or the kernel refuses it; UVCC_ERR_LIMIT, UVCC_ERR_NOMEM: it is here, and has no descriptor or
 * memory now. */
UVCC_API int uvcc_net_backend_is_here(uint32_t backend, const char **why);

typedef struct uvcc_net_config {
    size_t size; /**< sizeof(uvcc_net_config) */
    uvcc_allocator alloc;
    uvcc_random random; /**< for the jitter of back-off */
    uvcc_logger log;    /**< connections: INFO; what was refused and why: WARN, at a limited rate */
    uint32_t backend;   /**< UVCC_NET_* */
    uint32_t pending_max; /**< connections that were accepted and have not called; 0: 256. When it
                               is reached the oldest goes */
    uint64_t call_ns;     /**< how long a connection may take until it has called (and TLS shook
                               hands), and a dialled one until it is up; 0: 10 s */
    uint64_t retry_min_ns, retry_max_ns; /**< wait before dialling again: doubles between these,
                                            with a jitter of half of it; 0: 50 ms, 5 s */
    uint64_t idle_ns;      /**< a peer's machine that is gone is noticed after so long without its
                                acknowledgement (TCP keep-alive, TCP_USER_TIMEOUT); 0: 30 s */
    uint32_t socket_bytes; /**< SO_SNDBUF and SO_RCVBUF; 0: as the system has them (UDP: 4 MiB, if
                                the system allows it) */
    uint32_t turn_bytes;   /**< read and written per connection in a turn at most, so that one does
                              not   keep others waiting; 0: 1 MiB */
    uint32_t unsent_bytes; /**< TCP_NOTSENT_LOWAT, of TCP: so many bytes wait in the kernel for the
                                line, and no more. Behind them a message waits in its session, where
                                what is online overtakes keys. 0: 128 KiB; UINT32_MAX: as the
                                system has it */
    /** Streams without TLS, on epoll: what has come of large frames and what is to go to several
     * peers is read and written side by side, and so are frames opened, where the session has such
     * a hook too (uvcc_config.threads.parallel). Jobs for `cpu` of a session go out before
     * more is read or opened. A run of NULL: all by the thread of the turn, one after the other.
     * The hook's threads touch sockets and bytes alone; that thread is in the turn all the while.
     * A connection over which a large frame came takes 512 KiB of alloc's until it ends, and its
     * turn takes so much at once whatever turn_bytes says. */
    uvcc_parallel parallel;
    uint64_t look_ns; /**< so long uvcc_net_wait() looks whether there is something to do before it
                           sleeps (a signal does not end that): for hosts with cores to spare, since
                           to be woken takes longer. 0: it sleeps at once. uvcc_net_turn() never
                           waits: who watches uvcc_net_fd() looks by himself */
} uvcc_net_config;

/** Zeros and the size: the zeros above mean defaults. */
UVCC_API void uvcc_net_config_default(uvcc_net_config *cfg);
/** UVCC_ERR_NOT_FOUND: the back end is not here. UVCC_ERR_LIMIT: no descriptors. */
UVCC_API int uvcc_net_new(uvcc_net **out, const uvcc_net_config *cfg) UVCC_MUST_USE;
/** Closes all its sockets; sessions, links and executors are the host's, and stay. They are not
 * told: who goes on with them removes them first. From a hook: when the turn is over. */
UVCC_API void uvcc_net_free(uvcc_net *n);

/** An address: "tcp:HOST:PORT" with HOST a name, 192.0.2.1 or [2001:db8::1]; "udp:HOST:PORT";
 * "unix:PATH". Ports: numbers. Listening, HOST may be * (IPv6 and IPv4) and PORT 0 (any that is
 * free). At most 256 bytes. */
#define UVCC_NET_ADDRESS_BYTES 256u
/** Serves those who call there; tls (NULL: none) for streams, and it must outlive n. The port that
 * it got goes into *port (may be NULL; 0 for Unix). A udp: address is where packets of sessions
 * that are added later come and go; one per net and address family. A Unix socket's file that
 * nobody listens at any more is replaced, and taken away by uvcc_net_free(). UVCC_ERR_CONFIG: the
 * log says what is wrong with the address; UVCC_ERR_IO: the name of its host cannot be looked up
 * now; UVCC_ERR_LIMIT: no descriptors; UVCC_ERR_STATE: in use or not allowed, the log says which.
 * With io_uring it waits for an address in use, two seconds at most: the kernel closes the sockets
 * of a process that was killed only after it is gone. */
UVCC_API int uvcc_net_listen(uvcc_net *n, const char *address, uvcc_tls *tls, uint16_t *port);

/** How a session goes over a net. All of it is copied; what it points to is the host's. */
typedef struct uvcc_net_session {
    size_t size;   /**< sizeof(uvcc_net_session) */
    uint8_t party; /**< of this end */
    /** By peer: where it listens. A peer of a higher index calls by itself, from wherever it is,
     * and needs none; with packets all are needed. */
    const char *address[UVCC_PARTIES];
    /** For connections that this end dials; NULL: plain. With it who calls without TLS, by whatever
     * listener, is turned away. Must outlive it. */
    uvcc_tls *tls;
    /** Runs its jobs; NULL: `job` gets them all. With UVCC_CPU_THREADS its `wake` is
     * uvcc_net_wake() with n as `wake_user`. */
    uvcc_cpu *cpu;
    /** Jobs of the local plane (<uvcc/collective.h>), and all without `cpu`: hand their
     * completions to uvcc_session_complete() on the net's thread, then uvcc_net_turn(). 0, or a
     * negative error, which ends the turn. NULL: the session has none. */
    int (*job)(void *user, uvcc_session *s, const uvcc_job *job);
    /** Every event of the session, in their order. Calls to the session take the `now` that it
     * gets. It may call the session, and uvcc_net_remove() for this one after CLOSED. */
    void (*event)(void *user, uvcc_session *s, const uvcc_event *e, uint64_t now);
    void *user;
} uvcc_net_session;
/** After uvcc_session_start(), with the net's clock: uvcc_host_now_ns(). UVCC_ERR_CONFIG: the log
 * says what is wrong; UVCC_ERR_IO: the name of a peer's host cannot be looked up, which may be
 * otherwise later; UVCC_ERR_STATE: a session with that sid_tag is here already. The session must
 * outlive its place here. */
UVCC_API int uvcc_net_add(uvcc_net *n, uvcc_session *s, const uvcc_net_session *how);
/** Its connections are closed (what is queued in sockets still goes out), and it is told so as by
 * uvcc_session_peer_closed(): it may be added to another net. UVCC_ERR_NOT_FOUND: it is not here.
 */
UVCC_API int uvcc_net_remove(uvcc_net *n, uvcc_session *s);
/** Another address of a peer, used from the next dial on (packets: at once). Errors as of
 * uvcc_net_add(): then it keeps the one that it has. */
UVCC_API int uvcc_net_set_peer(uvcc_net *n, uvcc_session *s, uint8_t peer, const char *address);

/** A bare link, for hosts that speak frames without a session. */
typedef struct uvcc_net_link {
    size_t size;
    uint8_t me, peer;
    uint64_t sid_tag;
    bool datagram;
    const char *address; /**< of the peer; as in uvcc_net_session */
    uvcc_tls *tls;
    /** After anything happened with the link in a turn: poll its messages, send. */
    void (*turn)(void *user, uvcc_link *l, uint64_t now);
    void *user;
} uvcc_net_link;
UVCC_API int uvcc_net_add_link(uvcc_net *n, uvcc_link *l, const uvcc_net_link *how);
UVCC_API int uvcc_net_remove_link(uvcc_net *n, uvcc_link *l);

/* ---- the loop ---- */

/** Readable when uvcc_net_turn() has something to do. The same for the life of n. */
UVCC_API int uvcc_net_fd(const uvcc_net *n);
/** When uvcc_net_turn() must come at the latest, by uvcc_host_now_ns(); 0: at once; UVCC_NEVER. */
UVCC_API uint64_t uvcc_net_deadline(const uvcc_net *n);
/** The same as a timeout for poll(): whole milliseconds from now, rounded up; -1: none. */
UVCC_API int uvcc_net_timeout_ms(const uvcc_net *n);
/** Does what there is to do, without waiting: 1: something, 0: nothing, negative: an error of a
 * session's host calls, which sticks to that session only: the log names it. After calls to a
 * session from outside of its events (input, step, close) a turn sends what they made. */
UVCC_API int uvcc_net_turn(uvcc_net *n);
/** Waits until something is to do, or until `until` (uvcc_host_now_ns(); UVCC_NEVER: without end),
 * then does it: as uvcc_net_turn(). A signal ends the wait: 0. */
UVCC_API int uvcc_net_wait(uvcc_net *n, uint64_t until);
/** Ends a wait, or makes the descriptor readable; from any thread, or a signal's handler. The type
 * is that of uvcc_cpu_config.wake. */
UVCC_API void uvcc_net_wake(void *net);

/* ---- inspection ---- */

typedef struct uvcc_net_stats {
    uint64_t dials, accepts, connections_lost, refused; /**< refused: calls that were none or for
                                                             nobody, TLS that failed, time that ran
                                                             out */
    uint64_t bytes_rx, bytes_tx;                    /**< of frames and calls; without TLS's own */
    uint64_t packets_rx, packets_tx;                /**< UDP */
    uint64_t syscalls;                              /**< reads, writes, waits */
    uint32_t sessions, links, connections, pending; /**< now */
} uvcc_net_stats;
UVCC_API void uvcc_net_get_stats(const uvcc_net *n, uvcc_net_stats *out);
/** What is known of the connection to a peer. */
typedef struct uvcc_net_peer {
    size_t size;    /**< set by the caller */
    bool connected; /**< streams: it is up; packets: something of it came, maybe long ago */
    bool dials;     /**< this end does */
    bool tls;
    uint32_t attempts;                    /**< dials that failed since it was last connected */
    uint64_t retry_at;                    /**< UVCC_NEVER: it does not wait to dial */
    char address[UVCC_NET_ADDRESS_BYTES]; /**< of the connection, else the configured one */
    char why[256];                        /**< why the last connection or attempt ended; "" */
    uint64_t rtt_ns; /**< round trips to it, smoothed: TCP's own measure, for packets the link's; 0:
                          not measured (Unix sockets) */
} uvcc_net_peer;
UVCC_API int uvcc_net_peer_info(const uvcc_net *n, const uvcc_session *s, uint8_t peer,
                                uvcc_net_peer *out);
/** The same of a bare link's. UVCC_ERR_NOT_FOUND: it is not here. */
UVCC_API int uvcc_net_link_info(const uvcc_net *n, const uvcc_link *l, uvcc_net_peer *out);
/** The last connection that came and was turned away before anybody knew for which session: what is
 * wrong may be this end's, and nobody else at this end hears of it. */
typedef struct uvcc_net_refusal {
    size_t size;                          /**< set by the caller */
    uint64_t count;                       /**< so many were; 0: the rest is empty */
    char address[UVCC_NET_ADDRESS_BYTES]; /**< whose */
    char why[256];                        /**< and what to look at, in a line of English */
} uvcc_net_refusal;
UVCC_API int uvcc_net_refused(const uvcc_net *n, uvcc_net_refusal *out);

#ifdef __cplusplus
}
#endif
#endif
