/* SPDX-License-Identifier: Apache-2.0 */
/* A store of triples beside a plain list of what must be in it: whatever is added, handed out,
 * saved and loaded, in any order and number, each record comes out once, in order, whole. Sessions
 * that make and use them are in test_beaver.c. */
#include "support.h"

#include <stdbool.h>

#include "exec/base/triple_record.h"
#include "proto/crypto.h"

enum { RECORD_BYTES = UVCCI_TRIPLE_C_AT + 16 + UVCCI_TRIPLE_HASH_BYTES, MOST = 40000 };

typedef struct place {
    uint32_t run, step;
    uint64_t id;
} place;

/* The model: places in order, and the mark. */
typedef struct model {
    place *list;
    uint32_t count;
    uint64_t mark;
} model;

static uint64_t time_of(place p) {
    return (uint64_t)p.run << 32 | p.step;
}

static bool comes_before(place a, place b) {
    return time_of(a) != time_of(b) ? time_of(a) < time_of(b) : a.id < b.id;
}

static bool same(place a, place b) {
    return time_of(a) == time_of(b) && a.id == b.id;
}

static void record_put(place p, uint8_t out[RECORD_BYTES]) {
    const uvcc_triple_info t = {.party = 2,
                                .run = p.run,
                                .step = p.step,
                                .triple_id = p.id,
                                .rows = {1, 1, 1},
                                .cols = {1, 1, 1}};
    uvcci_triple_head_put(&t, out);
    for (size_t i = UVCCI_TRIPLE_KEYS_AT; i < RECORD_BYTES - UVCCI_TRIPLE_HASH_BYTES; i++)
        out[i] = (uint8_t)(i * (p.id + 1) + p.step);
    uvcci_sha256_once(out, RECORD_BYTES - UVCCI_TRIPLE_HASH_BYTES,
                      out + RECORD_BYTES - UVCCI_TRIPLE_HASH_BYTES);
}

/* Whether the model takes it. */
static bool model_add(model *m, place p) {
    uint32_t at = 0;
    while (at < m->count && comes_before(m->list[at], p))
        at++;
    if (time_of(p) < m->mark || (at < m->count && same(m->list[at], p)))
        return false;
    memmove(m->list + at + 1, m->list + at, (m->count - at) * sizeof m->list[0]);
    m->list[at] = p;
    m->count++;
    return true;
}

static void assert_records(const uint8_t *data, size_t len, const place *list, uint32_t count) {
    uint8_t want[RECORD_BYTES];
    assert_int_equal(len, (size_t)count * RECORD_BYTES);
    for (uint32_t i = 0; i < count; i++) {
        record_put(list[i], want);
        assert_memory_equal(data + (size_t)i * RECORD_BYTES, want, RECORD_BYTES);
    }
}

/* Hands out a step of both. */
static void take(uvcc_triple_store *st, model *m, uint32_t run, uint32_t step) {
    const uint64_t now = (uint64_t)run << 32 | step;
    const uint8_t *data;
    size_t len;
    const int rc = uvcc_triple_store_take(st, run, step, &data, &len);
    if (now < m->mark) {
        assert_int_equal(rc, UVCC_ERR_STATE);
        return;
    }
    uint32_t first = 0, end;
    while (first < m->count && time_of(m->list[first]) < now)
        first++;
    for (end = first; end < m->count && time_of(m->list[end]) == now;)
        end++;
    assert_int_equal(rc, end > first ? 0 : UVCC_ERR_NOT_FOUND);
    assert_records(data, len, m->list + first, end - first);
    m->count -= end;
    memmove(m->list, m->list + end, m->count * sizeof m->list[0]);
    m->mark = now + 1;
}

/* The next step, one after it, now and then one that is gone or of another run. */
static void take_near(uvcc_triple_store *st, model *m, uint64_t r) {
    const uint32_t run = (uint32_t)(m->mark >> 32), step = (uint32_t)m->mark;
    take(st, m, run + (r % 64 == 0),
         step > 0 && r / 64 % 8 == 0 ? step - 1 : step + (uint32_t)(r / 512 % 3));
}

/* What it saves is the model, in order; what is loaded from it takes its place. */
static uvcc_triple_store *save_and_load(uvcc_triple_store *st, const model *m,
                                        const uvcc_allocator *al) {
    const size_t len = uvcc_triple_store_saved_bytes(st);
    uint8_t *bytes = malloc(len);
    assert_non_null(bytes);
    assert_int_equal(uvcc_triple_store_save(st, bytes, len), 0);
    assert_records(bytes + 24, len - 24 - 32, m->list, m->count);
    uvcc_triple_store_free(st);
    assert_int_equal(uvcc_triple_store_load(&st, al, bytes, len), 0);
    free(bytes);
    return st;
}

/* Up to four records in one call: all or none. */
static void add_some(uvcc_triple_store *st, model *m, uint64_t *rng) {
    uint8_t bytes[4 * RECORD_BYTES];
    place some[4];
    const uint32_t n = 1 + (uint32_t)(test_rand(rng) % 4);
    const uint32_t run = (uint32_t)(m->mark >> 32), step = (uint32_t)m->mark;
    bool fits = true;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t r = test_rand(rng);
        some[i] = (place){run + (r % 16 == 0), step + (uint32_t)(r >> 8) % 4, r >> 16 & 63};
        if (r % 32 == 1 && step > 0)
            some[i].step = step - 1;
        record_put(some[i], bytes + i * RECORD_BYTES);
    }
    const uint32_t before = m->count;
    place *old = malloc((before + 1) * sizeof *old);
    assert_non_null(old);
    memcpy(old, m->list, before * sizeof *old);
    for (uint32_t i = 0; i < n; i++)
        fits = fits && model_add(m, some[i]);
    if (!fits) {
        memcpy(m->list, old, before * sizeof *old);
        m->count = before;
    }
    free(old);
    assert_int_equal(uvcc_triple_store_add(st, bytes, n * RECORD_BYTES), fits ? 0 : UVCC_ERR_STATE);
}

static void does_as_a_list(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        test_alloc mem = {0};
        uvcc_allocator al = test_allocator(&mem);
        uint64_t rng = seed;
        model m = {.list = malloc(2000 * sizeof(place))};
        uvcc_triple_store *st;
        assert_non_null(m.list);
        assert_int_equal(uvcc_triple_store_new(&st, &al), 0);
        for (unsigned i = 0; i < 400; i++) {
            const uint64_t what = test_rand(&rng);
            if (what % 32 == 0)
                st = save_and_load(st, &m, &al);
            else if (what % 16 == 1)
                take_near(st, &m, what >> 8);
            else
                add_some(st, &m, &rng);
            assert_int_equal(uvcc_triple_store_count(st), m.count);
        }
        st = save_and_load(st, &m, &al);
        uvcc_triple_store_free(st);
        free(m.list);
        assert_int_equal(mem.live_blocks, 0);
    }
}

/* Many, one by one, in whatever order: this takes long where a place is searched from one end. */
static void takes_many(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    place *list = malloc(MOST * sizeof *list);
    assert_non_null(list);
    for (uint32_t i = 0; i < MOST; i++)
        list[i] = (place){1, i / (MOST / 4), i};
    for (unsigned order = 0; order < 3; order++) { /* ascending, descending, mixed */
        uvcc_triple_store *st;
        assert_int_equal(uvcc_triple_store_new(&st, &al), 0);
        for (uint32_t i = 0; i < MOST; i++) {
            const uint32_t at = order == 0   ? i
                                : order == 1 ? MOST - 1 - i
                                             : (uint32_t)((uint64_t)i * 7919 % MOST);
            uint8_t bytes[RECORD_BYTES];
            record_put(list[at], bytes);
            assert_int_equal(uvcc_triple_store_add(st, bytes, sizeof bytes), 0);
        }
        model m = {.list = malloc(MOST * sizeof *list), .count = MOST};
        assert_non_null(m.list);
        memcpy(m.list, list, MOST * sizeof *list);
        st = save_and_load(st, &m, &al);
        for (uint32_t step = 0; step < 4; step++)
            take(st, &m, 1, step);
        assert_int_equal(uvcc_triple_store_count(st), 0);
        free(m.list);
        uvcc_triple_store_free(st);
    }
    free(list);
    assert_int_equal(mem.live_blocks, 0);
}

/* Every byte of what a record is, with the checksum that goes with it. */
static void another_head_is_refused(void **state) {
    uint8_t bytes[RECORD_BYTES];
    uvcc_triple_info info;
    (void)state;
    for (size_t at = 0; at < 8; at++) {
        record_put((place){.run = 1, .step = 2, .id = 3}, bytes);
        assert_int_equal(uvcc_triple_read(bytes, sizeof bytes, &info), 0);
        bytes[at] ^= at == 5 ? 1 : 0x10; /* party 2: 3 is none */
        uvcci_sha256_once(bytes, RECORD_BYTES - UVCCI_TRIPLE_HASH_BYTES,
                          bytes + RECORD_BYTES - UVCCI_TRIPLE_HASH_BYTES);
        assert_int_equal(uvcc_triple_read(bytes, sizeof bytes, &info), UVCC_ERR_FRAME);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_as_a_list),
        cmocka_unit_test(takes_many),
        cmocka_unit_test(another_head_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
