/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.h - DIR/finetune.json of a checkpoint directory: all that what is fine-tuned depends on,
 * as it was begun with. Public: of the checkpoint and the data it has hashes. */
#ifndef UVCC_TOOLS_FINETUNE_MANIFEST_H
#define UVCC_TOOLS_FINETUNE_MANIFEST_H

#include "../lm/checkpoint.h"
#include "model.h"

/* As lm_checkpoint_open(): where a run begins. */
int ft_checkpoint_open(const char *dir, const ft_options *o, const ft_model *m, const ft_data *d,
                       lm_start *out);

#endif
