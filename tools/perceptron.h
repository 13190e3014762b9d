/* SPDX-License-Identifier: Apache-2.0 */
/* perceptron.h - the training of a perceptron (docs/training.md) as `uvcc train` runs it for three
 * parties in one process, and `uvcc party` for one: options, steps, rows of a step, first values,
 * the hash of the weights.
 *
 * Steps are numbered through: the training steps, then steps that predict the held-out rows, then
 * one that opens the weights. A training step may be agreed to while the one before it runs, so
 * that its keys are dealt ahead; the later ones not, because an output stays open only until the
 * next step that opens it. */
#ifndef UVCC_TOOLS_PERCEPTRON_H
#define UVCC_TOOLS_PERCEPTRON_H

#include <uvcc/mlp.h>

#include "dataset.h"
#include "flags.h"

#define PERCEPTRON_RANGE_BITS 8u /* integer bits of activations: of held-out rows too */
#define PERCEPTRON_UNITS_MAX  4096u
enum { PERCEPTRON_FEATURES_OWNER = 0, PERCEPTRON_LABELS_OWNER = 1 };

typedef struct perceptron_options {
    flag_list hidden;
    uint32_t epochs, batch, lr_shift, frac_bits;
    uint32_t truncation; /* uvcc_truncation */
    uint32_t compare;    /* uvcc_compare */
} perceptron_options;
_Static_assert(FLAG_LIST_MAX == UVCC_MLP_MAX_LAYERS - 1, "hidden");

#define PERCEPTRON_DEFAULTS                                                                        \
    {                                                                                              \
        .hidden = {1, {64}}, .epochs = 5, .batch = 16, .lr_shift = 2, .frac_bits = 16,             \
        .truncation = UVCC_TRUNC_EXACT                                                             \
    }

/* What messages call an option. */
typedef struct perceptron_names {
    const char *batch, *epochs;
} perceptron_names;

typedef struct perceptron {
    uvcc_mlp_config mlp;
    uint64_t seed;
    const uvcc_program *program; /* the caller's */
    uint32_t train_rows, test_rows;
    uint32_t train_entry, predict_entry, reveal_entry;
    uint32_t steps_per_epoch, train_steps, predict_steps, steps; /* steps: all of them */
    uint32_t *order, order_epoch;                                /* rows of one epoch */
} perceptron;

/* 0, or -1 and one line in the message. */
int perceptron_check(const perceptron_options *o, const perceptron_names *names,
                     const flag_message *m);
/* Steps and the program's configuration, of tables of these shapes. 0, or -1 and one line in the
 * message. perceptron_end() follows in any case. */
int perceptron_begin(perceptron *p, const perceptron_options *o, const perceptron_names *names,
                     uint64_t seed, uint32_t products, const dataset *shapes,
                     const flag_message *m);
void perceptron_end(perceptron *p);
/* 0, or UVCC_ERR_*; with UVCC_ERR_BOUND, _CONFIG and _PROGRAM the message says which numbers do not
 * fit. */
int perceptron_program(perceptron *p, uvcc_program **out, const flag_message *m);

uint32_t perceptron_entry(const perceptron *p, uint32_t step);
/* Whether a step may be agreed to while the one before it runs. */
bool perceptron_ahead(const perceptron *p, uint32_t step);
/* Features and labels of a step, as many rows as it has: of a training step, or of one that
 * predicts (which has no labels; rows beyond the held-out ones are zeros). */
void perceptron_fill_x(perceptron *p, uint32_t step, const dataset *d, int64_t *x);
void perceptron_fill_y(perceptron *p, uint32_t step, const dataset *d, int64_t *y);
/* Rows of a step at most: what the arrays hold. */
uint32_t perceptron_rows(const perceptron *p);
/* Held-out rows that a predict step covers. */
uint32_t perceptron_range(const perceptron *p, uint32_t step, uint32_t *first);
/* The class that a row of predictions says. */
uint32_t perceptron_class(const int64_t *v, uint32_t n);

/* Gives the first value of each PERSIST tensor to `set`, until it returns other than 0. */
int perceptron_first_values(const perceptron *p,
                            int (*set)(void *user, uint32_t tensor, const int64_t *v), void *user);
/* The opened weights, which `get` gives, as bytes: W0, b0, W1, ..., each value in 8 bytes, little-
 * endian; free() them. NULL of `get`: UVCC_ERR_STATE. Their SHA-256 is the weights' hash. */
int perceptron_weights(const perceptron *p,
                       const int64_t *(*get)(void *user, const uvcc_io_desc *out), void *user,
                       uint8_t **bytes, size_t *len);
int perceptron_hash(const perceptron *p, const int64_t *(*get)(void *user, const uvcc_io_desc *out),
                    void *user, uint8_t hash[32]);

#endif
