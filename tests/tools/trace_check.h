/* SPDX-License-Identifier: Apache-2.0 */
/* trace_check.h - a trace file is valid JSON of Chrome's trace events, and its tracks are sound. */
#ifndef UVCC_TESTS_TRACE_CHECK_H
#define UVCC_TESTS_TRACE_CHECK_H

#include "support.h"

#include <stdbool.h>

typedef struct trace_count {
    unsigned processes, tracks; /* named */
    size_t named;               /* slices */
} trace_count;

/* Fails the test unless every slice lies on a named track of a named process, has a name, a length
 * of at least 0, and lies beside or inside every other slice of its track. */
trace_count trace_check(const char *path);
/* The slices of a name, or of all if it is NULL. */
size_t trace_slices(const char *path, const char *name);

#endif
