/* SPDX-License-Identifier: Apache-2.0 */
/* queue.h - a bounded queue of fixed-size items: the only thread-safe type of the library. Any
 * number of threads push and pop. */
#ifndef UVCCI_QUEUE_H
#define UVCCI_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <uvcc/types.h>

typedef struct uvcci_queue {
    uvcc_allocator alloc;
    pthread_mutex_t lock;
    pthread_cond_t filled; /* an item came, or the queue was closed */
    uint8_t *items;
    size_t item_bytes, rank_at;
    uint32_t capacity, count;
    uint64_t pushed;
    bool closed;
} uvcci_queue;

#define UVCCI_QUEUE_FIFO SIZE_MAX
/* rank_at: where an item has a uint64_t: items of lesser rank come out first, those of one rank in
 * the order they went in; UVCCI_QUEUE_FIFO: all do. UVCC_ERR_NOMEM: nothing to free. */
int uvcci_queue_init(uvcci_queue *q, const uvcc_allocator *al, size_t item_bytes, size_t rank_at,
                     uint32_t capacity);
/* No thread may be inside any other call. */
void uvcci_queue_free(uvcci_queue *q);
/* Copies an item in; UVCC_ERR_AGAIN when full, UVCC_ERR_CLOSED when closed. */
int uvcci_queue_push(uvcci_queue *q, const void *item);
/* 1 and an item, 0 if there is none now. */
int uvcci_queue_try_pop(uvcci_queue *q, void *item);
/* Blocks for an item: 1 and the item, 0 when the queue is closed and empty. */
int uvcci_queue_pop(uvcci_queue *q, void *item);
/* Blocks until an item is there or the queue is closed; takes nothing. */
void uvcci_queue_wait(uvcci_queue *q);
/* Nothing is pushed any more; what is in may still be popped. */
void uvcci_queue_close(uvcci_queue *q);

#endif
