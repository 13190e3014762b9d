/* SPDX-License-Identifier: Apache-2.0 */
/* star.c - uvcc-star: three machines with a line each to a switch in the middle, for tests and
 * measurements of what the kernel's TCP and UDP do between machines that are far apart. A machine
 * is a network namespace with a TUN device, in which a command runs; this process is the lines.
 *
 *     namespace 0 -- tun -- up 0 \            / down 0 -- tun -- namespace 0
 *     namespace 1 -- tun -- up 1 --  switch  --  down 1 -- ...
 *     namespace 2 -- tun -- up 2 /            \ down 2
 *
 * A packet waits for its sender's line, takes its length's time on it, half of a round trip, and
 * then the same on its receiver's line. Lengths are those of IP packets. Where nothing is lost the
 * kernel hands out many packets of a connection as one (TSO), as it does to a network card; they
 * count as those that the card would make of them. Namespaces and devices have no names outside and
 * end with this process and its commands. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <uvcc/host.h>
#include <uvcc/types.h>

#define MACHINES     3
#define NETWORK      0x0A4E0000u /* 10.78.0.0; machine i has .i+1 */
#define MTU          1500
#define PACKET_BYTES (sizeof(struct virtio_net_hdr) + 65536u)
#define QUEUE_LEN    20000
#define READS_A_TURN 64
#define IP_BYTES     20u
#define NS_PER_S     UINT64_C(1000000000)
enum { NOT_ALLOWED = 77 }; /* as tests are skipped */

typedef struct packet {
    struct packet *next;
    uint64_t due;
    uint32_t stored, wire,
        first; /* bytes in `bytes`, on a line, and of the first packet of those */
    uint8_t to;
    uint8_t bytes[];
} packet;

/* One direction of a machine's line, and what is behind it on its way. */
typedef struct line {
    uint64_t free_at;
    packet *first, *last;
} line;

static struct {
    uint64_t seed, rate, delay, queue;
    double loss;
} opt = {.queue = 4u << 20};

static struct { uint64_t packets, bytes, lost, overflowed, late_ns, late_max_ns; } counts;

static int tun[MACHINES];
static pid_t pid[MACHINES];
static line up[MACHINES], down[MACHINES];
static uint64_t dice;

/* ---- machines ---- */

static void fail(const char *what) {
    const bool denied = errno == EPERM || errno == EACCES || errno == ENOENT || errno == ENODEV;
    fprintf(stderr, "uvcc-star: %s: %s\n", what, strerror(errno));
    exit(denied ? NOT_ALLOWED : 1);
}

static struct sockaddr_in address(unsigned machine) {
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(NETWORK + 1 + machine)};
}

static void device_up(const char *name, const struct sockaddr_in *mine) {
    const struct sockaddr_in mask = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xFFFFFF00u)};
    struct ifreq r = {0};
    const int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
    if (s < 0)
        fail("a socket");
    if (mine != NULL) {
        memcpy(&r.ifr_addr, mine, sizeof *mine);
        if (ioctl(s, SIOCSIFADDR, &r) != 0)
            fail("the address of a TUN device");
        memcpy(&r.ifr_netmask, &mask, sizeof mask);
        if (ioctl(s, SIOCSIFNETMASK, &r) != 0)
            fail("the network of a TUN device");
        r.ifr_mtu = MTU;
        (void)ioctl(s, SIOCSIFMTU, &r);
        r.ifr_qlen = QUEUE_LEN; /* the queue is the line's, not the device's */
        (void)ioctl(s, SIOCSIFTXQLEN, &r);
    }
    r.ifr_flags = IFF_UP;
    if (ioctl(s, SIOCSIFFLAGS, &r) != 0)
        fail("a device");
    (void)close(s);
}

/* This process is in the new namespace from now on; the device stays in it. */
static void machine_open(unsigned i) {
    const struct sockaddr_in mine = address(i);
    struct ifreq r = {.ifr_name = "line", .ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
    if (unshare(CLONE_NEWNET) != 0)
        fail("unshare(CLONE_NEWNET), which needs root");
    tun[i] = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (tun[i] < 0 || ioctl(tun[i], TUNSETIFF, &r) != 0)
        fail("/dev/net/tun");
    if (opt.loss == 0 && ioctl(tun[i], TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0)
        fail("TUNSETOFFLOAD");
    device_up("lo", NULL);
    device_up("line", &mine);
}

static void command_start(unsigned i, const char *command, const sigset_t *signals) {
    const pid_t parent = getpid();
    pid[i] = fork();
    if (pid[i] < 0)
        fail("fork");
    if (pid[i] != 0)
        return;
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)sigprocmask(SIG_UNBLOCK, signals, NULL);
    if (getppid() == parent)
        (void)execl("/bin/sh", "sh", "-c", command, NULL);
    _exit(127);
}

/* ---- lines ---- */

static bool is_lost(void) { /* splitmix64 */
    uint64_t z = dice += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53 < opt.loss;
}

static uint64_t ns_of(uint64_t bytes) {
    return opt.rate != 0 ? bytes * NS_PER_S / opt.rate : 0;
}

static void put(line *l, packet *p) {
    p->next = NULL;
    if (l->first != NULL)
        l->last->next = p;
    else
        l->first = p;
    l->last = p;
}

static packet *take(line *l) {
    packet *p = l->first;
    l->first = p->next;
    return p;
}

/* Takes a line from `now` on at the earliest; false: too much waits for it. */
static bool passes(line *l, const packet *p, uint64_t now) {
    if (l->free_at < now)
        l->free_at = now;
    if (l->free_at - now > ns_of(opt.queue) && opt.rate != 0) {
        counts.overflowed++;
        return false;
    }
    l->free_at += ns_of(p->wire);
    return true;
}

/* What the card would make of it: as many packets as its segments, each with the headers. */
static void measure(packet *p) {
    struct virtio_net_hdr h;
    const uint8_t *ip = p->bytes + sizeof h;
    const uint32_t len = p->stored - (uint32_t)sizeof h;
    memcpy(&h, p->bytes, sizeof h);
    p->wire = p->first = len;
    counts.packets++;
    if (h.gso_type == VIRTIO_NET_HDR_GSO_NONE || h.gso_size == 0)
        return;
    const uint32_t ip_bytes = 4u * (ip[0] & 15u), tcp_bytes = 4u * (ip[ip_bytes + 12] >> 4);
    const uint32_t headers = ip_bytes + tcp_bytes, payload = len > headers ? len - headers : 0;
    const uint32_t segments = (payload + h.gso_size - 1) / h.gso_size;
    if (segments < 2)
        return;
    counts.packets += segments - 1;
    p->wire = payload + segments * headers;
    p->first = h.gso_size + headers;
}

/* Where a packet goes; MACHINES: nowhere here. */
static unsigned goes_to(const uint8_t *ip, size_t len) {
    uint32_t to;
    if (len < IP_BYTES || ip[0] >> 4 != 4)
        return MACHINES;
    memcpy(&to, ip + 16, sizeof to);
    to = ntohl(to) - NETWORK - 1;
    return to < MACHINES ? to : MACHINES;
}

/* What came out of a machine is on its line, or lost. */
static void read_machine(unsigned i) {
    static uint8_t bytes[PACKET_BYTES];
    const size_t skip = sizeof(struct virtio_net_hdr);
    for (int k = 0; k < READS_A_TURN; k++) {
        const ssize_t n = read(tun[i], bytes, sizeof bytes);
        const uint64_t now = uvcc_host_now_ns();
        if (n < (ssize_t)(skip + IP_BYTES))
            return;
        const unsigned to = goes_to(bytes + skip, (size_t)n - skip);
        packet *p = to < MACHINES ? malloc(sizeof *p + (size_t)n) : NULL;
        if (p == NULL)
            continue;
        *p = (packet){.stored = (uint32_t)n, .to = (uint8_t)to};
        memcpy(p->bytes, bytes, (size_t)n);
        measure(p);
        const bool lost = is_lost();
        counts.bytes += p->wire;
        counts.lost += lost;
        if (lost || !passes(&up[i], p, now)) {
            free(p);
            continue;
        }
        p->due = up[i].free_at + opt.delay;
        put(&up[i], p);
    }
}

/* The line of whose packets the next one reaches the switch; NULL: none by now. */
static line *next_arrival(uint64_t now) {
    line *next = NULL;
    for (unsigned i = 0; i < MACHINES; i++)
        if (up[i].first != NULL && up[i].first->due <= now &&
            (next == NULL || up[i].first->due < next->first->due))
            next = &up[i];
    return next;
}

/* Packets follow each other closely: the receiver's line begins with the first of those that stand
 * here as one, not with the last. */
static void turn_switch(uint64_t now) {
    for (line *from; (from = next_arrival(now)) != NULL;) {
        packet *p = take(from);
        const uint64_t begins = p->due - ns_of(p->wire - p->first);
        if (!passes(&down[p->to], p, begins)) {
            free(p);
            continue;
        }
        p->due = down[p->to].free_at;
        put(&down[p->to], p);
    }
    for (unsigned i = 0; i < MACHINES; i++)
        while (down[i].first != NULL && down[i].first->due <= now) {
            packet *p = take(&down[i]);
            const uint64_t late = now - p->due;
            counts.late_ns += late;
            counts.late_max_ns = late > counts.late_max_ns ? late : counts.late_max_ns;
            if (write(tun[i], p->bytes, p->stored) < 0)
                counts.overflowed++;
            free(p);
        }
}

static uint64_t next_due(void) {
    uint64_t at = UVCC_NEVER;
    for (unsigned i = 0; i < MACHINES; i++) {
        if (up[i].first != NULL && up[i].first->due < at)
            at = up[i].first->due;
        if (down[i].first != NULL && down[i].first->due < at)
            at = down[i].first->due;
    }
    return at;
}

/* ---- until all commands have ended ---- */

static int status_of(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Those that ended; their greatest status. */
static int reap(int *worst) {
    int status, left = 0;
    for (unsigned i = 0; i < MACHINES; i++) {
        if (pid[i] > 0 && waitpid(pid[i], &status, WNOHANG) == pid[i]) {
            *worst = status_of(status) > *worst ? status_of(status) : *worst;
            pid[i] = 0;
        }
        left += pid[i] > 0;
    }
    return left;
}

static int run(int signals) {
    struct signalfd_siginfo info;
    int worst = 0;
    while (reap(&worst) != 0) {
        struct pollfd fds[MACHINES + 1] = {{.fd = signals, .events = POLLIN}};
        for (unsigned i = 0; i < MACHINES; i++)
            fds[i + 1] = (struct pollfd){.fd = tun[i], .events = POLLIN};
        const uint64_t at = next_due(), now = uvcc_host_now_ns(), wait = at > now ? at - now : 0;
        const struct timespec t = {.tv_sec = (time_t)(wait / NS_PER_S),
                                   .tv_nsec = (long)(wait % NS_PER_S)};
        (void)ppoll(fds, MACHINES + 1, at == UVCC_NEVER ? NULL : &t, NULL);
        if (read(signals, &info, sizeof info) == sizeof info && info.ssi_signo != SIGCHLD)
            for (unsigned i = 0; i < MACHINES; i++)
                if (pid[i] > 0)
                    (void)kill(-pid[i], SIGTERM);
        for (unsigned i = 0; i < MACHINES; i++)
            read_machine(i);
        turn_switch(uvcc_host_now_ns());
    }
    return worst;
}

/* ---- options ---- */

static void help(void) {
    printf(
        "uvcc-star [OPTION...] COMMAND COMMAND COMMAND\n\n"
        "Runs a command of the shell on each of three machines, which are network namespaces:\n"
        "10.78.0.1, .2 and .3, with lines to a switch. Needs root and /dev/net/tun; without them\n"
        "the exit status is 77, else the greatest of the commands'. When all have ended, counts\n"
        "as a JSON line on standard error.\n\n"
        "  --seed N      of the losses\n"
        "  --rate N      bytes per second of each line, each way; without: no limit\n"
        "  --delay MS    from a machine to another: half of a round trip\n"
        "  --queue N     bytes that wait for a line at most (default 4 MiB); more are lost\n"
        "  --loss P      each packet is lost with this chance\n"
        "  --help        this text\n");
}

static void refuse(const char *what, const char *why) {
    fprintf(stderr, "uvcc-star: %s: %s\n", what, why);
    exit(2);
}

static double number(const char *name, const char *text, double most) {
    char *rest = NULL;
    const double v = text == NULL ? -1 : strtod(text, &rest);
    if (text == NULL || *text == '\0' || *rest != '\0' || !(v >= 0 && v <= most))
        refuse(name, "a number that is not negative, and a chance at most 1");
    return v;
}

static void set_option(const char *name, const char *value) {
    if (strcmp(name, "--seed") == 0)
        opt.seed = (uint64_t)number(name, value, 1e15);
    else if (strcmp(name, "--rate") == 0)
        opt.rate = (uint64_t)number(name, value, 1e12);
    else if (strcmp(name, "--delay") == 0)
        opt.delay = (uint64_t)(number(name, value, 1e6) * 1e6);
    else if (strcmp(name, "--queue") == 0)
        opt.queue = (uint64_t)number(name, value, 1e12);
    else if (strcmp(name, "--loss") == 0)
        opt.loss = number(name, value, 1);
    else
        refuse(name, "no such option (see --help)");
}

int main(int argc, char **argv) {
    sigset_t signals;
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        if (strcmp(argv[i], "--help") == 0) {
            help();
            return 0;
        }
        set_option(argv[i], i + 1 < argc ? argv[i + 1] : NULL);
    }
    if (argc - i != MACHINES)
        refuse("COMMAND", "three are needed (see --help)");
    dice = opt.seed;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    (void)prctl(PR_SET_TIMERSLACK, 1);
    for (unsigned m = 0; m < MACHINES; m++) {
        machine_open(m);
        command_start(m, argv[i + (int)m], &signals);
    }
    const int status = run(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    fprintf(stderr,
            "{\"packets\": %llu, \"bytes\": %llu, \"lost\": %llu, \"overflowed\": %llu, "
            "\"late_mean_ms\": %.3f, \"late_max_ms\": %.3f}\n",
            (unsigned long long)counts.packets, (unsigned long long)counts.bytes,
            (unsigned long long)counts.lost, (unsigned long long)counts.overflowed,
            counts.packets != 0 ? (double)counts.late_ns * 1e-6 / (double)counts.packets : 0,
            (double)counts.late_max_ns * 1e-6);
    return status;
}
