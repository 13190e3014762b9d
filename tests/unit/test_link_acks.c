/* SPDX-License-Identifier: Apache-2.0 */
/* Acknowledgements of an authenticated peer that does not mean well: two that crashed a link, then
 * random ones, on datagrams and streams, unsealed and sealed with both suites (fuzz/acks.h). */
#include "support.h"

#include "acks.h"

static void begin(acks_world *w, bool datagram, uint8_t suite) {
    uint8_t how[2] = {(uint8_t)((datagram ? 1 : 0) | suite << 1), 128};
    fuzz_in in = {how, sizeof how};
    memset(w, 0, sizeof *w);
    assert_true(fuzz_link_begin(&w->f, &in));
    w->up = true;
    acks_drain(w, 0);
    uvcci_ack a = {.counter = ++w->counter, .cum = acks_base(w), .credit = {1 << 24, 1 << 24}};
    acks_tell(w, &a);
}

static void send(acks_world *w, uint32_t len) {
    const uint32_t ids[UVCC_MSG_MAX_CHUNKS] = {7};
    uvcc_link_msg *m;
    assert_int_equal(uvcc_link_msg_new(w->f.l, UVCC_FRAME_OPEN_BATCH, len, &m), 0);
    memset(uvcc_link_msg_data(m), 1, len);
    assert_int_equal(uvcc_link_send(w->f.l, m, w->f.step, ++w->messages, ids, 0, w->f.now), 0);
    acks_drain(w, 0);
}

static void tell(acks_world *w, uint64_t cum, uint64_t first, uint64_t last) {
    uvcci_ack a = {.counter = ++w->counter,
                   .cum = acks_base(w) + cum,
                   .credit = {1 << 24, 1 << 24},
                   .range_cnt = first != 0,
                   .range = {{acks_base(w) + first, acks_base(w) + last}}};
    acks_tell(w, &a);
    acks_check(w);
}

static void idle(acks_world *w) {
    for (int i = 0; i < 3; i++) {
        w->f.now += 110 * FUZZ_MS;
        acks_timers(w);
        acks_drain(w, 0);
        acks_check(w);
    }
}

static void end(acks_world *w) {
    w->idle = UINT64_MAX;
    acks_finish(w);
    fuzz_link_end(&w->f);
}

typedef void (*attack)(acks_world *w);

static void on_every_link(attack f) {
    static acks_world w;
    for (uint8_t suite = 0; suite < 3; suite++)
        for (int datagram = 0; datagram < 2; datagram++) {
            begin(&w, datagram != 0, suite);
            f(&w);
            end(&w);
        }
}

/* All of the window in a range while the cumulative ack stands still; the link is idle, and then it
 * moves on. */
static void range_then_cum(acks_world *w) {
    for (int i = 0; i < 3; i++)
        send(w, 40);
    tell(w, 0, 1, 3);
    assert_false(uvcc_link_drained(w->f.l));
    idle(w);
    tell(w, 3, 0, 0);
    assert_true(uvcc_link_drained(w->f.l));
    idle(w);
}

/* Then one that is lower than what was told, with a range over what was told. */
static void range_then_lower(acks_world *w) {
    for (int i = 0; i < 3; i++)
        send(w, 40);
    tell(w, 1, 0, 0);
    tell(w, 1, 2, 3);
    idle(w);
    tell(w, 0, 1, 3);
    tell(w, 0, 2, 2);
    idle(w);
    send(w, 40);
    tell(w, 0, 1, 4);
    idle(w);
    tell(w, 2, 0, 0);
    tell(w, 4, 0, 0);
}

static void range_then_more(acks_world *w) {
    for (int i = 0; i < 70; i++) /* more than a block of the ring */
        send(w, 40);
    tell(w, 0, 1, 70);
    idle(w);
    send(w, 3000);
    tell(w, 0, 1, 70);
    idle(w);
    tell(w, 69, 70, 70);
    idle(w);
}

/* A range that holds a message's frames, acknowledged while a transmit points into them. */
static void range_while_out(acks_world *w) {
    send(w, 40);
    const uint32_t ids[UVCC_MSG_MAX_CHUNKS] = {7};
    uvcc_link_msg *m;
    assert_int_equal(uvcc_link_msg_new(w->f.l, UVCC_FRAME_OPEN_BATCH, 900, &m), 0);
    memset(uvcc_link_msg_data(m), 1, 900);
    assert_int_equal(uvcc_link_send(w->f.l, m, w->f.step, ++w->messages, ids, 0, w->f.now), 0);
    assert_true(acks_poll(w));
    tell(w, 1, 2, w->f.l->tx.next - 1 - acks_base(w));
    w->f.now += 150 * FUZZ_MS;
    acks_timers(w);
    tell(w, w->f.l->tx.next - 1 - acks_base(w), 0, 0);
    w->f.now += 150 * FUZZ_MS;
    acks_timers(w);
    acks_sent(w, 0);
}

static void test_range_then_cum(void **state) {
    (void)state;
    on_every_link(range_then_cum);
}

static void test_range_then_lower(void **state) {
    (void)state;
    on_every_link(range_then_lower);
}

static void test_range_then_more(void **state) {
    (void)state;
    on_every_link(range_then_more);
}

static void test_range_while_out(void **state) {
    (void)state;
    on_every_link(range_while_out);
}

/* Any sequences, each kind of link and config. */
static void test_random_acks(void **state) {
    (void)state;
    static const uint8_t configs[] = {0, 1, 2, 3, 4, 5, 8, 11, 32};
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        uint8_t data[700];
        uint64_t random = seed;
        test_rand_bytes(&random, data, sizeof data);
        data[0] = configs[seed % sizeof configs];
        data[1] &= (uint8_t) ~(32u | 64u);
        assert_true(acks_run(data, 100 + seed % 600));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range_then_cum),  cmocka_unit_test(test_range_then_lower),
        cmocka_unit_test(test_range_then_more), cmocka_unit_test(test_range_while_out),
        cmocka_unit_test(test_random_acks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
