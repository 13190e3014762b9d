/* SPDX-License-Identifier: Apache-2.0 */
/* cancel.h - dropping a step: votes, what halts, the PERSIST tensors as they were before it. */
#ifndef UVCCI_CANCEL_H
#define UVCCI_CANCEL_H

#include "exec/runtime/core.h"

/* Memory for what steps overwrite, if the host may cancel any: TENSOR, as long as the session.
 * UVCC_ERR_CONFIG: the program has collectives; UVCC_ERR_NOMEM. */
int uvcci_cancel_init(uvcc_session *s);
void uvcci_cancel_free(uvcc_session *s);
/* The host asks. 0, UVCC_ERR_STATE, UVCC_ERR_AGAIN. */
int uvcci_cancel_ask(uvcc_session *s, uint32_t step);

void uvcci_cancel_on_message(uvcc_session *s, uint8_t peer, const uint8_t *data, uint32_t len);
/* A batch of a step that is being dropped: nobody reads it. False: it is for the step. */
bool uvcci_cancel_discards(uvcc_session *s, uint8_t peer, const uvcc_link_rx *m);
/* A completion of a step that halts: kept for later. False: it is for its owner now. */
bool uvcci_cancel_parks(uvcci_job_owner owner, void *who);
void uvcci_cancel_job_done(uvcc_session *s);
/* Votes, goes on, puts back. True if anything changed. */
bool uvcci_cancel_advance(uvcc_session *s);

/* Before the step starts: its tensors are saved. Starts to, if they are not. */
bool uvcci_cancel_saved(uvcc_session *s, uvcci_step *st);
/* The step may not finish yet: it halts, or a vote is not acknowledged. */
bool uvcci_cancel_holds(uvcc_session *s, const uvcci_step *st);
/* The step is dropped at all three, and nothing of it is left but its context. */
bool uvcci_cancel_complete(const uvcc_session *s, const uvcci_step *st);
/* s->step went on by one. */
void uvcci_cancel_passed(uvcc_session *s);
/* Whether the step needs the peer's word, to be dropped or to go on. */
bool uvcci_cancel_waits(const uvcc_session *s, uint8_t peer, const uvcci_step *st);

#endif
