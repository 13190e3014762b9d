/* SPDX-License-Identifier: Apache-2.0 */
/* link_acked.c - acknowledgement, loss and the path, see link_acked.h.
 *
 * Loss (datagrams) is told by time and order of transmission, as RACK does: a frame is lost when
 * one sent after it was acknowledged and more than a round trip and an allowance for reordering
 * passed since it was sent. Silence is broken by sending the two oldest frames again, each time
 * after twice the wait. What it means for congestion is for link_cc to say. A late ack always
 * counts, so a timeout below the queueing delay costs a few frames and cannot livelock. */
#include "proto/link_acked.h"

#include <assert.h>

#include "proto/link_cc.h"
#include "proto/link_core.h"
#include "proto/link_flight.h"
#include "proto/link_path.h"
#include "proto/link_send.h"
#include "proto/mutant.h"

#define REORDER_EIGHTHS_MIN 1u
#define REORDER_EIGHTHS_MAX 32u
#define REORDER_KEEP        16u
#define TIMEOUT_FRAMES      2u
#define REFUSED_TIMEOUTS    4u
#define REFUSED_FRAMES      64u
#define FIRST_PING_NS       UINT64_C(10000000)

/* ---- time ---- */

uint64_t uvcci_tx_rto(const uvcc_link *l) {
    if (l->stats.srtt_ns == 0)
        return l->cfg.rto_initial_ns;
    uint64_t t = l->stats.srtt_ns + 4 * l->stats.rttvar_ns + l->cfg.ack_delay_ns;
    t = uvcci_max64(t, l->cfg.rto_min_ns);
    return uvcci_min64(t, l->cfg.rto_max_ns);
}

void uvcci_tx_rto_arm(uvcc_link *l) {
    if (l->tx.sent.first == 0 || (UVCCI_MUTANT(10) && l->tx.backoff != 0)) {
        l->tx.rto_at = UVCC_NEVER;
        return;
    }
    uint64_t wait = uvcci_min64(uvcci_tx_rto(l) << l->tx.backoff, l->cfg.rto_max_ns);
    l->tx.rto_at = uvcci_later(l->tx.rto_base, wait);
}

void uvcci_tx_ping_arm(uvcc_link *l) {
    bool accepting =
        l->cfg.datagram && !l->resting && l->tx.unreceived == 0 && l->tx.next != l->tx.cum + 1;
    if ((!uvcci_send_blocked(l) || UVCCI_MUTANT(11)) && !accepting) {
        l->tx.ping_at = UVCC_NEVER;
        l->tx.ping_wait = 0;
    } else if (l->tx.ping_at == UVCC_NEVER) {
        if (l->tx.ping_wait == 0)
            l->tx.ping_wait = l->tx.ack_counter == 0
                                  ? uvcci_min64(FIRST_PING_NS, l->cfg.rto_initial_ns)
                                  : uvcci_tx_rto(l);
        l->tx.ping_at = uvcci_later(l->now, l->tx.ping_wait);
    }
}

/* A new sample of the round trip, of a frame that was sent once (RFC 6298). */
static void rtt_sample(uvcc_link *l, uint64_t rtt) {
    uvcc_link_stats *s = &l->stats;
    rtt = uvcci_min64(uvcci_max64(rtt, 1), l->cfg.rto_max_ns);
    if (l->tx.min_rtt == 0 || rtt < l->tx.min_rtt)
        l->tx.min_rtt = rtt;
    if (s->srtt_ns == 0) {
        s->srtt_ns = rtt;
        s->rttvar_ns = rtt / 2;
    } else {
        uint64_t error = rtt > s->srtt_ns ? rtt - s->srtt_ns : s->srtt_ns - rtt;
        s->rttvar_ns = s->rttvar_ns - s->rttvar_ns / 4 + error / 4;
        s->srtt_ns = s->srtt_ns - s->srtt_ns / 8 + rtt / 8;
    }
}

/* ---- the allowance for reordering ----
 *
 * As RACK's (RFC 8985, 6.2 and 7.1): it grows with each round trip in which the peer tells of
 * frames that we sent again and that came all the same, and goes back after REORDER_KEEP round
 * trips with losses and no such word. RACK stops at a round trip; paths that reorder by more get
 * more here, since nothing but our own waiting depends on it. */

static void reorder_told(uvcc_link *l) {
    uvcci_reorder *r = &l->tx.reorder;
    r->keep = REORDER_KEEP;
    if (l->now < r->grow_at)
        return;
    r->grow_at = uvcci_later(l->now, l->stats.srtt_ns);
    r->eighths = (uint8_t)uvcci_min64(r->eighths + r->eighths / 2u + 1u, REORDER_EIGHTHS_MAX);
}

static void reorder_lost(uvcc_link *l) {
    uvcci_reorder *r = &l->tx.reorder;
    if (r->eighths == REORDER_EIGHTHS_MIN || l->now < r->lost_at)
        return;
    r->lost_at = uvcci_later(l->now, l->stats.srtt_ns);
    if (--r->keep == 0)
        r->eighths = REORDER_EIGHTHS_MIN;
}

/* Frames sent before the latest acknowledged one are lost once they are late. The list is in order
 * of transmission, so only its head is looked at. */
static void losses_detect(uvcc_link *l) {
    l->tx.loss_at = UVCC_NEVER;
    if (!l->tx.rack_valid)
        return;
    uint64_t rtt = uvcci_max64(l->tx.rack_rtt, l->stats.srtt_ns);
    uint64_t late = rtt + uvcci_max64(rtt / 8 * l->tx.reorder.eighths, 1000);
    while (l->tx.sent.first != 0) {
        uint64_t seq = uvcci_flight_seq(l, l->tx.sent.first);
        uvcci_tx_frame *f = uvcci_flight_at(l, seq);
        if ((int32_t)(f->xmit - l->tx.rack_xmit) >= 0)
            return;
        if (uvcci_later(f->sent_ns, late) > l->now) {
            l->tx.loss_at = uvcci_later(f->sent_ns, late);
            return;
        }
        reorder_lost(l);
        uvcci_link_cc_lost(l, f);
        uvcci_path_frame(l, f, false);
        uvcci_flight_lose(l, seq, f);
    }
}

/* ---- acknowledgement ----
 *
 * Two things are told: that a frame came (a range, or the cumulative ack if no range did before),
 * which ends its retransmission and is what times and losses are judged by; and that it and all
 * before it were accepted (the cumulative ack alone), which lets go of its bytes. */

/* What one ACK told: gathered over its frames, applied at the end. */
typedef struct ack_pass {
    bool any, sample;
    bool probe, original; /* a probed frame; one that was sent once */
    uint32_t probe_xmit;
    uint64_t rtt, probe_rtt;
} ack_pass;

static void rack_advance(uvcc_link *l, uint32_t xmit, uint64_t rtt) {
    l->tx.rack_valid = true;
    l->tx.rack_xmit = xmit;
    l->tx.rack_rtt = uvcci_min64(rtt, l->cfg.rto_max_ns);
    l->tx.maybe_at = UVCC_NEVER;
}

static bool rack_behind(const uvcc_link *l, uint32_t xmit) {
    return !l->tx.rack_valid || (int32_t)(xmit - l->tx.rack_xmit) > 0;
}

/* What a datagram frame's acknowledgement says about the transmissions before it. */
static void frame_timing(uvcc_link *l, const uvcci_tx_frame *f, ack_pass *pass) {
    uint64_t rtt = l->now - f->sent_ns;
    if (f->probed) {
        pass->probe = true;
        pass->probe_xmit = f->xmit;
        pass->probe_rtt = rtt;
        return;
    }
    if (!f->resent) {
        pass->original = true;
    } else if (rtt < l->tx.min_rtt - l->tx.min_rtt / 4) {
        return; /* the first transmission is what came */
    }
    if (!rack_behind(l, f->xmit))
        return;
    if (!f->resent && f->sent_ns < l->tx.timeout_ns) {
        /* There was silence since: the ACK is late, not the path long. */
        rack_advance(l, f->xmit, l->tx.rack_valid ? l->tx.rack_rtt : l->cfg.rto_initial_ns);
        return;
    }
    rack_advance(l, f->xmit, rtt);
    l->tx.backoff = 0;
    pass->sample = !f->resent;
    pass->rtt = rtt;
}

/* The peer has the frame. */
static void frame_received(uvcc_link *l, uvcci_tx_frame *f, ack_pass *pass) {
    pass->any = true;
    assert(l->tx.unreceived != 0 && f->msg->frames != 0);
    l->tx.unreceived--;
    if (l->cfg.datagram) {
        uvcci_path_frame(l, f, true);
        uvcci_link_cc_acked(l, f);
        frame_timing(l, f, pass);
    }
    uvcci_flight_unlist(l, f);
}

static void range_received(uvcc_link *l, uint64_t first, uint64_t last, ack_pass *pass) {
    assert(first > l->tx.cum && last < l->tx.next);
    for (uint64_t b = first / UVCCI_BLOCK_FRAMES; b <= last / UVCCI_BLOCK_FRAMES; b++) {
        uvcci_tx_block *block = l->tx.ring[b & (l->tx.ring_cap - 1)];
        uint64_t base = b * UVCCI_BLOCK_FRAMES, mask = ~UINT64_C(0);
        if (first > base)
            mask &= ~UINT64_C(0) << (first - base);
        if (last - base < UVCCI_BLOCK_FRAMES - 1)
            mask &= (UINT64_C(2) << (last - base)) - 1;
        uint64_t fresh = mask & ~block->received;
        block->received |= mask;
        for (; fresh != 0; fresh &= fresh - 1)
            frame_received(l, &block->frame[__builtin_ctzll(fresh)], pass);
    }
}

/* All up to seq was accepted: messages of which nothing is missing go. */
static void acked_cum(uvcc_link *l, uint64_t seq, ack_pass *pass) {
    if (seq <= l->tx.cum)
        return;
    range_received(l, l->tx.cum + 1, seq, pass);
    uint64_t old = l->tx.cum;
    for (uint64_t s = old + 1; s <= seq; s++) {
        uvcc_link_msg *m = uvcci_flight_at(l, s)->msg;
        assert(m->frames != 0);
        if (--m->frames == 0 && m->cut == m->len)
            uvcci_send_done(l, m);
    }
    l->tx.cum = seq;
    uvcci_flight_pass(l, old, seq);
}

/* The peer counts what came again. Of that, what we sent again was sent needlessly (the rest the
 * network doubled): losses were called too early. */
static void repeats_told(uvcc_link *l, uint32_t repeats) {
    uint32_t more = repeats - l->tx.repeats;
    uint64_t most = l->stats.retransmissions - l->stats.spurious;
    l->tx.repeats = repeats;
    if (!l->cfg.datagram || more == 0 || most == 0)
        return;
    l->stats.spurious += uvcci_min64(more, most);
    uvcci_link_cc_spurious(l, uvcci_min64(more, most) * UVCCI_PACKET_BYTES);
    reorder_told(l);
}

static void pass_finish(uvcc_link *l, const ack_pass *pass) {
    if (!pass->any || !l->cfg.datagram)
        return;
    if (pass->sample)
        rtt_sample(l, pass->rtt);
    /* A frame that a timeout sent again tells nothing for sure: its first transmission may have
     * come through a long queue. If it did, other first transmissions follow; so it counts only
     * after a while without any. */
    if (pass->original) {
        l->tx.maybe_at = UVCC_NEVER;
    } else if (pass->probe && rack_behind(l, pass->probe_xmit)) {
        l->tx.maybe_xmit = pass->probe_xmit;
        l->tx.maybe_rtt = pass->probe_rtt;
        uint64_t at = uvcci_later(l->now, uvcci_max64(uvcci_tx_rto(l), 2 * pass->probe_rtt));
        /* Not put off by what later timeouts bring, or a lost flight goes by two frames each. */
        l->tx.maybe_at = uvcci_min64(l->tx.maybe_at, at);
    }
    l->tx.rto_base = l->now;
    uvcci_link_cc_ack_rtt(l);
    losses_detect(l);
    uvcci_link_cc_ack_done(l);
    uvcci_tx_rto_arm(l);
}

bool uvcci_tx_cum_valid(const uvcc_link *l, uint64_t seq) {
    return seq >> 40 == l->run && seq < l->tx.next;
}

void uvcci_tx_cum(uvcc_link *l, uint64_t seq) {
    assert(uvcci_tx_cum_valid(l, seq));
    ack_pass pass = {0};
    acked_cum(l, seq, &pass);
    pass_finish(l, &pass);
}

bool uvcci_tx_ack_valid(const uvcc_link *l, const uvcci_ack *a) {
    if (!uvcci_tx_cum_valid(l, a->cum))
        return false;
    uint64_t above = a->cum;
    for (uint32_t i = 0; i < a->range_cnt; i++) {
        if (a->range[i][0] <= above || a->range[i][1] < a->range[i][0] ||
            a->range[i][1] >= l->tx.next)
            return false;
        above = a->range[i][1];
    }
    return true;
}

/* All that the peer does not have goes again, in order of seq. */
static void resume(uvcc_link *l) {
    l->tx.resume_at = UVCC_NEVER;
    for (uint64_t seq = l->tx.cum + 1; seq < l->tx.next; seq++) {
        uvcci_tx_block *b = *uvcci_flight_block(l, seq);
        if ((b->received >> seq % UVCCI_BLOCK_FRAMES & 1) == 0)
            uvcci_flight_lose(l, seq, &b->frame[seq % UVCCI_BLOCK_FRAMES]);
    }
}

void uvcci_tx_ack(uvcc_link *l, const uvcci_ack *a) {
    assert(uvcci_tx_ack_valid(l, a));
    if (a->counter <= l->tx.ack_counter)
        return;
    if (l->tx.ack_counter == 0)
        uvcci_path_begin(l);
    else
        uvcci_path_answered(l, a->ping_number);
    l->tx.ack_counter = a->counter;
    ack_pass pass = {0};
    acked_cum(l, a->cum, &pass);
    for (uint32_t i = 0; i < a->range_cnt; i++)
        if (a->range[i][1] > l->tx.cum)
            range_received(l, uvcci_max64(a->range[i][0], l->tx.cum + 1), a->range[i][1], &pass);
    repeats_told(l, a->repeats);
    uvcci_link_cc_marks(l, a->ce_packets);
    pass_finish(l, &pass);
    for (size_t i = 0; i < 2; i++)
        if (a->credit[i] > l->tx.cls[i].credit) {
            l->tx.cls[i].credit = a->credit[i];
            l->tx.ping_at = UVCC_NEVER;
        }
    if (l->tx.resume_at != UVCC_NEVER)
        resume(l);
    if (l->started)
        uvcci_tx_ping_arm(l);
}

/* ---- timers ---- */

/* Silence: the oldest frames go again, two of them. But a peer that answers and has received
 * nothing for several timeouts refuses what is in flight for want of room, and waits for other
 * frames: what it refuses may not fill the window for ever, so more of it leaves. */
static void timeout(uvcc_link *l) {
    bool refuses =
        l->tx.path.timeouts >= REFUSED_TIMEOUTS && l->tx.ack_counter != l->tx.timeout_acks;
    uint32_t frames = refuses ? REFUSED_FRAMES : TIMEOUT_FRAMES;
    l->tx.timeout_acks = l->tx.ack_counter;
    if (l->tx.sent.first != 0) {
        uint64_t oldest = uvcci_flight_seq(l, l->tx.sent.first);
        uvcci_link_cc_timeout(l, TIMEOUT_FRAMES, uvcci_flight_at(l, oldest)->sent_ns);
    }
    for (uint32_t i = 0; i < frames && l->tx.sent.first != 0; i++) {
        uint64_t seq = uvcci_flight_seq(l, l->tx.sent.first);
        uvcci_flight_lose(l, seq, uvcci_flight_at(l, seq));
        uvcci_flight_at(l, seq)->probed = 1;
    }
    if (uvcci_tx_rto(l) << l->tx.backoff < l->cfg.rto_max_ns)
        l->tx.backoff++;
    l->tx.rto_base = l->tx.timeout_ns = l->now;
    l->tx.min_rtt = 0; /* the path may be another now */
    uvcci_path_timeout(l);
    uvcci_tx_rto_arm(l);
}

void uvcci_tx_on_timer(uvcc_link *l) {
    if (l->now >= l->tx.resume_at)
        resume(l);
    if (!l->cfg.datagram)
        return;
    if (l->now >= l->tx.maybe_at) {
        rack_advance(l, l->tx.maybe_xmit, l->tx.maybe_rtt);
        l->tx.loss_at = l->now;
    }
    if (l->now >= l->tx.loss_at)
        losses_detect(l);
    if (l->now >= l->tx.rto_at)
        timeout(l);
}

void uvcci_acked_init(uvcc_link *l) {
    uvcci_tx_side *t = &l->tx;
    t->rto_at = t->loss_at = t->resume_at = t->maybe_at = UVCC_NEVER;
    t->reorder.eighths = REORDER_EIGHTHS_MIN;
}
