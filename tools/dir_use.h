/* SPDX-License-Identifier: Apache-2.0 */
/* dir_use.h - what a directory of a command is for: a kept model and its keys, evidence for
 * auditors, logs. It is for one of them alone: evidence goes to others, the rest is secret. */
#ifndef UVCC_TOOLS_DIR_USE_H
#define UVCC_TOOLS_DIR_USE_H

#include <stddef.h>

typedef enum dir_use { DIR_MODEL, DIR_EVIDENCE, DIR_LOGS } dir_use;

typedef struct dir_user {
    const char *dir; /* NULL: not given */
    dir_use use;
} dir_user;

/* Refuses one directory for two uses, by whatever names, and one that was used for something else.
 * Makes nothing. An exit status after reporting. */
int dir_use_check(const dir_user *users, size_t count);

#endif
