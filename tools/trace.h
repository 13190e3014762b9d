/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - what sessions and their executors did: a trace for Perfetto, and what each kind of op
 * took. Both come from the tracer of <uvcc/session.h> and the job hook of <uvcc/compute.h>. */
#ifndef UVCC_TOOLS_TRACE_H
#define UVCC_TOOLS_TRACE_H

#include <jansson.h>
#include <stdio.h>
#include <uvcc/compute.h>
#include <uvcc/session.h>

#include "tally.h"

typedef struct trace trace;

/* `path` of --trace, or NULL: only the profile is kept. Sessions on `workers` run `program`, which
 * outlives the trace. NULL after reporting, with the exit status in *status. */
trace *trace_new(const char *path, const uvcc_program *program, uint32_t workers, int *status);
/* The hooks of worker w < workers, whose process in the trace is called `name`. Sessions may use
 * other programs with trace_program(). */
void trace_hook(trace *t, uint32_t w, const char *name, uvcc_config *session,
                uvcc_cpu_config *executor);
void trace_program(trace *t, uint32_t w, const uvcc_program *program);
/* The worker's session and executor are gone: what they had begun is forgotten, others may follow.
 */
void trace_forget(trace *t, uint32_t w);
/* What was sent beside what ops sent, for the profile: bytes by all workers. */
void trace_other_bytes(trace *t, uint64_t online, uint64_t preprocessing);

/* How the profile groups ops, such as by layer; see tally.h. */
void trace_name_parts(trace *t, tally_section name, void *user);

/* Tables over all workers: a row per kind of op, per part of the work of a session (overlap.h), per
 * part of the program, per entry; bytes beside what the formula says. Programs must be there still.
 * An exit status after reporting. */
int trace_print(trace *t, FILE *to);
/* The same as lists, "ops", "layers" and "entries", and an object "overlap"; NULL: no memory. */
json_t *trace_json(trace *t);
/* No session and no executor works any more: the file gets its name. An exit status. */
int trace_finish(trace *t, FILE *to);
/* NULL is allowed. */
void trace_free(trace *t);

#endif
