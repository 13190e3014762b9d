/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - tells the host's tracer (uvcc/trace.h) what ops do; without a tracer nothing is worked
 * out. */
#ifndef UVCCI_TRACE_H
#define UVCCI_TRACE_H

#include "exec/runtime/core.h"

void uvcci_trace_op(const uvcc_session *s, const uvcci_instance *r, uvcc_trace_kind kind);
/* Messages of it went to the links: `bytes` of payload, told of if there are any. */
void uvcci_trace_sent(const uvcc_session *s, const uvcci_instance *r, uvcc_trace_work work,
                      uint64_t bytes);
/* A job was handed out, or its completion came. Jobs of no op are not told of. */
void uvcci_trace_job(const uvcc_session *s, uvcc_trace_kind kind, uint64_t job,
                     uvcci_job_owner owner, const void *who);

#endif
