/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - `uvcc model`: looks at a checkpoint of a transformer, makes fixed-point weights of it,
 * and checks what they give. */
#ifndef UVCC_TOOLS_MODEL_MODEL_H
#define UVCC_TOOLS_MODEL_MODEL_H

#include "../atomic_file.h"
#include "fixed.h"
#include "plain.h"

int model_main(int argc, char *const *argv);

/* ---- for the files of this command ---- */

enum { MODEL_WORDS_MAX = 2, MODEL_MESSAGE_BYTES = 512 };

typedef struct model_options {
    const char *word[MODEL_WORDS_MAX]; /* inspect, convert or check; a path */
    const char *out, *input, *json;    /* NULL: not given */
    model_pass pass;                   /* tokens and bits 0: not given */
    uint64_t seed;
    bool clip, ignore_unknown, help;
} model_options;

/* A checkpoint and what was made of its description. */
typedef struct loaded {
    checkpoint from;
    model_description d;
    model_pass pass;
    uvcc_model_config config; /* what the library runs; without `refused` */
    char refused[256];        /* why it does not run it yet; "": it does */
    weights w;
    fixed_stats *stats; /* of each weight */
    fixed_stats all;
} loaded;

/* 0, or an exit status after reporting. Weights are looked at: the bits that were not given are the
 * least that hold them, but the 4 that uvcc_model_config has at least. */
int model_load(loaded *out, const model_options *o);
/* The pass becomes that of p->in, and p of it: with `refused` where the library does not run it. 0,
 * or -1 and a line. */
int model_settle(loaded *l, plain_pass *p, const flag_message *m);
/* Reports what keeps the library from running it: an exit status. */
int model_refuse(const loaded *l);
/* What is written does not take the place of what it is made of: an exit status after reporting. */
int model_spares(const checkpoint *from, const output_use *written, size_t count);
void model_unload(loaded *l);

int model_inspect(const model_options *o);
int model_convert(const model_options *o);
int model_check(const model_options *o);

#endif
