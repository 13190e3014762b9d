/* SPDX-License-Identifier: Apache-2.0 */
/* instance.h - one op in one step, as a state machine: when a turn may start and what follows its
 * job (instance.c), what the peers send (receive.c). */
#ifndef UVCCI_INSTANCE_H
#define UVCCI_INSTANCE_H

#include "exec/runtime/core.h"

/* Runs every op that can go on. True if anything changed. */
bool uvcci_ops_advance(uvcc_session *s);
void uvcci_op_job_done(uvcc_session *s, uvcci_instance *r);
/* The leaf of a batch of that kind that was sent; the next one is of a batch that came. */
uint8_t uvcci_sent_leaf(uint8_t kind);
/* Messages of the peer without which the instance cannot go on: 0 while something else is awaited.
 */
uint32_t uvcci_instance_missing(const uvcc_session *s, const uvcci_instance *r, uint8_t peer);
/* Gives back what came of a round. */
void uvcci_round_release(uvcc_session *s, uvcci_instance *r, unsigned round);
/* Gives back all messages that it holds; nothing may go on with it after that. */
void uvcci_instance_release(uvcc_session *s, uvcci_instance *r);
void uvcci_instance_free(uvcc_session *s, uvcci_instance *r);

#endif
