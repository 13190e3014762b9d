/* SPDX-License-Identifier: Apache-2.0 */
/* link_path.c - the search for the greatest packet, and the way back, see link_path.h.
 *
 * Sources: RFC 8899 (DPLPMTUD): sizes are confirmed by a PING that got there, a probe that was lost
 * tells nothing of congestion. Falling costs a few headers and a search, so little evidence is
 * enough: two timeouts with nothing heard between, or BLACK_PACKETS of long packets lost with none
 * that came between.
 *
 * States: base (nothing asked yet) -> searching (probe != 0) -> found (probe 0; tried again after
 * RAISE_NS, when there is data); any of them -> searching below the old size when long packets
 * vanish.
 *
 * Invariants: base <= packet <= high <= datagram_bytes; a probe is above packet and at most high.
 */
#include "proto/link_path.h"

#include <assert.h>

#include "proto/link_core.h"
#include "proto/mutant.h"

#define STEP_BYTES     32u
#define PROBE_TRIES    3u
#define BLACK_PACKETS  6u
#define BLACK_TIMEOUTS 2u
#define RAISE_NS       UINT64_C(600000000000)

uint32_t uvcci_path_base(const uvcc_link *l) {
    return l->cfg.datagram_bytes < UVCCI_PACKET_BYTES ? l->cfg.datagram_bytes : UVCCI_PACKET_BYTES;
}

void uvcci_path_init(uvcc_link *l) {
    l->tx.path = (uvcci_path){.at = UVCC_NEVER,
                              .raise_at = UVCC_NEVER,
                              .packet = uvcci_path_base(l),
                              .high = l->cfg.datagram_bytes};
}

/* The next size to ask for. The greatest first: most paths carry it or nothing near it. */
static void probe_next(uvcc_link *l, bool greatest) {
    uvcci_path *p = &l->tx.path;
    assert(p->packet <= p->high && p->high <= l->cfg.datagram_bytes);
    p->tries = 0;
    p->number = 0;
    if (l->resting || p->high < p->packet + STEP_BYTES) {
        p->probe = 0;
        p->at = UVCC_NEVER;
        if (p->packet + STEP_BYTES <= l->cfg.datagram_bytes)
            p->raise_at = uvcci_later(l->now, RAISE_NS);
        return;
    }
    p->probe = greatest ? p->high : p->packet + (p->high - p->packet + 1) / 2;
    p->at = l->now;
}

void uvcci_path_begin(uvcc_link *l) {
    if (l->cfg.datagram)
        probe_next(l, true);
}

void uvcci_path_data(uvcc_link *l) {
    uvcci_path *p = &l->tx.path;
    if (p->raise_at > l->now)
        return;
    p->raise_at = UVCC_NEVER;
    if (p->probe == 0) {
        p->high = l->cfg.datagram_bytes;
        probe_next(l, true);
    }
}

uint32_t uvcci_path_due(uvcc_link *l) {
    uvcci_path *p = &l->tx.path;
    assert(p->at <= l->now);
    assert(p->probe != 0);
    if (p->tries == PROBE_TRIES) {
        p->high = p->probe - 1;
        probe_next(l, false);
    }
    return p->probe;
}

void uvcci_path_sent(uvcc_link *l, uint32_t number, uint64_t wait) {
    l->tx.path.number = number;
    l->tx.path.tries++;
    l->tx.path.at = uvcci_later(l->now, wait);
}

void uvcci_path_answered(uvcc_link *l, uint32_t number) {
    uvcci_path *p = &l->tx.path;
    if (p->probe == 0 || p->number == 0 || number != p->number)
        return;
    p->packet = p->probe;
    p->lost = 0;
    probe_next(l, false);
}

/* Long packets vanish: back to what every path carries, and a search from there. It asks for the
 * old size first, since an outage looks the same. */
static void fall(uvcc_link *l) {
    uvcci_path *p = &l->tx.path;
    if (p->packet == uvcci_path_base(l) || UVCCI_MUTANT(22))
        return;
    p->high = p->packet;
    p->packet = uvcci_path_base(l);
    p->lost = 0;
    l->stats.path_falls++;
    probe_next(l, true);
}

void uvcci_path_frame(uvcc_link *l, const uvcci_tx_frame *f, bool received) {
    uvcci_path *p = &l->tx.path;
    if (received)
        p->timeouts = 0;
    if (!f->big)
        return;
    if (received)
        p->lost = 0;
    else if (++p->lost >= BLACK_PACKETS * (p->packet / uvcci_path_base(l)))
        fall(l);
}

/* One may be a host that stood still; what it resent may have gone in a long packet, too. */
void uvcci_path_timeout(uvcc_link *l) {
    l->tx.path.timeouts++;
    if (l->tx.path.timeouts == 0) /* many, and the turns go on */
        l->tx.path.timeouts = UVCCI_TURN_TIMEOUTS;
    if (l->tx.path.timeouts >= BLACK_TIMEOUTS)
        fall(l);
}
