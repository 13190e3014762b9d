/* SPDX-License-Identifier: Apache-2.0 */
/* What test_nccl runs on: memory of this process (memory.c), or CUDA devices (cards.c). */
#ifndef UVCC_TESTS_NCCL_LAB_H
#define UVCC_TESTS_NCCL_LAB_H

#include "io_adapters/nccl/back_end.h"
#include <stddef.h>

extern const uvcci_nccl_back_end *const lab_back_end;

/* Workers that can be on a device each; 0, and then *why says why. */
uint32_t lab_devices(const char **why);
/* Memory that an operand may be; pinned: of the host, which the device reaches. */
void *lab_take(uint32_t device, size_t bytes, bool pinned);
void lab_give(void *at, bool pinned);
void lab_write(void *at, const void *from, size_t bytes);
void lab_read(void *to, const void *at, size_t bytes);
/* What the next operation of a worker of that rank, of whichever party, does (where the lab can do
 * that: else false): it fails, or never ends, as the device's, or has not begun before
 * lab_let_begin(). */
typedef enum lab_fault { LAB_FAILS, LAB_HANGS, LAB_HELD } lab_fault;
bool lab_break(uint32_t rank, lab_fault fault);
bool lab_can_break(void);
/* Until it was to begin; a number of its party. */
unsigned lab_await_held(void);
void lab_let_begin(void);

/* What CUDA may do where memory is taken or given back: it waits until nothing is on a device, and
 * keeps everybody from launching meanwhile. */
void lab_memory_call(uint32_t device);

#endif
