/* SPDX-License-Identifier: Apache-2.0 */
/* bench_link_tun.c - links over the kernel's UDP, in real time, through a relay that is the path.
 *
 *     left host --UDP--> tun | relay: a pipe of net.h each way | tun --UDP--> right host
 *     TCP of the kernel ---/                                     \--- TCP of the kernel
 *
 * Each side has a network namespace with one TUN device; the relay reads packets from one device
 * and writes them to the other when net.c says that they arrive. Hosts, relay and TCP are processes
 * of their own. Namespaces and devices have no names outside and belong to these processes alone:
 * when they end, however they end, all is gone. Lengths are those of datagrams for UDP and of whole
 * IP packets for TCP, as in net.h. */
#define _GNU_SOURCE /* unshare, ppoll */
#include "bench_link.h"
#include "net_flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef __linux__

void bench_tun(const bench_options *o) {
    (void)o;
    printf("{\"bench\": \"link_tun\", \"skipped\": \"TUN devices of Linux are needed\"}\n");
}

#else

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <uvcc/host.h>

#define PACKET_MAX   9100u
#define UDP_IP_BYTES 28u
#define BURST        64 /* packets between two looks at the other direction */
#define QUEUE_LEN    20000
#define MESSAGE      (1u << 20)

typedef struct tun_scene {
    const char *name, *tcp; /* tcp: congestion control of the flow beside, or NULL */
    double rate, loss;
    uint64_t queue_bytes;
    uint32_t queue_packets, mtu;
    bool no_link; /* TCP alone: the scale, and a check of the relay */
    bool falls;   /* the path carries 1,500 bytes only, from a third of the time on */
} tun_scene;

/* What the processes tell each other. */
typedef struct shared {
    volatile int stop, marks;
    char why[128]; /* not "": it could not be done */
    net_figures came;
    uint64_t wire_bytes, tcp_bytes;
    double late_mean, late_max, queue_ms;
    double packet_bytes; /* mean, before the path fell */
    char error[128];
} shared;

typedef struct wires { /* of both sides: 0 left, 1 right */
    int tun[2], udp[2], tcp[2];
} wires;

/* ---- namespaces, devices, sockets ---- */

static bool cannot(shared *sh, const char *what) {
    snprintf(sh->why, sizeof sh->why, "%s: %s", what, strerror(errno));
    return false;
}

static struct sockaddr_in address(int side, uint16_t port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    a.sin_addr.s_addr = htonl(0x0A4D0001u + (uint32_t)side); /* 10.77.0.1 and .2 */
    return a;
}

static bool device_up(shared *sh, int side, uint32_t mtu) {
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq r = {.ifr_name = "uvcc0"};
    struct sockaddr_in mine = address(side, 0), other = address(1 - side, 0);
    memcpy(&r.ifr_addr, &mine, sizeof mine);
    bool ok = s >= 0 && ioctl(s, SIOCSIFADDR, &r) == 0;
    memcpy(&r.ifr_dstaddr, &other, sizeof other);
    ok = ok && ioctl(s, SIOCSIFDSTADDR, &r) == 0;
    r.ifr_mtu = (int)mtu;
    ok = ok && ioctl(s, SIOCSIFMTU, &r) == 0;
    r.ifr_qlen = QUEUE_LEN; /* the queue is the relay's, not the device's */
    ok = ok && ioctl(s, SIOCSIFTXQLEN, &r) == 0;
    r.ifr_flags = IFF_UP | IFF_POINTOPOINT;
    ok = ok && ioctl(s, SIOCSIFFLAGS, &r) == 0;
    int err = errno;
    if (s >= 0)
        close(s);
    errno = err;
    return ok || cannot(sh, "setting up a TUN device");
}

static bool sockets_open(shared *sh, wires *w, int side, const tun_scene *scene) {
    struct sockaddr_in mine = address(side, 7000), other = address(1 - side, 7000);
    int big = 16 << 20, probe = IP_PMTUDISC_PROBE, one = 1;
    int u = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    w->udp[side] = u;
    if (u < 0 || bind(u, (struct sockaddr *)&mine, sizeof mine) != 0 ||
        connect(u, (struct sockaddr *)&other, sizeof other) != 0 ||
        setsockopt(u, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe) != 0)
        return cannot(sh, "a UDP socket");
    setsockopt(u, SOL_SOCKET, SO_RCVBUFFORCE, &big, sizeof big);
    setsockopt(u, SOL_SOCKET, SO_SNDBUFFORCE, &big, sizeof big);
    if (scene->tcp == NULL)
        return true;
    int t = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    w->tcp[side] = t;
    mine = address(side, 7001);
    if (t < 0 || setsockopt(t, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        setsockopt(t, IPPROTO_TCP, TCP_CONGESTION, scene->tcp, (socklen_t)strlen(scene->tcp)) != 0)
        return cannot(sh, "a TCP socket");
    if (side == 1 && (bind(t, (struct sockaddr *)&mine, sizeof mine) != 0 || listen(t, 1) != 0))
        return cannot(sh, "a TCP socket that listens");
    return true;
}

/* Sockets and devices stay in the namespace in which they were made. */
static bool wires_open(shared *sh, wires *w, const tun_scene *scene) {
    for (int side = 0; side < 2; side++) {
        if (unshare(CLONE_NEWNET) != 0)
            return cannot(sh, "unshare(CLONE_NEWNET), which needs root");
        w->tun[side] = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
        if (w->tun[side] < 0)
            return cannot(sh, "/dev/net/tun");
        struct ifreq r = {.ifr_name = "uvcc0", .ifr_flags = IFF_TUN | IFF_NO_PI};
        if (ioctl(w->tun[side], TUNSETIFF, &r) != 0)
            return cannot(sh, "TUNSETIFF");
        if (!device_up(sh, side, scene->mtu) || !sockets_open(sh, w, side, scene))
            return false;
    }
    return true;
}

/* Sleeps until a descriptor has something, or until `at`, 50 ms at most: so that a stop is heard.
 */
static void wait_for(struct pollfd *fd, nfds_t n, uint64_t at) {
    uint64_t now = uvcc_host_now_ns(), ns = at > now ? at - now : 0;
    ns = ns < 50 * NET_MS ? ns : 50 * NET_MS;
    struct timespec t = {.tv_nsec = (long)ns};
    ppoll(fd, n, &t, NULL);
}

/* ---- the relay ---- */

typedef struct relay {
    net *n;
    net_flow *flow[2]; /* UDP, TCP */
    uint64_t zero;     /* the clock's time at the net's 0 */
    const wires *w;
    shared *sh;
    uint64_t packets;
} relay;

static void relay_out(net_flow *flow, int end, const net_packet *p, uint64_t now) {
    relay *r = flow->state;
    (void)now;
    uint64_t real = uvcc_host_now_ns() - r->zero, late = real > p->at ? real - p->at : 0;
    r->sh->late_max = (double)late > r->sh->late_max ? (double)late : r->sh->late_max;
    r->sh->late_mean += ((double)late - r->sh->late_mean) / (double)++r->packets;
    if (write(r->w->tun[end], p->data, p->stored) < 0 && errno != EAGAIN && errno != EINVAL)
        snprintf(r->sh->error, sizeof r->sh->error, "relay: write: %s", strerror(errno));
}

static void relay_turn(net_flow *flow, int end, uint64_t now) {
    (void)now;
    flow->end[end].wake_at = UVCC_NEVER;
}

static void relay_free(net_flow *flow) {
    (void)flow;
}

static void relay_in(relay *r, int side) {
    uint8_t packet[PACKET_MAX];
    for (int i = 0; i < BURST; i++) {
        ssize_t len = read(r->w->tun[side], packet, sizeof packet);
        if (len < 0)
            return;
        bool udp = len > (ssize_t)UDP_IP_BYTES && packet[9] == IPPROTO_UDP;
        if (len < 20 || packet[0] >> 4 != 4 || (!udp && packet[9] != IPPROTO_TCP))
            continue;
        net_flow *flow = r->flow[udp ? 0 : 1];
        uint32_t wire = (uint32_t)len - (udp ? UDP_IP_BYTES : 0);
        memcpy(net_send(flow, side, wire, (uint32_t)len, uvcc_host_now_ns() - r->zero), packet,
               (size_t)len);
    }
}

static void relay_run(const tun_scene *scene, const wires *w, shared *sh, double seconds,
                      uint64_t seed) {
    net_pipe_config p = {.rate = scene->rate,
                         .delay_ns = 20 * NET_MS,
                         .loss = scene->loss,
                         .queue_bytes = scene->queue_bytes,
                         .queue_packets = scene->queue_packets};
    relay r = {.n = net_new(&(net_config){.seed = seed, .pipe = {p, p}}), .w = w, .sh = sh};
    for (int i = 0; i < 2; i++) {
        r.flow[i] = net_add(r.n, 0);
        r.flow[i]->turn = relay_turn;
        r.flow[i]->receive = relay_out;
        r.flow[i]->free = relay_free;
        r.flow[i]->state = &r;
    }
    r.zero = uvcc_host_now_ns() - NET_BEGIN;
    uint64_t end = NET_BEGIN + (uint64_t)(seconds * 1e9),
             falls = scene->falls ? end / 3 : UVCC_NEVER;
    for (uint64_t now; (now = uvcc_host_now_ns() - r.zero) < end;) {
        if (now >= falls) {
            falls = UVCC_NEVER;
            net_pipe(r.n, NET_THERE)->path_bytes = net_pipe(r.n, NET_BACK)->path_bytes =
                1500 - UDP_IP_BYTES;
            sh->marks++;
        }
        relay_in(&r, 0);
        relay_in(&r, 1);
        net_run(r.n, uvcc_host_now_ns() - r.zero);
        struct pollfd fd[2] = {{.fd = w->tun[0], .events = POLLIN},
                               {.fd = w->tun[1], .events = POLLIN}};
        uint64_t next = net_next(r.n);
        wait_for(fd, 2, next == UVCC_NEVER ? UVCC_NEVER : next + r.zero);
    }
    net_figures f;
    net_flow_figures(r.n, scene->no_link ? 1 : 0, &f);
    sh->queue_ms = f.queue_ns / 1e6;
    net_free(r.n);
}

/* ---- a host with one link ---- */

typedef struct host {
    uvcc_link *link;
    int side, fd;
    shared *sh;
    uint32_t sent;
    uint64_t wire_bytes, wire_packets;
    uvcc_transmit pending; /* total != 0: the socket did not take it */
    net_flow flow;         /* for its figures only */
    net_frames came;
    int marks;
} host;

static void offer(host *h, uint64_t now) {
    while (h->side == 0 && uvcc_link_writable(h->link, UVCC_FRAME_OPEN_BATCH, MESSAGE)) {
        uvcc_link_msg *m;
        uint32_t ids[UVCC_MSG_MAX_CHUNKS] = {++h->sent};
        bench_check(uvcc_link_msg_new(h->link, UVCC_FRAME_OPEN_BATCH, MESSAGE, &m), "msg_new");
        memset(uvcc_link_msg_data(m), (int)(h->sent & 0xFF), MESSAGE);
        bench_check(uvcc_link_send(h->link, m, 0, h->sent, ids, h->sent, now), "send");
    }
}

static void take_in(host *h) {
    static uint8_t packet[PACKET_MAX];
    for (int i = 0; i < BURST; i++) {
        ssize_t len = recv(h->fd, packet, sizeof packet, 0);
        if (len < 0)
            return;
        uint64_t now = uvcc_host_now_ns();
        if (h->side == 1)
            net_frames_count(&h->came, packet, (size_t)len, &h->flow, now);
        int err = uvcc_link_feed(h->link, packet, (size_t)len, now);
        bench_check(err == UVCC_ERR_NOMEM ? 0 : err, "feed");
        uvcc_link_rx rx;
        while (uvcc_link_poll_message(h->link, &rx) == 1) {
            bench_check(uvcc_link_accept(h->link, rx.token, now), "accept");
            bench_check(uvcc_link_release(h->link, rx.token, now), "release");
        }
    }
}

/* True: the socket is full. A packet that the path's first device does not carry is lost. */
static bool send_out(host *h, int *sent) {
    for (*sent = 0; *sent < BURST; ++*sent) {
        uvcc_transmit *t = &h->pending;
        if (t->total == 0 && uvcc_link_poll_transmit(h->link, t, uvcc_host_now_ns()) != 1) {
            t->total = 0;
            return false;
        }
        struct iovec v[64];
        if (t->slice_count > 64)
            bench_check(UVCC_ERR_LIMIT, "slices");
        for (uint32_t i = 0; i < t->slice_count; i++) {
            memcpy(&v[i].iov_base, &t->slices[i].data, sizeof v[i].iov_base);
            v[i].iov_len = t->slices[i].len;
        }
        struct msghdr m = {.msg_iov = v, .msg_iovlen = t->slice_count};
        ssize_t n = sendmsg(h->fd, &m, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            return true;
        h->wire_bytes += n < 0 ? 0 : t->total;
        h->wire_packets += n >= 0;
        bench_check(
            uvcc_link_transmit_done(h->link, t->id, n < 0 ? 0 : t->total, uvcc_host_now_ns()),
            "transmit_done");
        t->total = 0;
    }
    return false;
}

static void host_run(const tun_scene *scene, const wires *w, shared *sh, int side) {
    uvcc_link_config cfg;
    uvcc_link_config_default(&cfg);
    cfg.alloc = uvcc_host_allocator();
    cfg.random = uvcc_host_random();
    cfg.me = (uint8_t)side;
    cfg.peer = (uint8_t)(1 - side);
    cfg.datagram = true;
    cfg.sid_tag = 7;
    cfg.datagram_bytes = scene->falls ? scene->mtu - UDP_IP_BYTES : 0;
    bench_tune(&cfg, side, NULL);
    static const uint8_t prk[32] = {1, 2, 3};
    host h = {.side = side, .fd = w->udp[side], .sh = sh};
    h.came.frame_bytes = NET_FRAME_BYTES;
    bench_check(uvcc_link_new(&h.link, &cfg), "link_new");
    bench_check(uvcc_link_set_run(h.link, 1), "set_run");
    bench_check(uvcc_link_set_keys(h.link, 2, prk), "set_keys");
    uint64_t now = uvcc_host_now_ns();
    bench_check(uvcc_link_start(h.link, now), "start");
    h.flow.arrived = now;
    while (sh->stop == 0) {
        take_in(&h);
        now = uvcc_host_now_ns();
        offer(&h, now);
        if (uvcc_link_next_deadline(h.link) <= now)
            uvcc_link_on_timer(h.link, now);
        int sent;
        bool full = send_out(&h, &sent);
        if (sh->marks != h.marks) {
            h.marks = sh->marks;
            h.flow.f.gap_ns = 0;
            h.flow.arrived = now;
            if (side == 0)
                sh->packet_bytes = (double)h.wire_bytes / (double)(h.wire_packets + 1);
        }
        struct pollfd fd = {.fd = h.fd, .events = (short)(POLLIN | (full ? POLLOUT : 0))};
        uint64_t deadline = uvcc_link_next_deadline(h.link);
        /* What is past while the socket is full waits for the socket. */
        wait_for(&fd, 1, sent == BURST ? now : full && deadline <= now ? UVCC_NEVER : deadline);
    }
    if (side == 0) {
        sh->wire_bytes = h.wire_bytes;
    } else {
        now = uvcc_host_now_ns();
        if (now - h.flow.arrived > h.flow.f.gap_ns)
            h.flow.f.gap_ns = now - h.flow.arrived;
        sh->came = h.flow.f;
    }
    uvcc_link_free(h.link);
    free(h.came.seen.word);
}

/* ---- TCP beside ---- */

static void tcp_run(const wires *w, shared *sh) {
    static uint8_t bytes[1 << 16];
    struct sockaddr_in to = address(1, 7001);
    int in = -1, out = w->tcp[0];
    if (connect(out, (struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS)
        snprintf(sh->error, sizeof sh->error, "TCP: connect: %s", strerror(errno));
    while (sh->stop == 0) {
        struct pollfd fd[2] = {{.fd = in < 0 ? w->tcp[1] : in, .events = POLLIN},
                               {.fd = out, .events = POLLOUT}};
        wait_for(fd, 2, UVCC_NEVER);
        if (in < 0 && (fd[0].revents & POLLIN) != 0)
            in = accept(w->tcp[1], NULL, NULL);
        else if ((fd[0].revents & POLLIN) != 0)
            for (ssize_t n; (n = recv(in, bytes, sizeof bytes, MSG_DONTWAIT)) > 0;)
                sh->tcp_bytes += (uint64_t)n;
        if ((fd[1].revents & POLLOUT) != 0)
            while (send(out, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
            }
    }
}

/* ---- one run ---- */

/* A process that ends when its parent does. In it returns true. */
static bool child(pid_t *pid, pid_t parent) {
    *pid = fork();
    if (*pid != 0)
        return false;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    prctl(PR_SET_TIMERSLACK, 1);
    return true;
}

static void finish(shared *sh, const pid_t *pid, int n, bool in_time) {
    sh->stop = 1;
    for (int i = 0; i < n; i++) {
        int status = 0;
        if (!in_time)
            kill(pid[i], SIGKILL);
        waitpid(pid[i], &status, 0);
        if (status != 0 && sh->error[0] == '\0')
            snprintf(sh->error, sizeof sh->error, "process %d of the run ended with status %d", i,
                     status);
    }
}

static void run_scene(const tun_scene *scene, shared *sh, double seconds, uint64_t seed) {
    wires w;
    pid_t pid[3], me = getpid();
    if (!wires_open(sh, &w, scene))
        return;
    int n = 0;
    for (int i = 0; i < 3; i++) {
        if (i < 2 ? scene->no_link : scene->tcp == NULL)
            continue;
        if (child(&pid[n], me)) {
            if (i < 2)
                host_run(scene, &w, sh, i);
            else
                tcp_run(&w, sh);
            _exit(0);
        }
        if (pid[n] < 0) {
            cannot(sh, "fork");
            finish(sh, pid, n, false);
            return;
        }
        n++;
    }
    setpriority(PRIO_PROCESS, 0, -20); /* a path waits for nobody */
    relay_run(scene, &w, sh, seconds, seed);
    finish(sh, pid, n, true);
}

/* The runner changes its own namespace, so it is a process too. */
static bool run_apart(const tun_scene *scene, shared *sh, double seconds, uint64_t seed) {
    pid_t pid, me = getpid();
    memset(sh, 0, sizeof *sh);
    fflush(NULL);
    if (child(&pid, me)) {
        run_scene(scene, sh, seconds, seed);
        _exit(0);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        snprintf(sh->error, sizeof sh->error, "the run ended with status %d", status);
    if (sh->why[0] != '\0')
        printf("{\"bench\": \"%s\", \"skipped\": \"%s\"}\n", scene->name, sh->why);
    if (sh->error[0] != '\0')
        printf("{\"bench\": \"%s\", \"failed\": \"%s\"}\n", scene->name, sh->error);
    fflush(stdout);
    return sh->why[0] == '\0' && sh->error[0] == '\0';
}

typedef struct tun_values {
    double share[BENCH_SEEDS_MAX], wire[BENCH_SEEDS_MAX], tcp[BENCH_SEEDS_MAX];
    double gap[BENCH_SEEDS_MAX], packet[BENCH_SEEDS_MAX], queue[BENCH_SEEDS_MAX],
        late[BENCH_SEEDS_MAX];
    double late_max[BENCH_SEEDS_MAX];
} tun_values;

static void print(const tun_scene *s, const tun_values *v, unsigned n) {
    bool alone = strcmp(s->name, "tun_alone") == 0, small = s->queue_packets != 0;
    bool reno = s->tcp != NULL && !s->no_link && strcmp(s->tcp, "reno") == 0;
    if (s->no_link) {
        bench_figure(s->name, "", "queue_ms", v->queue, n, NO_GOAL, 0);
    } else if (s->falls) {
        bench_figure(s->name, "", "packet_bytes_before", v->packet, n, NO_GOAL, 0);
        bench_figure(s->name, "", "silent_s", v->gap, n, AT_MOST, 2);
    } else {
        bench_figure(s->name, "", "goodput_share", v->share, n, alone || reno ? AT_LEAST : NO_GOAL,
                     alone ? 0.94 : 0.25);
        bench_figure(s->name, "", "wire_over_ideal", v->wire, n, alone || small ? AT_MOST : NO_GOAL,
                     alone ? 1.05 : 1.10);
        bench_figure(s->name, "", "queue_ms", v->queue, n, NO_GOAL, 0);
    }
    if (s->tcp != NULL)
        bench_figure(s->name, "", "tcp_share", v->tcp, n, reno ? AT_LEAST : NO_GOAL, 0.25);
    bench_figure(s->name, "", "relay_late_ms", v->late, n, NO_GOAL, 0);
    bench_figure(s->name, "", "relay_late_ms_max", v->late_max, n, NO_GOAL, 0);
}

void bench_tun(const bench_options *o) {
    static const tun_scene scenes[] = {
        {.name = "tun_alone", .rate = 100e6, .queue_bytes = 500000, .mtu = 1500},
        {.name = "tun_beside_reno",
         .rate = 100e6,
         .queue_bytes = 500000,
         .mtu = 1500,
         .tcp = "reno"},
        {.name = "tun_beside_cubic",
         .rate = 100e6,
         .queue_bytes = 500000,
         .mtu = 1500,
         .tcp = "cubic"},
        {.name = "tun_tcp_alone",
         .rate = 100e6,
         .queue_bytes = 500000,
         .mtu = 1500,
         .tcp = "reno",
         .no_link = true},
        {.name = "tun_small_queue", .rate = 10e6, .queue_packets = 50, .mtu = 1500},
        {.name = "tun_loss", .rate = 100e6, .queue_bytes = 500000, .loss = 0.01, .mtu = 1500},
        {.name = "tun_path_falls", .mtu = 9000, .falls = true},
    };
    unsigned runs = o->quick ? 1 : 3;
    double seconds = o->quick ? 5 : 15;
    shared *sh = mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool found = false;
    if (sh == MAP_FAILED)
        return;
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
        const tun_scene *s = &scenes[i];
        if (o->tun_scene != NULL && strcmp(o->tun_scene, s->name) != 0)
            continue;
        found = true;
        tun_values v;
        unsigned k = 0;
        for (; k < runs && run_apart(s, sh, seconds, k + 1); k++) {
            v.share[k] = (double)sh->came.frame_bytes * 8 / seconds / s->rate;
            v.wire[k] =
                sh->came.ideal_bytes == 0 ? 0 : (double)sh->wire_bytes / sh->came.ideal_bytes;
            /* Whole packets of 1,500 bytes, of which 1,448 are the flow's own. */
            v.tcp[k] = (double)sh->tcp_bytes * 1500 / 1448 * 8 / seconds / s->rate;
            v.gap[k] = (double)sh->came.gap_ns / 1e9;
            v.packet[k] = sh->packet_bytes;
            v.queue[k] = sh->queue_ms;
            v.late[k] = sh->late_mean / 1e6;
            v.late_max[k] = sh->late_max / 1e6;
        }
        if (k == runs)
            print(s, &v, runs);
        else if (sh->why[0] != '\0' && s->tcp == NULL)
            break; /* it cannot be had here at all */
    }
    munmap(sh, sizeof *sh);
    if (!found) {
        fprintf(stderr, "bench_link: there is no %s\n", o->tun_scene);
        exit(2);
    }
}

#endif
