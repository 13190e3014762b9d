/* SPDX-License-Identifier: Apache-2.0 */
/* trace_join.c - see trace_join.h. Each file says when its time 0 was; processes get new numbers,
 * in the order of the files. */
#include "trace_join.h"

#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "atomic_file.h"
#include "flags.h"
#include "report.h"

enum { MESSAGE_BYTES = 300, PROCESSES_MAX = 65536 };

typedef struct join_options {
    const char *out; /* NULL: not given */
    bool help;
} join_options;

#define AT(member) offsetof(join_options, member)
static const flag flags[] = {
    {"out", "FILE", FLAG_TEXT, AT(out), 0, 0, NULL, "the trace to write. Required"},
    {"help", NULL, FLAG_SWITCH, AT(help), 0, 0, NULL, "show this"},
};
#undef AT
static const flag_set set = {"trace", flags, sizeof flags / sizeof flags[0],
                             offsetof(join_options, help)};

static void print_help(void) {
    flags_text(stdout, "Usage: uvcc trace --out FILE TRACE...\n"
                       "\n"
                       "Joins traces of several processes (--trace of uvcc party and of the other "
                       "commands) on one axis of time, by the clocks of their machines: what is "
                       "seconds apart there is seconds apart here. Look at it in Perfetto.\n"
                       "\n"
                       "Options:\n");
    flags_print(&set, stdout);
    flags_text(stdout, "\nExit status: 0 done, 1 the system failed, 2 wrong options or files.\n");
}

/* A trace of ours, or NULL after reporting; when its time 0 was, in ns since 1970. */
static json_t *load(const char *path, uint64_t *begun) {
    json_error_t e;
    json_t *o = json_load_file(path, 0, &e);
    const json_t *at = json_object_get(json_object_get(o, "otherData"), "begun_unix_ns");
    if (o != NULL && json_is_array(json_object_get(o, "traceEvents")) && json_is_integer(at)) {
        *begun = (uint64_t)json_integer_value(at);
        return o;
    }
    if (o == NULL)
        (void)report_error(EXIT_BAD_INPUT, "%s: %s", path, e.text);
    else
        (void)report_error(EXIT_BAD_INPUT,
                           "%s: is no trace that says when it began: make it with --trace of this "
                           "version",
                           path);
    json_decref(o);
    return NULL;
}

/* Numbers of processes in what is written, in the order in which they come. */
typedef struct numbers {
    json_int_t before[PROCESSES_MAX]; /* of this file */
    uint32_t count, first;            /* of this file; of those before it */
} numbers;

static uint32_t number_of(numbers *n, json_int_t pid) {
    uint32_t i = 0;
    while (i < n->count && n->before[i] != pid)
        i++;
    if (i == n->count && i + 1 < PROCESSES_MAX)
        n->before[n->count++] = pid;
    return n->first + i + 1;
}

static void move_event(json_t *e, numbers *n, double shift_us) {
    json_t *pid = json_object_get(e, "pid"), *ts = json_object_get(e, "ts");
    const char *name = json_string_value(json_object_get(e, "name"));
    json_t *args = json_object_get(e, "args");
    const uint32_t number = number_of(n, json_integer_value(pid));
    if (json_is_integer(pid))
        (void)json_integer_set(pid, number);
    if (json_is_number(ts))
        (void)json_object_set_new(e, "ts", json_real(json_number_value(ts) + shift_us));
    if (name != NULL && strcmp(name, "process_sort_index") == 0)
        (void)json_object_set_new(args, "sort_index", json_integer((json_int_t)number));
}

static void put_events(json_t *trace, numbers *n, double shift_us, bool *some, FILE *to) {
    size_t i;
    json_t *e;
    json_array_foreach(json_object_get(trace, "traceEvents"), i, e) {
        move_event(e, n, shift_us);
        (void)fputs(*some ? ",\n" : "\n", to);
        *some = true;
        (void)json_dumpf(e, to, JSON_REAL_PRECISION(15));
    }
    n->first += n->count;
    n->count = 0;
}

/* All begin at the earliest; files are read twice, one at a time. */
static int join(const char *out, const char *const *path, int count) {
    uint64_t earliest = UINT64_MAX, begun = 0;
    int status = EXIT_DONE;
    for (int i = 0; i < count; i++) {
        json_t *o = load(path[i], &begun);
        if (o == NULL)
            return EXIT_BAD_INPUT;
        json_decref(o);
        earliest = begun < earliest ? begun : earliest;
    }
    numbers *n = calloc(1, sizeof *n);
    if (n == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    atomic_file *file = atomic_file_open("out", out, &status);
    FILE *to = file != NULL ? atomic_file_stream(file) : NULL;
    bool some = false;
    for (int i = 0; i < count && to != NULL && status == EXIT_DONE; i++) {
        json_t *o = load(path[i], &begun);
        if (i == 0)
            (void)fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", to);
        if (o == NULL)
            status = EXIT_BAD_INPUT;
        else
            put_events(o, n, (double)(begun - earliest) * 1e-3, &some, to);
        json_decref(o);
    }
    if (to != NULL && status == EXIT_DONE) {
        (void)fprintf(to, "\n], \"otherData\": {\"begun_unix_ns\": %" PRIu64 "}}\n", earliest);
        status = atomic_file_finish(file);
    }
    if (file != NULL)
        atomic_file_close(file);
    free(n);
    return status;
}

int trace_join_main(int argc, char *const *argv) {
    join_options o = {0};
    char text[MESSAGE_BYTES];
    const flag_message m = {text, sizeof text};
    const char **path = calloc((size_t)argc + 1, sizeof *path);
    int count = 0, status = EXIT_DONE;
    if (path == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    if (flags_parse(&set, &o, argc, argv, path, &count, &m) != 0)
        status = report_error(EXIT_BAD_INPUT, "%s", text);
    else if (o.help)
        print_help();
    else if (o.out == NULL || count == 0)
        status = report_error(EXIT_BAD_INPUT, "give --out FILE and the traces to join; see uvcc "
                                              "trace --help");
    else
        status = join(o.out, path, count);
    free(path);
    return status;
}
