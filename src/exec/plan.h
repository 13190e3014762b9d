/* plan.h - what every op of a program sends, to whom, in which batches: a pure function of the program
 * and its shapes, plus the edges that the step's ids give. The sender builds messages from it, the
 * receiver demands exactly it.
 *
 * An op's communication is a list of rounds; a round carries one or two vectors, each under a protocol
 * of proto/engine.h. A round is cut into parts by ranges of blocks, so that no part can pass
 * UVCC_PART_BYTES in any direction; part q of a round is batch b = b_base + q of its kind. A direction
 * with no TLV in a part sends no message for it. */
#ifndef UVCCI_PLAN_H
#define UVCCI_PLAN_H

#include "exec/program.h"
#include "proto/engine.h"
#include "proto/ids.h"
#include <uvcc/blv1.h>
#include <uvcc/compute.h>

#define UVCCI_PLAN_ROUNDS 5u
#define UVCCI_PLAN_VECS 2u
#define UVCCI_PLAN_PARTS 64u /* of a round */

/* Where a TLV's id comes from. */
typedef enum uvcci_id_source {
    UVCCI_ID_FSS0 = 0,    /* fss_id of call 0, per block; also the block's edge */
    UVCCI_ID_FSS1 = 1,    /* fss_id of call 1 */
    UVCCI_ID_STREAM0 = 2, /* first stream name of the op */
    UVCCI_ID_STREAM1 = 3,
    UVCCI_ID_SOURCES = 4,
    UVCCI_ID_TILE0 = 4, /* tile 0 */
} uvcci_id_source;

typedef struct uvcci_plan_vec {
    uint8_t protocol; /* uvcci_protocol */
    uint8_t hop;
    uint8_t id;       /* uvcci_id_source */
    uint8_t stream_round;
    uint8_t bits;
} uvcci_plan_vec;

typedef struct uvcci_plan_round {
    uint8_t kind; /* frame kind */
    uint8_t vec_count;
    uvcci_plan_vec vec[UVCCI_PLAN_VECS];
    uint16_t b_base, parts;
    uint32_t part_blocks; /* blocks per part */
} uvcci_plan_round;

typedef struct uvcci_plan {
    uint64_t elems;
    uint32_t blocks;
    bool per_block_edge;
    uint8_t fixed_edge;
    bool id_used[UVCCI_ID_SOURCES];
    bool id_per_block[UVCCI_ID_SOURCES];
    uint8_t stream[2]; /* uvcci_stream_name of STREAM0, STREAM1 */
    uint8_t gate, shift, bits, lift;
    bool compact;
    uint8_t round_count;
    int8_t open_round, bit_round, lift_round; /* -1: none; a sequential lift takes two rounds */
    uvcci_plan_round rounds[UVCCI_PLAN_ROUNDS];
    uvcci_plan_round keys; /* vec_count 0: none */
    uint16_t batches;      /* rows of the op in the op table */
    uint64_t online_bytes_max, key_bytes_max; /* msg_len + 64 over all messages one way, at most */
    uint32_t messages_max;                    /* online, one way */
} uvcci_plan;

/* UVCC_ERR_PROGRAM for an op that this version cannot run or that is too large. */
int uvcci_plan_make(uvcci_plan *plan, const uvcc_program *p, const uvcci_entry *e,
                    const uvcci_op *op);

/* The ids of one op in one step. Arrays of plan->blocks (or 1) words. */
typedef struct uvcci_plan_ids {
    uint64_t *id[UVCCI_ID_SOURCES];
    uint8_t *edge; /* [blocks] */
} uvcci_plan_ids;
/* Words and bytes that fill() needs. */
void uvcci_plan_ids_fill(const uvcci_plan *plan, const uint8_t sid_sub[32], uint32_t step,
                         uint32_t op_id, uvcci_plan_ids *ids);
/* Two equal ids within one source: the op id must be drawn again. */
bool uvcci_plan_ids_collide(const uvcci_plan *plan, const uvcci_plan_ids *ids);

/* One TLV of a planned message. */
typedef struct uvcci_plan_tlv {
    uvcc_tlv t; /* data NULL */
    uint8_t vec;
    uint8_t flow; /* index in the protocol's flows */
    uint32_t block;
} uvcci_plan_tlv;
/* Upper bound of the TLVs of a part of `r`. */
uint32_t uvcci_plan_tlvs_max(const uvcci_plan *plan, const uvcci_plan_round *r);
/* Lists the TLVs of part `part` from src to dst in canonical order; returns their number and the
 * message's bytes in *bytes. */
uint32_t uvcci_plan_list(const uvcci_plan *plan, const uvcci_plan_ids *ids,
                         const uvcci_plan_round *r, uint32_t part, uint8_t src, uint8_t dst,
                         uvcci_plan_tlv *out, size_t *bytes);
/* Whether that list would not be empty. */
bool uvcci_plan_any(const uvcci_plan *plan, const uvcci_plan_ids *ids, const uvcci_plan_round *r,
                    uint32_t part, uint8_t src, uint8_t dst);
/* The round of batch b of a frame kind (`*part` filled), or NULL. */
const uvcci_plan_round *uvcci_plan_find(const uvcci_plan *plan, uint8_t kind, uint16_t b,
                                        uint32_t *part);
/* Elements of a block. */
static inline uint32_t uvcci_plan_count(const uvcci_plan *plan, uint32_t block) {
    uint64_t left = plan->elems - (uint64_t)block * UVCC_BLOCK_ELEMS;
    return left < UVCC_BLOCK_ELEMS ? (uint32_t)left : UVCC_BLOCK_ELEMS;
}

#endif
