/* SPDX-License-Identifier: Apache-2.0 */
/* epoll.c - the readiness back end: edge-triggered, each descriptor registered once for both
 * directions, so a turn costs one epoll_wait and what is read and written, and no epoll_ctl. What
 * is ready is remembered by us (io.h).
 *
 * Two things that would cost more than they look like. A Unix socket says with each message that
 * the other end takes that it can be written, though nobody waits for it: who is told so in vain
 * stops asking, until a write finds no room. And a wait of its own timeout starts and stops a timer
 * of the kernel each time, which a virtual machine leaves its processor for: so there is one timer,
 * which is set anew only for an earlier time, and which may ring for a time that has moved. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <uvcc/host.h>

#include "io_adapters/net/io.h"

#define EVENTS_AT_ONCE 256
#define LONG_BYTES     16384 /* of a read */
#define NS_PER_S       1000000000u

typedef struct state {
    int fd;
    int timer;
    uint64_t rings_at; /**< UVCC_NEVER: it does not */
    struct epoll_event events[EVENTS_AT_ONCE];
} state;

static void close_both(const state *st) {
    if (st->fd >= 0)
        (void)close(st->fd);
    if (st->timer >= 0)
        (void)close(st->timer);
}

static int open_epoll(uvcci_io *io, const uvcc_net_config *cfg) {
    (void)cfg;
    state *st = io->alloc.alloc(io->alloc.user, sizeof *st, UVCC_MEM_STATE);
    if (st == NULL)
        return UVCC_ERR_NOMEM;
    struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    st->rings_at = UVCC_NEVER;
    st->fd = epoll_create1(EPOLL_CLOEXEC);
    st->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (st->fd < 0 || st->timer < 0 || epoll_ctl(st->fd, EPOLL_CTL_ADD, st->timer, &e) != 0) {
        close_both(st);
        io->alloc.free(io->alloc.user, st, sizeof *st, UVCC_MEM_STATE);
        return UVCC_ERR_LIMIT;
    }
    io->state = st;
    return 0;
}

static void close_epoll(uvcci_io *io) {
    state *st = io->state;
    close_both(st);
    io->alloc.free(io->alloc.user, st, sizeof *st, UVCC_MEM_STATE);
}

static int fd_of(const uvcci_io *io) {
    return ((const state *)io->state)->fd;
}

/* Whether room to write is asked for: in the source's word for its back end. */
static bool asks_for_room(const uvcci_source *src) {
    return src->backend != NULL;
}

static int watch(uvcci_io *io, uvcci_source *src, int how, bool room) {
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = src};
    if (room)
        e.events |= EPOLLOUT;
    io->syscalls++;
    if (epoll_ctl(fd_of(io), how, src->fd, &e) != 0)
        return UVCC_ERR_LIMIT;
    src->backend = room ? src : NULL;
    return 0;
}

static int add(uvcci_io *io, uvcci_source *src) {
    return watch(io, src, EPOLL_CTL_ADD,
                 src->kind == UVCCI_SOURCE_STREAM || src->kind == UVCCI_SOURCE_PACKETS);
}

/* A descriptor that has room by now says so at once. */
static void wants_room(uvcci_io *io, uvcci_source *src) {
    src->ready &= (uint8_t)~UVCCI_WRITE;
    if (!asks_for_room(src))
        (void)watch(io, src, EPOLL_CTL_MOD, true);
}

static void remove_source(uvcci_io *io, uvcci_source *src) {
    io->syscalls++;
    (void)epoll_ctl(fd_of(io), EPOLL_CTL_DEL, src->fd, NULL);
}

static size_t room_of(const struct iovec *iov, int count) {
    size_t room = 0;
    for (int i = 0; i < count; i++)
        room += iov[i].iov_len;
    return room;
}

/* The call of the system alone, which any thread may make: the bytes, or -errno. */
static void transfer(void *arg, uint32_t i) {
    uvcci_part *p = (uvcci_part *)arg + i;
    const struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)p->iov,
                             .msg_iovlen = (size_t)p->count};
    const int fd = p->src->fd;
    ssize_t n;
    do {
        if (p->write)
            n = p->count == 1 ? send(fd, p->iov->iov_base, p->iov->iov_len, MSG_NOSIGNAL)
                              : sendmsg(fd, &m, MSG_NOSIGNAL);
        else
            n = p->count == 1 ? recv(fd, p->iov->iov_base, p->iov->iov_len, 0)
                              : readv(fd, p->iov, p->count);
    } while (n < 0 && errno == EINTR);
    p->rc = n < 0 ? -errno : n;
}

static bool is_again(ptrdiff_t rc) {
    return rc == -EAGAIN || rc == -EWOULDBLOCK;
}

/* A full read may have left bytes; one that is short emptied the socket, and what comes after it
 * is an edge: but for the stream's end, if that was told together with the bytes. After a long one
 * more has come by the time that it is worked off: asking the socket costs less than asking epoll
 * first. */
static void note_read(uvcci_part *p) {
    uvcci_source *src = p->src;
    const ptrdiff_t n = p->rc;
    if (is_again(n)) {
        src->ready &= (uint8_t)~UVCCI_READ;
        p->rc = UVCC_ERR_AGAIN;
    } else if (n > 0 && (size_t)n < room_of(p->iov, p->count) && n < LONG_BYTES && !src->ended) {
        src->ready &= (uint8_t)~UVCCI_READ;
    }
}

static void note_write(uvcci_io *io, uvcci_part *p) {
    const ptrdiff_t n = p->rc;
    if (is_again(n))
        p->rc = UVCC_ERR_AGAIN;
    if (is_again(n) || (n >= 0 && (size_t)n < room_of(p->iov, p->count)))
        wants_room(io, p->src);
}

static void note(uvcci_io *io, uvcci_part *p) {
    io->syscalls++;
    if (p->write)
        note_write(io, p);
    else
        note_read(p);
}

static ptrdiff_t alone(uvcci_io *io, uvcci_part p) {
    transfer(&p, 0);
    note(io, &p);
    return p.rc;
}

static ptrdiff_t read_bytes(uvcci_io *io, uvcci_source *src, const struct iovec *iov, int count) {
    return alone(io, (uvcci_part){.src = src, .iov = iov, .count = count});
}

static ptrdiff_t write_bytes(uvcci_io *io, uvcci_source *src, const struct iovec *iov, int count) {
    return alone(io, (uvcci_part){.src = src, .write = true, .iov = iov, .count = count});
}

/* What follows from each is done by this thread, when all have ended. An edge that comes between is
 * seen by the wait after it. */
static void several(uvcci_io *io, uvcci_part *part, uint32_t count, const uvcc_parallel *by) {
    by->run(by->user, transfer, part, count);
    for (uint32_t i = 0; i < count; i++)
        note(io, &part[i]);
}

/* The end of a stream is told when its bytes were read: RDHUP only says that there is something. */
static void take_event(uvcci_io *io, const struct epoll_event *event) {
    state *st = io->state;
    const uint32_t e = event->events;
    const bool gone = (e & (EPOLLHUP | EPOLLERR)) != 0;
    uvcci_source *src = event->data.ptr;
    uint8_t bits = 0;
    if (src == NULL) {
        st->rings_at = UVCC_NEVER;
        return;
    }
    src->ended |= gone || (e & EPOLLRDHUP) != 0;
    if (gone || (e & (EPOLLIN | EPOLLRDHUP)) != 0)
        bits |= UVCCI_READ;
    if (gone || (e & EPOLLOUT) != 0)
        bits |= UVCCI_WRITE;
    if (bits == UVCCI_WRITE && (src->ready & UVCCI_WRITE) != 0)
        (void)watch(io, src, EPOLL_CTL_MOD, false);
    else
        uvcci_io_ready(io, src, bits);
}

static void set_timer(uvcci_io *io, uint64_t at) {
    state *st = io->state;
    const struct itimerspec t = {
        .it_value = {.tv_sec = (time_t)(at / NS_PER_S), .tv_nsec = (long)(at % NS_PER_S)}};
    if (at >= st->rings_at)
        return;
    io->syscalls++;
    if (timerfd_settime(st->timer, TFD_TIMER_ABSTIME, &t, NULL) == 0)
        st->rings_at = at;
}

/* Once, and again if all that there was is the timer, for a time that has moved, or a socket with
 * room that nobody wants. */
static int wait_events(uvcci_io *io, uint64_t timeout_ns) {
    state *st = io->state;
    const bool look = io->first != NULL || timeout_ns == 0;
    const uint64_t now = look || timeout_ns == UVCC_NEVER ? 0 : uvcc_host_now_ns();
    const uint64_t until =
        timeout_ns < UVCC_NEVER - 1 - now && !look ? now + timeout_ns : UVCC_NEVER;
    do {
        if (until != UVCC_NEVER)
            set_timer(io, until);
        io->syscalls++;
        const int n = epoll_wait(st->fd, st->events, EVENTS_AT_ONCE, look ? 0 : -1);
        if (n < 0)
            return errno == EINTR ? 0 : UVCC_ERR_STATE;
        for (int i = 0; i < n; i++)
            take_event(io, &st->events[i]);
    } while (!look && io->first == NULL && (until == UVCC_NEVER || uvcc_host_now_ns() < until));
    return 0;
}

const uvcci_io_ops uvcci_io_epoll = {
    .name = "epoll",
    .open = open_epoll,
    .close = close_epoll,
    .fd = fd_of,
    .add = add,
    .remove = remove_source,
    .read = read_bytes,
    .write = write_bytes,
    .several = several,
    .wait = wait_events,
};
