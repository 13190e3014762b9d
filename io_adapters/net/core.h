/* SPDX-License-Identifier: Apache-2.0 */
/* core.h - what the files of a net share.
 *
 *     net.c       the object, its calls, the turn
 *     endpoint.c  a session or a link: its jobs, events, deadlines and transmits
 *     conn.c      a connection: dialled or accepted, TLS, the call, bytes, its end
 *     side.c      reads and writes of several connections side by side
 *     packets.c   UDP: batches of packets, to and from many sessions
 *     sockets.c   sockets and their options
 *     address.c   addresses as text
 *
 * An endpoint has a channel to each peer; a channel has at most one connection that is up, and one
 * that waits to take its place. Everything stands in lists of the net and is freed by it. */
#ifndef UVCC_IO_CORE_H
#define UVCC_IO_CORE_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>

#include <uvcc/demux.h>
#include <uvcc/net.h>

#include "io_adapters/net/address.h"
#include "io_adapters/net/io.h"
#include "io_adapters/tls/conn.h"

#define UVCCI_WHY_BYTES  256
#define UVCCI_LOG_LEVELS 4 /* uvcc_log_level */

typedef struct uvcci_endpoint uvcci_endpoint;
typedef struct uvcci_channel uvcci_channel;
typedef struct uvcci_conn uvcci_conn;
typedef struct uvcci_listener uvcci_listener;
typedef struct uvcci_packets uvcci_packets;

typedef enum uvcci_conn_state {
    UVCCI_CONN_CONNECTING, /**< dialled, not up */
    UVCCI_CONN_TLS,        /**< shaking hands */
    UVCCI_CONN_CALLING,    /**< dialled: the call goes out */
    UVCCI_CONN_CALLED,     /**< accepted: the call is to come */
    UVCCI_CONN_WAITING,    /**< accepted: the channel has another one, which may be dead */
    UVCCI_CONN_UP,
    UVCCI_CONN_LEAVING, /**< the session is gone: what was sent still arrives */
} uvcci_conn_state;

struct uvcci_conn {
    uvcci_source src;
    uvcc_net *net;
    uvcci_conn *prev, *next;
    uint8_t state; /**< uvcci_conn_state */
    bool accepted;
    uvcci_channel *ch; /**< NULL: an accepted one that has not called, or a leaving one */
    uvcci_tls_conn *tls;
    uvcc_tls *tls_wanted; /**< until it is opened */
    int gone;             /**< with TLS: errno that ended it; 0: none */
    uint32_t raw_reads;   /**< with TLS: of the socket, since the net asked for plaintext */
    uint8_t large;        /**< not 0: large frames came lately, and the next may be one */
    uint8_t *inbox;       /**< of UVCCI_INBOX_BYTES; NULL: none was needed */
    bool has_in, has_out; /**< was read to the inbox, or written, side by side with others: */
    ptrdiff_t in, out;    /**< what came of it, as of uvcci_io_ops.read and .write */
    uint64_t deadline;    /**< UVCC_NEVER: none */
    uint64_t up_at;       /**< when it came up */
    uint64_t called_at;   /**< WAITING: since when */
    uint8_t call[UVCC_CALL_BYTES];
    size_t call_len; /**< of the call: sent or here */
    uvcci_address other;
};

struct uvcci_channel {
    uvcci_endpoint *e;
    uint8_t peer;
    bool dials, has_address;
    uvcci_address address;
    uvcci_conn *conn;    /**< dialling or up */
    uvcci_conn *waiting; /**< accepted, for the place of one that may be dead */
    uint32_t attempts;
    uint64_t retry_at; /**< UVCC_NEVER: none */
    bool silent;       /**< the session says so of the peer */
    bool holding;      /**< tx is out */
    uvcc_transmit tx;
    size_t sent; /**< of tx */
    char why[UVCCI_WHY_BYTES];
};

struct uvcci_endpoint {
    uvcc_net *net;
    uvcci_endpoint *prev, *next;
    uvcc_session *s; /**< this, */
    uvcc_link *l;    /**< or this */
    uint64_t sid_tag;
    uint8_t me;
    bool datagram;
    bool closed;         /**< no more dials */
    bool removed;        /**< freed when the turn is over */
    int error;           /**< of a host's hook; sticky */
    const uvcc_job *job; /**< that a full executor did not take */
    uvcc_net_session how;
    uvcc_net_link how_link;
    uvcc_tls *tls;
    uvcci_channel ch[UVCC_PARTIES];
};

struct uvcci_listener {
    uvcci_source src;
    uvcci_listener *next;
    uvcci_address address;
    uvcc_tls *tls;
    uint64_t retry_at; /**< no descriptor was left to accept with */
    struct stat made;  /**< Unix: the file that bind() made */
};

struct uvcc_net {
    uvcc_net_config cfg;
    uvcci_io io;
    uvcci_source wake;
    atomic_bool woken; /**< wake is readable, or is about to be */
    uvcc_demux *demux;
    uvcci_endpoint *endpoints;
    uvcci_conn *conns;
    uvcci_listener *listeners;
    uvcci_packets *packets; /**< sockets of packets */
    uint8_t *scratch;       /**< where bytes come that have no place yet */
    bool in_turn;
    bool free_after; /**< the turn */
    bool again;      /**< the next turn has something to do already */
    int error;       /**< of this turn */
    uint64_t now;
    uint64_t log_second;
    uint32_t log_count[UVCCI_LOG_LEVELS]; /**< in this second */
    uvcc_net_refusal refusal;             /**< the last one; count 0: none */
    uvcc_net_stats stats;
};

#define UVCCI_SCRATCH_BYTES (256u << 10)
#define UVCCI_INBOX_BYTES   (512u << 10)
#define UVCCI_SIDE_BYTES    (32u << 10) /* to write: fewer are gone before another thread comes */

/* ---- net.c ---- */
void *uvcci_net_alloc(uvcc_net *n, size_t bytes);
void uvcci_net_give(uvcc_net *n, void *p, size_t bytes);
void uvcci_net_log(uvcc_net *n, uvcc_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- endpoint.c ---- */
/** Hands events, jobs, completions and transmits on until nothing more is to do now. */
void uvcci_endpoint_turn(uvcci_endpoint *e);
/** What is computed is completed, and the jobs that follow go out: before bytes are read and
 * opened, where the host has threads for those. Neither event nor hook comes of it. False: nothing
 * was. */
bool uvcci_endpoint_ahead(uvcci_endpoint *e);
/** So do those that follow from what came of one peer, before bytes of the next are opened. */
void uvcci_endpoint_jobs(uvcci_endpoint *e);
uint64_t uvcci_endpoint_deadline(const uvcci_endpoint *e);
/** When something came that only the peer can have sent; UVCC_NEVER: nothing yet. */
uint64_t uvcci_endpoint_heard(const uvcci_endpoint *e, uint8_t peer);
int uvcci_endpoint_feed(uvcci_endpoint *e, uint8_t peer, const uint8_t *bytes, size_t len);
/** The same of bytes that hold several frames, which may be opened side by side. */
int uvcci_endpoint_feed_frames(uvcci_endpoint *e, uint8_t peer, const uint8_t *bytes, size_t len);
/** A packet; ce: with ECN's mark. */
void uvcci_endpoint_packet(uvcci_endpoint *e, uint8_t peer, const uint8_t *bytes, size_t len,
                           bool ce);
/** Where the next bytes of a stream may be put; false: nowhere. */
bool uvcci_endpoint_place(uvcci_endpoint *e, uint8_t peer, uint8_t **to, size_t *len);
int uvcci_endpoint_placed(uvcci_endpoint *e, uint8_t peer, size_t len);
void uvcci_endpoint_up(uvcci_endpoint *e, uint8_t peer, const uint8_t *binding);
void uvcci_endpoint_down(uvcci_endpoint *e, uint8_t peer);
/** Sends what the channel holds; false: the connection takes no more now. */
bool uvcci_channel_send(uvcci_channel *ch);

/* ---- conn.c ---- */
/** Dials; on failure the channel waits to try again. */
void uvcci_channel_dial(uvcci_channel *ch);
/** Takes what its listener has. */
void uvcci_conn_accept(uvcc_net *n, uvcci_listener *at);
/** Goes on with whatever it is at. */
void uvcci_conn_ready(uvcci_conn *c);
/** Its deadline has come. */
void uvcci_conn_late(uvcci_conn *c);
/** Ends it; its channel hears of it, and dials again if it is its turn. */
void uvcci_conn_lost(uvcci_conn *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** What was sent still arrives: it stays for a while without its channel. */
void uvcci_conn_leave(uvcci_conn *c);
/** Of a channel whose peer the session calls silent, or heard again. */
void uvcci_channel_silence(uvcci_channel *ch, bool silent);
/** Ends it without a word to anybody. */
void uvcci_conn_free(uvcci_conn *c);
/** What of these is left behind `skip`, for the system: how many. */
int uvcci_conn_iov(struct iovec iov[UVCC_TRANSMIT_SLICES_MAX], const uvcc_slice *slices,
                   uint32_t count, size_t skip);
/** As of uvcci_io_ops.write. What was written side by side with others is said by the next call, of
 * the same bytes. */
ptrdiff_t uvcci_conn_write(uvcci_conn *c, const uvcc_slice *slices, uint32_t count, size_t skip);
/** Of an error of reading or writing. */
const char *uvcci_conn_why(const uvcci_conn *c, ptrdiff_t rc);

/* ---- side.c ---- */
/** Whether connections may be read and written side by side. */
bool uvcci_side_is_on(const uvcc_net *n);
/** Whether executors' jobs go before all else: a host with helpers has them for the time that its
 * executors would wait. */
bool uvcci_side_jobs_first(const uvcc_net *n);
/** Of the connections that are ready: reads those of large frames to their inboxes, and, if two
 * have something large, writes what others hold. What came of it stands with each, for its turn. */
void uvcci_side_ready(uvcc_net *n);
/** Writes what two channels hold. What came of it stands with each, for uvcci_channel_send(). */
void uvcci_side_send(uvcci_channel *a, uvcci_channel *b);

/* ---- packets.c ---- */
/** A socket for packets from now on; src.fd is the net's already. */
int uvcci_packets_open(uvcc_net *n, int fd, const uvcci_address *bound);
void uvcci_packets_free_all(uvcc_net *n);
/** Takes what came, sends what waits. */
void uvcci_packets_ready(uvcci_packets *p);
/** The socket from which packets go to that address; NULL: there is none of its kind. */
uvcci_packets *uvcci_packets_for(uvcc_net *n, const uvcci_address *to);
uvcci_packets *uvcci_packets_next(const uvcci_packets *p);
/** Whether it takes a packet now. */
bool uvcci_packets_room(const uvcci_packets *p);
/** Copies a packet to send. */
void uvcci_packets_put(uvcci_packets *p, const uvcci_address *to, const uvcc_transmit *tx);
/** Sends what waits, of all sockets; at the end of a turn. */
void uvcci_packets_flush_all(uvcc_net *n);

/* ---- sockets.c ---- */
/** A socket that is being connected; negative: -errno. */
int uvcci_socket_dial(uvcc_net *n, const uvcci_address *to);
/* Round trips as TCP measures them for its own timers; 0: it is no TCP. */
uint64_t uvcci_socket_rtt(int fd);
/** A socket that listens, or is bound for packets; *a gets the port. -errno. */
int uvcci_socket_listen(uvcc_net *n, uvcci_address *a);
/** Options of a socket for packets: ECN, path MTU by our own search, GRO, many bytes. */
void uvcci_socket_tune_packets(uvcc_net *n, int fd, const uvcci_address *bound);
/** Options of a connection: no delay, keep-alive, buffers. */
void uvcci_socket_tune(uvcc_net *n, int fd, const uvcci_address *other);
/** Has the kernel ask the other end's for a sign of life, within a second; tune() ends it. */
void uvcci_socket_ask(int fd, const uvcci_address *other);
/** Whether there was one in the last so many milliseconds. True where the kernel itself would know
 * of an end. */
bool uvcci_socket_answers(int fd, const uvcci_address *other, uint64_t ms);

#endif
