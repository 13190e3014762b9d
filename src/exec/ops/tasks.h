/* SPDX-License-Identifier: Apache-2.0 */
/* tasks.h - tasks that several families add, with their operands by name: what <uvcc/compute.h>
 * calls in[1] or wire_out[0] has the name of its part in the protocol here. */
#ifndef UVCCI_TASKS_H
#define UVCCI_TASKS_H

#include "exec/runtime/builder.h"

/* Blocks of the op's own vector. */
static inline uvcc_block *uvcci_add_op_blocks(uvcci_builder *b, uint16_t kind, uint16_t call,
                                              unsigned roles, uint32_t *count) {
    return uvcci_add_blocks(b, kind, call, roles, b->r->plan->elems, count);
}

/* What the host gave of an input, from the segment's first element on; NULL: not yet. */
static inline const uint64_t *uvcci_staged(const uvcci_instance *r) {
    assert(r->op->io < r->step->entry->input_count);
    const uint64_t *all = r->step->input[r->op->io];
    return all != NULL ? all + r->first : NULL;
}
/* An input's owner waits for its host. */
static inline bool uvcci_input_ready(const uvcc_session *s, const uvcci_instance *r) {
    return r->turn != 0 || uvcci_role_at(s, r, 0) != UVCCI_HEAD || uvcci_staged(r) != NULL;
}

/* Bytes between the data of two vectors of one message: uvcc_task.u.vec.gap. */
uint8_t uvcci_piece_gap(void);

/* MAP over rows x cols; y NULL: there is none. NULL: no memory. */
uvcc_task *uvcci_task_map(uvcci_builder *b, uint8_t op, uint32_t rows, uint32_t cols,
                          const uvcc_shares *x, const uvcc_shares *y, const uvcc_shares *out);
/* The same of single components. */
static inline uvcc_task *uvcci_task_map_words(uvcci_builder *b, uint8_t op, uint32_t rows,
                                              uint32_t cols, uint64_t *x, uint64_t *y,
                                              uint64_t *out) {
    return uvcci_task_map(b, op, rows, cols, &(uvcc_shares){.lo = x}, &(uvcc_shares){.lo = y},
                          &(uvcc_shares){.lo = out});
}
/* COPY of `count` items, which must stay. False: no memory. */
bool uvcci_task_copy(uvcci_builder *b, uvcc_copy_item *items, uint32_t count);

/* PACK: a vector of words as a round's one vector. */
void uvcci_task_pack(uvcci_builder *b, unsigned round, const uint64_t *x);
/* UNPACK: what came in a round's one vector, as words. */
void uvcci_task_unpack(uvcci_builder *b, uint16_t call, unsigned round, uint64_t *out);
/* OPEN_ALL_FINISH: own components and the one that came make the value; `opened` may be own->lo. */
void uvcci_task_open_all_finish(uvcci_builder *b, uint16_t call, unsigned round,
                                const uvcc_shares *own, uint64_t *opened);

/* Digests of a round that opens a vector to all: of a component that two hold, as party `src` sends
 * it; and, when it came, of the one that this party lacks, `c`, as its second holder (the next
 * party) sent it, with the OPEN_DONE of `opened`. False: no memory. */
bool uvcci_hash_held(uvcci_builder *b, unsigned round, uint8_t src, const uint64_t *data,
                     uint8_t *out);
bool uvcci_hash_opened_to_all(uvcci_builder *b, unsigned round, const uint64_t *c,
                              const uint64_t *opened);
/* The same where the vector is opened to this party only: the digest came from the previous party,
 * and that of OPEN_DONE has a key that no other party has. */
bool uvcci_hash_opened_to_one(uvcci_builder *b, unsigned round, const uint64_t *c,
                              const uint64_t *opened);

#endif
