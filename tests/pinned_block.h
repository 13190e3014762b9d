/* SPDX-License-Identifier: Apache-2.0 */
/* pinned_block.h - the transformer block of tests/vectors/stage_program.json as a program: a test
 * of what ops wait for and how long buffers live. Ten of its opcodes are not offered: no session
 * runs them (docs/program.md says what they are lowered to), so they are known here only. */
#ifndef UVCC_TEST_PINNED_BLOCK_H
#define UVCC_TEST_PINNED_BLOCK_H

#include "support.h"
#include <uvcc/program.h>

enum {
    PINNED_RMSNORM_FWD = 34,
    PINNED_RMSNORM_BWD = 35, /* accumulates: its first output is an input too */
    PINNED_RESIDUAL_ADD = 37,
    PINNED_RESIDUAL_SPLIT = 38,
    PINNED_VIEW_SPLIT_QKV = 40,
    PINNED_VIEW_MERGE_DQKV = 41,
    PINNED_SOFTMAX_APPROX_FWD = 42,
    PINNED_SOFTMAX_BWD = 43,
    PINNED_GELU_APPROX_FWD = 44,
    PINNED_GELU_DERIV_APPROX = 45,
};

/* Its one entry, in program order, with dependencies and lives. Without sks the checks of products
 * are left out. It is for reading: nothing can run it. */
uvcc_program *pinned_block(test_alloc *counts, bool sks);

#endif
