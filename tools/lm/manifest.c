/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c - see manifest.h. */
#include "manifest.h"

#include <errno.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../files.h"
#include "../report.h"

#define PATH_BYTES 4096u
#define VERSION    4

/* ---- members ---- */

static const char *const blocks[] = {"gelu", "swiglu", "gpt2", NULL};
static const char *const optimizers[] = {"sgd", "momentum", "adamw", "adam-mini", NULL};
static const char *const truncations[] = {"ars", "sr", "ars-dcf", NULL};
static const char *const indices[] = {"fast", "exact", NULL};
static const char *const products[] = {"native", "beaver", NULL};
static const char *const switches[] = {"no", "yes", NULL};

/* Integers. What has no option is the library's default of the release that began the model. */
static const struct {
    const char *name, *option;
    size_t at;
    unsigned bytes;
    const char *const *choices;
} members[] = {
#define AT(m) offsetof(uvcc_transformer_config, m), sizeof(((uvcc_transformer_config *)0)->m)
    {"context", "--context", AT(context), NULL},
    {"dim", "--dim", AT(dim), NULL},
    {"heads", "--heads", AT(heads), NULL},
    {"layers", "--layers", AT(layers), NULL},
    {"hidden", "--hidden", AT(hidden), NULL},
    {"block", "--block", AT(block), blocks},
    {"norm", "norm", AT(norm), NULL},
    {"batch", "--batch", AT(batch), NULL},
    {"microbatches", "--microbatches", AT(microbatches), NULL},
    {"replicas", "--replicas", AT(replicas), NULL},
    {"stages", "--stages", AT(stages), NULL},
    {"tensor_ranks", "--tensor", AT(tensor_ranks), NULL},
    {"ahead", "--ahead", AT(ahead), NULL},
    {"windows", "windows", AT(windows), NULL},
    {"optimizer", "--optimizer", AT(optimizer), optimizers},
    {"momentum_shift", "momentum_shift", AT(momentum_shift), NULL},
    {"variance_shift", "variance_shift", AT(variance_shift), NULL},
    {"frac_bits", "frac_bits", AT(frac_bits), NULL},
    {"value_bits", "value_bits", AT(value_bits), NULL},
    {"gradient_bits", "gradient_bits", AT(gradient_bits), NULL},
    {"weight_bits", "weight_bits", AT(weight_bits), NULL},
    {"truncation", "--truncation", AT(truncation), truncations},
    {"lift", "lift", AT(lift), NULL},
    {"exact", "--index", AT(exact), indices},
    {"products", "--products", AT(products), products},
    {"text_owner", "text_owner", AT(text_owner), NULL},
    {"loss", "loss", AT(loss), NULL},
    {"recompute", "--recompute", AT(recompute), switches},
    {"window_mib", "--window", AT(window_mib), NULL},
    {"sks", "--sks", AT(sks), NULL},
    {"warmup", "--warmup", AT(warmup), NULL},
    {"steps", "--steps", AT(steps), NULL}, /* last: see lm_manifest_steps() */
#undef AT
};
enum { MEMBERS = sizeof members / sizeof members[0], STEPS = MEMBERS - 1 };

static const struct {
    const char *name, *option;
    size_t at;
} reals[] = {
#define AT(m) offsetof(uvcc_transformer_config, m)
    {"learning_rate", "--lr", AT(learning_rate)},
    {"final_rate", "--final-rate", AT(final_rate)},
    {"clip", "--clip", AT(clip)},
    {"weight_decay", "--weight-decay", AT(weight_decay)},
    {"epsilon", "epsilon", AT(epsilon)},
#undef AT
};
enum { REALS = sizeof reals / sizeof reals[0] };

/* Little-endian hosts only, as the library. */
static uint32_t get_member(const lm_manifest *m, unsigned i) {
    uint32_t v = 0;
    memcpy(&v, (const uint8_t *)&m->cfg + members[i].at, members[i].bytes);
    return v;
}

static double get_real(const lm_manifest *m, unsigned i) {
    double v;
    memcpy(&v, (const uint8_t *)&m->cfg + reals[i].at, sizeof v);
    return v;
}

void lm_manifest_of(lm_manifest *m, const lm_options *o, const uvcc_transformer_config *cfg,
                    const lm_text *text) {
    uint8_t digest[crypto_hash_sha256_BYTES];
    *m = (lm_manifest){.cfg = *cfg, .seed = o->run.seed, .text_bytes = text->len};
    m->cfg.warmup = o->warmup; /* the library's is cut to the steps, which --extend may change */
    (void)crypto_hash_sha256(digest, text->bytes, text->len);
    (void)sodium_bin2hex(m->text_sha256, sizeof m->text_sha256, digest, sizeof digest);
}

/* ---- the file ---- */

static int path_of(char out[PATH_BYTES], const char *dir) {
    return snprintf(out, PATH_BYTES, "%s/model.json", dir) < (int)PATH_BYTES
               ? EXIT_DONE
               : report_error(EXIT_BAD_INPUT, "%s: the name is too long", dir);
}

/* Seeds as text: JSON readers cut large integers. NULL without memory. */
static json_t *to_json(const lm_manifest *m) {
    char seed[24];
    json_t *o = json_object();
    (void)snprintf(seed, sizeof seed, "%llu", (unsigned long long)m->seed);
    int bad = json_object_set_new(o, "version", json_integer(VERSION));
    for (unsigned i = 0; i < MEMBERS; i++)
        bad |= json_object_set_new(o, members[i].name, json_integer(get_member(m, i)));
    for (unsigned i = 0; i < REALS; i++)
        bad |= json_object_set_new(o, reals[i].name, json_real(get_real(m, i)));
    bad |= json_object_set_new(o, "seed", json_string(seed));
    bad |= json_object_set_new(o, "text_bytes", json_integer((json_int_t)m->text_bytes));
    bad |= json_object_set_new(o, "text_sha256", json_string(m->text_sha256));
    bad |= json_object_set_new(o, "extended", json_integer(m->extended));
    if (bad == 0)
        return o;
    json_decref(o);
    return NULL;
}

int lm_manifest_write(const char *dir, const lm_manifest *m) {
    char path[PATH_BYTES];
    int status = path_of(path, dir);
    if (status != EXIT_DONE)
        return status;
    json_t *o = to_json(m);
    char *text = o != NULL ? json_dumps(o, JSON_INDENT(2)) : NULL;
    json_decref(o);
    if (text == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    const int why = file_write(path, text, strlen(text));
    free(text);
    return why == 0 ? EXIT_DONE
                    : report_error(EXIT_FAILED, "%s: cannot be written: %s", path, strerror(why));
}

/* The file may have been edited: every number must fit its member before it goes there. */
static bool take_integer(const json_t *o, const char *name, uint64_t most, uint64_t *out) {
    const json_t *v = json_object_get(o, name);
    const json_int_t n = json_integer_value(v);
    *out = (uint64_t)n;
    return json_is_integer(v) && n >= 0 && (uint64_t)n <= most;
}

static bool take_seed(const json_t *o, uint64_t *out) {
    const char *text = json_string_value(json_object_get(o, "seed"));
    char again[24];
    *out = text != NULL ? strtoull(text, NULL, 10) : 0;
    (void)snprintf(again, sizeof again, "%llu", (unsigned long long)*out);
    return text != NULL && strcmp(text, again) == 0;
}

static bool take_all(const json_t *o, lm_manifest *m) {
    const char *hash = json_string_value(json_object_get(o, "text_sha256"));
    uint64_t n = 0;
    bool ok = take_seed(o, &m->seed) && hash != NULL && strlen(hash) + 1 == sizeof m->text_sha256 &&
              take_integer(o, "text_bytes", INT64_MAX, &m->text_bytes) &&
              take_integer(o, "extended", UINT32_MAX, &n);
    m->extended = (uint32_t)n;
    if (ok)
        memcpy(m->text_sha256, hash, sizeof m->text_sha256);
    for (unsigned i = 0; i < MEMBERS && ok; i++) {
        ok = take_integer(o, members[i].name, UINT64_MAX >> (64 - 8 * members[i].bytes), &n);
        if (ok)
            memcpy((uint8_t *)&m->cfg + members[i].at, &n, members[i].bytes);
    }
    for (unsigned i = 0; i < REALS && ok; i++) {
        const json_t *v = json_object_get(o, reals[i].name);
        const double x = json_number_value(v);
        ok = json_is_number(v);
        memcpy((uint8_t *)&m->cfg + reals[i].at, &x, sizeof x);
    }
    return ok;
}

static bool fits(const lm_manifest *m, char *message, size_t message_cap) {
    uvcc_transformer_config c = m->cfg;
    c.warmup = c.warmup < c.steps ? c.warmup : c.steps; /* as lm_model_config() */
    return uvcc_transformer_check(&c, message, message_cap) == 0;
}

#define WAY_OUT "put it back from a copy, or give another directory to begin anew"

/* Version 1 had no `version`, but the sizes of the model. */
static int refuse_version(const char *path, const json_t *o) {
    const json_t *version = json_object_get(o, "version");
    if (version == NULL && json_object_get(o, "context") == NULL)
        return report_error(EXIT_BAD_INPUT,
                            "%s is damaged: it does not say what a model was begun with; " WAY_OUT,
                            path);
    if (version != NULL && (!json_is_integer(version) || json_integer_value(version) == VERSION))
        return EXIT_DONE;
    return report_error(EXIT_BAD_INPUT,
                        "%s is of version %lld, this uvcc goes on from version %d only: go on "
                        "with the release that made it, or give another directory",
                        path, version != NULL ? json_integer_value(version) : 1LL, VERSION);
}

int lm_manifest_read(const char *dir, lm_manifest *m, bool *any) {
    char path[PATH_BYTES], message[256] = "a member is missing or out of range";
    struct stat st;
    uint8_t *text;
    size_t len;
    *m = (lm_manifest){.extended = 0};
    *any = false;
    int status = path_of(path, dir);
    if (status != EXIT_DONE || (stat(path, &st) != 0 && errno == ENOENT))
        return status;
    if (uvcc_transformer_default(&m->cfg, sizeof m->cfg) != 0)
        return report_error(EXIT_FAILED, "another version of the library");
    if (file_read(path, EXIT_BAD_INPUT, &text, &len) != EXIT_DONE)
        return EXIT_BAD_INPUT;
    *any = true;
    json_t *o = json_loadb((const char *)text, len, 0, NULL);
    free(text);
    if (!json_is_object(o))
        status = report_error(EXIT_BAD_INPUT, "%s is damaged: it is %s; " WAY_OUT, path,
                              len == 0    ? "empty"
                              : o == NULL ? "cut, or no JSON"
                                          : "no JSON object");
    else
        status = refuse_version(path, o);
    if (status == EXIT_DONE && (!take_all(o, m) || !fits(m, message, sizeof message)))
        status = report_error(EXIT_BAD_INPUT, "%s is damaged: %s; " WAY_OUT, path, message);
    json_decref(o);
    return status;
}

/* ---- in logs ---- */

char *lm_manifest_app(const lm_manifest *m, const uvcc_transformer_worker *at) {
    json_t *o = json_pack("{s:s, s:o, s:[i,i,i]}", "tool", "uvcc train", "transformer", to_json(m),
                          "worker", (int)at->replica, (int)at->stage, (int)at->tensor_rank);
    char *text = o != NULL ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return text;
}

static bool take_worker(const json_t *o, uvcc_transformer_worker *at) {
    uint32_t *const to[] = {&at->replica, &at->stage, &at->tensor_rank};
    bool ok = json_array_size(o) == 3;
    for (size_t i = 0; i < 3 && ok; i++) {
        const json_int_t n = json_integer_value(json_array_get(o, i));
        ok = json_is_integer(json_array_get(o, i)) && n >= 0 && n <= UINT16_MAX;
        *to[i] = (uint32_t)n;
    }
    return ok;
}

int lm_manifest_app_program(uvcc_program **out, const uint8_t *text, size_t len,
                            const uvcc_allocator *al, char *message, size_t message_cap) {
    lm_manifest m = {.extended = 0};
    uvcc_transformer_worker at;
    json_t *o = json_loadb((const char *)text, len, 0, NULL);
    const json_t *model = json_object_get(o, "transformer");
    int rc = UVCC_ERR_NOT_FOUND;
    if (model != NULL) {
        (void)snprintf(message, message_cap, "a number is missing or out of range");
        rc = uvcc_transformer_default(&m.cfg, sizeof m.cfg);
        if (rc == 0 && (!take_all(model, &m) || !take_worker(json_object_get(o, "worker"), &at)))
            rc = UVCC_ERR_CONFIG;
        m.cfg.warmup = m.cfg.warmup < m.cfg.steps ? m.cfg.warmup : m.cfg.steps;
        if (rc == 0)
            rc = uvcc_transformer_program(out, &m.cfg, &at, al, message, message_cap);
    }
    json_decref(o);
    return rc;
}

/* ---- the same model? ---- */

static int differs(const char *dir, const char *option, const char *kept, const char *want) {
    return report_error(EXIT_BAD_INPUT,
                        "%s has a model that was begun with %s %s, not %s; give the same options "
                        "or another directory",
                        dir, option, kept, want);
}

static void show_member(const lm_manifest *m, unsigned i, char out[32]) {
    const uint32_t v = get_member(m, i);
    const char *name = NULL;
    for (uint32_t k = 0; members[i].choices != NULL && members[i].choices[k] != NULL; k++)
        name = k == v ? members[i].choices[k] : name;
    if (name != NULL)
        (void)snprintf(out, 32, "%s", name);
    else
        (void)snprintf(out, 32, "%u", v);
}

/* A switch is given or left out: it has no word for off. */
static int differs_in_member(const char *dir, unsigned i, const lm_manifest *kept,
                             const lm_manifest *want) {
    char a[32], b[32];
    const bool on = get_member(kept, i) != 0;
    if (members[i].choices == switches)
        return report_error(
            EXIT_BAD_INPUT, "%s has a model that was begun %s %s; %s, or give another directory",
            dir, on ? "with" : "without", members[i].option, on ? "give it too" : "leave it out");
    show_member(kept, i, a);
    show_member(want, i, b);
    return differs(dir, members[i].option, a, b);
}

static int compare_text(const char *dir, const lm_manifest *kept, const lm_manifest *want) {
    char a[64], b[64];
    if (kept->text_bytes == want->text_bytes && strcmp(kept->text_sha256, want->text_sha256) == 0)
        return EXIT_DONE;
    (void)snprintf(a, sizeof a, "of %llu bytes, SHA-256 %.16s...",
                   (unsigned long long)kept->text_bytes, kept->text_sha256);
    (void)snprintf(b, sizeof b, "of %llu bytes, SHA-256 %.16s...",
                   (unsigned long long)want->text_bytes, want->text_sha256);
    return differs(dir, "a --text", a, b);
}

int lm_manifest_compare(const char *dir, const lm_manifest *kept, const lm_manifest *want) {
    char a[32], b[32];
    if (kept->seed != want->seed) {
        (void)snprintf(a, sizeof a, "%llu", (unsigned long long)kept->seed);
        (void)snprintf(b, sizeof b, "%llu", (unsigned long long)want->seed);
        return differs(dir, "--seed", a, b);
    }
    for (unsigned i = 0; i < STEPS; i++)
        if (get_member(kept, i) != get_member(want, i))
            return differs_in_member(dir, i, kept, want);
    for (unsigned i = 0; i < REALS; i++) {
        const double x = get_real(kept, i), y = get_real(want, i);
        if (x < y || x > y) {
            (void)snprintf(a, sizeof a, "%.10g", x);
            (void)snprintf(b, sizeof b, "%.10g", y);
            return differs(dir, reals[i].option, a, b);
        }
    }
    return compare_text(dir, kept, want);
}

int lm_manifest_steps(const char *dir, lm_manifest *kept, const lm_manifest *want, uint32_t done,
                      bool extend) {
    const uint32_t from = kept->cfg.steps, to = want->cfg.steps;
    if (from == to)
        return EXIT_DONE;
    if (to < from)
        return report_error(EXIT_BAD_INPUT,
                            "%s has a model that was begun with --steps %u, not %u, and %u are "
                            "done; a model never goes back: give the same options or another "
                            "directory",
                            dir, from, to, done);
    if (!extend)
        return report_error(EXIT_BAD_INPUT,
                            "%s has a model that was begun with --steps %u, not %u, and the rates "
                            "hang on it; give the same, or --extend to go on from step %u by the "
                            "rates of --steps %u",
                            dir, from, to, done, to);
    kept->cfg.steps = to;
    kept->extended++;
    return lm_manifest_write(dir, kept);
}
