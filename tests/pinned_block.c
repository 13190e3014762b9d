/* SPDX-License-Identifier: Apache-2.0 */
/* pinned_block.c - see pinned_block.h. */
#include "pinned_block.h"

#include "exec/program/program_impl.h"

/* The ten that no program may hold stand for FUNCTION here, which takes any operands: of the loader
 * only what follows from those is looked at. */
static uint16_t pinned_opcode(const char *name) {
#define UVCC_OPCODE(op, code, n_in, n_out, what)                                                   \
    if (strcmp(name, #op) == 0)                                                                    \
        return code;
#include <uvcc/opcodes.def>
#undef UVCC_OPCODE
    static const char *const pinned[] = {
        "RMSNORM_FWD",     "RMSNORM_BWD",       "RESIDUAL_ADD",       "RESIDUAL_SPLIT",
        "VIEW_SPLIT_QKV",  "VIEW_MERGE_DQKV",   "SOFTMAX_APPROX_FWD", "SOFTMAX_BWD",
        "GELU_APPROX_FWD", "GELU_DERIV_APPROX",
    };
    for (size_t i = 0; i < sizeof pinned / sizeof pinned[0]; i++)
        if (strcmp(name, pinned[i]) == 0)
            return UVCC_OP_FUNCTION;
    fail_msg("no opcode %s", name);
    return 0;
}

enum { TOKENS = 8, WIDTH = 16, INNER = 32 };

typedef struct block_tensor {
    const char *name, *host;
    uint32_t rows, cols;
} block_tensor;

/* X, gradients of X and the like are TOKENS x WIDTH; everything at scale 8, 20 bits. */
static const block_tensor block_tensors[] = {
    {"X_IN", NULL, TOKENS, WIDTH},      {"INV_RMS1", NULL, TOKENS, 1},
    {"XN1", NULL, TOKENS, WIDTH},       {"TQKV", NULL, TOKENS, 3 * WIDTH},
    {"Q", "TQKV", TOKENS, WIDTH},       {"K", "TQKV", TOKENS, WIDTH},
    {"V", "TQKV", TOKENS, WIDTH},       {"S", NULL, TOKENS, TOKENS},
    {"SSCALED", "S", TOKENS, TOKENS},   {"P", "SSCALED", TOKENS, TOKENS},
    {"O", NULL, TOKENS, WIDTH},         {"Y", NULL, TOKENS, WIDTH},
    {"X1", "Y", TOKENS, WIDTH},         {"INV_RMS2", NULL, TOKENS, 1},
    {"XN2", NULL, TOKENS, WIDTH},       {"H", NULL, TOKENS, INNER},
    {"H1", "H", TOKENS, INNER},         {"G", NULL, TOKENS, INNER},
    {"Z", NULL, TOKENS, WIDTH},         {"Z1", "Z", TOKENS, WIDTH},
    {"X_OUT", "Z1", TOKENS, WIDTH},     {"DX_OUT", NULL, TOKENS, WIDTH},
    {"DZ1", NULL, TOKENS, WIDTH},       {"DG", NULL, TOKENS, INNER},
    {"DH1", NULL, TOKENS, INNER},       {"DXN2", NULL, TOKENS, WIDTH},
    {"DX1", NULL, TOKENS, WIDTH},       {"DY", NULL, TOKENS, WIDTH},
    {"DO", NULL, TOKENS, WIDTH},        {"DP", NULL, TOKENS, TOKENS},
    {"DV", NULL, TOKENS, WIDTH},        {"DSCALED", NULL, TOKENS, TOKENS},
    {"DS", NULL, TOKENS, TOKENS},       {"DQ", NULL, TOKENS, WIDTH},
    {"DK", NULL, TOKENS, WIDTH},        {"DTQKV", NULL, TOKENS, 3 * WIDTH},
    {"DXN1", NULL, TOKENS, WIDTH},      {"DX_IN", NULL, TOKENS, WIDTH},
    {"DW_QKV", NULL, WIDTH, 3 * WIDTH}, {"DB_QKV", NULL, 1, 3 * WIDTH},
    {"DW_O", NULL, WIDTH, WIDTH},       {"DB_O", NULL, 1, WIDTH},
    {"DW1", NULL, WIDTH, INNER},        {"DB1_G", NULL, 1, INNER},
    {"DW2", NULL, INNER, WIDTH},        {"DB2_G", NULL, 1, WIDTH},
    {"DGAMMA1", NULL, 1, WIDTH},        {"DGAMMA2", NULL, 1, WIDTH},
};
static const block_tensor block_weights[] = {
    {"GAMMA1", NULL, 1, WIDTH},    {"W_QKV", NULL, WIDTH, 3 * WIDTH},
    {"B_QKV", NULL, 1, 3 * WIDTH}, {"W_O", NULL, WIDTH, WIDTH},
    {"B_O", NULL, 1, WIDTH},       {"GAMMA2", NULL, 1, WIDTH},
    {"W1", NULL, WIDTH, INNER},    {"B1", NULL, 1, INNER},
    {"W2", NULL, INNER, WIDTH},    {"B2", NULL, 1, WIDTH},
};

static void add_block_tensors(uvcc_program *p, const block_tensor *t, size_t n, uint8_t lifetime) {
    for (size_t i = 0; i < n; i++) {
        uint32_t host = UVCC_NO_TENSOR;
        if (t[i].host != NULL)
            host = (uint32_t)uvcc_program_find(p, t[i].host);
        assert_true(uvcc_program_tensor(p, &(uvcc_tensor_desc){.name = t[i].name,
                                                               .rows = t[i].rows,
                                                               .cols = t[i].cols,
                                                               .bits = 20,
                                                               .scale = 8,
                                                               .lifetime = lifetime,
                                                               .in_buffer_of = host}) >= 0);
    }
}

static uint8_t add_names(const uvcc_program *p, const json_t *names, uint32_t *out) {
    uint8_t n = (uint8_t)json_array_size(names);
    for (uint8_t i = 0; i < n; i++) {
        int t = uvcc_program_find(p, json_string_value(json_array_get(names, i)));
        assert_true(t >= 0);
        out[i] = (uint32_t)t;
    }
    return n;
}

static void add_block_op(uvcc_program *p, const json_t *j) {
    uvcc_op_desc d = {.name = test_str(j, "name"),
                      .opcode = pinned_opcode(test_str(j, "op")),
                      .phase = strcmp(test_str(j, "phase"), "FWD") == 0 ? UVCC_FWD : UVCC_BWD,
                      .k = (uint16_t)test_u64(j, "k")};
    d.in_count = add_names(p, json_object_get(j, "in"), d.in);
    d.out_count = add_names(p, json_object_get(j, "out"), d.out);
    if (strcmp(test_str(j, "op"), "RMSNORM_BWD") ==
        0) /* it accumulates: its output is an input too */
        d.in[d.in_count++] = d.out[0];
    if (d.opcode == UVCC_OP_GEMM_SS) {
        d.flags = (json_is_true(json_object_get(j, "transA")) ? UVCC_OP_TRANS_A : 0) |
                  (json_is_true(json_object_get(j, "transB")) ? UVCC_OP_TRANS_B : 0);
    }
    if (d.opcode == UVCC_OP_GEMM_SS || d.opcode == UVCC_OP_ELEM_MUL)
        d.shift = 8;
    if (d.opcode == UVCC_OP_SCALE_PUBLIC)
        d.constant = 1;
    assert_true(uvcc_program_op(p, &d) >= 0);
}

/* What uvcc_program_finish() does, but for the checks of ops: they know only what is offered. */
static void finish_unchecked(uvcc_program *p) {
    char message[256] = "";
    const uvcci_message m = {message, sizeof message};
    int err = 0;
    for (uint32_t i = 0; i < p->tensor_count && err == 0; i++)
        err = uvcci_check_tensor(p, i, &m);
    if (err == 0)
        err = uvcci_order_entry(p, &p->entries[0], &m);
    if (err != 0)
        fail_msg("%s", message);
    p->finished = true;
}

uvcc_program *pinned_block(test_alloc *counts, bool sks) {
    const uvcc_allocator al = test_allocator(counts);
    uvcc_program *p = NULL;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    add_block_tensors(p, block_tensors, sizeof block_tensors / sizeof block_tensors[0],
                      UVCC_TRANSIENT);
    add_block_tensors(p, block_weights, sizeof block_weights / sizeof block_weights[0],
                      UVCC_PERSIST);
    assert_int_equal(uvcc_program_topology(p, 1, 3, 1), 0);
    assert_int_equal(uvcc_program_entry(p, "block"), 0);
    assert_int_equal(uvcc_program_pipeline(p, 1, 3, 0), 0); /* stages on both sides */
    json_t *v = LOAD_VECTORS("stage_program.json");
    const json_t *ops = json_object_get(v, "ops");
    assert_int_equal(json_array_size(ops), 51);
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const json_t *j = json_array_get(ops, i);
        if (sks || strcmp(test_str(j, "op"), "SKS_GEMM_CHECK") != 0)
            add_block_op(p, j);
    }
    finish_unchecked(p);
    json_decref(v);
    return p;
}
