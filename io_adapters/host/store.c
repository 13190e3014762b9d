/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - a store's directory: opened, locked, looked at as a whole; runs, and what a session's
 * configuration takes from it. Shares are of no use without what they were made under, and what is
 * made anew in its place does harm (a run that was used comes again, other shares go under another
 * key), so what is missing beside checkpoints is refused. */
#include "keyfile.h"
#include "store_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uvcc/host.h>

enum { KEY_BYTES = 32, PID_BYTES = 32, LINE_BYTES = 512 };

/* ---- texts ---- */

uvcci_says uvcci_store_says(uvcc_store *st) {
    return (uvcci_says){st->text, sizeof st->text};
}

const char *uvcc_store_error(const uvcc_store *st) {
    return st != NULL ? st->text : "";
}

void uvcci_store_warn(const uvcc_store *st, const char *format, ...) {
    char line[LINE_BYTES];
    va_list args;
    if (st->cfg.log.write == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    st->cfg.log.write(st->cfg.log.user, UVCC_LOG_WARN, line);
}

/* ---- names ---- */

void uvcci_store_name(const uvcci_worker *w, uint32_t step, char out[UVCCI_NAME_BYTES]) {
    (void)snprintf(out, UVCCI_NAME_BYTES, "r%u-s%u-t%u.step-%u", w->replica, w->stage, w->tp_rank,
                   step);
}

const char *uvcci_number_after(const char *at, const char *before, uint64_t most, uint64_t *out) {
    const size_t n = strlen(before);
    if (at == NULL || strncmp(at, before, n) != 0)
        return NULL;
    at += n;
    if (*at < '0' || *at > '9' || (*at == '0' && at[1] >= '0' && at[1] <= '9'))
        return NULL;
    for (*out = 0; *at >= '0' && *at <= '9' && *out <= most; at++)
        *out = 10 * *out + (uint64_t)(*at - '0');
    return *out <= most ? at : NULL;
}

const char *uvcci_store_parse_worker(const char *name, uvcci_worker *w) {
    uint64_t r = 0, s = 0, t = 0;
    const char *at = uvcci_number_after(name, "r", UINT16_MAX, &r);
    at = uvcci_number_after(at, "-s", UINT16_MAX, &s);
    at = uvcci_number_after(at, "-t", UINT16_MAX, &t);
    w->replica = (uint16_t)r;
    w->stage = (uint16_t)s;
    w->tp_rank = (uint16_t)t;
    return at;
}

bool uvcci_store_parse(const char *name, uvcci_worker *w, uint32_t *step) {
    uint64_t n = 0;
    const char *at =
        uvcci_number_after(uvcci_store_parse_worker(name, w), ".step-", UINT32_MAX, &n);
    *step = (uint32_t)n;
    return at != NULL && *at == '\0';
}

/* ---- the directory's files ---- */

/* fdopendir() takes the descriptor, and reads from where another one of the same opening was. */
static DIR *open_list(uvcc_store *st, int *rc) {
    const uvcci_says to = uvcci_store_says(st);
    const int fd = openat(st->dir.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    *rc = 0;
    if (d != NULL)
        return d;
    *rc = uvcci_say(&to, UVCC_ERR_IO, "%s: cannot be read: %s", st->path, strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return NULL;
}

/* 1 and the next name; 0 at the end; negative after saying why. */
static int next_name(uvcc_store *st, DIR *d, const char **name) {
    const uvcci_says to = uvcci_store_says(st);
    errno = 0;
    const struct dirent *e = readdir(d);
    if (e != NULL) {
        *name = e->d_name;
        return 1;
    }
    return errno == 0
               ? 0
               : uvcci_say(&to, UVCC_ERR_IO, "%s: cannot be read: %s", st->path, strerror(errno));
}

int uvcci_store_names(uvcc_store *st, int (*each)(void *user, const char *name), void *user) {
    const char *name = NULL;
    int rc, more = 0;
    DIR *d = open_list(st, &rc);
    while (rc == 0 && (more = next_name(st, d, &name)) == 1)
        rc = each(user, name);
    if (d != NULL)
        (void)closedir(d);
    return rc != 0 ? rc : more;
}

typedef struct scanning {
    int (*each)(void *user, const uvcci_worker *at, uint32_t step);
    void *user;
} scanning;

static int scan_name(void *user, const char *name) {
    const scanning *sc = user;
    uvcci_worker at = {0};
    uint32_t step;
    return uvcci_store_parse(name, &at, &step) ? sc->each(sc->user, &at, step) : 0;
}

int uvcci_store_scan(uvcc_store *st, int (*each)(void *user, const uvcci_worker *at, uint32_t step),
                     void *user) {
    return uvcci_store_names(st, scan_name, &(scanning){each, user});
}

typedef struct looking {
    uvcc_store *st;
    bool checkpoints, triples;
} looking;

/* Of a store's own files only: what stands there under other names is somebody's. */
static bool is_left_over(const char *name) {
    char base[UVCCI_NAME_BYTES];
    const size_t len = strlen(name), part = sizeof UVCCI_PART - 1;
    uvcci_worker at;
    uint32_t step, run;
    if (len <= part || len - part >= sizeof base || strcmp(name + len - part, UVCCI_PART) != 0)
        return false;
    memcpy(base, name, len - part);
    base[len - part] = '\0';
    const char *rest = uvcci_store_parse_worker(base, &at);
    return (rest != NULL && strcmp(rest, UVCCI_USED) == 0) || strcmp(base, UVCCI_RUN_FILE) == 0 ||
           strcmp(base, UVCCI_REFUSED_FILE) == 0 ||
           strncmp(base, UVCCI_KEY_FILE ".", sizeof UVCCI_KEY_FILE) == 0 ||
           uvcci_store_parse(base, &at, &step) || uvcci_triples_parse(base, &at, &run, &step) ||
           uvcci_triples_parse_mark(base, &at, &run);
}

/* What processes left that were killed while they wrote; whether there is a file that is sealed. */
static int tidy(void *user, const char *name) {
    looking *l = user;
    uvcci_worker at;
    uint32_t run, step;
    if (is_left_over(name))
        (void)unlinkat(l->st->dir.fd, name, 0);
    l->checkpoints |= uvcci_store_parse(name, &at, &step);
    l->triples |= uvcci_triples_parse(name, &at, &run, &step);
    return 0;
}

/* ---- opening ---- */

/* The process's id in the file is for whoever finds it locked. The directory is locked too, where
 * the file system can: who takes the file away takes no lock away. */
static int lock(uvcc_store *st) {
    const uvcci_says to = uvcci_store_says(st);
    char pid[PID_BYTES] = {0};
    struct stat file;
    st->lock = openat(st->dir.fd, UVCCI_LOCK_FILE,
                      O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
    if (st->lock < 0 || fstat(st->lock, &file) != 0)
        return uvcci_say(&to, errno == ELOOP ? UVCC_ERR_CONFIG : UVCC_ERR_IO,
                         "%s/lock: cannot be opened: %s", st->path, strerror(errno));
    if (!S_ISREG(file.st_mode))
        return uvcci_say(&to, UVCC_ERR_CONFIG, "%s/lock: is no regular file; take it away",
                         st->path);
    if (flock(st->lock, LOCK_EX | LOCK_NB) == 0 &&
        (flock(st->dir.fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)) {
        const int n = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
        (void)!ftruncate(st->lock, 0);
        (void)!pwrite(st->lock, pid, (size_t)n, 0);
        return 0;
    }
    const int why = errno;
    if (why != EWOULDBLOCK)
        return uvcci_say(&to, UVCC_ERR_IO, "%s/lock: cannot be locked: %s", st->path,
                         strerror(why));
    const ssize_t n = pread(st->lock, pid, sizeof pid - 1, 0);
    pid[n > 0 ? strspn(pid, "0123456789") : 0] = '\0';
    return uvcci_say(&to, UVCC_ERR_STATE,
                     "%s: another process%s%s%s uses it; wait for its end, or give another "
                     "directory",
                     st->path, *pid != '\0' ? " (" : "", pid, *pid != '\0' ? ")" : "");
}

static int missing(uvcc_store *st, const char *name, const char *what, const char *why) {
    const uvcci_says to = uvcci_store_says(st);
    return uvcci_say(&to, UVCC_ERR_NOT_FOUND, "%s/%s: is missing, but %s are there: %s", st->path,
                     name, what, why);
}

#define RUN_ADVICE                                                                                 \
    "put it back from a copy, or write into it, with a line feed, the greatest run of the other "  \
    "parties"

static int look(uvcc_store *st) {
    const uvcci_says to = uvcci_store_says(st);
    looking l = {.st = st};
    int rc = uvcci_store_names(st, tidy, &l);
    const bool any = l.checkpoints || l.triples;
    const char *what = l.checkpoints ? "checkpoints" : "triples";
    if (rc == 0 && any && !uvcci_file_there(&st->dir, UVCCI_KEY_FILE))
        rc = missing(st, UVCCI_KEY_FILE, what,
                     "they are sealed under it; put it back from a copy, or give another "
                     "directory to begin anew");
    if (rc == 0)
        rc = uvcci_key_make_at(&st->dir, UVCCI_KEY_FILE, UVCC_KEY_STORAGE, st->key, &st->cfg.random,
                               &to);
    if (rc == 0)
        rc = uvcci_numbers_read(st, UVCCI_RUN_FILE, RUN_ADVICE, &st->any_run, &st->run, 1);
    if (rc == 0 && any && !st->any_run)
        rc = missing(st, UVCCI_RUN_FILE, what,
                     "it says which runs were, none of which may come again; " RUN_ADVICE
                     ", or give another directory to begin anew");
    return rc;
}

static void *take(const uvcc_allocator *al, size_t bytes, uvcc_mem_class cls) {
    void *p = al->alloc(al->user, bytes, cls);
    if (p != NULL)
        memset(p, 0, bytes);
    return p;
}

static void give(const uvcc_allocator *al, void *p, size_t bytes, uvcc_mem_class cls) {
    if (p != NULL)
        al->free(al->user, p, bytes, cls);
}

void *uvcci_store_list_room(const uvcc_allocator *al, void *list, uint32_t count, uint32_t *room,
                            size_t size) {
    if (count < *room)
        return list;
    const uint32_t more = 2 * *room + 8;
    void *longer = al->alloc(al->user, more * size, UVCC_MEM_STATE);
    if (longer == NULL)
        return NULL;
    if (count != 0)
        memcpy(longer, list, count * size);
    give(al, list, *room * size, UVCC_MEM_STATE);
    *room = more;
    return longer;
}

static uvcc_store *new_store(const uvcc_store_config *cfg) {
    const uvcc_allocator *al = &cfg->alloc;
    uvcc_store *st = take(al, sizeof *st, UVCC_MEM_STATE);
    if (st == NULL)
        return NULL;
    st->cfg = *cfg;
    st->lock = st->dir.fd = -1;
    st->path_bytes = strlen(cfg->dir) + 1;
    st->path = take(al, st->path_bytes, UVCC_MEM_STATE);
    st->key = take(al, KEY_BYTES, UVCC_MEM_SECRET);
    if (st->path != NULL)
        memcpy(st->path, cfg->dir, st->path_bytes);
    if (st->path != NULL && st->key != NULL)
        return st;
    uvcc_store_free(st);
    return NULL;
}

void uvcc_store_config_default(uvcc_store_config *cfg) {
    if (cfg != NULL)
        *cfg = (uvcc_store_config){
            .size = sizeof *cfg, .alloc = uvcc_host_allocator(), .random = uvcc_host_random()};
}

int uvcc_store_open(uvcc_store **out, const uvcc_store_config *cfg, char *why, size_t why_cap) {
    const uvcci_says to = {why, why_cap};
    if (out == NULL || cfg == NULL || cfg->size != sizeof *cfg || cfg->dir == NULL)
        return uvcci_say(&to, UVCC_ERR_USAGE, "a store needs a configuration and a directory");
    *out = NULL;
    if (cfg->alloc.alloc == NULL || cfg->alloc.free == NULL || cfg->random.fill == NULL ||
        cfg->party >= UVCC_PARTIES || *cfg->dir == '\0' || strlen(cfg->dir) >= UVCCI_PATH_BYTES)
        return uvcci_say(&to, UVCC_ERR_CONFIG,
                         "a store needs hooks, a party (0 to 2) and the path of a directory");
    if (sodium_init() < 0)
        return uvcci_say(&to, UVCC_ERR_CRYPTO, "libsodium does not start");
    uvcc_store *st = new_store(cfg);
    if (st == NULL)
        return uvcci_say(&to, UVCC_ERR_NOMEM, "%.200s: no memory for a store", cfg->dir);
    const uvcci_says own = uvcci_store_says(st);
    int rc = uvcci_dir_open(&st->dir, st->path, true, &own);
    if (rc == 0)
        rc = lock(st);
    if (rc == 0)
        rc = look(st);
    if (rc == 0) {
        *out = st;
        return 0;
    }
    (void)uvcci_say(&to, rc, "%s", st->text);
    uvcc_store_free(st);
    return rc;
}

void uvcc_store_free(uvcc_store *st) {
    if (st == NULL)
        return;
    const uvcc_allocator al = st->cfg.alloc;
    while (st->workers != NULL) {
        uvcci_worker *w = st->workers;
        st->workers = w->next;
        uvcci_triples_forget(st, w);
        give(&al, w->kept, w->kept_room * sizeof w->kept[0], UVCC_MEM_STATE);
        give(&al, w, sizeof *w, UVCC_MEM_STATE);
    }
    if (st->lock >= 0)
        (void)close(st->lock);
    uvcci_dir_close(&st->dir);
    if (st->key != NULL)
        sodium_memzero(st->key, KEY_BYTES);
    give(&al, st->key, KEY_BYTES, UVCC_MEM_SECRET);
    give(&al, st->path, st->path_bytes, UVCC_MEM_STATE);
    give(&al, st, sizeof *st, UVCC_MEM_STATE);
}

/* ---- runs ---- */

int uvcc_store_next_run(uvcc_store *st, uint32_t *run) {
    if (st == NULL || run == NULL)
        return UVCC_ERR_USAGE;
    const uvcci_says to = uvcci_store_says(st);
    const uint32_t last = st->run > st->seen_run ? st->run : st->seen_run;
    const bool any = st->any_run || st->seen_run != 0;
    if (any && last >= UVCCI_RUN_LAST)
        return uvcci_say(&to, UVCC_ERR_LIMIT,
                         "%s/run: run %u was the last that there can be; give another directory "
                         "to begin anew",
                         st->path, last);
    const uint32_t next = any ? last + 1 : 0;
    int rc = uvcci_triples_stamp(st, next);
    if (rc == 0)
        rc = uvcci_numbers_write(st, UVCCI_RUN_FILE, &next, 1);
    if (rc != 0)
        return rc;
    st->any_run = st->taken = true;
    st->unwritten_run = false;
    st->run = st->current = *run = next;
    return 0;
}

/* ---- configurations ---- */

static uvcci_worker *worker_of(uvcc_store *st, const uvcc_config_place *at) {
    uvcci_worker *w = st->workers;
    while (w != NULL &&
           (w->replica != at->replica || w->stage != at->stage || w->tp_rank != at->tp_rank))
        w = w->next;
    if (w != NULL)
        return w;
    w = take(&st->cfg.alloc, sizeof *w, UVCC_MEM_STATE);
    if (w == NULL)
        return NULL;
    w->replica = at->replica;
    w->stage = at->stage;
    w->tp_rank = at->tp_rank;
    w->next = st->workers;
    st->workers = w;
    return w;
}

typedef struct of_worker {
    const uvcci_worker *w;
    bool any;
} of_worker;

static int found_of(void *user, const uvcci_worker *at, uint32_t step) {
    of_worker *o = user;
    (void)step;
    o->any |=
        at->replica == o->w->replica && at->stage == o->w->stage && at->tp_rank == o->w->tp_rank;
    return 0;
}

static int read_counts(uvcc_store *st, uvcci_worker *w, const uvcc_config *cfg) {
    of_worker o = {.w = w};
    const int rc = uvcci_store_scan(st, found_of, &o);
    return rc == 0 ? uvcci_counts_read(st, w, o.any, cfg) : rc;
}

int uvcc_store_configure(uvcc_store *st, uvcc_config *cfg) {
    if (st == NULL || cfg == NULL)
        return UVCC_ERR_USAGE;
    const uvcci_says to = uvcci_store_says(st);
    bool refused;
    uint32_t step;
    if (cfg->size != sizeof *cfg || cfg->identity.party != st->cfg.party)
        return uvcci_say(&to, UVCC_ERR_CONFIG,
                         "%s: is of party %u; the configuration is of party %u, or of another "
                         "version",
                         st->path, st->cfg.party, cfg->identity.party);
    uvcci_worker *w = worker_of(st, &cfg->place);
    if (w == NULL)
        return uvcci_say(&to, UVCC_ERR_NOMEM, "%s: no memory for a worker", st->path);
    if (!st->taken || (w->configured && w->run == st->current))
        return uvcci_say(&to, UVCC_ERR_STATE,
                         "%s: a session needs a run of its own: uvcc_store_next_run() first",
                         st->path);
    int rc = uvcci_numbers_read(st, UVCCI_REFUSED_FILE,
                                "it is the step in which a check failed; put it back from a copy",
                                &refused, &step, 1);
    if (rc == 0 && cfg->consent.policy != NULL)
        rc = read_counts(st, w, cfg);
    if (rc != 0)
        return rc;
    w->configured = true;
    w->has_policy = cfg->consent.policy != NULL;
    w->uncounted = false;
    w->session = NULL;
    w->run = cfg->resume.next_run = st->current;
    w->every = cfg->resume.checkpoint_every;
    w->next_step = cfg->resume.next_step;
    if (refused) {
        cfg->checks.sks_refused = true;
        cfg->checks.sks_step = step;
    }
    if (w->has_policy) {
        cfg->consent.used = w->limits != 0 ? w->used : NULL;
        cfg->consent.used_count = w->limits;
    }
    return 0;
}
