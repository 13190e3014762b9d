/* SPDX-License-Identifier: Apache-2.0 */
/* serve_offer.h - which requests of clients the three parties serve next: pure functions.
 *
 * In a step "choose" each party offers some of the requests that it has, as an input that opens to
 * all. From the three offers each party finds the same list: the requests that all three offered,
 * in the order of the party whose turn it is. So nobody is served whom one party alone names, and a
 * request that one has not holds up no other (docs/clients.md).
 *
 * Where more wait than an offer holds the three might never offer the same ones. So half of an
 * offer echoes what the party whose turn it is chose by itself the last time: what is then not
 * offered by all, one of them has not. */
#ifndef UVCC_TOOLS_SERVE_OFFER_H
#define UVCC_TOOLS_SERVE_OFFER_H

#include <stdbool.h>
#include <stdint.h>
#include <uvcc/types.h>

/* What is offered of a request: client and id name it; the digests show whether all have the same.
 */
typedef struct serve_name {
    uint8_t client[8]; /* of its public key, the first bytes */
    uint8_t id[16];
} serve_name;
typedef struct serve_slot {
    bool used;
    serve_name name;
    uint8_t digest_lo[32], digest_hi[32];
} serve_slot;

/* An offer is SERVE_WORDS numbers of SERVE_WORD_BITS bits. */
enum {
    SERVE_ECHOES = 8,
    SERVE_OWN = 8,
    SERVE_SLOTS = SERVE_ECHOES + SERVE_OWN
}; /* in that order */
enum { SERVE_SLOT_WORDS = 1 + (8 + 16 + 32 + 32) / 4 };
enum { SERVE_WORDS = SERVE_SLOTS * SERVE_SLOT_WORDS, SERVE_WORD_BITS = 32 };
void serve_offer_write(const serve_slot slot[SERVE_SLOTS], int64_t words[SERVE_WORDS]);
/* Words that no party writes are slots that are not used. */
void serve_offer_read(const int64_t words[SERVE_WORDS], serve_slot slot[SERVE_SLOTS]);

typedef struct serve_pick {
    serve_name name;
    bool mismatch; /* the three have different shares */
} serve_pick;
/* Their number. `turn` is the same at all three. */
uint32_t serve_choose(const int64_t *const offer[UVCC_PARTIES], uint32_t turn,
                      serve_pick pick[SERVE_SLOTS]);

/* Whose turn it is. */
static inline uint32_t serve_leader(uint32_t turn) {
    return turn % UVCC_PARTIES;
}
/* The order of clients and of ids, by their first bytes, from a place that moves with the turn, and
 * is the same at all three. Less than 0: a before b. */
int serve_order(const uint8_t a[8], const uint8_t b[8], uint32_t turn);

#endif
