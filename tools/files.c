/* files.c - see files.h. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"

/* O_NONBLOCK, O_NOCTTY: a pipe or a terminal in the place of a file is refused, not waited for. */
int file_read(const char *path, int status, uint8_t **bytes, size_t *len) {
    struct stat st;
    *bytes = NULL;
    *len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) != 0) {
        int why = errno;
        if (fd >= 0)
            (void)close(fd);
        return report_error(status, "%s: cannot be opened: %s; check the path", path,
                            strerror(why));
    }
    if (!S_ISREG(st.st_mode)) {
        (void)close(fd);
        return report_error(status, "%s: is no regular file; name a file", path);
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
    int why = *bytes == NULL ? ENOMEM : errno;
    (void)close(fd);
    if (n < 0) {
        free(*bytes);
        *bytes = NULL;
        return report_error(status, "%s: cannot be read: %s", path, strerror(why));
    }
    return 0;
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
    return fsync(fd) == 0 ? 0 : errno;
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

int file_write(const char *path, const void *bytes, size_t len) {
    size_t room = strlen(path) + 32;
    char *part = malloc(room);
    if (part == NULL)
        return ENOMEM;
    (void)snprintf(part, room, "%s.%ld.part", path, (long)getpid());
    int why = 0, fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        why = errno;
    } else {
        why = write_all(fd, bytes, len);
        if (close(fd) != 0 && why == 0)
            why = errno;
        if (why == 0 && rename(part, path) != 0)
            why = errno;
        if (why != 0)
            (void)unlink(part);
        else
            why = flush_directory(path);
    }
    free(part);
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
