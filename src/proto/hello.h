/* hello.h - the handshake of one party with both peers (wire.md, HELLO): who we are, which keys,
 * where we resume. Provisioned pair secrets; the X25519 exchange comes later. Pure: the session
 * carries payloads between this and the links.
 *
 * States per peer: WAIT1 (not both HELLO 1 here yet) -> WAIT2 (both peers' HELLO 1 here, run, step,
 * suite and keys derived) -> WAIT3 (HELLO 2 matched) -> DONE (HELLO 3 verified).
 *
 * Until both HELLO 1 are here a peer's newest one counts. From then on a HELLO 1 with another N
 * changes nothing and is counted in other_n. Before uvcci_hello_done() it means that the peer has
 * restarted (or that an old packet came first) and that this handshake cannot end: the session
 * discards it and its unstarted links and begins again; N may be kept, for nothing but HELLO went out
 * under the keys. */
#ifndef UVCCI_HELLO_H
#define UVCCI_HELLO_H

#include "crypto.h"

#define UVCCI_HELLO1_BYTES 152u
#define UVCCI_HELLO2_BYTES 108u
#define UVCCI_HELLO3_BYTES 33u
#define UVCCI_RUN_LIMIT (1u << 24) /* a run fits above the 40 bits of a seq's counter */

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
    uint8_t hello1[UVCCI_HELLO1_BYTES]; /* theirs; first byte 0 until it is here */
    uint8_t hello2[UVCCI_HELLO2_BYTES]; /* from WAIT2 on; provisioned: the same bytes both ways */
    uint8_t hello3[UVCCI_HELLO3_BYTES]; /* from WAIT2 on; the same bytes both ways */
    uint8_t prk[32];                    /* valid from WAIT2 on */
    uint64_t next_repeat, repeat_ns;
    uint8_t pending;                    /* bit i: HELLO i goes out at the next poll */
    bool answer1;                       /* the next known HELLO 1 is answered by HELLO 1 too */
    bool reached;                       /* the peer is known to be past HELLO 3 */
} uvcci_hello_peer;

typedef struct uvcci_hello {
    uvcci_hello_config cfg;
    uint8_t hello1[UVCCI_HELLO1_BYTES];
    uvcci_hello_peer peer[3]; /* by party; own entry unused */
    bool agreed;              /* both HELLO 1 are here: run, step, suite are set */
    uint32_t run, step;
    uint8_t suite;
    const char *field;        /* on UVCC_ERR_MISMATCH: which field differs */
    uint64_t ignored;         /* payloads without effect: malformed, untimely, known */
    uint64_t other_n;         /* HELLO 1 with another N than the one agreed on */
} uvcci_hello;

/* UVCC_ERR_CONFIG: equal pair secrets, suites without or with an unknown bit, a party, run or repeat_ns
 * out of range. */
int uvcci_hello_init(uvcci_hello *h, const uvcci_hello_config *cfg, uint64_t now);
void uvcci_hello_wipe(uvcci_hello *h);
/* A HELLO payload came from `peer`; sealed: it came in a verified sealed control frame (HELLO 3).
 * 0: taken or ignored (h->ignored counts). UVCC_ERR_MISMATCH: a peer with another version, topology,
 * program, sid or kind of key exchange, no common suite or an impossible run (fatal; h->field names
 * it). UVCC_ERR_AUTH: HELLO 2 or 3 contradicts ours (changes nothing, but is reported). */
int uvcci_hello_input(uvcci_hello *h, uint8_t peer, const uint8_t *payload, size_t len, bool sealed,
                      uint64_t now);
/* Any other sealed frame of this run came from `peer`: it is past HELLO 3. */
void uvcci_hello_peer_passed(uvcci_hello *h, uint8_t peer);
/* The peer's stream was (re)opened: send the present messages again at once. */
void uvcci_hello_nudge(uvcci_hello *h, uint8_t peer, uint64_t now);
/* Next payload to send to `peer` (<= 152 bytes): its length, 0 if none. *sealed: as a sealed control
 * frame. Up to three may be due at once, in order; a link holds one HELLO at a time, so poll again
 * when it has been transmitted. */
size_t uvcci_hello_poll(uvcci_hello *h, uint8_t peer, uint8_t out[UVCCI_HELLO1_BYTES],
                        bool *sealed, uint64_t now);
/* 0 while something is due, UVCC_NEVER when both peers are past. */
uint64_t uvcci_hello_deadline(const uvcci_hello *h);
/* Keys of the pair are derived (the link may be keyed): state >= WAIT2. */
bool uvcci_hello_keyed(const uvcci_hello *h, uint8_t peer);
/* Both peers DONE. */
bool uvcci_hello_done(const uvcci_hello *h);

#endif
