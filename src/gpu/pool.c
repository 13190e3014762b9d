/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - see pool.h. Chunks are sorted by address, so that a pointer's is found by halving; they
 * change by the grower alone, which therefore reads them without the lock. Blocks never go back to
 * CUDA before the end: sessions take the same sizes step after step. */
#include "gpu/pool.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <string.h>

#include "gpu/pages.h"

enum { CHUNK_BYTES = 64 << 20, LEAST_BYTES = 256, FIRST_ROOM = 64 };

struct uvcci_gpu_pool_free {
    struct uvcci_gpu_pool_free *next;
    void *at;
};

/* Four steps to a doubling, as the arenas of sessions have them. */
static unsigned class_of(size_t bytes, size_t *rounded) {
    size_t base = LEAST_BYTES;
    for (unsigned c = 0; c < UVCCI_GPU_POOL_CLASSES; c += 4, base *= 2)
        for (unsigned q = 0; q < 4; q++)
            if (bytes <= base + q * (base / 4)) {
                *rounded = (base + q * (base / 4) + LEAST_BYTES - 1) / LEAST_BYTES * LEAST_BYTES;
                return c + q;
            }
    return UVCCI_GPU_POOL_CLASSES;
}

bool uvcci_gpu_pool_alike(size_t a, size_t b) {
    size_t size = 0;
    return class_of(a, &size) == class_of(b, &size);
}

void uvcci_gpu_pool_init(uvcci_gpu_pool *p, const uvcc_allocator *records, bool pinned,
                         uint64_t limit) {
    memset(p, 0, sizeof *p);
    (void)pthread_mutex_init(&p->lock, NULL);
    p->records = *records;
    p->pinned = pinned;
    p->limit = limit;
}

static void *record_take(uvcci_gpu_pool *p, size_t bytes) {
    return p->records.alloc(p->records.user, bytes, UVCC_MEM_STATE);
}

static void record_give(uvcci_gpu_pool *p, void *at, size_t bytes) {
    p->records.free(p->records.user, at, bytes, UVCC_MEM_STATE);
}

/* CUDA loads a kernel when it is first launched: what would fill the device would make jobs fail.
 */
static bool would_fill(size_t bytes, size_t least) {
    size_t left = 0, all = 0;
    return least != 0 && cudaMemGetInfo(&left, &all) == cudaSuccess &&
           (left < least || bytes > left - least);
}

static cudaError_t tell(cudaError_t e) {
    if (e != cudaSuccess)
        (void)cudaGetLastError(); /* the next launch is not at fault */
    return e;
}

/* What CUDA does not let go it may have for ever: pages that it may have stay where they are. */
static bool unpin(void *pages) {
    return tell(cudaHostUnregister(pages)) == cudaSuccess;
}

/* Where kernels have it under the address that threads have, as all pinned memory here. Pages that
 * CUDA may have all the same are nobody's any more: *pages is NULL. */
static bool pin(uint8_t **pages, size_t bytes) {
    void *there = NULL;
    if (tell(cudaHostRegister(*pages, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped)) !=
        cudaSuccess)
        return false;
    if (tell(cudaHostGetDevicePointer(&there, *pages, 0)) == cudaSuccess && there == *pages)
        return true;
    if (!unpin(*pages))
        *pages = NULL;
    return false;
}

static void *from_cuda(const uvcci_gpu_pool *p, size_t bytes, size_t left) {
    void *at = NULL;
    if (!p->pinned && would_fill(bytes, left))
        return NULL;
    return tell(p->pinned ? cudaHostAlloc(&at, bytes, cudaHostAllocPortable | cudaHostAllocMapped)
                          : cudaMalloc(&at, bytes)) == cudaSuccess
               ? at
               : NULL;
}

static void to_cuda(const uvcci_gpu_pool *p, const uvcci_gpu_pool_chunk *c) {
    if (c->pages) {
        if (unpin(c->at))
            uvcci_gpu_pages_give(c->at, c->bytes);
    } else if (p->pinned) {
        (void)cudaFreeHost(c->at);
    } else {
        (void)cudaFree(c->at);
    }
}

void uvcci_gpu_pool_close(uvcci_gpu_pool *p, bool give_back) {
    for (unsigned c = 0; c < UVCCI_GPU_POOL_CLASSES; c++)
        while (p->kept[c] != NULL) {
            struct uvcci_gpu_pool_free *f = p->kept[c];
            p->kept[c] = f->next;
            record_give(p, f, sizeof *f);
        }
    for (uint32_t i = 0; i < p->chunk_count && give_back; i++)
        to_cuda(p, &p->chunks[i]);
    if (p->chunks != NULL)
        record_give(p, p->chunks, p->chunk_room * sizeof *p->chunks);
    (void)pthread_mutex_destroy(&p->lock);
}

/* The lock is held. */
static bool room_for_chunk(uvcci_gpu_pool *p) {
    if (p->chunk_count < p->chunk_room)
        return true;
    const uint32_t room = p->chunk_room == 0 ? FIRST_ROOM : 2 * p->chunk_room;
    uvcci_gpu_pool_chunk *more = record_take(p, room * sizeof *more);
    if (more == NULL)
        return false;
    if (p->chunks != NULL) {
        memcpy(more, p->chunks, p->chunk_count * sizeof *more);
        record_give(p, p->chunks, p->chunk_room * sizeof *more);
    }
    p->chunks = more;
    p->chunk_room = room;
    return true;
}

/* Small blocks fill chunks, large ones have one each. */
static bool is_large(size_t size) {
    return size > CHUNK_BYTES / 8;
}

/* A chunk in its place among the others. The lock is held. */
static void add_chunk(uvcci_gpu_pool *p, const uvcci_gpu_pool_chunk *c, bool fill) {
    uint32_t i = p->chunk_count++;
    for (; i != 0 && p->chunks[i - 1].at > c->at; i--)
        p->chunks[i] = p->chunks[i - 1];
    if (i <= p->filling && p->chunk_count > 1)
        p->filling++;
    p->chunks[i] = *c;
    if (fill)
        p->filling = i;
    p->held += c->bytes;
}

/* One chunk of that size: to be filled with blocks, or one block of a class. */
static bool grow_by(uvcci_gpu_pool *p, size_t bytes, unsigned class, size_t left) {
    const bool fill = class == UVCCI_GPU_POOL_CLASSES;
    (void)pthread_mutex_lock(&p->lock);
    const bool may = (p->limit == 0 || bytes <= p->limit - p->held) && room_for_chunk(p);
    (void)pthread_mutex_unlock(&p->lock);
    if (!may)
        return false;
    /* With several devices in the process others are kept from theirs, too. */
    uint8_t *pages = p->pinned && p->hook != NULL ? uvcci_gpu_pages_take(bytes) : NULL;
    if (p->hook != NULL)
        p->hook(p->hook_user, false);
    const bool pinned = pages != NULL && pin(&pages, bytes); /* it may take long: no lock */
    uint8_t *at = pinned ? pages : from_cuda(p, bytes, left);
    if (p->hook != NULL)
        p->hook(p->hook_user, true);
    if (pages != NULL && !pinned)
        uvcci_gpu_pages_give(pages, bytes);
    if (at == NULL)
        return false;
    (void)pthread_mutex_lock(&p->lock);
    add_chunk(p, &(uvcci_gpu_pool_chunk){at, bytes, fill ? 0 : bytes, pinned}, fill);
    if (!fill) { /* the block that it was made for is found among those that came back */
        struct uvcci_gpu_pool_free *f = record_take(p, sizeof *f);
        if (f != NULL) {
            *f = (struct uvcci_gpu_pool_free){p->kept[class], at};
            p->kept[class] = f;
        }
    }
    (void)pthread_mutex_unlock(&p->lock);
    return true;
}

bool uvcci_gpu_pool_grow(uvcci_gpu_pool *p, size_t bytes, size_t left) {
    size_t size = 0;
    const unsigned class = class_of(bytes, &size);
    if (class == UVCCI_GPU_POOL_CLASSES)
        return false;
    return (!is_large(size) && grow_by(p, CHUNK_BYTES, UVCCI_GPU_POOL_CLASSES, left)) ||
           grow_by(p, size, class, left); /* less may be left */
}

void *uvcci_gpu_pool_take(uvcci_gpu_pool *p, size_t bytes) {
    size_t size = 0;
    const unsigned class = class_of(bytes, &size);
    void *at = NULL;
    if (class == UVCCI_GPU_POOL_CLASSES)
        return NULL;
    (void)pthread_mutex_lock(&p->lock);
    struct uvcci_gpu_pool_free *f = p->kept[class];
    uvcci_gpu_pool_chunk *c = p->chunk_count != 0 ? &p->chunks[p->filling] : NULL;
    if (f != NULL) {
        p->kept[class] = f->next;
        at = f->at;
        record_give(p, f, sizeof *f);
    } else if (c != NULL && !is_large(size) && c->bytes - c->used >= size) {
        at = c->at + c->used;
        c->used += size;
    }
    (void)pthread_mutex_unlock(&p->lock);
    return at;
}

void uvcci_gpu_pool_give(uvcci_gpu_pool *p, void *at, size_t bytes) {
    size_t size = 0;
    const unsigned c = class_of(bytes, &size);
    assert(c < UVCCI_GPU_POOL_CLASSES);
    (void)pthread_mutex_lock(&p->lock);
    struct uvcci_gpu_pool_free *f = record_take(p, sizeof *f);
    if (f != NULL) { /* no record, no reuse */
        *f = (struct uvcci_gpu_pool_free){p->kept[c], at};
        p->kept[c] = f;
    }
    (void)pthread_mutex_unlock(&p->lock);
}

uint64_t uvcci_gpu_pool_held(uvcci_gpu_pool *p) {
    (void)pthread_mutex_lock(&p->lock);
    const uint64_t held = p->held;
    (void)pthread_mutex_unlock(&p->lock);
    return held;
}

const uvcci_gpu_pool_chunk *uvcci_gpu_pool_find(const uvcci_gpu_pool *p, const void *at) {
    const uint8_t *byte = at;
    uint32_t lo = 0, hi = p->chunk_count; /* the last chunk at `at` or before */
    while (hi - lo > 1) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (p->chunks[mid].at <= byte)
            lo = mid;
        else
            hi = mid;
    }
    const uvcci_gpu_pool_chunk *c = hi != 0 ? &p->chunks[lo] : NULL;
    return c != NULL && byte >= c->at && (size_t)(byte - c->at) < c->bytes ? c : NULL;
}

bool uvcci_gpu_pool_look(uvcci_gpu_pool *p, const void *at, uvcci_gpu_pool_chunk *out) {
    (void)pthread_mutex_lock(&p->lock);
    const uvcci_gpu_pool_chunk *c = uvcci_gpu_pool_find(p, at);
    if (c != NULL)
        *out = *c;
    (void)pthread_mutex_unlock(&p->lock);
    return c != NULL;
}
