/* SPDX-License-Identifier: Apache-2.0 */
/* Every adapter is the same to a session: the cases that each transport must pass. Argument: its
 * name, a row of world.c; then, for one case only, the case's. */
#include "world.h"

static const transport *over;

static void test_relu(void **state) {
    (void)state;
    world w;
    job j;
    world_init(&w, over);
    job_relu(&j, 3, 4, 5);
    world_open(&w);
    world_run(&w, &j);
    world_close(&w);
    job_free(&j);
}

static void test_mlp(void **state) {
    (void)state;
    world w;
    job j;
    world_init(&w, over);
    job_mlp(&j, 10);
    world_open(&w);
    world_run(&w, &j);
    world_close(&w);
    job_free(&j);
}

static void test_threads(void **state) {
    (void)state;
    world w;
    job j;
    world_init(&w, over);
    w.threads = true;
    job_mlp(&j, 5);
    world_open(&w);
    world_run(&w, &j);
    world_close(&w);
    job_free(&j);
}

/* Eight workers of each party behind one listener, or one socket for packets. */
static void test_workers(void **state) {
    (void)state;
    world w;
    job j;
    world_init(&w, over);
    job_mlp(&j, 3);
    world_open(&w);
    for (unsigned i = 0; i < WORKERS_MAX; i++)
        world_add(&w, &j);
    world_until(&w, all_closed);
    world_check(&w);
    world_close(&w);
    job_free(&j);
}

/* ---- what networks do to streams ---- */

#define STREAMS_ONLY()                                                                             \
    do {                                                                                           \
        (void)state;                                                                               \
        if (over->datagram)                                                                        \
            skip();                                                                                \
    } while (0)

/* A proxy forwards 1 to 7 bytes at a time. */
static void test_splits(void **state) {
    STREAMS_ONLY();
    world w;
    job j;
    world_init(&w, over);
    w.proxied = true;
    job_relu(&j, 2, 2, 2);
    world_open(&w);
    proxy_rule(w.proxy)->piece = 7;
    world_run(&w, &j);
    world_close(&w);
    job_free(&j);
}

/* The least buffers that the system gives, and messages many times as long. */
static void test_partial_writes(void **state) {
    (void)state;
    world w;
    job j;
    world_init(&w, over);
    /* Datagrams: two packets of HELLO must fit. TLS: less than a record is enough, and a window
     * below that waits for the kernel's probe of 200 ms at each. */
    w.net_cfg.socket_bytes = over->datagram ? 16384 : over->tls ? 8192 : 1;
    w.net_cfg.turn_bytes = 10000;
    job_relu(&j, 32, 32, 16);
    world_open(&w);
    world_run(&w, &j);
    world_close(&w);
    job_free(&j);
}

static bool first_finished(world *w) {
    return w->hosts[0][0].finished >= w->gate;
}

static bool others_idle(world *w) {
    uvcc_net_stats a, b;
    const uint64_t end = uvcc_host_now_ns() + 20000000;
    uvcc_net_get_stats(w->net[0], &a);
    while (uvcc_host_now_ns() < end)
        world_turn(w);
    uvcc_net_get_stats(w->net[0], &b);
    return a.bytes_tx == b.bytes_tx;
}

/* A host stands still: the others fill its sockets and wait, and go on when it does. */
static void test_backpressure(void **state) {
    (void)state;
    world w;
    job j;
    world_init(&w, over);
    w.net_cfg.socket_bytes = 8192;
    job_relu(&j, 64, 64, 16);
    world_open(&w);
    world_add(&w, &j);
    world_until(&w, all_ready);
    w.paused[2] = true;
    if (!over->datagram)
        world_until(&w, others_idle);
    w.paused[2] = false;
    world_until(&w, all_closed);
    world_check(&w);
    world_close(&w);
    job_free(&j);
}

/* A connection ends after its first byte, its second, ... of either side: the call, HELLO, and what
 * comes then. */
static void cut_at(int64_t in, int64_t out, bool quiet) {
    world w;
    job j;
    world_init(&w, over);
    w.proxied = true;
    job_relu(&j, 1, 2, 1);
    world_open(&w);
    *proxy_rule(w.proxy) = (proxy_rules){.cut_in = in, .cut_out = out, .quiet_end = quiet};
    world_add(&w, &j);
    /* the two that party 2 dials, and party 1's */
    const uint64_t end = uvcc_host_now_ns() + 60000000000ull;
    while (!all_closed(&w) && proxy_cuts(w.proxy) < 3) {
        world_turn(&w);
        assert_true(uvcc_host_now_ns() < end);
    }
    proxy_rule(w.proxy)->cut_in = proxy_rule(w.proxy)->cut_out = -1;
    world_until(&w, all_closed);
    world_check(&w);
    world_close(&w);
    job_free(&j);
}

static void test_cut_beginnings(void **state) {
    STREAMS_ONLY();
    const int64_t step = getenv("UVCC_TEST_LONG") != NULL ? 1 : 11;
    for (int64_t at = 0; at < 1200; at += at < 32 ? 1 : step) {
        cut_at(at, -1, (at & 1) != 0);
        if (at % 2 == 0 || step == 1)
            cut_at(-1, at, (at & 2) != 0);
    }
}

/* Three hundred connections end in the middle of training; a step waits for its share of them. */
static void test_resets(void **state) {
    STREAMS_ONLY();
    enum { RESETS = 300, STEPS = 20 };
    world w;
    job j;
    uint64_t random = 3;
    world_init(&w, over);
    w.proxied = true;
    w.gate = 1;
    job_mlp(&j, STEPS);
    world_open(&w);
    world_add(&w, &j);
    const uint64_t end = uvcc_host_now_ns() + 200000000000ull;
    while (!all_closed(&w)) {
        const bool waits = first_finished(&w);
        if (w.gate <= STEPS && waits && proxy_resets(w.proxy) >= RESETS / STEPS * w.gate)
            w.gate++;
        else if (proxy_resets(w.proxy) < RESETS && (waits || test_rand(&random) % 8 == 0))
            (void)proxy_reset(w.proxy);
        world_turn(&w);
        assert_true(uvcc_host_now_ns() < end);
    }
    assert_true(proxy_resets(w.proxy) >= RESETS);
    world_check(&w);
    world_close(&w);
    job_free(&j);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relu),         cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_threads),      cmocka_unit_test(test_workers),
        cmocka_unit_test(test_splits),       cmocka_unit_test(test_partial_writes),
        cmocka_unit_test(test_backpressure), cmocka_unit_test(test_cut_beginnings),
        cmocka_unit_test(test_resets),
    };
    over = argc > 1 ? transport_named(argv[1]) : NULL;
    if (over == NULL) {
        fprintf(stderr, "usage: conformance TRANSPORT [CASE]\n");
        return 2;
    }
    const char *why = transport_missing(over);
    if (why != NULL) {
        fprintf(stderr, "skipped: %s\n", why);
        return 77;
    }
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
