/* SPDX-License-Identifier: Apache-2.0 */
/* work_util.h - what kinds of work have in common: names of files in a party's configuration, and
 * the bytes of a part of a result. */
#ifndef UVCC_TOOLS_PARTY_WORK_UTIL_H
#define UVCC_TOOLS_PARTY_WORK_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "work.h"

/* A path of the configuration, which lies in `dir` unless it is absolute (or "-"). free() it; NULL
 * without memory. */
char *work_path(const char *dir, const char *path);
/* The same of a name that may not be given (NULL: *path is NULL). An exit status after reporting.
 */
int work_take_path(const work_config *c, const char *name, char **path);
/* The file that "output" names under `member`, which is one of the `members` that it may have, with
 * NULL behind them: *path is as above, NULL if none is given. An exit status after reporting. */
int work_output(const work_config *c, const char *const *members, const char *member, char **path);

/* Of a kind that has one worker for each party and no checks of its products: `does` is what such a
 * job does ("infers"). An exit status after reporting. */
int work_alone(const work_config *c, const char *does);

/* Bytes that grow. After a put without memory `failed` is set and nothing is put any more. */
typedef struct work_bytes {
    uint8_t *at;
    size_t len, room;
    bool failed;
} work_bytes;
void work_put(work_bytes *b, const void *bytes, size_t len);
void work_put_u64(work_bytes *b, uint64_t v); /* little-endian */
/* Read again from the front: false, and 0, at their end. */
typedef struct work_reader {
    const uint8_t *at;
    size_t len;
} work_reader;
bool work_get_u64(work_reader *r, uint64_t *out);
/* The next n * size bytes, or NULL. */
const void *work_get(work_reader *r, uint64_t n, size_t size);

#endif
