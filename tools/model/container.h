/* SPDX-License-Identifier: Apache-2.0 */
/* container.h - a file of fixed-point weights and the description that they are of. Format:
 * docs/files.md, "Models". */
#ifndef UVCC_TOOLS_MODEL_CONTAINER_H
#define UVCC_TOOLS_MODEL_CONTAINER_H

#include <jansson.h>
#include <stdio.h>
#include <uvcc/model.h>

#include "map.h"

typedef struct container {
    uvcc_model_config config;
    const char *model_type; /* of the checkpoint that it was made of */
    uint64_t parameters;
    uint32_t element_bytes; /* 4 or 8 */
    const uint8_t *values;
    json_t *header;
    file_map map; /* empty: the bytes are the caller's */
} container;

/* Of bytes that stay the caller's. 0, or -1 and a line that begins with `path`: also for what
 * uvcc_model_check refuses. */
int container_parse(container *out, const uint8_t *bytes, size_t len, const char *path,
                    const flag_message *m);
int container_open(container *out, const char *path, const flag_message *m);
void container_close(container *c);
/* All weights, in the order of uvcc_model_weight_at. */
void container_weights(const container *c, int64_t *out);

/* The same written: first what says what follows, then all weights in order, in pieces of any
 * size, then the end. Errors of the file show in atomic_file_finish(). */
typedef struct container_writer container_writer;
/* NULL: out of memory. */
container_writer *container_begin(FILE *to, const uvcc_model_config *c, const char *model_type);
void container_put(container_writer *w, const int64_t *v, uint64_t count);
/* Also frees it; the SHA-256 of the whole into sha256. */
void container_end(container_writer *w, uint8_t sha256[32]);

#endif
