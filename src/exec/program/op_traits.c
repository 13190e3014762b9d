/* SPDX-License-Identifier: Apache-2.0 */
/* op_traits.c - questions about an op whose answer its class has. */
#include "exec/program/op_class.h"
#include "exec/program/program_impl.h"

bool uvcci_is_product(uint16_t opcode) {
    return uvcci_op_has(opcode, UVCCI_IS_PRODUCT);
}

bool uvcci_truncates(const uvcc_op_desc *d) {
    return d->shift != 0 && uvcci_op_has(d->opcode, UVCCI_TRUNCATES);
}

bool uvcci_is_collective(uint16_t opcode) {
    return uvcci_op_has(opcode, UVCCI_IS_COLLECTIVE);
}

bool uvcci_uses_constant(const uvcc_op_desc *d) {
    const uvcci_op_class *c = uvcci_op_class_of(d->opcode);
    return c != NULL &&
           ((c->traits & UVCCI_USES_CONSTANT) != 0 || (d->flags & c->constant_flag) != 0);
}
