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

/* A list of hash items that becomes tasks. */
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

static inline bool uvcci_audit_on(const uvcc_session *s) {
    return !s->cfg.checks.audit_off;
}
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

/* Digests are computed by tasks added by uvcci_end_hashes() (or earlier): after the tasks that were
 * added before the call that asked for them. */
uvcc_hash_item *uvcci_add_hash(uvcci_builder *b);
void uvcci_end_hashes(uvcci_builder *b);
/* D of the bytes under the leaf salt shared with `peer`. */
void uvcci_hash_salted(uvcci_builder *b, uint8_t peer, const void *data, size_t len, uint8_t *out);
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
/* Gathers the key streams out of their messages into r->keys, and KEYS_DONE per dealer. */
bool uvcci_build_keys(uvcci_builder *b);
/* This party's key stream of a block. */
static inline const uint8_t *uvcci_key_of(const uvcci_instance *r, unsigned round, uint32_t block) {
    assert(round < r->plan->key_count);
    return r->key_at[round][block] == SIZE_MAX ? NULL : r->keys + r->key_at[round][block];
}
/* Where round `round`'s message has the block's bytes of a vector. */
static inline const uint8_t *uvcci_rx_at(const uvcci_instance *r, unsigned round, unsigned vec,
                                         unsigned slot, uint32_t block) {
    assert(round < r->plan->round_count && vec < UVCCI_PLAN_VECS && slot < 2);
    const uint8_t **at = r->rounds[round].at[vec][slot];
    return at != NULL ? at[block] : NULL;
}

/* Whether the present turn is the one after the last round. */
static inline bool uvcci_finishes(const uvcci_instance *r) {
    return r->plan->turns != 0 && r->turn == r->plan->turns;
}

/* ---- the present turn of an op; false: no memory. What instances hold goes with _free ---- */

/* op_gates.c */
bool uvcci_gate_build(uvcci_builder *b);
void uvcci_gate_free(uvcc_session *s, uvcci_instance *r);
/* op_functions.c */
bool uvcci_function_build(uvcci_builder *b);
void uvcci_function_free(uvcc_session *s, uvcci_instance *r);
/* Tasks of a deal: `tasks` has room for uvcci_function_deal_tasks(). keys[k]: where the streams for
 * HEAD (0) and TAIL (1) go, for all blocks of all rounds of keys; NULL where this party deals none.
 */
uint32_t uvcci_function_deal_tasks(const uvcci_instance *r);
int uvcci_function_deal(uvcc_session *s, uvcci_instance *r, uint8_t ***keys, uvcc_task *tasks,
                        uint32_t *count);
/* What a product op computes, of any shares of its operands: 3-additive, into z. */
bool uvcci_build_product(uvcci_builder *b, const uvcc_shares *x, const uvcc_shares *y, uint64_t *z);
/* The opening of a replicated vector to the edges, for a gate. */
bool uvcci_build_open2(uvcci_builder *b, const uvcc_shares *in);
/* Digests of a round that opens a vector to all: of a component that two hold, as party `src` sends
 * it; and, when it came, of the one that this party lacks, `c`, as its second holder (the next
 * party) sent it, with the OPEN_DONE of `opened`. */
bool uvcci_hash_held(uvcci_builder *b, unsigned round, uint8_t src, const uint64_t *data,
                     uint8_t *out);
bool uvcci_hash_opened_to_all(uvcci_builder *b, unsigned round, const uint64_t *c,
                              const uint64_t *opened);
/* op_beaver.c */
bool uvcci_beaver_build(uvcci_builder *b);
/* op_circuits.c */
bool uvcci_circuit_build(uvcci_builder *b);
void uvcci_circuit_free(uvcc_session *s, uvcci_instance *r);
/* op_collectives.c */
bool uvcci_collective_build(uvcci_builder *b);

#endif
