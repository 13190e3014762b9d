/* SPDX-License-Identifier: Apache-2.0 */
/* rounding.h - stochastic truncation without keys: of 3-additive values, which HEAD alone opens,
 * and of replicated ones, which nobody does. */
#ifndef UVCCI_ROUNDING_H
#define UVCCI_ROUNDING_H

#include "exec/program/op_way.h"
#include "exec/program/plan_maker.h"

/* Plans the op's truncation this way and says so, if it is one: stochastic, with the lift that
 * takes one round (the others are for those who ask for the messages of a lift). */
bool uvcci_rounding_plan(uvcci_draft *d);
/* The same of a replicated value within `bits` bits, which must leave room for 2^shift. */
bool uvcci_rounding2_plan(uvcci_draft *d, unsigned bits);

#endif
