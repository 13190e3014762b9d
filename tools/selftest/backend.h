/* SPDX-License-Identifier: Apache-2.0 */
/* backend.h - one back end of `uvcc selftest`: golden vectors, random operands, a training step. */
#ifndef UVCC_TOOLS_SELFTEST_BACKEND_H
#define UVCC_TOOLS_SELFTEST_BACKEND_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "../lm/train.h"
#include "../run_options.h"
#include "vectors.h"

/* Beside those of uvcc_cpu_backend. */
enum { SELFTEST_GPU = UVCC_BACKEND_END, SELFTEST_BACKENDS };

/* The training on the portable kernels, once it was run: it is slow where AES is not the CPU's. */
typedef struct selftest_reference {
    bool there;
    lm_train_outcome is;
} selftest_reference;

typedef struct selftest_job {
    const vector_set *vectors;
    uint64_t seed;   /* of the first round */
    uint32_t rounds; /* 0: golden vectors only */
    bool progress;
    FILE *to;       /* where it is said what was right */
    run_options on; /* device and device_bytes, of SELFTEST_GPU */
} selftest_job;

typedef struct selftest_result {
    uint64_t golden, random; /* results that were right */
    uint32_t device;         /* of SELFTEST_GPU */
    bool right, trained;     /* trained: these are there */
    uint8_t weights_sha256[32], global_root[32];
} selftest_result;

/* "gpu" of SELFTEST_GPU. */
const char *selftest_name(uint32_t backend);
/* `reference` is empty at first, and kept for the next back end of the same job. Shows what was
 * right, and the first that was not, as an error. An exit status; EXIT_BAD_INPUT where there is no
 * card. A card begins CUDA in this process (card.h). */
int selftest_backend(const selftest_job *j, uint32_t backend, selftest_reference *reference,
                     selftest_result *out);

#endif
