/* SPDX-License-Identifier: Apache-2.0 */
/* arch.h - which devices a build of the kernels runs on. No CUDA here. */
#ifndef UVCCI_GPU_ARCH_H
#define UVCCI_GPU_ARCH_H

#include <stdbool.h>

/* archs: what the kernels were compiled for, as nvcc names it, by commas: "90a,80". Code of an
 * architecture runs on devices of its major number and no lesser minor one; of one with a letter,
 * on that one alone. */
bool uvcci_gpu_arch_runs(const char *archs, int major, int minor);

#endif
