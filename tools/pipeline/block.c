/* SPDX-License-Identifier: Apache-2.0 */
/* block.c - the pinned transformer block (docs/program.md), and what the simulation needs of it:
 * which op waits for which, and who uses which buffer.
 *
 * The block is no program that a session could run: it has opcodes that are lowered to others. So
 * its dependencies are found here, by the rules of programs: an op waits for the writers of the
 * versions that it reads, and where it overwrites a buffer, for its last writer and all readers
 * since. */
#include "pipeline.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Sides of tensors. SCORES is a matrix of tokens x context for each head. */
typedef enum side { ONE, TOKENS, DIM, PACKED, HIDDEN, SCORES } side;

typedef struct block_tensor {
    const char *name, *host; /* host: whose buffer it lies in */
    uint8_t rows, cols;
} block_tensor;

/* In the order of docs/pipeline.md: activations, their gradients, gradients of weights. */
static const block_tensor tensors[] = {
    {"X_IN", NULL, TOKENS, DIM},      {"INV_RMS1", NULL, TOKENS, ONE},
    {"XN1", NULL, TOKENS, DIM},       {"TQKV", NULL, TOKENS, PACKED},
    {"Q", "TQKV", TOKENS, DIM},       {"K", "TQKV", TOKENS, DIM},
    {"V", "TQKV", TOKENS, DIM},       {"S", NULL, TOKENS, SCORES},
    {"SSCALED", "S", TOKENS, SCORES}, {"P", "SSCALED", TOKENS, SCORES},
    {"O", NULL, TOKENS, DIM},         {"Y", NULL, TOKENS, DIM},
    {"X1", "Y", TOKENS, DIM},         {"INV_RMS2", NULL, TOKENS, ONE},
    {"XN2", NULL, TOKENS, DIM},       {"H", NULL, TOKENS, HIDDEN},
    {"H1", "H", TOKENS, HIDDEN},      {"G", NULL, TOKENS, HIDDEN},
    {"Z", NULL, TOKENS, DIM},         {"Z1", "Z", TOKENS, DIM},
    {"X_OUT", "Z1", TOKENS, DIM},     {"DX_OUT", NULL, TOKENS, DIM},
    {"DZ1", NULL, TOKENS, DIM},       {"DG", NULL, TOKENS, HIDDEN},
    {"DH1", NULL, TOKENS, HIDDEN},    {"DXN2", NULL, TOKENS, DIM},
    {"DX1", NULL, TOKENS, DIM},       {"DY", NULL, TOKENS, DIM},
    {"DO", NULL, TOKENS, DIM},        {"DP", NULL, TOKENS, SCORES},
    {"DV", NULL, TOKENS, DIM},        {"DSCALED", NULL, TOKENS, SCORES},
    {"DS", NULL, TOKENS, SCORES},     {"DQ", NULL, TOKENS, DIM},
    {"DK", NULL, TOKENS, DIM},        {"DTQKV", NULL, TOKENS, PACKED},
    {"DXN1", NULL, TOKENS, DIM},      {"DX_IN", NULL, TOKENS, DIM},
    {"DW_QKV", NULL, DIM, PACKED},    {"DB_QKV", NULL, ONE, PACKED},
    {"DW_O", NULL, DIM, DIM},         {"DB_O", NULL, ONE, DIM},
    {"DW1", NULL, DIM, HIDDEN},       {"DB1_G", NULL, ONE, HIDDEN},
    {"DW2", NULL, HIDDEN, DIM},       {"DB2_G", NULL, ONE, DIM},
    {"DGAMMA1", NULL, ONE, DIM},      {"DGAMMA2", NULL, ONE, DIM},
};
static const block_tensor weights[] = {
    {"GAMMA1", NULL, ONE, DIM}, {"W_QKV", NULL, DIM, PACKED}, {"B_QKV", NULL, ONE, PACKED},
    {"W_O", NULL, DIM, DIM},    {"B_O", NULL, ONE, DIM},      {"GAMMA2", NULL, ONE, DIM},
    {"W1", NULL, DIM, HIDDEN},  {"B1", NULL, ONE, HIDDEN},    {"W2", NULL, HIDDEN, DIM},
    {"B2", NULL, ONE, DIM},
};
#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* An op that accumulates reads what it adds to (RMSNORM_BWD). */
static const pipe_block_op block_ops[] = {
    {0, "RECV_PP", "FWD_RECV_X_IN", "", "X_IN", 0},
    {1, "RMSNORM_FWD", "FWD_RMSNORM1", "X_IN GAMMA1", "XN1 INV_RMS1", 0},
    {2, "GEMM_SS", "FWD_GEMM_QKV", "XN1 W_QKV", "TQKV", 0},
    {3, "SKS_GEMM_CHECK", "FWD_SKS_QKV", "XN1 W_QKV TQKV", "", 0},
    {4, "BIAS_ADD", "FWD_BIAS_QKV", "TQKV B_QKV", "TQKV", 0},
    {5, "VIEW_SPLIT_QKV", "FWD_SPLIT_QKV", "TQKV", "Q K V", 0},
    {6, "GEMM_SS", "FWD_GEMM_QK_T", "Q K", "S", UVCC_OP_TRANS_B},
    {7, "SCALE_PUBLIC", "FWD_SCALE_SCORES", "S", "SSCALED", 0},
    {8, "SOFTMAX_APPROX_FWD", "FWD_SOFTMAX_APPROX", "SSCALED", "P", 0},
    {9, "GEMM_SS", "FWD_GEMM_PV", "P V", "O", 0},
    {10, "GEMM_SS", "FWD_GEMM_O_PROJ", "O W_O", "Y", 0},
    {11, "SKS_GEMM_CHECK", "FWD_SKS_O_PROJ", "O W_O Y", "", 0},
    {12, "BIAS_ADD", "FWD_BIAS_O", "Y B_O", "Y", 0},
    {13, "RESIDUAL_ADD", "FWD_RESIDUAL1", "X_IN Y", "X1", 0},
    {14, "RMSNORM_FWD", "FWD_RMSNORM2", "X1 GAMMA2", "XN2 INV_RMS2", 0},
    {15, "GEMM_SS", "FWD_GEMM_MLP1", "XN2 W1", "H", 0},
    {16, "SKS_GEMM_CHECK", "FWD_SKS_MLP1", "XN2 W1 H", "", 0},
    {17, "BIAS_ADD", "FWD_BIAS_MLP1", "H B1", "H1", 0},
    {18, "GELU_APPROX_FWD", "FWD_GELU_APPROX", "H1", "G", 0},
    {19, "GEMM_SS", "FWD_GEMM_MLP2", "G W2", "Z", 0},
    {20, "SKS_GEMM_CHECK", "FWD_SKS_MLP2", "G W2 Z", "", 0},
    {21, "BIAS_ADD", "FWD_BIAS_MLP2", "Z B2", "Z1", 0},
    {22, "RESIDUAL_ADD", "FWD_RESIDUAL2", "X1 Z1", "X_OUT", 0},
    {23, "SEND_PP", "FWD_SEND_X_OUT", "X_OUT", "", 0},
    {100, "RECV_PP", "BWD_RECV_DX_OUT", "", "DX_OUT", 0},
    {101, "RESIDUAL_SPLIT", "BWD_RESIDUAL2_SPLIT", "DX_OUT", "DX1 DZ1", 0},
    {102, "REDUCE_BIAS_GRAD", "BWD_DB2", "DZ1", "DB2_G", 0},
    {103, "GEMM_SS", "BWD_GEMM_DW2", "G DZ1", "DW2", UVCC_OP_TRANS_A},
    {104, "GEMM_SS", "BWD_GEMM_DG", "DZ1 W2", "DG", UVCC_OP_TRANS_B},
    {105, "GELU_DERIV_APPROX", "BWD_GELU_DERIV", "H1", "DH1", 0},
    {106, "ELEM_MUL", "BWD_ELEM_MUL_DH1", "DG DH1", "DH1", 0},
    {107, "REDUCE_BIAS_GRAD", "BWD_DB1", "DH1", "DB1_G", 0},
    {108, "GEMM_SS", "BWD_GEMM_DW1", "XN2 DH1", "DW1", UVCC_OP_TRANS_A},
    {109, "GEMM_SS", "BWD_GEMM_DXN2", "DH1 W1", "DXN2", UVCC_OP_TRANS_B},
    {110, "RMSNORM_BWD", "BWD_RMSNORM2", "X1 INV_RMS2 DXN2 GAMMA2 DX1", "DX1 DGAMMA2", 0},
    {111, "RESIDUAL_SPLIT", "BWD_RESIDUAL1_SPLIT", "DX1", "DX_IN DY", 0},
    {112, "REDUCE_BIAS_GRAD", "BWD_DBO", "DY", "DB_O", 0},
    {113, "GEMM_SS", "BWD_GEMM_DWO", "O DY", "DW_O", UVCC_OP_TRANS_A},
    {114, "GEMM_SS", "BWD_GEMM_DO", "DY W_O", "DO", UVCC_OP_TRANS_B},
    {115, "GEMM_SS", "BWD_GEMM_DP", "DO V", "DP", UVCC_OP_TRANS_B},
    {116, "GEMM_SS", "BWD_GEMM_DV", "P DO", "DV", UVCC_OP_TRANS_A},
    {117, "SOFTMAX_BWD", "BWD_SOFTMAX_BWD", "P DP", "DSCALED", 0},
    {118, "SCALE_PUBLIC", "BWD_SCALE", "DSCALED", "DS", 0},
    {119, "GEMM_SS", "BWD_GEMM_DQ", "DS K", "DQ", 0},
    {120, "GEMM_SS", "BWD_GEMM_DK", "DS Q", "DK", UVCC_OP_TRANS_A},
    {121, "VIEW_MERGE_DQKV", "BWD_MERGE_DTQKV", "DQ DK DV", "DTQKV", 0},
    {122, "REDUCE_BIAS_GRAD", "BWD_DBQKV", "DTQKV", "DB_QKV", 0},
    {123, "GEMM_SS", "BWD_GEMM_DWQKV", "XN1 DTQKV", "DW_QKV", UVCC_OP_TRANS_A},
    {124, "GEMM_SS", "BWD_GEMM_DXN1", "DTQKV W_QKV", "DXN1", UVCC_OP_TRANS_B},
    {125, "RMSNORM_BWD", "BWD_RMSNORM1", "X_IN INV_RMS1 DXN1 GAMMA1 DX_IN", "DX_IN DGAMMA1", 0},
    {126, "SEND_PP", "BWD_SEND_DX_IN", "DX_IN", "", 0},
};
enum { FIRST_BWD = 100 };

const pipe_block_op *pipe_block_at(uint32_t i) {
    return i < COUNT(block_ops) ? &block_ops[i] : NULL;
}

/* ---- tensors ---- */

enum { TENSORS = COUNT(tensors), WEIGHTS = COUNT(weights), ALL = TENSORS + WEIGHTS, NAMES_MAX = 8 };

static const block_tensor *tensor_at(uint32_t t) {
    assert(t < ALL);
    return t < TENSORS ? &tensors[t] : &weights[t - TENSORS];
}

/* The tensor of that name, of `len` bytes. */
static uint32_t find(const char *name, size_t len) {
    uint32_t t = 0;
    while (strlen(tensor_at(t)->name) != len || memcmp(tensor_at(t)->name, name, len) != 0)
        t++; /* it is there: the tables are ours */
    return t;
}

/* The tensor that owns the buffer of tensor t. */
static uint32_t owner(uint32_t t) {
    const char *host;
    while ((host = tensor_at(t)->host) != NULL)
        t = find(host, strlen(host));
    return t;
}

/* The tensors that are named, blanks between them; their number. */
static unsigned take_names(const char *names, uint32_t out[NAMES_MAX]) {
    unsigned n = 0;
    while (*names != '\0') {
        const size_t len = strcspn(names, " ");
        assert(n < NAMES_MAX);
        out[n++] = find(names, len);
        names += len + (names[len] == ' ');
    }
    return n;
}

/* Elements of a tensor for the sizes as they are. */
static uint64_t elements(const pipe_sizes *s, const block_tensor *t) {
    const uint64_t tokens = (uint64_t)s->batch * s->context;
    const uint64_t sides[] = {
        1, tokens, s->dim, 3ull * s->dim, s->hidden, (uint64_t)s->heads * s->context};
    return sides[t->rows] * sides[t->cols];
}

/* ---- the graph ---- */

static bool is(const pipe_block_op *o, const char *opcode) {
    return strcmp(o->opcode, opcode) == 0;
}

/* Whether an op sends messages in a session. */
static bool waits(const pipe_block_op *o) {
    static const char *const those[] = {"GEMM_SS",     "ELEM_MUL",        "RMSNORM_FWD",
                                        "RMSNORM_BWD", "SKS_GEMM_CHECK",  "SOFTMAX_APPROX_FWD",
                                        "SOFTMAX_BWD", "GELU_APPROX_FWD", "GELU_DERIV_APPROX"};
    for (unsigned i = 0; i < COUNT(those); i++)
        if (is(o, those[i]))
            return true;
    return false;
}

static void take_ops(pipe_graph *g) {
    for (uint32_t i = 0; i < g->ops; i++) {
        const pipe_block_op *o = &block_ops[i];
        const uint64_t bit = 1ull << i;
        g->k[i] = o->k;
        g->phase[i] = o->k < FIRST_BWD ? PIPE_FWD : PIPE_BWD;
        (void)snprintf(g->name[i], sizeof g->name[i], "%s", o->name);
        g->all |= bit;
        g->readers |= *o->out == '\0' ? bit : 0;
        g->waits |= waits(o) ? bit : 0;
        if (is(o, "RECV_PP"))
            g->recv[g->phase[i]] = i;
        if (is(o, "SEND_PP"))
            g->send[g->phase[i]] = i;
    }
}

/* What every op waits for. A microbatch has what an op before it wrote, and the weights. */
static void find_preds(pipe_graph *g) {
    uint64_t writer[ALL] = {0};  /* of the newest version; of no tensor before it is written */
    uint64_t written[ALL] = {0}; /* buffer: who wrote in it last */
    uint64_t read[ALL] = {0};    /* buffer: who read in it since then */
    for (uint32_t i = 0; i < g->ops; i++) {
        const uint64_t bit = 1ull << i;
        uint32_t t[NAMES_MAX];
        unsigned n = take_names(block_ops[i].in, t);
        for (unsigned j = 0; j < n; j++) {
            g->preds[i] |= writer[t[j]];
            read[owner(t[j])] |= bit;
        }
        n = take_names(block_ops[i].out, t);
        for (unsigned j = 0; j < n; j++) {
            const uint32_t b = owner(t[j]);
            writer[t[j]] = bit;
            if (written[b] == bit) /* a second tensor in one buffer */
                continue;
            g->preds[i] |= written[b] | read[b];
            written[b] = bit;
            read[b] = 0;
        }
        g->preds[i] &= ~bit; /* it read what it overwrites */
        /* The gradient of an activation comes after the activation left. */
        if (is(&block_ops[i], "RECV_PP") && g->phase[i] == PIPE_BWD)
            g->preds[i] |= 1ull << g->send[PIPE_FWD];
    }
}

/* Edges go forward, so one pass back finds all that a send needs in its phase. */
static void find_feeds(pipe_graph *g) {
    for (unsigned phase = 0; phase < PIPE_PHASES; phase++)
        g->feeds |= 1ull << g->send[phase];
    for (uint32_t i = g->ops; i-- > 0;)
        for (uint32_t j = 0; (g->feeds >> i & 1) != 0 && j < i; j++)
            if ((g->preds[i] >> j & 1) != 0 && g->phase[j] == g->phase[i])
                g->feeds |= 1ull << j;
}

/* Buffers that the block writes and reads: weights are only read, their gradients only written,
 * into one buffer for all microbatches. */
static void take_buffers(pipe_graph *g, const pipe_sizes *s) {
    uint64_t reads[ALL] = {0}, writes[ALL] = {0};
    for (uint32_t i = 0; i < g->ops; i++) {
        uint32_t t[NAMES_MAX];
        unsigned n = take_names(block_ops[i].in, t);
        for (unsigned j = 0; j < n; j++)
            reads[owner(t[j])] |= 1ull << i;
        n = take_names(block_ops[i].out, t);
        for (unsigned j = 0; j < n; j++)
            writes[owner(t[j])] |= 1ull << i;
    }
    for (uint32_t b = 0; b < TENSORS; b++) {
        if (writes[b] == 0 || reads[b] == 0)
            continue;
        g->users[g->buffers] = reads[b] | writes[b];
        g->bytes[g->buffers++] = 2 * sizeof(uint64_t) * elements(s, &tensors[b]);
    }
}

void pipe_block_graph(pipe_graph *g, const pipe_sizes *s) {
    *g = (pipe_graph){.ops = COUNT(block_ops)};
    _Static_assert(COUNT(block_ops) <= PIPE_OPS_MAX && COUNT(tensors) <= PIPE_BUFFERS_MAX, "sizes");
    take_ops(g);
    find_preds(g);
    find_feeds(g);
    take_buffers(g, s);
}
