/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - pools by size class and bump chunks. A pool never looks at the memory it hands out (it
 * may lie on a device), so its records of kept blocks live apart, in STATE memory. */
#include "exec/base/arena.h"

#include "proto/crypto.h"

#include <assert.h>
#include <string.h>

static void *metered_alloc(void *user, size_t bytes, uvcc_mem_class cls) {
    uvcci_meter *m = user;
    void *p = m->base.alloc(m->base.user, bytes, cls);
    if (p != NULL) {
        m->bytes += bytes;
        m->by_class[cls] += bytes;
        if (m->bytes > m->peak_bytes)
            m->peak_bytes = m->bytes;
    }
    return p;
}

static void meter_less(uvcci_meter *m, const void *p, size_t bytes, uvcc_mem_class cls) {
    assert(p == NULL || m->bytes >= bytes); /* else somebody gives back another size */
    if (p == NULL)
        return;
    m->bytes -= bytes;
    m->by_class[cls] -= bytes;
}

static void metered_free(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    uvcci_meter *m = user;
    meter_less(m, p, bytes, cls);
    m->base.free(m->base.user, p, bytes, cls);
}

static void metered_free_sealed(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    uvcci_meter *m = user;
    meter_less(m, p, bytes, cls);
    m->base.free_sealed(m->base.user, p, bytes, cls);
}

uvcc_allocator uvcci_metered(uvcci_meter *m) {
    return (uvcc_allocator){.alloc = metered_alloc,
                            .free = metered_free,
                            .user = m,
                            .free_sealed =
                                m->base.free_sealed != NULL ? metered_free_sealed : NULL};
}

struct uvcci_arena_free {
    struct uvcci_arena_free *next;
    void *mem;
};

/* Sizes 256, 320, 384, 448, 512, 640, ...: four steps to a doubling, at most 25% waste. */
static unsigned size_class(size_t bytes, size_t *rounded) {
    size_t base = 256;
    for (unsigned c = 0; c < UVCCI_ARENA_CLASSES; c += 4, base *= 2)
        for (unsigned q = 0; q < 4; q++) {
            size_t size = base + q * (base / 4);
            if (bytes <= size) {
                *rounded = size;
                return c + q;
            }
        }
    *rounded = SIZE_MAX;
    return UVCCI_ARENA_CLASSES;
}

size_t uvcci_arena_rounded(size_t bytes) {
    size_t size;
    (void)size_class(bytes, &size);
    return size;
}

void uvcci_arena_init(uvcci_arena *p, const uvcc_allocator *al, uvcc_mem_class cls,
                      uint64_t limit_bytes) {
    assert(al->alloc != NULL && al->free != NULL);
    memset(p, 0, sizeof *p);
    p->alloc = al;
    p->cls = cls;
    p->limit_bytes = limit_bytes;
}

/* Size of the blocks of a class. */
static size_t class_bytes(unsigned c) {
    const size_t base = (size_t)256 << (c / 4);
    return base + (c % 4) * (base / 4);
}

static void drop_kept(uvcci_arena *p, unsigned c) {
    struct uvcci_arena_free *f = p->free[c];
    p->free[c] = f->next;
    p->alloc->free(p->alloc->user, f->mem, class_bytes(c), p->cls);
    p->alloc->free(p->alloc->user, f, sizeof *f, UVCC_MEM_STATE);
    p->held_bytes -= class_bytes(c);
    p->kept--;
}

static uint64_t most_held(uint64_t used_bytes) {
    return used_bytes / 4 * UVCCI_ARENA_QUARTERS;
}

/* Makes room for `size` more: what is kept is a part of what was ever used at a time, and no more,
 * whatever sizes come one after the other. The largest go first. */
static void limit_kept(uvcci_arena *p, size_t size) {
    const uint64_t used = p->used_bytes + size;
    const uint64_t most = most_held(used > p->peak_bytes ? used : p->peak_bytes);
    for (unsigned c = UVCCI_ARENA_CLASSES; c-- != 0 && p->held_bytes + size > most;)
        while (p->free[c] != NULL && p->held_bytes + size > most)
            drop_kept(p, c);
}

/* A kept block of the same size, or a new one if limits allow it. */
void *uvcci_arena_take(uvcci_arena *p, size_t bytes) {
    size_t size;
    unsigned c = size_class(bytes, &size);
    if (c == UVCCI_ARENA_CLASSES)
        return NULL;
    void *mem = NULL;
    struct uvcci_arena_free *f = p->free[c];
    if (f != NULL) {
        p->free[c] = f->next;
        mem = f->mem;
        p->kept--;
        p->alloc->free(p->alloc->user, f, sizeof *f, UVCC_MEM_STATE);
    } else {
        if (p->limit_bytes != 0 && p->held_bytes + size > p->limit_bytes) {
            uvcci_arena_drain(p); /* blocks of other sizes may be in the way */
            if (p->held_bytes + size > p->limit_bytes)
                return NULL;
        }
        limit_kept(p, size);
        mem = p->alloc->alloc(p->alloc->user, size, p->cls);
        if (mem == NULL)
            return NULL;
        p->held_bytes += size;
    }
    p->used_bytes += size;
    assert(p->used_bytes <= p->held_bytes);
    if (p->used_bytes > p->peak_bytes)
        p->peak_bytes = p->used_bytes;
    return mem;
}

static void give(uvcci_arena *p, void *mem, size_t bytes, bool keep) {
    if (mem == NULL)
        return;
    size_t size;
    unsigned c = size_class(bytes, &size);
    assert(c < UVCCI_ARENA_CLASSES && p->used_bytes >= size && p->held_bytes >= size);
    p->used_bytes -= size;
    struct uvcci_arena_free *f = NULL;
    if (keep && p->kept < UVCCI_ARENA_KEPT)
        f = p->alloc->alloc(p->alloc->user, sizeof *f, UVCC_MEM_STATE);
    if (f == NULL) { /* no record, no reuse */
        p->alloc->free(p->alloc->user, mem, size, p->cls);
        p->held_bytes -= size;
        return;
    }
    f->mem = mem;
    f->next = p->free[c];
    p->free[c] = f;
    p->kept++;
}

void uvcci_arena_give(uvcci_arena *p, void *mem, size_t bytes) {
    give(p, mem, bytes, true);
}

void uvcci_arena_drop(uvcci_arena *p, void *mem, size_t bytes) {
    give(p, mem, bytes, false);
}

void uvcci_arena_drain(uvcci_arena *p) {
    for (unsigned c = 0; c < UVCCI_ARENA_CLASSES; c++)
        while (p->free[c] != NULL)
            drop_kept(p, c);
    assert(p->held_bytes == p->used_bytes);
}

uint64_t uvcci_arena_bound(uint64_t used_bytes, uint64_t *records) {
    const uint64_t held = most_held(used_bytes), blocks = held / class_bytes(0);
    *records =
        (blocks < UVCCI_ARENA_KEPT ? blocks : UVCCI_ARENA_KEPT) * sizeof(struct uvcci_arena_free);
    return held;
}

#define CHUNK_BYTES 4096u
#define LARGE_BYTES (CHUNK_BYTES / 4) /* a piece of more has a chunk of its own */
struct uvcci_bump_chunk {
    struct uvcci_bump_chunk *next;
    size_t cap, used;
    _Alignas(16) uint8_t bytes[];
};

void uvcci_bump_init(uvcci_bump *b, const uvcc_allocator *al) {
    b->alloc = al;
    b->chunks = NULL;
}

/* The first chunk is the one that has room: one of a large piece goes behind it. */
static struct uvcci_bump_chunk *add_chunk(uvcci_bump *b, size_t bytes) {
    const bool large = bytes > LARGE_BYTES;
    const size_t cap = large ? bytes : CHUNK_BYTES;
    struct uvcci_bump_chunk *c = b->alloc->alloc(b->alloc->user, sizeof *c + cap, UVCC_MEM_STATE);
    if (c == NULL)
        return NULL;
    struct uvcci_bump_chunk **at = large && b->chunks != NULL ? &b->chunks->next : &b->chunks;
    c->cap = cap;
    c->used = 0;
    c->next = *at;
    *at = c;
    return c;
}

void *uvcci_bump_take(uvcci_bump *b, size_t bytes) {
    assert(b->alloc != NULL && bytes <= SIZE_MAX / 2);
    bytes = (bytes + 15) & ~(size_t)15;
    struct uvcci_bump_chunk *c = b->chunks;
    if (c == NULL || c->cap - c->used < bytes)
        c = add_chunk(b, bytes);
    if (c == NULL)
        return NULL;
    void *p = c->bytes + c->used;
    c->used += bytes;
    memset(p, 0, bytes);
    return p;
}

uint64_t uvcci_bump_bytes(const uvcci_bump *b) {
    uint64_t bytes = 0;
    for (const struct uvcci_bump_chunk *c = b->chunks; c != NULL; c = c->next)
        bytes += sizeof *c + c->cap;
    return bytes;
}

/* Large pieces have no more than they need. Of the other chunks all but the last are full to three
 * quarters: a piece that did not fit any more is no more than a quarter of one. */
uint64_t uvcci_bump_bound(uint64_t bytes, uint64_t pieces) {
    if (pieces == 0)
        return 0;
    const uint64_t taken = bytes + 15 * pieces;
    const uint64_t chunks = (taken / LARGE_BYTES + taken / (CHUNK_BYTES / 4 * 3) + 2);
    return taken + taken / 3 + CHUNK_BYTES + chunks * sizeof(struct uvcci_bump_chunk);
}

void uvcci_bump_reset(uvcci_bump *b) {
    while (b->chunks != NULL) {
        struct uvcci_bump_chunk *c = b->chunks;
        b->chunks = c->next;
        uvcci_wipe(c->bytes, c->used); /* tasks name salts and keys */
        b->alloc->free(b->alloc->user, c, sizeof *c + c->cap, UVCC_MEM_STATE);
    }
}
