/* SPDX-License-Identifier: Apache-2.0 */
/* pass.h - a pretrained model's pass as an object "run" says it, the same at all who have part in
 * it: config.json and the numbers of the pass make the program. For jobs that infer or serve, and
 * for the clients of the latter. */
#ifndef UVCC_TOOLS_PARTY_PASS_H
#define UVCC_TOOLS_PARTY_PASS_H

#include "../infer/infer.h"
#include "../serving.h"
#include "shares.h"
#include "work.h"

/* Ids of inputs: weight i is PASS_IN_WEIGHT + i. */
enum { PASS_IN_WEIGHT = 100 };

/* Who knows the weights: their owner, who gives them in the job's first steps; everybody; their
 * owner, who has shared them in files, of which all are set at first, or those of a layer before
 * its step. */
enum { PASS_SECRET, PASS_PUBLIC, PASS_SHARED, PASS_STREAMED };

/* The members of "run"; of takes, input_owner and to not all kinds have all. */
typedef struct pass_run {
    model_pass pass;
    uint32_t weights, weights_owner, input_owner;
    const char *to;
} pass_run;

extern const char *const pass_takes[]; /* of jobs that serve */
extern const char *const pass_knows[];
/* Those that all kinds have. */
#define PASS_FLAG(name, what, kind, member, least, most, choices)                                  \
    { name, what, kind, offsetof(pass_run, member), least, most, choices, NULL }
#define PASS_FLAGS                                                                                 \
    PASS_FLAG("sequences", NULL, FLAG_COUNT, pass.sequences, 1, 65536, NULL),                      \
        PASS_FLAG("tokens", NULL, FLAG_COUNT, pass.tokens, 1, 65536, NULL),                        \
        PASS_FLAG("padding", NULL, FLAG_SWITCH, pass.padding, 0, 0, NULL),                         \
        PASS_FLAG("fold", NULL, FLAG_SWITCH, pass.fold, 0, 0, NULL),                               \
        PASS_FLAG("gives", "hidden|logits|last|pooled|labels", FLAG_CHOICE, pass.gives, 0, 0,      \
                  model_gives_names),                                                              \
        PASS_FLAG("mode", "fast|exact|exact-dcf", FLAG_CHOICE, pass.mode, 0, 0, model_mode_names), \
        PASS_FLAG("frac-bits", NULL, FLAG_COUNT, pass.frac_bits, 12, 20, NULL),                    \
        PASS_FLAG("value-bits", NULL, FLAG_COUNT, pass.value_bits, 1, 12, NULL),                   \
        PASS_FLAG("weight-bits", NULL, FLAG_COUNT, pass.weight_bits, 1, 16, NULL),                 \
        PASS_FLAG("inner-bits", NULL, FLAG_COUNT, pass.inner_bits, 1, 12, NULL),                   \
        PASS_FLAG("index-bits", NULL, FLAG_COUNT, pass.index_bits, 4, 10, NULL),                   \
        PASS_FLAG("weights", "secret|public|shared|streamed", FLAG_CHOICE, weights, 0, 0,          \
                  pass_knows),                                                                     \
        PASS_FLAG("weights-owner", NULL, FLAG_COUNT, weights_owner, 0, UVCC_PARTIES - 1, NULL)

typedef struct pass {
    const char *file, *where; /* of "run", for messages: "FILE: WHERE.tokens ..." */
    const json_t *json;       /* "run" itself */
    pass_run run;
    uint32_t steps; /* that give the weights, where they are secret */
    infer_options o;
    infer f;            /* of it: the checkpoint, the input and the answer, where they are here */
    char *model;        /* the checkpoint's path; NULL: not given */
    int64_t *weight;    /* room for the largest, which is read as real numbers */
    char *shares_path;  /* of this party's shares of the weights; NULL: not given */
    shares_file shares; /* of it, once it is open */
    struct pass_place *place; /* of weights that are set: the largest first */
    uint32_t set_run, set;    /* in that run so many are set */
    uint32_t set_layer;       /* of those of this layer, or of none, or of all */
    uint32_t *tensor;         /* of each weight, in a program that streams them; NULL: it has all */
} pass;

/* Where a weight's values stand among all. */
typedef struct pass_place {
    uint32_t weight, layer;
    uint64_t first, elements;
} pass_place;

/* All return an exit status after reporting, unless they say otherwise. */

/* The members: defaults, those of the table, what must be given; *v is made. */
int pass_read_run(pass *v, const char *file, const char *where, const json_t *run,
                  const flag_set *members);
/* Of a job that serves: its own table, and then pass_describe(). */
int pass_read_served(pass *v, const char *file, const char *where, const json_t *run);
/* The program's description: the same for all. */
int pass_describe(pass *v);
bool pass_is_public(const pass *v);
/* What data names of the weights: "model" and "shares", NULL if it does not. Each party has what is
 * its own. */
int pass_read_weights(pass *v, const work_config *c, const char *model, const char *shares);
/* The checkpoint at v->model, which must be the described one. Its bits are looked at once. */
int pass_read_model(pass *v);
/* The input that v->o names, of the described shape; other ends name it in their own words. */
int pass_read_input(pass *v, const char *place);
void pass_free(pass *v);

/* ---- weights ---- */

/* Steps in which their owner gives them, some each, so that few are there in plaintext at a time;
 * 0: all know them. */
uint32_t pass_weight_steps(const pass *v);
/* Their tensors, and the entries of those steps. 0, or UVCC_ERR_*. */
int pass_add_weights(const pass *v, uvcc_program *p, uint32_t *tensors, char *why, size_t cap);
uint32_t pass_weight_entry(const uvcc_program *p, uint32_t step);
/* Of its owner, by the id of its input; NULL after reporting. */
const int64_t *pass_weight(pass *v, uint32_t id);
/* Those that are no input: public ones, which everybody sets alike, and shares from a file. As
 * first_values() of work.h. */
int pass_set_weights(pass *v, const work_worker *w, uvcc_session *s);
/* Of streamed weights: the steps of a pass, one for each layer and one before and behind them; the
 * entry of one of them; a layer's weights before its step, as prepare() of work.h. */
bool pass_streams(const pass *v);
uint32_t pass_streamed_steps(const pass *v);
const char *pass_streamed_entry(const pass *v, uint32_t step);
int pass_set_streamed(pass *v, const work_worker *w, uvcc_session *s, uint32_t step);
/* A program that add() makes, with the tensor of each weight; *v keeps those of streamed ones. */
int pass_program(pass *v, uvcc_program **out,
                 int (*add)(const pass *v, uvcc_program *p, uint32_t *tensors, char *why,
                            size_t cap));
/* As share() and agree() of work.h. */
int pass_share(pass *v, const work_config *c, const char *dir);
uint64_t pass_agree(const pass *v, const char **name);

/* ---- requests of clients ---- */

/* A sequence of tokens is a unit: rows of what goes in and, with padding, whether it is none. */
serving_form pass_form(const pass *v);

#endif
