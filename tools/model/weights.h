/* SPDX-License-Identifier: Apache-2.0 */
/* weights.h - the weights of a model, in the names and shapes of uvcc/model.h, out of a
 * checkpoint's tensors: which tensor has which weight, transposed or in part. Every tensor must be
 * used, or be one that is known to change nothing. docs/models.md has the names. Where the shape
 * has plain norms, their gains are multiplied into the matrices that read what they give, and their
 * shifts times these matrices are added to the biases. */
#ifndef UVCC_TOOLS_MODEL_WEIGHTS_H
#define UVCC_TOOLS_MODEL_WEIGHTS_H

#include "checkpoint.h"
#include "description.h"

/* What stands before the layers: rows of tokens, positions and segments, and a norm. */
typedef enum embedding {
    EMBEDDING_TOKENS,
    EMBEDDING_POSITIONS,
    EMBEDDING_TYPES,
    EMBEDDING_GAIN,
    EMBEDDING_SHIFT,
    EMBEDDINGS
} embedding;

/* Gains and shifts of a layer's norms. */
typedef enum weights_norm { NORM_G1, NORM_C1, NORM_G2, NORM_C2, WEIGHTS_NORMS } weights_norm;

typedef struct weights {
    const model_description *d;
    const checkpoint *from;
    uvcc_model_config shape; /* whose list of weights it is */
    uint32_t count;
    const char *prefix; /* before all names: "bert.", "transformer.", "model." or none */
    const st_tensor *embedding[EMBEDDINGS]; /* NULL: the model has none */
    const st_tensor **used;                 /* by weight; NULL: it is all zeros */
    /* By layer and weights_norm, of a shape with plain norms: what goes into other weights. */
    const st_tensor **norms;
    const st_tensor **surplus; /* tensors that change nothing, as they stand */
    size_t ignored;            /* so many */
} weights;

/* Looks for all and looks at shapes and types; shape: as description_config() left it. 0, or -1 and
 * a line that names the tensor. */
int weights_open(weights *out, const checkpoint *from, const model_description *d,
                 const uvcc_model_config *shape, const flag_message *m);
void weights_close(weights *w);
/* Weight i, rows x cols of its list, into out. */
int weights_read(const weights *w, uint32_t i, double *out, const flag_message *m);
/* Name of the tensor that has it; "(zeros)". */
const char *weights_source(const weights *w, uint32_t i);
/* i-th tensor that is not read. NULL: there are fewer. */
const char *weights_ignored(const weights *w, size_t i);

#endif
