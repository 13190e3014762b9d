/* SPDX-License-Identifier: Apache-2.0 */
/* map.c - see map.h. */
#define _DEFAULT_SOURCE /* madvise */

#include "map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* O_NONBLOCK, O_NOCTTY: a pipe or a terminal in the place of a file is refused, not waited for. */
int map_open(file_map *out, const char *path, const flag_message *m) {
    struct stat st;
    *out = (file_map){0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int why = fd < 0 || fstat(fd, &st) != 0 ? errno : 0;
    if (why == 0 && !S_ISREG(st.st_mode)) {
        (void)close(fd);
        return flag_fail(m, "%s: is no regular file; name a file", path);
    }
    if (why == 0 && st.st_size > 0) {
        void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        why = at == MAP_FAILED ? errno : 0;
        if (why == 0)
            *out = (file_map){at, (size_t)st.st_size};
    }
    if (fd >= 0)
        (void)close(fd);
    return why == 0 ? 0 : flag_fail(m, "%s: cannot be read: %s", path, strerror(why));
}

/* Advice that is not taken costs memory and nothing else. */
void map_forget(const file_map *f) {
    if (f->bytes != NULL)
        (void)madvise(f->bytes, f->len, MADV_DONTNEED);
}

void map_close(file_map *f) {
    if (f->bytes != NULL)
        (void)munmap(f->bytes, f->len);
    *f = (file_map){0};
}
