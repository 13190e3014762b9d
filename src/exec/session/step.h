/* SPDX-License-Identifier: Apache-2.0 */
/* step.h - the steps of a session: opening a context, agreement by STEP, start, end. */
#ifndef UVCCI_STEP_H
#define UVCCI_STEP_H

#include "exec/runtime/core.h"

/* Opens the context of a step that this party's host agrees to. 0, UVCC_ERR_NOMEM, or an error of
 * the op table; on error there is no context. */
int uvcci_step_open(uvcc_session *s, uint32_t step, uint32_t entry);
/* Frees a context; one that is not active is left alone. */
void uvcci_step_free(uvcc_session *s, uvcci_step *st);
/* Drops the opened values of the last finished step. */
void uvcci_outputs_free(uvcc_session *s);
void uvcci_step_on_step(uvcc_session *s, uint8_t peer, const uint8_t *data, uint32_t len);
void uvcci_step_on_audit(uvcc_session *s, uint8_t peer, const uint8_t *data, uint32_t len);
/* Sends what is due, starts and finishes steps. True if anything changed. */
bool uvcci_step_advance(uvcc_session *s);

#endif
