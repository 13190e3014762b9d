/* SPDX-License-Identifier: Apache-2.0 */
/* sched.h - the 1F1B order of a pipeline stage (parallel.md): which microbatch's forward or
 * backward comes next. A pure function of the stage and the sizes; timing never enters. */
#ifndef UVCCI_SCHED_H
#define UVCCI_SCHED_H

#include <stddef.h>
#include <stdint.h>

typedef struct uvcci_slot {
    uint8_t phase; /* UVCCI_PHASE_FWD or UVCCI_PHASE_BWD of ids.h */
    uint16_t mb;
} uvcci_slot;

/* Writes the 2 * microbatches slots of `stage` (< stages, at most 256) in order and returns their
 * number; microbatches are 1..65536. min(microbatches, stages-1-stage+ahead) forwards run first,
 * then a forward and a backward in turn, then the backwards that are left; at most one microbatch
 * more than the first number is in flight. `ahead` 0 is plain 1F1B. UVCC_ERR_USAGE for a size out
 * of range or too small a cap (in slots). */
int uvcci_sched_order(uint32_t stage, uint32_t stages, uint32_t microbatches, uint32_t ahead,
                      uvcci_slot *out, size_t cap);

#endif
