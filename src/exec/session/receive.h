/* SPDX-License-Identifier: Apache-2.0 */
/* receive.h - batches that peers send: to which op they belong, whether they are what the plan
 * says.
 */
#ifndef UVCCI_RECEIVE_H
#define UVCCI_RECEIVE_H

#include "exec/runtime/core.h"

/* A batch came: checks it against the plan. UVCC_ABORT_NONE, or the reason to abort. */
uint16_t uvcci_op_receive(uvcc_session *s, uint8_t peer, const uvcc_link_rx *m);
/* Its digest is there, or none is needed: the message is the op's. */
void uvcci_op_rx_hashed(uvcc_session *s, uvcci_rx *rx);

#endif
