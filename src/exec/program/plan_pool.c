/* SPDX-License-Identifier: Apache-2.0 */
/* plan_pool.c - see plan_pool.h. Plans are found by a key of all that a plan may depend on. That it
 * depends on nothing else is held by how a shared one is made: without an entry, of an op that has
 * its description only. */
#include "exec/program/plan_pool.h"

#include "exec/program/op_class.h"
#include "exec/program/plan_make.h"
#include "proto/bytes.h"
#include <assert.h>
#include <string.h>

enum {
    OPERANDS = UVCC_OP_MAX_IN + UVCC_OP_MAX_OUT,
    KEY_BYTES = 40 + 16 * OPERANDS, /* of an op's fields, and of each operand */
    SLOTS_FIRST = 64,
};

typedef struct uvcci_pooled_plan {
    struct uvcci_pooled_plan *next; /* of those that are not shared */
    uint64_t hash;
    uint8_t key[KEY_BYTES];
    uvcci_plan plan;
} pooled;

/* ---- keys ---- */

static uint32_t operand(const uvcc_op_desc *d, unsigned i) {
    return i < UVCC_OP_MAX_IN ? d->in[i] : d->out[i - UVCC_OP_MAX_IN];
}

/* A tensor's shape and form, and the first operand that is the same tensor. */
static void put_operand(uvcci_writer *w, const uvcc_program *p, const uvcc_op_desc *d, unsigned i) {
    const uint32_t tensor = operand(d, i);
    const uvcc_tensor_desc *t = &p->tensors[tensor].desc;
    unsigned same = 0;
    while (operand(d, same) != tensor)
        same++;
    uvcci_put32(w, t->rows);
    uvcci_put32(w, t->cols);
    uvcci_put8(w, t->bits);
    uvcci_put8(w, t->scale);
    uvcci_put8(w, t->lifetime);
    uvcci_put8(w, t->sharing);
    uvcci_put8(w, (uint8_t)same);
}

_Static_assert(sizeof(uvcc_op_desc) == 96, "a member more or wider: may a plan depend on it?");

static void make_key(const uvcc_program *p, const uvcc_op_desc *d, uint8_t key[KEY_BYTES]) {
    uvcci_writer w = uvcci_writer_on(key, KEY_BYTES);
    memset(key, 0, KEY_BYTES);
    uvcci_put16(&w, d->opcode);
    uvcci_put8(&w, d->in_count);
    uvcci_put8(&w, d->out_count);
    uvcci_put8(&w, d->flags);
    uvcci_put8(&w, d->shift);
    uvcci_put8(&w, d->truncation);
    uvcci_put8(&w, d->lift);
    uvcci_put16(&w, d->function);
    uvcci_put16(&w, d->heads);
    uvcci_put32(&w, d->row_groups);
    uvcci_put32(&w, d->tile_rows);
    uvcci_put64(&w, (uint64_t)d->constant);
    uvcci_put32(&w, d->window);
    uvcci_put8(&w, d->group);
    for (unsigned i = 0; i < OPERANDS; i++)
        if (operand(d, i) != UVCC_NO_TENSOR)
            put_operand(&w, p, d, i);
    assert(!w.bad);
}

static uint64_t hash_key(const uint8_t key[KEY_BYTES]) { /* FNV-1a by words, folded */
    uint64_t h = 14695981039346656037ull;
    for (size_t i = 0; i < KEY_BYTES; i += 8)
        h = (h ^ uvcci_ld64(key + i)) * 1099511628211ull;
    return h ^ h >> 32;
}

/* ---- the pool ---- */

/* Where the plan with that key stands, or the empty slot where it would. */
static uint32_t slot_of(const uvcci_plan_pool *pool, uint64_t hash, const uint8_t key[KEY_BYTES]) {
    const uint32_t mask = pool->cap - 1;
    uint32_t at = (uint32_t)hash & mask;
    assert(pool->count < pool->cap && (pool->cap & mask) == 0);
    for (; pool->slot[at] != NULL; at = (at + 1) & mask)
        if (pool->slot[at]->hash == hash && memcmp(pool->slot[at]->key, key, KEY_BYTES) == 0)
            break;
    return at;
}

/* Room for one more: slots are at most half full. */
static int widen(uvcci_plan_pool *pool, const uvcc_allocator *al) {
    if (pool->cap > 2 * pool->count)
        return 0;
    const uint32_t cap = pool->cap == 0 ? SLOTS_FIRST : 2 * pool->cap;
    const uvcci_plan_pool old = *pool;
    pooled **wider = al->alloc(al->user, cap * sizeof(pooled *), UVCC_MEM_STATE);
    if (wider == NULL)
        return UVCC_ERR_NOMEM;
    for (uint32_t i = 0; i < cap; i++)
        wider[i] = NULL;
    pool->slot = wider;
    pool->cap = cap;
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.slot[i] != NULL)
            pool->slot[slot_of(pool, old.slot[i]->hash, old.slot[i]->key)] = old.slot[i];
    if (old.slot != NULL)
        al->free(al->user, old.slot, old.cap * sizeof(pooled *), UVCC_MEM_STATE);
    return 0;
}

static int make(const uvcc_program *p, const uvcci_entry *e, const uvcci_op *op,
                const uvcc_allocator *al, pooled **out) {
    pooled *made = al->alloc(al->user, sizeof *made, UVCC_MEM_STATE);
    if (made == NULL)
        return UVCC_ERR_NOMEM;
    made->next = NULL;
    const int err = uvcci_plan_make(&made->plan, p, e, op, al);
    if (err != 0)
        al->free(al->user, made, sizeof *made, UVCC_MEM_STATE);
    else
        *out = made;
    return err;
}

static int get_own(uvcci_plan_pool *pool, const uvcc_program *p, const uvcci_entry *e,
                   const uvcci_op *op, const uvcc_allocator *al, const uvcci_plan **out) {
    pooled *made;
    const int err = make(p, e, op, al, &made);
    if (err != 0)
        return err;
    made->next = pool->own;
    pool->own = made;
    *out = &made->plan;
    return 0;
}

int uvcci_plan_pool_get(uvcci_plan_pool *pool, const uvcc_program *p, const uvcci_entry *e,
                        const uvcci_op *op, const uvcc_allocator *al, const uvcci_plan **out) {
    uint8_t key[KEY_BYTES];
    if (uvcci_op_has(op->desc.opcode, UVCCI_PLANS_BY_ENTRY) || (op->desc.flags & UVCC_OP_BEAVER))
        return get_own(pool, p, e, op, al, out);
    int err = widen(pool, al);
    if (err != 0)
        return err;
    make_key(p, &op->desc, key);
    const uint64_t hash = hash_key(key);
    pooled **at = &pool->slot[slot_of(pool, hash, key)];
    if (*at == NULL) {
        const uvcci_op bare = {.desc = op->desc};
        err = make(p, NULL, &bare, al, at);
        if (err != 0)
            return err;
        (*at)->hash = hash;
        memcpy((*at)->key, key, KEY_BYTES);
        pool->count++;
    }
    *out = &(*at)->plan;
    return 0;
}

static void drop(pooled *made, const uvcc_allocator *al) {
    uvcci_plan_free(&made->plan, al);
    al->free(al->user, made, sizeof *made, UVCC_MEM_STATE);
}

void uvcci_plan_pool_free(uvcci_plan_pool *pool, const uvcc_allocator *al) {
    for (uint32_t i = 0; i < pool->cap; i++)
        if (pool->slot[i] != NULL)
            drop(pool->slot[i], al);
    while (pool->own != NULL) {
        pooled *next = pool->own->next;
        drop(pool->own, al);
        pool->own = next;
    }
    if (pool->slot != NULL)
        al->free(al->user, pool->slot, pool->cap * sizeof(pooled *), UVCC_MEM_STATE);
    *pool = (uvcci_plan_pool){0};
}
