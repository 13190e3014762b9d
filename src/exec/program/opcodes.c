/* SPDX-License-Identifier: Apache-2.0 */
/* opcodes.c - the table of opcodes, names of ops for messages, sizes of groups. */
#include "exec/program/program_impl.h"

#include <assert.h>
#include <stdio.h>
#include <uvcc/compute.h>

static const uvcci_opcode opcodes[] = {
#define UVCC_OPCODE(name, code, n_in, n_out, what) {code, n_in, n_out, #name},
#include <uvcc/opcodes.def>
#undef UVCC_OPCODE
};

const uvcci_opcode *uvcci_opcode_find(uint16_t code) {
    for (size_t i = 0; i < sizeof opcodes / sizeof opcodes[0]; i++)
        if (opcodes[i].code == code)
            return &opcodes[i];
    return NULL;
}

const char *uvcc_opcode_name(uint16_t opcode) {
    const uvcci_opcode *row = uvcci_opcode_find(opcode);
    return row != NULL ? row->name : "UNKNOWN";
}

static const char *const phase_names[] = {"FWD", "BWD", "UPD"};

const char *uvcci_op_label(const uvcci_op *op, char out[UVCCI_LABEL_BYTES]) {
    const uvcc_op_desc *d = &op->desc;
    assert(out != NULL);
    char mb[16] = "";
    if (d->mb != 0)
        snprintf(mb, sizeof mb, "mb %u ", d->mb);
    snprintf(out, UVCCI_LABEL_BYTES, "op %s%s(%s, %s %sk %u)", op->name, op->name[0] ? " " : "",
             uvcc_opcode_name(d->opcode), d->phase <= UVCC_UPD ? phase_names[d->phase] : "?", mb,
             d->k);
    return out;
}

uint32_t uvcci_group_size(const uvcc_program *p, uint8_t group) {
    switch (group) {
    case UVCC_GROUP_TP:
        return p->tp_ranks;
    case UVCC_GROUP_PP:
        return p->stages;
    case UVCC_GROUP_DP:
        return p->replicas;
    default:
        return group == UVCC_GROUP_STAGE ? p->replicas * p->tp_ranks : 0;
    }
}
