/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - what every op of a program sends, to whom, in which batches: a pure function of the
 * program and its shapes, plus the edges that the step's ids give. The sender builds messages from
 * it, the receiver demands exactly it.
 *
 * An op's communication is a list of rounds; a round carries one or two vectors, each under a
 * protocol of proto/engine.h. A round is cut into parts by ranges of blocks, so that no part can
 * pass UVCC_PART_BYTES in any direction; part q of a round is batch b = b_base + q of its kind. A
 * direction with no TLV in a part sends no message for it.
 *
 * A large op is cut into segments, which run like ops of their own: each has a plan's rounds, ids,
 * keys and batches of its own. Where they end follows from the op alone, so that all parties agree
 * on it whatever memory they have; how many are at work at a time is another matter (window.h). */
#ifndef UVCCI_PLAN_H
#define UVCCI_PLAN_H

#include "exec/primitives/circuit.h"
#include "exec/program/function.h"
#include "exec/program/program.h"
#include "exec/program/tiles.h"
#include "proto/engine.h"
#include "proto/ids.h"
#include <uvcc/blv1.h>
#include <uvcc/compute.h>

#define UVCCI_PLAN_ROUNDS 64u /* of an op, rounds of keys included, but for those of tiles */
#define UVCCI_PLAN_VECS   4u  /* of a round */
#define UVCCI_PLAN_IDS    64u /* of an op */
#define UVCCI_PLAN_PARTS  64u /* of a round */
#define UVCCI_TURN_ROUNDS 4u  /* sent by one turn */
/* What a segment has at most, unless one unit has more; an op of less than both is not cut. */
#define UVCCI_SEGMENT_ELEMS     (1u << 19)
#define UVCCI_SEGMENT_KEY_BYTES (32u << 20) /* over all its blocks, each as the first */
#define UVCCI_NO_ROUND          255u

/* An op that compares without keys has a round of one vector per round of its circuit. A block's
 * message is RESHARE TLVs with the block as their tile, one for each piece of at most 4096 words;
 * piece k has first = 4096 k. Pieces of one message follow one another in the batch, so one gap
 * lies between them. Its ids are not sent: the first gives the edges, and each gives a round its
 * engines. */

/* Where a TLV's id comes from: an index into uvcci_plan.id, or no id (the round's tile). */
enum {
    UVCCI_ID_FSS0 = 0 /* fss_id of call 0; where edges are by block, of the blocks' edges too */,
    UVCCI_ID_TILE = 255
};
/* `what` of a DIGEST TLV. */
enum {
    UVCCI_DIGEST_CHECK = 0, /* of a component that two hold */
    UVCCI_DIGEST_COIN_COMMIT = 1,
    UVCCI_DIGEST_COIN_SHARE = 2,
    UVCCI_DIGEST_SKS = 3
};
typedef struct uvcci_plan_id {
    uint8_t fss;    /* 1: an fss id; 0: a stream id */
    uint8_t stream; /* uvcci_stream_name */
    uint16_t call;
    bool per_block; /* else one id for the whole vector */
    uint32_t blocks;
} uvcci_plan_id;

typedef struct uvcci_plan_vec {
    uint8_t protocol; /* uvcci_protocol */
    uint8_t hop;
    uint8_t id; /* index into uvcci_plan.id, or UVCCI_ID_TILE */
    uint8_t stream_round;
    uint8_t bits;
    uint8_t instr; /* of a function */
    uint8_t what;  /* of its DIGEST TLVs */
} uvcci_plan_vec;

/* All vectors of a round have the same length and frame kind. */
typedef struct uvcci_plan_round {
    uint8_t kind; /* frame kind */
    uint8_t turn; /* of the op that sends it */
    uint8_t vec_count;
    uvcci_plan_vec vec[UVCCI_PLAN_VECS];
    uint16_t b_base, parts;
    uint32_t part_blocks; /* blocks per part */
    uint64_t elems;
    uint32_t blocks;
    /* Of a triple's round: its tile, and blocks of the tiles before it, so that each block of a
     * product has words and an engine of its own. */
    uint32_t tile, first_block;
} uvcci_plan_round;

/* A product on a Beaver triple. An operand's mask belongs to a version of a tensor: the first
 * Beaver product in program order that reads the version owns the mask and opens the difference, in
 * its turn 0; the others wait for that. So a product that owns no mask opens nothing. */
typedef struct uvcci_plan_mask {
    uint32_t op;     /* who owns it, index in program order */
    uint8_t operand; /* of that op: 0 is an A and a GEMM_E, 1 a B and a GEMM_F */
    int8_t round;    /* own: that opens it; else -1 */
    uint64_t elems;
    uint32_t reads; /* own: operands of Beaver products that it masks */
} uvcci_plan_mask;
typedef struct uvcci_plan_beaver {
    bool on;
    uint8_t product_turn; /* the first after the openings */
    uint8_t finish_turn; /* of several tiles the one after it, which waits for all; else the same */
    uint8_t triple_round; /* C, in turn UVCCI_TURN_TRIPLE: of tile 0, the others follow */
    uvcci_tiles tiles;
    uvcci_plan_mask mask[2];
} uvcci_plan_beaver;
/* How an op is cut. A unit is what no segment ends within: an element, or a row of what the op
 * makes. */
typedef struct uvcci_segments {
    uint32_t count;
    uint64_t units;          /* of the op; 1: it cannot be cut */
    uint64_t per;            /* of each segment but the last */
    bool by_element;         /* units are elements, whatever the op's rows are */
    struct uvcci_plan *last; /* of the last segment, if it is shorter; else NULL */
} uvcci_segments;

/* Turns beside the op's own. A tile's triple takes two: C is made and sent, then it is here. Those
 * of tile 0 come before turn 0, those of others whenever the op is between two turns. A product of
 * several tiles uses each in a turn of its own, in rising order. */
enum {
    UVCCI_TURN_NONE = 250, /* nothing can be done beside now */
    UVCCI_TURN_TILE = 251,
    UVCCI_TURN_TRIPLE = 252,
    UVCCI_TURN_TRIPLE_HERE = 253,
    UVCCI_TURN_DONE = 255
};
/* Words and streams of a triple: those of the truncation after it, by blocks, have call 0. */
enum { UVCCI_CALL_TRIPLE = 1 };

/* A turn is what runs between two rounds of communication: turn s follows round s - 1 and sends
 * the rounds with turn s. An op without communication has one turn, others have turns + 1. A
 * silent turn is followed by the next one at once. */
typedef struct uvcci_plan {
    const struct uvcci_op_class *cls; /* of the op (op_class.h) */
    const struct uvcci_op_way *way;   /* how instances run (op_way.h) */
    uint32_t tasks_max;               /* see uvcci_plan_turn_tasks() */
    uint64_t elems;
    uint32_t blocks;     /* of the longest vector: of a function, perhaps not its input */
    bool per_block_edge; /* each block has the edge of its fss id */
    bool one_edge;       /* all have that of block 0 */
    uint8_t fixed_edge;  /* neither */
    uint8_t gate, shift, bits, lift;
    bool compact;
    uint32_t edge_blocks;                     /* of the longest vector: blocks or more */
    uint8_t turns;                            /* that send */
    uint8_t silent_turns;                     /* of these, that send nothing after all */
    uint8_t key_turn;                         /* that reads the keys */
    int8_t open_round, bit_round, lift_round; /* of gates, -1: none; a sequential lift takes two */
    uint8_t round_count, key_count;           /* rounds[round_count .. + key_count) are keys */
    uint8_t id_count;
    uvcci_plan_round *rounds;
    uvcci_plan_id *id;
    uvcci_plan_beaver beaver;
    uvcci_circuit_plan circuit;    /* of RELU by a circuit */
    const uvcc_function *function; /* of FUNCTION ops, with its compiled form */
    uvcci_fn_plan *fn;
    void *mem; /* holds rounds, id and fn */
    size_t mem_bytes;
    uvcci_segments segments; /* of the op; the rest of the plan is that of its first segment */
    uint64_t units;          /* of this segment */
    uint16_t batches;        /* rows of a segment in the op table */
    uint64_t copies;         /* that a turn lists, where blocks do not say how many */
    uint64_t work_bytes;     /* that an instance takes while it is at work, for the window */
    uint64_t online_bytes_max, key_bytes_max; /* msg_len + 64 over all messages one way, at most */
    uint64_t cut_bytes;    /* key_bytes_max if all blocks were as the first: what ops are cut by
                              (wire.md) */
    uint32_t messages_max; /* one way, keys included */
} uvcci_plan;

/* Leaves of the transcript that a segment has, at most. */
uint64_t uvcci_plan_leaves_max(const uvcci_plan *plan);
/* The plan of a segment, given its op's. */
static inline const uvcci_plan *uvcci_plan_segment(const uvcci_plan *plan, uint32_t segment) {
    return plan->segments.last != NULL && segment + 1 == plan->segments.count ? plan->segments.last
                                                                              : plan;
}
/* Rows of an op in the op table: those of its segments, one after the other. */
static inline uint32_t uvcci_plan_rows(const uvcci_plan *plan) {
    return (plan->segments.count - 1) * plan->batches +
           uvcci_plan_segment(plan, plan->segments.count - 1)->batches;
}
/* A sum over the segments of what their plans say. */
#define UVCCI_PLAN_SUM(plan, what)                                                                 \
    ((uint64_t)((plan)->segments.count - 1) * (plan)->what +                                       \
     uvcci_plan_segment(plan, (plan)->segments.count - 1)->what)

/* Bytes of a digest TLV, of which a part may carry one more per vector. */
enum { UVCCI_DIGEST_TLV_BYTES = 4 + 12 + 32 };
/* Bytes that a block can add to a message of the round, at most, the first one as much as any;
 * blocks of so many bytes that a message of so many vectors has room for. */
uint64_t uvcci_plan_block_bytes_max(const uvcci_plan *plan, const uvcci_plan_round *r,
                                    uint32_t block);
uint64_t uvcci_plan_part_room(uint64_t per_block, unsigned vectors);
void uvcci_plan_free(uvcci_plan *plan, const uvcc_allocator *al);

static inline bool uvcci_plan_is_keys(const uvcci_plan *plan, const uvcci_plan_round *r) {
    return r >= plan->rounds + plan->round_count;
}
/* Bytes of the key stream of one block of a round of keys, for HEAD or TAIL. */
uint32_t uvcci_plan_key_bytes(const uvcci_plan *plan, const uvcci_plan_round *r, uint32_t block,
                              uvcc_role role);
/* Tasks of a turn at most, hashes included: of a FUNCTION op those of its instructions come to
 * tasks_max, in the turns that they begin and end in. */
uint32_t uvcci_plan_turn_tasks(const uvcci_plan *plan, unsigned turn);
/* Of a FUNCTION op: where in the block's key stream (`count` elements) the instruction's CW starts,
 * and its words (TAIL); UINT32_MAX where it has none. */
void uvcci_plan_key_at(const uvcci_plan *plan, unsigned instr, uint32_t count, uint32_t *cw,
                       uint32_t *words);
/* Whether a message has room for a block's key stream of that size. */
bool uvcci_plan_keys_fit(uint64_t bytes);
/* The round of keys that holds an instruction's material, and the round that sends it. */
const uvcci_plan_round *uvcci_plan_keys_of(const uvcci_plan *plan, unsigned instr);
const uvcci_plan_round *uvcci_plan_sent_by(const uvcci_plan *plan, unsigned instr, unsigned *vec);

/* The ids of one op in one step. Arrays of uvcci_plan_id.blocks (or 1) words. */
typedef struct uvcci_plan_ids {
    uint64_t **id; /* [plan->id_count] */
    uint8_t *edge; /* [plan->edge_blocks] */
} uvcci_plan_ids;
void uvcci_plan_ids_fill(const uvcci_plan *plan, const uint8_t sid_sub[32], uint32_t step,
                         uint32_t op_id, uvcci_plan_ids *ids);
/* Two equal ids within one source: the op id must be drawn again. */
bool uvcci_plan_ids_collide(const uvcci_plan *plan, const uvcci_plan_ids *ids);

/* One TLV of a planned message. */
typedef struct uvcci_plan_tlv {
    uvcc_tlv t; /* data NULL */
    uint8_t vec;
    uint8_t flow; /* index in the protocol's flows */
    bool more;    /* goes on where the TLV before ends */
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
/* Blocks of a vector, and elements of one of them (0 beyond its end). */
static inline uint32_t uvcci_blocks(uint64_t elems) {
    return (uint32_t)((elems + UVCC_BLOCK_ELEMS - 1) / UVCC_BLOCK_ELEMS);
}
static inline uint32_t uvcci_block_count(uint64_t elems, uint32_t block) {
    uint64_t first = (uint64_t)block * UVCC_BLOCK_ELEMS;
    uint64_t left = elems > first ? elems - first : 0;
    return left < UVCC_BLOCK_ELEMS ? (uint32_t)left : UVCC_BLOCK_ELEMS;
}

#endif
