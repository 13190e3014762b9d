/* SPDX-License-Identifier: Apache-2.0 */
/* bundles.c - see bundles.h. A bundle is written once, when the last AUDIT is in it; what waits for
 * one is remembered, so that a run that ends early can still write it. What the disk refuses is
 * kept in memory for a host that is patient. */
#include "bundles.h"

#include <dirent.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dir_lock.h"
#include "files.h"
#include "report.h"

static const char keys_header[] = "uvcc public keys v1\n";

/* A step of a worker that finished and is not written yet. */
typedef struct waiting {
    struct waiting *next;
    bundle_place at;
} waiting;

/* The step roots of a party's workers in a step. */
typedef struct gathered {
    struct gathered *next;
    bundle_place at;
    size_t count;
    uint32_t first; /* of the run, as the workers' bundles have it */
    uint8_t roots[][32];
} gathered;

/* A file that the disk refused. */
typedef struct refused {
    struct refused *next;
    bundle_place at;
    size_t len;
    uint8_t bytes[];
} refused;

struct bundles {
    bundles_config c;
    refused *refused;
    int lock; /* of DIR */
    size_t workers;
    uint32_t waiting_count;
    waiting *waiting;
    gathered *gathered;
    uvcc_audit_tree run[UVCC_PARTIES]; /* the global roots over all workers, of this run */
};

/* ---- names ---- */

void bundle_name(const bundle_place *at, char out[BUNDLE_NAME_BYTES]) {
    char worker[32] = "job";
    if (!at->job)
        (void)snprintf(worker, sizeof worker, "r%us%ut%u", at->r, at->s, at->t);
    (void)snprintf(out, BUNDLE_NAME_BYTES, "party-%u/%s/run-%06u/step-%08u.%s", at->party, worker,
                   at->run, at->step, at->job ? "root" : "bundle");
}

/* Reads numbers and writes the name again: only that one is right. */
bool bundle_parse_worker(const char *name, bundle_place *at) {
    unsigned r, s, t;
    char again[32];
    if (sscanf(name, "r%5us%5ut%5u", &r, &s, &t) != 3 || r > UINT16_MAX || s > UINT16_MAX ||
        t > UINT16_MAX)
        return false;
    (void)snprintf(again, sizeof again, "r%us%ut%u", r, s, t);
    at->r = (uint16_t)r;
    at->s = (uint16_t)s;
    at->t = (uint16_t)t;
    return strcmp(name, again) == 0;
}

/* A number without sign or blanks, as the names have it. */
static bool parse_number(const char *digits, uint32_t *out) {
    uint64_t v = 0;
    const char *c = digits;
    for (; *c >= '0' && *c <= '9' && v <= UINT32_MAX; c++)
        v = 10 * v + (uint64_t)(*c - '0');
    *out = (uint32_t)v;
    return c != digits && v <= UINT32_MAX;
}

bool bundle_parse_run(const char *name, bundle_place *at) {
    char again[32];
    if (strncmp(name, "run-", 4) != 0 || !parse_number(name + 4, &at->run))
        return false;
    (void)snprintf(again, sizeof again, "run-%06u", at->run);
    return strcmp(name, again) == 0;
}

bool bundle_parse_step(const char *name, bundle_place *at) {
    char again[32];
    if (strncmp(name, "step-", 5) != 0 || !parse_number(name + 5, &at->step))
        return false;
    (void)snprintf(again, sizeof again, "step-%08u.%s", at->step, at->job ? "root" : "bundle");
    return strcmp(name, again) == 0;
}

static char *path_of(const char *dir, const char *name) {
    size_t room = strlen(dir) + strlen(name) + 2;
    char *path = malloc(room);
    if (path != NULL)
        (void)snprintf(path, room, "%s/%s", dir, name);
    return path;
}

/* ---- keys ---- */

int bundle_keys_read(const char *path, int status, uvcc_audit_keys *keys) {
    uint8_t *bytes;
    size_t len;
    const size_t head = sizeof keys_header - 1, line = 2 + 64 + 1;
    int rc = file_read(path, status, &bytes, &len);
    if (rc != 0) {
        free(bytes);
        return rc;
    }
    bool ok = len == head + UVCC_PARTIES * line && memcmp(bytes, keys_header, head) == 0;
    for (unsigned p = 0; ok && p < UVCC_PARTIES; p++) {
        const char *at = (const char *)bytes + head + p * line;
        size_t n = 0;
        ok = at[0] == (char)('0' + p) && at[1] == ' ' && at[line - 1] == '\n' &&
             sodium_hex2bin(keys->key[p], 32, at + 2, 64, NULL, &n, NULL) == 0 && n == 32;
    }
    free(bytes);
    if (!ok)
        return report_error(status,
                            "%s: is no list of public keys: its first line is \"uvcc public keys "
                            "v1\", then come 0, 1, 2 and their keys",
                            path);
    return 0;
}

static int write_failed(const char *path, int why) {
    return report_error(EXIT_FAILED, "--audit: %s cannot be written: %s", path, strerror(why));
}

static int write_keys(const bundles_config *c) {
    char text[sizeof keys_header + UVCC_PARTIES * 67], hex[65];
    size_t len = (size_t)snprintf(text, sizeof text, "%s", keys_header);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%u %s\n", p,
                                sodium_bin2hex(hex, sizeof hex, c->keys.key[p], 32));
    char *path = path_of(c->dir, "public-keys");
    int why = path == NULL ? ENOMEM : file_write(path, text, len);
    int status = why == 0 ? EXIT_DONE : write_failed(path != NULL ? path : c->dir, why);
    free(path);
    return status;
}

/* ---- opening ---- */

static int make_dir(const bundles_config *c) {
    int why = dir_make(c->dir);
    if (why != 0)
        return report_error(EXIT_BAD_INPUT, "--audit %s: cannot be made: %s; choose another place",
                            c->dir, strerror(why));
    return EXIT_DONE;
}

/* What bundles there are already: any, and the greatest number of a run. */
typedef struct earlier {
    bool any;
    uint32_t run;
} earlier;

/* Of one worker of a party, or of its roots over all workers. */
static void find_runs(const bundles_config *c, const char *below, earlier *out) {
    char *path = path_of(c->dir, below);
    DIR *d = path != NULL ? opendir(path) : NULL;
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        bundle_place at;
        if (bundle_parse_run(e->d_name, &at)) {
            out->any = true;
            out->run = at.run > out->run ? at.run : out->run;
        }
    }
    if (d != NULL)
        (void)closedir(d);
    free(path);
}

/* In the directory of a first run anything is one too many. */
static void find_earlier(const bundles_config *c, unsigned party, earlier *out) {
    char name[16];
    (void)snprintf(name, sizeof name, "party-%u", party);
    char *path = path_of(c->dir, name);
    DIR *d = path != NULL ? opendir(path) : NULL;
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        char below[sizeof name + sizeof e->d_name + 1];
        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(below, sizeof below, "%s/%s", name, e->d_name);
        out->any = out->any || c->run == 0;
        find_runs(c, below, out);
    }
    if (d != NULL)
        (void)closedir(d);
    free(path);
}

static int check_keys(const bundles_config *c) {
    struct stat st;
    uvcc_audit_keys keys;
    int status = EXIT_DONE;
    char *path = path_of(c->dir, "public-keys");
    if (path == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    if (c->run != 0 && stat(path, &st) == 0) {
        status = bundle_keys_read(path, EXIT_BAD_INPUT, &keys);
        if (status == EXIT_DONE && memcmp(&keys, &c->keys, sizeof keys) != 0)
            status = report_error(EXIT_BAD_INPUT,
                                  "--audit %s: has bundles of other parties; give another "
                                  "directory",
                                  c->dir);
    }
    free(path);
    return status;
}

/* Bundles of earlier runs stay, under the same keys. Those of this run's number or a later one say
 * that it was used: by another model, or by this one before it was put back from a copy. */
static int check_old(const bundles_config *c) {
    earlier was = {0};
    int status = check_keys(c);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        find_earlier(c, p, &was);
    if (status != EXIT_DONE || !was.any || was.run < c->run)
        return status;
    if (c->run == 0)
        return report_error(EXIT_BAD_INPUT,
                            "--audit %s: there are bundles already; give another directory",
                            c->dir);
    return report_error(EXIT_BAD_INPUT,
                        "--audit %s: has bundles of run %u, and this would be run %u: give the "
                        "directory of this model's; if they are, the model came back from a copy, "
                        "and no run may come again: first write %u into its three run files",
                        c->dir, was.run, c->run, was.run);
}

/* The lock comes first: of two processes each would see that the other wrote no bundles yet. */
bundles *bundles_open(const bundles_config *c) {
    if (make_dir(c) != EXIT_DONE)
        return NULL;
    bundles *b = calloc(1, sizeof *b);
    if (b == NULL) {
        (void)report_error(EXIT_FAILED, "out of memory");
        return NULL;
    }
    b->c = *c;
    b->workers = (size_t)c->replicas * c->stages * c->tp_ranks;
    if (dir_lock(c->dir, &b->lock) != EXIT_DONE || check_old(c) != EXIT_DONE ||
        write_keys(c) != EXIT_DONE) {
        bundles_close(b);
        return NULL;
    }
    return b;
}

void bundles_close(bundles *b) {
    if (b == NULL)
        return;
    while (b->waiting != NULL) {
        waiting *next = b->waiting->next;
        free(b->waiting);
        b->waiting = next;
    }
    while (b->gathered != NULL) {
        gathered *next = b->gathered->next;
        free(b->gathered);
        b->gathered = next;
    }
    while (b->refused != NULL) {
        refused *next = b->refused->next;
        free(b->refused);
        b->refused = next;
    }
    dir_unlock(b->lock);
    sodium_memzero(b, sizeof *b);
    free(b);
}

/* ---- writing ---- */

/* 0, or errno; *path is the caller's, NULL without memory. */
static int try_at(const bundles *b, const bundle_place *at, const uint8_t *bytes, size_t len,
                  char **path) {
    char name[BUNDLE_NAME_BYTES];
    bundle_name(at, name);
    *path = path_of(b->c.dir, name);
    if (*path == NULL)
        return ENOMEM;
    int why = file_write(*path, bytes, len);
    if (why == ENOENT) { /* the first in its directory */
        why = 0;
        for (char *c = *path + strlen(b->c.dir) + 1; why == 0 && (c = strchr(c, '/')) != NULL;) {
            *c = '\0';
            why = dir_make(*path);
            *c++ = '/';
        }
        why = why != 0 ? why : file_write(*path, bytes, len);
    }
    return why;
}

/* For bundles_retry(). False: no memory. */
static bool keep(bundles *b, const bundle_place *at, const uint8_t *bytes, size_t len) {
    refused *r = malloc(sizeof *r + len), **end = &b->refused;
    if (r == NULL)
        return false;
    *r = (refused){.at = *at, .len = len};
    memcpy(r->bytes, bytes, len);
    while (*end != NULL)
        end = &(*end)->next;
    *end = r;
    return true;
}

static int write_at(bundles *b, const bundle_place *at, const uint8_t *bytes, size_t len) {
    char *path;
    const int why = try_at(b, at, bytes, len, &path);
    int status = EXIT_DONE;
    if (why != 0 && !(b->c.patient && keep(b, at, bytes, len)))
        status = write_failed(path != NULL ? path : b->c.dir, why);
    free(path);
    return status;
}

bool bundles_retry(bundles *b, char *text, size_t cap) {
    while (b->refused != NULL) {
        refused *r = b->refused;
        char *path;
        const int why = try_at(b, &r->at, r->bytes, r->len, &path);
        if (why != 0)
            (void)snprintf(text, cap, "%s: cannot be written: %s", path != NULL ? path : b->c.dir,
                           strerror(why));
        free(path);
        if (why != 0)
            return false;
        b->refused = r->next;
        free(r);
    }
    return true;
}

static bool same_place(const bundle_place *a, const bundle_place *b) {
    return a->party == b->party && a->r == b->r && a->s == b->s && a->t == b->t &&
           a->run == b->run && a->step == b->step;
}

static bool forget_waiting(bundles *b, const bundle_place *at) {
    for (waiting **w = &b->waiting; *w != NULL; w = &(*w)->next)
        if (same_place(&(*w)->at, at)) {
            waiting *gone = *w;
            *w = gone->next;
            free(gone);
            b->waiting_count--;
            return true;
        }
    return false;
}

static int write_bundle(bundles *b, const uvcc_session *s, const bundle_place *at) {
    const uint8_t *bytes;
    size_t len;
    int rc = uvcc_session_bundle(s, at->step, &bytes, &len);
    if (rc != 0)
        return report_error(EXIT_FAILED, "a step's bundle: %s", uvcc_error_text(rc));
    (void)forget_waiting(b, at);
    return write_at(b, at, bytes, len);
}

/* ---- roots over all workers ---- */

/* Steps become whole in order, for each worker finishes them in order. What an earlier run's job
 * roots were is not looked up: `before` is zeros, and the workers' own statements say it. */
static int write_job_root(bundles *b, gathered **list, const uvcc_bundle *last) {
    gathered *g = *list;
    *list = g->next;
    const uvcc_job_root j = {.party = g->at.party,
                             .replicas = b->c.replicas,
                             .stages = b->c.stages,
                             .tp_ranks = b->c.tp_ranks,
                             .step = g->at.step,
                             .run = g->at.run,
                             .first = g->first,
                             .sid_job = last->sid_job,
                             .policy_hash = last->policy_hash,
                             .step_roots = g->roots[0]};
    size_t len = uvcc_job_root_bytes(j.replicas, j.stages, j.tp_ranks);
    uint8_t *bytes = malloc(len != 0 ? len : 1);
    int rc = bytes == NULL
                 ? UVCC_ERR_NOMEM
                 : uvcc_job_root_encode(&j, &b->run[j.party], b->c.sign_seed[j.party], bytes, len);
    int status =
        rc == 0 ? write_at(b, &g->at, bytes, len)
                : report_error(EXIT_FAILED, "a root over all workers: %s", uvcc_error_text(rc));
    free(bytes);
    free(g);
    return status;
}

/* One more worker of a party has finished a step. */
static int gather(bundles *b, const uvcc_session *s, const bundle_place *at) {
    const uint8_t *bytes;
    size_t len;
    uvcc_bundle decoded;
    bundle_place place = {.party = at->party, .job = true, .run = at->run, .step = at->step};
    if (uvcc_session_bundle(s, at->step, &bytes, &len) != 0 ||
        uvcc_bundle_decode(&decoded, bytes, len, NULL) != 0)
        return report_error(EXIT_FAILED, "a step's bundle cannot be read");
    gathered **g = &b->gathered;
    while (*g != NULL && !same_place(&(*g)->at, &place))
        g = &(*g)->next;
    if (*g == NULL) {
        *g = calloc(1, sizeof **g + 32 * b->workers);
        if (*g == NULL)
            return report_error(EXIT_FAILED, "out of memory");
        (*g)->at = place;
        (*g)->first = decoded.first;
    }
    if ((*g)->first != decoded.first)
        return report_error(EXIT_FAILED, "the workers of a party began the run at other steps");
    size_t index = ((size_t)at->r * b->c.stages + at->s) * b->c.tp_ranks + at->t;
    memcpy((*g)->roots[index], decoded.step_root, 32);
    return ++(*g)->count == b->workers ? write_job_root(b, g, &decoded) : EXIT_DONE;
}

/* ---- events ---- */

int bundles_event(bundles *b, const uvcc_session *s, const bundle_place *worker,
                  const uvcc_event *e) {
    bundle_place at = *worker;
    at.run = e->run;
    at.step = e->step;
    if (e->kind == UVCC_EVENT_BUNDLE)
        return write_bundle(b, s, &at);
    if (e->kind != UVCC_EVENT_STEP_FINISHED && e->kind != UVCC_EVENT_STEP_CANCELLED)
        return EXIT_DONE;
    waiting *w = malloc(sizeof *w);
    if (w == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    *w = (waiting){.next = b->waiting, .at = at};
    b->waiting = w;
    b->waiting_count++;
    return b->workers > 1 ? gather(b, s, &at) : EXIT_DONE;
}

uint32_t bundles_waiting(const bundles *b) {
    return b->waiting_count;
}

int bundles_flush(bundles *b, const uvcc_session *s, const bundle_place *worker) {
    int status = EXIT_DONE;
    for (waiting *w = b->waiting, *next; w != NULL; w = next) {
        next = w->next;
        bundle_place at = *worker;
        at.run = w->at.run;
        at.step = w->at.step;
        if (same_place(&w->at, &at) && write_bundle(b, s, &at) != EXIT_DONE)
            status = EXIT_FAILED;
    }
    return status;
}
