/* SPDX-License-Identifier: Apache-2.0 */
/* world.c - see world.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <uvcc/loopback.h>

#include "world.h"

#include "io_adapters/net/address.h"

#define NS_PER_S    1000000000ull
#define PATIENCE_NS (600 * NS_PER_S)
#define FRAC_BITS   16
enum { IN_X = 1, IN_W = 2, OUT_Y = 3 };

/* ---- transports ---- */

static const transport transports[] = {
    {.name = "tcp", .listen = "tcp:127.0.0.1:0"},
    {.name = "tcp6", .listen = "tcp:[::1]:0"},
    {.name = "any", .listen = "tcp:*:0"},
    {.name = "unix", .listen = "unix:%s/p%u"},
    {.name = "udp", .listen = "udp:127.0.0.1:0", .datagram = true},
    {.name = "udp6", .listen = "udp:[::1]:0", .datagram = true},
    {.name = "udpany", .listen = "udp:*:0", .datagram = true},
    {.name = "openssl", .listen = "tcp:127.0.0.1:0", .tls = true, .library = UVCC_TLS_OPENSSL},
    {.name = "mbedtls", .listen = "tcp:127.0.0.1:0", .tls = true, .library = UVCC_TLS_MBEDTLS},
    {.name = "uring", .listen = "tcp:127.0.0.1:0", .backend = UVCC_NET_URING},
    {.name = "uring_unix", .listen = "unix:%s/p%u", .backend = UVCC_NET_URING},
    {.name = "uring_udp", .listen = "udp:127.0.0.1:0", .datagram = true, .backend = UVCC_NET_URING},
    {.name = "uring_tls", .listen = "tcp:127.0.0.1:0", .tls = true, .backend = UVCC_NET_URING},
};

const transport *transport_named(const char *name) {
    for (size_t i = 0; i < sizeof transports / sizeof *transports; i++)
        if (strcmp(transports[i].name, name) == 0)
            return &transports[i];
    return NULL;
}

const char *transport_missing(const transport *t) {
    const char *why = NULL;
    if (uvcc_net_backend_is_here(t->backend, &why) != 0)
        return why;
    if (t->tls && !uvcc_tls_is_here(t->library))
        return "this TLS library is not built in";
    if (strchr(t->listen, '[') != NULL) {
        const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const struct sockaddr_in6 one = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
        const bool here = fd >= 0 && bind(fd, (const struct sockaddr *)&one, sizeof one) == 0;
        if (fd >= 0)
            (void)close(fd);
        return here ? NULL : "there is no IPv6 here";
    }
    return NULL;
}

/* ---- jobs ---- */

void job_relu(job *j, uint32_t rows, uint32_t inner, uint32_t cols) {
    const uvcc_allocator al = uvcc_host_allocator();
    char message[256] = "";
    uvcc_program *p = NULL;
    *j = (job){.rows = rows, .inner = inner, .cols = cols, .steps = 1};
    assert_true(inner <= 256);
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = test_tensor(p, "X", rows, inner, 20, FRAC_BITS, UVCC_TRANSIENT),
                   w = test_tensor(p, "W", inner, cols, 20, FRAC_BITS, UVCC_TRANSIENT),
                   z = test_tensor(p, "Z", rows, cols, 26, FRAC_BITS, UVCC_TRANSIENT),
                   y = test_tensor(p, "Y", rows, cols, 26, FRAC_BITS, UVCC_TRANSIENT),
                   d = test_tensor(p, "D", rows, cols, 1, 0, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "relu") >= 0);
    assert_true(uvcc_program_input(p, IN_X, x, 0) >= 0);
    assert_true(uvcc_program_input(p, IN_W, w, 1) >= 0);
    assert_true(uvcc_program_op(p, &(uvcc_op_desc){.name = "Z",
                                                   .opcode = UVCC_OP_GEMM_SS,
                                                   .k = 0,
                                                   .in_count = 2,
                                                   .in = {x, w},
                                                   .out_count = 1,
                                                   .out = {z},
                                                   .shift = FRAC_BITS,
                                                   .truncation = UVCC_TRUNC_EXACT}) >= 0);
    assert_true(uvcc_program_op(p, &(uvcc_op_desc){.name = "Y",
                                                   .opcode = UVCC_OP_RELU,
                                                   .k = 1,
                                                   .in_count = 1,
                                                   .in = {z},
                                                   .out_count = 2,
                                                   .out = {y, d}}) >= 0);
    assert_true(uvcc_program_output(p, OUT_Y, y) >= 0);
    if (uvcc_program_finish(p, message, sizeof message) != 0)
        fail_msg("%s", message);
    j->program = p;
}

void job_mlp(job *j, uint32_t train) {
    const uvcc_allocator al = uvcc_host_allocator();
    char message[256] = "";
    *j = (job){.steps = train + 1,
               .mlp = {.features = 6,
                       .classes = 3,
                       .hidden_count = 1,
                       .hidden = {5},
                       .batch = 4,
                       .lr_shift = 5,
                       .frac_bits = 12,
                       .y_owner = 1}};
    if (uvcc_mlp_program(&j->program, &j->mlp, &al, message, sizeof message) != 0)
        fail_msg("%s", message);
}

void job_free(job *j) {
    uvcc_program_free(j->program);
    j->program = NULL;
}

static bool is_mlp(const job *j) {
    return j->mlp.features != 0;
}

/* ---- what a host does ---- */

static uint64_t fnv(uint64_t h, const int64_t *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (unsigned b = 0; b < 64; b += 8)
            h = (h ^ (((uint64_t)v[i] >> b) & 0xff)) * 0x100000001b3ull;
    return h;
}

static void hash_outputs(host *h, uint32_t step) {
    const job *j = h->job;
    h->hash = 0xcbf29ce484222325ull;
    if (!is_mlp(j)) {
        const int64_t *y = uvcc_session_output(h->s, step, OUT_Y);
        assert_non_null(y);
        h->hash = fnv(h->hash, y, (size_t)j->rows * j->cols);
        return;
    }
    for (uint32_t l = 0; l < uvcc_mlp_layers(&j->mlp); l++) {
        uint32_t in, out;
        uvcc_mlp_shape(&j->mlp, l, &in, &out);
        const int64_t *w = uvcc_session_output(h->s, step, UVCC_MLP_OUT_WEIGHT + 2 * l),
                      *b = uvcc_session_output(h->s, step, UVCC_MLP_OUT_WEIGHT + 2 * l + 1);
        assert_non_null(w);
        assert_non_null(b);
        h->hash = fnv(fnv(h->hash, w, (size_t)in * out), b, out);
    }
}

static void set_weights(host *h) {
    const job *j = h->job;
    for (uint32_t l = 0; is_mlp(j) && l < uvcc_mlp_layers(&j->mlp); l++) {
        uint32_t in, out;
        int64_t w[64];
        char name[16];
        uvcc_mlp_shape(&j->mlp, l, &in, &out);
        assert_true(in * out <= 64);
        uvcc_mlp_initial_weights(&j->mlp, 7, l, w);
        snprintf(name, sizeof name, "W%u", l);
        assert_int_equal(
            uvcc_session_set_public(h->s, (uint32_t)uvcc_program_find(j->program, name), w), 0);
        for (uint32_t i = 0; i < in * out; i++)
            w[i] *= (int64_t)(1ull << uvcc_mlp_master_shift(&j->mlp));
        snprintf(name, sizeof name, "MW%u", l);
        assert_int_equal(
            uvcc_session_set_public(h->s, (uint32_t)uvcc_program_find(j->program, name), w), 0);
    }
}

static void input(host *h, uint32_t id, const int64_t *v, uint64_t now) {
    const int rc = h->store != NULL ? uvcc_store_input(h->store, h->s, h->next, id, v, now)
                                    : uvcc_session_input(h->s, h->next, id, v, now);
    assert_int_equal(rc, 0);
}

static void give(host *h, uint32_t id, size_t n, int64_t range, uint64_t now) {
    int64_t *v = malloc(n * sizeof *v);
    uint64_t state = 1000u * h->next + id;
    assert_non_null(v);
    for (size_t i = 0; i < n; i++)
        v[i] = (int64_t)(test_rand(&state) % (uint64_t)(2 * range)) - range;
    input(h, id, v, now);
    free(v);
}

static void give_labels(host *h, uint64_t now) {
    const uvcc_mlp_config *m = &h->job->mlp;
    int64_t y[64] = {0};
    assert_true(m->batch * m->classes <= 64);
    for (uint32_t i = 0; i < m->batch; i++)
        y[i * m->classes + (i + h->next) % m->classes] = 1ll << m->frac_bits;
    input(h, UVCC_MLP_IN_Y, y, now);
}

void host_offer(host *h, uint64_t now) {
    const job *j = h->job;
    if (h->s == NULL || !h->ready || h->offered || h->closed || h->aborted != 0 || h->done ||
        (h->w != NULL && h->w->gate != 0 && h->next >= h->w->gate))
        return;
    const bool train = is_mlp(j) && h->next + 1 < j->steps;
    const int entry =
        !is_mlp(j) ? 0 : uvcc_program_find_entry(j->program, train ? "train" : "reveal");
    assert_true(entry >= 0);
    const int rc = h->store != NULL ? uvcc_store_step(h->store, h->s, h->next, (uint32_t)entry, now)
                                    : uvcc_session_step(h->s, h->next, (uint32_t)entry, now);
    if (rc == UVCC_ERR_AGAIN)
        return;
    if (rc != 0)
        fail_msg("step %u: %s", h->next, uvcc_session_error_detail(h->s));
    h->offered = true;
    if (train && h->party == 0)
        give(h, UVCC_MLP_IN_X, (size_t)j->mlp.batch * j->mlp.features, 1ll << j->mlp.frac_bits,
             now);
    if (train && h->party == 1)
        give_labels(h, now);
    if (!is_mlp(j) && h->party == 0)
        give(h, IN_X, (size_t)j->rows * j->inner, 1ll << FRAC_BITS, now);
    if (!is_mlp(j) && h->party == 1)
        give(h, IN_W, (size_t)j->inner * j->cols, 1ll << FRAC_BITS, now);
}

static void on_event(void *user, uvcc_session *s, const uvcc_event *e, uint64_t now) {
    host *h = user;
    assert_ptr_equal(s, h->s);
    const int kept = h->store != NULL ? uvcc_store_event(h->store, s, e) : 0;
    if (kept < 0)
        fail_msg("store: %s", uvcc_store_error(h->store));
    if (h->heard != NULL)
        h->heard(e);
    switch (e->kind) {
    case UVCC_EVENT_READY:
        h->ready = true;
        h->next = e->step;
        if (h->store == NULL || kept == UVCC_STORE_SET)
            set_weights(h);
        host_offer(h, now);
        break;
    case UVCC_EVENT_STEP_FINISHED:
        h->finished++;
        h->offered = false;
        h->next = e->step + 1;
        if (h->next < h->job->steps) {
            host_offer(h, now);
            break;
        }
        hash_outputs(h, e->step);
        h->done = true;
        assert_int_equal(uvcc_session_close(s, now), 0);
        break;
    case UVCC_EVENT_ABORTED:
        h->aborted = e->reason;
        h->restarted |= e->reason == UVCC_ABORT_RESTARTED;
        if (!h->restarted)
            fprintf(stderr, "party %u aborted: %s\n", h->party, e->text);
        (void)uvcc_session_close(s, now);
        break;
    case UVCC_EVENT_PEER_RESTARTED:
        h->restarted = true;
        (void)uvcc_session_abort(s, UVCC_ABORT_RESTARTED, now);
        break;
    case UVCC_EVENT_MISMATCH:
        fprintf(stderr, "party %u: mismatch of party %u: %s\n", h->party, e->peer, e->text);
        break;
    case UVCC_EVENT_CLOSED:
        h->closed = true;
        break;
    default:
        break;
    }
}

static void secrets(uvcc_config *c, uint64_t job_id, unsigned party) {
    uint64_t state = 99 + job_id;
    uint8_t pair[UVCC_PARTIES][32];
    test_rand_bytes(&state, c->identity.sid_job, 32);
    test_rand_bytes(&state, pair, sizeof pair); /* by the third party */
    for (unsigned q = 0; q < UVCC_PARTIES; q++)
        if (q != party)
            memcpy(c->identity.pair_secret[q], pair[UVCC_PARTIES - q - party], 32);
    state += party;
    test_rand_bytes(&state, c->identity.sign_seed, 32);
    c->identity.party = (uint8_t)party;
}

static void make_session(host *h, uint64_t job_id, uint64_t run, bool datagram, bool threads,
                         void (*tweak)(uvcc_config *)) {
    uvcc_config c;
    const uvcc_cpu_config cpu = {.size = sizeof cpu,
                                 .alloc = uvcc_host_allocator(),
                                 .mode = threads ? UVCC_CPU_THREADS : UVCC_CPU_INLINE,
                                 .wake = h->w != NULL ? uvcc_net_wake : NULL,
                                 .wake_user = h->w != NULL ? h->w->net[h->party] : NULL};
    assert_int_equal(uvcc_config_default(&c, sizeof c), 0);
    c.alloc = uvcc_host_allocator();
    c.random = uvcc_host_random();
    c.links.datagram = datagram;
    c.links.hello_repeat_ns = 20000000;
    c.resume.next_run = (uint32_t)run;
    secrets(&c, job_id, h->party);
    if (h->store != NULL) {
        c.resume.checkpoint_every = 1;
        if (uvcc_store_configure(h->store, &c) != 0)
            fail_msg("store: %s", uvcc_store_error(h->store));
    }
    if (tweak != NULL)
        tweak(&c);
    if (h->cpu == NULL)
        assert_int_equal(uvcc_cpu_new(&h->cpu, &cpu), 0);
    assert_int_equal(uvcc_session_new(&h->s, &c), 0);
    assert_int_equal(uvcc_session_load_program(h->s, h->job->program), 0);
    if (h->store != NULL && uvcc_store_offer(h->store, h->s, &c) != 0)
        fail_msg("store: %s", uvcc_store_error(h->store));
}

uint64_t job_hash(const job *j) {
    host hosts[UVCC_PARTIES] = {0};
    uvcc_session *s[UVCC_PARTIES];
    uvcc_cpu *cpu[UVCC_PARTIES];
    uvcc_loopback *net = NULL;
    const uvcc_allocator al = uvcc_host_allocator();
    assert_int_equal(uvcc_loopback_new(&net, &al, UVCC_PARTIES, false, 1), 0);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        hosts[p] = (host){.job = j, .party = (uint8_t)p};
        make_session(&hosts[p], 0, 0, false, false, NULL);
        s[p] = hosts[p].s;
        cpu[p] = hosts[p].cpu;
        assert_int_equal(uvcc_session_start(s[p], uvcc_loopback_now(net)), 0);
    }
    while (!(hosts[0].closed && hosts[1].closed && hosts[2].closed)) {
        assert_int_equal(uvcc_loopback_drive(net, s, cpu, UVCC_PARTIES), 1);
        for (unsigned p = 0; p < UVCC_PARTIES; p++) {
            uvcc_event e;
            while (uvcc_session_poll_event(s[p], &e) == 1)
                on_event(&hosts[p], s[p], &e, uvcc_loopback_now(net));
            host_offer(&hosts[p], uvcc_loopback_now(net));
        }
    }
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        assert_int_equal(hosts[p].aborted, 0);
        assert_true(hosts[p].hash == hosts[0].hash);
        uvcc_session_free(s[p]);
        uvcc_cpu_free(cpu[p]);
    }
    uvcc_loopback_free(net);
    return hosts[0].hash;
}

/* ---- the world ---- */

static void on_log(void *user, uvcc_log_level level, const char *line) {
    world *w = user;
    w->log_lines++;
    w->log_errors += level == UVCC_LOG_ERROR;
    snprintf(w->last_log, sizeof w->last_log, "%s", line);
    if (getenv("UVCC_TEST_LOG") != NULL)
        fprintf(stderr, "%d %s\n", (int)level, line);
}

void world_init(world *w, const transport *t) {
    memset(w, 0, sizeof *w);
    w->t = t;
    uvcc_net_config_default(&w->net_cfg);
    w->net_cfg.alloc = uvcc_host_allocator();
    w->net_cfg.random = uvcc_host_random();
    w->net_cfg.log = (uvcc_logger){.write = on_log, .user = w};
    w->net_cfg.backend = t->backend;
    w->net_cfg.retry_min_ns = 1000000;
    w->net_cfg.retry_max_ns = 20000000;
}

static void open_tls(world *w, unsigned p) {
    static const uint8_t key[UVCC_PARTIES][32] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
    uvcc_tls_config c = {.size = sizeof c,
                         .alloc = uvcc_host_allocator(),
                         .log = w->net_cfg.log,
                         .library = w->t->library,
                         .party = (uint8_t)p};
    for (unsigned q = 0; q < UVCC_PARTIES; q++)
        if (q != p) {
            c.psk[q] = key[UVCC_PARTIES - p - q];
            c.psk_len[q] = 32;
        }
    if (uvcc_tls_new(&w->tls[p], &c) != 0)
        fail_msg("TLS: %s", w->last_log);
}

/* Where one calls who listens on any address. */
static void callable(const char *listen, uint16_t port, char out[UVCC_NET_ADDRESS_BYTES]) {
    const char *colon = strrchr(listen, ':');
    if (port == 0)
        snprintf(out, UVCC_NET_ADDRESS_BYTES, "%s", listen);
    else if (strchr(listen, '*') != NULL)
        snprintf(out, UVCC_NET_ADDRESS_BYTES, "%.4s127.0.0.1:%u", listen, port);
    else
        snprintf(out, UVCC_NET_ADDRESS_BYTES, "%.*s:%u", (int)(colon - listen), listen, port);
}

/* again: where it listened before. */
static void open_net(world *w, unsigned p, bool again) {
    char text[UVCC_NET_ADDRESS_BYTES];
    uint16_t port = 0;
    assert_int_equal(uvcc_net_new(&w->net[p], &w->net_cfg), 0);
    if (w->t->tls && w->tls[p] == NULL)
        open_tls(w, p);
    if (again)
        snprintf(text, sizeof text, "%s", w->address[p]);
    else if (strchr(w->t->listen, '%') != NULL)
        snprintf(text, sizeof text, "unix:%s/p%u", w->dir, p);
    else
        snprintf(text, sizeof text, "%s", w->t->listen);
    if (uvcc_net_listen(w->net[p], text, w->tls[p], &port) != 0)
        fail_msg("%s", w->last_log);
    callable(text, port, w->address[p]);
}

void world_open(world *w) {
    snprintf(w->dir, sizeof w->dir, "/tmp/uvcc-io-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        open_net(w, p, false);
    if (w->proxied)
        w->proxy = proxy_new(5);
    for (unsigned a = 0; a < UVCC_PARTIES; a++)
        for (unsigned b = 0; b < UVCC_PARTIES; b++) {
            memcpy(w->via[a][b], w->address[b], sizeof w->via[a][b]);
            if (w->proxied && b < a)
                proxy_route(w->proxy, w->address[b], w->dir, w->via[a][b]);
        }
}

void world_open_one(world *w, unsigned party) {
    open_net(w, party, true);
    for (unsigned b = 0; b < UVCC_PARTIES; b++)
        memcpy(w->via[party][b], w->address[b], sizeof w->via[party][b]);
}

void host_start(world *w, unsigned worker, unsigned party, const job *j, uint64_t run) {
    host *h = &w->hosts[worker][party];
    const host was = *h;
    *h = (host){.w = w,
                .job = j,
                .party = (uint8_t)party,
                .worker = worker,
                .cpu = was.cpu,
                .store = was.store,
                .heard = was.heard};
    make_session(h, 1 + worker, run, w->t->datagram, w->threads, w->tweak);
    assert_int_equal(uvcc_session_start(h->s, uvcc_host_now_ns()), 0);
}

void host_add(host *h) {
    world *w = h->w;
    uvcc_net_session how = {.size = sizeof how,
                            .party = h->party,
                            .tls = w->tls[h->party],
                            .cpu = h->cpu,
                            .event = on_event,
                            .user = h};
    for (unsigned q = 0; q < UVCC_PARTIES; q++)
        if (q != h->party && (q < h->party || w->t->datagram))
            how.address[q] = w->via[h->party][q];
    if (uvcc_net_add(w->net[h->party], h->s, &how) != 0)
        fail_msg("%s", w->last_log);
    h->added = true;
}

void host_drop(host *h) {
    if (h->added)
        assert_int_equal(uvcc_net_remove(h->w->net[h->party], h->s), 0);
    h->added = false;
    uvcc_session_free(h->s);
    uvcc_cpu_free(h->cpu);
    h->s = NULL;
    h->cpu = NULL;
}

void world_add(world *w, const job *j) {
    assert_true(w->workers < WORKERS_MAX);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        host_start(w, w->workers, p, j, 0);
        host_add(&w->hosts[w->workers][p]);
    }
    w->workers++;
}

/* What hosts do between turns: those whose step may begin agree to it. */
static bool offer_all(world *w) {
    bool any = false;
    for (unsigned i = 0; i < w->workers; i++)
        for (unsigned p = 0; p < UVCC_PARTIES; p++) {
            host *h = &w->hosts[i][p];
            const bool was = h->offered;
            if (h->added && !w->paused[p])
                host_offer(h, uvcc_host_now_ns());
            any |= h->offered != was;
        }
    return any;
}

static void turn_all(world *w) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        if (w->paused[p] || w->net[p] == NULL)
            continue;
        const int rc = uvcc_net_turn(w->net[p]);
        if (rc < 0)
            fail_msg("turn: %s (%s)", uvcc_error_text(rc), w->last_log);
        w->turns[p]++;
        w->busy[p] += rc == 1;
    }
}

void world_tell(const world *w) {
    for (unsigned i = 0; i < w->workers; i++)
        for (unsigned p = 0; p < UVCC_PARTIES; p++) {
            const host *h = &w->hosts[i][p];
            fprintf(stderr, "worker %u party %u: ready %d step %u closed %d\n", i, p, h->ready,
                    h->next, h->closed);
            for (uint8_t q = 0; h->s != NULL && h->added && q < UVCC_PARTIES; q++) {
                uvcc_peer_info s = {.size = sizeof s};
                uvcc_net_peer n = {.size = sizeof n};
                if (q == p || uvcc_session_peer_info(h->s, q, &s) != 0 ||
                    uvcc_net_peer_info(w->net[p], h->s, q, &n) != 0)
                    continue;
                fprintf(stderr, "  peer %u: connected %d/%d, handshake %u, waits for %u, %s, %s\n",
                        q, s.connected, n.connected, s.handshake, s.waits_for, n.address, n.why);
            }
        }
}

/* As a host's loop: the nets' descriptors and deadlines decide alone, and what they forget hangs
 * the test. */
static void sleep_until_something(world *w, bool more) {
    struct pollfd fds[UVCC_PARTIES + 1];
    nfds_t n = 0;
    int least = more ? 0 : 30000;
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        if (w->paused[p] || w->net[p] == NULL)
            continue;
        const int ms = uvcc_net_timeout_ms(w->net[p]);
        least = ms >= 0 && ms < least ? ms : least;
        fds[n++] = (struct pollfd){.fd = uvcc_net_fd(w->net[p]), .events = POLLIN};
    }
    if (w->proxy != NULL)
        fds[n++] = (struct pollfd){.fd = proxy_fd(w->proxy), .events = POLLIN};
    int got = poll(fds, n, least < 2000 ? least : 2000);
    if (got == 0 && least > 2000) {
        if (getenv("UVCC_TEST_LOG") != NULL)
            world_tell(w);
        got = poll(fds, n, least - 2000);
    }
    if (got == 0 && least == 30000)
        fail_msg("nobody has anything to do for 30 s");
}

void world_turn(world *w) {
    const bool offered = offer_all(w);
    sleep_until_something(w, w->proxy_has_more || offered);
    turn_all(w);
    w->proxy_has_more = w->proxy != NULL && proxy_turn(w->proxy);
}

void world_until(world *w, bool (*done)(world *w)) {
    const uint64_t end = uvcc_host_now_ns() + PATIENCE_NS;
    while (!done(w)) {
        world_turn(w);
        if (uvcc_host_now_ns() > end) {
            world_tell(w);
            fail_msg("it does not come to its end; the last of the log: %s", w->last_log);
        }
    }
}

bool all_closed(world *w) {
    for (unsigned i = 0; i < w->workers; i++)
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            if (w->hosts[i][p].s != NULL && !w->hosts[i][p].closed)
                return false;
    return true;
}

bool all_ready(world *w) {
    for (unsigned i = 0; i < w->workers; i++)
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            if (w->hosts[i][p].s != NULL && !w->hosts[i][p].ready)
                return false;
    return true;
}

bool first_step_done(world *w) {
    for (unsigned i = 0; i < w->workers; i++)
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            if (w->hosts[i][p].finished == 0)
                return false;
    return true;
}

void world_move(world *w, unsigned party) {
    for (unsigned i = 0; i < w->workers; i++)
        assert_int_equal(uvcc_net_remove(w->net[party], w->hosts[i][party].s), 0);
    uvcc_net_free(w->net[party]);
    open_net(w, party, true);
    for (unsigned i = 0; i < w->workers; i++)
        host_add(&w->hosts[i][party]);
}

void world_check(world *w) {
    for (unsigned i = 0; i < w->workers; i++) {
        const uint64_t want = job_hash(w->hosts[i][0].job);
        for (unsigned p = 0; p < UVCC_PARTIES; p++) {
            assert_int_equal(w->hosts[i][p].aborted, 0);
            assert_true(w->hosts[i][p].hash == want);
        }
    }
}

void world_close(world *w) {
    for (unsigned i = 0; i < w->workers; i++)
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            if (w->hosts[i][p].s != NULL)
                host_drop(&w->hosts[i][p]);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        uvcc_net_stats st;
        if (w->net[p] != NULL)
            uvcc_net_get_stats(w->net[p], &st);
        uvcc_net_free(w->net[p]);
        uvcc_tls_free(w->tls[p]);
        w->net[p] = NULL;
        w->tls[p] = NULL;
    }
    proxy_free(w->proxy);
    w->proxy = NULL;
    for (unsigned i = 0; i < 32; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/v%u", w->dir, i);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(w->dir), 0); /* nets take the files of their sockets away */
}

void world_run(world *w, const job *j) {
    world_add(w, j);
    world_until(w, all_closed);
    world_check(w);
}

int stranger_dial(const world *w, unsigned party) {
    const char *why = "";
    uvcci_address a;
    assert_int_equal(uvcci_address_parse(&a, w->address[party], false, &why), 0);
    const int fd = socket(a.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a.sa, a.len) == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}
