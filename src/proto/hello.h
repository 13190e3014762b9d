/* hello.h - the handshake of one party with both peers (wire.md, HELLO): who we are, which keys,
 * where we resume. Provisioned pair secrets; the X25519 exchange comes later. Pure: the session
 * carries payloads between this and the links.
 *
 * States per peer: WAIT1 (no HELLO 1 yet) -> WAIT2 (both peers' HELLO 1 here, ours sent, keys
 * derived) -> WAIT3 (HELLO 2 matched) -> DONE (HELLO 3 verified). */
#ifndef UVCCI_HELLO_H
#define UVCCI_HELLO_H

#include "crypto.h"

#define UVCCI_HELLO1_BYTES 152u
#define UVCCI_HELLO2_BYTES 108u
#define UVCCI_HELLO3_BYTES 33u

typedef struct uvcci_hello_config {
    uint8_t party;
    uint8_t suites;          /* bit i-1 = suite i */
    uint8_t sid_job[32], sid_sub[32];
    uint16_t r, s, t, replica, stage, tp;
    uint8_t h_program[32];
    uint32_t next_step, next_run;
    uint8_t n[32];           /* fresh random bytes of this (re)start */
    uint8_t secret[3][32];   /* provisioned, by peer's party index; own entry unused */
    uint64_t repeat_ns;      /* first repetition; doubles up to 32 times that */
} uvcci_hello_config;

typedef enum uvcci_hello_state {
    UVCCI_HELLO_WAIT1, UVCCI_HELLO_WAIT2, UVCCI_HELLO_WAIT3, UVCCI_HELLO_DONE
} uvcci_hello_state;

typedef struct uvcci_hello_peer {
    uvcci_hello_state state;
    uint8_t hello1[UVCCI_HELLO1_BYTES]; /* theirs */
    uint8_t hello2_out[UVCCI_HELLO2_BYTES], hello2_in[UVCCI_HELLO2_BYTES];
    uint8_t prk[32];                    /* valid from WAIT2 on */
    uint64_t next_repeat, repeat_ns;
    bool due;                           /* something to send now */
    bool answer;                        /* a known HELLO 1 or 2 came again: answer from memory */
    bool reached;                       /* peer is known to be past our present message */
} uvcci_hello_peer;

typedef struct uvcci_hello {
    uvcci_hello_config cfg;
    uint8_t hello1[UVCCI_HELLO1_BYTES];
    uvcci_hello_peer peer[3]; /* by party; own entry unused */
    bool agreed;              /* both HELLO 1 are here: run, step, suite are set */
    uint32_t run, step;
    uint8_t suite;
    const char *field;        /* on UVCC_ERR_MISMATCH: which field differs */
} uvcci_hello;

/* Equal pair secrets are refused (UVCC_ERR_CONFIG), so is suites == 0. */
int uvcci_hello_init(uvcci_hello *h, const uvcci_hello_config *cfg, uint64_t now);
void uvcci_hello_wipe(uvcci_hello *h);
/* A HELLO payload came from `peer`; sealed: it came in a verified sealed control frame (HELLO 3).
 * 0: taken or ignored (duplicates, malformed or untimely ones: `*ignored` counts); UVCC_ERR_MISMATCH: a peer with another
 * version, topology, program, sid, no common suite or an impossible run (fatal; h->field names it);
 * UVCC_ERR_AUTH: HELLO 2 or 3 contradicts ours (ignored by state, but reported). */
int uvcci_hello_input(uvcci_hello *h, uint8_t peer, const uint8_t *payload, size_t len, bool sealed,
                      uint64_t now);
/* Any other sealed frame of this run came from `peer`: it is past HELLO 3. */
void uvcci_hello_peer_passed(uvcci_hello *h, uint8_t peer);
/* The peer's stream was (re)opened: send the present message again at once. */
void uvcci_hello_nudge(uvcci_hello *h, uint8_t peer, uint64_t now);
/* Next payload to send to `peer` (<= 152 bytes): its length, 0 if none. *sealed: as a sealed control
 * frame. */
size_t uvcci_hello_poll(uvcci_hello *h, uint8_t peer, uint8_t out[UVCCI_HELLO1_BYTES],
                        bool *sealed, uint64_t now);
uint64_t uvcci_hello_deadline(const uvcci_hello *h);
/* Keys of the pair are derived (the link may be keyed): state >= WAIT2. */
bool uvcci_hello_keyed(const uvcci_hello *h, uint8_t peer);
/* Both peers DONE. */
bool uvcci_hello_done(const uvcci_hello *h);

#endif
