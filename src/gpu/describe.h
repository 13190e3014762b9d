/* SPDX-License-Identifier: Apache-2.0 */
/* describe.h - tasks as kernels take them. No CUDA here. */
#ifndef UVCCI_GPU_DESCRIBE_H
#define UVCCI_GPU_DESCRIBE_H

#include "gpu/digest.h"
#include "gpu/map.h"
#include "gpu/product.h"
#include "gpu/vec.h"

/* 0, or UVCC_ERR_JOB: the task is not within the limits of its section in compute.md, or no kernel
 * runs its kind. */
int uvcci_gpu_check(const uvcc_task *t);
/* Whether a kind is a task of blocks. */
bool uvcci_gpu_is_vec(unsigned kind);
/* A task of blocks, without its blocks; the arrays of fn are left where they are. */
void uvcci_gpu_describe_vec(const uvcc_task *t, vec_task *out);
/* Its blocks; `to` has room for them. */
void uvcci_gpu_describe_blocks(const uvcc_task *t, vec_block *to);
/* One map, or two that run one after the other: in place, PUBLIC would read what it zeroed. Gives
 * how many there are. */
unsigned uvcci_gpu_describe_map(const uvcc_task *t, map_task to[2]);
product_task uvcci_gpu_describe_gemm(const uvcc_task *t);
bits_task uvcci_gpu_describe_bits(const uvcc_task *t);
/* Items of HASH; gives the number of chunks of their trees. */
uint64_t uvcci_gpu_describe_hash(const uvcc_task *t, digest_item *to);
/* Units of work of a block: of units_of() in kinds.h. */
uint32_t uvcci_gpu_units(const vec_task *t, const uvcc_block *b);
/* A table as kernels read it, for a task that was described: what it takes, 0 of other kinds, and
 * where kernels see it, which may be elsewhere than it is written. */
size_t uvcci_gpu_table_bytes(unsigned kind, const uvcc_fn_args *fn);
void uvcci_gpu_describe_table(vec_task *t, void *to, const void *seen);
/* Words of fn: how many there are to read. */
uint32_t uvcci_gpu_fn_words(const uvcc_task *t);

#endif
