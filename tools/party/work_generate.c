/* SPDX-License-Identifier: Apache-2.0 */
/* work_generate.c - sampling text between parties from a model that a training of theirs has kept,
 * or from the public initial weights of one; how a byte is sampled: lm/sampling.h.
 *
 * The prompt is its owner's, and so is what is sampled; the number of the prompt's bytes is public,
 * since all three choose the row that the next byte follows. Each party reads its own shares of the
 * weights out of its store of the training. One worker per party has the whole model here, however
 * it was split there. */
#include "work.h"

#include <dirent.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <uvcc/store.h>

#include "../atomic_file.h"
#include "../files.h"
#include "../flags_json.h"
#include "../lm/sampling.h"
#include "../report.h"
#include "../sealed.h"
#include "work_lm.h"
#include "work_util.h"

#define MESSAGE_BYTES 512u
#define PATH_BYTES    4096u
#define PROMPT        "\n"
#define PROMPT_MAX    (1u << 20)
#define SHOWN_BYTES   24u

enum { SHARES, INITIAL };
static const char *const weights[] = {"shares", "initial", NULL};

typedef struct sampling {
    lm_sampling sampling;
    uint32_t from; /* SHARES, INITIAL */
    uint8_t party;
    uint64_t owner, prompt_bytes, step; /* of the checkpoint */
    work_lm lm;                         /* the kept model */
    uvcc_transformer_config cfg;        /* of the worker that samples */
    char *store, *output;               /* NULL: not given */
    uint8_t *text;                      /* the owner's: the prompt, then what was sampled */
    uint32_t have;                      /* bytes that were sampled */
    int64_t *input, *select;
    uint8_t lineages[32]; /* of the shares: see agree() */
} sampling;

#define AT(member) offsetof(sampling, member)
static const flag flags[] = {
    LM_SAMPLING_FLAGS(AT),
    {"weights", "shares|initial", FLAG_CHOICE, AT(from), 0, 0, weights, ""},
};
static const flag_set set = {"party", flags, sizeof flags / sizeof flags[0], 0};

static int no_memory(void) {
    return report_error(EXIT_FAILED, "out of memory");
}

static bool is_owner(const sampling *g) {
    return g->party == g->owner;
}

/* ---- what the job says ---- */

static int one_worker(const work_config *c) {
    if (c->replicas == 1 && c->stages == 1 && c->tensor_ranks == 1 && c->microbatches == 1)
        return EXIT_DONE;
    return report_error(EXIT_BAD_INPUT,
                        "job: sampling is done by one worker per party, whatever the training was: "
                        "leave out replicas, stages, tensor_ranks and microbatches");
}

static int take_run(sampling *g, const work_config *c) {
    static const char *const names[] = {"length", "temperature", "weights", NULL};
    static const char *const more[] = {"kind",         "model", "prompt_owner",
                                       "prompt_bytes", "step",  NULL};
    char text[MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    g->sampling = (lm_sampling)LM_SAMPLING_DEFAULTS;
    int status = one_worker(c);
    if (status != EXIT_DONE)
        return status;
    if (flags_take_json(&set, names, more, g, c->run, "job.run", &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    status = work_lm_read_job("job.run.model", json_object_get(c->run, "model"), &g->lm);
    if (status != EXIT_DONE)
        return status;
    bool given;
    g->owner = g->lm.cfg.text_owner;
    g->prompt_bytes = sizeof PROMPT - 1;
    g->step = g->lm.o.steps;
    if (flags_json_count(c->run, "job.run", "prompt_owner", 0, UVCC_PARTIES - 1, &g->owner, NULL,
                         &m) != 0 ||
        flags_json_count(c->run, "job.run", "prompt_bytes", 1, PROMPT_MAX, &g->prompt_bytes, NULL,
                         &m) != 0 ||
        flags_json_count(c->run, "job.run", "step", 0, UINT32_MAX, &g->step, &given, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    if (given && g->from == INITIAL)
        return report_error(EXIT_BAD_INPUT, "job.run.step: initial weights are of no step; leave "
                                            "it out");
    g->cfg = lm_sampling_config(&g->lm.cfg);
    g->cfg.text_owner = (uint8_t)g->owner;
    g->cfg.sks = c->sks;
    return EXIT_DONE;
}

static int take_prompt(sampling *g, const char *prompt) {
    if (!is_owner(g) && prompt != NULL)
        return report_error(EXIT_BAD_INPUT,
                            "data.prompt: the prompt is party %u's (job.run.prompt_owner); this is "
                            "party %u, leave it out",
                            (unsigned)g->owner, g->party);
    if (!is_owner(g))
        return EXIT_DONE;
    prompt = prompt != NULL ? prompt : PROMPT;
    if (strlen(prompt) != g->prompt_bytes)
        return report_error(EXIT_BAD_INPUT,
                            "job.run.prompt_bytes: is %llu, but data.prompt has %zu bytes; write "
                            "%zu at all three parties",
                            (unsigned long long)g->prompt_bytes, strlen(prompt), strlen(prompt));
    g->text = malloc(g->prompt_bytes + g->sampling.length);
    if (g->text == NULL)
        return no_memory();
    memcpy(g->text, prompt, g->prompt_bytes);
    return EXIT_DONE;
}

static int take_data(sampling *g, const work_config *c) {
    static const char *const members[] = {"prompt", "store", NULL};
    char text[MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    const char *prompt, *store;
    if (flags_json_only(c->data, "data", members, &m) != 0 ||
        flags_json_text(c->data, "data", "prompt", &prompt, &m) != 0 ||
        flags_json_text(c->data, "data", "store", &store, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    if ((store != NULL) != (g->from == SHARES))
        return report_error(EXIT_BAD_INPUT,
                            store == NULL
                                ? "data.store: it is missing; name the directory in which this "
                                  "party keeps its shares of the model (the training's \"store\")"
                                : "data.store: initial weights (job.run.weights) come from no "
                                  "store; leave it out");
    g->store = store != NULL ? work_path(c->dir, store) : NULL;
    if (store != NULL && g->store == NULL)
        return no_memory();
    return take_prompt(g, prompt);
}

/* What an earlier process of this job sampled: the job may go on behind it. */
static int read_output(sampling *g) {
    struct stat st;
    uint8_t *bytes;
    size_t len;
    if (stat(g->output, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
        return EXIT_DONE;
    const int status = file_read(g->output, EXIT_BAD_INPUT, &bytes, &len);
    if (status != EXIT_DONE)
        return status;
    if (len > g->prompt_bytes && len <= g->prompt_bytes + g->sampling.length &&
        memcmp(bytes, g->text, g->prompt_bytes) == 0) {
        memcpy(g->text, bytes, len);
        g->have = (uint32_t)(len - g->prompt_bytes);
    }
    free(bytes);
    return EXIT_DONE;
}

static int take_output(sampling *g, const work_config *c) {
    static const char *const members[] = {"text", NULL};
    const int read = work_output(c, members, "text", &g->output);
    if (read != EXIT_DONE || g->output == NULL)
        return read;
    if (!is_owner(g))
        return report_error(EXIT_BAD_INPUT,
                            "output.text: what is sampled opens to party %u alone "
                            "(job.run.prompt_owner); leave it out",
                            (unsigned)g->owner);
    const int status = atomic_file_check("output.text", g->output);
    return status == EXIT_DONE ? read_output(g) : status;
}

/* ---- shares ---- */

/* A process that ran one worker alone has a directory of its own in the store. */
static void place_of(const sampling *g, const uvcc_transformer_worker *at, char out[PATH_BYTES]) {
    struct stat st;
    const int n = snprintf(out, PATH_BYTES, "%s/r%u-s%u-t%u", g->store, at->replica, at->stage,
                           at->tensor_rank);
    if (n >= (int)PATH_BYTES || stat(out, &st) != 0 || !S_ISDIR(st.st_mode))
        (void)snprintf(out, PATH_BYTES, "%s", g->store);
}

/* "1, 2" of the steps that a worker has; "none". */
static void say_steps(const char *dir, const uvcc_transformer_worker *at, char *out, size_t cap) {
    DIR *d = opendir(dir);
    const struct dirent *e;
    size_t n = 0;
    (void)snprintf(out, cap, "none");
    while (d != NULL && (e = readdir(d)) != NULL && n < cap) {
        char again[64];
        uint32_t step = 0;
        const char *dot = strrchr(e->d_name, '-');
        step = dot != NULL ? (uint32_t)strtoul(dot + 1, NULL, 10) : 0;
        (void)snprintf(again, sizeof again, "r%u-s%u-t%u.step-%u", at->replica, at->stage,
                       at->tensor_rank, step);
        if (strcmp(again, e->d_name) == 0)
            n += (size_t)snprintf(out + n, cap - n, "%s%u", n != 0 ? ", " : "", step);
    }
    if (d != NULL)
        (void)closedir(d);
}

static int no_step(const sampling *g, const char *dir, const uvcc_transformer_worker *at) {
    char have[160];
    say_steps(dir, at, have, sizeof have);
    return report_error(EXIT_BAD_INPUT,
                        "data.store: %s has no checkpoint of step %u of worker r%u s%u t%u (steps "
                        "that it has: %s); job.run.step chooses one, the same at all three parties",
                        dir, (uint32_t)g->step, at->replica, at->stage, at->tensor_rank, have);
}

/* The store's form: see <uvcc/store.h>. Notes the lineage. */
static int load_share(void *user, const uvcc_transformer_worker *at, uint8_t **bytes, size_t *len) {
    sampling *g = user;
    char dir[PATH_BYTES], path[PATH_BYTES + 64], label[128], why[UVCC_STORE_TEXT_BYTES];
    struct stat st;
    uint8_t key[32], both[64];
    uvcc_checkpoint_info info;
    place_of(g, at, dir);
    (void)snprintf(path, sizeof path, "%s/key", dir);
    if (uvcc_key_read(path, UVCC_KEY_STORAGE, key, why, sizeof why) != 0)
        return report_error(EXIT_BAD_INPUT, "data.store: %s", why);
    (void)snprintf(path, sizeof path, "%s/r%u-s%u-t%u.step-%u", dir, at->replica, at->stage,
                   at->tensor_rank, (uint32_t)g->step);
    (void)snprintf(label, sizeof label, "uvcc checkpoint party %u r%u s%u t%u step %u", g->party,
                   at->replica, at->stage, at->tensor_rank, (uint32_t)g->step);
    int status =
        stat(path, &st) == 0 ? sealed_read(path, label, key, bytes, len) : no_step(g, dir, at);
    sodium_memzero(key, sizeof key);
    if (status == SEALED_DAMAGED)
        status = report_error(EXIT_BAD_INPUT,
                              "data.store: %s is damaged, or not of party %u; put it back from a "
                              "copy, or choose another job.run.step",
                              path, g->party);
    if (status == EXIT_DONE && uvcc_checkpoint_read(*bytes, *len, &info) == 0) {
        memcpy(both, g->lineages, 32);
        memcpy(both + 32, info.lineage, 32);
        (void)crypto_hash_sha256(g->lineages, both, sizeof both);
    }
    return status;
}

static int gather(sampling *g, lm_shares *out) {
    memset(g->lineages, 0, sizeof g->lineages);
    return lm_shares_gather(out, &g->lm.cfg, g->party, g->store, load_share, g);
}

/* What is missing is known before the work begins. */
static int check_shares(sampling *g) {
    lm_shares shares = {0};
    if (g->from == INITIAL)
        return EXIT_DONE;
    const int status = gather(g, &shares);
    lm_shares_free(&shares);
    return status;
}

/* Shares of other histories fit together as little as those of other steps. */
static uint64_t agree(const void *work, const char **name) {
    const sampling *g = work;
    uint64_t v = 0;
    *name = "shares of the weights";
    memcpy(&v, g->lineages, sizeof v);
    return v;
}

/* ---- begin and end ---- */

static void close_sampling(void *work) {
    sampling *g = work;
    if (g == NULL)
        return;
    free(g->store);
    free(g->output);
    free(g->text);
    free(g->input);
    free(g->select);
    free(g);
}

static int open_sampling(void **work, const work_config *c) {
    sampling *g = calloc(1, sizeof *g);
    *work = g;
    if (g == NULL)
        return no_memory();
    g->party = c->party;
    int status = take_run(g, c);
    if (status == EXIT_DONE)
        status = take_data(g, c);
    if (status == EXIT_DONE)
        status = take_output(g, c);
    if (status == EXIT_DONE) {
        g->input = malloc((size_t)g->cfg.context * UVCC_TRANSFORMER_VOCAB * sizeof *g->input);
        g->select = malloc(g->cfg.context * sizeof *g->select);
        status = g->input != NULL && g->select != NULL ? check_shares(g) : no_memory();
    }
    if (status == EXIT_DONE)
        return status;
    close_sampling(g);
    *work = NULL;
    return status;
}

/* ---- steps ---- */

static int make_program(void *work, const work_worker *w, uvcc_program **out) {
    const sampling *g = work;
    const uvcc_transformer_worker at = {w->replica, w->stage, w->tensor_rank};
    return work_lm_program("job.run.model", &g->cfg, &at, out);
}

static uint32_t count_steps(const void *work) {
    return ((const sampling *)work)->sampling.length;
}

static uint32_t entry_of(const void *work, const work_worker *w, uint32_t step, const char **name,
                         bool *ahead) {
    (void)work;
    (void)step;
    *name = "next";
    *ahead = false;
    return (uint32_t)uvcc_program_find_entry(w->program, *name);
}

/* The row that the next byte follows. */
static int prepare(void *work, const work_worker *w, uvcc_session *s, uint32_t step) {
    const sampling *g = work;
    const int64_t temperature = lm_sampling_temperature(&g->cfg, g->sampling.temperature);
    lm_sampling_select(&g->cfg, (size_t)g->prompt_bytes + step, g->select);
    const int status = work_lm_set(s, (uint32_t)uvcc_program_find(w->program, "temperature"),
                                   "the temperature", &temperature);
    return status == EXIT_DONE ? work_lm_set(s, (uint32_t)uvcc_program_find(w->program, "select"),
                                             "the row", g->select)
                               : status;
}

static int set_state(void *user, uint32_t tensor, const int64_t *v) {
    return work_lm_set(user, tensor, "the initial weights", v);
}

static int first_values(void *work, const work_worker *w, uvcc_session *s) {
    sampling *g = work;
    const uvcc_transformer_worker at = {0, 0, 0};
    lm_model initial = {0};
    lm_shares shares = {0};
    int status;
    if (g->from == INITIAL) {
        status = lm_model_init(&initial, &g->cfg, g->lm.o.run.seed);
        if (status == EXIT_DONE)
            status = lm_model_each_state(&initial, &at, w->program, set_state, s);
        lm_model_free(&initial);
        return status;
    }
    status = gather(g, &shares);
    if (status == EXIT_DONE)
        status = lm_shares_set(&shares, w->program, s);
    lm_shares_free(&shares);
    return status;
}

static const int64_t *give_input(void *work, const work_worker *w, uint32_t step, uint32_t id) {
    const sampling *g = work;
    (void)w;
    (void)id; /* the prompt is the only one */
    if (step > g->have) {
        (void)report_error(EXIT_FAILED,
                           "the job goes on at byte %u, and %u of what was sampled before are here "
                           "(output.text); begin it anew with another store",
                           step, g->have);
        return NULL;
    }
    lm_sampling_window(&g->cfg, g->text, (size_t)g->prompt_bytes + step, g->input);
    return g->input;
}

/* ---- what is opened ---- */

static int write_output(const sampling *g) {
    const int why =
        g->output == NULL ? 0 : file_write(g->output, g->text, (size_t)g->prompt_bytes + g->have);
    return why == 0 ? EXIT_DONE
                    : report_error(EXIT_FAILED, "output.text %s: cannot be written: %s", g->output,
                                   strerror(why));
}

/* The end of the text, one column for each byte. */
static void show(const sampling *g, char text[64]) {
    const size_t len = (size_t)g->prompt_bytes + g->have;
    const size_t from = len > SHOWN_BYTES ? len - SHOWN_BYTES : 0;
    size_t n = 0;
    for (size_t i = from; i < len; i++)
        text[n++] = (char)(g->text[i] >= ' ' && g->text[i] < 127 ? g->text[i] : '.');
    text[n] = '\0';
}

/* It is on the disk before a checkpoint of the next step is. */
static int finished(void *work, const work_worker *w, uvcc_session *s, uint32_t step,
                    char text[64]) {
    sampling *g = work;
    (void)w;
    text[0] = '\0';
    if (!is_owner(g))
        return EXIT_DONE;
    const int64_t *byte = uvcc_session_output(s, step, UVCC_TRANSFORMER_OUT_NEXT);
    if (byte == NULL)
        return report_error(EXIT_FAILED, "byte %u is not open", step);
    g->text[g->prompt_bytes + step] = (uint8_t)*byte;
    g->have = step + 1;
    show(g, text);
    return write_output(g);
}

/* ---- the result ---- */

static int part(void *work, uint8_t **bytes, size_t *len) {
    const sampling *g = work;
    work_bytes out = {0};
    if (is_owner(g))
        work_put(&out, g->text + g->prompt_bytes, g->have);
    *bytes = out.at;
    *len = out.len;
    return out.failed ? no_memory() : EXIT_DONE;
}

/* Samples of an untrained model are rarely UTF-8, which JSON needs. */
static json_t *text_json(const uint8_t *bytes, size_t len) {
    return len != 0 && memchr(bytes, 0, len) == NULL ? json_stringn((const char *)bytes, len)
                                                     : NULL;
}

static json_t *hex_json(const uint8_t *bytes, size_t len) {
    char *hex = malloc(2 * len + 1);
    json_t *out = NULL;
    if (hex != NULL)
        out = json_string(len != 0 ? sodium_bin2hex(hex, 2 * len + 1, bytes, len) : "");
    free(hex);
    return out;
}

static int merge(void *work, const uint8_t *const *parts, const size_t *len, size_t count,
                 json_t *result) {
    const sampling *g = work;
    int bad = 0;
    json_t *text = is_owner(g) && count == 1 ? text_json(parts[0], len[0]) : NULL;
    bad |= json_object_set_new(result, "length", json_integer(g->sampling.length));
    bad |= json_object_set_new(result, "text", text != NULL ? text : json_null());
    bad |= json_object_set_new(
        result, "text_hex", is_owner(g) && count == 1 ? hex_json(parts[0], len[0]) : json_null());
    return bad == 0 ? EXIT_DONE : no_memory();
}

const work_kind work_generate = {.name = "generate",
                                 .open = open_sampling,
                                 .close = close_sampling,
                                 .program = make_program,
                                 .steps = count_steps,
                                 .entry = entry_of,
                                 .prepare = prepare,
                                 .first_values = first_values,
                                 .input = give_input,
                                 .own_text = true,
                                 .finished = finished,
                                 .part = part,
                                 .merge = merge,
                                 .agree = agree};
