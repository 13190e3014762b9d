/* SPDX-License-Identifier: Apache-2.0 */
/* subject.h - what is measured: a program, its weights and its input. */
#ifndef UVCC_TOOLS_BENCH_SUBJECT_H
#define UVCC_TOOLS_BENCH_SUBJECT_H

#include <uvcc/model.h>

#include "../model/model.h"
#include "bench.h"

typedef struct subject {
    const bench_options *o;
    char name[128];
    const char *hf_id; /* NULL: none */
    bool is_model;
    uvcc_model_config config; /* of a model; of a function n_bits.. below are all that counts */
    uint32_t n_layers, n_heads, d_model;
    uint32_t n_bits; /* of the registry; 0: it is not in it */
    uint32_t frac_bits, value_bits, inner_bits, index_bits;
    loaded *checkpoint; /* whose weights they are; NULL: random ones */
    uvcc_program *program;
    uint32_t weights; /* PERSIST tensors that are set */
    int64_t *x;
} subject;

/* An exit status, after reporting. The subject is to be closed in any case. */
int subject_open(subject *s, const bench_options *o);
void subject_close(subject *s);
/* Weight i < s->weights: its tensor, and rows * cols values that the caller frees. An exit status,
 * after reporting. */
int subject_weight(const subject *s, uint32_t i, uint32_t *tensor, int64_t **values);
/* All weights one after the other, in the order of uvcc_model_weight_at. NULL after reporting. */
int64_t *subject_weights(const subject *s);
/* Words that look random. */
uint64_t subject_mix(uint64_t x);
/* Whether the function of --micro is looked up in cells of 2^-index_bits. */
bool subject_has_index(const bench_options *o);
/* The list of models, as `uvcc bench --list` prints it. */
void subject_list(FILE *to);

/* What one pass takes by the program's tables: of all three parties but where it says otherwise. */
typedef struct subject_cost {
    uint32_t rounds;
    uint64_t online_bytes, key_bytes;
    uint64_t tensor_bytes; /* one party's: weights, and TRANSIENT ones at one time at most */
    uint64_t public_bytes; /* of these, which parties of one process and device have once */
    uint64_t input_bytes;
} subject_cost;
int subject_cost_of(const subject *s, subject_cost *out);

#endif
