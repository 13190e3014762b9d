/* SPDX-License-Identifier: Apache-2.0 */
/* vector_test.h - the golden vectors on an executor of a test's own: as they stand, and with other
 * operands beside the portable kernels. */
#ifndef UVCC_TESTS_GPU_VECTOR_TEST_H
#define UVCC_TESTS_GPU_VECTOR_TEST_H

#include "support.h"

#include "selftest/vectors.h"

/* Fails the test at the first result that is another. */
void vector_test_golden(const vector_executor *x);
void vector_test_random(const vector_executor *x, uint64_t seed);

#endif
