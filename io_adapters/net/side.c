/* SPDX-License-Identifier: Apache-2.0 */
/* side.c - reads and writes of several connections side by side, in threads of the host's
 * (uvcc_net_config.parallel).
 *
 * A party has two peers, and what the system copies for the one may be copied while another thread
 * does so for the other. All that those threads touch is a descriptor and the bytes: this thread is
 * in the call meanwhile, and what follows from a read or a write is done by it afterwards, in the
 * connection's own turn. So nothing else knows of it but who reads and writes: conn.c.
 *
 * One read or write of a connection at a time, for a socket does one at a time anyway. With TLS
 * none: its state is one thread's. */
#include "io_adapters/net/core.h"

#define PARTS 8u /* at once; a party's session has two, so more are rare */

typedef struct parts {
    uint32_t count;
    uvcci_conn *conn[PARTS];
    uvcci_part part[PARTS];
    struct iovec iov[PARTS][UVCC_TRANSMIT_SLICES_MAX];
} parts;

bool uvcci_side_is_on(const uvcc_net *n) {
    return n->cfg.parallel.run != NULL && n->io.ops->several != NULL;
}

bool uvcci_side_jobs_first(const uvcc_net *n) {
    return n->cfg.parallel.run != NULL;
}

static bool is_plain(const uvcci_conn *c) {
    return c != NULL && c->state == UVCCI_CONN_UP && c->tls == NULL;
}

/* Without memory it is read as ever. */
static bool has_inbox(uvcci_conn *c) {
    if (c->inbox == NULL)
        c->inbox = uvcci_net_alloc(c->net, UVCCI_INBOX_BYTES);
    return c->inbox != NULL;
}

static void add(parts *p, uvcci_conn *c, bool write, int count) {
    p->conn[p->count] = c;
    p->part[p->count] =
        (uvcci_part){.src = &c->src, .write = write, .iov = p->iov[p->count], .count = count};
    p->count++;
}

/* One that had large frames once goes on with its inbox, where small ones cost no more. */
static bool add_read(parts *p, uvcci_conn *c) {
    if (p->count == PARTS || (c->large == 0 && c->inbox == NULL) ||
        (c->src.ready & UVCCI_READ) == 0 || !has_inbox(c))
        return false;
    p->iov[p->count][0] = (struct iovec){.iov_base = c->inbox, .iov_len = UVCCI_INBOX_BYTES};
    add(p, c, false, 1);
    return true;
}

static bool add_write(parts *p, uvcci_conn *c, size_t least) {
    const uvcci_channel *ch = c->ch;
    if (p->count == PARTS || !ch->holding || (c->src.ready & UVCCI_WRITE) == 0 ||
        ch->tx.total - ch->sent < least)
        return false;
    add(p, c, true, uvcci_conn_iov(p->iov[p->count], ch->tx.slices, ch->tx.slice_count, ch->sent));
    return true;
}

static void keep(uvcci_conn *c, const uvcci_part *part) {
    if (part->write) {
        c->has_out = true;
        c->out = part->rc;
    } else {
        c->has_in = true;
        c->in = part->rc;
    }
}

static void run(uvcc_net *n, parts *p) {
    n->io.ops->several(&n->io, p->part, p->count, &n->cfg.parallel);
    for (uint32_t i = 0; i < p->count; i++)
        keep(p->conn[i], &p->part[i]);
}

/* What is little is not worth another thread: a write is left to the connection's turn. */
static void run_alone(uvcc_net *n, parts *p) {
    for (uint32_t i = 0; i < p->count; i++) {
        uvcci_part *part = &p->part[i];
        if (part->write)
            continue;
        part->rc = n->io.ops->read(&n->io, part->src, part->iov, part->count);
        keep(p->conn[i], part);
    }
}

void uvcci_side_ready(uvcc_net *n) {
    parts p = {.count = 0};
    uint32_t large = 0;
    for (uvcci_source *s = n->io.first; s != NULL; s = s->next_ready) {
        uvcci_conn *c = s->kind == UVCCI_SOURCE_STREAM ? s->owner : NULL;
        if (!is_plain(c))
            continue;
        if (add_read(&p, c))
            large += c->large != 0;
        else
            large += add_write(&p, c, UVCCI_SIDE_BYTES);
    }
    if (large > 1)
        run(n, &p);
    else
        run_alone(n, &p);
}

void uvcci_side_send(uvcci_channel *a, uvcci_channel *b) {
    parts p = {.count = 0};
    if (is_plain(a->conn) && is_plain(b->conn) && add_write(&p, a->conn, UVCCI_SIDE_BYTES) &&
        add_write(&p, b->conn, 1))
        run(a->e->net, &p);
}
