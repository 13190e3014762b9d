/* SPDX-License-Identifier: Apache-2.0 */
/* test_liveness.c - what ops wait for and how long buffers live (liveness.h): on the pinned
 * transformer block, against the tables of docs/program.md, and rule by rule on small entries. */
#include "pinned_block.h"

#include "exec/program/liveness.h"

/* ---- the pinned transformer block ---- */

static const uvcci_op *op_of_k(const uvcc_program *p, uint32_t k) {
    for (uint32_t i = 0; i < p->entries[0].op_count; i++)
        if (p->entries[0].ops[i].desc.k == k)
            return &p->entries[0].ops[i];
    fail_msg("no op with k %u", k);
    return NULL;
}

static uint32_t life_k(const uvcc_program *p, const char *buffer, bool first) {
    uvcc_buffer_life life;
    assert_int_equal(uvcc_program_life(p, 0, (uint32_t)uvcc_program_find(p, buffer), &life), 0);
    return uvcc_program_op_at(p, 0, first ? life.first_write : life.last_read)->k;
}

/* The table of program.md: buffer by its first tensor, k of first write and last read. */
static void test_block_lives(void **state) {
    (void)state;
    static const struct {
        const char *buffer;
        uint32_t first, last, reads;
    } table[] = {
        {"X_IN", 0, 125, 3},     {"INV_RMS1", 1, 125, 1},  {"XN1", 1, 123, 2},
        {"TQKV", 2, 120, 7},     {"S", 6, 117, 5},         {"O", 9, 113, 2},
        {"Y", 10, 110, 5},       {"INV_RMS2", 14, 110, 1}, {"XN2", 14, 108, 2},
        {"H", 15, 105, 3},       {"G", 18, 103, 2},        {"Z", 19, 23, 3},
        {"DX_OUT", 100, 101, 1}, {"DZ1", 101, 104, 3},     {"DG", 104, 106, 1},
        {"DH1", 105, 109, 4},    {"DXN2", 109, 110, 1},    {"DX1", 101, 111, 2},
        {"DY", 111, 114, 3},     {"DO", 114, 116, 2},      {"DP", 115, 117, 1},
        {"DV", 116, 121, 1},     {"DSCALED", 117, 118, 1}, {"DS", 118, 120, 2},
        {"DQ", 119, 121, 1},     {"DK", 120, 121, 1},      {"DTQKV", 121, 124, 3},
        {"DXN1", 124, 125, 1},   {"DX_IN", 111, 126, 2},
    };
    test_alloc counts = {0};
    uvcc_program *p = pinned_block(&counts, false);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        uvcc_buffer_life life;
        const uint32_t buffer = (uint32_t)uvcc_program_find(p, table[i].buffer);
        assert_int_equal(uvcc_program_life(p, 0, buffer, &life), 0);
        if (life_k(p, table[i].buffer, true) != table[i].first ||
            life_k(p, table[i].buffer, false) != table[i].last || life.reads != table[i].reads)
            fail_msg("%s: %u to %u, %u reads", table[i].buffer, life_k(p, table[i].buffer, true),
                     life_k(p, table[i].buffer, false), life.reads);
    }
    uvcc_buffer_life life; /* weights are read, never written; gradients written, never read */
    assert_int_equal(uvcc_program_life(p, 0, (uint32_t)uvcc_program_find(p, "W1"), &life), 0);
    assert_int_equal(life.first_write, UINT32_MAX);
    assert_int_equal(life.reads, 2);
    const uint32_t dw1 = (uint32_t)uvcc_program_find(p, "DW1");
    assert_int_equal(uvcc_program_life(p, 0, dw1, &life), 0);
    assert_int_equal(life.last_read, UINT32_MAX);
    assert_int_equal(life.reads, 0);
    assert_int_equal(p->entries[0].uses[dw1], 1);
    /* Q lies in TQKV's buffer, P in S's through SSCALED */
    assert_int_equal(p->tensors[uvcc_program_find(p, "P")].buffer, uvcc_program_find(p, "S"));
    assert_int_equal(uvcc_program_life(p, 0, (uint32_t)uvcc_program_find(p, "Q"), &life),
                     UVCC_ERR_USAGE);
    uvcc_program_free(p);
    assert_int_equal(counts.live_blocks, 0);
}

static bool has_pred(const uvcc_program *p, uint32_t k, uint32_t pred_k) {
    const uint32_t from = (uint32_t)(op_of_k(p, pred_k) - p->entries[0].ops);
    const uint32_t to = (uint32_t)(op_of_k(p, k) - p->entries[0].ops);
    uint32_t followers[64];
    const int n = uvcc_program_followers(p, 0, from, followers, 64);
    assert_true(n >= 0 && n <= 64);
    for (int i = 0; i < n; i++)
        if (followers[i] == to)
            return true;
    return false;
}

static void test_block_versions(void **state) {
    (void)state;
    static const struct {
        const char *tensor;
        uint32_t k;
        bool out;
        uint32_t at, version;
    } table[] = {
        {"TQKV", 2, true, 0, 1},     {"TQKV", 3, false, 2, 1},    {"TQKV", 4, false, 0, 1},
        {"TQKV", 4, true, 0, 2},     {"TQKV", 5, false, 0, 2},    {"Y", 10, true, 0, 1},
        {"Y", 11, false, 2, 1},      {"Y", 12, false, 0, 1},      {"Y", 12, true, 0, 2},
        {"Y", 13, false, 1, 2},      {"DX1", 101, true, 0, 1},    {"DX1", 110, false, 4, 1},
        {"DX1", 110, true, 0, 2},    {"DX1", 111, false, 0, 2},   {"DH1", 105, true, 0, 1},
        {"DH1", 106, false, 1, 1},   {"DH1", 106, true, 0, 2},    {"DH1", 108, false, 1, 2},
        {"DX_IN", 111, true, 0, 1},  {"DX_IN", 125, false, 4, 1}, {"DX_IN", 125, true, 0, 2},
        {"DX_IN", 126, false, 0, 2}, {"W_QKV", 124, false, 1, 0},
    };
    test_alloc counts = {0};
    uvcc_program *p = pinned_block(&counts, true);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const uvcci_op *op = op_of_k(p, table[i].k);
        const uint32_t t = (uint32_t)uvcc_program_find(p, table[i].tensor);
        assert_int_equal(table[i].out ? op->desc.out[table[i].at] : op->desc.in[table[i].at], t);
        assert_int_equal(table[i].out ? op->out_version[table[i].at] : op->in_version[table[i].at],
                         table[i].version);
    }
    assert_int_equal(op_of_k(p, 0)->pred_count, 0);
    assert_true(has_pred(p, 4, 2));      /* reads what 2 wrote */
    assert_true(has_pred(p, 4, 3));      /* overwrites what 3 reads */
    assert_true(has_pred(p, 17, 16));    /* H1 over H, which the check reads */
    assert_true(has_pred(p, 7, 6));      /* SSCALED over S */
    assert_true(has_pred(p, 22, 13));    /* X1 */
    assert_false(has_pred(p, 126, 111)); /* only the last version counts */
    assert_true(has_pred(p, 126, 125));
    assert_false(has_pred(p, 103, 102));
    assert_int_equal(op_of_k(p, 22)->pred_count, 2);
    uint32_t one = UINT32_MAX;
    assert_true(uvcc_program_followers(p, 0, 0, NULL, 0) > 1); /* X_IN has several readers */
    assert_int_equal(uvcc_program_followers(p, 0, 0, &one, 1),
                     uvcc_program_followers(p, 0, 0, NULL, 0));
    assert_int_equal(one, 1);
    assert_int_equal(uvcc_program_followers(p, 1, 0, &one, 1), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_followers(p, 0, 51, &one, 1), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_followers(p, 0, 0, NULL, 1), UVCC_ERR_USAGE);
    uvcc_program_free(p);
}

/* What any execution that respects the dependencies needs: edges go forward, none comes twice, the
 * counts agree, and whoever touches a buffer after its writer is ordered with it. */
static void test_block_dependencies(void **state) {
    (void)state;
    test_alloc counts = {0};
    uvcc_program *p = pinned_block(&counts, true);
    const uvcci_entry *e = &p->entries[0];
    enum { MAX = 64 };
    assert_true(e->op_count <= MAX);
    static bool before[MAX][MAX]; /* transitive */
    uint32_t preds[MAX] = {0};
    memset(before, 0, sizeof before);
    for (uint32_t i = e->op_count; i-- > 0;)
        for (uint32_t s = 0; s < e->ops[i].succ_count; s++) {
            const uint32_t to = e->succ[e->ops[i].succ_first + s];
            assert_true(to > i && to < e->op_count);
            preds[to]++;
            before[i][to] = true;
            for (uint32_t n = 0; n < e->op_count; n++)
                before[i][n] |= before[to][n];
        }
    for (uint32_t i = 0; i < e->op_count; i++) {
        assert_int_equal(preds[i], e->ops[i].pred_count);
        for (uint32_t j = 0; j < i; j++)
            for (uint32_t o = 0; o < e->ops[i].desc.out_count; o++) /* i writes what j touches */
                for (uint32_t t = 0; t < e->ops[j].touched_count; t++)
                    if (e->ops[j].touched[t] == p->tensors[e->ops[i].desc.out[o]].buffer)
                        assert_true(before[j][i]);
    }
    uvcc_program_free(p);
}

/* ---- rule by rule ---- */

enum { A, B, C, D, P, Q, TENSORS }; /* P and Q are PERSIST */
#define NONE UVCC_NO_TENSOR

/* An entry of sums: each op adds `x` and `y` (or shifts x alone by 0) into `z`. */
typedef struct sum {
    uint32_t x, y, z;
} sum;

static uvcc_program *make(test_alloc *mem, const uint32_t *host, const sum *ops, uint32_t count,
                          char *message, int *rc) {
    static const char *const names[TENSORS] = {"A", "B", "C", "D", "P", "Q"};
    const uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    for (uint32_t t = 0; t < TENSORS; t++)
        assert_int_equal(
            uvcc_program_tensor(
                p, &(uvcc_tensor_desc){.name = names[t],
                                       .rows = 2,
                                       .cols = 2,
                                       .bits = 40,
                                       .lifetime = t >= P ? UVCC_PERSIST : UVCC_TRANSIENT,
                                       .in_buffer_of = host != NULL ? host[t] : NONE}),
            t);
    assert_int_equal(uvcc_program_entry(p, "go"), 0);
    for (uint32_t i = 0; i < count; i++) {
        uvcc_op_desc d = {.opcode = ops[i].y == NONE ? UVCC_OP_SHIFT_LEFT : UVCC_OP_SUB,
                          .k = (uint16_t)i,
                          .in_count = ops[i].y == NONE ? 1 : 2,
                          .in = {ops[i].x, ops[i].y},
                          .out_count = 1,
                          .out = {ops[i].z}};
        assert_int_equal(uvcc_program_op(p, &d), i);
    }
    *rc = uvcc_program_finish(p, message, 256);
    return p;
}

static bool waits_for(const uvcc_program *p, uint32_t op, uint32_t before) {
    const uvcci_entry *e = &p->entries[0];
    for (uint32_t k = 0; k < e->ops[before].succ_count; k++)
        if (e->succ[e->ops[before].succ_first + k] == op)
            return true;
    return false;
}

static void readers_wait_for_the_writer(void **state) {
    (void)state;
    test_alloc mem = {0};
    char message[256];
    int rc;
    static const sum ops[] = {{P, NONE, A}, {Q, NONE, B}, {A, A, C}, {A, B, D}};
    uvcc_program *p = make(&mem, NULL, ops, 4, message, &rc);
    assert_int_equal(rc, 0);
    const uvcci_entry *e = &p->entries[0];
    assert_int_equal(e->ops[0].pred_count, 0);
    assert_int_equal(e->ops[1].pred_count, 0);
    assert_int_equal(e->ops[2].pred_count, 1); /* it reads A twice: one edge */
    assert_true(waits_for(p, 2, 0));
    assert_int_equal(e->ops[3].pred_count, 2);
    assert_true(waits_for(p, 3, 0) && waits_for(p, 3, 1));
    assert_false(waits_for(p, 3, 2)); /* two readers do not wait for each other */
    /* PERSIST tensors are read as the step found them. */
    assert_int_equal(e->ops[0].in_version[0], 0);
    assert_int_equal(e->ops[2].in_version[0], 1);
    assert_int_equal(e->life[P].first_write, UVCCI_NO_OP);
    assert_int_equal(e->life[A].first_write, 0);
    assert_int_equal(e->life[A].last_read, 3);
    assert_int_equal(e->life[A].reads, 2); /* ops, not operands */
    assert_int_equal(e->uses[A], 3);
    assert_int_equal(e->life[C].last_read, UVCCI_NO_OP);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

static void writers_wait_for_readers(void **state) {
    (void)state;
    test_alloc mem = {0};
    char message[256];
    int rc;
    /* A is written, read twice, written again in place, read. */
    static const sum ops[] = {{P, NONE, A}, {A, NONE, B}, {A, NONE, C}, {A, P, A}, {A, NONE, D}};
    uvcc_program *p = make(&mem, NULL, ops, 5, message, &rc);
    assert_int_equal(rc, 0);
    const uvcci_entry *e = &p->entries[0];
    assert_true(waits_for(p, 3, 0) && waits_for(p, 3, 1) && waits_for(p, 3, 2));
    assert_int_equal(e->ops[3].pred_count, 3); /* not for itself, though it reads A */
    assert_int_equal(e->ops[4].pred_count, 1); /* only the last version counts */
    assert_true(waits_for(p, 4, 3));
    assert_int_equal(e->ops[3].in_version[0], 1);
    assert_int_equal(e->ops[3].out_version[0], 2);
    assert_int_equal(e->ops[4].in_version[0], 2);
    assert_int_equal(e->uses[A], 5);
    uvcc_program_free(p);

    /* A PERSIST tensor that is updated: after all that read what the step found. */
    static const sum update[] = {{P, NONE, A}, {P, NONE, B}, {P, A, P}};
    p = make(&mem, NULL, update, 3, message, &rc);
    assert_int_equal(rc, 0);
    assert_int_equal(p->entries[0].ops[2].pred_count, 2);
    assert_true(waits_for(p, 2, 1));
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

static void tensors_in_one_buffer(void **state) {
    (void)state;
    test_alloc mem = {0};
    char message[256];
    int rc;
    static const uint32_t host[TENSORS] = {NONE, A, NONE, NONE, NONE, NONE}; /* B in A's buffer */
    static const sum over[] = {{P, NONE, A}, {A, NONE, C}, {A, P, B}, {B, NONE, D}};
    uvcc_program *p = make(&mem, host, over, 4, message, &rc);
    assert_int_equal(rc, 0);
    const uvcci_entry *e = &p->entries[0];
    assert_true(waits_for(p, 2, 0) && waits_for(p, 2, 1));
    assert_int_equal(e->uses[A], 4); /* of the owner; B has none of its own */
    assert_int_equal(e->uses[B], 0);
    assert_int_equal(e->ops[2].out_version[0], 1); /* versions are a tensor's */
    uvcc_program_free(p);

    /* A's bytes are gone once B is written. */
    static const sum gone[] = {{P, NONE, A}, {A, P, B}, {A, NONE, C}};
    p = make(&mem, host, gone, 3, message, &rc);
    assert_int_equal(rc, UVCC_ERR_PROGRAM);
    assert_non_null(strstr(message, "reads A after"));
    assert_non_null(strstr(message, "overwrote its buffer"));
    uvcc_program_free(p);
    static const sum unwritten[] = {{A, NONE, B}};
    p = make(&mem, NULL, unwritten, 1, message, &rc);
    assert_int_equal(rc, UVCC_ERR_PROGRAM);
    assert_non_null(strstr(message, "reads A, which nothing before it in entry go writes"));
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* Ordinals are by (phase, mb, k), indices by the stage's order of slots. */
static void ordinals(void **state) {
    (void)state;
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uvcc_tensor_desc d = {.name = "W",
                                .rows = 1,
                                .cols = 1,
                                .bits = 40,
                                .lifetime = UVCC_PERSIST,
                                .in_buffer_of = NONE};
    assert_int_equal(uvcc_program_tensor(p, &d), 0);
    assert_int_equal(uvcc_program_topology(p, 1, 1, 1), 0);
    assert_int_equal(uvcc_program_entry(p, "go"), 0);
    assert_int_equal(uvcc_program_pipeline(p, 0, 1, 0), 0);
    for (uint8_t phase = UVCC_FWD; phase <= UVCC_BWD; phase++)
        for (uint16_t mb = 0; mb < 3; mb++) {
            const uvcc_op_desc op = {.opcode = UVCC_OP_SUB,
                                     .phase = phase,
                                     .mb = mb,
                                     .k = 7,
                                     .in_count = 2,
                                     .out_count = 1};
            assert_true(uvcc_program_op(p, &op) >= 0);
        }
    char message[256];
    if (uvcc_program_finish(p, message, sizeof message) != 0)
        fail_msg("%s", message);
    const uvcci_entry *e = &p->entries[0];
    assert_int_equal(e->op_count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        const uvcci_op *op = &e->ops[e->by_ordinal[i]];
        assert_int_equal(op->ordinal, i);
        assert_int_equal(op->desc.phase, i / 3);
        assert_int_equal(op->desc.mb, i % 3);
        assert_int_equal(e->ops[i].desc.mb, i / 2); /* forward, backward, forward, ... */
        assert_int_equal(e->ops[i].desc.phase, i % 2);
    }
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* The gradient of an activation takes no buffer before the activation left: RECV_PP of BWD waits
 * for SEND_PP of FWD, of its own microbatch. */
static void gradients_wait_for_the_send(void **state) {
    (void)state;
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    for (unsigned t = 0; t < 8; t++) {
        char name[2] = {(char)('A' + t), 0};
        const uvcc_tensor_desc d = {.name = name,
                                    .rows = 1,
                                    .cols = 1,
                                    .bits = 20,
                                    .lifetime = UVCC_TRANSIENT,
                                    .in_buffer_of = NONE};
        assert_int_equal(uvcc_program_tensor(p, &d), (int)t);
    }
    assert_int_equal(uvcc_program_topology(p, 1, 3, 1), 0);
    assert_int_equal(uvcc_program_entry(p, "go"), 0);
    assert_int_equal(uvcc_program_pipeline(p, 1, 3, 8), 0);
    for (uint8_t phase = UVCC_FWD; phase <= UVCC_BWD; phase++)
        for (uint16_t mb = 0; mb < 2; mb++) {
            const uint32_t t = 4u * mb + 2u * phase;
            const uvcc_op_desc recv = {.opcode = UVCC_OP_RECV_PP,
                                       .phase = phase,
                                       .mb = mb,
                                       .k = 0,
                                       .out_count = 1,
                                       .out = {t}};
            const uvcc_op_desc send = {.opcode = UVCC_OP_SEND_PP,
                                       .phase = phase,
                                       .mb = mb,
                                       .k = 1,
                                       .in_count = 1,
                                       .in = {t}};
            assert_true(uvcc_program_op(p, &recv) >= 0);
            assert_true(uvcc_program_op(p, &send) >= 0);
        }
    char message[256];
    if (uvcc_program_finish(p, message, sizeof message) != 0)
        fail_msg("%s", message);
    const uvcci_entry *e = &p->entries[0];
    for (uint32_t i = 0; i < e->op_count; i++)
        for (uint32_t j = 0; j < e->op_count; j++) {
            const uvcc_op_desc *a = &e->ops[i].desc, *b = &e->ops[j].desc;
            const bool own = a->opcode == UVCC_OP_RECV_PP && b->opcode == UVCC_OP_SEND_PP &&
                             a->phase == UVCC_BWD && b->phase == UVCC_FWD && a->mb == b->mb;
            const bool sent = a->opcode == UVCC_OP_SEND_PP && b->opcode == UVCC_OP_RECV_PP &&
                              a->phase == b->phase && a->mb == b->mb;
            assert_int_equal(waits_for(p, i, j), own || sent);
        }
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* Random entries: edges go forward, none comes twice, they fit the bound, and any two ops of which
 * one writes a buffer that the other touches are ordered. */
static void random_entries(void **state) {
    (void)state;
    uint64_t seed = 11;
    unsigned made = 0;
    for (unsigned round = 0; round < 400; round++) {
        test_alloc mem = {0};
        sum ops[24];
        uint32_t there = 1u << P | 1u << Q; /* tensors that have a value */
        for (unsigned i = 0; i < 24; i++) {
            const uint64_t r = test_rand(&seed);
            const uint32_t first = r % TENSORS, second = (r >> 16) % TENSORS;
            ops[i] = (sum){there >> first & 1 ? first : P,
                           r >> 8 & 1            ? NONE
                           : there >> second & 1 ? second
                                                 : Q,
                           (r >> 24) % TENSORS};
            there |= 1u << ops[i].z;
        }
        char message[256];
        int rc;
        uvcc_program *p = make(&mem, NULL, ops, 24, message, &rc);
        if (rc == 0) {
            made++;
            const uvcci_entry *e = &p->entries[0];
            uint32_t before[24] = {0}, edges = 0; /* transitive, of ops behind one another */
            for (uint32_t i = 0; i < 24; i++) {
                for (uint32_t j = 0; j < i; j++)
                    if (waits_for(p, i, j))
                        before[i] |= before[j] | 1u << j;
                uint32_t seen = 0;
                for (uint32_t k = 0; k < e->ops[i].succ_count; k++) {
                    const uint32_t to = e->succ[e->ops[i].succ_first + k];
                    assert_true(to > i && to < 24 && (seen >> to & 1) == 0);
                    seen |= 1u << to;
                }
                edges += e->ops[i].succ_count;
            }
            assert_true(edges <= uvcci_edge_bound(e->ops, e->op_count));
            for (uint32_t i = 0; i < 24; i++)
                for (uint32_t j = 0; j < i; j++)
                    if (ops[i].z == ops[j].z || ops[i].z == ops[j].x || ops[i].z == ops[j].y ||
                        ops[j].z == ops[i].x || ops[j].z == ops[i].y)
                        assert_true(before[i] >> j & 1);
        }
        uvcc_program_free(p);
        assert_int_equal(mem.live_blocks, 0);
    }
    assert_int_equal(made, 400);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_block_lives),
        cmocka_unit_test(test_block_versions),
        cmocka_unit_test(test_block_dependencies),
        cmocka_unit_test(readers_wait_for_the_writer),
        cmocka_unit_test(writers_wait_for_readers),
        cmocka_unit_test(tensors_in_one_buffer),
        cmocka_unit_test(ordinals),
        cmocka_unit_test(gradients_wait_for_the_send),
        cmocka_unit_test(random_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
