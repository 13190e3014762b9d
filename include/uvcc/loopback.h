/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/loopback.h - an in-memory network with a virtual clock and seeded faults: a run over it is a
 * pure function of its seeds.
 *
 * It knows nothing of sessions: it carries bytes between numbered nodes. uvcc_loopback_drive()
 * joins it to sessions and executors for the common case, uvcc_loopback_drive_all() does for a job
 * of many workers.
 *
 * Faults are drawn per directed link from streams split per concern (drop, duplicate, ...), so that
 * changing one rate does not change the draws of another.
 */
#ifndef UVCC_LOOPBACK_H
#define UVCC_LOOPBACK_H

#include <uvcc/collective.h>
#include <uvcc/session.h>
#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Probabilities are in [0, 1) per packet (datagram) or per written piece (stream). Drop,
 * duplicate, reorder, corrupt and truncate apply to datagrams; on streams corrupt and truncate end
 * the connection's usefulness (the receiver breaks the stream), drop, duplicate and reorder are
 * ignored. */
typedef struct uvcc_fault_config {
    double drop, duplicate, reorder, corrupt, truncate;
    double split;           /**< streams: a delivery is cut into random pieces */
    double coalesce;        /**< streams: a delivery waits to be joined with the next */
    uint64_t delay_ns;      /**< one-way latency; 0: 50 us */
    uint64_t jitter_ns;     /**< uniform, added */
    uint64_t reorder_ns;    /**< extra delay of a reordered packet; 0: 4 * delay */
    uint64_t bandwidth_bps; /**< bits per second, 0: without limit */
    double stall;           /**< a link stops delivering ... */
    uint64_t stall_ns;      /**< ... for up to this long; 0: 50 ms */
    double disconnect;      /**< streams: the connection drops, comes back after ... */
    uint64_t disconnect_ns; /**< ... up to this long; 0: 20 ms */
    uint64_t queue_bytes;   /**< bytes in flight per directed link; 0: 64 MiB. Datagrams beyond are
                                 dropped, streams take a part */
    double partial;         /**< streams: a send takes only a random part */
} uvcc_fault_config;

typedef struct uvcc_loopback uvcc_loopback;

typedef struct uvcc_loopback_stats {
    uint64_t packets, bytes, dropped, duplicated, reordered, corrupted, truncated, stalls,
        disconnects;
} uvcc_loopback_stats;

/** nodes >= 2; datagram or stream for all links. */
UVCC_API int uvcc_loopback_new(uvcc_loopback **out, const uvcc_allocator *al, uint32_t nodes,
                               bool datagram, uint64_t seed) UVCC_MUST_USE;
UVCC_API void uvcc_loopback_free(uvcc_loopback *n);
/** Faults of the directed link from -> to; NULL: none. May change at any time. */
UVCC_API int uvcc_loopback_set_faults(uvcc_loopback *n, uint32_t from, uint32_t to,
                                      const uvcc_fault_config *f);
/** Sets them for all links. */
UVCC_API int uvcc_loopback_set_all_faults(uvcc_loopback *n, const uvcc_fault_config *f);
/** Cuts or restores a directed link (partition): nothing is delivered while it is cut. */
UVCC_API int uvcc_loopback_cut(uvcc_loopback *n, uint32_t from, uint32_t to, bool cut);
/** Streams: drops the connection between two nodes now. */
UVCC_API int uvcc_loopback_disconnect(uvcc_loopback *n, uint32_t a, uint32_t b);

UVCC_API uint64_t uvcc_loopback_now(const uvcc_loopback *n);
/** Sends slices; returns the bytes taken (datagram: all or 0; a dropped one counts as taken). */
UVCC_API size_t uvcc_loopback_send(uvcc_loopback *n, uint32_t from, uint32_t to,
                                   const uvcc_slice *slices, uint32_t count);

typedef enum uvcc_loopback_event_kind {
    UVCC_LOOPBACK_DATA = 1,
    UVCC_LOOPBACK_OPENED = 2, /**< stream between `from` and `to` is up (reported to `to`) */
    UVCC_LOOPBACK_CLOSED = 3,
} uvcc_loopback_event_kind;
typedef struct uvcc_loopback_event {
    uvcc_loopback_event_kind kind;
    uint32_t from, to;
    const uint8_t *data; /**< valid until the next poll */
    size_t len;
} uvcc_loopback_event;
/** 1 and what is due at the present virtual time, else 0. */
UVCC_API int uvcc_loopback_poll(uvcc_loopback *n, uvcc_loopback_event *out);
/** When something is due next; UVCC_NEVER. */
UVCC_API uint64_t uvcc_loopback_next(const uvcc_loopback *n);
/** Moves the clock forward to `t` (never back). */
UVCC_API void uvcc_loopback_advance(uvcc_loopback *n, uint64_t t);
UVCC_API void uvcc_loopback_get_stats(const uvcc_loopback *n, uvcc_loopback_stats *out);

/** One turn for `count` sessions (node i = session i = party i of one triangle) and their
 * executors: delivers what is due, hands jobs to executors and completions back, moves bytes, fires
 * timers; when nothing can happen at the present time, advances the clock to the next deadline
 * (waiting for threads' completions first). Events stay in the sessions for the host to poll.
 * Returns 1 if anything happened, 0 if nothing can ever happen again (all waiting for ever: a
 * deadlock or all closed), or a negative error. NULL sessions are skipped. */
UVCC_API int uvcc_loopback_drive(uvcc_loopback *n, uvcc_session *const *sessions,
                                 uvcc_cpu *const *executors, uint32_t count);

/** Three sessions with the same replica, stage and tensor rank, over a network of their own. */
typedef struct uvcc_loopback_triangle {
    uvcc_loopback *net;
    uvcc_session *sessions[UVCC_PARTIES];
    uvcc_cpu *executors[UVCC_PARTIES];
} uvcc_loopback_triangle;
#define UVCC_LOOPBACK_TRIANGLES_MAX 64u

/** The same turn for all workers of a job under one clock: triangle i has local rank i at every
 * party, and collectives[p] is party p's (its workers' local jobs go there and come back). A job
 * that waits there for other workers is no reason for the clock to stand still. All networks are
 * moved to the latest of their times. When a session was aborted, its host calls
 * uvcc_collective_fail(), or its party's other workers may wait for ever. `count` is at most
 * UVCC_LOOPBACK_TRIANGLES_MAX. */
UVCC_API int uvcc_loopback_drive_all(const uvcc_loopback_triangle *triangles, uint32_t count,
                                     uvcc_collective *const collectives[UVCC_PARTIES]);

#ifdef __cplusplus
}
#endif
#endif
