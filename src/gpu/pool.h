/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - memory of the device, or pinned memory of the host that the device reaches: taken from
 * CUDA in large chunks, handed out in sizes that are kept when they come back. Only
 * uvcci_gpu_pool_grow() and uvcci_gpu_pool_close() call CUDA, and they hold no lock meanwhile; one
 * thread, the grower, calls these two and uvcci_gpu_pool_find(), with the pool's device as its
 * current one. Any thread calls the others. */
#ifndef UVCCI_GPU_POOL_H
#define UVCCI_GPU_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <uvcc/types.h>

enum { UVCCI_GPU_POOL_CLASSES = 160 };

typedef struct uvcci_gpu_pool_chunk {
    uint8_t *at;
    size_t bytes, used;
    bool pages; /* the host's own, pinned (pages.h) */
} uvcci_gpu_pool_chunk;

typedef struct uvcci_gpu_pool {
    pthread_mutex_t lock;
    uvcc_allocator records;
    bool pinned;
    void (*hook)(void *user, bool done); /* around what may wait in CUDA; NULL: none */
    void *hook_user;
    uint64_t limit, held;
    uvcci_gpu_pool_chunk *chunks; /* by address */
    uint32_t chunk_count, chunk_room, filling;
    struct uvcci_gpu_pool_free *kept[UVCCI_GPU_POOL_CLASSES];
} uvcci_gpu_pool;

/* limit: bytes, 0: none. */
void uvcci_gpu_pool_init(uvcci_gpu_pool *p, const uvcc_allocator *records, bool pinned,
                         uint64_t limit);
/* give_back false: the device is lost, and its memory with it. */
void uvcci_gpu_pool_close(uvcci_gpu_pool *p, bool give_back);
/* Aligned to 256 bytes; NULL: the pool must grow first. */
void *uvcci_gpu_pool_take(uvcci_gpu_pool *p, size_t bytes);
/* From CUDA what a block of that size needs. false: the limit is reached, CUDA has no more, or less
 * than `left` bytes of the device were left. */
bool uvcci_gpu_pool_grow(uvcci_gpu_pool *p, size_t bytes, size_t left);
/* With the same number of bytes as it was taken. The caller sees to it that it is wiped. */
void uvcci_gpu_pool_give(uvcci_gpu_pool *p, void *at, size_t bytes);
/* Blocks of both numbers of bytes are the same to the pool. */
bool uvcci_gpu_pool_alike(size_t a, size_t b);
/* What it has of CUDA; it never gives any back before its end. */
uint64_t uvcci_gpu_pool_held(uvcci_gpu_pool *p);
/* The grower: the chunk that has a byte, or NULL; valid until the pool grows. */
const uvcci_gpu_pool_chunk *uvcci_gpu_pool_find(const uvcci_gpu_pool *p, const void *at);
/* The same for any thread: a copy of the chunk. false: there is none. */
bool uvcci_gpu_pool_look(uvcci_gpu_pool *p, const void *at, uvcci_gpu_pool_chunk *out);

#endif
