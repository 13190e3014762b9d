/* SPDX-License-Identifier: Apache-2.0 */
/* The completion back end beneath a net: what io.h promises, and what the kernel holds meanwhile.
 * Skipped, with the reason, where io_uring is refused. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io_adapters/uring/uring.h"
#include "support.h"
#include <uvcc/host.h>

#define MANY    1000u
#define SECONDS 60 /* what may take so long has failed */

static uvcci_io io;

static int open_io(void **state) {
    (void)state;
    uvcc_net_config cfg;
    uvcc_net_config_default(&cfg);
    uvcci_uring_zc_bytes = UVCCI_URING_ZC_BYTES;
    io = (uvcci_io){.ops = uvcci_io_uring(), .alloc = uvcc_host_allocator()};
    return io.ops->open(&io, &cfg);
}

static int close_io(void **state) {
    (void)state;
    io.ops->close(&io);
    return 0;
}

/* ---- pairs of sockets ---- */

typedef struct pair {
    uvcci_source a; /* the back end's */
    int b;          /* ours */
} pair;

static void tcp_pair(int fds[2]) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    const int l = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(l, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(l, 1), 0);
    assert_int_equal(getsockname(l, (struct sockaddr *)&at, &len), 0);
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fds[0], (struct sockaddr *)&at, sizeof at), 0);
    fds[1] = accept(l, NULL, NULL);
    close(l);
}

static void open_pair(pair *p, bool tcp) {
    int fds[2];
    if (tcp)
        tcp_pair(fds);
    else
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_true(fds[0] >= 0 && fds[1] >= 0);
    *p = (pair){.a = {.fd = fds[0], .kind = UVCCI_SOURCE_STREAM}, .b = fds[1]};
    assert_int_equal(io.ops->add(&io, &p->a), 0);
}

static void close_pair(pair *p) {
    uvcci_io_forget(&io, &p->a);
    io.ops->remove(&io, &p->a);
    close(p->a.fd);
    if (p->b >= 0)
        close(p->b);
}

static void small_buffer(const pair *p) {
    const int bytes = 65536;
    setsockopt(p->a.fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

/* One turn of a net's: the queue is emptied, and what is queued stays so by its bits. */
static void turn(uint64_t timeout) {
    while (uvcci_io_next(&io) != NULL) {
    }
    io.ops->flush(&io);
    assert_int_equal(io.ops->wait(&io, timeout), 0);
}

static void until_ready(const uvcci_source *src, uint8_t bits) {
    for (int i = 0; (src->ready & bits) != bits; i++) {
        assert_true(i < 100000);
        turn((uint64_t)SECONDS * 1000000000u);
    }
}

static uint8_t pattern(size_t at) {
    return (uint8_t)(at * 2654435761u >> 13);
}

static uint8_t *make_bytes(size_t len) {
    uint8_t *bytes = malloc(len);
    for (size_t i = 0; i < len; i++)
        bytes[i] = pattern(i);
    return bytes;
}

/* Reads what is at the other end, and checks it. */
static size_t read_other(const pair *p, size_t at) {
    uint8_t bytes[65536];
    const ssize_t n = recv(p->b, bytes, sizeof bytes, MSG_DONTWAIT);
    for (ssize_t i = 0; i < n; i++)
        assert_int_equal(bytes[i], pattern(at + (size_t)i));
    return n > 0 ? (size_t)n : 0;
}

/* Takes by view() what is here: the same bytes, in their order. */
static size_t take_views(uvcci_source *src, size_t at, ptrdiff_t *rc) {
    size_t len = 0, n = 0;
    const uint8_t *bytes;
    while ((bytes = io.ops->view(&io, src, &len, rc)) != NULL) {
        const size_t part = len > 1000 && n % 2 == 0 ? len / 2 : len;
        for (size_t i = 0; i < part; i++)
            assert_int_equal(bytes[i], pattern(at + n + i));
        io.ops->consume(&io, src, part);
        n += part;
    }
    return n;
}

/* ---- receiving ---- */

/* Bytes come as they were sent, by read() in pieces, then by view(); then the stream's end, which
 * stays. */
static void receive_all(bool tcp) {
    pair p;
    uint8_t *bytes = make_bytes(1 << 20), some[7];
    size_t sent = 0, got = 0;
    ptrdiff_t rc = 1;
    open_pair(&p, tcp);
    while (got < 1 << 20) {
        const ssize_t n = send(p.b, bytes + sent, (1 << 20) - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        until_ready(&p.a, UVCCI_READ);
        const struct iovec iov[2] = {{some, 3}, {some + 3, 4}};
        if (got < 100) {
            rc = io.ops->read(&io, &p.a, iov, 2);
            for (ptrdiff_t i = 0; i < rc; i++)
                assert_int_equal(some[i], pattern(got + (size_t)i));
            got += rc > 0 ? (size_t)rc : 0;
        } else {
            got += take_views(&p.a, got, &rc);
            assert_int_equal(rc, UVCC_ERR_AGAIN);
            assert_int_equal(p.a.ready & UVCCI_READ, 0);
        }
    }
    shutdown(p.b, SHUT_WR);
    until_ready(&p.a, UVCCI_READ);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(take_views(&p.a, got, &rc), 0);
        assert_int_equal(rc, 0);
    }
    close_pair(&p);
    free(bytes);
}

static void test_receive(void **state) {
    (void)state;
    receive_all(true);
    receive_all(false);
}

static void test_reset(void **state) {
    (void)state;
    const struct linger hard = {.l_onoff = 1};
    pair p;
    ptrdiff_t rc = 1;
    open_pair(&p, true);
    setsockopt(p.b, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(p.b);
    p.b = -1;
    until_ready(&p.a, UVCCI_READ);
    assert_int_equal(take_views(&p.a, 0, &rc), 0);
    assert_int_equal(rc, -ECONNRESET);
    close_pair(&p);
}

/* Who has not been viewed holds one buffer, whatever it sends; who has, may have more. */
static void test_strangers(void **state) {
    (void)state;
    uint8_t *bytes = make_bytes(1 << 18);
    pair p[2];
    ptrdiff_t rc = 0;
    size_t got[2] = {0, 0}, here = 0;
    for (int i = 0; i < 2; i++) {
        open_pair(&p[i], false);
        assert_true(send(p[i].b, bytes, 100000, MSG_DONTWAIT) == 100000);
        until_ready(&p[i].a, UVCCI_READ);
    }
    for (int i = 0; i < 100; i++)
        turn(0);
    struct iovec all = {.iov_base = bytes, .iov_len = 1 << 18};
    assert_int_equal(io.ops->read(&io, &p[0].a, &all, 1), UVCCI_URING_BUFFER_BYTES);
    (void)take_views(&p[1].a, 0, &rc);
    until_ready(&p[1].a, UVCCI_READ);
    assert_true(send(p[1].b, bytes, 100000, MSG_DONTWAIT) == 100000);
    for (int i = 0; i < 100; i++)
        turn(0);
    assert_true(io.ops->view(&io, &p[1].a, &here, &rc) != NULL);
    got[1] = (size_t)io.ops->read(&io, &p[1].a, &all, 1);
    assert_true(got[1] > UVCCI_URING_BUFFER_BYTES);
    free(bytes);
    for (int i = 0; i < 2; i++)
        close_pair(&p[i]);
}

/* More comes than the ring has buffers, from many, and nobody reads; then all of it is there. */
static void test_buffers_run_out(void **state) {
    (void)state;
    enum { N = 300, EACH = 100000 };
    static pair p[N];
    size_t sent[N] = {0}, got[N] = {0}, all = 0;
    uint8_t *bytes = make_bytes(EACH);
    ptrdiff_t rc = 0;
    for (int i = 0; i < N; i++) {
        open_pair(&p[i], false);
        (void)take_views(&p[i].a, 0, &rc); /* all are trusted */
    }
    for (int rounds = 0; all < (size_t)N * EACH; rounds++) {
        assert_true(rounds < 100000);
        for (int i = 0; i < N; i++) {
            const ssize_t n = send(p[i].b, bytes + sent[i], EACH - sent[i], MSG_DONTWAIT);
            sent[i] += n > 0 ? (size_t)n : 0;
        }
        for (int i = 0; i < 20; i++)
            turn(0);
        for (int i = N - 1; i >= 0; i--)
            if ((p[i].a.ready & UVCCI_READ) != 0) {
                const size_t n = take_views(&p[i].a, got[i], &rc);
                got[i] += n;
                all += n;
            }
    }
    for (int i = 0; i < N; i++)
        close_pair(&p[i]);
    free(bytes);
}

/* ---- sending ---- */

/* What the socket does not take at once is the kernel's, to its end. */
static void send_all(bool tcp, bool zc) {
    enum { LEN = 3 << 20 };
    pair p;
    uint8_t *bytes = make_bytes(LEN);
    size_t sent = 0, got = 0;
    int agains = 0;
    uvcci_uring_zc_bytes = zc ? 4096 : UINT32_MAX;
    open_pair(&p, tcp);
    small_buffer(&p);
    while (got < LEN) {
        if ((p.a.ready & UVCCI_WRITE) != 0 && sent < LEN) {
            const size_t half = (LEN - sent) / 2;
            const struct iovec iov[2] = {{bytes + sent, half},
                                         {bytes + sent + half, LEN - sent - half}};
            const ptrdiff_t n = io.ops->write(&io, &p.a, iov, 2);
            assert_true(n > 0 || n == UVCC_ERR_AGAIN);
            agains += n == UVCC_ERR_AGAIN;
            sent += n > 0 ? (size_t)n : 0;
        }
        turn(0);
        got += read_other(&p, got);
    }
    for (int i = 0; sent < LEN; i++) {
        assert_true(i < 2);
        until_ready(&p.a, UVCCI_WRITE);
        const struct iovec rest = {bytes + sent, LEN - sent};
        const ptrdiff_t n = io.ops->write(&io, &p.a, &rest, 1);
        sent += n > 0 ? (size_t)n : 0;
    }
    assert_true(agains >= 1 && agains < 10);
    close_pair(&p);
    free(bytes);
}

static void test_send(void **state) {
    (void)state;
    send_all(true, false);
    send_all(false, false);
    send_all(true, true);
    send_all(false, true); /* Unix sockets copy always: it is done over */
}

/* The other end reads nothing, and the bytes go: after remove(), or settle(), they may change. */
static void leave(bool tcp, bool zc, bool stays) {
    enum { LEN = 16 << 20 };
    pair p;
    uint8_t *bytes = make_bytes(LEN);
    size_t sent = 0, got = 0, n = 1;
    const struct iovec iov = {bytes, LEN};
    uvcci_uring_zc_bytes = zc ? 4096 : UINT32_MAX;
    open_pair(&p, tcp);
    small_buffer(&p);
    turn(0);
    for (ptrdiff_t k = 0; k != UVCC_ERR_AGAIN; sent += k > 0 ? (size_t)k : 0) {
        const struct iovec rest = {bytes + sent, iov.iov_len - sent};
        k = io.ops->write(&io, &p.a, &rest, 1);
        assert_true(k > 0 || k == UVCC_ERR_AGAIN);
    }
    turn(0);
    if (stays) {
        io.ops->settle(&io, &p.a);
    } else {
        uvcci_io_forget(&io, &p.a);
        io.ops->remove(&io, &p.a);
    }
    memset(bytes, 0, LEN); /* what comes now was sent before, or is seen */
    while (n > 0)
        got += n = read_other(&p, got);
    if (stays)
        turn(0);
    assert_int_equal(read_other(&p, got), 0);
    if (stays) {
        uvcci_io_forget(&io, &p.a);
        io.ops->remove(&io, &p.a);
    }
    close(p.a.fd);
    close(p.b);
    free(bytes);
}

static void test_leave(void **state) {
    (void)state;
    for (unsigned i = 0; i < 8; i++)
        leave((i & 1) != 0, (i & 2) != 0, (i & 4) != 0);
}

/* ---- the descriptor, and how many ---- */

static bool fd_readable(void) {
    struct pollfd p = {.fd = io.ops->fd(&io), .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static bool fd_comes(void) {
    struct pollfd p = {.fd = io.ops->fd(&io), .events = POLLIN};
    int rc;
    do
        rc = poll(&p, 1, SECONDS * 1000);
    while (rc < 0 && errno == EINTR);
    return rc == 1;
}

static void test_descriptor(void **state) {
    (void)state;
    pair p;
    ptrdiff_t rc = 0;
    open_pair(&p, true);
    turn(0);
    assert_false(fd_readable());
    for (int i = 0; i < 10; i++) {
        assert_int_equal(send(p.b, "x", 1, 0), 1);
        assert_true(fd_comes());
        turn(0);
        assert_int_equal(p.a.ready & UVCCI_READ, UVCCI_READ);
        assert_false(fd_readable());
        struct iovec one = {.iov_base = &(uint8_t){0}, .iov_len = 1};
        assert_int_equal(i % 2 == 0 ? io.ops->read(&io, &p.a, &one, 1) : 1, 1);
        if (i % 2 != 0) {
            size_t len = 0;
            assert_non_null(io.ops->view(&io, &p.a, &len, &rc));
            io.ops->consume(&io, &p.a, len);
        }
        turn(0);
        assert_false(fd_readable());
        assert_null(io.first);
    }
    /* no system call is made for nothing */
    const uint64_t before = io.syscalls;
    for (int i = 0; i < 100; i++)
        turn(0);
    assert_int_equal(io.syscalls, before);
    close_pair(&p);
}

static void test_thousand(void **state) {
    (void)state;
    static pair p[MANY];
    struct rlimit r;
    unsigned n = MANY, got = 0;
    ptrdiff_t rc = 0;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < 2 * MANY + 50) {
        r.rlim_cur = r.rlim_max < 2 * MANY + 50 ? r.rlim_max : 2 * MANY + 50;
        (void)setrlimit(RLIMIT_NOFILE, &r);
        n = r.rlim_cur < 2 * MANY + 50 ? (unsigned)(r.rlim_cur - 50) / 2 : MANY;
    }
    for (unsigned i = 0; i < n; i++)
        open_pair(&p[i], false);
    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < n; i++) {
            const uint8_t one = pattern((size_t)round);
            assert_int_equal(send(p[i].b, &one, 1, 0), 1);
        }
        for (got = 0; got < n;) {
            turn((uint64_t)SECONDS * 1000000000u);
            for (unsigned i = 0; i < n; i++)
                if ((p[i].a.ready & UVCCI_READ) != 0)
                    got += (unsigned)take_views(&p[i].a, (size_t)round, &rc);
        }
    }
    for (unsigned i = 0; i < n; i++)
        close_pair(&p[i]);
}

/* A listener, a wake, and a socket that connects to nobody. */
static void test_polled(void **state) {
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    uvcci_source l = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0),
                      .kind = UVCCI_SOURCE_LISTENER};
    assert_int_equal(bind(l.fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(l.fd, 8), 0);
    assert_int_equal(getsockname(l.fd, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(io.ops->add(&io, &l), 0);
    assert_false(fd_readable());
    for (int i = 0; i < 3; i++) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
        assert_true(fd_comes());
        until_ready(&l, UVCCI_READ);
        const int other = accept(l.fd, NULL, NULL);
        assert_true(other >= 0);
        close(other);
        l.ready = 0;
        close(fd);
    }
    uvcci_io_forget(&io, &l);
    io.ops->remove(&io, &l);
    close(l.fd);
    uvcci_source dial = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0),
                         .kind = UVCCI_SOURCE_STREAM};
    if (connect(dial.fd, (struct sockaddr *)&at, sizeof at) != 0 && errno == EINPROGRESS) {
        int error = 0;
        socklen_t size = sizeof error;
        assert_int_equal(io.ops->add(&io, &dial), 0);
        until_ready(&dial, UVCCI_WRITE);
        assert_int_equal(getsockopt(dial.fd, SOL_SOCKET, SO_ERROR, &error, &size), 0);
        assert_int_equal(error, ECONNREFUSED);
        uvcci_io_forget(&io, &dial);
        io.ops->remove(&io, &dial);
    }
    close(dial.fd);
}

/* ---- the timer ---- */

#define MS UINT64_C(1000000)

static void on_alarm(int sig) {
    (void)sig;
}

/* A wait that a signal ends, so that its timer goes on. */
static void interrupted_wait(uint64_t timeout) {
    const struct itimerval soon = {.it_value.tv_usec = 1000};
    assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
    turn(timeout);
}

static void full_wait(uint64_t timeout) {
    const uint64_t until = uvcc_host_now_ns() + timeout;
    turn(timeout);
    assert_true(uvcc_host_now_ns() >= until);
}

/* One timer serves all waits: it is set, moved to an earlier time, set again when it rang, and ends
 * no wait that came after the one that it was set for. */
static void test_timer(void **state) {
    (void)state;
    const struct sigaction act = {.sa_handler = on_alarm};
    struct sigaction was;
    assert_int_equal(sigaction(SIGALRM, &act, &was), 0);
    full_wait(2 * MS);
    interrupted_wait(SECONDS * 1000 * MS);
    full_wait(2 * MS);
    full_wait(2 * MS);
    interrupted_wait(10 * MS);
    full_wait(30 * MS);
    assert_int_equal(sigaction(SIGALRM, &was, NULL), 0);
}

/* ---- threads; refusals ---- */

static void *arm_and_end(void *user) {
    pair *p = user;
    ptrdiff_t rc = 0;
    size_t len = 0;
    for (int i = 0; i < 2; i++) {
        open_pair(&p[i], true);
        (void)io.ops->view(&io, &p[i].a, &len, &rc);
        io.ops->flush(&io);
    }
    return NULL;
}

/* What a thread had under way ends with it, and goes on with the one that calls next. */
static void test_threads(void **state) {
    (void)state;
    pair p[2];
    pthread_t t;
    ptrdiff_t rc = 0;
    assert_int_equal(pthread_create(&t, NULL, arm_and_end, p), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_int_equal(send(p[1].b, &(uint8_t){pattern(0)}, 1, 0), 1);
    until_ready(&p[1].a, UVCCI_READ);
    assert_int_equal(take_views(&p[1].a, 0, &rc), 1);
    for (int i = 0; i < 2; i++)
        close_pair(&p[i]);
}

static int refused_child(int error) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {.len = 4, .filter = code};
    const char *why = NULL;
    uvcc_net *n = NULL;
    uvcc_net_config cfg;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        return 77;
    uvcc_net_config_default(&cfg);
    cfg.alloc = uvcc_host_allocator();
    cfg.random = uvcc_host_random();
    cfg.backend = UVCC_NET_URING;
    return uvcc_net_backend_is_here(UVCC_NET_URING, &why) == UVCC_ERR_NOT_FOUND &&
                   strstr(why, "seccomp") != NULL && uvcc_net_new(&n, &cfg) == UVCC_ERR_NOT_FOUND
               ? 0
               : 1;
}

static void test_refused(void **state) {
    (void)state;
    const int errors[] = {EPERM, ENOSYS};
    for (int i = 0; i < 2; i++) {
        int status = 0;
        const pid_t pid = fork();
        if (pid == 0)
            _exit(refused_child(errors[i]));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
            skip();
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(void) {
    const char *why = NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_receive, open_io, close_io),
        cmocka_unit_test_setup_teardown(test_reset, open_io, close_io),
        cmocka_unit_test_setup_teardown(test_strangers, open_io, close_io),
        cmocka_unit_test_setup_teardown(test_buffers_run_out, open_io, close_io),
        cmocka_unit_test_setup_teardown(test_send, open_io, close_io),
        cmocka_unit_test_setup_teardown(test_leave, open_io, close_io),
        cmocka_unit_test_setup_teardown(test_descriptor, open_io, close_io),
        cmocka_unit_test_setup_teardown(test_thousand, open_io, close_io),
        cmocka_unit_test_setup_teardown(test_polled, open_io, close_io),
        cmocka_unit_test_setup_teardown(test_timer, open_io, close_io),
        cmocka_unit_test_setup_teardown(test_threads, open_io, close_io),
        cmocka_unit_test(test_refused),
    };
    if (uvcc_net_backend_is_here(UVCC_NET_URING, &why) != 0) {
        fprintf(stderr, "skipped: %s\n", why);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
