/* SPDX-License-Identifier: Apache-2.0 */
/* libuvcc-nccl over memory of the process, for the command: UVCC_NCCL_LIBRARY names it. With
 * UVCC_TEST_NCCL_FAILS=RANK the first operation of a worker of that rank fails. It says how many
 * queues CUDA would be asked for. */
#include "lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <uvcc/nccl.h>

#include "io_adapters/nccl/state.h"

int uvcc_nccl_new(uvcc_nccl **out, const uvcc_nccl_config *cfg) {
    static bool asked; /* the command makes them in one thread */
    const char *rank = getenv("UVCC_TEST_NCCL_FAILS");
    const char *queues = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    if (!asked)
        (void)fprintf(stderr, "queues: %s\n", queues != NULL ? queues : "as CUDA has them");
    if (!asked && rank != NULL)
        (void)lab_break((uint32_t)strtoul(rank, NULL, 10), LAB_FAILS);
    asked = true;
    return uvcci_nccl_new(out, cfg, lab_back_end);
}
