/* SPDX-License-Identifier: Apache-2.0 */
/* nonlinear_emit.c - functions and compositions as ops of a program.
 *
 * An emission keeps its first error and does nothing after it, so a composition reads as a list.
 * Values between ops are temporary tensors; equal functions are registered once. */
#include "exec/model/nonlinear.h"
#include "exec/program/program.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- emission ---- */

typedef struct emission {
    uvcc_emit *e;
    uvcc_nonlinear_options o; /* as given: 0 is the default */
    int err;
} emission;

static uvcc_tensor_desc desc(const emission *m, uint32_t tensor) {
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(m->e->program, tensor);
    return d != NULL ? *d : (uvcc_tensor_desc){.rows = 1, .cols = 1, .bits = 1};
}

static void note(emission *m, int result) {
    assert(m->err <= 0);
    if (m->err == 0 && result < 0)
        m->err = result;
}

static uint32_t temporary(emission *m, uint32_t rows, uint32_t cols, unsigned bits,
                          unsigned scale) {
    char name[64];
    if (scale > UVCCI_MAX_BITS) /* no tensor has that: the options ask for it */
        note(m, UVCC_ERR_BOUND);
    snprintf(name, sizeof name, "%s.%u", m->e->prefix, m->e->temporaries++);
    const uvcc_tensor_desc d = {
        .name = name,
        .rows = rows,
        .cols = cols,
        .bits = (uint8_t)(bits < 63 ? bits : 63),
        .scale = (uint8_t)scale,
        .lifetime = UVCC_TRANSIENT,
        .in_buffer_of = UVCC_NO_TENSOR,
    };
    const int index = m->err == 0 ? uvcc_program_tensor(m->e->program, &d) : 0;
    note(m, index);
    return index >= 0 ? (uint32_t)index : 0;
}

static uint32_t temporary_like(emission *m, const uvcc_tensor_desc *d) {
    return temporary(m, d->rows, d->cols, d->bits, d->scale);
}

static void put(emission *m, uvcc_op_desc op) {
    assert(op.in_count <= UVCC_OP_MAX_IN && op.out_count <= UVCC_OP_MAX_OUT);
    op.phase = m->e->phase;
    op.mb = m->e->mb;
    op.k = m->e->k;
    if (m->err != 0)
        return;
    note(m, uvcc_program_op(m->e->program, &op));
    m->e->k++;
}

static uint8_t truncation(const emission *m) {
    return !m->o.exact ? UVCC_TRUNC_STOCHASTIC : m->o.dcf ? UVCC_TRUNC_EXACT_DCF : UVCC_TRUNC_EXACT;
}

/* A local op. */
static void local(emission *m, uint16_t opcode, uint32_t x, uint32_t y, uint32_t z, uint8_t shift,
                  int64_t constant) {
    put(m, (uvcc_op_desc){.opcode = opcode,
                          .in_count = y != UVCC_NO_TENSOR ? 2 : 1,
                          .out_count = 1,
                          .in = {x, y},
                          .out = {z},
                          .shift = shift,
                          .constant = constant});
}

/* A product to tensor z, whose scale tells how much is truncated. fraction: bits of the constant.
 */
static void product(emission *m, uint16_t opcode, uint32_t x, uint32_t y, uint32_t z,
                    unsigned fraction, int64_t constant) {
    const int shift = desc(m, x).scale + desc(m, y).scale + (int)fraction - desc(m, z).scale;
    if (shift < 0 || shift > 62) {
        note(m, UVCC_ERR_USAGE);
        return;
    }
    put(m, (uvcc_op_desc){.opcode = opcode,
                          .in_count = 2,
                          .out_count = 1,
                          .in = {x, y},
                          .out = {z},
                          .shift = (uint8_t)shift,
                          .truncation = shift != 0 ? truncation(m) : 0,
                          .constant = constant});
}

static void truncate_to(emission *m, uint32_t x, uint32_t z, unsigned shift, uint8_t mode) {
    put(m, (uvcc_op_desc){.opcode = UVCC_OP_TRUNCATE,
                          .in_count = 1,
                          .out_count = 1,
                          .in = {x},
                          .out = {z},
                          .shift = (uint8_t)shift,
                          .truncation = mode});
}

/* ---- functions ---- */

static bool same_bytes(const void *a, const void *b, size_t bytes) {
    return bytes == 0 || memcmp(a, b, bytes) == 0;
}

/* The builder sets every field of an instruction as the program keeps it, so instructions can be
 * compared. */
static bool same_step(const uvcc_fn_instr *s, const uvcc_fn_instr *t) {
    return s->kind == t->kind && s->a == t->a && s->b == t->b && s->c == t->c &&
           s->bits == t->bits && s->shift == t->shift && s->io == t->io && s->first == t->first &&
           s->constant == t->constant && s->entry_count == t->entry_count &&
           s->word_count == t->word_count &&
           same_bytes(s->entries, t->entries, s->entry_count * sizeof *s->entries) &&
           same_bytes(s->words, t->words, s->word_count * sizeof *s->words);
}

static bool same_function(const uvcc_function *f, const uvcc_function *g) {
    bool same =
        f->inputs == g->inputs && f->outputs == g->outputs && f->instr_count == g->instr_count;
    for (unsigned i = 0; i < f->instr_count && same; i++)
        same = same_step(&f->instrs[i], &g->instrs[i]);
    return same;
}

/* Index of the function in the program, which gets it if it has none like it. */
static int registered(uvcc_program *p, const uvcc_function *f) {
    const uvcc_function *g;
    for (uint32_t i = 0; (g = uvcc_program_function_at(p, i)) != NULL; i++)
        if (same_function(f, g))
            return (int)i;
    return uvcc_program_function(p, f);
}

/* ---- what a program knows of functions: tables are slow to make, ops of one function many ---- */

/* All options that a function can depend on. */
static void recipe_key(uvcc_nonlinear what, const uvcc_nonlinear_options *o,
                       uint8_t key[UVCCI_RECIPE_KEY_BYTES]) {
    const uint8_t small[] = {
        (uint8_t)what, o->scale,  o->in_bits, o->index_bits, o->exact,
        o->dcf,        o->causal, o->shallow, o->out_scale,  o->saved,
        o->derivative, o->plain,  o->loss,    o->raise,      o->headroom,
    };
    const double large[] = {o->gain, o->epsilon, o->limit};
    _Static_assert(sizeof small + sizeof o->cols + sizeof large <= UVCCI_RECIPE_KEY_BYTES, "room");
    memset(key, 0, UVCCI_RECIPE_KEY_BYTES);
    memcpy(key, small, sizeof small);
    memcpy(key + sizeof small, &o->cols, sizeof o->cols);
    memcpy(key + sizeof small + sizeof o->cols, large, sizeof large);
}

/* uvcci_nonlinear_shape() with complete options. */
static int shape_in(uvcc_program *p, uvcc_nonlinear what, const uvcc_nonlinear_options *o,
                    uvcci_nl_shape *s) {
    uint8_t key[UVCCI_RECIPE_KEY_BYTES];
    if (p == NULL)
        return uvcci_nonlinear_shape(what, o, s);
    recipe_key(what, o, key);
    uvcci_recipe *r = uvcci_recipe_of(p, key);
    if (r == NULL)
        return UVCC_ERR_NOMEM;
    if (r->outputs == 0) {
        const int err = uvcci_nonlinear_shape(what, o, s);
        if (err != 0)
            return err;
        memcpy(r->bits, s->bits, s->outputs);
        memcpy(r->scale, s->scale, s->outputs);
        r->outputs = s->outputs;
    }
    s->outputs = r->outputs;
    memcpy(s->bits, r->bits, r->outputs);
    memcpy(s->scale, r->scale, r->outputs);
    return 0;
}

/* Index of the function, which is built if nothing was by this recipe. */
static int function_in(uvcc_program *p, uvcc_nonlinear what, const uvcc_nonlinear_options *o,
                       const uvcc_allocator *al) {
    uint8_t key[UVCCI_RECIPE_KEY_BYTES];
    uvcc_nonlinear_fn fn;
    recipe_key(what, o, key);
    uvcci_recipe *r = uvcci_recipe_of(p, key);
    if (r == NULL)
        return UVCC_ERR_NOMEM;
    if (r->function != UVCCI_NO_FUNCTION)
        return (int)r->function;
    const int err = uvcc_nonlinear_build(&fn, what, o, al);
    if (err != 0)
        return err;
    const int index = registered(p, &fn.function);
    if (index >= 0)
        r->function = (uint32_t)index;
    uvcc_nonlinear_free(&fn);
    return index;
}

/* The op FUNCTION on in[] with complete options. */
static void function(emission *m, uvcc_nonlinear what, const uvcc_nonlinear_options *o,
                     const uint32_t *in, const uint32_t *out) {
    if (m->err != 0)
        return;
    const int index = function_in(m->e->program, what, o, m->e->alloc);
    note(m, index);
    if (m->err != 0)
        return;
    const uvcc_function *f = uvcc_program_function_at(m->e->program, (uint32_t)index);
    uvcc_op_desc op = {
        .name = uvcc_nonlinear_at(what)->name,
        .opcode = UVCC_OP_FUNCTION,
        .in_count = f->inputs,
        .out_count = f->outputs,
        .function = (uint16_t)index,
    };
    memcpy(op.in, in, op.in_count * sizeof *in);
    memcpy(op.out, out, op.out_count * sizeof *out);
    put(m, op);
}

/* Complete options for input tensor x. */
static uvcc_nonlinear_options options_for(emission *m, uvcc_nonlinear what, uint32_t x) {
    const uvcc_tensor_desc d = desc(m, x);
    uvcc_nonlinear_options o = m->o;
    note(m, o.raise <= d.scale ? 0 : UVCC_ERR_USAGE);
    o.scale = (uint8_t)(d.scale - o.raise);
    o.in_bits = d.bits;
    o.cols = d.cols;
    note(m, uvcci_nonlinear_options(what, &o, &o));
    return o;
}

/* Anything but a BLOCK. */
static void emit_function(emission *m, uvcc_nonlinear what, uint32_t x, const uint32_t *out) {
    const uvcc_nonlinear_options o = options_for(m, what, x);
    function(m, what, &o, &x, out);
}

/* ---- compositions ---- */

static unsigned ceil_log2(uint32_t n) {
    unsigned bits = 0;
    while (bits < 32 && (1ull << bits) < n)
        bits++;
    return bits;
}

static unsigned bits_of(uint64_t v) {
    unsigned n = 1;
    while (n < 64 && v >> n != 0)
        n++;
    return n;
}

enum { EXP_ZERO_FROM = 14, LOSS_SCALE = 18 };

int64_t uvcci_nonlinear_mask(const uvcc_tensor_desc *x, uint8_t *bits) {
    const uint64_t far = (1ull << x->bits) + ((uint64_t)EXP_ZERO_FROM << x->scale);
    *bits = (uint8_t)bits_of(far);
    return -(int64_t)far;
}

static uint32_t mask_causally(emission *m, uint32_t x) {
    const uvcc_tensor_desc d = desc(m, x);
    uint8_t bits;
    const int64_t far = uvcci_nonlinear_mask(&d, &bits);
    const uint32_t masked = temporary(m, d.rows, d.cols, bits, d.scale);
    local(m, UVCC_OP_CAUSAL_MASK, x, UVCC_NO_TENSOR, masked, 0, far);
    return masked;
}

/* Columns that a softmax has beside its result, where losses are wanted. */
typedef struct row_values {
    uint32_t max, ln; /* about the greatest of x; ln(sum of exp(x - max)) */
} row_values;

/* One function, with the columns that losses need; or, if that is what the options ask for, with
 * those that make a row again, which are out[1] and out[2]. */
static row_values emit_softmax(emission *m, uint32_t x, const uint32_t *out, bool loss) {
    if (m->o.causal)
        x = mask_causally(m, x);
    const uvcc_tensor_desc d = desc(m, x);
    uvcc_nonlinear_options o = options_for(m, UVCC_NL_SOFTMAX, x);
    uvcci_nl_shape s = {0};
    uint32_t outs[UVCCI_NL_OUT_MAX] = {out[0]};
    o.out_scale = desc(m, out[0]).scale;
    o.loss = loss;
    note(m, shape_in(m->e->program, UVCC_NL_SOFTMAX, &o, &s));
    for (unsigned i = 1; i < s.outputs; i++)
        outs[i] = o.saved ? out[i] : temporary(m, d.rows, 1, s.bits[i], s.scale[i]);
    function(m, UVCC_NL_SOFTMAX, &o, &x, outs);
    return (row_values){outs[1], outs[2]};
}

static uint32_t finer(emission *m, uint32_t x, unsigned scale) {
    const uvcc_tensor_desc d = desc(m, x);
    if (scale <= d.scale)
        return x;
    const uint32_t y = temporary(m, d.rows, d.cols, d.bits + (scale - d.scale), scale);
    local(m, UVCC_OP_SHIFT_LEFT, x, UVCC_NO_TENSOR, y, (uint8_t)(scale - d.scale), 0);
    return y;
}

/* ln(sum of exp(x - max)) + max - x y, y the one-hot. */
static void emit_losses(emission *m, uint32_t x, uint32_t y, const row_values *row, uint32_t out) {
    const uvcc_tensor_desc d = desc(m, x);
    const uint8_t scale = desc(m, out).scale;
    const uint32_t target = temporary(m, d.rows, 1, d.bits, d.scale);
    const uint8_t bits = desc(m, row->max).bits;
    const uint32_t below = temporary(m, d.rows, 1, (bits > d.bits ? bits : d.bits) + 1u, d.scale);
    product(m, UVCC_OP_ROW_DOT, x, y, target, 0, 1);
    local(m, UVCC_OP_SUB, row->max, target, below, 0, 0);
    const uint32_t fine = finer(m, below, scale), ln = finer(m, row->ln, scale);
    local(m, UVCC_OP_ADD, ln, fine, out, 0, 0);
}

static void emit_cross_entropy(emission *m, const uint32_t *in, const uint32_t *out) {
    const uvcc_tensor_desc z = desc(m, out[0]);
    const uint32_t p = temporary(m, z.rows, z.cols, z.scale + 1u, z.scale);
    m->o.saved = m->o.headroom = false;
    const row_values row = emit_softmax(m, in[0], &p, m->o.loss);
    local(m, UVCC_OP_SUB, p, in[1], out[0], 0, 0);
    if (m->o.loss)
        emit_losses(m, in[0], in[1], &row, out[1]);
}

/* x - mean of its row. 1 / cols has so many bits that its error is below a unit of the mean. */
static uint32_t centre(emission *m, uint32_t x) {
    const uvcc_tensor_desc d = desc(m, x);
    const unsigned e = ceil_log2(d.cols), sum_bits = d.bits + e;
    const unsigned fine = sum_bits < 37 ? 24 : 61 - (sum_bits < 61 ? sum_bits : 60);
    const unsigned fraction = fine + e;
    const int64_t inverse = (int64_t)(((1ull << fraction) + d.cols / 2) / d.cols);
    const uint32_t sum = temporary(m, d.rows, 1, sum_bits, d.scale);
    const uint32_t scaled =
        temporary(m, d.rows, 1, sum_bits + bits_of((uint64_t)inverse), d.scale + fraction);
    const uint32_t mean = temporary(m, d.rows, 1, d.bits + 1u, d.scale);
    const uint32_t centred = temporary(m, d.rows, d.cols, d.bits + 1u, d.scale);
    local(m, UVCC_OP_ROW_SUM, x, UVCC_NO_TENSOR, sum, 0, 0);
    local(m, UVCC_OP_SCALE_PUBLIC, sum, UVCC_NO_TENSOR, scaled, (uint8_t)fraction, inverse);
    truncate_to(m, scaled, mean, fraction, truncation(m));
    local(m, UVCC_OP_ROW_SUB, x, mean, centred, 0, 0);
    return centred;
}

/* Bits of x / sqrt(mean(x^2)), which is at most sqrt(cols). */
static unsigned normed_bits(const uvcc_tensor_desc *x) {
    return x->scale + (ceil_log2(x->cols) + 1) / 2 + 2u;
}

enum { MEAN_SCALE_MAX = 24, MEAN_BITS_MAX = 38, NORM_LOW = 12 };

/* sum(x^2) / 2^e, 2^e the power of 2 from cols on; false if x has too many bits. */
static bool mean_square(const uvcc_tensor_desc *x, uvcc_tensor_desc *out) {
    const int spare = 2 * (x->bits - x->scale); /* integer bits of a square */
    const int scale =
        spare + MEAN_SCALE_MAX <= MEAN_BITS_MAX ? MEAN_SCALE_MAX : MEAN_BITS_MAX - spare;
    *out = (uvcc_tensor_desc){
        .rows = x->rows, .cols = 1, .bits = (uint8_t)(scale + spare), .scale = (uint8_t)scale};
    return scale >= NORM_LOW && scale + spare >= 1;
}

/* What the normalisation multiplies a row by: bits and scale as the table gives them. */
static int inverse_desc(uvcc_program *p, const uvcc_nonlinear_options *o, const uvcc_tensor_desc *x,
                        uvcc_tensor_desc *out) {
    uvcc_nonlinear_options rsqrt = *o;
    uvcc_tensor_desc v;
    uvcci_nl_shape s = {0};
    if (!mean_square(x, &v))
        return UVCC_ERR_USAGE;
    rsqrt.scale = v.scale;
    rsqrt.in_bits = v.bits + (o->epsilon != 0);
    rsqrt.index_bits = 0;
    int err = uvcci_nonlinear_options(UVCC_NL_RSQRT, &rsqrt, &rsqrt);
    if (err == 0)
        err = shape_in(p, UVCC_NL_RSQRT, &rsqrt, &s);
    *out = (uvcc_tensor_desc){.rows = x->rows, .cols = 1, .bits = s.bits[0], .scale = s.scale[0]};
    return err;
}

/* The tensors that a norm writes on its way. */
typedef struct norm_tensors {
    uint32_t y, factor; /* normalised x and 1 / sqrt(..); UVCC_NO_TENSOR: a temporary */
} norm_tensors;

static norm_tensors norm_tensors_of(const emission *m, const uint32_t *out) {
    const uint32_t none = UVCC_NO_TENSOR;
    if (m->o.plain)
        return (norm_tensors){out[0], m->o.saved ? out[1] : none};
    return m->o.saved ? (norm_tensors){out[1], out[2]} : (norm_tensors){none, none};
}

/* x times the factor of its row. */
static uint32_t times_factor(emission *m, uint32_t x, uint32_t factor, const norm_tensors *to) {
    const uvcc_tensor_desc d = desc(m, x);
    const uint32_t y =
        to->y != UVCC_NO_TENSOR ? to->y : temporary(m, d.rows, d.cols, normed_bits(&d), d.scale);
    product(m, UVCC_OP_ROW_MUL, x, factor, y, 0, 0);
    return y;
}

/* y = x / sqrt(mean(x^2) + epsilon) by v = sum(x^2) / 2^e: the root of cols / 2^e is the gain of
 * the table. */
static uint32_t normed(emission *m, uint32_t x, const norm_tensors *to) {
    const uvcc_tensor_desc d = desc(m, x);
    const unsigned e = ceil_log2(d.cols);
    const double part_of = ldexp(d.cols, -(int)e);
    uvcc_tensor_desc square, factor;
    if (!mean_square(&d, &square) || m->o.epsilon < 0 || m->o.epsilon > 1) {
        note(m, UVCC_ERR_USAGE);
        return x;
    }
    const int64_t epsilon = llround(ldexp(m->o.epsilon * part_of, square.scale));
    const uint32_t sum = temporary_like(m, &square);
    uint32_t v = sum;
    product(m, UVCC_OP_ROW_DOT, x, x, sum, e, 1);
    if (epsilon != 0) {
        v = temporary(m, d.rows, 1, square.bits + 1u, square.scale);
        local(m, UVCC_OP_ADD_PUBLIC, sum, UVCC_NO_TENSOR, v, 0, epsilon);
    }
    const double gain = m->o.gain;
    m->o.gain = sqrt(part_of);
    note(m, inverse_desc(m->e->program, &m->o, &d, &factor));
    const uint32_t inverse = to->factor != UVCC_NO_TENSOR ? to->factor : temporary_like(m, &factor);
    emit_function(m, UVCC_NL_RSQRT, v, &inverse);
    m->o.gain = gain;
    return times_factor(m, x, inverse, to);
}

/* What a norm takes 1 / sqrt of: v = part^p (mean square or variance), part = cols / 2^e in
 * (1/2, 1], as an integer that nothing was truncated from. RMSNORM: sum(x^2) 2^-e, p = 1.
 * LAYERNORM: (cols sum(x^2) - sum(x)^2) 2^-2e, p = 2. */
typedef struct whole_square {
    unsigned e, bits, scale;
    double part, power; /* power: part^p */
} whole_square;

enum { WHOLE_BITS_MAX = 60, WHOLE_SCALE_MIN = 14 };

/* False if x has too many or too few bits for it, or if v can lie so far below the variance that
 * RSQRT's range, from 2^-10.5 on, does not reach down to variances of 2^-9. */
static bool whole_square_of(uvcc_nonlinear what, const uvcc_tensor_desc *x, whole_square *out) {
    const unsigned p = what == UVCC_NL_LAYERNORM ? 2 : 1, e = ceil_log2(x->cols);
    const double part = ldexp(x->cols, -(int)e);
    *out = (whole_square){
        .e = e, .bits = 2u * x->bits + p * e, .scale = 2u * x->scale + p * e, .part = part};
    out->power = p == 2 ? part * part : part;
    return out->bits <= WHOLE_BITS_MAX && out->scale >= WHOLE_SCALE_MIN &&
           out->scale <= UVCCI_NL_SCALE_MAX && out->power >= 0.35;
}

/* v, and epsilon in its units. */
static uint32_t emit_whole_square(emission *m, uvcc_nonlinear what, uint32_t x,
                                  const whole_square *w) {
    const uvcc_tensor_desc d = desc(m, x);
    const bool centred = what == UVCC_NL_LAYERNORM;
    const int64_t epsilon = llround(ldexp(m->o.epsilon * w->power, (int)w->scale));
    uint32_t v = temporary(m, d.rows, 1, w->bits, w->scale);
    product(m, UVCC_OP_ROW_DOT, x, x, v, w->scale - 2u * d.scale, centred ? d.cols : 1);
    if (centred) {
        const uint32_t sum = temporary(m, d.rows, 1, d.bits + w->e, d.scale);
        const uint32_t square = temporary(m, d.rows, 1, w->bits, 2u * d.scale);
        /* the integer is what it is at the scale of v */
        const uint32_t same = temporary(m, d.rows, 1, w->bits, w->scale);
        const uint32_t least = temporary(m, d.rows, 1, w->bits + 1, w->scale);
        local(m, UVCC_OP_ROW_SUM, x, UVCC_NO_TENSOR, sum, 0, 0);
        product(m, UVCC_OP_ELEM_MUL, sum, sum, square, 0, 0);
        local(m, UVCC_OP_SCALE_PUBLIC, square, UVCC_NO_TENSOR, same,
              (uint8_t)(w->scale - 2u * d.scale), 1);
        local(m, UVCC_OP_SUB, v, same, least, 0, 0);
        v = least;
    }
    if (epsilon == 0)
        return v;
    const uint32_t more = temporary(m, d.rows, 1, w->bits + 1, w->scale);
    local(m, UVCC_OP_ADD_PUBLIC, v, UVCC_NO_TENSOR, more, 0, epsilon);
    return more;
}

/* 1 / sqrt(mean square or variance, plus epsilon), into `factor` unless that is none. */
static uint32_t emit_factor(emission *m, uvcc_nonlinear what, uint32_t x, const whole_square *w,
                            uint32_t factor) {
    const uint32_t v = emit_whole_square(m, what, x, w);
    const uvcc_tensor_desc d = desc(m, v);
    const double gain = m->o.gain;
    uvcc_tensor_desc z = d;
    m->o.gain = sqrt(w->power);
    if (factor == UVCC_NO_TENSOR) {
        note(m, uvcci_nonlinear_output_in(m->e->program, UVCC_NL_RSQRT, &m->o, &d, &z));
        factor = temporary_like(m, &z);
    }
    emit_function(m, UVCC_NL_RSQRT, v, &factor);
    m->o.gain = gain;
    return factor;
}

/* x gamma times the factor, whose product has fewer bits than they: |x factor| <= sqrt(cols). */
static bool emit_scaled(emission *m, uint32_t x, uint32_t gamma, uint32_t factor, uint32_t out) {
    const uvcc_tensor_desc d = desc(m, x), g = desc(m, gamma), f = desc(m, factor);
    const unsigned scale = d.scale + g.scale, root = (ceil_log2(d.cols) + 1) / 2;
    const int whole = g.bits - g.scale; /* of gamma */
    const int bits = (int)(scale + f.scale + root + 1) + whole;
    const int shift = (int)(scale + f.scale) - desc(m, out).scale;
    if (d.bits + g.bits > 62 || bits > 62 || shift < 1 || bits < 1)
        return false;
    const uint32_t u = temporary(m, d.rows, d.cols, (unsigned)d.bits + g.bits, scale);
    product(m, UVCC_OP_COL_MUL, x, gamma, u, 0, 0);
    put(m, (uvcc_op_desc){.opcode = UVCC_OP_ROW_MUL,
                          .in_count = 2,
                          .out_count = 1,
                          .in = {u, factor},
                          .out = {out},
                          .flags = UVCC_OP_WITHIN,
                          .shift = (uint8_t)shift,
                          .truncation = truncation(m),
                          .constant = bits});
    return true;
}

/* gamma x / sqrt(..), and for LAYERNORM of x less its mean: the square that decides does not wait
 * for the mean, and gamma, if there is one, does not wait for the square. */
static bool emit_whole_norm(emission *m, uvcc_nonlinear what, const uint32_t *in,
                            const norm_tensors *to, uint32_t scaled) {
    const uvcc_tensor_desc d = desc(m, in[0]);
    whole_square w;
    if (m->o.epsilon < 0 || m->o.epsilon > 1 || !whole_square_of(what, &d, &w))
        return false;
    const uint32_t factor = emit_factor(m, what, in[0], &w, to->factor);
    const uint32_t x = what == UVCC_NL_LAYERNORM ? centre(m, in[0]) : in[0];
    if (to->y == UVCC_NO_TENSOR && emit_scaled(m, x, in[1], factor, scaled))
        return true;
    const uint32_t y = times_factor(m, x, factor, to);
    if (!m->o.plain)
        product(m, UVCC_OP_COL_MUL, y, in[1], scaled, 0, 0);
    return true;
}

static void emit_norm(emission *m, uvcc_nonlinear what, const uint32_t *in, const uint32_t *out) {
    const bool shifted = what == UVCC_NL_LAYERNORM && !m->o.plain;
    const uvcc_tensor_desc z = desc(m, out[0]);
    const uint32_t scaled = shifted ? temporary_like(m, &z) : out[0];
    const norm_tensors to = norm_tensors_of(m, out);
    if (!emit_whole_norm(m, what, in, &to, scaled)) {
        const uint32_t x = what == UVCC_NL_LAYERNORM ? centre(m, in[0]) : in[0];
        const uint32_t y = normed(m, x, &to);
        if (!m->o.plain)
            product(m, UVCC_OP_COL_MUL, y, in[1], scaled, 0, 0);
    }
    if (shifted)
        local(m, UVCC_OP_BIAS_ADD, scaled, in[2], out[0], 0, 0);
}

/* ---- public ---- */

static int block_bits(uvcc_nonlinear what, bool plain, const uvcc_tensor_desc *in) {
    int bits = in->scale + 1;
    if (what == UVCC_NL_CROSS_ENTROPY_GRADIENT)
        return bits + 1;
    if (what == UVCC_NL_SOFTMAX)
        return bits;
    bits = (int)normed_bits(in) + (plain ? 0 : in[1].bits - in[1].scale);
    if (what == UVCC_NL_LAYERNORM && !plain)
        bits = (bits > in[2].bits ? bits : in[2].bits) + 1;
    return bits < 1 ? 1 : bits < 62 ? bits : 62;
}

static bool is_norm(uvcc_nonlinear what) {
    return what == UVCC_NL_RMSNORM || what == UVCC_NL_LAYERNORM;
}

/* The columns of a SOFTMAX of x, which a mask makes wider. */
static int saved_columns(uvcc_program *p, const uvcc_nonlinear_options *o, uvcc_tensor_desc x,
                         uvcc_tensor_desc *out) {
    uvcc_nonlinear_options of = *o;
    uvcci_nl_shape s = {0};
    if (o->causal)
        (void)uvcci_nonlinear_mask(&x, &x.bits);
    of.in_bits = x.bits;
    of.loss = false;
    const int err = shape_in(p, UVCC_NL_SOFTMAX, &of, &s);
    for (unsigned i = 1; i < s.outputs; i++)
        out[i - 1] = (uvcc_tensor_desc){.cols = 1, .bits = s.bits[i], .scale = s.scale[i]};
    return err != 0 ? err : s.outputs - 1;
}

/* Outputs beside the first that a BLOCK has by its options; returns their number. */
static int more_outputs(uvcc_program *p, uvcc_nonlinear what, const uvcc_nonlinear_options *o,
                        const uvcc_tensor_desc *in, uvcc_tensor_desc *out) {
    uvcc_tensor_desc x = *in;
    if (what == UVCC_NL_CROSS_ENTROPY_GRADIENT && o->loss) {
        const uint8_t scale = x.scale > LOSS_SCALE ? x.scale : LOSS_SCALE;
        out[0] =
            (uvcc_tensor_desc){.cols = 1, .scale = scale, .bits = x.bits + scale - x.scale + 2};
        return 1;
    }
    if (what == UVCC_NL_SOFTMAX && o->saved)
        return saved_columns(p, o, x, out);
    if (!is_norm(what) || !o->saved)
        return 0;
    x.bits += what == UVCC_NL_LAYERNORM; /* centred */
    out[0] = (uvcc_tensor_desc){.cols = x.cols, .scale = x.scale, .bits = normed_bits(&x)};
    const unsigned factor = o->plain ? 0 : 1;
    const int err = inverse_desc(p, o, &x, &out[factor]);
    return err != 0 ? err : (int)factor + 1;
}

static void complete(uvcc_tensor_desc *out, uint32_t rows) {
    out->rows = rows;
    out->lifetime = UVCC_TRANSIENT;
    out->in_buffer_of = UVCC_NO_TENSOR;
}

/* Bits and scales are read off the function, built without its memory, so that nobody repeats them;
 * those of blocks follow from what emits them. */
int uvcci_nonlinear_output_in(uvcc_program *p, uvcc_nonlinear what,
                              const uvcc_nonlinear_options *options, const uvcc_tensor_desc *in,
                              uvcc_tensor_desc *out) {
    const uvcc_nonlinear_info *info = uvcc_nonlinear_at(what);
    uvcc_nonlinear_options o = {.size = sizeof o};
    if (info == NULL || in == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    if (options != NULL)
        o = *options;
    if (o.raise > in->scale)
        return UVCC_ERR_USAGE;
    o.scale = in->scale - o.raise;
    o.in_bits = in->bits;
    o.cols = in->cols;
    int err = uvcci_nonlinear_options(what, &o, &o);
    uvcci_nl_shape s = {.outputs = 1, .bits = {0}, .scale = {in->scale}};
    if (err == 0 && info->form == UVCC_NL_BLOCK)
        s.bits[0] = (uint8_t)block_bits(what, o.plain, in);
    else if (err == 0)
        err = shape_in(p, what, &o, &s);
    if (err != 0)
        return err;
    for (unsigned i = 0; i < s.outputs; i++)
        out[i] = (uvcc_tensor_desc){
            .cols = info->form == UVCC_NL_ROW ? 1 : in->cols,
            .bits = s.bits[i],
            .scale = s.scale[i],
        };
    const int more = info->form == UVCC_NL_BLOCK ? more_outputs(p, what, &o, in, out + 1) : 0;
    if (more < 0)
        return more;
    for (int i = 0; i < s.outputs + more; i++)
        complete(&out[i], in->rows);
    return s.outputs + more;
}

int uvcc_nonlinear_output(uvcc_nonlinear what, const uvcc_nonlinear_options *options,
                          const uvcc_tensor_desc *in, uvcc_tensor_desc *out) {
    return uvcci_nonlinear_output_in(NULL, what, options, in, out);
}

/* A function is one op, a block some of them; all there is to refuse is refused before the first.
 */
int uvcc_emit_nonlinear(uvcc_emit *emit, uvcc_nonlinear what, const uvcc_nonlinear_options *options,
                        const uint32_t *in, const uint32_t *out) {
    if (emit == NULL || emit->program == NULL || emit->prefix == NULL || emit->alloc == NULL ||
        in == NULL || out == NULL || strnlen(emit->prefix, 41) > 40)
        return UVCC_ERR_USAGE;
    emission m = {.e = emit, .o = {.size = sizeof m.o}};
    if (options != NULL)
        m.o = *options;
    const uvcc_nonlinear_info *info = uvcc_nonlinear_at(what);
    if (info == NULL || m.o.size != sizeof m.o)
        return UVCC_ERR_USAGE;
    const unsigned inputs = is_norm(what) && m.o.plain ? 1 : info->inputs;
    for (unsigned i = 0; i < inputs; i++)
        if (uvcc_program_tensor_at(emit->program, in[i]) == NULL)
            return UVCC_ERR_USAGE;
    const unsigned more = is_norm(what) && m.o.saved                           ? 2u - m.o.plain
                          : what == UVCC_NL_SOFTMAX && m.o.saved               ? 2
                          : what == UVCC_NL_CROSS_ENTROPY_GRADIENT && m.o.loss ? 1
                                                                               : 0;
    for (unsigned i = 0; i < info->outputs + more; i++)
        if (uvcc_program_tensor_at(emit->program, out[i]) == NULL)
            return UVCC_ERR_USAGE;
    if (info->form == UVCC_NL_BLOCK) /* the defaults of its parts */
        m.o.index_bits = 0;
    switch (what) {
    case UVCC_NL_SOFTMAX:
        (void)emit_softmax(&m, in[0], out, false);
        break;
    case UVCC_NL_CROSS_ENTROPY_GRADIENT:
        emit_cross_entropy(&m, in, out);
        break;
    case UVCC_NL_RMSNORM:
    case UVCC_NL_LAYERNORM:
        emit_norm(&m, what, in, out);
        break;
    default:
        emit_function(&m, what, in[0], out);
    }
    return m.err;
}
