/* sks.c - what a program with checked products must be; see sks.h. */
#include "exec/program/sks.h"

#include <string.h>

uvcci_sks_shape uvcci_sks_shape_of(const uvcc_program *p, const uvcc_op_desc *op) {
    const uvcc_tensor_desc *a = &p->tensors[op->in[0]].desc, *b = &p->tensors[op->in[1]].desc;
    const bool ta = (op->flags & UVCC_OP_TRANS_A) != 0, tb = (op->flags & UVCC_OP_TRANS_B) != 0;
    return (uvcci_sks_shape){.rows = ta ? a->cols : a->rows,
                             .inner = ta ? a->rows : a->cols,
                             .cols = tb ? b->rows : b->cols};
}

static bool same_tensors(const uvcc_op_desc *a, const uvcc_op_desc *b) {
    return memcmp(a->in, b->in, 3 * sizeof a->in[0]) == 0;
}

uint32_t uvcci_sks_start_of(const uvcci_entry *e, uint32_t i) {
    const uvcc_op_desc *d = &e->ops[i].desc;
    for (uint32_t j = i; j-- > 0;) {
        const uvcci_op *op = &e->ops[j];
        if (op->desc.opcode == UVCC_OP_SKS_START && op->partner == UVCCI_NO_OP &&
            same_tensors(&op->desc, d))
            return j;
    }
    return UVCCI_NO_OP;
}

int uvcci_sks_check_start(const uvcci_entry *e, uint32_t i, uint32_t writer,
                          const uvcci_message *m) {
    char label[UVCCI_LABEL_BYTES], other[UVCCI_LABEL_BYTES];
    const uvcci_op *op = &e->ops[i];
    if (writer == UVCCI_NO_OP)
        return uvcci_fail(m, UVCC_ERR_PROGRAM, "%s: no op of entry %s makes the product it checks",
                          uvcci_op_label(op, label), e->name);
    const uvcci_op *made = &e->ops[writer];
    if (made->desc.opcode != UVCC_OP_GEMM_SS || made->desc.shift != 0 || made->desc.heads != 0)
        return uvcci_fail(m, UVCC_ERR_PROGRAM,
                          "%s checks what %s makes; it must be one GEMM_SS without a shift",
                          uvcci_op_label(op, label), uvcci_op_label(made, other));
    const uint8_t transposes = UVCC_OP_TRANS_A | UVCC_OP_TRANS_B;
    bool same = ((made->desc.flags ^ op->desc.flags) & transposes) == 0;
    for (unsigned k = 0; k < 2; k++)
        same =
            same && made->desc.in[k] == op->desc.in[k] && made->in_version[k] == op->in_version[k];
    if (!same)
        return uvcci_fail(m, UVCC_ERR_PROGRAM,
                          "%s: %s multiplies other tensors, or they have changed since",
                          uvcci_op_label(op, label), uvcci_op_label(made, other));
    return 0;
}

int uvcci_sks_check_waits(const uvcci_entry *e, const uvcci_message *m) {
    char label[UVCCI_LABEL_BYTES];
    for (uint32_t i = 0; i < e->op_count; i++)
        if (e->ops[i].desc.opcode == UVCC_OP_SKS_START && e->ops[i].partner == UVCCI_NO_OP)
            return uvcci_fail(m, UVCC_ERR_PROGRAM,
                              "%s: no SKS_GEMM_CHECK after it waits for its verdict",
                              uvcci_op_label(&e->ops[i], label));
    return 0;
}
