/* SPDX-License-Identifier: Apache-2.0 */
/* fs.c - see fs.h. What was opened is what is looked at, so that it cannot be exchanged in between;
 * everything goes by the directory's descriptor, so that the directory cannot either. */
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = 256, OWN_MODE = 0600, DIR_MODE = 0700, OTHERS_WRITE = 022, MODE_BITS = 07777 };

int uvcci_say(const uvcci_says *to, int rc, const char *format, ...) {
    va_list args;
    if (to->text == NULL || to->cap == 0)
        return rc;
    va_start(args, format);
    (void)vsnprintf(to->text, to->cap, format, args);
    va_end(args);
    return rc;
}

/* Of a file in d. */
static int cannot(const uvcci_dir *d, const char *name, const char *what, int why,
                  const uvcci_says *to) {
    const char *advice = why == ENOSPC || why == EDQUOT ? "; make room"
                         : why == EROFS || why == EACCES || why == EPERM
                             ? "; give a place that may be written"
                             : "";
    return uvcci_say(to, UVCC_ERR_IO, "%s%s%s: cannot be %s: %s%s", UVCCI_PATH(d, name), what,
                     strerror(why), advice);
}

/* ---- directories ---- */

static int flush_fd(int fd) {
    return fsync(fd) == 0 ? 0 : errno;
}

int uvcci_dir_flush(const uvcci_dir *d, const uvcci_says *to) {
    const int why = flush_fd(d->fd);
    if (why == 0)
        return 0;
    return uvcci_say(to, UVCC_ERR_IO, "%s: cannot be flushed to the disk: %s", d->path,
                     strerror(why));
}

void uvcci_dir_close(uvcci_dir *d) {
    if (d->fd >= 0)
        (void)close(d->fd);
    d->fd = -1;
}

/* A new directory is there for good once its parent is on the disk. */
static int make_directory(const char *path, const uvcci_says *to) {
    char at[UVCCI_PATH_BYTES];
    const char *name;
    uvcci_dir parent;
    if (mkdir(path, DIR_MODE) != 0) {
        if (errno == EEXIST)
            return 0;
        return uvcci_say(to, UVCC_ERR_IO, "%s: cannot be made: %s; give another directory", path,
                         strerror(errno));
    }
    int rc = uvcci_dir_of(&parent, path, at, sizeof at, &name, to);
    if (rc != 0)
        return rc;
    rc = uvcci_dir_flush(&parent, to);
    uvcci_dir_close(&parent);
    return rc;
}

static int check_directory(const uvcci_dir *d, const uvcci_says *to) {
    struct stat st;
    if (fstat(d->fd, &st) != 0)
        return uvcci_say(to, UVCC_ERR_IO, "%s: cannot be read: %s", d->path, strerror(errno));
    if (st.st_uid != geteuid())
        return uvcci_say(to, UVCC_ERR_CONFIG,
                         "%s: belongs to another user (%lu); give a directory of your own", d->path,
                         (unsigned long)st.st_uid);
    if ((st.st_mode & OTHERS_WRITE) != 0)
        return uvcci_say(to, UVCC_ERR_CONFIG,
                         "%s: has mode %04o, so others may write to it; chmod 700, if nobody did",
                         d->path, (unsigned)(st.st_mode & MODE_BITS));
    return 0;
}

int uvcci_dir_open(uvcci_dir *out, const char *path, bool make, const uvcci_says *to) {
    *out = (uvcci_dir){.fd = -1, .path = path, .slash = "/"};
    int rc = make ? make_directory(path, to) : 0;
    if (rc != 0)
        return rc;
    out->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
    if (out->fd < 0) {
        const int why = errno;
        return uvcci_say(to,
                         why == ENOTDIR  ? UVCC_ERR_CONFIG
                         : why == ENOENT ? UVCC_ERR_NOT_FOUND
                                         : UVCC_ERR_IO,
                         "%s: cannot be opened: %s; give a directory", path, strerror(why));
    }
    rc = check_directory(out, to);
    if (rc != 0)
        uvcci_dir_close(out);
    return rc;
}

int uvcci_dir_of(uvcci_dir *out, const char *path, char *at, size_t at_cap, const char **name,
                 const uvcci_says *to) {
    size_t len = strlen(path);
    *out = (uvcci_dir){.fd = -1, .path = at, .slash = "/"};
    if (len + 1 > at_cap || len == 0)
        return uvcci_say(to, UVCC_ERR_CONFIG, "'%.64s...': is no path; name a file", path);
    memcpy(at, path, len + 1);
    char *slash = strrchr(at, '/');
    while (slash != NULL && slash[1] == '\0' && slash != at) { /* made with a slash at its end */
        *slash = '\0';
        slash = strrchr(at, '/');
    }
    *name = slash == NULL ? path : path + (slash - at) + 1;
    if (slash == NULL) {
        memcpy(at, ".", 2);
        out->path = out->slash = "";
    } else {
        out->slash += slash == at; /* the root stays "/" */
        slash[slash == at] = '\0';
    }
    if (**name == '\0')
        return uvcci_say(to, UVCC_ERR_CONFIG, "%s: is no name of a file", path);
    out->fd = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
    if (out->fd >= 0)
        return 0;
    const int why = errno;
    return uvcci_say(to, why == ENOENT || why == ENOTDIR ? UVCC_ERR_NOT_FOUND : UVCC_ERR_IO,
                     "%s: its directory cannot be opened: %s; check the path", path, strerror(why));
}

/* ---- reading ---- */

static int check_file(const uvcci_dir *d, const char *name, int fd, bool own, struct stat *st,
                      const uvcci_says *to) {
    if (fstat(fd, st) != 0)
        return cannot(d, name, "read", errno, to);
    if (!S_ISREG(st->st_mode))
        return uvcci_say(to, UVCC_ERR_CONFIG, "%s%s%s: is no regular file; a file is needed there",
                         UVCCI_PATH(d, name));
    if (st->st_uid != geteuid())
        return uvcci_say(to, UVCC_ERR_CONFIG,
                         "%s%s%s: belongs to another user (%lu); it must be your own",
                         UVCCI_PATH(d, name), (unsigned long)st->st_uid);
    if (own && (st->st_mode & MODE_BITS) != OWN_MODE)
        return uvcci_say(to, UVCC_ERR_CONFIG,
                         "%s%s%s: has mode %04o; it must have 0600: chmod 600, if nobody else read "
                         "it",
                         UVCCI_PATH(d, name), (unsigned)(st->st_mode & MODE_BITS));
    return 0;
}

/* Without O_NONBLOCK a pipe would keep us waiting before it is refused. */
static int open_file(const uvcci_dir *d, const char *name, bool own, int *fd, struct stat *st,
                     const uvcci_says *to) {
    *fd = openat(d->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0 && errno == ELOOP)
        return uvcci_say(to, UVCC_ERR_CONFIG,
                         "%s%s%s: is a symbolic link; put the file itself there",
                         UVCCI_PATH(d, name));
    if (*fd < 0 && errno == ENOENT)
        return uvcci_say(to, UVCC_ERR_NOT_FOUND, "%s%s%s: is not there", UVCCI_PATH(d, name));
    if (*fd < 0)
        return cannot(d, name, "opened", errno, to);
    const int rc = check_file(d, name, *fd, own, st, to);
    if (rc != 0)
        (void)close(*fd);
    return rc;
}

/* 0 or errno. */
static int read_up_to(int fd, uint8_t *bytes, size_t cap, size_t *len) {
    *len = 0;
    while (*len < cap) {
        const ssize_t n = read(fd, bytes + *len, cap - *len);
        if (n == 0)
            break;
        if (n > 0)
            *len += (size_t)n;
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}

int uvcci_file_read_some(const uvcci_dir *d, const char *name, bool own, uint8_t *bytes, size_t cap,
                         size_t *len, const uvcci_says *to) {
    struct stat st;
    int fd, rc = open_file(d, name, own, &fd, &st, to);
    if (rc != 0)
        return rc;
    const int why = read_up_to(fd, bytes, cap, len);
    (void)close(fd);
    return why == 0 ? 0 : cannot(d, name, "read", why, to);
}

int uvcci_file_read(const uvcci_dir *d, const char *name, bool own, const uvcc_allocator *alloc,
                    uint8_t **bytes, size_t *len, const uvcci_says *to) {
    struct stat st;
    int fd, rc = open_file(d, name, own, &fd, &st, to);
    *bytes = NULL;
    *len = 0;
    if (rc != 0)
        return rc;
    const size_t size = (size_t)st.st_size;
    size_t got = 0;
    int why = 0;
    if (size != 0) {
        *bytes = alloc->alloc(alloc->user, size, UVCC_MEM_WIRE);
        if (*bytes == NULL)
            rc = uvcci_say(to, UVCC_ERR_NOMEM, "%s%s%s: no memory for its %zu bytes",
                           UVCCI_PATH(d, name), size);
        else
            why = read_up_to(fd, *bytes, size, &got);
    }
    (void)close(fd);
    if (rc == 0 && why != 0)
        rc = cannot(d, name, "read", why, to);
    if (rc == 0 && got != size)
        rc = uvcci_say(to, UVCC_ERR_IO, "%s%s%s: shrank while it was read", UVCCI_PATH(d, name));
    if (rc != 0) {
        uvcci_file_free(alloc, *bytes, size);
        *bytes = NULL;
        return rc;
    }
    *len = size;
    return 0;
}

void uvcci_file_free(const uvcc_allocator *alloc, uint8_t *bytes, size_t len) {
    if (bytes != NULL)
        alloc->free(alloc->user, bytes, len, UVCC_MEM_WIRE);
}

int uvcci_file_there(const uvcci_dir *d, const char *name) {
    struct stat st;
    return fstatat(d->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---- writing ---- */

/* 0 or errno. The mode once more: a umask may have taken from it. */
static int write_flushed(int fd, const uint8_t *bytes, size_t len) {
    if (fchmod(fd, OWN_MODE) != 0)
        return errno;
    while (len > 0) {
        const ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno != EINTR)
            return errno;
        if (n == 0)
            return ENOSPC; /* which no system does for a file, and which would have no end */
        if (n > 0) {
            bytes += n;
            len -= (size_t)n;
        }
    }
    return flush_fd(fd);
}

/* A file of its own under `part`. What a killed process left there goes. */
static int write_part(const uvcci_dir *d, const char *part, const void *bytes, size_t len) {
    const int how = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(d->fd, part, how, OWN_MODE);
    if (fd < 0 && errno == EEXIST && unlinkat(d->fd, part, 0) == 0)
        fd = openat(d->fd, part, how, OWN_MODE);
    if (fd < 0)
        return errno;
    int why = write_flushed(fd, bytes, len);
    if (close(fd) != 0 && why == 0)
        why = errno;
    if (why != 0)
        (void)unlinkat(d->fd, part, 0);
    return why;
}

int uvcci_file_write(const uvcci_dir *d, const char *name, const void *bytes, size_t len,
                     const uvcci_says *to) {
    char part[NAME_BYTES];
    if ((size_t)snprintf(part, sizeof part, "%s" UVCCI_PART, name) >= sizeof part)
        return cannot(d, name, "written", ENAMETOOLONG, to);
    int why = write_part(d, part, bytes, len);
    if (why == 0 && renameat(d->fd, part, d->fd, name) != 0) {
        why = errno;
        (void)unlinkat(d->fd, part, 0);
    }
    return why == 0 ? uvcci_dir_flush(d, to) : cannot(d, name, "written", why, to);
}

/* By link(), which never takes a name that somebody has; the process's id keeps two apart. */
int uvcci_file_write_new(const uvcci_dir *d, const char *name, const void *bytes, size_t len,
                         const uvcci_says *to) {
    char part[NAME_BYTES];
    if ((size_t)snprintf(part, sizeof part, "%s.%ld" UVCCI_PART, name, (long)getpid()) >=
        sizeof part)
        return cannot(d, name, "written", ENAMETOOLONG, to);
    if (uvcci_file_there(d, name))
        return uvcci_say(to, UVCC_ERR_STATE,
                         "%s%s%s: exists; a key is never overwritten, choose another name",
                         UVCCI_PATH(d, name));
    int why = write_part(d, part, bytes, len);
    if (why == 0) {
        why = linkat(d->fd, part, d->fd, name, 0) == 0 ? 0 : errno;
        (void)unlinkat(d->fd, part, 0);
    }
    if (why == EEXIST)
        return uvcci_say(to, UVCC_ERR_STATE,
                         "%s%s%s: exists; a key is never overwritten, choose another name",
                         UVCCI_PATH(d, name));
    return why == 0 ? uvcci_dir_flush(d, to) : cannot(d, name, "written", why, to);
}
