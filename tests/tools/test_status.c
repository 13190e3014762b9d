/* SPDX-License-Identifier: Apache-2.0 */
/* test_status.c - the page of a process (tools/party/status.h) and its readers: those who ask as
 * they should, and those who do not. Time is the test's. */
#include "support.h"

#include "party/status.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <uvcc/types.h>

enum { ROOM = 4 << 20 };
static char answer[ROOM];
static uint64_t now;
static size_t large; /* bytes that the metrics are longer by */
static unsigned asked;

static void metrics(void *user, FILE *to) {
    assert_ptr_equal(user, &asked);
    asked++;
    (void)fprintf(to, "uvcc_steps_total 7\n");
    for (size_t i = 0; i < large; i++)
        (void)fputc('x', to);
}

static json_t *page(void *user) {
    assert_ptr_equal(user, &asked);
    asked++;
    return json_pack("{s:i}", "step", 7);
}

static status_page *begin(const char *address) {
    status_page *s;
    char why[200];
    const status_source source = {metrics, page, &asked};
    asked = 0;
    large = 0;
    now = 1;
    if (status_open(&s, address, &source, why, sizeof why) != 0)
        fail_msg("%s", why);
    return s;
}

static int dial(const status_page *s) {
    const char *address = status_address(s);
    int fd;
    if (strncmp(address, "unix:", 5) == 0) {
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        (void)snprintf(un.sun_path, sizeof un.sun_path, "%s", address + 5);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd, (const struct sockaddr *)&un, sizeof un), 0);
    } else {
        struct sockaddr_in in = {.sin_family = AF_INET};
        in.sin_port = htons((uint16_t)strtoul(strrchr(address, ':') + 1, NULL, 10));
        in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd, (const struct sockaddr *)&in, sizeof in), 0);
    }
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static void put(int fd, const char *bytes, size_t len) {
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
}

/* Reads to the end, turning the server; the length, or -1 if the connection was cut. */
static ssize_t get(status_page *s, int fd) {
    size_t len = 0;
    for (unsigned i = 0; i < 200000; i++) {
        status_turn(s, now);
        const ssize_t n = recv(fd, answer + len, sizeof answer - 1 - len, 0);
        if (n > 0) {
            len += (size_t)n;
            continue;
        }
        if (n == 0 || errno == ECONNRESET) {
            answer[len] = '\0';
            return n == 0 ? (ssize_t)len : -1;
        }
        assert_true(errno == EAGAIN);
        struct pollfd both[] = {{.fd = fd, .events = POLLIN},
                                {.fd = status_fd(s), .events = POLLIN}};
        assert_true(poll(both, 2, 20000) > 0);
    }
    fail_msg("no end");
    return -1;
}

/* Text with \0 in it needs the length. */
static void ask_bytes(status_page *s, const char *request, size_t len, const char *first) {
    const int fd = dial(s);
    put(fd, request, len);
    const ssize_t n = get(s, fd);
    if (n <= 0 || strncmp(answer, first, strlen(first)) != 0)
        fail_msg("%.60s: %zd bytes: %.60s", request, n, answer);
    (void)close(fd);
}

static void ask(status_page *s, const char *request, const char *first) {
    ask_bytes(s, request, strlen(request), first);
}

#define OK      "HTTP/1.1 200 OK\r\n"
#define HOST(x) "GET /status HTTP/1.1\r\nHost: " x "\r\n\r\n"

static void pages(void **state) {
    (void)state;
    status_page *s = begin("127.0.0.1:0");
    ask(s, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9100\r\n\r\n", OK);
    assert_non_null(strstr(answer, "\r\nContent-Type: text/plain; version=0.0.4"));
    assert_non_null(strstr(answer, "\r\n\r\nuvcc_steps_total 7\n"));
    assert_non_null(strstr(answer, "result=\"answered\"} 0\n"));
    ask(s, "GET /status HTTP/1.0\r\n\r\n", OK);
    assert_non_null(strstr(answer, "\r\nContent-Type: application/json\r\n"));
    json_t *o = json_loads(strstr(answer, "\r\n\r\n") + 4, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(o, "step")), 7);
    json_decref(o);
    ask(s, "GET /?a=b HTTP/1.1\n\n", OK);
    ask(s, "GET /metrics?x HTTP/1.1\r\n\r\n", OK);
    ask(s, "HEAD /metrics HTTP/1.1\r\n\r\n", OK);
    assert_non_null(strstr(answer, "Content-Length: "));
    assert_null(strstr(answer, "uvcc_steps_total"));
    ask(s, HOST("localhost:80"), OK);
    ask(s, HOST("[::1]:80"), OK);
    status_close(s);
}

static void refused(void **state) {
    (void)state;
    status_page *s = begin("127.0.0.1:0");
    static char request[2 * STATUS_REQUEST_BYTES];
    ask(s, "POST /status HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 405 ");
    assert_non_null(strstr(answer, "\r\nAllow: GET, HEAD\r\n"));
    ask(s, "DELETE / HTTP/1.1\r\n\r\n", "HTTP/1.1 405 ");
    ask(s, "GET /etc/passwd HTTP/1.1\r\n\r\n", "HTTP/1.1 404 ");
    ask(s, "GET /metrics/ HTTP/1.1\r\n\r\n", "HTTP/1.1 404 ");
    ask(s, "GET /\r\n\r\n", "HTTP/1.1 400 ");
    ask(s, "GET\r\n / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 ");
    ask(s, "GET / HTTP/2\r\n\r\n", "HTTP/1.1 400 ");
    ask(s, "\r\n\r\n", "HTTP/1.1 400 ");
    ask_bytes(s, "GET /\0 HTTP/1.1\r\n\r\n", 19, "HTTP/1.1 400 ");
    ask(s, HOST("evil.example"), "HTTP/1.1 403 ");
    ask(s, HOST("evil.example:127"), "HTTP/1.1 403 ");
    ask(s, HOST("dead.beef"), "HTTP/1.1 403 ");
    ask(s, "GET / HTTP/1.1\r\nX: 1\r\nhOST:a.b\r\n\r\n", "HTTP/1.1 403 ");
    memset(request, 'a', sizeof request);
    memcpy(request, "GET /", 5);
    ask_bytes(s, request, STATUS_REQUEST_BYTES - 1, "HTTP/1.1 431 ");
    ask_bytes(s, request, sizeof request, "HTTP/1.1 431 "); /* with bytes that nobody reads */
    status_counts c;
    status_get_counts(s, &c);
    assert_int_equal(c.refused, 15);
    assert_int_equal(asked, 0);
    ask(s, "GET /metrics HTTP/1.1\r\n\r\n", OK);
    status_close(s);
}

/* One byte at a time, and bytes behind the request: the answer comes whole. */
static void slow_and_fast(void **state) {
    (void)state;
    status_page *s = begin("127.0.0.1:0");
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    int fd = dial(s);
    for (size_t i = 0; i + 1 < sizeof request; i++) {
        put(fd, request + i, 1);
        status_turn(s, now);
    }
    assert_true(get(s, fd) > 0);
    assert_non_null(strstr(answer, "uvcc_steps_total 7\n"));
    (void)close(fd);
    large = 1 << 20;
    now += STATUS_PAGE_NS;
    fd = dial(s);
    put(fd, request, sizeof request - 1);
    for (unsigned i = 0; i < 10; i++)
        put(fd, request, sizeof request - 1);
    assert_true(get(s, fd) > (1 << 20));
    (void)close(fd);
    status_close(s);
}

/* Who reads nothing holds up nobody, and goes when its time is over; so does who says nothing. */
static void held_up(void **state) {
    (void)state;
    status_page *s = begin("127.0.0.1:0");
    large = 3 << 20;
    const int lazy = dial(s), silent = dial(s);
    put(lazy, "GET /metrics HTTP/1.1\r\n\r\n", 25);
    put(silent, "GET /metr", 9);
    for (unsigned i = 0; i < 200; i++)
        status_turn(s, now);
    status_counts c;
    status_get_counts(s, &c);
    assert_int_equal(c.connections, 2);
    large = 0;
    now += STATUS_LIFE_NS / 2;
    ask(s, "GET /metrics HTTP/1.1\r\n\r\n", OK);
    assert_true(strlen(answer) < 4096); /* a page of its own: the old one is still being sent */
    assert_true(status_deadline(s) <= 1 + STATUS_LIFE_NS);
    now = status_deadline(s);
    status_turn(s, now);
    now = status_deadline(s);
    status_turn(s, now);
    status_get_counts(s, &c);
    assert_int_equal(c.connections, 0);
    assert_int_equal(c.cut, 2);
    assert_true(status_deadline(s) == UVCC_NEVER);
    (void)close(lazy);
    (void)close(silent);
    status_close(s);
}

/* More connections than there is room for: the oldest go, the newest are served. */
static void many(void **state) {
    (void)state;
    status_page *s = begin("127.0.0.1:0");
    int fd[5 * STATUS_CONNECTIONS];
    const unsigned n = sizeof fd / sizeof fd[0];
    for (unsigned i = 0; i < n; i++) {
        fd[i] = dial(s);
        status_turn(s, now++);
    }
    status_counts c;
    status_get_counts(s, &c);
    assert_int_equal(c.connections, STATUS_CONNECTIONS);
    put(fd[n - 1], "GET /status HTTP/1.1\r\n\r\n", 24);
    assert_true(get(s, fd[n - 1]) > 0);
    assert_int_equal(get(s, fd[0]), 0);
    for (unsigned i = 0; i < n; i++)
        (void)close(fd[i]);
    for (unsigned i = 0; i < 100; i++)
        status_turn(s, now);
    status_get_counts(s, &c);
    assert_int_equal(c.connections, 0);
    ask(s, HOST("127.0.0.1"), OK);
    status_close(s);
}

/* However often it is asked, the figures are gathered ten times a second at most. */
static void pages_are_kept(void **state) {
    (void)state;
    status_page *s = begin("127.0.0.1:0");
    for (unsigned i = 0; i < 50; i++)
        ask(s, HOST("127.0.0.1"), OK);
    assert_int_equal(asked, 1);
    now += STATUS_PAGE_NS;
    ask(s, HOST("127.0.0.1"), OK);
    assert_int_equal(asked, 2);
    status_close(s);
}

/* Bytes at random, and requests that end anywhere. */
static void garbage(void **state) {
    (void)state;
    status_page *s = begin("127.0.0.1:0");
    static const char request[] = "GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nX: y\r\n\r\n";
    uint64_t seed = 5;
    for (unsigned i = 0; i < 2000; i++) {
        char bytes[300];
        size_t len = 1 + test_rand(&seed) % sizeof bytes;
        test_rand_bytes(&seed, (uint8_t *)bytes, len);
        if (i % 2 == 0) {
            len = 1 + test_rand(&seed) % (sizeof request - 1);
            memcpy(bytes, request, len);
            bytes[test_rand(&seed) % len] ^= (char)(1u << test_rand(&seed) % 8);
        }
        const int fd = dial(s);
        put(fd, bytes, len);
        status_turn(s, now);
        status_turn(s, now);
        (void)close(fd);
        status_turn(s, now);
        now++;
    }
    ask(s, HOST("127.0.0.1"), OK);
    status_close(s);
}

static void addresses(void **state) {
    (void)state;
    char why[200];
    static const char *const good[] = {"127.0.0.1:9100", "127.9.9.9:0",     "[::1]:9100",
                                       "localhost:80",   "unix:/tmp/x",     "anywhere:10.0.0.1:80",
                                       "::1:9100",       "anywhere:[::]:1", "anywhere:0.0.0.0:1"};
    static const char *const bad[] = {
        "",        "9100",         "127.0.0.1", "127.0.0.1:",     "0.0.0.0:80", "10.0.0.1:80",
        "[::]:80", "a.example:80", "unix:",     "127.0.0.1:http", "[::1:80",    ":80"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (status_address_check(good[i], why, sizeof why) != 0)
            fail_msg("%s: %s", good[i], why);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memset(why, 0, sizeof why);
        if (status_address_check(bad[i], why, sizeof why) == 0 || why[0] == '\0')
            fail_msg("%s is taken", bad[i]);
    }
    assert_int_equal(status_address_check("10.0.0.1:80", why, sizeof why), -1);
    assert_non_null(strstr(why, "anywhere:10.0.0.1:80"));
}

/* A process that listens there and stands still, with as many callers as it may have. */
static void unix_stuck(void **state) {
    (void)state;
    char dir[] = "/tmp/uvcc-status-XXXXXX", address[64], why[200];
    const status_source source = {metrics, page, &asked};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    status_page *s;
    int caller[8];
    size_t n = 0;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(un.sun_path, sizeof un.sun_path, "%s/s", dir);
    (void)snprintf(address, sizeof address, "unix:%s/s", dir);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&un, sizeof un), 0);
    assert_int_equal(listen(fd, 0), 0);
    do
        caller[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    while (connect(caller[n++], (const struct sockaddr *)&un, sizeof un) == 0 && n < 8);
    assert_true(n < 8);
    (void)alarm(60); /* it would wait for ever */
    assert_int_equal(status_open(&s, address, &source, why, sizeof why), -1);
    (void)alarm(0);
    assert_non_null(strstr(why, "in use"));
    while (n > 0)
        (void)close(caller[--n]);
    (void)close(fd);
    assert_int_equal(unlink(un.sun_path), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* A Unix socket is its owner's alone, takes the place of one that nobody listens at, and not of one
 * that somebody does. */
static void unix_sockets(void **state) {
    (void)state;
    char dir[] = "/tmp/uvcc-status-XXXXXX", address[64], why[200];
    assert_non_null(mkdtemp(dir));
    (void)snprintf(address, sizeof address, "unix:%s/s", dir);
    const char *path = address + 5;
    struct stat st;
    status_page *s = begin(address), *other;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0077, 0);
    ask(s, HOST("whatever.example"), OK);
    const status_source source = {metrics, page, &asked};
    assert_int_equal(status_open(&other, address, &source, why, sizeof why), -1);
    assert_non_null(strstr(why, "cannot be listened at"));
    ask(s, HOST("x"), OK); /* its file is still there */
    status_close(s);
    assert_int_equal(stat(path, &st), -1);
    /* Of a process that was killed. */
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    (void)snprintf(un.sun_path, sizeof un.sun_path, "%s", path);
    const int dead = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(dead, (const struct sockaddr *)&un, sizeof un), 0);
    (void)close(dead);
    s = begin(address);
    ask(s, HOST("x"), OK);
    status_close(s);
    /* A file is nobody's socket. */
    const int file = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(file >= 0);
    (void)close(file);
    assert_int_equal(status_open(&s, address, &source, why, sizeof why), -1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void in_use(void **state) {
    (void)state;
    status_page *s = begin("127.0.0.1:0"), *other;
    char why[200];
    const status_source source = {metrics, page, &asked};
    assert_int_equal(status_open(&other, status_address(s), &source, why, sizeof why), -1);
    assert_non_null(strstr(why, status_address(s)));
    status_close(s);
    status_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages),   cmocka_unit_test(refused),    cmocka_unit_test(slow_and_fast),
        cmocka_unit_test(held_up), cmocka_unit_test(many),       cmocka_unit_test(pages_are_kept),
        cmocka_unit_test(garbage), cmocka_unit_test(addresses),  cmocka_unit_test(unix_sockets),
        cmocka_unit_test(in_use),  cmocka_unit_test(unix_stuck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
