/* SPDX-License-Identifier: Apache-2.0 */
/* coin.h - a coin that three parties toss by commit and open (wire.md, DIGEST; protocols.md, SKS).
 *
 * Each party draws 32 bytes s_p and sends H("UVCC_COIN_V1" || sid_sub || LE32(step) || LE32(run) ||
 * LE32(op_id) || U8(p) || s_p). Nobody opens before it has all three commitments, so nobody's bytes
 * depend on another's; one honest party makes the seed uniform. The seed also takes in the roots of
 * what the coin is for, which every party sent before it opened. */
#ifndef UVCCI_COIN_H
#define UVCCI_COIN_H

#include <stdbool.h>
#include <stdint.h>

typedef struct uvcci_coin {
    uint8_t sid_sub[32];
    uint32_t step, run, op_id;
    uint8_t party;
    uint8_t commit[3][32], share[3][32]; /* by party */
    uint8_t committed, opened;           /* by party, a bit each */
} uvcci_coin;

/* share: this party's s_p. */
void uvcci_coin_init(uvcci_coin *c, const uint8_t sid_sub[32], uint32_t step, uint32_t run,
                     uint32_t op_id, uint8_t party, const uint8_t share[32]);
/* This party's commitment, now sent. */
const uint8_t *uvcci_coin_commit(uvcci_coin *c);
/* A peer's. UVCC_ERR_PROTOCOL the second time. */
int uvcci_coin_on_commit(uvcci_coin *c, uint8_t from, const uint8_t commit[32]);
/* This party's share, now sent; NULL while a commitment is missing. */
const uint8_t *uvcci_coin_open(uvcci_coin *c);
/* A peer's. UVCC_ERR_PROTOCOL: not all have committed, or it is the second one. UVCC_ERR_AUTH: it
 * is not what the peer committed to. */
int uvcci_coin_on_share(uvcci_coin *c, uint8_t from, const uint8_t share[32]);
/* H("UVCC_COIN_SEED_V1" || commitments || shares || roots), all by party; roots has 3 x 32 bytes.
 * UVCC_ERR_STATE while a share is missing. */
int uvcci_coin_seed(const uvcci_coin *c, const uint8_t *roots, uint8_t seed[32]);

/* Whether the seed selects something that is to be selected with probability permille / 1000:
 * floor(1000 x / 2^32) < permille for x = LE32 at byte 16. Bytes 0..15 are the key of a PRG. */
bool uvcci_coin_selects(const uint8_t seed[32], uint32_t permille);

#endif
