/* SPDX-License-Identifier: Apache-2.0 */
/* classes.c - the class of an opcode, out of the tables of the families. */
#include "exec/ops/families.h"

#include <assert.h>

static const uvcci_op_family *const families[] = {
    &uvcci_ops_io,          &uvcci_ops_local, &uvcci_ops_product,
    &uvcci_ops_truncate,    &uvcci_ops_relu,  &uvcci_ops_function,
    &uvcci_ops_collectives, &uvcci_ops_sks,   &uvcci_ops_one_hot,
};

const uvcci_op_class *uvcci_op_class_of(uint16_t opcode) {
    for (unsigned f = 0; f < sizeof families / sizeof families[0]; f++)
        for (unsigned i = 0; i < families[f]->count; i++)
            if (families[f]->classes[i].opcode == opcode) {
                assert(families[f]->classes[i].way != NULL);
                return &families[f]->classes[i];
            }
    return NULL;
}
