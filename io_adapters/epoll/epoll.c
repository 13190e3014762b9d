/* SPDX-License-Identifier: Apache-2.0 */
/* epoll.c - the readiness back end: edge-triggered, each descriptor registered once for both
 * directions, so a turn costs one epoll_wait and what is read and written, and no epoll_ctl. What
 * is ready is remembered by us (io.h). */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io_adapters/net/io.h"

#define EVENTS_AT_ONCE 256

typedef struct state {
    int fd;
    struct epoll_event events[EVENTS_AT_ONCE];
} state;

static int open_epoll(uvcci_io *io, const uvcc_net_config *cfg) {
    (void)cfg;
    state *st = io->alloc.alloc(io->alloc.user, sizeof *st, UVCC_MEM_STATE);
    if (st == NULL)
        return UVCC_ERR_NOMEM;
    st->fd = epoll_create1(EPOLL_CLOEXEC);
    if (st->fd < 0) {
        io->alloc.free(io->alloc.user, st, sizeof *st, UVCC_MEM_STATE);
        return UVCC_ERR_LIMIT;
    }
    io->state = st;
    return 0;
}

static void close_epoll(uvcci_io *io) {
    state *st = io->state;
    (void)close(st->fd);
    io->alloc.free(io->alloc.user, st, sizeof *st, UVCC_MEM_STATE);
}

static int fd_of(const uvcci_io *io) {
    return ((const state *)io->state)->fd;
}

static int add(uvcci_io *io, uvcci_source *src) {
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = src};
    if (src->kind == UVCCI_SOURCE_STREAM || src->kind == UVCCI_SOURCE_PACKETS)
        e.events |= EPOLLOUT;
    io->syscalls++;
    return epoll_ctl(fd_of(io), EPOLL_CTL_ADD, src->fd, &e) == 0 ? 0 : UVCC_ERR_LIMIT;
}

static void remove_source(uvcci_io *io, uvcci_source *src) {
    io->syscalls++;
    (void)epoll_ctl(fd_of(io), EPOLL_CTL_DEL, src->fd, NULL);
}

/* A full read may have left bytes; one that is short emptied the socket, and what comes after it
 * is an edge: but for the stream's end, if that was told together with the bytes. */
static ptrdiff_t read_bytes(uvcci_io *io, uvcci_source *src, const struct iovec *iov, int count) {
    size_t room = 0;
    ssize_t n;
    for (int i = 0; i < count; i++)
        room += iov[i].iov_len;
    do {
        io->syscalls++;
        n = readv(src->fd, iov, count);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        src->ready &= (uint8_t)~UVCCI_READ;
        return UVCC_ERR_AGAIN;
    }
    if (n > 0 && (size_t)n < room && !src->ended)
        src->ready &= (uint8_t)~UVCCI_READ;
    return n < 0 ? -errno : n;
}

static ptrdiff_t write_bytes(uvcci_io *io, uvcci_source *src, const struct iovec *iov, int count) {
    const struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)iov,
                             .msg_iovlen = (size_t)count};
    size_t room = 0;
    ssize_t n;
    for (int i = 0; i < count; i++)
        room += iov[i].iov_len;
    do {
        io->syscalls++;
        n = sendmsg(src->fd, &m, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        src->ready &= (uint8_t)~UVCCI_WRITE;
        return UVCC_ERR_AGAIN;
    }
    if (n >= 0 && (size_t)n < room)
        src->ready &= (uint8_t)~UVCCI_WRITE;
    return n < 0 ? -errno : n;
}

/* The end of a stream is told when its bytes were read: RDHUP only says that there is something. */
static int wait_events(uvcci_io *io, uint64_t timeout_ns) {
    state *st = io->state;
    const struct timespec t = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                               .tv_nsec = (long)(timeout_ns % 1000000000u)};
    const struct timespec none = {0};
    const bool full = io->first != NULL;
    io->syscalls++;
    const int n = epoll_pwait2(st->fd, st->events, EVENTS_AT_ONCE,
                               full                       ? &none
                               : timeout_ns == UVCC_NEVER ? NULL
                                                          : &t,
                               NULL);
    if (n < 0)
        return errno == EINTR ? 0 : UVCC_ERR_STATE;
    for (int i = 0; i < n; i++) {
        const uint32_t e = st->events[i].events;
        uint8_t bits = 0;
        uvcci_source *src = st->events[i].data.ptr;
        src->ended |= (e & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
        if ((e & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
            bits |= UVCCI_READ;
        if ((e & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0)
            bits |= UVCCI_WRITE;
        uvcci_io_ready(io, src, bits);
    }
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
    .wait = wait_events,
};
