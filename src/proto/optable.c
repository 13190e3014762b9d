/* SPDX-License-Identifier: Apache-2.0 */
/* optable.c - the op table of a step (wire.md 1).
 *
 * Build sorts the rows by (phase, mb, k, b), checks them, and walks them once: each row takes the
 * first attempt whose id is non-zero, unused by the rows before it, and not vetoed. The result is a
 * function of the set of rows, so all parties get the same table.
 *
 * Invariants after a successful build: rows ascend strictly, b is dense per op, op ids are distinct
 * and non-zero, and index holds exactly them. The index probes linearly and is at most half full,
 * so every search ends. */
#include "proto/optable.h"

#include <assert.h>
#include <string.h>
#include <uvcc/types.h>

#include "proto/bytes.h"
#include "proto/sort.h"

static uint64_t key_of(const uvcci_oprow *row) {
    return (uint64_t)row->phase << 48 | (uint64_t)row->mb << 32 | (uint64_t)row->k << 16 | row->b;
}

static int compare_rows(const void *a, const void *b) {
    const uint64_t x = key_of(a), y = key_of(b);
    return x < y ? -1 : x > y;
}

/* Numbers the ops; false if a row is twice there or the b of an op are not 0, 1, 2, ... */
static bool number_rows(uvcci_oprow *rows, uint32_t n) {
    uint32_t ops = 0;
    uint64_t dense_next = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t key = key_of(&rows[i]);
        if (rows[i].b == 0 && (i == 0 || key != key_of(&rows[i - 1])))
            ops++;
        else if (i == 0 || key != dense_next)
            return false;
        dense_next = key + 1;
        rows[i].ordinal = ops - 1;
    }
    return true;
}

/* The slot of op_id, or the empty slot where it would go. Ids are hashes: their low bits spread. */
static uint32_t slot_of(const uvcci_optable *t, uint32_t op_id) {
    uint32_t mask = t->index_cap - 1;
    assert(t->index_cap >= 2 * (uint64_t)t->count && (t->index_cap & mask) == 0);
    uint32_t slot = op_id & mask;
    while (t->index[slot] != 0 && t->rows[t->index[slot] - 1].op_id != op_id)
        slot = (slot + 1) & mask;
    return slot;
}

static int give_id(uvcci_optable *t, uint32_t i, const uint8_t sid_sub[32], uint32_t step,
                   bool (*veto)(void *user, const uvcci_oprow *row), void *user) {
    uvcci_oprow *row = &t->rows[i];
    for (uint32_t attempt = 0; attempt <= UINT16_MAX; attempt++) {
        row->attempt = (uint16_t)attempt;
        row->op_id = uvcci_op_id(sid_sub, step, row->phase, row->mb, row->k, row->b, row->attempt);
        if (row->op_id == 0)
            continue;
        uint32_t slot = slot_of(t, row->op_id);
        if (t->index[slot] != 0 || (veto != NULL && veto(user, row)))
            continue;
        t->index[slot] = i + 1;
        return 0;
    }
    return UVCC_ERR_LIMIT;
}

int uvcci_optable_build(uvcci_optable *t, const uint8_t sid_sub[32], uint32_t step,
                        bool (*veto)(void *user, const uvcci_oprow *row), void *user) {
    uint64_t cap = t->index_cap;
    if (cap < 2 * (uint64_t)t->count || (cap & (cap - 1)) != 0)
        return UVCC_ERR_USAGE;
    if (t->count == 0)
        return 0;
    uvcci_sort(t->rows, t->count, sizeof t->rows[0], compare_rows);
    if (!number_rows(t->rows, t->count))
        return UVCC_ERR_USAGE;
    memset(t->index, 0, (size_t)t->index_cap * sizeof t->index[0]);
    for (uint32_t i = 0; i < t->count; i++) {
        int rc = give_id(t, i, sid_sub, step, veto, user);
        if (rc != 0)
            return rc;
    }
    return 0;
}

const uvcci_oprow *uvcci_optable_find(const uvcci_optable *t, uint32_t op_id) {
    if (t->count == 0)
        return NULL;
    uint32_t slot = slot_of(t, op_id);
    return t->index[slot] != 0 ? &t->rows[t->index[slot] - 1] : NULL;
}

void uvcci_oprow_put(const uvcci_oprow *row, uint8_t out[UVCCI_OPROW_BYTES]) {
    uvcci_writer w = uvcci_writer_on(out, UVCCI_OPROW_BYTES);
    uvcci_put8(&w, row->phase);
    uvcci_put16(&w, row->mb);
    uvcci_put16(&w, row->k);
    uvcci_put16(&w, row->b);
    uvcci_put16(&w, row->attempt);
    uvcci_put32(&w, row->op_id);
    assert(!w.bad && w.len == UVCCI_OPROW_BYTES);
}

void uvcci_oprow_get(uvcci_oprow *row, const uint8_t in[UVCCI_OPROW_BYTES]) {
    uvcci_reader r = uvcci_reader_on(in, UVCCI_OPROW_BYTES);
    *row = (uvcci_oprow){0};
    row->phase = uvcci_get8(&r);
    row->mb = uvcci_get16(&r);
    row->k = uvcci_get16(&r);
    row->b = uvcci_get16(&r);
    row->attempt = uvcci_get16(&r);
    row->op_id = uvcci_get32(&r);
}

void uvcci_optable_hash(const uvcci_optable *t, uint8_t out[32]) {
    uvcci_sha256 h;
    uvcci_sha256_init(&h);
    for (uint32_t i = 0; i < t->count; i++) {
        uint8_t buf[UVCCI_OPROW_BYTES];
        uvcci_oprow_put(&t->rows[i], buf);
        uvcci_sha256_update(&h, buf, sizeof buf);
    }
    uvcci_sha256_final(&h, out);
}
