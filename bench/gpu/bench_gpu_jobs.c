/* SPDX-License-Identifier: Apache-2.0 */
/* What a job costs a CUDA device's executor beside the work in it: from uvcc_gpu_submit() to the
 * completion, one job at a time, of many the median and the 90th of 100. Skipped without a device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uvcc/gpu.h>
#include <uvcc/host.h>

#include "card.h"

enum { RUNS = 1000, WARM = 20, SKIPPED = 77, BLOCKS_MOST = 4096, TASKS_MOST = 16 };

static uvcc_step_keys keys;

static void row(const char *what, const uvcc_task *t, uint32_t count) {
    static double took[RUNS];
    const uvcc_job job = {.id = 1, .tasks = t, .count = count};
    time_job(&job, WARM, RUNS, took);
    (void)printf("%-52s %9.1f us %9.1f us\n", what, 1e6 * took[RUNS / 2],
                 1e6 * took[RUNS * 9 / 10]);
    (void)fflush(stdout);
}

/* Blocks of so many elements: operands on the device, the message in memory of the host. */
static uvcc_task masking(uvcc_block *b, uint32_t blocks, uint32_t elems, uint64_t *device,
                         uint8_t *host) {
    memset(b, 0, blocks * sizeof *b);
    for (uint32_t i = 0; i < blocks; i++) {
        uint64_t *at = device + (size_t)3 * elems * i;
        b[i] = (uvcc_block){.block = i,
                            .count = elems,
                            .role = UVCC_HEAD,
                            .in = {at, at + elems},
                            .out = {at + (size_t)2 * elems},
                            .wire_out = {host + (size_t)8 * elems * i}};
    }
    return (uvcc_task){
        .kind = UVCC_TASK_OPEN2_MASK, .keys = &keys, .u.vec = {.blocks = b, .count = blocks}};
}

static void rows(void) {
    static uvcc_block b[BLOCKS_MOST];
    static const uint32_t sizes[][2] = {{1, 1},     {1, 4096},   {16, 4096},
                                        {64, 4096}, {256, 4096}, {4096, 1}};
    char what[64];
    uint64_t *device = take((size_t)24 * 256 * 4096, UVCC_MEM_TENSOR);
    uint8_t *host = take((size_t)8 * 256 * 4096, UVCC_MEM_WIRE);
    uint8_t *own = calloc(1, 65536);
    uvcc_task t[TASKS_MOST];
    must(own != NULL, "no memory");
    for (unsigned i = 0; i < TASKS_MOST; i++)
        t[i] = (uvcc_task){.kind = UVCC_TASK_MAP,
                           .u.map = {.op = UVCC_MAP_ADD,
                                     .rows = 1,
                                     .cols = 1,
                                     .x = {device, NULL},
                                     .y = {device + 1, NULL},
                                     .out = {device + 2, NULL}}};
    row("MAP of one element", t, 1);
    row("4 of them", t, 4);
    row("16 of them", t, TASKS_MOST);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        t[0] = masking(b, sizes[i][0], sizes[i][1], device, host);
        (void)snprintf(what, sizeof what, "OPEN2_MASK, %u blocks of %u", sizes[i][0], sizes[i][1]);
        row(what, t, 1);
    }
    uvcc_copy_item it = {(uint8_t *)device, own, 65536};
    t[0] = (uvcc_task){.kind = UVCC_TASK_COPY, .u.copy = {.items = &it, .count = 1}};
    row("COPY of 64 KiB from memory of the host's own", t, 1);
    memory.free(memory.user, device, (size_t)24 * 256 * 4096, UVCC_MEM_TENSOR);
    memory.free(memory.user, host, (size_t)8 * 256 * 4096, UVCC_MEM_WIRE);
    free(own);
}

int main(void) {
    const char *why = NULL;
    uvcc_gpu_config cfg = {.size = sizeof cfg};
    cfg.alloc = uvcc_host_allocator();
    if (uvcc_gpu_count(&why) == 0) {
        (void)printf("skipped: %s\n", why);
        return SKIPPED;
    }
    must(uvcc_gpu_new(&gpu, &cfg) == 0, "no executor");
    memory = uvcc_gpu_allocator(gpu);
    for (size_t i = 0; i < sizeof keys; i++)
        ((uint8_t *)&keys)[i] = (uint8_t)(37 * i + 11);
    (void)printf("%-52s %12s %12s\n", "a job", "median", "of 100 the 90th");
    rows();
    uvcc_gpu_free(gpu);
    return 0;
}
