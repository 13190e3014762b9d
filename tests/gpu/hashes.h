/* SPDX-License-Identifier: Apache-2.0 */
/* hashes.h - HASH of texts of many lengths, in memory of the device, pinned memory and the host's
 * own, as a job's last task and before others: the same digests as those of the portable kernels.
 */
#ifndef UVCC_TESTS_GPU_HASHES_H
#define UVCC_TESTS_GPU_HASHES_H

#include "selftest/vectors.h"

void hashes_anywhere(const vector_executor *x);

#endif
