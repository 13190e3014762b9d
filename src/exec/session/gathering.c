/* SPDX-License-Identifier: Apache-2.0 */
/* gathering.c - see gathering.h.
 *
 * An instance's keys are gathered once: by a job of their own as soon as all of them came, or by
 * the turn that reads them, if it is built before that. Which of the two changes when they are
 * copied, and nothing else: what turns read, messages and leaves are the same. Whoever gathers goes
 * through the instances in program order, so keys of a later one never take the room of an earlier
 * one's; and nothing waits for room here, since a turn whose keys found none gathers them itself.
 *
 * Room is taken from when the job is made until the turn that reads the keys is built: from then on
 * they are of what the window counts of an instance at work. The messages go back to the link when
 * the job is done, so the peers may send keys of later ops while the turn is far. */
#include "exec/session/gathering.h"

#include "exec/runtime/builder.h"
#include "exec/runtime/op_memory.h"
#include "exec/session/instance.h"

#include <assert.h>

static unsigned key_rounds_end(const uvcci_instance *r) {
    return (unsigned)r->plan->round_count + r->plan->key_count;
}

/* Keys come for it, and no turn or job has placed them yet. */
static bool is_due(const uvcci_instance *r) {
    uint64_t need = 0;
    for (unsigned i = r->plan->round_count; i < key_rounds_end(r); i++)
        need |= r->rounds[i].need[0] | r->rounds[i].need[1];
    return need != 0 && r->key_at == NULL && r->turn != UVCCI_TURN_DONE;
}

static bool came(const uvcci_instance *r) {
    for (unsigned i = r->plan->round_count; i < key_rounds_end(r); i++)
        if (!uvcci_round_came(r, i))
            return false;
    return true;
}

/* Its messages have the keys, and a little more. */
static size_t bytes_of(const uvcci_instance *r) {
    size_t bytes = 0;
    for (unsigned i = r->plan->round_count; i < key_rounds_end(r); i++)
        for (const uvcci_rx *m = r->rounds[i].held; m != NULL; m = m->next)
            bytes += m->len;
    return bytes;
}

/* The job that fills `keys`. */
static void start(uvcc_session *s, uvcci_instance *r, uint8_t *keys, size_t bytes) {
    uvcc_task *tasks;
    uint32_t count;
    if (!uvcci_gather_keys(s, r, keys, bytes, &tasks, &count)) {
        uvcci_abort(s, UVCC_ABORT_MEMORY, "no memory to gather keys");
        return;
    }
    assert(uvcci_bump_bytes(&r->gather_bump) <= uvcci_gather_memory(r->plan));
    r->gather_out = true;
    r->gathered = uvcci_arena_rounded(bytes);
    s->gathered += r->gathered;
    s->stats.keys_gathered_bytes += bytes;
    s->gathers_out++;
    uvcci_jobs_push(&s->jobs, tasks, count, UVCCI_JOB_GATHER, uvcci_job_rank(r), r);
}

/* Goes on in one step until room, jobs or keys run out. */
static bool gather_step(uvcc_session *s, uvcci_step *st) {
    const uint64_t room = s->cfg.limits.keys_gathered_bytes;
    bool any = false;
    for (; st->gather_next < st->instance_count; st->gather_next++) {
        uvcci_instance *r = &st->instances[st->gather_next];
        if (!is_due(r))
            continue;
        if (s->gathers_out == UVCCI_GATHERS_OUT || uvcci_jobs_full(&s->jobs) || !came(r))
            return any;
        const size_t bytes = bytes_of(r);
        const uint64_t takes = uvcci_arena_rounded(bytes);
        if (takes > room)
            continue; /* it will never have room */
        if (takes > room - s->gathered)
            return any;
        uint8_t *keys = uvcci_arena_take(&s->tensors, bytes);
        if (keys == NULL) { /* the rest of the step's turns gather their own */
            st->gather_next = st->instance_count;
            return any;
        }
        start(s, r, keys, bytes);
        any = true;
        if (uvcci_failed(s))
            return true;
    }
    return any;
}

bool uvcci_gather_advance(uvcc_session *s) {
    bool any = false;
    if (s->cfg.limits.keys_gathered_bytes == 0)
        return false;
    for (uint32_t k = 0; k < 2 && !uvcci_failed(s); k++) { /* the running step first */
        uvcci_step *st = uvcci_step_of(s, s->step + k);
        if (st == NULL || !st->agreed || st->halted)
            break;
        any |= gather_step(s, st);
        if (st->gather_next < st->instance_count)
            break;
    }
    return any;
}

/* Of a step that halts too: what this frees and notes goes with it, or stays right. */
void uvcci_gather_job_done(uvcc_session *s, uvcci_instance *r) {
    assert(r->gather_out && s->gathers_out != 0 && r->turn != UVCCI_TURN_DONE);
    r->gather_out = false;
    s->gathers_out--;
    if (uvcci_audit_on(s))
        uvcci_leaves_write(s, r, r->gather_leaves);
    r->gather_leaves = NULL;
    uvcci_bump_reset(&r->gather_bump);
    for (unsigned i = r->plan->round_count; i < key_rounds_end(r); i++)
        uvcci_round_release(s, r, i);
    uvcci_instance_wake(r);
}
