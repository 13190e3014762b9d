/* SPDX-License-Identifier: Apache-2.0 */
/* kept.c - see kept.h. */
#include "gpu/kept.h"

#include <assert.h>
#include <string.h>

enum { APART = 256 };

void uvcci_kept_init(uvcci_kept *k, uint64_t most) {
    k->most = most;
    (void)pthread_mutex_init(&k->lock, NULL);
}

void uvcci_kept_close(uvcci_kept *k) {
    (void)pthread_mutex_destroy(&k->lock);
}

size_t uvcci_kept_room(size_t bytes) {
    return bytes + APART;
}

uint8_t *uvcci_kept_place(const uvcci_kept_copy *c) {
    return c->block + (uintptr_t)c->at % APART;
}

/* The lock is held. The first copy that begins behind a byte. */
static uint32_t behind(const uvcci_kept *k, const uint8_t *at) {
    uint32_t lo = 0, hi = atomic_load(&k->count);
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (k->copy[mid].at <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The lock is held. */
static void remove_at(uvcci_kept *k, uint32_t i) {
    const uint32_t count = atomic_load(&k->count) - 1;
    memmove(&k->copy[i], &k->copy[i + 1], (count - i) * sizeof k->copy[0]);
    atomic_store(&k->count, count);
}

/* Its room stays counted while it goes from one message to another. */
static bool take_stale(uvcci_kept *k, uvcci_kept_copy *c) {
    for (uint32_t i = 0; i < atomic_load(&k->count); i++)
        if (k->copy[i].stale && k->copy[i].readers == 0 && k->copy[i].room == c->room) {
            c->block = k->copy[i].block;
            remove_at(k, i);
            return true;
        }
    return false;
}

bool uvcci_kept_reserve(uvcci_kept *k, uvcci_kept_copy *c) {
    c->room = uvcci_kept_room(c->bytes);
    c->block = NULL;
    c->readers = 0;
    c->stale = false;
    (void)pthread_mutex_lock(&k->lock);
    bool may = take_stale(k, c);
    if (!may && c->room <= k->most - k->room &&
        atomic_load(&k->count) + k->reserved < UVCCI_KEPT_MOST) {
        k->room += c->room;
        may = true;
    }
    k->reserved += may;
    (void)pthread_mutex_unlock(&k->lock);
    return may;
}

void uvcci_kept_drop(uvcci_kept *k, const uvcci_kept_copy *c) {
    (void)pthread_mutex_lock(&k->lock);
    k->reserved--;
    k->room -= c->room;
    (void)pthread_mutex_unlock(&k->lock);
}

void uvcci_kept_add(uvcci_kept *k, const uvcci_kept_copy *c) {
    (void)pthread_mutex_lock(&k->lock);
    const uint32_t count = atomic_load(&k->count), i = behind(k, c->at);
    assert(k->reserved != 0 && count < UVCCI_KEPT_MOST && c->block != NULL);
    k->reserved--;
    memmove(&k->copy[i + 1], &k->copy[i], (count - i) * sizeof k->copy[0]);
    k->copy[i] = *c;
    atomic_store(&k->count, count + 1);
    (void)pthread_mutex_unlock(&k->lock);
}

static bool overlap(const uvcci_kept_copy *c, const uint8_t *at, size_t bytes) {
    return c->at < at + bytes && at < c->at + c->bytes;
}

void uvcci_kept_forget(uvcci_kept *k, const void *p, size_t bytes) {
    if (atomic_load(&k->count) == 0)
        return;
    (void)pthread_mutex_lock(&k->lock);
    for (uint32_t i = 0; i < atomic_load(&k->count); i++)
        k->copy[i].stale |= overlap(&k->copy[i], p, bytes);
    (void)pthread_mutex_unlock(&k->lock);
}

bool uvcci_kept_take(uvcci_kept *k, const void *p, size_t bytes, uvcci_kept_copy *c) {
    bool found = false;
    if (atomic_load(&k->count) == 0 || bytes == 0)
        return false;
    (void)pthread_mutex_lock(&k->lock);
    for (uint32_t i = 0; i < atomic_load(&k->count) && !found; i++)
        if (overlap(&k->copy[i], p, bytes)) {
            *c = k->copy[i];
            k->room -= c->room;
            remove_at(k, i);
            found = true;
        }
    (void)pthread_mutex_unlock(&k->lock);
    return found;
}

uint8_t *uvcci_kept_within(const uvcci_kept_copy *c, const void *p, size_t bytes) {
    const size_t from = (size_t)((const uint8_t *)p - c->at);
    return from < c->bytes && bytes <= c->bytes - from ? uvcci_kept_place(c) + from : NULL;
}

bool uvcci_kept_find(uvcci_kept *k, const void *p, size_t bytes, uint32_t reader,
                     uvcci_kept_copy *c) {
    bool found = false, past = false;
    if (p == NULL || atomic_load(&k->count) == 0)
        return false;
    (void)pthread_mutex_lock(&k->lock);
    for (uint32_t i = behind(k, p); i-- != 0 && !found && !past;) {
        uvcci_kept_copy *at = &k->copy[i];
        past = !at->stale; /* of those that are not stale no two overlap, but such that are alike */
        found = past && uvcci_kept_within(at, p, bytes) != NULL;
        if (!found)
            continue;
        at->readers |= reader;
        *c = *at;
    }
    (void)pthread_mutex_unlock(&k->lock);
    return found;
}

void uvcci_kept_release(uvcci_kept *k, uint32_t reader) {
    (void)pthread_mutex_lock(&k->lock);
    for (uint32_t i = 0; i < atomic_load(&k->count); i++)
        k->copy[i].readers &= ~reader;
    (void)pthread_mutex_unlock(&k->lock);
}
