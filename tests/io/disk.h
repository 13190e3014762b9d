/* SPDX-License-Identifier: Apache-2.0 */
/* disk.h - the system's calls that change what a directory has, wrapped (--wrap): counted, made to
 * fail or to be a process's last, and remembered as far as a disk has not been told of them, so
 * that a test can take back what a loss of power might. */
#ifndef UVCC_TEST_DISK_H
#define UVCC_TEST_DISK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    DISK_WRITE = 1,
    DISK_FSYNC = 2,
    DISK_RENAME = 4,
    DISK_LINK = 8,
    DISK_UNLINK = 16,
    DISK_FCHMOD = 32,
    DISK_ALL = 63
};
enum { DISK_PENDING_MAX = 64, DISK_PATH_BYTES = 256 };

/* A name that was given and whose directory was not flushed since. */
typedef struct disk_pending {
    char path[DISK_PATH_BYTES], old[DISK_PATH_BYTES]; /* old: what had it; "": nothing had */
} disk_pending;

/* Shared by a test and its children. */
typedef struct disk_state {
    unsigned calls, kill_at; /* SIGKILL before this one; 0: never */
    unsigned fail;           /* DISK_*: these calls fail ... */
    int fail_errno;          /* ... with this */
    unsigned fail_after;     /* once so many of them went well */
    unsigned torn;           /* names that were given to bytes that were not flushed */
    unsigned backups;
    unsigned pending_count;
    disk_pending pending[DISK_PENDING_MAX];
} disk_state;
extern disk_state *disk; /* NULL: calls go through */

/* In memory that children share. */
void disk_begin(void);
/* Names whose directories were not flushed are taken back, in those whose path has `in` in it; the
 * others are on the disk. Then nothing is pending. */
void disk_lose(const char *const in[], unsigned count);

#endif
