/* SPDX-License-Identifier: Apache-2.0 */
/* transformer_update.c - gradients become steps: sums over workers, the one truncation, clipping,
 * the optimizer on the slice that this worker owns, the forward weight, and its gathering.
 *
 * A step of the rate times u is subtracted from the master, whose UVCCI_TF_FINE_BITS more fraction
 * bits keep what a forward weight cannot show. */
#include "exec/model/transformer.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <uvcc/compute.h>

/* Fraction bits of v, as the root sees it, and of steps before the rate; index bits of clipping. */
enum { VARIANCE_BITS = 24, STEP_BITS = 28, CLIP_INDEX_BITS = 12 };
/* Integer bits of steps: |m| <= 2.3 sqrt(v) with decays that go together, and room for others. */
enum { STEP_RANGE_BITS = 6 };

/* Names of what a decay is made of. */
static const char *const first_moment[] = {"MK", "MA"}, *const second_moment[] = {"VK", "VA"};

typedef uvcci_tf_slice slice;

static uint32_t transient(const slice *s, const char *name, unsigned bits, unsigned scale) {
    return uvcci_tf_transient(s->b, name, s->rows, s->cols, bits, scale);
}

static const uvcc_tensor_desc *desc(const slice *s, uint32_t t) {
    return uvcci_tf_desc(s->b, t);
}

uvcci_tf_slice uvcci_tf_slice_of(uvcci_tf_builder *b, const uvcci_tf_held *h) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, h->master);
    assert(h->held && h->ways >= 1);
    return (slice){b, h, d.rows, d.cols};
}

uint32_t uvcci_tf_mean_gradient(const slice *s) {
    uvcci_tf_builder *b = s->b;
    const uint32_t sum =
        uvcci_tf_reduce(b, s->h->sum, s->h->group, s->h->ways, s->rows, s->cols, "S");
    const uvcc_tensor_desc d = *desc(s, sum);
    const unsigned scale = b->n.update_scale, bits = b->n.update_bits;
    uint32_t g = transient(s, "G", bits, scale);
    if (d.scale >= scale) {
        uvcci_tf_truncate(b, sum, g, b->truncation);
        return g;
    }
    uint32_t whole = sum;
    if (d.sharing == UVCC_ADDITIVE) {
        whole = transient(s, "GS", d.bits, d.scale);
        uvcci_tf_truncate(b, sum, whole, b->truncation);
    }
    uvcci_tf_local(b, UVCC_OP_SHIFT_LEFT, whole, UVCC_NO_TENSOR, g);
    return g;
}

static uint32_t clipped(const slice *s, uint32_t g) {
    static const char *const names[] = {"GC"};
    uint32_t out = g;
    if (s->b->c->clip > 0)
        uvcci_tf_function(
            s->b, UVCC_NL_CLIP,
            (uvcc_nonlinear_options){.limit = s->b->c->clip, .index_bits = CLIP_INDEX_BITS}, &g,
            names, &out);
    return out;
}

void uvcci_tf_decay(const slice *s, const char *const names[2], uint32_t state, uint32_t x,
                    unsigned shift, bool share) {
    uvcci_tf_builder *b = s->b;
    const uvcc_tensor_desc d = *desc(s, state), dx = *desc(s, x);
    if (b->err != 0) /* the tensors may be others then */
        return;
    const unsigned fine = dx.scale - d.scale, scale = dx.scale + shift;
    const uint32_t kept = transient(s, names[0], d.bits + fine + shift, scale);
    uvcci_tf_scale(b, state, kept, ((1ll << shift) - 1) << fine, shift + fine);
    uint32_t added = transient(s, names[1], share ? dx.bits : dx.bits + shift, scale);
    if (share)
        uvcci_tf_scale(b, x, added, 1, shift);
    else
        uvcci_tf_local(b, UVCC_OP_SHIFT_LEFT, x, UVCC_NO_TENSOR, added);
    uvcci_tf_local(b, UVCC_OP_ADD, kept, added, kept);
    uvcci_tf_truncate(b, kept, state, b->truncation);
}

/* m / sqrt(v + epsilon^2), in units in which epsilon is 2^-4: v's are finer by 2 unit, the step's
 * coarser by unit, which the rate makes good. */
static uint32_t adam(const slice *s, uint32_t g) {
    static const char *const names[] = {"RS"};
    uvcci_tf_builder *b = s->b;
    const uvcci_tf_numbers *n = &b->n;
    const uvcc_tensor_desc dg = *desc(s, g), dv = *desc(s, s->h->variance);
    const uint32_t square = transient(s, "GG", 2u * dg.bits, 2u * dg.scale);
    uint32_t root;
    uvcci_tf_times(b, UVCC_OP_ELEM_MUL, g, g, square, 0, 0);
    uvcci_tf_decay(s, first_moment, s->h->momentum, g, n->momentum_shift, true);
    uvcci_tf_decay(s, second_moment, s->h->variance, square, n->variance_shift, true);
    const uint32_t v = transient(s, "VE", dv.bits + 1u, dv.scale);
    uvcci_tf_op(b, (uvcc_op_desc){.opcode = UVCC_OP_ADD_PUBLIC,
                                  .in_count = 1,
                                  .in = {s->h->variance},
                                  .out_count = 1,
                                  .out = {v},
                                  .constant = 1ll << (VARIANCE_BITS - 8)});
    uvcci_tf_function(b, UVCC_NL_RSQRT, (uvcc_nonlinear_options){.raise = (uint8_t)(2 * n->unit)},
                      &v, names, &root);
    const uint32_t u = transient(s, "US", STEP_BITS + STEP_RANGE_BITS, STEP_BITS + n->unit);
    uvcci_tf_times(b, UVCC_OP_ELEM_MUL, s->h->momentum, root, u, 0, 0);
    return u;
}

/* u + weight_decay w, w out of the master as it is. */
static uint32_t with_decay(const slice *s, uint32_t u) {
    uvcci_tf_builder *b = s->b;
    const uvcc_tensor_desc d = *desc(s, u);
    const unsigned unit = b->c->optimizer == UVCC_OPTIMIZER_ADAMW ? b->n.unit : 0;
    const unsigned fraction = d.scale - b->n.f;
    const int64_t factor = llround(ldexp(b->c->weight_decay, (int)(fraction - unit)));
    if (!s->h->about.decays || factor == 0)
        return u;
    const uint32_t w = transient(s, "WD", b->n.weight, b->n.f);
    uvcci_tf_truncate(b, s->h->master, w, b->truncation);
    const uint32_t part =
        transient(s, "WP", b->n.weight + uvcci_tf_log2((uint64_t)factor), d.scale);
    uvcci_tf_scale(b, w, part, factor, fraction);
    const unsigned wide = desc(s, part)->bits > d.bits ? desc(s, part)->bits : d.bits;
    const uint32_t sum = transient(s, "UD", wide + 1u, d.scale);
    uvcci_tf_local(b, UVCC_OP_ADD, u, part, sum);
    return sum;
}

static uint32_t direction(const slice *s) {
    const uint32_t g = clipped(s, uvcci_tf_mean_gradient(s));
    switch (s->b->c->optimizer) {
    case UVCC_OPTIMIZER_MOMENTUM:
        uvcci_tf_decay(s, first_moment, s->h->momentum, g, s->b->n.momentum_shift, false);
        return s->h->momentum;
    case UVCC_OPTIMIZER_ADAMW:
        return adam(s, g);
    default:
        return g;
    }
}

void uvcci_tf_from_master(uvcci_tf_builder *b, const uvcci_tf_held *h, uint32_t out,
                          uint8_t truncation) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, h->master);
    uint32_t own = out;
    if (h->ways > 1)
        own = uvcci_tf_transient(b, "W", d.rows, d.cols, b->n.weight, b->n.f);
    uvcci_tf_truncate(b, h->master, own, truncation);
    if (h->ways > 1)
        uvcci_tf_gather(b, own, h->group, out);
}

uint32_t uvcci_tf_revealed(uvcci_tf_builder *b, const uvcci_tf_held *h, uint32_t block) {
    if (b->c->truncation != UVCC_TRUNC_STOCHASTIC)
        return h->tensor;
    snprintf(b->scope, sizeof b->scope, "r.%s.", h->about.name);
    uvcci_tf_enter(b, UVCC_UPD, 0, block);
    const uint32_t out =
        uvcci_tf_transient(b, "R", h->part.rows, h->part.cols, b->n.weight, b->n.f);
    uvcci_tf_from_master(b, h, out, UVCC_TRUNC_EXACT);
    return out;
}

static void update_weight(uvcci_tf_builder *b, const uvcci_tf_held *h) {
    const uvcc_tensor_desc d = *uvcci_tf_desc(b, h->master);
    const slice s = uvcci_tf_slice_of(b, h);
    const uint32_t u = with_decay(&s, direction(&s));
    const uint32_t step = transient(&s, "ST", d.bits, d.scale);
    uvcci_tf_times(b, UVCC_OP_COL_MUL, u, b->rate, step, 0, 0);
    uvcci_tf_local(b, UVCC_OP_SUB, h->master, step, h->master);
    uvcci_tf_from_master(b, h, h->tensor, b->truncation);
}

void uvcci_tf_update(uvcci_tf_builder *b) {
    assert(b->weights != NULL && b->weight_count != 0);
    uint32_t block = UVCCI_TF_BLOCK_LAYER;
    for (uint32_t i = 0; i < b->weight_count; i++) {
        if (!b->weights[i].held || b->weights[i].frozen)
            continue;
        snprintf(b->scope, sizeof b->scope, "u.%s.", b->weights[i].about.name);
        uvcci_tf_enter(b, UVCC_UPD, 0, block++);
        update_weight(b, &b->weights[i]);
    }
}
