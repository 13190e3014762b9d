/* SPDX-License-Identifier: Apache-2.0 */
/* function_impl.h - what the files that compile functions share: function_checks.c, on it
 * function_kinds.c (what is particular to a kind), on both function_compile.c (a list of
 * instructions). For those only. */
#ifndef UVCCI_FUNCTION_IMPL_H
#define UVCCI_FUNCTION_IMPL_H

#include "exec/base/bounds.h"
#include "exec/base/message.h"
#include "exec/program/fn_class.h"
#include "exec/program/program.h"

/* A function being compiled, and the instruction at hand. */
typedef struct uvcci_fn_compiler {
    const uvcc_function *f;
    const uint8_t *in_bits; /* NULL: no bounds are checked */
    uvcci_fn_plan *plan;
    const uvcci_message *m;
    unsigned i;
    uvcc_fn_instr s;                                   /* canonical */
    const uvcci_fn_class *class;                       /* NULL: its kind is unknown */
    const uvcci_fn_class *classes[UVCC_FN_INSTRS_MAX]; /* of all up to it */
    uvcci_fn_info *info;
    uint32_t opened, written; /* inputs and outputs seen, as bits */
} uvcci_fn_compiler;

/* `error`, with a message that names the function and the instruction. */
int uvcci_fn_refuse(const uvcci_fn_compiler *c, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* An operand: an earlier instruction whose value is of one of `kinds_allowed` (one or two letters).
 */
int uvcci_fn_check_operand(const uvcci_fn_compiler *c, char which, uint8_t index,
                           const char *kinds_allowed);
/* The masked operand must be right on `bits` bits. */
int uvcci_fn_check_mod(const uvcci_fn_compiler *c, char which, uint8_t index, unsigned bits);
/* The operand has as many columns as a. */
int uvcci_fn_check_widths(const uvcci_fn_compiler *c, char which, uint8_t index);
/* The B operand has one bit. */
int uvcci_fn_check_one_bit(const uvcci_fn_compiler *c, char which, uint8_t index);
/* The instruction's io is an output that nobody wrote before; marks it, and checks its bound. */
int uvcci_fn_write_output(uvcci_fn_compiler *c);

#endif
