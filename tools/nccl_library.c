/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_library.c - see nccl_library.h. */
#include "nccl_library.h"

#include <stdio.h>
#include <stdlib.h>

#include "shared_library.h"

#ifndef UVCC_NCCL_LIBRARY
#define UVCC_NCCL_LIBRARY NULL /* it was not built */
#endif

static nccl_library lib;

const nccl_library *nccl_library_load(const char **why) {
    const shared_symbol symbols[] = {
        {"uvcc_nccl_new", &lib.make},        {"uvcc_nccl_close", &lib.close},
        {"uvcc_nccl_free", &lib.free},       {"uvcc_nccl_heard", &lib.heard},
        {"uvcc_nccl_submit", &lib.submit},   {"uvcc_nccl_poll", &lib.poll},
        {"uvcc_nccl_pending", &lib.pending}, {"uvcc_nccl_fail", &lib.fail},
        {"uvcc_nccl_why", &lib.why},         {"uvcc_nccl_over", &lib.over},
        {"uvcc_nccl_pause", &lib.pause},     {"uvcc_nccl_resume", &lib.resume},
    };
    static bool loaded;
    static char text[400];
    const char *name = getenv("UVCC_NCCL_LIBRARY");
    *why = text;
    if (loaded)
        return &lib;
    if (UVCC_NCCL_LIBRARY == NULL && (name == NULL || *name == '\0')) {
        (void)snprintf(text, sizeof text,
                       "this command was built without NCCL: build it with -Dnccl=enabled");
        return NULL;
    }
    const char *wrong = shared_library_load("UVCC_NCCL_LIBRARY", UVCC_NCCL_LIBRARY, false, symbols,
                                            sizeof symbols / sizeof symbols[0]);
    if (wrong != NULL) {
        (void)snprintf(text, sizeof text, "the library for several cards %s", wrong);
        return NULL;
    }
    loaded = true;
    return &lib;
}

bool nccl_library_why(const nccl_library *from, const uvcc_nccl *n, uint32_t local_rank,
                      uint32_t *code, char why[NCCL_LIBRARY_WHY_BYTES]) {
    char text[UVCC_NCCL_WHY_BYTES];
    uint32_t rank = 0;
    if (from->why(n, &rank, code, text) != 1)
        return false;
    if (rank == local_rank)
        (void)snprintf(why, NCCL_LIBRARY_WHY_BYTES, "%s", text);
    else
        (void)snprintf(why, NCCL_LIBRARY_WHY_BYTES, "worker %u: %s", rank, text);
    return true;
}

void nccl_library_on_memory(void *user, bool done) {
    (void)user;
    if (done)
        lib.resume();
    else
        lib.pause();
}
