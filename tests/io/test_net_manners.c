/* SPDX-License-Identifier: Apache-2.0 */
/* What a net owes its host, whatever strangers, the host itself or the system do: who may call, how
 * connections are taken over, descriptors that run out, calls at odd times, an idle net that does
 * nothing. Argument: the back end, "epoll" or "uring". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uvcc/demux.h>

#include "world.h"

#include "io_adapters/net/core.h"

#define MS 1000000ull

static uint32_t backend;

static void open_world(world *w, const char *name) {
    static transport t;
    t = *transport_named(name);
    t.backend = backend;
    world_init(w, &t);
}

/* Turns everybody until nothing is to do now; the number of turns. */
static unsigned settle(world *w) {
    unsigned turns = 0;
    for (bool busy = true; busy; turns++) {
        busy = false;
        for (unsigned p = 0; p < UVCC_PARTIES; p++) {
            struct pollfd fd = {.fd = uvcc_net_fd(w->net[p]), .events = POLLIN};
            if (poll(&fd, 1, 0) == 1 || uvcc_net_deadline(w->net[p]) <= uvcc_host_now_ns()) {
                busy = true;
                assert_true(uvcc_net_turn(w->net[p]) >= 0);
            }
        }
        assert_true(turns < 100000);
    }
    return turns;
}

/* Turns for so long. */
static void let_pass(world *w, uint64_t ns) {
    const uint64_t end = uvcc_host_now_ns() + ns;
    while (uvcc_host_now_ns() < end) {
        (void)settle(w);
        struct pollfd fds[UVCC_PARTIES];
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            fds[p] = (struct pollfd){.fd = uvcc_net_fd(w->net[p]), .events = POLLIN};
        (void)poll(fds, UVCC_PARTIES, 5);
    }
}

/* ---- strangers ---- */

typedef enum word {
    GARBAGE,
    HTTP,
    TLS_HELLO,
    VERSION,
    NOT_HERE,
    LOWER,
    OTHER,
    THEMSELVES,
    SUM,
    SHORT,
    SILENT,
    WORDS
} word;

static size_t say(word k, uint64_t tag, uint8_t out[64]) {
    static const char http[] = "GET / HTTP/1.0\r\n\r\n";
    static const uint8_t hello[] = {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc};
    uvcc_call c = {.from = 2, .to = 1, .sid_tag = tag};
    uint8_t bytes[UVCC_CALL_BYTES];
    memset(out, 0, 64);
    if (k == NOT_HERE)
        c.sid_tag ^= 1;
    if (k == LOWER)
        c = (uvcc_call){.from = 0, .to = 1, .sid_tag = tag};
    if (k == OTHER)
        c = (uvcc_call){.from = 2, .to = 0, .sid_tag = tag};
    assert_int_equal(uvcc_call_encode(bytes, &c), 0);
    memcpy(out, bytes, sizeof bytes);
    if (k == GARBAGE)
        for (unsigned i = 0; i < 64; i++)
            out[i] = (uint8_t)(i * 37 + 1);
    if (k == HTTP)
        memcpy(out, http, sizeof http);
    if (k == TLS_HELLO)
        memcpy(out, hello, sizeof hello);
    if (k == VERSION)
        out[4]++;
    if (k == THEMSELVES)
        out[5] = out[6] = 1;
    if (k == SUM)
        out[20] ^= 1;
    return k == SILENT ? 0 : k == SHORT ? 23 : k == GARBAGE || k == HTTP ? 64 : UVCC_CALL_BYTES;
}

/* True when the net has ended it. */
static bool is_over(int fd) {
    char c;
    const ssize_t n = recv(fd, &c, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
}

/* Whoever says something else than a call, or calls whom he must not, is sent away; who says
 * nothing after call_ns. A session trains on. */
static void test_wrong_calls(void **state) {
    (void)state;
    world w;
    job j;
    open_world(&w, "tcp");
    w.net_cfg.call_ns = 50 * MS;
    w.gate = 1;
    job_mlp(&j, 4);
    world_open(&w);
    world_add(&w, &j);
    world_until(&w, all_ready);
    uvcc_net_stats before, after;
    uvcc_net_get_stats(w.net[1], &before);
    for (unsigned k = 0; k < WORDS; k++) {
        uint8_t bytes[64];
        const size_t n = say((word)k, uvcc_session_sid_tag(w.hosts[0][1].s), bytes);
        const int fd = stranger_dial(&w, 1);
        assert_true(fd >= 0);
        assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
        const uint64_t end = uvcc_host_now_ns() + 60000 * MS;
        while (!is_over(fd)) {
            world_turn(&w);
            assert_true(uvcc_host_now_ns() < end);
        }
        close(fd);
        w.gate = 1 + k;
    }
    uvcc_net_get_stats(w.net[1], &after);
    assert_int_equal(after.refused - before.refused, WORDS);
    uvcc_net_refusal last = {.size = sizeof last};
    assert_int_equal(uvcc_net_refused(w.net[1], &last), 0);
    assert_int_equal(last.count, WORDS);
    assert_memory_equal(last.address, "tcp:127.", 8);
    assert_string_not_equal(last.why, "");
    assert_int_equal(uvcc_net_refused(w.net[0], &last), 0);
    assert_int_equal(last.count, 0);
    assert_string_equal(last.why, "");
    last.size--;
    assert_int_equal(uvcc_net_refused(w.net[0], &last), UVCC_ERR_USAGE);
    assert_int_equal(after.connections_lost, before.connections_lost);
    assert_int_equal(after.pending, 0);
    w.gate = 0;
    world_until(&w, all_closed);
    world_check(&w);
    world_close(&w);
    job_free(&j);
}

/* What is no address is the host's mistake; a name that is not known may be so later. */
static void test_addresses(void **state) {
    (void)state;
    static const char *const wrong[] = {"here",       "tcp:localhost",   "tcp:localhost:many",
                                        "tcp::1",     "tcp:localhost:0", "udp:localhost:7100",
                                        "tcp:*:7100", "unix:",           "tcp:localhost:65536"};
    world w;
    job j;
    open_world(&w, "tcp");
    job_mlp(&j, 2);
    world_open(&w);
    world_add(&w, &j);
    uvcc_session *s = w.hosts[0][2].s;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(uvcc_net_set_peer(w.net[2], s, 1, wrong[i]), UVCC_ERR_CONFIG);
    assert_int_equal(uvcc_net_set_peer(w.net[2], s, 1, "tcp:no.such.invalid:7100"), UVCC_ERR_IO);
    assert_int_equal(uvcc_net_listen(w.net[2], "tcp:no.such.invalid:0", NULL, NULL), UVCC_ERR_IO);
    assert_int_equal(uvcc_net_remove(w.net[2], s), 0);
    memcpy(w.via[2][1], "tcp:no.such.invalid:7100", sizeof "tcp:no.such.invalid:7100");
    const uvcc_net_session how = {
        .size = sizeof how, .party = 2, .address = {w.via[2][0], w.via[2][1], NULL}};
    assert_int_equal(uvcc_net_add(w.net[2], s, &how), UVCC_ERR_IO);
    memcpy(w.via[2][1], w.address[1], sizeof w.via[2][1]);
    host_add(&w.hosts[0][2]); /* and nothing of it is left */
    world_until(&w, all_closed);
    world_check(&w);
    world_close(&w);
    job_free(&j);
}

static int stranger_calls(const world *w, uint64_t tag) {
    const uvcc_call c = {.from = 2, .to = 0, .sid_tag = tag};
    uint8_t bytes[UVCC_CALL_BYTES];
    assert_int_equal(uvcc_call_encode(bytes, &c), 0);
    const int fd = stranger_dial(w, 0);
    assert_true(fd >= 0);
    assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
    return fd;
}

/* The living keep their place, though nobody says anything for a while: who calls in the name of
 * party 2 goes away again. */
static void test_living_stays(void **state) {
    (void)state;
    static const char *const names[] = {"tcp", "unix"};
    for (unsigned i = 0; i < 2; i++) {
        world w;
        job j;
        open_world(&w, names[i]);
        job_mlp(&j, 2);
        w.gate = 1;
        world_open(&w);
        world_add(&w, &j);
        world_until(&w, all_ready);
        world_until(&w, first_step_done);
        uvcc_net_stats before, after;
        uvcc_net_get_stats(w.net[0], &before);
        for (unsigned k = 0; k < 2; k++) { /* one stays to hear, one has gone at once */
            const int fd = stranger_calls(&w, uvcc_session_sid_tag(w.hosts[0][0].s));
            if (k == 1)
                close(fd);
            const uint64_t end = uvcc_host_now_ns() + 60000 * MS;
            do {
                world_turn(&w);
                uvcc_net_get_stats(w.net[0], &after);
                assert_true(uvcc_host_now_ns() < end);
            } while (after.refused + after.connections_lost ==
                     before.refused + before.connections_lost + k);
            if (k == 0)
                close(fd);
            else /* and not after the wait */
                assert_non_null(strstr(w.last_log, "ended while it waited"));
        }
        assert_int_equal(after.connections_lost, before.connections_lost);
        assert_int_equal(after.refused, before.refused + 2);
        w.gate = 0;
        world_until(&w, all_closed);
        world_check(&w);
        world_close(&w);
        job_free(&j);
    }
}

/* Nobody forwards any more and nobody says so. Parties 1 and 2 call anew from other nets, with the
 * same sessions, and have their places after a while. */
static void test_half_open_is_taken_over(void **state) {
    (void)state;
    static const char *const names[] = {"tcp", "unix"};
    for (unsigned i = 0; i < 2; i++) {
        world w;
        job j;
        open_world(&w, names[i]);
        w.proxied = true;
        w.net_cfg.idle_ns = 300 * MS;
        job_mlp(&j, 3);
        w.gate = 1;
        world_open(&w);
        world_add(&w, &j);
        world_until(&w, first_step_done);
        proxy_swallow_all(w.proxy);
        world_move(&w, 2);
        world_move(&w, 1);
        w.gate = 0;
        world_until(&w, all_closed);
        world_check(&w);
        world_close(&w);
        job_free(&j);
    }
}

/* What a session thinks of its peers when its net lets go of it; and what a net says of a peer that
 * it has no connection to but packets. */
static void test_removed_is_told(void **state) {
    (void)state;
    static const char *const names[] = {"tcp", "udp"};
    for (unsigned i = 0; i < 2; i++) {
        world w;
        job j;
        open_world(&w, names[i]);
        job_mlp(&j, 2);
        w.gate = 1;
        world_open(&w);
        world_add(&w, &j);
        uvcc_session *s = w.hosts[0][2].s;
        for (uint8_t peer = 0; peer < 2; peer++) {
            uvcc_net_peer info = {.size = sizeof info};
            assert_int_equal(uvcc_net_peer_info(w.net[2], s, peer, &info), 0);
            assert_false(info.connected);
        }
        world_until(&w, first_step_done);
        for (uint8_t peer = 0; peer < 2; peer++) {
            uvcc_net_peer info = {.size = sizeof info};
            assert_int_equal(uvcc_net_peer_info(w.net[2], s, peer, &info), 0);
            assert_true(info.connected);
        }
        assert_int_equal(uvcc_net_remove(w.net[2], s), 0);
        for (uint8_t peer = 0; peer < 2; peer++) {
            uvcc_peer_info info = {.size = sizeof info};
            assert_int_equal(uvcc_session_peer_info(s, peer, &info), 0);
            assert_int_equal(info.connected, w.t->datagram);
        }
        host_add(&w.hosts[0][2]);
        w.gate = 0;
        world_until(&w, all_closed);
        world_check(&w);
        world_close(&w);
        job_free(&j);
    }
}

/* Whether a net has part of a transmit to a peer out, and keeps the rest. */
static bool half_out(const uvcc_net *n) {
    for (unsigned q = 0; q < UVCC_PARTIES; q++)
        if (n->endpoints->ch[q].holding)
            return true;
    return false;
}

/* A session goes from one net to another in the middle of a step, with a transmit half out. Who
 * turns when all have closed waits for ever: nobody has anything to do then. */
static void test_moves_to_another_net(void **state) {
    (void)state;
    world w;
    job j;
    unsigned moves = 0, half = 0;
    open_world(&w, "tcp");
    w.net_cfg.socket_bytes = 4096;
    job_relu(&j, 128, 64, 16);
    world_open(&w);
    world_add(&w, &j);
    world_until(&w, all_ready);
    for (unsigned i = 0; i < 90 && !all_closed(&w); i++) {
        world_turn(&w);
        if (i % 3 != 2)
            continue;
        const unsigned party = moves++ % UVCC_PARTIES;
        half += half_out(w.net[party]);
        world_move(&w, party);
    }
    assert_true(half > 0);
    world_until(&w, all_closed);
    world_check(&w);
    world_close(&w);
    job_free(&j);
}

/* ---- idle ---- */

/* Nothing to do: not readable, no deadline that has passed, and few turns in a while. */
static void test_idle_does_nothing(void **state) {
    (void)state;
    static const char *const names[] = {"tcp", "unix", "udp"};
    for (unsigned i = 0; i < 3; i++) {
        world w;
        job j;
        open_world(&w, names[i]);
        job_mlp(&j, 2);
        w.gate = 1;
        world_open(&w);
        world_add(&w, &j);
        world_until(&w, first_step_done);
        (void)settle(&w);
        uint64_t before = w.turns[0] + w.turns[1] + w.turns[2];
        uvcc_net_stats a, b;
        uvcc_net_get_stats(w.net[0], &a);
        let_pass(&w, 300 * MS);
        uvcc_net_get_stats(w.net[0], &b);
        assert_true(w.turns[0] + w.turns[1] + w.turns[2] == before);
        assert_true(b.syscalls - a.syscalls < 30);
        w.gate = 0;
        world_until(&w, all_closed);
        world_check(&w);
        (void)settle(&w);
        for (unsigned p = 0; p < UVCC_PARTIES; p++) /* and when all is over */
            assert_true(uvcc_net_deadline(w.net[p]) > uvcc_host_now_ns());
        world_close(&w);
        job_free(&j);
    }
}

static void closes_soon(uvcc_config *c) {
    c->limits.close_ns = 50 * MS;
}

/* A session that is closed while its net waits to dial again wants nothing more. */
static void test_closed_does_not_dial(void **state) {
    (void)state;
    world w;
    job j;
    open_world(&w, "tcp");
    w.tweak = closes_soon;
    w.net_cfg.retry_min_ns = 200 * MS; /* it waits when CLOSED comes */
    w.net_cfg.retry_max_ns = 200 * MS;
    job_mlp(&j, 1);
    w.gate = 1;
    world_open(&w);
    world_add(&w, &j);
    world_until(&w, first_step_done);
    host_drop(&w.hosts[0][0]);
    host_drop(&w.hosts[0][1]);
    (void)settle(&w);
    assert_int_equal(uvcc_session_close(w.hosts[0][2].s, uvcc_host_now_ns()), 0);
    world_until(&w, all_closed);
    let_pass(&w, 250 * MS);
    (void)settle(&w);
    assert_true(uvcc_net_deadline(w.net[2]) > uvcc_host_now_ns());
    uvcc_net_stats a, b;
    uvcc_net_get_stats(w.net[2], &a);
    let_pass(&w, 250 * MS);
    uvcc_net_get_stats(w.net[2], &b);
    assert_int_equal(a.dials, b.dials);
    world_close(&w);
    job_free(&j);
}

/* ---- descriptors ---- */

static void lower_files(rlim_t soft, struct rlimit *was) {
    struct rlimit now;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, was), 0);
    now = *was;
    now.rlim_cur = soft;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
}

/* No descriptor is left to accept with, nor to dial: the log says so, nobody spins, and all goes on
 * when there are some again. */
static void test_descriptors_run_out(void **state) {
    (void)state;
    world w;
    job j;
    struct rlimit was;
    uvcc_net_stats a, b;
    open_world(&w, "tcp");
    w.proxied = true;
    job_mlp(&j, 3);
    w.gate = 1;
    world_open(&w);
    world_add(&w, &j);
    world_until(&w, first_step_done);
    const int strangers[2] = {stranger_dial(&w, 0), stranger_dial(&w, 0)};
    const int next = dup(0);
    close(next);
    while (proxy_reset(w.proxy)) {
    }
    lower_files((rlim_t)3, &was);
    w.log_lines = 0;
    uvcc_net *n = NULL;
    assert_int_equal(uvcc_net_new(&n, &w.net_cfg), UVCC_ERR_LIMIT);
    assert_int_equal(uvcc_net_listen(w.net[0], "tcp:127.0.0.1:0", NULL, NULL), UVCC_ERR_LIMIT);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        assert_true(uvcc_net_turn(w.net[p]) >= 0);
    uvcc_net_get_stats(w.net[0], &a);
    let_pass(&w, 300 * MS);
    uvcc_net_get_stats(w.net[0], &b);
    assert_true(w.log_lines > 0);
    assert_int_equal(a.accepts, b.accepts);
    assert_true(b.syscalls - a.syscalls < 100);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    close(strangers[0]);
    close(strangers[1]);
    w.gate = 0;
    world_until(&w, all_closed);
    world_check(&w);
    world_close(&w);
    job_free(&j);
}

/* ---- crowds ---- */

/* Children call without a word; `hold`: until the pipe ends. */
static pid_t crowd(world *w, unsigned party, unsigned count, bool hold, int *gate) {
    int pipes[2];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char c;
        for (int fd = 3; fd < 1024; fd++)
            if (fd != pipes[0])
                close(fd);
        for (unsigned i = 0; i < count; i++) {
            const int fd = stranger_dial(w, party);
            if (fd < 0)
                _exit(1);
            if (!hold)
                close(fd);
        }
        if (hold)
            (void)!read(pipes[0], &c, 1);
        _exit(0);
    }
    close(pipes[0]);
    *gate = pipes[1];
    return pid;
}

static void crowd_ends(pid_t pid, int gate) {
    int status = 1;
    close(gate);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* As many connections that say nothing as the system allows, up to 10,000, while a session trains;
 * and then all of them go. */
static void test_idle_connections(void **state) {
    (void)state;
    world w;
    job j;
    int gate;
    struct rlimit files;
    uvcc_net_stats st;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    const unsigned count = files.rlim_max > 10300 ? 10000 : (unsigned)files.rlim_max - 300;
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    open_world(&w, "unix");
    w.net_cfg.pending_max = count + 1;
    w.net_cfg.call_ns = 600000 * MS;
    job_mlp(&j, 20);
    world_open(&w);
    const pid_t pid = crowd(&w, 0, count, true, &gate);
    world_add(&w, &j);
    w.gate = 1;
    const uint64_t end = uvcc_host_now_ns() + 100000 * MS;
    do {
        world_turn(&w);
        uvcc_net_get_stats(w.net[0], &st);
        assert_true(uvcc_host_now_ns() < end);
    } while (st.pending < count);
    w.gate = 0;
    const uint64_t began = uvcc_host_now_ns();
    world_until(&w, all_closed);
    world_check(&w);
    uvcc_net_get_stats(w.net[0], &st);
    assert_int_equal(st.pending, count);
    print_message("%u idle connections, 20 steps took %u ms\n", count,
                  (unsigned)((uvcc_host_now_ns() - began) / MS));
    crowd_ends(pid, gate);
    while (st.pending != 0) {
        world_turn(&w);
        uvcc_net_get_stats(w.net[0], &st);
    }
    world_close(&w);
    job_free(&j);
}

/* Ten thousand connections that end at once, while a session trains. */
static void test_port_scan(void **state) {
    (void)state;
    enum { SCANS = 10000 };
    world w;
    job j;
    int gate, status;
    uvcc_net_stats st;
    open_world(&w, "tcp");
    job_mlp(&j, 50);
    world_open(&w);
    const pid_t pid = crowd(&w, 0, SCANS, false, &gate);
    world_add(&w, &j);
    world_until(&w, all_closed);
    world_check(&w);
    while (waitpid(pid, &status, WNOHANG) == 0)
        (void)settle(&w);
    (void)settle(&w);
    uvcc_net_get_stats(w.net[0], &st);
    close(gate);
    assert_int_equal(status, 0);
    /* Who called while the kernel's queue was full was never here. */
    assert_true(st.refused <= SCANS && st.refused > SCANS / 2);
    assert_true(w.log_lines < SCANS / 10); /* the log is at a limited rate */
    assert_int_equal(st.pending, 0);
    world_close(&w);
    job_free(&j);
}

/* When too many say nothing, the oldest go. */
static void test_pending_max(void **state) {
    (void)state;
    world w;
    int fd[8];
    uvcc_net_stats st;
    open_world(&w, "tcp");
    w.net_cfg.pending_max = 5;
    world_open(&w);
    for (unsigned i = 0; i < 8; i++) {
        fd[i] = stranger_dial(&w, 0);
        (void)settle(&w);
    }
    uvcc_net_get_stats(w.net[0], &st);
    assert_int_equal(st.pending, 5);
    assert_int_equal(st.refused, 3);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(is_over(fd[i]), i < 3);
        close(fd[i]);
    }
    world_close(&w);
}

/* A turn ends, though what was last in the queue goes while it is on. */
static void test_turn_is_bounded(void **state) {
    (void)state;
    enum { CALLERS = 300 };
    world w;
    int fd[CALLERS];
    uvcc_net_stats a, b;
    open_world(&w, "unix");
    w.net_cfg.pending_max = 1;
    world_open(&w);
    const int first = stranger_dial(&w, 0);
    (void)settle(&w);
    for (unsigned i = 0; i < CALLERS; i++)
        fd[i] = stranger_dial(&w, 0);
    assert_int_equal(send(first, "x", 1, MSG_NOSIGNAL), 1);
    uvcc_net_get_stats(w.net[0], &a);
    assert_int_equal(uvcc_net_turn(w.net[0]), 1);
    uvcc_net_get_stats(w.net[0], &b);
    assert_true(b.accepts > a.accepts && b.accepts - a.accepts < CALLERS);
    assert_int_equal(uvcc_net_deadline(w.net[0]), 0);
    (void)settle(&w);
    uvcc_net_get_stats(w.net[0], &b);
    assert_int_equal(b.accepts - a.accepts, CALLERS);
    close(first);
    for (unsigned i = 0; i < CALLERS; i++)
        close(fd[i]);
    world_close(&w);
}

/* ---- calls at odd times ---- */

typedef struct odd {
    world *w;
    host *late; /* added inside an event of another session */
    bool removed, refused;
} odd;

static void odd_event(void *user, uvcc_session *s, const uvcc_event *e, uint64_t now) {
    odd *o = user;
    host *h = &o->w->hosts[0][2];
    const uvcc_net_session how = {.size = sizeof how, .party = 2};
    (void)now;
    if (e->kind == UVCC_EVENT_READY) {
        assert_int_equal(uvcc_net_turn(o->w->net[2]), UVCC_ERR_STATE);
        o->refused = uvcc_net_add(o->w->net[2], s, &how) == UVCC_ERR_STATE; /* it is here */
        host_add(o->late);
        (void)uvcc_session_close(s, uvcc_host_now_ns());
    }
    if (e->kind == UVCC_EVENT_CLOSED) { /* it goes, and takes its session with it */
        assert_int_equal(uvcc_net_remove(o->w->net[2], s), 0);
        assert_int_equal(uvcc_net_remove(o->w->net[2], s), UVCC_ERR_NOT_FOUND);
        uvcc_session_free(s);
        h->s = NULL;
        h->added = false;
        o->removed = true;
    }
}

/* In an event a session is added, its own is removed and freed; a second place is refused, and so
 * is a turn. */
static void test_calls_in_events(void **state) {
    (void)state;
    world w;
    job j;
    open_world(&w, "tcp");
    w.tweak = closes_soon;
    job_mlp(&j, 2);
    w.gate = 1;
    world_open(&w);
    for (unsigned i = 0; i < 2; i++)
        for (unsigned p = 0; p < UVCC_PARTIES; p++) {
            host_start(&w, i, p, &j, 0);
            if (p != 2)
                host_add(&w.hosts[i][p]);
        }
    w.workers = 2;
    odd o = {.w = &w, .late = &w.hosts[1][2]};
    host *h = &w.hosts[0][2];
    const uvcc_net_session how = {.size = sizeof how,
                                  .party = 2,
                                  .address = {w.address[0], w.address[1]},
                                  .cpu = h->cpu,
                                  .event = odd_event,
                                  .user = &o};
    assert_int_equal(uvcc_net_add(w.net[2], h->s, &how), 0);
    const uint64_t end = uvcc_host_now_ns() + 60000 * MS;
    while (!o.removed || w.hosts[1][0].finished == 0 || w.hosts[1][2].finished == 0) {
        world_turn(&w);
        assert_true(uvcc_host_now_ns() < end);
    }
    assert_true(o.refused);
    uvcc_net_free(w.net[0]); /* with its sessions, which stay */
    w.net[0] = NULL;
    w.hosts[0][0].added = w.hosts[1][0].added = false;
    uvcc_cpu_free(h->cpu);
    world_close(&w);
    job_free(&j);
}

static void on_alarm(int sig);
static uvcc_net *alarmed;
static void on_alarm(int sig) {
    (void)sig;
    uvcc_net_wake(alarmed);
}

static void *waker(void *user) {
    uvcc_net_wake(user);
    return NULL;
}

/* A wait ends when somebody wakes the net: another thread, a signal's handler, itself before; and
 * the descriptor is readable then, until the next turn. */
static void test_wake(void **state) {
    (void)state;
    world w;
    pthread_t thread;
    open_world(&w, "tcp");
    world_open(&w);
    uvcc_net *n = alarmed = w.net[0];
    struct pollfd fd = {.fd = uvcc_net_fd(n), .events = POLLIN};
    (void)settle(&w);
    assert_int_equal(poll(&fd, 1, 0), 0);
    for (unsigned i = 0; i < 3; i++) { /* each time anew, however often it was before a turn */
        uvcc_net_wake(n);
        uvcc_net_wake(n);
        assert_int_equal(poll(&fd, 1, 0), 1);
        assert_int_equal(uvcc_net_wait(n, UVCC_NEVER), 1);
        assert_int_equal(poll(&fd, 1, 0), 0);
    }
    assert_int_equal(pthread_create(&thread, NULL, waker, n), 0);
    assert_int_equal(uvcc_net_wait(n, UVCC_NEVER), 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    const struct sigaction act = {.sa_handler = on_alarm};
    const struct itimerval soon = {.it_value.tv_usec = 20000};
    assert_int_equal(sigaction(SIGALRM, &act, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
    while (uvcc_net_wait(n, UVCC_NEVER) == 0) { /* 0: the signal came, then the wake is seen */
    }
    assert_int_equal(uvcc_net_wait(n, uvcc_host_now_ns() + 10 * MS), 0);
    /* what it holds does not go to programs that are started */
    for (int f = 3; f < 64; f++)
        if (fcntl(f, F_GETFD) >= 0 && f == uvcc_net_fd(n))
            assert_true((fcntl(f, F_GETFD) & FD_CLOEXEC) != 0);
    world_close(&w);
}

/* ---- bare links ---- */

typedef struct wire {
    uvcc_net *net[2];
    uvcc_link *l[2];
    char address[2][UVCC_NET_ADDRESS_BYTES];
    test_alloc mem[2];
    uint32_t got;    /* messages, at 0 */
    uint32_t turned; /* calls of the hook, at 0 */
} wire;

static void take_messages(void *user, uvcc_link *l, uint64_t now) {
    wire *w = user;
    uvcc_link_rx rx;
    w->turned += l == w->l[0];
    while (uvcc_link_poll_message(l, &rx) == 1) {
        w->got += l == w->l[0];
        assert_int_equal(uvcc_link_accept(l, rx.token, now), 0);
        assert_int_equal(uvcc_link_release(l, rx.token, now), 0);
    }
}

static uint32_t unsent_bytes; /* of the next wire's nets */

/* Party 0 and party 1, a link between them, each with a net and memory of its own. */
static void wire_open(wire *w, bool datagram) {
    uvcc_net_config cfg;
    memset(w, 0, sizeof *w);
    uvcc_net_config_default(&cfg);
    cfg.alloc = uvcc_host_allocator();
    cfg.random = uvcc_host_random();
    cfg.backend = backend;
    cfg.retry_min_ns = cfg.retry_max_ns = MS;
    cfg.unsent_bytes = unsent_bytes;
    for (unsigned i = 0; i < 2; i++) {
        uint16_t port = 0;
        assert_int_equal(uvcc_net_new(&w->net[i], &cfg), 0);
        assert_int_equal(uvcc_net_listen(w->net[i],
                                         datagram ? "udp:127.0.0.1:0" : "tcp:127.0.0.1:0", NULL,
                                         &port),
                         0);
        snprintf(w->address[i], sizeof w->address[i], "%s:127.0.0.1:%u", datagram ? "udp" : "tcp",
                 port);
    }
    for (unsigned i = 0; i < 2; i++) {
        uvcc_link_config c;
        uvcc_link_config_default(&c);
        c.alloc = test_allocator(&w->mem[i]);
        c.random = uvcc_host_random();
        c.me = (uint8_t)i;
        c.peer = (uint8_t)!i;
        c.datagram = datagram;
        c.sid_tag = 77;
        c.congestion = UVCC_CONGESTION_FIXED;
        c.keepalive_ns = UVCC_NEVER; /* nothing but the net makes it go on */
        assert_int_equal(uvcc_link_new(&w->l[i], &c), 0);
        assert_int_equal(uvcc_link_set_run(w->l[i], 1), 0);
        assert_int_equal(uvcc_link_start(w->l[i], uvcc_host_now_ns()), 0);
        const uvcc_net_link how = {.size = sizeof how,
                                   .me = (uint8_t)i,
                                   .peer = (uint8_t)!i,
                                   .sid_tag = 77,
                                   .datagram = datagram,
                                   .address = datagram || i == 1 ? w->address[!i] : NULL,
                                   .turn = take_messages,
                                   .user = w};
        assert_int_equal(uvcc_net_add_link(w->net[i], w->l[i], &how), 0);
    }
}

static void wire_close(wire *w) {
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(uvcc_net_remove_link(w->net[i], w->l[i]), 0);
        uvcc_net_free(w->net[i]);
        uvcc_link_free(w->l[i]);
        assert_int_equal(w->mem[i].live_blocks, 0);
    }
}

/* Sends a message of len bytes from party 1. */
static void wire_send(wire *w, uint32_t len) {
    uvcc_link_msg *m = NULL;
    const uint32_t id = 1;
    assert_int_equal(uvcc_link_msg_new(w->l[1], UVCC_FRAME_OPEN_BATCH, len, &m), 0);
    memset(uvcc_link_msg_data(m), 7, len);
    assert_int_equal(uvcc_link_send(w->l[1], m, 0, 1, &id, 0, uvcc_host_now_ns()), 0);
}

/* Turns as a host does until so many messages came. */
static void wire_until(wire *w, uint32_t messages) {
    const uint64_t end = uvcc_host_now_ns() + 60000 * MS;
    while (w->got < messages) {
        struct pollfd fds[2];
        int least = 20000;
        for (unsigned i = 0; i < 2; i++) {
            const int ms = uvcc_net_timeout_ms(w->net[i]);
            least = ms >= 0 && ms < least ? ms : least;
            fds[i] = (struct pollfd){.fd = uvcc_net_fd(w->net[i]), .events = POLLIN};
        }
        (void)poll(fds, 2, least);
        for (unsigned i = 0; i < 2; i++)
            assert_true(uvcc_net_turn(w->net[i]) >= 0);
        assert_true(uvcc_host_now_ns() < end);
    }
}

/* A frame for which the link has no memory breaks its stream: what was in it comes again. */
static void test_link_without_memory(void **state) {
    (void)state;
    wire w;
    uvcc_net_stats st;
    wire_open(&w, false);
    wire_send(&w, 100);
    wire_until(&w, 1);
    for (uint32_t k = 1; k < 3; k++) {
        w.mem[0].fail_at = 1;
        wire_send(&w, 10000 << k); /* a frame, and nothing comes after it */
        wire_until(&w, 1 + k);
        assert_int_equal(w.mem[0].fail_at, 0);
        uvcc_net_get_stats(w.net[0], &st);
        assert_int_equal(st.connections_lost, k);
    }
    wire_close(&w);
}

/* More packets than a batch holds: a turn that sent a batch and has more says so. */
static void test_batches(void **state) {
    (void)state;
    wire w;
    uvcc_net_stats a, b;
    wire_open(&w, true);
    wire_send(&w, 100);
    wire_until(&w, 1);
    for (unsigned i = 0; i < 8; i++)
        wire_send(&w, 200000);
    uvcc_net_get_stats(w.net[1], &a);
    assert_true(uvcc_net_turn(w.net[1]) >= 0);
    uvcc_net_get_stats(w.net[1], &b);
    while (b.packets_tx - a.packets_tx < 1000) { /* and nobody answers */
        assert_int_equal(uvcc_net_deadline(w.net[1]), 0);
        assert_true(uvcc_net_turn(w.net[1]) >= 0);
        uvcc_net_get_stats(w.net[1], &b);
    }
    wire_until(&w, 9);
    wire_close(&w);
}

/* Connected TCP sockets of this process that hold so many bytes for the line. */
static unsigned sockets_with(int unsent) {
    unsigned found = 0;
    for (int fd = 3; fd < 64; fd++) {
        struct sockaddr_in a;
        socklen_t a_len = sizeof a, len = sizeof(int);
        int has = -1;
        if (getpeername(fd, (struct sockaddr *)&a, &a_len) == 0 && a.sin_family == AF_INET &&
            getsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &has, &len) == 0 && has == unsent)
            found++;
    }
    return found;
}

/* What waits for the line waits in the session, where keys are overtaken: both ends' sockets take
 * no more of it than they are told to. */
static void test_unsent_bytes(void **state) {
    const struct {
        uint32_t given;
        int has; /* 0: the system's */
    } cases[] = {{0, 128 << 10}, {20000, 20000}, {UINT32_MAX - 1, INT32_MAX}, {UINT32_MAX, 0}};
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wire w;
        unsent_bytes = cases[i].given;
        wire_open(&w, false);
        wire_send(&w, 100000);
        wire_until(&w, 1);
        assert_int_equal(sockets_with(cases[i].has), 2);
        wire_close(&w);
    }
    unsent_bytes = 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_calls),         cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_living_stays),        cmocka_unit_test(test_half_open_is_taken_over),
        cmocka_unit_test(test_removed_is_told),     cmocka_unit_test(test_moves_to_another_net),
        cmocka_unit_test(test_idle_does_nothing),   cmocka_unit_test(test_closed_does_not_dial),
        cmocka_unit_test(test_descriptors_run_out), cmocka_unit_test(test_idle_connections),
        cmocka_unit_test(test_port_scan),           cmocka_unit_test(test_pending_max),
        cmocka_unit_test(test_calls_in_events),     cmocka_unit_test(test_wake),
        cmocka_unit_test(test_link_without_memory), cmocka_unit_test(test_batches),
        cmocka_unit_test(test_unsent_bytes),        cmocka_unit_test(test_turn_is_bounded),
    };
    const char *why = NULL;
    backend = argc > 1 && strcmp(argv[1], "uring") == 0 ? UVCC_NET_URING : UVCC_NET_EPOLL;
    if (uvcc_net_backend_is_here(backend, &why) != 0) {
        fprintf(stderr, "skipped: %s\n", why);
        return 77;
    }
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
