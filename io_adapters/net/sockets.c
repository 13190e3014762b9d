/* SPDX-License-Identifier: Apache-2.0 */
/* sockets.c - sockets as a net wants them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "io_adapters/net/core.h"

#define NS_PER_MS        1000000u
#define PROBES           3 /* of TCP's keep-alive, in the last half of idle_ns */
#define UDP_BUFFER_BYTES (4 << 20)
#define UDP_BUFFER_MIN   (16 << 10)
#define LISTEN_BACKLOG   4096
#define ECT_0            2 /* RFC 3168 */
#ifndef UDP_GRO
#define UDP_GRO 104 /* Linux 5.0 */
#endif

static void set(int fd, int level, int name, int value) {
    (void)setsockopt(fd, level, name, &value, sizeof value);
}

/* A machine that is gone is noticed by what it does not acknowledge: of bytes (USER_TIMEOUT), or of
 * probes on a connection that is idle. A socket is a queue that nobody overtakes in, and the system
 * lets it grow to megabytes: what is in flight belongs there, what waits for the line does not. */
void uvcci_socket_tune(uvcc_net *n, int fd, const uvcci_address *other) {
    const uint64_t idle_ms = n->cfg.idle_ns / NS_PER_MS;
    const int seconds = (int)((idle_ms + 1999) / 2000);
    if (n->cfg.socket_bytes != 0) {
        set(fd, SOL_SOCKET, SO_SNDBUF, (int)n->cfg.socket_bytes);
        set(fd, SOL_SOCKET, SO_RCVBUF, (int)n->cfg.socket_bytes);
    }
    if (other->kind != UVCCI_ADDRESS_TCP)
        return;
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds > 0 ? seconds : 1);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, seconds / PROBES > 0 ? seconds / PROBES : 1);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)idle_ms);
    if (n->cfg.unsent_bytes != UINT32_MAX)
        set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, (int)n->cfg.unsent_bytes);
}

void uvcci_socket_ask(int fd, const uvcci_address *other) {
    if (other->kind == UVCCI_ADDRESS_TCP)
        set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
}

bool uvcci_socket_answers(int fd, const uvcci_address *other, uint64_t ms) {
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    if (other->kind != UVCCI_ADDRESS_TCP)
        return true;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 && info.tcpi_last_ack_recv < ms;
}

/* Packets say that they can be marked (ECT(0)), and are never cut: the link finds the path's MTU.
 */
void uvcci_socket_tune_packets(uvcc_net *n, int fd, const uvcci_address *bound) {
    int bytes = n->cfg.socket_bytes != 0 ? (int)n->cfg.socket_bytes : UDP_BUFFER_BYTES;
    if (bytes < UDP_BUFFER_MIN) /* not even a packet would have room */
        bytes = UDP_BUFFER_MIN;
    set(fd, SOL_SOCKET, SO_SNDBUF, bytes);
    set(fd, SOL_SOCKET, SO_RCVBUF, bytes);
    set(fd, IPPROTO_IP, IP_TOS, ECT_0);
    set(fd, IPPROTO_IP, IP_RECVTOS, 1);
    set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
    if (bound->sa.ss_family == AF_INET6) {
        set(fd, IPPROTO_IPV6, IPV6_TCLASS, ECT_0);
        set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
        set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
    }
    set(fd, IPPROTO_UDP, UDP_GRO, 1);
}

static int open_socket(const uvcci_address *a) {
    const int type = a->kind == UVCCI_ADDRESS_UDP ? SOCK_DGRAM : SOCK_STREAM;
    const int fd = socket(a->sa.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return fd >= 0 ? fd : -errno;
}

int uvcci_socket_dial(uvcc_net *n, const uvcci_address *to) {
    const int fd = open_socket(to);
    if (fd < 0)
        return fd;
    uvcci_socket_tune(n, fd, to);
    if (connect(fd, (const struct sockaddr *)&to->sa, to->len) != 0 && errno != EINPROGRESS &&
        errno != EINTR) {
        const int rc = -errno;
        (void)close(fd);
        return rc;
    }
    return fd;
}

/* A Unix socket's file that nobody listens at stays behind when a process dies: it is taken away,
 * but nothing else that has the name. */
static void unlink_stale(const uvcci_address *a) {
    const char *path = ((const struct sockaddr_un *)&a->sa)->sun_path;
    struct stat st;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) &&
        connect(fd, (const struct sockaddr *)&a->sa, a->len) != 0 && errno == ECONNREFUSED)
        (void)unlink(path);
    if (fd >= 0)
        (void)close(fd);
}

/* IPv6's any address takes IPv4 too; without IPv6 it is IPv4's. */
static int open_listening(uvcci_address *a) {
    int fd = open_socket(a);
    if (fd == -EAFNOSUPPORT && a->sa.ss_family == AF_INET6 &&
        IN6_IS_ADDR_UNSPECIFIED(&((struct sockaddr_in6 *)&a->sa)->sin6_addr)) {
        const struct sockaddr_in in = {.sin_family = AF_INET,
                                       .sin_port = ((struct sockaddr_in6 *)&a->sa)->sin6_port};
        *(struct sockaddr_in *)&a->sa = in;
        a->len = sizeof in;
        fd = open_socket(a);
    }
    return fd;
}

int uvcci_socket_listen(uvcc_net *n, uvcci_address *a) {
    const int fd = open_listening(a);
    if (fd < 0)
        return fd;
    if (a->sa.ss_family == AF_INET6)
        set(fd, IPPROTO_IPV6, IPV6_V6ONLY,
            !IN6_IS_ADDR_UNSPECIFIED(&((struct sockaddr_in6 *)&a->sa)->sin6_addr));
    if (a->kind == UVCCI_ADDRESS_TCP)
        set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (a->kind == UVCCI_ADDRESS_UNIX)
        unlink_stale(a);
    if (a->kind == UVCCI_ADDRESS_UDP)
        uvcci_socket_tune_packets(n, fd, a);
    if (bind(fd, (const struct sockaddr *)&a->sa, a->len) != 0 ||
        (a->kind != UVCCI_ADDRESS_UDP && listen(fd, LISTEN_BACKLOG) != 0) ||
        (a->kind != UVCCI_ADDRESS_UNIX &&
         getsockname(fd, (struct sockaddr *)&a->sa, &a->len) != 0)) {
        const int rc = -errno;
        (void)close(fd);
        return rc;
    }
    return fd;
}

uint64_t uvcci_socket_rtt(int fd) {
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 ? 1000ull * info.tcpi_rtt : 0;
}
