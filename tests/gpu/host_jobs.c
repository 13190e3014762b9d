/* SPDX-License-Identifier: Apache-2.0 */
/* A job's tasks one after the other, by what host_kernels.h declares. */
#include "host_kernels.h"

#include <stdlib.h>

static void run_vec(const uvcc_task *t) {
    vec_block *blocks = calloc(t->u.vec.count + 1, sizeof *blocks);
    void *table = malloc(uvcci_gpu_table_bytes(t->kind, t->u.vec.fn) + 1);
    vec_task task;
    if (blocks == NULL || table == NULL)
        abort();
    uvcci_gpu_describe_vec(t, &task);
    uvcci_gpu_describe_table(&task, table, table);
    uvcci_gpu_describe_blocks(t, blocks);
    task.blocks = blocks;
    host_kernels_vec(&task, t->keys);
    free(table);
    free(blocks);
}

static void run_hash(const uvcc_task *t) {
    digest_item *items = calloc(t->u.hash.count + 1, sizeof *items);
    const uint64_t chunks = items == NULL ? 0 : uvcci_gpu_describe_hash(t, items);
    uint8_t *digests = malloc(DIGEST_BYTES * (chunks + 1));
    if (items == NULL || digests == NULL)
        abort();
    const digest_places to = {digests, NULL, chunks};
    host_kernels_hash(items, t->u.hash.count, t->u.hash.count, chunks, &to);
    free(digests);
    free(items);
}

static int run_task(const uvcc_task *t) {
    if (uvcci_gpu_check(t) != 0)
        return UVCC_ERR_JOB;
    if (uvcci_gpu_is_vec(t->kind)) {
        run_vec(t);
    } else if (t->kind == UVCC_TASK_MAP) {
        map_task m[2];
        const unsigned count = uvcci_gpu_describe_map(t, m);
        for (unsigned i = 0; i < count; i++)
            host_kernels_map(&m[i]);
    } else if (t->kind == UVCC_TASK_GEMM) {
        const product_task p = uvcci_gpu_describe_gemm(t);
        host_kernels_gemm(&p);
    } else if (t->kind == UVCC_TASK_BIT_SUMS) {
        const bits_task b = uvcci_gpu_describe_bits(t);
        host_kernels_bits(&b);
    } else if (t->kind == UVCC_TASK_HASH) {
        run_hash(t);
    } else {
        host_kernels_bytes(t->u.copy.items, t->u.copy.count, t->kind == UVCC_TASK_WIPE);
    }
    return 0;
}

int host_kernels_run(const uvcc_job *job) {
    int e = 0;
    for (uint32_t i = 0; i < job->count && e == 0; i++)
        e = run_task(&job->tasks[i]);
    return e;
}
