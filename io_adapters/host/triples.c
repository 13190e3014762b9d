/* SPDX-License-Identifier: Apache-2.0 */
/* triples.c - triples that a store keeps for later runs: one sealed file for each step of a maker's
 * run, and one mark for each maker.
 *
 * A second use of a triple gives away the difference of two secrets, so what is handed to a session
 * counts as used before the session can begin the step: the mark is on the disk by then. The mark
 * never falls. Files below it are destroyed, and never read; a file without a mark is never used
 * either, for nobody knows whether it was. The mark goes when the last file of its maker is gone:
 * what somebody puts back from a copy then has none.
 *
 * A mark has the store's run beside it, and gets each new one before the file of the run does: a
 * mark with an earlier one was not here when that run began, so it and its triples are from a copy,
 * and none of them is used. */
#include "seal.h"
#include "store_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uvcc/triple.h>

enum { LABEL_BYTES = 128, SETS_MAX = 64, PROBES_MAX = 64 };

#define TRIPLES ".triples-"

/* ---- names ---- */

static void name_of(const uvcci_worker *w, uint32_t run, uint32_t step,
                    char out[UVCCI_NAME_BYTES]) {
    (void)snprintf(out, UVCCI_NAME_BYTES, "r%u-s%u-t%u" TRIPLES "%u-%u", w->replica, w->stage,
                   w->tp_rank, run, step);
}

static void mark_name(const uvcci_worker *w, uint32_t run, char out[UVCCI_NAME_BYTES]) {
    (void)snprintf(out, UVCCI_NAME_BYTES, "r%u-s%u-t%u" TRIPLES "%u" UVCCI_USED, w->replica,
                   w->stage, w->tp_rank, run);
}

static void label_of(const uvcc_store *st, const uvcci_worker *w, uint32_t run, uint32_t step,
                     char out[LABEL_BYTES]) {
    (void)snprintf(out, LABEL_BYTES, "uvcc triples party %u r%u s%u t%u run %u step %u",
                   st->cfg.party, w->replica, w->stage, w->tp_rank, run, step);
}

static const char *parse_run(const char *name, uvcci_worker *w, uint32_t *run) {
    uint64_t n = 0;
    const char *at =
        uvcci_number_after(uvcci_store_parse_worker(name, w), TRIPLES, UVCCI_RUN_LAST, &n);
    *run = (uint32_t)n;
    return at;
}

bool uvcci_triples_parse(const char *name, uvcci_worker *w, uint32_t *run, uint32_t *step) {
    uint64_t n = 0;
    const char *at = uvcci_number_after(parse_run(name, w, run), "-", UINT32_MAX - 1, &n);
    *step = (uint32_t)n;
    return at != NULL && *at == '\0';
}

bool uvcci_triples_parse_mark(const char *name, uvcci_worker *w, uint32_t *run) {
    const char *at = parse_run(name, w, run);
    return at != NULL && strcmp(at, UVCCI_USED) == 0;
}

static bool same_worker(const uvcci_worker *a, const uvcci_worker *b) {
    return a->replica == b->replica && a->stage == b->stage && a->tp_rank == b->tp_rank;
}

/* ---- what there is ---- */

static uvcci_triple_set *set_of(const uvcci_worker *w, uint32_t run) {
    for (uint32_t i = 0; i < w->set_count; i++)
        if (w->sets[i].run == run)
            return &w->sets[i];
    return NULL;
}

typedef struct stamping {
    uvcc_store *st;
    uint32_t run;
} stamping;

typedef struct sweeping {
    uvcc_store *st;
    uvcci_worker *w;
} sweeping;

/* The makers whose files are there, in the order of their runs; the latest are left out where there
 * are too many. */
static int find_set(void *user, const char *name) {
    const sweeping *sw = user;
    uvcci_worker at = {0}, *w = sw->w;
    uint32_t run, step, i = w->set_count;
    if (!uvcci_triples_parse(name, &at, &run, &step) || !same_worker(&at, w) ||
        set_of(w, run) != NULL)
        return 0;
    if (i == SETS_MAX && w->sets[i - 1].run < run)
        return 0;
    for (i = i == SETS_MAX ? i - 1 : i; i > 0 && w->sets[i - 1].run > run; i--)
        w->sets[i] = w->sets[i - 1];
    w->sets[i] = (uvcci_triple_set){.run = run};
    if (w->set_count < SETS_MAX)
        w->set_count++;
    return 0;
}

/* What was used, and marks of which nothing is left. */
static int sweep(void *user, const char *name) {
    const sweeping *sw = user;
    uvcci_worker at = {0};
    uint32_t run, step = 0;
    const bool mark = uvcci_triples_parse_mark(name, &at, &run);
    if ((!mark && !uvcci_triples_parse(name, &at, &run, &step)) || !same_worker(&at, sw->w))
        return 0;
    const uvcci_triple_set *set = set_of(sw->w, run);
    const bool old = mark ? set == NULL && sw->w->set_count < SETS_MAX
                          : set != NULL && set->marked && step < set->next;
    if (old && unlinkat(sw->st->dir.fd, name, 0) != 0 && errno != ENOENT)
        uvcci_store_warn(sw->st, "%s/%s: cannot be deleted: %s", sw->st->path, name,
                         strerror(errno));
    return 0;
}

/* The first step that was not used, and the store's run. */
static int read_mark(uvcc_store *st, const uvcci_worker *w, uint32_t run, bool *any,
                     uint32_t mark[2]) {
    char name[UVCCI_NAME_BYTES];
    mark_name(w, run, name);
    return uvcci_numbers_read(st, name, "it says which triples were used; take them away", any,
                              mark, 2);
}

static int write_mark(uvcc_store *st, const uvcci_worker *w, uint32_t run, uint32_t next,
                      uint32_t of) {
    char name[UVCCI_NAME_BYTES];
    const uint32_t mark[2] = {next, of};
    mark_name(w, run, name);
    return uvcci_numbers_write(st, name, mark, 2);
}

static void look_at_mark(uvcc_store *st, const uvcci_worker *w, uvcci_triple_set *set) {
    uint32_t mark[2];
    const bool read = read_mark(st, w, set->run, &set->marked, mark) == 0 && set->marked;
    set->next = mark[0];
    set->copied = read && st->any_run && mark[1] < st->run;
    set->marked = read && !set->copied;
}

/* Those from copies stay as they are; so do damaged ones, which are told of when they are asked
 * for. */
static int stamp(void *user, const char *name) {
    const stamping *sp = user;
    uvcci_worker w = {0};
    uint32_t run, mark[2];
    bool any;
    if (!uvcci_triples_parse_mark(name, &w, &run))
        return 0;
    const int rc = read_mark(sp->st, &w, run, &any, mark);
    if (rc == UVCC_ERR_IO || rc == UVCC_ERR_NOMEM)
        return rc;
    if (rc != 0 || !any || (sp->st->any_run && mark[1] < sp->st->run) || mark[1] >= sp->run)
        return 0;
    return write_mark(sp->st, &w, run, mark[0], sp->run);
}

int uvcci_triples_stamp(uvcc_store *st, uint32_t run) {
    return uvcci_store_names(st, stamp, &(stamping){st, run});
}

/* Triples of which nobody knows whether they were used stay where they are, and are not. */
static void read_marks(uvcc_store *st, uvcci_worker *w) {
    for (uint32_t i = 0; i < w->set_count; i++) {
        uvcci_triple_set *set = &w->sets[i];
        look_at_mark(st, w, set);
        if (!set->marked)
            uvcci_store_warn(
                st, "%s: the triples of worker r%u s%u t%u and run %u are not used: %s", st->path,
                w->replica, w->stage, w->tp_rank, set->run,
                set->copied ? "they are from a copy of earlier times, and may have been used "
                              "since: take them away, and make new ones"
                            : "their mark is missing or damaged; take them away");
    }
}

int uvcci_triples_begin(uvcc_store *st, uvcci_worker *w) {
    const uvcc_allocator *al = &st->cfg.alloc;
    sweeping sw = {st, w};
    const uvcci_says to = uvcci_store_says(st);
    if (w->sets == NULL)
        w->sets = al->alloc(al->user, SETS_MAX * sizeof *w->sets, UVCC_MEM_STATE);
    if (w->sets == NULL)
        return uvcci_say(&to, UVCC_ERR_NOMEM, "%s: no memory for a list of triples", st->path);
    w->set_count = 0;
    int rc = uvcci_store_names(st, find_set, &sw);
    if (rc != 0)
        return rc;
    read_marks(st, w);
    return uvcci_store_names(st, sweep, &sw);
}

void uvcci_triples_forget(uvcc_store *st, uvcci_worker *w) {
    if (w->sets != NULL)
        st->cfg.alloc.free(st->cfg.alloc.user, w->sets, SETS_MAX * sizeof *w->sets, UVCC_MEM_STATE);
    w->sets = NULL;
    w->set_count = 0;
}

/* ---- reading ---- */

/* A step's records, in memory that is uvcci_file_free()d, wiped, by give_back(). */
typedef struct opened {
    uint8_t *file;
    const uint8_t *data;
    size_t file_len, len;
} opened;

static int open_step(uvcc_store *st, const uvcci_worker *w, uint32_t run, uint32_t step,
                     opened *out) {
    const uvcci_says to = uvcci_store_says(st);
    char name[UVCCI_NAME_BYTES], label[LABEL_BYTES];
    *out = (opened){0};
    name_of(w, run, step, name);
    label_of(st, w, run, step, label);
    int rc =
        uvcci_file_read(&st->dir, name, false, &st->cfg.alloc, &out->file, &out->file_len, &to);
    if (rc != 0)
        return rc;
    rc = uvcci_unseal(out->file, out->file_len, label, st->key, &out->data, &out->len);
    if (rc != 0)
        return uvcci_say(&to, rc, "%s/%s: is damaged, or sealed under another key", st->path, name);
    return 0;
}

static void give_back(uvcc_store *st, opened *o) {
    volatile uint8_t *p = o->file;
    for (size_t i = 0; i < o->file_len; i++)
        p[i] = 0;
    uvcci_file_free(&st->cfg.alloc, o->file, o->file_len);
    *o = (opened){0};
}

/* ---- using ---- */

/* Their names go: nobody reads them again. What cannot be deleted goes when the store is next
 * offered to a session. */
static void destroy(uvcc_store *st, uvcci_worker *w, uint32_t run, uint32_t from, uint32_t end) {
    char name[UVCCI_NAME_BYTES];
    if (end - from > PROBES_MAX) {
        (void)uvcci_store_names(st, sweep, &(sweeping){st, w});
        return;
    }
    for (uint32_t step = from; step < end; step++) {
        name_of(w, run, step, name);
        if (unlinkat(st->dir.fd, name, 0) != 0 && errno != ENOENT)
            uvcci_store_warn(st, "%s/%s: cannot be deleted: %s", st->path, name, strerror(errno));
    }
}

/* On the disk: what the session was given is used, and all of that maker before it. */
static int mark_given(uvcc_store *st, uvcci_worker *w) {
    uvcci_triple_set *set = set_of(w, w->given_run);
    const uint32_t from = set->next;
    const int rc = write_mark(st, w, set->run, w->given + 1, st->run);
    if (rc != 0)
        return rc;
    w->given_marked = true;
    set->next = w->given + 1;
    destroy(st, w, set->run, from, set->next);
    return 0;
}

/* 1: the session holds this step's triples of that maker; 0: it does not, and need not. What is
 * damaged, or another program's, is told and passed over. */
static int load(uvcc_store *st, uvcci_worker *w, uvcci_triple_set *set, uint32_t step) {
    const uvcci_says to = uvcci_store_says(st);
    char name[UVCCI_NAME_BYTES];
    opened o = {0};
    name_of(w, set->run, step, name);
    if (!uvcci_file_there(&st->dir, name))
        return 0;
    int rc = open_step(st, w, set->run, step, &o);
    if (rc == 0 && (rc = uvcc_session_load_triples(w->session, o.data, o.len)) != 0)
        (void)uvcci_say(&to, rc, "%s/%s: %s", st->path, name,
                        uvcc_session_error_detail(w->session));
    give_back(st, &o);
    if (rc == 0)
        return 1;
    if (rc == UVCC_ERR_IO || rc == UVCC_ERR_NOMEM)
        return rc;
    if (rc == UVCC_ERR_MISMATCH) /* so are the others of that maker */
        set->marked = false;
    uvcci_store_warn(st, "%s; not used", st->text);
    return 0;
}

int uvcci_triples_give(uvcc_store *st, uvcci_worker *w, uint32_t step) {
    if (w->maker || st->cfg.leave_triples || step < w->over || step - w->over > 1)
        return 0; /* the session would not take the step */
    if (w->any_given && w->given == step)
        return w->given_marked ? 0 : mark_given(st, w);
    for (uint32_t i = 0; i < w->set_count; i++) {
        uvcci_triple_set *set = &w->sets[i];
        if (!set->marked || step < set->next)
            continue;
        const int rc = load(st, w, set, step);
        if (rc == 0)
            continue;
        if (rc < 0)
            return rc;
        w->any_given = true;
        w->given_marked = false;
        w->given = step;
        w->given_run = set->run;
        return mark_given(st, w);
    }
    return 0;
}

/* ---- making ---- */

static int write_step(uvcc_store *st, const uvcci_worker *w, uint32_t step, const uint8_t *data,
                      size_t len) {
    const uvcc_allocator *al = &st->cfg.alloc;
    const uvcci_says to = uvcci_store_says(st);
    char name[UVCCI_NAME_BYTES], label[LABEL_BYTES];
    uvcc_triple_info info;
    int rc = uvcc_triple_read(data, len, &info);
    if (rc != 0 || info.step != step)
        return uvcci_say(&to, UVCC_ERR_FRAME, "%s: the session made no triples of step %u",
                         st->path, step);
    name_of(w, info.maker_run, step, name);
    label_of(st, w, info.maker_run, step, label);
    uint8_t *sealed = al->alloc(al->user, len + UVCCI_SEAL_BYTES, UVCC_MEM_WIRE);
    if (sealed == NULL)
        return uvcci_say(&to, UVCC_ERR_NOMEM, "%s/%s: no memory to write it", st->path, name);
    rc = uvcci_seal(sealed, label, st->key, &st->cfg.random, data, len);
    if (rc != 0)
        rc = uvcci_say(&to, rc, "%s/%s: there are no random bytes to seal it", st->path, name);
    else
        rc = uvcci_file_write(&st->dir, name, sealed, len + UVCCI_SEAL_BYTES, &to);
    uvcci_file_free(al, sealed, len + UVCCI_SEAL_BYTES);
    return rc;
}

/* The mark is there before the first file. */
static int first_mark(uvcc_store *st, const uvcci_worker *w, const uint8_t *data, size_t len) {
    const uvcci_says to = uvcci_store_says(st);
    char name[UVCCI_NAME_BYTES];
    uvcc_triple_info info;
    int rc = uvcc_triple_read(data, len, &info);
    if (rc != 0)
        return uvcci_say(&to, rc, "%s: the session made no triples", st->path);
    mark_name(w, info.maker_run, name);
    return uvcci_file_there(&st->dir, name) ? 0
                                            : write_mark(st, w, info.maker_run, info.step, st->run);
}

int uvcci_triples_write(uvcc_store *st, uvcci_worker *w) {
    const uvcci_says to = uvcci_store_says(st);
    const uint8_t *data;
    uint32_t step;
    size_t len;
    w->made_unwritten = true;
    int rc = uvcc_session_triples(w->session, &step, &data, &len);
    if (rc != 0)
        return uvcci_say(&to, rc, "%s: the session made no triples", st->path);
    if (len != 0)
        rc = first_mark(st, w, data, len);
    if (rc == 0 && len != 0)
        rc = write_step(st, w, step, data, len);
    if (rc != 0)
        return rc;
    w->made_unwritten = false;
    w->made = step + 1;
    return 0;
}

/* ---- for people ---- */

typedef struct all_sets {
    uvcc_store *st;
    uvcc_store_triples *set;
    uint32_t count, room;
} all_sets;

static int order(const uvcc_store_triples *a, const uvcc_store_triples *b) {
    if (a->replica != b->replica)
        return a->replica < b->replica ? -1 : 1;
    if (a->stage != b->stage)
        return a->stage < b->stage ? -1 : 1;
    if (a->tp_rank != b->tp_rank)
        return a->tp_rank < b->tp_rank ? -1 : 1;
    return a->run < b->run ? -1 : a->run > b->run;
}

/* The place of `of` among the sets, which are in order; made if there is none. NULL: no memory. */
static uvcc_store_triples *place(all_sets *a, const uvcc_store_triples *of) {
    uint32_t at = a->count;
    while (at > 0 && order(&a->set[at - 1], of) > 0)
        at--;
    if (at > 0 && order(&a->set[at - 1], of) == 0)
        return &a->set[at - 1];
    uvcc_store_triples *list =
        uvcci_store_list_room(&a->st->cfg.alloc, a->set, a->count, &a->room, sizeof *list);
    if (list == NULL)
        return NULL;
    a->set = list;
    memmove(&a->set[at + 1], &a->set[at], (a->count++ - at) * sizeof a->set[0]);
    a->set[at] = *of;
    return &a->set[at];
}

static int count_name(void *user, const char *name) {
    all_sets *a = user;
    const uvcci_says to = uvcci_store_says(a->st);
    uvcci_worker w = {0};
    struct stat file;
    uint32_t run, step;
    if (!uvcci_triples_parse(name, &w, &run, &step))
        return 0;
    uvcc_store_triples *set = place(a, &(uvcc_store_triples){.replica = w.replica,
                                                             .stage = w.stage,
                                                             .tp_rank = w.tp_rank,
                                                             .run = run,
                                                             .first = step,
                                                             .last = step});
    if (set == NULL)
        return uvcci_say(&to, UVCC_ERR_NOMEM, "%s: no memory for a list of triples", a->st->path);
    set->steps++;
    set->first = step < set->first ? step : set->first;
    set->last = step > set->last ? step : set->last;
    if (fstatat(a->st->dir.fd, name, &file, AT_SYMLINK_NOFOLLOW) == 0)
        set->bytes += (uint64_t)file.st_size;
    return 0;
}

static uvcci_worker worker_at(const uvcc_store_triples *of) {
    return (uvcci_worker){.replica = of->replica, .stage = of->stage, .tp_rank = of->tp_rank};
}

int uvcc_store_triples_at(uvcc_store *st, uint32_t index, uvcc_store_triples *out) {
    if (st == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    all_sets a = {.st = st};
    int rc = uvcci_store_names(st, count_name, &a);
    if (rc == 0 && index < a.count) {
        const uvcci_worker w = worker_at(&a.set[index]);
        uvcci_triple_set set = {.run = a.set[index].run};
        look_at_mark(st, &w, &set);
        *out = a.set[index];
        out->marked = set.marked;
        out->copied = set.copied;
        out->next = set.marked ? set.next : 0;
        rc = 1;
    }
    if (a.set != NULL)
        st->cfg.alloc.free(st->cfg.alloc.user, a.set, a.room * sizeof a.set[0], UVCC_MEM_STATE);
    return rc;
}

typedef struct seeking {
    uvcci_worker w;
    uint32_t run, from, least;
    bool any;
} seeking;

static int seek(void *user, const char *name) {
    seeking *sk = user;
    uvcci_worker at = {0};
    uint32_t run, step;
    if (!uvcci_triples_parse(name, &at, &run, &step) || !same_worker(&at, &sk->w) ||
        run != sk->run || step < sk->from || (sk->any && step >= sk->least))
        return 0;
    sk->any = true;
    sk->least = step;
    return 0;
}

/* Records of one maker, step, party and entry, each of a tile of its own. */
static bool are_of_step(const uvcc_store *st, const opened *o, uint32_t run, uint32_t step,
                        uint32_t *count, uint32_t *products, uvcc_triple_info *first) {
    *count = *products = 0;
    for (size_t at = 0; at < o->len; (*count)++) {
        uvcc_triple_info t;
        if (uvcc_triple_read(o->data + at, o->len - at, &t) != 0)
            return false;
        if (*count == 0)
            *first = t;
        if (t.step != step || t.maker_run != run || t.run != UVCC_TRIPLES_ANY_RUN ||
            t.party != st->cfg.party || t.entry != first->entry ||
            memcmp(t.sid_sub, first->sid_sub, 32) != 0 ||
            memcmp(t.program, first->program, 32) != 0)
            return false;
        *products += t.tile == 0;
        at += t.bytes;
    }
    return *count != 0;
}

int uvcc_store_triples_check(uvcc_store *st, const uvcc_store_triples *of, uint32_t *step,
                             uint32_t *count, uint32_t *products, uvcc_triple_info *info) {
    if (st == NULL || of == NULL || step == NULL || count == NULL || products == NULL ||
        info == NULL)
        return UVCC_ERR_USAGE;
    const uvcci_says to = uvcci_store_says(st);
    seeking sk = {.w = worker_at(of), .run = of->run, .from = *step};
    char name[UVCCI_NAME_BYTES];
    opened o;
    name_of(&sk.w, of->run, *step, name);
    if (!uvcci_file_there(&st->dir, name)) { /* in most cases the next one is */
        const int rc = uvcci_store_names(st, seek, &sk);
        if (rc != 0 || !sk.any)
            return rc;
        *step = sk.least;
        name_of(&sk.w, of->run, *step, name);
    }
    int rc = open_step(st, &sk.w, of->run, *step, &o);
    if (rc == 0 && !are_of_step(st, &o, of->run, *step, count, products, info))
        rc = uvcci_say(&to, UVCC_ERR_MISMATCH, "%s/%s: has not the triples that its name says",
                       st->path, name);
    give_back(st, &o);
    return rc != 0 ? rc : 1;
}
