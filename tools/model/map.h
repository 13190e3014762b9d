/* SPDX-License-Identifier: Apache-2.0 */
/* map.h - a regular file's bytes in memory, read only. */
#ifndef UVCC_TOOLS_MODEL_MAP_H
#define UVCC_TOOLS_MODEL_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "../flags.h"

typedef struct file_map {
    uint8_t *bytes; /* NULL: an empty file */
    size_t len;
} file_map;

/* 0, or -1 and a line that begins with the path. */
int map_open(file_map *out, const char *path, const flag_message *m);
void map_close(file_map *f);
/* Its bytes are not needed for now: they leave memory until they are read again. */
void map_forget(const file_map *f);

#endif
