/* SPDX-License-Identifier: Apache-2.0 */
/* plan_pool.h - plans of many ops, each made once: what an op sends follows from its fields and the
 * shapes of its tensors, and in a large program thousands of ops have the same. Ops whose plans
 * depend on others of their entry have plans of their own. */
#ifndef UVCCI_PLAN_POOL_H
#define UVCCI_PLAN_POOL_H

#include "exec/program/plan.h"

/* Zeroed it is empty. */
typedef struct uvcci_plan_pool {
    struct uvcci_pooled_plan **slot; /* open addressing; cap is a power of two */
    struct uvcci_pooled_plan *own;   /* those that are not shared */
    uint32_t count, cap;             /* in slots */
} uvcci_plan_pool;

/* The plan of an op, which stays where it is until the pool is freed. 0, UVCC_ERR_NOMEM or
 * UVCC_ERR_PROGRAM (plan_make.h). */
int uvcci_plan_pool_get(uvcci_plan_pool *pool, const uvcc_program *p, const uvcci_entry *e,
                        const uvcci_op *op, const uvcc_allocator *al, const uvcci_plan **out);
/* With the allocator of all calls before. */
void uvcci_plan_pool_free(uvcci_plan_pool *pool, const uvcc_allocator *al);

#endif
