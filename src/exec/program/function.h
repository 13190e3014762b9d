/* SPDX-License-Identifier: Apache-2.0 */
/* function.h - functions inside a program: a copy that the program owns, and the compiled form that
 * plans and sessions work from. */
#ifndef UVCCI_FUNCTION_H
#define UVCCI_FUNCTION_H

#include "exec/primitives/function_layout.h"
#include <assert.h>
#include <stdbool.h>
#include <uvcc/program.h>

/* What is known of an instruction before anything runs. */
typedef struct uvcci_fn_info {
    uint8_t value; /* 'M', 'B', 'A' or 0 (LIFT) */
    uint8_t turn;  /* rounds that must be over before it can start; a sending instruction sends in
                      round  `turn` and its value is there in turn + 1 */
    uint8_t last;  /* last turn that reads its value */
    bool sends;
    bool index;     /* M: a SHIFT, LOW or differences of one: for COMPARE and tables */
    uint32_t width; /* columns of its value */
    uint8_t mod;    /* M: bits that are right: 64, or fewer after a short OPEN or a SHIFT */
    uint8_t key; /* COMPARE, tables: the instruction that owns the DPF key (itself or the earliest
                    one with the same operand and bits); MULTISCALE, FLOOR, SPLINE: itself */
    bool pads;   /* M: its own part of the mask is wanted (SELECT, ADD, or a pair that is) */
    bool dealer; /* M: OTHER needs r; B: OTHER needs k */
    uint32_t words; /* 64-bit words that TAIL gets per element for this instruction */
    uint64_t bound; /* |value| <= bound for A and M (UINT64_MAX: none known) */
} uvcci_fn_info;

typedef struct uvcci_fn_plan {
    uint8_t rounds;
    bool one_edge; /* all blocks on one edge: widths change on the way, or columns count */
    uvcci_fn_info instr[UVCC_FN_INSTRS_MAX];
} uvcci_fn_plan;

/* Fills the plan for inputs of `cols` columns; the message names the instruction. in_bits may be
 * NULL: bounds are not checked then. */
int uvcci_fn_compile(const uvcc_function *f, uint32_t cols, const uint8_t *in_bits,
                     uvcci_fn_plan *plan, char *message, size_t message_cap);
/* Its name, for messages. */
static inline const char *uvcci_fn_name(const uvcc_function *f) {
    return f->name != NULL ? f->name : "(no name)";
}
/* The instruction without what its kind does not use: operands and io UVCC_FN_NONE, the rest 0. */
uvcc_fn_instr uvcci_fn_canonical(const uvcc_fn_instr *s);

/* Inputs of an op that runs a function, and what it makes of them. */
typedef struct uvcci_fn_use {
    uint32_t rows, cols; /* 0: no such op yet */
    uint8_t in_bits[UVCC_OP_MAX_IN];
    uint8_t out_bits[UVCC_OP_MAX_OUT];
    uint32_t out_cols[UVCC_OP_MAX_OUT];
} uvcci_fn_use;

/* A copy of a function, in one block of memory with all that it points to. */
typedef struct uvcci_function {
    uvcc_function f;
    size_t bytes;
    /* The last that passed while the program is checked: thousands of ops ask the same, and each
     * answer reads all tables. */
    uvcci_fn_use checked;
} uvcci_function;
/* A canonical copy. UVCC_ERR_USAGE, UVCC_ERR_LIMIT: what cannot be copied; nothing else is checked.
 */
int uvcci_fn_copy(uvcci_function **out, const uvcc_function *f, const uvcc_allocator *al);

/* Whether an instruction owns a key: a MULTISCALE, FLOOR or SPLINE, and the first COMPARE or table
 * of those that share it. */
static inline bool uvcci_fn_owns_key(const uvcc_function *f, const uvcci_fn_plan *plan,
                                     unsigned instr) {
    assert(instr < f->instr_count);
    return plan->instr[instr].key == instr;
}
/* Bytes of the correction words of an instruction's own key for c elements, the same for HEAD and
 * TAIL. */
uint32_t uvcci_fn_key_bytes(const uvcc_fn_instr *s, uint32_t c);
/* Whether a kind takes a third operand. */
bool uvcci_fn_has_third(uint8_t kind);
/* A kind's name, for messages. */
const char *uvcci_fn_kind_name(uint8_t kind);
/* Bytes of the key stream of a block of c elements of `width` columns, TAIL's or HEAD's. */
uint64_t uvcci_fn_stream_bytes(const uvcc_function *f, const uvcci_fn_plan *plan, uint32_t width,
                               bool tail, uint32_t c);
#endif
