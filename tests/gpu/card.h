/* SPDX-License-Identifier: Apache-2.0 */
/* card.h - an executor for a test, or the test ends as skipped. */
#ifndef UVCC_TESTS_GPU_CARD_H
#define UVCC_TESTS_GPU_CARD_H

#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <uvcc/gpu.h>
#include <uvcc/host.h>

enum { CARD_SKIPPED = 77 };

/* First of main(). */
static inline void card_needed(void) {
    const char *why = NULL;
    if (uvcc_gpu_count(&why) == 0) {
        (void)printf("skipped: %s\n", why);
        exit(CARD_SKIPPED);
    }
}

static inline uvcc_gpu_config card_config(void) {
    uvcc_gpu_config cfg = {.size = sizeof cfg};
    cfg.alloc = uvcc_host_allocator();
    return cfg;
}

static inline uvcc_gpu *card_open(const uvcc_gpu_config *cfg) {
    uvcc_gpu *x = NULL;
    assert_int_equal(uvcc_gpu_new(&x, cfg), 0);
    return x;
}

#endif
