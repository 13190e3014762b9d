/* SPDX-License-Identifier: Apache-2.0 */
/* HELLOs that are longer than a packet: cut by a link, put together by another one whatever happens
 * to the pieces on the way, and carried through whole handshakes with long keys. */
#include "long_kem.h"
#include "triangle.h"

#include "proto/bytes.h"
#include "proto/crypto.h"
#include "proto/hello.h"
#include "proto/link_session.h"
#include <uvcc/frame.h>
#include <uvcc/link.h>

enum { ME = 0, PEER = 2, LEN = 1724, MOST = 2560, PIECES_MAX = 16 };
#define SID UINT64_C(0x1122334455667788)

/* ---- one link ---- */

typedef struct fix {
    uvcc_link *l;
    test_alloc mem;
    uint64_t seed, now;
} fix;

static void begin_as(fix *f, bool datagram, uint8_t me, uint8_t peer, uint32_t datagram_bytes) {
    *f = (fix){.seed = 9, .now = 1000};
    uvcc_link_config cfg;
    uvcc_link_config_default(&cfg);
    cfg.alloc = test_allocator(&f->mem);
    cfg.random = test_random(&f->seed);
    cfg.me = me;
    cfg.peer = peer;
    cfg.datagram = datagram;
    cfg.datagram_bytes = datagram_bytes;
    cfg.sid_tag = SID;
    assert_int_equal(uvcc_link_new(&f->l, &cfg), 0);
    uvcc_link_stream_opened(f->l, f->now);
}

static void begin(fix *f, bool datagram) {
    begin_as(f, datagram, ME, PEER, 0);
}

static void end(fix *f) {
    assert_true(f->mem.peak_bytes <= uvcc_link_memory_bound(f->l));
    uvcc_link_free(f->l);
    assert_int_equal(f->mem.live_blocks, 0);
}

static uint32_t id_of(const uint8_t *m, size_t len) {
    uint8_t hash[32];
    uvcci_sha256 sha;
    uvcci_sha256_init(&sha);
    uvcci_sha256_update(&sha, m, len);
    uvcci_sha256_final(&sha, hash);
    return uvcci_ld32(hash);
}

static void message(uint8_t *m, size_t len, uint64_t seed) {
    test_rand_bytes(&seed, m, len);
    m[0] = 1;
}

typedef struct piece {
    uint32_t id, msg_len, offset, len;
    uint64_t tag;
    const uint8_t *bytes; /* of the piece */
} piece;

static piece piece_of(const uint8_t *m, uint32_t msg_len, uint32_t offset, uint32_t len) {
    return (piece){.id = id_of(m, msg_len),
                   .msg_len = msg_len,
                   .offset = offset,
                   .len = len,
                   .tag = SID,
                   .bytes = m + offset};
}

/* A stream gets it cut once more, anywhere. */
static void feed(fix *f, const piece *p) {
    uint8_t out[UVCC_FRAME_HEADER_BYTES + MOST];
    uvcc_frame_header h = {.kind = UVCC_FRAME_HELLO,
                           .src = PEER,
                           .dst = ME,
                           .sid_tag = p->tag,
                           .msg_id = p->id,
                           .chunk_cnt = 1,
                           .msg_len = p->msg_len,
                           .offset = p->offset,
                           .payload_len = p->len};
    uvcc_frame_encode_header(&h, out);
    memcpy(out + sizeof out - MOST, p->bytes, p->len);
    uvcci_st32(out + 60, uvcc_frame_crc(out, p->bytes, p->len));
    const size_t n = UVCC_FRAME_HEADER_BYTES + p->len, cut = test_rand(&f->seed) % n;
    uvcc_link_stats s;
    uvcc_link_get_stats(f->l, &s);
    if (s.stream_up)
        assert_int_equal(uvcc_link_feed(f->l, out, cut, f->now), 0);
    const size_t at = s.stream_up ? cut : 0;
    assert_int_equal(uvcc_link_feed(f->l, out + at, n - at, f->now), 0);
}

static void expect(fix *f, const uint8_t *m, size_t len) {
    uint8_t out[UVCC_HELLO_MAX_BYTES];
    bool sealed = true;
    assert_int_equal(uvcc_link_poll_hello(f->l, out, &sealed), len);
    assert_false(sealed);
    assert_memory_equal(out, m, len);
}

static void expect_none(fix *f) {
    uint8_t out[UVCC_HELLO_MAX_BYTES];
    bool sealed;
    assert_int_equal(uvcc_link_poll_hello(f->l, out, &sealed), 0);
}

static uint64_t refused(const fix *f) {
    uvcc_link_stats s;
    uvcc_link_get_stats(f->l, &s);
    return s.refused;
}

/* ---- pieces that come ---- */

/* Every order of four pieces of any lengths, once and again; what was taken goes back. */
static void every_order(void **state) {
    (void)state;
    uint8_t m[MOST];
    uint64_t seed = 3;
    for (unsigned datagram = 0; datagram < 2; datagram++)
        for (unsigned order = 0; order < 256; order++) {
            const unsigned at[4] = {order & 3, order >> 2 & 3, order >> 4 & 3, order >> 6};
            unsigned all = 0;
            for (unsigned i = 0; i < 4; i++)
                all |= 1u << at[i];
            const uint32_t len = order % 5 == 0 ? MOST : LEN;
            uint32_t cut[5] = {0, 0, 0, 0, len};
            for (unsigned i = 1; i < 4; i++)
                cut[i] = cut[i - 1] + 1 + (uint32_t)(test_rand(&seed) % (len / 4));
            message(m, len, order);
            fix f;
            begin(&f, datagram != 0);
            const size_t idle = f.mem.live_bytes;
            size_t coming = 0;
            for (unsigned i = 0; i < 4; i++) {
                const piece p = piece_of(m, len, cut[at[i]], cut[at[i] + 1] - cut[at[i]]);
                expect_none(&f);
                feed(&f, &p);
                if (i == 0)
                    coming = f.mem.live_bytes;
                else if (i < 3 && datagram != 0) /* constant, whatever comes */
                    assert_true(f.mem.live_bytes <= coming);
            }
            assert_true(coming - idle <= 4096);
            if (all == 15)
                expect(&f, m, len);
            expect_none(&f);
            assert_int_equal(refused(&f), 0);
            if (all == 15 && datagram != 0)
                assert_int_equal(f.mem.live_bytes, idle);
            f.now += UINT64_C(1) << 40; /* an idle link gives the rest back too */
            uvcc_link_on_timer(f.l, f.now);
            assert_int_equal(f.mem.live_bytes, idle);
            end(&f);
        }
}

/* Any pieces, over each other and again, until all bytes have come: then and only then. */
static void overlaps(void **state) {
    (void)state;
    uint8_t m[LEN];
    for (uint64_t seed = 0; seed < 200; seed++) {
        bool have[LEN] = {false};
        uint32_t missing = LEN;
        uint64_t s = seed;
        fix f;
        begin(&f, seed % 2 != 0);
        message(m, LEN, seed);
        while (missing != 0) {
            const uint32_t offset = (uint32_t)(test_rand(&s) % LEN),
                           most = LEN - offset < 700 ? LEN - offset : 700,
                           len = 1 + (uint32_t)(test_rand(&s) % most);
            const piece p = piece_of(m, LEN, offset, len);
            expect_none(&f);
            feed(&f, &p);
            for (uint32_t i = offset; i < offset + len; i++) {
                missing -= !have[i];
                have[i] = true;
            }
        }
        expect(&f, m, LEN);
        expect_none(&f);
        end(&f);
    }
}

/* A forged piece costs what it was put together with, and the repetition comes through. */
static void forged(void **state) {
    (void)state;
    uint8_t m[LEN], wrong[LEN];
    for (unsigned datagram = 0; datagram < 2; datagram++) {
        fix f;
        begin(&f, datagram != 0);
        message(m, LEN, 1);
        message(wrong, LEN, 2);
        const piece a = piece_of(m, LEN, 0, 1168), b = piece_of(m, LEN, 1168, LEN - 1168);
        piece bad = a;
        bad.bytes = wrong;
        feed(&f, &bad); /* before: the right bytes replace it */
        feed(&f, &a);
        feed(&f, &b);
        expect(&f, m, LEN);
        feed(&f, &a); /* in between: a repetition is needed, one */
        feed(&f, &bad);
        feed(&f, &b);
        expect_none(&f);
        assert_int_equal(refused(&f), 1);
        feed(&f, &b);
        expect_none(&f);
        feed(&f, &a);
        expect(&f, m, LEN);
        for (unsigned i = 0; i < 4; i++) { /* of another message, length or session in between */
            bad = piece_of(i == 0 ? wrong : m, i == 1 ? LEN - 1 : LEN, 5, 1);
            bad.id = i == 1 ? a.id : bad.id;
            bad.id ^= i == 2;
            bad.tag ^= i == 3;
            feed(&f, &a);
            feed(&f, &bad);
            feed(&f, &b);
            expect_none(&f);
            feed(&f, &a);
            expect(&f, m, LEN);
        }
        const uint64_t before = refused(&f);
        bad = a;
        bad.msg_len = MOST + 1; /* longer than any: never a failure, nothing taken */
        feed(&f, &bad);
        expect_none(&f);
        assert_int_equal(refused(&f), before + 1);
        end(&f);
    }
}

/* Two messages of one length whose pieces come in turn are never mixed. */
static void never_mixed(void **state) {
    (void)state;
    uint8_t m[2][LEN], out[UVCC_HELLO_MAX_BYTES];
    message(m[0], LEN, 1);
    message(m[1], LEN, 2);
    for (uint64_t seed = 0; seed < 100; seed++) {
        uint64_t s = seed;
        unsigned came = 0;
        bool sealed;
        fix f;
        begin(&f, seed % 2 != 0);
        for (unsigned i = 0; i < 40; i++) {
            const uint64_t r = test_rand(&s);
            const piece p = (r & 2) != 0 ? piece_of(m[r & 1], LEN, 0, 1168)
                                         : piece_of(m[r & 1], LEN, 1168, LEN - 1168);
            feed(&f, &p);
            while (uvcc_link_poll_hello(f.l, out, &sealed) != 0) {
                assert_true(memcmp(out, m[0], LEN) == 0 || memcmp(out, m[1], LEN) == 0);
                came++;
            }
        }
        assert_true(came != 0 && refused(&f) == 0);
        end(&f);
    }
}

/* Another session's is put together too, and says so; without memory a HELLO is as if lost. */
static void foreign_and_memory(void **state) {
    (void)state;
    uint8_t m[LEN], out[UVCC_HELLO_MAX_BYTES];
    bool sealed = true, foreign = false;
    message(m, LEN, 1);
    for (unsigned datagram = 0; datagram < 2; datagram++) {
        fix f;
        begin(&f, datagram != 0);
        piece a = piece_of(m, LEN, 0, 1168), b = piece_of(m, LEN, 1168, LEN - 1168);
        a.tag = b.tag = SID + 1;
        feed(&f, &b);
        feed(&f, &a);
        assert_int_equal(uvcci_link_poll_hello(f.l, out, &sealed, &foreign), LEN);
        assert_true(foreign && !sealed);
        assert_memory_equal(out, m, LEN);
        end(&f);
    }
    for (unsigned fail = 1; fail < 3; fail++) {
        fix f;
        begin(&f, true);
        const piece a = piece_of(m, LEN, 0, 1168), b = piece_of(m, LEN, 1168, LEN - 1168);
        f.mem.fail_at = fail;
        feed(&f, &a);
        feed(&f, &b);
        expect_none(&f);
        f.mem.fail_at = 0;
        feed(&f, &a);
        feed(&f, &b);
        expect(&f, m, LEN);
        end(&f);
    }
}

/* ---- a HELLO that goes out ---- */

/* What is to be sent at once, packet by packet; its frames are checked, and given to `to`. Stops
 * after `most` packets. */
static unsigned send_all(fix *f, fix *to, unsigned most, size_t packet_max) {
    static uint8_t buf[1 << 16];
    unsigned packets = 0;
    uvcc_transmit t;
    while (packets < most && uvcc_link_poll_transmit(f->l, &t, f->now) == 1) {
        size_t len = 0;
        for (uint32_t i = 0; i < t.slice_count; i++) {
            memcpy(buf + len, t.slices[i].data, t.slices[i].len);
            len += t.slices[i].len;
        }
        assert_int_equal(len, t.total);
        assert_true(len <= packet_max);
        assert_int_equal(uvcc_link_transmit_done(f->l, t.id, len, f->now), 0);
        packets++;
        for (size_t at = 0; at < len;) {
            uvcc_frame_header h;
            const uint8_t *payload;
            ptrdiff_t n = uvcc_frame_decode(buf + at, len - at, &h, &payload, NULL);
            assert_true(n > 0 && n <= 1232);
            at += (size_t)n;
        }
        if (to != NULL)
            assert_int_equal(uvcc_link_feed(to->l, buf, len, to->now), 0);
    }
    return packets;
}

/* Every length arrives, in no more packets than it needs; short ones are whole, as ever. */
static void lengths(void **state) {
    (void)state;
    static const uint32_t sizes[] = {0, 1232, 256};
    uint8_t m[MOST];
    message(m, MOST, 5);
    for (unsigned kind = 0; kind < 3; kind++)
        for (size_t len = 1; len <= MOST; len += len < 1160 || (len > 1180 && len < 2550) ? 7 : 1) {
            fix f, to;
            const size_t packet = kind == 0 ? 1 << 16 : sizes[kind];
            begin_as(&f, kind != 0, PEER, ME, sizes[kind]);
            begin(&to, kind != 0);
            const size_t idle = to.mem.live_bytes;
            assert_int_equal(uvcc_link_send_hello(f.l, m, len, false), 0);
            assert_true(uvcci_link_hello_waits(f.l));
            const size_t packets = send_all(&f, &to, 100, packet);
            assert_int_equal(packets, kind == 0 ? 1 : (len + packet - 65) / (packet - 64));
            assert_false(uvcci_link_hello_waits(f.l));
            expect(&to, m, len);
            expect_none(&to);
            if (kind != 0)
                assert_int_equal(to.mem.live_bytes, idle);
            end(&f);
            end(&to);
        }
    fix f;
    begin(&f, true);
    assert_int_equal(uvcc_link_send_hello(f.l, m, MOST + 1, false), UVCC_ERR_USAGE);
    end(&f);
}

/* The rest waits for the next poll; a newer one replaces it, and is sent from its beginning. */
static void resumes(void **state) {
    (void)state;
    uint8_t m[2][MOST];
    message(m[0], MOST, 1);
    message(m[1], MOST, 2);
    for (unsigned sent = 0; sent < 4; sent++)
        for (unsigned replace = 0; replace < 2; replace++) {
            fix f, to;
            begin_as(&f, true, PEER, ME, 0);
            begin(&to, true);
            assert_int_equal(uvcc_link_send_hello(f.l, m[0], MOST, false), 0);
            assert_int_equal(send_all(&f, &to, sent, 1232), sent < 3 ? sent : 3);
            assert_true(uvcci_link_hello_waits(f.l) == (sent < 3));
            if (replace != 0)
                assert_int_equal(uvcc_link_send_hello(f.l, m[1], MOST, false), 0);
            send_all(&f, &to, 100, 1232);
            if (sent == 3)
                expect(&to, m[0], MOST);
            if (sent < 3 || replace != 0)
                expect(&to, m[replace], MOST);
            expect_none(&to);
            end(&f);
            end(&to);
        }
}

/* ---- handshakes with long keys ---- */

static void tweak(uvcc_config *c) {
    c->identity.kem = LONG_KEM;
}

/* Three sessions with it, over good and bad networks, to the end of a step. */
static void completes(void **state) {
    (void)state;
    assert_true(UVCCI_KEM_EK_MAX >= LONG_KEM_BYTES && UVCCI_KEM_CT_MAX >= LONG_KEM_BYTES);
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t w = test_tensor(p, "W", 3, 3, 20, 0, UVCC_PERSIST);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_output(p, 7, w) >= 0);
    assert_int_equal(uvcc_program_finish(p, NULL, 0), 0);
    static const int64_t v[9] = {1, -2, 3, -4, 5, -6, 7, -8, 9};
    for (unsigned i = 0; i < 24; i++) {
        triangle t;
        triangle_options opt = {.seed = i,
                                .datagram = i % 2 != 0,
                                .tweak = tweak,
                                .faulty = i >= 4,
                                .faults = {.drop = 0.2,
                                           .duplicate = 0.2,
                                           .reorder = 0.2,
                                           .split = 0.5,
                                           .coalesce = 0.3,
                                           .partial = 0.3,
                                           .disconnect = 0.02}};
        triangle_make(&t, p, &opt);
        triangle_set_public(&t, 0, v);
        triangle_start(&t);
        triangle_ready(&t);
        if (!opt.faulty) /* no HELLO had to wait for a timer */
            assert_true(uvcc_loopback_now(t.net) < 100000000u);
        triangle_agree(&t, 0, 0);
        triangle_finish(&t, 1);
        for (unsigned k = 0; k < 3; k++)
            assert_int_equal(uvcc_session_output(t.s[k], 0, 7)[1], -2);
        triangle_close(&t);
        triangle_free(&t);
    }
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order),
        cmocka_unit_test(overlaps),
        cmocka_unit_test(forged),
        cmocka_unit_test(never_mixed),
        cmocka_unit_test(foreign_and_memory),
        cmocka_unit_test(lengths),
        cmocka_unit_test(resumes),
        cmocka_unit_test(completes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
