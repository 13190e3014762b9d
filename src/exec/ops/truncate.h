/* SPDX-License-Identifier: Apache-2.0 */
/* truncate.h - truncations as gates, for the ops that end in one. */
#ifndef UVCCI_TRUNCATE_H
#define UVCCI_TRUNCATE_H

#include "exec/ops/gate.h"

extern const uvcci_gate_kind uvcci_truncation;
/* Its rounds: by the op's shift, of what is opened by that protocol. */
void uvcci_truncation_plan(uvcci_draft *d, uvcci_protocol open);

#endif
