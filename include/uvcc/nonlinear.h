/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/nonlinear.h - the functions that a transformer needs, as instructions and ops.
 *
 * Three ways to use it:
 *  - uvcc_nonlinear_build makes one function as instructions with its tables, to evaluate, to price
 * or to register in a program;
 *  - uvcc_nonlinear_output says what tensors a function gives for its input tensors;
 *  - uvcc_emit_nonlinear writes everything that a function needs into the entry of a program that
 *    is being built: functions, temporary tensors and ops.
 *
 * Numbers. Inputs have `scale` = f fraction bits, index cells are u = 2^-index_bits wide. Tables
 * are the real function's values rounded to the nearest entry, ties away from zero. *Fast*
 * functions take the index floor((x + r_low) / u) and hold values at the index points (|x
 * - index u| < u); *exact* ones take the exact index floor(x / u) and hold
 * values at the middle of the cells. What goes beyond tables:
 *  - GELU, SILU and the like: x [x >= 0] + T(x), T even and 0 outside a window (there the result
 *    is the asymptote 0 or x); derivatives, SIGMOID and TANH: an instruction function + T(x). The
 *    comparison and the tables share one DPF key.
 *  - EXP, fast: T[index] * exp(-low bits of the opened value) * exp(+r_low), the last factor
 *    dealt; cubic polynomials. Entries have 24
 *    fraction bits and those of exp(-index u) are 2^-19 higher, which makes the floor of the
 *    products a rounding to the nearest. Exact: exp(-hi) * exp(-lo) from two tables of 18 fraction
 * bits, lo all of t below the index. Exactly 0 from t = 13.0625 on; t < 0 must not occur (the
 *    result is 0 below -u).
 *  - RECIPROCAL, RSQRT, fast: a multiscale of parabolas over cells that grow with the argument, for
 * inputs of at least 8 or 14 fraction bits; index_bits are not used. Exact, and fast for fewer: one
 *    comparison with all octaves moves s = m 2^o to its mantissa m, 9/8 <= m < 9/4 or 9/2
 * (telescoping weights), one table gives 1 / m, one sum of bits the power of 2. RSQRT goes by pairs
 * of octaves. The ranges are [15/256, 15360) and [11/16384, 11264) of multiscales, else [9/256,
 * 4608) and [9/32768, 4608); below them they give the value of their low end, above of their high
 * end. (Within a cell, 1/15 or 1/11, of the low end fast mode may still follow the function;
 * without a multiscale within 2^-6.)
 *  - LN: like RECIPROCAL, in fast mode for [11/32, 90112), else for [9/16, 73728), where one table
 * gives ln(m), one sum of bits the multiple of ln 2.
 *  - CLIP: two comparisons on one key. In fast mode elements within a cell of an end may come out
 *    as they are or as the end.
 *  - MAX, ARGMAX: a tree over adjacent pairs, an odd last column paired with itself.
 *  - SOFTMAX: exp(m - x) times the reciprocal of its row sum, m the greatest x, in fast mode one
 * that falls short of it by less than 2^-5 log2(cols), plus that. Scales to 30, in exact mode
 * to 20. An element p is off by at most 1.2e-4 p + 1.6e-5 + 4e-6 cols p + a unit of the output (the
 * 4e-6 are 1e-6 on real rows: roundings cancel), a row's sum by 1.2e-4 + cols units; masked
 * elements are exactly 0. A row again out of what `saved` gives: (e r) >> (34 + scale of r -
 * scale of the result), r the column of 1 / sum, e the EXP of m - x with out_scale 34; in exact
 * mode the same integers, if that truncation is exact.
 *  - RMSNORM, LAYERNORM: for mean squares (variances) + epsilon from 2^-9 to 2^12, off by at most
 *    1.6e-4 of y (without beta) and the floors on the way: one unit of the output, gamma units of
 *    x, and for the mean gamma / sqrt(variance) units. Below the range the factor stops at
 * about 39. `plain` ones are the same with a gamma of 1, and no floor of a product with it.
 *
 * Scales of outputs: SIGN, ARGMAX and the second of RELU 0; EXP 36 or its out_scale; RECIPROCAL
 * 27, as has 1 / sum of a fast SOFTMAX; RSQRT and the third of norms 22; losses the greater of 18
 * and f; all others f, where SOFTMAX and the norms give whatever scale their output tensor has.
 * Bits are those that uvcc_function_check derives, so a few more than the values have.
 *
 * Entries are part of the program's hash. They are made by integers (docs/nonlinear.md, "Tables"),
 * so that they are the same on every machine.
 */
#ifndef UVCC_NONLINEAR_H
#define UVCC_NONLINEAR_H

#include <stdbool.h>
#include <uvcc/function.h>
#include <uvcc/program.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum uvcc_nonlinear {
#define UVCC_NONLINEAR(NAME, name, inputs, outputs, form, index_bits, bound, relative, low, high,  \
                       what)                                                                       \
    UVCC_NL_##NAME,
#include <uvcc/nonlinear.def>
#undef UVCC_NONLINEAR
    UVCC_NL_COUNT
} uvcc_nonlinear;

/** Fraction bits of EXP unless its out_scale says other, and of exp(m - x) within SOFTMAX; a
 * SOFTMAX's `headroom` is 2^-UVCC_NL_HEADROOM_BITS. */
#define UVCC_NL_EXP_OUT_SCALE     36u
#define UVCC_NL_SOFTMAX_EXP_SCALE 34u
#define UVCC_NL_HEADROOM_BITS     3u

typedef enum uvcc_nonlinear_form {
    UVCC_NL_ELEMENT, /**< any shape, element by element */
    UVCC_NL_ROW,     /**< rows x cols to rows x 1 */
    UVCC_NL_BLOCK,   /**< ops; of SOFTMAX there is a uvcc_function */
} uvcc_nonlinear_form;

/** A row of nonlinear.def. */
typedef struct uvcc_nonlinear_info {
    const char *name, *what;
    uint8_t form; /**< uvcc_nonlinear_form */
    uint8_t inputs, outputs, index_bits;
    bool relative;
    double bound, low, high;
} uvcc_nonlinear_info;

/** NULL if there is no such function. */
UVCC_API const uvcc_nonlinear_info *uvcc_nonlinear_at(uvcc_nonlinear what);
/** Its number by name, or UVCC_ERR_NOT_FOUND. */
UVCC_API int uvcc_nonlinear_find(const char *name);

/** 0 means the default. What a function does not use is ignored. */
typedef struct uvcc_nonlinear_options {
    size_t size;        /**< sizeof(uvcc_nonlinear_options) */
    uint8_t scale;      /**< f of the input, at most 48; 0: 16. Emitting takes it from the tensor */
    uint8_t in_bits;    /**< declared bits of the input, at most 61; 0: f + 9 */
    uint8_t index_bits; /**< 0: as in nonlinear.def. 4 to min(12, f); EXP below f, and in exact mode
                             at least f - 16; RECIPROCAL and LN (of the mantissa) to 15, RSQRT to
                             14 */
    bool exact;         /**< index mode, and exact truncations in blocks */
    bool dcf;           /**< blocks in exact mode: their ops truncate by UVCC_TRUNC_EXACT_DCF */
    bool derivative;    /**< RELU (d = [x >= 0]), GELU, GELU_TANH, SILU: the derivative is a second
                             output */
    bool causal;        /**< SOFTMAX, CROSS_ENTROPY_GRADIENT: element j of row i counts only for
                             j <= i mod cols; rows must be a multiple of cols */
    bool shallow;       /**< MAX: groups of four instead of pairs: fewer rounds, more keys */
    uint8_t out_scale;  /**< SOFTMAX, built: fraction bits of the result, 0: f. Emitting takes it
                           from  the tensor. EXP: 19 to 36, 0: 36 */
    uint32_t cols;      /**< ROW, SOFTMAX: columns, 1 to 65536 */
    bool saved;         /**< norms: two more outputs, the normalised x (before gamma) and the column
                             of 1 / sqrt(..) that made it; where `plain`, the column only. SOFTMAX
                             (without `loss`): two more, the columns of m and of 1 / sum of
                             exp(m - x), from which a row is made again without a comparison */
    bool headroom;      /**< SOFTMAX: m is 2^-3 more, so that it stays above rows that are computed
                             and rounded again */
    bool plain;         /**< norms: without gamma and beta, x is the only input */
    bool loss;          /**< CROSS_ENTROPY_GRADIENT: a second output, the column of losses in nats,
                             ln(sum of exp(x)) - x of the one-hot's element. SOFTMAX, built: two
                             more outputs, the columns of m and of ln(sum of exp(x - m)) */
    double gain;        /**< RSQRT: factor in (1/2, 1]; 0: 1 */
    double epsilon;     /**< norms: added to the mean square or variance; 0: none */
    uint8_t raise;      /**< emitting an ELEMENT function: it is of 2^raise x */
    double limit; /**< CLIP; in fast mode a multiple of 2^-index_bits, else rounded to one; 0: 1 */
} uvcc_nonlinear_options;

/** A built function. `function` and all it points to stay valid until uvcc_nonlinear_free. */
typedef struct uvcc_nonlinear_fn {
    uvcc_function function;
    uvcc_allocator alloc;
    void *mem;
    size_t mem_bytes;
} uvcc_nonlinear_fn;

/** Builds the function of `what` (of BLOCKs only SOFTMAX, without its mask), of one input. options
 * may be NULL. UVCC_ERR_USAGE: no such function or options, or a scale at which values of its
 * tables need more than 32 bits (GELU and SILU, derivatives, SIGMOID, TANH: above 31 to 34).
 * UVCC_ERR_NOMEM. */
UVCC_API int uvcc_nonlinear_build(uvcc_nonlinear_fn *out, uvcc_nonlinear what,
                                  const uvcc_nonlinear_options *options,
                                  const uvcc_allocator *al) UVCC_MUST_USE;
UVCC_API void uvcc_nonlinear_free(uvcc_nonlinear_fn *fn);

/** Tensors of the outputs for input tensors in[]: rows, cols, bits and scale are set, lifetime is
 * TRANSIENT, in_buffer_of none and name NULL. Returns their number or UVCC_ERR_USAGE. The scale of
 * SOFTMAX and of the norms is a suggestion (f). */
UVCC_API int uvcc_nonlinear_output(uvcc_nonlinear what, const uvcc_nonlinear_options *options,
                                   const uvcc_tensor_desc *in, uvcc_tensor_desc *out);

/** Where ops go: the open entry of a program, in one phase. */
typedef struct uvcc_emit {
    uvcc_program *program;
    uint8_t phase;        /**< uvcc_phase */
    uint16_t mb;          /**< microbatch */
    uint16_t k;           /**< k of the next op; each op takes one */
    const char *prefix;   /**< of names of temporaries: at most 40 bytes, unique in the program */
    uint32_t temporaries; /**< temporary tensors made so far; begin with 0 */
    const uvcc_allocator *alloc; /**< for tables while they are copied */
} uvcc_emit;

/** Emits `what` on tensors in[] to tensors out[], which must have the shapes of
 * uvcc_nonlinear_output and (all but the scale of BLOCKs) its scales and at least its bits.
 * Temporary tensors are TRANSIENT. Returns 0, UVCC_ERR_USAGE, what the program's calls return, or
 * UVCC_ERR_NOMEM; after an error the entry may have part of the ops and the program is of no
 * further use. */
UVCC_API int uvcc_emit_nonlinear(uvcc_emit *emit, uvcc_nonlinear what,
                                 const uvcc_nonlinear_options *options, const uint32_t *in,
                                 const uint32_t *out);

#ifdef __cplusplus
}
#endif
#endif
