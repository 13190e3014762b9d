/* checkpoint.c - see checkpoint.h. */
#include "checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../dir_lock.h"
#include "../files.h"
#include "../keyfile.h"
#include "../report.h"
#include "../sealed.h"

#define PATH_BYTES  4096u
#define LABEL_BYTES 128u
#define STEPS_KEPT  2u

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
    char path[PATH_BYTES], message[256];
    path_of(path, "%s/party-%u/key", dir, party);
    if (keyfile_read(path, KEYFILE_STORAGE, key, message, sizeof message) != 0)
        return report_error(EXIT_BAD_INPUT, "%s %s", path, message);
    return EXIT_DONE;
}

/* ---- the sizes ---- */

static const struct {
    const char *name;
    size_t at;
    unsigned bytes;
} members[] = {
#define MEMBER(m)                                                                                  \
    { #m, offsetof(uvcc_transformer_config, m), sizeof(((uvcc_transformer_config *)0)->m) }
    MEMBER(context),        MEMBER(dim),        MEMBER(heads),      MEMBER(layers),
    MEMBER(hidden),         MEMBER(block),      MEMBER(norm),       MEMBER(batch),
    MEMBER(microbatches),   MEMBER(replicas),   MEMBER(stages),     MEMBER(tensor_ranks),
    MEMBER(ahead),          MEMBER(windows),    MEMBER(optimizer),  MEMBER(momentum_shift),
    MEMBER(variance_shift), MEMBER(frac_bits),  MEMBER(value_bits), MEMBER(gradient_bits),
    MEMBER(weight_bits),    MEMBER(truncation), MEMBER(lift),       MEMBER(exact),
    MEMBER(products),       MEMBER(text_owner), MEMBER(loss),       MEMBER(sks),
#undef MEMBER
};
enum { MEMBERS = sizeof members / sizeof members[0] };

static uint32_t get_member(const uvcc_transformer_config *c, unsigned i) {
    const uint8_t *at = (const uint8_t *)c + members[i].at;
    uint32_t v = 0;
    memcpy(&v, at, members[i].bytes); /* little-endian hosts only, as the library */
    return v;
}

static json_t *config_json(const uvcc_transformer_config *c) {
    json_t *o = json_object();
    int bad = 0;
    for (unsigned i = 0; i < MEMBERS; i++)
        bad |= json_object_set_new(o, members[i].name, json_integer(get_member(c, i)));
    bad |= json_object_set_new(o, "learning_rate", json_real(c->learning_rate));
    bad |= json_object_set_new(o, "clip", json_real(c->clip));
    bad |= json_object_set_new(o, "weight_decay", json_real(c->weight_decay));
    if (bad == 0)
        return o;
    json_decref(o);
    return NULL;
}

/* The file may have been edited: every number must fit its member before it goes there. */
int lm_checkpoint_config(const char *dir, uvcc_transformer_config *cfg) {
    char path[PATH_BYTES];
    uint8_t *text;
    size_t len;
    path_of(path, "%s/model.json", dir);
    struct stat st;
    if (stat(path, &st) != 0)
        return report_error(EXIT_BAD_INPUT,
                            "%s: there is no kept model in it; name a directory that uvcc train "
                            "--checkpoint made",
                            dir);
    if (file_read(path, EXIT_BAD_INPUT, &text, &len) != EXIT_DONE)
        return EXIT_BAD_INPUT;
    json_t *o = json_loadb((const char *)text, len, 0, NULL);
    free(text);
    bool ok = json_is_object(o);
    for (unsigned i = 0; i < MEMBERS && ok; i++) {
        const json_t *v = json_object_get(o, members[i].name);
        const json_int_t most = (json_int_t)(UINT64_MAX >> (64 - 8 * members[i].bytes));
        ok = json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= most;
        if (ok) {
            uint32_t n = (uint32_t)json_integer_value(v);
            memcpy((uint8_t *)cfg + members[i].at, &n, members[i].bytes);
        }
    }
    cfg->learning_rate = json_number_value(json_object_get(o, "learning_rate"));
    cfg->clip = json_number_value(json_object_get(o, "clip"));
    cfg->weight_decay = json_number_value(json_object_get(o, "weight_decay"));
    json_decref(o);
    char message[256] = "it is no list of a model's sizes";
    if (!ok || uvcc_transformer_check(cfg, message, sizeof message) != 0)
        return report_error(EXIT_BAD_INPUT, "%s: %s", path, message);
    return EXIT_DONE;
}

/* Writes the sizes, or compares them with those that are there. */
static int settle_config(const char *dir, const uvcc_transformer_config *cfg) {
    char path[PATH_BYTES];
    struct stat st;
    path_of(path, "%s/model.json", dir);
    if (stat(path, &st) == 0) {
        uvcc_transformer_config kept = *cfg;
        int status = lm_checkpoint_config(dir, &kept);
        for (unsigned i = 0; i < MEMBERS && status == EXIT_DONE; i++)
            if (get_member(&kept, i) != get_member(cfg, i))
                status =
                    report_error(EXIT_BAD_INPUT,
                                 "%s has a model with %s %u, not %u; give the same options or "
                                 "another directory",
                                 dir, members[i].name, get_member(&kept, i), get_member(cfg, i));
        return status;
    }
    json_t *o = config_json(cfg);
    char *text = o != NULL ? json_dumps(o, JSON_INDENT(2)) : NULL;
    json_decref(o);
    if (text == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    int why = file_write(path, text, strlen(text));
    free(text);
    return why == 0 ? EXIT_DONE : cannot(path, "cannot be written", why);
}

/* ---- which steps are there ---- */

static bool has(const char *dir, unsigned party, const uvcc_transformer_worker *at, uint32_t step) {
    char path[PATH_BYTES], label[LABEL_BYTES];
    struct stat st;
    file_of(path, label, dir, party, at, step);
    return stat(path, &st) == 0;
}

static uvcc_transformer_worker worker_at(const uvcc_transformer_config *c, uint32_t i) {
    return (uvcc_transformer_worker){i / c->tensor_ranks / c->stages,
                                     i / c->tensor_ranks % c->stages, i % c->tensor_ranks};
}

static bool all_have(const char *dir, const uvcc_transformer_config *c, uint32_t step) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        for (uint32_t i = 0; i < c->replicas * c->stages * c->tensor_ranks; i++) {
            const uvcc_transformer_worker at = worker_at(c, i);
            if (!has(dir, p, &at, step))
                return false;
        }
    return true;
}

int lm_checkpoint_last(const char *dir, const uvcc_transformer_config *cfg, uint32_t *step) {
    char path[PATH_BYTES];
    *step = 0;
    path_of(path, "%s/party-0", dir);
    DIR *d = opendir(path);
    if (d == NULL)
        return report_error(EXIT_BAD_INPUT, "%s: %s", path, strerror(errno));
    struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        unsigned long n = 0;
        char *end = NULL;
        if (strncmp(e->d_name, "r0-s0-t0.step-", 14) == 0)
            n = strtoul(e->d_name + 14, &end, 10);
        if (end != NULL && *end == '\0' && n > *step && n <= UINT32_MAX &&
            all_have(dir, cfg, (uint32_t)n))
            *step = (uint32_t)n;
    }
    (void)closedir(d);
    return EXIT_DONE;
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

/* On the disk before anything is sent under it: a run that was used may never come again. */
int lm_checkpoint_next_run(const char *dir, uint32_t *run) {
    bool any;
    int status = read_numbers(dir, "run", &any, run);
    if (status == EXIT_DONE && any)
        ++*run;
    return status == EXIT_DONE ? write_numbers(dir, "run", *run) : status;
}

int lm_checkpoint_refused(const char *dir, job_refusal *out) {
    return read_numbers(dir, "sks-refused", &out->refused, &out->step);
}

int lm_checkpoint_refuse(const char *dir, uint32_t step) {
    return write_numbers(dir, "sks-refused", step);
}

/* The lock comes first: of two processes each would take the other's run for its own. The run's
 * number comes last, when nothing else can fail. */
int lm_checkpoint_open(const char *dir, const uvcc_transformer_config *cfg, uint32_t *step,
                       uint32_t *run) {
    char path[PATH_BYTES], message[256];
    struct stat st;
    int why = dir_make(dir);
    if (why != 0)
        return report_error(EXIT_BAD_INPUT,
                            "--checkpoint %s: cannot be made: %s; choose another place", dir,
                            strerror(why));
    int locked = lm_checkpoint_lock(dir);
    if (locked != EXIT_DONE)
        return locked;
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        uint8_t key[32];
        path_of(path, "%s/party-%u", dir, p);
        if ((why = dir_make(path)) != 0)
            return cannot(path, "cannot be made", why);
        path_of(path, "%s/party-%u/key", dir, p);
        if (stat(path, &st) == 0)
            continue;
        randombytes_buf(key, sizeof key);
        int rc = keyfile_write(path, KEYFILE_STORAGE, key, message, sizeof message);
        sodium_memzero(key, sizeof key);
        if (rc != 0)
            return report_error(EXIT_FAILED, "%s %s", path, message);
    }
    int status = settle_config(dir, cfg);
    if (status == EXIT_DONE)
        status = lm_checkpoint_last(dir, cfg, step);
    return status == EXIT_DONE ? lm_checkpoint_next_run(dir, run) : status;
}

/* ---- shares ---- */

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
    return status;
}

int lm_checkpoint_resume(job *j, const char *dir, uint32_t step) {
    int status = EXIT_DONE;
    for (uint32_t i = 0; i < j->host.workers && status == EXIT_DONE; i++)
        for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
            uint8_t *bytes;
            size_t len;
            const uvcc_transformer_worker at = job_place(&j->host.worker[i]);
            status = lm_checkpoint_load(dir, p, &at, step, &bytes, &len);
            if (status != EXIT_DONE)
                break;
            int rc = uvcc_session_resume(j->host.worker[i].party[p].session, bytes, len);
            sodium_memzero(bytes, len);
            free(bytes);
            if (rc == UVCC_ERR_MISMATCH)
                status = report_error(EXIT_BAD_INPUT,
                                      "%s was made with other options or another --seed; give the "
                                      "same ones",
                                      dir);
            else if (rc != 0)
                status = report_error(EXIT_FAILED, "a checkpoint: %s", uvcc_error_text(rc));
        }
    return status;
}

/* All parties' new files are there before an old one goes: a cut in between leaves a step that all
 * have. */
int lm_checkpoint_write(const job *j, const char *dir) {
    int status = EXIT_DONE;
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
        uint8_t key[32];
        status = read_key(dir, p, key);
        for (uint32_t i = 0; i < j->host.workers && status == EXIT_DONE; i++) {
            char path[PATH_BYTES], label[LABEL_BYTES];
            const uint8_t *data;
            uint32_t step;
            size_t len;
            const host_worker *w = &j->host.worker[i];
            const uvcc_transformer_worker at = job_place(w);
            int rc = uvcc_session_checkpoint(w->party[p].session, &step, &data, &len);
            if (rc != 0) {
                status = report_error(EXIT_FAILED, "no checkpoint: %s", uvcc_error_text(rc));
                break;
            }
            file_of(path, label, dir, p, &at, step);
            int why = sealed_write(path, label, key, data, len);
            if (why != 0)
                status = cannot(path, "cannot be written", why);
        }
        sodium_memzero(key, sizeof key);
    }
    /* Older ones go when all have the new ones. */
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE && j->step >= STEPS_KEPT; p++)
        for (uint32_t i = 0; i < j->host.workers; i++) {
            char path[PATH_BYTES], label[LABEL_BYTES];
            const uvcc_transformer_worker at = job_place(&j->host.worker[i]);
            file_of(path, label, dir, p, &at, j->step - STEPS_KEPT);
            (void)unlink(path);
        }
    return status;
}
