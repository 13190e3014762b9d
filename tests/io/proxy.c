/* SPDX-License-Identifier: Apache-2.0 */
/* proxy.c - forwards streams between sockets: in pieces, not at all, until a byte, or until it
 * ends a connection that somebody chose at random. See world.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "world.h"

#include "io_adapters/net/address.h"

#define PIPES_MAX  512u
#define ROUTES_MAX 16u
#define BUFFER     65536u

typedef struct half {
    int from, to;
    size_t at, len; /* of bytes */
    bool ended;     /* `from` said its last */
    int64_t left;   /* until it is cut; -1: no end */
    uint8_t *bytes;
} half;

typedef struct pipe_of {
    bool used, swallow, cut;
    half half[2]; /* 0: from the one who dials */
} pipe_of;

typedef struct route {
    int fd;
    uvcci_address to;
} route;

struct proxy {
    int epoll;
    uint64_t random, resets, cuts;
    proxy_rules rules;
    route routes[ROUTES_MAX];
    unsigned routes_n;
    pipe_of pipes[PIPES_MAX];
};

proxy *proxy_new(uint64_t seed) {
    proxy *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    assert_true(p->epoll >= 0);
    p->random = seed;
    p->rules.cut_in = p->rules.cut_out = -1;
    return p;
}

static void end_pipe(proxy *p, pipe_of *c, bool reset) {
    for (int i = 0; i < 2; i++) {
        const struct linger now = {.l_onoff = 1};
        if (reset)
            (void)setsockopt(c->half[i].from, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        (void)close(c->half[i].from);
        free(c->half[i].bytes);
    }
    *c = (pipe_of){0};
    p->resets += reset;
}

void proxy_free(proxy *p) {
    if (p == NULL)
        return;
    for (unsigned i = 0; i < PIPES_MAX; i++)
        if (p->pipes[i].used)
            end_pipe(p, &p->pipes[i], false);
    for (unsigned i = 0; i < p->routes_n; i++)
        (void)close(p->routes[i].fd);
    (void)close(p->epoll);
    free(p);
}

proxy_rules *proxy_rule(proxy *p) {
    return &p->rules;
}

static void watch(const proxy *p, int fd) {
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};
    assert_int_equal(epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &e), 0);
}

void proxy_route(proxy *p, const char *to, const char *dir, char out[UVCC_NET_ADDRESS_BYTES]) {
    assert_true(p->routes_n < ROUTES_MAX);
    route *r = &p->routes[p->routes_n++];
    const char *why = "";
    char text[UVCC_NET_ADDRESS_BYTES];
    uvcci_address a;
    if (uvcci_address_parse(&r->to, to, false, &why) != 0)
        fail_msg("%s: %s", to, why);
    if (r->to.kind == UVCCI_ADDRESS_UNIX)
        snprintf(text, sizeof text, "unix:%s/v%u", dir, p->routes_n);
    else
        snprintf(text, sizeof text, "tcp:%s:0",
                 r->to.sa.ss_family == AF_INET6 ? "[::1]" : "127.0.0.1");
    assert_int_equal(uvcci_address_parse(&a, text, true, &why), 0);
    r->fd = socket(a.sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(r->fd >= 0);
    assert_int_equal(bind(r->fd, (struct sockaddr *)&a.sa, a.len), 0);
    assert_int_equal(listen(r->fd, 128), 0);
    if (a.kind == UVCCI_ADDRESS_TCP)
        assert_int_equal(getsockname(r->fd, (struct sockaddr *)&a.sa, &a.len), 0);
    watch(p, r->fd);
    uvcci_address_format(&a, out);
}

int proxy_fd(const proxy *p) {
    return p->epoll;
}

static void take_connection(proxy *p, route *r, int in) {
    pipe_of *c = NULL;
    for (unsigned i = 0; i < PIPES_MAX && c == NULL; i++)
        if (!p->pipes[i].used)
            c = &p->pipes[i];
    const int out = socket(r->to.sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (out < 0 || c == NULL ||
        (connect(out, (struct sockaddr *)&r->to.sa, r->to.len) != 0 && errno != EINPROGRESS)) {
        (void)close(in);
        if (out >= 0)
            (void)close(out);
        return;
    }
    *c = (pipe_of){.used = true, .swallow = p->rules.swallow};
    c->half[0] = (half){.from = in, .to = out, .left = p->rules.cut_in, .bytes = malloc(BUFFER)};
    c->half[1] = (half){.from = out, .to = in, .left = p->rules.cut_out, .bytes = malloc(BUFFER)};
    watch(p, in);
    watch(p, out);
}

/* false: the connection is to end. */
static bool move_half(proxy *p, pipe_of *c, half *h, bool *more) {
    for (int rounds = 0; rounds < 16; rounds++) {
        if (h->at == h->len && !h->ended) {
            const size_t room = c->swallow || p->rules.piece == 0
                                    ? BUFFER
                                    : 1 + test_rand(&p->random) % p->rules.piece;
            const ssize_t n = recv(h->from, h->bytes, room, 0);
            if (n < 0 && errno != EAGAIN)
                return c->swallow;
            h->ended = n == 0;
            h->at = 0;
            h->len = n > 0 ? (size_t)n : 0;
            if (n == 0 && !c->swallow)
                (void)shutdown(h->to, SHUT_WR);
            if (n <= 0)
                return true;
        }
        if (h->at == h->len && h->ended)
            return true;
        if (c->swallow) {
            h->at = h->len = 0;
            continue;
        }
        if (h->left >= 0 && (int64_t)(h->len - h->at) >= h->left) {
            (void)send(h->to, h->bytes + h->at, (size_t)h->left, MSG_NOSIGNAL);
            c->cut = true;
            return false;
        }
        const ssize_t n = send(h->to, h->bytes + h->at, h->len - h->at, MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN;
        h->at += (size_t)n;
        if (h->left >= 0)
            h->left -= n;
        if (p->rules.piece != 0)
            break; /* a piece of each in turn */
    }
    *more = true;
    return true;
}

bool proxy_turn(proxy *p) {
    struct epoll_event drop[64];
    bool more = false;
    while (epoll_wait(p->epoll, drop, 64, 0) == 64) {
    }
    if (p->rules.hold)
        return false;
    for (unsigned i = 0; i < p->routes_n; i++) {
        int in;
        while ((in = accept4(p->routes[i].fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
            take_connection(p, &p->routes[i], in);
    }
    for (unsigned i = 0; i < PIPES_MAX; i++) {
        pipe_of *c = &p->pipes[i];
        bool live = true;
        for (int k = 0; k < 2 && c->used && live; k++)
            live = move_half(p, c, &c->half[k], &more);
        if (!live) {
            p->cuts += c->cut;
            end_pipe(p, c, !p->rules.quiet_end);
        } else if (c->used && !c->swallow && c->half[0].ended && c->half[1].ended)
            end_pipe(p, c, false);
    }
    return more;
}

bool proxy_reset(proxy *p) {
    const unsigned n = proxy_connections(p);
    if (n == 0)
        return false;
    unsigned k = (unsigned)(test_rand(&p->random) % n);
    for (unsigned i = 0; i < PIPES_MAX; i++)
        if (p->pipes[i].used && !p->pipes[i].swallow && k-- == 0) {
            end_pipe(p, &p->pipes[i], true);
            return true;
        }
    return false;
}

void proxy_swallow_all(proxy *p) {
    for (unsigned i = 0; i < PIPES_MAX; i++)
        if (p->pipes[i].used)
            p->pipes[i].swallow = true;
}

unsigned proxy_connections(const proxy *p) {
    unsigned n = 0;
    for (unsigned i = 0; i < PIPES_MAX; i++)
        n += p->pipes[i].used && !p->pipes[i].swallow;
    return n;
}

uint64_t proxy_resets(const proxy *p) {
    return p->resets;
}

uint64_t proxy_cuts(const proxy *p) {
    return p->cuts;
}
