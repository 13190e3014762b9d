/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint.c - a session, or a bare link, and what a host's loop does for it (docs/host.md). */
#include <string.h>

#include "io_adapters/net/core.h"

#define ROUNDS_A_TURN 64       /* of jobs that an inline executor runs at once */
#define PENDING_NS    1000000u /* jobs are out: an executor that wakes nobody is asked so often */

/* ---- a session or a link ---- */

int uvcci_endpoint_feed(uvcci_endpoint *e, uint8_t peer, const uint8_t *bytes, size_t len) {
    return e->s != NULL ? uvcc_session_feed(e->s, peer, bytes, len, e->net->now)
                        : uvcc_link_feed(e->l, bytes, len, e->net->now);
}

int uvcci_endpoint_feed_frames(uvcci_endpoint *e, uint8_t peer, const uint8_t *bytes, size_t len) {
    const uvcc_slice all = {.data = bytes, .len = len};
    return e->s != NULL ? uvcc_session_feed_slices(e->s, peer, &all, 1, e->net->now)
                        : uvcc_link_feed_slices(e->l, &all, 1, e->net->now);
}

void uvcci_endpoint_packet(uvcci_endpoint *e, uint8_t peer, const uint8_t *bytes, size_t len,
                           bool ce) {
    if (e->s != NULL)
        (void)uvcc_session_feed_ecn(e->s, peer, bytes, len, ce, e->net->now);
    else
        (void)uvcc_link_feed_ecn(e->l, bytes, len, ce, e->net->now);
}

bool uvcci_endpoint_place(uvcci_endpoint *e, uint8_t peer, uint8_t **to, size_t *len) {
    return e->s != NULL ? uvcc_session_rx_buffer(e->s, peer, to, len) == 1
                        : uvcc_link_rx_buffer(e->l, to, len) == 1;
}

int uvcci_endpoint_placed(uvcci_endpoint *e, uint8_t peer, size_t len) {
    return e->s != NULL ? uvcc_session_rx_filled(e->s, peer, len, e->net->now)
                        : uvcc_link_rx_filled(e->l, len, e->net->now);
}

void uvcci_endpoint_up(uvcci_endpoint *e, uint8_t peer, const uint8_t *binding) {
    if (e->s != NULL)
        (void)uvcc_session_peer_open_bound(e->s, peer, binding, e->net->now);
    else
        uvcc_link_stream_opened(e->l, e->net->now);
}

void uvcci_endpoint_down(uvcci_endpoint *e, uint8_t peer) {
    if (e->s != NULL)
        (void)uvcc_session_peer_closed(e->s, peer, e->net->now);
    else
        uvcc_link_stream_closed(e->l, e->net->now);
}

static int poll_transmit(uvcci_endpoint *e, uvcc_transmit *tx) {
    return e->s != NULL ? uvcc_session_poll_transmit(e->s, tx, e->net->now)
                        : uvcc_link_poll_transmit(e->l, tx, e->net->now);
}

static void transmit_done(uvcci_endpoint *e, const uvcc_transmit *tx, size_t bytes) {
    if (e->s != NULL)
        (void)uvcc_session_transmit_done(e->s, tx->peer, tx->id, bytes, e->net->now);
    else
        (void)uvcc_link_transmit_done(e->l, tx->id, bytes, e->net->now);
}

static void timer(uvcci_endpoint *e) {
    if (e->s != NULL) {
        if (e->net->now >= uvcc_session_next_deadline(e->s))
            (void)uvcc_session_on_timer(e->s, e->net->now);
    } else if (e->net->now >= uvcc_link_next_deadline(e->l)) {
        uvcc_link_on_timer(e->l, e->net->now);
    }
}

uint64_t uvcci_endpoint_deadline(const uvcci_endpoint *e) {
    if (e->error != 0)
        return UVCC_NEVER;
    if (e->s == NULL)
        return uvcc_link_next_deadline(e->l);
    const uint64_t next = uvcc_session_next_deadline(e->s);
    if (e->how.cpu == NULL || uvcc_cpu_pending(e->how.cpu) == 0)
        return next;
    return next < e->net->now + PENDING_NS ? next : e->net->now + PENDING_NS;
}

uint64_t uvcci_endpoint_heard(const uvcci_endpoint *e, uint8_t peer) {
    uvcc_peer_info info = {.size = sizeof info};
    uvcc_link_stats stats;
    if (e->s != NULL)
        return uvcc_session_peer_info(e->s, peer, &info) == 0 ? info.heard_ns : UVCC_NEVER;
    uvcc_link_get_stats(e->l, &stats);
    return stats.heard_ns;
}

/* ---- sending ---- */

/* A transmit stays here until all of it went out, so a socket that is full keeps nobody else
 * waiting: a session offers the other peer's meanwhile. */
bool uvcci_channel_send(uvcci_channel *ch) {
    uvcci_endpoint *e = ch->e;
    uvcci_conn *c = ch->conn;
    if (c == NULL || c->state != UVCCI_CONN_UP)
        return false;
    while (ch->holding && ch->sent < ch->tx.total) {
        const ptrdiff_t n = uvcci_conn_write(c, ch->tx.slices, ch->tx.slice_count, ch->sent);
        if (n == UVCC_ERR_AGAIN)
            return false;
        if (n < 0) {
            uvcci_conn_lost(c, "%s", uvcci_conn_why(c, n));
            return false;
        }
        ch->sent += (size_t)n;
        e->net->stats.bytes_tx += (uint64_t)n;
    }
    if (ch->holding) {
        ch->holding = false;
        transmit_done(e, &ch->tx, ch->tx.total);
    }
    if (c->tls == NULL)
        return true;
    const int rc = uvcci_tls_flush(c->tls);
    if (rc < 0 && rc != UVCC_ERR_AGAIN)
        uvcci_conn_lost(c, "%s", uvcci_conn_why(c, rc));
    return rc == 0;
}

/* A packet is copied into the socket's batch, and has gone as far as the session knows: what a full
 * socket keeps waiting is sent later, and nothing more is asked for meanwhile. */
static bool has_room(const uvcci_endpoint *e) {
    for (const uvcci_packets *p = e->net->packets; p != NULL; p = uvcci_packets_next(p))
        if (!uvcci_packets_room(p))
            return false;
    return true;
}

static void send_packets(uvcci_endpoint *e) {
    uvcc_transmit tx;
    size_t sent = 0;
    while (sent < e->net->cfg.turn_bytes && has_room(e) && poll_transmit(e, &tx) == 1) {
        const uvcci_channel *ch = &e->ch[e->s != NULL ? tx.peer : e->how_link.peer];
        uvcci_packets *p = uvcci_packets_for(e->net, &ch->address);
        if (p != NULL)
            uvcci_packets_put(p, &ch->address, &tx);
        transmit_done(e, &tx, p != NULL ? tx.total : 0);
        sent += tx.total;
    }
    if (sent >= e->net->cfg.turn_bytes)
        e->net->again = true;
}

/* The next transmit, with its channel; NULL: there is none now. */
static uvcci_channel *next_to_send(uvcci_endpoint *e, size_t *sent) {
    uvcc_transmit tx;
    if (poll_transmit(e, &tx) != 1)
        return NULL;
    uvcci_channel *ch = &e->ch[e->s != NULL ? tx.peer : e->how_link.peer];
    if (ch->conn == NULL || ch->conn->state != UVCCI_CONN_UP) {
        transmit_done(e, &tx, 0); /* it went down meanwhile */
        return NULL;
    }
    ch->tx = tx;
    ch->sent = 0;
    ch->holding = true;
    *sent += tx.total;
    return ch;
}

/* Where others may write too, a large transmit waits for the other peer's, if there is one. */
static void send_all(uvcci_endpoint *e) {
    const bool two = e->s != NULL && uvcci_side_is_on(e->net);
    uvcci_channel *ch;
    size_t sent = 0;
    if (e->datagram) {
        send_packets(e);
        return;
    }
    while (sent < e->net->cfg.turn_bytes && (ch = next_to_send(e, &sent)) != NULL) {
        uvcci_channel *other =
            two && ch->tx.total >= UVCCI_SIDE_BYTES ? next_to_send(e, &sent) : NULL;
        if (other != NULL)
            uvcci_side_send(ch, other);
        (void)uvcci_channel_send(ch);
        if (other != NULL)
            (void)uvcci_channel_send(other);
    }
    if (sent >= e->net->cfg.turn_bytes)
        e->net->again = true;
}

/* ---- jobs and events ---- */

static void fail(uvcci_endpoint *e, int rc, const char *what) {
    e->error = rc;
    e->net->error = rc;
    uvcci_net_log(e->net, UVCC_LOG_ERROR, "party %u: %s: %s", e->me, what, uvcc_error_text(rc));
}

static bool is_local(const uvcc_job *job) {
    return job->plane == UVCC_PLANE_LOCAL;
}

/* False: its executor is full, or the hook failed. */
static bool submit(uvcci_endpoint *e, const uvcc_job *job) {
    const bool hook = e->how.cpu == NULL || is_local(job);
    int rc = UVCC_ERR_STATE;
    if (!hook)
        rc = uvcc_cpu_submit(e->how.cpu, job);
    else if (e->how.job != NULL)
        rc = e->how.job(e->how.user, e->s, job);
    if (rc == UVCC_ERR_AGAIN) {
        e->job = job;
        return false;
    }
    if (rc != 0)
        fail(e, rc, hook ? "a job of the host's" : "a job");
    return rc == 0;
}

/* hooks: those of the local plane too, which are the host's; else one of them waits. */
static bool hand_out_jobs(uvcci_endpoint *e, bool hooks) {
    const uvcc_job *job = e->job;
    bool any = false;
    e->job = NULL;
    while (!e->removed && e->error == 0 &&
           (job != NULL || uvcc_session_poll_job(e->s, &job) == 1)) {
        if (!hooks && is_local(job)) {
            e->job = job;
            break;
        }
        if (!submit(e, job))
            break;
        any = true;
        job = NULL;
    }
    return any;
}

/* Somebody stands between two TLS connections: a new one may go past him. */
static void channel_is_another(uvcci_endpoint *e, uint8_t peer) {
    uvcci_conn *c = e->ch[peer].conn;
    if (c != NULL && c->state == UVCCI_CONN_UP)
        uvcci_conn_lost(c, "the peer speaks over another TLS channel: somebody relays");
}

/* Nobody is dialled any more; what is up stays until the session is removed. */
static void close_channels(uvcci_endpoint *e) {
    e->closed = true;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        e->ch[p].retry_at = UVCC_NEVER;
}

static bool hand_out_events(uvcci_endpoint *e) {
    uvcc_event ev;
    bool any = false;
    while (!e->removed && uvcc_session_poll_event(e->s, &ev) == 1) {
        any = true;
        if (ev.kind == UVCC_EVENT_CLOSED)
            close_channels(e);
        if (ev.kind == UVCC_EVENT_PEER_SILENT || ev.kind == UVCC_EVENT_PEER_HEARD)
            uvcci_channel_silence(&e->ch[ev.peer], ev.kind == UVCC_EVENT_PEER_SILENT);
        if (ev.kind == UVCC_EVENT_MISMATCH && strcmp(ev.text, "channel") == 0)
            channel_is_another(e, ev.peer);
        if (e->how.event != NULL)
            e->how.event(e->how.user, e->s, &ev, e->net->now);
    }
    return any;
}

static bool complete(uvcci_endpoint *e) {
    uvcc_completion done;
    bool any = false;
    while (e->how.cpu != NULL && uvcc_cpu_poll(e->how.cpu, &done) == 1) {
        (void)uvcc_session_complete(e->s, &done, e->net->now);
        any = true;
    }
    return any;
}

void uvcci_endpoint_jobs(uvcci_endpoint *e) {
    if (e->s != NULL && e->how.cpu != NULL)
        (void)hand_out_jobs(e, false);
}

bool uvcci_endpoint_ahead(uvcci_endpoint *e) {
    if (e->s == NULL || e->removed || e->error != 0 || !complete(e))
        return false;
    uvcci_endpoint_jobs(e);
    return true;
}

static void session_turn(uvcci_endpoint *e) {
    int rounds = 0;
    bool any;
    do {
        any = complete(e);
        timer(e);
        any |= hand_out_events(e);
        if (!e->removed)
            any |= hand_out_jobs(e, true);
        if (!e->removed)
            send_all(e);
    } while (any && !e->removed && e->error == 0 && ++rounds < ROUNDS_A_TURN);
    if (any)
        e->net->again = true;
}

void uvcci_endpoint_turn(uvcci_endpoint *e) {
    if (e->removed || e->error != 0)
        return;
    if (e->s != NULL) {
        session_turn(e);
        return;
    }
    timer(e);
    if (e->how_link.turn != NULL)
        e->how_link.turn(e->how_link.user, e->l, e->net->now);
    if (!e->removed)
        send_all(e);
}
