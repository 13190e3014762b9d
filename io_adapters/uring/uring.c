/* SPDX-License-Identifier: Apache-2.0 */
/* uring.c - the completion back end: io_uring by liburing, Linux 6.0 and later.
 *
 * Receiving: each stream has one receive that the kernel repeats (multishot); it puts bytes into
 * buffers of a ring that all streams of a net share, and view() shows them where they lie. So a
 * turn reads without a system call, and one that finds nothing new makes none at all. A stream that
 * has not shown yet that it is somebody's holds one buffer at most, so that strangers cannot take
 * them all; when they are used up, receives end, and begin anew in their turn.
 *
 * Sending: what the socket takes at once goes by sendmsg(2), for the net goes on with the next
 * bytes then. What it does not take is left to the kernel, which sends all of it as room comes,
 * without another call of ours: write() says UVCC_ERR_AGAIN until then. Writes of
 * UVCCI_URING_ZC_BYTES and more go without a copy, if the connection can: the kernel tells after
 * the first one whether it copied after all (as it does over loopback, or to a device that cannot
 * gather), and then it was the last. They wait for the other end's acknowledgement, for only then
 * is the memory ours again; so smaller ones, as transmits mostly are (256 KiB), do not pay: they
 * are copied in less time than a round trip takes. (Over loopback zero copy measures as slow as
 * sending by copies, or slower; of real devices the threshold is an estimate.)
 *
 * Sockets of packets, listeners and the wake are polled (multishot); the net reads them by itself.
 *
 * The ring's descriptor is readable while completions wait in it. Nothing is registered but the
 * ring of buffers: sends go straight from the sessions' memory, which is not ours to register, and
 * receives that are armed once need no registered files. The ring belongs to no thread (no
 * IORING_SETUP_SINGLE_ISSUER), since a net may be called by one thread and then by another; what a
 * thread that ended had under way is cancelled by the kernel, and begun anew here. The price: a
 * completion may end an epoll_wait(2) of the host's with EINTR, as a signal does (poll(2) goes on).
 * Completions are made when that thread enters the kernel (COOP_TASKRUN), not by interrupting it.
 *
 * Beside epoll, over loopback: two calls in a turn of a round trip and not three, in about as much
 * time; of long streams a lower throughput, for what a view shows is copied once more into its
 * frame, and epoll reads it there. So UVCC_NET_AUTO is epoll. */
#define _GNU_SOURCE
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <uvcc/host.h>

#include "io_adapters/uring/uring.h"

#define SQ_ENTRIES 256u
#define CQ_ENTRIES 4096u
#define GROUP      0 /* of the buffers */
#define NONE       UINT16_MAX
#define NS_PER_S   1000000000u
#define READ_TRUST 16384u /* bytes that read() took: more than a TLS handshake needs */

/* Of kernels younger than liburing 2.3. */
#define SEND_ZC_REPORT_USAGE  (1u << 3) /* 6.2 */
#define NOTIF_USAGE_ZC_COPIED (1u << 31)

uint32_t uvcci_uring_zc_bytes = UVCCI_URING_ZC_BYTES;

/* What a completion is of: in the low bits of its user_data, the rest is the watch. */
enum { OF_POLL, OF_OUT, OF_RECV, OF_SEND, OF_CANCEL, OF_TIMER, OF_TIMER_SET, OF_MASK = 7 };

typedef struct state state;

/* One source. */
typedef struct watch {
    uvcci_source *src;
    struct watch *next_packets; /* a source of packets */
    struct watch *next_starved;
    uint32_t in_flight;         /* operations that have completions to come */
    bool going;                 /* remove() waits for those */
    bool poll, out, recv, send; /* armed, or under way */
    bool starved;               /* no buffer was there; in the list */
    bool trusted;               /* may have more than one buffer */
    bool has_end, has_sent;     /* end, sent are valid */
    bool full;                  /* the socket took less than it was given */
    bool zc_off, zc;            /* never again; the write under way is one */
    uint16_t first, last;       /* buffers with bytes, NONE */
    uint32_t at;                /* of the first, what is consumed */
    size_t consumed;            /* by read() */
    ptrdiff_t end, sent;
    struct msghdr msg;
    struct iovec iov[UVCC_TRANSMIT_SLICES_MAX];
} watch;

struct state {
    struct io_uring ring;
    struct io_uring_buf_ring *buffers;
    uint8_t *bytes; /* of the buffers */
    void *memory;
    size_t memory_len;
    watch *packets, *starved, *starved_last;
    uint64_t rings_at; /* the timer; UVCC_NEVER: it does not */
    struct __kernel_timespec ring_time;
    uint32_t free; /* buffers that the kernel has */
    uint16_t next[UVCCI_URING_BUFFERS];
    uint32_t len[UVCCI_URING_BUFFERS];
};

static void *give(uvcci_io *io, size_t len) {
    return io->alloc.alloc(io->alloc.user, len, UVCC_MEM_STATE);
}

static void take(uvcci_io *io, void *p, size_t len) {
    io->alloc.free(io->alloc.user, p, len, UVCC_MEM_STATE);
}

/* ---- submitting ---- */

/* Completions wait in the kernel for a call of ours: they found no room, or (with COOP_TASKRUN)
 * this thread in the middle of something. */
static bool kernel_has_some(const state *st) {
    return (IO_URING_READ_ONCE(*st->ring.sq.kflags) &
            (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN)) != 0;
}

static int submit(uvcci_io *io) {
    state *st = io->state;
    int rc = 0;
    while (io_uring_sq_ready(&st->ring) > 0) {
        io->syscalls++;
        rc = io_uring_submit(&st->ring);
        if (rc < 0 && rc != -EINTR)
            break; /* -EBUSY, -EAGAIN: when completions were reaped */
    }
    return rc < 0 ? rc : 0;
}

static struct io_uring_sqe *entry(uvcci_io *io) {
    state *st = io->state;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&st->ring);
    if (sqe == NULL && submit(io) == 0)
        sqe = io_uring_get_sqe(&st->ring);
    return sqe;
}

static void tag(struct io_uring_sqe *sqe, watch *w, unsigned of) {
    io_uring_sqe_set_data64(sqe, (uint64_t)(uintptr_t)w | of);
    w->in_flight++;
}

static bool arm_poll(uvcci_io *io, watch *w) {
    struct io_uring_sqe *sqe = entry(io);
    if (sqe == NULL)
        return false;
    io_uring_prep_poll_multishot(sqe, w->src->fd, POLLIN);
    tag(sqe, w, OF_POLL);
    return w->poll = true;
}

static bool arm_out(uvcci_io *io, watch *w) {
    struct io_uring_sqe *sqe = entry(io);
    if (sqe == NULL)
        return false;
    io_uring_prep_poll_add(sqe, w->src->fd, POLLOUT);
    tag(sqe, w, OF_OUT);
    return w->out = true;
}

static void starve(state *st, watch *w) {
    if (w->starved)
        return;
    w->starved = true;
    w->next_starved = NULL;
    if (st->starved == NULL)
        st->starved = w;
    else
        st->starved_last->next_starved = w;
    st->starved_last = w;
}

static void arm_recv(uvcci_io *io, watch *w) {
    struct io_uring_sqe *sqe;
    if (w->recv || w->starved || w->has_end || w->going)
        return;
    sqe = entry(io);
    if (sqe == NULL) {
        starve(io->state, w);
        return;
    }
    if (w->trusted)
        io_uring_prep_recv_multishot(sqe, w->src->fd, NULL, 0, 0);
    else
        io_uring_prep_recv(sqe, w->src->fd, NULL, UVCCI_URING_BUFFER_BYTES, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = GROUP;
    tag(sqe, w, OF_RECV);
    w->recv = true;
}

/* ---- buffers ---- */

static uint8_t *buffer(const state *st, uint16_t id) {
    return st->bytes + (size_t)id * UVCCI_URING_BUFFER_BYTES;
}

static void buffer_back(state *st, uint16_t id) {
    io_uring_buf_ring_add(st->buffers, buffer(st, id), UVCCI_URING_BUFFER_BYTES, id,
                          io_uring_buf_ring_mask(UVCCI_URING_BUFFERS), 0);
    io_uring_buf_ring_advance(st->buffers, 1);
    st->free++;
}

static void buffer_got(state *st, watch *w, uint16_t id, uint32_t len) {
    st->next[id] = NONE;
    st->len[id] = len;
    if (w->first == NONE) {
        w->first = id;
        w->at = 0;
    } else {
        st->next[w->last] = id;
    }
    w->last = id;
}

static void buffer_done(state *st, watch *w) {
    const uint16_t id = w->first;
    w->first = st->next[id];
    w->at = 0;
    buffer_back(st, id);
}

/* What the back end would begin by itself: receives that found no buffer, as many as there are
 * buffers now; a socket of packets that the net found full. */
static void begin_again(uvcci_io *io) {
    state *st = io->state;
    for (uint32_t n = st->free; n > 0 && st->starved != NULL; n--) {
        watch *w = st->starved;
        st->starved = w->next_starved;
        w->starved = false;
        arm_recv(io, w);
    }
    for (watch *w = st->packets; w != NULL; w = w->next_packets) {
        if ((w->src->ready & UVCCI_WRITE) == 0 && !w->out)
            (void)arm_out(io, w);
        if (!w->poll)
            (void)arm_poll(io, w);
    }
}

/* ---- completions ---- */

static void ready(uvcci_io *io, watch *w, uint8_t bits) {
    if (!w->going)
        uvcci_io_ready(io, w->src, bits);
}

static void on_poll(uvcci_io *io, watch *w, const struct io_uring_cqe *cqe) {
    if (cqe->res >= 0)
        ready(io, w, UVCCI_READ);
    if ((cqe->flags & IORING_CQE_F_MORE) != 0)
        return;
    w->poll = false;
    if (!w->going)
        (void)arm_poll(io, w);
}

/* A stream that could not be connected has its error in the socket, where the net looks for it: a
 * receive would take it away. */
static void on_out(uvcci_io *io, watch *w, const struct io_uring_cqe *cqe) {
    w->out = false;
    if (w->going)
        return;
    if (cqe->res == -ECANCELED) {
        (void)arm_out(io, w);
        return;
    }
    ready(io, w, UVCCI_WRITE);
    if (w->src->kind == UVCCI_SOURCE_STREAM && cqe->res >= 0 && (cqe->res & POLLERR) == 0)
        arm_recv(io, w);
}

static void on_recv(uvcci_io *io, watch *w, const struct io_uring_cqe *cqe) {
    state *st = io->state;
    const int res = cqe->res;
    if ((cqe->flags & IORING_CQE_F_BUFFER) != 0) {
        const uint16_t id = (uint16_t)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
        st->free--;
        if (res > 0)
            buffer_got(st, w, id, (uint32_t)res);
        else
            buffer_back(st, id);
    }
    if ((cqe->flags & IORING_CQE_F_MORE) == 0)
        w->recv = false;
    if (res == -ENOBUFS) {
        starve(st, w);
        return;
    }
    if (res <= 0 && res != -ECANCELED && res != -EAGAIN && res != -EINTR) {
        w->has_end = w->src->ended = true;
        w->end = res;
    }
    if (res > 0 || w->has_end)
        ready(io, w, UVCCI_READ);
    if (w->trusted || w->first == NONE)
        arm_recv(io, w); /* else when it was read */
}

static void on_send(uvcci_io *io, watch *w, const struct io_uring_cqe *cqe) {
    if ((cqe->flags & IORING_CQE_F_NOTIF) != 0) {
        if (((uint32_t)cqe->res & NOTIF_USAGE_ZC_COPIED) != 0)
            w->zc_off = true;
    } else {
        w->sent = cqe->res;
        w->has_sent = true;
    }
    if ((cqe->flags & IORING_CQE_F_MORE) != 0)
        return; /* the kernel has the memory still */
    w->send = false;
    ready(io, w, UVCCI_WRITE);
}

static void on_completion(uvcci_io *io, const struct io_uring_cqe *cqe) {
    const uint64_t data = io_uring_cqe_get_data64(cqe);
    state *st = io->state;
    if (data == OF_TIMER)
        st->rings_at = UVCC_NEVER;
    if (data == OF_TIMER || data == OF_TIMER_SET)
        return;
    watch *w = (watch *)(uintptr_t)(data & ~(uint64_t)OF_MASK);
    if ((cqe->flags & IORING_CQE_F_MORE) == 0)
        w->in_flight--;
    switch (data & OF_MASK) {
    case OF_POLL:
        on_poll(io, w, cqe);
        break;
    case OF_OUT:
        on_out(io, w, cqe);
        break;
    case OF_RECV:
        on_recv(io, w, cqe);
        break;
    case OF_SEND:
        on_send(io, w, cqe);
        break;
    default: /* CANCEL */
        break;
    }
}

/* Each is copied and given back before it is handled, for what is begun on the way may need the
 * room. How many there were. */
static unsigned reap(uvcci_io *io) {
    state *st = io->state;
    struct io_uring_cqe *cqe = NULL;
    for (unsigned n = 0;; n++) {
        if (io_uring_cq_ready(&st->ring) == 0) {
            if (!kernel_has_some(st))
                return n;
            io->syscalls++;
            if (io_uring_get_events(&st->ring) < 0 || io_uring_cq_ready(&st->ring) == 0)
                return n;
        }
        if (io_uring_peek_cqe(&st->ring, &cqe) != 0)
            return n;
        const struct io_uring_cqe c = {
            .user_data = cqe->user_data, .res = cqe->res, .flags = cqe->flags};
        io_uring_cqe_seen(&st->ring, cqe);
        on_completion(io, &c);
    }
}

/* ---- life ---- */

static int open_buffers(uvcci_io *io, state *st) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t ring = UVCCI_URING_BUFFERS * sizeof(struct io_uring_buf);
    const size_t ring_len = (ring + page - 1) / page * page;
    st->memory_len = page + ring_len + (size_t)UVCCI_URING_BUFFERS * UVCCI_URING_BUFFER_BYTES;
    st->memory = give(io, st->memory_len);
    if (st->memory == NULL)
        return UVCC_ERR_NOMEM;
    const uintptr_t aligned = ((uintptr_t)st->memory + page - 1) / page * page;
    uint8_t *base = (uint8_t *)st->memory + (aligned - (uintptr_t)st->memory);
    struct io_uring_buf_reg reg = {
        .ring_addr = (uintptr_t)base, .ring_entries = UVCCI_URING_BUFFERS, .bgid = GROUP};
    memset(base, 0, ring_len);
    st->buffers = (struct io_uring_buf_ring *)(void *)base;
    st->bytes = base + ring_len;
    if (io_uring_register_buf_ring(&st->ring, &reg, 0) != 0)
        return UVCC_ERR_LIMIT;
    io_uring_buf_ring_init(st->buffers);
    for (uint16_t i = 0; i < UVCCI_URING_BUFFERS; i++)
        buffer_back(st, i);
    return 0;
}

/* Completions come when this thread enters the kernel anyway: it is not interrupted for them. */
static int open_ring(struct io_uring *ring, unsigned sq, unsigned cq) {
    struct io_uring_params p = {.flags = IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL |
                                         IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
                                .cq_entries = cq};
    return io_uring_queue_init_params(sq, ring, &p);
}

static void close_uring(uvcci_io *io) {
    state *st = io->state;
    io_uring_queue_exit(&st->ring);
    if (st->memory != NULL)
        take(io, st->memory, st->memory_len);
    take(io, st, sizeof *st);
}

static int open_uring(uvcci_io *io, const uvcc_net_config *cfg) {
    (void)cfg;
    state *st = give(io, sizeof *st);
    if (st == NULL)
        return UVCC_ERR_NOMEM;
    memset(st, 0, sizeof *st);
    st->rings_at = UVCC_NEVER;
    if (open_ring(&st->ring, SQ_ENTRIES, CQ_ENTRIES) != 0) {
        take(io, st, sizeof *st);
        return UVCC_ERR_LIMIT;
    }
    io->state = st;
    const int rc = open_buffers(io, st);
    if (rc != 0)
        close_uring(io);
    return rc;
}

static int fd_of(const uvcci_io *io) {
    return ((const state *)io->state)->ring.ring_fd;
}

/* ---- sources ---- */

static bool connected(int fd) {
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    return getpeername(fd, (struct sockaddr *)&a, &len) == 0;
}

/* What the net adds outside of a turn is submitted here: its host may go to sleep after it. */
static int add(uvcci_io *io, uvcci_source *src) {
    state *st = io->state;
    watch *w = give(io, sizeof *w);
    bool armed = true;
    if (w == NULL)
        return UVCC_ERR_NOMEM;
    *w = (watch){.src = src, .first = NONE, .last = NONE};
    src->backend = w;
    if (src->kind != UVCCI_SOURCE_STREAM) {
        armed = arm_poll(io, w) && submit(io) == 0;
    } else if (connected(src->fd)) {
        arm_recv(io, w);
        uvcci_io_ready(io, src, UVCCI_WRITE);
    } else {
        armed = arm_out(io, w);
    }
    if (!armed && w->in_flight == 0) {
        take(io, w, sizeof *w);
        return UVCC_ERR_LIMIT;
    }
    if (src->kind == UVCCI_SOURCE_PACKETS) {
        uvcci_io_ready(io, src, UVCCI_WRITE);
        w->next_packets = st->packets;
        st->packets = w;
    }
    return 0;
}

static void cancel(uvcci_io *io, watch *w, unsigned of) {
    struct io_uring_sqe *sqe;
    while ((sqe = entry(io)) == NULL)
        (void)reap(io);
    io_uring_prep_cancel64(sqe, (uint64_t)(uintptr_t)w | of, 0);
    tag(sqe, w, OF_CANCEL);
}

/* Waits until the send is over, or all that is under way. What a connection has sent without a copy
 * is let go when the other end has acknowledged it, which may be never: such a connection is
 * dropped. */
static void await(uvcci_io *io, const watch *w, bool all) {
    static const struct sockaddr none = {.sa_family = AF_UNSPEC};
    state *st = io->state;
    bool dropped = false;
    while (all ? w->in_flight > 0 : w->send) {
        if (w->send && w->has_sent && !dropped) {
            dropped = true;
            io->syscalls++;
            (void)connect(w->src->fd, &none, sizeof none);
        }
        io->syscalls++;
        const int rc = io_uring_submit_and_wait(&st->ring, 1);
        if (rc < 0 && rc != -EINTR && rc != -EBUSY && rc != -EAGAIN)
            return;
        (void)reap(io);
    }
}

static void settle(uvcci_io *io, uvcci_source *src) {
    watch *w = src->backend;
    if (!w->send)
        return;
    cancel(io, w, OF_SEND);
    await(io, w, false);
}

static void forget(state *st, const watch *w) {
    watch **at = &st->packets, *before = NULL;
    while (*at != NULL && *at != w)
        at = &(*at)->next_packets;
    if (*at != NULL)
        *at = w->next_packets;
    at = &st->starved;
    while (*at != NULL && *at != w) {
        before = *at;
        at = &(*at)->next_starved;
    }
    if (*at == NULL)
        return;
    *at = w->next_starved;
    if (st->starved_last == w)
        st->starved_last = before;
}

static void remove_source(uvcci_io *io, uvcci_source *src) {
    state *st = io->state;
    watch *w = src->backend;
    w->going = true;
    forget(st, w);
    if (w->poll)
        cancel(io, w, OF_POLL);
    if (w->out)
        cancel(io, w, OF_OUT);
    if (w->recv)
        cancel(io, w, OF_RECV);
    if (w->send)
        cancel(io, w, OF_SEND);
    await(io, w, true);
    while (w->first != NONE)
        buffer_done(st, w);
    forget(st, w); /* its receive may have ended for want of a buffer */
    src->backend = NULL;
    if (w->in_flight == 0)
        take(io, w, sizeof *w);
}

/* ---- reading ---- */

/* Nothing is here any more: what was armed once is armed again. */
static void drained(uvcci_io *io, watch *w) {
    if (w->has_end)
        return;
    w->src->ready &= (uint8_t)~UVCCI_READ;
    arm_recv(io, w);
}

static ptrdiff_t nothing(uvcci_source *src, const watch *w) {
    if (w->has_end)
        return w->end;
    src->ready &= (uint8_t)~UVCCI_READ;
    return UVCC_ERR_AGAIN;
}

static ptrdiff_t read_bytes(uvcci_io *io, uvcci_source *src, const struct iovec *iov, int count) {
    state *st = io->state;
    watch *w = src->backend;
    size_t n = 0;
    for (int i = 0; i < count; i++) {
        size_t filled = 0;
        while (filled < iov[i].iov_len && w->first != NONE) {
            const size_t here = st->len[w->first] - w->at, room = iov[i].iov_len - filled;
            const size_t k = here < room ? here : room;
            memcpy((uint8_t *)iov[i].iov_base + filled, buffer(st, w->first) + w->at, k);
            filled += k;
            w->at += (uint32_t)k;
            if (k == here)
                buffer_done(st, w);
        }
        n += filled;
    }
    if (n == 0)
        return nothing(src, w);
    w->consumed += n;
    w->trusted |= w->consumed > READ_TRUST;
    if (w->first == NONE)
        drained(io, w);
    return (ptrdiff_t)n;
}

/* Only who is called by its session's frames is read so: from then on it is trusted. */
static const uint8_t *view(uvcci_io *io, uvcci_source *src, size_t *len, ptrdiff_t *rc) {
    const state *st = io->state;
    watch *w = src->backend;
    w->trusted = true;
    if (w->first == NONE) {
        *rc = nothing(src, w);
        return NULL;
    }
    *len = st->len[w->first] - w->at;
    return buffer(st, w->first) + w->at;
}

static void consume(uvcci_io *io, uvcci_source *src, size_t len) {
    state *st = io->state;
    watch *w = src->backend;
    w->at += (uint32_t)len;
    if (w->at == st->len[w->first])
        buffer_done(st, w);
    if (w->first == NONE)
        drained(io, w);
}

/* ---- writing ---- */

static ptrdiff_t begin_send(uvcci_io *io, watch *w, const struct iovec *iov, int count, bool zc) {
    struct io_uring_sqe *sqe = entry(io);
    const unsigned flags = MSG_NOSIGNAL | MSG_WAITALL;
    if (sqe == NULL)
        return -ENOBUFS;
    memcpy(w->iov, iov, (size_t)count * sizeof *iov);
    w->msg = (struct msghdr){.msg_iov = w->iov, .msg_iovlen = (size_t)count};
    if (zc) {
        io_uring_prep_sendmsg_zc(sqe, w->src->fd, &w->msg, flags);
        sqe->ioprio |= SEND_ZC_REPORT_USAGE;
    } else {
        io_uring_prep_sendmsg(sqe, w->src->fd, &w->msg, flags);
    }
    tag(sqe, w, OF_SEND);
    w->zc = zc;
    w->send = true;
    w->has_sent = false;
    w->src->ready &= (uint8_t)~UVCCI_WRITE;
    return UVCC_ERR_AGAIN;
}

/* What became of the write that said UVCC_ERR_AGAIN; true: it is to be done once more. */
static bool once_more(watch *w, ptrdiff_t *rc) {
    w->has_sent = false;
    *rc = w->sent;
    if (w->sent >= 0)
        return false;
    if (w->zc && (w->sent == -EOPNOTSUPP || w->sent == -EINVAL || w->sent == -ENOBUFS ||
                  w->sent == -ENOMEM)) {
        w->zc_off = true;
        return true;
    }
    return w->sent == -ECANCELED || w->sent == -EAGAIN || w->sent == -EINTR;
}

static ptrdiff_t write_bytes(uvcci_io *io, uvcci_source *src, const struct iovec *iov, int count) {
    const struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)iov,
                             .msg_iovlen = (size_t)count};
    watch *w = src->backend;
    size_t len = 0;
    ptrdiff_t rc = 0;
    if (w->send) {
        src->ready &= (uint8_t)~UVCCI_WRITE;
        return UVCC_ERR_AGAIN;
    }
    if (w->has_sent && !once_more(w, &rc))
        return rc;
    for (int i = 0; i < count; i++)
        len += iov[i].iov_len;
    if (len >= uvcci_uring_zc_bytes && !w->zc_off)
        return begin_send(io, w, iov, count, true);
    while (!w->full) {
        io->syscalls++;
        const ssize_t n =
            count == 1 ? send(src->fd, iov->iov_base, iov->iov_len, MSG_NOSIGNAL | MSG_DONTWAIT)
                       : sendmsg(src->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        w->full = n < 0 || (size_t)n < len;
        if (n >= 0)
            return n;
        if (errno != EAGAIN && errno != EWOULDBLOCK)
            return -errno;
    }
    w->full = false;
    return begin_send(io, w, iov, count, false);
}

/* ---- waiting ---- */

static void flush(uvcci_io *io) {
    begin_again(io);
    (void)submit(io);
}

/* One timer for all waits, set anew only for an earlier time: a wait of its own timeout starts and
 * stops a timer of the kernel each time. One that rang meanwhile cannot be moved; its completion is
 * here, and the wait begins anew. */
static void set_timer(uvcci_io *io, uint64_t at) {
    state *st = io->state;
    struct io_uring_sqe *sqe;
    if (at >= st->rings_at || (sqe = entry(io)) == NULL)
        return;
    st->ring_time = (struct __kernel_timespec){.tv_sec = (long long)(at / NS_PER_S),
                                               .tv_nsec = (long long)(at % NS_PER_S)};
    if (st->rings_at == UVCC_NEVER) {
        io_uring_prep_timeout(sqe, &st->ring_time, 0, IORING_TIMEOUT_ABS);
        io_uring_sqe_set_data64(sqe, OF_TIMER);
    } else {
        io_uring_prep_timeout_update(sqe, &st->ring_time, OF_TIMER, IORING_TIMEOUT_ABS);
        io_uring_sqe_set_data64(sqe, OF_TIMER_SET);
    }
    st->rings_at = at;
}

/* Once, and again if all that came is of the timer, or of what was taken back. */
static int wait_completions(uvcci_io *io, uint64_t timeout_ns) {
    state *st = io->state;
    begin_again(io);
    (void)reap(io);
    if (io->first != NULL || timeout_ns == 0) {
        (void)submit(io);
        (void)reap(io);
        return 0;
    }
    const uint64_t now = timeout_ns == UVCC_NEVER ? 0 : uvcc_host_now_ns();
    const uint64_t until = timeout_ns < UVCC_NEVER - 1 - now ? now + timeout_ns : UVCC_NEVER;
    do {
        if (until != UVCC_NEVER)
            set_timer(io, until);
        io->syscalls++;
        const int rc = io_uring_submit_and_wait(&st->ring, 1);
        const bool any = reap(io) != 0;
        if (rc < 0)
            return rc == -EINTR || rc == -EBUSY || rc == -EAGAIN ? 0 : UVCC_ERR_STATE;
        if (!any) /* a signal, after something was submitted */
            return 0;
        begin_again(io);
    } while (io->first == NULL && (until == UVCC_NEVER || uvcc_host_now_ns() < until));
    return 0;
}

static const uvcci_io_ops ops = {
    .name = "uring",
    .open = open_uring,
    .close = close_uring,
    .fd = fd_of,
    .add = add,
    .remove = remove_source,
    .settle = settle,
    .read = read_bytes,
    .view = view,
    .consume = consume,
    .write = write_bytes,
    .flush = flush,
    .wait = wait_completions,
};

const uvcci_io_ops *uvcci_io_uring(void) {
    return &ops;
}

/* ---- is it here? ---- */

/* Multishot receives came with SEND_ZC, and cannot be asked for by themselves. */
static const char *missing_ops(struct io_uring *ring) {
    static const int needed[] = {IORING_OP_POLL_ADD, IORING_OP_RECV, IORING_OP_SENDMSG,
                                 IORING_OP_ASYNC_CANCEL, IORING_OP_SEND_ZC};
    struct io_uring_probe *p = io_uring_get_probe_ring(ring);
    const char *why = NULL;
    if (p == NULL)
        return "the kernel's io_uring is too old: Linux 6.0 has what is needed";
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!io_uring_opcode_supported(p, needed[i]))
            why = "the kernel's io_uring is too old: Linux 6.0 has what is needed";
    io_uring_free_probe(p);
    return why;
}

int uvcci_io_uring_works(const char **why) {
    struct io_uring ring;
    const int rc = open_ring(&ring, 4, 8);
    *why = NULL;
    if (rc == 0) {
        *why = missing_ops(&ring);
        io_uring_queue_exit(&ring);
    } else if (rc == -ENOSYS) {
        *why = "the kernel has no io_uring, or a seccomp filter hides it";
    } else if (rc == -EPERM || rc == -EACCES) {
        *why = "io_uring is not allowed here: by kernel.io_uring_disabled, or by a seccomp filter";
    } else if (rc == -EMFILE || rc == -ENFILE) {
        *why = "no descriptor is left for io_uring";
    } else if (rc == -ENOMEM) {
        *why = "io_uring gets no memory: RLIMIT_MEMLOCK, or the control group's limit";
    } else {
        *why = "io_uring cannot be set up here";
    }
    if (*why == NULL)
        *why = "";
    if (rc == -EMFILE || rc == -ENFILE)
        return UVCC_ERR_LIMIT;
    return rc == -ENOMEM ? UVCC_ERR_NOMEM : (*why)[0] == '\0' ? 0 : UVCC_ERR_NOT_FOUND;
}
