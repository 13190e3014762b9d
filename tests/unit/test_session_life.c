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
    unsigned byes[3];                   /* events PEER_BYE, by party */
    unsigned silent[3][3], heard[3][3]; /* PEER_SILENT and _HEARD, by party and peer */
    uint64_t since, told_at;            /* of the last PEER_SILENT */
    uint8_t aborted_by;                 /* peer of ABORTED at party 0 */
} fix;

static void on_event(void *user, unsigned party, const uvcc_session *s, const uvcc_event *e) {
    fix *f = user;
    (void)s;
    f->byes[party] += e->kind == UVCC_EVENT_PEER_BYE;
    f->silent[party][e->peer] += e->kind == UVCC_EVENT_PEER_SILENT;
    f->heard[party][e->peer] += e->kind == UVCC_EVENT_PEER_HEARD;
    if (e->kind == UVCC_EVENT_PEER_SILENT) {
        f->since = e->since_ns;
        f->told_at = triangle_now(&f->t);
    }
    if (e->kind == UVCC_EVENT_ABORTED && party == 0)
        f->aborted_by = e->peer;
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

/* ---- silence ---- */

static uint64_t silence_ns, silence_abort_ns;
static unsigned warned;
static void count_warnings(void *user, uvcc_log_level level, const char *line) {
    (void)user;
    warned += level == UVCC_LOG_WARN && strstr(line, "is silent") != NULL;
}
/* Of party 0 alone: nobody has to help. */
static void with_silence(uvcc_config *c) {
    if (c->identity.party != 0)
        return;
    c->links.silence_ns = silence_ns;
    c->links.silence_abort_ns = silence_abort_ns;
    c->log.write = count_warnings;
}

static void cut(fix *f, unsigned from, unsigned to, bool is) {
    assert_int_equal(uvcc_loopback_cut(f->t.net, from, to, is), 0);
}

/* A peer that says nothing is told of once, when its time is over, and once more when it is heard
 * again; idle ones that live are not. */
static void test_silence(void **state) {
    (void)state;
    for (unsigned datagram = 0; datagram < 2; datagram++) {
        fix f;
        silence_ns = SECOND, silence_abort_ns = 0, warned = 0;
        begin_ready(&f, datagram != 0, with_silence);
        one_step(&f, 0);
        until(&f, 30 * SECOND);
        for (unsigned p = 1; p < 3; p++)
            assert_true(f.silent[0][p] == 0 && f.heard[0][p] == 0);
        for (unsigned k = 1; k <= 3; k++) {
            const uint64_t from = triangle_now(&f.t);
            cut(&f, 1, 0, true);
            until(&f, from + 10 * SECOND);
            assert_int_equal(f.silent[0][1], k);
            assert_int_equal(f.heard[0][1], k - 1);
            assert_true(f.since <= from + MS && f.since + SECOND / 3 > from);
            assert_int_equal(f.told_at, f.since + SECOND);
            cut(&f, 1, 0, false);
            until(&f, from + 20 * SECOND);
            assert_int_equal(f.silent[0][1], k);
            assert_int_equal(f.heard[0][1], k);
        }
        one_step(&f, 1);
        assert_true(f.silent[0][2] == 0 && f.heard[0][2] == 0);
        assert_int_equal(warned, 3);
        triangle_close(&f.t);
        end(&f);
    }
}

/* If so configured it ends the session, by a reason of its own that names the peer. */
static void test_silence_aborts(void **state) {
    (void)state;
    for (unsigned k = 0; k < 4; k++) {
        fix f;
        silence_ns = k % 2 == 0 ? SECOND : 0, silence_abort_ns = 4 * SECOND;
        begin_ready(&f, k / 2 != 0, with_silence);
        cut(&f, 2, 0, true);
        const uint64_t from = triangle_now(&f.t);
        until(&f, from + 4 * SECOND - 1500 * MS);
        assert_int_equal(f.silent[0][2], k % 2 == 0);
        assert_int_equal(f.t.aborted[0], 0);
        until(&f, from + 5 * SECOND);
        assert_int_equal(f.t.aborted[0], UVCC_ABORT_SILENCE);
        assert_int_equal(f.aborted_by, 2);
        assert_string_equal(f.t.abort_text[0], "party 2 is silent");
        assert_int_equal(f.t.aborted[1], UVCC_ABORT_PEER);
        end(&f);
    }
}

/* In the handshake it tells who is missing, not who waits for the missing one too. */
static void test_who_is_missing(void **state) {
    (void)state;
    for (unsigned k = 0; k < 4; k++) {
        fix f;
        silence_ns = SECOND, silence_abort_ns = k % 2 == 0 ? 0 : 30 * SECOND;
        begin(&f, k / 2 != 0, with_silence);
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(uvcc_session_start(f.t.s[i], 0), 0);
        uvcc_session *late = f.t.s[2];
        f.t.s[2] = NULL;
        until(&f, 29 * SECOND);
        assert_true(f.silent[0][2] == 1 && f.silent[0][1] == 0);
        assert_int_equal(f.told_at, SECOND);
        assert_int_equal(f.since, 0);
        until(&f, 40 * SECOND);
        f.t.s[2] = late;
        if (k % 2 != 0) {
            assert_int_equal(f.t.aborted[0], UVCC_ABORT_SILENCE);
            assert_int_equal(f.aborted_by, 2);
        } else {
            const uint64_t now = triangle_now(&f.t);
            assert_int_equal(uvcc_session_start(late, now), 0);
            for (unsigned i = 0; i < 2 && !f.t.opt.datagram; i++)
                assert_int_equal(uvcc_loopback_disconnect(f.t.net, i, 2), 0);
            triangle_ready(&f.t);
            one_step(&f, 0);
            assert_true(f.silent[0][2] == 1 && f.heard[0][2] == 1);
            assert_true(f.silent[0][1] == 0 && f.heard[0][1] == 0);
        }
        end(&f);
    }
}

/* Time in which this host stood still is nobody's silence. */
static void test_standing_still(void **state) {
    (void)state;
    fix f;
    silence_ns = SECOND, silence_abort_ns = 2 * SECOND;
    begin_ready(&f, true, with_silence);
    until(&f, 10 * SECOND);
    for (unsigned k = 0; k < 3; k++) {
        uvcc_loopback_advance(f.t.net, triangle_now(&f.t) + 60 * SECOND);
        assert_int_equal(uvcc_session_on_timer(f.t.s[0], triangle_now(&f.t)), 0);
        until(&f, triangle_now(&f.t) + 5 * SECOND);
    }
    assert_int_equal(f.t.aborted[0], 0);
    assert_true(f.silent[0][1] == 0 && f.silent[0][2] == 0);
    end(&f);
}

/* What the host does not poll does not pile up: it is told what is, not all that was. */
static void test_silence_is_a_state(void **state) {
    (void)state;
    fix f;
    silence_ns = SECOND, silence_abort_ns = 0;
    begin_ready(&f, true, with_silence);
    uvcc_event e;
    for (unsigned k = 0; k < 200; k++) {
        cut(&f, 1, 0, k % 2 == 0);
        for (const uint64_t end = triangle_now(&f.t) + 2 * SECOND; triangle_now(&f.t) < end;)
            assert_int_equal(uvcc_loopback_drive(f.t.net, f.t.s, f.t.cpu, 3), 1);
    }
    assert_int_equal(uvcc_session_poll_event(f.t.s[0], &e), 0);
    cut(&f, 1, 0, true);
    for (const uint64_t end = triangle_now(&f.t) + 2 * SECOND; triangle_now(&f.t) < end;)
        assert_int_equal(uvcc_loopback_drive(f.t.net, f.t.s, f.t.cpu, 3), 1);
    assert_int_equal(uvcc_session_poll_event(f.t.s[0], &e), 1);
    assert_int_equal(e.kind, UVCC_EVENT_PEER_SILENT);
    assert_int_equal(e.peer, 1);
    assert_int_equal(uvcc_session_poll_event(f.t.s[0], &e), 0);
    end(&f);
}

/* Of a peer that said BYE nothing is to come. */
static void test_silent_after_bye(void **state) {
    (void)state;
    fix f;
    silence_ns = SECOND, silence_abort_ns = 2 * SECOND;
    begin_ready(&f, true, with_silence);
    assert_int_equal(uvcc_session_close(f.t.s[1], triangle_now(&f.t)), 0);
    until(&f, triangle_now(&f.t) + 10 * SECOND);
    assert_int_equal(f.byes[0], 1);
    cut(&f, 1, 0, true);
    until(&f, triangle_now(&f.t) + 10 * SECOND);
    assert_true(f.silent[0][1] == 0 && f.t.aborted[0] == 0);
    end(&f);
}

/* What cannot work is refused: PINGs too rare to hear their answers, an abort before the event. */
static void test_silence_config(void **state) {
    (void)state;
    static const struct {
        uint64_t silence, abort, keepalive;
        bool taken;
    } cases[] = {
        {SECOND, 0, 0, true},
        {SECOND, SECOND, 0, true},
        {SECOND, SECOND - 1, 0, false},
        {0, SECOND, 0, true},
        {MS, 0, 0, true},
        {MS - 1, 0, 0, false},
        {0, MS - 1, 0, false},
        {SECOND, 0, SECOND / 2, true},
        {SECOND, 0, SECOND / 2 + 1, false},
        {0, SECOND, SECOND / 2 + 1, false},
        {SECOND, 0, UVCC_NEVER, false},
        {0, 0, UVCC_NEVER, true},
        {UVCC_NEVER, UVCC_NEVER, 0, true},
    };
    for (unsigned k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        test_alloc mem = {0};
        uint64_t rnd = 3;
        uvcc_config c = triangle_config_alone(&mem, &rnd);
        uvcc_session *s;
        c.links.silence_ns = cases[k].silence;
        c.links.silence_abort_ns = cases[k].abort;
        c.links.keepalive_ns = cases[k].keepalive;
        const int rc = uvcc_session_new(&s, &c);
        assert_int_equal(rc, cases[k].taken ? 0 : UVCC_ERR_CONFIG);
        if (rc == 0)
            uvcc_session_free(s);
        assert_int_equal(mem.live_blocks, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_waits_for_the_done),
        cmocka_unit_test(test_nobody_waits_for_the_aborted),
        cmocka_unit_test(test_streams_that_closed),
        cmocka_unit_test(test_stream_without_bye),
        cmocka_unit_test(test_close_time),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_silence_aborts),
        cmocka_unit_test(test_who_is_missing),
        cmocka_unit_test(test_standing_still),
        cmocka_unit_test(test_silence_is_a_state),
        cmocka_unit_test(test_silent_after_bye),
        cmocka_unit_test(test_silence_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
