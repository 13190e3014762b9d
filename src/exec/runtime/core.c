/* SPDX-License-Identifier: Apache-2.0 */
/* core.c - what everything inside a session needs of it: its log, its events, how it ends, how
 * messages and leaves leave it. Nothing here knows what an op or a step is for. */
#include "exec/runtime/core.h"

#include "proto/bytes.h"
#include "proto/frame.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- log, events ---- */

void uvcci_log(const uvcc_session *s, uvcc_log_level level, const char *format, ...) {
    if (s->cfg.log.write == NULL)
        return;
    char line[256];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    s->cfg.log.write(s->cfg.log.user, level, line);
}

int uvcci_refuse(uvcc_session *s, int rc, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(s->detail, sizeof s->detail, format, ap);
    va_end(ap);
    /* AGAIN is no mistake, and may be asked for in every turn. */
    uvcci_log(s, rc == UVCC_ERR_AGAIN ? UVCC_LOG_DEBUG : UVCC_LOG_WARN, "party %u: %s", s->party,
              s->detail);
    return rc;
}

void uvcci_event_push(uvcc_session *s, const uvcc_event *e) {
    assert(s->event_count < s->event_cap);
    s->events[(s->event_head + s->event_count++) % s->event_cap] = *e;
}

bool uvcci_failed(const uvcc_session *s) {
    return s->state == UVCCI_SESSION_ABORTED || s->state == UVCCI_SESSION_CLOSED;
}

/* ---- the end of a session ---- */

/* NULL: there is no such reason. */
static const char *reason_text(uint16_t reason) {
    switch (reason) {
#define UVCC_ABORT(name, code, text)                                                               \
    case code:                                                                                     \
        return text;
#include <uvcc/aborts.def>
#include <uvcc/frame.h>
#include <uvcc/link.h>
#undef UVCC_ABORT
    default:
        return NULL;
    }
}

const char *uvcc_abort_text(uint16_t reason) {
    const char *text = reason_text(reason);
    return text != NULL ? text : "unknown reason";
}

bool uvcci_abort_is_reason(uint16_t reason) {
    return reason_text(reason) != NULL;
}

void uvcci_send_bye(uvcc_session *s, uint16_t reason) {
    uint8_t bytes[UVCCI_BYE_BYTES];
    int n = uvcci_bye_encode(reason, bytes, sizeof bytes);
    assert(n == (int)UVCCI_BYE_BYTES);
    (void)n;
    for (uint8_t p = 0; p < 3; p++) {
        uvcc_link_msg *m;
        if (p == s->party ||
            uvcc_link_msg_new(s->peer[p].link, UVCC_FRAME_BYE, sizeof bytes, &m) != 0)
            continue; /* the peer will see the silence */
        memcpy(uvcc_link_msg_data(m), bytes, sizeof bytes);
        uvcci_send(s, p, m, UVCC_FRAME_BYE, sizeof bytes, s->step, 0, 0);
    }
}

static void abort_with(uvcc_session *s, uint32_t at, uint8_t peer, uint16_t reason,
                       const char *text) {
    assert(reason != UVCC_ABORT_NONE && text != NULL);
    if (uvcci_failed(s))
        return;
    bool linked = s->state == UVCCI_SESSION_READY || s->state == UVCCI_SESSION_CLOSING;
    uvcci_step *st = &s->ctx[s->step & 1];
    if (st->active && st->running) {
        uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
        s->state = UVCCI_SESSION_ABORTED; /* a full transcript cannot abort twice */
        uvcci_leaf(s, st, UVCCI_ROW_ABORT, leaf,
                   uvcci_leaf_abort(leaf, s->sid_sub, st->number, reason));
    }
    s->state = UVCCI_SESSION_ABORTED;
    s->abort_reason = reason;
    uvcci_jobs_cancel_queued(&s->jobs);
    if (linked)
        uvcci_send_bye(s, reason);
    uvcci_log(s, UVCC_LOG_ERROR, "party %u: aborted in step %u: %s", s->party, s->step, text);
    uvcci_event_push(s, &(uvcc_event){.kind = UVCC_EVENT_ABORTED,
                                      .peer = peer,
                                      .reason = reason,
                                      .run = s->run,
                                      .step = at,
                                      .text = text});
}

void uvcci_abort_at(uvcc_session *s, uint32_t at, uint16_t reason, const char *text) {
    abort_with(s, at, 0, reason, text);
}

void uvcci_abort(uvcc_session *s, uint16_t reason, const char *text) {
    abort_with(s, s->step, 0, reason, text);
}

void uvcci_abort_by(uvcc_session *s, uint8_t peer, uint16_t reason, const char *text) {
    abort_with(s, s->step, peer, reason, text);
}

/* ---- messages, steps, instances ---- */

void uvcci_send(uvcc_session *s, uint8_t dst, uvcc_link_msg *msg, uint8_t kind, uint32_t len,
                uint32_t step, uint32_t op_id, uint64_t order) {
    uint32_t ids[UVCC_MSG_MAX_CHUNKS];
    const uint16_t chunks = uvcci_chunks_of(len);
    assert(dst < UVCC_PARTIES && dst != s->party && chunks <= UVCC_MSG_MAX_CHUNKS);
    for (uint16_t i = 0; i < chunks; i++)
        ids[i] = uvcci_msg_id(kind, s->sid_sub, op_id, s->party, dst, i, chunks);
    if (uvcc_link_send(s->peer[dst].link, msg, step, op_id, ids, order, s->now) != 0) {
        uvcc_link_msg_drop(s->peer[dst].link, msg);
        uvcci_abort(s, UVCC_ABORT_MEMORY, "a link could not take a message");
    }
}

void uvcci_send_small(uvcc_session *s, uint8_t dst, uint8_t kind, const uint8_t *bytes,
                      uint32_t len) {
    uvcc_link_msg *m;
    assert(len <= UVCC_CHUNK_BYTES);
    if (uvcc_link_msg_new(s->peer[dst].link, kind, len, &m) != 0) {
        uvcci_abort(s, UVCC_ABORT_MEMORY, "no room for a STEP or AUDIT message");
        return;
    }
    memcpy(uvcc_link_msg_data(m), bytes, len);
    uvcci_send(s, dst, m, kind, len, s->step, 0, 0);
}

uvcci_step *uvcci_step_of(uvcc_session *s, uint32_t step) {
    uvcci_step *st = &s->ctx[step & 1];
    assert(!st->active || (st->number & 1) == (step & 1));
    return st->active && st->number == step ? st : NULL;
}

void uvcci_leaf(uvcc_session *s, uvcci_step *st, uint32_t row, const uint8_t *leaf, size_t len) {
    assert(len != 0 && len <= UVCCI_LEAF_MAX_BYTES);
    if (s->cfg.checks.audit_off || st->transcript == NULL)
        return;
    st->leaves++;
    if (uvcci_transcript_add(st->transcript, row, leaf, len) != 0)
        uvcci_abort(s, UVCC_ABORT_MEMORY, "the transcript is full (leaves_max) or out of memory");
}

uvcci_instance *uvcci_instance_of_row(const uvcci_step *st, const uvcci_oprow *row, uint16_t *b) {
    assert(row->ordinal < st->entry->op_count);
    const uint32_t op = st->entry->by_ordinal[row->ordinal];
    const uvcci_plan *plan = st->plans[op];
    const uint32_t last = plan->segments.count - 1, nth = row->b / plan->batches;
    const uint32_t segment = nth < last ? nth : last;
    *b = (uint16_t)(row->b - segment * plan->batches);
    return &st->instances[st->ops[op].first + segment];
}

void uvcci_op_wake(uvcci_step *st, uint32_t op) {
    const uvcci_op_run *run = &st->ops[op];
    for (uint32_t i = 0; i < st->plans[op]->segments.count; i++)
        uvcci_instance_wake(&st->instances[run->first + i]);
}

void uvcci_instance_wake(uvcci_instance *r) {
    assert(r->rank < r->step->instance_count);
    const uint32_t word = r->rank / 64;
    r->step->ready[word] |= 1ull << (r->rank % 64);
    r->step->ready_word[word / 64] |= 1ull << (word % 64);
}
