/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/pipeline.h - which op a pipeline's stage runs next: pure functions of public sizes.
 *
 * A stage has one compute resource and several microbatches in flight, whose ops interleave: an op
 * that waits for the network yields, and another one that can run takes its place. What may be in
 * flight follows the 1F1B order (PipeDream-Flush, Narayanan et al. 2021) with `ahead` more forwards
 * than it needs; which of the runnable ops runs is decided by uvcc_pipeline_rank(). Timing decides
 * when a thing runs, never what it gives. */
#ifndef UVCC_PIPELINE_H
#define UVCC_PIPELINE_H

#include <stdbool.h>
#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A stage: stage < stages <= 256, 1 <= microbatches <= 65536. */
typedef struct uvcc_pipeline {
    uint32_t stage, stages, microbatches, ahead;
} uvcc_pipeline;

/** Most microbatches in flight, from the start of the first op of one until all its ops are done:
 * min(microbatches, stages - 1 - stage + ahead) forwards ahead and one more, never more than there
 * are. They start in order. 0: the sizes are out of range. */
UVCC_API uint32_t uvcc_pipeline_window(const uvcc_pipeline *p);

/** Where the slot (phase, mb) stands in the stage's 1F1B order of 2 * microbatches slots; phase is
 * UVCC_FWD or UVCC_BWD of <uvcc/program.h>. UINT32_MAX: out of range. */
UVCC_API uint32_t uvcc_pipeline_slot(const uvcc_pipeline *p, uint8_t phase, uint32_t mb);

/** Among the runnable ops of a stage the one with the least rank runs. First come those that
 * `feeds` says a neighbouring stage waits for: a SEND_PP, and what it needs, directly or through
 * other ops of its phase; then the others, such as gradients of weights, which nobody waits for
 * before the step ends; then the update phase. In each class the oldest microbatch comes first,
 * then (phase, k). No two ops of a step have one rank. */
UVCC_API uint64_t uvcc_pipeline_rank(bool feeds, uint8_t phase, uint16_t mb, uint16_t k);

#ifdef __cplusplus
}
#endif
#endif
