/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.h - items of a COPY run one after the other by contract; a kernel runs those beside each
 * other of which none touches what another writes. No CUDA here. */
#ifndef UVCCI_GPU_OVERLAP_H
#define UVCCI_GPU_OVERLAP_H

#include <uvcc/task.h>

/* How many items from the first on may run beside each other; at least 1 if there are any. */
uint32_t uvcci_overlap_run(const uvcc_copy_item *items, uint32_t count);

#endif
