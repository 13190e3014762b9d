/* SPDX-License-Identifier: Apache-2.0 */
/* host_cards.h - the part of host_loop.c that is about CUDA devices and the local plane. */
#ifndef UVCC_TOOLS_HOST_CARDS_H
#define UVCC_TOOLS_HOST_CARDS_H

#include "host_loop.h"

/* The local planes of all parties. An exit status; a line said why. */
int host_open_planes(host *h);
/* With --compute gpu: the executor of worker w of party p, and what its session and its uvcc_cpu
 * need for it. Else nothing. An exit status; a line said why. */
int host_open_card(const host *h, host_worker *w, unsigned p, uvcc_config *cfg,
                   uvcc_cpu_config *cpu);
/* What went wrong on the device of worker w of party p, or between those of the party's workers;
 * "" if nothing did. */
const char *host_card_trouble(const host *h, const host_worker *w, unsigned p);

#endif
