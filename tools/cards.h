/* SPDX-License-Identifier: Apache-2.0 */
/* cards.h - the local plane of a party whose workers are all in this process, each on a CUDA device
 * of its own: what uvcc_collective hands operations to (its `elsewhere`). By libuvcc-nccl. */
#ifndef UVCC_TOOLS_CARDS_H
#define UVCC_TOOLS_CARDS_H

#include <uvcc/collective.h>

typedef struct cards cards;

/* Worker i is on device i. 0, or an error after which *why says what is missing. */
int cards_open(cards **out, uint16_t replicas, uint16_t stages, uint16_t tp_ranks,
               const char **why);
uvcc_collective_elsewhere cards_elsewhere(cards *c);
/* Called from another thread when the worker has a completion; before its first job. */
void cards_on_wake(cards *c, uint32_t worker, void (*wake)(void *user), void *user);
/* At which worker the workers failed, and why; "": they did not, or there are no cards (NULL). It
 * stays until this is asked again. */
const char *cards_trouble(cards *c);
/* Jobs that are out are over when it returns. NULL: nothing. */
void cards_close(cards *c);

#endif
