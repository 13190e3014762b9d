/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of states, and defaults of configurations. Checkers compare two states by their digests:
 * whatever bit of what the header says is in it changes, the digest must be one that was not seen
 * before, from a state of zeros and from one that is full. Defaults are the numbers of link.h and
 * session.h. */
#include "support.h"

#include <uvcc/link.h>
#include <uvcc/session.h>

#include "exec/runtime/core.h"
#include "exec/session/config.h"
#include "proto/link_pool.h"
#include "proto/link_session.h"
#include "proto/link_state.h"

enum { SEEN_MAX = 8192 };

typedef struct digests {
    void (*take)(const void *object, uint8_t out[32]);
    const void *object;
    uint8_t seen[SEEN_MAX][32];
    uint32_t count;
} digests;

static digests all;

static void of_link(const void *object, uint8_t out[32]) {
    uvcc_link_digest(object, out);
}

static void of_session(const void *object, uint8_t out[32]) {
    uvcc_session_digest(object, out);
}

/* The state differs from all before. */
static void new_state(const char *what, unsigned bit) {
    uint8_t d[32];
    all.take(all.object, d);
    assert_true(all.count < SEEN_MAX);
    for (uint32_t i = 0; i < all.count; i++)
        if (memcmp(all.seen[i], d, 32) == 0)
            fail_msg("%s, bit %u: the digest is that of state %u", what, bit, i);
    memcpy(all.seen[all.count++], d, 32);
}

static void begin(void (*take)(const void *, uint8_t[32]), const void *object) {
    all.take = take;
    all.object = object;
    all.count = 0;
    new_state("the first", 0);
}

/* Every single bit of a field; afterwards it is as it was. */
static void flip(const char *what, void *field, unsigned bits) {
    uint8_t *b = field;
    for (unsigned i = 0; i < bits; i++) {
        b[i / 8] ^= (uint8_t)(1u << i % 8);
        new_state(what, i);
        b[i / 8] ^= (uint8_t)(1u << i % 8);
    }
}

#define FLIP(x) flip(#x, &(x), 8 * sizeof(x))

/* ---- a link ---- */

static void link_flags(void **state) {
    (void)state;
    static uvcc_link l;
    static uvcci_link_keys keys;
    memset(&l, 0, sizeof l);
    l.tx.next = 1;
    begin(of_link, &l);
    for (unsigned k = 1; k < 32; k++) {
        l.have_run = (k & 1) != 0;
        l.started = (k & 2) != 0;
        l.keys = (k & 4) != 0 ? &keys : NULL;
        l.heard = (k & 8) != 0;
        l.violation = (k & 16) != 0 ? "it is" : NULL;
        new_state("flags", k);
    }
}

static void link_counters(void **state) {
    (void)state;
    static uvcc_link l;
    for (unsigned full = 0; full < 2; full++) {
        memset(&l, 0, sizeof l);
        if (full) {
            memset(&l.run, 0xff, sizeof l.run + sizeof l.step);
            memset(l.tx.cls, 0xff, sizeof l.tx.cls);
            memset(&l.rx.ack_counter, 0xff, sizeof l.rx.ack_counter);
            memset(l.rx.released, 0xff, sizeof l.rx.released);
        }
        l.tx.cum = l.rx.cum = UINT64_C(3) << 62; /* nothing is above it */
        begin(of_link, &l);
        FLIP(l.run);
        FLIP(l.step);
        FLIP(l.tx.undone);
        FLIP(l.tx.ack_counter);
        flip("tx.cum", &l.tx.cum, 62);
        flip("tx.next", &l.tx.next, 62);
        flip("rx.cum", &l.rx.cum, 62);
        flip("rx.top", &l.rx.top, 62);
        FLIP(l.rx.ack_counter);
        for (unsigned i = 0; i < 2; i++) {
            FLIP(l.tx.cls[i].held);
            FLIP(l.tx.cls[i].credit);
            FLIP(l.tx.cls[i].begun_bytes);
            FLIP(l.rx.released[i]);
            FLIP(l.rx.admitted[i]);
            FLIP(l.rx.granted[i]);
        }
    }
}

/* Frames in flight, each with a message of its own; a frame that the peer has shows no more. */
static void link_flight(void **state) {
    (void)state;
    enum { FIRST = 62, FRAMES = 4 }; /* over the edge of a block */
    static uvcc_link l;
    static uvcci_tx_block block[2];
    static uvcc_link_msg msg[FRAMES];
    uvcci_tx_block *ring[2] = {&block[0], &block[1]};
    for (unsigned full = 0; full < 2; full++) {
        memset(&l, 0, sizeof l);
        memset(block, 0, sizeof block);
        memset(msg, full ? 0xff : 0, sizeof msg);
        l.tx.ring = ring;
        l.tx.ring_cap = 2;
        l.tx.cum = FIRST - 1;
        l.tx.next = FIRST + FRAMES;
        for (unsigned i = 0; i < FRAMES; i++) {
            uvcci_tx_frame *f = &block[(FIRST + i) / 64].frame[(FIRST + i) % 64];
            f->msg = &msg[i];
            f->offset = full ? UINT32_MAX : 0;
            f->len = full ? 0xffffff : 0;
        }
        begin(of_link, &l);
        for (unsigned i = 0; i < FRAMES; i++) {
            uvcci_tx_frame *f = &block[(FIRST + i) / 64].frame[(FIRST + i) % 64];
            FLIP(f->offset);
            FLIP(msg[i].kind);
            FLIP(msg[i].op_id);
            for (unsigned bit = 0; bit < 24; bit++) {
                f->len ^= 1u << bit;
                new_state("len", bit);
                f->len ^= 1u << bit;
            }
        }
        for (unsigned i = 0; i < FRAMES; i++) {
            block[(FIRST + i) / 64].received |= UINT64_C(1) << (FIRST + i) % 64;
            new_state("received", i);
        }
    }
}

static void link_received(void **state) {
    (void)state;
    enum { WORDS = 4, SEQS = 130 };
    static uvcc_link l;
    static uint64_t room[(sizeof(uvcci_rx_window) + 2 * WORDS * 8) / 8];
    uvcci_rx_window *w = (uvcci_rx_window *)room;
    memset(&l, 0, sizeof l);
    memset(room, 0, sizeof room);
    w->words = WORDS;
    l.tx.next = 1;
    l.rx.window = w;
    l.rx.top = SEQS;
    begin(of_link, &l);
    for (unsigned seq = 1; seq <= SEQS; seq++) {
        w->bits[seq / 64] |= UINT64_C(1) << seq % 64;
        new_state("seen", seq);
        w->bits[WORDS + seq / 64] |= UINT64_C(1) << seq % 64;
        new_state("accepted", seq);
        w->bits[WORDS + seq / 64] ^= UINT64_C(1) << seq % 64;
    }
}

static void link_open_messages(void **state) {
    (void)state;
    test_alloc counted = {0};
    for (unsigned full = 0; full < 2; full++) {
        static uvcc_link l;
        memset(&l, 0, sizeof l);
        l.cfg.alloc = test_allocator(&counted);
        l.tx.next = 1;
        uvcci_rx_msg *m[3];
        begin(of_link, &l);
        for (unsigned i = 0; i < 3; i++) {
            m[i] = uvcci_pool_take(&l, &l.rx.pool);
            assert_non_null(m[i]);
            m[i]->step = m[i]->op_id = m[i]->len = m[i]->got = full ? UINT32_MAX : 0;
            m[i]->kind = m[i]->state = full ? 0xff : 0;
            new_state("a message", i);
        }
        FLIP(m[1]->step);
        FLIP(m[1]->op_id);
        FLIP(m[1]->len);
        FLIP(m[1]->got);
        FLIP(m[1]->kind);
        FLIP(m[1]->state);
        for (unsigned i = 0; i < 3; i++)
            uvcci_pool_give(&l, &l.rx.pool, m[i]);
        uvcci_pool_trim(&l, &l.rx.pool);
        assert_int_equal(counted.live_blocks, 0);
    }
}

/* ---- a session ---- */

static void session_state(void **state) {
    (void)state;
    static uvcc_session s;
    memset(&s, 0, sizeof s);
    begin(of_session, &s);
    FLIP(s.run);
    FLIP(s.step);
    FLIP(s.abort_reason);
    FLIP(s.jobs.handed);
    FLIP(s.stats.rounds);
    FLIP(s.event_count);
    FLIP(s.last_root);
    for (unsigned k = 1; k < 4; k++) {
        s.state = k;
        new_state("state", k);
    }
}

/* ---- defaults ---- */

static void link_defaults(void **state) {
    (void)state;
    test_alloc counted = {0};
    uint64_t seed = 1;
    uvcc_link_config c;
    uvcc_link_config_default(&c);
    c.alloc = test_allocator(&counted);
    c.random = test_random(&seed);
    c.peer = 1;
    for (unsigned datagram = 0; datagram < 2; datagram++) {
        c.datagram = datagram != 0;
        uvcc_link *l;
        assert_int_equal(uvcc_link_new(&l, &c), 0);
        const uvcc_link_config *have = &l->cfg;
        assert_int_equal(have->frame_bytes, 262144 + 64 + 16);
        assert_int_equal(have->datagram_bytes, 1232);
        assert_int_equal(have->tx_online_bytes, 33554432);
        assert_int_equal(have->tx_keys_bytes, 33554432);
        assert_int_equal(have->rx_online_bytes, 33554432);
        assert_int_equal(have->rx_keys_bytes, 33554432);
        assert_int_equal(have->rx_messages_max, 4096);
        assert_int_equal(have->rx_ranges_max, 4096);
        assert_int_equal(have->rto_initial_ns, 200000000);
        assert_int_equal(have->rto_min_ns, 1000000);
        assert_int_equal(have->rto_max_ns, 2000000000);
        assert_int_equal(have->ack_delay_ns, datagram != 0 ? 200000 : 2000000);
        assert_int_equal(have->keepalive_ns, 10000000000);
        assert_int_equal(have->suspicious_max, 4096);
        assert_int_equal(have->suspicious_window_ns, 1000000000);
        assert_int_equal(have->congestion, UVCC_CONGESTION_BBR);
        assert_int_equal(have->rate_bytes_per_s, 0);
        uvcc_link_free(l);
    }
    assert_int_equal(counted.live_blocks, 0);
}

static void session_defaults(void **state) {
    (void)state;
    uvcc_config c, have;
    assert_int_equal(uvcc_config_default(&c, sizeof c), 0);
    uvcci_config_take(&have, &c);
    assert_int_equal(have.place.replicas, 1);
    assert_int_equal(have.place.stages, 1);
    assert_int_equal(have.place.tp_ranks, 1);
    assert_int_equal(have.links.suites, 3);
    assert_int_equal(have.links.hello_repeat_ns, 200000000);
    assert_int_equal(have.links.keepalive_ns, 0); /* the link's */
    assert_int_equal(have.limits.leaves_max, 4194304);
    assert_int_equal(have.limits.keys_ahead_bytes, 33554432);
    assert_int_equal(have.limits.triples_ahead_bytes, 67108864);
    assert_int_equal(have.limits.close_ns, 3000000000);
    c.links.silence_ns = 8000000000; /* noticed by a PING before */
    uvcci_config_take(&have, &c);
    assert_int_equal(have.links.keepalive_ns, 2000000000);
    c.links.silence_ns = 80000000000;
    uvcci_config_take(&have, &c);
    assert_int_equal(have.links.keepalive_ns, 10000000000);
    c.links.silence_ns = 0;
    c.links.silence_abort_ns = 4000000000;
    uvcci_config_take(&have, &c);
    assert_int_equal(have.links.keepalive_ns, 1000000000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_flags),         cmocka_unit_test(link_counters),
        cmocka_unit_test(link_flight),        cmocka_unit_test(link_received),
        cmocka_unit_test(link_open_messages), cmocka_unit_test(session_state),
        cmocka_unit_test(link_defaults),      cmocka_unit_test(session_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
