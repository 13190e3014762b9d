/* SPDX-License-Identifier: Apache-2.0 */
/* function_layout.h - what the tasks of functions and those who plan them must agree on: where the
 * parts of a function's key stream lie, the groups of four of a maximum, the factor of a table. */
#ifndef UVCCI_FUNCTION_LAYOUT_H
#define UVCCI_FUNCTION_LAYOUT_H

#include "exec/primitives/dcf.h"
#include "exec/primitives/multiscale.h"
#include "exec/primitives/spline.h"
#include <assert.h>
#include <stdbool.h>
#include <uvcc/function.h>

/* Bytes of CW(n) for c elements. */
static inline uint32_t uvcci_cw_bytes(unsigned n, uint32_t c) {
    const uint32_t depth = n > 7 ? n - 7 : 0;
    assert(n <= 64);
    return c * (16 * depth + 16 + (2 * depth + 7) / 8);
}
static inline uvcci_multiscale uvcci_fn_multiscale(unsigned bits, unsigned shift, int64_t first,
                                                   uint32_t word_count) {
    const unsigned cells = (unsigned)first;
    assert(first >= 1 && first <= UVCCI_MULTISCALE_CELLS_MAX);
    return (uvcci_multiscale){
        bits, word_count / (UVCCI_MULTISCALE_WORDS * UVCCI_MULTISCALE_SPAN * cells), shift, cells};
}
/* CW(n) as FN tasks have it: levels (depth * c * 16), terminals (c * 16), control bits. */

/* Groups of four: six pairs of columns, and the three columns beside the last. Column k is the
 * greatest where, for j < 3, the bit of pair[j] is not lost[j]; less_last is its pair with the
 * last. */
enum { UVCCI_FN_QUAD_PAIRS = 6, UVCCI_FN_QUAD_OTHERS = 3 };
extern const uint8_t uvcci_fn_quad[UVCCI_FN_QUAD_PAIRS][2];
typedef struct uvcci_fn_candidate {
    uint8_t pair[UVCCI_FN_QUAD_OTHERS];
    bool lost[UVCCI_FN_QUAD_OTHERS];
    uint8_t less_last;
} uvcci_fn_candidate;
extern const uvcci_fn_candidate uvcci_fn_candidates[UVCCI_FN_QUAD_OTHERS];
/* QUAD_BEST: for each candidate the first 7 of 8 indicators of three bits, and those times r. */
enum {
    UVCCI_FN_BEST_ROWS = 7,
    UVCCI_FN_BEST_WORDS = 2 * UVCCI_FN_BEST_ROWS * UVCCI_FN_QUAD_OTHERS
};

/* z(c, l) of UVCC_FN_TABLE, mod 2^64 with signed shifts; l < 2^s, s <= 63. */
static inline uint64_t uvcci_fn_factor(const int64_t c[4], uint64_t l, unsigned s) {
    uint64_t z = (uint64_t)c[3];
    for (unsigned i = 3; i-- != 0;)
        z = (uint64_t)c[i] + (uint64_t)((int64_t)(l * z) >> s);
    return z;
}

#endif
