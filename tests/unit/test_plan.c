/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan.c - what ops send, pinned: each message of each round between each pair of parties, the
 * ids in it, the lengths of key streams and where in them an instruction's material lies. Peers of
 * two versions that differ in any of that do not understand each other, and a session among peers
 * of one version cannot see it. A change that is meant changes the table below: the test prints
 * the new row. */
#include "support.h"

#include <uvcc/nonlinear.h>

#include "exec/program/fn_class.h"
#include "exec/program/op_way.h"
#include "exec/program/plan_make.h"
#include "proto/crypto.h"

enum { ROWS = 70, COLS = 64, F = 16, STEP = 3, OP = 99 }; /* more than one block */

static const uint8_t sid[32] = {7};

static void put(uvcci_sha256 *h, uint64_t v) {
    uint8_t b[8];
    for (unsigned i = 0; i < 8; i++)
        b[i] = (uint8_t)(v >> 8 * i);
    uvcci_sha256_update(h, b, sizeof b);
}

/* The TLVs of one direction of one part. */
static void put_message(uvcci_sha256 *h, const uvcci_plan *plan, const uvcci_plan_ids *ids,
                        const uvcci_plan_round *r, uint32_t part, unsigned way) {
    size_t bytes = 0;
    uvcci_plan_tlv *list = malloc(uvcci_plan_tlvs_max(plan, r) * sizeof *list);
    const uint32_t n =
        uvcci_plan_list(plan, ids, r, part, (uint8_t)(way / 3), (uint8_t)(way % 3), list, &bytes);
    put(h, n);
    put(h, n == 0 ? 0 : bytes);
    for (uint32_t i = 0; i < n; i++) {
        const uvcc_tlv *t = &list[i].t;
        const uint64_t v[] = {t->type,      t->aux,        t->id,       t->first,
                              t->count,     t->round,      t->bits,     list[i].vec,
                              list[i].flow, list[i].block, list[i].more};
        for (unsigned k = 0; k < sizeof v / sizeof v[0]; k++)
            put(h, v[k]);
    }
    free(list);
}

static void put_round(uvcci_sha256 *h, const uvcci_plan *plan, const uvcci_plan_ids *ids,
                      const uvcci_plan_round *r) {
    const uint64_t v[] = {r->kind, r->turn, r->vec_count, r->b_base, r->parts, r->elems};
    for (unsigned k = 0; k < sizeof v / sizeof v[0]; k++)
        put(h, v[k]);
    for (uint32_t part = 0; part < r->parts; part++)
        for (unsigned way = 0; way < 9; way++)
            if (way / 3 != way % 3)
                put_message(h, plan, ids, r, part, way);
    for (uint32_t b = 0; uvcci_plan_is_keys(plan, r) && b < r->blocks; b++) {
        put(h, uvcci_plan_key_bytes(plan, r, b, UVCC_HEAD));
        put(h, uvcci_plan_key_bytes(plan, r, b, UVCC_TAIL));
    }
}

/* A function's ids: those of an instruction have its number as their call, in fss ids as in ids of
 * streams (functions.md); a round of keys has the id of the first instruction with material of its
 * width; the first id, of call 0, is that of edges. */
static void check_ids(const uvcci_plan *plan, const uvcci_plan_ids *ids) {
    assert_true(plan->id[UVCCI_ID_FSS0].fss);
    assert_int_equal(plan->id[UVCCI_ID_FSS0].call, 0);
    for (unsigned k = 0; k < plan->id_count; k++)
        for (uint32_t b = 0; b < (plan->id[k].per_block ? plan->id[k].blocks : 1); b++) {
            const uint16_t call = plan->id[k].call;
            assert_int_equal(ids->id[k][b],
                             plan->id[k].fss
                                 ? uvcci_fss_id(sid, STEP, OP, call, b)
                                 : uvcci_stream_id(sid, STEP, OP,
                                                   (uvcci_stream_name)plan->id[k].stream, call, b));
        }
    for (unsigned i = 0; i < (unsigned)plan->round_count + plan->key_count; i++)
        for (unsigned v = 0; v < plan->rounds[i].vec_count; v++)
            assert_int_equal(plan->id[plan->rounds[i].vec[v].id].call,
                             plan->rounds[i].vec[v].instr);
}

/* The bytes that an op of a function works on are those of its widest value at least, and not more
 * than all of its values with their pads, parts and bits. */
static void check_work(const uvcci_plan *plan, const uvcc_program *p, const uvcci_op *op) {
    const uint64_t work = plan->way->tensor_bytes(p, op, plan);
    uint64_t widest = 0, all = 0;
    for (unsigned i = 0; i < plan->function->instr_count; i++) {
        const uint64_t bytes = 8ull * ROWS * plan->fn->instr[i].width;
        widest = bytes > widest ? bytes : widest;
        all += 64 * bytes + 4096;
    }
    assert_true(work >= widest && work <= all);
}

static void put_op(uvcci_sha256 *h, const uvcc_program *p, const uvcci_op *op,
                   const uvcc_allocator *al) {
    uvcci_plan plan;
    assert_int_equal(uvcci_plan_make(&plan, p, &p->entries[0], op, al), 0);
    uvcci_plan_ids ids = {.id = calloc(plan.id_count + 1u, sizeof *ids.id),
                          .edge = malloc(plan.edge_blocks)};
    for (unsigned k = 0; k < plan.id_count; k++)
        ids.id[k] = malloc(plan.id[k].blocks * sizeof(uint64_t));
    memset(ids.edge, 0xa5, plan.edge_blocks);
    uvcci_plan_ids_fill(&plan, sid, STEP, OP, &ids);
    put(h, plan.turns);
    put(h, plan.key_turn);
    for (uint32_t b = 0; b < plan.edge_blocks; b++)
        put(h, ids.edge[b]);
    for (unsigned i = 0; i < (unsigned)plan.round_count + plan.key_count; i++)
        put_round(h, &plan, &ids, &plan.rounds[i]);
    if (plan.function != NULL)
        check_ids(&plan, &ids);
    if (plan.function != NULL)
        check_work(&plan, p, op);
    for (unsigned i = 0; plan.function != NULL && i < plan.function->instr_count; i++) {
        uint32_t cw, words;
        uvcci_plan_key_at(&plan, i, 100, &cw, &words);
        put(h, (uint64_t)cw << 32 | words);
    }
    for (unsigned k = 0; k < plan.id_count; k++)
        free(ids.id[k]);
    free(ids.id);
    free(ids.edge);
    uvcci_plan_free(&plan, al);
}

/* ---- the table ---- */

/* One of the functions, and what an op of it may be besides: exact, and with the derivative, in
 * groups of four, or with DCFs. The hash is the first eight bytes, as they come. */
typedef struct pin {
    uvcc_nonlinear what;
    bool exact, other;
    const char *hash;
} pin;

static const pin pins[] = {
    {UVCC_NL_SIGN, false, false, "0ebd0c439d025f8c"},
    {UVCC_NL_SIGN, true, false, "619473ddde0743cf"},
    {UVCC_NL_RELU, false, false, "2e817ca6ec299998"},
    {UVCC_NL_RELU, true, false, "e7075888f017f6d5"},
    {UVCC_NL_RELU, true, true, "c4912f69a35253e8"},
    {UVCC_NL_GELU, false, false, "26e1bdaf7484c22c"},
    {UVCC_NL_GELU, true, false, "aa67a46ed180bbec"},
    {UVCC_NL_GELU, true, true, "94524bef72d87688"},
    {UVCC_NL_GELU_TANH, false, false, "26e1bdaf7484c22c"},
    {UVCC_NL_GELU_TANH, true, false, "aa67a46ed180bbec"},
    {UVCC_NL_GELU_TANH, true, true, "94524bef72d87688"},
    {UVCC_NL_SILU, false, false, "26e1bdaf7484c22c"},
    {UVCC_NL_SILU, true, false, "aa67a46ed180bbec"},
    {UVCC_NL_SILU, true, true, "94524bef72d87688"},
    {UVCC_NL_GELU_DERIVATIVE, false, false, "e555f32b91bbb880"},
    {UVCC_NL_GELU_DERIVATIVE, true, false, "b27394dfb35fb563"},
    {UVCC_NL_GELU_TANH_DERIVATIVE, false, false, "e555f32b91bbb880"},
    {UVCC_NL_GELU_TANH_DERIVATIVE, true, false, "b27394dfb35fb563"},
    {UVCC_NL_SILU_DERIVATIVE, false, false, "e555f32b91bbb880"},
    {UVCC_NL_SILU_DERIVATIVE, true, false, "b27394dfb35fb563"},
    {UVCC_NL_SIGMOID, false, false, "cbd02073bb6a15db"},
    {UVCC_NL_SIGMOID, true, false, "2954df040f77a618"},
    {UVCC_NL_TANH, false, false, "b42d83bfe42d84b9"},
    {UVCC_NL_TANH, true, false, "d6fe1152797197f2"},
    {UVCC_NL_EXP, false, false, "dfd15570f8e56ec7"},
    {UVCC_NL_EXP, true, false, "0799f0ba33bd5a43"},
    {UVCC_NL_RECIPROCAL, false, false, "cfeacedda2ba2f28"},
    {UVCC_NL_RECIPROCAL, true, false, "7139254cc2579326"},
    {UVCC_NL_RSQRT, false, false, "049f6d215b1f877d"},
    {UVCC_NL_RSQRT, true, false, "82e8a905ab9df3af"},
    {UVCC_NL_LN, false, false, "47baf600adac8b59"},
    {UVCC_NL_LN, true, false, "dfad7e01593dc56a"},
    {UVCC_NL_CLIP, false, false, "5a3b4e0f97bc52b6"},
    {UVCC_NL_CLIP, true, false, "59506cdd1624498d"},
    {UVCC_NL_MAX, false, false, "80fa92747b473e61"},
    {UVCC_NL_MAX, true, false, "80fa92747b473e61"},
    {UVCC_NL_MAX, true, true, "4e72d57ae4516d61"},
    {UVCC_NL_ARGMAX, false, false, "0e8e91a644383cb3"},
    {UVCC_NL_ARGMAX, true, false, "0e8e91a644383cb3"},
    {UVCC_NL_SOFTMAX, false, false, "7f9695df6df40504"},
    {UVCC_NL_SOFTMAX, true, false, "46ee8b44fc09f9bd"},
    {UVCC_NL_SOFTMAX, true, true, "46ee8b44fc09f9bd"},
    {UVCC_NL_RMSNORM, false, false, "6f94890d56f68412"},
    {UVCC_NL_RMSNORM, true, false, "ed9ee06465c8eaef"},
    {UVCC_NL_RMSNORM, true, true, "552a3ca67f4c62a5"},
    {UVCC_NL_LAYERNORM, false, false, "40fd519be7d02ced"},
    {UVCC_NL_LAYERNORM, true, false, "7f346217816d0aa5"},
    {UVCC_NL_LAYERNORM, true, true, "e558e5d0bfc7f825"},
    {UVCC_NL_CROSS_ENTROPY_GRADIENT, false, false, "85942f65d93a8301"},
    {UVCC_NL_CROSS_ENTROPY_GRADIENT, true, false, "d5c74c4a9eb1b535"},
    {UVCC_NL_CROSS_ENTROPY_GRADIENT, true, true, "d5c74c4a9eb1b535"},
};

static uint32_t add_tensor(uvcc_program *p, uvcc_tensor_desc d, unsigned n) {
    char name[16];
    snprintf(name, sizeof name, "t%u", n);
    d.name = name;
    const int t = uvcc_program_tensor(p, &d);
    assert_true(t >= 0);
    return (uint32_t)t;
}

/* All ops that are emitted for a function. */
static void hash_of(const pin *f, char text[17]) {
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    const uvcc_nonlinear_options opt = {.size = sizeof opt,
                                        .cols = COLS,
                                        .exact = f->exact,
                                        .dcf = f->other,
                                        .derivative = f->other,
                                        .shallow = f->other};
    const uvcc_tensor_desc x = {.rows = ROWS,
                                .cols = COLS,
                                .bits = F + 9,
                                .scale = F,
                                .lifetime = UVCC_TRANSIENT,
                                .in_buffer_of = UVCC_NO_TENSOR},
                           row = {.rows = 1,
                                  .cols = COLS,
                                  .bits = F + 9,
                                  .scale = F,
                                  .lifetime = UVCC_TRANSIENT,
                                  .in_buffer_of = UVCC_NO_TENSOR};
    const bool square = f->what == UVCC_NL_CROSS_ENTROPY_GRADIENT;
    const uvcc_tensor_desc in[3] = {x, square ? x : row, row};
    uvcc_tensor_desc out[3];
    uint32_t from[3], to[3];
    uint8_t hash[32];
    uvcc_program *p;
    uvcci_sha256 h;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    for (unsigned i = 0; i < 3; i++)
        from[i] = add_tensor(p, in[i], i);
    const int outs = uvcc_nonlinear_output(f->what, &opt, in, out);
    assert_true(outs >= 1 && outs <= 3);
    for (int i = 0; i < outs; i++)
        to[i] = add_tensor(p, out[i], 3 + (unsigned)i);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    for (unsigned i = 0; i < uvcc_nonlinear_at(f->what)->inputs; i++)
        assert_true(uvcc_program_input(p, i, from[i], 0) >= 0);
    uvcc_emit emit = {.program = p, .prefix = "f", .alloc = &al};
    assert_int_equal(uvcc_emit_nonlinear(&emit, f->what, &opt, from, to), 0);
    char why[256] = "";
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    uvcci_sha256_init(&h);
    for (uint32_t i = 0; i < p->entries[0].op_count; i++)
        put_op(&h, p, &p->entries[0].ops[i], &al);
    uvcci_sha256_final(&h, hash);
    for (unsigned i = 0; i < 8; i++)
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

static void what_functions_send(void **state) {
    (void)state;
    unsigned wrong = 0;
    for (size_t i = 0; i < sizeof pins / sizeof pins[0]; i++) {
        char text[17];
        hash_of(&pins[i], text);
        if (strcmp(text, pins[i].hash) == 0)
            continue;
        print_error("%s: {.., %s, %s, \"%s\"}\n", uvcc_nonlinear_at(pins[i].what)->name,
                    pins[i].exact ? "true" : "false", pins[i].other ? "true" : "false", text);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

/* The edges of all blocks that an op opens, of the longest of its vectors too, which may have more
 * blocks than the op: each is an edge, whatever stood there. */
static void edges_of_long_vectors(void **state) {
    (void)state;
    enum { DEEP = 3 * UVCC_BLOCK_ELEMS };
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = test_tensor(p, "X", 1, DEEP, 20, 8, UVCC_TRANSIENT);
    const uint32_t y = test_tensor(p, "Y", DEEP, 1, 20, 8, UVCC_TRANSIENT);
    const uint32_t z = test_tensor(p, "Z", 1, 1, 60, 16, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, 1, x, 0) >= 0);
    assert_true(uvcc_program_input(p, 2, y, 1) >= 0);
    assert_true(uvcc_program_op(p, &(uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS,
                                                   .in_count = 2,
                                                   .out_count = 1,
                                                   .in = {x, y},
                                                   .out = {z},
                                                   .flags = UVCC_OP_BEAVER}) >= 0);
    char why[256] = "";
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    uvcci_plan plan;
    for (uint32_t i = 0; i < p->entries[0].op_count; i++) {
        if (p->entries[0].ops[i].desc.opcode != UVCC_OP_GEMM_SS)
            continue;
        assert_int_equal(uvcci_plan_make(&plan, p, &p->entries[0], &p->entries[0].ops[i], &al), 0);
        assert_true(plan.edge_blocks == 3 && plan.blocks == 1);
        uint64_t room[UVCCI_PLAN_IDS][3], *id[UVCCI_PLAN_IDS];
        uint8_t edge[4];
        for (unsigned k = 0; k < UVCCI_PLAN_IDS; k++)
            id[k] = room[k];
        memset(edge, 0xa5, sizeof edge);
        uvcci_plan_ids ids = {.id = id, .edge = edge};
        uvcci_plan_ids_fill(&plan, sid, STEP, OP, &ids);
        for (unsigned b = 0; b < 3; b++)
            assert_in_range(edge[b], 0, 2);
        assert_int_equal(edge[3], 0xa5);
        uvcci_plan_free(&plan, &al);
    }
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_functions_send),
        cmocka_unit_test(edges_of_long_vectors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
