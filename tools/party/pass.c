/* SPDX-License-Identifier: Apache-2.0 */
/* pass.c - see pass.h. */
#include "pass.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../flags_json.h"
#include "../interrupt.h"
#include "../report.h"
#include "share_dir.h"
#include "work_util.h"

#define ALL_LAYERS (UVCC_MODEL_NO_LAYER - 1) /* and what belongs to none */
enum { MESSAGE_BYTES = 512, WEIGHTS_OF_A_STEP = 128 };

const char *const pass_takes[] = {"hidden", "tokens", "one-hot", NULL}; /* by model_takes */
const char *const pass_knows[] = {"secret", "public", "shared", "streamed", NULL};

static int no_memory(void) {
    return report_error(EXIT_FAILED, "out of memory");
}

bool pass_is_public(const pass *v) {
    return v->run.weights == PASS_PUBLIC;
}

/* In files. */
static bool is_shared(const pass *v) {
    return v->run.weights == PASS_SHARED || v->run.weights == PASS_STREAMED;
}

/* ---- what is told ---- */

static int check_run(const pass *v) {
    const struct {
        const char *name;
        bool missing;
    } needed[] = {{"model", json_object_get(v->json, "model") == NULL},
                  {"tokens", v->run.pass.tokens == 0},
                  {"gives", v->run.pass.gives == GIVES_USUAL},
                  {"value_bits", v->run.pass.value_bits == 0},
                  {"inner_bits", v->run.pass.inner_bits == 0}};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (needed[i].missing)
            return report_error(EXIT_BAD_INPUT,
                                "%s: %s.%s is missing; `uvcc infer` says what a model needs",
                                v->file, v->where, needed[i].name);
    if (pass_is_public(v) && json_object_get(v->json, "weights_owner") != NULL)
        return report_error(EXIT_BAD_INPUT,
                            "%s: %s.weights_owner does nothing with weights \"public\"; leave it "
                            "out",
                            v->file, v->where);
    return EXIT_DONE;
}

int pass_read_run(pass *v, const char *file, const char *where, const json_t *run,
                  const flag_set *members) {
    static const char *const more[] = {"kind", "model", NULL};
    char text[MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    *v = (pass){.file = file, .where = where, .json = run};
    v->run = (pass_run){.pass = {.sequences = 1,
                                 .gives = GIVES_USUAL,
                                 .takes = TAKES_TOKENS,
                                 .frac_bits = 16,
                                 .weight_bits = 4},
                        .weights_owner = 1};
    v->f.o = &v->o;
    if (flags_take_json(members, NULL, more, &v->run, run, where, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s: %s", file, text);
    v->run.pass.public_weights = pass_is_public(v);
    const int status = check_run(v);
    if (status != EXIT_DONE)
        return status;
    v->o = (infer_options){.to = v->run.to,
                           .gives = v->run.pass.gives,
                           .mode = v->run.pass.mode,
                           .public_weights = pass_is_public(v),
                           .weights_owner = v->run.weights_owner,
                           .input_owner = v->run.input_owner};
    if (infer_take_receiver(&v->o, &m) == 0)
        return EXIT_DONE;
    flags_json_words(where, NULL, &m);
    return report_error(EXIT_BAD_INPUT, "%s: %s", file, text);
}

/* Who has no table of secret weights names its rows. */
int pass_read_served(pass *v, const char *file, const char *where, const json_t *run) {
    static const flag members[] = {
        PASS_FLAGS,
        PASS_FLAG("takes", "hidden|tokens|one-hot", FLAG_CHOICE, pass.takes, 0, 0, pass_takes)};
    static const flag_set set = {.flags = members, .count = sizeof members / sizeof members[0]};
    const int status = pass_read_run(v, file, where, run, &set);
    if (status != EXIT_DONE)
        return status;
    if (json_object_get(run, "takes") == NULL)
        v->run.pass.takes = pass_is_public(v) ? TAKES_HIDDEN : TAKES_TOKENS;
    return pass_describe(v);
}

/* ---- steps of weights ---- */

/* Elements of a step: a part of all, so that what is on its way is little beside what stays. */
static uint64_t step_room(const uvcc_model_config *c) {
    enum { PARTS = 32, LEAST = 1 << 16 };
    const uint64_t part = uvcc_model_parameters(c) / PARTS;
    return part > LEAST ? part : LEAST;
}

/* Weights one after the other: how many steps there are with this one. */
typedef struct step_count {
    uint64_t room, elements;
    uint32_t weights, steps; /* of the last step; all */
} step_count;

static uint32_t step_with(step_count *s, const uvcc_model_weight *w) {
    const uint64_t n = (uint64_t)w->rows * w->cols;
    if (s->steps == 0 || s->weights == WEIGHTS_OF_A_STEP || s->elements + n > s->room) {
        s->steps++;
        s->weights = 0;
        s->elements = 0;
    }
    s->weights++;
    s->elements += n;
    return s->steps;
}

static uint32_t count_steps(const uvcc_model_config *c) {
    step_count s = {.room = step_room(c)};
    uvcc_model_weight w;
    for (uint32_t i = 0; uvcc_model_weight_at(c, i, &w) == 0; i++)
        (void)step_with(&s, &w);
    return s.steps;
}

/* ---- what is described ---- */

int pass_describe(pass *v) {
    loaded *l = &v->f.l;
    char text[MESSAGE_BYTES] = "", place[64];
    const flag_message m = {text, sizeof text};
    (void)snprintf(place, sizeof place, "%s.model", v->where);
    l->from.config = json_incref(json_object_get(v->json, "model"));
    if (description_read(&l->d, l->from.config, place, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s: %s", v->file, text);
    if (l->d.unknown[0] != '\0')
        return report_error(EXIT_BAD_INPUT,
                            "%s: %s: %s: not known here; take away what changes nothing of the "
                            "forward pass, here and in the model's config.json",
                            v->file, place, l->d.unknown);
    l->pass = v->run.pass;
    v->f.p.d = l->d;
    if (description_config(&l->d, &l->pass, &v->f.p.config, l->refused, sizeof l->refused) != 0)
        return report_error(EXIT_BAD_INPUT, "%s: %s: %s", v->file, v->where, l->refused);
    v->f.p.shape = v->f.p.config;
    v->steps = count_steps(&v->f.p.config);
    v->f.p.in.sequences = v->run.pass.sequences; /* of those who have no input too */
    v->f.p.in.tokens = v->run.pass.tokens;
    l->w = (weights){.d = &l->d, .shape = v->f.p.shape};
    return EXIT_DONE;
}

static int weight_room(pass *v) {
    uvcc_model_weight w;
    uint64_t most = 0;
    for (uint32_t i = 0; uvcc_model_weight_at(&v->f.l.w.shape, i, &w) == 0; i++)
        most = (uint64_t)w.rows * w.cols > most ? (uint64_t)w.rows * w.cols : most;
    v->weight = malloc(most * sizeof *v->weight);
    return v->weight != NULL ? EXIT_DONE : no_memory();
}

int pass_read_model(pass *v) {
    const model_options asked = {.word = {"infer", v->model}, .pass = v->run.pass};
    loaded *l = &v->f.l;
    json_t *told = l->from.config;
    l->from.config = NULL;
    const int status = model_load(l, &asked);
    const bool same = status == EXIT_DONE && json_equal(told, l->from.config);
    json_decref(told);
    if (status != EXIT_DONE)
        return status;
    if (!same)
        return report_error(EXIT_BAD_INPUT,
                            "%s: %s.model: is not what %s says; copy that to all who have part in "
                            "this job",
                            v->file, v->where, l->from.config_path);
    if (l->all.clipped != 0)
        return report_error(
            EXIT_BAD_INPUT, "%s: %s.weight_bits: %llu weights leave %u bits; give %u", v->file,
            v->where, (unsigned long long)l->all.clipped, v->run.pass.weight_bits, l->all.bits);
    return weight_room(v);
}

/* What begins with an option of `uvcc infer` has that name here: the place's own, or a member of
 * it.
 */
static int refuse_input(const char *place, const char *text) {
    const bool option = strncmp(text, "--", 2) == 0, of_option = strncmp(place, "--", 2) == 0;
    if (option && of_option)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    return report_error(EXIT_BAD_INPUT, "%s%s%s", place, option ? "." : ": ",
                        option ? text + 2 : text);
}

int pass_read_input(pass *v, const char *place) {
    char text[MESSAGE_BYTES] = "", agreed[sizeof "job.run.tokens"];
    const flag_message m = {text, sizeof text};
    model_input *in = &v->f.p.in;
    (void)snprintf(agreed, sizeof agreed, "%s.tokens", v->where);
    v->o.tokens = v->run.pass.padding ? v->run.pass.tokens : 0;
    v->o.agreed = agreed;
    *in = (model_input){0};
    const int rc = infer_read_input(&v->f, &m);
    v->o.agreed = NULL;
    if (rc != 0)
        return refuse_input(place, text);
    if (in->tokens != v->run.pass.tokens)
        return report_error(EXIT_BAD_INPUT,
                            "%s: has sequences of %u tokens, but %s.tokens is %u; it is the same "
                            "for all",
                            place, in->tokens, v->where, v->run.pass.tokens);
    if (in->padding != NULL && !v->run.pass.padding)
        return report_error(EXIT_BAD_INPUT,
                            "%s: has padding; give %s.padding true, everywhere alike", place,
                            v->where);
    if (in->padding == NULL && v->run.pass.padding) {
        in->padding = calloc((size_t)in->sequences * in->tokens, sizeof *in->padding);
        if (in->padding == NULL)
            return no_memory();
    }
    v->f.x = plain_input(&v->f.p);
    return v->f.x != NULL ? EXIT_DONE : no_memory();
}

void pass_free(pass *v) {
    infer_forget(&v->f);
    shares_close(&v->shares);
    free(v->shares_path);
    free(v->place);
    free(v->tensor);
    free(v->model);
    free(v->weight);
}

static bool has_weights(const pass *v, uint32_t party) {
    return pass_is_public(v) || (v->run.weights == PASS_SECRET && party == v->run.weights_owner);
}

/* ---- weights ---- */

uint32_t pass_weight_steps(const pass *v) {
    return v->run.weights == PASS_SECRET ? v->steps : 0;
}

static void name_entry(uint32_t step, char out[32]) {
    (void)snprintf(out, 32, "weights %u", step);
}

int pass_add_weights(const pass *v, uvcc_program *p, uint32_t *tensors, char *why, size_t cap) {
    const uvcc_model_config *c = &v->f.p.config;
    step_count s = {.room = step_room(c)};
    uvcc_model_weight w;
    char name[32];
    uint32_t begun = 0;
    int rc = uvcc_model_weights(c, p, "", tensors, why, cap);
    for (uint32_t i = 0;
         v->run.weights == PASS_SECRET && rc >= 0 && uvcc_model_weight_at(c, i, &w) == 0; i++) {
        if (step_with(&s, &w) != begun) {
            name_entry(begun++, name);
            rc = uvcc_program_entry(p, name);
        }
        if (rc >= 0)
            rc = uvcc_program_input(p, PASS_IN_WEIGHT + i, tensors[i],
                                    (uint8_t)v->run.weights_owner);
    }
    return rc < 0 ? rc : 0;
}

uint32_t pass_weight_entry(const uvcc_program *p, uint32_t step) {
    char name[32];
    name_entry(step, name);
    return (uint32_t)uvcc_program_find_entry(p, name);
}

/* Read and rounded in the same place. */
const int64_t *pass_weight(pass *v, uint32_t id) {
    uvcc_model_weight of;
    char text[MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    double *real = (double *)(void *)v->weight;
    if (uvcc_model_weight_at(&v->f.l.w.shape, id - PASS_IN_WEIGHT, &of) != 0 ||
        weights_read(&v->f.l.w, id - PASS_IN_WEIGHT, real, &m) != 0) {
        (void)report_error(EXIT_FAILED, "data.model: %s", text);
        return NULL;
    }
    fixed_round(real, (uint64_t)of.rows * of.cols, v->run.pass.frac_bits, v->run.pass.weight_bits,
                v->weight);
    return v->weight;
}

static int set_public(pass *v, uvcc_session *s, uint32_t tensor, uint32_t i) {
    const int64_t *values = pass_weight(v, PASS_IN_WEIGHT + i);
    return values != NULL ? uvcc_session_set_public(s, tensor, values) : UVCC_ERR_IO;
}

static int set_shares(pass *v, uvcc_session *s, uint32_t tensor, const pass_place *at) {
    char text[MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    const uint64_t n = at->elements;
    uint64_t *lo = malloc(16 * n);
    if (lo == NULL)
        return UVCC_ERR_NOMEM;
    int rc = UVCC_ERR_IO;
    if (shares_read(&v->shares, at->first, n, lo, lo + n, &m) != 0)
        (void)report_error(EXIT_BAD_INPUT, "data.shares: %s", text);
    else
        rc = uvcc_session_set_shares(s, tensor, lo, lo + n);
    sodium_memzero(lo, 16 * n);
    free(lo);
    return rc;
}

static int set_one(pass *v, const work_worker *w, uvcc_session *s, const pass_place *at) {
    uvcc_model_weight of;
    (void)uvcc_model_weight_at(&v->f.p.config, at->weight, &of);
    const int tensor =
        v->tensor != NULL ? (int)v->tensor[at->weight] : uvcc_program_find(w->program, of.name);
    const int rc = tensor < 0          ? tensor
                   : pass_is_public(v) ? set_public(v, s, (uint32_t)tensor, at->weight)
                                       : set_shares(v, s, (uint32_t)tensor, at);
    if (rc == UVCC_ERR_AGAIN || rc == UVCC_ERR_NOMEM)
        return WORK_LATER;
    v->set += rc == 0;
    return rc == 0             ? EXIT_DONE
           : rc == UVCC_ERR_IO ? EXIT_BAD_INPUT /* it was said */
                               : report_error(EXIT_FAILED, "%s: %s", of.name, uvcc_error_text(rc));
}

/* The largest first: while it is in several places little else is there. */
static int place_weights(pass *v) {
    const uvcc_model_config *c = &v->f.p.config;
    uint64_t first = 0;
    uvcc_model_weight w;
    v->place = calloc(uvcc_model_weight_count(c), sizeof *v->place);
    if (v->place == NULL)
        return no_memory();
    for (uint32_t i = 0; uvcc_model_weight_at(c, i, &w) == 0; i++) {
        const pass_place one = {i, w.layer, first, (uint64_t)w.rows * w.cols};
        uint32_t at = i;
        for (; at > 0 && v->place[at - 1].elements < one.elements; at--)
            v->place[at] = v->place[at - 1];
        v->place[at] = one;
        first += one.elements;
    }
    return EXIT_DONE;
}

/* Some in a call, so that not all are with the session in two places. */
static int set_some(pass *v, const work_worker *w, uvcc_session *s, uint32_t layer) {
    const uint32_t count = uvcc_model_weight_count(&v->f.p.config);
    uint64_t elements = 0;
    if (v->place == NULL && place_weights(v) != EXIT_DONE)
        return EXIT_FAILED;
    if (v->set_run != w->run + 1 || v->set_layer != layer)
        v->set = 0;
    v->set_run = w->run + 1; /* 0: of none yet */
    v->set_layer = layer;
    while (v->set < count) {
        const pass_place *at = &v->place[v->set];
        if (layer != ALL_LAYERS && at->layer != layer) {
            v->set++;
            continue;
        }
        elements += at->elements;
        if (elements > step_room(&v->f.p.config) && elements != at->elements)
            return WORK_LATER;
        const int status = set_one(v, w, s, at);
        if (status != EXIT_DONE)
            return status;
    }
    shares_forget(&v->shares); /* a layer's shares are here for its step alone */
    return EXIT_DONE;
}

int pass_set_weights(pass *v, const work_worker *w, uvcc_session *s) {
    if (v->run.weights == PASS_SECRET)
        return EXIT_DONE;
    return set_some(v, w, s, pass_streams(v) ? UVCC_MODEL_NO_LAYER : ALL_LAYERS);
}

/* ---- streamed weights ---- */

bool pass_streams(const pass *v) {
    return v->run.weights == PASS_STREAMED;
}

uint32_t pass_streamed_steps(const pass *v) {
    return v->f.p.config.layers + 2;
}

static bool has_layer(const pass *v, uint32_t step) {
    return step >= 1 && step <= v->f.p.config.layers;
}

const char *pass_streamed_entry(const pass *v, uint32_t step) {
    return has_layer(v, step) ? uvcc_model_streamed_entry(&v->f.p.config, step - 1)
           : step == 0        ? "embed"
                              : "head";
}

int pass_set_streamed(pass *v, const work_worker *w, uvcc_session *s, uint32_t step) {
    return has_layer(v, step) ? set_some(v, w, s, step - 1) : EXIT_DONE;
}

int pass_program(pass *v, uvcc_program **out,
                 int (*add)(const pass *v, uvcc_program *p, uint32_t *tensors, char *why,
                            size_t cap)) {
    const uvcc_allocator al = uvcc_host_allocator();
    char why[MESSAGE_BYTES] = "";
    uvcc_program *p = NULL;
    uint32_t *tensors = calloc(uvcc_model_weight_count(&v->f.p.config), sizeof *tensors);
    int rc = tensors == NULL ? UVCC_ERR_NOMEM : uvcc_program_new(&p, &al);
    if (rc == 0)
        rc = add(v, p, tensors, why, sizeof why);
    if (rc >= 0)
        rc = uvcc_program_finish(p, why, sizeof why);
    free(v->tensor);
    v->tensor = NULL;
    if (pass_streams(v))
        v->tensor = tensors;
    else
        free(tensors);
    if (rc >= 0) {
        *out = p;
        return EXIT_DONE;
    }
    uvcc_program_free(p);
    return report_error(EXIT_BAD_INPUT, "%s: %s: %s", v->file, v->where,
                        why[0] != '\0' ? why : uvcc_error_text(rc));
}

/* ---- shares of weights ---- */

/* All that the values and their order follow from. */
static int hash_model(const pass *v, uint8_t out[32], uint64_t *words) {
    crypto_hash_sha256_state h;
    uvcc_model_weight w;
    char line[128];
    char *config = json_dumps(json_object_get(v->json, "model"), JSON_COMPACT | JSON_SORT_KEYS);
    if (config == NULL)
        return no_memory();
    crypto_hash_sha256_init(&h);
    crypto_hash_sha256_update(&h, (const uint8_t *)config, strlen(config) + 1);
    int n = snprintf(line, sizeof line, "frac_bits %u weight_bits %u\n", v->run.pass.frac_bits,
                     v->run.pass.weight_bits);
    crypto_hash_sha256_update(&h, (const uint8_t *)line, (size_t)n);
    *words = 0;
    for (uint32_t i = 0; uvcc_model_weight_at(&v->f.p.config, i, &w) == 0; i++) {
        n = snprintf(line, sizeof line, "%s %u %u\n", w.name, w.rows, w.cols);
        crypto_hash_sha256_update(&h, (const uint8_t *)line, (size_t)n);
        *words += (uint64_t)w.rows * w.cols;
    }
    crypto_hash_sha256_final(&h, out);
    free(config);
    return EXIT_DONE;
}

static int describe_shares(const pass *v, const work_config *c, shares_of *of) {
    *of = (shares_of){.owner = (uint8_t)v->run.weights_owner};
    memcpy(of->key, c->public_key, sizeof of->key);
    return hash_model(v, of->model, &of->words);
}

static int open_shares(pass *v, const work_config *c) {
    char text[MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    shares_of of;
    const int status = describe_shares(v, c, &of);
    if (status != EXIT_DONE)
        return status;
    if (shares_open(&v->shares, v->shares_path, &of, c->party, c->identity, &m) != 0 ||
        (c->check && shares_check(&v->shares, &m) != 0))
        return report_error(EXIT_BAD_INPUT, "%s: data.shares: %s", v->file, text);
    return EXIT_DONE;
}

static int bad(const pass *v, const char *why) {
    return report_error(EXIT_BAD_INPUT, "%s: %s", v->file, why);
}

int pass_read_weights(pass *v, const work_config *c, const char *model, const char *shares) {
    const bool shared = is_shared(v);
    const bool owner = c->party == v->run.weights_owner, runs = c->identity != NULL && !c->share;
    const bool needs = has_weights(v, c->party) || (shared && owner && c->share);
    if (model != NULL && !needs && !(shared && owner))
        return bad(v,
                   "data.model: the weights are another party's (job.run.weights_owner); take it "
                   "away");
    if (model == NULL && needs)
        return bad(v, "data.model is missing; name the checkpoint's directory");
    if (shares != NULL && !shared)
        return bad(v,
                   "data.shares does nothing unless job.run.weights is \"shared\" or \"streamed\"; "
                   "take it away");
    if (shares == NULL && shared && runs)
        return bad(v, "data.shares is missing; name this party's file of those that the weights' "
                      "owner makes with `uvcc party --share`");
    int status = work_take_path(c, needs ? model : NULL, &v->model);
    if (status == EXIT_DONE && runs)
        status = work_take_path(c, shares, &v->shares_path);
    if (status == EXIT_DONE && v->model != NULL)
        status = pass_read_model(v);
    if (status == EXIT_DONE && v->shares_path != NULL)
        status = open_shares(v, c);
    return status;
}

uint64_t pass_agree(const pass *v, const char **name) {
    *name = "data.shares";
    return v->shares_path != NULL ? uvcc_agree_hash(v->shares.id, sizeof v->shares.id) : 0;
}

static int share_into(pass *v, const work_config *c, atomic_file *const a[UVCC_PARTIES]) {
    FILE *to[UVCC_PARTIES];
    shares_of of;
    int status = describe_shares(v, c, &of);
    if (status != EXIT_DONE)
        return status;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        to[p] = atomic_file_stream(a[p]);
    shares_writer *w = shares_begin(to, &of, c->identity);
    if (w == NULL)
        return report_error(EXIT_FAILED,
                            "%s: the weights cannot be shared: a public key among "
                            "parties[].key is none, or memory is short",
                            v->file);
    uvcc_model_weight of_one;
    for (uint32_t i = 0;
         status == EXIT_DONE && uvcc_model_weight_at(&v->f.p.config, i, &of_one) == 0; i++) {
        const int64_t *values = pass_weight(v, PASS_IN_WEIGHT + i);
        if (values != NULL)
            shares_put(w, values, (uint64_t)of_one.rows * of_one.cols);
        if (values == NULL)
            status = EXIT_BAD_INPUT;
        else if (interrupted())
            status = report_error(EXIT_INTERRUPTED, "interrupted; no file of shares was made");
    }
    shares_end(w);
    return status;
}

int pass_share(pass *v, const work_config *c, const char *dir) {
    char path[UVCC_PARTIES][SHARE_PATH_BYTES];
    atomic_file *a[UVCC_PARTIES] = {NULL};
    int status = EXIT_DONE;
    if (!is_shared(v) || c->party != v->run.weights_owner)
        return bad(v, "--share: is for the party job.run.weights_owner of a job whose "
                      "job.run.weights is \"shared\" or \"streamed\"");
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
        status = share_dir_path(dir, p, path[p]);
        if (status == EXIT_DONE)
            a[p] = atomic_file_open_own("share", path[p], &status);
    }
    if (status == EXIT_DONE)
        status = share_into(v, c, a);
    /* Files of an earlier sharing stay unless all three can be replaced: two do not mix. */
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++)
        status = atomic_file_settle(a[p]);
    if (status == EXIT_DONE)
        status = share_dir_begin(dir);
    const bool begun = status == EXIT_DONE;
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        const long at = a[p] != NULL ? ftell(atomic_file_stream(a[p])) : 0;
        if (status == EXIT_DONE)
            status = atomic_file_finish(a[p]);
        if (status == EXIT_DONE)
            (void)printf("party %u          %s, %ld bytes\n", p, path[p], at);
        atomic_file_close(a[p]);
    }
    return begun ? share_dir_end(dir, status) : status;
}

/* ---- requests of clients ---- */

/* Of the model as "run" has it: text, members in the order of their names. */
static uint32_t model_hash(const pass *v) {
    char *text = json_dumps(json_object_get(v->json, "model"), JSON_COMPACT | JSON_SORT_KEYS);
    const uint32_t h = text != NULL ? (uint32_t)uvcc_agree_hash(text, strlen(text)) : 0;
    free(text);
    return h;
}

serving_form pass_form(const pass *v) {
    const uvcc_model_config *c = &v->f.p.config;
    uvcc_tensor_desc x = {0};
    uint32_t rows = 0, cols = 0;
    (void)uvcc_model_inputs(c, &x, NULL);
    (void)uvcc_model_output(c, &rows, &cols);
    const bool keys = x.sharing == UVCC_ONE_HOT;
    serving_form f = {.entry = SERVING_PASS | (uint32_t)(c->mode == UVCC_MODEL_FAST) << 24 |
                               v->run.pass.gives << 16 | v->run.pass.takes << 8 | c->frac_bits,
                      .units = c->sequences,
                      .in_rows = c->tokens,
                      .in_cols = (keys ? 0 : x.cols) + (c->padding != 0),
                      .out_rows = rows / c->sequences,
                      .out_cols = cols,
                      .key_cols = keys ? x.cols : 0,
                      .key_bits = keys ? x.bits : 0};
    serving_put_terms(&f, &v->run.pass, v->run.weights_owner, model_hash(v));
    return f;
}
