/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - see memory.h. Sizes are those that were asked for; what the allocator adds to them and
 * what else the process has is not in them. */
#include "memory.h"

#include <stdio.h>
#include <sys/resource.h>

static void *take(void *user, size_t bytes, uvcc_mem_class cls) {
    memory *m = user;
    void *p = m->under.alloc(m->under.user, bytes, cls);
    if (p != NULL) {
        atomic_fetch_add(&m->used, bytes);
    } else {
        atomic_store(&m->wanted, bytes);
        atomic_fetch_add(&m->failed, 1);
    }
    return p;
}

static void give(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    memory *m = user;
    if (p != NULL)
        atomic_fetch_sub(&m->used, bytes);
    m->under.free(m->under.user, p, bytes, cls);
}

uvcc_allocator memory_counted(memory *m, const uvcc_allocator *under) {
    m->under = *under;
    atomic_init(&m->used, 0);
    atomic_init(&m->failed, 0);
    atomic_init(&m->wanted, 0);
    return (uvcc_allocator){.alloc = take, .free = give, .user = m};
}

uint64_t memory_failed(const memory *m) {
    return atomic_load(&m->failed);
}

/* The least of the process's limits that malloc meets. */
static const char *limit(double *mb) {
    static const struct {
        int resource;
        const char *name;
    } kinds[] = {{RLIMIT_AS, "of address space (ulimit -v)"}, {RLIMIT_DATA, "of data (ulimit -d)"}};
    const char *name = NULL;
    rlim_t least = RLIM_INFINITY;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct rlimit r;
        if (getrlimit(kinds[i].resource, &r) == 0 && r.rlim_cur < least) {
            least = r.rlim_cur;
            name = kinds[i].name;
        }
    }
    *mb = (double)least * 1e-6;
    return name;
}

void memory_line(const memory *m, const char *advice, char out[MEMORY_LINE_BYTES]) {
    double mb;
    char wanted[64] = "";
    const char *name = limit(&mb);
    if (memory_failed(m) != 0)
        (void)snprintf(wanted, sizeof wanted, "no memory for %llu bytes more, ",
                       (unsigned long long)atomic_load(&m->wanted));
    const int n = snprintf(out, MEMORY_LINE_BYTES, "%s%.1f MB are in use", wanted,
                           (double)atomic_load(&m->used) * 1e-6);
    if (name != NULL)
        (void)snprintf(out + n, MEMORY_LINE_BYTES - (size_t)n, "; the limit is %.1f MB %s: %s", mb,
                       name, advice);
}
