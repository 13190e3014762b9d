/* SPDX-License-Identifier: Apache-2.0 */
/* perceptron_flags.h - the flags of perceptron_options and of the seed, for the tables of `uvcc
 * train` and of a job's "run". NET and SEED give the offset of a member and of the seed. */
#ifndef UVCC_TOOLS_PERCEPTRON_FLAGS_H
#define UVCC_TOOLS_PERCEPTRON_FLAGS_H

#include "perceptron.h"
#include "runflags.h"

static const char *const perceptron_compares[] = {"fss", "circuit", NULL};
_Static_assert(UVCC_COMPARE_FSS == 0 && UVCC_COMPARE_CIRCUIT == 1, "perceptron_compares[]");

/* clang-format off */
#define PERCEPTRON_FLAGS(NET, SEED)                                                                \
    {"hidden", "N[,N...]", FLAG_LIST, NET(hidden), 1, PERCEPTRON_UNITS_MAX, NULL,                  \
     "units of each hidden layer, at most 15 layers (64)"},                                        \
    {"epochs", "N", FLAG_COUNT, NET(epochs), 1, 10000, NULL, "passes over the training rows (5)"}, \
    {"batch", "N", FLAG_COUNT, NET(batch), 1, 1u << 20, NULL,                                      \
     "rows per step, a power of two (16)"},                                                        \
    {"lr-shift", "N", FLAG_COUNT, NET(lr_shift), 0, 20, NULL,                                      \
     "the learning rate is 2^-N, on the mean over a batch (2)"},                                   \
    {"frac-bits", "N", FLAG_COUNT, NET(frac_bits), 4, 24, NULL,                                    \
     "fraction bits of fixed point (16)"},                                                         \
    {"seed", "N", FLAG_SEED, SEED, 0, 0, NULL,                                                     \
     "of initial weights, order of rows, keys and masks (1)"},                                     \
    {"truncation", "ars|sr|ars-dcf", FLAG_CHOICE, NET(truncation), 0, 0, run_truncations,          \
     "ars: exact, equal to the plaintext run; sr: stochastic, cheaper; ars-dcf: as ars in fewer "  \
     "rounds, more bytes (ars)"},                                                                  \
    {"compare", "fss|circuit", FLAG_CHOICE, NET(compare), 0, 0, perceptron_compares,               \
     "ReLU's comparison: fss: on dealt keys, fewer rounds; circuit: no keys, fewer bytes (fss)"}
/* clang-format on */

#endif
