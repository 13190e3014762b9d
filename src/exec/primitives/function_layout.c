/* SPDX-License-Identifier: Apache-2.0 */
/* function_layout.c - the tables of groups of four; see function_layout.h. */
#include "exec/primitives/function_layout.h"

const uint8_t uvcci_fn_quad[UVCCI_FN_QUAD_PAIRS][2] = {{0, 1}, {0, 2}, {0, 3},
                                                       {1, 2}, {1, 3}, {2, 3}};
const uvcci_fn_candidate uvcci_fn_candidates[UVCCI_FN_QUAD_OTHERS] = {
    {{0, 1, 2}, {false, false, false}, 2},
    {{0, 3, 4}, {true, false, false}, 4},
    {{1, 3, 5}, {true, true, false}, 5},
};
