/* SPDX-License-Identifier: Apache-2.0 */
/* relay.c - uvcc-relay, a bad network between sockets, for tests and benchmarks: rate, delay,
 * jitter, loss, repetition, reordering, corruption and a queue for packets; rate, delay and resets
 * for streams. One process, one thread, many routes.
 *
 * A pipe is one direction. What it reads it decides about at once, by a stream of random numbers of
 * its own (from the seed, the route, the direction and the number of the connection), as many of
 * them for each packet whatever happens to it: the n-th packet of a pipe meets the same fate in
 * every run. Then it stands in the pipe's queue, in the order of departure. Only the clock is real.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <uvcc/host.h>

#include "io_adapters/net/address.h"

#define ROUTES_MAX   64
#define LINKS_MAX    256   /* connections of all routes at a time */
#define READ_BYTES   16384 /* of a stream at once */
#define PACKET_BYTES 65536
#define READS_A_TURN 64 /* packets of a pipe */
#define NS_PER_S     UINT64_C(1000000000)

typedef struct item {
    struct item *next;
    uint64_t due;
    uint32_t len, at; /* len 0: the stream's end */
    uint8_t bytes[];
} item;

typedef struct pipe_ {
    int from, to;
    uvcci_address target; /* packets */
    uint64_t dice, free_at;
    item *first;
    uint64_t queued; /* bytes */
    bool packets, ended, blocked;
} pipe_;

typedef struct route {
    uvcci_address end[2]; /* streams: listens, dials; packets: where each end's socket is */
    int fd[2];            /* streams: the listener; packets: what ends 0 and 1 send to */
    uint64_t connections;
} route;

typedef struct link_ {
    bool used, connecting;
    int fd[2];
    pipe_ pipe[2];
} link_;

static struct {
    uint64_t seed, rate, delay, jitter, queue;
    double loss, repeat, reorder, corrupt, reset;
} opt = {.queue = 1u << 20};

static struct {
    uint64_t packets, bytes, lost, repeated, reordered, corrupted, overflowed, connections, resets;
} counts;

static route routes[ROUTES_MAX];
static unsigned route_count;
static link_ links[LINKS_MAX];
static pipe_ packet_pipes[ROUTES_MAX][2];

/* ---- dice ---- */

static uint64_t next_dice(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint64_t seed_of(unsigned at, unsigned direction, uint64_t connection) {
    uint64_t s = opt.seed;
    s = next_dice(&s) ^ at;
    s = next_dice(&s) ^ direction;
    s = next_dice(&s) ^ connection;
    return next_dice(&s);
}

static bool happens(uint64_t dice, double chance) {
    return (double)(dice >> 11) * 0x1p-53 < chance;
}

/* ---- queues ---- */

static void put(pipe_ *p, const uint8_t *bytes, size_t len, uint64_t due) {
    item *i = malloc(sizeof *i + len), **at = &p->first;
    if (i == NULL)
        exit(1);
    *i = (item){.due = due, .len = (uint32_t)len};
    if (len != 0)
        memcpy(i->bytes, bytes, len);
    while (*at != NULL && (*at)->due <= due)
        at = &(*at)->next;
    i->next = *at;
    *at = i;
    p->queued += len;
}

static void drop_first(pipe_ *p) {
    item *i = p->first;
    p->first = i->next;
    p->queued -= i->len;
    free(i);
}

/* When bytes that came now have passed the bottleneck. */
static uint64_t passes(pipe_ *p, size_t len, uint64_t now) {
    if (p->free_at < now)
        p->free_at = now;
    if (opt.rate != 0)
        p->free_at += (uint64_t)len * NS_PER_S / opt.rate;
    return p->free_at;
}

/* ---- packets ---- */

static void judge(pipe_ *p, uint8_t *bytes, size_t len, uint64_t now) {
    uint64_t dice[6];
    for (int i = 0; i < 6; i++)
        dice[i] = next_dice(&p->dice);
    counts.packets++;
    counts.bytes += len;
    if (happens(dice[0], opt.loss)) {
        counts.lost++;
        return;
    }
    if (p->queued + len > opt.queue) {
        counts.overflowed++;
        return;
    }
    uint64_t due = passes(p, len, now) + opt.delay;
    if (opt.jitter != 0)
        due += dice[1] % opt.jitter;
    if (happens(dice[2], opt.reorder)) { /* later than those that come after it */
        counts.reordered++;
        due += opt.delay / 2 + 1000000;
    }
    if (len != 0 && happens(dice[3], opt.corrupt)) {
        counts.corrupted++;
        bytes[dice[4] % len] ^= (uint8_t)(1u << (dice[4] >> 32) % 8);
    }
    put(p, bytes, len, due);
    if (happens(dice[5], opt.repeat)) {
        counts.repeated++;
        put(p, bytes, len, due);
    }
}

static void read_packets(pipe_ *p, uint64_t now) {
    static uint8_t bytes[PACKET_BYTES];
    for (int i = 0; i < READS_A_TURN; i++) {
        const ssize_t n = recv(p->from, bytes, sizeof bytes, 0);
        if (n < 0)
            return;
        judge(p, bytes, (size_t)n, now);
    }
}

static void send_packets(pipe_ *p, uint64_t now) {
    while (p->first != NULL && p->first->due <= now) {
        const item *i = p->first;
        const ssize_t n = sendto(p->to, i->bytes, i->len, MSG_NOSIGNAL,
                                 (const struct sockaddr *)&p->target.sa, p->target.len);
        p->blocked = n < 0 && (errno == EAGAIN || errno == ENOBUFS);
        if (p->blocked)
            return;
        drop_first(p);
    }
}

/* ---- streams ---- */

static void close_link(link_ *l, bool reset) {
    const struct linger hard = {.l_onoff = 1};
    for (int i = 0; i < 2; i++) {
        while (l->pipe[i].first != NULL)
            drop_first(&l->pipe[i]);
        if (reset)
            (void)setsockopt(l->fd[i], SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        (void)close(l->fd[i]);
    }
    *l = (link_){0};
}

static bool wants_bytes(const pipe_ *p) {
    return !p->ended && p->queued < opt.queue;
}

/* False: the connection is gone. */
static bool read_stream(link_ *l, pipe_ *p, uint64_t now) {
    uint8_t bytes[READ_BYTES];
    if (!wants_bytes(p))
        return true;
    const ssize_t n = recv(p->from, bytes, sizeof bytes, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    const bool reset = n > 0 && happens(next_dice(&p->dice), opt.reset);
    if (n < 0 || reset) {
        counts.resets += reset;
        close_link(l, true);
        return false;
    }
    p->ended = n == 0;
    counts.bytes += (uint64_t)n;
    put(p, bytes, (size_t)n, passes(p, (size_t)n, now) + opt.delay);
    return true;
}

static bool write_stream(link_ *l, pipe_ *p, uint64_t now) {
    while (p->first != NULL && p->first->due <= now) {
        item *i = p->first;
        const ssize_t n =
            i->len == 0 ? 0 : send(p->to, i->bytes + i->at, i->len - i->at, MSG_NOSIGNAL);
        if (i->len == 0)
            (void)shutdown(p->to, SHUT_WR);
        p->blocked = n < 0 && (errno == EAGAIN || errno == EINTR);
        if (p->blocked)
            return true;
        if (n < 0) {
            close_link(l, true);
            return false;
        }
        i->at += (uint32_t)n;
        if (i->at == i->len)
            drop_first(p);
    }
    if (l->pipe[0].ended && l->pipe[1].ended && l->pipe[0].first == NULL &&
        l->pipe[1].first == NULL) {
        close_link(l, false);
        return false;
    }
    return true;
}

static int new_socket(const uvcci_address *a) {
    const int type = a->kind == UVCCI_ADDRESS_UDP ? SOCK_DGRAM : SOCK_STREAM, one = 1;
    const int fd = socket(a->sa.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && a->kind == UVCCI_ADDRESS_TCP)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void accept_link(unsigned at) {
    route *r = &routes[at];
    const int fd = accept4(r->fd[0], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    const int out = fd >= 0 ? new_socket(&r->end[1]) : -1;
    link_ *l = links;
    while (l < links + LINKS_MAX && l->used)
        l++;
    if (out < 0 || l == links + LINKS_MAX ||
        (connect(out, (const struct sockaddr *)&r->end[1].sa, r->end[1].len) != 0 &&
         errno != EINPROGRESS)) {
        if (fd >= 0)
            (void)close(fd);
        if (out >= 0)
            (void)close(out);
        return;
    }
    counts.connections++;
    *l = (link_){.used = true, .connecting = true, .fd = {fd, out}};
    for (unsigned d = 0; d < 2; d++)
        l->pipe[d] =
            (pipe_){.from = l->fd[d], .to = l->fd[1 - d], .dice = seed_of(at, d, r->connections)};
    r->connections++;
}

static void turn_link(link_ *l, short ready[2], uint64_t now) {
    if (l->connecting && (ready[1] & (POLLOUT | POLLERR | POLLHUP)) == 0)
        return;
    l->connecting = false;
    for (int d = 0; d < 2; d++)
        if ((ready[d] & (POLLIN | POLLERR | POLLHUP)) != 0 && !read_stream(l, &l->pipe[d], now))
            return;
    for (int d = 0; d < 2; d++)
        if (!write_stream(l, &l->pipe[d], now))
            return;
}

/* ---- the loop ---- */

static uint64_t sooner(uint64_t at, const pipe_ *p) {
    return p->first != NULL && !p->blocked && p->first->due < at ? p->first->due : at;
}

static short events_of(const pipe_ *in, const pipe_ *out) {
    return (short)((in->packets || wants_bytes(in) ? POLLIN : 0) | (out->blocked ? POLLOUT : 0));
}

/* Until a signal says that it is over. */
static void loop(int signals) {
    static struct pollfd fds[1 + 2 * (ROUTES_MAX + LINKS_MAX)];
    for (;;) {
        uint64_t at = UVCC_NEVER, now = uvcc_host_now_ns();
        nfds_t n = 0;
        fds[n++] = (struct pollfd){.fd = signals, .events = POLLIN};
        for (unsigned i = 0; i < route_count; i++)
            for (int d = 0; d < 2; d++) {
                pipe_ *p = packet_pipes[i];
                at = sooner(at, &p[d]);
                fds[n++] =
                    (struct pollfd){.fd = routes[i].fd[d],
                                    .events = p[d].packets ? events_of(&p[d], &p[1 - d]) : POLLIN};
            }
        for (unsigned i = 0; i < LINKS_MAX; i++)
            for (int d = 0; d < 2; d++) {
                link_ *l = &links[i];
                at = sooner(at, &l->pipe[d]);
                fds[n++] = (struct pollfd){
                    .fd = l->used && (d == 1 || !l->connecting) ? l->fd[d] : -1,
                    .events = l->connecting ? POLLOUT : events_of(&l->pipe[d], &l->pipe[1 - d])};
            }
        const uint64_t wait = at > now ? at - now : 0;
        const struct timespec t = {.tv_sec = (time_t)(wait / NS_PER_S),
                                   .tv_nsec = (long)(wait % NS_PER_S)};
        (void)ppoll(fds, n, at == UVCC_NEVER ? NULL : &t, NULL);
        if ((fds[0].revents & POLLIN) != 0)
            return;
        now = uvcc_host_now_ns();
        for (unsigned i = 0; i < route_count; i++)
            for (int d = 0; d < 2; d++) {
                pipe_ *p = &packet_pipes[i][d];
                if (p->packets) {
                    read_packets(p, now);
                    send_packets(p, now);
                } else if ((fds[1 + 2 * i + (unsigned)d].revents & POLLIN) != 0) {
                    accept_link(i);
                }
            }
        for (unsigned i = 0; i < LINKS_MAX; i++) {
            const struct pollfd *f = &fds[1 + 2 * (route_count + i)];
            if (links[i].used && f[1].fd == links[i].fd[1])
                turn_link(&links[i], (short[2]){f[0].revents, f[1].revents}, now);
        }
    }
}

/* ---- routes ---- */

static void refuse(const char *what, const char *why) {
    fprintf(stderr, "uvcc-relay: %s: %s\n", what, why);
    exit(2);
}

static int open_bound(uvcci_address *a, const char *text) {
    const int fd = new_socket(a);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&a->sa, a->len) != 0 ||
        (a->kind != UVCCI_ADDRESS_UDP && listen(fd, LINKS_MAX) != 0) ||
        (a->kind != UVCCI_ADDRESS_UNIX && getsockname(fd, (struct sockaddr *)&a->sa, &a->len) != 0))
        refuse(text, strerror(errno));
    return fd;
}

static void parse(uvcci_address *a, const char *text, bool listening) {
    const char *why = NULL;
    if (uvcci_address_parse(a, text, listening, &why) != 0)
        refuse(text, why);
}

/* Streams: LISTEN=TARGET. Packets: END=END, with a socket for each that the other one sends to. */
static void add_route(const char *text) {
    char first[2 * UVCC_NET_ADDRESS_BYTES], said[2][UVCC_NET_ADDRESS_BYTES] = {"", ""};
    route *r = &routes[route_count];
    pipe_ *p = packet_pipes[route_count];
    const char *eq = strchr(text, '=');
    if (route_count == ROUTES_MAX)
        refuse(text, "too many routes");
    if (eq == NULL || (size_t)(eq - text) >= sizeof first)
        refuse(text, "a route is ADDRESS=ADDRESS");
    (void)snprintf(first, sizeof first, "%.*s", (int)(eq - text), text);
    const bool packets = strncmp(first, "udp:", 4) == 0;
    parse(&r->end[0], first, !packets);
    parse(&r->end[1], eq + 1, false);
    if (packets != (r->end[1].kind == UVCCI_ADDRESS_UDP))
        refuse(text, "packets go to packets, streams to streams");
    r->fd[1] = -1;
    if (!packets) {
        r->fd[0] = open_bound(&r->end[0], first);
        uvcci_address_format(&r->end[0], said[0]);
    }
    for (unsigned d = 0; packets && d < 2; d++) {
        uvcci_address here = {0};
        parse(&here, r->end[d].sa.ss_family == AF_INET6 ? "udp:[::1]:0" : "udp:127.0.0.1:0", true);
        r->fd[d] = open_bound(&here, first);
        uvcci_address_format(&here, said[d]);
    }
    for (unsigned d = 0; packets && d < 2; d++)
        p[d] = (pipe_){.packets = true,
                       .from = r->fd[d],
                       .to = r->fd[1 - d],
                       .target = r->end[1 - d],
                       .dice = seed_of(route_count, d, 0)};
    printf("{\"route\": %u, \"first\": \"%s\", \"second\": \"%s\"}\n", route_count, said[0],
           said[1]);
    route_count++;
}

static void help(void) {
    printf(
        "uvcc-relay [OPTION...] ROUTE...\n\n"
        "A bad network between sockets, until SIGTERM or SIGINT; then its counts as a JSON line.\n"
        "ROUTE is LISTEN=TARGET for tcp:HOST:PORT and unix:/PATH, where PORT 0 is any that is\n"
        "free, and END=END for udp:HOST:PORT, of both ends: packets have no listener, so each end\n"
        "gets a socket that it sends to. A JSON line for each route says which: \"first\" is "
        "where\n"
        "it listens, or what the first end sends to; \"second\" what the second end sends to.\n\n"
        "  --seed N      of all that is left to chance\n"
        "  --rate N      bytes per second, in each direction of a connection or route\n"
        "  --delay MS    of everything\n"
        "  --jitter MS   packets: at most so much more, each by chance\n"
        "  --queue N     bytes that wait in each direction at most (default 1 MiB): packets over\n"
        "                it are lost, streams are not read\n"
        "  --loss P      packets: lost with this chance\n"
        "  --repeat P    packets: twice\n"
        "  --reorder P   packets: later by half of the delay and 1 ms\n"
        "  --corrupt P   packets: one bit of it flipped\n"
        "  --reset P     streams: the connection is reset, by chance after each read of at most\n"
        "                16 KiB\n"
        "  --help        this text\n");
}

static double number(const char *name, const char *text, double most) {
    char *rest = NULL;
    const double v = text == NULL ? -1 : strtod(text, &rest);
    if (text == NULL || *text == '\0' || *rest != '\0' || !(v >= 0 && v <= most))
        refuse(name, "a number that is not negative, and a chance at most 1");
    return v;
}

static bool set_option(const char *name, const char *value) {
    static const struct {
        const char *name;
        double scale;
        uint64_t *to;
    } numbers[] = {
        {"--seed", 1, &opt.seed},         {"--rate", 1, &opt.rate},
        {"--delay", 1000000, &opt.delay}, {"--jitter", 1000000, &opt.jitter},
        {"--queue", 1, &opt.queue},
    };
    static const struct {
        const char *name;
        double *to;
    } chances[] = {
        {"--loss", &opt.loss},       {"--repeat", &opt.repeat}, {"--reorder", &opt.reorder},
        {"--corrupt", &opt.corrupt}, {"--reset", &opt.reset},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(name, numbers[i].name) == 0) {
            *numbers[i].to = (uint64_t)(number(name, value, 1e12) * numbers[i].scale);
            return true;
        }
    for (size_t i = 0; i < sizeof chances / sizeof chances[0]; i++)
        if (strcmp(name, chances[i].name) == 0) {
            *chances[i].to = number(name, value, 1);
            return true;
        }
    return false;
}

int main(int argc, char **argv) {
    sigset_t ends;
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        if (strcmp(argv[i], "--help") == 0) {
            help();
            return 0;
        }
        if (!set_option(argv[i], i + 1 < argc ? argv[i + 1] : NULL))
            refuse(argv[i], "no such option (see --help)");
    }
    if (i >= argc)
        refuse("ROUTE", "none (see --help)");
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigaddset(&ends, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &ends, NULL);
    for (; i < argc; i++)
        add_route(argv[i]);
    (void)fflush(stdout);
    loop(signalfd(-1, &ends, SFD_CLOEXEC));
    for (unsigned r = 0; r < route_count; r++)
        if (routes[r].end[0].kind == UVCCI_ADDRESS_UNIX)
            (void)unlink(((const struct sockaddr_un *)&routes[r].end[0].sa)->sun_path);
    printf("{\"packets\": %llu, \"bytes\": %llu, \"lost\": %llu, \"repeated\": %llu, "
           "\"reordered\": %llu, \"corrupted\": %llu, \"overflowed\": %llu, \"connections\": %llu, "
           "\"resets\": %llu}\n",
           (unsigned long long)counts.packets, (unsigned long long)counts.bytes,
           (unsigned long long)counts.lost, (unsigned long long)counts.repeated,
           (unsigned long long)counts.reordered, (unsigned long long)counts.corrupted,
           (unsigned long long)counts.overflowed, (unsigned long long)counts.connections,
           (unsigned long long)counts.resets);
    return 0;
}
