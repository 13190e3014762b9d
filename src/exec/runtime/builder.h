/* SPDX-License-Identifier: Apache-2.0 */
/* builder.h - what ops and deals are made of: the messages of a round with their spans, leaves, and
 * the job of one turn in the making: tasks, blocks, digests. The files of ops/ build the turns of
 * their ops with it; instance.c runs them, dealing.c deals. Whatever cannot be had for want of
 * memory sets `failed`; later calls do nothing then. */
#ifndef UVCCI_BUILDER_H
#define UVCCI_BUILDER_H

#include "exec/runtime/core.h"
#include <assert.h>

enum {
    UVCCI_ROLE_HEAD = 1,
    UVCCI_ROLE_TAIL = 2,
    UVCCI_ROLE_OTHER = 4,
    UVCCI_ROLE_EDGE = 3,
    UVCCI_ROLE_ALL = 7
};

enum { UVCCI_KEY_STREAM_BYTES = 24 }; /* a stream of keys, in the list that sorts them */
enum { UVCCI_HASHES_FIRST = 16 };     /* room of a list at first; then it doubles */

/* A list of hash items that becomes a task. */
typedef struct uvcci_hash_list {
    uvcc_hash_item *items;
    uint32_t count, cap;
} uvcci_hash_list;

typedef struct uvcci_builder {
    uvcc_session *s;
    uvcci_instance *r;
    uint32_t task_cap;
    uvcci_hash_list hashes;
    bool failed;
} uvcci_builder;

static inline uvcci_role uvcci_role_at(const uvcc_session *s, const uvcci_instance *r,
                                       uint32_t block) {
    assert(block < r->plan->edge_blocks);
    return uvcci_role_of(s->party, r->ids.edge[block]);
}
static inline size_t uvcci_at_block(const uvcc_block *k) {
    return (size_t)k->block * UVCC_BLOCK_ELEMS;
}

/* Messages of a round with their spans. 0, UVCC_ERR_AGAIN (no room in a link, nothing kept) or
 * UVCC_ERR_NOMEM. */
int uvcci_batch_open(uvcc_session *s, uvcci_instance *r, const uvcci_plan_round *round,
                     uvcci_bump *bump, uvcci_batch_out *out);
void uvcci_batch_drop(uvcc_session *s, uvcci_batch_out *out);
/* A pending leaf on a list, in bump memory; NULL without memory. */
uvcci_pending_leaf *uvcci_leaf_later(uvcci_bump *bump, uvcci_pending_leaf **list, uint8_t type);
void uvcci_leaves_write(uvcc_session *s, uvcci_instance *r, uvcci_pending_leaf *list);

uvcc_task *uvcci_add_task(uvcci_builder *b, uint16_t kind, uint16_t call);
/* A block task over the blocks, of a vector of `elems`, in which this party has one of the roles;
 * NULL and *count 0 if there is none (or memory ran out). The caller sets the pointers of blocks[0
 * .. count); the task is the last one added. */
uvcc_block *uvcci_add_blocks(uvcci_builder *b, uint16_t kind, uint16_t call, unsigned roles,
                             uint64_t elems, uint32_t *count);
/* The same without the blocks before block `first`. */
uvcc_block *uvcci_add_blocks_from(uvcci_builder *b, uint16_t kind, uint16_t call, unsigned roles,
                                  uint32_t first, uint64_t elems, uint32_t *count);

/* Digests are computed by tasks added by uvcci_end_hashes() (or earlier): after the tasks that were
 * added before the call that asked for them. */
uvcc_hash_item *uvcci_add_hash(uvcci_builder *b);
void uvcci_end_hashes(uvcci_builder *b);
/* Mode and label of a commitment to a component; its key is uvcci_commit_key(). */
void uvcci_begin_commit(uvcc_hash_item *it);
uvcci_pending_leaf *uvcci_add_leaf(uvcci_builder *b, uint8_t type);
/* D of every payload that this turn sends. */
void uvcci_hash_payloads(uvcci_builder *b);
/* OPEN_DONE of every block of a vector that was opened to this edge. */
void uvcci_hash_opened(uvcci_builder *b, uint8_t id, uint8_t round, uint64_t elems,
                       const uint8_t *data, size_t block_stride, unsigned bits);
/* The key of the hash of this party's component c (0: lo, 1: hi), which the other holder has too.
 */
void uvcci_commit_key(const uvcci_instance *r, unsigned c, uint16_t call, uint32_t block,
                      uint8_t key[32]);
/* COMPONENT_COMMIT of both components and LIFT_DONE, per block of a lifted vector. */
void uvcci_hash_lifted(uvcci_builder *b, uint8_t id, uint64_t elems, const uvcc_shares *out);

uvcc_shares *uvcci_shares_of(uvcc_session *s, uint32_t tensor);
/* The part of a tensor that is the instance's: of an op that is not cut, the whole. */
uvcc_shares uvcci_part_of(const uvcci_builder *b, uint32_t tensor);
/* Memory of a tensor's buffer, if it has none yet; an additive one has no hi. */
bool uvcci_ensure_buffer(uvcc_session *s, uint32_t tensor);
/* A round of keys, and the blocks of all of them. */
const uvcci_plan_round *uvcci_keys_round(const uvcci_instance *r, unsigned group);
uint32_t uvcci_keys_blocks(const uvcci_instance *r);
/* Offsets, from `base`, of this op's key streams from `dealer` to `to`, sorted by fss id, into
 * at[round of keys][block] (others are left alone). Returns their total, or SIZE_MAX without
 * memory. */
size_t uvcci_key_offsets(const uvcci_instance *r, uint8_t dealer, uint8_t to, uvcci_bump *bump,
                         size_t base, size_t **at);
/* at[round of keys][block], all SIZE_MAX; NULL without memory. */
size_t **uvcci_key_table(const uvcci_instance *r, uvcci_bump *bump);
/* Gathers the key streams out of their messages into r->keys, and KEYS_DONE per dealer, unless that
 * was done ahead. */
bool uvcci_build_keys(uvcci_builder *b);
/* The same ahead of the turn, as a job of its own whose tasks are in the instance's gather_bump.
 * keys: TENSOR memory that they fit into, the instance's from now on. False: no memory. */
bool uvcci_gather_keys(uvcc_session *s, uvcci_instance *r, uint8_t *keys, size_t bytes,
                       uvcc_task **tasks, uint32_t *count);
/* This party's key stream of a block. */
static inline const uint8_t *uvcci_key_of(const uvcci_instance *r, unsigned round, uint32_t block) {
    assert(round < r->plan->key_count);
    return r->key_at[round][block] == SIZE_MAX ? NULL : r->keys + r->key_at[round][block];
}
/* Where round `round`'s message has the block's bytes of a vector. */
static inline const uint8_t *uvcci_rx_at(const uvcci_instance *r, unsigned round, unsigned vec,
                                         unsigned slot, uint32_t block) {
    assert(round < r->plan->round_count && vec < r->plan->rounds[round].vec_count && slot < 2);
    const uint8_t **at = r->rounds[round].vec[vec].at[slot];
    return at != NULL ? at[block] : NULL;
}

/* Whether the present turn is the one after the last round. */
static inline bool uvcci_finishes(const uvcci_instance *r) {
    return r->plan->turns != 0 && r->turn == r->plan->turns;
}

/* Of a vector that a role sends to two others, or gets from two: the buffer for the role that comes
 * first (HEAD, TAIL, OTHER), and for the other one. A vector with one buffer has the first. */
enum { UVCCI_FIRST = 0, UVCCI_SECOND = 1 };
/* Digests go to both peers. */
enum { UVCCI_NEXT = 0, UVCCI_PREV = 1 };

/* Where the present turn fills a round of the plan that it sends: the block's bytes of a vector;
 * a digest. */
uint8_t *uvcci_sent_at(const uvcci_instance *r, unsigned round, unsigned vec, unsigned slot,
                       uint32_t block);
uint8_t *uvcci_digest_at(const uvcci_instance *r, unsigned round, unsigned vec, unsigned side);
/* The digest that came. */
static inline const uint8_t *uvcci_digest_from(const uvcci_instance *r, unsigned round,
                                               unsigned vec, unsigned side) {
    return r->rounds[round].vec[vec].digest[side];
}

/* The task that was added last; there is one. */
uvcc_task *uvcci_last_task(const uvcci_builder *b);
/* Memory of all tensors that the op writes. */
bool uvcci_ensure_outputs(uvcci_builder *b);
/* The end of a turn's tasks: the digests of what it sends, and those asked for before. */
bool uvcci_end_turn(uvcci_builder *b);
/* Words of TENSOR memory, once: *p stays where it is there. */
bool uvcci_take_words(uvcc_session *s, uint64_t **p, uint64_t words);
void uvcci_give_words(uvcc_session *s, uint64_t **p, uint64_t words);

#endif
