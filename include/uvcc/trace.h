/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/trace.h - what a session tells of the ops that it runs, as they run: for timelines and for
 * measuring what waits on what. */
#ifndef UVCC_TRACE_H
#define UVCC_TRACE_H

#include <uvcc/program.h>
#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a tracer hears of an op. BEGIN, then for each of its turns JOB_OUT and JOB_DONE (if there
 * is anything to compute) and SENT (if it sends), between turns WAIT and RESUME, then DONE. Keys of
 * an op may be dealt before it begins (JOB_OUT, JOB_DONE, SENT), those that came for it gathered,
 * and messages of peers hashed while it waits. A large op is cut: each of its segments has all of
 * these (docs/program.md). */
typedef enum uvcc_trace_kind {
    UVCC_TRACE_BEGIN = 1,    /**< its prerequisites are met, its first turn starts */
    UVCC_TRACE_JOB_OUT = 2,  /**< uvcc_session_poll_job handed out a job of it */
    UVCC_TRACE_JOB_DONE = 3, /**< the job's completion came */
    UVCC_TRACE_SENT = 4,     /**< messages of it went to the links: `bytes` */
    UVCC_TRACE_WAIT = 5,     /**< `turn` is done; the next one needs messages of the peers */
    UVCC_TRACE_RESUME = 6,   /**< they are here: `turn` starts */
    UVCC_TRACE_DONE = 7,
} uvcc_trace_kind;

/** What a job or a message is for. */
typedef enum uvcc_trace_work {
    UVCC_TRACE_TURN = 0, /**< a turn of the op: what it does between two rounds of communication */
    UVCC_TRACE_KEYS = 1, /**< its keys, dealt ahead; SENT also: C of its triple */
    UVCC_TRACE_HASH = 2, /**< the hash of a message that came for it; jobs only */
    UVCC_TRACE_GATHER = 3, /**< keys that came for it, copied to where its turns read them before
                                they do (limits.keys_gathered_bytes); jobs only */
} uvcc_trace_work;

typedef struct uvcc_op_trace {
    uvcc_trace_kind kind;
    uint32_t step, entry;
    uint32_t op;              /**< index as in uvcc_program_op_at */
    const uvcc_op_desc *desc; /**< of the program: opcode, name, phase, mb, k */
    uint8_t turn;             /**< of the op, from 0 */
    uint8_t work;             /**< uvcc_trace_work: JOB_OUT, JOB_DONE, SENT */
    uint64_t job;             /**< JOB_OUT, JOB_DONE: the job's id */
    uint64_t bytes;           /**< SENT: of payload, to both peers */
    uint64_t now;             /**< the host's time, as the session last heard it */
    uint32_t segment; /**< of a large op, whose segments run like ops of their own; else 0 */
} uvcc_op_trace;

/** Tracer hook: hears what runs and waits in a session, and when. All of it is public: it follows
 * from the program and the arrival of messages. Without one nothing is worked out. */
typedef struct uvcc_tracer {
    void (*op)(void *user, const uvcc_op_trace *t); /**< NULL: none; must not call the library */
    void *user;
} uvcc_tracer;

#ifdef __cplusplus
}
#endif
#endif
