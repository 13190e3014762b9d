/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include "proto/bytes.h"
#include "proto/optable.h"

/* sid_sub of replica 0, stage 0, rank 0 in ids.json. */
static const char sub_hex[] = "e061b8c68c210992edfffcc46191b7e8149b6f489cb78f215ee5067b7507e806";

typedef struct table {
    uvcci_optable t;
    uint8_t sub[32];
} table;

static table table_new(uint32_t count) {
    table x = {.t = {.count = count, .index_cap = 1}};
    while (x.t.index_cap < 2 * count)
        x.t.index_cap *= 2;
    x.t.rows = calloc(count + 1, sizeof *x.t.rows);
    x.t.index = malloc(x.t.index_cap * sizeof *x.t.index);
    assert_non_null(x.t.rows);
    assert_non_null(x.t.index);
    memset(x.t.index, 0xA5, x.t.index_cap * sizeof *x.t.index);
    test_hex_n(sub_hex, x.sub, 32);
    return x;
}

static void table_free(table *x) {
    free(x->t.rows);
    free(x->t.index);
}

/* Rows of `count` in canonical order: ops with 1, 2 or 3 batches, over phases and microbatches. */
static void fill(table *x) {
    uint32_t n = 0;
    for (uint32_t op = 0; n < x->t.count; op++)
        for (uint32_t b = 0; b <= op % 3 && n < x->t.count; b++)
            x->t.rows[n++] = (uvcci_oprow){.phase = (uint8_t)(op >> 20),
                                           .mb = (uint16_t)((op >> 10) & 1023),
                                           .k = (uint16_t)((op & 1023) * 37),
                                           .b = (uint16_t)b,
                                           .attempt = 77,
                                           .op_id = 77,
                                           .ordinal = 77};
}

static void shuffle(table *x, uint64_t seed) {
    for (uint32_t i = x->t.count; i > 1; i--) {
        uint32_t j = (uint32_t)(test_rand(&seed) % i);
        uvcci_oprow swap = x->t.rows[i - 1];
        x->t.rows[i - 1] = x->t.rows[j];
        x->t.rows[j] = swap;
    }
}

static int build(table *x, uint32_t step) {
    return uvcci_optable_build(&x->t, x->sub, step, NULL, NULL);
}

static bool same_rows(const table *a, const table *b) {
    if (a->t.count != b->t.count)
        return false;
    for (uint32_t i = 0; i < a->t.count; i++) {
        const uvcci_oprow *p = &a->t.rows[i], *q = &b->t.rows[i];
        if (p->phase != q->phase || p->mb != q->mb || p->k != q->k || p->b != q->b ||
            p->attempt != q->attempt || p->op_id != q->op_id || p->ordinal != q->ordinal)
            return false;
    }
    return true;
}

static int by_id(const void *a, const void *b) {
    const uvcci_oprow *p = *(const uvcci_oprow *const *)a, *q = *(const uvcci_oprow *const *)b;
    return p->op_id < q->op_id ? -1 : p->op_id > q->op_id;
}

/* Everything that a built table promises. */
static void check_built(const table *x, uint32_t step) {
    const uvcci_oprow **sorted = malloc((x->t.count + 1) * sizeof *sorted);
    uint32_t ordinal = 0;
    assert_non_null(sorted);
    for (uint32_t i = 0; i < x->t.count; i++) {
        const uvcci_oprow *row = &x->t.rows[i];
        if (i > 0 && row->b == 0)
            ordinal++;
        assert_int_equal(row->ordinal, ordinal);
        assert_int_equal(row->op_id, uvcci_op_id(x->sub, step, row->phase, row->mb, row->k, row->b,
                                                 row->attempt));
        assert_ptr_equal(uvcci_optable_find(&x->t, row->op_id), row);
        sorted[i] = row;
    }
    qsort(sorted, x->t.count, sizeof *sorted, by_id);
    for (uint32_t i = 0; i < x->t.count; i++)
        assert_true(sorted[i]->op_id != (i > 0 ? sorted[i - 1]->op_id : 0));
    free(sorted);
}

static void any_order_gives_the_same_table(void **state) {
    (void)state;
    for (uint32_t count = 0; count < 60; count++) {
        table a = table_new(count), b = table_new(count);
        fill(&a);
        assert_int_equal(build(&a, 5), 0);
        check_built(&a, 5);
        for (uint64_t seed = 0; seed < 5; seed++) {
            fill(&b);
            shuffle(&b, seed);
            assert_int_equal(build(&b, 5), 0);
            assert_true(same_rows(&a, &b));
        }
        table_free(&a);
        table_free(&b);
    }
}

static void lookups_of_absent_rows(void **state) {
    (void)state;
    table x = table_new(30);
    uint64_t seed = 1;
    fill(&x);
    assert_int_equal(build(&x, 1), 0);
    assert_null(uvcci_optable_find(&x.t, 0));
    for (unsigned i = 0; i < 1000; i++) {
        uint32_t id = (uint32_t)test_rand(&seed);
        const uvcci_oprow *row = uvcci_optable_find(&x.t, id);
        assert_true(row == NULL || row->op_id == id);
    }
    x.t.count = 0;
    assert_null(uvcci_optable_find(&x.t, x.t.rows[0].op_id));
    table_free(&x);
}

static void bad_rows_are_refused(void **state) {
    (void)state;
    static const uvcci_oprow bad[][3] = {
        {{.k = 1}, {.k = 2}, {.k = 1}},                          /* twice */
        {{.k = 1}, {.k = 1, .b = 1}, {.k = 1, .b = 1}},          /* twice, not the first batch */
        {{.k = 1}, {.k = 1, .b = 2}, {.k = 2}},                  /* a gap */
        {{.k = 1, .b = 1}, {.k = 2}, {.k = 3}},                  /* no first batch, first op */
        {{.k = 1}, {.k = 2, .b = 1}, {.k = 3}},                  /* no first batch, later op */
        {{.k = 1}, {.mb = 1, .k = 1, .b = 1}, {.k = 1, .b = 2}}, /* batches of another op */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        table x = table_new(3);
        memcpy(x.t.rows, bad[i], sizeof bad[i]);
        assert_int_equal(build(&x, 0), UVCC_ERR_USAGE);
        table_free(&x);
    }
    table x = table_new(4);
    fill(&x);
    x.t.index_cap = 4; /* more than half full */
    assert_int_equal(build(&x, 0), UVCC_ERR_USAGE);
    x.t.index_cap = 12; /* not a power of two */
    assert_int_equal(build(&x, 0), UVCC_ERR_USAGE);
    x.t.count = (1u << 31) + 1; /* 2 * count wraps in 32 bits; the rows must not be touched */
    x.t.index_cap = 1u << 31;
    assert_int_equal(build(&x, 0), UVCC_ERR_USAGE);
    table_free(&x);
}

/* 65536 batches of one op, then the op whose key follows directly. */
static void all_batches_of_an_op(void **state) {
    (void)state;
    table x = table_new(65537);
    for (uint32_t i = 0; i < 65536; i++)
        x.t.rows[i] = (uvcci_oprow){.k = 9, .b = (uint16_t)i};
    x.t.rows[65536] = (uvcci_oprow){.k = 10};
    assert_int_equal(build(&x, 0), 0);
    check_built(&x, 0);
    table_free(&x);
}

typedef struct refusal {
    uint16_t k;
    unsigned times, calls;
} refusal;

static bool refuse(void *user, const uvcci_oprow *row) {
    refusal *r = user;
    r->calls++;
    return row->k == r->k && row->attempt < r->times;
}

static bool refuse_always(void *user, const uvcci_oprow *row) {
    (void)user;
    return row->k == 37 * 3;
}

static void veto_raises_the_attempt(void **state) {
    (void)state;
    table x = table_new(40), plain = table_new(40);
    uint8_t h[32], h_plain[32];
    fill(&x);
    fill(&plain);
    shuffle(&x, 3);
    assert_int_equal(build(&plain, 2), 0);
    refusal r = {.k = 37 * 5, .times = 3};
    assert_int_equal(uvcci_optable_build(&x.t, x.sub, 2, refuse, &r), 0);
    check_built(&x, 2);
    for (uint32_t i = 0; i < x.t.count; i++) {
        bool vetoed = x.t.rows[i].phase == 0 && x.t.rows[i].k == r.k;
        assert_int_equal(x.t.rows[i].attempt, vetoed ? 3 : 0);
        assert_true(vetoed || x.t.rows[i].op_id == plain.t.rows[i].op_id);
    }
    assert_int_equal(r.calls, 40 + 3 * 3); /* the op has three batches */
    uvcci_optable_hash(&x.t, h);
    uvcci_optable_hash(&plain.t, h_plain);
    assert_memory_not_equal(h, h_plain, 32);
    assert_int_equal(uvcci_optable_build(&x.t, x.sub, 2, refuse_always, NULL), UVCC_ERR_LIMIT);
    table_free(&x);
    table_free(&plain);
}

/* A forced collision: the first choice of one row is treated as if an earlier row had it. */
static bool refuse_one_id(void *user, const uvcci_oprow *row) {
    return row->op_id == *(const uint32_t *)user;
}

static void forced_collision(void **state) {
    (void)state;
    table x = table_new(30);
    fill(&x);
    assert_int_equal(build(&x, 8), 0);
    uint32_t taken = x.t.rows[17].op_id;
    for (uint64_t seed = 0; seed < 4; seed++) {
        shuffle(&x, seed);
        assert_int_equal(uvcci_optable_build(&x.t, x.sub, 8, refuse_one_id, &taken), 0);
        check_built(&x, 8);
        assert_null(uvcci_optable_find(&x.t, taken));
        for (uint32_t i = 0; i < x.t.count; i++)
            assert_int_equal(x.t.rows[i].attempt, i == 17);
    }
    table_free(&x);
}

/* A real one: 100,000 ids of 32 bits have a collision in most steps. */
static void natural_collision(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    table x = table_new(COUNT), y = table_new(COUNT);
    uint32_t step = 0, salted = 0;
    for (; salted == 0; step++) {
        assert_true(step < 20);
        fill(&x);
        assert_int_equal(build(&x, step), 0);
        for (uint32_t i = 0; i < COUNT; i++)
            if (x.t.rows[i].attempt != 0)
                salted = i;
    }
    step--;
    check_built(&x, step);
    /* It is re-salted once, and because an earlier row holds its first id. */
    const uvcci_oprow *row = &x.t.rows[salted];
    assert_int_equal(row->attempt, 1);
    uint32_t first_id = uvcci_op_id(x.sub, step, row->phase, row->mb, row->k, row->b, 0);
    const uvcci_oprow *holder = uvcci_optable_find(&x.t, first_id);
    assert_non_null(holder);
    assert_true(holder < row);
    for (uint64_t seed = 0; seed < 2; seed++) {
        fill(&y);
        shuffle(&y, seed);
        assert_int_equal(build(&y, step), 0);
        assert_true(same_rows(&x, &y));
    }
    uint8_t h_x[32], h_y[32];
    uvcci_optable_hash(&x.t, h_x);
    uvcci_optable_hash(&y.t, h_y);
    assert_memory_equal(h_x, h_y, 32);
    table_free(&x);
    table_free(&y);
}

/* Found by search: this row's first id is 0, which is no id. */
static void zero_is_no_id(void **state) {
    (void)state;
    table x = table_new(1);
    x.t.rows[0] = (uvcci_oprow){.phase = 0, .mb = 473, .k = 24442};
    assert_int_equal(uvcci_op_id(x.sub, 98, 0, 473, 24442, 0, 0), 0);
    assert_int_equal(build(&x, 98), 0);
    assert_int_equal(x.t.rows[0].attempt, 1);
    check_built(&x, 98);
    table_free(&x);
}

static void hash_is_over_the_rows(void **state) {
    (void)state;
    table x = table_new(7);
    uint8_t bytes[7 * 13], want[32], got[32];
    fill(&x);
    shuffle(&x, 11);
    assert_int_equal(build(&x, 4), 0);
    for (uint32_t i = 0; i < 7; i++) {
        uint8_t *p = bytes + 13 * i;
        p[0] = x.t.rows[i].phase;
        uvcci_st16(p + 1, x.t.rows[i].mb);
        uvcci_st16(p + 3, x.t.rows[i].k);
        uvcci_st16(p + 5, x.t.rows[i].b);
        uvcci_st16(p + 7, x.t.rows[i].attempt);
        uvcci_st32(p + 9, x.t.rows[i].op_id);
    }
    uvcci_sha256_once(bytes, sizeof bytes, want);
    uvcci_optable_hash(&x.t, got);
    assert_memory_equal(got, want, 32);
    x.t.count = 0;
    uvcci_sha256_once("", 0, want);
    uvcci_optable_hash(&x.t, got);
    assert_memory_equal(got, want, 32);
    table_free(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_gives_the_same_table),
        cmocka_unit_test(lookups_of_absent_rows),
        cmocka_unit_test(bad_rows_are_refused),
        cmocka_unit_test(all_batches_of_an_op),
        cmocka_unit_test(veto_raises_the_attempt),
        cmocka_unit_test(forced_collision),
        cmocka_unit_test(natural_collision),
        cmocka_unit_test(zero_is_no_id),
        cmocka_unit_test(hash_is_over_the_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
