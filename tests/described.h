/* SPDX-License-Identifier: Apache-2.0 */
/* described.h - a described model (uvcc/model.h) in double precision, from the formulas, for tests:
 * written for itself, with nothing of the library but the list of weights. */
#ifndef UVCC_TEST_DESCRIBED_H
#define UVCC_TEST_DESCRIBED_H

#include <uvcc/model.h>

typedef struct described {
    const uvcc_model_config *c;
    const double *weights;  /* all, one after the other */
    const int64_t *x, *pad; /* as the program takes them; pad where the model has it */
} described;

/* What comes out; free() it. */
double *described_forward(const described *v);

#endif
