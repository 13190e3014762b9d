/* SPDX-License-Identifier: Apache-2.0 */
/* circuit.h - comparison without keys: boolean replicated sharing and a tree of carries, bit-sliced
 * (the BOOL tasks of <uvcc/compute.h>).
 *
 * On an edge x = u + c, where HEAD knows u = a + b, and TAIL and OTHER both know c. So a product of
 * something HEAD knows with something the two others know costs one round (f, g any functions):
 * HEAD sends f(u) less two pads, one it shares with each of them, to both; each of them multiplies
 * its pad by g(c) at once and sends that to HEAD, masked by a pad of TAIL and OTHER; what they do
 * to HEAD's message needs no message. The result is replicated. That gives the carries of groups of
 * up to four bits in the first round (from all products of u's bits in a group, masked one by one),
 * and bit, conversion and selection in the last, because the carry's components 0 and 1 are HEAD's
 * and component 2 is known to TAIL and OTHER. Between them log2(groups) rounds of boolean products.
 * Security: every word a party receives is masked by a pad that it does not know and that masks
 * nothing else, and nothing is ever opened: what a party sees is uniform and independent of x.
 *
 * Sent by all parties per element (M, S: planes of uvcci_circuit_plan): 2 M + 2 S bits in round 0;
 * 3 bits for each of the 2 groups - 1 results of a level, 2 in the last level; in the last round 32
 * B for the bit, 48 B for the product, 64 B for both.
 */
#ifndef UVCCI_CIRCUIT_H
#define UVCCI_CIRCUIT_H

#include "proto/aes.h"
#include <uvcc/compute.h>

enum { UVCCI_CIRCUIT_GROUP_BITS = 4, UVCCI_CIRCUIT_SUBSETS = 1 << UVCCI_CIRCUIT_GROUP_BITS };

/* Shape of a comparison of `bits` bits, 1..63. Rounds are 0..rounds - 1, and need as many calls. */
typedef struct uvcci_circuit_plan {
    uint8_t bits;
    uint8_t groups; /* 2^levels */
    uint8_t levels;
    uint8_t rounds;  /* levels + 2 */
    uint16_t shared; /* M: planes of HEAD's messages in round 0 */
    uint16_t planes; /* S: planes of a component in round 0 */
} uvcci_circuit_plan;
uvcci_circuit_plan uvcci_circuit_plan_of(unsigned bits);
/* Words of the message of a block of `count` elements; 0: there is none. want: UVCC_BOOL_*, of the
 * last round. */
uint32_t uvcci_circuit_message_words(const uvcci_circuit_plan *plan, unsigned want, unsigned round,
                                     uvcc_role from, uvcc_role to, uint32_t count);
/* A message is cut into pieces of so many words, the last one shorter. */
uint32_t uvcci_circuit_piece_words(const uvcci_circuit_plan *plan, unsigned round, uint32_t count);
/* Words of a block's state. */
uint32_t uvcci_circuit_state_words(const uvcci_circuit_plan *plan, uint32_t count);

enum { UVCCI_PLANE_WORDS = UVCC_BLOCK_ELEMS / 64, UVCCI_CIRCUIT_CHUNK = 1024 };

typedef struct uvcci_circuit_scratch {
    _Alignas(64) uint64_t plane[64][UVCCI_PLANE_WORDS]; /* bits of u or c */
    uint64_t product[UVCCI_CIRCUIT_SUBSETS][UVCCI_PLANE_WORDS];
    uint64_t pad[2][UVCCI_CIRCUIT_SUBSETS * UVCCI_PLANE_WORDS];
    uint64_t word[5][UVCCI_CIRCUIT_CHUNK];
} uvcci_circuit_scratch;

typedef struct uvcci_circuit_job {
    const uvcc_task *task;
    const uvcc_block *block;
    const uvcci_aes *key[2]; /* tag zero, [UVCC_PAIR_NEXT, UVCC_PAIR_PREV] */
    uvcci_circuit_scratch *scratch;
} uvcci_circuit_job;
/* Whether bits, level and gate are within what the formulas allow. */
bool uvcci_circuit_is_sane(const uvcc_task *t);
/* One BOOL task on one block. */
void uvcci_circuit_run(const uvcci_circuit_job *j);
#endif
