/* SPDX-License-Identifier: Apache-2.0 */
/* in_place.h - maps whose result is where an operand was (compute.md, section 9): the same as with
 * a result elsewhere, at all parties, for one component and for both. */
#ifndef UVCC_TESTS_GPU_IN_PLACE_H
#define UVCC_TESTS_GPU_IN_PLACE_H

#include "selftest/vectors.h"

void in_place_maps(const vector_executor *x);

#endif
