/* checks.c - whether a program means something: tensors, ops with their shapes, scales and bounds,
 * microbatches, entries. Each refusal is one line that says what is wrong. */
#include "exec/program/plan.h"
#include "exec/program/program_impl.h"
#include "exec/program/sks.h"

#include <assert.h>
#include <string.h>
#include <uvcc/compute.h>

int uvcci_check_tensor(uvcc_program *p, uint32_t i, const uvcci_message *m) {
    uvcci_tensor *t = &p->tensors[i];
    const uvcc_tensor_desc *d = &t->desc;
    const int bad = UVCC_ERR_PROGRAM;
    for (uint32_t j = 0; j < i; j++)
        if (p->tensors[j].name_hash == t->name_hash && strcmp(p->tensors[j].name, t->name) == 0)
            return uvcci_fail(m, bad, "two tensors are called %s; names are unique", t->name);
    if (t->elems == 0 || t->elems > UVCCI_MAX_ELEMS)
        return uvcci_fail(m, bad, "tensor %s is %u x %u; it needs 1 to 2^40 elements", t->name,
                          d->rows, d->cols);
    if (d->bits < 1 || d->bits > 63)
        return uvcci_fail(m, bad, "tensor %s declares %u bits; 1 to 63 are possible", t->name,
                          d->bits);
    if (d->scale > UVCCI_MAX_BITS)
        return uvcci_fail(m, bad, "tensor %s has scale %u; at most %u is possible", t->name,
                          d->scale, UVCCI_MAX_BITS);
    if (d->lifetime != UVCC_PERSIST && d->lifetime != UVCC_TRANSIENT)
        return uvcci_fail(m, bad, "tensor %s has the unknown lifetime %u", t->name, d->lifetime);
    if (d->sharing != UVCC_REPLICATED && d->sharing != UVCC_ADDITIVE)
        return uvcci_fail(m, bad, "tensor %s has the unknown sharing %u", t->name, d->sharing);
    if (d->sharing == UVCC_ADDITIVE && d->lifetime == UVCC_PERSIST)
        return uvcci_fail(
            m, bad, "tensor %s is additive and PERSIST; only TRANSIENT tensors may be", t->name);
    t->buffer = i;
    if (d->in_buffer_of == UVCC_NO_TENSOR)
        return 0;
    if (d->in_buffer_of >= i)
        return uvcci_fail(m, bad,
                          "tensor %s lies in the buffer of tensor %u; that must be an "
                          "earlier tensor than its own index, %u",
                          t->name, d->in_buffer_of, i);
    const uvcci_tensor *host = &p->tensors[d->in_buffer_of];
    if (d->lifetime == UVCC_PERSIST || host->desc.lifetime == UVCC_PERSIST)
        return uvcci_fail(m, bad, "tensor %s shares a buffer with %s; only TRANSIENT tensors may",
                          t->name, host->name);
    if (d->sharing != host->desc.sharing)
        return uvcci_fail(m, bad,
                          "tensor %s shares a buffer with %s, but one is additive and the other "
                          "replicated",
                          t->name, host->name);
    t->buffer = host->buffer;
    if (t->elems > p->tensors[t->buffer].elems)
        return uvcci_fail(m, bad,
                          "tensor %s (%u x %u) is larger than the buffer of %s that it uses",
                          t->name, d->rows, d->cols, p->tensors[t->buffer].name);
    return 0;
}

/* What holds for any input, also of a function that no op runs. */
int uvcci_check_instructions(const uvcc_function *f, const uvcci_message *m) {
    uvcci_fn_plan plan;
    return uvcci_fn_compile(f, 1, NULL, &plan, m->text, m->cap);
}

/* The smallest k with |c| <= 2^k. */
static unsigned constant_bits(int64_t c) {
    return uvcci_ceil_log2(c < 0 ? 0 - (uint64_t)c : (uint64_t)c);
}

/* The one op under check, with what its checks need at hand. */
typedef struct op_check {
    const uvcc_program *p;
    const uvcci_entry *e;
    const uvcc_op_desc *d;
    const uvcc_tensor_desc *in[UVCC_OP_MAX_IN], *out[UVCC_OP_MAX_OUT];
    const char *label;
    const uvcci_message *m;
} op_check;

static bool same_shape(const uvcc_tensor_desc *a, const uvcc_tensor_desc *b) {
    return a->rows == b->rows && a->cols == b->cols;
}

static int want_shape(const op_check *c, const uvcc_tensor_desc *t, uint32_t rows, uint32_t cols) {
    if (t->rows == rows && t->cols == cols)
        return 0;
    return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s: %s is %u x %u, but must be %u x %u", c->label,
                      t->name, t->rows, t->cols, rows, cols);
}

/* `scale` is what the op gives; it may be negative. */
static int want_scale(const op_check *c, const uvcc_tensor_desc *t, int scale) {
    if (t->scale == scale)
        return 0;
    return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s: %s has scale %u, but must have %d", c->label,
                      t->name, t->scale, scale);
}

static int want_bits(const op_check *c, unsigned bits, const char *sum) {
    if (bits <= UVCCI_MAX_BITS)
        return 0;
    return uvcci_fail(c->m, UVCC_ERR_BOUND,
                      "%s: %s needs %u bits, more than %u; declare fewer bits for its inputs",
                      c->label, sum, bits, UVCCI_MAX_BITS);
}

/* An operand of a product with heads can be cut into its blocks. */
static int want_blocks(const op_check *c, unsigned operand, const uvcc_tensor_desc *t) {
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

static int check_gemm_result(const op_check *c, uint64_t rows, uint64_t cols) {
    const uvcc_tensor_desc *z = c->out[0];
    const uint64_t z_rows = uvcci_gemm_rows(c->d, 2, z), z_cols = uvcci_gemm_cols(c->d, 2, z);
    int err = want_blocks(c, 2, z);
    if (err == 0 && (z_rows != rows || z_cols != cols))
        err = uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s: %s%s is %llu x %llu, but must be %llu x %llu",
                         c->label, c->d->heads != 0 ? "a block of " : "", z->name,
                         (unsigned long long)z_rows, (unsigned long long)z_cols,
                         (unsigned long long)rows, (unsigned long long)cols);
    if (err == 0)
        err = want_scale(c, z, c->in[0]->scale + c->in[1]->scale - c->d->shift);
    if (err == 0 && c->d->in_count == 3)
        err = want_shape(c, c->in[2], z->rows, z->cols);
    if (err == 0 && c->d->in_count == 3)
        err = want_scale(c, c->in[2], z->scale);
    return err;
}

static int check_gemm(const op_check *c) {
    const uvcc_op_desc *d = c->d;
    const uvcc_tensor_desc *a = c->in[0], *b = c->in[1];
    if (d->opcode == UVCC_OP_GEMM_PART && d->in_count != 2 && d->in_count != 3)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s has %u inputs; it takes 2 or 3", c->label,
                          d->in_count);
    int err = want_blocks(c, 0, a);
    if (err == 0)
        err = want_blocks(c, 1, b);
    if (err != 0)
        return err;
    const bool ta = d->flags & UVCC_OP_TRANS_A, tb = d->flags & UVCC_OP_TRANS_B;
    const uint64_t a_rows = uvcci_gemm_rows(d, 0, a), a_cols = uvcci_gemm_cols(d, 0, a);
    const uint64_t b_rows = uvcci_gemm_rows(d, 1, b), b_cols = uvcci_gemm_cols(d, 1, b);
    const uint64_t k = uvcci_gemm_depth(d, a), k_b = tb ? b_cols : b_rows;
    if (k != k_b)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                          "%s: op(%s) has %llu columns and op(%s) %llu rows; they must be equal",
                          c->label, a->name, (unsigned long long)k, b->name,
                          (unsigned long long)k_b);
    err = check_gemm_result(c, ta ? a_cols : a_rows, tb ? b_rows : b_cols);
    if (err == 0)
        err = want_bits(c, a->bits + b->bits + uvcci_ceil_log2(k), "bits(A) + bits(B) + log2(K)");
    return err;
}

static int check_reshare(const op_check *c) {
    const uvcc_tensor_desc *x = c->in[0], *z = c->out[0];
    int err = want_shape(c, z, x->rows, x->cols);
    return err == 0 ? want_scale(c, z, x->scale) : err;
}

/* t has `cols` columns and so many rows that `rows` is a multiple of them. */
static int want_turns(const op_check *c, const uvcc_tensor_desc *t, uint32_t rows, uint32_t cols) {
    if (t->cols == cols && rows % t->rows == 0)
        return 0;
    return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                      "%s: %s is %u x %u, but must have %u columns and rows that divide %u",
                      c->label, t->name, t->rows, t->cols, cols, rows);
}

/* The second input of an element-wise op: as the first, or a few rows, one column or one value for
 * all. */
static int want_second(const op_check *c) {
    const uvcc_tensor_desc *a = c->in[0], *b = c->in[1];
    switch (c->d->opcode) {
    case UVCC_OP_BIAS_ADD:
        return want_turns(c, b, a->rows, a->cols);
    case UVCC_OP_COL_MUL:
        if (b->rows == 1 && b->cols == 1 && (uint64_t)a->rows * a->cols <= UINT32_MAX)
            return 0;
        return want_shape(c, b, 1, a->cols);
    case UVCC_OP_ROW_ADD:
    case UVCC_OP_ROW_SUB:
    case UVCC_OP_ROW_RSUB:
    case UVCC_OP_ROW_MUL:
        return want_shape(c, b, a->rows, 1);
    default:
        return want_shape(c, b, a->rows, a->cols);
    }
}

/* The bits that the author of a product knows. */
static int want_known_bits(const op_check *c) {
    if (c->d->shift != 0 && c->d->constant >= 1 && c->d->constant <= (int64_t)UVCCI_MAX_BITS)
        return 0;
    return uvcci_fail(
        c->m, UVCC_ERR_PROGRAM,
        "%s: products within %lld bits, shifted by %u; 1 to %u and a shift are possible", c->label,
        (long long)c->d->constant, c->d->shift, UVCCI_MAX_BITS);
}

/* ELEM_MUL, ROW_MUL, COL_MUL. */
static int check_elem_mul(const op_check *c) {
    const uvcc_tensor_desc *a = c->in[0], *b = c->in[1], *z = c->out[0];
    int err = want_second(c);
    if (err == 0)
        err = want_shape(c, z, a->rows, a->cols);
    if (err == 0)
        err = want_scale(c, z, a->scale + b->scale - c->d->shift);
    if (err == 0 && (c->d->flags & UVCC_OP_WITHIN) != 0)
        return want_known_bits(c);
    if (err == 0)
        err = want_bits(c, a->bits + b->bits, "bits(A) + bits(B)");
    return err;
}

static int want_nonzero(const op_check *c) {
    if (c->d->constant != 0)
        return 0;
    return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s: its constant is 0, and so would be its output",
                      c->label);
}

static int check_row_dot(const op_check *c) {
    const uvcc_tensor_desc *a = c->in[0], *b = c->in[1], *z = c->out[0];
    const int fraction = z->scale + c->d->shift - a->scale - b->scale;
    int err = want_nonzero(c);
    if (err == 0)
        err = want_second(c);
    if (err == 0)
        err = want_shape(c, z, a->rows, 1);
    if (err == 0 && (fraction < 0 || fraction > (int)UVCCI_MAX_BITS))
        err =
            uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                       "%s: %s has scale %u, which leaves %d fraction bits for the constant; 0 to "
                       "%u are possible",
                       c->label, z->name, z->scale, fraction, UVCCI_MAX_BITS);
    if (err == 0)
        err = want_bits(
            c, a->bits + b->bits + uvcci_ceil_log2(a->cols) + constant_bits(c->d->constant),
            "bits(A) + bits(B) + log2(cols) + log2(constant)");
    return err;
}

/* ADD, SUB, BIAS_ADD, ROW_ADD, ROW_SUB, ROW_RSUB: one bit more than the wider input. With a shift
 * the second input counts 2^-shift of its value: its integer stands at a scale finer by that. */
static int check_sum(const op_check *c) {
    const uvcc_tensor_desc *a = c->in[0], *b = c->in[1], *z = c->out[0];
    int err = want_second(c);
    if (err == 0)
        err = want_shape(c, z, a->rows, a->cols);
    if (err == 0)
        err = want_scale(c, b, a->scale - c->d->shift);
    if (err == 0)
        err = want_scale(c, z, a->scale);
    if (err == 0)
        err = want_bits(c, a->bits > b->bits ? a->bits : b->bits, "the wider input");
    return err;
}

/* REDUCE_BIAS_GRAD and ROW_SUM. */
static int check_reduce(const op_check *c) {
    const uvcc_tensor_desc *x = c->in[0], *z = c->out[0];
    bool row = c->d->opcode == UVCC_OP_ROW_SUM;
    int err = row ? want_shape(c, z, x->rows, 1) : want_turns(c, z, x->rows, x->cols);
    if (err == 0)
        err = want_scale(c, z, x->scale);
    if (err == 0)
        err = want_bits(c, x->bits + uvcci_ceil_log2(row ? x->cols : x->rows / z->rows),
                        row ? "bits + log2(cols)" : "bits + log2(rows)");
    return err;
}

/* SCALE_PUBLIC and ADD_PUBLIC. */
static int check_public(const op_check *c) {
    const uvcc_tensor_desc *x = c->in[0], *z = c->out[0];
    const unsigned bits = constant_bits(c->d->constant);
    bool scale = c->d->opcode == UVCC_OP_SCALE_PUBLIC;
    int err = scale ? want_nonzero(c) : 0;
    if (err == 0)
        err = want_shape(c, z, x->rows, x->cols);
    if (err == 0)
        err = want_scale(c, z, x->scale + c->d->shift);
    if (err == 0 && scale)
        err = want_bits(c, x->bits + bits, "bits + log2(constant)");
    if (err == 0 && !scale)
        err = want_bits(c, x->bits > bits ? x->bits : bits, "the wider of input and constant");
    return err;
}

static int check_causal_mask(const op_check *c) {
    const uvcc_tensor_desc *x = c->in[0], *z = c->out[0];
    if (x->rows % x->cols != 0)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                          "%s: %s is %u x %u; its rows must be a multiple of its columns", c->label,
                          x->name, x->rows, x->cols);
    int err = want_shape(c, z, x->rows, x->cols);
    if (err == 0)
        err = want_scale(c, z, x->scale);
    const int64_t limit = (int64_t)((1ull << z->bits) - 1);
    if (err == 0 && (c->d->constant > limit || c->d->constant < -limit))
        err = uvcci_fail(c->m, UVCC_ERR_BOUND, "%s: the constant %lld is outside the %u bits of %s",
                         c->label, (long long)c->d->constant, z->bits, z->name);
    return err;
}

static int check_relu(const op_check *c) {
    const uvcc_tensor_desc *x = c->in[0], *y = c->out[0], *d = c->out[1];
    int err = want_shape(c, y, x->rows, x->cols);
    if (err == 0)
        err = want_shape(c, d, x->rows, x->cols);
    if (err == 0)
        err = want_scale(c, y, x->scale);
    if (err == 0)
        err = want_scale(c, d, 0);
    if (err == 0 && d->bits != 1)
        err = uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s: %s holds 0 or 1 and must declare 1 bit",
                         c->label, d->name);
    if (err == 0)
        err = want_bits(c, x->bits, "the comparison");
    return err;
}

/* SKS_START; that C is made of A and B is for liveness.c to see. */
static int check_sks(const op_check *c) {
    if (c->d->constant < 0 || c->d->constant > UVCCI_SKS_PERMILLE_MAX)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s: %lld permille; 0 to %u are possible",
                          c->label, (long long)c->d->constant, UVCCI_SKS_PERMILLE_MAX);
    const uvcci_sks_shape shape = uvcci_sks_shape_of(c->p, c->d);
    return want_shape(c, c->in[2], shape.rows, shape.cols);
}

/* TRUNCATE and SHIFT_LEFT. */
static int check_shift(const op_check *c) {
    const uvcc_tensor_desc *x = c->in[0], *z = c->out[0];
    bool left = c->d->opcode == UVCC_OP_SHIFT_LEFT;
    if (!left && c->d->shift == 0)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s: a truncation by 0 bits; leave the op out",
                          c->label);
    int err = want_shape(c, z, x->rows, x->cols);
    if (err == 0)
        err = want_scale(c, z, left ? x->scale + c->d->shift : x->scale - c->d->shift);
    if (err == 0)
        err = want_bits(c, left ? x->bits + c->d->shift : x->bits,
                        left ? "bits + shift" : "the truncation");
    return err;
}

/* The step of that width with the largest key of its own. */
static unsigned largest_key(const uvcc_function *f, const uvcci_fn_plan *plan, uint32_t width) {
    unsigned at = 0;
    uint32_t most = 0;
    for (unsigned i = 0; i < f->instr_count; i++) {
        const bool own = uvcci_fn_owns_key(f, plan, i) && plan->instr[i].width == width;
        const uint32_t bytes = own ? uvcci_fn_key_bytes(&f->instrs[i], 1) : 0;
        at = bytes > most ? i : at;
        most = bytes > most ? bytes : most;
    }
    return at;
}

/* Keys of a block go in one message. */
static int check_keys(const op_check *c, const uvcc_function *f) {
    uvcci_fn_plan plan;
    const int err = uvcci_fn_compile(f, c->in[0]->cols, NULL, &plan, NULL, 0);
    for (unsigned i = 0; i < f->instr_count && err == 0; i++) {
        const uint32_t width = plan.instr[i].width;
        const uint32_t count = uvcci_block_count((uint64_t)c->in[0]->rows * width, 0);
        const uint64_t bytes = uvcci_fn_stream_bytes(f, &plan, width, true, count);
        const unsigned largest = largest_key(f, &plan, width);
        if (!uvcci_plan_keys_fit(bytes))
            return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                              "%s: function %s has %llu B of keys for an element of width %u, most "
                              "in instruction %u (%s): more than a message holds for %u elements",
                              c->label, uvcci_fn_name(f), (unsigned long long)(bytes / count),
                              width, largest, uvcci_fn_kind_name(f->instrs[largest].kind), count);
    }
    return err;
}

/* Shapes and bits; a function does not know scales. */
static int check_function(const op_check *c) {
    const uvcc_function *f = &c->p->functions[c->d->function]->f;
    uint8_t in_bits[UVCC_OP_MAX_IN] = {0}, out_bits[UVCC_OP_MAX_OUT] = {0};
    char text[UVCCI_NAME_BYTES + 256];
    if (c->d->in_count != f->inputs || c->d->out_count != f->outputs)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                          "%s has %u inputs and %u outputs; function %s takes %u and %u", c->label,
                          c->d->in_count, c->d->out_count, uvcci_fn_name(f), f->inputs, f->outputs);
    int err = 0;
    for (unsigned i = 0; i < f->inputs && err == 0; i++) {
        in_bits[i] = c->in[i]->bits;
        err = want_shape(c, c->in[i], c->in[0]->rows, c->in[0]->cols);
    }
    if (err != 0)
        return err;
    const uint32_t cols = c->in[0]->cols;
    err = uvcc_function_check(f, cols, in_bits, out_bits, text, sizeof text);
    if (err != 0)
        return uvcci_fail(c->m, err, "%s: %s", c->label, text);
    for (uint8_t o = 0; o < f->outputs && err == 0; o++) {
        err = want_shape(c, c->out[o], c->in[0]->rows, uvcc_function_cols(f, cols, o));
        if (err == 0 && c->out[o]->bits < out_bits[o])
            err = uvcci_fail(c->m, UVCC_ERR_BOUND, "%s: %s declares %u bits, but needs %u",
                             c->label, c->out[o]->name, c->out[o]->bits, out_bits[o]);
    }
    return err != 0 ? err : check_keys(c, f);
}

/* SEND_PP and RECV_PP: there must be a neighbour on that side, and one of either in a slot. */
static int check_neighbour(const op_check *c) {
    const bool send = c->d->opcode == UVCC_OP_SEND_PP, fwd = c->d->phase == UVCC_FWD;
    const int bad = UVCC_ERR_PROGRAM;
    if (c->d->phase == UVCC_UPD)
        return uvcci_fail(c->m, bad, "%s: stages exchange tensors in FWD and BWD only", c->label);
    if (send == fwd ? c->e->stage + 1 == c->e->stages : c->e->stage == 0)
        return uvcci_fail(c->m, bad, "%s: stage %u of %u has no neighbour on that side", c->label,
                          c->e->stage, c->e->stages);
    for (uint32_t i = 0; i < c->e->user_count; i++) {
        const uvcc_op_desc *o = &c->p->user_ops[c->e->user_first + i].desc;
        if (o != c->d && o->opcode == c->d->opcode && o->phase == c->d->phase && o->mb == c->d->mb)
            return uvcci_fail(c->m, bad, "%s: a microbatch's phase has one op of this kind",
                              c->label);
    }
    return 0;
}

/* REDUCE_SCATTER and ALL_GATHER: the whole has as many elements as the group's slices together. */
static int check_group(const op_check *c) {
    const uvcc_tensor_desc *x = c->in[0], *z = c->out[0];
    const bool sum = c->d->opcode == UVCC_OP_REDUCE_SCATTER;
    const uvcc_tensor_desc *whole = sum ? x : z, *slice = sum ? z : x;
    const uint32_t size = uvcci_group_size(c->p, c->d->group);
    const unsigned bits = x->bits + (sum ? uvcci_ceil_log2(size) : 0);
    if ((uint64_t)slice->rows * slice->cols * size != (uint64_t)whole->rows * whole->cols)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                          "%s: %s is %u x %u; %u slices of %s, %u x %u, do not make that", c->label,
                          whole->name, whole->rows, whole->cols, size, slice->name, slice->rows,
                          slice->cols);
    if (x->sharing != z->sharing)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s: %s and %s are not shared in the same way",
                          c->label, x->name, z->name);
    int err = want_scale(c, z, x->scale);
    if (err == 0)
        err = want_bits(c, bits, "bits + log2(group)");
    if (err == 0 && z->bits < bits)
        err = uvcci_fail(c->m, UVCC_ERR_BOUND, "%s: %s declares %u bits, but needs %u", c->label,
                         z->name, z->bits, bits);
    return err;
}

static int check_meaning(const op_check *c) {
    switch (c->d->opcode) {
    case UVCC_OP_GEMM_SS:
    case UVCC_OP_GEMM_PART:
        return check_gemm(c);
    case UVCC_OP_RESHARE:
        return check_reshare(c);
    case UVCC_OP_ELEM_MUL:
    case UVCC_OP_ROW_MUL:
    case UVCC_OP_COL_MUL:
        return check_elem_mul(c);
    case UVCC_OP_ROW_DOT:
        return check_row_dot(c);
    case UVCC_OP_BIAS_ADD:
    case UVCC_OP_ADD:
    case UVCC_OP_SUB:
    case UVCC_OP_ROW_ADD:
    case UVCC_OP_ROW_SUB:
    case UVCC_OP_ROW_RSUB:
        return check_sum(c);
    case UVCC_OP_REDUCE_BIAS_GRAD:
    case UVCC_OP_ROW_SUM:
        return check_reduce(c);
    case UVCC_OP_SCALE_PUBLIC:
    case UVCC_OP_ADD_PUBLIC:
        return check_public(c);
    case UVCC_OP_CAUSAL_MASK:
        return check_causal_mask(c);
    case UVCC_OP_RELU:
        return check_relu(c);
    case UVCC_OP_TRUNCATE:
    case UVCC_OP_SHIFT_LEFT:
        return check_shift(c);
    case UVCC_OP_FUNCTION:
        return check_function(c);
    case UVCC_OP_SEND_PP:
    case UVCC_OP_RECV_PP:
        return check_neighbour(c);
    case UVCC_OP_REDUCE_SCATTER:
    case UVCC_OP_ALL_GATHER:
        return check_group(c);
    case UVCC_OP_SKS_START:
        return check_sks(c);
    default:
        return 0; /* SKS_GEMM_CHECK: a reader; liveness.c finds its START */
    }
}

/* May an output of this op stand in the buffer of an input, element on element? */
static bool works_in_place(uint16_t opcode) {
    switch (opcode) {
    case UVCC_OP_BIAS_ADD:
    case UVCC_OP_ADD:
    case UVCC_OP_SUB:
    case UVCC_OP_SHIFT_LEFT:
    case UVCC_OP_TRUNCATE:
    case UVCC_OP_ELEM_MUL:
    case UVCC_OP_ROW_ADD:
    case UVCC_OP_ROW_SUB:
    case UVCC_OP_ROW_RSUB:
    case UVCC_OP_ROW_MUL:
    case UVCC_OP_COL_MUL:
    case UVCC_OP_SCALE_PUBLIC:
    case UVCC_OP_ADD_PUBLIC:
    case UVCC_OP_CAUSAL_MASK:
    case UVCC_OP_GEMM_PART: /* on its third input: the others are replicated */
        return true;
    default:
        return false;
    }
}

static int check_aliases(const uvcc_program *p, const op_check *c) {
    for (uint32_t o = 0; o < c->d->out_count; o++) {
        const uvcci_tensor *z = &p->tensors[c->d->out[o]];
        for (uint32_t i = 0; i < c->d->in_count; i++) {
            const uvcci_tensor *x = &p->tensors[c->d->in[i]];
            if (x->buffer == z->buffer &&
                !(works_in_place(c->d->opcode) && same_shape(&x->desc, &z->desc)))
                return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                                  "%s cannot write %s in the buffer of its input %s; give it one "
                                  "of its own",
                                  c->label, z->name, x->name);
        }
        for (uint32_t o2 = 0; o2 < o; o2++) {
            const uvcci_tensor *y = &p->tensors[c->d->out[o2]];
            if (y->buffer == z->buffer)
                return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                                  "%s writes %s and %s in one buffer; give each its own", c->label,
                                  y->name, z->name);
        }
    }
    return 0;
}

static int check_tensors_of(const uvcc_program *p, op_check *c) {
    for (uint32_t i = 0; i < c->d->in_count; i++) {
        if (c->d->in[i] >= p->tensor_count)
            return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s reads tensor %u, which does not exist",
                              c->label, c->d->in[i]);
        c->in[i] = &p->tensors[c->d->in[i]].desc;
    }
    for (uint32_t i = 0; i < c->d->out_count; i++) {
        if (c->d->out[i] >= p->tensor_count)
            return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s writes tensor %u, which does not exist",
                              c->label, c->d->out[i]);
        c->out[i] = &p->tensors[c->d->out[i]].desc;
    }
    return 0;
}

/* Which sharing an op takes and gives. */
enum { ANY_SHARING = 1 << UVCC_REPLICATED | 1 << UVCC_ADDITIVE };

static unsigned sharings_in(const uvcc_op_desc *d, unsigned i) {
    switch (d->opcode) {
    case UVCC_OP_GEMM_PART:
        return i == 2 ? 1 << UVCC_ADDITIVE : 1 << UVCC_REPLICATED;
    case UVCC_OP_RESHARE:
        return 1 << UVCC_ADDITIVE;
    case UVCC_OP_TRUNCATE:
    case UVCC_OP_REDUCE_SCATTER:
    case UVCC_OP_ALL_GATHER:
        return ANY_SHARING;
    default:
        return 1 << UVCC_REPLICATED;
    }
}

static unsigned sharings_out(const uvcc_op_desc *d) {
    switch (d->opcode) {
    case UVCC_OP_GEMM_PART:
        return 1 << UVCC_ADDITIVE;
    case UVCC_OP_REDUCE_SCATTER:
    case UVCC_OP_ALL_GATHER:
        return ANY_SHARING;
    default:
        return 1 << UVCC_REPLICATED;
    }
}

static int check_sharing(const op_check *c) {
    const int bad = UVCC_ERR_PROGRAM;
    for (unsigned i = 0; i < c->d->in_count; i++) {
        if (sharings_in(c->d, i) >> c->in[i]->sharing & 1)
            continue;
        if (c->in[i]->sharing == UVCC_ADDITIVE)
            return uvcci_fail(c->m, bad,
                              "%s cannot read %s, which is additive; RESHARE or TRUNCATE it first",
                              c->label, c->in[i]->name);
        return uvcci_fail(c->m, bad, "%s reads %s as additive, but it is replicated", c->label,
                          c->in[i]->name);
    }
    for (unsigned i = 0; i < c->d->out_count; i++) {
        if (sharings_out(c->d) >> c->out[i]->sharing & 1)
            continue;
        return uvcci_fail(c->m, bad, "%s writes %s, which must be %s", c->label, c->out[i]->name,
                          c->out[i]->sharing == UVCC_ADDITIVE ? "replicated" : "additive");
    }
    return 0;
}

static bool uses_shift(uint16_t opcode) {
    switch (opcode) {
    case UVCC_OP_GEMM_SS:
    case UVCC_OP_ELEM_MUL:
    case UVCC_OP_ROW_MUL:
    case UVCC_OP_COL_MUL:
    case UVCC_OP_ROW_DOT:
    case UVCC_OP_TRUNCATE:
    case UVCC_OP_SHIFT_LEFT:
    case UVCC_OP_ADD:
    case UVCC_OP_SUB:
    case UVCC_OP_SCALE_PUBLIC:
        return true;
    default:
        return false;
    }
}

/* Fields that an opcode does not use must be 0, so that equal programs have equal hashes. */
static int check_fields(const op_check *c) {
    const uvcc_op_desc *d = c->d;
    const int bad = UVCC_ERR_PROGRAM;
    const bool gemm = d->opcode == UVCC_OP_GEMM_SS || d->opcode == UVCC_OP_GEMM_PART;
    const bool product = gemm || d->opcode == UVCC_OP_SKS_START;
    unsigned flags = product ? UVCC_OP_TRANS_A | UVCC_OP_TRANS_B : 0;
    if (gemm && d->heads != 0)
        flags |= UVCC_OP_STACKED_A | UVCC_OP_STACKED_B | UVCC_OP_STACKED_C;
    if (d->opcode == UVCC_OP_RELU)
        flags = UVCC_OP_CIRCUIT;
    if (uvcci_is_product(d->opcode))
        flags |= UVCC_OP_BEAVER;
    if (uvcci_is_elem_mul(d->opcode))
        flags |= UVCC_OP_WITHIN;
    if (!gemm && (d->heads != 0 || d->row_groups != 0))
        return uvcci_fail(c->m, bad, "%s: heads and row groups are not for this opcode", c->label);
    if ((d->heads == 0) != (d->row_groups == 0))
        return uvcci_fail(c->m, bad, "%s: %u heads and %u row groups; both or neither are 0",
                          c->label, d->heads, d->row_groups);
    if (d->flags & ~flags)
        return uvcci_fail(c->m, bad, "%s: flags 0x%x are not for this opcode", c->label, d->flags);
    if (d->shift > UVCCI_MAX_BITS || (d->shift != 0 && !uses_shift(d->opcode)))
        return uvcci_fail(c->m, bad, "%s: a shift by %u bits is not possible here", c->label,
                          d->shift);
    if (d->truncation > UVCC_TRUNC_EXACT_DCF)
        return uvcci_fail(c->m, bad, "%s: unknown truncation %u", c->label, d->truncation);
    if (d->truncation == UVCC_TRUNC_EXACT_DCF && !uvcci_truncates(d))
        return uvcci_fail(c->m, bad, "%s truncates nothing, so it has no use for a DCF", c->label);
    if (d->lift > UVCC_LIFT_EXCHANGE)
        return uvcci_fail(c->m, bad, "%s: unknown lift %u", c->label, d->lift);
    if (d->opcode == UVCC_OP_FUNCTION && d->lift == UVCC_LIFT_SEQUENTIAL)
        return uvcci_fail(c->m, bad, "%s: a function lifts in one round; no sequential lift here",
                          c->label);
    if (d->opcode != UVCC_OP_FUNCTION && d->function != 0)
        return uvcci_fail(c->m, bad, "%s: a function is not for this opcode", c->label);
    if (d->opcode == UVCC_OP_FUNCTION && d->function >= c->p->function_count)
        return uvcci_fail(c->m, bad, "%s runs function %u, which does not exist", c->label,
                          d->function);
    if (d->constant != 0 && !uvcci_uses_constant(d))
        return uvcci_fail(c->m, bad, "%s: a constant is not for this opcode", c->label);
    const bool grouped = d->opcode == UVCC_OP_REDUCE_SCATTER || d->opcode == UVCC_OP_ALL_GATHER;
    if (d->group > (grouped ? UVCC_GROUP_STAGE : 0))
        return uvcci_fail(c->m, bad, "%s: group %u is not for this opcode", c->label, d->group);
    return 0;
}

/* before: the entry's op before this one, or NULL. */
static int check_op(const uvcc_program *p, const uvcci_entry *e, const uvcci_op *op,
                    const uvcci_op *before, const uvcci_message *m) {
    char label[UVCCI_LABEL_BYTES], other[UVCCI_LABEL_BYTES];
    const uvcc_op_desc *d = &op->desc;
    op_check c = {.p = p, .e = e, .d = d, .label = uvcci_op_label(op, label), .m = m};
    const int bad = UVCC_ERR_PROGRAM;
    const uvcci_opcode *row = uvcci_opcode_find(d->opcode);
    if (row == NULL)
        return uvcci_fail(m, bad, "%s: opcode %u is unknown; see opcodes.def", label, d->opcode);
    if (d->opcode == UVCC_OP_INPUT || d->opcode == UVCC_OP_OUTPUT)
        return uvcci_fail(m, bad, "%s: use uvcc_program_input and uvcc_program_output", label);
    if ((row->n_in >= 0 && d->in_count != row->n_in) ||
        (row->n_out >= 0 && d->out_count != row->n_out))
        return uvcci_fail(m, bad, "%s has %u inputs and %u outputs; it takes %d and %d (-1: any)",
                          label, d->in_count, d->out_count, row->n_in, row->n_out);
    if (d->phase > UVCC_UPD)
        return uvcci_fail(m, bad, "%s: unknown phase %u", label, d->phase);
    if (d->k >> 8 == UVCCI_IO_BLOCK)
        return uvcci_fail(m, bad, "%s: block %u of k is for inputs and outputs", label,
                          UVCCI_IO_BLOCK);
    if (d->phase == UVCC_UPD && d->mb != 0)
        return uvcci_fail(m, bad, "%s: an UPD op is of no microbatch but 0", label);
    if (before != NULL && uvcci_op_key(d) <= uvcci_op_key(&before->desc))
        return uvcci_fail(m, bad, "%s does not come after %s; (phase, mb, k) must rise", label,
                          uvcci_op_label(before, other));
    int err = check_tensors_of(p, &c);
    if (err == 0)
        err = check_fields(&c);
    if (err == 0)
        err = check_sharing(&c);
    if (err == 0)
        err = check_meaning(&c);
    if (err == 0)
        err = check_aliases(p, &c);
    return err;
}

static int check_io(const uvcc_program *p, const uvcci_entry *e, const char *what,
                    const uvcc_io_desc *io, uint32_t count, const uvcci_message *m) {
    for (uint32_t i = 0; i < count; i++) {
        if (io[i].tensor >= p->tensor_count)
            return uvcci_fail(m, UVCC_ERR_PROGRAM,
                              "entry %s: %s %u is tensor %u, which does not exist", e->name, what,
                              io[i].id, io[i].tensor);
        if (p->tensors[io[i].tensor].desc.sharing == UVCC_ADDITIVE)
            return uvcci_fail(m, UVCC_ERR_PROGRAM,
                              "entry %s: %s %u is %s, which is additive; inputs and outputs are "
                              "replicated",
                              e->name, what, io[i].id, p->tensors[io[i].tensor].name);
        for (uint32_t j = 0; j < i; j++)
            if (io[i].id == io[j].id || io[i].tensor == io[j].tensor)
                return uvcci_fail(m, UVCC_ERR_PROGRAM,
                                  "entry %s: %s %u (%s) comes twice; ids and tensors are unique",
                                  e->name, what, io[i].id, p->tensors[io[i].tensor].name);
    }
    return 0;
}

/* STEP names an entry by its inputs' ids and shapes, so no two entries may have the same. */
static bool same_inputs(const uvcc_program *p, const uvcci_entry *a, const uvcci_entry *b) {
    if (a->input_count != b->input_count)
        return false;
    for (uint32_t i = 0; i < a->input_count; i++) {
        const uvcc_io_desc *x = &p->inputs[a->input_first + i];
        bool found = false;
        for (uint32_t j = 0; j < b->input_count && !found; j++) {
            const uvcc_io_desc *y = &p->inputs[b->input_first + j];
            found = x->id == y->id &&
                    same_shape(&p->tensors[x->tensor].desc, &p->tensors[y->tensor].desc);
        }
        if (!found)
            return false;
    }
    return true;
}

/* Entries without inputs, as stages have that are given nothing, are told apart by the op table. */
static bool same_numbers(const uvcc_program *p, const uvcci_entry *a, const uvcci_entry *b) {
    bool same = a->user_count == b->user_count && a->output_count == b->output_count;
    for (uint32_t i = 0; i < a->user_count && same; i++) {
        const uvcc_op_desc *x = &p->user_ops[a->user_first + i].desc,
                           *y = &p->user_ops[b->user_first + i].desc;
        same = x->phase == y->phase && x->mb == y->mb && x->k == y->k;
    }
    return same;
}

/* The op of the entry that comes last in (phase, mb, k) among those of a phase; NULL: none. */
static const uvcci_op *last_of(const uvcc_program *p, const uvcci_entry *e, uint8_t phase) {
    const uvcci_op *last = NULL;
    for (uint32_t i = 0; i < e->user_count; i++)
        if (p->user_ops[e->user_first + i].desc.phase == phase)
            last = &p->user_ops[e->user_first + i];
    return last;
}

static bool has_input(const uvcc_program *p, const uvcci_entry *e, uint32_t mb) {
    for (uint32_t i = 0; i < e->input_count; i++)
        if (p->inputs[e->input_first + i].mb == mb)
            return true;
    return false;
}

/* Slots of several microbatches are all filled: each has FWD ops or inputs, and BWD ops if any has.
 */
static int check_microbatches(const uvcc_program *p, const uvcci_entry *e, const uvcci_message *m) {
    static const char *const wants[] = {"FWD op or input", "BWD op"};
    const uint32_t count = uvcci_microbatches_of(p, e);
    char label[UVCCI_LABEL_BYTES];
    uint32_t at = 0;
    for (uint8_t phase = UVCC_FWD; phase <= UVCC_BWD && count > 1; phase++) {
        const uvcci_op *last = last_of(p, e, phase);
        if (phase == UVCC_BWD && last == NULL)
            break;
        for (uint32_t mb = 0; mb < count; mb++) {
            bool found = phase == UVCC_FWD && has_input(p, e, mb);
            for (; at < e->user_count; at++) {
                const uvcc_op_desc *d = &p->user_ops[e->user_first + at].desc;
                if (d->phase != phase || d->mb > mb)
                    break;
                found |= d->mb == mb;
            }
            if (!found)
                return uvcci_fail(m, UVCC_ERR_PROGRAM,
                                  "entry %s has %u microbatches, but microbatch %u has no %s%s%s",
                                  e->name, count, mb, wants[phase],
                                  last != NULL ? "; another one has " : "",
                                  last != NULL ? uvcci_op_label(last, label) : "");
        }
    }
    return 0;
}

int uvcci_check_entry(const uvcc_program *p, uint32_t index, const uvcci_message *m) {
    const uvcci_entry *e = &p->entries[index];
    int err = check_io(p, e, "input", uvcci_io_from(p->inputs, e->input_first), e->input_count, m);
    if (err == 0)
        err = check_io(p, e, "output", uvcci_io_from(p->outputs, e->output_first), e->output_count,
                       m);
    for (uint32_t i = 0; i < e->user_count && err == 0; i++) {
        const uvcci_op *op = &p->user_ops[e->user_first + i];
        err = check_op(p, e, op, i == 0 ? NULL : op - 1, m);
    }
    if (err == 0 && e->stages != 1 && e->stages != p->stages)
        err = uvcci_fail(m, UVCC_ERR_PROGRAM, "entry %s is of %u stages, the job has %u", e->name,
                         e->stages, p->stages);
    if (err == 0)
        err = check_microbatches(p, e, m);
    for (uint32_t i = 0; i < index && err == 0; i++) {
        const uvcci_entry *other = &p->entries[i];
        if (strcmp(other->name, e->name) == 0)
            err = uvcci_fail(m, UVCC_ERR_PROGRAM, "two entries are called %s; names are unique",
                             e->name);
        else if (same_inputs(p, e, other) && (e->input_count != 0 || same_numbers(p, e, other)))
            err = uvcci_fail(m, UVCC_ERR_PROGRAM,
                             "entries %s and %s have inputs of the same ids and shapes; a step "
                             "could not tell them apart",
                             other->name, e->name);
    }
    return err;
}

/* What an additive tensor holds is no more than its products together can be: |A| |B| K < 2^a 2^b K
 * each. So a sum over microbatches, each of which adds to the same tensor, has its bits declared
 * once.
 */
int uvcci_check_sums(uvcc_program *p, const uvcci_entry *e, const uvcci_message *m) {
    char label[UVCCI_LABEL_BYTES];
    for (uint32_t i = 0; i < p->tensor_count; i++)
        p->tensors[i].sum_max = 0;
    for (uint32_t i = 0; i < e->op_count; i++) {
        const uvcci_op *op = &e->ops[i];
        const uvcc_op_desc *d = &op->desc;
        if (d->out_count == 0)
            continue;
        uvcci_tensor *z = &p->tensors[d->out[0]];
        const uint64_t limit = 1ull << z->desc.bits;
        if (d->opcode != UVCC_OP_GEMM_PART) {
            z->sum_max = limit;
            continue;
        }
        const uvcc_tensor_desc *a = &p->tensors[d->in[0]].desc, *b = &p->tensors[d->in[1]].desc;
        const uint64_t product = uvcci_gemm_depth(d, a) << (a->bits + b->bits);
        z->sum_max = product + (d->in_count == 3 ? p->tensors[d->in[2]].sum_max : 0);
        if (z->sum_max > limit)
            return uvcci_fail(m, UVCC_ERR_BOUND,
                              "%s: %s declares %u bits; the sum of the products in it needs %u",
                              uvcci_op_label(op, label), z->name, z->desc.bits,
                              uvcci_ceil_log2(z->sum_max));
    }
    return 0;
}
