/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h - a directory as save_pretrained of the library `transformers` writes it:
 * config.json and the weights, in model.safetensors or in the files that
 * model.safetensors.index.json names. */
#ifndef UVCC_TOOLS_MODEL_CHECKPOINT_H
#define UVCC_TOOLS_MODEL_CHECKPOINT_H

#include "safetensors.h"

enum { CHECKPOINT_FILES_MAX = 1000 };
#define CHECKPOINT_INDEX "model.safetensors.index.json"

typedef struct checkpoint {
    const char *dir;   /* the caller's */
    json_t *config;    /* of config.json */
    char *config_path; /* for lines about it */
    st_file *file;
    size_t file_count;
} checkpoint;

/* 0, or -1 and one line that names the file. */
int checkpoint_open(checkpoint *out, const char *dir, const flag_message *m);
void checkpoint_close(checkpoint *c);
/* What was read of its files leaves memory: map_forget(). */
void checkpoint_forget(const checkpoint *c);
size_t checkpoint_tensors(const checkpoint *c);
/* i-th of all; NULL: there are fewer. */
const st_tensor *checkpoint_at(const checkpoint *c, size_t i);
const st_tensor *checkpoint_find(const checkpoint *c, const char *name);

#endif
