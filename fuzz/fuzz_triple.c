/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_triple.c - stores of triples as a program of inputs: records are made, added, handed out,
 * saved and loaded, in any order, also from old copies, damaged and cut; beside a model that knows
 * what may come out. What was handed out, or is of an older run or step, never does again. Any
 * bytes at all are refused, or are a store that saves to itself. */
#include "common.h"

#include "exec/base/triple_record.h"
#include "proto/crypto.h"

enum { ACTIONS_MAX = 60, MADE_MAX = 16, RECORD_MAX = 300 };

typedef struct record {
    uvcc_triple_info info;
    uint8_t bytes[RECORD_MAX];
    bool here; /* in the store */
} record;

typedef struct world {
    fuzz_mem mem;
    uvcc_triple_store *st;
    record made[MADE_MAX];
    uint32_t count;
    uint64_t mark;  /* run, step */
    uint8_t *saved; /* an old copy, with what the model said then */
    size_t saved_len;
    uint64_t saved_mark;
    bool saved_here[MADE_MAX];
} world;

static uint64_t time_of(const uvcc_triple_info *t) {
    return (uint64_t)t->run << 32 | t->step;
}

static void make(world *w, fuzz_in *in) {
    if (w->count == MADE_MAX)
        return;
    record *r = &w->made[w->count++];
    const uint8_t what = fuzz_u8(in);
    r->info = (uvcc_triple_info){.party = 1,
                                 .run = what & 3,
                                 .step = what >> 2 & 3,
                                 .triple_id = what >> 4 & 3,
                                 .rows = {1, 1, 1},
                                 .cols = {1, 1, 1 + (what >> 6 & 1)}};
    const size_t len = uvcci_triple_bytes(r->info.cols[2]);
    FUZZ_CHECK(len <= RECORD_MAX);
    r->info.bytes = len;
    uvcci_triple_head_put(&r->info, r->bytes);
    for (size_t i = UVCCI_TRIPLE_KEYS_AT; i < len - 32; i++)
        r->bytes[i] = (uint8_t)(i * what);
    uvcci_sha256_once(r->bytes, len - 32, r->bytes + len - 32);
}

static bool same_place(const uvcc_triple_info *a, const uvcc_triple_info *b) {
    return time_of(a) == time_of(b) && a->triple_id == b->triple_id;
}

/* One record, or two. */
static void add(world *w, fuzz_in *in) {
    if (w->count == 0)
        return;
    record *a = &w->made[fuzz_u8(in) % w->count], *b = &w->made[fuzz_u8(in) % w->count];
    const bool two = fuzz_u8(in) & 1;
    const size_t len = a->info.bytes + (two ? b->info.bytes : 0);
    uint8_t *bytes = malloc(len);
    FUZZ_CHECK(bytes != NULL);
    memcpy(bytes, a->bytes, a->info.bytes);
    if (two)
        memcpy(bytes + a->info.bytes, b->bytes, b->info.bytes);
    bool fits = time_of(&a->info) >= w->mark && (!two || time_of(&b->info) >= w->mark) &&
                (!two || !same_place(&a->info, &b->info));
    for (uint32_t i = 0; i < w->count; i++)
        fits = fits && !(w->made[i].here && (same_place(&w->made[i].info, &a->info) ||
                                             (two && same_place(&w->made[i].info, &b->info))));
    const uint32_t before = uvcc_triple_store_count(w->st);
    const int rc = uvcc_triple_store_add(w->st, bytes, len);
    free(bytes);
    FUZZ_CHECK(rc == (fits ? 0 : UVCC_ERR_STATE) || rc == UVCC_ERR_NOMEM);
    FUZZ_CHECK(rc == 0 || uvcc_triple_store_count(w->st) == before);
    a->here |= rc == 0;
    b->here |= rc == 0 && two;
}

static void take(world *w, fuzz_in *in) {
    const uint8_t what = fuzz_u8(in);
    const uint32_t run = what & 3, step = what >> 2 & 3;
    const uint64_t now = (uint64_t)run << 32 | step;
    const uint8_t *data;
    size_t len, want = 0;
    const int rc = uvcc_triple_store_take(w->st, run, step, &data, &len);
    if (now < w->mark) {
        FUZZ_CHECK(rc == UVCC_ERR_STATE);
        return;
    }
    if (rc == UVCC_ERR_NOMEM)
        return;
    for (uint32_t i = 0; i < w->count; i++) {
        record *r = &w->made[i];
        const bool wanted = r->here && time_of(&r->info) == now;
        bool found = false;
        for (size_t at = 0; at < len;) {
            uvcc_triple_info t;
            FUZZ_CHECK(uvcc_triple_read(data + at, len - at, &t) == 0);
            found |= t.bytes == r->info.bytes && memcmp(data + at, r->bytes, t.bytes) == 0;
            at += t.bytes;
        }
        FUZZ_CHECK(!wanted || found);
        want += wanted ? r->info.bytes : 0;
        r->here = r->here && time_of(&r->info) > now;
    }
    FUZZ_CHECK(len == want && rc == (want != 0 ? 0 : UVCC_ERR_NOT_FOUND));
    w->mark = now + 1;
}

static void save(world *w) {
    free(w->saved);
    w->saved_len = uvcc_triple_store_saved_bytes(w->st);
    w->saved = malloc(w->saved_len);
    FUZZ_CHECK(w->saved != NULL && uvcc_triple_store_save(w->st, w->saved, w->saved_len) == 0 &&
               uvcc_triple_store_save(w->st, w->saved, w->saved_len - 1) == UVCC_ERR_LIMIT);
    w->saved_mark = w->mark;
    for (uint32_t i = 0; i < w->count; i++)
        w->saved_here[i] = w->made[i].here;
}

/* The last copy comes back, perhaps damaged. */
static void load(world *w, fuzz_in *in) {
    if (w->saved == NULL)
        return;
    const uint8_t how = fuzz_u8(in);
    size_t len = w->saved_len;
    uint8_t *bytes = fuzz_copy(w->saved, len);
    if (how & 1)
        bytes[fuzz_u16(in) % len] ^= (uint8_t)(1 + how % 255);
    if (how & 2)
        len = fuzz_u16(in) % len;
    const bool damaged = len != w->saved_len || memcmp(bytes, w->saved, len) != 0;
    uvcc_allocator al = fuzz_allocator(&w->mem);
    uvcc_triple_store *st;
    const int rc = uvcc_triple_store_load(&st, &al, bytes, len);
    free(bytes);
    FUZZ_CHECK(damaged ? rc == UVCC_ERR_FRAME || rc == UVCC_ERR_AUTH
                       : rc == 0 || rc == UVCC_ERR_NOMEM);
    if (rc != 0)
        return;
    uvcc_triple_store_free(w->st);
    w->st = st;
    w->mark = w->saved_mark;
    for (uint32_t i = 0; i < w->count; i++)
        w->made[i].here = w->saved_here[i];
}

/* Any bytes, and the same with a digest that is right. */
static void any_bytes(const uint8_t *data, size_t size) {
    fuzz_mem mem = {0};
    uvcc_allocator al = fuzz_allocator(&mem);
    for (unsigned fixed = 0; fixed < 2; fixed++) {
        uint8_t *copy = fuzz_copy(data, size);
        uvcc_triple_info t;
        uvcc_triple_store *st;
        if (fixed == 1 && size > 32)
            uvcci_sha256_once(copy, size - 32, copy + size - 32);
        if (uvcc_triple_read(copy, size, &t) == 0)
            FUZZ_CHECK(t.bytes <= size && t.bytes == uvcci_triple_bytes(uvcci_triple_elems(&t, 2)));
        if (uvcc_triple_store_load(&st, &al, copy, size) == 0) {
            const size_t len = uvcc_triple_store_saved_bytes(st);
            uint8_t *again = malloc(len);
            FUZZ_CHECK(len == size && again != NULL &&
                       uvcc_triple_store_save(st, again, len) == 0 && memcmp(again, copy, 24) == 0);
            free(again);
            uvcc_triple_store_free(st);
        }
        free(copy);
        FUZZ_CHECK(mem.live_blocks == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_in in = {data, size};
    any_bytes(data, size);
    world *w = calloc(1, sizeof *w);
    FUZZ_CHECK(w != NULL);
    uvcc_allocator al = fuzz_allocator(&w->mem);
    FUZZ_CHECK(uvcc_triple_store_new(&w->st, &al) == 0);
    for (unsigned i = 0; i < ACTIONS_MAX && in.left != 0; i++) {
        const uint8_t action = fuzz_u8(&in);
        w->mem.fail_in = action & 128 ? 1 + (action >> 4 & 7) : 0;
        switch (action % 7) {
        case 0:
        case 1:
            make(w, &in);
            break;
        case 2:
        case 3:
            add(w, &in);
            break;
        case 4:
            take(w, &in);
            break;
        case 5:
            save(w);
            break;
        default:
            load(w, &in);
            break;
        }
        w->mem.fail_in = 0;
        uint32_t here = 0;
        for (uint32_t k = 0; k < w->count; k++)
            here += w->made[k].here;
        FUZZ_CHECK(uvcc_triple_store_count(w->st) == here);
    }
    uvcc_triple_store_free(w->st);
    FUZZ_CHECK(w->mem.live_blocks == 0);
    free(w->saved);
    free(w);
    return 0;
}
