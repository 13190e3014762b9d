/* SPDX-License-Identifier: Apache-2.0 */
/* fn_class.h - an instruction of a function is a class: one row for each kind, which says what the
 * instruction is called and takes, how it is checked and bounded, who needs the masks of what it
 * reads, what it sends and what its key weighs. The rows stand in function_kinds.c; compiling,
 * copies, plans and costs read them, and know no kind by name. What sessions do for a kind has a
 * table of its own (ops/functions_impl.h). The plaintext definition (function_eval.c) reads none of
 * them: it is the oracle. */
#ifndef UVCCI_FN_CLASS_H
#define UVCCI_FN_CLASS_H

#include "exec/program/function.h"

/* Fields of uvcc_fn_instr that a kind uses beside its operands. */
enum {
    UVCCI_FN_USES_BITS = 1,
    UVCCI_FN_USES_SHIFT = 2,
    UVCCI_FN_USES_IO = 4,
    UVCCI_FN_USES_FIRST = 8,
    UVCCI_FN_USES_CONSTANT = 16,
    UVCCI_FN_USES_ENTRIES = 32,
    UVCCI_FN_USES_WORDS = 64,
    UVCCI_FN_USES_FACTORS = 128, /* words and constant where there is a shift, else neither */
};

/* What a kind is like. */
enum {
    UVCCI_FN_READS_INDEX = 1,  /* its operand may be a SHIFT, a LOW or differences of one */
    UVCCI_FN_SHARES_KEY = 2,   /* its DPF key is that of the first with the same operand and bits */
    UVCCI_FN_LOOKS_UP = 4,     /* entries, by the sign of a key's terminal */
    UVCCI_FN_LATE_FACTORS = 8, /* operands b and c are wanted when its round is over, not before */
    UVCCI_FN_ONE_EDGE = 16,    /* widths change or columns count: all blocks have one edge */
    UVCCI_FN_SPREADS = 32,     /* a is a single column, b gives the width */
    UVCCI_FN_WRITES = 64,      /* an output, where io names one */
};

enum { UVCCI_FN_WORDS_MOST = 64, UVCCI_FN_VECTORS_MAX = 2 };

/* A vector that an instruction sends. */
typedef struct uvcci_fn_vector {
    uint8_t protocol; /* uvcci_protocol */
    bool fss;         /* its ids are fss ids */
    uint8_t stream;   /* uvcci_stream_name */
    uint8_t bits;     /* of an element */
} uvcci_fn_vector;

struct uvcci_fn_compiler;

typedef struct uvcci_fn_class {
    const char *name;
    const char *a, *b; /* kinds of values that operands may have; NULL: there is no such operand */
    uint8_t value;     /* 'M', 'B', 'A' or 0 */
    bool b_optional;
    uint8_t uses, traits;
    uint16_t words_most; /* that a copy may have; 0: UVCCI_FN_WORDS_MOST */
    /* Checks operand c; NULL: there is none. */
    int (*third)(const struct uvcci_fn_compiler *c);
    /* Checks the other fields; sets width, bits, words, bound and key of its value. */
    int (*compile)(struct uvcci_fn_compiler *c);
    /* Marks the operands whose masks it needs; what reads its own value has been asked before.
     * NULL: it needs none. */
    void (*masks)(const uvcc_fn_instr *s, const uvcci_fn_info *own, uvcci_fn_info *info);
    /* What it sends in its round, and how many; `lift` is the protocol of the op's lifts. NULL:
     * nothing. */
    unsigned (*sends)(const uvcc_fn_instr *s, uint8_t lift,
                      uvcci_fn_vector out[UVCCI_FN_VECTORS_MAX]);
    /* Bytes of the correction words of its own key for c elements; NULL: it has no key. */
    uint32_t (*key_bytes)(const uvcc_fn_instr *s, uint32_t c);
    /* The lowest bits of the mask that it rounds with; NULL: none. */
    unsigned (*low_bits)(const uvcc_fn_instr *s);
} uvcci_fn_class;

/* NULL: there is no such kind. */
const uvcci_fn_class *uvcci_fn_class_of(uint8_t kind);

#endif
