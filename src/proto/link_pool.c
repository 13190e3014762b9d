/* link_pool.c - records of messages: slabs of 21 objects of 192 bytes.
 *
 * Invariants: a new slab is taken only when every slab is full, so slabs <= peak objects / 21 + 1;
 * `room` lists exactly the slabs with a free object; a slab that empties goes back unless it is the
 * only one with room (so a link that hovers at a slab's edge does not call the allocator each time).
 * A token names an object as long as it lives and nothing afterwards. */
#include <assert.h>

#include "link_impl.h"

#define ALL_FREE ((1u << UVCCI_SLAB_OBJECTS) - 1u)
#define NO_INDEX UINT32_MAX
#define TABLE_MIN 8u

static uvcci_slab *slab_at(const uvcci_pool *p, uint32_t index) {
    uintptr_t v = p->table[index];
    return (v & 1) != 0 ? NULL : (uvcci_slab *)v;
}

static void room_add(uvcci_pool *p, uvcci_slab *s) {
    s->prev = NULL;
    s->next = p->room;
    if (s->next != NULL)
        s->next->prev = s;
    p->room = s;
}

static void room_remove(uvcci_pool *p, uvcci_slab *s) {
    if (s->prev != NULL)
        s->prev->next = s->next;
    else
        p->room = s->next;
    if (s->next != NULL)
        s->next->prev = s->prev;
}

/* Makes sure that the table has a free entry; the free entries are a stack. */
static bool table_reserve(uvcc_link *l, uvcci_pool *p) {
    if (p->slabs < p->table_cap)
        return true;
    uint32_t cap = p->table_cap == 0 ? TABLE_MIN : 2 * p->table_cap;
    uintptr_t *table = uvcci_link_alloc(l, cap * sizeof *table, UVCC_MEM_STATE);
    if (table == NULL)
        return false;
    for (uint32_t i = 0; i < p->table_cap; i++)
        table[i] = p->table[i];
    for (uint32_t i = p->table_cap; i < cap; i++)
        table[i] = (uintptr_t)(i + 1 < cap ? i + 1 : NO_INDEX) << 1 | 1;
    uvcci_link_give(l, p->table, p->table_cap * sizeof *table, UVCC_MEM_STATE);
    p->table_free = p->table_cap;
    p->table = table;
    p->table_cap = cap;
    return true;
}

static void slab_release(uvcc_link *l, uvcci_pool *p, uvcci_slab *s) {
    room_remove(p, s);
    p->table[s->index] = (uintptr_t)p->table_free << 1 | 1;
    p->table_free = s->index;
    p->slabs--;
    uvcci_link_give(l, s, sizeof *s, UVCC_MEM_WIRE);
}

static bool slab_add(uvcc_link *l, uvcci_pool *p) {
    if (!table_reserve(l, p))
        return false;
    uvcci_slab *s = uvcci_link_alloc(l, sizeof *s, UVCC_MEM_WIRE);
    if (s == NULL)
        return false;
    s->index = p->table_free;
    s->free = ALL_FREE;
    p->table_free = (uint32_t)(p->table[s->index] >> 1);
    p->table[s->index] = (uintptr_t)s;
    p->slabs++;
    room_add(p, s);
    return true;
}

void *uvcci_pool_take(uvcc_link *l, uvcci_pool *p) {
    if (p->room == NULL && !slab_add(l, p))
        return NULL;
    uvcci_slab *s = p->room;
    uint32_t i = (uint32_t)__builtin_ctz(s->free);
    s->free &= s->free - 1;
    if (s->free == 0)
        room_remove(p, s);
    p->live++;
    uvcci_object *o = (uvcci_object *)(void *)s->objects[i];
    o->slab = s;
    o->generation = ++p->generation;
    o->at = s->index * 32u + i;
    return o;
}

void uvcci_pool_give(uvcc_link *l, uvcci_pool *p, void *object) {
    uvcci_object *o = object;
    uvcci_slab *s = o->slab;
    uint32_t bit = 1u << (o->at % 32u);
    assert((s->free & bit) == 0);
    if (s->free == 0)
        room_add(p, s);
    s->free |= bit;
    p->live--;
    if (s->free == ALL_FREE && (p->room != s || s->next != NULL))
        slab_release(l, p, s);
}

void *uvcci_pool_find(const uvcci_pool *p, uint64_t token) {
    uint32_t at = (uint32_t)token, index = at / 32u, i = at % 32u;
    if (index >= p->table_cap || i >= UVCCI_SLAB_OBJECTS)
        return NULL;
    uvcci_slab *s = slab_at(p, index);
    if (s == NULL || (s->free >> i & 1) != 0)
        return NULL;
    uvcci_object *o = (uvcci_object *)(void *)s->objects[i];
    return o->generation == (uint32_t)(token >> 32) ? o : NULL;
}

void *uvcci_pool_each(const uvcci_pool *p, uint32_t *at) {
    for (; *at / 32u < p->table_cap; ++*at) {
        uvcci_slab *s = slab_at(p, *at / 32u);
        uint32_t i = *at % 32u;
        if (s == NULL || i >= UVCCI_SLAB_OBJECTS)
            *at |= 31u;
        else if ((s->free >> i & 1) == 0) {
            ++*at;
            return s->objects[i];
        }
    }
    return NULL;
}

void uvcci_pool_trim(uvcc_link *l, uvcci_pool *p) {
    if (p->live != 0)
        return;
    if (p->room != NULL)
        slab_release(l, p, p->room);
    assert(p->slabs == 0);
    uvcci_link_give(l, p->table, p->table_cap * sizeof *p->table, UVCC_MEM_STATE);
    p->table = NULL;
    p->table_cap = 0;
}

uint64_t uvcci_pool_bound(uint64_t objects) {
    uint64_t slabs = objects / UVCCI_SLAB_OBJECTS + 2;
    return slabs * sizeof(uvcci_slab) + (3 * slabs + 2 * TABLE_MIN) * sizeof(uintptr_t);
}
