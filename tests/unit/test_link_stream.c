/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a stream read straight into place (uvcc_link_rx_buffer) do what they would have done if
 * they had been fed. That streams may be cut anywhere is in test_link.c. */
#include "proto/frame.h"
#include "proto/link_acked.h"
#include "support.h"

#include <uvcc/link.h>

#define MS   UINT64_C(1000000)
#define ME   0
#define PEER 2

enum { STEP = 5, MESSAGES = 7 };
static const uint32_t lens[MESSAGES] = {0, 1, 64, 700, 236, 1000, 3000};
#define ALL_BYTES 5001u

static uint8_t content[4096];

typedef struct fix {
    uvcc_link *l;
    test_alloc mem;
    uint64_t seed, now;
    bool sealed;
    unsigned unwiped; /* blocks of STATE that came back with a message in them, which was sealed */
} fix;

static void *fix_alloc(void *user, size_t bytes, uvcc_mem_class cls) {
    const uvcc_allocator al = test_allocator(&((fix *)user)->mem);
    return al.alloc(al.user, bytes, cls);
}

/* Blocks of other classes the allocator wipes, or their owner has. */
static void fix_free(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    enum { SOME = 16 };
    fix *f = user;
    const uvcc_allocator al = test_allocator(&f->mem);
    const bool look = p != NULL && cls == UVCC_MEM_STATE && f->sealed;
    for (size_t i = 0; look && i + SOME <= bytes; i++)
        if (memcmp((uint8_t *)p + i, content, SOME) == 0) {
            f->unwiped++;
            break;
        }
    al.free(al.user, p, bytes, cls);
}

static uvcc_link *a_link_of(fix *f, uint8_t me, bool datagram, uint8_t suite,
                            uint32_t frame_bytes) {
    static const uint8_t prk[32] = {0x42, 7};
    uvcc_link_config cfg;
    uvcc_link_config_default(&cfg);
    *f = (fix){.seed = 9, .now = 50 * MS, .sealed = suite != 0};
    cfg.alloc = (uvcc_allocator){.alloc = fix_alloc, .free = fix_free, .user = f};
    cfg.random = test_random(&f->seed);
    cfg.me = me;
    cfg.peer = (uint8_t)(ME + PEER - me);
    cfg.datagram = datagram;
    cfg.sid_tag = 7;
    cfg.frame_bytes = frame_bytes;
    assert_int_equal(uvcc_link_new(&f->l, &cfg), 0);
    assert_int_equal(uvcc_link_set_run(f->l, 3), 0);
    assert_int_equal(uvcc_link_set_step(f->l, STEP), 0);
    if (suite != 0)
        assert_int_equal(uvcc_link_set_keys(f->l, suite, prk), 0);
    assert_int_equal(uvcc_link_start(f->l, f->now), 0);
    uvcc_link_stream_opened(f->l, f->now);
    return f->l;
}

static uvcc_link *a_link(fix *f, uint8_t me, bool datagram, uint8_t suite) {
    return a_link_of(f, me, datagram, suite, datagram ? 0 : 400);
}

static uvcc_link_stats stats(const fix *f) {
    uvcc_link_stats s;
    uvcc_link_get_stats(f->l, &s);
    assert_int_equal(s.memory_bytes, f->mem.live_bytes);
    assert_true(f->mem.peak_bytes <= uvcc_link_memory_bound(f->l));
    return s;
}

static void end(fix *f) {
    uvcc_link_free(f->l);
    assert_int_equal(f->mem.live_bytes, 0);
    assert_int_equal(f->unwiped, 0);
}

/* What it sends now; its length. */
static size_t sent(fix *f, uint8_t *out, size_t most) {
    size_t len = 0;
    uvcc_transmit t;
    while (uvcc_link_poll_transmit(f->l, &t, f->now) == 1) {
        for (uint32_t i = 0; i < t.slice_count; i++) {
            assert_true(len + t.slices[i].len <= most);
            memcpy(out + len, t.slices[i].data, t.slices[i].len);
            len += t.slices[i].len;
        }
        assert_int_equal(uvcc_link_transmit_done(f->l, t.id, t.total, f->now), 0);
    }
    return len;
}

/* What a peer sends for some messages of one frame and of several, ACK first. */
static size_t record(uint8_t *out, size_t most, uint8_t suite) {
    fix peer, me;
    uint8_t ack[512];
    a_link(&peer, PEER, false, suite);
    a_link(&me, ME, false, suite);
    assert_int_equal(uvcc_link_feed(peer.l, ack, sent(&me, ack, sizeof ack), peer.now), 0);
    for (uint32_t k = 0; k < MESSAGES; k++) {
        uvcc_link_msg *m;
        const uint32_t ids[UVCC_MSG_MAX_CHUNKS] = {k + 1};
        const uint8_t kind = k % 2 != 0 ? UVCC_FRAME_OPEN_BATCH : UVCC_FRAME_KEYS_BATCH;
        assert_int_equal(uvcc_link_msg_new(peer.l, kind, lens[k], &m), 0);
        memcpy(uvcc_link_msg_data(m), content, lens[k]);
        assert_int_equal(uvcc_link_send(peer.l, m, STEP, k + 1, ids, k, peer.now), 0);
    }
    const size_t len = sent(&peer, out, most);
    end(&peer);
    end(&me);
    return len;
}

/* The link of one more try; what it says first is not looked at. */
static void begin(fix *f, uint8_t suite) {
    uint8_t ack[512];
    a_link(f, ME, false, suite);
    (void)sent(f, ack, sizeof ack);
}

/* From a buffer of exactly that size: reading further shows under a sanitizer. */
static int feed(fix *f, const uint8_t *bytes, size_t n) {
    uint8_t *copy = malloc(n + (n == 0));
    memcpy(copy, bytes, n);
    const int err = uvcc_link_feed(f->l, copy, n, f->now);
    free(copy);
    return err;
}

/* Bytes put where the link wants them wherever it says so, the others fed one by one. */
static int put(fix *f, const uint8_t *bytes, size_t n, size_t *placed) {
    int err = 0;
    while (n != 0 && err == 0) {
        uint8_t *to;
        size_t len, take = 1;
        const int offered = uvcc_link_rx_buffer(f->l, &to, &len);
        assert_true(offered == (len != 0) && (to != NULL) == (len != 0));
        if (offered == 1) {
            take = len < n ? len : n;
            memcpy(to, bytes, take);
            err = uvcc_link_rx_filled(f->l, take, f->now);
            *placed += take;
        } else {
            err = feed(f, bytes, 1);
        }
        bytes += take;
        n -= take;
    }
    return err;
}

/* What was delivered and in which order, as one number. */
static uint64_t delivered(fix *f, uint32_t *cnt) {
    uvcc_link_rx rx;
    uint64_t sum = 0;
    *cnt = 0;
    while (uvcc_link_poll_message(f->l, &rx) == 1) {
        assert_memory_equal(rx.data, content, rx.len);
        sum = sum * 31 + rx.op_id * UINT64_C(4096) + rx.len;
        ++*cnt;
    }
    return sum;
}

/* Cut at every byte: the same messages and state as of a stream that was fed, and every byte of a
 * message went straight in. */
static void every_split(void **state) {
    (void)state;
    static uint8_t stream[16384];
    for (uint8_t suite = 0; suite < 3; suite++) {
        const size_t len = record(stream, sizeof stream, suite);
        fix fed;
        uint32_t cnt;
        uint8_t want[32], got[32];
        begin(&fed, suite);
        assert_int_equal(feed(&fed, stream, len), 0);
        const uint64_t sum = delivered(&fed, &cnt);
        const uvcc_link_stats ws = stats(&fed);
        assert_int_equal(cnt, MESSAGES);
        uvcc_link_digest(fed.l, want);
        end(&fed);
        for (size_t cut = 0; cut <= len; cut++) {
            fix f;
            size_t placed = 0;
            begin(&f, suite);
            assert_int_equal(put(&f, stream, cut, &placed), 0);
            assert_int_equal(put(&f, stream + cut, len - cut, &placed), 0);
            assert_true(placed >= ALL_BYTES);
            assert_int_equal(delivered(&f, &cnt), sum);
            assert_int_equal(cnt, MESSAGES);
            const uvcc_link_stats s = stats(&f);
            assert_true(s.bytes_rx == ws.bytes_rx && s.frames_rx == ws.frames_rx &&
                        s.heard_ns == ws.heard_ns && s.refused == ws.refused);
            uvcc_link_digest(f.l, got);
            assert_memory_equal(want, got, 32);
            end(&f);
        }
    }
}

/* Two links hear the same bytes; one is fed, the other's go into place, as chance has it. Whatever
 * happens, both say the same, and their memory is the same: wrong bits, refused memory, streams
 * that end, and steps that end between the offer and the bytes. */
typedef struct tally {
    size_t placed, broken, stepped, starved, reopened;
} tally;

static void both_streams_end(fix f[2], bool offered, tally *t) {
    for (unsigned i = 0; i < 2; i++) {
        uvcc_link_stream_closed(f[i].l, f[i].now);
        uvcc_link_stream_opened(f[i].l, f[i].now);
    }
    assert_int_equal(uvcc_link_rx_filled(f[1].l, 1, f[1].now), UVCC_ERR_USAGE);
    t->reopened += offered;
}

/* The stream with up to one bit wrong, to both. */
static int both_hear(fix f[2], const uint8_t *bytes, size_t len, uint64_t *x, tally *t) {
    const size_t step_at = test_rand(x) % 3 == 0 ? test_rand(x) % len : len;
    const size_t end_at = test_rand(x) % 4 == 0 ? test_rand(x) % len : len;
    int err = 0;
    for (size_t at = 0, n; at < len && err == 0; at += n) {
        uint8_t *to;
        size_t room;
        n = 1 + test_rand(x) % (test_rand(x) % 2 != 0 ? 90 : 1500);
        n = n < len - at ? n : len - at;
        const bool offered = uvcc_link_rx_buffer(f[1].l, &to, &room) == 1;
        if (offered && test_rand(x) % 4 != 0)
            n = n < room ? n : room;
        const bool place = offered && n <= room && test_rand(x) % 4 != 0;
        if (at <= step_at && step_at < at + n) {
            for (unsigned i = 0; i < 2; i++)
                assert_int_equal(uvcc_link_set_step(f[i].l, STEP + 2), 0);
            t->stepped += place;
        }
        if (at <= end_at && end_at < at + n) {
            both_streams_end(f, offered, t);
            return feed(&f[0], bytes, len) == feed(&f[1], bytes, len) ? 0 : 1;
        }
        err = feed(&f[0], bytes + at, n);
        if (place) {
            memcpy(to, bytes + at, n);
            assert_int_equal(uvcc_link_rx_filled(f[1].l, n, f[1].now), err);
            t->placed++;
        } else {
            assert_int_equal(feed(&f[1], bytes + at, n), err);
        }
    }
    if (err != 0) /* nothing goes in any more */
        assert_int_equal(uvcc_link_rx_filled(f[1].l, 1, f[1].now), UVCC_ERR_USAGE);
    return err;
}

static void as_if_fed(void **state) {
    (void)state;
    static uint8_t stream[16384];
    uint64_t x = 77;
    tally t = {0};
    for (unsigned round = 0; round < 4000; round++) {
        const uint8_t suite = (uint8_t)(round % 3);
        const size_t len = record(stream, sizeof stream, suite);
        if (test_rand(&x) % 2 != 0)
            stream[test_rand(&x) % len] ^= (uint8_t)(1u << test_rand(&x) % 8);
        fix f[2];
        begin(&f[0], suite);
        begin(&f[1], suite);
        f[0].mem.fail_at = f[1].mem.fail_at = test_rand(&x) % 4 == 0 ? 1 + test_rand(&x) % 12 : 0;
        const int err = both_hear(f, stream, len, &x, &t);
        assert_true(err <= 0);
        t.broken += err == UVCC_ERR_STREAM_BROKEN;
        t.starved += err == UVCC_ERR_NOMEM;
        uint8_t digest[2][32];
        uint32_t cnt[2];
        assert_int_equal(delivered(&f[0], &cnt[0]), delivered(&f[1], &cnt[1]));
        assert_int_equal(cnt[0], cnt[1]);
        for (unsigned i = 0; i < 2; i++)
            uvcc_link_digest(f[i].l, digest[i]);
        assert_memory_equal(digest[0], digest[1], 32);
        assert_int_equal(stats(&f[0]).refused, stats(&f[1]).refused);
        assert_int_equal(f[0].mem.live_bytes, f[1].mem.live_bytes);
        assert_int_equal(f[0].mem.calls, f[1].mem.calls);
        end(&f[0]);
        end(&f[1]);
    }
    assert_true(t.placed > 10000 && t.broken > 500 && t.starved > 100);
    assert_true(t.stepped > 50 && t.reopened > 100);
}

/* The byte at which the k-th data frame of a recorded stream begins. */
static size_t data_frame_at(const uint8_t *stream, unsigned k) {
    size_t at = 0;
    for (;; at += UVCC_FRAME_HEADER_BYTES + uvcci_frame_payload_len(stream + at)) {
        uvcc_frame_header h;
        assert_int_equal(uvcc_frame_decode_header(stream + at, &h, NULL), 0);
        if (uvcc_frame_kind_class(h.kind) != UVCC_CLASS_CONTROL && k-- == 0)
            return at;
    }
}

/* The second frame of the message of 700 bytes, of which the header came: where its piece goes. */
static uint8_t *second_place(fix *f, const uint8_t *stream, size_t at, uint8_t suite, size_t n) {
    uint8_t *to;
    size_t len;
    begin(f, suite);
    assert_int_equal(feed(f, stream, at), 0);
    assert_int_equal(uvcc_link_rx_buffer(f->l, &to, &len), 1);
    assert_int_equal(len, n);
    memset(to, 0xA5, n);
    return to;
}

/* A sealed piece goes to its place before its tag is known, opened or not: if the tag is wrong,
 * nothing of it stays there. */
static void forged_pieces_are_wiped(void **state) {
    (void)state;
    static uint8_t stream[16384];
    for (uint8_t suite = 1; suite < 3; suite++) {
        const size_t len = record(stream, sizeof stream, suite);
        size_t at = data_frame_at(stream, 2);
        const uint32_t body = uvcci_frame_payload_len(stream + at);
        fix f;
        uint8_t *tag = stream + at + UVCC_FRAME_HEADER_BYTES + body - 16;
        tag[3] ^= 1;
        uvcci_frame_put_crc(stream + at, uvcc_frame_crc(stream + at, tag + 16 - body, body));
        at += UVCC_FRAME_HEADER_BYTES;
        const uint8_t *to = second_place(&f, stream, at, suite, body - 16);
        assert_int_equal(feed(&f, stream + at, len - at), UVCC_ERR_STREAM_BROKEN);
        for (size_t i = 0; i < body - 16; i++)
            assert_int_equal(to[i], 0);
        end(&f);
    }
}

/* Nor of one whose tag nobody looks at any more: its CRC is wrong, or its stream ends before it,
 * wherever. What was not opened yet is as it came. */
static void cut_pieces_are_wiped(void **state) {
    (void)state;
    static uint8_t stream[16384];
    for (uint8_t suite = 1; suite < 3; suite++) {
        (void)record(stream, sizeof stream, suite);
        size_t at = data_frame_at(stream, 2);
        const uint32_t body = uvcci_frame_payload_len(stream + at);
        at += UVCC_FRAME_HEADER_BYTES;
        stream[at + 5] ^= 1;
        for (size_t cut = 1; cut <= body; cut += cut < body - 20 ? 19 : 1) {
            fix f;
            const uint8_t *to = second_place(&f, stream, at, suite, body - 16);
            assert_int_equal(feed(&f, stream + at, cut), cut < body ? 0 : UVCC_ERR_STREAM_BROKEN);
            uvcc_link_stream_closed(f.l, f.now);
            for (size_t i = 0; i < body - 16; i++)
                assert_int_equal(to[i], i >= cut ? 0xA5 : suite == 2 ? 0 : stream[at + i]);
            end(&f);
        }
    }
}

/* A receiver whose memory is refused says so, or it needed none: nothing of a stream is lost
 * unsaid, whatever of a frame that is not whole it was for. */
static void refused_memory_is_told(void **state) {
    (void)state;
    static uint8_t stream[16384];
    for (uint8_t suite = 0; suite < 3; suite++) {
        const size_t len = record(stream, sizeof stream, suite);
        size_t told = 0;
        for (size_t fail = 0, calls = 0; fail <= calls; fail++)
            for (size_t n = 50; n < 80; n += 7) {
                fix f;
                uint32_t cnt;
                int err = 0;
                begin(&f, suite);
                f.mem.calls = 0;
                f.mem.fail_at = fail;
                for (size_t at = 0; at < len && err == 0; at += n)
                    err = feed(&f, stream + at, n < len - at ? n : len - at);
                calls = f.mem.calls > calls ? f.mem.calls : calls;
                (void)delivered(&f, &cnt);
                if (err != 0)
                    assert_int_equal(err, UVCC_ERR_NOMEM);
                else
                    assert_true(cnt == MESSAGES && stats(&f).refused == 0);
                told += err != 0;
                end(&f);
            }
        assert_true(told > 10);
    }
}

/* Bytes that have no place are refused, and nothing has changed by that. */
static void no_place(void **state) {
    (void)state;
    static uint8_t stream[16384];
    uint8_t *to;
    size_t n, at = 0, placed = 0;
    uint32_t cnt;
    const size_t len = record(stream, sizeof stream, 0);
    fix f;
    begin(&f, 0);
    assert_int_equal(uvcc_link_rx_buffer(f.l, &to, &n), 0);
    assert_true(to == NULL && n == 0);
    assert_int_equal(uvcc_link_rx_filled(f.l, 0, f.now), 0);
    assert_int_equal(uvcc_link_rx_filled(f.l, 1, f.now), UVCC_ERR_USAGE);
    while (uvcc_link_rx_buffer(f.l, &to, &n) == 0 || n < 100)
        assert_int_equal(feed(&f, stream + at++, 1), 0);
    assert_int_equal(uvcc_link_rx_filled(f.l, n + 1, f.now), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_link_rx_filled(f.l, 0, f.now), 0);
    memcpy(to, stream + at, 10);
    assert_int_equal(uvcc_link_rx_filled(f.l, 10, f.now), 0);
    assert_int_equal(uvcc_link_rx_filled(f.l, 10, f.now), UVCC_ERR_USAGE); /* not offered again */
    at += 10;
    assert_int_equal(uvcc_link_rx_buffer(f.l, &to, &n), 1);
    assert_int_equal(feed(&f, stream + at++, 1), 0);
    assert_int_equal(uvcc_link_rx_filled(f.l, 1, f.now), UVCC_ERR_USAGE); /* fed meanwhile */
    assert_int_equal(put(&f, stream + at, len - at, &placed), 0);
    (void)delivered(&f, &cnt);
    assert_int_equal(cnt, MESSAGES);
    end(&f);
    a_link(&f, ME, true, 0);
    assert_int_equal(uvcc_link_rx_buffer(f.l, &to, &n), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_link_rx_filled(f.l, 0, f.now), UVCC_ERR_USAGE);
    end(&f);
}

/* Frames of 256 KiB in the next transmit, which the stream takes after `wait` nanoseconds. */
static size_t take_transmit(fix *f, uint64_t wait) {
    uvcc_transmit t;
    assert_int_equal(uvcc_link_poll_transmit(f->l, &t, f->now), 1);
    assert_int_equal(uvcc_link_transmit_done(f->l, t.id, t.total, f->now += wait), 0);
    return t.total >> 18;
}

/* The peer's ACK, which gives credit, and resumes a stream that was opened anew. */
static void hear_peer(fix *f, fix *peer) {
    uint8_t bytes[512];
    uvcc_link_stream_closed(peer->l, peer->now);
    uvcc_link_stream_opened(peer->l, peer->now);
    assert_int_equal(feed(f, bytes, sent(peer, bytes, sizeof bytes)), 0);
}

/* A stream that takes a transmit at once is given more in the next one, up to 1 MiB: not one that
 * is slow or was opened anew, and not what is sealed. */
static void transmits_of_a_fast_stream(void **state) {
    (void)state;
    static const struct {
        uint64_t wait;
        size_t frames;
    } next[] = {{0, 1}, {MS, 2}, {0, 4}, {0, 4}, {MS + 1, 4}, {0, 1}, {0, 2}};
    for (uint8_t suite = 0; suite < 2; suite++) {
        fix f, peer;
        uint8_t first[512];
        a_link_of(&f, ME, false, suite, 0);
        a_link_of(&peer, PEER, false, suite, 0);
        (void)sent(&f, first, sizeof first); /* small ones change nothing */
        hear_peer(&f, &peer);
        for (uint32_t k = 0; k < 24; k++) {
            uvcc_link_msg *m;
            const uint32_t ids[UVCC_MSG_MAX_CHUNKS] = {k + 1};
            assert_int_equal(uvcc_link_msg_new(f.l, UVCC_FRAME_OPEN_BATCH, 1u << 20, &m), 0);
            memset(uvcc_link_msg_data(m), 1, 1u << 20);
            assert_int_equal(uvcc_link_send(f.l, m, STEP, k + 1, ids, k, f.now), 0);
        }
        for (size_t i = 0; i < sizeof next / sizeof next[0]; i++)
            assert_int_equal(take_transmit(&f, next[i].wait), suite == 0 ? next[i].frames : 1);
        uvcc_link_stream_closed(f.l, f.now);
        uvcc_link_stream_opened(f.l, f.now);
        (void)sent(&f, first, sizeof first);
        hear_peer(&f, &peer);
        assert_int_equal(take_transmit(&f, 0), 1);
        end(&f);
        end(&peer);
    }
}

/* ---- sealed ahead ---- */

enum { AHEAD_FRAME = 64 << 10, AHEAD_MESSAGE = 300 << 10 };

/* Two sealed links, one with a message of five frames to send, which may begin. */
static void begin_ahead(fix *f, fix *peer, uint8_t suite) {
    uvcc_link_msg *m;
    uint8_t first[512];
    const uint32_t ids[UVCC_MSG_MAX_CHUNKS] = {1};
    a_link_of(f, ME, false, suite, AHEAD_FRAME);
    a_link_of(peer, PEER, false, suite, AHEAD_FRAME);
    assert_int_equal(feed(peer, first, sent(f, first, sizeof first)), 0);
    assert_int_equal(feed(f, first, sent(peer, first, sizeof first)), 0);
    assert_int_equal(uvcc_link_msg_new(f->l, UVCC_FRAME_OPEN_BATCH, AHEAD_MESSAGE, &m), 0);
    for (size_t i = 0; i < AHEAD_MESSAGE; i++)
        uvcc_link_msg_data(m)[i] = (uint8_t)(i * 7 >> 3);
    assert_int_equal(uvcc_link_send(f->l, m, STEP, 1, ids, 1, f->now), 0);
}

static uint64_t frames_sent(const fix *f) {
    return stats(f).frames_tx;
}

static void to_peer(fix *peer, const uvcc_transmit *t) {
    for (uint32_t i = 0; i < t->slice_count; i++)
        assert_int_equal(feed(peer, t->slices[i].data, t->slices[i].len), 0);
}

static void message_is_there(fix *peer) {
    uvcc_link_rx rx;
    assert_int_equal(uvcc_link_poll_message(peer->l, &rx), 1);
    assert_int_equal(rx.len, AHEAD_MESSAGE);
    for (size_t i = 0; i < AHEAD_MESSAGE; i++)
        assert_int_equal(rx.data[i], (uint8_t)(i * 7 >> 3));
    assert_int_equal(uvcc_link_accept(peer->l, rx.token, peer->now), 0);
    assert_int_equal(uvcc_link_release(peer->l, rx.token, peer->now), 0);
}

/* A poll while a transmit is out seals the next one, once; it is what comes when that is done. Not
 * on a link without keys, which has nothing to do for it. */
static void next_is_sealed_ahead(void **state) {
    (void)state;
    for (uint8_t suite = 0; suite < 3; suite++) {
        fix f, peer;
        uvcc_transmit t, none;
        begin_ahead(&f, &peer, suite);
        unsigned transmits = 0;
        while (uvcc_link_poll_transmit(f.l, &t, f.now) == 1) {
            const uint64_t before = frames_sent(&f);
            assert_int_equal(uvcc_link_poll_transmit(f.l, &none, f.now), 0);
            const uint64_t ahead = frames_sent(&f);
            assert_int_equal(ahead - before, suite != 0 && transmits < 4);
            assert_int_equal(uvcc_link_poll_transmit(f.l, &none, f.now), 0);
            to_peer(&peer, &t);
            assert_int_equal(uvcc_link_transmit_done(f.l, t.id, t.total, f.now), 0);
            assert_int_equal(frames_sent(&f), ahead);
            assert_true(ahead == before || stats(&f).ack_due); /* an ACK may be in it */
            transmits++;
        }
        assert_int_equal(transmits, suite != 0 ? 5 : 2);
        message_is_there(&peer);
        end(&f);
        end(&peer);
    }
}

/* A stream that ends takes the transmit ahead with it; its frames go over the next one. */
static void streams_end_with_what_is_ahead(void **state) {
    (void)state;
    for (unsigned done = 0; done < 2; done++) {
        fix f, peer;
        uvcc_transmit t;
        static uint8_t bytes[2 * AHEAD_MESSAGE];
        begin_ahead(&f, &peer, 2);
        assert_int_equal(uvcc_link_poll_transmit(f.l, &t, f.now), 1);
        assert_int_equal(uvcc_link_poll_transmit(f.l, &t, f.now), 0);
        if (done != 0)
            assert_int_equal(uvcc_link_transmit_done(f.l, t.id, t.total, f.now), 0);
        uvcc_link_stream_closed(f.l, f.now);
        assert_int_equal(uvcc_link_poll_transmit(f.l, &t, f.now), 0);
        uvcc_link_stream_opened(f.l, f.now);
        assert_true(sent(&f, bytes, sizeof bytes) < 512); /* it waits for the peer's ACK */
        hear_peer(&f, &peer);
        assert_int_equal(feed(&peer, bytes, sent(&f, bytes, sizeof bytes)), 0);
        message_is_there(&peer);
        end(&f);
        end(&peer);
    }
}

/* A peer that acknowledges what never went out ends a message, but not its memory while the
 * transmits that are out, or ahead, point into it. */
static void acks_of_what_is_ahead(void **state) {
    (void)state;
    fix f, peer;
    uvcc_transmit t, next;
    begin_ahead(&f, &peer, 2);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(uvcc_link_poll_transmit(f.l, &t, f.now), 1);
        assert_int_equal(uvcc_link_poll_transmit(f.l, &next, f.now), 0); /* the last one at last */
        if (i != 3)
            assert_int_equal(uvcc_link_transmit_done(f.l, t.id, t.total, f.now), 0);
    }
    uvcci_tx_cum(f.l, f.l->tx.next - 1);
    assert_int_equal(stats(&f).unacked_messages, 0);
    const size_t held = f.mem.live_bytes;
    assert_int_equal(uvcc_link_transmit_done(f.l, t.id, t.total, f.now), 0);
    assert_int_equal(uvcc_link_poll_transmit(f.l, &t, f.now), 1);
    assert_true(f.mem.live_bytes == held && t.total > 1000);
    assert_int_equal(uvcc_link_transmit_done(f.l, t.id, t.total, f.now), 0);
    assert_int_equal(uvcc_link_poll_transmit(f.l, &t, f.now), 0);
    assert_true(f.l->tx.pool.live == 0 && f.l->data_bytes == 0);
    end(&f);
    end(&peer);
}

/* A peer that is gone never acknowledges what it was sent; what came from it before is not kept for
 * its sake. */
static void spare_buffers_go(void **state) {
    (void)state;
    const uint32_t ids[UVCC_MSG_MAX_CHUNKS] = {2};
    static uint8_t bytes[2 * AHEAD_MESSAGE];
    fix f, peer;
    uvcc_link_msg *m;
    begin_ahead(&f, &peer, 2);
    assert_int_equal(feed(&peer, bytes, sent(&f, bytes, sizeof bytes)), 0);
    message_is_there(&peer);
    assert_int_equal(uvcc_link_msg_new(peer.l, UVCC_FRAME_OPEN_BATCH, 100, &m), 0);
    memset(uvcc_link_msg_data(m), 1, 100);
    assert_int_equal(uvcc_link_send(peer.l, m, STEP, 2, ids, 1, peer.now), 0);
    assert_true(sent(&peer, bytes, sizeof bytes) != 0);
    const size_t kept = peer.mem.live_bytes;
    peer.now += 150000000;
    uvcc_link_on_timer(peer.l, peer.now);
    assert_false(uvcc_link_drained(peer.l));
    assert_true(peer.mem.live_bytes + AHEAD_MESSAGE <= kept);
    end(&f);
    end(&peer);
}

int main(void) {
    uint64_t seed = 42;
    test_rand_bytes(&seed, content, sizeof content);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transmits_of_a_fast_stream),
        cmocka_unit_test(every_split),
        cmocka_unit_test(as_if_fed),
        cmocka_unit_test(forged_pieces_are_wiped),
        cmocka_unit_test(cut_pieces_are_wiped),
        cmocka_unit_test(spare_buffers_go),
        cmocka_unit_test(next_is_sealed_ahead),
        cmocka_unit_test(streams_end_with_what_is_ahead),
        cmocka_unit_test(acks_of_what_is_ahead),
        cmocka_unit_test(refused_memory_is_told),
        cmocka_unit_test(no_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
