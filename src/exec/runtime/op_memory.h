/* SPDX-License-Identifier: Apache-2.0 */
/* op_memory.h - the STATE memory of an instance while it is at work, at most: what it takes of its
 * bumps follows from its plan. Instances and deals look that they take no more (assertions), so
 * every run of a test holds what uvcc_session_memory_bound() counts. */
#ifndef UVCCI_OP_MEMORY_H
#define UVCCI_OP_MEMORY_H

#include "exec/program/plan.h"

/* From its first turn until it is done. */
uint64_t uvcci_lasting_memory(const uvcci_plan *plan);
/* Of a turn, until its job is done and its messages are out. */
uint64_t uvcci_turn_memory(const uvcci_plan *plan, unsigned turn);
/* Both: of an instance at work. */
uint64_t uvcci_op_memory(const uvcci_plan *plan);
/* Of an instance whose keys are gathered ahead, while that job is out. */
uint64_t uvcci_gather_memory(const uvcci_plan *plan);
/* Of an instance whose keys are dealt, until they are sent. */
uint64_t uvcci_deal_memory(const uvcci_plan *plan);

#endif
