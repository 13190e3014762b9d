/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_program.c - the builder of programs with any descriptors. finish accepts or refuses in one
 * line; what it accepts has consistent tables, hashes the same when built again, runs in the
 * plaintext reference without a crash on any values in their bounds (twice: the second step stands
 * on what a failed one left), and loads into a session or is refused there. */
#include "common.h"

#include <string.h>
#include <uvcc/function.h>
#include <uvcc/program.h>
#include <uvcc/session.h>

enum { ACTIONS_MAX = 100, TENSORS_MAX = 64, ELEMS_MAX = 20000 };

typedef struct builder {
    uvcc_program *p;
    uvcc_tensor_desc t[TENSORS_MAX];
    uint32_t tensors;
    uint16_t k;
    uint8_t phase;
    uint16_t mb;
} builder;

static void name_of(char out[16], char letter, uint32_t i) {
    (void)snprintf(out, 16, "%c%u", letter, i);
}

static int add_tensor(builder *b, uvcc_tensor_desc t) {
    char name[16];
    name_of(name, 't', b->tensors);
    if (t.name == NULL)
        t.name = name;
    if (b->tensors == TENSORS_MAX)
        return UVCC_ERR_LIMIT;
    int rc = uvcc_program_tensor(b->p, &t);
    static const int64_t values[64];
    if (rc >= 0 && (uint64_t)t.rows * t.cols <= 64)
        (void)uvcc_program_constant(b->p, (uint32_t)rc, values); /* where it is public */
    if (rc >= 0) {
        t.name = NULL;
        b->t[b->tensors++] = t;
    }
    return rc;
}

static uint32_t pick(const builder *b, fuzz_in *in) {
    uint8_t i = fuzz_u8(in);
    return i == 255 ? UVCC_NO_TENSOR : b->tensors == 0 ? i : i % b->tensors;
}

static uvcc_tensor_desc desc_at(const builder *b, uint32_t i) {
    static const uvcc_tensor_desc none = {.rows = 1, .cols = 1, .bits = 8};
    return i < b->tensors ? b->t[i] : none;
}

static const uint16_t opcodes[] = {
#define UVCC_OPCODE(name, code, n_in, n_out, what) code,
#include <uvcc/opcodes.def>
#undef UVCC_OPCODE
    0, 0xFFFF};
enum { OPCODES = sizeof opcodes / sizeof opcodes[0] };

/* Any op at all. */
static void op_any(builder *b, fuzz_in *in) {
    uvcc_op_desc op = {.opcode = opcodes[fuzz_u8(in) % OPCODES]};
    op.phase = fuzz_u8(in) % 4;
    op.k = fuzz_u16(in);
    op.in_count = fuzz_u8(in) % (UVCC_OP_MAX_IN + 2);
    op.out_count = fuzz_u8(in) % (UVCC_OP_MAX_OUT + 2);
    for (unsigned i = 0; i < UVCC_OP_MAX_IN; i++)
        op.in[i] = pick(b, in);
    for (unsigned i = 0; i < UVCC_OP_MAX_OUT; i++)
        op.out[i] = pick(b, in);
    op.flags = fuzz_u8(in);
    op.shift = fuzz_u8(in);
    op.truncation = fuzz_u8(in);
    op.lift = fuzz_u8(in);
    op.mb = op.truncation >> 4;
    op.group = op.truncation >> 2 & 3;
    op.truncation &= 3;
    op.constant = op.flags >> 4;
    op.heads = op.lift >> 5;
    op.row_groups = op.lift >> 3 & 3;
    op.tile_rows = op.flags & UVCC_OP_BEAVER ? op.shift >> 4 : 0;
    op.window = op.opcode == UVCC_OP_CAUSAL_MASK ? op.row_groups : 0;
    op.lift &= 7;
    (void)uvcc_program_op(b->p, &op);
}

/* The ops with a row or a column for the second input, with rows that are summed, with a constant.
 */
static void fit_rows(uvcc_op_desc *op, const uvcc_tensor_desc *x, const uvcc_tensor_desc *y,
                     uvcc_tensor_desc *z, fuzz_in *in) {
    const uint16_t code = op->opcode;
    const bool product =
        code == UVCC_OP_ROW_MUL || code == UVCC_OP_COL_MUL || code == UVCC_OP_ROW_DOT;
    const bool scaled = code == UVCC_OP_SCALE_PUBLIC, narrow = code == UVCC_OP_ROW_SUM;
    const bool constant = scaled || code == UVCC_OP_ADD_PUBLIC || code == UVCC_OP_CAUSAL_MASK;
    if (constant || code == UVCC_OP_ROW_DOT)
        op->constant = (int64_t)((uint64_t)fuzz_u16(in) << fuzz_u8(in) % 50);
    if (narrow || code == UVCC_OP_ROW_DOT)
        z->cols = 1;
    if (!product && !scaled)
        op->shift = 0;
    if (constant || narrow) {
        op->in_count = 1;
        z->bits = 60;
        z->scale = (uint8_t)(x->scale + op->shift);
    } else if (product) {
        z->scale = (uint8_t)(x->scale + y->scale - op->shift);
        z->bits = 40;
    }
}

/* Blocks of the operands, and a result that fits. */
static void fit_blocks(uvcc_op_desc *op, const uvcc_tensor_desc *x, const uvcc_tensor_desc *y,
                       uvcc_tensor_desc *z, uint8_t how) {
    const bool ta = op->flags & UVCC_OP_TRANS_A, tb = op->flags & UVCC_OP_TRANS_B;
    op->heads = 1 + (how & 1);
    op->row_groups = 1 + (how >> 1 & 1);
    op->flags |= (uint8_t)((how >> 2 & 7) * UVCC_OP_STACKED_A);
    const bool sa = op->flags & UVCC_OP_STACKED_A, sb = op->flags & UVCC_OP_STACKED_B;
    const uint32_t h = op->heads, g = op->row_groups;
    const uint32_t m = ta ? x->cols / (sa ? 1 : h) : x->rows / (sa ? g * h : g);
    const uint32_t n = tb ? y->rows / (sb ? g * h : g) : y->cols / (sb ? 1 : h);
    const bool sc = op->flags & UVCC_OP_STACKED_C;
    z->rows = m * g * (sc ? h : 1);
    z->cols = n * (sc ? 1 : h);
}

/* On triples, every other time in tiles of one row or one group of rows. */
static void tile(uvcc_op_desc *op, const uvcc_tensor_desc *z) {
    op->flags |= UVCC_OP_BEAVER;
    if ((op->shift & 1) != 0)
        op->tile_rows = op->heads == 0 ? 1 : z->rows / op->row_groups;
}

static bool has_triples(uint16_t code) {
    return code == UVCC_OP_GEMM_SS || code == UVCC_OP_ELEM_MUL || code == UVCC_OP_ROW_MUL ||
           code == UVCC_OP_COL_MUL || code == UVCC_OP_ROW_DOT;
}

/* An op on additive tensors instead of its twin on replicated ones. */
static void make_additive(builder *b, uvcc_op_desc *op, const uvcc_tensor_desc *x,
                          const uvcc_tensor_desc *y, uvcc_tensor_desc *z, fuzz_in *in) {
    op->shift = 0;
    if (op->opcode == UVCC_OP_TRUNCATE) {
        op->opcode = UVCC_OP_RESHARE;
        z->scale = x->scale;
        return;
    }
    op->opcode = UVCC_OP_GEMM_PART;
    z->sharing = UVCC_ADDITIVE;
    z->scale = (uint8_t)(x->scale + y->scale);
    z->bits = (uint8_t)(x->bits + y->bits + 4);
    const uint8_t how = fuzz_u8(in);
    if (how & 1) {
        op->in_count = 3;
        op->in[2] = pick(b, in);
        z->in_buffer_of = how & 2 ? op->in[2] : UVCC_NO_TENSOR;
    }
}

/* A product just made, kept whole: its check, begun and waited for, perhaps of other tensors. */
static void op_checked(builder *b, uvcc_op_desc product, fuzz_in *in) {
    const uint8_t how = fuzz_u8(in);
    uvcc_op_desc op = {.opcode = UVCC_OP_SKS_START,
                       .phase = b->phase,
                       .in_count = 3,
                       .in = {product.in[0], product.in[1], product.out[0]},
                       .flags = product.flags,
                       .constant = how % 4 * 400};
    if (how & 8)
        op.in[how >> 4 & 1] = pick(b, in);
    op.k = ++b->k;
    (void)uvcc_program_op(b->p, &op);
    op.opcode = UVCC_OP_SKS_GEMM_CHECK;
    op.k = ++b->k;
    op.flags = 0;
    op.constant = 0;
    if (how & 64)
        op.in[2] = pick(b, in);
    if ((how & 0xA0) != 0xA0)
        (void)uvcc_program_op(b->p, &op);
}

/* An op with outputs made to fit, then perhaps one thing wrong. */
static void op_fitting(builder *b, fuzz_in *in) {
    static const uint16_t codes[] = {
        UVCC_OP_GEMM_SS, UVCC_OP_ELEM_MUL, UVCC_OP_BIAS_ADD, UVCC_OP_REDUCE_BIAS_GRAD, UVCC_OP_ADD,
        UVCC_OP_SUB,     UVCC_OP_RELU,     UVCC_OP_TRUNCATE, UVCC_OP_SHIFT_LEFT,       UVCC_OP_ADD};
    static const uint16_t row_codes[] = {
        UVCC_OP_ROW_SUM,     UVCC_OP_ROW_ADD,     UVCC_OP_ROW_SUB, UVCC_OP_ROW_RSUB,
        UVCC_OP_ROW_MUL,     UVCC_OP_COL_MUL,     UVCC_OP_ROW_DOT, UVCC_OP_ADD_PUBLIC,
        UVCC_OP_CAUSAL_MASK, UVCC_OP_SCALE_PUBLIC};
    uint8_t what = fuzz_u8(in), how = fuzz_u8(in), wrong = fuzz_u8(in);
    uvcc_op_desc op = {.name = how & 1 ? "op" : NULL};
    _Static_assert(sizeof codes == sizeof row_codes, "one index for both");
    op.opcode = (wrong & 32 ? row_codes : codes)[what % (sizeof codes / sizeof codes[0])];
    op.in[0] = pick(b, in);
    op.in[1] = pick(b, in);
    uvcc_tensor_desc x = desc_at(b, op.in[0]), y = desc_at(b, op.in[1]);
    uvcc_tensor_desc z = {.rows = x.rows,
                          .cols = x.cols,
                          .bits = x.bits > 61 ? 62 : (uint8_t)(x.bits + 1),
                          .scale = x.scale,
                          .lifetime = UVCC_TRANSIENT,
                          .in_buffer_of = UVCC_NO_TENSOR};
    const bool additive =
        wrong & 64 && (op.opcode == UVCC_OP_GEMM_SS || op.opcode == UVCC_OP_TRUNCATE);
    op.in_count = 2;
    op.out_count = 1;
    op.shift = what >> 4;
    const bool checked = op.opcode == UVCC_OP_GEMM_SS && (wrong & 64) != 0;
    if (checked)
        op.shift = 0;
    if (op.opcode == UVCC_OP_GEMM_SS) {
        op.flags = how >> 1 & 3;
        z.rows = op.flags & UVCC_OP_TRANS_A ? x.cols : x.rows;
        z.cols = op.flags & UVCC_OP_TRANS_B ? y.rows : y.cols;
        if (wrong & 128)
            fit_blocks(&op, &x, &y, &z, fuzz_u8(in));
    }
    if (op.opcode == UVCC_OP_GEMM_SS || op.opcode == UVCC_OP_ELEM_MUL) {
        z.scale = (uint8_t)(x.scale + y.scale - op.shift);
        z.bits = 40;
    } else if (op.opcode == UVCC_OP_BIAS_ADD) {
        op.shift = 0;
    } else if (op.opcode == UVCC_OP_REDUCE_BIAS_GRAD || op.opcode == UVCC_OP_RELU) {
        op.in_count = 1;
        op.shift = 0;
        z.rows = op.opcode == UVCC_OP_RELU ? x.rows : 1;
        z.bits = x.bits > 57 ? 62 : (uint8_t)(x.bits + 5);
    } else if (op.opcode == UVCC_OP_TRUNCATE) {
        op.in_count = 1;
        z.scale = (uint8_t)(x.scale - op.shift);
    } else if (op.opcode == UVCC_OP_SHIFT_LEFT) {
        op.in_count = 1;
        z.scale = (uint8_t)(x.scale + op.shift);
        z.bits = (uint8_t)(x.bits + op.shift);
    }
    if (wrong & 32)
        fit_rows(&op, &x, &y, &z, in);
    if (how & 8)
        z.in_buffer_of = op.in[0];
    if (additive)
        make_additive(b, &op, &x, &y, &z, in);
    else if (has_triples(op.opcode) && (wrong & 64 || how & 128))
        tile(&op, &z);
    op.truncation = how >> 4 & 1;
    if (op.shift > 8 && (op.opcode == UVCC_OP_TRUNCATE || has_triples(op.opcode)))
        op.truncation = UVCC_TRUNC_EXACT_DCF;
    op.lift = (how >> 5) % 3;
    if (wrong & 1)
        z.bits = fuzz_u8(in);
    if (wrong & 2)
        z.lifetime = UVCC_PERSIST;
    int rc = wrong & 4 && b->tensors != 0  ? (int)pick(b, in)
             : op.in_count == 3 && how & 8 ? (int)op.in[2]
                                           : add_tensor(b, z);
    op.out[0] = rc < 0 ? UVCC_NO_TENSOR : (uint32_t)rc;
    if (op.opcode == UVCC_OP_RELU) {
        z.bits = 1;
        z.scale = 0;
        z.in_buffer_of = UVCC_NO_TENSOR;
        rc = add_tensor(b, z);
        op.out[1] = rc < 0 ? UVCC_NO_TENSOR : (uint32_t)rc;
        op.out_count = 2;
    }
    b->k = (uint16_t)(b->k + (wrong & 8 ? fuzz_u16(in) : 1));
    if (wrong & 16 && b->phase < UVCC_UPD) {
        b->phase++;
        b->mb = b->k = 0;
    } else if (wrong & 64 && b->phase < UVCC_UPD) {
        b->mb++;
        b->k = 0;
    }
    op.mb = b->mb;
    op.phase = b->phase;
    op.k = b->k;
    (void)uvcc_program_op(b->p, &op);
    if (checked)
        op_checked(b, op, in);
}

/* A function of one input: a list that works, with steps of it changed. */
static void op_function(builder *b, fuzz_in *in) {
    enum { STEPS = 12 };
    static const int64_t words[8] = {0, 1, -1, 5, -300, 1 << 20, INT64_MIN, 7};
    static const int64_t spline[8] = {-7, 40, 3, -1, 0, 2, 9, 1}; /* two knots, three lines */
    static const int32_t entries[4] = {-9, 4, 1000000, 3};
    uint8_t changes = fuzz_u8(in), more = fuzz_u8(in);
    uvcc_op_desc op = {.opcode = UVCC_OP_FUNCTION, .in_count = 1, .phase = b->phase};
    op.in[0] = pick(b, in);
    const uvcc_tensor_desc x = desc_at(b, op.in[0]);
    const uint8_t bits = (uint8_t)(x.bits + 1), next = more & 1 ? UVCC_FN_EXCHANGE : UVCC_FN_LIFT;
    uvcc_fn_instr s[STEPS] = {
        {.kind = UVCC_FN_OPEN, .bits = 64},
        {.kind = UVCC_FN_COMPARE, .bits = bits, .word_count = 1 + (more >> 1 & 1), .words = words},
        {.kind = UVCC_FN_SELECT, .a = 1, .word_count = 1 + (more >> 1 & 1), .words = words},
        {.kind = UVCC_FN_TABLE,
         .b = UVCC_FN_NONE,
         .bits = bits,
         .entry_count = 4,
         .entries = entries},
        {.kind = UVCC_FN_ADD, .a = 2, .b = 3},
        {.kind = next, .a = 4},
    };
    uint8_t count = 6;
    if (more & 4) { /* the greater of two columns */
        s[3] = (uvcc_fn_instr){.kind = UVCC_FN_PAIR_SECOND};
        s[1] = (uvcc_fn_instr){.kind = UVCC_FN_PAIR_DIFF};
        s[2] = (uvcc_fn_instr){
            .kind = UVCC_FN_COMPARE, .a = 1, .bits = bits, .word_count = 1, .words = words};
        s[4] = (uvcc_fn_instr){
            .kind = UVCC_FN_SELECT, .a = 2, .b = 1, .word_count = 1, .words = words + 1};
        s[5] = (uvcc_fn_instr){.kind = UVCC_FN_ADD, .a = 4, .b = 3};
        s[6] = (uvcc_fn_instr){.kind = next, .a = 5};
        count = 7;
    }
    if ((more & 28) == 16) { /* pieces, and an exact truncation of what they give */
        s[3] = (uvcc_fn_instr){
            .kind = UVCC_FN_SPLINE, .bits = bits, .first = 1, .word_count = 8, .words = spline};
        s[5] = (uvcc_fn_instr){.kind = UVCC_FN_EXCHANGE, .a = 4, .io = UVCC_FN_NONE};
        s[6] = (uvcc_fn_instr){.kind = UVCC_FN_FLOOR, .a = 5, .shift = 1 + more / 32};
        s[7] = (uvcc_fn_instr){.kind = next, .a = 6};
        count = 8;
    }
    if ((more & 156) == 144) { /* an exact index: tables times bits, values and tables */
        static const uint8_t low = 2;
        s[1] = (uvcc_fn_instr){.kind = UVCC_FN_SHIFT, .shift = low};
        s[2] = (uvcc_fn_instr){.kind = UVCC_FN_LOW, .bits = low};
        s[3] = (uvcc_fn_instr){
            .kind = UVCC_FN_COMPARE, .a = 2, .bits = low, .word_count = 1, .words = words};
        s[4] = (uvcc_fn_instr){.kind = UVCC_FN_TABLE_MUL,
                               .a = 1,
                               .b = 3,
                               .c = more & 32 ? UVCC_FN_NONE : 0,
                               .bits = bits,
                               .entry_count = 4,
                               .entries = entries};
        s[5] = (uvcc_fn_instr){.kind = UVCC_FN_TABLE,
                               .a = 2,
                               .b = UVCC_FN_NONE,
                               .bits = low,
                               .entry_count = 4,
                               .entries = entries};
        s[6] = s[4];
        s[6].b = UVCC_FN_NONE;
        s[6].c = 5;
        s[7] = (uvcc_fn_instr){
            .kind = UVCC_FN_SELECT_MUL, .a = 3, .c = 3, .word_count = 1, .words = words + 1};
        s[8] = (uvcc_fn_instr){.kind = UVCC_FN_ADD, .a = 4, .b = 6};
        s[9] = (uvcc_fn_instr){.kind = UVCC_FN_ADD, .a = 7, .b = 8};
        s[10] = (uvcc_fn_instr){.kind = next, .a = 9};
        count = 11;
    }
    for (; changes != 0; changes &= (uint8_t)(changes - 1)) {
        uvcc_fn_instr *one = &s[fuzz_u8(in) % STEPS];
        uint8_t how = fuzz_u8(in), value = fuzz_u8(in);
        uint8_t *const fields[] = {&one->kind, &one->a, &one->b, &one->bits, &one->shift, &one->io};
        if (how % 8 < 6)
            *fields[how % 8] = how & 8 ? value : value % 32;
        else if (how % 8 == 6)
            *one = (uvcc_fn_instr){.kind = value % 32,
                                   .a = value >> 5,
                                   .b = how & 8 ? how >> 4 : UVCC_FN_NONE,
                                   .c = how & 16 ? how >> 5 : UVCC_FN_NONE,
                                   .bits = 20,
                                   .word_count = 1 + (how >> 4) % 8,
                                   .words = words,
                                   .entry_count = 4,
                                   .entries = entries};
        else
            one->first = one->constant = (int64_t)((uint64_t)value << (how >> 3));
    }
    if (more & 8)
        count = more >> 4;
    const uvcc_function f = {
        .name = "f", .inputs = 1, .outputs = 1, .instr_count = count % STEPS, .instrs = s};
    uint8_t in_bits[1] = {x.bits}, out_bits[1] = {20};
    int index = uvcc_program_function(b->p, &f);
    (void)uvcc_function_check(&f, x.cols, in_bits, out_bits, NULL, 0);
    uvcc_tensor_desc z = {.rows = x.rows,
                          .cols = uvcc_function_cols(&f, x.cols, 0),
                          .bits = out_bits[0],
                          .lifetime = UVCC_TRANSIENT,
                          .in_buffer_of = UVCC_NO_TENSOR};
    int rc = add_tensor(b, z);
    op.out[0] = rc < 0 ? UVCC_NO_TENSOR : (uint32_t)rc;
    op.out_count = 1;
    op.function = index < 0 ? 0 : (uint16_t)index;
    op.k = ++b->k;
    (void)uvcc_program_op(b->p, &op);
}

/* Words that nobody chooses, in a tensor with room for them or nearly. */
static void op_random(builder *b, fuzz_in *in) {
    const uint8_t how = fuzz_u8(in), shape = fuzz_u8(in);
    uvcc_op_desc op = {.opcode = UVCC_OP_RANDOM,
                       .phase = b->phase,
                       .mb = b->mb,
                       .k = ++b->k,
                       .shift = how & 63,
                       .out_count = 1};
    const int rc = add_tensor(b, (uvcc_tensor_desc){.rows = 1 + (shape & 3),
                                                    .cols = 1 + (shape >> 2 & 3),
                                                    .bits = (uint8_t)(op.shift + 2 - (how >> 7)),
                                                    .scale = shape >> 4,
                                                    .lifetime = UVCC_TRANSIENT,
                                                    .in_buffer_of = UVCC_NO_TENSOR});
    op.out[0] = rc < 0 ? UVCC_NO_TENSOR : (uint32_t)rc;
    (void)uvcc_program_op(b->p, &op);
}

/* Rows of a table by numbers of theirs, in shapes that fit or nearly do. */
static void op_embed(builder *b, fuzz_in *in) {
    const uint8_t how = fuzz_u8(in), shape = fuzz_u8(in);
    const uint32_t table = pick(b, in), rows = 1 + (shape & 7);
    const uvcc_tensor_desc *found = uvcc_program_tensor_at(b->p, table);
    const uvcc_tensor_desc e = found != NULL ? *found : (uvcc_tensor_desc){0}; /* more come */
    const int ids = add_tensor(b, (uvcc_tensor_desc){.rows = rows,
                                                     .cols = 1 + (how & 1),
                                                     .bits = 1 + (shape >> 3 & 3),
                                                     .scale = how >> 7,
                                                     .lifetime = UVCC_TRANSIENT,
                                                     .in_buffer_of = UVCC_NO_TENSOR,
                                                     .sharing = UVCC_ONE_HOT});
    if (ids < 0 || found == NULL)
        return;
    if ((how & 64) == 0)
        (void)uvcc_program_input(b->p, b->tensors, (uint32_t)ids, shape >> 5 & 3);
    const int z = add_tensor(b, (uvcc_tensor_desc){.rows = rows,
                                                   .cols = e.cols,
                                                   .bits = (uint8_t)(e.bits + (how >> 1 & 1)),
                                                   .scale = e.scale,
                                                   .lifetime = UVCC_TRANSIENT,
                                                   .in_buffer_of = UVCC_NO_TENSOR,
                                                   .sharing = UVCC_ADDITIVE});
    const uvcc_op_desc op = {.opcode = UVCC_OP_EMBED,
                             .phase = b->phase,
                             .mb = b->mb,
                             .k = ++b->k,
                             .in_count = how & 4 ? 3 : 2,
                             .in = {(uint32_t)ids, table, pick(b, in)},
                             .out_count = 1,
                             .out = {z < 0 ? UVCC_NO_TENSOR : (uint32_t)z},
                             .constant = how >> 3 & 7};
    (void)uvcc_program_op(b->p, &op);
}

static void action(builder *b, fuzz_in *in) {
    static const uint8_t bits[] = {20, 8, 1, 30, 62, 63, 36, 12}, scales[] = {12, 0, 8, 16};
    char name[16];
    uint8_t op = fuzz_u8(in), more;
    uvcc_tensor_desc t = {.in_buffer_of = UVCC_NO_TENSOR};
    switch (op & 7) {
    case 0: /* any tensor */
        t.rows = fuzz_u32(in);
        t.cols = fuzz_u32(in);
        t.bits = fuzz_u8(in);
        t.scale = fuzz_u8(in);
        t.lifetime = fuzz_u8(in);
        t.in_buffer_of = op & 8 ? fuzz_u32(in) : UVCC_NO_TENSOR;
        t.sharing = op >> 6;
        t.name = op & 16 ? "" : op & 32 ? "twice" : NULL;
        (void)add_tensor(b, t);
        break;
    case 1: /* a small one, good as an input */
        more = fuzz_u8(in);
        t.rows = 1 + (more & 3);
        t.cols = 1 + (more >> 2 & 3);
        t.scale = scales[more >> 4 & 3];
        t.bits = bits[op >> 5];
        t.lifetime = op & 8 ? UVCC_PERSIST : UVCC_TRANSIENT;
        t.sharing = op & 8 && more >> 6 == 3 ? UVCC_PUBLIC : UVCC_REPLICATED;
        if (op & 16)
            t.in_buffer_of = pick(b, in);
        (void)add_tensor(b, t);
        if ((op & 8) == 0)
            (void)uvcc_program_input(b->p, b->tensors, b->tensors - 1, (more >> 6) % 3);
        break;
    case 2:
        name_of(name, op & 128 ? 'e' : 'f', op >> 3);
        (void)uvcc_program_entry(b->p, op == 2 ? "" : name);
        b->mb = b->k = 0;
        b->phase = 0;
        break;
    case 3:
        if (op & 128)
            op_function(b, in);
        else
            op_any(b, in);
        break;
    case 4:
    case 5:
    case 6:
        op_fitting(b, in);
        break;
    default:
        if (op == 0x97) {
            op_random(b, in);
            break;
        }
        if (op == 0xA7) {
            op_embed(b, in);
            break;
        }
        more = fuzz_u8(in);
        if (op == 0x87) { /* a stage of a job */
            (void)uvcc_program_topology(b->p, 1 + (more >> 6), 1 + (more & 3), 1);
            (void)uvcc_program_pipeline(b->p, more >> 2 & 3, 1 + (more & 3), more >> 4 & 3);
        } else if (op & 8)
            (void)uvcc_program_input_mb(b->p, op >> 4, pick(b, in), more % 4, more >> 5);
        else
            (void)uvcc_program_output(b->p, op >> 4 | more, pick(b, in));
        break;
    }
}

/* Builds from the input; returns finish's verdict. */
static int build(builder *b, fuzz_in in, fuzz_mem *mem, char message[200]) {
    uvcc_allocator al = fuzz_allocator(mem);
    memset(b, 0, sizeof *b);
    int err = uvcc_program_new(&b->p, &al);
    if (err != 0)
        return err;
    for (int i = 0; i < ACTIONS_MAX && in.left != 0; i++)
        action(b, &in);
    memset(message, 0, 200);
    return uvcc_program_finish(b->p, message, 200);
}

static uint64_t check_tables(const uvcc_program *p) {
    uint64_t elems = 0;
    uint32_t tensors = uvcc_program_tensor_count(p);
    for (uint32_t i = 0; i < tensors; i++) {
        const uvcc_tensor_desc *t = uvcc_program_tensor_at(p, i);
        FUZZ_CHECK(uvcc_program_find(p, t->name) == (int)i);
        elems += (uint64_t)t->rows * t->cols;
    }
    FUZZ_CHECK(uvcc_program_tensor_at(p, tensors) == NULL);
    FUZZ_CHECK(uvcc_program_find(p, "nothing") == UVCC_ERR_NOT_FOUND);
    for (uint32_t e = 0; e < uvcc_program_entry_count(p); e++) {
        uint32_t ops = uvcc_program_op_count(p, e);
        FUZZ_CHECK(uvcc_program_find_entry(p, uvcc_program_entry_name(p, e)) == (int)e);
        for (uint32_t i = 0; i < ops; i++) {
            const uvcc_op_desc *d = uvcc_program_op_at(p, e, i);
            for (unsigned k = 0; k < d->in_count; k++)
                FUZZ_CHECK(d->in[k] < tensors);
            for (unsigned k = 0; k < d->out_count; k++)
                FUZZ_CHECK(d->out[k] < tensors);
        }
        FUZZ_CHECK(uvcc_program_op_at(p, e, ops) == NULL);
        for (uint32_t i = 0; i < uvcc_program_input_count(p, e); i++)
            FUZZ_CHECK(uvcc_program_input_at(p, e, i)->tensor < tensors);
        for (uint32_t i = 0; i < uvcc_program_output_count(p, e); i++)
            FUZZ_CHECK(uvcc_program_output_at(p, e, i)->tensor < tensors);
        uint64_t bytes;
        FUZZ_CHECK(uvcc_program_memory(p, e, &bytes) == 0);
        for (uint32_t i = 0; i < tensors; i++) {
            uvcc_buffer_life life;
            if (uvcc_program_life(p, e, i, &life) != 0)
                continue;
            FUZZ_CHECK(life.first_write == UINT32_MAX || life.first_write < ops);
            FUZZ_CHECK(life.last_read == UINT32_MAX || life.last_read < ops);
            FUZZ_CHECK((life.reads == 0) == (life.last_read == UINT32_MAX));
        }
    }
    return elems;
}

static void run_reference(const uvcc_program *p, uint8_t seed) {
    static int64_t v[ELEMS_MAX];
    fuzz_mem mem = {0};
    uvcc_allocator al = fuzz_allocator(&mem);
    uvcc_reference *r;
    uint64_t random = seed;
    FUZZ_CHECK(uvcc_reference_new(&r, p, &al) == 0);
    for (uint32_t i = 0; i < uvcc_program_tensor_count(p); i++) {
        const uvcc_tensor_desc *t = uvcc_program_tensor_at(p, i);
        for (uint64_t k = 0; k < (uint64_t)t->rows * t->cols; k++) {
            int64_t most = (int64_t)((UINT64_C(1) << t->bits) - 1);
            uint64_t x = fuzz_next(&random);
            v[k] = seed % 3 == 0   ? most
                   : seed % 3 == 1 ? -most
                                   : (int64_t)(x % ((uint64_t)most + 1));
        }
        FUZZ_CHECK(uvcc_reference_set(r, i, v) == 0);
    }
    for (int twice = 0; twice < 2; twice++)
        for (uint32_t e = 0; e < uvcc_program_entry_count(p); e++) {
            char message[200] = "";
            int err = uvcc_reference_step(r, e, message, sizeof message);
            FUZZ_CHECK(err == 0 || err == UVCC_ERR_BOUND || err == UVCC_ERR_PROGRAM ||
                       err == UVCC_ERR_USAGE); /* it needs other workers */
            FUZZ_CHECK((err == 0) == (message[0] == '\0'));
            for (uint32_t i = 0; i < uvcc_program_output_count(p, e); i++)
                FUZZ_CHECK(uvcc_reference_get(r, uvcc_program_output_at(p, e, i)->tensor) != NULL);
        }
    uvcc_reference_free(r);
    FUZZ_CHECK(mem.live_blocks == 0);
}

/* A session may refuse a program, and needs one that does something. */
static void load(const uvcc_program *p) {
    fuzz_mem mem = {.limit = 256u << 20};
    fuzz_rng rng = {.state = 1};
    uvcc_config c;
    uvcc_session *s;
    FUZZ_CHECK(uvcc_config_default(&c, sizeof c) == 0);
    c.alloc = fuzz_allocator(&mem);
    c.random = fuzz_random(&rng);
    for (uint8_t q = 0; q < 3; q++)
        memset(c.identity.pair_secret[q], 0x11 + q, 32);
    memset(c.identity.sid_job, 5, 32);
    memset(c.identity.sign_seed, 7, 32);
    c.resume.checkpoint_every = 1;
    FUZZ_CHECK(uvcc_session_new(&s, &c) == 0);
    int err = uvcc_session_load_program(s, p);
    FUZZ_CHECK(err <= 0 && err > -300);
    if (err == 0)
        FUZZ_CHECK(uvcc_session_start(s, 0) == 0);
    uvcc_session_free(s);
    FUZZ_CHECK(mem.live_blocks == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_in in = {data, size};
    static builder one, two;
    fuzz_mem mem = {0};
    char message[200], again[200];
    uint8_t seed = fuzz_u8(&in), fail = fuzz_u8(&in);
    int err = build(&one, in, &mem, message);
    FUZZ_CHECK(err == 0 || err == UVCC_ERR_PROGRAM || err == UVCC_ERR_BOUND);
    FUZZ_CHECK((err == 0) == (message[0] == '\0') && strchr(message, '\n') == NULL);
    if (err == 0) {
        uint8_t h1[32], h2[32];
        FUZZ_CHECK(build(&two, in, &mem, again) == 0);
        uvcc_program_hash(one.p, h1);
        uvcc_program_hash(two.p, h2);
        FUZZ_CHECK(memcmp(h1, h2, sizeof h1) == 0);
        uvcc_program_free(two.p);
        FUZZ_CHECK(uvcc_program_finish(one.p, NULL, 0) == UVCC_ERR_STATE);
        if (check_tables(one.p) <= ELEMS_MAX) {
            run_reference(one.p, seed);
            load(one.p);
        }
    }
    uvcc_program_free(one.p);
    FUZZ_CHECK(mem.live_blocks == 0);
    if (fail != 0) { /* a failed allocation loses nothing */
        mem.fail_in = fail;
        int failed = build(&two, in, &mem, again);
        FUZZ_CHECK(failed == err || mem.failed != 0);
        if (two.p != NULL)
            uvcc_program_free(two.p);
        FUZZ_CHECK(mem.live_blocks == 0);
    }
    return 0;
}
