/* SPDX-License-Identifier: Apache-2.0 */
/* Every limit that stands against a hostile peer, hit: by floods of one who has no keys, and by a
 * party that has them all and sends what it likes. docs/limits.md is the table of these limits. */
#include "triangle.h"

#include "exec/runtime/core.h"
#include "proto/bytes.h"
#include "proto/ids.h"

#define MS UINT64_C(1000000)

enum { IN_X = 1, OUT_X = 2, COLS = 3 };

static uvcc_program *sum_program(test_alloc *mem) {
    uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    char why[256] = "";
    uvcc_tensor_desc d = {.name = "x",
                          .rows = 1,
                          .cols = COLS,
                          .bits = 20,
                          .scale = 10,
                          .lifetime = UVCC_TRANSIENT,
                          .in_buffer_of = UVCC_NO_TENSOR};
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    int x = uvcc_program_tensor(p, &d);
    assert_true(x >= 0);
    assert_true(uvcc_program_entry(p, "one") >= 0);
    assert_true(uvcc_program_input(p, IN_X, (uint32_t)x, 1) >= 0); /* P1's */
    assert_true(uvcc_program_output(p, OUT_X, (uint32_t)x) >= 0);
    assert_int_equal(uvcc_program_finish(p, why, sizeof why), 0);
    return p;
}

typedef struct fix {
    triangle t;
    test_alloc mem;
    uvcc_program *p;
    uint64_t seed, now; /* now: of what is done past the network */
    uint64_t kept;      /* pieces fed by hand that P0 keeps */
} fix;

static void begin(fix *f, bool datagram, void (*tweak)(uvcc_config *cfg)) {
    memset(f, 0, sizeof *f);
    f->seed = 77;
    f->p = sum_program(&f->mem);
    triangle_open(&f->t, f->p,
                  &(triangle_options){.seed = 3, .datagram = datagram, .tweak = tweak});
}
static void begin_ready(fix *f, bool datagram, void (*tweak)(uvcc_config *cfg)) {
    begin(f, datagram, tweak);
    triangle_ready(&f->t);
    f->now = uvcc_loopback_now(f->t.net);
}
static void end(fix *f) {
    triangle_free(&f->t);
    uvcc_program_free(f->p);
}

static void agree(fix *f, uint32_t step) {
    static const int64_t v[COLS] = {5, -6, 7};
    triangle_agree(&f->t, step, 0);
    triangle_input(&f->t, 1, step, IN_X, v);
}
/* An honest step gets through. */
static void whole_step(fix *f, uint32_t step) {
    uvcc_loopback_advance(f->t.net, f->now);
    agree(f, step);
    triangle_finish(&f->t, step + 1);
    assert_int_equal(uvcc_session_output(f->t.s[0], step, OUT_X)[1], -6);
    f->now = uvcc_loopback_now(f->t.net);
}

static uvcc_link *link_to_1(const fix *f) {
    return f->t.s[0]->peer[1].link;
}
static uvcc_link_stats link_stats(const fix *f) {
    uvcc_link_stats s;
    uvcc_link_get_stats(link_to_1(f), &s);
    return s;
}
static uint64_t dropped(const fix *f) {
    uvcc_session_stats s;
    uvcc_session_get_stats(f->t.s[0], &s);
    return s.suspicious_dropped;
}

/* ---- frames from P1 to P0, made by hand ---- */

static uvcc_frame_header data_head(const fix *f, uint64_t ahead, uint32_t op_id, uint32_t msg_len,
                                   uint32_t offset, uint32_t piece) {
    return (uvcc_frame_header){.kind = UVCC_FRAME_OPEN_BATCH,
                               .src = 1,
                               .flags = UVCC_FRAME_SEALED,
                               .sid_tag = f->t.s[0]->sid_tag,
                               .seq = ((uint64_t)f->t.s[0]->run << 40) + link_stats(f).messages_rx +
                                      f->kept + ahead, /* all messages are one frame */
                               .step = f->t.s[0]->step,
                               .op_id = op_id,
                               .msg_id = 9,
                               .chunk_cnt = 1,
                               .msg_len = msg_len,
                               .offset = offset,
                               .payload_len = piece + UVCC_FRAME_SEAL_BYTES};
}
static uvcc_frame_header control_head(const fix *f, uint8_t kind, uint32_t len, bool sealed) {
    return (uvcc_frame_header){.kind = kind,
                               .src = 1,
                               .flags = sealed ? UVCC_FRAME_SEALED : 0,
                               .sid_tag = f->t.s[0]->sid_tag,
                               .chunk_cnt = 1,
                               .msg_len = len,
                               .payload_len = len + (sealed ? UVCC_FRAME_CTL_SEAL_BYTES : 0)};
}

/* payload: as on the wire; NULL: garbage with a right checksum. */
static size_t put(fix *f, const uvcc_frame_header *h, const uint8_t *payload, uint8_t *out) {
    uint8_t *p = out + UVCC_FRAME_HEADER_BYTES;
    uvcc_frame_encode_header(h, out);
    if (payload != NULL)
        memcpy(p, payload, h->payload_len);
    else
        test_rand_bytes(&f->seed, p, h->payload_len);
    uvcci_st32(out + 60, uvcc_frame_crc(out, p, h->payload_len));
    return UVCC_FRAME_HEADER_BYTES + h->payload_len;
}
static void feed(fix *f, const uvcc_frame_header *h, const uint8_t *payload) {
    uint8_t bytes[1300];
    size_t n = put(f, h, payload, bytes);
    assert_int_equal(uvcc_session_feed(f->t.s[0], 1, bytes, n, f->now), 0);
}
/* What no session keeps: the PRK of P0 and P1, made again of what the triangle gave them. */
static void pair_prk(const fix *f, uint8_t prk[32]) {
    const uvcci_hello *a = &f->t.s[0]->hello, *b = &f->t.s[1]->hello;
    uint8_t secret[32], k_ab[32];
    memset(secret, 0x11, sizeof secret);
    uvcci_derive_session_key(a->cfg.n, b->cfg.n, secret, a->cfg.sid_job, a->run, 0, 1, k_ab);
    uvcci_derive_prk(a->cfg.sid_sub, k_ab, prk);
}

/* Sealed under the keys of the pair. */
static void feed_sealed(fix *f, const uvcc_frame_header *h, const uint8_t *piece) {
    const uvcc_session *evil = f->t.s[1];
    uint8_t head[64], body[1300], key[32], prk[32], chain[32];
    uvcc_frame_encode_header(h, head);
    pair_prk(f, prk);
    if (uvcc_frame_kind_class(h->kind) == UVCC_CLASS_CONTROL) {
        memset(body, 0x77, 24);
        uvcci_derive_ctl_key(prk, evil->run, 1, 0, key);
        assert_int_equal(uvcci_xaead_seal(key, body, head, 52, piece, h->msg_len, body + 24), 0);
    } else {
        uvcci_aead a;
        size_t n = h->payload_len - UVCC_FRAME_SEAL_BYTES;
        uvcci_derive_chain(prk, evil->hello.step, evil->run, chain);
        for (uint64_t at = evil->hello.step; at < h->step; at++)
            uvcci_ratchet(chain, at + 1, evil->run);
        uvcci_derive_frame_key(chain, h->step, evil->run, 1, 0, 0, key);
        assert_int_equal(uvcci_aead_init(&a, evil->hello.suite, key), 0);
        assert_int_equal(uvcci_aead_seal(&a, h->seq, head, 52, piece, n, body, body + n), 0);
        uvcci_aead_free(&a);
    }
    uint64_t refused = link_stats(f).refused;
    feed(f, h, body);
    f->kept +=
        uvcc_frame_kind_class(h->kind) != UVCC_CLASS_CONTROL && link_stats(f).refused == refused;
}

/* Takes what P0 sends to P1 now; the number of its frames of one kind. It goes nowhere. */
static size_t taken(fix *f, uint8_t kind) {
    static uint8_t buf[1 << 16];
    uvcc_transmit tx;
    size_t found = 0;
    while (uvcc_session_poll_transmit(f->t.s[0], &tx, f->now) == 1) {
        size_t len = 0;
        for (uint32_t i = 0; i < tx.slice_count; i++) {
            assert_true(len + tx.slices[i].len <= sizeof buf);
            memcpy(buf + len, tx.slices[i].data, tx.slices[i].len);
            len += tx.slices[i].len;
        }
        for (size_t at = 0; at < len;) {
            uvcc_frame_header h;
            const uint8_t *payload;
            ptrdiff_t k = uvcc_frame_decode(buf + at, len - at, &h, &payload, NULL);
            assert_true(k > 0);
            found += h.kind == kind && h.dst == 1;
            at += (size_t)k;
        }
        assert_int_equal(uvcc_session_transmit_done(f->t.s[0], tx.peer, tx.id, len, f->now), 0);
    }
    return found;
}

/* ---- floods without keys ---- */

static void few_opens(uvcc_config *c) {
    c->links.suspicious_max = 64;
    c->links.rx_messages_max = 1024;
    c->links.rx_online_bytes = 4u << 20;
}

/* Forged data frames: those far from what is next open half of the limit, whatever their number,
 * and honest frames still get through in the same window; near ones open the rest. */
static void forged_data(void **state) {
    (void)state;
    fix f;
    begin_ready(&f, true, few_opens);
    for (unsigned k = 0; k < 1000; k++) {
        uvcc_frame_header h = data_head(&f, 5000 + k, k, 100, 0, 10);
        feed(&f, &h, NULL);
    }
    uint64_t opened = link_stats(&f).refused;
    assert_in_range(opened, 30, 34);
    assert_int_equal(dropped(&f), 1000 - opened);
    whole_step(&f, 0);
    assert_true(f.now < 900 * MS);
    uint64_t before = link_stats(&f).refused, lost = dropped(&f);
    for (unsigned k = 0; k < 1000; k++) {
        uvcc_frame_header h = data_head(&f, 1 + k % 50, k, 100, 0, 10);
        feed(&f, &h, NULL);
    }
    opened = link_stats(&f).refused - before;
    assert_in_range(opened, 32, 64);
    assert_int_equal(dropped(&f) - lost, 1000 - opened);
    whole_step(&f, 1); /* with the tokens of the time it takes */
    assert_null(uvcc_link_violation(link_to_1(&f)));
    end(&f);
}

/* While no more is forged than is honest nothing is dropped, for ever. */
static void forged_between_honest(void **state) {
    (void)state;
    fix f;
    begin_ready(&f, true, few_opens);
    uint8_t zeros[10] = {0};
    for (unsigned k = 0; k < 1000; k++) {
        uvcc_frame_header h = data_head(&f, 1, k, 100, 0, 10);
        feed(&f, &h, NULL);
        feed_sealed(&f, &h, zeros); /* a piece that is kept */
    }
    assert_int_equal(dropped(&f), 0);
    assert_int_equal(link_stats(&f).refused, 1000);
    end(&f);
}

static void forged_control(void **state) {
    (void)state;
    static const uint8_t kinds[] = {UVCC_FRAME_ACK, UVCC_FRAME_PING, UVCC_FRAME_HELLO};
    for (unsigned i = 0; i < 3; i++) {
        fix f;
        begin_ready(&f, true, few_opens);
        for (unsigned k = 0; k < 1000; k++) {
            uvcc_frame_header h = control_head(&f, kinds[i], 54, true);
            feed(&f, &h, NULL);
        }
        assert_int_equal(link_stats(&f).refused, 64);
        assert_int_equal(dropped(&f), 936);
        whole_step(&f, 0);
        end(&f);
    }
}

/* A sealed HELLO is no reason to end a stream, so the limit holds there too. */
static void forged_hello_on_stream(void **state) {
    (void)state;
    fix f;
    begin_ready(&f, false, few_opens);
    for (unsigned k = 0; k < 1000; k++) {
        uvcc_frame_header h = control_head(&f, UVCC_FRAME_HELLO, 33, true);
        feed(&f, &h, NULL);
    }
    assert_int_equal(link_stats(&f).refused, 64);
    assert_int_equal(dropped(&f), 936);
    whole_step(&f, 0);
    end(&f);
}

/* Frames of other sessions and runs: over the limit they take their packet with them. */
static void strays(void **state) {
    (void)state;
    for (unsigned run = 0; run < 2; run++) {
        fix f;
        begin_ready(&f, true, few_opens);
        for (unsigned k = 0; k < 1000; k++) {
            uvcc_frame_header h = data_head(&f, 1, k, 10, 0, 10);
            if (run)
                h.seq += UINT64_C(1) << 40;
            else
                h.sid_tag++;
            uint8_t bytes[1300];
            size_t n = put(&f, &h, NULL, bytes);
            n += put(&f, &h, NULL, bytes + n);
            assert_int_equal(uvcc_session_feed(f.t.s[0], 1, bytes, n, f.now), 0);
        }
        uvcc_link_stats s = link_stats(&f);
        uint64_t seen = run ? s.stale_run : s.foreign;
        assert_int_equal(seen, 1000 + 16);
        assert_int_equal(dropped(&f), 1000 - 16);
        whole_step(&f, 0);
        end(&f);
    }
}

/* PINGs and frames that were here before, replayed at line rate: one ACK per ack_delay. */
static void replays_are_answered_slowly(void **state) {
    (void)state;
    for (unsigned what = 0; what < 2; what++)
        for (unsigned datagram = 0; datagram < 2; datagram++) {
            fix f;
            begin_ready(&f, datagram != 0, NULL);
            whole_step(&f, 0);
            static const uint8_t zeros[4];
            size_t acks = 0;
            taken(&f, UVCC_FRAME_ACK);
            for (unsigned k = 0; k < 10000; k++, f.now += MS / 1000) {
                if (what == 0) {
                    uvcc_frame_header h = control_head(&f, UVCC_FRAME_PING, 4, true);
                    feed_sealed(&f, &h, zeros);
                } else {
                    uvcc_frame_header h = data_head(&f, 0, 1, 900, 0, 900);
                    feed(&f, &h, NULL); /* not even opened */
                }
                acks += taken(&f, UVCC_FRAME_ACK);
            }
            assert_in_range(acks, datagram != 0 ? 25 : 3, datagram != 0 ? 51 : 6); /* in 10 ms */
            assert_int_equal(link_stats(&f).duplicates >= 10000, what == 1);
            end(&f);
        }
}

/* ---- HELLO ---- */

/* Known HELLO 1 and 2 at line rate, after READY. */
static void hello_replayed(void **state) {
    (void)state;
    for (unsigned which = 1; which <= 2; which++) {
        fix f;
        begin_ready(&f, which == 1, NULL);
        taken(&f, UVCC_FRAME_HELLO);
        size_t answers = 0;
        const uvcci_hello_peer *p = &f.t.s[0]->hello.peer[1];
        for (unsigned k = 0; k < 10000; k++, f.now += MS / 10) {
            uvcc_frame_header h = control_head(&f, UVCC_FRAME_HELLO, which == 1 ? 452 : 108, false);
            feed(&f, &h, which == 1 ? p->hello1 : p->their2);
            answers += taken(&f, UVCC_FRAME_HELLO);
        }
        /* In 1 s of 200 ms / 4: HELLO 1 and 2, or 3. */
        size_t each = 4 + 20;
        assert_in_range(answers, 10, which == 1 ? 2 * each : each);
        end(&f);
    }
}

/* Forged HELLO 1 with ever new N, before the true ones came: begun again and again, at our own
 * pace. */
static void hello_forged(void **state) {
    (void)state;
    fix f;
    begin(&f, true, NULL);
    size_t sent = 0, bytes = f.t.s[0]->meter.bytes;
    for (unsigned k = 0; k < 10000; k++, f.now += MS / 10) {
        for (uint8_t p = 1; p < 3; p++) {
            uint8_t hello1[452], out[600];
            memcpy(hello1, f.t.s[p]->hello.hello1, sizeof hello1);
            test_rand_bytes(&f.seed, hello1 + 84, 32);
            uvcc_frame_header h = control_head(&f, UVCC_FRAME_HELLO, 452, false);
            h.src = p;
            size_t n = put(&f, &h, hello1, out);
            assert_int_equal(uvcc_session_feed(f.t.s[0], p, out, n, f.now), 0);
        }
        sent += taken(&f, UVCC_FRAME_HELLO);
        assert_true(f.t.s[0]->meter.bytes <= bytes + 40000); /* two links' buffers */
    }
    assert_in_range(sent, 10, 2 * (4 + 20));
    end(&f);
}

static void exchanged(uvcc_config *c) {
    static uint8_t key[3][32]; /* of the sign seeds that the triangle gives */
    c->identity.exchange_x25519 = true;
    for (uint8_t p = 0; p < 3; p++) {
        uint8_t seed[32], sk[64];
        memset(seed, 0x40 + p, sizeof seed);
        uvcci_sign_keypair(seed, key[p], sk);
        memcpy(c->identity.peer_sign_key[p], key[p], 32);
    }
}

/* HELLO 2 that is right but for its signature: 64 are verified, then the true one gets its turn. */
static void signatures_forged(void **state) {
    (void)state;
    fix f;
    begin(&f, true, exchanged);
    uvcci_hello *h0 = &f.t.s[0]->hello;
    for (uint8_t p = 1; p < 3; p++)
        assert_int_equal(uvcci_hello_input(h0, p, f.t.s[p]->hello.hello1, 452, false, 0), 0);
    uint8_t hello2[108];
    memcpy(hello2, h0->peer[1].hello2, sizeof hello2);
    uint64_t each = h0->cfg.repeat_ns / 64;
    for (unsigned k = 0; k < 1000; k++) {
        test_rand_bytes(&f.seed, hello2 + 44, 64);
        assert_int_equal(uvcci_hello_input(h0, 1, hello2, 108, false, 0), UVCC_ERR_MISMATCH);
    }
    assert_int_equal(h0->forged[1], 64 * each); /* so many were looked at */
    assert_int_equal(h0->forged[2], 0);
    triangle_ready(&f.t);
    end(&f);
}

/* ---- reassembly ---- */

static void small_tables(uvcc_config *c) {
    c->links.rx_messages_max = 100;
    c->links.rx_ranges_max = 4;
}
static void too_few_messages(uvcc_config *c) {
    c->links.rx_messages_max = 1;
}

static void reassembly(void **state) {
    (void)state;
    fix f;
    uint8_t zeros[10] = {0};
    begin_ready(&f, true, small_tables);
    for (unsigned k = 0; k < 300; k++) {
        uvcc_frame_header h = data_head(&f, 1, k, 100, 0, 10);
        feed_sealed(&f, &h, zeros);
    }
    assert_int_equal(link_stats(&f).refused, 200);
    assert_int_equal(f.t.s[0]->state, UVCCI_SESSION_READY);
    end(&f);
    begin_ready(&f, true, small_tables);
    for (unsigned k = 0; k < 40; k++) {
        uvcc_frame_header h = data_head(&f, 1 + k, 1, 1000, 20 * k, 10);
        h.seq = ((uint64_t)f.t.s[0]->run << 40) + 10 + k;
        feed_sealed(&f, &h, zeros);
    }
    assert_int_equal(link_stats(&f).refused, 40 - 5); /* four gaps are five ranges */
    assert_int_equal(f.t.s[0]->state, UVCCI_SESSION_READY);
    end(&f);
    /* Less than the program needs is refused. */
    test_alloc mem = {0};
    uvcc_program *p = sum_program(&mem);
    uvcc_session *s;
    uint64_t seed = 1;
    uvcc_config c = triangle_config_alone(&mem, &seed);
    too_few_messages(&c);
    assert_int_equal(uvcc_session_new(&s, &c), 0);
    assert_int_equal(uvcc_session_load_program(s, p), UVCC_ERR_LIMIT);
    uvcc_session_free(s);
    uvcc_program_free(p);
}

/* ---- a party that has the keys ---- */

/* P1's own link, right ids, and whatever it likes in it. */
static void evil_send(fix *f, uint8_t kind, uint32_t step, uint32_t op_id, const void *data,
                      uint32_t len) {
    uvcc_session *evil = f->t.s[1];
    uvcc_link_msg *m;
    uint32_t id = uvcci_msg_id(kind, evil->sid_sub, op_id, 1, 0, 0, 1);
    assert_int_equal(uvcc_link_msg_new(evil->peer[0].link, kind, len, &m), 0);
    memcpy(uvcc_link_msg_data(m), data, len);
    assert_int_equal(uvcc_link_send(evil->peer[0].link, m, step, op_id, &id, 0, evil->now), 0);
}
static void expect_abort(fix *f, uint16_t reason) {
    while (f->t.aborted[0] == 0)
        if (!triangle_turn(&f->t))
            fail_msg("no abort");
    assert_int_equal(f->t.aborted[0], reason);
    end(f);
}

static void audits(void **state) {
    (void)state;
    for (unsigned what = 0; what < 3; what++) {
        fix f;
        uint8_t bytes[UVCCI_AUDIT_BYTES];
        begin_ready(&f, false, NULL);
        whole_step(&f, 0);
        while (f.t.audits[0] < 2)
            assert_true(triangle_turn(&f.t));
        uvcci_audit_msg_t a = f.t.s[0]->peer[1].audit[0]; /* again */
        if (what == 1)
            a.step = 5; /* long before its time */
        if (what == 2)
            a.party = 2; /* another's */
        assert_true(uvcci_audit_encode(&a, bytes, sizeof bytes) > 0);
        evil_send(&f, UVCC_FRAME_AUDIT, 0, 0, bytes, sizeof bytes);
        expect_abort(&f, UVCC_ABORT_AUDIT);
    }
}

static void proposals(void **state) {
    (void)state;
    static const uint32_t far[] = {0, 2, 4, 1u << 31, UINT32_MAX};
    for (unsigned what = 0; what < 5; what++) {
        fix f;
        begin_ready(&f, false, NULL);
        uvcci_step_msg m;
        uint8_t bytes[UVCCI_STEP_MAX_BYTES];
        memset(&m, 0, sizeof m);
        m.step = far[what];
        int n = uvcci_step_encode(&m, bytes, sizeof bytes);
        assert_true(n > 0);
        for (unsigned k = 0; k < 2; k++) /* of step 0: twice */
            evil_send(&f, UVCC_FRAME_STEP, 0, 0, bytes, (uint32_t)n);
        expect_abort(&f, UVCC_ABORT_STEP);
    }
}

/* A thousand BYEs, to a host that polls nothing (so the network is driven without the triangle,
 * which polls): one event, no memory, and an honest end. */
static void byes(void **state) {
    (void)state;
    fix f;
    begin_ready(&f, false, NULL);
    uvcc_session *s = f.t.s[0];
    uint8_t bye[2] = {0, 0};
    size_t most = s->meter.bytes;
    for (unsigned k = 0; k < 1000; k++) {
        evil_send(&f, UVCC_FRAME_BYE, 0, 0, bye, 2);
        for (unsigned turn = 0; turn < 4; turn++) /* so that time goes on */
            assert_true(uvcc_loopback_drive(f.t.net, f.t.s, f.t.cpu, 3) >= 0);
        assert_true(s->event_count <= 1);
        assert_true(s->meter.bytes <= most + 4 * 4096);
    }
    assert_int_equal(s->event_count, 1);
    assert_true(s->peer[1].bye);
    triangle_close(&f.t);
    end(&f);
}

static void unknown_op(void **state) {
    (void)state;
    for (unsigned known_step = 0; known_step < 2; known_step++) {
        fix f;
        uint8_t zeros[16] = {0};
        begin_ready(&f, false, NULL);
        if (known_step)
            agree(&f, 0);
        while (known_step && f.t.started[0] == 0)
            assert_true(triangle_turn(&f.t));
        evil_send(&f, UVCC_FRAME_OPEN_BATCH, 0, 12345, zeros, sizeof zeros);
        expect_abort(&f, UVCC_ABORT_UNKNOWN_OP);
    }
}

/* A place that P1's message has taken already takes no other. */
static void batch_again(void **state) {
    (void)state;
    fix f;
    begin_ready(&f, false, NULL);
    agree(&f, 0);
    uvcci_instance *r = NULL;
    while (r == NULL) {
        assert_true(triangle_turn(&f.t));
        uvcci_step *st = &f.t.s[0]->ctx[0];
        assert_true(st->active);
        for (uint32_t i = 0; r == NULL && i < st->entry->op_count; i++)
            for (unsigned k = 0; k < st->instances[i].plan->round_count; k++)
                if (st->instances[i].rounds[k].seen[0] != 0) {
                    r = &st->instances[i];
                    break;
                }
    }
    uint8_t zeros[16] = {0};
    uint8_t kind =
        r->op->desc.opcode == UVCC_OP_INPUT ? UVCC_FRAME_INPUT_BATCH : UVCC_FRAME_OPEN_BATCH;
    evil_send(&f, kind, 0, r->op_id, zeros, sizeof zeros);
    expect_abort(&f, UVCC_ABORT_PLAN);
}

/* Batches of a finished step: dropped by the link, never acknowledged, nothing kept. */
static void batch_of_the_past(void **state) {
    (void)state;
    fix f;
    uint8_t zeros[16] = {0};
    begin_ready(&f, true, NULL);
    whole_step(&f, 0);
    whole_step(&f, 1);
    uvcc_link_stats was = link_stats(&f);
    for (unsigned k = 0; k < 1000; k++) {
        uvcc_frame_header h = data_head(&f, 1 + k, 12345 + k, 16, 0, 16);
        h.step = 0;
        feed_sealed(&f, &h, zeros);
    }
    assert_int_equal(link_stats(&f).refused - was.refused, 1000);
    assert_int_equal(link_stats(&f).memory_bytes, was.memory_bytes);
    assert_int_equal(f.t.s[0]->state, UVCCI_SESSION_READY);
    whole_step(&f, 2);
    end(&f);
}

/* A message beyond the credit that P0 granted. */
static void beyond_credit(void **state) {
    (void)state;
    fix f;
    uint8_t zeros[10] = {0};
    begin_ready(&f, true, NULL);
    while (uvcc_link_violation(link_to_1(&f)) == NULL) {
        uvcc_frame_header h = data_head(&f, 1, 1, 1u << 20, 0, 10);
        h.op_id = (uint32_t)test_rand(&f.seed);
        feed_sealed(&f, &h, zeros);
        uvcc_link_stats s = link_stats(&f);
        assert_true(s.memory_bytes <= uvcc_link_memory_bound(link_to_1(&f)));
    }
    expect_abort(&f, UVCC_ABORT_FRAME);
}

/* ---- of our own ---- */

static void few_leaves(uvcc_config *c) {
    if (c->identity.party == 0)
        c->limits.leaves_max = 2;
}
static void few_jobs(uvcc_config *c) {
    c->limits.jobs_max = 4;
}

static void leaves(void **state) {
    (void)state;
    fix f;
    begin_ready(&f, false, few_leaves);
    agree(&f, 0);
    expect_abort(&f, UVCC_ABORT_MEMORY);
}

static void jobs(void **state) {
    (void)state;
    fix f;
    begin_ready(&f, false, few_jobs);
    agree(&f, 0);
    while (f.t.finished[0] == 0) {
        assert_true(triangle_turn(&f.t));
        assert_true(f.t.s[0]->jobs.out <= 4);
    }
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forged_data),
        cmocka_unit_test(forged_between_honest),
        cmocka_unit_test(forged_control),
        cmocka_unit_test(forged_hello_on_stream),
        cmocka_unit_test(strays),
        cmocka_unit_test(replays_are_answered_slowly),
        cmocka_unit_test(hello_replayed),
        cmocka_unit_test(hello_forged),
        cmocka_unit_test(signatures_forged),
        cmocka_unit_test(reassembly),
        cmocka_unit_test(audits),
        cmocka_unit_test(proposals),
        cmocka_unit_test(byes),
        cmocka_unit_test(unknown_op),
        cmocka_unit_test(batch_again),
        cmocka_unit_test(batch_of_the_past),
        cmocka_unit_test(beyond_credit),
        cmocka_unit_test(leaves),
        cmocka_unit_test(jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
