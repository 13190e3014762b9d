/* SPDX-License-Identifier: Apache-2.0 */
/* tracefile.h - traces for Perfetto and chrome://tracing (the JSON of Chrome's trace events):
 * processes with named tracks of slices. */
#ifndef UVCC_TOOLS_TRACEFILE_H
#define UVCC_TOOLS_TRACEFILE_H

#include <stdint.h>
#include <stdio.h>

typedef struct tracefile tracefile;
/* `path` of --trace. NULL after reporting the error (report.h), with its exit status in *status. */
tracefile *tracefile_open(const char *path, int *status);
/* Names a process, or a track of one; tracks are shown in the order of their numbers. */
void tracefile_process(tracefile *t, uint32_t process, const char *name);
void tracefile_track(tracefile *t, uint32_t process, uint32_t track, const char *name);
/* A slice of a track. Slices of one track lie beside or inside each other. `args` is the inside of
 * a JSON object, such as "\"mb\": 1", or "". */
void tracefile_slice(tracefile *t, uint32_t process, uint32_t track, const char *name,
                     uint64_t start_ns, uint64_t end_ns, const char *args);
/* The file is whole and gets its name; an exit status. */
int tracefile_finish(tracefile *t, FILE *to);
/* Takes away what was not finished; NULL is allowed. */
void tracefile_close(tracefile *t);

/* Tracks for things that overlap: each gets the first one that is free. */
typedef struct trace_lanes {
    uint64_t *busy_until; /* by lane; UINT64_MAX: until it is given back */
    uint32_t count, cap;
} trace_lanes;
/* The lane of a thing from start_ns on, free again after end_ns (or trace_lanes_give); UINT32_MAX:
 * no memory. It is `count - 1` afterwards exactly when it is a new one. */
uint32_t trace_lanes_take(trace_lanes *l, uint64_t start_ns, uint64_t end_ns);
void trace_lanes_give(trace_lanes *l, uint32_t lane, uint64_t end_ns);
void trace_lanes_free(trace_lanes *l);

#endif
