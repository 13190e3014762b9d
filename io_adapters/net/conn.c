/* SPDX-License-Identifier: Apache-2.0 */
/* conn.c - a connection's life: dialled or accepted, TLS, the call, frames, the end.
 *
 *     dialled:   CONNECTING -> (TLS) -> CALLING -> UP
 *     accepted:  (TLS) -> CALLED -> UP, or WAITING for the place of a connection that may be dead
 *     both:      UP -> LEAVING when the session goes before the connection does
 *
 * Who calls proves nothing without TLS, so a call does not push a living connection out: it waits
 * for TAKEOVER_NS. If the present one brought in that time what only the peer can have sent, it
 * lives; if it is idle the other end's kernel is asked, which speaks for it until nothing came for
 * idle_ns (what stands between may answer for a peer that is gone). Where a connection never
 * brought such, anybody may sit, and the newest call has the place at once: a handshake goes on
 * over every connection that it gets, so who calls all the time slows it down and does not end it.
 * With TLS the caller is who it says, and its newest connection counts. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io_adapters/net/core.h"

#define NS_PER_MS       1000000u
#define TAKEOVER_NS     2000000000u /* longer than TCP_KEEPIDLE can be short */
#define LEAVE_NS        5000000000u
#define ACCEPT_AGAIN_NS 100000000u /* when no descriptor is left */
#define ACCEPTS_A_TURN  64
#define TLS_HANDSHAKE   0x16 /* the first byte of TLS, and of no call */
#define RAW_READS       4u /* of what TLS keeps for itself, such as new keys, before others' turn */
#define LARGE_BYTES     16384u /* of a frame: it is worth a read of its own */
#define BEHIND_BYTES    256u   /* what is read with the rest of one: the next header, an ACK */
#define LARGE_READS     4  /* so many that are not of a large frame, and there is none any more */
#define INBOX_READS     16 /* the same of an inbox, which takes what there is, ACKs alone too */

static uint64_t after(const uvcc_net *n, uint64_t ns) {
    return n->now > UVCC_NEVER - 1 - ns ? UVCC_NEVER - 1 : n->now + ns;
}

/* ---- bytes ---- */

/* The system's errors and ours share numbers: TLS sees ours, and which it was stands in the
 * connection. */
static ptrdiff_t tls_error(uvcci_conn *c, ptrdiff_t rc) {
    if (rc >= 0 || rc == UVCC_ERR_AGAIN)
        return rc;
    c->gone = (int)-rc;
    return UVCC_ERR_CLOSED;
}

static ptrdiff_t tls_recv(void *user, uint8_t *bytes, size_t cap) {
    uvcci_conn *c = user;
    const struct iovec iov = {.iov_base = bytes, .iov_len = cap};
    if ((c->src.ready & UVCCI_READ) == 0 || c->raw_reads == RAW_READS)
        return UVCC_ERR_AGAIN;
    c->raw_reads++;
    return tls_error(c, c->net->io.ops->read(&c->net->io, &c->src, &iov, 1));
}

static ptrdiff_t tls_send(void *user, const uint8_t *bytes, size_t len) {
    uvcci_conn *c = user;
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    if ((c->src.ready & UVCCI_WRITE) == 0)
        return UVCC_ERR_AGAIN;
    return tls_error(c, c->net->io.ops->write(&c->net->io, &c->src, &iov, 1));
}

static ptrdiff_t conn_read(uvcci_conn *c, const struct iovec *iov, int count) {
    if (c->tls != NULL) {
        c->raw_reads = 0;
        return uvcci_tls_recv(c->tls, iov[0].iov_base, iov[0].iov_len);
    }
    if ((c->src.ready & UVCCI_READ) == 0)
        return UVCC_ERR_AGAIN;
    return c->net->io.ops->read(&c->net->io, &c->src, iov, count);
}

int uvcci_conn_iov(struct iovec iov[UVCC_TRANSMIT_SLICES_MAX], const uvcc_slice *slices,
                   uint32_t count, size_t skip) {
    int n = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (skip >= slices[i].len) {
            skip -= slices[i].len;
            continue;
        }
        iov[n++] = (struct iovec){.iov_base = (void *)(uintptr_t)(slices[i].data + skip),
                                  .iov_len = slices[i].len - skip};
        skip = 0;
    }
    return n;
}

ptrdiff_t uvcci_conn_write(uvcci_conn *c, const uvcc_slice *slices, uint32_t count, size_t skip) {
    struct iovec iov[UVCC_TRANSMIT_SLICES_MAX];
    if (c->tls != NULL)
        return uvcci_tls_send(c->tls, slices, count, skip);
    if (c->has_out) {
        c->has_out = false;
        return c->out;
    }
    if ((c->src.ready & UVCCI_WRITE) == 0)
        return UVCC_ERR_AGAIN;
    const int n = uvcci_conn_iov(iov, slices, count, skip);
    return n == 0 ? 0 : c->net->io.ops->write(&c->net->io, &c->src, iov, n);
}

const char *uvcci_conn_why(const uvcci_conn *c, ptrdiff_t rc) {
    if (c->tls == NULL)
        return strerror((int)-rc);
    return c->gone != 0 ? strerror(c->gone) : uvcci_tls_why(c->tls);
}

static bool has_bytes(const uvcci_conn *c) {
    return c->has_in || (c->src.ready & UVCCI_READ) != 0 ||
           (c->tls != NULL && uvcci_tls_pending(c->tls) != 0);
}

/* ---- beginning and end ---- */

static uvcci_conn *conn_new(uvcc_net *n, int fd, const uvcci_address *other, uvcc_tls *tls) {
    uvcci_conn *c = uvcci_net_alloc(n, sizeof *c);
    if (c == NULL)
        return NULL;
    *c = (uvcci_conn){.src = {.fd = fd, .kind = UVCCI_SOURCE_STREAM},
                      .net = n,
                      .tls_wanted = tls,
                      .deadline = after(n, n->cfg.call_ns),
                      .other = *other};
    c->src.owner = c;
    if (n->io.ops->add(&n->io, &c->src) != 0) {
        uvcci_net_give(n, c, sizeof *c);
        return NULL;
    }
    c->next = n->conns;
    if (c->next != NULL)
        c->next->prev = c;
    n->conns = c;
    n->stats.connections++;
    return c;
}

void uvcci_conn_free(uvcci_conn *c) {
    uvcc_net *n = c->net;
    uvcci_io_forget(&n->io, &c->src);
    n->io.ops->remove(&n->io, &c->src);
    uvcci_tls_free(c->tls);
    (void)close(c->src.fd);
    uvcci_net_give(n, c->inbox, UVCCI_INBOX_BYTES);
    if (c->prev != NULL)
        c->prev->next = c->next;
    else
        n->conns = c->next;
    if (c->next != NULL)
        c->next->prev = c->prev;
    n->stats.connections--;
    uvcci_net_give(n, c, sizeof *c);
}

/* Half of the wait is jitter, so that who lost one network does not come back at one time. */
static uint64_t back_off(uvcc_net *n, uint32_t attempts) {
    uint64_t wait = n->cfg.retry_min_ns, dice = 0;
    for (uint32_t i = 1; i < attempts && wait < n->cfg.retry_max_ns; i++)
        wait *= 2;
    if (wait > n->cfg.retry_max_ns)
        wait = n->cfg.retry_max_ns;
    if (n->cfg.random.fill(n->cfg.random.user, &dice, sizeof dice) != 0)
        dice = 0;
    return wait / 2 + dice % (wait / 2 + 1);
}

static void dial_later(uvcci_channel *ch) {
    if (!ch->dials || ch->e->closed || ch->e->removed)
        return;
    ch->attempts++;
    ch->retry_at = after(ch->e->net, back_off(ch->e->net, ch->attempts));
}

static void note_why(uvcci_channel *ch, const char *why) {
    (void)snprintf(ch->why, sizeof ch->why, "%s", why);
}

static void conn_up(uvcci_conn *c);

/* A connection that waited for this place has it now. */
static void next_in_line(uvcci_channel *ch) {
    uvcci_conn *w = ch->waiting;
    ch->waiting = NULL;
    if (w == NULL)
        return;
    ch->conn = w;
    conn_up(w);
}

/* Something came over it that only the peer can have sent. */
static bool proved(const uvcci_conn *c) {
    const uint64_t heard = uvcci_endpoint_heard(c->ch->e, c->ch->peer);
    return heard != UVCC_NEVER && heard >= c->up_at;
}

/* Who calls is answered by nobody when the called end takes the call for something else: it hears
 * that the connection is gone, and no reason. */
static const char *maybe(const uvcci_conn *c) {
    if (c->accepted || c->ch == NULL)
        return "";
    if (c->state == UVCCI_CONN_TLS)
        return c->gone != 0 ? ": the other end may have no TLS; its own line says why" : "";
    if (c->state != UVCCI_CONN_CALLING && (c->state != UVCCI_CONN_UP || proved(c)))
        return "";
    return c->tls != NULL
               ? ", before it said anything of this job: another job.name there? Its own "
                 "line says why"
               : ", before it said anything of this job: another job.name there, or "
                 "TLS at that end alone? Its own line says why";
}

static void note_refusal(uvcc_net *n, const char *other, const char *why) {
    n->refusal.count++;
    (void)snprintf(n->refusal.address, sizeof n->refusal.address, "%s", other);
    (void)snprintf(n->refusal.why, sizeof n->refusal.why, "%s", why);
}

void uvcci_conn_lost(uvcci_conn *c, const char *fmt, ...) {
    uvcc_net *n = c->net;
    uvcci_channel *ch = c->ch;
    const bool up = c->state == UVCCI_CONN_UP, leaving = c->state == UVCCI_CONN_LEAVING;
    char why[UVCCI_WHY_BYTES], other[UVCC_NET_ADDRESS_BYTES];
    va_list ap;
    va_start(ap, fmt);
    const int len = vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    if (len >= 0 && (size_t)len < sizeof why)
        (void)snprintf(why + len, sizeof why - (size_t)len, "%s", maybe(c));
    uvcci_address_format(&c->other, other);
    if (up) {
        n->stats.connections_lost++;
        uvcci_net_log(n, UVCC_LOG_INFO, "party %u: the connection to party %u (%s) ended: %s",
                      ch->e->me, ch->peer, other, why);
    } else if (ch != NULL && ch->conn == c) {
        uvcci_net_log(n, ch->attempts == 0 ? UVCC_LOG_WARN : UVCC_LOG_DEBUG,
                      "party %u: no connection to party %u (%s): %s", ch->e->me, ch->peer, other,
                      why);
    } else if (!leaving) {
        n->stats.refused++;
        if (ch == NULL)
            note_refusal(n, other, why);
        uvcci_net_log(n, UVCC_LOG_WARN, "a connection from %s was refused: %s", other, why);
    }
    uvcci_conn_free(c);
    if (ch == NULL)
        return;
    if (ch->waiting == c) {
        ch->waiting = NULL;
        uvcci_socket_tune(n, ch->conn->src.fd, &ch->conn->other);
        return;
    }
    ch->conn = NULL;
    ch->holding = false;
    note_why(ch, why);
    dial_later(ch);
    if (up)
        uvcci_endpoint_down(ch->e, ch->peer);
    next_in_line(ch);
}

void uvcci_conn_leave(uvcci_conn *c) {
    uvcci_io *io = &c->net->io;
    if (c->state != UVCCI_CONN_UP) {
        uvcci_conn_free(c);
        return;
    }
    if (c->tls != NULL)
        uvcci_tls_close(c->tls);
    else if (io->ops->settle != NULL) /* what it may be sending is the session's memory */
        io->ops->settle(io, &c->src);
    (void)shutdown(c->src.fd, SHUT_WR);
    c->state = UVCCI_CONN_LEAVING;
    c->ch = NULL;
    c->deadline = after(c->net, LEAVE_NS);
    uvcci_io_queue(&c->net->io, &c->src);
}

/* ---- up ---- */

/* What a silent peer may take to be heard over a connection: no less than until its end lets the
 * one go that it has. */
static uint64_t patience(const uvcc_net *n) {
    return n->cfg.idle_ns > 2 * TAKEOVER_NS ? n->cfg.idle_ns : 2 * TAKEOVER_NS;
}

static void conn_up(uvcci_conn *c) {
    uvcci_channel *ch = c->ch;
    uint8_t binding[32];
    char other[UVCC_NET_ADDRESS_BYTES];
    if (c->tls != NULL && uvcci_tls_binding(c->tls, binding) != 0) {
        uvcci_conn_lost(c, "TLS gives no channel binding");
        return;
    }
    c->state = UVCCI_CONN_UP;
    c->deadline = UVCC_NEVER;
    if (ch->silent && ch->dials)
        c->deadline = after(c->net, patience(c->net));
    c->up_at = c->net->now;
    ch->retry_at = UVCC_NEVER;
    ch->holding = false;
    uvcci_address_format(&c->other, other);
    uvcci_net_log(c->net, UVCC_LOG_INFO, "party %u: connected to party %u (%s)%s", ch->e->me,
                  ch->peer, other, c->tls != NULL ? ", TLS" : "");
    uvcci_endpoint_up(ch->e, ch->peer, c->tls != NULL ? binding : NULL);
    uvcci_io_queue(&c->net->io, &c->src); /* frames may have come with the call */
}

/* ---- calls that come ---- */

/* A newer call takes over how long an older one has waited, so that nobody begins the wait anew. */
static void place_conn(uvcci_conn *c, uvcci_channel *ch) {
    c->ch = ch;
    if (ch->conn == NULL) {
        ch->conn = c;
        conn_up(c);
        return;
    }
    c->called_at = c->net->now;
    c->deadline = after(c->net, TAKEOVER_NS);
    if (ch->waiting != NULL) {
        c->called_at = ch->waiting->called_at;
        c->deadline = ch->waiting->deadline;
        uvcci_conn_lost(ch->waiting, "a newer call came");
    }
    ch->waiting = c;
    if (c->tls != NULL || !proved(ch->conn)) {
        uvcci_conn_lost(ch->conn, "the peer called anew");
        return;
    }
    c->state = UVCCI_CONN_WAITING;
    uvcci_socket_ask(ch->conn->src.fd, &ch->conn->other);
}

/* Exactly the call is read: what follows is the session's. */
static bool read_call(uvcci_conn *c) {
    while (c->call_len < UVCC_CALL_BYTES) {
        const struct iovec iov = {.iov_base = c->call + c->call_len,
                                  .iov_len = UVCC_CALL_BYTES - c->call_len};
        const ptrdiff_t n = conn_read(c, &iov, 1);
        if (n == UVCC_ERR_AGAIN)
            return false;
        if (n <= 0) {
            uvcci_conn_lost(c, "it ended before it called");
            return false;
        }
        c->call_len += (size_t)n;
        if (uvcc_call_may_be(c->call, c->call_len) != 0) {
            uvcci_conn_lost(c, c->tls == NULL && c->call[0] == TLS_HANDSHAKE
                                   ? "it begins TLS, which this end does not use: \"tls\" is for "
                                     "both ends, or for none"
                                   : "what it says is no call");
            return false;
        }
    }
    return true;
}

static void on_call(uvcci_conn *c) {
    uvcc_call call;
    if (!read_call(c))
        return;
    c->net->stats.bytes_rx += UVCC_CALL_BYTES;
    if (uvcc_call_decode(c->call, &call) != 0) {
        uvcci_conn_lost(c, "what it says is no call");
        return;
    }
    uvcci_endpoint *e = uvcc_demux_find(c->net->demux, call.sid_tag);
    if (e == NULL || e->removed || e->closed || e->datagram) {
        uvcci_conn_lost(c, "it calls a session that is not here: one of another job.name, of a "
                           "worker that does not run here, or one that has ended");
        return;
    }
    if (e->tls != NULL && c->tls == NULL) {
        uvcci_conn_lost(c, "it calls without TLS a session that has it: is that another "
                           "listener's address, as that of clients?");
        return;
    }
    if (call.to != e->me || call.from < call.to) {
        uvcci_conn_lost(c, "party %u does not call party %u here", call.from, call.to);
        return;
    }
    if (c->tls != NULL && uvcci_tls_peer(c->tls) != call.from) {
        uvcci_conn_lost(c, "it calls as party %u, and TLS shows party %u", call.from,
                        uvcci_tls_peer(c->tls));
        return;
    }
    if (e->l != NULL && call.from != e->how_link.peer) {
        uvcci_conn_lost(c, "party %u is not this link's peer", call.from);
        return;
    }
    place_conn(c, &e->ch[call.from]);
}

static bool is_pending(const uvcci_conn *c) {
    return c->accepted && c->ch == NULL && c->state != UVCCI_CONN_LEAVING;
}

/* When too many wait, the one that has waited longest goes: a caller that is slow comes again. A
 * host that has a quarter of the places already gives one of its own, so that a flood from one host
 * keeps no other out. */
static void make_room(uvcc_net *n, const uvcci_address *newcomer) {
    uvcci_conn *oldest = NULL, *own = NULL;
    uint32_t pending = 0, owns = 0;
    for (uvcci_conn *c = n->conns; c != NULL; c = c->next) {
        if (!is_pending(c))
            continue;
        pending++;
        if (oldest == NULL || c->deadline < oldest->deadline)
            oldest = c;
        if (!uvcci_address_same_host(&c->other, newcomer))
            continue;
        owns++;
        if (own == NULL || c->deadline < own->deadline)
            own = c;
    }
    if (pending >= n->cfg.pending_max)
        uvcci_conn_lost(owns > n->cfg.pending_max / 4 ? own : oldest,
                        "too many connections that do not call");
}

void uvcci_conn_accept(uvcc_net *n, uvcci_listener *at) {
    at->retry_at = UVCC_NEVER;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        uvcci_address other = {.kind = at->address.kind, .len = sizeof other.sa};
        n->stats.syscalls++;
        const int fd = accept4(at->src.fd, (struct sockaddr *)&other.sa, &other.len,
                               SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            at->src.ready &= (uint8_t)~UVCCI_READ;
            if (errno != EAGAIN && errno != EWOULDBLOCK) {
                uvcci_net_log(n, UVCC_LOG_WARN, "a connection cannot be accepted: %s",
                              strerror(errno));
                at->retry_at = after(n, ACCEPT_AGAIN_NS);
            }
            return;
        }
        make_room(n, &other);
        uvcci_socket_tune(n, fd, &other);
        uvcci_conn *c = conn_new(n, fd, &other, at->tls);
        if (c == NULL) {
            (void)close(fd);
            continue;
        }
        n->stats.accepts++;
        c->accepted = true;
        c->state = at->tls != NULL ? UVCCI_CONN_TLS : UVCCI_CONN_CALLED;
    }
    uvcci_io_ready(&n->io, &at->src, UVCCI_READ);
}

/* ---- dialling ---- */

void uvcci_channel_dial(uvcci_channel *ch) {
    uvcc_net *n = ch->e->net;
    ch->retry_at = UVCC_NEVER;
    n->stats.dials++;
    n->stats.syscalls += 2;
    const int fd = uvcci_socket_dial(n, &ch->address);
    uvcci_conn *c = fd >= 0 ? conn_new(n, fd, &ch->address, ch->e->tls) : NULL;
    if (c == NULL) {
        note_why(ch, fd < 0 ? strerror(-fd) : "out of memory or descriptors");
        uvcci_net_log(n, ch->attempts == 0 ? UVCC_LOG_WARN : UVCC_LOG_DEBUG,
                      "party %u: no connection to party %u: %s", ch->e->me, ch->peer, ch->why);
        if (fd >= 0)
            (void)close(fd);
        dial_later(ch);
        return;
    }
    c->state = UVCCI_CONN_CONNECTING;
    c->ch = ch;
    ch->conn = c;
}

static void on_connected(uvcci_conn *c) {
    int error = 0;
    socklen_t len = sizeof error;
    if ((c->src.ready & UVCCI_WRITE) == 0)
        return;
    if (getsockopt(c->src.fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    if (error != 0) {
        uvcci_conn_lost(c, "%s", strerror(error));
        return;
    }
    c->state = c->tls_wanted != NULL ? UVCCI_CONN_TLS : UVCCI_CONN_CALLING;
}

static void on_handshake(uvcci_conn *c) {
    const uvcci_tls_io io = {.recv = tls_recv, .send = tls_send, .user = c};
    int rc = 0;
    if (c->tls == NULL)
        rc = uvcci_tls_open(&c->tls, c->tls_wanted, c->accepted,
                            c->accepted ? UVCC_PARTIES : c->ch->peer, &io);
    c->raw_reads = 0;
    if (rc == 0)
        rc = uvcci_tls_handshake(c->tls);
    if (rc == 0 && c->raw_reads == RAW_READS)
        uvcci_io_queue(&c->net->io, &c->src);
    if (rc < 0 && c->tls != NULL)
        (void)uvcci_tls_flush(c->tls); /* the alert that says it to the other end */
    if (rc < 0)
        uvcci_conn_lost(c, "TLS: %s", c->tls != NULL ? uvcci_conn_why(c, rc) : uvcc_error_text(rc));
    else if (rc == 1)
        c->state = c->accepted ? UVCCI_CONN_CALLED : UVCCI_CONN_CALLING;
}

static void on_calling(uvcci_conn *c) {
    uvcci_endpoint *e = c->ch->e;
    const uvcc_call call = {.from = e->me, .to = c->ch->peer, .sid_tag = e->sid_tag};
    (void)uvcc_call_encode(c->call, &call);
    const uvcc_slice slice = {.data = c->call, .len = UVCC_CALL_BYTES};
    const ptrdiff_t n = uvcci_conn_write(c, &slice, 1, c->call_len);
    if (n == UVCC_ERR_AGAIN)
        return;
    if (n < 0) {
        uvcci_conn_lost(c, "%s", uvcci_conn_why(c, n));
        return;
    }
    c->call_len += (size_t)n;
    c->net->stats.bytes_tx += (uint64_t)n;
    if (c->call_len == UVCC_CALL_BYTES)
        conn_up(c);
}

/* What stands between can answer for a peer that it does not reach, so that nobody's kernel sees an
 * end: who dials calls a silent peer anew, again and again until it is heard. Its own end sees by
 * that call that the connection which it has may be dead. */
void uvcci_channel_silence(uvcci_channel *ch, bool silent) {
    uvcci_conn *c = ch->conn;
    ch->silent = silent;
    if (!ch->dials || c == NULL || c->state != UVCCI_CONN_UP)
        return;
    c->deadline = UVCC_NEVER;
    if (silent)
        uvcci_conn_lost(c, "the peer is silent: it is called anew");
}

/* ---- frames ---- */

/* What came: first what the session wanted in place, then the rest. 0, or an error of the feed. */
static int take_bytes(uvcci_conn *c, const struct iovec *iov, size_t n) {
    uvcci_channel *ch = c->ch;
    const size_t placed = n < iov[0].iov_len ? n : iov[0].iov_len;
    int rc = 0;
    ch->attempts = 0;
    c->net->stats.bytes_rx += n;
    if (iov[0].iov_base == c->net->scratch)
        return uvcci_endpoint_feed(ch->e, ch->peer, iov[0].iov_base, n);
    rc = uvcci_endpoint_placed(ch->e, ch->peer, placed);
    if (rc == 0 && n > placed)
        rc = uvcci_endpoint_feed(ch->e, ch->peer, iov[1].iov_base, n - placed);
    return rc;
}

/* From a back end that has the bytes already. */
static ptrdiff_t take_view(uvcci_conn *c, int *rc) {
    uvcci_io *io = &c->net->io;
    size_t len = 0;
    ptrdiff_t n = UVCC_ERR_AGAIN;
    const uint8_t *bytes = io->ops->view(io, &c->src, &len, &n);
    if (bytes == NULL)
        return n;
    c->ch->attempts = 0;
    c->net->stats.bytes_rx += len;
    *rc = uvcci_endpoint_feed(c->ch->e, c->ch->peer, bytes, len);
    io->ops->consume(io, &c->src, len);
    return (ptrdiff_t)len;
}

/* What was read side by side with others. */
static ptrdiff_t take_inbox(uvcci_conn *c, int *rc) {
    const ptrdiff_t n = c->in;
    c->has_in = false;
    c->large = n >= (ptrdiff_t)LARGE_BYTES ? INBOX_READS : (uint8_t)(c->large - (c->large != 0));
    if (n <= 0)
        return n;
    c->ch->attempts = 0;
    c->net->stats.bytes_rx += (uint64_t)n;
    *rc = uvcci_endpoint_feed_frames(c->ch->e, c->ch->peer, c->inbox, (size_t)n);
    return n;
}

/* Behind the rest of a large frame stands the header of the next, which says where its payload
 * goes: no more than that is read with it, so that large payloads come straight to their place. */
static ptrdiff_t take_read(uvcci_conn *c, int *rc) {
    uint8_t *to = NULL;
    size_t len = 0;
    const bool placed = uvcci_endpoint_place(c->ch->e, c->ch->peer, &to, &len);
    if (placed && len >= LARGE_BYTES)
        c->large = LARGE_READS;
    const bool large = c->large != 0;
    const struct iovec scratch = {.iov_base = c->net->scratch,
                                  .iov_len = large ? BEHIND_BYTES : UVCCI_SCRATCH_BYTES};
    struct iovec iov[2] = {scratch, scratch};
    if (placed)
        iov[0] = (struct iovec){.iov_base = to, .iov_len = len};
    const ptrdiff_t n = conn_read(c, iov, placed ? 2 : 1);
    c->large -= large;
    if (n > 0)
        *rc = take_bytes(c, iov, (size_t)n);
    return n;
}

static ptrdiff_t take_some(uvcci_conn *c, int *rc) {
    if (c->has_in)
        return take_inbox(c, rc);
    return c->tls == NULL && c->net->io.ops->view != NULL ? take_view(c, rc) : take_read(c, rc);
}

/* At most turn_bytes, or what was read side by side with others: what is left is seen in the next
 * turn, after everybody else. */
static void on_frames(uvcci_conn *c) {
    uvcc_net *n = c->net;
    const size_t most = c->has_in ? 1 : n->cfg.turn_bytes;
    size_t taken = 0;
    while (has_bytes(c) && taken < most) {
        int rc = 0;
        const ptrdiff_t got = take_some(c, &rc);
        if (got == UVCC_ERR_AGAIN)
            break;
        if (got <= 0) {
            uvcci_conn_lost(c, "%s", got == 0 ? "the peer closed it" : uvcci_conn_why(c, got));
            return;
        }
        taken += (size_t)got;
        if (rc == UVCC_ERR_STREAM_BROKEN || rc == UVCC_ERR_NOMEM) {
            uvcci_conn_lost(c, rc == UVCC_ERR_NOMEM
                                   ? "no memory for a frame: it is to come again"
                                   : "what came is no stream of frames of this session");
            return;
        }
    }
    if (has_bytes(c))
        uvcci_io_queue(&n->io, &c->src);
    if (uvcci_side_jobs_first(n))
        uvcci_endpoint_jobs(c->ch->e);
    (void)uvcci_channel_send(c->ch);
}

/* Bytes that nobody wants, so that the other end gets ours instead of a reset. */
static void on_leaving(uvcci_conn *c) {
    const struct iovec iov = {.iov_base = c->net->scratch, .iov_len = UVCCI_SCRATCH_BYTES};
    for (int i = 0; i < 16 && (c->src.ready & UVCCI_READ) != 0; i++) {
        const ptrdiff_t n = c->net->io.ops->read(&c->net->io, &c->src, &iov, 1);
        if (n == 0 || (n < 0 && n != UVCC_ERR_AGAIN)) {
            uvcci_conn_free(c);
            return;
        }
    }
    if ((c->src.ready & UVCCI_READ) != 0)
        uvcci_io_queue(&c->net->io, &c->src);
}

void uvcci_conn_ready(uvcci_conn *c) {
    uvcc_net *n = c->net;
    const uvcci_channel *ch;
    uint8_t before;
    do {
        before = c->state;
        ch = c->ch;
        const uint64_t freed = n->stats.connections;
        switch (before) {
        case UVCCI_CONN_CONNECTING:
            on_connected(c);
            break;
        case UVCCI_CONN_TLS:
            on_handshake(c);
            break;
        case UVCCI_CONN_CALLING:
            on_calling(c);
            break;
        case UVCCI_CONN_CALLED:
            on_call(c);
            break;
        case UVCCI_CONN_UP:
            on_frames(c);
            return;
        case UVCCI_CONN_LEAVING:
            on_leaving(c);
            return;
        default: /* WAITING: what it says is read when it has its place */
            if (c->src.ended)
                uvcci_conn_lost(c, "it ended while it waited");
            return;
        }
        if (n->stats.connections != freed)
            return;
    } while (c->state != before || c->ch != ch);
}

static bool lives(const uvcci_conn *c, uint64_t since) {
    const uint64_t now = c->net->now, heard = uvcci_endpoint_heard(c->ch->e, c->ch->peer);
    return proved(c) && (heard >= since ||
                         (now - heard < c->net->cfg.idle_ns &&
                          uvcci_socket_answers(c->src.fd, &c->other, (now - since) / NS_PER_MS)));
}

void uvcci_conn_late(uvcci_conn *c) {
    uvcci_channel *ch = c->ch;
    if (c->state == UVCCI_CONN_LEAVING) {
        uvcci_conn_free(c);
        return;
    }
    if (c->state == UVCCI_CONN_UP) {
        uvcci_conn_lost(c, "the peer is still silent: it is called anew");
        return;
    }
    if (c->state == UVCCI_CONN_WAITING) {
        if (lives(ch->conn, c->called_at))
            uvcci_conn_lost(c, "the present connection lives");
        else
            uvcci_conn_lost(ch->conn, "the peer called anew, and this one is silent");
        return;
    }
    uvcci_conn_lost(c, c->state == UVCCI_CONN_CONNECTING ? "no answer"
                       : c->state == UVCCI_CONN_TLS      ? "TLS did not shake hands in time"
                       : c->state == UVCCI_CONN_CALLED   ? "it did not call in time"
                                                         : "the call did not go out in time");
}
