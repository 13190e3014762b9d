/* SPDX-License-Identifier: Apache-2.0 */
/* hello.h - the handshake of one party with both peers (wire.md, HELLO): who we are, which keys,
 * where we resume. Keys come from provisioned pair secrets, or from an X25519 exchange that Ed25519
 * identities sign. Pure: the session carries payloads between this and the links.
 *
 * States per peer: WAIT1 (not both HELLO 1 here yet) -> WAIT2 (both peers' HELLO 1 here: run, step,
 * suite) -> WAIT3 (the peer's HELLO 2 matched and its proof verified: X25519: a signature,
 * provisioned: an HMAC under a key made of the pair's secret; only now there are keys) -> DONE
 * (HELLO 3 verified).
 *
 * Until both HELLO 1 are here a peer's newest one counts. From then on another HELLO 1 of a peer is
 * counted in other_n, and
 * - from WAIT3 on it changes nothing until a HELLO 2 comes that proves it: one over it and our
 *   HELLO 1. It is kept and answered by our HELLO 1. A peer which began anew needs that one and the
 *   third's HELLO 1, which the third sends for the same reason or because it begins itself; then it
 *   agrees and proves itself. Once it did, uvcci_hello_restarted() says so; keys and state stay. (A
 *   peer that died within this handshake can be made to look so by replaying what it sent then:
 *   that costs a needless restart.) The same is said of a peer that was not done yet and began its
 *   handshake again, by its HELLO 2 over the known HELLO 1 for a greater run;
 * - before: the peer began anew, or an old packet came first.
 *
 * Whoever replays or forges HELLOs does not set our pace: each of the three goes to a peer four
 * times at once (again on a new stream), then once per repeat_ns / 4, and what is due meanwhile
 * waits; of a peer's proofs 64 wrong ones per repeat_ns are looked at.
 *
 * HELLO 3 is sealed under the pair's keys, so it says over which channel (a TLS connection) each
 * end speaks: both must name the same, or somebody relays between two. A new stream may have
 * another channel; the one that counts is that over which the peer's HELLO 3 comes.
 *
 * Where one of these makes an end impossible, uvcci_hello_stale() says so: discard the links' keys
 * and call uvcci_hello_again(). Our HELLO 1 stays the same then, so parties that do this because of
 * each other come to an end. */
#ifndef UVCCI_HELLO_H
#define UVCCI_HELLO_H

#include "proto/crypto.h"
#include "proto/kem.h"

/* Without a second key agreement; and the most with one. */
#define UVCCI_HELLO1_BYTES 452u
#define UVCCI_HELLO1_MAX   (UVCCI_HELLO1_BYTES + 4u + UVCCI_KEM_EK_MAX)
#define UVCCI_HELLO2_BYTES 108u
#define UVCCI_HELLO2_MAX   (UVCCI_HELLO2_BYTES + 2u + UVCCI_KEM_CT_MAX)
#define UVCCI_HELLO3_BYTES 65u
#define UVCCI_AGREE_PARTS  16u
#define UVCCI_RUN_LIMIT    (1u << 24) /* a run fits above the 40 bits of a seq's counter */

/* Where a party can go on: before `step`, with tensors of that lineage (ids.h); a zero lineage:
 * what its host sets. The three agree on the greatest step that all offer with one lineage. */
#define UVCCI_OFFERS 4u
typedef struct uvcci_offer {
    uint32_t step;
    uint8_t lineage[32];
} uvcci_offer;

typedef enum uvcci_exchange { UVCCI_EXCHANGE_PROVISIONED, UVCCI_EXCHANGE_X25519 } uvcci_exchange;

typedef struct uvcci_hello_config {
    uint8_t party;
    uint8_t suites; /* bit i-1 = suite i */
    uint8_t sid_job[32], sid_sub[32];
    uint16_t r, s, t, replica, stage, tp;
    uint8_t h_program[32];
    uint8_t policy[32];               /* hash of what the three agreed to allow; zeros: nothing */
    uint64_t part[UVCCI_AGREE_PARTS]; /* hashes of what hosts want alike; 0: none */
    uint32_t next_run;
    uvcci_offer offer[UVCCI_OFFERS];
    uint8_t offer_count;     /* at least 1 */
    uint8_t n[32];           /* fresh random bytes of this (re)start */
    uvcci_exchange exchange; /* the same at all three */
    uint8_t secret[3][32];   /* PROVISIONED: by peer's party index; own entry unused. Wiped when
                                both peers are DONE */
    uint8_t ephemeral[32];   /* X25519: secret, fresh random bytes of this (re)start */
    uint8_t sign_sk[64];     /* X25519: this party's Ed25519 secret key */
    uint8_t identity[3][32]; /* X25519: Ed25519 public keys by party, own one included */
    uint16_t kem;            /* a second key agreement, UVCCI_KEM_*; the same at all three */
    uint8_t kem_seed[3][32]; /* with it: secret, fresh random bytes of this (re)start */
    uint64_t repeat_ns;      /* first repetition; doubles up to 32 times that */
} uvcci_hello_config;

/* What can be wrong with a peer's HELLO, in the order in which it is looked at. */
typedef enum uvcci_hello_field {
    UVCCI_FIELD_NONE,
    UVCCI_FIELD_VERSION,
    UVCCI_FIELD_SID_JOB,
    UVCCI_FIELD_TOPOLOGY,
    UVCCI_FIELD_POSITION,
    UVCCI_FIELD_JOB, /* a part: uvcci_hello.part. Before what may follow from it */
    UVCCI_FIELD_PROGRAM,
    UVCCI_FIELD_POLICY,
    UVCCI_FIELD_EXCHANGE,
    UVCCI_FIELD_KEM,
    UVCCI_FIELD_RUN,
    UVCCI_FIELD_SUITES,
    UVCCI_FIELD_LINEAGE,  /* no step that all offer with one lineage */
    UVCCI_FIELD_IDENTITY, /* HELLO 2 is not signed by whom we expect */
    UVCCI_FIELD_SECRET,   /* HELLO 2 is not proved by the pair's secret */
    UVCCI_FIELD_CHANNEL,  /* HELLO 3 comes of another channel */
    UVCCI_FIELD_COUNT
} uvcci_hello_field;
const char *uvcci_hello_field_name(uvcci_hello_field field);

typedef enum uvcci_hello_state {
    UVCCI_HELLO_WAIT1,
    UVCCI_HELLO_WAIT2,
    UVCCI_HELLO_WAIT3,
    UVCCI_HELLO_DONE
} uvcci_hello_state;

typedef struct uvcci_hello_peer {
    uvcci_hello_state state;
    uint8_t hello1[UVCCI_HELLO1_MAX];   /* theirs; first byte 0 until it is here */
    uint8_t hello2[UVCCI_HELLO2_MAX];   /* ours, from WAIT2 on */
    uint8_t their2[UVCCI_HELLO2_MAX];   /* theirs, from WAIT3 on */
    uint8_t prk[32];                    /* valid once keyed, until it is forgotten */
    uint8_t hello3[UVCCI_HELLO3_BYTES]; /* likewise; the same bytes both ways over one channel */
    uint8_t early2[UVCCI_HELLO2_MAX];   /* came before we could tell; 0...: none */
    uint8_t kem_ss[32];                 /* encapsulated for it, while kem_out */
    uint8_t other1[UVCCI_HELLO1_MAX];   /* another HELLO 1, not believed; 0...: none */
    uint64_t next_repeat, repeat_ns;
    uint8_t pending;   /* bit i: HELLO i goes out at the next poll */
    bool answer1;      /* the next known HELLO 1 is answered by HELLO 1 too */
    bool answer_other; /* our next HELLO 1 answers other1 */
    bool reached;      /* the peer is known to be past HELLO 3 */
    bool kem_out;      /* its encapsulation key is one that gives a secret */
    bool restarted;    /* it proved other1 by a HELLO 2 */
} uvcci_hello_peer;

typedef struct uvcci_hello {
    uvcci_hello_config cfg;
    uint8_t hello1[UVCCI_HELLO1_MAX];
    uint8_t kem_dk[UVCCI_KEM_DK_MAX];
    uint8_t channel[3][32];   /* by peer: what HELLO 3 says of the present one; zeros: unbound */
    uint8_t proof_key[3][32]; /* provisioned: of the HMAC in HELLO 2, by peer. No key comes of it */
    uvcci_hello_peer peer[3]; /* by party; own entry unused */
    bool agreed;              /* both HELLO 1 are here: run, step, lineage, suite are set */
    uint32_t run, step;
    uint8_t lineage[32];
    uint8_t suite;
    uvcci_hello_field field; /* on UVCC_ERR_MISMATCH and _PROTOCOL: what is wrong */
    uint8_t part;            /* with UVCCI_FIELD_JOB: the first that differs, else 0 */
    uint64_t ignored;        /* payloads without effect: malformed, untimely, known */
    uint64_t other_n;        /* HELLO 1 other than the one agreed on */
    uint64_t sent[3][3];     /* uvcci_pace by peer and HELLO */
    uint64_t forged[3];      /* uvcci_pace by peer: proofs that did not verify */
    bool stale;              /* uvcci_hello_stale() unless done */
} uvcci_hello;

/* UVCC_ERR_CONFIG: equal pair secrets; a zero identity, two equal ones, or one that is not
 * sign_sk's; suites without or with an unknown bit; an unknown kem; an exchange, party, run,
 * number of offers or repeat_ns out of range. UVCC_ERR_CRYPTO. */
int uvcci_hello_init(uvcci_hello *h, const uvcci_hello_config *cfg, uint64_t now);
void uvcci_hello_wipe(uvcci_hello *h);
/* Begins a stale handshake again: forgets what came, keeps our HELLO 1, which goes out repeat_ns
 * later. */
void uvcci_hello_again(uvcci_hello *h, uint64_t now);
/* A HELLO payload came from `peer`; sealed: it came in a verified sealed control frame (HELLO 3).
 * 0: taken or ignored (h->ignored counts). UVCC_ERR_MISMATCH: a HELLO 1 with another version,
 * topology, job part, program, policy, sid or kind of key exchange, no common suite, no common
 * offer, or an impossible run, or a HELLO 2 that the expected identity, or who knows the secret,
 * did not make (h->field names it). Anybody may have sent it: it is not kept, and the handshake
 * waits on for a better one. UVCC_ERR_PROTOCOL: the peer signed an ephemeral that gives no secret
 * (fatal; h->field). UVCC_ERR_AUTH: HELLO 2 or 3 contradicts ours or is not the peer's (changes
 * nothing, but is reported). UVCC_ERR_CRYPTO. */
int uvcci_hello_input(uvcci_hello *h, uint8_t peer, const uint8_t *payload, size_t len, bool sealed,
                      uint64_t now);
/* An unsealed HELLO came from `peer` under another session's tag: it is never taken, but
 * UVCC_ERR_MISMATCH if it is a HELLO 1 that says why (h->field), else 0. */
int uvcci_hello_foreign(uvcci_hello *h, uint8_t peer, const uint8_t *payload, size_t len);
/* Another stream to `peer` is up: the binding of its channel, NULL if it has none. Before the
 * nudge.
 */
void uvcci_hello_channel(uvcci_hello *h, uint8_t peer, const uint8_t *binding);
/* Any other sealed frame of this run came from `peer`: it is past HELLO 3. */
void uvcci_hello_peer_passed(uvcci_hello *h, uint8_t peer);
/* The peer's stream was (re)opened: send the present messages again at once. */
void uvcci_hello_nudge(uvcci_hello *h, uint8_t peer, uint64_t now);
/* Next payload to send to `peer` (<= UVCCI_HELLO1_MAX bytes): its length, 0 if none. *sealed: as a
 * sealed control frame. Up to three may be due at once, in order; a link holds one HELLO at a time,
 * so poll again when it has been transmitted. */
size_t uvcci_hello_poll(uvcci_hello *h, uint8_t peer, uint8_t *out, bool *sealed, uint64_t now);
/* Not after now while something is due, UVCC_NEVER when both peers are past. */
uint64_t uvcci_hello_deadline(const uvcci_hello *h);
uint64_t uvcci_hello_peer_deadline(const uvcci_hello *h, uint8_t peer);
/* Keys of the pair are derived, and the peer has proved its HELLO 1: its link may be keyed. */
bool uvcci_hello_keyed(const uvcci_hello *h, uint8_t peer);
/* The keys of the pair were taken: wipes peer[].prk. */
void uvcci_hello_forget(uvcci_hello *h, uint8_t peer);
/* This handshake cannot end any more: uvcci_hello_again(). */
bool uvcci_hello_stale(const uvcci_hello *h);
/* The peer proved that it, or its handshake, began anew while this one or its session lived. */
bool uvcci_hello_restarted(const uvcci_hello *h, uint8_t peer);
/* H of the three N, once both HELLO 1 are here: a run's own, the same at all three. */
void uvcci_hello_nonce(const uvcci_hello *h, uint8_t out[32]);
/* Both peers DONE. */
bool uvcci_hello_done(const uvcci_hello *h);

#endif
