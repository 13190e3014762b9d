/* SPDX-License-Identifier: Apache-2.0 */
/* atomic_file.h - an output file under another name beside its place until it is whole, so that a
 * place that cannot be written is known before the work, and a name never stands for half a file.
 * What is no regular file (a device, a pipe) is written as it is: place.h. */
#ifndef UVCC_TOOLS_ATOMIC_FILE_H
#define UVCC_TOOLS_ATOMIC_FILE_H

#include <stdio.h>

typedef struct atomic_file atomic_file;
/* `path` as --`option` gave it, or the member `option` of a file, "output.weights"; "-" is standard
 * output. NULL after reporting the error (report.h),
 * with its exit status in *status. */
atomic_file *atomic_file_open(const char *option, const char *path, int *status);
/* The same for a file that its owner alone may read. */
atomic_file *atomic_file_open_own(const char *option, const char *path, int *status);
FILE *atomic_file_stream(atomic_file *a);
/* Whether such a file can be made: an exit status after reporting, before work whose results go
 * there by other means. NULL: yes. */
int atomic_file_check(const char *option, const char *path);
/* The same of several, before any is opened: an output of its own for each. Standard output takes
 * one alone, that of --json. */
typedef struct output_use {
    const char *option, *path; /* NULL: not given */
} output_use;
int atomic_file_apart(const output_use *uses, size_t count);
/* Refuses an output that would replace one of the files that are read, by whatever name. An exit
 * status after reporting. */
int atomic_file_spares(const char *option, const char *path, const output_use *read, size_t count);
/* Everything is written: it is on the disk, under the other name still, so that of several files
 * none gets its name before all can. An exit status; also for writes that failed. */
int atomic_file_settle(atomic_file *a);
/* Everything is written: the file gets its name. An exit status; also for writes that failed. */
int atomic_file_finish(atomic_file *a);
/* Takes away what was not finished. */
void atomic_file_close(atomic_file *a);

#endif
