/* SPDX-License-Identifier: Apache-2.0 */
/* fake_clock.c - see fake_clock.h and fake_cuda.h. Conditions wait by the host's clock. */
#include "fake_clock.h"

#include <stdatomic.h>

#include "fake_cuda.h"

#undef clock_gettime
#undef pthread_cond_timedwait

enum { HOUR = 3600 };
static atomic_long passed; /* seconds */

void fake_hour_passes(void) {
    atomic_fetch_add(&passed, HOUR);
}

int fake_clock_gettime(clockid_t id, struct timespec *t) {
    fake_looks_at_clock();
    const int e = clock_gettime(id, t);
    t->tv_sec += atomic_load(&passed);
    return e;
}

/* An hour that passed since the caller looked at the clock ends the wait. */
int fake_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *at) {
    struct timespec t = *at;
    t.tv_sec -= atomic_load(&passed);
    return pthread_cond_timedwait(c, m, &t);
}
