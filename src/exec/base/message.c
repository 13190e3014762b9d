/* SPDX-License-Identifier: Apache-2.0 */
/* message.c - see message.h. */
#include "exec/base/message.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

int uvcci_fail(const uvcci_message *m, int error, const char *format, ...) {
    assert(m != NULL && format != NULL);
    if (m->text == NULL || m->cap == 0)
        return error;
    va_list args;
    va_start(args, format);
    vsnprintf(m->text, m->cap, format, args);
    va_end(args);
    return error;
}
