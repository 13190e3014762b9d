/* SPDX-License-Identifier: Apache-2.0 */
/* hello.c - the handshake of one party with both peers.
 *
 * States per peer: WAIT1 -> WAIT2 -> WAIT3 -> DONE (hello.h); both peers leave WAIT1 together, when
 * the second HELLO 1 comes. Invariants: a state never falls (but in uvcci_hello_again); keys and
 * expected payloads are derived once; nothing unproved changes what was proved; an input makes at
 * most three payloads due, and the chain HELLO 1 -> 2 -> 3 -> nothing (with HELLO 1 -> 1 only every
 * second time, and 1 -> 1 for one that is not believed) ends, so answers never feed each other.
 * What keys are made of lives until both peers are DONE. */
#include "proto/hello.h"

#include <assert.h>

#include "proto/bytes.h"
#include "proto/ids.h"
#include "proto/mutant.h"
#include "proto/pace.h"

enum { HELLO1 = 1, HELLO2 = 2, HELLO3 = 3 };
#define BIT(hello) (1u << (hello))
enum { VERSION = 5 };
enum { BACKOFF_MAX = 32 };
enum { AT_ONCE = 4, FORGED_MAX = 64 }; /* hello.h: what peers and forgers can make us do */
enum {
    SUITES_KNOWN = 1 << (UVCCI_SUITE_CHACHA20_POLY1305 - 1) | 1 << (UVCCI_SUITE_AES256_GCM - 1)
};

/* HELLO 1. */
enum {
    AT_SUITES = 1,
    AT_PARTY = 2,
    AT_VERSION = 3,
    AT_SID_JOB = 4,
    AT_TOPOLOGY = 36,
    AT_POSITION = 42,
    AT_PROGRAM = 48,
    AT_NEXT_RUN = 80,
    AT_N = 84,
    AT_EPHEMERAL = 116,
    AT_OFFERS = 148, /* of UVCCI_OFFERS: step (NO_OFFER: none), lineage */
    AT_POLICY = 292,
    AT_PARTS = 324,  /* of UVCCI_AGREE_PARTS: a hash */
    AT_KEM = 452,    /* with a second key agreement alone: its id, */
    AT_EK_LEN = 454, /* the length of the encapsulation key (0: of party 2, who needs none), */
    AT_EK = 456,     /* and the key */
};

enum { OFFER_BYTES = 36 };
_Static_assert(AT_PARTS + 8 * UVCCI_AGREE_PARTS == UVCCI_HELLO1_BYTES &&
                   AT_KEM == UVCCI_HELLO1_BYTES,
               "the parts end it, but for a second key agreement");
#define NO_OFFER UINT32_MAX

/* HELLO 2. */
enum {
    AT_SUITE = 1,
    AT_ZERO = 2,
    AT_RUN = 4, /* then the step */
    AT_HASH = 12,
    AT_PROOF = 44,
    AT_CT_LEN = 108, /* for a party of lower index, with a second key agreement alone */
    AT_CT = 110,
};

/* HELLO 3. */
enum { AT_CHANNEL = 33 };
_Static_assert(AT_CHANNEL + 32 == UVCCI_HELLO3_BYTES, "the channel ends it");

static bool all_zero(const uint8_t *p, size_t n) {
    uint8_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum |= p[i];
    return sum == 0;
}

static bool x25519(const uvcci_hello *h) {
    return h->cfg.exchange == UVCCI_EXCHANGE_X25519;
}

static const uvcci_kem *kem_of(const uvcci_hello *h) {
    return uvcci_kem_of(h->cfg.kem);
}

/* HELLO 1 of `party`, and HELLO 2 of `src` to `dst`: how long they are in this job. */
static size_t hello1_len(const uvcci_hello *h, uint8_t party) {
    const uvcci_kem *k = kem_of(h);
    return k == NULL ? UVCCI_HELLO1_BYTES : AT_EK + (party < 2 ? k->ek_bytes : 0u);
}

static size_t hello2_len(const uvcci_hello *h, uint8_t src, uint8_t dst) {
    const uvcci_kem *k = kem_of(h);
    return k == NULL || src < dst ? UVCCI_HELLO2_BYTES : AT_CT + (size_t)k->ct_bytes;
}

static uint8_t other_peer(const uvcci_hello *h, uint8_t peer) {
    assert(peer < UVCC_PARTIES && peer != h->cfg.party);
    return (uint8_t)(3 - h->cfg.party - peer);
}

/* Our HELLO 1, once: it stays the same when the handshake begins again. */
static int write_hello1(uvcci_hello *h) {
    const uvcci_hello_config *c = &h->cfg;
    uvcci_writer w = uvcci_writer_on(h->hello1, sizeof h->hello1);
    uvcci_put8(&w, HELLO1);
    uvcci_put8(&w, c->suites);
    uvcci_put8(&w, c->party);
    uvcci_put8(&w, VERSION);
    uvcci_put(&w, c->sid_job, 32);
    uvcci_put16(&w, c->r);
    uvcci_put16(&w, c->s);
    uvcci_put16(&w, c->t);
    uvcci_put16(&w, c->replica);
    uvcci_put16(&w, c->stage);
    uvcci_put16(&w, c->tp);
    uvcci_put(&w, c->h_program, 32);
    uvcci_put32(&w, c->next_run);
    uvcci_put(&w, c->n, 32);
    assert(!w.bad && w.len == AT_EPHEMERAL); /* provisioned: zeros follow */
    for (unsigned i = 0; i < UVCCI_OFFERS; i++) {
        uint8_t *at = h->hello1 + AT_OFFERS + i * OFFER_BYTES;
        uvcci_st32(at, i < c->offer_count ? c->offer[i].step : NO_OFFER);
        if (i < c->offer_count)
            memcpy(at + 4, c->offer[i].lineage, 32);
    }
    memcpy(h->hello1 + AT_POLICY, c->policy, 32);
    for (unsigned i = 0; i < UVCCI_AGREE_PARTS; i++)
        uvcci_st64(h->hello1 + AT_PARTS + 8 * i, c->part[i]);
    int err = x25519(h) ? uvcci_x25519_public(c->ephemeral, h->hello1 + AT_EPHEMERAL) : 0;
    const uvcci_kem *k = kem_of(h);
    if (err != 0 || k == NULL)
        return err;
    uvcci_st16(h->hello1 + AT_KEM, k->id);
    uvcci_st16(h->hello1 + AT_EK_LEN, (uint16_t)(hello1_len(h, c->party) - AT_EK));
    if (c->party == 2)
        return 0;
    return k->keypair(c->kem_seed[c->party], h->hello1 + AT_EK, h->kem_dk);
}

/* ---- repetition ---- */

/* What may not have reached the peer yet. One that is past the handshake may still owe us its
 * HELLO 3, lost or overtaken by its first sealed frames: our HELLO 2, repeated, makes it answer. */
static uint8_t unconfirmed(const uvcci_hello_peer *p) {
    static const uint8_t by_state[] = {
        [UVCCI_HELLO_WAIT1] = BIT(HELLO1),
        [UVCCI_HELLO_WAIT2] = BIT(HELLO1) | BIT(HELLO2),
        [UVCCI_HELLO_WAIT3] = BIT(HELLO2) | BIT(HELLO3),
        [UVCCI_HELLO_DONE] = BIT(HELLO3),
    };
    return p->reached && p->state == UVCCI_HELLO_DONE ? 0 : by_state[p->state];
}

static void set_timer(uvcci_hello_peer *p, uint64_t repeat_ns, uint64_t now) {
    p->repeat_ns = repeat_ns;
    p->next_repeat = now > UVCC_NEVER - repeat_ns ? UVCC_NEVER : now + repeat_ns;
}

static void advance(uvcci_hello *h, uvcci_hello_peer *p, uvcci_hello_state state, uint64_t now) {
    assert(p->state < state); /* a state never falls */
    p->state = state;
    set_timer(p, h->cfg.repeat_ns, now);
}

/* ---- agreement ---- */

const char *uvcci_hello_field_name(uvcci_hello_field field) {
    static const char *const names[UVCCI_FIELD_COUNT] = {
        "nothing", "version",  "sid_job",      "topology", "position", "job",
        "program", "policy",   "key exchange", "kem",      "run",      "suites",
        "lineage", "identity", "pair_secret",  "channel"};
    assert((unsigned)field < UVCCI_FIELD_COUNT);
    return names[field];
}

static int mismatch(uvcci_hello *h, uvcci_hello_field field) {
    h->field = field;
    h->part = 0;
    return UVCC_ERR_MISMATCH;
}

/* The offer at `at` is among those of a HELLO 1, or there is none yet. */
static bool offers(const uint8_t *hello1, const uint8_t *at) {
    for (unsigned i = 0; i < UVCCI_OFFERS; i++) {
        const uint8_t *o = hello1 + AT_OFFERS + i * OFFER_BYTES;
        if (memcmp(o, at, UVCCI_MUTANT(31) ? 4 : OFFER_BYTES) == 0)
            return true;
    }
    return hello1[0] == 0;
}

/* The best of our offers that both have (a HELLO 1 that is not here has all): the greatest step, of
 * two lineages the one whose bytes are greater. NULL: they have none in common. */
static const uint8_t *common_offer(const uvcci_hello *h, const uint8_t *a, const uint8_t *b) {
    const uint8_t *best = NULL;
    for (unsigned i = 0; i < UVCCI_OFFERS; i++) {
        const uint8_t *o = h->hello1 + AT_OFFERS + i * OFFER_BYTES;
        if (uvcci_ld32(o) == NO_OFFER || !offers(a, o) || !offers(b, o))
            continue;
        if (best == NULL || uvcci_ld32(o) > uvcci_ld32(best) ||
            (uvcci_ld32(o) == uvcci_ld32(best) && memcmp(o + 4, best + 4, 32) > 0))
            best = o;
    }
    return best;
}

/* The first part of the job that differs in this HELLO 1; UVCCI_AGREE_PARTS: none does. */
static unsigned other_part(const uvcci_hello *h, const uint8_t *in) {
    unsigned i = 0;
    while (i < UVCCI_AGREE_PARTS &&
           memcmp(in + AT_PARTS + 8 * i, h->hello1 + AT_PARTS + 8 * i, 8) == 0)
        i++;
    return i;
}

/* What differs in a HELLO 1, in the order of uvcci_hello_field: what others follow from comes
 * first, so that a person is told the cause. */
static uvcci_hello_field hello1_fault(const uvcci_hello *h, uint8_t peer, const uint8_t *in,
                                      size_t len) {
    if (in[AT_VERSION] != VERSION)
        return UVCCI_FIELD_VERSION;
    if (memcmp(in + AT_SID_JOB, h->hello1 + AT_SID_JOB, 32) != 0)
        return UVCCI_FIELD_SID_JOB;
    if (memcmp(in + AT_TOPOLOGY, h->hello1 + AT_TOPOLOGY, 6) != 0)
        return UVCCI_FIELD_TOPOLOGY;
    if (memcmp(in + AT_POSITION, h->hello1 + AT_POSITION, 6) != 0)
        return UVCCI_FIELD_POSITION;
    if (!UVCCI_MUTANT(42) && other_part(h, in) < UVCCI_AGREE_PARTS)
        return UVCCI_FIELD_JOB;
    if (memcmp(in + AT_PROGRAM, h->hello1 + AT_PROGRAM, 32) != 0)
        return UVCCI_FIELD_PROGRAM;
    if (!UVCCI_MUTANT(36) && memcmp(in + AT_POLICY, h->hello1 + AT_POLICY, 32) != 0)
        return UVCCI_FIELD_POLICY;
    if (all_zero(in + AT_EPHEMERAL, 32) == x25519(h))
        return UVCCI_FIELD_EXCHANGE;
    if (len != hello1_len(h, peer) || (kem_of(h) != NULL && uvcci_ld16(in + AT_KEM) != h->cfg.kem))
        return UVCCI_FIELD_KEM;
    if (uvcci_ld32(in + AT_NEXT_RUN) >= UVCCI_RUN_LIMIT)
        return UVCCI_FIELD_RUN;
    const uint8_t *third = h->peer[other_peer(h, peer)].hello1;
    uint8_t common = h->cfg.suites & in[AT_SUITES];
    if (third[0] != 0)
        common &= third[AT_SUITES];
    if (common == 0)
        return UVCCI_FIELD_SUITES;
    return common_offer(h, in, third) == NULL ? UVCCI_FIELD_LINEAGE : UVCCI_FIELD_NONE;
}

static int mismatch1(uvcci_hello *h, uvcci_hello_field field, const uint8_t *in) {
    (void)mismatch(h, field);
    if (field == UVCCI_FIELD_JOB)
        h->part = (uint8_t)other_part(h, in);
    return UVCC_ERR_MISMATCH;
}

/* Our HELLO 1 as the sender of `their1` gets it. Who began anew is answered with its own offers:
 * ours are those of the beginning of this run, and what can be gone on from has changed since. So
 * it can prove itself by a HELLO 2; where the three go on is agreed on when all have begun anew. */
static const uint8_t *our_hello1(const uvcci_hello *h, uint8_t peer, const uint8_t *their1,
                                 uint8_t room[UVCCI_HELLO1_MAX]) {
    if (their1 != h->peer[peer].other1 || UVCCI_MUTANT(40))
        return h->hello1;
    memcpy(room, h->hello1, hello1_len(h, h->cfg.party));
    memcpy(room + AT_OFFERS, their1 + AT_OFFERS, (size_t)UVCCI_OFFERS * OFFER_BYTES);
    return room;
}

/* Of both HELLO 1, the lower party's first. */
static void hash_hello1(const uvcci_hello *h, uint8_t peer, const uint8_t *their1,
                        uvcci_sha256 *sha) {
    const uint8_t me = h->cfg.party;
    uint8_t room[UVCCI_HELLO1_MAX];
    const uint8_t *our1 = our_hello1(h, peer, their1, room);
    uvcci_sha256_init(sha);
    if (me < peer)
        uvcci_sha256_update(sha, our1, hello1_len(h, me));
    uvcci_sha256_update(sha, their1, hello1_len(h, peer));
    if (me > peer)
        uvcci_sha256_update(sha, our1, hello1_len(h, me));
}

/* No text with a second key agreement is one without: HELLO 1 begins with its number. */
#define LABEL     "UVCC_HELLO_V2"
#define LABEL_KEM "/KEM"
#define PROVED_MAX                                                                                 \
    (sizeof LABEL LABEL_KEM - 1 + 2 * UVCCI_HELLO1_MAX + 1 + 8 + 64 + 1 + 2 + UVCCI_KEM_CT_MAX)

/* What `signer` proves in its HELLO 2 of the pair of us and `peer`, whose HELLO 1 is their1; its
 * length. */
static size_t write_proved(const uvcci_hello *h, uint8_t peer, const uint8_t *their1,
                           const uint8_t *hello2, uint8_t signer, uint8_t out[PROVED_MAX]) {
    uint8_t me = h->cfg.party, to = signer == me ? peer : me;
    bool first = me < peer;
    const uint8_t a = first ? me : peer, b = first ? peer : me;
    uvcci_writer w = uvcci_writer_on(out, PROVED_MAX);
    uvcci_put(&w, LABEL, sizeof LABEL - 1);
    if (kem_of(h) != NULL)
        uvcci_put(&w, LABEL_KEM, sizeof LABEL_KEM - 1);
    uint8_t room[UVCCI_HELLO1_MAX];
    const uint8_t *our1 = our_hello1(h, peer, their1, room);
    uvcci_put(&w, first ? our1 : their1, hello1_len(h, a));
    uvcci_put(&w, first ? their1 : our1, hello1_len(h, b));
    uvcci_put8(&w, hello2[AT_SUITE]);
    uvcci_put(&w, hello2 + AT_RUN, 8);
    uvcci_put(&w, h->cfg.identity[a], 32);
    uvcci_put(&w, h->cfg.identity[b], 32);
    uvcci_put8(&w, signer);
    uvcci_put(&w, hello2 + AT_CT_LEN, hello2_len(h, signer, to) - UVCCI_HELLO2_BYTES);
    assert(!w.bad);
    return w.len;
}

/* A proof by the pair's secret: an HMAC, then zeros. */
static void write_mac(const uvcci_hello *h, uint8_t peer, const uint8_t *text, size_t len,
                      uint8_t proof[64]) {
    uvcci_hmac_once(h->proof_key[peer], 32, text, len, proof);
    memset(proof + 32, 0, 32);
}

/* A secret for the peer's encapsulation key, if we are the higher of the two. Another key than
 * before, after a handshake that began again, gets another one. */
static void encapsulate(uvcci_hello *h, uint8_t peer) {
    const uvcci_kem *k = kem_of(h);
    uvcci_hello_peer *p = &h->peer[peer];
    if (k == NULL || h->cfg.party < peer)
        return;
    uint8_t seed[32];
    uvcci_hmac_once(h->cfg.kem_seed[peer], 32, p->hello1 + AT_EK, k->ek_bytes, seed);
    uvcci_st16(p->hello2 + AT_CT_LEN, k->ct_bytes);
    p->kem_out = k->encapsulate(p->hello1 + AT_EK, seed, p->hello2 + AT_CT, p->kem_ss) == 0;
    uvcci_wipe(seed, sizeof seed);
}

static void write_hello2(uvcci_hello *h, uint8_t peer) {
    uvcci_hello_peer *p = &h->peer[peer];
    uint8_t *m = p->hello2;
    m[0] = HELLO2;
    m[AT_SUITE] = h->suite;
    uvcci_st16(m + AT_ZERO, 0);
    uvcci_st32(m + AT_RUN, h->run);
    uvcci_st32(m + AT_RUN + 4, h->step);
    uvcci_sha256 sha;
    hash_hello1(h, peer, p->hello1, &sha);
    uvcci_sha256_final(&sha, m + AT_HASH);
    encapsulate(h, peer);
    uint8_t text[PROVED_MAX];
    size_t len = write_proved(h, peer, p->hello1, m, h->cfg.party, text);
    if (x25519(h))
        uvcci_sign(h->cfg.sign_sk, text, len, m + AT_PROOF);
    else
        write_mac(h, peer, text, len, m + AT_PROOF);
}

/* False: it is forged, or of a peer with another secret or identity. */
static bool proof_verifies(const uvcci_hello *h, uint8_t peer, const uint8_t *text, size_t len,
                           const uint8_t proof[64]) {
    if (x25519(h))
        return uvcci_sign_verify(h->cfg.identity[peer], text, len, proof) == 0;
    uint8_t want[64];
    write_mac(h, peer, text, len, want);
    return uvcci_ct_equal(want, proof, 64);
}

/* The peer's HELLO 2 over our HELLO 1 and `their1`. */
static bool hello2_verifies(uvcci_hello *h, uint8_t peer, const uint8_t *their1, const uint8_t *in,
                            uint64_t now) {
    uint8_t hash[32], text[PROVED_MAX];
    uvcci_sha256 sha;
    hash_hello1(h, peer, their1, &sha);
    uvcci_sha256_final(&sha, hash);
    if (h->cfg.party < peer && kem_of(h) != NULL &&
        uvcci_ld16(in + AT_CT_LEN) != kem_of(h)->ct_bytes)
        return false;
    if (in[AT_ZERO] != 0 || in[AT_ZERO + 1] != 0 || memcmp(in + AT_HASH, hash, 32) != 0)
        return false;
    /* Anyone who listens can get this far, and a proof is dear. */
    uint64_t each = h->cfg.repeat_ns / FORGED_MAX;
    if (!uvcci_pace_has(h->forged[peer], h->cfg.repeat_ns - each, now))
        return false;
    size_t len = write_proved(h, peer, their1, in, peer, text);
    if (proof_verifies(h, peer, text, len, in + AT_PROOF))
        return true;
    uvcci_pace_spend(&h->forged[peer], each, now);
    return false;
}

/* The second secret, and the hash of all that it and the first hang on: both HELLO 1, which hold
 * ephemerals, encapsulation key and N, and the ciphertext. */
static int kem_secret(uvcci_hello *h, uint8_t peer, const uint8_t *their2, uint8_t ss[32],
                      uint8_t transcript[32]) {
    const uvcci_kem *k = kem_of(h);
    const uvcci_hello_peer *p = &h->peer[peer];
    const bool ours = h->cfg.party > peer; /* the ciphertext */
    const uint8_t *tail = (ours ? p->hello2 : their2) + AT_CT_LEN;
    uvcci_sha256 sha;
    hash_hello1(h, peer, p->hello1, &sha);
    uvcci_sha256_update(&sha, tail, 2u + k->ct_bytes);
    uvcci_sha256_final(&sha, transcript);
    if (!ours)
        return k->decapsulate(h->kem_dk, h->hello1 + AT_EK, tail + 2, ss);
    memcpy(ss, p->kem_ss, 32);
    return p->kem_out ? 0 : UVCC_ERR_AUTH;
}

/* Keys of the pair and what HELLO 3 says, once both HELLO 2 are known. UVCC_ERR_AUTH: what the peer
 * proved gives no secret; h->field says what. */
static int derive(uvcci_hello *h, uint8_t peer, const uint8_t *their2) {
    uvcci_hello_peer *p = &h->peer[peer];
    uint8_t me = h->cfg.party, secret[2][32], k_ab[32], transcript[32];
    bool first = me < peer;
    const uint8_t *their_n = p->hello1 + AT_N, *n_a = first ? h->cfg.n : their_n,
                  *n_b = first ? their_n : h->cfg.n;
    const uint8_t a = first ? me : peer, b = first ? peer : me;
    memcpy(secret[0], h->cfg.secret[peer], 32);
    h->field = UVCCI_FIELD_EXCHANGE;
    int err =
        x25519(h) ? uvcci_x25519_shared(h->cfg.ephemeral, p->hello1 + AT_EPHEMERAL, secret[0]) : 0;
    if (err == 0 && kem_of(h) != NULL) {
        h->field = UVCCI_FIELD_KEM;
        err = kem_secret(h, peer, their2, secret[1], transcript);
        if (err == 0)
            uvcci_derive_hybrid_key(n_a, n_b, secret[0], secret[1], transcript, h->cfg.kem, h->run,
                                    a, b, k_ab);
    } else if (err == 0) {
        uvcci_derive_session_key(n_a, n_b, secret[0], h->cfg.sid_job, h->run, a, b, k_ab);
    }
    if (err == 0) {
        h->field = UVCCI_FIELD_NONE;
        uvcci_derive_prk(h->cfg.sid_sub, k_ab, p->prk);
        uvcci_sha256 sha;
        uvcci_sha256_init(&sha);
        uvcci_sha256_update(&sha, first ? p->hello2 : their2, hello2_len(h, a, b));
        uvcci_sha256_update(&sha, first ? their2 : p->hello2, hello2_len(h, b, a));
        p->hello3[0] = HELLO3;
        uvcci_sha256_final(&sha, p->hello3 + 1);
        memcpy(p->hello3 + AT_CHANNEL, h->channel[peer], 32);
    }
    uvcci_wipe(k_ab, sizeof k_ab);
    uvcci_wipe(secret, sizeof secret);
    return err;
}

/* Both HELLO 1 are here: the greatest run, the best common offer, the highest suite of all three.
 */
static void agree(uvcci_hello *h, uint64_t now) {
    assert(!h->agreed);
    uint8_t common = h->cfg.suites;
    h->run = h->cfg.next_run;
    for (uint8_t i = 1; i < UVCC_PARTIES; i++) {
        const uint8_t *m = h->peer[(h->cfg.party + i) % UVCC_PARTIES].hello1;
        const uint32_t run = uvcci_ld32(m + AT_NEXT_RUN);
        common &= m[AT_SUITES];
        if (UVCCI_MUTANT(9) ? run < h->run : run > h->run)
            h->run = run;
    }
    const uint8_t *offer = common_offer(h, h->peer[(h->cfg.party + 1) % UVCC_PARTIES].hello1,
                                        h->peer[(h->cfg.party + 2) % UVCC_PARTIES].hello1);
    assert(offer != NULL); /* else the second HELLO 1 was not taken */
    h->step = uvcci_ld32(offer);
    memcpy(h->lineage, offer + 4, 32);
    bool second = (common & BIT(UVCCI_SUITE_AES256_GCM - 1)) != 0;
    h->suite = second ? UVCCI_SUITE_AES256_GCM : UVCCI_SUITE_CHACHA20_POLY1305;
    h->agreed = true;
    for (uint8_t i = 1; i < UVCC_PARTIES; i++) {
        uint8_t peer = (uint8_t)((h->cfg.party + i) % UVCC_PARTIES);
        uvcci_hello_peer *p = &h->peer[peer];
        write_hello2(h, peer);
        p->pending |= BIT(HELLO2);
        advance(h, p, UVCCI_HELLO_WAIT2, now);
    }
}

/* ---- input ---- */

/* The first HELLO 2 that matches ours. */
static int take_hello2(uvcci_hello *h, uint8_t peer, const uint8_t *in, uint64_t now) {
    uvcci_hello_peer *p = &h->peer[peer];
    if (memcmp(in, p->hello2, AT_PROOF) != 0)
        return UVCC_ERR_AUTH;
    if (!hello2_verifies(h, peer, p->hello1, in, now))
        return mismatch(h, x25519(h) ? UVCCI_FIELD_IDENTITY : UVCCI_FIELD_SECRET);
    int err = derive(h, peer, in);
    if (err == UVCC_ERR_AUTH) /* the peer itself proved it */
        return UVCC_ERR_PROTOCOL;
    if (err != 0)
        return err;
    memcpy(p->their2, in, hello2_len(h, peer, h->cfg.party));
    p->pending = (uint8_t)((p->pending & ~BIT(HELLO1)) | BIT(HELLO3));
    advance(h, p, UVCCI_HELLO_WAIT3, now);
    return 0;
}

/* HELLO 1 repeats until it is answered, so most that come are not the first: the same again is
 * answered, one that differs is a peer that restarted (stale) or nobody's. One that we cannot
 * agree with is told and not kept: nobody has proved it, so it ends nothing. The second first one
 * makes us agree, and then HELLO 2s that came early are taken. */
static int input_hello1(uvcci_hello *h, uint8_t peer, const uint8_t *in, size_t len, uint64_t now) {
    uvcci_hello_peer *p = &h->peer[peer];
    if (in[AT_PARTY] != peer) { /* ours, reflected, or from another link */
        h->ignored++;
        return 0;
    }
    if (len == hello1_len(h, peer) && memcmp(in, p->hello1, len) == 0) {
        /* The peer lacks our HELLO 2, or even our HELLO 1; see the invariant above. */
        h->ignored++;
        if (h->agreed) {
            p->pending |= p->answer1 ? BIT(HELLO1) | BIT(HELLO2) : BIT(HELLO2);
            p->answer1 = !p->answer1;
            p->answer_other = false;
        }
        return 0;
    }
    /* Who begins anew has another nonce or, where its random bytes come again, a greater next_run.
     * With both as we know them it is an answer to somebody's forgery in our name, which must not
     * be answered in turn without end. */
    if (!UVCCI_MUTANT(41) && p->state >= UVCCI_HELLO_WAIT3 && len == hello1_len(h, peer) &&
        memcmp(in, p->hello1, AT_OFFERS) == 0) {
        h->ignored++;
        return 0;
    }
    uvcci_hello_field fault = hello1_fault(h, peer, in, len);
    if (fault == UVCCI_FIELD_LINEAGE && p->state >= UVCCI_HELLO_WAIT3)
        fault = UVCCI_FIELD_NONE; /* what was offered when this run began says nothing now */
    if (h->agreed) {
        h->other_n++;
        if (fault != UVCCI_FIELD_NONE) {
            ; /* nobody can agree with it, so there is nothing to begin again for */
        } else if (p->state < UVCCI_HELLO_WAIT3) {
            h->stale = true;
        } else {
            memcpy(p->other1, in, len);
            p->pending |= BIT(HELLO1);
            p->answer_other = true;
        }
    }
    if (fault != UVCCI_FIELD_NONE)
        return mismatch1(h, fault, in);
    if (h->agreed)
        return 0;
    memcpy(p->hello1, in, len);
    p->pending |= BIT(HELLO1); /* it has just started: our first one may have met nobody */
    if (h->peer[other_peer(h, peer)].hello1[0] == 0)
        return 0;
    agree(h, now);
    const uint8_t both[] = {peer, other_peer(h, peer)};
    for (unsigned i = 0; i < 2; i++) {
        if (h->peer[both[i]].early2[0] == 0)
            continue;
        int rc = take_hello2(h, both[i], h->peer[both[i]].early2, now);
        if (rc != 0 && rc != UVCC_ERR_AUTH && rc != UVCC_ERR_MISMATCH)
            return rc; /* a wrong one may have been anybody's: it comes again, or is told then */
    }
    return 0;
}

static int input_hello2(uvcci_hello *h, uint8_t peer, const uint8_t *in, uint64_t now) {
    uvcci_hello_peer *p = &h->peer[peer];
    if (!h->agreed) { /* the other peer's HELLO 1 is late: looked at when it is here */
        memcpy(p->early2, in, hello2_len(h, peer, h->cfg.party));
        return 0;
    }
    if (p->state == UVCCI_HELLO_WAIT2)
        return take_hello2(h, peer, in, now);
    if (memcmp(in, p->their2, hello2_len(h, peer, h->cfg.party)) == 0) {
        h->ignored++;
        p->pending |= BIT(HELLO3); /* again: the peer repeats HELLO 2 until HELLO 3 comes */
        return 0;
    }
    /* One that agrees anew with the HELLO 1 that we have of it began its handshake again, since the
     * third party came back before it was done. Of its own it names no lesser run first. */
    const bool again =
        uvcci_ld32(in + AT_RUN) > h->run && hello2_verifies(h, peer, p->hello1, in, now);
    if (!again && (p->other1[0] == 0 || !hello2_verifies(h, peer, p->other1, in, now)))
        return UVCC_ERR_AUTH;
    p->restarted = true;
    h->stale = true;
    return 0;
}

/* Whoever relays between two channels has the keys of neither end, and cannot change what this
 * says. A peer that is DONE showed it once; over which channel it repeats that is its own business.
 */
static int input_hello3(uvcci_hello *h, uint8_t peer, const uint8_t *in, uint64_t now) {
    uvcci_hello_peer *p = &h->peer[peer];
    if (p->state < UVCCI_HELLO_WAIT3) {
        h->ignored++;
        return 0;
    }
    if (!uvcci_ct_equal(in, p->hello3, AT_CHANNEL))
        return UVCC_ERR_AUTH;
    if (p->state == UVCCI_HELLO_WAIT3) {
        if (!UVCCI_MUTANT(38) && memcmp(in + AT_CHANNEL, h->channel[peer], 32) != 0)
            return mismatch(h, UVCCI_FIELD_CHANNEL);
        p->pending &= BIT(HELLO3);
        advance(h, p, UVCCI_HELLO_DONE, now);
        if (uvcci_hello_done(h)) { /* nothing needs them any more */
            uvcci_wipe(h->cfg.ephemeral, sizeof h->cfg.ephemeral);
            uvcci_wipe(h->cfg.sign_sk, sizeof h->cfg.sign_sk);
            uvcci_wipe(h->cfg.secret, sizeof h->cfg.secret);
            uvcci_wipe(h->cfg.kem_seed, sizeof h->cfg.kem_seed);
            uvcci_wipe(h->kem_dk, sizeof h->kem_dk);
            for (uint8_t i = 0; i < UVCC_PARTIES; i++)
                uvcci_wipe(h->peer[i].kem_ss, sizeof h->peer[i].kem_ss);
        }
    } else {
        h->ignored++;
    }
    return 0;
}

/* Of whatever job: without a second key agreement, or with the encapsulation key that it names. Of
 * another version only the first bytes are known to be where they are here. */
static bool is_hello1(const uint8_t *in, size_t len) {
    if (len <= AT_VERSION || in[0] != HELLO1)
        return false;
    if (in[AT_VERSION] != VERSION)
        return true;
    if (len < UVCCI_HELLO1_BYTES)
        return false;
    return len == UVCCI_HELLO1_BYTES || (len >= AT_EK && uvcci_ld16(in + AT_KEM) != 0 &&
                                         uvcci_ld16(in + AT_EK_LEN) == len - AT_EK);
}

int uvcci_hello_input(uvcci_hello *h, uint8_t peer, const uint8_t *payload, size_t len, bool sealed,
                      uint64_t now) {
    assert(peer < UVCC_PARTIES && peer != h->cfg.party);
    uint8_t kind = len == 0 ? 0 : payload[0];
    if (kind == HELLO1 && is_hello1(payload, len) && !sealed)
        return input_hello1(h, peer, payload, len, now);
    if (kind == HELLO2 && len == hello2_len(h, peer, h->cfg.party) && !sealed)
        return input_hello2(h, peer, payload, now);
    if (kind == HELLO3 && len == UVCCI_HELLO3_BYTES && sealed)
        return input_hello3(h, peer, payload, now);
    h->ignored++;
    return 0;
}

int uvcci_hello_foreign(uvcci_hello *h, uint8_t peer, const uint8_t *payload, size_t len) {
    assert(peer < UVCC_PARTIES && peer != h->cfg.party);
    h->ignored++;
    if (!is_hello1(payload, len) || payload[AT_PARTY] != peer)
        return 0;
    uvcci_hello_field fault = hello1_fault(h, peer, payload, len);
    /* What is not in the tag will be said under the right one. */
    return fault == UVCCI_FIELD_NONE || fault > UVCCI_FIELD_POSITION ? 0
                                                                     : mismatch1(h, fault, payload);
}

/* A binding of zeros is not none, so its hash is what is said. */
void uvcci_hello_channel(uvcci_hello *h, uint8_t peer, const uint8_t *binding) {
    uvcci_sha256 sha;
    assert(peer < UVCC_PARTIES && peer != h->cfg.party);
    if (UVCCI_MUTANT(39) && !all_zero(h->channel[peer], 32))
        return;
    memset(h->channel[peer], 0, 32);
    if (binding != NULL) {
        uvcci_sha256_init(&sha);
        uvcci_sha256_update(&sha, "UVCC_CHANNEL_V1", 15);
        uvcci_sha256_update(&sha, binding, 32);
        uvcci_sha256_final(&sha, h->channel[peer]);
    }
    memcpy(h->peer[peer].hello3 + AT_CHANNEL, h->channel[peer], 32);
}

void uvcci_hello_peer_passed(uvcci_hello *h, uint8_t peer) {
    if (h->agreed)
        h->peer[peer].reached = true;
}

/* ---- life, output ---- */

static bool keys_fit(const uvcci_hello_config *c, uint8_t a, uint8_t b) {
    const uint8_t(*id)[32] = c->identity;
    if (c->exchange == UVCCI_EXCHANGE_PROVISIONED)
        return !uvcci_ct_equal(c->secret[a], c->secret[b], 32);
    if (c->exchange != UVCCI_EXCHANGE_X25519)
        return false;
    for (uint8_t i = 0; i < UVCC_PARTIES; i++)
        if (all_zero(id[i], 32) || memcmp(id[i], id[(i + 1) % UVCC_PARTIES], 32) == 0)
            return false;
    return memcmp(id[c->party], c->sign_sk + 32, 32) == 0;
}

/* The configuration is judged before anything is kept of it. With provisioned keys there are no
 * identities: zeros stand for them in what is proved. */
int uvcci_hello_init(uvcci_hello *h, const uvcci_hello_config *cfg, uint64_t now) {
    if (cfg->party >= UVCC_PARTIES || cfg->suites == 0 || (cfg->suites & ~SUITES_KNOWN) != 0 ||
        cfg->next_run >= UVCCI_RUN_LIMIT || cfg->repeat_ns == 0 ||
        cfg->repeat_ns > UVCC_NEVER / BACKOFF_MAX || cfg->offer_count == 0 ||
        cfg->offer_count > UVCCI_OFFERS ||
        (cfg->kem != UVCCI_KEM_NONE && uvcci_kem_of(cfg->kem) == NULL))
        return UVCC_ERR_CONFIG;
    uint8_t a = (uint8_t)((cfg->party + 1) % UVCC_PARTIES),
            b = (uint8_t)((cfg->party + 2) % UVCC_PARTIES);
    if (!keys_fit(cfg, a, b))
        return UVCC_ERR_CONFIG;
    assert(cfg != &h->cfg);
    memset(h, 0, sizeof *h);
    h->cfg = *cfg;
    if (!x25519(h)) {
        memset(h->cfg.identity, 0, sizeof h->cfg.identity); /* they stand in what is proved */
        for (uint8_t i = 1; i < UVCC_PARTIES; i++) {
            uint8_t me = cfg->party, peer = (uint8_t)((me + i) % UVCC_PARTIES);
            uvcci_derive_proof_key(cfg->secret[peer], cfg->sid_job, me < peer ? me : peer,
                                   me < peer ? peer : me, h->proof_key[peer]);
        }
    }
    int err = write_hello1(h);
    if (err != 0) {
        uvcci_hello_wipe(h);
        return err;
    }
    uvcci_hello_nudge(h, a, now);
    uvcci_hello_nudge(h, b, now);
    return 0;
}

void uvcci_hello_again(uvcci_hello *h, uint64_t now) {
    assert(uvcci_hello_stale(h));
    uvcci_wipe(h->peer, sizeof h->peer);
    h->agreed = h->stale = false;
    /* Not at once: who forges HELLO 1 must not set the pace. */
    for (uint8_t i = 1; i < UVCC_PARTIES; i++)
        set_timer(&h->peer[(h->cfg.party + i) % UVCC_PARTIES], h->cfg.repeat_ns, now);
}

void uvcci_hello_wipe(uvcci_hello *h) {
    uvcci_wipe(h, sizeof *h);
}

void uvcci_hello_nudge(uvcci_hello *h, uint8_t peer, uint64_t now) {
    uvcci_hello_peer *p = &h->peer[peer];
    p->pending |= unconfirmed(p);
    memset(h->sent[peer], 0, sizeof h->sent[peer]);
    set_timer(p, h->cfg.repeat_ns, now);
}

static uint64_t sent_depth(const uvcci_hello *h) {
    return (AT_ONCE - 1) * (h->cfg.repeat_ns / AT_ONCE);
}

/* HELLO `which` is due and its pace lets it go: it counts as sent. */
static bool goes(uvcci_hello *h, uint8_t peer, unsigned which, uint64_t now) {
    uvcci_hello_peer *p = &h->peer[peer];
    uint64_t *sent = &h->sent[peer][which - HELLO1];
    if ((p->pending & BIT(which)) == 0 || !uvcci_pace_has(*sent, sent_depth(h), now))
        return false;
    p->pending &= (uint8_t)~BIT(which);
    uvcci_pace_spend(sent, h->cfg.repeat_ns / AT_ONCE, now);
    return true;
}

size_t uvcci_hello_poll(uvcci_hello *h, uint8_t peer, uint8_t *out, bool *sealed, uint64_t now) {
    uvcci_hello_peer *p = &h->peer[peer];
    if (now >= p->next_repeat) {
        p->pending |= unconfirmed(p);
        bool longest = p->repeat_ns / BACKOFF_MAX >= h->cfg.repeat_ns;
        set_timer(p, longest ? p->repeat_ns : 2 * p->repeat_ns, now);
    }
    *sealed = false;
    if (goes(h, peer, HELLO1, now)) {
        uint8_t room[UVCCI_HELLO1_MAX];
        memcpy(out, our_hello1(h, peer, p->answer_other ? p->other1 : p->hello1, room),
               hello1_len(h, h->cfg.party));
        p->answer_other = false;
        return hello1_len(h, h->cfg.party);
    }
    if (goes(h, peer, HELLO2, now)) {
        memcpy(out, p->hello2, hello2_len(h, h->cfg.party, peer));
        return hello2_len(h, h->cfg.party, peer);
    }
    if (goes(h, peer, HELLO3, now)) {
        memcpy(out, p->hello3, UVCCI_HELLO3_BYTES);
        *sealed = true;
        return UVCCI_HELLO3_BYTES;
    }
    return 0;
}

uint64_t uvcci_hello_peer_deadline(const uvcci_hello *h, uint8_t peer) {
    const uvcci_hello_peer *p = &h->peer[peer];
    uint64_t at = unconfirmed(p) != 0 ? p->next_repeat : UVCC_NEVER;
    for (unsigned which = HELLO1; which <= HELLO3; which++) {
        uint64_t paced = uvcci_pace_at(h->sent[peer][which - HELLO1], sent_depth(h));
        if ((p->pending & BIT(which)) != 0 && paced < at)
            at = paced;
    }
    return at;
}

uint64_t uvcci_hello_deadline(const uvcci_hello *h) {
    uint64_t at = UVCC_NEVER;
    for (uint8_t i = 1; i < UVCC_PARTIES; i++) {
        uint64_t one = uvcci_hello_peer_deadline(h, (uint8_t)((h->cfg.party + i) % UVCC_PARTIES));
        at = one < at ? one : at;
    }
    return at;
}

bool uvcci_hello_keyed(const uvcci_hello *h, uint8_t peer) {
    return h->peer[peer].state >= UVCCI_HELLO_WAIT3;
}

void uvcci_hello_forget(uvcci_hello *h, uint8_t peer) {
    assert(uvcci_hello_keyed(h, peer));
    uvcci_wipe(h->peer[peer].prk, sizeof h->peer[peer].prk);
}

bool uvcci_hello_stale(const uvcci_hello *h) {
    return h->stale && !uvcci_hello_done(h);
}

bool uvcci_hello_restarted(const uvcci_hello *h, uint8_t peer) {
    return h->peer[peer].restarted;
}

void uvcci_hello_nonce(const uvcci_hello *h, uint8_t out[32]) {
    assert(h->agreed);
    uvcci_sha256 sha;
    uvcci_sha256_init(&sha);
    uvcci_sha256_update(&sha, "UVCC_RUN_V1", 11);
    for (uint8_t p = 0; p < UVCC_PARTIES; p++)
        uvcci_sha256_update(&sha, p == h->cfg.party ? h->cfg.n : h->peer[p].hello1 + AT_N, 32);
    uvcci_sha256_final(&sha, out);
}

bool uvcci_hello_done(const uvcci_hello *h) {
    for (uint8_t i = 1; i < UVCC_PARTIES; i++)
        if (h->peer[(h->cfg.party + i) % UVCC_PARTIES].state != UVCCI_HELLO_DONE)
            return false;
    return true;
}
