/* SPDX-License-Identifier: Apache-2.0 */
/* test_drive.c - uvcc_loopback_drive() with sessions and executors that are played here: what it
 * calls, in which order of time, and what it does when one of them cannot take what it is given.
 *
 * drive.c is linked into this program, so that its calls end here and not in the library's session.
 */
#include "support.h"

#include <uvcc/loopback.h>

#define LOG_MAX 64u

/* Sends `to_send` numbered bytes to each peer in transmits of at most `chunk`. */
struct uvcc_session {
    uint8_t me;
    size_t to_send, chunk;
    size_t sent[3], received[3];
    bool open[3], out[3];
    uint64_t id;
    unsigned opened, closed, timers, done_with_0;
    uint64_t deadline; /* of its timer */
    bool timer_sticks; /* on_timer() leaves the deadline where it is */
    int broken_at;     /* feed() breaks the stream at the i-th call, from 1 */
    int open_result;
    uint8_t buffer[4096];
    uvcc_slice slice[3];
    uvcc_job jobs[LOG_MAX];
    unsigned jobs_wanted, jobs_polled, jobs_completed;
    uint64_t last_now;
};

struct uvcc_cpu {
    uvcc_cpu_mode mode;
    const uvcc_job *queue[LOG_MAX];
    unsigned room, pending, waits, refusals, idle_polls;
    int result;
};

static uint8_t pattern(uint32_t from, uint32_t to, size_t i) {
    return (uint8_t)(i * 13u + from * 7u + to * 3u);
}

static void see_time(uvcc_session *s, uint64_t now) {
    assert_true(now >= s->last_now);
    s->last_now = now;
}

int uvcc_session_feed(uvcc_session *s, uint8_t peer, const uint8_t *data, size_t len,
                      uint64_t now) {
    see_time(s, now);
    assert_true(s->open[peer]);
    if (s->broken_at > 0 && --s->broken_at == 0)
        return UVCC_ERR_STREAM_BROKEN;
    for (size_t i = 0; i < len; i++)
        assert_int_equal(data[i], pattern(peer, s->me, s->received[peer] + i));
    s->received[peer] += len;
    return 0;
}

int uvcc_session_peer_open(uvcc_session *s, uint8_t peer, uint64_t now) {
    see_time(s, now);
    assert_false(s->open[peer]);
    s->open[peer] = true;
    s->out[peer] = false;
    s->sent[peer] = s->received[peer] = 0; /* begins again: what was lost is sent again */
    s->opened++;
    return s->open_result;
}

int uvcc_session_peer_closed(uvcc_session *s, uint8_t peer, uint64_t now) {
    see_time(s, now);
    assert_true(s->open[peer]);
    s->open[peer] = s->out[peer] = false;
    s->closed++;
    return 0;
}

int uvcc_session_on_timer(uvcc_session *s, uint64_t now) {
    see_time(s, now);
    assert_true(now >= s->deadline);
    s->timers++;
    if (!s->timer_sticks)
        s->deadline = UVCC_NEVER;
    return 0;
}

uint64_t uvcc_session_next_deadline(const uvcc_session *s) {
    return s->deadline;
}

int uvcc_session_poll_transmit(uvcc_session *s, uvcc_transmit *out, uint64_t now) {
    see_time(s, now);
    for (uint8_t p = 0; p < 3; p++) {
        if (p == s->me || !s->open[p] || s->out[p] || s->sent[p] == s->to_send)
            continue;
        size_t left = s->to_send - s->sent[p], len = left < s->chunk ? left : s->chunk;
        assert_true(3 * len <= sizeof s->buffer);
        uint8_t *b = s->buffer + p * s->chunk;
        for (size_t i = 0; i < len; i++)
            b[i] = pattern(s->me, p, s->sent[p] + i);
        s->slice[p] = (uvcc_slice){.data = b, .len = len};
        s->out[p] = true;
        *out = (uvcc_transmit){
            .id = ++s->id, .peer = p, .slice_count = 1, .slices = &s->slice[p], .total = len};
        return 1;
    }
    return 0;
}

int uvcc_session_transmit_done(uvcc_session *s, uint8_t peer, uint64_t id, size_t bytes,
                               uint64_t now) {
    see_time(s, now);
    assert_true(s->out[peer] && id <= s->id);
    s->out[peer] = false;
    s->sent[peer] += bytes;
    s->done_with_0 += bytes == 0;
    return 0;
}

int uvcc_session_poll_job(uvcc_session *s, const uvcc_job **out) {
    if (s->jobs_polled == s->jobs_wanted)
        return 0;
    s->jobs[s->jobs_polled].id = s->jobs_polled + 1;
    *out = &s->jobs[s->jobs_polled++];
    return 1;
}

int uvcc_session_complete(uvcc_session *s, const uvcc_completion *c, uint64_t now) {
    see_time(s, now);
    assert_true(c->id >= 1 && c->id <= s->jobs_polled);
    s->jobs_completed++;
    return 0;
}

int uvcc_cpu_submit(uvcc_cpu *x, const uvcc_job *job) {
    if (x->result != 0)
        return x->result;
    if (x->pending == x->room) {
        x->refusals++;
        return UVCC_ERR_AGAIN;
    }
    x->queue[x->pending++] = job;
    return 0;
}

int uvcc_cpu_poll(uvcc_cpu *x, uvcc_completion *out) {
    if (x->pending == 0)
        return 0;
    if (x->mode == UVCC_CPU_DEFERRED && x->idle_polls++ % 3 != 2)
        return 0;
    if (x->mode == UVCC_CPU_THREADS && x->waits == 0)
        return 0; /* nothing is done before somebody waits for it */
    if (x->mode == UVCC_CPU_THREADS)
        x->waits--;
    *out = (uvcc_completion){.id = x->queue[--x->pending]->id};
    return 1;
}

uint32_t uvcc_cpu_pending(const uvcc_cpu *x) {
    return x->pending;
}

void uvcc_cpu_wait(uvcc_cpu *x) {
    x->waits += x->mode == UVCC_CPU_THREADS;
}

uint64_t uvcc_cpu_due(const uvcc_cpu *x) {
    return x->pending != 0 ? 0 : UVCC_NEVER;
}

/* ---- the tests ---- */

typedef struct scene {
    test_alloc heap;
    uvcc_loopback *net;
    uvcc_session s[3], *sessions[3];
    uvcc_cpu x[3], *cpus[3];
} scene;

static void open_scene(scene *c, bool datagram, size_t to_send, size_t chunk) {
    memset(c, 0, sizeof *c);
    uvcc_allocator al = test_allocator(&c->heap);
    assert_int_equal(uvcc_loopback_new(&c->net, &al, 3, datagram, 1), 0);
    for (uint8_t p = 0; p < 3; p++) {
        c->s[p] =
            (uvcc_session){.me = p, .to_send = to_send, .chunk = chunk, .deadline = UVCC_NEVER};
        if (datagram)
            c->s[p].open[0] = c->s[p].open[1] = c->s[p].open[2] = true;
        c->x[p] = (uvcc_cpu){.room = LOG_MAX};
        c->sessions[p] = &c->s[p];
        c->cpus[p] = &c->x[p];
    }
}

static int turn(scene *c) {
    return uvcc_loopback_drive(c->net, c->sessions, c->cpus, 3);
}

static void run_out(scene *c) {
    unsigned turns = 0;
    while (turn(c) == 1)
        assert_true(++turns < 100000);
}

static void all_arrived(const scene *c) {
    for (unsigned p = 0; p < 3; p++) {
        for (unsigned q = 0; q < 3; q++) {
            if (p != q) {
                assert_int_equal(c->s[p].sent[q], c->s[p].to_send);
                assert_int_equal(c->s[q].received[p], c->s[p].to_send);
            }
        }
    }
}

static void close_scene(scene *c) {
    uvcc_loopback_free(c->net);
    assert_int_equal(c->heap.live_blocks, 0);
}

static void moves_bytes(void **state) {
    (void)state;
    for (int datagram = 0; datagram < 2; datagram++) {
        scene c;
        open_scene(&c, datagram != 0, 50000, 1000);
        run_out(&c);
        all_arrived(&c);
        assert_int_equal(c.s[0].opened, datagram != 0 ? 0 : 2);
        assert_int_equal(c.s[0].done_with_0, 0);
        assert_int_equal(turn(&c), 0);
        close_scene(&c);
    }
}

/* A stream that takes only a part, or nothing for a while: no byte is lost or sent twice, and what
 * is outstanding at the end of a call has been given back. */
static void full_streams_hold_back(void **state) {
    (void)state;
    scene c;
    open_scene(&c, false, 20000, 1000);
    const uvcc_fault_config f = {.queue_bytes = 300, .partial = 0.5};
    assert_int_equal(uvcc_loopback_set_all_faults(c.net, &f), 0);
    while (turn(&c) == 1) {
        for (unsigned p = 0; p < 3; p++)
            assert_false(c.s[p].out[0] || c.s[p].out[1] || c.s[p].out[2]);
    }
    all_arrived(&c);
    assert_true(c.s[0].done_with_0 > 0);
    close_scene(&c);
}

static void broken_streams_reconnect(void **state) {
    (void)state;
    scene c;
    open_scene(&c, false, 3000, 1000);
    c.s[1].broken_at = 2;
    const uvcc_fault_config f = {.queue_bytes = 1500};
    assert_int_equal(uvcc_loopback_set_all_faults(c.net, &f), 0);
    run_out(&c);
    all_arrived(&c);
    assert_int_equal(c.s[1].closed, 1);
    assert_int_equal(c.s[1].opened, 3);
    assert_int_equal(c.s[0].closed + c.s[2].closed, 1);
    close_scene(&c);
}

static void runs_jobs(void **state) {
    (void)state;
    for (unsigned mode = 0; mode < 3; mode++) {
        for (unsigned room = 1; room < 4; room++) {
            scene c;
            open_scene(&c, true, 0, 1);
            for (unsigned p = 0; p < 3; p++) {
                c.s[p].jobs_wanted = 5 + p;
                c.x[p].mode = (uvcc_cpu_mode)mode;
                c.x[p].room = room;
            }
            c.s[0].deadline = 1000; /* the clock stands until all jobs are done */
            assert_int_equal(turn(&c), 1);
            assert_int_equal(uvcc_loopback_now(c.net), 0);
            for (unsigned p = 0; p < 3; p++) {
                assert_int_equal(c.s[p].jobs_completed, 5 + p);
                assert_true(c.x[p].refusals > 0);
            }
            assert_int_equal(turn(&c), 1);
            assert_int_equal(uvcc_loopback_now(c.net), 1000);
            assert_int_equal(turn(&c), 0);
            close_scene(&c);
        }
    }
}

static void fires_timers(void **state) {
    (void)state;
    scene c;
    open_scene(&c, true, 0, 1);
    c.s[0].deadline = 700;
    c.s[2].deadline = 500;
    assert_int_equal(turn(&c), 1);
    assert_int_equal(uvcc_loopback_now(c.net), 500);
    assert_int_equal(c.s[2].timers, 1);
    assert_int_equal(c.s[0].timers, 0);
    assert_int_equal(turn(&c), 1);
    assert_int_equal(uvcc_loopback_now(c.net), 700);
    assert_int_equal(c.s[0].timers, 1);
    assert_int_equal(turn(&c), 0);
    assert_int_equal(uvcc_loopback_now(c.net), 700);
    close_scene(&c);
}

/* A deadline that stays in the past neither spins nor keeps time from going on. */
static void timers_that_stick(void **state) {
    (void)state;
    scene c;
    open_scene(&c, true, 0, 1);
    c.s[0].deadline = 100;
    c.s[0].timer_sticks = true;
    c.s[1].deadline = 900;
    assert_int_equal(turn(&c), 1);
    assert_int_equal(turn(&c), 1);
    assert_int_equal(uvcc_loopback_now(c.net), 900);
    assert_int_equal(c.s[1].timers, 1);
    assert_int_equal(turn(&c), 0);
    close_scene(&c);
}

static void hands_on_wrong_use(void **state) {
    (void)state;
    scene c;
    open_scene(&c, false, 10, 10);
    c.s[1].open_result = UVCC_ERR_STATE;
    assert_int_equal(turn(&c), UVCC_ERR_STATE);
    close_scene(&c);

    open_scene(&c, false, 10, 10);
    c.s[1].open_result = UVCC_ERR_ABORTED; /* is in its events */
    run_out(&c);
    all_arrived(&c);
    close_scene(&c);

    open_scene(&c, true, 0, 1);
    c.s[1].jobs_wanted = 1;
    c.x[1].result = UVCC_ERR_NOMEM;
    assert_int_equal(turn(&c), UVCC_ERR_NOMEM);
    close_scene(&c);

    open_scene(&c, true, 0, 1);
    c.cpus[2] = c.cpus[0];
    assert_int_equal(turn(&c), UVCC_ERR_USAGE);
    c.cpus[2] = NULL;
    assert_int_equal(turn(&c), UVCC_ERR_USAGE);
    c.sessions[2] = NULL;
    assert_int_equal(turn(&c), 0);
    close_scene(&c);
}

static void skips_missing_sessions(void **state) {
    (void)state;
    scene c;
    open_scene(&c, false, 100, 10);
    c.sessions[1] = NULL;
    run_out(&c);
    assert_int_equal(c.s[0].received[2], 100);
    assert_int_equal(c.s[2].received[0], 100);
    assert_int_equal(c.s[1].opened, 0);
    close_scene(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_bytes),
        cmocka_unit_test(full_streams_hold_back),
        cmocka_unit_test(broken_streams_reconnect),
        cmocka_unit_test(runs_jobs),
        cmocka_unit_test(fires_timers),
        cmocka_unit_test(timers_that_stick),
        cmocka_unit_test(hands_on_wrong_use),
        cmocka_unit_test(skips_missing_sessions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
