/* SPDX-License-Identifier: Apache-2.0 */
/* train.h - `uvcc train --model transformer`. */
#ifndef UVCC_TOOLS_LM_TRAIN_H
#define UVCC_TOOLS_LM_TRAIN_H

/* The words after `uvcc train`; returns the exit status. */
int lm_train_main(int argc, char *const *argv);

#endif
