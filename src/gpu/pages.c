/* SPDX-License-Identifier: Apache-2.0 */
/* pages.c - see pages.h. */
#define _DEFAULT_SOURCE 1 /* madvise */

#include "gpu/pages.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LARGE_PAGE = 2 << 20 };

/* As it is where the system knows none of these. */
static void advise(void *at, size_t bytes) {
    (void)madvise(at, bytes, MADV_HUGEPAGE);
    (void)madvise(at, bytes, MADV_DONTDUMP);
    (void)madvise(at, bytes, MADV_DONTFORK);
#ifdef MADV_POPULATE_WRITE
    (void)madvise(at, bytes, MADV_POPULATE_WRITE);
#endif
}

void *uvcci_gpu_pages_take(size_t bytes) {
    if (bytes == 0 || bytes > SIZE_MAX - LARGE_PAGE)
        return NULL;
    uint8_t *all =
        mmap(NULL, bytes + LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    const size_t before = (LARGE_PAGE - (uintptr_t)all % LARGE_PAGE) % LARGE_PAGE;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t end = (before + bytes + page - 1) / page * page;
    if (before != 0)
        (void)munmap(all, before);
    if (end < bytes + LARGE_PAGE)
        (void)munmap(all + end, bytes + LARGE_PAGE - end);
    advise(all + before, bytes);
    return all + before;
}

void uvcci_gpu_pages_give(void *at, size_t bytes) {
    (void)munmap(at, bytes);
}
