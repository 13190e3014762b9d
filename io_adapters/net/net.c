/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - the object, its calls, and the turn: what is ready, what is late, then every session
 * once.
 *
 * Every turn asks every session, so that what a host did to one between turns needs no telling; an
 * idle session costs some hundred nanoseconds of it. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <uvcc/host.h>

#include "io_adapters/net/core.h"

enum { RING_TRIES = 200, RING_TRY_MS = 10 };

#define NS_PER_S      1000000000u
#define NS_PER_MS     1000000u
#define LOGS_A_SECOND 20u
#define NO_TLS        "packets have no TLS: their frames are sealed by themselves"

/* ---- small things ---- */

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

void *uvcci_net_alloc(uvcc_net *n, size_t bytes) {
    return n->cfg.alloc.alloc(n->cfg.alloc.user, bytes, UVCC_MEM_STATE);
}

void uvcci_net_give(uvcc_net *n, void *p, size_t bytes) {
    if (p != NULL)
        n->cfg.alloc.free(n->cfg.alloc.user, p, bytes, UVCC_MEM_STATE);
}

/* Who floods a listener fills no disk: lines below ERROR come at a limited rate, those of each
 * level at one of its own, so that what is refused does not hide what is connected. */
static bool may_log(uvcc_net *n, uvcc_log_level level) {
    char line[64];
    if (level == UVCC_LOG_ERROR)
        return true;
    if (n->now / NS_PER_S != n->log_second) {
        uint32_t left_out = 0;
        for (unsigned i = 0; i < UVCCI_LOG_LEVELS; i++) {
            left_out += n->log_count[i] > LOGS_A_SECOND ? n->log_count[i] - LOGS_A_SECOND : 0;
            n->log_count[i] = 0;
        }
        n->log_second = n->now / NS_PER_S;
        (void)snprintf(line, sizeof line, "%u lines were left out here", left_out);
        if (left_out != 0)
            n->cfg.log.write(n->cfg.log.user, UVCC_LOG_WARN, line);
    }
    return ++n->log_count[level] <= LOGS_A_SECOND;
}

void uvcci_net_log(uvcc_net *n, uvcc_log_level level, const char *fmt, ...) {
    char line[512];
    va_list ap;
    if (n->cfg.log.write == NULL || !may_log(n, level))
        return;
    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    n->cfg.log.write(n->cfg.log.user, level, line);
}

const char *uvcc_net_backend_name(uint32_t backend) {
    switch (backend) {
    case UVCC_NET_AUTO:
        return "auto";
    case UVCC_NET_EPOLL:
        return "epoll";
    case UVCC_NET_URING:
        return "uring";
    default:
        return NULL;
    }
}

int uvcc_net_backend_is_here(uint32_t backend, const char **why) {
    const char *none = "";
    const char **to = why != NULL ? why : &none;
    *to = "";
    if (backend == UVCC_NET_AUTO || backend == UVCC_NET_EPOLL)
        return 0;
    *to = "there is no such back end";
    return backend == UVCC_NET_URING ? uvcci_io_uring_works(to) : UVCC_ERR_NOT_FOUND;
}

/* ---- life ---- */

void uvcc_net_config_default(uvcc_net_config *cfg) {
    if (cfg == NULL)
        return;
    memset(cfg, 0, sizeof *cfg);
    cfg->size = sizeof *cfg;
}

static void fill_in(uvcc_net_config *c) {
    if (c->backend == UVCC_NET_AUTO)
        c->backend = UVCC_NET_EPOLL;
    if (c->pending_max == 0)
        c->pending_max = 256;
    if (c->call_ns == 0)
        c->call_ns = 10ull * NS_PER_S;
    if (c->retry_min_ns == 0)
        c->retry_min_ns = 50ull * NS_PER_MS;
    if (c->retry_max_ns == 0)
        c->retry_max_ns = 5ull * NS_PER_S;
    if (c->retry_max_ns < c->retry_min_ns)
        c->retry_max_ns = c->retry_min_ns;
    if (c->idle_ns == 0)
        c->idle_ns = 30ull * NS_PER_S;
    if (c->turn_bytes == 0)
        c->turn_bytes = 1u << 20;
    if (c->unsent_bytes == 0)
        c->unsent_bytes = 128u << 10;
    if (c->unsent_bytes != UINT32_MAX && c->unsent_bytes > INT32_MAX)
        c->unsent_bytes = INT32_MAX;
}

static int open_all(uvcc_net *n) {
    int rc = uvcc_demux_new(&n->demux, &n->cfg.alloc);
    if (rc == 0 && (n->scratch = uvcci_net_alloc(n, UVCCI_SCRATCH_BYTES)) == NULL)
        rc = UVCC_ERR_NOMEM;
    if (rc == 0)
        rc = n->io.ops->open(&n->io, &n->cfg);
    if (rc != 0) {
        n->io.ops = NULL;
        return rc;
    }
    n->wake.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return n->wake.fd < 0 ? UVCC_ERR_LIMIT : n->io.ops->add(&n->io, &n->wake);
}

int uvcc_net_new(uvcc_net **out, const uvcc_net_config *cfg) {
    if (out == NULL || cfg == NULL || cfg->size != sizeof *cfg || cfg->alloc.alloc == NULL ||
        cfg->alloc.free == NULL || cfg->random.fill == NULL)
        return UVCC_ERR_USAGE;
    int rc = uvcc_net_backend_is_here(cfg->backend, NULL);
    if (rc != 0)
        return rc;
    uvcc_net *n = cfg->alloc.alloc(cfg->alloc.user, sizeof *n, UVCC_MEM_STATE);
    if (n == NULL)
        return UVCC_ERR_NOMEM;
    *n = (uvcc_net){.cfg = *cfg,
                    .io.alloc = cfg->alloc,
                    .wake = {.fd = -1, .kind = UVCCI_SOURCE_WAKE},
                    .now = uvcc_host_now_ns()};
    fill_in(&n->cfg);
    n->io.ops = n->cfg.backend == UVCC_NET_URING ? uvcci_io_uring() : &uvcci_io_epoll;
    rc = open_all(n);
    if (rc != 0) {
        uvcc_net_free(n);
        return rc;
    }
    *out = n;
    return 0;
}

static void source_close(uvcc_net *n, uvcci_source *src) {
    if (src->fd < 0)
        return;
    uvcci_io_forget(&n->io, src);
    n->io.ops->remove(&n->io, src);
    (void)close(src->fd);
    src->fd = -1;
}

/* A Unix socket's file is taken away, but not one that somebody else made there meanwhile. */
static void listener_free(uvcc_net *n, uvcci_listener *l) {
    const char *path = ((const struct sockaddr_un *)&l->address.sa)->sun_path;
    struct stat now;
    if (l->address.kind == UVCCI_ADDRESS_UNIX && lstat(path, &now) == 0 &&
        now.st_dev == l->made.st_dev && now.st_ino == l->made.st_ino)
        (void)unlink(path);
    source_close(n, &l->src);
    uvcci_net_give(n, l, sizeof *l);
}

static void endpoint_free(uvcci_endpoint *e) {
    uvcc_net *n = e->net;
    if (e->prev != NULL)
        e->prev->next = e->next;
    else
        n->endpoints = e->next;
    if (e->next != NULL)
        e->next->prev = e->prev;
    uvcci_net_give(n, e, sizeof *e);
}

static void drop_endpoint(uvcci_endpoint *e, bool tell);

/* Within a turn, from a hook, it goes when the turn is over; sessions and links are let go of now.
 */
static void free_later(uvcc_net *n) {
    n->free_after = true;
    for (uvcci_endpoint *e = n->endpoints; e != NULL; e = e->next)
        if (!e->removed)
            drop_endpoint(e, false);
}

void uvcc_net_free(uvcc_net *n) {
    if (n == NULL)
        return;
    if (n->in_turn) {
        free_later(n);
        return;
    }
    while (n->conns != NULL)
        uvcci_conn_free(n->conns);
    while (n->endpoints != NULL)
        endpoint_free(n->endpoints);
    while (n->listeners != NULL) {
        uvcci_listener *l = n->listeners;
        n->listeners = l->next;
        listener_free(n, l);
    }
    uvcci_packets_free_all(n);
    if (n->io.ops != NULL) {
        source_close(n, &n->wake);
        n->io.ops->close(&n->io);
    }
    uvcc_demux_free(n->demux);
    uvcci_net_give(n, n->scratch, UVCCI_SCRATCH_BYTES);
    const uvcc_allocator al = n->cfg.alloc;
    al.free(al.user, n, sizeof *n, UVCC_MEM_STATE);
}

/* Whoever is killed leaves its ring to the kernel, which closes the ring's sockets a while later: a
 * process that takes its place meets an address that is still in use. */
static int listen_there(uvcc_net *n, uvcci_address *a) {
    int fd = uvcci_socket_listen(n, a);
    for (int i = 0; fd == -EADDRINUSE && n->cfg.backend == UVCC_NET_URING && i < RING_TRIES; i++) {
        (void)poll(NULL, 0, RING_TRY_MS);
        fd = uvcci_socket_listen(n, a);
    }
    return fd;
}

int uvcc_net_listen(uvcc_net *n, const char *address, uvcc_tls *tls, uint16_t *port) {
    const char *why = "";
    if (n == NULL || address == NULL)
        return UVCC_ERR_USAGE;
    uvcci_listener *l = uvcci_net_alloc(n, sizeof *l);
    if (l == NULL)
        return UVCC_ERR_NOMEM;
    *l = (uvcci_listener){
        .src = {.fd = -1, .kind = UVCCI_SOURCE_LISTENER}, .tls = tls, .retry_at = UVCC_NEVER};
    l->src.owner = l;
    int rc = uvcci_address_parse(&l->address, address, true, &why);
    if (rc == 0 && l->address.kind == UVCCI_ADDRESS_UDP && tls != NULL) {
        why = NO_TLS;
        rc = UVCC_ERR_CONFIG;
    }
    if (rc == 0) {
        l->src.fd = listen_there(n, &l->address);
        if (l->src.fd < 0) {
            why = strerror(-l->src.fd);
            rc = l->src.fd == -EMFILE || l->src.fd == -ENFILE ? UVCC_ERR_LIMIT : UVCC_ERR_STATE;
            l->src.fd = -1;
        }
    }
    if (rc == 0)
        rc = l->address.kind == UVCCI_ADDRESS_UDP ? uvcci_packets_open(n, l->src.fd, &l->address)
                                                  : n->io.ops->add(&n->io, &l->src);
    if (rc != 0 && *why == '\0')
        why = rc == UVCC_ERR_STATE ? "packets have a socket of this family already"
                                   : uvcc_error_text(rc);
    if (rc != 0)
        uvcci_net_log(n, UVCC_LOG_ERROR, "%s: cannot listen there: %s", address, why);
    if (rc != 0 && l->src.fd >= 0)
        (void)close(l->src.fd);
    if (rc == 0 && port != NULL)
        *port = uvcci_address_port(&l->address);
    if (rc != 0 || l->address.kind == UVCCI_ADDRESS_UDP) {
        uvcci_net_give(n, l, sizeof *l);
        return rc;
    }
    if (l->address.kind == UVCCI_ADDRESS_UNIX)
        (void)lstat(((const struct sockaddr_un *)&l->address.sa)->sun_path, &l->made);
    l->next = n->listeners;
    n->listeners = l;
    return 0;
}

/* ---- sessions and links ---- */

static int read_address(uvcci_channel *ch, const char *text) {
    const char *why = "";
    uvcci_address a;
    int rc = uvcci_address_parse(&a, text, false, &why);
    if (rc == 0 && (a.kind == UVCCI_ADDRESS_UDP) != ch->e->datagram) {
        rc = UVCC_ERR_CONFIG;
        why = ch->e->datagram ? "packets go to udp: addresses"
                              : "links.datagram is not set, so a stream goes to tcp: or unix:";
    }
    if (rc != 0) {
        uvcci_net_log(ch->e->net, UVCC_LOG_ERROR, "the address of party %u, %s: %s", ch->peer, text,
                      why);
        return rc;
    }
    ch->address = a;
    ch->has_address = true;
    return 0;
}

static int endpoint_new(uvcci_endpoint **out, uvcc_net *n, uint64_t sid_tag, uint8_t me,
                        bool datagram, uvcc_tls *tls) {
    uvcci_endpoint *e = uvcci_net_alloc(n, sizeof *e);
    if (e == NULL)
        return UVCC_ERR_NOMEM;
    *e = (uvcci_endpoint){.net = n, .sid_tag = sid_tag, .me = me, .datagram = datagram, .tls = tls};
    for (uint8_t p = 0; p < UVCC_PARTIES; p++)
        e->ch[p] = (uvcci_channel){.e = e, .peer = p, .retry_at = UVCC_NEVER};
    const int rc = uvcc_demux_add(n->demux, sid_tag, e);
    if (rc != 0) {
        uvcci_net_give(n, e, sizeof *e);
        return rc;
    }
    e->next = n->endpoints;
    if (e->next != NULL)
        e->next->prev = e;
    n->endpoints = e;
    *out = e;
    return 0;
}

/* The peer of the lower index is called. */
static int open_channel(uvcci_channel *ch, const char *address) {
    int rc = 0;
    ch->dials = !ch->e->datagram && ch->peer < ch->e->me;
    if (address != NULL)
        rc = read_address(ch, address);
    else if (ch->dials || ch->e->datagram) {
        uvcci_net_log(ch->e->net, UVCC_LOG_ERROR,
                      "the address of party %u is missing: party %u calls it", ch->peer, ch->e->me);
        rc = UVCC_ERR_CONFIG;
    }
    if (rc == 0 && ch->dials)
        ch->retry_at = 0;
    return rc;
}

/* tell: the session or link is still the host's, and hears that its connections are gone. */
static void drop_endpoint(uvcci_endpoint *e, bool tell) {
    uvcc_net *n = e->net;
    (void)uvcc_demux_remove(n->demux, e->sid_tag);
    e->removed = true;
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        uvcci_channel *ch = &e->ch[p];
        const bool up = ch->conn != NULL && ch->conn->state == UVCCI_CONN_UP;
        if (ch->waiting != NULL)
            uvcci_conn_free(ch->waiting);
        if (ch->conn != NULL)
            uvcci_conn_leave(ch->conn);
        ch->waiting = ch->conn = NULL;
        ch->holding = false;
        ch->retry_at = UVCC_NEVER;
        if (up && tell)
            uvcci_endpoint_down(e, ch->peer);
    }
    if (!n->in_turn)
        endpoint_free(e);
}

static uvcci_endpoint *endpoint_of(const uvcc_net *n, const void *which) {
    if (n == NULL || which == NULL)
        return NULL;
    for (uvcci_endpoint *e = n->endpoints; e != NULL; e = e->next)
        if (!e->removed && (e->s == which || e->l == which))
            return e;
    return NULL;
}

/* It may listen later, so it is no error. */
static void nobody_can_call(const uvcci_endpoint *e) {
    uvcc_net *n = e->net;
    if (e->datagram && n->packets == NULL)
        uvcci_net_log(n, UVCC_LOG_WARN,
                      "party %u: packets neither come nor go before uvcc_net_listen(udp:...)",
                      e->me);
    else if (!e->datagram && e->me != UVCC_PARTIES - 1 && n->listeners == NULL)
        uvcci_net_log(n, UVCC_LOG_WARN,
                      "party %u: a peer of a higher index cannot call before uvcc_net_listen()",
                      e->me);
}

/* Where one peer's address is udp:, all are: the others' are refused by read_address(). */
static bool wants_packets(const uvcc_net_session *how) {
    bool any = false;
    for (uint8_t p = 0; p < UVCC_PARTIES; p++)
        any |=
            p != how->party && how->address[p] != NULL && strncmp(how->address[p], "udp:", 4) == 0;
    return any;
}

int uvcc_net_add(uvcc_net *n, uvcc_session *s, const uvcc_net_session *how) {
    uvcci_endpoint *e = NULL;
    if (n == NULL || s == NULL || how == NULL || how->size != sizeof *how ||
        how->party >= UVCC_PARTIES)
        return UVCC_ERR_USAGE;
    if (wants_packets(how) && how->tls != NULL) {
        uvcci_net_log(n, UVCC_LOG_ERROR, "party %u: %s", how->party, NO_TLS);
        return UVCC_ERR_CONFIG;
    }
    n->now = uvcc_host_now_ns();
    int rc = endpoint_new(&e, n, uvcc_session_sid_tag(s), how->party, wants_packets(how), how->tls);
    if (rc != 0)
        return rc;
    e->s = s;
    e->how = *how;
    for (uint8_t p = 0; p < UVCC_PARTIES && rc == 0; p++)
        if (p != how->party)
            rc = open_channel(&e->ch[p], how->address[p]);
    if (rc == 0)
        nobody_can_call(e);
    if (rc != 0)
        drop_endpoint(e, false);
    else
        n->again = true;
    return rc;
}

int uvcc_net_add_link(uvcc_net *n, uvcc_link *l, const uvcc_net_link *how) {
    uvcci_endpoint *e = NULL;
    if (n == NULL || l == NULL || how == NULL || how->size != sizeof *how ||
        how->me >= UVCC_PARTIES || how->peer >= UVCC_PARTIES || how->me == how->peer)
        return UVCC_ERR_USAGE;
    n->now = uvcc_host_now_ns();
    int rc = endpoint_new(&e, n, how->sid_tag, how->me, how->datagram, how->tls);
    if (rc != 0)
        return rc;
    e->l = l;
    e->how_link = *how;
    rc = open_channel(&e->ch[how->peer], how->address);
    if (rc != 0)
        drop_endpoint(e, false);
    else
        n->again = true;
    return rc;
}

static int remove_it(uvcc_net *n, const void *which) {
    if (n == NULL || which == NULL)
        return UVCC_ERR_USAGE;
    uvcci_endpoint *e = endpoint_of(n, which);
    if (e == NULL)
        return UVCC_ERR_NOT_FOUND;
    n->now = uvcc_host_now_ns();
    drop_endpoint(e, true);
    return 0;
}

int uvcc_net_remove(uvcc_net *n, uvcc_session *s) {
    return remove_it(n, s);
}

int uvcc_net_remove_link(uvcc_net *n, uvcc_link *l) {
    return remove_it(n, l);
}

int uvcc_net_set_peer(uvcc_net *n, uvcc_session *s, uint8_t peer, const char *address) {
    uvcci_endpoint *e = endpoint_of(n, s);
    if (n == NULL || s == NULL || address == NULL || peer >= UVCC_PARTIES)
        return UVCC_ERR_USAGE;
    if (e == NULL)
        return UVCC_ERR_NOT_FOUND;
    return peer == e->me ? UVCC_ERR_USAGE : read_address(&e->ch[peer], address);
}

/* ---- the turn ---- */

/* Who wakes after the read finds `woken` still set and writes nothing, but what he wakes for is
 * there when sessions are asked, later in this turn. */
static void drain_wake(uvcc_net *n) {
    uint64_t count;
    n->stats.syscalls++;
    (void)!read(n->wake.fd, &count, sizeof count);
    atomic_store(&n->woken, false);
    n->wake.ready = 0;
}

/* As many as were queued when the turn began: what is queued on the way waits for the next one.
 * They are counted, for any of them may be freed before its place in the queue comes. */
static bool handle_ready(uvcc_net *n) {
    size_t count = 0;
    bool any = false;
    for (uvcci_endpoint *e = n->endpoints; e != NULL && uvcci_side_jobs_first(n); e = e->next)
        any |= uvcci_endpoint_ahead(e);
    if (uvcci_side_is_on(n))
        uvcci_side_ready(n);
    for (const uvcci_source *s = n->io.first; s != NULL; s = s->next_ready)
        count++;
    any |= count != 0;
    while (count-- != 0) {
        uvcci_source *src = uvcci_io_next(&n->io);
        if (src == NULL)
            break;
        switch (src->kind) {
        case UVCCI_SOURCE_WAKE:
            drain_wake(n);
            break;
        case UVCCI_SOURCE_LISTENER:
            uvcci_conn_accept(n, src->owner);
            break;
        case UVCCI_SOURCE_STREAM:
            uvcci_conn_ready(src->owner);
            break;
        case UVCCI_SOURCE_PACKETS:
            uvcci_packets_ready(src->owner);
            break;
        default:
            break;
        }
    }
    return any;
}

/* One that ends another's life begins anew, for it may have been the next. */
static void handle_late(uvcc_net *n) {
    for (uvcci_listener *l = n->listeners; l != NULL; l = l->next)
        if (l->retry_at <= n->now)
            uvcci_conn_accept(n, l);
    for (uvcci_conn *c = n->conns; c != NULL;) {
        uvcci_conn *next = c->next;
        if (c->deadline <= n->now) {
            uvcci_conn_late(c);
            next = n->conns;
        }
        c = next;
    }
    for (uvcci_endpoint *e = n->endpoints; e != NULL; e = e->next)
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            if (e->ch[p].retry_at <= n->now && e->ch[p].conn == NULL && !e->closed && !e->removed)
                uvcci_channel_dial(&e->ch[p]);
}

/* Who is first moves on with every turn: the first goes to the end. */
static void rotate(uvcc_net *n) {
    uvcci_endpoint *first = n->endpoints, *last = first;
    if (first == NULL || first->next == NULL)
        return;
    while (last->next != NULL)
        last = last->next;
    n->endpoints = first->next;
    n->endpoints->prev = NULL;
    last->next = first;
    first->prev = last;
    first->next = NULL;
}

static void handle_endpoints(uvcc_net *n) {
    uvcci_endpoint *next;
    for (uvcci_endpoint *e = n->endpoints; e != NULL; e = e->next)
        uvcci_endpoint_turn(e);
    for (uvcci_endpoint *e = n->endpoints; e != NULL; e = next) {
        next = e->next;
        if (e->removed)
            endpoint_free(e);
    }
    rotate(n);
}

/* Looks for a while before it sleeps, if the host says so. A look takes longer where others want
 * the processor, and that is time that has passed too. */
static int wait_ready(uvcc_net *n, uint64_t timeout_ns) {
    const uint64_t look = least(n->cfg.look_ns, timeout_ns);
    const uint64_t from = look != 0 ? uvcc_host_now_ns() : 0;
    uint64_t passed = 0;
    for (; passed < look; passed = uvcc_host_now_ns() - from) {
        const int rc = n->io.ops->wait(&n->io, 0);
        if (rc != 0 || n->io.first != NULL)
            return rc;
        (void)sched_yield();
    }
    if (timeout_ns != UVCC_NEVER)
        timeout_ns -= least(passed, timeout_ns);
    return n->io.ops->wait(&n->io, timeout_ns);
}

static int turn(uvcc_net *n, uint64_t timeout_ns) {
    if (n->in_turn)
        return UVCC_ERR_STATE;
    n->in_turn = true;
    n->again = false;
    n->error = 0;
    const int rc = wait_ready(n, timeout_ns);
    n->now = uvcc_host_now_ns();
    bool any = handle_ready(n);
    handle_late(n);
    handle_endpoints(n);
    uvcci_packets_flush_all(n);
    if (n->io.ops->flush != NULL)
        n->io.ops->flush(&n->io);
    any |= n->again;
    n->in_turn = false;
    const int said = rc != 0 ? rc : n->error != 0 ? n->error : any;
    if (n->free_after)
        uvcc_net_free(n);
    return said;
}

int uvcc_net_turn(uvcc_net *n) {
    return n == NULL ? UVCC_ERR_USAGE : turn(n, 0);
}

int uvcc_net_wait(uvcc_net *n, uint64_t until) {
    if (n == NULL)
        return UVCC_ERR_USAGE;
    const uint64_t next = uvcc_net_deadline(n), now = uvcc_host_now_ns();
    if (next < until)
        until = next;
    return turn(n, until == UVCC_NEVER ? UVCC_NEVER : until > now ? until - now : 0);
}

int uvcc_net_fd(const uvcc_net *n) {
    return n == NULL ? UVCC_ERR_USAGE : n->io.ops->fd(&n->io);
}

uint64_t uvcc_net_deadline(const uvcc_net *n) {
    if (n == NULL)
        return UVCC_NEVER;
    if (n->again || n->io.first != NULL)
        return 0;
    uint64_t at = UVCC_NEVER;
    for (const uvcci_listener *l = n->listeners; l != NULL; l = l->next)
        at = least(at, l->retry_at);
    for (const uvcci_conn *c = n->conns; c != NULL; c = c->next)
        at = least(at, c->deadline);
    for (const uvcci_endpoint *e = n->endpoints; e != NULL; e = e->next) {
        at = least(at, uvcci_endpoint_deadline(e));
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            at = least(at, e->ch[p].retry_at);
    }
    return at;
}

int uvcc_net_timeout_ms(const uvcc_net *n) {
    if (n == NULL)
        return UVCC_ERR_USAGE;
    const uint64_t at = uvcc_net_deadline(n), now = uvcc_host_now_ns();
    if (at == UVCC_NEVER)
        return -1;
    const uint64_t ms = at > now ? (at - now + NS_PER_MS - 1) / NS_PER_MS : 0;
    return ms < 1u << 30 ? (int)ms : 1 << 30;
}

void uvcc_net_wake(void *net) {
    uvcc_net *n = net;
    const uint64_t one = 1;
    const int was = errno;
    if (n != NULL && !atomic_exchange(&n->woken, true) && write(n->wake.fd, &one, sizeof one) < 0)
        errno = was; /* not in fact: the count is never full */
}

/* ---- inspection ---- */

void uvcc_net_get_stats(const uvcc_net *n, uvcc_net_stats *out) {
    if (n == NULL || out == NULL)
        return;
    *out = n->stats;
    out->syscalls += n->io.syscalls;
    out->sessions = out->links = out->pending = 0;
    for (const uvcci_endpoint *e = n->endpoints; e != NULL; e = e->next) {
        out->sessions += e->s != NULL && !e->removed;
        out->links += e->l != NULL && !e->removed;
    }
    for (const uvcci_conn *c = n->conns; c != NULL; c = c->next)
        out->pending += c->accepted && c->ch == NULL && c->state != UVCCI_CONN_LEAVING;
}

/* heard, rtt_ns: of packets; streams are asked themselves. */
static void channel_info(const uvcci_channel *ch, bool heard, uint64_t rtt_ns, uvcc_net_peer *out) {
    const bool up = ch->conn != NULL && ch->conn->state == UVCCI_CONN_UP;
    *out = (uvcc_net_peer){.size = sizeof *out,
                           .connected = up || heard,
                           .dials = ch->dials,
                           .tls = up && ch->conn->tls != NULL,
                           .attempts = ch->attempts,
                           .retry_at = ch->retry_at,
                           .rtt_ns = up ? uvcci_socket_rtt(ch->conn->src.fd) : rtt_ns};
    if (up || ch->has_address)
        uvcci_address_format(up ? &ch->conn->other : &ch->address, out->address);
    memcpy(out->why, ch->why, sizeof out->why);
}

int uvcc_net_refused(const uvcc_net *n, uvcc_net_refusal *out) {
    if (n == NULL || out == NULL || out->size != sizeof *out)
        return UVCC_ERR_USAGE;
    *out = n->refusal;
    out->size = sizeof *out;
    return 0;
}

int uvcc_net_peer_info(const uvcc_net *n, const uvcc_session *s, uint8_t peer, uvcc_net_peer *out) {
    if (n == NULL || s == NULL || out == NULL || peer >= UVCC_PARTIES || out->size != sizeof *out)
        return UVCC_ERR_USAGE;
    const uvcci_endpoint *e = endpoint_of(n, s);
    if (e == NULL)
        return UVCC_ERR_NOT_FOUND;
    if (peer == e->me)
        return UVCC_ERR_USAGE;
    uvcc_peer_info heard = {.size = sizeof heard};
    if (e->datagram && uvcc_session_peer_info(s, peer, &heard) != 0)
        heard.connected = false;
    channel_info(&e->ch[peer], heard.connected, heard.srtt_ns, out);
    return 0;
}

int uvcc_net_link_info(const uvcc_net *n, const uvcc_link *l, uvcc_net_peer *out) {
    if (n == NULL || l == NULL || out == NULL || out->size != sizeof *out)
        return UVCC_ERR_USAGE;
    const uvcci_endpoint *e = endpoint_of(n, l);
    if (e == NULL)
        return UVCC_ERR_NOT_FOUND;
    uvcc_link_stats st = {0};
    if (e->datagram)
        uvcc_link_get_stats(l, &st);
    channel_info(&e->ch[e->how_link.peer], st.frames_rx != 0, st.srtt_ns, out);
    return 0;
}
