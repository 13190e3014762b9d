/* SPDX-License-Identifier: Apache-2.0 */
/* cc_bbr.c - BBR, after draft-ietf-ccwg-bbr; names of states and parameters are the draft's, where
 * `low` is short-term and `high` long-term. It models the path by the greatest delivery rate of two
 * cycles and the shortest round trip of ten seconds, paces at that rate and probes for more.
 *
 * Where it differs (docs/congestion.md says why): loss counts as congestion only while round trips
 * are longer than the shortest by a quarter and a millisecond; what is lost otherwise, even while
 * the flow sends slowly, is the path's own rate of loss, and is made up for. A round trip within
 * 1/64 of the shortest renews it.
 *
 * Invariants: window >= 4 segments; what is made up for falls with every cycle in which sending a
 * tenth slower lost less. */
#include "proto/cc_bbr.h"

#include <string.h>

#define MS     UINT64_C(1000000)
#define SECOND (1000 * MS)

/* Gains and rates in 1/256. */
#define GAIN_ONE        256u
#define TEST_GAIN       128u
#define BETA            179u /* 0.7 */
#define HEADROOM        38u  /* 0.15 */
#define FULL_GROWTH     320u /* 1.25 */
#define FULL_ROUNDS     3u
#define DRAIN_ROUNDS    3u
#define LOSS_THRESHOLD  1311u /* 2% in 2^-16 */
#define STARTUP_LOSSES  6u
#define FLOOR_MOST      24576u /* 3/8 in 2^-16: more is taken for less */
#define FLOOR_NONE      UINT32_MAX
#define TEST_SHIFT      6u
#define COUNT_SEGMENTS  128u
#define COUNT_ROUNDS    16u
#define RENO_ROUNDS     63u
#define EXTRA_ROUNDS    5u
#define PROBE_RTT_EVERY (5 * SECOND)
#define PROBE_RTT_NS    (200 * MS)
#define MIN_RTT_NS      (10 * SECOND)
#define RENEW_SHIFT     6u
#define GROWN_NS        MS
#define NONE_NS         (400 * MS / 1000)
#define RECOVER_SHIFT   4u
#define SHARE           8u

enum { ACKS_INIT, ACKS_REFILLING, ACKS_STARTING, ACKS_FEEDBACK, ACKS_STOPPING };
enum { UNDO_NOTHING, UNDO_STARTUP, UNDO_UP };

/* By state: pacing and window gain. */
static const struct {
    uint16_t pacing, window;
} gains[] = {
    [UVCCI_BBR_STARTUP] = {709, 512},   [UVCCI_BBR_DRAIN] = {128, 512},
    [UVCCI_BBR_DOWN] = {230, 512},      [UVCCI_BBR_CRUISE] = {256, 512},
    [UVCCI_BBR_REFILL] = {256, 512},    [UVCCI_BBR_UP] = {320, 576},
    [UVCCI_BBR_PROBE_RTT] = {256, 128},
};

static uint64_t min64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}
static uint64_t max64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}
static uint64_t scale(uint64_t v, uint64_t gain) {
    return v >> 54 != 0 ? v : v * gain / GAIN_ONE;
}
static uint64_t random_below(uvcci_cc *c, uint64_t n) {
    c->random += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = c->random;
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (z ^ z >> 31) % n;
}

/* ---- the model ---- */

static bool probing_states(const uvcci_bbr *b) {
    return b->state >= UVCCI_BBR_DOWN && b->state <= UVCCI_BBR_UP;
}

static uint64_t max_bw(const uvcci_bbr *b) {
    return max64(b->bw[0], b->bw[1]);
}

static uint64_t bw_of(const uvcci_bbr *b) {
    return min64(max_bw(b), b->bw_low);
}

/* There is a queue: round trips are longer than the shortest, by more than they vary. */
static bool delay_grown(const uvcci_bbr *b) {
    return b->min_rtt != UVCCI_CC_NONE && b->rtt_now > b->min_rtt + b->min_rtt / 4 + GROWN_NS;
}

/* There is no queue that we could tell from none. */
static bool delay_none(const uvcci_bbr *b) {
    return b->rtt_now <= b->min_rtt || b->rtt_now - b->min_rtt <= max64(b->min_rtt / 32, NONE_NS);
}

/* The path's own rate of loss. Where there is a queue, however short, losses may be its. */
static uint64_t floor_of(const uvcci_bbr *b) {
    if ((b->floor[0] == FLOOR_NONE && b->floor[1] == FLOOR_NONE) || !delay_none(b))
        return 0;
    uint64_t mean = b->floor[0] == FLOOR_NONE   ? b->floor[1]
                    : b->floor[1] == FLOOR_NONE ? b->floor[0]
                                                : ((uint64_t)b->floor[0] + b->floor[1]) / 2;
    return min64(mean, FLOOR_MOST);
}

static bool floor_known(const uvcci_bbr *b) {
    return b->floor[0] != FLOOR_NONE || b->floor[1] != FLOOR_NONE;
}

static uint64_t square_root(uint64_t v) {
    uint64_t r = 0;
    for (int bit = 31; bit >= 0; bit--) {
        uint64_t t = r | UINT64_C(1) << bit;
        if (t * t <= v)
            r = t;
    }
    return r;
}

static uint64_t least_window(const uvcci_cc *c) {
    return 4 * (uint64_t)c->segment;
}

static uint64_t bdp(const uvcci_cc *c, uint64_t bw, uint64_t gain) {
    const uvcci_bbr *b = &c->u.bbr;
    if (b->min_rtt == UVCCI_CC_NONE || bw == 0)
        return uvcci_cc_initial(c);
    return scale(uvcci_rate_bytes(bw, b->min_rtt), gain);
}

/* What has to be in flight at least, whatever the model says. */
static uint64_t quantized(const uvcci_cc *c, uint64_t inflight) {
    inflight = max64(inflight, max64(c->quantum, least_window(c)));
    return c->u.bbr.state == UVCCI_BBR_UP ? inflight + 2 * (uint64_t)c->segment : inflight;
}

static uint64_t with_headroom(const uvcci_cc *c) {
    uint64_t high = c->u.bbr.inflight_high;
    if (high == UVCCI_CC_NONE)
        return UVCCI_CC_NONE;
    uint64_t room = max64(c->segment, scale(high, HEADROOM));
    return max64(high - min64(room, high), least_window(c));
}

/* More was lost than the threshold and the path's own rate of loss. If no delay speaks for it, more
 * by what chance can do, too: three standard deviations. */
static bool too_high(const uvcci_cc *c, uint64_t lost, uint64_t inflight) {
    const uvcci_bbr *b = &c->u.bbr;
    uint64_t expected = (inflight * (LOSS_THRESHOLD + floor_of(b))) >> 16;
    if (delay_grown(b))
        return lost > expected;
    if (!floor_known(b))
        return false;
    return lost > expected + 3 * square_root(expected * c->segment);
}

static void round_begin(uvcci_bbr *b, uint64_t delivered) {
    b->round_end = delivered;
}

static void full_reset(uvcci_bbr *b, uint64_t rate) {
    b->full_bw = rate;
    b->full_count = 0;
    b->full_now = false;
}

static void low_reset(uvcci_bbr *b) {
    b->bw_low = b->inflight_low = UVCCI_CC_NONE;
}

/* ---- states ---- */

static void down_begin(uvcci_cc *c, uint64_t now, uint64_t delivered) {
    uvcci_bbr *b = &c->u.bbr;
    b->loss_in_round = false;
    b->bw_latest = b->inflight_latest = 0;
    b->up_per_step = UVCCI_CC_NONE;
    b->rounds_since_up = (uint32_t)random_below(c, 2);
    b->probe_wait = 2 * SECOND + random_below(c, SECOND);
    b->cycle_at = now;
    b->ack_phase = ACKS_STOPPING;
    b->phase_round = b->rounds;
    uint64_t lost = b->lost_now - b->cycle_lost, all = lost + delivered - b->cycle_delivered;
    b->testing = lost > all >> TEST_SHIFT;
    if (!b->testing)
        b->floor[0] = 0;
    b->cycle_lost = b->lost_now;
    b->cycle_delivered = delivered;
    round_begin(b, delivered);
    b->state = UVCCI_BBR_DOWN;
}

static void cruise_begin(uvcci_bbr *b) {
    b->phase_round = b->rounds;
    b->state = UVCCI_BBR_CRUISE;
}

static void refill_begin(uvcci_bbr *b, uint64_t delivered) {
    low_reset(b);
    b->up_rounds = 0;
    b->up_acked = 0;
    b->prev_careful = false;
    b->ack_phase = ACKS_REFILLING;
    round_begin(b, delivered);
    b->state = UVCCI_BBR_REFILL;
}

static void slope_raise(uvcci_cc *c) {
    uvcci_bbr *b = &c->u.bbr;
    b->up_per_step = max64(c->window >> b->up_rounds, c->segment);
    if (b->up_rounds < 30)
        b->up_rounds++;
}

static void up_begin(uvcci_cc *c, const uvcci_cc_ack *a) {
    uvcci_bbr *b = &c->u.bbr;
    b->ack_phase = ACKS_STARTING;
    round_begin(b, a->delivered);
    full_reset(b, a->rate.rate);
    b->state = UVCCI_BBR_UP;
    slope_raise(c);
}

static void drain_begin(uvcci_bbr *b) {
    b->state = UVCCI_BBR_DRAIN;
    b->phase_round = b->rounds;
}

/* ---- loss ---- */

/* The first congestion of an episode: what may have to be undone. */
static void episode_begin(uvcci_cc *c, uint64_t delivered) {
    uvcci_bbr *b = &c->u.bbr;
    if (b->loss_in_round)
        return;
    b->loss_round_end = delivered;
    b->losses = 0;
    b->undo_bytes = 0;
    b->undo = UNDO_NOTHING;
    b->prior_window =
        b->state == UVCCI_BBR_PROBE_RTT ? max64(b->prior_window, c->window) : c->window;
    b->undo_bw_low = b->bw_low;
    b->undo_inflight_low = b->inflight_low;
    b->undo_inflight_high = b->inflight_high;
    b->loss_in_round = true;
}

/* More was in flight than the path bears: that is the bound now, and enough of probing. */
static void handle_too_high(uvcci_cc *c, uint64_t inflight, bool app_limited, uint64_t now,
                            uint64_t delivered) {
    uvcci_bbr *b = &c->u.bbr;
    b->prev_too_high = true;
    b->probe_sample = false;
    if (!app_limited) {
        uint64_t target = min64(bdp(c, bw_of(b), GAIN_ONE), c->window);
        b->inflight_high = max64(inflight, scale(target, BETA));
    }
    if (b->state == UVCCI_BBR_UP) {
        b->undo = UNDO_UP;
        down_begin(c, now, delivered);
        b->loss_in_round = true; /* the episode goes on */
        b->loss_round_end = delivered;
    }
}

/* How much was in flight when losses passed the threshold: the frame may have been a long one. */
static uint64_t inflight_at_loss(const uvcci_cc_loss *l) {
    uint64_t before = l->tx_flight - min64(l->bytes, l->tx_flight);
    uint64_t lost = l->lost_since - min64(l->bytes, l->lost_since);
    uint64_t allowed = (before * LOSS_THRESHOLD) >> 16;
    uint64_t prefix = allowed > lost ? (allowed - lost) * 65536 / (65536 - LOSS_THRESHOLD) : 0;
    return before + prefix;
}

static void bbr_lost(uvcci_cc *c, const uvcci_cc_loss *l) {
    uvcci_bbr *b = &c->u.bbr;
    if (!delay_grown(b))
        return; /* see excess_check */
    episode_begin(c, l->delivered);
    b->losses++;
    b->undo_bytes += l->bytes;
    if (b->probe_sample && too_high(c, l->lost_since, l->tx_flight))
        handle_too_high(c, inflight_at_loss(l), l->app_limited, l->now, l->delivered);
}

/* Marks are congestion whatever the delay is, and count as losses do. */
static void marks(uvcci_cc *c, const uvcci_cc_ack *a) {
    uvcci_bbr *b = &c->u.bbr;
    if (a->ce == 0)
        return;
    episode_begin(c, a->delivered);
    b->losses += STARTUP_LOSSES;
    b->marked += (uint64_t)a->ce * c->segment;
    if (b->probe_sample && b->marked > (a->rate.inflight * LOSS_THRESHOLD) >> 16)
        handle_too_high(c, a->rate.inflight, a->rate.app_limited, a->now, a->delivered);
}

/* Once a round with congestion, outside of probes: down to what is delivered. */
static void low_adapt(uvcci_cc *c) {
    uvcci_bbr *b = &c->u.bbr;
    if (b->state == UVCCI_BBR_STARTUP || b->state == UVCCI_BBR_REFILL || b->state == UVCCI_BBR_UP)
        return;
    if (b->bw_low == UVCCI_CC_NONE)
        b->bw_low = max_bw(b);
    if (b->inflight_low == UVCCI_CC_NONE)
        b->inflight_low = c->window;
    b->bw_low = max64(b->bw_latest, scale(b->bw_low, BETA));
    /* What is lost takes its part of the flight, and an eighth longer than what comes. */
    uint64_t part = floor_of(b), latest = b->inflight_latest;
    latest += latest * (part + part / 8) / (65536 - part);
    b->inflight_low = max64(latest, scale(b->inflight_low, BETA));
}

/* Without delay, one look in a round: did it lose more than the path does by itself, and more than
 * chance does? */
static void excess_check(uvcci_cc *c, const uvcci_cc_ack *a) {
    uvcci_bbr *b = &c->u.bbr;
    if (!b->round_start || delay_grown(b) || b->loss_in_round ||
        !too_high(c, a->rate.lost, a->rate.inflight))
        return;
    episode_begin(c, a->delivered);
    b->losses = STARTUP_LOSSES;
    if (b->probe_sample)
        handle_too_high(c, a->rate.inflight, a->rate.app_limited, a->now, a->delivered);
}

/* A round without any: up again, by a part that leaves Reno its time. */
static void low_recover(uvcci_bbr *b) {
    if (b->bw_low != UVCCI_CC_NONE)
        b->bw_low += b->bw_low >> RECOVER_SHIFT;
    if (b->inflight_low != UVCCI_CC_NONE)
        b->inflight_low += b->inflight_low >> RECOVER_SHIFT;
}

/* All that was told as lost in this episode was there: back to where it began. */
static void bbr_spurious(uvcci_cc *c, uint64_t bytes, uint64_t now) {
    uvcci_bbr *b = &c->u.bbr;
    (void)now;
    if (b->undo_bytes == 0)
        return;
    b->undo_bytes -= min64(b->undo_bytes, bytes);
    if (b->undo_bytes != 0)
        return;
    c->window = max64(c->window, b->prior_window);
    b->loss_in_round = false;
    full_reset(b, 0);
    b->bw_low = max64(b->bw_low, b->undo_bw_low);
    b->inflight_low = max64(b->inflight_low, b->undo_inflight_low);
    b->inflight_high = max64(b->inflight_high, b->undo_inflight_high);
    if (b->undo == UNDO_STARTUP) {
        b->full_reached = false;
        if (b->state != UVCCI_BBR_PROBE_RTT)
            b->state = UVCCI_BBR_STARTUP;
    } else if (b->undo == UNDO_UP && probing_states(b) && b->state != UVCCI_BBR_UP) {
        refill_begin(b, b->round_end);
    }
    b->undo = UNDO_NOTHING;
}

/* ---- what an ACK says ---- */

static void latest_update(uvcci_bbr *b, const uvcci_cc_ack *a) {
    b->loss_round_start = false;
    b->bw_latest = max64(b->bw_latest, a->rate.rate);
    b->inflight_latest = max64(b->inflight_latest, a->rate.delivered);
    if (a->rate.prior_delivered >= b->loss_round_end) {
        b->loss_round_end = a->delivered;
        b->loss_round_start = true;
    }
}

static void round_update(uvcci_bbr *b, const uvcci_cc_ack *a) {
    b->round_start = a->rate.prior_delivered >= b->round_end;
    if (b->round_start) {
        b->marked = 0;
        round_begin(b, a->delivered);
        b->rounds++;
        b->rounds_since_up++;
    }
    if (a->rate.rate != 0 && (a->rate.rate >= max_bw(b) || !a->rate.app_limited))
        b->bw[0] = max64(b->bw[0], a->rate.rate);
}

/* The path's own loss is what it loses while we send half of what it bears: DOWN tests it if the
 * cycle lost anything to speak of. What too many senders lose gets less by that, if only by our
 * part; so those who share a short queue come down together. */
static void floor_test(uvcci_cc *c, const uvcci_cc_ack *a) {
    uvcci_bbr *b = &c->u.bbr;
    b->lost_now = a->lost;
    if (b->state != UVCCI_BBR_DOWN || !b->testing || !b->round_start)
        return;
    if (b->rounds == b->phase_round + 1) { /* what was sent before has been heard of */
        b->count_delivered = a->delivered;
        b->count_lost = a->lost;
        return;
    }
    uint64_t lost = a->lost - b->count_lost, all = lost + a->delivered - b->count_delivered;
    if (all < COUNT_SEGMENTS * (uint64_t)c->segment && b->rounds < b->phase_round + COUNT_ROUNDS)
        return;
    b->floor[0] = all == 0 ? 0 : (uint32_t)(lost * 65536 / all);
    b->testing = false;
}

static void extra_update(uvcci_cc *c, const uvcci_cc_ack *a) {
    uvcci_bbr *b = &c->u.bbr;
    uint64_t expected = uvcci_rate_bytes(bw_of(b), a->now - b->extra_at);
    if (b->extra_bytes <= expected) {
        b->extra_bytes = 0;
        b->extra_at = a->now;
        expected = 0;
    }
    b->extra_bytes += a->rate.acked;
    if (b->rounds - b->extra_round >= (b->full_reached ? EXTRA_ROUNDS : 1)) {
        b->extra[1] = b->extra[0];
        b->extra[0] = 0;
        b->extra_round = b->rounds;
    }
    b->extra[0] = max64(b->extra[0], min64(b->extra_bytes - expected, c->window));
}

static void full_check(uvcci_bbr *b, const uvcci_cc_ack *a) {
    if (b->full_now || !b->round_start || a->rate.app_limited)
        return;
    if (a->rate.rate >= scale(b->full_bw, FULL_GROWTH)) {
        full_reset(b, a->rate.rate);
        return;
    }
    if (++b->full_count >= FULL_ROUNDS)
        b->full_now = b->full_reached = true;
}

/* STARTUP ends when the rate grows no more, or when a round lost too much. */
static void startup_check(uvcci_cc *c, const uvcci_cc_ack *a, bool lossy) {
    uvcci_bbr *b = &c->u.bbr;
    if (b->state != UVCCI_BBR_STARTUP)
        return;
    if (!b->full_reached && lossy && b->losses >= STARTUP_LOSSES &&
        (a->ce != 0 || too_high(c, a->rate.lost, a->rate.inflight))) {
        b->full_reached = true;
        b->undo = UNDO_STARTUP;
        b->inflight_high = max64(bdp(c, bw_of(b), GAIN_ONE), b->inflight_latest);
    }
    if (b->full_reached)
        drain_begin(b);
}

static void drain_check(uvcci_cc *c, const uvcci_cc_ack *a) {
    uvcci_bbr *b = &c->u.bbr;
    if (b->state == UVCCI_BBR_DRAIN && (a->inflight <= quantized(c, bdp(c, bw_of(b), GAIN_ONE)) ||
                                        b->rounds > b->phase_round + DRAIN_ROUNDS))
        down_begin(c, a->now, a->delivered);
}

/* ---- the cycle ---- */

static bool time_to_probe(uvcci_cc *c, const uvcci_cc_ack *a) {
    uvcci_bbr *b = &c->u.bbr;
    uint64_t segments = min64(bdp(c, bw_of(b), GAIN_ONE), c->window) / c->segment;
    if (a->now <= b->cycle_at + b->probe_wait && b->rounds_since_up < min64(segments, RENO_ROUNDS))
        return false;
    if (!delay_grown(b))
        refill_begin(b, a->delivered);
    else if (b->state == UVCCI_BBR_CRUISE) /* the path is full, and not of ours */
        down_begin(c, a->now, a->delivered);
    else
        return false;
    return true;
}

static bool time_to_cruise(const uvcci_cc *c, const uvcci_cc_ack *a) {
    const uvcci_bbr *b = &c->u.bbr;
    if (b->testing)
        return false;
    if (floor_of(b) != 0 && !delay_grown(b))
        return true; /* what is lost is in flight for longer: the delay tells */
    if (delay_grown(b) && b->rounds > b->phase_round + DRAIN_ROUNDS)
        return true; /* what is left of the queue is not ours */
    return a->inflight <= with_headroom(c) &&
           a->inflight <= quantized(c, bdp(c, max_bw(b), GAIN_ONE));
}

static bool time_to_go_down(uvcci_cc *c, const uvcci_cc_ack *a) {
    uvcci_bbr *b = &c->u.bbr;
    if (b->prev_too_high && a->inflight >= b->inflight_high) {
        b->prev_careful = true;
        return true;
    }
    if (a->window_full && c->window >= b->inflight_high)
        full_reset(b, a->rate.rate);
    else if (b->full_now)
        return true;
    return false;
}

/* UP at its bound raises it, slowly at first and twice as fast each round. */
static void high_raise(uvcci_cc *c, const uvcci_cc_ack *a) {
    uvcci_bbr *b = &c->u.bbr;
    if (!a->window_full || c->window < b->inflight_high)
        return;
    b->up_acked += a->rate.acked;
    if (b->up_acked >= b->up_per_step) {
        uint64_t steps = b->up_acked / b->up_per_step;
        b->up_acked -= steps * b->up_per_step;
        b->inflight_high += steps * c->segment;
    }
    if (b->round_start)
        slope_raise(c);
}

static void filters_advance(uvcci_bbr *b) {
    if (b->bw[0] == 0)
        return; /* nothing was measured in this cycle */
    b->bw[1] = b->bw[0];
    b->bw[0] = 0;
    b->floor[1] = b->floor[0];
    b->floor[0] = FLOOR_NONE;
}

/* The long-term model; true: it has changed the state. */
static bool high_adapt(uvcci_cc *c, const uvcci_cc_ack *a) {
    uvcci_bbr *b = &c->u.bbr;
    if (b->ack_phase == ACKS_STARTING && b->round_start)
        b->ack_phase = ACKS_FEEDBACK;
    if (b->ack_phase == ACKS_STOPPING && b->round_start) {
        b->probe_sample = false;
        b->ack_phase = ACKS_INIT;
        if (probing_states(b) && !a->rate.app_limited)
            filters_advance(b);
        if (probing_states(b) && b->prev_careful && !b->prev_too_high) {
            refill_begin(b, a->delivered);
            return true;
        }
    }
    if (b->inflight_high == UVCCI_CC_NONE || too_high(c, a->rate.lost, a->rate.inflight))
        return false;
    b->inflight_high = max64(b->inflight_high, a->rate.inflight);
    if (b->state == UVCCI_BBR_UP)
        high_raise(c, a);
    return false;
}

static void cycle_update(uvcci_cc *c, const uvcci_cc_ack *a) {
    uvcci_bbr *b = &c->u.bbr;
    if (!b->full_reached || high_adapt(c, a))
        return;
    switch (b->state) {
    case UVCCI_BBR_DOWN:
        if (!time_to_probe(c, a) && time_to_cruise(c, a))
            cruise_begin(b);
        break;
    case UVCCI_BBR_CRUISE:
        (void)time_to_probe(c, a);
        break;
    case UVCCI_BBR_REFILL:
        if (b->round_start) {
            b->probe_sample = true;
            up_begin(c, a);
        }
        break;
    case UVCCI_BBR_UP:
        if (time_to_go_down(c, a)) {
            b->prev_too_high = false;
            down_begin(c, a->now, a->delivered);
        }
        break;
    default:
        break;
    }
}

/* ---- the shortest round trip ---- */

static void min_rtt_update(uvcci_bbr *b, const uvcci_cc_ack *a) {
    b->probe_expired = a->now > b->probe_rtt_at + PROBE_RTT_EVERY;
    if (a->rtt != 0) {
        /* As short as it ever was: the queue is empty, there is no need to make it so. */
        if (b->min_rtt != UVCCI_CC_NONE && a->rtt <= b->min_rtt + (b->min_rtt >> RENEW_SHIFT)) {
            b->min_rtt_at = b->probe_rtt_at = a->now;
            b->probe_rtt = min64(b->probe_rtt, a->rtt);
            b->probe_expired = false;
        } else if (a->rtt < b->probe_rtt || b->probe_expired) {
            b->probe_rtt = a->rtt;
            b->probe_rtt_at = a->now;
        }
    }
    if (b->probe_rtt < b->min_rtt || a->now > b->min_rtt_at + MIN_RTT_NS) {
        b->min_rtt = b->probe_rtt;
        b->min_rtt_at = b->probe_rtt_at;
    }
}

static uint64_t probe_rtt_window(const uvcci_cc *c) {
    const uvcci_bbr *b = &c->u.bbr;
    return max64(bdp(c, bw_of(b), gains[UVCCI_BBR_PROBE_RTT].window), least_window(c));
}

static void probe_rtt_done(uvcci_cc *c, uint64_t now) {
    uvcci_bbr *b = &c->u.bbr;
    if (b->probe_done_at == 0 || now <= b->probe_done_at)
        return;
    b->probe_rtt_at = now;
    c->window = max64(c->window, b->prior_window);
    low_reset(b);
    if (!b->full_reached) {
        b->state = UVCCI_BBR_STARTUP;
        return;
    }
    down_begin(c, now, b->round_end);
    cruise_begin(b); /* the queue is empty already */
}

static void probe_rtt_check(uvcci_cc *c, const uvcci_cc_ack *a) {
    uvcci_bbr *b = &c->u.bbr;
    if (b->state != UVCCI_BBR_PROBE_RTT && b->probe_expired && !b->idle_restart) {
        b->prior_window = b->loss_in_round ? max64(b->prior_window, c->window) : c->window;
        b->state = UVCCI_BBR_PROBE_RTT;
        b->probe_done_at = 0;
        b->ack_phase = ACKS_STOPPING;
        round_begin(b, a->delivered);
    }
    if (b->state == UVCCI_BBR_PROBE_RTT) {
        if (b->probe_done_at == 0 && a->inflight <= probe_rtt_window(c)) {
            b->probe_done_at = a->now + PROBE_RTT_NS;
            b->probe_round_done = false;
            round_begin(b, a->delivered);
        } else if (b->probe_done_at != 0) {
            b->probe_round_done |= b->round_start;
            if (b->probe_round_done)
                probe_rtt_done(c, a->now);
        }
    }
    if (a->rate.acked != 0)
        b->idle_restart = false;
    c->measures_nothing = b->state == UVCCI_BBR_PROBE_RTT;
}

/* ---- the answers ---- */

/* Others fill the queue too, for we drained what was ours: then this much may be in flight, what is
 * delivered now in the shortest round trip, and SHARE times the root of that in segments. Flows
 * that keep to it come to equal rates, whatever they had. */
static bool shares(const uvcci_bbr *b) {
    return b->state == UVCCI_BBR_CRUISE && b->rounds > b->phase_round + 1 && delay_grown(b);
}

static uint64_t share_of(const uvcci_cc *c, const uvcci_cc_ack *a) {
    const uvcci_bbr *b = &c->u.bbr;
    uint64_t now = uvcci_rate_bytes(max64(b->bw_latest, a->rate.rate), b->min_rtt);
    return now + SHARE * c->segment * square_root(now / c->segment);
}

/* One percent below the model; above it by what the path loses by itself. */
static void set_rate(uvcci_cc *c, uint64_t gain) {
    uvcci_bbr *b = &c->u.bbr;
    if (b->state == UVCCI_BBR_DOWN && b->testing)
        gain = TEST_GAIN;
    uint64_t rate = scale(bw_of(b), gain) / 100 * 99;
    if (!delay_grown(b))
        rate = rate * 65536 / (65536 - floor_of(b));
    else if (shares(b) && b->bw_low >= max_bw(b))
        rate = max64(rate, scale(b->bw_latest, gains[UVCCI_BBR_UP].pacing)); /* see share_of */
    if (b->rtt_now != 0) /* what the least window lets through is not worth a wait */
        rate = max64(rate, uvcci_rate_of(least_window(c), b->rtt_now));
    if (b->full_reached || rate > c->rate)
        uvcci_cc_pace(c, rate);
}

static void set_window(uvcci_cc *c, const uvcci_cc_ack *a) {
    uvcci_bbr *b = &c->u.bbr;
    uint64_t most =
        quantized(c, bdp(c, bw_of(b), gains[b->state].window) + max64(b->extra[0], b->extra[1]));
    if (b->full_reached)
        c->window = min64(c->window + a->rate.acked, most);
    else if (c->window < most || a->delivered < uvcci_cc_initial(c))
        c->window += a->rate.acked;
    uint64_t cap = UVCCI_CC_NONE;
    if (b->state == UVCCI_BBR_PROBE_RTT)
        cap = min64(probe_rtt_window(c), with_headroom(c));
    else if (b->state == UVCCI_BBR_CRUISE)
        cap = with_headroom(c);
    else if (probing_states(b))
        cap = b->inflight_high;
    if (b->state == UVCCI_BBR_DOWN && delay_grown(b)) /* what is ours of the queue goes */
        cap = min64(cap, quantized(c, bdp(c, max_bw(b), GAIN_ONE)));
    if (shares(b)) /* what others leave decides, not what they left once */
        cap = share_of(c, a);
    cap = min64(cap, b->inflight_low);
    c->window = max64(min64(c->window, cap), least_window(c));
}

/* The draft's order: the model, the state that it suggests, the answers. What a round told is read
 * before the round is forgotten. */
static void bbr_acked(uvcci_cc *c, const uvcci_cc_ack *a) {
    uvcci_bbr *b = &c->u.bbr;
    marks(c, a);
    if (!a->rate.any)
        return;
    if (!b->seen_rtt && a->srtt != 0) {
        b->seen_rtt = true;
        c->rate = 0;
        uint64_t initial = uvcci_cc_initial(c) * SECOND / a->srtt;
        uvcci_cc_pace(c, scale(initial, gains[UVCCI_BBR_STARTUP].pacing));
    }
    latest_update(b, a);
    round_update(b, a);
    bool lossy = b->loss_round_start && b->loss_in_round;
    if (lossy)
        low_adapt(c);
    else if (b->loss_round_start)
        low_recover(b);
    if (b->loss_round_start)
        b->loss_in_round = false;
    excess_check(c, a);
    floor_test(c, a);
    extra_update(c, a);
    full_check(b, a);
    startup_check(c, a, lossy);
    drain_check(c, a);
    cycle_update(c, a);
    min_rtt_update(b, a);
    probe_rtt_check(c, a);
    if (b->loss_round_start) {
        b->bw_latest = a->rate.rate;
        b->inflight_latest = a->rate.delivered;
    }
    set_rate(c, gains[b->state].pacing);
    set_window(c, a);
}

/* ---- the rest ---- */

static void bbr_init(uvcci_cc *c, uint64_t now) {
    uvcci_bbr *b = &c->u.bbr;
    memset(b, 0, sizeof *b);
    b->bw_low = b->inflight_low = b->inflight_high = UVCCI_CC_NONE;
    b->min_rtt = b->probe_rtt = b->up_per_step = UVCCI_CC_NONE;
    b->min_rtt_at = b->probe_rtt_at = b->extra_at = now;
    b->floor[0] = b->floor[1] = FLOOR_NONE;
    b->state = UVCCI_BBR_STARTUP;
    c->window = uvcci_cc_initial(c);
    uvcci_cc_pace(c, scale(c->window * 1000, gains[UVCCI_BBR_STARTUP].pacing)); /* in 1 ms */
}

static void bbr_sent(uvcci_cc *c, bool idle, uint64_t now) {
    uvcci_bbr *b = &c->u.bbr;
    if (!idle)
        return;
    b->idle_restart = true;
    b->extra_at = now;
    b->extra_bytes = 0;
    if (probing_states(b))
        set_rate(c, GAIN_ONE);
    else if (b->state == UVCCI_BBR_PROBE_RTT)
        probe_rtt_done(c, now);
}

static void bbr_rtt(uvcci_cc *c, uint64_t rtt) {
    uvcci_bbr *b = &c->u.bbr;
    b->rtt_now = b->rtt_now == 0 ? rtt : b->rtt_now - b->rtt_now / 4 + rtt / 4;
}

static void bbr_persistent(uvcci_cc *c, uint64_t now) {
    uvcci_bbr *b = &c->u.bbr;
    (void)now;
    b->prior_window = 0; /* nothing to go back to at once */
    b->undo = UNDO_NOTHING;
    b->undo_bytes = 0;
    c->window = least_window(c);
}

const uvcci_cc_class uvcci_cc_bbr = {
    .init = bbr_init,
    .sent = bbr_sent,
    .rtt = bbr_rtt,
    .lost = bbr_lost,
    .acked = bbr_acked,
    .persistent = bbr_persistent,
    .spurious = bbr_spurious,
};
