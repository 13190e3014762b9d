/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c - a bounded queue under one mutex.
 *
 * Jobs last micro- to milliseconds, so a lock taken twice per job costs nothing that a lock-free
 * ring would win back. The items are a binary heap by (rank, number), numbers in the order of
 * pushes: so equal ranks, and all items of a queue without ranks, come out as they went in.
 * Invariant: no item comes before its parent, that at (i - 1) / 2. */
#include "exec/compute/queue.h"

#include <assert.h>
#include <string.h>

/* Behind each item stands its number. */
static size_t stride(const uvcci_queue *q) {
    return q->item_bytes + sizeof(uint64_t);
}

int uvcci_queue_init(uvcci_queue *q, const uvcc_allocator *al, size_t item_bytes, size_t rank_at,
                     uint32_t capacity) {
    assert(item_bytes != 0 && capacity != 0);
    assert(rank_at == UVCCI_QUEUE_FIFO || rank_at + sizeof(uint64_t) <= item_bytes);
    *q = (uvcci_queue){
        .alloc = *al, .item_bytes = item_bytes, .rank_at = rank_at, .capacity = capacity};
    /* One place more: for the item that a push or a pop moves. */
    const size_t bytes = stride(q) * ((size_t)capacity + 1);
    q->items = al->alloc(al->user, bytes, UVCC_MEM_STATE);
    if (q->items == NULL)
        return UVCC_ERR_NOMEM;
    if (pthread_mutex_init(&q->lock, NULL) == 0) {
        if (pthread_cond_init(&q->filled, NULL) == 0)
            return 0;
        pthread_mutex_destroy(&q->lock);
    }
    al->free(al->user, q->items, bytes, UVCC_MEM_STATE);
    return UVCC_ERR_NOMEM;
}

void uvcci_queue_free(uvcci_queue *q) {
    pthread_cond_destroy(&q->filled);
    pthread_mutex_destroy(&q->lock);
    q->alloc.free(q->alloc.user, q->items, stride(q) * ((size_t)q->capacity + 1), UVCC_MEM_STATE);
}

static uint8_t *item_at(const uvcci_queue *q, uint32_t i) {
    assert(i <= q->capacity && q->count <= q->capacity);
    return q->items + i * stride(q);
}

static uint64_t word(const uint8_t *at) {
    uint64_t x;
    memcpy(&x, at, sizeof x);
    return x;
}

static bool before(const uvcci_queue *q, const uint8_t *a, const uint8_t *b) {
    if (q->rank_at != UVCCI_QUEUE_FIFO && word(a + q->rank_at) != word(b + q->rank_at))
        return word(a + q->rank_at) < word(b + q->rank_at);
    return word(a + q->item_bytes) < word(b + q->item_bytes);
}

static void set(uvcci_queue *q, uint32_t to, const uint8_t *item) {
    memcpy(item_at(q, to), item, stride(q));
}

static void put(uvcci_queue *q, const void *item) {
    uint8_t *moved = item_at(q, q->capacity);
    uint32_t i = q->count++;
    memcpy(moved, item, q->item_bytes);
    memcpy(moved + q->item_bytes, &q->pushed, sizeof q->pushed);
    q->pushed++;
    for (; i != 0 && before(q, moved, item_at(q, (i - 1) / 2)); i = (i - 1) / 2)
        set(q, i, item_at(q, (i - 1) / 2));
    set(q, i, moved);
}

static void take_first(uvcci_queue *q, void *item) {
    assert(q->count != 0);
    memcpy(item, item_at(q, 0), q->item_bytes);
    const uint8_t *moved = item_at(q, --q->count);
    uint32_t i = 0;
    for (uint32_t child = 1; child < q->count; child = 2 * i + 1) {
        if (child + 1 < q->count && before(q, item_at(q, child + 1), item_at(q, child)))
            child++;
        if (!before(q, item_at(q, child), moved))
            break;
        set(q, i, item_at(q, child));
        i = child;
    }
    if (q->count != 0)
        memmove(item_at(q, i), moved, stride(q)); /* the last may stand there already */
}

int uvcci_queue_push(uvcci_queue *q, const void *item) {
    int e = 0;
    pthread_mutex_lock(&q->lock);
    if (q->closed) {
        e = UVCC_ERR_CLOSED;
    } else if (q->count == q->capacity) {
        e = UVCC_ERR_AGAIN;
    } else {
        put(q, item);
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
