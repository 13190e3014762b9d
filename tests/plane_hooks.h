/* SPDX-License-Identifier: Apache-2.0 */
/* plane_hooks.h - hooks of the tests of local planes across workers (uvcc_mpi, uvcc_nccl): an
 * allocator that counts, a log's last line, a wake that the test waits for, numbers from a seed.
 * CHECK is the test's own. */
#ifndef UVCC_TESTS_PLANE_HOOKS_H
#define UVCC_TESTS_PLANE_HOOKS_H

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <uvcc/host.h>

enum { WORKERS_MAX = 8, PATIENCE_S = 120 };

static _Atomic long live;

static inline void *count_alloc(void *user, size_t bytes, uvcc_mem_class cls) {
    (void)user;
    live++;
    const uvcc_allocator al = uvcc_host_allocator();
    return al.alloc(al.user, bytes, cls);
}

static inline void count_free(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    (void)user;
    live--;
    const uvcc_allocator al = uvcc_host_allocator();
    al.free(al.user, p, bytes, cls);
}

static sem_t woken;

static inline void wake(void *user) {
    (void)sem_post(user);
}

static char logged[256];

static inline void write_log(void *user, uvcc_log_level level, const char *line) {
    (void)user;
    (void)level;
    (void)snprintf(logged, sizeof logged, "%s", line);
}

static inline uint64_t draw(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Until a thread has something; not for ever. */
static inline void wait_for_wake(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += PATIENCE_S;
    int rc;
    do
        rc = sem_timedwait(&woken, &t);
    while (rc != 0 && errno == EINTR);
    CHECK(rc == 0);
}

#endif
