/* SPDX-License-Identifier: Apache-2.0 */
/* What sessions refuse and how they say so: values outside the declared bits, configurations, calls
 * that come too early, too late or for nothing. Every refusal has a code that says what is wrong
 * and a line that names it, and changes nothing. */
#include "triangle.h"

#include "exec/base/bounds.h"
#include "exec/runtime/core.h"
#include "proto/link_session.h"
#include <uvcc/host.h>

enum { IN_X = 1, OUT_Y = 2, COLS = 3, BITS = 4 };

/* y = relu(x), |x| < 16; w is kept and added up. */
static uvcc_program *relu_program(test_alloc *mem) {
    const uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    char why[256] = "";
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = test_tensor(p, "X", 1, COLS, BITS, 0, UVCC_TRANSIENT);
    const uint32_t w = test_tensor(p, "W", 1, COLS, BITS, 0, UVCC_PERSIST);
    const uint32_t sum = test_tensor(p, "S", 1, COLS, BITS + 1, 0, UVCC_TRANSIENT);
    const uint32_t y = test_tensor(p, "Y", 1, COLS, BITS + 1, 0, UVCC_TRANSIENT);
    const uint32_t d = test_tensor(p, "D", 1, COLS, 1, 0, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "relu") >= 0);
    assert_true(uvcc_program_input(p, IN_X, x, 0) >= 0);
    const uvcc_op_desc add = {
        .opcode = UVCC_OP_ADD, .in_count = 2, .in = {x, w}, .out_count = 1, .out = {sum}};
    const uvcc_op_desc relu = {
        .opcode = UVCC_OP_RELU, .k = 1, .in_count = 1, .in = {sum}, .out_count = 2, .out = {y, d}};
    assert_true(uvcc_program_op(p, &add) >= 0);
    assert_true(uvcc_program_op(p, &relu) >= 0);
    assert_true(uvcc_program_output(p, OUT_Y, y) >= 0);
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

/* The code and a part of the line. */
#define REFUSES(s, rc, part, call)                                                                 \
    do {                                                                                           \
        assert_int_equal(call, rc);                                                                \
        if (strstr(uvcc_session_error_detail(s), part) == NULL)                                    \
            fail_msg("'%s', not '%s'", uvcc_session_error_detail(s), part);                        \
    } while (0)

/* ---- values ---- */

static void test_within(void **state) {
    (void)state;
    for (unsigned bits = 1; bits <= 63; bits++) {
        const int64_t most = (int64_t)((1ull << bits) - 1);
        int64_t v[3] = {most, -most, 0};
        assert_true(uvcci_all_within(v, 3, bits));
        assert_int_equal(uvcci_first_outside(v, 3, bits), 3);
        for (unsigned i = 0; i < 4; i++) {
            if (bits == 63 && i != 2)
                continue;
            const int64_t bad[] = {most + (bits < 63), -most - (bits < 63), INT64_MIN, INT64_MAX};
            v[2] = bad[i];
            assert_false(uvcci_all_within(v, 3, bits));
            assert_int_equal(uvcci_first_outside(v, 3, bits), 2);
            assert_true(uvcci_all_within(v, 2, bits));
        }
    }
}

/* relu(1100) would open as 0. */
static void test_input_outside(void **state) {
    (void)state;
    static const int64_t edge[COLS] = {15, -15, 0};
    static const int64_t outside[] = {16, -16, 1100, -1100, INT64_MAX, INT64_MIN};
    test_alloc mem = {0};
    uvcc_program *p = relu_program(&mem);
    triangle t;
    triangle_open(&t, p, &(triangle_options){.seed = 3});
    triangle_ready(&t);
    triangle_agree(&t, 0, 0);
    for (unsigned i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        uint8_t before[32], after[32];
        int64_t v[COLS] = {1, 2, outside[i]};
        uvcc_session_digest(t.s[0], before);
        const uint64_t used = t.mem.live_bytes;
        REFUSES(t.s[0], UVCC_ERR_BOUND, "value 2 of X is outside its 4 bits",
                uvcc_session_input(t.s[0], 0, IN_X, v, 0));
        assert_null(strstr(uvcc_session_error_detail(t.s[0]), "11")); /* never the value */
        uvcc_session_digest(t.s[0], after);
        assert_memory_equal(before, after, 32);
        assert_int_equal(t.mem.live_bytes, used);
    }
    triangle_input(&t, 0, 0, IN_X, edge);
    triangle_finish(&t, 1);
    for (unsigned k = 0; k < 3; k++)
        for (unsigned i = 0; i < COLS; i++)
            assert_int_equal(uvcc_session_output(t.s[k], 0, OUT_Y)[i], edge[i] > 0 ? edge[i] : 0);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
}

static void test_public_outside(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = relu_program(&mem);
    const uint32_t w = (uint32_t)uvcc_program_find(p, "W");
    const int64_t far[COLS] = {0, -1100, 0}, edge[COLS] = {-15, 15, 0}, zero[COLS] = {0};
    triangle t;
    triangle_open(&t, p, &(triangle_options){.seed = 4});
    triangle_ready(&t);
    for (unsigned i = 0; i < 3; i++) {
        REFUSES(t.s[i], UVCC_ERR_BOUND, "value 1 of W is -1100, outside its 4 bits",
                uvcc_session_set_public(t.s[i], w, far));
        assert_false(t.s[i]->buffers[w].set);
        assert_null(t.s[i]->sets);
    }
    triangle_set_public(&t, w, edge);
    triangle_agree(&t, 0, 0);
    triangle_input(&t, 0, 0, IN_X, zero);
    triangle_finish(&t, 1);
    assert_int_equal(uvcc_session_output(t.s[2], 0, OUT_Y)[1], 15);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
}

/* ---- calls ---- */

static void test_too_early(void **state) {
    (void)state;
    test_alloc mem = {0};
    uint64_t seed = 1;
    uvcc_program *p = relu_program(&mem);
    const uvcc_config c = triangle_config_alone(&mem, &seed);
    const uint8_t peer = (uint8_t)((c.identity.party + 1u) % 3u), byte = 0;
    const uvcc_slice one = {.data = &byte, .len = 1};
    const int64_t v[COLS] = {0};
    const uint64_t u[COLS] = {0};
    uint64_t lo[COLS], hi[COLS];
    uvcc_session *s;
    uvcc_peer_info info = {.size = sizeof info};
    uint8_t root[32], *to;
    size_t room;
    assert_int_equal(uvcc_session_new(&s, &c), 0);
    assert_string_equal(uvcc_session_error_detail(s), "");
    for (unsigned loaded = 0; loaded < 2; loaded++) {
        const char *why = loaded ? "not started" : "no program is loaded";
        REFUSES(s, UVCC_ERR_STATE, why, uvcc_session_feed(s, peer, &byte, 1, 0));
        REFUSES(s, UVCC_ERR_STATE, why, uvcc_session_feed_slices(s, peer, &one, 1, 0));
        REFUSES(s, UVCC_ERR_STATE, why, uvcc_session_feed_ecn(s, peer, &byte, 1, false, 0));
        REFUSES(s, UVCC_ERR_STATE, why, uvcc_session_rx_buffer(s, peer, &to, &room));
        REFUSES(s, UVCC_ERR_STATE, why, uvcc_session_rx_filled(s, peer, 1, 0));
        REFUSES(s, UVCC_ERR_STATE, why, uvcc_session_peer_open(s, peer, 0));
        REFUSES(s, UVCC_ERR_STATE, why, uvcc_session_peer_closed(s, peer, 0));
        REFUSES(s, UVCC_ERR_STATE, why, uvcc_session_transmit_done(s, peer, 0, 0, 0));
        REFUSES(s, UVCC_ERR_STATE, why, uvcc_session_step(s, 0, 0, 0));
        REFUSES(s, UVCC_ERR_STATE, "not agreed to", uvcc_session_input(s, 0, IN_X, v, 0));
        assert_int_equal(uvcc_session_load_triples(s, &byte, 1), UVCC_ERR_STATE);
        assert_int_equal(uvcc_session_root(s, root), UVCC_ERR_STATE);
        assert_int_equal(uvcc_session_peer_info(s, peer, &info), UVCC_ERR_STATE);
        assert_int_equal(uvcc_session_resume(s, &byte, 1),
                         loaded ? UVCC_ERR_MISMATCH : UVCC_ERR_STATE);
        if (!loaded) {
            REFUSES(s, UVCC_ERR_STATE, why, uvcc_session_start(s, 0));
            REFUSES(s, UVCC_ERR_STATE, why, uvcc_session_abort(s, UVCC_ABORT_HOST, 0));
            REFUSES(s, UVCC_ERR_STATE, why, uvcc_session_set_public(s, 1, v));
            REFUSES(s, UVCC_ERR_STATE, why, uvcc_session_set_shares(s, 1, u, u));
            REFUSES(s, UVCC_ERR_STATE, why, uvcc_session_shares(s, 1, lo, hi));
            assert_int_equal(uvcc_session_load_program(s, p), 0);
        }
    }
    REFUSES(s, UVCC_ERR_STATE, "loaded already", uvcc_session_load_program(s, p));
    REFUSES(s, UVCC_ERR_USAGE, "TRANSIENT", uvcc_session_set_public(s, 0, v));
    REFUSES(s, UVCC_ERR_USAGE, "no tensor 99", uvcc_session_set_shares(s, 99, u, u));
    REFUSES(s, UVCC_ERR_USAGE, "TRANSIENT", uvcc_session_shares(s, 0, lo, hi));
    REFUSES(s, UVCC_ERR_USAGE, "no tensor 99", uvcc_session_shares(s, 99, lo, hi));
    assert_int_equal(uvcc_session_start(s, 0), 0);
    REFUSES(s, UVCC_ERR_STATE, "started already", uvcc_session_start(s, 0));
    REFUSES(s, UVCC_ERR_STATE, "handshake is not over", uvcc_session_step(s, 0, 0, 0));
    REFUSES(s, UVCC_ERR_USAGE, "no peer of party",
            uvcc_session_feed(s, c.identity.party, &byte, 1, 0));
    REFUSES(s, UVCC_ERR_USAGE, "party 3 is no peer", uvcc_session_peer_open(s, 3, 0));
    REFUSES(s, UVCC_ERR_USAGE, "no data", uvcc_session_feed(s, peer, NULL, 1, 0));
    REFUSES(s, UVCC_ERR_USAGE, "no peer of party",
            uvcc_session_feed_slices(s, c.identity.party, &one, 1, 0));
    REFUSES(s, UVCC_ERR_USAGE, "no slices", uvcc_session_feed_slices(s, peer, NULL, 1, 0));
    assert_int_equal(uvcc_session_feed_slices(s, peer, NULL, 0, 0), 0);
    REFUSES(s, UVCC_ERR_USAGE, "streams", uvcc_session_feed_ecn(s, peer, &byte, 1, false, 0));
    REFUSES(s, UVCC_ERR_USAGE, "party 3 is no peer", uvcc_session_rx_buffer(s, 3, &to, &room));
    REFUSES(s, UVCC_ERR_USAGE, "no place for the answer",
            uvcc_session_rx_buffer(s, peer, NULL, &room));
    assert_int_equal(uvcc_session_rx_buffer(s, peer, &to, &room), 0);
    assert_int_equal(uvcc_session_rx_filled(s, peer, 0, 0), 0);
    REFUSES(s, UVCC_ERR_USAGE, "1 bytes were put where 0 are offered",
            uvcc_session_rx_filled(s, peer, 1, 0));
    REFUSES(s, UVCC_ERR_USAGE, "no transmit 7", uvcc_session_transmit_done(s, peer, 7, 1, 0));
    REFUSES(s, UVCC_ERR_USAGE, "other than 0", uvcc_session_abort(s, UVCC_ABORT_NONE, 0));
    REFUSES(s, UVCC_ERR_USAGE, "23 is no reason",
            uvcc_session_abort(s, UVCC_ABORT_DATA + 1, 0)); /* the last one, and one more */
    REFUSES(s, UVCC_ERR_USAGE, "65535 is no reason", uvcc_session_abort(s, UINT16_MAX, 0));
    assert_int_equal(uvcc_session_abort(s, UVCC_ABORT_HOST, 0), 0);
    REFUSES(s, UVCC_ERR_STATE, "ended already", uvcc_session_abort(s, UVCC_ABORT_HOST, 0));
    REFUSES(s, UVCC_ERR_ABORTED, "was aborted", uvcc_session_step(s, 0, 0, 0));
    REFUSES(s, UVCC_ERR_ABORTED, "was aborted", uvcc_session_input(s, 0, IN_X, v, 0));
    REFUSES(s, UVCC_ERR_ABORTED, "has ended", uvcc_session_set_public(s, 1, v));
    REFUSES(s, UVCC_ERR_ABORTED, "has ended", uvcc_session_shares(s, 1, lo, hi));
    uvcc_session_free(s);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

static void drop_record(void *user, const uint8_t *bytes, size_t len) {
    (void)user, (void)bytes, (void)len;
}

/* Slices are refused before any of them is fed, with the same words whether a recorder hears of it
 * or not: datagrams have none, and none is nowhere. */
static void test_slices(void **state) {
    (void)state;
    test_alloc mem = {0};
    uint64_t seed = 1;
    uvcc_program *p = relu_program(&mem);
    for (unsigned k = 0; k < 4; k++) {
        uvcc_config c = triangle_config_alone(&mem, &seed);
        const uint8_t peer = (uint8_t)((c.identity.party + 1u) % 3u), byte[100] = {1};
        const uvcc_slice some[2] = {{.data = byte, .len = sizeof byte}, {.data = NULL, .len = 1}};
        uvcc_session *s;
        c.links.datagram = (k & 1) != 0;
        if ((k & 2) != 0)
            c.record.write = drop_record;
        assert_int_equal(uvcc_session_new(&s, &c), 0);
        assert_int_equal(uvcc_session_load_program(s, p), 0);
        assert_int_equal(uvcc_session_start(s, 0), 0);
        REFUSES(s, UVCC_ERR_USAGE, "no peer of party",
                uvcc_session_feed_slices(s, c.identity.party, some, 0, 0));
        if (c.links.datagram)
            REFUSES(s, UVCC_ERR_USAGE, "datagrams", uvcc_session_feed_slices(s, peer, some, 1, 0));
        else
            REFUSES(s, UVCC_ERR_USAGE, "no data", uvcc_session_feed_slices(s, peer, some, 2, 0));
        uvcc_session_free(s);
    }
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* AGAIN is what an event will change; a number that no event will make right is not. */
static void test_step_numbers(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = relu_program(&mem);
    const int64_t v[COLS] = {1, 2, 3};
    triangle t;
    triangle_open(&t, p, &(triangle_options){.seed = 5});
    triangle_ready(&t);
    REFUSES(t.s[0], UVCC_ERR_USAGE, "no entry 7", uvcc_session_step(t.s[0], 0, 7, 0));
    REFUSES(t.s[0], UVCC_ERR_USAGE, "step 1 cannot be: step 0 comes before it",
            uvcc_session_step(t.s[0], 1, 0, 0));
    REFUSES(t.s[0], UVCC_ERR_USAGE, "cannot be", uvcc_session_step(t.s[0], UINT32_MAX, 0, 0));
    triangle_agree(&t, 0, 0);
    REFUSES(t.s[0], UVCC_ERR_USAGE, "agreed to already", uvcc_session_step(t.s[0], 0, 0, 0));
    REFUSES(t.s[0], UVCC_ERR_USAGE, "step 2 cannot be: step 1 comes before it",
            uvcc_session_step(t.s[0], 2, 0, 0));
    triangle_agree(&t, 1, 0);
    REFUSES(t.s[0], UVCC_ERR_AGAIN, "step 2 is two ahead", uvcc_session_step(t.s[0], 2, 0, 0));
    REFUSES(t.s[0], UVCC_ERR_USAGE, "step 3 cannot be", uvcc_session_step(t.s[0], 3, 0, 0));
    REFUSES(t.s[0], UVCC_ERR_STATE, "step 0 is not over", uvcc_session_close(t.s[0], 0));
    REFUSES(t.s[1], UVCC_ERR_USAGE, "is party 0's", uvcc_session_input(t.s[1], 0, IN_X, v, 0));
    REFUSES(t.s[0], UVCC_ERR_NOT_FOUND, "has no input 9", uvcc_session_input(t.s[0], 0, 9, v, 0));
    triangle_input(&t, 0, 0, IN_X, v);
    REFUSES(t.s[0], UVCC_ERR_STATE, "given already", uvcc_session_input(t.s[0], 0, IN_X, v, 0));
    triangle_finish(&t, 1);
    REFUSES(t.s[0], UVCC_ERR_USAGE, "step 0 is over", uvcc_session_step(t.s[0], 0, 0, 0));
    REFUSES(t.s[0], UVCC_ERR_STATE, "step 0 is over", uvcc_session_input(t.s[0], 0, IN_X, v, 0));
    assert_int_equal(uvcc_session_step(t.s[0], 2, 0, 0), 0); /* what AGAIN said would come */
    assert_int_equal(uvcc_session_step(t.s[1], 2, 0, 0), 0);
    assert_int_equal(uvcc_session_step(t.s[2], 2, 0, 0), 0);
    triangle_input(&t, 0, 1, IN_X, v);
    triangle_input(&t, 0, 2, IN_X, v);
    triangle_finish(&t, 3);
    triangle_close(&t);
    REFUSES(t.s[0], UVCC_ERR_CLOSED, "closed", uvcc_session_close(t.s[0], 0));
    triangle_free(&t);
    uvcc_program_free(p);
}

static void last_party_without(uvcc_config *c) {
    c->checks.audit_off = c->identity.party == 2;
    c->checks.bundles = false;
}

/* No HELLO compares it, so it shows at the end of the first step: by name. */
static void test_audit_differs(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = relu_program(&mem);
    const int64_t v[COLS] = {1, 2, 3};
    triangle t;
    triangle_open(&t, p,
                  &(triangle_options){.seed = 6, .tweak = last_party_without, .unverified = true});
    triangle_ready(&t);
    triangle_agree(&t, 0, 0);
    triangle_input(&t, 0, 0, IN_X, v);
    while (t.aborted[2] == 0)
        assert_true(triangle_turn(&t));
    assert_int_equal(t.aborted[2], UVCC_ABORT_AUDIT);
    assert_non_null(strstr(t.abort_text[2], "checks.audit_off differs"));
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
}

/* ---- configurations ---- */

static void keep_line(void *user, uvcc_log_level level, const char *line) {
    (void)level;
    snprintf(user, 256, "%s", line);
}

/* Each refusal has a line in the caller's log that names the member. */
static void test_config_refusals(void **state) {
    (void)state;
    test_alloc mem = {0};
    uint64_t seed = 1;
    char line[256];
    const uvcc_config good = triangle_config_alone(&mem, &seed);
    uvcc_session *s;
#define REFUSED(part, ...)                                                                         \
    do {                                                                                           \
        uvcc_config c = good;                                                                      \
        c.log = (uvcc_logger){.write = keep_line, .user = line};                                   \
        line[0] = 0;                                                                               \
        __VA_ARGS__;                                                                               \
        assert_int_equal(uvcc_session_new(&s, &c), UVCC_ERR_CONFIG);                               \
        if (strstr(line, part) == NULL)                                                            \
            fail_msg("'%s', not '%s'", line, part);                                                \
    } while (0)
    REFUSED("alloc has no hooks", c.alloc.free = NULL);
    REFUSED("alloc has no hooks", c.alloc.alloc = NULL);
    REFUSED("random has no hook", c.random.fill = NULL);
    REFUSED("flags", c.flags = 1);
    REFUSED("reserved word", c.limits.reserved[sizeof c.limits.reserved / 8 - 1] = 1);
    REFUSED("identity.party", c.identity.party = 3);
    REFUSED("identity.sid_job", memset(c.identity.sid_job, 0, 32));
    REFUSED("identity.kem", c.identity.kem = 1);
    REFUSED("place.replica ", c.place.replica = 1);
    REFUSED("place.stage ", c.place.stage = 1);
    REFUSED("place.tp_rank ", c.place.tp_rank = 1);
    REFUSED("place.stages is above 256", c.place.stages = 257);
    REFUSED("links.suites", c.links.suites = 4);
    REFUSED("links.frame_bytes", c.links.frame_bytes = 255);
    REFUSED("links.frame_bytes", c.links.frame_bytes = 2u << 20);
    REFUSED("links.transmit_frames", c.links.transmit_frames = 17);
    REFUSED("links.datagram_bytes", c.links.datagram_bytes = 255);
    REFUSED("links.datagram_bytes", c.links.datagram_bytes = 65508);
    REFUSED("links.congestion", c.links.congestion = 3);
    REFUSED("links.rx_online_bytes", c.links.rx_online_bytes = (1ull << 40) + 1);
    REFUSED("links.rx_keys_bytes", c.links.rx_keys_bytes = (1ull << 40) + 1);
    REFUSED("links.tx_online_bytes", c.links.tx_online_bytes = (1ull << 40) + 1);
    REFUSED("links.tx_keys_bytes", c.links.tx_keys_bytes = (1ull << 40) + 1);
    REFUSED("links.rx_messages_max", c.links.rx_messages_max = (1u << 24) + 1);
    REFUSED("links.rx_ranges_max", c.links.rx_ranges_max = (1u << 20) + 1);
    REFUSED("links.rto_min_ns", c.links.rto_min_ns = 3000000000ull);
    REFUSED("links.rto_initial_ns", c.links.rto_initial_ns = 3000000000ull);
    REFUSED("links.rto_max_ns", c.links.rto_max_ns = UVCC_NEVER);
    REFUSED("links.ack_delay_ns", c.links.ack_delay_ns = UVCC_NEVER);
    REFUSED("links.suspicious_window_ns", c.links.suspicious_window_ns = 1);
    REFUSED("links.silence_ns", c.links.silence_ns = 1);
    REFUSED("links.silence_abort_ns", c.links.silence_ns = 2000000000ull;
            c.links.silence_abort_ns = 1000000000ull);
    REFUSED("limits.jobs_max", c.limits.jobs_max = 3);
    REFUSED("checks.bundles", c.checks.bundles = c.checks.audit_off = true);
    REFUSED("resume.checkpoint_every", c.triples.only = true; c.resume.checkpoint_every = 1);
    REFUSED("triples.run", c.triples.run = 1);
#undef REFUSED
    assert_int_equal(mem.live_blocks, 0);
}

/* Every option of the links is that of both links, but for what the program needs more of. */
static void test_link_options(void **state) {
    (void)state;
    test_alloc mem = {0};
    uint64_t seed = 1;
    uvcc_program *p = relu_program(&mem);
    uvcc_config c = triangle_config_alone(&mem, &seed);
    c.links.datagram = true;
    c.links.frame_bytes = 70001;
    c.links.transmit_frames = 3;
    c.links.datagram_bytes = 1402;
    c.links.rx_online_bytes = (5u << 20) + 3;
    c.links.rx_keys_bytes = (6u << 20) + 4;
    c.links.tx_online_bytes = (7u << 20) + 5;
    c.links.tx_keys_bytes = (8u << 20) + 6;
    c.links.rx_messages_max = 2007;
    c.links.rx_ranges_max = 2008;
    c.links.rto_initial_ns = 300000009;
    c.links.rto_min_ns = 1000010;
    c.links.rto_max_ns = 4000000011;
    c.links.ack_delay_ns = 200012;
    c.links.keepalive_ns = 5000000013;
    c.links.suspicious_max = 4014;
    c.links.suspicious_window_ns = 1000000015;
    c.links.congestion = UVCC_CONGESTION_CUBIC;
    c.links.rate_bytes_per_s = 10000016;
    uvcc_session *s;
    assert_int_equal(uvcc_session_new(&s, &c), 0);
    assert_int_equal(uvcc_session_load_program(s, p), 0);
    for (uint8_t i = 0; i < 3; i++) {
        if (i == c.identity.party) {
            assert_null(s->peer[i].link);
            continue;
        }
        const uvcc_link_config *l = uvcci_link_config_of(s->peer[i].link);
        assert_true(l->datagram && l->me == c.identity.party && l->peer == i);
        assert_int_equal(l->sid_tag, uvcc_session_sid_tag(s));
#define SAME(member) assert_int_equal(l->member, c.links.member)
        SAME(frame_bytes);
        SAME(transmit_frames);
        SAME(datagram_bytes);
        SAME(rx_online_bytes);
        SAME(rx_keys_bytes);
        SAME(tx_online_bytes);
        SAME(tx_keys_bytes);
        SAME(rx_messages_max);
        SAME(rx_ranges_max);
        SAME(rto_initial_ns);
        SAME(rto_min_ns);
        SAME(rto_max_ns);
        SAME(ack_delay_ns);
        SAME(keepalive_ns);
        SAME(suspicious_max);
        SAME(suspicious_window_ns);
        SAME(congestion);
        SAME(rate_bytes_per_s);
#undef SAME
    }
    uvcc_session_free(s);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* ---- memory ---- */

/* A limit with which no op order gets through is refused with the number; with the number it is
 * loaded. */
static void test_tensor_floor(void **state) {
    (void)state;
    test_alloc mem = {0};
    uint64_t seed = 1;
    uvcc_program *p = relu_program(&mem);
    uvcc_config c = triangle_config_alone(&mem, &seed);
    const uint64_t block = 256; /* of a component of 3 words */
    const uint64_t needed = 2 * block /* W */ + 3 * 2 * block /* RELU: S, Y, D */;
    char want[128];
    uvcc_session *s;
    snprintf(want, sizeof want, "limits.tensor_bytes is %u, this program needs at least %u",
             (unsigned)needed - 1, (unsigned)needed);
    c.limits.tensor_bytes = needed - 1;
    assert_int_equal(uvcc_session_new(&s, &c), 0);
    REFUSES(s, UVCC_ERR_LIMIT, want, uvcc_session_load_program(s, p));
    assert_null(s->program); /* nothing has changed */
    uvcc_session_free(s);
    c.limits.tensor_bytes = needed;
    assert_int_equal(uvcc_session_new(&s, &c), 0);
    assert_int_equal(uvcc_session_load_program(s, p), 0);
    uvcc_session_free(s);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* The usual hook says that it filled what it filled. */
static void test_host_random(void **state) {
    (void)state;
    const uvcc_random r = uvcc_host_random();
    uint8_t a[64] = {0}, b[64] = {0};
    assert_int_equal(r.fill(r.user, a, sizeof a), 0);
    assert_int_equal(r.fill(r.user, b, sizeof b), 0);
    assert_memory_not_equal(a, b, sizeof a);
    assert_memory_not_equal(a + 32, b + 32, 32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_within),          cmocka_unit_test(test_input_outside),
        cmocka_unit_test(test_public_outside),  cmocka_unit_test(test_too_early),
        cmocka_unit_test(test_slices),          cmocka_unit_test(test_step_numbers),
        cmocka_unit_test(test_config_refusals), cmocka_unit_test(test_link_options),
        cmocka_unit_test(test_audit_differs),   cmocka_unit_test(test_tensor_floor),
        cmocka_unit_test(test_host_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
