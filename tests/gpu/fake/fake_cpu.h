/* SPDX-License-Identifier: Apache-2.0 */
/* fake_cpu.h - the executor of the CPU, which counts what a device's executor leaves to it, and can
 * be told to fail. Included before every source of the test. */
#ifndef UVCC_TESTS_GPU_FAKE_CPU_H
#define UVCC_TESTS_GPU_FAKE_CPU_H

#include <stdbool.h>
#include <stdint.h>

/* Jobs end with UVCC_ERR_JOB from now on. */
void fake_cpu_fails(bool on);
/* Items of hash tasks that it was given so far. */
uint32_t fake_cpu_hashes(void);

#define uvcc_cpu_submit fake_cpu_submit
#define uvcc_cpu_poll   fake_cpu_poll

#endif
