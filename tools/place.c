/* SPDX-License-Identifier: Apache-2.0 */
/* place.c - see place.h. Links are followed one by one, so that one that leads to nothing yet is
 * known too. Those of /proc/PID/fd are none to follow: they stand for descriptors. */
#define _XOPEN_SOURCE 700 /* realpath() */
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS_MAX = 40, TARGET_BYTES = 4096, NUMBER_DIGITS_MAX = 9 };

/* "dir/name", where name may be absolute and dir end with "/". */
static char *join(const char *dir, const char *name) {
    const size_t room = strlen(dir) + strlen(name) + 2;
    char *path = malloc(room);
    if (path == NULL)
        return NULL;
    const bool whole = *name == '/', slash = *dir == '\0' || dir[strlen(dir) - 1] == '/';
    (void)snprintf(path, room, "%s%s%s", whole ? "" : dir, whole || slash ? "" : "/", name);
    return path;
}

/* The path with its directory's links followed; NULL with errno set. */
static char *resolve_directory(const char *path) {
    const char *slash = strrchr(path, '/');
    char *dir = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    char *real = dir != NULL ? realpath(dir, NULL) : NULL;
    char *out = real != NULL ? join(real, slash == NULL ? path : slash + 1) : NULL;
    const int kept = errno;
    free(dir);
    free(real);
    errno = kept;
    return out;
}

/* Of "/proc/PID/fd/N" with this process's PID; -1 if it is none. */
static int number_in(const char *path) {
    char own[64];
    const int len = snprintf(own, sizeof own, "/proc/%ld/fd/", (long)getpid());
    if (strncmp(path, own, (size_t)len) != 0)
        return -1;
    const char *digits = path + len;
    const size_t n = strspn(digits, "0123456789");
    return n > 0 && n <= NUMBER_DIGITS_MAX && digits[n] == '\0' ? atoi(digits) : -1;
}

/* One link further: 1 followed, 0 it is none, -1 with errno set. */
static int follow(char **path) {
    char target[TARGET_BYTES];
    const ssize_t n = readlink(*path, target, sizeof target - 1);
    if (n < 0)
        return errno == EINVAL || errno == ENOENT ? 0 : -1;
    target[n] = '\0';
    char *end = strrchr(*path, '/');
    end[1] = '\0';
    char *next = join(*path, target);
    char *real = next != NULL ? resolve_directory(next) : NULL;
    free(next);
    if (real == NULL)
        return -1;
    free(*path);
    *path = real;
    return 1;
}

/* Up to what is no link, or stands for a descriptor. 0 or errno. */
static int follow_all(place *p) {
    for (int links = 0; links < LINKS_MAX; links++) {
        p->number = number_in(p->path);
        const int more = p->number >= 0 ? 0 : follow(&p->path);
        if (more <= 0)
            return more < 0 ? errno : 0;
    }
    return ELOOP;
}

/* 0 or errno. */
static int find(place *p, const char *path) {
    struct stat st;
    p->there = stat(path, &st) == 0;
    if (p->there && S_ISDIR(st.st_mode))
        return EISDIR;
    p->path = resolve_directory(path);
    const int why = p->path != NULL ? follow_all(p) : errno;
    const bool regular = !p->there || S_ISREG(st.st_mode);
    p->mode = p->there ? st.st_mode & 0777 : 0;
    p->as_it_is = p->number >= 0 || !regular;
    if (regular || p->number >= 0)
        return why;
    free(p->path); /* its links may lead to no name, as those of another process's pipes */
    p->path = strdup(path);
    return p->path != NULL ? 0 : ENOMEM;
}

int place_find(place *p, const char *path) {
    *p = (place){.number = -1};
    const int why = find(p, path);
    if (why != 0)
        place_forget(p);
    return why;
}

int place_open(const place *p) {
    if (p->number >= 0) /* its offset is shared, as one expects of /dev/stdout */
        return fcntl(p->number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return open(p->path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
}

void place_forget(place *p) {
    free(p->path);
    p->path = NULL;
}
