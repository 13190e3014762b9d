/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that are sealed and opened side by side (uvcc_parallel, transmit_frames,
 * uvcc_link_feed_slices): the bytes are those of a link that seals one after the other, and who
 * opens them comes to the same state, whatever is wrong with them. */
#include "proto/crypto.h"
#include "proto/frame.h"
#include "proto/link_stream.h"
#include "support.h"

#include <uvcc/link.h>

#define MS   UINT64_C(1000000)
#define ME   0
#define PEER 2

enum { STEP = 5, MESSAGES = 6, FRAME = 40000, FRAMES = 4, BYTES = 1u << 20 };
static const uint32_t lens[MESSAGES] = {100, 70000, 30000, 400000, 17000, 160000};

static uint8_t content[400000], stream[BYTES];

/* Runs the items in an order of its own, and counts them. */
typedef struct shuffler {
    uint64_t x;
    size_t calls, items;
} shuffler;

static void shuffled(void *user, void (*item)(void *arg, uint32_t i), void *arg, uint32_t count) {
    shuffler *s = user;
    uint32_t order[64];
    assert_in_range(count, 2, 64);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t k = (uint32_t)(test_rand(&s->x) % (i + 1));
        order[i] = order[k];
        order[k] = i;
    }
    for (uint32_t i = 0; i < count; i++)
        item(arg, order[i]);
    s->calls++;
    s->items += count;
}

typedef struct fix {
    uvcc_link *l;
    test_alloc mem;
    uint64_t seed, now;
    shuffler side;
} fix;

/* Memory that came back as sealed has nothing of a message. */
static unsigned sealed_blocks;

static void take_sealed(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    enum { SOME = 16 };
    assert_int_equal(cls, UVCC_MEM_WIRE);
    assert_true(bytes <= sizeof content);
    for (size_t at = 0; at + SOME <= bytes; at += SOME)
        assert_memory_not_equal((uint8_t *)p + at, content + at, SOME);
    sealed_blocks++;
    test_allocator(user).free(user, p, bytes, cls);
}

static void a_link(fix *f, uint8_t me, uint8_t suite, bool side) {
    static const uint8_t prk[32] = {0x42, 7};
    uvcc_link_config cfg;
    uvcc_link_config_default(&cfg);
    *f = (fix){.seed = 9, .now = 50 * MS, .side.x = 4};
    cfg.alloc = test_allocator(&f->mem);
    cfg.alloc.free_sealed = take_sealed;
    cfg.random = test_random(&f->seed);
    cfg.me = me;
    cfg.peer = (uint8_t)(ME + PEER - me);
    cfg.sid_tag = 7;
    cfg.frame_bytes = FRAME;
    cfg.transmit_frames = FRAMES;
    if (side)
        cfg.parallel = (uvcc_parallel){.run = shuffled, .user = &f->side};
    assert_int_equal(uvcc_link_new(&f->l, &cfg), 0);
    assert_int_equal(uvcc_link_set_run(f->l, 3), 0);
    assert_int_equal(uvcc_link_set_step(f->l, STEP), 0);
    if (suite != 0)
        assert_int_equal(uvcc_link_set_keys(f->l, suite, prk), 0);
    assert_int_equal(uvcc_link_start(f->l, f->now), 0);
    uvcc_link_stream_opened(f->l, f->now);
}

static void end(fix *f) {
    assert_true(f->mem.peak_bytes <= uvcc_link_memory_bound(f->l));
    uvcc_link_free(f->l);
    assert_int_equal(f->mem.live_bytes, 0);
}

/* A suite whose keys several threads may use. */
static bool is_shared(uint8_t suite) {
    static const uint8_t key[32] = {1};
    uvcci_aead a;
    assert_int_equal(uvcci_aead_init(&a, suite, key), 0);
    const bool shared = uvcci_aead_is_shared(&a);
    uvcci_aead_free(&a);
    return shared;
}

/* What it sends now, and of how many bytes each transmit was. */
typedef struct sendings {
    size_t bytes, count, bytes_of[64];
} sendings;

static void sent(fix *f, uint8_t *out, sendings *all) {
    uvcc_transmit t;
    *all = (sendings){0};
    while (uvcc_link_poll_transmit(f->l, &t, f->now) == 1) {
        for (uint32_t i = 0; i < t.slice_count; i++) {
            assert_true(all->bytes + t.slices[i].len <= BYTES);
            memcpy(out + all->bytes, t.slices[i].data, t.slices[i].len);
            all->bytes += t.slices[i].len;
        }
        all->bytes_of[all->count++] = t.total;
        assert_int_equal(uvcc_link_transmit_done(f->l, t.id, t.total, f->now), 0);
    }
}

static void begin(fix *f, uint8_t me, uint8_t suite, bool side) {
    static uint8_t ack[BYTES];
    sendings s;
    a_link(f, me, suite, side);
    sent(f, ack, &s);
}

/* What a peer sends for the messages. */
static void record(uint8_t *out, sendings *all, uint8_t suite, bool side, size_t *items) {
    fix peer, me;
    static uint8_t ack[BYTES];
    a_link(&peer, PEER, suite, side);
    a_link(&me, ME, suite, false);
    sent(&me, ack, all);
    assert_int_equal(uvcc_link_feed(peer.l, ack, all->bytes, peer.now), 0);
    sent(&peer, out, all);
    for (uint32_t k = 0; k < MESSAGES; k++) {
        uvcc_link_msg *m;
        const uint32_t ids[UVCC_MSG_MAX_CHUNKS] = {k + 1};
        assert_int_equal(uvcc_link_msg_new(peer.l, UVCC_FRAME_KEYS_BATCH, lens[k], &m), 0);
        memcpy(uvcc_link_msg_data(m), content, lens[k]);
        assert_int_equal(uvcc_link_send(peer.l, m, STEP, k + 1, ids, k, peer.now), 0);
    }
    sent(&peer, out, all);
    *items = peer.side.items;
    end(&peer);
    end(&me);
}

/* A message of several frames begins with a short one, for the peer has no place before that is
 * opened; what follows is cut into as many as a transmit has, of half a frame at least. */
static void cut_to_share(const uint8_t *bytes, size_t len) {
    uint32_t frames[3] = {0};
    for (size_t at = 0; at < len;
         at += UVCC_FRAME_HEADER_BYTES + uvcci_frame_payload_len(bytes + at)) {
        uvcc_frame_header h;
        assert_int_equal(uvcc_frame_decode_header(bytes + at, &h, NULL), 0);
        frames[0] += h.msg_len == 17000;
        frames[1] += h.msg_len == 70000;
        frames[2] += h.msg_len == 400000;
        if (h.offset == 0 && h.msg_len > FRAME)
            assert_int_equal(uvcci_frame_piece(&h), 4096);
    }
    assert_true(frames[0] == 1 && frames[1] == 5 && frames[2] == 11);
}

/* The same bytes in the same transmits, with up to `transmit_frames` frames each. */
static void sealed_alike(void **state) {
    (void)state;
    static uint8_t one[BYTES], other[BYTES];
    for (uint8_t suite = 1; suite < 3; suite++) {
        sendings a, b;
        size_t none, items;
        record(one, &a, suite, false, &none);
        record(other, &b, suite, true, &items);
        assert_int_equal(none, 0);
        assert_true(is_shared(suite) ? items > 15 : items == 0);
        assert_memory_equal(&a, &b, sizeof a);
        assert_memory_equal(one, other, a.bytes);
        cut_to_share(one, a.bytes);
        size_t longest = 0;
        for (size_t i = 0; i < a.count; i++)
            longest = a.bytes_of[i] > longest ? a.bytes_of[i] : longest;
        assert_in_range(longest, (FRAMES - 1) * FRAME, (FRAMES + 1) * FRAME);
    }
}

/* A stream's bytes as slices that begin and end as those of transmits do: before and behind the
 * piece of each frame; and at some more places, if there is chance. */
typedef struct sliced {
    uvcc_slice s[UVCC_TRANSMIT_SLICES_MAX * 4];
    uint32_t count;
} sliced;

static void cut(sliced *out, const uint8_t *bytes, size_t n, uint64_t *chance) {
    while (n != 0) {
        const size_t some =
            chance != NULL && test_rand(chance) % 16 == 0 ? test_rand(chance) % n : n;
        assert_in_range(out->count, 0, UVCC_TRANSMIT_SLICES_MAX * 4 - 1);
        out->s[out->count++] = (uvcc_slice){.data = bytes, .len = some};
        bytes += some;
        n -= some;
    }
}

static void slice(sliced *out, const uint8_t *bytes, size_t len, uint64_t *chance) {
    size_t from = 0;
    out->count = 0;
    for (size_t at = 0, body; at < len; at += UVCC_FRAME_HEADER_BYTES + body) {
        uvcc_frame_header h;
        assert_int_equal(uvcc_frame_decode_header(bytes + at, &h, NULL), 0);
        body = h.payload_len;
        if (uvcc_frame_kind_class(h.kind) == UVCC_CLASS_CONTROL)
            continue;
        const size_t piece = at + UVCC_FRAME_HEADER_BYTES;
        cut(out, bytes + from, piece - from, chance);
        cut(out, bytes + piece, uvcci_frame_piece(&h), chance);
        from = piece + uvcci_frame_piece(&h);
    }
    cut(out, bytes + from, len - from, chance);
}

/* What was delivered and in which order, as one number. */
static uint64_t delivered(fix *f, uint32_t *cnt) {
    uvcc_link_rx rx;
    uint64_t sum = 0;
    *cnt = 0;
    while (uvcc_link_poll_message(f->l, &rx) == 1) {
        assert_memory_equal(rx.data, content, rx.len);
        sum = sum * 31 + rx.op_id * UINT64_C(1048576) + rx.len;
        ++*cnt;
    }
    return sum;
}

/* Both heard the same bytes, each in its way. */
static uint32_t same_state(fix f[2]) {
    uint8_t digest[2][32];
    uint32_t cnt[2];
    uvcc_link_stats st[2];
    assert_int_equal(delivered(&f[0], &cnt[0]), delivered(&f[1], &cnt[1]));
    assert_int_equal(cnt[0], cnt[1]);
    for (unsigned i = 0; i < 2; i++) {
        uvcc_link_digest(f[i].l, digest[i]);
        uvcc_link_get_stats(f[i].l, &st[i]);
    }
    assert_memory_equal(digest[0], digest[1], 32);
    assert_true(st[0].frames_rx == st[1].frames_rx && st[0].refused == st[1].refused &&
                st[0].heard_ns == st[1].heard_ns);
    return cnt[0];
}

/* Fed as one piece and in slices, cut as transmits are or anywhere: the same state. Of a transmit's
 * slices all frames but the first of a message are opened side by side. */
static void opened_alike(void **state) {
    (void)state;
    uint64_t x = 3;
    for (uint8_t suite = 1; suite < 3; suite++) {
        sendings all;
        size_t items;
        record(stream, &all, suite, true, &items);
        for (unsigned round = 0; round < 60; round++) {
            fix f[2];
            sliced s;
            begin(&f[0], ME, suite, false);
            begin(&f[1], ME, suite, true);
            slice(&s, stream, all.bytes, round == 0 ? NULL : &x);
            assert_int_equal(uvcc_link_feed(f[0].l, stream, all.bytes, f[0].now), 0);
            assert_int_equal(uvcc_link_feed_slices(f[1].l, s.s, s.count, f[1].now), 0);
            uvcc_link_stats st;
            uvcc_link_get_stats(f[1].l, &st);
            assert_int_equal(st.bytes_rx, all.bytes);
            assert_int_equal(same_state(f), MESSAGES);
            if (round == 0)
                assert_true(is_shared(suite) ? f[1].side.items > 12 : f[1].side.items == 0);
            end(&f[0]);
            end(&f[1]);
        }
    }
}

typedef struct tally {
    size_t broken, stepped, side;
} tally;

/* A wrong bit, a step that ends: what follows is as of a link that opens one frame after the other,
 * and so is what a stream that begins anew completes. */
static void one_hearing(uint8_t suite, const uint8_t *good, size_t len, uint64_t *x, tally *t) {
    static uint8_t bad[BYTES];
    fix f[2];
    sliced s;
    const size_t half = test_rand(x) % len;
    memcpy(bad, good, len);
    if (test_rand(x) % 4 != 0)
        bad[test_rand(x) % len] ^= (uint8_t)(1u << test_rand(x) % 8);
    slice(&s, good, len, x);
    for (uint32_t i = 0; i < s.count; i++)
        s.s[i].data = bad + (s.s[i].data - good);
    uint32_t k = 0;
    for (size_t at = 0; at < half; at += s.s[k++].len)
        ;
    const bool steps = test_rand(x) % 4 == 0;
    int err[2];
    for (unsigned i = 0; i < 2; i++)
        begin(&f[i], ME, suite, i == 1);
    for (unsigned i = 0; i < 2; i++)
        err[i] = uvcc_link_feed_slices(f[i].l, s.s, k, f[i].now);
    for (unsigned i = 0; steps && i < 2; i++)
        assert_int_equal(uvcc_link_set_step(f[i].l, STEP + 2), 0);
    for (unsigned i = 0; i < 2; i++)
        if (err[i] == 0)
            err[i] = uvcc_link_feed_slices(f[i].l, s.s + k, s.count - k, f[i].now);
    assert_int_equal(err[0], err[1]);
    t->broken += err[0] == UVCC_ERR_STREAM_BROKEN;
    t->stepped += steps;
    t->side += f[1].side.calls;
    (void)same_state(f);
    for (unsigned i = 0; i < 2; i++) {
        uvcc_link_stream_closed(f[i].l, f[i].now);
        uvcc_link_stream_opened(f[i].l, f[i].now);
    }
    slice(&s, good, len, NULL);
    for (unsigned i = 0; i < 2; i++)
        err[i] = uvcc_link_feed_slices(f[i].l, s.s, s.count, f[i].now);
    assert_int_equal(err[0], err[1]);
    (void)same_state(f);
    end(&f[0]);
    end(&f[1]);
}

static void wrong_alike(void **state) {
    (void)state;
    uint64_t x = 71;
    for (uint8_t suite = 1; suite < 3; suite++) {
        sendings all;
        size_t items;
        tally t = {0};
        record(stream, &all, suite, false, &items);
        for (unsigned round = 0; round < 250; round++)
            one_hearing(suite, stream, all.bytes, &x, &t);
        assert_true(t.broken > 100 && t.stepped > 30);
        assert_true(!is_shared(suite) || t.side > 300);
    }
}

/* The frame of the message of 400,000 bytes that begins at or behind `offset`. */
static size_t frame_of(const uint8_t *bytes, uint32_t offset) {
    for (size_t at = 0;; at += UVCC_FRAME_HEADER_BYTES + uvcci_frame_payload_len(bytes + at)) {
        uvcc_frame_header h;
        assert_int_equal(uvcc_frame_decode_header(bytes + at, &h, NULL), 0);
        if (h.msg_len == 400000 && h.offset >= offset)
            return at;
    }
}

/* Of frames that are opened side by side the first whose tag is wrong ends the stream: those before
 * it are there, and of it and those behind it nothing stays in memory. */
static void forged_are_wiped(void **state) {
    (void)state;
    for (uint8_t suite = 1; suite < 3; suite++) {
        sendings all;
        size_t items, len;
        uint8_t *to;
        record(stream, &all, suite, false, &items);
        const size_t second = frame_of(stream, 1), bad = frame_of(stream, 100000);
        const size_t body = uvcci_frame_payload_len(stream + bad);
        uvcc_frame_header h;
        assert_int_equal(uvcc_frame_decode_header(stream + bad, &h, NULL), 0);
        stream[bad + UVCC_FRAME_HEADER_BYTES + body - 1] ^= 1;
        uvcci_frame_put_crc(
            stream + bad,
            uvcc_frame_crc(stream + bad, stream + bad + UVCC_FRAME_HEADER_BYTES, body));
        fix f;
        sliced s;
        begin(&f, ME, suite, true);
        /* Where the second one's piece goes, as if it were read there; then its stream ends. */
        assert_int_equal(uvcc_link_feed(f.l, stream, second + UVCC_FRAME_HEADER_BYTES, f.now), 0);
        assert_int_equal(uvcc_link_rx_buffer(f.l, &to, &len), 1);
        uvcc_frame_header two;
        assert_int_equal(uvcc_frame_decode_header(stream + second, &two, NULL), 0);
        uint8_t *data = to - two.offset;
        uvcc_link_stream_closed(f.l, f.now);
        uvcc_link_stream_opened(f.l, f.now);
        memset(data + two.offset, 0xA5, 400000 - two.offset);
        slice(&s, stream + second, all.bytes - second, NULL);
        const size_t before = f.side.items;
        assert_int_equal(uvcc_link_feed_slices(f.l, s.s, s.count, f.now), UVCC_ERR_STREAM_BROKEN);
        assert_memory_equal(data, content, h.offset);
        for (size_t i = 0; i < uvcci_frame_piece(&h); i++)
            assert_int_equal(data[h.offset + i], 0);
        if (is_shared(suite)) {
            assert_true(f.side.items > before + 3);
            for (size_t i = h.offset; i < 400000; i++)
                assert_true(data[i] == 0 || data[i] == 0xA5);
        }
        end(&f);
    }
}

/* Frames that do not follow each other in one message are opened one after the other: none is
 * trusted to say where another's bytes go. */
static void only_neighbours(void **state) {
    (void)state;
    sendings all;
    size_t items;
    record(stream, &all, 1, false, &items);
    const size_t second = frame_of(stream, 1);
    const size_t n = UVCC_FRAME_HEADER_BYTES + uvcci_frame_payload_len(stream + second);
    fix f;
    sliced s;
    static uint8_t twice[BYTES];
    begin(&f, ME, 1, true);
    assert_int_equal(uvcc_link_feed(f.l, stream, second, f.now), 0);
    memcpy(twice, stream + second, n);
    memcpy(twice + n, stream + second, n);
    slice(&s, twice, 2 * n, NULL);
    assert_int_equal(uvcc_link_feed_slices(f.l, s.s, s.count, f.now), 0);
    assert_int_equal(f.side.items, 0);
    slice(&s, stream + second, all.bytes - second, NULL);
    assert_int_equal(uvcc_link_feed_slices(f.l, s.s, s.count, f.now), 0);
    uint32_t cnt;
    (void)delivered(&f, &cnt);
    assert_int_equal(cnt, MESSAGES);
    end(&f);
}

static void refused(void **state) {
    (void)state;
    fix f;
    begin(&f, ME, 1, true);
    assert_int_equal(uvcc_link_feed_slices(NULL, NULL, 0, 0), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_link_feed_slices(f.l, NULL, 1, f.now), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_link_feed_slices(f.l, NULL, 0, f.now), 0);
    const uvcc_slice nowhere[2] = {{.data = stream, .len = 1}, {.data = NULL, .len = 1}};
    uvcc_link_stats before, after;
    uvcc_link_get_stats(f.l, &before);
    assert_int_equal(uvcc_link_feed_slices(f.l, nowhere, 2, f.now), UVCC_ERR_USAGE);
    uvcc_link_get_stats(f.l, &after);
    assert_int_equal(after.bytes_rx, before.bytes_rx);
    end(&f);
}

static uvcc_link_msg *filled(fix *f, uint32_t len) {
    uvcc_link_msg *m;
    assert_int_equal(uvcc_link_msg_new(f->l, UVCC_FRAME_KEYS_BATCH, len, &m), 0);
    memcpy(uvcc_link_msg_data(m), content, len);
    return m;
}

/* A message that went out sealed comes back as memory that needs no wiping. Nothing else does: one
 * that was dropped, one that waits, one that came, and none of a link without seals. */
static void sealed_memory_is_told(void **state) {
    (void)state;
    static const uint32_t ids[UVCC_MSG_MAX_CHUNKS] = {1};
    for (uint8_t suite = 0; suite < 3; suite++) {
        fix peer, me;
        sendings all;
        uvcc_link_rx rx;
        sealed_blocks = 0;
        a_link(&peer, PEER, suite, false);
        a_link(&me, ME, suite, false);
        sent(&me, stream, &all);
        assert_int_equal(uvcc_link_feed(peer.l, stream, all.bytes, peer.now), 0);
        assert_int_equal(uvcc_link_send(peer.l, filled(&peer, 70000), STEP, 1, ids, 0, peer.now),
                         0);
        sent(&peer, stream, &all);
        assert_int_equal(uvcc_link_feed(me.l, stream, all.bytes, me.now), 0);
        assert_int_equal(uvcc_link_poll_message(me.l, &rx), 1);
        assert_memory_equal(rx.data, content, 70000);
        assert_int_equal(uvcc_link_accept(me.l, rx.token, me.now), 0);
        assert_int_equal(uvcc_link_release(me.l, rx.token, me.now), 0);
        me.now += 1000 * MS;
        sent(&me, stream, &all);
        assert_int_equal(uvcc_link_feed(peer.l, stream, all.bytes, peer.now), 0);
        assert_true(uvcc_link_drained(peer.l));
        uvcc_link_msg_drop(peer.l, filled(&peer, 20000));
        assert_int_equal(uvcc_link_send(peer.l, filled(&peer, 10000), STEP, 2, ids, 0, peer.now),
                         0);
        end(&peer);
        end(&me);
        assert_int_equal(sealed_blocks, suite != 0);
    }
}

int main(void) {
    for (size_t i = 0; i < sizeof content; i++)
        content[i] = (uint8_t)(i * 7 + i / 251);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sealed_alike),
        cmocka_unit_test(opened_alike),
        cmocka_unit_test(wrong_alike),
        cmocka_unit_test(forged_are_wiped),
        cmocka_unit_test(sealed_memory_is_told),
        cmocka_unit_test(only_neighbours),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
