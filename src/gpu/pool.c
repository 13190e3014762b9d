/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - see pool.h. Chunks are sorted by address, so that a pointer's is found by halving.
 * Blocks never go back to CUDA before the end: sessions take the same sizes step after step. */
#include "gpu/pool.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <string.h>

enum { CHUNK_BYTES = 64 << 20, LEAST_BYTES = 256, FIRST_ROOM = 64, DEVICE_LEFT = 256 << 20 };

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

/* CUDA loads a kernel when it is first launched, and jobs have descriptors and scratch: what would
 * fill the device would make jobs fail. */
static bool would_fill(size_t bytes) {
    size_t left = 0, all = 0;
    return cudaMemGetInfo(&left, &all) == cudaSuccess &&
           (left < DEVICE_LEFT || bytes > left - DEVICE_LEFT);
}

static void *from_cuda(const uvcci_gpu_pool *p, size_t bytes) {
    void *at = NULL;
    const cudaError_t e =
        p->pinned           ? cudaHostAlloc(&at, bytes, cudaHostAllocPortable | cudaHostAllocMapped)
        : would_fill(bytes) ? cudaErrorMemoryAllocation
                            : cudaMalloc(&at, bytes);
    if (e != cudaSuccess)
        (void)cudaGetLastError(); /* the next launch is not at fault */
    return e == cudaSuccess ? at : NULL;
}

static void to_cuda(const uvcci_gpu_pool *p, void *at) {
    if (p->pinned)
        (void)cudaFreeHost(at);
    else
        (void)cudaFree(at);
}

void uvcci_gpu_pool_close(uvcci_gpu_pool *p, bool give_back) {
    for (unsigned c = 0; c < UVCCI_GPU_POOL_CLASSES; c++)
        while (p->kept[c] != NULL) {
            struct uvcci_gpu_pool_free *f = p->kept[c];
            p->kept[c] = f->next;
            record_give(p, f, sizeof *f);
        }
    for (uint32_t i = 0; i < p->chunk_count && give_back; i++)
        to_cuda(p, p->chunks[i].at);
    if (p->chunks != NULL)
        record_give(p, p->chunks, p->chunk_room * sizeof *p->chunks);
    (void)pthread_mutex_destroy(&p->lock);
}

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

/* A chunk in its place among the others; its number, or chunk_count. */
static uint32_t add_chunk(uvcci_gpu_pool *p, size_t bytes) {
    if ((p->limit != 0 && bytes > p->limit - p->held) || !room_for_chunk(p))
        return p->chunk_count;
    uint8_t *at = from_cuda(p, bytes);
    if (at == NULL)
        return p->chunk_count;
    uint32_t i = p->chunk_count++;
    for (; i != 0 && p->chunks[i - 1].at > at; i--)
        p->chunks[i] = p->chunks[i - 1];
    if (i <= p->filling && p->chunk_count > 1)
        p->filling++;
    p->chunks[i] = (uvcci_gpu_pool_chunk){at, bytes, 0};
    p->held += bytes;
    return i;
}

/* Small blocks fill chunks, large ones have one each. */
static void *cut(uvcci_gpu_pool *p, size_t size) {
    const bool large = size > CHUNK_BYTES / 8;
    uvcci_gpu_pool_chunk *c = p->chunk_count != 0 ? &p->chunks[p->filling] : NULL;
    if (large || c == NULL || c->bytes - c->used < size) {
        const uint32_t before = p->chunk_count;
        uint32_t i = add_chunk(p, large ? size : CHUNK_BYTES);
        if (p->chunk_count == before && !large) /* less may be left */
            i = add_chunk(p, size);
        if (p->chunk_count == before)
            return NULL;
        if (!large)
            p->filling = i;
        c = &p->chunks[i];
    }
    uint8_t *at = c->at + c->used;
    c->used += size;
    assert(c->used <= c->bytes);
    return at;
}

void *uvcci_gpu_pool_take(uvcci_gpu_pool *p, size_t bytes) {
    size_t size = 0;
    const unsigned c = class_of(bytes, &size);
    void *at = NULL;
    if (c == UVCCI_GPU_POOL_CLASSES)
        return NULL;
    (void)pthread_mutex_lock(&p->lock);
    struct uvcci_gpu_pool_free *f = p->kept[c];
    if (f != NULL) {
        p->kept[c] = f->next;
        at = f->at;
        record_give(p, f, sizeof *f);
    } else {
        at = cut(p, size);
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

bool uvcci_gpu_pool_has(uvcci_gpu_pool *p, const void *at, size_t bytes) {
    const uint8_t *from = at;
    (void)pthread_mutex_lock(&p->lock);
    uint32_t lo = 0, hi = p->chunk_count; /* the last chunk at `from` or before */
    while (hi - lo > 1) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (p->chunks[mid].at <= from)
            lo = mid;
        else
            hi = mid;
    }
    const uvcci_gpu_pool_chunk *c = hi != 0 ? &p->chunks[lo] : NULL;
    const bool has = c != NULL && from >= c->at && (size_t)(from - c->at) <= c->bytes &&
                     bytes <= c->bytes - (size_t)(from - c->at);
    (void)pthread_mutex_unlock(&p->lock);
    return has;
}
