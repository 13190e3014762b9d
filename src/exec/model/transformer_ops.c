/* SPDX-License-Identifier: Apache-2.0 */
/* transformer_ops.c - the words in which a transformer's programs are written. */
#include "exec/model/nonlinear.h"
#include "exec/model/transformer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <uvcc/compute.h>

/* ---- place and errors ---- */

enum { BLOCK_OPS = 256, PAGE_BLOCKS = UVCCI_TF_BLOCK_OUT - UVCCI_TF_BLOCK_LAYER };

void uvcci_tf_note(uvcci_tf_builder *b, int result) {
    assert(b->err <= 0);
    if (b->err == 0 && result < 0)
        b->err = result;
}

void uvcci_tf_enter(uvcci_tf_builder *b, uvcc_phase phase, uint32_t mb, uint32_t block) {
    if (phase == UVCC_UPD) {
        assert(mb == 0 && block >= UVCCI_TF_BLOCK_LAYER);
        mb = (block - UVCCI_TF_BLOCK_LAYER) / PAGE_BLOCKS;
        block = UVCCI_TF_BLOCK_LAYER + (block - UVCCI_TF_BLOCK_LAYER) % PAGE_BLOCKS;
    }
    b->phase = (uint8_t)phase;
    b->mb = (uint16_t)mb;
    b->k = block * BLOCK_OPS + b->first_index;
    const bool layer = block >= UVCCI_TF_BLOCK_LAYER && block < UVCCI_TF_BLOCK_OUT;
    b->k_end = layer && phase == UVCC_UPD
                   ? UVCCI_TF_BLOCK_OUT * BLOCK_OPS /* the next weight's begins where it begins */
                   : (block + (layer ? b->n.layer_blocks : 1)) * BLOCK_OPS;
}

void uvcci_tf_clear_shelves(uvcci_tf_builder *b) {
    b->layer_shelf->count = 0;
    for (unsigned i = 0; i < UVCCI_TF_ALIVE_MAX; i++)
        b->tile_shelves[i].count = 0;
}

void uvcci_tf_take_shelf(uvcci_tf_builder *b, uvcci_tf_shelf *shelf) {
    b->shelf = shelf;
    if (shelf != NULL)
        shelf->at = 0;
}

void uvcci_tf_enter_end(uvcci_tf_builder *b) {
    assert(b->phase == UVCC_UPD); /* the update was there */
    b->k = UVCCI_TF_BLOCK_OUT * BLOCK_OPS + b->first_index;
    b->k_end = (UVCCI_TF_BLOCK_OUT + 1) * BLOCK_OPS;
}

uint32_t uvcci_tf_block(const uvcci_tf_builder *b) {
    return b->k / BLOCK_OPS;
}

void uvcci_tf_scope_part(uvcci_tf_builder *b, const char *scope, uint32_t layer, const char *part) {
    snprintf(b->scope, sizeof b->scope, "%sL%u.%s", scope, layer, part);
}

void uvcci_tf_scope(uvcci_tf_builder *b, const char *scope, uint32_t layer) {
    uvcci_tf_scope_part(b, scope, layer, "");
}

/* ---- tensors ---- */

const uvcc_tensor_desc *uvcci_tf_desc(const uvcci_tf_builder *b, uint32_t tensor) {
    static const uvcc_tensor_desc none = {.name = "", .rows = 1, .cols = 1, .bits = 1};
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(b->p, tensor);
    return d != NULL ? d : &none;
}

static uint32_t put_tensor(uvcci_tf_builder *b, const char *name, uvcc_tensor_desc d) {
    char full[UVCCI_NAME_BYTES];
    if (snprintf(full, sizeof full, "%s%s", b->scope, name) >= (int)sizeof full)
        uvcci_tf_note(b, UVCC_ERR_LIMIT);
    d.name = full;
    if (b->err == 0 && d.bits > UVCCI_MAX_BITS)
        uvcci_tf_note(b, UVCC_ERR_BOUND);
    const int index = b->err == 0 ? uvcc_program_tensor(b->p, &d) : 0;
    uvcci_tf_note(b, index);
    if (b->err != 0 && b->culprit[0] == 0)
        snprintf(b->culprit, sizeof b->culprit, "%s", full);
    return index >= 0 ? (uint32_t)index : 0;
}

uint32_t uvcci_tf_tensor(uvcci_tf_builder *b, const char *name, uvcc_tensor_desc d) {
    uvcci_tf_shelf *s = d.lifetime == UVCC_TRANSIENT ? b->shelf : NULL;
    d.in_buffer_of = s != NULL && s->at < s->count ? s->buffer[s->at] : UVCC_NO_TENSOR;
    const uint32_t t = put_tensor(b, name, d);
    if (s == NULL)
        return t;
    if (s->at == UVCCI_TF_SHELF_MAX) {
        uvcci_tf_note(b, UVCC_ERR_LIMIT);
        return t;
    }
    if (s->at == s->count)
        s->buffer[s->count++] = t;
    s->at++;
    return t;
}

uint32_t uvcci_tf_successor(uvcci_tf_builder *b, const char *name, uint32_t before, unsigned bits,
                            unsigned scale) {
    uvcc_tensor_desc d = *uvcci_tf_desc(b, before);
    d.bits = (uint8_t)bits;
    d.scale = (uint8_t)scale;
    d.in_buffer_of = before;
    return put_tensor(b, name, d);
}

uint32_t uvcci_tf_persist(uvcci_tf_builder *b, const char *prefix, const char *name, uint32_t rows,
                          uint32_t cols, unsigned bits, unsigned scale) {
    snprintf(b->scope, sizeof b->scope, "%s", prefix);
    const uint32_t t = uvcci_tf_tensor(b, name,
                                       (uvcc_tensor_desc){.rows = rows,
                                                          .cols = cols,
                                                          .bits = (uint8_t)bits,
                                                          .scale = (uint8_t)scale,
                                                          .lifetime = UVCC_PERSIST});
    b->scope[0] = 0;
    return t;
}

uint32_t uvcci_tf_transient(uvcci_tf_builder *b, const char *name, uint32_t rows, uint32_t cols,
                            unsigned bits, unsigned scale) {
    return uvcci_tf_tensor(b, name,
                           (uvcc_tensor_desc){.rows = rows,
                                              .cols = cols,
                                              .bits = (uint8_t)bits,
                                              .scale = (uint8_t)scale,
                                              .lifetime = UVCC_TRANSIENT});
}

uint32_t uvcci_tf_additive(uvcci_tf_builder *b, const char *name, uint32_t rows, uint32_t cols,
                           unsigned bits, unsigned scale) {
    return uvcci_tf_tensor(b, name,
                           (uvcc_tensor_desc){.rows = rows,
                                              .cols = cols,
                                              .bits = (uint8_t)bits,
                                              .scale = (uint8_t)scale,
                                              .lifetime = UVCC_TRANSIENT,
                                              .sharing = UVCC_ADDITIVE});
}

uint32_t uvcci_tf_values(uvcci_tf_builder *b, const char *name, uint32_t rows, uint32_t cols) {
    return uvcci_tf_transient(b, name, rows, cols, b->n.value, b->n.f);
}

uint32_t uvcci_tf_gradients(uvcci_tf_builder *b, const char *name, uint32_t rows, uint32_t cols,
                            unsigned more) {
    return uvcci_tf_transient(b, name, rows, cols, b->n.gradient + more, b->n.gradient_scale);
}

uvcci_tf_held *uvcci_tf_held_weight(uvcci_tf_builder *b, uint32_t layer, uvcci_tf_slot slot) {
    const uint32_t i = uvcci_model_weight(&b->m, layer, slot);
    return i < b->weight_count ? &b->weights[i] : NULL;
}

uint32_t uvcci_tf_weight_tensor(uvcci_tf_builder *b, uint32_t layer, uvcci_tf_slot slot) {
    const uint32_t i = uvcci_model_weight(&b->m, layer, slot);
    if (i == UVCC_NO_TENSOR || b->given != NULL)
        return i == UVCC_NO_TENSOR ? i : b->given[i];
    assert(i < b->weight_count && b->weights[i].held);
    return b->weights[i].tensor;
}

unsigned uvcci_tf_adaptable(uvcci_tf_slot slot) {
    switch (slot) {
    case UVCCI_TF_WQ:
        return 0;
    case UVCCI_TF_WK:
        return 1;
    case UVCCI_TF_WV:
        return 2;
    default:
        return UVCCI_TF_ADAPTABLE;
    }
}

uvcci_tf_held *uvcci_tf_adapter(uvcci_tf_builder *b, uint32_t layer, uvcci_tf_slot slot) {
    const unsigned place = uvcci_tf_adaptable(slot);
    uint32_t each = 0, before = 0;
    if (place == UVCCI_TF_ADAPTABLE || (b->adapted >> place & 1) == 0)
        return NULL;
    for (unsigned i = 0; i < UVCCI_TF_ADAPTABLE; i++) {
        each += b->adapted >> i & 1u;
        before += i < place ? b->adapted >> i & 1u : 0;
    }
    assert(b->adapters + 2 * (layer * each + before) + 1 < b->weight_count);
    return &b->weights[b->adapters + 2 * (layer * each + before)];
}

/* One that was made before: of other values it is another one, and so is a tensor of the caller's.
 */
static uint32_t there_already(uvcci_tf_builder *b, uint32_t tensor, const uvcc_tensor_desc *d,
                              const int64_t *values) {
    const uvcci_tensor *t = &b->p->tensors[tensor];
    const bool same = t->constant != NULL && t->desc.rows == d->rows && t->desc.cols == d->cols &&
                      t->desc.scale == d->scale &&
                      memcmp(t->constant, values, (size_t)d->rows * d->cols * sizeof *values) == 0;
    if (!same) {
        snprintf(b->culprit, sizeof b->culprit, "%.32s is there with other values", t->name);
        uvcci_tf_note(b, UVCC_ERR_USAGE);
    }
    return tensor;
}

uint32_t uvcci_tf_constant(uvcci_tf_builder *b, const char *name, uvcc_tensor_desc d,
                           const int64_t *values) {
    char full[UVCCI_NAME_BYTES];
    snprintf(full, sizeof full, "%s%s", b->prefix, name);
    const int there = uvcc_program_find(b->p, full);
    if (there >= 0)
        return there_already(b, (uint32_t)there, &d, values);
    d.name = full;
    d.lifetime = UVCC_PERSIST;
    d.sharing = UVCC_PUBLIC;
    d.in_buffer_of = UVCC_NO_TENSOR;
    const int t = uvcc_program_tensor(b->p, &d);
    uvcci_tf_note(b, t < 0 ? t : uvcc_program_constant(b->p, (uint32_t)t, values));
    return t >= 0 ? (uint32_t)t : 0;
}

/* ---- ops ---- */

/* An op carries the name of what it writes. */
void uvcci_tf_op(uvcci_tf_builder *b, uvcc_op_desc op) {
    assert(op.in_count <= UVCC_OP_MAX_IN && op.out_count <= UVCC_OP_MAX_OUT);
    if (b->err != 0)
        return;
    op.phase = b->phase;
    op.mb = b->mb;
    if (b->k >= b->k_end)
        uvcci_tf_note(b, UVCC_ERR_LIMIT);
    op.k = (uint16_t)b->k++;
    if (op.out_count != 0)
        op.name = uvcci_tf_desc(b, op.out[0])->name;
    uvcci_tf_note(b, uvcc_program_op(b->p, &op));
}

void uvcci_tf_local(uvcci_tf_builder *b, uvcc_opcode opcode, uint32_t x, uint32_t y, uint32_t z) {
    const int shift =
        opcode == UVCC_OP_SHIFT_LEFT ? uvcci_tf_desc(b, z)->scale - uvcci_tf_desc(b, x)->scale : 0;
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = (uint16_t)opcode,
                                  .in_count = y == UVCC_NO_TENSOR ? 1 : 2,
                                  .in = {x, y},
                                  .out_count = 1,
                                  .out = {z},
                                  .shift = (uint8_t)shift});
}

/* A product that is truncated or kept whole. */
static void put_product(uvcci_tf_builder *b, uvcc_op_desc op, unsigned shift) {
    if (b->how.products == UVCC_PRODUCTS_BEAVER && op.opcode == UVCC_OP_GEMM_SS)
        op.flags |= UVCC_OP_BEAVER;
    op.shift = (uint8_t)shift;
    op.truncation = shift != 0 ? b->truncation : 0;
    op.lift = shift != 0 ? b->how.lift : 0;
    uvcci_tf_op(b, op);
}

static unsigned shift_to(uvcci_tf_builder *b, int from, uint32_t z) {
    const int shift = from - uvcci_tf_desc(b, z)->scale;
    if (shift < 0 || shift > (int)UVCCI_MAX_BITS)
        uvcci_tf_note(b, UVCC_ERR_BOUND);
    return (unsigned)shift;
}

void uvcci_tf_times(uvcci_tf_builder *b, uvcc_opcode opcode, uint32_t x, uint32_t y, uint32_t z,
                    int64_t constant, unsigned fraction) {
    const int scale = uvcci_tf_desc(b, x)->scale + uvcci_tf_desc(b, y)->scale + (int)fraction;
    put_product(b,
                (uvcc_op_desc){.opcode = (uint16_t)opcode,
                               .in_count = 2,
                               .in = {x, y},
                               .out_count = 1,
                               .out = {z},
                               .constant = constant},
                shift_to(b, scale, z));
}

void uvcci_tf_times_within(uvcci_tf_builder *b, uint16_t opcode, uint32_t x, uint32_t y, uint32_t z,
                           unsigned bits) {
    const int scale = uvcci_tf_desc(b, x)->scale + uvcci_tf_desc(b, y)->scale;
    put_product(b,
                (uvcc_op_desc){.opcode = opcode,
                               .in_count = 2,
                               .in = {x, y},
                               .out_count = 1,
                               .out = {z},
                               .flags = UVCC_OP_WITHIN,
                               .constant = (int64_t)bits},
                shift_to(b, scale, z));
}

void uvcci_tf_scale(uvcci_tf_builder *b, uint32_t x, uint32_t z, int64_t c, unsigned fraction) {
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_SCALE_PUBLIC,
                                  .in_count = 1,
                                  .in = {x},
                                  .out_count = 1,
                                  .out = {z},
                                  .shift = (uint8_t)fraction,
                                  .constant = c});
}

void uvcci_tf_truncate(uvcci_tf_builder *b, uint32_t x, uint32_t z, uint8_t truncation) {
    const unsigned shift = shift_to(b, uvcci_tf_desc(b, x)->scale, z);
    const bool additive = uvcci_tf_desc(b, x)->sharing == UVCC_ADDITIVE;
    /* by nothing: a copy, or a resharing */
    const uint16_t opcode = shift != 0 ? UVCC_OP_TRUNCATE
                            : additive ? UVCC_OP_RESHARE
                                       : UVCC_OP_SHIFT_LEFT;
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = opcode,
                                  .in_count = 1,
                                  .in = {x},
                                  .out_count = 1,
                                  .out = {z},
                                  .shift = (uint8_t)shift,
                                  .truncation = shift != 0 ? truncation : 0,
                                  .lift = shift != 0 ? b->how.lift : 0});
}

/* ---- products ---- */

static uvcc_op_desc gemm(const uvcci_tf_builder *b, uint32_t a, uint32_t y, uint32_t z,
                         uint8_t flags, bool heads) {
    return (uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS,
                          .in_count = 2,
                          .in = {a, y},
                          .out_count = 1,
                          .out = {z},
                          .flags = flags,
                          .heads = heads ? (uint16_t)b->n.rank_heads : 0,
                          .row_groups = heads ? b->sequences : 0};
}

void uvcci_tf_part(uvcci_tf_builder *b, uint32_t a, uint32_t y, uint32_t z, uint8_t flags) {
    uvcc_op_desc op = gemm(b, a, y, z, flags, true);
    op.opcode = UVCC_OP_GEMM_PART;
    uvcci_tf_op(b, op);
}

/* What a product sums for one element. */
static uint32_t depth_of(const uvcc_op_desc *op, const uvcc_tensor_desc *a) {
    return (uint32_t)(op->flags & UVCC_OP_TRANS_A ? uvcci_gemm_rows(op, 0, a)
                                                  : uvcci_gemm_cols(op, 0, a));
}

/* C = op(a) op(y), whole, and the check of it. */
static void checked_product(uvcci_tf_builder *b, uvcc_op_desc op, uint32_t c) {
    op.out[0] = c;
    put_product(b, op, 0);
    uvcc_op_desc check = {.opcode = UVCC_OP_SKS_START,
                          .in_count = 3,
                          .in = {op.in[0], op.in[1], c},
                          .flags = op.flags & (UVCC_OP_TRANS_A | UVCC_OP_TRANS_B),
                          .constant = b->how.sks};
    uvcci_tf_op(b, check);
    check.opcode = UVCC_OP_SKS_GEMM_CHECK;
    check.flags = 0;
    check.constant = 0;
    uvcci_tf_op(b, check);
}

/* z = a y by a public y: local, and then the truncation of a replicated value, which of what is
 * rounded stochastically takes a round. What z has room for bounds what is truncated to it. */
static void open_product(uvcci_tf_builder *b, uvcc_op_desc op, uint32_t z) {
    const uvcc_tensor_desc x = *uvcci_tf_desc(b, op.in[0]), w = *uvcci_tf_desc(b, op.in[1]),
                           out = *uvcci_tf_desc(b, z);
    const unsigned shift = shift_to(b, x.scale + w.scale, z), room = out.bits + shift,
                   sum = x.bits + w.bits + uvcci_tf_log2(depth_of(&op, &x));
    op.opcode = UVCC_OP_GEMM_PART;
    if (shift != 0)
        op.out[0] = uvcci_tf_temporary(b, out.rows, out.cols, sum < room ? sum : room,
                                       x.scale + (unsigned)w.scale);
    uvcci_tf_op(b, op);
    if (shift != 0)
        uvcci_tf_truncate(b, op.out[0], z, b->truncation);
}

void uvcci_tf_product(uvcci_tf_builder *b, uint32_t a, uint32_t y, uint32_t z, uint8_t flags,
                      bool heads) {
    const uvcc_tensor_desc *x = uvcci_tf_desc(b, a), *w = uvcci_tf_desc(b, y),
                           *out = uvcci_tf_desc(b, z);
    const uvcc_op_desc op = gemm(b, a, y, z, flags, heads);
    const int scale = x->scale + w->scale;
    if (w->sharing == UVCC_PUBLIC)
        open_product(b, op, z);
    else if (b->how.sks == 0 || heads) {
        put_product(b, op, shift_to(b, scale, z));
    } else if (scale == out->scale) {
        checked_product(b, op, z);
    } else {
        const unsigned bits = x->bits + w->bits + uvcci_tf_log2(depth_of(&op, x));
        const uint32_t c = uvcci_tf_temporary(b, out->rows, out->cols, bits, (unsigned)scale);
        checked_product(b, op, c);
        uvcci_tf_truncate(b, c, z, b->truncation);
    }
}

/* A product added to `sum`, or the first of it. Additive parts accumulate in one op; products on
 * triples or with checks are replicated, and an op of its own adds them. */
uint32_t uvcci_tf_add_product(uvcci_tf_builder *b, uint32_t sum, uint32_t a, uint32_t y,
                              uint8_t flags, uint32_t times, const char *name) {
    const uvcc_tensor_desc *x = uvcci_tf_desc(b, a), *z = uvcci_tf_desc(b, y);
    const bool whole = b->how.products == UVCC_PRODUCTS_BEAVER || b->how.sks != 0;
    const bool open = z->sharing == UVCC_PUBLIC; /* local, and has no third input */
    uvcc_op_desc op = gemm(b, a, y, sum, flags, false);
    const unsigned bits = x->bits + z->bits + uvcci_tf_log2(depth_of(&op, x));
    uvcc_tensor_desc d = {
        .rows = flags & UVCC_OP_TRANS_A ? x->cols : x->rows,
        .cols = flags & UVCC_OP_TRANS_B ? z->rows : z->cols,
        .bits = (uint8_t)(bits + uvcci_tf_log2(times)),
        .scale = x->scale + z->scale,
        .sharing = whole || open ? UVCC_REPLICATED : UVCC_ADDITIVE,
    };
    d.lifetime = UVCC_TRANSIENT;
    const bool first = sum == UVCC_NO_TENSOR;
    if (first)
        sum = uvcci_tf_tensor(b, name, d);
    if (open) {
        op.opcode = UVCC_OP_GEMM_PART;
        op.out[0] = first ? sum : uvcci_tf_temporary(b, d.rows, d.cols, bits, d.scale);
        uvcci_tf_op(b, op);
        if (!first)
            uvcci_tf_local(b, UVCC_OP_ADD, sum, op.out[0], sum);
        return sum;
    }
    if (!whole) {
        op.opcode = UVCC_OP_GEMM_PART;
        op.in_count = first ? 2 : 3;
        op.in[2] = sum;
        op.out[0] = sum;
        uvcci_tf_op(b, op);
        return sum;
    }
    op.out[0] = first ? sum : uvcci_tf_temporary(b, d.rows, d.cols, bits, d.scale);
    if (b->how.sks != 0)
        checked_product(b, op, op.out[0]);
    else
        put_product(b, op, 0);
    if (!first)
        uvcci_tf_local(b, UVCC_OP_ADD, sum, op.out[0], sum);
    return sum;
}

/* ---- among workers ---- */

static void collective(uvcci_tf_builder *b, uint16_t opcode, uint32_t x, uint32_t z,
                       uint8_t group) {
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = opcode,
                                  .in_count = 1,
                                  .in = {x},
                                  .out_count = 1,
                                  .out = {z},
                                  .group = group});
}

uint32_t uvcci_tf_reduce(uvcci_tf_builder *b, uint32_t x, uint8_t group, uint32_t ways,
                         uint32_t rows, uint32_t cols, const char *name) {
    uvcc_tensor_desc d = *uvcci_tf_desc(b, x);
    if (ways == 1)
        return x;
    d.rows = rows;
    d.cols = cols;
    d.bits += (uint8_t)uvcci_tf_log2(ways);
    d.lifetime = UVCC_TRANSIENT;
    const uint32_t z = uvcci_tf_tensor(b, name, d);
    collective(b, UVCC_OP_REDUCE_SCATTER, x, z, group);
    return z;
}

uint32_t uvcci_tf_all_rows(uvcci_tf_builder *b, const char *name, uint32_t own) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, own);
    if (b->how.tensor_ranks == 1)
        return own;
    const uint32_t all = uvcci_tf_transient(b, name, b->rows, d.cols, d.bits, d.scale);
    uvcci_tf_gather(b, own, UVCC_GROUP_TP, all);
    return all;
}

void uvcci_tf_gather(uvcci_tf_builder *b, uint32_t slice, uint8_t group, uint32_t out) {
    collective(b, UVCC_OP_ALL_GATHER, slice, out, group);
}

/* ---- functions ---- */

uint32_t uvcci_tf_temporary(uvcci_tf_builder *b, uint32_t rows, uint32_t cols, unsigned bits,
                            unsigned scale) {
    char name[48];
    snprintf(name, sizeof name, "%st.%u", b->prefix, b->temporaries++);
    char scope[sizeof b->scope];
    memcpy(scope, b->scope, sizeof scope);
    b->scope[0] = 0;
    const uint32_t t = uvcci_tf_transient(b, name, rows, cols, bits, scale);
    memcpy(b->scope, scope, sizeof scope);
    return t;
}

void uvcci_tf_function(uvcci_tf_builder *b, uvcc_nonlinear what, uvcc_nonlinear_options o,
                       const uint32_t *in, const char *const *names, uint32_t *out) {
    uvcc_tensor_desc x[UVCC_OP_MAX_IN], d[UVCC_OP_MAX_OUT];
    if (b->err != 0)
        return;
    o.size = sizeof o;
    o.exact = b->how.exact;
    o.dcf = b->how.truncation == UVCC_TRUNC_EXACT_DCF;
    for (unsigned i = 0; i < uvcc_nonlinear_at(what)->inputs; i++)
        x[i] = *uvcci_tf_desc(b, in[i]);
    const int count = uvcci_nonlinear_output_in(b->p, what, &o, x, d);
    uvcci_tf_note(b, count);
    for (int i = 0; i < count; i++)
        out[i] = uvcci_tf_tensor(b, names[i], d[i]);
    uvcci_tf_emit(b, what, o, in, out);
}

void uvcci_tf_emit(uvcci_tf_builder *b, uvcc_nonlinear what, uvcc_nonlinear_options o,
                   const uint32_t *in, const uint32_t *out) {
    o.size = sizeof o;
    o.exact = b->how.exact;
    o.dcf = b->how.truncation == UVCC_TRUNC_EXACT_DCF;
    char prefix[32];
    snprintf(prefix, sizeof prefix, "%st", b->prefix);
    uvcc_emit e = {
        .program = b->p,
        .phase = b->phase,
        .mb = b->mb,
        .k = (uint16_t)b->k,
        .prefix = prefix,
        .temporaries = b->temporaries,
        .alloc = b->al,
    };
    if (b->err == 0)
        uvcci_tf_note(b, uvcc_emit_nonlinear(&e, what, &o, in, out));
    b->k = e.k;
    b->temporaries = e.temporaries;
}

const char *uvcci_tf_sum_name(uvcci_tf_builder *b, const uvcci_tf_held *h) {
    assert(h != NULL);
    snprintf(b->name, sizeof b->name, "S.%s", h->about.name);
    return b->name;
}
