/* SPDX-License-Identifier: Apache-2.0 */
/* train.h - `uvcc train`: the main job, a perceptron among three parties. */
#ifndef UVCC_TOOLS_TRAIN_H
#define UVCC_TOOLS_TRAIN_H

/* The words after `uvcc train`; returns the exit status. */
int train_main(int argc, char *const *argv);

#endif
