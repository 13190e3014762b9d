/* SPDX-License-Identifier: Apache-2.0 */
/* triple_store.c - records of triples, and the store in which a host keeps them (uvcc/triple.h).
 *
 * The store is a list of records and a mark: everything before (run, step) was handed out or is of
 * an older run. The mark never falls, so nothing before it comes in or goes out again, whatever
 * copy of a record somebody still has.
 *
 * The list is a skip list, so that a record finds its place in O(log n) steps: a quarter of the
 * records of a level are linked in the level above it too, those whose key's hash says so. Level 0
 * links all. */
#include "exec/base/triple_record.h"

#include "proto/bytes.h"
#include "proto/crypto.h"
#include "proto/mutant.h"
#include <assert.h>
#include <string.h>

/* ---- the store ---- */

enum { LEVELS = 12 }; /* searches stay short up to some 4^12 records */

typedef struct kept kept;

typedef struct links {
    kept *next[LEVELS]; /* NULL: the end, or a level that the record is not in */
} links;

struct kept {
    links links;
    uvcc_triple_info info;
    uint8_t *bytes; /* SECRET */
};

struct uvcc_triple_store {
    uvcc_allocator alloc;
    uint32_t run, step; /* the mark */
    links list;         /* by run, step and triple_id */
    uint32_t count;
    uint8_t *out; /* what was handed out last */
    size_t out_bytes;
};

enum { STORE_HEAD_BYTES = 4 + 4 + 4 + 4 + 8 };

int uvcc_triple_store_new(uvcc_triple_store **out, const uvcc_allocator *al) {
    if (out == NULL || al == NULL || al->alloc == NULL || al->free == NULL)
        return UVCC_ERR_USAGE;
    uvcc_triple_store *st = al->alloc(al->user, sizeof *st, UVCC_MEM_STATE);
    if (st == NULL)
        return UVCC_ERR_NOMEM;
    *st = (uvcc_triple_store){.alloc = *al};
    *out = st;
    return 0;
}

static void secret_free(const uvcc_triple_store *st, uint8_t *p, size_t bytes) {
    if (p == NULL)
        return;
    uvcci_wipe(p, bytes);
    st->alloc.free(st->alloc.user, p, bytes, UVCC_MEM_SECRET);
}

static void kept_free(const uvcc_triple_store *st, kept *k) {
    secret_free(st, k->bytes, k->info.bytes);
    st->alloc.free(st->alloc.user, k, sizeof *k, UVCC_MEM_STATE);
}

/* Takes the first record out of a list that has one. */
static kept *pop(links *list) {
    kept *k = list->next[0];
    assert(k != NULL);
    for (unsigned i = 0; i < LEVELS && list->next[i] == k; i++)
        list->next[i] = k->links.next[i];
    return k;
}

static void drop_all(const uvcc_triple_store *st, links *list) {
    while (list->next[0] != NULL)
        kept_free(st, pop(list));
}

static void drop_out(uvcc_triple_store *st) {
    secret_free(st, st->out, st->out_bytes);
    st->out = NULL;
    st->out_bytes = 0;
}

void uvcc_triple_store_free(uvcc_triple_store *st) {
    if (st == NULL)
        return;
    drop_all(st, &st->list);
    drop_out(st);
    uvcc_allocator al = st->alloc;
    al.free(al.user, st, sizeof *st, UVCC_MEM_STATE);
}

static int compare_times(uint32_t run_a, uint32_t step_a, uint32_t run_b, uint32_t step_b) {
    if (run_a != run_b)
        return run_a < run_b ? -1 : 1;
    return step_a < step_b ? -1 : step_a > step_b;
}

static int compare_infos(const uvcc_triple_info *a, const uvcc_triple_info *b) {
    int c = compare_times(a->run, a->step, b->run, b->step);
    if (c != 0)
        return c;
    return a->triple_id < b->triple_id ? -1 : a->triple_id > b->triple_id;
}

static bool same_owner(const uvcc_triple_info *a, const uvcc_triple_info *b) {
    return a->party == b->party && memcmp(a->sid_sub, b->sid_sub, 32) == 0 &&
           memcmp(a->program, b->program, 32) == 0;
}

static unsigned levels_of(const uvcc_triple_info *t) {
    uint64_t h = t->triple_id ^ ((uint64_t)t->run << 32 | t->step);
    h = (h ^ h >> 31) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
    unsigned n = 1;
    for (; n < LEVELS && (h & 3) == 0; h >>= 2)
        n++;
    return n;
}

/* What stands before `t`'s place, on every level; the record behind that place, or NULL. */
static kept *find(links *list, const uvcc_triple_info *t, links *before[LEVELS]) {
    links *at = list;
    for (unsigned i = LEVELS; i-- > 0;) {
        while (at->next[i] != NULL && compare_infos(&at->next[i]->info, t) < 0)
            at = &at->next[i]->links;
        before[i] = at;
    }
    return at->next[0];
}

static bool has(links *list, const uvcc_triple_info *t) {
    links *before[LEVELS];
    const kept *k = find(list, t, before);
    return k != NULL && compare_infos(&k->info, t) == 0;
}

/* In its place; it is not there yet. */
static void insert(links *list, kept *k) {
    links *before[LEVELS];
    const kept *behind = find(list, &k->info, before);
    assert(behind == NULL || compare_infos(&behind->info, &k->info) > 0);
    (void)behind;
    const unsigned levels = levels_of(&k->info);
    assert(levels >= 1 && levels <= LEVELS);
    for (unsigned i = 0; i < levels; i++) {
        k->links.next[i] = before[i]->next[i];
        before[i]->next[i] = k;
    }
}

/* A copy of one record, into `fresh`. */
static int take_record(uvcc_triple_store *st, const uint8_t *data, const uvcc_triple_info *t,
                       links *fresh) {
    if (compare_times(t->run, t->step, st->run, st->step) < 0 || has(&st->list, t) || has(fresh, t))
        return UVCC_ERR_STATE;
    kept *k = st->alloc.alloc(st->alloc.user, sizeof *k, UVCC_MEM_STATE);
    if (k == NULL)
        return UVCC_ERR_NOMEM;
    *k = (kept){.info = *t};
    k->bytes = st->alloc.alloc(st->alloc.user, t->bytes, UVCC_MEM_SECRET);
    if (k->bytes == NULL) {
        kept_free(st, k);
        return UVCC_ERR_NOMEM;
    }
    memcpy(k->bytes, data, t->bytes);
    insert(fresh, k);
    return 0;
}

int uvcc_triple_store_add(uvcc_triple_store *st, const uint8_t *data, size_t len) {
    if (st == NULL || (data == NULL && len != 0))
        return UVCC_ERR_USAGE;
    links fresh = {0};
    int rc = 0;
    uint32_t n = 0;
    for (size_t at = 0; rc == 0 && at < len;) {
        uvcc_triple_info t;
        rc = uvcc_triple_read(data + at, len - at, &t);
        const kept *other = st->list.next[0] != NULL ? st->list.next[0] : fresh.next[0];
        if (rc == 0 && other != NULL && !same_owner(&t, &other->info))
            rc = UVCC_ERR_MISMATCH;
        if (rc == 0)
            rc = take_record(st, data + at, &t, &fresh);
        at += t.bytes;
        n++;
    }
    if (rc != 0) {
        drop_all(st, &fresh);
        return rc;
    }
    while (fresh.next[0] != NULL)
        insert(&st->list, pop(&fresh));
    st->count += n;
    return 0;
}

static void drop_first(uvcc_triple_store *st) {
    assert(st->count != 0);
    kept_free(st, pop(&st->list));
    st->count--;
}

/* What is handed out leaves the list and moves the mark, and what is older is destroyed unread: a
 * triple that was out once does not come out again. */
int uvcc_triple_store_take(uvcc_triple_store *st, uint32_t run, uint32_t step, const uint8_t **data,
                           size_t *len) {
    if (st == NULL || data == NULL || len == NULL || step == UINT32_MAX)
        return UVCC_ERR_USAGE;
    if (compare_times(run, step, st->run, st->step) < 0)
        return UVCC_ERR_STATE;
    size_t bytes = 0;
    links *before[LEVELS];
    const kept *wanted = find(&st->list, &(uvcc_triple_info){.run = run, .step = step}, before);
    for (const kept *k = wanted;
         k != NULL && compare_times(k->info.run, k->info.step, run, step) == 0;
         k = k->links.next[0])
        bytes += k->info.bytes;
    uint8_t *handed = NULL;
    if (bytes != 0) {
        handed = st->alloc.alloc(st->alloc.user, bytes, UVCC_MEM_SECRET);
        if (handed == NULL)
            return UVCC_ERR_NOMEM;
    }
    drop_out(st);
    st->out = handed;
    st->out_bytes = bytes;
    while (st->list.next[0] != wanted)
        drop_first(st);
    assert(bytes == 0 || wanted != NULL);
    for (size_t at = 0; at < bytes; drop_first(st)) {
        const kept *k = st->list.next[0];
        memcpy(st->out + at, k->bytes, k->info.bytes);
        at += k->info.bytes;
    }
    st->run = run;
    st->step = step + 1;
    if (UVCCI_MUTANT(43)) {
        st->step = step;
        (void)uvcc_triple_store_add(st, st->out, bytes);
    }
    *data = st->out;
    *len = bytes;
    return bytes != 0 ? 0 : UVCC_ERR_NOT_FOUND;
}

uint32_t uvcc_triple_store_count(const uvcc_triple_store *st) {
    return st == NULL ? 0 : st->count;
}

/* ---- saving ---- */

size_t uvcc_triple_store_saved_bytes(const uvcc_triple_store *st) {
    size_t bytes = STORE_HEAD_BYTES + UVCCI_TRIPLE_HASH_BYTES;
    for (const kept *k = st != NULL ? st->list.next[0] : NULL; k != NULL; k = k->links.next[0])
        bytes += k->info.bytes;
    return bytes;
}

int uvcc_triple_store_save(const uvcc_triple_store *st, uint8_t *out, size_t cap) {
    if (st == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    const size_t bytes = uvcc_triple_store_saved_bytes(st);
    if (cap < bytes)
        return UVCC_ERR_LIMIT;
    uvcci_writer w = uvcci_writer_on(out, bytes);
    uvcci_put(&w, "UVTS", 4);
    uvcci_put8(&w, 1);
    uvcci_put8(&w, 0);
    uvcci_put16(&w, 0);
    uvcci_put32(&w, st->run);
    uvcci_put32(&w, st->step);
    uvcci_put64(&w, bytes - STORE_HEAD_BYTES - UVCCI_TRIPLE_HASH_BYTES);
    for (const kept *k = st->list.next[0]; k != NULL; k = k->links.next[0])
        uvcci_put(&w, k->bytes, k->info.bytes);
    assert(!w.bad && w.len == bytes - UVCCI_TRIPLE_HASH_BYTES);
    uvcci_sha256_once(out, w.len, out + w.len);
    return 0;
}

int uvcc_triple_store_load(uvcc_triple_store **out, const uvcc_allocator *al, const uint8_t *data,
                           size_t len) {
    if (al == NULL)
        return UVCC_ERR_USAGE;
    static const uint8_t start[8] = {'U', 'V', 'T', 'S', 1, 0, 0, 0};
    uvcc_triple_store *st;
    if (out == NULL || (data == NULL && len != 0))
        return UVCC_ERR_USAGE;
    if (len < STORE_HEAD_BYTES + UVCCI_TRIPLE_HASH_BYTES ||
        memcmp(data, start, sizeof start) != 0 ||
        uvcci_ld64(data + 16) != len - STORE_HEAD_BYTES - UVCCI_TRIPLE_HASH_BYTES)
        return UVCC_ERR_FRAME;
    if (!uvcci_hash_follows(data, len - UVCCI_TRIPLE_HASH_BYTES))
        return UVCC_ERR_AUTH;
    int rc = uvcc_triple_store_new(&st, al);
    if (rc != 0)
        return rc;
    st->run = uvcci_ld32(data + 8);
    st->step = uvcci_ld32(data + 12);
    rc = uvcc_triple_store_add(st, data + STORE_HEAD_BYTES,
                               len - STORE_HEAD_BYTES - UVCCI_TRIPLE_HASH_BYTES);
    if (rc != 0) { /* no store writes that */
        uvcc_triple_store_free(st);
        return rc == UVCC_ERR_NOMEM ? rc : UVCC_ERR_FRAME;
    }
    *out = st;
    return 0;
}
