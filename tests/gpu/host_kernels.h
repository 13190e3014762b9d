/* SPDX-License-Identifier: Apache-2.0 */
/* host_kernels.h - the functions that GPU kernels are made of, run on a CPU one unit after the
 * other. */
#ifndef UVCC_TESTS_GPU_HOST_KERNELS_H
#define UVCC_TESTS_GPU_HOST_KERNELS_H

#include <uvcc/compute.h>

/* Runs all tasks of a job; 0 or UVCC_ERR_JOB. */
int host_kernels_run(const uvcc_job *job);

#endif
