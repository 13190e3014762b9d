/* SPDX-License-Identifier: Apache-2.0 */
/* Congestion control of datagram links: delivery rates, the controllers on scripts, pacing, marks,
 * and what the whole does in the network of bench/net.h, in virtual time. */
#include "link_sim.h"

#include "../../bench/net.h"
#include "proto/cc_bbr.h"
#include "proto/cc_cubic.h"
#include "proto/cc_fixed.h"
#include "proto/link_state.h"

#define SEG 1232u
#define MS  UINT64_C(1000000)
#define SEC (1000 * MS)

/* ---- delivery rates ---- */

static void rate_of_a_steady_path(void **state) {
    (void)state;
    uvcci_rate r = {0};
    uvcci_rate_stamp s[40];
    uint64_t sent[40], inflight = 0, done = 0, now = SEC;
    for (unsigned k = 0; k < 40; k++) { /* one frame each ms, each acknowledged after 10 ms */
        now = SEC + k * MS;
        for (; done < k && sent[done] + 10 * MS <= now; done++) {
            uvcci_rate_sample a = {0};
            uvcci_rate_acked(&r, &s[done], sent[done], 1000, sent[done] + 10 * MS, &a);
            inflight -= 1000;
            uvcci_rate_finish(&r, &a, 0);
            assert_true(a.any && !a.app_limited && a.acked == 1000);
            assert_int_equal(a.inflight, done < 10 ? (done + 1) * 1000 : 10000);
            if (done >= 10) { /* a round trip's bytes in a round trip */
                assert_in_range(a.rate, 990000, 1010000);
                assert_in_range(a.delivered, 9000, 11000);
            }
        }
        uvcci_rate_sent(&r, &s[k], inflight, 1000, now);
        sent[k] = now;
        inflight += 1000;
    }
    assert_int_equal(r.delivered, 30000);
}

/* Ten frames at once, acknowledged one each ms; ten frames one each ms, acknowledged at once: the
 * longer time counts. */
static void rate_of_bursts(void **state) {
    (void)state;
    for (int acks_burst = 0; acks_burst < 2; acks_burst++) {
        uvcci_rate r = {0};
        uvcci_rate_stamp s[10];
        uint64_t sent[10];
        for (unsigned k = 0; k < 10; k++) {
            sent[k] = SEC + (acks_burst ? k * MS : 0);
            uvcci_rate_sent(&r, &s[k], k * 1000, 1000, sent[k]);
        }
        uvcci_rate_sample a = {0};
        for (unsigned k = 0; k < 10; k++) {
            uint64_t at = SEC + 10 * MS + (acks_burst ? 0 : k * MS);
            a = (uvcci_rate_sample){0};
            uvcci_rate_acked(&r, &s[k], sent[k], 1000, at, &a);
            uvcci_rate_finish(&r, &a, 0);
        }
        assert_int_equal(a.delivered, 10000);
        assert_int_equal(a.interval_ns, acks_burst ? 10 * MS : 19 * MS);
        uvcci_rate_sample none = {0};
        uvcci_rate_finish(&r, &none, 0);
        assert_int_equal(none.rate, 0);
    }
}

static void rate_app_limited(void **state) {
    (void)state;
    uvcci_rate r = {0};
    uvcci_rate_stamp s[4];
    uvcci_rate_sent(&r, &s[0], 0, 1000, SEC);
    uvcci_rate_limited(&r, 1000); /* nothing more to send */
    uvcci_rate_sent(&r, &s[1], 1000, 1000, SEC + MS);
    for (unsigned k = 0; k < 2; k++) {
        uvcci_rate_sample a = {0};
        uvcci_rate_acked(&r, &s[k], SEC + k * MS, 1000, SEC + (10 + k) * MS, &a);
        uvcci_rate_finish(&r, &a, 0);
        assert_int_equal(a.app_limited, k == 1); /* the first was sent before */
    }
    assert_int_equal(r.app_limited, 0); /* what was in flight then has been delivered */
    uvcci_rate_sent(&r, &s[2], 0, 1000, SEC + 20 * MS);
    uvcci_rate_sample a = {0};
    uvcci_rate_acked(&r, &s[2], SEC + 20 * MS, 1000, SEC + 22 * MS, &a);
    uvcci_rate_finish(&r, &a, 5 * MS); /* faster than the path can answer: another transmission */
    assert_false(a.app_limited);
    assert_int_equal(a.rate, 0);
}

/* ---- CUBIC ---- */

static bool near(uint64_t a, uint64_t b, uint64_t by) {
    return a > b ? a - b <= by : b - a <= by;
}

static void cubic_formula(void **state) {
    (void)state;
    /* W_max 1000, 700 at the epoch: K = (300 / 0.4)^(1/3) = 9.0856 s. */
    uint64_t k = uvcci_cubic_k_ms(1000 * SEG, 700 * SEG, SEG);
    assert_true(near(k, 9085, 1));
    assert_true(near(uvcci_cubic_window(1000 * SEG, k, 0, SEG), 700 * SEG, SEG / 4));
    assert_int_equal(uvcci_cubic_window(1000 * SEG, k, k, SEG), 1000 * SEG);
    assert_true(near(uvcci_cubic_window(1000 * SEG, k, 2 * k, SEG), 1300 * SEG, SEG / 4));
    /* 1000 - 0.4 * 4.0856^3 = 972.72 after 5 s. */
    assert_true(near(uvcci_cubic_window(1000 * SEG, k, 5000, SEG), 97272 * SEG / 100, SEG / 4));
    assert_int_equal(uvcci_cubic_k_ms(SEG, SEG, SEG), 0);
    assert_true(uvcci_cubic_window(SEG, 100000, 0, SEG) == 0); /* never below nothing */
    assert_true(uvcci_cubic_k_ms(UINT64_C(1) << 40, 0, SEG) <= 100000);
}

static uvcci_cc made(const uvcci_cc_class *is, uint64_t bound) {
    uvcci_cc c = {.is = is, .segment = SEG, .random = 7, .rate_bound = bound};
    c.is->init(&c, SEC);
    return c;
}

/* A round trip of 100 ms in which a whole window is acknowledged. */
static void cubic_round(uvcci_cc *c, uint64_t *now, uint64_t *delivered, uint64_t rtt) {
    uint64_t window = c->window, sent = *now;
    *now += 100 * MS;
    for (uint64_t n = 0; n < window; n += SEG) {
        uint64_t prior = *delivered - n;
        *delivered += SEG;
        uvcci_cc_ack a = {
            .now = *now,
            .inflight = window,
            .delivered = *delivered,
            .rtt = rtt,
            .srtt = 100 * MS,
            .window_full = true,
            .rate = {.any = true, .acked = SEG, .prior_delivered = prior, .sent_ns = sent}};
        c->is->acked(c, &a);
    }
}

static void cubic_lose(uvcci_cc *c, uint64_t now, uint64_t sent) {
    uvcci_cc_loss l = {.now = now, .sent_ns = sent, .bytes = SEG, .inflight = c->window};
    c->is->lost(c, &l);
}

static void cubic_controller(void **state) {
    (void)state;
    uvcci_cc c = made(&uvcci_cc_cubic, 0);
    uint64_t now = 2 * SEC, delivered = 0;
    assert_int_equal(c.window, 10 * SEG);
    cubic_round(&c, &now, &delivered, 100 * MS);
    assert_int_equal(c.window, 20 * SEG);
    for (int k = 0; k < 4; k++)
        cubic_round(&c, &now, &delivered, 100 * MS);
    assert_int_equal(c.window, 320 * SEG);
    assert_true(near(c.rate, 2 * 10 * c.window, 100)); /* twice a window a round trip */

    cubic_lose(&c, now, now - MS); /* once for all that was sent in one round trip */
    cubic_lose(&c, now, now - 2 * MS);
    assert_true(near(c.window, 224 * SEG, 20));
    assert_true(near(c.u.cubic.w_max, 320 * SEG, 20));
    assert_true(near(c.rate, 2 * 10 * 320 * SEG, 1000)); /* with the next ACK */
    uint64_t before = c.window;
    for (int k = 0; k < 30; k++) /* K is (96 / 0.4)^(1/3) = 6.2 s: concave until then */
        cubic_round(&c, &now, &delivered, 100 * MS);
    assert_true(c.window > before && c.window < 320 * SEG);
    assert_true(c.window > 300 * SEG); /* 320 - 0.4 * 3.2^3 = 307 */
    assert_true(near(c.rate, 10 * c.window / 4 * 5, 5000));

    c.is->acked(
        &c, &(uvcci_cc_ack){.now = now, .srtt = 100 * MS, .ce = 1, .rate = {.sent_ns = now - MS}});
    assert_true(c.window < 225 * SEG); /* a mark is a loss */
    uint64_t marked = c.window;
    assert_true(c.u.cubic.w_max < 280 * SEG); /* fast convergence: below the W_max before */
    c.is->spurious(&c, SEG, now);
    assert_int_equal(c.window, marked);

    cubic_round(&c, &now, &delivered, 100 * MS);
    before = c.window;
    cubic_lose(&c, now + MS, now + MS / 2);
    assert_true(c.window < before);
    c.is->spurious(&c, SEG, now); /* all of it was there: undone */
    assert_int_equal(c.window, before);

    c.is->persistent(&c, now);
    assert_int_equal(c.window, 2 * SEG);
    c.is->sent(&c, true, now);
}

static void cubic_reno_region(void **state) {
    (void)state;
    uvcci_cc c = made(&uvcci_cc_cubic, 0);
    uint64_t now = 2 * SEC, delivered = 0;
    cubic_lose(&c, now, now - MS); /* 7 segments, W_max 10: Reno is faster than the curve */
    now += MS;
    for (int k = 0; k < 17; k++) /* 9/17 of a segment each round trip until 10 are there, then 1 */
        cubic_round(&c, &now, &delivered, 100 * MS);
    assert_true(near(c.window, 21 * SEG, 2 * SEG));
    uvcci_cc_ack idle = {.now = now + 60 * SEC,
                         .delivered = delivered,
                         .srtt = 100 * MS,
                         .rate = {.any = true, .acked = SEG, .sent_ns = now + 59 * SEC}};
    uint64_t before = c.window;
    c.is->acked(&c, &idle); /* the application held it back: no growth */
    assert_int_equal(c.window, before);
}

static void cubic_leaves_slow_start_by_delay(void **state) {
    (void)state;
    uvcci_cc c = made(&uvcci_cc_cubic, 0);
    uint64_t now = 2 * SEC, delivered = 0;
    for (int k = 0; k < 3; k++)
        cubic_round(&c, &now, &delivered, 100 * MS);
    assert_int_equal(c.u.cubic.threshold, UVCCI_CC_NONE);
    cubic_round(&c, &now, &delivered, 130 * MS); /* a queue */
    assert_true(c.u.cubic.threshold < 160 * SEG);
}

/* ---- fixed ---- */

static void fixed_controller(void **state) {
    (void)state;
    uvcci_cc c = made(&uvcci_cc_fixed, 0);
    assert_int_equal(c.window, UVCCI_CC_NONE);
    assert_int_equal(c.rate, 0);
    c = made(&uvcci_cc_fixed, 5000000);
    cubic_lose(&c, SEC, SEC - MS);
    c.is->persistent(&c, SEC);
    assert_int_equal(c.rate, 5000000);
    assert_int_equal(c.quantum, 5000);
    c = made(&uvcci_cc_fixed, 100000);
    assert_int_equal(c.quantum, 2 * SEG);
    c = made(&uvcci_cc_fixed, UINT64_C(10000000000));
    assert_int_equal(c.quantum, 65536);
    c = made(&uvcci_cc_bbr, 1000); /* a bound of others */
    assert_int_equal(c.rate, 1000);
}

/* ---- BBR on a script ---- */

typedef struct script {
    uvcci_cc c;
    uint64_t now, delivered, lost;
    uint64_t rtt, rate; /* of the path's answers */
    bool app_limited, full;
    uint32_t ce;
} script;

static void script_begin(script *s) {
    memset(s, 0, sizeof *s);
    s->now = SEC;
    s->rtt = 40 * MS;
    s->c = made(&uvcci_cc_bbr, 0);
}

/* One ACK that ends a round: what was delivered in a round trip. */
static void script_round(script *s, uint64_t inflight) {
    uint64_t bytes = uvcci_rate_bytes(s->rate, s->rtt), prior = s->delivered;
    s->now += s->rtt;
    s->delivered += bytes;
    s->c.is->rtt(&s->c, s->rtt);
    uvcci_cc_ack a = {.now = s->now,
                      .inflight = inflight,
                      .delivered = s->delivered,
                      .lost = s->lost,
                      .rtt = s->rtt,
                      .srtt = s->rtt,
                      .window_full = s->full,
                      .ce = s->ce,
                      .rate = {.any = true,
                               .app_limited = s->app_limited,
                               .rate = s->rate,
                               .delivered = bytes,
                               .inflight = bytes,
                               .prior_delivered = prior,
                               .sent_ns = s->now - s->rtt,
                               .interval_ns = s->rtt,
                               .acked = bytes}};
    s->c.is->acked(&s->c, &a);
}

static void script_lose(script *s, uint64_t bytes, uint64_t of) {
    s->lost += bytes;
    uvcci_cc_loss l = {.now = s->now,
                       .sent_ns = s->now - s->rtt,
                       .bytes = SEG,
                       .inflight = of,
                       .tx_flight = of,
                       .lost_since = bytes,
                       .delivered = s->delivered};
    for (uint64_t n = 0; n < bytes; n += SEG)
        s->c.is->lost(&s->c, &l);
}

/* To CRUISE at 10 MB/s, 40 ms: 400 kB. */
static void script_cruise(script *s) {
    script_begin(s);
    for (s->rate = 1250000; s->rate < 10000000; s->rate *= 2)
        script_round(s, 0);
    s->rate = 10000000;
    for (int k = 0; k < 5; k++)
        script_round(s, 390000);
    for (int k = 0; k < 3; k++)
        script_round(s, 390000);
    assert_int_equal(s->c.u.bbr.state, UVCCI_BBR_CRUISE);
}

static void bbr_states(void **state) {
    (void)state;
    script s;
    script_begin(&s);
    const uvcci_bbr *b = &s.c.u.bbr;
    assert_int_equal(b->state, UVCCI_BBR_STARTUP);
    for (s.rate = 1250000; s.rate <= 10000000; s.rate *= 2) {
        script_round(&s, 0);
        assert_int_equal(b->state, UVCCI_BBR_STARTUP);
        assert_true(s.c.rate >= s.rate * 27 / 10);
    }
    s.rate = 10000000;
    s.app_limited = true;
    for (int k = 0; k < 10; k++) /* too little to send says nothing of the path */
        script_round(&s, 0);
    assert_int_equal(b->state, UVCCI_BBR_STARTUP);
    s.app_limited = false;
    script_round(&s, 800000);
    script_round(&s, 800000);
    assert_int_equal(b->state, UVCCI_BBR_STARTUP);
    script_round(&s, 800000); /* three rounds without growth */
    assert_int_equal(b->state, UVCCI_BBR_DRAIN);
    assert_true(near(s.c.rate, 4950000, 10000));
    script_round(&s, 800000);
    assert_int_equal(b->state, UVCCI_BBR_DRAIN);
    script_round(&s, 390000); /* drained: no need of DOWN */
    assert_int_equal(b->state, UVCCI_BBR_CRUISE);
    assert_true(near(s.c.rate, 9900000, 10000));
    assert_true(s.c.window >= 800000); /* two products of rate and delay */
    int rounds = 0;
    for (; b->state == UVCCI_BBR_CRUISE && rounds < 100; rounds++)
        script_round(&s, 390000);
    assert_int_equal(b->state, UVCCI_BBR_REFILL);
    assert_in_range(rounds, 48, 64); /* 2 to 3 s, at most 63 rounds */
    script_round(&s, 400000);
    assert_int_equal(b->state, UVCCI_BBR_UP);
    assert_true(near(s.c.rate, 12375000, 20000));
    s.rate = 12000000; /* there is more */
    script_round(&s, 480000);
    assert_true(b->bw[0] == 12000000);
    for (int k = 0; k < 2; k++)
        script_round(&s, 480000);
    assert_int_equal(b->state, UVCCI_BBR_DOWN);
    assert_true(near(s.c.rate, 10670000, 20000));
    script_round(&s, 390000);
    script_round(&s, 390000);
    assert_true(b->bw[1] == 12000000); /* of the cycle before, now */
    s.rtt = 45 * MS;                   /* never as short as before */
    for (int k = 0; k < 150 && b->state != UVCCI_BBR_PROBE_RTT; k++)
        script_round(&s, 390000);
    assert_int_equal(b->state, UVCCI_BBR_PROBE_RTT);
    assert_true(s.c.window <= 260000 && s.c.measures_nothing);
    uint64_t begun = s.now;
    while (b->state == UVCCI_BBR_PROBE_RTT && s.now < begun + SEC)
        script_round(&s, 200000);
    assert_int_equal(b->state, UVCCI_BBR_CRUISE);
    assert_in_range(s.now - begun, 200 * MS, 400 * MS);
}

static void bbr_loss_and_delay(void **state) {
    (void)state;
    script s;
    script_cruise(&s);
    const uvcci_bbr *b = &s.c.u.bbr;
    uint64_t rate = s.c.rate, window = s.c.window;
    for (int k = 0; k < 5; k++) { /* a tenth is lost, the delay does not grow */
        script_lose(&s, 40000, 400000);
        script_round(&s, 390000);
    }
    assert_int_equal(b->bw_low, UVCCI_CC_NONE);
    assert_true(s.c.rate >= rate && s.c.window >= window);

    script_cruise(&s); /* the same with a queue: down to what is delivered */
    s.rtt = 60 * MS;
    for (int k = 0; k < 4; k++)
        script_round(&s, 390000);
    s.rate = 7000000;
    for (int k = 0; k < 3; k++) {
        script_lose(&s, 40000, 400000);
        script_round(&s, 390000);
    }
    assert_true(b->bw_low != UVCCI_CC_NONE && b->bw_low < 10000000);
    assert_true(s.c.window < window);
    s.rtt = 40 * MS; /* rounds without loss: up again */
    s.rate = 10000000;
    uint64_t low = b->bw_low;
    for (int k = 0; k < 8; k++)
        script_round(&s, 390000);
    assert_true(b->bw_low > low);

    /* UP with a queue that overflows sets the long-term bound and ends. */
    script_cruise(&s);
    while (b->state != UVCCI_BBR_UP)
        script_round(&s, 390000);
    s.rtt = 100 * MS;
    script_round(&s, 480000);
    script_round(&s, 480000);
    assert_int_equal(b->state, UVCCI_BBR_UP);
    script_lose(&s, 48000, 480000);
    assert_int_equal(b->state, UVCCI_BBR_DOWN);
    assert_in_range(b->inflight_high, 300000, 480000);
    /* ... and a mark does without any delay. */
    script_cruise(&s);
    while (b->state != UVCCI_BBR_UP)
        script_round(&s, 390000);
    s.ce = 20;
    script_round(&s, 480000);
    assert_int_equal(b->state, UVCCI_BBR_DOWN);
    assert_true(b->inflight_high != UVCCI_CC_NONE);
}

/* All that was lost was there: the bounds are as before. */
static void bbr_undo(void **state) {
    (void)state;
    script s;
    script_cruise(&s);
    const uvcci_bbr *b = &s.c.u.bbr;
    while (b->state != UVCCI_BBR_UP)
        script_round(&s, 390000);
    s.rtt = 100 * MS;
    script_round(&s, 480000);
    script_round(&s, 480000);
    script_lose(&s, 12 * SEG, 12 * SEG * 10);
    assert_int_equal(b->state, UVCCI_BBR_DOWN);
    for (int k = 0; k < 11; k++)
        s.c.is->spurious(&s.c, SEG, s.now);
    assert_int_equal(b->state, UVCCI_BBR_DOWN);
    s.c.is->spurious(&s.c, SEG, s.now);
    assert_int_equal(b->state, UVCCI_BBR_REFILL); /* it was probing */
    assert_int_equal(b->inflight_high, UVCCI_CC_NONE);
    s.c.is->persistent(&s.c, s.now);
    assert_int_equal(s.c.window, 4 * SEG);
}

/* ---- a link ---- */

static uint64_t fixed_rate;
static uint32_t which;
static void chosen(int i, uvcc_link_config *cfg) {
    (void)i;
    cfg->congestion = which;
    cfg->rate_bytes_per_s = fixed_rate;
}

/* What a link sends when is what its rate says, whenever it is asked; the deadline says when. */
static void pacing(void **state) {
    (void)state;
    for (int late = 0; late < 2; late++) {
        sim_world w;
        sim_init(&w, 3, true, 1);
        which = UVCC_CONGESTION_FIXED;
        fixed_rate = 1250000;
        sim_start(&w, chosen);
        sim_run_for(&w, 100 * MS);
        uint64_t begun = w.now, bytes = 0, polls = 0;
        sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 200000, 0);
        sim_offer(&w, 0);
        uvcc_link *l = w.node[0].link;
        while (!uvcc_link_drained(l) && w.now < begun + 100 * MS) {
            uvcc_transmit t;
            while (uvcc_link_poll_transmit(l, &t, w.now) == 1) {
                bytes += t.total;
                assert_int_equal(uvcc_link_transmit_done(l, t.id, t.total, w.now), 0);
                uint64_t most = (w.now - begun) * 125 / 100000 + 2 * 2464 + 1250 * 2;
                assert_true(bytes <= most);
            }
            polls++;
            uint64_t d = uvcc_link_next_deadline(l);
            assert_true(d > w.now);
            w.now = d < begun + 100 * MS ? d : begun + 100 * MS;
            if (late) /* timers of whole milliseconds */
                w.now = (w.now + MS - 1) / MS * MS;
            uvcc_link_on_timer(l, w.now);
        }
        assert_true(bytes >= 120000); /* 125,000 in 100 ms: a late host catches up */
        assert_true(polls <= 130);    /* a quantum at a time, not a packet */
        sim_end(&w);
    }
    fixed_rate = 0; /* no rate: all at once, as far as the credit goes */
    sim_world w;
    sim_init(&w, 3, true, 1);
    sim_start(&w, chosen);
    sim_run_for(&w, 100 * MS);
    uint64_t packets = w.packets;
    sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 1u << 20, 0);
    sim_offer(&w, 0);
    sim_drain(&w, 0);
    assert_true(w.packets - packets > (1u << 20) / 1232);
    sim_end(&w);
}

/* The default waits for its window; ACKs and PINGs do not. */
static void window_holds_back(void **state) {
    (void)state;
    sim_world w;
    sim_init(&w, 5, true, 0);
    sim_start(&w, NULL);
    sim_run_for(&w, 20 * MS);
    uint64_t sent = w.data_sent;
    sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 1u << 20, 0);
    sim_offer(&w, 0);
    w.cut_wire = true;
    for (int k = 0; k < 20; k++) {
        sim_drain(&w, 0);
        w.now += MS / 10;
    }
    assert_in_range(w.data_sent - sent, 10 * 1232, 12 * 1232);
    uvcc_link_stats s;
    uvcc_link_get_stats(w.node[0].link, &s);
    assert_true(s.flight_bytes >= s.window_bytes && s.window_bytes == 12320);
    assert_true(s.pacing_bytes_per_s > 0);
    w.cut_wire = false;
    sim_queue(&w, 1, UVCC_FRAME_OPEN_BATCH, 100000, 0); /* its ACKs come all the same */
    sim_run(&w, 10000 * MS);
    uvcc_link_get_stats(w.node[0].link, &s);
    assert_int_equal(s.flight_bytes, 0);
    assert_true(s.delivered_bytes_per_s > 0);
    sim_end(&w);
}

/* The first round is one of STARTUP, whatever the clock says. */
static void begins_at_any_time(void **state) {
    (void)state;
    sim_world w;
    sim_init(&w, 5, true, 0);
    w.now = 1000000 * SEC;
    sim_start(&w, NULL);
    sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 1u << 20, 0);
    sim_run_for(&w, 8 * MS);
    uvcc_link *l = w.node[0].link;
    assert_true(l->cc->rate.delivered != 0);
    assert_int_equal(l->cc->cc.u.bbr.state, UVCCI_BBR_STARTUP);
    sim_run(&w, 1000 * MS);
    sim_end(&w);
}

/* A path that is away for three seconds: the window collapses, once, and comes back. Silence before
 * the first round trip was measured is none. */
static void persistent_congestion(void **state) {
    (void)state;
    for (which = 0; which < 2; which++) {
        sim_world w;
        sim_init(&w, 9, true, 1);
        w.delay_ns = 20 * MS;
        w.ns_per_byte = 80;
        fixed_rate = 0;
        sim_start(&w, chosen);
        for (int n = 0; n < 200; n++)
            sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 100000, 0);
        sim_run_for(&w, 500 * MS);
        uvcc_link_stats s;
        uvcc_link_get_stats(w.node[0].link, &s);
        assert_true(s.window_bytes > 100000 && s.collapses == 0);
        w.cut_wire = true;
        sim_run_for(&w, 3000 * MS);
        uvcc_link_get_stats(w.node[0].link, &s);
        assert_int_equal(s.collapses, 0); /* nobody said that anything is lost */
        w.cut_wire = false;
        for (int k = 0; k < 3000 && s.collapses == 0; k++) {
            sim_run_for(&w, MS);
            uvcc_link_get_stats(w.node[0].link, &s);
        }
        assert_int_equal(s.collapses, 1);
        assert_true(s.window_bytes <= 8 * 1232);
        sim_run(&w, 10000 * MS);
        uvcc_link_get_stats(w.node[0].link, &s);
        assert_int_equal(s.collapses, 1);
        sim_end(&w);
    }
    sim_world w; /* a short absence is no collapse */
    sim_init(&w, 9, true, 1);
    w.delay_ns = 20 * MS;
    w.ns_per_byte = 80;
    sim_start(&w, NULL);
    for (int n = 0; n < 200; n++)
        sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 100000, 0);
    sim_run_for(&w, 500 * MS);
    w.cut_wire = true;
    sim_run_for(&w, 60 * MS);
    w.cut_wire = false;
    sim_run(&w, 10000 * MS);
    uvcc_link_stats s;
    uvcc_link_get_stats(w.node[0].link, &s);
    assert_int_equal(s.collapses, 0);
    sim_end(&w);
}

static void configuration(void **state) {
    (void)state;
    test_alloc mem = {0};
    uint64_t seed = 1;
    uvcc_link *l;
    uvcc_link_config cfg;
    uvcc_link_config_default(&cfg);
    cfg.alloc = test_allocator(&mem);
    cfg.random = test_random(&seed);
    cfg.peer = 1;
    cfg.datagram = true;
    for (cfg.congestion = 0; cfg.congestion < 3; cfg.congestion++) {
        assert_int_equal(uvcc_link_new(&l, &cfg), 0);
        uvcc_link_free(l);
    }
    assert_int_equal(uvcc_link_new(&l, &cfg), UVCC_ERR_CONFIG);
    cfg.congestion = 0;
    mem.fail_at = 2; /* the controller's state */
    mem.calls = 0;
    assert_int_equal(uvcc_link_new(&l, &cfg), UVCC_ERR_NOMEM);
    assert_int_equal(mem.live_blocks, 0);
}

/* ---- ECN ---- */

/* A mark counts once, with a frame that is new; streams have none. */
static void marks_are_counted(void **state) {
    (void)state;
    sim_world w;
    sim_init(&w, 4, true, 1);
    sim_start(&w, NULL);
    sim_run_for(&w, 50 * MS);
    sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 500, 0);
    sim_offer(&w, 0);
    sim_drain(&w, 0);
    sim_packet *p = w.node[1].inbox;
    assert_non_null(p);
    uvcc_link *l = w.node[1].link;
    p->data[100] ^= 1;
    assert_int_equal(uvcc_link_feed_ecn(l, p->data, p->len, true, w.now), 0);
    assert_int_equal(l->rx.ce_packets, 0); /* forged */
    p->data[100] ^= 1;
    assert_int_equal(uvcc_link_feed_ecn(l, p->data, p->len, true, w.now), 0);
    assert_int_equal(l->rx.ce_packets, 1);
    assert_int_equal(uvcc_link_feed_ecn(l, p->data, p->len, true, w.now), 0);
    assert_int_equal(l->rx.ce_packets, 1); /* again */
    sim_run(&w, 1000 * MS);
    uvcc_link_stats s;
    uvcc_link_get_stats(w.node[0].link, &s);
    assert_int_equal(s.marks, 1);
    sim_end(&w);
    sim_init(&w, 4, false, 1);
    sim_start(&w, NULL);
    uint8_t byte = 0;
    assert_int_equal(uvcc_link_feed_ecn(w.node[0].link, &byte, 1, true, w.now), UVCC_ERR_USAGE);
    sim_end(&w);
}

/* ---- in a network ---- */

static void tune(uvcc_link_config *cfg, int end, void *user) {
    (void)end, (void)user;
    cfg->congestion = which;
}

static net *bottleneck(uint64_t seed, double rate, uint64_t bytes, uint32_t packets,
                       uint64_t mark) {
    net_pipe_config p = {.rate = rate,
                         .delay_ns = 20 * NET_MS,
                         .queue_bytes = bytes,
                         .queue_packets = packets,
                         .mark_bytes = mark};
    return net_new(&(net_config){.seed = seed, .noise_ns = 10000, .pipe = {p, p}});
}

static net_figures figures(net *n, int flow) {
    net_figures f;
    net_flow_figures(n, flow, &f);
    assert_int_equal(f.error, 0);
    assert_int_equal(f.past_deadlines, 0);
    return f;
}

#define SEEDS (SANITIZED ? 2u : 8u)

static void one_flow(double rate, uint64_t bytes, uint32_t packets, uint64_t timer_ns,
                     double share_goal, double wire_goal) {
    double share = 0, wire = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        net *n = bottleneck(seed, rate, bytes, packets, 0);
        int a = net_add_link(n, &(net_link_config){.access_rate = 1e9,
                                                   .timer_ns = timer_ns,
                                                   .start_ns = NET_BEGIN + seed * 5 * NET_MS,
                                                   .tune = tune});
        net_run(n, NET_BEGIN + seed * 5 * NET_MS + 10 * NET_S);
        net_figures f = figures(n, a);
        share += (double)f.frame_bytes * 8 / 10 / rate / SEEDS;
        wire += (double)f.wire_bytes / f.ideal_bytes / SEEDS;
        net_free(n);
    }
    if (share < share_goal || wire > wire_goal)
        fail_msg("share %.4f of %.2f, wire %.4f of %.2f", share, share_goal, wire, wire_goal);
}

/* 1 Gbit/s into 100 Mbit/s, 40 ms, a queue of 500 kB; and of 50 packets at 10 Mbit/s; and 25 kB,
 * which is too short for its delay to be told from none. */
static void alone(void **state) {
    (void)state;
    for (which = 0; which < 2; which++) {
        one_flow(100e6, 500000, 0, 0, 0.94, 1.05);
        one_flow(10e6, 0, 50, 0, 0.94, 1.10);
    }
    which = 0;
    one_flow(100e6, 500000, 0, NET_MS, 0.94, 1.05); /* timers of a millisecond */
    one_flow(100e6, 25000, 0, 0, 0.90, 1.05);
}

/* Hosts that stand still for up to 20 ms, every 20 ms or every 5: they lose their time, and no
 * more. */
static void busy_hosts(void **state) {
    (void)state;
    which = 0;
    for (int often = 0; often < 2; often++) {
        double share = 0;
        for (uint64_t seed = 1; seed <= 4; seed++) {
            net *n = bottleneck(seed, 100e6, 500000, 0, 0);
            int a =
                net_add_link(n, &(net_link_config){.access_rate = 1e9,
                                                   .tune = tune,
                                                   .stall_ns = 20 * NET_MS,
                                                   .stall_every_ns = (often ? 5 : 20) * NET_MS});
            net_run(n, NET_BEGIN + 10 * NET_S);
            share += (double)figures(n, a).frame_bytes * 8 / 10 / 100e6 / 4;
            net_free(n);
        }
        if (share < (often ? 0.5 : 0.75))
            fail_msg("share %.3f", share);
    }
}

static void beside_reno(void **state) {
    (void)state;
    for (which = 0; which < 2; which++) {
        double mine = 0, reno = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            net *n = bottleneck(seed, 100e6, 500000, 0, 0);
            uint64_t first = seed % 2 == 0 ? 0 : seed * 100 * NET_MS;
            uint64_t second = seed % 2 == 0 ? seed * 100 * NET_MS : 0;
            int a = net_add_link(n, &(net_link_config){.access_rate = 1e9,
                                                       .tune = tune,
                                                       .start_ns = NET_BEGIN + first});
            int b = net_add_reno(
                n, &(net_reno_config){.access_rate = 1e9, .start_ns = NET_BEGIN + second});
            net_run(n, NET_BEGIN + 20 * NET_S);
            mine += (double)figures(n, a).frame_bytes * 8 / 20 / 100e6 / SEEDS;
            reno += (double)figures(n, b).frame_bytes * 8 / 20 / 100e6 / SEEDS;
            net_free(n);
        }
        if (mine < 0.25 || reno < 0.25)
            fail_msg("%u: %.3f and %.3f", which, mine, reno);
    }
    which = 0;
}

/* Four of them, with a long queue; and with one of 2 ms, in which they must not pump. */
static void four(void **state) {
    (void)state;
    which = 0;
    for (int pass = 0; pass < 2; pass++) {
        double mean = 0, wire = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            net *n = bottleneck(seed, 100e6, pass == 0 ? 500000 : 25000, 0, 0);
            int flow[4];
            for (unsigned k = 0; k < 4; k++)
                flow[k] = net_add_link(
                    n, &(net_link_config){.access_rate = 1e9,
                                          .tune = tune,
                                          .start_ns = NET_BEGIN + seed * 7 * k % 200 * NET_MS});
            net_run(n, NET_BEGIN + 20 * NET_S);
            double least = 1e18, most = 0;
            for (unsigned k = 0; k < 4; k++) {
                net_figures f = figures(n, flow[k]);
                double got = (double)f.frame_bytes;
                least = got < least ? got : least;
                most = got > most ? got : most;
                wire += (double)f.wire_bytes / f.ideal_bytes / 4 / SEEDS;
            }
            mean += most / least / SEEDS;
            net_free(n);
        }
        if ((pass == 0 && mean > 1.5) || wire > (pass == 0 ? 1.05 : 1.25))
            fail_msg("most over least %.3f, wire %.3f", mean, wire);
    }
}

static double transfer(double loss, uint64_t seed) {
    net_pipe_config p = {.delay_ns = NET_MS, .loss = loss};
    net *n = net_new(&(net_config){.seed = seed, .pipe = {p, p}});
    int a = net_add_link(n, &(net_link_config){.access_rate = 1e9, .messages = 64, .tune = tune});
    assert_true(net_run_flow(n, a, 60 * NET_S));
    double seconds = (double)(figures(n, a).finished_ns - NET_BEGIN) / 1e9;
    net_free(n);
    return seconds;
}

/* Random loss at 1 Gbit/s, 2 ms, without a bottleneck, does not slow it. */
static void random_loss(void **state) {
    (void)state;
    which = 0;
    static const struct { double loss, goal; } rows[] = {{0.01, 0.98}, {0.05, 0.95}, {0.20, 0.90}};
    double base = transfer(0, 1);
    assert_true(base < 64 * 8.388608e-3 * 1.1); /* most of the wire */
    for (size_t r = 0; r < 3; r++) {
        double mean = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++)
            mean += base / transfer(rows[r].loss, seed * 1000003) / (1 - rows[r].loss) / SEEDS;
        if (mean < rows[r].goal)
            fail_msg("loss %.2f: %.4f", rows[r].loss, mean);
    }
}

static int feed_marked(uvcc_link *l, const uint8_t *data, size_t len, bool ce, uint64_t now) {
    return uvcc_link_feed_ecn(l, data, len, ce, now);
}

/* A router that marks above 100 kB of its 500: they stay below, and nothing is lost. */
static void marks_keep_the_queue_short(void **state) {
    (void)state;
    for (which = 0; which < 2; which++) {
        net *n = bottleneck(3, 100e6, 500000, 0, 100000);
        int a = net_add_link(
            n,
            &(net_link_config){.access_rate = 1e9, .tune = tune, .ecn = true, .feed = feed_marked});
        net_run(n, NET_BEGIN + 2 * NET_S); /* the first seconds look for the rate */
        net_flow_mark(n, a);
        net_run(n, NET_BEGIN + 12 * NET_S);
        net_figures f = figures(n, a);
        assert_int_equal(f.dropped, 0);
        assert_true(f.marked != 0 && f.marked < f.wire_packets / 20);
        assert_true(f.queue_ns / 1e6 < 10);
        assert_true((double)f.frame_bytes * 8 / 10 > 0.80 * 100e6);
        uvcc_link_stats s;
        uvcc_link_get_stats(net_flow_link(n, a, 0), &s);
        assert_true(s.marks != 0);
        net_free(n);
    }
    which = 0;
}

/* The same seed, the same bytes. */
static void deterministic(void **state) {
    (void)state;
    uint64_t wire[2];
    for (int k = 0; k < 2; k++) {
        net *n = bottleneck(5, 100e6, 200000, 0, 0);
        int a = net_add_link(n, &(net_link_config){.access_rate = 1e9});
        net_run(n, NET_BEGIN + 2 * NET_S);
        wire[k] = figures(n, a).wire_bytes;
        net_free(n);
    }
    assert_int_equal(wire[0], wire[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rate_of_a_steady_path),
        cmocka_unit_test(rate_of_bursts),
        cmocka_unit_test(rate_app_limited),
        cmocka_unit_test(cubic_formula),
        cmocka_unit_test(cubic_controller),
        cmocka_unit_test(cubic_reno_region),
        cmocka_unit_test(cubic_leaves_slow_start_by_delay),
        cmocka_unit_test(fixed_controller),
        cmocka_unit_test(bbr_states),
        cmocka_unit_test(bbr_loss_and_delay),
        cmocka_unit_test(bbr_undo),
        cmocka_unit_test(pacing),
        cmocka_unit_test(window_holds_back),
        cmocka_unit_test(begins_at_any_time),
        cmocka_unit_test(persistent_congestion),
        cmocka_unit_test(configuration),
        cmocka_unit_test(marks_are_counted),
        cmocka_unit_test(alone),
        cmocka_unit_test(busy_hosts),
        cmocka_unit_test(beside_reno),
        cmocka_unit_test(four),
        cmocka_unit_test(random_loss),
        cmocka_unit_test(marks_keep_the_queue_short),
        cmocka_unit_test(deterministic),
    };
    return cmocka_run_group_tests_name("congestion", tests, NULL, NULL);
}
