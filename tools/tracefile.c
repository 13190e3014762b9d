/* SPDX-License-Identifier: Apache-2.0 */
/* tracefile.c - see tracefile.h. Slices are written as they come ("X" events: the order in the file
 * is free), so a trace takes no memory. */
#include "tracefile.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "atomic_file.h"
#include "report.h"

struct tracefile {
    atomic_file *out;
    bool some;         /* an event was written */
    uint64_t begun_ns; /* its time 0, since 1970: traces of several processes meet there */
};

tracefile *tracefile_open(const char *path, int *status) {
    tracefile *t = calloc(1, sizeof *t);
    if (t == NULL) {
        *status = report_error(EXIT_FAILED, "out of memory");
        return NULL;
    }
    struct timespec at = {0};
    (void)clock_gettime(CLOCK_REALTIME, &at);
    t->begun_ns = (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
    t->out = atomic_file_open("trace", path, status);
    if (t->out == NULL) {
        free(t);
        return NULL;
    }
    (void)fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", atomic_file_stream(t->out));
    return t;
}

/* The start of the next event. */
static FILE *next(tracefile *t) {
    FILE *f = atomic_file_stream(t->out); /* it remembers writes that fail */
    (void)fputs(t->some ? ",\n" : "\n", f);
    t->some = true;
    return f;
}

/* Names in quotes; what JSON does not take as it is becomes '_'. */
static void put_name(FILE *f, const char *name) {
    (void)fputc('"', f);
    for (; *name != '\0'; name++) {
        const bool plain = *name >= ' ' && *name <= '~' && *name != '"' && *name != '\\';
        (void)fputc(plain ? *name : '_', f);
    }
    (void)fputc('"', f);
}

static void name_it(tracefile *t, const char *what, uint32_t process, uint32_t track,
                    const char *name) {
    FILE *f = next(t);
    (void)fprintf(f,
                  "{\"ph\": \"M\", \"name\": \"%s_name\", \"pid\": %" PRIu32 ", \"tid\": %" PRIu32
                  ", \"args\": {\"name\": ",
                  what, process, track);
    put_name(f, name);
    (void)fputs("}}", f);
    (void)fprintf(next(t),
                  "{\"ph\": \"M\", \"name\": \"%s_sort_index\", \"pid\": %" PRIu32
                  ", \"tid\": %" PRIu32 ", \"args\": {\"sort_index\": %" PRIu32 "}}",
                  what, process, track, track != 0 ? track : process);
}

void tracefile_process(tracefile *t, uint32_t process, const char *name) {
    name_it(t, "process", process, 0, name);
}

void tracefile_track(tracefile *t, uint32_t process, uint32_t track, const char *name) {
    name_it(t, "thread", process, track, name);
}

void tracefile_slice(tracefile *t, uint32_t process, uint32_t track, const char *name,
                     uint64_t start_ns, uint64_t end_ns, const char *args) {
    uint64_t length = end_ns > start_ns ? end_ns - start_ns : 0;
    FILE *f = next(t);
    (void)fputs("{\"ph\": \"X\", \"name\": ", f);
    put_name(f, name);
    (void)fprintf(f,
                  ", \"pid\": %" PRIu32 ", \"tid\": %" PRIu32 ", \"ts\": %" PRIu64
                  ".%03u, \"dur\": %" PRIu64 ".%03u, \"args\": {%s}}",
                  process, track, start_ns / 1000, (unsigned)(start_ns % 1000), length / 1000,
                  (unsigned)(length % 1000), args);
}

int tracefile_finish(tracefile *t, FILE *to) {
    FILE *f = atomic_file_stream(t->out);
    (void)fprintf(f, "\n], \"otherData\": {\"begun_unix_ns\": %" PRIu64 "}}\n", t->begun_ns);
    const long bytes = ftell(f); /* of what is no file: -1 */
    const int status = atomic_file_finish(t->out);
    if (status == EXIT_DONE && bytes > 0 && f != stdout)
        (void)fprintf(to, "trace            %.1f MB\n", (double)bytes * 1e-6);
    return status;
}

void tracefile_close(tracefile *t) {
    if (t == NULL)
        return;
    atomic_file_close(t->out);
    free(t);
}

uint32_t trace_lanes_take(trace_lanes *l, uint64_t start_ns, uint64_t end_ns) {
    uint32_t lane = 0;
    while (lane < l->count && l->busy_until[lane] > start_ns)
        lane++;
    if (lane == l->cap) {
        uint32_t cap = l->cap == 0 ? 16 : 2 * l->cap;
        uint64_t *more = realloc(l->busy_until, cap * sizeof *more);
        if (more == NULL)
            return UINT32_MAX;
        l->busy_until = more;
        l->cap = cap;
    }
    if (lane == l->count)
        l->count++;
    l->busy_until[lane] = end_ns;
    return lane;
}

void trace_lanes_give(trace_lanes *l, uint32_t lane, uint64_t end_ns) {
    l->busy_until[lane] = end_ns;
}

void trace_lanes_free(trace_lanes *l) {
    free(l->busy_until);
    *l = (trace_lanes){0};
}
