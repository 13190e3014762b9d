/* SPDX-License-Identifier: Apache-2.0 */
/* cc_cubic.c - CUBIC, after RFC 9438: W(t) = C (t - K)^3 + W_max with C = 0.4 segments / s^3,
 * reduction to 0.7, fast convergence, and the region in which it does what Reno would. Slow start
 * ends at the first loss, at a mark, or where round trips grow (the test of HyStart++, RFC 9406).
 * Paced at 2 windows a round trip in slow start, then at 1.25.
 *
 * Time is counted in ms, so that everything fits 64 bits: no window is looked at more than 100 s
 * from its W_max.
 *
 * Invariants: window >= 2 segments; at most one reduction for what was sent in one round trip. */
#include "proto/cc_cubic.h"

#include <string.h>

#define MS            UINT64_C(1000000)
#define FAR_MS        100000u
#define RTT_DEFAULT   (100 * MS)
#define ROUND_SAMPLES 8u

static uint64_t min64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}
static uint64_t max64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static uint64_t least_window(const uvcci_cc *c) {
    return 2 * (uint64_t)c->segment;
}

/* The greatest r with r^3 <= v. */
static uint64_t cube_root(uint64_t v) {
    uint64_t r = 0;
    for (int bit = 21; bit >= 0; bit--) {
        uint64_t t = r | UINT64_C(1) << bit;
        if (t <= 2642245 && t * t * t <= v) /* its cube fits 64 bits */
            r = t;
    }
    return r;
}

uint64_t uvcci_cubic_k_ms(uint64_t w_max, uint64_t start, uint32_t segment) {
    if (w_max <= start)
        return 0;
    /* K^3 = (W_max - start) / (0.4 segment) in s^3; 10^9 / 0.4 = 25 * 10^8 for ms^3. */
    const uint64_t most = UINT64_MAX / UINT64_C(2500000000);
    return min64(cube_root(min64(w_max - start, most) * UINT64_C(2500000000) / segment), FAR_MS);
}

uint64_t uvcci_cubic_window(uint64_t w_max, uint64_t k_ms, uint64_t t_ms, uint32_t segment) {
    uint64_t d = min64(t_ms > k_ms ? t_ms - k_ms : k_ms - t_ms, FAR_MS);
    /* 0.4 segment d^3 / 10^9; d^3 <= 10^15. */
    uint64_t by = d * d * d / 1000 * segment / UINT64_C(2500000);
    if (t_ms >= k_ms)
        return w_max + by;
    return w_max > by ? w_max - by : 0;
}

/* ---- reduction ---- */

static void pace(uvcci_cc *c, uint64_t srtt) {
    uint64_t rtt = srtt == 0 ? RTT_DEFAULT : srtt;
    uint64_t per_second = c->window * (UINT64_C(1000000000) / 1000) / max64(rtt / 1000, 1);
    uvcci_cc_pace(c,
                  c->window < c->u.cubic.threshold ? 2 * per_second : per_second + per_second / 4);
}

static void reduce(uvcci_cc *c, uint64_t now) {
    uvcci_cubic *q = &c->u.cubic;
    q->recovery_at = now;
    q->undo_window = c->window;
    q->undo_threshold = q->threshold;
    q->undo_w_max = q->w_max;
    q->can_undo = true;
    q->reduced = 0;
    q->prior = c->window;
    /* Fast convergence: less than last time, so somebody else is growing. */
    q->w_max = c->window < q->w_max ? c->window / 20 * 17 : c->window;
    c->window = max64(c->window / 10 * 7, least_window(c));
    q->threshold = c->window;
    q->epoch_at = UVCCI_CC_NONE;
}

static void cubic_lost(uvcci_cc *c, const uvcci_cc_loss *l) {
    uvcci_cubic *q = &c->u.cubic;
    if (l->sent_ns > q->recovery_at || q->recovery_at == 0)
        reduce(c, l->now);
    q->reduced += l->bytes < UINT32_MAX - q->reduced ? (uint32_t)l->bytes : 0;
}

static void cubic_persistent(uvcci_cc *c, uint64_t now) {
    uvcci_cubic *q = &c->u.cubic;
    (void)now;
    c->window = least_window(c);
    q->epoch_at = UVCCI_CC_NONE;
    q->recovery_at = 0;
    q->can_undo = false;
}

static void cubic_spurious(uvcci_cc *c, uint64_t bytes, uint64_t now) {
    uvcci_cubic *q = &c->u.cubic;
    (void)now;
    q->reduced -= q->reduced < bytes ? q->reduced : (uint32_t)bytes;
    if (!q->can_undo || q->reduced != 0)
        return;
    c->window = max64(c->window, q->undo_window);
    q->threshold = q->undo_threshold;
    q->w_max = q->undo_w_max;
    q->epoch_at = UVCCI_CC_NONE;
    q->can_undo = false;
}

/* ---- growth ---- */

/* HyStart++'s test: the shortest of this round's round trips is longer than that of the last. */
static bool delay_grows(uvcci_cubic *q, const uvcci_cc_ack *a) {
    if (a->rate.any && a->rate.prior_delivered >= q->round_end) {
        q->round_end = a->delivered;
        q->last_rtt = q->round_rtt;
        q->round_rtt = UVCCI_CC_NONE;
        q->round_samples = 0;
    }
    if (a->rtt == 0)
        return false;
    q->round_rtt = min64(q->round_rtt, a->rtt);
    if (++q->round_samples < ROUND_SAMPLES || q->last_rtt == UVCCI_CC_NONE)
        return false;
    return q->round_rtt >= q->last_rtt + min64(max64(q->last_rtt / 8, 4 * MS), 16 * MS);
}

/* A part of a byte for each byte acknowledged: nothing is lost to rounding. */
static void grow_by(uvcci_cc *c, uint64_t bytes, uint64_t per) {
    uvcci_cubic *q = &c->u.cubic;
    q->frac += bytes;
    c->window += q->frac / per;
    q->frac %= per;
}

/* Towards the greater of the cubic curve a round trip ahead, at most 1.5 windows, and of what Reno
 * would have (RFC 9438, 4.2 to 4.5). */
static void avoid(uvcci_cc *c, const uvcci_cc_ack *a) {
    uvcci_cubic *q = &c->u.cubic;
    uint64_t bytes = a->rate.acked;
    if (q->epoch_at == UVCCI_CC_NONE) {
        q->epoch_at = a->now;
        q->reno = c->window;
        if (q->w_max < c->window)
            q->w_max = c->window;
        q->k_ms = uvcci_cubic_k_ms(q->w_max, c->window, c->segment);
        q->frac = 0;
    }
    uint64_t t_ms = (a->now - q->epoch_at) / MS;
    uint64_t w = uvcci_cubic_window(q->w_max, q->k_ms, t_ms, c->segment);
    uint64_t target = uvcci_cubic_window(q->w_max, q->k_ms, t_ms + a->srtt / MS, c->segment);
    /* alpha is 3 (1 - 0.7) / (1 + 0.7) = 9/17 until Reno is where the last reduction was. */
    uint64_t by = bytes * c->segment / max64(c->window, 1);
    q->reno += q->reno < q->prior ? by * 9 / 17 : by;
    if (w < q->reno) {
        c->window = max64(c->window, q->reno);
        return;
    }
    target = min64(max64(target, c->window), c->window + c->window / 2);
    grow_by(c, (target - c->window) * bytes, max64(c->window, 1));
}

static void cubic_acked(uvcci_cc *c, const uvcci_cc_ack *a) {
    uvcci_cubic *q = &c->u.cubic;
    if (a->ce != 0 && (q->recovery_at == 0 || a->rate.sent_ns > q->recovery_at)) {
        reduce(c, a->now);
        q->can_undo = false; /* a mark is none by mistake */
    }
    bool slow = c->window < q->threshold;
    if (slow && delay_grows(q, a)) {
        q->threshold = c->window;
        slow = false;
    }
    /* No growth for what the application, not the window, held back; none in recovery. */
    if (a->window_full && a->rate.any && a->rate.sent_ns > q->recovery_at) {
        if (slow)
            c->window += a->rate.acked;
        else
            avoid(c, a);
    }
    pace(c, a->srtt);
}

/* ---- the rest ---- */

static void cubic_init(uvcci_cc *c, uint64_t now) {
    uvcci_cubic *q = &c->u.cubic;
    (void)now;
    memset(q, 0, sizeof *q);
    q->threshold = q->epoch_at = q->round_rtt = q->last_rtt = UVCCI_CC_NONE;
    c->window = uvcci_cc_initial(c);
    uvcci_cc_pace(c, c->window * 1000);
}

static void cubic_sent(uvcci_cc *c, bool idle, uint64_t now) {
    uvcci_cubic *q = &c->u.cubic;
    (void)now;
    if (idle) /* the time of silence is no time of growth */
        q->epoch_at = UVCCI_CC_NONE;
}

static void cubic_rtt(uvcci_cc *c, uint64_t rtt) {
    (void)c, (void)rtt;
}

const uvcci_cc_class uvcci_cc_cubic = {
    .init = cubic_init,
    .sent = cubic_sent,
    .rtt = cubic_rtt,
    .lost = cubic_lost,
    .acked = cubic_acked,
    .persistent = cubic_persistent,
    .spurious = cubic_spurious,
};
