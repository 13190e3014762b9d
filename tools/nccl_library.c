/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_library.c - see nccl_library.h. */
#include "nccl_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef UVCC_NCCL_LIBRARY
#define UVCC_NCCL_LIBRARY NULL /* it was not built */
#endif

static nccl_library lib;

static bool resolve(void *handle) {
    const struct {
        const char *name;
        void *to; /* a function pointer, as POSIX has dlsym() */
    } symbols[] = {
        {"uvcc_nccl_new", &lib.make},        {"uvcc_nccl_close", &lib.close},
        {"uvcc_nccl_free", &lib.free},       {"uvcc_nccl_heard", &lib.heard},
        {"uvcc_nccl_submit", &lib.submit},   {"uvcc_nccl_poll", &lib.poll},
        {"uvcc_nccl_pending", &lib.pending}, {"uvcc_nccl_fail", &lib.fail},
        {"uvcc_nccl_why", &lib.why},
    };
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *at = dlsym(handle, symbols[i].name);
        if (at == NULL)
            return false;
        memcpy(symbols[i].to, &at, sizeof at);
    }
    return true;
}

/* It stays: NCCL and CUDA leave threads. */
const nccl_library *nccl_library_load(const char **why) {
    static bool loaded;
    static char text[320];
    const char *name = getenv("UVCC_NCCL_LIBRARY");
    *why = text;
    if (loaded)
        return &lib;
    if (name == NULL || *name == '\0')
        name = UVCC_NCCL_LIBRARY;
    if (name == NULL) {
        (void)snprintf(text, sizeof text,
                       "this command was built without NCCL: build it with -Dnccl=enabled");
        return NULL;
    }
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL || !resolve(handle)) {
        (void)snprintf(text, sizeof text,
                       "the library for several cards is not there: %s; install it, or give its "
                       "place in UVCC_NCCL_LIBRARY",
                       dlerror());
        return NULL;
    }
    loaded = true;
    return &lib;
}
