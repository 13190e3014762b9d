/* SPDX-License-Identifier: Apache-2.0 */
/* function_checks.c - checks of an instruction that the compiler and several kinds make, and what
 * they say when they refuse. It stands below the table of kinds: whose class an instruction is says
 * the compiler's state. */
#include "exec/program/function_impl.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- operands ---- */

int uvcci_fn_refuse(const uvcci_fn_compiler *c, int error, const char *format, ...) {
    char what[192];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return uvcci_fail(c->m, error, "function %s, instruction %u (%s): %s", uvcci_fn_name(c->f),
                      c->i, c->class != NULL ? c->class->name : "?", what);
}

static const char *kind_of_value(char value) {
    return value == 'M' ? "masked" : value == 'B' ? "bits" : value == 'A' ? "additive" : "none";
}

int uvcci_fn_check_operand(const uvcci_fn_compiler *c, char which, uint8_t index,
                           const char *kinds_allowed) {
    if (index >= c->i)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM,
                               "operand %c is instruction %u; it must be an earlier instruction",
                               which, index);
    assert(c->class != NULL && kinds_allowed[0] != 0);
    assert(c->classes[index] != NULL);
    const char *name = c->classes[index]->name;
    const char value = (char)c->plan->instr[index].value;
    if (value == 0 || strchr(kinds_allowed, value) == NULL)
        return uvcci_fn_refuse(
            c, UVCC_ERR_PROGRAM,
            "operand %c is instruction %u (%s), its value is %s; it must be %s%s%s", which, index,
            name, kind_of_value(value), kind_of_value(kinds_allowed[0]),
            kinds_allowed[1] != 0 ? " or " : "",
            kinds_allowed[1] != 0 ? kind_of_value(kinds_allowed[1]) : "");
    if (c->plan->instr[index].index && (c->class->traits & UVCCI_FN_READS_INDEX) == 0)
        return uvcci_fn_refuse(
            c, UVCC_ERR_PROGRAM,
            "operand %c is instruction %u (%s), which only COMPARE and tables can read", which,
            index, name);
    return 0;
}

int uvcci_fn_check_mod(const uvcci_fn_compiler *c, char which, uint8_t index, unsigned bits) {
    assert(index < c->i && c->plan->instr[index].value == 'M');
    const unsigned mod = c->plan->instr[index].mod;
    if (mod >= bits)
        return 0;
    return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM, "operand %c has %u bits opened; %u are needed",
                           which, mod, bits);
}

int uvcci_fn_check_widths(const uvcci_fn_compiler *c, char which, uint8_t index) {
    const uint32_t wa = c->plan->instr[c->s.a].width, w = c->plan->instr[index].width;
    assert(c->s.a < c->i && index < c->i && wa != 0 && w != 0);
    if (wa == w)
        return 0;
    return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM,
                           "operand a has %u columns, %c %u; they must be equal", wa, which, w);
}

int uvcci_fn_check_one_bit(const uvcci_fn_compiler *c, char which, uint8_t index) {
    assert(index < c->i && c->plan->instr[index].value == 'B');
    const uint32_t bits = c->f->instrs[index].word_count;
    if (bits == 1)
        return 0;
    return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM, "operand %c has %u bits; it must have one", which,
                           bits);
}

/* ---- outputs ---- */

int uvcci_fn_write_output(uvcci_fn_compiler *c) {
    if (c->s.io >= c->f->outputs)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM, "there is no output %u", c->s.io);
    if (c->written & 1u << c->s.io)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM,
                               "output %u is written by an earlier instruction", c->s.io);
    c->written |= 1u << c->s.io;
    if (c->in_bits != NULL && uvcci_bits_of(c->info->bound) > UVCCI_MAX_BITS)
        return uvcci_fn_refuse(c, UVCC_ERR_BOUND,
                               "output %u needs %u bits; at most %u are possible", c->s.io,
                               uvcci_bits_of(c->info->bound), UVCCI_MAX_BITS);
    return 0;
}
