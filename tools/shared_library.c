/* SPDX-License-Identifier: Apache-2.0 */
/* shared_library.c - see shared_library.h. */
#include "shared_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *shared_library_load(const char *variable, const char *name, bool global,
                                const shared_symbol *symbols, size_t count) {
    static char text[320];
    const char *other = getenv(variable);
    if (other != NULL && *other != '\0')
        name = other;
    void *handle = dlopen(name, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (handle == NULL) {
        (void)snprintf(text, sizeof text, "is not there: %s; install it, or give its place in %s",
                       dlerror(), variable);
        return text;
    }
    for (size_t i = 0; i < count; i++) {
        void *at = dlsym(handle, symbols[i].name);
        if (at == NULL) {
            (void)snprintf(text, sizeof text,
                           "cannot be used: %s is of another version of uvcc: %s", name, dlerror());
            return text;
        }
        memcpy(symbols[i].to, &at, sizeof at);
    }
    return NULL;
}
