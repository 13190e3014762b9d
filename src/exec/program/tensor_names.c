/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_names.c - see tensor_names.h. */
#include "exec/program/tensor_names.h"

#include <assert.h>
#include <string.h>

uint32_t uvcci_hash_name(const char *name) { /* FNV-1a */
    uint32_t h = 2166136261u;
    for (; *name != 0; name++)
        h = (h ^ (uint8_t)*name) * 16777619u;
    return h;
}

/* Where the tensor of that name stands, the first of several, or the empty place where it would. */
static uint32_t name_slot(const uvcc_program *p, uint32_t hash, const char *name) {
    const uint32_t mask = p->by_name_cap - 1;
    uint32_t slot = hash & mask;
    assert(p->by_name_cap > p->tensor_count && (p->by_name_cap & mask) == 0);
    for (; p->by_name[slot] != 0; slot = (slot + 1) & mask) {
        const uvcci_tensor *t = &p->tensors[p->by_name[slot] - 1];
        if (t->name_hash == hash && strcmp(t->name, name) == 0)
            break;
    }
    return slot;
}

/* A name that is there already stays with its first tensor; finish refuses the second. */
static void put_name(uvcc_program *p, uint32_t i) {
    uint32_t *at = &p->by_name[name_slot(p, p->tensors[i].name_hash, p->tensors[i].name)];
    if (*at == 0)
        *at = i + 1;
}

/* Room for one more name: the table is at most half full. */
static int widen_names(uvcc_program *p) {
    if (p->by_name_cap > 2 * p->tensor_count)
        return 0;
    const uint32_t cap = p->by_name_cap == 0 ? 64 : 2 * p->by_name_cap;
    uint32_t *wider = p->alloc.alloc(p->alloc.user, cap * sizeof *wider, UVCC_MEM_STATE);
    if (wider == NULL)
        return UVCC_ERR_NOMEM;
    memset(wider, 0, cap * sizeof *wider);
    if (p->by_name != NULL)
        p->alloc.free(p->alloc.user, p->by_name, p->by_name_cap * sizeof *p->by_name,
                      UVCC_MEM_STATE);
    p->by_name = wider;
    p->by_name_cap = cap;
    for (uint32_t i = 0; i < p->tensor_count; i++)
        put_name(p, i);
    return 0;
}

int uvcci_tensor_names_put(uvcc_program *p, uint32_t i) {
    const int err = widen_names(p);
    if (err == 0)
        put_name(p, i);
    return err;
}

uint32_t uvcci_tensor_named(const uvcc_program *p, const char *name) {
    if (p->tensor_count == 0)
        return UVCC_NO_TENSOR;
    const uint32_t at = p->by_name[name_slot(p, uvcci_hash_name(name), name)];
    return at != 0 ? at - 1 : UVCC_NO_TENSOR;
}
