/* SPDX-License-Identifier: Apache-2.0 */
/* beaver.h - products on Beaver triples in a session: made ahead under a budget, or given by the
 * host; used once. */
#ifndef UVCCI_BEAVER_H
#define UVCCI_BEAVER_H

#include "exec/program/op_way.h"
#include "exec/program/plan_maker.h"
#include "exec/runtime/core.h"

/* The rounds of a product on triples, and its way. */
void uvcci_beaver_plan(uvcci_draft *d);
extern const uvcci_op_way uvcci_beaver_way;
/* Lets triples be made, in program order, under the budget. True if anything changed. */
bool uvcci_beaver_advance(uvcc_session *s);

#endif
