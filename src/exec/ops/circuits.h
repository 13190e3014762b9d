/* SPDX-License-Identifier: Apache-2.0 */
/* circuits.h - RELU without keys: comparison and selection by a circuit on shared bits. */
#ifndef UVCCI_CIRCUITS_H
#define UVCCI_CIRCUITS_H

#include "exec/program/op_way.h"
#include "exec/program/plan_maker.h"

extern const uvcci_op_way uvcci_circuit_way;

/* The rounds of a circuit on plan->bits bits, and its way. */
void uvcci_circuit_rounds(uvcci_draft *d);

#endif
