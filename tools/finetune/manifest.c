/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c - see manifest.h. */
#include "manifest.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../files.h"
#include "../report.h"

#define PATH_BYTES 4096u
#define VERSION    2
#define FILE_NAME  "finetune.json"

/* What a model was begun with: values as text, by the names of options. */
typedef struct manifest {
    json_t *want, *kept;
    uvcc_transformer_config workers;
} manifest;

/* ---- what it says ---- */

static const struct {
    const char *name;
    size_t at;
} counts[] = {
#define AT(m) offsetof(ft_options, m)
    {"--method", AT(method)},
    {"--rank", AT(rank)},
    {"--adapt", AT(adapt)},
    {"--held-out", AT(held_out)},
    {"--batch", AT(batch)},
    {"--optimizer", AT(optimizer)},
    {"--warmup", AT(warmup)},
    {"--mode", AT(mode)},
    {"--frac-bits", AT(frac_bits)},
    {"--value-bits", AT(value_bits)},
    {"--inner-bits", AT(inner_bits)},
    {"--text-owner", AT(text_owner)},
    {"--label-owner", AT(label_owner)},
    {"--to", AT(receiver)},
    {"--steps", AT(steps)},
};
static const struct {
    const char *name;
    size_t at;
} reals[] = {
    {"--lr", AT(lr)},
    {"--clip", AT(clip)},
    {"--weight-decay", AT(weight_decay)},
    {"--final-rate", AT(final_rate)},
#undef AT
};

__attribute__((format(printf, 3, 4))) static int put(json_t *o, const char *name,
                                                     const char *format, ...) {
    char text[128];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return json_object_set_new(o, name, json_string(text));
}

/* A number, or the word that the option has for it. */
static int put_count(json_t *o, const char *name, uint32_t v) {
    const char *word = ft_options_word(name, v);
    return word != NULL ? put(o, name, "%s", word) : put(o, name, "%u", v);
}

static const char *pool_word(const ft_model *m) {
    static const char *const words[] = {[UVCC_MODEL_POOL_NONE] = "none",
                                        [UVCC_MODEL_POOL_FIRST] = "first",
                                        [UVCC_MODEL_POOL_TANH] = "tanh",
                                        [UVCC_MODEL_POOL_MEAN] = "mean"};
    return words[m->cfg.model.pool];
}

static int put_hash(json_t *o, const char *name, const void *bytes, size_t len) {
    uint8_t hash[crypto_hash_sha256_BYTES];
    char hex[2 * sizeof hash + 1];
    (void)crypto_hash_sha256(hash, bytes, len);
    return put(o, name, "SHA-256 %s", sodium_bin2hex(hex, sizeof hex, hash, sizeof hash));
}

/* The data as it is learned from: tokens, padding, types, targets. */
static int put_data(json_t *o, const ft_data *d) {
    crypto_hash_sha256_state h;
    uint8_t hash[crypto_hash_sha256_BYTES];
    char hex[2 * sizeof hash + 1];
    const size_t tokens = (size_t)d->rows * d->tokens, bytes = tokens * sizeof(int64_t);
    const int64_t *const parts[] = {d->in.ids, d->in.types, d->in.padding};
    (void)crypto_hash_sha256_init(&h);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const uint8_t any = parts[i] != NULL;
        (void)crypto_hash_sha256_update(&h, &any, 1);
        if (any)
            (void)crypto_hash_sha256_update(&h, (const uint8_t *)parts[i], bytes);
    }
    (void)crypto_hash_sha256_update(&h, (const uint8_t *)d->target,
                                    (d->labelled ? d->rows : tokens) * sizeof(int64_t));
    (void)crypto_hash_sha256_final(&h, hash);
    return put(o, "a --data", "%u rows of %u tokens, SHA-256 %s", d->rows, d->tokens,
               sodium_bin2hex(hex, sizeof hex, hash, sizeof hash));
}

/* NULL without memory. */
static json_t *manifest_of(const ft_options *o, const ft_model *m, const ft_data *d) {
    json_t *all = json_object();
    int bad = put(all, "version", "%d", VERSION);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint32_t v;
        memcpy(&v, (const uint8_t *)o + counts[i].at, sizeof v);
        bad |= put_count(all, counts[i].name, v);
    }
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        double v;
        memcpy(&v, (const uint8_t *)o + reals[i].at, sizeof v);
        bad |= put(all, reals[i].name, "%.10g", v);
    }
    bad |= put(all, "--seed", "%llu", (unsigned long long)o->run.seed);
    bad |= put(all, "--public", "%s", o->public_weights ? "yes" : "no");
    bad |= put(all, "--fold", "%s", o->fold ? "yes" : "no");
    bad |= put(all, "--pool", "%s", pool_word(m));
    bad |= put(all, "--labels", "%u", m->cfg.model.labels);
    bad |= put(all, "--microbatches", "%u", m->cfg.microbatches);
    bad |= put(all, "--weight-bits", "%u", m->from.pass.weight_bits);
    bad |= put_hash(all, "a checkpoint", m->values, m->elements * sizeof *m->values);
    bad |= put_data(all, d);
    if (bad == 0)
        return all;
    json_decref(all);
    return NULL;
}

/* ---- the file ---- */

static int path_of(char out[PATH_BYTES], const char *dir) {
    return snprintf(out, PATH_BYTES, "%s/" FILE_NAME, dir) < (int)PATH_BYTES
               ? EXIT_DONE
               : report_error(EXIT_BAD_INPUT, "%s: the name is too long", dir);
}

static int read_kept(void *user, const char *dir, bool *any) {
    manifest *m = user;
    char path[PATH_BYTES];
    struct stat st;
    uint8_t *text;
    size_t len;
    *any = false;
    const int status = path_of(path, dir);
    if (status != EXIT_DONE || (stat(path, &st) != 0 && errno == ENOENT))
        return status;
    if (file_read(path, EXIT_BAD_INPUT, &text, &len) != EXIT_DONE)
        return EXIT_BAD_INPUT;
    *any = true;
    m->kept = json_loadb((const char *)text, len, 0, NULL);
    free(text);
    if (!json_is_object(m->kept))
        return report_error(EXIT_BAD_INPUT,
                            "%s is damaged: put it back from a copy, or give another directory to "
                            "begin anew",
                            path);
    return EXIT_DONE;
}

static int write_wanted(void *user, const char *dir) {
    const manifest *m = user;
    char path[PATH_BYTES];
    const int status = path_of(path, dir);
    if (status != EXIT_DONE)
        return status;
    char *text = json_dumps(m->want, JSON_INDENT(2));
    if (text == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    const int why = file_write(path, text, strlen(text));
    free(text);
    return why == 0 ? EXIT_DONE
                    : report_error(EXIT_FAILED, "%s: cannot be written: %s", path, strerror(why));
}

/* The rates hang on the number of steps, so it is one of what must be the same. */
static int compare(void *user, const char *dir) {
    const manifest *m = user;
    const char *name;
    json_t *value;
    json_object_foreach(m->want, name, value) {
        const char *kept = json_string_value(json_object_get(m->kept, name));
        if (kept == NULL || strcmp(kept, json_string_value(value)) != 0)
            return report_error(EXIT_BAD_INPUT,
                                "%s has a model that was begun with %s %s, not %s; give the same "
                                "options or another directory",
                                dir, name, kept != NULL ? kept : "of another release",
                                json_string_value(value));
    }
    return EXIT_DONE;
}

static int same_steps(void *user, const char *dir, uint32_t done) {
    (void)user;
    (void)dir;
    (void)done;
    return EXIT_DONE;
}

int ft_checkpoint_open(const char *dir, const ft_options *o, const ft_model *m, const ft_data *d,
                       lm_start *out) {
    manifest all = {.want = manifest_of(o, m, d),
                    .workers = {.replicas = 1, .stages = 1, .tensor_ranks = 1}};
    const lm_kept kept = {.user = &all,
                          .file = FILE_NAME,
                          .workers = &all.workers,
                          .read = read_kept,
                          .write = write_wanted,
                          .compare = compare,
                          .steps = same_steps};
    const int status = all.want != NULL ? lm_checkpoint_open_kept(dir, &kept, out)
                                        : report_error(EXIT_FAILED, "out of memory");
    json_decref(all.want);
    json_decref(all.kept);
    return status;
}
