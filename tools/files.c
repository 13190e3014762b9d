/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - see files.h. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interrupt.h"
#include "place.h"
#include "report.h"

/* O_NONBLOCK, O_NOCTTY: a pipe or a terminal in the place of a file is refused, not waited for. */
int file_read_why(const char *path, uint8_t **bytes, size_t *len, char *why, size_t why_cap) {
    struct stat st;
    *bytes = NULL;
    *len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) != 0) {
        (void)snprintf(why, why_cap, "%s: cannot be opened: %s; check the path", path,
                       strerror(errno));
        if (fd >= 0)
            (void)close(fd);
        return -1;
    }
    if (!S_ISREG(st.st_mode)) {
        (void)close(fd);
        (void)snprintf(why, why_cap, "%s: is no regular file; name a file", path);
        return -1;
    }
    size_t room = (size_t)st.st_size + 1; /* one more, to see a file that grows */
    *bytes = malloc(room);
    ssize_t n = *bytes == NULL ? -1 : 1;
    while (n > 0 && *len < room) {
        n = read(fd, *bytes + *len, room - *len);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n > 0)
            *len += (size_t)n;
    }
    const int error = *bytes == NULL ? ENOMEM : errno;
    (void)close(fd);
    if (n < 0) {
        free(*bytes);
        *bytes = NULL;
        (void)snprintf(why, why_cap, "%s: cannot be read: %s", path, strerror(error));
        return -1;
    }
    return 0;
}

int file_read(const char *path, int status, uint8_t **bytes, size_t *len) {
    char why[PATH_MAX + 128];
    return file_read_why(path, bytes, len, why, sizeof why) == 0 ? 0
                                                                 : report_error(status, "%s", why);
}

static int write_all(int fd, const uint8_t *bytes, size_t len) {
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno != EINTR)
            return errno;
        if (n > 0) {
            bytes += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

/* A new name is on the disk once its directory is. */
static int flush_directory(const char *path) {
    char *dir = strdup(path);
    if (dir == NULL)
        return ENOMEM;
    char *slash = strrchr(dir, '/');
    if (slash != NULL)
        slash[slash == dir] = '\0'; /* the root stays "/" */
    int why = 0, fd = open(slash != NULL ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        why = errno;
    if (fd >= 0)
        (void)close(fd);
    free(dir);
    return why;
}

/* errno of the first failure. */
static int write_and_close(int fd, const void *bytes, size_t len, bool sync) {
    int why = write_all(fd, bytes, len);
    if (why == 0 && sync && fsync(fd) != 0)
        why = errno;
    if (close(fd) != 0 && why == 0)
        why = errno;
    return why;
}

static int replace(const char *path, const void *bytes, size_t len) {
    size_t room = strlen(path) + 32;
    char *part = malloc(room);
    if (part == NULL)
        return ENOMEM;
    (void)snprintf(part, room, "%s.%ld.part", path, (long)getpid());
    const int fd = temporary_make(part, 0600);
    int why = fd < 0 ? errno : write_and_close(fd, bytes, len, true);
    if (why == 0 && temporary_name(part, path, true) != 0)
        why = errno;
    if (why != 0 && fd >= 0)
        temporary_remove(part);
    free(part);
    return why != 0 ? why : flush_directory(path);
}

int file_write(const char *path, const void *bytes, size_t len) {
    place p;
    int why = place_find(&p, path);
    if (why == 0 && p.as_it_is) {
        const int fd = place_open(&p);
        why = fd < 0 ? errno : write_and_close(fd, bytes, len, false);
    } else if (why == 0) {
        why = replace(p.path, bytes, len);
    }
    place_forget(&p);
    return why;
}

int dir_make(const char *path) {
    struct stat st;
    if (mkdir(path, 0700) == 0)
        return 0;
    if (errno != EEXIST || stat(path, &st) != 0)
        return errno;
    return S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
}
