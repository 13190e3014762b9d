/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c - see checkpoint.h. */
#include "checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <uvcc/store.h>

#include "../dir_lock.h"
#include "../files.h"
#include "../report.h"
#include "../sealed.h"

#define RUN_LAST    ((1u << 24) - 1) /* wire.md 5 */
#define PATH_BYTES  4096u
#define LABEL_BYTES 128u
#define STEPS_KEPT  2u
#define FIRST_KEPT  0u /* step of the first checkpoint of a model */

/* ---- names ---- */

__attribute__((format(printf, 2, 3))) static void path_of(char out[PATH_BYTES], const char *format,
                                                          ...) {
    va_list args;
    va_start(args, format);
    if (vsnprintf(out, PATH_BYTES, format, args) >= (int)PATH_BYTES)
        out[0] = '\0'; /* which no call opens */
    va_end(args);
}

/* What a worker's file is called, and what its seal says. */
static void file_of(char out[PATH_BYTES], char label[LABEL_BYTES], const char *dir, unsigned party,
                    const uvcc_transformer_worker *at, uint32_t step) {
    path_of(out, "%s/party-%u/r%u-s%u-t%u.step-%u", dir, party, at->replica, at->stage,
            at->tensor_rank, step);
    (void)snprintf(label, LABEL_BYTES, "uvcc checkpoint party %u r%u s%u t%u step %u", party,
                   at->replica, at->stage, at->tensor_rank, step);
}

static int cannot(const char *path, const char *what, int why) {
    return report_error(EXIT_FAILED, "%s: %s: %s", path, what, strerror(why));
}

static int read_key(const char *dir, unsigned party, uint8_t key[32]) {
    char path[PATH_BYTES], message[UVCC_STORE_TEXT_BYTES];
    path_of(path, "%s/party-%u/key", dir, party);
    if (uvcc_key_read(path, UVCC_KEY_STORAGE, key, message, sizeof message) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    return EXIT_DONE;
}

int lm_checkpoint_config(const char *dir, uvcc_transformer_config *cfg) {
    lm_manifest m;
    bool any;
    const int status = lm_manifest_read(dir, &m, &any);
    if (status == EXIT_DONE && !any)
        return report_error(EXIT_BAD_INPUT,
                            "%s: there is no kept model in it; name a directory that uvcc train "
                            "--checkpoint made",
                            dir);
    *cfg = m.cfg;
    cfg->warmup = cfg->warmup < cfg->steps ? cfg->warmup : cfg->steps;
    return status;
}

/* ---- which steps are there ---- */

static uvcc_transformer_worker worker_at(const uvcc_transformer_config *c, uint32_t i) {
    return (uvcc_transformer_worker){i / c->tensor_ranks / c->stages,
                                     i / c->tensor_ranks % c->stages, i % c->tensor_ranks};
}

/* Shares that a directory has. */
typedef struct share {
    uint8_t party;
    uvcc_transformer_worker at;
    uint32_t step;
} share;
typedef struct shares {
    share *of;
    size_t count, room;
} shares;

static bool parse_name(const char *name, share *out) {
    char again[64];
    if (sscanf(name, "r%u-s%u-t%u.step-%u", &out->at.replica, &out->at.stage, &out->at.tensor_rank,
               &out->step) != 4)
        return false;
    (void)snprintf(again, sizeof again, "r%u-s%u-t%u.step-%u", out->at.replica, out->at.stage,
                   out->at.tensor_rank, out->step);
    return strcmp(name, again) == 0;
}

static int add(shares *all, const share *s) {
    if (all->count == all->room) {
        const size_t room = 2 * all->room + 64;
        share *more = realloc(all->of, room * sizeof *more);
        if (more == NULL)
            return report_error(EXIT_FAILED, "out of memory");
        all->of = more;
        all->room = room;
    }
    all->of[all->count++] = *s;
    return EXIT_DONE;
}

/* A party's directory that is not there has none. */
static int find_shares(const char *dir, shares *out) {
    char path[PATH_BYTES];
    int status = EXIT_DONE;
    *out = (shares){0};
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
        path_of(path, "%s/party-%u", dir, p);
        DIR *d = opendir(path);
        if (d == NULL && errno == ENOENT)
            continue;
        if (d == NULL)
            return report_error(EXIT_BAD_INPUT, "%s: %s", path, strerror(errno));
        struct dirent *e;
        share s = {.party = (uint8_t)p};
        while (status == EXIT_DONE && (e = readdir(d)) != NULL)
            if (parse_name(e->d_name, &s))
                status = add(out, &s);
        (void)closedir(d);
    }
    return status;
}

static bool same_worker(const uvcc_transformer_worker *a, const uvcc_transformer_worker *b) {
    return a->replica == b->replica && a->stage == b->stage && a->tensor_rank == b->tensor_rank;
}

static bool has(const shares *all, unsigned party, const uvcc_transformer_worker *at,
                uint32_t step) {
    for (size_t i = 0; i < all->count; i++)
        if (all->of[i].party == party && all->of[i].step == step && same_worker(&all->of[i].at, at))
            return true;
    return false;
}

static bool party_has(const shares *all, const uvcc_transformer_config *c, unsigned party,
                      uint32_t step) {
    for (uint32_t i = 0; i < c->replicas * c->stages * c->tensor_ranks; i++) {
        const uvcc_transformer_worker at = worker_at(c, i);
        if (!has(all, party, &at, step))
            return false;
    }
    return true;
}

static bool party_any(const shares *all, unsigned party) {
    for (size_t i = 0; i < all->count; i++)
        if (all->of[i].party == party)
            return true;
    return false;
}

#define STEPS_BYTES 160u

/* The steps of one worker, in order as far as there is room: "1, 2"; "none". */
static void say_steps(const shares *all, unsigned party, const uvcc_transformer_worker *at,
                      char out[STEPS_BYTES]) {
    size_t n = 0;
    uint32_t from = 0;
    (void)snprintf(out, STEPS_BYTES, "none");
    while (n < STEPS_BYTES) {
        bool found = false;
        uint32_t least = UINT32_MAX;
        for (size_t i = 0; i < all->count; i++) {
            const share *s = &all->of[i];
            if (s->party == party && s->step >= from && s->step <= least &&
                same_worker(&s->at, at)) {
                found = true;
                least = s->step;
            }
        }
        if (!found || least == UINT32_MAX)
            return;
        n += (size_t)snprintf(out + n, STEPS_BYTES - n, "%s%u", n != 0 ? ", " : "step ", least);
        from = least + 1;
    }
}

/* Of each party the worker that has the least: all others of it have as much, or other steps. */
static int nothing_in_common(const char *dir, const shares *all, const uvcc_transformer_config *c) {
    char have[UVCC_PARTIES][STEPS_BYTES];
    uvcc_transformer_worker worst[UVCC_PARTIES];
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        size_t least = SIZE_MAX;
        for (uint32_t i = 0; i < c->replicas * c->stages * c->tensor_ranks; i++) {
            const uvcc_transformer_worker at = worker_at(c, i);
            size_t n = 0;
            for (size_t k = 0; k < all->count; k++)
                n += all->of[k].party == p && same_worker(&all->of[k].at, &at);
            if (n < least) {
                least = n;
                worst[p] = at;
            }
        }
        say_steps(all, p, &worst[p], have[p]);
    }
#define WHO(p) worst[p].replica, worst[p].stage, worst[p].tensor_rank, have[p]
    return report_error(
        EXIT_BAD_INPUT,
        "%s: the parties have no step in common: of party 0's workers r%u s%u t%u has %s, of party "
        "1's r%u s%u t%u has %s, of party 2's r%u s%u t%u has %s; nothing was changed: put back "
        "what "
        "is missing from a copy, or give another directory to begin anew",
        dir, WHO(0), WHO(1), WHO(2));
#undef WHO
}

static int last_of(const char *dir, const shares *all, const uvcc_transformer_config *c,
                   uint32_t *step) {
    const uvcc_transformer_worker first = worker_at(c, 0);
    bool found = false;
    *step = 0;
    for (size_t i = 0; i < all->count; i++) {
        const share *s = &all->of[i];
        bool every = s->party == 0 && same_worker(&s->at, &first) && (!found || s->step > *step);
        for (unsigned p = 0; p < UVCC_PARTIES && every; p++)
            every = party_has(all, c, p, s->step);
        if (every) {
            found = true;
            *step = s->step;
        }
    }
    return found ? EXIT_DONE : nothing_in_common(dir, all, c);
}

static bool there(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

/* Shares are of no use without what they were made under, and what is made anew in its place does
 * harm: a run that was used comes again, other shares go under another key. */
static int missing(const char *path, const char *why) {
    return report_error(EXIT_BAD_INPUT, "%s is missing, but shares are there: %s", path, why);
}

static int check_parts(const char *dir, const shares *all) {
    char path[PATH_BYTES];
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        path_of(path, "%s/party-%u/key", dir, p);
        if (party_any(all, p) && !there(path))
            return missing(path, "they are sealed under it; put it back from a copy, or give "
                                 "another directory to begin anew");
        path_of(path, "%s/party-%u/run", dir, p);
        if (all->count != 0 && !there(path))
            return missing(path,
                           "it says which runs were, none of which may come again; put it back "
                           "from a copy, take the greatest of the other parties', or give another "
                           "directory to begin anew");
    }
    return EXIT_DONE;
}

int lm_checkpoint_last(const char *dir, const uvcc_transformer_config *cfg, bool *any,
                       uint32_t *step) {
    shares all;
    int status = find_shares(dir, &all);
    *any = all.count != 0;
    if (status == EXIT_DONE && *any)
        status = check_parts(dir, &all);
    if (status == EXIT_DONE && *any)
        status = last_of(dir, &all, cfg, step);
    free(all.of);
    return status;
}

/* ---- numbers that are kept: of the last run, of a step that is refused ---- */

/* The number in a file; false if it is anything else. */
static bool parse_number(const uint8_t *bytes, size_t len, uint32_t *out) {
    char again[32];
    uint64_t v = 0;
    for (size_t i = 0; i < len && bytes[i] >= '0' && bytes[i] <= '9' && v <= UINT32_MAX; i++)
        v = 10 * v + (uint64_t)(bytes[i] - '0');
    *out = (uint32_t)v;
    const int n = snprintf(again, sizeof again, "%u\n", *out);
    return (size_t)n == len && memcmp(again, bytes, len) == 0;
}

/* The greatest such number of the parties. One that cannot be told is refused: what it says not to
 * do again must not be done. */
static int read_numbers(const char *dir, const char *name, bool *any, uint32_t *most) {
    char path[PATH_BYTES];
    *any = false;
    *most = 0;
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        uint8_t *bytes;
        size_t len;
        struct stat st;
        path_of(path, "%s/party-%u/%s", dir, p, name);
        if (stat(path, &st) != 0)
            continue;
        if (file_read(path, EXIT_FAILED, &bytes, &len) != EXIT_DONE)
            return EXIT_FAILED;
        uint32_t v;
        const bool good = parse_number(bytes, len, &v) && v != UINT32_MAX;
        free(bytes);
        if (!good)
            return report_error(EXIT_BAD_INPUT,
                                "%s: is not the number that stood there; it is damaged", path);
        *any = true;
        *most = v > *most ? v : *most;
    }
    return EXIT_DONE;
}

static int write_numbers(const char *dir, const char *name, uint32_t v) {
    char path[PATH_BYTES], text[32];
    int n = snprintf(text, sizeof text, "%u\n", v);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        path_of(path, "%s/party-%u/%s", dir, p, name);
        int why = file_write(path, text, (size_t)n);
        if (why != 0)
            return cannot(path, "cannot be written", why);
    }
    return EXIT_DONE;
}

int lm_checkpoint_lock(const char *dir) {
    int fd; /* the process's end gives it back */
    return dir_lock(dir, &fd);
}

int lm_checkpoint_next_run(const char *dir, uint32_t *run) {
    bool any;
    int status = read_numbers(dir, "run", &any, run);
    if (status == EXIT_DONE && any && *run >= RUN_LAST)
        return report_error(EXIT_BAD_INPUT,
                            "%s: run %u was the last that there can be; give another directory to "
                            "begin anew",
                            dir, *run);
    if (status == EXIT_DONE && any)
        ++*run;
    return status;
}

int lm_checkpoint_take_run(const char *dir, uint32_t run) {
    return write_numbers(dir, "run", run);
}

int lm_checkpoint_refused(const char *dir, job_refusal *out) {
    return read_numbers(dir, "sks-refused", &out->refused, &out->step);
}

int lm_checkpoint_refuse(const char *dir, uint32_t step) {
    return write_numbers(dir, "sks-refused", step);
}

/* ---- opening ---- */

/* Under another name first: a key's name never stands for half a key. */
static int make_key(const char *dir, unsigned party) {
    char path[PATH_BYTES], part[PATH_BYTES], message[UVCC_STORE_TEXT_BYTES];
    uint8_t key[32];
    path_of(path, "%s/party-%u/key", dir, party);
    path_of(part, "%s/party-%u/key.part", dir, party);
    if (there(path))
        return EXIT_DONE;
    (void)unlink(part); /* of a process that was killed */
    randombytes_buf(key, sizeof key);
    const int rc = uvcc_key_write(part, UVCC_KEY_STORAGE, key, message, sizeof message);
    sodium_memzero(key, sizeof key);
    if (rc != 0)
        return report_error(EXIT_FAILED, "%s", message);
    return rename(part, path) == 0 ? EXIT_DONE : cannot(path, "cannot be made", errno);
}

/* A run that ended while it wrote the first checkpoint of all has finished nothing: it begins anew.
 */
static bool only_begun(const shares *all, const uvcc_transformer_config *c) {
    for (size_t i = 0; i < all->count; i++)
        if (all->of[i].step > FIRST_KEPT)
            return false;
    bool every = true;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        every = every && party_has(all, c, p, FIRST_KEPT);
    return !every;
}

/* Shares of later steps than all parties have would be taken for those that this run will make, if
 * it ended in between. They stay, under another name: their other parties' may come back. */
static int set_aside(const char *dir, const shares *all, const lm_start *start) {
    for (size_t i = 0; i < all->count; i++) {
        char path[PATH_BYTES], aside[PATH_BYTES], label[LABEL_BYTES];
        const share *s = &all->of[i];
        if (start->resumes && s->step <= start->step)
            continue;
        file_of(path, label, dir, s->party, &s->at, s->step);
        path_of(aside, "%s.aside", path);
        if (*aside == '\0' || rename(path, aside) != 0)
            return cannot(path, "cannot be set aside", errno);
    }
    return EXIT_DONE;
}

/* What another command keeps is no model of this one that lost its description. */
static int begin_kept(const char *dir, const lm_kept *kept, const shares *all) {
    static const char *const of[][2] = {{"model.json", "uvcc train --model transformer"},
                                        {"finetune.json", "uvcc train --model DIR"}};
    char path[PATH_BYTES];
    for (size_t i = 0; i < 2; i++) {
        path_of(path, "%s/%s", dir, of[i][0]);
        if (strcmp(of[i][0], kept->file) != 0 && there(path))
            return report_error(EXIT_BAD_INPUT,
                                "%s has a model of %s; go on with that command, or give another "
                                "directory",
                                dir, of[i][1]);
    }
    path_of(path, "%s/%s", dir, kept->file);
    return all->count == 0 ? kept->write(kept->user, dir)
                           : missing(path, "it says what they are of; put it back from a copy, or "
                                           "give another directory to begin anew");
}

static int open_kept(const char *dir, const lm_kept *kept, const shares *all, lm_start *out) {
    bool any;
    int status = kept->read(kept->user, dir, &any);
    if (status == EXIT_DONE && !any)
        return begin_kept(dir, kept, all);
    if (status == EXIT_DONE)
        status = kept->compare(kept->user, dir);
    if (status == EXIT_DONE)
        status = check_parts(dir, all);
    out->resumes = all->count != 0 && !only_begun(all, kept->workers);
    if (status == EXIT_DONE && out->resumes)
        status = last_of(dir, all, kept->workers, &out->step);
    return status == EXIT_DONE ? kept->steps(kept->user, dir, out->step) : status;
}

/* The lock comes first: of two processes each would take the other's run for its own. */
int lm_checkpoint_open_kept(const char *dir, const lm_kept *kept, lm_start *out) {
    char path[PATH_BYTES];
    shares all = {0};
    *out = (lm_start){0};
    int why = dir_make(dir);
    if (why != 0)
        return report_error(EXIT_BAD_INPUT,
                            "--checkpoint %s: cannot be made: %s; choose another place", dir,
                            strerror(why));
    int status = lm_checkpoint_lock(dir);
    if (status == EXIT_DONE)
        status = find_shares(dir, &all);
    if (status == EXIT_DONE)
        status = open_kept(dir, kept, &all, out);
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
        path_of(path, "%s/party-%u", dir, p);
        why = dir_make(path);
        status = why == 0 ? make_key(dir, p) : cannot(path, "cannot be made", why);
    }
    if (status == EXIT_DONE)
        status = set_aside(dir, &all, out);
    free(all.of);
    return status == EXIT_DONE ? lm_checkpoint_next_run(dir, &out->run) : status;
}

/* ---- of a language model ---- */

typedef struct manifests {
    const lm_manifest *want;
    lm_manifest kept;
    bool extend;
} manifests;

static int read_manifest(void *user, const char *dir, bool *any) {
    return lm_manifest_read(dir, &((manifests *)user)->kept, any);
}

static int write_manifest(void *user, const char *dir) {
    return lm_manifest_write(dir, ((manifests *)user)->want);
}

static int compare_manifests(void *user, const char *dir) {
    const manifests *m = user;
    return lm_manifest_compare(dir, &m->kept, m->want);
}

static int settle_steps(void *user, const char *dir, uint32_t done) {
    manifests *m = user;
    return lm_manifest_steps(dir, &m->kept, m->want, done, m->extend);
}

int lm_checkpoint_open(const char *dir, const lm_manifest *want, bool extend, lm_start *out) {
    manifests m = {.want = want, .extend = extend};
    const lm_kept kept = {.user = &m,
                          .file = "model.json",
                          .workers = &want->cfg,
                          .read = read_manifest,
                          .write = write_manifest,
                          .compare = compare_manifests,
                          .steps = settle_steps};
    const int status = lm_checkpoint_open_kept(dir, &kept, out);
    out->extended = m.kept.extended != 0;
    return status;
}

/* ---- shares ---- */

/* The last step before `before` that all who have shares have: without what is later a run goes on
 * from it. */
static bool step_before(const char *dir, uint32_t before, uint32_t *step) {
    shares all;
    bool found = false;
    if (find_shares(dir, &all) != EXIT_DONE)
        return false;
    for (size_t i = 0; i < all.count; i++) {
        const uint32_t s = all.of[i].step;
        bool every = s < before && (!found || s > *step);
        for (size_t k = 0; k < all.count && every; k++)
            every = has(&all, all.of[k].party, &all.of[k].at, s);
        if (every) {
            found = true;
            *step = s;
        }
    }
    free(all.of);
    return found;
}

static int damaged(const char *path, const char *dir, uint32_t step) {
    char instead[64] = "give another directory to begin anew";
    uint32_t earlier = 0;
    if (step_before(dir, step, &earlier))
        (void)snprintf(instead, sizeof instead, "remove it to go on from step %u, which all have",
                       earlier);
    return report_error(EXIT_BAD_INPUT,
                        "%s is damaged, or not sealed with this party's key; put it back from a "
                        "copy, or %s",
                        path, instead);
}

int lm_checkpoint_load(const char *dir, unsigned party, const uvcc_transformer_worker *at,
                       uint32_t step, uint8_t **bytes, size_t *len) {
    char path[PATH_BYTES], label[LABEL_BYTES];
    uint8_t key[32];
    int status = read_key(dir, party, key);
    if (status != EXIT_DONE)
        return status;
    file_of(path, label, dir, party, at, step);
    status = sealed_read(path, label, key, bytes, len);
    sodium_memzero(key, sizeof key);
    return status == SEALED_DAMAGED ? damaged(path, dir, step) : status;
}

/* Why a session does not take a file that its key opens. */
static int refuse_share(const char *path, const uint8_t *bytes, size_t len,
                        const uvcc_session *session, uint32_t step, int rc) {
    uvcc_checkpoint_info info;
    uint8_t sid_sub[32];
    if (rc != UVCC_ERR_MISMATCH || uvcc_checkpoint_read(bytes, len, &info) != 0 ||
        uvcc_session_sid_sub(session, sid_sub) != 0)
        return report_error(EXIT_FAILED, "%s: %s", path, uvcc_error_text(rc));
    return report_error(EXIT_BAD_INPUT, "%s: is %s; put back the one that belongs there", path,
                        memcmp(info.sid_sub, sid_sub, sizeof sid_sub) != 0
                            ? "of another job, made with another --seed"
                        : info.step != step ? "of another step"
                                            : "of another program, made with other options");
}

/* The sessions would find that out too, but cannot say whose files they are: of the party that the
 * two others do not agree with; of any, if no two do. */
static int other_history(const char *dir, const uvcc_transformer_worker *at,
                         const uvcc_checkpoint_info info[UVCC_PARTIES]) {
    char path[PATH_BYTES], label[LABEL_BYTES];
    bool same[UVCC_PARTIES]; /* as the next party */
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        same[p] = memcmp(info[p].lineage, info[(p + 1) % UVCC_PARTIES].lineage, 32) == 0;
    const unsigned odd = same[1] ? 0 : same[2] ? 1 : 2;
    file_of(path, label, dir, odd, at, info[odd].step);
    if (same[0] && same[1])
        return EXIT_DONE;
    return report_error(EXIT_BAD_INPUT,
                        "%s: is of another history than the files of the other parties: party 0's "
                        "was made by run %u, party 1's by run %u, party 2's by run %u; put back "
                        "three that were made together",
                        path, info[0].run, info[1].run, info[2].run);
}

int lm_checkpoint_resume(const host *h, const char *dir, uint32_t step) {
    int status = EXIT_DONE;
    for (uint32_t i = 0; i < h->workers && status == EXIT_DONE; i++) {
        uvcc_checkpoint_info info[UVCC_PARTIES];
        const uvcc_transformer_worker at = job_place(&h->worker[i]);
        for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
            char path[PATH_BYTES], label[LABEL_BYTES];
            uint8_t *bytes;
            size_t len;
            uvcc_session *session = h->worker[i].party[p].session;
            status = lm_checkpoint_load(dir, p, &at, step, &bytes, &len);
            if (status != EXIT_DONE)
                break;
            const int rc = uvcc_session_resume(session, bytes, len);
            file_of(path, label, dir, p, &at, step);
            if (rc != 0)
                status = refuse_share(path, bytes, len, session, step, rc);
            else if (uvcc_checkpoint_read(bytes, len, &info[p]) != 0)
                status = report_error(EXIT_BAD_INPUT, "%s: is damaged", path);
            sodium_memzero(bytes, len);
            free(bytes);
        }
        if (status == EXIT_DONE)
            status = other_history(dir, &at, info);
    }
    return status;
}

static int write_share(const char *dir, const host_worker *w, unsigned party) {
    char path[PATH_BYTES], label[LABEL_BYTES];
    const uvcc_transformer_worker at = job_place(w);
    const uint8_t *data;
    uint8_t key[32];
    uint32_t step;
    size_t len;
    const int rc = uvcc_session_checkpoint(w->party[party].session, &step, &data, &len);
    if (rc != 0)
        return report_error(EXIT_FAILED, "no checkpoint: %s", uvcc_error_text(rc));
    const int status = read_key(dir, party, key);
    if (status != EXIT_DONE)
        return status;
    file_of(path, label, dir, party, &at, step);
    const int why = sealed_write(path, label, key, data, len);
    sodium_memzero(key, sizeof key);
    return why == 0 ? EXIT_DONE : cannot(path, "cannot be written", why);
}

/* One that a killed process left goes with the others. */
static void drop_shares(const char *dir, const host_worker *w, unsigned party, uint32_t last) {
    char path[PATH_BYTES], label[LABEL_BYTES];
    const uvcc_transformer_worker at = job_place(w);
    for (uint32_t step = last;; step--) {
        file_of(path, label, dir, party, &at, step);
        if (unlink(path) != 0 || step == 0)
            return;
    }
}

/* The host hears of a checkpoint before it agrees to the next step, and of a step that has begun
 * when all three have agreed to it, each with the checkpoint of the step before on its disk. */
int lm_checkpoint_event(const char *dir, const host_worker *w, unsigned party,
                        const uvcc_event *e) {
    if (e->kind == UVCC_EVENT_CHECKPOINT)
        return write_share(dir, w, party);
    if (e->kind == UVCC_EVENT_STEP_STARTED && e->step >= STEPS_KEPT)
        drop_shares(dir, w, party, e->step - STEPS_KEPT);
    return EXIT_DONE;
}
