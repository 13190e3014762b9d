/* SPDX-License-Identifier: Apache-2.0 */
/* program_impl.h - what the files that make a program share: builder.c (building, finish, reading),
 * checks.c (what it must be), order.c (the tables of program.h), hash.c. For those only. */
#ifndef UVCCI_PROGRAM_IMPL_H
#define UVCCI_PROGRAM_IMPL_H

#include "exec/base/message.h"
#include "exec/program/program.h"

/* A row of opcodes.def. */
typedef struct uvcci_opcode {
    uint16_t code;
    int8_t n_in, n_out;
    const char *name;
} uvcci_opcode;
/* NULL: there is no such opcode. */
const uvcci_opcode *uvcci_opcode_find(uint16_t code);

/* Whether the op reads desc.constant. */
bool uvcci_uses_constant(const uvcc_op_desc *d);

/* Part of a list; there is none before something was added to it. */
static inline const uvcc_io_desc *uvcci_io_from(const uvcc_io_desc *list, uint32_t first) {
    return list != NULL ? list + first : NULL;
}

static inline uint32_t uvcci_microbatches_of(const uvcc_program *p, const uvcci_entry *e) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < e->user_count; i++) {
        const uvcc_op_desc *d = &p->user_ops[e->user_first + i].desc;
        if (d->phase != UVCC_UPD && d->mb > most)
            most = d->mb;
    }
    for (uint32_t i = 0; i < e->input_count; i++)
        if (p->inputs[e->input_first + i].mb > most)
            most = p->inputs[e->input_first + i].mb;
    return most + 1;
}

/* checks.c: one tensor, one function, one entry; what products add up to in additive tensors, once
 * the entry's ops stand in order. 0, or an error that the message explains. */
int uvcci_check_tensor(uvcc_program *p, uint32_t i, const uvcci_message *m);
int uvcci_check_instructions(const uvcc_function *f, const uvcci_message *m);
int uvcci_check_entry(const uvcc_program *p, uint32_t index, const uvcci_message *m);
int uvcci_check_sums(uvcc_program *p, const uvcci_entry *e, const uvcci_message *m);
/* order.c: the tables of a checked entry. They are freed with it. */
int uvcci_order_entry(uvcc_program *p, uvcci_entry *e, const uvcci_message *m);
/* hash.c: fills p->hash. */
void uvcci_hash_program(uvcc_program *p);

#endif
