/* SPDX-License-Identifier: Apache-2.0 */
/* link_pool.c - records of messages (slabs of 21 objects of 192 bytes) and their buffers.
 *
 * Invariants: a new slab is taken only when every slab is full, so slabs <= peak objects / 21 + 1;
 * `room` lists exactly the slabs with a free object; a slab that empties goes back unless it is the
 * only one with room (so a link that hovers at a slab's edge does not call the allocator each
 * time). A token names an object as long as it lives and nothing afterwards. Buffers in use and
 * spare ones together stay within the config's four limits. */
#include "proto/link_pool.h"

#include <assert.h>
#include <string.h>

#include "proto/link_core.h"

#define ALL_FREE  ((1u << UVCCI_SLAB_OBJECTS) - 1u)
#define NO_INDEX  UINT32_MAX
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
    o->generation = ++l->generation;
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

/* ---- buffers ---- */

uint64_t uvcci_data_bound(const uvcc_link *l) {
    return l->cfg.tx_online_bytes + l->cfg.tx_keys_bytes + l->cfg.rx_online_bytes +
           l->cfg.rx_keys_bytes;
}

static void data_free(uvcc_link *l, uint8_t *data, uint32_t len, bool sealed) {
    if (sealed)
        uvcci_link_give_sealed(l, data, len);
    else
        uvcci_link_give(l, data, len, UVCC_MEM_WIRE);
}

static void spare_free(uvcc_link *l, uint32_t i) {
    uvcci_spares *s = l->spares;
    data_free(l, s->data[i], s->len[i], s->sealed[i]);
    s->bytes -= s->len[i];
    s->data[i] = NULL;
    s->len[i] = 0;
}

static uint8_t *spare_take(uvcc_link *l, uint32_t len) {
    uvcci_spares *s = l->spares;
    for (uint32_t i = 0; i < UVCCI_SPARES; i++) {
        if (s->len[i] != len)
            continue;
        uint8_t *data = s->data[i];
        s->bytes -= len;
        s->data[i] = NULL;
        s->len[i] = 0;
        return data;
    }
    for (uint32_t i = 0; s->bytes + l->data_bytes + len > uvcci_data_bound(l) && i < UVCCI_SPARES;
         i++)
        spare_free(l, i);
    return NULL;
}

uint8_t *uvcci_data_take(uvcc_link *l, void *record, uint32_t len) {
    if (len <= UVCCI_INLINE_BYTES)
        return (uint8_t *)record + UVCCI_INLINE_AT;
    uint8_t *data = NULL;
    if (l->spares != NULL)
        data = spare_take(l, len);
    if (data == NULL)
        data = uvcci_link_alloc(l, len, UVCC_MEM_WIRE);
    if (data != NULL)
        l->data_bytes += len;
    return data;
}

void uvcci_data_give(uvcc_link *l, uint8_t *data, uint32_t len, bool sealed) {
    if (len <= UVCCI_INLINE_BYTES)
        return;
    l->data_bytes -= len;
    if (l->spares == NULL && len >= UVCCI_SPARE_MIN_BYTES) {
        l->spares = uvcci_link_alloc(l, sizeof *l->spares, UVCC_MEM_STATE);
        if (l->spares != NULL)
            memset(l->spares, 0, sizeof *l->spares);
    }
    if (l->spares == NULL || len < UVCCI_SPARE_MIN_BYTES) {
        data_free(l, data, len, sealed);
        return;
    }
    uvcci_spares *s = l->spares;
    uint32_t i = s->oldest++ % UVCCI_SPARES;
    spare_free(l, i);
    s->data[i] = data;
    s->len[i] = len;
    s->sealed[i] = sealed;
    s->bytes += len;
}

void uvcci_data_trim(uvcc_link *l) {
    if (l->spares == NULL)
        return;
    for (uint32_t i = 0; i < UVCCI_SPARES; i++)
        spare_free(l, i);
    uvcci_link_give(l, l->spares, sizeof *l->spares, UVCC_MEM_STATE);
    l->spares = NULL;
}
