/* block.c - the transformer block of docs/program.md's dependencies as a program, and what the
 * simulation needs of it: dependencies, lives and users of buffers come from the finished program.
 */
#include "pipeline.h"

#include <stdio.h>
#include <string.h>
#include <uvcc/host.h>

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

typedef struct block_op {
    uint16_t k, opcode;
    const char *name, *in, *out; /* tensors, separated by blanks */
    uint8_t flags;
} block_op;

/* An op that accumulates reads what it adds to (RMSNORM_BWD). */
static const block_op block_ops[] = {
    {0, UVCC_OP_RECV_PP, "FWD_RECV_X_IN", "", "X_IN", 0},
    {1, UVCC_OP_RMSNORM_FWD, "FWD_RMSNORM1", "X_IN GAMMA1", "XN1 INV_RMS1", 0},
    {2, UVCC_OP_GEMM_SS, "FWD_GEMM_QKV", "XN1 W_QKV", "TQKV", 0},
    {3, UVCC_OP_SKS_GEMM_CHECK, "FWD_SKS_QKV", "XN1 W_QKV TQKV", "", 0},
    {4, UVCC_OP_BIAS_ADD, "FWD_BIAS_QKV", "TQKV B_QKV", "TQKV", 0},
    {5, UVCC_OP_VIEW_SPLIT_QKV, "FWD_SPLIT_QKV", "TQKV", "Q K V", 0},
    {6, UVCC_OP_GEMM_SS, "FWD_GEMM_QK_T", "Q K", "S", UVCC_OP_TRANS_B},
    {7, UVCC_OP_SCALE_PUBLIC, "FWD_SCALE_SCORES", "S", "SSCALED", 0},
    {8, UVCC_OP_SOFTMAX_APPROX_FWD, "FWD_SOFTMAX_APPROX", "SSCALED", "P", 0},
    {9, UVCC_OP_GEMM_SS, "FWD_GEMM_PV", "P V", "O", 0},
    {10, UVCC_OP_GEMM_SS, "FWD_GEMM_O_PROJ", "O W_O", "Y", 0},
    {11, UVCC_OP_SKS_GEMM_CHECK, "FWD_SKS_O_PROJ", "O W_O Y", "", 0},
    {12, UVCC_OP_BIAS_ADD, "FWD_BIAS_O", "Y B_O", "Y", 0},
    {13, UVCC_OP_RESIDUAL_ADD, "FWD_RESIDUAL1", "X_IN Y", "X1", 0},
    {14, UVCC_OP_RMSNORM_FWD, "FWD_RMSNORM2", "X1 GAMMA2", "XN2 INV_RMS2", 0},
    {15, UVCC_OP_GEMM_SS, "FWD_GEMM_MLP1", "XN2 W1", "H", 0},
    {16, UVCC_OP_SKS_GEMM_CHECK, "FWD_SKS_MLP1", "XN2 W1 H", "", 0},
    {17, UVCC_OP_BIAS_ADD, "FWD_BIAS_MLP1", "H B1", "H1", 0},
    {18, UVCC_OP_GELU_APPROX_FWD, "FWD_GELU_APPROX", "H1", "G", 0},
    {19, UVCC_OP_GEMM_SS, "FWD_GEMM_MLP2", "G W2", "Z", 0},
    {20, UVCC_OP_SKS_GEMM_CHECK, "FWD_SKS_MLP2", "G W2 Z", "", 0},
    {21, UVCC_OP_BIAS_ADD, "FWD_BIAS_MLP2", "Z B2", "Z1", 0},
    {22, UVCC_OP_RESIDUAL_ADD, "FWD_RESIDUAL2", "X1 Z1", "X_OUT", 0},
    {23, UVCC_OP_SEND_PP, "FWD_SEND_X_OUT", "X_OUT", "", 0},
    {100, UVCC_OP_RECV_PP, "BWD_RECV_DX_OUT", "", "DX_OUT", 0},
    {101, UVCC_OP_RESIDUAL_SPLIT, "BWD_RESIDUAL2_SPLIT", "DX_OUT", "DX1 DZ1", 0},
    {102, UVCC_OP_REDUCE_BIAS_GRAD, "BWD_DB2", "DZ1", "DB2_G", 0},
    {103, UVCC_OP_GEMM_SS, "BWD_GEMM_DW2", "G DZ1", "DW2", UVCC_OP_TRANS_A},
    {104, UVCC_OP_GEMM_SS, "BWD_GEMM_DG", "DZ1 W2", "DG", UVCC_OP_TRANS_B},
    {105, UVCC_OP_GELU_DERIV_APPROX, "BWD_GELU_DERIV", "H1", "DH1", 0},
    {106, UVCC_OP_ELEM_MUL, "BWD_ELEM_MUL_DH1", "DG DH1", "DH1", 0},
    {107, UVCC_OP_REDUCE_BIAS_GRAD, "BWD_DB1", "DH1", "DB1_G", 0},
    {108, UVCC_OP_GEMM_SS, "BWD_GEMM_DW1", "XN2 DH1", "DW1", UVCC_OP_TRANS_A},
    {109, UVCC_OP_GEMM_SS, "BWD_GEMM_DXN2", "DH1 W1", "DXN2", UVCC_OP_TRANS_B},
    {110, UVCC_OP_RMSNORM_BWD, "BWD_RMSNORM2", "X1 INV_RMS2 DXN2 GAMMA2 DX1", "DX1 DGAMMA2", 0},
    {111, UVCC_OP_RESIDUAL_SPLIT, "BWD_RESIDUAL1_SPLIT", "DX1", "DX_IN DY", 0},
    {112, UVCC_OP_REDUCE_BIAS_GRAD, "BWD_DBO", "DY", "DB_O", 0},
    {113, UVCC_OP_GEMM_SS, "BWD_GEMM_DWO", "O DY", "DW_O", UVCC_OP_TRANS_A},
    {114, UVCC_OP_GEMM_SS, "BWD_GEMM_DO", "DY W_O", "DO", UVCC_OP_TRANS_B},
    {115, UVCC_OP_GEMM_SS, "BWD_GEMM_DP", "DO V", "DP", UVCC_OP_TRANS_B},
    {116, UVCC_OP_GEMM_SS, "BWD_GEMM_DV", "P DO", "DV", UVCC_OP_TRANS_A},
    {117, UVCC_OP_SOFTMAX_BWD, "BWD_SOFTMAX_BWD", "P DP", "DSCALED", 0},
    {118, UVCC_OP_SCALE_PUBLIC, "BWD_SCALE", "DSCALED", "DS", 0},
    {119, UVCC_OP_GEMM_SS, "BWD_GEMM_DQ", "DS K", "DQ", 0},
    {120, UVCC_OP_GEMM_SS, "BWD_GEMM_DK", "DS Q", "DK", UVCC_OP_TRANS_A},
    {121, UVCC_OP_VIEW_MERGE_DQKV, "BWD_MERGE_DTQKV", "DQ DK DV", "DTQKV", 0},
    {122, UVCC_OP_REDUCE_BIAS_GRAD, "BWD_DBQKV", "DTQKV", "DB_QKV", 0},
    {123, UVCC_OP_GEMM_SS, "BWD_GEMM_DWQKV", "XN1 DTQKV", "DW_QKV", UVCC_OP_TRANS_A},
    {124, UVCC_OP_GEMM_SS, "BWD_GEMM_DXN1", "DTQKV W_QKV", "DXN1", UVCC_OP_TRANS_B},
    {125, UVCC_OP_RMSNORM_BWD, "BWD_RMSNORM1", "X_IN INV_RMS1 DXN1 GAMMA1 DX_IN", "DX_IN DGAMMA1",
     0},
    {126, UVCC_OP_SEND_PP, "BWD_SEND_DX_IN", "DX_IN", "", 0},
};
enum { FIRST_BWD = 100 };

/* ---- the program ---- */

/* Shapes of one sequence and one head: what depends on what is the same for more. */
static uint32_t program_side(const pipe_sizes *s, uint8_t what) {
    const uint32_t sides[] = {1, s->context, s->dim, 3 * s->dim, s->hidden, s->context};
    return sides[what];
}

static int add_tensors(uvcc_program *p, const pipe_sizes *s, const block_tensor *list, size_t count,
                       uint8_t lifetime) {
    for (size_t i = 0; i < count; i++) {
        const block_tensor *t = &list[i];
        const int host = t->host == NULL ? -1 : uvcc_program_find(p, t->host);
        const uvcc_tensor_desc d = {.name = t->name,
                                    .rows = program_side(s, t->rows),
                                    .cols = program_side(s, t->cols),
                                    .bits = 20,
                                    .scale = 8,
                                    .lifetime = lifetime,
                                    .in_buffer_of = host < 0 ? UVCC_NO_TENSOR : (uint32_t)host};
        const int rc = uvcc_program_tensor(p, &d);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* The tensors that are named; their number. */
static uint8_t add_names(const uvcc_program *p, const char *names, uint32_t *out) {
    uint8_t n = 0;
    while (*names != '\0') {
        char name[16];
        const size_t len = strcspn(names, " ");
        (void)snprintf(name, sizeof name, "%.*s", (int)len, names);
        out[n++] = (uint32_t)uvcc_program_find(p, name);
        names += len + (names[len] == ' ');
    }
    return n;
}

static int add_op(uvcc_program *p, const block_op *o) {
    const bool product = o->opcode == UVCC_OP_GEMM_SS || o->opcode == UVCC_OP_ELEM_MUL;
    uvcc_op_desc d = {.name = o->name,
                      .opcode = o->opcode,
                      .phase = o->k < FIRST_BWD ? UVCC_FWD : UVCC_BWD,
                      .k = o->k,
                      .flags = o->flags,
                      .shift = product ? 8 : 0,
                      .constant = o->opcode == UVCC_OP_SCALE_PUBLIC};
    d.in_count = add_names(p, o->in, d.in);
    d.out_count = add_names(p, o->out, d.out);
    return uvcc_program_op(p, &d);
}

static int fill(uvcc_program *p, const pipe_sizes *s, char *message, size_t cap) {
    int rc = add_tensors(p, s, tensors, COUNT(tensors), UVCC_TRANSIENT);
    if (rc == 0)
        rc = add_tensors(p, s, weights, COUNT(weights), UVCC_PERSIST);
    if (rc == 0)
        rc = uvcc_program_topology(p, 1, 3, 1);
    if (rc == 0)
        rc = uvcc_program_entry(p, "block");
    if (rc >= 0) /* it has neighbours on both sides */
        rc = uvcc_program_pipeline(p, 1, 3, 0);
    for (size_t i = 0; i < COUNT(block_ops) && rc >= 0; i++)
        rc = add_op(p, &block_ops[i]);
    if (rc >= 0)
        return uvcc_program_finish(p, message, cap);
    (void)snprintf(message, cap, "%s", uvcc_error_text(rc));
    return rc;
}

int pipe_block_program(uvcc_program **out, const pipe_sizes *s, char *message, size_t cap) {
    const uvcc_allocator al = uvcc_host_allocator();
    *message = '\0';
    int rc = uvcc_program_new(out, &al);
    if (rc == 0 && (rc = fill(*out, s, message, cap)) != 0)
        uvcc_program_free(*out);
    if (rc != 0 && *message == '\0')
        (void)snprintf(message, cap, "%s", uvcc_error_text(rc));
    return rc;
}

/* ---- the graph ---- */

/* Whether an op sends messages in a session. */
static bool waits(uint16_t opcode) {
    switch (opcode) {
    case UVCC_OP_GEMM_SS:
    case UVCC_OP_ELEM_MUL:
    case UVCC_OP_RMSNORM_FWD:
    case UVCC_OP_RMSNORM_BWD:
    case UVCC_OP_SKS_GEMM_CHECK:
    case UVCC_OP_SOFTMAX_APPROX_FWD:
    case UVCC_OP_SOFTMAX_BWD:
    case UVCC_OP_GELU_APPROX_FWD:
    case UVCC_OP_GELU_DERIV_APPROX:
        return true;
    default:
        return false;
    }
}

/* Elements of a tensor for the sizes as they are. */
static uint64_t elements(const pipe_sizes *s, const block_tensor *t) {
    const uint64_t tokens = (uint64_t)s->batch * s->context;
    const uint64_t sides[] = {
        1, tokens, s->dim, 3ull * s->dim, s->hidden, (uint64_t)s->heads * s->context};
    return sides[t->rows] * sides[t->cols];
}

static void take_ops(pipe_graph *g, const uvcc_program *p) {
    for (uint32_t i = 0; i < g->ops; i++) {
        const uvcc_op_desc *d = uvcc_program_op_at(p, 0, i);
        const uint64_t bit = 1ull << i;
        g->k[i] = d->k;
        g->phase[i] = d->phase;
        (void)snprintf(g->name[i], sizeof g->name[i], "%s", d->name);
        g->all |= bit;
        g->readers |= d->out_count == 0 ? bit : 0;
        g->waits |= waits(d->opcode) ? bit : 0;
        if (d->opcode == UVCC_OP_RECV_PP)
            g->recv[d->phase] = i;
        if (d->opcode == UVCC_OP_SEND_PP)
            g->send[d->phase] = i;
        uint32_t followers[PIPE_OPS_MAX];
        const int n = uvcc_program_followers(p, 0, i, followers, PIPE_OPS_MAX);
        for (int f = 0; f < n; f++)
            g->preds[followers[f]] |= bit;
    }
}

/* Edges go forward, so one walk back finds all that a send needs in its phase. */
static void find_feeds(pipe_graph *g) {
    for (unsigned phase = 0; phase < PIPE_PHASES; phase++)
        g->feeds |= 1ull << g->send[phase];
    for (uint32_t i = g->ops; i-- > 0;)
        for (uint32_t j = 0; (g->feeds >> i & 1) != 0 && j < i; j++)
            if ((g->preds[i] >> j & 1) != 0 && g->phase[j] == g->phase[i])
                g->feeds |= 1ull << j;
}

/* The tensor that owns the buffer of tensor t. */
static uint32_t owner(const uvcc_program *p, uint32_t t) {
    uint32_t host;
    while ((host = uvcc_program_tensor_at(p, t)->in_buffer_of) != UVCC_NO_TENSOR)
        t = host;
    return t;
}

static uint64_t users(const pipe_graph *g, const uvcc_program *p, uint32_t buffer) {
    uint64_t set = 0;
    for (uint32_t i = 0; i < g->ops; i++) {
        const uvcc_op_desc *d = uvcc_program_op_at(p, 0, i);
        for (uint32_t j = 0; j < d->in_count; j++)
            set |= owner(p, d->in[j]) == buffer ? 1ull << i : 0;
        for (uint32_t j = 0; j < d->out_count; j++)
            set |= owner(p, d->out[j]) == buffer ? 1ull << i : 0;
    }
    return set;
}

/* Buffers that the block writes and reads: weights are only read, their gradients only written,
 * into one buffer for all microbatches. Tensors are indexed as in tensors[]. */
static void take_buffers(pipe_graph *g, const uvcc_program *p, const pipe_sizes *s) {
    for (uint32_t t = 0; t < COUNT(tensors); t++) {
        uvcc_buffer_life life;
        if (uvcc_program_life(p, 0, t, &life) != 0 || life.first_write == UINT32_MAX ||
            life.reads == 0)
            continue;
        g->users[g->buffers] = users(g, p, t);
        g->bytes[g->buffers++] = 2 * sizeof(uint64_t) * elements(s, &tensors[t]);
    }
}

int pipe_block_graph(pipe_graph *g, const pipe_sizes *s, char *message, size_t cap) {
    uvcc_program *p;
    const int rc = pipe_block_program(&p, s, message, cap);
    if (rc != 0)
        return rc;
    *g = (pipe_graph){.ops = uvcc_program_op_count(p, 0)};
    _Static_assert(COUNT(block_ops) <= PIPE_OPS_MAX && COUNT(tensors) <= PIPE_BUFFERS_MAX, "sizes");
    take_ops(g, p);
    find_feeds(g);
    take_buffers(g, p, s);
    uvcc_program_free(p);
    return 0;
}
