/* SPDX-License-Identifier: Apache-2.0 */
/* train.h - `uvcc train --model transformer`. */
#ifndef UVCC_TOOLS_LM_TRAIN_H
#define UVCC_TOOLS_LM_TRAIN_H

#include <stdint.h>
#include <uvcc/types.h>

#include "options.h"

/* What a training came to; the roots are those of each party. */
typedef struct lm_train_outcome {
    uint8_t weights_sha256[32], global_root[UVCC_PARTIES][32];
} lm_train_outcome;
/* The training alone, for checks: nothing is shown but errors, and nothing written. The weights
 * must be revealed and there must be a transcript. An exit status after reporting. */
int lm_train_quietly(const lm_options *o, lm_train_outcome *out);

/* The words after `uvcc train`; returns the exit status. */
int lm_train_main(int argc, char *const *argv);

#endif
