/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes of both peers' connections side by side, in threads of the host's: what comes of
 * a job is the same, whatever becomes of connections meanwhile; and a net that looks for a while
 * before it sleeps. What the system is asked for, and by whom, is counted (--wrap). */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "world.h"

#include "io_adapters/net/core.h"

#define MS    1000000u
#define COUNT 16u /* more pieces than anybody asks for at once here */

/* ---- the hook: a thread for each piece ---- */

static _Thread_local bool aside;
static atomic_uint reads_aside, writes_aside, feeds;
static unsigned pieces_most, sent_together; /* pairs of writes when they were made */
static bool in_ready; /* what is ready goes side by side, and not what was just made */

typedef struct piece {
    void (*item)(void *arg, uint32_t i);
    void *arg;
    uint32_t i;
} piece;

static void *run_piece(void *user) {
    const piece *p = user;
    aside = true;
    p->item(p->arg, p->i);
    aside = false;
    return NULL;
}

static void run_threads(void *user, void (*item)(void *arg, uint32_t i), void *arg,
                        uint32_t count) {
    pthread_t thread[COUNT];
    piece p[COUNT];
    (void)user;
    assert_true(count <= COUNT);
    const unsigned before = writes_aside;
    pieces_most = count > pieces_most ? count : pieces_most;
    for (uint32_t i = 0; i < count; i++) {
        p[i] = (piece){.item = item, .arg = arg, .i = i};
        assert_int_equal(pthread_create(&thread[i], NULL, run_piece, &p[i]), 0);
    }
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    sent_together += !in_ready && writes_aside - before == 2;
}

static void run_here(void *user, void (*item)(void *arg, uint32_t i), void *arg, uint32_t count) {
    (void)user;
    for (uint32_t i = 0; i < count; i++)
        item(arg, i);
}

/* ---- what the system is asked for ---- */

ssize_t __real_send(int fd, const void *bytes, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __real_recv(int fd, void *bytes, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags);
ssize_t __real_readv(int fd, const struct iovec *iov, int count);
ssize_t __wrap_readv(int fd, const struct iovec *iov, int count);
int __real_epoll_wait(int fd, struct epoll_event *e, int most, int ms);
int __wrap_epoll_wait(int fd, struct epoll_event *e, int most, int ms);
int __real_uvcc_session_feed_slices(uvcc_session *s, uint8_t peer, const uvcc_slice *slices,
                                    uint32_t count, uint64_t now);
int __wrap_uvcc_session_feed_slices(uvcc_session *s, uint8_t peer, const uvcc_slice *slices,
                                    uint32_t count, uint64_t now);

ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags) {
    writes_aside += aside;
    return __real_send(fd, bytes, len, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags) {
    writes_aside += aside;
    return __real_sendmsg(fd, m, flags);
}

enum { FDS = 1024 };
static atomic_bool has_inbox[FDS]; /* it was read into one */
static atomic_uint elsewhere;      /* reads that were not, after one that was */

static uvcc_net *filler; /* goes on sending until an inbox is full; NULL: reads are as they are */
static bool filled;
static ssize_t fill(int fd, uint8_t *bytes, size_t len);

ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags) {
    reads_aside += aside;
    if (len == UVCCI_INBOX_BYTES)
        has_inbox[fd % FDS] = true;
    else
        elsewhere += has_inbox[fd % FDS];
    if (filler != NULL && len == UVCCI_INBOX_BYTES)
        return fill(fd, bytes, len);
    return __real_recv(fd, bytes, len, flags);
}

ssize_t __wrap_readv(int fd, const struct iovec *iov, int count) {
    elsewhere += has_inbox[fd % FDS];
    return __real_readv(fd, iov, count);
}

int __wrap_uvcc_session_feed_slices(uvcc_session *s, uint8_t peer, const uvcc_slice *slices,
                                    uint32_t count, uint64_t now) {
    feeds++;
    return __real_uvcc_session_feed_slices(s, peer, slices, count, now);
}

void __real_uvcci_side_ready(uvcc_net *n);
void __wrap_uvcci_side_ready(uvcc_net *n);

void __wrap_uvcci_side_ready(uvcc_net *n) {
    in_ready = true;
    __real_uvcci_side_ready(n);
    in_ready = false;
}

static bool in_conn, in_session; /* a connection is at work, a session's own turn goes on */
static unsigned jobs_ahead, completed_ahead;
void __real_uvcci_conn_ready(uvcci_conn *c);
void __wrap_uvcci_conn_ready(uvcci_conn *c);
void __real_uvcci_endpoint_turn(uvcci_endpoint *e);
void __wrap_uvcci_endpoint_turn(uvcci_endpoint *e);
int __real_uvcc_cpu_submit(uvcc_cpu *cpu, const uvcc_job *j);
int __wrap_uvcc_cpu_submit(uvcc_cpu *cpu, const uvcc_job *j);
int __real_uvcc_session_complete(uvcc_session *s, const uvcc_completion *c, uint64_t now);
int __wrap_uvcc_session_complete(uvcc_session *s, const uvcc_completion *c, uint64_t now);

void __wrap_uvcci_endpoint_turn(uvcci_endpoint *e) {
    in_session = true;
    __real_uvcci_endpoint_turn(e);
    in_session = false;
}

void __wrap_uvcci_conn_ready(uvcci_conn *c) {
    in_conn = true;
    __real_uvcci_conn_ready(c);
    in_conn = false;
}

int __wrap_uvcc_cpu_submit(uvcc_cpu *cpu, const uvcc_job *j) {
    jobs_ahead += in_conn;
    return __real_uvcc_cpu_submit(cpu, j);
}

int __wrap_uvcc_session_complete(uvcc_session *s, const uvcc_completion *c, uint64_t now) {
    completed_ahead += !in_session;
    return __real_uvcc_session_complete(s, c, now);
}

static unsigned looked, slept; /* waits of no time, and of any */
static uint64_t ahead;         /* so much later it is than the clock of the machine says */
static uint64_t look_takes;    /* another thread has the processor so long after each look */
uint64_t __real_uvcc_host_now_ns(void);
uint64_t __wrap_uvcc_host_now_ns(void);

uint64_t __wrap_uvcc_host_now_ns(void) {
    return __real_uvcc_host_now_ns() + ahead;
}

int __wrap_epoll_wait(int fd, struct epoll_event *e, int most, int ms) {
    looked += ms == 0;
    slept += ms != 0;
    if (ms == 0 && look_takes != 0)
        ahead += look_takes;
    return __real_epoll_wait(fd, e, most, ms);
}

/* ---- jobs ---- */

static void share_frames(uvcc_config *c) {
    c->threads.parallel = (uvcc_parallel){.run = run_here};
    c->links.frame_bytes = 128u << 10;
    c->links.transmit_frames = 8;
}

typedef struct setting {
    const char *transport;
    bool shared; /* the net has the hook */
    bool proxied;
    uint32_t socket_bytes;
} setting;

static uvcc_allocator no_inboxes; /* of the next world's nets, if it has any */

/* Messages of some hundred kilobytes. */
static void begin(world *w, job *j, const setting *s) {
    world_init(w, transport_named(s->transport));
    w->tweak = share_frames;
    w->proxied = s->proxied;
    w->net_cfg.socket_bytes = s->socket_bytes;
    if (no_inboxes.alloc != NULL)
        w->net_cfg.alloc = no_inboxes;
    if (s->shared)
        w->net_cfg.parallel = (uvcc_parallel){.run = run_threads};
    reads_aside = writes_aside = feeds = pieces_most = sent_together = elsewhere = 0;
    for (unsigned i = 0; i < FDS; i++)
        has_inbox[i] = false;
    job_relu(j, 256, 128, 32);
    world_open(w);
}

static void end(world *w, job *j) {
    world_until(w, all_closed);
    world_check(w);
    world_close(w);
    job_free(j);
}

static bool is_here(const setting *s) {
    return transport_missing(transport_named(s->transport)) == NULL;
}

/* Both peers' at once, each piece in a thread; what came goes to the session as frames that may be
 * opened side by side. Without the hook nobody else touches a socket, nor of connections with TLS,
 * nor with io_uring. */
static void test_side_by_side(void **state) {
    static const setting of[] = {
        {.transport = "tcp", .shared = true},
        {.transport = "unix", .shared = true},
        {.transport = "tcp"},
        {.transport = "unix"},
        {.transport = "openssl", .shared = true},
        {.transport = "uring", .shared = true},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof of / sizeof of[0]; i++) {
        const bool some = i < 2;
        world w;
        job j;
        if (!is_here(&of[i]))
            continue;
        begin(&w, &j, &of[i]);
        world_add(&w, &j);
        end(&w, &j);
        assert_int_equal(reads_aside != 0, some);
        assert_int_equal(writes_aside != 0, some);
        assert_int_equal(sent_together != 0, some);
        assert_int_equal(feeds != 0, some);
        assert_int_equal(elsewhere, 0);
        assert_int_equal(pieces_most, some ? 2 : 0);
    }
}

/* One peer of a session's with TLS, one without: what goes to the one goes through TLS by its own
 * thread, though the other's could be written aside. */
static void test_one_peer_with_tls(void **state) {
    const setting s = {.transport = uvcc_tls_is_here(UVCC_TLS_OPENSSL) ? "openssl" : "mbedtls",
                       .shared = true};
    uvcc_tls *kept[2];
    uint16_t port = 0;
    world w;
    job j;
    (void)state;
    if (!is_here(&s))
        skip();
    begin(&w, &j, &s);
    assert_int_equal(uvcc_net_listen(w.net[0], "tcp:127.0.0.1:0", NULL, &port), 0);
    (void)snprintf(w.via[1][0], sizeof w.via[1][0], "tcp:127.0.0.1:%u", port);
    memcpy(kept, w.tls, sizeof kept);
    w.tls[0] = w.tls[1] = NULL;
    world_add(&w, &j);
    memcpy(w.tls, kept, sizeof kept);
    world_until(&w, all_ready);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        for (uint8_t q = 0; q < UVCC_PARTIES; q++) {
            uvcc_net_peer at = {.size = sizeof at};
            if (p == q)
                continue;
            assert_int_equal(uvcc_net_peer_info(w.net[p], w.hosts[0][p].s, q, &at), 0);
            assert_int_equal(at.tls, p == 2 || q == 2);
        }
    end(&w, &j);
    assert_int_equal(reads_aside, 0);
    assert_int_equal(writes_aside, 0);
}

/* Sockets that take less than they are given: what is left of a write goes on where it ended. */
static void test_small_sockets(void **state) {
    const setting s = {.transport = "tcp", .shared = true, .socket_bytes = 30000};
    world w;
    job j;
    (void)state;
    begin(&w, &j, &s);
    world_add(&w, &j);
    end(&w, &j);
    assert_true(writes_aside != 0);
}

/* Five workers of each party: more connections are ready than go side by side at once. */
static void test_many(void **state) {
    const setting s = {.transport = "unix", .shared = true};
    world w;
    job j;
    (void)state;
    begin(&w, &j, &s);
    for (unsigned i = 0; i < 5; i++)
        world_add(&w, &j);
    end(&w, &j);
    assert_int_equal(pieces_most, 8);
}

static bool all_have_inboxes(world *w) {
    unsigned n = 0;
    (void)w;
    for (unsigned i = 0; i < FDS; i++)
        n += has_inbox[i];
    return n >= 3;
}

/* Large frames that come in pieces of a kilobyte at most: who had them goes on as before. */
static void test_pieces(void **state) {
    const setting s = {.transport = "tcp", .shared = true, .proxied = true};
    world w;
    job j;
    (void)state;
    begin(&w, &j, &s);
    world_add(&w, &j);
    world_until(&w, all_have_inboxes);
    proxy_rule(w.proxy)->piece = 1000;
    end(&w, &j);
    assert_int_equal(elsewhere, 0);
}

/* Connections end in the middle of what is read and written, by FIN and by RST. */
static void test_cut(void **state) {
    const setting s = {.transport = "tcp", .shared = true, .proxied = true};
    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        const int64_t at = 20000 + 40009 * (int64_t)i;
        world w;
        job j;
        begin(&w, &j, &s);
        *proxy_rule(w.proxy) = (proxy_rules){.cut_in = i % 2 == 0 ? at : -1,
                                             .cut_out = i % 2 == 0 ? -1 : at,
                                             .quiet_end = i % 3 == 0};
        world_add(&w, &j);
        const uint64_t until = uvcc_host_now_ns() + 60000ull * MS;
        while (!all_closed(&w) && proxy_cuts(w.proxy) < 3) {
            world_turn(&w);
            assert_true(uvcc_host_now_ns() < until);
        }
        proxy_rule(w.proxy)->cut_in = proxy_rule(w.proxy)->cut_out = -1;
        end(&w, &j);
    }
}

static void *refuse_inboxes(void *user, size_t bytes, uvcc_mem_class cls) {
    const uvcc_allocator al = uvcc_host_allocator();
    unsigned *refused = user;
    *refused += bytes == UVCCI_INBOX_BYTES;
    return bytes == UVCCI_INBOX_BYTES ? NULL : al.alloc(al.user, bytes, cls);
}

/* Without memory for what is read, connections are read as ever, and written side by side. */
static void test_no_memory(void **state) {
    const setting s = {.transport = "tcp", .shared = true};
    const uvcc_allocator al = uvcc_host_allocator();
    unsigned refused = 0;
    world w;
    job j;
    (void)state;
    no_inboxes = (uvcc_allocator){.alloc = refuse_inboxes, .free = al.free, .user = &refused};
    begin(&w, &j, &s);
    world_add(&w, &j);
    end(&w, &j);
    no_inboxes.alloc = NULL;
    assert_true(refused != 0);
    assert_int_equal(reads_aside, 0);
    assert_true(writes_aside != 0);
}

/* Jobs that follow from what came, or from jobs that are done, go out before anything else is read
 * or opened, where there is the hook. */
static void test_jobs_first(void **state) {
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        const setting s = {.transport = "tcp", .shared = i == 1};
        world w;
        job j;
        begin(&w, &j, &s);
        w.threads = true;
        jobs_ahead = completed_ahead = 0;
        world_add(&w, &j);
        world_until(&w, all_closed);
        assert_int_equal(jobs_ahead != 0, s.shared);
        assert_int_equal(completed_ahead != 0, s.shared);
        end(&w, &j);
    }
}

/* ---- a full inbox ---- */

typedef struct wire {
    uvcc_net *net[2];
    uvcc_link *l[2];
    unsigned got; /* messages, at 0 */
} wire;

static void take_messages(void *user, uvcc_link *l, uint64_t now) {
    wire *w = user;
    uvcc_link_rx rx;
    while (uvcc_link_poll_message(l, &rx) == 1) {
        w->got++;
        assert_int_equal(uvcc_link_accept(l, rx.token, now), 0);
        assert_int_equal(uvcc_link_release(l, rx.token, now), 0);
    }
}

/* Party 0, whose net has the hook, and party 1, which calls it. */
static void wire_open(wire *w) {
    char address[UVCC_NET_ADDRESS_BYTES];
    *w = (wire){.got = 0};
    for (unsigned i = 0; i < 2; i++) {
        uvcc_net_config cfg;
        uvcc_link_config c;
        uint16_t port = 0;
        uvcc_net_config_default(&cfg);
        cfg.alloc = uvcc_host_allocator();
        cfg.random = uvcc_host_random();
        cfg.unsent_bytes = UINT32_MAX;
        if (i == 0)
            cfg.parallel = (uvcc_parallel){.run = run_here};
        assert_int_equal(uvcc_net_new(&w->net[i], &cfg), 0);
        if (i == 0) {
            assert_int_equal(uvcc_net_listen(w->net[i], "tcp:127.0.0.1:0", NULL, &port), 0);
            snprintf(address, sizeof address, "tcp:127.0.0.1:%u", port);
        }
        uvcc_link_config_default(&c);
        c.alloc = uvcc_host_allocator();
        c.random = uvcc_host_random();
        c.me = (uint8_t)i;
        c.peer = (uint8_t)!i;
        c.sid_tag = 77;
        c.keepalive_ns = UVCC_NEVER; /* nothing but the net makes it go on */
        assert_int_equal(uvcc_link_new(&w->l[i], &c), 0);
        assert_int_equal(uvcc_link_set_run(w->l[i], 1), 0);
        assert_int_equal(uvcc_link_start(w->l[i], uvcc_host_now_ns()), 0);
        const uvcc_net_link how = {.size = sizeof how,
                                   .me = (uint8_t)i,
                                   .peer = (uint8_t)!i,
                                   .sid_tag = 77,
                                   .address = i == 0 ? NULL : address,
                                   .turn = take_messages,
                                   .user = w};
        assert_int_equal(uvcc_net_add_link(w->net[i], w->l[i], &how), 0);
    }
}

static void wire_send(wire *w, uint32_t len) {
    uvcc_link_msg *m = NULL;
    const uint32_t ids[UVCC_MSG_MAX_CHUNKS] = {1, 2, 3, 4, 5, 6, 7, 8};
    assert_int_equal(uvcc_link_msg_new(w->l[1], UVCC_FRAME_OPEN_BATCH, len, &m), 0);
    memset(uvcc_link_msg_data(m), 7, len);
    assert_int_equal(uvcc_link_send(w->l[1], m, 0, 1, ids, 0, uvcc_host_now_ns()), 0);
}

static void wire_turn(wire *w) {
    for (unsigned i = 0; i < 2; i++)
        assert_true(uvcc_net_turn(w->net[i]) >= 0);
}

static uint64_t bytes_of(const uvcc_net *n) {
    uvcc_net_stats st;
    uvcc_net_get_stats(n, &st);
    return st.bytes_rx;
}

static int filled_fd; /* of the net that reads: where it hears that more has come */

/* Reads until there is no room; what then stands in the socket came before the last event. */
static ssize_t fill(int fd, uint8_t *bytes, size_t len) {
    struct epoll_event gone[16];
    const uint64_t until = uvcc_host_now_ns() + 60000ull * MS;
    uint8_t more;
    size_t got = 0;
    while (got < len || __real_recv(fd, &more, 1, MSG_PEEK) != 1) {
        const ssize_t n = got < len ? __real_recv(fd, bytes + got, len - got, 0) : 0;
        got += n > 0 ? (size_t)n : 0;
        assert_true(uvcc_net_turn(filler) >= 0);
        assert_true(uvcc_host_now_ns() < until);
    }
    while (__real_epoll_wait(filled_fd, gone, 16, 0) > 0)
        continue;
    filled = true;
    filler = NULL;
    return (ssize_t)got;
}

/* What did not fit into an inbox is read though the system says no word of it any more. */
static void test_full_inbox(void **state) {
    wire w;
    (void)state;
    for (unsigned i = 0; i < FDS; i++)
        has_inbox[i] = false;
    filled = false;
    wire_open(&w);
    wire_send(&w, 1000);
    const uint64_t until = uvcc_host_now_ns() + 60000ull * MS;
    while (w.got == 0) {
        wire_turn(&w);
        assert_true(uvcc_host_now_ns() < until);
    }
    wire_send(&w, 6u << 20);
    filler = w.net[1];
    filled_fd = uvcc_net_fd(w.net[0]);
    while (!filled) {
        wire_turn(&w);
        assert_true(uvcc_host_now_ns() < until);
    }
    const uint64_t came = bytes_of(w.net[0]);
    assert_int_equal(uvcc_net_deadline(w.net[0]), 0);
    assert_int_equal(uvcc_net_turn(w.net[0]), 1);
    assert_true(bytes_of(w.net[0]) > came);
    while (w.got < 2) {
        wire_turn(&w);
        assert_true(uvcc_host_now_ns() < until);
    }
    for (unsigned i = 0; i < 2; i++) {
        uvcc_net_free(w.net[i]);
        uvcc_link_free(w.l[i]);
    }
}

/* ---- the back end's part ---- */

enum { READABLE, EMPTY, ENDED, FILLED, FILLED_LONG, TAKES, FULL, GONE, PAIRS };

/* What each says, and which bits it leaves, is as if it had been alone. */
static void test_several(void **state) {
    static uint8_t bytes[PAIRS][1u << 20];
    uvcci_io io = {.ops = &uvcci_io_epoll, .alloc = uvcc_host_allocator()};
    uvcc_net_config cfg;
    uvcci_source src[PAIRS];
    uvcci_part part[PAIRS];
    struct iovec iov[PAIRS];
    int other[PAIRS];
    const uvcc_parallel by = {.run = run_threads};
    (void)state;
    uvcc_net_config_default(&cfg);
    assert_int_equal(io.ops->open(&io, &cfg), 0);
    for (unsigned i = 0; i < PAIRS; i++) {
        int fds[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
        src[i] = (uvcci_source){.fd = fds[0], .kind = UVCCI_SOURCE_STREAM};
        other[i] = fds[1];
        assert_int_equal(io.ops->add(&io, &src[i]), 0);
        src[i].ready = UVCCI_READ | UVCCI_WRITE;
        iov[i] = (struct iovec){.iov_base = bytes[i], .iov_len = i < TAKES ? 100 : sizeof bytes[i]};
        part[i] = (uvcci_part){.src = &src[i], .write = i >= TAKES, .iov = &iov[i], .count = 1};
    }
    iov[FILLED_LONG].iov_len = 20000;
    iov[TAKES].iov_len = 1000;
    assert_int_equal(write(other[READABLE], "0123456789", 10), 10);
    assert_int_equal(write(other[FILLED], bytes[FULL], 150), 150);
    assert_int_equal(write(other[FILLED_LONG], bytes[FULL], 30000), 30000);
    assert_int_equal(close(other[ENDED]), 0);
    assert_int_equal(close(other[GONE]), 0);
    const uint64_t calls = io.syscalls;
    io.ops->several(&io, part, PAIRS, &by);
    assert_true(io.syscalls - calls >= PAIRS);
    assert_int_equal(part[READABLE].rc, 10);
    assert_memory_equal(bytes[READABLE], "0123456789", 10);
    assert_int_equal(src[READABLE].ready, UVCCI_WRITE); /* it is empty now */
    assert_int_equal(part[EMPTY].rc, UVCC_ERR_AGAIN);
    assert_int_equal(src[EMPTY].ready, UVCCI_WRITE);
    assert_int_equal(part[ENDED].rc, 0);
    assert_int_equal(part[FILLED].rc, 100);
    assert_int_equal(src[FILLED].ready, UVCCI_READ | UVCCI_WRITE); /* there may be more */
    assert_int_equal(part[FILLED_LONG].rc, 20000);
    assert_int_equal(src[FILLED_LONG].ready, UVCCI_READ | UVCCI_WRITE);
    assert_int_equal(part[TAKES].rc, 1000);
    assert_int_equal(src[TAKES].ready, UVCCI_READ | UVCCI_WRITE);
    assert_true(part[FULL].rc > 0 && (size_t)part[FULL].rc < sizeof bytes[FULL]);
    assert_int_equal(src[FULL].ready, UVCCI_READ);
    assert_int_equal(part[GONE].rc, -EPIPE); /* and no signal */
    io.ops->several(&io, &part[FULL], 1, &by);
    assert_int_equal(part[FULL].rc, UVCC_ERR_AGAIN);
    for (unsigned i = 0; i < PAIRS; i++) {
        uvcci_io_forget(&io, &src[i]);
        io.ops->remove(&io, &src[i]);
        (void)close(src[i].fd);
        if (i != ENDED && i != GONE)
            (void)close(other[i]);
    }
    io.ops->close(&io);
}

/* ---- what goes side by side ---- */

#define LARGE (1u << 20)

typedef struct ready_row {
    uint8_t state, ready;
    bool holding;
    uint8_t large;
    size_t sent;
    uint32_t parts; /* with one that has much to write */
} ready_row;

static uint32_t parts_asked;

static void count_parts(uvcci_io *io, uvcci_part *part, uint32_t count, const uvcc_parallel *by) {
    (void)io;
    (void)by;
    parts_asked = count;
    for (uint32_t i = 0; i < count; i++)
        part[i].rc = UVCC_ERR_AGAIN;
}

/* Of a connection that is up, what it holds and has room for, if that is much, and what is there
 * to read: of one that came up anew, nothing that went with the one before. */
static void test_ready(void **state) {
    static const ready_row of[] = {
        {UVCCI_CONN_UP, UVCCI_WRITE, true, 0, 0, 2},
        {UVCCI_CONN_UP, UVCCI_WRITE, true, 0, LARGE - UVCCI_SIDE_BYTES, 2},
        {UVCCI_CONN_UP, UVCCI_WRITE, true, 0, LARGE - UVCCI_SIDE_BYTES + 1, 0},
        {UVCCI_CONN_UP, UVCCI_WRITE, false, 0, 0, 0},
        {UVCCI_CONN_UP, 0, true, 0, 0, 0},
        {UVCCI_CONN_LEAVING, UVCCI_WRITE, true, 0, 0, 0},
        {UVCCI_CONN_UP, UVCCI_READ, false, 1, 0, 2},
        {UVCCI_CONN_UP, UVCCI_READ, false, 0, 0, 0},
        {UVCCI_CONN_UP, UVCCI_WRITE, false, 1, 0, 0},
        {UVCCI_CONN_LEAVING, UVCCI_READ, false, 1, 0, 0},
    };
    static const uint8_t bytes[LARGE];
    const uvcc_slice all = {.data = bytes, .len = LARGE};
    const uvcci_io_ops ops = {.several = count_parts};
    (void)state;
    for (unsigned i = 0; i < sizeof of / sizeof of[0]; i++) {
        uvcc_net n = {.cfg = {.alloc = uvcc_host_allocator(), .parallel = {.run = run_here}},
                      .io = {.ops = &ops}};
        uvcci_channel ch[2];
        uvcci_conn c[2];
        for (unsigned k = 0; k < 2; k++) {
            const ready_row *r = k == 0 ? &of[0] : &of[i];
            ch[k] = (uvcci_channel){.holding = r->holding,
                                    .sent = r->sent,
                                    .tx = {.slices = &all, .slice_count = 1, .total = LARGE}};
            c[k] = (uvcci_conn){.src = {.kind = UVCCI_SOURCE_STREAM, .owner = &c[k]},
                                .net = &n,
                                .state = r->state,
                                .ch = &ch[k],
                                .large = r->large};
            uvcci_io_ready(&n.io, &c[k].src, UVCCI_WRITE);
            c[k].src.ready = r->ready;
        }
        parts_asked = 0;
        uvcci_side_ready(&n);
        assert_int_equal(parts_asked, of[i].parts);
        assert_int_equal(c[0].has_out, of[i].parts != 0);
        assert_int_equal(c[1].has_out, of[i].parts != 0 && of[i].ready == UVCCI_WRITE);
        assert_int_equal(c[1].has_in, of[i].parts != 0 && of[i].ready == UVCCI_READ);
        uvcci_net_give(&n, c[1].inbox, UVCCI_INBOX_BYTES);
    }
}

/* ---- looking before sleeping ---- */

static void *wake_it(void *net) {
    uvcc_net_wake(net);
    return NULL;
}

/* Who looks for ever never sleeps, and who looks for no time sleeps at once; either is woken, and
 * ends when it is told to. */
static void test_looks(void **state) {
    static const uint64_t look[] = {0, 1, UVCC_NEVER};
    (void)state;
    for (unsigned backend = UVCC_NET_EPOLL; backend <= UVCC_NET_URING; backend++)
        for (unsigned i = 0; i < 3; i++) {
            uvcc_net_config cfg;
            uvcc_net *n = NULL;
            pthread_t thread;
            if (uvcc_net_backend_is_here(backend, NULL) != 0)
                continue;
            uvcc_net_config_default(&cfg);
            cfg.alloc = uvcc_host_allocator();
            cfg.random = uvcc_host_random();
            cfg.backend = backend;
            cfg.look_ns = look[i];
            assert_int_equal(uvcc_net_new(&n, &cfg), 0);
            looked = slept = 0;
            const uint64_t until = uvcc_host_now_ns() + 3 * MS;
            int rc;
            do
                rc = uvcc_net_wait(n, until);
            while (rc == 0 && uvcc_host_now_ns() < until);
            assert_int_equal(rc, 0);
            if (backend == UVCC_NET_EPOLL) {
                assert_int_equal(slept != 0, look[i] != UVCC_NEVER);
                assert_int_equal(looked != 0, look[i] != 0);
            }
            assert_int_equal(pthread_create(&thread, NULL, wake_it, n), 0);
            assert_int_equal(uvcc_net_wait(n, UVCC_NEVER), 1);
            assert_int_equal(pthread_join(thread, NULL), 0);
            uvcc_net_free(n);
        }
}

/* A look during which others had the processor until the wait is over is not followed by a sleep of
 * what was to be left. */
static void test_long_look(void **state) {
    uvcc_net_config cfg;
    uvcc_net *n = NULL;
    (void)state;
    uvcc_net_config_default(&cfg);
    cfg.alloc = uvcc_host_allocator();
    cfg.random = uvcc_host_random();
    cfg.look_ns = MS;
    assert_int_equal(uvcc_net_new(&n, &cfg), 0);
    looked = slept = 0;
    look_takes = 120000ull * MS;
    assert_int_equal(uvcc_net_wait(n, uvcc_host_now_ns() + 60000ull * MS), 0);
    look_takes = 0;
    assert_true(looked != 0);
    assert_int_equal(slept, 0);
    uvcc_net_free(n);
    ahead = 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_side_by_side), cmocka_unit_test(test_small_sockets),
        cmocka_unit_test(test_many),         cmocka_unit_test(test_cut),
        cmocka_unit_test(test_pieces),       cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_jobs_first),   cmocka_unit_test(test_several),
        cmocka_unit_test(test_looks),        cmocka_unit_test(test_long_look),
        cmocka_unit_test(test_full_inbox),   cmocka_unit_test(test_one_peer_with_tls),
        cmocka_unit_test(test_ready),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
