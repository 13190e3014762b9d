/* SPDX-License-Identifier: Apache-2.0 */
/* Two links over a lossy, reordering, corrupting pipe and over streams: everything sent arrives
 * once, byte for byte, within bounded memory. */
#include "link_sim.h"

#include "proto/link_state.h"

static const uint8_t kinds[] = {UVCC_FRAME_OPEN_BATCH, UVCC_FRAME_LIFT_BATCH,
                                UVCC_FRAME_RESHARE_BATCH, UVCC_FRAME_KEYS_BATCH,
                                UVCC_FRAME_INPUT_BATCH};

static uint32_t random_len(sim_world *w, uint32_t most) {
    switch (sim_rand(w) % 8) {
    case 0:
        return 0;
    case 1:
    case 2:
        return (uint32_t)(sim_rand(w) % 100);
    case 3:
    case 4:
        return (uint32_t)(sim_rand(w) % 3000);
    case 5:
        return (uint32_t)(sim_rand(w) % 40000);
    default:
        return (uint32_t)(sim_rand(w) % (most + 1));
    }
}

static void queue_random(sim_world *w, size_t cnt, uint32_t most) {
    for (size_t k = 0; k < cnt; k++)
        for (int i = 0; i < 2; i++)
            sim_queue(w, i, kinds[sim_rand(w) % 5], random_len(w, most), sim_rand(w) % 50);
}

static void mix_datagrams(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        sim_world w;
        sim_init(&w, seed, true, (uint8_t)(seed % 3));
        w.drop = (uint32_t)(seed % 4) * 100;
        w.dup = seed % 3 == 0 ? 100 : 5;
        w.reorder = seed % 5 == 0 ? 0 : 200;
        w.jitter_ns = 3 * SIM_MS;
        w.corrupt = seed % 2 ? 20 : 0;
        w.truncate = seed % 2 ? 20 : 0;
        w.hold = seed % 4 ? 300 : 0;
        sim_start(&w, NULL);
        queue_random(&w, 60, 120000);
        sim_run(&w, 120000 * SIM_MS);
        sim_end(&w);
    }
}

static void mix_streams(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        sim_world w;
        sim_init(&w, seed, false, (uint8_t)(seed % 3));
        w.reorder = 300;
        w.jitter_ns = seed % 4;
        w.hold = seed % 4 ? 300 : 0;
        sim_start(&w, NULL);
        queue_random(&w, 40, 300000);
        for (int k = 0; k < 6; k++) {
            sim_run_for(&w, sim_rand(&w) % (4 * SIM_MS));
            sim_close(&w);
            sim_run_for(&w, sim_rand(&w) % (4 * SIM_MS));
            sim_open(&w);
        }
        sim_run(&w, 20000 * SIM_MS);
        sim_end(&w);
    }
}

static void big_messages(void **state) {
    (void)state;
    for (uint8_t suite = 0; suite < 3; suite++)
        for (int datagram = 0; datagram < 2; datagram++) {
            sim_world w;
            sim_init(&w, 77, datagram != 0, suite);
            w.drop = 50;
            sim_start(&w, NULL);
            static const uint32_t lens[] = {0, 1, 3u << 20, (1u << 20) + 1, 1u << 20, 2345678};
            for (size_t k = 0; k < sizeof lens / sizeof lens[0]; k++)
                for (int i = 0; i < 2; i++)
                    sim_queue(&w, i, kinds[k % 5], lens[k], k);
            sim_run(&w, 60000 * SIM_MS);
            sim_end(&w);
        }
}

/* ---- faults one by one ---- */

static uvcc_link_stats stats_of(const sim_world *w, int i) {
    uvcc_link_stats s;
    uvcc_link_get_stats(w->node[i].link, &s);
    return s;
}

static void quick_rto(int i, uvcc_link_config *cfg) {
    (void)i;
    cfg->rto_initial_ns = cfg->rto_min_ns = SIM_MS;
}

/* 10 Mbit/s and an endless queue: the whole window is under way for seconds, the timeout is 1 ms.
 */
static void timeout_below_queueing_delay(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        sim_world w;
        sim_init(&w, 3, true, 0);
        w.ns_per_byte = 800;
        sim_start(&w, quick_rto);
        if (k == 0)
            sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 2u << 20, 0);
        for (int n = 0; k == 1 && n < 100; n++)
            sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 20000, 0);
        sim_run(&w, 4000 * SIM_MS); /* 1.7 s of wire */
        assert_true(stats_of(&w, 0).retransmissions < 60);
        sim_end(&w);
    }
}

/* A round trip far above the timeout: each message alone, Karn's trap. */
static void timeout_below_round_trip(void **state) {
    (void)state;
    sim_world w;
    sim_init(&w, 3, true, 0);
    w.delay_ns = 300 * SIM_MS;
    sim_start(&w, quick_rto);
    for (int n = 0; n < 20; n++) {
        sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 100, 0);
        sim_run(&w, 5000 * SIM_MS);
    }
    assert_true(stats_of(&w, 0).srtt_ns > 500 * SIM_MS);
    assert_true(stats_of(&w, 0).retransmissions < 30);
    sim_end(&w);
}

static void little_at_once(int i, uvcc_link_config *cfg) {
    (void)i;
    cfg->tx_online_bytes = 250000;
}

static void outages(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++)
        for (uint8_t suite = 0; suite < 2; suite++) {
            sim_world w;
            sim_init(&w, 5 + (uint64_t)k, true, suite);
            w.ns_per_byte = 8;
            w.drop = k == 2 ? 50 : 0;
            sim_start(&w, little_at_once);
            queue_random(&w, 40, 200000);
            sim_run_for(&w, k == 0 ? SIM_MS * 9 / 10 : 5 * SIM_MS); /* before any data; amid it */
            if (k == 1)
                w.drop_acks = true; /* every ACK for ten seconds; data goes through */
            else
                w.cut_wire = true;
            sim_run_for(&w, 10000 * SIM_MS);
            assert_true(stats_of(&w, 0).retransmissions < 5000);
            w.drop_acks = w.cut_wire = false;
            sim_run(&w, 4000 * SIM_MS);
            assert_true(stats_of(&w, 0).srtt_ns < 100 * SIM_MS); /* the silence was no round trip */
            sim_end(&w);
        }
}

static void small_credit(int i, uvcc_link_config *cfg) {
    (void)i;
    cfg->rx_online_bytes = 3000;
    cfg->rx_keys_bytes = 1100000;
    cfg->keepalive_ns = UVCC_NEVER;
}

/* Credit for one message at a time, both ways, with losses: it is renewed even if its update is
 * lost. */
static void credit_is_renewed(void **state) {
    (void)state;
    for (int datagram = 0; datagram < 2; datagram++)
        for (uint64_t seed = 1; seed <= 4; seed++) {
            sim_world w;
            sim_init(&w, seed, datagram != 0, (uint8_t)(seed % 3));
            w.drop = 200;
            w.hold = 300;
            sim_start(&w, small_credit);
            for (int n = 0; n < 30; n++)
                for (int i = 0; i < 2; i++)
                    sim_queue(&w, i, UVCC_FRAME_OPEN_BATCH, 2000 + (uint32_t)n, 0);
            for (int i = 0; i < 2; i++)
                for (int n = 0; n < 3; n++)
                    sim_queue(&w, i, UVCC_FRAME_KEYS_BATCH, 1u << 20, 0);
            sim_run(&w, 120000 * SIM_MS);
            sim_end(&w);
        }
}

/* With nothing to send there is keep-alive and nothing else. */
static void quiet_when_idle(void **state) {
    (void)state;
    for (int datagram = 0; datagram < 2; datagram++) {
        sim_world w;
        sim_init(&w, 8, datagram != 0, 1);
        sim_start(&w, NULL);
        queue_random(&w, 20, 30000);
        sim_run(&w, 10000 * SIM_MS);
        sim_run_for(&w, 1000 * SIM_MS);
        uint64_t packets = w.packets;
        sim_run_for(&w, 100000 * SIM_MS);
        assert_true(w.packets - packets >= 10 && w.packets - packets <= 44);
        for (int i = 0; i < 2; i++)
            assert_true(w.node[i].mem.live_bytes <= (datagram ? 2240 : 1664));
        sim_end(&w);
    }
}

static void clock_jumps(void **state) {
    (void)state;
    for (int k = 0; k < 4; k++) {
        sim_world w;
        sim_init(&w, 21, true, 0);
        w.now = UINT64_C(20000000) * SIM_MS;
        w.drop = 100;
        sim_start(&w, NULL);
        queue_random(&w, 30, 100000);
        sim_run_for(&w, 5 * SIM_MS);
        const int64_t hour = INT64_C(3600000) * (int64_t)SIM_MS;
        int64_t by = k == 0 ? hour : k == 1 ? -hour : 0;
        if (k == 2) /* stopped for a while */
            for (int n = 0; n < 50; n++)
                for (int i = 0; i < 2; i++)
                    uvcc_link_on_timer(w.node[i].link, w.now);
        w.now = (uint64_t)((int64_t)w.now + by);
        for (int i = 0; i < 2; i++)
            for (sim_packet *p = w.node[i].inbox; p != NULL; p = p->next)
                p->at = (uint64_t)((int64_t)p->at + by);
        sim_run_for(&w, 5 * SIM_MS);
        if (k == 3) /* one that is back and forth all the time */
            for (int n = 0; n < 200; n++) {
                uvcc_link_on_timer(w.node[n % 2].link, w.now - (uint64_t)n * 1000);
                sim_run_for(&w, SIM_MS / 8);
            }
        sim_run(&w, 20000 * SIM_MS);
        assert_int_equal(stats_of(&w, 0).clock_back != 0, k == 1 || k == 3);
        sim_end(&w);
    }
}

static void last_run(void **state) {
    (void)state;
    for (int datagram = 0; datagram < 2; datagram++) {
        sim_world w;
        sim_init(&w, 4, datagram != 0, 2);
        w.run = (1u << 24) - 1;
        w.step = UINT32_MAX - 1;
        w.drop = 100;
        sim_start(&w, NULL);
        queue_random(&w, 30, 100000);
        sim_run(&w, 20000 * SIM_MS);
        sim_end(&w);
    }
}

/* A path that carries 4,000 bytes, and one that carries all. */
static uint32_t probe_up_to;
static void probing(int i, uvcc_link_config *cfg) {
    (void)i;
    cfg->datagram_bytes = probe_up_to;
}

static void path_probing(void **state) {
    (void)state;
    static const uint32_t carries[] = {1232, 4000, 65507};
    for (size_t k = 0; k < 3; k++)
        for (uint8_t suite = 0; suite < 2; suite++) {
            sim_world w;
            sim_init(&w, 6, true, suite);
            probe_up_to = 65507;
            w.path_bytes = carries[k];
            w.drop = 50;
            sim_start(&w, probing);
            sim_run_for(&w, 60000 * SIM_MS);
            uint64_t packets = w.packets;
            assert_true(packets < 250);
            sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 4u << 20, 0);
            sim_run(&w, 60000 * SIM_MS);
            uint64_t needed = (4u << 20) / (carries[k] - 150);
            assert_true(w.packets - packets < needed * 3 + 40); /* and ACKs, 5 in a ms at most */
            sim_end(&w);
        }
}

static void probing_little(int i, uvcc_link_config *cfg) {
    probing(i, cfg);
    cfg->tx_online_bytes = 500000;
}

/* The path falls from 9,000 bytes to 1,500 in mid-stream, and later carries 9,000 again. */
static void path_falls(void **state) {
    (void)state;
    for (uint8_t suite = 0; suite < 2; suite++)
        for (uint32_t drop = 0; drop <= 50; drop += 50) {
            sim_world w;
            sim_init(&w, 8 + suite, true, suite);
            probe_up_to = 9000;
            w.path_bytes = 9000;
            w.drop = drop;
            w.delay_ns = 20 * SIM_MS;
            w.ns_per_byte = 80; /* 100 Mbit/s */
            sim_start(&w, probing_little);
            sim_run_for(&w, 5000 * SIM_MS);
            assert_int_equal(stats_of(&w, 0).packet_bytes, 9000);
            for (unsigned k = 0; k < 400; k++)
                sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 100000, 0);
            sim_run_for(&w, 400 * SIM_MS);
            size_t before = w.node[1].delivered;
            assert_true(before > 0 && before < 200);
            w.path_bytes = 1500;
            sim_run_for(&w, 2000 * SIM_MS);
            assert_true(w.node[1].delivered > before + 20);
            assert_true(stats_of(&w, 0).path_falls >= 1);
            sim_run(&w, 60000 * SIM_MS);
            sim_run_for(&w, 20000 * SIM_MS);
            uint32_t found = stats_of(&w, 0).packet_bytes;
            assert_true(found > 1500 - 40 && found <= 1500);
            w.path_bytes = 9000;
            sim_run_for(&w, 601000 * SIM_MS);
            sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 100000, 0);
            sim_run_for(&w, 3000 * SIM_MS);
            assert_int_equal(stats_of(&w, 0).packet_bytes, 9000);
            sim_end(&w);
        }
}

static void flight(int i, uvcc_link_config *cfg) {
    (void)i;
    cfg->tx_online_bytes = 8u << 20;
    cfg->congestion = UVCC_CONGESTION_FIXED;
}

/* A flight of thousands of frames is lost as a whole: a few timeouts tell it, not one for each two
 * frames. */
static void lost_flight(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        sim_world w;
        sim_init(&w, seed, true, 0);
        w.ns_per_byte = 2;
        w.delay_ns = seed * SIM_MS;
        sim_start(&w, flight);
        for (int n = 0; n < 40; n++)
            sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 100000, 0);
        sim_run(&w, 1000 * SIM_MS);
        for (int n = 0; n < 80; n++)
            sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 100000, 0);
        w.cut_wire = true;
        sim_run_for(&w, 50 * SIM_MS);
        w.cut_wire = false;
        w.jitter_ns = SIM_MS / 2;
        w.reorder = 500;
        sim_run(&w, 600 * SIM_MS);
        sim_end(&w);
    }
}

static void much_at_once(int i, uvcc_link_config *cfg) {
    (void)i;
    cfg->tx_online_bytes = 4u << 20;
}

/* One packet in fifty comes up to three round trips late: after a while hardly one of them goes
 * twice; and when packets are lost instead, loss is found fast again. */
static void reordering_beyond_a_round_trip(void **state) {
    (void)state;
    sim_world w;
    sim_init(&w, 14, true, 0);
    w.ns_per_byte = 80;
    w.delay_ns = 5 * SIM_MS;
    w.reorder = 20;
    w.jitter_ns = 30 * SIM_MS;
    sim_start(&w, much_at_once);
    for (int n = 0; n < 100; n++)
        sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 100000, 0);
    sim_run(&w, 10000 * SIM_MS);
    uint64_t learnt = stats_of(&w, 0).spurious;
    for (int n = 0; n < 100; n++)
        sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 100000, 0);
    sim_run(&w, 10000 * SIM_MS);
    assert_true(stats_of(&w, 0).spurious - learnt < 30);
    assert_true(w.node[0].link->tx.reorder.eighths > 8);
    w.reorder = 0;
    w.drop = 20;
    for (int n = 0; n < 100; n++)
        sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 100000, 0);
    sim_run(&w, 10000 * SIM_MS);
    assert_int_equal(w.node[0].link->tx.reorder.eighths, 1);
    sim_end(&w);
}

/* Heavy reordering makes retransmissions that were not needed; they are counted, and their number
 * falls as the allowance for reordering grows. */
static void spurious_retransmissions(void **state) {
    (void)state;
    sim_world w;
    sim_init(&w, 12, true, 0);
    w.ns_per_byte = 8;
    w.reorder = 100;
    w.jitter_ns = 4 * SIM_MS;
    sim_start(&w, little_at_once);
    for (int n = 0; n < 40; n++)
        sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 100000, 0);
    sim_run(&w, 5000 * SIM_MS);
    uvcc_link_stats s = stats_of(&w, 0);
    assert_true(s.spurious > 0 && s.spurious <= s.retransmissions);
    assert_true(s.retransmissions < 800);
    sim_end(&w);
    sim_init(&w, 12, true, 0); /* none without a cause */
    w.ns_per_byte = 8;
    sim_start(&w, little_at_once);
    for (int n = 0; n < 40; n++)
        sim_queue(&w, 0, UVCC_FRAME_OPEN_BATCH, 100000, 0);
    sim_run(&w, 5000 * SIM_MS);
    assert_int_equal(stats_of(&w, 0).retransmissions, 0);
    sim_end(&w);
}

/* The i-th allocation fails, for every i: nothing leaks, nothing is lost. On a stream, a receiver
 * without memory asks for a new connection. */
static void allocation_failures(void **state) {
    (void)state;
    for (int datagram = 0; datagram < 2; datagram++)
        for (uint8_t suite = 0; suite < 3; suite++) {
            size_t calls = 1;
            for (size_t fail = 0; fail <= calls; fail++)
                for (int side = 0; side < 2; side++) {
                    sim_world w;
                    sim_init(&w, 99, datagram != 0, suite);
                    w.jitter_ns = 1;
                    w.reorder = 100;
                    w.drop = 100;
                    w.hold = 300;
                    sim_start(&w, NULL);
                    w.node[side].mem.calls = 0;
                    w.node[side].mem.fail_at = fail;
                    queue_random(&w, 12, 20000);
                    sim_run(&w, 60000 * SIM_MS);
                    if (fail == 0 && w.node[side].mem.calls > calls)
                        calls = w.node[side].mem.calls;
                    sim_end(&w);
                }
            assert_true(calls > 20);
        }
}

/* Connections that end after every so many bytes. */
static void reconnect_everywhere(void **state) {
    (void)state;
    for (uint8_t suite = 0; suite < 3; suite++)
        for (uint32_t every = 120; every < 3000; every += suite == 0 ? 17 : 131) {
            sim_world w;
            sim_init(&w, every, false, suite);
            w.close_after = every;
            sim_start(&w, NULL);
            for (int n = 0; n < 6; n++)
                for (int i = 0; i < 2; i++)
                    sim_queue(&w, i, kinds[n % 5], (uint32_t)(n * n * 40), 0);
            w.close_grows = 10; /* else a frame longer than that never came through */
            sim_run(&w, 600000 * SIM_MS);
            sim_end(&w);
        }
}

/* Another frame size, everything twice, another order: the same is delivered (the worlds check
 * bytes and exactly-once themselves). */
static uint32_t frame_bytes;
static void frame_size(int i, uvcc_link_config *cfg) {
    cfg->frame_bytes = frame_bytes + (uint32_t)i * 1000;
    cfg->datagram_bytes = 256 + frame_bytes % 977;
}

static void frame_sizes(void **state) {
    (void)state;
    static const uint32_t sizes[] = {256, 300, 1000, 4096, 1048656 - 1000};
    for (int datagram = 0; datagram < 2; datagram++)
        for (size_t k = 0; k < 5; k++) {
            sim_world w;
            sim_init(&w, k, datagram != 0, (uint8_t)(k % 3));
            w.dup = 1000;
            w.reorder = 500;
            w.jitter_ns = 2 * SIM_MS;
            frame_bytes = sizes[k];
            sim_start(&w, frame_size);
            queue_random(&w, 20, datagram == 0 && k == 4 ? 2500000 : 30000);
            sim_run(&w, 60000 * SIM_MS);
            sim_end(&w);
        }
}

/* The same seed, the same trace: equal digests at equal times. */
static void determinism(void **state) {
    (void)state;
    uint8_t d[2][2][32];
    uint64_t packets[2];
    for (int k = 0; k < 2; k++) {
        sim_world w;
        sim_init(&w, 31, true, 1);
        w.drop = w.dup = w.reorder = 100;
        w.jitter_ns = 3 * SIM_MS;
        sim_start(&w, NULL);
        queue_random(&w, 40, 200000);
        sim_run_for(&w, 20 * SIM_MS);
        for (int i = 0; i < 2; i++)
            uvcc_link_digest(w.node[i].link, d[k][i]);
        packets[k] = w.packets;
        sim_end(&w);
    }
    assert_memory_equal(d[0], d[1], sizeof d[0]);
    assert_int_equal(packets[0], packets[1]);
}

/* A link of a later run hears frames of an old one and is not moved. */
static void old_run(void **state) {
    (void)state;
    sim_world old, new;
    sim_init(&old, 41, true, 0);
    sim_start(&old, NULL);
    queue_random(&old, 10, 5000);
    sim_offer(&old, 0);
    sim_run_for(&old, 2 * SIM_MS); /* frames are under way */
    sim_init(&new, 42, true, 0);
    new.run = 4;
    sim_start(&new, NULL);
    queue_random(&new, 10, 5000);
    uint64_t stale = 0;
    for (sim_packet *p = old.node[1].inbox; p != NULL; p = p->next) {
        assert_int_equal(uvcc_link_feed(new.node[1].link, p->data, p->len, new.now), 0);
        stale++;
    }
    assert_true(stale > 0);
    assert_true(stats_of(&new, 1).stale_run >= stale);
    assert_int_equal(stats_of(&new, 1).refused, 0);
    sim_run(&new, 10000 * SIM_MS);
    sim_end(&new);
    sim_end(&old);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mix_datagrams),
        cmocka_unit_test(mix_streams),
        cmocka_unit_test(big_messages),
        cmocka_unit_test(timeout_below_queueing_delay),
        cmocka_unit_test(timeout_below_round_trip),
        cmocka_unit_test(outages),
        cmocka_unit_test(credit_is_renewed),
        cmocka_unit_test(quiet_when_idle),
        cmocka_unit_test(clock_jumps),
        cmocka_unit_test(last_run),
        cmocka_unit_test(path_probing),
        cmocka_unit_test(path_falls),
        cmocka_unit_test(lost_flight),
        cmocka_unit_test(spurious_retransmissions),
        cmocka_unit_test(reordering_beyond_a_round_trip),
        cmocka_unit_test(allocation_failures),
        cmocka_unit_test(reconnect_everywhere),
        cmocka_unit_test(frame_sizes),
        cmocka_unit_test(determinism),
        cmocka_unit_test(old_run),
    };
    return cmocka_run_group_tests_name("link_sim", tests, NULL, NULL);
}
