/* SPDX-License-Identifier: Apache-2.0 */
/* message.h - the line that says why something was refused, for whoever asked for one. */
#ifndef UVCCI_MESSAGE_H
#define UVCCI_MESSAGE_H

#include <stddef.h>

/* Room for one line; NULL or cap 0 is allowed and drops it. */
typedef struct uvcci_message {
    char *text;
    size_t cap;
} uvcci_message;
/* Writes the line (truncated to fit) and returns `error`. */
int uvcci_fail(const uvcci_message *m, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
