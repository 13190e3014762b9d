/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake of three parties: its bytes against vectors, what stops it, what it ignores,
 * restarts, forgers, and how often it repeats what was lost. */
#include "support.h"

#include "proto/bytes.h"
#include "proto/hello.h"
#include "proto/ids.h"

enum { REPEAT = 100 };
/* With a second key agreement, and without. */
enum { WITH_KEM = 2 };
static uvcci_exchange kinds[] = {UVCCI_EXCHANGE_PROVISIONED, UVCCI_EXCHANGE_X25519,
                                 (uvcci_exchange)(UVCCI_EXCHANGE_PROVISIONED | WITH_KEM),
                                 (uvcci_exchange)(UVCCI_EXCHANGE_X25519 | WITH_KEM)};

static uvcci_hello_config config(uint8_t party, uint64_t seed) {
    uvcci_hello_config c = {.party = party,
                            .suites = 3,
                            .r = 2,
                            .s = 3,
                            .t = 1,
                            .replica = 1,
                            .stage = 2,
                            .offer = {{.step = 7}},
                            .offer_count = 1,
                            .next_run = 5,
                            .repeat_ns = REPEAT};
    for (unsigned i = 0; i < 32; i++) {
        c.sid_job[i] = (uint8_t)i;
        c.sid_sub[i] = (uint8_t)(0x40 + i);
        c.h_program[i] = (uint8_t)(0x80 + i);
        c.policy[i] = (uint8_t)(0xc0 + i);
        /* One secret per pair: pairs are named by the party that is not in them. */
        for (unsigned peer = 0; peer < 3; peer++)
            c.secret[peer][i] = (uint8_t)(16 * (3 - party - peer) + i + seed);
    }
    seed = seed * 3 + party;
    test_rand_bytes(&seed, c.n, 32);
    return c;
}

static void identity(uint8_t party, uint8_t pk[32], uint8_t sk[64]) {
    uint8_t seed[32];
    memset(seed, 0x50 + party, 32);
    uvcci_sign_keypair(seed, pk, sk);
}

/* The same with the X25519 exchange. */
static uvcci_hello_config config_x(uint8_t party, uint64_t seed) {
    uvcci_hello_config c = config(party, seed);
    c.exchange = UVCCI_EXCHANGE_X25519;
    memset(c.secret, 0, sizeof c.secret);
    uint8_t sk[64];
    for (uint8_t p = 0; p < 3; p++)
        identity(p, c.identity[p], p == party ? c.sign_sk : sk);
    seed = seed * 3 + party + 77;
    test_rand_bytes(&seed, c.ephemeral, 32);
    return c;
}

/* ---- a network of three that drops, doubles and reorders ---- */

enum { MSG_MAX = 4096, MSG_BYTES = UVCCI_HELLO1_BYTES + 64, ACK = 0xAC }; /* no long keys here */
typedef struct msg {
    uint64_t at;
    uint8_t src, dst;
    uint16_t len;
    bool sealed, live;
    uint8_t key[32]; /* a sealed payload opens only where the same PRK is held */
    uint8_t bytes[MSG_BYTES];
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
    unsigned sent, auth, restarts, follows;
    bool follow; /* live parties begin anew when a peer did */
} net;

static void push(net *n, uint8_t src, uint8_t dst, const uint8_t *p, size_t len, bool sealed) {
    n->sent++;
    for (unsigned copies = 1; copies != 0; copies--) {
        if (test_rand(&n->seed) % 100 < n->dup)
            copies++;
        if (test_rand(&n->seed) % 100 < n->loss)
            continue;
        assert_true(n->count < MSG_MAX && len <= MSG_BYTES);
        msg *m = &n->m[n->count++];
        *m = (msg){.at = n->now + 1 + test_rand(&n->seed) % n->delay,
                   .src = src,
                   .dst = dst,
                   .len = (uint16_t)len,
                   .sealed = sealed,
                   .live = true};
        memcpy(m->bytes, p, len);
        if (sealed)
            memcpy(m->key, n->h[src].peer[dst].prk, 32);
    }
}

static void flush(net *n, uint8_t p) {
    uint8_t out[UVCCI_HELLO1_MAX];
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
    assert_true(err == 0 || err == UVCC_ERR_AUTH || err == UVCC_ERR_MISMATCH);
    n->auth += err != 0;
}

static void start(net *n, uint8_t p) {
    assert_int_equal(uvcci_hello_init(&n->h[p], &n->cfg[p], n->now), 0);
    n->ack_at[p] = 0;
    flush(n, p);
}

static void open_net_of(net *n, uint64_t seed, uvcci_exchange kind) {
    memset(n, 0, sizeof *n);
    n->seed = seed;
    n->delay = 1;
    for (uint8_t p = 0; p < 3; p++)
        n->cfg[p] = (kind & 1) == UVCCI_EXCHANGE_X25519 ? config_x(p, seed) : config(p, seed);
    for (uint8_t p = 0; p < 3 && (kind & WITH_KEM) != 0; p++) {
        n->cfg[p].kem = UVCCI_KEM_X25519;
        seed = seed * 3 + p + 177;
        test_rand_bytes(&seed, n->cfg[p].kem_seed, sizeof n->cfg[p].kem_seed);
    }
}

static void open_net(net *n, uint64_t seed) {
    open_net_of(n, seed, UVCCI_EXCHANGE_PROVISIONED);
}

/* A peer of this live party began anew, as far as it can know. */
static bool met_restart(const net *n, uint8_t p) {
    const uvcci_hello *h = &n->h[p];
    if (!uvcci_hello_done(h))
        return false;
    return uvcci_hello_restarted(h, (uint8_t)((h->cfg.party + 1) % 3)) ||
           uvcci_hello_restarted(h, (uint8_t)((h->cfg.party + 2) % 3));
}

/* What changes in the config of a party that begins anew. */
static void renew(net *n, uint8_t p) {
    uvcci_hello_config *c = &n->cfg[p];
    test_rand_bytes(&n->seed, c->n, 32);
    if (c->exchange == UVCCI_EXCHANGE_X25519)
        test_rand_bytes(&n->seed, c->ephemeral, 32);
    if (c->kem != 0)
        test_rand_bytes(&n->seed, c->kem_seed, sizeof c->kem_seed);
    if (n->h[p].agreed && uvcci_hello_done(&n->h[p]))
        c->next_run = n->h[p].run + 1;
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
            if (uvcci_hello_stale(&n->h[p])) {
                n->restarts++;
                n->ack_at[p] = 0;
                uvcci_hello_again(&n->h[p], n->now);
            }
            if (met_restart(n, p)) {
                if (!n->follow)
                    return false; /* the session's matter */
                n->follows++;
                renew(n, p);
                start(n, p);
            }
            flush(n, p);
            /* A link's keep-alive once its data phase began. */
            if (uvcci_hello_done(&n->h[p]) && n->now >= n->ack_at[p]) {
                uint8_t ack = ACK;
                push(n, p, (uint8_t)((p + 1) % 3), &ack, 1, true);
                push(n, p, (uint8_t)((p + 2) % 3), &ack, 1, true);
                n->ack_at[p] = n->now + 10 * REPEAT;
            }
            uint64_t due = uvcci_hello_deadline(&n->h[p]);
            all &= uvcci_hello_done(&n->h[p]) && passed(&n->h[p]) && due == UVCC_NEVER;
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
    for (uint8_t p = 0; p < 3; p++) { /* 3 is the last that all have; 2 has another one there too */
        uvcci_hello_config *c = &n.cfg[p];
        c->offer_count = 4;
        for (uint8_t i = 0; i < 4; i++) {
            c->offer[i].step = p == 2 && i == 0 ? 3u : p + 3u - i;
            memset(c->offer[i].lineage, 0x80 + (int)c->offer[i].step + (p == 2 && i == 0), 32);
        }
    }
    n.cfg[1].offer_count = 3;
    n.cfg[2].next_run = 0x00ABCDEF;
    n.cfg[0].suites = 3;
    n.cfg[1].suites = 1;
    for (uint8_t p = 0; p < 3; p++)
        assert_int_equal(uvcci_hello_init(&n.h[p], &n.cfg[p], 0), 0);

    uint8_t out[UVCCI_HELLO1_BYTES], want[UVCCI_HELLO1_BYTES], h1[3][UVCCI_HELLO1_BYTES];
    bool sealed = true;
    for (uint8_t p = 0; p < 3; p++) {
        assert_int_equal(uvcci_hello_poll(&n.h[p], (uint8_t)((p + 2) % 3), out, &sealed, 0), 452);
        assert_int_equal(uvcci_hello_poll(&n.h[p], (uint8_t)((p + 1) % 3), out, &sealed, 0), 452);
        assert_false(sealed);
        const uvcci_hello_config *c = &n.cfg[p];
        uvcci_writer w = uvcci_writer_on(want, sizeof want);
        uvcci_put8(&w, 1);
        uvcci_put8(&w, c->suites);
        uvcci_put8(&w, p);
        uvcci_put8(&w, 5); /* version */
        uvcci_put(&w, c->sid_job, 32);
        static const uint16_t dims[] = {2, 3, 1, 1, 2, 0};
        for (unsigned i = 0; i < 6; i++)
            uvcci_put16(&w, dims[i]);
        uvcci_put(&w, c->h_program, 32);
        uvcci_put32(&w, c->next_run);
        uvcci_put(&w, c->n, 32);
        static const uint8_t zero[32];
        uvcci_put(&w, zero, 32);
        for (unsigned i = 0; i < 4; i++) {
            uvcci_put32(&w, i < c->offer_count ? c->offer[i].step : UINT32_MAX);
            uvcci_put(&w, i < c->offer_count ? c->offer[i].lineage : zero, 32);
        }
        uvcci_put(&w, c->policy, 32);
        for (unsigned i = 0; i < UVCCI_AGREE_PARTS; i++)
            uvcci_put64(&w, c->part[i]);
        assert_int_equal(w.len, 452);
        assert_memory_equal(out, want, 452);
        memcpy(h1[p], out, 452);
    }

    /* P1 hears P0 and P2. */
    assert_false(uvcci_hello_keyed(&n.h[1], 0));
    assert_int_equal(uvcci_hello_input(&n.h[1], 0, h1[0], 452, false, 0), 0);
    assert_false(uvcci_hello_keyed(&n.h[1], 0));
    assert_int_equal(uvcci_hello_input(&n.h[1], 2, h1[2], 452, false, 0), 0);
    assert_false(uvcci_hello_keyed(&n.h[1], 0) || uvcci_hello_keyed(&n.h[1], 2));
    assert_int_equal(n.h[1].run, 0x00ABCDEF);
    assert_int_equal(n.h[1].step, 3);
    assert_int_equal(n.h[1].lineage[31], 0x83);
    assert_int_equal(n.h[1].suite, 1);

    /* HELLO 1 is due again for a peer that has just shown up, then HELLO 2. */
    assert_int_equal(uvcci_hello_poll(&n.h[1], 0, out, &sealed, 0), 452);
    assert_int_equal(uvcci_hello_poll(&n.h[1], 0, out, &sealed, 0), 108);
    assert_false(sealed);
    uint8_t both[2 * UVCCI_HELLO1_BYTES], hash[32], expect[108] = {2, 1}, key[32];
    uint8_t text[13 + 904 + 9 + 64 + 1] = "UVCC_HELLO_V2", theirs[108];
    memcpy(both, h1[0], 452);
    memcpy(both + 452, h1[1], 452);
    uvcci_sha256_once(both, 904, hash);
    uvcci_st32(expect + 4, 0x00ABCDEF);
    uvcci_st32(expect + 8, 3);
    memcpy(expect + 12, hash, 32);
    /* The proof: an HMAC over both HELLO 1, suite, run, step, no identities, and the sender. */
    uvcci_derive_proof_key(n.cfg[1].secret[0], n.cfg[1].sid_job, 0, 1, key);
    memcpy(text + 13, both, 904);
    text[917] = 1;
    memcpy(text + 918, expect + 4, 8);
    memcpy(theirs, expect, 108);
    uvcci_hmac_once(key, 32, text, sizeof text, theirs + 44);
    text[sizeof text - 1] = 1;
    uvcci_hmac_once(key, 32, text, sizeof text, expect + 44);
    assert_memory_equal(out, expect, 108);
    assert_int_equal(uvcci_hello_poll(&n.h[1], 0, out, &sealed, 0), 0);

    /* HELLO 3 answers the peer's HELLO 2. */
    assert_int_equal(uvcci_hello_input(&n.h[1], 0, theirs, 108, false, 0), 0);
    assert_int_equal(n.h[1].peer[0].state, UVCCI_HELLO_WAIT3);
    assert_true(uvcci_hello_keyed(&n.h[1], 0) && !uvcci_hello_keyed(&n.h[1], 2));
    uint8_t k[32], prk[32];
    uvcci_derive_session_key(n.cfg[0].n, n.cfg[1].n, n.cfg[1].secret[0], n.cfg[1].sid_job,
                             0x00ABCDEF, 0, 1, k);
    uvcci_derive_prk(n.cfg[1].sid_sub, k, prk);
    assert_memory_equal(n.h[1].peer[0].prk, prk, 32);
    assert_int_equal(uvcci_hello_poll(&n.h[1], 0, out, &sealed, 0), UVCCI_HELLO3_BYTES);
    assert_true(sealed);
    memcpy(both, theirs, 108);
    memcpy(both + 108, expect, 108);
    uvcci_sha256_once(both, 216, hash);
    assert_int_equal(out[0], 3);
    assert_memory_equal(out + 1, hash, 32);
    assert_int_equal(uvcci_hello_input(&n.h[1], 0, out, UVCCI_HELLO3_BYTES, true, 0), 0);
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
                int err1 = uvcci_hello_input(&n.h[0], 1, n.h[1].hello1, 452, false, 0);
                int err2 = uvcci_hello_input(&n.h[0], 2, n.h[2].hello1, 452, false, 0);
                if ((a & b & c) != 0) {
                    assert_true(err1 == 0 && err2 == 0);
                    assert_int_equal(n.h[0].suite, (a & b & c) & 2 ? 2 : 1);
                } else {
                    assert_true(err1 == UVCC_ERR_MISMATCH || err2 == UVCC_ERR_MISMATCH);
                    assert_int_equal(n.h[0].field, UVCCI_FIELD_SUITES);
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
    } fields[] = {{3, 4, "version"},          {4, 36, "sid_job"},    {36, 42, "topology"},
                  {42, 48, "position"},       {48, 80, "program"},   {83, 84, "run"},
                  {116, 148, "key exchange"}, {148, 184, "lineage"}, {292, 324, "policy"},
                  {324, 452, "job"}};
    for (unsigned f = 0; f < sizeof fields / sizeof *fields; f++)
        for (unsigned at = fields[f].from; at < fields[f].to; at++)
            for (unsigned bit = 0; bit < 8; bit++) {
                net n;
                open_net(&n, 1);
                for (uint8_t p = 0; p < 3; p++)
                    assert_int_equal(uvcci_hello_init(&n.h[p], &n.cfg[p], 0), 0);
                uint8_t m[452];
                memcpy(m, n.h[1].hello1, 452);
                m[at] ^= (uint8_t)(1u << bit);
                assert_int_equal(uvcci_hello_input(&n.h[0], 1, m, 452, false, 0),
                                 UVCC_ERR_MISMATCH);
                assert_string_equal(uvcci_hello_field_name(n.h[0].field), fields[f].field);
                uvcci_hello clean;
                assert_int_equal(uvcci_hello_init(&clean, &n.cfg[0], 0), 0);
                const bool job = n.h[0].field == UVCCI_FIELD_JOB;
                assert_int_equal(n.h[0].part, job ? (at - 324) / 8 : 0);
                clean.field = n.h[0].field;
                clean.part = n.h[0].part;
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
                assert_int_equal(uvcci_hello_input(&n->h[p], q, n->h[q].hello1, 452, false, 0), 0);
}

/* ... and P1 has taken P0's HELLO 2: it knows HELLO 3. */
static void peer_takes_ours(net *n) {
    assert_int_equal(uvcci_hello_input(&n->h[1], 0, n->h[0].peer[1].hello2, 108, false, 0), 0);
}

static void ignores_what_is_malformed(void **state) {
    (void)state;
    net n;
    to_wait2(&n);
    uvcci_hello was = n.h[0];
    uint64_t seed = 4;
    uint8_t m[470];
    for (unsigned kind = 0; kind < 256; kind++)
        for (size_t len = 0; len < 470; len++)
            for (unsigned sealed = 0; sealed < 2; sealed++) {
                test_rand_bytes(&seed, m, sizeof m);
                m[0] = (uint8_t)kind;
                m[3] = 5;              /* of another version anything may be a HELLO 1 */
                memset(m + 452, 0, 2); /* no KEM */
                bool formed = len == 452   ? kind == 1 && !sealed
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

/* A HELLO 1 of another version is told as that, however long it is there. */
static void other_versions(void **state) {
    (void)state;
    net n;
    open_net(&n, 1);
    assert_int_equal(uvcci_hello_init(&n.h[0], &n.cfg[0], 0), 0);
    assert_int_equal(uvcci_hello_init(&n.h[1], &n.cfg[1], 0), 0);
    uvcci_hello was = n.h[0];
    uint8_t *whole = n.h[1].hello1;
    for (size_t len = 0; len <= UVCCI_HELLO1_MAX; len++) {
        for (unsigned version = 4; version <= 6; version += 2) {
            uint8_t *m = malloc(len + 1); /* what is read beyond it is found */
            assert_non_null(m);
            whole[3] = (uint8_t)version;
            memcpy(m + 1, whole, len);
            const bool told = len > 3;
            assert_int_equal(uvcci_hello_input(&n.h[0], 1, m + 1, len, false, 0),
                             told ? UVCC_ERR_MISMATCH : 0);
            assert_int_equal(n.h[0].field, told ? UVCCI_FIELD_VERSION : UVCCI_FIELD_NONE);
            assert_int_equal(uvcci_hello_foreign(&n.h[0], 1, m + 1, len),
                             told ? UVCC_ERR_MISMATCH : 0);
            was.ignored += told ? 1 : 2;
            was.field = n.h[0].field;
            assert_memory_equal(&was, &n.h[0], sizeof was);
            free(m);
        }
    }
}

/* Our own payloads coming back, each payload from the wrong peer or in the wrong state. */
static void reflection_and_order(void **state) {
    (void)state;
    net n;
    to_wait2(&n);
    uvcci_hello *h = &n.h[0], was = *h;
    assert_int_equal(uvcci_hello_input(h, 1, h->hello1, 452, false, 0), 0);
    assert_int_equal(uvcci_hello_input(h, 1, n.h[2].hello1, 452, false, 0), 0);
    was.ignored += 2;
    assert_memory_equal(h, &was, sizeof was);

    /* HELLO 3 before HELLO 2; HELLO 2 of the other pair. */
    assert_int_equal(uvcci_hello_input(h, 1, h->peer[1].hello3, UVCCI_HELLO3_BYTES, true, 0), 0);
    was.ignored++;
    assert_int_equal(uvcci_hello_input(h, 1, n.h[2].peer[0].hello2, 108, false, 0), UVCC_ERR_AUTH);
    assert_memory_equal(h, &was, sizeof was);

    /* HELLO 3 before both HELLO 1 is nothing; HELLO 2 is kept, and counts once the other HELLO 1 is
     * here. */
    uvcci_hello fresh;
    assert_int_equal(uvcci_hello_init(&fresh, &n.cfg[0], 0), 0);
    assert_int_equal(uvcci_hello_input(&fresh, 1, n.h[1].hello1, 452, false, 0), 0);
    uvcci_hello before = fresh;
    assert_int_equal(uvcci_hello_input(&fresh, 1, n.h[1].peer[0].hello2, 108, false, 0), 0);
    assert_int_equal(
        uvcci_hello_input(&fresh, 1, n.h[1].peer[0].hello3, UVCCI_HELLO3_BYTES, true, 0), 0);
    uvcci_hello_peer_passed(&fresh, 1);
    before.ignored++;
    memcpy(before.peer[1].early2, n.h[1].peer[0].hello2, 108);
    assert_memory_equal(&fresh, &before, sizeof before);
    assert_int_equal(uvcci_hello_input(&fresh, 2, n.h[2].hello1, 452, false, 0), 0);
    assert_int_equal(fresh.peer[1].state, UVCCI_HELLO_WAIT3);
    assert_int_equal(fresh.peer[2].state, UVCCI_HELLO_WAIT2);
}

/* Every bit of HELLO 2 and 3: refused, nothing changes; the right one is still taken afterwards. */
static void tampered(void **state) {
    (void)state;
    net n;
    to_wait2(&n);
    peer_takes_ours(&n);
    uvcci_hello *h = &n.h[0];
    uint8_t m[108];
    uint64_t now = 0;
    for (unsigned turn = 2; turn <= 3; turn++) {
        size_t len = turn == 2 ? 108 : UVCCI_HELLO3_BYTES;
        const uint8_t *right = turn == 2 ? n.h[1].peer[0].hello2 : n.h[1].peer[0].hello3;
        uvcci_hello was = *h;
        for (size_t at = 1; at < len; at++)
            for (unsigned bit = 0; bit < 8; bit++) {
                memcpy(m, right, len);
                m[at] ^= (uint8_t)(1u << bit);
                const size_t told = turn == 2 ? 44 : 33;
                assert_int_equal(uvcci_hello_input(h, 1, m, len, turn == 3, now),
                                 at < told ? UVCC_ERR_AUTH : UVCC_ERR_MISMATCH);
                if (at >= told) {
                    assert_int_equal(h->field,
                                     turn == 2 ? UVCCI_FIELD_SECRET : UVCCI_FIELD_CHANNEL);
                    was.field = h->field;
                    was.forged[1] = h->forged[1];
                }
                assert_memory_equal(h, &was, sizeof was);
                now += REPEAT;
            }
        assert_int_equal(uvcci_hello_input(h, 1, right, len, turn == 3, now), 0);
        assert_int_equal(h->peer[1].state, turn == 2 ? UVCCI_HELLO_WAIT3 : UVCCI_HELLO_DONE);
    }
    uvcci_hello was = *h;
    memcpy(m, n.h[1].peer[0].hello3, UVCCI_HELLO3_BYTES);
    m[5] ^= 1;
    assert_int_equal(uvcci_hello_input(h, 1, m, UVCCI_HELLO3_BYTES, true, 0), UVCC_ERR_AUTH);
    assert_memory_equal(h, &was, sizeof was);
}

/* 0 and 1 are keyed and have each other's HELLO 3 to take. */
static void to_hello3(net *n) {
    to_wait2(n);
    peer_takes_ours(n);
    assert_int_equal(uvcci_hello_input(&n->h[0], 1, n->h[1].peer[0].hello2, 108, false, n->now), 0);
    for (unsigned p = 0; p < 2; p++)
        assert_int_equal(n->h[p].peer[1 - p].state, UVCCI_HELLO_WAIT3);
}

/* The HELLO 3 that `from` sends next, to the other. */
static int say3(net *n, uint8_t from) {
    uint8_t out[UVCCI_HELLO1_MAX];
    bool sealed = false;
    size_t len = 1;
    uvcci_hello_nudge(&n->h[from], 1 - from, n->now);
    while (!sealed && len != 0)
        len = uvcci_hello_poll(&n->h[from], 1 - from, out, &sealed, n->now);
    assert_true(sealed && len == UVCCI_HELLO3_BYTES);
    return uvcci_hello_input(&n->h[1 - from], from, out, len, true, n->now);
}

/* Two channels are no channel: whoever relays between them is found out at both ends, and nothing
 * else is: the next stream, over one channel, ends the handshake. */
static void channels(void **state) {
    (void)state;
    static const uint8_t zeros[32] = {0}, a[32] = {1}, b[32] = {1, 1};
    const struct {
        const uint8_t *of[2];
        bool fit;
    } tries[] = {{{a, a}, true},      {{NULL, NULL}, true},  {{zeros, zeros}, true},
                 {{a, b}, false},     {{a, NULL}, false},    {{NULL, b}, false},
                 {{zeros, a}, false}, {{zeros, NULL}, false}};
    for (unsigned i = 0; i < sizeof tries / sizeof tries[0]; i++)
        for (unsigned when = 0; when < 2; when++) { /* before and after there are keys */
            net n;
            if (when == 1)
                to_hello3(&n);
            else
                to_wait2(&n);
            for (uint8_t p = 0; p < 2; p++)
                uvcci_hello_channel(&n.h[p], 1 - p, tries[i].of[p]);
            if (when == 0) {
                peer_takes_ours(&n);
                assert_int_equal(
                    uvcci_hello_input(&n.h[0], 1, n.h[1].peer[0].hello2, 108, false, n.now), 0);
            }
            for (uint8_t p = 0; p < 2; p++) {
                assert_int_equal(say3(&n, p), tries[i].fit ? 0 : UVCC_ERR_MISMATCH);
                if (!tries[i].fit)
                    assert_string_equal(uvcci_hello_field_name(n.h[1 - p].field), "channel");
                assert_int_equal(n.h[1 - p].peer[p].state,
                                 tries[i].fit ? UVCCI_HELLO_DONE : UVCCI_HELLO_WAIT3);
            }
            /* A new stream, to one end first: what was said over the old one is not what counts. */
            uvcci_hello_channel(&n.h[0], 1, b);
            uvcci_hello_channel(&n.h[1], 0, b);
            for (uint8_t p = 0; p < 2; p++) {
                assert_int_equal(say3(&n, p), 0);
                assert_int_equal(n.h[1 - p].peer[p].state, UVCCI_HELLO_DONE);
            }
        }
    /* One end is done over the first channel, and says the next one where the other is not. */
    net n;
    to_hello3(&n);
    uvcci_hello_channel(&n.h[0], 1, a);
    uvcci_hello_channel(&n.h[1], 0, a);
    assert_int_equal(say3(&n, 1), 0);
    assert_int_equal(n.h[0].peer[1].state, UVCCI_HELLO_DONE);
    uvcci_hello_channel(&n.h[1], 0, b);
    assert_int_equal(say3(&n, 0), UVCC_ERR_MISMATCH);
    assert_int_equal(say3(&n, 1), 0); /* not compared any more */
    uvcci_hello_channel(&n.h[0], 1, b);
    assert_int_equal(say3(&n, 0), 0);
    assert_int_equal(n.h[1].peer[0].state, UVCCI_HELLO_DONE);
}

static void another_n(void **state) {
    (void)state;
    net n;
    open_net(&n, 1);
    for (uint8_t p = 0; p < 3; p++)
        assert_int_equal(uvcci_hello_init(&n.h[p], &n.cfg[p], 0), 0);
    /* Before both HELLO 1 are here the newest counts. */
    uint8_t old[452];
    memcpy(old, n.h[1].hello1, 452);
    old[90] ^= 1;
    uvcci_hello *h = &n.h[0];
    assert_int_equal(uvcci_hello_input(h, 1, old, 452, false, 0), 0);
    assert_int_equal(uvcci_hello_input(h, 1, n.h[1].hello1, 452, false, 0), 0);
    assert_int_equal(uvcci_hello_input(h, 2, n.h[2].hello1, 452, false, 0), 0);
    assert_memory_equal(h->peer[1].hello1, n.h[1].hello1, 452);
    /* From then on it changes nothing, whatever else it says. */
    uvcci_hello was = *h;
    assert_int_equal(uvcci_hello_input(h, 1, old, 452, false, 0), 0);
    old[50] ^= 1; /* but what disagrees is named */
    assert_int_equal(uvcci_hello_input(h, 1, old, 452, false, 0), UVCC_ERR_MISMATCH);
    assert_int_equal(h->field, UVCCI_FIELD_PROGRAM);
    was.field = UVCCI_FIELD_PROGRAM;
    was.other_n = 2;
    was.stale = true;
    assert_memory_equal(h, &was, sizeof was);
    /* Beginning again is a start with the same HELLO 1. */
    assert_true(uvcci_hello_stale(h));
    uvcci_hello_again(h, 0);
    uvcci_hello clean;
    assert_int_equal(uvcci_hello_init(&clean, &n.cfg[0], 0), 0);
    assert_memory_equal(h->hello1, clean.hello1, 452);
    for (uint8_t q = 1; q < 3; q++) {
        clean.peer[q].pending = 0; /* but it waits for its timer */
        clean.peer[q].next_repeat = REPEAT;
    }
    assert_memory_equal(h->peer, clean.peer, sizeof h->peer);
    assert_false(h->agreed || uvcci_hello_stale(h));
}

/* ---- runs ---- */

static void lossless(void **state) {
    net n;
    open_net_of(&n, 1, *(const uvcci_exchange *)*state);
    assert_true(run(&n, 2 * REPEAT));
    assert_agreement(&n);
    assert_int_equal(n.auth, 0);
    /* Three turns and no repetition: done before the first timer. */
    assert_true(n.now < REPEAT);
}

/* One offer that all three have, among others that no two have: earlier ones, or later. */
static void random_offers(uvcci_hello_config *c, uint64_t *seed, uint8_t p, uint32_t common) {
    const unsigned at = (unsigned)(test_rand(seed) % UVCCI_OFFERS);
    c->offer_count = UVCCI_OFFERS;
    for (unsigned i = 0; i < UVCCI_OFFERS; i++) {
        c->offer[i].step = common + (uint32_t)(test_rand(seed) % 16) - 8;
        memset(c->offer[i].lineage, i == at ? 0xCC : p + 1, 32);
    }
    c->offer[at].step = common;
}

/* Of two lineages of the step that all offer, each party takes the one whose bytes are greater, in
 * whatever order they were offered; a later step goes before a greater lineage. */
static void equal_steps(void **state) {
    (void)state;
    for (unsigned order = 0; order < 2; order++)
        for (unsigned later = 0; later < 2; later++) {
            net n;
            open_net(&n, 1);
            for (uint8_t p = 0; p < 3; p++) {
                uvcci_hello_config *c = &n.cfg[p];
                c->offer_count = 2;
                for (unsigned i = 0; i < 2; i++) {
                    const bool greater = i == order;
                    c->offer[i].step = greater ? 9 : 9 + later;
                    memset(c->offer[i].lineage, greater ? 0xBB : 0xAA, 32);
                }
            }
            assert_true(run(&n, 2 * REPEAT));
            for (uint8_t p = 0; p < 3; p++) {
                assert_int_equal(n.h[p].step, 9 + later);
                assert_int_equal(n.h[p].lineage[0], later ? 0xAA : 0xBB);
            }
        }
}

static void lossy(void **state) {
    for (uint64_t seed = 1; seed <= 400; seed++) {
        net n;
        open_net_of(&n, seed, *(const uvcci_exchange *)*state);
        n.loss = (unsigned)(test_rand(&n.seed) % 70);
        n.dup = (unsigned)(test_rand(&n.seed) % 50);
        n.delay = 1 + test_rand(&n.seed) % (10 * REPEAT);
        for (uint8_t p = 0; p < 3; p++) {
            n.cfg[p].next_run = (uint32_t)(test_rand(&n.seed) % (1u << 24));
            random_offers(&n.cfg[p], &n.seed, p, (uint32_t)seed * 16);
            n.starts[p] = test_rand(&n.seed) % (20 * REPEAT);
        }
        if (!run(&n, 4000 * REPEAT))
            fail_msg("seed %d stands still", (int)seed);
        assert_agreement(&n);
        assert_int_equal(n.auth, 0);
        for (uint8_t p = 0; p < 3; p++) {
            assert_true(n.h[0].run >= n.cfg[p].next_run);
            assert_int_equal(n.h[p].step, (uint32_t)seed * 16);
            assert_int_equal(n.h[p].lineage[0], 0xCC);
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
            n.now += REPEAT; /* answers that kept their distance */
            flush(&n, p);
            assert_int_equal(uvcci_hello_deadline(&n.h[p]), UVCC_NEVER);
        }
    }
}

/* A party dies in the middle and comes back with another N: the others begin again, and all end
 * with the same keys. Its old packets still arrive. */
static void restart_in_the_middle(void **state) {
    unsigned again = 0, ends = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        net n;
        open_net_of(&n, seed, *(const uvcci_exchange *)*state);
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
        renew(&n, who);
        if (n.started[who])
            start(&n, who);
        bool end = run(&n, 100000 * REPEAT);
        for (uint8_t p = 0; p < 3; p++)
            live |= met_restart(&n, p);
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
    /* The pair with different secrets stops at HELLO 2, and so no party is done but P0. */
    assert_int_equal(n.h[1].peer[2].state, UVCCI_HELLO_WAIT2);
    assert_int_equal(n.h[2].peer[1].state, UVCCI_HELLO_WAIT2);
    assert_int_equal(n.h[1].field, UVCCI_FIELD_SECRET);
    assert_int_equal(n.h[2].field, UVCCI_FIELD_SECRET);
    assert_int_equal(n.h[1].peer[0].state, UVCCI_HELLO_DONE);
    assert_true(uvcci_hello_done(&n.h[0]));
    assert_false(uvcci_hello_done(&n.h[1]) || uvcci_hello_done(&n.h[2]));
    assert_false(uvcci_hello_keyed(&n.h[1], 2) || uvcci_hello_keyed(&n.h[2], 1));
}

/* Alone: HELLO 1 goes out at once, after 1, 2, 4, ... 32, 32, 32 times the interval. */
static void back_off(void **state) {
    (void)state;
    uvcci_hello h;
    uvcci_hello_config c = config(0, 1);
    uint8_t out[452];
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
            assert_int_equal(uvcci_hello_poll(&h, p, out, &sealed, now), 452);
            assert_int_equal(uvcci_hello_poll(&h, p, out, &sealed, now), 0);
        }
    }
    /* A new stream sends at once and begins the back-off anew. */
    uvcci_hello_nudge(&h, 2, now);
    assert_int_equal(uvcci_hello_deadline(&h), 0);
    assert_int_equal(uvcci_hello_poll(&h, 1, out, &sealed, now), 0);
    assert_int_equal(uvcci_hello_poll(&h, 2, out, &sealed, now), 452);
    assert_true(uvcci_hello_deadline(&h) == now + REPEAT);
    /* The end of time is an ordinary number. */
    uvcci_hello_nudge(&h, 2, UINT64_MAX - 5);
    assert_int_equal(uvcci_hello_poll(&h, 2, out, &sealed, UINT64_MAX - 5), 452);
    assert_int_equal(uvcci_hello_poll(&h, 2, out, &sealed, UINT64_MAX - 4), 0);
}

/* The peer's HELLO 3 was lost, or came before its HELLO 2, and its first sealed frame is here: we
 * go on asking, or we would wait for ever. */
static void asks_one_that_passed(void **state) {
    (void)state;
    net n;
    to_wait2(&n);
    peer_takes_ours(&n);
    uvcci_hello *h = &n.h[0];
    uint8_t out[452];
    bool sealed;
    assert_int_equal(uvcci_hello_input(h, 1, n.h[1].peer[0].hello2, 108, false, 0), 0);
    uvcci_hello_peer_passed(h, 1);
    while (uvcci_hello_poll(h, 1, out, &sealed, 0) != 0) {
    }
    for (uint64_t now = REPEAT; now < 100 * REPEAT; now *= 2) {
        assert_int_not_equal(uvcci_hello_deadline(h), UVCC_NEVER);
        assert_int_equal(uvcci_hello_poll(h, 1, out, &sealed, 2 * now), 108);
        assert_int_equal(uvcci_hello_poll(h, 1, out, &sealed, 2 * now), UVCCI_HELLO3_BYTES);
        assert_int_equal(uvcci_hello_poll(h, 1, out, &sealed, 2 * now), 0);
    }
    assert_int_equal(
        uvcci_hello_input(h, 1, n.h[1].peer[0].hello3, UVCCI_HELLO3_BYTES, true, 300 * REPEAT), 0);
    assert_int_equal(uvcci_hello_poll(h, 1, out, &sealed, 10000 * REPEAT), 0);
}

/* What repeats in each state, and what ends it. */
static void repeats_until_passed(void **state) {
    (void)state;
    net n;
    to_wait2(&n);
    peer_takes_ours(&n);
    uvcci_hello *h = &n.h[0];
    uint8_t out[452];
    bool sealed;
    uint64_t now = 0;
#define DRAIN()   while (uvcci_hello_poll(h, 1, out, &sealed, now) != 0)
#define NEXT(len) assert_int_equal(uvcci_hello_poll(h, 1, out, &sealed, now), len)
    DRAIN();
    now += 50 * REPEAT;
    NEXT(452);
    NEXT(108);
    NEXT(0);
    assert_int_equal(uvcci_hello_input(h, 1, n.h[1].peer[0].hello2, 108, false, now), 0);
    NEXT(UVCCI_HELLO3_BYTES);
    NEXT(0);
    assert_true(h->peer[1].next_repeat == now + REPEAT);
    now += REPEAT;
    NEXT(108);
    NEXT(UVCCI_HELLO3_BYTES);
    NEXT(0);
    assert_int_equal(uvcci_hello_input(h, 1, n.h[1].peer[0].hello3, UVCCI_HELLO3_BYTES, true, now),
                     0);
    now += REPEAT;
    NEXT(UVCCI_HELLO3_BYTES);
    NEXT(0);
    uvcci_hello_peer_passed(h, 1);
    now += 1000 * REPEAT;
    NEXT(0);
    uvcci_hello_nudge(h, 1, now);
    NEXT(0);

    /* A known HELLO 1 or 2 is still answered from memory; HELLO 3 never. */
    assert_int_equal(uvcci_hello_input(h, 1, n.h[1].peer[0].hello3, UVCCI_HELLO3_BYTES, true, now),
                     0);
    NEXT(0);
    assert_int_equal(uvcci_hello_input(h, 1, n.h[1].peer[0].hello2, 108, false, now), 0);
    NEXT(UVCCI_HELLO3_BYTES);
    NEXT(0);
    for (unsigned turn = 0; turn < 4; turn++) {
        assert_int_equal(uvcci_hello_input(h, 1, n.h[1].hello1, 452, false, now), 0);
        if (turn % 2 == 1)
            NEXT(452);
        NEXT(108);
        NEXT(0);
    }
    assert_int_equal(h->peer[1].state, UVCCI_HELLO_DONE);
}

static void bind_channel(uvcci_hello *h, uint8_t peer, json_t *pair) {
    uint8_t binding[32];
    if (json_object_get(pair, "binding") == NULL)
        return;
    test_hex_n(test_str(pair, "binding"), binding, 32);
    uvcci_hello_channel(h, peer, binding);
}

/* ---- the X25519 exchange ---- */

static void load_parts(json_t *c, uvcci_hello_config *base) {
    size_t i;
    json_t *word;
    json_array_foreach(json_object_get(c, "parts"), i, word) base->part[i] =
        strtoull(json_string_value(word), NULL, 16);
}

/* Bytes from an independent program, both ways of keys: every payload of every pair. */
static void vectors(void **state) {
    (void)state;
    json_t *root = LOAD_VECTORS("hello.json"), *cases = json_object_get(root, "cases"), *c;
    assert_true(json_array_size(cases) >= 4);
    size_t at;
    json_array_foreach(cases, at, c) {
        bool x = strcmp(test_str(c, "exchange"), "x25519") == 0;
        uvcci_hello_config base = {.exchange =
                                       x ? UVCCI_EXCHANGE_X25519 : UVCCI_EXCHANGE_PROVISIONED,
                                   .repeat_ns = REPEAT};
        test_hex_n(test_str(c, "sid_job"), base.sid_job, 32);
        test_hex_n(test_str(c, "sid_sub"), base.sid_sub, 32);
        test_hex_n(test_str(c, "h_program"), base.h_program, 32);
        test_hex_n(test_str(c, "policy"), base.policy, 32);
        load_parts(c, &base);
        uint16_t *const dims[] = {&base.r, &base.s, &base.t, &base.replica, &base.stage, &base.tp};
        for (size_t i = 0; i < 6; i++)
            *dims[i] =
                (uint16_t)json_integer_value(json_array_get(json_object_get(c, "topology"), i));
        uint8_t sid_rep[32], sid_sub[32];
        uvcci_sid_rep(base.sid_job, base.replica, sid_rep);
        uvcci_sid_sub(sid_rep, (uint8_t)base.stage, base.tp, sid_sub);
        assert_memory_equal(sid_sub, base.sid_sub, 32);

        json_t *parties = json_object_get(c, "parties"), *pairs = json_object_get(c, "pairs"),
               *pair;
        base.kem = (uint16_t)json_integer_value(json_object_get(c, "kem"));
        uint8_t h1[3][UVCCI_HELLO1_MAX], h2[2][UVCCI_HELLO2_MAX], h3[UVCCI_HELLO3_BYTES], want[32],
            nonce[32], sk[3][64];
        size_t len1[3], len2[2];
        for (size_t p = 0; x && p < 3; p++) {
            uint8_t seed[32];
            test_hex_n(test_str(json_array_get(parties, p), "identity_seed"), seed, 32);
            uvcci_sign_keypair(seed, base.identity[p], sk[p]);
            test_hex_n(test_str(json_array_get(parties, p), "identity"), want, 32);
            assert_memory_equal(base.identity[p], want, 32);
        }
        uvcci_hello h[3];
        for (uint8_t p = 0; p < 3; p++) {
            const json_t *o = json_array_get(parties, p);
            uvcci_hello_config mine = base;
            mine.party = p;
            mine.suites = (uint8_t)test_u64(o, "suites");
            const json_t *offers = json_object_get(o, "offers"), *offer;
            size_t n;
            json_array_foreach((json_t *)(uintptr_t)offers, n, offer) {
                mine.offer[n].step = (uint32_t)test_u64(offer, "step");
                test_hex_n(test_str(offer, "lineage"), mine.offer[n].lineage, 32);
                mine.offer_count = (uint8_t)(n + 1);
            }
            mine.next_run = (uint32_t)test_u64(o, "next_run");
            test_hex_n(test_str(o, "n"), mine.n, 32);
            if (x) {
                test_hex_n(test_str(o, "ephemeral"), mine.ephemeral, 32);
                memcpy(mine.sign_sk, sk[p], 64);
            }
            size_t k;
            json_array_foreach(pairs, k, pair) if (!x) {
                uint8_t a = (uint8_t)test_u64(pair, "a"), b = (uint8_t)test_u64(pair, "b");
                if (a == p || b == p)
                    test_hex_n(test_str(pair, "ikm"), mine.secret[a + b - p], 32);
            }
            for (unsigned q = 0; base.kem != 0 && q < 3; q++)
                test_hex_n(json_string_value(json_array_get(json_object_get(o, "kem_seed"), q)),
                           mine.kem_seed[q], 32);
            assert_int_equal(uvcci_hello_init(&h[p], &mine, 0), 0);
            len1[p] = strlen(test_str(o, "hello1")) / 2;
            assert_true(len1[p] <= sizeof h1[p] && (base.kem != 0 || len1[p] == 452));
            test_hex_n(test_str(o, "hello1"), h1[p], len1[p]);
        }
        uint8_t out[UVCCI_HELLO1_MAX];
        bool sealed;
        for (uint8_t p = 0; p < 3; p++)
            for (uint8_t q = 0; q < 3; q++) {
                if (p == q)
                    continue;
                assert_int_equal(uvcci_hello_poll(&h[p], q, out, &sealed, 0), len1[p]);
                assert_memory_equal(out, h1[p], len1[p]);
                assert_int_equal(uvcci_hello_input(&h[p], q, h1[q], len1[q], false, 0), 0);
                if (h[p].agreed) {
                    assert_int_equal(h[p].run, test_u64(c, "run"));
                    assert_int_equal(h[p].step, test_u64(c, "step"));
                    test_hex_n(test_str(c, "lineage"), want, 32);
                    assert_memory_equal(h[p].lineage, want, 32);
                    uvcci_hello_nonce(&h[p], nonce);
                    test_hex_n(test_str(c, "run_nonce"), want, 32);
                    assert_memory_equal(nonce, want, 32);
                    assert_int_equal(h[p].suite, test_u64(c, "suite"));
                }
            }
        size_t k;
        json_array_foreach(pairs, k, pair) {
            uint8_t a = (uint8_t)test_u64(pair, "a"), b = (uint8_t)test_u64(pair, "b");
            uint8_t k_ab[32], ikm[32];
            for (unsigned turn = 0; turn < 2; turn++) {
                const char *hex = test_str(pair, turn == 0 ? "hello2_a" : "hello2_b");
                len2[turn] = strlen(hex) / 2;
                assert_true(len2[turn] <= sizeof h2[turn]);
                test_hex_n(hex, h2[turn], len2[turn]);
            }
            test_hex_n(test_str(pair, "hello3"), h3, UVCCI_HELLO3_BYTES);
            test_hex_n(test_str(pair, "ikm"), ikm, 32);
            uvcci_derive_session_key(h1[a] + 84, h1[b] + 84, ikm, base.sid_job,
                                     (uint32_t)test_u64(c, "run"), a, b, k_ab);
            test_hex_n(test_str(pair, "k_ab"), want, 32);
            assert_true((memcmp(k_ab, want, 32) == 0) == (base.kem == 0));
            test_hex_n(test_str(pair, "prk"), want, 32);
            for (unsigned turn = 0; turn < 2; turn++) {
                uvcci_hello *me = &h[turn == 0 ? a : b];
                uint8_t peer = turn == 0 ? b : a;
                bind_channel(me, peer, pair);
                while (uvcci_hello_poll(me, peer, out, &sealed, 0) != 0 && out[0] == 1)
                    ;
                assert_memory_equal(out, h2[turn], len2[turn]);
                assert_false(uvcci_hello_keyed(me, peer));
                assert_int_equal(
                    uvcci_hello_input(me, peer, h2[1 - turn], len2[1 - turn], false, 0), 0);
                assert_true(uvcci_hello_keyed(me, peer));
                assert_memory_equal(me->peer[peer].prk, want, 32);
                assert_int_equal(uvcci_hello_poll(me, peer, out, &sealed, 0), sizeof h3);
                assert_true(sealed);
                assert_memory_equal(out, h3, sizeof h3);
                assert_int_equal(uvcci_hello_input(me, peer, h3, sizeof h3, true, 0), 0);
            }
        }
        for (uint8_t p = 0; p < 3; p++)
            assert_true(uvcci_hello_done(&h[p]));
    }
    json_decref(root);
}

/* HELLO 1 of all delivered; identities and ephemerals as in config_x. */
static void to_wait2_x(net *n) {
    open_net_of(n, 1, UVCCI_EXCHANGE_X25519);
    for (uint8_t p = 0; p < 3; p++)
        assert_int_equal(uvcci_hello_init(&n->h[p], &n->cfg[p], 0), 0);
    for (uint8_t p = 0; p < 3; p++)
        for (uint8_t q = 0; q < 3; q++)
            if (p != q)
                assert_int_equal(uvcci_hello_input(&n->h[p], q, n->h[q].hello1, 452, false, 0), 0);
}

static void refuses_identities(void **state) {
    (void)state;
    uvcci_hello h;
    uvcci_hello_config c = config_x(1, 1);
    assert_int_equal(uvcci_hello_init(&h, &c, 0), 0);
#define REFUSED_X(change)                                                                          \
    do {                                                                                           \
        c = config_x(1, 1);                                                                        \
        change;                                                                                    \
        assert_int_equal(uvcci_hello_init(&h, &c, 0), UVCC_ERR_CONFIG);                            \
    } while (0)
    REFUSED_X(c.exchange = (uvcci_exchange)2);
    for (unsigned p = 0; p < 3; p++) {
        REFUSED_X(memset(c.identity[p], 0, 32));
        REFUSED_X(memcpy(c.identity[p], c.identity[(p + 1) % 3], 32));
    }
    REFUSED_X(c.identity[1][0] ^= 1); /* not the secret key's */
    REFUSED_X(memset(c.sign_sk, 0, 64));
}

/* Every bit of a signed HELLO 2: refused, nothing changes, no keys; then the right one is taken. */
static void tampered_signed(void **state) {
    (void)state;
    net n;
    to_wait2_x(&n);
    uvcci_hello *h = &n.h[0], was = *h;
    uint8_t m[108];
    uint64_t now = 0;
    const uint8_t *right = n.h[1].peer[0].hello2;
    for (size_t at = 1; at < 108; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            memcpy(m, right, 108);
            m[at] ^= (uint8_t)(1u << bit);
            assert_int_equal(uvcci_hello_input(h, 1, m, 108, false, now),
                             at < 44 ? UVCC_ERR_AUTH : UVCC_ERR_MISMATCH);
            assert_int_equal(h->field, at < 44 ? UVCCI_FIELD_NONE : UVCCI_FIELD_IDENTITY);
            was.forged[1] = h->forged[1];
            was.field = h->field;
            assert_memory_equal(h, &was, sizeof was);
            now += REPEAT;
        }
    /* Without a signature. Ours, reflected. The peer's to the third, and the third's. */
    memcpy(m, right, 108);
    memset(m + 44, 0, 64);
    const uint8_t *const others[] = {m, h->peer[1].hello2, n.h[1].peer[2].hello2,
                                     n.h[2].peer[0].hello2, n.h[2].peer[1].hello2};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(uvcci_hello_input(h, 1, others[i], 108, false, now),
                         i < 2 ? UVCC_ERR_MISMATCH : UVCC_ERR_AUTH);
        was.forged[1] = h->forged[1];
        assert_memory_equal(h, &was, sizeof was);
    }
    assert_false(uvcci_hello_keyed(h, 1));
    assert_int_equal(uvcci_hello_input(h, 1, right, 108, false, now), 0);
    assert_int_equal(h->peer[1].state, UVCCI_HELLO_WAIT3);
    assert_true(uvcci_hello_keyed(h, 1) && !uvcci_hello_keyed(h, 2));
    /* Known: answered by HELLO 3, nothing more. Another: refused. */
    was = *h;
    assert_int_equal(uvcci_hello_input(h, 1, right, 108, false, 0), 0);
    was.ignored++;
    assert_memory_equal(h, &was, sizeof was);
    m[107] ^= 1;
    assert_int_equal(uvcci_hello_input(h, 1, m, 108, false, 0), UVCC_ERR_AUTH);
    assert_memory_equal(h, &was, sizeof was);
}

/* A run that cannot end for a and b: a gets no keys with b, and neither is done. */
static void never_keyed(net *n, uint8_t a, uint8_t b) {
    assert_false(run(n, 500 * REPEAT));
    assert_false(uvcci_hello_keyed(&n->h[a], b));
    assert_false(uvcci_hello_done(&n->h[a]) || uvcci_hello_done(&n->h[b]));
}

static void wrong_identities(void **state) {
    (void)state;
    net n;
    /* P1 expects another key of P2; P2's signature names its own id, so neither end takes it. */
    open_net_of(&n, 1, UVCCI_EXCHANGE_X25519);
    uint8_t sk[64];
    identity(9, n.cfg[1].identity[2], sk);
    never_keyed(&n, 1, 2);
    never_keyed(&n, 2, 1);
    assert_true(n.auth > 0 && uvcci_hello_done(&n.h[0]));
    /* P2 is somebody else. */
    open_net_of(&n, 1, UVCCI_EXCHANGE_X25519);
    identity(9, n.cfg[2].identity[2], n.cfg[2].sign_sk);
    never_keyed(&n, 0, 2);
    never_keyed(&n, 1, 2);
    /* P0 has the keys of its peers swapped: they may not even answer for each other. */
    open_net_of(&n, 1, UVCCI_EXCHANGE_X25519);
    uint8_t swap[32];
    memcpy(swap, n.cfg[0].identity[1], 32);
    memcpy(n.cfg[0].identity[1], n.cfg[0].identity[2], 32);
    memcpy(n.cfg[0].identity[2], swap, 32);
    never_keyed(&n, 0, 1);
    never_keyed(&n, 0, 2);
    /* Right key, signed as another party: P2 with P1's key everywhere but at P1. */
    open_net_of(&n, 1, UVCCI_EXCHANGE_X25519);
    uvcci_hello_config *c = &n.cfg[2];
    memcpy(c->sign_sk, n.cfg[1].sign_sk, 64);
    memcpy(c->identity[2], n.cfg[1].identity[1], 32);
    identity(9, c->identity[1], sk);
    never_keyed(&n, 0, 2);
    never_keyed(&n, 1, 2);
}

/* Somebody between P0 and P1 puts an ephemeral of its own into both HELLO 1. */
static void man_in_the_middle(void **state) {
    (void)state;
    net n;
    open_net_of(&n, 1, UVCCI_EXCHANGE_X25519);
    uint8_t e[32] = {7}, pk[32], m[2][452];
    assert_int_equal(uvcci_x25519_public(e, pk), 0);
    for (uint8_t p = 0; p < 3; p++)
        assert_int_equal(uvcci_hello_init(&n.h[p], &n.cfg[p], 0), 0);
    for (uint8_t p = 0; p < 2; p++) {
        memcpy(m[p], n.h[p].hello1, 452);
        memcpy(m[p] + 116, pk, 32);
    }
    for (uint8_t p = 0; p < 2; p++) {
        assert_int_equal(uvcci_hello_input(&n.h[p], 2, n.h[2].hello1, 452, false, 0), 0);
        assert_int_equal(uvcci_hello_input(&n.h[p], (uint8_t)(1 - p), m[1 - p], 452, false, 0), 0);
    }
    for (uint8_t p = 0; p < 2; p++) {
        assert_int_equal(
            uvcci_hello_input(&n.h[p], (uint8_t)(1 - p), n.h[1 - p].peer[p].hello2, 108, false, 0),
            UVCC_ERR_AUTH);
        assert_false(uvcci_hello_keyed(&n.h[p], (uint8_t)(1 - p)));
        /* The true HELLO 1 comes through: begin again, and all is well. */
        assert_int_equal(
            uvcci_hello_input(&n.h[p], (uint8_t)(1 - p), n.h[1 - p].hello1, 452, false, 0), 0);
        assert_true(uvcci_hello_stale(&n.h[p]));
    }
    for (uint8_t p = 0; p < 3; p++)
        n.started[p] = 1;
    assert_true(run(&n, 100 * REPEAT));
    assert_agreement(&n);
}

/* A peer that is who it says signs an ephemeral that would make the secret zero. */
static void small_order(void **state) {
    (void)state;
    static const char *const points[] = {
        "0000000000000000000000000000000000000000000000000000000000000080",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    };
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        net n;
        open_net_of(&n, 1, UVCCI_EXCHANGE_X25519);
        for (uint8_t p = 0; p < 3; p++)
            assert_int_equal(uvcci_hello_init(&n.h[p], &n.cfg[p], 0), 0);
        test_hex_n(points[i], n.h[1].hello1 + 116, 32);
        for (uint8_t p = 0; p < 3; p++)
            for (uint8_t q = 0; q < 3; q++)
                if (p != q)
                    assert_int_equal(uvcci_hello_input(&n.h[p], q, n.h[q].hello1, 452, false, 0),
                                     0);
        assert_int_equal(uvcci_hello_input(&n.h[0], 1, n.h[1].peer[0].hello2, 108, false, 0),
                         UVCC_ERR_PROTOCOL);
        assert_int_equal(n.h[0].field, UVCCI_FIELD_EXCHANGE);
        assert_false(uvcci_hello_keyed(&n.h[0], 1));
        static const uint8_t zero[32];
        assert_memory_equal(n.h[0].peer[1].prk, zero, 32);
    }
    /* Zero itself is HELLO 1 of a provisioned peer; and the other way round. */
    uvcci_hello x, p;
    uvcci_hello_config cx = config_x(0, 1), cp = config(1, 1);
    assert_int_equal(uvcci_hello_init(&x, &cx, 0), 0);
    assert_int_equal(uvcci_hello_init(&p, &cp, 0), 0);
    assert_int_equal(uvcci_hello_input(&x, 1, p.hello1, 452, false, 0), UVCC_ERR_MISMATCH);
    assert_int_equal(x.field, UVCCI_FIELD_EXCHANGE);
    assert_int_equal(uvcci_hello_input(&p, 0, x.hello1, 452, false, 0), UVCC_ERR_MISMATCH);
    assert_int_equal(p.field, UVCCI_FIELD_EXCHANGE);
}

static bool holds(const void *in, size_t len, const uint8_t *what, size_t n) {
    for (size_t i = 0; i + n <= len; i++)
        if (memcmp((const uint8_t *)in + i, what, n) == 0)
            return true;
    return false;
}

/* The ephemeral secret is there until both peers are DONE, no longer; the X25519 output never. */
static void forgets_secrets(void **state) {
    (void)state;
    net n;
    to_wait2_x(&n);
    uvcci_hello *h = &n.h[0];
    uint8_t shared[2][32];
    for (uint8_t q = 1; q < 3; q++)
        assert_int_equal(
            uvcci_x25519_shared(n.cfg[0].ephemeral, n.h[q].hello1 + 120, shared[q - 1]), 0);
    for (uint8_t q = 1; q < 3; q++) {
        assert_true(holds(h, sizeof *h, n.cfg[0].ephemeral, 32));
        assert_int_equal(uvcci_hello_input(h, q, n.h[q].peer[0].hello2, 108, false, 0), 0);
        assert_int_equal(uvcci_hello_input(&n.h[q], 0, h->peer[q].hello2, 108, false, 0), 0);
        assert_int_equal(
            uvcci_hello_input(h, q, n.h[q].peer[0].hello3, UVCCI_HELLO3_BYTES, true, 0), 0);
    }
    assert_true(uvcci_hello_done(h));
    assert_false(holds(h, sizeof *h, n.cfg[0].ephemeral, 32));
    assert_false(holds(h, sizeof *h, n.cfg[0].sign_sk, 32));
    assert_false(holds(h, sizeof *h, shared[0], 32) || holds(h, sizeof *h, shared[1], 32));
}

/* ---- a second key agreement ---- */

enum {
    KEM1 = 452 + 4 + 32,
    KEM2 = 142
}; /* HELLO 1 of parties 0 and 1, HELLO 2 of a higher party */

static void to_wait2_kem(net *n, uvcci_exchange kind) {
    open_net_of(n, 1, (uvcci_exchange)(kind | WITH_KEM));
    for (uint8_t p = 0; p < 3; p++)
        assert_int_equal(uvcci_hello_init(&n->h[p], &n->cfg[p], 0), 0);
    for (uint8_t p = 0; p < 3; p++)
        for (uint8_t q = 0; q < 3; q++)
            if (p != q)
                assert_int_equal(uvcci_hello_input(&n->h[p], q, n->h[q].hello1,
                                                   q == 2 ? KEM1 - 32 : KEM1, false, 0),
                                 0);
}

/* Who is without one, has another one, or another key's length is named, both ways. */
static void kem_differs(void **state) {
    (void)state;
    for (unsigned kind = 0; kind < 2; kind++) {
        net n, plain;
        to_wait2_kem(&n, (uvcci_exchange)kind);
        open_net_of(&plain, 1, (uvcci_exchange)kind);
        uvcci_hello with, without;
        assert_int_equal(uvcci_hello_init(&with, &n.cfg[0], 0), 0);
        assert_int_equal(uvcci_hello_init(&without, &plain.cfg[1], 0), 0);
        assert_int_equal(uvcci_hello_input(&with, 1, without.hello1, 452, false, 0),
                         UVCC_ERR_MISMATCH);
        assert_int_equal(with.field, UVCCI_FIELD_KEM);
        assert_int_equal(uvcci_hello_input(&without, 0, with.hello1, KEM1, false, 0),
                         UVCC_ERR_MISMATCH);
        assert_int_equal(without.field, UVCCI_FIELD_KEM);
        uint8_t m[KEM1 + 1000];
        memcpy(m, n.h[1].hello1, KEM1);
        uvcci_st16(m + 452, 0x0041); /* ML-KEM-768, one day */
        uvcci_st16(m + 454, 1000);
        assert_int_equal(uvcci_hello_input(&with, 1, m, 456 + 1000, false, 0), UVCC_ERR_MISMATCH);
        assert_int_equal(with.field, UVCCI_FIELD_KEM);
        assert_int_equal(with.ignored, 0);
        assert_int_equal(uvcci_hello_input(&with, 1, m, 456 + 999, false, 0), 0); /* malformed */
        assert_int_equal(with.ignored, 1);
        assert_int_equal(with.peer[1].hello1[0], 0);
    }
    uvcci_hello h;
    uvcci_hello_config c = config(1, 1);
    c.kem = 0x0041;
    assert_int_equal(uvcci_hello_init(&h, &c, 0), UVCC_ERR_CONFIG);
}

/* Every bit of a ciphertext and of its length is proved, in both exchanges; keys hang on both
 * secrets. */
static void kem_is_bound(void **state) {
    (void)state;
    for (unsigned kind = 0; kind < 2; kind++) {
        net n;
        to_wait2_kem(&n, (uvcci_exchange)kind);
        uvcci_hello *h = &n.h[0];
        uint64_t now = 0;
        uint8_t m[KEM2];
        for (size_t at = 44; at < KEM2; at++)
            for (unsigned bit = 0; bit < 8; bit++) {
                memcpy(m, n.h[1].peer[0].hello2, KEM2);
                m[at] ^= (uint8_t)(1u << bit);
                assert_int_equal(uvcci_hello_input(h, 1, m, KEM2, false, now), UVCC_ERR_MISMATCH);
                assert_false(uvcci_hello_keyed(h, 1));
                now += REPEAT;
            }
        assert_int_equal(uvcci_hello_input(h, 1, n.h[1].peer[0].hello2, 108, false, now), 0);
        assert_false(uvcci_hello_keyed(h, 1)); /* without its end: ignored */
        /* Another second secret, or another first one, is another PRK. */
        uvcci_hello a = *h, b = *h, x = *h;
        const uint8_t *right = n.h[1].peer[0].hello2;
        b.kem_dk[5] ^= 0x10;
        x.cfg.secret[1][0] ^= 1;
        x.cfg.ephemeral[5] ^= 0x10;
        assert_int_equal(uvcci_hello_input(&a, 1, right, KEM2, false, now), 0);
        assert_int_equal(uvcci_hello_input(&b, 1, right, KEM2, false, now), 0);
        assert_int_equal(uvcci_hello_input(&x, 1, right, KEM2, false, now), 0);
        assert_memory_not_equal(a.peer[1].prk, b.peer[1].prk, 32);
        assert_memory_not_equal(a.peer[1].prk, x.peer[1].prk, 32);
        assert_int_equal(uvcci_hello_input(&n.h[1], 0, h->peer[1].hello2, 108, false, now), 0);
        assert_memory_equal(a.peer[1].prk, n.h[1].peer[0].prk, 32);
    }
}

/* Nothing that the second secret could be made of again is there once both peers are DONE. */
static void kem_is_forgotten(void **state) {
    (void)state;
    net n;
    open_net_of(&n, 1, (uvcci_exchange)(UVCCI_EXCHANGE_X25519 | WITH_KEM));
    assert_true(run(&n, 100 * REPEAT));
    for (uint8_t p = 0; p < 3; p++) {
        static const uint8_t zero[32];
        const uvcci_hello *h = &n.h[p];
        for (uint8_t q = 0; q < 3; q++) { /* the decapsulation key is the seed here */
            assert_false(holds(h, sizeof *h, n.cfg[p].kem_seed[q], 32));
            assert_memory_equal(h->peer[q].kem_ss, zero, 32);
        }
        assert_memory_equal(h->kem_dk, zero, 32);
    }
}

/* An encapsulation key that gives no secret, from a peer who proves it. */
static void kem_gives_nothing(void **state) {
    (void)state;
    for (unsigned kind = 0; kind < 2; kind++) {
        net n;
        open_net_of(&n, 1, (uvcci_exchange)(kind | WITH_KEM));
        for (uint8_t p = 0; p < 3; p++)
            assert_int_equal(uvcci_hello_init(&n.h[p], &n.cfg[p], 0), 0);
        memset(n.h[0].hello1 + 456, 0, 32);
        for (uint8_t p = 0; p < 3; p++)
            for (uint8_t q = 0; q < 3; q++)
                if (p != q)
                    assert_int_equal(uvcci_hello_input(&n.h[p], q, n.h[q].hello1,
                                                       q == 2 ? KEM1 - 32 : KEM1, false, 0),
                                     0);
        assert_int_equal(uvcci_hello_input(&n.h[1], 0, n.h[0].peer[1].hello2, 108, false, 0),
                         UVCC_ERR_PROTOCOL);
        assert_int_equal(n.h[1].field, UVCCI_FIELD_KEM);
        assert_false(uvcci_hello_keyed(&n.h[1], 0));
    }
}

/* ---- a peer of a live party begins anew ---- */

static void live(net *n, void **state) {
    open_net_of(n, 1, *(const uvcci_exchange *)*state);
    assert_true(run(n, 100 * REPEAT));
}

static void live_verifies_restart(void **state) {
    net n;
    live(&n, state);
    uvcci_hello *h = &n.h[0], was = *h, old1 = n.h[1];
    uint8_t out[452];
    bool sealed;
    renew(&n, 1);
    uvcci_hello *again = &n.h[1];
    assert_int_equal(uvcci_hello_init(again, &n.cfg[1], n.now), 0);

    /* Its HELLO 1 is kept, answered by ours each time, and believed by nobody. */
    for (unsigned turn = 0; turn < 3; turn++) {
        assert_int_equal(uvcci_hello_input(h, 1, again->hello1, 452, false, n.now), 0);
        assert_int_equal(uvcci_hello_poll(h, 1, out, &sealed, n.now), 452);
        assert_memory_equal(out, h->hello1, 452);
        assert_int_equal(uvcci_hello_poll(h, 1, out, &sealed, n.now), 0);
        n.now += REPEAT;
    }
    memcpy(was.sent, h->sent, sizeof was.sent);
    was.peer[1].next_repeat = h->peer[1].next_repeat;
    was.peer[1].repeat_ns = h->peer[1].repeat_ns;
    was.other_n = 3;
    memcpy(was.peer[1].other1, again->hello1, 452);
    assert_memory_equal(h, &was, sizeof was);
    assert_false(uvcci_hello_restarted(h, 1));

    /* It agrees, and signs. */
    assert_int_equal(uvcci_hello_input(again, 0, out, 452, false, n.now), 0);
    memcpy(out, h->hello1, 452);
    assert_int_equal(uvcci_hello_input(again, 0, out, 452, false, n.now), 0);
    assert_int_equal(uvcci_hello_input(again, 2, n.h[2].hello1, 452, false, n.now), 0);
    assert_int_equal(again->run, was.run + 1);
    const uint8_t *right = again->peer[0].hello2;

    /* Everything else is refused: each bit, one for the third, ours. */
    uint8_t m[108];
    for (size_t at = 1; at < 108; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            memcpy(m, right, 108);
            m[at] ^= (uint8_t)(1u << bit);
            assert_int_equal(uvcci_hello_input(h, 1, m, 108, false, n.now), UVCC_ERR_AUTH);
            n.now += REPEAT;
        }
    assert_int_equal(uvcci_hello_input(h, 1, again->peer[2].hello2, 108, false, n.now),
                     UVCC_ERR_AUTH);
    assert_int_equal(uvcci_hello_input(h, 1, h->peer[1].hello2, 108, false, n.now), UVCC_ERR_AUTH);
    was.forged[1] = h->forged[1];
    assert_memory_equal(h, &was, sizeof was);
    assert_int_equal(uvcci_hello_input(h, 1, old1.peer[0].hello2, 108, false, n.now), 0);
    was.ignored++;
    was.peer[1].pending |= 1u << 3; /* the old one is a known HELLO 2 */
    assert_memory_equal(h, &was, sizeof was);

    assert_int_equal(uvcci_hello_input(h, 1, right, 108, false, n.now), 0);
    assert_true(uvcci_hello_restarted(h, 1) && !uvcci_hello_restarted(h, 2));
    was.peer[1].restarted = was.stale = true;
    assert_memory_equal(h, &was, sizeof was); /* keys, state, run: as they were */
    assert_true(uvcci_hello_done(h) && !uvcci_hello_stale(h));
}

/* The third party's handshake, which a peer's restart began again before it was done: its HELLO 2
 * over the HELLO 1 that both have had names a greater run. One of an earlier attempt in the same
 * handshake, which names no greater run, comes late and is nothing new. */
static void live_verifies_handshake_again(void **state) {
    net n;
    live(&n, state);
    uvcci_hello *h = &n.h[0];
    const uvcci_hello was = *h;
    for (unsigned greater = 0; greater < 2; greater++) {
        uvcci_hello third, back;
        n.cfg[1].n[0] ^= 1;
        n.cfg[1].next_run = was.run + greater;
        n.cfg[2].next_run = was.run - 1;
        assert_int_equal(uvcci_hello_init(&back, &n.cfg[1], n.now), 0);
        assert_int_equal(uvcci_hello_init(&third, &n.cfg[2], n.now), 0);
        h->peer[2].hello1[80] = third.hello1[80]; /* next_run */
        assert_int_equal(uvcci_hello_input(&third, 1, back.hello1, 452, false, n.now), 0);
        assert_int_equal(uvcci_hello_input(&third, 0, h->hello1, 452, false, n.now), 0);
        const int rc = uvcci_hello_input(h, 2, third.peer[0].hello2, 108, false, n.now);
        assert_int_equal(rc, greater != 0 ? 0 : UVCC_ERR_AUTH);
        assert_int_equal(uvcci_hello_restarted(h, 2), greater != 0);
    }
}

/* HELLO 1 that nobody proves, of other programs, in any number: a live party stays as it was. */
static void live_ignores_forgeries(void **state) {
    net n;
    live(&n, state);
    uvcci_hello *h = &n.h[0], was = *h;
    uint64_t seed = 3;
    uint8_t m[452], hello2[108];
    for (unsigned i = 0; i < 200; i++) {
        memcpy(m, n.h[1].hello1, 452);
        test_rand_bytes(&seed, m + 84, h->cfg.exchange == UVCCI_EXCHANGE_X25519 ? 64 : 32);
        if (i % 3 == 0)
            m[50] ^= 1; /* another program: not even kept */
        assert_int_equal(uvcci_hello_input(h, 1, m, 452, false, 0),
                         i % 3 == 0 ? UVCC_ERR_MISMATCH : 0);
        assert_true((memcmp(h->peer[1].other1, m, 452) == 0) == (i % 3 != 0));
        test_rand_bytes(&seed, hello2, 108);
        hello2[0] = 2;
        assert_int_equal(uvcci_hello_input(h, 1, hello2, 108, false, 0), UVCC_ERR_AUTH);
        /* Ours over it, reflected. */
        if (i % 3 != 0) {
            uvcci_hello mirror;
            assert_int_equal(uvcci_hello_init(&mirror, &n.cfg[0], 0), 0);
            assert_int_equal(uvcci_hello_input(&mirror, 1, m, 452, false, 0), 0);
            assert_int_equal(uvcci_hello_input(&mirror, 2, n.h[2].hello1, 452, false, 0), 0);
            assert_int_equal(uvcci_hello_input(h, 1, mirror.peer[1].hello2, 108, false, 0),
                             UVCC_ERR_AUTH);
        }
    }
    was.other_n = 200;
    was.field = UVCCI_FIELD_PROGRAM;
    memcpy(was.peer[1].other1, h->peer[1].other1, 452);
    was.peer[1].pending = 1u << 1;
    was.peer[1].answer_other = true;
    was.forged[1] = h->forged[1];
    assert_memory_equal(h, &was, sizeof was);
}

/* A run goes on, and nobody can go on any more from what was offered when it began: who begins anew
 * then is answered with its own offers, and proves itself as ever. With `same` its random bytes
 * come again, as in a virtual machine that is restored: its next_run is another one. */
static void later_offers(void **state, bool same) {
    net n;
    live(&n, state);
    const uvcci_hello_config before = n.cfg[1];
    renew(&n, 1);
    if (same) {
        assert_true(n.cfg[1].next_run > before.next_run);
        memcpy(n.cfg[1].n, before.n, sizeof before.n);
        memcpy(n.cfg[1].ephemeral, before.ephemeral, sizeof before.ephemeral);
    }
    n.cfg[1].offer[0].step = 40;
    memset(n.cfg[1].offer[0].lineage, 0xAB, 32);
    uvcci_hello *again = &n.h[1];
    assert_int_equal(uvcci_hello_init(again, &n.cfg[1], n.now), 0);
    for (uint8_t q = 0; q < 3; q += 2) {
        uint8_t out[452];
        bool sealed;
        assert_int_equal(uvcci_hello_input(&n.h[q], 1, again->hello1, 452, false, n.now), 0);
        assert_int_equal(uvcci_hello_poll(&n.h[q], 1, out, &sealed, n.now), 452);
        assert_memory_equal(out, n.h[q].hello1, 148);
        assert_memory_equal(out + 148, again->hello1 + 148, 144);
        assert_memory_equal(out + 292, n.h[q].hello1 + 292, 32);
        assert_int_equal(uvcci_hello_input(again, q, out, 452, false, n.now), 0);
    }
    assert_int_equal(again->step, 40);
    for (uint8_t q = 0; q < 3; q += 2) {
        assert_int_equal(uvcci_hello_input(&n.h[q], 1, again->peer[q].hello2, 108, false, n.now),
                         0);
        assert_true(uvcci_hello_restarted(&n.h[q], 1));
    }
}

static void live_verifies_later_offers(void **state) {
    later_offers(state, false);
}

static void live_verifies_repeated_random(void **state) {
    later_offers(state, true);
}

/* A forged HELLO 1 is answered by a live party; its live peer does not answer that, or the two
 * would go on without end. */
static void answers_die_out(void **state) {
    net n;
    uint8_t forged[452], out[452];
    bool sealed;
    live(&n, state);
    memcpy(forged, n.h[1].hello1, sizeof forged);
    forged[84] ^= 1; /* another nonce and other offers, as of one that began anew */
    forged[148] ^= 1;
    assert_int_equal(uvcci_hello_input(&n.h[0], 1, forged, 452, false, n.now), 0);
    assert_int_equal(uvcci_hello_poll(&n.h[0], 1, out, &sealed, n.now), 452);
    assert_memory_not_equal(out, n.h[0].hello1, 452);
    assert_int_equal(uvcci_hello_input(&n.h[1], 0, out, 452, false, n.now), 0);
    assert_int_equal(uvcci_hello_poll(&n.h[1], 0, out, &sealed, n.now), 0);
}

/* A party of three live ones begins anew on a bad network: the others find out, do the same, and
 * all end under the next run. */
static void restart_of_the_job(void **state) {
    for (uint64_t seed = 1; seed <= 200; seed++) {
        net n;
        open_net_of(&n, seed, *(const uvcci_exchange *)*state);
        assert_true(run(&n, 100 * REPEAT));
        uint32_t before = n.h[0].run;
        n.loss = (unsigned)(test_rand(&n.seed) % 50);
        n.dup = (unsigned)(test_rand(&n.seed) % 30);
        n.delay = 1 + test_rand(&n.seed) % REPEAT;
        n.follow = true;
        uint8_t who = (uint8_t)(seed % 3);
        renew(&n, who);
        start(&n, who);
        if (seed % 5 == 0) { /* two at once */
            renew(&n, (uint8_t)((who + 1) % 3));
            start(&n, (uint8_t)((who + 1) % 3));
        }
        if (!run(&n, 100000 * REPEAT))
            fail_msg("seed %d stands still", (int)seed);
        assert_agreement(&n);
        assert_true(n.h[0].run > before && n.follows >= 1);
    }
}

static struct CMUnitTest of_kind(const char *name, CMUnitTestFunction f, unsigned kind) {
    return (struct CMUnitTest){.name = name, .test_func = f, .initial_state = &kinds[kind]};
}
#define BOTH(f) of_kind(#f " (provisioned)", f, 0), of_kind(#f " (X25519)", f, 1)
#define ALL(f)  BOTH(f), of_kind(#f " (provisioned, KEM)", f, 2), of_kind(#f " (X25519, KEM)", f, 3)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout),
        cmocka_unit_test(suites),
        cmocka_unit_test(equal_steps),
        cmocka_unit_test(refuses_configs),
        cmocka_unit_test(names_the_field),
        cmocka_unit_test(ignores_what_is_malformed),
        cmocka_unit_test(other_versions),
        cmocka_unit_test(reflection_and_order),
        cmocka_unit_test(tampered),
        cmocka_unit_test(channels),
        cmocka_unit_test(another_n),
        ALL(lossless),
        ALL(lossy),
        ALL(restart_in_the_middle),
        cmocka_unit_test(wrong_secret),
        cmocka_unit_test(back_off),
        cmocka_unit_test(asks_one_that_passed),
        cmocka_unit_test(repeats_until_passed),
        cmocka_unit_test(vectors),
        cmocka_unit_test(refuses_identities),
        cmocka_unit_test(tampered_signed),
        cmocka_unit_test(wrong_identities),
        cmocka_unit_test(man_in_the_middle),
        cmocka_unit_test(small_order),
        cmocka_unit_test(forgets_secrets),
        cmocka_unit_test(kem_differs),
        cmocka_unit_test(kem_is_bound),
        cmocka_unit_test(kem_is_forgotten),
        cmocka_unit_test(kem_gives_nothing),
        BOTH(live_verifies_restart),
        BOTH(live_verifies_handshake_again),
        BOTH(live_verifies_later_offers),
        BOTH(live_verifies_repeated_random),
        BOTH(answers_die_out),
        BOTH(live_ignores_forgeries),
        ALL(restart_of_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
