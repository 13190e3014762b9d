/* SPDX-License-Identifier: Apache-2.0 */
/* emulated.h - the files of kernels, as they are launched, on the device of device.h. */
#ifndef UVCC_TESTS_GPU_EMULATED_H
#define UVCC_TESTS_GPU_EMULATED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The order in which threads go on: 0, 1, or any other number. */
void emulated_order(uint64_t which);
/* Multiprocessors of the device. */
void emulated_multiprocessors(unsigned sms);

/* Shared memory that launches ask for: its content is lost when a block begins; and behind the last
 * one it is what the host has there, tables of AES. */
void emulated_forget(void);
void emulated_recall(void);
/* Whether nobody wrote there beyond so many bytes. */
int emulated_kept(size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
