/* SPDX-License-Identifier: Apache-2.0 */
/* dir_lock.h - a directory that one process at a time may write to. */
#ifndef UVCC_TOOLS_DIR_LOCK_H
#define UVCC_TOOLS_DIR_LOCK_H

/* Locks DIR by its file `lock`, which it makes and leaves. An exit status, after reporting; the
 * lock is given back by dir_unlock(), or by the process's end. */
int dir_lock(const char *dir, int *fd);
/* The same of a process that gives the descriptor to its children: where it is gone and they are
 * not, their end is waited for, so many seconds at most. */
int dir_lock_after(const char *dir, unsigned seconds, int *fd);
/* What dir_lock() gave; negative: none. */
void dir_unlock(int fd);

#endif
