/* Two links over a lossy, reordering, corrupting pipe and over streams: everything sent arrives once,
 * byte for byte, within bounded memory. */
#include "link_sim.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mix_datagrams),
        cmocka_unit_test(mix_streams),
        cmocka_unit_test(big_messages),
    };
    return cmocka_run_group_tests_name("link_sim", tests, NULL, NULL);
}
