/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoints.c - a worker's checkpoints: offered, written, gone on from and deleted, by the three
 * rules of docs/host.md.
 *
 * Rule 1: a checkpoint is written when its event comes; where that fails, uvcc_store_may_agree()
 * tries again, and refuses the step that it must be durable before.
 * Rule 2: at STEP_STARTED, those before the last one of the session's own history go that all three
 * have. Those of other histories go the same way, or are written over.
 * Rule 3: to begin anew is offered while nothing is kept of the first step plus two intervals or
 * later. That is an interval longer than the rule asks, and does no harm: all three have the first
 * checkpoint then, which is taken before. So it needs no mark on the disk. */
#include "seal.h"
#include "store_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uvcc/checkpoint.h>

enum { OFFERS = 4, LABEL_BYTES = 128, ASIDE_MAX = 1000 };

static bool is_zero(const uint8_t lineage[32]) {
    static const uint8_t zero[32];
    return memcmp(lineage, zero, sizeof zero) == 0;
}

static uvcci_worker *worker_of(const uvcc_store *st, const uvcc_session *s) {
    uvcci_worker *w = st->workers;
    while (w != NULL && w->session != s)
        w = w->next;
    return w;
}

/* What the seal of a file says, so that none takes another's place. */
static void label_of(const uvcc_store *st, const uvcci_worker *w, uint32_t step,
                     char out[LABEL_BYTES]) {
    (void)snprintf(out, LABEL_BYTES, "uvcc checkpoint party %u r%u s%u t%u step %u", st->cfg.party,
                   w->replica, w->stage, w->tp_rank, step);
}

/* ---- what is kept ---- */

static uvcci_kept *kept_at(const uvcci_worker *w, uint32_t step) {
    for (uint32_t i = 0; i < w->kept_count; i++)
        if (w->kept[i].step == step)
            return &w->kept[i];
    return NULL;
}

/* The entry of a step, made if there is none; NULL without memory. */
static uvcci_kept *keep(uvcc_store *st, uvcci_worker *w, uint32_t step) {
    uvcci_kept *k = kept_at(w, step);
    if (k != NULL)
        return k;
    uvcci_kept *list =
        uvcci_store_list_room(&st->cfg.alloc, w->kept, w->kept_count, &w->kept_room, sizeof *k);
    if (list == NULL)
        return NULL;
    w->kept = list;
    k = &w->kept[w->kept_count++];
    *k = (uvcci_kept){.step = step};
    return k;
}

static void forget(uvcci_worker *w, uvcci_kept *k) {
    *k = w->kept[--w->kept_count];
}

typedef struct listing {
    uvcc_store *st;
    uvcci_worker *w;
} listing;

static int list(void *user, const uvcci_worker *at, uint32_t step) {
    const listing *l = user;
    if (at->replica != l->w->replica || at->stage != l->w->stage || at->tp_rank != l->w->tp_rank)
        return 0;
    return keep(l->st, l->w, step) != NULL ? 0 : UVCC_ERR_NOMEM;
}

/* ---- reading ---- */

/* A file whose bytes are whole; *file is to be uvcci_file_free()d, *data lies in it. */
static int open_checkpoint(uvcc_store *st, const uvcci_worker *w, uint32_t step, uint8_t **file,
                           size_t *file_len, const uint8_t **data, size_t *len) {
    const uvcci_says to = uvcci_store_says(st);
    char name[UVCCI_NAME_BYTES], label[LABEL_BYTES];
    uvcci_store_name(w, step, name);
    label_of(st, w, step, label);
    int rc = uvcci_file_read(&st->dir, name, false, &st->cfg.alloc, file, file_len, &to);
    if (rc != 0)
        return rc;
    rc = uvcci_unseal(*file, *file_len, label, st->key, data, len);
    if (rc == 0)
        return 0;
    uvcci_file_free(&st->cfg.alloc, *file, *file_len);
    return uvcci_say(&to, UVCC_ERR_AUTH,
                     "%s/%s: is damaged, or not sealed under %s/key for this place; put it back "
                     "from a copy, or take it away to go on without it",
                     st->path, name, st->path);
}

/* Why a session does not take a file that its key opens. */
static int refuse(uvcc_store *st, const uvcci_worker *w, uint32_t step, const uvcc_session *s,
                  const uvcc_checkpoint_info *info, int rc) {
    const uvcci_says to = uvcci_store_says(st);
    char name[UVCCI_NAME_BYTES];
    uint8_t sid_sub[32];
    uvcci_store_name(w, step, name);
    if (rc != UVCC_ERR_MISMATCH || uvcc_session_sid_sub(s, sid_sub) != 0)
        return uvcci_say(&to, rc, "%s/%s: %s", st->path, name, uvcc_error_text(rc));
    return uvcci_say(&to, rc, "%s/%s: is of %s; put back the one that belongs there", st->path,
                     name,
                     memcmp(info->sid_sub, sid_sub, sizeof sid_sub) != 0 ? "another job or worker"
                     : info->party != st->cfg.party                      ? "another party"
                     : info->step != step                                ? "another step"
                                                                         : "another program");
}

/* Reads one, notes whose it is, and gives it to the session, if there is one. */
static int take_one(uvcc_store *st, uvcci_worker *w, uint32_t step, uvcc_session *s) {
    uint8_t *file;
    const uint8_t *data;
    size_t file_len, len;
    uvcc_checkpoint_info info = {0};
    int rc = open_checkpoint(st, w, step, &file, &file_len, &data, &len);
    if (rc != 0)
        return rc;
    rc = uvcc_checkpoint_read(data, len, &info);
    if (rc == 0 && (info.step != step || info.party != st->cfg.party))
        rc = UVCC_ERR_MISMATCH;
    uvcci_kept *k = kept_at(w, step);
    if (rc == 0 && k != NULL) {
        k->read = true;
        k->run = info.run;
        memcpy(k->lineage, info.lineage, sizeof k->lineage);
    }
    if (rc == 0 && s != NULL)
        rc = uvcc_session_resume(s, data, len);
    if (rc != 0)
        rc = refuse(st, w, step, s, &info, rc);
    uvcci_file_free(&st->cfg.alloc, file, file_len);
    return rc;
}

/* ---- offering ---- */

/* A name that nobody has: what was set aside before stays. */
static int set_aside(uvcc_store *st, uvcci_worker *w, uint32_t step) {
    const uvcci_says to = uvcci_store_says(st);
    char name[UVCCI_NAME_BYTES], aside[2 * UVCCI_NAME_BYTES];
    uvcci_store_name(w, step, name);
    (void)snprintf(aside, sizeof aside, "%s.damaged", name);
    for (unsigned i = 2; uvcci_file_there(&st->dir, aside) && i < ASIDE_MAX; i++)
        (void)snprintf(aside, sizeof aside, "%s.damaged-%u", name, i);
    if (uvcci_file_there(&st->dir, aside) || renameat(st->dir.fd, name, st->dir.fd, aside) != 0)
        return uvcci_say(&to, UVCC_ERR_IO, "%s/%s: is damaged, and cannot be set aside: %s",
                         st->path, name, strerror(errno));
    uvcci_store_warn(st, "%s/%s: is damaged, set aside as %s", st->path, name, aside);
    forget(w, kept_at(w, step));
    return 0;
}

/* The latest runs first, of a run the latest steps: what a session has no room for is of histories
 * that were left. */
static bool before(const uvcci_kept *a, const uvcci_kept *b) {
    return a->run > b->run || (a->run == b->run && a->step > b->step);
}

static void order(uvcci_worker *w) {
    for (uint32_t i = 1; i < w->kept_count; i++)
        for (uint32_t k = i; k > 0 && before(&w->kept[k], &w->kept[k - 1]); k--) {
            const uvcci_kept swap = w->kept[k];
            w->kept[k] = w->kept[k - 1];
            w->kept[k - 1] = swap;
        }
}

/* Which are whole. Where none is, it may be the key that is another's: none is set aside then. */
static int look_at_all(uvcc_store *st, uvcci_worker *w) {
    uint32_t bad = 0;
    int rc = 0;
    for (uint32_t i = 0; i < w->kept_count && rc == 0; i++) {
        rc = take_one(st, w, w->kept[i].step, NULL);
        w->kept[i].bad = rc == UVCC_ERR_AUTH;
        bad += w->kept[i].bad;
        if (w->kept[i].bad && st->cfg.set_aside && bad < w->kept_count)
            rc = 0;
    }
    for (uint32_t i = w->kept_count; i > 0 && rc == 0; i--)
        if (w->kept[i - 1].bad)
            rc = set_aside(st, w, w->kept[i - 1].step);
    return rc;
}

/* What is offered: all, or those that the workers of a party have in common. */
typedef struct choice {
    const uvcc_store_kept *common; /* NULL: all */
    uint32_t count;
    bool anew;
} choice;

static bool chosen(const choice *c, const uvcci_kept *k) {
    for (uint32_t i = 0; c->common != NULL && i < c->count; i++)
        if (c->common[i].step == k->step && c->common[i].run == k->run)
            return true;
    return c->common == NULL;
}

/* Every one, or those that there is room for. */
static int offer_kept(uvcc_store *st, uvcci_worker *w, uvcc_session *s, const choice *c,
                      uint32_t room, uint32_t *offered) {
    int rc = 0;
    *offered = 0;
    if (w->kept_count > room || st->cfg.set_aside || c->common != NULL)
        rc = look_at_all(st, w);
    if (w->kept_count > room)
        order(w);
    for (uint32_t i = 0; i < w->kept_count && *offered < room && rc == 0; i++) {
        const uvcci_kept *k = &w->kept[i];
        if (!chosen(c, k))
            continue;
        ++*offered;
        rc = take_one(st, w, k->step, s);
        if (rc != 0 || (!is_zero(w->loaded_lineage) && k->step < w->loaded_step))
            continue;
        w->loaded_step = k->step;
        memcpy(w->loaded_lineage, k->lineage, sizeof w->loaded_lineage);
    }
    return rc;
}

/* Rule 3, by the names: one that is damaged counts. */
static bool may_begin(const uvcc_store *st, const uvcci_worker *w) {
    const uint64_t past = (uint64_t)w->next_step + 2 * (uint64_t)w->every;
    for (uint32_t i = 0; i < w->kept_count; i++)
        if (w->kept[i].step >= past)
            return false;
    return !st->cfg.must_resume;
}

static void begin_session(uvcc_store *st, uvcci_worker *w, uvcc_session *s) {
    uvcci_worker *old = worker_of(st, s);
    if (old != NULL) /* freed since, and its memory taken again */
        old->session = NULL;
    w->session = NULL;
    w->ready = w->anew = w->unresumed = w->unwritten = w->any_written = false;
    w->first = w->written = w->loaded_step = 0;
    w->maker = w->made_unwritten = w->any_given = w->given_marked = false;
    memset(w->loaded_lineage, 0, sizeof w->loaded_lineage);
    memset(w->lineage, 0, sizeof w->lineage);
    w->kept_count = 0;
}

static uvcci_worker *configured(const uvcc_store *st, const uvcc_config *cfg) {
    uvcci_worker *w = st->workers;
    while (w != NULL && (w->replica != cfg->place.replica || w->stage != cfg->place.stage ||
                         w->tp_rank != cfg->place.tp_rank))
        w = w->next;
    return w != NULL && w->configured && w->run == st->current ? w : NULL;
}

/* The worker's files, by their names. */
static int list_kept(uvcc_store *st, uvcci_worker *w) {
    const uvcci_says to = uvcci_store_says(st);
    listing l = {st, w};
    w->kept_count = 0;
    const int rc = uvcci_store_scan(st, list, &l);
    return rc == UVCC_ERR_NOMEM
               ? uvcci_say(&to, rc, "%s: no memory for a list of checkpoints", st->path)
               : rc;
}

static int not_configured(uvcc_store *st, const char *call) {
    const uvcci_says to = uvcci_store_says(st);
    return uvcci_say(&to, UVCC_ERR_STATE, "%s: uvcc_store_configure() comes before %s()", st->path,
                     call);
}

int uvcc_store_list(uvcc_store *st, const uvcc_config *cfg, uvcc_store_kept *out, uint32_t cap,
                    bool *anew) {
    if (st == NULL || cfg == NULL || anew == NULL || (out == NULL && cap != 0))
        return UVCC_ERR_USAGE;
    uvcci_worker *w = configured(st, cfg);
    if (w == NULL)
        return not_configured(st, "uvcc_store_list");
    int rc = list_kept(st, w);
    if (rc == 0)
        rc = look_at_all(st, w);
    if (rc != 0)
        return rc;
    order(w);
    *anew = may_begin(st, w);
    for (uint32_t i = 0; i < w->kept_count && i < cap; i++)
        out[i] = (uvcc_store_kept){.step = w->kept[i].step, .run = w->kept[i].run};
    return (int)w->kept_count;
}

/* Nothing to go on from, and the job may not begin. */
static int nothing(uvcc_store *st, const uvcci_worker *w, const choice *c) {
    const uvcci_says to = uvcci_store_says(st);
    return uvcci_say(&to, UVCC_ERR_NOT_FOUND,
                     "%s: there is no checkpoint of worker r%u s%u t%u%s to go on from; put them "
                     "back from a copy",
                     st->path, w->replica, w->stage, w->tp_rank,
                     c->common != NULL ? " that all workers of the party have" : "");
}

static int offer(uvcc_store *st, uvcc_session *s, const uvcc_config *cfg, const choice *c) {
    const uvcci_says to = uvcci_store_says(st);
    uvcci_worker *w = configured(st, cfg);
    if (w == NULL)
        return not_configured(st, "uvcc_store_offer");
    begin_session(st, w, s);
    int rc = list_kept(st, w);
    if (rc != 0)
        return rc;
    const bool begins = may_begin(st, w) && c->anew;
    const bool any = c->common == NULL ? w->kept_count != 0 : c->count != 0;
    uint32_t offered = 0;
    if (begins && any && (rc = uvcc_session_resume(s, NULL, 0)) != 0)
        return uvcci_say(&to, rc, "%s: the session takes no offer: %s", st->path,
                         uvcc_session_error_detail(s));
    rc = offer_kept(st, w, s, c, begins ? OFFERS - 1 : OFFERS, &offered);
    if (rc == 0 && !begins && offered == 0)
        rc = nothing(st, w, c);
    if (rc == 0)
        rc = uvcci_triples_begin(st, w);
    if (rc == 0)
        w->session = s;
    return rc;
}

int uvcc_store_offer(uvcc_store *st, uvcc_session *s, const uvcc_config *cfg) {
    const choice all = {.anew = true};
    return st == NULL || s == NULL || cfg == NULL ? UVCC_ERR_USAGE : offer(st, s, cfg, &all);
}

int uvcc_store_offer_common(uvcc_store *st, uvcc_session *s, const uvcc_config *cfg,
                            const uvcc_store_kept *common, uint32_t count, bool anew) {
    static const uvcc_store_kept none;
    const choice these = {common != NULL ? common : &none, count, anew};
    if (st == NULL || s == NULL || cfg == NULL || (common == NULL && count != 0))
        return UVCC_ERR_USAGE;
    return offer(st, s, cfg, &these);
}

int uvcc_store_make(uvcc_store *st, uvcc_session *s, const uvcc_config *cfg) {
    if (st == NULL || s == NULL || cfg == NULL)
        return UVCC_ERR_USAGE;
    const uvcci_says to = uvcci_store_says(st);
    uvcci_worker *w = configured(st, cfg);
    if (w == NULL)
        return not_configured(st, "uvcc_store_make");
    if (!cfg->triples.only || cfg->triples.run != UVCC_TRIPLES_ANY_RUN)
        return uvcci_say(&to, UVCC_ERR_CONFIG,
                         "%s: keeps triples for any run: set triples.only, and triples.run to "
                         "UVCC_TRIPLES_ANY_RUN",
                         st->path);
    begin_session(st, w, s);
    w->maker = true;
    w->session = s;
    return 0;
}

/* ---- READY ---- */

static int write_run(uvcc_store *st) {
    int rc = uvcci_triples_stamp(st, st->seen_run);
    if (rc == 0)
        rc = uvcci_numbers_write(st, UVCCI_RUN_FILE, &st->seen_run, 1);
    if (rc != 0)
        return rc;
    st->run = st->seen_run;
    st->unwritten_run = false;
    return 0;
}

static int resume(uvcc_store *st, uvcci_worker *w) {
    const uvcci_says to = uvcci_store_says(st);
    int rc;
    if (w->anew)
        rc = uvcc_session_resume(w->session, NULL, 0);
    else
        rc = take_one(st, w, w->first, w->session);
    if (rc != 0 && w->anew)
        rc = uvcci_say(&to, rc, "%s: %s", st->path, uvcc_session_error_detail(w->session));
    w->unresumed = rc != 0;
    return rc;
}

/* The parties' run may be greater than this one's own: it is used too. */
static int on_ready(uvcc_store *st, uvcci_worker *w, const uvcc_event *e) {
    w->ready = true;
    w->first = w->over = w->made = e->step;
    w->anew = is_zero(e->root);
    memcpy(w->lineage, e->root, sizeof w->lineage);
    for (uint32_t i = 0; i < w->kept_count; i++)
        w->kept[i].ours = !w->anew && w->kept[i].read && w->kept[i].step == e->step &&
                          memcmp(w->kept[i].lineage, e->root, 32) == 0;
    if (e->run > st->seen_run)
        st->seen_run = e->run;
    st->unwritten_run = st->unwritten_run || st->seen_run > st->run;
    w->unresumed = memcmp(w->loaded_lineage, e->root, 32) != 0;
    int rc = w->unresumed ? resume(st, w) : 0;
    if (rc == 0 && w->anew)
        rc = w->maker ? 0 : UVCC_STORE_SET; /* a number that is not written is told of before the
                                               first step */
    const int written = st->unwritten_run ? write_run(st) : 0;
    return rc != 0 ? rc : written;
}

/* ---- writing, deleting ---- */

static int write_checkpoint(uvcc_store *st, uvcci_worker *w) {
    const uvcc_allocator *al = &st->cfg.alloc;
    const uvcci_says to = uvcci_store_says(st);
    char name[UVCCI_NAME_BYTES], label[LABEL_BYTES];
    uvcc_checkpoint_info info;
    const uint8_t *data;
    uint32_t step;
    size_t len;
    w->unwritten = true;
    int rc = uvcc_session_checkpoint(w->session, &step, &data, &len);
    if (rc == 0)
        rc = uvcc_checkpoint_read(data, len, &info);
    if (rc != 0)
        return uvcci_say(&to, rc, "%s: the session has no checkpoint: %s", st->path,
                         uvcc_error_text(rc));
    uvcci_store_name(w, step, name);
    label_of(st, w, step, label);
    uvcci_kept *k = keep(st, w, step);
    uint8_t *sealed = k != NULL ? al->alloc(al->user, len + UVCCI_SEAL_BYTES, UVCC_MEM_WIRE) : NULL;
    if (sealed == NULL) {
        if (k != NULL && !uvcci_file_there(&st->dir, name))
            forget(w, k);
        return uvcci_say(&to, UVCC_ERR_NOMEM, "%s/%s: no memory to write it", st->path, name);
    }
    rc = uvcci_seal(sealed, label, st->key, &st->cfg.random, data, len);
    if (rc != 0)
        rc = uvcci_say(&to, rc, "%s/%s: there are no random bytes to seal it", st->path, name);
    else
        rc = uvcci_file_write(&st->dir, name, sealed, len + UVCCI_SEAL_BYTES, &to);
    uvcci_file_free(al, sealed, len + UVCCI_SEAL_BYTES);
    if (rc != 0) {
        if (!uvcci_file_there(&st->dir, name))
            forget(w, k);
        return rc;
    }
    *k = (uvcci_kept){.step = step, .run = info.run, .read = true, .ours = true};
    memcpy(k->lineage, info.lineage, sizeof k->lineage);
    w->unwritten = false;
    w->any_written = true;
    w->written = step;
    return 0;
}

/* Rule 2: to `step` all three agreed, so all have the last checkpoint of an interval before, and
 * nobody needs one before that; where other workers may be behind, `step` is theirs. What cannot be
 * deleted is tried again at the next step. */
static void drop_old(uvcc_store *st, uvcci_worker *w, uint32_t step) {
    char name[UVCCI_NAME_BYTES];
    uint32_t latest = 0;
    for (uint32_t i = 0; i < w->kept_count; i++)
        if (w->kept[i].ours && (uint64_t)w->kept[i].step + w->every + st->cfg.behind <= step &&
            w->kept[i].step > latest)
            latest = w->kept[i].step;
    for (uint32_t i = 0; i < w->kept_count;) {
        uvcci_kept *k = &w->kept[i];
        if (k->step >= latest) {
            i++;
            continue;
        }
        uvcci_store_name(w, k->step, name);
        if (unlinkat(st->dir.fd, name, 0) != 0 && errno != ENOENT) {
            uvcci_store_warn(st, "%s/%s: cannot be deleted: %s", st->path, name, strerror(errno));
            i++;
            continue;
        }
        forget(w, k);
    }
}

int uvcc_store_event(uvcc_store *st, uvcc_session *s, const uvcc_event *e) {
    if (st == NULL || s == NULL || e == NULL)
        return UVCC_ERR_USAGE;
    const uvcci_says to = uvcci_store_says(st);
    uvcci_worker *w = worker_of(st, s);
    if (w == NULL)
        return uvcci_say(&to, UVCC_ERR_NOT_FOUND,
                         "%s: the session was not given to uvcc_store_offer()", st->path);
    if (e->kind == UVCC_EVENT_READY)
        return on_ready(st, w, e);
    if (e->kind == UVCC_EVENT_CHECKPOINT)
        return write_checkpoint(st, w);
    if (e->kind == UVCC_EVENT_TRIPLES && w->maker)
        return uvcci_triples_write(st, w);
    if (e->kind == UVCC_EVENT_STEP_FINISHED || e->kind == UVCC_EVENT_STEP_CANCELLED)
        w->over = e->step + 1;
    if (e->kind == UVCC_EVENT_STEP_STARTED && w->every != 0)
        drop_old(st, w, e->step);
    if (e->kind == UVCC_EVENT_PEER_RESTARTED && e->run > st->seen_run)
        st->seen_run = e->run;
    if (e->kind == UVCC_EVENT_ABORTED && e->reason == UVCC_ABORT_SKS)
        return uvcci_numbers_write(st, UVCCI_REFUSED_FILE, &e->step, 1);
    return 0;
}

/* ---- steps ---- */

/* Rule 1: the last checkpoint that must be durable before `step`, if the session makes one: of the
 * first step, if it began anew, and of every multiple of the interval after it. */
static bool due_before(const uvcci_worker *w, uint32_t step, uint32_t *due) {
    if (w->every == 0 || (uint64_t)w->first + w->every > step)
        return false;
    const uint32_t last = (step - w->every) / w->every * w->every;
    if (last <= w->first && !w->anew)
        return false;
    *due = last > w->first ? last : w->first;
    return true;
}

/* A session holds what it made of one step only: it is on the disk before the next one begins. */
static int made_before(uvcc_store *st, uvcci_worker *w, uint32_t step) {
    const uvcci_says to = uvcci_store_says(st);
    const int rc = w->made_unwritten ? uvcci_triples_write(st, w) : 0;
    if (rc != 0 || step <= w->made)
        return rc;
    return uvcci_say(&to, UVCC_ERR_AGAIN, "%s: step %u waits for the triples of step %u", st->path,
                     step, w->made);
}

int uvcc_store_may_agree(uvcc_store *st, uvcc_session *s, uint32_t step) {
    if (st == NULL || s == NULL)
        return UVCC_ERR_USAGE;
    const uvcci_says to = uvcci_store_says(st);
    uvcci_worker *w = worker_of(st, s);
    uint32_t due;
    if (w == NULL || !w->ready)
        return uvcci_say(&to, UVCC_ERR_STATE, "%s: the session is not READY here", st->path);
    int rc = st->unwritten_run ? write_run(st) : 0;
    if (rc == 0 && w->unresumed)
        rc = resume(st, w);
    if (rc != 0)
        return rc;
    if (w->maker)
        return made_before(st, w, step);
    rc = w->unwritten ? write_checkpoint(st, w) : 0;
    if (!due_before(w, step, &due) || (w->any_written && w->written >= due))
        return 0;
    if (rc != 0)
        return rc;
    return uvcci_say(&to, UVCC_ERR_AGAIN,
                     "%s: step %u waits for the checkpoint of step %u: poll events", st->path, step,
                     due);
}

static int count(uvcc_store *st, uvcci_worker *w, const char *what, uint32_t step) {
    char why[UVCC_STORE_TEXT_BYTES];
    const uvcci_says to = uvcci_store_says(st);
    const int rc = uvcci_counts_keep(st, w);
    if (rc == 0)
        return 0;
    memcpy(why, st->text, sizeof why);
    return uvcci_say(&to, rc, "%s of step %u was taken, and is not counted on the disk: %.800s",
                     what, step, why);
}

/* What a session refuses is in its own words. */
static int refused(uvcc_store *st, const uvcc_session *s, int rc) {
    const uvcci_says to = uvcci_store_says(st);
    return uvcci_say(&to, rc, "%s", uvcc_session_error_detail(s));
}

int uvcc_store_step(uvcc_store *st, uvcc_session *s, uint32_t step, uint32_t entry, uint64_t now) {
    int rc = uvcc_store_may_agree(st, s, step);
    if (rc == 0)
        rc = uvcci_triples_give(st, worker_of(st, s), step);
    if (rc != 0)
        return rc;
    rc = uvcc_session_step(s, step, entry, now);
    return rc == 0 ? count(st, worker_of(st, s), "the agreement", step) : refused(st, s, rc);
}

int uvcc_store_input(uvcc_store *st, uvcc_session *s, uint32_t step, uint32_t id, const int64_t *v,
                     uint64_t now) {
    if (st == NULL || s == NULL || v == NULL)
        return UVCC_ERR_USAGE;
    const uvcci_says to = uvcci_store_says(st);
    uvcci_worker *w = worker_of(st, s);
    if (w == NULL)
        return uvcci_say(&to, UVCC_ERR_NOT_FOUND,
                         "%s: the session was not given to uvcc_store_offer()", st->path);
    const int rc = uvcc_session_input(s, step, id, v, now);
    return rc == 0 ? count(st, w, "an input", step) : refused(st, s, rc);
}
