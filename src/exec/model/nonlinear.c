/* SPDX-License-Identifier: Apache-2.0 */
/* nonlinear.c - the functions of a transformer as lists of instructions with their tables: which
 * family makes each (what there is stands in nonlinear_list.c), their options, and the memory of
 * what is built.
 *
 * A function is built twice by the same code: first without memory, to count instructions, words
 * and entries and to learn the bits of its outputs, then into one block. The builder bounds every
 * value as uvcc_function_check does, so the bits of comparisons and tables are the fewest that pass
 * it.
 */
#include "exec/model/nonlinear_impl.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- the families ---- */

/* Those that are one function; the other blocks are made of ops (nonlinear_emit.c). */
static const uvcci_nl_family *const families[UVCC_NL_COUNT] = {
    [UVCC_NL_SIGN] = &uvcci_nl_sign,
    [UVCC_NL_RELU] = &uvcci_nl_relu,
    [UVCC_NL_GELU] = &uvcci_nl_asymptotic,
    [UVCC_NL_GELU_TANH] = &uvcci_nl_asymptotic,
    [UVCC_NL_SILU] = &uvcci_nl_asymptotic,
    [UVCC_NL_GELU_DERIVATIVE] = &uvcci_nl_asymptotic,
    [UVCC_NL_GELU_TANH_DERIVATIVE] = &uvcci_nl_asymptotic,
    [UVCC_NL_SILU_DERIVATIVE] = &uvcci_nl_asymptotic,
    [UVCC_NL_SIGMOID] = &uvcci_nl_asymptotic,
    [UVCC_NL_TANH] = &uvcci_nl_asymptotic,
    [UVCC_NL_EXP] = &uvcci_nl_exp,
    [UVCC_NL_RECIPROCAL] = &uvcci_nl_reciprocal,
    [UVCC_NL_RSQRT] = &uvcci_nl_rsqrt,
    [UVCC_NL_LN] = &uvcci_nl_ln,
    [UVCC_NL_CLIP] = &uvcci_nl_clip,
    [UVCC_NL_MAX] = &uvcci_nl_max,
    [UVCC_NL_ARGMAX] = &uvcci_nl_argmax,
    [UVCC_NL_SOFTMAX] = &uvcci_nl_softmax,
};

/* ---- options, bits, memory ---- */

static bool check_options(const uvcci_nl_builder *b) {
    assert(families[b->what] != NULL && families[b->what]->build != NULL);
    const uvcc_nonlinear_options *o = &b->o;
    const uvcci_nl_family *family = families[b->what];
    return o->size == sizeof *o && o->out_scale <= UVCCI_NL_SCALE_MAX &&
           o->scale <= UVCCI_NL_SCALE_MAX && o->in_bits <= UVCCI_NL_BITS_MAX &&
           (family->fits == NULL || family->fits(b));
}

int uvcci_nonlinear_options(uvcc_nonlinear what, const uvcc_nonlinear_options *given,
                            uvcc_nonlinear_options *out) {
    if ((unsigned)what >= UVCC_NL_COUNT || (given != NULL && given->size != sizeof *given))
        return UVCC_ERR_USAGE;
    *out = given != NULL ? *given : (uvcc_nonlinear_options){.size = sizeof *out};
    if (out->scale == 0)
        out->scale = 16;
    if (out->in_bits == 0)
        out->in_bits = out->scale + 9;
    if (out->index_bits == 0)
        out->index_bits = uvcc_nonlinear_at(what)->index_bits;
    if (out->out_scale == 0)
        out->out_scale = what == UVCC_NL_EXP ? UVCC_NL_EXP_OUT_SCALE : out->scale;
    if (out->gain == 0)
        out->gain = 1;
    if (out->limit == 0)
        out->limit = 1;
    return 0;
}

/* 53 bits behind the point are all that a gain in (1/2, 1] has. */
static uvcci_fixed gain_of(const uvcc_nonlinear_options *o) {
    return o->gain > 0.5 && o->gain <= 1 ? uvcci_fixed_of((int64_t)ldexp(o->gain, 53), 53) : 0;
}

/* Counts: everything but memory is then set. */
static int begin(uvcci_nl_builder *b, uvcc_nonlinear what, const uvcc_nonlinear_options *options) {
    memset(b, 0, sizeof *b);
    b->what = what;
    int err = uvcci_nonlinear_options(what, options, &b->o);
    b->gain = gain_of(&b->o);
    if (err != 0 || families[what] == NULL || !check_options(b))
        return UVCC_ERR_USAGE;
    families[what]->build(b);
    return b->too_large ? UVCC_ERR_USAGE : 0;
}

static uint8_t scale_of(const uvcci_nl_builder *b, unsigned output) {
    const uvcci_nl_family *family = families[b->what];
    return family->scale != NULL ? family->scale(b, output) : b->o.scale;
}

static uint8_t outputs_of(const uvcci_nl_builder *b) {
    if (b->what == UVCC_NL_SOFTMAX && (b->o.loss || b->o.saved))
        return UVCCI_NL_OUT_MAX;
    const bool has = b->what == UVCC_NL_RELU || uvcci_nl_multiplies_x(b->what);
    return uvcc_nonlinear_at(b->what)->outputs + (has && b->o.derivative);
}

int uvcc_nonlinear_build(uvcc_nonlinear_fn *out, uvcc_nonlinear what,
                         const uvcc_nonlinear_options *options, const uvcc_allocator *al) {
    uvcci_nl_builder b;
    if (out == NULL || al == NULL || al->alloc == NULL || al->free == NULL)
        return UVCC_ERR_USAGE;
    int err = begin(&b, what, options);
    if (err != 0)
        return err;
    const size_t bytes = b.instr_count * sizeof *b.instrs + b.word_count * sizeof *b.words +
                         b.entry_count * sizeof *b.entries;
    void *mem = al->alloc(al->user, bytes, UVCC_MEM_STATE);
    if (mem == NULL)
        return UVCC_ERR_NOMEM;
    b.instrs = mem;
    b.words = (int64_t *)(b.instrs + b.instr_count);
    b.entries = (int32_t *)(b.words + b.word_count);
    b.instr_count = b.word_count = b.entry_count = 0;
    families[what]->build(&b);
    assert((uint8_t *)(b.entries + b.entry_count) == (uint8_t *)mem + bytes);
    *out = (uvcc_nonlinear_fn){.alloc = *al, .mem = mem, .mem_bytes = bytes};
    out->function = (uvcc_function){
        .name = uvcc_nonlinear_at(what)->name,
        .inputs = 1,
        .outputs = outputs_of(&b),
        .instr_count = (uint8_t)b.instr_count,
        .instrs = b.instrs,
    };
    return 0;
}

void uvcc_nonlinear_free(uvcc_nonlinear_fn *fn) {
    if (fn == NULL || fn->mem == NULL)
        return;
    fn->alloc.free(fn->alloc.user, fn->mem, fn->mem_bytes, UVCC_MEM_STATE);
    *fn = (uvcc_nonlinear_fn){0};
}

int uvcci_nonlinear_shape(uvcc_nonlinear what, const uvcc_nonlinear_options *options,
                          uvcci_nl_shape *out) {
    uvcci_nl_builder b;
    int err = begin(&b, what, options);
    if (err != 0)
        return err;
    const uint8_t outputs = outputs_of(&b);
    assert(outputs >= 1 && outputs <= UVCCI_NL_OUT_MAX);
    *out = (uvcci_nl_shape){.outputs = outputs};
    for (unsigned o = 0; o < outputs; o++) {
        out->bits[o] = b.out_bits[o];
        out->scale[o] = scale_of(&b, o);
    }
    return 0;
}
