/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_function_impl.h - what kernels_function.c (HEAD and TAIL) and kernels_function_deal.c
 * (OTHER) agree on: where words lie, under which lanes they are drawn, what arguments may be. For
 * those only. */
#ifndef UVCCI_KERNELS_FUNCTION_IMPL_H
#define UVCCI_KERNELS_FUNCTION_IMPL_H

#include "exec/compute/kernels_impl.h"
#include "exec/primitives/dcf.h"
#include "exec/primitives/function_layout.h"
#include "exec/primitives/spline.h"
#include <uvcc/function.h>

enum {
    WORD = 64,
    SCALAR_LANE = 2, /* of all words but those of bits (0) and of bits times r (1) */
};

/* The words of a SELECT_MUL: k' and k' r of the bit by which it is multiplied, then for each j what
 * k_j needs. */
enum { BOTH_OTHER, BOTH_FIRST = 2, BOTH_R = 0, BOTH_KK, BOTH_KKR, BOTH_EACH };

static inline const uvcc_fn_args *args(const chunk *c) {
    return c->t->u.vec.fn;
}

/* Bytes before a chunk where elements have `bits` bits. */
static inline size_t packed(const chunk *c, unsigned bits) {
    return (size_t)c->first * bits / 8;
}

/* OTHER deals and never asks. */
static inline bool is_head(const chunk *c) {
    return c->b->role == UVCC_HEAD;
}

/* HEAD's words, drawn on the pair that it has with OTHER. */
static inline void head_words(const chunk *c, unsigned pair, uint16_t call, uint8_t lane,
                              uint32_t q, uint64_t *to) {
    prg_of_call(c, call, pair, UVCC_TAG_select, lane, (uint64_t)q * BLOCK + c->first, to, c->n);
}

static inline size_t section_at(const chunk *c, uint32_t q) {
    return ((size_t)q * c->b->count + c->first) * 8;
}

static inline uvcci_spline spline_of(const uvcc_fn_args *fn) {
    return uvcci_spline_of((unsigned)fn->first, fn->word_count, fn->words);
}

static inline uvcci_multiscale multiscale_of(const uvcc_fn_args *fn) {
    return uvcci_fn_multiscale(fn->bits, fn->shift, fn->first, fn->word_count);
}

/* --- What arguments may be -------------------------------------------------------------------- */

static inline bool bits_are_sane(unsigned bits, unsigned most) {
    return bits >= 1 && bits <= most;
}

static inline bool multiscale_is_sane(const uvcc_fn_args *fn) {
    if (fn->words == NULL || fn->first < 2 || fn->first > UVCCI_MULTISCALE_CELLS_MAX)
        return false;
    const uvcci_multiscale s = multiscale_of(fn);
    return s.scales >= 1 && s.scales <= UVCCI_MULTISCALE_SCALES_MAX &&
           UVCCI_MULTISCALE_STEP * (s.scales - 1) < s.depth && s.shift + s.depth <= 64;
}

/* A dealer does not need the words. */
static inline bool spline_is_sane(const uvcc_fn_args *fn, bool deals) {
    if (!bits_are_sane(fn->bits, 63) || fn->first < 0 || fn->first > UVCCI_SPLINE_DEGREE_MAX)
        return false;
    const uvcci_spline s = spline_of(fn);
    return deals || (fn->words != NULL && s.knots >= 1 && s.knots <= UVCCI_SPLINE_KNOTS_MAX &&
                     uvcci_spline_words(s.degree, s.knots) == fn->word_count);
}

static inline bool words_are_sane(const uvcc_fn_args *fn) {
    return fn->words != NULL && bits_are_sane(fn->word_count, WORD);
}

/* Of tasks of functions: NULL is refused before anything is read. */
static inline const uvcc_fn_args *args_given(const uvcc_task *t) {
    return t->u.vec.fn;
}
static inline bool any_args(const uvcc_task *t) {
    return args_given(t) != NULL;
}
static inline bool shift_is_sane(const uvcc_task *t) {
    return any_args(t) && bits_are_sane(args_given(t)->shift, 62);
}

#endif
