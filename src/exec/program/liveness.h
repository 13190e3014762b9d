/* SPDX-License-Identifier: Apache-2.0 */
/* liveness.h - what an entry's ops depend on, and how long its buffers live.
 *
 * An op waits for the writers of the versions that it reads, and where it overwrites a buffer, for
 * that buffer's last writer and for all readers of what was there. Each wait is an edge, named
 * once. A version can be read until something else is written into its buffer. */
#ifndef UVCCI_LIVENESS_H
#define UVCCI_LIVENESS_H

#include "exec/program/program.h"

/* Fills ordinals, versions, dependencies and lives of e, whose ops, by_ordinal, succ, life, uses
 * and lists of touching ops are allocated (succ for uvcci_edge_bound() words). UVCC_ERR_PROGRAM
 * names a read of what was never written or was overwritten. */
int uvcci_program_analyse(const uvcc_program *p, uvcci_entry *e, const uvcci_message *m);
/* Most edges that the dependencies of these ops can have. */
uint32_t uvcci_edge_bound(const uvcci_op *ops, uint32_t count);

#endif
