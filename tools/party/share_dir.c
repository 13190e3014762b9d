/* SPDX-License-Identifier: Apache-2.0 */
/* share_dir.c - see share_dir.h. */
#include "share_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uvcc/types.h>

#include "../dir_lock.h"
#include "../files.h"
#include "../report.h"
#include "shares.h"

static const char unfinished[] = "unfinished";

static int too_long(const char *dir) {
    return report_error(EXIT_BAD_INPUT, "--share %s: the path is too long", dir);
}

static int path_of(const char *dir, const char *name, char path[SHARE_PATH_BYTES]) {
    const int n = snprintf(path, SHARE_PATH_BYTES, "%s/%s", dir, name);
    return n < SHARE_PATH_BYTES ? EXIT_DONE : too_long(dir);
}

int share_dir_path(const char *dir, unsigned party, char path[SHARE_PATH_BYTES]) {
    char name[32];
    (void)snprintf(name, sizeof name, "party-%u.shares", party);
    return path_of(dir, name, path);
}

/* party-N.shares.PID.tmp: a file of shares that did not get its name (atomic_file.c). */
static bool is_left_over(const char *name) {
    unsigned party = 0;
    int end = 0;
    return sscanf(name, "party-%1u.shares.%*[0-9].tmp%n", &party, &end) == 1 && end > 0 &&
           name[end] == '\0' && party < UVCC_PARTIES;
}

/* The lock is held, so nobody writes them any more. One that stays is in nobody's way. */
static void sweep(const char *dir) {
    DIR *d = opendir(dir);
    if (d == NULL)
        return;
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        if (is_left_over(e->d_name))
            (void)unlinkat(dirfd(d), e->d_name, 0);
    (void)closedir(d);
}

static bool is_there(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

/* A process died after it had said so, and before it gave any file its name, or after the last. */
static bool of_one_sharing(const char *dir) {
    char path[SHARE_PATH_BYTES];
    uint8_t id[UVCC_PARTIES][32];
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        if (share_dir_path(dir, p, path) != EXIT_DONE || !shares_name(path, id[p]))
            return false;
    return memcmp(id[0], id[1], 32) == 0 && memcmp(id[0], id[2], 32) == 0;
}

/* The names are on the disk before the mark goes, and then it is gone for good. */
static int take_mark(const char *dir) {
    char path[SHARE_PATH_BYTES];
    const int status = path_of(dir, unfinished, path);
    if (status != EXIT_DONE)
        return status;
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool done =
        fd >= 0 && fsync(fd) == 0 && unlinkat(fd, unfinished, 0) == 0 && fsync(fd) == 0;
    const int why = errno;
    if (fd >= 0)
        (void)close(fd);
    return done ? EXIT_DONE
                : report_error(EXIT_FAILED, "%s: cannot be taken away: %s", path, strerror(why));
}

static int look(const char *dir, bool force) {
    char path[SHARE_PATH_BYTES];
    int status = path_of(dir, unfinished, path);
    if (status != EXIT_DONE || force)
        return status;
    if (is_there(path)) {
        if (!of_one_sharing(dir))
            return EXIT_DONE;
        status = take_mark(dir);
    }
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
        status = share_dir_path(dir, p, path);
        if (status == EXIT_DONE && is_there(path))
            status = report_error(
                EXIT_BAD_INPUT,
                "--share %s: party-%u.shares is there already, and files of two sharings do not "
                "fit each other: give another directory, or take what is there away, or replace it "
                "by --force and bring all three parties their new files",
                dir, p);
    }
    return status;
}

int share_dir_open(const char *dir, bool force, int *lock) {
    const int why = dir_make(dir);
    *lock = -1;
    if (why != 0)
        return report_error(EXIT_BAD_INPUT, "--share %s: cannot be made: %s", dir, strerror(why));
    const int status = dir_lock(dir, lock);
    if (status != EXIT_DONE)
        return status;
    sweep(dir); /* also where the directory is refused: what is left over may be as large as all */
    return look(dir, force);
}

/* On the disk before any name is given. What a link leads to, or a pipe, is no mark. */
int share_dir_begin(const char *dir) {
    char path[SHARE_PATH_BYTES];
    const int status = path_of(dir, unfinished, path);
    if (status != EXIT_DONE)
        return status;
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int mark = openat(
        fd, unfinished, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
    const bool done = mark >= 0 && fsync(mark) == 0 && fsync(fd) == 0;
    const int why = errno;
    if (mark >= 0)
        (void)close(mark);
    if (fd >= 0)
        (void)close(fd);
    return done ? EXIT_DONE
                : report_error(EXIT_FAILED, "%s: cannot be written: %s", path, strerror(why));
}

int share_dir_end(const char *dir, int status) {
    if (status != EXIT_DONE) { /* of which something was said already */
        if (of_one_sharing(dir))
            (void)take_mark(dir);
        return status;
    }
    return take_mark(dir);
}
