/* SPDX-License-Identifier: Apache-2.0 */
/* stays.h - whether sessions keep what they say of messages that are hashed (uvcc_hash_item,
 * `stays`): a task that reads some of one finds it as it was hashed, unless it was hashed anew or
 * freed meanwhile. An executor on a device may have kept a copy. */
#ifndef UVCC_TEST_STAYS_H
#define UVCC_TEST_STAYS_H

#include <pthread.h>
#include <uvcc/compute.h>

typedef struct stays_watch {
    pthread_mutex_t lock;
    struct stays_message *first; /* the latest */
    unsigned count;
    uint64_t hashed, read; /* messages; operands of tasks that lay in one */
} stays_watch;

void stays_begin(stays_watch *w);
void stays_end(stays_watch *w);
/* The executors' hook: `job` of uvcc_cpu_config, with the watch as job_user. */
void stays_job(void *watch, const uvcc_job *job, bool done);
/* Memory goes. */
void stays_freed(void *watch, const void *p, size_t bytes);

#endif
