/* SPDX-License-Identifier: Apache-2.0 */
/* net_reno.c - the NewReno flow of the network in virtual time, see net.h.
 *
 * As in QUIC every transmission has a number of its own, and an acknowledgement names ranges of
 * numbers that came, so none is ambiguous. A segment that was lost is sent again under a new
 * number. The window shrinks once for all losses of packets that were sent before it shrank. */
#include "net_flow.h"

#include <stdlib.h>
#include <string.h>

#define PACKET      1500u
#define ACK_BYTES   64u
#define RING        32768u /* most packets under way: the receiver's window */
#define RANGES      32u
#define REORDER     3u
#define INITIAL     10u
#define RTO_INITIAL NET_S
#define RTO_MIN     (200 * NET_MS)
#define RTO_MAX     (60 * NET_S)
#define GRANULARITY NET_MS

/* SILENT: lost by a timeout, which may have been too early; acknowledgements may still come. */
enum { OUT, DONE, LOST, SILENT };

typedef struct sent_packet {
    uint64_t segment, at;
    uint8_t state;
} sent_packet;

typedef struct data_packet {
    uint64_t number, segment;
} data_packet;

typedef struct ack_packet {
    uint32_t count, marked;
    uint64_t range[RANGES][2]; /* the newest first */
} ack_packet;

typedef struct reno {
    /* left */
    sent_packet ring[RING];
    uint64_t first, next; /* numbers; of those below `first` no news is waited for */
    uint64_t largest;     /* acknowledged; valid if any */
    bool any, limited;    /* limited: by the window, in the last turn */
    uint64_t *lost;       /* ring of segments to send again */
    size_t lost_first, lost_count, lost_cap;
    uint64_t next_segment;
    net_set acked; /* segments */
    double window, threshold;
    uint64_t flight;   /* bytes */
    uint64_t recovery; /* losses of lower numbers are answered */
    uint64_t srtt, rttvar, latest, rto_at, loss_at;
    uint32_t backoff, marked;
    /* right */
    ack_packet came;
    bool ack_due;
    net_set seen; /* segments */
} reno;

/* ---- right: what came ---- */

static void range_remove(ack_packet *a, uint32_t i) {
    a->count--;
    memmove(a->range + i, a->range + i + 1, (a->count - i) * sizeof a->range[0]);
}

/* Adds a number to the ranges; the oldest range is forgotten when they are full. */
static void range_add(ack_packet *a, uint64_t number) {
    uint32_t i = 0;
    while (i < a->count && a->range[i][0] > number + 1)
        i++;
    if (i < a->count && number + 1 >= a->range[i][0] && number <= a->range[i][1] + 1) {
        if (number + 1 == a->range[i][0]) {
            a->range[i][0] = number;
            if (i + 1 < a->count && a->range[i + 1][1] + 1 == number) {
                a->range[i][0] = a->range[i + 1][0];
                range_remove(a, i + 1);
            }
        } else if (number == a->range[i][1] + 1) {
            a->range[i][1] = number;
        }
        return;
    }
    if (i == RANGES)
        return;
    if (a->count == RANGES)
        a->count--;
    memmove(a->range + i + 1, a->range + i, (a->count - i) * sizeof a->range[0]);
    a->range[i][0] = a->range[i][1] = number;
    a->count++;
}

/* ---- left: the window ---- */

static void lost_put(reno *r, uint64_t segment) {
    if (r->lost_count == r->lost_cap) {
        size_t cap = r->lost_cap * 2 + 64;
        uint64_t *more = net_alloc(cap * sizeof *more);
        for (size_t i = 0; i < r->lost_count; i++)
            more[i] = r->lost[(r->lost_first + i) % r->lost_cap];
        free(r->lost);
        r->lost = more;
        r->lost_first = 0;
        r->lost_cap = cap;
    }
    r->lost[(r->lost_first + r->lost_count++) % r->lost_cap] = segment;
}

static void lose(reno *r, sent_packet *p, uint8_t state) {
    p->state = state;
    r->flight -= PACKET;
    lost_put(r, p->segment);
}

static void shrink(reno *r) {
    r->threshold = r->window / 2 > 2 * PACKET ? r->window / 2 : 2 * PACKET;
    r->window = r->threshold;
    r->recovery = r->next;
}

static uint64_t rto(const reno *r) {
    uint64_t t = r->srtt == 0 ? RTO_INITIAL : r->srtt + 4 * r->rttvar;
    t = (t < RTO_MIN ? RTO_MIN : t) << r->backoff;
    return t < RTO_MAX ? t : RTO_MAX;
}

static void first_advance(reno *r, uint64_t now) {
    for (; r->first < r->next; r->first++) {
        const sent_packet *p = &r->ring[r->first % RING];
        if (p->state == OUT || (p->state == SILENT && p->at + 4 * rto(r) > now))
            return;
    }
}

static void rtt_sample(reno *r, uint64_t rtt) {
    r->latest = rtt;
    if (r->srtt == 0) {
        r->srtt = rtt;
        r->rttvar = rtt / 2;
        return;
    }
    uint64_t error = rtt > r->srtt ? rtt - r->srtt : r->srtt - rtt;
    r->rttvar = r->rttvar - r->rttvar / 4 + error / 4;
    r->srtt = r->srtt - r->srtt / 8 + rtt / 8;
}

/* Numbers below the largest acknowledged one are lost by distance or by time. */
static void losses_detect(reno *r, uint64_t now) {
    r->loss_at = UVCC_NEVER;
    if (!r->any)
        return;
    uint64_t rtt = r->latest > r->srtt ? r->latest : r->srtt, late = rtt + rtt / 8;
    if (late < GRANULARITY)
        late = GRANULARITY;
    bool answer = false;
    for (uint64_t i = r->first; i < r->largest; i++) {
        sent_packet *p = &r->ring[i % RING];
        if (p->state != OUT)
            continue;
        if (i + REORDER <= r->largest || p->at + late <= now) {
            lose(r, p, LOST);
            answer |= i >= r->recovery;
        } else {
            r->loss_at = p->at + late;
            break;
        }
    }
    if (answer)
        shrink(r);
    first_advance(r, now);
}

static void acked(reno *r, uint64_t number, uint64_t flight, uint64_t now, uint64_t *sample) {
    sent_packet *p = &r->ring[number % RING];
    if (p->state == DONE)
        return;
    net_set_add(&r->acked, p->segment);
    if (p->state == OUT) {
        /* A window that is not used does not grow (RFC 9002 7.8); in slow start half of it counts
         * as used, since the access wire spaces what each acknowledgement lets out. */
        bool used = r->limited || (r->window < r->threshold && r->window < 2.0 * (double)flight);
        r->flight -= PACKET;
        if (number >= r->recovery && used)
            r->window += r->window < r->threshold ? PACKET : PACKET * (double)PACKET / r->window;
        if (r->window > (double)RING * PACKET)
            r->window = (double)RING * PACKET;
    }
    p->state = DONE;
    if (!r->any || number >= r->largest)
        *sample = now - p->at;
}

static void ack_came(reno *r, const ack_packet *a, uint64_t now) {
    if (a->count == 0)
        return;
    uint64_t sample = 0, flight = r->flight;
    for (uint32_t i = 0; i < a->count && a->range[i][1] >= r->first; i++) {
        uint64_t lo = a->range[i][0] > r->first ? a->range[i][0] : r->first;
        for (uint64_t k = lo; k <= a->range[i][1]; k++)
            acked(r, k, flight, now, &sample);
    }
    uint64_t top = a->range[0][1];
    if (sample != 0)
        rtt_sample(r, sample);
    if (!r->any || top > r->largest)
        r->largest = top;
    r->any = true;
    first_advance(r, now);
    if (a->marked > r->marked) {
        r->marked = a->marked;
        if (top >= r->recovery)
            shrink(r);
    }
    losses_detect(r, now);
    if (r->flight != flight) {
        r->backoff = 0;
        r->rto_at = r->flight == 0 ? UVCC_NEVER : now + rto(r);
    }
}

static void timeout(reno *r, uint64_t now) {
    if (r->backoff == 0) /* else it stays (RFC 5681 3.1) */
        r->threshold = r->flight / 2 > 2 * PACKET ? (double)r->flight / 2 : 2 * PACKET;
    for (uint64_t i = r->first; i < r->next; i++)
        if (r->ring[i % RING].state == OUT)
            lose(r, &r->ring[i % RING], SILENT);
    r->window = PACKET;
    r->recovery = r->next;
    if (r->backoff < 16)
        r->backoff++;
    r->loss_at = UVCC_NEVER;
    r->rto_at = now + rto(r);
    first_advance(r, now);
}

/* ---- the flow ---- */

static uint64_t segment_next(reno *r) {
    while (r->lost_count != 0) {
        uint64_t segment = r->lost[r->lost_first];
        r->lost_first = (r->lost_first + 1) % r->lost_cap;
        r->lost_count--;
        if (!net_set_has(&r->acked, segment))
            return segment;
    }
    return r->next_segment++;
}

static void send(net_flow *flow, uint64_t now) {
    reno *r = flow->state;
    bool room;
    while ((room = r->flight + PACKET <= r->window && r->next - r->first < RING) &&
           net_free_to_send(&flow->end[0], now)) {
        data_packet d = {.number = r->next++, .segment = segment_next(r)};
        r->ring[d.number % RING] = (sent_packet){.segment = d.segment, .at = now, .state = OUT};
        if (r->flight == 0)
            r->rto_at = now + rto(r);
        r->flight += PACKET;
        memcpy(net_send(flow, 0, PACKET, sizeof d, now), &d, sizeof d);
    }
    r->limited = !room;
}

static void turn(net_flow *flow, int end, uint64_t now) {
    reno *r = flow->state;
    net_end *e = &flow->end[end];
    e->wake_at = UVCC_NEVER;
    if (end == 1) {
        if (r->ack_due && net_free_to_send(e, now)) {
            memcpy(net_send(flow, 1, ACK_BYTES, sizeof r->came, now), &r->came, sizeof r->came);
            r->ack_due = false;
        } else if (r->ack_due) {
            e->wake_at = e->free_at;
        }
        return;
    }
    if (now >= r->rto_at)
        timeout(r, now);
    else if (now >= r->loss_at)
        losses_detect(r, now);
    send(flow, now);
    e->wake_at = r->rto_at < r->loss_at ? r->rto_at : r->loss_at;
    if (!r->limited && e->free_at < e->wake_at)
        e->wake_at = e->free_at;
}

static void receive(net_flow *flow, int end, const net_packet *p, uint64_t now) {
    reno *r = flow->state;
    if (end == 0) {
        ack_packet a;
        memcpy(&a, p->data, sizeof a);
        ack_came(r, &a, now);
        return;
    }
    data_packet d;
    memcpy(&d, p->data, sizeof d);
    range_add(&r->came, d.number);
    r->came.marked += p->ce;
    r->ack_due = true;
    net_arrived(flow, net_set_add(&r->seen, d.segment), PACKET, PACKET, now);
}

static void reno_free(net_flow *flow) {
    reno *r = flow->state;
    free(r->lost);
    free(r->acked.word);
    free(r->seen.word);
    free(r);
}

double net_reno_window(const net *n, int flow) {
    const net_flow *f = net_flow_at(n, flow);
    return f->turn == turn ? ((const reno *)f->state)->window : 0;
}

int net_add_reno(net *n, const net_reno_config *cfg) {
    reno *r = net_alloc(sizeof *r);
    r->window = INITIAL * PACKET;
    r->threshold = 1e18;
    r->rto_at = r->loss_at = UVCC_NEVER;
    net_flow *flow = net_add(n, cfg->start_ns);
    flow->ecn = cfg->ecn;
    flow->end[0].access_rate = flow->end[1].access_rate = cfg->access_rate;
    flow->turn = turn;
    flow->receive = receive;
    flow->free = reno_free;
    flow->state = r;
    return flow->number;
}
