/* SPDX-License-Identifier: Apache-2.0 */
/* shared_library.h - libraries that the command loads when it needs them, so that it runs where
 * they are not. */
#ifndef UVCC_TOOLS_SHARED_LIBRARY_H
#define UVCC_TOOLS_SHARED_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* A function and where its pointer goes: of a function pointer, as POSIX has dlsym(). */
typedef struct shared_symbol {
    const char *name;
    void *to;
} shared_symbol;

/* Loads it under `name`, or that which the environment's `variable` gives, and finds all symbols.
 * It stays until the process ends. global: what it loads later finds its symbols. NULL, or what is
 * wrong, in words that stay valid until the next call. */
const char *shared_library_load(const char *variable, const char *name, bool global,
                                const shared_symbol *symbols, size_t count);

#endif
