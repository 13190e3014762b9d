/* SPDX-License-Identifier: Apache-2.0 */
/* function_compile.c - a function checked and compiled: operands, rounds, bounds, masks. What is
 * particular to a kind of instruction stands in its class (function_kinds.c), the checks that both
 * make in function_checks.c. */
#include "exec/program/function_impl.h"

#include <assert.h>
#include <string.h>

/* ---- operands ---- */

static int check_operands(const uvcci_fn_compiler *c) {
    const uvcci_fn_class *row = c->class;
    int err = row->a != NULL ? uvcci_fn_check_operand(c, 'a', c->s.a, row->a) : 0;
    if (err == 0 && row->third != NULL)
        err = row->third(c);
    if (err != 0 || row->b == NULL)
        return err;
    const bool two_scales = (row->uses & UVCCI_FN_USES_FACTORS) != 0 && c->s.shift != 0;
    if (c->s.b == UVCC_FN_NONE && row->b_optional && !two_scales)
        return 0;
    err = uvcci_fn_check_operand(c, 'b', c->s.b, two_scales ? "M" : row->b);
    if (err != 0)
        return err;
    const uint32_t wa = c->plan->instr[c->s.a].width;
    if ((row->traits & UVCCI_FN_SPREADS) != 0)
        return wa == 1 ? 0
                       : uvcci_fn_refuse(c, UVCC_ERR_PROGRAM,
                                         "operand a has %u columns; it must have one", wa);
    return uvcci_fn_check_widths(c, 'b', c->s.b);
}

/* ---- the list ---- */

static uint8_t available(const uvcci_fn_info *info) {
    return (uint8_t)(info->turn + info->sends);
}

/* The instruction starts when its operands are there, and they must last until then. Late factors
 * are wanted after its round only. */
static void set_turn(uvcci_fn_compiler *c) {
    const unsigned late = (c->class->traits & UVCCI_FN_LATE_FACTORS) != 0;
    const uint8_t operands[3] = {c->s.a, c->s.b, c->s.c};
    const unsigned later[3] = {0, late, late};
    for (unsigned o = 0; o < 3; o++)
        if (operands[o] != UVCC_FN_NONE &&
            available(&c->plan->instr[operands[o]]) > c->info->turn + later[o])
            c->info->turn = (uint8_t)(available(&c->plan->instr[operands[o]]) - later[o]);
    for (unsigned o = 0; o < 3; o++)
        if (operands[o] != UVCC_FN_NONE &&
            c->plan->instr[operands[o]].last < c->info->turn + later[o])
            c->plan->instr[operands[o]].last = (uint8_t)(c->info->turn + later[o]);
    c->info->last = available(c->info);
    if (c->info->sends && c->info->turn >= c->plan->rounds)
        c->plan->rounds = (uint8_t)(c->info->turn + 1);
}

static int compile_instr(uvcci_fn_compiler *c, uint32_t cols) {
    const uvcci_fn_class *row = c->class;
    if (row == NULL)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM, "kind %u is unknown", c->s.kind);
    int err = check_operands(c);
    if (err != 0)
        return err;
    *c->info = (uvcci_fn_info){
        .value = row->value,
        .sends = row->sends != NULL,
        .width = c->s.a != UVCC_FN_NONE ? c->plan->instr[c->s.a].width : cols,
        .key = UVCC_FN_NONE,
    };
    set_turn(c);
    c->plan->one_edge |= (row->traits & UVCCI_FN_ONE_EDGE) != 0;
    err = row->compile(c);
    assert(err != 0 ||
           (c->info->width != 0 && (c->info->key == UVCC_FN_NONE) == (row->key_bytes == NULL)));
    return err;
}

/* Who needs the masks; readers come after what they read, so from the last instruction to the
 * first. */
static void mark_masks(const uvcc_function *f, uvcci_fn_info *info) {
    for (unsigned i = f->instr_count; i-- > 0;) {
        const uvcc_fn_instr s = uvcci_fn_canonical(&f->instrs[i]);
        const uvcci_fn_class *class = uvcci_fn_class_of(s.kind);
        assert(class != NULL && info[i].last >= info[i].turn);
        if (class->masks != NULL)
            class->masks(&s, &info[i], info);
    }
}

static int check_head(const uvcc_function *f, uint32_t cols, const uint8_t *in_bits,
                      const uvcci_message *m) {
    if (f == NULL || f->instrs == NULL || cols == 0)
        return uvcci_fail(m, UVCC_ERR_USAGE, "there is no function, or its inputs have no columns");
    const char *name = uvcci_fn_name(f);
    if (f->instr_count > UVCC_FN_INSTRS_MAX)
        return uvcci_fail(m, UVCC_ERR_LIMIT,
                          "function %s has %u instructions; at most %u are possible", name,
                          f->instr_count, UVCC_FN_INSTRS_MAX);
    if (f->inputs < 1 || f->inputs > UVCC_OP_MAX_IN || f->outputs < 1 ||
        f->outputs > UVCC_OP_MAX_OUT)
        return uvcci_fail(m, UVCC_ERR_PROGRAM,
                          "function %s has %u inputs and %u outputs; 1 to %u and 1 to %u are "
                          "possible",
                          name, f->inputs, f->outputs, UVCC_OP_MAX_IN, UVCC_OP_MAX_OUT);
    for (unsigned i = 0; in_bits != NULL && i < f->inputs; i++)
        if (in_bits[i] < 1 || in_bits[i] > 63)
            return uvcci_fail(m, UVCC_ERR_PROGRAM,
                              "function %s: input %u declares %u bits; 1 to 63 are possible", name,
                              i, in_bits[i]);
    return 0;
}

/* Instructions in their order, each from what is known of those before it; then, from the last to
 * the first, whose masks are wanted. */
int uvcci_fn_compile(const uvcc_function *f, uint32_t cols, const uint8_t *in_bits,
                     uvcci_fn_plan *plan, char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    memset(plan, 0, sizeof *plan);
    int err = check_head(f, cols, in_bits, &m);
    if (err != 0)
        return err;
    uvcci_fn_compiler c = {.f = f, .in_bits = in_bits, .plan = plan, .m = &m};
    for (; c.i < f->instr_count && err == 0; c.i++) {
        c.s = uvcci_fn_canonical(&f->instrs[c.i]);
        c.class = c.classes[c.i] = uvcci_fn_class_of(c.s.kind);
        c.info = &plan->instr[c.i];
        err = compile_instr(&c, cols);
    }
    if (err != 0)
        return err;
    for (unsigned i = 0; i < f->inputs; i++)
        if (!(c.opened & 1u << i))
            return uvcci_fail(&m, UVCC_ERR_PROGRAM, "function %s: no instruction opens input %u",
                              uvcci_fn_name(f), i);
    for (unsigned i = 0; i < f->outputs; i++)
        if (!(c.written & 1u << i))
            return uvcci_fail(&m, UVCC_ERR_PROGRAM, "function %s: no instruction writes output %u",
                              uvcci_fn_name(f), i);
    mark_masks(f, plan->instr);
    return uvcci_fail(&m, 0, "%s", "");
}
