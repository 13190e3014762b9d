/* SPDX-License-Identifier: Apache-2.0 */
/* plain.h - the same fine-tuning in plaintext fixed point. */
#ifndef UVCC_TOOLS_FINETUNE_PLAIN_H
#define UVCC_TOOLS_FINETUNE_PLAIN_H

#include "model.h"

/* Which of the data's rows are number i of microbatch mb of a step. */
typedef struct ft_place {
    const ft_model *m;
    ft_data *d;
    uint64_t seed;
    uint32_t step, mb;
    bool eval; /* of the rows that are held out */
} ft_place;
uint32_t ft_place_row(void *place, uint32_t i);

/* *equal: the trained weights are those of `m`, as they were opened. `initial`: all weights as
 * training began. An exit status after reporting. */
int ft_plain_check(const ft_model *m, ft_data *d, const ft_options *o, const int64_t *initial,
                   bool *equal);

#endif
