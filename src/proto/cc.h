/* SPDX-License-Identifier: Apache-2.0 */
/* cc.h - congestion control: what a controller is told, and what it answers. Three of them: BBR
 * (cc_bbr), CUBIC (cc_cubic) and a configured rate (cc_fixed). They are pure: integers, the
 * caller's clock, no memory but their state. link_cc joins one to a link.
 *
 * Bytes are frame bytes in flight, rates bytes per second, times nanoseconds of a clock that never
 * falls. */
#ifndef UVCCI_CC_H
#define UVCCI_CC_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/rate.h"

#define UVCCI_CC_NONE UINT64_MAX /* no bound, not known */

/* A frame was declared lost. */
typedef struct uvcci_cc_loss {
    uint64_t now, sent_ns;
    uint64_t bytes;
    uint64_t inflight;   /* now */
    uint64_t tx_flight;  /* when it was sent, with it */
    uint64_t lost_since; /* all bytes lost since it was sent, with it */
    uint64_t delivered;  /* ever */
    bool app_limited;    /* when it was sent */
} uvcci_cc_loss;

/* An ACK told of new frames (or of marks). Losses that it showed were told before. */
typedef struct uvcci_cc_ack {
    uint64_t now;
    uint64_t inflight;  /* now */
    uint64_t delivered; /* ever */
    uint64_t lost;      /* ever */
    uint64_t rtt;       /* the shortest of its frames that were sent once; 0: none */
    uint64_t srtt;      /* 0: not known */
    uint32_t ce;        /* packets newly reported as marked */
    bool window_full;   /* the window was used up within the last round trip */
    uvcci_rate_sample rate;
} uvcci_cc_ack;

/* ---- states ---- */

typedef struct uvcci_bbr {
    uint64_t bw[2];                      /* greatest delivery rate of this cycle, of the last */
    uint64_t bw_low, inflight_low;       /* short-term bounds; NONE: there is none */
    uint64_t inflight_high;              /* long-term bound; NONE: there is none */
    uint64_t bw_latest, inflight_latest; /* of this round */
    uint64_t min_rtt, min_rtt_at;        /* NONE: not known */
    uint64_t probe_rtt, probe_rtt_at;    /* the shortest since probe_rtt_at */
    uint64_t probe_done_at;              /* PROBE_RTT ends then; 0: not drained yet */
    uint64_t round_end, loss_round_end;  /* `delivered` at which they end */
    uint64_t full_bw;
    uint64_t cycle_at, probe_wait;
    uint64_t prior_window;
    uint64_t extra_at, extra_bytes; /* an interval of acknowledgements above the rate */
    uint64_t extra[2];              /* the most of these rounds, and of those before */
    uint64_t up_acked, up_per_step;
    uint64_t undo_bw_low, undo_inflight_low, undo_inflight_high;
    uint64_t rtt_now;                     /* of the latest ACKs, smoothed over a few */
    uint64_t marked;                      /* bytes of marked packets in this round */
    uint64_t lost_now;                    /* all that was lost, by the latest ACK */
    uint64_t cycle_delivered, cycle_lost; /* when the cycle began */
    uint64_t count_delivered, count_lost; /* when the counting of the path's own loss began */
    uint64_t undo_bytes;                  /* told as lost in this episode, and not disproved */
    uint32_t floor[2]; /* the path's own loss, by this cycle's test, by the last; in 2^-16 */
    uint32_t rounds, phase_round, extra_round, rounds_since_up, losses;
    uint8_t state, undo, up_rounds, full_count, ack_phase;
    bool round_start, loss_round_start, loss_in_round, full_now, full_reached, probe_expired,
        probe_round_done, idle_restart, probe_sample, prev_too_high, prev_careful, testing,
        seen_rtt;
} uvcci_bbr;

typedef struct uvcci_cubic {
    uint64_t threshold;   /* of slow start; NONE at first */
    uint64_t w_max;       /* bytes */
    uint64_t epoch_at;    /* the present increase began then; NONE: it begins with the next ACK */
    uint64_t k_ms;        /* from the epoch to w_max */
    uint64_t reno;        /* what Reno would have, bytes */
    uint64_t prior;       /* before the last reduction */
    uint64_t recovery_at; /* losses of frames sent before tell nothing new */
    uint64_t frac;        /* of a byte of growth, left over */
    uint64_t round_end, round_rtt, last_rtt; /* HyStart: least round trip of this round, of the last
                                              */
    uint64_t undo_window, undo_threshold, undo_w_max;
    uint32_t round_samples, reduced; /* bytes lost since the reduction that were not, at most */
    bool can_undo;
} uvcci_cubic;

typedef struct uvcci_cc uvcci_cc;

typedef struct uvcci_cc_class {
    void (*init)(uvcci_cc *c, uint64_t now);
    /* A frame goes out; idle: nothing was in flight, for want of anything to send. */
    void (*sent)(uvcci_cc *c, bool idle, uint64_t now);
    /* An ACK's round trip, before the losses that it shows. */
    void (*rtt)(uvcci_cc *c, uint64_t rtt);
    void (*lost)(uvcci_cc *c, const uvcci_cc_loss *loss);
    void (*acked)(uvcci_cc *c, const uvcci_cc_ack *ack);
    /* Everything that was sent over a long time is lost (RFC 9002, 7.6). */
    void (*persistent)(uvcci_cc *c, uint64_t now);
    /* A frame that was told as lost was not. */
    void (*spurious)(uvcci_cc *c, uint64_t bytes, uint64_t now);
} uvcci_cc_class;

struct uvcci_cc {
    const uvcci_cc_class *is;
    /* The answers. */
    uint64_t window;       /* bytes in flight; NONE: the credit bounds them */
    uint64_t rate;         /* of pacing; 0: not paced */
    uint64_t quantum;      /* bytes that may go at once */
    bool measures_nothing; /* set by a controller that has no use for app-limited samples now */
    /* The configuration. */
    uint32_t segment;    /* bytes of a full packet */
    uint64_t rate_bound; /* 0: none */
    uint64_t random;     /* state of a generator: controllers spread their probes */
    union {
        uvcci_bbr bbr;
        uvcci_cubic cubic;
    } u;
};

/* The initial window of RFC 9002, 7.2. */
static inline uint64_t uvcci_cc_initial(const uvcci_cc *c) {
    uint64_t ten = 10 * (uint64_t)c->segment, two = 2 * (uint64_t)c->segment;
    uint64_t most = two > 14720 ? two : 14720;
    return ten < most ? ten : most;
}

/* The pacing rate within its bound, and a quantum of a millisecond: hosts whose timers are no finer
 * fill the path; 64 KiB at most, so that a quantum is no burst. */
static inline void uvcci_cc_pace(uvcci_cc *c, uint64_t rate) {
    if (c->rate_bound != 0 && rate > c->rate_bound)
        rate = c->rate_bound;
    c->rate = rate == 0 ? 1 : rate > UVCCI_RATE_MAX ? UVCCI_RATE_MAX : rate;
    uint64_t quantum = c->rate / 1000;
    quantum = quantum < 65536 ? quantum : 65536;
    c->quantum = quantum > 2 * (uint64_t)c->segment ? quantum : 2 * (uint64_t)c->segment;
}

#endif
