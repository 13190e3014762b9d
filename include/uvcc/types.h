/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/types.h - errors, hooks and small types that every public header shares.
 *
 * Conventions of the whole API
 *  - A call returns 0 (or a count) on success and a negative uvcc_error otherwise. Unless its
 *    documentation says "fatal", a failed call has changed nothing.
 *  - A NULL where the documentation allows none is UVCC_ERR_USAGE, also from polls. Calls that
 *    return something else do nothing then and say 0, false, NULL or "" (a deadline: UVCC_NEVER).
 *    `free` takes NULL.
 *  - Time is `uint64_t` nanoseconds of any monotonic clock, always the last argument;
 *    UVCC_NEVER means "no deadline". A clock that steps back is clamped, never asserted.
 *  - Nothing blocks, nothing calls back except the hooks below, the recorder and the tracer of a
 *    session and those of an executor, and a hook must not call the library.
 *  - One owner at a time per object, no locks, no globals. Different objects may live on
 *    different threads.
 */
#ifndef UVCC_TYPES_H
#define UVCC_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define UVCC_API      __attribute__((visibility("default")))
#define UVCC_MUST_USE __attribute__((warn_unused_result))
#else
#define UVCC_API
#define UVCC_MUST_USE
#endif

#define UVCC_PARTIES 3u
#define UVCC_NEVER   UINT64_MAX
/** Elements of one block: the unit in which vectors are masked, opened, keyed and lifted. */
#define UVCC_BLOCK_ELEMS 4096u
/** Bytes of one chunk of a message (wire.md, FRAME). */
#define UVCC_CHUNK_BYTES (1u << 20)
/** Greatest payload of one part of a round; part of the program hash. */
#define UVCC_PART_BYTES (8u << 20)

/** Errors, in classes: -1xx usage (fix the call), -2xx transient (try again later), -3xx peer
 * (the peer broke the protocol), -4xx device (a compute job failed), -5xx fatal (sticky: the
 * object only closes now). The list lives in errors.def. */
typedef enum uvcc_error {
    UVCC_OK = 0,
#define UVCC_ERROR(name, code, text) UVCC_ERR_##name = (code),
#include <uvcc/errors.def>
#undef UVCC_ERROR
} uvcc_error;

/** A static sentence for an error code; "unknown error" for anything else. */
UVCC_API const char *uvcc_error_text(int error);
/** The name of an error code, such as "USAGE"; "UNKNOWN" for anything else. */
UVCC_API const char *uvcc_error_name(int error);

/** What a block of memory holds, so that an allocator can place it. */
typedef enum uvcc_mem_class {
    UVCC_MEM_STATE = 0,  /**< bookkeeping */
    UVCC_MEM_WIRE = 1,   /**< message bytes; pinned when a GPU is there. `free` wipes it */
    UVCC_MEM_SECRET = 2, /**< keys; lock it if you can. The library wipes it before freeing */
    UVCC_MEM_TENSOR = 3, /**< shares and scratch of compute jobs. Only jobs touch it, so it may
                              lie on a device; `free` wipes it, for it alone knows where it is */
} uvcc_mem_class;

/** Allocator hook. `alloc` returns memory aligned to 64 bytes or NULL; `free` gets the same size
 * and class back. NULL hooks are refused: the library has no malloc of its own
 * (<uvcc/host.h> has the usual ones). */
typedef struct uvcc_allocator {
    void *(*alloc)(void *user, size_t bytes, uvcc_mem_class cls);
    void (*free)(void *user, void *p, size_t bytes, uvcc_mem_class cls);
    void *user;
    /** As `free`, of WIRE memory whose bytes were all sealed where they stand: they are no secret,
     * and need no wiping. NULL: `free` is called instead. */
    void (*free_sealed)(void *user, void *p, size_t bytes, uvcc_mem_class cls);
} uvcc_allocator;

/** Random bytes hook: fills `out` with `bytes` bytes fit for keys; 0, or negative if it cannot. */
typedef struct uvcc_random {
    int (*fill)(void *user, void *out, size_t bytes);
    void *user;
} uvcc_random;

typedef enum uvcc_log_level {
    UVCC_LOG_ERROR = 0,
    UVCC_LOG_WARN = 1,
    UVCC_LOG_INFO = 2,
    UVCC_LOG_DEBUG = 3,
} uvcc_log_level;

/** Log hook; may be NULL. No secret ever reaches it. */
typedef struct uvcc_logger {
    void (*write)(void *user, uvcc_log_level level, const char *line);
    void *user;
} uvcc_logger;

/** Parallel-for hook: runs item(arg, 0) .. item(arg, count - 1), each once, in any threads and any
 * order, and returns when all are done. What the caller wrote is seen by the items, and what they
 * write by the caller. Where several threads drive what has the same one (links, sessions, nets),
 * each of them calls it, at the same time too. */
typedef struct uvcc_parallel {
    void (*run)(void *user, void (*item)(void *arg, uint32_t i), void *arg, uint32_t count);
    void *user;
} uvcc_parallel;

/** Bytes that someone else owns. */
typedef struct uvcc_slice {
    const uint8_t *data;
    size_t len;
} uvcc_slice;

/** Most slices of a transmit: room for one iovec each, or for sendmsg in one call (IOV_MAX is 1024
 * on Linux, and at least 16). */
#define UVCC_TRANSMIT_SLICES_MAX 64u

/** Bytes to put on the wire. At most one is outstanding per link, and so per peer of a session:
 * poll returns 0 until transmit_done. Slices stay valid until then. On a stream `done` may be
 * called with fewer bytes than `total`: the rest is offered next. A datagram goes whole or is lost
 * (bytes == 0 or total).
 */
typedef struct uvcc_transmit {
    uint64_t id;
    uint8_t peer;
    uint32_t slice_count; /**< 1..UVCC_TRANSMIT_SLICES_MAX */
    const uvcc_slice *slices;
    size_t total;
} uvcc_transmit;

/** Library version, "0.1.0". */
UVCC_API const char *uvcc_version(void);

#ifdef __cplusplus
}
#endif
#endif
