/* SPDX-License-Identifier: Apache-2.0 */
/* disk.c - see disk.h. */
#define _DEFAULT_SOURCE
#include "disk.h"

#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

disk_state *disk;
static ino_t dirty[64]; /* of this process: written and not flushed */
static unsigned dirty_count;

ssize_t __real_write(int fd, const void *bytes, size_t len);
int __real_fsync(int fd);
int __real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __real_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags);
int __real_unlinkat(int dir, const char *name, int flags);
int __real_fchmod(int fd, mode_t mode);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
int __wrap_fsync(int fd);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags);
int __wrap_unlinkat(int dir, const char *name, int flags);
int __wrap_fchmod(int fd, mode_t mode);

void disk_begin(void) {
    disk = mmap(NULL, sizeof *disk, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(disk != MAP_FAILED);
}

/* True: the call fails. */
static bool fails(unsigned what) {
    if (disk == NULL)
        return false;
    if (++disk->calls == disk->kill_at)
        (void)raise(SIGKILL);
    if ((disk->fail & what) == 0)
        return false;
    if (disk->fail_after > 0) {
        disk->fail_after--;
        return false;
    }
    errno = disk->fail_errno;
    return true;
}

static ino_t inode_of(int fd, bool *is_dir) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return 0;
    *is_dir = S_ISDIR(st.st_mode);
    return st.st_ino;
}

static bool is_dirty(ino_t inode) {
    for (unsigned i = 0; i < dirty_count; i++)
        if (dirty[i] == inode)
            return true;
    return false;
}

static void clean(ino_t inode) {
    for (unsigned i = 0; i < dirty_count; i++)
        if (dirty[i] == inode)
            dirty[i--] = dirty[--dirty_count];
}

/* Directory and name as one path; the directory's alone with a NULL. */
static void path_of(int dir, const char *name, char out[DISK_PATH_BYTES]) {
    char link[64];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    const ssize_t n = readlink(link, out, DISK_PATH_BYTES - 1);
    out[n > 0 ? n : 0] = '\0';
    if (name != NULL)
        (void)snprintf(out + n, DISK_PATH_BYTES - (size_t)n, "/%s", name);
}

/* A name is about to be given: what has it is kept beside, in the directory "old" of the test. */
static void remember(int dir, const char *name) {
    if (disk == NULL || disk->pending_count == DISK_PENDING_MAX)
        return;
    disk_pending *p = &disk->pending[disk->pending_count];
    path_of(dir, name, p->path);
    (void)snprintf(p->old, sizeof p->old, "old-%u", disk->backups++);
    if (__real_linkat(dir, name, AT_FDCWD, p->old, 0) != 0)
        p->old[0] = '\0';
    disk->pending_count++;
}

static void given(int dir, const char *name) {
    struct stat st;
    if (disk != NULL && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_dirty(st.st_ino))
        disk->torn++;
}

/* Names in this directory are on the disk. */
static void flushed(int dir) {
    char path[DISK_PATH_BYTES];
    path_of(dir, NULL, path);
    const size_t len = strlen(path);
    for (unsigned i = 0; disk != NULL && i < disk->pending_count; i++)
        if (strncmp(disk->pending[i].path, path, len) == 0 &&
            strrchr(disk->pending[i].path, '/') == disk->pending[i].path + len) {
            if (disk->pending[i].old[0] != '\0')
                (void)__real_unlinkat(AT_FDCWD, disk->pending[i].old, 0);
            memmove(&disk->pending[i], &disk->pending[i + 1],
                    (--disk->pending_count - i) * sizeof disk->pending[0]);
            i--;
        }
}

void disk_lose(const char *const in[], unsigned count) {
    while (disk->pending_count > 0) {
        const disk_pending *p = &disk->pending[--disk->pending_count];
        bool lost = false;
        for (unsigned i = 0; i < count; i++)
            lost |= strstr(p->path, in[i]) != NULL;
        if (lost && p->old[0] != '\0')
            (void)__real_renameat(AT_FDCWD, p->old, AT_FDCWD, p->path);
        else if (lost)
            (void)__real_unlinkat(AT_FDCWD, p->path, 0);
        else if (p->old[0] != '\0')
            (void)__real_unlinkat(AT_FDCWD, p->old, 0);
    }
}

/* ---- the calls ---- */

/* One that fails writes a part first, as a disk does that becomes full. */
ssize_t __wrap_write(int fd, const void *bytes, size_t len) {
    bool is_dir;
    const ino_t inode = inode_of(fd, &is_dir);
    if (fd <= STDERR_FILENO || disk == NULL)
        return __real_write(fd, bytes, len);
    if (!is_dirty(inode) && dirty_count < sizeof dirty / sizeof dirty[0])
        dirty[dirty_count++] = inode;
    if (fails(DISK_WRITE)) {
        const int why = errno;
        (void)!__real_write(fd, bytes, len / 2);
        errno = why;
        return -1;
    }
    return __real_write(fd, bytes, len);
}

int __wrap_fsync(int fd) {
    bool is_dir = false;
    const ino_t inode = inode_of(fd, &is_dir);
    if (fails(DISK_FSYNC))
        return -1;
    if (is_dir)
        flushed(fd);
    else
        clean(inode);
    return 0; /* no test loses power */
}

int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to) {
    if (fails(DISK_RENAME))
        return -1;
    remember(to_dir, to);
    const int rc = __real_renameat(from_dir, from, to_dir, to);
    given(to_dir, to);
    return rc;
}

int __wrap_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
    if (fails(DISK_LINK))
        return -1;
    remember(to_dir, to);
    const int rc = __real_linkat(from_dir, from, to_dir, to, flags);
    given(to_dir, to);
    return rc;
}

int __wrap_unlinkat(int dir, const char *name, int flags) {
    return fails(DISK_UNLINK) ? -1 : __real_unlinkat(dir, name, flags);
}

int __wrap_fchmod(int fd, mode_t mode) {
    return fails(DISK_FCHMOD) ? -1 : __real_fchmod(fd, mode);
}
