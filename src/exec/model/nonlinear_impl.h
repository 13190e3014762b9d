/* SPDX-License-Identifier: Apache-2.0 */
/* nonlinear_impl.h - what the files share that make the functions of a transformer. From below: the
 * list of what there is (nonlinear_list.c), a builder of instructions (nonlinear_instr.c), the
 * curves behind tables (nonlinear_curves.c), tables and exact indices (nonlinear_tables.c); by
 * subject nonlinear_window.c (steps, GELU and its like), nonlinear_exp.c, nonlinear_octaves.c
 * (reciprocal, rsqrt, ln) and, on those two, nonlinear_rows.c (maxima, softmax); above them
 * nonlinear.c, which knows the family of each function. For those only. */
#ifndef UVCCI_NONLINEAR_IMPL_H
#define UVCCI_NONLINEAR_IMPL_H

#include "exec/base/bounds.h"
#include "exec/base/fixed.h"
#include "exec/model/nonlinear.h"
#include "exec/primitives/multiscale.h"
#include "exec/program/function.h"

/* ---- the builder: every instruction's bound is carried along, as uvcc_function_check does it ----
 */

enum { UVCCI_NL_WORDS_MAX = 64 };

typedef struct uvcci_nl_builder {
    uvcc_nonlinear_options o; /* with its defaults filled in */
    uvcc_nonlinear what;
    uvcci_fixed gain;      /* of the options; 0: none that RSQRT takes */
    uvcc_fn_instr *instrs; /* NULL, as words and entries are, while their room is counted */
    int64_t *words;
    int32_t *entries;
    uint32_t instr_count, word_count, entry_count;
    uint64_t bound[UVCC_FN_INSTRS_MAX]; /* |value| <= bound */
    uint8_t out_bits[UVCCI_NL_OUT_MAX];
    bool too_large; /* a table's entry */
} uvcci_nl_builder;

extern const int64_t uvcci_nl_zero[1], uvcci_nl_one[1]; /* words */

static inline uint64_t uvcci_nl_all_below(unsigned bits) {
    return (1ull << bits) - 1;
}
uint64_t uvcci_nl_sum_of(const int64_t *words, uint32_t count);

/* All give the index of the instruction. put: with a bound of its value; put_words: a copy, where
 * there is memory for it. */
uint8_t uvcci_nl_put(uvcci_nl_builder *b, uvcc_fn_instr s, uint64_t bound);
const int64_t *uvcci_nl_put_words(uvcci_nl_builder *b, const int64_t *words, uint32_t count);
/* declared: bits of the input; opened: how many low bits are wanted. */
uint8_t uvcci_nl_open(uvcci_nl_builder *b, uint8_t io, unsigned declared, unsigned opened);
uint8_t uvcci_nl_one_operand(uvcci_nl_builder *b, uvcc_fn_kind kind, uint8_t a, uint64_t bound);
/* Of two M instructions. */
uint8_t uvcci_nl_two_operands(uvcci_nl_builder *b, uvcc_fn_kind kind, uint8_t x, uint8_t y,
                              uint64_t bound);
uint8_t uvcci_nl_shift(uvcci_nl_builder *b, uint8_t a, unsigned by);
uint8_t uvcci_nl_truncate(uvcci_nl_builder *b, uint8_t a, unsigned by);
uint8_t uvcci_nl_compare(uvcci_nl_builder *b, uint8_t a, uint8_t bits, const int64_t *words,
                         uint32_t count);
/* SELECT of the M instruction y, or BITS where that is UVCC_FN_NONE; SELECT_MUL. */
uint8_t uvcci_nl_weigh(uvcci_nl_builder *b, uint8_t bits, uint8_t y, const int64_t *words,
                       uint32_t count);
uint8_t uvcci_nl_weigh_both(uvcci_nl_builder *b, uint8_t bits, uint8_t bit, uint8_t y,
                            const int64_t *words, uint32_t count);
uint8_t uvcci_nl_add(uvcci_nl_builder *b, uint8_t x, uint8_t y, int64_t constant);
/* bits: what the author knows of the value; 0: nothing. */
uint8_t uvcci_nl_exchange(uvcci_nl_builder *b, uint8_t a, unsigned bits);
uint8_t uvcci_nl_exchange_to(uvcci_nl_builder *b, uint8_t a, uint8_t io, unsigned bits);
void uvcci_nl_lift(uvcci_nl_builder *b, uint8_t a, uint8_t io);
void uvcci_nl_lift_known(uvcci_nl_builder *b, uint8_t a, uint8_t io, unsigned bits);

/* ---- what several functions ask of their options ---- */

/* Tables have at most 65536 entries; the index has at most the input's fraction bits. */
bool uvcci_nl_index_fits(const uvcci_nl_builder *b);
/* The greatest error that the list has for it. */
uvcci_fixed uvcci_nl_bound(uvcc_nonlinear what);
/* A row has from 1 to 65536 columns. */
bool uvcci_nl_columns_fit(const uvcci_nl_builder *b);

/* ---- curves ---- */

/* A table's value at a point. */
typedef struct uvcci_nl_curve {
    uvcc_nonlinear what;
    uvcci_fixed gain; /* of RSQRT */
} uvcci_nl_curve;
uvcci_fixed uvcci_nl_value_at(const uvcci_nl_curve *c, uvcci_fixed x);
/* 1: the value at -x is that at x, -1: it is minus that, 0: neither. */
int uvcci_nl_parity(const uvcci_nl_curve *c);
/* Whether the function is x d + a table, and its derivative then. */
bool uvcci_nl_multiplies_x(uvcc_nonlinear what);
uvcc_nonlinear uvcci_nl_derivative_of(uvcc_nonlinear what);
/* Half the width, in cells, of the window outside which what is left of a function when its
 * asymptote is taken off is below half the error bound. */
uint32_t uvcci_nl_half_window(uvcc_nonlinear what, unsigned index_bits);

/* ---- tables ---- */

typedef struct uvcci_nl_window {
    int64_t first;
    uint32_t count;
    uint8_t index_bits, scale; /* fraction bits of the index and of the entries */
    bool middle;               /* entries are values at the middle of the cells */
    uint8_t raise;             /* units added to entries whose product is floored */
} uvcci_nl_window;

/* Bits of a DPF for values up to reach: every distance to an argument, and every entry, fits. */
uint8_t uvcci_nl_table_bits(uint64_t reach, const uvcci_nl_window *w);
/* Puts the entries and gives the greatest. */
const int32_t *uvcci_nl_put_entries(uvcci_nl_builder *b, const uvcci_nl_window *w,
                                    const uvcci_nl_curve *c, uint64_t *most);
/* TABLE on the index instruction a, times the A instruction y unless that is UVCC_FN_NONE. */
uint8_t uvcci_nl_table(uvcci_nl_builder *b, uint8_t a, uint8_t y, uint8_t bits,
                       const uvcci_nl_window *w, const uvcci_nl_curve *c);

/* ---- exact indices ---- */

/* floor(x / 2^s) = index - 1 + kept: `index` is the SHIFT, which is one more where the low bits of
 * x and of the mask carry, `kept` a bit that says that they do not. So a function F of the floor is
 * F(index - 1) and, where kept, F(index) - F(index - 1) more: no round more than a function of the
 * index. */
typedef struct uvcci_nl_index {
    uint8_t index, low, kept;
} uvcci_nl_index;

uvcci_nl_index uvcci_nl_exact_shift(uvcci_nl_builder *b, uint8_t x, unsigned by);
/* Bits of a DPF for both tables of an exact index, and for comparing it with 1. */
uint8_t uvcci_nl_exact_bits(uint64_t reach, const uvcci_nl_window *w);
/* The table's value at an exact index, plus `jump` where that is 0 and index - 1 is not; times the
 * M or TABLE instruction m unless that is UVCC_FN_NONE. */
uint8_t uvcci_nl_exact_table(uvcci_nl_builder *b, const uvcci_nl_index *i, uint8_t m, uint8_t bits,
                             const uvcci_nl_window *w, const uvcci_nl_curve *c, int64_t jump);
/* floor(x / 2^by), as TRUNC but for what carries. */
uint8_t uvcci_nl_truncate_exactly(uvcci_nl_builder *b, uint8_t x, unsigned by);

/* ---- exp ---- */

/* EXP_SCALE is that of both factors of the result and of exact results. Tables and the first cubic
 * have 24 bits, so with the 30 that a table drops their product has 18; HALF_UNIT makes its floor a
 * rounding to the nearest. */
enum { UVCCI_NL_EXP_SCALE = 18 };
/* exp(-t) = exp(-index u) exp(-low) exp(r_low): index u + low - r_low = t. t is the M instruction
 * x; the dealt factor has dealt_scale bits, at most UVCCI_NL_EXP_SCALE. */
uint8_t uvcci_nl_exp_of(uvcci_nl_builder *b, uint8_t x, unsigned index_bits, unsigned dealt_scale);
/* exp(-t) = exp(-high) exp(-low) from two tables: high a multiple of a cell, low the rest. The
 * result has UVCCI_NL_EXP_SCALE + low_scale fraction bits. */
uint8_t uvcci_nl_exact_exp_of(uvcci_nl_builder *b, uint8_t x, unsigned index_bits,
                              unsigned low_scale);

/* ---- octaves ---- */

/* A range cut into groups of octaves: group k is [c 2^(low + step k), c 2^(low + step (k + 1)))
 * with c = LEAD / 8. Its values times 2^(step (groups - 1 - k)) lie in the top group, and divided
 * by 2^top they are mantissas m from c on: for the same relative error cells may be c times as wide
 * as with mantissas from 1 on, which saves a bit of the index. */
typedef struct uvcci_nl_octaves {
    unsigned low, step, groups, top;
    unsigned below; /* octaves from low to 1 */
    uint8_t entry_scale;
} uvcci_nl_octaves;

uvcci_nl_octaves uvcci_nl_octaves_from(unsigned scale, unsigned below, unsigned step,
                                       unsigned groups, unsigned entry_scale);
/* Fraction bits of the table's entry times the power of 2. */
unsigned uvcci_nl_octaves_scale(const uvcci_nl_octaves *v);
/* A normalisation: the comparisons with all octaves, and the value in the top group. */
typedef struct normal {
    uint8_t group, value; /* B, A */
} normal;

/* With an exact index of the mantissa: where the table is looked up, and the group as an M value.
 */
typedef struct uvcci_nl_located {
    normal n;
    uvcci_nl_index index;
    unsigned index_bits;
} uvcci_nl_located;

uvcci_nl_located uvcci_nl_locate(uvcci_nl_builder *b, uint8_t x, const uvcci_nl_octaves *v,
                                 unsigned index_bits);
/* 1 / x or gain / sqrt(x), or where ln_scale is not 0 ln x; and the bits of that. */
uint8_t uvcci_nl_looked_up(uvcci_nl_builder *b, const uvcci_nl_located *l,
                           const uvcci_nl_octaves *v, const uvcci_nl_curve *c, unsigned ln_scale);
unsigned uvcci_nl_octaves_bits(const uvcci_nl_octaves *v, unsigned ln_scale);
/* A multiscale for arguments from cells 2^-finest on, over `scales` pairs of octaves; its words
 * have `fine` fraction bits, the result has `scale` (0: that of the argument). */
typedef struct uvcci_nl_slope {
    unsigned cells, finest, scales, fine, scale;
} uvcci_nl_slope;

extern const uvcci_nl_slope uvcci_nl_ln_slope, uvcci_nl_sum_slope;
/* The curve's value at the M instruction x, which has `scale` fraction bits, at least s->finest;
 * the result has out_scale of them. */
uint8_t uvcci_nl_along(uvcci_nl_builder *b, const uvcci_nl_slope *s, const uvcci_nl_curve *c,
                       uint8_t x, unsigned scale, unsigned out_scale);

/* ---- functions ---- */

/* How a function is made. */
typedef struct uvcci_nl_family {
    void (*build)(uvcci_nl_builder *b);
    /* Whether the options suit it, beyond what suits all; NULL: whatever they are. */
    bool (*fits)(const uvcci_nl_builder *b);
    /* Fraction bits of an output; NULL: those of the input. */
    uint8_t (*scale)(const uvcci_nl_builder *b, unsigned output);
} uvcci_nl_family;
extern const uvcci_nl_family uvcci_nl_sign, uvcci_nl_relu, uvcci_nl_clip, uvcci_nl_asymptotic,
    uvcci_nl_exp, uvcci_nl_reciprocal, uvcci_nl_rsqrt, uvcci_nl_ln, uvcci_nl_max, uvcci_nl_argmax,
    uvcci_nl_softmax;

#endif
