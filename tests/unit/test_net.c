/* SPDX-License-Identifier: Apache-2.0 */
/* The network in virtual time that benchmarks and tests of congestion run on (bench/net.h): its
 * queues, wires and losses are what they say, and its NewReno flow behaves as one. */
#include "support.h"

#include "../../bench/net.h"

#define MBIT 1e6

static net_config path(double rate, uint64_t delay_ns, uint64_t queue_bytes) {
    net_pipe_config p = {.rate = rate, .delay_ns = delay_ns, .queue_bytes = queue_bytes};
    return (net_config){.seed = 1, .noise_ns = 20000, .pipe = {p, p}};
}

static double rate_of(net *n, int flow, double seconds) {
    net_figures f;
    net_flow_figures(n, flow, &f);
    assert_int_equal(f.error, 0);
    return (double)f.frame_bytes * 8 / seconds;
}

static void conserved(net *n) {
    for (int way = 0; way < 2; way++) {
        net_pipe_counts c;
        net_counts(n, way, &c);
        assert_int_equal(c.entered, c.delivered + c.dropped + c.lost + c.too_long + c.under_way);
    }
}

static void test_one_reno_fills_the_bottleneck(void **state) {
    (void)state;
    for (int big = 0; big < 2; big++) {
        /* A queue of a round trip's bytes, and of a quarter of that. */
        net_config cfg = path(20 * MBIT, 20 * NET_MS, big ? 100000 : 25000);
        net *n = net_new(&cfg);
        int a = net_add_reno(n, &(net_reno_config){.access_rate = 1000 * MBIT});
        net_run(n, NET_BEGIN + 2 * NET_S);
        net_flow_mark(n, a);
        net_run(n, NET_BEGIN + 22 * NET_S);
        double share = rate_of(n, a, 20) / (20 * MBIT);
        assert_true(share > (big ? 0.97 : 0.80) && share <= 1.0001);
        net_figures f;
        net_flow_figures(n, a, &f);
        assert_true(f.dropped != 0 && f.dropped < f.wire_packets / 100);
        assert_true(f.queue_ns > 0 && f.queue_ns_max <= 40 * NET_MS);
        conserved(n);
        net_free(n);
    }
}

static void test_two_renos_share(void **state) {
    (void)state;
    double sum[2] = {0};
    for (uint64_t seed = 1; seed <= 4; seed++) {
        net_config cfg = path(20 * MBIT, 20 * NET_MS, 100000);
        cfg.seed = seed;
        net *n = net_new(&cfg);
        int a = net_add_reno(n, &(net_reno_config){.access_rate = 1000 * MBIT});
        int b = net_add_reno(
            n, &(net_reno_config){.access_rate = 1000 * MBIT, .start_ns = 500 * NET_MS});
        net_run(n, NET_BEGIN + 40 * NET_S);
        sum[0] += rate_of(n, a, 40);
        sum[1] += rate_of(n, b, 40);
        assert_true(rate_of(n, a, 40) + rate_of(n, b, 40) > 0.95 * 20 * MBIT);
        net_free(n);
    }
    assert_true(sum[0] < 1.3 * sum[1] && sum[1] < 1.3 * sum[0]);
}

/* Halved by a loss, up by a packet for each round trip, one after a timeout. */
static void test_reno_window(void **state) {
    (void)state;
    net_config cfg = path(0, 50 * NET_MS, 0);
    cfg.noise_ns = 0;
    net *n = net_new(&cfg);
    int a = net_add_reno(n, &(net_reno_config){.access_rate = 1000 * MBIT});
    net_run(n, NET_BEGIN + 450 * NET_MS); /* slow start doubles each round trip */
    assert_true(net_reno_window(n, a) == 160 * 1500.0);
    net_pipe(n, NET_THERE)->path_bytes = 1; /* some of what is sent at 500 ms is lost */
    net_run(n, NET_BEGIN + 501 * NET_MS);
    net_pipe(n, NET_THERE)->path_bytes = 0;
    net_run(n, NET_BEGIN + 650 * NET_MS); /* 320 packets, halved, and up to one */
    double halved = net_reno_window(n, a);
    assert_true(halved >= 160 * 1500.0 && halved <= 161 * 1500.0);
    net_run(n, NET_BEGIN + 1150 * NET_MS); /* one packet in each round trip */
    assert_true(net_reno_window(n, a) - halved > 3 * 1500.0);
    assert_true(net_reno_window(n, a) - halved < 6 * 1500.0);
    net_pipe(n, NET_THERE)->loss = 1;
    net_run(n, NET_BEGIN + 3 * NET_S);
    assert_true(net_reno_window(n, a) == 1500.0);
    net_pipe(n, NET_THERE)->loss = 0;
    net_run(n, NET_BEGIN + 10 * NET_S);
    assert_true(net_reno_window(n, a) > 3000.0);
    net_free(n);
}

/* It waits for packets that are overtaken by two others, does not send again what was acknowledged
 * late, and its first packets may be lost. */
static void test_reno_is_patient(void **state) {
    (void)state;
    net_config cfg = path(0, 10 * NET_MS, 0);
    cfg.noise_ns = 0;
    net *n = net_new(&cfg);
    net_pipe(n, NET_THERE)->loss = 1;
    int a = net_add_reno(n, &(net_reno_config){.access_rate = 10 * MBIT}); /* 1.2 ms for each */
    net_figures f;
    net_run(n, 900 * NET_MS);
    net_pipe(n, NET_THERE)->loss = 0;
    net_pipe(n, NET_THERE)->reorder = 0.05;
    net_pipe(n, NET_THERE)->reorder_ns = 2400000 - 1;
    net_run(n, 5 * NET_S);
    net_flow_figures(n, a, &f);
    assert_int_equal(f.needless, 0);
    assert_int_equal(f.lost, 10);
    assert_true((double)f.frame_bytes * 8 > 0.9 * 3.9 * 10 * MBIT);
    /* Acknowledgements stay out for 600 ms: a timeout thinks that all is lost. */
    net_pipe(n, NET_BACK)->delay_ns = 600 * NET_MS;
    net_run(n, 8 * NET_S);
    net_flow_figures(n, a, &f);
    assert_in_range(f.needless, 1, 3);
    net_free(n);
}

static void test_limits_and_conservation(void **state) {
    (void)state;
    for (int by_packets = 0; by_packets < 2; by_packets++) {
        net_config cfg = path(10 * MBIT, 5 * NET_MS, by_packets ? 0 : 30000);
        for (int way = 0; way < 2; way++) {
            cfg.pipe[way].queue_packets = by_packets ? 20 : 0;
            cfg.pipe[way].loss = 0.05;
            cfg.pipe[way].reorder = 0.1;
            cfg.pipe[way].reorder_ns = 3 * NET_MS;
        }
        net *n = net_new(&cfg);
        net_add_reno(n, &(net_reno_config){.access_rate = 100 * MBIT});
        int b = net_add_link(n, &(net_link_config){.access_rate = 100 * MBIT});
        for (uint64_t t = 100; t <= 2000; t += 100) {
            net_pipe(n, NET_THERE)->path_bytes = t == 1000 ? 1231 : 0;
            net_run(n, NET_BEGIN + t * NET_MS);
            conserved(n);
        }
        net_pipe_counts c;
        net_counts(n, NET_THERE, &c);
        assert_true(c.dropped != 0 && c.lost != 0 && c.too_long != 0 && c.delivered != 0);
        assert_true(by_packets ? c.queue_packets_max == 20 : c.queue_bytes_max <= 30000);
        assert_true(by_packets || c.queue_bytes_max > 30000 - 1500);
        assert_true((double)c.sent_bytes * 8 <= 10 * MBIT * 2 + 8 * 31500);
        net_figures f;
        net_flow_figures(n, b, &f);
        assert_true((double)f.frame_bytes * 8 <= 10 * MBIT * 2);
        assert_true(f.queue_ns_max <= 30 * NET_MS);
        net_free(n);
    }
}

static void test_losses_are_as_likely_as_asked(void **state) {
    (void)state;
    net_config cfg = path(0, NET_MS, 0);
    cfg.pipe[NET_THERE].loss = 0.2;
    cfg.pipe[NET_BACK].loss = 0.05;
    net *n = net_new(&cfg);
    int a = net_add_link(n, &(net_link_config){.access_rate = 100 * MBIT, .messages = 24});
    assert_true(net_run_flow(n, a, 60 * NET_S));
    net_pipe_counts there, back;
    net_counts(n, NET_THERE, &there);
    net_counts(n, NET_BACK, &back);
    double p = (double)there.lost / (double)there.entered;
    double q = (double)back.lost / (double)back.entered;
    assert_true(p > 0.18 && p < 0.22 && there.entered > 20000);
    assert_true(q > 0.03 && q < 0.07 && back.entered > 1000);
    net_free(n);
}

/* ---- what a packet meets on its way, seen where it is fed ---- */

typedef struct seen {
    uint64_t packets, marked, overtaken, first_at, last_at, top, pause, together;
    size_t longest;
} seen;
static seen saw[2];

static int watch(uvcc_link *l, const uint8_t *data, size_t len, bool ce, uint64_t now) {
    uvcc_frame_header h;
    if (uvcc_frame_decode_header(data, &h, NULL) == 0 && h.kind == UVCC_FRAME_OPEN_BATCH) {
        seen *s = &saw[0];
        s->first_at = s->packets == 0 ? now : s->first_at;
        s->pause = s->packets != 0 && now - s->last_at > s->pause ? now - s->last_at : s->pause;
        s->together += s->packets != 0 && now == s->last_at;
        s->last_at = now;
        s->packets++;
        s->marked += ce;
        s->overtaken += h.seq < s->top;
        s->top = h.seq > s->top ? h.seq : s->top;
        s->longest = len > s->longest ? len : s->longest;
    }
    return uvcc_link_feed(l, data, len, now);
}

static void test_times_are_exact(void **state) {
    (void)state;
    net_config cfg = path(10 * MBIT, 7 * NET_MS, 0);
    cfg.noise_ns = 0;
    cfg.pipe[NET_BACK].rate = 0;
    net *n = net_new(&cfg);
    saw[0] = (seen){0};
    /* Two frames: 1,232 and 964 bytes. The first message waits for credit, 14 ms and the ACK's
     * time. */
    int a = net_add_link(n, &(net_link_config){.access_rate = 100 * MBIT,
                                               .message_bytes = 1168 + 900,
                                               .messages = 1,
                                               .overhead_bytes = 28,
                                               .feed = watch});
    assert_true(net_run_flow(n, a, 10 * NET_S));
    assert_int_equal(saw[0].packets, 2);
    assert_int_equal(saw[0].last_at - saw[0].first_at, (964 + 28) * 800);
    net_figures f;
    net_flow_figures(n, a, &f);
    assert_int_equal(f.frame_bytes, 1232 + 964);
    assert_int_equal(f.messages, 1);
    assert_int_equal(f.message_payload, 2068);
    assert_true(f.ideal_bytes == (double)f.frame_bytes);
    assert_int_equal(net_ideal_bytes(1 << 20, 1232, false), (1 << 20) + 898 * 64);
    assert_int_equal(net_ideal_bytes((1 << 20) + 1, 1232, true), (1 << 20) + 1 + (911 + 1) * 80);
    net_free(n);
}

static void test_order(void **state) {
    (void)state;
    for (int detours = 0; detours < 2; detours++) {
        net_config cfg = path(0, NET_MS, 0);
        cfg.pipe[NET_THERE].jitter_ns = detours ? 0 : NET_MS;
        cfg.pipe[NET_THERE].reorder = detours ? 0.05 : 0;
        cfg.pipe[NET_THERE].reorder_ns = NET_MS / 2;
        net *n = net_new(&cfg);
        saw[0] = (seen){0};
        int a = net_add_link(
            n, &(net_link_config){.access_rate = 100 * MBIT, .messages = 2, .feed = watch});
        assert_true(net_run_flow(n, a, 10 * NET_S));
        if (detours)
            assert_true(saw[0].overtaken > 50);
        else
            assert_int_equal(saw[0].overtaken, 0);
        net_free(n);
    }
}

static void test_marks(void **state) {
    (void)state;
    for (int capable = 0; capable < 2; capable++) {
        net_config cfg = path(20 * MBIT, 5 * NET_MS, 200000);
        cfg.pipe[NET_THERE].mark_bytes = 20000;
        net *n = net_new(&cfg);
        saw[0] = (seen){0};
        int a = net_add_link(
            n, &(net_link_config){
                   .access_rate = 100 * MBIT, .messages = 2, .ecn = capable != 0, .feed = watch});
        net_run_flow(n, a, 10 * NET_S);
        net_figures f;
        net_flow_figures(n, a, &f);
        assert_int_equal(saw[0].marked != 0, capable);
        assert_int_equal(f.marked != 0, capable);
        net_free(n);
        /* A NewReno flow that hears them keeps the queue short and loses nothing. */
        n = net_new(&cfg);
        a = net_add_reno(n, &(net_reno_config){.access_rate = 100 * MBIT, .ecn = capable != 0});
        net_run(n, NET_BEGIN + 10 * NET_S);
        net_flow_figures(n, a, &f);
        assert_int_equal(f.dropped == 0, capable);
        assert_true(rate_of(n, a, 10) > 0.8 * 20 * MBIT);
        net_free(n);
    }
}

static void long_packets(uvcc_link_config *cfg, int end, void *user) {
    (void)end;
    cfg->datagram_bytes = *(const uint32_t *)user;
}

static void test_path_length(void **state) {
    (void)state;
    uint32_t bytes = 9000;
    net_config cfg = path(0, NET_MS, 0);
    cfg.pipe[NET_THERE].path_bytes = 4000;
    net *n = net_new(&cfg);
    saw[0] = (seen){0};
    int a = net_add_link(n, &(net_link_config){.access_rate = 100 * MBIT,
                                               .messages = 8,
                                               .tune = long_packets,
                                               .user = &bytes,
                                               .feed = watch});
    assert_true(net_run_flow(n, a, 10 * NET_S));
    assert_true(saw[0].longest > 3000 && saw[0].longest <= 4000);
    net_pipe_counts c;
    net_counts(n, NET_THERE, &c);
    assert_true(c.too_long != 0);
    net_free(n);
}

/* ---- the hosts of link flows ---- */

static void test_jobs_and_gaps(void **state) {
    (void)state;
    net_config cfg = path(0, NET_MS, 0);
    net *n = net_new(&cfg);
    int a = net_add_link(n, &(net_link_config){.access_rate = 1000 * MBIT,
                                               .message_bytes = 1000,
                                               .messages = 5,
                                               .message_gap_ns = 20 * NET_MS,
                                               .job_ns = 30 * NET_MS});
    net_figures f;
    net_run(n, NET_BEGIN + 30 * NET_MS);
    net_flow_figures(n, a, &f);
    assert_int_equal(f.messages, 0);
    assert_true(f.frames >= 1);
    net_run(n, NET_BEGIN + 60 * NET_MS);
    net_flow_figures(n, a, &f);
    assert_int_equal(f.messages, 2);
    assert_true(f.gap_ns > 15 * NET_MS && f.gap_ns < 21 * NET_MS);
    assert_true(net_run_flow(n, a, NET_S));
    net_flow_figures(n, a, &f);
    assert_int_equal(f.messages, 5);
    assert_true(f.gap_ns > 19 * NET_MS && f.gap_ns < 21 * NET_MS);
    assert_true(f.finished_ns >= NET_BEGIN + 110 * NET_MS && f.finished_ns < NET_BEGIN + NET_S);
    net_free(n);
}

/* A host whose timers tick every 7 ms sends what was lost again at a tick. */
static void test_start_and_late_timers(void **state) {
    (void)state;
    net_config cfg = path(0, NET_MS, 0);
    cfg.noise_ns = 0;
    net *n = net_new(&cfg);
    int a = net_add_link(n, &(net_link_config){.start_ns = 50 * NET_MS,
                                               .message_bytes = 1000,
                                               .messages = 2,
                                               .message_gap_ns = 20 * NET_MS,
                                               .timer_ns = 7 * NET_MS,
                                               .feed = watch});
    net_figures f;
    net_pipe_counts c;
    net_run(n, 50 * NET_MS - 1);
    net_counts(n, NET_THERE, &c);
    assert_int_equal(c.entered, 0);
    net_run(n, 65 * NET_MS);
    net_flow_figures(n, a, &f);
    assert_int_equal(f.messages, 1);
    assert_int_equal(f.past_deadlines, 0);
    saw[0] = (seen){0};
    net_pipe(n, NET_THERE)->loss = 1;
    net_run(n, 80 * NET_MS);
    net_pipe(n, NET_THERE)->loss = 0;
    assert_true(net_run_flow(n, a, 10 * NET_S));
    assert_true(saw[0].packets >= 1 && saw[0].first_at > 80 * NET_MS);
    assert_int_equal((saw[0].first_at - NET_MS) % (7 * NET_MS), 0);
    net_free(n);
}

static void no_timeouts(uvcc_link_config *cfg, int end, void *user) {
    (void)end;
    (void)user;
    cfg->rto_initial_ns = cfg->rto_min_ns = cfg->rto_max_ns = NET_S;
}

/* What comes to a host that is busy waits, in order; nothing is lost. */
static void test_busy_hosts(void **state) {
    (void)state;
    for (int busy = 0; busy < 2; busy++) {
        net_config cfg = path(0, NET_MS, 0);
        net *n = net_new(&cfg);
        saw[0] = (seen){0};
        int a = net_add_link(n, &(net_link_config){.access_rate = 10 * MBIT,
                                                   .stall_ns = busy ? 20 * NET_MS : 0,
                                                   .stall_every_ns = 40 * NET_MS,
                                                   .tune = no_timeouts,
                                                   .feed = watch});
        net_run(n, 2 * NET_S);
        conserved(n);
        assert_int_equal(saw[0].overtaken, 0);
        assert_true(busy ? saw[0].pause > 10 * NET_MS && saw[0].pause < 41 * NET_MS
                         : saw[0].pause < 2 * NET_MS);
        assert_int_equal(saw[0].together > 50, busy);
        double share = rate_of(n, a, 2) / (10 * MBIT);
        assert_true(busy ? share > 0.6 && share < 0.9 : share > 0.95);
        net_free(n);
    }
}

static void test_needless_copies_are_seen(void **state) {
    (void)state;
    net_config cfg = path(0, NET_MS, 0);
    net *n = net_new(&cfg);
    int a = net_add_link(
        n, &(net_link_config){.access_rate = 10 * MBIT, .message_bytes = 1000, .messages = 500});
    net_figures f;
    net_run(n, NET_BEGIN + 200 * NET_MS);
    net_flow_figures(n, a, &f);
    assert_int_equal(f.needless, 0);
    assert_true(f.messages > 200 && f.error == 0);
    /* Acknowledgements come late: nobody can know that what was sent has arrived. */
    net_pipe(n, NET_BACK)->delay_ns = 900 * NET_MS;
    net_run(n, 3 * NET_S);
    net_flow_figures(n, a, &f);
    assert_true(f.needless != 0 && f.needless_bytes > f.needless * 64);
    net_free(n);
}

static void test_a_seed_is_a_run(void **state) {
    (void)state;
    net_figures f[3];
    for (int i = 0; i < 3; i++) {
        net_config cfg = path(20 * MBIT, 5 * NET_MS, 50000);
        cfg.seed = i == 2 ? 8 : 7;
        cfg.pipe[NET_THERE].loss = cfg.pipe[NET_BACK].loss = 0.02;
        net *n = net_new(&cfg);
        int a = net_add_link(n, &(net_link_config){.access_rate = 100 * MBIT, .suite = 2});
        net_add_reno(n, &(net_reno_config){.access_rate = 100 * MBIT});
        net_run(n, 3 * NET_S);
        net_flow_figures(n, a, &f[i]);
        net_free(n);
    }
    assert_memory_equal(&f[0], &f[1], sizeof f[0]);
    assert_memory_not_equal(&f[0], &f[2], sizeof f[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_reno_fills_the_bottleneck),
        cmocka_unit_test(test_two_renos_share),
        cmocka_unit_test(test_reno_window),
        cmocka_unit_test(test_reno_is_patient),
        cmocka_unit_test(test_limits_and_conservation),
        cmocka_unit_test(test_losses_are_as_likely_as_asked),
        cmocka_unit_test(test_times_are_exact),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_path_length),
        cmocka_unit_test(test_jobs_and_gaps),
        cmocka_unit_test(test_start_and_late_timers),
        cmocka_unit_test(test_busy_hosts),
        cmocka_unit_test(test_needless_copies_are_seen),
        cmocka_unit_test(test_a_seed_is_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
