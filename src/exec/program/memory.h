/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - how much tensor memory a step of an entry can need at one time.
 *
 * An upper bound that holds in every order of the ops that a session may choose, and is exact for a
 * chain of ops. It takes time and memory by ops, edges and how many ops can run side by side. */
#ifndef UVCCI_MEMORY_H
#define UVCCI_MEMORY_H

#include "exec/program/program.h"

/* Bytes of TRANSIENT buffers that are live together at most, in a finished program's entry. 0 or
 * UVCC_ERR_NOMEM. */
int uvcci_memory_bound(const uvcc_program *p, const uvcci_entry *e, uint64_t *bytes);

/* What counts as a tensor's buffer. */
typedef enum uvcci_memory_of {
    UVCCI_MEMORY_NO_TENSORS,
    UVCCI_MEMORY_TENSORS,
    UVCCI_MEMORY_TENSORS_ROUNDED, /* as an arena takes each of their components */
} uvcci_memory_of;

/* The same of these buffers and, by op in program order, of memory that an op takes from its start
 * to its end (work; may be NULL). */
int uvcci_memory_bound_with(const uvcc_program *p, const uvcci_entry *e, const uint64_t *work,
                            uvcci_memory_of tensors, uint64_t *bytes);

/* Bytes of a buffer of one tensor as an arena takes it: in one component or two. */
uint64_t uvcci_buffer_rounded(const uvcc_program *p, uint32_t buffer);

#endif
