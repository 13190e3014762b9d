/* SPDX-License-Identifier: Apache-2.0 */
/* What uvcc_session_memory_bound() says holds too when peers with valid keys send as much as they
 * may: messages that never become whole, in gaps, in frames far apart, whole ones that no plan has,
 * more than the credit, frames of streams that never end; and with triples that the host gives.
 *
 * Parties 0 and 2 lie to party 1. Their frames are sealed with the keys of their own sessions. */
#include "triangle.h"

#include "exec/runtime/core.h"
#include "proto/ids.h"
#include "reseal.h"

enum { LONGEST = UVCC_MSG_MAX_BYTES };
enum { VICTIM = 1, FEED_MAX = 256 << 10, FRAME_MAX = 1 << 16 };

/* What the victim took of its allocator, by class and (last) in all. */
static struct { uint64_t now[5], peak[5]; } count;
static uvcc_config victim;
static void (*tweak_more)(uvcc_config *);

static void *count_alloc(void *user, size_t bytes, uvcc_mem_class cls) {
    const uvcc_allocator *host = user;
    void *p = host->alloc(host->user, bytes, cls);
    for (unsigned k = 0; p != NULL && k < 2; k++) {
        const unsigned i = k == 0 ? (unsigned)cls : 4;
        count.now[i] += bytes;
        count.peak[i] = count.now[i] > count.peak[i] ? count.now[i] : count.peak[i];
    }
    return p;
}

static void count_free(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    const uvcc_allocator *host = user;
    if (p != NULL) {
        count.now[cls] -= bytes;
        count.now[4] -= bytes;
    }
    host->free(host->user, p, bytes, cls);
}

static void tweak(uvcc_config *c) {
    static uvcc_allocator host;
    if (tweak_more != NULL)
        tweak_more(c);
    if (c->identity.party != VICTIM)
        return;
    memset(&count, 0, sizeof count);
    host = uvcc_host_allocator();
    c->alloc = (uvcc_allocator){.alloc = count_alloc, .free = count_free, .user = &host};
    victim = *c;
}

/* Y = X W on a triple, opened. */
static uvcc_program *product(uint32_t n) {
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = test_tensor(p, "X", n, n, 12, 6, UVCC_TRANSIENT);
    const uint32_t w = test_tensor(p, "W", n, n, 12, 6, UVCC_PERSIST);
    const uint32_t y = test_tensor(p, "Y", n, n, 40, 6, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, 0, x, 0) >= 0);
    assert_true(uvcc_program_op(p, &(uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS,
                                                   .flags = UVCC_OP_BEAVER,
                                                   .in_count = 2,
                                                   .in = {x, w},
                                                   .out_count = 1,
                                                   .out = {y},
                                                   .shift = 6}) >= 0);
    assert_true(uvcc_program_output(p, 1, y) >= 0);
    char why[256] = "";
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

/* No class above its part of the bound, nor the sum. */
static void check_bound(const uvcc_program *p, const char *what) {
    uvcc_memory_bound b;
    uvcc_config c = victim;
    const uvcc_allocator host = uvcc_host_allocator();
    c.alloc = host;
    assert_int_equal(uvcc_session_memory_bound(&c, p, &b), 0);
    print_message("%-28s %9.0f KiB of %9.0f; STATE %.2f WIRE %.2f SECRET %.2f TENSOR %.2f\n", what,
                  (double)count.peak[4] / 1024, (double)b.bytes / 1024,
                  (double)b.by_class[0] / (double)count.peak[0],
                  (double)b.by_class[1] / (double)count.peak[1],
                  (double)b.by_class[2] / (double)count.peak[2],
                  (double)b.by_class[3] / (double)count.peak[3]);
    for (unsigned k = 0; k < 4; k++)
        if (count.peak[k] > b.by_class[k])
            fail_msg("%s: class %u takes %llu, bound %llu", what, k,
                     (unsigned long long)count.peak[k], (unsigned long long)b.by_class[k]);
    assert_true(count.peak[4] <= b.bytes);
}

/* ---- lies ---- */

typedef struct liar {
    triangle *t;
    uint8_t party;
    uvcc_link *link; /* its own, to the victim */
    uint64_t seq;    /* of the next frame */
    uint32_t op;     /* names the next message */
    uint8_t bytes[FEED_MAX];
    size_t len;
    bool datagram;
} liar;

/* The victim goes on, and its ACKs grant what was released. */
static void hand_in(liar *l, const uint8_t *data, size_t len) {
    uvcc_event e;
    uvcc_transmit tx;
    uvcc_session *s = l->t->s[VICTIM];
    const uint64_t now = triangle_now(l->t);
    (void)uvcc_session_feed(s, l->party, data, len, now);
    for (unsigned n = 0; n < 8 && uvcc_session_poll_transmit(s, &tx, now) == 1; n++)
        assert_int_equal(uvcc_session_transmit_done(s, tx.peer, tx.id, tx.total, now), 0);
    while (uvcc_session_poll_event(s, &e) == 1)
        ;
}

static void flush(liar *l) {
    if (l->len != 0)
        hand_in(l, l->bytes, l->len);
    l->len = 0;
}

/* A piece of a message, one frame. */
static void say(liar *l, uint8_t kind, uint32_t op, uint32_t msg_len, uint32_t offset,
                uint32_t piece) {
    static uint8_t frame[FRAME_MAX + 1024], plain[FRAME_MAX];
    uvcc_session *s = l->t->s[l->party];
    const uint16_t chunks = (uint16_t)((msg_len + UVCC_CHUNK_BYTES - 1) / UVCC_CHUNK_BYTES);
    const uint16_t at = (uint16_t)(offset / UVCC_CHUNK_BYTES);
    const uvcc_frame_header h = {
        .kind = kind,
        .src = l->party,
        .dst = VICTIM,
        .flags = UVCC_FRAME_SEALED,
        .sid_tag = s->sid_tag,
        .seq = l->seq++,
        .op_id = op,
        .msg_id = uvcci_msg_id(kind, s->sid_sub, op, l->party, VICTIM, at, chunks),
        .chunk_idx = at,
        .chunk_cnt = chunks,
        .msg_len = msg_len,
        .offset = offset};
    const size_t n = reseal_seal(l->link, h, plain, piece, frame);
    assert_true(n != 0);
    if (l->datagram) {
        hand_in(l, frame, n);
        return;
    }
    if (l->len + n > sizeof l->bytes)
        flush(l);
    memcpy(l->bytes + l->len, frame, n);
    l->len += n;
}

static uint32_t room(uint8_t kind) {
    return kind == UVCC_FRAME_KEYS_BATCH ? (uint32_t)victim.links.rx_keys_bytes
                                         : (uint32_t)victim.links.rx_online_bytes;
}

static const uint8_t kinds[] = {UVCC_FRAME_OPEN_BATCH, UVCC_FRAME_KEYS_BATCH};

/* Messages of that length that begin and never end, until the credit is used up. */
static void begin_messages(liar *l, uint32_t len, uint32_t most) {
    for (unsigned k = 0; k < 2; k++)
        for (uint64_t used = 0; used + len + 64 <= room(kinds[k]) && most-- != 0; used += len + 64)
            say(l, kinds[k], l->op++, len, 0, 1);
    flush(l);
}

static void large(liar *l) {
    begin_messages(l, 1u << 20, UINT32_MAX);
}
static void medium(liar *l) {
    begin_messages(l, 5000, UINT32_MAX);
}
static void small(liar *l) {
    begin_messages(l, 2, 20000);
}

/* Bytes here and there: a gap before each. */
static void gaps(liar *l) {
    for (unsigned m = 0; m < 4; m++)
        for (uint32_t at = 1; at < 9000; at += 2)
            say(l, kinds[m % 2], l->op + m, 100000, at, 1);
    l->op += 4;
    flush(l);
}

/* Every other frame of the window is missing. */
static void apart(liar *l) {
    for (uint32_t i = 0; i < 6000; i++) {
        l->seq += 9;
        say(l, kinds[i % 2], l->op++, 40, 0, 1);
    }
    flush(l);
}

/* More than was granted: the session ends, and takes what comes then too. */
static void beyond(liar *l) {
    for (uint32_t i = 0; i < 80; i++)
        say(l, kinds[i % 2], l->op++, 1u << 20, 0, 1);
    flush(l);
}

/* Whole messages that no plan has: the first one ends the session. What they were kept in may be
 * used again, for others of other lengths that never end. */
static void whole(liar *l) {
    enum { PIECES = 32768, COUNT = 12 };
    const uint32_t most = room(UVCC_FRAME_KEYS_BATCH) - 64;
    for (uint32_t m = 0; m < COUNT; m++) {
        const uint32_t op = l->op++, len = (most < LONGEST ? most : LONGEST) - m;
        for (uint32_t at = 0; at < len; at += PIECES)
            say(l, UVCC_FRAME_KEYS_BATCH, op, len, at, len - at < PIECES ? len - at : PIECES);
    }
    flush(l);
    large(l);
}

/* The first half of a frame as long as frames may be. */
static void half(liar *l) {
    static uint8_t frame[(1u << 19)];
    const uvcc_frame_header h = {.kind = UVCC_FRAME_KEYS_BATCH,
                                 .src = l->party,
                                 .dst = VICTIM,
                                 .flags = UVCC_FRAME_SEALED,
                                 .sid_tag = l->t->s[l->party]->sid_tag,
                                 .seq = l->seq,
                                 .op_id = 1,
                                 .chunk_cnt = 1,
                                 .msg_len = 1u << 20,
                                 .payload_len = 1u << 20};
    flush(l);
    uvcc_frame_encode_header(&h, frame);
    hand_in(l, frame, FEED_MAX);
    hand_in(l, frame + FEED_MAX, sizeof frame - FEED_MAX);
}

typedef void attack(liar *l);

static void small_windows(uvcc_config *c) {
    c->links.rx_keys_bytes = c->links.tx_keys_bytes = c->limits.keys_ahead_bytes = 4u << 20;
    c->links.rx_online_bytes = c->links.tx_online_bytes = 2u << 20;
}
static void wide_windows(uvcc_config *c) {
    c->links.rx_keys_bytes = c->links.tx_keys_bytes = c->limits.keys_ahead_bytes = 32u << 20;
    c->links.rx_online_bytes = c->links.tx_online_bytes = 8u << 20;
    c->links.rx_messages_max = 40000;
}

static void huge_windows(uvcc_config *c) {
    c->links.rx_keys_bytes = c->links.tx_keys_bytes = 128u << 20;
    c->links.rx_online_bytes = 2u << 20;
}

static void run_attacks(const uvcc_program *p, const char *what, bool datagram,
                        void (*windows)(uvcc_config *), attack *const *attacks, unsigned n) {
    static liar l[2];
    triangle t;
    tweak_more = windows;
    triangle_open(&t, p, &(triangle_options){.seed = 9, .datagram = datagram, .tweak = tweak});
    triangle_ready(&t);
    triangle_agree(&t, 0, 0);
    for (unsigned k = 0; k < 40; k++)
        (void)triangle_turn(&t);
    for (unsigned k = 0; k < 2; k++) {
        l[k] = (liar){.t = &t, .party = (uint8_t)(2 * k), .op = 1000, .datagram = datagram};
        l[k].link = t.s[l[k].party]->peer[VICTIM].link;
        l[k].seq = reseal_seqs_of(l[k].link).tx_next;
    }
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < 2; k++)
            attacks[i](&l[k]);
    check_bound(p, what);
    triangle_free(&t);
}

static void test_floods(void **state) {
    static const struct {
        const char *what;
        attack *attacks[4];
        unsigned n;
    } floods[] = {
        {"large", {large}, 1},
        {"medium", {medium}, 1},
        {"small", {small}, 1},
        {"gaps", {gaps, medium}, 2},
        {"apart", {apart}, 1},
        {"small, gaps, large", {small, gaps, large}, 3},
        {"beyond", {medium, beyond}, 2},
        {"whole", {whole}, 1},
        {"whole, gaps, small, half", {whole, gaps, small, half}, 4},
        {"large, half", {large, half}, 2},
    };
    (void)state;
    uvcc_program *p = product(3);
    run_attacks(p, "D huge whole", true, huge_windows, (attack *const[]){whole}, 1);
    run_attacks(p, "S huge whole", false, huge_windows, (attack *const[]){whole}, 1);
    for (unsigned wide = 0; wide < 2; wide++)
        for (unsigned datagram = 0; datagram < 2; datagram++)
            for (unsigned i = 0; i < sizeof floods / sizeof floods[0]; i++) {
                char what[80];
                (void)snprintf(what, sizeof what, "%s%s%s", datagram ? "D " : "S ",
                               wide ? "wide " : "", floods[i].what);
                run_attacks(p, what, datagram != 0, wide != 0 ? wide_windows : small_windows,
                            floods[i].attacks, floods[i].n);
            }
    uvcc_program_free(p);
}

/* ---- triples that the host gives, for as many steps as the bound counts on ---- */

enum { RUN = 3, AHEAD = 2, SIDE = 70 };

static void makes(uvcc_config *c) {
    c->triples.only = true;
    c->triples.run = RUN;
    c->resume.next_run = RUN - 1;
}
static void takes(uvcc_config *c) {
    small_windows(c);
    c->resume.next_run = RUN;
    c->checks.bundles = true;
}

static uvcc_triple_store *stores[3];

static void make_triples(const uvcc_program *p, uint32_t steps) {
    const uvcc_allocator al = uvcc_host_allocator();
    triangle t;
    triangle_open(&t, p, &(triangle_options){.seed = 4, .tweak = makes});
    triangle_ready(&t);
    for (uint32_t step = 0; step < steps; step++) {
        triangle_agree(&t, step, 0);
        triangle_finish(&t, step + 1);
        for (unsigned i = 0; i < 3; i++) {
            uint32_t at;
            const uint8_t *data;
            size_t len;
            if (step == 0)
                assert_int_equal(uvcc_triple_store_new(&stores[i], &al), 0);
            assert_int_equal(uvcc_session_triples(t.s[i], &at, &data, &len), 0);
            assert_int_equal(uvcc_triple_store_add(stores[i], data, len), 0);
        }
    }
    triangle_close(&t);
    triangle_free(&t);
}

static void give_triples(triangle *t, uint32_t step) {
    for (unsigned i = 0; i < 3; i++) {
        const uint8_t *data;
        size_t len;
        assert_int_equal(uvcc_triple_store_take(stores[i], RUN, step, &data, &len), 0);
        assert_int_equal(uvcc_session_load_triples(t->s[i], data, len), 0);
    }
}

static void test_given_triples(void **state) {
    enum { STEPS = 6 };
    static int64_t x[SIDE * SIDE];
    (void)state;
    uvcc_program *p = product(SIDE);
    triangle t;
    make_triples(p, STEPS);
    tweak_more = takes;
    triangle_open(&t, p, &(triangle_options){.seed = 6, .tweak = tweak});
    triangle_ready(&t);
    triangle_set_public(&t, (uint32_t)uvcc_program_find(p, "W"), x);
    for (uint32_t m = 0; m < AHEAD; m++)
        give_triples(&t, m);
    for (uint32_t m = 0; m < STEPS; m++) {
        triangle_agree(&t, m, 0);
        triangle_input(&t, 0, m, 0, x);
        if (m >= 1) {
            triangle_finish(&t, m);
            if (m + 1 < STEPS)
                give_triples(&t, m + 1);
        }
    }
    triangle_finish(&t, STEPS);
    triangle_close(&t);
    check_bound(p, "triples given");
    triangle_free(&t);
    for (unsigned i = 0; i < 3; i++)
        uvcc_triple_store_free(stores[i]);
    uvcc_program_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_floods),
                                       cmocka_unit_test(test_given_triples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
