/* SPDX-License-Identifier: Apache-2.0 */
/* arch.c - see arch.h. */
#include "gpu/arch.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

bool uvcci_gpu_arch_runs(const char *archs, int major, int minor) {
    bool runs = false;
    for (const char *at = archs; at != NULL && *at != '\0' && !runs;) {
        char *end = NULL;
        const long of = strtol(at, &end, 10); /* 10 major + minor */
        const bool alone = *end != ',' && *end != '\0';
        runs = of > 0 && of / 10 == major && (alone ? of % 10 == minor : of % 10 <= minor);
        at = strchr(end, ',');
        at = at != NULL ? at + 1 : NULL;
    }
    return runs;
}
