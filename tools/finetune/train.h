/* SPDX-License-Identifier: Apache-2.0 */
/* train.h - `uvcc train --model DIR`: fine-tunes a checkpoint. */
#ifndef UVCC_TOOLS_FINETUNE_TRAIN_H
#define UVCC_TOOLS_FINETUNE_TRAIN_H

/* The words after `uvcc train`; returns the exit status. */
int ft_train_main(int argc, char *const *argv);

#endif
