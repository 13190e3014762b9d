/* SPDX-License-Identifier: Apache-2.0 */
/* bench_net.c - links over a net beside a bare non-blocking copy over the same kind of socket, with
 * the same cipher or TLS, in one run. Two threads, an end each; rounds of both interleaved, and the
 * medians of their ratios as JSON lines. Time is that of the wall, which other load on the machine
 * disturbs, and beside it the CPU time of both threads together, which it disturbs less. */
#define _GNU_SOURCE
#include "bare.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <uvcc/host.h>
#include <uvcc/net.h>

#define ROUNDS_MAX    101
#define MESSAGE_BYTES (1u << 20)
#define SMALL_BYTES   64u
#define ON_WAY_BYTES  (4u << 20) /* of messages that the peer has not acknowledged */

typedef struct over {
    const char *name, *listen, *address; /* address: with the port */
    bare_socket socket;
    bare_tls bare;
    uint32_t tls; /* UVCC_TLS_*; 0: none */
    double plain_goal, sealed_goal;
} over;

static const over overs[] = {
    {"tcp", "tcp:127.0.0.1:0", "tcp:127.0.0.1:%u", BARE_TCP, BARE_PLAIN, 0, 0.85, 0.80},
    {"unix", NULL, NULL, BARE_UNIX, BARE_PLAIN, 0, 0.85, 0.80},
    {"udp", "udp:127.0.0.1:0", "udp:127.0.0.1:%u", BARE_UDP, BARE_PLAIN, 0, 0.85, 0.80},
    {"openssl", "tcp:127.0.0.1:0", "tcp:127.0.0.1:%u", BARE_TCP, BARE_OPENSSL, UVCC_TLS_OPENSSL,
     0.85, 0},
    {"mbedtls", "tcp:127.0.0.1:0", "tcp:127.0.0.1:%u", BARE_TCP, BARE_MBEDTLS, UVCC_TLS_MBEDTLS,
     0.85, 0},
};
#define OVERS (sizeof overs / sizeof overs[0])

typedef struct options {
    unsigned rounds;
    uint64_t bytes; /* of a copy */
    unsigned trips;
    uint32_t backend;
    uint64_t look_ns; /* of both ends' nets */
} options;

typedef struct sample {
    double wall, cpu; /* ns */
} sample;

typedef struct bench bench;
typedef struct end {
    bench *b;
    uint8_t me; /* 1 dials and sends */
    uvcc_net *net;
    uvcc_link *link;
    uvcc_tls *tls;
    bare *copy, *pong;
    uint64_t came;    /* messages */
    unsigned to_say;  /* trips: what is still to be answered */
    uint64_t to_copy; /* messages */
} end;

struct bench {
    const over *over;
    int suite;
    const options *o;
    end end[2];
    pthread_barrier_t barrier;
    _Atomic bool over_now; /* the receiver has it all */
    sample link_copy[ROUNDS_MAX], bare_copy[ROUNDS_MAX], link_trip[ROUNDS_MAX],
        bare_trip[ROUNDS_MAX];
    char path[64];
};

static unsigned missed;

static void check(int rc, const char *what) {
    if (rc < 0) {
        fprintf(stderr, "bench_net: %s: %s\n", what, uvcc_error_text(rc));
        exit(1);
    }
}

static double clock_of(clockid_t which) {
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static sample now(void) {
    return (sample){clock_of(CLOCK_MONOTONIC), clock_of(CLOCK_PROCESS_CPUTIME_ID)};
}

static sample since(sample t) {
    const sample n = now();
    return (sample){n.wall - t.wall, n.cpu - t.cpu};
}

/* ---- links ---- */

static void on_log(void *user, uvcc_log_level level, const char *line) {
    (void)user;
    if (level <= UVCC_LOG_ERROR)
        fprintf(stderr, "bench_net: %s\n", line);
}

static void say(end *e, uint32_t len, uint64_t at) {
    uvcc_link_msg *m;
    const uint32_t ids[UVCC_MSG_MAX_CHUNKS] = {1};
    check(uvcc_link_msg_new(e->link, UVCC_FRAME_OPEN_BATCH, len, &m), "msg_new");
    if (len == SMALL_BYTES)
        memset(uvcc_link_msg_data(m), 7, len);
    check(uvcc_link_send(e->link, m, 0, 1, ids, 1, at), "send");
}

/* What came is taken; in round trips it is answered, in a copy there is always something to send.
 */
static void on_turn(void *user, uvcc_link *l, uint64_t at) {
    end *e = user;
    uvcc_link_rx rx;
    for (; e->to_copy > 0 && uvcc_link_writable(l, UVCC_FRAME_OPEN_BATCH, MESSAGE_BYTES);
         e->to_copy--)
        say(e, MESSAGE_BYTES, at);
    while (uvcc_link_poll_message(l, &rx) == 1) {
        e->came++;
        check(uvcc_link_accept(l, rx.token, at), "accept");
        check(uvcc_link_release(l, rx.token, at), "release");
        if (e->to_say > 0) {
            e->to_say--;
            say(e, SMALL_BYTES, at);
        }
    }
}

static uvcc_link *link_of(const bench *b, uint8_t me) {
    static const uint8_t prk[32] = {1, 2, 3};
    uvcc_link_config cfg;
    uvcc_link *l;
    uvcc_link_config_default(&cfg);
    cfg.alloc = uvcc_host_allocator();
    cfg.random = uvcc_host_random();
    cfg.me = me;
    cfg.peer = (uint8_t)(1 - me);
    cfg.sid_tag = 7;
    cfg.datagram = b->over->socket == BARE_UDP;
    cfg.tx_online_bytes = ON_WAY_BYTES;
    cfg.keepalive_ns = UVCC_NEVER;
    check(uvcc_link_new(&l, &cfg), "link_new");
    check(uvcc_link_set_run(l, 1), "set_run");
    if (b->suite != 0)
        check(uvcc_link_set_keys(l, (uint8_t)b->suite, prk), "set_keys");
    check(uvcc_link_start(l, uvcc_host_now_ns()), "start");
    return l;
}

static uvcc_tls *tls_of(uint32_t library, uint8_t me) {
    static const uint8_t psk[BARE_KEY_BYTES] = {4, 5, 6};
    uvcc_tls_config cfg = {.size = sizeof cfg,
                           .alloc = uvcc_host_allocator(),
                           .log = {on_log, NULL},
                           .library = library,
                           .party = me};
    uvcc_tls *t = NULL;
    cfg.psk[1 - me] = psk;
    cfg.psk_len[1 - me] = sizeof psk;
    check(uvcc_tls_new(&t, &cfg), "tls_new");
    return t;
}

static void end_open(bench *b, uint8_t me, char address[2][UVCC_NET_ADDRESS_BYTES]) {
    end *e = &b->end[me];
    uvcc_net_config cfg;
    uint16_t port = 0;
    *e = (end){.b = b, .me = me};
    uvcc_net_config_default(&cfg);
    cfg.alloc = uvcc_host_allocator();
    cfg.random = uvcc_host_random();
    cfg.log = (uvcc_logger){on_log, NULL};
    cfg.backend = b->o->backend;
    cfg.look_ns = b->o->look_ns;
    check(uvcc_net_new(&e->net, &cfg), "net_new");
    if (b->over->tls != 0)
        e->tls = tls_of(b->over->tls, me);
    e->link = link_of(b, me);
    if (me == 1 && b->over->socket != BARE_UDP)
        return;
    if (b->over->socket == BARE_UNIX)
        (void)snprintf(address[me], UVCC_NET_ADDRESS_BYTES, "unix:%s", b->path);
    check(uvcc_net_listen(e->net, b->over->listen != NULL ? b->over->listen : address[me], e->tls,
                          &port),
          "listen");
    if (b->over->socket != BARE_UNIX)
        (void)snprintf(address[me], UVCC_NET_ADDRESS_BYTES, "%.*s%u",
                       (int)(strlen(b->over->address) - 2), b->over->address, port);
}

static void bench_open(bench *b) {
    static const uint8_t key[BARE_KEY_BYTES] = {7, 8, 9};
    char address[2][UVCC_NET_ADDRESS_BYTES] = {{0}};
    bare *ends[2];
    (void)snprintf(b->path, sizeof b->path, "/tmp/uvcc_bench_net.%d", (int)getpid());
    for (uint8_t me = 0; me < 2; me++)
        end_open(b, me, address);
    for (uint8_t me = 0; me < 2; me++) {
        const uvcc_net_link how = {
            .size = sizeof how,
            .me = me,
            .peer = (uint8_t)(1 - me),
            .sid_tag = 7,
            .datagram = b->over->socket == BARE_UDP,
            .address = address[1 - me][0] != '\0' ? address[1 - me] : NULL,
            .tls = b->end[me].tls,
            .turn = on_turn,
            .user = &b->end[me],
        };
        check(uvcc_net_add_link(b->end[me].net, b->end[me].link, &how), "add_link");
    }
    bare_pair(ends, b->over->socket, b->over->bare, key);
    for (int i = 0; i < 2; i++)
        b->end[i].copy = ends[i];
    bare_pair(ends, b->over->socket, b->over->bare, key);
    for (int i = 0; i < 2; i++)
        b->end[i].pong = ends[i];
    check(pthread_barrier_init(&b->barrier, NULL, 2), "barrier");
}

static void bench_close(bench *b) {
    for (int i = 0; i < 2; i++) {
        check(uvcc_net_remove_link(b->end[i].net, b->end[i].link), "remove_link");
        uvcc_net_free(b->end[i].net);
        uvcc_link_free(b->end[i].link);
        uvcc_tls_free(b->end[i].tls);
        bare_free(b->end[i].copy);
        bare_free(b->end[i].pong);
    }
    pthread_barrier_destroy(&b->barrier);
}

/* ---- phases: each end runs all of them, in step ---- */

static void barrier(bench *b) {
    (void)pthread_barrier_wait(&b->barrier);
}

static void turn_until_over(end *e) {
    while (!atomic_load(&e->b->over_now))
        check(uvcc_net_wait(e->net, UVCC_NEVER), "wait");
    barrier(e->b);
}

static void it_is_over(end *e) {
    atomic_store(&e->b->over_now, true);
    uvcc_net_wake(e->b->end[1 - e->me].net);
    barrier(e->b);
    atomic_store(&e->b->over_now, false);
}

static void link_copy(end *e, sample *out) {
    const uint64_t messages = e->b->o->bytes / MESSAGE_BYTES;
    const sample t = now();
    if (e->me == 0) {
        const uint64_t want = e->came + messages;
        while (e->came < want)
            check(uvcc_net_wait(e->net, UVCC_NEVER), "wait");
        *out = since(t);
        it_is_over(e);
        return;
    }
    e->to_copy = messages;
    check(uvcc_net_turn(e->net), "turn");
    turn_until_over(e);
}

/* The end that answers has heard all when it answers for the last time. */
static void link_trips(end *e, sample *out) {
    const unsigned trips = e->b->o->trips;
    const uint64_t want = e->came + trips;
    const sample t = now();
    e->to_say = e->me == 0 ? trips : trips - 1;
    if (e->me == 0) {
        turn_until_over(e);
        return;
    }
    say(e, SMALL_BYTES, uvcc_host_now_ns());
    check(uvcc_net_turn(e->net), "turn");
    while (e->came < want)
        check(uvcc_net_wait(e->net, UVCC_NEVER), "wait");
    *out = since(t);
    it_is_over(e);
}

static void bare_trips(end *e, sample *out) {
    uint8_t bytes[SMALL_BYTES] = {7};
    const sample t = now();
    for (unsigned i = 0; i < e->b->o->trips; i++) {
        if (e->me == 0)
            bare_recv(e->pong, bytes, sizeof bytes);
        bare_send(e->pong, bytes, sizeof bytes);
        if (e->me == 1)
            bare_recv(e->pong, bytes, sizeof bytes);
    }
    if (e->me == 1)
        *out = since(t);
}

static void bare_copies(end *e, sample *out) {
    const sample t = now();
    if (e->me == 1) {
        bare_copy_out(e->copy, e->b->suite, e->b->o->bytes);
        return;
    }
    bare_copy_in(e->copy, e->b->suite, e->b->o->bytes);
    *out = since(t);
}

static void *run_end(void *user) {
    end *e = user;
    bench *b = e->b;
    for (unsigned r = 0; r <= b->o->rounds; r++) {
        const unsigned i = r == 0 ? 0 : r - 1; /* the first one warms up */
        barrier(b);
        link_copy(e, &b->link_copy[i]);
        barrier(b);
        bare_copies(e, &b->bare_copy[i]);
        barrier(b);
        link_trips(e, &b->link_trip[i]);
        barrier(b);
        bare_trips(e, &b->bare_trip[i]);
    }
    return NULL;
}

/* ---- figures ---- */

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef double (*figure)(const sample *ours, const sample *plain);

static double wall_of(const sample *ours, const sample *plain) {
    (void)plain;
    return ours->wall;
}

static double wall_ratio(const sample *ours, const sample *plain) {
    return ours->wall / plain->wall;
}

static double cpu_ratio(const sample *ours, const sample *plain) {
    return ours->cpu / plain->cpu;
}

static double median_of(figure f, const sample *ours, const sample *plain, unsigned n) {
    double v[ROUNDS_MAX];
    for (unsigned i = 0; i < n; i++)
        v[i] = f(&ours[i], &plain[i]);
    qsort(v, n, sizeof v[0], by_value);
    return v[n / 2];
}

static void print_goal(const char *kind, double goal, bool met) {
    if (goal != 0) {
        printf(", \"%s\": %.2f, \"met\": %s", kind, goal, met ? "true" : "false");
        missed += !met;
    }
    printf("}\n");
    fflush(stdout);
}

static void print_figures(const bench *b) {
    const unsigned n = b->o->rounds;
    const double wall = median_of(wall_of, b->link_copy, b->bare_copy, n);
    const double ratio = 1 / median_of(wall_ratio, b->link_copy, b->bare_copy, n);
    const double trip = median_of(wall_of, b->link_trip, b->bare_trip, n) / b->o->trips;
    const double trips = median_of(wall_ratio, b->link_trip, b->bare_trip, n);
    const char *backend = uvcc_net_backend_name(b->o->backend);
    printf("{\"bench\": \"net_copy\", \"over\": \"%s\", \"backend\": \"%s\", \"suite\": %d, "
           "\"gb_per_s\": %.2f, \"of_bare\": %.3f, \"of_bare_by_cpu\": %.3f",
           b->over->name, backend, b->suite, (double)b->o->bytes / wall, ratio,
           1 / median_of(cpu_ratio, b->link_copy, b->bare_copy, n));
    const double goal = b->suite == 0 ? b->over->plain_goal : b->over->sealed_goal;
    print_goal("at_least", goal, ratio >= goal);
    printf("{\"bench\": \"net_round_trip\", \"over\": \"%s\", \"backend\": \"%s\", \"suite\": %d, "
           "\"bytes\": %u, \"us\": %.1f, \"of_bare\": %.3f, \"of_bare_by_cpu\": %.3f",
           b->over->name, backend, b->suite, SMALL_BYTES, trip / 1e3, trips,
           median_of(cpu_ratio, b->link_trip, b->bare_trip, n));
    print_goal("at_most", b->suite == 0 ? 1.4 : 0, trips <= 1.4);
}

static void run_bench(const over *way, int suite, const options *o) {
    static bench b;
    pthread_t thread;
    memset(&b, 0, sizeof b);
    b.over = way;
    b.suite = suite;
    b.o = o;
    bench_open(&b);
    check(-pthread_create(&thread, NULL, run_end, &b.end[0]), "thread");
    (void)run_end(&b.end[1]);
    (void)pthread_join(thread, NULL);
    print_figures(&b);
    bench_close(&b);
}

/* ---- the command ---- */

static void help(void) {
    printf(
        "bench_net [--quick] [--rounds N] [--bytes N] [--trips N] [--backend NAME] [--look US]\n"
        "          [--check] [NAME[:SUITE]...]\n\n"
        "Links over a net beside a bare non-blocking copy over the same kind of socket, as JSON\n"
        "lines. NAME: tcp, unix, udp, openssl, mbedtls (default: all). SUITE: 0 unsealed, 1\n"
        "ChaCha20-Poly1305, 2 AES-256-GCM (default: all; over TLS: 0 and 2; udp: 0, since\n"
        "what a packet is sealed with is no matter of the copy).\n\n"
        "  --rounds N      of both, of which the medians are taken (default 11, odd)\n"
        "  --bytes N       MiB of a copy (default 128)\n"
        "  --trips N       round trips of a round (default 2000)\n"
        "  --backend NAME  epoll (the default) or uring\n"
        "  --look US       nets look for so many microseconds before they sleep (none)\n"
        "  --quick         3 rounds of a quarter\n"
        "  --check         exit status 1 if a goal was missed\n"
        "  --help          this text\n");
}

static bool suite_is_for(const over *o, int suite, const char *wanted) {
    const char *colon = wanted != NULL ? strchr(wanted, ':') : NULL;
    if (colon != NULL)
        return atoi(colon + 1) == suite;
    return o->socket == BARE_UDP ? suite == 0 : o->tls == 0 || suite != 1;
}

static bool is_named(const over *o, const char *name) {
    const size_t len = strcspn(name, ":");
    return strlen(o->name) == len && strncmp(o->name, name, len) == 0;
}

static void run_over(const over *way, const char *wanted, const options *o) {
    if (way->tls != 0 && !uvcc_tls_is_here(way->tls)) {
        printf("{\"bench\": \"net\", \"over\": \"%s\", \"skipped\": \"not built in\"}\n",
               way->name);
        return;
    }
    for (int suite = 0; suite < 3; suite++)
        if (suite_is_for(way, suite, wanted))
            run_bench(way, suite, o);
}

static unsigned number(const char *text, unsigned most) {
    char *rest;
    const unsigned long n = strtoul(text, &rest, 10);
    if (*rest != '\0' || n == 0 || n > most) {
        fprintf(stderr, "bench_net: %s is no number from 1 to %u\n", text, most);
        exit(2);
    }
    return (unsigned)n;
}

static uint32_t backend_of(const char *name) {
    for (uint32_t i = UVCC_NET_EPOLL; i <= UVCC_NET_URING; i++)
        if (strcmp(name, uvcc_net_backend_name(i)) == 0) {
            const char *why = NULL;
            if (uvcc_net_backend_is_here(i, &why) == 0)
                return i;
            printf("{\"bench\": \"net\", \"backend\": \"%s\", \"skipped\": \"%s\"}\n", name, why);
            exit(0);
        }
    fprintf(stderr, "bench_net: no back end %s\n", name);
    exit(2);
}

int main(int argc, char **argv) {
    options o = {
        .rounds = 11, .bytes = UINT64_C(128) << 20, .trips = 2000, .backend = UVCC_NET_EPOLL};
    bool checked = false, any = false;
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        const bool more = i + 1 < argc;
        if (strcmp(argv[i], "--help") == 0) {
            help();
            return 0;
        } else if (strcmp(argv[i], "--quick") == 0) {
            o = (options){.rounds = 3,
                          .bytes = 32u << 20,
                          .trips = 500,
                          .backend = o.backend,
                          .look_ns = o.look_ns};
        } else if (strcmp(argv[i], "--check") == 0) {
            checked = true;
        } else if (more && strcmp(argv[i], "--rounds") == 0) {
            o.rounds = number(argv[++i], ROUNDS_MAX);
        } else if (more && strcmp(argv[i], "--bytes") == 0) {
            o.bytes = (uint64_t)number(argv[++i], 1u << 16) << 20;
        } else if (more && strcmp(argv[i], "--trips") == 0) {
            o.trips = number(argv[++i], 1000000);
        } else if (more && strcmp(argv[i], "--backend") == 0) {
            o.backend = backend_of(argv[++i]);
        } else if (more && strcmp(argv[i], "--look") == 0) {
            o.look_ns = UINT64_C(1000) * number(argv[++i], 1000000);
        } else {
            fprintf(stderr, "bench_net: no option %s (see --help)\n", argv[i]);
            return 2;
        }
    }
    for (size_t k = 0; k < OVERS; k++) {
        for (int a = i; a < argc; a++)
            if (is_named(&overs[k], argv[a])) {
                any = true;
                run_over(&overs[k], argv[a], &o);
            }
        if (i == argc)
            run_over(&overs[k], NULL, &o);
    }
    if (i < argc && !any) {
        fprintf(stderr, "bench_net: no %s (see --help)\n", argv[i]);
        return 2;
    }
    return checked && missed != 0 ? 1 : 0;
}
