/* SPDX-License-Identifier: Apache-2.0 */
/* codec_hello.c - listings of HELLO frames. Three state machines shake hands until the wanted HELLO
 * is on its way; the listing's bytes then go to the receiver's machine in its place. */
#include "frames.h"

#include "proto/hello.h"
#include "proto/ids.h"

enum { ROUNDS = 8 };

/* The three machines, and what is wanted of whom. */
typedef struct handshake {
    uvcci_hello m[3];
    uint8_t src, dst, hello;
    bool x25519, bound;
    uint16_t kem;
    uint8_t secret[32], nonce[24], binding[32];
} handshake;

/* ---- values ---- */

static void sign_keys(uint8_t party, const uint8_t seed[32], uvcci_hello_config c[3]) {
    uint8_t pk[32], sk[64];
    uvcci_sign_keypair(seed, pk, sk);
    memcpy(c[party].sign_sk, sk, sizeof sk);
    for (unsigned p = 0; p < 3; p++)
        memcpy(c[p].identity[party], pk, sizeof pk);
}

/* What is not in the listing, because no byte of it hangs on it. */
static void fill_up(const handshake *s, uvcci_hello_config c[3]) {
    for (uint8_t p = 0; p < 3; p++) {
        uint8_t seed[32];
        c[p].party = p;
        c[p].repeat_ns = 100000000;
        c[p].exchange = s->x25519 ? UVCCI_EXCHANGE_X25519 : UVCCI_EXCHANGE_PROVISIONED;
        memset(c[p].n, 0x70 + p, 32);
        memset(c[p].ephemeral, 0x60 + p, 32);
        c[p].kem = s->kem;
        memset(c[p].kem_seed, 0x30 + p, sizeof c[p].kem_seed);
        for (unsigned q = 0; q < 3 && q != 3u - p; q++)
            memset(c[p].secret[q], 0x50 + (int)(p + q), 32);
        memset(seed, 0x40 + p, sizeof seed);
        sign_keys(p, seed, c);
    }
}

/* offer = STEP BYTE: a checkpoint of lineage 32 x BYTE, 0: what the host sets. */
static void party_offers(listing *l, uvcci_hello_config *c) {
    do {
        uint64_t o[2] = {0};
        listing_must(l, value_numbers(l, "offer", o, 2) == 2 && c->offer_count < UVCCI_OFFERS,
                     "up to four offers: the step and the lineage's byte");
        if (!listing_good(l))
            return;
        c->offer[c->offer_count].step = (uint32_t)o[0];
        memset(c->offer[c->offer_count++].lineage, (int)(uint8_t)o[1], 32);
    } while (listing_has(l, "offer"));
}

static void party_values(listing *l, const handshake *s, uint8_t p, bool whole,
                         uvcci_hello_config c[3]) {
    uint8_t seed[32];
    listing_must(l, value_number(l, "party", 2) == p, "src, then dst, then the third party");
    c[p].suites = (uint8_t)value_number(l, "suites", 3);
    party_offers(l, &c[p]);
    c[p].next_run = (uint32_t)value_number(l, "next_run", UINT32_MAX);
    if (!whole)
        return;
    value_exactly(l, "n", c[p].n, 32);
    if (s->kem != UVCCI_KEM_NONE && (p < 2 || s->hello > 1)) {
        value_exactly(l, "kem_seed", seed, 32); /* of its key, or of what it encapsulates */
        for (unsigned q = 0; q < 3; q++)
            memcpy(c[p].kem_seed[q], seed, 32);
    }
    if (!s->x25519)
        return;
    value_exactly(l, "ephemeral", c[p].ephemeral, 32);
    if (s->hello > 1) {
        value_exactly(l, "sign_seed", seed, 32);
        sign_keys(p, seed, c);
    }
}

/* Configurations of the three: what all have in common, then what each says of itself. */
static void hello_values(listing *l, handshake *s, uvcci_hello_config c[3]) {
    uint64_t topology[3] = {0}, place[3] = {0};
    s->hello = (uint8_t)value_number(l, "hello", 3);
    const char *exchange = value_word(l, "exchange");
    s->x25519 = strcmp(exchange, "x25519") == 0;
    listing_must(l, s->x25519 || strcmp(exchange, "provisioned") == 0, "no such exchange");
    if (listing_has(l, "kem"))
        s->kem = (uint16_t)value_number(l, "kem", UINT16_MAX);
    s->src = (uint8_t)value_number(l, "src", 2);
    s->dst = (uint8_t)value_number(l, "dst", 2);
    listing_must(l, s->hello != 0 && s->src != s->dst, "no such HELLO");
    if (!listing_good(l))
        return;
    fill_up(s, c);
    value_exactly(l, "sid_job", c[0].sid_job, 32);
    listing_must(l, value_numbers(l, "topology", topology, 3) == 3, "R, S and T");
    listing_must(l, value_numbers(l, "place", place, 3) == 3, "replica, stage and tp");
    value_exactly(l, "program", c[0].h_program, 32);
    value_exactly(l, "policy", c[0].policy, 32);
    for (unsigned i = 0; listing_has(l, "part"); i++) {
        listing_must(l, i < UVCCI_AGREE_PARTS, "16 parts at most");
        if (!listing_good(l))
            return;
        c[0].part[i] = value_number(l, "part", UINT64_MAX);
    }
    uint8_t sid_rep[32];
    uvcci_sid_rep(c[0].sid_job, (uint32_t)place[0], sid_rep);
    for (unsigned p = 0; p < 3; p++) {
        memcpy(c[p].sid_job, c[0].sid_job, 32);
        memcpy(c[p].h_program, c[0].h_program, 32);
        memcpy(c[p].policy, c[0].policy, 32);
        memcpy(c[p].part, c[0].part, sizeof c[p].part);
        uvcci_sid_sub(sid_rep, (uint8_t)place[1], (uint16_t)place[2], c[p].sid_sub);
        c[p].r = (uint16_t)topology[0];
        c[p].s = (uint16_t)topology[1];
        c[p].t = (uint16_t)topology[2];
        c[p].replica = (uint16_t)place[0];
        c[p].stage = (uint16_t)place[1];
        c[p].tp = (uint16_t)place[2];
    }
    party_values(l, s, s->src, true, c);
    const uint8_t third = (uint8_t)(3 - s->src - s->dst);
    if (s->hello == 1) { /* nothing of the others is in it: they say the same */
        for (unsigned i = 0; i < 2; i++) {
            uvcci_hello_config *o = &c[i == 0 ? s->dst : third];
            o->suites = c[s->src].suites;
            memcpy(o->offer, c[s->src].offer, sizeof o->offer);
            o->offer_count = c[s->src].offer_count;
            o->next_run = c[s->src].next_run;
        }
        return;
    }
    party_values(l, s, s->dst, true, c);
    party_values(l, s, third, false, c);
    if (!s->x25519) {
        value_exactly(l, "secret", c[s->src].secret[s->dst], 32);
        memcpy(c[s->dst].secret[s->src], c[s->src].secret[s->dst], 32);
    }
    if (s->hello == 3)
        value_exactly(l, "nonce", s->nonce, sizeof s->nonce);
    s->bound = s->hello == 3 && listing_has(l, "binding");
    if (s->bound)
        value_exactly(l, "binding", s->binding, sizeof s->binding);
}

/* ---- the handshake ---- */

/* Lets the machines talk until `src` has the wanted HELLO for `dst`, which does not get it. */
static size_t talk(listing *l, handshake *s, uint8_t out[UVCCI_HELLO1_MAX], bool *sealed) {
    uint8_t payload[UVCCI_HELLO1_MAX];
    for (unsigned round = 0; round < ROUNDS; round++)
        for (uint8_t a = 0; a < 3 && listing_good(l); a++)
            for (uint8_t i = 1; i < 3; i++) {
                const uint8_t b = (uint8_t)((a + i) % 3);
                bool seal = false;
                size_t n = uvcci_hello_poll(&s->m[a], b, payload, &seal, 0);
                if (n != 0 && a == s->src && b == s->dst && payload[0] == s->hello) {
                    memcpy(out, payload, n);
                    *sealed = seal;
                    return n;
                }
                if (n != 0 && uvcci_hello_input(&s->m[b], a, payload, n, seal, 0) != 0)
                    listing_refuse(l, l->line, "the parties do not agree: %s",
                                   uvcci_hello_field_name(s->m[b].field));
            }
    listing_must(l, false, "there is no such HELLO");
    return 0;
}

/* As a session does: a link is keyed as soon as the handshake has keys. */
static void key_end(listing *l, wire *w, unsigned end, const uvcci_hello *h, uint8_t peer) {
    if (!listing_good(l) || !uvcci_hello_keyed(h, peer))
        return;
    listing_must(l,
                 uvcc_link_set_run(w->l[end], h->run) == 0 &&
                     uvcc_link_set_step(w->l[end], h->step) == 0 &&
                     uvcc_link_set_keys(w->l[end], h->suite, h->peer[peer].prk) == 0,
                 "the link takes no such key");
}

/* ---- fields ---- */

static void hello1_fields(listing *l, const uvcci_hello *h) {
    static const char *const places[] = {"replica", "stage", "tp"};
    const uvcci_hello_config *c = &h->cfg;
    const uint16_t at[] = {c->replica, c->stage, c->tp};
    field_number(l, "hello", 1, 1, "");
    field_code(l, "suites", 1, c->suites, "");
    field_number(l, "party", 1, c->party, "");
    field_number(l, "version", 1, 5, "");
    field_bytes(l, "sid_job", c->sid_job, 32, "");
    field_number(l, "R", 2, c->r, "");
    field_number(l, "S", 2, c->s, "");
    field_number(l, "T", 2, c->t, "");
    for (unsigned i = 0; i < 3; i++)
        field_number(l, places[i], 2, at[i], "");
    field_bytes(l, "H(program)", c->h_program, 32, "");
    field_number(l, "next_run", 4, c->next_run, "");
    field_bytes(l, "N", c->n, 32, "");
    const bool x25519 = c->exchange == UVCCI_EXCHANGE_X25519;
    field_bytes(l, "ephemeral", h->hello1 + 116, 32, x25519 ? "X25519 public key" : "");
    for (unsigned i = 0; i < UVCCI_OFFERS; i++) {
        const bool none = i >= c->offer_count;
        field_number(l, "offer", 4, none ? UINT32_MAX : c->offer[i].step, none ? "none" : "step");
        field_bytes(l, "lineage", c->offer[i].lineage, 32, "");
    }
    field_bytes(l, "policy_hash", c->policy, 32, "");
    unsigned parts = UVCCI_AGREE_PARTS;
    static const uint8_t none[8 * UVCCI_AGREE_PARTS];
    while (parts != 0 && c->part[parts - 1] == 0)
        parts--;
    for (unsigned i = 0; i < parts; i++)
        field_code(l, "part", 8, c->part[i], "");
    field_bytes(l, "no parts", none, 8u * (UVCCI_AGREE_PARTS - parts), "");
    if (c->kem == UVCCI_KEM_NONE)
        return;
    const uint16_t n = (uint16_t)(c->party < 2 ? uvcci_kem_of(c->kem)->ek_bytes : 0);
    field_code(l, "kem", 2, c->kem, "");
    field_number(l, "n", 2, n, "");
    if (n != 0)
        field_bytes(l, "encapsulation key", h->hello1 + 456, n, "");
}

/* h: the receiver's machine. */
static void hello2_fields(listing *l, const uvcci_hello *h, uint8_t peer) {
    const uvcci_hello_peer *p = &h->peer[peer];
    const bool x25519 = h->cfg.exchange == UVCCI_EXCHANGE_X25519;
    field_number(l, "hello", 1, 2, "");
    field_number(l, "suite", 1, h->suite, "");
    field_number(l, "zero", 2, 0, "");
    field_number(l, "run", 4, h->run, "");
    field_number(l, "step", 4, h->step, "");
    field_bytes(l, "H(HELLO 1 of both)", p->hello2 + 12, 32, "");
    if (x25519) {
        field_bytes(l, "proof", p->their2 + 44, 64, "Ed25519");
    } else {
        field_bytes(l, "proof", p->their2 + 44, 32, "HMAC-SHA256");
        field_bytes(l, "zero", p->their2 + 76, 32, "");
    }
    if (h->cfg.kem == UVCCI_KEM_NONE || peer < h->cfg.party)
        return;
    const uint16_t n = uvcci_kem_of(h->cfg.kem)->ct_bytes;
    field_number(l, "n", 2, n, "");
    field_bytes(l, "ciphertext", p->their2 + 110, n, "");
}

/* ---- what the receiver makes of it ---- */

/* A HELLO 1 with one bit changed is refused by the name of its field. */
static void hello1_is_read(listing *l, const handshake *s, const uint8_t *payload, size_t len) {
    static const struct {
        size_t at;
        const char *field;
    } flips[] = {{3, "version"},   {4, "sid_job"},   {35, "sid_job"},  {36, "topology"},
                 {41, "topology"}, {42, "position"}, {47, "position"}, {48, "program"},
                 {79, "program"},  {83, "run"},      {292, "policy"},  {323, "policy"},
                 {324, "job"},     {451, "job"},     {452, "kem"}};
    for (size_t i = 0; i < sizeof flips / sizeof flips[0] && listing_good(l); i++) {
        if (flips[i].at >= len)
            continue;
        uvcci_hello copy = s->m[s->dst];
        uint8_t changed[UVCCI_HELLO1_MAX];
        memcpy(changed, payload, len);
        changed[flips[i].at] ^= 1;
        int rc = uvcci_hello_input(&copy, s->src, changed, len, false, 0);
        if (rc != UVCC_ERR_MISMATCH ||
            strcmp(uvcci_hello_field_name(copy.field), flips[i].field) != 0)
            listing_refuse(l, l->line, "another %s is not refused as such", flips[i].field);
    }
}

/* Any other HELLO 2 or 3 is refused. */
static void hello_is_checked(listing *l, const handshake *s, const uint8_t *payload, size_t len,
                             bool sealed) {
    for (size_t at = 1; at < len && listing_good(l); at++) {
        uvcci_hello copy = s->m[s->dst];
        uint8_t changed[UVCCI_HELLO1_MAX];
        memcpy(changed, payload, len);
        changed[at] ^= 1;
        int rc = uvcci_hello_input(&copy, s->src, changed, len, sealed, 0);
        listing_must(l, rc == UVCC_ERR_AUTH || rc == UVCC_ERR_MISMATCH,
                     "a changed HELLO is believed");
    }
}

/* The listing's bytes go through the receiver's link into its machine. */
static void receive(listing *l, handshake *s, wire *w) {
    static const uvcci_hello_state after[] = {UVCCI_HELLO_WAIT1, UVCCI_HELLO_WAIT1,
                                              UVCCI_HELLO_WAIT3, UVCCI_HELLO_DONE};
    const listing_block *b = &l->block[LISTING_BYTES];
    uvcci_hello *h = &s->m[s->dst];
    uvcci_hello_peer *p = &h->peer[s->src];
    uint8_t payload[UVCC_HELLO_MAX_BYTES];
    bool sealed = false;
    wire_feed(l, w, 1, b->bytes, b->len, 0);
    size_t len = listing_good(l) ? uvcc_link_poll_hello(w->l[1], payload, &sealed) : 0;
    listing_must(l, len != 0 && len <= UVCCI_HELLO1_MAX && payload[0] == s->hello,
                 "no HELLO came of it");
    if (!listing_good(l))
        return;
    if (s->hello == 1)
        hello1_is_read(l, s, payload, len);
    else
        hello_is_checked(l, s, payload, len, sealed);
    uint64_t ignored = h->ignored;
    listing_must(l, uvcci_hello_input(h, s->src, payload, len, sealed, 0) == 0, "it is refused");
    listing_must(l, h->ignored == ignored && p->state == after[s->hello], "it changed nothing");
    scene k = w->s;
    uvcc_frame_header head;
    if (frame_fields(l, &k, &head, payload) != len)
        listing_must(l, false, "the payload has another length");
    if (s->hello == 1) {
        listing_must(l, memcmp(p->hello1, payload, len) == 0, "the machine has another HELLO 1");
        hello1_fields(l, &s->m[s->src]);
    } else if (s->hello == 2) {
        hello2_fields(l, h, s->src);
    } else {
        field_number(l, "hello", 1, 3, "");
        field_bytes(l, "H(HELLO 2 of both)", p->hello3 + 1, 32, "");
        field_bytes(l, "channel", p->hello3 + 33, 32, "");
    }
}

static void begin(listing *l, handshake *s, const uvcci_hello_config c[3]) {
    for (unsigned p = 0; p < 3 && listing_good(l); p++)
        listing_must(l, uvcci_hello_init(&s->m[p], &c[p], 0) == 0, "no such party");
    if (s->bound && listing_good(l)) {
        uvcci_hello_channel(&s->m[s->src], s->dst, s->binding);
        uvcci_hello_channel(&s->m[s->dst], s->src, s->binding);
    }
}

/* hello = 1, 2 or 3, from src to dst. */
void codec_hello(listing *l, listing_seen *seen) {
    static handshake s;
    uvcci_hello_config c[3] = {{.party = 0}, {.party = 1}, {.party = 2}};
    uint8_t payload[UVCCI_HELLO1_MAX];
    bool sealed = false;
    memset(&s, 0, sizeof s);
    hello_values(l, &s, c);
    begin(l, &s, c);
    size_t len = listing_good(l) ? talk(l, &s, payload, &sealed) : 0;
    scene k = {.kind = UVCC_FRAME_HELLO, .src = s.src, .dst = s.dst};
    memcpy(k.sid_sub, c[0].sid_sub, 32);
    memcpy(k.nonce, s.nonce, sizeof k.nonce);
    wire w = {.l = {NULL}};
    packet p = {.len = 0};
    if (wire_new(l, &w, &k)) {
        key_end(l, &w, 0, &s.m[s.src], s.dst);
        listing_must(l, uvcc_link_send_hello(w.l[0], payload, len, sealed) == 0, "it is not sent");
        p = wire_poll(l, &w, 0, 0);
    }
    listing_made(l, LISTING_BYTES, p.bytes, p.len);
    if (listing_good(l)) {
        key_end(l, &w, 1, &s.m[s.dst], s.src);
        receive(l, &s, &w);
    }
    wire_free(&w);
    if (!listing_good(l))
        return;
    snprintf(l->subject, sizeof l->subject, "HELLO %u", s.hello);
    seen->kind[UVCC_FRAME_HELLO] = true;
    seen->hello[s.hello] = true;
    seen->sealed[1] = seen->sealed[1] || sealed;
}
