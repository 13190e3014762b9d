/* SPDX-License-Identifier: Apache-2.0 */
/* fs.h - files of one directory: read whole, written whole or not at all, and said by name what
 * went wrong. Nothing waits for a pipe, follows a link at a file's name, or takes another user's
 * file. */
#ifndef UVCC_IO_HOST_FS_H
#define UVCC_IO_HOST_FS_H

#include <stdbool.h>
#include <uvcc/types.h>

#define UVCCI_PATH_BYTES 4096u

/* Where an error's text goes; text may be NULL. */
typedef struct uvcci_says {
    char *text;
    size_t cap;
} uvcci_says;
/* Returns rc. */
int uvcci_say(const uvcci_says *to, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A directory that is open. What texts call it, path, is its owner's; "" and slash "": a file's
 * name alone. */
typedef struct uvcci_dir {
    int fd;
    const char *path, *slash;
} uvcci_dir;
/* For "%s%s%s". */
#define UVCCI_PATH(d, name) (d)->path, (d)->slash, (name)

/* Every function below returns 0 or an UVCC_ERR, after saying what is wrong with which file. */

/* `make`: one that is not there is made, with mode 0700, and is on the disk. It must be the user's
 * and writable by nobody else. */
int uvcci_dir_open(uvcci_dir *out, const char *path, bool make, const uvcci_says *to);
/* The directory of a file, whoever's it is, and in *name the file's name in it. *at is the caller's
 * room for the directory's path. */
int uvcci_dir_of(uvcci_dir *out, const char *path, char *at, size_t at_cap, const char **name,
                 const uvcci_says *to);
void uvcci_dir_close(uvcci_dir *d);
/* Names in it are on the disk. */
int uvcci_dir_flush(const uvcci_dir *d, const uvcci_says *to);

/* A regular file of this user's, in memory of class WIRE; *bytes is uvcci_file_free()d. `own`: its
 * mode must be 0600. UVCC_ERR_NOT_FOUND without a text that says more. */
int uvcci_file_read(const uvcci_dir *d, const char *name, bool own, const uvcc_allocator *alloc,
                    uint8_t **bytes, size_t *len, const uvcci_says *to);
/* The same into the caller's memory, at most cap bytes of it. */
int uvcci_file_read_some(const uvcci_dir *d, const char *name, bool own, uint8_t *bytes, size_t cap,
                         size_t *len, const uvcci_says *to);
void uvcci_file_free(const uvcc_allocator *alloc, uint8_t *bytes, size_t len);
/* Mode 0600: written under PART, flushed, renamed over what has the name, the directory flushed. */
int uvcci_file_write(const uvcci_dir *d, const char *name, const void *bytes, size_t len,
                     const uvcci_says *to);
/* The same under a name that nobody has: UVCC_ERR_STATE if somebody does. */
int uvcci_file_write_new(const uvcci_dir *d, const char *name, const void *bytes, size_t len,
                         const uvcci_says *to);
/* 1: there is something of that name, a link too; 0: there is not. */
int uvcci_file_there(const uvcci_dir *d, const char *name);

/* What a file is called until it is whole. */
#define UVCCI_PART ".part"

#endif
