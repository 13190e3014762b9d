/* SPDX-License-Identifier: Apache-2.0 */
/* place.h - where an output goes: a regular file gets a new content under its name, anything else
 * (a device, a pipe, /dev/fd/N, what a shell makes of >(command)) is written as it is. Links are
 * followed: what they lead to is replaced, not they. */
#ifndef UVCC_TOOLS_PLACE_H
#define UVCC_TOOLS_PLACE_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct place {
    bool as_it_is; /* no regular file: nothing is made beside it */
    int number;    /* of a descriptor of this process that the path names, or -1 */
    char *path;    /* without links at its end; place_forget() */
    bool there;
    mode_t mode; /* of a file that is there: permissions */
} place;

/* 0, or errno: EISDIR, ELOOP, ENOMEM, ENOTDIR and the like. Opens nothing. */
int place_find(place *p, const char *path);
/* A descriptor for writing to a place that is taken as it is, or -1 with errno set. A named pipe
 * waits for its reader. */
int place_open(const place *p);
void place_forget(place *p);

#endif
