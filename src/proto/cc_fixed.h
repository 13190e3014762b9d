/* SPDX-License-Identifier: Apache-2.0 */
/* cc_fixed.h - no controller: a configured rate, or none. For private links only. */
#ifndef UVCCI_CC_FIXED_H
#define UVCCI_CC_FIXED_H

#include "proto/cc.h"

extern const uvcci_cc_class uvcci_cc_fixed;

#endif
