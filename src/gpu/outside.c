/* SPDX-License-Identifier: Apache-2.0 */
/* outside.c - see outside.h. */
#include "gpu/outside.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_RANGES = 64, APART = 64 };

void uvcci_outside_free(uvcci_outside *o, const uvcc_allocator *al) {
    if (o->range != NULL)
        al->free(al->user, o->range, o->room * sizeof *o->range, UVCC_MEM_STATE);
    *o = (uvcci_outside){0};
}

int uvcci_outside_note(uvcci_outside *o, const uvcc_allocator *al, const void *p, size_t bytes,
                       bool written) {
    if (o->count == o->room) {
        const uint32_t room = o->room == 0 ? FIRST_RANGES : 2 * o->room;
        uvcci_outside_range *more = al->alloc(al->user, room * sizeof *more, UVCC_MEM_STATE);
        if (more == NULL)
            return UVCC_ERR_NOMEM;
        if (o->range != NULL) {
            memcpy(more, o->range, o->count * sizeof *more);
            al->free(al->user, o->range, o->room * sizeof *more, UVCC_MEM_STATE);
        }
        o->range = more;
        o->room = room;
    }
    o->range[o->count++] =
        (uvcci_outside_range){.at = (uint8_t *)(uintptr_t)p, .bytes = bytes, .written = written};
    return 0;
}

/* Of those that begin at one byte the longest is first, so that it covers the others. */
static int by_address(const void *a, const void *b) {
    const uvcci_outside_range *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

void uvcci_outside_settle(uvcci_outside *o) {
    const uint8_t *first = NULL, *end = NULL; /* of ranges that overlap */
    size_t base = 0;                          /* where the copy of `first` is */
    if (o->count > 1)
        qsort(o->range, o->count, sizeof *o->range, by_address);
    o->bytes = 0;
    for (uint32_t i = 0; i < o->count; i++) {
        uvcci_outside_range *r = &o->range[i];
        if (first == NULL || r->at >= end) {
            /* An address keeps its remainder, on which kernels' wide accesses depend. */
            base = (o->bytes + APART - 1) / APART * APART + (uintptr_t)r->at % APART;
            first = r->at;
            end = r->at;
        }
        r->copy = base + (size_t)(r->at - first);
        end = r->at + r->bytes > end ? r->at + r->bytes : end;
        r->covered = (size_t)(end - r->at);
        o->bytes = base + (size_t)(end - first);
    }
}

uint8_t *uvcci_outside_find(const uvcci_outside *o, uint8_t *copies, const void *p) {
    const uint8_t *at = p;
    uint32_t lo = 0, hi = o->count; /* the last range at `at` or before */
    while (hi - lo > 1) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (o->range[mid].at <= at)
            lo = mid;
        else
            hi = mid;
    }
    const uvcci_outside_range *r = hi != 0 ? &o->range[lo] : NULL;
    if (r != NULL && at >= r->at && (size_t)(at - r->at) < r->covered)
        return copies + r->copy + (at - r->at);
    return NULL;
}

void uvcci_outside_copy_in(const uvcci_outside *o, uint8_t *copies) {
    for (uint32_t i = 0; i < o->count; i++)
        memcpy(copies + o->range[i].copy, o->range[i].at, o->range[i].bytes);
}

void uvcci_outside_copy_out(const uvcci_outside *o, const uint8_t *copies) {
    for (uint32_t i = 0; i < o->count; i++)
        if (o->range[i].written)
            memcpy(o->range[i].at, copies + o->range[i].copy, o->range[i].bytes);
}
