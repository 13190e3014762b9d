/* SPDX-License-Identifier: Apache-2.0 */
/* mlp.c - the multi-layer perceptron as a program, its initial weights and the order of its rows.
 *
 * No state. Per layer l: forward weights W<l>, b<l> and masters MW<l>, Mb<l>, finer by s bits. The
 * bounds that the products need follow from the options alone, so they are checked here first, with
 * a message that names the options; finish checks them again, op by op. */
#include "exec/model/public_random.h"
#include "exec/program/program.h"

#include "proto/prg.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <uvcc/compute.h>
#include <uvcc/mlp.h>

/* ---- shapes and numbers ---- */

uint32_t uvcc_mlp_layers(const uvcc_mlp_config *cfg) {
    if (cfg == NULL)
        return 0;
    return cfg->hidden_count + 1;
}

void uvcc_mlp_shape(const uvcc_mlp_config *cfg, uint32_t l, uint32_t *in, uint32_t *out) {
    if (cfg == NULL || in == NULL || out == NULL)
        return;
    *in = l == 0 ? cfg->features : cfg->hidden[l - 1];
    *out = l == cfg->hidden_count ? cfg->classes : cfg->hidden[l];
}

static unsigned ceil_log2(uint32_t n) {
    unsigned bits = 0;
    while (bits < 32 && (1ull << bits) < n)
        bits++;
    return bits;
}

unsigned uvcc_mlp_master_shift(const uvcc_mlp_config *cfg) {
    if (cfg == NULL)
        return 0;
    return cfg->lr_shift + ceil_log2(cfg->batch);
}

void uvcc_mlp_initial_weights(const uvcc_mlp_config *cfg, uint64_t seed, uint32_t l, int64_t *w) {
    if (cfg == NULL || w == NULL)
        return;
    uint32_t in, out;
    uvcc_mlp_shape(cfg, l, &in, &out);
    int64_t limit = (int64_t)floor(ldexp(sqrt(6.0 / ((double)in + out)), cfg->frac_bits));
    uvcci_aes key;
    uvcci_public_random_key(&key, "uvcc/init", seed, l);
    uvcci_public_random_uniform(&key, limit, w, (size_t)in * out);
}

void uvcc_mlp_order(uint64_t seed, uint32_t epoch, uint32_t n, uint32_t *order) {
    if (order == NULL)
        return;
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    uvcci_aes key;
    uvcci_public_random_key(&key, "uvcc/order", seed, epoch);
    uint64_t word[256];
    const uint32_t room = sizeof word / sizeof word[0];
    for (uint32_t drawn = 0; drawn + 1 < n; drawn++) {
        if (drawn % room == 0)
            uvcci_prg_fill(&key, (uvcci_prg_at){0}, drawn, word, room);
        uint32_t i = n - 1 - drawn,
                 j = (uint32_t)uvcci_mul_high(word[drawn % room], (uint64_t)i + 1);
        uint32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

/* ---- options ---- */

/* Declared bits, from the options. */
typedef struct widths {
    unsigned f, data, value, weight, shift, master, gradient;
} widths;

static widths widths_of(const uvcc_mlp_config *c) {
    widths w;
    w.f = c->frac_bits;
    w.data = w.f + 1; /* features and labels of training rows: at most 1 */
    w.value = w.f + (c->range_bits != 0 ? c->range_bits : 8);
    w.weight = w.f + (c->weight_range_bits != 0 ? c->weight_range_bits : 4);
    w.shift = uvcc_mlp_master_shift(c);
    w.master = w.weight + w.shift;
    w.gradient = w.value + ceil_log2(c->batch); /* sums over the batch: its mean is a value */
    return w;
}

static int check_options(const uvcc_mlp_config *c, const uvcci_message *m) {
    const int bad = UVCC_ERR_CONFIG;
    if (c->features == 0 || c->classes == 0)
        return uvcci_fail(m, bad, "features and classes must be at least 1");
    if (c->hidden_count < 1 || c->hidden_count >= UVCC_MLP_MAX_LAYERS)
        return uvcci_fail(m, bad, "hidden_count is %u; 1 to %u are possible", c->hidden_count,
                          UVCC_MLP_MAX_LAYERS - 1);
    for (uint32_t l = 0; l < c->hidden_count; l++)
        if (c->hidden[l] == 0)
            return uvcci_fail(m, bad, "hidden layer %u has no units", l);
    if (c->batch == 0 || (c->batch & (c->batch - 1)) != 0)
        return uvcci_fail(m, bad, "batch is %u; it must be a power of two", c->batch);
    if (c->frac_bits == 0)
        return uvcci_fail(m, bad, "frac_bits must be at least 1");
    if (c->truncation > UVCC_TRUNC_EXACT_DCF || c->lift > UVCC_LIFT_EXCHANGE)
        return uvcci_fail(m, bad, "truncation %u or lift %u is unknown", c->truncation, c->lift);
    if (c->compare > UVCC_COMPARE_CIRCUIT)
        return uvcci_fail(m, bad, "comparison %u is unknown", c->compare);
    if (c->products > UVCC_PRODUCTS_BEAVER)
        return uvcci_fail(m, bad, "products %u are unknown", c->products);
    if (c->x_owner >= UVCC_PARTIES || c->y_owner >= UVCC_PARTIES)
        return uvcci_fail(m, bad, "owners are parties 0, 1 or 2");
    return 0;
}

static int want(unsigned bits, uint32_t layer, const char *what, const char *lower,
                const uvcci_message *m) {
    if (bits <= UVCCI_MAX_BITS)
        return 0;
    return uvcci_fail(m, UVCC_ERR_BOUND, "layer %u: %s need %u bits, more than %u; lower %s", layer,
                      what, bits, UVCCI_MAX_BITS, lower);
}

static int check_bounds(const uvcc_mlp_config *c, const widths *w, const uvcci_message *m) {
    unsigned batch = ceil_log2(c->batch);
    int err =
        want(w->master, 0, "master weights", "frac_bits, lr_shift, batch or weight_range_bits", m);
    for (uint32_t l = 0; l < uvcc_mlp_layers(c) && err == 0; l++) {
        uint32_t in, out;
        uvcc_mlp_shape(c, l, &in, &out);
        unsigned left = l == 0 ? w->data : w->value;
        unsigned forward_left = c->predict_rows != 0 ? w->value : left;
        err = want(forward_left + w->weight + ceil_log2(in), l, "the sums of its forward product",
                   "frac_bits, range_bits or weight_range_bits", m);
        if (err == 0)
            err = want(left + w->value + batch, l, "the sums of its weight gradient",
                       "frac_bits, range_bits or batch", m);
        if (err == 0 && l > 0)
            err = want(w->value + w->weight + ceil_log2(out), l, "the sums of its input gradient",
                       "frac_bits, range_bits or weight_range_bits", m);
    }
    return err;
}

/* ---- the program ---- */

/* The first error sticks, so that the program below reads as a list of tensors and ops. */
typedef struct builder {
    const uvcc_mlp_config *c;
    widths w;
    uvcc_program *p;
    int err;
    uint8_t phase, truncation;
    uint16_t k;
    uint32_t weight[UVCC_MLP_MAX_LAYERS], bias[UVCC_MLP_MAX_LAYERS];
    uint32_t master_weight[UVCC_MLP_MAX_LAYERS], master_bias[UVCC_MLP_MAX_LAYERS];
} builder;

static int note(builder *b, int result) {
    assert(b->err <= 0);
    if (b->err == 0 && result < 0)
        b->err = result;
    return result;
}

static uint32_t tensor(builder *b, const char *name, uint32_t l, uint32_t rows, uint32_t cols,
                       unsigned bits, unsigned scale, uint8_t lifetime, uint32_t in_buffer_of) {
    assert(l < UVCC_MLP_MAX_LAYERS);
    char full[UVCCI_NAME_BYTES];
    snprintf(full, sizeof full, "%s%u", name, l);
    return (uint32_t)note(b, uvcc_program_tensor(b->p, &(uvcc_tensor_desc){
                                                           .name = full,
                                                           .rows = rows,
                                                           .cols = cols,
                                                           .bits = (uint8_t)bits,
                                                           .scale = (uint8_t)scale,
                                                           .lifetime = lifetime,
                                                           .in_buffer_of = in_buffer_of,
                                                       }));
}

/* A tensor of activations or gradients, at scale f, in a buffer of its own. */
static uint32_t values(builder *b, const char *name, uint32_t l, uint32_t rows, uint32_t cols,
                       unsigned bits) {
    return tensor(b, name, l, rows, cols, bits, b->w.f, UVCC_TRANSIENT, UVCC_NO_TENSOR);
}

/* What is `revealed` is truncated exactly. */
static void begin(builder *b, const char *entry, bool revealed) {
    note(b, uvcc_program_entry(b->p, entry));
    b->truncation =
        revealed && b->c->truncation == UVCC_TRUNC_STOCHASTIC ? UVCC_TRUNC_EXACT : b->c->truncation;
    b->phase = UVCC_FWD;
    b->k = 0;
}

static void enter(builder *b, uvcc_phase phase) {
    b->phase = (uint8_t)phase;
    b->k = 0;
}

/* y and out2 may be UVCC_NO_TENSOR. An op carries the name of what it writes. */
static void op(builder *b, uvcc_opcode opcode, uint32_t x, uint32_t y, uint32_t out, uint32_t out2,
               uint8_t flags, unsigned shift) {
    assert(x != UVCC_NO_TENSOR && out != UVCC_NO_TENSOR);
    if (b->err != 0)
        return;
    uvcc_op_desc d = {
        .name = uvcc_program_tensor_at(b->p, out)->name,
        .opcode = (uint16_t)opcode,
        .phase = b->phase,
        .k = b->k++,
        .in_count = y == UVCC_NO_TENSOR ? 1 : 2,
        .in = {x, y},
        .out_count = out2 == UVCC_NO_TENSOR ? 1 : 2,
        .out = {out, out2},
        .flags = flags,
        .shift = (uint8_t)shift,
        .truncation = b->truncation,
        .lift = b->c->lift,
    };
    if (d.truncation == UVCC_TRUNC_EXACT_DCF && !uvcci_truncates(&d))
        d.truncation = UVCC_TRUNC_EXACT;
    note(b, uvcc_program_op(b->p, &d));
}

static void op1(builder *b, uvcc_opcode opcode, uint32_t x, uint32_t out, unsigned shift) {
    op(b, opcode, x, UVCC_NO_TENSOR, out, UVCC_NO_TENSOR, 0, shift);
}

static void op2(builder *b, uvcc_opcode opcode, uint32_t x, uint32_t y, uint32_t out, uint8_t flags,
                unsigned shift) {
    if (opcode == UVCC_OP_GEMM_SS && b->c->products == UVCC_PRODUCTS_BEAVER)
        flags |= UVCC_OP_BEAVER;
    op(b, opcode, x, y, out, UVCC_NO_TENSOR, flags, shift);
}

/* out = master >> s. SHIFT_LEFT by 0 is a copy: masters are as fine as weights when s is 0. */
static void from_master(builder *b, uint32_t master, uint32_t out) {
    op1(b, b->w.shift != 0 ? UVCC_OP_TRUNCATE : UVCC_OP_SHIFT_LEFT, master, out, b->w.shift);
}

static void add_weights(builder *b) {
    const widths *w = &b->w;
    for (uint32_t l = 0; l < uvcc_mlp_layers(b->c); l++) {
        uint32_t in, out;
        uvcc_mlp_shape(b->c, l, &in, &out);
        const uint8_t keep = UVCC_PERSIST;
        const unsigned fine = w->f + w->shift;
        b->weight[l] = tensor(b, "W", l, in, out, w->weight, w->f, keep, UVCC_NO_TENSOR);
        b->bias[l] = tensor(b, "b", l, 1, out, w->weight, w->f, keep, UVCC_NO_TENSOR);
        b->master_weight[l] = tensor(b, "MW", l, in, out, w->master, fine, keep, UVCC_NO_TENSOR);
        b->master_bias[l] = tensor(b, "Mb", l, 1, out, w->master, fine, keep, UVCC_NO_TENSOR);
    }
}

/* The forward pass over x; returns the output. left[l] is what layer l multiplies its weights with,
 * sign[l] the d of its ReLU. */
static uint32_t forward(builder *b, const char *const names[3], uint32_t rows, uint32_t x,
                        uint32_t *left, uint32_t *sign) {
    for (uint32_t l = 0;; l++) {
        uint32_t in, out;
        uvcc_mlp_shape(b->c, l, &in, &out);
        uint32_t z = values(b, names[0], l, rows, out, b->w.value);
        left[l] = x;
        op2(b, UVCC_OP_GEMM_SS, x, b->weight[l], z, 0, b->w.f);
        op2(b, UVCC_OP_BIAS_ADD, z, b->bias[l], z, 0, 0);
        if (l == b->c->hidden_count)
            return z;
        x = values(b, names[1], l, rows, out, b->w.value);
        sign[l] = tensor(b, names[2], l, rows, out, 1, 0, UVCC_TRANSIENT, UVCC_NO_TENSOR);
        op(b, UVCC_OP_RELU, z, UVCC_NO_TENSOR, x, sign[l],
           b->c->compare == UVCC_COMPARE_CIRCUIT ? UVCC_OP_CIRCUIT : 0, 0);
    }
}

/* Forward, loss, backward and update of one batch: gradients are taken off the finer masters, and
 * the forward weights follow from those. Masters that are no finer are revealed as they are, and
 * with them every gradient: then these are truncated exactly, too, and all that they come of. */
static void add_train(builder *b) {
    static const char *const names[] = {"Z", "A", "D"};
    const uvcc_mlp_config *c = b->c;
    const widths *w = &b->w;
    const uint32_t layers = uvcc_mlp_layers(c), last = layers - 1;
    uint32_t left[UVCC_MLP_MAX_LAYERS], sign[UVCC_MLP_MAX_LAYERS];
    uint32_t grad_weight[UVCC_MLP_MAX_LAYERS], grad_bias[UVCC_MLP_MAX_LAYERS];

    begin(b, "train", w->shift == 0);
    uint32_t x = values(b, "X", 0, c->batch, c->features, w->data);
    uint32_t y = values(b, "Y", 0, c->batch, c->classes, w->data);
    note(b, uvcc_program_input(b->p, UVCC_MLP_IN_X, x, c->x_owner));
    note(b, uvcc_program_input(b->p, UVCC_MLP_IN_Y, y, c->y_owner));
    uint32_t z = forward(b, names, c->batch, x, left, sign);

    enter(b, UVCC_BWD);
    uint32_t g = tensor(b, "G", last, c->batch, c->classes, w->value, w->f, UVCC_TRANSIENT, z);
    op2(b, UVCC_OP_SUB, z, y, g, 0, 0);
    for (uint32_t l = last;; l--) {
        uint32_t in, out;
        uvcc_mlp_shape(c, l, &in, &out);
        grad_weight[l] = values(b, "gW", l, in, out, w->gradient);
        grad_bias[l] = values(b, "gb", l, 1, out, w->gradient);
        op2(b, UVCC_OP_GEMM_SS, left[l], g, grad_weight[l], UVCC_OP_TRANS_A, w->f);
        op1(b, UVCC_OP_REDUCE_BIAS_GRAD, g, grad_bias[l], 0);
        if (l == 0)
            break;
        uint32_t below = values(b, "G", l - 1, c->batch, in, w->value);
        op2(b, UVCC_OP_GEMM_SS, g, b->weight[l], below, UVCC_OP_TRANS_B, w->f);
        op2(b, UVCC_OP_ELEM_MUL, below, sign[l - 1], below, 0, 0);
        g = below;
    }

    enter(b, UVCC_UPD);
    for (uint32_t l = 0; l < layers; l++) {
        const uint32_t mw = b->master_weight[l], mb = b->master_bias[l];
        op2(b, UVCC_OP_SUB, mw, grad_weight[l], mw, 0, w->shift); /* a step of 2^-s */
        from_master(b, mw, b->weight[l]);
        op2(b, UVCC_OP_SUB, mb, grad_bias[l], mb, 0, w->shift);
        from_master(b, mb, b->bias[l]);
    }
}

/* Its output is revealed, to the owner of the rows, so all its truncations are exact. Rows to
 * predict are scaled by the training rows and may pass 1, so they get the range of activations. */
static void add_predict(builder *b) {
    static const char *const names[] = {"PZ", "PA", "PD"};
    const uvcc_mlp_config *c = b->c;
    uint32_t left[UVCC_MLP_MAX_LAYERS], sign[UVCC_MLP_MAX_LAYERS];
    if (c->predict_rows == 0)
        return;
    begin(b, "predict", true);
    uint32_t x = values(b, "PX", 0, c->predict_rows, c->features, b->w.value);
    note(b, uvcc_program_input(b->p, UVCC_MLP_IN_PREDICT_X, x, c->x_owner));
    uint32_t z = forward(b, names, c->predict_rows, x, left, sign);
    note(b, uvcc_program_output_to(b->p, UVCC_MLP_OUT_PREDICTION, z, c->x_owner));
}

/* Opens the weights. Stochastic rounding would let a party learn more than the weight it sees, so
 * such weights are made again from the masters, exactly. */
static void add_reveal(builder *b) {
    const bool again = b->c->truncation == UVCC_TRUNC_STOCHASTIC && b->w.shift != 0;
    begin(b, "reveal", true);
    for (uint32_t l = 0; l < uvcc_mlp_layers(b->c); l++) {
        uint32_t in, out, weight = b->weight[l], bias = b->bias[l];
        uvcc_mlp_shape(b->c, l, &in, &out);
        if (again) {
            weight = values(b, "RW", l, in, out, b->w.weight);
            bias = values(b, "Rb", l, 1, out, b->w.weight);
            from_master(b, b->master_weight[l], weight);
            from_master(b, b->master_bias[l], bias);
        }
        note(b, uvcc_program_output(b->p, UVCC_MLP_OUT_WEIGHT + 2 * l, weight));
        note(b, uvcc_program_output(b->p, UVCC_MLP_OUT_WEIGHT + 2 * l + 1, bias));
    }
}

int uvcc_mlp_program(uvcc_program **out, const uvcc_mlp_config *cfg, const uvcc_allocator *al,
                     char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    if (out == NULL || cfg == NULL)
        return uvcci_fail(&m, UVCC_ERR_USAGE, "there is no place for the program or no options");
    int err = check_options(cfg, &m);
    if (err != 0)
        return err;
    builder b = {.c = cfg, .w = widths_of(cfg)};
    err = check_bounds(cfg, &b.w, &m);
    if (err != 0)
        return err;
    err = uvcc_program_new(&b.p, al);
    if (err != 0)
        return uvcci_fail(&m, err, "%s", uvcc_error_text(err));
    add_weights(&b);
    add_train(&b);
    add_predict(&b);
    add_reveal(&b);
    if (b.err == 0)
        b.err = uvcc_program_finish(b.p, message, message_cap);
    else
        uvcci_fail(&m, b.err, "%s", uvcc_error_text(b.err));
    if (b.err == 0)
        *out = b.p;
    else
        uvcc_program_free(b.p);
    return b.err;
}
