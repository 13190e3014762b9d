/* SPDX-License-Identifier: Apache-2.0 */
/* families.h - the families of ops: one file each, with one table of classes (op_class.h). */
#ifndef UVCCI_FAMILIES_H
#define UVCCI_FAMILIES_H

#include "exec/program/op_class.h"

extern const uvcci_op_family uvcci_ops_io;          /* io.c: inputs and outputs */
extern const uvcci_op_family uvcci_ops_local;       /* local.c: sums, public constants, shifts */
extern const uvcci_op_family uvcci_ops_product;     /* product.c: products, and resharing */
extern const uvcci_op_family uvcci_ops_truncate;    /* truncate.c */
extern const uvcci_op_family uvcci_ops_relu;        /* relu.c */
extern const uvcci_op_family uvcci_ops_function;    /* function_op.c */
extern const uvcci_op_family uvcci_ops_collectives; /* collectives.c: between workers */
extern const uvcci_op_family uvcci_ops_sks;         /* sks.c: checks of products */
extern const uvcci_op_family uvcci_ops_one_hot; /* one_hot.c: rows that a party's numbers name */

/* Of a family's table. */
#define UVCCI_FAMILY(table)                                                                        \
    { (table), sizeof(table) / sizeof *(table) }

#endif
