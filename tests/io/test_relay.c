/* SPDX-License-Identifier: Apache-2.0 */
/* test_relay.c - uvcc-relay: the same packets meet the same fate for the same seed, and three
 * sessions over nets compute through it what they compute without it, over TCP that is reset and
 * UDP that loses, repeats, reorders and corrupts. Also the epoll back end's timer. */
#define _GNU_SOURCE
#include "world.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM); /* of a test that failed */
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

/* Every connection of `from` to `to`, or all packets of the two, through the relay. Training ends
 * with the weights that it has over the loopback network: world_check(). */
static unsigned long train_through(const char *over, char *const *options, uint32_t steps,
                                   const char *counted) {
    static const uint8_t from[ROUTES] = {1, 2, 2}, to[ROUTES] = {0, 0, 1};
    static world w;
    char routes[ROUTES][2 * UVCC_NET_ADDRESS_BYTES];
    char *args[ARGS_MOST] = {NULL};
    unsigned n = 0;
    job j;
    world_init(&w, transport_named(over));
    w.net_cfg.retry_min_ns = 1000000;
    w.net_cfg.retry_max_ns = 50000000;
    job_mlp(&j, steps);
    world_open(&w);
    for (; options[n] != NULL; n++)
        args[n] = options[n];
    for (unsigned i = 0; i < ROUTES; i++) {
        (void)snprintf(routes[i], sizeof routes[i], "%s=%s",
                       w.t->datagram ? w.address[from[i]] : "tcp:127.0.0.1:0", w.address[to[i]]);
        args[n++] = routes[i];
    }
    relay r = relay_start(args, ROUTES);
    for (unsigned i = 0; i < ROUTES; i++) {
        memcpy(w.via[from[i]][to[i]], r.first[i], sizeof r.first[i]);
        if (w.t->datagram)
            memcpy(w.via[to[i]][from[i]], r.second[i], sizeof r.second[i]);
    }
    world_run(&w, &j);
    world_close(&w);
    job_free(&j);
    return relay_end(&r, counted);
}

static void test_resets(void **state) {
    char *const options[] = {"--reset", "0.02", "--delay", "1", NULL};
    (void)state;
    assert_true(train_through("tcp", options, 12, "resets") > 0);
}

static void test_delay_and_loss(void **state) {
    char *const options[] = {"--delay", "5", "--loss", "0.01", NULL};
    (void)state;
    assert_true(train_through("udp", options, 4, "lost") > 0);
}

static void test_bad_network(void **state) {
    char *const options[] = {"--loss", "0.1",      "--reorder", "0.2", "--corrupt",
                             "0.1",    "--repeat", "0.1",       NULL};
    (void)state;
    assert_true(train_through("udp", options, 4, "corrupted") > 0);
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
