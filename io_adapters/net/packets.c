/* SPDX-License-Identifier: Apache-2.0 */
/* packets.c - UDP: one socket for many sessions. What comes is read in batches (recvmmsg, and GRO
 * joins packets of one sender), given to the session that its sid_tag names, and to the peer whose
 * address it came from. What goes is copied into a batch and leaves at the end of the turn:
 * sendmmsg, and runs of equal packets to one peer as one message that the kernel cuts (GSO).
 *
 * A packet is lost wherever it is refused: a full socket keeps the batch, and its sessions are not
 * asked for more until it went. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io_adapters/net/core.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103 /* Linux 4.18 */
#endif
#ifndef UDP_GRO
#define UDP_GRO 104 /* Linux 5.0 */
#endif

#define RX_MESSAGES  32u
#define RX_BYTES     65536u /* what GRO joins is a datagram's bytes at most */
#define TX_BYTES     (512u << 10)
#define TX_PACKETS   512u
#define GSO_PACKETS  64u /* UDP_MAX_SEGMENTS */
#define GSO_BYTES    65000u
#define CE           3 /* RFC 3168 */
#define READS_A_TURN 16

typedef struct outgoing {
    uvcci_address to;
    uint32_t at, len; /* in tx */
} outgoing;

typedef struct control {
    _Alignas(struct cmsghdr) char bytes[CMSG_SPACE(sizeof(int)) * 2];
} control;

struct uvcci_packets {
    uvcci_source src;
    uvcc_net *net;
    uvcci_packets *next;
    uvcci_address bound;
    bool gso;              /* the kernel cuts, as far as we know */
    bool joins;            /* in this flush: no path refused what was joined */
    uint32_t first, count; /* of out: what waits */
    uint32_t tx_len;
    outgoing out[TX_PACKETS];
    struct mmsghdr rx_msg[RX_MESSAGES];
    struct iovec rx_iov[RX_MESSAGES];
    struct sockaddr_storage rx_from[RX_MESSAGES];
    control rx_control[RX_MESSAGES];
    uint8_t tx[TX_BYTES];
    uint8_t rx[RX_MESSAGES][RX_BYTES];
};

int uvcci_packets_open(uvcc_net *n, int fd, const uvcci_address *bound) {
    for (const uvcci_packets *other = n->packets; other != NULL; other = other->next)
        if (other->bound.sa.ss_family == bound->sa.ss_family)
            return UVCC_ERR_STATE;
    uvcci_packets *p = uvcci_net_alloc(n, sizeof *p);
    if (p == NULL)
        return UVCC_ERR_NOMEM;
    p->src = (uvcci_source){.fd = fd, .kind = UVCCI_SOURCE_PACKETS, .owner = p};
    p->net = n;
    p->bound = *bound;
    p->gso = p->joins = true;
    p->first = p->count = p->tx_len = 0;
    const int rc = n->io.ops->add(&n->io, &p->src);
    if (rc != 0) {
        uvcci_net_give(n, p, sizeof *p);
        return rc;
    }
    p->next = n->packets;
    n->packets = p;
    return 0;
}

void uvcci_packets_free_all(uvcc_net *n) {
    while (n->packets != NULL) {
        uvcci_packets *p = n->packets;
        n->packets = p->next;
        uvcci_io_forget(&n->io, &p->src);
        n->io.ops->remove(&n->io, &p->src);
        (void)close(p->src.fd);
        uvcci_net_give(n, p, sizeof *p);
    }
}

uvcci_packets *uvcci_packets_next(const uvcci_packets *p) {
    return p->next;
}

/* An IPv6 socket on any address carries IPv4 too. */
static bool carries(const uvcci_packets *p, const uvcci_address *to) {
    if (p->bound.sa.ss_family == to->sa.ss_family)
        return true;
    return p->bound.sa.ss_family == AF_INET6 &&
           IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)&p->bound.sa)->sin6_addr);
}

uvcci_packets *uvcci_packets_for(uvcc_net *n, const uvcci_address *to) {
    uvcci_packets *p = n->packets;
    while (p != NULL && !carries(p, to))
        p = p->next;
    return p;
}

/* ---- what comes ---- */

static void take_packet(uvcci_packets *p, const uvcci_address *from, const uint8_t *bytes,
                        size_t len, bool ce) {
    uvcc_net *n = p->net;
    uvcci_endpoint *e = uvcc_demux_packet(n->demux, bytes, len);
    n->stats.packets_rx++;
    n->stats.bytes_rx += len;
    for (uint8_t peer = 0; e != NULL && e->datagram && !e->removed && peer < UVCC_PARTIES; peer++)
        if (e->ch[peer].has_address && uvcci_address_equal(&e->ch[peer].address, from)) {
            uvcci_endpoint_packet(e, peer, bytes, len, ce);
            return;
        }
    n->stats.refused++;
}

/* What the kernel says of a message: how long the packets are that it joined, and whether they came
 * with ECN's mark (it joins none that differ in it). */
static size_t read_control(struct msghdr *m, size_t len, bool *ce) {
    size_t segment = len;
    *ce = false;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
        int v = 0;
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
            *ce = (*CMSG_DATA(c) & CE) == CE;
        } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
            memcpy(&v, CMSG_DATA(c), sizeof v);
            *ce = (v & CE) == CE;
        } else if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
            uint16_t gso;
            memcpy(&gso, CMSG_DATA(c), sizeof gso);
            segment = gso != 0 ? gso : len;
        }
    }
    return segment;
}

static void take_message(uvcci_packets *p, uint32_t i) {
    struct msghdr *m = &p->rx_msg[i].msg_hdr;
    uvcci_address from = {.kind = UVCCI_ADDRESS_UDP, .sa = p->rx_from[i], .len = m->msg_namelen};
    const size_t len = p->rx_msg[i].msg_len;
    bool ce;
    const size_t segment = read_control(m, len, &ce);
    if (len == 0) {
        p->net->stats.packets_rx++;
        p->net->stats.refused++;
    }
    for (size_t at = 0; at < len; at += segment)
        take_packet(p, &from, p->rx[i] + at, len - at < segment ? len - at : segment, ce);
}

static void receive(uvcci_packets *p) {
    uvcc_net *n = p->net;
    for (int reads = 0; (p->src.ready & UVCCI_READ) != 0; reads++) {
        if (reads == READS_A_TURN) {
            uvcci_io_queue(&n->io, &p->src);
            return;
        }
        for (uint32_t i = 0; i < RX_MESSAGES; i++) {
            p->rx_iov[i] = (struct iovec){.iov_base = p->rx[i], .iov_len = RX_BYTES};
            p->rx_msg[i].msg_hdr = (struct msghdr){.msg_name = &p->rx_from[i],
                                                   .msg_namelen = sizeof p->rx_from[i],
                                                   .msg_iov = &p->rx_iov[i],
                                                   .msg_iovlen = 1,
                                                   .msg_control = &p->rx_control[i],
                                                   .msg_controllen = sizeof p->rx_control[i]};
        }
        n->stats.syscalls++;
        const int got = recvmmsg(p->src.fd, p->rx_msg, RX_MESSAGES, 0, NULL);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            p->src.ready &= (uint8_t)~UVCCI_READ;
        for (int i = 0; i < got; i++)
            take_message(p, (uint32_t)i);
    }
}

/* ---- what goes ---- */

bool uvcci_packets_room(const uvcci_packets *p) {
    return p->count < TX_PACKETS && TX_BYTES - p->tx_len >= RX_BYTES;
}

void uvcci_packets_put(uvcci_packets *p, const uvcci_address *to, const uvcc_transmit *tx) {
    outgoing *o = &p->out[p->count];
    if (tx->total > RX_BYTES)
        return;
    *o = (outgoing){.to = *to, .at = p->tx_len};
    if (p->bound.sa.ss_family == AF_INET6)
        uvcci_address_to_v6(&o->to);
    for (uint32_t i = 0; i < tx->slice_count; i++) {
        memcpy(p->tx + p->tx_len, tx->slices[i].data, tx->slices[i].len);
        p->tx_len += (uint32_t)tx->slices[i].len;
    }
    o->len = p->tx_len - o->at;
    p->count++;
    p->net->stats.packets_tx++;
    p->net->stats.bytes_tx += o->len;
}

/* How many packets from `first` on go as one message: equal ones to one peer, the last may be
 * shorter. They stand one after the other in tx. */
static uint32_t run_of(const uvcci_packets *p, uint32_t first) {
    const outgoing *o = &p->out[first];
    uint32_t k = 1, bytes = o->len;
    while (p->gso && p->joins && first + k < p->count && k < GSO_PACKETS) {
        const outgoing *next = &p->out[first + k];
        if (p->out[first + k - 1].len != o->len || next->len > o->len ||
            bytes + next->len > GSO_BYTES || !uvcci_address_equal(&next->to, &o->to))
            break;
        bytes += next->len;
        k++;
    }
    return k;
}

typedef struct batch {
    struct mmsghdr msg[GSO_PACKETS];
    struct iovec iov[GSO_PACKETS];
    control ctl[GSO_PACKETS];
    uint32_t packets[GSO_PACKETS];
} batch;

static unsigned fill(uvcci_packets *p, batch *b) {
    unsigned n = 0;
    for (uint32_t at = p->first; at < p->count && n < GSO_PACKETS; n++) {
        outgoing *o = &p->out[at];
        const uint32_t k = run_of(p, at);
        const outgoing *last = &p->out[at + k - 1];
        struct msghdr *m = &b->msg[n].msg_hdr;
        b->iov[n] =
            (struct iovec){.iov_base = p->tx + o->at, .iov_len = last->at + last->len - o->at};
        *m = (struct msghdr){.msg_name = &o->to.sa,
                             .msg_namelen = o->to.len,
                             .msg_iov = &b->iov[n],
                             .msg_iovlen = 1};
        if (k > 1) {
            const uint16_t size = (uint16_t)o->len;
            m->msg_control = &b->ctl[n];
            m->msg_controllen = CMSG_SPACE(sizeof size);
            memset(&b->ctl[n], 0, sizeof b->ctl[n]);
            struct cmsghdr *c = CMSG_FIRSTHDR(m);
            c->cmsg_level = IPPROTO_UDP;
            c->cmsg_type = UDP_SEGMENT;
            c->cmsg_len = CMSG_LEN(sizeof size);
            memcpy(CMSG_DATA(c), &size, sizeof size);
        }
        b->packets[n] = k;
        at += k;
    }
    return n;
}

/* A message that is refused is lost; one that was joined goes in pieces: it is too long for this
 * path or device (what is cut must fit too), or there is no GSO here. */
static void refused(uvcci_packets *p, const batch *b, int error) {
    if (b->packets[0] == 1)
        p->first++;
    else if (error == EMSGSIZE)
        p->joins = false;
    else
        p->gso = false;
}

static void flush(uvcci_packets *p) {
    uvcc_net *n = p->net;
    batch b;
    p->joins = true;
    while (p->first < p->count && (p->src.ready & UVCCI_WRITE) != 0) {
        const unsigned count = fill(p, &b);
        n->stats.syscalls++;
        const int sent = sendmmsg(p->src.fd, b.msg, count, 0);
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            p->src.ready &= (uint8_t)~UVCCI_WRITE;
        else if (sent < 0 && errno != EINTR)
            refused(p, &b, errno);
        for (int i = 0; i < sent; i++)
            p->first += b.packets[i];
    }
    if (p->first == p->count)
        p->first = p->count = p->tx_len = 0;
}

void uvcci_packets_ready(uvcci_packets *p) {
    receive(p);
    flush(p);
}

void uvcci_packets_flush_all(uvcc_net *n) {
    for (uvcci_packets *p = n->packets; p != NULL; p = p->next) {
        const bool full = !uvcci_packets_room(p);
        flush(p);
        n->again |= full && uvcci_packets_room(p); /* its sessions may have more */
    }
}
