/* SPDX-License-Identifier: Apache-2.0 */
/* dir_lock.c - see dir_lock.h. */
#include "dir_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "interrupt.h"
#include "report.h"

enum { PID_BYTES = 24, LOOK_NS = 50000000, LOOKS_A_SECOND = 20 };

/* 0 and the lock, with this process's id in it for whoever finds it taken; else errno. */
static int take(const char *path, int *fd) {
    char pid[PID_BYTES];
    const int got =
        open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
    if (got < 0 || flock(got, LOCK_EX | LOCK_NB) != 0) {
        const int why = errno;
        if (got >= 0)
            (void)close(got);
        return why;
    }
    const int n = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    (void)!ftruncate(got, 0);
    (void)!pwrite(got, pid, (size_t)n, 0);
    *fd = got;
    return 0;
}

/* Who took the lock is gone, and children to whom it gave the descriptor are not. */
static bool left_behind(const char *path, long *by) {
    char text[PID_BYTES] = {0};
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const ssize_t n = fd >= 0 ? pread(fd, text, sizeof text - 1, 0) : -1;
    if (fd >= 0)
        (void)close(fd);
    *by = n > 0 ? strtol(text, NULL, 10) : 0;
    return *by > 0 && kill((pid_t)*by, 0) != 0 && errno == ESRCH;
}

static int failed(const char *dir, const char *path, int why) {
    if (why == EWOULDBLOCK)
        return report_error(
            EXIT_BAD_INPUT,
            "%s: another process uses it; wait for its end, or give another directory", dir);
    return report_error(EXIT_FAILED, "%s: cannot be locked: %s", path, strerror(why));
}

/* Until the children of an earlier process are gone. */
static int wait_for(const char *dir, const char *path, unsigned seconds, int *fd) {
    const struct timespec look = {.tv_nsec = LOOK_NS};
    int why = EWOULDBLOCK;
    long by = 0;
    for (unsigned n = 0; why == EWOULDBLOCK && left_behind(path, &by); n++) {
        if (n == 0)
            report_line(true,
                        "%s: what process %ld started, which is gone, still runs; waiting for its "
                        "end, %u s at most",
                        dir, by, seconds);
        if (n >= seconds * LOOKS_A_SECOND)
            return report_error(EXIT_FAILED,
                                "%s: what process %ld started still runs: end it (fuser %s shows "
                                "it), and give the command again",
                                dir, by, path);
        if (interrupted())
            return report_error(EXIT_INTERRUPTED, "interrupted");
        (void)nanosleep(&look, NULL);
        why = take(path, fd);
    }
    return why == 0 ? EXIT_DONE : failed(dir, path, why);
}

int dir_lock_after(const char *dir, unsigned seconds, int *fd) {
    const size_t room = strlen(dir) + sizeof "/lock";
    char *path = malloc(room);
    *fd = -1;
    if (path == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    (void)snprintf(path, room, "%s/lock", dir);
    const int why = take(path, fd);
    int status = EXIT_DONE;
    if (why == EWOULDBLOCK && seconds != 0)
        status = wait_for(dir, path, seconds, fd);
    else if (why != 0)
        status = failed(dir, path, why);
    free(path);
    return status;
}

int dir_lock(const char *dir, int *fd) {
    return dir_lock_after(dir, 0, fd);
}

void dir_unlock(int fd) {
    if (fd >= 0)
        (void)close(fd);
}
