/* SPDX-License-Identifier: Apache-2.0 */
/* audit_verify.c - `uvcc audit verify`: a directory of bundles, file by file, in the order in which
 * the steps were run; it stops at the first fault.
 *
 * The list of files comes first: what is missing, out of place or of no step is found from names
 * alone. Then, step by step and worker by worker, the three parties' bundles are read, put where
 * their names say they belong, and checked against each other (uvcc/audit.h); where a party has
 * several workers, its root over all of them is checked with their step roots; and what is signed
 * of one step with what was signed of those before it (audit_runs.h). Three bundles are in memory
 * at a time. */
#include "audit.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <uvcc/host.h>

#include "audit_runs.h"
#include "files.h"

#define TERMINAL_EVERY_S 0.1
#define LINES_EVERY_S    5.0
#define NAME_BYTES       256u

/* ---- the list ---- */

static int compare_places(const bundle_place *a, const bundle_place *b) {
#define BY(member)                                                                                 \
    if (a->member != b->member)                                                                    \
        return a->member < b->member ? -1 : 1;
    BY(run)
    BY(step)
    BY(job)
    BY(r)
    BY(s)
    BY(t)
    BY(party)
#undef BY
    return 0;
}

static int compare_entries(const void *a, const void *b) {
    return compare_places(a, b);
}

/* Room for one more; false without memory. */
static bool grow(void **array, size_t *room, size_t count, size_t size) {
    if (count < *room)
        return true;
    size_t more = *room == 0 ? 64 : 2 * *room;
    void *p = realloc(*array, more * size);
    if (p == NULL)
        return false;
    *array = p;
    *room = more;
    return true;
}

/* What a write that was interrupted left, and what begins with a dot, is passed over. */
static bool passed_over(const char *name) {
    size_t len = strlen(name);
    return name[0] == '.' || (len > 5 && strcmp(name + len - 5, ".part") == 0);
}

/* Below a party stand workers, below these runs, below these files. */
enum { WORKERS, RUNS, FILES };

static bool parse_level(const char *name, unsigned level, bundle_place *at) {
    if (level == WORKERS)
        at->job = strcmp(name, "job") == 0;
    return level == WORKERS ? at->job || bundle_parse_worker(name, at)
           : level == RUNS  ? bundle_parse_run(name, at)
                            : bundle_parse_step(name, at);
}

/* Directories that are to be listed. */
typedef struct folder {
    char *path;
    unsigned level;
    bundle_place at;
} folder;
typedef struct folders {
    folder *all;
    size_t count, room;
} folders;

static int no_memory(void) {
    return report_error(AUDIT_UNUSABLE, "out of memory");
}

static int push_folder(folders *to, const char *path, const char *name, unsigned level,
                       const bundle_place *at) {
    size_t room = strlen(path) + strlen(name) + 2;
    void *all = to->all;
    if (!grow(&all, &to->room, to->count, sizeof *to->all))
        return no_memory();
    to->all = all;
    char *below = malloc(room);
    if (below == NULL)
        return no_memory();
    (void)snprintf(below, room, "%s/%s", path, name);
    to->all[to->count++] = (folder){.path = below, .level = level, .at = *at};
    return 0;
}

static int take_name(const folder *in, const char *name, folders *to, audit_list *l) {
    bundle_place at = in->at;
    if (passed_over(name))
        return 0;
    if (!parse_level(name, in->level, &at))
        return report_error(AUDIT_FAULT, "%s/%s: does not belong there", in->path, name);
    if (in->level != FILES)
        return push_folder(to, in->path, name, in->level + 1, &at);
    void *all = l->entries;
    if (!grow(&all, &l->room, l->count, sizeof *l->entries))
        return no_memory();
    l->entries = all;
    l->entries[l->count++] = at;
    return 0;
}

static int list_folder(const folder *in, folders *to, audit_list *l) {
    struct dirent **names;
    int n = scandir(in->path, &names, NULL, alphasort), status = 0;
    if (n < 0)
        return report_error(AUDIT_UNUSABLE, "%s: cannot be read: %s", in->path, strerror(errno));
    for (int i = 0; i < n; i++) {
        if (status == 0)
            status = take_name(in, names[i]->d_name, to, l);
        free(names[i]);
    }
    free(names);
    return status;
}

/* Folder by folder and not by recursion: the tree may come from somebody else. Sorted, so that what
 * is found first does not depend on the file system. */
int audit_list_read(const char *dir, audit_list *out) {
    folders to = {0};
    struct stat st;
    int status = 0;
    *out = (audit_list){0};
    if (stat(dir, &st) != 0)
        return report_error(AUDIT_UNUSABLE, "%s: %s; name a directory that --audit wrote", dir,
                            strerror(errno));
    for (uint8_t p = 0; p < UVCC_PARTIES && status == 0; p++) {
        char name[16];
        (void)snprintf(name, sizeof name, "party-%u", p);
        status = push_folder(&to, dir, name, WORKERS, &(bundle_place){.party = p});
        if (status == 0 && stat(to.all[to.count - 1].path, &st) != 0)
            free(to.all[--to.count].path);
    }
    if (status == 0 && to.count == 0)
        status = report_error(
            AUDIT_UNUSABLE,
            "%s: there are no bundles in it (no party-0); name a directory that --audit wrote",
            dir);
    while (to.count != 0) {
        folder in = to.all[--to.count];
        if (status == 0)
            status = list_folder(&in, &to, out);
        free(in.path);
    }
    free(to.all);
    if (status == 0 && out->count != 0)
        qsort(out->entries, out->count, sizeof out->entries[0], compare_entries);
    return status;
}

void audit_list_free(audit_list *l) {
    free(l->entries);
    *l = (audit_list){0};
}

char *audit_path(const char *dir, const bundle_place *at) {
    char name[BUNDLE_NAME_BYTES];
    bundle_name(at, name);
    size_t room = strlen(dir) + sizeof name + 1;
    char *path = malloc(room);
    if (path == NULL)
        (void)report_error(AUDIT_UNUSABLE, "out of memory");
    else
        (void)snprintf(path, room, "%s/%s", dir, name);
    return path;
}

void audit_fault_text(const uvcc_audit_fault *f, char *out, size_t cap) {
    char where[160] = "", other[64] = "";
    if (f->leaf != UVCC_NO_LEAF && f->type == 0)
        (void)snprintf(where, sizeof where, "leaf %u (byte %llu): ", f->leaf,
                       (unsigned long long)f->offset);
    else if (f->leaf != UVCC_NO_LEAF && f->row == UVCC_NO_LEAF)
        (void)snprintf(where, sizeof where, "leaf %u (%s, op %08x, byte %llu): ", f->leaf,
                       uvcc_leaf_name(f->type), f->op_id, (unsigned long long)f->offset);
    else if (f->leaf != UVCC_NO_LEAF)
        (void)snprintf(where, sizeof where, "leaf %u (%s, row %u, op %08x, byte %llu): ", f->leaf,
                       uvcc_leaf_name(f->type), f->row, f->op_id, (unsigned long long)f->offset);
    else if (f->type != 0)
        (void)snprintf(where, sizeof where, "row %u, op %08x: ", f->row, f->op_id);
    else if (f->row != UVCC_NO_LEAF)
        (void)snprintf(where, sizeof where, "row %u of the op table (byte %llu): ", f->row,
                       (unsigned long long)f->offset);
    else if (f->kind != UVCC_FAULT_MAGIC && f->offset != 0)
        (void)snprintf(where, sizeof where, "byte %llu: ", (unsigned long long)f->offset);
    if (f->other != UVCC_NO_PARTY && f->other_leaf != UVCC_NO_LEAF)
        (void)snprintf(other, sizeof other, " (party %u, leaf %u%s%s)", f->other, f->other_leaf,
                       f->leaf == UVCC_NO_LEAF ? ", " : "",
                       f->leaf == UVCC_NO_LEAF ? uvcc_leaf_name(f->type) : "");
    else if (f->other != UVCC_NO_PARTY)
        (void)snprintf(other, sizeof other, " (party %u)", f->other);
    (void)snprintf(out, cap, "%s%s%s", where, uvcc_fault_text(f->kind), other);
}

/* ---- verifying ---- */

typedef struct verify {
    const verify_options *o;
    audit_list list;
    uvcc_audit_keys keys;
    /* of the first bundle: all must have them */
    bool begun;
    uint8_t sid_job[32], policy_hash[32];
    uint16_t topology[3];
    /* per party */
    uint8_t (*step_roots[UVCC_PARTIES])[32]; /* of a step's workers */
    uint8_t roots[UVCC_PARTIES][32];         /* global roots of the step over all workers */
    audit_runs *runs;
    /* what was done */
    uint64_t bundles, leaves, bytes;
    size_t workers, unfinished;
    bool run_begun;  /* a bundle of the present run was checked */
    bool last_known; /* last_step is that of last_run */
    uint32_t last_run, last_step;
    double shown_s;
    /* what was found */
    bool faulty;
    bundle_place place;
    uvcc_audit_fault fault;
    char what[400];
} verify;

static int found(verify *v, const bundle_place *at, const uvcc_audit_fault *f, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));
static int found(verify *v, const bundle_place *at, const uvcc_audit_fault *f, const char *format,
                 ...) {
    va_list args;
    v->faulty = true;
    v->place = *at;
    v->fault = f != NULL ? *f
                         : (uvcc_audit_fault){.party = at->party,
                                              .other = UVCC_NO_PARTY,
                                              .leaf = UVCC_NO_LEAF,
                                              .other_leaf = UVCC_NO_LEAF,
                                              .row = UVCC_NO_LEAF};
    va_start(args, format);
    (void)vsnprintf(v->what, sizeof v->what, format, args);
    va_end(args);
    return AUDIT_FAULT;
}

static int found_fault(verify *v, const bundle_place *at, const uvcc_audit_fault *f) {
    char text[sizeof v->what];
    audit_fault_text(f, text, sizeof text);
    return found(v, at, f, "%s", text);
}

static void show_progress(verify *v, const bundle_place *at, size_t done) {
    if (!report_on_terminal() && !v->o->progress)
        return;
    double now = (double)uvcc_host_now_ns() * 1e-9;
    if (now - v->shown_s < (report_on_terminal() ? TERMINAL_EVERY_S : LINES_EVERY_S))
        return;
    v->shown_s = now;
    report_line(false, "run %u  step %u  %zu of %zu files  %.1f MB  %llu leaves", at->run, at->step,
                done, v->list.count, (double)v->bytes * 1e-6, (unsigned long long)v->leaves);
}

/* ---- the list's gaps ---- */

static bool same_worker(const bundle_place *a, const bundle_place *b) {
    return a->run == b->run && a->step == b->step && a->job == b->job && a->r == b->r &&
           a->s == b->s && a->t == b->t;
}

/* How many entries from `i` on are of one worker and step. */
static size_t group_at(const audit_list *l, size_t i) {
    size_t n = 1;
    while (i + n < l->count && same_worker(&l->entries[i], &l->entries[i + n]))
        n++;
    return n;
}

/* The last step of a run that any party has a bundle of. */
static uint32_t last_step(verify *v, uint32_t run) {
    if (v->last_known && v->last_run == run)
        return v->last_step;
    for (size_t i = 0; i < v->list.count && v->list.entries[i].run <= run; i++)
        v->last_step = v->list.entries[i].step;
    v->last_known = true;
    v->last_run = run;
    return v->last_step;
}

static size_t count_workers(const audit_list *l) {
    size_t n = 0;
    const bundle_place *first = l->count != 0 ? &l->entries[0] : NULL;
    for (size_t i = 0; i < l->count; i += group_at(l, i)) {
        const bundle_place *at = &l->entries[i];
        n += !at->job && at->run == first->run && at->step == first->step;
    }
    return n;
}

/* What helps where a run's last step is not there at all parties. */
static const char cut_short[] = "; if the run was cut short, give --unfinished";

/* Who is missing in a group of fewer than three. */
static int missing(verify *v, const bundle_place *at, size_t n, size_t i, bool last) {
    bundle_place gone = *at;
    unsigned have = 0;
    char name[BUNDLE_NAME_BYTES];
    for (size_t k = 0; k < n; k++)
        have |= 1u << v->list.entries[i + k].party;
    gone.party = 0;
    while (have >> gone.party & 1)
        gone.party++;
    bundle_name(at, name);
    return found(v, &gone, NULL, "is missing: there is %s%s", name, last ? cut_short : "");
}

/* Steps of a run follow each other without gaps, and a run begins no later than the one before
 * ended. */
static int check_order(verify *v, const bundle_place *before, const bundle_place *at) {
    if (before->run == at->run && before->step == at->step)
        return 0;
    if (at->step > before->step && at->step - before->step > 1) {
        bundle_place gone = *at;
        gone.step = before->step + 1;
        gone.run = before->run;
        return found(v, &gone, NULL, "is missing: the next step is %u of run %u", at->step,
                     at->run);
    }
    return 0;
}

/* ---- one step ---- */

/* The place that a file's name gives is the one in its header. */
static int check_place(verify *v, const bundle_place *at, const uvcc_bundle *b) {
    const uint16_t topology[3] = {b->replicas, b->stages, b->tp_ranks};
    if (b->party != at->party || b->replica != at->r || b->stage != at->s || b->tp_rank != at->t ||
        b->step != at->step || b->run != at->run)
        return found(v, at, NULL,
                     "its header says party %u, worker r%us%ut%u, run %u, step %u: it was moved "
                     "or renamed",
                     b->party, b->replica, b->stage, b->tp_rank, b->run, b->step);
    if (!v->begun) {
        memcpy(v->sid_job, b->sid_job, 32);
        memcpy(v->policy_hash, b->policy_hash, 32);
        memcpy(v->topology, topology, sizeof topology);
        v->begun = true;
    }
    if (memcmp(v->sid_job, b->sid_job, 32) != 0 ||
        memcmp(v->policy_hash, b->policy_hash, 32) != 0 ||
        memcmp(v->topology, topology, sizeof topology) != 0)
        return found(v, at, NULL, "it is of another job, topology or policy than the first bundle");
    uint64_t workers = (uint64_t)topology[0] * topology[1] * topology[2];
    if (workers != v->workers)
        return found(v, at, NULL, "the job has %llu workers, but there are bundles of %zu",
                     (unsigned long long)workers, v->workers);
    return 0;
}

/* AUDITs may be missing in the last two steps of a run only: a step needs those of the one before
 * the last. */
static int check_audits_here(verify *v, const bundle_place *at, const uvcc_bundle *b) {
    for (unsigned q = 0; q < UVCC_PARTIES; q++) {
        if (b->audit[q].root != NULL)
            continue;
        if (last_step(v, at->run) - at->step >= 2)
            return found(v, at, NULL,
                         "the root that party %u signed is missing, though two steps followed", q);
        v->unfinished++;
    }
    return 0;
}

/* Reads and decodes one party's file. */
static int read_bundle(verify *v, const bundle_place *at, uint8_t **bytes, uvcc_bundle *b) {
    size_t len;
    uvcc_audit_fault f;
    char *path = audit_path(v->o->dir, at);
    if (path == NULL)
        return AUDIT_UNUSABLE;
    int status = file_read(path, AUDIT_UNUSABLE, bytes, &len);
    free(path);
    if (status != 0)
        return status;
    v->bytes += len;
    if (uvcc_bundle_decode(b, *bytes, len, &f) != 0)
        return found_fault(v, at, &f);
    v->bundles++;
    v->leaves += b->leaf_count;
    status = check_place(v, at, b);
    return status != 0 ? status : check_audits_here(v, at, b);
}

/* Where a worker's step root stands among those of its step. */
static size_t worker_index(const verify *v, const bundle_place *at) {
    return ((size_t)at->r * v->topology[1] + at->s) * v->topology[2] + at->t;
}

/* What a party signed of its next step, beside what it signed of this run before. */
static int take_statement(verify *v, const bundle_place *at, uint32_t first,
                          const uvcc_signed_root *s) {
    const size_t index = at->job ? v->workers : worker_index(v, at);
    const uvcc_fault_kind kind = audit_runs_take(v->runs, at->party, index, at->step, first, s);
    if (kind == UVCC_FAULT_NONE)
        return 0;
    const uvcc_audit_fault f = {.kind = kind,
                                .party = at->party,
                                .other = UVCC_NO_PARTY,
                                .leaf = UVCC_NO_LEAF,
                                .other_leaf = UVCC_NO_LEAF,
                                .row = UVCC_NO_LEAF};
    return found_fault(v, at, &f);
}

/* The bundles that are checked say with which step their run began. */
static int check_beginning(verify *v, const bundle_place *at, uint32_t first) {
    if (v->run_begun || first >= at->step)
        return 0;
    bundle_place gone = *at;
    gone.step = first;
    return found(v, &gone, NULL, "is missing: run %u began with step %u", at->run, first);
}

/* The bundles of one worker and step: entries i to i + 2. */
static int verify_bundles(verify *v, size_t i) {
    const bundle_place *e = &v->list.entries[i];
    uint8_t *bytes[UVCC_PARTIES] = {0};
    uvcc_bundle b[UVCC_PARTIES];
    uvcc_audit_fault f;
    int status = 0;
    for (unsigned p = 0; p < UVCC_PARTIES && status == 0; p++)
        status = read_bundle(v, &e[p], &bytes[p], &b[p]);
    if (status == 0 && uvcc_bundle_verify(b, &v->keys, &f) != 0)
        status = found_fault(v, &e[f.party < UVCC_PARTIES ? f.party : 0], &f);
    if (status == 0)
        status = check_beginning(v, e, b[0].first);
    for (unsigned p = 0; p < UVCC_PARTIES && status == 0; p++) {
        memcpy(v->step_roots[p][worker_index(v, e)], b[p].step_root, 32);
        if (v->workers == 1)
            memcpy(v->roots[p], b[p].audit[p].root, 32);
        status = take_statement(v, &e[p], b[p].first, &b[p].audit[p]);
    }
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        free(bytes[p]);
    return status;
}

/* A party's root over all its workers, after their bundles. */
static int verify_job_root(verify *v, const bundle_place *at) {
    uint8_t *bytes;
    size_t len;
    uvcc_job_root j;
    uvcc_audit_fault f;
    char *path = audit_path(v->o->dir, at);
    if (path == NULL)
        return AUDIT_UNUSABLE;
    int status = file_read(path, AUDIT_UNUSABLE, &bytes, &len);
    free(path);
    if (status != 0)
        return status;
    v->bytes += len;
    const uint16_t *t = v->topology;
    if (uvcc_job_root_decode(&j, bytes, len, &f) != 0)
        status = found_fault(v, at, &f);
    else if (j.party != at->party || j.run != at->run || j.step != at->step || j.replicas != t[0] ||
             j.stages != t[1] || j.tp_ranks != t[2] || memcmp(j.sid_job, v->sid_job, 32) != 0 ||
             memcmp(j.policy_hash, v->policy_hash, 32) != 0)
        status = found(v, at, NULL,
                       "it is of another party, job, topology, policy, run or step than its place");
    else if (uvcc_job_root_check(&j, &v->keys, &f) != 0)
        status = found_fault(v, at, &f);
    for (size_t w = 0; status == 0 && w < v->workers; w++)
        if (memcmp(j.step_roots + 32 * w, v->step_roots[at->party][w], 32) != 0)
            status = found(
                v, at, NULL, "the step root of worker r%us%ut%u is not that of its bundle",
                (unsigned)(w / t[2] / t[1]), (unsigned)(w / t[2] % t[1]), (unsigned)(w % t[2]));
    if (status == 0)
        status = take_statement(v, at, j.first, &j.global);
    if (status == 0)
        memcpy(v->roots[at->party], j.global.root, 32);
    free(bytes);
    return status;
}

/* ---- which run a run goes on from ---- */

static bool listed(const audit_list *l, const bundle_place *at) {
    return l->count != 0 &&
           bsearch(at, l->entries, l->count, sizeof l->entries[0], compare_entries) != NULL;
}

static bundle_place place_of(const verify *v, unsigned party, size_t index, uint32_t run,
                             uint32_t step) {
    const size_t t = v->topology[2], st = v->topology[1] * t;
    return (bundle_place){.party = (uint8_t)party,
                          .r = (uint16_t)(index / st),
                          .s = (uint16_t)(index % st / t),
                          .t = (uint16_t)(index % t),
                          .run = run,
                          .step = step};
}

/* A file that is wrong was told before, or is of a last step that need not be whole: as if it were
 * not there. */
static int look_back(void *user, unsigned party, size_t index, uint32_t run, uint32_t step,
                     uint8_t audit_root[32]) {
    const verify *v = user;
    const bundle_place at = place_of(v, party, index, run, step);
    uint8_t *bytes;
    size_t len;
    uvcc_bundle b;
    if (!listed(&v->list, &at))
        return 0;
    char *path = audit_path(v->o->dir, &at);
    if (path == NULL)
        return -1;
    const int status = file_read(path, AUDIT_UNUSABLE, &bytes, &len);
    free(path);
    if (status != 0)
        return -1;
    const bool good = uvcc_bundle_decode(&b, bytes, len, NULL) == 0 && b.party == party &&
                      uvcc_bundle_check(&b, &v->keys, NULL) == 0;
    if (good)
        memcpy(audit_root, b.audit[party].audit_root, 32);
    free(bytes);
    return good;
}

/* The file is one that shows it; whom that blames is in audit_runs.h. */
static int check_origin(verify *v, const bundle_place *first) {
    audit_runs_conflict c;
    const int rc = audit_runs_origin(v->runs, look_back, v, &c);
    if (rc < 0)
        return AUDIT_UNUSABLE;
    if (rc == 0)
        return 0;
    const bundle_place at = place_of(v, c.party, c.index, first->run, first->step);
    const uvcc_audit_fault f = {.kind = UVCC_FAULT_BEFORE,
                                .party = at.party,
                                .other = (uint8_t)c.other,
                                .leaf = UVCC_NO_LEAF,
                                .other_leaf = UVCC_NO_LEAF,
                                .row = UVCC_NO_LEAF};
    if (c.kind == AUDIT_RUNS_BEGINNING)
        return found(v, &at, &f, "run %u: %s: it begins with step 0", at.run,
                     uvcc_fault_text(f.kind));
    if (c.kind == AUDIT_RUNS_PARTIES)
        return found(v, &at, &f,
                     "run %u: parties %u and %u do not sign that it goes on from the same run; "
                     "which of them is wrong does not show here",
                     at.run, c.party, c.other);
    if (c.kind == AUDIT_RUNS_WORKERS)
        return found(v, &at, &f, "run %u: its workers do not go on from the same run", at.run);
    return found(v, &at, &f, "run %u: %s, by no party's statement that can be compared", at.run,
                 uvcc_fault_text(f.kind));
}

/* All files of one run and step: entries from i on. Returns how many in *n. */
static int verify_step(verify *v, size_t i, size_t *n) {
    const bundle_place *first = &v->list.entries[i];
    size_t workers = 0, jobs = 0, at = i;
    bool last = last_step(v, first->run) == first->step;
    while (at < v->list.count && v->list.entries[at].run == first->run &&
           v->list.entries[at].step == first->step) {
        size_t group = group_at(&v->list, at);
        const bundle_place *e = &v->list.entries[at];
        if (group < UVCC_PARTIES) {
            if (!v->o->unfinished || !last)
                return missing(v, e, group, at, last);
            v->unfinished++;
        }
        workers += !e->job && group == UVCC_PARTIES;
        jobs += e->job && group == UVCC_PARTIES;
        at += group;
    }
    *n = at - i;
    bool whole = workers == v->workers && jobs == (v->workers > 1);
    if (!whole && !(v->o->unfinished && last)) {
        bundle_place gone = {.job = workers == v->workers, .run = first->run, .step = first->step};
        return found(v, &gone, NULL,
                     "the step has bundles of %zu of %zu workers, and %s root over all workers%s",
                     workers, v->workers, jobs != 0 ? "a" : "no", last ? cut_short : "");
    }
    if (!whole) /* of the last step of a run that was cut short */
        return 0;
    int status = 0;
    for (size_t k = i; k < at && status == 0; k += UVCC_PARTIES) {
        const bundle_place *e = &v->list.entries[k];
        if (!e->job)
            status = verify_bundles(v, k);
        for (unsigned p = 0; e->job && p < UVCC_PARTIES && status == 0; p++)
            status = verify_job_root(v, &v->list.entries[k + p]);
        show_progress(v, e, k + UVCC_PARTIES);
        v->run_begun = true;
    }
    if (status != 0)
        return status;
    if (!audit_runs_step(v->runs, v->roots))
        return no_memory();
    return audit_runs_at_first(v->runs) ? check_origin(v, first) : 0;
}

static int verify_all(verify *v) {
    int status = 0;
    v->workers = count_workers(&v->list);
    v->runs = audit_runs_new(v->workers);
    if (v->runs == NULL)
        return no_memory();
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        v->step_roots[p] = malloc(32 * (v->workers + 1));
        if (v->step_roots[p] == NULL)
            return no_memory();
    }
    const bundle_place *before = NULL;
    for (size_t i = 0, n = 0; i < v->list.count && status == 0; i += n) {
        const bundle_place *at = &v->list.entries[i];
        if (before != NULL)
            status = check_order(v, before, at);
        if (before == NULL || before->run != at->run) {
            v->run_begun = false;
            if (!audit_runs_begin(v->runs, at->run))
                return no_memory();
        }
        if (status == 0)
            status = verify_step(v, i, &n);
        before = at;
    }
    return status;
}

/* ---- telling ---- */

/* What the history of the last run is. */
typedef struct outcome {
    size_t steps;
    uint32_t first, last;
    json_t *roots, *unknown;
} outcome;

static json_t *optional(uint32_t v, bool there) {
    return there ? json_integer(v) : json_null();
}

static json_t *fault_json(const verify *v, const char *path) {
    const uvcc_audit_fault *f = &v->fault;
    const bool leaf = f->type != 0;
    return json_pack("{s:s, s:i, s:i, s:I, s:I, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:s}",
                     "file", path, "kind", (int)f->kind, "party", (int)v->place.party, "run",
                     (json_int_t)v->place.run, "step", (json_int_t)v->place.step, "replica",
                     (int)v->place.r, "stage", (int)v->place.s, "tensor_rank", (int)v->place.t,
                     "leaf", optional(f->leaf, f->leaf != UVCC_NO_LEAF), "type",
                     leaf ? json_string(uvcc_leaf_name(f->type)) : json_null(), "row",
                     optional(f->row, f->row != UVCC_NO_LEAF), "op_id",
                     optional(f->op_id, f->row != UVCC_NO_LEAF || leaf), "other_party",
                     optional(f->other, f->other != UVCC_NO_PARTY), "other_leaf",
                     optional(f->other_leaf, f->other_leaf != UVCC_NO_LEAF), "what", v->what);
}

/* The history of the last run, for who compares it with what is known elsewhere. */
static void tell_roots(const verify *v, FILE *to, bool good, outcome *o) {
    uint8_t root[UVCC_PARTIES][32];
    o->steps = v->runs != NULL ? audit_runs_history(v->runs, &o->first, &o->last, root) : 0;
    if (o->steps != 0)
        (void)fprintf(to, "steps            %u to %u\n", o->first, o->last);
    for (unsigned p = 0; p < UVCC_PARTIES && good && v->runs != NULL; p++) {
        (void)fprintf(to, "audit root %u     ", p);
        for (unsigned i = 0; i < 32; i++)
            (void)fprintf(to, "%02x", root[p][i]);
        (void)fputc('\n', to);
        (void)json_array_append_new(o->roots, report_hex(root[p], 32));
    }
    for (uint32_t run, n = 0; v->runs != NULL && audit_runs_unknown(v->runs, n, &run); n++) {
        if (good)
            (void)fprintf(to, "not here         the run that run %u goes on from\n", run);
        (void)json_array_append_new(o->unknown, json_integer(run));
    }
}

/* A fault is told with all that was good before it, so that nobody has to run it again to see that.
 * The JSON object is there whatever happened. */
static int tell(verify *v, int status, report_json *json) {
    const verify_options *o = v->o;
    const bool good = status == AUDIT_GOOD;
    outcome out = {.roots = json_array(), .unknown = json_array()};
    FILE *to = report_stream(o->json);
    char *path = v->faulty ? audit_path(o->dir, &v->place) : NULL;
    if (v->faulty && path == NULL)
        status = AUDIT_UNUSABLE;
    if (good || v->faulty)
        (void)fprintf(to,
                      "checked          %llu bundles of %zu workers, %.1f MB\n"
                      "leaves           %llu\n",
                      (unsigned long long)v->bundles, UVCC_PARTIES * v->workers,
                      (double)v->bytes * 1e-6, (unsigned long long)v->leaves);
    tell_roots(v, to, good, &out);
    if (v->unfinished != 0 && good)
        (void)fprintf(to,
                      "unfinished       the run was cut short: its end is not signed by all, or "
                      "not there at all parties\n");
    json_t *j =
        json_pack("{s:b, s:I, s:o, s:I, s:I, s:I, s:I, s:b, s:o, s:o, s:o, s:o}", "good", good,
                  "steps", (json_int_t)out.steps, "first_step", optional(out.first, out.steps != 0),
                  "workers", (json_int_t)v->workers, "bundles", (json_int_t)v->bundles, "leaves",
                  (json_int_t)v->leaves, "bytes", (json_int_t)v->bytes, "unfinished",
                  v->unfinished != 0, "audit_root", out.roots, "goes_on_from_unknown", out.unknown,
                  "fault", path != NULL ? fault_json(v, path) : json_null(), "error",
                  good || path != NULL ? json_null() : json_string(report_last()));
    if (report_json_put(json, j) != EXIT_DONE)
        status = AUDIT_UNUSABLE;
    else if (path != NULL)
        (void)report_error(status, "%s: %s", path, v->what);
    free(path);
    return status;
}

static int verify_directory(verify *v) {
    const verify_options *o = v->o;
    if (o->dir == NULL)
        return report_error(AUDIT_UNUSABLE, "verify: give one DIR");
    size_t room = strlen(o->dir) + 16;
    char *keys = malloc(room);
    int status = keys == NULL ? no_memory() : audit_list_read(o->dir, &v->list);
    if (status == 0) {
        (void)snprintf(keys, room, "%s/public-keys", o->dir);
        status = bundle_keys_read(o->keys != NULL ? o->keys : keys, AUDIT_UNUSABLE, &v->keys);
    }
    free(keys);
    if (status == 0) {
        v->shown_s = (double)uvcc_host_now_ns() * 1e-9;
        status = verify_all(v);
        report_line_end();
    }
    return status;
}

int audit_verify(const verify_options *o) {
    verify v = {.o = o};
    report_json *json = report_json_open(o->json);
    if (json == NULL)
        return AUDIT_UNUSABLE;
    int status = tell(&v, verify_directory(&v), json);
    report_json_close(json);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        free(v.step_roots[p]);
    audit_runs_free(v.runs);
    audit_list_free(&v.list);
    return status;
}
