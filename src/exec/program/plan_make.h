/* SPDX-License-Identifier: Apache-2.0 */
/* plan_make.h - makes the plan of an op: its class says what it sends, and that is cut into parts.
 */
#ifndef UVCCI_PLAN_MAKE_H
#define UVCCI_PLAN_MAKE_H

#include "exec/program/plan.h"

/* UVCC_ERR_PROGRAM for an op that is too large. uvcci_plan_free() takes it back. */
int uvcci_plan_make(uvcci_plan *plan, const uvcc_program *p, const uvcci_entry *e,
                    const uvcci_op *op, const uvcc_allocator *al);

#endif
