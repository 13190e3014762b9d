/* SPDX-License-Identifier: Apache-2.0 */
/* product.c - products of two secrets: of matrices (GEMM_SS), element by element (ELEM_MUL,
 * ROW_MUL, COL_MUL), of rows (ROW_DOT). Each party computes an additive share alone; then the
 * product is reshared or, with a shift, truncated. On a Beaver triple they go another way
 * (beaver.c).
 *
 * GEMM_PART and MUL_PART are the local parts of a matrix product, which is added to, and of
 * products of elements: they stay additive. RESHARE makes an additive tensor a replicated one. */
#include "exec/ops/beaver.h"
#include "exec/ops/families.h"
#include "exec/ops/multiply.h"
#include "exec/ops/operands.h"
#include "exec/ops/tasks.h"
#include "exec/ops/truncate.h"
#include "exec/program/op_check.h"
#include "exec/program/plan_maker.h"

#include <assert.h>

enum { A = 0, B = 1, C = 2 };

/* ---- what matrix products ask of their tensors ---- */

/* An operand of a product with heads can be cut into its blocks. */
static int want_blocks(const uvcci_op_check *c, unsigned operand, const uvcc_tensor_desc *t) {
    const uvcc_op_desc *d = c->d;
    const uint64_t rows = uvcci_gemm_rows(d, operand, t), cols = uvcci_gemm_cols(d, operand, t);
    const bool stacked = (d->flags & UVCC_OP_STACKED_A << operand) != 0;
    if (d->heads == 0 || (rows * d->row_groups * (stacked ? d->heads : 1u) == t->rows &&
                          cols * (stacked ? 1u : d->heads) == t->cols))
        return 0;
    return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                      "%s: %s is %u x %u, %s; %u groups of rows and %u heads do not divide it",
                      c->label, t->name, t->rows, t->cols, stacked ? "stacked" : "packed",
                      d->row_groups, d->heads);
}

static int check_gemm_result(const uvcci_op_check *c, uint64_t rows, uint64_t cols) {
    const uvcc_tensor_desc *z = c->out[0];
    const uint64_t z_rows = uvcci_gemm_rows(c->d, C, z), z_cols = uvcci_gemm_cols(c->d, C, z);
    int err = want_blocks(c, C, z);
    if (err == 0 && (z_rows != rows || z_cols != cols))
        err = uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s: %s%s is %llu x %llu, but must be %llu x %llu",
                         c->label, c->d->heads != 0 ? "a block of " : "", z->name,
                         (unsigned long long)z_rows, (unsigned long long)z_cols,
                         (unsigned long long)rows, (unsigned long long)cols);
    if (err == 0)
        err = uvcci_want_scale(c, z, c->in[A]->scale + c->in[B]->scale - c->d->shift);
    if (err == 0 && c->d->in_count == 3)
        err = uvcci_want_same_shape(c, c->in[C], z);
    if (err == 0 && c->d->in_count == 3)
        err = uvcci_want_scale(c, c->in[C], z->scale);
    return err;
}

/* Blocks before the products of blocks, these before the result: a message speaks of the first
 * thing that is wrong in the order in which an author would look. */
static int check_gemm(const uvcci_op_check *c) {
    const uvcc_op_desc *d = c->d;
    const uvcc_tensor_desc *a = c->in[A], *b = c->in[B];
    int err = want_blocks(c, A, a);
    if (err == 0)
        err = want_blocks(c, B, b);
    if (err != 0)
        return err;
    const bool ta = d->flags & UVCC_OP_TRANS_A, tb = d->flags & UVCC_OP_TRANS_B;
    const uint64_t a_rows = uvcci_gemm_rows(d, A, a), a_cols = uvcci_gemm_cols(d, A, a);
    const uint64_t b_rows = uvcci_gemm_rows(d, B, b), b_cols = uvcci_gemm_cols(d, B, b);
    const uint64_t k = uvcci_gemm_depth(d, a), k_b = tb ? b_cols : b_rows;
    if (k != k_b)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                          "%s: op(%s) has %llu columns and op(%s) %llu rows; they must be equal",
                          c->label, a->name, (unsigned long long)k, b->name,
                          (unsigned long long)k_b);
    err = check_gemm_result(c, ta ? a_cols : a_rows, tb ? b_rows : b_cols);
    if (err == 0)
        err = uvcci_want_bits(c, a->bits + b->bits + uvcci_ceil_log2(k),
                              "bits(A) + bits(B) + log2(K)");
    return err;
}

/* By a public matrix each component has its own product: nothing is additive, nor added to. */
static int check_part(const uvcci_op_check *c) {
    const bool open = c->in[B] != NULL && c->in[B]->sharing == UVCC_PUBLIC;
    if (c->d->in_count != 2 && (c->d->in_count != 3 || open))
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s has %u inputs; it takes %s", c->label,
                          c->d->in_count, open ? "2 where B is public" : "2 or 3");
    if (open != (c->out[0]->sharing == UVCC_REPLICATED))
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s writes %s, which must be %s", c->label,
                          c->out[0]->name, open ? "replicated: B is public" : "additive");
    return check_gemm(c);
}

/* |A| |B| K < 2^a 2^b K, and what was there before. */
static uint64_t part_sum_max(const uvcc_program *p, const uvcc_op_desc *d) {
    const uvcc_tensor_desc *a = &p->tensors[d->in[A]].desc, *b = &p->tensors[d->in[B]].desc;
    if (b->sharing == UVCC_PUBLIC) /* what is replicated is its author's business */
        return 1ull << p->tensors[d->out[0]].desc.bits;
    const uint64_t product = uvcci_gemm_depth(d, a) << (a->bits + b->bits);
    return product + (d->in_count == 3 ? p->tensors[d->in[C]].sum_max : 0);
}

static int check_reshare(const uvcci_op_check *c) {
    const uvcc_tensor_desc *x = c->in[0], *z = c->out[0];
    int err = uvcci_want_same_shape(c, z, x);
    return err == 0 ? uvcci_want_scale(c, z, x->scale) : err;
}

/* ---- what products of elements ask of theirs ---- */

/* The bits that the author of a product knows. */
static int want_known_bits(const uvcci_op_check *c) {
    if (c->d->shift != 0 && c->d->constant >= 1 && c->d->constant <= (int64_t)UVCCI_MAX_BITS)
        return 0;
    return uvcci_fail(
        c->m, UVCC_ERR_PROGRAM,
        "%s: products within %lld bits, shifted by %u; 1 to %u and a shift are possible", c->label,
        (long long)c->d->constant, c->d->shift, UVCCI_MAX_BITS);
}

/* `second`: what the check of the second input's shape said. */
static int check_products(const uvcci_op_check *c, int second) {
    const uvcc_tensor_desc *a = c->in[A], *b = c->in[B], *z = c->out[0];
    int err = second;
    if (err == 0)
        err = uvcci_want_same_shape(c, z, a);
    if (err == 0)
        err = uvcci_want_scale(c, z, a->scale + b->scale - c->d->shift);
    if (err == 0 && (c->d->flags & UVCC_OP_WITHIN) != 0)
        return want_known_bits(c);
    if (err == 0)
        err = uvcci_want_bits(c, a->bits + b->bits, "bits(A) + bits(B)");
    return err;
}

static int check_elem_mul(const uvcci_op_check *c) {
    return check_products(c, uvcci_want_same_shape(c, c->in[B], c->in[A]));
}

static int check_row_mul(const uvcci_op_check *c) {
    return check_products(c, uvcci_want_shape(c, c->in[B], c->in[A]->rows, 1));
}

/* One value for all elements, as far as a map counts them: 32 bits. */
static bool is_one_value(const uvcc_tensor_desc *b, const uvcc_tensor_desc *a) {
    return b->rows == 1 && b->cols == 1 && (uint64_t)a->rows * a->cols <= UINT32_MAX;
}

static int check_col_mul(const uvcci_op_check *c) {
    const uvcc_tensor_desc *a = c->in[A], *b = c->in[B];
    return check_products(c, is_one_value(b, a) ? 0 : uvcci_want_shape(c, b, 1, a->cols));
}

/* y has the shape of x, or is one column, row or value for all of it. WITHIN: what comes out stays
 * within the bits that the output declares. */
static int check_mul_part(const uvcci_op_check *c) {
    const uvcc_tensor_desc *a = c->in[A], *b = c->in[B], *z = c->out[0];
    const bool column = b->rows == a->rows && b->cols == 1;
    int err = 0;
    if (!uvcci_same_shape(a, b) && !column && !is_one_value(b, a))
        err = uvcci_want_shape(c, b, 1, a->cols);
    if (err == 0)
        err = uvcci_want_same_shape(c, z, a);
    if (err == 0)
        err = uvcci_want_scale(c, z, a->scale + b->scale);
    if (err == 0 && (c->d->flags & UVCC_OP_WITHIN) == 0)
        err = uvcci_want_bits(c, a->bits + b->bits, "bits(A) + bits(B)");
    return err;
}

/* |x y| < 2^(bits of both), or what its author knows. */
static uint64_t mul_part_sum_max(const uvcc_program *p, const uvcc_op_desc *d) {
    const unsigned bits = (d->flags & UVCC_OP_WITHIN) != 0
                              ? p->tensors[d->out[0]].desc.bits
                              : p->tensors[d->in[A]].desc.bits + p->tensors[d->in[B]].desc.bits;
    return 1ull << bits;
}

static int check_row_dot(const uvcci_op_check *c) {
    const uvcc_tensor_desc *a = c->in[A], *b = c->in[B], *z = c->out[0];
    const int fraction = z->scale + c->d->shift - a->scale - b->scale;
    int err = uvcci_want_nonzero(c);
    if (err == 0)
        err = uvcci_want_same_shape(c, b, a);
    if (err == 0)
        err = uvcci_want_shape(c, z, a->rows, 1);
    if (err == 0 && (fraction < 0 || fraction > (int)UVCCI_MAX_BITS))
        err =
            uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                       "%s: %s has scale %u, which leaves %d fraction bits for the constant; 0 to "
                       "%u are possible",
                       c->label, z->name, z->scale, fraction, UVCCI_MAX_BITS);
    if (err == 0)
        err = uvcci_want_bits(
            c, a->bits + b->bits + uvcci_ceil_log2(a->cols) + uvcci_constant_bits(c->d->constant),
            "bits(A) + bits(B) + log2(cols) + log2(constant)");
    return err;
}

/* ---- GEMM_PART: what a party computes alone ---- */

/* Each component times the public B, of which a task reads each element for both. */
static bool build_public_part(uvcci_builder *b, const uvcc_shares *out) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcc_shares *a = uvcci_shares_of(b->s, d->in[A]), *y = uvcci_shares_of(b->s, d->in[B]);
    assert(b->r->turn == 0 && y->hi == NULL && out->hi != NULL && d->in_count == 2);
    if (!uvcci_build_gemm(b, a, y, out->lo, false))
        return false;
    uvcci_last_task(b)->u.gemm.z_hi = out->hi;
    return true;
}

/* C + A B: what was there first, unless the op works in its buffer. */
static bool build_part(uvcci_builder *b) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_tensor *ts = b->s->program->tensors;
    if (!uvcci_ensure_outputs(b))
        return false;
    const bool accumulate = d->in_count == 3;
    const uvcc_shares *out = uvcci_shares_of(b->s, d->out[0]);
    if (ts[d->in[B]].desc.sharing == UVCC_PUBLIC)
        return build_public_part(b, out);
    assert(b->r->turn == 0 && out->hi == NULL);
    if (accumulate && ts[d->in[C]].buffer != ts[d->out[0]].buffer)
        (void)uvcci_task_map(b, UVCC_MAP_COPY, ts[d->out[0]].desc.rows, ts[d->out[0]].desc.cols,
                             uvcci_shares_of(b->s, d->in[C]), NULL, out);
    return uvcci_build_gemm(b, uvcci_shares_of(b->s, d->in[A]), uvcci_shares_of(b->s, d->in[B]),
                            out->lo, accumulate);
}

static bool build_mul_part(uvcci_builder *b) {
    const uvcc_op_desc *d = &b->r->op->desc;
    assert(b->r->turn == 0 && d->in_count == 2);
    if (!uvcci_ensure_outputs(b))
        return false;
    return uvcci_build_mul_part(b, uvcci_shares_of(b->s, d->in[A]), uvcci_shares_of(b->s, d->in[B]),
                                uvcci_shares_of(b->s, d->out[0])->lo);
}

/* ---- resharing ---- */

enum { RESHARE_ROUND = 0 };

/* RESHARE_MASK of a 3-additive vector. */
static void mask_reshare(uvcci_builder *b, const uint64_t *z) {
    uvcci_instance *r = b->r;
    const uvcc_shares out = uvcci_part_of(b, r->op->desc.out[0]);
    uint32_t n;
    assert(z != NULL);
    uvcc_block *k = uvcci_add_op_blocks(b, UVCC_TASK_RESHARE_MASK, 0, UVCCI_ROLE_ALL, &n);
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_reshare(&k[i], z, out.lo,
                          uvcci_sent_at(r, RESHARE_ROUND, 0, UVCCI_FIRST, k[i].block));
    }
}

static bool finish_reshare(uvcci_builder *b) {
    assert(b->r->turn == 1);
    uvcci_task_unpack(b, 0, RESHARE_ROUND, uvcci_part_of(b, b->r->op->desc.out[0]).hi);
    return true;
}

static int plan_reshare(uvcci_draft *d) {
    uvcci_draft_vector(d, UVCCI_PROTO_RESHARE, UVCCI_STREAM_MASK);
    return 0;
}

static bool build_reshare(uvcci_builder *b) {
    if (b->r->turn != 0)
        return finish_reshare(b);
    if (!uvcci_ensure_outputs(b))
        return false;
    mask_reshare(b, uvcci_part_of(b, b->r->op->desc.in[0]).lo);
    return uvcci_end_turn(b);
}

/* ---- products ---- */

static int plan_product(uvcci_draft *d) {
    if ((d->op->desc.flags & UVCC_OP_BEAVER) != 0)
        uvcci_beaver_plan(d);
    else if (d->op->desc.shift != 0)
        uvcci_truncation_plan(d, UVCCI_PROTO_OPEN4);
    else
        return plan_reshare(d);
    return 0;
}

/* Between rows of the result; between elements where each reads one of both operands, or the one
 * that there is. Products on triples have tiles instead. */
static uint64_t units_of_rows(const uvcc_program *p, const uvcc_op_desc *d, bool *by_element) {
    *by_element = false;
    return (d->flags & UVCC_OP_BEAVER) != 0 ? 1 : p->tensors[d->out[0]].desc.rows;
}

static uint64_t units_of_elements(const uvcc_program *p, const uvcc_op_desc *d, bool *by_element) {
    const uint64_t a = p->tensors[d->in[A]].elems, b = p->tensors[d->in[B]].elems;
    const bool one = d->opcode == UVCC_OP_COL_MUL && b == 1;
    if ((d->flags & UVCC_OP_BEAVER) != 0 || (a != b && !one))
        return units_of_rows(p, d, by_element);
    *by_element = true;
    return a;
}

static bool begin_product(uvcci_builder *b, uvcci_gate *g) {
    if (!uvcci_ensure_outputs(b) || !uvcci_take_words(b->s, &g->value, b->r->plan->elems) ||
        !uvcci_build_product(b, g->value))
        return false;
    if (b->r->plan->open_round < 0)
        mask_reshare(b, g->value);
    else if (!uvcci_gate_open4(b, g, g->value))
        return false;
    return uvcci_end_turn(b);
}

static bool build_product(uvcci_builder *b) {
    uvcci_gate *g = b->r->state;
    assert(g != NULL);
    if (b->r->turn == 0)
        return begin_product(b, g);
    return b->r->plan->open_round < 0 ? finish_reshare(b)
                                      : uvcci_gate_build(b, g, &uvcci_truncation);
}

static void release_product(uvcc_session *s, uvcci_instance *r) {
    uvcci_gate_release(s, r, r->state);
}

/* ---- the family ---- */

static const uvcci_op_way product_way = {.state_bytes = sizeof(uvcci_gate),
                                         .tensor_bytes = uvcci_gate_tensor_bytes,
                                         .key_bytes = uvcci_gate_key_bytes,
                                         .build = build_product,
                                         .release = release_product,
                                         .deal_tasks = uvcci_gate_deal_tasks,
                                         .deal = uvcci_gate_deal};
static const uvcci_op_way part_way = {.build = build_part};
static const uvcci_op_way mul_part_way = {.build = build_mul_part};
static const uvcci_op_way reshare_way = {.build = build_reshare};

enum {
    PRODUCT = UVCCI_IS_PRODUCT | UVCCI_USES_SHIFT | UVCCI_TRUNCATES,
    TRANSPOSES = UVCC_OP_TRANS_A | UVCC_OP_TRANS_B,
    STACKS = UVCC_OP_STACKED_A | UVCC_OP_STACKED_B | UVCC_OP_STACKED_C
};

static const uvcci_op_class classes[] = {
    {.opcode = UVCC_OP_GEMM_SS,
     .traits = PRODUCT | UVCCI_USES_HEADS,
     .flags = TRANSPOSES | STACKS | UVCC_OP_BEAVER,
     .detail = UVCCI_DETAIL_GEMM,
     .check = check_gemm,
     .units = units_of_rows,
     .plan = plan_product,
     .way = &product_way},
    {.opcode = UVCC_OP_ELEM_MUL,
     .traits = PRODUCT | UVCCI_WORKS_IN_PLACE,
     .flags = UVCC_OP_BEAVER | UVCC_OP_WITHIN,
     .constant_flag = UVCC_OP_WITHIN,
     .detail = UVCC_MAP_MUL,
     .check = check_elem_mul,
     .units = units_of_elements,
     .plan = plan_product,
     .way = &product_way},
    {.opcode = UVCC_OP_ROW_MUL,
     .traits = PRODUCT | UVCCI_WORKS_IN_PLACE,
     .flags = UVCC_OP_BEAVER | UVCC_OP_WITHIN,
     .constant_flag = UVCC_OP_WITHIN,
     .detail = UVCC_MAP_MUL_COL,
     .check = check_row_mul,
     .units = units_of_rows,
     .plan = plan_product,
     .way = &product_way},
    {.opcode = UVCC_OP_COL_MUL,
     .traits = PRODUCT | UVCCI_WORKS_IN_PLACE,
     .flags = UVCC_OP_BEAVER | UVCC_OP_WITHIN,
     .constant_flag = UVCC_OP_WITHIN,
     .detail = UVCC_MAP_MUL_ROW,
     .check = check_col_mul,
     .units = units_of_elements,
     .plan = plan_product,
     .way = &product_way},
    {.opcode = UVCC_OP_ROW_DOT,
     .traits = PRODUCT | UVCCI_USES_CONSTANT,
     .flags = UVCC_OP_BEAVER,
     .detail = UVCC_MAP_DOT_ROWS,
     .check = check_row_dot,
     .units = units_of_rows,
     .plan = plan_product,
     .way = &product_way},
    {.opcode = UVCC_OP_GEMM_PART,
     .traits = UVCCI_USES_HEADS | UVCCI_READS_NARROW |
               UVCCI_WORKS_IN_PLACE, /* on its third input alone */
     .flags = TRANSPOSES | STACKS,
     .detail = UVCCI_DETAIL_GEMM,
     .in = {[B] = UVCCI_TAKES_REPLICATED | UVCCI_TAKES_PUBLIC, [C] = UVCCI_TAKES_ADDITIVE},
     .out = UVCCI_TAKES_BOTH,
     .check = check_part,
     .sum_max = part_sum_max,
     .way = &part_way},
    {.opcode = UVCC_OP_MUL_PART,
     .flags = UVCC_OP_WITHIN,
     .out = UVCCI_TAKES_ADDITIVE,
     .check = check_mul_part,
     .sum_max = mul_part_sum_max,
     .way = &mul_part_way},
    {.opcode = UVCC_OP_RESHARE,
     .in = {UVCCI_TAKES_ADDITIVE},
     .check = check_reshare,
     .units = uvcci_units_of_elements,
     .plan = plan_reshare,
     .way = &reshare_way},
};
const uvcci_op_family uvcci_ops_product = UVCCI_FAMILY(classes);
