/* SPDX-License-Identifier: Apache-2.0 */
/* trace_check.c - see trace_check.h. */
#include "trace_check.h"

typedef struct slice {
    double start, end;
    uint64_t pid, tid;
} slice;

enum { NAMES_MAX = 4096, DEPTH_MAX = 16 };

typedef struct names {
    uint64_t pid[NAMES_MAX], tid[NAMES_MAX];
    bool track[NAMES_MAX];
    unsigned count;
} names;

/* Times in nanoseconds, whole. */
static double nanoseconds(const json_t *e, const char *key) {
    const json_t *v = json_object_get(e, key);
    assert_true(json_is_number(v));
    const double ns = json_number_value(v) * 1000;
    assert_true(ns >= 0);
    return (double)(uint64_t)(ns + 0.5);
}

static bool known(const names *n, uint64_t pid, uint64_t tid, bool track) {
    for (unsigned i = 0; i < n->count; i++)
        if (n->pid[i] == pid && n->track[i] == track && (!track || n->tid[i] == tid))
            return true;
    return false;
}

static void take_name(names *n, const json_t *e) {
    const char *what = test_str(e, "name");
    const bool track = strcmp(what, "thread_name") == 0;
    if (!track && strcmp(what, "process_name") != 0)
        return;
    assert_true(strlen(test_str(json_object_get(e, "args"), "name")) > 0);
    assert_true(n->count < NAMES_MAX);
    assert_false(known(n, test_u64(e, "pid"), test_u64(e, "tid"), track));
    n->pid[n->count] = test_u64(e, "pid");
    n->tid[n->count] = test_u64(e, "tid");
    n->track[n->count++] = track;
}

/* By track, then start, the longer first. */
static int compare(const void *a, const void *b) {
    const slice *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end;
}

static void check_nesting(const slice *s, size_t n) {
    double open[DEPTH_MAX]; /* ends */
    unsigned depth = 0;
    for (size_t i = 0; i < n; i++) {
        if (i != 0 && (s[i].pid != s[i - 1].pid || s[i].tid != s[i - 1].tid))
            depth = 0;
        while (depth > 0 && open[depth - 1] <= s[i].start)
            depth--;
        if (depth > 0 && s[i].end > open[depth - 1])
            fail_msg("track %u %u: a slice from %.0f to %.0f ns ends after the one it lies in",
                     (unsigned)s[i].pid, (unsigned)s[i].tid, s[i].start, s[i].end);
        assert_true(depth < DEPTH_MAX);
        open[depth++] = s[i].end;
    }
}

static json_t *load_events(const char *path, json_t **list) {
    json_t *all = test_load_json(path);
    *list = json_object_get(all, "traceEvents");
    assert_true(json_is_array(*list));
    return all;
}

trace_count trace_check(const char *path) {
    static names n;
    json_t *list, *all = load_events(path, &list);
    const size_t size = json_array_size(list);
    slice *slices = calloc(size + 1, sizeof *slices);
    trace_count out = {0};
    assert_non_null(slices);
    n.count = 0;
    for (size_t i = 0; i < size; i++) {
        const json_t *e = json_array_get(list, i);
        const char *kind = test_str(e, "ph");
        if (strcmp(kind, "M") == 0) {
            take_name(&n, e);
            continue;
        }
        assert_string_equal(kind, "X");
        assert_true(strlen(test_str(e, "name")) > 0);
        assert_true(json_is_object(json_object_get(e, "args")));
        slice *s = &slices[out.named++];
        *s = (slice){.pid = test_u64(e, "pid"), .tid = test_u64(e, "tid")};
        s->start = nanoseconds(e, "ts");
        s->end = s->start + nanoseconds(e, "dur");
    }
    for (size_t i = 0; i < out.named; i++) {
        assert_true(known(&n, slices[i].pid, 0, false));
        assert_true(known(&n, slices[i].pid, slices[i].tid, true));
    }
    qsort(slices, out.named, sizeof *slices, compare);
    check_nesting(slices, out.named);
    for (unsigned i = 0; i < n.count; i++) {
        out.processes += !n.track[i];
        out.tracks += n.track[i];
    }
    free(slices);
    json_decref(all);
    return out;
}

size_t trace_slices(const char *path, const char *name) {
    json_t *list, *all = load_events(path, &list);
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *e = json_array_get(list, i);
        n += strcmp(test_str(e, "ph"), "X") == 0 &&
             (name == NULL || strcmp(test_str(e, "name"), name) == 0);
    }
    json_decref(all);
    return n;
}
