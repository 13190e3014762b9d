/* function.h - functions inside a program: a copy that the program owns, and the compiled form that
 * plans and sessions work from. */
#ifndef UVCCI_FUNCTION_H
#define UVCCI_FUNCTION_H

#include "exec/dcf.h"
#include "exec/ladder.h"
#include "exec/spline.h"
#include <stdbool.h>
#include <uvcc/function.h>

/* What is known of a step before anything runs. */
typedef struct uvcci_fn_info {
    uint8_t value; /* 'M', 'B', 'A' or 0 (LIFT) */
    uint8_t stage; /* rounds that must be over before it can start; a sending step sends in round
                      `stage` and its value is there in stage + 1 */
    uint8_t last;  /* last stage that reads its value */
    bool sends;
    bool index;     /* M: a SHIFT, LOW or differences of one: for COMPARE and tables */
    uint32_t width; /* columns of its value */
    uint8_t mod;    /* M: bits that are right: 64, or fewer after a short OPEN or a SHIFT */
    uint8_t key;    /* COMPARE, tables: the step that owns the DPF key (itself or the earliest one
                       with the same operand and bits); LADDER, FLOOR, SPLINE: itself */
    bool pads;      /* M: its own part of the mask is wanted (SELECT, ADD, or a pair that is) */
    bool dealer;    /* M: OTHER needs r; B: OTHER needs k */
    uint32_t words; /* 64-bit words that TAIL gets per element for this step */
    uint64_t bound; /* |value| <= bound for A and M (UINT64_MAX: none known) */
} uvcci_fn_info;

typedef struct uvcci_fn_plan {
    uint8_t rounds;
    bool one_edge; /* all blocks on one edge: widths change on the way, or columns count */
    uvcci_fn_info step[UVCC_FN_STEPS_MAX];
} uvcci_fn_plan;

/* Fills the plan for inputs of `cols` columns; the message names the step. in_bits may be NULL:
 * bounds are not checked then. */
int uvcci_fn_compile(const uvcc_function *f, uint32_t cols, const uint8_t *in_bits,
                     uvcci_fn_plan *plan, char *message, size_t message_cap);
/* Its name, for messages. */
const char *uvcci_fn_name(const uvcc_function *f);
/* The step without what its kind does not use: operands and io UVCC_FN_NONE, the rest 0. */
uvcc_fn_step uvcci_fn_canonical(const uvcc_fn_step *s);

/* A copy of a function, in one block of memory with all that it points to. */
typedef struct uvcci_function {
    uvcc_function f;
    size_t bytes;
} uvcci_function;
/* A canonical copy. UVCC_ERR_USAGE, UVCC_ERR_LIMIT: what cannot be copied; nothing else is checked.
 */
int uvcci_fn_copy(uvcci_function **out, const uvcc_function *f, const uvcc_allocator *al);

/* Whether a step looks entries up. */
static inline bool uvcci_fn_is_table(uint8_t kind) {
    return kind == UVCC_FN_TABLE || kind == UVCC_FN_TABLE_MUL;
}
static inline bool uvcci_fn_has_third(uint8_t kind) {
    return kind == UVCC_FN_TABLE_MUL || kind == UVCC_FN_SELECT_MUL;
}
/* Whether a step owns a key: a LADDER, FLOOR or SPLINE, and the first COMPARE or table of those
 * that share it. */
static inline bool uvcci_fn_owns_key(const uvcc_function *f, const uvcci_fn_plan *plan,
                                     unsigned step) {
    const uint8_t kind = f->steps[step].kind;
    return (kind == UVCC_FN_COMPARE || uvcci_fn_is_table(kind) || kind == UVCC_FN_LADDER ||
            kind == UVCC_FN_FLOOR || kind == UVCC_FN_SPLINE) &&
           plan->step[step].key == step;
}
/* A kind's name, for messages. */
const char *uvcci_fn_kind_name(uint8_t kind);
/* Bytes of CW(n) for c elements. */
static inline uint32_t uvcci_cw_bytes(unsigned n, uint32_t c) {
    const uint32_t depth = n > 7 ? n - 7 : 0;
    return c * (16 * depth + 16 + (2 * depth + 7) / 8);
}
static inline uvcci_ladder uvcci_fn_ladder(unsigned bits, unsigned shift, int64_t first,
                                           uint32_t word_count) {
    const unsigned cells = (unsigned)first;
    return (uvcci_ladder){bits, word_count / (UVCCI_LADDER_WORDS * UVCCI_LADDER_SPAN * cells), shift,
                          cells};
}
/* Bytes of the correction words of a step's own key for c elements, the same for HEAD and TAIL. */
static inline uint32_t uvcci_fn_key_bytes(const uvcc_fn_step *s, uint32_t c) {
    if (s->kind == UVCC_FN_FLOOR)
        return (uint32_t)uvcci_dcf_bytes(s->shift, 1, c);
    if (s->kind == UVCC_FN_SPLINE)
        return (uint32_t)uvcci_dcf_bytes(s->bits, (unsigned)s->first + 1, c);
    if (s->kind != UVCC_FN_LADDER)
        return uvcci_cw_bytes(s->bits, c);
    const uvcci_ladder l = uvcci_fn_ladder(s->bits, s->shift, s->first, s->word_count);
    return (uint32_t)uvcci_ladder_bytes(l.depth, l.rungs, c);
}
/* Bytes of the key stream of a block of c elements of `width` columns, TAIL's or HEAD's. */
uint64_t uvcci_fn_stream_bytes(const uvcc_function *f, const uvcci_fn_plan *plan, uint32_t width,
                               bool tail, uint32_t c);
/* CW(n) as FN tasks have it: levels (depth * c * 16), leaves (c * 16), control bits. */

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
