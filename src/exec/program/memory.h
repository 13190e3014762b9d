/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - how much tensor memory a step of an entry can need at one time.
 *
 * An upper bound that holds in every order of the ops that a session may choose, and is exact for a
 * chain of ops. */
#ifndef UVCCI_MEMORY_H
#define UVCCI_MEMORY_H

#include "exec/program/program.h"

/* Bytes of TRANSIENT buffers that are live together at most, in a finished program's entry.
 * UVCC_ERR_LIMIT: more ops than tables are made for; UVCC_ERR_NOMEM. */
int uvcci_memory_bound(const uvcc_program *p, const uvcci_entry *e, uint64_t *bytes);

/* The same of these buffers (tensors: they count) and, by op in program order, of memory that an op
 * takes from its start to its end (work; may be NULL). */
int uvcci_memory_bound_with(const uvcc_program *p, const uvcci_entry *e, const uint64_t *work,
                            bool tensors, uint64_t *bytes);

#endif
