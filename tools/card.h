/* SPDX-License-Identifier: Apache-2.0 */
/* card.h - a party's executor on a CUDA device, behind the type that hosts know. Without
 * libuvcc-gpu there is none, and the error says so. */
#ifndef UVCC_TOOLS_CARD_H
#define UVCC_TOOLS_CARD_H

#include <uvcc/compute.h>

typedef struct card card;

/* Makes it on the device of that number and sets what `cpu` needs for it; its wake and job hooks
 * are the device's now. 0, or an error after which *why says what is missing. */
int card_open(card **out, uvcc_cpu_config *cpu, uint32_t device, const char **why);
/* Memory for the session whose jobs it runs. */
uvcc_allocator card_allocator(card *c);
/* What went wrong first; "" if nothing did. */
const char *card_trouble(card *c);
/* After the executor that was made of `cpu`, and the session. NULL: nothing. */
void card_close(card *c);

#endif
