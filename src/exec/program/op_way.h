/* SPDX-License-Identifier: Apache-2.0 */
/* op_way.h - how the instances of an op run in a session, turn by turn: one table for each way that
 * there is. A class names one; a plan may choose another (a product on a Beaver triple, a
 * comparison without keys). session/ runs instances by these tables and knows no op by name.
 *
 * What an instance needs between its turns is a struct of its family's: `state` of the instance.
 * With state_bytes it is zeroed memory of the instance, from its turn 0 on until it is done; a way
 * that needs it for longer takes it of the step, in `open` or in a turn. */
#ifndef UVCCI_OP_WAY_H
#define UVCCI_OP_WAY_H

#include "exec/program/plan.h"

struct uvcc_session;
struct uvcci_step;
struct uvcci_instance;
struct uvcci_builder;
struct uvcci_deal;

/* All but build may be NULL: then there is nothing to do, or the usual is done. */
typedef struct uvcci_op_way {
    size_t state_bytes;

    /* ---- what it takes at most (session/bound.c) ---- */

    /* TENSOR memory of an instance beside its op's tensors, its keys and what is dealt, as the
     * arena rounds it; taken and given back between the op's start and its end, but with
     * tensors_stay any time while the step is there. NULL: none. */
    uint64_t (*tensor_bytes)(const struct uvcc_program *p, const struct uvcci_op *op,
                             const uvcci_plan *plan);
    bool tensors_stay;
    size_t step_bytes; /* that a turn takes of the step */
    /* Words that the deal of its keys works on. */
    uint64_t (*deal_words)(const uvcci_plan *plan);

    /* ---- what messages cost (plan.c, cost.c) ---- */

    /* Bytes of the key stream of one block of `count` elements; of a way with rounds of keys. */
    uint32_t (*key_bytes)(const uvcci_plan *plan, const uvcci_plan_round *r, uint32_t count,
                          uvcc_role role);
    bool head_begins_tail; /* HEAD's key stream of a block is the beginning of TAIL's */
    /* Words that a block's message has, and the words of a piece of it, where these are not the
     * block's elements: such a round has one vector. */
    uint32_t (*message_words)(const uvcci_plan *plan, const uvcci_plan_round *r, uvcc_role from,
                              uvcc_role to, uint32_t count);
    uint32_t (*piece_words)(const uvcci_plan *plan, const uvcci_plan_round *r, uint32_t count);

    /* ---- before it starts ---- */

    /* The step opens. False: no memory. */
    bool (*open)(struct uvcci_step *st, struct uvcci_instance *r);
    /* Its op id is known. */
    void (*number)(struct uvcc_session *s, struct uvcci_instance *r);

    /* ---- beside its turns ---- */

    /* A turn that can be built while the op stands between two of its own, and its tile;
     * UVCCI_TURN_NONE: none can now; UVCCI_TURN_DONE: none will any more. Its rounds have come. */
    uint8_t (*beside)(const struct uvcc_session *s, const struct uvcci_instance *r, uint32_t *tile);

    /* ---- a turn, in this order ---- */

    /* Whether it may be built: what it waits for beside rounds, memory and links is there. */
    bool (*ready)(const struct uvcc_session *s, const struct uvcci_instance *r);
    /* There is nothing to do: the op is done without a message. */
    bool (*skips)(const struct uvcci_instance *r);
    /* What came for the turn. False: it is wrong, and the session was aborted. */
    bool (*take)(struct uvcc_session *s, struct uvcci_instance *r);
    /* Its tasks, and what its messages hold. False: no memory. */
    bool (*build)(struct uvcci_builder *b);
    /* Its job is done, its messages are not out yet. False: the session was aborted. */
    bool (*computed)(struct uvcc_session *s, struct uvcci_instance *r);
    /* Its messages are out. */
    void (*sent)(struct uvcc_session *s, struct uvcci_instance *r);

    /* ---- its end ---- */

    /* Gives back the memory that the state holds; the state goes then, if it is the instance's. */
    void (*release)(struct uvcc_session *s, struct uvcci_instance *r);
    /* The op is done. */
    void (*done)(struct uvcc_session *s, struct uvcci_instance *r);
    /* The step goes, whatever state the instance is in: gives back the rest. */
    void (*free)(struct uvcc_session *s, struct uvcci_instance *r);

    /* ---- what peers send (receive.c) ---- */

    /* The host gave what the round would make: nobody sends it. */
    bool (*given)(const struct uvcci_instance *r, unsigned round);
    /* No honest peer sends it now. */
    bool (*refuses)(const struct uvcci_instance *r, unsigned round);

    /* ---- keys dealt ahead (dealing.c); of a way with rounds of keys ---- */

    uint32_t (*deal_tasks)(const struct uvcci_instance *r); /* at most */
    /* 0 or UVCC_ERR_NOMEM. */
    int (*deal)(struct uvcc_session *s, const struct uvcci_deal *d, uvcc_task *tasks,
                uint32_t *count);
} uvcci_op_way;

#endif
