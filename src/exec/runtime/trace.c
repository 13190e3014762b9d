/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - what the host's tracer hears (session.h): a description of public things, made only if
 * somebody listens. */
#include "exec/runtime/trace.h"
#include <assert.h>

static bool listens(const uvcc_session *s) {
    return s->cfg.trace.op != NULL;
}

static uvcc_op_trace of_instance(const uvcc_session *s, const uvcci_instance *r,
                                 uvcc_trace_kind kind) {
    assert(r->op == &r->step->entry->ops[r->index]);
    return (uvcc_op_trace){.kind = kind,
                           .step = r->step->number,
                           .entry = r->step->entry_index,
                           .op = r->index,
                           .segment = r->segment,
                           .desc = &r->op->desc,
                           .turn = r->turn,
                           .now = s->host_now};
}

static void tell(const uvcc_session *s, const uvcc_op_trace *t) {
    s->cfg.trace.op(s->cfg.trace.user, t);
}

void uvcci_trace_op(const uvcc_session *s, const uvcci_instance *r, uvcc_trace_kind kind) {
    if (!listens(s))
        return;
    const uvcc_op_trace t = of_instance(s, r, kind);
    tell(s, &t);
}

void uvcci_trace_sent(const uvcc_session *s, const uvcci_instance *r, uvcc_trace_work work,
                      uint64_t bytes) {
    if (!listens(s) || bytes == 0)
        return;
    uvcc_op_trace t = of_instance(s, r, UVCC_TRACE_SENT);
    t.work = (uint8_t)work;
    t.bytes = bytes;
    tell(s, &t);
}

void uvcci_trace_job(const uvcc_session *s, uvcc_trace_kind kind, uint64_t job,
                     uvcci_job_owner owner, const void *who) {
    static const uint8_t works[] = {[UVCCI_JOB_OP] = 1 + UVCC_TRACE_TURN,
                                    [UVCCI_JOB_DEAL] = 1 + UVCC_TRACE_KEYS,
                                    [UVCCI_JOB_RX] = 1 + UVCC_TRACE_HASH,
                                    [UVCCI_JOB_GATHER] = 1 + UVCC_TRACE_GATHER};
    if (!listens(s) || owner >= sizeof works || works[owner] == 0)
        return;
    assert(who != NULL);
    const uvcci_instance *r = owner == UVCCI_JOB_RX ? ((const uvcci_rx *)who)->instance : who;
    uvcc_op_trace t = of_instance(s, r, kind);
    t.work = (uint8_t)(works[owner] - 1);
    t.job = job;
    tell(s, &t);
}
