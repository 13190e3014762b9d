/* SPDX-License-Identifier: Apache-2.0 */
/* A session beside its peers: how it ends when they do, or do not answer any more. Time is the
 * network's, and every wait is told by it. And which programs it takes at all. */
#include "triangle.h"

#include "exec/runtime/core.h"

enum { COLS = 4, IN_X = 1, OUT_X = 2 };
#define MS     1000000ull
#define SECOND (1000 * MS)

static uvcc_program *sum_program(test_alloc *mem, uint32_t cols) {
    uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    char why[256] = "";
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = test_tensor(p, "x", 1, cols, 20, 10, UVCC_TRANSIENT);
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
    f->p = sum_program(&f->mem, COLS);
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

/* Sessions that are CLOSED and stay are still: an hour later nothing has gone out, and no timer is
 * wanted. */
static void test_the_closed_are_still(void **state) {
    (void)state;
    for (unsigned k = 0; k < 4; k++) {
        const bool datagram = k % 2 != 0, aborts = k / 2 != 0;
        fix f;
        begin_ready(&f, datagram, NULL);
        one_step(&f, 0);
        if (aborts)
            assert_int_equal(uvcc_session_abort(f.t.s[0], UVCC_ABORT_HOST, triangle_now(&f.t)), 0);
        until(&f, triangle_now(&f.t) + 5 * MS);
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(uvcc_session_close(f.t.s[i], triangle_now(&f.t)), 0);
        until(&f, triangle_now(&f.t) + SECOND);
        uvcc_loopback_stats before, after;
        uvcc_loopback_get_stats(f.t.net, &before);
        until(&f, triangle_now(&f.t) + 3600 * SECOND);
        uvcc_loopback_get_stats(f.t.net, &after);
        assert_int_equal(after.packets, before.packets);
        for (unsigned i = 0; i < 3; i++) {
            assert_true(f.t.closed[i]);
            assert_true(uvcc_session_next_deadline(f.t.s[i]) == UVCC_NEVER);
        }
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
/* A peer that says BYE although a step needs it still, and then nothing: it is silent as any other.
 */
static void test_silent_after_an_early_bye(void **state) {
    (void)state;
    fix f;
    silence_ns = SECOND, silence_abort_ns = 2 * SECOND;
    begin_ready(&f, true, with_silence);
    triangle_agree(&f.t, 0, 0); /* the input of party 1 is missing */
    until(&f, triangle_now(&f.t) + 10 * MS);
    for (unsigned p = 0; p < 3; p += 2) {
        f.t.s[p]->peer[1].bye = true;
        cut(&f, 1, p, true);
        cut(&f, p, 1, true);
    }
    const uint64_t from = triangle_now(&f.t);
    until(&f, from + 5 * SECOND);
    assert_true(f.t.aborted[0] == UVCC_ABORT_SILENCE || f.t.aborted[2] == UVCC_ABORT_SILENCE);
    assert_true(f.t.aborted[0] != 0 && f.t.aborted[2] != 0);
    end(&f);
}

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

/* ---- deadlines ---- */

/* All that one party's host does in a turn, but that it keeps the transmits that it polls. The
 * deadline must be after now then. */
static void keeping_turn(uvcc_session *s, uvcc_cpu *cpu, uint64_t now) {
    const uvcc_job *job;
    uvcc_completion c;
    uvcc_transmit tx;
    uvcc_event e;
    if (uvcc_session_next_deadline(s) <= now)
        assert_int_equal(uvcc_session_on_timer(s, now), 0);
    while (uvcc_session_poll_event(s, &e) == 1)
        ;
    while (uvcc_session_poll_job(s, &job) == 1) {
        assert_int_equal(uvcc_cpu_submit(cpu, job), 0);
        assert_int_equal(uvcc_cpu_poll(cpu, &c), 1);
        assert_int_equal(uvcc_session_complete(s, &c, now), 0);
    }
    while (uvcc_session_poll_transmit(s, &tx, now) == 1)
        ;
    assert_true(uvcc_session_next_deadline(s) > now);
}

/* A session whose transmits stay out, or whose streams are down, for a minute: in the handshake, in
 * a step, while it closes and after an abort, with HELLOs, ACKs, PINGs, resending and silence due.
 * It wakes its host now and then, not all the time. */
static void test_transmits_that_stay_out(void **state) {
    (void)state;
    silence_ns = SECOND, silence_abort_ns = 0;
    for (unsigned k = 0; k < 16; k++) {
        const bool datagram = (k & 1) != 0, down = (k & 2) != 0;
        const unsigned phase = k >> 2; /* handshake, step, closing, aborted */
        fix f;
        begin(&f, datagram, with_silence);
        triangle_start(&f.t);
        if (phase != 0) {
            triangle_ready(&f.t);
            if (phase != 2)
                triangle_agree(&f.t, 0, 0);
        }
        uvcc_session *s = f.t.s[0];
        uint64_t now = triangle_now(&f.t);
        const uint64_t until = now + 60 * SECOND;
        keeping_turn(s, f.t.cpu[0], now);
        if (phase == 1)
            triangle_input(&f.t, 1, 0, IN_X, (const int64_t[COLS]){1});
        if (phase == 3)
            assert_int_equal(uvcc_session_abort(s, UVCC_ABORT_HOST, now), 0);
        if (phase >= 2)
            assert_int_equal(uvcc_session_close(s, now), 0);
        /* The peers go on for a while, so that there is something to acknowledge. */
        for (unsigned i = 1; i < 3; i++) {
            uvcc_transmit tx;
            while (uvcc_session_poll_transmit(f.t.s[i], &tx, now) == 1) {
                uint8_t bytes[70000];
                size_t len = 0;
                for (uint32_t j = 0; j < tx.slice_count; j++) {
                    memcpy(bytes + len, tx.slices[j].data, tx.slices[j].len);
                    len += tx.slices[j].len;
                }
                if (tx.peer == 0)
                    (void)uvcc_session_feed(s, (uint8_t)i, bytes, len, now);
                assert_int_equal(uvcc_session_transmit_done(f.t.s[i], tx.peer, tx.id, len, now), 0);
            }
        }
        for (uint8_t p = 1; p < 3 && down; p++)
            assert_int_equal(uvcc_session_peer_closed(s, p, now), 0);
        unsigned woken = 0;
        while (now < until) {
            keeping_turn(s, f.t.cpu[0], now);
            const uint64_t next = uvcc_session_next_deadline(s);
            now = next < until ? next : until;
            woken++;
        }
        assert_true(woken < 1000);
        end(&f);
    }
}

/* ---- memory that is refused ---- */

static struct {
    uvcc_allocator base;
    uvcc_mem_class cls;
    unsigned fail, failed; /* blocks of cls that are refused from now on; that were */
} thrifty;

static void *thrifty_alloc(void *user, size_t bytes, uvcc_mem_class cls) {
    (void)user;
    if (cls == thrifty.cls && thrifty.failed < thrifty.fail) {
        thrifty.failed++;
        return NULL;
    }
    return thrifty.base.alloc(thrifty.base.user, bytes, cls);
}

static void thrifty_free(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    (void)user;
    thrifty.base.free(thrifty.base.user, p, bytes, cls);
}

static void with_thrifty(uvcc_config *c) {
    if (c->identity.party != 0)
        return;
    thrifty.base = c->alloc;
    c->alloc = (uvcc_allocator){.alloc = thrifty_alloc, .free = thrifty_free};
}

/* What a peer sends finds no memory, three times: datagrams come again, streams are closed and
 * opened again by the host, and the step is done with the right result. */
static void test_no_memory_in_feed(void **state) {
    (void)state;
    enum { MANY = 4000 };
    for (unsigned datagram = 0; datagram < 2; datagram++) {
        test_alloc mem = {0};
        uvcc_program *p = sum_program(&mem, MANY);
        triangle t;
        int64_t *x = calloc(MANY, sizeof *x);
        memset(&thrifty, 0, sizeof thrifty);
        x[0] = 77, x[MANY - 1] = -78;
        triangle_open(
            &t, p,
            &(triangle_options){.seed = 9, .datagram = datagram != 0, .tweak = with_thrifty});
        triangle_ready(&t);
        triangle_agree(&t, 0, 0);
        while (t.started[0] == 0)
            assert_true(triangle_turn(&t));
        thrifty.cls = UVCC_MEM_WIRE;
        thrifty.fail = 3;
        triangle_input(&t, 1, 0, IN_X, x);
        while (triangle_now(&t) < SECOND && t.finished[0] + t.finished[1] + t.finished[2] < 3)
            assert_true(triangle_turn(&t));
        triangle_finish(&t, t.finished[0]);
        assert_int_equal(t.finished[0], 1);
        assert_int_equal(thrifty.failed, 3);
        assert_memory_equal(uvcc_session_output(t.s[0], 0, OUT_X), x, MANY * sizeof *x);
        uvcc_loopback_stats st;
        uvcc_loopback_get_stats(t.net, &st);
        assert_int_equal(st.disconnects != 0, datagram == 0);
        free(x);
        triangle_close(&t);
        triangle_free(&t);
        uvcc_program_free(p);
    }
}

/* Memory that ran out is what is said, not that cryptography failed. */
static void test_no_memory_for_keys(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = sum_program(&mem, 4);
    triangle t;
    memset(&thrifty, 0, sizeof thrifty);
    triangle_open(&t, p, &(triangle_options){.seed = 9, .tweak = with_thrifty});
    thrifty.cls = UVCC_MEM_SECRET;
    thrifty.fail = 1;
    while (t.aborted[0] == 0)
        assert_true(triangle_turn(&t));
    assert_int_equal(thrifty.failed, 1);
    assert_int_equal(t.aborted[0], UVCC_ABORT_MEMORY);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
}

/* ---- what is known of peers ---- */

static uvcc_peer_info info(const fix *f, unsigned party, uint8_t peer) {
    uvcc_peer_info i = {.size = sizeof i};
    assert_int_equal(uvcc_session_peer_info(f->t.s[party], peer, &i), 0);
    assert_int_equal(i.size, sizeof i);
    return i;
}

static void waits_for(const fix *f, unsigned party, uint8_t peer, uvcc_wait what, uint32_t step,
                      uint64_t since) {
    const uvcc_peer_info i = info(f, party, peer);
    if (i.waits_for != what || i.wait_step != step || i.wait_since_ns != since)
        fail_msg("party %u of %u: %u, step %u since %llu, not %u, %u, %llu", party, peer,
                 i.waits_for, i.wait_step, (unsigned long long)i.wait_since_ns, what, step,
                 (unsigned long long)since);
}

/* Who is missing in the handshake: the one that fell silent in its middle, not the one with which
 * it is done, though nobody speaks any more until READY. */
static void test_handshake_info(void **state) {
    (void)state;
    fix f;
    silence_ns = SECOND, silence_abort_ns = 0;
    begin(&f, true, with_silence);
    uvcc_peer_info i = {.size = sizeof i};
    assert_int_equal(uvcc_session_peer_info(f.t.s[0], 1, &i), UVCC_ERR_STATE);
    triangle_start(&f.t);
    i = info(&f, 0, 1);
    assert_true(!i.hello && !i.connected && i.heard_ns == UVCC_NEVER);
    assert_int_equal(i.handshake, UVCC_HANDSHAKE_HELLO1);
    while (info(&f, 0, 1).handshake == UVCC_HANDSHAKE_HELLO1 ||
           info(&f, 1, 0).handshake == UVCC_HANDSHAKE_HELLO1)
        assert_true(triangle_turn(&f.t));
    for (unsigned p = 0; p < 2; p++)
        cut(&f, 2, p, true);
    const uint64_t from = triangle_now(&f.t);
    until(&f, from + 30 * SECOND);
    i = info(&f, 0, 1);
    assert_int_equal(i.handshake, UVCC_HANDSHAKE_DONE);
    assert_true(i.hello && i.connected && !i.silent);
    waits_for(&f, 0, 1, UVCC_WAIT_NONE, 0, 0);
    i = info(&f, 0, 2);
    assert_true(i.handshake < UVCC_HANDSHAKE_DONE && i.silent);
    waits_for(&f, 0, 2, UVCC_WAIT_HELLO, 0, 0);
    assert_true(f.silent[0][1] == 0 && f.silent[0][2] == 1);
    end(&f);
}

/* Why a step does not go on: each reason, by the right peer, since the right time. */
static void test_step_info(void **state) {
    (void)state;
    fix f;
    begin_ready(&f, true, NULL);
    until(&f, triangle_now(&f.t) + MS);
    const uint64_t asked = triangle_now(&f.t);
    for (uint8_t p = 1; p < 3; p++)
        waits_for(&f, 0, p, UVCC_WAIT_NONE, 0, 0);
    assert_int_equal(uvcc_session_step(f.t.s[1], 0, 0, asked), 0);
    until(&f, triangle_now(&f.t) + MS);
    waits_for(&f, 1, 0, UVCC_WAIT_STEP, 0, asked); /* who proposes */
    waits_for(&f, 1, 2, UVCC_WAIT_NONE, 0, 0);
    const uint64_t proposed = triangle_now(&f.t);
    assert_int_equal(uvcc_session_step(f.t.s[0], 0, 0, proposed), 0);
    until(&f, triangle_now(&f.t) + MS);
    waits_for(&f, 0, 1, UVCC_WAIT_NONE, 0, 0);
    waits_for(&f, 0, 2, UVCC_WAIT_STEP, 0, proposed);
    const uint64_t agreed = triangle_now(&f.t);
    assert_int_equal(uvcc_session_step(f.t.s[2], 0, 0, agreed), 0);
    until(&f, triangle_now(&f.t) + MS);
    /* It runs, and the input of party 1 is missing: 0 and 2 wait for it, it waits for nobody. */
    for (unsigned p = 0; p < 3; p += 2) {
        const uvcc_peer_info i = info(&f, p, 1);
        assert_int_equal(i.waits_for, UVCC_WAIT_BATCH);
        assert_int_equal(uvcc_program_op_at(f.p, 0, i.wait_op)->opcode, UVCC_OP_INPUT);
        assert_true(i.wait_ops == 1 && i.wait_messages == 1);
        assert_true(i.wait_since_ns >= agreed && i.wait_since_ns < agreed + MS);
        waits_for(&f, p, 2 - (uint8_t)p, UVCC_WAIT_NONE, 0, 0);
        waits_for(&f, 1, (uint8_t)p, UVCC_WAIT_NONE, 0, 0);
    }
    /* The path to 0 is cut: what 1 sends it stays unacknowledged. */
    cut(&f, 1, 0, true);
    const int64_t x[COLS] = {0};
    triangle_input(&f.t, 1, 0, IN_X, x);
    until(&f, triangle_now(&f.t) + MS);
    uvcc_peer_info i = info(&f, 1, 0);
    assert_true(i.unacked_messages != 0 && i.unacked_bytes != 0 && i.queued_messages == 0);
    assert_int_equal(info(&f, 0, 1).waits_for, UVCC_WAIT_BATCH);
    cut(&f, 1, 0, false);
    triangle_finish(&f.t, 1);
    until(&f, triangle_now(&f.t) + 10 * MS);
    i = info(&f, 1, 0);
    assert_true(i.unacked_messages == 0 && i.unacked_bytes == 0);
    assert_true(i.srtt_ns >= 100000 && i.min_rtt_ns >= 100000 && i.connected);
    assert_true(i.rate_bytes_per_s != 0);
    assert_true(i.heard_ns <= triangle_now(&f.t) && i.heard_ns > agreed);
    /* A root of two steps ago is missing. */
    one_step(&f, 1);
    until(&f, triangle_now(&f.t) + 10 * MS);
    f.t.s[0]->peer[2].audit_here[0] = false;
    assert_int_equal(uvcc_session_step(f.t.s[0], 2, 0, triangle_now(&f.t)), 0);
    waits_for(&f, 0, 2, UVCC_WAIT_AUDIT, 0, triangle_now(&f.t));
    waits_for(&f, 0, 1, UVCC_WAIT_NONE, 0, 0);
    end(&f);
}

/* What a closing session waits for. */
static void test_close_info(void **state) {
    (void)state;
    fix f;
    begin_ready(&f, true, NULL);
    uint64_t at = triangle_now(&f.t);
    assert_int_equal(uvcc_session_close(f.t.s[1], at), 0);
    waits_for(&f, 1, 0, UVCC_WAIT_BYE, 0, at);
    until(&f, at + 10 * MS);
    assert_true(info(&f, 0, 1).bye && !info(&f, 0, 2).bye);
    cut(&f, 1, 0, true);
    at = triangle_now(&f.t);
    assert_int_equal(uvcc_session_close(f.t.s[0], at), 0);
    waits_for(&f, 0, 1, UVCC_WAIT_ACK, 0, at);
    waits_for(&f, 0, 2, UVCC_WAIT_BYE, 0, at);
    until(&f, at + 10 * SECOND);
    assert_true(f.t.closed[0]);
    waits_for(&f, 0, 1, UVCC_WAIT_NONE, 0, 0);
    end(&f);
}

/* What a session keeps for the next step goes back, whenever that is asked, and steps go on. */
static void test_trim(void **state) {
    (void)state;
    fix f;
    begin(&f, false, NULL);
    uvcc_session_trim(NULL);
    uvcc_session_trim(f.t.s[0]);
    triangle_start(&f.t);
    triangle_ready(&f.t);
    one_step(&f, 0);
    unsigned kept = 0;
    for (unsigned i = 0; i < 3; i++) {
        uvcc_session *s = f.t.s[i];
        kept += s->tensors.kept + s->wire.kept != 0;
        uvcc_session_trim(s);
        assert_int_equal(s->tensors.held_bytes, s->tensors.used_bytes);
        assert_int_equal(s->wire.held_bytes, s->wire.used_bytes);
    }
    assert_int_equal(kept, 3);
    const int64_t x[COLS] = {1, -2, 3, -4};
    triangle_agree(&f.t, 1, 0);
    for (unsigned i = 0; i < 3; i++)
        uvcc_session_trim(f.t.s[i]);
    triangle_input(&f.t, 1, 1, IN_X, x);
    while (f.t.finished[0] < 2) {
        assert_true(triangle_turn(&f.t));
        for (unsigned i = 0; i < 3; i++)
            uvcc_session_trim(f.t.s[i]);
    }
    triangle_finish(&f.t, 2);
    for (unsigned i = 0; i < 3; i++) {
        uvcc_session_trim(f.t.s[i]); /* outputs stay */
        assert_memory_equal(uvcc_session_output(f.t.s[i], 1, OUT_X), x, sizeof x);
    }
    end(&f);
}

/* A packet says whose it is, and wrong calls are refused, not fatal. */
static void test_getters(void **state) {
    (void)state;
    fix f;
    begin(&f, true, NULL);
    triangle_start(&f.t);
    uvcc_session *s = f.t.s[0];
    uvcc_transmit tx;
    uint64_t tag;
    uint8_t sub[2][32], digest[32] = {9}, root[32];
    assert_int_equal(uvcc_session_poll_transmit(s, &tx, 0), 1);
    assert_true(tx.slice_count <= UVCC_TRANSMIT_SLICES_MAX);
    assert_int_equal(uvcc_frame_peek_sid_tag(tx.slices[0].data, tx.slices[0].len, &tag), 0);
    assert_true(tag == uvcc_session_sid_tag(s) && tag != 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(uvcc_session_sid_sub(f.t.s[i], sub[i]), 0);
    assert_memory_equal(sub[0], sub[1], 32);
    assert_true(uvcci_sid_tag(sub[0]) == tag);

    uvcc_session_stats st = {.jobs = 5};
    uvcc_peer_info i = {.size = sizeof i};
    uvcc_session_get_stats(NULL, &st);
    uvcc_session_get_stats(s, NULL);
    assert_int_equal(st.jobs, 5);
    uvcc_session_digest(NULL, digest);
    uvcc_session_digest(s, NULL);
    assert_int_equal(digest[0], 9);
    assert_null(uvcc_session_public_key(NULL));
    assert_int_equal(uvcc_session_sid_tag(NULL), 0);
    assert_int_equal(uvcc_session_sid_sub(NULL, digest), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_sid_sub(s, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_root(NULL, root), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_root(s, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_peer_info(NULL, 1, &i), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_peer_info(s, 1, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_peer_info(s, 0, &i), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_peer_info(s, 3, &i), UVCC_ERR_USAGE);
    i.size--;
    assert_int_equal(uvcc_session_peer_info(s, 1, &i), UVCC_ERR_USAGE);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_waits_for_the_done),
        cmocka_unit_test(test_nobody_waits_for_the_aborted),
        cmocka_unit_test(test_the_closed_are_still),
        cmocka_unit_test(test_streams_that_closed),
        cmocka_unit_test(test_stream_without_bye),
        cmocka_unit_test(test_close_time),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_silence_aborts),
        cmocka_unit_test(test_who_is_missing),
        cmocka_unit_test(test_standing_still),
        cmocka_unit_test(test_silence_is_a_state),
        cmocka_unit_test(test_silent_after_bye),
        cmocka_unit_test(test_silent_after_an_early_bye),
        cmocka_unit_test(test_silence_config),
        cmocka_unit_test(test_transmits_that_stay_out),
        cmocka_unit_test(test_no_memory_in_feed),
        cmocka_unit_test(test_no_memory_for_keys),
        cmocka_unit_test(test_handshake_info),
        cmocka_unit_test(test_step_info),
        cmocka_unit_test(test_close_info),
        cmocka_unit_test(test_trim),
        cmocka_unit_test(test_getters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
