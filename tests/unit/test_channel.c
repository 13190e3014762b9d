/* SPDX-License-Identifier: Apache-2.0 */
/* Streams over channels: sessions at the ends of two channels, between which somebody relays, do
 * not go ready, hear why, and go ready over one. */
#include "triangle.h"

#include "proto/crypto.h"

enum { IN_X = 1, OUT_Z = 2 };

static const uint8_t one[32] = {1}, another[32] = {2};

static uvcc_program *make_program(test_alloc *mem) {
    const uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = test_tensor(p, "X", 1, 3, 8, 0, UVCC_TRANSIENT);
    const uint32_t w = test_tensor(p, "W", 1, 3, 8, 0, UVCC_PERSIST);
    const uint32_t z = test_tensor(p, "Z", 1, 3, 9, 0, UVCC_TRANSIENT);
    const uvcc_op_desc add = {
        .opcode = UVCC_OP_ADD, .in_count = 2, .in = {x, w}, .out_count = 1, .out = {z}};
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, IN_X, x, 0) >= 0);
    assert_true(uvcc_program_op(p, &add) >= 0);
    assert_true(uvcc_program_output(p, OUT_Z, z) >= 0);
    assert_int_equal(uvcc_program_finish(p, NULL, 0), 0);
    return p;
}

/* A new stream between 0 and 1. */
static void reconnect(triangle *t, const uint8_t *at0, const uint8_t *at1) {
    for (uint8_t i = 0; i < 2; i++)
        assert_int_equal(uvcc_session_peer_closed(t->s[i], 1 - i, t->wire_ns), 0);
    assert_int_equal(uvcc_session_peer_open_bound(t->s[0], 1, at0, t->wire_ns), 0);
    assert_int_equal(uvcc_session_peer_open_bound(t->s[1], 0, at1, t->wire_ns), 0);
    t->mismatch[0][1] = t->mismatch[1][0] = NULL;
}

static void turns(triangle *t, unsigned n) {
    while (n-- != 0)
        (void)triangle_turn(t);
}

static void run_a_step(triangle *t, uint32_t step) {
    const int64_t x[3] = {1, 2, 3};
    triangle_agree(t, step, 0);
    triangle_input(t, 0, step, IN_X, x);
    triangle_finish(t, step + 1);
    assert_int_equal(uvcc_session_output(t->s[2], step, OUT_Z)[1], 9);
}

static void exchange_x25519(uvcc_config *c) {
    c->identity.exchange_x25519 = true;
    for (unsigned q = 0; q < 3; q++) {
        uint8_t seed[32], sk[64];
        memset(seed, 0x40 + (int)q, sizeof seed); /* as triangle_make gives them */
        uvcci_sign_keypair(seed, c->identity.peer_sign_key[q], sk);
    }
}

static void test_relay(void **state) {
    (void)state;
    static const struct {
        const uint8_t *at0, *at1;
        bool fit;
    } tries[] = {{one, another, false},
                 {one, NULL, false},
                 {NULL, one, false},
                 {one, one, true},
                 {NULL, NULL, true}};
    test_alloc mem = {0};
    const int64_t w[3] = {5, 7, -9};
    uvcc_program *p = make_program(&mem);
    for (unsigned i = 0; i < 2 * (sizeof tries / sizeof tries[0]); i++) {
        const unsigned k = i / 2;
        triangle t;
        triangle_open(&t, p,
                      &(triangle_options){.seed = 1 + i,
                                          .wired = true,
                                          .ticks = true,
                                          .tweak = i % 2 != 0 ? exchange_x25519 : NULL});
        reconnect(&t, tries[k].at0, tries[k].at1); /* nothing was sent yet */
        turns(&t, 400);
        for (unsigned q = 0; q < 2; q++) {
            assert_true(t.ready[q] == tries[k].fit);
            assert_int_equal(t.aborted[q], 0);
            if (tries[k].fit)
                assert_null(t.mismatch[q][1 - q]);
            else
                assert_string_equal(t.mismatch[q][1 - q], "channel");
        }
        assert_true(t.ready[2]); /* over channels that are none of theirs */
        assert_null(t.mismatch[2][0]);
        if (!tries[k].fit) { /* told again of another one, and not twice of one */
            t.mismatch[0][1] = NULL;
            turns(&t, 400);
            assert_null(t.mismatch[0][1]);
            reconnect(&t, another, NULL);
            turns(&t, 400);
            assert_string_equal(t.mismatch[0][1], "channel");
            assert_false(t.ready[0] || t.ready[1]);
            reconnect(&t, another, another);
        }
        triangle_ready(&t);
        assert_true(t.mismatch[0][1] == NULL && t.mismatch[1][0] == NULL);
        triangle_set_public(&t, (uint32_t)uvcc_program_find(p, "W"), w);
        run_a_step(&t, 0);
        reconnect(&t, one, another); /* sealed by now */
        run_a_step(&t, 1);
        assert_true(t.mismatch[0][1] == NULL && t.mismatch[1][0] == NULL);
        triangle_close(&t);
        triangle_free(&t);
    }
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* A stream that ends anywhere in the handshake: the channel of the last one counts, at both ends,
 * whatever one of them had of the one before. */
static void test_new_streams(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = make_program(&mem);
    for (unsigned cut = 0; cut < 12; cut++) {
        triangle t;
        triangle_open(&t, p, &(triangle_options){.seed = cut, .wired = true, .ticks = true});
        reconnect(&t, one, one);
        for (unsigned k = 0; k < cut; k++) { /* one end's transmits, then the other's */
            uvcc_transmit tx;
            const uint8_t from = k % 3;
            if (uvcc_session_poll_transmit(t.s[from], &tx, 0) != 1)
                continue;
            for (uint32_t i = 0; i < tx.slice_count; i++)
                assert_int_equal(
                    uvcc_session_feed(t.s[tx.peer], from, tx.slices[i].data, tx.slices[i].len, 0),
                    0);
            assert_int_equal(uvcc_session_transmit_done(t.s[from], tx.peer, tx.id, tx.total, 0), 0);
        }
        triangle_events(&t);
        reconnect(&t, another, another);
        turns(&t, 400);
        triangle_ready(&t);
        for (unsigned a = 0; a < 3; a++)
            for (unsigned b = 0; b < 3; b++)
                assert_null(t.mismatch[a][b]);
        triangle_close(&t);
        triangle_free(&t);
    }
    uvcc_program_free(p);
}

/* Bytes on their way, by hand. */
typedef struct wire {
    uint8_t bytes[8192];
    size_t len;
} wire;

/* What a party has to send, to both. */
static void drain(triangle *t, uint8_t from, wire out[3]) {
    uvcc_transmit tx;
    while (uvcc_session_poll_transmit(t->s[from], &tx, t->wire_ns) == 1) {
        wire *w = &out[tx.peer];
        for (uint32_t i = 0; i < tx.slice_count; i++) {
            assert_true(tx.slices[i].len <= sizeof w->bytes - w->len);
            memcpy(w->bytes + w->len, tx.slices[i].data, tx.slices[i].len);
            w->len += tx.slices[i].len;
        }
        assert_int_equal(
            uvcc_session_transmit_done(t->s[from], tx.peer, tx.id, tx.total, t->wire_ns), 0);
    }
}

/* All of it in one call. */
static void flush(triangle *t, uint8_t from, uint8_t to, wire *w) {
    assert_true(w->len != 0);
    assert_int_equal(uvcc_session_feed(t->s[to], from, w->bytes, w->len, t->wire_ns), 0);
    w->len = 0;
}

/* The HELLO 1 of all are there, and party 1 has keys with party 0: its HELLO 2 and 3 are in `w`. */
static void to_hello3(triangle *t, wire *w) {
    static wire way[3][3];
    memset(way, 0, sizeof way);
    for (uint8_t p = 0; p < 3; p++)
        drain(t, p, way[p]);
    for (uint8_t a = 0; a < 3; a++)
        for (uint8_t b = 0; b < 3; b++)
            if (a != b)
                flush(t, a, b, &way[a][b]);
    drain(t, 0, way[0]);
    flush(t, 0, 1, &way[0][1]);
    drain(t, 1, way[1]);
    *w = way[1][0];
}

enum { HELLO2_FRAME = 64 + 108, HELLO3_FRAME = 64 + 40 + 65 };

/* A HELLO 3 in the same bytes as the HELLO 2 that gives the keys for it is opened at once: with the
 * next input the stream may be gone, and what it said would be told of another one. */
static void test_hello3_with_its_keys(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = make_program(&mem);
    for (unsigned relayed = 0; relayed < 2; relayed++) {
        static wire w;
        triangle t;
        triangle_open(&t, p, &(triangle_options){.seed = 1, .wired = true, .ticks = true});
        reconnect(&t, one, relayed != 0 ? another : one);
        to_hello3(&t, &w);
        flush(&t, 1, 0, &w);
        triangle_events(&t);
        assert_true((t.mismatch[0][1] != NULL) == (relayed != 0));
        if (relayed != 0)
            assert_string_equal(t.mismatch[0][1], "channel");
        reconnect(&t, one, one);
        triangle_ready(&t);
        assert_null(t.mismatch[0][1]);
        triangle_close(&t);
        triangle_free(&t);
    }
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* A HELLO 3 that waits behind a transmit when its stream ends does not go over the next one, whose
 * channel is another: the peer would be told of a relay where there is none. */
static void test_hello3_left_over(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = make_program(&mem);
    static wire w, way[3];
    uvcc_transmit tx;
    triangle t;
    triangle_open(&t, p, &(triangle_options){.seed = 1, .wired = true, .ticks = true});
    reconnect(&t, one, one);
    to_hello3(&t, &w);
    const wire again = w;
    assert_true(w.len >= HELLO2_FRAME + HELLO3_FRAME);
    flush(&t, 1, 0, &w);
    do /* its HELLO 3 for party 1 is out, */
        assert_int_equal(uvcc_session_poll_transmit(t.s[0], &tx, t.wire_ns), 1);
    while (tx.peer != 1);
    assert_int_equal(uvcc_session_feed(t.s[0], 1, again.bytes, again.len, t.wire_ns), 0);
    while (uvcc_session_poll_transmit(t.s[0], &tx, t.wire_ns) == 1) /* and another one waits */
        assert_int_equal(tx.peer, 2);
    reconnect(&t, another, another);
    memset(way, 0, sizeof way);
    drain(&t, 0, way);
    if (way[1].len != 0)
        flush(&t, 0, 1, &way[1]);
    triangle_events(&t);
    assert_null(t.mismatch[1][0]);
    for (uint8_t i = 0; i < 3; i += 2) { /* what was out to party 2 is void */
        assert_int_equal(uvcc_session_peer_closed(t.s[i], 2 - i, t.wire_ns), 0);
        assert_int_equal(uvcc_session_peer_open(t.s[i], 2 - i, t.wire_ns), 0);
    }
    triangle_ready(&t);
    assert_null(t.mismatch[1][0]);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relay),
        cmocka_unit_test(test_new_streams),
        cmocka_unit_test(test_hello3_with_its_keys),
        cmocka_unit_test(test_hello3_left_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
