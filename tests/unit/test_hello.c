#include "support.h"

#include "proto/bytes.h"
#include "proto/hello.h"
#include "proto/ids.h"

enum { REPEAT = 100 };

static uvcci_hello_config config(uint8_t party, uint64_t seed) {
    uvcci_hello_config c = {.party = party,
                            .suites = 3,
                            .r = 2,
                            .s = 3,
                            .t = 1,
                            .replica = 1,
                            .stage = 2,
                            .next_step = 7,
                            .next_run = 5,
                            .repeat_ns = REPEAT};
    for (unsigned i = 0; i < 32; i++) {
        c.sid_job[i] = (uint8_t)i;
        c.sid_sub[i] = (uint8_t)(0x40 + i);
        c.h_program[i] = (uint8_t)(0x80 + i);
        /* One secret per pair: pairs are named by the party that is not in them. */
        for (unsigned peer = 0; peer < 3; peer++)
            c.secret[peer][i] = (uint8_t)(16 * (3 - party - peer) + i + seed);
    }
    seed = seed * 3 + party;
    test_rand_bytes(&seed, c.n, 32);
    return c;
}

/* ---- a network of three that drops, doubles and reorders ---- */

enum { MSG_MAX = 4096, ACK = 0xAC };
typedef struct msg {
    uint64_t at;
    uint8_t src, dst, len;
    bool sealed, live;
    uint8_t key[32]; /* a sealed payload opens only where the same PRK is held */
    uint8_t bytes[UVCCI_HELLO1_BYTES];
} msg;

typedef struct net {
    uvcci_hello h[3];
    uvcci_hello_config cfg[3];
    msg m[MSG_MAX];
    unsigned count;
    uint64_t now, seed;
    unsigned loss, dup; /* per cent */
    uint64_t delay;
    uint64_t ack_at[3];
    uint64_t starts[3], started[3];
    unsigned sent, auth, restarts;
} net;

static void push(net *n, uint8_t src, uint8_t dst, const uint8_t *p, size_t len, bool sealed) {
    n->sent++;
    for (unsigned copies = 1; copies != 0; copies--) {
        if (test_rand(&n->seed) % 100 < n->dup)
            copies++;
        if (test_rand(&n->seed) % 100 < n->loss)
            continue;
        assert_true(n->count < MSG_MAX);
        msg *m = &n->m[n->count++];
        *m = (msg){.at = n->now + 1 + test_rand(&n->seed) % n->delay,
                   .src = src,
                   .dst = dst,
                   .len = (uint8_t)len,
                   .sealed = sealed,
                   .live = true};
        memcpy(m->bytes, p, len);
        if (sealed)
            memcpy(m->key, n->h[src].peer[dst].prk, 32);
    }
}

static void flush(net *n, uint8_t p) {
    uint8_t out[UVCCI_HELLO1_BYTES];
    bool sealed;
    for (uint8_t q = 0; q < 3; q++) {
        if (q == p)
            continue;
        size_t len;
        unsigned turns = 0;
        while ((len = uvcci_hello_poll(&n->h[p], q, out, &sealed, n->now)) != 0) {
            assert_true(++turns <= 3);
            push(n, p, q, out, len, sealed);
        }
    }
}

static bool passed(const uvcci_hello *h) {
    for (unsigned i = 1; i < 3; i++)
        if (!h->peer[(h->cfg.party + i) % 3].reached)
            return false;
    return true;
}

static void deliver(net *n, const msg *m) {
    uvcci_hello *h = &n->h[m->dst];
    if (m->sealed &&
        (!uvcci_hello_keyed(h, m->src) || memcmp(m->key, h->peer[m->src].prk, 32) != 0))
        return; /* the seal does not open */
    if (m->bytes[0] == ACK) {
        uvcci_hello_peer_passed(h, m->src);
        return;
    }
    int err = uvcci_hello_input(h, m->src, m->bytes, m->len, m->sealed, n->now);
    assert_true(err == 0 || err == UVCC_ERR_AUTH);
    n->auth += err == UVCC_ERR_AUTH;
}

static void start(net *n, uint8_t p) {
    assert_int_equal(uvcci_hello_init(&n->h[p], &n->cfg[p], n->now), 0);
    n->ack_at[p] = 0;
    flush(n, p);
}

static void open_net(net *n, uint64_t seed) {
    memset(n, 0, sizeof *n);
    n->seed = seed;
    n->delay = 1;
    for (uint8_t p = 0; p < 3; p++)
        n->cfg[p] = config(p, seed);
}

/* Runs until everyone knows that everyone is done, or `until`. A party that begins again does so as
 * the header asks of the session. */
static bool run(net *n, uint64_t until) {
    for (unsigned turn = 0; turn < 200000; turn++) {
        bool all = true;
        uint64_t next = UVCC_NEVER;
        for (uint8_t p = 0; p < 3; p++) {
            if (!n->started[p]) {
                all = false;
                if (n->now >= n->starts[p]) {
                    n->started[p] = 1;
                    start(n, p);
                } else {
                    if (n->starts[p] < next)
                        next = n->starts[p];
                    continue;
                }
            }
            if (n->h[p].other_n != 0 && !uvcci_hello_done(&n->h[p])) {
                n->restarts++;
                start(n, p);
            }
            if (n->h[p].other_n != 0 && uvcci_hello_done(&n->h[p]))
                return false; /* a peer of a live session has restarted: the session's matter */
            flush(n, p);
            /* A link's keep-alive once its data phase began. */
            if (uvcci_hello_done(&n->h[p]) && n->now >= n->ack_at[p]) {
                uint8_t ack = ACK;
                push(n, p, (uint8_t)((p + 1) % 3), &ack, 1, true);
                push(n, p, (uint8_t)((p + 2) % 3), &ack, 1, true);
                n->ack_at[p] = n->now + 10 * REPEAT;
            }
            all &= uvcci_hello_done(&n->h[p]) && passed(&n->h[p]);
            uint64_t due = uvcci_hello_deadline(&n->h[p]);
            assert_true(due > n->now); /* nothing waits after a flush */
            if (due < next)
                next = due;
            if (uvcci_hello_done(&n->h[p]) && n->ack_at[p] < next)
                next = n->ack_at[p];
        }
        if (all)
            return true;
        for (unsigned i = 0; i < n->count; i++)
            if (n->m[i].live && n->m[i].at < next)
                next = n->m[i].at;
        if (next == UVCC_NEVER || next > until)
            return false;
        if (next > n->now)
            n->now = next;
        for (unsigned i = 0; i < n->count; i++)
            if (n->m[i].live && n->m[i].at <= n->now && n->started[n->m[i].dst]) {
                n->m[i].live = false;
                msg m = n->m[i];
                deliver(n, &m);
            } else if (n->m[i].live && n->m[i].at <= n->now) {
                n->m[i].live = false; /* nobody there */
            }
    }
    fail_msg("no end");
    return false;
}

static void assert_agreement(const net *n) {
    for (uint8_t p = 0; p < 3; p++) {
        assert_true(n->h[p].agreed);
        assert_int_equal(n->h[p].run, n->h[0].run);
        assert_int_equal(n->h[p].step, n->h[0].step);
        assert_int_equal(n->h[p].suite, n->h[0].suite);
        uint8_t q = (uint8_t)((p + 1) % 3), r = (uint8_t)((p + 2) % 3);
        assert_memory_equal(n->h[p].peer[q].prk, n->h[q].peer[p].prk, 32);
        assert_memory_not_equal(n->h[p].peer[q].prk, n->h[p].peer[r].prk, 32);
        assert_int_equal(uvcci_hello_deadline(&n->h[p]), UVCC_NEVER);
    }
}

/* ---- what goes over the wire ---- */

static void layout(void **state) {
    (void)state;
    net n;
    open_net(&n, 1);
    n.cfg[0].next_step = 11;
    n.cfg[1].next_step = 3;
    n.cfg[2].next_run = 0x00ABCDEF;
    n.cfg[0].suites = 3;
    n.cfg[1].suites = 1;
    for (uint8_t p = 0; p < 3; p++)
        assert_int_equal(uvcci_hello_init(&n.h[p], &n.cfg[p], 0), 0);

    uint8_t out[UVCCI_HELLO1_BYTES], want[UVCCI_HELLO1_BYTES], h1[3][UVCCI_HELLO1_BYTES];
    bool sealed = true;
    for (uint8_t p = 0; p < 3; p++) {
        assert_int_equal(uvcci_hello_poll(&n.h[p], (uint8_t)((p + 2) % 3), out, &sealed, 0), 152);
        assert_int_equal(uvcci_hello_poll(&n.h[p], (uint8_t)((p + 1) % 3), out, &sealed, 0), 152);
        assert_false(sealed);
        const uvcci_hello_config *c = &n.cfg[p];
        uvcci_writer w = uvcci_writer_on(want, sizeof want);
        uvcci_put8(&w, 1);
        uvcci_put8(&w, c->suites);
        uvcci_put8(&w, p);
        uvcci_put8(&w, 0);
        uvcci_put(&w, c->sid_job, 32);
        static const uint16_t dims[] = {2, 3, 1, 1, 2, 0};
        for (unsigned i = 0; i < 6; i++)
            uvcci_put16(&w, dims[i]);
        uvcci_put(&w, c->h_program, 32);
        uvcci_put32(&w, c->next_step);
        uvcci_put32(&w, c->next_run);
        uvcci_put(&w, c->n, 32);
        static const uint8_t zero[32];
        uvcci_put(&w, zero, 32);
        assert_int_equal(w.len, 152);
        assert_memory_equal(out, want, 152);
        memcpy(h1[p], out, 152);
    }

    /* P1 hears P0 and P2. */
    assert_false(uvcci_hello_keyed(&n.h[1], 0));
    assert_int_equal(uvcci_hello_input(&n.h[1], 0, h1[0], 152, false, 0), 0);
    assert_false(uvcci_hello_keyed(&n.h[1], 0));
    assert_int_equal(uvcci_hello_input(&n.h[1], 2, h1[2], 152, false, 0), 0);
    assert_true(uvcci_hello_keyed(&n.h[1], 0) && uvcci_hello_keyed(&n.h[1], 2));
    assert_int_equal(n.h[1].run, 0x00ABCDEF);
    assert_int_equal(n.h[1].step, 3);
    assert_int_equal(n.h[1].suite, 1);

    uint8_t k[32], prk[32];
    uvcci_derive_session_key(n.cfg[0].n, n.cfg[1].n, n.cfg[1].secret[0], n.cfg[1].sid_job,
                             0x00ABCDEF, 0, 1, k);
    uvcci_derive_prk(n.cfg[1].sid_sub, k, prk);
    assert_memory_equal(n.h[1].peer[0].prk, prk, 32);
    uvcci_derive_session_key(n.cfg[1].n, n.cfg[2].n, n.cfg[1].secret[2], n.cfg[1].sid_job,
                             0x00ABCDEF, 1, 2, k);
    uvcci_derive_prk(n.cfg[1].sid_sub, k, prk);
    assert_memory_equal(n.h[1].peer[2].prk, prk, 32);

    /* HELLO 1 is due again for a peer that has just shown up, then HELLO 2. */
    assert_int_equal(uvcci_hello_poll(&n.h[1], 0, out, &sealed, 0), 152);
    assert_int_equal(uvcci_hello_poll(&n.h[1], 0, out, &sealed, 0), 108);
    assert_false(sealed);
    uint8_t both[2 * UVCCI_HELLO1_BYTES], hash[32], expect[108] = {2, 1};
    memcpy(both, h1[0], 152);
    memcpy(both + 152, h1[1], 152);
    uvcci_sha256_once(both, 304, hash);
    uvcci_st32(expect + 4, 0x00ABCDEF);
    uvcci_st32(expect + 8, 3);
    memcpy(expect + 12, hash, 32);
    assert_memory_equal(out, expect, 108);
    assert_int_equal(uvcci_hello_poll(&n.h[1], 0, out, &sealed, 0), 0);

    /* HELLO 3 answers the peer's HELLO 2. */
    assert_int_equal(uvcci_hello_input(&n.h[1], 0, expect, 108, false, 0), 0);
    assert_int_equal(n.h[1].peer[0].state, UVCCI_HELLO_WAIT3);
    assert_int_equal(uvcci_hello_poll(&n.h[1], 0, out, &sealed, 0), 33);
    assert_true(sealed);
    memcpy(both, expect, 108);
    memcpy(both + 108, expect, 108);
    uvcci_sha256_once(both, 216, hash);
    assert_int_equal(out[0], 3);
    assert_memory_equal(out + 1, hash, 32);
    assert_int_equal(uvcci_hello_input(&n.h[1], 0, out, 33, true, 0), 0);
    assert_int_equal(n.h[1].peer[0].state, UVCCI_HELLO_DONE);
    assert_false(uvcci_hello_done(&n.h[1]));

    uvcci_hello_wipe(&n.h[1]);
    static const uvcci_hello zeros;
    assert_memory_equal(&n.h[1], &zeros, sizeof zeros);
}

static void suites(void **state) {
    (void)state;
    for (unsigned a = 1; a < 4; a++)
        for (unsigned b = 1; b < 4; b++)
            for (unsigned c = 1; c < 4; c++) {
                net n;
                open_net(&n, 1);
                n.cfg[0].suites = (uint8_t)a;
                n.cfg[1].suites = (uint8_t)b;
                n.cfg[2].suites = (uint8_t)c;
                for (uint8_t p = 0; p < 3; p++)
                    assert_int_equal(uvcci_hello_init(&n.h[p], &n.cfg[p], 0), 0);
                int err1 = uvcci_hello_input(&n.h[0], 1, n.h[1].hello1, 152, false, 0);
                int err2 = uvcci_hello_input(&n.h[0], 2, n.h[2].hello1, 152, false, 0);
                if ((a & b & c) != 0) {
                    assert_true(err1 == 0 && err2 == 0);
                    assert_int_equal(n.h[0].suite, (a & b & c) & 2 ? 2 : 1);
                } else {
                    assert_true(err1 == UVCC_ERR_MISMATCH || err2 == UVCC_ERR_MISMATCH);
                    assert_string_equal(n.h[0].field, "suites");
                    assert_false(n.h[0].agreed);
                }
            }
}

static void refuses_configs(void **state) {
    (void)state;
    uvcci_hello h;
    uvcci_hello_config c = config(1, 1);
    assert_int_equal(uvcci_hello_init(&h, &c, 0), 0);
#define REFUSED(change)                                                                            \
    do {                                                                                           \
        c = config(1, 1);                                                                          \
        change;                                                                                    \
        assert_int_equal(uvcci_hello_init(&h, &c, 0), UVCC_ERR_CONFIG);                            \
    } while (0)
    REFUSED(memcpy(c.secret[0], c.secret[2], 32));
    REFUSED(c.suites = 0);
    REFUSED(c.suites = 4);
    REFUSED(c.party = 3);
    REFUSED(c.next_run = 1u << 24);
    REFUSED(c.repeat_ns = 0);
    REFUSED(c.repeat_ns = UINT64_MAX);
    c = config(1, 1);
    memcpy(c.secret[1], c.secret[2], 32); /* its own entry is unused */
    c.next_run = (1u << 24) - 1;
    assert_int_equal(uvcci_hello_init(&h, &c, 0), 0);
}

/* Every byte of HELLO 1: what differs is named, and nothing is kept. */
static void names_the_field(void **state) {
    (void)state;
    static const struct {
        unsigned from, to;
        const char *field;
    } fields[] = {{3, 4, "version"},         {4, 36, "sid_job"},  {36, 42, "topology"},
                  {42, 48, "position"},      {48, 80, "program"}, {87, 88, "run"},
                  {120, 152, "key exchange"}};
    for (unsigned f = 0; f < sizeof fields / sizeof *fields; f++)
        for (unsigned at = fields[f].from; at < fields[f].to; at++)
            for (unsigned bit = 0; bit < 8; bit++) {
                net n;
                open_net(&n, 1);
                for (uint8_t p = 0; p < 3; p++)
                    assert_int_equal(uvcci_hello_init(&n.h[p], &n.cfg[p], 0), 0);
                uint8_t m[152];
                memcpy(m, n.h[1].hello1, 152);
                m[at] ^= (uint8_t)(1u << bit);
                assert_int_equal(uvcci_hello_input(&n.h[0], 1, m, 152, false, 0),
                                 UVCC_ERR_MISMATCH);
                assert_string_equal(n.h[0].field, fields[f].field);
                uvcci_hello clean;
                assert_int_equal(uvcci_hello_init(&clean, &n.cfg[0], 0), 0);
                clean.field = n.h[0].field;
                assert_memory_equal(&clean, &n.h[0], sizeof clean);
            }
}

/* HELLO 1 of three parties delivered; P0's peers are in WAIT2. */
static void to_wait2(net *n) {
    open_net(n, 1);
    for (uint8_t p = 0; p < 3; p++)
        assert_int_equal(uvcci_hello_init(&n->h[p], &n->cfg[p], 0), 0);
    for (uint8_t p = 0; p < 3; p++)
        for (uint8_t q = 0; q < 3; q++)
            if (p != q)
                assert_int_equal(uvcci_hello_input(&n->h[p], q, n->h[q].hello1, 152, false, 0), 0);
}

static void ignores_what_is_malformed(void **state) {
    (void)state;
    net n;
    to_wait2(&n);
    uvcci_hello was = n.h[0];
    uint64_t seed = 4;
    uint8_t m[300];
    for (unsigned kind = 0; kind < 256; kind++)
        for (size_t len = 0; len < 300; len++)
            for (unsigned sealed = 0; sealed < 2; sealed++) {
                test_rand_bytes(&seed, m, sizeof m);
                m[0] = (uint8_t)kind;
                bool formed = len == 152   ? kind == 1 && !sealed
                              : len == 108 ? kind == 2 && !sealed
                                           : len == 33 && kind == 3 && sealed;
                if (formed)
                    continue;
                assert_int_equal(
                    uvcci_hello_input(&n.h[0], 1, len == 0 ? NULL : m, len, sealed != 0, 0), 0);
                was.ignored++;
                assert_memory_equal(&was, &n.h[0], sizeof was);
            }
}

/* Our own payloads coming back, each payload from the wrong peer or in the wrong state. */
static void reflection_and_order(void **state) {
    (void)state;
    net n;
    to_wait2(&n);
    uvcci_hello *h = &n.h[0], was = *h;
    assert_int_equal(uvcci_hello_input(h, 1, h->hello1, 152, false, 0), 0);
    assert_int_equal(uvcci_hello_input(h, 1, n.h[2].hello1, 152, false, 0), 0);
    was.ignored += 2;
    assert_memory_equal(h, &was, sizeof was);

    /* HELLO 3 before HELLO 2; HELLO 2 of the other pair. */
    assert_int_equal(uvcci_hello_input(h, 1, h->peer[1].hello3, 33, true, 0), 0);
    was.ignored++;
    assert_int_equal(uvcci_hello_input(h, 1, n.h[2].peer[0].hello2, 108, false, 0), UVCC_ERR_AUTH);
    assert_memory_equal(h, &was, sizeof was);

    /* HELLO 2 and 3 before both HELLO 1. */
    uvcci_hello fresh;
    assert_int_equal(uvcci_hello_init(&fresh, &n.cfg[0], 0), 0);
    assert_int_equal(uvcci_hello_input(&fresh, 1, n.h[1].hello1, 152, false, 0), 0);
    uvcci_hello before = fresh;
    assert_int_equal(uvcci_hello_input(&fresh, 1, n.h[1].peer[0].hello2, 108, false, 0), 0);
    assert_int_equal(uvcci_hello_input(&fresh, 1, n.h[1].peer[0].hello3, 33, true, 0), 0);
    uvcci_hello_peer_passed(&fresh, 1);
    before.ignored += 2;
    assert_memory_equal(&fresh, &before, sizeof before);
}

/* Every bit of HELLO 2 and 3: refused, nothing changes; the right one is still taken afterwards. */
static void tampered(void **state) {
    (void)state;
    net n;
    to_wait2(&n);
    uvcci_hello *h = &n.h[0];
    uint8_t m[108];
    for (unsigned turn = 2; turn <= 3; turn++) {
        size_t len = turn == 2 ? 108 : 33;
        const uint8_t *right = turn == 2 ? n.h[1].peer[0].hello2 : n.h[1].peer[0].hello3;
        uvcci_hello was = *h;
        for (size_t at = 1; at < len; at++)
            for (unsigned bit = 0; bit < 8; bit++) {
                memcpy(m, right, len);
                m[at] ^= (uint8_t)(1u << bit);
                assert_int_equal(uvcci_hello_input(h, 1, m, len, turn == 3, 0), UVCC_ERR_AUTH);
                assert_memory_equal(h, &was, sizeof was);
            }
        assert_int_equal(uvcci_hello_input(h, 1, right, len, turn == 3, 0), 0);
        assert_int_equal(h->peer[1].state, turn == 2 ? UVCCI_HELLO_WAIT3 : UVCCI_HELLO_DONE);
    }
    uvcci_hello was = *h;
    memcpy(m, n.h[1].peer[0].hello3, 33);
    m[5] ^= 1;
    assert_int_equal(uvcci_hello_input(h, 1, m, 33, true, 0), UVCC_ERR_AUTH);
    assert_memory_equal(h, &was, sizeof was);
}

static void another_n(void **state) {
    (void)state;
    net n;
    open_net(&n, 1);
    for (uint8_t p = 0; p < 3; p++)
        assert_int_equal(uvcci_hello_init(&n.h[p], &n.cfg[p], 0), 0);
    /* Before both HELLO 1 are here the newest counts. */
    uint8_t old[152];
    memcpy(old, n.h[1].hello1, 152);
    old[90] ^= 1;
    uvcci_hello *h = &n.h[0];
    assert_int_equal(uvcci_hello_input(h, 1, old, 152, false, 0), 0);
    assert_int_equal(uvcci_hello_input(h, 1, n.h[1].hello1, 152, false, 0), 0);
    assert_int_equal(uvcci_hello_input(h, 2, n.h[2].hello1, 152, false, 0), 0);
    assert_memory_equal(h->peer[1].hello1, n.h[1].hello1, 152);
    /* From then on it changes nothing, whatever else it says. */
    uvcci_hello was = *h;
    assert_int_equal(uvcci_hello_input(h, 1, old, 152, false, 0), 0);
    old[50] ^= 1;
    assert_int_equal(uvcci_hello_input(h, 1, old, 152, false, 0), 0);
    was.other_n = 2;
    assert_memory_equal(h, &was, sizeof was);
}

/* ---- runs ---- */

static void lossless(void **state) {
    (void)state;
    net n;
    open_net(&n, 1);
    assert_true(run(&n, 2 * REPEAT));
    assert_agreement(&n);
    assert_int_equal(n.auth, 0);
    /* Three turns and no repetition: done before the first timer. */
    assert_true(n.now < REPEAT);
}

static void lossy(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        net n;
        open_net(&n, seed);
        n.loss = (unsigned)(test_rand(&n.seed) % 70);
        n.dup = (unsigned)(test_rand(&n.seed) % 50);
        n.delay = 1 + test_rand(&n.seed) % (10 * REPEAT);
        for (uint8_t p = 0; p < 3; p++) {
            n.cfg[p].next_run = (uint32_t)(test_rand(&n.seed) % (1u << 24));
            n.cfg[p].next_step = (uint32_t)test_rand(&n.seed);
            n.starts[p] = test_rand(&n.seed) % (20 * REPEAT);
        }
        if (!run(&n, 4000 * REPEAT))
            fail_msg("seed %d stands still", (int)seed);
        assert_agreement(&n);
        assert_int_equal(n.auth, 0);
        for (uint8_t p = 0; p < 3; p++) {
            assert_true(n.h[0].run >= n.cfg[p].next_run && n.h[0].step <= n.cfg[p].next_step);
            assert_true(n.h[p].other_n == 0);
        }
        /* The stored packets once more, in any order: nothing changes and answers end. */
        uvcci_hello was[3];
        memcpy(was, n.h, sizeof was);
        unsigned replayed = n.count, sent = n.sent;
        n.loss = n.dup = 0;
        n.delay = 1;
        for (unsigned i = 0; i < replayed; i++) {
            msg m = n.m[test_rand(&n.seed) % replayed];
            deliver(&n, &m);
            flush(&n, m.dst);
            for (unsigned k = replayed; k < n.count; k++) { /* answers, and answers to them */
                msg a = n.m[k];
                deliver(&n, &a);
                flush(&n, a.dst);
            }
            n.count = replayed;
        }
        assert_true(n.sent - sent <= 8 * replayed);
        for (uint8_t p = 0; p < 3; p++) {
            assert_true(uvcci_hello_done(&n.h[p]));
            for (uint8_t q = 0; q < 3; q++)
                assert_memory_equal(n.h[p].peer[q].prk, was[p].peer[q].prk, 32);
            assert_int_equal(uvcci_hello_deadline(&n.h[p]), UVCC_NEVER);
        }
    }
}

/* A party dies in the middle and comes back with another N: the others begin again, and all end
 * with the same keys. Its old packets still arrive. */
static void restart_in_the_middle(void **state) {
    (void)state;
    unsigned again = 0, ends = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        net n;
        open_net(&n, seed);
        n.loss = (unsigned)(test_rand(&n.seed) % 30);
        n.dup = (unsigned)(test_rand(&n.seed) % 30);
        n.delay = 1 + test_rand(&n.seed) % REPEAT;
        uint8_t who = (uint8_t)(seed % 3);
        if (run(&n, test_rand(&n.seed) % (2 * REPEAT)))
            continue; /* it was over already */
        bool live = false;
        for (uint8_t p = 0; p < 3; p++)
            live |= uvcci_hello_done(&n.h[p]);
        if (live)
            continue; /* a live session's restart is the session's matter */
        n.cfg[who].n[0] ^= 0xFF;
        if (n.started[who])
            start(&n, who);
        bool end = run(&n, 100000 * REPEAT);
        for (uint8_t p = 0; p < 3; p++)
            live |= uvcci_hello_done(&n.h[p]) && n.h[p].other_n != 0;
        if (live)
            continue; /* its old packets had made a peer live */
        if (!end)
            fail_msg("seed %d stands still", (int)seed);
        assert_agreement(&n);
        again += n.restarts != 0;
        ends++;
    }
    assert_true(ends > 50 && again > 20);
}

static void wrong_secret(void **state) {
    (void)state;
    net n;
    open_net(&n, 1);
    n.cfg[1].secret[2][31] ^= 1;
    assert_false(run(&n, 500 * REPEAT));
    /* The pair with different secrets stops at HELLO 3, and so no party is done but P0. */
    assert_int_equal(n.h[1].peer[2].state, UVCCI_HELLO_WAIT3);
    assert_int_equal(n.h[2].peer[1].state, UVCCI_HELLO_WAIT3);
    assert_int_equal(n.h[1].peer[0].state, UVCCI_HELLO_DONE);
    assert_true(uvcci_hello_done(&n.h[0]));
    assert_false(uvcci_hello_done(&n.h[1]) || uvcci_hello_done(&n.h[2]));
    assert_memory_not_equal(n.h[1].peer[2].prk, n.h[2].peer[1].prk, 32);
}

/* Alone: HELLO 1 goes out at once, after 1, 2, 4, ... 32, 32, 32 times the interval. */
static void back_off(void **state) {
    (void)state;
    uvcci_hello h;
    uvcci_hello_config c = config(0, 1);
    uint8_t out[152];
    bool sealed;
    uint64_t now = 1000;
    assert_int_equal(uvcci_hello_init(&h, &c, now), 0);
    assert_int_equal(uvcci_hello_deadline(&h), 0);
    uint64_t gap = 0;
    for (unsigned turn = 0; turn < 12; turn++) {
        if (turn != 0) {
            gap = turn == 1 ? REPEAT : gap >= 32 * REPEAT ? gap : 2 * gap;
            assert_true(uvcci_hello_deadline(&h) == now + gap);
            assert_int_equal(uvcci_hello_poll(&h, 1, out, &sealed, now + gap - 1), 0);
            now += gap;
        }
        for (uint8_t p = 1; p < 3; p++) {
            assert_int_equal(uvcci_hello_poll(&h, p, out, &sealed, now), 152);
            assert_int_equal(uvcci_hello_poll(&h, p, out, &sealed, now), 0);
        }
    }
    /* A new stream sends at once and begins the back-off anew. */
    uvcci_hello_nudge(&h, 2, now);
    assert_int_equal(uvcci_hello_deadline(&h), 0);
    assert_int_equal(uvcci_hello_poll(&h, 1, out, &sealed, now), 0);
    assert_int_equal(uvcci_hello_poll(&h, 2, out, &sealed, now), 152);
    assert_true(uvcci_hello_deadline(&h) == now + REPEAT);
    /* The end of time is an ordinary number. */
    uvcci_hello_nudge(&h, 2, UINT64_MAX - 5);
    assert_int_equal(uvcci_hello_poll(&h, 2, out, &sealed, UINT64_MAX - 5), 152);
    assert_int_equal(uvcci_hello_poll(&h, 2, out, &sealed, UINT64_MAX - 4), 0);
}

/* What repeats in each state, and what ends it. */
/* The peer's HELLO 3 was lost, or came before its HELLO 2, and its first sealed frame is here: we go on
 * asking, or we would wait for ever. */
static void asks_one_that_passed(void **state) {
    (void)state;
    net n;
    to_wait2(&n);
    uvcci_hello *h = &n.h[0];
    uint8_t out[152];
    bool sealed;
    assert_int_equal(uvcci_hello_input(h, 1, n.h[1].peer[0].hello2, 108, false, 0), 0);
    uvcci_hello_peer_passed(h, 1);
    while (uvcci_hello_poll(h, 1, out, &sealed, 0) != 0) {
    }
    for (uint64_t now = REPEAT; now < 100 * REPEAT; now *= 2) {
        assert_int_not_equal(uvcci_hello_deadline(h), UVCC_NEVER);
        assert_int_equal(uvcci_hello_poll(h, 1, out, &sealed, 2 * now), 108);
        assert_int_equal(uvcci_hello_poll(h, 1, out, &sealed, 2 * now), 33);
        assert_int_equal(uvcci_hello_poll(h, 1, out, &sealed, 2 * now), 0);
    }
    assert_int_equal(uvcci_hello_input(h, 1, n.h[1].peer[0].hello3, 33, true, 300 * REPEAT), 0);
    assert_int_equal(uvcci_hello_poll(h, 1, out, &sealed, 10000 * REPEAT), 0);
}

static void repeats_until_passed(void **state) {
    (void)state;
    net n;
    to_wait2(&n);
    uvcci_hello *h = &n.h[0];
    uint8_t out[152];
    bool sealed;
    uint64_t now = 0;
#define DRAIN()   while (uvcci_hello_poll(h, 1, out, &sealed, now) != 0)
#define NEXT(len) assert_int_equal(uvcci_hello_poll(h, 1, out, &sealed, now), len)
    DRAIN();
    now += 50 * REPEAT;
    NEXT(152);
    NEXT(108);
    NEXT(0);
    assert_int_equal(uvcci_hello_input(h, 1, n.h[1].peer[0].hello2, 108, false, now), 0);
    NEXT(33);
    NEXT(0);
    assert_true(h->peer[1].next_repeat == now + REPEAT);
    now += REPEAT;
    NEXT(108);
    NEXT(33);
    NEXT(0);
    assert_int_equal(uvcci_hello_input(h, 1, n.h[1].peer[0].hello3, 33, true, now), 0);
    now += REPEAT;
    NEXT(33);
    NEXT(0);
    uvcci_hello_peer_passed(h, 1);
    now += 1000 * REPEAT;
    NEXT(0);
    uvcci_hello_nudge(h, 1, now);
    NEXT(0);

    /* A known HELLO 1 or 2 is still answered from memory; HELLO 3 never. */
    assert_int_equal(uvcci_hello_input(h, 1, n.h[1].peer[0].hello3, 33, true, now), 0);
    NEXT(0);
    assert_int_equal(uvcci_hello_input(h, 1, n.h[1].peer[0].hello2, 108, false, now), 0);
    NEXT(33);
    NEXT(0);
    for (unsigned turn = 0; turn < 4; turn++) {
        assert_int_equal(uvcci_hello_input(h, 1, n.h[1].hello1, 152, false, now), 0);
        if (turn % 2 == 1)
            NEXT(152);
        NEXT(108);
        NEXT(0);
    }
    assert_int_equal(h->peer[1].state, UVCCI_HELLO_DONE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout),
        cmocka_unit_test(suites),
        cmocka_unit_test(refuses_configs),
        cmocka_unit_test(names_the_field),
        cmocka_unit_test(ignores_what_is_malformed),
        cmocka_unit_test(reflection_and_order),
        cmocka_unit_test(tampered),
        cmocka_unit_test(another_n),
        cmocka_unit_test(lossless),
        cmocka_unit_test(lossy),
        cmocka_unit_test(restart_in_the_middle),
        cmocka_unit_test(wrong_secret),
        cmocka_unit_test(back_off),
        cmocka_unit_test(asks_one_that_passed),
        cmocka_unit_test(repeats_until_passed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
