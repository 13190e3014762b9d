/* SPDX-License-Identifier: Apache-2.0 */
/* transcript.h - leaves, canonical order, Merkle root, inclusion proofs, replica and global roots
 * (wire.md 4). A leaf is kept as (row, bytes); arrival order never matters. */
#ifndef UVCCI_TRANSCRIPT_H
#define UVCCI_TRANSCRIPT_H

#include "proto/crypto.h"
#include <uvcc/audit.h>

/* Leaf types: the public ones under the names of this room. */
enum {
#define UVCC_LEAF(name, code, bytes, key) UVCCI_LEAF_##name = (code),
#include <uvcc/leaves.def>
#undef UVCC_LEAF
};

#define UVCCI_LEAF_MAX_BYTES UVCC_LEAF_MAX_BYTES
/* Every leaf begins with its type, the sid and a LE32. */
#define UVCCI_LEAF_SID_AT    1u
#define UVCCI_ROW_STEP_BEGIN 0u
#define UVCCI_ROW_ABORT      UINT32_MAX

/* Grows in chunks from the allocator (UVCC_MEM_STATE) up to max_leaves. A transcript belongs to one
 * step of one worker. Row = index of the leaf's row in the op table; STEP_BEGIN has 0 (its type
 * sorts it first there), ABORT 2^32-1. */
typedef struct uvcci_transcript uvcci_transcript;
int uvcci_transcript_new(uvcci_transcript **out, const uvcc_allocator *al, uint32_t max_leaves);
/* Most memory that one of so many leaves takes, while it is sorted too. */
uint64_t uvcci_transcript_bound(uint64_t leaves);
void uvcci_transcript_free(uvcci_transcript *t);
int uvcci_transcript_add(uvcci_transcript *t, uint32_t row, const uint8_t *leaf, size_t len);
uint32_t uvcci_transcript_count(const uvcci_transcript *t);
/* Sorts by (row, leaf bytes: memcmp, shorter first on a common prefix) and computes the root.
 * May be called again after further leaves. */
int uvcci_transcript_root(uvcci_transcript *t, uint8_t root[32]);
/* Puts the leaves in canonical order alone, for a root that is computed elsewhere. */
int uvcci_transcript_sort(uvcci_transcript *t);
/* After _sort or _root: leaf i in canonical order (view valid until the next add). */
int uvcci_transcript_leaf(const uvcci_transcript *t, uint32_t i, uint32_t *row,
                          const uint8_t **leaf, size_t *len);

/* Merkle: node = H(U8(1) || left || right), a last odd node moves up unchanged, empty =
 * H("UVCC_EMPTY_V1"). `hashes` (count * 32 bytes) is scratch and is overwritten. */
void uvcci_merkle_root(uint8_t *hashes, uint32_t count, uint8_t root[32]);
/* `out` may be either of the two below it. */
void uvcci_merkle_node(const uint8_t left[32], const uint8_t right[32], uint8_t out[32]);
/* The same root from leaf hashes that come one by one, and the siblings of one of them on the way.
 * Whole subtrees wait on a stack, at most one per level. */
typedef struct uvcci_merkle {
    uint8_t node[33][32];
    uint8_t sibling[UVCC_PATH_MAX]
                   [32]; /* of the target, from the bottom; none where a node moves up */
    uint32_t depth, count, target, sibling_count;
    uint32_t at; /* where on the stack the target is; UINT32_MAX: not there */
} uvcci_merkle;
/* target: the leaf whose siblings are wanted, or UVCC_NO_LEAF. */
void uvcci_merkle_begin(uvcci_merkle *m, uint32_t target);
void uvcci_merkle_add(uvcci_merkle *m, const uint8_t leaf_hash[32]);
void uvcci_merkle_end(uvcci_merkle *m, uint8_t root[32]);
/* 0 if the n siblings (n * 32 bytes) lead from leaf_hash at `index` of `count` leaves to root, else
 * UVCC_ERR_AUTH. */
int uvcci_merkle_verify(const uint8_t leaf_hash[32], uint32_t index, uint32_t count,
                        const uint8_t *siblings, uint32_t n, const uint8_t root[32]);

void uvcci_replica_root(const uint8_t sid_rep[32], uint32_t step, const uint8_t *step_roots,
                        uint32_t count, uint8_t out[32]);
void uvcci_global_root(const uint8_t sid_job[32], uint32_t step, const uint8_t *replica_roots,
                       uint32_t count, uint8_t out[32]);
/* The same, up to the replica roots: the caller updates with them, in order, and ends it. */
void uvcci_global_root_begin(uvcci_sha256 *h, const uint8_t sid_job[32], uint32_t step);

/* Leaf builders; each returns the leaf's length (<= UVCCI_LEAF_MAX_BYTES). */
size_t uvcci_leaf_step_begin(uint8_t *out, const uint8_t sid[32], uint32_t step, uint32_t run,
                             const uint16_t rst[3], const uint8_t h_program[32],
                             const uint8_t h_shapes[32], const uint8_t h_optable[32]);
size_t uvcci_leaf_batch(uint8_t *out, uint8_t type, const uint8_t sid[32], uint32_t op_id,
                        uint8_t src, uint8_t dst, uint32_t msg_id, const uint8_t d[32]);
size_t uvcci_leaf_open_done(uint8_t *out, const uint8_t sid[32], uint32_t op_id, uint64_t stream,
                            uint16_t round, const uint8_t d[32]);
size_t uvcci_leaf_keys_done(uint8_t *out, const uint8_t sid[32], uint32_t op_id, uint8_t src,
                            uint8_t dst, const uint8_t d[32]);
size_t uvcci_leaf_component_commit(uint8_t *out, const uint8_t sid[32], uint32_t op_id,
                                   uint64_t fss_id, uint8_t component, const uint8_t d[32]);
size_t uvcci_leaf_lift_done(uint8_t *out, const uint8_t sid[32], uint32_t op_id, uint64_t fss_id,
                            uint32_t q_count);
size_t uvcci_leaf_abort(uint8_t *out, const uint8_t sid[32], uint32_t step, uint16_t reason);
size_t uvcci_leaf_step_cancelled(uint8_t *out, const uint8_t sid[32], uint32_t step);
size_t uvcci_leaf_triple_consumed(uint8_t *out, const uint8_t sid[32], uint32_t op_id,
                                  uint64_t triple_id);
size_t uvcci_leaf_sks_coin(uint8_t *out, const uint8_t sid[32], uint32_t op_id,
                           const uint8_t seed[32]);
/* ok: 1 or 0; or OVERRIDDEN, with op_id 0: the step runs although a check failed in it before. Each
 * party has that leaf by itself. */
enum { UVCCI_SKS_OVERRIDDEN = 2 };
size_t uvcci_leaf_sks_verdict(uint8_t *out, const uint8_t sid[32], uint32_t op_id, uint8_t ok);
#endif
