/* SPDX-License-Identifier: Apache-2.0 */
/* dir_lock.c - see dir_lock.h. */
#include "dir_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "report.h"

int dir_lock(const char *dir, int *fd) {
    const size_t room = strlen(dir) + sizeof "/lock";
    char *path = malloc(room);
    *fd = -1;
    if (path == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    (void)snprintf(path, room, "%s/lock", dir);
    int why = 0, got = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (got < 0 || flock(got, LOCK_EX | LOCK_NB) != 0)
        why = errno;
    int status = EXIT_DONE;
    if (why == EWOULDBLOCK)
        status = report_error(
            EXIT_BAD_INPUT,
            "%s: another process uses it; wait for its end, or give another directory", dir);
    else if (why != 0)
        status = report_error(EXIT_FAILED, "%s: cannot be locked: %s", path, strerror(why));
    if (why == 0)
        *fd = got;
    else if (got >= 0)
        (void)close(got);
    free(path);
    return status;
}

void dir_unlock(int fd) {
    if (fd >= 0)
        (void)close(fd);
}
