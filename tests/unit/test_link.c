/* SPDX-License-Identifier: Apache-2.0 */
/* One link against frames made by hand: what it says and takes, what it refuses, and what it costs.
 * Lossy and long runs of two links stand in test_link_sim.c. */
#include "link_sim.h"

#include "proto/link_session.h"

#include "proto/bytes.h"
#include "proto/ids.h"

#define SID  UINT64_C(0x1122334455667788)
#define ME   0
#define PEER 2

typedef struct fix {
    uvcc_link *l;
    test_alloc mem;
    uint64_t seed, now;
    uint32_t run, step, first; /* first: the one whose keys come of the PRK */
    uint8_t suite, prk[32];
    uint64_t ack_counter;
} fix;

typedef void (*config_change)(uvcc_link_config *cfg);

/* Its run began one step before the present one. */
static void keyed(fix *f) {
    assert_int_equal(uvcc_link_set_step(f->l, f->step - 1), 0);
    if (f->suite != 0)
        assert_int_equal(uvcc_link_set_keys(f->l, f->suite, f->prk), 0);
    assert_int_equal(uvcc_link_set_step(f->l, f->step), 0);
    f->first = f->step - 1;
}

static void data_key(const fix *f, uint32_t step, uint64_t seq, uint8_t src, uint8_t dst,
                     uint8_t key[32]) {
    uint8_t chain[32];
    uvcci_derive_chain(f->prk, f->first, f->run, chain);
    for (uint64_t at = f->first; at < step; at++)
        uvcci_ratchet(chain, at + 1, f->run);
    uvcci_derive_frame_key(chain, step, f->run, src, dst, (uint32_t)(seq >> 18 & 0x3fffff), key);
}

static void begin(fix *f, bool datagram, uint8_t suite, config_change change) {
    memset(f, 0, sizeof *f);
    f->seed = 9;
    f->now = 50 * SIM_MS;
    f->run = 3;
    f->step = 5;
    f->suite = suite;
    memset(f->prk, 0x42, sizeof f->prk);
    uvcc_link_config cfg;
    uvcc_link_config_default(&cfg);
    cfg.alloc = test_allocator(&f->mem);
    cfg.random = test_random(&f->seed);
    cfg.me = ME;
    cfg.peer = PEER;
    cfg.datagram = datagram;
    cfg.sid_tag = SID;
    if (change != NULL)
        change(&cfg);
    assert_int_equal(uvcc_link_new(&f->l, &cfg), 0);
    assert_int_equal(uvcc_link_set_run(f->l, f->run), 0);
    keyed(f);
    assert_int_equal(uvcc_link_start(f->l, f->now), 0);
    uvcc_link_stream_opened(f->l, f->now);
}

static void end(fix *f) {
    uvcc_link_free(f->l);
    assert_int_equal(f->mem.live_bytes, 0);
}

static uvcc_link_stats stats(const fix *f) {
    uvcc_link_stats s;
    uvcc_link_get_stats(f->l, &s);
    assert_int_equal(s.memory_bytes, f->mem.live_bytes);
    assert_true(f->mem.peak_bytes <= uvcc_link_memory_bound(f->l));
    return s;
}

/* ---- what the link sends ---- */

typedef struct frame {
    uvcc_frame_header h;
    uint8_t bytes[1300]; /* header and payload, or their beginning */
} frame;

/* Takes everything that the link sends now; keeps the first `most` frames. Returns their number. */
static size_t sent(fix *f, frame *out, size_t most) {
    static uint8_t buf[2 << 20];
    size_t n = 0;
    uvcc_transmit t;
    while (uvcc_link_poll_transmit(f->l, &t, f->now) == 1) {
        size_t len = 0;
        assert_true(t.slice_count != 0 && t.slice_count <= UVCC_TRANSMIT_SLICES_MAX);
        for (uint32_t i = 0; i < t.slice_count; i++) {
            assert_true(len + t.slices[i].len <= sizeof buf);
            memcpy(buf + len, t.slices[i].data, t.slices[i].len);
            len += t.slices[i].len;
        }
        assert_int_equal(len, t.total);
        for (size_t at = 0; at < len;) {
            frame one;
            const uint8_t *payload;
            ptrdiff_t k = uvcc_frame_decode(buf + at, len - at, &one.h, &payload, NULL);
            assert_true(k > 0);
            memcpy(one.bytes, buf + at,
                   (size_t)k < sizeof one.bytes ? (size_t)k : sizeof one.bytes);
            if (n < most)
                out[n] = one;
            n++;
            at += (size_t)k;
        }
        assert_int_equal(uvcc_link_transmit_done(f->l, t.id, t.total, f->now), 0);
    }
    return n;
}

static size_t sent_of_kind(fix *f, uint8_t kind, frame *last) {
    frame all[64];
    size_t n = sent(f, all, 64), found = 0;
    assert_true(n <= 64);
    for (size_t i = 0; i < n; i++)
        if (all[i].h.kind == kind) {
            found++;
            if (last != NULL)
                *last = all[i];
        }
    return found;
}

static uint64_t seq(const fix *f, uint64_t n) {
    return ((uint64_t)f->run << 40) + n;
}

static uvcc_link_msg *message(fix *f, uint8_t kind, uint32_t len, uint32_t op_id, uint64_t order) {
    uvcc_link_msg *m;
    assert_int_equal(uvcc_link_msg_new(f->l, kind, len, &m), 0);
    sim_fill(uvcc_link_msg_data(m), len, ME, op_id);
    uint32_t ids[UVCC_MSG_MAX_CHUNKS];
    for (uint32_t c = 0; c < UVCC_MSG_MAX_CHUNKS; c++)
        ids[c] = sim_msg_id(op_id, c);
    assert_int_equal(uvcc_link_send(f->l, m, f->step, op_id, ids, order, f->now), 0);
    return m;
}

/* ---- what the peer sends ---- */

static uvcc_frame_header data_header(const fix *f, uint64_t n, uint32_t op_id, uint32_t msg_len,
                                     uint32_t offset, uint32_t piece) {
    return (uvcc_frame_header){
        .kind = UVCC_FRAME_OPEN_BATCH,
        .src = PEER,
        .dst = ME,
        .flags = f->suite != 0 ? UVCC_FRAME_SEALED : 0,
        .sid_tag = SID,
        .seq = seq(f, n),
        .step = f->step,
        .op_id = op_id,
        .msg_id = sim_msg_id(op_id, offset >> 20),
        .chunk_idx = (uint16_t)(offset >> 20),
        .chunk_cnt = (uint16_t)(msg_len == 0 ? 1 : (msg_len - 1) / UVCC_CHUNK_BYTES + 1),
        .msg_len = msg_len,
        .offset = offset,
        .payload_len = piece + (f->suite != 0 ? UVCC_FRAME_SEAL_BYTES : 0),
        .ack = f->suite != 0 ? 0 : seq(f, 0),
    };
}

static uvcc_frame_header control_header(const fix *f, uint8_t kind, uint32_t len) {
    return (uvcc_frame_header){
        .kind = kind,
        .src = PEER,
        .dst = ME,
        .flags = f->suite != 0 ? UVCC_FRAME_SEALED : 0,
        .sid_tag = SID,
        .step = f->step,
        .chunk_cnt = 1,
        .msg_len = len,
        .payload_len = len + (f->suite != 0 ? UVCC_FRAME_CTL_SEAL_BYTES : 0),
        .ack = f->suite != 0 ? 0 : seq(f, 0),
    };
}

/* Seals (if the header says so), checksums, returns the frame's length. */
static size_t make(const fix *f, const uvcc_frame_header *h, const uint8_t *piece, uint8_t *out) {
    uint8_t *p = out + UVCC_FRAME_HEADER_BYTES;
    uint8_t key[32];
    uvcc_frame_encode_header(h, out);
    bool control = uvcc_frame_kind_class(h->kind) == UVCC_CLASS_CONTROL;
    if ((h->flags & UVCC_FRAME_SEALED) == 0) {
        memcpy(p, piece, h->payload_len);
    } else if (control) {
        memset(p, 0x77, 24);
        uvcci_derive_ctl_key(f->prk, f->run, PEER, ME, key);
        assert_int_equal(uvcci_xaead_seal(key, p, out, 52, piece, h->payload_len - 40, p + 24), 0);
    } else {
        uvcci_aead a;
        size_t n = h->payload_len - UVCC_FRAME_SEAL_BYTES;
        data_key(f, h->step, h->seq, PEER, ME, key);
        assert_int_equal(uvcci_aead_init(&a, f->suite, key), 0);
        assert_int_equal(uvcci_aead_seal(&a, h->seq, out, 52, piece, n, p, p + n), 0);
        uvcci_aead_free(&a);
    }
    uvcci_st32(out + 60, uvcc_frame_crc(out, p, h->payload_len));
    return UVCC_FRAME_HEADER_BYTES + h->payload_len;
}

static uint8_t wire[(1 << 20) + 256], content[UVCC_MSG_MAX_BYTES];

static int feed_frame(fix *f, const uvcc_frame_header *h, const uint8_t *piece) {
    size_t n = make(f, h, piece, wire);
    uint8_t *copy = malloc(n);
    memcpy(copy, wire, n);
    int err = uvcc_link_feed(f->l, copy, n, f->now);
    free(copy);
    return err;
}

/* A piece of the message whose bytes are `content`. */
static int feed_piece(fix *f, uint64_t n, uint32_t op_id, uint32_t msg_len, uint32_t offset,
                      uint32_t piece) {
    uvcc_frame_header h = data_header(f, n, op_id, msg_len, offset, piece);
    return feed_frame(f, &h, content + offset);
}

typedef struct ack {
    uint64_t cum, credit[2], range[40][2];
    uint32_t ping_number, repeats, range_cnt;
} ack;

static int feed_ack_counter(fix *f, const ack *a, uint64_t counter) {
    uint8_t p[46 + 16 * 40] = {0};
    uvcci_st64(p, counter);
    uvcci_st64(p + 8, a->cum);
    uvcci_st64(p + 16, a->credit[0]);
    uvcci_st64(p + 24, a->credit[1]);
    uvcci_st32(p + 32, a->ping_number);
    uvcci_st32(p + 36, a->repeats);
    uvcci_st16(p + 44, (uint16_t)a->range_cnt);
    for (uint32_t i = 0; i < a->range_cnt; i++) {
        uvcci_st64(p + 46 + 16 * i, a->range[i][0]);
        uvcci_st64(p + 54 + 16 * i, a->range[i][1]);
    }
    uvcc_frame_header h = control_header(f, UVCC_FRAME_ACK, 46 + 16 * a->range_cnt);
    return feed_frame(f, &h, p);
}
static int feed_ack(fix *f, const ack *a) {
    return feed_ack_counter(f, a, ++f->ack_counter);
}

static void grant(fix *f) {
    ack a = {.cum = seq(f, 0), .credit = {1u << 30, 1u << 30}};
    assert_int_equal(feed_ack(f, &a), 0);
}

/* Takes one message, checks it against `content`, accepts and releases it. */
static void expect_message(fix *f, uint32_t op_id, uint32_t len) {
    uvcc_link_rx rx;
    assert_int_equal(uvcc_link_poll_message(f->l, &rx), 1);
    assert_int_equal(rx.op_id, op_id);
    assert_int_equal(rx.len, len);
    assert_memory_equal(rx.data, content, len);
    for (uint32_t c = 0; c < rx.chunk_cnt; c++)
        assert_int_equal(rx.msg_ids[c], sim_msg_id(op_id, c));
    assert_int_equal(uvcc_link_accept(f->l, rx.token, f->now), 0);
    assert_int_equal(uvcc_link_release(f->l, rx.token, f->now), 0);
}

static void expect_none(fix *f) {
    uvcc_link_rx rx;
    assert_int_equal(uvcc_link_poll_message(f->l, &rx), 0);
}

static void fill_content(void) {
    uint64_t s = 4711;
    test_rand_bytes(&s, content, 2u << 20);
}

/* ---- configuration, states, misuse ---- */

static void configuration(void **state) {
    (void)state;
    test_alloc mem = {0};
    uint64_t seed = 1;
    uvcc_link_config good, bad;
    uvcc_link_config_default(&good);
    good.alloc = test_allocator(&mem);
    good.random = test_random(&seed);
    good.peer = 1;
    uvcc_link *l;
    assert_int_equal(uvcc_link_new(NULL, &good), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_link_new(&l, NULL), UVCC_ERR_USAGE);
#define BAD(change)                                                                                \
    bad = good;                                                                                    \
    bad.change;                                                                                    \
    assert_int_equal(uvcc_link_new(&l, &bad), UVCC_ERR_CONFIG)
    BAD(size = 1);
    BAD(alloc.alloc = NULL);
    BAD(random.fill = NULL);
    BAD(me = 3);
    BAD(peer = 0);
    BAD(frame_bytes = 100);
    BAD(frame_bytes = (1u << 20) + 81);
    BAD(datagram_bytes = 100);
    BAD(datagram_bytes = 65508);
    BAD(tx_keys_bytes = UINT64_MAX);
    BAD(rto_min_ns = UINT64_MAX);
    BAD(rto_initial_ns = UINT64_MAX);
    BAD(suspicious_max = UINT32_MAX);
    BAD(suspicious_window_ns = UINT64_MAX);
#undef BAD
    assert_int_equal(mem.calls, 0);
    mem.fail_at = 1;
    assert_int_equal(uvcc_link_new(&l, &good), UVCC_ERR_NOMEM);

    uint8_t prk[32] = {0};
    uvcc_link_msg *m;
    uint32_t id = 1;
    assert_int_equal(uvcc_link_new(&l, &good), 0);
    assert_true(mem.live_bytes <= 1536);
    assert_int_equal(uvcc_link_start(l, 0), UVCC_ERR_STATE);
    assert_int_equal(uvcc_link_set_keys(l, 1, prk), UVCC_ERR_STATE);
    assert_int_equal(uvcc_link_set_run(l, 1u << 24), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_link_msg_new(l, UVCC_FRAME_STEP, 4, &m), 0);
    assert_int_equal(uvcc_link_send(l, m, 0, 0, &id, 0, 0), UVCC_ERR_STATE);
    assert_int_equal(uvcc_link_set_run(l, (1u << 24) - 1), 0);
    assert_int_equal(uvcc_link_set_run(l, 1), UVCC_ERR_STATE);
    assert_int_equal(uvcc_link_set_keys(l, 3, prk), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_link_send_hello(l, prk, 32, true), UVCC_ERR_STATE);
    assert_int_equal(uvcc_link_send_hello(l, prk, 0, false), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_link_set_keys(l, 2, prk), 0);
    assert_int_equal(uvcc_link_set_keys(l, 2, prk), UVCC_ERR_STATE);
    assert_int_equal(uvcc_link_set_step(l, 7), 0);
    assert_int_equal(uvcc_link_set_step(l, 6), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_link_start(l, 0), 0);
    assert_int_equal(uvcc_link_start(l, 0), UVCC_ERR_STATE);
    assert_int_equal(uvcc_link_send(l, m, 0, 9, &id, 0, 0), UVCC_ERR_USAGE); /* STEP has no op */
    assert_int_equal(uvcc_link_send(l, m, 0, 0, &id, 0, 0), 0);
    assert_int_equal(uvcc_link_msg_new(l, UVCC_FRAME_ACK, 4, &m), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_link_msg_new(l, 0x70, 4, &m), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_link_msg_new(l, UVCC_FRAME_OPEN_BATCH, UVCC_MSG_MAX_BYTES + 1, &m),
                     UVCC_ERR_LIMIT);
    assert_false(uvcc_link_writable(l, UVCC_FRAME_PING, 1));
    assert_true(
        uvcc_link_writable(l, UVCC_FRAME_KEYS_BATCH, UVCC_MSG_MAX_BYTES + 1)); /* of several */
    assert_false(uvcc_link_writable(l, UVCC_FRAME_KEYS_BATCH, UINT32_MAX));
    assert_int_equal(uvcc_link_accept(l, 5, 0), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_link_release(l, 5, 0), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_link_transmit_done(l, 0, 0, 0), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_link_msg_new(l, UVCC_FRAME_STEP, 1300, &m), 0);
    assert_int_equal(uvcc_link_send(l, m, 0, 0, &id, 0, 0), UVCC_ERR_USAGE); /* one datagram */
    uvcc_link_free(l); /* with messages queued and not sent */
    assert_int_equal(mem.live_bytes, 0);
    uvcc_link_free(NULL);
}

/* ---- sending ---- */

static void frames_as_specified(void **state) {
    (void)state;
    fix f;
    begin(&f, false, 0, NULL);
    frame out[64];
    assert_int_equal(sent(&f, out, 64), 1); /* the first ACK, with credit */
    assert_int_equal(out[0].h.kind, UVCC_FRAME_ACK);
    assert_int_equal(out[0].h.payload_len, 46);
    assert_int_equal(out[0].h.step, f.step);
    const uint8_t *p = out[0].bytes + 64;
    assert_int_equal(uvcci_ld64(p), 1);
    assert_int_equal(uvcci_ld64(p + 8), seq(&f, 0));
    assert_int_equal(uvcci_ld64(p + 16), 32u << 20);
    assert_int_equal(uvcci_ld64(p + 24), 32u << 20);

    uint32_t len = (1u << 20) + 5;
    message(&f, UVCC_FRAME_LIFT_BATCH, len, 77, 0);
    message(&f, UVCC_FRAME_KEYS_BATCH, 0, 78, 0);
    assert_int_equal(sent(&f, out, 64), 0); /* no credit yet */
    grant(&f);
    size_t n = sent(&f, out, 64);
    uint32_t at = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        const uvcc_frame_header *h = &out[i].h;
        assert_int_equal(h->kind, UVCC_FRAME_LIFT_BATCH);
        assert_int_equal(h->seq, seq(&f, i + 1));
        assert_int_equal(h->offset, at);
        assert_int_equal(h->msg_len, len);
        assert_int_equal(h->msg_id, sim_msg_id(77, at >> 20));
        assert_int_equal(h->ack, seq(&f, 0));
        assert_true(h->payload_len <= (256u << 10) + 16);
        at += h->payload_len;
    }
    assert_int_equal(at, len);
    assert_int_equal(out[n - 1].h.kind, UVCC_FRAME_KEYS_BATCH);
    assert_int_equal(out[n - 1].h.payload_len, 0);
    assert_false(uvcc_link_drained(f.l));
    ack a = {.cum = seq(&f, n), .credit = {1u << 30, 1u << 30}};
    assert_int_equal(feed_ack(&f, &a), 0);
    assert_true(uvcc_link_drained(f.l));
    end(&f);
}

static void order_within_a_class(void **state) {
    (void)state;
    fix f;
    begin(&f, false, 0, NULL);
    static frame out[600];
    sent(&f, out, 1);
    uint64_t rng = 5, orders[500];
    for (uint32_t i = 0; i < 500; i++) {
        orders[i] = test_rand(&rng) % 40;
        message(&f, UVCC_FRAME_OPEN_BATCH, 8, i + 1, orders[i]);
    }
    grant(&f);
    assert_int_equal(sent(&f, out, 600), 500);
    for (size_t i = 1; i < 500; i++) {
        uint32_t a = out[i - 1].h.op_id, b = out[i].h.op_id;
        assert_true(orders[a - 1] < orders[b - 1] || (orders[a - 1] == orders[b - 1] && a < b));
    }
    end(&f);
}

static void small_frames(uvcc_link_config *c) {
    c->frame_bytes = 1000;
}

/* A short online message waits for the transmit under way at most, however much is queued. */
static void urgent_overtakes(void **state) {
    (void)state;
    for (int datagram = 0; datagram < 2; datagram++)
        for (int online = 0; online < 2; online++) {
            fix f;
            begin(&f, datagram != 0, 0, small_frames);
            static frame out[4];
            sent(&f, out, 1);
            grant(&f);
            uint8_t kind = online ? UVCC_FRAME_OPEN_BATCH : UVCC_FRAME_KEYS_BATCH;
            message(&f, kind, 1u << 20, 1, 10);
            message(&f, kind, 1u << 20, 2, 11);
            uvcc_transmit t;
            assert_int_equal(uvcc_link_poll_transmit(f.l, &t, f.now), 1);
            assert_true(t.total <= 300u << 10);
            message(&f, UVCC_FRAME_LIFT_BATCH, 64, 3, 5);
            assert_int_equal(uvcc_link_transmit_done(f.l, t.id, t.total, f.now), 0);
            assert_true(sent(&f, out, 4) > 2);
            assert_int_equal(out[0].h.op_id, 3);
            assert_int_equal(out[1].h.op_id, 1); /* and what was begun goes on */
            end(&f);
        }
}

static void credit_is_for_whole_messages(void **state) {
    (void)state;
    fix f;
    begin(&f, false, 0, NULL);
    frame last;
    sent_of_kind(&f, 0, NULL);
    message(&f, UVCC_FRAME_OPEN_BATCH, 1000, 1, 0);
    message(&f, UVCC_FRAME_KEYS_BATCH, 100, 2, 0);
    ack a = {.cum = seq(&f, 0), .credit = {1063, 164}};
    assert_int_equal(feed_ack(&f, &a), 0);
    assert_int_equal(sent_of_kind(&f, UVCC_FRAME_KEYS_BATCH, &last), 1);
    a.credit[0] = 1064;
    a.credit[1] = 0; /* never falls */
    assert_int_equal(feed_ack(&f, &a), 0);
    assert_int_equal(sent_of_kind(&f, UVCC_FRAME_OPEN_BATCH, &last), 1);
    /* Blocked: PINGs, further and further apart. */
    message(&f, UVCC_FRAME_OPEN_BATCH, 10, 3, 0);
    uint64_t until = f.now + 20000 * SIM_MS;
    size_t pings = 0;
    assert_int_equal(sent_of_kind(&f, UVCC_FRAME_OPEN_BATCH, NULL), 0);
    while (uvcc_link_next_deadline(f.l) < until) {
        f.now = uvcc_link_next_deadline(f.l);
        uvcc_link_on_timer(f.l, f.now);
        pings += sent_of_kind(&f, UVCC_FRAME_PING, NULL);
    }
    assert_true(pings >= 8 && pings <= 24);
    a.credit[0] = 1u << 20;
    assert_int_equal(feed_ack(&f, &a), 0);
    assert_int_equal(sent_of_kind(&f, UVCC_FRAME_OPEN_BATCH, NULL), 1);
    end(&f);
}

static void narrow(uvcc_link_config *c) {
    c->tx_online_bytes = 100000;
    c->rx_online_bytes = 100000;
    c->rx_keys_bytes = 50000;
    c->rto_max_ns = 400 * SIM_MS;
}

/* A peer that grants much and never acknowledges: bounded memory, AGAIN, bounded traffic. */
static void peer_never_acks(void **state) {
    (void)state;
    for (int datagram = 0; datagram < 2; datagram++) {
        fix f;
        begin(&f, datagram != 0, (uint8_t)(datagram * 2), narrow);
        uvcc_link_msg *m;
        uint32_t sum = 0, k = 0, id = 4;
        grant(&f);
        assert_int_equal(uvcc_link_msg_new(f.l, UVCC_FRAME_OPEN_BATCH, 99937, &m), UVCC_ERR_LIMIT);
        for (;; k++) {
            uint32_t len = k * 37 % 4000;
            int err = uvcc_link_msg_new(f.l, UVCC_FRAME_OPEN_BATCH, len, &m);
            if (err == UVCC_ERR_AGAIN)
                break;
            assert_int_equal(err, 0);
            assert_int_equal(uvcc_link_send(f.l, m, f.step, k + 1, &id, k, f.now), 0);
            sum += len + 64;
            stats(&f);
        }
        assert_true(sum > 95000 && sum <= 100000);
        assert_false(uvcc_link_writable(f.l, UVCC_FRAME_OPEN_BATCH, 4000));
        uint64_t until = f.now + 60000 * SIM_MS;
        while (uvcc_link_next_deadline(f.l) < until) {
            sent(&f, NULL, 0);
            stats(&f);
            f.now = uvcc_link_next_deadline(f.l);
            uvcc_link_on_timer(f.l, f.now);
        }
        uvcc_link_stats s = stats(&f);
        assert_true(s.retransmissions <= (datagram ? 400 : 0)); /* two each 400 ms */
        assert_true(datagram == 0 || s.retransmissions >= 200);
        end(&f);
    }
}

/* ---- receiving ---- */

static void pieces_in_any_order(void **state) {
    (void)state;
    fill_content();
    for (uint8_t suite = 0; suite < 3; suite++) {
        fix f;
        begin(&f, true, suite, NULL);
        sent(&f, NULL, 0);
        uint32_t order[50];
        uint64_t rng = suite + 1, n = 1;
        for (uint32_t round = 0; round < 20; round++) {
            for (uint32_t i = 0; i < 50; i++) {
                uint32_t j = (uint32_t)(test_rand(&rng) % (i + 1));
                order[i] = order[j];
                order[j] = i;
            }
            for (uint32_t i = 0; i < 50; i++) {
                expect_none(&f);
                uint32_t at = order[i] * 100, len = order[i] == 49 ? 3 : 100;
                assert_int_equal(feed_piece(&f, n + order[i], round + 1, 4903, at, len), 0);
                stats(&f);
            }
            n += 50;
            expect_message(&f, round + 1, 4903);
        }
        assert_int_equal(stats(&f).refused, 0);
        frame last;
        f.now += SIM_MS;
        assert_int_equal(sent_of_kind(&f, UVCC_FRAME_ACK, &last), 1);
        if (suite == 0)
            assert_int_equal(uvcci_ld64(last.bytes + 72), seq(&f, 1000));
        end(&f);
    }
}

/* Ranges tell that a frame came, at once; the cumulative ack passes the completing one at
 * acceptance, not before. */
static void ack_after_acceptance(void **state) {
    (void)state;
    fill_content();
    fix f;
    begin(&f, true, 0, NULL);
    sent(&f, NULL, 0);
    frame last;
    assert_int_equal(feed_piece(&f, 2, 1, 300, 100, 200), 0);
    assert_int_equal(feed_piece(&f, 1, 1, 300, 0, 100), 0);
    assert_int_equal(feed_piece(&f, 3, 2, 10, 0, 10), 0);
    f.now += SIM_MS;
    assert_int_equal(sent_of_kind(&f, UVCC_FRAME_ACK, &last), 1);
    assert_int_equal(uvcci_ld64(last.bytes + 72), seq(&f, 0));
    assert_int_equal(uvcci_ld16(last.bytes + 108), 1); /* one range: 1..3 */
    assert_int_equal(uvcci_ld64(last.bytes + 110), seq(&f, 1));
    assert_int_equal(uvcci_ld64(last.bytes + 118), seq(&f, 3));
    /* Again meanwhile: not offered twice, not acknowledged. */
    uvcc_link_rx one, two;
    assert_int_equal(uvcc_link_poll_message(f.l, &one), 1);
    assert_int_equal(feed_piece(&f, 1, 1, 300, 0, 100), 0);
    assert_int_equal(uvcc_link_poll_message(f.l, &two), 1);
    assert_int_equal(two.op_id, 2);
    expect_none(&f);
    assert_int_equal(uvcc_link_accept(f.l, two.token, f.now), 0);
    assert_int_equal(uvcc_link_accept(f.l, two.token, f.now), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_link_release(f.l, one.token, f.now), 0); /* refused */
    assert_int_equal(uvcc_link_accept(f.l, one.token, f.now), UVCC_ERR_USAGE);
    assert_int_equal(feed_piece(&f, 1, 1, 300, 0, 100), 0);
    expect_none(&f);
    f.now += SIM_MS;
    assert_int_equal(sent_of_kind(&f, UVCC_FRAME_ACK, &last), 1);
    assert_int_equal(uvcci_ld64(last.bytes + 72), seq(&f, 0));
    assert_int_equal(uvcci_ld64(last.bytes + 80), (32u << 20) + 364); /* the refused one's credit */
    assert_int_equal(uvcci_ld32(last.bytes + 100), 2);                /* repeats */
    assert_int_equal(uvcci_ld64(last.bytes + 110), seq(&f, 1));
    assert_int_equal(uvcci_ld64(last.bytes + 118), seq(&f, 3));
    assert_int_equal(stats(&f).duplicates, 2);
    end(&f);
}

/* A stream's sender may have far less room than its receiver: it hears of 32 KiB at once, and of
 * less after a while. */
static void acks_of_streams_do_not_wait(void **state) {
    (void)state;
    enum { LEN = 20000 };
    fill_content();
    fix f;
    begin(&f, false, 0, NULL);
    sent(&f, NULL, 0);
    assert_int_equal(feed_piece(&f, 1, 1, LEN, 0, LEN), 0);
    expect_message(&f, 1, LEN);
    assert_int_equal(sent_of_kind(&f, UVCC_FRAME_ACK, NULL), 0);
    assert_int_equal(feed_piece(&f, 2, 2, LEN, 0, LEN), 0);
    expect_message(&f, 2, LEN);
    assert_int_equal(sent_of_kind(&f, UVCC_FRAME_ACK, NULL), 1);
    assert_int_equal(feed_piece(&f, 3, 3, LEN, 0, LEN), 0);
    expect_message(&f, 3, LEN);
    assert_int_equal(sent_of_kind(&f, UVCC_FRAME_ACK, NULL), 0);
    f.now += 2 * SIM_MS;
    assert_int_equal(sent_of_kind(&f, UVCC_FRAME_ACK, NULL), 1);
    end(&f);
}

/* Each frame a thousand times, at once and after its message is gone. */
static void replays(void **state) {
    (void)state;
    fill_content();
    for (uint8_t suite = 0; suite < 3; suite++) {
        fix f;
        begin(&f, true, suite, NULL);
        sent(&f, NULL, 0);
        size_t acks = 0;
        for (uint32_t k = 0; k < 1000; k++) {
            assert_int_equal(feed_piece(&f, 1, 1, 40, 0, 30), 0);
            acks += sent_of_kind(&f, UVCC_FRAME_ACK, NULL);
        }
        assert_true(acks <= 1000 * 140 / (8 * 1232) + 1); /* rate-limited */
        expect_none(&f);
        assert_int_equal(feed_piece(&f, 2, 1, 40, 30, 10), 0);
        expect_message(&f, 1, 40);
        for (uint32_t k = 0; k < 1000; k++) {
            assert_int_equal(feed_piece(&f, 1, 1, 40, 0, 30), 0);
            assert_int_equal(feed_piece(&f, 2, 1, 40, 30, 10), 0);
        }
        expect_none(&f);
        assert_int_equal(stats(&f).duplicates, 2999);
        assert_int_equal(stats(&f).refused, 0);
        end(&f);
    }
}

/* A peer that begins messages for ever gets what its credit allows and no more. */
static void peer_begins_for_ever(void **state) {
    (void)state;
    fill_content();
    for (uint8_t suite = 0; suite < 2; suite++) {
        fix f;
        begin(&f, true, suite, narrow);
        sent(&f, NULL, 0);
        for (uint32_t k = 0; k < 3000; k++) {
            assert_int_equal(feed_piece(&f, k + 1, k + 1, 936, 1, 1), 0);
            uvcc_link_stats s = stats(&f);
            assert_true(s.memory_bytes < 100000 + 150 * 256 + 20000);
            assert_int_equal(s.refused, k < 100 ? 0 : k - 99);
            assert_int_equal(uvcc_link_violation(f.l) != NULL, suite != 0 && k >= 100);
        }
        end(&f);
    }
}

static void few(uvcc_link_config *c) {
    c->rx_messages_max = 10;
    c->rx_ranges_max = 5;
}

/* Over the limits of reassembly a datagram is as if lost, and the peer sends it again. */
static void reassembly_limits(void **state) {
    (void)state;
    fill_content();
    fix f;
    begin(&f, true, 0, few);
    sent(&f, NULL, 0);
    for (uint32_t k = 0; k < 20; k++)
        assert_int_equal(feed_piece(&f, 2 * k + 1, k + 1, 20, 0, 10), 0);
    assert_int_equal(stats(&f).refused, 10);
    for (uint32_t k = 0; k < 20; k++) {
        assert_int_equal(feed_piece(&f, 2 * k + 2, k + 1, 20, 10, 10), 0);
        assert_int_equal(feed_piece(&f, 2 * k + 1, k + 1, 20, 0, 10), 0);
        expect_message(&f, k + 1, 20);
    }
    for (uint32_t k = 0; k < 30; k++)
        assert_int_equal(feed_piece(&f, 42 + 2 * k, 99, 600, 20 * k + 10, 10), 0);
    uint64_t refused = stats(&f).refused;
    assert_true(refused >= 24); /* five gaps are six ranges */
    for (uint32_t k = 0; k < 60; k++)
        assert_int_equal(feed_piece(&f, 41 + k, 99, 600, 10 * k, 10), 0);
    expect_message(&f, 99, 600);
    end(&f);
}

/* Every frame of this table is refused or ignored without a trace. */
typedef enum outcome { REFUSED, WRONG, FOREIGN, STALE } outcome;

static void expect_fate(bool datagram, uint8_t suite, outcome fate,
                        void (*change)(fix *f, uvcc_frame_header *h)) {
    fix f;
    begin(&f, datagram, suite, NULL);
    frame out[4];
    sent(&f, out, 4);
    grant(&f);
    message(&f, UVCC_FRAME_OPEN_BATCH, 10, 1, 0); /* seq 1 of ours */
    sent(&f, out, 4);
    /* A message in reassembly: bytes 100..199 of 1,000. */
    assert_int_equal(feed_piece(&f, 1, 7, 1000, 100, 100), 0);
    uvcc_frame_header h = data_header(&f, 2, 7, 1000, 200, 100);
    change(&f, &h);
    uint8_t before[32], after[32];
    uvcc_link_digest(f.l, before);
    uvcc_link_stats was = stats(&f);
    int err = feed_frame(&f, &h, content + h.offset % 1000);
    uvcc_link_stats now = stats(&f);
    uvcc_link_digest(f.l, after);
    bool refused = fate == REFUSED || fate == WRONG;
    assert_int_equal(err, refused && !datagram ? UVCC_ERR_STREAM_BROKEN : 0);
    assert_int_equal(now.refused - was.refused, refused);
    assert_int_equal(now.foreign - was.foreign, fate == FOREIGN);
    assert_int_equal(now.stale_run - was.stale_run, fate == STALE);
    bool violation = fate == WRONG && suite != 0;
    assert_int_equal(uvcc_link_violation(f.l) != NULL, violation);
    if (!violation)
        assert_memory_equal(before, after, 32);
    expect_none(&f);
    if (err == 0 && !violation) { /* and the right frame still comes through */
        assert_int_equal(feed_piece(&f, 2, 7, 1000, 200, 100), 0);
        assert_int_equal(feed_piece(&f, 3, 7, 1000, 0, 100), 0);
        assert_int_equal(feed_piece(&f, 4, 7, 1000, 300, 700), 0);
        expect_message(&f, 7, 1000);
    } else if (err != 0) {
        assert_int_equal(uvcc_link_feed(f.l, content, 1, f.now), UVCC_ERR_STREAM_BROKEN);
        uvcc_link_stream_opened(f.l, f.now);
        assert_int_equal(feed_piece(&f, 2, 7, 1000, 200, 100), 0);
    }
    end(&f);
}

/* Each changes one thing of a good frame: bytes 200..299 of the message, seq 2. */
#define CHANGE(name, ...)                                                                          \
    static void h_##name(fix *f, uvcc_frame_header *h) {                                           \
        (void)f;                                                                                   \
        __VA_ARGS__;                                                                               \
    }
CHANGE(sid, h->sid_tag ^= 1)
CHANGE(sid0, h->sid_tag = 0)
CHANGE(src, h->src = 1)
CHANGE(dst, h->dst = 1)
CHANGE(self, h->src = ME)
CHANGE(party, h->src = 3)
CHANGE(kind, h->kind = 0x6F)
CHANGE(flag, h->flags |= 2)
CHANGE(run, h->seq = (uint64_t)(f->run - 1) << 40 | 2)
CHANGE(seq0, h->seq = seq(f, 0))
CHANGE(far, h->seq = seq(f, 65538)) /* cum is 1 */
CHANGE(old, h->step = f->step - 1)
CHANGE(later, h->step = f->step + 2)
CHANGE(ack, h->ack = seq(f, 2))
CHANGE(ackrun, h->ack = seq(f, 1) + (UINT64_C(1) << 40))
CHANGE(plain, (h->flags = 0, h->ack = seq(f, 0)))
CHANGE(len, h->msg_len = 999)
CHANGE(huge, h->msg_len = UVCC_MSG_MAX_BYTES + 1)
CHANGE(id, h->msg_id++)
CHANGE(same, h->offset = 100)
CHANGE(lap1, h->offset = 199)
CHANGE(lap2, h->offset = 1)
CHANGE(past, h->offset = 901)
CHANGE(wrap, h->offset = 0xFFFFFFF0u)
CHANGE(cnt, h->chunk_cnt = 2)
CHANGE(cnt0, h->chunk_cnt = 0)
CHANGE(cntmax, h->chunk_cnt = 0xFFFF)
CHANGE(idx, h->chunk_idx = 1)
CHANGE(idxmax, h->chunk_idx = 0xFFFF)
CHANGE(empty, h->payload_len = f->suite != 0 ? UVCC_FRAME_SEAL_BYTES : 0)

static void hostile_headers(void **state) {
    (void)state;
    fill_content();
    static const struct {
        void (*change)(fix *f, uvcc_frame_header *h);
        outcome plain, sealed;
    } cases[] = {
        {h_huge, REFUSED, REFUSED}, {h_cntmax, REFUSED, REFUSED}, {h_idxmax, REFUSED, REFUSED},
        {h_sid, FOREIGN, FOREIGN},  {h_sid0, FOREIGN, FOREIGN},   {h_src, REFUSED, REFUSED},
        {h_dst, REFUSED, REFUSED},  {h_self, REFUSED, REFUSED},   {h_party, REFUSED, REFUSED},
        {h_kind, REFUSED, REFUSED}, {h_run, STALE, STALE},        {h_seq0, REFUSED, REFUSED},
        {h_far, REFUSED, REFUSED},  {h_old, REFUSED, WRONG},      {h_later, REFUSED, REFUSED},
        {h_len, WRONG, WRONG},      {h_id, WRONG, WRONG},         {h_same, WRONG, WRONG},
        {h_lap1, WRONG, WRONG},     {h_lap2, WRONG, WRONG},       {h_past, REFUSED, REFUSED},
        {h_wrap, REFUSED, REFUSED}, {h_cnt, REFUSED, REFUSED},    {h_cnt0, REFUSED, REFUSED},
        {h_idx, REFUSED, REFUSED},  {h_empty, REFUSED, REFUSED},  {h_flag, REFUSED, REFUSED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int datagram = 0; datagram < 2; datagram++)
            for (uint8_t suite = 0; suite < 3; suite++)
                expect_fate(datagram != 0, suite, suite == 0 ? cases[i].plain : cases[i].sealed,
                            cases[i].change);
    for (int datagram = 0; datagram < 2; datagram++) {
        expect_fate(datagram != 0, 0, REFUSED, h_ack);
        expect_fate(datagram != 0, 0, REFUSED, h_ackrun);
        expect_fate(datagram != 0, 1, REFUSED, h_plain);
        for (uint8_t suite = 0; suite < 3; suite++) {
            fix f;
            begin(&f, datagram != 0, suite, NULL);
            sent(&f, NULL, 0);
            /* Four messages of 9 MiB are more than 32 MiB. */
            for (uint32_t k = 0; k < 3; k++)
                assert_int_equal(feed_piece(&f, 10 + k, 100 + k, 9u << 20, 0, 10), 0);
            uvcc_frame_header h = data_header(&f, 20, 103, 9u << 20, 0, 10);
            assert_int_equal(feed_frame(&f, &h, content), datagram ? 0 : UVCC_ERR_STREAM_BROKEN);
            assert_int_equal(stats(&f).refused, 1);
            assert_int_equal(uvcc_link_violation(f.l) != NULL, suite != 0);
            end(&f);
        }
    }
}

/* Sealed frames before there are keys are nothing, not even on a stream, but for a HELLO, which is
 * kept. */
static void sealed_before_keys(void **state) {
    (void)state;
    for (int datagram = 0; datagram < 2; datagram++) {
        fix f;
        begin(&f, datagram != 0, 0, NULL);
        f.suite = 1;
        assert_int_equal(feed_piece(&f, 1, 1, 10, 0, 10), 0);
        ack a = {.cum = seq(&f, 0)};
        assert_int_equal(feed_ack(&f, &a), 0);
        uvcc_frame_header h = control_header(&f, UVCC_FRAME_HELLO, 33);
        assert_int_equal(feed_frame(&f, &h, content), 0);
        assert_int_equal(stats(&f).refused, 2);
        assert_false(uvcc_link_heard(f.l));
        end(&f);
    }
}

/* HELLO 3 in the same bytes as the HELLO 2 that gives the keys for it: opened once they are here;
 * one that is not the peer's is nothing. */
static void hello_before_keys(void **state) {
    (void)state;
    for (unsigned k = 0; k < 4; k++) {
        fix f = {.run = 3, .step = 5, .suite = 1, .seed = 9, .now = SIM_MS};
        memset(f.prk, 0x42, sizeof f.prk);
        uvcc_link_config cfg;
        uvcc_link_config_default(&cfg);
        cfg.alloc = test_allocator(&f.mem);
        cfg.random = test_random(&f.seed);
        cfg.me = ME;
        cfg.peer = PEER;
        cfg.datagram = k % 2 != 0;
        cfg.sid_tag = SID;
        assert_int_equal(uvcc_link_new(&f.l, &cfg), 0);
        uvcc_link_stream_opened(f.l, f.now);
        uvcc_frame_header h = control_header(&f, UVCC_FRAME_HELLO, 33);
        size_t n = make(&f, &h, content, wire);
        if (k / 2 != 0) {
            wire[n - 1] ^= 1;
            uvcci_st32(wire + 60, uvcc_frame_crc(wire, wire + 64, h.payload_len));
        }
        uint8_t out[UVCC_HELLO_MAX_BYTES];
        bool sealed = false;
        for (unsigned twice = 0; twice < 2; twice++)
            assert_int_equal(uvcc_link_feed(f.l, wire, n, f.now), 0);
        assert_int_equal(uvcc_link_poll_hello(f.l, out, &sealed), 0);
        assert_int_equal(uvcc_link_set_run(f.l, f.run), 0);
        assert_int_equal(uvcc_link_set_step(f.l, f.step), 0);
        assert_int_equal(uvcc_link_set_keys(f.l, 1, f.prk), 0);
        uvcci_link_take_early(f.l);
        assert_int_equal(uvcc_link_poll_hello(f.l, out, &sealed), k / 2 == 0 ? 33 : 0);
        assert_int_equal(sealed, k / 2 == 0);
        uvcci_link_take_early(f.l);
        assert_int_equal(uvcc_link_poll_hello(f.l, out, &sealed), 0);
        end(&f);
    }
}

/* Every bit of a frame flipped, every truncation: nothing happens, then the good one counts. The
 * ack of a sealed frame is ignored; a flip of it under a right CRC is no harm. */
static void flips_and_truncations(void **state) {
    (void)state;
    fill_content();
    for (uint8_t suite = 0; suite < 3; suite++) {
        fix f;
        begin(&f, true, suite, NULL);
        sent(&f, NULL, 0);
        uint8_t good[200], bad[200], before[32], after[32];
        uvcc_frame_header h = data_header(&f, 1, 9, 60, 0, 60);
        size_t n = make(&f, &h, content, good);
        uvcc_link_digest(f.l, before);
        for (size_t bit = 0; bit < 8 * n; bit++) {
            memcpy(bad, good, n);
            bad[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_equal(uvcc_link_feed(f.l, bad, n, f.now), 0);
            if (suite != 0 && (bit / 8 < 52 || bit / 8 >= 64)) { /* the seal must see it alone */
                uvcci_st32(bad + 60, uvcc_frame_crc(bad, bad + 64, n - 64));
                assert_int_equal(uvcc_link_feed(f.l, bad, n, f.now), 0);
            }
            uvcc_link_digest(f.l, after);
            assert_memory_equal(before, after, 32);
            expect_none(&f);
        }
        for (size_t cut = 1; cut < n; cut++)
            assert_int_equal(uvcc_link_feed(f.l, good, cut, f.now), 0);
        expect_none(&f);
        assert_null(uvcc_link_violation(f.l));
        if (suite != 0) {
            good[55] ^= 1;
            uvcci_st32(good + 60, uvcc_frame_crc(good, good + 64, n - 64));
        }
        assert_int_equal(uvcc_link_feed(f.l, good, n, f.now), 0);
        expect_message(&f, 9, 60);
        end(&f);
    }
}

/* ---- ACKs ---- */

static void hostile_acks(void **state) {
    (void)state;
    for (uint8_t suite = 0; suite < 3; suite++)
        for (int k = 0; k < 10; k++) {
            fix f;
            begin(&f, true, suite, NULL);
            sent(&f, NULL, 0);
            grant(&f);
            for (uint32_t i = 0; i < 10; i++)
                message(&f, UVCC_FRAME_OPEN_BATCH, 500, i + 1, i);
            assert_int_equal(sent(&f, NULL, 0), 10);
            ack a = {.cum = seq(&f, 2), .credit = {1u << 30, 1u << 30}, .range_cnt = 2};
            a.range[0][0] = seq(&f, 4);
            a.range[0][1] = seq(&f, 5);
            a.range[1][0] = seq(&f, 7);
            a.range[1][1] = seq(&f, 10);
            bool refused = true;
            switch (k) {
            case 0: /* never sent */
                a.cum = seq(&f, 11);
                a.range_cnt = 0;
                break;
            case 1:
                a.range[1][1] = seq(&f, 11);
                break;
            case 2: /* far ahead */
                a.cum = seq(&f, 1u << 30);
                a.range_cnt = 0;
                break;
            case 3: /* reversed */
                a.range[0][0] = seq(&f, 6);
                break;
            case 4: /* overlapping */
                a.range[0][1] = seq(&f, 7);
                break;
            case 5: /* at or below cumulative */
                a.range[0][0] = seq(&f, 2);
                break;
            case 6: /* too many */
                a.range_cnt = 33;
                for (uint32_t i = 0; i < 33; i++)
                    a.range[i][0] = a.range[i][1] = seq(&f, 3);
                break;
            case 7: /* another run */
                a.cum += UINT64_C(1) << 40;
                break;
            case 8: /* a counter seen before: ignored */
                refused = false;
                f.ack_counter = 0;
                break;
            case 9: /* the good one */
                refused = false;
                break;
            default:
                break;
            }
            uint8_t before[32], after[32];
            uvcc_link_digest(f.l, before);
            assert_int_equal(feed_ack(&f, &a), 0);
            uvcc_link_digest(f.l, after);
            assert_int_equal(stats(&f).refused, refused);
            assert_int_equal(uvcc_link_violation(f.l) != NULL, refused && suite != 0);
            if (k == 9) {
                assert_memory_not_equal(before, after, 32);
                ack rest = {.cum = seq(&f, 10)};
                assert_false(uvcc_link_drained(f.l));
                assert_int_equal(feed_ack(&f, &rest), 0);
                assert_true(uvcc_link_drained(f.l));
                /* Going backwards: as old news, without effect. */
                uvcc_link_digest(f.l, before);
                assert_int_equal(feed_ack_counter(&f, &a, 2), 0);
                uvcc_link_digest(f.l, after);
                assert_memory_equal(before, after, 32);
            } else if (!(refused && suite != 0)) {
                assert_memory_equal(before, after, 32);
            }
            end(&f);
        }
}

static void pings(void **state) {
    (void)state;
    for (uint8_t suite = 0; suite < 2; suite++) {
        fix f;
        begin(&f, true, suite, NULL);
        sent(&f, NULL, 0);
        static uint8_t numbered[60000] = {7};
        uint8_t ones[8] = {0, 0, 0, 0, 0, 1};
        for (uint32_t k = 0; k < 3; k++) {
            uvcc_frame_header h = control_header(&f, UVCC_FRAME_PING, 4 + 20000 * k);
            numbered[0] = (uint8_t)(9 - k); /* the last one counts, not the greatest */
            assert_int_equal(feed_frame(&f, &h, numbered), 0);
            frame last;
            assert_int_equal(sent(&f, NULL, 0), 0); /* not at the sender's pace */
            f.now += SIM_MS / 5;
            assert_int_equal(sent_of_kind(&f, UVCC_FRAME_ACK, &last), 1);
            if (suite == 0)
                assert_int_equal(uvcci_ld32(last.bytes + 64 + 32), 9 - k);
            assert_int_equal(sent(&f, NULL, 0), 0); /* one PING, one ACK */
        }
        /* A short one right behind a long one does not hide it. */
        for (uint32_t k = 0; k < 2; k++) {
            uvcc_frame_header h = control_header(&f, UVCC_FRAME_PING, k == 0 ? 5000 : 4);
            numbered[0] = (uint8_t)(20 + k);
            assert_int_equal(feed_frame(&f, &h, numbered), 0);
        }
        frame both;
        f.now += SIM_MS / 5;
        assert_int_equal(sent_of_kind(&f, UVCC_FRAME_ACK, &both), 1);
        if (suite == 0)
            assert_int_equal(uvcci_ld32(both.bytes + 64 + 32), 20);
        ack a = {.cum = seq(&f, 0)};
        assert_int_equal(feed_ack(&f, &a), 0);
        assert_int_equal(sent(&f, NULL, 0), 0); /* an ACK is never acknowledged */
        uvcc_frame_header h = control_header(&f, UVCC_FRAME_PING, 8);
        assert_int_equal(feed_frame(&f, &h, ones), 0);
        assert_int_equal(stats(&f).refused, 1);
        assert_int_equal(sent(&f, NULL, 0), 0);
        assert_int_equal(uvcc_link_violation(f.l) != NULL, suite != 0);
        end(&f);
    }
}

/* ---- HELLO, steps, streams ---- */

/* Only what is new and the peer's own tells that it lives: a data frame, an ACK; neither their
 * repetitions nor PINGs, which anybody can send again. Both ends of an idle link ask, so both hear
 * an answer. */
static void signs_of_life(void **state) {
    (void)state;
    fill_content();
    for (uint8_t suite = 0; suite < 3; suite++)
        for (int datagram = 0; datagram < 2; datagram++) {
            fix f;
            begin(&f, datagram != 0, suite, NULL);
            sent(&f, NULL, 0);
            assert_true(stats(&f).heard_ns == UVCC_NEVER);
            grant(&f);
            uint64_t heard = f.now;
            assert_int_equal(stats(&f).heard_ns, heard);
            f.now += SIM_MS;
            uvcc_frame_header h = control_header(&f, UVCC_FRAME_PING, 4);
            static const uint8_t zeros[4];
            assert_int_equal(feed_frame(&f, &h, zeros), 0);
            assert_int_equal(stats(&f).heard_ns, heard);
            assert_int_equal(feed_piece(&f, 1, 1, 700, 0, 700), 0);
            heard = f.now;
            assert_int_equal(stats(&f).heard_ns, heard);
            f.now += SIM_MS;
            assert_int_equal(feed_piece(&f, 1, 1, 700, 0, 700), 0); /* again */
            assert_int_equal(stats(&f).duplicates, 1);
            assert_int_equal(stats(&f).heard_ns, heard);
            ack a = {.cum = seq(&f, 0)};
            assert_int_equal(feed_ack(&f, &a), 0);
            assert_int_equal(stats(&f).heard_ns, heard += SIM_MS);
            sent(&f, NULL, 0);
            /* PINGs of the peer do not keep ours back. */
            uint64_t asked = 0;
            for (unsigned k = 0; k < 25; k++) {
                f.now += 1000 * SIM_MS;
                assert_int_equal(feed_frame(&f, &h, zeros), 0);
                uvcc_link_on_timer(f.l, f.now);
                asked += sent_of_kind(&f, UVCC_FRAME_PING, NULL);
            }
            assert_int_equal(asked, 2);
            expect_message(&f, 1, 700);
            end(&f);
        }
}

/* What is queued and unacknowledged, from queueing to the last ACK. */
static void what_is_on_its_way(void **state) {
    (void)state;
    for (int datagram = 0; datagram < 2; datagram++) {
        fix f;
        begin(&f, datagram != 0, 1, NULL);
        sent(&f, NULL, 0);
        assert_true(uvcc_link_settled(f.l));
        message(&f, UVCC_FRAME_OPEN_BATCH, 700, 1, 0);
        message(&f, UVCC_FRAME_OPEN_BATCH, 300, 2, 0);
        sent(&f, NULL, 0);
        uvcc_link_stats s = stats(&f);
        assert_true(s.blocked && s.queued_messages == 2 && s.queued_bytes == 1000);
        assert_true(s.unacked_messages == 0 && s.unacked_bytes == 0);
        assert_int_equal(s.packet_bytes, datagram ? 1232 : 0);
        assert_int_equal(s.stream_up, !datagram);
        grant(&f);
        sent(&f, NULL, 0);
        s = stats(&f);
        assert_true(!s.blocked && s.queued_messages == 0 && s.queued_bytes == 0);
        assert_true(s.unacked_messages == 2 && s.unacked_bytes == 1000);
        ack a = {.cum = seq(&f, 1)};
        assert_int_equal(feed_ack(&f, &a), 0);
        s = stats(&f);
        assert_true(s.unacked_messages == 1 && s.unacked_bytes == 300);
        a.cum = seq(&f, 2);
        assert_int_equal(feed_ack(&f, &a), 0);
        s = stats(&f);
        assert_true(s.unacked_messages == 0 && s.unacked_bytes == 0);
        assert_true(uvcc_link_drained(f.l) && uvcc_link_settled(f.l));
        /* An ACK that is due, or on its way out, is still ours to send. */
        assert_int_equal(feed_piece(&f, 1, 1, 700, 0, 700), 0);
        expect_message(&f, 1, 700);
        assert_true(uvcc_link_drained(f.l) && !uvcc_link_settled(f.l));
        f.now += 2 * SIM_MS;
        uvcc_transmit t;
        assert_int_equal(uvcc_link_poll_transmit(f.l, &t, f.now), 1);
        assert_false(uvcc_link_settled(f.l));
        assert_int_equal(uvcc_link_transmit_done(f.l, t.id, t.total, f.now), 0);
        assert_true(uvcc_link_settled(f.l));
        end(&f);
    }
}

static void hellos(void **state) {
    (void)state;
    fix f;
    begin(&f, false, 2, NULL);
    uint8_t out[UVCC_HELLO_MAX_BYTES];
    bool sealed = false;
    for (uint8_t k = 0; k < 6; k++) {
        memset(content, k, 100);
        uvcc_frame_header h = control_header(&f, UVCC_FRAME_HELLO, 100u + k);
        h.ack = 999; /* means nothing here */
        if (k % 2 == 0) {
            h.flags = 0;
            h.payload_len = h.msg_len;
        }
        assert_int_equal(feed_frame(&f, &h, content), 0);
    }
    for (uint8_t k = 2; k < 6; k++) { /* the oldest two fell out */
        assert_int_equal(uvcc_link_poll_hello(f.l, out, &sealed), 100 + k);
        assert_int_equal(out[0], k);
        assert_int_equal(sealed, k % 2);
    }
    assert_int_equal(uvcc_link_poll_hello(f.l, out, &sealed), 0);
    assert_true(uvcc_link_heard(f.l));
    /* Never a failure: too long, not authentic. */
    uvcc_frame_header h = control_header(&f, UVCC_FRAME_HELLO, 129);
    assert_int_equal(feed_frame(&f, &h, content), 0);
    f.run++;
    h = control_header(&f, UVCC_FRAME_HELLO, 33);
    assert_int_equal(feed_frame(&f, &h, content), 0);
    f.run--;
    assert_int_equal(uvcc_link_poll_hello(f.l, out, &sealed), 0);
    assert_int_equal(stats(&f).refused, 2);
    /* Ours: the newest only. */
    frame last;
    sent(&f, NULL, 0);
    assert_int_equal(uvcc_link_send_hello(f.l, content, 152, false), 0);
    assert_int_equal(uvcc_link_send_hello(f.l, content, 33, true), 0);
    assert_int_equal(uvcc_link_send_hello(f.l, content, 129, true), UVCC_ERR_USAGE);
    assert_int_equal(sent_of_kind(&f, UVCC_FRAME_HELLO, &last), 1);
    assert_int_equal(last.h.payload_len, 33 + 40);
    assert_int_equal(last.h.ack, 0);
    end(&f);
}

static void steps(void **state) {
    (void)state;
    fill_content();
    for (uint8_t suite = 0; suite < 3; suite++) {
        fix f;
        begin(&f, true, suite, NULL);
        sent(&f, NULL, 0);
        static const struct {
            uint8_t kind;
            int32_t step;
            bool taken;
        } cases[] = {
            {UVCC_FRAME_OPEN_BATCH, 0, true},   {UVCC_FRAME_KEYS_BATCH, 1, true},
            {UVCC_FRAME_INPUT_BATCH, 1, true},  {UVCC_FRAME_OPEN_BATCH, 2, false},
            {UVCC_FRAME_STEP, 2, false},        {UVCC_FRAME_STEP, 1, true},
            {UVCC_FRAME_STEP, -1, true},        {UVCC_FRAME_AUDIT, -1, true},
            {UVCC_FRAME_BYE, -1, true},         {UVCC_FRAME_LIFT_BATCH, -1, false},
            {UVCC_FRAME_KEYS_BATCH, -1, false}, {UVCC_FRAME_AUDIT, -2, false},
        };
        uint64_t n = 1;
        for (uint32_t round = 0; round < 4; round++) {
            for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
                uvcc_frame_header h = data_header(&f, n, 0, 20, 0, 20);
                h.kind = cases[i].kind;
                h.step = (uint32_t)((int32_t)f.step + cases[i].step);
                uint64_t refused = stats(&f).refused;
                assert_int_equal(feed_frame(&f, &h, content), 0);
                assert_int_equal(stats(&f).refused - refused, !cases[i].taken);
                if (cases[i].taken) {
                    expect_message(&f, 0, 20);
                    n++;
                } else {
                    expect_none(&f);
                }
            }
            f.step++;
            assert_int_equal(uvcc_link_set_step(f.l, f.step), 0);
        }
        /* Ours: an op's messages carry its step, STEP carries the present one. */
        grant(&f);
        frame out[4];
        sent(&f, NULL, 0);
        uvcc_link_msg *m;
        uint32_t id = 1;
        for (int k = 0; k < 2; k++) {
            uint8_t kind = k == 0 ? UVCC_FRAME_STEP : UVCC_FRAME_OPEN_BATCH;
            assert_int_equal(uvcc_link_msg_new(f.l, kind, 4, &m), 0);
            assert_int_equal(uvcc_link_send(f.l, m, f.step + 1, 0, &id, 0, f.now), 0);
        }
        assert_int_equal(sent(&f, out, 4), 2);
        assert_int_equal(out[0].h.step, f.step);
        assert_int_equal(out[1].h.step, f.step + 1);
        end(&f);
    }
}

/* Bytes that one link would send for some messages, ACKs first. */
static size_t record(uint8_t *out, size_t most, uint8_t suite) {
    fix f; /* roles are swapped: this link is the peer's */
    uvcc_link_config cfg;
    uvcc_link_config_default(&cfg);
    test_alloc mem = {0};
    uint64_t seed = 3;
    cfg.alloc = test_allocator(&mem);
    cfg.random = test_random(&seed);
    cfg.me = PEER;
    cfg.peer = ME;
    cfg.sid_tag = SID;
    cfg.frame_bytes = 300;
    uvcc_link *l;
    assert_int_equal(uvcc_link_new(&l, &cfg), 0);
    f = (fix){.l = l, .run = 3, .step = 5, .suite = suite};
    memset(f.prk, 0x42, sizeof f.prk);
    assert_int_equal(uvcc_link_set_run(l, f.run), 0);
    keyed(&f);
    assert_int_equal(uvcc_link_start(l, 1), 0);
    uvcc_link_stream_opened(l, 1);
    /* Its peer's ACK, with credit. */
    uint8_t p[46] = {0}, bytes[256];
    uvcci_st64(p, 1);
    uvcci_st64(p + 8, seq(&f, 0));
    uvcci_st64(p + 16, 1u << 20);
    uvcci_st64(p + 24, 1u << 20);
    uvcc_frame_header h = control_header(&f, UVCC_FRAME_ACK, sizeof p);
    h.src = ME;
    h.dst = PEER;
    size_t n = UVCC_FRAME_HEADER_BYTES + h.payload_len;
    if (suite == 0) {
        make(&f, &h, p, bytes);
    } else {
        uint8_t key[32];
        uvcc_frame_encode_header(&h, bytes);
        memset(bytes + 64, 1, 24);
        uvcci_derive_ctl_key(f.prk, f.run, ME, PEER, key);
        assert_int_equal(uvcci_xaead_seal(key, bytes + 64, bytes, 52, p, sizeof p, bytes + 88), 0);
        uvcci_st32(bytes + 60, uvcc_frame_crc(bytes, bytes + 64, h.payload_len));
    }
    assert_int_equal(uvcc_link_feed(l, bytes, n, 1), 0);
    static const uint32_t lens[] = {0, 1, 64, 700, 236, 1000};
    for (uint32_t k = 0; k < 6; k++) {
        uvcc_link_msg *m;
        uint32_t id = sim_msg_id(k + 1, 0);
        uint8_t kind = k % 2 ? UVCC_FRAME_OPEN_BATCH : UVCC_FRAME_KEYS_BATCH;
        assert_int_equal(uvcc_link_msg_new(l, kind, lens[k], &m), 0);
        memcpy(uvcc_link_msg_data(m), content, lens[k]);
        assert_int_equal(uvcc_link_send(l, m, 5, k + 1, &id, 0, 1), 0);
    }
    size_t len = 0;
    uvcc_transmit t;
    while (uvcc_link_poll_transmit(l, &t, 1) == 1) {
        for (uint32_t i = 0; i < t.slice_count; i++) {
            assert_true(len + t.slices[i].len <= most);
            memcpy(out + len, t.slices[i].data, t.slices[i].len);
            len += t.slices[i].len;
        }
        assert_int_equal(uvcc_link_transmit_done(l, t.id, t.total, 1), 0);
    }
    uvcc_link_free(l);
    return len;
}

static void feed_split(fix *f, const uint8_t *stream, size_t len, size_t first, size_t step) {
    for (size_t at = 0; at < len;) {
        size_t n = at == 0 ? first : step;
        n = n < len - at ? n : len - at;
        uint8_t *copy = malloc(n + 1);
        memcpy(copy, stream + at, n);
        assert_int_equal(uvcc_link_feed(f->l, copy, n, f->now), 0);
        free(copy);
        at += n;
    }
}

/* A recorded stream cut at every byte: the same messages, the same state. */
static void every_split(void **state) {
    (void)state;
    fill_content();
    static uint8_t stream[8192];
    for (uint8_t suite = 0; suite < 3; suite++) {
        size_t len = record(stream, sizeof stream, suite);
        assert_true(len > 2500);
        uint8_t want[32], got[32];
        for (size_t cut = 0; cut <= len; cut++) {
            fix f;
            begin(&f, false, suite, NULL);
            sent(&f, NULL, 0);
            if (cut == 0)
                feed_split(&f, stream, len, 1, 1);
            else
                feed_split(&f, stream, len, cut, len);
            uvcc_link_rx rx;
            uint32_t cnt = 0, sum = 0;
            while (uvcc_link_poll_message(f.l, &rx) == 1) {
                assert_memory_equal(rx.data, content, rx.len);
                cnt++;
                sum += rx.len;
            }
            assert_int_equal(cnt, 6);
            assert_int_equal(sum, 2001);
            uvcc_link_digest(f.l, cut == 0 ? want : got);
            if (cut != 0)
                assert_memory_equal(want, got, 32);
            stats(&f);
            end(&f);
        }
        /* The stream ends anywhere: what came before counts, what was half there is forgotten, and
         * the whole of it again on a new stream completes it. */
        for (size_t cut = 1; cut < len; cut++) {
            fix f;
            begin(&f, false, suite, NULL);
            sent(&f, NULL, 0);
            assert_int_equal(uvcc_link_feed(f.l, stream, cut, f.now), 0);
            uvcc_link_stream_closed(f.l, f.now);
            uvcc_link_stream_opened(f.l, f.now);
            assert_int_equal(uvcc_link_feed(f.l, stream, len, f.now), 0);
            uvcc_link_rx rx;
            uint32_t cnt = 0;
            while (uvcc_link_poll_message(f.l, &rx) == 1)
                cnt++;
            assert_int_equal(cnt, 6);
            stats(&f);
            end(&f);
        }
    }
}

/* A wrong bit anywhere in a stream breaks it at the latest with the end of its frame, whatever the
 * split, and nothing of that frame is delivered. */
static void broken_streams(void **state) {
    (void)state;
    fill_content();
    static uint8_t stream[8192], bad[8192];
    for (uint8_t suite = 0; suite < 3; suite++) {
        size_t len = record(stream, sizeof stream, suite);
        for (size_t at = 0; at < len; at += 3) {
            memcpy(bad, stream, len);
            bad[at] ^= 0x10;
            fix f;
            begin(&f, false, suite, NULL);
            sent(&f, NULL, 0);
            int err = 0;
            size_t step = at % 2 ? len : 50;
            for (size_t k = 0; k < len && err == 0; k += step)
                err = uvcc_link_feed(f.l, bad + k, step < len - k ? step : len - k, f.now);
            uvcc_link_rx rx;
            uint32_t cnt = 0;
            while (uvcc_link_poll_message(f.l, &rx) == 1) {
                assert_memory_equal(rx.data, content, rx.len);
                cnt++;
            }
            /* A length that grew swallows what follows and waits for more: then silence. */
            assert_true(err == UVCC_ERR_STREAM_BROKEN || (err == 0 && cnt < 6));
            stats(&f);
            uvcc_link_stream_opened(f.l, f.now);
            assert_int_equal(uvcc_link_feed(f.l, stream, len, f.now), 0);
            while (uvcc_link_poll_message(f.l, &rx) == 1) {
                assert_memory_equal(rx.data, content, rx.len);
                cnt++;
            }
            assert_int_equal(cnt, 6);
            end(&f);
        }
    }
}

/* ---- idle, window, clock ---- */

static void all_at_once(uvcc_link_config *c) {
    c->congestion = UVCC_CONGESTION_FIXED;
}

static void idle_is_small_and_quiet(void **state) {
    (void)state;
    fill_content();
    for (uint8_t suite = 0; suite < 3; suite++)
        for (int datagram = 0; datagram < 2; datagram++) {
            fix f;
            begin(&f, datagram != 0, suite, all_at_once);
            sent(&f, NULL, 0);
            grant(&f);
            for (uint32_t k = 0; k < 200; k++) {
                message(&f, UVCC_FRAME_OPEN_BATCH, 3000, k + 1, 0);
                assert_int_equal(feed_piece(&f, k + 1, k + 1, 700, 0, 700), 0);
            }
            sent(&f, NULL, 0);
            for (uint32_t k = 0; k < 200; k++)
                expect_message(&f, k + 1, 700);
            ack a = {.cum = seq(&f, datagram ? 600 : 200)};
            assert_int_equal(feed_ack(&f, &a), 0);
            assert_true(uvcc_link_drained(f.l));
            size_t frames = 0;
            for (uint64_t until = f.now + 95000 * SIM_MS; f.now < until;) {
                frames += sent(&f, NULL, 0);
                assert_true(uvcc_link_next_deadline(f.l) > f.now);
                f.now = uvcc_link_next_deadline(f.l);
                uvcc_link_on_timer(f.l, f.now);
            }
            assert_true(frames >= 9 && frames <= 11); /* the ACK and a PING each 10 s */
            stats(&f);
            f.now += 150 * SIM_MS;
            sent(&f, NULL, 0);
            f.now += 150 * SIM_MS;
            uvcc_link_on_timer(f.l, f.now);
            assert_true(f.mem.live_bytes <= (suite == 0 ? 1536u : 1664u) + (datagram ? 576u : 0u));
            end(&f);
        }
}

static void window_is_kept(void **state) {
    (void)state;
    fix f;
    begin(&f, false, 0, NULL);
    sent(&f, NULL, 0);
    grant(&f);
    for (uint32_t k = 0; k < 70000; k++)
        message(&f, UVCC_FRAME_OPEN_BATCH, 1, k + 1, 0);
    assert_int_equal(sent(&f, NULL, 0), 65536);
    ack a = {.cum = seq(&f, 0), .credit = {1u << 30, 1u << 30}, .range_cnt = 1};
    a.range[0][0] = seq(&f, 2);
    a.range[0][1] = seq(&f, 65536);
    assert_int_equal(feed_ack(&f, &a), 0);
    assert_int_equal(sent(&f, NULL, 0), 0);
    a.cum = seq(&f, 65536);
    a.range_cnt = 0;
    assert_int_equal(feed_ack(&f, &a), 0);
    assert_int_equal(sent(&f, NULL, 0), 70000 - 65536);
    a.cum = seq(&f, 70000);
    assert_int_equal(feed_ack(&f, &a), 0);
    assert_true(uvcc_link_drained(f.l));
    stats(&f);
    end(&f);

    /* The receiver's side: seqs far apart, accepted in any order. */
    begin(&f, true, 0, NULL);
    sent(&f, NULL, 0);
    static uint64_t tokens[3000];
    uint64_t rng = 1;
    uint32_t n = 0;
    for (uint64_t s = 1; s <= 65536; s += 1 + test_rand(&rng) % 60) {
        assert_int_equal(feed_piece(&f, 65537 - s, n + 1, 5, 0, 5), 0);
        uvcc_link_rx rx;
        assert_int_equal(uvcc_link_poll_message(f.l, &rx), 1);
        tokens[n++] = rx.token;
    }
    for (uint32_t k = 0; k < n; k++) {
        uint32_t j = k + (uint32_t)(test_rand(&rng) % (n - k));
        uint64_t t = tokens[j];
        tokens[j] = tokens[k];
        assert_int_equal(uvcc_link_accept(f.l, t, f.now), 0);
        assert_int_equal(uvcc_link_release(f.l, t, f.now), 0);
        f.now += SIM_MS;
        frame last;
        assert_int_equal(sent_of_kind(&f, UVCC_FRAME_ACK, &last), 1);
        stats(&f);
    }
    end(&f);
}

/* Many gaps: every received seq is told in some ACK, and nothing else ever is. */
static void acks_tell_all_and_only_the_truth(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        fix f;
        begin(&f, true, 0, NULL);
        sent(&f, NULL, 0);
        static uint8_t got[3001], told[3001];
        memset(got, 0, sizeof got);
        memset(told, 0, sizeof told);
        uint64_t rng = seed;
        for (uint32_t round = 0; round < 3000; round++) {
            uint64_t n = 2 + test_rand(&rng) % 2999;
            if (seed % 2 == 0 && round < 2000)
                n = 2 + round + test_rand(&rng) % 20;
            assert_int_equal(feed_piece(&f, n, (uint32_t)n, 3, 0, 3), 0);
            uvcc_link_rx rx;
            while (uvcc_link_poll_message(f.l, &rx) == 1) {
                assert_int_equal(rx.op_id, n);
                assert_int_equal(got[n], 0);
                assert_int_equal(uvcc_link_accept(f.l, rx.token, f.now), 0);
                assert_int_equal(uvcc_link_release(f.l, rx.token, f.now), 0);
                got[n] = 1;
            }
            f.now += SIM_MS;
            frame last = {0};
            assert_int_equal(sent_of_kind(&f, UVCC_FRAME_ACK, &last), 1);
            const uint8_t *p = last.bytes + 64;
            assert_int_equal(uvcci_ld64(p + 8), seq(&f, 0));
            uint32_t cnt = uvcci_ld16(p + 44);
            assert_true(cnt >= 1 && cnt <= 32);
            for (uint32_t i = 0; i < cnt; i++) {
                uint64_t a = uvcci_ld64(p + 46 + 16 * i) - seq(&f, 0);
                uint64_t b = uvcci_ld64(p + 54 + 16 * i) - seq(&f, 0);
                assert_true(a <= b && b <= 3000);
                for (uint64_t s = a; s <= b; s++) {
                    assert_int_equal(got[s], 1);
                    told[s] = 1;
                }
            }
        }
        for (uint32_t s = 0; s <= 3000; s++)
            assert_int_equal(got[s], told[s]);
        end(&f);
    }
}

/* CRC of a frame sent again with another ack: the combination must be right. */
static void resent_frames(void **state) {
    (void)state;
    fill_content();
    for (uint8_t suite = 0; suite < 3; suite++) {
        fix f;
        begin(&f, false, suite, NULL);
        sent(&f, NULL, 0);
        grant(&f);
        message(&f, UVCC_FRAME_OPEN_BATCH, 1000, 1, 0);
        message(&f, UVCC_FRAME_OPEN_BATCH, 0, 2, 0);
        frame one[3], two[4];
        assert_int_equal(sent(&f, one, 3), 2);
        assert_int_equal(feed_piece(&f, 1, 1, 5, 0, 5), 0); /* our ack moves on */
        expect_message(&f, 1, 5);
        uvcc_link_stream_closed(f.l, f.now);
        uvcc_transmit t;
        assert_int_equal(uvcc_link_poll_transmit(f.l, &t, f.now), 0);
        uvcc_link_stream_opened(f.l, f.now);
        assert_int_equal(sent(&f, two, 4), 1); /* an ACK, then it waits for the peer's */
        assert_int_equal(two[0].h.kind, UVCC_FRAME_ACK);
        grant(&f);
        assert_int_equal(sent(&f, two, 4), 2);
        for (int k = 0; k < 2; k++) {
            assert_memory_equal(one[k].bytes, two[k].bytes, 52);
            assert_memory_equal(one[k].bytes + 64, two[k].bytes + 64, one[k].h.payload_len);
            assert_int_equal(two[k].h.ack, suite == 0 ? seq(&f, 1) : 0);
        }
        /* Without an ACK from the peer, a timer ends the wait. */
        uvcc_link_stream_opened(f.l, f.now);
        assert_int_equal(sent(&f, two, 4), 1);
        f.now = uvcc_link_next_deadline(f.l);
        uvcc_link_on_timer(f.l, f.now);
        f.now += 200 * SIM_MS;
        uvcc_link_on_timer(f.l, f.now);
        assert_int_equal(sent(&f, two, 4), 2);
        assert_int_equal(stats(&f).retransmissions, 4);
        end(&f);
    }
}

static void message_freed_under_a_transmit(void **state) {
    (void)state;
    fix f;
    begin(&f, true, 0, NULL);
    sent(&f, NULL, 0);
    grant(&f);
    message(&f, UVCC_FRAME_OPEN_BATCH, 900, 1, 0);
    assert_int_equal(sent(&f, NULL, 0), 1);
    f.now += 300 * SIM_MS;
    uvcc_link_on_timer(f.l, f.now);
    uvcc_transmit t;
    assert_int_equal(uvcc_link_poll_transmit(f.l, &t, f.now), 1); /* again */
    ack a = {.cum = seq(&f, 1)};
    assert_int_equal(feed_ack(&f, &a), 0);
    assert_true(uvcc_link_drained(f.l));
    uint8_t want[900];
    sim_fill(want, sizeof want, ME, 1);
    assert_int_equal(t.slice_count, 2);
    assert_memory_equal(t.slices[1].data, want, sizeof want); /* still there */
    assert_int_equal(uvcc_link_transmit_done(f.l, t.id, 5, f.now), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_link_transmit_done(f.l, t.id, 0, f.now), 0);
    assert_int_equal(sent(&f, NULL, 0), 0);
    end(&f);
}

/* Everything came and nothing was accepted yet, for longer than caches live; then what the peer
 * says last, as new news or old. */
static void received_long_before_accepted(void **state) {
    (void)state;
    for (unsigned k = 0; k < 12; k++) {
        fix f;
        begin(&f, k % 2 == 0, (uint8_t)(k / 2 % 3), NULL);
        sent(&f, NULL, 0);
        grant(&f);
        for (uint32_t id = 1; id <= 3; id++)
            message(&f, UVCC_FRAME_OPEN_BATCH, 100 * id, id, 0);
        sent(&f, NULL, 0);
        ack all = {.cum = seq(&f, 0), .range = {{seq(&f, 1), seq(&f, 3)}}, .range_cnt = 1};
        assert_int_equal(feed_ack(&f, &all), 0);
        assert_false(uvcc_link_drained(f.l));
        uint64_t until = f.now + 3000 * SIM_MS, resent = stats(&f).retransmissions;
        while (f.now < until) {
            f.now += 50 * SIM_MS;
            uvcc_link_on_timer(f.l, f.now);
            sent(&f, NULL, 0);
        }
        assert_int_equal(stats(&f).retransmissions, resent); /* the peer has them */
        if (k >= 6) {
            ack stale = {.cum = seq(&f, 1)};
            assert_int_equal(feed_ack(&f, &stale), 0);
            assert_false(uvcc_link_drained(f.l));
        }
        ack last = {.cum = seq(&f, 3)};
        assert_int_equal(feed_ack(&f, &last), 0);
        assert_true(uvcc_link_drained(f.l));
        end(&f);
    }
}

/* Who waits for acceptance asks after a while: the ACK that told of it may be lost. */
static void acceptance_is_asked_for(void **state) {
    (void)state;
    fix f;
    begin(&f, true, 1, NULL);
    sent(&f, NULL, 0);
    grant(&f);
    message(&f, UVCC_FRAME_OPEN_BATCH, 100, 1, 0);
    sent(&f, NULL, 0);
    ack came = {.cum = seq(&f, 0), .range = {{seq(&f, 1), seq(&f, 1)}}, .range_cnt = 1};
    assert_int_equal(feed_ack(&f, &came), 0);
    size_t pings = 0;
    for (uint64_t until = f.now + 9000 * SIM_MS; uvcc_link_next_deadline(f.l) < until;) {
        f.now = uvcc_link_next_deadline(f.l);
        uvcc_link_on_timer(f.l, f.now);
        pings += sent_of_kind(&f, UVCC_FRAME_PING, NULL);
    }
    assert_true(pings >= 4 && pings <= 24);
    ack accepted = {.cum = seq(&f, 1)};
    assert_int_equal(feed_ack(&f, &accepted), 0);
    assert_true(uvcc_link_drained(f.l));
    f.now += 9000 * SIM_MS;
    uvcc_link_on_timer(f.l, f.now);
    assert_int_equal(sent_of_kind(&f, UVCC_FRAME_PING, NULL), 0);
    end(&f);
}

/* A seal that is wrong costs its opening: no memory of a message that the header claims. */
static void nothing_taken_before_a_seal(void **state) {
    (void)state;
    fill_content();
    for (unsigned k = 0; k < 4; k++) {
        bool datagram = k < 2;
        fix f;
        begin(&f, datagram, (uint8_t)(1 + k % 2), NULL);
        sent(&f, NULL, 0);
        assert_int_equal(feed_piece(&f, 1, 1, 10, 0, 10), 0); /* the step's key is here */
        expect_message(&f, 1, 10);
        sent(&f, NULL, 0);
        uvcc_frame_header h = data_header(&f, 60000, 2, UVCC_MSG_MAX_BYTES, 0, 1000);
        size_t n = make(&f, &h, content, wire);
        wire[n - 1] ^= 1;
        uvcci_st32(wire + 60, uvcc_frame_crc(wire, wire + 64, h.payload_len));
        size_t calls = f.mem.calls, bytes = f.mem.live_bytes;
        f.mem.peak_bytes = bytes;
        /* The last byte apart: a stream has to hold the frame meanwhile. */
        size_t first = datagram ? n : n - 1;
        int err = uvcc_link_feed(f.l, wire, first, f.now);
        assert_int_equal(err, 0);
        if (!datagram)
            assert_int_equal(uvcc_link_feed(f.l, wire + first, 1, f.now), UVCC_ERR_STREAM_BROKEN);
        else
            assert_int_equal(f.mem.calls, calls);
        assert_int_equal(stats(&f).refused, 1);
        assert_true(f.mem.peak_bytes - bytes <= (datagram ? 0 : 1000 + 16 + 512));
        /* The same frame unharmed begins its message. */
        if (!datagram)
            uvcc_link_stream_opened(f.l, f.now);
        assert_int_equal(feed_piece(&f, 60000, 2, UVCC_MSG_MAX_BYTES, 0, 1000), 0);
        assert_true(f.mem.live_bytes - bytes > UVCC_MSG_MAX_BYTES);
        end(&f);
    }
}

/* A data frame that not every path carries is refused, before its seal. */
static void long_datagram_frames(void **state) {
    (void)state;
    fill_content();
    fix f;
    begin(&f, true, 1, NULL);
    sent(&f, NULL, 0);
    const uint32_t most = 1232 - UVCC_FRAME_HEADER_BYTES - UVCC_FRAME_SEAL_BYTES;
    assert_int_equal(feed_piece(&f, 1, 1, 3000, 0, most + 1), 0);
    assert_int_equal(stats(&f).refused, 1);
    assert_int_equal(feed_piece(&f, 1, 1, 3000, 0, most), 0);
    assert_int_equal(stats(&f).refused, 1);
    end(&f);
}

/* Frames that go out meanwhile do not put off the timeout of those that nobody answered. */
static void silence_is_not_put_off(void **state) {
    (void)state;
    fix f;
    begin(&f, true, 0, NULL);
    sent(&f, NULL, 0);
    grant(&f);
    for (uint32_t id = 1; id <= 500; id++) {
        message(&f, UVCC_FRAME_OPEN_BATCH, 100, id, 0);
        sent(&f, NULL, 0);
        f.now += SIM_MS;
        uvcc_link_on_timer(f.l, f.now);
    }
    assert_true(stats(&f).retransmissions > 0);
    end(&f);
}

/* A transmit is out, or a part of it was taken, for ever: what only a poll could send does not make
 * deadlines that have passed. */
static void deadlines_while_a_transmit_is_out(void **state) {
    (void)state;
    fill_content();
    for (unsigned k = 0; k < 3; k++) {
        fix f;
        begin(&f, k == 0, 1, NULL);
        sent(&f, NULL, 0);
        grant(&f);
        message(&f, UVCC_FRAME_OPEN_BATCH, 1000, 1, 0);
        uvcc_transmit t, more;
        assert_int_equal(uvcc_link_poll_transmit(f.l, &t, f.now), 1);
        if (k == 2) /* the socket is full */
            assert_int_equal(uvcc_link_transmit_done(f.l, t.id, 1, f.now), 0);
        assert_int_equal(feed_piece(&f, 1, 1, 10, 0, 10), 0);
        expect_message(&f, 1, 10);
        unsigned wakeups = 0;
        for (uint64_t until = f.now + 30000 * SIM_MS; wakeups < 1000; wakeups++) {
            uint64_t at = uvcc_link_next_deadline(f.l);
            if (at > until)
                break;
            assert_true(at > f.now);
            f.now = at;
            uvcc_link_on_timer(f.l, f.now);
            if (k != 2)
                assert_int_equal(uvcc_link_poll_transmit(f.l, &more, f.now), 0);
        }
        assert_true(wakeups < 400);
        if (k == 2)
            assert_int_equal(uvcc_link_poll_transmit(f.l, &t, f.now), 1);
        assert_int_equal(uvcc_link_transmit_done(f.l, t.id, t.total, f.now), 0);
        assert_int_equal(sent_of_kind(&f, UVCC_FRAME_ACK, NULL), 1);
        end(&f);
    }
}

/* A piece that touches what is there makes a range longer, and takes nothing. */
static void pieces_in_order_take_nothing(void **state) {
    (void)state;
    for (unsigned back = 0; back < 2; back++) {
        fix f;
        fill_content();
        begin(&f, true, 0, NULL);
        sent(&f, NULL, 0);
        size_t calls = 0;
        for (uint32_t k = 0; k < 30; k++) {
            assert_int_equal(feed_piece(&f, k + 1, 9, 600, 20 * (back ? 29 - k : k), 20), 0);
            calls = k == 0 ? f.mem.calls : calls;
            assert_int_equal(f.mem.calls, calls);
        }
        expect_message(&f, 9, 600);
        end(&f);
    }
}

/* More gaps than an ACK has ranges: each tells as many as it holds, and where one ends the next
 * goes on, so that a few tell all, with nothing new in between. */
static void more_gaps_than_an_ack_holds(void **state) {
    (void)state;
    enum { GAPS = 300, ACKS = 14 };
    fix f;
    begin(&f, true, 0, NULL);
    sent(&f, NULL, 0);
    for (uint32_t k = 1; k <= GAPS; k++)
        assert_int_equal(feed_piece(&f, 2 * k, k, 3, 0, 3), 0);
    static uint8_t told[2 * GAPS + 1];
    memset(told, 0, sizeof told);
    unsigned count = 0;
    for (unsigned k = 0; k < ACKS; k++) {
        frame last = {0};
        f.now += SIM_MS;
        assert_int_equal(sent_of_kind(&f, UVCC_FRAME_ACK, &last), 1);
        const uint8_t *p = last.bytes + 64;
        const uint32_t ranges = uvcci_ld16(p + 44);
        assert_true(ranges == 32 || (k != 0 && ranges < 32)); /* fewer where the last gap is */
        for (uint32_t i = 0; i < ranges; i++) {
            const uint64_t n = uvcci_ld64(p + 46 + 16 * i) - seq(&f, 0);
            assert_true(n % 2 == 0 && n <= 2 * GAPS);
            assert_int_equal(uvcci_ld64(p + 54 + 16 * i), seq(&f, n));
            count += told[n] == 0;
            told[n] = 1;
        }
        assert_int_equal(feed_piece(&f, 2, 1, 3, 0, 3), 0); /* came before: one more ACK */
    }
    assert_int_equal(count, GAPS);
    end(&f);
}

/* ---- what once only a reader of the code knew ---- */

static void few_opens(uvcc_link_config *c) {
    c->suspicious_max = 64;
}

/* A control frame under the right header, with a tag that is not right. */
static void feed_forged(fix *f) {
    uvcc_frame_header h = control_header(f, UVCC_FRAME_ACK, 46);
    const size_t n = make(f, &h, content, wire);
    wire[n - 1] ^= 1;
    uvcci_st32(wire + 60, uvcc_frame_crc(wire, wire + 64, h.payload_len));
    assert_int_equal(uvcc_link_feed(f->l, wire, n, f->now), 0);
}

/* An authentic control frame gives one failed open back, once: replays of it, PINGs and ACKs that
 * are old news give nothing, or whoever has one such frame forges as much as it likes. */
static void replayed_controls_give_nothing_back(void **state) {
    (void)state;
    for (unsigned what = 0; what < 3; what++) {
        fix f;
        begin(&f, true, 2, few_opens);
        sent(&f, NULL, 0);
        const ack a = {.cum = seq(&f, 0), .credit = {1000, 1000}};
        const uint8_t number[4] = {1};
        const uvcc_frame_header ping = control_header(&f, UVCC_FRAME_PING, 4);
        for (unsigned k = 0; k < 40; k++)
            feed_forged(&f);
        assert_int_equal(stats(&f).refused, 40);
        assert_int_equal(feed_ack_counter(&f, &a, 5), 0);
        for (unsigned k = 0; k < 30; k++)
            assert_int_equal(what == 0   ? feed_ack_counter(&f, &a, 5)
                             : what == 1 ? feed_ack_counter(&f, &a, 4)
                                         : feed_frame(&f, &ping, number),
                             0);
        for (unsigned k = 0; k < 100; k++)
            feed_forged(&f);
        assert_int_equal(stats(&f).refused, 64 + 1);
        assert_int_equal(stats(&f).suspicious_dropped, 40 + 100 - 64 - 1);
        end(&f);
    }
}

typedef struct sometimes {
    uint64_t state;
    bool fails;
} sometimes;

static int sometimes_fill(void *user, void *out, size_t bytes) {
    sometimes *r = user;
    test_rand_bytes(&r->state, out, bytes);
    return r->fails ? -1 : 0;
}

static sometimes randomness;

static void random_sometimes(uvcc_link_config *c) {
    c->random = (uvcc_random){.fill = sometimes_fill, .user = &randomness};
}

/* A sealed HELLO needs a nonce. Without one nothing goes out, and it stays due. */
static void hello_waits_for_randomness(void **state) {
    (void)state;
    for (unsigned datagram = 0; datagram < 2; datagram++) {
        fix f;
        frame last;
        randomness = (sometimes){.state = 1};
        begin(&f, datagram != 0, 2, random_sometimes);
        sent(&f, NULL, 0);
        randomness.fails = true;
        assert_int_equal(uvcc_link_send_hello(f.l, content, 33, true), 0);
        for (unsigned k = 0; k < 5; k++) {
            assert_int_equal(sent(&f, NULL, 0), 0);
            const uint64_t next = uvcc_link_next_deadline(f.l);
            assert_true(next > f.now && next <= f.now + 2 * SIM_MS);
            f.now = next;
            uvcc_link_on_timer(f.l, f.now);
        }
        randomness.fails = false;
        assert_int_equal(sent_of_kind(&f, UVCC_FRAME_HELLO, &last), 1);
        assert_int_equal(last.h.payload_len, 33 + 40);
        assert_int_equal(sent_of_kind(&f, UVCC_FRAME_HELLO, NULL), 0);
        end(&f);
    }
}

static void roomy(uvcc_link_config *c) {
    c->tx_online_bytes = c->tx_keys_bytes = 3u << 20;
    c->rx_online_bytes = c->rx_keys_bytes = 2u << 20;
}

/* Both classes filled in both directions with the shortest messages, which cost most beside their
 * bytes, and a window of them on their way: stats() holds what that takes to the bound. */
static void bound_with_both_classes(void **state) {
    (void)state;
    static const uint8_t kind[2] = {UVCC_FRAME_OPEN_BATCH, UVCC_FRAME_KEYS_BATCH};
    fix f;
    begin(&f, true, 0, roomy);
    sent(&f, NULL, 0);
    grant(&f);
    for (uint32_t k = 0; k < 2 * (3u << 20) / 64; k++) {
        uvcc_link_msg *m;
        const uint32_t id = 4;
        assert_int_equal(uvcc_link_msg_new(f.l, kind[k % 2], 0, &m), 0);
        assert_int_equal(uvcc_link_send(f.l, m, f.step, k + 1, &id, k, f.now), 0);
    }
    for (uint32_t k = 0; k < 65535; k++) {
        uvcc_frame_header h = data_header(&f, k + 2, k + 1, 0, 0, 0); /* the first seq is missing */
        h.kind = kind[k % 2];
        assert_int_equal(feed_frame(&f, &h, content), 0);
    }
    assert_int_equal(stats(&f).refused, 0);
    uvcc_link_free(f.l);
    assert_int_equal(f.mem.live_bytes, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_in_order_take_nothing),
        cmocka_unit_test(more_gaps_than_an_ack_holds),
        cmocka_unit_test(replayed_controls_give_nothing_back),
        cmocka_unit_test(hello_waits_for_randomness),
        cmocka_unit_test(bound_with_both_classes),
        cmocka_unit_test(received_long_before_accepted),
        cmocka_unit_test(acceptance_is_asked_for),
        cmocka_unit_test(nothing_taken_before_a_seal),
        cmocka_unit_test(long_datagram_frames),
        cmocka_unit_test(deadlines_while_a_transmit_is_out),
        cmocka_unit_test(silence_is_not_put_off),
        cmocka_unit_test(configuration),
        cmocka_unit_test(frames_as_specified),
        cmocka_unit_test(order_within_a_class),
        cmocka_unit_test(urgent_overtakes),
        cmocka_unit_test(credit_is_for_whole_messages),
        cmocka_unit_test(peer_never_acks),
        cmocka_unit_test(pieces_in_any_order),
        cmocka_unit_test(ack_after_acceptance),
        cmocka_unit_test(acks_of_streams_do_not_wait),
        cmocka_unit_test(replays),
        cmocka_unit_test(peer_begins_for_ever),
        cmocka_unit_test(reassembly_limits),
        cmocka_unit_test(hostile_headers),
        cmocka_unit_test(sealed_before_keys),
        cmocka_unit_test(hello_before_keys),
        cmocka_unit_test(flips_and_truncations),
        cmocka_unit_test(hostile_acks),
        cmocka_unit_test(pings),
        cmocka_unit_test(signs_of_life),
        cmocka_unit_test(what_is_on_its_way),
        cmocka_unit_test(hellos),
        cmocka_unit_test(steps),
        cmocka_unit_test(every_split),
        cmocka_unit_test(broken_streams),
        cmocka_unit_test(idle_is_small_and_quiet),
        cmocka_unit_test(window_is_kept),
        cmocka_unit_test(acks_tell_all_and_only_the_truth),
        cmocka_unit_test(resent_frames),
        cmocka_unit_test(message_freed_under_a_transmit),
    };
    return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
