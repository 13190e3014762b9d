/* SPDX-License-Identifier: Apache-2.0 */
/* io.h - what a net needs of the operating system, so that epoll and io_uring look the same to it.
 *
 * A source is a descriptor that is watched. The back end sets bits in its `ready` and puts it into
 * the queue; whoever reads or writes until UVCC_ERR_AGAIN finds them cleared, and is told anew. So
 * a source with bits set has more to give: the net comes back to it in the next turn.
 *
 * Writing is as with SSL_write: it is tried while WRITE is set, and a write that says
 * UVCC_ERR_AGAIN is repeated with the same bytes, which stay where they are until it says something
 * else or the source is removed; a back end may have the kernel working on them. */
#ifndef UVCC_IO_IO_H
#define UVCC_IO_IO_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <uvcc/net.h>

enum { UVCCI_READ = 1, UVCCI_WRITE = 2 };

typedef enum uvcci_source_kind {
    UVCCI_SOURCE_LISTENER,
    UVCCI_SOURCE_STREAM, /**< also while it connects: WRITE says that it is up or failed */
    UVCCI_SOURCE_PACKETS,
    UVCCI_SOURCE_WAKE,
} uvcci_source_kind;

typedef struct uvcci_source uvcci_source;
struct uvcci_source {
    int fd; /**< -1: none */
    uint8_t kind;
    uint8_t ready;
    bool queued;
    bool ended; /**< set by the back end: the other end has said its last, or is gone */
    uvcci_source *next_ready;
    void *owner;   /**< the net's */
    void *backend; /**< the back end's */
};

/** A read or a write of several that go side by side. */
typedef struct uvcci_part {
    uvcci_source *src;
    bool write;
    const struct iovec *iov;
    int count;
    ptrdiff_t rc; /**< as of read() or write() */
} uvcci_part;

typedef struct uvcci_io uvcci_io;
typedef struct uvcci_io_ops {
    const char *name;
    int (*open)(uvcci_io *io, const uvcc_net_config *cfg);
    void (*close)(uvcci_io *io);
    /** Readable when wait() would find something. */
    int (*fd)(const uvcci_io *io);
    /** Begins to watch src->fd (non-blocking), which is the back end's until remove(). */
    int (*add)(uvcci_io *io, uvcci_source *src);
    /** Ends it; nothing of the source's is used by the kernel after it. The descriptor stays. */
    void (*remove)(uvcci_io *io, uvcci_source *src);
    /** Before the bytes of a write that said UVCC_ERR_AGAIN go away while the source stays: the
     * kernel lets go of them, and nothing is written any more. NULL: none are ever held. */
    void (*settle)(uvcci_io *io, uvcci_source *src);
    /** Bytes of a stream into iov; 0: its end; UVCC_ERR_AGAIN; another negative: -errno. */
    ptrdiff_t (*read)(uvcci_io *io, uvcci_source *src, const struct iovec *iov, int count);
    /** Without a copy, where the back end has bytes already: NULL if it has no such thing. *len
     * bytes at what it returns, to be given back by consume(). NULL and *rc as of read(). */
    const uint8_t *(*view)(uvcci_io *io, uvcci_source *src, size_t *len, ptrdiff_t *rc);
    void (*consume)(uvcci_io *io, uvcci_source *src, size_t len);
    /** Bytes taken; UVCC_ERR_AGAIN; another negative: -errno. */
    ptrdiff_t (*write)(uvcci_io *io, uvcci_source *src, const struct iovec *iov, int count);
    /** Each as read() or write() alone would be, of another source each, in threads of `by`. NULL:
     * the back end's calls copy nothing that others could copy meanwhile. */
    void (*several)(uvcci_io *io, uvcci_part *part, uint32_t count, const uvcc_parallel *by);
    /** At the end of a turn: what was begun in it reaches the kernel. NULL: it has already. */
    void (*flush)(uvcci_io *io);
    /** Fills the queue of ready sources; waits for at most timeout_ns (UVCC_NEVER: without end)
     * if there are none. 0 or UVCC_ERR_*; an interrupting signal is no error. */
    int (*wait)(uvcci_io *io, uint64_t timeout_ns);
} uvcci_io_ops;

struct uvcci_io {
    const uvcci_io_ops *ops;
    uvcc_allocator alloc;
    uvcci_source *first, *last; /**< the queue of ready sources */
    uint64_t syscalls;
    void *state;
};

extern const uvcci_io_ops uvcci_io_epoll;
/** NULL if it is not built in. */
const uvcci_io_ops *uvcci_io_uring(void);
/** 0; UVCC_ERR_NOT_FOUND and why; UVCC_ERR_LIMIT, UVCC_ERR_NOMEM: it is, and cannot now. */
int uvcci_io_uring_works(const char **why);

/** Puts a source into the queue, so that the net looks at it in its next turn. */
static inline void uvcci_io_queue(uvcci_io *io, uvcci_source *src) {
    if (src->queued)
        return;
    src->queued = true;
    src->next_ready = NULL;
    if (io->last != NULL)
        io->last->next_ready = src;
    else
        io->first = src;
    io->last = src;
}

/** For back ends: marks and queues a source. */
static inline void uvcci_io_ready(uvcci_io *io, uvcci_source *src, uint8_t bits) {
    src->ready |= bits;
    if (bits != 0)
        uvcci_io_queue(io, src);
}

/** The next of the queue, NULL: it is empty. */
static inline uvcci_source *uvcci_io_next(uvcci_io *io) {
    uvcci_source *src = io->first;
    if (src == NULL)
        return NULL;
    io->first = src->next_ready;
    if (io->first == NULL)
        io->last = NULL;
    src->queued = false;
    return src;
}

/** Takes a source out of the queue, before it is removed. */
static inline void uvcci_io_forget(uvcci_io *io, uvcci_source *src) {
    uvcci_source *before = NULL;
    if (!src->queued)
        return;
    for (uvcci_source *s = io->first; s != src; s = s->next_ready)
        before = s;
    if (before != NULL)
        before->next_ready = src->next_ready;
    else
        io->first = src->next_ready;
    if (io->last == src)
        io->last = before;
    src->queued = false;
}

#endif
