/* SPDX-License-Identifier: Apache-2.0 */
/* functions_common.c - what a task of an instruction is told of it: the same for HEAD and TAIL in
 * their turns and for OTHER when it deals, so it stands below both. */
#include "exec/ops/functions_impl.h"

#include "proto/mutant.h"
#include <assert.h>

uint16_t uvcci_fn_call_of(unsigned i, uint16_t kind) {
    const bool planted =
        UVCCI_MUTANT(34) && (kind == UVCC_TASK_FN_MUL || kind == UVCC_TASK_FN_DEAL_MUL);
    return (uint16_t)(planted ? 0 : i);
}

uvcc_fn_args *uvcci_fn_args_of(uvcci_bump *bump, const uvcci_instance *r, unsigned i,
                               uint16_t kind) {
    const uvcc_fn_instr *d = &r->plan->function->instrs[i];
    uvcc_fn_args *a = uvcci_bump_take(bump, sizeof *a);
    assert(i < r->plan->function->instr_count);
    if (a == NULL)
        return NULL;
    bool scaled = d->kind == UVCC_FN_TABLE && d->shift != 0;
    *a = (uvcc_fn_args){.bits = d->bits,
                        .shift = d->shift,
                        .exchange = d->kind == UVCC_FN_EXCHANGE,
                        .times = d->kind == UVCC_FN_TABLE && d->b != UVCC_FN_NONE && !scaled,
                        .by_table = uvcci_fn_is_table_at(r, d->c),
                        .call_key = r->plan->fn->instr[i].key,
                        .call_bits = d->kind == UVCC_FN_TABLE_MUL ? d->c : d->a,
                        .first = d->first,
                        .constant = d->constant,
                        .entry_count = d->entry_count,
                        .word_count = d->word_count,
                        .entries = d->entries,
                        .words = d->words};
    if (UVCCI_MUTANT(35) && d->kind == UVCC_FN_MULTISCALE && a->call_key != 0)
        a->call_key--;
    if (kind == UVCC_TASK_FN_OPEN_BITS)
        a->bits = (uint8_t)d->word_count;
    else if (kind == UVCC_TASK_FN_SHIFT && d->kind == UVCC_FN_SHIFT)
        a->bits = r->plan->fn->instr[d->a].mod;
    return a;
}

uint32_t uvcci_fn_linear_cols(const uvcci_instance *r, unsigned i) {
    const uvcc_fn_instr *d = &r->plan->function->instrs[i];
    const bool spreads = (uvcci_fn_class_of(d->kind)->traits & UVCCI_FN_SPREADS) != 0;
    return r->plan->fn->instr[spreads ? i : d->a].width;
}
