/* SPDX-License-Identifier: Apache-2.0 */
/* cc_cubic.h - CUBIC of RFC 9438, paced: the second controller, for paths shared with others that
 * judge by loss. */
#ifndef UVCCI_CC_CUBIC_H
#define UVCCI_CC_CUBIC_H

#include "proto/cc.h"

extern const uvcci_cc_class uvcci_cc_cubic;

/* Of the RFC's formulas, for tests: the window (bytes) t_ms after an epoch began, and K, the time
 * at which it is w_max again, for a window of `start` at the epoch's beginning. */
uint64_t uvcci_cubic_window(uint64_t w_max, uint64_t k_ms, uint64_t t_ms, uint32_t segment);
uint64_t uvcci_cubic_k_ms(uint64_t w_max, uint64_t start, uint32_t segment);

#endif
