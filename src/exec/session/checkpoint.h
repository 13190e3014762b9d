/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h - values into and out of PERSIST tensors: what the host sets, checkpoints, resuming.
 *
 * A tensor that is being set is not set again before that job is done, and a step does not start
 * while one is being set or a checkpoint is being made. A checkpoint is resumed only by a session
 * of the same party, coordinate and program, and only when all of it is as it was written. */
#ifndef UVCCI_CHECKPOINT_H
#define UVCCI_CHECKPOINT_H

#include "exec/runtime/core.h"

/* The public calls of these names without their recording. */
int uvcci_session_set_public(uvcc_session *s, uint32_t tensor, const int64_t *v);
int uvcci_session_set_shares(uvcc_session *s, uint32_t tensor, const uint64_t *lo,
                             const uint64_t *hi);
int uvcci_session_resume(uvcc_session *s, const uint8_t *data, size_t len);

/* Room for checkpoints, if the session makes any. */
int uvcci_checkpoint_init(uvcc_session *s);
void uvcci_checkpoint_free(uvcc_session *s);
/* Whether tensors may be touched now: none while a step is agreed to. `what` stands in the refusal,
 * for people. */
int uvcci_may_touch(uvcc_session *s, const char *what);
/* The tensor at `lo` is being set or read: jobs may run in any order, so each is touched once. */
bool uvcci_being_touched(const uvcc_session *s, const uint64_t *lo);
/* Room for `bytes` staged bytes and `items` copies; NULL without memory. Pushed, it goes to the
 * executor, and no step starts before it is back. */
uvcci_set *uvcci_set_new(uvcc_session *s, size_t bytes, uint32_t items);
void uvcci_set_push(uvcc_session *s, uvcci_set *set);
/* Its job failed: a public tensor has no value that others could borrow. */
void uvcci_set_failed(uvcc_session *s, const uvcci_set *set);
void uvcci_set_add_copy(uvcci_set *set, void *dst, const void *src, size_t len);
/* Sets whose time has come go to the executor: not while a checkpoint is being copied. */
void uvcci_sets_advance(uvcc_session *s);
/* Before the first step on tensors that the host set: a checkpoint is due. */
void uvcci_checkpoint_first(uvcc_session *s);
/* After a step: makes one before s->step if it is due. */
void uvcci_checkpoint_due(uvcc_session *s);
/* True while the next step must wait for it. */
bool uvcci_checkpoint_busy(uvcc_session *s);
void uvcci_checkpoint_done(uvcc_session *s);
void uvcci_set_free(uvcc_session *s, uvcci_set *set);
/* PERSIST tensors that nobody set start as zeros, but for borrowed ones: UVCC_ERR_STATE. */
int uvcci_zero_unset(uvcc_session *s);

#endif
