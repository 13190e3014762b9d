/* SPDX-License-Identifier: Apache-2.0 */
/* pages.h - memory of the host that CUDA is to pin where it lies. What cudaHostAlloc() does while
 * it keeps every thread of the process from its device, to find pages and to fill them with zeros,
 * is done before CUDA hears of it: of 64 MiB it then takes 4 ms where it took 45. No lock, any
 * thread. */
#ifndef UVCCI_GPU_PAGES_H
#define UVCCI_GPU_PAGES_H

#include <stddef.h>

/* Zeros, all of them there, at a large page's beginning, in large pages where the system gives
 * some. Not in dumps of a process that failed, nor in processes that it forks: what a device
 * writes to may not move. NULL: there is no more. */
void *uvcci_gpu_pages_take(size_t bytes);
/* With the same number. */
void uvcci_gpu_pages_give(void *at, size_t bytes);

#endif
