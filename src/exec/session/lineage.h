/* SPDX-License-Identifier: Apache-2.0 */
/* lineage.h - which steps made the tensors what they are. Every step moves the lineage on;
 * checkpoints carry it, the HELLO offers it, and STEP compares it, so that no step runs on tensors
 * of two histories. */
#ifndef UVCCI_LINEAGE_H
#define UVCCI_LINEAGE_H

#include "exec/runtime/core.h"

/* At READY: where the parties agreed to go on, and whether our tensors stand there. */
void uvcci_lineage_ready(uvcc_session *s);
/* STEP of step m may say where the tensors stand: the digests of public values are there. */
bool uvcci_lineage_known(const uvcc_session *s);
/* What STEP of st says. Public values that the host set since the last STEP move the lineage on: it
 * is asked once for each step, in their order. */
void uvcci_lineage_said(uvcc_session *s, const uvcci_step *st, uint8_t out[32]);
/* Tensor i goes. */
void uvcci_lineage_forget(uvcc_session *s, uint32_t i);
/* Step st, which is s->step, is over: UVCCI_LINEAGE_FINISHED, _DROPPED. */
void uvcci_lineage_step(uvcc_session *s, const uvcci_step *st, uint8_t what);
/* The tensors are those that the host set itself. */
bool uvcci_lineage_is_ours(const uint8_t lineage[32]);

#endif
