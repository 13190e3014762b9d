/* SPDX-License-Identifier: Apache-2.0 */
/* files.h - whole files in memory, and files that appear whole or not at all. */
#ifndef UVCC_TOOLS_FILES_H
#define UVCC_TOOLS_FILES_H

#include <stddef.h>
#include <stdint.h>

/* Reads a regular file whole; free() *bytes. `status` after reporting (report.h) what is wrong, or
 * 0. */
int file_read(const char *path, int status, uint8_t **bytes, size_t *len);
/* The same, but what is wrong goes to `why` and nowhere else: 0 or -1. */
int file_read_why(const char *path, uint8_t **bytes, size_t *len, char *why, size_t why_cap);
/* Writes a file of mode 0600 under another name in the same place, flushes it to the disk and gives
 * it its name, over a file that has it; the name is on the disk too when it returns. What is no
 * regular file is written as it is (place.h). 0 or errno. */
int file_write(const char *path, const void *bytes, size_t len);
/* Makes a directory of mode 0700 if there is none. 0 or errno. */
int dir_make(const char *path);

#endif
