/* SPDX-License-Identifier: Apache-2.0 */
/* functions_impl.h - what the files of FUNCTION ops share: functions_common.c (what both need), on
 * it functions_deal.c (what OTHER deals), on both functions.c (the turns of HEAD and TAIL, and the
 * table of what sessions do for each kind of instruction). For those only. */
#ifndef UVCCI_FUNCTIONS_IMPL_H
#define UVCCI_FUNCTIONS_IMPL_H

#include "exec/ops/functions.h"
#include "exec/program/fn_class.h"

/* One instruction under construction. */
typedef struct uvcci_fn_build {
    uvcci_builder *b;
    uvcc_session *s;
    uvcci_instance *r;
    unsigned i;
    const uvcc_fn_instr *d;
    const uvcci_fn_info *info;
    uint64_t elems; /* of its value */
} uvcci_fn_build;

/* A deal under construction: what OTHER knows of each instruction's value. */
typedef struct uvcci_fn_deal {
    uvcc_session *s;
    uvcci_instance *r;
    uint8_t **keys[2]; /* [HEAD, TAIL][blocks of all rounds of keys, one after the other] */
    uint64_t **word;   /* [instruction]: M: r; B: k; of an instruction that owns a key: ... */
    uint64_t **sign;   /* ... the terminal's sign */
    uvcc_task *tasks;
    uint32_t count;
    const struct uvcci_fn_turns *turns; /* of the instruction at hand */
    bool failed;
} uvcci_fn_deal;

/* What sessions do for a kind, beside its class (program/fn_class.h). */
typedef struct uvcci_fn_turns {
    void (*start)(const uvcci_fn_build *f);  /* in its turn */
    void (*finish)(const uvcci_fn_build *f); /* in the next one, if it sends */
    void (*deal)(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s); /* NULL: nothing */
    uint8_t map;       /* of a public linear instruction: its UVCC_MAP_ */
    uint16_t key_task; /* that deals its key, where it has one */
} uvcci_fn_turns;
const uvcci_fn_turns *uvcci_fn_turns_of(uint8_t kind);

/* Elements of an instruction's value, and rows of all of them. */
static inline uint64_t uvcci_fn_elems(const uvcci_instance *r, unsigned instr) {
    const uvcci_plan *p = r->plan;
    return p->elems / p->fn->instr[0].width * p->fn->instr[instr].width;
}
static inline uint32_t uvcci_fn_rows(const uvcci_instance *r) {
    return (uint32_t)(r->plan->elems / r->plan->fn->instr[0].width);
}
static inline bool uvcci_fn_is_table_at(const uvcci_instance *r, uint8_t instr) {
    return instr != UVCC_FN_NONE && r->plan->function->instrs[instr].kind == UVCC_FN_TABLE;
}
/* functions_common.c: the call of an instruction's task, which places its PRG words. */
uint16_t uvcci_fn_call_of(unsigned i, uint16_t kind);
/* The arguments of an instruction's task; NULL: no memory. */
uvcc_fn_args *uvcci_fn_args_of(uvcci_bump *bump, const uvcci_instance *r, unsigned i,
                               uint16_t kind);
/* The columns that the map of a linear instruction counts: those of its operand, but of its value
 * where that is wider. */
uint32_t uvcci_fn_linear_cols(const uvcci_instance *r, unsigned i);

/* functions_deal.c: memory for masks, bits and signs; false: there is none. And what the table
 * points to. */
bool uvcci_fn_deal_room(uvcci_fn_deal *d);
void uvcci_fn_deal_pads(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s);
void uvcci_fn_deal_shift(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s);
void uvcci_fn_deal_linear(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s);
void uvcci_fn_deal_compare(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s);
void uvcci_fn_deal_table(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s);
void uvcci_fn_deal_select(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s);
void uvcci_fn_deal_best(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s);
void uvcci_fn_deal_mul(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s);
void uvcci_fn_deal_trunc(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s);
void uvcci_fn_deal_floor(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s);
void uvcci_fn_deal_spline(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s);
void uvcci_fn_deal_key(uvcci_fn_deal *d, unsigned i, const uvcc_fn_instr *s);

#endif
