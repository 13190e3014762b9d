/* SPDX-License-Identifier: Apache-2.0 */
/* Products on Beaver triples in tiles: how they are cut, results of every kind of product and
 * tiling beside the plaintext twin, ids and words, the memory that tiles take, tiles that are kept
 * and given. */
#include "triangle.h"

#include "exec/ops/beaver_state.h"
#include "exec/ops/triples.h"
#include "exec/program/plan_make.h"
#include "exec/session/instance.h"
#include "proto/bytes.h"
#include <uvcc/loopback.h>
#include <uvcc/prg_uses.h>

enum { SCALE = 6, IN = 1, OUT = 100 };

/* ---- programs ---- */

typedef struct maker {
    uvcc_program *p;
    uint16_t k;
    uint32_t outputs;
    uint32_t tensor[64];
} maker;

static uint32_t tensor(maker *m, uint32_t rows, uint32_t cols, uint8_t bits, uint8_t scale) {
    static unsigned n;
    char name[16];
    snprintf(name, sizeof name, "t%u", n++);
    return test_tensor(m->p, name, rows, cols, bits, scale, UVCC_TRANSIENT);
}

static uint32_t input(maker *m, uint32_t rows, uint32_t cols) {
    const uint32_t t = tensor(m, rows, cols, 8, SCALE);
    assert_true(uvcc_program_input(m->p, IN + m->outputs++, t, (uint8_t)(t % 3)) >= 0);
    return t;
}

static void try_op(maker *m, uvcc_op_desc d, uint32_t a, uint32_t b, uint32_t out) {
    d.k = m->k++;
    d.in_count = 2;
    d.out_count = 1;
    d.in[0] = a;
    d.in[1] = b;
    d.out[0] = out;
    d.flags |= UVCC_OP_BEAVER;
    assert_true(uvcc_program_op(m->p, &d) >= 0);
}

/* The product of a and b, rows x cols, which is opened at the end. */
static void product(maker *m, uvcc_op_desc d, uint32_t a, uint32_t b, uint32_t rows,
                    uint32_t cols) {
    const uint32_t out =
        tensor(m, rows, cols, d.shift != 0 ? 24 : 40, (uint8_t)(2 * SCALE - d.shift));
    try_op(m, d, a, b, out);
    m->tensor[m->outputs++] = out;
}

static uvcc_program *finish(maker *m) {
    char why[256] = "";
    for (uint32_t i = 0; i < 64; i++)
        if (m->tensor[i] != 0)
            assert_true(uvcc_program_output(m->p, OUT + i, m->tensor[i]) >= 0);
    if (uvcc_program_finish(m->p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return m->p;
}

static maker begin(test_alloc *mem) {
    const uvcc_allocator al = test_allocator(mem);
    maker m = {0};
    assert_int_equal(uvcc_program_new(&m.p, &al), 0);
    assert_int_equal(uvcc_program_entry(m.p, "run"), 0);
    return m;
}

/* Every kind of product, in tiles of `rows` rows (of groups of rows where there are some); both
 * operands of some are opened by others. */
static uvcc_program *all_kinds(test_alloc *mem, uint32_t rows) {
    maker m = begin(mem);
    const uint32_t x = input(&m, 7, 5), y = input(&m, 5, 6), xt = input(&m, 5, 7),
                   yt = input(&m, 6, 5), z = input(&m, 7, 5), column = input(&m, 7, 1),
                   row = input(&m, 1, 5), one = input(&m, 1, 1);
    const uint32_t q = input(&m, 3 * 4, 2 * 3), k = input(&m, 3 * 4, 2 * 3),
                   s = input(&m, 3 * 2 * 4, 4);
    uvcc_op_desc d = {.opcode = UVCC_OP_GEMM_SS, .tile_rows = rows};
    product(&m, d, x, y, 7, 6);
    d.shift = SCALE;
    product(&m, d, x, y, 7, 6);
    d.flags = UVCC_OP_TRANS_A;
    product(&m, d, xt, y, 7, 6);
    d.flags = UVCC_OP_TRANS_B;
    product(&m, d, x, yt, 7, 6);
    d.flags = UVCC_OP_TRANS_A | UVCC_OP_TRANS_B;
    product(&m, d, xt, yt, 7, 6);
    d.flags = 0;
    d.truncation = UVCC_TRUNC_EXACT_DCF;
    d.lift = UVCC_LIFT_SEQUENTIAL;
    product(&m, d, x, y, 7, 6);
    d = (uvcc_op_desc){.opcode = UVCC_OP_ELEM_MUL, .tile_rows = rows};
    product(&m, d, x, z, 7, 5);
    d.opcode = UVCC_OP_ROW_MUL;
    product(&m, d, x, column, 7, 5);
    d.opcode = UVCC_OP_COL_MUL;
    product(&m, d, z, row, 7, 5);
    d.shift = SCALE;
    product(&m, d, z, one, 7, 5);
    d.opcode = UVCC_OP_ROW_DOT;
    d.constant = 3;
    product(&m, d, x, z, 7, 1);
    /* scores of packed operands, stacked; what they weigh, packed */
    d = (uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS, .heads = 2, .row_groups = 3};
    d.flags = UVCC_OP_TRANS_B | UVCC_OP_STACKED_C;
    d.tile_rows = 8 * rows;
    product(&m, d, q, k, 3 * 2 * 4, 4);
    d.flags = UVCC_OP_STACKED_A;
    d.tile_rows = 4 * rows;
    product(&m, d, s, k, 3 * 4, 2 * 3);
    d.flags = UVCC_OP_TRANS_A | UVCC_OP_STACKED_A;
    product(&m, d, s, k, 3 * 4, 2 * 3);
    return finish(&m);
}

/* ---- sessions ---- */

static void nothing_ahead(const triangle *t) {
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(t->s[i]->triples_ahead, 0);
}

static triangle_outcome run(uvcc_program *p, const uvcc_allocator *al,
                            const triangle_options *opt) {
    triangle_options o = *opt;
    o.on_end = nothing_ahead;
    return triangle_run(p, al, &o, 127);
}

/* Budgets that differ from party to party: none waits for how far another one is ahead. */
static void unlike_budgets(uvcc_config *c) {
    static const uint64_t bytes[3] = {1, 200, UINT64_MAX};
    c->limits.triples_ahead_bytes = bytes[c->identity.party];
}

static void count_words(uvcc_config *c) {
    c->checks.prg_uses = 1;
}

/* Every kind of product, cut in every way: the plaintext twin's results, and rounds that do not
 * depend on tiles. */
static void test_results(void **state) {
    (void)state;
    const uvcc_fault_config bad = {
        .drop = 0.2, .duplicate = 0.1, .reorder = 0.3, .corrupt = 0.01, .truncate = 0.01};
    const triangle_options runs[] = {
        {.seed = 1},
        {.seed = 1, .tweak = unlike_budgets},
        {.seed = 1, .mode = UVCC_CPU_DEFERRED, .compute_seed = 5, .tweak = unlike_budgets},
        {.seed = 1, .mode = UVCC_CPU_THREADS, .tweak = count_words},
        {.seed = 1, .datagram = true, .faulty = true, .faults = bad},
    };
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    const triangle_outcome whole = run(all_kinds(&mem, 0), &al, &runs[0]);
    for (uint32_t rows = 1; rows <= 7; rows += rows == 4 ? 3 : 1) {
        triangle_outcome want = {0};
        for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
            const triangle_outcome got = run(all_kinds(&mem, rows), &al, &runs[i]);
            assert_int_equal(got.stats.rounds, whole.stats.rounds);
            if (i == 0)
                want = got;
            assert_memory_equal(got.root, want.root, sizeof want.root);
        }
        /* in one tile everything is as if tiles did not exist */
        if (rows == 7)
            assert_memory_equal(want.root, whole.root, sizeof want.root);
        else
            assert_memory_not_equal(want.root, whole.root, sizeof want.root);
    }
    run(all_kinds(&mem, 2), &al, &(triangle_options){.seed = 2, .audit_off = true});
    assert_int_equal(mem.live_blocks, 0);
}

/* ---- how a product is cut ---- */

static uvcc_program *one_product(uint32_t rows, uint32_t cols, uint32_t groups,
                                 uint32_t tile_rows) {
    const uvcc_allocator al = uvcc_host_allocator();
    maker m = {0};
    assert_int_equal(uvcc_program_new(&m.p, &al), 0);
    const uint32_t x = test_tensor(m.p, "x", rows, 1, 8, 0, UVCC_PERSIST),
                   y = test_tensor(m.p, "y", groups == 0 ? 1 : groups, cols, 8, 0, UVCC_PERSIST),
                   z = tensor(&m, rows, cols, 20, 0);
    assert_int_equal(uvcc_program_entry(m.p, "run"), 0);
    try_op(&m,
           (uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS,
                          .tile_rows = tile_rows,
                          .heads = groups != 0,
                          .row_groups = groups},
           x, y, z);
    return finish(&m);
}

static uvcci_tiles cut(uint32_t rows, uint32_t cols, uint32_t groups, uint32_t tile_rows) {
    uvcc_program *p = one_product(rows, cols, groups, tile_rows);
    const uvcci_tiles t = uvcci_tiles_of(p, uvcc_program_op_at(p, 0, 0));
    uvcc_program_free(p);
    return t;
}

/* The rule for those who say nothing, and what they may say. */
static void test_cut(void **state) {
    (void)state;
    const struct {
        uint32_t rows, cols, groups, tile_rows, want, count;
    } cases[] = {
        {1, 1, 0, 0, 1, 1},          {1024, 1024, 0, 0, 1024, 1}, {1025, 1024, 0, 0, 1024, 2},
        {2048, 16384, 0, 0, 64, 32}, {3, 1u << 20, 0, 0, 1, 3},   {3, (1u << 20) + 1, 0, 0, 1, 3},
        {1, 1u << 26, 0, 0, 1, 1},   {65, 1u << 20, 0, 0, 2, 33}, /* at least a 64th of all rows */
        {129, 1000000, 0, 0, 3, 43}, {96, 1u << 16, 6, 0, 16, 6}, /* whole groups of 16 rows */
        {96, 1u << 14, 6, 0, 64, 2}, {96, 1u << 22, 6, 0, 16, 6}, {10, 3, 0, 3, 3, 4},
        {10, 3, 0, 10, 10, 1},       {10, 3, 0, 11, 11, 1},       {64, 3, 0, 1, 1, 64},
        {12, 3, 3, 8, 8, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uvcci_tiles t =
            cut(cases[i].rows, cases[i].cols, cases[i].groups, cases[i].tile_rows);
        if (t.rows != cases[i].want || t.count != cases[i].count)
            fail_msg("case %zu: %u tiles of %u rows", i, t.count, t.rows);
        uint64_t rows = 0;
        for (uint32_t k = 0; k < t.count; k++) {
            assert_int_equal(uvcci_tile_first(&t, k), rows);
            rows += uvcci_tile_rows(&t, cases[i].rows, k);
        }
        assert_int_equal(rows, cases[i].rows);
    }
}

/* What a plan makes of one case, beside the independent program. */
static void check_case(json_t *o) {
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p =
        one_product((uint32_t)test_u64(o, "rows"), (uint32_t)test_u64(o, "cols"),
                    (uint32_t)test_u64(o, "row_groups"), (uint32_t)test_u64(o, "tile_rows"));
    json_t *tiles = json_object_get(o, "tiles"), *t;
    uvcci_plan plan;
    uint8_t sub[32];
    size_t i;
    assert_int_equal(uvcci_plan_make(&plan, p, &p->entries[0], &p->entries[0].ops[0], &al), 0);
    const uvcci_plan_beaver *v = &plan.beaver;
    test_hex_n(test_str(o, "sid_sub"), sub, sizeof sub);
    assert_int_equal(v->tiles.rows, test_u64(o, "cut_rows"));
    assert_int_equal(v->tiles.count, json_array_size(tiles));
    json_array_foreach(tiles, i, t) {
        const uvcci_plan_round *r = &plan.rounds[v->triple_round + i];
        assert_int_equal(r->turn, UVCCI_TURN_TRIPLE);
        assert_int_equal(r->tile, i);
        assert_int_equal(uvcci_tile_first(&v->tiles, (uint32_t)i), test_u64(t, "first_row"));
        assert_int_equal(r->elems, test_u64(t, "rows") * test_u64(o, "cols"));
        assert_int_equal(r->first_block, test_u64(t, "first_block"));
        assert_true(uvcci_triple_id(sub, (uint32_t)test_u64(o, "step"),
                                    (uint32_t)test_hex64(test_str(o, "op_id")),
                                    (uint32_t)i) == test_hex64(test_str(t, "triple_id")));
    }
    uvcci_plan_free(&plan, &al);
    uvcc_program_free(p);
}

static void test_vectors(void **state) {
    (void)state;
    json_t *v = LOAD_VECTORS("tiles.json"), *o;
    size_t i;
    json_array_foreach(json_object_get(v, "cases"), i, o) check_case(o);
    assert_true(i > 10);
    json_decref(v);
}

static void refuse(uvcc_op_desc d, const char *text) {
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p;
    char why[256] = "";
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    d.in[0] = test_tensor(p, "x", 70, 1, 8, 0, UVCC_TRANSIENT);
    d.in[1] = test_tensor(p, "y", d.heads != 0 ? d.row_groups : 1, 1, 8, 0, UVCC_TRANSIENT);
    d.out[0] = test_tensor(p, "z", 70, 1, 20, 0, UVCC_TRANSIENT);
    d.in_count = 2;
    d.out_count = 1;
    d.name = "it";
    assert_int_equal(uvcc_program_entry(p, "run"), 0);
    assert_true(uvcc_program_op(p, &d) >= 0);
    assert_int_equal(uvcc_program_finish(p, why, sizeof why), UVCC_ERR_PROGRAM);
    if (strstr(why, text) == NULL)
        fail_msg("%s", why);
    uvcc_program_free(p);
}

static void test_refused(void **state) {
    (void)state;
    uvcc_op_desc d = {.opcode = UVCC_OP_GEMM_SS, .tile_rows = 2};
    refuse(d, "tile_rows is for products on triples");
    d.flags = UVCC_OP_BEAVER;
    d.tile_rows = 1;
    refuse(d, "70 rows in tiles of 1 are 70 tiles; at most 64 are possible");
    d.heads = 1;
    d.row_groups = 7;
    d.tile_rows = 15;
    refuse(d, "a group of rows of z has 10, which must divide tile_rows");
}

static void hash_of(uint32_t tile_rows, uint8_t out[32]) {
    test_alloc mem = {0};
    uvcc_program *p = all_kinds(&mem, tile_rows);
    uvcc_program_hash(p, out);
    uvcc_program_free(p);
}

/* Parties that cut unlike each other do not meet; what is in one tile is as if nobody had asked. */
static void test_hash(void **state) {
    (void)state;
    uint8_t none[32], one[32], two[32], three[32];
    hash_of(0, none);
    hash_of(7, one);
    hash_of(2, two);
    hash_of(3, three);
    assert_memory_equal(none, one, 32);
    assert_memory_not_equal(none, two, 32);
    assert_memory_not_equal(three, two, 32);
}

/* Tiles change when C is sent and in how many messages, not how much. */
static void test_cost(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *whole = all_kinds(&mem, 0), *tiled = all_kinds(&mem, 2);
    uint32_t rounds[2];
    for (uint32_t i = 0; i < uvcc_program_op_count(whole, 0); i++) {
        uvcc_op_cost a, b;
        assert_int_equal(uvcc_program_cost(whole, 0, i, &a), 0);
        assert_int_equal(uvcc_program_cost(tiled, 0, i, &b), 0);
        assert_int_equal(a.rounds, b.rounds);
        assert_int_equal(a.online_bytes, b.online_bytes);
        assert_int_equal(a.preprocessing_bytes, b.preprocessing_bytes);
        assert_true(a.messages <= b.messages);
    }
    assert_int_equal(uvcc_program_rounds(whole, 0, NULL, &rounds[0]), 0);
    assert_int_equal(uvcc_program_rounds(tiled, 0, NULL, &rounds[1]), 0);
    assert_int_equal(rounds[0], rounds[1]);
    uvcc_program_free(whole);
    uvcc_program_free(tiled);
    assert_int_equal(mem.live_blocks, 0);
}

/* ---- one large product ---- */

enum { ROWS = 50, DEPTH = 3, COLS = 100, TILES = 5, TILE_ROWS = ROWS / TILES };

/* Z = X Y, in tiles that do not end where blocks do; `small`: one of a single tile before it. */
static uvcc_program *large(test_alloc *mem, bool small) {
    maker m = begin(mem);
    const uint32_t x = input(&m, ROWS, DEPTH), y = input(&m, DEPTH, COLS);
    if (small) {
        const uint32_t a = input(&m, 2, 2);
        product(&m, (uvcc_op_desc){.opcode = UVCC_OP_ELEM_MUL}, a, a, 2, 2);
    }
    product(&m, (uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS, .tile_rows = TILE_ROWS}, x, y, ROWS,
            COLS);
    return finish(&m);
}

static const uvcci_instance *large_at(const triangle *t, unsigned party, uint32_t step) {
    const uvcci_step *st = &t->s[party]->ctx[step & 1];
    for (uint32_t i = 0; st->active && i < st->entry->op_count; i++)
        if (uvcci_beaver_of(&st->instances[i]) != NULL && uvcci_tile_count(&st->instances[i]) != 1)
            return &st->instances[i];
    return NULL;
}

static uint64_t budget;
static void with_budget(uvcc_config *c) {
    c->limits.triples_ahead_bytes = budget;
}

/* Whether the instance has nothing to wait for but a peer's part of a tile, and says so. */
static bool awaits_tile(const triangle *t, unsigned party, const uvcci_instance *r) {
    const uint8_t peer = (uint8_t)((party + 1) % 3); /* who sends it */
    assert_int_equal(uvcci_instance_missing(t->s[party], r, (uint8_t)((party + 2) % 3)),
                     0); /* the other one sends nothing then */
    return uvcci_instance_missing(t->s[party], r, peer) != 0;
}

/* What is made and not used: never more than the budget, or one tile; and before the inputs are
 * there as much as that. Tiles are used in rising order. Who waits for a tile says for whom. */
static void test_bounded(void **state) {
    (void)state;
    const uint64_t tile = 16ull * TILE_ROWS * COLS;
    const struct {
        uint64_t budget;
        uint32_t held;
    } cases[] = {{1, 1}, {tile, 1}, {3 * tile - 1, 2}, {3 * tile, 3}, {100 * tile, TILES}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        test_alloc mem = {0};
        const uvcc_allocator al = test_allocator(&mem);
        uvcc_program *p = large(&mem, false);
        uvcc_reference *ref;
        triangle t;
        budget = cases[c].budget;
        assert_int_equal(uvcc_reference_new(&ref, p, &al), 0);
        triangle_open(&t, p, &(triangle_options){.seed = 3, .tweak = with_budget});
        triangle_ready(&t);
        triangle_agree(&t, 0, 0);
        for (unsigned i = 0; i < 400 && triangle_turn(&t); i++)
            ;
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(t.s[i]->triples_ahead, cases[c].held * tile);
        triangle_give_inputs(&t, p, ref, 0, 127);
        uint32_t used = 0;
        bool awaited = false;
        while (t.finished[0] == 0 || t.finished[1] == 0 || t.finished[2] == 0) {
            assert_true(triangle_turn(&t));
            for (unsigned i = 0; i < 3; i++) {
                const uvcci_instance *r = large_at(&t, i, 0);
                uint32_t here = 0;
                for (uint32_t k = 0; r != NULL && k < TILES; k++)
                    here += uvcci_beaver_of(r)->tile[k].c.lo != NULL;
                assert_true(here <= cases[c].held);
                assert_true(t.s[i]->triples_ahead <= cases[c].held * tile);
                if (r != NULL && r->turn == r->plan->beaver.finish_turn)
                    awaited |= awaits_tile(&t, i, r);
                if (r == NULL || i != 0)
                    continue;
                assert_true(uvcci_beaver_of(r)->used >= used);
                used = uvcci_beaver_of(r)->used;
                for (uint32_t k = 0; k < used; k++)
                    assert_null(uvcci_beaver_of(r)->tile[k].c.lo);
            }
        }
        assert_true(awaited == (cases[c].held < TILES));
        triangle_check_outputs(&t, p, ref, 0);
        triangle_close(&t);
        triangle_free(&t);
        uvcc_reference_free(ref);
        uvcc_program_free(p);
        assert_int_equal(mem.live_blocks, 0);
    }
}

/* ---- the transcript ---- */

typedef struct consumed {
    uint32_t count;
    bool of[TILES];
} consumed;

static void look_at_leaves(triangle *t, unsigned party, consumed *c) {
    const uvcci_step *st = &t->s[party]->ctx[0];
    uint8_t root[32];
    if (!st->active || uvcci_transcript_root(st->transcript, root) != 0)
        return;
    *c = (consumed){0};
    for (uint32_t k = 0; k < uvcci_transcript_count(st->transcript); k++) {
        uint32_t row;
        const uint8_t *leaf;
        size_t len;
        assert_int_equal(uvcci_transcript_leaf(st->transcript, k, &row, &leaf, &len), 0);
        if (leaf[0] != UVCCI_LEAF_TRIPLE_CONSUMED)
            continue;
        c->count++;
        for (uint32_t tile = 0; tile < TILES; tile++)
            c->of[tile] |= uvcci_ld64(leaf + 37) ==
                           uvcci_triple_id(t->s[party]->sid_sub, 0, uvcci_ld32(leaf + 33), tile);
    }
}

/* TRIPLE_CONSUMED of every tile, with its id, at all parties. */
static void test_leaves(void **state) {
    (void)state;
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = large(&mem, false);
    uvcc_reference *ref;
    consumed c[3] = {0};
    triangle t;
    assert_int_equal(uvcc_reference_new(&ref, p, &al), 0);
    triangle_open(&t, p, &(triangle_options){.seed = 3});
    triangle_ready(&t);
    triangle_agree(&t, 0, 0);
    triangle_give_inputs(&t, p, ref, 0, 127);
    while (t.finished[0] + t.finished[1] + t.finished[2] < 3) {
        assert_true(triangle_turn(&t));
        for (unsigned i = 0; i < 3; i++)
            look_at_leaves(&t, i, &c[i]);
    }
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(c[i].count, TILES);
        for (uint32_t tile = 0; tile < TILES; tile++)
            assert_true(c[i].of[tile]);
    }
    triangle_free(&t);
    uvcc_reference_free(ref);
    uvcc_program_free(p);
}

/* ---- triples that are kept ---- */

enum { MAKER = 2, MADE_STEPS = 2, RECORDS = TILES + 1 };

static uint32_t next_run;
static void making(uvcc_config *c) {
    c->triples.only = true;
    c->triples.run = UVCC_TRIPLES_ANY_RUN;
    c->resume.next_run = next_run;
    c->limits.triples_ahead_bytes = 1; /* one tile at a time is enough */
}
static void using(uvcc_config *c) {
    c->resume.next_run = next_run;
}

/* What the three have, and what reads of key streams there were, over all sessions. */
typedef struct kept {
    test_alloc mem;
    uvcc_program *p;
    uvcc_reference *ref;
    uvcc_triple_store *store[3];
    uvcc_prg_uses *uses[3];
    triangle t;
} kept;

static void note(void *user, unsigned party, const uvcc_job *job, uint32_t task, bool done) {
    kept *k = user;
    uvcc_prg_use twice;
    if (!done && uvcc_prg_uses_task(k->uses[party], &job->tasks[task], &twice) != 0)
        fail_msg("party %u: tag %u, lane %u, call %u, block %u is read twice", party, twice.tag,
                 twice.lane, twice.call, twice.block);
}

static void open_run(kept *k, uint32_t run, void (*tweak)(uvcc_config *)) {
    next_run = run;
    triangle_open(&k->t, k->p,
                  &(triangle_options){.seed = 11 + run,
                                      .tweak = tweak,
                                      .wired = true,
                                      .ticks = true,
                                      .on_task = note,
                                      .user = k});
    triangle_ready(&k->t);
}

static void make_stores(kept *k, uint32_t run) {
    open_run(k, run, making);
    for (uint32_t step = 0; step < MADE_STEPS; step++) {
        triangle_agree(&k->t, step, 0);
        triangle_finish(&k->t, step + 1);
        for (unsigned i = 0; i < 3; i++) {
            uint32_t at;
            const uint8_t *data;
            size_t len;
            assert_int_equal(uvcc_session_triples(k->t.s[i], &at, &data, &len), 0);
            assert_int_equal(uvcc_triple_store_add(k->store[i], data, len), 0);
            assert_int_equal(k->t.s[i]->triples_ahead, 0);
        }
    }
    triangle_close(&k->t);
    triangle_free(&k->t);
}

static void new_stores(kept *k) {
    const uvcc_allocator al = test_allocator(&k->mem);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(uvcc_triple_store_new(&k->store[i], &al), 0);
}

static void free_stores(kept *k) {
    for (unsigned i = 0; i < 3; i++)
        uvcc_triple_store_free(k->store[i]);
}

static void begin_kept(kept *k) {
    memset(k, 0, sizeof *k);
    const uvcc_allocator al = test_allocator(&k->mem);
    k->p = large(&k->mem, true);
    assert_int_equal(uvcc_reference_new(&k->ref, k->p, &al), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(uvcc_prg_uses_new(&k->uses[i], &al, true), 0);
    new_stores(k);
    make_stores(k, MAKER);
}

static void end_kept(kept *k) {
    free_stores(k);
    for (unsigned i = 0; i < 3; i++)
        uvcc_prg_uses_free(k->uses[i]);
    uvcc_reference_free(k->ref);
    uvcc_program_free(k->p);
    assert_int_equal(k->mem.live_blocks, 0);
}

static void take(kept *k, unsigned party, uint32_t step, const uint8_t **data, size_t *len) {
    assert_int_equal(uvcc_triple_store_take(k->store[party], UVCC_TRIPLES_ANY_RUN, step, data, len),
                     0);
}

/* The step's triples, but for one of party `of` (3: nobody's): that of tile `without` of the large
 * product, or with TILES that of the small one. */
static void hand_over(kept *k, uint32_t step, unsigned of, unsigned without) {
    for (unsigned i = 0; i < 3; i++) {
        const uint8_t *data;
        size_t len, at = 0;
        uvcc_triple_info t;
        take(k, i, step, &data, &len);
        for (unsigned n = 0; at < len; n++, at += t.bytes) {
            assert_int_equal(uvcc_triple_read(data + at, len - at, &t), 0);
            const bool small = t.cols[2] == 2;
            assert_true(t.tile < (small ? 1 : TILES));
            assert_int_equal(t.rows[0], small ? 2 : ROWS);
            assert_int_equal(t.rows[2], small ? 2 : TILE_ROWS);
            if (i != of || (small ? TILES : t.tile) != without)
                assert_int_equal(uvcc_session_load_triples(k->t.s[i], data + at, t.bytes), 0);
        }
    }
}

static void use_step(kept *k, uint32_t step) {
    triangle_agree(&k->t, step, 0);
    triangle_give_inputs(&k->t, k->p, k->ref, step, 127);
    triangle_finish(&k->t, step + 1);
    triangle_check_outputs(&k->t, k->p, k->ref, step);
}

/* Records come one for each tile; what they are used for sends no C. */
static void test_kept(void **state) {
    (void)state;
    kept k;
    begin_kept(&k);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(uvcc_triple_store_count(k.store[i]), MADE_STEPS * RECORDS);
    open_run(&k, MAKER + 1, using);
    for (uint32_t step = 0; step < MADE_STEPS; step++) {
        hand_over(&k, step, 3, 0);
        use_step(&k, step);
        assert_int_equal(k.t.s[0]->triple_bytes, 0);
        assert_null(k.t.s[0]->stored);
    }
    use_step(&k, MADE_STEPS);
    assert_true(k.t.s[0]->triple_bytes > 8 * ROWS * COLS);
    triangle_close(&k.t);
    triangle_free(&k.t);
    end_kept(&k);
}

/* A party that lacks one tile, whichever, has none of the product, and says so: nobody uses it. */
static void test_one_tile_lacks(void **state) {
    (void)state;
    for (unsigned lacks = 0; lacks < RECORDS; lacks++) {
        kept k;
        begin_kept(&k);
        open_run(&k, MAKER + 1, using);
        hand_over(&k, 0, lacks % 3, lacks);
        use_step(&k, 0);
        assert_true(k.t.s[0]->triple_bytes > 8 * ROWS * COLS);
        hand_over(&k, 1, 3, 0);
        const uint64_t before = k.t.s[0]->triple_bytes;
        use_step(&k, 1);
        assert_int_equal(k.t.s[0]->triple_bytes, before);
        triangle_close(&k.t);
        triangle_free(&k.t);
        end_kept(&k);
    }
}

/* Tiles of two makers are under masks of two makers: the product takes none of them. */
static void test_two_makers(void **state) {
    (void)state;
    kept k;
    begin_kept(&k);
    uvcc_triple_store *first[3];
    memcpy(first, k.store, sizeof first);
    new_stores(&k);
    make_stores(&k, MAKER + 1);
    open_run(&k, MAKER + 2, using);
    for (unsigned i = 0; i < 3; i++) {
        const uint8_t *data[2];
        size_t len[2];
        take(&k, i, 0, &data[1], &len[1]);
        assert_int_equal(
            uvcc_triple_store_take(first[i], UVCC_TRIPLES_ANY_RUN, 0, &data[0], &len[0]), 0);
        for (unsigned who = 0; who < 2; who++) {
            uvcc_triple_info t;
            for (size_t at = 0; at < len[who]; at += t.bytes) {
                assert_int_equal(uvcc_triple_read(data[who] + at, len[who] - at, &t), 0);
                if ((t.tile == 3) == (who == 1))
                    assert_int_equal(uvcc_session_load_triples(k.t.s[i], data[who] + at, t.bytes),
                                     0);
            }
        }
    }
    triangle_agree(&k.t, 0, 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_null(uvcci_stored_of(large_at(&k.t, i, 0)));
        assert_null(k.t.s[i]->stored);
    }
    triangle_give_inputs(&k.t, k.p, k.ref, 0, 127);
    triangle_finish(&k.t, 1);
    triangle_check_outputs(&k.t, k.p, k.ref, 0);
    triangle_close(&k.t);
    triangle_free(&k.t);
    for (unsigned i = 0; i < 3; i++)
        uvcc_triple_store_free(first[i]);
    end_kept(&k);
}

/* A run ends after any number of tiles, by what all three used, and the next begins with the same
 * step and other inputs. The store has nothing of it any more, so it makes its own; no word of any
 * key stream is read for two ends over all three sessions. */
static void test_restart(void **state) {
    (void)state;
    for (uint32_t end = 0; end <= TILES; end++) {
        kept k;
        begin_kept(&k);
        open_run(&k, MAKER + 1, using);
        hand_over(&k, 0, 3, 0);
        triangle_agree(&k.t, 0, 0);
        triangle_give_inputs(&k.t, k.p, k.ref, 0, 127);
        for (const uvcci_instance *r;
             (r = large_at(&k.t, 0, 0)) != NULL && uvcci_beaver_of(r)->used < end;)
            assert_true(triangle_turn(&k.t));
        triangle_free(&k.t);
        open_run(&k, MAKER + 2, using);
        for (unsigned i = 0; i < 3; i++) {
            const uint8_t *data;
            size_t len;
            assert_int_equal(
                uvcc_triple_store_take(k.store[i], UVCC_TRIPLES_ANY_RUN, 0, &data, &len),
                UVCC_ERR_STATE);
        }
        use_step(&k, 0);
        assert_true(k.t.s[0]->triple_bytes > 8 * ROWS * COLS);
        hand_over(&k, 1, 3, 0);
        use_step(&k, 1);
        triangle_close(&k.t);
        triangle_free(&k.t);
        end_kept(&k);
    }
}

/* ---- the check of a product ---- */

/* C of a tiled product is checked as a whole. */
static void test_checked(void **state) {
    (void)state;
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    maker m = begin(&mem);
    const uint32_t x = input(&m, 9, 4), y = input(&m, 4, 3), z = tensor(&m, 9, 3, 40, 2 * SCALE);
    try_op(&m, (uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS, .tile_rows = 2}, x, y, z);
    uvcc_op_desc d = {
        .opcode = UVCC_OP_SKS_START, .k = m.k++, .in_count = 3, .in = {x, y, z}, .constant = 1000};
    assert_true(uvcc_program_op(m.p, &d) >= 0);
    d.opcode = UVCC_OP_SKS_GEMM_CHECK;
    d.phase = UVCC_UPD;
    d.constant = 0;
    assert_true(uvcc_program_op(m.p, &d) >= 0);
    m.tensor[m.outputs] = z;
    run(finish(&m), &al, &(triangle_options){.seed = 4});
    assert_int_equal(mem.live_blocks, 0);
}

/* ---- memory ---- */

/* Every allocation of a step fails once: it ends right, or all abort for want of memory. */
static void test_no_memory(void **state) {
    (void)state;
    bool whole = false;
    for (size_t at = 1; !whole; at += at < 40 ? 1 : 7) {
        test_alloc mem = {0};
        const uvcc_allocator al = test_allocator(&mem);
        uvcc_program *p = large(&mem, false);
        uvcc_reference *ref;
        triangle t;
        bool over = false;
        budget = 1;
        assert_int_equal(uvcc_reference_new(&ref, p, &al), 0);
        triangle_open(&t, p, &(triangle_options){.seed = 6, .tweak = with_budget});
        triangle_ready(&t);
        triangle_agree(&t, 0, 0);
        triangle_give_inputs(&t, p, ref, 0, 127);
        const size_t calls = t.mem.calls;
        t.mem.fail_at = at;
        while (!over && (t.finished[0] == 0 || t.finished[1] == 0 || t.finished[2] == 0)) {
            assert_true(triangle_turn(&t));
            for (unsigned i = 0; i < 3; i++)
                over |= t.aborted[i] != 0;
        }
        t.mem.fail_at = 0;
        for (unsigned i = 0; i < 3; i++) { /* an executor's memory is a job's failure */
            const uint16_t why = t.aborted[i];
            if (why != 0 && why != UVCC_ABORT_MEMORY && why != UVCC_ABORT_JOB &&
                why != UVCC_ABORT_PEER)
                fail_msg("allocation %zu: party %u aborts for %u, %s", at, i, why, t.abort_text[i]);
        }
        if (!over)
            triangle_check_outputs(&t, p, ref, 0);
        whole = !over && t.mem.calls - calls < at; /* it was beyond the last */
        triangle_free(&t);
        uvcc_reference_free(ref);
        uvcc_program_free(p);
        assert_int_equal(mem.live_blocks, 0);
    }
}

/* ---- by the rule ---- */

/* A product that is cut though nobody asked: messages of several blocks and parts. What comes of
 * it is summed by rows, so that little is opened. */
static void test_by_rule(void **state) {
    (void)state;
    enum { WIDE = 1024, HIGH = WIDE + 6 };
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    maker m = begin(&mem);
    const uint32_t x = input(&m, HIGH, 1), y = input(&m, 1, WIDE),
                   z = tensor(&m, HIGH, WIDE, 24, 2 * SCALE),
                   s = tensor(&m, HIGH, 1, 40, 2 * SCALE);
    try_op(&m, (uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS}, x, y, z);
    uvcc_op_desc sum = {.opcode = UVCC_OP_ROW_SUM,
                        .k = m.k++,
                        .in_count = 1,
                        .in = {z},
                        .out_count = 1,
                        .out = {s}};
    assert_true(uvcc_program_op(m.p, &sum) >= 0);
    m.tensor[m.outputs] = s;
    uvcc_program *p = finish(&m);
    uvcc_reference *ref;
    triangle t;
    assert_int_equal(uvcc_reference_new(&ref, p, &al), 0);
    triangle_open(&t, p, &(triangle_options){.seed = 4});
    triangle_ready(&t);
    triangle_agree(&t, 0, 0);
    const uvcci_instance *r = large_at(&t, 0, 0);
    assert_non_null(r);
    assert_int_equal(uvcci_tile_count(r), 2);
    triangle_give_inputs(&t, p, ref, 0, 127);
    triangle_finish(&t, 1);
    triangle_check_outputs(&t, p, ref, 0);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_reference_free(ref);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_leaves),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_two_makers),
        cmocka_unit_test(test_one_tile_lacks),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_checked),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_by_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
