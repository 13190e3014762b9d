/* SPDX-License-Identifier: Apache-2.0 */
/* fake_clock.h - the executor's clock, of which a test's device says that an hour passed
 * (fake_cuda.c). Included before every source of the test. */
#ifndef UVCC_TESTS_GPU_FAKE_CLOCK_H
#define UVCC_TESTS_GPU_FAKE_CLOCK_H

#include <pthread.h>
#include <time.h>

int fake_clock_gettime(clockid_t id, struct timespec *t);
int fake_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *at);

#define clock_gettime          fake_clock_gettime
#define pthread_cond_timedwait fake_cond_timedwait

#endif
