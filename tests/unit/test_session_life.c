/* A session beside its peers: how it ends when they do, or do not answer any more. Time is the
 * network's, and every wait is told by it. */
#include "triangle.h"

enum { COLS = 4, IN_X = 1, OUT_X = 2 };
#define MS     1000000ull
#define SECOND (1000 * MS)

static uvcc_program *sum_program(test_alloc *mem) {
    uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    char why[256] = "";
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = test_tensor(p, "x", 1, COLS, 20, 10, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "one") >= 0);
    assert_true(uvcc_program_input(p, IN_X, x, 1) >= 0); /* P1's */
    assert_true(uvcc_program_output(p, OUT_X, x) >= 0);
    assert_int_equal(uvcc_program_finish(p, why, sizeof why), 0);
    return p;
}

typedef struct fix {
    test_alloc mem;
    uvcc_program *p;
    triangle t;
    unsigned byes[3]; /* events PEER_BYE, by party */
} fix;

static void on_event(void *user, unsigned party, const uvcc_session *s, const uvcc_event *e) {
    fix *f = user;
    (void)s;
    f->byes[party] += e->kind == UVCC_EVENT_PEER_BYE;
}

static void begin(fix *f, bool datagram, void (*tweak)(uvcc_config *)) {
    memset(f, 0, sizeof *f);
    f->p = sum_program(&f->mem);
    triangle_make(
        &f->t, f->p,
        &(triangle_options){
            .seed = 7, .datagram = datagram, .tweak = tweak, .on_event = on_event, .user = f});
}

static void end(fix *f) {
    triangle_free(&f->t);
    uvcc_program_free(f->p);
    assert_int_equal(f->mem.live_blocks, 0);
}

/* One step of all three. */
static void one_step(fix *f, uint32_t step) {
    const int64_t x[COLS] = {1, -2, 3, -4};
    triangle_agree(&f->t, step, 0);
    triangle_input(&f->t, 1, step, IN_X, x);
    triangle_finish(&f->t, step + 1);
}

static void begin_ready(fix *f, bool datagram, void (*tweak)(uvcc_config *)) {
    begin(f, datagram, tweak);
    triangle_start(&f->t);
    triangle_ready(&f->t);
}

/* Drives until the time, or until nothing can happen any more. */
static void until(fix *f, uint64_t time) {
    while (triangle_now(&f->t) < time && triangle_turn(&f->t))
        ;
}

/* ---- closing ---- */

/* The host of a session that is CLOSED goes at once, with its streams. */
static void leave(fix *f, unsigned party) {
    uvcc_session_free(f->t.s[party]);
    f->t.s[party] = NULL;
    for (unsigned q = 0; q < 3 && !f->t.opt.datagram; q++)
        if (q != party)
            (void)uvcc_loopback_disconnect(f->t.net, party, q);
}

/* A turn; who is CLOSED goes. */
static void turn_and_leave(fix *f) {
    assert_true(triangle_turn(&f->t));
    for (unsigned i = 0; i < 3; i++)
        if (f->t.s[i] != NULL && f->t.closed[i])
            leave(f, i);
}

/* All close, one after the other, and are driven until they are gone: how long that took from the
 * last one's close. */
static uint64_t all_leave(fix *f, uint64_t gap) {
    uint64_t from = triangle_now(&f->t);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(uvcc_session_close(f->t.s[i], from), 0);
        while (i != 2 && gap != 0 && triangle_now(&f->t) < from + gap)
            turn_and_leave(f);
        from = triangle_now(&f->t);
    }
    while (f->t.s[0] != NULL || f->t.s[1] != NULL || f->t.s[2] != NULL)
        turn_and_leave(f);
    return triangle_now(&f->t) - from;
}

/* Nobody waits for a peer that is done: its last acknowledgement goes out before it is CLOSED. The
 * three may close at once or one after the other. */
static void test_nobody_waits_for_the_done(void **state) {
    (void)state;
    for (unsigned datagram = 0; datagram < 2; datagram++)
        for (unsigned gap = 0; gap < 3; gap++) {
            fix f;
            begin_ready(&f, datagram != 0, NULL);
            one_step(&f, 0);
            until(&f, triangle_now(&f.t) + 5 * MS);
            assert_true(all_leave(&f, gap * MS) < 10 * MS);
            end(&f);
        }
}

/* The same after an abort, of one or of all at once, with messages on their way that an aborted
 * party never accepts. */
static void test_nobody_waits_for_the_aborted(void **state) {
    (void)state;
    for (unsigned datagram = 0; datagram < 2; datagram++)
        for (unsigned aborts = 1; aborts <= 3; aborts++) {
            fix f;
            begin_ready(&f, datagram != 0, NULL);
            triangle_agree(&f.t, 0, 0);
            until(&f, triangle_now(&f.t) + MS);
            const int64_t x[COLS] = {0};
            triangle_input(&f.t, 1, 0, IN_X, x);
            for (unsigned i = 0; i < aborts; i++)
                assert_int_equal(uvcc_session_abort(f.t.s[i], UVCC_ABORT_HOST, triangle_now(&f.t)),
                                 0);
            while (f.t.aborted[0] == 0 || f.t.aborted[1] == 0 || f.t.aborted[2] == 0)
                assert_true(triangle_turn(&f.t));
            assert_true(all_leave(&f, 0) < 10 * MS);
            end(&f);
        }
}

/* Both BYEs are in, and the last acknowledgements will never come: once both streams are closed
 * there is nothing to wait for, and not before. */
static void test_streams_that_closed(void **state) {
    (void)state;
    fix f;
    begin_ready(&f, false, NULL);
    for (unsigned i = 1; i < 3; i++)
        assert_int_equal(uvcc_session_close(f.t.s[i], triangle_now(&f.t)), 0);
    while (f.byes[0] < 2)
        assert_true(triangle_turn(&f.t));
    uint64_t now = triangle_now(&f.t);
    for (unsigned i = 1; i < 3; i++)
        assert_int_equal(uvcc_loopback_cut(f.t.net, i, 0, true), 0);
    assert_int_equal(uvcc_session_close(f.t.s[0], now), 0);
    until(&f, now + 100 * MS);
    now = triangle_now(&f.t);
    assert_false(f.t.closed[0]);
    assert_int_equal(uvcc_session_peer_closed(f.t.s[0], 1, now), 0);
    triangle_events(&f.t);
    assert_false(f.t.closed[0]);
    assert_int_equal(uvcc_session_peer_closed(f.t.s[0], 2, now), 0);
    triangle_events(&f.t);
    assert_true(f.t.closed[0]);
    end(&f);
}

/* A stream that closes before its peer's BYE came may come back. */
static void test_stream_without_bye(void **state) {
    (void)state;
    for (unsigned aborted = 0; aborted < 2; aborted++) {
        fix f;
        begin_ready(&f, false, NULL);
        const uint64_t now = triangle_now(&f.t);
        if (aborted != 0)
            assert_int_equal(uvcc_session_abort(f.t.s[0], UVCC_ABORT_HOST, now), 0);
        assert_int_equal(uvcc_session_close(f.t.s[0], now), 0);
        for (uint8_t p = 1; p < 3; p++)
            assert_int_equal(uvcc_session_peer_closed(f.t.s[0], p, now), 0);
        triangle_events(&f.t);
        assert_false(f.t.closed[0]);
        assert_true(uvcc_session_next_deadline(f.t.s[0]) <= now + 3 * SECOND);
        end(&f);
    }
}

static uint64_t close_ns;
static void with_close(uvcc_config *c) {
    c->limits.close_ns = close_ns;
}

/* Peers that never answer are waited for as long as the configuration says, after an abort too. */
static void test_close_time(void **state) {
    (void)state;
    const uint64_t times[] = {0, 50 * MS, 10 * SECOND, UVCC_NEVER};
    for (unsigned k = 0; k < 8; k++) {
        fix f;
        close_ns = times[k / 2];
        begin_ready(&f, true, with_close);
        for (unsigned i = 1; i < 3; i++)
            assert_int_equal(uvcc_loopback_cut(f.t.net, i, 0, true), 0);
        until(&f, triangle_now(&f.t) + MS);
        const uint64_t now = triangle_now(&f.t), wait = close_ns == 0 ? 3 * SECOND : close_ns;
        if (k % 2 != 0)
            assert_int_equal(uvcc_session_abort(f.t.s[0], UVCC_ABORT_HOST, now), 0);
        assert_int_equal(uvcc_session_close(f.t.s[0], now), 0);
        while (!f.t.closed[0] && triangle_now(&f.t) < now + 60 * SECOND)
            assert_true(triangle_turn(&f.t));
        assert_int_equal(f.t.closed[0], wait != UVCC_NEVER);
        if (f.t.closed[0])
            assert_int_equal(triangle_now(&f.t) - now, wait);
        end(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_waits_for_the_done),
        cmocka_unit_test(test_nobody_waits_for_the_aborted),
        cmocka_unit_test(test_streams_that_closed),
        cmocka_unit_test(test_stream_without_bye),
        cmocka_unit_test(test_close_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
