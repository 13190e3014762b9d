/* SPDX-License-Identifier: Apache-2.0 */
/* input.h - what goes into a forward pass: rows of a checkpoint's embeddings, of given tokens or of
 * tokens that follow from a seed; or rows that do, where there are no embeddings. */
#ifndef UVCC_TOOLS_MODEL_INPUT_H
#define UVCC_TOOLS_MODEL_INPUT_H

#include "weights.h"

typedef struct model_input {
    uint32_t sequences, tokens;
    int64_t *ids, *types; /* sequences * tokens; types NULL: all are 0 */
    double *x;        /* their rows, if there are embeddings; without positions that are a weight */
    int64_t *padding; /* 1: no token; NULL: all are some */
    double *expected; /* what another program gives; NULL: not known */
} model_input;

/* All of them: 0, or -1 and a line. Where w has no checkpoint (from NULL: the caller has its
 * description and shape alone), x is not made.
 *
 * A safetensors file: "input_ids" (I64, sequences x tokens), and, if they are there,
 * "attention_mask" (I64, as many, 0: no token), "token_type_ids" (I64, as many) and
 * what the model gives: "last_hidden_state" (sequences x tokens x width), "logits" (sequences x
 * tokens x vocabulary; of labels sequences x labels) or "pooler_output" (sequences x width). tokens
 * 0: all; else the first of each sequence, and of a model that sees those behind, nothing is
 * known of the result. */
int input_read(model_input *out, const char *path, const weights *w, uint32_t tokens,
               const flag_message *m);
/* The same of rows that somebody has embedded: "inputs_embeds" (real, sequences x tokens x width)
 * and, if it is there, "attention_mask". */
int input_read_rows(model_input *out, const char *path, const weights *w, const flag_message *m);
/* Of ids, and padding or NULL, both from malloc(), which it takes in any case. */
int input_make(model_input *out, const weights *w, uint32_t sequences, uint32_t tokens,
               int64_t *ids, int64_t *padding, const flag_message *m);
int input_draw(model_input *out, const weights *w, uint32_t sequences, uint32_t tokens,
               uint64_t seed, const flag_message *m);
/* Rows of mean 0 and variance 1. */
int input_draw_rows(model_input *out, uint32_t width, uint32_t sequences, uint32_t tokens,
                    uint64_t seed, const flag_message *m);
/* Tokens for a model whose embeddings are weights; x is not made. */
int input_draw_tokens(model_input *out, uint32_t vocabulary, uint32_t sequences, uint32_t tokens,
                      uint64_t seed, const flag_message *m);
void input_free(model_input *in);

#endif
