/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_names.h - a program's tensors by their names: uvcc_program.by_name. */
#ifndef UVCCI_TENSOR_NAMES_H
#define UVCCI_TENSOR_NAMES_H

#include "exec/program/program.h"

uint32_t uvcci_hash_name(const char *name);
/* Enters tensor i, behind p->tensor_count tensors that are entered, with its name and name_hash. 0
 * or UVCC_ERR_NOMEM, and nothing changed. */
int uvcci_tensor_names_put(uvcc_program *p, uint32_t i);
/* The first tensor of that name, or UVCC_NO_TENSOR. */
uint32_t uvcci_tensor_named(const uvcc_program *p, const char *name);

#endif
