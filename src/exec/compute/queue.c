/* queue.c - a bounded queue under one mutex.
 *
 * Jobs last micro- to milliseconds, so a lock taken twice per job costs nothing that a lock-free
 * ring would win back. Invariant: the items are those at first, first + 1, ... (mod capacity),
 * `count` of them. */
#include "exec/compute/queue.h"

#include <assert.h>
#include <string.h>

int uvcci_queue_init(uvcci_queue *q, const uvcc_allocator *al, size_t item_bytes,
                     uint32_t capacity) {
    assert(item_bytes != 0 && capacity != 0);
    *q = (uvcci_queue){.alloc = *al, .item_bytes = item_bytes, .capacity = capacity};
    q->items = al->alloc(al->user, item_bytes * capacity, UVCC_MEM_STATE);
    if (q->items == NULL)
        return UVCC_ERR_NOMEM;
    if (pthread_mutex_init(&q->lock, NULL) == 0) {
        if (pthread_cond_init(&q->filled, NULL) == 0)
            return 0;
        pthread_mutex_destroy(&q->lock);
    }
    al->free(al->user, q->items, item_bytes * capacity, UVCC_MEM_STATE);
    return UVCC_ERR_NOMEM;
}

void uvcci_queue_free(uvcci_queue *q) {
    pthread_cond_destroy(&q->filled);
    pthread_mutex_destroy(&q->lock);
    q->alloc.free(q->alloc.user, q->items, q->item_bytes * q->capacity, UVCC_MEM_STATE);
}

static uint8_t *item_at(uvcci_queue *q, uint32_t i) {
    assert(i < q->capacity && q->count <= q->capacity);
    return q->items + ((size_t)q->first + i) % q->capacity * q->item_bytes;
}

static void take_first(uvcci_queue *q, void *item) {
    assert(q->count != 0 && q->first < q->capacity);
    memcpy(item, item_at(q, 0), q->item_bytes);
    q->first = (q->first + 1) % q->capacity;
    q->count--;
}

int uvcci_queue_push(uvcci_queue *q, const void *item) {
    int e = 0;
    pthread_mutex_lock(&q->lock);
    if (q->closed) {
        e = UVCC_ERR_CLOSED;
    } else if (q->count == q->capacity) {
        e = UVCC_ERR_AGAIN;
    } else {
        memcpy(item_at(q, q->count), item, q->item_bytes);
        q->count++;
        pthread_cond_signal(&q->filled);
    }
    pthread_mutex_unlock(&q->lock);
    return e;
}

int uvcci_queue_try_pop(uvcci_queue *q, void *item) {
    pthread_mutex_lock(&q->lock);
    const bool some = q->count != 0;
    if (some)
        take_first(q, item);
    pthread_mutex_unlock(&q->lock);
    return some;
}

/* With the lock held: returns with it held. */
static void wait_filled(uvcci_queue *q) {
    while (q->count == 0 && !q->closed)
        pthread_cond_wait(&q->filled, &q->lock);
}

int uvcci_queue_pop(uvcci_queue *q, void *item) {
    pthread_mutex_lock(&q->lock);
    wait_filled(q);
    const bool some = q->count != 0;
    if (some)
        take_first(q, item);
    pthread_mutex_unlock(&q->lock);
    return some;
}

void uvcci_queue_wait(uvcci_queue *q) {
    pthread_mutex_lock(&q->lock);
    wait_filled(q);
    pthread_mutex_unlock(&q->lock);
}

void uvcci_queue_close(uvcci_queue *q) {
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_broadcast(&q->filled);
    pthread_mutex_unlock(&q->lock);
}
