/* SPDX-License-Identifier: Apache-2.0 */
/* lane_operands.h - what a lane's job names: whether kernels reach it, what is memory of the host's
 * own, and which messages are staged. No CUDA here. */
#ifndef UVCCI_GPU_LANE_OPERANDS_H
#define UVCCI_GPU_LANE_OPERANDS_H

#include "gpu/lane.h"

/* Says why the job failed. UVCC_ERR_JOB. */
int uvcci_lane_fail(uvcci_lane *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *uvcci_lane_kind_name(unsigned kind);
/* Whether these bytes are of the executor's memory of the host. */
bool uvcci_lane_is_pinned(const uvcci_lane *l, const uint8_t *p, size_t bytes);
/* What a task names that may be outside: a host's inputs and outputs, and what the session keeps of
 * its own. UVCC_ERR_JOB: no memory. */
int uvcci_lane_note(uvcci_lane *l, const uvcc_task *t);
/* Kernels are given no address that they cannot reach, or UVCC_ERR_JOB; after uvcci_lane_note(). */
int uvcci_lane_check_pointers(uvcci_lane *l, const uvcc_task *t);
/* Which messages of the job are staged, if there is room. */
void uvcci_lane_stage(uvcci_lane *l);

#endif
