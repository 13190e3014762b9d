/* SPDX-License-Identifier: Apache-2.0 */
/* test_relay.c - uvcc-relay: the same packets meet the same fate for the same seed, and three
 * sessions over nets compute through it what they compute without it, over TCP that is reset and
 * UDP that loses, repeats, reorders and corrupts. Also the epoll back end's timer and what it is
 * told of room to write. */
#define _GNU_SOURCE
#include "support.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <uvcc/net.h>
#include <uvcc/uvcc.h>

/* The example's hosts, over nets. */
static bool over_packets;
int embed_main(void);
#define main                   embed_main
#define uvcc_session_new(o, c) ((c)->links.datagram = over_packets, uvcc_session_new(o, c))
#include "examples/embed.c"
#undef main

#define NEVER_NS  UINT64_C(120000000000) /* of a test: it hangs */
#define ROUTES    3
#define SENT      200
#define OUT_BYTES 4096
#define ARGS_MOST 32

static const char *relay_path;

typedef struct relay {
    pid_t pid;
    FILE *out;
    char first[ROUTES][256], second[ROUTES][256];
} relay;

/* args: options and routes, NULL at the end. */
static relay relay_start(char *const *args, unsigned count) {
    relay r = {0};
    int fd[2];
    char line[OUT_BYTES];
    char *argv[ARGS_MOST] = {(char *)(uintptr_t)relay_path};
    for (unsigned i = 0; args[i] != NULL && i + 2 < ARGS_MOST; i++)
        argv[i + 1] = args[i];
    assert_int_equal(pipe(fd), 0);
    r.pid = fork();
    assert_true(r.pid >= 0);
    if (r.pid == 0) {
        (void)dup2(fd[1], STDOUT_FILENO);
        (void)close(fd[0]);
        (void)execv(relay_path, argv);
        _exit(127);
    }
    (void)close(fd[1]);
    r.out = fdopen(fd[0], "r");
    assert_non_null(r.out);
    for (unsigned i = 0; i < count; i++) {
        assert_non_null(fgets(line, sizeof line, r.out));
        assert_true(sscanf(line,
                           "{\"route\": %*u, \"first\": \"%255[^\"]\", \"second\": \"%255[^\"]",
                           r.first[i], r.second[i]) >= 1);
    }
    return r;
}

/* A number of the line that it says at its end. */
static unsigned long relay_end(relay *r, const char *name) {
    char line[OUT_BYTES], key[64];
    int status = 0;
    assert_int_equal(kill(r->pid, SIGTERM), 0);
    assert_non_null(fgets(line, sizeof line, r->out));
    (void)fclose(r->out);
    assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
    assert_int_equal(status, 0);
    (void)snprintf(key, sizeof key, "\"%s\": ", name);
    const char *at = strstr(line, key);
    assert_non_null(at);
    return strtoul(at + strlen(key), NULL, 10);
}

/* ---- fate ---- */

static int packet_socket(struct sockaddr_in *a) {
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    socklen_t len = sizeof *a;
    *a = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    assert_int_equal(bind(fd, (struct sockaddr *)a, sizeof *a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)a, &len), 0);
    return fd;
}

/* Which of SENT packets came, one byte each: how often, and 128 for what came changed. */
static void fates(char *seed, uint8_t came[SENT]) {
    struct sockaddr_in at[2], to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd[2] = {packet_socket(&at[0]), packet_socket(&at[1])};
    char route[128];
    unsigned port = 0;
    bool over = false;
    (void)snprintf(route, sizeof route, "udp:127.0.0.1:%u=udp:127.0.0.1:%u", ntohs(at[0].sin_port),
                   ntohs(at[1].sin_port));
    char *args[] = {"--seed", seed,        "--loss", "0.3", "--repeat",
                    "0.1",    "--corrupt", "0.1",    route, NULL};
    relay r = relay_start(args, 1);
    assert_int_equal(sscanf(r.first[0], "udp:127.0.0.1:%u", &port), 1);
    to.sin_port = htons((uint16_t)port);
    memset(came, 0, SENT);
    for (uint32_t i = 0; i < SENT; i++) {
        const uint32_t packet[8] = {i, ~i};
        assert_int_equal(sendto(fd[0], packet, sizeof packet, 0, (struct sockaddr *)&to, sizeof to),
                         sizeof packet);
    }
    while (!over) { /* marks, until one comes: what was before it has come by then */
        uint32_t packet[8] = {SENT, ~(uint32_t)SENT};
        struct pollfd p = {.fd = fd[1], .events = POLLIN};
        assert_int_equal(sendto(fd[0], packet, sizeof packet, 0, (struct sockaddr *)&to, sizeof to),
                         sizeof packet);
        while (!over && poll(&p, 1, 10) == 1) {
            assert_int_equal(recv(fd[1], packet, sizeof packet, 0), sizeof packet);
            if (packet[0] < SENT)
                came[packet[0]] |= (uint8_t)(packet[1] == ~packet[0] ? came[packet[0]] + 1 : 128);
            over = packet[0] == SENT;
        }
    }
    assert_true(relay_end(&r, "packets") > SENT);
    (void)close(fd[0]);
    (void)close(fd[1]);
}

static void test_same_fate(void **state) {
    uint8_t one[SENT], again[SENT], other[SENT];
    unsigned lost = 0;
    (void)state;
    fates("1", one);
    fates("1", again);
    fates("2", other);
    for (unsigned i = 0; i < SENT; i++)
        lost += one[i] == 0;
    assert_in_range(lost, SENT / 5, 2 * SENT / 5);
    assert_memory_equal(one, again, SENT);
    assert_memory_not_equal(one, other, SENT);
}

/* ---- sessions ---- */

typedef struct world {
    struct host hosts[UVCC_PARTIES];
    uvcc_net *net[UVCC_PARTIES];
    uint16_t port[UVCC_PARTIES];
} world;

static void on_net_event(void *user, uvcc_session *s, const uvcc_event *e, uint64_t now) {
    (void)s;
    on_event(user, e, now);
}

static void listen_all(world *w, const char *address) {
    for (uint8_t p = 0; p < UVCC_PARTIES; p++) {
        uvcc_net_config cfg;
        uvcc_net_config_default(&cfg);
        cfg.alloc = uvcc_host_allocator();
        cfg.random = uvcc_host_random();
        cfg.retry_min_ns = 1000000;
        cfg.retry_max_ns = 50000000;
        w->hosts[p].party = p;
        assert_int_equal(uvcc_net_new(&w->net[p], &cfg), 0);
        assert_int_equal(uvcc_net_listen(w->net[p], address, NULL, &w->port[p]), 0);
    }
}

static void add_all(world *w, const char *address[UVCC_PARTIES][UVCC_PARTIES]) {
    struct provisions known;
    uvcc_program *p = make_program();
    assert_non_null(p);
    assert_int_equal(make_provisions(&known), 0);
    for (uint8_t i = 0; i < UVCC_PARTIES; i++) {
        struct host *h = &w->hosts[i];
        uvcc_net_session how = {.size = sizeof how, .party = i, .event = on_net_event, .user = h};
        assert_int_equal(start(h, &known, p, uvcc_host_now_ns()), 0);
        for (uint8_t q = 0; q < UVCC_PARTIES; q++) {
            how.address[q] = address[i][q];
            if (q != i) /* the example has them open from the start */
                (void)uvcc_session_peer_closed(h->session, q, uvcc_host_now_ns());
        }
        how.cpu = h->cpu;
        assert_int_equal(uvcc_net_add(w->net[i], h->session, &how), 0);
    }
    uvcc_program_free(p);
}

/* Until all have closed. */
static void run_all(world *w) {
    const uint64_t end = uvcc_host_now_ns() + NEVER_NS;
    while (!(w->hosts[0].closed && w->hosts[1].closed && w->hosts[2].closed)) {
        struct pollfd fds[UVCC_PARTIES];
        int wait = 1000;
        for (unsigned p = 0; p < UVCC_PARTIES; p++) {
            assert_true(uvcc_net_turn(w->net[p]) >= 0);
            assert_false(w->hosts[p].failed);
            const int ms = uvcc_net_timeout_ms(w->net[p]);
            wait = ms >= 0 && ms < wait ? ms : wait;
            fds[p] = (struct pollfd){.fd = uvcc_net_fd(w->net[p]), .events = POLLIN};
        }
        (void)poll(fds, UVCC_PARTIES, wait);
        assert_true(uvcc_host_now_ns() < end);
    }
}

static void check_and_free(world *w) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        assert_memory_equal(w->hosts[p].result, expected, sizeof expected);
        assert_int_equal(uvcc_net_remove(w->net[p], w->hosts[p].session), 0);
        uvcc_session_free(w->hosts[p].session);
        uvcc_cpu_free(w->hosts[p].cpu);
        uvcc_net_free(w->net[p]);
    }
}

/* Who dials: the party of the higher index, so the relay stands before each listener, per caller.
 */
static void test_resets(void **state) {
    static const uint8_t from[ROUTES] = {1, 2, 2}, to[ROUTES] = {0, 0, 1};
    unsigned long resets = 0;
    (void)state;
    over_packets = false;
    for (unsigned seed = 1; seed <= 5; seed++) {
        world w = {.port = {0}};
        const char *address[UVCC_PARTIES][UVCC_PARTIES] = {{NULL}};
        char routes[ROUTES][128], number[16];
        listen_all(&w, "tcp:127.0.0.1:0");
        for (unsigned i = 0; i < ROUTES; i++)
            (void)snprintf(routes[i], sizeof routes[i], "tcp:127.0.0.1:0=tcp:127.0.0.1:%u",
                           w.port[to[i]]);
        (void)snprintf(number, sizeof number, "%u", seed);
        char *args[] = {"--seed", number,    "--reset", "0.1",     "--delay",
                        "1",      routes[0], routes[1], routes[2], NULL};
        relay r = relay_start(args, ROUTES);
        for (unsigned i = 0; i < ROUTES; i++)
            address[from[i]][to[i]] = r.first[i];
        add_all(&w, address);
        run_all(&w);
        check_and_free(&w);
        resets += relay_end(&r, "resets");
    }
    assert_true(resets > 0);
}

static void run_packets(char *const *options, const char *counted) {
    static const uint8_t one[ROUTES] = {0, 0, 1}, two[ROUTES] = {1, 2, 2};
    world w = {.port = {0}};
    const char *address[UVCC_PARTIES][UVCC_PARTIES] = {{NULL}};
    char routes[ROUTES][128];
    char *args[ARGS_MOST] = {NULL};
    unsigned n = 0;
    over_packets = true;
    listen_all(&w, "udp:127.0.0.1:0");
    while (options[n] != NULL) {
        args[n] = options[n];
        n++;
    }
    for (unsigned i = 0; i < ROUTES; i++) {
        (void)snprintf(routes[i], sizeof routes[i], "udp:127.0.0.1:%u=udp:127.0.0.1:%u",
                       w.port[one[i]], w.port[two[i]]);
        args[n++] = routes[i];
    }
    relay r = relay_start(args, ROUTES);
    for (unsigned i = 0; i < ROUTES; i++) {
        address[one[i]][two[i]] = r.first[i];
        address[two[i]][one[i]] = r.second[i];
    }
    add_all(&w, address);
    run_all(&w);
    check_and_free(&w);
    assert_true(relay_end(&r, counted) > 0);
}

static void test_delay_and_loss(void **state) {
    char *const options[] = {"--delay", "5", "--loss", "0.01", NULL};
    (void)state;
    run_packets(options, "packets");
}

static void test_bad_network(void **state) {
    char *const options[] = {"--loss", "0.2",      "--reorder", "0.2", "--corrupt",
                             "0.1",    "--repeat", "0.1",       NULL};
    (void)state;
    run_packets(options, "lost");
}

/* ---- epoll ---- */

/* A wait with nothing to do ends when its time has come, not before, also after one that was set
 * for later or earlier. */
static void test_waits(void **state) {
    static const uint64_t ms[] = {20, 5, 1, 30, 2};
    uvcc_net_config cfg;
    uvcc_net *n;
    (void)state;
    uvcc_net_config_default(&cfg);
    cfg.alloc = uvcc_host_allocator();
    cfg.random = uvcc_host_random();
    assert_int_equal(uvcc_net_new(&n, &cfg), 0);
    for (unsigned i = 0; i < sizeof ms / sizeof ms[0]; i++) {
        const uint64_t until = uvcc_host_now_ns() + ms[i] * 1000000;
        assert_int_equal(uvcc_net_wait(n, until), 0);
        assert_true(uvcc_host_now_ns() >= until);
    }
    uvcc_net_wake(n);
    assert_int_equal(uvcc_net_wait(n, UVCC_NEVER), 1);
    uvcc_net_free(n);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_fate),      cmocka_unit_test(test_resets),
        cmocka_unit_test(test_delay_and_loss), cmocka_unit_test(test_bad_network),
        cmocka_unit_test(test_waits),
    };
    if (argc != 2)
        return 2;
    relay_path = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
