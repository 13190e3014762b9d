/* SPDX-License-Identifier: Apache-2.0 */
/* What of a link goes out first when there is more than a packet, or a peer that says nothing; and
 * when a frame counts as lost. */
#include "link_sim.h"

#include "proto/bytes.h"
#include "proto/link_state.h"

enum { ME = 0, PEER = 2, RUN = 3, STEP = 5 };
enum { OLD_ONLINE = 1, OLD_KEYS, NEW_ONLINE, NEW_KEYS };

typedef struct fix {
    uvcc_link *l;
    test_alloc mem;
    uint64_t seed, now;
} fix;

static void begin_on(fix *f, bool datagram) {
    *f = (fix){.seed = 9, .now = 50 * SIM_MS};
    uvcc_link_config cfg;
    uvcc_link_config_default(&cfg);
    cfg.alloc = test_allocator(&f->mem);
    cfg.random = test_random(&f->seed);
    cfg.me = ME;
    cfg.peer = PEER;
    cfg.datagram = datagram;
    cfg.sid_tag = 1;
    assert_int_equal(uvcc_link_new(&f->l, &cfg), 0);
    assert_int_equal(uvcc_link_set_run(f->l, RUN), 0);
    assert_int_equal(uvcc_link_set_step(f->l, STEP), 0);
    assert_int_equal(uvcc_link_start(f->l, f->now), 0);
    if (!datagram)
        uvcc_link_stream_opened(f->l, f->now);
    for (unsigned c = 0; c < 2; c++)
        f->l->tx.cls[c].credit = 1u << 20;
}

static void begin(fix *f) {
    begin_on(f, true);
}

static void end(fix *f) {
    uvcc_link_free(f->l);
    assert_int_equal(f->mem.live_blocks, 0);
}

static void queue(fix *f, uint8_t kind, uint32_t op_id) {
    uvcc_link_msg *m;
    const uint32_t id = op_id;
    assert_int_equal(uvcc_link_msg_new(f->l, kind, 1000, &m), 0); /* a packet each */
    memset(uvcc_link_msg_data(m), 0, 1000);
    assert_int_equal(uvcc_link_send(f->l, m, STEP, op_id, &id, 0, f->now), 0);
}

/* Everything that goes out now; the first of them with data, by its op. 0: none. */
static uint32_t first_sent(fix *f) {
    uvcc_transmit t;
    uint32_t first = 0;
    while (uvcc_link_poll_transmit(f->l, &t, f->now) == 1) {
        static uint8_t bytes[1 << 20];
        size_t len = 0;
        for (uint32_t i = 0; i < t.slice_count; i++) {
            assert_true(len + t.slices[i].len <= sizeof bytes);
            memcpy(bytes + len, t.slices[i].data, t.slices[i].len);
            len += t.slices[i].len;
        }
        for (size_t at = 0; at < len;) {
            uvcc_frame_header h;
            const uint8_t *payload;
            const ptrdiff_t k = uvcc_frame_decode(bytes + at, len - at, &h, &payload, NULL);
            assert_true(k > 0);
            if (first == 0 && uvcc_frame_kind_class(h.kind) != UVCC_CLASS_CONTROL)
                first = h.op_id;
            at += (size_t)k;
        }
        assert_int_equal(uvcc_link_transmit_done(f->l, t.id, t.total, f->now), 0);
    }
    return first;
}

/* Online before keys, lost frames before new ones. After many timeouts with nothing heard each of
 * the four has its turn: what the peer waits for may be any of them. */
static void turns(void **state) {
    (void)state;
    bool later[5] = {0};
    for (unsigned timeouts = 1; timeouts < 40; timeouts++) {
        fix f;
        begin(&f);
        queue(&f, UVCC_FRAME_KEYS_BATCH, OLD_KEYS);
        queue(&f, UVCC_FRAME_OPEN_BATCH, OLD_ONLINE);
        assert_int_equal(first_sent(&f), OLD_ONLINE);
        while (f.l->tx.path.timeouts < timeouts) {
            assert_true(uvcc_link_next_deadline(f.l) != UVCC_NEVER);
            f.now = uvcc_link_next_deadline(f.l);
            uvcc_link_on_timer(f.l, f.now);
            if (f.l->tx.path.timeouts < timeouts)
                (void)first_sent(&f);
        }
        queue(&f, UVCC_FRAME_KEYS_BATCH, NEW_KEYS);
        queue(&f, UVCC_FRAME_OPEN_BATCH, NEW_ONLINE);
        const uint32_t first = first_sent(&f);
        static const uint32_t turn[4] = {OLD_ONLINE, NEW_ONLINE, OLD_KEYS, NEW_KEYS};
        if (timeouts < 16)
            assert_int_equal(first, OLD_ONLINE);
        else
            assert_int_equal(first, turn[timeouts % 4]);
        later[first] = true;
        end(&f);
    }
    assert_true(later[OLD_KEYS] && later[NEW_ONLINE] && later[NEW_KEYS]);
}

/* ---- when a frame is late ---- */

/* All up to `cum`, and first..last; first 0: no more. */
static void feed_ack(fix *f, uint64_t counter, uint64_t cum, uint64_t first, uint64_t last) {
    const uint64_t base = (uint64_t)RUN << 40;
    const uint32_t len = first != 0 ? 62 : 46;
    uint8_t bytes[64 + 62] = {0}, *p = bytes + 64;
    uvcc_frame_header h = {.kind = UVCC_FRAME_ACK,
                           .src = PEER,
                           .dst = ME,
                           .sid_tag = 1,
                           .step = STEP,
                           .chunk_cnt = 1,
                           .msg_len = len,
                           .payload_len = len,
                           .ack = base + cum};
    uvcci_st64(p, counter);
    uvcci_st64(p + 8, base + cum);
    uvcci_st64(p + 16, 1u << 20);
    uvcci_st64(p + 24, 1u << 20);
    uvcci_st16(p + 44, first != 0);
    uvcci_st64(p + 46, base + first);
    uvcci_st64(p + 54, base + last);
    uvcc_frame_encode_header(&h, bytes);
    uvcci_st32(bytes + 60, uvcc_frame_crc(bytes, p, len));
    assert_int_equal(uvcc_link_feed(f->l, bytes, 64 + len, f->now), 0);
}

/* A frame is lost when one that was sent after it is there, and a round trip and so many eighths
 * of one are over since it was sent: not a nanosecond earlier. */
static void late_frames(void **state) {
    (void)state;
    for (unsigned eighths = 2; eighths <= 8; eighths += 3) {
        fix f;
        begin(&f);
        f.l->tx.reorder.eighths = (uint8_t)eighths;
        const uint64_t sent = f.now, rtt = 80 * SIM_MS;
        for (uint32_t k = 1; k <= 3; k++)
            queue(&f, UVCC_FRAME_OPEN_BATCH, k);
        assert_int_equal(first_sent(&f), 1);
        assert_int_equal(f.l->tx.next - ((uint64_t)RUN << 40), 4); /* all three went out */
        f.now = sent + rtt;
        feed_ack(&f, 1, 0, 3, 3);
        f.now = sent + rtt + rtt / 8 * eighths;
        assert_int_equal(f.l->tx.loss_at, f.now);
        f.now--;
        uvcc_link_on_timer(f.l, f.now);
        assert_int_equal(f.l->tx.cls[UVCC_CLASS_ONLINE].lost.first, 0);
        f.now++;
        uvcc_link_on_timer(f.l, f.now);
        assert_int_not_equal(f.l->tx.cls[UVCC_CLASS_ONLINE].lost.first, 0);
        assert_int_equal(first_sent(&f), 1);
        end(&f);
    }
}

/* ---- what may be in flight ---- */

/* An owner that says how much it has at a time gets no window of 65,536 seqs: a peer that says that
 * all but the first frame came ends what goes out, until that one came too. */
static void window_goes_with_the_owner(void **state) {
    (void)state;
    enum { MESSAGES = 900 };
    fix f;
    begin_on(&f, false);
    f.l->cfg.tx_online_bytes = f.l->cfg.tx_keys_bytes = 1u << 20;
    uvcci_link_expect(f.l, 100);
    f.l->tx.cls[UVCC_CLASS_ONLINE].credit = 1u << 30;
    const uint64_t base = (uint64_t)RUN << 40;
    uint32_t op = 0;
    for (uint64_t counter = 1; op < MESSAGES; counter++) {
        for (uint32_t i = 0; i < 100; i++)
            queue(&f, UVCC_FRAME_OPEN_BATCH, ++op);
        (void)first_sent(&f);
        feed_ack(&f, counter, 0, 2, f.l->tx.next - 1 - base);
    }
    assert_true(f.l->tx.window < MESSAGES);
    assert_int_equal(f.l->tx.next - 1 - base, f.l->tx.window);
    assert_true(f.mem.peak_bytes <= uvcc_link_memory_bound(f.l));
    feed_ack(&f, MESSAGES, f.l->tx.window, 0, 0);
    queue(&f, UVCC_FRAME_OPEN_BATCH, ++op);
    assert_int_not_equal(first_sent(&f), 0);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns),
        cmocka_unit_test(late_frames),
        cmocka_unit_test(window_goes_with_the_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
