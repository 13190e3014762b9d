/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/collective.h - the local plane: collectives among the workers of one party, who trust one
 * another. Shares move in the clear; nothing of it is a frame, and no other party takes part.
 *
 * A session hands out each collective as a job of its own with plane UVCC_PLANE_LOCAL and one task,
 * UVCC_TASK_COLLECTIVE. The host submits it here under the worker's local rank, (r S + s) T + t,
 * and gives the completion to the session. The job's memory stays the collective's until then.
 *
 * Operations are matched by what they are, not by when they come: SEND and RECV by (step, phase,
 * mb) between neighbours of a PP group, the others by (step, phase, mb, k) within their group.
 * Results do not depend on the order of calls.
 *
 * Two parts: uvcc_collective, the implementation within one process (for all workers of a party),
 * and uvcc_collective_order, which makes all ranks of a group issue their operations in one order,
 * for transports that need that (NCCL, MPI communicators).
 */
#ifndef UVCC_COLLECTIVE_H
#define UVCC_COLLECTIVE_H

#include <uvcc/compute.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- within one process ---- */

/** What carries operations out where their operands are not this thread's to touch: memory of
 * devices (<uvcc/nccl.h>). It gets the jobs of all members of an operation when the last one is
 * there, and none before. All needed, or none; called from the owner's thread. */
typedef struct uvcc_collective_elsewhere {
    /** Anything but 0 fails the plane. */
    int (*submit)(void *user, uint32_t local_rank, const uvcc_job *job);
    int (*poll)(void *user, uint32_t local_rank, uvcc_completion *out);
    /** Blocks until there may be something to poll. */
    void (*wait)(void *user);
    void *user;
} uvcc_collective_elsewhere;

typedef struct uvcc_collective_config {
    size_t size; /**< sizeof(uvcc_collective_config) */
    uvcc_allocator alloc;
    uint16_t replicas, stages, tp_ranks;
    uvcc_collective_elsewhere elsewhere; /**< empty: operands are memory of this process */
} uvcc_collective_config;

/** One per party. Belongs to one thread at a time: workers in threads of their own take turns, by a
 * lock of the host's. */
typedef struct uvcc_collective uvcc_collective;
UVCC_API int uvcc_collective_new(uvcc_collective **out,
                                 const uvcc_collective_config *cfg) UVCC_MUST_USE;
/** Nothing that was submitted is touched again. */
UVCC_API void uvcc_collective_free(uvcc_collective *c);
/** Takes a local job of the worker. It and its memory stay valid until its completion was polled.
 * When the last member's operation comes, it is carried out. If a member's disagrees (another
 * operation, other elements, another sharing), all members' fail: UVCC_ERR_JOB in their
 * completions. UVCC_ERR_USAGE: no such rank or neighbour, or no local job; UVCC_ERR_NOMEM. */
UVCC_API int uvcc_collective_submit(uvcc_collective *c, uint32_t local_rank, const uvcc_job *job);
/** 1 and the worker's next completion, 0 if there is none now. */
UVCC_API int uvcc_collective_poll(uvcc_collective *c, uint32_t local_rank, uvcc_completion *out);
/** A worker is gone (its session was aborted): what waits here and whatever comes later fails, for
 * all workers of the party. */
UVCC_API void uvcc_collective_fail(uvcc_collective *c);
/** Jobs of the worker whose completion was not polled yet. */
UVCC_API uint32_t uvcc_collective_pending(const uvcc_collective *c, uint32_t local_rank);
/** Jobs that `elsewhere` has: their completions come by themselves, without another worker. */
UVCC_API uint32_t uvcc_collective_running(const uvcc_collective *c);
/** Blocks until one of those may be done; returns at once if there are none. */
UVCC_API void uvcc_collective_wait(uvcc_collective *c);
/** Why the first operation failed, one static line; NULL if none did. */
UVCC_API const char *uvcc_collective_why(const uvcc_collective *c);

/* ---- one order for all ranks ---- */

/** What names an operation in its group, the same at all ranks; op, elems and additive are
 * compared. */
typedef struct uvcc_collective_tag {
    uint32_t step;
    uint8_t phase;
    uint16_t mb, k;
    uint8_t op;    /**< uvcc_collective_op */
    bool additive; /**< one component */
    uint64_t elems;
} uvcc_collective_tag;
/** The tag of a task. */
UVCC_API uvcc_collective_tag uvcc_collective_tag_of(const uvcc_task *t);

typedef enum uvcc_collective_action_kind {
    UVCC_COLLECTIVE_ISSUE = 1, /**< start the operation that was submitted under `id` */
    UVCC_COLLECTIVE_TOKEN = 2, /**< leader: send `tag` to every other rank, in the order of these */
} uvcc_collective_action_kind;
typedef struct uvcc_collective_action {
    uvcc_collective_action_kind kind;
    uint64_t id;
    uvcc_collective_tag tag;
} uvcc_collective_action;

/** The order of one group at one of its ranks, a state machine without I/O: rank 0 issues
 * operations as they become ready and sends a token for each; the others issue them in the order of
 * the tokens, each when its own inputs are ready too. Tokens must arrive whole and in order. */
typedef struct uvcc_collective_order uvcc_collective_order;
/** rank: index within the group. */
UVCC_API int uvcc_collective_order_new(uvcc_collective_order **out, const uvcc_allocator *al,
                                       uint32_t rank) UVCC_MUST_USE;
UVCC_API void uvcc_collective_order_free(uvcc_collective_order *o);
/** This rank's inputs of an operation are ready. UVCC_ERR_STATE: the same (step, phase, mb, k)
 * waits already; UVCC_ERR_MISMATCH: the leader's token says other elements, op or sharing (and
 * nothing is issued any more); UVCC_ERR_NOMEM. */
UVCC_API int uvcc_collective_order_submit(uvcc_collective_order *o, const uvcc_collective_tag *tag,
                                          uint64_t id);
/** A token from rank 0 came; errors as in submit, UVCC_ERR_USAGE at rank 0. */
UVCC_API int uvcc_collective_order_token(uvcc_collective_order *o, const uvcc_collective_tag *tag);
/** 1 and what to do next, else 0. */
UVCC_API int uvcc_collective_order_poll(uvcc_collective_order *o, uvcc_collective_action *out);

#ifdef __cplusplus
}
#endif
#endif
