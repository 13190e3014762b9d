/* SPDX-License-Identifier: Apache-2.0 */
/* link_cc.c - congestion control of a link, see link_cc.h.
 *
 * Pacing is a bucket in one number: pace_at is when the next packet is due. A sender catches up by
 * what PACE_LATE_NS would have sent, and by what it was kept from by a host that came later than
 * asked, at most LATE_MOST_NS. One that is held back is asked to come when a whole quantum is due.
 *
 * Invariants: tx.inflight is the frame bytes of the list of sent frames; wake_at is set only while
 * data waits for it. */
#include "proto/link_cc.h"

#include <assert.h>
#include <string.h>

#include "proto/cc_bbr.h"
#include "proto/cc_cubic.h"
#include "proto/cc_fixed.h"
#include "proto/link_core.h"
#include "proto/mutant.h"

#define PACE_LATE_NS       UINT64_C(2000000)
#define LATE_MOST_NS       UINT64_C(20000000)
#define GRANULARITY_NS     UINT64_C(1000000)
#define PERSISTENT_PERIODS 3u

int uvcci_link_cc_new(uvcc_link *l) {
    static const uvcci_cc_class *const classes[] = {
        [UVCC_CONGESTION_BBR] = &uvcci_cc_bbr,
        [UVCC_CONGESTION_CUBIC] = &uvcci_cc_cubic,
        [UVCC_CONGESTION_FIXED] = &uvcci_cc_fixed,
    };
    assert(l->cfg.datagram && l->cfg.congestion < sizeof classes / sizeof *classes);
    uvcci_link_cc *k = uvcci_link_alloc(l, sizeof *k, UVCC_MEM_STATE);
    if (k == NULL)
        return UVCC_ERR_NOMEM;
    memset(k, 0, sizeof *k);
    k->wake_at = UVCC_NEVER;
    k->rtt = UVCC_NEVER;
    k->cc.is = classes[l->cfg.congestion];
    k->cc.segment = l->tx.path.packet;
    k->cc.rate_bound = l->cfg.rate_bytes_per_s;
    k->cc.random = l->hash_mul;
    k->cc.is->init(&k->cc, l->now);
    l->cc = k;
    return 0;
}

void uvcci_link_cc_start(uvcc_link *l) {
    if (l->cc != NULL)
        l->cc->cc.is->init(&l->cc->cc, l->now);
}

void uvcci_link_cc_free(uvcc_link *l) {
    uvcci_link_give(l, l->cc, sizeof *l->cc, UVCC_MEM_STATE);
    l->cc = NULL;
}

/* ---- what the sender asks ---- */

/* The window is used up: it is what limits us for a round trip from now. */
static bool window_open(uvcc_link *l) {
    uvcci_link_cc *k = l->cc;
    if (l->tx.inflight < k->cc.window)
        return true;
    k->full_until = k->rate.delivered + l->tx.inflight;
    return false;
}

/* The host came later than it was asked to. What the rate would have sent meanwhile is due, and
 * what is measured now is the host as much as the path: it may not lower what is known. */
static void late_note(uvcc_link *l) {
    uvcci_link_cc *k = l->cc;
    if (k->wake_at == UVCC_NEVER || l->now <= k->wake_at)
        return;
    uint64_t late = l->now - k->wake_at;
    k->late_ns = uvcci_min64(uvcci_max64(k->late_ns, late), LATE_MOST_NS);
    if (late > PACE_LATE_NS)
        uvcci_rate_limited(&k->rate, l->tx.inflight);
}

bool uvcci_link_cc_open(uvcc_link *l) {
    uvcci_link_cc *k = l->cc;
    if (k == NULL)
        return true;
    late_note(l);
    k->wake_at = UVCC_NEVER;
    if (k->probes != 0)
        return true;
    if (!window_open(l))
        return false;
    if (k->cc.rate == 0 || k->pace_at <= l->now)
        return true;
    k->late_ns = 0; /* all that was due has gone */
    uint64_t all = uvcci_rate_time(k->cc.rate, k->cc.quantum);
    uint64_t one = uvcci_rate_time(k->cc.rate, k->cc.segment);
    k->wake_at =
        UVCCI_MUTANT(27) ? k->pace_at - 1 : uvcci_later(k->pace_at, all > one ? all - one : 0);
    return false;
}

bool uvcci_link_cc_room(const uvcc_link *l) {
    const uvcci_link_cc *k = l->cc;
    return k == NULL || k->probes != 0 || l->tx.inflight < k->cc.window;
}

void uvcci_link_cc_idle(uvcc_link *l) {
    if (l->cc == NULL)
        return;
    l->cc->wake_at = UVCC_NEVER;
    if (l->tx.inflight < l->cc->cc.window)
        uvcci_rate_limited(&l->cc->rate, l->tx.inflight);
}

uint64_t uvcci_link_cc_deadline(const uvcc_link *l) {
    return l->cc == NULL ? UVCC_NEVER : l->cc->wake_at;
}

void uvcci_link_cc_stats(const uvcc_link *l, uvcc_link_stats *out) {
    const uvcci_link_cc *k = l->cc;
    if (k == NULL)
        return;
    out->flight_bytes = l->tx.inflight;
    out->window_bytes = k->cc.window;
    out->pacing_bytes_per_s = k->cc.rate;
    out->delivered_bytes_per_s = k->delivery;
    out->marks = k->ce_seen;
}

/* ---- what it tells ---- */

/* A measured rate may be next to none, after an outage: no packet waits longer than silence may
 * last. A configured one is kept to, whatever it is. */
static uint64_t pace_latest(const uvcc_link *l) {
    const uvcci_cc *c = &l->cc->cc;
    return c->rate == c->rate_bound ? UVCC_NEVER : uvcci_later(l->now, l->cfg.rto_max_ns);
}

void uvcci_link_cc_sent(uvcc_link *l, uvcci_tx_frame *f) {
    uvcci_link_cc *k = l->cc;
    if (k == NULL)
        return;
    uint64_t bytes = uvcci_tx_frame_bytes(f);
    k->cc.segment = l->tx.path.packet;
    if (l->tx.inflight == 0)
        k->cc.is->sent(&k->cc, k->rate.app_limited != 0, l->now);
    uvcci_rate_sent(&k->rate, &f->rate, l->tx.inflight, bytes, l->now);
    if (k->probes != 0)
        k->probes--;
    if (k->cc.rate == 0)
        return;
    uint64_t depth = PACE_LATE_NS + k->late_ns;
    uint64_t late = l->now > depth ? l->now - depth : 0;
    k->pace_at = uvcci_later(uvcci_max64(k->pace_at, late), uvcci_rate_time(k->cc.rate, bytes));
    k->pace_at = uvcci_min64(k->pace_at, pace_latest(l));
}

/* What pacing still waits for was sent at another rate: at the new one it takes another time. */
static void pace_follow(uvcc_link *l, uint64_t was) {
    uvcci_link_cc *k = l->cc;
    if (k->cc.rate == was || k->pace_at <= l->now)
        return;
    uint64_t bytes = uvcci_rate_bytes(was, k->pace_at - l->now);
    k->pace_at = l->now;
    if (k->cc.rate != 0)
        k->pace_at =
            uvcci_min64(uvcci_later(l->now, uvcci_rate_time(k->cc.rate, bytes)), pace_latest(l));
}

void uvcci_link_cc_acked(uvcc_link *l, const uvcci_tx_frame *f) {
    uvcci_link_cc *k = l->cc;
    if (k == NULL)
        return;
    if (!f->resent && f->sent_ns >= k->silent_last)
        k->original = true;
    else if (!f->resent && k->silent_from != 0) /* its ACK was lost, it was not */
        k->silent_from = uvcci_max64(k->silent_from, f->sent_ns);
    if (!f->resent && f->sent_ns >= l->tx.timeout_ns) /* else the ACK is late, the path not long */
        k->rtt = uvcci_min64(k->rtt, uvcci_max64(l->now - f->sent_ns, 1));
    uvcci_rate_acked(&k->rate, &f->rate, f->sent_ns, uvcci_tx_frame_bytes(f), l->now, &k->sample);
    if (f->where == UVCCI_IN_LOST && !f->probed)
        uvcci_link_cc_spurious(l, uvcci_tx_frame_bytes(f));
}

void uvcci_link_cc_ack_rtt(uvcc_link *l) {
    if (l->cc != NULL && l->cc->rtt != UVCC_NEVER)
        l->cc->cc.is->rtt(&l->cc->cc, l->cc->rtt);
}

/* All that this ACK told goes to the controller at once, and what was gathered is forgotten. */
void uvcci_link_cc_ack_done(uvcc_link *l) {
    uvcci_link_cc *k = l->cc;
    if (k == NULL)
        return;
    uvcci_rate_finish(&k->rate, &k->sample, l->tx.min_rtt);
    uvcci_cc_ack a = {
        .now = l->now,
        .inflight = l->tx.inflight,
        .delivered = k->rate.delivered,
        .lost = k->rate.lost,
        .rtt = k->rtt == UVCC_NEVER ? 0 : k->rtt,
        .srtt = l->stats.srtt_ns,
        .ce = k->ce_new,
        .window_full = k->rate.delivered < k->full_until,
        .rate = k->sample,
    };
    if (k->sample.rate != 0)
        k->delivery = k->sample.rate;
    uint64_t was = k->cc.rate;
    k->cc.is->acked(&k->cc, &a);
    pace_follow(l, was);
    if (k->cc.measures_nothing)
        uvcci_rate_limited(&k->rate, l->tx.inflight);
    if (k->original) /* the silence is over */
        k->silent_from = k->silent_to = k->silent_last = 0;
    k->ce_new = 0;
    k->rtt = UVCC_NEVER;
    k->original = false;
    memset(&k->sample, 0, sizeof k->sample);
}

/* RFC 9002, 7.6: frames sent so far apart, and none of them nor of those between was heard of. */
static uint64_t persistent_ns(const uvcc_link *l) {
    uint64_t vary = uvcci_max64(4 * l->stats.rttvar_ns, GRANULARITY_NS);
    return PERSISTENT_PERIODS * (l->stats.srtt_ns + vary + l->cfg.ack_delay_ns);
}

void uvcci_link_cc_lost(uvcc_link *l, const uvcci_tx_frame *f) {
    uvcci_link_cc *k = l->cc;
    if (k == NULL)
        return;
    assert(f->where == UVCCI_IN_SENT);
    uint64_t bytes = uvcci_tx_frame_bytes(f);
    k->rate.lost += bytes;
    uvcci_cc_loss loss = {
        .now = l->now,
        .sent_ns = f->sent_ns,
        .bytes = bytes,
        .inflight = l->tx.inflight,
        .tx_flight = f->rate.inflight,
        .lost_since = (uint32_t)((uint32_t)k->rate.lost - f->rate.lost),
        .delivered = k->rate.delivered,
        .app_limited = f->rate.app_limited,
    };
    k->cc.is->lost(&k->cc, &loss);
    if (l->stats.srtt_ns != 0 && k->silent_to > k->silent_from + persistent_ns(l)) {
        k->cc.is->persistent(&k->cc, l->now);
        l->stats.collapses++;
        k->silent_from = k->silent_to = k->silent_last = 0;
    }
}

/* The frames of this timeout may be those that are heard of at last; those of the one before were
 * in silence from beginning to end. */
void uvcci_link_cc_timeout(uvcc_link *l, uint32_t frames, uint64_t sent_ns) {
    uvcci_link_cc *k = l->cc;
    if (k == NULL)
        return;
    k->probes = frames;
    if (k->silent_from == 0)
        k->silent_from = sent_ns;
    k->silent_to = k->silent_last;
    k->silent_last = l->now;
}

void uvcci_link_cc_spurious(uvcc_link *l, uint64_t bytes) {
    if (l->cc != NULL)
        l->cc->cc.is->spurious(&l->cc->cc, bytes, l->now);
}

void uvcci_link_cc_marks(uvcc_link *l, uint32_t ce_packets) {
    if (l->cc == NULL)
        return;
    l->cc->ce_new += ce_packets - l->cc->ce_seen;
    l->cc->ce_seen = ce_packets;
}
