/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - where the session's memory comes from.
 *
 * arena: TENSOR and WIRE memory by lifetime (PERSIST, TRANSIENT, INFLIGHT), with one limit; freed
 * blocks are kept by size and reused, so a training loop stops allocating after its first step.
 * bump: many small pieces that die together (an op's tasks, a step's tables). */
#ifndef UVCCI_ARENA_H
#define UVCCI_ARENA_H

#include <stdbool.h>
#include <uvcc/types.h>

#define UVCCI_ARENA_CLASSES 160u
/* Blocks in use and kept ones together are at most so many quarters of what was in use at its peak,
 * and no more than so many are kept. */
#define UVCCI_ARENA_QUARTERS 5u
#define UVCCI_ARENA_KEPT     4096u

/* Counts what goes through an allocator. */
typedef struct uvcci_meter {
    uvcc_allocator base;
    uint64_t bytes, peak_bytes;
    uint64_t by_class[4]; /* of `bytes`, by uvcc_mem_class */
} uvcci_meter;
/* An allocator that draws on m->base and counts in m; m must stay where it is. */
uvcc_allocator uvcci_metered(uvcci_meter *m);

typedef struct uvcci_arena {
    const uvcc_allocator *alloc;
    uvcc_mem_class cls;
    uint64_t limit_bytes;                               /* 0: none */
    uint64_t used_bytes;                                /* handed out */
    uint64_t held_bytes;                                /* handed out and kept for reuse */
    uint64_t peak_bytes;                                /* of used_bytes */
    uint32_t kept;                                      /* blocks */
    struct uvcci_arena_free *free[UVCCI_ARENA_CLASSES]; /* records of kept blocks */
} uvcci_arena;

void uvcci_arena_init(uvcci_arena *p, const uvcc_allocator *al, uvcc_mem_class cls,
                      uint64_t limit_bytes);
/* 64-byte aligned, contents undefined; NULL at the limit or when the allocator fails. bytes may be
 * 0. */
void *uvcci_arena_take(uvcci_arena *p, size_t bytes);
/* What a block of so many bytes takes; SIZE_MAX: none is so large. */
size_t uvcci_arena_rounded(size_t bytes);
/* With the same number of bytes. NULL is allowed. */
void uvcci_arena_give(uvcci_arena *p, void *mem, size_t bytes);
/* The same of a block of which no other one like it will be asked for: it is not kept for reuse. */
void uvcci_arena_drop(uvcci_arena *p, void *mem, size_t bytes);
/* Returns kept blocks to the allocator. */
void uvcci_arena_drain(uvcci_arena *p);

/* Most that an arena holds of which so much, rounded, is in use at a time; *records: the STATE
 * memory of its records of kept blocks. */
uint64_t uvcci_arena_bound(uint64_t used_bytes, uint64_t *records);

typedef struct uvcci_bump {
    const uvcc_allocator *alloc;
    struct uvcci_bump_chunk *chunks;
} uvcci_bump;
void uvcci_bump_init(uvcci_bump *b, const uvcc_allocator *al);
/* Zeroed, 16-byte aligned; NULL when the allocator fails. */
void *uvcci_bump_take(uvcci_bump *b, size_t bytes);
void uvcci_bump_reset(uvcci_bump *b);
/* What it holds of the allocator. */
uint64_t uvcci_bump_bytes(const uvcci_bump *b);
/* Most that so many pieces of so many bytes in all take. */
uint64_t uvcci_bump_bound(uint64_t bytes, uint64_t pieces);

#endif
