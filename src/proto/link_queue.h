/* SPDX-License-Identifier: Apache-2.0 */
/* link_queue.h - the messages of a class that wait to be sent, by order, equal orders as they came.
 */
#ifndef UVCCI_LINK_QUEUE_H
#define UVCCI_LINK_QUEUE_H

#include "proto/link_state.h"

void uvcci_link_queue_push(uvcci_tx_class *q, uvcc_link_msg *m);
/* The most urgent one, NULL if none waits. */
uvcc_link_msg *uvcci_link_queue_peek(const uvcci_tx_class *q);
/* Takes it out; there must be one. */
void uvcci_link_queue_pop(uvcci_tx_class *q);

#endif
